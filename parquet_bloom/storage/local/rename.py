"""Renames that Python lacks: exchange two names, or rename only if the new name is free."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import Any

from . import libc

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2

UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors of kernels and file systems that do not support the call or a flag."""


def exchange(one: str, other: str) -> None:
    """Exchange the files of two names atomically.

    If that is not supported, the errno of the OSError is one of `UNSUPPORTED`.
    """
    _rename(one, other, _EXCHANGE)


def rename_new(old: str, new: str) -> None:
    """Rename without replacing: raise FileExistsError if `new` exists."""
    try:
        _rename(old, new, _NOREPLACE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.link(old, new)  # also fails if the name exists
        os.unlink(old)


def _rename(old: str, new: str, flags: int) -> None:
    call = _renameat2()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), old, None, new)
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), old, None, new)


def _renameat2() -> Callable[..., Any] | None:
    return libc.load_function("renameat2", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
