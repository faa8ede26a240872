"""Parquet and ORC files as a polars LazyFrame that reads only the row groups its filters need.

polars hands its source the predicate of a query. What of it is surely understood (`polars_predicate`) chooses the row
groups; what is read is filtered by polars itself, by the whole predicate, so what is not understood costs time only.
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
from ..evaluate.object_batch import footers_of
from ..evaluate.planner import prune_entries
from ..evaluate.zones import open_zone_indexes
from ..model.data_file import DataFile, RowSelection
from ..model.decision import FilePlan, refuse_deleted_rows
from ..model.partitions import Partitions, partitions_of
from ..model.schemas import in_threads, promoted, unified
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
    """Parquet and ORC files as a polars LazyFrame: filters choose the row groups, by statistics and Bloom filters.

    Parameters
    ----------
    paths : a file, a folder, or a list of them; listed, and their footers read for the schema, at once. None for the
        live files of `index`.
    filesystem, storage_options, timezone, cache, partitioning : as in `prune`. With a cache the footers are read once,
        for schema and filters.
    index, zones : as in `prune`; they are asked by each query. Those that are given by their paths are opened anew for
        each. Of a row group of which zones leave some rows, the pages with these are read.

    Returns
    -------
    polars.LazyFrame
        The rows of all files in file order; columns of files that differ are promoted as in `read_table`, which has
        those in the names of folders in the same place. Filters,
        projections and leading slices reach the files; every filter that polars pushes down is applied, whole, to what
        is read, and those that are understood (comparisons of a bare column with literals, under `&`, `|`, `~`)
        choose the row groups beforehand.

    Raises
    ------
    ParquetBloomError
        As in `prune`; polars is not installed; or the files' columns fit into no one schema.
    """
    pl = _polars()
    filesystem = resolve_filesystem(filesystem, storage_options)
    deletes: frozenset[str] = frozenset()
    index_files = paths is None
    if index_files:
        with open_lake_index(index, filesystem, storage_options, of_lake=True) as view:
            assert view is not None
            filesystem, paths, entries = view.lake(filesystem)
            files = [entry.path for entry in entries]
            partitions = view.confirmed(partitions_of(files, partitioning, paths), entries)
            deletes = view.deletes
    else:
        entries = list_entries(paths, filesystem)
        partitions = partitions_of([entry.path for entry in entries], partitioning, paths)
    if not entries:
        raise ParquetBloomError("there are no files to scan")
    options = {"timezone": timezone, "cache": cache}
    relist = None if index_files else partial(list_entries, paths, filesystem)
    source = _Source(pl, entries, filesystem, partitions, options, index, zones, deletes, relist)
    return pl.io.plugins.register_io_source(source.frames, schema=source.dtypes)


def _polars() -> Any:
    try:
        import polars
        import polars.io.plugins
    except ImportError:
        raise ParquetBloomError("scan_polars needs polars 1.20 or newer, which is not installed") from None
    return polars


_FILES_AT_ONCE = 16  # of those in object stores
_BYTES_AT_ONCE = 256 * 1024 * 1024  # of these, as they are stored
_LARGE = 128 * 1024 * 1024  # bytes of a file of which nothing is known


class _Chosen(NamedTuple):
    """A file to read, and which row groups of it; None for all."""

    entry: Entry
    decision: FilePlan | None


class _Source:
    """Files, as polars asks for them.

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
        self._options = options  # of `prune_entries`
        self._index = index
        self._zones = zones
        self._relist = relist
        self._remote = not is_local(filesystem, [entry.path for entry in entries])
        cache: MetadataCache | None = options["cache"]
        known = footers_of(entries, cache) if cache is not None and self._remote else [None] * len(entries)
        of_others = in_threads(
            self._look, [entry for entry, file in zip(entries, known, strict=True) if file is None], remote=self._remote
        )
        others = iter(of_others)
        looks = [next(others) if file is None else _schema_of(ParquetData(file)) for file in known]
        # What is known of the files now is asked again by each query, which finds out whether it still is so.
        self._files = [entry.path for entry in entries]
        schemas = [schema for schema, _ in looks]
        odd = {name for _, inexact in looks for name in inexact}
        own = unified(schemas)
        self._schema = partitions.joined(own.empty_table()).schema
        names = self._schema.names
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UnreadableColumnError("polars takes no two columns of one name", column=twice)
        self.dtypes = pl.from_arrow(self._schema.empty_table()).schema
        for schema in {*schemas}:
            odd.update(field.name for field in schema if not _same_values(field.type, own.field(field.name).type))
        odd.difference_update(partitions.schema.names)  # what stands in the files does not count
        # Columns whose values polars sees as every file has them. Of a name with a dot a file may have a struct's leaf.
        self._plain = {f.name for f in self._schema if _comparable(f.type) and "." not in f.name} - odd

    def _look(self, entry: Entry) -> tuple[pa.Schema, set[str]]:
        """The schema of a file, and its columns whose values may be others than pyarrow shows."""
        with open_entry(entry, self._filesystem, self._options["cache"]) as file:
            return _schema_of(file)

    def frames(
        self, with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        """The rows that polars asks for, a row group at a time; `batch_size`, a hint, is not heeded."""
        names = self._schema.names if with_columns is None else with_columns
        needed = [] if predicate is None else list(dict.fromkeys(predicate.meta.root_names()))
        columns = list(dict.fromkeys([*names, *needed])) or self._schema.names[:1]
        # A slice that comes with a predicate was cut before it, off all rows: none of them may be left out.
        whole = predicate is None or n_rows is not None
        node = None if whole else polars_predicate.translate(self._pl, predicate, self.dtypes, self._plain)
        alone = not whole and 0 < len(needed) < len(columns)  # the predicate's columns first: perhaps nothing matches
        left = 0 if self._never(predicate, needed) else n_rows

        def read(decision: _Chosen) -> Iterator[Any]:
            nonlocal left
            for file, row_group, zoned in self._row_groups(decision):
                held = None
                if alone:
                    held = self._table(file, row_group, zoned, needed)
                    if self._frame(held, file, needed, predicate, None).is_empty():
                        continue
                rows = file.num_rows_of(row_group)
                table = self._table(file, row_group, zoned, columns, held)
                yield self._frame(table, file, columns, predicate, left).select(names)
                if left is not None:
                    left -= min(left, rows)
                    if left == 0:
                        break

        chosen = self._chosen(node) if left != 0 else []
        threads = self._files_at_once(chosen) if left is None else 1
        if threads > 1:  # each takes several requests, one after the other, and is waited for
            with in_order(lambda one: list(read(one)), chosen, threads) as frames:
                yield from chain.from_iterable(frames)
        else:
            for one in chosen:
                yield from read(one)
                if left == 0:
                    break
        yield self._pl.DataFrame(schema=self.dtypes).select(names)  # polars wants a frame at least

    def _never(self, predicate: Any, needed: list[str]) -> bool:
        """Whether a predicate without columns, as polars makes of an empty `is_in`, is not true."""
        if predicate is None or needed:
            return False
        values = self._pl.select(predicate).to_series()
        return len(values) == 1 and not values[0]

    def _chosen(self, node: Node | None) -> list[_Chosen]:
        """The files to read, as they are now."""
        entries = self._listed_now()
        chosen = [_Chosen(entry, None) for entry in entries]
        if node is not None:
            options = {"filesystem": self._filesystem} | self._options
            with (
                open_lake_index(self._index, self._filesystem, columns=tree.columns(node)) as view,
                open_zone_indexes(self._zones, self._filesystem) as zones,
            ):
                report = prune_entries(entries, node, self._partitions, index=view, zones=zones, **options)
            of_path = {entry.path: entry for entry in entries}
            chosen = [_Chosen(of_path[one.path], one) for one in report.files if one.selected]
        for one in chosen:
            refuse_deleted_rows(one.entry.path, self._deletes)
        return chosen

    def _listed_now(self) -> list[Entry]:
        """The files; of objects, the versions that there are now, if their folders tell them by a listing."""
        if not self._remote or self._relist is None:
            return [Entry(path) for path in self._files]
        now = {entry.path: entry for entry in self._relist()}
        return [now.get(path, Entry(path)) for path in self._files]

    def _files_at_once(self, chosen: Sequence[_Chosen]) -> int:
        """How many files are read at a time: as many as a bound on memory allows, by their sizes."""
        if not self._remote or len(chosen) < 2:
            return 1
        sizes = []
        for entry, decision in chosen:
            size = None if entry.known is None else entry.known.size
            share = 1.0 if decision is None else len(decision.selected) / max(1, len(decision.row_groups))
            sizes.append(_LARGE if size is None else int(size * share))
        return max(1, min(_FILES_AT_ONCE, len(chosen), _BYTES_AT_ONCE // (AHEAD * max(1, *sizes))))

    def _row_groups(self, chosen: _Chosen) -> Iterator[tuple[DataFile, int, RowSelection | None]]:
        """The row groups of a file to read, each with the file, and the rows that zones leave of it; None for all."""
        entry, decision = chosen
        cache = self._options["cache"]
        file: DataFile
        if decision is None:
            with open_entry(entry, self._filesystem, cache) as file:
                for row_group in file.row_groups:
                    yield file, row_group, None
            return
        with open_version(entry.path, self._filesystem, cache, decision.identity) as file:
            for row_group, zoned in decision.left_in(file):
                yield file, row_group, zoned

    def _table(
        self,
        file: DataFile,
        row_group: int,
        zoned: RowSelection | None,
        columns: list[str],
        held: pa.Table | None = None,
    ) -> pa.Table:
        """Columns of a row group as the file has them; `held` has those of them that were read before."""
        names = self._partitions.in_files(columns)
        if held is not None:
            there = {*file.schema.names} - {*held.schema.names}
            names = [name for name in names or () if name in there]
            if not names:
                return held
        table = file.read(row_group, names or file.schema.names[:1], zoned)
        if held is None:
            return table
        if len(held) != len(table):
            problem = f"cannot be read: {len(held)} rows of some columns, {len(table)} of others"
            raise UnreadableColumnError(problem, path=file.path, row_group=row_group)
        for name in held.schema.names:
            if name not in table.schema.names:
                table = table.append_column(held.schema.field(name), held.column(name))
        return table

    def _frame(self, table: pa.Table, file: DataFile, columns: list[str], predicate: Any, num_rows: int | None) -> Any:
        """Of a row group's rows, or the first of them, those that the predicate lets through."""
        table = self._partitions.joined(table, file.path, columns)
        schema = pa.schema([self._schema.field(name) for name in columns])
        frame = self._pl.from_arrow(promoted(table.select([n for n in columns if n in table.column_names]), schema))
        frame = frame if num_rows is None else frame.head(num_rows)
        return frame if predicate is None else frame.filter(predicate)


def _schema_of(file: DataFile) -> tuple[pa.Schema, set[str]]:
    return file.schema, file.inexact()


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


def _comparable(arrow_type: pa.DataType) -> bool:
    """Whether polars has the type's values, or those of its lists, as they are stored, and compares them exactly."""
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        arrow_type = arrow_type.value_type
    return any(test(arrow_type) for test in _COMPARABLE)


def _same_values(arrow_type: pa.DataType, promoted_type: pa.DataType) -> bool:
    """Whether promotion leaves every value what it was."""
    floats = (pa.float32(), pa.float64())
    integers = pa.types.is_integer(arrow_type) and pa.types.is_integer(promoted_type)
    return arrow_type == promoted_type or integers or (arrow_type in floats and promoted_type in floats)
