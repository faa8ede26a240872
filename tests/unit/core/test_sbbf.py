"""The kernels on bitsets and on single blocks, compared bit for bit with the slow filter of the oracle."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import oracle
from support.oracle.oracle import OracleFilter

from parquet_bloom.core.bloom import sbbf
from parquet_bloom.core.bloom.blocks import check_blocks, locate_blocks
from parquet_bloom.core.hash.xxh64 import Keys

BLOCKS = (1, 2, 3, 5, 8, 31, 64, 257)
HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=8)


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
    for again in (hashes, hashes[::-1].copy(), hashes[:0]):
        sbbf.insert_hashes(bitset, again)
        assert bytes(bitset) == filled(len(bitset), hashes).to_bytes()


@pytest.mark.parametrize("num_blocks", BLOCKS)
def test_answers_merges_folds_and_measures_are_the_oracles(num_blocks):
    num_bytes, some, others = 32 * num_blocks, hashes_of(9 * num_blocks, num_blocks), hashes_of(2 * num_blocks, 2)
    exact = filled(num_bytes, some)
    queried = np.concatenate([some, hashes_of(3000, 100 + num_blocks)])
    matches = sbbf.check_hashes(exact.to_bytes(), queried)
    assert matches.dtype == np.bool_
    assert matches.tolist() == [exact.check_hash(value) for value in queried.tolist()]
    assert matches[: len(some)].all()
    assert not matches.all()
    assert sbbf.check_hashes(exact.to_bytes(), queried[:0]).shape == (0,)

    bitset = bytearray(exact.to_bytes())
    for other in (filled(num_bytes, others).to_bytes(), bitset):
        sbbf.merge(bitset, other)
        assert bytes(bitset) == filled(num_bytes, np.concatenate([some, others])).to_bytes()
    if num_blocks % 2 == 0:
        half = sbbf.fold(exact.to_bytes()).tobytes()
        assert (
            half
            == OracleFilter(num_bytes, exact.to_bytes()).fold().to_bytes()
            == filled(16 * num_blocks, some).to_bytes()
        )

    for count in (0, 1, num_blocks, 30 * num_blocks):
        exact = filled(num_bytes, hashes_of(count, count))
        bits, fpp = sbbf.measure(exact.to_bytes())
        assert bits == exact.popcount()
        assert fpp == pytest.approx(exact.fpp, rel=1e-12, abs=1e-300)
    assert sbbf.measure(b"\xff" * num_bytes) == (256 * num_blocks, 1.0)


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


@pytest.mark.parametrize("tail", [b"", b"of no block"])
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
    other = filled(160, hashes_of(10, 3))
    sbbf.merge(bitset, other.to_bytes() + bytes(len(tail)))
    assert bytes(memory) == b"x" * shift + exact.merge(other).to_bytes() + tail + b"y"


def test_keys_are_hashed_and_nulls_left_out():
    for count in (0, 1, 127, 128, 129, 1000):
        rng = random.Random(count)
        values = [rng.randbytes(8) for _ in range(count + 3)]
        valid = [rng.random() < 0.7 for _ in range(count + 3)]
        data, bitmap = b"".join(values), np.packbits(valid, bitorder="little").tobytes()
        sparse = OracleFilter.of(320, values[:1])
        for keys, kept in (
            (Keys.fixed(data, 8, count, 3, bitmap), valid[3:]),
            (Keys.fixed(data, 8, count, 3), [True] * count),
        ):
            bitset = np.zeros(320, np.uint8)
            sbbf.insert_keys(bitset, keys)
            exact = OracleFilter.of(320, [value for value, good in zip(values[3:], kept, strict=True) if good])
            assert bitset.tobytes() == exact.to_bytes()
            expected = [not good or sparse.check(value) for value, good in zip(values[3:], kept, strict=True)]
            assert sbbf.check_keys(sparse.to_bytes(), keys).tolist() == expected  # a null is "maybe" whatever it holds
    values = [rng.randbytes(rng.randrange(60)) for _ in range(300)]
    keys = Keys.variable(np.cumsum([0, *map(len, values)]).astype(np.int32), b"".join(values), len(values))
    bitset = np.zeros(1024, np.uint8)
    sbbf.insert_keys(bitset, keys)
    assert bitset.tobytes() == OracleFilter.of(1024, values).to_bytes()
    assert sbbf.check_keys(bitset, keys).all()


def test_bitsets_and_hashes_that_do_not_fit_are_refused():
    hashes, keys = np.zeros(1, np.uint64), Keys.fixed(bytes(8), 8, 1)
    for bitset in (bytearray(), bytearray(1), bytearray(31)):
        for call in (
            lambda bitset: sbbf.insert_hashes(bitset, hashes),
            lambda bitset: sbbf.check_hashes(bitset, hashes),
            lambda bitset: sbbf.insert_keys(bitset, keys),
            lambda bitset: sbbf.check_keys(bitset, keys),
            sbbf.fold,
            sbbf.measure,
        ):
            with pytest.raises(ValueError, match="32 bytes"):
                call(bitset)
    with pytest.raises(ValueError, match="64 and 96 bytes"):
        sbbf.merge(bytearray(64), bytes(96))
    with pytest.raises(ValueError, match="odd"):
        sbbf.fold(bytes(96))
    with pytest.raises((TypeError, ValueError, BufferError)):
        sbbf.insert_hashes(bytes(32), hashes)  # read-only
    with pytest.raises((TypeError, ValueError, BufferError)):
        sbbf.insert_hashes(bytearray(32), np.zeros(1, np.int32))
    with pytest.raises(TypeError):
        sbbf.check_keys(bytes(32), None)
    room = np.empty(10, np.uint64)
    with pytest.raises(ValueError, match="no room for 10 hashes"):
        sbbf.insert_new(np.zeros(32, np.uint8), Keys.hashed(np.arange(10, dtype=np.uint64)), room, room[:9])
    assert sbbf.insert_new(np.zeros(32, np.uint8), Keys.hashed(room[:0]), room[:0], room[:0]) == (0, 0)


@given(st.lists(st.integers(32, 2**36 - 1), max_size=5), HASHES)
def test_blocks_lie_where_the_oracle_says(sizes, hashes):
    blocks = locate_blocks(np.array(sizes, np.int64), np.array(hashes, np.uint64))
    assert blocks.shape == (len(sizes), len(hashes))
    assert blocks.tolist() == [[32 * oracle.block_index(key, size // 32) for key in hashes] for size in sizes]


@given(st.integers(1, 30), HASHES, HASHES)
def test_single_blocks_answer_as_the_oracle_does(num_blocks, inserted, queried):
    exact = filled(32 * num_blocks, np.array(inserted, np.uint64))
    blocks = np.frombuffer(exact.to_bytes(), np.uint8).reshape(-1, 32)
    hashes = np.array(inserted + queried, np.uint64)
    numbers = locate_blocks(np.array([32 * num_blocks], np.int64), hashes) // 32
    assert check_blocks(blocks, numbers, hashes).tolist() == [[exact.check_hash(int(key)) for key in hashes]]


def test_blocks_that_there_are_not_are_refused():
    for size in (-32, 0, 31, 2**36):
        with pytest.raises(ValueError, match="a bitset has 1 to"):
            locate_blocks(np.array([64, size], np.int64), np.array([1], np.uint64))
    blocks, hashes = np.zeros((2, 32), np.uint8), np.array([1, 2], np.uint64)
    for number in (-1, 2, 1 << 40):
        with pytest.raises(ValueError, match=f"block {number} is out of range: there are 2"):
            check_blocks(blocks, np.array([[0, number]]), hashes)
    with pytest.raises(ValueError, match="32 bytes"):
        check_blocks(np.zeros((2, 31), np.uint8), np.array([[0, 1]]), hashes)
    with pytest.raises(ValueError, match="a column a hash"):
        check_blocks(blocks, np.array([[0]]), hashes)
    assert check_blocks(blocks, np.zeros((0, 2), np.int64), hashes).shape == (0, 2)
