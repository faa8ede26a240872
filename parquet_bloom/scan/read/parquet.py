"""Read rows of a Parquet file: row groups by pyarrow, or page by page, filtered exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import UnreadableColumnError
from ...file.columns import find_leaves, type_of
from ...file.pages.reader import RowGroupPages
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility
from ...file.values import ColumnReader, fit_nanoseconds
from ...hashing.coerce import stored_forms
from ...hashing.coerce_many import coerce_all
from ...hashing.column_type import Kind
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import StoredColumn, row_mask
from ...storage import Source
from ..model.data_file import FileProjection, RowFilter
from ..model.plan import PARQUET
from ..model.row_selection import RowGroupSelections, RowSelection, to_range_list
from ..model.schemas import arrow_schema, reading, select_schema
from .row_group import RowGroupRows, select_rows
from .row_group_reader import RowGroupReader

if TYPE_CHECKING:
    from typing import Self


_MAX_LITERALS = 8  # that stored values are compared with
_STORED_ALIKE = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.BYTES, Kind.UUID)  # equal values have the same bytes


class ParquetData:
    """`DataFile` of a Parquet file."""

    format = PARQUET

    def __init__(self, file: BloomFile):
        self.file = file
        self._reader = RowGroupReader(file)

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

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return trust.doubts(self.file)

    def inexact_columns(self) -> set[str]:
        # pyarrow converts INT96 to nanoseconds, and wraps values that do not fit.
        return {leaf.path[0] for leaf in self.leaves if leaf.physical == "INT96"}

    def read(self, row_group: int, columns: Sequence[str], selection: RowSelection | None = None) -> pa.Table:
        with reading(self.file):
            self.file.footer.require_value_per_row(row_group)
            if selection is not None:
                rows = RowGroupRows(self.file, arrow_schema(self.file), self._reader, row_group, None, selection)
                return rows.read(list(columns))
            return self._reader.read_row_group(row_group, list(columns))

    def read_matches(
        self, selections: RowGroupSelections, row_filter: RowFilter, projection: FileProjection
    ) -> Iterator[pa.Table]:
        for row_group, selection in selections:
            with reading(self.file):
                self.file.footer.require_value_per_row(row_group)
                if row_filter.predicate is True:
                    table = self._reader.read_row_group(row_group, projection.names)
                else:
                    rows = self._select_rows(row_group, row_filter, selection)
                    if not rows.num_left:
                        continue
                    mask = None if self._keep_equal(rows, row_filter) else self._make_mask(rows, row_filter)
                    table = rows.read_matches(mask, projection.names, projection.schema)
            if table.num_rows:
                yield table

    def count_matches(self, row_groups: Sequence[int], row_filter: RowFilter) -> Iterator[tuple[int, int]]:
        for row_group in row_groups:
            if isinstance(row_filter.predicate, bool):
                yield row_group, self.num_rows_of(row_group) if row_filter.predicate else 0
                continue
            with reading(self.file):
                self.file.footer.require_value_per_row(row_group)
                rows = self._select_rows(row_group, row_filter)
                count = pc.sum(self._make_mask(rows, row_filter), min_count=0).as_py() if rows.num_left else 0
            yield row_group, count

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        ranges = None
        with reading(self.file):
            if isinstance(predicate, PruningPredicate):
                self.file.footer.require_value_per_row(row_group)
                pages = RowGroupPages(self.file, arrow_schema(self.file), row_group)
                ranges = select_rows(self.file, row_group, pages, predicate, selection)
        all_rows = [(0, self.num_rows_of(row_group))]
        return all_rows if ranges is None else to_range_list(ranges)

    def _select_rows(
        self, row_group: int, row_filter: RowFilter, selection: RowSelection | None = None
    ) -> RowGroupRows:
        assert isinstance(row_filter.predicate, PruningPredicate)
        schema = arrow_schema(self.file)
        return RowGroupRows(self.file, schema, self._reader, row_group, row_filter.predicate, selection)

    def _keep_equal(self, rows: RowGroupRows, row_filter: RowFilter) -> bool:
        """Keep only the rows that match, if the predicate is one equality that stored bytes decide; return whether so.

        Otherwise the rows are unchanged.
        """
        assert isinstance(row_filter.predicate, PruningPredicate)
        node = row_filter.predicate.node
        if not isinstance(node, tree.Equal | tree.In) or len(node.literals) > _MAX_LITERALS or None in node.literals:
            return False
        leaves = find_leaves(self.leaves, node.column)
        column_type = type_of(leaves[0]) if len(leaves) == 1 else None
        if column_type is None or column_type.kind not in _STORED_ALIKE:
            return False
        values, unknown = coerce_all(list(node.literals), column_type, row_filter.timezone)
        return unknown is None and rows.keep_equal(node.column, stored_forms(values, column_type))

    def _make_mask(self, rows: RowGroupRows, row_filter: RowFilter) -> pa.ChunkedArray:
        """Evaluate the predicate on the selected rows of a row group."""
        assert isinstance(row_filter.predicate, PruningPredicate)
        node = row_filter.predicate.node
        names = sorted(tree.columns(node))
        stored = {}
        for name in names:
            leaves = find_leaves(self.leaves, name)
            # pyarrow converts INT96 to nanoseconds, and wraps values that do not fit: compare the stored values.
            if len(leaves) == 1 and leaves[0].physical == "INT96":
                values = ColumnReader(self.source, self.file.footer, leaves[0])
                batches = pa.chunked_array(values.batches(rows.row_group), pa.binary(12))
                if not leaves[0].repeated:
                    stored[name] = StoredColumn(rows.take_selected(batches), values.column_type)
                elif not fit_nanoseconds(batches):
                    problem = "its lists have INT96 timestamps that nanoseconds of 64 bits cannot count"
                    raise UnreadableColumnError(problem, path=self.path, row_group=rows.row_group, column=name)
        table = rows.read([name for name in names if name not in stored])
        return row_mask(table, node, timezone=row_filter.timezone, stored=stored, probes=row_filter.probes)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
