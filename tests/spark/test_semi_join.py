"""`semi_join_prune`: joins of what it gives are joins of the whole."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F
from support.spark.spark_metrics import planned_files

import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError, UnknownColumnError
from parquet_bloom.spark import semi_join_prune

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def large(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Eight files; the key is NULL now and then."""
    path = str(tmp_path_factory.mktemp("semi") / "lake")
    columns = [
        "if(id % 50 = 0, null, id) id",
        "cast(id as int) i32",
        "concat('s', id) s",
        "date_add(DATE '2000-01-01', cast(id as int)) day",
        "timestamp_micros(1600000000000000 + id * 1000003) ts",
        "cast(id as decimal(20, 3)) d20",
        "cast(concat('b', id) as binary) bin",
        "named_struct('a', id) st",
        "cast(id as double) f64",
    ]
    rows = spark.range(0, 800, 1, 8).selectExpr(*columns)
    rows.write.option("parquet.block.row.count.limit", 50).parquet(path)
    assert parquet_bloom.spark.embed(spark, path, ["id", "i32", "s", "day", "ts", "d20", "bin", "st.a"]).ok
    return spark.read.parquet(path)


@pytest.fixture
def joins(rows: Callable[[Any], list[str]], caplog: pytest.LogCaptureFixture) -> Callable[..., tuple[int, str]]:
    """``joins(large, keys, on)``: number of files and doubts, after every join was held against that of the whole."""

    def joined(large: Any, keys: Any, on: Any, **options: Any) -> tuple[int, str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "parquet_bloom.spark"):
            result = semi_join_prune(large, keys, on, row_groups=False, **options)
        own, other = (on, on) if isinstance(on, str) else on
        small = keys.select(F.col(other).alias("key"))
        # An inner join has less, what a semi-join leaves is in it.
        one, complete = (side.join(small, F.col(own) == F.col("key"), "right") for side in (result, large))
        assert rows(one) == rows(complete)
        return len(planned_files(result)), "; ".join(record.getMessage() for record in caplog.records)

    return joined


def test_keys_of_every_type(large: Any, joins: Any) -> None:
    keys = large.where("i32 IN (3, 77, 150, 177)")  # the NULL of 150 equals nothing
    for name in ("id", "s", "day", "ts", "d20", "bin", "st.a"):
        column = name.rpartition(".")[2]
        some = keys.select(F.col(name).alias(column))
        assert joins(large, some.unionAll(some), (name, column)) == (2, ""), name


def test_keys_of_another_name_width_and_of_the_table_itself(large: Any, joins: Any) -> None:
    keys = large.where("i32 IN (3, 77)")
    assert joins(large, keys, ("id", "i32")) == (1, "")
    assert joins(large, keys, "id") == (1, "")


def test_no_keys_and_too_many(large: Any, joins: Any) -> None:
    assert joins(large, large.where("false"), "id")[0] == 0
    assert joins(large, large, "id", max_keys=100) == (8, "nothing is pruned by keys: there are more than 100 keys")


def test_keys_that_cannot_be_compared_for_sure_prune_nothing(
    spark: Any, large: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for keys, on in (
        ("SELECT DATE '2000-01-04' AS day UNION SELECT CAST('+12000-01-01' AS DATE)", "day"),
        ("SELECT timestamp_micros(1600000003000009) ts UNION SELECT timestamp_micros(9223372036854775807)", "ts"),
        ("SELECT 's3' AS s UNION SELECT CAST(X'80FF' AS STRING)", "s"),
        ("SELECT CAST(3 AS DECIMAL(10, 2)) AS d20", "d20"),
        ("SELECT '3' AS id", "id"),
        ("SELECT 3D AS f64", "f64"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "parquet_bloom.spark"):
            assert semi_join_prune(large, spark.sql(keys), on) is large
        assert "nothing is pruned by keys: " in caplog.text


def test_keys_that_are_given(large: Any) -> None:
    assert semi_join_prune(large, {"s3", "s4", None}, "s").count() == 2
    assert semi_join_prune(large, (number for number in (3, 3, 4)), "id").count() == 2
    assert semi_join_prune(large, [], "id").count() == semi_join_prune(large, [None], "id").count() == 0


def test_bad_arguments_are_one_line(large: Any) -> None:
    for keys, on, options, problem in (
        ("s3", "s", {}, "keys must be a DataFrame or a collection of values, got str"),
        (None, "s", {}, "keys must be a DataFrame or a collection of values, got NoneType"),
        ([[1]], "id", {}, "keys must be a DataFrame or a collection of values: unhashable"),
        ([1], ("id",), {}, r"on must be the name of a column, or a pair of names, got \('id',\)"),
        ([1], None, {}, "on must be the name of a column, or a pair of names, got None"),
        ([1], "id", {"max_keys": 0}, "max_keys must be at least 1, got 0"),
        ([1], "id", {"max_keys": "a"}, "max_keys must be at least 1, got 'a'"),
    ):
        arguments: Any = (keys, on)
        with pytest.raises(ParquetBloomError, match=f"^{problem}"):
            semi_join_prune(large, *arguments, **options)  # type: ignore[arg-type]


def test_columns_that_are_not_there(large: Any) -> None:
    with pytest.raises(UnknownColumnError, match="'nope'"):
        semi_join_prune(large, [1], "nope")
    with pytest.raises(UnknownColumnError, match="'nope'"):
        semi_join_prune(large, large, ("id", "nope"))
    with pytest.raises(ParquetBloomError, match=r"^df must be a Spark DataFrame, got int$"):
        semi_join_prune(5, [1], "id")  # type: ignore[arg-type]
