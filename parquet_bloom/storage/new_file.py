"""Base class for writing: a new file that replaces the old one atomically."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from ..errors import ParquetBloomError, StorageError, TruncatedFileError
from .source import Source

COPIED_BYTES = 4 << 20  # read and written at once where no other way of copying is known


class Rewrite(ABC):
    """Context manager for a file being written; leaving it without `commit` changes nothing.

    Attributes
    ----------
    path : the new file, as the caller named it.
    """

    path: str

    def __init__(self, source: Source | None, path: str) -> None:
        self.path = path
        self._source = source
        self._position = 0
        self._prefix = 0
        self._state = "new"  # then open; at last committed, failed or abandoned

    def copy_prefix(self, length: int) -> None:
        """Copy the first `length` bytes of the source; only once, and before anything is written.

        Raises
        ------
        TruncatedFileError
            If the source has fewer bytes.
        StorageError
            If they cannot be read or written, for example because the disk is full.
        """
        if self._source is None or self._position:
            raise self._misuse("copy_prefix needs a source, and must come before any write")
        with self._working("cannot write the new file"):
            self._copy(self._source, length)
        self._position = self._prefix = length

    def copy_range(self, offset: int, length: int) -> None:
        """Append a range of the source, as cheaply as the file system can copy it; errors as of `copy_prefix`."""
        if self._source is None:
            raise self._misuse("copy_range needs a source")
        if offset < 0 or not 0 <= length <= self._source.size - offset:
            problem = f"cannot copy {length} bytes from {offset} on: the file has {self._source.size}"
            raise TruncatedFileError(problem, path=self._source.name)
        end = self._position + length
        with self._working("cannot write the new file"):
            self._copy_range(self._source, offset, length)
        self._position = end

    def write(self, data: Any) -> int:
        """Append any contiguous bytes-like object and return its length in bytes."""
        view = memoryview(data)
        with self._working("cannot write the new file"):
            if view.nbytes:
                self._write(view.cast("B"))
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes in the new file so far."""
        return self._position

    def commit(self) -> None:
        """Move the new file to its path.

        Raises
        ------
        ConcurrentChangeError
            If the file is no longer the one that the source read; the current file is kept.
        StorageError
            If the file system refuses; the old file is still there.
        """
        try:
            with self._working("cannot put the new file in its place"):
                self._commit()
                self._state = "committed"
        finally:
            self._end()

    def __enter__(self) -> Self:
        if self._state != "new":
            raise self._misuse("it can be entered only once")
        self._state = "open"
        try:
            with self._working("cannot write beside it"):
                self._begin()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @contextmanager
    def _working(self, action: str) -> Iterator[None]:
        """Run one step. After a failed step no other may run: a file with a hole must not be committed."""
        if self._state != "open":
            raise self._misuse(f"it is {self._state}")
        try:
            yield
        except BaseException as error:
            if self._state == "open":
                self._state = "failed"
            if isinstance(error, ParquetBloomError) or not isinstance(error, (OSError, pa.ArrowException)):
                raise
            raise StorageError.wrap(error, action, self.path) from error

    def _misuse(self, problem: str) -> StorageError:
        return StorageError(f"the rewrite cannot go on: {problem}", path=self.path)

    def _end(self) -> None:
        """Clean up; does nothing the second time."""
        if self._state in ("open", "failed"):
            self._state = "abandoned"
            self._undo()
        elif self._state == "committed":
            self._tidy()

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _copy(self, source: Source, length: int) -> None: ...

    def _copy_range(self, source: Source, offset: int, length: int) -> None:
        for start in range(offset, offset + length, COPIED_BYTES):
            piece = source.read_at(start, min(COPIED_BYTES, offset + length - start))
            self._write(memoryview(piece))
            self._position += len(piece)

    @abstractmethod
    def _write(self, data: memoryview) -> None: ...

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _undo(self) -> None:
        """Undo everything."""

    @abstractmethod
    def _tidy(self) -> None:
        """Remove what is not needed after a commit; may be called more than once."""
