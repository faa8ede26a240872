"""Exceptions, libraries' among them, without the secrets in their texts and in those of what led to them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .texts import redacted, redacted_in


class LibraryError(Exception):
    """Stands for an exception of a library whose text holds secrets that cannot be taken out of it.

    Attributes
    ----------
    kind : the class that it had.
    """

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[0]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.kind)


def without_secrets(error: BaseException) -> BaseException:
    """Take secrets out of an exception and of all that led to it, so that its traceback can be printed.

    Exceptions stay the objects that they are, for those who look at their class or at an answer's status; their texts
    and attributes are changed. Nothing is touched of an exception that holds no secret.

    Returns
    -------
    The exception, or a `LibraryError` that stands for one whose text cannot be changed: raise `from` what is returned.
    """
    return _without_secrets(error, {})


def _without_secrets(error: BaseException, done: dict[int, BaseException]) -> BaseException:
    if id(error) in done:
        return done[id(error)]
    done[id(error)] = error
    instead = done[id(error)] = error if _changed(error) else _make_library_error(error)
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    if cause is not None:
        instead.__cause__ = _without_secrets(cause, done)
    if context is not None:
        instead.__context__ = _without_secrets(context, done)
    instead.__suppress_context__ = suppressed
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            _without_secrets(one, done)
    return instead


def _shown(error: BaseException) -> str:
    """What a traceback shows of one exception."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return "\n".join([text, *map(str, getattr(error, "__notes__", ()))])


def _changed(error: BaseException) -> bool:
    """Take secrets out of an exception's own text, and tell whether there are none in it now."""
    before = _shown(error)
    if redacted(before) == before:
        return True
    with suppress(Exception):
        error.args = tuple(_without_secrets_in(one) for one in error.args)
    for name in ("filename", "filename2", "strerror", *getattr(error, "__dict__", ())):
        with suppress(Exception):
            value = getattr(error, name)
            if value is not None:
                setattr(error, name, _without_secrets_in(value))
    after = _shown(error)
    return redacted(after) == after


def _without_secrets_in(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, BaseException) else redacted_in(value)


def _make_library_error(error: BaseException) -> LibraryError:
    instead = LibraryError(redacted(_shown(error)), type(error).__name__)
    return instead.with_traceback(error.__traceback__)
