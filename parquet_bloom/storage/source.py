"""Reading: one opened file, ranges of its bytes, and proof of which file it was."""

from __future__ import annotations

import errno
import io
import operator
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from types import TracebackType
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import StorageError, TruncatedFileError
from ..redaction import redacted
from . import coalesce
from .extents import Extents
from .local import scatter
from .local.mapped import MappedFile

REMEMBERED_BYTES = 1024 * 1024
"""Longer reads are not remembered: they are of data, not of what is asked again and again."""


class Source(ABC):
    """A file opened for reading.

    Attributes
    ----------
    name : the path as the caller gave it.
    size : length in bytes when it was opened.
    path : the real local path, symbolic links resolved; None if it is not a local file.
    identity : hashable; two opens of an unchanged file have equal ones.
    requests : ranges asked of the file system so far, those read as one counted once. Opening is not counted, nor what
        goes through `arrow_file` or a mapping, nor what `keep` remembers. Of an object in a store every request is
        counted: opening, `arrow_file` and each further try included.
    bytes_read : bytes that came upon them, gaps between ranges that were read as one included.
    first_read : how many of its last bytes are best read at once: most footers fit.
    gap_bytes : bytes between two ranges up to which they are best read as one.
    remembered : ranges that were read before, of this version of the file, and to which reads add; None where nothing
        is remembered, as of local files.
    """

    name: str
    size: int
    path: str | None
    identity: Hashable
    requests: int = 0
    bytes_read: int = 0
    first_read: int = 64 * 1024
    remembered: Extents | None = None
    _cached_tail: NDArray[np.uint8] = np.empty(0, np.uint8)
    _cached_from: int = 0
    _counting: ClassVar[threading.Lock] = threading.Lock()  # held for two additions; one for all sources will do

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset` on.

        Raises
        ------
        TruncatedFileError
            if the range is not inside the file. It is checked before anything is allocated.
        StorageError
            if the file system fails to deliver.
        """
        offset, length = operator.index(offset), operator.index(length)
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self._outside_error(offset, length)
        if self._cached_from <= offset and offset + length <= self._cached_from + len(self._cached_tail):
            start = offset - self._cached_from
            return self._cached_tail[start : start + length].tobytes()
        if self.remembered is not None:
            cached = self.remembered.find(offset, length)
            if cached is not None:
                return cached.tobytes()
        data = self._read(offset, length) if length else b""
        if len(data) != length:
            raise self._truncated_error(offset, length, len(data))
        if self.remembered is not None and length <= REMEMBERED_BYTES:
            self.remembered.add(offset, data)
        return data

    @property
    def gap_bytes(self) -> int:
        return coalesce.GAP_BYTES

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Many ranges at once, each given as (offset, length); see `gather`, which has the same errors."""
        pairs = [(operator.index(offset), operator.index(length)) for offset, length in ranges]
        for offset, length in pairs:  # before NumPy is asked to hold the numbers
            if offset < 0 or length < 0 or offset + length > self.size:
                raise self._outside_error(offset, length)
        start, end = self._cached_from, self._cached_from + len(self._cached_tail)
        if len(pairs) < 2 or all(start <= offset and offset + length <= end for offset, length in pairs):
            return [self.read_at(offset, length) for offset, length in pairs]  # arrays would take longer than reading
        offsets, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
        ends = np.cumsum(lengths)
        data = self.gather(offsets, lengths).tobytes()
        return [data[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]

    def gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Many ranges at once, one behind the other in one array, in the order given.

        On the local file system the disk is told of all of them before the first is waited for. Elsewhere ranges that
        lie close together are read in one request, and up to `coalesce.PARALLEL_REQUESTS` requests at a time.

        Parameters
        ----------
        offsets, lengths : the ranges, in bytes; they may overlap. The disk likes them sorted.

        Raises
        ------
        TruncatedFileError
            if a range is not inside the file. It is checked before anything is allocated.
        StorageError
            if the file system fails to deliver.
        """
        offsets, lengths, total = self.require_inside(offsets, lengths)
        out = np.empty(total, np.uint8)
        if not total or (not len(self._cached_tail) and self.remembered is None):
            if total:
                self._gather(offsets, lengths, out)
            return out
        near: list[NDArray[np.uint8]] = []  # what is in memory of the ranges, and then what is read, joined
        positions = np.full(len(offsets), -1, np.int64)  # in it, of each range
        positions[lengths == 0] = 0
        num_near = 0
        for start, extent in self._in_memory():
            here = (positions < 0) & (offsets >= start) & (offsets + lengths <= start + len(extent))
            if here.any():
                positions[here] = offsets[here] - start + num_near
                near.append(extent)
                num_near += len(extent)
        unread = positions < 0
        if not near:
            self._gather(offsets, lengths, out)
            return out
        if unread.any():
            far = np.empty(int(lengths[unread].sum()), np.uint8)
            self._gather(offsets[unread], lengths[unread], far)
            positions[unread] = num_near + np.cumsum(lengths[unread]) - lengths[unread]
            near.append(far)
        scatter.copy_scattered(near[0] if len(near) == 1 else np.concatenate(near), positions, lengths, out)
        return out

    def _in_memory(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        if len(self._cached_tail):
            yield self._cached_from, self._cached_tail
        if self.remembered is not None:
            yield from self.remembered.items()

    def keep(self, offset: int, data: bytes) -> None:
        """Remember bytes that were read at `offset`, in place of those remembered before.

        Later reads that lie within them ask the file system for nothing, and see the file as it was.
        """
        self._cached_tail, self._cached_from = np.frombuffer(data, np.uint8), offset

    @property
    def kept(self) -> tuple[bytes, int]:
        """The bytes that `keep` remembers, and where they begin."""
        return self._cached_tail.tobytes(), self._cached_from

    def require_inside(
        self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Check that ranges are inside the file; see `coalesce.require_inside`."""
        return coalesce.require_inside(offsets, lengths, self.size, self.name)

    def prefetch(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:  # noqa: B027 (most need none)
        """Get ranges that are about to be read by `arrow_file`, side by side where a store is waited for.

        While pyarrow waits for them, Ctrl-C would not be heeded.

        They are held until others are prefetched or the source is closed. Ranges that are not inside the file, or are
        long, are left to be read.
        """

    def mapped(self) -> MappedFile:
        """The file as memory, for who knows that nobody will shorten it; see `MappedFile` for what happens otherwise.

        The mapping is made once, and let go of with the source.

        Raises
        ------
        StorageError
            if it is not a local file, or the system cannot map it.
        """
        raise StorageError("cannot map: it is not a local file", path=self.name, errno=errno.EINVAL)

    def _count(self, requests: int, num_bytes: int) -> None:
        with self._counting:
            self.requests += requests
            self.bytes_read += num_bytes

    def _outside_error(self, offset: int, length: int) -> TruncatedFileError:
        return coalesce.outside_error(offset, length, self.size, self.name)

    def _truncated_error(self, offset: int, length: int, received: int) -> TruncatedFileError:
        problem = f"{length} bytes at offset {offset} were asked for, {received} came: it was cut meanwhile"
        return TruncatedFileError(problem, path=self.name)

    @abstractmethod
    def _read(self, offset: int, length: int) -> bytes:
        """What there is of the range, counted; fewer bytes when the file has shrunk."""

    @abstractmethod
    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Read ranges inside of the file into `out`, one behind the other, and count them."""

    @abstractmethod
    def arrow_file(self) -> pa.NativeFile:
        """A pyarrow file over the same bytes, even if the path leads elsewhere by now; close it."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise ConcurrentChangeError if the opened file's bytes may have changed since it was opened."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file; may be called again. Files from `arrow_file` stay usable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return redacted(f"<{type(self).__name__} {self.name!r}, {self.size} bytes>")


class SeekableFile(io.RawIOBase):
    """A readable file of a known size, with a position of its own; what reads is added by who derives from it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position
