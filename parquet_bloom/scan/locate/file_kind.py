"""What is asked of files that are alike: their predicate, its equalities that pages are searched for, and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa

from ...file.columns import find_leaves, type_of
from ...file.pages.plain import PageColumn, find_page_columns
from ...hashing.column_type import Kind
from ...metadata.footer import Leaf
from ...metadata.page_match import Targets
from ...predicate import tree
from ...predicate.in_array import InArray, make_targets
from ...predicate.lists import is_list
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ..decode.parquet_file import ParquetData
from ..model.data_file import DataFile, FileProjection, RowFilter
from ..model.limits import Limits, select_leaves
from .deleted_rows import TableRows

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

    def find_rest(self, node: Node) -> Node | None:
        """Return what a predicate, of which this is a part, says besides it; None for nothing."""
        if self.node is node or not isinstance(node, tree.And):
            return None
        return tree.all_of(child for child in node.children if child is not self.node)


@dataclass(eq=False)
class FileKind:
    """The schema, the predicate, and the columns of the result, of files that are alike.

    Attributes
    ----------
    data : one of them, which need not be open.
    row_filter : the predicate.
    projection : columns of the result.
    reads_rows : whether these are read of the rows that match, perhaps with the predicate's.
    table : the table whose files they are; None for files of no table.
    is_shown : whether rows are filtered once they have the types of the table, as that shows other values.
    too_many : how many searches have found too many rows.
    """

    data: DataFile
    row_filter: RowFilter
    projection: FileProjection
    reads_rows: bool
    table: TableRows | None = None
    is_shown: bool = False
    too_many: int = 0
    _columns: dict[tuple[str, ...], tuple[list[str], pa.Schema]] = field(default_factory=dict)

    @cached_property
    def node(self) -> Node | None:
        """The predicate; None if every row matches."""
        predicate = self.row_filter.predicate
        return predicate.node if isinstance(predicate, PruningPredicate) else None

    @cached_property
    def names(self) -> list[str]:
        """Names of the predicate's columns."""
        return [] if self.node is None else sorted(tree.columns(self.node))

    @cached_property
    def columns(self) -> Mapping[str, PageColumn]:
        """The files' columns of which rows can be taken out of pages, by name."""
        return find_page_columns(self.data.file, self.data.schema) if isinstance(self.data, ParquetData) else {}

    @cached_property
    def equalities(self) -> list[Equality]:
        """Equalities of the predicate that pages can be searched for; those of few values first."""
        if self.node is None:
            return []
        found = []
        for part in self.node.children if isinstance(self.node, tree.And) else (self.node,):
            leaves = _find_comparisons(part)
            column = self.columns.get(leaves[0].column) if leaves else None
            if column is None or not _is_searchable(column, leaves[0]):
                continue
            if len(find_leaves(self.data.leaves, leaves[0].column)) > 1:  # a field of another column has its name
                continue
            targets = _make_targets(column.leaf, part, leaves, self.row_filter)
            if targets is not None:
                num_literals = sum([len(leaf.literals) for leaf in leaves])
                found.append((num_literals, Equality(part, leaves[0].column, column.leaf, targets)))
        return [one for _, one in sorted(found, key=itemgetter(0))]

    @cached_property
    def indexed(self) -> list[Leaf]:
        """The leaves of the predicate's columns, whose pages may have statistics."""
        if not isinstance(self.data, ParquetData):
            return []
        return [leaf for name in self.names for leaf in find_leaves(self.data.leaves, name) if not leaf.repeated]

    def stored_columns(self, node: Node) -> dict[str, Leaf]:
        """Return the columns of a condition that are compared as they are stored: INT96 outside of lists.

        pyarrow converts them to nanoseconds, and wraps values that do not fit. Of lists it compares what pyarrow shows,
        which the reader has checked.
        """
        found = {name: find_leaves(self.data.leaves, name) for name in sorted(tree.columns(node))}
        return {
            name: leaves[0]
            for name, leaves in found.items()
            if len(leaves) == 1
            and isinstance(leaves[0], Leaf)
            and leaves[0].physical == "INT96"
            and not leaves[0].repeated
        }

    def find_columns(self, node: Node, others: Sequence[str] = ()) -> tuple[list[str], pa.Schema]:
        """Return the columns that a condition is evaluated on, as `pyarrow.parquet` takes them, and their schema.

        Parameters
        ----------
        others : columns that are read with them.
        """
        key = (*sorted(tree.columns(node)), "", *others)
        if key not in self._columns:
            stored = self.stored_columns(node)
            names = [name for name in sorted(tree.columns(node)) if name not in stored]
            names = [*(name for name in names if find_leaves(self.data.leaves, name)), *others]
            self._columns[key] = names, self.data.select_schema(names) if names else pa.schema([])
        return self._columns[key]

    @cached_property
    def decoded(self) -> list[str] | None:
        """All columns that are decoded, as `pyarrow.parquet` takes them; None for all."""
        names = self.projection.names if self.reads_rows else []
        if names is None:
            return None
        return list(dict.fromkeys([*names, *(name for name in self.names if find_leaves(self.data.leaves, name))]))

    def is_plain(self, names: Sequence[str]) -> bool:
        """Return whether columns, and those of the result, are whole and may be read in more rows than match."""
        every = [*names, *self.projection.schema.names]
        # Of INT96 pyarrow may show other instants than are stored: an error, in the rows that match.
        return all(name in self.columns and self.columns[name].leaf.physical != "INT96" for name in every)

    def is_reusable(self, name: str, schema: pa.Schema) -> bool:
        """Return whether a column that was read for the predicate is the result's column of that name."""
        if isinstance(self.data, ParquetData):
            return name in self.columns and name in schema.names
        is_one = schema.names.count(name) == 1 == self.data.schema.names.count(name)
        return is_one and not pa.types.is_nested(schema.field(name).type)  # of which the result may have a part

    def has_unseen_texts(self, limits: Limits) -> bool:
        """Return whether a decoded row may take any amount of memory, and none has been decoded yet."""
        if not isinstance(self.data, ParquetData):
            return False
        leaves = select_leaves(self.data.leaves, self.decoded)
        return any(leaf.physical == "BYTE_ARRAY" and leaf.path[0] not in limits.widths for leaf in leaves)


def _find_comparisons(part: Node) -> Sequence[tree.Leaf]:
    """Return the comparisons of one column for equality that a part of a predicate consists of; none for others."""
    if isinstance(part, tree.Equal | tree.In | tree.Contains):
        return [part]
    parts = part.children if isinstance(part, tree.Or) else ()
    leaves = [leaf for leaf in parts if isinstance(leaf, tree.Contains)]
    alike = len(leaves) == len(parts) and len({leaf.column for leaf in leaves}) == 1
    return leaves if alike else ()


def _is_searchable(column: PageColumn, comparison: tree.Leaf) -> bool:
    """Return whether a comparison is about the stored values of a column, of such a kind."""
    leaf = column.leaf
    if type_of(leaf).kind not in STORED_ALIKE or leaf.repeated != isinstance(comparison, tree.Contains):
        return False
    return is_list(column.arrow) if leaf.repeated else column.layout is not None


def _make_targets(leaf: Leaf, part: Node, comparisons: Sequence[tree.Leaf], row_filter: RowFilter) -> Targets | None:
    """Return the stored values that decide an equality; None if there are no such values."""
    column_type = type_of(leaf)
    key = id(part), column_type
    if key not in row_filter.targets:
        literals = part.values if isinstance(part, InArray) else [one for leaf in comparisons for one in leaf.literals]
        is_searched = isinstance(part, InArray) or (None not in literals and len(literals) <= MAX_LITERALS)
        targets = make_targets(literals, column_type, row_filter.timezone) if is_searched else None
        row_filter.targets.setdefault(key, targets)
    return row_filter.targets[key]
