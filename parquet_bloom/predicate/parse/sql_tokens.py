"""Tokens of a condition, split at NOT, AND, OR and their parentheses.

sqlglot's tokenizer skips whatever it takes for comments, and changes literals and names by the rules of its dialect. So
its tokens are compared with the source text: a literal or name is accepted only if both agree. The text is split here,
without recursion, because sqlglot's parser recurses into each parenthesis.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...errors import PredicateError
from ...errors import shortened as cut
from ..tree import Node

if TYPE_CHECKING:
    from sqlglot import Token
    from sqlglot.dialects.dialect import Dialect

T = TypeVar("T")

_parsing: ContextVar[bool] = ContextVar("parsing", default=False)

_SHOWN = 60

# Allowed between two tokens: white space and comments, except hints and version-dependent or nested comments.
_BETWEEN = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?![!+])(?:(?!/\*).)*?\*/)*", re.DOTALL)
_HEX = re.compile(r"[xX]'[0-9a-fA-F]*'")
_QUOTED = {'"': '"', "`": "`", "[": "]"}
_BACKSLASHED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class Builder(Generic[T]):
    """Functions that build a result from a condition, from its comparisons up.

    Attributes
    ----------
    comparison : takes the text of a comparison, and a function that parses it or raises PredicateError.
    negation, all_of, any_of : take the results of the parts; lists may have one item.
    """

    comparison: Callable[[str, Callable[[], Node]], T]
    negation: Callable[[T], T]
    all_of: Callable[[list[T]], T]
    any_of: Callable[[list[T]], T]


def find_dialect(name: str | None) -> Dialect:
    """Return a dialect by sqlglot's name; None for the default one, see `parser`.

    Raises
    ------
    PredicateError
        There is no such dialect, or sqlglot is not installed.
    """
    try:
        from sqlglot.dialects.dialect import Dialect
    except ImportError:
        raise PredicateError("SQL text needs sqlglot, which is not installed; filters may be given as a list") from None
    logging.getLogger("sqlglot").addFilter(_is_not_ours)
    if name is None:
        return _default_dialect()
    try:
        return Dialect.get_or_raise(name)
    except Exception:
        raise PredicateError(f"sqlglot knows no SQL dialect {name!r}") from None


def _is_not_ours(record: logging.LogRecord) -> bool:
    return not _parsing.get()


_EXACT_CASTS = {"ParquetBloom", "DuckDB", "Spark", "Databricks", "Postgres", "Trino", "Athena"}
"""Classes of dialects in which a CAST AS VARCHAR neither cuts texts nor has texts of values of its own."""


@lru_cache(maxsize=1)
def _default_dialect() -> Dialect:
    from sqlglot import tokens
    from sqlglot.dialects.dialect import Dialect

    class ParquetBloom(Dialect):
        """The default dialect, which is not that of a particular engine."""

        class Tokenizer(tokens.Tokenizer):
            QUOTES = ["'"]  # noqa: RUF012 - declared in sqlglot
            STRING_ESCAPES = ["'"]  # noqa: RUF012
            IDENTIFIERS = ['"', "`"]  # noqa: RUF012
            HEX_STRINGS = [("X'", "'"), ("x'", "'")]  # noqa: RUF012

    return ParquetBloom()


@contextmanager
def silence_sqlglot() -> Iterator[None]:
    """Keep sqlglot from logging texts that it cannot parse: they are raised as errors instead."""
    token = _parsing.set(True)
    try:
        yield
    finally:
        _parsing.reset(token)


class SqlText:
    """The tokens of one condition.

    Attributes
    ----------
    text : the condition.
    tokens : sqlglot's.
    types, exp, parser : sqlglot's kinds of tokens, its expressions, and the dialect's parser.
    backslash : whether a backslash escapes in texts.
    casts_exactly : whether it is a dialect whose VARCHAR has no limit, and whose texts of values are those of others.
    changed : problems of tokens that differ from their source, by index.
    closing : index of each opening bracket -> index of its closing bracket.

    Raises
    ------
    PredicateError
        Quotes, comments or parentheses do not match.
    """

    def __init__(self, text: str, dialect: Dialect) -> None:
        from sqlglot import ErrorLevel, TokenType, exp

        if not isinstance(text, str) or not text.strip():
            raise PredicateError("the condition is empty" if isinstance(text, str) else "the condition is not a text")
        self.text = text
        self.exp = exp
        self.types = TokenType
        self.parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        self.casts_exactly = type(dialect).__name__ in _EXACT_CASTS
        self.backslash = "\\" in dialect.tokenizer_class.STRING_ESCAPES
        try:
            self.tokens: list[Token] = dialect.tokenize(text)
        except Exception:
            raise PredicateError(
                f"{shorten(text)}: a quote or comment is not closed, or a character is not allowed in SQL"
            ) from None
        # Other connectives of a dialect, such as MySQL's XOR, stay within a comparison, where they are rejected.
        operators: dict[Any, Any] = {**self.parser.CONJUNCTION, **self.parser.DISJUNCTION}
        self.connectives = {kind: node for kind, node in operators.items() if node in (exp.And, exp.Or)}
        self.changed: dict[int, str] = {}
        self._check_source()
        self.closing = self._match_brackets()

    def piece(self, start: int, stop: int) -> str:
        """Return the source of some tokens, for messages."""
        return shorten(self.text[self.tokens[start].start : self.tokens[stop - 1].end + 1])

    def _check_source(self) -> None:
        """Reject what sqlglot skipped in the text; record the literals and names that it changed."""
        position, text, types = 0, self.text, self.types
        for index, token in enumerate(self.tokens):
            start, end = token.start, token.end + 1
            if start < position:
                self.changed[index] = f"{shorten(text[start:end])}: a suffix or form of literals that is not supported"
                continue
            between = text[position:start]
            if between not in ("", " "):
                self._check_between(between)
            position = end
            kind = token.token_type
            if kind == types.NUMBER:
                faithful = text[start:end] == token.text
            elif kind == types.STRING:
                faithful = self._unquote(text[start:end]) == token.text
            elif kind == types.IDENTIFIER:
                source = text[start:end]
                close = _QUOTED.get(source[0], "")
                faithful = bool(close) and source[-1] == close and source[1:-1].replace(close * 2, close) == token.text
            elif kind == types.HEX_STRING:
                faithful = bool(_HEX.fullmatch(text[start:end]))
            elif kind == types.SEMICOLON:
                raise PredicateError(f"{shorten(text)}: one condition is expected, without ';'")
            else:
                continue
            if not faithful:
                self.changed[index] = f"{shorten(text[start:end])}: this form of a literal or name is not supported"
        self._check_between(text[position:])
        if not self.tokens:
            raise PredicateError("the condition is empty")

    def _check_between(self, text: str) -> None:
        if not _BETWEEN.fullmatch(text):
            raise PredicateError(f"{shorten(text)}: comments of this form are not supported")

    def _unquote(self, source: str) -> str | None:
        """Return the value of a quoted string; None if it is ambiguous."""
        quote = source[0]
        if quote not in "'\"" or len(source) < 2 or source[-1] != quote:
            return None
        inner = source[1:-1]
        if not self.backslash or "\\" not in inner:
            return inner.replace(quote * 2, quote)
        parts, position = [], 0
        while position < len(inner):
            sign, following = inner[position], inner[position + 1 : position + 2]
            if sign == "\\" or sign == quote:
                character = _BACKSLASHED.get(following) if sign == "\\" else following if following == quote else None
                if character is None:
                    return None
                parts.append(character)
                position += 2
            else:
                parts.append(sign)
                position += 1
        return "".join(parts)

    def _match_brackets(self) -> dict[int, int]:
        """Return the index of the closing bracket of each opening one."""
        types = self.types
        partners = {
            types.R_PAREN: types.L_PAREN,
            types.R_BRACKET: types.L_BRACKET,
            types.R_BRACE: types.L_BRACE,
        }
        closing: dict[int, int] = {}
        opened: list[int] = []
        for index, token in enumerate(self.tokens):
            kind = token.token_type
            if kind in partners.values():
                opened.append(index)
            elif kind in partners:
                if not opened or self.tokens[opened[-1]].token_type != partners[kind]:
                    raise PredicateError(f"{shorten(self.text)}: a {token.text!r} without a matching opening bracket")
                closing[opened.pop()] = index
        if opened:
            raise PredicateError(f"{shorten(self.text)}: a {self.tokens[opened[-1]].text!r} is not closed")
        return closing

    def fold(self, builder: Builder[T], read: Callable[[int, int], Node]) -> T:
        """Split at the connectives; NOT binds tighter than AND, AND tighter than OR.

        Parameters
        ----------
        builder : receives the comparisons and the connectives.
        read : parses the comparison of the tokens from start to stop.
        """
        types = self.types
        open_groups: list[tuple[list[list[T]], bool]] = []  # with whether the group is negated
        group: list[list[T]] = [[]]  # terms joined by OR, each a list of terms joined by AND
        index = 0
        while True:
            negated = False
            while True:
                if index < len(self.tokens) and self.tokens[index].token_type == types.NOT:
                    if self.tokens[index].text.upper() != "NOT":  # `!` binds in more than one way
                        raise PredicateError(f"{shorten(self.text)}: NOT is written {self.tokens[index].text!r}")
                    negated = not negated
                elif self._opens_group(index):
                    open_groups.append((group, negated))
                    group, negated = [[]], False
                else:
                    break
                index += 1
            stop = self._find_comparison_end(index)
            if stop == index:
                where = f"before {self.tokens[index].text!r}" if index < len(self.tokens) else "at the end"
                raise PredicateError(f"{shorten(self.text)}: a condition is missing {where}")
            source = self.text[self.tokens[index].start : self.tokens[stop - 1].end + 1]
            comparison = builder.comparison(source, partial(read, index, stop))
            group[-1].append(builder.negation(comparison) if negated else comparison)
            index = stop
            while index < len(self.tokens) and self.tokens[index].token_type == types.R_PAREN:
                result = builder.any_of([builder.all_of(term) for term in group])
                group, negated = open_groups.pop()
                group[-1].append(builder.negation(result) if negated else result)
                index += 1
            if index == len(self.tokens):
                return builder.any_of([builder.all_of(term) for term in group])
            if self.connectives[self.tokens[index].token_type] is self.exp.Or:
                group.append([])
            index += 1

    def _opens_group(self, index: int) -> bool:
        """Return whether the token opens a parenthesis around conditions, not around an operand as in `(a) = 1`."""
        if index >= len(self.tokens) or self.tokens[index].token_type != self.types.L_PAREN:
            return False
        after = self.closing[index] + 1
        if after == len(self.tokens):
            return True
        kind = self.tokens[after].token_type
        return kind == self.types.R_PAREN or kind in self.connectives

    def _find_comparison_end(self, index: int) -> int:
        types = self.types
        betweens = cases = 0
        while index < len(self.tokens):
            kind = self.tokens[index].token_type
            if index in self.closing:
                index = self.closing[index]
            elif kind == types.R_PAREN:
                break
            elif kind in self.connectives and not cases:
                if not betweens or self.connectives[kind] is not self.exp.And:
                    break
                betweens -= 1
            elif kind == types.BETWEEN:
                betweens += 1
            elif kind == types.CASE:
                cases += 1
            elif kind == types.END and cases:
                cases -= 1
            index += 1
        return index

    # -------------------------------------------------------------------------------------------------- comparisons


def shorten(text: str) -> str:
    """Shorten a part of a condition for messages."""
    return cut(" ".join(text.split()), _SHOWN)
