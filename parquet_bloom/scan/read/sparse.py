"""Read few matching rows of many row groups of a local Parquet file, searched by one equality of the predicate.

Stored values are compared in the pages, and only the rows that are equal are taken out of the pages of other columns.
What cannot be read so is left to the general way, in which pyarrow decodes whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.columns import find_leaves, type_of
from ...file.pages.reader import SPARSE_FACTOR, RowGroupPages, find_flat_columns
from ...file.pages.sparse import MAX_TAKEN_BYTES, SparseRows
from ...file.reader import BloomFile
from ...hashing.coerce import stored_forms
from ...hashing.coerce_many import coerce_all
from ...hashing.column_type import Kind
from ...metadata.page_match import Targets
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import row_mask
from ...predicate.tree import Node
from ...util.arrow_values import from_numpy
from ..model.data_file import RowFilter
from ..model.row_selection import (
    RowGroupSelections,
    RowPositions,
    RowSelection,
    count_rows,
    mask_to_positions,
    to_row_ranges,
)
from ..model.schemas import arrow_schema
from .page_selection import select_rows_by_pages

_ROWS_READ_AT_ONCE = 16_384  # rows of row groups of which all columns are read at once

MAX_LITERALS = 100_000
"""Lists of more literals are not searched for."""

_STORED_ALIKE = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.BYTES, Kind.UUID)  # equal values have the same bytes

RowsByGroup = dict[int, RowPositions]
"""{row group: its rows, ascending}."""


class Candidates(NamedTuple):
    """The rows that an equality leaves.

    Attributes
    ----------
    rows : of each row group.
    columns : what is known of their values: the column of the equality.
    rest : what else the predicate says; None for nothing.
    """

    rows: RowsByGroup
    columns: dict[str, pa.Array]
    rest: Node | None


class SparseReader:
    """Reads few rows of one local file.

    Parameters
    ----------
    file : the file.
    row_filter : a predicate over its columns.
    """

    def __init__(self, file: BloomFile, row_filter: RowFilter):
        assert isinstance(row_filter.predicate, PruningPredicate)
        self._file = file
        self._row_filter = row_filter
        self._node = row_filter.predicate.node
        self._rows = SparseRows(file, find_flat_columns(file, arrow_schema(file)))

    def find_rows(self, selections: RowGroupSelections) -> Candidates | None:
        """Return the rows that the first equality leaves which stored values decide; None if there is none, or many."""
        row_groups = [row_group for row_group, _ in selections]
        if any(self._is_narrow(*one) for one in selections):
            return None  # a few pages are read, not whole chunks
        for leaf, targets in find_equalities(self._file, self._row_filter):
            if not self._rows.supports([leaf.column]):
                continue
            if self._has_page_bounds(leaf.column, row_groups):
                return None
            result = self._rows.search(leaf.column, row_groups, targets)
            if result is None:
                continue
            rows, numbers = result
            for row_group, selection in selections:
                if selection is not None:
                    inside = _find_selected(rows[row_group], selection)
                    rows[row_group], numbers[row_group] = rows[row_group][inside], numbers[row_group][inside]
            total = sum(map(self._file.footer.num_rows_of, row_groups))
            count = sum(map(len, rows.values()))
            if count * SPARSE_FACTOR > total or count * targets.longest > MAX_TAKEN_BYTES:
                return None
            columns = {leaf.column: self._rows.make_array(leaf.column, targets, numbers)}
            return Candidates(rows, columns, self._find_rest(leaf))
        return None

    def _find_rest(self, leaf: tree.Leaf) -> Node | None:
        """Return what the predicate says besides an equality of it; None for nothing."""
        if leaf is self._node or not isinstance(self._node, tree.And):
            return None
        return tree.all_of(child for child in self._node.children if child is not leaf)

    def _is_narrow(self, row_group: int, selection: RowSelection | None) -> bool:
        """Return whether zones leave few rows of a row group."""
        num_rows = self._file.footer.num_rows_of(row_group)
        return selection is not None and count_rows(selection) * SPARSE_FACTOR <= num_rows

    def _has_page_bounds(self, name: str, row_groups: Sequence[int]) -> bool:
        """Return whether statistics of pages rule out rows, so that large chunks of a column need not be read whole."""
        assert isinstance(self._row_filter.predicate, PruningPredicate)
        schema = arrow_schema(self._file)
        return any(
            select_rows_by_pages(
                self._file, row_group, RowGroupPages(self._file, schema, row_group), self._row_filter.predicate
            )
            is not None
            for row_group in row_groups
            if self._rows.has_index(name, row_group)
        )

    def find_matches(
        self, candidates: Candidates, names: Sequence[str] = ()
    ) -> tuple[RowsByGroup, dict[str, pa.Array]] | None:
        """Return the candidates that match, and columns in them as far as they were read.

        Parameters
        ----------
        names : columns that will be read of the matches. They are read with those of the predicate where that is less
            work than to read them for fewer rows later.

        Returns
        -------
        None where columns of the predicate cannot be read row by row.
        """
        rows, columns, rest = candidates
        if rest is None or not any(map(len, rows.values())):
            return rows, columns
        needed = tree.columns(rest)
        if sum(map(self._file.footer.num_rows_of, rows)) <= _ROWS_READ_AT_ONCE and self._rows.supports(names):
            needed = needed | {*names}
        others = sorted(needed - columns.keys())
        read = self._rows.read(others, rows) if self._rows.supports(others) else None
        if read is None:
            return None
        columns = columns | read
        mask = row_mask(
            pa.Table.from_arrays([*columns.values()], [*columns]),
            rest,
            timezone=self._row_filter.timezone,
            probes=self._row_filter.probes,
        )
        positions = mask_to_positions(mask)
        taken = from_numpy(positions)
        return _take_rows(rows, positions), {name: column.take(taken) for name, column in columns.items()}

    def read(self, rows: RowsByGroup, known: dict[str, pa.Array], schema: pa.Schema) -> pa.Table | None:
        """Read the columns of a schema in some rows.

        Parameters
        ----------
        known : columns that were read already.

        Returns
        -------
        None where they cannot be read row by row.
        """
        names = [name for name in schema.names if name not in known]
        if not self._rows.supports(names):
            return None
        read = self._rows.read(names, rows) if names else {}
        if read is None:
            return None
        columns = known | read
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def find_equalities(file: BloomFile, row_filter: RowFilter) -> list[tuple[tree.Leaf, Targets]]:
    """Return the equalities that every matching row meets, and that stored values decide; those of few values first."""
    assert isinstance(row_filter.predicate, PruningPredicate)
    node = row_filter.predicate.node
    leaves = node.children if isinstance(node, tree.And) else (node,)
    equalities = [leaf for leaf in leaves if isinstance(leaf, tree.Equal | tree.In)]
    pairs = [(leaf, _make_targets(file, leaf, row_filter)) for leaf in sorted(equalities, key=_count_literals)]
    return [(leaf, targets) for leaf, targets in pairs if targets is not None]


def _count_literals(leaf: tree.Leaf) -> int:
    return len(leaf.literals)


def _make_targets(file: BloomFile, leaf: tree.Leaf, row_filter: RowFilter) -> Targets | None:
    """Return the stored values that decide an equality; None if there are no such values."""
    leaves = find_leaves(file.leaves, leaf.column)
    column_type = type_of(leaves[0]) if len(leaves) == 1 else None
    if column_type is None or column_type.kind not in _STORED_ALIKE:
        return None
    key = id(leaf), column_type
    if key not in row_filter.targets:
        targets = None
        if None not in leaf.literals and len(leaf.literals) <= MAX_LITERALS:
            values, unknown = coerce_all(list(leaf.literals), column_type, row_filter.timezone)
            if unknown is None:
                targets = Targets([*dict.fromkeys(stored_forms(values, column_type))])
        row_filter.targets.setdefault(key, targets)
    return row_filter.targets[key]


def _find_selected(rows: RowPositions, selection: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return which of some rows are in a selection."""
    ranges = to_row_ranges(selection)
    return np.searchsorted(ranges[:, 0], rows, "right") > np.searchsorted(ranges[:, 1], rows, "right")


def _take_rows(rows: RowsByGroup, positions: RowPositions) -> RowsByGroup:
    """Return some rows, given by their positions among those of all row groups."""
    taken, before = {}, 0
    for row_group, of_group in rows.items():
        first, last = np.searchsorted(positions, (before, before + len(of_group)))
        taken[row_group] = of_group[positions[first:last] - before]
        before += len(of_group)
    return taken
