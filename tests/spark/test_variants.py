"""Conditions on paths of Variants in Spark: the rows of Spark alone, from the files that can have some."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from support.spark.spark_metrics import planned_files
from support.spark.spark_settings import settings

import parquet_bloom.spark
from parquet_bloom.errors import UnknownColumnError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate import parse_sql
from parquet_bloom.spark import explain_prune

pytestmark = pytest.mark.spark

DOCUMENT = """concat('{"a": {"b": ', id * 2, ', "x.y": ', id, '}, "s": "u', id, '", "n": 1.25, "it''s": ', id, '}')"""
SHREDDING = "a struct<b bigint, `x.y` bigint>, s string, n decimal(9, 2), `it's` bigint"


NOT_PUSHED = {"spark.sql.variant.pushVariantIntoScan": "false"}
"""Scans that extract paths work only in Spark that compiles, which takes long."""


@pytest.fixture(scope="module", autouse=True)
def not_pushed(spark: Any) -> Iterator[None]:
    with settings(spark, NOT_PUSHED):
        yield


def write(spark: Any, path: Path, *columns: str, shredding: str = "", rows: int = 200) -> str:
    """Write four files, of 50 rows each, by the order of `id`."""
    shredded = {"spark.sql.variant.writeShredding.enabled": str(bool(shredding)).lower()}
    if shredding:
        shredded["spark.sql.variant.forceShreddingSchemaForTest"] = shredding
    with settings(spark, shredded):
        frame = spark.range(0, rows, 1, 4).selectExpr(*columns)
        frame.write.option("parquet.block.row.count.limit", 10).parquet(str(path))
    return str(path)


@pytest.fixture(scope="module")
def variants(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files with filters of two paths; the last one has another type at one of these in one row."""
    columns = [f'if(id = 170, parse_json(\'{{"a": {{"b": "7"}}}}\'), parse_json({DOCUMENT})) v', "id k"]
    path = write(spark, tmp_path_factory.mktemp("variants") / "lake", *columns, shredding=SHREDDING)
    report = parquet_bloom.spark.embed(spark, path, ["v:a.b", "V:s"])
    assert (report.ok, report.num_filters) == (True, 2 * 4 * 5)
    return path


FILES = {
    "v:a.b::bigint = 8": 2,  # and the file with a text there
    "cast(v:a.b as bigint) = 8": 2,
    "variant_get(v, '$.a.b', 'bigint') = 8": 2,
    "try_variant_get(V, '$[\"a\"][\"b\"]', 'bigint') IN (8, 10, NULL)": 2,
    "try_cast(v:a.b AS BIGINT) = 8": 2,
    "8 = v:a.b::bigint": 2,
    "v:a.b::bigint = 9": 1,  # by filters, but for the file with a text
    "v:a.b::bigint > 390": 1,
    "NOT (v:a.b::bigint > 10)": 2,
    "v:a.b::bigint BETWEEN 10 AND 12": 2,
    "v:a.b::bigint <=> 8": 2,
    "v:s::string = 'u7'": 2,
    "v:s::string LIKE 'u19%'": 4,
    "v:n::decimal(9, 2) = 7.5": 1,
    "v:a.b::bigint = 8 AND v:s::string = 'u4'": 2,
    "v:a.b::bigint = 8 OR k = 9": 2,
    "v:a['x.y']::bigint = 7": 2,
    "variant_get(v, '$[\"it''s\"]', 'bigint') = 7": 2,
}
"""Of four files, how many are read."""

ALL_FILES = [
    "v:a.b::int = 8",
    "v:a.b::double = 8",
    "v:A.b::bigint = 8",
    "v:`a.b`::bigint IS NULL",
    "NOT (v:a.b::bigint = 8)",
    "v:s::string <> 'u7'",
    "v:a.b::bigint IS NULL",
    "v:a.x.y::bigint = 7 OR k = 7",
    "schema_of_variant(v) = 'x' OR v:a.b::bigint = 8",
]


def test_texts(spark: Any, variants: str, ask_all: Any, conf: Any) -> None:
    """In both forms that Spark's plans have for a path: calls, and fields that scans extract."""
    for where, answer in ask_all(variants, [*FILES, *ALL_FILES]).items():
        assert answer.files <= FILES.get(where, 4), where
        assert answer.files == 4 or where in FILES, where
    frame = spark.read.parquet(variants)
    with conf({"spark.sql.variant.pushVariantIntoScan": "true"}):
        plan = frame.where("variant_get(v, '$.a.b', 'bigint') = 8")._jdf.queryExecution().sparkPlan().toString()
        assert "variant_get" not in plan
        for where, files in FILES.items():
            assert explain_prune(frame, where).selected_files <= files, where


def test_trees(variants: str, ask_spark: Any) -> None:
    for where in ("v:a.b::bigint = 8", 'v:"it\'s"::bigint IN (7, 8)', "lower(v:s::string) = 'u7'"):
        node = parse_sql(where)
        native = where.replace('v:"it\'s"::bigint', "variant_get(v, '$[\"it''s\"]', 'bigint')")
        assert ask_spark(variants, node, native=native).rows


def test_row_groups(variants: str, ask_spark: Any) -> None:
    """Exactly those that can match, with the whole Variant, whatever of it the condition needs."""
    for where in ("v:a.b::bigint = 8", "variant_get(v, '$.s', 'string') = 'u7'"):
        answer = ask_spark(variants, where, row_groups=True)
        assert (answer.rows, answer.doubts) == (1, "")
        assert "ExistingRDD" in answer.frame._jdf.queryExecution().sparkPlan().toString()


INDEXED = {
    "v:s::string = 'u7'": 1,
    "variant_get(v, '$.s', 'string') = 'u7'": 1,
    "try_variant_get(V, '$.s', 'string') IN ('u7', 'u8', NULL)": 1,
    "try_variant_get(v, '$.s', 'string') IN ('u7', 'u60')": 2,
    "v:s::string = 'none'": 0,
    "variant_get(v, '$.a.b', 'bigint') = 8 AND k > 3": 1,
    "try_variant_get(v, '$.a.b', 'bigint') = 8 OR v:s::string = 'u199'": 2,
    "v:a.b::bigint = 8 AND v:n::decimal(9, 2) = 1.25": 1,
}
"""Of four files, how many are read with an index over the paths."""

NOT_INDEXED = [
    "v:s::string = 'u7' OR k = 60",
    "v:s::string <> 'u7'",
    "v:a.b::int = 8",
    "v:s::string = '1582-10-10'",
    "NOT (v:s::string = 'u7')",
    "v:s::string IS NULL",
]


@pytest.mark.parametrize("shredding", ["", SHREDDING], ids=["binary", "shredded"])
def test_an_index_of_paths(
    spark: Any, tmp_path: Path, conf: Any, shredding: str, settled_tokens: None, settled_footers: None
) -> None:
    """It answers Spark's own scans, whether the files store the paths as columns or not."""
    path = write(spark, tmp_path / "lake", f"parse_json({DOCUMENT}) v", "id k", shredding=shredding)
    plain = spark.read.option("parquet.filter.bloom.enabled", "false").parquet(path)
    texts = [*INDEXED, *NOT_INDEXED]
    expected = plain.select(*(F.count(F.when(F.expr(text), 1)) for text in texts)).first()
    with LakeIndex.create(tmp_path / "i", ["v:s::string", "v:a.b::bigint"], lake=path) as index:
        index.append()
    for text, rows in zip(texts, expected, strict=True):
        frame = parquet_bloom.spark.read_parquet(spark, path, text, index=tmp_path / "i")
        assert frame.count() == rows, text
        assert len(planned_files(frame)) <= INDEXED.get(text, 4), text
    with conf({"spark.sql.variant.pushVariantIntoScan": "true"}):
        for text, most in INDEXED.items():
            report = explain_prune(spark.read.parquet(path), text, index=tmp_path / "i")
            assert report.selected_files <= most, text
            if not shredding:
                assert report.unopened_by["index"] == 4 - most, text
    if not shredding:
        for text in NOT_INDEXED:
            assert explain_prune(spark.read.parquet(path), text, index=tmp_path / "i").selected_files == 4, text


def test_jobs(spark: Any, variants: str, tmp_path: Path) -> None:
    assert parquet_bloom.spark.verify(spark, variants, columns=["V:s"]).ok
    with pytest.raises(UnknownColumnError, match="v:none"):
        parquet_bloom.spark.embed(spark, variants, ["v:none"])
    path = write(spark, tmp_path / "plain", f"parse_json({DOCUMENT}) v")
    with pytest.raises(UnknownColumnError, match="v:s"):
        parquet_bloom.spark.embed(spark, path, ["v:s"])


def test_the_data_source(spark: Any, variants: str, tmp_path: Path) -> None:
    """Variants that are not shredded are Spark's; others are refused by name."""
    columns = [f"if(id % 7 = 0, null, parse_json({DOCUMENT})) v", "struct(parse_json(string(id)) w) st", "id k"]
    path = write(spark, tmp_path / "plain", *columns, "array(parse_json(string(id)), null) l")
    parquet_bloom.spark.register(spark)
    ours, theirs = spark.read.format("parquet_bloom").load(path), spark.read.parquet(path)
    assert ours.schema == theirs.schema
    texts = ["k", "to_json(v)", "to_json(st.w)", "to_json(l[0])"]
    assert sorted(ours.selectExpr(*texts).collect()) == sorted(theirs.selectExpr(*texts).collect())
    refused = spark.read.format("parquet_bloom").load(variants)
    with pytest.raises(Exception, match=r"'v': it is a shredded Variant, .*; leave the column out by option 'columns'"):
        refused.collect()
    assert spark.read.format("parquet_bloom").option("columns", "k").load(variants).count() == 200


def test_installed(spark: Any, variants: str, conf: Any) -> None:
    """Plain queries of Spark, in which a view renames the column."""
    frame = spark.read.parquet(variants).selectExpr("v AS w", "k")
    pruned = parquet_bloom.spark.pruned(frame, "w:a.b::bigint = 8")
    assert [row.k for row in pruned.select("k").collect()] == [4]
    assert len(planned_files(pruned)) <= 2


def test_columns_of_connect(variants: str, connect: Any) -> None:
    columns = [
        "F.variant_get('v', '$.a.b', 'bigint') == 8",
        "F.try_variant_get(F.col('v'), '$[\"a\"][\"b\"]', 'bigint').isin(8, 10)",
        "F.variant_get('v', '$.a.b', 'variant').cast('bigint') == 8",
        "F.variant_get('v', '$.a.b', 'variant').try_cast('bigint') == 8",
        "F.variant_get('v', '$.s', 'string').eqNullSafe('u7')",
        "F.expr('v:a.b::bigint = 8') & (F.col('k') == 4)",
    ]
    answers = connect.ask_all(variants, columns, python=True, **NOT_PUSHED)
    assert {where: answer.files for where, answer in answers.items() if answer.files > 2 or answer.doubts} == {}


@pytest.mark.ci
def test_texts_of_connect(variants: str, connect: Any) -> None:
    texts = [where for where in FILES if "''" not in where]  # whose meaning depends on settings
    answers = connect.ask_all(variants, [*texts, *ALL_FILES], **NOT_PUSHED)
    assert {where for where, answer in answers.items() if answer.files > FILES.get(where, 4)} == set()
    assert {where for where in ALL_FILES if answers[where].files < 4} == set()
