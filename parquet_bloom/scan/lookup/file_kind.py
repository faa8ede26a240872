"""What is asked of files that are alike: their predicate, its equalities that pages are searched for, and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from ...file.file_columns import find_leaves, find_variant_parts, select_leaves, type_of
from ...file.pages.page_columns import PageColumn, find_page_columns
from ...hashing.column_type import Kind
from ...metadata.footer import SchemaLeaf
from ...metadata.page_match import Targets
from ...predicate import tree
from ...predicate.in_array import InArray, make_targets
from ...predicate.pattern_pieces import find_pieces
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import is_list
from ...predicate.tree import Node
from ...predicate.variant_names import find_paths
from ..decode.parquet_data import ParquetData
from ..model.data_file import DataFile, FileProjection, RowFilter
from .table_rows import TableRows

MAX_LITERALS = 100_000
"""Lists of more literals are not searched for, unless they are arrays."""

STORED_ALIKE = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.BYTES, Kind.UUID)  # equal values have the same bytes


class Equality(NamedTuple):
    """An equality that every matching row meets, and that stored values decide; or a piece that their texts have.

    Attributes
    ----------
    column, leaf : its column, and the values that are compared, which may be the elements of lists.
    targets : stored values that are equal.
    num_targets : how many.
    rest : what the predicate says besides it; None for nothing.
    """

    column: str
    leaf: SchemaLeaf
    targets: Targets
    num_targets: int
    rest: Node | None


class StoredCondition(NamedTuple):
    """The columns that a condition is evaluated on.

    Attributes
    ----------
    names, schema : those that are decoded, as `pyarrow.parquet` takes them, and their schema.
    stored : those that are compared as they are stored: INT96 outside of lists. pyarrow converts them to nanoseconds,
        and wraps values that do not fit. Of lists it compares what pyarrow shows, which the reader has checked.
    """

    names: list[str]
    schema: pa.Schema
    stored: dict[str, SchemaLeaf]


class FileKind:
    """The schema, the predicate, and the columns of the result, of files that are alike.

    Parameters
    ----------
    data : one of them, which need not be open.
    row_filter : the predicate.
    projection : columns of the result.
    reads_rows : whether these are read of the rows that match, perhaps with the predicate's.
    table : the table whose files they are; None for files of no table.
    is_shown : whether rows are filtered once they have the types of the table, as that shows other values.

    Attributes
    ----------
    node : the predicate; None if every row matches.
    leaves : leaves of each of its columns.
    columns : the files' columns of which rows can be taken out of pages, by name.
    too_many : how many searches have found too many rows.
    """

    def __init__(
        self,
        data: DataFile,
        row_filter: RowFilter,
        projection: FileProjection,
        reads_rows: bool,
        table: TableRows | None = None,
        is_shown: bool = False,
    ):
        self.data, self.row_filter, self.projection, self.reads_rows = data, row_filter, projection, reads_rows
        self.table, self.is_shown, self.too_many = table, is_shown, 0
        self.node: Node | None = None
        self.leaves: dict[str, Sequence[Any]] = {}
        if isinstance(row_filter.predicate, PruningPredicate):
            self.node = row_filter.predicate.node
            for name in sorted(tree.columns(self.node)):
                self.leaves[name] = find_leaves(data.leaves, name)
        self._parts = self._find_parts()
        self.columns: Mapping[str, PageColumn] = {}
        if isinstance(data, ParquetData):
            self.columns = find_page_columns(data.file, data.schema)
        self._conditions: dict[tuple[int, tuple[str, ...]], StoredCondition] = {}

    def _find_parts(self) -> dict[str, list[str]]:
        """Return what has to be read of each Variant of which the predicate asks for some paths alone."""
        if self.node is None or not isinstance(self.data, ParquetData):
            return {}
        parts = {}
        for name, paths in find_paths(self.node).items():
            found = [find_variant_parts(self.data.leaves, name, path) for path in paths]
            parts[name] = list(dict.fromkeys(part for one in found for part in one))
        return parts

    @cached_property
    def equalities(self) -> list[Equality]:
        """Equalities of the predicate that pages can be searched for; those of few values first."""
        parts: Sequence[Node] = () if self.node is None else (self.node,)
        if isinstance(self.node, tree.And):
            parts = self.node.children
        found = []
        for part in parts:
            comparisons = _find_comparisons(part)
            column = self.columns.get(comparisons[0].column) if comparisons else None
            if column is None or len(self.leaves[comparisons[0].column]) > 1:  # a field of another column has its name
                continue
            leaf, is_contained = column.leaf, isinstance(comparisons[0], tree.Contains)
            if type_of(leaf).kind not in STORED_ALIKE or leaf.repeated != is_contained:
                continue
            if not (is_list(column.arrow) if leaf.repeated else column.layout is not None):
                continue
            targets = self._find_targets(leaf, part, comparisons)
            if targets is not None:
                rest = None if part is self.node else tree.all_of([other for other in parts if other is not part])
                found.append(Equality(comparisons[0].column, leaf, targets, len(targets), rest))
        found.sort(key=attrgetter("num_targets"))
        return found + self._find_pieces(parts)

    def _find_pieces(self, parts: Sequence[Node]) -> list[Equality]:
        """Return pieces of text of which matching rows have each; of rows that have one, the predicate decides."""
        found = []
        for part in parts:
            if not isinstance(part, tree.PatternLeaf):
                continue
            piece, column = _find_piece(part), self.columns.get(part.column)
            if piece is None or column is None or len(self.leaves[part.column]) > 1:
                continue
            leaf = column.leaf
            is_text = type_of(leaf).kind is Kind.STRING and leaf.physical == "BYTE_ARRAY" and not leaf.repeated
            if is_text and column.layout is not None and not pa.types.is_dictionary(column.arrow):
                found.append(Equality(part.column, leaf, Targets.of_piece(piece), 1, self.node))
        return found

    def _find_targets(self, leaf: SchemaLeaf, part: Node, comparisons: Sequence[tree.Leaf]) -> Targets | None:
        """Return the stored values that decide an equality; None if there are no such values."""
        column_type, row_filter = type_of(leaf), self.row_filter
        key = id(part), column_type
        if key not in row_filter.targets:
            literals: Sequence[object] = comparisons[0].literals
            if len(comparisons) > 1:
                literals = [literal for comparison in comparisons for literal in comparison.literals]
            is_array = isinstance(part, InArray)
            is_searched = is_array or (None not in literals and len(literals) <= MAX_LITERALS)
            targets = make_targets(literals, column_type, row_filter.timezone) if is_searched else None
            row_filter.targets.setdefault(key, targets)
        return row_filter.targets[key]

    @cached_property
    def indexed(self) -> list[SchemaLeaf]:
        """The leaves of the predicate's columns, whose pages may have statistics."""
        if not isinstance(self.data, ParquetData):
            return []
        return [leaf for leaves in self.leaves.values() for leaf in leaves if not leaf.repeated]

    def find_condition(self, node: Node, others: Sequence[str] = ()) -> StoredCondition:
        """Return the columns that a condition is evaluated on, which lives as long as this object.

        Parameters
        ----------
        others : columns that are read with them.
        """
        key = id(node), tuple(others)
        if key not in self._conditions:
            names, stored = [], {}
            for name in sorted(tree.columns(node)):
                leaves = self.leaves[name]
                if len(leaves) == 1 and getattr(leaves[0], "physical", "") == "INT96" and not leaves[0].repeated:
                    stored[name] = leaves[0]
                elif leaves:
                    names += self._parts.get(name, [name])
            names += others
            schema = self.data.select_schema(names) if names else pa.schema([])
            self._conditions[key] = StoredCondition(names, schema, stored)
        return self._conditions[key]

    @cached_property
    def decoded(self) -> list[str] | None:
        """All columns that are decoded, as `pyarrow.parquet` takes them; None for all."""
        names = self.projection.names if self.reads_rows else []
        if names is None:
            return None
        of_predicate = (self._parts.get(name, [name]) for name, leaves in self.leaves.items() if leaves)
        return list(dict.fromkeys([*names, *(part for parts in of_predicate for part in parts)]))

    @cached_property
    def texts(self) -> set[str]:
        """Columns that are decoded, and of which a row may take any amount of memory."""
        if not isinstance(self.data, ParquetData):
            return set()
        leaves = select_leaves(self.data.leaves, self.decoded)
        return {leaf.path[0] for leaf in leaves if leaf.physical == "BYTE_ARRAY"}

    def is_plain(self, names: Sequence[str]) -> bool:
        """Return whether columns, and those of the result, are whole and may be read in more rows than match."""
        for name in [*names, *self.projection.schema.names]:
            # Of INT96 pyarrow may show other instants than are stored: an error, in the rows that match.
            if name not in self.columns or self.columns[name].leaf.physical == "INT96":
                return False
        return True

    def is_reusable(self, name: str, schema: pa.Schema) -> bool:
        """Return whether a column that was read for the predicate is the result's column of that name."""
        if isinstance(self.data, ParquetData):
            return name in self.columns and name in schema.names
        is_one = schema.names.count(name) == 1 == self.data.schema.names.count(name)
        return is_one and not pa.types.is_nested(schema.field(name).type)  # of which the result may have a part


def _find_piece(leaf: tree.PatternLeaf) -> bytes | None:
    """Return the longest piece that every text has for which a leaf is true; None if there is none."""
    for pieces in find_pieces(leaf):
        if len(pieces) == 1:
            return next(iter(pieces)).encode("utf-8", "surrogatepass")
    return None


def _find_comparisons(part: Node) -> Sequence[tree.Leaf]:
    """Return the comparisons of one column for equality that a part of a predicate consists of; none for others."""
    if isinstance(part, tree.Equal | tree.In | tree.Contains):
        return [part]
    parts = part.children if isinstance(part, tree.Or) else ()
    leaves = [leaf for leaf in parts if isinstance(leaf, tree.Contains)]
    alike = len(leaves) == len(parts) and len({leaf.column for leaf in leaves}) == 1
    return leaves if alike else ()
