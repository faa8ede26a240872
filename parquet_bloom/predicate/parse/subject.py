"""What a comparison is about: a column, or a function of one."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import PredicateError
from .. import literal
from ..tree import CallIn, CallNotIn, Compare, Equal, In, Node, NotEqual, call_text


class Subject(NamedTuple):
    """The left side of a comparison.

    Attributes
    ----------
    name : dotted name of the column.
    function : one of `tree.FUNCTIONS`; empty for the column itself.
    is_exact : False where an engine evaluates the comparison again, see `tree.CallIn`.
    """

    name: str
    function: str = ""
    is_exact: bool = True

    def compare(self, operator: str, value: literal.Literal) -> Node:
        """Return the predicate of a comparison by `=`, `<>`, `<`, `<=`, `>` or `>=`.

        Raises
        ------
        PredicateError
            A function is not compared for equality, or not with a text.
        """
        if self.function:
            if operator not in ("=", "<>"):
                problem = f"{call_text(self.function, self.name)} can be compared by =, <> and IN only"
                raise PredicateError(problem, column=self.name)
            return (CallIn if operator == "=" else CallNotIn)(self.name, self.function, (value,), self.is_exact)
        if operator == "=":
            return Equal(self.name, value)
        return NotEqual(self.name, value) if operator == "<>" else Compare(self.name, operator, value)

    def is_in(self, values: tuple[literal.Literal, ...]) -> Node:
        """Return the predicate that it is one of some values; raises as `compare`."""
        return CallIn(self.name, self.function, values, self.is_exact) if self.function else In(self.name, values)
