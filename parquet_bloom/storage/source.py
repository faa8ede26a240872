"""Base classes for reading: an opened file, ranges of its bytes, and the identity of the version that was opened."""

from __future__ import annotations

import errno
import io
import mmap
import operator
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import StorageError, TruncatedFileError
from ..redaction import redacted
from . import byte_ranges
from .byte_ranges import Extents, require_inside
from .local import scatter

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


REMEMBERED_BYTES = 1024 * 1024
"""Longer reads are not remembered: they read data, not metadata that is read again."""


class Source(ABC):
    """A file opened for reading.

    Attributes
    ----------
    name : the path as the caller gave it.
    size : length in bytes when it was opened.
    path : the real local path, symbolic links resolved; None if it is not a local file.
    identity : hashable; two opens of an unchanged file have equal ones.
    requests : ranges read from the file system so far; coalesced ranges count once. Opening is not counted, nor reads
        through a mapping, nor reads that `keep` answers. Reads through `arrow_file` are counted by those who know
        what is read, with `count`, unless `counts_arrow_file`. For objects in a store every request is counted,
        including opening and retries.
    bytes_read : bytes that these requests returned, including gaps between coalesced ranges.
    first_read : number of bytes to read from the end of the file in the first read; most footers fit.
    gap_bytes : largest gap in bytes between two ranges that are worth one request.
    remembered : cache of ranges of this version of the file, to which reads add; None where nothing is remembered, as
        for local files.
    counts_arrow_file : whether reads through `arrow_file` are counted here.
    """

    name: str
    size: int
    path: str | None
    identity: Hashable
    requests: int = 0
    bytes_read: int = 0
    first_read: int = 64 * 1024
    remembered: Extents | None = None
    counts_arrow_file: ClassVar[bool] = False
    _cached_tail: NDArray[np.uint8] = np.empty(0, np.uint8)
    _cached_from: int = 0
    _counting: ClassVar[threading.Lock] = threading.Lock()  # for two additions; one lock for all sources is enough

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from `offset` on.

        Raises
        ------
        TruncatedFileError
            If the range is not inside the file. This is checked before anything is allocated.
        StorageError
            If the read fails.
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

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Read a range that fills an array; otherwise as `read_at`."""
        out[:] = np.frombuffer(self.read_at(offset, len(out)), np.uint8)

    @property
    def gap_bytes(self) -> int:
        return byte_ranges.GAP_BYTES

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Read many ranges, each given as (offset, length); see `gather`, which raises the same errors."""
        pairs = [(operator.index(offset), operator.index(length)) for offset, length in ranges]
        for offset, length in pairs:  # before NumPy has to hold the numbers
            if offset < 0 or length < 0 or offset + length > self.size:
                raise self._outside_error(offset, length)
        start, end = self._cached_from, self._cached_from + len(self._cached_tail)
        if len(pairs) < 2 or all(start <= offset and offset + length <= end for offset, length in pairs):
            return [self.read_at(offset, length) for offset, length in pairs]  # faster than building arrays
        offsets, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
        ends = np.cumsum(lengths)
        data = self.gather(offsets, lengths).tobytes()
        return [data[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]

    def gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Read many ranges into one array, one after the other in the given order.

        On the local file system all ranges are announced to the kernel before any read waits. Elsewhere
        nearby ranges are read in one request, with up to `byte_ranges.PARALLEL_REQUESTS` requests at a time.

        Parameters
        ----------
        offsets, lengths : the ranges, in bytes; they may overlap. Sorted ranges are faster on disk.

        Raises
        ------
        TruncatedFileError
            If a range is not inside the file. This is checked before anything is allocated.
        StorageError
            If a read fails.
        """
        offsets, lengths, total = self.require_inside(offsets, lengths)
        out = np.empty(total, np.uint8)
        if not total or (not len(self._cached_tail) and self.remembered is None):
            if total:
                self._gather(offsets, lengths, out)
            return out
        near: list[NDArray[np.uint8]] = []  # cached extents that hold ranges, then the bytes that are read
        positions = np.full(len(offsets), -1, np.int64)  # of each range in the concatenation of `near`
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
        """Keep bytes that were read at `offset` in memory, replacing those kept before.

        Later reads inside this range make no request, and see the file as it was.
        """
        self._cached_tail, self._cached_from = np.frombuffer(data, np.uint8), offset

    @property
    def kept(self) -> tuple[bytes, int]:
        """The bytes that `keep` stored, and their offset."""
        return self._cached_tail.tobytes(), self._cached_from

    def require_inside(
        self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Check that ranges are inside the file; see `byte_ranges.require_inside`."""
        return byte_ranges.require_inside(offsets, lengths, self.size, self.name)

    def prefetch(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:  # noqa: B027 (most need none)
        """Fetch ranges that are about to be read one by one, concurrently where that is a request to a store.

        Without this, pyarrow would wait for those of `arrow_file`, and Ctrl-C would have no effect meanwhile. The bytes
        are kept until others are prefetched or the source is closed. If a range is not inside the file, or the ranges
        are too long together, nothing is fetched.
        """

    def mapped(self) -> MappedFile:
        """Return the file mapped into memory; only for files that nobody truncates, see `MappedFile`.

        The mapping is created once, and closed with the source.

        Raises
        ------
        StorageError
            If it is not a local file, or the system cannot map it.
        """
        raise StorageError("cannot map: it is not a local file", path=self.name, errno=errno.EINVAL)

    def count(self, requests: int, num_bytes: int) -> None:
        """Count reads that were made through `arrow_file`."""
        if not self.counts_arrow_file:
            self._count(requests, num_bytes)

    def counted_arrow_file(self) -> pa.NativeFile:
        """Return what `arrow_file` does, with every read counted; pyarrow reads it in one thread at a time."""
        file = self.arrow_file()
        return file if self.counts_arrow_file else pa.PythonFile(_CountedFile(file, self), mode="r")

    def _count(self, requests: int, num_bytes: int) -> None:
        with self._counting:
            self.requests += requests
            self.bytes_read += num_bytes

    def _outside_error(self, offset: int, length: int) -> TruncatedFileError:
        return byte_ranges.outside_error(offset, length, self.size, self.name)

    def _truncated_error(self, offset: int, length: int, received: int) -> TruncatedFileError:
        problem = f"read {received} of {length} bytes at offset {offset}: the file was truncated meanwhile"
        return TruncatedFileError(problem, path=self.name)

    @abstractmethod
    def _read(self, offset: int, length: int) -> bytes:
        """Read a range and count it; return fewer bytes if the file has shrunk."""

    @abstractmethod
    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Read ranges inside the file into `out`, one after the other, and count them."""

    @abstractmethod
    def arrow_file(self) -> pa.NativeFile:
        """Return a pyarrow file over the same bytes, even if the path leads elsewhere by now; the caller closes it."""

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise ConcurrentChangeError if the opened file's bytes may have changed since it was opened."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; may be called again. Files from `arrow_file` stay usable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return redacted(f"<{type(self).__name__} {self.name!r}, {self.size} bytes>")


class MemorySource(Source):
    """Bytes in memory, read like a file."""

    path = None

    def __init__(self, name: str, data: bytes | memoryview) -> None:
        self.name, self.size, self.identity = name, len(data), id(data)
        self._data = memoryview(data)

    def _read(self, offset: int, length: int) -> bytes:
        return bytes(self._data[offset : offset + length])

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        scatter.copy_scattered(np.frombuffer(self._data, np.uint8), offsets, lengths, out)

    def arrow_file(self) -> pa.NativeFile:
        return pa.BufferReader(self._data)

    def check_unchanged(self) -> None:
        """Do nothing: nobody else has these bytes."""

    def close(self) -> None:
        """Do nothing: there is nothing open."""


class SeekableFile(io.RawIOBase):
    """Seekable read-only file of known size; subclasses implement `readinto`."""

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


class _CountedFile(SeekableFile):
    """A pyarrow file whose reads are counted."""

    def __init__(self, file: pa.NativeFile, source: Source) -> None:
        super().__init__(source.size)
        self._file = file
        self._source = source

    def read(self, size: int = -1) -> bytes:
        remaining = max(0, self._size - self._position)
        data = self._file.read_at(remaining if size is None or size < 0 else min(size, remaining), self._position)
        self._source.count(1, len(data))
        self._position += len(data)
        return bytes(data)

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


_RESIDENCY_SAMPLE = 16  # number of ranges that are checked for residency in memory, as a sample


class MappedFile:
    """A local file mapped for reading; created by `LocalSource.mapped`.

    Touching a page after the end of a truncated file kills the process (SIGBUS), and cannot be caught. The length of
    the file is checked before each use; a truncation between this check and the use is not noticed, so callers must
    know that nobody truncates the file. Files that are replaced, as Spark and this package do, are safe: the mapping
    keeps the old file.

    Parameters
    ----------
    descriptor : descriptor of the open file; the caller closes it, after this object.
    size : length of the file when it was opened, in bytes.
    name : path of the file, for errors.

    Attributes
    ----------
    data : bytes of the file, read-only. Direct use must call `require_not_truncated` first; `gather` does.
    """

    def __init__(self, descriptor: int, size: int, name: str) -> None:
        self._descriptor = descriptor
        self._size = size
        self._name = name
        try:
            mapping = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
            if hasattr(mmap, "MADV_RANDOM"):
                mapping.madvise(mmap.MADV_RANDOM)  # without it each page fault reads ahead, which is 30 times as slow
        except (OSError, ValueError) as error:
            raise StorageError.wrap(error, "cannot map", name) from error
        self.data: NDArray[np.uint8] = np.frombuffer(mapping, np.uint8)

    def require_not_truncated(self) -> None:
        """Raise TruncatedFileError if the file is shorter than it was when it was opened."""
        try:
            size = os.fstat(self._descriptor).st_size
        except OSError as error:
            raise StorageError.wrap(error, "fstat failed", self._name) from error
        if size < self._size:
            problem = f"the file had {self._size} bytes and now has {size}: it was truncated meanwhile"
            raise TruncatedFileError(problem, path=self._name)

    def will_need(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Ask the kernel to read ranges that are not in memory; page faults would wait for them one at a time."""
        inside = offsets[lengths > 0]  # an empty range may be at the very end
        sample = inside[:: max(1, len(inside) // _RESIDENCY_SAMPLE)].copy()
        if scatter.count_resident(self.data, sample) < len(sample):
            scatter.will_need(self._descriptor, offsets, lengths)

    def view(self, offset: int, length: int) -> NDArray[np.uint8] | None:
        """Return a view of a range if a sample of its pages is in memory; else None, because reading is faster."""
        self.require_not_truncated()
        sample = np.linspace(offset, offset + length - 1, _RESIDENCY_SAMPLE).astype(np.int64)
        if scatter.count_resident(self.data, sample) < _RESIDENCY_SAMPLE:
            return None
        return self.data[offset : offset + length]

    def gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Copy ranges into one array, like `Source.gather`; no request is counted."""
        offsets, lengths, total = require_inside(offsets, lengths, self._size, self._name)
        self.require_not_truncated()
        self.will_need(offsets, lengths)
        out = np.empty(total, np.uint8)
        scatter.copy_scattered(self.data, offsets, lengths, out)
        return out

    def close(self) -> None:
        """Release the mapping; it is closed when the last array over it is gone."""
        self._descriptor = -1  # the number may soon be reused for another file
        self.data = np.empty(0, np.uint8)
