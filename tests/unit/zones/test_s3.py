"""Zones in an object store, over files there: matching rows, changed files, and requests."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import StorageError

ROWS, ZONE = 4000, 100


def table(first: int = 0) -> pa.Table:
    keys = [f"key-{(first + i) * 7919 % 100_003}" for i in range(ROWS)]
    return pa.table({"key": keys, "row": range(first, first + ROWS), "rest": ["x" * 50] * ROWS})


def parquet(first: int = 0) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table(first), sink, row_group_size=2500, write_page_index=True, max_rows_per_page=ZONE)
    return sink.getvalue()


@pytest.mark.ci
@pytest.mark.parametrize("container", ["arrow", "parquet"])
def test_rows_are_found_by_zones_in_a_bucket(s3: Any, container: str) -> None:
    options = {"storage_options": s3.storage_options}
    for number in range(3):
        s3.put(f"lake/day={number}/a b é.parquet", parquet(ROWS * number))
    target = s3.url(f"zones/key.{container}")
    zones.build(s3.url("lake"), "key", target, rows_per_zone=ZONE, fpp=0.001, **options)
    for row in (0, 2499, 2500, 5017, 3 * ROWS - 1):
        value = table(row)["key"][0].as_py()
        result = parquet_bloom.read_table(s3.url("lake"), [("key", "=", value)], zones=target, **options)
        assert result["row"].to_pylist() == [row]
        assert result["day"].to_pylist() == [row // ROWS]
        report = parquet_bloom.prune(s3.url("lake"), [("key", "=", value)], zones=target, **options)
        remaining = sum(one.num_left for file in report.files for one in file.row_groups if one.read)
        assert 0 < remaining <= 5 * ZONE
        assert not report.zone_doubts
    assert parquet_bloom.read_table(s3.url("lake"), "key = 'key-x'", zones=target, **options).num_rows == 0

    # Of a file that is another one by now the zones are not used, and that is said.
    changed = table(50_000)["key"][1].as_py()
    s3.put("lake/day=1/a b é.parquet", parquet(50_000))
    result = parquet_bloom.read_table(s3.url("lake"), [("key", "=", changed)], zones=target, **options)
    assert result["row"].to_pylist() == [50_001]
    report = parquet_bloom.prune(s3.url("lake"), [("key", "=", changed)], zones=target, **options)
    assert any("changed" in doubt and "day=1" in doubt for doubt in report.zone_doubts), report.zone_doubts


def test_filters_embedded_in_place_are_not_a_change(s3: Any) -> None:
    options = {"storage_options": s3.storage_options}
    s3.put("lake/a.parquet", parquet())
    zones.build(s3.url("lake"), "key", s3.url("zones/key.arrow"), rows_per_zone=ZONE, **options)
    parquet_bloom.embed(s3.url("lake/a.parquet"), columns=["row"], **options)
    report = parquet_bloom.prune(s3.url("lake"), [("key", "=", "key-0")], zones=s3.url("zones/key.arrow"), **options)
    assert not report.zone_doubts
    assert sum(one.num_left for file in report.files for one in file.row_groups if one.read) <= 3 * ZONE


def test_an_index_that_is_not_there_is_an_error(s3: Any) -> None:
    s3.put("lake/a.parquet", parquet())
    with pytest.raises(StorageError, match="nothing\\.arrow"):
        parquet_bloom.prune(
            s3.url("lake"), "key = 'a'", zones=s3.url("zones/nothing.arrow"), storage_options=s3.storage_options
        )
