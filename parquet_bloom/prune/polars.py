"""Parquet and ORC files as a polars LazyFrame that reads only the row groups its filters need.

polars hands its source the predicate of a query. What of it is surely understood (`polars_predicate`) chooses the row
groups; what is read is filtered by polars itself, by the whole predicate, so what is not understood costs time only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from ..errors import ParquetBloomError, UnreadableColumnError
from ..file.footer_cache import FOOTERS, FooterCache
from ..predicate.tree import Node
from ..storage import Entry, file_system, list_entries
from . import polars_predicate
from .data_file import DataFile, Left, Spans
from .formats import open_file
from .indexed import consulted
from .partitions import Partitions
from .plan import partitions_of, prune_entries
from .report import FileDecision, require_rows
from .schemas import promoted, unified
from .zoned import zones_at_hand

if TYPE_CHECKING:
    from .indexed import Index
    from .zoned import Zones


def scan_polars(
    paths: Any,
    *,
    filesystem: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    timezone: str = "UTC",
    cache: FooterCache | None = FOOTERS,
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
    filesystem = file_system(filesystem, storage_options)
    deletes: frozenset[str] = frozenset()
    if paths is None:
        with consulted(index, filesystem, storage_options, of_lake=True) as view:
            assert view is not None
            filesystem, paths, entries = view.lake(filesystem)
            files = [entry.path for entry in entries]
            partitions = view.confirmed(partitions_of(files, partitioning, paths), entries)
            deletes = view.deletes
    else:
        files = [entry.path for entry in list_entries(paths, filesystem)]
        partitions = partitions_of(files, partitioning, paths)
    if not files:
        raise ParquetBloomError("there are no files to scan")
    options = {"timezone": timezone, "cache": cache}
    source = _Source(pl, files, filesystem, partitions, options, index, zones, deletes)
    return pl.io.plugins.register_io_source(source.frames, schema=source.dtypes)


def _polars() -> Any:
    try:
        import polars
        import polars.io.plugins
    except ImportError:
        raise ParquetBloomError("scan_polars needs polars 1.20 or newer, which is not installed") from None
    return polars


class _Source:
    """Files, as polars asks for them.

    Attributes
    ----------
    dtypes : polars' schema of the rows.
    """

    def __init__(
        self,
        pl: Any,
        files: list[str],
        filesystem: Any,
        partitions: Partitions,
        options: dict[str, Any],
        index: Index | None,
        zones: Zones | None,
        deletes: frozenset[str],
    ):
        self._pl = pl
        self._deletes = deletes  # files of which rows may have been deleted
        self._files = files
        self._filesystem = filesystem
        self._partitions = partitions
        self._options = options  # of `prune_entries`
        self._index = index
        self._zones = zones
        self._open = partial(open_file, filesystem=filesystem, cache=options["cache"])
        schemas = []
        odd: set[str] = set()
        for path in files:
            with self._open(path) as file:
                schemas.append(file.schema)
                odd.update(file.inexact())
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
        for file, row_group, zoned in self._row_groups(node) if left != 0 else ():
            if alone and self._read(file, row_group, zoned, needed, predicate).is_empty():
                continue
            rows = file.num_rows_of(row_group)
            yield self._read(file, row_group, zoned, columns, predicate, left).select(names)
            if left is not None:
                left -= min(left, rows)
                if left == 0:
                    break
        yield self._pl.DataFrame(schema=self.dtypes).select(names)  # polars wants a frame at least

    def _never(self, predicate: Any, needed: list[str]) -> bool:
        """Whether a predicate without columns, as polars makes of an empty `is_in`, is not true."""
        if predicate is None or needed:
            return False
        values = self._pl.select(predicate).to_series()
        return len(values) == 1 and not values[0]

    def _row_groups(self, node: Node | None) -> Iterator[tuple[DataFile, int, Spans | None]]:
        """The row groups to read, each with its file, and the rows that zones leave of it; None for all."""
        selected: dict[str, FileDecision | None] = dict.fromkeys(self._files)
        if node is not None:
            entries = [Entry(path) for path in self._files]
            options = {"filesystem": self._filesystem} | self._options
            with (
                consulted(self._index, self._filesystem) as view,
                zones_at_hand(self._zones, self._filesystem) as zones,
            ):
                report = prune_entries(entries, node, self._partitions, index=view, zones=zones, **options)
            selected = {decision.path: decision for decision in report.files if decision.selected}
        for path in selected:
            require_rows(path, self._deletes)
        for path, decision in selected.items():
            with self._open(path) as file:
                whole: Left = [(row_group, None) for row_group in file.row_groups]
                for row_group, zoned in whole if decision is None else decision.left_in(file):
                    yield file, row_group, zoned

    def _read(
        self,
        file: DataFile,
        row_group: int,
        zoned: Spans | None,
        columns: list[str],
        predicate: Any,
        num_rows: int | None = None,
    ) -> Any:
        """The rows of a row group, or the first of them, that the predicate lets through."""
        table = file.read(row_group, self._partitions.in_files(columns) or file.schema.names[:1], zoned)
        table = self._partitions.joined(table, file.path, columns)
        schema = pa.schema([self._schema.field(name) for name in columns])
        frame = self._pl.from_arrow(promoted(table.select([n for n in columns if n in table.column_names]), schema))
        frame = frame if num_rows is None else frame.head(num_rows)
        return frame if predicate is None else frame.filter(predicate)


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
