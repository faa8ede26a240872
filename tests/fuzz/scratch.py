"""Files for a moment, in memory: each under a name and an inode of its own, so that no cache takes it for another."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

_numbers = count()


@cache
def folder() -> Path:
    """A folder of the process, in memory where the system has such a place; removed at its end."""
    import atexit

    directory = Path(
        tempfile.mkdtemp(prefix="parquet-bloom-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    )
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def as_file(data: bytes, ending: str = ".parquet") -> Iterator[str]:
    """A file of these bytes."""
    path = f"{folder()}/{next(_numbers)}{ending}"
    with open(path, "xb", buffering=0) as file:
        file.write(data)
    try:
        yield path
    finally:
        os.unlink(path)


@contextmanager
def as_folder(files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder of these files."""
    path = f"{folder()}/{next(_numbers)}"
    os.mkdir(path)
    try:
        for name, data in files.items():
            location = os.path.join(path, name)
            os.makedirs(os.path.dirname(location), exist_ok=True)
            with open(location, "xb", buffering=0) as file:
                file.write(data)
        yield path
    finally:
        shutil.rmtree(path)


def one_line(error: Exception) -> None:
    """Hold an error to what every one is: a line that can be printed."""
    assert str(error).isprintable(), repr(str(error))
