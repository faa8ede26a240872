"""metadata/page_scan.pyx: passes over the levels, dictionary indices and byte arrays of a page, beside slow twins."""

from __future__ import annotations

import functools
import struct

import numpy as np
from support.stored_pages import make_column, scan_page
from taking import RefusedError, Taken, check

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import page_scan

ALLOWED = (MalformedFooterError,)
MAX_INPUT = 512
MOST = 1 << 16  # numbers that the twin decodes


def numbers_of(data: bytes, width: int, count: int) -> list[int]:
    """Decode the first numbers of runs that are all complete."""
    results: list[int] = []
    at = 0
    while len(results) < count:
        header = shift = 0
        while True:
            if at >= len(data) or shift > 35:
                raise RefusedError
            header |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        length = header >> 1
        if length == 0 or (header & 1 and width == 0):
            raise RefusedError
        size = length * width if header & 1 else (width + 7) // 8
        piece = data[at : at + size]
        at += size
        if len(piece) < size:
            raise RefusedError
        bits = int.from_bytes(piece, "little")
        if header & 1:
            taken = min(8 * length, count - len(results))
            results += [bits >> (i * width) & ((1 << width) - 1) for i in range(taken)]
        elif bits >> width:
            raise RefusedError
        else:
            results += [bits] * min(length, count - len(results))
    return results


def run(data: bytes) -> None:
    taken = Taken(data)
    [present, nested, used, byte_arrays][taken.number() % 4](taken)


def present(taken: Taken) -> None:
    most, count = 1 + taken.number() % 9, taken.number(2)
    data = taken.rest()

    def twin() -> int:
        if not count:
            raise RefusedError
        levels = numbers_of(data, most.bit_length(), count)
        if any(level > most for level in levels):
            raise RefusedError
        return levels.count(most)

    check(taken.data, lambda: scan_page(make_column([0], most), (count, count), b"", data)[0], twin)


def nested(taken: Taken) -> None:
    least = [0, *sorted(1 + taken.number() % 5 for _ in range(1 + taken.number() % 3))]
    most, count, is_wrong = least[-1] + taken.number() % 3, taken.number(2), taken.number() % 16 == 15
    first = taken.bytes(taken.number())
    second = taken.rest()
    try:
        num_rows = numbers_of(first, (len(least) - 1).bit_length(), count).count(0) + is_wrong
    except RefusedError:
        num_rows = 1

    def twin() -> int:
        if not count:
            raise RefusedError
        depths = numbers_of(first, (len(least) - 1).bit_length(), count)
        levels = numbers_of(second, most.bit_length(), count)
        last = 0
        for depth, level in zip(depths, levels, strict=True):
            if depth >= len(least) or level > most or (depth and min(level, last) < least[depth]):
                raise RefusedError
            last = level
        if is_wrong:
            raise RefusedError
        return levels.count(most)

    check(taken.data, lambda: scan_page(make_column(least, most), (count, num_rows), first, second)[0], twin)


def used(taken: Taken) -> None:
    width, count, entries = taken.number() % 34, taken.number(2), taken.number(2) % 1000
    data = taken.rest()

    def ours() -> list[int]:
        column = make_column([0], 0, 1)
        flags = scan_page(column, (count, count), b"", b"", bytes([width]) + data, bytes(entries))[1]
        return np.flatnonzero(flags).tolist()

    def twin() -> list[int]:
        if width > 32 or not count:
            raise RefusedError
        numbers = set(numbers_of(data, width, count))
        if any(number >= entries for number in numbers):
            raise RefusedError
        return sorted(numbers)

    check(taken.data, ours, twin)


def byte_arrays(taken: Taken) -> None:
    count = taken.number() % 40
    data = taken.rest()

    def twin() -> list[int]:
        offsets = [0]
        for _ in range(count):
            if len(data) - offsets[-1] < 4:
                raise RefusedError
            offsets.append(offsets[-1] + 4 + struct.unpack_from("<I", data, offsets[-1])[0])
            if offsets[-1] > len(data):
                raise RefusedError
        if offsets[-1] != len(data):
            raise RefusedError
        return offsets

    def ours() -> list[int]:
        width = page_scan.measure_byte_arrays(data, count)
        offsets: list[int] = page_scan.locate_byte_arrays(data, count).tolist()
        steps = set(np.diff(offsets).tolist())
        assert width == (steps.pop() if len(steps) == 1 else 0)
        return offsets

    check(taken.data, ours, twin)


@functools.cache
def seeds() -> list[bytes]:
    bits = b"\x06\x01" + b"\x05\xb5\x21" + b"\x08\x00" + b"\x05\xff\x0f"  # 3, 16, 4 and 16 levels of one bit
    twos = b"\x10\x02" + b"\x07\xa5\x5a\xff\x00\x81\x42"  # 8 and 24 levels of two bits
    texts = b"".join(struct.pack("<I", len(text)) + text for text in (b"a", b"", b"bcd", b"bcd", b"longer than others"))
    return [
        b"\0\0" + (39).to_bytes(2, "little") + bits,
        b"\0\2" + (32).to_bytes(2, "little") + twos,
        b"\1\0\0\0" + (7).to_bytes(2, "little") + b"\2" + b"\4" + b"\x02\x00\x0c\x01" + b"\x0e\x01",
        b"\1\1\1\2\1" + (3).to_bytes(2, "little") + b"\2" + b"\3" + b"\x03\x18\x00" + b"\x06\x03",
        b"\2\3" + (24).to_bytes(2, "little") + (8).to_bytes(2, "little") + b"\x07" + bytes(range(9)),
        b"\2\x0a" + (24).to_bytes(2, "little") + (999).to_bytes(2, "little") + b"\x20\x07\x01" + b"\x03" + bytes(10),
        b"\2\0" + (3).to_bytes(2, "little") + (1).to_bytes(2, "little") + b"\x06",
        b"\3\5" + texts,
        b"\3\4" + (b"\3\0\0\0" + b"abc") * 4,
    ]
