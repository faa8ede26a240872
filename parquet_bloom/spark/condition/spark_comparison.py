"""Comparisons of one column with literals; Spark itself evaluates the literals."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import PredicateError
from ...predicate import tree
from ...predicate.patterns import ESCAPE, escape_like, normalize_like
from ...predicate.subject import Subject, VariantPart
from ...predicate.tree import And, Compare, Contains, Equal, In, IsNotNull, IsNull, Node, Or
from ..session.session_settings import CannotPush, SparkField

# A truth value as SQL text, or as a Column where text cannot say it under all of Spark's settings.
Spelling = str | Column


@dataclass(frozen=True)
class Reading:
    """One possible meaning of a comparison.

    Attributes
    ----------
    spelling : the meaning in a form that Spark reads in one way only.
    exact : returns the predicate for pruning, of the comparison or of its negation (True); may raise CannotPush.
    literals : literals that Spark has to evaluate first (see `comparison.evaluate_literals`).
    """

    spelling: Spelling
    exact: Callable[[bool], Node]
    literals: Sequence[Any] = ()


@dataclass(eq=False)
class ConditionFragment:
    """One comparison, or any other expression that gives a truth value.

    Attributes
    ----------
    raw : the expression as the caller wrote it.
    text : the expression for messages.
    readings : possible meanings, the most likely first. The first is used once Spark has confirmed that it is
        equivalent to `raw`; readings that are not are removed.
    problem : the reason that the expression is not understood.
    """

    raw: Spelling
    text: str
    readings: list[Reading] = field(default_factory=list)
    problem: str = ""

    @property
    def spelling(self) -> Spelling:
        """The most likely reading, or the original text if there is none."""
        return self.readings[0].spelling if self.readings else self.raw


@dataclass(eq=False)
class Junction:
    """Terms joined by AND or OR."""

    kind: type[And] | type[Or]
    children: list[Term]


@dataclass(eq=False)
class Negation:
    """The negation of a term."""

    child: Term


Term = ConditionFragment | Junction | Negation


def join_terms(kind: type[And] | type[Or], children: Sequence[Term]) -> Term:
    """Join terms by AND or OR; a single term is returned unchanged."""
    return children[0] if len(children) == 1 else Junction(kind, list(children))


def iter_fragments(term: Term) -> Iterator[ConditionFragment]:
    """Iterate over the comparisons of a condition, from left to right."""
    if isinstance(term, Junction):
        for child in term.children:
            yield from iter_fragments(child)
    elif isinstance(term, Negation):
        yield from iter_fragments(term.child)
    else:
        yield term


def spell_term(term: Term) -> Spelling:
    """Format a condition for Spark: each comparison by its reading, or as the caller wrote it if it has none."""
    if isinstance(term, Negation):
        return negate(spell_term(term.child))
    if isinstance(term, Junction):
        return join_spellings([spell_term(child) for child in term.children], term.kind)
    return term.spelling


def as_column(spelling: Spelling) -> Column:
    """Convert a spelling to a Column."""
    return F.expr(spelling) if isinstance(spelling, str) else spelling


def negate(spelling: Spelling) -> Spelling:
    """Negate a spelling."""
    return f"NOT ({spelling})" if isinstance(spelling, str) else ~spelling


def join_spellings(spellings: Sequence[Spelling], kind: type[Any] = And) -> Spelling:
    """Join spellings by AND or OR; if all are text the result is text, built in one call of Spark however many."""
    texts = [spelling for spelling in spellings if isinstance(spelling, str)]
    if len(spellings) == 1:
        return spellings[0]
    if len(texts) == len(spellings):
        return (" AND " if kind is And else " OR ").join(f"({text})" for text in texts)
    # A balanced tree: a message to Spark Connect may not nest deeply.
    middle = len(spellings) // 2
    one, other = (as_column(join_spellings(half, kind)) for half in (spellings[:middle], spellings[middle:]))
    return operator.and_(one, other) if kind is And else operator.or_(one, other)


def derive_predicate(
    term: Term, exact: Callable[[ConditionFragment, bool], Node | None], opposite: bool = False
) -> Node | None:
    """Return a predicate that every row matching the condition matches too, or None if nothing is known.

    Parameters
    ----------
    exact : returns what must hold wherever a comparison, or its negation (True), is true; None if nothing is known.
    opposite : derive the predicate for the negation of the term.
    """
    if isinstance(term, ConditionFragment):
        return exact(term, opposite)
    if isinstance(term, Negation):
        return derive_predicate(term.child, exact, not opposite)
    nodes = [derive_predicate(child, exact, opposite) for child in term.children]
    known = [node for node in nodes if node is not None]
    if (term.kind is And) != opposite:
        return tree.all_of(known) if known else None
    return tree.any_of(known) if len(known) == len(nodes) else None


@dataclass
class Literal:
    """A literal that a column is compared with.

    Attributes
    ----------
    spelling : the literal as Spark gets it.
    value, type : its value in Python and its type in Spark; the type is None until Spark has evaluated the literal.
    texts : the string literals that it is made of.
    """

    spelling: Spelling
    value: Any = None
    type: DataType | None = None
    texts: Sequence[str] = ()

    def require_type(self) -> DataType:
        """Return the type in Spark.

        Raises
        ------
        CannotPush
            Spark could not evaluate the literal, or its value depends on the time of the query.
        """
        if self.type is None:
            raise CannotPush("Spark could not evaluate the literal")
        is_temporal = isinstance(self.type, DateType | TimestampType | TimestampNTZType)
        if is_temporal and any(text.strip()[:1].isalpha() for text in self.texts):
            raise CannotPush("'now' and 'today' have another value each time that they are read")
        return self.type


_INFIX = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Comparison:
    """A column compared with literals.

    Attributes
    ----------
    operator : =, <=>, <, <=, >, >=, in, contains, between, null or notnull.
    name : the column, dotted.
    part : of the column, a Variant, that is compared; None for the column itself.
    """

    operator: str
    name: str
    literals: Sequence[Literal] = field(default=())
    part: VariantPart | None = None

    def spell(self, column: SparkField) -> Spelling:
        """Format the comparison for Spark: as SQL text if all literals are text, else as a Column."""
        texts = [literal.spelling for literal in self.literals if isinstance(literal.spelling, str)]
        if len(texts) == len(self.literals) and column.is_plain and not (self.operator == "in" and not texts):
            return self._to_sql(column.sql, texts)
        subject, values = column.expression, [as_column(literal.spelling) for literal in self.literals]
        if self.operator in ("null", "notnull"):
            return subject.isNull() if self.operator == "null" else subject.isNotNull()
        if self.operator == "in":
            return subject.isin(*values)
        if self.operator == "contains":
            return F.array_contains(subject, values[0])
        if self.operator == "between":
            return subject.between(*values)
        if self.operator == "<=>":
            return subject.eqNullSafe(values[0])
        comparison: Column = _INFIX[self.operator](subject, values[0])
        return comparison

    def _to_sql(self, subject: str, values: Sequence[str]) -> str:
        if self.operator in ("null", "notnull"):
            return f"{subject} IS NULL" if self.operator == "null" else f"{subject} IS NOT NULL"
        if self.operator == "in":
            return f"{subject} IN ({', '.join(values)})"
        if self.operator == "contains":
            return f"array_contains({subject}, {values[0]})"
        if self.operator == "between":
            return f"{subject} BETWEEN {' AND '.join(values)}"
        return f"{subject} {self.operator} {values[0]}"

    @property
    def needs_values(self) -> bool:
        """True if pruning uses the values of the literals."""
        return self.operator in ("=", "<=>", "in", "contains")

    def to_node(self) -> Node:
        """Return the comparison as a predicate tree, without literals that pruning does not use.

        Raises
        ------
        CannotPush
            The tree has no such comparison.
        """
        values = [literal.value for literal in self.literals]
        try:
            return Subject(self.name, part=self.part).look_up(self._compare(values))
        except PredicateError as error:
            raise CannotPush(error.problem) from None

    def _compare(self, values: Sequence[Any]) -> Node:
        if self.operator in ("null", "notnull"):
            return IsNull(self.name) if self.operator == "null" else IsNotNull(self.name)
        if self.operator in ("=", "<=>"):
            return (Equal if self.operator == "=" else tree.null_safe_equal)(self.name, values[0])
        if self.operator == "in":
            return In(self.name, tuple(values))
        if self.operator == "contains":
            return Contains(self.name, values[0])
        return Compare(self.name, "<", None)


_PIECES = {"startswith": "{}%", "endswith": "%{}", "contains": "%{}%"}
PATTERNS = ("like", "ilike", "rlike", *_PIECES)
"""Functions of a text and a pattern, or a piece of text, as Spark's Columns have them."""


@dataclass(frozen=True)
class PatternMatch:
    """A text column that is matched with a pattern, or has a piece of text.

    Attributes
    ----------
    function : one of `PATTERNS`.
    name : the column, dotted.
    text : the pattern, or the piece.
    """

    function: str
    name: str
    text: str

    def spell(self, column: SparkField) -> Spelling:
        """Format it for Spark."""
        matched: Column = getattr(F.expr(column.sql), self.function)(self.text)
        return matched

    def to_node(self, negated: bool) -> Node:
        """Return what is true wherever it, or its negation, is.

        Raises
        ------
        CannotPush
            Nothing is known.
        """
        subject = Subject(self.name, is_exact=False)
        try:
            if self.function == "rlike":
                necessary = None if negated else subject.may_match(self.text)
                if necessary is None:
                    raise CannotPush("it asks for no piece of text")
                return necessary
            if self.function == "ilike":
                node = subject.is_like_in_any_case(normalize_like(self.text, ESCAPE))
            elif self.function == "like":
                node = subject.is_like(normalize_like(self.text, ESCAPE))
            else:
                node = subject.is_like(_PIECES[self.function].format(escape_like(self.text)))
        except PredicateError as error:
            raise CannotPush(error.problem) from None
        return tree.negation(node) if negated else node


def evaluate_literals(spark: SparkSession, literals: Sequence[Literal]) -> None:
    """Let Spark evaluate literals, all in one query; those that it cannot evaluate keep no type."""
    unresolved = [literal for literal in literals if literal.type is None]
    if not unresolved:
        return
    try:
        _evaluate(spark, unresolved)
    except (PySparkException, pa.ArrowException, ValueError, OverflowError):
        if len(unresolved) > 1:
            for literal in unresolved:
                evaluate_literals(spark, [literal])


def _evaluate(spark: SparkSession, literals: Sequence[Literal]) -> None:
    columns = [as_column(literal.spelling).alias(f"c{i}") for i, literal in enumerate(literals)]
    frame = spark.sql("SELECT 1").select(*columns)  # toArrow() then runs no job
    types = [item.dataType for item in frame.schema.fields]
    values = [_read_value(column) for column in frame.toArrow().columns]
    for literal, value, data_type in zip(literals, values, types, strict=True):
        literal.value, literal.type = value, data_type


def _read_value(column: pa.ChunkedArray) -> Any:
    """Return the one value of a column as predicate trees represent it."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        local = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))[0].as_py()
        return None if local is None else local.replace(tzinfo=dt.UTC)
    return column[0].as_py()
