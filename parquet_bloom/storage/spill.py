"""Room for what does not fit in memory: a nameless file that is gone with the process, however that ends."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import StorageError
from .local import copy


class SpillRun(NamedTuple):
    """Numbers that were put aside, one behind the other.

    Attributes
    ----------
    offset : where they begin in the file, in bytes.
    count : how many they are.
    dtype : what they are.
    """

    offset: int
    count: int  # type: ignore[assignment]  # tuples have a method of this name
    dtype: np.dtype[Any]


class SpillFile:
    """A temporary file of arrays. Several threads may use it.

    Parameters
    ----------
    folder : where it is, on the local file system; None for where temporary files are (TMPDIR).

    Attributes
    ----------
    num_bytes : written to it so far.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None):
        self._folder = tempfile.gettempdir() if folder is None else os.fsdecode(folder)
        self._lock = threading.Lock()
        self.num_bytes = 0
        try:
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise StorageError.wrap(error, "cannot make a temporary file there", self._folder) from error

    def put(self, arrays: Sequence[NDArray[Any]]) -> SpillRun:
        """Write arrays of one dtype one behind the other.

        Raises
        ------
        StorageError
            The disk is full, or fails.
        """
        num_bytes = sum(array.nbytes for array in arrays)
        with self._lock:
            start, self.num_bytes = self.num_bytes, self.num_bytes + num_bytes
        position = start
        try:
            for array in arrays:
                data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                copy.write_at(self._file.fileno(), data, position)
                position += data.nbytes
        except OSError as error:
            raise StorageError.wrap(error, "cannot write temporary files there", self._folder) from error
        dtype = arrays[0].dtype if arrays else np.dtype(np.uint8)
        return SpillRun(start, num_bytes // dtype.itemsize, dtype)

    def get(self, run: SpillRun, first: int = 0, count: int | None = None) -> NDArray[Any]:
        """Some numbers of a run, from the first wanted on; all that follow if no count is given.

        Raises
        ------
        StorageError
            The disk fails.
        """
        count = run.count - first if count is None else count
        out = np.empty(count, run.dtype)
        view, done = out.view(np.uint8).data, 0
        offset = run.offset + first * run.dtype.itemsize
        try:
            while done < out.nbytes:
                received = os.preadv(self._file.fileno(), [view[done:]], offset + done)
                if not received:
                    raise StorageError("a temporary file there was cut", path=self._folder)
                done += received
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError.wrap(error, "cannot read temporary files there", self._folder) from error
        return out

    def close(self) -> None:
        """Give the room back; may be called again."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
