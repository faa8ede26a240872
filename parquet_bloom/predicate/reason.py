"""Reasons in a plan: text for people, with the kind and the column that code needs, so that no text is parsed again."""

from __future__ import annotations

from typing import Final, Literal

ReasonKind = Literal["missing", "ignored", "undecided"]

MISSING: Final = "missing"
"""The file does not have the column."""

IGNORED: Final = "ignored"
"""The file has the column, but its evidence must not be used, since an engine reads other values, for one."""

UNDECIDED: Final = "undecided"
"""Evidence that could not be used, such as a broken filter, or a literal that it cannot be compared with."""


class Reason(str):
    """Why evidence could not be used. It is the message itself, so reports show and compare it as text.

    Parameters
    ----------
    text : the problem.
    kind : what the problem is about.
    column : the column that it concerns; the message then begins with its name. None for none.

    Attributes
    ----------
    kind, column : as given.
    """

    kind: ReasonKind
    column: str | None

    def __new__(cls, text: str, kind: ReasonKind = UNDECIDED, column: str | None = None) -> Reason:
        reason = super().__new__(cls, text if column is None else f"'{column}': {text}")
        reason.kind = kind
        reason.column = column
        return reason

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (str(self), self.kind, self.column)


def make_ignored(problem: str, column: str) -> Reason:
    """Return the reason for not using a column's evidence; a `problem` that is a Reason keeps its kind."""
    return Reason(problem, problem.kind if isinstance(problem, Reason) else IGNORED, column)


def _restore(message: str, kind: ReasonKind, column: str | None) -> Reason:
    reason = Reason(message, kind)
    reason.column = column
    return reason
