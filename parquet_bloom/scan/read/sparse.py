"""Read few matching rows of many row groups of local Parquet files, searched by one equality of the predicate.

Stored values are compared in the pages, and only the rows that are equal are taken out of the pages of other columns.
What cannot be read so is left to the general way, in which pyarrow decodes whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.columns import find_leaves, holds_elements, type_of
from ...file.pages.reader import SPARSE_FACTOR
from ...file.pages.sparse import MAX_TAKEN_BYTES, RowGroupBatch, RowsOfGroups
from ...file.reader import BloomFile
from ...hashing.coerce import stored_forms
from ...hashing.coerce_many import coerce_all
from ...hashing.column_type import Kind
from ...metadata.footer import Leaf
from ...metadata.page_match import Targets
from ...predicate import tree
from ...predicate.in_array import InArray, make_targets
from ...predicate.lists import is_list
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import row_mask
from ...predicate.tree import Node
from ...util.arrow_select import take
from ..model.data_file import RowFilter
from ..model.row_selection import RowPositions, RowSelection, mask_to_positions, to_row_ranges

MAX_LITERALS = 100_000
"""Lists of more literals are not searched for, unless they are arrays."""

STORED_ALIKE = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.BYTES, Kind.UUID)  # equal values have the same bytes


class Equality(NamedTuple):
    """An equality that every matching row meets, and that stored values decide.

    Attributes
    ----------
    node : part of the predicate: Equal, In, Contains, or several Contains of one column that are joined by OR.
    column, leaf : its column, and the values that are compared, which may be the elements of lists.
    targets : stored values that are equal.
    """

    node: Node
    column: str
    leaf: Leaf
    targets: Targets


ReadOthers = Callable[[Sequence[str], RowsOfGroups], Mapping[str, pa.ChunkedArray]]
"""Reads columns in some rows in the general way."""


class TooManyRows(Exception):
    """So many rows are equal that whole columns are read faster."""


class Matches(NamedTuple):
    """The rows of row groups that match.

    Attributes
    ----------
    rows : of each row group.
    columns : what is known of their values.
    """

    rows: RowsOfGroups
    columns: Mapping[str, pa.Array | pa.ChunkedArray]

    def take(self, positions: RowPositions) -> Matches:
        """Return some rows, given by their positions among all."""
        if len(positions) == len(self.rows.rows):
            return self
        columns = {name: take(column, positions) for name, column in self.columns.items()}
        return Matches(_take_rows(self.rows, positions), columns)


class SparseReader:
    """Reads few rows of row groups.

    Parameters
    ----------
    batch : the row groups.
    equalities : as `find_equalities` gives them for the predicate; the batch supports the column of one.
    row_filter : the predicate.
    """

    def __init__(self, batch: RowGroupBatch, equalities: Sequence[Equality], row_filter: RowFilter):
        assert isinstance(row_filter.predicate, PruningPredicate)
        self._batch = batch
        self._equality = next(one for one in equalities if one.leaf.repeated or batch.supports([one.column]))
        self._row_filter = row_filter
        self._node = row_filter.predicate.node

    @property
    def leaf(self) -> Leaf:
        """The column that is searched."""
        return self._equality.leaf

    def find_matches(self, selections: Sequence[RowSelection | None], read_others: ReadOthers) -> Matches:
        """Return the selected rows that match.

        Parameters
        ----------
        selections : of each row group; None for all of its rows.
        read_others : reads columns that cannot be taken out of their pages.

        Raises
        ------
        TooManyRows
        MalformedFooterError, StorageError
            The row groups have to be read in the general way.
        """
        return self._keep_matching(self._find_equal(selections), self._find_rest(), read_others)

    def _find_equal(self, selections: Sequence[RowSelection | None]) -> Matches:
        """Return the selected rows that the equality leaves."""
        targets, column = self._equality.targets, self._equality.column
        most = self._batch.total_rows // SPARSE_FACTOR
        are_some = any(selection is not None for selection in selections)
        if self.leaf.repeated:
            in_lists = self._batch.search_lists(self.leaf, targets, most)
            if in_lists is None:
                raise TooManyRows
            rows, lists = in_lists
            matches = Matches(rows, {} if lists is None else {column: lists})
            return matches.take(np.flatnonzero(_find_selected(rows, selections))) if are_some else matches
        result = self._batch.search(column, targets, most, selections if are_some else None)
        if result is None:
            raise TooManyRows
        rows, numbers = result
        if are_some:
            inside = _find_selected(rows, selections)
            rows, numbers = _take_rows(rows, np.flatnonzero(inside)), numbers[inside]
        if len(rows.rows) * targets.longest > MAX_TAKEN_BYTES:
            raise TooManyRows
        return Matches(rows, {column: self._batch.make_array(column, targets, numbers)})

    def _find_rest(self) -> Node | None:
        """Return what the predicate says besides the equality; None for nothing."""
        node = self._equality.node
        if node is self._node or not isinstance(self._node, tree.And):
            return None
        return tree.all_of(child for child in self._node.children if child is not node)

    def _keep_matching(self, matches: Matches, rest: Node | None, read_others: ReadOthers) -> Matches:
        """Return the rows that meet the rest of the predicate."""
        rows, columns = matches
        if rest is None or not len(rows.rows):
            return matches
        columns = self._read(sorted(tree.columns(rest) - columns.keys()), matches, read_others)
        mask = row_mask(
            pa.Table.from_arrays([*columns.values()], [*columns]),
            rest,
            timezone=self._row_filter.timezone,
            probes=self._row_filter.probes,
        )
        return Matches(rows, columns).take(mask_to_positions(mask))

    def read(self, matches: Matches, schema: pa.Schema, read_others: ReadOthers) -> pa.Table:
        """Read the columns of a schema in rows that match; for errors see `find_matches`."""
        columns = self._read([name for name in schema.names if name not in matches.columns], matches, read_others)
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _read(self, names: Sequence[str], matches: Matches, read_others: ReadOthers) -> dict[str, pa.ChunkedArray]:
        """Return columns in some rows, and those that are known of them."""
        taken = [name for name in names if self._batch.supports([name])]
        columns = {**matches.columns, **self._batch.read(taken, matches.rows)}
        others = [name for name in names if name not in columns]
        return {**columns, **read_others(others, matches.rows)} if others else columns


def find_equalities(file: BloomFile, schema: pa.Schema, row_filter: RowFilter) -> list[Equality]:
    """Return the equalities of a predicate that stored values decide; those of few values first.

    Parameters
    ----------
    schema : of the file's rows, as pyarrow reads them.
    """
    assert isinstance(row_filter.predicate, PruningPredicate)
    node = row_filter.predicate.node
    conjuncts = node.children if isinstance(node, tree.And) else (node,)
    parts = [(part, leaves) for part in conjuncts if (leaves := _find_comparisons(part))]
    return [
        Equality(part, leaves[0].column, leaf, targets)
        for part, leaves in sorted(parts, key=_count_literals)
        if (leaf := _find_compared(file, schema, leaves[0])) is not None
        and (targets := _make_targets(leaf, part, leaves, row_filter)) is not None
    ]


def _find_comparisons(part: Node) -> Sequence[tree.Leaf]:
    """Return the comparisons of one column for equality that a part of a predicate consists of; none for others."""
    if isinstance(part, tree.Equal | tree.In | tree.Contains):
        return [part]
    parts = part.children if isinstance(part, tree.Or) else ()
    leaves = [leaf for leaf in parts if isinstance(leaf, tree.Contains)]
    alike = len(leaves) == len(parts) and len({leaf.column for leaf in leaves}) == 1
    return leaves if alike else ()


def _count_literals(part: tuple[Node, Sequence[tree.Leaf]]) -> int:
    return sum(len(leaf.literals) for leaf in part[1])


def _find_compared(file: BloomFile, schema: pa.Schema, comparison: tree.Leaf) -> Leaf | None:
    """Return the leaf whose values a comparison is about; None if there is not just one, or not of such a kind."""
    leaves = find_leaves(file.leaves, comparison.column)
    if len(leaves) != 1 or type_of(leaves[0]).kind not in STORED_ALIKE:
        return None
    leaf = leaves[0]
    if leaf.repeated != isinstance(comparison, tree.Contains):
        return None
    if leaf.repeated:
        is_top = comparison.column == leaf.path[0] and schema.names.count(comparison.column) == 1
        if not is_top or not holds_elements(leaf, comparison.column):
            return None
        if not is_list(schema.field(comparison.column).type):
            return None
    return leaf


def _make_targets(leaf: Leaf, part: Node, comparisons: Sequence[tree.Leaf], row_filter: RowFilter) -> Targets | None:
    """Return the stored values that decide an equality; None if there are no such values."""
    column_type = type_of(leaf)
    key = id(part), column_type
    if key not in row_filter.targets:
        targets = make_targets(part.array, column_type) if isinstance(part, InArray) else None
        literals = [] if targets is not None else [literal for leaf in comparisons for literal in leaf.literals]
        if targets is None and None not in literals and (len(literals) <= MAX_LITERALS or isinstance(part, InArray)):
            values, unknown = coerce_all(literals, column_type, row_filter.timezone)
            if unknown is None:
                targets = Targets([*dict.fromkeys(stored_forms(values, column_type))])
        row_filter.targets.setdefault(key, targets)
    return row_filter.targets[key]


def _find_selected(rows: RowsOfGroups, selections: Sequence[RowSelection | None]) -> NDArray[np.bool_]:
    """Return which of some rows are selected."""
    inside = np.ones(len(rows.rows), np.bool_)
    ends = np.cumsum(rows.counts).tolist()
    for selection, end, count in zip(selections, ends, rows.counts.tolist(), strict=True):
        if selection is not None and count:
            ranges = to_row_ranges(selection)
            part = rows.rows[end - count : end]
            inside[end - count : end] = np.searchsorted(ranges[:, 0], part, "right") > np.searchsorted(
                ranges[:, 1], part, "right"
            )
    return inside


def _take_rows(rows: RowsOfGroups, positions: RowPositions) -> RowsOfGroups:
    """Return some rows, given by their positions among all."""
    groups = np.repeat(np.arange(len(rows.counts)), rows.counts)[positions]
    return RowsOfGroups(np.bincount(groups, minlength=len(rows.counts)), rows.rows[positions])
