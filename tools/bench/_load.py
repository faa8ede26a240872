"""The runner of `load.py`: cases of steps, each step in a separate process with a memory ceiling."""

from __future__ import annotations

import multiprocessing
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _common  # noqa: F401  (first, to import the package of this checkout)

MIB = 1 << 20


@dataclass(frozen=True)
class Size:
    """The size of the data: in full, or small enough for a test."""

    full: bool

    def of(self, full: int, small: int) -> int:
        return full if self.full else small


@dataclass(frozen=True)
class Step:
    """One operation on the data.

    Attributes
    ----------
    name : description of the operation.
    ceiling : maximum memory of its process in MiB, including interpreter and imports; 0, without a limit, for making
        the data.
    run : runs it in the case's folder, and returns a description of the result.
    """

    name: str
    ceiling: int
    run: Callable[[Path, Size], str]


@dataclass(frozen=True)
class Measured:
    """The cost of a step: seconds, processor seconds, MiB of memory, MiB written."""

    seconds: float
    busy: float
    peak: float
    written: float
    note: str
    failed: bool = False


def measure(step: Step, folder: Path, size: Size) -> Measured:
    """Run a step in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(step.run, folder, size, theirs))
    child.start()
    theirs.close()
    try:
        return Measured(*ours.recv())
    except EOFError:
        child.join()
        return Measured(0.0, 0.0, 0.0, 0.0, f"died with exit code {child.exitcode}", failed=True)
    finally:
        child.join()


def _child(run: Callable[[Path, Size], str], folder: Path, size: Size, pipe: Any) -> None:
    started = time.perf_counter()
    failed = False
    try:
        note = run(folder, size)
    except Exception as error:
        note, failed = f"{type(error).__name__}: {error}", True
    seconds = time.perf_counter() - started
    # Child processes count as well.
    process, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    busy = sum(usage.ru_utime + usage.ru_stime for usage in (process, children))
    below = children.ru_maxrss / 1024
    pipe.send((seconds, busy, max(high_water(), below), _written() / MIB, note, failed))
    pipe.close()


def high_water() -> float:
    """Return the peak memory of this process in MiB (`ru_maxrss` starts with that of the parent)."""
    match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def _written() -> int:
    """Return the number of bytes that this process has written to file systems."""
    match = re.search(r"^write_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)
    return 0 if match is None else int(match[1])
