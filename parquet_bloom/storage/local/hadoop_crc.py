"""Hadoop's checksums: the hidden `.name.crc` that its local file system keeps beside `name`.

Format: `crc` and a zero byte, the chunk length as a big-endian int32 (512 by default), then a big-endian
CRC32 of each chunk, the last one possibly shorter. A stale one makes Spark fail or, when it is told to ignore
corrupt files, lose the file's rows; none at all is always right.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ...errors import StorageError
from . import rename, temporary
from .copy import PIECE, write_at
from .source import FileIdentity

_HEADER = struct.Struct(">4si")
_MAGIC = b"crc\0"
_MAX_CHUNK = 1 << 20  # Hadoop's default is 512; more than this is not a chunk length but damage


class Checksums(NamedTuple):
    """A well-formed checksum file: bytes a chunk, and four bytes of CRC for each."""

    chunk: int
    sums: bytes

    def to_bytes(self) -> bytes:
        """The file's contents."""
        return _HEADER.pack(_MAGIC, self.chunk) + self.sums


def checksum_path(path: str) -> str:
    """The path of the checksum file of `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def read(path: str, size: int) -> Checksums | None:
    """The checksums at `path` if header and length are right for a file of `size` bytes, else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        header = os.pread(descriptor, _HEADER.size, 0) if stat.S_ISREG(status.st_mode) else b""
        if len(header) < _HEADER.size:
            return None
        magic, chunk = _HEADER.unpack(header)
        if magic != _MAGIC or not 1 <= chunk <= _MAX_CHUNK:
            return None
        length = 4 * -(-size // chunk)
        if status.st_size != _HEADER.size + length:
            return None
        sums = os.pread(descriptor, length, _HEADER.size)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Checksums(chunk, sums) if len(sums) == length else None


def compute(descriptor: int, start: int, size: int, chunk: int) -> bytes:
    """The CRCs of the chunks in `[start, size)` of an open file; `start` is the start of a chunk."""
    sums = bytearray()
    step = max(chunk, PIECE // chunk * chunk)
    while start < size:
        piece = memoryview(os.pread(descriptor, min(step, size - start), start))
        if len(piece) < min(step, size - start):
            raise OSError(f"the file ends at {start + len(piece)}, before {size}")
        for first in range(0, len(piece), chunk):
            sums += zlib.crc32(piece[first : first + chunk]).to_bytes(4, "big")
        start += len(piece)
    return bytes(sums)


def renew(old: Checksums, prefix: int, descriptor: int, size: int) -> Checksums:
    """Checksums of a file whose first `prefix` bytes are those that `old` describes.

    Whole chunks of the prefix are carried over, not computed: should the disk have damaged a page, the
    writer's own checksum still tells.
    """
    num_kept = prefix // old.chunk
    tail = compute(descriptor, num_kept * old.chunk, size, old.chunk)
    return Checksums(old.chunk, old.sums[: 4 * num_kept] + tail)


def matches_file(path: str, data: str) -> bool:
    """Whether the checksum file at `path` is that of the file `data`; reads all of it."""
    try:
        descriptor = os.open(data, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        checksums = read(path, size)
        return checksums is not None and compute(descriptor, 0, size, checksums.chunk) == checksums.sums
    except OSError:
        return False
    finally:
        os.close(descriptor)


class Sidecar:
    """One checksum file beside the target of a rewrite, on its way from the old contents to the new.

    Steps in order: `prepare`, `set_aside`, then, after the data file changed, `place`, or `put_back` if it
    did not; at last `discard`. At every moment there is either the right checksum file or none.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._new: str | None = None
        self._aside: str | None = None

    def prepare(self, old: Checksums | None, prefix: int, descriptor: int, size: int) -> None:
        """Write the new checksums to a temporary file; none if there is no old one to renew."""
        if old is None or os.path.islink(self.path) or not os.path.isfile(self.path):
            return
        data = renew(old, prefix, descriptor, size).to_bytes()
        target, self._new = temporary.create(self.path, 0o600)
        try:
            temporary.keep_attributes(self.path, target, self.path)
            write_at(target, data, 0)
            os.fsync(target)
        except (FileNotFoundError, StorageError):
            self.discard()  # the old one has just been removed, or is another user's
        finally:
            os.close(target)

    def set_aside(self) -> None:
        """Take the old one away under a temporary name."""
        try:
            if not stat.S_ISDIR(os.lstat(self.path).st_mode):
                self._aside = temporary.name_beside(self.path)
                os.rename(self.path, self._aside)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise

    def install(self, is_ours: Callable[[], bool]) -> None:
        """Bring in the new one, while `is_ours` says that the file which it describes stands there.

        One that stands there by now is another writer's, and is left alone. Who writes checksums puts them
        there after the data, so that to look at the data once more afterwards leaves no gap.
        """
        new, self._new = self._new, None
        if new is None:
            return
        with suppress(OSError):
            status = os.lstat(new)
            if is_ours():
                rename.rename_new(new, self.path)
                if is_ours() or not os.path.samestat(status, os.lstat(self.path)):
                    return
                new = self.path
        with suppress(OSError):
            os.unlink(new)

    def restore(self, data: str, before: object) -> None:
        """Bring back the old one, if the file `data` is still the one that it describes: `before`, or else it is read.

        Who writes to the file in that moment need not know of checksums, so that it is looked at once more afterwards.
        """
        now = _read_identity(data)
        if self._aside is None or not ((now is not None and now == before) or matches_file(self._aside, data)):
            return
        with suppress(OSError):
            rename.rename_new(self._aside, self.path)
            self._aside = None
            if _read_identity(data) != now:
                os.unlink(self.path)

    def discard(self) -> None:
        """Remove what is left under temporary names."""
        for name in (self._new, self._aside):
            if name is not None:
                with suppress(OSError):
                    os.unlink(name)
        self._new = self._aside = None


def _read_identity(path: str) -> FileIdentity | None:
    try:
        return FileIdentity.of(os.lstat(path))
    except OSError:
        return None
