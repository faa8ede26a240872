"""Lakes that Spark wrote, and queries run twice: through the helper, and by Spark alone without filters."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from support.spark.spark_metrics import planned_files
from support.spark.spark_settings import settings

import parquet_bloom.spark

# A column of every type that Spark writes; each of 6,000 rows has values of its own, as far as the type allows.
EVERY_TYPE = [
    "id",
    "cast(id % 128 as byte) i8",
    "cast(id % 6000 as short) i16",
    "cast(id * 7 as int) i32",
    "cast(id / 8 as float) f32",
    "id / 8 f64",
    "cast(id * 7 as decimal(9, 2)) d9",
    "cast(id * 7 as decimal(18, 3)) d18",
    "cast(id as decimal(38, 10)) d38",
    "concat('u', id) s",
    "cast(concat('b', id) as binary) bin",
    "id % 2 = 0 flag",
    "date_add(DATE '1990-01-01', cast(id as int)) day",
    "case id % 3000 when 0 then timestamp'0001-01-01 00:00:00' when 1 then timestamp'9999-12-31 23:59:59.999999' "
    "when 2 then null else timestamp_micros(1600000000000000 + id * 1234567) end ts",
    "cast(timestamp_micros(1600000000000000 + id * 1234567) as timestamp_ntz) ntz",
    "make_dt_interval(0, 0, 0, id) span",
    "if(id % 3 = 0, null, array(id, null, id + 1)) li",
    "map(concat('k', id), id, 'z', null) ma",
    "struct(id as a, named_struct('c', concat('n', id)) as b) st",
    "if(id % 4 = 0, null, array(struct(timestamp_micros(id) as t, array(id) as l))) ls",
    "map(id, struct(id as z)) ms",
    "if(id % 7 = 0, null, named_struct('t', timestamp_micros(id))) nst",
    "case when id < 3000 then cast(null as string) end nothing",
]
FILTERED = [
    "id",
    "i8",
    "i16",
    "i32",
    "f32",
    "f64",
    "d9",
    "d18",
    "d38",
    "s",
    "bin",
    "day",
    "ts",
    "ntz",
    "st.a",
    "st.b.c",
]


@pytest.fixture(scope="session", autouse=True)
def interpreted(spark: Any) -> Iterator[None]:
    """Queries over a few rows take most of their time to be compiled: these are not."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key in settings:
        spark.conf.unset(key)


def sorted_rows(frame: Any) -> list[str]:
    """All rows as texts that distinguish what `==` does not: both zeros, NaN, types."""
    return sorted(map(repr, frame.toArrow().to_pylist()))


@pytest.fixture(scope="session")
def rows() -> Callable[[Any], list[str]]:
    return sorted_rows


@pytest.fixture(scope="session")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """12 files in 6 folders, several row groups each, with filters by us."""
    path = tmp_path_factory.mktemp("lake") / "every type"
    folders = [
        "case id % 3 when 0 then '02' when 1 then null else 'a b%/ü{}' end p",
        "date_add(DATE '2020-01-01', cast(id % 2 as int)) d",
    ]
    frame = spark.range(0, 6000, 1, 2).selectExpr(*EVERY_TYPE, *folders)
    frame.write.partitionBy("p", "d").option("parquet.block.row.count.limit", 100).parquet(str(path))
    report = parquet_bloom.spark.embed(spark, path, FILTERED)
    assert report.ok
    assert (report.embedded_files, report.num_filters) == (12, 12 * 5 * len(FILTERED))
    return str(path)


@pytest.fixture
def conf(spark: Any) -> Callable[..., AbstractContextManager[None]]:
    """Settings of the session for a block: ``with conf({"spark.sql.ansi.enabled": "false"}):``."""
    return functools.partial(settings, spark)


class QueryOutcome:
    """Outcome of a query through `read_parquet`.

    Attributes
    ----------
    frame : the DataFrame.
    rows : number of its rows.
    files : number of files that it reads.
    doubts : what the log says about files that are read all the same.
    plan : what the log says otherwise.
    """

    def __init__(self, frame: Any, records: list[logging.LogRecord]):
        self.frame = frame
        self.rows = 0
        self.files = len(planned_files(frame))
        ours = [record for record in records if record.name == "parquet_bloom.spark"]
        self.doubts = "; ".join(record.getMessage() for record in ours if record.levelno >= logging.WARNING)
        self.plan = "; ".join(record.getMessage() for record in ours if record.levelno < logging.WARNING)


@pytest.fixture(scope="session")
def without_filters(spark: Any) -> Callable[..., Any]:
    """Spark's own reading, which asks no filters; made once for files as long as they stay the same."""
    expected: dict[Any, Any] = {}

    def read(*paths: str, **options: Any) -> Any:
        candidates = (file for path in paths for file in (Path(path), *Path(path).rglob("*")))
        state = {(str(file), file.stat().st_mtime_ns if file.exists() else None) for file in candidates}
        settings = [spark.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.caseSensitive")]
        key = (paths, *sorted(options.items()), frozenset(state), *settings)
        if key not in expected:
            reader = spark.read.options(**options).option("parquet.filter.bloom.enabled", "false")
            expected[key] = reader.parquet(*paths)
        return expected[key]

    return read


@pytest.fixture
def ask_spark(
    spark: Any, without_filters: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> Callable[..., QueryOutcome]:
    """Ask through `read_parquet`, compare the rows with Spark's own without filters, and return what was skipped."""

    def ask(path: Any, where: Any, *, native: Any = None, row_groups: bool = False, **options: Any) -> QueryOutcome:
        paths = [str(one) for one in path] if isinstance(path, list) else [str(path)]
        plain = without_filters(*paths, **options)
        expected = sorted_rows(plain.where(where if native is None else native))
        caplog.clear()
        with caplog.at_level(logging.INFO, "parquet_bloom.spark"):
            frame = parquet_bloom.spark.read_parquet(spark, path, where, row_groups=row_groups, **options)
        answer = QueryOutcome(frame, caplog.records)
        answer.rows = len(expected)
        assert frame.schema == plain.schema
        assert sorted_rows(frame) == expected
        return answer

    return ask


@pytest.fixture
def ask_all(
    spark: Any, without_filters: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> Callable[..., dict[str, QueryOutcome]]:
    """Ask many questions for the price of two jobs: rows are counted, by Spark alone without pushing anything down.

    ``ask_all(path, wheres)`` with SQL texts, or with {SQL text: the same as lists}.
    """

    def ask(
        path: Any, wheres: Any, *, row_groups: bool = False, schema: Any = None, **options: Any
    ) -> dict[str, QueryOutcome]:
        plain = without_filters(str(path), **options)
        if schema is not None:
            plain = spark.read.option("parquet.filter.bloom.enabled", "false").schema(schema).parquet(str(path))
        texts = list(wheres)
        expected = plain.select(*(F.count(F.when(F.expr(text), 1)) for text in texts)).first()
        results = {}
        for text in texts:
            caplog.clear()
            where = wheres[text] if isinstance(wheres, dict) else text
            with caplog.at_level(logging.INFO, "parquet_bloom.spark"):
                frame = parquet_bloom.spark.read_parquet(
                    spark, path, where, schema=plain.schema, row_groups=row_groups, **options
                )
            assert frame.schema == plain.schema
            results[text] = QueryOutcome(frame, caplog.records)
        numbered = (queried.frame.select(F.lit(number)) for number, queried in enumerate(results.values()))
        numbers = [row[0] for row in functools.reduce(lambda one, other: one.unionAll(other), numbered).collect()]
        for number, queried in enumerate(results.values()):
            queried.rows = numbers.count(number)
        assert {text: queried.rows for text, queried in results.items()} == dict(zip(texts, expected, strict=True))
        return results

    return ask


@pytest.fixture
def write(spark: Any, tmp_path: Path) -> Callable[..., Path]:
    """Write expressions over `id` as a lake: ``write("name", "id", "id * 2 x", rows=100, files=4, embed=["x"])``."""

    def written(name: str, *expressions: str, rows: int = 200, files: int = 4, embed: Any = (), **options: Any) -> Path:
        path = tmp_path / name
        spark.range(0, rows, 1, files).selectExpr(*expressions).write.options(**options).parquet(str(path))
        if embed:
            assert parquet_bloom.spark.embed(spark, path, embed).ok
        return path

    return written


@pytest.fixture(scope="session")
def connect(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark Connect session for the whole run; see `connect_session.ConnectSession`."""
    pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
    from support.spark import connect_session

    session = connect_session.ConnectSession(tmp_path_factory.mktemp("connect"))
    yield session
    session.close()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Conditions that fail in Spark itself are among the random ones: PySpark logs each."""
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # a logger of another class would fail there
    logger.disabled = True
    yield
    logger.disabled = False
