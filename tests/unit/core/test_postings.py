"""Blocks of postings, compared with a reference implementation of plain integers and dicts."""

import itertools
import random

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.core.index import postings
from parquet_bloom.core.index.postings import HOT, REASONS, Layout, find, find_one, hot_runs, pack, unpack


def checksum(body, block):
    low = xxhash.xxh64_intdigest(body) ^ xxhash.xxh64_intdigest(block.to_bytes(8, "little"))
    return (low & 0xFFFFFFFF).to_bytes(4, "little")


def twin_block(bits, keys, block, hot):
    """Encode one block; `hot` maps prefixes to (offset, length)."""
    prefix_bits, bucket_bits, block_bits, id_bits = bits
    remainder_bits = prefix_bits - bucket_bits
    buckets = [[] for _ in range(2**block_bits)]
    for key in keys:
        prefix, unit = key >> (64 - prefix_bits), key & (2 ** (64 - prefix_bits) - 1)
        bucket = prefix >> remainder_bits
        if bucket >> block_bits != block:
            continue
        entry = ((prefix & (2**remainder_bits - 1)) << id_bits) | (2**id_bits - 1 if prefix in hot else unit)
        row = buckets[bucket & (2**block_bits - 1)]
        if entry not in row:
            row.append(entry)
    counts = b""
    for row in buckets:
        counts += b"\xff" * (len(row) // 255) + bytes([len(row) % 255])
    width, number, shift = remainder_bits + id_bits, 0, 0
    for entry in itertools.chain(*map(sorted, buckets)):
        number |= entry << shift
        shift += width
    body = counts + number.to_bytes((shift + 7) // 8, "little")
    shift_of_block = remainder_bits + block_bits
    for prefix in sorted(hot):
        if prefix >> shift_of_block == block:
            body += hot[prefix][0].to_bytes(8, "little") + hot[prefix][1].to_bytes(4, "little")
    return body + checksum(body, block)


def hot_of(bits, keys, threshold):
    """Return {hot prefix: (offset, length)}, with arbitrary values, and the runs as arrays."""
    runs, at, offset = [], 0, 5
    for prefix, run in itertools.groupby(keys, lambda key: key >> (64 - bits[0])):
        length = len(list(run))
        if length > threshold:
            runs.append((prefix, at, length, offset, 100 + length))
            offset += 100 + length
        at += length
    return {prefix: (offset, length) for prefix, _, _, offset, length in runs}, runs


def packed(bits, keys, threshold=HOT, first_block=0, num_blocks=None):
    layout = Layout(*bits)
    array = np.array(keys, np.uint64)
    first, length = hot_runs(layout, array, threshold)
    hot, runs = hot_of(bits, keys, threshold)
    assert (first.tolist(), length.tolist()) == ([run[1] for run in runs], [run[2] for run in runs])
    positions = np.array([run[3:] for run in runs], np.uint64).reshape(-1, 2)
    count = 2 ** (bits[1] - bits[2]) if num_blocks is None else num_blocks
    data, starts = pack(layout, array, first_block, count, first, length, positions)
    return data, np.append(starts, len(data)).astype(np.int64), hot


def lookup_all(bits, data, starts, hashes, num_units, first_block=0):
    """Return {number of the query: units}, {number: hot location}, {number: reason}."""
    layout = Layout(*bits)
    blocks = [layout.block_number(h) - first_block for h in hashes]
    queries, units, hot, offsets, lengths, damaged, reasons = find(
        layout, data, starts[blocks], starts[[b + 1 for b in blocks]], np.array(hashes, np.uint64), num_units
    )
    assert queries.tolist() == sorted(queries.tolist())
    results = {}
    for query, unit in zip(queries.tolist(), units.tolist(), strict=True):
        results.setdefault(query, []).append(unit)
    positions = {q: (o, n) for q, o, n in zip(hot.tolist(), offsets.tolist(), lengths.tolist(), strict=True)}
    return results, positions, {q: REASONS[r] for q, r in zip(damaged.tolist(), reasons.tolist(), strict=True)}


def random_keys(bits, count, num_units, seed=0, prefixes=()):
    rng = random.Random(seed)
    shift = 64 - bits[0]
    chosen = [rng.getrandbits(bits[0]) for _ in range(count)] + list(prefixes)
    return sorted({(prefix << shift) | rng.randrange(num_units) for prefix in chosen})


def assert_found(bits, keys, threshold, num_units):
    """Check that blocks are those of the twin, that every key is found in them and nothing else, and so is unpacked."""
    data, starts, hot = packed(bits, keys, threshold)
    for block in range(len(starts) - 1):
        assert data[starts[block] : starts[block + 1]].tobytes() == twin_block(bits, keys, block, hot)
    shift = 64 - bits[0]
    truth = {}
    for key in keys:
        truth.setdefault(key >> shift, []).append(key & (2**shift - 1))
    hashes = [prefix << shift for prefix in truth] + [(prefix << shift) | (2**shift - 1) for prefix in truth]
    matches, locations, damaged = lookup_all(bits, data, starts, hashes, num_units)
    assert not damaged
    assert locations == {query: hot[prefix] for query, prefix in enumerate([*truth] * 2) if prefix in hot}
    assert matches == {query: truth[prefix] for query, prefix in enumerate([*truth] * 2) if prefix not in hot}
    for query, h in enumerate(hashes[:50]):
        block = Layout(*bits).block_number(h)
        one = data[starts[block] : starts[block + 1]].tobytes()
        units, location, status = find_one(Layout(*bits), one, h, num_units)
        assert (units.tolist(), location, status) == (matches.get(query, []), locations.get(query), 0)
    absent = [h for h in (random.Random(9).getrandbits(64) for _ in range(300)) if h >> shift not in truth]
    assert lookup_all(bits, data, starts, absent, num_units) == ({}, {}, {})
    got, rows, wrong = unpack(Layout(*bits), data, starts, 0, num_units)
    assert not wrong
    assert got.tolist() == [key for key in keys if key >> shift not in hot]
    assert [tuple(row[1:]) for row in rows.tolist()] == [(p, *hot[p]) for p in sorted(hot)]
    for before, prefix, _, _ in rows.tolist():
        assert before == sum(key >> shift < prefix for key in got.tolist())


@pytest.mark.ci
@pytest.mark.parametrize(
    "bits",
    [
        *((35, 12, 8, 20), (35, 3, 3, 20), (40, 9, 0, 24), (24, 0, 0, 32), (1, 0, 0, 1), (1, 1, 1, 3), (13, 9, 5, 8)),
        (40, 8, 8, 24),  # 56 bits an entry, the most there are
        (12, 12, 4, 7),  # no remainder
        (40, 12, 12, 20),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 7, 3000])
def test_blocks_are_byte_for_byte_those_of_the_twin_and_every_key_is_found(bits, count):
    num_units = min(2 ** bits[3] - 1, 2 ** (64 - bits[0]))
    assert_found(bits, random_keys(bits, count, num_units), HOT, num_units)


@pytest.mark.parametrize("threshold", [0, HOT, 255, 10_000])
def test_runs_at_the_threshold(threshold):
    for length in (HOT - 1, HOT, HOT + 1, 254, 255, 256, 511):
        runs = [(5, length), (6, 1), (7, length), (2**20 - 1, length), (2**14, length), (2**14 + 1, 2)]
        keys = sorted((prefix << 44) | unit for prefix, count in runs for unit in range(count))
        assert set(packed((20, 6, 3, 16), keys, threshold)[2]) == {
            prefix for prefix, count in runs if count > threshold
        }
        assert_found((20, 6, 3, 16), keys, threshold, 1000)


@given(st.data())
def test_every_key_of_any_layout_is_found(data):
    prefix_bits = data.draw(st.integers(1, 40))
    id_bits = data.draw(st.integers(1, min(32, 64 - prefix_bits)))
    bucket_bits = data.draw(st.integers(max(0, prefix_bits + id_bits - 56), min(prefix_bits, 10)))
    bits = prefix_bits, bucket_bits, data.draw(st.integers(0, bucket_bits)), id_bits
    prefixes = st.integers(0, 2**prefix_bits - 1)
    few = data.draw(st.lists(prefixes, min_size=1, max_size=5))
    units = st.integers(0, 2**id_bits - 2)
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(few) | prefixes, units), max_size=120))
    keys = sorted({(prefix << (64 - prefix_bits)) | unit for prefix, unit in pairs})
    assert_found(bits, keys, data.draw(st.integers(1, 8)), 2**id_bits - 1)


def test_the_extremes_of_hashes_and_units():
    bits = (35, 10, 8, 20)
    last = 2**20 - 2
    ends = [0, 1, 2**35 - 1]
    borders = [(block << 27) + step for block in range(1, 4) for step in (-1, 0)]  # of blocks: 2**2 of them
    buckets = [(bucket << 25) + step for bucket in (1, 255, 256, 257, 1023) for step in (-1, 0)]
    prefixes = sorted({p % 2**35 for p in [*ends, *borders, *buckets, *(b << 6 for b in borders)]})
    keys = sorted((prefix << 29) | unit for prefix in prefixes for unit in (0, 1, last))
    data, starts, _ = packed(bits, keys)
    hashes = [prefix << 29 for prefix in prefixes] + [0, 2**64 - 1]
    matches, locations, damaged = lookup_all(bits, data, starts, hashes, last + 1)
    assert not locations
    assert not damaged
    assert matches == {query: [0, 1, last] for query in range(len(hashes))}


def test_some_blocks_of_many_are_packed_alone():
    bits = (30, 12, 4, 16)
    keys = [key for key in random_keys(bits, 5000, 60_000) if 40 <= key >> 56 < 43]
    data, starts, hot = packed(bits, keys, first_block=40, num_blocks=3)
    for block in range(3):
        assert data[starts[block] : starts[block + 1]].tobytes() == twin_block(bits, keys, 40 + block, hot)
    assert unpack(Layout(*bits), data, starts, 40, 60_000)[0].tolist() == keys
    assert len(unpack(Layout(*bits), data, starts, 41, 60_000)[2]) == 3  # they know their numbers


@pytest.mark.parametrize("hot", [False, True])
def test_no_byte_of_a_block_can_change_unseen(hot):
    bits = (20, 4, 4, 16)
    keys = random_keys(bits, 40, 1000, prefixes=[77] * 100 if hot else ())
    data, starts, _ = packed(bits, keys)
    assert len(data) == starts[-1]
    for at in range(len(data)):
        for bit in (1, 128):
            broken = data.copy()
            broken[at] ^= bit
            matches, locations, damaged = lookup_all(bits, broken, starts, [77 << 44, keys[0]], 1000)
            assert (matches, locations) == ({}, {})
            assert set(damaged.values()) == {"it does not fit its checksum"}
            assert len(damaged) == 2
            assert find_one(Layout(*bits), broken.tobytes(), keys[0], 1000)[2] == 1
            assert 0 in unpack(Layout(*bits), broken, starts, 0, 1000)[2]
    for length in range(len(data)):
        short = np.array([0, length], np.int64)
        assert len(lookup_all(bits, data, short, [keys[0]], 1000)[2]) == 1


def test_a_block_in_the_place_of_another_is_damaged():
    bits = (20, 8, 4, 16)
    data, starts, _ = packed(bits, random_keys(bits, 500, 1000))
    layout = Layout(*bits)
    *_, damaged, reasons = find(layout, data, starts[2:3], starts[3:4], np.array([1 << 60], np.uint64), 1000)
    assert (damaged.tolist(), [REASONS[r] for r in reasons]) == ([0], ["it does not fit its checksum"])
    same_place_other_block = np.array([1 << 60, 2 << 60], np.uint64)
    *_, damaged, _ = find(layout, data, starts[[2, 2]], starts[[3, 3]], same_place_other_block, 1000)
    assert damaged.tolist() == [0]


def test_implausible_metadata_is_named():
    """Make blocks with valid checksums and invalid content."""
    bits = (8, 0, 0, 8)  # one sub-bucket, entries of a byte of remainder and a byte of id

    def parse_block(entries, hot=b"", count=None, h=5 << 56, num_units=200):
        body = bytes([len(entries) if count is None else count])
        body += b"".join(unit.to_bytes(1, "little") + bytes([remainder]) for remainder, unit in entries) + hot
        data = np.frombuffer(body + checksum(body, 0), np.uint8)
        starts = np.array([0, len(data)])
        matches, locations, damaged = lookup_all(bits, data, starts, [h], num_units)
        return matches.get(0), locations.get(0), damaged.get(0), unpack(Layout(*bits), data, starts, 0, num_units)[2]

    location = (9).to_bytes(8, "little") + (7).to_bytes(4, "little")
    assert parse_block([(5, 1), (5, 199), (6, 0)]) == ([1, 199], None, None, {})
    assert parse_block([(5, 255), (6, 0)], location) == (None, (9, 7), None, {})
    assert parse_block([(5, 200)]) == (None, None, REASONS[3], {0: REASONS[3]})
    assert parse_block([(5, 255)]) == (None, None, REASONS[4], {0: REASONS[4]})
    assert parse_block([(5, 1)], location) == ([1], None, None, {0: REASONS[4]})
    assert parse_block([(5, 1)], location[1:]) == (None, None, REASONS[2], {0: REASONS[2]})
    assert parse_block([(5, 1)], count=2) == (None, None, REASONS[2], {0: REASONS[2]})
    assert parse_block([(5, 1)], count=0) == (None, None, REASONS[2], {0: REASONS[2]})
    assert parse_block([(5, 2), (5, 1)]) == ([2, 1], None, None, {0: REASONS[5]})
    assert parse_block([(5, 1), (5, 1)]) == ([1, 1], None, None, {0: REASONS[5]})
    assert parse_block([(5, 1), (5, 255)], location)[3] == {0: REASONS[5]}
    assert parse_block([(5, 255), (5, 255)], location * 2)[2:] == (REASONS[4], {0: REASONS[5]})


def test_unpackable_input_is_refused():
    bits = (20, 8, 4, 8)
    layout = Layout(*bits)

    def refused(keys, first=0, count=16, runs=(), lengths=(), locations=()):
        with pytest.raises(ValueError):
            pack(
                layout, np.array(keys, np.uint64), first, count, np.array(runs, np.int64),
                np.array(lengths, np.int64), np.array(locations, np.uint64).reshape(-1, 2),
            )  # fmt: skip

    for keys in ([2, 1], [1, 1], [255], [1, (1 << 44) | 300]):  # 255 means a hot prefix
        refused(keys)
    for keys, first, count in (([2**63], 0, 8), ([1], 1, 8), ([], 10, 7), ([], 17, 0), ([], 0, 2**64 - 1)):
        refused(keys, first, count)
    one = [(0, 1)]
    for keys, runs, lengths, locations in (
        *(([1, 2], [0], [1], one), ([1, 2], [1], [1], one), ([1, 2], [0], [3], one), ([1, 2], [-1], [2], one)),
        *(([1, 2], [0], [2], [(0, 2**32)]), ([1, 2], [0, 0], [2, 2], one * 2), ([1, 1 << 44], [0], [2], one)),
        ([1, 2], [0], [2], []),
    ):
        refused(keys, runs=runs, lengths=lengths, locations=locations)
    for wrong in [(0, 0, 0, 1), (41, 0, 0, 1), (8, 9, 0, 1), (8, 4, 5, 1), (8, 4, 4, 0), (8, 4, 4, 33), (40, 7, 7, 24)]:
        with pytest.raises(ValueError, match="no blocks"):
            Layout(*wrong)


def test_blocks_outside_of_the_data_are_refused():
    layout = Layout(8, 0, 0, 8)
    data, hashes = np.zeros(8, np.uint8), np.zeros(1, np.uint64)
    for start, end in [(-1, 4), (0, 9), (5, 4), (2**62, 2**62 + 1)]:
        with pytest.raises(ValueError):
            find(layout, data, np.array([start]), np.array([end]), hashes, 1)
        with pytest.raises(ValueError):
            unpack(layout, data, np.array([start, end]), 0, 1)
    with pytest.raises(ValueError):
        find(layout, data, np.array([0, 0]), np.array([4]), hashes, 1)
    *_, damaged, _ = find(layout, data[:0], np.array([0]), np.array([0]), hashes, 1)
    assert damaged.tolist() == [0]
    assert unpack(layout, data[:0], np.array([0, 0]), 0, 1)[2] == {0: REASONS[1]}
    assert unpack(layout, data[:0], np.array([0]), 0, 1)[0].tolist() == []


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=50))
def test_squeeze(numbers):
    keys = np.array(sorted(numbers), np.uint64)
    count = postings.squeeze(keys)
    assert keys[:count].tolist() == sorted(set(numbers))


def test_first_key():
    layout = Layout(35, 12, 8, 20)
    assert [layout.first_key(block) for block in (0, 1, 15, 16)] == [0, 2**60, 15 * 2**60, 2**64]
    assert Layout(24, 0, 0, 32).first_key(1) == 2**64
