"""Parse a WHERE condition in SQL into the predicate tree, by means of sqlglot, which is imported when first needed.

Simple conditions do not need it: `simple` parses those to the same tree, and leaves all others to `fold_sql`.

sqlglot's parser turns a construct that it does not know into something similar. So the text is first split at AND, OR
and their parentheses (see `tokens`), sqlglot parses one comparison at a time, and only results that are known to have
the same meaning are accepted.

The default dialect: names are unquoted or in double quotes or backticks, strings in single quotes, a quote within is
doubled, and a backslash is an ordinary character. Names keep their case. `"a.b"` is one name, represented like the path
a.b (see `tree`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import PredicateError
from .. import literal
from ..calls import Subject
from ..tree import And, Compare, Contains, IsNotNull, IsNull, Node, all_of, any_of, negation
from .sql_tokens import Builder, SqlText, T, find_dialect, shorten, silence_sqlglot

if TYPE_CHECKING:
    from sqlglot import exp


# By sqlglot's name, or by the SQL name where sqlglot does not know the function. ARRAY_CONTAINS of Snowflake, which
# takes the list last, and `contains` of DuckDB, which also takes strings, are not supported.
_ONE = frozenset({"ArrayContains", "list_contains", "list_has", "array_has"})
_ANY = frozenset({"ArrayOverlaps", "list_has_any", "array_has_any", "arrays_overlap"})
_ALL = frozenset({"ArrayContainsAll", "list_has_all", "array_has_all"})


class ListComparison(NamedTuple):
    """A comparison of a list column with literals.

    Attributes
    ----------
    column, literals : sqlglot's nodes.
    is_any : whether one of the literals suffices; otherwise the list must contain all of them.
    """

    column: Any
    literals: list[Any]
    is_any: bool


def find_list_comparison(node: Any, exp: Any) -> ListComparison | None:
    """Return the list comparison of a node of sqlglot; None for other nodes."""
    name, operands = type(node).__name__, _find_operands(node, exp)
    if name == "Anonymous":
        name = str(node.this).lower()
    if name == "EQ" and type(node.expression) is exp.Any:  # literal = ANY(column)
        column = node.expression.this.unnest()
        return ListComparison(column, [node.this], True) if type(column) in (exp.Column, exp.Dot) else None
    if operands is None:
        return None
    column, values = operands
    if name in _ONE:
        return ListComparison(column, [values], True)
    if name in _ANY | _ALL and type(values) is exp.Array:
        return ListComparison(column, list(values.expressions), name in _ANY)
    return None


def _find_operands(node: Any, exp: Any) -> list[Any] | None:
    """Return the operands of a function or operator that has exactly two arguments; else None."""
    if type(node) is exp.Anonymous:
        return list(node.expressions) if len(node.expressions) == 2 else None
    if any(value for name, value in node.args.items() if name not in ("this", "expression")):
        return None
    operands = [node.args.get("this"), node.args.get("expression")]
    return None if None in operands else operands


SUPPORTED = (
    "supported are =, <=>, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, AND, OR, NOT and array_contains over columns,"
    " lower(x), upper(x), literals"
)

_UNQUOTED = re.compile(r"\w+")

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

# Names of unsupported constructs in messages.
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


class Operands:
    """Reads columns and literals.

    Parameters
    ----------
    exp : the expressions module of sqlglot, which this module does not import.
    casts_exactly : whether casts to texts are what `predicate.calls` says in this dialect.
    """

    def __init__(self, exp: Any, casts_exactly: bool = False) -> None:
        self.exp = exp
        self._casts_exactly = casts_exactly

    def refusal(self, node: exp.Expression) -> PredicateError:
        """Make the error for a construct that is not supported."""
        if type(node) is self.exp.Anonymous:
            name = f"the function {node.name}"
        elif isinstance(node, self.exp.Func) and type(node).__name__ not in _NAMES:
            name = f"the function {node.sql_name()}"
        else:
            name = _name_construct(node)
        return PredicateError(f"{name} is not supported; {SUPPORTED}")

    def is_column(self, node: exp.Expression) -> bool:
        """Return whether a node is a column or a field of one."""
        while type(node) is self.exp.Dot:
            node = node.this
        return type(node) is self.exp.Column

    def is_subject(self, node: exp.Expression) -> bool:
        """Return whether a node is a column, or a function of one that can be compared."""
        inner = self._find_argument(node)
        return self.is_column(node) or (inner is not None and self.is_column(inner))

    def subject(self, node: exp.Expression) -> Subject:
        """Return the column, or function of one, that a node is; raises as `column`."""
        inner = self._find_argument(strip_parentheses(node, self.exp))
        if inner is None or not self.is_column(inner):
            return Subject(self.column(node))
        return Subject(self.column(inner), self._find_function(strip_parentheses(node, self.exp)))

    def _find_function(self, node: exp.Expression) -> str:
        """Return the function of `tree.FUNCTIONS` that a node is; empty for others."""
        exp = self.exp
        name = {exp.Lower: "lower", exp.Upper: "upper", exp.Cast: "string", exp.TryCast: "string"}.get(type(node), "")
        if name != "string":
            return name
        to, types = node.args["to"], exp.DataType.Type
        is_text = to.this in (types.TEXT, types.VARCHAR)
        is_plain = not any(value for key, value in to.args.items() if key not in ("this", "nested"))
        others = any(value for key, value in node.args.items() if key not in ("this", "to", "safe"))
        return name if is_text and is_plain and not others and self._casts_exactly else ""

    def _find_argument(self, node: exp.Expression) -> Any:
        """Return the argument of a function that can be compared; None for other nodes."""
        if not self._find_function(node):
            return None
        others = any(value for key, value in node.args.items() if key not in ("this", "to", "safe"))
        return None if others else strip_parentheses(node.this, self.exp)

    def column(self, node: exp.Expression) -> str:
        """Return the dotted name of a column or struct leaf.

        Raises
        ------
        PredicateError
            The node is something else.
        """
        exp = self.exp
        node = strip_parentheses(node, exp)
        parts: list[Any] = []
        while type(node) is exp.Dot:
            parts.append(node.args["expression"])
            node = node.this
        if type(node) is not exp.Column or node.args.get("join_mark"):
            raise PredicateError(f"a column is expected, not {_name_construct(node)}; {SUPPORTED}")
        parts += [node.args.get(part) for part in ("this", "table", "db", "catalog") if node.args.get(part)]
        for part in parts:
            if type(part) is not exp.Identifier or not part.this:
                raise PredicateError(f"this is not a column name; {SUPPORTED}")
            if not part.args.get("quoted") and (not _UNQUOTED.fullmatch(part.this) or part.this.isdigit()):
                raise PredicateError(f"the name {part.this!r} must be quoted")
        return ".".join(part.this for part in reversed(parts))

    def value(self, node: exp.Expression) -> literal.Literal:
        """Return the value of a literal.

        Raises
        ------
        PredicateError
            The node is something else, or a literal that is not supported.
        """
        exp = self.exp
        negative = type(node) is exp.Neg
        if negative:
            node = strip_parentheses(node.this, exp)
        if type(node) is exp.Literal and not node.args.get("is_string"):
            return literal.parse_number(node.this, negative=negative)
        if negative:
            raise PredicateError(f"{_NAMES['Neg']} is not supported; {SUPPORTED}")
        if type(node) is exp.Literal:
            return str(node.this)
        if type(node) is exp.Boolean:
            return bool(node.this)
        if type(node) is exp.Null:
            return None
        if type(node) is exp.HexString:
            return literal.parse_hexadecimal(str(node.this))
        if type(node) in (exp.Cast, exp.TryCast):
            return self._parse_typed(node)
        if self.is_column(node):
            raise PredicateError(f"a literal is expected, not the column {self.column(node)}; {SUPPORTED}")
        raise self.refusal(node)

    def _parse_typed(self, node: exp.Expression) -> literal.Literal:
        """Read DATE '...' and the like, which sqlglot represents as casts of a text."""
        exp = self.exp
        text, to = strip_parentheses(node.this, exp), node.args["to"]
        other_arguments = [name for name, value in node.args.items() if value and name not in ("this", "to", "safe")]
        kind = _TYPES.get(getattr(to.this, "name", ""))
        is_text = type(text) is exp.Literal and text.args.get("is_string")
        if (
            other_arguments
            or kind is None
            or not is_text
            or any(value for name, value in to.args.items() if name != "this")
        ):
            raise self.refusal(node)
        return literal.parse_typed(kind, str(text.this))


def strip_parentheses(node: Any, exp: Any) -> Any:
    """Return the node inside any parentheses."""
    while type(node) is exp.Paren:
        node = node.this
    return node


def _name_construct(node: Any) -> str:
    return _NAMES.get(type(node).__name__, f"such an expression ({type(node).__name__})")


# Comparisons by sqlglot's names, and operators with their operands swapped.
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

TREE: Builder[Node] = Builder(lambda text, read: read(), negation, all_of, any_of)


def fold_sql(text: str, dialect: str | None, builder: Builder[T]) -> T:
    """Split a condition at NOT, AND, OR and parentheses, whatever the comparisons between them are.

    Parameters
    ----------
    text, dialect : as for `simple.parse_sql`.
    builder : receives the comparisons, supported or not, and the connectives; `TREE` makes the predicate tree of them.

    Raises
    ------
    PredicateError
        The text cannot be split: quotes or parentheses do not match, or a part is missing.
    """
    source = SqlText(text, find_dialect(dialect))
    return source.fold(builder, _Comparisons(source).read)


class _Comparisons:
    """Reads the comparisons of one condition."""

    def __init__(self, source: SqlText) -> None:
        self._source = source
        self._exp = source.exp
        self._operands = Operands(source.exp, source.casts_exactly)

    def read(self, start: int, stop: int) -> Node:
        """Parse the comparison of the tokens from start to stop.

        Raises
        ------
        PredicateError
            It is not supported.
        """
        for index in range(start, stop) if self._source.changed else ():
            if index in self._source.changed:
                raise PredicateError(self._source.changed[index])
        try:
            return self._parse_plain_in(start, stop) or self._convert(
                self._parse_with_sqlglot(start, stop), start, stop
            )
        except PredicateError as error:
            raise PredicateError(f"{self._source.piece(start, stop)}: {error.problem}") from None

    def _parse_with_sqlglot(self, start: int, stop: int) -> exp.Expression:
        """Parse some tokens with sqlglot."""
        source = self._source
        try:
            with silence_sqlglot():
                nodes = source.parser.parse_into(self._exp.Condition, source.tokens[start:stop], source.text)
        except RecursionError:
            raise PredicateError("nested too deeply") from None
        except Exception as error:
            details = getattr(error, "errors", None)
            context = details[0].get("highlight") if details and isinstance(details[0], dict) else None
            raise PredicateError("not understood" + (f" at {shorten(context)}" if context else "")) from None
        if len(nodes) != 1 or nodes[0] is None:
            raise PredicateError("not understood")
        return nodes[0]  # type: ignore[return-value]

    def _parse_plain_in(self, start: int, stop: int) -> Node | None:
        """Parse `x IN (...)` over numbers, strings, dates and UUIDs directly from the tokens: lists may be long."""
        types, tokens, last = self._source.types, self._source.tokens, stop - 1
        opening = next((i for i in range(start, stop) if tokens[i].token_type == types.IN), last) + 1
        if (
            self._source.closing.get(opening) != last
            or opening - 1 == start
            or tokens[opening - 2].token_type == types.NOT
        ):
            return None
        quick = {types.DATE: "date", types.UUID: "uuid"}  # the type of TIMESTAMP depends on the dialect
        values: list[literal.Literal] = []
        index = opening + 1
        while True:
            negative = tokens[index].token_type == types.DASH
            index += negative
            kind = tokens[index].token_type
            if kind == types.NUMBER:
                values.append(literal.parse_number(tokens[index].text, negative=negative))
            elif kind == types.STRING and not negative:
                values.append(tokens[index].text)
            elif kind in quick and tokens[index + 1].token_type == types.STRING and not negative:
                index += 1
                values.append(literal.parse_typed(quick[kind], tokens[index].text))
            else:
                return None
            index += 1
            if index == last:
                break
            if tokens[index].token_type != types.COMMA:
                return None
            index += 1
        return self._operands.subject(self._parse_with_sqlglot(start, opening - 1)).is_in(tuple(values))

    def _convert(self, node: exp.Expression, start: int, stop: int) -> Node:
        exp = self._exp
        comparison = find_list_comparison(node, exp)
        if comparison is not None:
            return self._convert_list_comparison(comparison, start, stop)
        if type(node) is exp.Not and type(node.this) in (exp.In, exp.Is, exp.Between):
            return negation(self._convert(node.this, start, stop))
        operator = _COMPARISONS.get(type(node).__name__)
        if operator:
            return self._convert_comparison(operator, node)
        if type(node) is exp.Is:
            if type(node.expression) is not exp.Null:
                raise PredicateError(f"IS takes NULL; {SUPPORTED}")
            return IsNull(self._operands.subject(node.this).name)  # of a function, too: its result is null for a null
        if type(node) is exp.Between:
            if any(value for name, value in node.args.items() if name not in ("this", "low", "high")):
                raise PredicateError(f"such a BETWEEN is not supported; {SUPPORTED}")
            column = self._operands.column(node.this)
            low, high = (self._operands.value(strip_parentheses(node.args[end], exp)) for end in ("low", "high"))
            return And((Compare(column, ">=", low), Compare(column, "<=", high)))
        if type(node) is exp.In:
            if any(value for name, value in node.args.items() if name not in ("this", "expressions")):
                raise PredicateError(f"IN takes a list of literals in parentheses; {SUPPORTED}")
            subject = self._operands.subject(node.this)
            values = tuple(self._operands.value(strip_parentheses(item, exp)) for item in node.expressions)
            # sqlglot accepts missing items: `IN (1,,2)`
            commas = sum(token.token_type == self._source.types.COMMA for token in self._source.tokens[start:stop])
            if (
                commas != max(0, len(values) - 1)
                or self._source.tokens[stop - 1].token_type != self._source.types.R_PAREN
            ):
                raise PredicateError("a literal is missing in the list")
            return subject.is_in(values)
        raise self._operands.refusal(node)

    def _count_commas(self, start: int, stop: int) -> int:
        return sum(token.token_type == self._source.types.COMMA for token in self._source.tokens[start:stop])

    def _convert_list_comparison(self, comparison: ListComparison, start: int, stop: int) -> Node:
        values = [self._operands.value(strip_parentheses(item, self._exp)) for item in comparison.literals]
        # sqlglot accepts missing items
        is_call = self._source.closing.get(start + 1) == stop - 1
        if (
            self._count_commas(start, stop) != len(values) - 1 + is_call
            or not values
            or (len(values) > 1 and None in values)
        ):
            raise PredicateError("a list of literals is expected, none of them missing or NULL")
        column = self._operands.column(comparison.column)
        return (any_of if comparison.is_any else all_of)([Contains(column, value) for value in values])

    def _convert_comparison(self, operator: str, node: exp.Expression) -> Node:
        """Convert a comparison of a column with a literal, in either order."""
        exp, source = self._exp, self._source
        left, right = strip_parentheses(node.this, exp), strip_parentheses(node.expression, exp)
        if self._operands.is_column(left) and self._operands.is_column(right):
            hint = ""
            if '"' in source.text and not source.backslash and right.find(exp.Identifier).args.get("quoted"):
                hint = " (double quotes are for names, texts take single quotes)"
            raise PredicateError(f"a comparison of two columns{hint} is not supported; {SUPPORTED}")
        if self._operands.is_subject(right):
            left, right, operator = right, left, _SWAPPED.get(operator, operator)
        if not self._operands.is_subject(left):
            self._operands.value(right)
            self._operands.value(left)
            raise PredicateError(f"a comparison without a column is not supported; {SUPPORTED}")
        subject, value = self._operands.subject(left), self._operands.value(right)
        if operator not in ("<=>", "distinct"):
            return subject.compare(operator, value)
        if value is None:
            equality: Node = IsNull(subject.name)
        else:
            equality = And((IsNotNull(subject.name), subject.compare("=", value)))
        return equality if operator == "<=>" else negation(equality)
