"""Growth of memory per file, row group and column chunk, on a small scale (`tools/bench/load.py` has more).

Files are names of one file where only their number matters.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.lake.lake_index import LakeIndex

FEW, MANY = 40, 200  # files
KIB = 1 << 10
MIB = 1 << 20


def peak(work: Callable[[], Any]) -> int:
    """Bytes of Python and numpy that are in use at most while something is done."""
    work()  # imports, and what is kept once
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def lakes(tmp_path: Path) -> dict[int, Path]:
    """Folders of so many files, of four row groups with filters each."""
    pq.write_table(pa.table({"id": range(400), "name": ["a"] * 400}), tmp_path / "one.parquet", row_group_size=100)
    parquet_bloom.embed(tmp_path / "one.parquet", ["id"])
    for count in (FEW, MANY):
        (tmp_path / str(count)).mkdir()
        for number in range(count):
            os.link(tmp_path / "one.parquet", tmp_path / str(count) / f"{number}.parquet")
    return {count: tmp_path / str(count) for count in (FEW, MANY)}


def a_file(lakes: dict[int, Path], work: Callable[[Path], Any]) -> float:
    """Bytes that one more file takes."""
    few, many = (peak(lambda folder=lakes[count]: work(folder)) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def test_prune_keeps_little_of_a_file(lakes: dict[int, Path]) -> None:
    assert a_file(lakes, lambda lake: parquet_bloom.prune(lake, "id = 7", cache=None)) < 24 * KIB


def test_prune_with_a_full_cache_keeps_no_more(lakes: dict[int, Path]) -> None:
    cache = MetadataCache(64 * KIB)
    assert a_file(lakes, lambda lake: parquet_bloom.prune(lake, "id = 7", cache=cache)) < 24 * KIB
    assert cache.num_bytes <= 64 * KIB


@pytest.mark.ci
def test_advise_adds_up(lakes: dict[int, Path]) -> None:
    assert a_file(lakes, lambda lake: parquet_bloom.advise(lake, sample=0, threads=1)) < 12 * KIB


@pytest.mark.ci
def test_an_index_in_memory_takes_little_of_a_file(lakes: dict[int, Path], tmp_path: Path) -> None:
    for count, lake in lakes.items():
        with LakeIndex.create(tmp_path / f"{count}.index", "id", expected_values=10_000) as index:
            index.append(lake, threads=1)
    few, many = (
        peak(lambda at=tmp_path / f"{count}.index": LakeIndex.open(at, live=False).close()) for count in (FEW, MANY)
    )
    assert (many - few) / (MANY - FEW) < 4 * KIB


def row_groups(path: Path, count: int, rows: int = 10_000) -> Path:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for number in range(count):
            ids = np.random.default_rng(number).integers(0, 1 << 60, rows)
            texts = [f"{each:020}" for each in ids.tolist()]
            writer.write_table(pa.table([ids, texts], schema=schema))
    return path


@pytest.mark.ci
def test_rows_come_a_few_row_groups_at_a_time(tmp_path: Path) -> None:
    """As many are in memory as the bound allows, with what they are filtered by; not the file, which has 20."""
    path = row_groups(tmp_path / "a.parquet", 20)
    one = pq.ParquetFile(path).read_row_group(0).nbytes

    def read() -> tuple[int, int]:
        gc.collect()
        before, most, rows = pa.total_allocated_bytes(), 0, 0
        for batch in parquet_bloom.dataset(path).scan("id >= 0").to_batches(batch_size=2_000, max_bytes=2 * one):
            most = max(most, pa.total_allocated_bytes() - before)
            rows += batch.num_rows
        return most, rows

    read()
    most, rows = read()
    assert rows == pq.read_metadata(path).num_rows
    assert most < 6 * one  # rows, and the pages that they are decoded from


def test_filters_are_built_a_column_chunk_at_a_time(tmp_path: Path) -> None:
    small, large = (row_groups(tmp_path / f"{count}.parquet", count) for count in (3, 12))
    few, many = (
        peak(lambda path=path: parquet_bloom.embed(path, ["id", "text"], output=tmp_path / "out.parquet", threads=1))
        for path in (small, large)
    )
    assert many < few + 2 * MIB


def test_a_dictionary_that_claims_much_is_not_made_room_for(tmp_path: Path) -> None:
    """To look at its page's header is not to believe it."""
    path = tmp_path / "claim.parquet"
    pq.write_table(pa.table({"name": ["a", "b"] * 10}), path, compression="none", write_statistics=False)
    data = bytearray(path.read_bytes())
    position = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    assert data[position : position + 2] == b"\x15\x04"  # a dictionary page
    data[position + 3] = 0x7F  # its size: some bytes more than there are
    path.write_bytes(data)

    def refused() -> None:
        with pytest.raises(ParquetBloomError):
            parquet_bloom.embed(path, ["name"])

    for what in (
        lambda: parquet_bloom.prune(path, "name = 'a'"),
        lambda: parquet_bloom.advise(path),
        refused,
    ):
        assert peak(what) < MIB
