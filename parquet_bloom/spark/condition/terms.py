"""A condition taken apart: comparisons that may be understood, and what joins them."""

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
    """What a comparison may mean.

    Attributes
    ----------
    spelling : that meaning, spelled so that Spark reads it in one way only.
    exact : gives what pruning may ask, of the comparison or of its opposite (True); raises Doubt.
    literals : what Spark has to be asked for first (see `comparison.resolve`).
    """

    spelling: Spelling
    exact: Callable[[bool], Node]
    literals: Sequence[Any] = ()


@dataclass(eq=False)
class Fragment:
    """One comparison, or whatever else stands for a truth value.

    Attributes
    ----------
    raw : as the caller wrote it.
    text : the same for people.
    readings : what it may mean, the likeliest first; the first one is believed as soon as Spark says that it is one
        and the same, and those that are not are taken away.
    problem : why it is not understood.
    """

    raw: Spelling
    text: str
    readings: list[Reading] = field(default_factory=list)
    problem: str = ""

    @property
    def spelling(self) -> Spelling:
        """The likeliest meaning, or what the caller wrote."""
        return self.readings[0].spelling if self.readings else self.raw


@dataclass(eq=False)
class Junction:
    """Terms joined by AND or OR."""

    kind: type[And] | type[Or]
    children: list[Term]


@dataclass(eq=False)
class Negation:
    """NOT of a term."""

    child: Term


Term = Fragment | Junction | Negation


def join_terms(kind: type[And] | type[Or], children: Sequence[Term]) -> Term:
    """Terms joined by AND or OR; a single one stays as it is."""
    return children[0] if len(children) == 1 else Junction(kind, list(children))


def pieces(term: Term) -> Iterator[Fragment]:
    """The comparisons of a condition, from left to right."""
    if isinstance(term, Junction):
        for child in term.children:
            yield from pieces(child)
    elif isinstance(term, Negation):
        yield from pieces(term.child)
    else:
        yield term


def spell_term(term: Term) -> Spelling:
    """The condition with each comparison as it is understood, or as the caller wrote it where it is not."""
    if isinstance(term, Negation):
        return negated(spell_term(term.child))
    if isinstance(term, Junction):
        return join_spellings([spell_term(child) for child in term.children], term.kind)
    return term.spelling


def as_column(spelling: Spelling) -> Column:
    """A spelling as a Column."""
    return F.expr(spelling) if isinstance(spelling, str) else spelling


def negated(spelling: Spelling) -> Spelling:
    """NOT of a spelling."""
    return f"NOT ({spelling})" if isinstance(spelling, str) else ~spelling


def join_spellings(spellings: Sequence[Spelling], kind: type[Any] = And) -> Spelling:
    """Spellings joined by AND or OR: as text if they all are, which takes one call however many they are."""
    texts = [spelling for spelling in spellings if isinstance(spelling, str)]
    if len(spellings) == 1:
        return spellings[0]
    if len(texts) == len(spellings):
        return (" AND " if kind is And else " OR ").join(f"({text})" for text in texts)
    # No deeper than need be: a message to Spark Connect may not nest deeply.
    middle = len(spellings) // 2
    one, other = (as_column(join_spellings(half, kind)) for half in (spellings[:middle], spellings[middle:]))
    return operator.and_(one, other) if kind is And else operator.or_(one, other)


def derive_predicate(term: Term, exact: Callable[[Fragment, bool], Node | None], opposite: bool = False) -> Node | None:
    """What must be true of a row that matches, as far as it is known; None if nothing is.

    Parameters
    ----------
    exact : gives what must be true where a comparison, or its opposite (True), is; None if nothing is known.
    """
    if isinstance(term, Fragment):
        return exact(term, opposite)
    if isinstance(term, Negation):
        return derive_predicate(term.child, exact, not opposite)
    nodes = [derive_predicate(child, exact, opposite) for child in term.children]
    found = [node for node in nodes if node is not None]
    if (term.kind is And) != opposite:
        return tree.all_of(found) if found else None
    return tree.any_of(found) if len(found) == len(nodes) else None
