"""row_groups=True: exactly the surviving row groups, row for row what Spark's own scan shows."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DecimalType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import parquet_bloom.spark
from parquet_bloom.spark import spark_arrow as arrow_convert

pytestmark = pytest.mark.spark


def test_rows_of_every_type(lake: str, ask_all: Any) -> None:
    wheres = {
        "ts = TIMESTAMP '2020-09-13 12:26:43.703701'": 1,
        "ts = TIMESTAMP '0001-01-01 00:00:00'": 2,
        "ts = TIMESTAMP '9999-12-31 23:59:59.999999'": 2,
        "ntz = TIMESTAMP_NTZ '2020-09-13 12:26:43.703701'": 1,
        "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 5000)": 7,
        "p = '02' AND i16 = 72": 1,
        "st.b.c = 'n77'": 1,
        "id = -1": 0,
    }
    for where, answer in ask_all(lake, list(wheres), row_groups=True).items():
        assert not answer.doubts
        # A false positive of some filter is one more row group; in tests as in life they are rare.
        assert 100 * wheres[where] <= scanned_rows(answer.frame) <= 100 * (wheres[where] + 2), where


def test_whole_rows_of_every_type(lake: str, ask_spark: Any) -> None:
    for where in ("ts = TIMESTAMP '0001-01-01 00:00:00'", "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 5000)"):
        assert ask_spark(lake, where, row_groups=True).rows in (2, 10)


def test_int96_in_one_file(spark: Any, tmp_path: Path, ask_spark: Any, without_filters: Any) -> None:
    path = tmp_path / "one"
    frame = spark.range(0, 5000, 1, 1).selectExpr(
        "timestamp_micros(id * 7919 % 5000 * 1000003) ts", "id", "repeat('x', 9) s"
    )
    frame.write.option("parquet.block.row.count.limit", 100).parquet(str(path))
    report = parquet_bloom.spark.embed(spark, path, {"ts": 1e-6})
    assert report.num_filters == 50
    where = "ts = timestamp'1970-01-01 00:16:40.003'"
    assert scanned_rows(without_filters(str(path)).where(where)) == 5000
    native = ask_spark(path, where, row_groups=False)
    assert scanned_rows(native.frame) == 5000  # Spark asks no filters about INT96
    assert scanned_rows(ask_spark(path, where, row_groups="auto").frame) == 5000  # so few rows are not worth it
    exact = ask_spark(path, where, row_groups=True)
    assert (exact.rows, scanned_rows(exact.frame)) == (1, 100)
    assert "read 1 of 1 file, 1 of 50 row groups" in exact.plan


def test_many_rows_are_worth_exact_row_groups(spark: Any, tmp_path: Path) -> None:
    """Five million rows that Spark would read; each value has a thousand."""
    groups, per_group = 52, 100_000
    schema = pa.schema([("ts", pa.timestamp("us")), ("id", pa.int64())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        for group in range(groups):
            stamps = np.repeat(np.arange(100) * 1000 * groups + group * 1000, per_group // 100)
            table = pa.table({"ts": pa.array(stamps, pa.timestamp("us")), "id": pa.array(stamps // 1000)})
            writer.write_table(table, row_group_size=per_group)
    parquet_bloom.embed(tmp_path / "a.parquet", {"ts": 1e-6, "id": 1e-6})
    read = functools.partial(parquet_bloom.spark.read_parquet, spark, tmp_path, row_groups="auto")
    frame = read("ts = timestamp_ntz'1970-01-01 00:00:00.077'", columns=["id"])  # Spark asks no filters about NTZ
    assert [tuple(row) for row in frame.groupBy("id").count().collect()] == [(77, 1000)]
    assert scanned_rows(frame) == per_group
    assert "ExistingRDD" not in read("id = 77")._jdf.queryExecution().toString()  # Spark skips by this itself


def test_other_row_groups_are_not_looked_at(spark: Any, tmp_path: Path) -> None:
    table = pa.table({"k": [number * 7919 % 4000 for number in range(4000)], "s": ["x" * 20] * 4000})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=100, use_dictionary=False)
    parquet_bloom.spark.embed(spark, tmp_path, {"k": 1e-6})
    (file,) = parquet_bloom.prune(str(tmp_path), "k = 77").files
    data = bytearray((tmp_path / "one.parquet").read_bytes())
    for number in {*range(40)}.difference(file.selected):
        column = pq.ParquetFile(tmp_path / "one.parquet").metadata.row_group(number).column(0)
        data[column.data_page_offset : column.data_page_offset + column.total_compressed_size] = b"\xff" * (
            column.total_compressed_size
        )
    (tmp_path / "one.parquet").write_bytes(data)
    frame = parquet_bloom.spark.read_parquet(spark, tmp_path, "k = 77", row_groups=True)
    assert [row.k for row in frame.collect()] == [77]
    with pytest.raises(Exception, match=r"."):
        spark.read.parquet(str(tmp_path)).selectExpr("sum(k)").collect()


def scanned_rows(frame: Any) -> int:
    """Rows that came out of Spark's scan, before its filter."""
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    if plan.getClass().getSimpleName() == "LocalTableScanExec":
        return 0
    counted = plan.metrics().apply("numOutputRows")
    before = counted.value()
    frame._jdf.queryExecution().toRdd().count()
    return int(counted.value() - before)


def test_chosen_columns_and_partitions(spark: Any, lake: str, rows: Any, without_filters: Any) -> None:
    for columns in (["d", "id", "p"], ["st", "li"]):
        result = parquet_bloom.spark.read_parquet(spark, lake, "id = 77", columns=columns, row_groups=True)
        assert rows(result) == rows(without_filters(lake).where("id = 77").select(*columns))
    result = parquet_bloom.spark.read_parquet(spark, lake, "p = '02'", columns=["p"], row_groups=True)
    assert result.distinct().count() == 1


def test_a_session_zone_and_large_types(lake: str, ask_spark: Any, conf: Any) -> None:
    settings = {
        "spark.sql.session.timeZone": "America/Los_Angeles",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.ansi.enabled": "false",
    }
    with conf(settings):
        assert ask_spark(lake, "ts = TIMESTAMP '2020-09-13 05:26:43.703701'", row_groups=True).rows == 1


def test_most_row_groups_are_left(lake: str, ask_spark: Any) -> None:
    answer = ask_spark(lake, "i8 IN (0, 31, 60, 91)", row_groups=True)
    assert answer.files == 12  # Spark's own scan of all files


def test_types_that_only_spark_reads(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "months"
    frame = spark.range(0, 40, 1, 4).selectExpr(
        "id", "make_ym_interval(0, cast(id as int)) m", "concat('K', id) collate UTF8_LCASE c"
    )
    frame.write.option("parquet.block.row.count.limit", 2).parquet(str(path))
    parquet_bloom.spark.embed(spark, path, ["id"])
    with caplog.at_level("WARNING", "parquet_bloom.spark"):
        frame = parquet_bloom.spark.read_parquet(spark, path, "id = 7", row_groups=True)
    assert not caplog.text
    assert frame.selectExpr("id", "cast(m as string)", "c = 'k7'").collect() == [
        (7, "INTERVAL '0-7' YEAR TO MONTH", True)
    ]


def test_a_file_that_changed_meanwhile(spark: Any, write: Any, rows: Any) -> None:
    path = write("changing", "id", files=4, embed=["id"], **{"parquet.block.row.count.limit": 10})
    frame = parquet_bloom.spark.read_parquet(spark, path, "id = 7", row_groups=True)
    assert frame.count() == 1
    for file in path.glob("*.parquet"):
        os.utime(file, (1, 1))
    with pytest.raises(Exception, match="it was changed since the DataFrame was made"):
        rows(frame)


def test_the_check_for_changes_reads_no_contents(spark: Any, write: Any, rows: Any, conf: Any) -> None:
    """Spark's source of binary files refuses to read those that are longer than this, 2 GiB by default."""
    path = write("checked", "id", files=1, embed=["id"], **{"parquet.block.row.count.limit": 10})
    with conf({"spark.sql.sources.binaryFile.maxLength": "1"}):
        frame = parquet_bloom.spark.pruned(spark.read.parquet(str(path)), "id = 7", row_groups=True)
        assert "ExistingRDD" in frame._jdf.queryExecution().toString()
        assert [row.id for row in frame.collect()] == [7]


def test_other_writers_nested(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    """Lists by other names, dictionaries, large and view types, sliced batches."""
    count = 40_000
    numbers = pa.array(range(count), pa.int64())
    texts = pa.array([f"t{number % 50}" for number in range(count)])
    offsets = pa.array([min(number // 2 * 2, count) for number in range(count + 1)], pa.int32())
    table = pa.table(
        {
            "id": numbers,
            "l": pa.ListArray.from_arrays(offsets, numbers),
            "ll": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), texts),
            "d": texts.dictionary_encode(),
            "v": texts.cast(pa.string_view()),
            "f": pa.array([number.to_bytes(4, "big") for number in range(count)], pa.binary(4)),
            "s": pa.StructArray.from_arrays([numbers, texts.dictionary_encode()], ["N", "t"]),
            "m": pa.MapArray.from_arrays(offsets, texts, numbers),
            "ms": numbers.cast(pa.timestamp("ms", "Europe/Paris")),
        }
    )
    for number, compliant in enumerate((True, False)):
        part = table.slice(number * count // 2, count // 2)
        pq.write_table(
            part, tmp_path / f"{number}.parquet", row_group_size=count // 4, use_compliant_nested_type=compliant
        )
    parquet_bloom.spark.embed(spark, tmp_path, ["id"])
    for number in (11_000, 39_999):
        answer = ask_spark(tmp_path, f"id = {number}", row_groups=True)
        assert (answer.rows, answer.doubts) == (1, "")
        assert scanned_rows(answer.frame) == count // 4


# ---------------------------------------------------------------------------------------------- Arrow data, alone


def test_types_are_those_that_spark_expects() -> None:
    pandas_types = pytest.importorskip("pyspark.sql.pandas.types")
    schema = StructType(
        [
            StructField("t", TimestampType()),
            StructField("n", TimestampNTZType(), False),
            StructField("d", DecimalType(20, 3)),
            StructField("b", BinaryType()),
            StructField("a", ArrayType(StructType([StructField("x", ShortType())]), False)),
            StructField("m", MapType(StringType(), ArrayType(ByteType()), True)),
        ]
    )
    expected = pandas_types.to_arrow_schema(schema, timezone="UTC")
    assert pa.schema([arrow_convert.arrow_field(field) for field in schema.fields]).equals(expected)


def test_conforming_slices() -> None:
    spark_type = StructType(
        [
            StructField("A", ArrayType(StructType([StructField("y", LongType()), StructField("x", LongType())]))),
            StructField("m", MapType(StringType(), LongType())),
            StructField("gone", MapType(StringType(), ArrayType(LongType()))),
        ]
    )
    values = [
        {"a": [{"x": 1, "y": None}, None], "m": [("k", 1)]},
        {"a": None, "m": None},
        {"a": [], "m": []},
        {"a": [{"x": 2, "y": 3}], "m": [("l", None), ("m", 2)]},
    ]
    stored = pa.schema(
        [("a", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int64())]))), ("m", pa.map_(pa.string(), pa.int16()))]
    )
    batch = pa.RecordBatch.from_pylist(values, schema=stored)
    target = pa.schema([arrow_convert.arrow_field(field) for field in spark_type.fields])
    assert arrow_convert.find_problem(spark_type.fields, stored, True) is None
    assert "has none" not in (arrow_convert.find_problem(spark_type.fields, stored, False) or "")
    for start in range(len(values)):
        part = batch.slice(start)
        result = pa.RecordBatch.from_arrays(arrow_convert.conform(part, target, True), schema=target)
        result.validate(full=True)
        assert result.to_pylist() == [{"A": row["a"], "m": row["m"], "gone": None} for row in part.to_pylist()]
