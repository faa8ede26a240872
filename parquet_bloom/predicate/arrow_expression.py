"""Convert a `pyarrow.compute.Expression` to the predicate tree.

pyarrow offers an expression only as text, which is ambiguous (a name may contain any character), and in pickled form:
an Arrow IPC file with one batch, whose schema metadata are the calls in prefix order (`call`, its arguments, `end`),
and whose columns are the literals and options that these refer to. This module reads the pickled form, and rejects
whatever it does not recognize.

Rows match by the rules of SQL, as everywhere in this package. Where these differ from Arrow's:

- A literal need not have the type of the field, as in SQL text: -0.0 equals 0.0 in an `isin` too, NaN equals NaN, and
  in a column of 32-bit floats 0.1 means the nearest float.
- A comparison with null is null in both. `isin` is never null in Arrow, and a null among its values matches null rows;
  this module keeps both.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from ..errors import ExpressionError, PredicateError, first_line
from ..util.lazy import late_module
from . import literal
from .patterns import escape_like
from .subject import Subject
from .tree import (
    OPERATORS,
    And,
    CallIn,
    Compare,
    Connective,
    Contains,
    Equal,
    In,
    IsNotNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    Or,
    all_of,
    any_of,
    fold,
    negation,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONNECTIVES: dict[str, type[Connective]] = {"and_kleene": And, "or_kleene": Or}

SUPPORTED = (
    "supported are ==, !=, <, <=, >, >=, isin, is_null, is_valid, is_nan, &, | and ~ over fields and literals, and ==,"
    " !=, isin and text functions over utf8_lower, utf8_upper and casts to string of a field; these functions are"
    " match_like, match_substring, match_substring_regex, starts_with and ends_with"
)


_FUNCTIONS = {"utf8_lower": "lower", "utf8_upper": "upper"}

_Operand: TypeAlias = Node | Subject | pa.Scalar


def parse_expression(expression: pc.Expression) -> Node:
    """Read an expression's structure.

    Parameters
    ----------
    expression : comparisons of a field with a literal in either order, `isin`, `is_null`, `is_valid`, `is_nan` and
        fields of booleans, under `&`, `|` and `~`; ==, != and isin also of `utf8_lower`, `utf8_upper` or a cast to
        string of a field. Fields are given by name, those of structs as `field("a", "b")`.

    Raises
    ------
    ExpressionError
        It contains something else, such as a cast of a field or another function; the message names it.
    """
    parts, batch = read_parts(expression)
    try:
        return _simplify(_to_condition(_decode(iter(parts), batch)))
    except PredicateError as error:
        raise ExpressionError(error.problem, column=error.column) from None


def read_parts(expression: pc.Expression) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    """Return an expression's parts in prefix order, as (kind, text), and the batch of its literals and options."""
    try:
        (encoded,) = expression.__reduce__()[1]
        with pa.ipc.open_file(encoded) as file:
            batch = file.get_batch(0)
    except pa.ArrowException as error:
        raise ExpressionError(f"the expression cannot be decoded: {first_line(error)}") from None
    return _read_metadata(batch.schema), batch


def _decode(parts: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> _Operand:
    """Build the expression from its parts in prefix order, without recursion."""
    open_calls: list[tuple[str, list[_Operand], list[pa.Scalar]]] = []
    while True:
        kind, text = next(parts, ("", ""))
        operand: _Operand
        if kind == "call":
            open_calls.append((text, [], []))
            continue
        if kind == "options" and open_calls:
            open_calls[-1][2].append(batch.column(int(text))[0])
            continue
        if kind == "literal":
            operand = batch.column(int(text))[0]
        elif kind == "field_ref":
            operand = Subject(text)
        elif kind == "nested_field_ref":
            names = [next(parts, ("", "")) for _ in range(int(text))]
            if any(name[0] != "field_ref" for name in names):
                raise ExpressionError(f"a field that is not given by name is not supported; {SUPPORTED}")
            operand = Subject(".".join(name for _, name in names))
        elif kind == "end" and open_calls and open_calls[-1][0] == text:
            operand = _make_call(*open_calls.pop())
        else:
            raise ExpressionError(f"this version of pyarrow encodes expressions in an unknown way ({kind!r})")
        if not open_calls:
            return operand
        open_calls[-1][1].append(operand)


# ---------------------------------------------------------------------------------------------------------- the calls


def _make_call(name: str, operands: list[_Operand], options: list[pa.Scalar]) -> _Operand:
    if name in _CONNECTIVES:
        return _make_connective(_CONNECTIVES[name], operands)
    if name == "invert" and len(operands) == 1:
        return negation(_to_condition(operands[0]))
    if name in COMPARISONS and len(operands) == 2 and not options:
        return _make_comparison(COMPARISONS[name], *operands)
    if name in _FUNCTIONS and len(operands) == 1 and isinstance(operands[0], Subject) and operands[0].is_value:
        return replace(operands[0], function=_FUNCTIONS[name])
    if name in TEXT_FUNCTIONS and len(operands) == 1 and isinstance(operands[0], Subject) and len(options) == 1:
        return match_text(name, operands[0], dict(options[0].items()))
    handler = _HANDLERS.get(name)
    if handler is None or len(operands) != 1 or len(options) > 1:
        raise ExpressionError(f"the function {name!r} is not supported; {SUPPORTED}")
    return handler(operands[0], dict(options[0].items()) if options else {})


def _make_connective(kind: type[Connective], operands: list[_Operand]) -> _Operand:
    """Make an AND or OR, without neutral literals, with which programs often begin their chains."""
    terms = [operand for operand in operands if not _is_truth(operand, kind is And)]
    return kind(tuple(map(_to_condition, terms))) if terms else operands[0]


def _is_truth(operand: Any, value: bool) -> bool:
    """Return whether an operand is the literal TRUE, or FALSE."""
    return isinstance(operand, pa.Scalar) and pa.types.is_boolean(operand.type) and operand.as_py() is value


def _to_condition(operand: _Operand) -> Node:
    """Convert an operand in the position of a condition; a boolean field means `field = TRUE`."""
    if isinstance(operand, Subject):
        return operand.compare("=", True)
    if isinstance(operand, pa.Scalar):
        raise ExpressionError(f"a literal as a condition is not supported; {SUPPORTED}")
    return operand


def _make_comparison(operator: str, left: _Operand, right: _Operand) -> Node:
    if isinstance(right, Subject):
        left, right, operator = right, left, SWAPPED.get(operator, operator)
    if not isinstance(left, Subject) or not isinstance(right, pa.Scalar):
        raise ExpressionError(f"a comparison of anything but a field with a literal is not supported; {SUPPORTED}")
    value = literal.from_python(right)
    return left.compare(operator, value)


def _require_field(operand: _Operand, function: str) -> Subject:
    if not isinstance(operand, Subject):
        raise ExpressionError(f"{function} of anything but a field is not supported; {SUPPORTED}")
    return operand


def _is_null(operand: _Operand, options: dict[str, pa.Scalar]) -> Node:
    subject = _require_field(operand, "is_null")
    nan_is_null = get_option(options, "nan_is_null", False)
    return any_of((subject.is_null(), subject.compare("=", math.nan))) if nan_is_null else subject.is_null()


def _is_in(operand: _Operand, options: dict[str, pa.Scalar]) -> Node:
    subject = _require_field(operand, "isin")
    nulls = get_option(options, "null_matching_behavior", None)
    if nulls not in (_MATCH, _SKIP) or "value_set" not in options:
        raise ExpressionError(f"these options of is_in are not supported; {SUPPORTED}", column=subject.name)
    values = options["value_set"].values
    member = subject.is_in(literal.from_collection(values.drop_null()))
    # Never null, so that the negation matches null rows, as in Arrow.
    if values.null_count and nulls == _MATCH:
        return Or((subject.is_null(), member))
    return And((subject.is_not_null(), member))


def _look_up(operand: _Operand, options: dict[str, pa.Scalar]) -> Subject:
    """Return the value of a map under a key; of several such keys that of the first one, as everywhere."""
    subject = _require_field(operand, "map_lookup")
    if "query_key" not in options or get_option(options, "occurrence", None) != FIRST or not subject.is_column:
        raise ExpressionError(f"map_lookup of anything but the first key of a field is not supported; {SUPPORTED}")
    return replace(subject, key=literal.from_python(options["query_key"]))


_MATCH, _SKIP = 0, 1  # arrow::compute::SetLookupOptions::NullMatchingBehavior
FIRST = 0
"""The first occurrence of a key, of arrow::compute::MapLookupOptions::Occurrence."""


def _cast(operand: _Operand, options: dict[str, pa.Scalar]) -> pa.Scalar | Subject:
    """Cast a literal, or a field to a text. Other casts of a field are rejected: filters hold the values before."""
    if isinstance(operand, Subject) and operand.is_value and "to_type" in options:
        to = options["to_type"].type
        if pa.types.is_string(to) or pa.types.is_large_string(to) or pa.types.is_string_view(to):
            return replace(operand, function="string")
    if not isinstance(operand, pa.Scalar):
        raise ExpressionError(f"a cast of a field is not supported; {SUPPORTED}")
    return cast_literal(operand, options)


def cast_literal(scalar: pa.Scalar, options: Mapping[str, pa.Scalar]) -> pa.Scalar:
    """Cast a literal; raise ExpressionError for a cast that is impossible, or may change it."""
    if "to_type" not in options:
        raise ExpressionError(f"a cast without a type is not supported; {SUPPORTED}")
    if any(value.as_py() for name, value in options.items() if name.startswith("allow_")):
        raise ExpressionError(f"a cast that may change a literal is not supported; {SUPPORTED}")
    try:
        return scalar.cast(options["to_type"].type)
    except pa.ArrowException as error:
        raise ExpressionError(f"a literal cannot be cast: {first_line(error)}") from None


_PIECES = {"starts_with": "{}%", "ends_with": "%{}", "match_substring": "%{}%"}
_EXPRESSIONS = {
    "starts_with": r"\A{}",
    "ends_with": r"{}\z",
    "match_substring": "{}",
}  # as Arrow matches regardless of case
TEXT_FUNCTIONS = frozenset({"match_like", "match_substring_regex", *_PIECES})
"""Arrow's functions of a text and a pattern."""


def match_text(function: str, subject: Subject, options: Mapping[str, pa.Scalar]) -> Node:
    """Return the predicate of one of `TEXT_FUNCTIONS`.

    Raises
    ------
    PredicateError
        It is a LIKE that ignores case, or its pattern is invalid.
    """
    pattern, ignores_case = get_option(options, "pattern", None), get_option(options, "ignore_case", None)
    if ignores_case not in (False, True) or not isinstance(pattern, str) or (ignores_case and function == "match_like"):
        raise ExpressionError(f"{function} that ignores case is not supported: match utf8_lower of the field")
    if ignores_case:
        is_expression = function == "match_substring_regex"
        return subject.matches(
            "(?i)" + (pattern if is_expression else _EXPRESSIONS[function].format(re.escape(pattern)))
        )
    if function == "match_substring_regex":
        return subject.matches(pattern)
    return subject.is_like(_PIECES[function].format(escape_like(pattern)) if function in _PIECES else pattern)


def get_option(options: Mapping[str, pa.Scalar], name: str, default: Any) -> Any:
    """Return an option of a call as a Python value."""
    return options[name].as_py() if name in options else default


_HANDLERS: dict[str, Callable[[_Operand, dict[str, pa.Scalar]], _Operand]] = {
    "is_null": _is_null,
    "is_valid": lambda operand, _: _require_field(operand, "is_valid").is_not_null(),
    "is_nan": lambda operand, _: _require_field(operand, "is_nan").compare("=", math.nan),
    "map_lookup": _look_up,
    "is_in": _is_in,
    "cast": _cast,
}


def _simplify(node: Node) -> Node:
    """Simplify a predicate whose negations are resolved: from here on, null counts as false."""

    def join(connective: Connective, children: list[Node]) -> Node:
        if isinstance(connective, Or):
            return any_of(children)
        compared = {child.column for child in children if isinstance(child, In | CallIn)}
        return all_of(child for child in children if not (isinstance(child, IsNotNull) and child.column in compared))

    def leaf(item: Leaf) -> Node:
        return item

    return fold(node, leaf, join)


# ------------------------------------------------------------------------------------------------------- the metadata


class _ArrowSchema(ctypes.Structure):
    """The first fields of the struct `ArrowSchema` of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _read_metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Read the metadata of a schema in order, with repeated keys, which the dict of pyarrow drops.

    Arrow's C data interface stores a count, and for each key and value its length and bytes (numbers are int32).
    """
    capsule = schema.__arrow_c_schema__()  # owns the memory
    address = _ArrowSchema.from_address(_get_pointer(capsule, b"arrow_schema")).metadata
    if not address:
        return []
    texts: list[str] = []
    position = address + 4
    for _ in range(2 * ctypes.c_int32.from_address(address).value):
        length = ctypes.c_int32.from_address(position).value
        texts.append(ctypes.string_at(position + 4, length).decode())
        position += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))


_ONE_LITERAL: dict[str, type[Equal | NotEqual | Contains | NotContains]] = {
    "=": Equal,
    "==": Equal,
    "!=": NotEqual,
    "<>": NotEqual,
    "contains": Contains,
    "not contains": NotContains,
}
_MANY_LITERALS = {"in": In, "not in": NotIn}

DNF_OPERATORS = "the operators are " + ", ".join(map(repr, [*_ONE_LITERAL, *OPERATORS, *_MANY_LITERALS]))


def parse_dnf(filters: Any) -> Node:
    """Parse filters in disjunctive normal form.

    Parameters
    ----------
    filters : a condition `(column, op, value)`, a list of conditions (AND), or a list of such lists (OR of ANDs). The
        column is a dotted path; `op` is "=", "==", "!=", "<>", "<", "<=", ">", ">=", "in", "not in", "contains" or "not
        contains" (of a list: an element equals the value); the value is a Python, numpy, pandas or Arrow scalar, for
        "in" and "not in" any collection of these.

    Raises
    ------
    PredicateError
        The filters have another shape, operator or value; the message names the condition.
    """
    if _is_condition(filters):
        return _parse_condition(filters)
    terms = _require_members(filters, "the filters")
    if all(map(_is_condition, terms)):
        return all_of(map(_parse_condition, terms))
    if any(map(_is_condition, terms)):
        raise PredicateError("the filters mix conditions with lists of conditions: use one list, or a list of lists")
    return any_of([all_of(map(_parse_condition, _require_members(term, "a list of conditions"))) for term in terms])


def _is_condition(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and isinstance(item[0], str)


def _require_members(item: Any, description: str) -> list[Any]:
    if not isinstance(item, list | tuple):
        raise PredicateError(f"{_show(item)}: {description} must be a list of (column, op, value) tuples")
    if not item:
        raise PredicateError(f"{description} must not be empty: leave the filter out to read everything")
    return list(item)


def _parse_condition(item: Any) -> Leaf:
    if not _is_condition(item) or len(item) != 3:
        raise PredicateError(f"{_show(item)}: a condition is a tuple (column, op, value)")
    column, operator, value = item
    column = str.__str__(column)
    name = operator.lower() if isinstance(operator, str) else None
    if name not in _ONE_LITERAL and name not in _MANY_LITERALS and name not in OPERATORS:
        raise PredicateError(f"operator {operator!r} is not supported; {DNF_OPERATORS}", column=column)
    try:
        if name in _MANY_LITERALS:
            return _MANY_LITERALS[name](column, literal.from_collection(value))
        if isinstance(value, list | tuple | set | frozenset):
            raise PredicateError(f"{operator!r} takes one literal, not {_show(value)}; a collection takes 'in'")
        literal_value = literal.from_python(value)
        return (
            _ONE_LITERAL[name](column, literal_value) if name in _ONE_LITERAL else Compare(column, name, literal_value)
        )
    except PredicateError as error:
        raise PredicateError(error.problem, column=column or None) from None


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
