"""The examples run, as they are, and show what they say."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.documents import doc_blocks, doc_lakes

import parquet_bloom

pytestmark = pytest.mark.spark

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_events_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "events ü"
    paths = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(PROJECT / "examples" / "events_pipeline.py"), str(folder)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    rows = re.findall(
        r"^   (Spark, no filters|Spark alone|read_parquet) +(\S+) +(\S+) +(\S+) +\d+$", done.stdout, re.MULTILINE
    )
    table = [(way, *(int(number.replace(",", "")) for number in numbers)) for way, *numbers in rows]
    first, second = table[:3], table[3:]
    assert [way for way, *_ in table] == ["Spark, no filters", "Spark alone", "read_parquet"] * 2
    assert [result for _, result, *_ in first] == [1] * 3
    assert [files for *_, files, _ in first] == [24, 24, 1]
    assert first[0][3] == 144_000
    assert first[1][3] == first[2][3] <= 3_000
    assert {result for _, result, *_ in second} == {second[0][1]}
    assert [files for *_, files, _ in second][:2] == [12, 12]  # three of six days
    assert second[2][2] < 12
    assert second[0][3] == 72_000 > second[1][3] == second[2][3]

    for file in (folder / "lake").rglob("*.parquet"):
        with parquet_bloom.open(file) as opened:
            assert {chunk.column for chunk in opened.chunks()} == {"request_id", "user_id"}
            assert all(chunk.fpp < 0.0011 for chunk in opened.chunks())


def test_the_block_of_the_readme(spark: Any, tmp_path: Path, capsys: Any) -> None:
    """It runs on the files that the README has written before, in a session that exists already."""
    doc_lakes.filtered(tmp_path)
    blocks = doc_blocks.blocks((PROJECT / "README.md").read_text("utf-8"))
    (code,) = [block.text for block in blocks if "SparkSession" in block.text]
    # Spark has the folder that it was started in.
    exec(compile(code.replace('"events/"', repr(f"{tmp_path}/lake/")), "README.md", "exec"), {})
    assert "id=912284217" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stored", "codec"),
    [("INT96", "zstd"), ("TIMESTAMP_MICROS", "none"), ("TIMESTAMP_MILLIS", "gzip")],
)
def test_spark_reads_what_the_erasure_leaves_of_its_files(
    spark: Any, conf: Any, tmp_path: Path, stored: str, codec: str
) -> None:
    lake = tmp_path / "lake"
    columns = [
        "id AS user",
        "timestamp_seconds(id * 86400) AS at",
        "timestamp'1066-10-14 09:00:00' + make_dt_interval(int(id)) AS far",
        "if(id % 3 = 0, null, named_struct('t', timestamp_micros(id), 'l', array(id, null))) AS nested",
        "map(concat('k', id), cast(id AS decimal(12, 2))) AS paid",
        "cast(id % 100 AS byte) AS small",
        "cast(id AS decimal(38, 4)) AS large",
    ]
    with conf({"spark.sql.parquet.outputTimestampType": stored, "spark.sql.parquet.compression.codec": codec}):
        writer = spark.range(0, 600, 1, 1).selectExpr(*columns).write
        writer.option("parquet.block.row.count.limit", 100).parquet(str(lake))
    (file,) = lake.glob("*.parquet")
    before = spark.read.parquet(str(lake))
    rows = {row.user: row for row in before.collect()}
    erased = [0, 7, *range(200, 300), 599]
    old = pq.ParquetFile(file)
    parquet_bloom.embed(file, ["user"])

    runpy.run_path(str(PROJECT / "examples" / "gdpr_erasure.py"))["erase"](file, np.array(erased))

    spark.catalog.refreshByPath(str(lake))
    after = spark.read.parquet(str(lake))
    assert after.schema == before.schema
    assert {row.user: row for row in after.collect()} == {u: row for u, row in rows.items() if u not in erased}
    new = pq.ParquetFile(file)
    assert new.schema.equals(old.schema)
    assert new.metadata.metadata == old.metadata.metadata
    groups = [new.metadata.row_group(number) for number in range(new.num_row_groups)]
    assert [group.num_rows for group in groups] == [98, 100, 100, 100, 99]
    expected = {old.metadata.row_group(0).column(number).compression for number in range(len(old.schema))}
    assert {group.column(number).compression for group in groups for number in range(len(new.schema))} == expected
    with parquet_bloom.open(file) as opened:
        assert {chunk.column for chunk in opened.chunks()} == {"user"}
    assert not [one.name for one in lake.iterdir() if one.name.startswith(".part")]


@pytest.mark.parametrize(
    ("column", "settings"),
    [
        ("timestamp_ntz'2026-01-31 00:00:00' AS other", {}),  # pyarrow writes all timestamps as INT96, or none
        ("array(id) AS other", {"spark.sql.parquet.writeLegacyFormat": "true"}),  # lists of two levels
    ],
)
def test_the_erasure_leaves_files_that_pyarrow_cannot_write_alike(
    spark: Any, conf: Any, tmp_path: Path, column: str, settings: dict[str, str]
) -> None:
    lake = tmp_path / "lake"
    with conf(settings | {"spark.sql.parquet.outputTimestampType": "INT96"}):
        spark.range(0, 9, 1, 1).selectExpr("id AS user", "timestamp_seconds(id) AS at", column).write.parquet(str(lake))
    (file,) = lake.glob("*.parquet")
    before = {one.name: one.read_bytes() for one in lake.iterdir()}
    with pytest.raises(ValueError, match=r"column 'other.*left as it was"):
        runpy.run_path(str(PROJECT / "examples" / "gdpr_erasure.py"))["erase"](file, np.array([3]))
    assert {one.name: one.read_bytes() for one in lake.iterdir()} == before
