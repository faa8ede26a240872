"""Local files that were opened before: a few ranges of each, and whether it still is the file that it was."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import visits
from .source import FileIdentity

_IDENTITY = struct.Struct("=QQqqq")


def visit(
    paths: Sequence[str],
    identities: Sequence[FileIdentity],
    first: NDArray[np.int64],
    offsets: NDArray[np.int64],
    length: int,
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Read ranges of one length from many files, and tell which files are still those of `identities`.

    Parameters
    ----------
    paths : the files, as they were opened.
    identities : what each was.
    first : file i has the ranges from first[i] to first[i + 1], those of all files one behind the other.
    offsets : where each range begins in its file.
    length : of each range, in bytes.

    Returns
    -------
    uint8 array of shape (ranges, length), and a bool array of shape (files): False for a file that is missing, cannot
    be read, ends before a range does, or is another one by now. Of such a file nothing read means anything.
    """
    packed = b"".join(_IDENTITY.pack(*identity) for identity in identities)
    known = np.frombuffer(packed, np.int64).reshape(-1, 5)
    offsets = np.ascontiguousarray(offsets, np.int64)
    return visits.visit([os.fsencode(path) for path in paths], known, np.ascontiguousarray(first), offsets, length)
