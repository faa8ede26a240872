"""Steps of `load.py` on an index of a billion values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from _load import Size, Step

from parquet_bloom.lake.lake_index import LakeIndex

IN_A_FILE = 1_000_000
LIMIT = 256 << 20  # bytes of memory for values
SEGMENTS = 4


def _values(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 1 << 62, IN_A_FILE)


def _files(size: Size) -> int:
    return size.of(1_000, 8)


def _batches(numbers: range) -> Iterator[tuple[str, dict[str, pa.Array]]]:
    for number in numbers:
        yield f"f{number:04}", {"id": pa.array(_values(number))}


def _create(folder: Path, size: Size) -> str:
    """Build several segments, to be compacted later."""
    count = _files(size)
    with LakeIndex.create(folder / "index", "id", expected_values=count * IN_A_FILE) as index:
        for part in range(SEGMENTS):
            numbers = range(part * count // SEGMENTS, (part + 1) * count // SEGMENTS)
            index.append_batches(_batches(numbers), memory_limit=LIMIT)
        stats = index.stats()
    return f"{count * IN_A_FILE:,} values, {stats.bytes_a_value:.2f} bytes a value"


def _lookup(folder: Path, size: Size) -> str:
    chance = np.random.default_rng(99)
    started = time.perf_counter()
    with LakeIndex.open(folder / "index", live=False) as index:
        opened = time.perf_counter()
        looked = 0
        named = 0
        for number in chance.choice(_files(size), min(10, _files(size)), replace=False):
            values = _values(int(number))[:100].tolist()
            before = time.perf_counter()
            answers = index.lookup("id", values)
            looked += time.perf_counter() - before
            for answer in answers:
                paths = [each.path for each in answer]
                assert f"f{number:04}" in paths
                named += len(paths)
            opened_for = opened - started
    return f"open {opened_for:.3f} s; 1,000 lookups {looked:.3f} s, {named:,} files named"


def _compact(folder: Path, size: Size) -> str:
    with LakeIndex.open(folder / "index", live=False) as index:
        return str(index.compact(memory_limit=LIMIT, keep_seconds=0))


INDEX = (
    Step("create, append 4 times", 1_000, _create),
    Step("open, 1,000 lookups", 1_000, _lookup),
    Step("compact", 1_000, _compact),
    Step("open, 1,000 lookups", 1_000, _lookup),
)
