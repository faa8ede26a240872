"""Shared parts of all fuzz targets: their discovery, the limits of an input, and inputs made without any tool.

A target is a module of `targets/`:

    ALLOWED     the exceptions that bad input may end in; any other one is a finding
    run(data)   does with the bytes what the package does with them; raises AssertionError where an answer is wrong
    seeds()     a list of good inputs, made by the package's own writers or by a peer
    MAX_INPUT   the longest input worth trying, in bytes (4096 where it does not say)
    SLICE       the inputs that a run of all tests tries of those that chance makes (400 where it does not say)

`corpus/<target>/` holds inputs that are kept: what a campaign found worth keeping, and every input that was a finding.
"""

from __future__ import annotations

import importlib
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from mutations import mutate

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:  # targets share the tests' helpers, and a campaign runs without pytest
    sys.path.append(str(HERE.parent))
MAX_INPUT = 4096
SLICE = 400
MAX_SECONDS = 10.0
"""Of processor time, for one input: far more than any takes, so that a slow machine finds nothing of its own."""

MAX_ADDED_BYTES = 1 << 30
"""Of address space, above what the process has before the first input: no small input may make a gigabyte."""


MAX_TOUCHED_KIB = 1 << 19
"""That an input may add to the most that the process ever had in memory: room that pyarrow is refused ends in an error
of its own kind, and room that it gets may be gone again when anybody looks."""


class TooSlowError(AssertionError):
    """An input took more processor time than one may."""


@dataclass(frozen=True)
class Target:
    """A fuzz target, and its good inputs."""

    name: str
    run: Callable[[bytes], None]
    allowed: tuple[type[BaseException], ...]
    seeds: Callable[[], list[bytes]]
    max_input: int
    slice: int  # of those that chance makes, the inputs that each run of the tests tries

    def __call__(self, data: bytes) -> bool:
        """Try an input: whether it was taken, else it was refused by a named error. Anything else is raised."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = True
        try:
            self.run(data)
        except self.allowed as error:
            if "\n" in str(error):
                raise AssertionError(f"an error of more than one line: {error}") from error
            taken = False
        touched = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if touched > MAX_TOUCHED_KIB:
            raise AssertionError(f"an input of {len(data)} bytes takes {touched >> 10} MiB")
        return taken

    @property
    def folder(self) -> Path:
        """Return the paths of the stored inputs."""
        return HERE / "corpus" / self.name

    def list_inputs(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*") if path.is_file())

    def good(self) -> list[bytes]:
        """Seeds and kept inputs."""
        return [*self.seeds(), *(path.read_bytes() for path in self.list_inputs())]

    def mutants(self, count: int, seed: int, more: Sequence[bytes] = ()) -> Iterator[bytes]:
        """Inputs made of the good ones, and of `more`: the same ones for the same seed."""
        rng = random.Random(f"{self.name} {seed}")
        good = [*self.good(), *more]
        for _ in range(count):
            yield mutate(rng, good, self.max_input)


def names() -> list[str]:
    """All targets."""
    return sorted(path.stem for path in (HERE / "targets").glob("*.py") if path.stem != "__init__")


def load(name: str) -> Target:
    module = importlib.import_module(f"targets.{name}")
    bounds = getattr(module, "MAX_INPUT", MAX_INPUT), getattr(module, "SLICE", SLICE)
    return Target(name, module.run, tuple(module.ALLOWED), module.seeds, *bounds)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit the process to MAX_ADDED_BYTES: a larger allocation raises MemoryError, which is a finding.

    A sanitizer's shadow takes terabytes of address space; its own bound is set in ASAN_OPTIONS instead.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if now > 1 << 42:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (now + MAX_ADDED_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlowError(f"an input takes more than {MAX_SECONDS:g} seconds")


@contextmanager
def bounded_time() -> Iterator[None]:
    """Within, an input that takes more than MAX_SECONDS of processor time ends in TooSlowError."""
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
