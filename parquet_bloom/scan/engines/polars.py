"""Parquet and ORC files as a polars LazyFrame that reads only the row groups its filters need.

polars gives its source the predicate of a query. The part of it that can be translated (`polars_predicate`) selects the
row groups. polars filters the rows read by the whole predicate, so parts that cannot be translated cost only time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from ...errors import ParquetBloomError, UnreadableColumnError
from ...file.cache.memory import SHARED_CACHE, MetadataCache
from ...predicate import tree
from ...predicate.tree import Node
from ...storage import Entry, is_local, list_entries, resolve_filesystem
from ...util.threads import AHEAD, in_order
from ..evaluate.lake_index import open_lake_index
from ..evaluate.object_batch import read_footers
from ..evaluate.planner import plan_scan
from ..evaluate.zones import open_zone_indexes
from ..model.data_file import DataFile
from ..model.partitions import Partitions, parse_partitions
from ..model.plan import FilePlan, refuse_deleted_rows
from ..model.row_selection import RowSelection
from ..model.schemas import map_in_threads, promote_table, unify_schemas
from ..read.open import open_entry, open_version
from ..read.parquet import ParquetData
from . import polars_predicate

if TYPE_CHECKING:
    from ..evaluate.lake_index import Index
    from ..evaluate.zones import Zones


def scan_polars(
    paths: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    cache: MetadataCache | None = SHARED_CACHE,
    partitioning: Literal["hive"] | None = "hive",
    index: Index | None = None,
    zones: Zones | None = None,
) -> Any:
    """Return Parquet and ORC files as a polars LazyFrame, whose filters select row groups by statistics and filters.

    Parameters
    ----------
    paths : a file, a folder, or a list of them, which are listed now, and their footers read for the schema. None for
        the live files of `index`.
    filesystem, storage_options, timezone, cache, partitioning : as in `prune`. With a cache the footers are read once,
        for schema and filters.
    index, zones : as in `prune`; each query uses them, and opens those that are given by their paths anew. If zones
        leave some rows of a row group, only the pages with these rows are read.

    Returns
    -------
    polars.LazyFrame
        The rows of all files in file order; columns that differ between files are promoted, and partition columns
        added, as in `read_table`. Filters, projections and leading slices are pushed down to the files. Every filter
        that polars pushes down is applied to the rows read; comparisons of a bare column with literals, under `&`,
        `|`, `~`, also select the row groups before.

    Raises
    ------
    ParquetBloomError
        As in `prune`; polars is not installed; or the files' columns do not fit into one schema.
    """
    pl = _import_polars()
    filesystem = resolve_filesystem(filesystem, storage_options)
    deletes: frozenset[str] = frozenset()
    index_files = paths is None
    if index_files:
        with open_lake_index(index, filesystem, storage_options, of_lake=True) as view:
            assert view is not None
            filesystem, paths, entries = view.list_files(filesystem)
            files = [entry.path for entry in entries]
            partitions = view.keep_confirmed(parse_partitions(files, partitioning, paths), entries)
            deletes = view.deletes
    else:
        entries = list_entries(paths, filesystem)
        partitions = parse_partitions([entry.path for entry in entries], partitioning, paths)
    if not entries:
        raise ParquetBloomError("there are no files to scan")
    options = {"timezone": timezone, "cache": cache}
    relist = None if index_files else partial(list_entries, paths, filesystem)
    source = _Source(pl, entries, filesystem, partitions, options, index, zones, deletes, relist)
    return pl.io.plugins.register_io_source(source.read_frames, schema=source.dtypes)


def _import_polars() -> Any:
    try:
        import polars
        import polars.io.plugins
    except ImportError:
        raise ParquetBloomError("scan_polars needs polars 1.20 or newer, which is not installed") from None
    return polars


_MAX_CONCURRENT_FILES = 16  # in object stores
_MAX_CONCURRENT_BYTES = 256 * 1024 * 1024  # of these files, as they are stored
_UNKNOWN_FILE_BYTES = 128 * 1024 * 1024  # assumed size of a file of unknown size


class _SelectedFile(NamedTuple):
    """A file to read, and its plan; None for all row groups."""

    entry: Entry
    plan: FilePlan | None


class _Source:
    """An IO source of polars that reads files.

    Attributes
    ----------
    dtypes : polars' schema of the rows.
    """

    def __init__(
        self,
        pl: Any,
        entries: list[Entry],
        filesystem: Any,
        partitions: Partitions,
        options: dict[str, Any],
        index: Index | None,
        zones: Zones | None,
        deletes: frozenset[str],
        relist: Callable[[], list[Entry]] | None,
    ):
        self._pl = pl
        self._deletes = deletes  # files of which rows may have been deleted
        self._filesystem = filesystem
        self._partitions = partitions
        self._options = options  # of `plan_scan`
        self._index = index
        self._zones = zones
        self._relist = relist
        self._remote = not is_local(filesystem, [entry.path for entry in entries])
        cache: MetadataCache | None = options["cache"]
        footers = read_footers(entries, cache) if cache is not None and self._remote else [None] * len(entries)
        unread = [entry for entry, file in zip(entries, footers, strict=True) if file is None]
        others = iter(map_in_threads(self._read_schema, unread, remote=self._remote))
        schemas_and_inexact = [next(others) if file is None else _read_schema(ParquetData(file)) for file in footers]
        # Each query checks again whether the metadata of the files is still valid.
        self._files = [entry.path for entry in entries]
        schemas = [schema for schema, _ in schemas_and_inexact]
        inexact = {name for _, names in schemas_and_inexact for name in names}
        file_schema = unify_schemas(schemas)
        self._schema = partitions.add_columns(file_schema.empty_table()).schema
        names = self._schema.names
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UnreadableColumnError("polars cannot read two columns of one name", column=twice)
        self.dtypes = pl.from_arrow(self._schema.empty_table()).schema
        for schema in {*schemas}:
            inexact.update(
                field.name for field in schema if not _preserves_values(field.type, file_schema.field(field.name).type)
            )
        inexact.difference_update(partitions.schema.names)  # they are not read from the files
        # The columns whose values polars sees as every file stores them. A name with a dot may be a struct's leaf.
        self._exact = {f.name for f in self._schema if _is_comparable(f.type) and "." not in f.name} - inexact

    def _read_schema(self, entry: Entry) -> tuple[pa.Schema, set[str]]:
        """Return the schema of a file, and its columns of which pyarrow may show other values."""
        with open_entry(entry, self._filesystem, self._options["cache"]) as file:
            return _read_schema(file)

    def read_frames(
        self, with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        """Read the rows that polars requests, a row group at a time; `batch_size`, a hint, is ignored."""
        names = self._schema.names if with_columns is None else with_columns
        needed = [] if predicate is None else list(dict.fromkeys(predicate.meta.root_names()))
        columns = list(dict.fromkeys([*names, *needed])) or self._schema.names[:1]
        # A slice that comes with a predicate applies before it, to all rows: no row group may be skipped.
        read_all = predicate is None or n_rows is not None
        node = None if read_all else polars_predicate.translate(self._pl, predicate, self.dtypes, self._exact)
        predicate_first = not read_all and 0 < len(needed) < len(columns)  # perhaps no row matches
        remaining = 0 if self._is_never_true(predicate, needed) else n_rows

        def read(file_to_read: _SelectedFile) -> Iterator[Any]:
            nonlocal remaining
            for file, row_group, selection in self._row_groups(file_to_read):
                predicate_columns = None
                if predicate_first:
                    predicate_columns = self._read_table(file, row_group, selection, needed)
                    if self._to_frame(predicate_columns, file, needed, predicate, None).is_empty():
                        continue
                rows = file.num_rows_of(row_group)
                table = self._read_table(file, row_group, selection, columns, predicate_columns)
                yield self._to_frame(table, file, columns, predicate, remaining).select(names)
                if remaining is not None:
                    remaining -= min(remaining, rows)
                    if remaining == 0:
                        break

        files = self._select_files(node) if remaining != 0 else []
        threads = self._num_threads(files) if remaining is None else 1
        if threads > 1:  # each takes several consecutive requests, which are waited for
            with in_order(lambda one: list(read(one)), files, threads) as frames:
                yield from chain.from_iterable(frames)
        else:
            for one in files:
                yield from read(one)
                if remaining == 0:
                    break
        yield self._pl.DataFrame(schema=self.dtypes).select(names)  # polars needs one frame at least

    def _is_never_true(self, predicate: Any, needed: list[str]) -> bool:
        """Return whether a predicate without columns, as polars makes of an empty `is_in`, is false or null."""
        if predicate is None or needed:
            return False
        values = self._pl.select(predicate).to_series()
        return len(values) == 1 and not values[0]

    def _select_files(self, node: Node | None) -> list[_SelectedFile]:
        """Return the files to read, in their current versions."""
        entries = self._list_current()
        files = [_SelectedFile(entry, None) for entry in entries]
        if node is not None:
            options = {"filesystem": self._filesystem} | self._options
            with (
                open_lake_index(self._index, self._filesystem, columns=tree.columns(node)) as view,
                open_zone_indexes(self._zones, self._filesystem) as zones,
            ):
                report = plan_scan(entries, node, self._partitions, index=view, zones=zones, **options)
            entry_of = {entry.path: entry for entry in entries}
            files = [_SelectedFile(entry_of[plan.path], plan) for plan in report.files if plan.selected]
        for one in files:
            refuse_deleted_rows(one.entry.path, self._deletes)
        return files

    def _list_current(self) -> list[Entry]:
        """Return the files; objects in their current versions, if a listing of their folders tells these."""
        if not self._remote or self._relist is None:
            return [Entry(path) for path in self._files]
        current = {entry.path: entry for entry in self._relist()}
        return [current.get(path, Entry(path)) for path in self._files]

    def _num_threads(self, files: Sequence[_SelectedFile]) -> int:
        """Return how many files are read concurrently: as many as a bound on memory allows, by their sizes."""
        if not self._remote or len(files) < 2:
            return 1
        sizes = []
        for entry, plan in files:
            size = None if entry.known is None else entry.known.size
            share = 1.0 if plan is None else len(plan.selected) / max(1, len(plan.row_groups))
            sizes.append(_UNKNOWN_FILE_BYTES if size is None else int(size * share))
        return max(1, min(_MAX_CONCURRENT_FILES, len(files), _MAX_CONCURRENT_BYTES // (AHEAD * max(1, *sizes))))

    def _row_groups(self, file_to_read: _SelectedFile) -> Iterator[tuple[DataFile, int, RowSelection | None]]:
        """Yield the row groups to read of a file, each with the open file and its selected rows; None for all."""
        entry, plan = file_to_read
        cache = self._options["cache"]
        file: DataFile
        if plan is None:
            with open_entry(entry, self._filesystem, cache) as file:
                for row_group in file.row_groups:
                    yield file, row_group, None
            return
        with open_version(entry.path, self._filesystem, cache, plan.identity) as file:
            for row_group, selection in plan.selections_in(file):
                yield file, row_group, selection

    def _read_table(
        self,
        file: DataFile,
        row_group: int,
        selection: RowSelection | None,
        columns: list[str],
        already_read: pa.Table | None = None,
    ) -> pa.Table:
        """Read columns of a row group as the file has them; `already_read` has some of them."""
        names = self._partitions.columns_in_files(columns)
        if already_read is not None:
            unread = {*file.schema.names} - {*already_read.schema.names}
            names = [name for name in names or () if name in unread]
            if not names:
                return already_read
        table = file.read(row_group, names or file.schema.names[:1], selection)
        if already_read is None:
            return table
        if len(already_read) != len(table):
            problem = f"cannot be read: {len(already_read)} rows of some columns, {len(table)} of others"
            raise UnreadableColumnError(problem, path=file.path, row_group=row_group)
        for name in already_read.schema.names:
            if name not in table.schema.names:
                table = table.append_column(already_read.schema.field(name), already_read.column(name))
        return table

    def _to_frame(
        self, table: pa.Table, file: DataFile, columns: list[str], predicate: Any, num_rows: int | None
    ) -> Any:
        """Convert a row group's first `num_rows` rows, or all, to a frame, and filter it by the predicate."""
        table = self._partitions.add_columns(table, file.path, columns)
        schema = pa.schema([self._schema.field(name) for name in columns])
        table = promote_table(table.select([n for n in columns if n in table.column_names]), schema)
        frame = self._pl.from_arrow(table)
        frame = frame if num_rows is None else frame.head(num_rows)
        return frame if predicate is None else frame.filter(predicate)


def _read_schema(file: DataFile) -> tuple[pa.Schema, set[str]]:
    return file.schema, file.inexact_columns()


_COMPARABLE = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_date32,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


def _is_comparable(arrow_type: pa.DataType) -> bool:
    """Return whether polars keeps the type's values, or those of its lists, as stored, and compares them exactly."""
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        arrow_type = arrow_type.value_type
    return any(test(arrow_type) for test in _COMPARABLE)


def _preserves_values(arrow_type: pa.DataType, promoted_type: pa.DataType) -> bool:
    """Return whether promotion preserves every value."""
    floats = (pa.float32(), pa.float64())
    integers = pa.types.is_integer(arrow_type) and pa.types.is_integer(promoted_type)
    return arrow_type == promoted_type or integers or (arrow_type in floats and promoted_type in floats)
