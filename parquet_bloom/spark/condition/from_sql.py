"""SQL text -> the terms of a condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...errors import PredicateError
from ...predicate.parse.sql.parser import fold_sql
from ...predicate.parse.sql.tokens import Builder
from ...predicate.tree import And, Node, Or
from .comparison import Comparison, Literal
from .terms import Fragment, Negation, Reading, Term, join_terms

# Readings of a comparison that was understood, and of one whose literals only Spark can tell.
OfNode = Callable[[Node], Iterator[Reading]]
OfComparison = Callable[[Comparison], Iterator[Reading]]

_WORDS = (
    "CAST|TRY_CAST|AS|TINYINT|BYTE|SMALLINT|SHORT|INT|INTEGER|BIGINT|LONG|FLOAT|REAL|DOUBLE|DECIMAL|DEC|NUMERIC|STRING"
    "|BINARY|BOOLEAN|DATE|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|TRUE|FALSE|NULL"
)
# Literals, and casts and arithmetic over them: no name that could be a column, no function that could change its mind.
_ITEM = rf"(?:\s|'[^'\"\\$]*'|\b(?:{_WORDS})\b|\.?\b[0-9][0-9a-zA-Z.]*|[-+*/%]|::|\|\||[(),])"
_FOLDABLE = re.compile(rf"{_ITEM}+", re.IGNORECASE)
_NAME = r"(?:[^\W\d]\w*|`[^`$]+`)(?:\s*\.\s*(?:[^\W\d]\w*|`[^`$]+`))*"
_FORMS = [
    re.compile(rf"(?P<name>{_NAME})\s*(?P<operator>=|==|<=>|<|<=|>|>=)\s*(?P<values>[^=<>].*)", re.DOTALL),
    re.compile(rf"(?P<values>.*[^=<>])(?P<operator>=|==|<=>|<|<=|>|>=)\s*(?P<name>{_NAME})\s*", re.DOTALL),
    re.compile(rf"(?P<name>{_NAME})\s+(?P<operator>IN)\s*\((?P<values>.*)\)\s*", re.DOTALL | re.IGNORECASE),
    re.compile(rf"(?P<name>{_NAME})\s+(?P<operator>BETWEEN)\b(?P<values>.*)", re.DOTALL | re.IGNORECASE),
    re.compile(
        rf"(?P<operator>ARRAY_CONTAINS)\s*\(\s*(?P<name>{_NAME})\s*,(?P<values>.*)\)\s*", re.DOTALL | re.IGNORECASE
    ),
]
_SPLIT = {"in": re.compile(","), "between": re.compile(r"\bAND\b", re.IGNORECASE)}
_TEXT = re.compile(r"'[^']*'")
_PART = re.compile(r"`([^`]+)`|[^.\s`]+")
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS = {"==": "=", "array_contains": "contains"}


def sql_terms(text: str, of_node: OfNode, of_comparison: OfComparison) -> Term:
    """The terms of a condition in Spark's SQL; what is not understood is a piece without readings.

    Raises
    ------
    PredicateError
        Not even its connectives are understood.
    """

    def piece(source: str, read: Callable[[], Node]) -> Term:
        found = Fragment(source, " ".join(source.split()))
        try:
            found.readings += of_node(read())
        except PredicateError as error:
            found.problem = error.problem.partition("; supported are")[0]
        comparison = parse_comparison(source)
        if comparison is not None:
            found.readings += of_comparison(comparison)
        return found

    builder: Builder[Term] = Builder(
        piece, Negation, lambda terms: join_terms(And, terms), lambda terms: join_terms(Or, terms)
    )
    return fold_sql(text, "spark", builder)


def parse_comparison(text: str) -> Comparison | None:
    """A column against literals or casts of literals, as SQL text; None if it is anything else."""
    for form in _FORMS:
        found = form.fullmatch(text.strip())
        if found is None:
            continue
        operator = _OPERATORS.get(found["operator"].lower(), found["operator"].lower())
        if form is _FORMS[1]:
            operator = _SWAPPED.get(operator, operator)
        values = _split(found["values"], operator)
        if all(_FOLDABLE.fullmatch(value) for value in values):
            return Comparison(operator, dotted(found["name"]), list(map(_literal, values)))
    return None


def _literal(text: str) -> Literal:
    return Literal(text.strip(), texts=[found[1:-1] for found in _TEXT.findall(text)])


def dotted(name: str) -> str:
    """A name in SQL as a dotted one, without backticks."""
    return ".".join(part[1] or part[0] for part in _PART.finditer(name))


def _split(text: str, operator: str) -> list[str]:
    """The values of a list, which stand between commas that are within no text or brackets."""
    if operator not in _SPLIT:
        return [text]
    blank = _TEXT.sub(lambda found: "_" * len(found[0]), text)
    values, depth, start = [], 0, 0
    cuts = {found.start(): found.end() for found in _SPLIT[operator].finditer(blank)}
    for position, sign in enumerate(blank):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and position in cuts:
            values.append(text[start:position])
            start = cuts[position]
    return [*values, text[start:]]
