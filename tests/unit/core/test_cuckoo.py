"""Aligned cuckoo filters, compared with a reference implementation in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.oracle import xxh64

from parquet_bloom.core.index.cuckoo import Group, Layout
from parquet_bloom.core.index.cuckoo_rows import RowScan, pack, scan_rows, unpack

BITS = (8, 12, 16, 24)
MASK = 2**64 - 1
HASHES = st.integers(0, MASK) | st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, MASK])


def locate(h: int, num_buckets: int, bits: int) -> tuple[int, int, int]:
    mark = 1 + ((h & 0xFFFFFFFF) * (2**bits - 1) >> 32)
    first = (h >> 32) * num_buckets >> 32
    return mark, first, other(mark, first, num_buckets)


def other(mark: int, bucket: int, num_buckets: int) -> int:
    h = mark ^ mark >> 33
    h = h * 0xC2B2AE3D27D4EB4F & MASK
    h = (h ^ h >> 29) * 0x165667B19E3779F9 & MASK
    return (((h ^ h >> 32) >> 32) * num_buckets // 2**32 - bucket) % num_buckets


@given(st.lists(HASHES, max_size=30), st.integers(1, 2**24), st.sampled_from(BITS))
def test_places(hashes: list[int], num_buckets: int, bits: int) -> None:
    arrays = Layout(num_buckets, bits).locate(np.array(hashes, np.uint64))
    result = list(zip(*(array.tolist() for array in arrays), strict=True))
    assert result == [locate(h, num_buckets, bits) for h in hashes]
    for mark, first, second in result:
        assert 0 < mark < 2**bits
        assert 0 <= first < num_buckets
        assert other(mark, second, num_buckets) == first  # each of the two buckets leads to the other one


def assert_filters(units: list[list[int]], num_buckets: int, bits: int) -> None:
    """Build filters, and check that each fingerprint is in one of its buckets, and nothing else."""
    group, slots = Group(Layout(num_buckets, bits)), []
    for hashes in units:
        for start in range(0, len(hashes), 7):
            group.add(np.array(hashes[start : start + 7], np.uint64))
        slots.append(group.close_unit())
    rows = group.rows(0, num_buckets)
    assert rows.shape == (num_buckets, sum(slots)) == (num_buckets, group.num_slots)
    start = contents = 0
    for hashes, width in zip(units, slots, strict=True):
        mine = rows[:, start : start + width].tolist()
        expected = set()
        for h in hashes:
            mark, first, second = locate(h, num_buckets, bits)
            expected.add((mark, frozenset((first, second))))
            assert mark in mine[first] + mine[second]
        placed = [(mark, b) for b, row in enumerate(mine) for mark in row if mark]
        stored = [(mark, frozenset((b, other(mark, b, num_buckets)))) for mark, b in placed]
        assert len(stored) == len(expected)
        assert set(stored) == expected
        assert (width == 0) == (not hashes)
        contents += len(stored)
        start += width
    assert group.num_entries == contents
    assert all((group.rows(b, 1)[0] == rows[b]).all() for b in range(num_buckets))


@given(st.lists(st.lists(HASHES, max_size=60), max_size=6), st.integers(1, 40), st.sampled_from(BITS))
def test_filters(units: list[list[int]], num_buckets: int, bits: int) -> None:
    assert_filters(units, num_buckets, bits)


@pytest.mark.ci
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("sizes", [[0], [1], [3000], [1, 0, 4000, 2, 0], [37] * 20])
def test_filters_of_all_sizes(sizes: list[int], bits: int) -> None:
    rng = np.random.default_rng(bits)
    units = [rng.integers(0, 2**64, size, dtype=np.uint64).tolist() for size in sizes]
    for num_buckets in (1, 2, 38, 257):
        assert_filters(units, num_buckets, bits)
    assert_filters([list(range(0, 2**32, 2**24)), [5]], 50, 24)  # the upper halves are all 0: they crowd one bucket


@pytest.mark.parametrize("num_buckets", [38, 1000])
@pytest.mark.parametrize(("slots", "load"), [(2, 0.8), (3, 0.91), (4, 0.95), (8, 0.985)])
def test_slots_are_used(num_buckets: int, slots: int, load: float) -> None:
    rng = np.random.default_rng(1)
    widths = []
    for _ in range(20):
        group = Group(Layout(num_buckets, 16))
        group.add(rng.integers(0, 2**64, int(load * slots * num_buckets), dtype=np.uint64))
        widths.append(group.close_unit())
    assert np.median(widths) <= slots


def test_a_group_is_used_again() -> None:
    group, rows = Group(Layout(5, 16)), []
    for _ in range(2):
        group.add(np.array([1, 2**40], np.uint64))
        group.close_unit()
        rows.append(group.rows(0, 5))
        with pytest.raises(ValueError):
            group.rows(3, 3)
        group.clear()
        assert (group.num_slots, group.num_entries, group.done_bytes) == (0, 0, 0)
        assert group.rows(0, 5).shape == (5, 0)
    assert (rows[0] == rows[1]).all()


def marks_of(rng: np.random.Generator, shape: tuple[int, int], bits: int) -> np.ndarray:
    return rng.integers(0, 2**bits, shape).astype(Layout(1, bits).dtype)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("num_slots", [0, 1, 2, 15, 16, 17, 63, 64, 65, 333])
def test_rows_as_bytes(bits: int, num_slots: int) -> None:

    def row_bytes(marks: list[int], bits: int, row: int) -> bytes:
        """Encode a row as in the layout."""
        if bits == 8:
            body = bytes(marks)
        elif bits == 12:
            padded = [*marks, 0] if len(marks) % 2 else marks
            body = bytes(mark & 0xFF for mark in marks)
            body += bytes((a >> 8) | ((b >> 8) << 4) for a, b in zip(padded[::2], padded[1::2], strict=True))
        else:
            body = b"".join((mark & 0xFFFF).to_bytes(2, "little") for mark in marks)
            body += bytes(mark >> 16 for mark in marks) if bits == 24 else b""
        words, sums = [0] * 8, [0] * 8
        lanes = np.frombuffer(body + bytes(-len(body) % 64), np.uint64).tolist()
        for number, word in enumerate(lanes):
            lane = number % 8
            words[lane] = (words[lane] + (word ^ (word >> 32))) & MASK
            sums[lane] = (sums[lane] + words[lane]) & MASK
        state = b"".join(number.to_bytes(8, "little") for number in [*words, *sums, len(body), row])
        return body + (xxh64(state) & 0xFFFFFFFF).to_bytes(4, "little")

    layout = Layout(5, bits)
    marks = marks_of(np.random.default_rng(num_slots), (3, num_slots), bits)
    data = pack(layout, marks, 2)
    assert [row.tobytes() for row in data] == [row_bytes(row.tolist(), bits, 2 + i) for i, row in enumerate(marks)]
    assert data.shape[1] == layout.row_bytes(num_slots)
    back, damaged = unpack(layout, data.reshape(-1), num_slots, 2)
    assert (back == marks).all()
    assert not damaged.any()
    assert unpack(layout, data.reshape(-1), num_slots, 3)[1].all()  # each in place of another one
    for position in range(data.shape[1]):
        for change in (1, 0x80, 0xFF):
            broken = data.copy()
            broken[1, position] ^= change
            assert unpack(layout, broken.reshape(-1), num_slots, 2)[1].tolist() == [False, True, False]
    with pytest.raises(ValueError):
        unpack(layout, data.reshape(-1)[1:], num_slots, 2)


def test_two_changes_leave_a_trace() -> None:
    """Also if they would cancel each other out in a plain sum: the same bit, set here and cleared there."""
    layout = Layout(1, 16)
    data = pack(layout, np.zeros((1, 4096), np.uint16), 0)
    for bit in range(0, 512, 3):
        for distance in (64, 128, 2048, 4096):
            broken = data.copy()
            for location in (bit // 8, bit // 8 + distance):
                broken[0, location] ^= 1 << bit % 8
            assert unpack(layout, broken.reshape(-1), 4096, 0)[1].all()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("num_slots", [0, 1, 31, 64, 700, 5000])
def test_searching(bits: int, num_slots: int) -> None:
    layout = Layout(4, bits)
    for num_wanted in (0, 1, 3, 4, 5, 40):
        rng = np.random.default_rng(bits * num_slots + num_wanted)
        marks = marks_of(rng, (3, num_slots), bits)
        chosen = np.concatenate([marks.reshape(-1), rng.integers(1, 2**bits, 60).astype(marks.dtype)])
        wanted = np.unique(rng.permutation(chosen)[:num_wanted]).astype(np.uint32)
        if len(wanted):  # beside the wanted ones, such as are nearly so
            marks[0, ::97] = int(wanted[0]) ^ (1 << bits - 1)
            marks[1, ::97] = int(wanted[-1])
        data = pack(layout, marks, 1)
        which_of = {mark: number for number, mark in enumerate(wanted.tolist())}
        expected = [{(i, which_of[mark]) for i, mark in enumerate(row) if mark in which_of} for row in marks.tolist()]
        if len(wanted):
            bounds = np.arange(4, dtype=np.int64) * len(wanted)
            rows, repeated = np.arange(1, 4), np.tile(wanted, 3)
            slots, which, damaged = scan_rows(layout, num_slots, data.reshape(-1), rows, bounds, repeated)
            assert not damaged.any()
            for row in range(3):
                inside = (which >= bounds[row]) & (which < bounds[row + 1])
                found = list(zip(slots[inside].tolist(), (which[inside] - bounds[row]).tolist(), strict=True))
                assert len(found) == len(set(found))
                assert set(found) == expected[row]
        for step in (64, 128, 192, 1 << 20):
            scan = RowScan(layout, num_slots, wanted)
            for start in range(0, data.shape[1], step):
                scan.feed(data[0, start : start + step])
            answer = scan.finish(1)
            assert answer is not None
            assert set(zip(*(array.tolist() for array in answer), strict=True)) == expected[0]


@pytest.mark.parametrize("bits", BITS)
def test_damage_is_seen_when_searching(bits: int) -> None:
    layout = Layout(4, bits)
    data = pack(layout, marks_of(np.random.default_rng(1), (1, 90), bits), 3)[0]
    expected = np.array([7], np.uint32)
    for position in range(len(data)):
        broken = data.copy()
        broken[position] ^= 0x10
        scan = RowScan(layout, 90, expected)
        for start in range(0, len(broken), 64):
            scan.feed(broken[start : start + 64])
        assert scan.finish(3) is None
        result = scan_rows(layout, 90, broken, np.array([3]), np.array([0, 1]), expected)
        assert result[2].all()
        assert not len(result[0])
    for row, piece in ((2, data), (3, data[:-1]), (3, data[:64]), (3, np.append(data, 0).astype(np.uint8))):
        scan = RowScan(layout, 90, expected)
        scan.feed(piece)
        assert scan.finish(row) is None
    scan = RowScan(layout, 90, expected)
    scan.feed(data[:63])
    with pytest.raises(ValueError):
        scan.feed(data[63:])


def test_refused_input() -> None:
    for num_buckets, bits in ((0, 16), (2**24 + 1, 16), (5, 10)):
        with pytest.raises(ValueError):
            Layout(num_buckets, bits)
    layout, marks = Layout(3, 16), np.array([1], np.uint32)
    assert layout.row_bytes(2) == 8
    for rows, bounds in (([0], [0, 2]), ([0], [1, 0]), ([0], [0]), ([0, 1], [0, 1, 1]), ([0], [-1, 1])):
        with pytest.raises(ValueError):
            scan_rows(layout, 2, np.zeros(8, np.uint8), np.array(rows), np.array(bounds), marks)
