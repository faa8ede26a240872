"""Find the part of a `pyarrow.compute.Expression` that pruning can use: a predicate that every matching row satisfies.

Engines hand whole filters to a dataset, in Arrow's own expressions and with Arrow's meaning, and do not filter again.
Arrow evaluates them over the rows that are read. Pruning only needs a condition that is true wherever the filter is:
parts that are not understood, or that mean something else in Arrow than in SQL, are left out of it.

For each part of the filter there are two such conditions: one that holds wherever the part is true, and one that holds
wherever it is false, which a negation needs. Null is neither. Where they differ from SQL's:

- A comparison with a literal of another type than the column's may round, in Arrow: only types of which all values
  compare exactly are used.
- NaN is not equal to anything, nor less or greater: "not (x > 5)" is true for it, so the negation of a comparison of
  floats means nothing here.
- `utf8_lower`, `utf8_upper` and casts of texts, integers and dates to text are used; they are what `calls` says. So are
  functions that match a text with a pattern. Other casts of a column, arithmetic and all other functions are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from ..errors import ExpressionError, PredicateError
from ..util.lazy import late_module
from . import literal
from .arrow_expression import (
    COMPARISONS,
    FIRST,
    SWAPPED,
    TEXT_FUNCTIONS,
    cast_literal,
    get_option,
    match_text,
    read_parts,
)
from .patterns import ESCAPE
from .subject import Subject
from .tree import Node, all_of, any_of, negation

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")

_EXACT_INTEGERS = 1 << 53  # magnitude up to which a double holds every integer


class Conditions(NamedTuple):
    """What is known of the rows for which a part of a filter is true, and of those for which it is false.

    Attributes
    ----------
    if_true, if_false : predicates that such rows satisfy; None if nothing is known.
    """

    if_true: Node | None = None
    if_false: Node | None = None


UNKNOWN = Conditions()


class _NamedColumn(NamedTuple):
    """A column, or a leaf of a struct by its dotted name; `type` is None if it is not in the schema.

    With a function it is its result of that column, a text; with a key what the column, a map, has under it; see
    `Subject`.
    """

    name: str
    type: pa.DataType | None
    function: str = ""
    key: literal.Literal = None

    @property
    def subject(self) -> Subject:
        return Subject(self.name, self.function, is_exact=False, key=self.key)

    def call(self, function: str) -> _Operand:
        """Return a function of the column, if Arrow's is the one of `predicate.calls` for such values."""
        if self.type is None or self.function:
            return UNKNOWN
        if not _is_string(self.type) and not (function == "string" and _has_text(self.type)):
            return UNKNOWN
        return _NamedColumn(self.name, pa.string(), function, self.key)

    def look_up(self, options: Mapping[str, pa.Scalar]) -> _Operand:
        """Return what the column, a map, has under a key."""
        key = options.get("query_key")
        is_map = self.type is not None and pa.types.is_map(self.type) and self.key is None
        if not is_map or key is None or get_option(options, "occurrence", None) != FIRST:
            return UNKNOWN
        assert self.type is not None
        if not compares_exactly(self.type.key_type, key.type):
            return UNKNOWN
        return _NamedColumn(self.name, self.type.item_type, key=literal.from_python(key))


_Operand: TypeAlias = Conditions | _NamedColumn | pa.Scalar


@dataclass
class FilterParts:
    """The result of reading a filter.

    Attributes
    ----------
    condition : a predicate that every row satisfies for which the filter is true; None if nothing is known.
    columns : top-level columns that the filter refers to; None if it refers to columns in a way that is not understood.
    """

    condition: Node | None = None
    columns: set[str] | None = field(default_factory=set)


def read_filter(expression: pc.Expression, schema: pa.Schema) -> FilterParts:
    """Find the columns of a filter, and a condition that is necessary for it.

    Parameters
    ----------
    expression : of any kind.
    schema : of the rows that it is evaluated on.
    """
    try:
        parts, batch = read_parts(expression)
    except ExpressionError:
        return FilterParts(None, None)
    columns: set[str] | None = set()
    for i, (kind, text) in enumerate(parts):
        if kind == "field_ref" and columns is not None:
            columns.add(text)
        elif kind == "nested_field_ref":
            first = parts[i + 1] if i + 1 < len(parts) else ("", "")
            if columns is None or first[0] != "field_ref":
                columns = None
    if columns is not None:
        # Names inside structs were added as if they were columns: those that are not are dropped.
        columns &= {*schema.names}
    operand = _read(iter(parts), batch, schema)
    condition = None if operand is None else _to_conditions(operand).if_true
    return FilterParts(condition, columns)


def _read(parts: Iterator[tuple[str, str]], batch: pa.RecordBatch, schema: pa.Schema) -> _Operand | None:
    """Read the parts of an expression, in prefix order; None if they cannot be read."""
    open_calls: list[tuple[str, list[_Operand], dict[str, pa.Scalar]]] = []
    while True:
        kind, text = next(parts, ("", ""))
        operand: _Operand
        if kind == "call":
            open_calls.append((text, [], {}))
            continue
        if kind == "options" and open_calls:
            open_calls[-1][2].update(batch.column(int(text))[0].items())
            continue
        if kind == "literal":
            operand = batch.column(int(text))[0]
        elif kind == "field_ref":
            operand = _find_column(schema, [text])
        elif kind == "nested_field_ref":
            names = [next(parts, ("", "")) for _ in range(int(text))]
            is_by_name = all(kind == "field_ref" for kind, _ in names)
            operand = _find_column(schema, [name for _, name in names]) if is_by_name else UNKNOWN
        elif kind == "end" and open_calls and open_calls[-1][0] == text:
            operand = _make_call(*open_calls.pop())
        else:
            return None
        if not open_calls:
            return operand
        open_calls[-1][1].append(operand)


def _find_column(schema: pa.Schema, path: Sequence[str]) -> _NamedColumn:
    """Find a column by its path; its type is None if there is none, or several, or the name is ambiguous."""
    name = ".".join(path)
    if len(path) > 1 and any("." in field.name for field in schema):  # one of them may have this very name
        return _NamedColumn(name, None)
    return _NamedColumn(name, None if any("." in part for part in path) else find_arrow_type(schema, path))


def find_arrow_type(schema: pa.Schema, path: Sequence[str]) -> pa.DataType | None:
    """Return the type of a column, or of a leaf of structs, by its path; None if there is none, or several."""
    fields: Iterable[pa.Field] = schema
    arrow_type: pa.DataType | None = None
    for part in path:
        if arrow_type is not None:
            if not pa.types.is_struct(arrow_type):
                return None
            fields = list(arrow_type)
        members = [field for field in fields if field.name == part]
        if len(members) != 1:
            return None
        arrow_type = members[0].type
    return arrow_type


def _make_call(name: str, operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> _Operand:
    try:
        if name == "cast" and len(operands) == 1 and isinstance(operands[0], pa.Scalar):
            return cast_literal(operands[0], options)
        if name in _FUNCTIONS and len(operands) == 1 and isinstance(operands[0], _NamedColumn):
            return operands[0].call(_FUNCTIONS[name])
        if name == "map_lookup" and len(operands) == 1 and isinstance(operands[0], _NamedColumn):
            return operands[0].look_up(options)
        if name == "cast" and len(operands) == 1 and isinstance(operands[0], _NamedColumn) and "to_type" in options:
            return operands[0].call("string") if _is_string(options["to_type"].type) else UNKNOWN
        if name in COMPARISONS and len(operands) == 2:
            return _compare(COMPARISONS[name], *operands)
        if name in TEXT_FUNCTIONS and len(operands) == 1:
            return _match_text(name, operands[0], options)
        handler = _HANDLERS.get(name)
        return UNKNOWN if handler is None else handler(operands, options)
    except PredicateError:  # a literal that has no place in a predicate
        return UNKNOWN


def _to_conditions(operand: _Operand) -> Conditions:
    if isinstance(operand, Conditions):
        return operand
    if isinstance(operand, _NamedColumn) and operand.type is not None and pa.types.is_boolean(operand.type):
        subject = operand.subject
        return Conditions(subject.compare("=", True), subject.compare("=", False))
    return UNKNOWN


def _all(nodes: Sequence[Node | None]) -> Node | None:
    """All of the conditions that are known."""
    known = [node for node in nodes if node is not None]
    return all_of(known) if known else None


def _any(nodes: Sequence[Node | None]) -> Node | None:
    """Any of the conditions, if all are known."""
    known = [node for node in nodes if node is not None]
    return any_of(known) if len(known) == len(nodes) else None


def _and(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    parts = [_to_conditions(one) for one in operands if not _is_literal(one, True)]
    if_false = _any([part.if_false for part in parts]) if parts else None
    return Conditions(_all([part.if_true for part in parts]), if_false)


def _or(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    parts = [_to_conditions(one) for one in operands if not _is_literal(one, False)]
    if_true = _any([part.if_true for part in parts]) if parts else None
    return Conditions(if_true, _all([part.if_false for part in parts]))


def _invert(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    part = _to_conditions(operands[0])
    return Conditions(part.if_false, part.if_true)


def _if_else(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    """A choice: `if_else(is_valid(x), is_in(x, ...), null)` is how DuckDB writes an IN that is null for null."""
    test, first, second = map(_to_conditions, operands)
    never_second = isinstance(operands[2], pa.Scalar) and not operands[2].is_valid

    def choose(of_first: Node | None, of_second: Node | None) -> Node | None:
        chosen_first = _all([test.if_true, of_first])
        return chosen_first if never_second else _any([chosen_first, _all([test.if_false, of_second])])

    return Conditions(choose(first.if_true, second.if_true), choose(first.if_false, second.if_false))


def _is_null(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    column = operands[0]
    if not isinstance(column, _NamedColumn) or column.type is None or get_option(options, "nan_is_null", False):
        return UNKNOWN
    if pa.types.is_nested(column.type):
        return UNKNOWN
    return Conditions(column.subject.is_null(), column.subject.is_not_null())


def _is_valid(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    return _invert([_is_null(operands, {})], {})


def _is_nan(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    column = operands[0]
    if not isinstance(column, _NamedColumn) or column.type is None or not pa.types.is_floating(column.type):
        return UNKNOWN
    return Conditions(column.subject.compare("=", math.nan), column.subject.is_not_null())


def _is_in(operands: list[_Operand], options: Mapping[str, pa.Scalar]) -> Conditions:
    column, values = operands[0], options.get("value_set")
    nulls = get_option(options, "null_matching_behavior", None)
    if not isinstance(column, _NamedColumn) or values is None or nulls not in (_MATCH, _SKIP):
        return UNKNOWN
    if not compares_exactly(column.type, values.values.type):
        return UNKNOWN
    members = values.values
    literals = literal.from_collection(members.drop_null())
    inside, is_null = column.subject.is_in(literals), column.subject.is_null()
    if nulls == _MATCH and members.null_count:
        return Conditions(any_of((is_null, inside)), column.subject.is_not_null())
    if column.type is None or pa.types.is_floating(column.type):
        return Conditions(inside)
    # It is never null, and so false for null.
    return Conditions(inside, any_of((is_null, negation(inside))))


def _match_text(function: str, column: _Operand, options: Mapping[str, pa.Scalar]) -> Conditions:
    if not isinstance(column, _NamedColumn) or column.type is None or not _is_string(column.type):
        return UNKNOWN
    if function == "match_like" and ESCAPE in str(get_option(options, "pattern", "")):
        return UNKNOWN  # Arrow takes some of these for others
    inside = match_text(function, column.subject, options)
    return Conditions(inside, negation(inside))


_MATCH, _SKIP = 0, 1  # arrow::compute::SetLookupOptions::NullMatchingBehavior


def _compare(operator: str, left: _Operand, right: _Operand) -> Conditions:
    if isinstance(right, _NamedColumn):
        left, right, operator = right, left, SWAPPED.get(operator, operator)
    if not isinstance(left, _NamedColumn) or not isinstance(right, pa.Scalar):
        return UNKNOWN
    if not right.is_valid:  # null for every row
        return UNKNOWN
    if not compares_exactly(left.type, right.type) and not _is_exact_double(left.type, right):
        return UNKNOWN
    assert left.type is not None
    if left.function:
        if operator not in ("=", "<>"):
            return UNKNOWN
        inside = left.subject.compare("=", literal.from_python(right))
        return Conditions(inside, negation(inside)) if operator == "=" else Conditions(negation(inside), inside)
    value, is_float = literal.from_python(right), pa.types.is_floating(left.type)
    equal, unequal = left.subject.compare("=", value), left.subject.compare("<>", value)
    if operator in ("=", "<>"):
        conditions = Conditions(equal, None if is_float else unequal)
        return conditions if operator == "=" else Conditions(conditions.if_false, conditions.if_true)
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
    # NaN is on neither side in Arrow: the negation is true for it.
    negated = None if is_float else left.subject.compare(opposite, value)
    return Conditions(left.subject.compare(operator, value), negated)


def compares_exactly(column: pa.DataType | None, other: pa.DataType) -> bool:
    """Return whether Arrow compares values of two types by their exact values, as SQL does."""
    types = pa.types
    if column is None:
        return False
    if types.is_dictionary(column):
        column = column.value_type
    if types.is_dictionary(other):
        other = other.value_type
    if types.is_integer(column):
        is_unsigned = types.is_uint64(column) or types.is_uint64(other)  # which Arrow casts to signed ones
        return column == other or bool(types.is_integer(other) and not is_unsigned)
    if any(is_text(column) and is_text(other) for is_text in (_is_string, _is_binary)):
        return True
    if types.is_timestamp(column) and types.is_timestamp(other):
        return bool(column.unit == other.unit and (column.tz is None) == (other.tz is None))
    simple = (types.is_boolean, types.is_date32, types.is_decimal128, types.is_float32, types.is_float64)
    others = (types.is_fixed_size_binary, types.is_time)
    return bool(column == other and any(is_kind(column) for is_kind in (*simple, *others)))


def _is_exact_double(column: pa.DataType | None, scalar: pa.Scalar) -> bool:
    """Return whether a comparison of a column with a double is exact, though their types differ."""
    if column is None or not pa.types.is_float64(scalar.type):
        return False
    value = scalar.as_py()
    if pa.types.is_integer(column):
        return math.isfinite(value) and abs(value) < _EXACT_INTEGERS
    if pa.types.is_float32(column):
        return bool(pa.scalar(value, pa.float64()).cast(pa.float32(), safe=False).as_py() == value)
    return False


def _is_string(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type))


def _has_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_date32(arrow_type))


def _is_binary(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_binary_view(arrow_type))


def _is_literal(operand: _Operand, value: bool) -> bool:
    return isinstance(operand, pa.Scalar) and pa.types.is_boolean(operand.type) and operand.as_py() is value


_FUNCTIONS = {"utf8_lower": "lower", "utf8_upper": "upper"}
_HANDLERS = {
    "and_kleene": _and,
    "or_kleene": _or,
    "invert": _invert,
    "if_else": _if_else,
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_nan": _is_nan,
    "is_in": _is_in,
}
