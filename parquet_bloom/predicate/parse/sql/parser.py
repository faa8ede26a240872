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

from typing import TYPE_CHECKING

from ....errors import PredicateError
from ... import literal
from ...tree import (
    And,
    Compare,
    Contains,
    IsNotNull,
    IsNull,
    Node,
    all_of,
    any_of,
    negation,
)
from .lists import ListComparison, find_list_comparison
from .operands import SUPPORTED, Operands, strip_parentheses
from .tokens import Builder, Source, T, find_dialect, shorten, silence_sqlglot

if TYPE_CHECKING:
    from sqlglot import exp

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
    source = Source(text, find_dialect(dialect))
    return source.fold(builder, _Comparisons(source).read)


class _Comparisons:
    """Reads the comparisons of one condition."""

    def __init__(self, source: Source) -> None:
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
