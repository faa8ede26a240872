"""Renames that Python does not offer: exchange two names, or take a name only if it is free."""

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
"""What the kernel or the file system answers when it does not know a flag or the call."""


def exchange(one: str, other: str) -> None:
    """Let two names swap their files in one step.

    Where that cannot be, the errno of the OSError is one of `UNSUPPORTED`.
    """
    _rename(one, other, _EXCHANGE)


def rename_new(old: str, new: str) -> None:
    """Rename, but never over anything: FileExistsError if `new` is taken."""
    try:
        _rename(old, new, _NOREPLACE)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.link(old, new)  # fails on a taken name as well
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
