"""What a Spark task does with its files: one outcome for each, whatever happens to another."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import TaskContext

from ...errors import ParquetBloomError, printable
from ...util.threads import in_order

R = TypeVar("R")

_SECRET = re.compile("(?!.*_id$).*(secret|token|password|key|credential|signature|sas|auth|headers)", re.IGNORECASE)
_MIN_SECRET_CHARS = 6  # characters: shorter ones occur in any text
_HIDDEN = "***"

NumberedFile = tuple[int, str]
"""Position of a file in the job, and its path as it is valid on executors."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """Result of processing one file.

    Attributes
    ----------
    path : the file.
    result : the return value of the work; None if it failed.
    error : why it failed, in one line; None if it did not.
    seconds : time that the file took.
    """

    path: str
    result: R | None = None
    error: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class FileTask(Generic[R]):
    """Function that processes the files of a task: their pickled list to the pickled list of (number, outcome).

    Attributes
    ----------
    work : called with a path.
    secrets : texts that errors must not contain.
    threads : number of files at a time; more than one where a file mostly waits, for a disk or a store.
    """

    work: Callable[[str], R]
    secrets: Sequence[str] = field(default=(), repr=False)
    threads: int = 1

    def __call__(self, packed: bytes) -> bytes:
        context = TaskContext.get()
        files: list[NumberedFile] = pickle.loads(packed)
        # Every second attempt begins with the last file: if the first one is still running (speculation, an executor
        # wrongly considered lost), the two meet once instead of following each other from file to file.
        if context is not None and context.attemptNumber() % 2 == 1:
            files.reverse()
        return pickle.dumps([*self.process_files(files)])

    def process_files(self, files: Sequence[NumberedFile]) -> Iterator[tuple[int, Outcome[R]]]:
        """Process files in their order, `threads` of them at a time."""
        numbers, paths = [number for number, _ in files], [path for _, path in files]
        if self.threads == 1 or len(files) < 2:
            yield from zip(numbers, map(self.process, paths), strict=True)
            return
        with in_order(self.process, paths, min(self.threads, len(paths))) as outcomes:
            yield from zip(numbers, outcomes, strict=True)

    def process(self, path: str) -> Outcome[R]:
        """Process one file; any error becomes its outcome."""
        started = time.perf_counter()
        result, problem = None, None
        try:
            result = self.work(path)
        except ParquetBloomError as error:
            problem = str(error)
        except Exception as error:
            problem = printable(f"{path}: {type(error).__name__}: {' '.join(str(error).split())}")
        if problem is not None:
            problem = hide_secrets(self.secrets, problem)
        return Outcome(path, result, problem, time.perf_counter() - started)


@dataclass(frozen=True)
class ArrowTask:
    """Function for `mapInArrow` that gets the numbers of tasks, and yields what `task` returns for them.

    Attributes
    ----------
    task : called with what a task gets, returns bytes.
    packed : what each task gets.
    """

    task: Callable[[bytes], bytes]
    packed: Sequence[bytes] = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in iter_numbers(batches):
            yield pa.RecordBatch.from_pydict({"data": pa.array([self.task(self.packed[number])], pa.binary())})


def iter_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Iterate over the numbers that a task gets as rows of one column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def find_secrets(storage_options: Mapping[str, Any] | None) -> list[str]:
    """Return the texts among the options that must not appear in errors."""
    values = [value for name, value in (storage_options or {}).items() if _SECRET.match(str(name))]
    texts = [str(text) for value in values for text in (value.values() if isinstance(value, Mapping) else [value])]
    return sorted((text for text in texts if len(text) >= _MIN_SECRET_CHARS), key=len, reverse=True)


def hide_secrets(secrets: Sequence[str], text: str) -> str:
    """Return a text with all secrets replaced."""
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text
