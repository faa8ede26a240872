"""The rows of a Parquet file: row groups read by pyarrow, or page by page, and filtered exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import UnreadableColumnError
from ...file.columns import find_leaves, type_of
from ...file.pages.reader import RowGroupPages
from ...file.reader import BloomFile
from ...file.values import ColumnReader, fit_nanoseconds
from ...hashing.coerce import stored_forms
from ...hashing.coerce_many import coerce_all
from ...hashing.column_type import Kind
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import StoredColumn, row_mask
from ...storage import Source
from ..model.data_file import FileProjection, RowFilter, RowGroupSelections, RowSelection
from ..model.decision import PARQUET
from ..model.schemas import chosen, reading, schema_in
from .row_group import RowGroupRows, left_by_both
from .whole_reader import WholeReader

if TYPE_CHECKING:
    from typing import Self


_FEW_LITERALS = 8  # that are compared with each value
_STORED_ALIKE = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.BYTES, Kind.UUID)  # equal values are the same bytes


class ParquetData:
    """`DataFile` of a Parquet file."""

    format = PARQUET

    def __init__(self, file: BloomFile):
        self.file = file
        self._reader = WholeReader(file)

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
            return schema_in(self.file)

    def chosen(self, columns: Sequence[str]) -> pa.Schema:
        with reading(self.file):
            return chosen(self.file, columns)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.footer.num_rows_of(row_group)

    def inexact(self) -> set[str]:
        # pyarrow turns INT96 into nanoseconds and wraps what does not fit.
        return {leaf.path[0] for leaf in self.leaves if leaf.physical == "INT96"}

    def read(self, row_group: int, columns: Sequence[str], zoned: RowSelection | None = None) -> pa.Table:
        with reading(self.file):
            self.file.footer.require_value_per_row(row_group)
            if zoned is not None:
                rows = RowGroupRows(self.file, schema_in(self.file), self._reader, row_group, None, zoned)
                return rows.read(list(columns))
            return self._reader.read_row_group(row_group, list(columns))

    def matching(self, left: RowGroupSelections, question: RowFilter, wanted: FileProjection) -> Iterator[pa.Table]:
        for row_group, zoned in left:
            with reading(self.file):
                self.file.footer.require_value_per_row(row_group)
                if question.decider is True:
                    table = self._reader.read_row_group(row_group, wanted.names)
                else:
                    rows = self._rows(row_group, question, zoned)
                    if not rows.num_left:
                        continue
                    true = None if self._keep_equal(rows, question) else self._mask(rows, question)
                    table = rows.matching(true, wanted.names, wanted.schema)
            if table.num_rows:
                yield table

    def counts(self, row_groups: Sequence[int], question: RowFilter) -> Iterator[tuple[int, int]]:
        for row_group in row_groups:
            if isinstance(question.decider, bool):
                yield row_group, self.num_rows_of(row_group) if question.decider else 0
                continue
            with reading(self.file):
                self.file.footer.require_value_per_row(row_group)
                rows = self._rows(row_group, question)
                found = pc.sum(self._mask(rows, question), min_count=0).as_py() if rows.num_left else 0
            yield row_group, found

    def rows_left(
        self, row_group: int, decider: PruningPredicate | bool, zoned: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        rows = None
        with reading(self.file):
            if isinstance(decider, PruningPredicate):
                self.file.footer.require_value_per_row(row_group)
                pages = RowGroupPages(self.file, schema_in(self.file), row_group)
                rows = left_by_both(self.file, row_group, pages, decider, zoned)
        whole = [(0, self.num_rows_of(row_group))]
        return whole if rows is None else [(start, stop) for start, stop in rows.tolist()]

    def _rows(self, row_group: int, question: RowFilter, zoned: RowSelection | None = None) -> RowGroupRows:
        assert isinstance(question.decider, PruningPredicate)
        return RowGroupRows(self.file, schema_in(self.file), self._reader, row_group, question.decider, zoned)

    def _keep_equal(self, rows: RowGroupRows, question: RowFilter) -> bool:
        """Keep only the rows that match, if the predicate is one equality and stored bytes tell; whether they do."""
        assert isinstance(question.decider, PruningPredicate)
        node = question.decider.node
        if not isinstance(node, tree.Equal | tree.In) or len(node.literals) > _FEW_LITERALS or None in node.literals:
            return False
        found = find_leaves(self.leaves, node.column)
        column_type = type_of(found[0]) if len(found) == 1 else None
        if column_type is None or column_type.kind not in _STORED_ALIKE:
            return False
        values, unknown = coerce_all(list(node.literals), column_type, question.timezone)
        return unknown is None and rows.keep_equal(node.column, stored_forms(values, column_type))

    def _mask(self, rows: RowGroupRows, question: RowFilter) -> pa.ChunkedArray:
        """Which of the rows of a row group that can match do."""
        assert isinstance(question.decider, PruningPredicate)
        node = question.decider.node
        names = sorted(tree.columns(node))
        stored = {}
        for name in names:
            found = find_leaves(self.leaves, name)
            # pyarrow turns INT96 into nanoseconds and wraps what does not fit: compare the stored values.
            if len(found) == 1 and found[0].physical == "INT96":
                values = ColumnReader(self.source, self.file.footer, found[0])
                batches = pa.chunked_array(values.batches(rows.row_group), pa.binary(12))
                if not found[0].repeated:
                    stored[name] = StoredColumn(rows.of(batches), values.column_type)
                elif not fit_nanoseconds(batches):
                    problem = "its lists have INT96 timestamps that nanoseconds of 64 bits cannot count"
                    raise UnreadableColumnError(problem, path=self.path, row_group=rows.row_group, column=name)
        table = rows.read([name for name in names if name not in stored])
        return row_mask(table, node, timezone=question.timezone, stored=stored, probes=question.probes)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
