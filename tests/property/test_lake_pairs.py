"""No (value, file) pair is ever missing from an index: every one of many is looked up.

`PARQUET_BLOOM_PAIRS=100000000` looks up so many in the slow test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.core.hash.xxh64 import hash_keys
from parquet_bloom.hashing.arrow_keys import keys_of
from parquet_bloom.lake.lake_index import LakeIndex

PAIRS = int(os.environ.get("PARQUET_BLOOM_PAIRS", "3000000"))
BATCH = 1 << 16


def values_of(file: int, count: int, seed: int) -> np.ndarray:
    """Random numbers of a file; some are in very many files, some in a few, most in one."""
    chance = np.random.default_rng((seed, file))
    common = np.array([7, 8 + file % 3, 100 + file % 50])
    return np.concatenate([chance.integers(-(2**62), 2**62, count - len(common)), common])


def look_up_pairs(path: Path, files: int, count: int, seed: int) -> int:
    """Look up every pair, by the hash; returns how many that were."""
    done = 0
    with LakeIndex.open(path, live=False) as index:
        segments = index.state.segments
        numbers = [{name: at for at, name in enumerate(segment.files.paths())} for segment in segments]
        for start in range(0, files, max(1, BATCH // count)):
            some = range(start, min(files, start + max(1, BATCH // count)))
            hashes = [np.asarray(hash_keys(keys_of(pa.array(values_of(file, count, seed))))) for file in some]
            together = np.concatenate(hashes)
            expected = np.repeat(np.arange(len(hashes)), [len(one) for one in hashes])
            hit = np.zeros(len(together), np.bool_)
            for segment, own in zip(segments, numbers, strict=True):
                units = np.array([own.get(str(file), -1) for file in some])
                for _, part in segment.find_parts("id"):
                    matches = part.find(together)
                    assert not matches.unknown
                    of_file = segment.files.find_files(matches.units)
                    right = (of_file == units[expected[matches.queries]]) & segment.present[of_file]
                    hit[matches.queries[right]] = True
            assert hit.all(), f"{int((~hit).sum())} of {len(hit)} pairs are lost"
            done += len(hit)
    return done


def batches(files: range, count: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((str(file), {"id": pa.array(values_of(file, count, seed))}) for file in files)


@pytest.mark.parametrize("layout", ["postings", "cuckoo"])
def test_every_pair_is_found(tmp_path: Path, layout: str) -> None:
    count, seed = 300, 1
    with LakeIndex.create(
        tmp_path, "id", layout=layout, expected_values=count if layout == "cuckoo" else 10**6
    ) as index:
        for start in range(0, 600, 60):
            index.append_batches(batches(range(start, start + 60), count, seed), memory_limit=1 << 20)
            index.append_batches(batches(range(start, start + 5), count, seed))  # again
    assert look_up_pairs(tmp_path, 600, count, seed) == 600 * count
    with LakeIndex.open(tmp_path) as index:
        index.compact(memory_limit=1 << 20)
    assert look_up_pairs(tmp_path, 600, count, seed) == 600 * count


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_very_many_pairs(tmp_path: Path) -> None:
    count, seed = 1000, 2
    files = max(2, PAIRS // count)
    with LakeIndex.create(tmp_path, "id", expected_values=PAIRS) as index:
        for start in range(0, files, -(-files // 3)):
            index.append_batches(batches(range(start, min(files, start - (-files // 3))), count, seed))
        index.append_batches(batches(range(0, files, 97), count, seed))
    assert look_up_pairs(tmp_path, files, count, seed) == files * count
    with LakeIndex.open(tmp_path) as index:
        index.compact()
    assert look_up_pairs(tmp_path, files, count, seed) == files * count
