"""Pages of files that Spark wrote: each codec and page version, dictionaries given up on the way, nulls."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import parquet_bloom

pytestmark = pytest.mark.spark

COLUMNS = [
    "id",
    "id * 10000000 + pmod(xxhash64(id), 10000000) key",  # sorted, and of 23 bits a row for every codec
    "if(id % 3 = 0, null, id * 7919 % 40000) number",
    "cast(id % 5 as byte) small",
    "cast(id / 8 as float) f32",
    "id / 8 f64",
    "if(id between 10000 and 15000, null, concat('u', id % 10000)) text",
    "concat('unlike any other: ', id, repeat('x', cast(id % 9 as int))) long_text",
    "cast(id * 7 as decimal(9, 2)) d9",
    "cast(id as decimal(38, 10)) d38",
    "id % 2 = 0 flag",
    "date_add(DATE '1990-01-01', cast(id as int)) day",
    "timestamp_micros(1600000000000000 + id * 1234567) ts",
    "cast(null as string) nothing",
    "named_struct('a', id) st",
]
ROWS, PAGE = 40_000, 1500  # rows; columns of less than 64 KiB are read whole
CHOICES = [[0], [1499], [1, 7000, 10_002, 39_999], list(range(14_000, 17_000))]


@pytest.mark.parametrize(
    ("codec", "version"),
    [("snappy", "PARQUET_1_0"), ("zstd", "PARQUET_2_0"), ("gzip", "PARQUET_2_0"), ("none", "PARQUET_1_0")],
)
def test_pages_hold_what_the_row_group_holds(
    codec: str, version: str, spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {
        "compression": codec,
        "parquet.writer.version": version,
        "parquet.page.row.count.limit": PAGE,
        "parquet.dictionary.page.size": 3000,
        "parquet.page.size.row.check.min": 10,
    }
    spark.range(0, ROWS, 1, 1).selectExpr(*COLUMNS).write.options(**options).parquet(str(tmp_path / "of spark"))
    (path,) = (tmp_path / "of spark").glob("*.parquet")
    full_table = pq.read_table(path)
    assert full_table.num_rows == ROWS
    keys = full_table["key"].to_pylist()
    for rows in CHOICES:
        where = [("key", "in", [keys[row] for row in rows])]
        assert parquet_bloom.read_table(path, where).equals(full_table.take(rows)), rows
        if len(rows) == 1:
            (ranges,) = parquet_bloom.dataset(path).scan(where).row_ranges().values()
            assert [stop - start for start, stop in ranges[0]] == [PAGE]
    absent = parquet_bloom.read_table(path, "text IS NULL", ["id"])["id"].to_pylist()
    assert absent == list(range(10_000, 15_001))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
