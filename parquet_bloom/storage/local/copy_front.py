"""Copying of the unchanged front, and other ranges, of a file, as cheaply as the file system can."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from ...errors import TruncatedFileError
from ..new_file import COPIED_BYTES
from ..source import Source
from . import system_calls
from .local_source import LocalSource
from .system_calls import fcntl

_RANGE = 16 << 20  # bytes per call: the disk writes what is copied while the rest is copied
_SYNC_FILE_RANGE_WRITE = 2
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: a file that ends early must not be padded with zeros
_FICLONE = getattr(fcntl, "FICLONE", 0x40049409)


def copy_prefix(source: Source, descriptor: int, length: int) -> None:
    """Copy the first `length` bytes of the source to the empty file of `descriptor`.

    A clone shares the blocks on disk; a range copy stays inside the kernel; reading and writing always works. Each
    slower way continues where the faster one stopped, whatever its error; the last one reports lasting errors.
    """
    if not 0 <= length <= source.size:
        raise TruncatedFileError(f"cannot copy {length} bytes: the file has {source.size}", path=source.name)
    if isinstance(source, LocalSource) and length:
        if _clone(source.fileno(), descriptor, length):
            return
        _reserve(descriptor, length)
    copy_range(source, 0, length, descriptor, 0)


def copy_range(source: Source, start: int, length: int, descriptor: int, position: int) -> None:
    """Copy a range of the source to a position in the file of `descriptor`, as `copy_prefix` but without cloning."""
    done = 0
    if isinstance(source, LocalSource):
        done = _copy_range(source.fileno(), start, length, descriptor, position)
    while done < length:
        piece = source.read_at(start + done, min(COPIED_BYTES, length - done))
        write_at(descriptor, piece, position + done)
        _begin_flush(descriptor, position + done, len(piece))
        done += len(piece)


def _reserve(descriptor: int, length: int) -> None:
    """Reserve disk space for the first `length` bytes at once, which takes less time than doing it write by write.

    This is only a hint: whether there is space for what is written, the writes tell.
    """
    call = system_calls.load_function("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if call is not None:
        call(descriptor, _KEEP_SIZE, 0, length)


def _begin_flush(descriptor: int, offset: int, length: int) -> None:
    """Start to write a range to disk, so that a later fsync waits less; a hint, too."""
    call = system_calls.load_function("sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    if call is not None:
        call(descriptor, offset, length, _SYNC_FILE_RANGE_WRITE)


def write_at(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data`; a single system call may write less."""
    view = memoryview(data)
    while len(view):
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _clone(source: int, target: int, length: int) -> bool:
    with suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        # A file that was truncated meanwhile must not be padded with zeros; reading it then raises the error.
        if os.fstat(target).st_size >= length:
            os.ftruncate(target, length)
            return True
    os.ftruncate(target, 0)
    return False


def _copy_range(source: int, start: int, length: int, target: int, position: int) -> int:
    """Return the number of bytes copied; the caller copies the rest."""
    call = getattr(os, "copy_file_range", None)
    done = 0
    with suppress(OSError):
        while call is not None and done < length:
            count = call(source, target, min(_RANGE, length - done), start + done, position + done)
            if not count:  # end of file, or a file system that cannot and does not say so
                break
            _begin_flush(target, position + done, count)
            done += count
    return done
