"""storage/scattered.pyx and `Source.gather`: ranges of a file, in and out of it, kept and not, compared with slices."""

from __future__ import annotations

import functools
import os

import numpy as np
from scratch import folder
from taking import Taken, short

from parquet_bloom.errors import TruncatedFileError
from parquet_bloom.storage import open_source, scattered

ALLOWED = (TruncatedFileError, ValueError)
MAX_INPUT = 512

DATA = bytes(number * 31 & 255 for number in range(5000))


@functools.cache
def path() -> str:
    place = os.path.join(folder(), "ranges")
    with open(place, "wb") as file:
        file.write(DATA)
    return place


def run(data: bytes) -> None:
    taken = Taken(data)
    how, count = taken.number() % 4, taken.number() % 16
    offsets, lengths = taken.short_numbers(count), taken.short_numbers(count)
    inside = bool(((offsets >= 0) & (lengths >= 0) & (lengths <= len(DATA)) & (offsets <= len(DATA) - lengths)).all())
    wanted = [DATA[start : start + length] for start, length in zip(offsets.tolist(), lengths.tolist(), strict=True)]
    if how == 3:
        out = np.empty(sum(map(len, wanted)), np.uint8)
        scattered.copy_scattered(np.frombuffer(DATA, np.uint8), offsets, lengths, out)
        assert inside
        assert out.tobytes() == b"".join(wanted)
        return
    with open_source(path()) as source:
        if how == 2:
            start = taken.number(2) % len(DATA)
            source.keep(start, DATA[start : start + taken.number(2)])
        if how == 0:
            found = source.gather(offsets, lengths).tobytes()
        else:
            found = b"".join(source.read_ranges(zip(offsets.tolist(), lengths.tolist(), strict=True)))
    assert inside, "a range outside of the file was read"
    assert found == b"".join(wanted)


def seeds() -> list[bytes]:
    ranges = short(0, 17, 4990, 300) + short(5, 4000, 10, 0)
    return [bytes([how, 4]) + ranges + short(100, 4000) for how in range(4)]
