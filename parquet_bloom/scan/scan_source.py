"""The files of a dataset, and the evidence kept beside them: what every scan of it begins with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ..errors import NoFilesError, ParquetBloomError, StorageError, UnreadableColumnError
from ..file.bloom_file import BloomFile
from ..file.column_statistics import ColumnCompatibility
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..predicate.map_lookup import find_evidence_columns
from ..predicate.tree import Node
from ..redaction import shown_redacted
from ..storage import (
    Entry,
    RequestCount,
    as_path_list,
    entry_for_identity,
    is_local,
    is_url,
    list_entries,
    resolve_filesystem,
)
from ..storage.confined import ConfinedFiles, is_in_place, leads_inside
from ..storage.paths import as_arrow_filesystem, resolve_given_path
from ..tables.names_in_files import is_same_column
from ..tables.open_table import find_table
from ..tables.table_footers import TableFooters, as_table_footers
from ..util.arrow_values import empty_table
from ..util.lazy import late_module
from ..util.threads import processors
from ..variant.variant_type import is_variant, show_json
from .compatibility import DatasetCompatibility
from .decode.open_data import open_file
from .model.column_defaults import ColumnDefaults
from .model.file_schemas import arrow_schema, map_in_threads, reading, unify_schemas
from .model.folder_partitions import Partitions
from .model.scan_plan import SourceListing
from .named_columns import has_column, require_same_columns, spell_columns
from .plan.file_level import ListedObjects, LocalFiles
from .plan.plan_scan import DefaultsEvaluator, Evidence, plan_scan
from .plan.statistics_level import cache_footers
from .plan_report import PruneReport
from .scan_options import ScanOptions

if TYPE_CHECKING:
    import pyarrow.fs as fs

    from ..lake.index_pruning import Means
    from ..tables.table_snapshot import Table
    from ..util.given_types import FileSystem, Paths
    from .plan import index_level, zone_level
    from .plan.index_level import Index, IndexView
    from .plan.zone_level import Zones
else:
    fs = late_module("pyarrow.fs")
    index_level = late_module("parquet_bloom.scan.plan.index_level")
    zone_level = late_module("parquet_bloom.scan.plan.zone_level")


_PATH = attrgetter("path")


@shown_redacted
@dataclass(frozen=True)
class ScanSource:
    """The files of a dataset; they are listed anew for each scan, so that it sees files that were added meanwhile.

    Attributes
    ----------
    paths : as in `prune`; None for the live files of `index`, or of `table`. Before `resolve` also what the caller
        gives: a table, or a LakeIndex for its live files.
    table : a Delta or Iceberg table, whose files these are; None for others.
    filesystem : of the files.
    storage_options, index, zones, partitioning, cache : as in `prune`.
    partition_columns : the partition columns of a dataset, with its types; None to find them in the paths, for each
        scan. A file outside of their folders is an error: its rows would make the column disappear.
    table_schema : the schema of a dataset over a table, which must not change; None for the table's schema.
    variant : "json" to show Variants as JSON; None for structs, as pyarrow gives them.
    """

    paths: Any
    filesystem: FileSystem | None = None
    storage_options: Mapping[str, object] | None = field(default=None, repr=False)
    index: Index | None = None
    zones: Zones | None = None
    partitioning: Literal["hive"] | None = "hive"
    cache: MetadataCache | None = SHARED_CACHE
    partition_columns: pa.Schema | None = None
    table: Table | None = None
    table_schema: pa.Schema | None = None
    variant: Literal["json"] | None = None

    def resolve(self) -> ScanSource:
        """Check what a caller gives; return the source with its paths and file system resolved, or its table found."""
        source, filesystem, storage_options, index = self.paths, self.filesystem, self.storage_options, self.index
        partitioning, cache = self.partitioning, self.cache
        module = sys.modules.get("parquet_bloom.lake.lake_reader")  # a caller that has an index has imported it
        if module is not None and isinstance(source, module.LakeIndexReader):
            if index is not None and index is not source:
                raise ParquetBloomError("the source is a lake index already; leave out index=")
            source, index = None, source
        table = None if source is None else find_table(source, storage_options)
        if table is not None:
            source = partitioning = None
            if filesystem is None:
                storage_options = storage_options or table.storage_options
        elif source is None and index is None:
            raise StorageError("a path is a string or a path object, not NoneType; with index= it may be left out")
        if partitioning not in ("hive", None):
            raise ParquetBloomError(f"partitioning must be 'hive' or None, got {partitioning!r}")
        if self.variant not in ("json", None):
            raise ParquetBloomError(f"variant must be 'json' or None, got {self.variant!r}")
        if not isinstance(cache, MetadataCache | None):
            kind = type(cache).__name__
            problem = f"cache must be a MetadataCache or None, got {kind}; DiskMetadataCache opens one in a folder"
            raise ParquetBloomError(problem)
        if not isinstance(source, str | os.PathLike | None):
            source = [resolve_given_path(path, filesystem) for path in as_path_list(source)]  # listed for each scan
        source = resolve_given_path(source, filesystem)
        filesystem = resolve_filesystem(filesystem, storage_options)
        return replace(
            self,
            paths=source,
            filesystem=filesystem,
            storage_options=storage_options,
            index=index,
            partitioning=partitioning,
            table=table,
        )

    def show(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of rows whose files or table have a schema."""
        return schema if self.variant is None else show_json(schema)

    def __reduce__(self) -> tuple[object, ...]:
        # A cache in memory stays in its process; what is unpickled uses the shared one of the process that it gets to.
        fields = dict(self.__dict__)
        if type(self.cache) is MetadataCache:
            del fields["cache"]
        return _restore, (type(self), fields)

    def with_table_schema(self, schema: pa.Schema) -> ScanSource:
        """Return the source of a dataset over a table, whose columns must stay as they are in a schema."""
        return replace(self, table_schema=schema)

    def show_microseconds(self, schema: pa.Schema) -> ScanSource:
        """Return the source of a dataset with a given schema; by that it shows INT96 timestamps as microseconds.

        It does where the schema has timestamps, none of them in nanoseconds. They cover all years, nanoseconds only
        those from 1677 to 2262, and which ones a file has does not show before its rows are read.
        """
        units = {unit for field in schema for unit in _list_units(field.type)}
        if not units or "ns" in units or self.find_table() is not None:
            return self
        return replace(self, cache=as_table_footers(self.cache, None))

    def without_files(self) -> ScanSource:
        """Return the source for those who have a plan already: no files, but how rows are shown."""
        return replace(self, paths=[], index=None, zones=None, table=None)

    @property
    def cuts_fractions(self) -> bool:
        """Whether INT96 timestamps are shown without what is below microseconds, though this is stored and hashed."""
        return isinstance(self.cache, TableFooters)

    def with_partitions(self, names: Sequence[str], schema: pa.Schema) -> ScanSource:
        """Return the source of a dataset with a schema, which has these partition columns now."""
        columns = pa.schema([schema.field(name) for name in names if name in schema.names])
        return replace(self, partition_columns=columns)

    def find_table(self) -> Table | None:
        """Return the table whose files these are, which may be that of an index; None for files of no table."""
        if self.table is not None or self.paths is not None:
            return self.table
        with self._open_index(set()) as view:
            return None if view is None or view.of_table is None else view.of_table[1]

    def list_files(self) -> SourceListing:
        """List the files now."""
        if self.index is None:
            return self._list(None)
        with self._open_index(set()) as view:
            return self._list(view) if view is None or view.of_table is None else self._of_table(view).list_files()

    def plan(
        self,
        node: Node | None,
        options: ScanOptions,
        schema: pa.Schema | None = None,
    ) -> PruneReport:
        """List the files, and plan a scan of them; see `prune`.

        Parameters
        ----------
        node : the predicate; None for all rows.
        schema : of a dataset: its columns are valid even if no file has them, unless `options` say which are; None for
            the files' own.
        """
        columns = set() if node is None else find_evidence_columns(node)
        if schema is not None:
            named = options.named or partial(has_column, schema, case_sensitive=not options.ignore_case)
            trusted = DatasetCompatibility.of(schema, columns) if self.cuts_fractions and columns else None
            options = replace(options, named=named, trust=trusted)
        asked, cache, listing, means = options, self.cache, None, None
        if self.table is not None:
            listing = self._list_table(self.table)
            table = listing.table
            assert table is not None
            node = spell_columns(node, table.schema, options.ignore_case, resolved=options.trust is not None)
            columns = set() if node is None else find_evidence_columns(node)
            trust = options.trust or DatasetCompatibility.of(table.schema, columns)
            options = replace(options, ignore_case=False, named=lambda _: True, trust=trust)
            cache, means = as_table_footers(cache, table.columns), partial(is_same_column, table.columns)
        with ExitStack() as evidence:
            view = zones = None
            if self.index is not None:
                view = evidence.enter_context(self._open_index(columns, options.trust, means))
            if view is not None and view.of_table is not None:
                report = self._of_table(view).plan(node, asked)
                report.requests += view.requests
                report.bytes_read += view.bytes_read
                return report
            if self.zones is not None:
                zones = evidence.enter_context(zone_level.open_zone_indexes(self.zones, self.filesystem))
            listing = listing or self._list(view)
            if self.partitioning is None and options.named is None:
                options = replace(options, named=lambda name: any(f"{name}=" in file.path for file in listing.entries))
            defaults = None
            if self.table is not None and asked.trust is None:  # an engine compares by rules of its own
                defaults = DefaultsEvaluator(ColumnDefaults(listing.table, options.timezone))
            levels = Evidence(index=view, defaults=defaults, zones=zones)
            return plan_scan(listing, node, options, PruneReport, cache, levels)

    def _open_index(
        self, columns: set[str], trust: ColumnCompatibility | None = None, means: Means | None = None
    ) -> AbstractContextManager[IndexView | None]:
        """Open the index for a query of some columns."""
        assert trust is None or isinstance(trust, DatasetCompatibility)
        return index_level.open_lake_index(
            self.index,
            self.filesystem,
            self.storage_options,
            of_lake=self.paths is None and self.table is None,
            trusted=None if trust is None else trust.is_same,
            means=means,
            columns=columns,
        )

    def _of_table(self, view: IndexView) -> ScanSource:
        """Return the same source as one of the table that the index is over, whose own files these are."""
        assert view.of_table is not None
        index, table = view.of_table
        filesystem = index.lake_filesystem if self.filesystem is None else self.filesystem
        return replace(self, index=index, table=table, filesystem=filesystem, partitioning=None)

    def _list(self, view: IndexView | None) -> SourceListing:
        if self.table is not None:
            return self._list_table(self.table)
        filesystem, paths, cache, requests = self.filesystem, self.paths, self.cache, RequestCount()
        identity = cache.last_identity(paths) if cache is not None and isinstance(paths, str) else None
        if paths is None:
            assert view is not None
            filesystem, paths, entries = view.list_files(filesystem)
        elif identity is not None and entry_for_identity(paths, filesystem, identity):
            entries = [Entry(paths)]  # an object that was opened before is no folder: listing it would waste a request
        else:
            entries = list_entries(paths, filesystem, requests=requests)
        partitions = self.find_partitions(list(map(_PATH, entries)), paths)
        return SourceListing(entries, filesystem, partitions, requests=requests.number)

    def find_partitions(self, files: Sequence[str], given: Paths) -> Partitions:
        """Return the partition columns of files; see `Partitions`."""
        return Partitions(files, given, self.partition_columns) if self.partitioning else Partitions(())

    def _list_table(self, table: Table) -> SourceListing:
        snapshot = table.read_snapshot()
        if self.table_schema is not None:
            require_same_columns(snapshot.schema, self.table_schema, table.name)
        paths = [file.path for file in snapshot.files]
        partitions = Partitions.of_table(paths, snapshot.partition_values)
        filesystem = self.filesystem
        if any(map(is_url, paths)):
            if filesystem is None:
                filesystem = resolve_filesystem(None, snapshot.storage_options)
            arrow = as_arrow_filesystem(filesystem)
            if arrow is not None and not isinstance(arrow, fs.PyFileSystem):
                problem = "its files have URLs, which file systems of pyarrow do not open"
                way_out = "leave out filesystem=, or give the store's settings as storage_options="
                raise ParquetBloomError(f"{problem}: {way_out}", path=table.name)
        return SourceListing([Entry(path) for path in paths], filesystem, partitions, snapshot)


def _list_units(arrow_type: pa.DataType) -> list[str]:
    """Return the units of the timestamps that a type has or contains."""
    if pa.types.is_timestamp(arrow_type):
        return [arrow_type.unit]
    return [unit for number in range(arrow_type.num_fields) for unit in _list_units(arrow_type.field(number).type)]


def _restore(kind: type[ScanSource], fields: Mapping[str, Any]) -> ScanSource:
    """Make a source that was pickled."""
    return kind(**fields)


def fix_schema(source: ScanSource, schema: pa.Schema | None = None) -> tuple[ScanSource, pa.Schema]:
    """Return the source of a dataset, whose partition columns stay as they are now, and the dataset's schema.

    Without `schema` it is the unified schema of the files; of an index's files, the schema of the first one. Footers
    are read for it, and cached with those that planning reads. With an index, files need not be opened, and there may
    be a million of them.

    Raises
    ------
    ParquetBloomError
        There are no files, or one cannot be read, or their columns do not fit into one schema.
    """
    listing = source.list_files()
    entries = listing.entries
    if listing.table is not None:
        shown = source.show(listing.table.schema) if schema is None else schema
        return source.with_table_schema(listing.table.schema), shown
    if schema is not None:
        return source.with_partitions(listing.partitions.schema.names, schema) if entries else source, schema
    if not entries:
        problem = "no files to scan (in Python, schema= makes a dataset of none)"
        raise NoFilesError(problem, path=None if source.paths is None else str(source.paths))
    if source.index is not None:
        entries = entries[:1]

    def read_schema(entry: Entry) -> pa.Schema:
        with open_file(entry.path, listing.filesystem, source.cache, entry) as file:
            return file.schema

    remote = not is_local(listing.filesystem, [entry.path for entry in entries])
    footers: list[BloomFile | None] = [None] * len(entries)
    if source.cache is not None and remote:
        footers = cache_footers(ListedObjects(entries, source.cache, fail_fast=True))
    elif source.cache is not None:
        footers = _cache_local_footers([entry.path for entry in entries], listing.filesystem, source.cache)
    unread = [entry for entry, file in zip(entries, footers, strict=True) if file is None]
    read = iter(map_in_threads(read_schema, unread, remote=remote))
    schemas = []
    for file in footers:
        with reading(file) if file is not None else nullcontext():
            schemas.append(next(read) if file is None else arrow_schema(file))
    schema = listing.partitions.add_columns(empty_table(unify_schemas(list(map(source.show, schemas))))).schema
    return source.with_partitions(listing.partitions.schema.names, schema), schema


def fix_row_schema(source: ScanSource, schema: pa.Schema | None = None) -> tuple[ScanSource, pa.Schema]:
    """Return the source and the schema of rows, as `fix_schema` does, of a lake whose files may become others.

    Unless the schema is given, its columns may be null: a file that is added later may lack any.

    Raises
    ------
    ParquetBloomError
        As in `fix_schema`.
    UnreadableColumnError
        Two columns have one name.
    """
    is_given = schema is not None
    if schema is not None:
        source = source.show_microseconds(schema)
    source, schema = fix_schema(source, schema)
    schema = schema if is_given else _make_nullable(schema)
    names = schema.names
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableColumnError("a dataset cannot have two columns of one name", column=twice)
    return source, schema


def _make_nullable(schema: pa.Schema) -> pa.Schema:
    fields = [_make_field_nullable(field) for field in schema]
    return pa.schema(fields, schema.metadata)


def _make_field_nullable(field: pa.Field) -> pa.Field:
    """Return a field that may be null, and so all the leaves of a struct that is no Variant."""
    if pa.types.is_struct(field.type) and not is_variant(field.type):
        field = field.with_type(pa.struct([_make_field_nullable(member) for member in field.type]))
    return field.with_nullable(True)


def _cache_local_footers(
    paths: Sequence[str], filesystem: FileSystem | None, cache: MetadataCache
) -> list[BloomFile | None]:
    """Read the footers of files into a cache; None for files that have to be opened one by one."""
    has_to_ask = isinstance(filesystem, ConfinedFiles)
    inside = [path for path in paths if not has_to_ask or leads_inside(path, filesystem)]
    footers = cache_footers(LocalFiles(inside, cache, processors()))
    files = {
        path: file
        for path, file in zip(inside, footers, strict=True)
        if file is not None and not (has_to_ask and not is_in_place(path, filesystem, file.source.identity))
    }
    return [files.get(path) for path in paths]
