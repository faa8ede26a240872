"""The left side of a comparison: a column, or an expression over one that is solved for the column."""

from __future__ import annotations

import datetime as dt
import decimal
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from ..errors import PredicateError
from ..variant.variant_path import VariantPath
from . import literal
from .calls import is_ordinary
from .pattern_pieces import find_common_pieces
from .patterns import escape_like, find_prefix, require_expression, require_like
from .tree import (
    And,
    CallIn,
    CallNotIn,
    Compare,
    Equal,
    HasType,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    Like,
    MapLookup,
    Matches,
    Node,
    NotEqual,
    OfWholeName,
    Or,
    VariantLookup,
    all_of,
    any_of,
    call_text,
    find_residual,
)

DAY = "day"
"""The kind of types whose values are compared by their day."""

_ONE_DAY = dt.timedelta(days=1)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
Number: TypeAlias = int | decimal.Decimal
_NUMBERS = (int, decimal.Decimal)


class VariantPart(NamedTuple):
    """What is meant of a Variant; see `tree.VariantLookup`."""

    path: VariantPath
    target: str
    is_try: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """The left side of a comparison.

    Attributes
    ----------
    name : dotted name of the column.
    function : one of `FUNCTIONS`; empty for the column itself.
    is_exact : False where an engine evaluates the comparison again, see `CallIn`.
    kind : kind of the column's type (see `HasType`) that a cast or a sum asks for; empty for any.
    shift : what is added to the column.
    default : what stands in place of null, in `coalesce`; None for nothing.
    key : of the column, a map, under which the value is that is meant; None for the column itself.
    is_whole : whether the name is not that of a path, though it has a dot.
    part : of the column, a Variant, that is meant; None for the column itself.
    """

    name: str
    function: str = ""
    is_exact: bool = True
    kind: str = ""
    shift: Number = 0
    default: literal.Literal = None
    key: literal.Literal = None
    is_whole: bool = False
    part: VariantPart | None = None

    @property
    def is_column(self) -> bool:
        """Whether it is a column by itself."""
        return self.is_value and self.key is None and self.part is None

    @property
    def is_value(self) -> bool:
        """Whether it is a column, a value of a map or a part of a Variant, by itself."""
        return not (self.function or self.kind or self.default is not None)

    @property
    def is_within(self) -> bool:
        """Whether conditions are on what `look_up` finds in the column, or by a whole name."""
        return self.key is not None or self.part is not None or self.is_whole

    def _alone(self) -> Subject:
        return replace(self, key=None, part=None, is_whole=False)

    def add(self, number: Number) -> Subject:
        """Return the sum with a number.

        Raises
        ------
        PredicateError
            It is not a column, or a sum already.
        """
        if self.function or self.default is not None or self.kind not in ("", "exact"):
            raise PredicateError("arithmetic over anything but a column is not supported", column=self.name)
        return replace(self, kind="exact", shift=add(self.shift, number))

    def compare(self, operator: str, value: literal.Literal) -> Node:
        """Return the predicate of a comparison by `=`, `<>`, `<`, `<=`, `>` or `>=`.

        Raises
        ------
        PredicateError
            A function is not compared for equality, or not with a text; or it cannot be solved for the column.
        """
        if self.is_within:
            return self.look_up(self._alone().compare(operator, value))
        if self.default is not None:
            without = replace(self, default=None).compare(operator, value)
            if _holds(self.default, operator, value, self.name):
                return Or((IsNull(self.name), without))
            return And((IsNotNull(self.name), without))
        if self.kind:
            return And((HasType(self.name, self.kind), self._solve(operator, value)))
        if self.function:
            if operator not in ("=", "<>"):
                problem = f"{call_text(self.function, self.name)} can be compared by =, <> and IN only"
                raise PredicateError(problem, column=self.name)
            return (CallIn if operator == "=" else CallNotIn)(self.name, self.function, (value,), self.is_exact)
        return _compare(self.name, operator, value)

    def is_in(self, values: tuple[literal.Literal, ...]) -> Node:
        """Return the predicate that it is one of some values; raises as `compare`."""
        if self.is_within:
            return self.look_up(self._alone().is_in(values))
        if self.default is not None or self.kind == DAY:
            if not values:
                raise PredicateError("an IN without values is not supported here", column=self.name)
            return any_of([self.compare("=", value) for value in values])
        if self.kind:
            return And((HasType(self.name, self.kind), In(self.name, tuple(map(self._unshift, values)))))
        return CallIn(self.name, self.function, values, self.is_exact) if self.function else In(self.name, values)

    def is_null(self) -> Node:
        """Return the predicate that it is null; raises as `compare`."""
        if self.is_within:
            return self.look_up(self._alone().is_null())
        if self.default is not None:
            raise PredicateError("coalesce with a literal is never null", column=self.name)
        return And((HasType(self.name, self.kind), IsNull(self.name))) if self.kind else IsNull(self.name)

    def is_not_null(self) -> Node:
        """Return the predicate that it is not null, whatever its type; raises as `compare`."""
        return self.look_up(IsNotNull(self.name))

    def is_like(self, pattern: str) -> Node:
        """Return the predicate that it matches a pattern of LIKE; equality where only one text does."""
        if self.is_within:
            return self.look_up(self._alone().is_like(pattern))
        self._require_text()
        require_like(pattern)
        prefix = find_prefix(pattern)
        if prefix.is_whole:
            return self.compare("=", prefix.text)
        return Like(self.name, pattern, self.function, self.is_exact)

    def is_like_in_any_case(self, pattern: str) -> Node:
        """Return the predicate that its `lower` matches the `lower` of a pattern of LIKE, as ILIKE does.

        Raises
        ------
        PredicateError
            It is a function of a column other than `lower`, or engines map a character of the pattern differently.
        """
        if self.is_within:
            return self.look_up(self._alone().is_like_in_any_case(pattern))
        self._require_text()
        if self.function not in ("", "lower"):
            raise PredicateError(f"ILIKE of {self.function} is not supported: compare the column", column=self.name)
        unusual = next((character for character in pattern if not is_ordinary(character, "lower")), None)
        if unusual is not None:
            problem = f"ILIKE with {unusual!r} is not the same in all engines"
            raise PredicateError(f"{problem}: use LIKE, or `lower` and a pattern in lower case", column=self.name)
        return replace(self, function="lower").is_like(pattern.lower())

    def matches(self, pattern: str) -> Node:
        """Return the predicate that a regular expression is found in it."""
        if self.is_within:
            return self.look_up(self._alone().matches(pattern))
        self._require_text()
        require_expression(pattern)
        return Matches(self.name, pattern, self.function, self.is_exact)

    def may_match(self, expression: str) -> Node | None:
        """Return what holds wherever a regular expression of Java or Rust is found in it; None if nothing is known."""
        pieces = find_common_pieces(expression)
        alternatives = [[self.is_like(f"%{escape_like(piece)}%") for piece in sorted(one)] for one in pieces]
        return all_of(map(any_of, alternatives)) if pieces else None

    def look_up(self, condition: Node) -> Node:
        """Return a condition on the column of the name as one on what is meant, perhaps within a map or a Variant."""

        def leaf(item: Leaf) -> Leaf:
            meant = item if self.key is None else MapLookup(self.name, self.key, item)
            if self.part is not None:
                if not self.part.target:
                    text = f"variant_get({self.name}, '{self.part.path}', 'bigint')"
                    raise PredicateError(f"a part of a Variant is compared as a type: {text}, say", column=self.name)
                meant = VariantLookup(self.name, *self.part, item)
            return OfWholeName(self.name, meant) if self.is_whole else meant

        looked_up = find_residual(condition, leaf)
        assert isinstance(looked_up, Node)
        return looked_up

    def _require_text(self) -> None:
        if self.kind or self.default is not None:
            raise PredicateError("such an expression has no pattern", column=self.name)

    def _unshift(self, value: literal.Literal) -> literal.Literal:
        """Return the literal that the column itself is compared with."""
        if not self.shift or value is None:
            return value
        if type(value) not in _NUMBERS:
            raise PredicateError("a sum is compared with whole numbers and decimals only", column=self.name)
        return add(value, -self.shift)  # type: ignore[arg-type]

    def _solve(self, operator: str, value: literal.Literal) -> Node:
        if self.kind != DAY or value is None:
            return _compare(self.name, operator, self._unshift(value))
        if type(value) is not dt.date:
            raise PredicateError("a CAST AS DATE is compared with dates only", column=self.name)
        if operator in ("<", ">="):
            return _compare(self.name, operator, value)
        try:
            after = value + _ONE_DAY
        except OverflowError:
            raise PredicateError(f"the day after {value} is out of range", column=self.name) from None
        if operator in ("<=", ">"):
            return _compare(self.name, "<" if operator == "<=" else ">=", after)
        if operator == "=":
            return And((Compare(self.name, ">=", value), Compare(self.name, "<", after)))
        return Or((Compare(self.name, "<", value), Compare(self.name, ">=", after)))


def _compare(name: str, operator: str, value: literal.Literal) -> Node:
    if operator == "=":
        return Equal(name, value)
    return NotEqual(name, value) if operator == "<>" else Compare(name, operator, value)


def add(one: Number, other: Number) -> Number:
    """Return the exact sum of two numbers."""
    if type(one) is int and type(other) is int:
        return one + other
    return _EXACT.add(decimal.Decimal(one), decimal.Decimal(other))


def multiply(one: Number, other: Number) -> Number:
    """Return the exact product of two numbers."""
    if type(one) is int and type(other) is int:
        return one * other
    return _EXACT.multiply(decimal.Decimal(one), decimal.Decimal(other))


def _holds(default: Any, operator: str, value: Any, column: str) -> bool:
    """Return whether a comparison of two literals holds; raises PredicateError unless they are of one kind."""
    alike = type(default) is type(value) or (type(default) in _NUMBERS and type(value) in _NUMBERS)
    if value is None or not alike or isinstance(value, float):
        raise PredicateError("coalesce is compared with literals of the kind of its own, floats aside", column=column)
    if operator in ("=", "<>"):
        return bool((default == value) == (operator == "="))
    return bool({"<": default < value, "<=": default <= value, ">": default > value, ">=": default >= value}[operator])
