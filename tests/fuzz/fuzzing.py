"""What fuzz targets share.

A target is a test of Hypothesis marked `@fuzz(...)`. pytest runs it on some random inputs, `campaign.py` gives the
same function inputs that atheris makes. The inputs of most are the bytes of a good document with a few edits
(`edited`). `corpus/NAME/` has inputs of `test_NAME` that once found something.
"""

from __future__ import annotations

import functools
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:  # for `support`: a campaign runs without pytest
    sys.path.append(str(HERE.parent))

from support.scale import PROFILES, scaled  # noqa: E402

T = TypeVar("T")
MAX_SECONDS = 10.0
"""Of processor time for one input: far more than any takes, so that a slow machine finds nothing of its own."""
MAX_ADDED_BYTES = 1 << 30
"""Of address space that one input may add."""
MAX_TOUCHED_KIB = 1 << 19
"""That one input may add to the most that the process ever had in memory."""


Good = Callable[[], list[bytes]]


def fuzz(
    *allowed: type[Exception],
    good: Good | None = None,
    recipes: Good | None = None,
    longest: int = 4096,
    examples: int = 20,
    **strategies: st.SearchStrategy[Any],
) -> Callable[[T], T]:
    """Make a function a fuzz target.

    Parameters
    ----------
    allowed : the errors that bad input may end in, of one line each.
    good : makes inputs that are taken; the argument `data` is one of them with a few edits.
    recipes : the same, of inputs that say how something is damaged, and may be refused.
    longest : of these, in bytes.
    examples : that a run of the default tier tries.
    strategies : other arguments.
    """
    if good or recipes:
        strategies["data"] = edited(good or recipes, longest)

    def decorate(run: Any) -> Any:
        @functools.wraps(run)
        def bounded(**inputs: Any) -> None:
            with _bounds():
                try:
                    run(**inputs)
                except allowed as error:
                    one_line(error)
                except BaseException as error:
                    if isinstance(inputs.get("data"), bytes):
                        error.add_note(f"input {inputs['data'].hex()}")
                    raise

        is_long = hypothesis.settings.default.max_examples >= PROFILES["long"]
        chosen = hypothesis.settings(
            max_examples=scaled(examples) * (15 if is_long else 1),
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        test = chosen(hypothesis.given(**strategies)(bounded))
        test.run, test.good, test.recipes = run, good, recipes
        return test

    return decorate


@st.composite
def edited(draw: st.DrawFn, good: Good, longest: int = 4096) -> bytes:
    """One of the good documents with a few edits."""
    documents = good()
    data = bytearray(draw(st.sampled_from(documents)))
    for how in draw(st.lists(_EDITS, max_size=6)):
        at = draw(st.integers(0, len(data)))
        if how == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "set":
            data[at : at + 1] = bytes([draw(_BYTES)])
        elif how == "add" and at < len(data):
            data[at] = (data[at] + draw(st.integers(-4, 4))) & 255
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif how == "drop":
            del data[at : at + draw(st.integers(1, 40))]
        elif how == "cut":
            del data[at:]
        elif how == "copy":
            to, piece = draw(st.integers(0, len(data))), data[at : at + draw(st.integers(1, 32))]
            data[to : to + (len(piece) if draw(st.booleans()) else 0)] = piece
        elif how == "number":
            number = draw(st.sampled_from(_NUMBERS))
            data[at : at + (len(number) if draw(st.booleans()) else 1)] = number
        elif how == "splice":
            other = draw(st.sampled_from(documents))
            data[at:] = other[draw(st.integers(0, len(other))) :]
    return bytes(data[:longest])


_EDITS = st.sampled_from(("set", "flip", "add", "insert", "drop", "cut", "copy", "number", "splice", "set", "number"))
_BYTES = st.integers(0, 255) | st.sampled_from(
    # The ends of a varint, types and heads of lists in compact Thrift.
    [0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 0x15, 0x18, 0x1C, 0x19, 0x3F, 0x40, 0x7F, 0x80, 0xF9, 0xFC, 0xFE, 0xFF]
)
_EDGES = [edge for bits in (7, 8, 15, 16, 24, 31, 32, 63) for edge in ((1 << bits) - 1, 1 << bits)]
ODD = [0, 1, -1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 1000, 4096, 65_535, 65_536, 10**6]
ODD += [2**24, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -2, -8, -32, -128, -(2**15)]
ODD += [-(2**31), -(2**31) - 1, -(2**32), -(2**62), -(2**63)]
_TELLING = np.array([0, 1, 2, 3, 31, 32, 33, 64, 255, 256, 1 << 16, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -1])


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


_NUMBERS = [varint(edge) for edge in _EDGES] + [edge.to_bytes(8, "little") for edge in _EDGES]
_NUMBERS += [edge.to_bytes(4, "little") for edge in _EDGES if edge < 1 << 32] + [b"\xff" * 10, b"\x80" * 9 + b"\1"]


class Choices:
    """An input read as decisions and numbers, where it says what is done to a good file; all are 0 when it is over."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes; fewer at the end."""
        at, self._at = self._at, self._at + count
        return self._data[at : at + count]

    def padded(self, count: int) -> bytes:
        return self.take(count).ljust(count, b"\0")

    def number(self, width: int = 1) -> int:
        return int.from_bytes(self.take(width), "little")

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if count <= 256:
            return self.number() % max(count, 1)
        return int.from_bytes(self.padded(3), "big") % count

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def odd_number(self, near: int = 0) -> int:
        """A number that is often at fault, one beside `near`, or any of up to eight bytes."""
        how = self.number()
        if how < 120:
            return ODD[how % len(ODD)]
        if how < 200:
            return near + (how - 160)
        return int.from_bytes(self.take(1 + how % 8), "little", signed=True)

    def numbers(self, count: int) -> NDArray[np.int64]:
        return np.frombuffer(self.padded(8 * count), np.int64).copy()

    def short_numbers(self, count: int) -> NDArray[np.int64]:
        """Numbers of 16 bits; those from 0xFFF0 on stand for some that are at an edge."""
        short = np.frombuffer(self.padded(2 * count), np.uint16).astype(np.int64)
        return np.where(short >= 0xFFF0, _TELLING[short & 15], short)

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def damage(self, data: bytes, most: int = 3) -> bytes:
        """Bytes of which a few are others, missing, or there twice."""
        for _ in range(1 + self.below(most)):
            if not data:
                return data
            how, at = self.below(6), self.below(len(data))
            if how == 0:
                data = data[:at] + bytes([data[at] ^ 1 << self.below(8)]) + data[at + 1 :]
            elif how == 1:
                data = data[:at] + bytes([self.number()]) + data[at + 1 :]
            elif how == 2:
                data = data[:at]
            elif how == 3:
                data = data[:at] + data[at + 1 + self.below(40) :]
            elif how == 4:
                data = data[:at] + self.take(1 + self.below(8)) + data[at:]
            else:
                data = data[:at] + data[at : at + 1 + self.below(64)] + data[at:]
        return data


def short(*numbers: int) -> bytes:
    """As `short_numbers` takes them."""
    return np.array(numbers, np.uint16).tobytes()


class RefusedError(Exception):
    """A slow twin refuses its bytes."""


def check(ours: Callable[[], Any], twin: Callable[[], Any], error: type[Exception]) -> None:
    """Hold what the package does to what a slow twin does: the same result, or both refuse the input."""
    refused = object()
    try:
        expected = twin()
    except RefusedError:
        expected = refused
    try:
        result = ours()
    except error:
        assert expected is refused, f"refused, where {expected} is right"
        raise
    assert expected is not refused, f"{result}, where the input is to be refused"
    assert result == expected or repr(result) == repr(expected), f"{result}, where {expected} is right"


def one_line(error: Exception) -> None:
    """Hold an error to what every one is: a line that can be printed."""
    assert str(error).isprintable(), repr(str(error))


@contextmanager
def _bounds() -> Iterator[None]:
    """Bound what one input takes of memory and time."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if now < 1 << 42:  # a sanitizer's shadow takes terabytes; its own bound is set in ASAN_OPTIONS
        resource.setrlimit(resource.RLIMIT_AS, (now + MAX_ADDED_BYTES, hard))
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    touched = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert touched <= MAX_TOUCHED_KIB, f"an input takes {touched >> 10} MiB"


def _too_slow(*_: object) -> None:
    raise AssertionError(f"an input takes more than {MAX_SECONDS:g} seconds")


_file_numbers = count()


@functools.cache
def folder() -> Path:
    """A folder of the process, in memory where the system has such a place; removed at its end."""
    import atexit

    directory = Path(
        tempfile.mkdtemp(prefix="parquet-bloom-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    )
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def as_folder(files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder of these files, under a name that no cache knows."""
    path = folder() / str(next(_file_numbers))
    try:
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        yield str(path)
    finally:
        shutil.rmtree(path)


@contextmanager
def as_file(data: bytes, ending: str = ".parquet") -> Iterator[str]:
    path = folder() / f"{next(_file_numbers)}{ending}"
    path.write_bytes(data)
    try:
        yield str(path)
    finally:
        path.unlink()


@functools.cache
def targets() -> dict[str, Any]:
    """All targets by name."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.stem != "test_kept":
            # As pytest has loaded it, or for a campaign.
            loaded = (module for module in sys.modules.values() if getattr(module, "__file__", None) == str(path))
            for name, value in vars(next(loaded, None) or importlib.import_module(path.stem)).items():
                if hasattr(value, "run") and hasattr(value, "hypothesis"):
                    found[name.removeprefix("test_")] = value
    return found


def kept_inputs(name: str) -> list[Path]:
    """The files of a target's inputs that found something."""
    return sorted(path for path in (HERE / "corpus" / name).glob("*") if path.is_file())
