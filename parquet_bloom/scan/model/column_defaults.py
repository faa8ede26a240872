"""The values that columns of a table have in the rows of files that lack them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import PredicateError
from ...file.file_columns import Named, find_leaves
from ...predicate import tree
from ...predicate.row_filter import row_mask
from ...predicate.tree import Leaf, Node

if TYPE_CHECKING:
    from ...tables.table_snapshot import TableSnapshot


class ColumnDefaults:
    """The default values of a table's columns; see `TableSnapshot.defaults`.

    Parameters
    ----------
    table : the table; None for files of no table, whose columns have none.
    timezone : zone of literals without one.
    decides : False for an engine that evaluates comparisons on the rows by its own rules: they count as true here.
    """

    def __init__(self, table: TableSnapshot | None, timezone: str = "UTC", *, decides: bool = True):
        self._table = table if table is not None and table.defaults.num_columns else None
        self._timezone = timezone
        self._decides = decides

    def __bool__(self) -> bool:
        return self._table is not None

    def find_absent(self, path: str, leaves: Sequence[Named]) -> tuple[str, ...]:
        """Return the columns that have their default in all rows of a file.

        Parameters
        ----------
        path, leaves : the file, and its columns as the table names them.
        """
        names = () if self._table is None else self._table.list_defaults(path)
        return tuple(name for name in names if not find_leaves(leaves, name))

    def select_absent(self, path: str, missing: Collection[str]) -> tuple[str, ...]:
        """Return those of the columns that a file is known to lack that have their default in all rows of it."""
        names = () if self._table is None else self._table.list_defaults(path)
        return tuple(name for name in names if name in missing)

    def describe(self, names: Sequence[str]) -> str:
        """Describe the defaults of columns."""
        assert self._table is not None
        values = self._table.defaults.select(names).to_pylist()[0]
        return f"its table says {', '.join(f'{name} is {value}' for name, value in values.items())} in files without it"

    def repeat(self, name: str, num_rows: int) -> pa.Array:
        """Return the values of a column in so many rows of a file that lacks it."""
        if self._table is None or name not in self._table.defaults.schema.names:
            return pa.nulls(num_rows)
        return pa.repeat(self._table.defaults.column(name)[0], num_rows)

    def find_residual(self, node: Node, names: Collection[str], *, strict: bool = True) -> Node | bool:
        """Return what remains of a predicate in files of which some columns have their default.

        Parameters
        ----------
        strict : False to treat comparisons that are impossible as true.

        Raises
        ------
        PredicateError
            A literal cannot be compared with a column.
        """

        def decide(leaf: Leaf) -> Leaf | bool:
            if leaf.column not in names:
                return leaf
            if not self._decides:
                return True
            assert self._table is not None
            try:
                mask = row_mask(self._table.defaults.select([leaf.column]), leaf, timezone=self._timezone)
            except PredicateError:
                if strict:
                    raise
                return True
            return mask[0].as_py() is True

        return tree.find_residual(node, decide)


NO_DEFAULTS = ColumnDefaults(None)
