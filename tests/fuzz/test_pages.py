"""Passes over the levels, dictionary indices and byte arrays of a page, beside slow twins; chunks beside pyarrow."""

from __future__ import annotations

import functools
import io
import struct
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing import RefusedError, as_file, check, edited, fuzz
from good_files import table
from support.oracle.list_pages import Refused, decode_runs
from support.stored_pages import make_column, scan_page
from support.stored_values import decoded, hash_all, open_readers

from parquet_bloom.errors import MalformedFooterError, ParquetBloomError
from parquet_bloom.metadata import page_scan

RUNS = [
    b"\x06\x01" + b"\x05\xb5\x21" + b"\x08\x00" + b"\x05\xff\x0f",  # 3, 16, 4 and 16 levels of one bit
    b"\x10\x02" + b"\x07\xa5\x5a\xff\x00\x81\x42",  # 8 and 24 levels of two bits
    b"\x02\x00\x0c\x01",
    b"\x03\x18\x00",
    b"\x07" + bytes(range(9)),
    b"\x20\x07\x01\x03" + bytes(10),
]
EDITED_RUNS = edited(lambda: RUNS, 500) | st.sampled_from(RUNS)
COUNTS = st.integers(0, 50) | st.integers(0, 65_535)


def numbers_of(data: bytes, width: int, count: int) -> list[int]:
    """Decode the first numbers of runs that are all complete."""
    try:
        return [*islice(decode_runs(data, width, complete=True), count)]
    except Refused:
        raise RefusedError from None


@fuzz(MalformedFooterError, most=st.integers(1, 9), count=COUNTS, data=EDITED_RUNS)
def test_levels(most: int, count: int, data: bytes) -> None:
    def twin() -> int:
        levels = numbers_of(data, most.bit_length(), count)
        if not count or max(levels) > most:
            raise RefusedError
        return levels.count(most)

    check(lambda: scan_page(make_column([0], most), (count, count), b"", data)[0], twin, MalformedFooterError)


@fuzz(
    MalformedFooterError,
    least=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(lambda least: [0, *sorted(least)]),
    more=st.integers(0, 2),
    count=COUNTS,
    wrong=st.sampled_from((0, 0, 0, 1)),
    first=EDITED_RUNS,
    second=EDITED_RUNS,
)
def test_levels_of_lists(least: list[int], more: int, count: int, wrong: int, first: bytes, second: bytes) -> None:
    most, width = least[-1] + more, (len(least) - 1).bit_length()
    try:
        num_rows = numbers_of(first, width, count).count(0) + wrong
    except RefusedError:
        num_rows = 1

    def twin() -> int:
        depths = numbers_of(first, width, count)
        levels = numbers_of(second, most.bit_length(), count)
        for depth, level, last in zip(depths, levels, [0, *levels], strict=False):
            if depth >= len(least) or level > most or (depth and min(level, last) < least[depth]):
                raise RefusedError
        if wrong or not count:
            raise RefusedError
        return levels.count(most)

    counts = count, num_rows
    check(lambda: scan_page(make_column(least, most), counts, first, second)[0], twin, MalformedFooterError)


@fuzz(MalformedFooterError, width=st.integers(0, 33), count=COUNTS, entries=st.integers(0, 999), data=EDITED_RUNS)
def test_used_entries(width: int, count: int, entries: int, data: bytes) -> None:
    def ours() -> list[int]:
        values = bytes([width]) + data
        flags = scan_page(make_column([0], 0, 1), (count, count), b"", b"", values, bytes(entries))[1]
        return np.flatnonzero(flags).tolist()

    def twin() -> list[int]:
        if width > 32 or not count:
            raise RefusedError
        numbers = sorted({*numbers_of(data, width, count)})
        if numbers[-1] >= entries:
            raise RefusedError
        return numbers

    check(ours, twin, MalformedFooterError)


def good_byte_arrays() -> list[bytes]:
    texts = b"".join(struct.pack("<I", len(text)) + text for text in (b"a", b"", b"bcd", b"bcd", b"longer than others"))
    return [b"\5" + texts, b"\4" + (b"\3\0\0\0" + b"abc") * 4]


@fuzz(MalformedFooterError, good=good_byte_arrays, longest=512)
def test_byte_arrays(data: bytes) -> None:
    count, data = data[0] % 40 if data else 0, data[1:]

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

    check(ours, twin, MalformedFooterError)


DELTA = dict.fromkeys(("k", "n", "l.list.element"), "DELTA_BINARY_PACKED") | {"s": "DELTA_BYTE_ARRAY"}
OPTIONS: list[dict[str, Any]] = [
    {"compression": codec, "data_page_version": version, "use_dictionary": dictionary, "data_page_size": size}
    for codec, version, dictionary, size in (
        ("none", "1.0", True, 1 << 20),
        ("none", "2.0", True, 20),
        ("none", "1.0", False, 20),
        ("snappy", "1.0", False, 1 << 20),
        ("zstd", "2.0", True, 1 << 20),
        ("gzip", "1.0", False, 1 << 20),
        ("lz4", "2.0", False, 1 << 20),
        ("brotli", "1.0", True, 1 << 20),
    )
]
OPTIONS += [
    {"compression": "none", "use_dictionary": False, "column_encoding": DELTA},
    {"compression": "none", "use_dictionary": False, "column_encoding": DELTA | {"s": "DELTA_LENGTH_BYTE_ARRAY"}},
]
NAMES = ["k", "s", "n", "l.list.element"]


@functools.cache
def spans_of(number: int) -> tuple[bytes, list[tuple[int, int]]]:
    """A file of one row group, and the first and the last byte of its chunks."""
    lists = [[key, None, key + 1][: key % 4] if key % 3 else None for key in table()["k"].to_pylist()]
    sink = io.BytesIO()
    pq.write_table(table().append_column("l", [lists]), sink, **OPTIONS[number])
    group = pq.read_metadata(sink).row_group(0)
    chunks = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    spans = []
    for name in NAMES:
        start = min(filter(None, (chunks[name].dictionary_page_offset, chunks[name].data_page_offset)))
        spans.append((start, start + chunks[name].total_compressed_size))
    return sink.getvalue(), spans


@functools.cache
def good_chunks() -> list[bytes]:
    return [
        bytes([number, which]) + spans_of(number)[0][slice(*span)][:1022]
        for number in range(len(OPTIONS))
        for which, span in enumerate(spans_of(number)[1])
    ]


@fuzz(ParquetBloomError, good=good_chunks, longest=1024, examples=30)
def test_chunk_values(data: bytes) -> None:
    """The values of a column chunk are those that pyarrow decodes, or it is refused in the same words."""
    if len(data) < 2:
        return
    which = data[1] % len(NAMES)
    complete, spans = spans_of(data[0] % len(OPTIONS))
    start, end = spans[which]
    changed = complete[:start] + data[2:][: end - start].ljust(end - start, b"\0") + complete[end:]
    with as_file(changed) as path, open_readers(path) as readers:
        outcome = hash_all(readers[NAMES[which]].read_occurring(0))
        expected = decoded(readers[NAMES[which]], 0)
        assert outcome == expected, f"{outcome}, where pyarrow has {expected}"
