"""Temporary file for arrays that do not fit in memory; it has no name, so it disappears with the process."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from ..errors import StorageError
from ..util.arrow_values import AnyArray
from .local import copy_front


class SpillRun(NamedTuple):
    """Array that was written to a spill file.

    Attributes
    ----------
    offset : where it begins in the file, in bytes.
    count : number of values.
    dtype : their type.
    """

    offset: int
    count: int  # type: ignore[assignment]  # tuples have a method of this name
    dtype: np.dtype[np.generic]


class SpillFile:
    """Temporary file of arrays; thread-safe.

    Parameters
    ----------
    folder : a local folder for the file; None for the default folder of temporary files (TMPDIR).

    Attributes
    ----------
    num_bytes : bytes written so far.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        self._folder = tempfile.gettempdir() if folder is None else os.fsdecode(folder)
        self._lock = threading.Lock()
        self.num_bytes = 0
        try:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise StorageError.wrap(error, "cannot make a temporary file there", self._folder) from error

    def put(self, arrays: Sequence[AnyArray]) -> SpillRun:
        """Write arrays of one dtype, one after the other.

        Raises
        ------
        StorageError
            If the disk is full, or fails.
        """
        num_bytes = sum(array.nbytes for array in arrays)
        with self._lock:
            start, self.num_bytes = self.num_bytes, self.num_bytes + num_bytes
        position = start
        try:
            for array in arrays:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                copy_front.write_at(self._file.fileno(), data, position)
                position += data.nbytes
        except OSError as error:
            raise StorageError.wrap(error, "cannot write temporary files there", self._folder) from error
        dtype = arrays[0].dtype if arrays else np.dtype(np.uint8)
        return SpillRun(start, num_bytes // dtype.itemsize, dtype)

    def get(self, run: SpillRun, first: int = 0, count: int | None = None) -> AnyArray:
        """Read `count` values of a run from index `first` on; all that follow without a count.

        Raises
        ------
        StorageError
            If the disk fails.
        """
        count = run.count - first if count is None else count
        out = np.empty(count, run.dtype)
        view, done = out.view(np.uint8).data, 0
        offset = run.offset + first * run.dtype.itemsize
        try:
            while done < out.nbytes:
                received = os.preadv(self._file.fileno(), [view[done:]], offset + done)
                if not received:
                    raise StorageError("a temporary file there was truncated", path=self._folder)
                done += received
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError.wrap(error, "cannot read temporary files there", self._folder) from error
        return out

    def close(self) -> None:
        """Delete the file; may be called more than once."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
