"""Single blocks: their offsets and answers, compared with the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import oracle
from support.oracle.oracle import OracleFilter

from parquet_bloom.core.bloom.blocks import check_blocks, locate_blocks

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=8)


@given(st.lists(st.integers(32, 2**36 - 1), max_size=5), HASHES)
def test_blocks_lie_where_the_oracle_says(sizes, hashes) -> None:
    blocks = locate_blocks(np.array(sizes, np.int64), np.array(hashes, np.uint64))
    assert blocks.shape == (len(sizes), len(hashes))
    assert blocks.tolist() == [[32 * oracle.block_index(key, size // 32) for key in hashes] for size in sizes]


@pytest.mark.parametrize("size", [-32, 0, 31, 2**36])
def test_no_bitset_of_such_a_size(size) -> None:
    with pytest.raises(ValueError, match="a bitset has 1 to"):
        locate_blocks(np.array([64, size], np.int64), np.array([1], np.uint64))


@given(st.integers(1, 30), HASHES, HASHES)
def test_blocks_answer_as_the_oracle_does(num_blocks, inserted, queried) -> None:
    exact = OracleFilter(32 * num_blocks)
    for key in inserted:
        exact.insert_hash(key)
    blocks = np.frombuffer(exact.to_bytes(), np.uint8).reshape(-1, 32)
    hashes = np.array(inserted + queried, np.uint64)
    numbers = locate_blocks(np.array([32 * num_blocks], np.int64), hashes) // 32
    matches = check_blocks(blocks, numbers, hashes)
    assert matches.tolist() == [[exact.check_hash(int(key)) for key in hashes]]


def test_shapes_and_numbers_are_checked() -> None:
    blocks, hashes = np.zeros((2, 32), np.uint8), np.array([1, 2], np.uint64)
    for number in (-1, 2, 1 << 40):
        with pytest.raises(ValueError, match=f"block {number} is out of range: there are 2"):
            check_blocks(blocks, np.array([[0, number]]), hashes)
    with pytest.raises(ValueError, match="32 bytes"):
        check_blocks(np.zeros((2, 31), np.uint8), np.array([[0, 1]]), hashes)
    with pytest.raises(ValueError, match="a column a hash"):
        check_blocks(blocks, np.array([[0]]), hashes)
    assert check_blocks(blocks, np.zeros((0, 2), np.int64), hashes).shape == (0, 2)
