"""Creation of an object that must not replace another one, by one conditional request."""

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
"""Largest size of such an object: not every store supports a condition at the end of a multipart upload."""

_ATTEMPTS = 5
_PAUSE = 0.1  # seconds after the first attempt; doubles


def put_new(location: ObjectLocation, data: bytearray) -> None:
    """Write an object if it does not exist.

    If the response to a request is lost, its retry fails because of the object that the first try wrote; the metadata
    of the object show that. A store may also refuse because of concurrent writers, none of which need succeed.

    Raises
    ------
    ConcurrentChangeError
        If it exists, and another writer wrote it.
    StorageError
        If the store refuses or does not respond. Without a response the object may still be created later.
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
    with translate_errors("cannot create the object", location.name):
        try:
            location.client.put(location.key, bytes(data), mode="create", attributes=attributes)
        except obstore.exceptions.AlreadyExistsError as error:
            raise ConcurrentChangeError("there is one already", path=location.name) from error


def _read_run(location: ObjectLocation, failure: ParquetBloomError) -> str | None:
    """Return the run that wrote the existing object, "" if it has no run, or None if there is no object."""
    try:
        with translate_errors("cannot read its attributes", location.name):
            return str(location.client.attributes(location.key).get(_run_key(location), ""))
    except (ConcurrentChangeError, StorageError) as error:
        if isinstance(error, StorageError) and is_missing(error):
            return None
        problem = f"{failure.problem}; cannot tell whether it was written (the object there is complete)"
        raise StorageError(problem, path=location.name, errno=getattr(failure, "errno", None)) from error


def _run_key(location: ObjectLocation) -> str:
    return RUN.replace("-", "_") if location.kind == "Azure" else RUN  # Azure requires an identifier
