"""Rows by their keys in an object store: few requests one after the other, and changes that are noticed."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.lake.lake_index import LakeIndex

ROWS = 40_000


def parquet(first: int) -> bytes:
    sink = io.BytesIO()
    ids = [(first + row) * 7_919 for row in range(ROWS)]
    table = pa.table({"id": ids, "other": [f"{number:032x}" for number in ids], "row": range(ROWS)})
    pq.write_table(table, sink, row_group_size=ROWS // 2, use_dictionary=False, data_page_size=1 << 16)
    return sink.getvalue()


@pytest.fixture
def lake(s3: Any) -> Any:
    for number in range(4):
        s3.put(f"lake/{number}.parquet", parquet(ROWS * number))
    lake = {"lake": s3.url("lake"), "granularity": "row_group", "storage_options": s3.storage_options}
    with LakeIndex.create(s3.url("index"), "id", **lake) as index:
        index.append()
    return s3


def find_row(dataset: Any, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dataset.get("id", number * 7_919, ["row", "other"]).to_pylist()
    return rows


def expect(number: int) -> list[dict[str, Any]]:
    return [{"row": number % ROWS, "other": f"{number * 7_919:032x}"}]


@pytest.mark.ci
def test_three_requests_one_after_the_other_once_footers_are_known(lake: Any) -> None:
    with LakeIndex.open(lake.url("index"), storage_options=lake.storage_options) as index:
        dataset = parquet_bloom.dataset(index)
        for number in range(5, 4 * ROWS, ROWS // 2):
            assert find_row(dataset, number) == expect(number)
        for number in (7, ROWS + 20_001, 3 * ROWS + 5_000):
            lake.clear_log()
            assert dataset.get("id", number * 7_919, ["row"]).to_pylist() == [{"row": number % ROWS}]
            assert len(lake.log) <= 3, lake.log  # of the index, of the key, and of the column
            lake.clear_log()
            assert find_row(dataset, number) == expect(number)
            assert len(lake.log) <= 4, lake.log  # the columns at once
        lake.clear_log()
        assert find_row(dataset, 5 * ROWS) == []
        assert len(lake.log) <= 1


@pytest.mark.ci
def test_changed_objects_are_noticed(lake: Any) -> None:
    dataset = parquet_bloom.dataset(lake.url("lake"), index=lake.url("index"), storage_options=lake.storage_options)
    for _ in range(2):
        assert find_row(dataset, 5) == expect(5)
    lake.put("lake/3.parquet", parquet(10 * ROWS))
    for _ in range(2):
        assert find_row(dataset, 10 * ROWS + 5) == expect(10 * ROWS + 5)
        assert find_row(dataset, 3 * ROWS + 5) == []
    lake.put("lake/new.parquet", parquet(20 * ROWS))
    assert find_row(dataset, 20 * ROWS + 5) == expect(20 * ROWS + 5)
    lake.delete("lake/0.parquet")
    for _ in range(2):
        assert find_row(dataset, 5) == []
        assert find_row(dataset, ROWS + 5) == expect(ROWS + 5)
