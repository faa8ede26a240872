"""The predicate tree, which all parsers build and which pruning and filtering evaluate.

Leaves compare one column with literals, connectives join them. SQL's three-valued logic holds: a comparison is true,
false or null, and only true selects a row. There is no NOT: each leaf has an opposite, and `negation` replaces the
leaf by it, which three-valued logic allows. So a predicate is true if enough of its leaves are, and pruning only has
to decide for each leaf whether it can be true.

A **column** is a dotted path, as Parquet writes it: `user.id` is the leaf `id` of the struct `user`. A name that itself
contains a dot is not escaped, so the column `a.b` and the leaf `b` of the struct `a` are both "a.b"; a table that has
both can be filtered by the column alone, and by `OfWholeName`.

A **literal** has one of these types, exactly (no subclasses; `parse_dnf` converts values of numpy and Arrow):

- `None`: NULL. `x = NULL` is null for each row, and a NULL in an IN list equals no value.
- `bool`, `int` (of any size), `float` (NaN and the infinities too; NaN equals NaN), `decimal.Decimal` (finite), `str`,
  `bytes`, `uuid.UUID`.
- `datetime.date`, `datetime.time` (without zone), `datetime.datetime` (with or without).
- `pyarrow.Scalar`, a timestamp or time in nanoseconds, which Python's types cannot represent; never null.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, ne
from typing import Any, TypeVar, cast

from ..errors import PredicateError
from ..variant.variant_path import VariantPath
from . import literal
from .patterns import ESCAPE

T = TypeVar("T")

OPERATORS = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The operators of `Compare`, each with its opposite."""

COLUMN_KINDS = {
    "int8": "an integer of 8 bits",
    "int16": "an integer of at most 16 bits",
    "int32": "an integer of at most 32 bits",
    "int64": "an integer of at most 64 bits",
    "double": "an integer of at most 32 bits, or a double",
    "exact": "an integer or decimal",
    "day": "a date, or a timestamp without zone",
}
"""The kinds of types of `HasType`, each with its description; `column_kinds` tells types of them."""

FUNCTIONS = {"lower": "lower({})", "upper": "upper({})", "string": "CAST({} AS STRING)"}
"""The functions of `CallIn` and `CallNotIn`, each with its text."""

_COLUMN = attrgetter("column")
_MAX_SHOWN = 8  # literals of an IN list, and terms of an AND or OR, in str()


class Node:  # not an ABC: isinstance() with one takes ten times as long
    """A predicate. Two are equal if their terms are equal, in order and with literal types (1 does not equal TRUE)."""

    __slots__ = ()

    @abstractmethod
    def _key(self) -> tuple[object, ...]:
        """Return the key for equality and hash; it is flat, so that deep nesting cannot exhaust the stack."""

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Node) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        return to_text(self, shown=_MAX_SHOWN)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"


class Leaf(Node):
    """A predicate on one column."""

    __slots__ = ()

    column: str

    @property
    @abstractmethod
    def literals(self) -> tuple[literal.Literal, ...]:
        """Return the literals that the column is compared with."""

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.column, tuple(map(literal.key, self.literals)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _OneLiteralLeaf(Leaf):
    """A leaf that compares a column with one literal."""

    column: str
    value: literal.Literal

    def __post_init__(self) -> None:
        literal.check(self.column, (self.value,))

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return (self.value,)

    def __reduce__(self) -> tuple[object, ...]:
        return _make_one_literal_leaf, (type(self), self.column, literal.pack((self.value,)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _ManyLiteralsLeaf(Leaf):
    """A leaf that compares a column with any number of literals."""

    column: str
    values: tuple[literal.Literal, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple):
            raise PredicateError("the literals of IN must be a tuple", column=self.column)
        literal.check(self.column, self.values)

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return self.values

    def __reduce__(self) -> tuple[object, ...]:
        return _make_many_literals_leaf, (type(self), self.column, literal.pack(self.values))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _NoLiteralLeaf(Leaf):
    """A leaf without literals."""

    column: str

    def __post_init__(self) -> None:
        literal.check(self.column, ())

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return ()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.column,)


class Equal(_OneLiteralLeaf):
    """`column = value`."""

    __slots__ = ()


class NotEqual(_OneLiteralLeaf):
    """`column <> value`."""

    __slots__ = ()


class In(_ManyLiteralsLeaf):
    """`column IN (values)`: comparisons with `=` joined by OR. Without values it is false for every row."""

    __slots__ = ()


class NotIn(_ManyLiteralsLeaf):
    """`column NOT IN (values)`: comparisons with `<>` joined by AND. Without values it is true for every row."""

    __slots__ = ()


class Contains(_OneLiteralLeaf):
    """`array_contains(column, value)`: a list that has an element equal to the literal.

    Null for a list that is null, and for the literal NULL unless the list is empty: that has no element which could
    equal it (as in DuckDB since 2.0.1, and in SQL's `= ANY`; Spark returns null). A null element is an element like any
    other, as in DuckDB; Spark returns null instead of false where there is one, so its rows of a NotContains are a
    subset of these. The column is named by the path of the list, without the names that writers give to its elements.
    """

    __slots__ = ()


class NotContains(_OneLiteralLeaf):
    """`NOT array_contains(column, value)`: a list, an empty one too, without an element equal to the literal."""

    __slots__ = ()


class IsNull(_NoLiteralLeaf):
    """`column IS NULL`, which is never null itself."""

    __slots__ = ()


class IsNotNull(_NoLiteralLeaf):
    """`column IS NOT NULL`, which is never null itself."""

    __slots__ = ()


def _require_function(function: str) -> None:
    if function not in FUNCTIONS:
        raise PredicateError(f"the function {function!r} must be one of {', '.join(FUNCTIONS)}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _CallLeaf(Leaf):
    """A leaf that compares the result of a function of a column with texts; see `calls` for the functions.

    Of a few values engines have different results. Where `is_exact`, a row with such a value is an error; else the leaf
    is true for it: that is for conditions that an engine evaluates again.
    """

    column: str
    function: str
    values: tuple[literal.Literal, ...]
    is_exact: bool = True

    def __post_init__(self) -> None:
        literal.check(self.column, ())
        _require_function(self.function)
        if not all(value is None or type(value) is str for value in self.values):
            problem = f"{call_text(self.function, self.column)} is a text: it can be compared with texts only"
            raise PredicateError(problem, column=self.column)

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return self.values

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.column, self.function, self.is_exact, tuple(map(literal.key, self.literals)))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.column, self.function, self.values, self.is_exact)


class CallIn(_CallLeaf):
    """`function(column) IN (values)`, which is null for a null."""

    __slots__ = ()


class CallNotIn(_CallLeaf):
    """`function(column) NOT IN (values)`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternLeaf(Leaf):
    """A leaf that matches texts, or a function of a column (see `CallIn`), with a pattern; null for null."""

    column: str
    pattern: str
    function: str = ""
    is_exact: bool = True

    def __post_init__(self) -> None:
        literal.check(self.column, ())
        if self.function:
            _require_function(self.function)
        if type(self.pattern) is not str:
            raise PredicateError(f"a pattern is a text, not {type(self.pattern).__name__}", column=self.column)

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return (self.pattern,)

    def _key(self) -> tuple[object, ...]:
        return (type(self), self.column, self.function, self.is_exact, self.pattern)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.column, self.pattern, self.function, self.is_exact)


class Like(PatternLeaf):
    r"""`column LIKE pattern`, in which a backslash takes `%`, `_` and itself literally."""

    __slots__ = ()


class NotLike(PatternLeaf):
    """`column NOT LIKE pattern`."""

    __slots__ = ()


class Matches(PatternLeaf):
    """`regexp_matches(column, pattern)`: a regular expression of RE2 is found anywhere in the text."""

    __slots__ = ()


class NotMatches(PatternLeaf):
    """`NOT regexp_matches(column, pattern)`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _TypeLeaf(Leaf):
    """A leaf about the type of a column, on which the meaning of the leaves beside it depends.

    Rows of a column of another type are an error. See `column_kinds` for the kinds.
    """

    column: str
    kind: str

    def __post_init__(self) -> None:
        literal.check(self.column, ())
        if self.kind not in COLUMN_KINDS:
            raise PredicateError(f"the kind of type {self.kind!r} must be one of {', '.join(COLUMN_KINDS)}")

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return (self.kind,)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.column, self.kind)


class HasType(_TypeLeaf):
    """`has_type(column, kind)`: true for every row, null ones too."""

    __slots__ = ()


class HasOtherType(_TypeLeaf):
    """`NOT has_type(column, kind)`: false for every row."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Leaf):
    """`column < value`, or another of OPERATORS. NaN is above all other numbers, as in Spark and DuckDB."""

    column: str
    operator: str
    value: literal.Literal

    def __post_init__(self) -> None:
        literal.check(self.column, (self.value,))
        if self.operator not in OPERATORS:
            raise PredicateError(
                f"operator {self.operator!r} must be one of {', '.join(OPERATORS)}", column=self.column
            )

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return (self.value,)

    def _key(self) -> tuple[object, ...]:
        return (Compare, self.column, self.operator, literal.key(self.value))

    def __reduce__(self) -> tuple[object, ...]:
        return _make_comparison, (self.column, self.operator, literal.pack((self.value,)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapLookup(Leaf):
    """A condition on the value that a map has under a key: `column[key] = value`, or another leaf in place of that.

    The value is null where the map has no such key, or is null itself; of several such keys the first one counts, as
    in DuckDB and Spark. `condition` is over the value, and named as the map.
    """

    column: str
    key: literal.Literal
    condition: Leaf

    def __post_init__(self) -> None:
        literal.check(self.column, (self.key,))
        if self.key is None:
            raise PredicateError("the key of a map is not NULL", column=self.column)
        if isinstance(self.condition, MapLookup | Contains | NotContains):
            raise PredicateError("a lookup in a value of a map is not supported", column=self.column)
        _name_condition(self)

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return self.condition.literals

    def _key(self) -> tuple[object, ...]:
        return (MapLookup, literal.key(self.key), self.condition._key())

    def __reduce__(self) -> tuple[object, ...]:
        return _make_lookup, (self.column, literal.pack((self.key,)), self.condition)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VariantLookup(Leaf):
    """A condition on what a Variant has at a path, as a type: `variant_get(column, '$.a', 'bigint') = value`.

    It is null where the path leads nowhere, or to a Variant's null. What cannot be cast is an error, or null, too, in
    `try_variant_get`. `condition` is over the value, and named as the Variant.

    Attributes
    ----------
    target : a type, by its canonical name of `variant_names`.
    """

    column: str
    path: VariantPath
    target: str
    is_try: bool
    condition: Leaf

    def __post_init__(self) -> None:
        literal.check(self.column, ())
        if isinstance(self.condition, VariantLookup | MapLookup | Contains | NotContains):
            raise PredicateError("a lookup in a part of a Variant is not supported", column=self.column)
        _name_condition(self)

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return self.condition.literals

    def _key(self) -> tuple[object, ...]:
        return (VariantLookup, self.path, self.target, self.is_try, self.condition._key())

    def __reduce__(self) -> tuple[object, ...]:
        return VariantLookup, (self.column, self.path, self.target, self.is_try, self.condition)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OfWholeName(Leaf):
    """A condition on the column of exactly this name, which has a dot, even where a field of a struct has that name.

    Where there is no such column it is that of the path, as the name alone means.
    """

    column: str
    condition: Leaf

    def __post_init__(self) -> None:
        literal.check(self.column, ())
        _name_condition(self)

    @property
    def literals(self) -> tuple[literal.Literal, ...]:
        return self.condition.literals

    def _key(self) -> tuple[object, ...]:
        return (OfWholeName, self.condition._key())

    def __reduce__(self) -> tuple[object, ...]:
        return OfWholeName, (self.column, self.condition)


def _name_condition(leaf: MapLookup | VariantLookup | OfWholeName) -> None:
    """Name the condition of a leaf as the leaf's column."""
    if leaf.condition.column != leaf.column:
        object.__setattr__(leaf, "condition", replace(leaf.condition, column=leaf.column))  # type: ignore[type-var]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Connective(Node):
    """Predicates joined by one operator; a child of the same kind is replaced by its own children."""

    children: tuple[Node, ...]
    _leaves: tuple[Leaf, ...] | None = field(default=None, init=False)  # found when they are first asked for

    def __post_init__(self) -> None:
        flat: list[Node] = []
        for child in self.children:
            if not isinstance(child, Node):
                raise PredicateError(f"{type(self).__name__} joins predicates, not {type(child).__name__}")
            if isinstance(child, Connective) and type(child) is type(self):
                flat.extend(child.children)
            else:
                flat.append(child)
        if not flat:
            raise PredicateError(f"{type(self).__name__} needs at least one predicate")
        object.__setattr__(self, "children", tuple(flat))

    def _key(self) -> tuple[object, ...]:
        return tuple(node._key() if isinstance(node, Node) else node for node in to_postfix(self))

    def __reduce__(self) -> tuple[object, ...]:
        # Pickle would recurse into the children, and a predicate may be nested deeper than the interpreter's stack.
        return _from_postfix, (to_postfix(self),)


class And(Connective):
    """All children hold."""

    __slots__ = ()


class Or(Connective):
    """At least one child holds."""

    __slots__ = ()


def all_of(children: Iterable[Node]) -> Node:
    """Join predicates by AND; a single one is returned as it is."""
    nodes = tuple(children)
    return nodes[0] if len(nodes) == 1 else And(nodes)


def any_of(children: Iterable[Node]) -> Node:
    """Join predicates by OR; a single one is returned as it is.

    Comparisons of one column are merged into one IN at the position of the first one, so that `a = 1 OR a = 2 OR ...`
    costs one lookup, however long it is.
    """
    nodes: list[Node] = []
    for child in children:
        nodes.extend(child.children if isinstance(child, Or) else (child,))
    merged = merge_equalities(nodes)
    return merged[0] if len(merged) == 1 else Or(tuple(merged))


def merge_equalities(nodes: Sequence[Node], is_negated: bool = False) -> list[Node]:
    """Merge the equalities of each column, or negated the inequalities, into one leaf at the position of the first."""
    kinds = (NotEqual, NotIn) if is_negated else (Equal, In)
    gathered: dict[str, list[Leaf]] = {}
    for node in nodes:
        if isinstance(node, kinds):
            gathered.setdefault(node.column, []).append(node)
    merged: list[Node] = []
    for node in nodes:
        if isinstance(node, kinds):
            leaves = gathered.pop(node.column, [])
            if len(leaves) > 1:
                merged.append(kinds[1](node.column, tuple(value for leaf in leaves for value in leaf.literals)))
            else:
                merged.extend(leaves)
        else:
            merged.append(node)
    return merged


_OPPOSITES: dict[type[Leaf], type[Any]] = {
    Equal: NotEqual,
    In: NotIn,
    IsNull: IsNotNull,
    NotEqual: Equal,
    NotIn: In,
    IsNotNull: IsNull,
    Contains: NotContains,
    NotContains: Contains,
    CallIn: CallNotIn,
    CallNotIn: CallIn,
    Like: NotLike,
    NotLike: Like,
    Matches: NotMatches,
    NotMatches: Matches,
    HasType: HasOtherType,
    HasOtherType: HasType,
}


def negation(node: Node) -> Node:
    """Return the predicate that is true where this one is false, false where it is true, and null where it is null."""

    def leaf(item: Leaf) -> Node:
        if isinstance(item, Compare):
            return Compare(item.column, OPERATORS[item.operator], item.value)
        if isinstance(item, MapLookup):
            return MapLookup(item.column, item.key, cast(Leaf, leaf(item.condition)))
        if isinstance(item, VariantLookup):
            condition = cast(Leaf, leaf(item.condition))
            return VariantLookup(item.column, item.path, item.target, item.is_try, condition)
        if isinstance(item, OfWholeName):
            return OfWholeName(item.column, cast(Leaf, leaf(item.condition)))
        opposite = _OPPOSITES[In if isinstance(item, In) else type(item)]
        if isinstance(item, _TypeLeaf):
            return cast(Node, opposite(item.column, item.kind))
        if isinstance(item, PatternLeaf):
            return cast(Node, opposite(item.column, item.pattern, item.function, item.is_exact))
        if isinstance(item, _CallLeaf):
            return opposite(item.column, item.function, item.values, item.is_exact)
        if isinstance(item, _OneLiteralLeaf):
            return opposite(item.column, item.value)
        return (
            opposite(item.column, tuple(item.values)) if isinstance(item, _ManyLiteralsLeaf) else opposite(item.column)
        )

    def join(item: Connective, children: list[Node]) -> Node:
        return Or(tuple(children)) if isinstance(item, And) else And(tuple(children))

    return fold(node, leaf, join)


def null_safe_equal(column: str, value: literal.Literal) -> Node:
    """Return `column <=> value` (IS NOT DISTINCT FROM): never null, and NULL equals NULL."""
    return IsNull(column) if value is None else And((IsNotNull(column), Equal(column, value)))


def call_text(function: str, column: str) -> str:
    """Format a function of a column, given by its text, as SQL."""
    return FUNCTIONS[function].format(column)


def leaves(node: Node) -> tuple[Leaf, ...]:
    """Return the leaves of a predicate, from left to right."""
    if isinstance(node, Connective):
        if node._leaves is None:
            found = tuple([item for item in to_postfix(node) if isinstance(item, Leaf)])
            object.__setattr__(node, "_leaves", found)
        assert node._leaves is not None
        return node._leaves
    assert isinstance(node, Leaf)
    return (node,)


def columns(node: Node) -> set[str]:
    """Return the dotted paths of all columns of a predicate."""
    return {*map(_COLUMN, leaves(node))}


def fold(node: Node, leaf: Callable[[Leaf], T], join: Callable[[Connective, list[T]], T]) -> T:
    """Reduce a predicate from its leaves up, without recursion.

    Parameters
    ----------
    leaf : returns the result of a leaf.
    join : returns the result of a connective, given those of its children.
    """
    results: list[T] = []
    pending: list[tuple[Connective, int]] = []  # open connectives, each with the number of results before its own
    stack: list[Node | None] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Connective):
            pending.append((top, len(results)))
            stack.append(None)
            stack.extend(reversed(top.children))
        elif isinstance(top, Leaf):
            results.append(leaf(top))
        else:
            connective, start = pending.pop()
            results[start:] = [join(connective, results[start:])]
    return results[0]


def find_residual(node: Node, leaf: Callable[[Leaf], Node | bool]) -> Node | bool:
    """Return the residual of a predicate when the results of some leaves are known; True or False if nothing remains.

    Parameters
    ----------
    leaf : returns the result of a leaf, or its residual. SQL's null counts as false, since no NOT can be above it.
    """

    def join(item: Connective, parts: list[Node | bool]) -> Node | bool:
        conjunction = isinstance(item, And)
        if any(part is not conjunction for part in parts if isinstance(part, bool)):
            return not conjunction
        remaining = [part for part in parts if isinstance(part, Node)]
        if len(remaining) < 2:
            return remaining[0] if remaining else conjunction
        return all_of(remaining) if conjunction else any_of(remaining)

    return fold(node, leaf, join)


def drop_whole_names(node: Node, is_dropped: Callable[[str], bool] = lambda _: True) -> Node:
    """Return the predicate with names that may mean paths as well, in place of whole names; of some columns."""
    if not any(isinstance(leaf, OfWholeName) for leaf in leaves(node)):
        return node

    def leaf(item: Leaf) -> Node:
        return item.condition if isinstance(item, OfWholeName) and is_dropped(item.column) else item

    residual = find_residual(node, leaf)
    assert isinstance(residual, Node)
    return residual


def rename_columns(node: Node, names: Mapping[str, str]) -> Node:
    """Return the predicate with other column names; columns without an entry keep their names."""
    if not any(map(ne, names.keys(), names.values())):
        return node
    residual = find_residual(node, lambda leaf: replace(leaf, column=names.get(leaf.column, leaf.column)))  # type: ignore[type-var]
    assert isinstance(residual, Node)
    return residual


def to_text(node: Node, *, shown: int | None = None) -> str:
    """Format a predicate as SQL text, which `parse_sql` parses into an equal predicate.

    Parameters
    ----------
    shown : for messages: the maximum number of literals of a list and of terms; long literals are truncated, too.
    """

    def leaf(item: Leaf) -> str:
        plain = all(part.isidentifier() for part in item.column.split("."))
        name = item.column if plain and shown is not None else _quote(item.column)
        if isinstance(item, OfWholeName):
            name, item = _quote_part(item.column), item.condition
        if isinstance(item, MapLookup):
            name = f"{name}[{literal.to_text(item.key, brief=shown is not None)}]"
            item = item.condition
        if isinstance(item, VariantLookup):
            name = f"{'try_' * item.is_try}variant_get({name}, {literal.to_text(str(item.path))}, '{item.target}')"
            item = item.condition
        if isinstance(item, _CallLeaf | PatternLeaf) and item.function:
            name = call_text(item.function, name)
        texts = [literal.to_text(value, brief=shown is not None) for value in item.literals[:shown]]
        if len(texts) < len(item.literals):
            texts.append(f"... {len(item.literals) - len(texts):,} more")
        operator = (
            item.operator if isinstance(item, Compare) else _SQL_OPERATORS[In if isinstance(item, In) else type(item)]
        )
        if isinstance(item, Like | NotLike) and ESCAPE in item.pattern:
            texts[0] += f" ESCAPE '{ESCAPE}'"
        return operator.format(name, ", ".join(texts)) if "{" in operator else f"{name} {operator} {texts[0]}"

    def join(item: Connective, texts: list[str]) -> str:
        word = f" {type(item).__name__.upper()} "
        parts = [
            f"({text})" if isinstance(child, Connective) else text
            for child, text in zip(item.children[:shown], texts, strict=False)
        ]
        if len(parts) < len(texts):
            parts.append(f"... {len(texts) - len(parts):,} more")
        return word.join(parts)

    return fold(node, leaf, join)


_SQL_OPERATORS: dict[type[Leaf], str] = {
    Equal: "=",
    NotEqual: "<>",
    In: "{} IN ({})",
    NotIn: "{} NOT IN ({})",
    IsNull: "{} IS NULL",
    IsNotNull: "{} IS NOT NULL",
    Contains: "array_contains({}, {})",
    NotContains: "NOT array_contains({}, {})",
    CallIn: "{} IN ({})",
    CallNotIn: "{} NOT IN ({})",
    Like: "LIKE",
    NotLike: "NOT LIKE",
    Matches: "regexp_matches({}, {})",
    NotMatches: "NOT regexp_matches({}, {})",
    HasType: "has_type({}, {})",
    HasOtherType: "NOT has_type({}, {})",
}


def _make_one_literal_leaf(kind: type[_OneLiteralLeaf], column: str, packed: tuple[object, ...]) -> Leaf:
    return kind(column, literal.unpack(packed)[0])


def _make_many_literals_leaf(kind: type[_ManyLiteralsLeaf], column: str, packed: tuple[object, ...]) -> Leaf:
    return kind(column, literal.unpack(packed))


def _make_lookup(column: str, packed: tuple[object, ...], condition: Leaf) -> Leaf:
    return MapLookup(column, literal.unpack(packed)[0], condition)


def _make_comparison(column: str, operator: str, packed: tuple[object, ...]) -> Leaf:
    return Compare(column, operator, literal.unpack(packed)[0])


Postfix = tuple[Node | tuple[type[Connective], int], ...]
"""Leaves, and each connective after its children as (class, number of children)."""


def to_postfix(node: Node) -> Postfix:
    flat: list[Node | tuple[type[Connective], int]] = []
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Connective):
            flat.append((type(top), len(top.children)))
            stack.extend(top.children)
        else:
            flat.append(top)
    return tuple(reversed(flat))


def _from_postfix(flat: Postfix) -> Node:
    stack: list[Node] = []
    for item in flat:
        if isinstance(item, Node):
            stack.append(item)
        else:
            kind, count = item
            stack[len(stack) - count :] = [kind(tuple(stack[len(stack) - count :]))]
    return stack[0]


def _quote(column: str) -> str:
    parts = column.split(".")
    return ".".join(map(_quote_part, parts if all(parts) else [column]))


def _quote_part(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
