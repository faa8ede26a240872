"""Read rows of a Parquet file: row groups by pyarrow, or page by page, filtered exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import UnreadableColumnError
from ...file.columns import find_leaves
from ...file.pages.reader import RowGroupPages
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility
from ...file.values import ColumnReader
from ...hashing import int96
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import StoredColumn, row_mask
from ...storage import Source
from ...util.arrow_values import make_scalar
from ...util.lazy import late_module
from ..model.data_file import FileProjection, MatchingRows, RowFilter
from ..model.limits import ReadLimits
from ..model.plan import PARQUET
from ..model.row_selection import (
    RowGroupSelections,
    RowPositions,
    RowSelection,
    count_rows,
    to_range_list,
    to_row_ranges,
)
from ..model.schemas import arrow_schema, reading, select_schema
from .page_selection import select_rows_by_pages
from .row_group import RowGroupRows, select_rows
from .row_group_reader import RowGroupReader
from .sparse import find_equalities

if TYPE_CHECKING:
    from typing import Self

    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


class ParquetData:
    """`DataFile` of a Parquet file."""

    format = PARQUET

    def __init__(self, file: BloomFile):
        self.file = file
        self._reader = RowGroupReader(file)

    @property
    def is_shareable(self) -> bool:
        return self.source.path is not None  # what is prefetched of an object is for one row group at a time

    @property
    def limits(self) -> ReadLimits:
        return self._reader.limits

    @limits.setter
    def limits(self, limits: ReadLimits) -> None:
        self._reader.limits = limits

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def source(self) -> Source:
        return self.file.source

    @property
    def leaves(self) -> list[Leaf]:
        return self.file.leaves

    @property
    def row_groups(self) -> range:
        return self.file.row_groups

    @property
    def schema(self) -> pa.Schema:
        with reading(self.file):
            return arrow_schema(self.file)

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        with reading(self.file):
            return select_schema(self.file, columns)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.footer.num_rows_of(row_group)

    def first_row_of(self, row_group: int) -> int:
        return int(self.file.footer.row_groups["num_rows"][:row_group].sum())

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return trust.doubts(self.file)

    def read_matches(
        self, selections: RowGroupSelections, row_filter: RowFilter, projection: FileProjection
    ) -> Iterator[MatchingRows]:
        for row_group, selection in selections:
            num_bytes = self._estimate_bytes(row_group, projection.names, row_filter)
            with reading(self.file):
                self._require_rows(row_group, projection.names, row_filter.predicate)
                if self.limits.needs_windows(num_bytes):
                    windows = self._stream_matches(row_group, row_filter, projection, selection, num_bytes)
                    yield from (matches for matches in windows if matches.table.num_rows)
                    continue
                if row_filter.predicate is True and selection is None:
                    table = self._reader.read_row_group(row_group, projection.names)
                    matches = MatchingRows(table, row_group, range(table.num_rows))
                else:
                    rows = self._select_rows(row_group, row_filter, selection)
                    if not rows.num_left:
                        continue
                    matches = self._read_selected(rows, row_filter, projection)
            if matches.table.num_rows:
                yield matches

    def _require_rows(self, row_group: int, names: Sequence[str] | None, predicate: PruningPredicate | bool) -> None:
        """Raise MalformedFooterError if a column that is read has other numbers of values than there are rows."""
        if names is not None and isinstance(predicate, PruningPredicate):
            names = [*names, *tree.columns(predicate.node)]
        self._reader.require_rows(row_group, names)

    def _stream_matches(
        self,
        row_group: int,
        row_filter: RowFilter,
        projection: FileProjection,
        selection: RowSelection | None,
        num_bytes: int,
    ) -> Iterator[MatchingRows]:
        """Read the matching rows of a large row group a window of rows at a time."""
        window_rows = self.limits.window_rows(self.num_rows_of(row_group), num_bytes)
        if row_filter.predicate is True and selection is None:
            stream = self._reader.stream(row_group, projection.names)
            num_rows = self.num_rows_of(row_group)
            for start in range(0, num_rows, window_rows):
                stop = min(start + window_rows, num_rows)
                yield MatchingRows(stream.read(start, stop), row_group, range(start, stop))
            return
        rows = self._select_rows(row_group, row_filter, selection)
        if not rows.num_left:
            return
        if rows.is_sparse:
            yield self._read_selected(rows, row_filter, projection)
            return
        names, evaluate = self._make_evaluator(rows, row_filter)
        for table, positions in rows.stream_matches(projection.names, projection.schema, names, evaluate, window_rows):
            yield MatchingRows(table, row_group, positions)

    def _read_selected(self, rows: RowGroupRows, row_filter: RowFilter, projection: FileProjection) -> MatchingRows:
        """Read those of the selected rows of a row group that match."""
        is_decided = row_filter.predicate is True or self._keep_equal(rows, row_filter)
        mask = None if is_decided or not rows.num_left else self._make_mask(rows, row_filter)
        table, positions = rows.read_matches(mask, projection.names, projection.schema)
        return MatchingRows(table, rows.row_group, positions)

    def _make_evaluator(
        self, selected: RowGroupRows, row_filter: RowFilter
    ) -> tuple[list[str], Callable[[pa.Table, RowPositions | None], pa.ChunkedArray]]:
        """Return the columns that a predicate needs, and what evaluates it on rows (None: all), given these columns."""
        if row_filter.predicate is True:
            true = make_scalar(True, pa.bool_())
            return [], lambda table, _: pa.chunked_array([pa.repeat(true, table.num_rows)], pa.bool_())
        assert isinstance(row_filter.predicate, PruningPredicate)
        node = row_filter.predicate.node
        stored = self._read_stored(selected.row_group, row_filter)

        def evaluate(table: pa.Table, rows: RowPositions | None) -> pa.ChunkedArray:
            taken = {
                name: column._replace(values=selected.take(column.values, rows)) for name, column in stored.items()
            }
            return row_mask(table, node, timezone=row_filter.timezone, stored=taken, probes=row_filter.probes)

        names = [name for name in sorted(tree.columns(node)) if name not in stored and find_leaves(self.leaves, name)]
        return names, evaluate

    def _make_mask(self, rows: RowGroupRows, row_filter: RowFilter) -> pa.ChunkedArray:
        """Evaluate the predicate on the selected rows of a row group."""
        names, evaluate = self._make_evaluator(rows, row_filter)
        return evaluate(rows.read(names), rows.selected)

    def count_matches(self, selections: RowGroupSelections, row_filter: RowFilter) -> Iterator[tuple[int, int]]:
        for row_group, selection in selections:
            if isinstance(row_filter.predicate, bool):
                count = self.num_rows_of(row_group) if selection is None else count_rows(selection)
                yield row_group, count if row_filter.predicate else 0
                continue
            num_bytes = self._estimate_bytes(row_group, [], row_filter)
            with reading(self.file):
                self._require_rows(row_group, [], row_filter.predicate)
                rows = self._select_rows(row_group, row_filter, selection)
                if not rows.num_left:
                    count = 0
                elif self.limits.needs_windows(num_bytes) and not rows.is_sparse:
                    names, evaluate = self._make_evaluator(rows, row_filter)
                    window_rows = self.limits.window_rows(self.num_rows_of(row_group), num_bytes)
                    count = rows.count_matches(names, evaluate, window_rows)
                elif self._keep_equal(rows, row_filter) or not rows.num_left:
                    count = rows.num_left
                else:
                    count = pc.sum(self._make_mask(rows, row_filter), min_count=0).as_py()
            yield row_group, count

    def split(self, selections: RowGroupSelections, row_filter: RowFilter) -> Iterator[RowGroupSelections]:
        yield from ([one] for one in selections)

    def estimate_step(
        self, selections: RowGroupSelections, names: Sequence[str] | None, row_filter: RowFilter
    ) -> tuple[int, bool]:
        num_bytes = sum(self._estimate_bytes(row_group, names, row_filter) for row_group, _ in selections)
        return self.limits.window_bytes(num_bytes), self.limits.needs_windows(num_bytes)

    def _estimate_bytes(self, row_group: int, names: Sequence[str] | None, row_filter: RowFilter) -> int:
        with reading(self.file):
            if names is not None and isinstance(row_filter.predicate, PruningPredicate):
                names = [*dict.fromkeys([*names, *sorted(tree.columns(row_filter.predicate.node))])]
            return self._reader.estimate_bytes(row_group, names)

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        ranges = None if selection is None else to_row_ranges(selection)
        with reading(self.file):
            if isinstance(predicate, PruningPredicate):
                self._require_rows(row_group, [], predicate)
                pages = RowGroupPages(self.file, arrow_schema(self.file), row_group)
                ranges = select_rows(self.file, row_group, pages, predicate, selection)
        all_rows = [(0, self.num_rows_of(row_group))]
        return all_rows if ranges is None else to_range_list(ranges)

    def read_rows(self, row_group: int, names: Sequence[str], selection: RowSelection) -> pa.Table:
        """Read columns of some rows of a row group; `names` as `pyarrow.parquet` takes them."""
        with reading(self.file):
            schema = arrow_schema(self.file)
            return RowGroupRows(self.file, schema, self._reader, row_group, None, selection).read(names)

    def select_by_pages(self, row_group: int, predicate: PruningPredicate) -> bool:
        """Return whether statistics of pages rule out rows of a row group."""
        with reading(self.file):
            pages = RowGroupPages(self.file, arrow_schema(self.file), row_group)
            return select_rows_by_pages(self.file, row_group, pages, predicate) is not None

    def _select_rows(
        self, row_group: int, row_filter: RowFilter, selection: RowSelection | None = None
    ) -> RowGroupRows:
        predicate = row_filter.predicate if isinstance(row_filter.predicate, PruningPredicate) else None
        return RowGroupRows(self.file, arrow_schema(self.file), self._reader, row_group, predicate, selection)

    def _keep_equal(self, rows: RowGroupRows, row_filter: RowFilter) -> bool:
        """Keep only the rows that one equality of the predicate leaves, by their stored bytes, if there are few rows.

        Returns
        -------
        Whether all remaining rows match; otherwise the predicate is to be evaluated on them.
        """
        assert isinstance(row_filter.predicate, PruningPredicate)
        for equality in find_equalities(self.file, arrow_schema(self.file), row_filter):
            if not equality.leaf.repeated and rows.keep_equal(equality.column, equality.targets):
                return equality.node is row_filter.predicate.node
        return False

    def _read_stored(self, row_group: int, row_filter: RowFilter) -> dict[str, StoredColumn]:
        """Read the columns of a predicate that pyarrow would change, as they are stored."""
        assert isinstance(row_filter.predicate, PruningPredicate)
        stored = {}
        for name in sorted(tree.columns(row_filter.predicate.node)):
            leaves = find_leaves(self.leaves, name)
            # pyarrow converts INT96 to nanoseconds, and wraps values that do not fit: compare the stored values. Of
            # lists it compares what pyarrow shows, which the reader has checked.
            if len(leaves) == 1 and leaves[0].physical == "INT96" and not leaves[0].repeated:
                values = ColumnReader(self.source, self.file.footer, leaves[0])
                self.source.count(1, max(0, int(self.file.record(row_group, leaves[0])["compressed_size"])))
                unit = self.file.cached.int96_unit or "ns"
                try:
                    batches = [int96.normalize(batch, unit) for batch in values.batches(row_group)]
                except OverflowError as error:
                    raise UnreadableColumnError(str(error), path=self.path, row_group=row_group, column=name) from error
                stored[name] = StoredColumn(pa.chunked_array(batches, pa.binary(12)), values.column_type)
        return stored

    def close(self) -> None:
        self._reader.close()
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
