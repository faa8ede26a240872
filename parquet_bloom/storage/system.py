"""Functions of the C library that Python does not offer."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def function(name: str, *argument_types: Any) -> Callable[..., Any] | None:
    """A function that returns an int and sets errno, looked up once; None where there is none. Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    found.argtypes = argument_types
    found.restype = ctypes.c_int
    return found
