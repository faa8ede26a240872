"""Tokens of a condition in SQL, split at NOT, AND, OR and their parentheses without recursion.

There are two dialects. In the default one, names are unquoted or in double quotes or backticks, texts in single quotes,
a quote within is doubled, and a backslash is an ordinary character. In Spark's, texts are in single or double quotes
with backslash escapes, and names in backticks. Every text has tokens: those that the grammar does not know are refused
where a comparison is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import TypeAlias, TypeVar

from ..errors import PredicateError
from ..errors import shortened as cut
from .tree import And, Or

T = TypeVar("T")
Kind: TypeAlias = type[And] | type[Or]

_SHOWN = 60  # characters of a condition in messages

# White space and comments, except hints and version-dependent or nested comments.
_BLANK = r"\s*(?:(?:--[^\r\n]*|/\*(?![!+])[^*/]*(?:(?:\*(?!/)|/(?!\*))[^*/]*)*\*/)\s*)*"
_SPACE = r"\s*"
_WORD = r"[^\W\d]\w*"
_NUMBER = r"\.?[0-9][\w.]*(?:(?<=[eE])[+-][0-9]\w*)?"
_OPERATOR = r"[=<>!~@&|#^?:%]+"
_DOUBLED = "{0}[^{0}]*(?:{0}{0}[^{0}]*)*{0}?"
_ESCAPED = r"{0}[^{0}\\]*(?:\\.?[^{0}\\]*)*{0}?"
_RAW = "[rR]{0}[^{0}]*{0}?"
_HEXADECIMAL = "[xX]'[^']*'?"

_ESCAPE = r"(?s)\\(.)"
_BACKSLASHED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_PARTNERS = {")": "(", "]": "[", "}": "{"}
_OPENING = frozenset(_PARTNERS.values())
ENDS = frozenset({"AND", "OR", ")", ""})
"""What a comparison ends before."""


@cache
def _compile(spark: bool, comments: bool) -> re.Pattern[str]:
    """Return the pattern of a token, which is its group; an empty one ends the text.

    A quote that is not closed takes the rest of the text. So reading all tokens takes linear time.
    """
    doubled = [_DOUBLED.format(quote) for quote in ("`" if spark else "'\"`")]
    others = [form.format(quote) for quote in "'\"" for form in (_ESCAPED, _RAW)] if spark else []
    tokens = [_HEXADECIMAL, *others, *doubled, _WORD, _NUMBER, _OPERATOR, r"\Z", "."]
    return re.compile(f"{_BLANK if comments else _SPACE}({'|'.join(tokens)})", re.DOTALL)


class SqlText:
    """The tokens of one condition.

    Attributes
    ----------
    text : the condition.
    spark : whether it is in Spark's dialect.
    tokens : their texts; the last ones are empty.

    Raises
    ------
    PredicateError
        There is nothing but white space and comments.
    """

    def __init__(self, text: str, spark: bool = False) -> None:
        self.text = text
        self.spark = spark
        self._is_checked = False
        self._pattern = _compile(spark, "--" in text or "/*" in text)
        self.tokens: list[str] = self._pattern.findall(text)
        self.tokens.append("")  # two ends, so that each token has a following one
        if not self.tokens[0]:
            raise PredicateError("the condition is empty")

    def check(self) -> None:
        """Raise PredicateError if a quote, comment or bracket is not closed, or if a statement ends."""
        if self._is_checked:
            return
        tokens = self.tokens
        if not _is_closed(tokens[tokens.index("") - 1], self.spark):
            raise PredicateError(f"{shorten(self.text)}: a quote is not closed")
        if any(token == "/" and tokens[index + 1] == "*" for index, token in enumerate(tokens)):
            raise PredicateError(f"{shorten(self.text)}: a comment is not closed, or of a form that is not supported")
        if ";" in tokens:
            raise PredicateError(f"{shorten(self.text)}: one condition is expected, without ';'")
        _ = self._closing
        self._is_checked = True

    @cached_property
    def _closing(self) -> dict[int, int]:
        """The index of the closing bracket of each opening one; raises PredicateError if they do not match."""
        closing: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            if token in _OPENING:
                opened.append(index)
            elif token in _PARTNERS:
                if not opened or self.tokens[opened[-1]] != _PARTNERS[token]:
                    raise PredicateError(f"{shorten(self.text)}: a {token!r} without a matching opening bracket")
                closing[opened.pop()] = index
        if opened:
            raise PredicateError(f"{shorten(self.text)}: a {self.tokens[opened[-1]]!r} is not closed")
        return closing

    @cached_property
    def _spans(self) -> Sequence[tuple[int, int]]:
        return [match.span(1) for match in self._pattern.finditer(self.text)]

    def piece(self, start: int, stop: int) -> str:
        """Return the source of the tokens from start to stop."""
        return self.text[self._spans[start][0] : self._spans[stop - 1][1]]

    def place(self, index: int) -> str:
        """Return where a token is, for messages."""
        token = self.tokens[index]
        return f"at {shorten(token)!r} (character {self._spans[index][0] + 1:,})" if token else "at the end"

    def fold(
        self,
        comparison: Callable[[int], tuple[T, int]],
        negation: Callable[[T], T],
        join: Callable[[Kind, list[T]], T],
    ) -> T:
        """Split at the connectives; NOT binds tighter than AND, AND tighter than OR.

        Parameters
        ----------
        comparison : reads the comparison from a token on; returns its result and the index of the token after it, which
            is a connective, a closing parenthesis or the end.
        negation : of a result.
        join : joins two or more results.

        Raises
        ------
        PredicateError
            A comparison is missing, or parentheses do not match.
        """
        tokens = self.tokens
        opened: list[tuple[list[T], list[T], bool]] = []
        alternatives: list[T] = []  # joined by OR
        terms: list[T] = []  # the last alternative so far, joined by AND
        index = 0

        def close() -> T:
            last = terms[0] if len(terms) == 1 else join(And, terms)
            return join(Or, [*alternatives, last]) if alternatives else last

        while True:
            is_negated = False
            while True:
                token = tokens[index]
                word = token.upper()
                if word == "NOT":
                    is_negated = not is_negated
                elif word == "(" and self._opens_group(index):
                    opened.append((alternatives, terms, is_negated))
                    alternatives, terms, is_negated = [], [], False
                else:
                    break
                index += 1
            if word in ENDS:
                where = f"before {token!r}" if token else "at the end"
                raise PredicateError(f"{shorten(self.text)}: a condition is missing {where}")
            result, index = comparison(index)
            terms.append(negation(result) if is_negated else result)
            while tokens[index] == ")" and opened:
                result = close()
                alternatives, terms, is_negated = opened.pop()
                terms.append(negation(result) if is_negated else result)
                index += 1
            word = tokens[index].upper()
            if word == "OR":
                alternatives.append(terms[0] if len(terms) == 1 else join(And, terms))
                terms = []
            elif word != "AND":
                if word:
                    self.check()
                return close()
            index += 1

    def find_end(self, index: int) -> int:
        """Return the index of the token that ends the comparison which begins at a token."""
        betweens = cases = 0
        while True:
            word = self.tokens[index].upper()
            if word == ".":  # what follows is a part of a name
                index += 1
            elif word in _OPENING:
                index = self._closing[index]
            elif word in ENDS and (not cases or word in (")", "")):
                if not betweens or word != "AND":
                    return index
                betweens -= 1
            elif word == "BETWEEN":
                betweens += 1
            elif word == "CASE" and self.tokens[index + 1] != ".":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            index += 1

    def _opens_group(self, index: int) -> bool:
        """Return whether a parenthesis is around conditions, not around an operand as in `(a) = 1`."""
        return self.tokens[self._closing[index] + 1].upper() in ENDS


def shorten(text: str) -> str:
    """Shorten a part of a condition for messages."""
    return cut(" ".join(text.split()), _SHOWN)


def _is_closed(token: str, escapes: bool) -> bool:
    """Return whether the quote of a token, if it has one, is closed."""
    quote = token[0] if token[0] in "'\"`" else token[1:2]
    if escapes and token[0] in "'\"":
        token = re.sub(_ESCAPE, "", token)
    return quote not in ("'", '"', "`") or token.count(quote) % 2 == 0


def unquote(token: str, escapes: bool = False) -> str:
    """Return the value of a text or name in quotes.

    Parameters
    ----------
    token : the text as it is in the source.
    escapes : whether a backslash escapes, and a quote is not doubled.

    Raises
    ------
    PredicateError
        It has an escape that means different things to engines, or is not closed.
    """
    quote, inner = token[0], token[1:-1]
    sign = "\\" if escapes else quote
    if quote in "'\"`" and len(token) > 1 and token[-1] == quote:
        if sign not in inner:
            return inner
        if not escapes and quote not in inner.replace(quote * 2, ""):
            return inner.replace(quote * 2, quote)
        if escapes and _is_closed(token, escapes) and _BACKSLASHED.keys() >= {*re.findall(_ESCAPE, inner)}:
            return re.sub(_ESCAPE, lambda match: _BACKSLASHED[match[1]], inner)
    raise PredicateError(f"this form of a text or name is not supported: {shorten(token)}")
