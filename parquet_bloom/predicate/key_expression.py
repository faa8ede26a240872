"""Expressions that an index has keys of, such as `lower(email)`, `(tenant, id)`, `grams(message)`, `v:a.b::STRING`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError
from ..hashing.gram_weights import GramWeights
from ..util.lazy import late_module
from ..variant.variant_path import VariantPath, parse_path
from .calls import RULES
from .row_filter import coerce_literals, decode, find_column
from .sql_parser import parse_sql
from .tree import FUNCTIONS, VariantLookup, call_text, drop_whole_names
from .variant_names import name_evidence, parse_target

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


TUPLE, GRAMS, PATH = "tuple", "grams", "path"
_TUPLE_RULE, _GRAMS_RULE, _PATH_RULE = "hash-of-hashes-1", "sparse-3-8-1", "variant-get-1"
_MOST_COLUMNS = 16
_WHOLE = VariantPath(())

_NAME = r'(?:"(?:[^"]|"")+"|[^\s"(),]+)'
_CALL = re.compile(rf"\s*(lower|upper)\s*\(\s*({_NAME})\s*\)\s*", re.IGNORECASE)
_CAST = re.compile(rf"\s*cast\s*\(\s*({_NAME})\s+as\s+(?:string|varchar|text)\s*\)\s*", re.IGNORECASE)
_GRAMS = re.compile(
    rf"\s*grams\s*\(\s*(?:({_NAME})|lower\s*\(\s*({_NAME})\s*\))\s*\)\s*",
    re.IGNORECASE,
)
_TUPLE = re.compile(rf"\s*\(\s*({_NAME}(?:\s*,\s*{_NAME})+)\s*\)\s*")
_PATH = re.compile(r'\s*("(?:[^"]|"")+"|[^\s"(),:]+)\s*:\s*([^\s:].*)::([^:]+)', re.DOTALL)
_PATH_CALL = re.compile(r"\s*(?:try_)?variant_get\s*\(.*\)\s*", re.IGNORECASE | re.DOTALL)


class KeyExpression(str):
    """An expression over columns, as its canonical text, by which an index lists it among its columns.

    A column may have that very text as its name, so whether it is an expression has to be asked by `isinstance`.

    Attributes
    ----------
    function : one of `tree.FUNCTIONS`, `TUPLE`, `GRAMS`, or `PATH`.
    columns : dotted names of its columns.
    rule : version of how its values are computed.
    case : of grams, the function of the column that they are of: `lower`, or none.
    weights : of grams; None until the index has values to learn them from.
    path, target : of what a Variant has at a path, and the canonical name of the type that it is cast to.
    """

    __slots__ = ("case", "columns", "function", "path", "rule", "target", "weights")

    function: str
    columns: tuple[str, ...]
    rule: str
    case: str
    weights: GramWeights | None
    path: VariantPath
    target: str

    def __new__(
        cls,
        function: str,
        columns: Sequence[str],
        case: str = "",
        weights: GramWeights | None = None,
        path: VariantPath = _WHOLE,
        target: str = "",
    ) -> Self:
        names = [_quote(column) for column in columns]
        if function == TUPLE:
            text, rule = f"({', '.join(names)})", _TUPLE_RULE
        elif function == GRAMS:
            text, rule = f"grams({call_text(case, *names) if case else names[0]})", _GRAMS_RULE
            rule += f" {RULES[case]}" if case else ""
        elif function == PATH:
            text, rule = name_evidence(columns[0], path, target), _PATH_RULE
        else:
            text, rule = call_text(function, *names), RULES[function]
        new = super().__new__(cls, text)
        new.function, new.columns, new.rule, new.case, new.weights = function, tuple(columns), rule, case, weights
        new.path, new.target = path, target
        return new

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.function, self.columns, self.case, self.weights, self.path, self.target)

    def with_weights(self, weights: GramWeights) -> Self:
        """Return the same grams, by learnt weights."""
        return type(self)(self.function, self.columns, self.case, weights)

    def to_json(self) -> dict[str, object]:
        """Return what a manifest has of it."""
        fields: dict[str, object] = {"function": self.function, "columns": list(self.columns), "rule": self.rule}
        if self.function == GRAMS:
            fields |= {"case": self.case, "weights": None if self.weights is None else self.weights.text}
        if self.function == PATH:
            fields |= {"path": str(self.path), "target": self.target}
        return fields

    @classmethod
    def from_json(cls, text: str, data: Mapping[str, Any]) -> Self:
        """Read an expression back from a manifest.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is not an expression of this version.
        """
        function, columns = data["function"], data["columns"]
        is_known = function in (TUPLE, GRAMS, PATH) or function in FUNCTIONS
        if not is_known or not isinstance(columns, list) or not all(isinstance(one, str) and one for one in columns):
            raise ValueError(f"the expression {text!r} is not known to this version")
        if not (2 <= len(columns) <= _MOST_COLUMNS if function == TUPLE else len(columns) == 1):
            raise ValueError(f"the expression {text!r} has {len(columns)} columns")
        if data.keys() & _FIELDS != _FIELDS_OF.get(function, set()):
            raise ValueError(f"the expression {text!r} has other fields than its function")
        case, weights = data.get("case", ""), data.get("weights")
        if case not in ("", "lower"):
            raise ValueError(f"grams of {case!r} are not known to this version")
        path, target = _WHOLE, ""
        if function == PATH:
            try:
                path, target = parse_path(data["path"]), parse_target(data["target"])
            except PredicateError as error:
                raise ValueError(f"the expression {text!r} is not known to this version: {error}") from error
        weights = None if weights is None else GramWeights.from_text(weights)
        expression = cls(function, columns, case, weights, path, target)
        if expression != text or expression.rule != data["rule"]:
            raise ValueError(f"this version does not know the rule {data['rule']!r} of the expression {text!r}")
        return expression


_FIELDS_OF = {GRAMS: {"case", "weights"}, PATH: {"path", "target"}}
_FIELDS = frozenset().union(*_FIELDS_OF.values())


def parse_key(text: str) -> str:
    """Return a caller's column, or expression over columns, that an index is to have.

    Parameters
    ----------
    text : a column's name, or `lower(column)`, `upper(column)`, `CAST(column AS STRING)` (or VARCHAR, or TEXT), or
        `(column, column, ...)`, or `grams(column)`, or `grams(lower(column))`, or what a Variant has at a path as a
        type, `column:a.b::BIGINT` or `variant_get(column, '$.a.b', 'bigint')`. Columns in them may be in double quotes.
        A column whose own name looks like that is given in double quotes as a whole.

    Raises
    ------
    PredicateError
        A tuple has a column twice, or too many. There is no such path or type.
    """
    if match := _CALL.fullmatch(text):
        return KeyExpression(match[1].lower(), [_unquote(match[2])])
    if match := _CAST.fullmatch(text):
        return KeyExpression("string", [_unquote(match[1])])
    if match := _GRAMS.fullmatch(text):
        return KeyExpression(GRAMS, [_unquote(match[1] or match[2])], "lower" if match[2] else "")
    if match := _TUPLE.fullmatch(text):
        columns = [_unquote(name) for name in re.findall(_NAME, match[1])]
        if len(set(columns)) < len(columns) or len(columns) > _MOST_COLUMNS:
            raise PredicateError(f"{text} must have 2 to {_MOST_COLUMNS} different columns")
        return KeyExpression(TUPLE, columns)
    if match := _PATH.fullmatch(text):
        if match[2].startswith("$"):  # as an index names it
            path, target = parse_path(match[2]), parse_target(match[3])
            return KeyExpression(PATH, [_unquote(match[1])], path=path, target=target)
        return _parse_path(text)
    if _PATH_CALL.fullmatch(text):
        return _parse_path(text)
    is_quoted = re.fullmatch(r'"(?:[^"]|"")+"', text) is not None
    return _unquote(text) if is_quoted and isinstance(parse_key(_unquote(text)), KeyExpression) else text


def _parse_path(text: str) -> KeyExpression:
    """Parse a path of a Variant as a condition has it."""
    leaf = drop_whole_names(parse_sql(f"{text} IS NULL"))
    if not isinstance(leaf, VariantLookup):
        raise PredicateError(f"{text} is not what a Variant has at a path, such as v:a.b::BIGINT")
    return KeyExpression(PATH, [leaf.column], path=leaf.path, target=leaf.target)


def hint_at_expressions(column: str) -> str:
    """Return what to add to an error about a column that no file has: a text that is no expression is a column."""
    if isinstance(column, KeyExpression) or not ("(" in column or ":" in column):
        return ""
    expressions = "lower(x), upper(x), CAST(x AS STRING), grams(x), grams(lower(x)), x:path::TYPE or (x, y)"
    return f"; nor is it an expression: {expressions}"


def first_column(column: str) -> str:
    """Return the column that an expression has first; a column is its own."""
    return column.columns[0] if isinstance(column, KeyExpression) else column


def is_of_grams(column: str) -> TypeGuard[KeyExpression]:
    return isinstance(column, KeyExpression) and column.function == GRAMS


def is_of_path(column: str) -> TypeGuard[KeyExpression]:
    return isinstance(column, KeyExpression) and column.function == PATH


def _quote(column: str) -> str:
    return column if re.fullmatch(r'[^\s"(),]+', column) else '"' + column.replace('"', '""') + '"'


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


Int64s = NDArray[np.int64]

_LARGEST_CODE = 1 << 62


class KeyMatches(NamedTuple):
    """Rows with the numbers of their keys, by key and then by row; a row that equals several keys is there for each.

    Attributes
    ----------
    rows, keys : of the same length.
    """

    rows: Int64s
    keys: Int64s


class _Ids(NamedTuple):
    """Values of one column that keys equal, numbered from 0.

    Attributes
    ----------
    of_rows : the number of each row's value; -1 for a value that no key equals.
    of_keys, keys : pairs of a number and a key that equals the value, by key.
    size : how many numbers there are.
    """

    of_rows: Int64s
    of_keys: Int64s
    keys: Int64s
    size: int


def match_keys(table: pa.Table, columns: Sequence[str], keys: Sequence[Sequence[object]], timezone: str) -> KeyMatches:
    """Match the rows of a table to keys; values and literals are compared as by `row_filter.row_mask`.

    Parameters
    ----------
    columns : of the key.
    keys : for each of these columns, a literal of each key.

    Raises
    ------
    PredicateError
        A literal cannot be compared exactly with its column's type.
    """
    rows = np.zeros(table.num_rows, np.int64)  # codes, of rows and of keys: equal where all columns so far are
    numbers = np.arange(len(keys[0]))
    codes = np.zeros(len(numbers), np.int64)
    size = 1
    for column, literals in zip(columns, keys, strict=True):
        ids = _find_ids(table, column, literals, timezone)
        if size * max(1, ids.size) >= _LARGEST_CODE:
            known, codes = np.unique(codes, return_inverse=True)
            places = np.searchsorted(known, rows)
            rows = np.where(known[np.minimum(places, len(known) - 1)] == rows, places, -1)
            size = len(known)
        first, last = np.searchsorted(ids.keys, numbers, "left"), np.searchsorted(ids.keys, numbers, "right")
        counts = last - first
        pairs = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        numbers, codes = np.repeat(numbers, counts), np.repeat(codes, counts) * ids.size + ids.of_keys[pairs]
        rows = np.where((rows >= 0) & (ids.of_rows >= 0), rows * ids.size + ids.of_rows, -1)
        size *= max(1, ids.size)
    order = np.argsort(codes, kind="stable")
    matching = np.flatnonzero(rows >= 0)
    first = np.searchsorted(codes[order], rows[matching], "left")
    counts = np.searchsorted(codes[order], rows[matching], "right") - first
    places = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    matched = np.unique(np.stack([numbers[order][places], np.repeat(matching, counts)], axis=1), axis=0)
    return KeyMatches(np.ascontiguousarray(matched[:, 1]), np.ascontiguousarray(matched[:, 0]))


def _find_ids(table: pa.Table, column: str, literals: Sequence[object], timezone: str) -> _Ids:
    values = find_column(table, column)
    if values is None or not len(values) or pa.types.is_null(values.type):
        return _Ids(np.full(table.num_rows, -1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), 0)
    stored = pa.chunked_array([decode(chunk) for chunk in values.chunks])
    probes, keys, nan_keys = coerce_literals(literals, values.type, column, timezone)
    distinct = probes.unique()
    of_rows = _to_ids(pc.index_in(stored, value_set=distinct))
    of_keys = _to_ids(pc.index_in(probes, value_set=distinct))
    count = len(distinct)
    if nan_keys:
        of_rows[np.asarray(pc.fill_null(pc.is_nan(stored), False))] = count
        of_keys, keys = np.append(of_keys, [count] * len(nan_keys)), np.append(keys, nan_keys)
        count += 1
    order = np.argsort(keys, kind="stable")
    return _Ids(of_rows, of_keys[order], keys[order], count)


def _to_ids(positions: pa.Array | pa.ChunkedArray) -> Int64s:
    return np.array(pc.fill_null(positions, -1), np.int64)
