"""Terms of a condition: comparisons that may be understood, joined by AND, OR and NOT."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...predicate import tree
from ...predicate.tree import And, Node, Or

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
class Fragment:
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


Term = Fragment | Junction | Negation


def join_terms(kind: type[And] | type[Or], children: Sequence[Term]) -> Term:
    """Join terms by AND or OR; a single term is returned unchanged."""
    return children[0] if len(children) == 1 else Junction(kind, list(children))


def iter_fragments(term: Term) -> Iterator[Fragment]:
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


def derive_predicate(term: Term, exact: Callable[[Fragment, bool], Node | None], opposite: bool = False) -> Node | None:
    """Return a predicate that every row matching the condition matches too, or None if nothing is known.

    Parameters
    ----------
    exact : returns what must hold wherever a comparison, or its negation (True), is true; None if nothing is known.
    opposite : derive the predicate for the negation of the term.
    """
    if isinstance(term, Fragment):
        return exact(term, opposite)
    if isinstance(term, Negation):
        return derive_predicate(term.child, exact, not opposite)
    nodes = [derive_predicate(child, exact, opposite) for child in term.children]
    known = [node for node in nodes if node is not None]
    if (term.kind is And) != opposite:
        return tree.all_of(known) if known else None
    return tree.any_of(known) if len(known) == len(nodes) else None
