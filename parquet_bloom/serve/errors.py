"""Every answer that is not what was asked for: a status, and one line that says why."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..errors import (
    BrokenIndexError,
    IndexInUseError,
    ParquetBloomError,
    StorageError,
    UnknownColumnError,
    printable,
)
from ..errors import shortened as cut
from ..redaction import redacted

_MOST_CHARACTERS = 500
_MISSING = (errno.ENOENT, errno.ENOTDIR)


class ApiError(HTTPException):
    """A request that is not answered.

    Parameters
    ----------
    status : of HTTP.
    problem : why, on one line.
    close : whether to close the connection, as not all of the request was read.
    """

    def __init__(
        self, status: int, error_response: str, *, close: bool = False, headers: Mapping[str, str] | None = None
    ):
        named = dict(headers or {})
        if close:
            named["connection"] = "close"
        super().__init__(status, shortened(error_response), named or None)


def shortened(text: str) -> str:
    """One line, not too long, without control characters: clients print it."""
    return cut(printable(" ".join(text.split())), _MOST_CHARACTERS)


def encode_json(document: Any) -> bytes:
    """JSON in ASCII: names of files that are no Unicode are escaped, and come back as Python has them."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response; `document` may be encoded already."""
    body = document if isinstance(document, bytes) else encode_json(document)
    return Response(body, status, dict(headers or {}), "application/json")


def error_response(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """The one form that every error has."""
    return json_response({"error": shortened(text)}, status, headers)


def hide_index_path(text: str, index: str) -> str:
    """What is said of a file, or of the index's own without the folder that it is in: that is no client's business.

    Parameters
    ----------
    index : path of the index.
    """
    folder = printable(index.rstrip("/"))
    return "index" + text[len(folder) :] if folder and text.startswith((f"{folder}/", f"{folder}:")) else text


def lookup_error(error: ParquetBloomError, index: str) -> ApiError:
    """What a lookup failed with, in the index of a path."""
    text = hide_index_path(str(error), index)
    if isinstance(error, UnknownColumnError):
        return ApiError(404, text)
    if isinstance(error, (StorageError, BrokenIndexError)):
        return ApiError(500, text)
    return ApiError(422, text)


def change_error(error: ParquetBloomError, index: str) -> ApiError:
    """What a change failed with: by the client's files, by another writer, or by the index itself.

    Parameters
    ----------
    index : path of the index; what is wrong in there is no client's fault.
    """
    text = hide_index_path(str(error), index)
    if isinstance(error, IndexInUseError):
        return ApiError(409, text, headers={"retry-after": "1"})
    index = redacted(index)  # as paths of errors are
    own = error.path is None or error.path == index or error.path.startswith(index.rstrip("/") + "/")
    if isinstance(error, BrokenIndexError) or (own and isinstance(error, StorageError)):
        return ApiError(500, text)
    if isinstance(error, StorageError) and error.errno in _MISSING:
        return ApiError(404, text)
    return ApiError(422, text)


def describe_validation_errors(errors: Sequence[Any]) -> str:
    """What a request does not have, or has and should not, for its first places."""
    told = []
    for error in errors[:3]:
        where = ""
        for part in error["loc"][1:]:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
        text = str(error["msg"]).removeprefix("Value error, ")
        text = text[:1].lower() + text[1:]
        told.append(f"{where}: {text}" if where else text)
    if len(errors) > 3:
        told.append(f"and {len(errors) - 3} more")
    return "; ".join(told)
