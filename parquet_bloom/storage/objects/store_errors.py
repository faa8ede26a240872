"""Conversion of obstore errors, whose texts have many lines of XML and debug output, to errors of this package."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError
from ...redaction import redacted, without_secrets
from ...util.threads import Stopped

STATUS = re.compile(r"status code: (\d{3}) ([^:\n]*)")
"""HTTP status and reason in the text of an obstore error."""

# A response that is not from the store, such as the page of a proxy: obstore does not repeat the request.
_BROKEN = ("invalid list response", "non-partial response", "error decoding")
# obstore's text of a request that was not answered in time, and how long it waited with its retries.
_TIMED_OUT = re.compile(r" in ([\d.]+)(ms|s)\b(?s:.*?)kind: Timeout")


def parse_status(error: BaseException) -> int | None:
    """Return the HTTP status in the text of an obstore error, or None."""
    match = STATUS.search(str(error))
    return int(match[1]) if match else None


class NoListingError(Exception):
    """A response to a listing is not one."""


def is_broken(error: BaseException) -> bool:
    """Return whether a response was not the store's, or was cut off."""
    return isinstance(error, NoListingError) or any(words in first_line(error) for words in _BROKEN)


def is_unanswered(error: BaseException) -> bool:
    """Return whether a store has not answered, or not like a store, after all retries."""
    text = str(error)
    status = parse_status(error)
    return is_broken(error) or "HTTP error" in text or (status is not None and (status >= 500 or status == 429))


_XML_ERROR = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_NO_OBJECT = "there is no such object"
_CHANGED = "it was changed while it was being read"
_MISSING_BUCKETS = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_USED_BY: dict[str, int] = {}
_LENGTH = 300  # longest text of an error without structure, in characters

# System errors by their texts, which are all that obstore passes on.
_NUMBERS = (
    (errno.ECONNREFUSED, "Connection refused"),
    (errno.ECONNRESET, "Connection reset"),
    (errno.ENETUNREACH, "Network is unreachable"),
    (errno.EHOSTUNREACH, "dns error"),
    (errno.ETIMEDOUT, "TimedOut"),
)


def first_line(error: BaseException) -> str:
    """Return the text of an obstore error on one line, without its debug output."""
    text = redacted(str(error).split("\n\nDebug source:")[0])  # before truncation: a part of a secret is not recognized
    return " ".join(text.split())[:_LENGTH] or type(error).__name__


@contextmanager
def translate_errors(action: str, name: str, opened: bool = False) -> Iterator[None]:
    """Convert errors of obstore that are raised inside this context; see `convert_error`."""
    require_own_process(name)
    try:
        yield
    except (ParquetBloomError, Stopped):
        raise
    except Exception as error:
        raise convert_error(error, action, name, opened) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise StorageError(f"{action}: {first_line(error)}", path=name, errno=errno.EIO) from error


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a Rust panic, in obstore for one, which is not a subclass of `Exception`."""
    return type(error).__name__ == "PanicException"


def require_own_process(name: str) -> None:
    """Raise StorageError in a fork of a process that has used obstore, where requests would block for ever."""
    process = os.getpid()
    if _USED_BY.setdefault("process", process) != process:
        problem = "object stores cannot be read in a fork of a process that has read some: start processes by spawn"
        raise StorageError(problem, path=name)


def convert_error(error: Exception, action: str, name: str, opened: bool = False) -> ParquetBloomError:
    """Convert an obstore error to an error of this package.

    Parameters
    ----------
    action : what failed, such as "cannot open".
    opened : whether the object existed before, so that its absence is a concurrent change.
    """
    text, kind, status = redacted(str(error)), type(error).__name__, parse_status(error)
    without_secrets(error)
    waited = _TIMED_OUT.search(text)
    if waited:
        number = float(waited[1]) * (1e-3 if waited[2] == "ms" else 1)
        return StorageError(f"{action}: no answer within {number:.3g} s", path=name, errno=errno.ETIMEDOUT)
    if kind == "PreconditionError" or status == 412 or (opened and status == 416):
        return ConcurrentChangeError(_CHANGED, path=name)
    if isinstance(error, FileNotFoundError) or status == 404:
        if any(marker in text for marker in _MISSING_BUCKETS):
            return StorageError("there is no such bucket", path=name, errno=errno.ENOENT)
        if opened:
            return ConcurrentChangeError("it was removed while it was being read", path=name)
        return StorageError(_NO_OBJECT, path=name, errno=errno.ENOENT)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        return StorageError(f"{action}: access denied{_format_xml_reason(text)}", path=name, errno=errno.EACCES)
    if kind == "NotSupportedError" and "Range" in text:
        problem = f"{action}: the server does not answer requests for ranges of bytes"
        return StorageError(problem, path=name, errno=errno.EOPNOTSUPP)
    if "builder error" in text and "GET http://" in text and not text.startswith("Generic HTTP error"):
        problem = f"{action}: the endpoint is http://, which has to be allowed: allow_http=true"
        return StorageError(problem, path=name, errno=errno.EACCES)
    for number, words in _NUMBERS:
        if words in text:
            return StorageError(f"{action}: {os.strerror(number)}", path=name, errno=number)
    match = STATUS.search(text)
    reason = (
        f"the server answers {match[1]} {match[2].strip()}{_format_xml_reason(text)}" if match else first_line(error)
    )
    return StorageError(f"{action}: {reason}", path=name, errno=errno.EIO if match else getattr(error, "errno", None))


def is_missing(error: StorageError) -> bool:
    """Return whether an error says that an object, not its bucket, does not exist."""
    return error.problem == _NO_OBJECT


def make_changed_error(name: str) -> ConcurrentChangeError:
    """Return the error for a response of another version."""
    return ConcurrentChangeError(_CHANGED, path=name)


def _format_xml_reason(text: str) -> str:
    """Return the reason in the XML of a response, to be appended to a message; "" without one."""
    match = _XML_ERROR.search(text)
    if not match:
        return ""
    return f" ({': '.join(' '.join(part.split()) for part in match.groups() if part)[:_LENGTH]})"
