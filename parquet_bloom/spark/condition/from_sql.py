"""Parse SQL text into the terms of a condition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...errors import PredicateError
from ...predicate.sql_parser import fold_spark
from ...predicate.tree import Node
from .spark_comparison import (
    PATTERNS,
    Comparison,
    ConditionFragment,
    Junction,
    Literal,
    Negation,
    PatternMatch,
    Reading,
    Term,
)

# Readings of a comparison that our parser understands, of one whose literals only Spark can evaluate, and of a pattern.
ReadNode = Callable[[Node], Iterator[Reading]]
ReadComparison = Callable[[Comparison], Iterator[Reading]]
ReadMatch = Callable[[PatternMatch], Iterator[Reading]]

_WORDS = (
    "CAST|TRY_CAST|AS|TINYINT|BYTE|SMALLINT|SHORT|INT|INTEGER|BIGINT|LONG|FLOAT|REAL|DOUBLE|DECIMAL|DEC|NUMERIC|STRING"
    "|BINARY|BOOLEAN|DATE|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|TRUE|FALSE|NULL"
)
# Literals, and casts and arithmetic over them: no name that could be a column, and only deterministic functions.
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
PATTERN_NAMES = {name: name for name in PATTERNS} | dict.fromkeys(("regexp", "regexp_like"), "rlike")
_PATTERN = r"'(?P<text>[^'\"\\$]*)'"  # which means the same under all of Spark's settings
_MATCHES = [
    re.compile(rf"(?P<name>{_NAME})\s+(?P<function>ILIKE|RLIKE|REGEXP)\s+{_PATTERN}\s*", re.IGNORECASE),
    re.compile(
        rf"(?P<function>{'|'.join(PATTERN_NAMES)})\s*\(\s*(?P<name>{_NAME})\s*,\s*{_PATTERN}\s*\)\s*", re.IGNORECASE
    ),
]


def parse_sql_terms(text: str, read_node: ReadNode, read_comparison: ReadComparison, read_match: ReadMatch) -> Term:
    """Parse a condition in Spark's SQL into terms; what is not understood becomes a fragment without readings.

    Parameters
    ----------
    read_node, read_comparison, read_match : return the readings of a comparison.

    Raises
    ------
    PredicateError
        The connectives of the condition cannot be parsed.
    """

    def parse_fragment(source: str, read: Callable[[], Node]) -> Term:
        fragment = ConditionFragment(source, " ".join(source.split()))
        try:
            fragment.readings += read_node(read())
        except PredicateError as error:
            fragment.problem = error.problem.partition("; supported are")[0]
        comparison = parse_comparison(source)
        if comparison is not None:
            fragment.readings += read_comparison(comparison)
        match = _parse_match(source)
        if match is not None:
            fragment.readings += read_match(match)
        return fragment

    return fold_spark(text, parse_fragment, Negation, Junction)


def parse_comparison(text: str) -> Comparison | None:
    """Parse a comparison of a column with literals or casts of literals; return None for any other text."""
    for form in _FORMS:
        match = form.fullmatch(text.strip())
        if match is None:
            continue
        operator = _OPERATORS.get(match["operator"].lower(), match["operator"].lower())
        if form is _FORMS[1]:
            operator = _SWAPPED.get(operator, operator)
        values = _split_values(match["values"], operator)
        if all(_FOLDABLE.fullmatch(value) for value in values):
            return Comparison(operator, unquote_name(match["name"]), list(map(_make_literal, values)))
    return None


def _parse_match(text: str) -> PatternMatch | None:
    """Parse a match of a column with a literal pattern that has no escapes; return None for any other text."""
    match = next(filter(None, (form.fullmatch(text.strip()) for form in _MATCHES)), None)
    if match is None:
        return None
    return PatternMatch(PATTERN_NAMES[match["function"].lower()], unquote_name(match["name"]), match["text"])


def _make_literal(text: str) -> Literal:
    return Literal(text.strip(), texts=[quoted[1:-1] for quoted in _TEXT.findall(text)])


def unquote_name(name: str) -> str:
    """Convert a name in SQL to a dotted name without backticks."""
    return ".".join(part[1] or part[0] for part in _PART.finditer(name))


def _split_values(text: str, operator: str) -> list[str]:
    """Split a list of values at the commas (of BETWEEN: at AND) outside of strings and brackets."""
    if operator not in _SPLIT:
        return [text]
    masked = _TEXT.sub(lambda match: "_" * len(match[0]), text)
    values, depth, start = [], 0, 0
    separators = {match.start(): match.end() for match in _SPLIT[operator].finditer(masked)}
    for position, character in enumerate(masked):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position in separators:
            values.append(text[start:position])
            start = separators[position]
    return [*values, text[start:]]
