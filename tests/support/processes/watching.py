"""Watches what this process opens, lists, makes, renames and deletes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
