"""The kernels on bitsets, compared bit for bit with the slow filter of the oracle."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support.oracle import oracle
from support.oracle.oracle import OracleFilter

from parquet_bloom.core.bloom import sbbf
from parquet_bloom.core.hash.xxh64 import Keys

BLOCKS = (1, 2, 3, 5, 8, 31, 64, 257)
TAIL = b"of no block"


def hashes_of(count: int, seed: int) -> np.ndarray:
    """Hashes, including the extremes of both halves."""
    edges = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    drawn = np.random.default_rng(seed).integers(0, 2**64, max(0, count - len(edges)), dtype=np.uint64)
    return np.concatenate([np.array(edges[:count], np.uint64), drawn])


def filled(num_bytes: int, hashes: np.ndarray) -> OracleFilter:
    exact = OracleFilter(num_bytes)
    for value in hashes.tolist():
        exact.insert_hash(value)
    return exact


@pytest.mark.parametrize("num_blocks", BLOCKS)
def test_inserted_hashes_set_the_right_bits(num_blocks):
    hashes = hashes_of(4 * num_blocks + 3, num_blocks)
    bitset = bytearray(32 * num_blocks)
    for i, value in enumerate(hashes[:6]):
        sbbf.insert_hashes(bitset, hashes[i : i + 1])
        assert bytes(bitset) == filled(len(bitset), hashes[: i + 1]).to_bytes(), hex(value)
    sbbf.insert_hashes(bitset, hashes)
    assert bytes(bitset) == filled(len(bitset), hashes).to_bytes()
    sbbf.insert_hashes(bitset, hashes[::-1].copy())
    assert bytes(bitset) == filled(len(bitset), hashes).to_bytes()


@pytest.mark.parametrize("num_blocks", BLOCKS)
def test_checks_answer_as_the_oracle_does(num_blocks):
    exact = filled(32 * num_blocks, hashes_of(9 * num_blocks, num_blocks))
    queried = np.concatenate([hashes_of(9 * num_blocks, num_blocks), hashes_of(3000, 100 + num_blocks)])
    matches = sbbf.check_hashes(exact.to_bytes(), queried)
    assert matches.dtype == np.bool_
    assert matches.tolist() == [exact.check_hash(value) for value in queried.tolist()]
    assert matches[: 9 * num_blocks].all()
    assert not matches.all()


def test_each_of_the_eight_bits_is_probed():
    """A key is absent if any one of its bits is unset, and only then."""
    for value in hashes_of(40, 1).tolist():
        hashes = np.array([value], np.uint64)
        bitset = np.zeros(96, np.uint8)
        sbbf.insert_hashes(bitset, hashes)
        bits = np.unpackbits(bitset)
        assert bits.sum() == 8
        for position in range(len(bits)):
            others = np.ones_like(bits)
            others[position] = 0
            assert sbbf.check_hashes(np.packbits(others), hashes)[0] != bits[position]


@pytest.mark.parametrize("tail", [b"", TAIL])
@pytest.mark.parametrize("shift", [0, 1, 13])
def test_bitsets_stand_anywhere_and_may_have_a_rest(shift, tail):
    """An odd address, and bytes after the last block: neither they nor the memory around the bitset are changed."""
    hashes = hashes_of(60, 2)
    exact = filled(160, hashes)
    memory = bytearray(b"x" * shift + bytes(160) + tail + b"y")
    bitset = memoryview(memory)[shift : shift + 160 + len(tail)]
    sbbf.insert_hashes(bitset, hashes)
    assert bytes(memory) == b"x" * shift + exact.to_bytes() + tail + b"y"
    assert sbbf.check_hashes(bitset, hashes).all()
    assert sbbf.measure(bitset) == (exact.popcount(), pytest.approx(exact.fpp, rel=1e-12))
    other = filled(160, hashes_of(10, 3)).to_bytes() + bytes(len(tail))
    sbbf.merge(bitset, other)
    merged = exact.merge(filled(160, hashes_of(10, 3))).to_bytes()
    assert bytes(memory) == b"x" * shift + merged + tail + b"y"


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 1000])
def test_keys_are_hashed_and_nulls_left_out(count):
    rng = random.Random(count)
    values = [rng.randbytes(8) for _ in range(count + 3)]
    valid = [rng.random() < 0.7 for _ in range(count + 3)]
    bitmap = np.packbits(valid, bitorder="little").tobytes()
    data = b"".join(values)
    exact = OracleFilter.of(320, [v for v, good in zip(values[3:], valid[3:], strict=True) if good])
    bitset = np.zeros(320, np.uint8)
    sbbf.insert_keys(bitset, Keys.fixed(data, 8, count, 3, bitmap))
    assert bitset.tobytes() == exact.to_bytes()
    # A null is "maybe" whatever the filter holds.
    sparse = OracleFilter.of(320, values[:1])
    matches = sbbf.check_keys(sparse.to_bytes(), Keys.fixed(data, 8, count, 3, bitmap))
    expected = [not good or sparse.check(v) for v, good in zip(values[3:], valid[3:], strict=True)]
    assert matches.tolist() == expected
    everything = sbbf.check_keys(sparse.to_bytes(), Keys.fixed(data, 8, count, 3))
    assert everything.tolist() == [sparse.check(value) for value in values[3:]]
    bitset[:] = 0
    sbbf.insert_keys(bitset, Keys.fixed(data, 8, count, 3))
    assert bitset.tobytes() == OracleFilter.of(320, values[3:]).to_bytes()


def test_keys_of_any_length():
    rng = random.Random(9)
    values = [rng.randbytes(rng.randrange(60)) for _ in range(300)]
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    keys = Keys.variable(offsets, b"".join(values), len(values))
    bitset = np.zeros(1024, np.uint8)
    sbbf.insert_keys(bitset, keys)
    assert bitset.tobytes() == OracleFilter.of(1024, values).to_bytes()
    assert sbbf.check_keys(bitset, keys).all()


@pytest.mark.parametrize("num_blocks", BLOCKS)
def test_merge_is_the_filter_of_both(num_blocks):
    some, others = hashes_of(3 * num_blocks, 1), hashes_of(2 * num_blocks, 2)
    bitset = bytearray(filled(32 * num_blocks, some).to_bytes())
    other = filled(32 * num_blocks, others).to_bytes()
    sbbf.merge(bitset, other)
    assert bytes(bitset) == filled(32 * num_blocks, np.concatenate([some, others])).to_bytes()
    sbbf.merge(bitset, bitset)
    assert bytes(bitset) == filled(32 * num_blocks, np.concatenate([some, others])).to_bytes()


@pytest.mark.parametrize("num_blocks", [2, 4, 6, 10, 64, 514])
def test_a_folded_bitset_is_that_of_half_the_size(num_blocks):
    hashes = hashes_of(2 * num_blocks, num_blocks)
    bitset = filled(32 * num_blocks, hashes).to_bytes()
    half = sbbf.fold(bitset)
    assert half.tobytes() == OracleFilter(32 * num_blocks, bitset).fold().to_bytes()
    assert half.tobytes() == filled(16 * num_blocks, hashes).to_bytes()


@pytest.mark.parametrize("num_blocks", BLOCKS)
def test_measures(num_blocks):
    for count in (0, 1, num_blocks, 30 * num_blocks):
        exact = filled(32 * num_blocks, hashes_of(count, count))
        bits, fpp = sbbf.measure(exact.to_bytes())
        assert bits == exact.popcount()
        assert fpp == pytest.approx(exact.fpp, rel=1e-12, abs=1e-300)
    assert sbbf.measure(b"\xff" * 32 * num_blocks) == (256 * num_blocks, 1.0)


@pytest.mark.parametrize("num_bytes", [0, 1, 31])
def test_less_than_a_block_is_not_a_bitset(num_bytes):
    bitset, hashes = bytearray(num_bytes), np.zeros(1, np.uint64)
    keys = Keys.fixed(bytes(8), 8, 1)
    for call in (
        lambda: sbbf.insert_hashes(bitset, hashes),
        lambda: sbbf.check_hashes(bitset, hashes),
        lambda: sbbf.insert_keys(bitset, keys),
        lambda: sbbf.check_keys(bitset, keys),
        lambda: sbbf.fold(bitset),
        lambda: sbbf.measure(bitset),
    ):
        with pytest.raises(ValueError, match="32 bytes"):
            call()


def test_oversized_input_is_refused():
    with pytest.raises(ValueError, match="64 and 96 bytes"):
        sbbf.merge(bytearray(64), bytes(96))
    with pytest.raises(ValueError, match="odd"):
        sbbf.fold(bytes(96))
    with pytest.raises((TypeError, ValueError, BufferError)):
        sbbf.insert_hashes(bytes(32), np.zeros(1, np.uint64))  # read-only
    with pytest.raises((TypeError, ValueError, BufferError)):
        sbbf.insert_hashes(bytearray(32), np.zeros(1, np.int32))
    with pytest.raises(TypeError):
        sbbf.check_keys(bytes(32), None)


def test_no_hashes_change_nothing():
    bitset = bytearray(oracle.xxh64(b"a").to_bytes(8, "little") * 8)
    before = bytes(bitset)
    sbbf.insert_hashes(bitset, np.empty(0, np.uint64))
    assert bytes(bitset) == before
    assert sbbf.check_hashes(bitset, np.empty(0, np.uint64)).shape == (0,)
