"""Rows of remote files: searched and taken as those of local ones, in few requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.counted import CountedFileSystem
from support.writers.page_indexes import encode_locations, locations, with_index

import parquet_bloom
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.pages.page_columns import find_page_columns
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS
from parquet_bloom.file.pages.row_group_batch import RowGroupBatch, RowGroups, RowsOfGroups
from parquet_bloom.metadata.page_match import Targets

ROWS, GROUP = 40_000, 20_000
NAMES = ["id", "text", "few", "list"]
FORMATS: list[dict[str, Any]] = [
    {"use_dictionary": ["few"], "compression": "none"},
    {"compression": "snappy", "dictionary_pagesize_limit": 200_000},  # given up halfway, and large
    {"use_dictionary": False, "compression": "zstd", "data_page_version": "2.0"},
    {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}},
    {"write_page_index": False},
]


def write(path: Path, **options: Any) -> pa.Table:
    rng = np.random.default_rng(3)
    ids = rng.permutation(ROWS)
    columns = {
        "id": ids,
        "text": pa.array([f"text number {number:020}" for number in ids], mask=rng.random(ROWS) < 0.2),
        "few": pa.array(ids % 5 == 0, mask=ids % 7 == 0),
        "list": pa.array([[number, None] if number % 3 else None for number in ids.tolist()], pa.list_(pa.int64())),
    }
    table = pa.table(columns)
    pages = {"data_page_size": 16_000, "write_batch_size": 500, "write_page_index": True}
    pq.write_table(table, path, row_group_size=GROUP, **{**pages, **options})
    return table


def opened(path: Path) -> tuple[BloomFile, RowGroupBatch, CountedFileSystem]:
    files = CountedFileSystem({"a.parquet": path.read_bytes()})
    file = parquet_bloom.open("a.parquet", files)
    groups = RowGroups([file.footer], [(0, number) for number in range(ROWS // GROUP)])
    batch = RowGroupBatch.of_file(file, groups, find_page_columns(file, pq.read_schema(path)))
    files.ranges_read.clear()
    return file, batch, files


@pytest.mark.parametrize("priced", [True, False])
@pytest.mark.parametrize("options", FORMATS, ids=range(len(FORMATS)))
def test_rows_are_those_of_the_file(
    options: dict[str, Any], priced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the columns of whose pages it is worthwhile to fetch some: each request has its price."""
    if not priced:
        monkeypatch.setitem(vars(PAGE_COSTS), "request_bytes", 0)
        monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
        monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
    path = tmp_path / "a.parquet"
    table = write(path, **options)
    file, batch, _ = opened(path)
    rng = np.random.default_rng(4)
    with file:
        for _ in range(4):
            some = [np.unique(rng.integers(0, GROUP, rng.integers(0, 5))) for _ in range(2)]
            rows = RowsOfGroups(np.array([len(part) for part in some], np.int64), np.concatenate(some).astype(np.int64))
            expected = table.take(pa.array(np.concatenate([some[0], some[1] + GROUP]), pa.int64()))
            arrays = batch.read(NAMES, rows)
            assert {name: array.to_pylist() for name, array in arrays.items()} == expected.select([*arrays]).to_pydict()
            assert priced or not len(rows) or "list" not in arrays
        ids = table["id"].to_pylist()
        wanted = [ids[5], ids[30_000]]
        targets = Targets([number.to_bytes(8, "little") for number in wanted])
        selections = [[(0, 100), (5000, 5001)], [(9_990, 10_010)]]
        for chosen in (None, selections):  # of all rows nothing is fetched before
            found = batch.search("id", targets, 10, chosen)
            if found is None:
                assert priced or options.get("write_page_index") is False
                continue
            assert found[0].counts.tolist() == [1, 1]
            assert found[0].rows.tolist() == [5, 10_000]
            assert found[1] is not None
            assert found[1].to_pylist() == wanted
        lists = batch.search("list", targets, 10)
        assert lists is not None
        in_lists = [row for row in (5, 30_000) if table["list"][row].as_py()]
        assert (lists[0].rows + GROUP * np.repeat([0, 1], lists[0].counts)).tolist() == in_lists


def test_columns_are_fetched_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    table = write(path, **FORMATS[0])
    rows = RowsOfGroups(np.array([1, 1]), np.array([11_000, 77]))
    file, batch, files = opened(path)
    with file:  # chunks are small: pyarrow fetches them whole
        assert not batch.read(NAMES, rows)
        assert not files.ranges_read
    monkeypatch.setitem(vars(PAGE_COSTS), "request_bytes", 0)
    file, batch, files = opened(path)
    with file:
        assert batch.read(["text"], rows)["text"].to_pylist() == table["text"].take([11_000, 20_077]).to_pylist()
        assert sum(end - start for start, end in files.ranges_read) < 0.4 * path.stat().st_size / 2
        files.ranges_read.clear()
        arrays = batch.read(["text"], rows)  # the pages before are known by now
        assert arrays["text"].to_pylist() == table["text"].take([11_000, 20_077]).to_pylist()
        assert len(files.ranges_read) == 2


@pytest.mark.parametrize("dictionary", [True, False])
def test_an_index_that_lies_costs_requests_and_no_row(
    dictionary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(PAGE_COSTS), "request_bytes", 0)
    monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
    path = tmp_path / "a.parquet"
    table = write(path, use_dictionary=["few", "text"] if dictionary else False, compression="none")
    for column in ("text", "id"):
        lying = [(offset, size, row + (0 < row < 5000)) for offset, size, row in locations(path, column)]
        with_index(path, encode_locations(lying), column)
    for selected in ([3000], [1], [19_999], [4000, 6000]):
        file, batch, _ = opened(path)
        with file:
            rows = RowsOfGroups(np.array([len(selected), 0]), np.array(selected))
            expected = table.take(selected)
            for name in ("text", "id"):
                for array in batch.read([name], rows).values():
                    assert array.to_pylist() == expected[name].to_pylist()
