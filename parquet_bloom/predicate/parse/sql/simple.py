"""Parse the simplest conditions without sqlglot, whose import alone takes longer than most queries.

A condition is simple if it consists of comparisons of one column with literals and of the functions of lists, joined
by AND, OR, NOT and parentheses, in the default dialect. Of all others `parse_simple` returns None, and so for whatever
is unusual, or an error: `parser` decides on them. For simple ones both return the same tree.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ....errors import PredicateError
from ... import literal
from ...tree import And, Compare, Contains, Equal, In, IsNull, Node, NotEqual, all_of, any_of, negation

# What follows a token must not continue it: `1L`, `'a' 'b'` and `x'AB'` mean other things, or nothing.
_TOKEN = re.compile(
    r"""
    [ \t\r\n]*
    (?:
      (?P<text> '(?:[^'\\\x00]|'')*' (?![\w'"`$@#]) )
    | (?P<number> [0-9]+ (?:\.[0-9]+)? (?:[eE][+-]?[0-9]+)? (?![\w.'"`$@#]) )
    | (?P<name>
        (?: [A-Za-z_][A-Za-z0-9_]* | "[\w .+-]+" | `[\w .+-]+` )
        (?: \. (?: [A-Za-z_][A-Za-z0-9_]* | "[\w .+-]+" | `[\w .+-]+` ) )*
        (?! [\w.'"`$@#] )
      )
    | (?P<operator> (?: = | == | <> | != | < | <= | > | >= ) (?![=<>!~@&|#*/%^?:]) )
    | (?P<sign> [][(),-] )
    | (?P<end> \Z )
    )
    """,
    re.VERBOSE | re.ASCII,
)
_PART = re.compile(r'"([^"]+)"|`([^`]+)`|([^."`]+)')
_OPERATORS = {"==": "=", "!=": "<>"}

# Words that sqlglot does not take for a name everywhere, unless they are quoted.
_RESERVED_WORDS = """
    ALTER AND ANY ARRAY AS BETWEEN CALL CASE CONNECT_BY_ROOT CREATE CROSS CURRENT_CATALOG CURRENT_DATE CURRENT_TIME
    CURRENT_TIMESTAMP CURRENT_USER DATE DISTINCT DROP ELSE END EXCEPT EXECUTE EXISTS EXPLAIN FALSE FETCH FOR FROM GLOB
    GRANT HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LIKE LIST LOCALTIME LOCALTIMESTAMP MAP
    NOT NOTNULL NULL NULLABLE OBJECT ON OPTIMIZE OR OUTER PARTITIONED_BY PREPARE QUALIFY RANGE REGEXP RENAME RETURNING
    REVOKE RLIKE ROLLBACK SELECT SESSION_USER SHOW STRAIGHT_JOIN STRUCT TABLESAMPLE THEN TIMESTAMP TRUE UNCACHE UNION
    USING VACUUM WHEN WHERE WITH XOR
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}
_TYPED = {"DATE": "date", "TIMESTAMP": "timestamp", "UUID": "uuid"}

# Functions of a list column and a literal, or an array of literals of which any or all are to be contained. They are
# what `lists` knows by sqlglot's names.
_OF_ONE = frozenset({"ARRAY_CONTAINS", "LIST_CONTAINS", "LIST_HAS", "ARRAY_HAS"})
_OF_MANY = {
    "ARRAYS_OVERLAP": any_of,
    "LIST_HAS_ANY": any_of,
    "ARRAY_HAS_ANY": any_of,
    "LIST_HAS_ALL": all_of,
    "ARRAY_HAS_ALL": all_of,
}
_DEEPEST = 50  # parentheses within parentheses

_Token: TypeAlias = tuple[str, str]  # kind and text


class _NotSimpleError(Exception):
    """The condition is not simple."""


def parse_simple(text: str) -> Node | None:
    """Parse a condition of the default dialect if it is simple; return None for others."""
    try:
        return _Parser(_split(text)).parse()
    except (_NotSimpleError, PredicateError):  # whose messages name the part of the text
        return None


def _split(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _NotSimpleError
        kind = match.lastgroup
        assert kind is not None
        tokens.append((kind, match[kind]))
        if kind == "end":
            return tokens
        position = match.end()


class _Parser:
    """Reads comparisons from tokens, of which the last one is the end."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._read_condition()
        self._require(self._tokens[self._index][0] == "end")
        return node

    def _read_condition(self) -> Node:
        terms = [[self._read_term()]]  # joined by OR, each a list joined by AND
        while True:
            if self._take_word("AND"):
                terms[-1].append(self._read_term())
            elif self._take_word("OR"):
                terms.append([self._read_term()])
            else:
                return any_of([all_of(term) for term in terms])

    def _read_term(self) -> Node:
        is_negated = self._take_word("NOT")
        if self._take_sign("("):
            self._depth += 1
            self._require(self._depth <= _DEEPEST)
            node = self._read_condition()
            self._require(self._take_sign(")"))
            self._depth -= 1
        else:
            node = self._read_comparison()
        return negation(node) if is_negated else node

    def _next(self) -> _Token:
        token = self._tokens[self._index]
        self._index += 1  # the end is never passed: what reads it raises
        return token

    def _take_word(self, word: str) -> bool:
        kind, text = self._tokens[self._index]
        taken = kind == "name" and text.upper() == word
        self._index += taken
        return taken

    def _take_sign(self, sign: str) -> bool:
        taken = self._tokens[self._index] == ("sign", sign)
        self._index += taken
        return taken

    def _require(self, taken: bool) -> None:
        if not taken:
            raise _NotSimpleError

    def _read_comparison(self) -> Node:
        if self._tokens[self._index + 1 : self._index + 2] == [("sign", "(")]:
            return self._read_function()
        column = self._read_column()
        kind, text = self._tokens[self._index]
        if kind == "operator":
            self._index += 1
            return _compare(column, _OPERATORS.get(text, text), self._read_literal())
        if self._take_word("IS"):
            is_negated = self._take_word("NOT")
            self._require(self._take_word("NULL"))
            node: Node = IsNull(column)
        else:
            is_negated = self._take_word("NOT")
            if self._take_word("IN"):
                node = self._read_list(column)
            else:
                self._require(self._take_word("BETWEEN"))
                low = self._read_literal()
                self._require(self._take_word("AND"))
                node = And((Compare(column, ">=", low), Compare(column, "<=", self._read_literal())))
        return negation(node) if is_negated else node

    def _read_function(self) -> Node:
        kind, name = self._next()
        self._require(kind == "name")
        name = name.upper()
        self._require(self._take_sign("("))
        column = self._read_column()
        self._require(self._take_sign(","))
        if name in _OF_ONE:
            node: Node = Contains(column, self._read_literal())
        else:
            self._require(name in _OF_MANY)
            is_named = self._take_word("ARRAY")
            closing = ")" if is_named and self._take_sign("(") else "]"
            self._require(closing == ")" or self._take_sign("["))
            values = self._read_literals(closing)
            self._require(len(values) == 1 or None not in values)
            node = _OF_MANY[name]([Contains(column, value) for value in values])
        self._require(self._take_sign(")"))
        return node

    def _read_column(self) -> str:
        kind, text = self._next()
        self._require(kind == "name")
        if text.isidentifier():  # the most common case
            self._require(text.upper() not in _RESERVED)
            return text
        parts = []
        for match in _PART.finditer(text):
            if match[3] is not None:
                self._require(match[3].upper() not in _RESERVED)
            parts.append(match[match.lastindex or 0])
        return ".".join(parts)

    def _read_list(self, column: str) -> Node:
        self._require(self._take_sign("("))
        return In(column, tuple(self._read_literals(")")))

    def _read_literals(self, closing: str) -> list[literal.Literal]:
        values = [self._read_literal()]
        while self._take_sign(","):
            values.append(self._read_literal())
        self._require(self._take_sign(closing))
        return values

    def _read_literal(self) -> literal.Literal:
        kind, text = self._next()
        if kind == "number":
            return literal.parse_number(text)
        if kind == "text":
            return _unquote(text)
        if kind == "sign":
            self._require(text == "-")
            kind, text = self._next()
            self._require(kind == "number")
            return literal.parse_number(text, negative=True)
        self._require(kind == "name")
        word = text.upper()
        if word in _WORDS:
            return _WORDS[word]
        typed = _TYPED.get(word)
        if typed is not None:
            kind, text = self._next()
            self._require(kind == "text")
            return literal.parse_typed(typed, _unquote(text))
        raise _NotSimpleError


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _compare(column: str, operator: str, value: literal.Literal) -> Node:
    if operator == "=":
        return Equal(column, value)
    if operator == "<>":
        return NotEqual(column, value)
    return Compare(column, operator, value)
