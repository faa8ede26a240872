"""A WHERE condition in SQL -> the predicate tree. The text is read by sqlglot, which is imported when first needed.

sqlglot's parser descends into each parenthesis and turns a construct that it does not know into something near it. So
the tokens are split at AND, OR and their parentheses here, without recursion, and sqlglot parses one comparison at a
time; and what it read is compared with the text: a literal or name counts only if its source says the same.

The default dialect: names stand bare or in double quotes or backticks, texts in single quotes, a quote within is
doubled, and a backslash means itself. Names keep their case. `"a.b"` is one name; it is carried like the path a.b (see
`tree`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import PredicateError
from . import literal
from .sql_lists import ListComparison, list_comparison
from .tree import And, Compare, Contains, Equal, In, IsNull, Node, NotEqual, all_of, any_of, negation, null_safe_equal

if TYPE_CHECKING:
    from sqlglot import Token, exp
    from sqlglot.dialects.dialect import Dialect

T = TypeVar("T")

_parsing: ContextVar[bool] = ContextVar("parsing", default=False)

SUPPORTED = (
    "supported are =, <=>, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR, NOT and array_contains over columns and"
    " literals"
)

_SHOWN = 60

# What may stand between two tokens: white space and comments, but no hint, version-dependent or nested comment.
_BETWEEN = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*(?![!+])(?:(?!/\*).)*?\*/)*", re.DOTALL)
_HEX = re.compile(r"[xX]'[0-9a-fA-F]*'")
_BARE = re.compile(r"\w+")
_QUOTED = {'"': '"', "`": "`", "[": "]"}
_BACKSLASHED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}

# Types of typed literals, by sqlglot's names -> `literal.typed`'s kinds.
_TYPES = {
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "wallclock",
    "TIMESTAMP_NS": "wallclock",
    "DATETIME": "wallclock",
    "UUID": "uuid",
    "DOUBLE": "double",
}

# Comparisons by sqlglot's names; and what each means with its operands in the other order.
_COMPARISONS = {
    "EQ": "=",
    "NEQ": "<>",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "distinct",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

# How constructs that are refused are called.
_NAMES = {
    "Not": "such a NOT",
    "Like": "LIKE",
    "ILike": "ILIKE",
    "Neg": "a minus sign before anything but a number",
    "Add": "arithmetic",
    "Sub": "arithmetic",
    "Mul": "arithmetic",
    "Div": "arithmetic",
    "Mod": "arithmetic",
    "Case": "CASE",
    "Cast": "such a CAST",
    "TryCast": "such a CAST",
    "Select": "a subquery",
    "Subquery": "a subquery",
    "Exists": "a subquery",
    "Tuple": "a tuple",
    "Concat": "a text in several pieces",
    "Placeholder": "a placeholder",
    "Parameter": "a parameter",
    "Bracket": "a list or map element",
    "Interval": "an interval",
    "Command": "a statement (a name like that needs quotes)",
    "Boolean": "TRUE or FALSE as a condition",
    "Literal": "a literal as a condition",
    "Null": "NULL as a condition",
    "Column": "a column as a condition (write flag = TRUE)",
}


def parse_sql(text: str, dialect: str | None = None) -> Node:
    """Parse a condition as it stands behind WHERE.

    Understood are `=`, `==`, `<=>` (IS NOT DISTINCT FROM), `<>`, `!=`, `<`, `<=`, `>` and `>=` between a column and a
    literal, in either order; `[NOT] BETWEEN`, `[NOT] IN (...)`, `IS [NOT] NULL`; `array_contains(column, literal)` of
    lists, under the names of other engines too (`list_contains`, `array_has`, `literal = ANY(column)`), and for several
    literals `arrays_overlap`, `list_has_any` and `list_has_all`; NOT, AND, OR and parentheses; struct leaves as dotted
    names; whole numbers of any size, `1.50` (a Decimal), `1e3` (a float),
    `'text'`, TRUE, FALSE, NULL, `X'AB'` (bytes), and DATE, TIME, TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NTZ, UUID and
    DOUBLE before a text, behind it after `::`, or in a CAST of one. A timestamp's text may end in a UTC offset or a
    zone's name. Comments are skipped.

    Parameters
    ----------
    text : the condition.
    dialect : name of a dialect that sqlglot knows, such as "spark" (where double quotes are for texts); None for the
        one that this module describes.

    Raises
    ------
    PredicateError
        The text is not understood, wholly and exactly; the message names the piece.
    """
    return _Condition(text, _dialect(dialect)).parse(_TREE)


@dataclass(frozen=True)
class Builder(Generic[T]):
    """What is made of a condition, from its comparisons up.

    Attributes
    ----------
    comparison : of a comparison's text, and a function that reads it or raises PredicateError.
    negation, all_of, any_of : of what was made of the parts; lists may have one item.
    """

    comparison: Callable[[str, Callable[[], Node]], T]
    negation: Callable[[T], T]
    all_of: Callable[[list[T]], T]
    any_of: Callable[[list[T]], T]


_TREE: Builder[Node] = Builder(lambda text, read: read(), negation, all_of, any_of)


def fold_sql(text: str, dialect: str | None, builder: Builder[T]) -> T:
    """Split a condition at NOT, AND, OR and parentheses, whatever stands between them.

    Parameters
    ----------
    text, dialect : as for `parse_sql`.
    builder : is given the comparisons, understood or not, and what joins them.

    Raises
    ------
    PredicateError
        The text cannot be split: quotes or parentheses do not match, or a part is missing.
    """
    return _Condition(text, _dialect(dialect)).parse(builder)


def _dialect(name: str | None) -> Dialect:
    try:
        from sqlglot.dialects.dialect import Dialect
    except ImportError:
        raise PredicateError("SQL text needs sqlglot, which is not installed; filters may be given as a list") from None
    logging.getLogger("sqlglot").addFilter(_not_ours)
    if name is None:
        return _default_dialect()
    try:
        return Dialect.get_or_raise(name)
    except Exception:
        raise PredicateError(f"sqlglot knows no SQL dialect {name!r}") from None


def _not_ours(record: logging.LogRecord) -> bool:
    return not _parsing.get()


@lru_cache(maxsize=1)
def _default_dialect() -> Dialect:
    from sqlglot import tokens
    from sqlglot.dialects.dialect import Dialect

    class ParquetBloom(Dialect):
        """SQL of no engine in particular."""

        class Tokenizer(tokens.Tokenizer):
            QUOTES = ["'"]  # noqa: RUF012 - declared in sqlglot
            STRING_ESCAPES = ["'"]  # noqa: RUF012
            IDENTIFIERS = ['"', "`"]  # noqa: RUF012
            HEX_STRINGS = [("X'", "'"), ("x'", "'")]  # noqa: RUF012

    return ParquetBloom()


class _Condition:
    """One text being parsed."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        from sqlglot import ErrorLevel, TokenType, exp

        if not isinstance(text, str) or not text.strip():
            raise PredicateError("the condition is empty" if isinstance(text, str) else "the condition is no text")
        self.text = text
        self.exp = exp
        self.types = TokenType
        self.parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        self.backslash = "\\" in dialect.tokenizer_class.STRING_ESCAPES
        try:
            self.tokens: list[Token] = dialect.tokenize(text)
        except Exception:
            raise PredicateError(f"{_cut(text)}: a quote or comment is not closed, or a sign is not SQL's") from None
        # A dialect's further connectives, such as MySQL's XOR, stay within a comparison, and are refused there.
        operators: dict[Any, Any] = {**self.parser.CONJUNCTION, **self.parser.DISJUNCTION}
        self.connectives = {kind: node for kind, node in operators.items() if node in (exp.And, exp.Or)}
        self.changed: dict[int, str] = {}  # tokens that do not say what their source says
        self._check_source()
        self.closing = self._match_brackets()

    # -------------------------------------------------------------------------------------------- source and tokens

    def _piece(self, start: int, stop: int) -> str:
        """The source of tokens, for messages."""
        return _cut(self.text[self.tokens[start].start : self.tokens[stop - 1].end + 1])

    def _check_source(self) -> None:
        """Refuse whatever sqlglot skipped in the text; note the literals and names that it changed."""
        position, text, types = 0, self.text, self.types
        for index, token in enumerate(self.tokens):
            start, end = token.start, token.end + 1
            if start < position:
                self.changed[index] = f"{_cut(text[start:end])}: a suffix or form of literals that is not supported"
                continue
            between = text[position:start]
            if between not in ("", " "):
                self._check_between(between)
            position = end
            kind = token.token_type
            if kind == types.NUMBER:
                faithful = text[start:end] == token.text
            elif kind == types.STRING:
                faithful = self._unquoted(text[start:end]) == token.text
            elif kind == types.IDENTIFIER:
                source = text[start:end]
                close = _QUOTED.get(source[0], "")
                faithful = bool(close) and source[-1] == close and source[1:-1].replace(close * 2, close) == token.text
            elif kind == types.HEX_STRING:
                faithful = bool(_HEX.fullmatch(text[start:end]))
            elif kind == types.SEMICOLON:
                raise PredicateError(f"{_cut(text)}: one condition is expected, without ';'")
            else:
                continue
            if not faithful:
                self.changed[index] = f"{_cut(text[start:end])}: this form of a literal or name is not supported"
        self._check_between(text[position:])
        if not self.tokens:
            raise PredicateError("the condition is empty")

    def _check_between(self, text: str) -> None:
        if not _BETWEEN.fullmatch(text):
            raise PredicateError(f"{_cut(text)}: comments of this form are not supported")

    def _unquoted(self, source: str) -> str | None:
        """The text that a quoted source means; None if that is open to doubt."""
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
                meant = _BACKSLASHED.get(following) if sign == "\\" else following if following == quote else None
                if meant is None:
                    return None
                parts.append(meant)
                position += 2
            else:
                parts.append(sign)
                position += 1
        return "".join(parts)

    def _match_brackets(self) -> dict[int, int]:
        """Where each bracket's partner is."""
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
                    raise PredicateError(f"{_cut(self.text)}: a {token.text!r} closes what was not opened")
                closing[opened.pop()] = index
        if opened:
            raise PredicateError(f"{_cut(self.text)}: a {self.tokens[opened[-1]].text!r} is not closed")
        return closing

    # ------------------------------------------------------------------------------------------------ AND, OR, ( )

    def parse(self, builder: Builder[T]) -> T:
        """Split at the connectives; NOT binds tighter than AND, AND tighter than OR."""
        types = self.types
        open_groups: list[tuple[list[list[T]], bool]] = []  # with what is done to what stands between the parentheses
        group: list[list[T]] = [[]]  # terms joined by OR, each a list of terms joined by AND
        index = 0
        while True:
            negated = False
            while True:
                if index < len(self.tokens) and self.tokens[index].token_type == types.NOT:
                    if self.tokens[index].text.upper() != "NOT":  # `!` binds in more than one way
                        raise PredicateError(f"{_cut(self.text)}: NOT is written {self.tokens[index].text!r}")
                    negated = not negated
                elif self._opens_group(index):
                    open_groups.append((group, negated))
                    group, negated = [[]], False
                else:
                    break
                index += 1
            stop = self._end_of_comparison(index)
            if stop == index:
                where = f"before {self.tokens[index].text!r}" if index < len(self.tokens) else "at the end"
                raise PredicateError(f"{_cut(self.text)}: a condition is missing {where}")
            source = self.text[self.tokens[index].start : self.tokens[stop - 1].end + 1]
            comparison = builder.comparison(source, partial(self._comparison, index, stop))
            group[-1].append(builder.negation(comparison) if negated else comparison)
            index = stop
            while index < len(self.tokens) and self.tokens[index].token_type == types.R_PAREN:
                whole = builder.any_of([builder.all_of(term) for term in group])
                group, negated = open_groups.pop()
                group[-1].append(builder.negation(whole) if negated else whole)
                index += 1
            if index == len(self.tokens):
                return builder.any_of([builder.all_of(term) for term in group])
            if self.connectives[self.tokens[index].token_type] is self.exp.Or:
                group.append([])
            index += 1

    def _opens_group(self, index: int) -> bool:
        """Whether the token opens a parenthesis around conditions, not around an operand as in `(a) = 1`."""
        if index >= len(self.tokens) or self.tokens[index].token_type != self.types.L_PAREN:
            return False
        after = self.closing[index] + 1
        if after == len(self.tokens):
            return True
        kind = self.tokens[after].token_type
        return kind == self.types.R_PAREN or kind in self.connectives

    def _end_of_comparison(self, index: int) -> int:
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

    def _comparison(self, start: int, stop: int) -> Node:
        for index in range(start, stop) if self.changed else ():
            if index in self.changed:
                raise PredicateError(self.changed[index])
        try:
            return self._plain_in(start, stop) or self._compare(self._sqlglot(start, stop), start, stop)
        except PredicateError as error:
            raise PredicateError(f"{self._piece(start, stop)}: {error.problem}") from None

    def _sqlglot(self, start: int, stop: int) -> exp.Expression:
        """What sqlglot makes of some tokens."""
        # What sqlglot cannot parse it logs as a warning; here it becomes an error.
        token = _parsing.set(True)
        try:
            found = self.parser.parse_into(self.exp.Condition, self.tokens[start:stop], self.text)
        except RecursionError:
            raise PredicateError("nested too deeply") from None
        except Exception as error:
            details = getattr(error, "errors", None)
            near = details[0].get("highlight") if details and isinstance(details[0], dict) else None
            raise PredicateError("not understood" + (f" at {_cut(near)}" if near else "")) from None
        finally:
            _parsing.reset(token)
        if len(found) != 1 or found[0] is None:
            raise PredicateError("not understood")
        return found[0]  # type: ignore[return-value]

    def _plain_in(self, start: int, stop: int) -> Node | None:
        """`x IN (...)` over numbers, texts, dates and UUIDs, straight from the tokens: lists may be long."""
        types, tokens, last = self.types, self.tokens, stop - 1
        opening = next((i for i in range(start, stop) if tokens[i].token_type == types.IN), last) + 1
        if self.closing.get(opening) != last or opening - 1 == start or tokens[opening - 2].token_type == types.NOT:
            return None
        quick = {types.DATE: "date", types.UUID: "uuid"}  # what timestamps are depends on the dialect
        values: list[literal.Literal] = []
        index = opening + 1
        while True:
            negative = tokens[index].token_type == types.DASH
            index += negative
            kind = tokens[index].token_type
            if kind == types.NUMBER:
                values.append(literal.number(tokens[index].text, negative=negative))
            elif kind == types.STRING and not negative:
                values.append(tokens[index].text)
            elif kind in quick and tokens[index + 1].token_type == types.STRING and not negative:
                index += 1
                values.append(literal.typed(quick[kind], tokens[index].text))
            else:
                return None
            index += 1
            if index == last:
                break
            if tokens[index].token_type != types.COMMA:
                return None
            index += 1
        return In(self._column(self._sqlglot(start, opening - 1)), tuple(values))

    def _compare(self, node: exp.Expression, start: int, stop: int) -> Node:
        exp = self.exp
        found = list_comparison(node, exp)
        if found is not None:
            return self._list_comparison(found, start, stop)
        if type(node) is exp.Not and type(node.this) in (exp.In, exp.Is, exp.Between):
            return negation(self._compare(node.this, start, stop))
        operator = _COMPARISONS.get(type(node).__name__)
        if operator:
            return self._against_literal(operator, node)
        if type(node) is exp.Is:
            if type(node.expression) is not exp.Null:
                raise PredicateError(f"IS takes NULL; {SUPPORTED}")
            return IsNull(self._column(node.this))
        if type(node) is exp.Between:
            if any(value for name, value in node.args.items() if name not in ("this", "low", "high")):
                raise PredicateError(f"such a BETWEEN is not supported; {SUPPORTED}")
            column = self._column(node.this)
            low, high = (self._value(_bare(node.args[end], exp)) for end in ("low", "high"))
            return And((Compare(column, ">=", low), Compare(column, "<=", high)))
        if type(node) is exp.In:
            if any(value for name, value in node.args.items() if name not in ("this", "expressions")):
                raise PredicateError(f"IN takes a list of literals in parentheses; {SUPPORTED}")
            column = self._column(node.this)
            values = tuple(self._value(_bare(item, exp)) for item in node.expressions)
            # sqlglot forgives missing items: `IN (1,,2)`
            commas = sum(token.token_type == self.types.COMMA for token in self.tokens[start:stop])
            if commas != max(0, len(values) - 1) or self.tokens[stop - 1].token_type != self.types.R_PAREN:
                raise PredicateError("a literal is missing in the list")
            return In(column, values)
        raise self._refusal(node)

    def _list_comparison(self, found: ListComparison, start: int, stop: int) -> Node:
        values = [self._value(_bare(item, self.exp)) for item in found.literals]
        # sqlglot forgives missing items
        commas = sum(token.token_type == self.types.COMMA for token in self.tokens[start:stop])
        is_call = self.closing.get(start + 1) == stop - 1
        if commas != len(values) - 1 + is_call or not values or (len(values) > 1 and None in values):
            raise PredicateError("a list of literals, none of them missing or NULL, is expected")
        column = self._column(found.column)
        return (any_of if found.is_any else all_of)([Contains(column, value) for value in values])

    def _against_literal(self, operator: str, node: exp.Expression) -> Node:
        """A comparison of a column with a literal, in either order."""
        exp = self.exp
        left, right = _bare(node.this, exp), _bare(node.expression, exp)
        if self._is_column(left) and self._is_column(right):
            hint = ""
            if '"' in self.text and not self.backslash and right.find(exp.Identifier).args.get("quoted"):
                hint = " (double quotes are for names, texts take single quotes)"
            raise PredicateError(f"a comparison of two columns{hint} is not supported; {SUPPORTED}")
        if self._is_column(right):
            left, right, operator = right, left, _SWAPPED.get(operator, operator)
        if not self._is_column(left):
            self._value(right)
            self._value(left)
            raise PredicateError(f"a comparison without a column is not supported; {SUPPORTED}")
        column, value = self._column(left), self._value(right)
        if operator == "=":
            return Equal(column, value)
        if operator == "<>":
            return NotEqual(column, value)
        if operator in ("<=>", "distinct"):
            same = null_safe_equal(column, value)
            return same if operator == "<=>" else negation(same)
        return Compare(column, operator, value)

    def _refusal(self, node: exp.Expression) -> PredicateError:
        if type(node) is self.exp.Anonymous:
            name = f"the function {node.name}"
        elif isinstance(node, self.exp.Func) and type(node).__name__ not in _NAMES:
            name = f"the function {node.sql_name()}"
        else:
            name = _name_of(node)
        return PredicateError(f"{name} is not supported; {SUPPORTED}")

    def _is_column(self, node: exp.Expression) -> bool:
        while type(node) is self.exp.Dot:
            node = node.this
        return type(node) is self.exp.Column

    def _column(self, node: exp.Expression) -> str:
        """The dotted name of a column or struct leaf."""
        exp = self.exp
        node = _bare(node, exp)
        parts: list[Any] = []
        while type(node) is exp.Dot:
            parts.append(node.args["expression"])
            node = node.this
        if type(node) is not exp.Column or node.args.get("join_mark"):
            raise PredicateError(f"a column is expected, not {_name_of(node)}; {SUPPORTED}")
        parts += [node.args.get(part) for part in ("this", "table", "db", "catalog") if node.args.get(part)]
        for part in parts:
            if type(part) is not exp.Identifier or not part.this:
                raise PredicateError(f"this is no name of a column; {SUPPORTED}")
            if not part.args.get("quoted") and (not _BARE.fullmatch(part.this) or part.this.isdigit()):
                raise PredicateError(f"the name {part.this!r} must be quoted")
        return ".".join(part.this for part in reversed(parts))

    def _value(self, node: exp.Expression) -> literal.Literal:
        exp = self.exp
        negative = type(node) is exp.Neg
        if negative:
            node = _bare(node.this, exp)
        if type(node) is exp.Literal and not node.args.get("is_string"):
            return literal.number(node.this, negative=negative)
        if negative:
            raise PredicateError(f"{_NAMES['Neg']} is not supported; {SUPPORTED}")
        if type(node) is exp.Literal:
            return str(node.this)
        if type(node) is exp.Boolean:
            return bool(node.this)
        if type(node) is exp.Null:
            return None
        if type(node) is exp.HexString:
            return literal.hexadecimal(str(node.this))
        if type(node) in (exp.Cast, exp.TryCast):
            return self._typed(node)
        if self._is_column(node):
            raise PredicateError(f"a literal is expected, not the column {self._column(node)}; {SUPPORTED}")
        raise self._refusal(node)

    def _typed(self, node: exp.Expression) -> literal.Literal:
        """DATE '...' and the like, of which sqlglot makes casts of a text."""
        exp = self.exp
        text, to = _bare(node.this, exp), node.args["to"]
        others = [name for name, value in node.args.items() if value and name not in ("this", "to", "safe")]
        kind = _TYPES.get(getattr(to.this, "name", ""))
        is_text = type(text) is exp.Literal and text.args.get("is_string")
        if others or kind is None or not is_text or any(value for name, value in to.args.items() if name != "this"):
            raise self._refusal(node)
        return literal.typed(kind, str(text.this))


def _bare(node: Any, exp: Any) -> Any:
    """What stands within any parentheses."""
    while type(node) is exp.Paren:
        node = node.this
    return node


def _name_of(node: Any) -> str:
    return _NAMES.get(type(node).__name__, f"such an expression ({type(node).__name__})")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."
