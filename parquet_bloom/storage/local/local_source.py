"""Read local files by descriptor, and identify the version that was opened."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ConcurrentChangeError, StorageError, TruncatedFileError
from ..source import MappedFile, SeekableFile, Source
from . import scatter, system_calls

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class FileIdentity(NamedTuple):
    """Identity of a local file and its state when it was opened."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileIdentity:
        """Return the identity in the result of a stat call."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def same_bytes(self, other: FileIdentity) -> bool:
        """Return whether it is the same file with the same bytes; rename, link and chmod only change `changed_ns`."""
        return self[:4] == other[:4]


class LocalSource(Source):
    """A local file, read by its descriptor: reads see the opened file, whatever happens to the path.

    Parameters
    ----------
    name : the path.
    opened : its real path and its descriptor, if the caller has opened it; closed with the source.
    """

    path: str
    identity: FileIdentity

    def __init__(self, name: str, opened: tuple[str, int] | None = None) -> None:
        self._descriptor = -1
        self._mapped: MappedFile | None = None
        self.name = name
        system_calls.require_posix(name)
        try:
            if opened is None:
                self.path = os.path.realpath(name)
                # O_NONBLOCK: opening a pipe without a writer would block for ever.
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            else:
                self.path, self._descriptor = opened
            status = os.fstat(self._descriptor)
        except OSError as error:
            self.close()
            # A socket, or a device that is not there.
            action = "cannot open: it is not a regular file" if error.errno == errno.ENXIO else "cannot open"
            raise StorageError.wrap(error, action, name) from error
        if not stat.S_ISREG(status.st_mode):
            self.close()
            number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
            raise StorageError("cannot open: it is not a regular file", path=name, errno=number)
        self.size = status.st_size
        self.identity = FileIdentity.from_stat(status)

    def fileno(self) -> int:
        """Return the descriptor, for system calls that copy inside the kernel."""
        return self._descriptor

    def _read(self, offset: int, length: int) -> bytes:
        pieces = []
        try:
            while length:  # one call delivers 2 GiB at most
                piece = os.pread(self._descriptor, length, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset, length = offset + len(piece), length - len(piece)
        except OSError as error:
            raise StorageError.wrap(error, f"cannot read at offset {offset}", self.name) from error
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._count(1, len(data))
        return data

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        try:
            done = scatter.read_scattered(self._descriptor, offsets, lengths, out)
        except OSError as error:
            raise StorageError.wrap(error, f"cannot read {len(offsets)} ranges", self.name) from error
        self._count(int((lengths[:done] > 0).sum()), int(lengths[:done].sum()))
        if done < len(offsets):
            offset, length = int(offsets[done]), int(lengths[done])
            raise self._truncated_error(offset, length, len(self._read(offset, length)))

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        if offset < 0 or offset + len(out) > self.size:
            raise self._outside_error(offset, len(out))
        done, view = 0, out.data
        try:
            while done < len(out):
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
                if not count:
                    raise self._truncated_error(offset, len(out), done)
                done += count
        except OSError as error:
            raise StorageError.wrap(error, f"cannot read at offset {offset}", self.name) from error
        self._count(1, done)

    def mapped(self) -> MappedFile:
        if self._mapped is None:
            self._mapped = MappedFile(self._descriptor, self.size, self.name)
        return self._mapped

    def pieces(self, offset: int, length: int, piece_bytes: int) -> Iterator[NDArray[np.uint8]]:
        """Yield a long range in pieces, of a file that nobody truncates (see `MappedFile`).

        A piece is a view of the mapping, or a buffer that the next piece overwrites.

        Parameters
        ----------
        offset, length : the range; at least one byte.
        piece_bytes : length of each piece but the last.

        Raises
        ------
        TruncatedFileError, StorageError
            As in `read_at`.
        """
        if offset < 0 or length < 1 or offset + length > self.size:
            raise self._outside_error(offset, length)
        try:
            view = self.mapped().view(offset, length)
        except (TruncatedFileError, StorageError):  # a truncated or unmappable file may still have the range
            view = None
        buffer = np.empty(min(piece_bytes, length) if view is None else 0, np.uint8)
        for start in range(0, length, piece_bytes):
            count = min(piece_bytes, length - start)
            if view is not None:
                yield view[start : start + count]
                continue
            piece = buffer[:count]
            try:
                received = os.preadv(self._descriptor, [piece.data], offset + start)
            except OSError as error:
                raise StorageError.wrap(error, f"cannot read at offset {offset + start}", self.name) from error
            if received < count:
                raise self._truncated_error(offset, length, start + received)
            yield piece
        self._count(1, length)

    def arrow_file(self) -> pa.NativeFile:
        """Return a pyarrow file over the opened inode."""
        try:
            # The path of the descriptor is the same inode, even after another file took the original path.
            return pa.OSFile(f"/proc/self/fd/{self._descriptor}")
        except OSError:  # there is no /proc, or the mode of the file has changed
            pass
        try:
            return pa.PythonFile(_LocalReader(self), mode="r")
        except OSError as error:
            raise StorageError.wrap(error, "cannot open", self.name) from error

    def check_unchanged(self) -> None:
        try:
            now = FileIdentity.from_stat(os.fstat(self._descriptor))
        except OSError as error:
            raise StorageError.wrap(error, "fstat failed", self.name) from error
        if not now.same_bytes(self.identity):
            raise ConcurrentChangeError("it was changed while it was being read", path=self.name)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        self.keep(0, b"")
        if self._mapped is not None:
            self._mapped.close()
        if descriptor >= 0:
            with suppress(OSError):  # nothing was written, so nothing can be lost
                os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


class _LocalReader(SeekableFile):
    """File object with its own position over the inode of a local source."""

    def __init__(self, source: LocalSource) -> None:
        self._descriptor = os.dup(source.fileno())
        super().__init__(source.size)

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
