"""Error responses: a status, and one line that says why."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence

from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import BrokenIndexError, IndexInUseError, ParquetBloomError, StorageError, UnknownColumnError, printable
from ..errors import shortened as cut
from ..redaction import redacted

_MAX_CHARACTERS = 500
_MISSING = (errno.ENOENT, errno.ENOTDIR)


class ApiError(HTTPException):
    """A request that is answered with an error.

    Parameters
    ----------
    status : HTTP status.
    problem : the reason, on one line.
    close : whether to close the connection, because not all of the request was read.
    """

    def __init__(self, status: int, problem: str, *, close: bool = False, headers: Mapping[str, str] | None = None):
        all_headers = dict(headers or {})
        if close:
            all_headers["connection"] = "close"
        super().__init__(status, shorten(problem), all_headers or None)


def shorten(text: str) -> str:
    """Format a message on one line of limited length, without control characters, as clients print it."""
    return cut(printable(" ".join(text.split())), _MAX_CHARACTERS)


def encode_json(document: object) -> bytes:
    """Encode as JSON in ASCII; file names that are not valid Unicode are escaped as surrogates, as in Python."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON response of a document, or of one that is already encoded."""
    body = document if isinstance(document, bytes) else encode_json(document)
    return Response(body, status, dict(headers or {}), "application/json")


def error_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_response({"error": shorten(text)}, status, headers)


def hide_index_path(text: str, index: str) -> str:
    """Replace the index's folder at the start of a message by "index", as clients need not know where it is.

    Parameters
    ----------
    text : the message.
    index : path of the index.
    """
    folder = printable(index.rstrip("/"))
    return "index" + text[len(folder) :] if folder and text.startswith((f"{folder}/", f"{folder}:")) else text


def leads_outside(error: ParquetBloomError) -> bool:
    """Return whether a file is named by a link that leads out of the lake; nothing is known of what is there."""
    return isinstance(error, StorageError) and error.errno == errno.EXDEV


def outside_answer(error: ParquetBloomError) -> ApiError:
    """Return the answer where `leads_outside`."""
    return ApiError(403, f"{error.path}: it is outside of the lake's folders and of the allowed roots (--root FOLDER)")


def lookup_error(error: ParquetBloomError, index: str) -> ApiError:
    """Turn the error of a lookup into a response; `index` is the path of the index."""
    text = hide_index_path(str(error), index)
    if isinstance(error, UnknownColumnError):
        return ApiError(404, text)
    if leads_outside(error):
        return outside_answer(error)
    if isinstance(error, (StorageError, BrokenIndexError)):
        return ApiError(500, text)
    return ApiError(422, text)


def change_error(error: ParquetBloomError, index: str) -> ApiError:
    """Turn the error of a change into a response: caused by the client's files, another writer, or the index itself.

    Parameters
    ----------
    error : the error.
    index : path of the index; errors in its files are server errors.
    """
    text = hide_index_path(str(error), index)
    if leads_outside(error):
        return outside_answer(error)
    if isinstance(error, IndexInUseError):
        return ApiError(409, text, headers={"retry-after": "1"})
    index = redacted(index)  # as paths of errors are
    of_index = error.path is None or error.path == index or error.path.startswith(index.rstrip("/") + "/")
    if isinstance(error, BrokenIndexError) or (of_index and isinstance(error, StorageError)):
        return ApiError(500, text)
    if isinstance(error, StorageError) and error.errno in _MISSING:
        return ApiError(404, text)
    return ApiError(422, text)


def describe_validation_errors(errors: Sequence[ErrorDetails]) -> str:
    """Describe the first validation errors of a request on one line."""
    problems = []
    for error in errors[:3]:
        where = ""
        for part in error["loc"][1:]:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
        text = str(error["msg"]).removeprefix("Value error, ")
        text = text[:1].lower() + text[1:]
        if error["type"] == "missing" and not where:
            text = "the request has no body: send a JSON object"
        problems.append(f"{where}: {text}" if where else text)
    if len(errors) > 3:
        problems.append(f"and {len(errors) - 3} more")
    return "; ".join(problems)
