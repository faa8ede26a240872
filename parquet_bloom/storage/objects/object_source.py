"""Reading of objects through obstore: one request opens an object, and later ones read the same version."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...util.lazy import late_module
from .. import byte_ranges
from ..byte_ranges import Extents
from ..filesystem_source import RemoteIdentity
from ..source import REMEMBERED_BYTES, SeekableFile, Source
from .location import ListedObject, ObjectLocation
from .store_client import wait_for_all
from .store_errors import make_changed_error, parse_status, translate_errors

if TYPE_CHECKING:
    import obstore
    from obstore import GetOptions
else:
    obstore = late_module("obstore")

TAIL_BYTES = 64 * 1024
"""Number of last bytes that opening an object fetches; most footers fit."""

_PREFETCHED = 4096  # largest number of prefetched ranges
_PREFETCHED_BYTES = 256 * 1024 * 1024

_OTHER_RANGE = re.compile(r"Requested \d+\.\.\d+, got ")  # text of the obstore error for a response with another range

_EPOCH = datetime.fromtimestamp(0, UTC)


class ObjectSource(Source):
    """An object, as it was when it was opened or listed.

    Opening fetches the last 64 KiB of the object, together with its size and etag; they are kept, because the footer is
    in them. If a listing gave size and etag, opening makes no request. If the store cannot read from the end, opening
    takes two requests: for the size, and for the range.

    Every read is of the version that was opened: the server compares the etag (`If-Match`), and it is compared again
    here. Without an etag, or with a weak one, size and modification time are compared; these distinguish versions only
    as finely as the clock of the server (HTTP has seconds).

    Parameters
    ----------
    location : the object.
    listed : its description in a listing.

    Attributes
    ----------
    store, key : the obstore store, and the key of the object.
    e_tag : as the server wrote it; None if there is none.
    modified : modification time; None if the server does not report it, or the object was opened from a listing.
    tail : the last bytes of the object, as far as they were read; empty after `close`.

    Raises
    ------
    StorageError
        If the object does not exist or cannot be read, or if the server does not support range requests.
    """

    path: None
    identity: RemoteIdentity
    counts_arrow_file = True

    def __init__(self, location: ObjectLocation, listed: ListedObject | None = None):
        self.location = location
        self.name, self.path = location.name, None
        self.store, self.key = location.store, location.key
        self.size = 0
        self.e_tag: str | None = None
        self.modified: datetime | None = None
        self.tail = b""  # for files from `arrow_file`, even after `keep` replaces it
        self.client = location.client
        self._prefetched = Extents(max_extents=_PREFETCHED)
        if listed is not None and listed.e_tag is not None and listed.size is not None:
            self.size, self.e_tag = listed.size, listed.e_tag
            self._count(listed.requests, len(listed.tail))
            self._set_tail(listed.tail)
        else:
            self._open()
        self.identity = make_identity(location, self.size, self.e_tag, self.modified)

    @property
    def _pin(self) -> str | None:
        """The etag in requests; None for a weak etag, which never matches because servers use the strong comparison."""
        return None if self.e_tag is None or self.e_tag.startswith("W/") else self.e_tag

    def _open(self) -> None:
        answer = self._suffix() if self.location.kind != "Azure" else None
        if answer is None:
            self._set_metadata(self._head())
            self._set_tail(self._get(max(0, self.size - TAIL_BYTES), min(self.size, TAIL_BYTES)))
            return
        meta, start, tail = answer
        self._set_metadata(meta)
        length = min(self.size, TAIL_BYTES)
        if len(tail) != length or start != self.size - length:
            raise self._truncated_error(self.size - length, length, len(tail))
        self._set_tail(tail)

    def fetch(self, offset: int, length: int) -> bytes:
        """Fetch a range with one request, in a thread of the object's client."""
        with translate_errors(f"cannot read at offset {offset}", self.name, opened=True):
            return self._fetch(offset, length)

    def fetch_tail(self) -> bytes:
        """Fetch the last bytes of an object that was opened from a listing, in a thread of its client."""
        length = min(self.size, TAIL_BYTES)
        return self._fetch(self.size - length, length) if length else b""

    def _set_metadata(self, meta: dict[str, Any]) -> None:
        self.size, self.e_tag = meta["size"], meta["e_tag"]
        self.modified = None if meta["last_modified"] == _EPOCH else meta["last_modified"]

    def _suffix(self) -> tuple[dict[str, Any], int, bytes] | None:
        """Fetch the last bytes: return description, offset and bytes, or None if the store has no such request."""
        with translate_errors("cannot open", self.name):
            try:
                answer = self.client.get(self.key, {"range": {"suffix": TAIL_BYTES}})
            except Exception as error:
                unknown = isinstance(error, obstore.exceptions.NotSupportedError) or parse_status(error) in (416, 501)
                # The object is empty, or the store does not support suffix ranges, or returned another range.
                if unknown or _OTHER_RANGE.search(str(error)):
                    self._count(1, 0)
                    return None
                raise
        self._count(1, len(answer.data))
        return answer.meta, answer.start, answer.data

    def _head(self) -> dict[str, Any]:
        with translate_errors("cannot open", self.name):
            answer = self.client.get(self.key, {"head": True})
        self._count(1, 0)
        return answer.meta

    def _set_tail(self, tail: bytes) -> None:
        if tail:
            self.tail = tail
            self.keep(self.size - len(tail), tail)

    def _get(self, offset: int, length: int) -> bytes:
        """Read a range with one request, which is counted; raise an error if it is incomplete."""
        with translate_errors(f"cannot read at offset {offset}", self.name, opened=True):
            return self.client.run(self._fetch, offset, length) if length else b""

    def _fetch(self, offset: int, length: int) -> bytes:
        """Read a range like `_get`, in a thread of the client."""
        options: GetOptions = {"range": (offset, offset + length)}
        if self._pin is not None:
            options["if_match"] = self._pin
        answer = self.client.fetch(self.key, options)
        self._count(1, len(answer.data))
        self._compare(answer.meta)
        if len(answer.data) != length:
            raise self._truncated_error(offset, length, len(answer.data))
        return answer.data

    def _fetch_all(self, spans: Sequence[byte_ranges.Span], take: Callable[[byte_ranges.Span, bytes], None]) -> None:
        """Read ranges by concurrent requests, several for a long one, so that each ends within its time limit.

        Parameters
        ----------
        take : called with each range and its bytes, in any thread.
        """
        long: list[tuple[byte_ranges.Span, list[Future[bytes]]]] = []
        futures: list[Future[Any]] = []
        for span in spans:
            if span.length <= 2 * byte_ranges.SPAN_BYTES:
                futures.append(self.client.submit(self._fetch_into, span, take))
                continue
            starts = range(span.offset, span.offset + span.length, byte_ranges.SPAN_BYTES)
            lengths = (min(byte_ranges.SPAN_BYTES, span.offset + span.length - start) for start in starts)
            pieces = [self.client.submit(self._fetch, *piece) for piece in zip(starts, lengths, strict=True)]
            long.append((span, pieces))
            futures += pieces
        wait_for_all(futures)
        for span, pieces in long:
            take(span, b"".join(piece.result() for piece in pieces))

    def _fetch_into(self, span: byte_ranges.Span, take: Callable[[byte_ranges.Span, bytes], None]) -> None:
        take(span, self._fetch(span.offset, span.length))

    def _compare(self, meta: Any) -> None:
        """Raise ConcurrentChangeError if a response is of another version."""
        same = meta["size"] == self.size and meta["e_tag"] == self.e_tag
        if same and self._pin is None and self.modified is not None:
            same = meta["last_modified"] == self.modified
        if not same:
            raise make_changed_error(self.name)

    def _read(self, offset: int, length: int) -> bytes:
        found = self._find_in_memory(offset, length)
        if found is not None:
            return found.tobytes()
        data = b""

        def take(span: byte_ranges.Span, read: bytes) -> None:
            nonlocal data
            data = read

        if length:
            with translate_errors(f"cannot read at offset {offset}", self.name, opened=True):
                self._fetch_all([byte_ranges.Span(offset, length, np.empty(0, np.intp))], take)
        if offset + length == self.size and length <= TAIL_BYTES:
            self.tail = data
        return data

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        spans = byte_ranges.coalesce(offsets, lengths, self.gap_bytes)
        positions = np.cumsum(lengths) - lengths

        def take(span: byte_ranges.Span, data: bytes) -> None:
            byte_ranges.scatter(span, data, offsets, lengths, positions, out)
            if self.remembered is not None and len(data) <= REMEMBERED_BYTES:
                self.remembered.add(span.offset, data)

        with translate_errors(f"cannot read {len(offsets)} ranges", self.name, opened=True):
            self._fetch_all(spans, take)

    @property
    def gap_bytes(self) -> int:
        return self.client.gap_bytes

    def prefetch(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        self._prefetched.clear()
        inside = (offsets >= 0) & (lengths > 0) & (offsets + lengths <= self.size)
        if not inside.all() or int(lengths.sum()) > _PREFETCHED_BYTES:
            return
        missing = [
            number
            for number, span in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True))
            if self._find_in_memory(*span) is None
        ]
        if not missing:
            return
        spans = byte_ranges.coalesce(offsets[missing], lengths[missing], self.gap_bytes)
        with translate_errors(f"cannot read {len(missing)} ranges", self.name, opened=True):
            self._fetch_all(spans, lambda span, data: self._prefetched.add(span.offset, data))

    def _find_in_memory(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        """Return prefetched or remembered bytes of a range, or None."""
        data = self._prefetched.find(offset, length)
        return data if data is not None or self.remembered is None else self.remembered.find(offset, length)

    def arrow_file(self) -> pa.NativeFile:
        """Return a pyarrow file over the same version; its reads are counted, too."""
        return pa.PythonFile(_ObjectReader(self), mode="r")

    def check_unchanged(self) -> None:
        if self.size:  # not a HEAD: a URL may be signed for GET only
            self._get(self.size - 1, 1)
        else:
            self._compare(self._head())

    def close(self) -> None:
        self.keep(0, b"")
        self.tail = b""
        self._prefetched.clear()


class _ObjectReader(SeekableFile):
    """File object with its own position over an object; pyarrow serializes access by threads."""

    def __init__(self, source: ObjectSource) -> None:
        super().__init__(source.size)
        self._source = source
        self._tail = source.tail

    def read(self, size: int = -1) -> bytes:
        remaining = max(0, self._size - self._position)
        length = remaining if size is None or size < 0 else min(size, remaining)
        inside = self._position - (self._size - len(self._tail))
        if inside >= 0:
            data = self._tail[inside : inside + length]
        else:
            data = self._source._read(self._position, length) if length else b""
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def make_identity(
    location: ObjectLocation, size: int, e_tag: str | None, modified: datetime | None = None
) -> RemoteIdentity:
    """Return the identity of a version. Weak etags do not imply equal bytes; etags of memory stores count from 0."""
    distinct = e_tag is not None and not e_tag.startswith("W/") and location.kind != "Memory"
    etag = e_tag.encode() if distinct and e_tag is not None else None
    modified_ns = None if etag or modified is None else to_nanoseconds(modified)
    return RemoteIdentity(location.label, location.key, size, modified_ns, etag)


def to_nanoseconds(moment: datetime) -> int:
    """Return a time as nanoseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
