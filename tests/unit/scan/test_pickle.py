"""Test that datasets, scans and fragments can be sent to other processes."""

from __future__ import annotations

import multiprocessing
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import parquet_bloom

TABLE = pa.table({"k": range(100), "text": [f"t{i}" for i in range(100)]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    for part in range(2):
        (folder / f"p={part}").mkdir(parents=True)
        pq.write_table(TABLE.slice(50 * part, 50), folder / f"p={part}" / "a.parquet", row_group_size=10)
    return folder


def by_index(lake: Path, *, is_open: bool = False) -> Any:
    path = lake.parent / "index"
    with parquet_bloom.LakeIndex.create(path, ["k"], lake=lake) as index:
        index.append()
    return parquet_bloom.LakeIndex.open(path) if is_open else path


def on_memory(lake: Path) -> Any:
    memory = fsspec.filesystem("memory")
    for part in range(2):
        memory.pipe(f"/pickled/p={part}/a.parquet", (lake / f"p={part}" / "a.parquet").read_bytes())
    return parquet_bloom.dataset("/pickled", filesystem=memory)


def of_delta(lake: Path) -> Any:
    deltalake.write_deltalake(str(lake.parent / "table"), TABLE.append_column("p", [[0] * 50 + [1] * 50]))
    return parquet_bloom.dataset(lake.parent / "table")


DATASETS: dict[str, Callable[[Path], Any]] = {
    "files": parquet_bloom.dataset,
    "own cache": lambda lake: parquet_bloom.dataset(lake, cache=parquet_bloom.MetadataCache()),
    "no cache": lambda lake: parquet_bloom.dataset(lake, cache=None),
    "cache on disk": lambda lake: parquet_bloom.dataset(
        lake, cache=parquet_bloom.DiskMetadataCache(lake.parent / "cache")
    ),
    "index by path": lambda lake: parquet_bloom.dataset(lake, index=by_index(lake)),
    "open index": lambda lake: parquet_bloom.dataset(lake, index=by_index(lake, is_open=True)),
    "index alone": lambda lake: parquet_bloom.dataset(by_index(lake, is_open=True)),
    "sub-tree": lambda lake: parquet_bloom.dataset("", filesystem=SubTreeFileSystem(str(lake), LocalFileSystem())),
    "memory": on_memory,
    "delta": of_delta,
}


@pytest.mark.parametrize("name", DATASETS)
def test_what_is_unpickled_reads_the_same_rows(lake: Path, name: str) -> None:
    dataset = DATASETS[name](lake)
    scan = dataset.scan("k IN (7, 61) AND text <> 't7'", ["text", "p"])
    fresh = pickle.dumps(scan)
    expected = scan.to_arrow()
    assert expected.to_pylist() == [{"text": "t61", "p": 1}]
    for packed in (fresh, pickle.dumps(scan)):  # before it was planned, and after
        again = pickle.loads(packed)
        assert again.to_arrow().equals(expected)
        assert again.count_rows() == 1
        assert again.plan().selected == scan.plan().selected
        assert repr(again) == repr(scan)
    fragments = list(dataset.get_fragments(pc.field("k") >= 90))
    restored = pickle.loads(pickle.dumps(fragments))
    assert [(one.path, one.row_groups) for one in restored] == [(one.path, one.row_groups) for one in fragments]
    assert pa.concat_tables(one.to_table(columns=["k"]) for one in restored)["k"].to_pylist() == [*range(90, 100)]
    assert restored[0].to_table(filter=pc.field("k") == 95).num_rows == 1


def test_a_planned_scan_keeps_its_plan(lake: Path) -> None:
    scan = parquet_bloom.dataset(lake).scan("k < 5 AND p = 0")
    unplanned, planned = pickle.dumps(scan), pickle.dumps((scan.plan(), scan)[1])
    (lake / "p=0" / "b.parquet").write_bytes((lake / "p=0" / "a.parquet").read_bytes())
    assert pickle.loads(planned).count_rows() == 5
    assert pickle.loads(unplanned).count_rows() == 10


def test_caches_in_memory_stay_in_their_process(lake: Path) -> None:
    cache = parquet_bloom.MetadataCache()
    scan = parquet_bloom.dataset(lake, cache=cache).scan("k = 1")
    assert scan.count_rows() == 1
    assert len(pickle.dumps(parquet_bloom.dataset(lake, cache=cache).scan("k = 1"))) < 5_000


@pytest.mark.ci
def test_other_processes_read(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=by_index(lake))
    scans = [dataset.scan(f"k = {key}") for key in (3, 77)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(operator.methodcaller("count_rows"), scans, chunksize=1) == [1, 1]
        tables = pool.map(operator.methodcaller("to_table"), list(dataset.get_fragments(pc.field("k") == 77)))
    assert pa.concat_tables(tables)["k"].to_pylist() == [77]
