"""Indexes with keys of expressions under Spark: rows and files are those of Spark's own functions."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from support.spark.spark_metrics import planned_files

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate.calls import list_ordinary
from parquet_bloom.spark import build_index, install, pruned, read_parquet

pytestmark = pytest.mark.spark

KEYS = ["lower(name)", "upper(name)", "CAST(n AS STRING)", "CAST(day AS STRING)", "(tenant, n)"]
NAMES = ["Ab", "ÄÖ", "äö", "Ёж", "VIỆT", "漢字", "αβγ", "É", "", "İx", "ΟΔΟΣ", "straße", "ŉ", "ǅ", "ꟊ", "ſ", "ẞ", "ı"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, pa.Table]:
    """Ten files, of which the last two have texts that engines map in different ways."""
    folder, rng = tmp_path_factory.mktemp("expressions"), random.Random(3)
    (folder / "lake").mkdir()
    tables = []
    for number in range(10):
        names = NAMES if number >= 8 else NAMES[:9]
        table = pa.table(
            {
                "name": [rng.choice([None, *(f"{name}{rng.randrange(400)}" for name in names)]) for _ in range(40)],
                "n": pa.array([rng.choice([None, rng.randrange(-50, 200)]) for _ in range(40)], pa.int64()),
                "day": [dt.date(2020, 1, 1) + dt.timedelta(rng.randrange(300)) for _ in range(40)],
                "tenant": [rng.choice(["a", "b", None]) for _ in range(40)],
            }
        )
        pq.write_table(table, folder / "lake" / f"{number}.parquet")
        tables.append(table)
    with LakeIndex.create(folder / "index", KEYS, lake=folder / "lake", granularity="row_group") as index:
        assert not index.append().uncovered
    return str(folder / "lake"), str(folder / "index"), pa.concat_tables(tables)


def make_conditions(table: pa.Table, count: int) -> list[str]:
    rng, conditions = random.Random(4), []
    rows = [row for row in table.to_pylist() if row["name"] is not None and row["n"] is not None]
    for row in rng.sample(rows, count):
        name, n = row["name"], row["n"]
        conditions += [
            rng.choice(
                [
                    f"lower(name) = '{name.lower()}'",
                    f"'{name.upper()}' = upper(name)",
                    f"lower(name) IN ('{name.lower()}', 'nothing')",
                    f"CAST(n AS STRING) = '{n}'",
                    f"string(day) = '{row['day']}'",
                    f"tenant = '{row['tenant']}' AND n = {n}",
                    f"NOT lower(name) = '{name.lower()}' AND n = {n}",
                    f"lower(name) = '{name.lower()}' OR (tenant = 'a' AND n = {n})",
                ]
            )
        ]
    return conditions


def test_conditions_find_the_rows_that_spark_finds(spark: Any, lake: tuple[str, str, pa.Table]) -> None:
    path, index, table = lake
    native = spark.read.parquet(path)
    read = [0, 0]
    conditions = make_conditions(table, 10)
    for where in conditions:
        expected = sorted(map(str, native.where(where).collect()))
        frames = [
            pruned(native, where, index=index).where(where),
            install(native, index=index).where(where),
            read_parquet(spark, path, where, index=index),
        ]
        numbered = [frame.select(F.lit(way).alias("way"), *native.columns) for way, frame in enumerate(frames)]
        found = [row.asDict() for row in numbered[0].unionAll(numbered[1]).unionAll(numbered[2]).collect()]
        for way in range(3):
            rows = [Row(**{name: row[name] for name in native.columns}) for row in found if row["way"] == way]
            assert sorted(map(str, rows)) == expected, (where, way)
        read = [count + len(planned_files(frame)) for count, frame in zip(read, frames, strict=False)]
    assert max(read) < 8 * len(conditions)


def test_functions_of_columns_prune(spark: Any, lake: tuple[str, str, pa.Table]) -> None:
    path, index, _ = lake
    native = spark.read.parquet(path)
    for condition in (
        F.lower("name") == "ab7",
        F.upper("name").isin("AB7", "AB8"),
        F.col("n").cast("string") == "7",
        (F.col("tenant") == "a") & (F.col("n") == 7),
    ):
        frame = pruned(native, condition, index=index).where(condition)
        assert sorted(map(str, frame.collect())) == sorted(map(str, native.where(condition).collect()))
        assert len(planned_files(frame)) < 10, condition


def test_another_collation_uses_no_index(spark: Any, lake: tuple[str, str, pa.Table]) -> None:
    path, index, _ = lake
    native = spark.read.parquet(path)
    for where in ("lower(name) COLLATE UNICODE_CI = 'AB7'", "lower(name COLLATE UNICODE_AI) = 'ab7'"):
        expected = sorted(map(str, native.where(where).collect()))
        assert sorted(map(str, install(native, index=index).where(where).collect())) == expected
        assert sorted(map(str, read_parquet(spark, path, where, index=index).collect())) == expected


def test_spark_agrees_on_ordinary_characters(spark: Any) -> None:
    for function in ("lower", "upper"):
        characters = list(map(chr, list_ordinary(function)))
        frame = spark.createDataFrame(pa.table({"x": characters})).select(getattr(F, function)("x"))
        assert frame.toArrow().column(0).to_pylist() == [getattr(one, function)() for one in characters]


def test_spark_builds_no_index_of_expressions(spark: Any, lake: tuple[str, str, pa.Table], tmp_path: Path) -> None:
    with pytest.raises(ParquetBloomError, match=r"LakeIndex\.append"):
        build_index(spark, lake[0], KEYS, tmp_path / "index")
