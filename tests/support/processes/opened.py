"""Watches who opens or lists what is in some folders, whichever process it is."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_IN_OPEN, _IN_NONBLOCK = 0x20, 0o4000
_EVENT = struct.Struct("iIII")


@contextmanager
def watching_opens(*folders: str | os.PathLike[str]) -> Iterator[list[str]]:
    """Collect the names of the files in some folders that are opened in the `with` statement, and `.` for a folder."""
    if sys.platform != "linux":
        pytest.skip("needs inotify")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(_IN_NONBLOCK)
    if descriptor < 0:
        pytest.skip("there are no inotify instances left")
    opened: list[str] = []
    try:
        for folder in folders:
            assert libc.inotify_add_watch(descriptor, os.fsencode(folder), _IN_OPEN) >= 0, os.strerror(
                ctypes.get_errno()
            )
        yield opened
        while True:
            try:
                data = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                break
            while data:
                _, _, _, length = _EVENT.unpack_from(data)
                name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
                opened.append(os.fsdecode(name) or ".")
                data = data[_EVENT.size + length :]
    finally:
        os.close(descriptor)
