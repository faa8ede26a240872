"""`pruned` on plans of every shape: the rows are Spark's own, and each scan is narrowed by its own conditions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from support.spark.spark_metrics import planned_files

import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.spark import pruned

pytestmark = pytest.mark.spark

FIFTH = "id = 205"
MOMENT = "ts = TIMESTAMP '2020-09-13 12:30:53.086235'"  # of the same row
NUM_FILES = 8


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Eight folders of a file each, with a row group for every ten rows."""
    path = str(tmp_path_factory.mktemp("pruned") / "lake")
    columns = [
        "id",
        "id % 10 k",
        "concat('u', id) s",
        "timestamp_micros(1600000000000000 + id * 1234567) ts",
        "named_struct('a', id, 'b', concat('n', id)) st",
        "array(id, id + 1000) li",
        "id % 8 p",
    ]
    rows = spark.range(0, 400, 1, 1).selectExpr(*columns).repartition(1).sortWithinPartitions("p", "id")
    rows.write.partitionBy("p").option("parquet.block.row.count.limit", 10).parquet(path)
    assert parquet_bloom.spark.embed(spark, path, ["id", "ts", "st.a"]).ok
    result = spark.read.parquet(path)
    result.createOrReplaceTempView("events")
    return result


@pytest.fixture
def ask(
    frame: Any, rows: Callable[[Any], list[str]], conf: Any, caplog: pytest.LogCaptureFixture
) -> Callable[..., tuple[int, int, str]]:
    """``ask(df, where)``: numbers of rows and of files that are read, and doubts; rows are held against Spark's own."""

    def query(df: Any, where: Any) -> tuple[int, int, str]:
        with conf({"parquet.filter.bloom.enabled": "false"}):
            expected = rows(df.where(where))
        exact = pruned(df, where, row_groups=True, max_fraction=1)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "parquet_bloom.spark"):
            result = pruned(df, where, row_groups=False, max_fraction=1)
        assert result.schema == exact.schema == df.where(where).schema
        both = exact.withColumn("way", F.lit(0)).unionAll(result.withColumn("way", F.lit(1))).toArrow()
        for way in (0, 1):
            own = both.filter(pc.equal(both["way"], way)).drop_columns("way")
            assert sorted(map(repr, own.to_pylist())) == expected, way
        doubts = "; ".join(record.getMessage() for record in caplog.records)
        return len(expected), len(planned_files(result)), doubts

    return query


def test_a_common_table_is_read_by_each_use_of_it(spark: Any, ask: Any) -> None:
    for query, num_rows in (
        ("SELECT a.id, b.id other FROM c a JOIN c b ON a.k = b.k AND b.id < 40", 4),
        ("SELECT b.id, a.id other FROM c a JOIN c b ON a.k = b.k AND a.id < 40", 4),
        ("SELECT *, (SELECT max(id) FROM c) FROM c", 1),
        ("SELECT * FROM c WHERE k < (SELECT max(k) FROM c)", 1),
        ("SELECT * FROM c WHERE EXISTS (SELECT 1 FROM c d WHERE d.k = c.k AND d.id > 390)", 1),
        ("SELECT * FROM c WHERE k IN (SELECT k FROM c WHERE id > 390)", 1),
        ("SELECT id, k FROM c UNION ALL SELECT id + 200, k FROM c", 2),
        (", e AS (SELECT k, count(*) n FROM c GROUP BY k) SELECT c.id, e.n FROM c JOIN e ON c.k = e.k", 1),
    ):
        assert ask(spark.sql(f"WITH c AS (SELECT * FROM events) {query}"), FIFTH)[0] == num_rows, query


def test_a_common_table_is_narrowed_where_it_can_be(spark: Any, ask: Any) -> None:
    once = spark.sql("WITH c AS (SELECT * FROM events) SELECT id, k FROM c")
    assert ask(once, FIFTH) == (1, 1, "")
    twice = spark.sql("WITH c AS (SELECT * FROM events) SELECT a.id, b.k FROM c a JOIN c b ON a.id = b.id")
    assert ask(twice, FIFTH) == (1, 1, "")


def test_a_common_table_that_spark_computes_once_is_left_alone(spark: Any, ask: Any) -> None:
    common = "WITH RECURSIVE r(n, id) AS (SELECT 0, 203L UNION ALL SELECT n + 1, id + 1 FROM r WHERE n < 5)"
    assert ask(spark.sql(f"{common} SELECT r.id, s FROM events JOIN r ON events.id = r.id"), FIFTH)[0] == 1
    stepping = "SELECT n + 1, events.id FROM r JOIN events ON events.id = r.id + 1 WHERE n < 5"
    common = f"WITH RECURSIVE r(n, id) AS (SELECT 0, 203L UNION ALL {stepping})"
    assert ask(spark.sql(f"{common} SELECT * FROM r"), FIFTH)[0] == 1


def test_every_shape_of_plan(frame: Any, ask: Any) -> None:
    shapes: dict[str, Callable[[Any], Any]] = {
        "self-join": lambda df: (
            df.alias("a").join(df.alias("b"), F.expr("a.k = b.k AND b.id < 40")).select("a.id", "b.s")
        ),
        "union": lambda df: df.where("id < 10").unionAll(df).unionAll(df.withColumn("id", F.col("id") + 200)),
        "subquery": lambda df: df.where(F.col("id") <= df.select(F.max("id")).scalar()),
        "window": lambda df: df.selectExpr("id", "k", "row_number() OVER (PARTITION BY k ORDER BY id) n"),
        "limit": lambda df: df.orderBy("id").limit(210),
        "offset": lambda df: df.orderBy("id").offset(200),
        "group": lambda df: df.groupBy("k").agg(F.max("id").alias("id")).withColumn("id", F.col("id") - 190),
        "explode": lambda df: df.select(F.explode("li").alias("id"), "s"),
        "lateral": lambda df: df.sparkSession.sql(
            "SELECT e.id, m FROM events e, LATERAL (SELECT max(u.id) m FROM events u WHERE u.k = e.k)"
        ),
        "cube": lambda df: df.where("id > 195 AND id < 210").cube("id", "k").count(),
        "renamed": lambda df: df.selectExpr("k AS id", "id AS k").withColumn("id", F.col("k") + 1),
        "anti join": lambda df: df.join(df.selectExpr("id + 1 AS id").where("id < 100"), "id", "left_anti"),
        "left join": lambda df: df.join(df.selectExpr("id + 200 AS id", "k AS other"), "id", "left"),
        "right join": lambda df: df.select("id", "s").join(df.selectExpr("id + 200 AS id", "k"), "id", "right"),
        "full join": lambda df: df.select("id", "s").join(df.selectExpr("id + 200 AS id", "k"), "id", "full"),
    }
    for name, shape in shapes.items():
        assert ask(shape(frame), FIFTH)[0] >= 1 or name == "group", name


def test_what_depends_on_the_rows_before_is_left_alone(frame: Any, ask: Any) -> None:
    some = frame.where("id BETWEEN 200 AND 270").sample(0.3, seed=7)
    num_rows, num_files, doubts = ask(some, "k >= 0")
    assert (0 < num_rows < 70, num_files) == (True, NUM_FILES)
    assert "not a plain function of a row" in doubts


def test_one_field_of_a_struct_out_of_exact_row_groups(frame: Any, ask: Any) -> None:
    for columns in (["st.b"], ["st.b", "p"], ["id", "st.b AS other"], ["st.a", "st"]):
        for where in (MOMENT, "st.a = 205 AND st.b = 'n205'"):
            assert ask(frame.selectExpr(*columns), where) == (1, 1, ""), (columns, where)


def test_a_column_that_was_not_selected_is_an_error_and_never_null(frame: Any, ask: Any) -> None:
    few = frame.select("k")
    exact = pruned(few, MOMENT, row_groups=True)
    assert (planned_files(exact), exact.count()) == ([], 1)
    for later in ("s = 'u205'", "s IS NULL", "st.a IS NOT NULL"):
        with pytest.raises(PySparkException, match=r"'(s|st)' is not read by this DataFrame: select it before"):
            exact.where(later).collect()
        assert pruned(few, MOMENT, row_groups=False).where(later).count() == few.where(MOMENT).where(later).count()
    assert exact.where("p = 5").count() == 1


def test_caches_keep_their_rows(frame: Any, rows: Any) -> None:
    result = pruned(frame, FIFTH).cache()
    try:
        assert result.count() == 1
        assert frame.where("id >= 0").count() == 400
        assert frame.count() == 400
        assert pruned(frame, "id = 7").count() == 1
    finally:
        result.unpersist()
    frame.cache()
    try:
        assert frame.count() == 400
        assert rows(pruned(frame, FIFTH)) == rows(frame.where(FIFTH))
    finally:
        frame.unpersist()


def test_errors_of_spark_are_raised_by_the_query(frame: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "parquet_bloom.spark"):
        result = pruned(frame, "id = 'x'")
    assert "all files are read: [CAST_INVALID_INPUT]" in caplog.text
    with pytest.raises(PySparkException, match="CAST_INVALID_INPUT"):
        result.collect()


def test_bad_arguments_are_one_line(frame: Any) -> None:
    wrong: dict[str, Any] = {"cache": 5, "storage_options": 5, "max_fraction": 2, "row_groups": None}
    for name, value in wrong.items():
        with pytest.raises(ParquetBloomError, match=f"^{name} must be [^\\n]*$"):
            pruned(frame, FIFTH, **{name: value})
    for ask in (pruned, parquet_bloom.spark.explain_prune):
        with pytest.raises(ParquetBloomError, match=r"^df must be a Spark DataFrame, got str$"):
            ask("events", FIFTH)  # type: ignore[arg-type]


def test_plans_over_different_files_are_never_merged(spark: Any, frame: Any) -> None:
    one, other = (pruned(frame, f"id = {number}") for number in (5, 205))
    one.createOrReplaceTempView("one")
    other.createOrReplaceTempView("other")
    parts = ", ".join(f"(SELECT sum(id) FROM {table})" for table in ("one", "other", "events"))
    assert tuple(spark.sql(f"SELECT {parts}").first()) == (5, 205, sum(range(400)))
    assert sorted(row.id for row in one.unionAll(other).unionAll(one).select("id").collect()) == [5, 5, 205]


def test_conditions_on_the_moment_of_a_query_leave_out_no_file(
    spark: Any, write: Callable[..., Any], rows: Any
) -> None:
    """Spark puts in the moment, and the session's schema, each time that it plans: maybe hours after pruning."""
    comes = time.time() + 1.5
    later = f"timestamp_micros({int(comes * 1e6)} + id) ts"
    path = write("moments", "id", "if(id < 100, 'default', 'elsewhere') place", later, embed=["id"])
    frame = spark.read.parquet(str(path))
    frame.createOrReplaceTempView("moments")
    wheres = [
        "ts <= current_timestamp()",
        "ts <= 'now' OR id = 0",
        "NOT (ts > localtimestamp() OR id <> 170)",
        "place = current_schema()",
        "id = 170 AND place = current_schema()",
        "id IN (SELECT id FROM moments WHERE ts <= 'now') AND id = 170",
    ]
    result = {where: pruned(frame, where, max_fraction=1) for where in wheres}
    spark.sql("CREATE DATABASE elsewhere")
    try:
        spark.sql("USE elsewhere")
        time.sleep(max(0.0, comes + 0.1 - time.time()))
        assert {where: rows(one) for where, one in result.items()} == {
            where: rows(frame.where(where)) for where in wheres
        }
        assert len(planned_files(result["id = 170 AND place = current_schema()"])) == 1
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE elsewhere")


def test_a_table_that_is_read_is_not_overwritten(spark: Any, write: Callable[..., Any]) -> None:
    path = write("guarded", "id", embed=["id"], **{"parquet.block.row.count.limit": 10})
    spark.sql(f"CREATE TABLE guarded USING parquet LOCATION '{path}'")
    try:
        table = spark.table("guarded")
        files, exact = (pruned(table, "id = 170", row_groups=row_groups) for row_groups in (False, True))
        assert (len(planned_files(files)), len(planned_files(exact))) == (1, 0)
        for result in (files, exact, parquet_bloom.spark.install(table).where("id = 170")):
            writer = result.write.mode("overwrite")
            for overwrite in (writer.insertInto, writer.saveAsTable):
                with pytest.raises(PySparkException, match="UNSUPPORTED_OVERWRITE"):
                    overwrite("guarded")
        assert spark.table("guarded").count() == 200
    finally:
        spark.sql("DROP TABLE guarded")
