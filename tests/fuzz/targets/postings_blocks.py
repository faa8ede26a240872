"""core/index/postings.pyx over one block with the right checksum: its readers agree, and packing restores it."""

from __future__ import annotations

import functools
import struct

import numpy as np
import xxhash
from taking import Taken, is_compared

from parquet_bloom.core.index import postings

ALLOWED = ()
MAX_INPUT = 1024


def layout_of(taken: Taken) -> postings.Layout | None:
    prefix_bits = 1 + taken.number() % 40
    bucket_bits = taken.number() % (prefix_bits + 1)
    block_bits = taken.number() % (min(bucket_bits, 12) + 1)
    id_bits = 1 + taken.number() % 32
    if prefix_bits - bucket_bits + id_bits > 56:
        return None
    return postings.Layout(prefix_bits, bucket_bits, block_bits, id_bits)


def with_sum(body: bytes, number: int) -> bytes:
    total = xxhash.xxh64_intdigest(body) ^ xxhash.xxh64_intdigest(struct.pack("<Q", number))
    return body + struct.pack("<I", total & 0xFFFFFFFF)


def run(data: bytes) -> None:
    taken = Taken(data)
    layout = layout_of(taken)
    num_units, is_broken, h, more = taken.number(2), taken.number() == 255, taken.number(8), taken.number()
    if layout is None:
        return
    number = layout.block_number(h)
    body = taken.rest()
    block = body if is_broken else with_sum(body, number)
    units, hot, status = postings.find_one(layout, block, h, num_units)
    assert (units < num_units).all() or not len(units)
    complete = np.frombuffer(block, np.uint8)
    keys, hot_runs, damaged = postings.unpack(layout, complete, np.array([0, len(block)]), number, num_units)
    if not is_compared(data):
        return
    check_three_queries(layout, complete, h, h ^ more << 8, num_units, (units, hot, status))
    if damaged:
        assert not len(keys)
        assert not len(hot_runs)
        return
    assert status == 0
    shift = 64 - layout.prefix_bits
    prefixes = keys >> np.uint64(shift)
    mine = keys[prefixes == h >> shift] & np.uint64((1 << shift) - 1)
    assert mine.tolist() == units.tolist()
    positions = [(offset, length) for _, prefix, offset, length in hot_runs.tolist() if prefix == h >> shift]
    assert positions == ([] if hot is None else [hot])
    if len(hot_runs) == 0 and layout.id_bits <= 64 - layout.prefix_bits and not (np.diff(keys) == 0).any():
        none = np.empty(0, np.int64)
        packed, starts = postings.pack(layout, keys, number, 1, none, none, np.empty((0, 2), np.uint64))
        again, _, bad = postings.unpack(layout, packed, np.append(starts, len(packed)), number, num_units)
        assert not bad
        assert again.tolist() == keys.tolist()


def check_three_queries(
    layout: postings.Layout, complete: np.ndarray, h: int, other: int, num_units: int, one: tuple
) -> None:
    """Three questions at once, two of them the same."""
    hashes = np.array([h, h, other & (1 << 64) - 1], np.uint64)
    starts, ends = np.zeros(3, np.int64), np.full(3, len(complete))
    queries, units, hot_queries, offsets, lengths, damaged, reasons = postings.find(
        layout, complete, starts, ends, hashes, num_units
    )
    expected, hot, status = one
    for query in (0, 1):
        assert units[queries == query].tolist() == expected.tolist()
        assert ([reason for which, reason in zip(damaged, reasons, strict=True) if which == query] or [0]) == [status]
        positions = list(
            zip(
                offsets[hot_queries == query].view(np.uint64).tolist(),
                lengths[hot_queries == query].tolist(),
                strict=True,
            )
        )
        assert positions == ([] if hot is None else [hot])


@functools.cache
def seeds() -> list[bytes]:
    results = []
    rng = np.random.default_rng(1)
    for bits, count, runs in (
        ((19, 12, 3, 9), 40, 0),
        ((23, 8, 0, 15), 20, 0),
        ((10, 6, 6, 7), 90, 3),
        ((3, 1, 0, 0), 2, 0),
    ):
        layout = layout_of(Taken(bytes(bits)))
        assert layout is not None
        prefix_bits, id_bits = layout.prefix_bits, layout.id_bits
        most = (1 << id_bits) - 1
        start, step = layout.first_key(1), layout.first_key(1)
        if layout.bucket_bits == layout.block_bits:
            start, step = 0, (1 << 64) - 1
        hashes = start + (rng.random(count) * step * 0.99).astype(np.uint64)
        prefixes = np.concatenate(
            [hashes >> np.uint64(64 - prefix_bits), np.repeat(hashes[:1] >> np.uint64(64 - prefix_bits), runs)]
        )
        units = rng.integers(0, most, len(prefixes)).astype(np.uint64)
        keys = np.unique(prefixes << np.uint64(64 - prefix_bits) | units)
        number = layout.block_number(int(keys[0]))
        keys = keys[[layout.block_number(int(key)) == number for key in keys]]
        first, length = postings.hot_runs(layout, keys, 2)
        positions = np.array([[7 * i, 9 + i] for i in range(len(first))], np.uint64).reshape(-1, 2)
        data, _ = postings.pack(layout, keys, number, 1, first, length, positions)
        head = bytes(bits) + struct.pack("<HBQB", min(most, 65535), 0, int(keys[len(keys) // 2]), 3)
        results.append(head + data[:-4].tobytes())
    return results
