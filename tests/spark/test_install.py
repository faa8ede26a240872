"""install: any query on the DataFrame reads the files that can hold a match, and gives native rows.

How many files a query opened is what the scans in its plan count (`numFiles`), subqueries and cached plans included.
"""

from __future__ import annotations

import gc
import glob
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.spark.spark_metrics import opened, planned_files

from parquet_bloom.errors import ParquetBloomError, UnknownColumnError
from parquet_bloom.file.metadata_cache import MetadataCache
from parquet_bloom.spark import explain_prune, install, pruned, write_options
from parquet_bloom.spark.plan.classic_session import BloomFileIndex

pytestmark = pytest.mark.spark

FILES = 8
COLUMNS = ["id", "id * 7919 % 100003 k", "concat('u', id) s", "concat('name', id % 3) file_name"]
FILTERS = write_options(["k", "s", "file_name"], ndv=100)
NATIVE = {"parquet.filter.bloom.enabled": "false"}
FROM_JOINS = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


def key(number: int) -> int:
    """The `k` of an `id`."""
    return number * 7919 % 100003


def write(spark: Any, path: Path, start: int = 0, rows: int = 100 * FILES, files: int = FILES) -> None:
    frame = spark.range(start, start + rows, 1, files).selectExpr(*COLUMNS)
    frame.write.options(**FILTERS).mode("append").parquet(str(path))


@pytest.fixture(scope="module")
def path(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("install") / "a b%20c"
    write(spark, path)
    return path


@pytest.fixture(scope="module")
def views(spark: Any, path: Path) -> Iterator[DataFrame]:
    """The lake as `bloom`, which is installed, and as `native`; gives the installed DataFrame."""
    yield from named(spark, path)


@pytest.fixture
def own_lake(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """A lake of the test's own, whose views are `bloom_own` and `native_own`."""
    write(spark, tmp_path / "own")
    yield from (tmp_path / "own" for _ in named(spark, tmp_path / "own", "_own"))


def named(spark: Any, path: Path, suffix: str = "") -> Iterator[DataFrame]:
    spark.read.options(**NATIVE).parquet(str(path)).createOrReplaceTempView(f"native{suffix}")
    installed = install(spark.read.parquet(str(path)))
    installed.createOrReplaceTempView(f"bloom{suffix}")
    yield installed
    for name in ("bloom", "native"):
        spark.catalog.dropTempView(f"{name}{suffix}")


def refresh(spark: Any) -> None:
    for name in ("bloom_own", "native_own"):
        spark.sql(f"refresh table {name}")


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def both(spark: Any, sql: str, suffix: str = "") -> tuple[int, list[int]]:
    """Rows of a query, which are those of native Spark, and the files that its scans opened."""
    queried = spark.sql(sql.format(t=f"bloom{suffix}"))
    result = rows(queried)
    assert result == rows(spark.sql(sql.format(t=f"native{suffix}")))
    return len(result), opened(queried)


def test_values_of_maps(spark: Any, tmp_path: Path) -> None:
    columns = ["id", "if(id % 9 = 0, null, map('a', id, concat('k', id), null)) m", "map(id, concat('t', id)) t"]
    spark.range(0, 80, 1, 8).selectExpr(*columns).write.parquet(str(tmp_path / "maps"))
    for _ in named(spark, tmp_path / "maps", "_maps"):
        for where, files in (
            ("m['a'] = 17", 1),
            ("element_at(m, 'a') IN (17, 25)", 2),
            ("m.a > 70", 1),
            ("CAST(m['a'] AS DOUBLE) = 17.0", 1),
            ("m['k17'] IS NULL AND m['a'] = 17", 1),
            ("m['nowhere'] IS NOT NULL", 0),
            ("NOT t[17] = 't18'", 1),
            ("upper(t[17]) = 'T17'", 1),
            ("t[17] LIKE 't%' OR t[70] <=> 't70'", 2),
            ("t[17] RLIKE '^t(17|18)$' OR t[70] RLIKE 't70'", 2),
            ("t[17] RLIKE 't[0-9]+' AND t[17] ILIKE 'T1_'", 1),
            ("NOT t[17] RLIKE '^t17.$' OR t[70] ILIKE '%T70'", 8),
            ("m['a'] IS NULL", 8),
            ("NOT m['a'] <=> 17", 8),
        ):
            assert both(spark, f"select * from {{t}} where {where}", "_maps")[1] == [files], where


def test_any_query_is_pruned(spark: Any, views: DataFrame, conf: Callable[..., Any]) -> None:
    queries = {
        "select * from {t} where k = 7919": (1, [1]),
        "select * from {t} where k = 1": (0, [0]),
        "select count(*) from {t}": (1, [FILES]),
        "select * from {t} where k in (7919, 15838) or s = 'u777'": (3, [2]),
        "select * from {t} a join {t} b on a.k = b.k where a.s = 'u5' and b.s in ('u5', 'u6')": (1, [1, 1]),
        "select * from {t} where k = (select k from {t} where s = 'u3')": (1, [1, FILES]),
        "select * from {t} where s in (select s from {t} where k = 7919)": (1, [1, FILES]),
        "select * from {t} a where s in ('u5', 'u7') "
        "and exists (select 1 from {t} b where a.id = b.id + 1 and b.s = 'u4')": (1, [1, 1]),
        "with c as (select * from {t} where k = 7919) select * from c a join c b on a.id = b.id": (1, [1, 1]),
        "select id, count(*) from {t} where k = 7919 group by id union all "
        "select id, count(*) from {t} where k = 7919 group by id union all "
        "select id, count(*) from {t} where k = 15838 group by id": (3, [1, 1]),
        "select (select max(id) from {t} where k = 7919) a, (select max(id) from {t} where s = 'u700') b": (1, [1, 1]),
    }
    results = {sql: both(spark, sql) for sql in queries}
    assert {sql: (count, files[-2:]) for sql, (count, files) in results.items()} == queries
    with conf({"spark.sql.adaptive.enabled": "false"}):
        for sql in [*queries][3:6]:
            count, files = both(spark, sql)
            assert (count, files[-2:]) == queries[sql]


def test_scans_that_spark_makes_one_of_read_the_files_of_both(
    spark: Any, views: DataFrame, conf: Callable[..., AbstractContextManager[None]]
) -> None:
    combined = (
        "select (select max(id) from {t} where k = 7919), (select min(id) from {t} where s = 'u700'), "
        "(select count(*) from {t} where k = 1)"
    )
    merge = "spark.sql.optimizer.mergeSubplans.filterPropagation.symmetricFilterPropagation.enabled"
    with conf({merge: "true"}):
        assert both(spark, combined) in [(1, [2]), (1, [0, 1, 1])]  # by Spark's version
        assert both(spark, "select (select max(id) from {t} where k = 7919), (select min(id) from {t})")[0] == 1
    with conf({"spark.sql.execution.reuseSubquery": "false", "spark.sql.exchange.reuse": "false"}):
        assert both(spark, combined)[0] == 1


def test_file_properties_are_not_columns(spark: Any, views: DataFrame, path: Path) -> None:
    """A column may have the name of a field of `_metadata`; filters of the column say nothing of that."""
    name = os.path.basename(sorted(glob.glob(f"{glob.escape(str(path))}/*.parquet"))[0])
    plain = spark.read.options(**NATIVE).parquet(str(path))
    hidden = F.col("_metadata.file_name") == name

    def query(frame: DataFrame) -> list[DataFrame]:
        selected = frame.select("*", F.col("_metadata.file_name").alias("z"))
        return [
            frame.where(hidden),
            frame.where(hidden).where("file_name = 'name1'"),
            selected.where(F.col("z") == name).where("k > 0"),
            selected.where("k = 7919"),
            frame.where(F.col("_metadata.row_index") == 5),
        ]

    expected = [rows(frame) for frame in query(plain)]
    assert len(expected[0]) == 100
    assert [rows(frame) for frame in query(views)] == expected
    assert rows(pruned(plain, hidden)) == expected[0]


def test_what_needs_no_planner_is_as_ever(spark: Any, views: DataFrame, path: Path) -> None:
    plain = spark.read.parquet(str(path))
    assert views.schema == plain.schema
    assert sorted(views.inputFiles()) == sorted(plain.inputFiles())
    assert len(views.where("k = 7919").inputFiles()) == FILES
    for mode in ("extended", "cost", "formatted"):
        assert "k" in spark.sql(f"explain {mode} select * from bloom where k = 7919").first()[0]
    assert both(spark, "select sum(id) from {t} tablesample (100 rows)")[0] == 1
    spark.read.table("bloom").where("k = 7919").write.format("noop").mode("append").save()


def test_by_name_and_by_columns(spark: Any, views: DataFrame) -> None:
    assert opened_by(install("native", "K"), "k = 7919") == [1]
    assert opened_by(install("native", ["s"]), "k = 7919") == [FILES]
    assert opened_by(install("native", ["s"]), "k = 7919 and s = 'u1'") == [1]
    with ThreadPoolExecutor(1) as thread:  # of its own, where no session is active
        assert thread.submit(lambda: opened_by(install("native"), "k = 7919")).result() == [1]


def opened_by(frame: DataFrame, where: str) -> list[int]:
    result = frame.where(where)
    assert len(result.collect()) == 1
    return opened(result)


def test_refused_input(spark: Any, views: DataFrame, path: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownColumnError, match="no such column"):
        install(views, ["nothing"])
    spark.range(3).write.json(str(tmp_path / "json"))
    for frame in (spark.read.json(str(tmp_path / "json")), spark.range(3)):
        with pytest.raises(ParquetBloomError, match="reads no Parquet files"):
            install(frame)
    with pytest.raises(ParquetBloomError, match="a stream"):
        install(spark.readStream.schema(views.schema).parquet(str(path)))
    with pytest.raises(AnalysisException):
        install("no_such_table")
    with pytest.raises(ParquetBloomError, match="max_fraction"):
        install(views, max_fraction=2)


def test_connect_has_no_planner(connect: Any, path: Path) -> None:
    connect.run("spark.read.parquet(path).createOrReplaceTempView('lake')", path=str(path))
    for table in ("spark.table('lake')", "'lake'"):
        with pytest.raises(RuntimeError, match=r"ParquetBloomError.*needs a classic session") as error:
            connect.run(f"answer = str(parquet_bloom.spark.install({table}))")
        assert "\n" not in str(error.value)


def test_what_is_installed_can_be_installed_and_pruned(spark: Any, views: DataFrame) -> None:
    assert opened_by(install(views, ["s"]), "k = 7919") == [FILES]
    assert opened_by(install(install(views, ["s"])), "k = 7919") == [1]
    result = pruned(views, "k = 7919")
    assert (len(planned_files(result)), rows(result)) == (1, rows(spark.table("native").where("k = 7919")))
    assert explain_prune(views, "k = 7919").selected_files == explain_prune(views.where("k = 7919")).selected_files == 1


class Failing(MetadataCache):
    """A cache of the caller's that is out of order."""

    error: BaseException

    def find(self, *_: Any) -> Any:
        raise self.error

    keep = last_identity = find_by_paths = get_shared = find  # type: ignore[assignment]


def test_failures_are_left_to_spark(
    spark: Any, views: DataFrame, path: Path, conf: Callable[..., AbstractContextManager[None]], caplog: Any
) -> None:
    cache = Failing()
    installed = install(spark.read.parquet(str(path)), cache=cache)
    for cache.error in (RuntimeError("odd\nthing"), MemoryError(), RecursionError("deep"), ParquetBloomError("ours")):
        caplog.clear()
        assert opened_by(installed, "k = 7919") == [FILES]
        assert caplog.records
        assert {record.getMessage().count("\n") for record in caplog.records} == {0}
    with conf({"spark.sql.parquet.fieldId.read.enabled": "true"}):
        assert both(spark, "select * from {t} where k = 7919") == (1, [FILES])
    assert both(spark, "select * from {t} where k = 7919") == (1, [1])


def test_no_file_is_asked_where_nothing_can_be_gained(spark: Any, path: Path, caplog: Any) -> None:
    cache = Failing()
    cache.error = AssertionError("files were asked")
    install(spark.read.parquet(str(path)), cache=cache).createOrReplaceTempView("bloom_failing")
    for sql in (
        "select count(*) from {t}",
        "select * from {t} where k % 7 = 0",
        "select count(*) from {t} a join {t} b on a.k = b.k",
        "select * from {t} where k = 7 or length(s) = 2",
    ):
        queried = spark.sql(sql.format(t="bloom_failing"))
        queried.collect()
        assert set(opened(queried)) == {FILES}
    assert caplog.records == []
    spark.catalog.dropTempView("bloom_failing")


def test_files_come_and_go(spark: Any, own_lake: Path) -> None:
    point = "select * from {t} where k = " + str(key(850))
    assert both(spark, point, "_own") == (0, [0])
    write(spark, own_lake, 800, 100, 1)
    refresh(spark)
    assert both(spark, point, "_own") == (1, [1])
    new = max(own_lake.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    aside = own_lake.parent / "other"
    write(spark, aside, 900, 100, 1)
    (other,) = aside.glob("*.parquet")
    (own_lake / f".{new.name}.crc").unlink(missing_ok=True)
    os.replace(other, new)  # the same name, other rows
    refresh(spark)
    assert both(spark, point, "_own") == (0, [0])
    assert both(spark, "select * from {t} where k = " + str(key(950)), "_own") == (1, [1])
    new.unlink()
    refresh(spark)
    assert both(spark, "select count(*) from {t}", "_own") == (1, [FILES])
    assert both(spark, "select * from {t} where k = " + str(key(950)), "_own") == (0, [0])


def test_rows_are_inserted_by_the_view(spark: Any, own_lake: Path) -> None:
    spark.sql("insert into bloom_own values (9000, 63000, 'new', 'name0')")
    spark.sql("refresh table native_own")
    assert both(spark, "select * from {t} where k = 63000", "_own")[0] == 1
    with pytest.raises(AnalysisException, match="also being read from"):
        spark.sql("insert overwrite bloom_own select * from bloom_own where k = 7919")
    spark.sql("insert overwrite bloom_own select 1L, 7L, 'only', 'name0'")
    spark.sql("refresh table native_own")
    assert both(spark, "select * from {t} where k = 7", "_own") == (1, [1])
    assert both(spark, "select * from {t}", "_own")[0] == 1


def test_caches_hold_their_own_rows(spark: Any, own_lake: Path) -> None:
    installed = spark.table("bloom_own")
    cached = installed.where(f"k = {key(7)}").cache()
    assert len(cached.collect()) == 1

    def is_cached(frame: DataFrame) -> bool:
        return "InMemoryRelation" in frame._jdf.queryExecution().withCachedData().toString()

    assert is_cached(installed.where(f"k = {key(7)}"))
    assert not is_cached(installed.where(f"k = {key(8)}"))
    assert not is_cached(install(spark.read.parquet(str(own_lake))).where(f"k = {key(7)}"))
    assert rows(installed.where(f"k = {key(8)}")) == rows(spark.table("native_own").where(f"k = {key(8)}"))
    cached.unpersist()
    spark.sql("cache table bloom_own")
    write(spark, own_lake, 800, 100, 1)
    refresh(spark)
    assert spark.catalog.isCached("bloom_own")
    assert both(spark, f"select * from {{t}} where k = {key(850)}", "_own") == (1, [FILES + 1])
    spark.sql("uncache table bloom_own")
    assert both(spark, f"select * from {{t}} where k = {key(850)}", "_own") == (1, [1])


@pytest.fixture
def tables(spark: Any) -> Iterator[None]:
    """A partitioned table and one in buckets, as `native_part`, `native_bucket` and installed."""
    frame = spark.range(0, 600, 1, 3).selectExpr(*COLUMNS[:3], "cast(id % 3 as string) p")
    frame.write.options(**FILTERS).partitionBy("p").saveAsTable("native_part")
    frame.write.options(**FILTERS).bucketBy(4, "k").sortBy("k").saveAsTable("native_bucket")
    for name in ("part", "bucket"):
        install(f"native_{name}").createOrReplaceTempView(f"bloom_{name}")
    yield
    for name in ("part", "bucket"):
        spark.catalog.dropTempView(f"bloom_{name}")
        spark.sql(f"drop table native_{name}")


def test_tables_of_a_catalog(spark: Any, tables: None, conf: Callable[..., AbstractContextManager[None]]) -> None:
    point = f"select * from {{t}} where k = {key(101)}"
    assert both(spark, point, "_part") == (1, [1])
    assert both(spark, point + " and p = '2'", "_part") == (1, [1])
    assert both(spark, point + " and p = '1'", "_part") == (0, [0])
    assert both(spark, "select * from {t} where p = '2'", "_part") == (200, [3])
    join = "select f.* from {t} f join (select '1' p union all select '9' p) d on f.p = d.p where k in ("
    join += f"{key(100)}, {key(101)})"
    for settings in ({}, FROM_JOINS):
        with conf(settings):
            assert both(spark, join, "_part")[0] == 1
    spark.sql("insert into native_part values (7000, 49000, 'x', '8')")
    spark.sql("refresh table bloom_part")
    assert both(spark, "select * from {t} where k = 49000", "_part") == (1, [1])
    spark.sql("insert overwrite bloom_part partition (p = '8') values (7001, 49007, 'y')")
    assert both(spark, "select * from {t} where k >= 49000 and p = '8'", "_part") == (1, [1])
    for enabled in ("true", "false"):
        with conf({"spark.sql.sources.bucketing.enabled": enabled, **FROM_JOINS}):
            assert both(spark, "select * from {t} where s = 'u101'", "_bucket") == (1, [1])
            assert both(spark, point, "_bucket")[0] == 1
            same = both(spark, "select * from {t} a join {t} b on a.k = b.k where a.s = 'u101'", "_bucket")
            assert (same[0], same[1][0]) == (1, 1)


def test_other_sessions_and_threads(spark: Any, views: DataFrame) -> None:
    views.createOrReplaceGlobalTempView("everywhere")
    other = spark.newSession()
    assert opened_by(other.table("global_temp.everywhere"), "k = 7919") == [1]
    assert opened_by(install(other.table("global_temp.everywhere")), "k = 7919") == [1]
    spark.catalog.dropGlobalTempView("everywhere")
    broadcast = "select /*+ broadcast(b) */ a.id from bloom a join bloom b on a.k = b.k where a.k = {0} and b.k = {0}"

    def ask(number: int) -> tuple[list[int], list[int]]:
        frame = spark.sql(broadcast.format(key(number)))
        return [row["id"] for row in frame.collect()], opened(frame)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, range(1, 7))) == [([number], [1, 1]) for number in range(1, 7)]
        assert set(threads.map(lambda _: opened_by(install("native"), "k = 7919")[0], range(6))) == {1}


def test_unused_memory_is_released(spark: Any, path: Path, views: DataFrame) -> None:
    pool = spark.sparkContext._gateway.gateway_property.pool

    def ours() -> set[str]:
        return {name for name, item in list(pool.dict.items()) if isinstance(item, BloomFileIndex)}

    # Told apart by name: how many there are changes by itself while what earlier tests left is collected.
    stored = install(spark.read.parquet(str(path)))
    before = ours()
    frames = [install(spark.read.parquet(str(path))) for _ in range(5)]
    assert [opened_by(frame, "k = 7919") for frame in frames] == [[1]] * 5
    created = ours() - before
    assert len(created) >= 5
    del frames
    deadline = time.monotonic() + 60
    while ours() & created and time.monotonic() < deadline:
        gc.collect()
        spark._jvm.System.gc()
        spark._jvm.System.runFinalization()
        time.sleep(0.1)
    assert not ours() & created
    assert opened_by(stored, "k = 7919") == [1]


@pytest.mark.long
def test_a_session_s_end_and_the_process_s(path: Path, tmp_path: Path) -> None:
    """A session that is stopped, an interrupt in the middle of planning, and an end without stopping: nothing hangs."""
    program = str(Path(__file__).parent / "after_stop.py")
    lake = tmp_path / "lake"
    shutil.copytree(path, lake)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, str(lake), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    *printed, java = done.stdout.splitlines()
    assert printed == ["[1]", "True", "[1]", "[1]", "[1]"]
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{java}") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{java}")


def test_floats_whose_text_a_double_would_round(spark: Any, tmp_path: Path) -> None:
    """Of 7.038531E-26, which Spark's plans show, the nearest double is nearer to another float than to this one."""
    numbers = [float.fromhex("0x1.5c87fap-84"), 1.401298464324817e-45, 0.10000000149011612]
    for number in numbers:
        pq.write_table(pa.table({"x": pa.array([number], pa.float32())}), tmp_path / f"{number}.parquet")
    installed = install(spark.read.parquet(str(tmp_path)))
    for number in numbers:
        as_float = F.lit(number).cast("float")
        for condition in (F.col("x") == as_float, F.col("x").isin(as_float, F.lit(2.0).cast("float"))):
            found = installed.where(condition)
            assert [row.x for row in found.collect()] == [number]
            assert opened(found) == [1]
