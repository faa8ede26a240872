"""Watches who opens or lists what is in some folders, and all that this process does to files."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


_EVENTS = {"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate",
           "os.chmod", "os.chown", "os.link", "os.symlink", "os.utime", "os.setxattr"}  # fmt: skip
_watching: list[list[tuple[str, str]]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in _EVENTS:
        for argument in arguments[:2]:
            if isinstance(argument, (str, bytes)):
                for seen in _watching:
                    seen.append((event, os.fsdecode(argument)))


sys.addaudithook(_hook)  # which stays


@contextmanager
def touched() -> Iterator[list[tuple[str, str]]]:
    """(event, path) of all that Python code does to files in the `with` statement."""
    seen: list[tuple[str, str]] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


def everything_in(folder: str | os.PathLike[str]) -> dict[str, tuple[int, int, bytes]]:
    """{path: (mode, time of change, contents)} of all below a folder."""
    results = {}
    for above, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(above, name)
            status = os.lstat(path)
            data = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
            results[path] = status.st_mode, status.st_mtime_ns, data
    return results
