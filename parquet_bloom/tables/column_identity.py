"""Which stored column of a data file a table's column is: what stays the same when columns are renamed.

A column of a file is identified by its path there and its field id, written as `path#id`. In a path, dots and the like
that are part of a name are quoted. Without `id` the file has no field ids, with `-` it has some, but not this column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import UnknownColumnError, UnsupportedTypeError
from ..metadata.footer import Footer, Leaf

if TYPE_CHECKING:
    from .snapshot import TableColumn

_FIELD_ID = 9  # of a schema's element
_WITHOUT_ID = "-"


def identify_column(footer: Footer, leaf: Leaf, name: str, columns: Sequence[TableColumn]) -> str:
    """Return the identity of the stored column that a table's column is in one of its files.

    Parameters
    ----------
    footer : of the file, as the table shows it; see `footers`.
    leaf : the leaf of it that has the name.
    name : of the table's column, dotted for a field of structs.
    columns : of the table.

    Raises
    ------
    UnknownColumnError
        The table has no such column, or several, or the leaf is another one.
    UnsupportedTypeError
        It has several columns, or might have them in other files.
    """
    steps = _find_steps(columns, name)
    if steps is None:
        raise UnknownColumnError("the table has no such column, or several of the name", column=name)
    if not _is_single(steps[-1]):
        raise UnsupportedTypeError(f"it is a {steps[-1].kind} of several values: name one of its fields", column=name)
    if leaf.path[: len(steps)] != tuple(step.name for step in steps):
        raise UnknownColumnError("the file has another column of the name", column=name)
    number = leaf.nodes[len(steps) - 1].get(_FIELD_ID)
    if number is None:
        number = _WITHOUT_ID if any(_FIELD_ID in element for element in footer.schema) else ""
    return f"{_join(footer.stored_leaf(leaf).path[: len(steps)])}#{number}"


def is_same_column(columns: Sequence[TableColumn] | None, name: str, identity: str) -> bool:
    """Return whether a table's column is a stored column in every file that has this one.

    Parameters
    ----------
    columns : of the table; None if files name them as the table does.
    name : of the table's column.
    identity : of the stored column; empty for one that was found by the name in files of which nothing else is known.
    """
    path, _, number = identity.rpartition("#")
    if columns is None:
        return path in ("", name)
    steps = _find_steps(columns, name)
    if steps is None or not _is_single(steps[-1]):
        return False
    has_ids = any(step.field_id is not None for step in steps)
    if has_ids and number:
        return number == str(steps[-1].field_id)
    if has_ids and not path:  # nobody knows whether the files have field ids
        return False
    parts = path.split(".") if path else [_quote(step.name) for step in steps]
    pairs = zip(parts, steps, strict=False)
    return len(parts) == len(steps) and all(part in map(_quote, step.names) for part, step in pairs)


def has_column(columns: Sequence[TableColumn] | None, name: str) -> bool:
    """Return whether a table has a column of a name; True if its columns are not known."""
    return columns is None or bool(_find_all(columns, name))


def _find_steps(columns: Sequence[TableColumn], name: str) -> tuple[TableColumn, ...] | None:
    """Return the columns that lead to the one of a name, itself included; None if there is not just one.

    Those of a struct with one field lead on to the field, which is all that a file can have of the struct.
    """
    found = list(_find_all(columns, name))
    if len(found) != 1:
        return None
    (steps,) = found
    while steps[-1].kind == "struct" and len(steps[-1].parts) == 1:
        steps = (*steps, *steps[-1].parts)
    return steps


def _find_all(columns: Sequence[TableColumn], name: str) -> list[tuple[TableColumn, ...]]:
    found: list[tuple[TableColumn, ...]] = []
    for column in columns:
        if column.name == name:
            found.append((column,))
        elif column.kind == "struct" and name.startswith(f"{column.name}."):
            found += [(column, *steps) for steps in _find_all(column.parts, name[len(column.name) + 1 :])]
    return found


def _is_single(column: TableColumn) -> bool:
    """Return whether a column has one value or one list of them, rather than fields."""
    while column.kind == "list":
        column = column.parts[0]
    return column.kind == "value"


def _join(path: Sequence[str]) -> str:
    return ".".join(map(_quote, path))


def _quote(part: str) -> str:
    """Quote what has a meaning in a joined path; names without it stay as they are."""
    return part.replace("%", "%25").replace(".", "%2E").replace("#", "%23")
