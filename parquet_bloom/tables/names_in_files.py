"""Name the columns of a data file as its table does, by their field ids or by their names in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import ParquetBloomError, UnknownColumnError, UnsupportedTypeError
from ..metadata.footer import Footer, SchemaLeaf

if TYPE_CHECKING:
    from .table_snapshot import TableColumn


_FIELD_ID = 9  # of a schema's element
_WITHOUT_ID = "-"


def identify_column(footer: Footer, leaf: SchemaLeaf, name: str, columns: Sequence[TableColumn]) -> str:
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


_CHILDREN, _NAME, _PARQUET_FIELD_ID, _REPETITION = 5, 4, 9, 3  # fields of a schema element
_REPEATED = 2
_MAX_SCHEMAS = 64  # the files of a table have few different ones


def find_names(footer: Footer, columns: tuple[TableColumn, ...]) -> Sequence[bytes] | None:
    """Return a name for each element of a footer's schema, root included; None if all stay as they are.

    A column of the file that the table does not have gets a name that no column of the table has: the table may have
    dropped it, and may have another column of its name.

    Raises
    ------
    ParquetBloomError
        The file has no field ids, and the table does not say how columns are named in such files.
    """
    names = _find_names(tuple(_Element.read_all(footer.schema)), columns)
    return None if all(new == element[_NAME] for new, element in zip(names, footer.schema, strict=True)) else names


class _Element(tuple[bytes, int | None, int, bool]):
    """What names depend on of an element of a schema: name, field id, number of children, whether it is repeated."""

    __slots__ = ()

    @classmethod
    def read_all(cls, schema: Sequence[Mapping[int, Any]]) -> list[_Element]:
        return [
            cls(
                (
                    element[_NAME],
                    element.get(_PARQUET_FIELD_ID),
                    element.get(_CHILDREN, 0),
                    element.get(_REPETITION) == _REPEATED,
                )
            )
            for element in schema
        ]


@lru_cache(maxsize=_MAX_SCHEMAS)
def _find_names(elements: tuple[_Element, ...], columns: tuple[TableColumn, ...]) -> tuple[bytes, ...]:
    return tuple(_Naming(elements, columns).names)


class _Naming:
    """The walk through one schema."""

    def __init__(self, elements: Sequence[_Element], columns: tuple[TableColumn, ...]):
        self.names = [name for name, *_ in elements]
        self._elements = elements
        self._has_ids = any(field_id is not None for _, field_id, _, _ in elements)
        if not self._has_ids and columns and not any(column.names for column in columns):
            problem = "the file has no field ids, and its table has no name mapping for such files"
            raise ParquetBloomError(f"{problem}: set schema.name-mapping.default")
        self._name_fields(0, columns)

    def _name_fields(self, position: int, parts: Sequence[TableColumn]) -> int:
        """Name the children of a struct; return the position behind them."""
        taken = {part.name for part in parts}
        end = position + 1
        for _ in range(self._elements[position][2]):
            part = self._match(end, parts)
            if part is None:
                self.names[end] = _make_other_name(self._elements[end][0], taken)
                end = self._skip(end)
            else:
                self.names[end] = part.name.encode()
                end = self._name_parts(end, part)
        return end

    def _name_parts(self, position: int, part: TableColumn) -> int:
        """Name what is below a column; return the position behind it."""
        name, _, num_children, is_repeated = self._elements[position]
        if part.kind == "list" and is_repeated:  # one level: the column itself is the element
            return self._name_parts(position, part.parts[0])
        if not num_children or part.kind == "value":
            return self._skip(position)
        if part.kind == "struct":
            return self._name_fields(position, part.parts)
        child = position + 1
        inner, _, num_inner, _ = self._elements[child]
        if part.kind == "map" and num_inner == len(part.parts) == 2:
            end = child + 1
            for child_part in part.parts:
                end = self._name_parts(end, child_part)
        elif part.kind == "list" and num_inner == 1 and inner not in (b"array", name + b"_tuple"):
            self._name_parts(child + 1, part.parts[0])
        elif part.kind == "list" and num_inner and part.parts[0].kind == "struct":  # two levels
            self._name_fields(child, part.parts[0].parts)
        return self._skip(position)

    def _match(self, position: int, parts: Sequence[TableColumn]) -> TableColumn | None:
        name, field_id, _, _ = self._elements[position]
        for part in parts:
            if self._has_ids and part.field_id is not None:
                if field_id == part.field_id:
                    return part
            elif name in (known.encode() for known in part.names):
                return part
        return None

    def _skip(self, position: int) -> int:
        """Return the position behind an element and all below it."""
        remaining = 1
        while remaining:
            remaining += self._elements[position][2] - 1
            position += 1
        return position


def _make_other_name(name: bytes, taken: set[str]) -> bytes:
    other = f"{name.decode('utf-8', 'replace')} (not in the table)"
    while other in taken:
        other += "'"
    return other.encode()
