"""core/bloom: blocks and sbbf: bitsets of any length, single blocks of them, and offsets out of range."""

from __future__ import annotations

import functools

import numpy as np
from taking import Taken, short

from parquet_bloom.core.bloom import blocks, sbbf

ALLOWED = (ValueError,)
MAX_INPUT = 1024


def run(data: bytes) -> None:
    taken = Taken(data)
    kind = taken.number() % 4
    hashes = taken.numbers(taken.number() % 5).view(np.uint64)
    if kind == 3:
        apart(taken, hashes)
        return
    bitset = np.frombuffer(taken.rest(), np.uint8).copy()
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


def apart(taken: Taken, hashes: np.ndarray) -> None:
    num_bytes, numbers = taken.short_numbers(taken.number() % 4), taken.short_numbers(len(hashes))
    rest = taken.rest()
    fetched = np.frombuffer(rest[: len(rest) // 32 * 32], np.uint8).reshape(-1, 32)
    matches = blocks.check_blocks(fetched, numbers[None], hashes)
    assert matches.shape == (1, len(hashes))
    block_indexes = blocks.locate_blocks(num_bytes, hashes)
    assert ((block_indexes >= 0) & (block_indexes <= num_bytes[:, None] - 32)).all()


@functools.cache
def seeds() -> list[bytes]:
    hashes = np.array([1, 1 << 40, (1 << 63) + 12345], np.uint64)
    results = []
    for kind, size in ((0, 64), (0, 77), (1, 128), (2, 200), (2, 32)):
        bitset = np.zeros(size, np.uint8)
        sbbf.insert_hashes(bitset, hashes[:2])
        results.append(bytes([kind, 3]) + hashes.tobytes() + bitset.tobytes())
    results.append(b"\3\3" + hashes.tobytes() + b"\2" + short(64, 1000) + short(0, 1, 1) + bytes(64))
    return results
