"""Random conditions on paths of random Variants that Spark and DuckDB wrote: the rows are theirs, and none is lost."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import functions as F
from support.random_cases import random_variants as variants
from support.random_cases.hunting import seeds
from support.scale import scaled
from support.spark.spark_settings import settings

import parquet_bloom
from parquet_bloom.errors import PredicateError, VariantCastError
from parquet_bloom.spark import explain_prune

pytestmark = pytest.mark.spark

CONDITIONS = 60  # of a file
DUCKDB_ROWS = 2048  # of a row group, the fewest that DuckDB makes
ASKED_OF_SPARK = 6  # of these, whose plans Spark makes, too


def write_by_spark(spark: Any, rng: random.Random, folder: Path) -> Path:
    """Write a file of some row groups, shredded to some of its paths."""
    documents = ", ".join(variants.draw_documents(rng, has_types=rng.random() < 0.5))
    frame = spark.sql(f"SELECT posexplode(array({documents})) AS (k, v)").coalesce(1)
    shredding = {
        "spark.sql.variant.writeShredding.enabled": "true",
        "spark.sql.variant.forceShreddingSchemaForTest": variants.draw_shredding(rng),
    }
    with settings(spark, shredding):
        frame.write.option("parquet.block.row.count.limit", variants.GROUP_ROWS).parquet(str(folder))
    (path,) = folder.glob("*.parquet")
    return path


def write_by_duckdb(rng: random.Random, path: Path) -> Path:
    """Write a file as DuckDB shreds it."""
    groups = " UNION ALL ".join(variants.draw_for_duckdb(rng, group, DUCKDB_ROWS) for group in range(variants.GROUPS))
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"COPY (FROM ({groups}) ORDER BY k) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {DUCKDB_ROWS})")
    return path


def check(spark: Any, path: Path, rng: random.Random, counts: Counter[str]) -> None:
    """Ask random conditions of Spark and of us."""
    conditions = [variants.draw_condition(rng) for _ in range(CONDITIONS)]
    frame = spark.read.parquet(str(path))
    with settings(spark, {"spark.sql.variant.pushVariantIntoScan": "false"}):  # which fails where nothing is compiled
        answers = frame.select("k", *(F.expr(text).alias(f"p{n}") for n, text in enumerate(conditions))).toArrow()
    with parquet_bloom.open(path) as file:
        bounds = [0]
        for rows in file.footer.row_groups["num_rows"].tolist():
            bounds.append(bounds[-1] + rows)
    for number, where in enumerate(conditions):
        expected = sorted(answers["k"].filter(answers[f"p{number}"]).to_pylist())
        report = parquet_bloom.prune(path, where)
        reports = {"ours": report}
        if number < ASKED_OF_SPARK:
            try:
                reports["Spark's"] = explain_prune(frame, where)
            except PredicateError:
                counts["left to Spark"] += 1
        for name, one in reports.items():
            read = {group.row_group for item in one.files for group in item.row_groups if group.read}
            for group in range(len(bounds) - 1):
                found = [row for row in expected if bounds[group] <= row < bounds[group + 1]]
                assert group in read or not found, f"{name}: {where} in {path}: {found}"
                counts[f"{name} skipped"] += group not in read
            counts[name] += 1
        try:
            rows = parquet_bloom.read_table(path, where, columns=["k"])["k"].to_pylist()
        except VariantCastError:
            counts["casts by a session"] += 1
        else:
            assert sorted(rows) == expected, f"{where} in {path}"
            counts["rows"] += len(rows)


def test_files_of_spark(spark: Any, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds(scaled(1)):
        rng = random.Random(seed)
        check(spark, write_by_spark(spark, rng, tmp_path / str(seed)), rng, counts)
    assert counts["ours skipped"] > counts["ours"] // 4, counts
    assert counts["Spark's skipped"] > counts["Spark's"] // 4, counts


@pytest.mark.ci
def test_files_of_duckdb(spark: Any, tmp_path: Path) -> None:
    """Of values of the very type that is asked for, rows are DuckDB's, too."""
    counts: Counter[str] = Counter()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for seed in seeds(scaled(1)):
        rng = random.Random(seed)
        path = write_by_duckdb(rng, tmp_path / f"{seed}.parquet")
        check(spark, path, rng, counts)
        conditions = [variants.draw_condition(rng, is_plain=True) for _ in range(CONDITIONS)]
        columns = ", ".join(f"{variants.to_duckdb(text)} AS p{number}" for number, text in enumerate(conditions))
        answers = connection.sql(f"SELECT k, {columns} FROM '{path}'").to_arrow_table()
        for number, where in enumerate(conditions):
            expected = answers["k"].filter(answers[f"p{number}"]).to_pylist()
            report = parquet_bloom.prune(path, where)
            read = {group.row_group for item in report.files for group in item.row_groups if group.read}
            assert {row // DUCKDB_ROWS for row in expected} <= read, f"{where} in {path}"
            counts["DuckDB's skipped"] += variants.GROUPS - len(read)
            counts["DuckDB's"] += 1
    assert counts["ours skipped"] > counts["ours"] // 4, counts
    assert counts["DuckDB's skipped"] > counts["DuckDB's"] // 2, counts
