"""Find the columns of a table in its data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...errors import ParquetBloomError, UnknownColumnError, UnsupportedTypeError
from ...file.columns import find_leaf, find_leaves
from ...file.reader import BloomFile
from ...file.write.embed import lacks_filters
from ...file.write.options import FilterOptions
from ...metadata.renamed_footer import RenamedFooter
from ..column_names import find_names
from .target import LiveFile, TableState


class FilterColumns:
    """The columns of a table that get filters.

    Parameters
    ----------
    requested : {dotted name in the table: options}.
    state : the table.
    table : its name, for errors.

    Raises
    ------
    UnknownColumnError, UnsupportedTypeError
        See `require_column`.
    """

    def __init__(self, requested: Mapping[str, FilterOptions], state: TableState, table: str):
        self._requested, self._columns = requested, state.columns
        self._containers = {name: require_column(state, name, table) for name in requested}

    def choose(self, file: BloomFile, size: int) -> dict[str, FilterOptions]:
        """Return the columns that a file has, {dotted path in the file: options}.

        Raises
        ------
        UnknownColumnError
            Several leaves have the name of one.
        ParquetBloomError
            The file has another size than the table's metadata says, or it does not say which column is which.
        """
        if file.source.size != size:
            problem = f"it has {file.source.size:,} bytes, and {size:,} by the table's metadata"
            raise ParquetBloomError(problem, path=file.path)
        names = None if self._columns is None else find_names(file.footer, self._columns)
        leaves = file.leaves if names is None else RenamedFooter(file.footer, names).leaves
        chosen = {}
        for name, options in self._requested.items():
            if find_leaves(leaves, name):
                leaf = file.leaves[find_leaf(leaves, name, file.path).index]
                chosen[leaf.name] = options
                continue
            container = self._containers[name]
            others = [] if container is None else find_leaves(leaves, container)
            if others:  # not a column that was added later: writers name what is in lists and maps as they like
                problem = f"it has no such column, but {others[0].name}"
                raise ParquetBloomError(problem, path=file.path, column=name)
        return chosen

    def are_missing(self, file: LiveFile) -> bool:
        """Return whether a file lacks filters of these columns.

        Raises
        ------
        ParquetBloomError
            The file cannot get filters.
        """
        return lacks_filters(file.path, lambda opened: self.choose(opened, file.size))


def require_column(state: TableState, name: str, table: str) -> str | None:
    """Return the name of the outermost list or map that a column is in, or is; None if it is in none.

    Raises
    ------
    UnknownColumnError
        There is no such column.
    UnsupportedTypeError
        It is a struct or BOOLEAN, or only the table's metadata has its values.
    """
    if name in state.not_in_files:
        problem = "a partition column: the table's metadata has its values, and its files do not"
        raise UnsupportedTypeError(problem, path=table, column=name)
    found, above = _find_type(list(state.schema), name)
    if found is None:
        names = [field.name for field in state.schema if field.name not in state.not_in_files]
        text = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise UnknownColumnError(f"the table has no such column; it has: {text}", path=table, column=name)
    if pa.types.is_struct(found):
        raise UnsupportedTypeError("the column is a struct: name one of its fields", path=table, column=name)
    if pa.types.is_boolean(found):
        problem = "BOOLEAN columns get no filter: there are two values to find"
        raise UnsupportedTypeError(problem, path=table, column=name)
    return above if pa.types.is_nested(found) else None


def _find_type(fields: Sequence[pa.Field], name: str, above: str = "") -> tuple[Any, str]:
    """Return type and name of a column, or of the outermost list or map around it; None if there is none."""
    for field in fields:
        if field.name == name:
            return field.type, above + name
        if name.startswith(f"{field.name}.") and pa.types.is_nested(field.type):
            if not pa.types.is_struct(field.type):
                return field.type, above + field.name
            found = _find_type(list(field.type), name[len(field.name) + 1 :], f"{above}{field.name}.")
            if found[0] is not None:
                return found
    return None, ""
