"""Find a table's columns, and the leaves of a data file that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...errors import UnknownColumnError, UnsupportedTypeError
from ...metadata.footer import Leaf
from ..snapshot import TableColumn

_FIELD_ID = 9  # of a schema's element

Path = tuple[TableColumn, ...]
"""A column and the ones that it is a part of, from the outermost."""


def find_column(columns: Sequence[TableColumn], name: str, table: str) -> Path:
    """Return the column of a table of a given dotted name; for a list its element, if that has single values.

    Raises
    ------
    UnknownColumnError
        The table has no such column, or several of that name.
    UnsupportedTypeError
        The column has no values of its own: it is a struct or a map.
    """
    matches = list(_find(columns, name))
    if not matches:
        names = ", ".join(column.name for column in columns[:8]) + (", ..." if len(columns) > 8 else "")
        raise UnknownColumnError(f"the table has no such column; it has: {names}", path=table, column=name)
    if len(matches) > 1:
        raise UnknownColumnError("several columns of the table match the name", path=table, column=name)
    path = matches[0]
    while path[-1].kind == "list" and len(path[-1].parts) == 1:
        path = (*path, path[-1].parts[0])
    if path[-1].kind != "value":
        what = {"struct": "a struct; name one of its fields", "map": "a map; name its key or value"}
        problem = f"the column is {what.get(path[-1].kind, 'a list of unknown elements')}"
        raise UnsupportedTypeError(problem, path=table, column=name)
    return path


def find_leaf_of(path: Path, leaves: Sequence[Leaf]) -> Leaf | None:
    """Return the leaf of a file that is a column of its table; None if the file has none, or it cannot be told."""
    if any(_FIELD_ID in node for leaf in leaves for node in leaf.nodes) and path[-1].field_id is not None:
        found = [leaf for leaf in leaves if leaf.nodes[-1].get(_FIELD_ID) == path[-1].field_id]
    else:
        found = [leaf for leaf in leaves if _is_named(leaf.path, path)]
    return found[0] if len(found) == 1 else None


def _find(columns: Iterable[TableColumn], name: str) -> Iterator[Path]:
    for column in columns:
        if column.name == name:
            yield (column,)
        elif name.startswith(f"{column.name}."):
            rest = name[len(column.name) + 1 :]
            for below in _find(column.parts, rest):
                yield (column, *below)


def _is_named(names: Sequence[str], path: Path) -> bool:
    """Return whether the names of a leaf and of the groups around it are those of a column.

    Lists and maps have a repeated group below their own, whose name says nothing, and which very old writers left out.
    """
    if not path:
        return not names
    column, rest = path[0], path[1:]
    if not names or names[0] not in column.names:
        return False
    below = names[1:]
    if column.kind in ("list", "map") and rest:
        inner, is_map = rest[0], column.kind == "map"
        if is_map:
            return len(below) > 1 and below[1] in ("key", "value") and _is_part(below[2:], below[1], inner, rest[1:])
        return any(_follows(below[depth:], rest) for depth in (1, 2) if len(below) >= depth)
    return _is_named(below, rest)


def _is_part(below: Sequence[str], name: str, part: TableColumn, rest: Path) -> bool:
    return part.name == name and _follows(below, (part, *rest))


def _follows(names: Sequence[str], path: Path) -> bool:
    """Return whether names lead from an element of a list or map to a column in it; the element's own name is left out."""
    element, rest = path[0], path[1:]
    if element.kind == "value":
        return not names
    if element.kind == "struct":
        return bool(rest) and _is_named(names, rest)
    return bool(rest) and any(_follows(names[depth:], rest) for depth in (1, 2) if len(names) >= depth)
