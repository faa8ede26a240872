"""Reading: one opened file, ranges of its bytes, and proof of which file it was."""

from __future__ import annotations

import errno
import io
import operator
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Hashable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

from ..errors import ConcurrentChangeError, StorageError, TruncatedFileError
from . import location


class FileIdentity(NamedTuple):
    """Which local file was opened, and in what state it was."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileIdentity:
        """The identity that a stat call shows."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def same_bytes(self, other: FileIdentity) -> bool:
        """Whether it is the same file, unwritten since; rename, link, chmod change `changed_ns` alone."""
        return self[:4] == other[:4]


class RemoteIdentity(NamedTuple):
    """Which object of another file system was opened; the etag decides where there is one."""

    filesystem: str
    path: str
    size: int
    modified_ns: int | None
    etag: bytes | None


class Source(ABC):
    """A file opened for reading.

    Attributes
    ----------
    name : the path as the caller gave it.
    size : length in bytes when it was opened.
    path : the real local path, symbolic links resolved; None if it is not a local file.
    identity : hashable; two opens of an unchanged file have equal ones.
    """

    name: str
    size: int
    path: str | None
    identity: Hashable

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
            raise TruncatedFileError(
                f"{length} bytes at offset {offset} were asked for, the file has {self.size}", path=self.name
            )
        data = self._read(offset, length) if length else b""
        if len(data) != length:
            raise TruncatedFileError(
                f"{length} bytes at offset {offset} were asked for, {len(data)} came: it was cut meanwhile",
                path=self.name,
            )
        return data

    @abstractmethod
    def _read(self, offset: int, length: int) -> bytes:
        """What there is of the range; fewer bytes when the file has shrunk."""

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
        return f"<{type(self).__name__} {self.name!r}, {self.size} bytes>"


class LocalSource(Source):
    """A local file, held by a descriptor: what is read is what was opened, whatever happens to the path."""

    path: str
    identity: FileIdentity

    def __init__(self, name: str) -> None:
        self._descriptor = -1
        self.name = name
        self.path = os.path.realpath(name)
        try:
            # O_NONBLOCK: to open a pipe that nobody writes to would wait for ever.
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            status = os.fstat(self._descriptor)
        except OSError as error:
            self.close()
            raise StorageError.wrap(error, "cannot open", name) from error
        if not stat.S_ISREG(status.st_mode):
            self.close()
            number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
            raise StorageError("cannot open: it is not a regular file", path=name, errno=number)
        self.size = status.st_size
        self.identity = FileIdentity.of(status)

    def fileno(self) -> int:
        """The descriptor, for calls that copy inside the kernel."""
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
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def arrow_file(self) -> pa.NativeFile:
        """A pyarrow file over the opened inode."""
        try:
            # By way of the descriptor it is the same inode, also after another file took the path.
            return pa.OSFile(f"/proc/self/fd/{self._descriptor}")
        except OSError:  # no /proc here, or the file's mode was changed meanwhile
            pass
        try:
            return pa.PythonFile(_Reader(self), mode="r")
        except OSError as error:
            raise StorageError.wrap(error, "cannot open", self.name) from error

    def check_unchanged(self) -> None:
        try:
            now = FileIdentity.of(os.fstat(self._descriptor))
        except OSError as error:
            raise StorageError.wrap(error, "cannot look at it again", self.name) from error
        if not now.same_bytes(self.identity):
            raise ConcurrentChangeError("it was changed while it was being read", path=self.name)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # nothing was written, so nothing can be lost
                os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


class _Reader(io.RawIOBase):
    """A file object with a position of its own over a local source's inode."""

    def __init__(self, source: LocalSource) -> None:
        self._descriptor = os.dup(source.fileno())
        self._size = source.size
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

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class RemoteSource(Source):
    """A file of any pyarrow file system, read through pyarrow."""

    path: None
    identity: RemoteIdentity

    def __init__(self, name: str, filesystem: FileSystem) -> None:
        self.name = name
        self.path = None
        self.filesystem = filesystem
        self._file, self.identity = self._open()
        self.size = self.identity.size

    def _open(self) -> tuple[pa.NativeFile, RemoteIdentity]:
        try:
            info = self.filesystem.get_file_info(self.name)
            if info.type == FileType.NotFound:
                raise StorageError("there is no such file", path=self.name, errno=errno.ENOENT)
            if info.type == FileType.Directory:
                raise StorageError("cannot open: it is a folder", path=self.name, errno=errno.EISDIR)
            file = self.filesystem.open_input_file(self.name)
            metadata = file.metadata() or {}
            etag = metadata.get(b"ETag", metadata.get("ETag"))
            kind = str(self.filesystem.type_name)
            return file, RemoteIdentity(kind, self.name, file.size(), info.mtime_ns, etag)
        except (OSError, pa.ArrowException) as error:
            raise _ours(error, "cannot open", self.name) from error

    def _read(self, offset: int, length: int) -> bytes:
        try:
            return bytes(self._file.read_at(length, offset))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _ours(error, f"cannot read at offset {offset}", self.name) from error

    def arrow_file(self) -> pa.NativeFile:
        """A pyarrow file of its own, which must still be the same object."""
        file, identity = self._open()
        if identity != self.identity:
            file.close()
            raise ConcurrentChangeError("it was changed while it was being read", path=self.name)
        return file

    def check_unchanged(self) -> None:
        self.arrow_file().close()

    def close(self) -> None:
        self._file.close()


def _ours(error: Exception, action: str, name: str) -> StorageError:
    return error if isinstance(error, StorageError) else StorageError.wrap(error, action, name)


def open_source(path: str | os.PathLike[str], filesystem: object | None = None) -> Source:
    """Open a file for reading.

    Parameters
    ----------
    path : a path; on the local file system also a `file:` URI.
    filesystem : a pyarrow or fsspec file system; None for the local one.

    Raises
    ------
    StorageError
        if it is missing, not a regular file, or may not be read.
    """
    remote = location.arrow_filesystem(filesystem)
    if remote is None:
        return LocalSource(location.local(path))
    return RemoteSource(location.plain(path), remote)
