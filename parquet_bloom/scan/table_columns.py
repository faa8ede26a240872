"""Columns of a table's schema, as predicates and datasets name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..errors import PredicateError, UnknownColumnError, UnreadableColumnError, UnsupportedTypeError
from ..hashing.column_type import ColumnType, Kind, from_arrow
from ..predicate import tree
from ..predicate.tree import Node
from .model.named_columns import suggest_names


def select_table_columns(
    schema: pa.Schema, columns: Sequence[str] | None, case_sensitive: bool = True, kind: str = "table"
) -> tuple[list[str], pa.Schema]:
    """Return the columns to read of a table, top-level ones or dotted fields of structs, and the schema of the result.

    Parameters
    ----------
    kind : what errors call it.

    Raises
    ------
    UnknownColumnError
        The table has no such column.
    """
    if columns is None:
        return schema.names, schema
    names = [_spell(name, [*_list_names(schema)], not case_sensitive, kind) for name in columns]
    paths = [_find_path(schema, name) for name in dict.fromkeys(names)]
    tops = dict.fromkeys(path[0] for path in paths)
    fields = [_prune_field(schema.field(top), [path[1:] for path in paths if path[0] == top]) for top in tops]
    return names, pa.schema(fields, schema.metadata)


def find_table_column_type(
    schema: pa.Schema, name: str, case_sensitive: bool = True, kind: str = "table"
) -> ColumnType:
    """Return the type of a column of a table, a top-level one or a dotted field of structs.

    Parameters
    ----------
    kind : what errors call it.

    Raises
    ------
    UnknownColumnError
        The table has no such column.
    UnsupportedTypeError
        Its type is one whose values cannot be compared.
    """
    path = _find_path(schema, _spell(name, [*_list_names(schema)], not case_sensitive, kind))
    field = schema.field(path[0])
    for part in path[1:]:
        field = field.type.field(part)
    try:
        column_type = from_arrow(field.type)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.problem, column=name) from None
    if column_type.kind is Kind.UNKNOWN:
        raise UnsupportedTypeError(f"values of the type {column_type} cannot be compared", column=name)
    return column_type


def spell_columns(node: Node | None, schema: pa.Schema, ignore_case: bool, resolved: bool = False) -> Node | None:
    """Return a predicate with its columns spelled as a table spells them.

    Parameters
    ----------
    resolved : whether an engine has resolved the names, and evaluates the predicate itself; it may get more rows.

    Raises
    ------
    UnknownColumnError
        The table has no such column, or several that differ in case alone.
    PredicateError
        A name means both a column and a field of a struct.
    """
    if node is None:
        return None
    names = [*_list_names(schema)]
    spelled = {name: _spell(name, names, ignore_case) for name in sorted(tree.columns(node))}
    twice = [name for name in spelled.values() if names.count(name) > 1]
    if twice and resolved:
        return None  # which of the two is meant, the name does not say: all rows are read
    if twice:
        problem = "the table has a column of this name, with the dot, and a field of a struct that is called so"
        raise PredicateError(f"{problem}: rename one, or filter the rows that are read", column=twice[0])
    return tree.rename_columns(node, spelled)


def require_same_columns(schema: pa.Schema, expected: pa.Schema, table: str) -> None:
    """Raise UnreadableColumnError unless a table still has the columns of a dataset that was opened before."""
    for field in expected:
        i = schema.get_field_index(field.name)
        if i < 0 or schema.field(i).type != field.type:
            now = "it has no such column any more" if i < 0 else f"it is {schema.field(i).type} now, not {field.type}"
            problem = f"the table's schema has changed: {now}; open the dataset again"
            raise UnreadableColumnError(problem, path=table, column=field.name)


def _spell(name: str, names: Sequence[str], ignore_case: bool, kind: str = "table") -> str:
    """Return a name as it is spelled among `names`."""
    matches = [name] if name in names else []
    if ignore_case and not matches:
        matches = [other for other in dict.fromkeys(names) if other.lower() == name.lower()]
    if not matches:
        raise UnknownColumnError(f"the {kind} has no such column{suggest_names(name, names)}", column=name)
    if len(matches) > 1:
        raise UnknownColumnError(f"several columns match the name: {', '.join(matches)}", column=name)
    return matches[0]


def _find_path(schema: pa.Schema, name: str) -> tuple[str, ...]:
    """Return the path of a column that the schema has; a column with a dot in its name comes before a field."""
    fields, path, rest = {field.name: field for field in schema}, [], name
    while rest not in fields:
        top = next(one for one in fields if rest.startswith(f"{one}.") and pa.types.is_struct(fields[one].type))
        path.append(top)
        rest, fields = rest[len(top) + 1 :], {field.name: field for field in fields[top].type}
    return (*path, rest)


def _prune_field(field: pa.Field, paths: Sequence[tuple[str, ...]]) -> pa.Field:
    """Return a field with those of its parts only to which some paths lead."""
    if not all(paths):
        return field
    parts = [
        _prune_field(part, [path[1:] for path in paths if path[0] == part.name])
        for part in field.type
        if any(path[0] == part.name for path in paths)
    ]
    return field.with_type(pa.struct(parts))


def _list_names(schema: pa.Schema) -> Iterator[str]:
    """Yield the names of all columns, of the fields of structs, dotted, and of what is in lists and maps."""
    for field in schema:
        yield from _list_below(field.name, field.type)


def _list_below(name: str, arrow_type: pa.DataType) -> Iterator[str]:
    yield name
    if pa.types.is_struct(arrow_type):
        for field in arrow_type:
            yield from _list_below(f"{name}.{field.name}", field.type)
