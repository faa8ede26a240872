"""Parse a WHERE condition in SQL into the predicate tree.

`sql_tokens` splits the condition into comparisons, which are read here: whatever is not understood wholly and exactly
is an error that names it. No part recurses, and all take linear time.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeAlias, cast

from ..errors import PredicateError
from ..variant.variant_path import make_path, parse_path
from . import literal
from .patterns import ESCAPE, escape_like, normalize_like
from .sql_groups import SqlGroup, build_tree, negate
from .sql_tokens import ENDS, Kind, SqlText, T, shorten, unquote
from .subject import DAY, Number, Subject, VariantPart, add, multiply
from .tree import (
    And,
    Contains,
    HasType,
    Node,
    all_of,
    any_of,
    negation,
)
from .variant_names import parse_target

SPARK = frozenset({"spark", "databricks"})
"""Dialects that are parsed as Spark's."""

_SUPPORTED = (
    "supported are =, <=>, <>, <, <=, >, >=, BETWEEN, IN, [I]LIKE, IS NULL, AND, OR, NOT, array_contains,"
    " regexp_matches, lower(x), upper(x)"
)

_COMPARISONS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}

# Types by their first word -> {the words after it: kind of `literal.parse_typed`, or "string", a function of columns}.
_TYPES: dict[str, dict[tuple[str, ...], str]] = {
    "DATE": {(): "date"},
    "TIME": {("WITHOUT", "TIME", "ZONE"): "time", (): "time"},
    "TIMESTAMP": {
        ("WITH", "TIME", "ZONE"): "timestamp",
        ("WITH", "LOCAL", "TIME", "ZONE"): "timestamp",
        ("WITHOUT", "TIME", "ZONE"): "wallclock",
        (): "timestamp",
    },
    "TIMESTAMPTZ": {(): "timestamp"},
    "TIMESTAMPLTZ": {(): "timestamp"},
    "TIMESTAMP_LTZ": {(): "timestamp"},
    "TIMESTAMPNTZ": {(): "wallclock"},
    "TIMESTAMP_NTZ": {(): "wallclock"},
    "DATETIME": {(): "wallclock"},
    "UUID": {(): "uuid"},
    "DOUBLE": {("PRECISION",): "double", (): "double"},
    "VARCHAR": {(): "string"},
    "STRING": {(): "string"},
    "TEXT": {(): "string"},
}

_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_INTEGERS = {
    "int8": ("TINYINT", "BYTE"),
    "int16": ("SMALLINT", "SHORT"),
    "int32": ("INT", "INTEGER"),
    "int64": ("BIGINT", "LONG"),
}
_TYPES |= {name: {(): kind} for kind, names in _INTEGERS.items() for name in names}

# Types that a column may be cast to -> the kind of its own type that keeps its values, see `HasType`.
_KINDS = {**{kind: kind for kind in _INTEGERS}, "double": "double", "date": DAY}

_IN_TYPES = frozenset({"WITH", "WITHOUT", "PRECISION"})

_FUNCTIONS = {"LOWER": "lower", "LCASE": "lower", "UPPER": "upper", "UCASE": "upper"}
_DEFAULTS = frozenset({"COALESCE", "IFNULL", "NVL"})
_CASTS = frozenset({"CAST", "TRY_CAST"})
_PARTS = {"VARIANT_GET": False, "TRY_VARIANT_GET": True}  # -> whether what cannot be cast is null
_LOOKUPS = frozenset({"ELEMENT_AT", "TRY_ELEMENT_AT", "MAP_EXTRACT", "MAP_EXTRACT_VALUE"})

# Functions of a list column and a literal, or an array of literals of which any or all are to be contained.
_LISTS: dict[str, Callable[[list[Node]], Node] | None] = {
    "ARRAY_CONTAINS": None,
    "LIST_CONTAINS": None,
    "LIST_HAS": None,
    "ARRAY_HAS": None,
    "ARRAYS_OVERLAP": any_of,
    "LIST_HAS_ANY": any_of,
    "ARRAY_HAS_ANY": any_of,
    "LIST_HAS_ALL": all_of,
    "ARRAY_HAS_ALL": all_of,
}

# Functions of a text and a piece of it, as patterns of LIKE around that.
_PIECES = {
    "STARTS_WITH": "{}%",
    "STARTSWITH": "{}%",
    "PREFIX": "{}%",
    "ENDS_WITH": "%{}",
    "ENDSWITH": "%{}",
    "SUFFIX": "%{}",
    "CONTAINS": "%{}%",
}
_EXPRESSION = "REGEXP_MATCHES"
_TYPED = "HAS_TYPE"

# Tokens that begin what is not supported, and are not the name of a column unless they are quoted.
_REFUSED = {
    **dict.fromkeys(("LIKE", "ILIKE", "SIMILAR", "COLLATE", "CASE"), "{}"),
    **dict.fromkeys(("RLIKE", "REGEXP"), "{} (write regexp_matches and an expression in RE2's syntax)"),
    **dict.fromkeys(
        ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER"),
        "the function {}",
    ),
    **dict.fromkeys(("+", "-", "*", "/", "%"), "arithmetic"),
    **dict.fromkeys(("SELECT", "EXISTS"), "a subquery"),
    **dict.fromkeys(("?", ":"), "a placeholder"),
    "@": "a parameter",
    "$": "a parameter, or a name with $ without quotes,",
    **dict.fromkeys(("NOT", "!"), "such a NOT"),
    "||": "a text in several pieces",
    "::": "such a CAST",
    "[": "such an element of a list or map",
    ",": "a tuple",
}
_NO_NAMES = {*_REFUSED, *ENDS, "IN", "BETWEEN"}
_KEYWORDS = frozenset({*_NO_NAMES, *_TYPES, *_WORDS, "INTERVAL"})

_Operand: TypeAlias = Subject | literal.Literal


def parse_sql(text: str, dialect: str | None = None) -> Node:
    """Parse the condition of a WHERE clause.

    Supported are `=`, `==`, `<=>` (IS NOT DISTINCT FROM), `<>`, `!=`, `<`, `<=`, `>` and `>=` between a column and a
    literal, in either order; `[NOT] BETWEEN`, `[NOT] IN (...)`, `IS [NOT] NULL`; `array_contains(column, literal)` of
    lists, also by its names in other engines (`list_contains`, `array_has`, `literal = ANY(column)`), and for several
    literals `arrays_overlap`, `list_has_any` and `list_has_all`; NOT, AND, OR and parentheses; struct leaves as dotted
    names; `[NOT] LIKE` and `ILIKE` with a pattern and perhaps an ESCAPE character, `starts_with(column, text)`,
    `ends_with` and `contains` of texts, and `regexp_matches(column, expression)` in RE2's syntax; `lower(column)`,
    `upper(column)` and `CAST(column AS VARCHAR)` (or STRING, or TEXT) in place of a column, with `=`, `<>`, `IN`,
    `LIKE`, these functions and `IS NULL`; `column['key']` of maps, and `element_at(column, 'key')`, in place of a
    column; whole numbers of any size, `1.50` (a Decimal), `1e3` (a float), `'text'`, TRUE, FALSE, INTERVAL before a
    text, NULL,
    `X'AB'` (bytes), and DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NTZ, UUID and DOUBLE before a text, after
    it with `::`, or in a CAST of one. The text of a timestamp may end in a UTC offset or
    the name of a time zone. Comments are skipped.

    Names are unquoted or in double quotes or backticks, and keep their case. `"a.b"` is the column of
    that name, even where a field of a struct has it as well; without such a column it is the path a.b (see `tree`).

    Parameters
    ----------
    text : the condition.
    dialect : None for the dialect of this module, or "spark", in which double quotes enclose texts. Others are
        translated by sqlglot, under its names, such as "duckdb"; it is installed with the extra `dialects`.

    Raises
    ------
    PredicateError
        A part of the text is not supported; the message names it.
    """
    if not isinstance(text, str):
        raise PredicateError("the condition is not a text")
    spark = dialect is not None and dialect.lower() in SPARK
    if dialect is not None and not spark:
        from .sql_dialects import translate  # not at the top: few conditions need it

        text = translate(text, dialect)
    source = SqlText(text, spark)
    return build_tree(source.fold(_Reader(source).read, negate, SqlGroup))


def fold_spark(
    text: str,
    comparison: Callable[[str, Callable[[], Node]], T],
    negation: Callable[[T], T],
    join: Callable[[Kind, list[T]], T],
) -> T:
    """Split a condition in Spark's dialect at NOT, AND, OR and parentheses, whatever the comparisons between them are.

    Parameters
    ----------
    text : the condition.
    comparison : takes the text of a comparison, and a function that parses it or raises PredicateError.
    negation : takes the result of a part.
    join : takes a connective and the results of two or more parts.

    Raises
    ------
    PredicateError
        The text cannot be split: quotes or parentheses do not match, or a part is missing.
    """
    source = SqlText(text, spark=True)
    source.check()
    reader = _Reader(source)

    def split(start: int) -> tuple[T, int]:
        stop = source.find_end(start)

        def read() -> Node:
            node, end = reader.read(start)
            if end != stop:
                raise PredicateError(f"not understood {source.place(end)}")
            return node

        return comparison(source.piece(start, stop), read), stop

    return source.fold(split, negation, join)


# ------------------------------------------------------------------------------------------------------- comparisons


class _Reader:
    """Reads the comparisons of one condition.

    Parameters
    ----------
    source : the condition.
    """

    def __init__(self, source: SqlText) -> None:
        self._source = source
        self._spark = source.spark
        self._tokens = source.tokens
        self._quotes = ("'", '"') if source.spark else ("'",)
        self._name_quotes = ("`",) if source.spark else ('"', "`")
        self._index = 0  # of the next token

    def read(self, start: int) -> tuple[Node, int]:
        """Read the comparison that begins at a token.

        Returns
        -------
        Its tree, and the index of the token after it.

        Raises
        ------
        PredicateError
            It is not supported, or the whole text is not a condition.
        """
        self._index = start
        try:
            node = self._read_comparison()
            if self._tokens[self._index].upper() not in ENDS:
                self._refuse()
            return node, self._index
        except PredicateError as error:
            problem = error.problem
        source = self._source
        source.check()
        raise PredicateError(f"{shorten(source.piece(start, source.find_end(start)))}: {problem}")

    def _refuse(self, problem: str = "") -> NoReturn:
        """Raise the error for something that is not supported; by default it is the next token."""
        token, before = self._tokens[self._index], self._tokens[self._index - 1]
        if not problem and token.startswith(self._quotes) and self._index and before.startswith(self._quotes):
            problem = _REFUSED["||"]
        if not problem and token.upper() not in _REFUSED:
            raise PredicateError(f"not understood {self._source.place(self._index)}")
        problem = problem or _REFUSED[token.upper()].format(token.upper())
        raise PredicateError(f"{problem} is not supported; {_SUPPORTED}")

    def _takes(self, *words: str) -> bool:
        """Return whether these are the next tokens, and take them."""
        stop = self._index + len(words)
        taken = [token.upper() for token in self._tokens[self._index : stop]] == [*words]
        self._index = stop if taken else self._index
        return taken

    def _require(self, word: str) -> None:
        if not self._takes(word):
            self._refuse()

    def _read_comparison(self) -> Node:
        tokens, index = self._tokens, self._index
        if tokens[index + 1] == "(":
            function = tokens[index].upper()
            if function in _LISTS:
                return self._read_list_function()
            if function == _TYPED:
                return self._read_has_type()
            if function in _PIECES or (function == _EXPRESSION and not self._spark):
                return self._read_text_function(function)
        left = self._read_sum()
        word = tokens[self._index].upper()
        operator = _COMPARISONS.get(word)
        if operator is not None:
            self._index += 1
            if operator == "=" and tokens[self._index + 1] == "(" and self._takes("ANY", "("):
                column = self._column(self._read_operand(calls=False))
                self._require(")")
                return Contains(column, self._value(left))
            return self._compare(left, operator, self._read_sum())
        if word in ENDS:
            if not isinstance(left, Subject):
                self._refuse("a literal as a condition")
            return self._subject(left).compare("=", True)
        is_negated = word == "NOT"
        if is_negated:
            self._index += 1
            word = tokens[self._index].upper()
        self._index += 1
        if word == "IN":
            if tokens[self._index] != "(":
                raise PredicateError(f"IN takes a list of literals in parentheses; {_SUPPORTED}")
            self._index += 1
            node = self._subject(left).is_in(self._read_values(")"))
        elif word == "BETWEEN":
            subject, low = self._subject(left), self._read_value()
            self._require("AND")
            node = And((subject.compare(">=", low), subject.compare("<=", self._read_value())))
        elif word == "LIKE":
            node = self._read_like(self._subject(left))
        elif word == "ILIKE":
            node = self._read_like(self._subject(left), ignores_case=True)
        elif word in ("IS", "ISNULL", "NOTNULL") and not is_negated:
            is_negated = word == "NOTNULL" or (word == "IS" and self._takes("NOT"))
            truth = next((value for value in ("TRUE", "FALSE") if word == "IS" and self._takes(value)), None)
            if truth is not None:
                node = self._compare(left, "<=>", truth == "TRUE")
            elif word == "IS" and self._takes("DISTINCT", "FROM"):
                node, is_negated = self._compare(left, "<=>", self._read_sum()), not is_negated
            elif word == "IS" and not self._takes("NULL") and not self._takes("UNKNOWN"):
                raise PredicateError(f"IS takes NULL, TRUE, FALSE or DISTINCT FROM; {_SUPPORTED}")
            else:
                node = self._subject(left).is_null()  # of a function, too: its result is null for a null
        else:
            self._index -= 1
            self._refuse()
        return negation(node) if is_negated else node

    def _compare(self, left: _Operand, operator: str, right: _Operand) -> Node:
        """Return the comparison of a column with a literal, in either order."""
        if isinstance(right, Subject):
            if isinstance(left, Subject):
                source = self._source
                is_quoted = not source.spark and '"' in source.tokens[self._index - 1]
                hint = (
                    "double quotes are for names, texts take single quotes" if is_quoted else "texts take single quotes"
                )
                raise PredicateError(f"a comparison of two columns ({hint}) is not supported; {_SUPPORTED}")
            left, right, operator = right, left, _SWAPPED.get(operator, operator)
        if not isinstance(left, Subject):
            raise PredicateError(f"a comparison without a column is not supported; {_SUPPORTED}")
        if operator != "<=>":
            return left.compare(operator, right)
        return left.is_null() if right is None else And((left.is_not_null(), left.compare("=", right)))

    def _subject(self, operand: _Operand) -> Subject:
        if isinstance(operand, Subject):
            return operand
        raise PredicateError(f"a column is expected, not a literal; {_SUPPORTED}")

    def _column(self, operand: _Operand) -> str:
        subject = self._subject(operand)
        if not subject.is_column:
            raise PredicateError(f"a column is expected, not a function of one; {_SUPPORTED}")
        return subject.name

    def _read_value(self) -> literal.Literal:
        return self._value(self._read_sum())

    def _value(self, operand: _Operand) -> literal.Literal:
        if isinstance(operand, Subject):
            raise PredicateError(f"a literal is expected, not the column {operand.name}; {_SUPPORTED}")
        return operand

    def _read_list_function(self) -> Node:
        name = self._tokens[self._index]
        join = _LISTS[name.upper()]
        self._index += 2
        column = self._column(self._read_operand(calls=False))
        self._require(",")
        if join is None:
            node: Node = Contains(column, self._read_value())
        else:
            closing = ")" if self._takes("ARRAY", "(") else "]"
            if closing == "]" and not (self._takes("ARRAY", "[") or self._takes("[")):
                raise PredicateError(f"{name} takes an array of literals; {_SUPPORTED}")
            values = self._read_values(closing)
            if not values or (len(values) > 1 and None in values):
                raise PredicateError("a list of literals is expected, none of them missing or NULL")
            node = join([Contains(column, value) for value in values])
        self._require(")")
        return node

    def _read_text_function(self, function: str) -> Node:
        """Read a function of a text and a piece of it, or a regular expression."""
        self._index += 2
        subject = self._subject(self._read_operand())
        self._require(",")
        text = self._read_text(function.lower())
        options = self._read_text(function.lower()) if function == _EXPRESSION and self._takes(",") else "c"
        if not self._takes(")") or options not in ("c", "i"):
            self._refuse(f"more than a text and a pattern, and 'i' or 'c', in {function.lower()}")
        if function == _EXPRESSION:
            return subject.matches(text if options == "c" else f"(?i){text}")
        return subject.is_like(_PIECES[function].format(escape_like(text)))

    def _read_has_type(self) -> Node:
        """Read what casts and sums are written as by `tree.to_text`."""
        self._index += 2
        subject = self._subject(self._read_operand(calls=False))
        self._require(",")
        kind = self._read_text("has_type")
        self._require(")")
        return subject.look_up(HasType(subject.name, kind))

    def _read_like(self, subject: Subject, ignores_case: bool = False) -> Node:
        """Read the pattern after LIKE, or ILIKE, and its escape character."""
        pattern = self._read_text("LIKE")
        escape = ESCAPE if self._spark else None
        if self._takes("ESCAPE"):
            escape = self._read_text("ESCAPE")
            if len(escape) != 1:
                raise PredicateError(f"ESCAPE takes one character, not {escape!r}")
        elif ESCAPE in pattern and not self._spark:
            problem = "engines differ about a backslash in LIKE without ESCAPE"
            raise PredicateError(
                f"{problem}: add ESCAPE '{ESCAPE}' where it escapes, or another character where it does not"
            )
        pattern = normalize_like(pattern, escape)
        return subject.is_like_in_any_case(pattern) if ignores_case else subject.is_like(pattern)

    def _read_text(self, after: str) -> str:
        value = self._read_value()
        if not isinstance(value, str):
            raise PredicateError(f"{after} takes a text, not {literal.to_text(value)}")
        return value

    def _read_values(self, closing: str) -> tuple[literal.Literal, ...]:
        """Read the literals up to a closing bracket, which is taken, too; lists may be long."""
        tokens, index = self._tokens, self._index
        values: list[literal.Literal] = []
        if tokens[index] == closing:
            self._index += 1
            return ()
        while True:
            token, following = tokens[index], tokens[index + 1]
            if token[:1].isdecimal():
                values.append(literal.parse_number(token))
                index += 1
            elif token == "-" and following[:1].isdecimal():
                values.append(literal.parse_number(following, negative=True))
                index += 2
            else:
                self._index = index
                values.append(self._read_value())
                index = self._index
            if tokens[index] != ",":
                self._index = index
                if tokens[index] != closing:
                    self._refuse()
                self._index += 1
                return tuple(values)
            index += 1

    def _read_sum(self) -> _Operand:
        """Read an operand, or a sum of literals, and of a column at most."""
        return self._continue_sum(self._read_operand())

    def _continue_sum(self, operand: _Operand) -> _Operand:
        """Read what is added to an operand, or multiplied with it."""
        operand = self._continue_product(operand)
        while self._tokens[self._index] in ("+", "-"):
            is_negative = self._tokens[self._index] == "-"
            self._index += 1
            other = self._continue_product(self._read_operand())
            if isinstance(other, Subject) and not isinstance(operand, Subject) and not is_negative:
                operand, other = other, operand
            number = self._number(other)
            number = -number if is_negative else number
            operand = operand.add(number) if isinstance(operand, Subject) else add(self._number(operand), number)
        return operand

    def _continue_product(self, operand: _Operand) -> _Operand:
        while self._tokens[self._index] == "*":
            self._index += 1
            operand = multiply(self._number(operand), self._number(self._read_operand()))
        return operand

    def _number(self, operand: _Operand) -> Number:
        if type(operand) not in (int, decimal.Decimal):
            raise PredicateError(f"arithmetic is of whole numbers and decimals, and sums of a column; {_SUPPORTED}")
        return cast(Number, operand)

    def _read_operand(self, calls: bool = True) -> _Operand:
        """Read a column, a function of one, or a literal, each perhaps in parentheses.

        Parameters
        ----------
        calls : whether it may be a function or cast, none of which is within another one.
        """
        tokens = self._tokens
        token, depth = tokens[self._index], 0
        while token == "(":
            depth += 1
            self._index += 1
            token = tokens[self._index]
        first = token[:1]
        if first.isidentifier():
            operand = self._read_name(token, calls)
        elif first.isdecimal():
            operand = literal.parse_number(token)
            self._index += 1
        elif first in self._quotes:
            operand = unquote(token, self._spark)
            self._index += 1
        elif first.isalnum() or first in ('"', "`"):
            operand = self._read_name(token, calls)
        else:
            operand = self._read_signed()
        token = tokens[self._index]
        while depth or token == "::":
            self._index += 1
            if token == "::" and isinstance(operand, Subject) and operand.part is not None:
                operand = self._as_type(operand, self._read_target())
                token = tokens[self._index]
                continue
            if token == ")" and depth:
                depth -= 1
            elif token in ("+", "-", "*") and depth:
                self._index -= 1
                operand = self._continue_sum(operand)
            elif token == "::":
                operand = self._cast(operand, self._read_type())
            else:
                self._index -= 1
                self._refuse()
            token = tokens[self._index]
        return operand

    def _read_signed(self) -> literal.Literal:
        """Read a number with a sign, or one that begins with a point."""
        is_negative = self._takes("-")
        is_signed = is_negative or self._takes("+")
        depth = 0
        while is_signed and self._takes("("):
            depth += 1
        token = self._tokens[self._index]
        if token in (",", ")", "]", ""):
            raise PredicateError(f"a column or literal is missing {self._source.place(self._index)}")
        if token == "." or not (token[0] == "." or token[0].isdecimal()):
            self._refuse("a sign before anything but a number" if is_signed else "")
        self._index += 1
        for _ in range(depth):
            self._require(")")
        return literal.parse_number(token, negative=is_negative)

    def _read_name(self, token: str, calls: bool) -> _Operand:
        """Read what begins with a word or a quoted name; see `_read_operand`."""
        tokens = self._tokens
        following = tokens[self._index + 1]
        word = token.upper()
        if following == "(":
            return self._read_call(word, calls)
        if token[1:2] in ("'", '"') and token[0] in "xXrR":
            if token[0] in "rR" or len(token) < 3 or token[-1] != "'":
                raise PredicateError(f"this form of a text is not supported: {shorten(token)}")
            self._index += 1
            return literal.parse_hexadecimal(token[2:-1])
        if word in _KEYWORDS and following != ".":
            if word in _TYPES and (following.startswith(self._quotes) or following.upper() in _IN_TYPES):
                return self._read_typed()
            if word == "INTERVAL" and following.startswith(self._quotes):
                return self._read_interval()
            if word in _NO_NAMES:
                self._refuse()
            if word in _WORDS:
                self._index += 1
                return _WORDS[word]
        if following.startswith(self._quotes):  # N'x', E'x'
            self._index += 1
            self._refuse()
        name = first = self._read_part()
        while tokens[self._index] == ".":
            self._index += 1
            name += "." + self._read_part()
        # Spark is asked itself what a name means; one with two dots in a row, say, is no path anyway.
        is_whole = not self._spark and name == first and "." in name and all(name.split("."))
        subject = Subject(name, is_whole=is_whole)
        if tokens[self._index] == ":":
            return self._read_path(subject)
        if tokens[self._index] != "[":
            return subject
        self._index += 1
        return self._look_up(subject, "]")

    def _look_up(self, subject: Subject, closing: str) -> Subject:
        """Read the key of a map, and a closing bracket."""
        key = self._read_value()
        if key is None:
            raise PredicateError("the key of a map is not NULL", column=subject.name)
        self._require(closing)
        return replace(subject, key=key)

    def _read_path(self, subject: Subject) -> Subject:
        """Read the path of a part of a Variant, from its colon on; the type is read as that of a cast."""
        tokens, steps = self._tokens, list[str | int]()
        while tokens[self._index] in (".", "[") or not steps:
            opening = tokens[self._index]
            self._index += 1
            if opening == "[" or (not steps and tokens[self._index] == "["):
                self._index += opening != "["
                step = self._read_value()
                if type(step) not in (str, int) or (isinstance(step, int) and step < 0):
                    raise PredicateError("a part of a Variant has a name, or a number from 0 on", column=subject.name)
                steps.append(cast("str | int", step))
                self._require("]")
            else:
                steps.append(self._read_part())
        return replace(subject, part=VariantPart(make_path(steps), "", False))

    def _read_part_call(self, is_try: bool) -> Subject:
        """Read a function of a Variant, a path, and perhaps a type."""
        self._index += 2
        subject = self._subject(self._read_operand(calls=False))
        self._column(subject)
        self._require(",")
        path = parse_path(self._read_text("variant_get"))
        target = parse_target(self._read_text("variant_get")) if self._takes(",") else ""
        self._require(")")
        return replace(subject, part=VariantPart(path, target, is_try))

    def _read_target(self) -> str:
        """Read the type of a part of a Variant; return its canonical name."""
        tokens, start = self._tokens, self._index
        self._index += 1
        if self._takes("("):
            while tokens[self._index] and not self._takes(")"):
                self._index += 1
        while tokens[self._index].upper() in _IN_TYPES:
            words = 1 if tokens[self._index].upper() == "PRECISION" else 3
            self._index = min(self._index + words, len(tokens) - 1)  # the last one is the end
        return parse_target(" ".join(tokens[start : self._index]))

    def _as_type(self, subject: Subject, target: str, is_try: bool = False) -> Subject:
        """Return a part of a Variant as a type."""
        assert subject.part is not None
        if subject.part.target or not subject.is_value:
            self._refuse("such a CAST")
        return replace(subject, part=subject.part._replace(target=target, is_try=subject.part.is_try or is_try))

    def _read_part(self) -> str:
        """Read a name without dots."""
        token = self._tokens[self._index]
        self._index += 1
        if token.isidentifier():
            return token
        if token[:1] in self._name_quotes:
            return unquote(token)
        if token[:1].isdecimal() or not token.replace("_", "a").isalnum():
            raise PredicateError(f"this is not a column name: {shorten(token)}")
        return token

    def _read_typed(self) -> _Operand:
        """Read a type and the text after it."""
        kind = self._read_type()
        text = self._tokens[self._index]
        if not text.startswith(self._quotes):
            self._refuse()
        self._index += 1
        return self._cast(unquote(text, self._spark), kind)

    def _read_interval(self) -> literal.Literal:
        """Read a text of numbers and units, or of a number whose unit is the next word."""
        text = unquote(self._tokens[self._index + 1], self._spark)
        self._index += 2
        unit = self._tokens[self._index] if text.strip("+-").replace(".", "").isdecimal() else ""
        self._index += bool(unit)
        return literal.parse_interval(text, unit)

    def _read_call(self, word: str, calls: bool) -> _Operand:
        """Read a function or a cast."""
        is_cast = word in _CASTS
        is_typed = self._spark and word in _TYPES
        if calls and word in _DEFAULTS:
            return self._read_default()
        if word in _LOOKUPS:
            return self._read_lookup()
        if word in _PARTS:
            return self._read_part_call(_PARTS[word])
        if not calls or not (is_cast or is_typed or word in _FUNCTIONS):
            self._refuse("" if word in _REFUSED else f"the function {self._tokens[self._index]}")
        self._index += 2
        operand = self._read_operand(calls=False)
        if word in _FUNCTIONS:
            if not self._subject(operand).is_value:
                self._column(operand)
            operand = replace(self._subject(operand), function=_FUNCTIONS[word])
        elif is_typed:
            operand = self._cast(operand, _TYPES[word][()])
        else:
            self._require("AS")
            if isinstance(operand, Subject) and operand.part is not None:
                operand = self._as_type(operand, self._read_target(), word == "TRY_CAST")
            else:
                operand = self._cast(operand, self._read_type())
        if not self._takes(")"):
            self._refuse("such a CAST" if is_cast else "")
        return operand

    def _read_lookup(self) -> Subject:
        """Read a function of a map and a key; in DuckDB's meaning of it the first element of its result."""
        is_list = self._tokens[self._index].upper() == "MAP_EXTRACT"
        self._index += 2
        subject = self._subject(self._read_operand(calls=False))
        self._column(subject)
        self._require(",")
        subject = self._look_up(subject, ")")
        if not self._takes("[", "1", "]") and is_list:
            self._refuse("map_extract without [1]")
        return subject

    def _read_default(self) -> Subject:
        """Read a column, or a function of one, with a literal in place of null."""
        self._index += 2
        subject = self._subject(self._read_sum())
        self._require(",")
        value = self._read_value()
        if value is None or subject.default is not None or not self._takes(")"):
            self._refuse("coalesce of anything but a column and a literal")
        return replace(subject, default=value)

    def _read_type(self) -> str:
        """Read a type; return its kind (see `_TYPES`), empty if there is no such type."""
        forms = _TYPES.get(self._tokens[self._index].upper(), {})
        self._index += 1
        for words, kind in forms.items():
            if not words or self._takes(*words):
                return kind
        return ""

    def _cast(self, operand: _Operand, kind: str) -> _Operand:
        if isinstance(operand, Subject) and operand.is_value:
            if kind == "string":
                return replace(operand, function=kind)
            if kind in _KINDS:
                return replace(operand, kind=_KINDS[kind])
        if type(operand) is int and kind in _INTEGER_BITS:
            limit = 1 << (_INTEGER_BITS[kind] - 1)
            if -limit <= operand < limit:
                return operand
        if not isinstance(operand, str) or kind in ("", "string", *_INTEGER_BITS):
            self._refuse("such a CAST")
        return literal.parse_typed(kind, operand)
