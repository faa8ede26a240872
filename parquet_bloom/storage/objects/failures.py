"""Which failures of a request may pass, so that it is worth sending again."""

from __future__ import annotations

import re

STATUS = re.compile(r"status code: (\d{3}) ([^:\n]*)")
"""The status of an answer, and its reason, in an error of obstore's."""

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_BUSY = frozenset({429, 503})
# obstore names the kind of a failure where it knows one; everything else is a `GenericError` with a text.
_FINAL = frozenset(
    (
        "AlreadyExistsError",
        "InvalidPathError",
        "NotFoundError",
        "NotImplementedError",
        "NotModifiedError",
        "NotSupportedError",
        "PermissionDeniedError",
        "PreconditionError",
        "UnauthenticatedError",
        "UnknownConfigurationKeyError",
    )
)
# An answer that breaks off, or is none of the store's: a proxy's page, half a listing.
_BROKEN = ("HTTP error", "response body", "invalid list response", "non-partial response", "error decoding")


class NoAnswerError(Exception):
    """A store did not answer in time."""


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that the text of an error of obstore's has, or None."""
    match = STATUS.search(str(error))
    return int(match[1]) if match else None


def is_busy(error: BaseException) -> bool:
    """Return whether a store says that it gets too many requests."""
    return status_of(error) in _BUSY


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed when it is sent again."""
    if isinstance(error, NoAnswerError):
        return True
    if isinstance(error, FileNotFoundError) or type(error).__name__ in _FINAL:
        return False
    status = status_of(error)
    if status is not None:
        return status in _PASSING
    text = str(error).partition("\n\nDebug source:")[0]
    return "builder error" not in text and any(words in text for words in _BROKEN)
