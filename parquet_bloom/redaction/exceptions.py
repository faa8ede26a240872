"""Remove secrets from the texts of exceptions, including those of libraries, and of their causes and contexts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .texts import redacted, redacted_in


class LibraryError(Exception):
    """Replaces an exception of a library whose text holds secrets and cannot be changed.

    Attributes
    ----------
    kind : name of the original class.
    """

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[0]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.kind)


def without_secrets(error: BaseException) -> BaseException:
    """Remove secrets from an exception, its causes and contexts, so that its traceback can be printed.

    Texts and attributes are changed in place, so that callers can still use the exception's class or the status of a
    response. An exception without secrets is not changed.

    Returns
    -------
    The exception, or a `LibraryError` that replaces one whose text cannot be changed: raise `from` the result.
    """
    return _without_secrets(error, {})


def _without_secrets(error: BaseException, done: dict[int, BaseException]) -> BaseException:
    if id(error) in done:
        return done[id(error)]
    done[id(error)] = error
    replacement = done[id(error)] = error if _redact_text(error) else _make_library_error(error)
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    if cause is not None:
        replacement.__cause__ = _without_secrets(cause, done)
    if context is not None:
        replacement.__context__ = _without_secrets(context, done)
    replacement.__suppress_context__ = suppressed
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            _without_secrets(one, done)
    return replacement


def _format(error: BaseException) -> str:
    """Return the text that a traceback shows of one exception."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return "\n".join([text, *map(str, getattr(error, "__notes__", ()))])


def _redact_text(error: BaseException) -> bool:
    """Remove secrets from the text of one exception; return whether none are left in it."""
    before = _format(error)
    if redacted(before) == before:
        return True
    with suppress(Exception):
        error.args = tuple(_without_secrets_in(one) for one in error.args)
    for name in ("filename", "filename2", "strerror", *getattr(error, "__dict__", ())):
        with suppress(Exception):
            value = getattr(error, name)
            if value is not None:
                setattr(error, name, _without_secrets_in(value))
    after = _format(error)
    return redacted(after) == after


def _without_secrets_in(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, BaseException) else redacted_in(value)


def _make_library_error(error: BaseException) -> LibraryError:
    replacement = LibraryError(redacted(_format(error)), type(error).__name__)
    return replacement.with_traceback(error.__traceback__)
