"""Parse a WHERE condition in SQL: the simplest ones without sqlglot, whose import takes longer than most queries.

A condition is simple if it consists of comparisons of one column with literals and of the functions of lists, joined
by AND, OR, NOT and parentheses, in the default dialect. Of all others `parse_simple` returns None, and so for whatever
is unusual, or an error: `parser` decides on them. For simple ones both return the same tree.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ...errors import PredicateError
from .. import literal
from ..tree import And, Compare, Contains, Equal, In, IsNull, Node, NotEqual, all_of, any_of, negation

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
_EQUALITIES = {"=": Equal, "==": Equal, "<>": NotEqual, "!=": NotEqual}

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


def parse_sql(text: str, dialect: str | None = None) -> Node:
    """Parse the condition of a WHERE clause.

    Supported are `=`, `==`, `<=>` (IS NOT DISTINCT FROM), `<>`, `!=`, `<`, `<=`, `>` and `>=` between a column and a
    literal, in either order; `[NOT] BETWEEN`, `[NOT] IN (...)`, `IS [NOT] NULL`; `array_contains(column, literal)` of
    lists, also by its names in other engines (`list_contains`, `array_has`, `literal = ANY(column)`), and for several
    literals `arrays_overlap`, `list_has_any` and `list_has_all`; NOT, AND, OR and parentheses; struct leaves as dotted
    names; `lower(column)`, `upper(column)` and `CAST(column AS VARCHAR)` (or STRING, or TEXT) in place of a column,
    with `=`, `<>`, `IN` and `IS NULL`; whole numbers of any size, `1.50` (a Decimal), `1e3` (a float),
    `'text'`, TRUE, FALSE, NULL, `X'AB'` (bytes), and DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NTZ, UUID and
    DOUBLE before a text, after it with `::`, or in a CAST of one. The text of a timestamp may end in a UTC offset or
    the name of a time zone. Comments are skipped.

    Parameters
    ----------
    text : the condition.
    dialect : name of a dialect that sqlglot knows, such as "spark" (where double quotes enclose strings); None for
        the default dialect of this module.

    Raises
    ------
    PredicateError
        A part of the text is not supported; the message names it.
    """
    simple = parse_simple(text) if dialect is None and isinstance(text, str) else None
    if simple is not None:
        return simple
    from .sql_parser import (  # not at the top: few conditions need it
        TREE,
        fold_sql,
    )

    return fold_sql(text, dialect, TREE)


def parse_simple(text: str) -> Node | None:
    """Parse a condition of the default dialect if it is simple; return None for others."""
    try:
        parser = _Parser(text)
        node = parser.read_condition()
        parser.read("end")
    except (_NotSimpleError, PredicateError):  # whose messages name the part of the text
        return None
    return node


class _Parser:
    """Reads comparisons from the tokens of a condition, of which the last one is its end."""

    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        self._index = 0
        self._depth = 0
        position, kind = 0, ""
        while kind != "end":
            match = _TOKEN.match(text, position)
            if match is None:
                raise _NotSimpleError
            kind, position = match.lastgroup or "", match.end()
            self._tokens.append((kind, match[kind]))

    def read(self, kind: str) -> str:
        """Return the text of the next token, which is of this kind."""
        token = self._tokens[self._index]
        if token[0] != kind:
            raise _NotSimpleError
        self._index += 1
        return token[1]

    def _takes(self, word: str) -> bool:
        """Return whether the next token is a word or a sign, and take it."""
        kind, text = self._tokens[self._index]
        taken = kind in ("name", "sign") and text.upper() == word
        self._index += taken
        return taken

    def _require(self, word: str) -> None:
        if not self._takes(word):
            raise _NotSimpleError

    def read_condition(self) -> Node:
        terms = [self._read_term()]  # joined by AND
        alternatives: list[Node] = []  # before them, joined by OR
        while True:
            if self._takes("AND"):
                terms.append(self._read_term())
            elif self._takes("OR"):
                alternatives.append(all_of(terms))
                terms = [self._read_term()]
            else:
                break
        node = terms[0] if len(terms) == 1 else And(tuple(terms))
        return any_of([*alternatives, node]) if alternatives else node

    def _read_term(self) -> Node:
        is_negated = self._takes("NOT")
        if self._takes("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise _NotSimpleError
            node = self.read_condition()
            self._require(")")
            self._depth -= 1
        else:
            node = self._read_comparison()
        return negation(node) if is_negated else node

    def _read_comparison(self) -> Node:
        if self._tokens[self._index + 1 : self._index + 2] == [("sign", "(")]:
            return self._read_function()
        column = self._read_column()
        kind, operator = self._tokens[self._index]
        if kind == "operator":
            self._index += 1
            value = self._read_literal()
            equality = _EQUALITIES.get(operator)
            return Compare(column, operator, value) if equality is None else equality(column, value)
        if self._takes("IS"):
            is_negated = self._takes("NOT")
            self._require("NULL")
            node: Node = IsNull(column)
        else:
            is_negated = self._takes("NOT")
            if self._takes("IN"):
                self._require("(")
                node = In(column, tuple(self._read_literals(")")))
            else:
                self._require("BETWEEN")
                low = self._read_literal()
                self._require("AND")
                node = And((Compare(column, ">=", low), Compare(column, "<=", self._read_literal())))
        return negation(node) if is_negated else node

    def _read_function(self) -> Node:
        name = self.read("name").upper()
        self._require("(")
        column = self._read_column()
        self._require(",")
        if name in _OF_ONE:
            node: Node = Contains(column, self._read_literal())
        elif name in _OF_MANY:
            closing = ")" if self._takes("ARRAY") and self._takes("(") else "]"
            if closing == "]":
                self._require("[")
            values = self._read_literals(closing)
            if len(values) > 1 and None in values:
                raise _NotSimpleError
            node = _OF_MANY[name]([Contains(column, value) for value in values])
        else:
            raise _NotSimpleError
        self._require(")")
        return node

    def _read_column(self) -> str:
        text = self.read("name")
        if text.isidentifier():  # the most common case
            if text.upper() in _RESERVED:
                raise _NotSimpleError
            return text
        parts = []
        for match in _PART.finditer(text):
            if match[3] is not None and match[3].upper() in _RESERVED:
                raise _NotSimpleError
            parts.append(match[match.lastindex or 0])
        return ".".join(parts)

    def _read_literals(self, closing: str) -> list[literal.Literal]:
        values = [self._read_literal()]
        while self._takes(","):
            values.append(self._read_literal())
        self._require(closing)
        return values

    def _read_literal(self) -> literal.Literal:
        kind, text = self._tokens[self._index]
        self._index += 1  # the end is never passed: it is no literal
        if kind == "number":
            return literal.parse_number(text)
        if kind == "text":
            return _unquote(text)
        if kind == "sign" and text == "-":
            return literal.parse_number(self.read("number"), negative=True)
        word = text.upper()
        if kind == "name" and word in _WORDS:
            return _WORDS[word]
        if kind == "name" and word in _TYPED:
            return literal.parse_typed(_TYPED[word], _unquote(self.read("text")))
        raise _NotSimpleError


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")
