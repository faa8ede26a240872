"""Columns of the schema of a dataset or a table, as predicates and callers name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError, UnreadableColumnError, UnsupportedTypeError
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
    spellings = _Spellings(schema)
    names = [spellings.spell(name, not case_sensitive, kind) for name in columns]
    top_level = _fields_by_name(schema)
    paths = _group_paths(_find_path(top_level, name) for name in dict.fromkeys(names))
    fields = [_prune_field(schema.field(top), below) for top, below in paths.items()]
    return names, pa.schema(fields, schema.metadata)


def make_names_error(columns: str) -> ParquetBloomError:
    """Return the error of a string in place of the columns of a result: it would be taken for its letters."""
    return ParquetBloomError(f"columns must be a list of names, got a string; give [{columns!r}]")


def select_columns(
    schema: pa.Schema, columns: Sequence[str] | None, case_sensitive: bool = True
) -> tuple[Sequence[str] | None, pa.Schema | None]:
    """Return the columns to read of a dataset with a schema, and the schema of the result.

    The latter is None where files have to say it: for leaves of structs, and names that differ by their case alone.
    """
    fields = {name if case_sensitive else name.lower(): schema.field(name) for name in schema.names}
    if len(fields) < len(schema.names):
        return columns, None
    names = list(fields) if columns is None else [name if case_sensitive else name.lower() for name in columns]
    if not names or any(name not in fields for name in names):
        return columns, None
    chosen = [fields[name] for name in dict.fromkeys(names)]
    return [field.name for field in chosen], pa.schema(chosen, schema.metadata)


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
    path = _find_path(_fields_by_name(schema), _Spellings(schema).spell(name, not case_sensitive, kind))
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


def has_column(schema: pa.Schema, column: str, case_sensitive: bool = True) -> bool:
    """Return whether a schema has a top-level column, or a dotted member of structs."""

    def is_named(field: pa.Field, name: str) -> bool:
        return field.name == name or (not case_sensitive and field.name.lower() == name.lower())

    if column in schema.names or any(is_named(field, column) for field in schema):
        return True
    fields = list(schema)
    names = column.split(".")
    for depth, name in enumerate(names, 1):
        found = next((field for field in fields if is_named(field, name)), None)
        if found is None:
            return False
        if not pa.types.is_struct(found.type):
            return depth == len(names) or not pa.types.is_primitive(found.type)
        fields = list(found.type)
    return True


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
    spellings = _Spellings(schema)
    spelled = {name: spellings.spell(name, ignore_case) for name in sorted(tree.columns(node))}
    twice = [name for name in spelled.values() if spellings.counts[name] > 1]
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


class _Spellings:
    """The names of a schema, by which others are spelled.

    Attributes
    ----------
    counts : how often each name occurs.
    """

    def __init__(self, schema: pa.Schema):
        self.counts = Counter(_list_names(schema))

    @cached_property
    def _by_folded(self) -> dict[str, list[str]]:
        folded: dict[str, list[str]] = {}
        for name in self.counts:
            folded.setdefault(name.lower(), []).append(name)
        return folded

    def spell(self, name: str, ignore_case: bool, kind: str = "table") -> str:
        """Return a name as the schema spells it."""
        matches = [name] if name in self.counts else []
        if ignore_case and not matches:
            matches = self._by_folded.get(name.lower(), [])
        if not matches:
            similar = suggest_names(name, self.counts, can_ignore_case=kind == "table")  # keys are spelled exactly
            raise UnknownColumnError(f"the {kind} has no such column{similar}", column=name)
        if len(matches) > 1:
            raise UnknownColumnError(f"several columns match the name: {', '.join(matches)}", column=name)
        return matches[0]


def _fields_by_name(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    return {field.name: field for field in fields}


def _find_path(fields: Mapping[str, pa.Field], name: str) -> tuple[str, ...]:
    """Return the path of a column that a schema of some fields has; a name with a dot precedes a field."""
    path, rest = [], name
    while rest not in fields:
        parts = rest.split(".")
        prefixes = {".".join(parts[:depth]) for depth in range(1, len(parts))}
        found = [one for one in prefixes if one in fields and pa.types.is_struct(fields[one].type)]
        top = found[0] if len(found) == 1 else next(one for one in fields if one in {*found})
        path.append(top)
        rest, fields = rest[len(top) + 1 :], _fields_by_name(fields[top].type)
    return (*path, rest)


def _group_paths(paths: Iterable[tuple[str, ...]]) -> dict[str, list[tuple[str, ...]]]:
    """Return, by the first name of some paths, what follows it."""
    below: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    return below


def _prune_field(field: pa.Field, paths: Sequence[tuple[str, ...]]) -> pa.Field:
    """Return a field with those of its parts only to which some paths lead."""
    if not all(paths):
        return field
    below = _group_paths(paths)
    parts = [_prune_field(part, below[part.name]) for part in field.type if part.name in below]
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
