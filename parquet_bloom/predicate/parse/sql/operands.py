"""Read columns and literals from sqlglot's expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ....errors import PredicateError
from ... import literal
from ..subject import Subject

if TYPE_CHECKING:
    from sqlglot import exp

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
