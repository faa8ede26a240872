"""Coalescing of byte ranges of a remote file into requests, and copying the ranges out of the responses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import TruncatedFileError
from ..util import threads

GAP_BYTES = 24 * 1024
"""Ranges this close are read in one request: at 50 MB/s the gap takes half a millisecond. A request takes 10 to 30,
shared by all concurrent requests (`objects.client`)."""

SPAN_BYTES = 4 * 1024 * 1024
"""Coalesced requests are not longer than this: several concurrent requests are faster than one long request."""

PARALLEL_REQUESTS = 16
"""Concurrent requests for one file."""


@dataclass(frozen=True)
class Span:
    """One request.

    Attributes
    ----------
    offset, length : the range of the file, in bytes.
    members : indices of the requested ranges inside it.
    """

    offset: int
    length: int
    members: NDArray[np.intp]


def require_inside(
    offsets: NDArray[np.int64], lengths: NDArray[np.int64], size: int, path: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Check that ranges lie inside a file, before anything is allocated for them.

    Parameters
    ----------
    offsets, lengths : the ranges, in bytes.
    size, path : size in bytes and path of the file.

    Returns
    -------
    The ranges as contiguous int64 arrays, and the sum of their lengths.

    Raises
    ------
    TruncatedFileError
        A range is not inside the file.
    """
    offsets = np.ascontiguousarray(offsets, np.int64)
    lengths = np.ascontiguousarray(lengths, np.int64)
    bad = (offsets < 0) | (lengths < 0) | (lengths > size) | (offsets > size - lengths)
    if bad.any():
        first = int(bad.argmax())
        raise outside_error(int(offsets[first]), int(lengths[first]), size, path)
    return offsets, lengths, int(lengths.sum())


def outside_error(offset: int, length: int, size: int, path: str) -> TruncatedFileError:
    """Make the error for a range that is not inside a file."""
    problem = f"cannot read {length} bytes at offset {offset}: the file has {size}"
    return TruncatedFileError(problem, path=path)


def coalesce(
    offsets: NDArray[np.int64], lengths: NDArray[np.int64], gap: int = GAP_BYTES, limit: int = SPAN_BYTES
) -> list[Span]:
    """Plan the requests that read some ranges, sorted by offset.

    Parameters
    ----------
    offsets, lengths : the ranges, in any order; they may overlap. Empty ranges are in no request.
    gap : ranges at most this many bytes apart are coalesced,
    limit : unless the request would be longer than this. A longer single range is one request.
    """
    order = np.argsort(offsets, kind="stable")
    order = order[lengths[order] > 0]
    spans: list[Span] = []
    first, start, end = 0, 0, 0
    for position, (begins, length) in enumerate(zip(offsets[order].tolist(), lengths[order].tolist(), strict=True)):
        ends = begins + length
        if position > first and begins - end <= gap and max(end, ends) - start <= limit:
            end = max(end, ends)
            continue
        if position > first:
            spans.append(Span(start, end - start, order[first:position]))
        first, start, end = position, begins, ends
    if first < len(order):
        spans.append(Span(start, end - start, order[first:]))
    return spans


def scatter(
    span: Span,
    data: bytes,
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    positions: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Copy the ranges of a response to their positions: range i to `out[positions[i]:]`."""
    received = np.frombuffer(data, np.uint8)
    for i in span.members.tolist():
        start, position, length = int(offsets[i]) - span.offset, int(positions[i]), int(lengths[i])
        out[position : position + length] = received[start : start + length]


def gather(
    fetch: Callable[[Span], bytes],
    spans: list[Span],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    parallel: int,
) -> None:
    """Make the requests that `coalesce` planned, `parallel` at a time, and copy the ranges into `out` in order."""
    positions = np.cumsum(lengths) - lengths

    def take(span: Span) -> None:
        scatter(span, fetch(span), offsets, lengths, positions, out)

    if min(parallel, len(spans)) <= 1:
        for span in spans:
            take(span)
        return
    with threads.in_order(take, spans, min(parallel, len(spans))) as results:
        for _ in results:
            pass


_MAX_EXTENTS = 64  # a file with more ranges is better read in other ways


@dataclass(eq=False)
class Extents:
    """Bytes of one version of one file, by position; thread-safe.

    Attributes
    ----------
    max_extents : largest number of ranges that are kept.
    num_bytes : total size of all ranges.
    """

    max_extents: int = _MAX_EXTENTS
    num_bytes: int = field(default=0, init=False)
    _extents: tuple[tuple[int, NDArray[np.uint8]], ...] = ()  # replaced, never changed; oldest first
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __len__(self) -> int:
        return len(self._extents)

    def items(self) -> tuple[tuple[int, NDArray[np.uint8]], ...]:
        """Return all ranges, each as its first position and its bytes."""
        return self._extents

    def add(self, offset: int, data: bytes) -> None:
        """Add a range; ranges inside it are dropped, and the oldest ones if there are too many."""
        end = offset + len(data)
        if not data or self.covers(offset, len(data)):
            return
        extent = np.frombuffer(data, np.uint8)
        with self._lock:
            others = [one for one in self._extents if not (offset <= one[0] and one[0] + len(one[1]) <= end)]
            self._extents = (*others[-(self.max_extents - 1) :], (offset, extent))
            self.num_bytes = sum(len(one) for _, one in self._extents)

    def covers(self, offset: int, length: int) -> bool:
        """Return whether a range lies inside one of the ranges."""
        return self.find(offset, length) is not None

    def find(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        """Return the bytes of a range, or None if it is not inside one of the ranges."""
        for start, data in self._extents:
            if start <= offset and offset + length <= start + len(data):
                return data[offset - start : offset - start + length]
        return None

    def clear(self) -> None:
        """Drop all ranges."""
        with self._lock:
            self._extents, self.num_bytes = (), 0
