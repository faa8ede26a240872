"""Checksum files of Hadoop: the hidden `.name.crc` that its local file system stores beside `name`.

Format: `crc` and a zero byte, the chunk length as a big-endian int32 (512 by default), then a big-endian
CRC32 of each chunk; the last chunk may be shorter. With a stale checksum file Spark fails or, if configured to ignore
corrupt files, loses the rows of the file; a missing one is always safe.
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
_MAX_CHUNK = 1 << 20  # the default of Hadoop is 512; a larger value than this means that the file is damaged


class Checksums(NamedTuple):
    """A valid checksum file: bytes per chunk, and four bytes of CRC for each chunk."""

    chunk: int
    sums: bytes

    def to_bytes(self) -> bytes:
        """Return the contents of the file."""
        return _HEADER.pack(_MAGIC, self.chunk) + self.sums


def checksum_path(path: str) -> str:
    """Return the path of the checksum file of `path`."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def read(path: str, size: int) -> Checksums | None:
    """Read the checksums at `path`; None unless header and length fit a file of `size` bytes."""
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
    """Compute the CRCs of the chunks in `[start, size)` of an open file; `start` is the start of a chunk."""
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
    """Return checksums of a file whose first `prefix` bytes are those that `old` describes.

    Complete chunks of the prefix are copied, not recomputed: if the disk damaged a page, the checksum of the original
    writer still shows it.
    """
    num_kept = prefix // old.chunk
    tail = compute(descriptor, num_kept * old.chunk, size, old.chunk)
    return Checksums(old.chunk, old.sums[: 4 * num_kept] + tail)


def matches_file(path: str, data: str) -> bool:
    """Return whether the checksum file at `path` matches the file `data`; reads all of it."""
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
    """Checksum file beside the target of a rewrite, updated together with it.

    Steps in order: `prepare`, `set_aside`, then `install` after the data file changed, or `restore` if it did not;
    finally `discard`. At every moment there is either a correct checksum file or none.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._new: str | None = None
        self._aside: str | None = None

    def prepare(self, old: Checksums | None, prefix: int, descriptor: int, size: int) -> None:
        """Write the new checksums to a temporary file, unless there is no old file to update."""
        if old is None or os.path.islink(self.path) or not os.path.isfile(self.path):
            return
        data = renew(old, prefix, descriptor, size).to_bytes()
        target, self._new = temporary.create(self.path, 0o600)
        try:
            temporary.keep_attributes(self.path, target, self.path)
            write_at(target, data, 0)
            os.fsync(target)
        except (FileNotFoundError, StorageError):
            self.discard()  # the old one has just been removed, or belongs to another user
        finally:
            os.close(target)

    def set_aside(self) -> None:
        """Move the old file to a temporary name."""
        try:
            if not stat.S_ISDIR(os.lstat(self.path).st_mode):
                self._aside = temporary.name_beside(self.path)
                os.rename(self.path, self._aside)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise

    def install(self, is_ours: Callable[[], bool]) -> None:
        """Move the new file to its path, if `is_ours` confirms that the data file is the one it describes.

        An existing file belongs to another writer and is not replaced. Other writers also write checksums after the
        data, so checking the data file again afterwards leaves no gap.
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
        """Move the old file back if it still describes `data`: by the identity `before`, or else by reading the data.

        A concurrent writer may not update checksums, so the data file is checked again afterwards.
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
        """Delete the remaining temporary files."""
        for name in (self._new, self._aside):
            if name is not None:
                with suppress(OSError):
                    os.unlink(name)
        self._new = self._aside = None


def _read_identity(path: str) -> FileIdentity | None:
    try:
        return FileIdentity.from_stat(os.lstat(path))
    except OSError:
        return None
