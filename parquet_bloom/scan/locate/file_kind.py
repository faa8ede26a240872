"""What files have in common whose row groups are read together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from ...file.columns import find_leaves
from ...file.pages.plan import FlatColumn, ListColumn
from ...file.pages.reader import find_flat_columns, find_list_columns
from ...file.reader import BloomFile
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.tree import Node
from ..decode.columns_decoder import select_leaves
from ..model.data_file import FileProjection, RowFilter
from ..model.limits import ReadLimits
from ..model.schemas import arrow_schema, select_schema
from .deleted_rows import TableRows
from .equalities import Equality, find_equalities


@dataclass(eq=False)
class FileKind:
    """The schema, the predicate, and the columns of the result, of files that are alike.

    Attributes
    ----------
    file : one of them, which need not be open.
    row_filter : the predicate.
    projection : columns of the result.
    shown_by : filters rows once they have the types of a table, where the table shows other values; None otherwise.
    too_many : how many searches have found too many rows.
    """

    file: BloomFile
    row_filter: RowFilter
    projection: FileProjection
    shown_by: TableRows | None = None
    too_many: list[None] = field(default_factory=list)
    _columns: dict[tuple[str, ...], tuple[list[str], pa.Schema]] = field(default_factory=dict)

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the files' rows, as pyarrow reads them."""
        return arrow_schema(self.file)

    @cached_property
    def columns(self) -> Mapping[str, FlatColumn | ListColumn]:
        """The files' flat columns, and those of lists, by name."""
        return {**find_flat_columns(self.file, self.schema), **find_list_columns(self.file, self.schema)}

    @cached_property
    def equalities(self) -> list[Equality]:
        """Equalities of the predicate that pages can be searched for; those of few values first."""
        if not isinstance(self.row_filter.predicate, PruningPredicate):
            return []
        found = find_equalities(self.file, self.schema, self.row_filter)
        flat = {name for name, column in self.columns.items() if column.layout is not None}
        return [one for one in found if one.leaf.repeated or one.column in flat]

    def stored_columns(self, node: Node) -> dict[str, Leaf]:
        """Return the columns of a condition that are compared as they are stored: INT96 outside of lists.

        pyarrow converts them to nanoseconds, and wraps values that do not fit. Of lists it compares what pyarrow shows,
        which the reader has checked.
        """
        found = {name: find_leaves(self.file.leaves, name) for name in sorted(tree.columns(node))}
        return {
            name: leaves[0]
            for name, leaves in found.items()
            if len(leaves) == 1 and leaves[0].physical == "INT96" and not leaves[0].repeated
        }

    def find_columns(self, node: Node) -> tuple[list[str], pa.Schema]:
        """Return the columns that a condition is evaluated on, as `pyarrow.parquet` takes them, and their schema."""
        return self.find_columns_with(node, ())

    def find_columns_with(self, node: Node, others: Sequence[str]) -> tuple[list[str], pa.Schema]:
        """Return what `find_columns` does, and other columns with them."""
        key = (*sorted(tree.columns(node)), "", *others)
        if key not in self._columns:
            stored = self.stored_columns(node)
            names = [name for name in sorted(tree.columns(node)) if name not in stored]
            names = [*(name for name in names if find_leaves(self.file.leaves, name)), *others]
            self._columns[key] = names, select_schema(self.file, names) if names else pa.schema([])
        return self._columns[key]

    def find_names(self, node: Node | None, reads_rows: bool) -> list[str] | None:
        """Return all columns that are decoded, as `pyarrow.parquet` takes them; None for all."""
        names: list[str] | None = self.projection.names if reads_rows else []
        if names is None or node is None:
            return names
        of_node = [name for name in sorted(tree.columns(node)) if find_leaves(self.file.leaves, name)]
        return list(dict.fromkeys([*names, *of_node]))

    def is_plain(self, names: Sequence[str]) -> bool:
        """Return whether columns, and those of the result, are whole and may be read in more rows than match."""
        every = [*names, *self.projection.schema.names]
        # Of INT96 pyarrow may show other instants than are stored: an error, in the rows that match.
        return all(name in self.columns and self.columns[name].leaf.physical != "INT96" for name in every)

    def is_reusable(self, name: str, schema: pa.Schema) -> bool:
        """Return whether a column that was read for the predicate is the result's column of that name."""
        return name in self.columns and name in schema.names

    def has_unseen_texts(self, names: Sequence[str] | None, limits: ReadLimits) -> bool:
        """Return whether a decoded row may take any amount of memory, and none has been decoded yet."""
        leaves = select_leaves(self.file.leaves, names)
        return any(leaf.physical == "BYTE_ARRAY" and leaf.path[0] not in limits.widths for leaf in leaves)

    def find_indexed(self) -> list[Leaf]:
        """Return the leaves of the predicate's columns, whose pages may have statistics."""
        assert isinstance(self.row_filter.predicate, PruningPredicate)
        names = sorted(tree.columns(self.row_filter.predicate.node))
        return [leaf for name in names for leaf in find_leaves(self.file.leaves, name) if not leaf.repeated]
