"""Optional platform features: functions of the C library, and fcntl."""

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
    """Return a C function that returns an int and sets errno, or None; looked up once, and only on Linux."""
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
    """Raise StorageError on platforms without pread and file locks, such as Windows."""
    if fcntl is None or not hasattr(os, "pread"):
        raise StorageError("local files need a POSIX system; object stores do not", path=name)
