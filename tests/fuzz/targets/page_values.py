"""metadata/page_values.pyx: levels, dictionary numbers and values of decompressed pages, each beside a slow twin."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator

import numpy as np
from taking import RefusedError, Taken, check, short

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import page_values

ALLOWED = (MalformedFooterError,)
MAX_INPUT = 512


def hybrid(data: bytes, width: int) -> Iterator[int]:
    """The numbers of runs one after the other, then RefusedError."""
    at = 0
    while True:
        header = shift = 0
        while True:
            if at >= len(data) or shift > 35:
                raise RefusedError
            header |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        if header >> 1 == 0:
            raise RefusedError
        if header & 1:
            if width == 0:
                raise RefusedError
            piece = data[at : at + (header >> 1) * width]
            bits = int.from_bytes(piece, "little")
            for i in range(min((header >> 1) * 8, len(piece) * 8 // width)):
                yield bits >> (i * width) & ((1 << width) - 1)
            at += len(piece)
            continue
        value_bytes = (width + 7) // 8
        if len(data) - at < value_bytes:
            raise RefusedError
        value = int.from_bytes(data[at : at + value_bytes], "little")
        at += value_bytes
        if value >> width:
            raise RefusedError
        for _ in range(header >> 1):
            yield value


def first_of(data: bytes, width: int, count: int) -> list[int] | None:
    """So many numbers; None where there are not as many."""
    results: list[int] = []
    try:
        for number in hybrid(data, width):
            if len(results) >= count:
                break
            results.append(number)
    except RefusedError:
        return results if len(results) >= count else None
    return results


def byte_arrays(data: bytes) -> tuple[list[bytes], bool]:
    """Return the values, and whether no bytes follow them."""
    results, at = [], 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if at + 4 + length > len(data):
            break
        results.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return results, at == len(data)


def run(data: bytes) -> None:
    taken = Taken(data)
    [levels_of, numbers_of, taken_arrays, split_arrays, equal_values][taken.number() % 5](taken)


def is_ascending(numbers: np.ndarray, count: int) -> bool:
    return bool((numbers >= 0).all() and (numbers < count).all() and (np.diff(numbers) >= 0).all())


def numbers_of(taken: Taken) -> None:
    width, numbers = taken.number() % 36, taken.short_numbers(taken.number() % 6)
    data = taken.rest()

    def twin() -> list[int] | None:
        if not len(numbers):
            return []
        if not is_ascending(numbers, 1 << 16) or width > 32:
            return None
        all_of = first_of(data, width, int(numbers[-1]) + 1)
        return None if all_of is None else [all_of[number] for number in numbers]

    if len(numbers) and 1 << 16 <= numbers[-1] < 1 << 24:
        page_values.take_hybrid(data, width, numbers)  # too many for the twin
    else:
        check(taken.data, lambda: page_values.take_hybrid(data, width, numbers).tolist(), twin)


def levels_of(taken: Taken) -> None:
    count, rows = int(taken.short_numbers(1)[0]), taken.short_numbers(taken.number() % 6)
    data = taken.rest()

    def twin() -> tuple[list[bool], list[int]] | None:
        if not len(rows):
            return [], []
        if not is_ascending(rows, count):
            return None
        levels = first_of(data, 1, int(rows[-1]) + 1)
        if levels is None:
            return None
        return [bool(levels[row]) for row in rows], [sum(levels[:row]) for row in rows if levels[row]]

    def ours() -> tuple[list[bool], list[int]]:
        has_value, numbers = page_values.find_values(data, count, rows)
        return has_value.tolist(), numbers.tolist()

    if len(rows) and 1 << 16 <= rows[-1] < count:
        ours()  # too many for the twin
    else:
        check(taken.data, ours, twin)


def taken_arrays(taken: Taken) -> None:
    numbers = taken.short_numbers(taken.number() % 6)
    data = taken.rest()

    def twin() -> bytes | None:
        values, _ = byte_arrays(data)
        if not all(0 <= number < len(values) for number in numbers):
            return None
        return b"".join(struct.pack("<I", len(values[number])) + values[number] for number in numbers)

    check(taken.data, lambda: page_values.take_byte_arrays(data, numbers), twin)


def split_arrays(taken: Taken) -> None:
    valid = np.frombuffer(taken.bytes(taken.number() % 16), np.uint8) & 1
    data = taken.rest()

    def twin() -> tuple[list[int], bytes] | None:
        values, complete = byte_arrays(data)
        if not complete or len(values) != valid.sum():
            return None
        remaining = iter(values)
        entries = [next(remaining) if here else b"" for here in valid]
        return [sum(map(len, entries[:i])) for i in range(len(entries) + 1)], b"".join(values)

    def ours() -> tuple[list[int], bytes]:
        offsets, result = page_values.split_byte_arrays(data, valid)
        return offsets.tolist(), result.tobytes()

    check(taken.data, ours, twin)


def equal_values(taken: Taken) -> None:
    width = taken.number() % 20
    numbers = taken.short_numbers(taken.number() % 6)
    expected = [taken.bytes(taken.number() % 12 if taken.number() & 1 else width) for _ in range(taken.number() % 4)]
    data = taken.rest()

    def twin() -> tuple[list[int], list[int]] | None:
        values = byte_arrays(data)[0]
        if width:
            values = [data[at : at + width] for at in range(0, len(data) - width + 1, width)]
        if not is_ascending(numbers, len(values)):
            return None
        hits = [(i, expected.index(values[number])) for i, number in enumerate(numbers) if values[number] in expected]
        return [location for location, _ in hits], [which for _, which in hits]

    def ours() -> tuple[list[int], list[int]]:
        positions, which = page_values.find_equal(data, width, numbers, expected)
        return positions.tolist(), which.tolist()

    check(taken.data, ours, twin)


@functools.cache
def seeds() -> list[bytes]:
    levels = b"\x06\x01" + b"\x03\xb5" + b"\x08\x00" + b"\x05\xff\x0f"
    numbers = b"\x05" + bytes(range(20, 30)) + b"\x0a\x07" + b"\x07" + bytes(15)
    texts = b"".join(struct.pack("<I", len(text)) + text for text in (b"a", b"", b"bcd", b"bcd", b"longer than others"))
    return [
        b"\0" + short(31) + b"\4" + short(0, 3, 12, 30) + levels,
        b"\1\5\3" + short(0, 1, 20) + numbers,
        b"\1\x0b\3" + short(0, 2, 8) + b"\x03" + bytes(range(22)) + b"\x08\x01\x02",
        b"\1\x20\2" + short(1, 9) + b"\x08\x01\x02\x03\x04\x03" + bytes(range(64)),
        b"\2\4" + short(0, 4, 2, 2) + texts,
        b"\2\3" + short(1, 2, 3) + texts,
        b"\3\x08" + bytes([1, 0, 1, 1, 0, 1, 1, 0]) + texts,
        b"\4\0\4" + short(0, 2, 3, 4) + b"\2\1\3bcd\1\1a" + texts,
        b"\4\4\3" + short(0, 1, 5) + b"\2\0\1\2\3\4\0\4\5\6\7" + bytes(range(1, 25)),
        b"\4\x08\2" + short(0, 1) + b"\1\0" + bytes(8) + bytes(24),
    ]
