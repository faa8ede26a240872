"""storage/local/scatter.pyx and `Source.gather`: ranges in and out of a file, kept or not, compared with slices."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scratch import folder
from taking import Taken, short

from parquet_bloom.errors import TruncatedFileError
from parquet_bloom.storage import open_source
from parquet_bloom.storage.local import scatter

ALLOWED = (TruncatedFileError, ValueError)
MAX_INPUT = 512

DATA = bytes(number * 31 & 255 for number in range(5000))


@functools.cache
def path() -> str:
    position = os.path.join(folder(), "ranges")
    with open(position, "wb") as file:
        file.write(DATA)
    return position


def near(numbers: NDArray[np.int64], location: Any) -> NDArray[np.int64]:
    """The numbers; those from 0x8000 on stand for some about a place."""
    return np.where((numbers >= 0x8000) & (numbers < 0xFFF0), location + (numbers & 7) - 3, numbers)


def run(data: bytes) -> None:
    taken = Taken(data)
    how, count = taken.number() % 4, taken.number() % 16
    start, stop = sorted((taken.number(2) % len(DATA), taken.number(2) % len(DATA)))  # what is kept, if anything
    offsets, lengths = near(taken.short_numbers(count), start), taken.short_numbers(count)
    lengths = near(lengths, stop - offsets)
    inside = bool(((offsets >= 0) & (lengths >= 0) & (lengths <= len(DATA)) & (offsets <= len(DATA) - lengths)).all())
    expected = [DATA[start : start + length] for start, length in zip(offsets.tolist(), lengths.tolist(), strict=True)]
    try:
        received = read_by(how, offsets, lengths, b"".join(expected), start, stop)
    except ALLOWED as error:
        if inside:
            raise AssertionError(f"ranges that are there are refused: {error}") from error
        raise
    assert inside, "a range outside of the file was read"
    assert received == b"".join(expected)


def read_by(how: int, offsets: Any, lengths: Any, expected: bytes, start: int, stop: int) -> bytes:
    if how == 3:
        out = np.empty(len(expected), np.uint8)
        scatter.copy_scattered(np.frombuffer(DATA, np.uint8), offsets, lengths, out)
        return out.tobytes()
    with open_source(path()) as source:
        if how == 2:
            source.keep(start, DATA[start:stop])
        if how == 0:
            return source.gather(offsets, lengths).tobytes()
        return b"".join(source.read_ranges(zip(offsets.tolist(), lengths.tolist(), strict=True)))


def seeds() -> list[bytes]:
    ranges = short(0, 17, 0x8003, 0x8003) + short(5, 4000, 10, 0x8003)
    retained = bytes([2, 2]) + short(100, 4000, 0x8003, 0x8005, 0x8003, 0x8002)
    return [*(bytes([how, 4]) + short(100, 4000) + ranges for how in range(4)), retained]
