"""Pages of files that Spark wrote: each codec and page version, dictionaries given up on the way, nulls."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.by_pages import read_by_pages

import parquet_bloom
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS
from parquet_bloom.util.arrow_values import take_rows

pytestmark = pytest.mark.spark

COLUMNS = [
    "id",
    "if(id % 3 = 0, null, id * 7919 % 4000) number",
    "cast(id % 5 as byte) small",
    "cast(id / 8 as float) f32",
    "id / 8 f64",
    "if(id between 1000 and 1500, null, concat('u', id % 1000)) text",
    "concat('unlike any other: ', id, repeat('x', cast(id % 9 as int))) long_text",
    "cast(id * 7 as decimal(9, 2)) d9",
    "cast(id as decimal(38, 10)) d38",
    "id % 2 = 0 flag",
    "date_add(DATE '1990-01-01', cast(id as int)) day",
    "timestamp_micros(1600000000000000 + id * 1234567) ts",
    "cast(null as string) nothing",
    "named_struct('a', id) st",
]
ROWS = 4000
CHOICES = [[0], [1499], [1, 700, 1002, 3999], list(range(1400, 1700))]


@pytest.fixture(scope="module")
def files(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    results = {}
    for codec, version in itertools.product(["snappy", "zstd", "gzip"], ["PARQUET_1_0", "PARQUET_2_0"]):
        path = tmp_path_factory.mktemp("pages") / "of spark"
        frame = spark.range(0, ROWS, 1, 1).selectExpr(*COLUMNS)
        options = {
            "compression": codec,
            "parquet.writer.version": version,
            "parquet.page.row.count.limit": 150,
            "parquet.dictionary.page.size": 3000,
            "parquet.page.size.row.check.min": 10,
        }
        frame.write.options(**options).parquet(str(path))
        (results[codec, version],) = path.glob("*.parquet")
    return results


@pytest.mark.parametrize("version", ["PARQUET_1_0", "PARQUET_2_0"])
@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip"])
def test_pages_hold_what_the_row_group_holds(
    codec: str,
    version: str,
    files: dict[tuple[str, str], Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
    monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
    path = files[codec, version]
    full_table = pq.ParquetFile(path).read_row_group(0)
    assert full_table.num_rows == ROWS
    with parquet_bloom.open(path) as file:
        schema = pq.ParquetFile(path).schema_arrow
        for rows in CHOICES:
            result = read_by_pages(file, schema, full_table.schema.names, rows)
            assert set(result) == set(full_table.schema.names) - {"st"}
            for name, column in result.items():
                assert column.equals(take_rows(full_table[name], np.array(rows)).combine_chunks()), name
    for row in (0, 1501, ROWS - 1):
        (ranges,) = parquet_bloom.dataset(path).scan(f"id = {row}").row_ranges().values()
        assert [stop - start for start, stop in ranges[0]] in ([150], [ROWS % 150])
        assert parquet_bloom.read_table(path, f"id = {row}").equals(full_table.slice(row, 1))
    assert parquet_bloom.read_table(path, "text IS NULL")["id"].to_pylist() == list(range(1000, 1501))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
