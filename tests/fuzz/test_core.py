"""Compiled cursors over filters, indexes, Snappy, Avro, lengths in ORC files and ranges of files."""

from __future__ import annotations

import functools
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzzing
from changes import Spelled
from fuzzing import Choices, RefusedError, check, fuzz, short
from support.oracle import orc_runs
from support.oracle.oracle import filter_header
from support.writers.avro_files import MemoryIO, make_schema, make_value, write_file

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import blocks, sbbf
from parquet_bloom.core.bloom.variants import VARIANTS
from parquet_bloom.core.decode.orc_lengths import sum_lengths
from parquet_bloom.core.decode.snappy import unpack_front, unpack_pair
from parquet_bloom.core.index import cuckoo_rows, postings
from parquet_bloom.core.index.cuckoo import FINGERPRINT_BITS, Layout
from parquet_bloom.errors import BrokenFilterError, ParquetBloomError, TruncatedFileError
from parquet_bloom.metadata.filter_header import read_any, read_header, write_header
from parquet_bloom.storage import open_source
from parquet_bloom.storage.local import scatter
from parquet_bloom.tables.iceberg.avro_files import read_avro


@functools.cache
def good_bitsets() -> list[bytes]:
    hashes = np.array([1, 1 << 40, (1 << 63) + 12345], np.uint64)
    results = []
    for kind, size in ((0, 64), (0, 77), (1, 128), (2, 200), (2, 32)):
        bitset = np.zeros(size, np.uint8)
        sbbf.insert_hashes(bitset, hashes[:2])
        results.append(bytes([kind, 3]) + hashes.tobytes() + bitset.tobytes())
    results.append(b"\3\3" + hashes.tobytes() + b"\2" + short(64, 1000) + short(0, 1, 1) + bytes(64))
    return results


@fuzz(ValueError, good=good_bitsets, longest=1024)
def test_bitsets(data: bytes) -> None:
    """Bitsets of any length, single blocks of them, and numbers of blocks out of range."""
    choices = Choices(data)
    kind = choices.number() % 4
    hashes = choices.numbers(choices.number() % 5).view(np.uint64)
    if kind == 3:
        num_bytes, numbers = choices.short_numbers(choices.number() % 4), choices.short_numbers(len(hashes))
        rest = choices.rest()
        fetched = np.frombuffer(rest[: len(rest) // 32 * 32], np.uint8).reshape(-1, 32)
        assert blocks.check_blocks(fetched, numbers[None], hashes).shape == (1, len(hashes))
        block_indexes = blocks.locate_blocks(num_bytes, hashes)
        assert ((block_indexes >= 0) & (block_indexes <= num_bytes[:, None] - 32)).all()
        return
    bitset = np.frombuffer(choices.rest(), np.uint8).copy()
    matches = sbbf.check_hashes(bitset, hashes)
    block_indexes = blocks.locate_blocks(np.array([len(bitset)]), hashes)
    assert ((block_indexes >= 0) & (block_indexes <= len(bitset) - 32)).all()
    if len(hashes):
        fetched = np.stack([bitset[location : location + 32] for location in block_indexes[0]])
        assert (blocks.check_blocks(fetched, np.arange(len(hashes))[None], hashes) == matches).all()
    if kind == 0:
        sbbf.insert_hashes(bitset, hashes)
        assert sbbf.check_hashes(bitset, hashes).all()
    elif kind == 1:
        half = sbbf.fold(bitset)
        assert len(half) == len(bitset) // 64 * 32
        assert not (matches & ~sbbf.check_hashes(half, hashes)).any()
    else:
        bits, share = sbbf.measure(bitset)
        assert bits == np.unpackbits(bitset[: len(bitset) // 32 * 32]).sum()
        assert 0 <= share <= 1
        sbbf.merge(bitset, bitset[::-1].copy())


VALUES = ["a", "bc", "def", ""]


@functools.cache
def filter_of(variant: object) -> bytes:
    bloom_filter = SplitBlockBloomFilter(96 if variant.block != "mask" else 64, variant=variant)
    bloom_filter.insert(VALUES)
    return bloom_filter.to_bytes(header=True)


def good_filters() -> list[bytes]:
    created = [bytes([number]) + filter_of(variant) for number, variant in enumerate(VARIANTS)]
    return [*created, *(bytes([0x80 | number, 1, 2, 3, 4, 5, 6]) for number in range(len(VARIANTS)))]


@fuzz(BrokenFilterError, good=good_filters)
def test_filters(data: bytes) -> None:
    """A filter's header and bitset, under each variant: the first byte says which, and if it has another header."""
    choices = Choices(data)
    first = choices.number()
    variant = VARIANTS[(first & 0x7F) % len(VARIANTS)]
    stored = choices.rest()
    if first & 0x80:
        choices = Choices(data[1:])
        header = Spelled.of(filter_header(choices.pick((32, 64, 96)))).changed(choices)
        stored = header + bytes(choices.pick((0, 31, 32, 33, 64, 96)))
    for read in (read_any, lambda some: read_header(some, variant), read_header):
        try:
            assert 0 < read(stored).header_bytes <= len(stored)
        except BrokenFilterError as error:
            fuzzing.one_line(error)
    try:
        bloom_filter = SplitBlockBloomFilter.from_bytes(stored, copy=bool(len(stored) & 1), variant=variant)
    except BrokenFilterError as error:
        fuzzing.one_line(error)
        return
    assert 32 <= bloom_filter.num_bytes <= len(stored)
    assert 0 <= bloom_filter.fill <= 1
    assert 0 <= bloom_filter.fpp <= 1
    assert bloom_filter.ndv_estimate >= 0
    bitset = stored[len(stored) - bloom_filter.num_bytes :]
    assert bloom_filter.to_bytes() == bitset
    content = write_header(bloom_filter.num_bytes, variant) + bitset
    assert bloom_filter.to_bytes(header=True) == content
    assert SplitBlockBloomFilter.from_bytes(content, variant=variant) == bloom_filter
    if bloom_filter.num_bytes % 32 == 0:
        more = SplitBlockBloomFilter(bloom_filter.num_bytes, variant=variant)
        more.insert(VALUES)
        assert more.merge(bloom_filter).check(VALUES).all(), "a value that was inserted is gone"
    if stored == filter_of(variant):
        assert bloom_filter.check(VALUES).all(), "a good filter denies its values"


@functools.cache
def good_cuckoo_rows() -> list[bytes]:
    rng = np.random.default_rng(1)
    results = []
    for kind, slots in ((0, 70), (1, 33), (2, 40), (3, 25), (0, 256), (1, 200), (2, 200), (3, 200)):
        bits = FINGERPRINT_BITS[kind]
        items = rng.integers(0, 1 << min(bits, 14), (2, slots))
        layout = Layout(9, bits)
        rows = cuckoo_rows.pack(layout, items.astype(layout.dtype), 3)
        some = np.unique(items[0, :: slots // 5 + 1])
        requested = bytes([len(some)]) + short(*some.tolist())
        results.append(bytes([kind, 8, slots - 1, 3, 0, 0]) + requested + rows.tobytes())
        numbers = short(slots, 3) + b"\2" + short(3, 4) + b"\3" + short(0, 1, len(some)) + requested
        results.append(bytes([kind + 4, 8]) + numbers + rows.tobytes())
    return results


@fuzz(ValueError, good=good_cuckoo_rows, longest=2048)
def test_cuckoo_rows(data: bytes) -> None:
    """Rows of any bytes and sizes, and rows with the right checksum, beside numpy."""
    choices = Choices(data)
    kind = choices.number()
    layout = Layout(1 + choices.number(), FINGERPRINT_BITS[kind % 4])
    if kind & 4:  # numbers that do not fit together are refused; what fits is damaged
        num_slots, first = (int(number) for number in choices.short_numbers(2))
        rows, ends = choices.short_numbers(choices.number() % 4), choices.short_numbers(choices.number() % 5)
        fingerprints = np.unique(choices.short_numbers(choices.number() % 12).astype(np.uint32))
        stored = np.frombuffer(choices.rest(), np.uint8)
        for size in (64, len(stored) + 1):
            scan = cuckoo_rows.RowScan(layout, max(num_slots, 0), fingerprints)
            for at in range(0, len(stored), size):
                scan.feed(stored[at : at + size])
            scan.finish(first & 0xFFFF)
        errors = 0
        try:
            items, damaged = cuckoo_rows.unpack(layout, stored, num_slots, first)
            assert items.shape == (len(damaged), num_slots)
        except ValueError:
            errors += 1
        slots, which, damaged = cuckoo_rows.scan_rows(layout, num_slots, stored, rows, ends, fingerprints)
        assert len(damaged) == len(rows)
        assert len(slots) == len(which)
        assert (slots < num_slots).all()
        assert errors == 0 or not len(rows)
        return
    num_slots, first, flip = choices.number() + 1, choices.number(), choices.number(2)
    requested = np.unique(choices.short_numbers(choices.number() % 12).astype(np.uint32) & 0xFFFFFF)
    raw = np.frombuffer(choices.rest(), np.uint8)
    row_bytes = layout.row_bytes(num_slots)
    num_rows = min(len(raw) // row_bytes, 5)
    items, _ = cuckoo_rows.unpack(layout, raw[: num_rows * row_bytes], num_slots, first)
    rows = cuckoo_rows.pack(layout, items, first)
    again, damaged = cuckoo_rows.unpack(layout, rows.reshape(-1), num_slots, first)
    assert not damaged.any()
    assert (again == items).all()
    if num_rows == 0:
        return
    rows[-1].view()[flip % row_bytes] ^= np.uint8(flip >> 12)  # sometimes a bit of the last row is another one
    is_broken = flip >> 12 != 0
    ends = np.arange(num_rows + 1) * len(requested)
    numbers = np.arange(num_rows) + first
    slots, which, damaged = cuckoo_rows.scan_rows(
        layout, num_slots, rows.reshape(-1), numbers, ends, np.tile(requested, num_rows)
    )
    assert damaged.tolist() == [False] * (num_rows - 1) + [is_broken]
    found: list[set[tuple[int, int]]] = [set() for _ in range(num_rows)]
    for slot, number in zip(slots.tolist(), which.tolist(), strict=True):
        found[number // max(len(requested), 1)].add((slot, number % len(requested)))
    for row in range(num_rows - is_broken):
        matches = (np.flatnonzero(items[row] == item).tolist() for item in requested.tolist())
        expected = {(slot, number) for number, slots in enumerate(matches) for slot in slots}
        assert found[row] == expected
        scan = cuckoo_rows.RowScan(layout, num_slots, requested)
        for at in range(0, row_bytes, 64):
            scan.feed(rows[row, at : at + 64])
        reported = scan.finish(first + row)
        assert reported is not None
        assert {*zip(reported[0].tolist(), reported[1].tolist(), strict=True)} == expected


def layout_of(choices: Choices) -> postings.Layout | None:
    prefix_bits = 1 + choices.number() % 40
    bucket_bits = choices.number() % (prefix_bits + 1)
    block_bits = choices.number() % (min(bucket_bits, 12) + 1)
    id_bits = 1 + choices.number() % 32
    fits = prefix_bits - bucket_bits + id_bits <= 56
    return postings.Layout(prefix_bits, bucket_bits, block_bits, id_bits) if fits else None


@functools.cache
def good_postings_blocks() -> list[bytes]:
    results = []
    rng = np.random.default_rng(1)
    shapes = ((19, 12, 3, 9), 40, 0), ((23, 8, 0, 15), 20, 0), ((10, 6, 6, 7), 90, 3), ((3, 1, 0, 0), 2, 0)
    for bits, count, runs in shapes:
        layout = layout_of(Choices(bytes(bits)))
        assert layout is not None
        shift, most = np.uint64(64 - layout.prefix_bits), (1 << layout.id_bits) - 1
        start, step = layout.first_key(1), layout.first_key(1)
        if layout.bucket_bits == layout.block_bits:
            start, step = 0, (1 << 64) - 1
        hashes = start + (rng.random(count) * step * 0.99).astype(np.uint64)
        prefixes = np.concatenate([hashes >> shift, np.repeat(hashes[:1] >> shift, runs)])
        keys = np.unique(prefixes << shift | rng.integers(0, most, len(prefixes)).astype(np.uint64))
        number = layout.block_number(int(keys[0]))
        keys = keys[[layout.block_number(int(key)) == number for key in keys]]
        first, length = postings.hot_runs(layout, keys, 2)
        positions = np.array([[7 * i, 9 + i] for i in range(len(first))], np.uint64).reshape(-1, 2)
        data, _ = postings.pack(layout, keys, number, 1, first, length, positions)
        head = bytes(bits) + struct.pack("<HBQB", min(most, 65535), 0, int(keys[len(keys) // 2]), 3)
        results.append(head + data[:-4].tobytes())
    return results


@fuzz(good=good_postings_blocks, longest=1024)
def test_postings_blocks(data: bytes) -> None:
    """One block with the right checksum: its readers agree, and packing restores it."""
    choices = Choices(data)
    layout = layout_of(choices)
    num_units, is_broken, h, more = choices.number(2), choices.number() == 255, choices.number(8), choices.number()
    if layout is None:
        return
    number = layout.block_number(h)
    block = choices.rest()
    if not is_broken:
        total = xxhash.xxh64_intdigest(block) ^ xxhash.xxh64_intdigest(struct.pack("<Q", number))
        block += struct.pack("<I", total & 0xFFFFFFFF)
    units, hot, status = postings.find_one(layout, block, h, num_units)
    assert (units < num_units).all()
    complete = np.frombuffer(block, np.uint8)
    keys, hot_runs, damaged = postings.unpack(layout, complete, np.array([0, len(block)]), number, num_units)

    hashes = np.array([h, h, (h ^ more << 8) & (1 << 64) - 1], np.uint64)  # three questions at once, two the same
    places = np.zeros(3, np.int64), np.full(3, len(complete))
    queries, some, hot_queries, offsets, lengths, bad, reasons = postings.find(
        layout, complete, *places, hashes, num_units
    )
    for query in (0, 1):
        assert some[queries == query].tolist() == units.tolist()
        assert ([reason for which, reason in zip(bad, reasons, strict=True) if which == query] or [0]) == [status]
        mine = hot_queries == query
        positions = [*zip(offsets[mine].view(np.uint64).tolist(), lengths[mine].tolist(), strict=True)]
        assert positions == ([] if hot is None else [hot])

    if damaged:
        assert not len(keys)
        assert not len(hot_runs)
        return
    assert status == 0
    shift = 64 - layout.prefix_bits
    own = keys[keys >> np.uint64(shift) == h >> shift] & np.uint64((1 << shift) - 1)
    assert own.tolist() == units.tolist()
    positions = [(offset, length) for _, prefix, offset, length in hot_runs.tolist() if prefix == h >> shift]
    assert positions == ([] if hot is None else [hot])
    if len(hot_runs) == 0 and layout.id_bits <= shift and not (np.diff(keys) == 0).any():
        none = np.empty(0, np.int64)
        packed, starts = postings.pack(layout, keys, number, 1, none, none, np.empty((0, 2), np.uint64))
        again, _, is_bad = postings.unpack(layout, packed, np.append(starts, len(packed)), number, num_units)
        assert not is_bad
        assert again.tolist() == keys.tolist()


SNAPPY = pa.Codec("snappy")
MOST = 1 << 20


def good_snappy() -> list[bytes]:
    texts = [b"", b"a", b"ab" * 40, bytes(range(200)), bytes(range(97, 123)) * 9, bytes(1000), bytes(range(256)) * 5]
    texts += [bytes(range(length)) * 9 for length in (3, 9, 12, 15)]  # copies that overlap
    return [len(text).to_bytes(2, "little") + SNAPPY.compress(text, asbytes=True) for text in texts]


@fuzz(ValueError, good=good_snappy)
def test_snappy(data: bytes) -> None:
    """Fronts of compressed pages, and pages in pairs, compared with the codec that pyarrow has."""

    def announced(data: bytes) -> int:
        """The size in front; 0 where there is none."""
        size = 0
        for i, byte in enumerate(data[:5]):
            size |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return size
        return 0

    if len(data) < 2:
        return
    requested, data = int.from_bytes(data[:2], "little"), data[2:]
    size = min(announced(data), MOST)  # the caller knows the size from the page's header, which it has bounded
    try:
        alone = unpack_front(data, size, size).tobytes()
    except ValueError:
        alone = None
    text = b"abcdefg" * 40 + bytes(range(256)) * 3
    cut = data[: len(data) * 2 // 3]
    others = (SNAPPY.compress(text, asbytes=True), len(text), text), (data, size, alone), (cut, announced(cut), None)
    for other, other_size, other_text in others:
        for swapped in (False, True) if other_size <= MOST else ():
            try:
                if swapped:
                    second, first = unpack_pair(other, other_size, data, size)
                else:
                    first, second = unpack_pair(data, size, other, other_size)
            except ValueError:
                assert alone is None or other_text is None
                continue
            assert first.tobytes() == alone
            assert other_text is None or second.tobytes() == other_text
    try:
        expected = SNAPPY.decompress(data, decompressed_size=size, asbytes=True)
    except (pa.ArrowException, OSError):
        expected = None
    result = unpack_front(data, size, requested)
    assert len(result) >= min(requested, size)
    assert expected is None or result.tobytes() == expected[: len(result)]


@functools.cache
def good_avro_files() -> list[bytes]:
    made = []
    for number in range(12):
        rng = random.Random(number)
        schema = make_schema(rng)
        values = [make_value(schema, rng) for _ in range(4)]
        made.append(write_file(schema, values, rng, "deflate" if number % 3 == 0 else "null"))
    return [data for data in made if len(data) <= 4096]


@fuzz(ParquetBloomError, good=good_avro_files)
def test_avro_files(data: bytes) -> None:
    """Avro files as Iceberg's manifests are, and what compiles schemas for them."""
    column = read_avro(MemoryIO(data), "p", "t", dict.fromkeys(range(40)))
    column.array.validate(full=True)
    assert all(len(each.array) == len(column.array) for each in column.fields.values())


def good_orc_lengths() -> list[bytes]:
    first = [orc_runs.first_run(7, 1, 20), orc_runs.first_run(200, -2, 90), orc_runs.first_literals([1, 300, 70_000])]
    second = [
        orc_runs.short_repeat(5, 1, 10),
        orc_runs.short_repeat(70_000, 3, 3),
        orc_runs.direct([1, 5, 3, 0, 9] * 7, 4),
        orc_runs.direct([2**40, 5], 64),
        orc_runs.patched([1, 2, 3, 4, 5, 6], 4, 10, 1, 8, 2, [(2, 200), (1, 3)]),
        orc_runs.patched([1] * 300, 3, -1, 2, 5, 8, [(255, 0), (9, 7)]),
        orc_runs.delta(10, 1, [0] * 30, 0),
        orc_runs.delta(3000, -10, [5, 9, 1, 0], 4),
    ]
    versions = (b"\0", [*first, b"".join(first)]), (b"\1", [*second, b"".join(second)])
    return [version + stream for version, streams in versions for stream in streams]


@fuzz(ValueError, good=good_orc_lengths, longest=512, examples=30)
def test_orc_lengths(data: bytes) -> None:
    """Lengths of texts and lists in ORC files, beside a slow twin."""
    if not data:
        return
    is_second, most, stream = bool(data[0] & 1), ((1 << 62) - 1, (1 << 31) - 1, 1000, 0)[data[0] >> 1 & 3], data[1:]

    def twin() -> int:
        try:
            lengths = orc_runs.lengths_in(stream, is_second)
        except orc_runs.Refused:
            raise RefusedError from None
        if max(lengths, default=0) > most or sum(lengths) > most:
            raise RefusedError
        return sum(lengths)

    check(lambda: sum_lengths(stream, is_second, most), twin, ValueError)


FILE = bytes(number * 31 & 255 for number in range(5000))
PLACES = st.integers(0, len(FILE)) | st.sampled_from([-1, len(FILE) + 1, 1 << 31, 1 << 62, (1 << 63) - 1])


@fuzz(
    TruncatedFileError,
    ValueError,
    how=st.integers(0, 3),
    spans=st.lists(st.tuples(PLACES, st.integers(0, 40) | PLACES), max_size=16),
    kept=st.tuples(st.integers(0, len(FILE)), st.integers(0, len(FILE))).map(sorted),
    near=st.booleans(),
)
def test_ranges(how: int, spans: list[tuple[int, int]], kept: list[int], near: bool) -> None:
    """Ranges in and out of a file, kept or not, compared with slices."""
    path = fuzzing.folder() / "ranges"
    if not path.exists():
        path.write_bytes(FILE)
    start, stop = kept
    if near:  # about what is kept
        spans = [(start + offset % 9 - 4, stop - start + length % 9 - 4) for offset, length in spans]
    offsets, lengths = np.array(spans, np.int64).reshape(-1, 2).T.copy()
    is_inside = all(offset >= 0 and 0 <= length <= len(FILE) - offset for offset, length in spans)
    expected = b"".join(FILE[offset : offset + length] for offset, length in spans) if is_inside else bytes(64)
    try:
        if how == 3:
            out = np.empty(len(expected), np.uint8)
            scatter.copy_scattered(np.frombuffer(FILE, np.uint8), offsets, lengths, out)
            received = out.tobytes()
        else:
            with open_source(str(path)) as source:
                if how == 2:
                    source.keep(start, FILE[start:stop])
                if how == 0:
                    received = source.gather(offsets, lengths).tobytes()
                else:
                    received = b"".join(source.read_ranges(spans))
    except (TruncatedFileError, ValueError):
        if is_inside:
            raise AssertionError("ranges that are there are refused") from None
        raise
    assert is_inside, "a range outside of the file was read"
    assert received == expected
