"""Classification of failed requests: which ones are transient, and worth retrying."""

from __future__ import annotations

import re

STATUS = re.compile(r"status code: (\d{3}) ([^:\n]*)")
"""HTTP status and reason in the text of an obstore error."""

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_BUSY = frozenset({429, 503})
# obstore has classes for the failures that it recognizes; all others are a `GenericError` with a text.
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
# A response that is cut off, or not from the store, such as the page of a proxy.
_BROKEN = ("HTTP error", "response body", "invalid list response", "non-partial response", "error decoding")


class NoAnswerError(Exception):
    """A store did not answer in time."""


def parse_status(error: BaseException) -> int | None:
    """Return the HTTP status in the text of an obstore error, or None."""
    match = STATUS.search(str(error))
    return int(match[1]) if match else None


def is_busy(error: BaseException) -> bool:
    """Return whether a store reports too many requests."""
    return parse_status(error) in _BUSY


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed if it is retried."""
    if isinstance(error, NoAnswerError):
        return True
    if isinstance(error, FileNotFoundError) or type(error).__name__ in _FINAL:
        return False
    status = parse_status(error)
    if status is not None:
        return status in _PASSING
    text = str(error).partition("\n\nDebug source:")[0]
    return "builder error" not in text and any(words in text for words in _BROKEN)
