"""What systems have and others have not: functions of the C library, and what local files are read and locked by."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from ...errors import StorageError

try:
    import fcntl as fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@cache
def load_function(name: str, *argument_types: Any) -> Callable[..., Any] | None:
    """A function that returns an int and sets errno, looked up once; None where there is none. Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    function.argtypes = argument_types
    function.restype = ctypes.c_int
    return function


def require_posix(name: str | os.PathLike[str]) -> None:
    """Raise StorageError where local files cannot be read and locked as this folder's modules do it: on Windows."""
    if fcntl is None or not hasattr(os, "pread"):
        raise StorageError("local files need a POSIX system; object stores do not", path=name)
