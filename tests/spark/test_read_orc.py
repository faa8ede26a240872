"""`read_orc`: the rows of Spark alone from fewer files, by any writer, for any query."""

from __future__ import annotations

import datetime as dt
import functools
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest
from pyspark.sql import functions as F
from support.spark.spark_metrics import opened
from support.writers import orc_spark_files

import parquet_bloom.spark
from parquet_bloom.errors import PredicateError, StorageError, UnknownColumnError

pyorc = pytest.importorskip("pyorc")
pytestmark = pytest.mark.spark

ROWS = 200  # of a file
NOT_PUSHED = {"spark.sql.orc.filterPushdown": "false"}
EPOCH = dt.date(1970, 1, 1)
STRUCT = (
    "struct<id:bigint,s:string,i32:int,i8:tinyint,f64:double,d18:decimal(18,3),day:date,ts:timestamp,bin:binary,"
    "flag:boolean,st:struct<a:bigint,b:string>>"
)
FILTERED = ["id", "s", "i32", "i8", "f64", "d18", "day", "ts", "bin", "st.a", "st.b"]


def row(number: int, rng: random.Random) -> dict[str, Any]:
    """One row of the lake; about each tenth value is null."""
    values = {
        "id": number,
        "s": f"u{number}",
        "i32": number * 7 - 3000,
        "i8": rng.choice([number % 100, -5, 7]),
        "f64": rng.choice([number / 8, 0.0, -0.0, float("nan")]) if number % 5 == 0 else number / 8,
        "d18": Decimal(number * 7).scaleb(-3),
        "day": EPOCH + dt.timedelta(days=number * 5 - 20000),
        "ts": dt.datetime(2020, 1, 1) + dt.timedelta(microseconds=number * 86400_123_457),
        "bin": b"b%d" % number,
        "flag": number % 3 == 0,
        "st": {"a": number, "b": f"n{number}"},
    }
    return {name: None if name != "id" and rng.random() < 0.1 else value for name, value in values.items()}


def rows_of_file(number: int) -> list[dict[str, Any]]:
    rng = random.Random(number)
    return [row(number * ROWS + position, rng) for position in range(ROWS)]


ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("i32", pa.int32()),
        ("i8", pa.int8()),
        ("f64", pa.float64()),
        ("d18", pa.decimal128(18, 3)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("ns")),
        ("bin", pa.binary()),
        ("flag", pa.bool_()),
        ("st", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)


def by_pyarrow(path: Path, rows: list[dict[str, Any]], schema: pa.Schema = ARROW) -> None:
    """A file with filters on all columns, those in structs too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ids = range(1, 1 + sum(1 + field.type.num_fields for field in schema))
    po.write_table(pa.Table.from_pylist(rows, schema), path, bloom_filter_columns=[*ids], bloom_filter_fpp=0.001)


def by_pyorc(path: Path, rows: list[dict[str, Any]], struct: str = STRUCT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(pyorc.TypeDescription.from_string(struct).fields)
    with (
        path.open("wb") as file,
        pyorc.Writer(
            file, struct, bloom_filter_columns=names, bloom_filter_fpp=0.001, struct_repr=pyorc.StructRepr.DICT
        ) as writer,
    ):
        for one in rows:
            stamp = one.get("ts")
            writer.write(one if stamp is None else {**one, "ts": stamp.replace(tzinfo=dt.UTC)})


def by_spark(spark: Any, folder: Path, rows: list[dict[str, Any]], version: str) -> None:
    """One file in a folder, of the same rows."""
    types = "id bigint, s string, i32 int, i8 tinyint, f64 double, d18 decimal(18,3), day date, ts timestamp, "
    types += "bin binary, flag boolean, st struct<a:bigint,b:string>"
    table = pa.Table.from_pylist(rows, ARROW.set(7, pa.field("ts", pa.timestamp("us", "UTC"))))
    options = {
        "orc.bloom.filter.columns": ",".join(FILTERED),
        "orc.bloom.filter.fpp": "0.001",
        "orc.bloom.filter.write.version": version,
    }
    frame = spark.createDataFrame(table, types).coalesce(1)
    frame.write.options(**options).orc(str(folder))
    for extra in folder.glob(".*.crc"):
        extra.unlink()


@pytest.fixture(scope="module")
def orc_lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 files in 3 folders by four writers, of the same columns."""
    lake = tmp_path_factory.mktemp("orc") / "a lake"
    for number, (p, writer) in enumerate(
        [
            ("02", "original"),
            ("02", "utf8"),
            ("02", "pyarrow"),
            ("a b", "pyorc"),
            ("a b", "utf8"),
            ("a b", "pyarrow"),
            ("__HIVE_DEFAULT_PARTITION__", "pyorc"),
            ("__HIVE_DEFAULT_PARTITION__", "original"),
        ]
    ):
        folder = lake / f"p={p}"
        if writer == "pyarrow":
            by_pyarrow(folder / f"{number}.orc", rows_of_file(number))
        elif writer == "pyorc":
            by_pyorc(folder / f"{number}.orc", rows_of_file(number))
        else:
            written = lake.parent / f"by spark {number}"
            by_spark(spark, written, rows_of_file(number), writer)
            (file,) = written.glob("*.orc")
            folder.mkdir(parents=True, exist_ok=True)
            file.rename(folder / f"{number}.orc")
    return lake


@dataclass
class QueryOutcome:
    """Outcome of a query through `read_orc`: rows, the files that are read, and doubts in the log."""

    rows: int
    files: int
    doubts: str


def sorted_rows(frame: Any) -> list[str]:
    """All rows as texts that distinguish what `==` does not: both zeros, NaN, types."""
    as_texts = (field.name for field in frame.schema if "interval" in field.dataType.typeName())
    shown = frame.withColumns({name: F.col(name).cast("string") for name in as_texts})
    return sorted(map(repr, shown.toArrow().to_pylist()))


@pytest.fixture
def ask_orc(spark: Any, conf: Any, caplog: pytest.LogCaptureFixture) -> Callable[..., QueryOutcome]:
    """Ask through `read_orc`, and hold rows and schema against Spark's own without any pushing down."""

    def ask(path: Any, where: Any, *, native: Any = None, schema: Any = None, **options: Any) -> QueryOutcome:
        paths = [str(one) for one in path] if isinstance(path, list) else [str(path)]
        reader = spark.read.options(**options)
        plain = (reader if schema is None else reader.schema(schema)).orc(paths)
        with conf(NOT_PUSHED):
            expected = sorted_rows(plain.where(where if native is None else native))
        caplog.clear()
        with caplog.at_level(logging.INFO, "parquet_bloom.spark"):
            frame = parquet_bloom.spark.read_orc(spark, path, where, schema=schema, **options)
        assert frame.schema == plain.schema
        assert sorted_rows(frame) == expected, where
        warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
        return QueryOutcome(len(expected), len(frame.inputFiles()), "; ".join(warnings))

    return ask


@pytest.fixture
def ask_many(spark: Any, conf: Any, caplog: pytest.LogCaptureFixture) -> Callable[..., dict[str, QueryOutcome]]:
    """Ask many questions in two jobs, and count their rows: ``ask_many(path, wheres, schema="id bigint")``."""

    def ask(path: Any, wheres: Sequence[str], *, schema: Any = None, **options: Any) -> dict[str, QueryOutcome]:
        reader = spark.read.options(**options)
        plain = (reader if schema is None else reader.schema(schema)).orc(str(path))
        with conf(NOT_PUSHED):
            expected = plain.select(*(F.count(F.when(F.expr(where), 1)) for where in wheres)).first()
        outcomes, frames = {}, []
        for number, where in enumerate(wheres):
            caplog.clear()
            with caplog.at_level(logging.INFO, "parquet_bloom.spark"):
                frame = parquet_bloom.spark.read_orc(spark, path, where, schema=plain.schema, **options)
            assert frame.schema == plain.schema
            frames.append(frame.select(F.lit(number)))
            warnings = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
            outcomes[where] = QueryOutcome(expected[number], len(frame.inputFiles()), "; ".join(warnings))
        numbers = [one[0] for one in functools.reduce(lambda one, other: one.unionAll(other), frames).collect()]
        counts = [numbers.count(number) for number in range(len(wheres))]
        assert dict(zip(wheres, counts, strict=True)) == dict(zip(wheres, expected, strict=True))
        return outcomes

    return ask


def test_files_skipped(orc_lake: Path, ask_many: Any) -> None:
    wheres = {
        "ID = 321": 1,
        "id = 321 AND p = 'a b'": 0,
        "p = '02' AND id IN (3, 321)": 2,
        "id IN (5, 1234)": 2,
        "id = 5 OR s = 'u900'": 2,
        "s = 'u1500'": 1,
        "i32 = 700": 1,
        "d18 = 1.4": 1,
        "bin = cast('b777' as binary)": 1,
        "day = DATE '1970-01-01'": 0,
        "day = DATE '1923-08-10'": 1,
        "st.a = 500": 1,
        "st.b = 'n1111'": 4,  # texts in structs by C++ are not probed
        "ts = TIMESTAMP '2020-11-15 00:00:39.382783'": 1,
        "id = -1": 0,
        "id IS NULL": 0,
        "st.a = 500 AND st.b = 'n501'": 1,
    }
    for where, answer in ask_many(orc_lake, [*wheres]).items():
        assert answer.files <= max(wheres[where], 1), where
        assert not answer.doubts
        assert wheres[where] or answer.rows == 0


def test_only_the_files_left_are_opened(spark: Any, orc_lake: Path) -> None:
    frame = parquet_bloom.spark.read_orc(spark, orc_lake, "id = 321")
    assert [one.id for one in frame.collect()] == [321]
    assert opened(frame) == [1]
    complete = spark.read.orc(str(orc_lake)).where("id = 321")
    complete.collect()
    assert opened(complete) == [8]


def test_other_ways_to_ask(spark: Any, orc_lake: Path, ask_orc: Any) -> None:
    assert ask_orc(orc_lake, F.col("id") == 321).files == 1
    assert ask_orc(orc_lake, [("id", "in", [321, 322])], native="id IN (321, 322)").files == 1
    assert ask_orc(orc_lake, "id = 321 AND rand() < 2").rows == 1  # all are read
    assert ask_orc(f"file:{orc_lake}", "id = 321").files == 1
    assert ask_orc([orc_lake / "p=02", orc_lake / "p=a b"], "id = 321", basePath=str(orc_lake)).files == 1
    result = parquet_bloom.spark.read_orc(spark, orc_lake / "p=02", "id = 321", base_path=orc_lake, columns=["P", "id"])
    assert (result.columns, [tuple(one) for one in result.collect()]) == (["p", "id"], [(2, 321)])
    assert parquet_bloom.spark.read_orc(spark, orc_lake).count() == 8 * ROWS
    assert parquet_bloom.spark.read_orc(spark, orc_lake, "id < 5", columns="id").count() == 5


def test_executors_ask(orc_lake: Path, ask_orc: Any, spark: Any) -> None:
    result = parquet_bloom.spark.read_orc(spark, orc_lake, "id = 321", probe_on="executors")
    assert (len(result.inputFiles()), result.count()) == (1, 1)


def test_mistakes(spark: Any, orc_lake: Path, tmp_path: Path) -> None:
    read_orc = parquet_bloom.spark.read_orc
    with pytest.raises(StorageError, match="there is no such file or folder"):
        read_orc(spark, tmp_path / "none", "id = 1")
    with pytest.raises(PredicateError, match="Spark does not understand"):
        read_orc(spark, orc_lake, "id = = 1")
    with pytest.raises(UnknownColumnError, match="no such column"):
        read_orc(spark, orc_lake, "id = 1", columns=["nope"])


# ------------------------------------------------------------------------------------------------ random conditions


def _literal(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.5:
        operator = rng.choice(["AND", "AND", "OR"])
        return f"({_condition(rng, depth - 1)} {operator} {_condition(rng, depth - 1)})"
    one = row(rng.randrange(-200, 8 * ROWS + 200), rng)
    name = rng.choice([*ARROW.names, "p"])
    if name == "p":
        return rng.choice(["p = '02'", "p IS NULL", "p IN ('a b', 'none')", "p <> '02'"])
    if name == "st":
        one, name = {"st.a": one["id"], "st.b": one["s"]}, rng.choice(["st.a", "st.b"])
    value = one[name]
    if value is None:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    text = _literal(name, value)
    forms = ["{0} = {1}", "{0} IN ({1}, {1})", "{0} <=> {1}", "{0} <> {1}", "{0} < {1}", "NOT ({0} >= {1})"]
    return rng.choices(forms, [6, 2, 1, 1, 1, 1])[0].format(name, text)


@pytest.mark.parametrize("zone", ["UTC", pytest.param("America/Los_Angeles", marks=pytest.mark.long)])
def test_random_conditions(zone: str, conf: Any, orc_lake: Path, ask_many: Any) -> None:
    rng = random.Random(zone)
    with conf({"spark.sql.session.timeZone": zone}):
        answers = ask_many(orc_lake, [*dict.fromkeys(_condition(rng) for _ in range(24))])
    assert sum(answer.files < 8 for answer in answers.values()) > 6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_random_conditions(seed: int, conf: Any, orc_lake: Path, ask_many: Any) -> None:
    test_random_conditions(("UTC", "Asia/Kolkata", "Europe/Berlin")[seed % 3], conf, orc_lake, ask_many)


# --------------------------------------------------------------------------------------------- where Spark loses rows


def test_tinyint_filters_of_cpp(spark: Any, tmp_path: Path, ask_many: Any) -> None:
    """ORC's C++ writer hashes part of a batch of tinyints after it has overwritten them."""
    schema = pa.schema([("id", pa.int64()), ("i8", pa.int8())])
    for number in range(4):
        rows = [{"id": number * 1000 + position, "i8": 77 if position == number else 1} for position in range(1000)]
        by_pyarrow(tmp_path / "lake" / f"{number}.orc", rows, schema)
    native = spark.read.orc(str(tmp_path / "lake")).where("i8 = 77").count()
    assert native < 4, "Spark has learned to distrust these filters"
    answers = ask_many(tmp_path / "lake", ["i8 = 77", "i8 = 77 AND id = 2002", "i8 = 78"])
    assert [answer.rows for answer in answers.values()] == [4, 1, 0]


def test_both_zeros(spark: Any, tmp_path: Path, ask_many: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("f64", pa.float64())])
    for number, zero in enumerate([0.0, -0.0, 1.0, float("nan")]):
        rows = [{"id": position, "f64": zero if position == 5 else position + 2.5} for position in range(100)]
        by_pyarrow(tmp_path / "lake" / f"{number}.orc", rows, schema)
    assert spark.read.orc(str(tmp_path / "lake")).where("f64 = 0.0D").count() == 1, "Spark has learned of zeros"
    wheres = ["f64 = 0.0D", "f64 = -0.0D", "f64 IN (-0.0D, 4.5D)", "f64 = double('NaN')"]
    assert [answer.rows for answer in ask_many(tmp_path / "lake", wheres).values()] == [2, 2, 6, 1]


def test_days_of_the_old_calendar(spark: Any, tmp_path: Path, ask_many: Any) -> None:
    days = [dt.date(1400, 1, 1), dt.date(1500, 1, 18), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1600, 1, 1)]
    for number, day in enumerate(days):
        frame = spark.createDataFrame([(number, day)], "id int, day date").coalesce(1)
        frame.write.option("orc.bloom.filter.columns", "day,id").mode("append").orc(str(tmp_path / "lake"))
    by_pyarrow(
        tmp_path / "lake" / "arrow.orc",
        [{"id": 9, "day": dt.date(1500, 1, 18)}],
        pa.schema([("id", pa.int32()), ("day", pa.date32())]),
    )
    days += [dt.date(1582, 10, 14), dt.date(1500, 1, 9), dt.date(1500, 1, 27)]
    wheres = [f"day = DATE '{day}'{more}" for more in ("", " AND id = 1") for day in days]
    answers = [*ask_many(tmp_path / "lake", wheres).values()]
    for day, answer in zip(days, answers, strict=False):
        assert answer.files == (6 if day < dt.date(1582, 10, 15) else 1)


def test_spark_skips_nothing_without_the_condition(spark: Any, tmp_path: Path) -> None:
    """A plain read passes the whole condition to Spark, whose tasks skip row groups."""
    schema = pa.schema([("id", pa.int64()), ("i8", pa.int8()), ("other", pa.int64())])
    for number in range(4):
        rows = [{"id": number * 100 + position, "i8": position % 3, "other": position} for position in range(100)]
        by_pyarrow(tmp_path / f"{number}.orc", rows, schema)

    def scan(where: str) -> str:
        frame = parquet_bloom.spark.read_orc(spark, tmp_path, where, columns=["id"])
        text = frame._jdf.queryExecution().executedPlan().toString()
        return next(line for line in text.splitlines() if "FileScan orc" in line)

    assert "EqualTo(id,205)" in scan("id = 205")
    message = scan("id = 205 AND i8 = 1")
    assert "PushedFilters: []" in message
    assert "other" not in message


# ------------------------------------------------------------------------------------------------------------ types


def test_every_type_of_spark(spark: Any, tmp_path: Path, ask_orc: Any, ask_many: Any) -> None:
    """Both kinds of streams in one lake, in two zones of the JVM; what is not understood is left to Spark."""
    lake = tmp_path / "lake"
    for version, zone in (("original", "UTC"), ("utf8", "America/Los_Angeles")):
        file = orc_spark_files.write(spark, tmp_path / version, version, zone, count=60)
        lake.mkdir(exist_ok=True)
        file.rename(lake / f"{version}.orc")
    frame = spark.read.orc(str(lake))
    assert frame.columns == [*orc_spark_files.COLUMNS, "c", "v"]
    frame.createOrReplaceTempView("of_every_type")
    for name in ("i64", "s", "bin", "day", "d9", "d18", "st", "li"):  # those that have no literal below
        answer = ask_orc(lake, f"`{name}` <=> (SELECT first(`{name}`) FROM of_every_type WHERE id = 40)")
        assert answer.rows >= 1
    wheres = [f"`{name}` IS NULL" for name in frame.columns]
    wheres += [
        "flag",
        "i8 = 5",
        "i16 = -32248",
        "f32 = 5.0",
        "f64 = 13D",
        "old_day = DATE '1500-01-18'",
        "ts = TIMESTAMP '1906-08-16 20:26:40'",
        "old_ts < TIMESTAMP '1500-01-01 00:00:00'",
        "ntz = TIMESTAMP_NTZ '1970-01-01 00:00:00'",
        "ntz IN (TIMESTAMP_NTZ '1970-01-08 00:00:00.864199', NULL)",
        "ntz = TIMESTAMP '1970-01-08 00:00:00.864199'",
        "span = INTERVAL '7' SECOND",
        "months = INTERVAL '4' MONTH",
        "array_contains(li, 41)",
        "ma['k41'] = 41",
        "st.in.x = 4",
        "c = 's4'",
        "v = 'v4'",
        "d38 = 125000000.875",
    ]
    ask_many(lake, wheres)


def test_wall_clocks(spark: Any, conf: Any, tmp_path: Path, ask_many: Any) -> None:
    """ORC's timestamps are wall clocks: the reader's time zone decides which instants they are."""
    for number in range(4):
        stamp = dt.datetime(2020, 3, 1 + 7 * number, 23, 30)
        by_pyorc(tmp_path / "lake" / f"{number}.orc", [{"id": number, "ts": stamp}], "struct<id:bigint,ts:timestamp>")
    for jvm in ("UTC", "America/Los_Angeles", "Pacific/Kiritimati"):
        with orc_spark_files.jvm_zone(spark, jvm), conf({"spark.sql.session.timeZone": "Asia/Kolkata"}):
            shown = [
                one.ts for one in spark.read.orc(str(tmp_path / "lake")).selectExpr("cast(ts as string) ts").collect()
            ]
            answers = ask_many(tmp_path / "lake", [f"ts = TIMESTAMP '{text}'" for text in shown])
            assert [(answer.rows, answer.files) for answer in answers.values()] == [(1, 1)] * 4


def test_char_varchar_and_instants_of_java(spark: Any, tmp_path: Path, ask_orc: Any) -> None:
    schema = "struct<id:bigint,c:char(5),v:varchar(5),i:timestamp with local time zone,t:timestamp>"
    for number in range(4):
        rows = [
            (
                number * 10 + position,
                f"c{position}",
                f"v{number}{position}",
                (number * 10 + position) * 86400_000_000,
                position,
            )
            for position in range(10)
        ]
        orc_spark_files.java_file(spark, tmp_path / "lake" / f"{number}.orc", schema, rows)
    lake = tmp_path / "lake"
    assert ask_orc(lake, "id = 25").files == 1  # Spark pads texts in either
    assert ask_orc(lake, "c = 'c5'").rows == 4
    assert ask_orc(lake, "c = 'c5   '").rows == 4
    assert ask_orc(lake, "v = 'v35'").rows == 1
    given = "id bigint, c string, v string, i timestamp, t timestamp"
    assert ask_orc(lake, "c = 'c5'", schema=given).rows in (0, 4)  # as Spark has it
    answer = ask_orc(lake, "v = 'v35'", schema=given)
    assert (answer.rows, answer.files) == (1, 1)
    assert ask_orc(lake, "i = TIMESTAMP '1970-02-05 00:00:00'").files == 1


# ------------------------------------------------------------------------------------------------- schemas that differ


def test_files_that_lack_columns(spark: Any, tmp_path: Path, ask_orc: Any, ask_many: Any) -> None:
    lake = tmp_path / "lake"
    by_pyarrow(lake / "a.orc", [{"id": 1, "x": 10}], pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    by_pyarrow(
        lake / "b.orc",
        [{"id": 2, "x": 20, "y": "a"}],
        pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.string())]),
    )
    by_pyarrow(lake / "c.orc", [{"id": 3, "X": 30}], pa.schema([("id", pa.int64()), ("X", pa.int64())]))
    by_pyarrow(lake / "d.orc", [{"id": 4}], pa.schema([("id", pa.int64())]))
    wheres = ["id = 3", "x = 20", "x = 30", "x IS NULL", "x <=> NULL", "id = 4 AND x IS NULL", "id IN (1, 9)"]
    ask_many(lake, wheres, schema="id bigint, x bigint")  # which file Spark takes the schema of is chance
    (lake / "c.orc").rename(tmp_path / "c.orc")  # Spark does not merge names that differ in case
    ask_orc(lake, "id = 2", mergeSchema="true")
    wheres = ["x = 20", "y = 'a'", "y IS NULL", "id = 4 AND y IS NULL"]
    ask_many(lake, wheres, mergeSchema="true")
    (tmp_path / "c.orc").rename(lake / "c.orc")
    assert ask_orc(lake, "id = 2", schema="y string, id bigint").files == 1
    assert ask_orc(lake, "y = 'a'", schema="y string, id bigint").rows == 1
    assert ask_orc(lake, "id = 3", schema="id bigint, x bigint, z int").files == 1


def test_files_of_other_types(spark: Any, tmp_path: Path, ask_orc: Any, ask_many: Any) -> None:
    """A wider integer is the same value; what is turned into something else is left to Spark."""
    lake = tmp_path / "lake"
    for number, kind in enumerate([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.float64()]):
        value = str(number) if kind == pa.string() else number
        by_pyarrow(lake / f"{number}.orc", [{"id": number, "x": value}], pa.schema([("id", pa.int64()), ("x", kind)]))
    wheres = [f"{name} = {number}" for name in ("id", "x") for number in range(6)]
    answers = [*ask_many(lake, wheres, schema="id bigint, x bigint").values()]
    assert [answer.rows for answer in answers] == [1] * 12
    assert [answer.files for answer in answers[:6]] == [1] * 6
    assert max(answer.files for answer in answers) <= 4  # tinyint by C++, text, float; and the one
    ask_orc(lake, "x = '3'", schema="id bigint, x string")


def test_columns_by_position(spark: Any, tmp_path: Path, ask_orc: Any, ask_many: Any, conf: Any) -> None:
    """Files of old Hive have no names, and Spark gives them those of the schema, in order."""
    lake = tmp_path / "lake"
    unnamed = pa.schema([("_col0", pa.int64()), ("_col1", pa.int64())])
    named = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    by_pyarrow(lake / "0.orc", [{"_col0": 1, "_col1": 100}], unnamed)
    by_pyarrow(lake / "1.orc", [{"_col0": 2, "_col1": 200}], unnamed)
    by_pyarrow(lake / "2.orc", [{"_col0": 3, "_col1": 300}], unnamed)
    assert ask_orc(lake, "_col0 = 2").files == 1
    by_pyarrow(lake / "3.orc", [{"a": 2, "b": 1}], named)
    by_pyarrow(lake / "4.orc", [{"a": 4, "b": 7}], named)
    for schema in ("a bigint, b bigint", "b bigint, a bigint", "_col1 bigint, _col0 bigint"):
        first = schema.split()[0]
        ask_many(lake, [f"{first} = {number}" for number in (1, 2, 100, 300, 7)], schema=schema)
    forced = {"orc.force.positional.evolution": "true"}
    wheres = [f"b = {number}" for number in (1, 2, 4, 7)]
    for answer in ask_many(lake, wheres, schema="b bigint, a bigint", **forced).values():
        assert (answer.files, "by their positions" in answer.doubts) == (5, True)
    with conf(forced):
        assert {answer.files for answer in ask_many(lake, wheres, schema="b bigint, a bigint").values()} == {5}
    java = spark._jsc.hadoopConfiguration()
    java.set("orc.force.positional.evolution", "true")
    try:
        assert ask_orc(lake, "b = 2", schema="b bigint, a bigint").files == 5
    finally:
        java.unset("orc.force.positional.evolution")


def test_columns_in_folders_and_files(tmp_path: Path, ask_orc: Any) -> None:
    schema = pa.schema([("p", pa.int64()), ("x", pa.int64())])
    for number in range(4):
        by_pyarrow(tmp_path / f"p={number}" / "0.orc", [{"p": 7, "x": number}], schema)
    assert "names of partition columns" in ask_orc(tmp_path, "x = 2").doubts
    assert ask_orc(tmp_path, "p = 7").rows == 0


def test_names_that_differ_in_case(tmp_path: Path, ask_orc: Any, conf: Any) -> None:
    for number in range(4):
        name = "Id" if number % 2 else "id"
        by_pyarrow(tmp_path / f"{number}.orc", [{name: number}], pa.schema([(name, pa.int64())]))
    assert ask_orc(tmp_path, "ID = 3").rows == 1
    with conf({"spark.sql.caseSensitive": "true"}):
        assert ask_orc(tmp_path, "id = 3").rows == 0
        assert ask_orc(tmp_path, "id = 2").rows == 1
        assert ask_orc(tmp_path, "id IS NULL").rows == 2


# ------------------------------------------------------------------------------------------------------ what is left


def test_invalid_orc_files(spark: Any, orc_lake: Path, tmp_path: Path) -> None:
    """It is left to Spark, which complains."""
    for number in range(3):
        by_pyarrow(tmp_path / f"{number}.orc", [{"id": number}], pa.schema([("id", pa.int64())]))
    (tmp_path / "z.orc").write_bytes(b"no file of any kind")
    with pytest.raises(Exception, match=r"z\.orc|CANNOT_READ|FAILED_READ"):
        parquet_bloom.spark.read_orc(spark, tmp_path, "id = 1").collect()
    spark.range(5).write.parquet(f"{tmp_path}.parquet")
    other = next(Path(f"{tmp_path}.parquet").glob("*.parquet"))
    (tmp_path / "z.orc").write_bytes(other.read_bytes())
    with pytest.raises(Exception, match=r"z\.orc|CANNOT_READ|FAILED_READ"):
        parquet_bloom.spark.read_orc(spark, tmp_path, "id = 1").collect()


def test_pruned_leaves_orc_alone(spark: Any, orc_lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    frame = spark.read.orc(str(orc_lake))
    result = parquet_bloom.spark.pruned(frame, "id = 321")
    assert sorted_rows(result) == sorted_rows(frame.where("id = 321"))
    assert len(result.inputFiles()) == 8
    assert "all files are read" in caplog.text


def test_another_reader(orc_lake: Path, ask_orc: Any, spark: Any, conf: Any) -> None:
    with conf({"spark.sql.sources.useV1SourceList": ""}):
        assert ask_orc(orc_lake, "id = 321").files == 1


@pytest.mark.long
def test_connect(connect: Any, orc_lake: Path) -> None:
    code = """
where = eval(where) if where.startswith('F.') else where
frame = parquet_bloom.spark.read_orc(spark, path, where)
plain = spark.read.orc(path).where(where)
assert frame.schema == plain.schema
rows = sorted(map(repr, frame.toArrow().to_pylist()))
assert rows == sorted(map(repr, plain.toArrow().to_pylist()))
answer = [len(rows), len(frame.inputFiles())]
"""
    for where, result in {
        "id = 321": [1, 1],
        "F.col('id') == 321": [1, 1],
        "p = '02' AND id IN (3, 321)": [2, 2],
        "id = 5 AND i8 < 1000": [1, 1],
        "st.b = 'n1111'": [1, 4],
    }.items():
        assert connect.run(code, path=str(orc_lake), where=where) == result, where
    assert connect.run(code, path=str(orc_lake), where="id = -5")[0] == 0
    code = "df = parquet_bloom.spark.pruned(spark.read.orc(path), where); answer = [df.count(), len(df.inputFiles())]"
    assert connect.run(code, path=str(orc_lake), where="id = 321") == [1, 8]
