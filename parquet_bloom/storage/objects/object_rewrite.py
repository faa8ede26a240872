"""Writing of an object: parts are uploaded as they are written, and become an object at the end."""

from __future__ import annotations

import errno
import queue
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ...errors import ConcurrentChangeError, ParquetBloomError, StorageError
from ...util import threads
from ...util.lazy import late_module
from ..new_file import COPIED_BYTES, Rewrite
from ..source import Source
from .location import ObjectLocation
from .object_state import PROBE, RUN
from .store_errors import is_missing, require_own_process, translate_errors

if TYPE_CHECKING:
    import obstore
else:
    obstore = late_module("obstore")

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


_PROVEN: WeakSet[Any] = WeakSet()  # clients whose stores have shown that they keep what is there


def prove_create(folder: ObjectLocation) -> None:
    """Check once for each client that the store refuses to create an object that exists: some overwrite it.

    Parameters
    ----------
    folder : where an object is written and deleted for that.

    Raises
    ------
    StorageError
        The store overwrites it, or this cannot be checked.
    """
    if folder.client in _PROVEN:
        return
    probe = folder.at(f"{folder.key}/{PROBE}{uuid.uuid4().hex}")
    put_new(probe, bytearray(b"first"))
    try:
        put_new(probe, bytearray(b"second"))
    except ConcurrentChangeError:
        _PROVEN.add(folder.client)
    else:
        problem = (
            "the store overwrites objects that are only to be created if there are none (If-None-Match is ignored)"
        )
        raise StorageError(f"{problem}: two writers would overwrite each other's commits", path=folder.name)
    finally:
        with translate_errors("cannot delete it", probe.name):
            probe.client.delete([probe.key])


def _put_if_none(location: ObjectLocation, data: bytearray, run: str) -> None:
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


PART_BYTES = 16 * 1024 * 1024
"""Size of a part: S3 allows 10,000 parts, so objects have up to 160 GB. A smaller object takes a single request."""

_PARALLEL = 4
_WAIT = 0.1  # seconds between checks whether the upload is still running
_MOMENT = 0.4  # seconds to wait for the abort of an upload after an interrupt


class ObjectRewrite(Rewrite):
    """New object in any store; an existing object is replaced when the upload is complete, not before.

    Concurrent changes of the target are not noticed. An abandoned upload is aborted; the upload of a killed process
    stays in the store, invisible to readers, until a lifecycle rule of the bucket removes it.

    With `new` nothing is replaced: the store creates the object, in one request, if the key does not exist.
    """

    def __init__(self, source: Source | None, location: ObjectLocation, new: bool = False) -> None:
        super().__init__(source, location.name)
        self._location = location
        self._new = new
        self._part = bytearray()
        self._upload: _Upload | None = None

    def _begin(self) -> None:
        if not self._location.can_list:
            problem = "cannot write to a web server; write to the URL of an object store, or to a local path"
            raise StorageError(problem, path=self.path, errno=errno.EROFS)
        if not self._location.key or self.path.endswith("/"):
            raise StorageError("cannot write: the URL does not name an object", path=self.path, errno=errno.EISDIR)

    def _copy(self, source: Source, length: int) -> None:
        for offset in range(0, length, COPIED_BYTES):
            self._write(memoryview(source.read_at(offset, min(COPIED_BYTES, length - offset))))

    def _write(self, data: memoryview) -> None:
        if self._new:
            if len(self._part) + len(data) > NEW_BYTES:
                raise StorageError(f"a new object has at most {NEW_BYTES} bytes", path=self.path, errno=errno.EFBIG)
            self._part += data
            return
        while len(data):
            room = PART_BYTES - len(self._part)
            self._part += data[:room]
            data = data[room:]
            if len(self._part) == PART_BYTES:
                self._send()

    def _send(self) -> None:
        if self._upload is None:
            self._upload = _Upload(self._location)
        part, self._part = self._part, bytearray()
        self._upload.send(part)

    def _commit(self) -> None:
        if self._source is not None:
            self._source.check_unchanged()
        if self._new:
            put_new(self._location, self._part)
            return
        if self._upload is None:
            _put_object(self._location, self._part)
            return
        if self._part:
            self._send()
        self._upload.finish()

    def _undo(self) -> None:
        if self._upload is not None:
            self._upload.abort()
        self._tidy()

    def _tidy(self) -> None:
        self._upload = None
        self._part = bytearray()


def _put_object(location: ObjectLocation, data: bytearray) -> None:
    with translate_errors("cannot write the object", location.name):
        location.client.put(location.key, bytes(data))


class _AbortUpload(Exception):
    """Raised inside the upload to abort it."""


class _Upload:
    """Thread in which obstore pulls the parts of an upload from a queue."""

    def __init__(self, location: ObjectLocation) -> None:
        require_own_process(location.name)
        self._location = location
        self._parts: queue.Queue[bytearray | _AbortUpload | None] = queue.Queue(maxsize=1)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="parquet_bloom upload", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            obstore.put(
                self._location.store,
                self._location.key,
                self._iterate_parts(),
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_PARALLEL,
            )
        except BaseException as error:  # raised again in the thread that writes
            self._error = error

    def _iterate_parts(self) -> Iterator[bytes]:
        while True:
            part = self._parts.get()
            if isinstance(part, _AbortUpload):
                raise part  # and obstore aborts the upload
            if part is None:
                return
            yield bytes(part)

    def send(self, part: bytearray | _AbortUpload | None) -> None:
        """Queue a part; waits while earlier parts are being uploaded."""
        while self._thread.is_alive():
            try:
                self._parts.put(part, timeout=_WAIT)
                return
            except queue.Full:
                threads.raise_if_stopped()
        self._raise()

    def finish(self) -> None:
        """Complete the upload, which creates the object."""
        self.send(None)
        while self._thread.is_alive():
            self._thread.join(_WAIT)
            threads.raise_if_stopped()
        self._raise()

    def abort(self) -> None:
        """Abort the upload and ignore its errors; after an interrupt, only wait for a moment."""
        error = sys.exception()
        interrupted = error is not None and (not isinstance(error, Exception) or isinstance(error, threads.Stopped))
        end = time.monotonic() + (_MOMENT if interrupted else self._location.client.patience)
        sent = False
        while self._thread.is_alive() and time.monotonic() < end:
            try:
                if not sent:
                    self._parts.put(_AbortUpload(), timeout=_WAIT)
                    sent = True
            except queue.Full:
                continue
            self._thread.join(_WAIT)
        if error is not None and self._thread.is_alive():
            error.add_note("an unfinished upload may be left")

    def _raise(self) -> None:
        with translate_errors("cannot write the new object", self._location.name):
            if self._error is not None:
                raise self._error
