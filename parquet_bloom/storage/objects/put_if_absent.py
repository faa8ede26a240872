"""An object that must not replace another: one request, on the condition that there is none."""

from __future__ import annotations

import errno
import time
import uuid
from typing import Any

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError
from .errors import is_missing, translate_errors
from .location import ObjectLocation
from .s3.attributes import RUN

NEW_BYTES = 1 << 30
"""What such an object can have: not every store takes a condition at the end of an upload in parts."""

_ATTEMPTS = 5
_PAUSE = 0.1  # seconds after the first one; doubles


def put_new(location: ObjectLocation, data: bytearray) -> None:
    """Write an object if there is none.

    A request whose answer got lost is sent again, and is then refused on account of the object that it has written
    itself: which one that is, its metadata tell. A store may also refuse because others write at the same moment,
    none of whom need succeed.

    Raises
    ------
    ConcurrentChangeError
        There is one, and it is another writer's.
    StorageError
        The store refuses, or cannot be asked. If the last word was no answer, the object may still come to be.
    """
    run = uuid.uuid4().hex
    for attempt in range(_ATTEMPTS):
        try:
            _put_if_none(location, data, run)
            return
        except (ConcurrentChangeError, StorageError) as error:
            if isinstance(error, StorageError) and error.errno == errno.EACCES:
                raise
            current_run = _read_run(location, error)
            if current_run == run:
                return
            if current_run is not None or isinstance(error, StorageError):
                raise
        time.sleep(_PAUSE * 2**attempt)
    raise ConcurrentChangeError("others keep writing it at the same time", path=location.name)


def _put_if_none(location: ObjectLocation, data: bytearray, run: str) -> None:
    import obstore

    attributes: dict[str, Any] | None = None if location.kind == "Local" else {_run_key(location): run}
    with translate_errors("cannot put the new object in its place", location.name):
        try:
            location.client.put(location.key, bytes(data), mode="create", attributes=attributes)
        except obstore.exceptions.AlreadyExistsError as error:
            raise ConcurrentChangeError("there is one already", path=location.name) from error


def _read_run(location: ObjectLocation, failure: ParquetBloomError) -> str | None:
    """The run that wrote the object which stands there, "" for one that does not say; None if there is none."""
    try:
        with translate_errors("cannot look at it", location.name):
            return str(location.client.attributes(location.key).get(_run_key(location), ""))
    except (ConcurrentChangeError, StorageError) as error:
        if isinstance(error, StorageError) and is_missing(error):
            return None
        problem = f"{failure.problem}; cannot tell whether it was written (what stands there is whole)"
        raise StorageError(problem, path=location.name, errno=getattr(failure, "errno", None)) from error


def _run_key(location: ObjectLocation) -> str:
    return RUN.replace("-", "_") if location.kind == "Azure" else RUN  # there it must be an identifier
