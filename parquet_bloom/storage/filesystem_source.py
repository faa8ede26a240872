"""Read files of pyarrow and fsspec file systems."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ConcurrentChangeError, StorageError
from ..util.lazy import late_module
from . import byte_ranges
from .source import Source

if TYPE_CHECKING:
    import pyarrow.fs as fs
else:
    fs = late_module("pyarrow.fs")


DATED = "py::hdfs"
"""Type name of a file system whose modification times, in milliseconds, distinguish the versions of a file."""

# File systems in Python raise many kinds of errors: fsspec's WebHDFS raises RuntimeError if a server fails.
_FAILURES = (OSError, RuntimeError, pa.ArrowException)

_SPANS_A_FILE = 4  # one more file is opened, which costs a request for its size, for so many requests


class _SideBySide(Enum):
    """Ways to read ranges of a remote file concurrently."""

    ONE_FILE = 1  # pyarrow's own file systems: an opened file may be read by many threads
    FILE_EACH = 2  # a file has one position, so each thread needs its own: fsspec, and handlers that declare it
    NOT = 3


class RemoteIdentity(NamedTuple):
    """Identity of a file on another file system; if there is an etag, it decides."""

    filesystem: str
    path: str
    size: int
    modified_ns: int | None
    etag: bytes | None


class RemoteSource(Source):
    """A file of any pyarrow file system, read through pyarrow."""

    path: None
    identity: RemoteIdentity

    def __init__(self, name: str, filesystem: fs.FileSystem) -> None:
        self.name = name
        self.path = None
        self.filesystem = filesystem
        self._file, self.identity = self._open(self._open_for_ranges)
        self._idle = [self._file]
        self.size = self.identity.size

    def _open(self, open_file: Callable[[], pa.NativeFile]) -> tuple[pa.NativeFile, RemoteIdentity]:
        try:
            file = open_file()
        except _FAILURES as error:
            self._stat()  # it may raise a more precise error
            raise _convert_error(error, "cannot open", self.name) from error
        try:
            metadata = file.metadata() or {}
            etag = metadata.get(b"ETag", metadata.get("ETag"))
            # Opening returned size and etag; without an etag the modification time needs another request.
            modified_ns = None if etag else self._stat().mtime_ns
            kind = str(self.filesystem.type_name)
            return file, RemoteIdentity(kind, self.name, file.size(), modified_ns, etag or None)
        except _FAILURES as error:
            file.close()
            raise _convert_error(error, "cannot open", self.name) from error

    def _stat(self) -> fs.FileInfo:
        """Return the file info of the path, which must be a file."""
        try:
            info = self.filesystem.get_file_info(self.name)
        except _FAILURES as error:
            raise _convert_error(error, "cannot open", self.name) from error
        if info.type == fs.FileType.NotFound:
            raise StorageError("there is no such file", path=self.name, errno=errno.ENOENT)
        if info.type == fs.FileType.Directory:
            raise StorageError("cannot open: it is a folder", path=self.name, errno=errno.EISDIR)
        return info

    def _open_again(self, open_file: Callable[[], pa.NativeFile]) -> pa.NativeFile:
        file, identity = self._open(open_file)
        if identity != self.identity:
            file.close()
            raise ConcurrentChangeError("it was changed while it was being read", path=self.name)
        return file

    def _open_for_ranges(self) -> pa.NativeFile:
        """Open a file without read-ahead: the default of fsspec would read 5 MiB for every 32 bytes."""
        handler = self.filesystem.handler if isinstance(self.filesystem, fs.PyFileSystem) else None
        if not isinstance(handler, fs.FSSpecHandler):
            has_position = getattr(handler, "own_positions", False)
            others = _SideBySide.FILE_EACH if has_position else _SideBySide.NOT
            self._side_by_side = _SideBySide.ONE_FILE if handler is None else others
            return self.filesystem.open_input_file(self.name)
        try:
            file = handler.fs.open(self.name, mode="rb", cache_type="none")
        except TypeError:  # an implementation without this option
            file = handler.fs.open(self.name, mode="rb")
        # Other classes (such as files in memory) may return one shared object, with one position, for all opens.
        has_position = isinstance(file, sys.modules["fsspec"].spec.AbstractBufferedFile)
        self._side_by_side = _SideBySide.FILE_EACH if has_position else _SideBySide.NOT
        return pa.PythonFile(file, mode="r")

    def _read(self, offset: int, length: int) -> bytes:
        data = self._read_from(self._file, offset, length)
        self._count(1, len(data))
        return data

    def _read_from(self, file: pa.NativeFile, offset: int, length: int) -> bytes:
        try:
            return bytes(file.read_at(length, offset))
        except (*_FAILURES, ValueError) as error:
            raise _convert_error(error, f"cannot read at offset {offset}", self.name) from error

    def _gather(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        spans = byte_ranges.coalesce(offsets, lengths)
        count = byte_ranges.PARALLEL_REQUESTS
        if self._side_by_side is _SideBySide.NOT:
            count = 1
        elif self._side_by_side is _SideBySide.FILE_EACH:
            count = min(count, 1 + len(spans) // _SPANS_A_FILE)
        byte_ranges.gather(self._fetch, spans, offsets, lengths, out, count)

    def _fetch(self, span: byte_ranges.Span) -> bytes:
        data = self._fetch_some(span)
        self._count(1, len(data))
        if len(data) != span.length:
            raise self._truncated_error(span.offset, span.length, len(data))
        return data

    def _fetch_some(self, span: byte_ranges.Span) -> bytes:
        if self._side_by_side is not _SideBySide.FILE_EACH:
            return self._read_from(self._file, span.offset, span.length)
        try:
            file = self._idle.pop()
        except IndexError:
            file = self._open_again(self._open_for_ranges)
        try:
            return self._read_from(file, span.offset, span.length)
        finally:
            self._idle.append(file)

    def arrow_file(self) -> pa.NativeFile:
        """Return a separate pyarrow file, which must still be the same version."""
        return self._open_again(lambda: self.filesystem.open_input_file(self.name))

    def check_unchanged(self) -> None:
        self.arrow_file().close()

    def close(self) -> None:
        self.keep(0, b"")
        for file in (self._file, *self._idle):
            file.close()
        self._idle.clear()


def _convert_error(error: Exception, action: str, name: str) -> StorageError:
    return error if isinstance(error, StorageError) else StorageError.wrap(error, action, name)
