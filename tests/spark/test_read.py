"""read_parquet: the rows of Spark alone, from fewer files; and from all of them where anything is in doubt."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark.spark_metrics import planned_files
from support.writers import peers

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom import errors
from parquet_bloom.predicate import parse

pytestmark = pytest.mark.spark


def test_fewer_files_are_read(lake: str, ask_all: Any) -> None:
    """Each is answered from a few of the lake's 12 files."""
    wheres = [
        "ID = 4321",
        "4321 = id",
        "id = 4321 -- why not",
        "id IN (17, 4321, -5)",
        "id = 17 OR (id = 4321 AND s = 'u4321') OR s = 'u99'",
        "(id = 17) AND (s = 'u17' AND (i32 = 119))",
        "id = 4321.0",
        "id = 4321e0",
        "i16 = 4321",
        "i32 = 700",
        "i32 = 70000000000",
        "f32 = 100.125",
        "f64 = 100.125",
        "f64 = 100",
        "d9 = 700",
        "d9 = 700.000",
        "d18 = 700.00",
        "d38 = 4321",
        "s IN ('u1', 'u2')",
        "bin = X'6231'",
        "day = DATE '1990-01-11'",
        "day = '1990-01-11'",
        "ts = TIMESTAMP '2020-09-13 13:26:43.703701+01:00'",
        "ts = '2020-09-13 12:26:43.703701'",
        "ntz = TIMESTAMP_NTZ '2020-09-13 12:26:43.703701'",
        "ntz = TIMESTAMP '2020-09-13 12:26:43.703701'",
        "ntz = '2020-09-13 12:26:43.703701'",
        "st.a = 4321",
        "st.B.c = 'n4321'",
        "id = 4321 AND p = '02'",
        "p = 'a b%/ü{}' AND id = 5",
        "d = DATE '2020-01-01' AND id = 6",
        "d = '2020-01-01' AND id = 6",
        "(p = '02' AND id = 3) OR id = 5",
        "id = -1",
        "id = NULL",
        "id IN (NULL, 17)",
        "nothing = 'x'",
        # Spark evaluates these beforehand.
        "s = concat('u', '5')",
        "id = CAST('4321' AS BIGINT)",
        "id = 4000 + 321 AND length(s) > 1",
    ]
    for where, answer in ask_all(lake, wheres).items():
        assert (answer.files <= 6, answer.doubts) == (True, ""), where


def test_lists_are_conditions_as_well(lake: str, ask_all: Any) -> None:
    conditions = [
        ([("id", "=", 4321)], "id = 4321"),
        (("ID", "==", 4321), "id = 4321"),
        (
            [[("id", "in", [17, 18])], [("s", "=", "u4321"), ("p", "=", "02")]],
            "id IN (17, 18) OR s = 'u4321' AND p = '02'",
        ),
        ([("s", "in", ["it's \\ ${x} \n \"", "u7"])], "s = 'u7'"),
        ([("d38", "=", decimal.Decimal("4321.0000000000"))], "d38 = 4321"),
        ([("f64", "=", 100.125)], "f64 = 100.125D"),
        ([("f64", "=", float("inf"))], "f64 = double('inf')"),
        ([("bin", "=", b"b17")], "bin = X'623137'"),
        ([("day", "=", dt.date(1990, 1, 11))], "day = DATE '1990-01-11'"),
        ([("ts", "=", dt.datetime(2020, 9, 13, 12, 26, 43, 703701))], "ts = TIMESTAMP '2020-09-13 12:26:43.703701'"),
        ([("ts", "=", dt.datetime(1, 1, 1, tzinfo=dt.UTC))], "ts = TIMESTAMP '0001-01-01 00:00:00'"),
        (
            [("ntz", "=", dt.datetime(2020, 9, 13, 12, 26, 43, 703701))],
            "ntz = TIMESTAMP_NTZ '2020-09-13 12:26:43.703701'",
        ),
        ([("st.b.c", "in", ["n1", "n2"])], "st.b.c in ('n1', 'n2')"),
        ([("id", "in", [None, 5])], "id = 5"),
        ([("id", "=", None)], "id = NULL"),
        ([("id", "in", [])], "false"),
        ([("id", "in", list(range(0, 1_000_000, 5000)))], "id % 5000 = 0"),
        ([("flag", "=", True), ("id", "=", 4)], "flag AND id = 4"),
        (parse("id = 17 OR s = 'u18'"), "id = 17 OR s = 'u18'"),
    ]
    for native, answer in ask_all(lake, {native: where for where, native in conditions}).items():
        assert (answer.files <= 6, answer.doubts) == (True, ""), native


def test_unsupported_conditions_are_left_to_spark(lake: str, ask_all: Any, ask_spark: Any) -> None:
    wheres = [
        "abs(id) = 4321",
        "id = id",
        "s LIKE 'u432_'",
        "id % 10000 = 4321",
        "span = INTERVAL '5' SECOND",
        "li[0] = 5",
        "flag",
    ]
    for where, answer in ask_all(lake, wheres).items():
        assert answer.files == 12, where
    assert ask_spark(lake, "ma.k5 = 5").files == 1  # of a map
    assert ask_spark(lake, "_metadata.file_size = 0").files == 0  # which Spark knows of files that it has listed
    assert ask_spark(lake, "span = INTERVAL '5' SECOND").doubts[:20] == "all files are read: "
    for where in ("id = 4321 AND rand() >= 0", "id = 4321 AND rand(7) >= 0"):
        assert "not a plain function of a row" in ask_spark(lake, where).doubts
    assert ask_spark(lake, "id IN (SELECT 5)").files == 12


def test_orders_nulls_and_the_moment_of_a_query(lake: str, ask_all: Any) -> None:
    everything = ["NOT id = 5", "id = 4321 OR id > 5", "s NOT IN ('u5', 'u6')"]
    few = [
        "id = 4321 AND s > 'a'",
        "id = 4321 AND NOT day < DATE '1990-01-01' AND s IS NOT NULL",
        "id IN (5, 4321) AND s <> 'u7' AND id >= 0",
        "p IS NULL AND id = 4",
        "id BETWEEN 5 AND 6",
        "id > 5990",
        "id = 4321 OR id > 5990",
        "NOT (id <> 4321 OR s <> 'u4321')",
        "id <=> 4321",
    ]
    # One moment for all of a query: for its files and its rows.
    moments = ["day = current_date()", "day = CAST('today' AS DATE)", "ts = CAST('no' || 'w' AS TIMESTAMP)"]
    answers = ask_all(lake, [*everything, *few, *moments])
    for where in everything:
        assert (answers[where].files, answers[where].doubts) == (12, ""), where
    for where in few:
        assert (answers[where].files <= 6, answers[where].doubts) == (True, ""), where
    assert max(answers[where].files for where in moments) <= 6


def test_elements_of_lists(write: Any, ask_all: Any, ask_spark: Any) -> None:
    columns = [
        "id",
        "if(id % 9 = 0, null, if(id % 7 = 0, array(), array(id * 1000, null, id * 1000 + 1))) li",
        "array(cast(id as float) / 8, float(-0.0)) f",
        "array(concat('u', id)) s",
        "array(timestamp_micros(1600000000000000 + id * 1234567)) ts",
        "array(date_add(DATE '1990-01-01', cast(id as int))) day",
        "named_struct('t', array(id)) st",
        "array(array(id)) ll",
    ]
    path = write("lists", *columns, embed=["li", "f", "s", "ts", "day", "st.t"])
    few = [
        "array_contains(li, 17001)",
        "array_contains(li, 17001) OR array_contains(s, 'u18')",
        "array_contains(s, 'u17') AND array_contains(li, 17000.0)",
        "array_contains(day, DATE '1990-01-18')",
        "array_contains(ts, TIMESTAMP'2020-09-13 12:26:40Z')",
        "array_contains(st.t, 17)",
        "array_contains(ST.T, 17) AND NOT array_contains(li, 5)",
        "array_contains(f, 1.25e1)",
        "array_contains(li, 16)",  # nowhere
    ]
    everything = ["NOT array_contains(li, 17001)", "array_contains(f, 0)", "li IS NOT NULL AND array_contains(f, 0.0)"]
    answers = ask_all(path, [*few, *everything])
    for where in few:
        assert (answers[where].files <= 2, answers[where].doubts) == (True, ""), where
    for where in everything:
        assert (answers[where].files, answers[where].doubts) == (4, ""), where
    assert ask_spark(path, ("li", "contains", 17001), native="array_contains(li, 17001)").files == 1
    assert ask_spark(path, "array_contains(li, 17001)", row_groups=True).rows == 1
    unknown = ask_spark(path, "array_contains(ll, array(17L))")
    assert (unknown.files, unknown.doubts[:20]) == (4, "all files are read: ")


def test_values_of_maps(write: Any, ask_all: Any, ask_spark: Any) -> None:
    columns = [
        "id",
        "if(id % 9 = 0, null, map(concat('k', cast(id / 1000 as int)), id, 'all', if(id % 5 = 0, null, -id))) m",
        "map(id, concat('t', id)) t",
        "named_struct('m', map('a', id)) st",
    ]
    path = write("maps", *columns, embed=["m.key_value.key", "m.key_value.value", "t.key_value.key"])
    few = [
        "m['k17'] = 17001",
        "element_at(m, 'all') = -17",
        "m['all'] IN (-17, -18) OR m['nowhere'] = 5",
        "st.m['a'] > 190 AND id > 0",
        "st.m['a'] BETWEEN 17 AND 18",
        "t[17] = 't17'",
        "t[17] LIKE 't1%'",
        "t[17S] <=> 't17'",
        "st.m['a'] = 17",
        "ST.M['a'] = 17D AND NOT m['all'] = 5",
        "m['nowhere'] IS NOT NULL",
        "m['all'] <> 5 AND t[17] IS NOT NULL",
    ]
    everything = ["NOT m['all'] = 17", "m['all'] IS NULL", "m['nowhere'] <=> NULL", "coalesce(m['all'], 5) = 5"]
    answers = ask_all(path, [*few, *everything])
    for where in few:
        assert (answers[where].files <= 2, answers[where].doubts) == (True, ""), where
    for where in everything:
        assert answers[where].files == 4, where
    assert ask_spark(path, "m['all'] = -17", row_groups=True).rows == 1
    assert ask_spark(path, parse("m['all'] = -17"), native="m['all'] = -17").files == 1


def test_no_condition_and_chosen_columns(spark: Any, lake: str, rows: Any) -> None:
    read = parquet_bloom.spark.read_parquet
    assert rows(read(spark, lake)) == rows(spark.read.parquet(lake))
    frame = read(spark, lake, "id = 17", columns=["S", "p"])
    assert frame.columns == ["s", "p"]
    assert [tuple(row) for row in frame.collect()] == [("u17", "a b%/ü{}")]


def test_nothing_is_paid_when_most_files_are_left(lake: str, ask_spark: Any) -> None:
    answer = ask_spark(lake, "i8 IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)")
    assert answer.files == 12
    assert not answer.doubts
    assert "read 12 of 12 files" in answer.plan


def test_other_partitions_are_not_opened(spark: Any, lake: str, ask_spark: Any, tmp_path: Path) -> None:
    plan = ask_spark(lake, "p = '02' AND i8 = 0").plan
    assert "read 2 of 4 files, 10 of 20 row groups" in plan  # the other 8 are in partitions that Spark rules out
    copied = Path(shutil.copytree(lake, tmp_path / "lake"))
    for file in (copied / "p=02").rglob("*.parquet"):
        file.write_bytes(b"broken")
    schema = spark.read.parquet(lake).schema
    frame = parquet_bloom.spark.read_parquet(spark, copied, "p = 'a b%/ü{}' AND id = 5", schema=schema)
    assert (frame.count(), len(planned_files(frame))) == (1, 1)


def test_bad_conditions(spark: Any, lake: str) -> None:
    for where, error in (
        ("id = ", errors.PredicateError),
        ("nobody = 5", errors.PredicateError),
        ("id = 5; DROP TABLE x", errors.PredicateError),
        ([("nobody", "=", 5)], errors.UnknownColumnError),
        ([("id", "like", 5)], errors.PredicateError),
        ([("id", "=", 10**40)], errors.PredicateError),
        ([("s", "=", dt.time(1))], errors.PredicateError),
        ([("li", "=", 5)], errors.PredicateError),
        (5, errors.PredicateError),
    ):
        with pytest.raises(error) as caught:
            parquet_bloom.spark.read_parquet(spark, lake, where)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


def test_bad_paths_and_columns(spark: Any, lake: str, tmp_path: Path) -> None:
    with pytest.raises(errors.StorageError, match="there is no such file or folder"):
        parquet_bloom.spark.read_parquet(spark, tmp_path / "nowhere", "id = 5")
    with pytest.raises(errors.UnknownColumnError, match="'nobody'"):
        parquet_bloom.spark.read_parquet(spark, lake, "id = 5", columns=["id", "nobody"])
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    with pytest.raises(errors.ManagedTableError, match="Delta"):
        parquet_bloom.spark.read_parquet(spark, tmp_path / "table", "id = 5")
    for number in range(3):
        pq.write_table(pa.table({"id": [number]}), tmp_path / "table" / f"{number}.parquet")
    live = [tmp_path / "table" / "1.parquet", tmp_path / "table" / "2.parquet"]
    frame = parquet_bloom.spark.read_parquet(spark, live, "id = 1")
    assert (frame.count(), len(planned_files(frame))) == (1, 1)


# ------------------------------------------------------------------------------------- how Spark reads a condition


def test_settings_of_the_parser(write: Any, ask_spark: Any, conf: Any) -> None:
    path = write(
        "texts",
        "id",
        "if(id % 2 = 0, concat('a', char(92), 'n', id), concat('t', id)) s",
        "concat('t', id) t",
        embed=["s"],
    )
    with conf({"spark.sql.parser.escapedStringLiterals": "true"}):
        answer = ask_spark(path, r"s = 'a\n100'")
        assert (answer.rows, answer.files) == (1, 1)
    assert ask_spark(path, r"s = 'a\\n100'").files == 1
    with conf({"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}):
        answer = ask_spark(path, 's = "t"')
        assert (answer.rows, answer.files) == (100, 4)
    assert ask_spark(path, 's = "t1"').files == 1
    with conf({"spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true"}):
        assert ask_spark(path, "id = 1e2").rows == 1
    with conf({"words": "t1"}):
        answer = ask_spark(path, "s = '${words}'")
        assert (answer.rows, answer.files) == (1, 1)


def test_names_by_case(spark: Any, tmp_path: Path, ask_spark: Any, conf: Any) -> None:
    for number in range(4):
        table = pa.table({"UserId": [number, number + 10], "userid" if number > 9 else "other": [1, 2]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    parquet_bloom.spark.embed(spark, tmp_path, ["userid"])
    assert ask_spark(tmp_path, "userid = 12").files == 1
    assert ask_spark(tmp_path, [("USERID", "=", 12)], native="userid = 12").files == 1
    with conf({"spark.sql.caseSensitive": "true"}):
        assert ask_spark(tmp_path, "UserId = 12").files == 1
        with pytest.raises(errors.PredicateError):
            parquet_bloom.spark.read_parquet(spark, tmp_path, "userid = 12")
        with pytest.raises(errors.UnknownColumnError):
            parquet_bloom.spark.embed(spark, tmp_path, ["userid"], replace=True)


def test_two_columns_that_differ_in_case_only(spark: Any, tmp_path: Path, ask_spark: Any, conf: Any, rows: Any) -> None:
    for number in range(4):
        pq.write_table(pa.table({"a": [number], "A": [number + 100]}), tmp_path / f"{number}.parquet")
    with conf({"spark.sql.caseSensitive": "true"}):
        parquet_bloom.spark.embed(spark, tmp_path, ["a", "A"])
        assert ask_spark(tmp_path, "a = 2").files == 1
        assert ask_spark(tmp_path, "A = 102").files == 1
        assert ask_spark(tmp_path, "A = 2").rows == 0
    frame = parquet_bloom.spark.read_parquet(spark, tmp_path, "a = 2", schema="a BIGINT")
    with pytest.raises(Exception, match=r"(?i)duplicate field"):
        rows(frame)


def test_dotted_names(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    for number in range(4):
        table = pa.table({"a.b": [number], "c": [{"d.e": number, "d": {"e": number + 100}}]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    assert ask_spark(tmp_path, "`a.b` = 2").files == 1
    assert ask_spark(tmp_path, "c.d.e = 102").files == 4  # `c.d.e` and `c`.`d.e` have the same dotted name
    with pytest.raises(errors.PredicateError, match="matches 2 columns"):
        parquet_bloom.spark.read_parquet(spark, tmp_path, [("c.d.e", "=", 2)])


# ---------------------------------------------------------------------------------------------- how Spark compares

ANSI = pytest.mark.parametrize("ansi", ["true", "false"])


@ANSI
def test_texts_are_not_numbers(ansi: str, write: Any, ask_all: Any, conf: Any) -> None:
    path = write("texts", "id", "concat('0', id) s", "cast(id as decimal(5, 0)) d", embed=["id", "s", "d"])
    with conf({"spark.sql.ansi.enabled": ansi}):
        answers = ask_all(path, ["s = 5", "id = '5'", "id = ' 5'", "d = '5'", "s IN (5, 6)", "id IN (5, '6')"])
    assert (answers["s = 5"].rows, answers["s = 5"].files) == (1, 4)
    assert answers["d = '5'"].rows == 1


@ANSI
def test_numbers_are_rounded_to_a_common_type(ansi: str, write: Any, ask_all: Any, conf: Any) -> None:
    path = write(
        "numbers",
        "9007199254740900 + id i",
        "cast(id as float) / 10 f",
        "cast(16777200 + id as float) g",
        "cast(concat('0.', lpad(id, 38, '9')) as decimal(38, 38)) d",
        "cast(id as decimal(38, 10)) e",
        "cast(id / 10 as decimal(12, 1)) t",
        embed=["i", "f", "g", "d", "e", "t"],
    )
    with conf({"spark.sql.ansi.enabled": ansi}):
        wheres = [
            "i = 9007199254740993",
            "i = 9007199254740993e0",
            "i IN (9007199254740993, 1e0)",
            "i = 9007199254740993.0",
            "i = 9007199254740993.0000000000000000000000",
            "i = 9007199254740993.0000000000000000000001",
            "f = 0.1",
            "f = 1.5",
            "f = 1e-1",
            "g = 16777217",
            "g = 16777216",
            "g IN (16777217, 5)",
            "d = 1",
            "d = 0.99999999999999999999999999999999999995",
            "d = 0.9999999999999999999999999999999999999",
            "e = 5",
            "e = 5.00000000000000000000000000000000001",
            "e = 5e0",
            "t = 1.1e0",
            "t = 1.1",
            "t IN (1.1, 1.25, 7)",
        ]
        answers = ask_all(path, wheres)
    assert answers["i = 9007199254740993"].files == 1
    assert answers["i IN (9007199254740993, 1e0)"].rows > 1
    assert answers["i = 9007199254740993.0000000000000000000001"].rows == 1  # a digit too many for Spark
    assert answers["d = 1"].rows > 1
    assert answers["t = 1.1e0"].files == 1


def test_zeros_and_nan(write: Any, ask_all: Any) -> None:
    """Spark's own filters know the one zero that was written, and are trusted by its tasks."""
    options = {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.expected.ndv": 100}
    values = "case id when 5 then -0.0D when 6 then double('NaN') else id + 0.25D end x"
    by_spark = write("by_spark", "id", values, "cast(id as float) y", files=4, **options)
    wheres: dict[str, Any] = {text: text for text in ("x = 0.0", "x = -0.0e0", "x IN (0, 1.25)", "x = 0", "y = 0.0")}
    wheres["x = double('NaN')"] = [("x", "=", float("nan"))]
    wheres["x IN (double('NaN'), 0)"] = [("x", "in", [float("nan"), 0.0])]
    assert ask_all(by_spark, wheres)["x = 0.0"].rows == 1
    by_us = write("by_us", "id", values, embed=["x"])
    answers = ask_all(by_us, {text: where for text, where in wheres.items() if text[0] == "x"})
    assert answers["x = 0.0"].files == 1
    assert answers["x = double('NaN')"].rows == 1


def test_collations(write: Any, ask_spark: Any) -> None:
    path = write("collated", "id", "concat('Key', id) collate UTF8_LCASE s", "concat('Key', id) t", embed=["s", "t"])
    answer = ask_spark(path, "s = 'kEY7'")
    assert (answer.rows, answer.files) == (1, 4)
    assert "collation UTF8_LCASE" in answer.doubts
    assert ask_spark(path, [("s", "=", "key7")], native="s = 'key7'").rows == 1
    assert ask_spark(path, "t COLLATE UTF8_LCASE = 'key7'").rows == 1
    assert ask_spark(path, "t = 'key7' COLLATE UTF8_LCASE").rows == 1
    assert ask_spark(path, "t = 'Key7'").files == 1


def test_padded_texts(spark: Any, tmp_path: Path, ask_all: Any) -> None:
    path = tmp_path / "padded"
    try:
        spark.sql(f"CREATE TABLE padded (c CHAR(5), v VARCHAR(5), id INT) USING parquet LOCATION '{path}'")
        spark.sql("INSERT INTO padded SELECT concat('c', id), concat('v', id), id FROM range(0, 40, 1, 4)")
        schema = spark.table("padded").schema
    finally:
        spark.sql("DROP TABLE IF EXISTS padded")
    parquet_bloom.spark.embed(spark, path, ["c", "v"])
    for row_groups in (False, True):
        ask_all(path, ["c = 'c7'", "c = 'c7   '", "v = 'v7'"], schema=schema, row_groups=row_groups)


# ------------------------------------------------------------------------------------------------ dates and times


@pytest.mark.parametrize(
    ("zone", "ansi"), [("America/Los_Angeles", "true"), pytest.param("+05:30", "false", marks=pytest.mark.long)]
)
def test_session_time_zones(zone: str, ansi: str, write: Any, ask_all: Any, conf: Any) -> None:
    with conf({"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}):
        path = write(
            "moments",
            "timestamp_seconds(1604215800 + id * 3 % 200 * 900) ts",  # half an hour before clocks are set back
            "TIMESTAMP_NTZ '2020-03-08 00:30:00' + make_dt_interval(0, 0, 0, id * 3 % 200 * 1800) ntz",  # skips an hour
            "id",
            embed=["ts", "ntz"],
        )
        wheres = [
            "ts = TIMESTAMP '2020-11-01 01:30:00'",
            "ts = TIMESTAMP '2020-11-01 03:30:00'",
            "ntz = TIMESTAMP_NTZ '2020-03-08 11:30:00'",
            "ts = '2020-11-01 01:30:00'",
            "ts IN ('2020-11-01 01:30:00')",
            "ts IN ('2020-11-01 01:30:00', '2020-11-01 03:30:00')",
            "ts = DATE '2020-11-02'",
            "ts = TIMESTAMP_NTZ '2020-11-01 01:30:00'",
            "ts = TIMESTAMP '2020-11-01 10:30:00 UTC'",
            "ntz = TIMESTAMP '2020-03-08 03:30:00'",
            "ntz = TIMESTAMP_NTZ '2020-03-08 02:30:00'",
            "ntz = '2020-03-08 02:30:00'",
            "ntz = '2020-03-08 02:30:00Z'",
            "ntz = DATE '2020-03-09'",
            "ntz IN (TIMESTAMP_NTZ '2020-03-08 10:30:00', TIMESTAMP_NTZ '2020-03-08 11:30:00')",
        ]
        answers = ask_all(path, wheres)
        assert answers["ts = TIMESTAMP '2020-11-01 03:30:00'"].files <= 1
        assert answers["ntz = TIMESTAMP_NTZ '2020-03-08 11:30:00'"].files == 1


def test_a_day_whose_midnight_is_skipped(write: Any, ask_spark: Any, conf: Any) -> None:
    with conf({"spark.sql.session.timeZone": "America/Sao_Paulo"}):
        path = write("days", "date_add(DATE '2018-10-01', cast(id as int)) day", embed=["day"])
        assert ask_spark(path, "day = TIMESTAMP '2018-11-04 01:00:00'").rows == 1
        assert ask_spark(path, "day = DATE '2018-11-04'").files == 1


def test_timestamps_by_default_without_zone(write: Any, ask_spark: Any, conf: Any) -> None:
    path = write(
        "stamps", "timestamp_seconds(id) ts", "cast(timestamp_seconds(id) as timestamp_ntz) ntz", embed=["ts", "ntz"]
    )
    with conf({"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "America/Los_Angeles"}):
        assert ask_spark(path, "ntz = TIMESTAMP '1970-01-01 00:00:07'").files == 1
        assert ask_spark(path, "ts = TIMESTAMP '1969-12-31 16:00:07'").files == 1
        assert ask_spark(path, "ts = TIMESTAMP_LTZ '1969-12-31 16:00:07'").files == 1


@pytest.mark.parametrize("stored", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_fractions_of_seconds(stored: str, write: Any, ask_all: Any, conf: Any) -> None:
    with conf({"spark.sql.parquet.outputTimestampType": stored}):
        path = write(
            "fine", "timestamp_micros(id * 1000) ts", "timestamp_micros(id * 1001) tt", "id", embed=["ts", "tt"]
        )
    wheres = [
        "ts = TIMESTAMP '1970-01-01 00:00:00.007'",
        "ts = TIMESTAMP '1970-01-01 00:00:00.0070009'",  # Spark cuts off what is finer than a microsecond
        "ts = '1970-01-01 00:00:00.0070009'",
        "ts = TIMESTAMP '1970-01-01 00:00:00.007001'",
        "tt = TIMESTAMP '1970-01-01 00:00:00.007007'",
        "tt = TIMESTAMP '1970-01-01 00:00:00.007'",
    ]
    assert ask_all(path, wheres)["ts = TIMESTAMP '1970-01-01 00:00:00.007'"].files == 1


def test_nanoseconds_that_spark_cuts_off(spark: Any, tmp_path: Path, ask_spark: Any, rows: Any) -> None:
    path = tmp_path / "by_arrow"
    path.mkdir()
    for number in range(4):
        table = pa.table({"ts": pa.array([number * 1_000_000 + 789], pa.timestamp("ns"))})
        pq.write_table(table, path / f"{number}.parquet", use_deprecated_int96_timestamps=True)
    parquet_bloom.spark.embed(spark, path, ["ts"])
    where = "ts = TIMESTAMP '1970-01-01 00:00:00.003'"
    assert ask_spark(path, where).rows == 1
    # What Spark once wrote and another writer wrote again keeps Spark's marks.
    for file in path.iterdir():
        table = pq.read_table(file).replace_schema_metadata({"org.apache.spark.version": "4.0.0"})
        pq.write_table(table, file, use_deprecated_int96_timestamps=True)
    parquet_bloom.spark.embed(spark, path, ["ts"])
    assert ask_spark(path, where).rows == 1


LEGACY = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}


@pytest.mark.parametrize("stored", ["INT96", "TIMESTAMP_MICROS"])
def test_legacy_calendar(stored: str, write: Any, ask_spark: Any, ask_all: Any, conf: Any) -> None:
    columns = ("date_add(DATE '1500-01-01', cast(id as int)) day", "timestamp_seconds(id - 14830000000) ts", "id")
    with conf(LEGACY | {"spark.sql.parquet.outputTimestampType": stored}):
        path = write("old", *columns, embed=["day", "ts", "id"])
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=7 - 14830000000)
    wheres = ["day = DATE '1500-01-08'", f"ts = TIMESTAMP '{moment}'"]
    for row_groups in (False, True):
        for answer in ask_all(path, wheres, row_groups=row_groups).values():
            assert (answer.rows, answer.files) == (1, 4)
    assert ask_spark(path, "id = 7").files == 1
    assert ask_spark(path, "id = 7", row_groups=True).rows == 1


def test_legacy_calendar_of_int96_alone(write: Any, ask_spark: Any, conf: Any) -> None:
    """Spark notes the calendar of INT96 under a key of its own."""
    settings = {key: value for key, value in LEGACY.items() if "int96" in key}
    with conf(settings | {"spark.sql.parquet.outputTimestampType": "INT96"}):
        path = write("old96", "timestamp_seconds(id - 14830000000) ts", "id", embed=["ts", "id"])
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=7 - 14830000000)
    answer = ask_spark(path, f"ts = TIMESTAMP '{moment}'")
    assert (answer.rows, answer.files) == (1, 4)


def test_files_of_unknown_age(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    for number in range(4):
        pq.write_table(pa.table({"day": [dt.date(1500, 1, 10 + number)]}), tmp_path / f"{number}.parquet")
    parquet_bloom.spark.embed(spark, tmp_path, ["day"])
    assert ask_spark(tmp_path, "day = DATE '1500-01-12'").files == 1
    answer = ask_spark(tmp_path, "day = DATE '1500-01-03'", datetimeRebaseMode="LEGACY")
    assert (answer.rows, answer.files) == (1, 4)


# ------------------------------------------------------------------------------------- files of different schemas


def test_columns_added_later(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    path = tmp_path / "evolved"
    spark.range(0, 20, 1, 2).selectExpr("id").write.parquet(str(path))
    spark.range(20, 40, 1, 2).selectExpr("id", "id * 2 x").write.mode("append").parquet(str(path))
    report = parquet_bloom.spark.embed(spark, path, ["id", "x"])
    assert sorted(file.missing for file in report.files) == [(), (), ("x",), ("x",)]
    assert report.num_filters == 6
    for row_groups in (False, True):
        assert ask_spark(path, "id = 5", mergeSchema=True, row_groups=row_groups).files <= 1
        # The old files are read: they might have a default.
        answer = ask_spark(path, "x = 50", mergeSchema=True, row_groups=row_groups)
        assert answer.rows == 1
        assert "read 3 of 4 files" in answer.plan


def test_columns_with_a_default(spark: Any, tmp_path: Path, ask_all: Any) -> None:
    path = tmp_path / "defaults"
    try:
        spark.sql(f"CREATE TABLE defaults (id INT) USING parquet LOCATION '{path}'")
        spark.sql("INSERT INTO defaults SELECT id FROM range(0, 8, 1, 4)")
        spark.sql("ALTER TABLE defaults ADD COLUMN (x INT DEFAULT 42)")
        spark.sql("INSERT INTO defaults SELECT id, id FROM range(10, 12, 1, 2)")
        schema = spark.table("defaults").schema
    finally:
        spark.sql("DROP TABLE IF EXISTS defaults")
    parquet_bloom.spark.embed(spark, path, ["id", "x"])
    for row_groups in (False, True):
        answers = ask_all(
            path, ["x = 42", "x = 10", "id = 3", "id = 3 AND x = 42"], schema=schema, row_groups=row_groups
        )
        assert [answer.rows for answer in answers.values()] == [8, 1, 1, 1]


def test_types_that_differ_from_file_to_file(spark: Any, tmp_path: Path, rows: Any) -> None:
    for number, arrow in enumerate([pa.int32(), pa.int64(), pa.int16(), pa.uint8(), pa.int32(), pa.int32()]):
        table = pa.table(
            {"i": pa.array([number, number + 100], arrow), "f": pa.array([number + 0.1] * 2, pa.float32())}
        )
        pq.write_table(table, tmp_path / f"{number}.parquet")
    parquet_bloom.spark.embed(spark, tmp_path, ["i", "f"])
    for schema, where in (
        ("i BIGINT, f DOUBLE", "i = 103"),
        ("i BIGINT, f DOUBLE", "f = 3.1"),
        ("i BIGINT, f DOUBLE", "f = 3.0999999046325684e0"),
        ("i DECIMAL(20, 0), f FLOAT", "i = 103"),
        ("i DOUBLE, f FLOAT", "i = 103"),
    ):
        plain = spark.read.schema(schema).option("parquet.filter.bloom.enabled", "false").parquet(str(tmp_path))
        for row_groups in (False, True):
            try:
                expected = rows(plain.where(where))
            except Exception:
                expected = None  # Spark cannot read them so
            frame = parquet_bloom.spark.read_parquet(spark, tmp_path, where, schema=schema, row_groups=row_groups)
            if expected is not None:
                assert rows(frame) == expected


def test_narrower_than_in_the_file(spark: Any, tmp_path: Path, rows: Any) -> None:
    """Spark truncates integers to the requested type, if it reads them at all."""
    for number in range(4):
        values = {
            "b": pa.array([number + 256, 0, 300], pa.int32()),
            "u": pa.array([2**32 - 1 - number, 0, 2**31], pa.uint32()),
        }
        pq.write_table(pa.table(values), tmp_path / f"{number}.parquet", use_dictionary=False)
    parquet_bloom.spark.embed(spark, tmp_path, ["b", "u"])
    results = []
    for schema, where in (
        ("b BYTE", "b = 2"),
        ("b SHORT", "b = 258"),
        ("u INT", "u = -1"),
        ("u LONG", "u = 4294967295"),
    ):
        plain = spark.read.schema(schema).option("parquet.filter.bloom.enabled", "false").parquet(str(tmp_path))
        try:
            expected = rows(plain.where(where))
        except Exception:
            continue  # this Spark does not read it so
        results += expected
        assert rows(parquet_bloom.spark.read_parquet(spark, tmp_path, where, schema=schema)) == expected
    assert "{'b': 2}" in results


def test_other_writers(spark: Any, tmp_path: Path, ask_spark: Any, ask_all: Any) -> None:
    table = peers.arrow_table(
        ["i8", "u8", "u16", "u32", "u64", "i32", "d4", "str", "bin", "tz_us", "ts_us", "bool", "st"]
    )
    path = tmp_path / "by_arrow"
    path.mkdir()
    for number in range(3):
        pq.write_table(table.slice(number * peers.DISTINCT, peers.DISTINCT), path / f"{number}.parquet")
    parquet_bloom.spark.embed(spark, path, ["u8", "u16", "u32", "u64", "str", "tz_us", "ts_us"])
    wheres = []
    for column in ("u8", "u16", "u32", "u64"):
        values = [value for value in peers.column_rows(column) if value is not None]
        wheres += [f"{column} = {value}" for value in (values[7], max(values))]
    assert all(answer.rows for answer in ask_all(path, wheres).values())
    for row_groups in (False, True):
        ask_spark(path, "u64 = 18446744073709551615", row_groups=row_groups)
        ask_spark(path, f"u32 = {peers.group_values('u32', 1)[9]}", row_groups=row_groups)


# --------------------------------------------------------------------------------------------- files and folders


def test_names_of_folders(spark: Any, tmp_path: Path) -> None:
    for name in ("with blank 100%", "a%20b#", "ünïcode 日本", "{a,b}", "[x]*?", "back\\slash"):
        folder = tmp_path / name
        for part in ("p=1", "p=02", "p=__HIVE_DEFAULT_PARTITION__"):
            (folder / part).mkdir(parents=True)
            for number in range(2):
                pq.write_table(pa.table({"id": [number, len(part)]}), folder / part / f"f {number}%.parquet")
        report = parquet_bloom.spark.embed(spark, folder, ["id"])
        assert (report.embedded_files, report.ok) == (6, True)
        files, exact = (
            parquet_bloom.spark.read_parquet(spark, folder, "id = 4", row_groups=row_groups).select("id", "p")
            for row_groups in (False, True)
        )
        last = parquet_bloom.spark.read_parquet(spark, f"file://{folder}", [("id", "=", 1), ("p", "=", 2)])
        assert len(planned_files(last)) == 1
        rows = [tuple(row) for row in files.unionAll(exact).unionAll(last).collect()]
        assert rows == [(4, 2)] * 4 + [(1, 2)]


def test_spellings_of_paths(spark: Any, write: Any, ask_spark: Any) -> None:
    path = write("spelled out", "id", embed=["id"])
    files = sorted(path.glob("*.parquet"))
    assert ask_spark([*map(str, files)], "id = 77").files == 1
    (uri,) = spark.read.parquet(str(path)).where("id = 77").select("_metadata.file_path").first()
    spelled = [f"file:{path}", f"file://{path}", f"{path}/", f"{path}/*", f"{path.parent}/spel*", uri]
    spelled.append(f"../../../../../../../../../..{path}")
    frames = [parquet_bloom.spark.read_parquet(spark, each, "id = 77") for each in spelled]
    assert [len(planned_files(frame)) for frame in frames] == [1] * len(spelled)
    complete = functools.reduce(lambda one, other: one.unionAll(other), frames)
    assert [row.id for row in complete.collect()] == [77] * len(spelled)


def test_files_given_twice_are_read_twice(write: Any, ask_spark: Any) -> None:
    path = write("twice", "id", embed=["id"])
    file = next(path.glob("*.parquet"))
    for paths in ([path, path], [path, file], [f"{path}/*", path], f"{path.parent}/{{twice,tw*}}"):
        assert ask_spark(paths, "id = 7").rows >= 1


def test_base_path(write: Any, spark: Any, ask_spark: Any, tmp_path: Path) -> None:
    for year in (2024, 2025):
        frame = spark.range(0, 40, 1, 2).selectExpr("id", "id % 2 m")
        frame.write.partitionBy("m").parquet(str(tmp_path / f"years/y={year}"))
    base = tmp_path / "years"
    parquet_bloom.spark.embed(spark, base, ["id"])
    assert ask_spark(base, "id = 7 AND y = 2024").files == 1
    assert ask_spark(base / "y=2024", "id = 7").files == 1
    assert ask_spark(f"{base}/y=2024/m=*", "id = 7").files == 1
    assert ask_spark(base, "id = 7", recursiveFileLookup=True).files == 2
    for row_groups in (False, True):
        both = [base / "y=2024", base / "y=2025"]
        assert ask_spark(both, "id = 7", basePath=str(base), row_groups=row_groups).rows == 2
        assert ask_spark(f"{base}/y=*/m=1", "id = 7", basePath=str(base), row_groups=row_groups).rows == 2
    nested = tmp_path / "nested"
    for folder in (nested, nested / "below"):
        spark.range(0, 40, 1, 2).write.parquet(str(folder))
    assert ask_spark(nested, "id = 7").rows == 1  # Spark does not list below a folder without partitions


def test_a_partition_column_that_the_files_have_as_well(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    for value in (1, 2, 3):
        spark.range(0, 20, 1, 1).selectExpr("7 p", "id", "id x").write.parquet(str(tmp_path / f"p={value}"))
    parquet_bloom.spark.embed(spark, tmp_path, ["p", "id"])
    for row_groups in (False, True):
        assert ask_spark(tmp_path, "p = 2 AND id = 5", row_groups=row_groups).rows == 1
        assert ask_spark(tmp_path, "p = 7 AND id = 5", row_groups=row_groups).rows == 0


def test_values_of_partitions(spark: Any, tmp_path: Path, ask_all: Any) -> None:
    texts = {
        "2020-01-01 00%3A00%3A00": "2020-01-01 00:00:00",
        "1.5": "1.5",
        "9223372036854775808": None,
        "%C3%A9": "Ã©",
    }
    for number, (name, text) in enumerate(texts.items()):
        for part in (f"p={name}", "p=__HIVE_DEFAULT_PARTITION__"):
            folder = tmp_path / str(number) / part
            folder.mkdir(parents=True)
            for file in range(3):
                pq.write_table(pa.table({"id": [file]}), folder / f"{file}.parquet")
        for row_groups in (False, True):
            wheres = ["id = 1", f"id = 1 AND p = '{text or name}'"]
            answers = ask_all(tmp_path / str(number), wheres, row_groups=row_groups)
            assert [answer.rows for answer in answers.values()] == [2, 1], name


def test_many_survivors(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    for number in range(90):
        pq.write_table(pa.table({"id": [number], "k": [number % 2]}), tmp_path / f"{number}.parquet")
    assert ask_spark(tmp_path, "k = 1").files == 45
    assert spark.conf.get(key, None) is None
    spark.conf.set(key, "7")
    try:
        assert ask_spark(tmp_path, "k = 1").files == 45
        assert spark.conf.get(key) == "7"
    finally:
        spark.conf.unset(key)


# ------------------------------------------------------------------------------------------------- broken things


def test_broken_files_are_left_to_spark(spark: Any, write: Any, rows: Any, caplog: pytest.LogCaptureFixture) -> None:
    path = write("broken", "id", embed=["id"])
    (path / "broken.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")
    frame = parquet_bloom.spark.read_parquet(spark, path, "id = 7", schema="id BIGINT")
    with pytest.raises(Exception, match=r"broken\.parquet"):
        rows(frame)
    with caplog.at_level("WARNING", "parquet_bloom.spark"):
        frame = parquet_bloom.spark.read_parquet(spark, path, "id = 7", schema="id BIGINT", ignoreCorruptFiles=True)
    assert "broken.parquet is left to Spark" in caplog.text
    assert [tuple(row) for row in frame.collect()] == [(7,)]
    assert len(planned_files(frame)) == 2


def test_broken_filters_are_not_trusted_by_spark_either(spark: Any, write: Any, ask_spark: Any) -> None:
    path = write("zeroed", "id * 3 id", files=6, embed=["id"])
    assert spark.read.parquet(str(path)).where("id = 21").count() == 1
    for file in path.glob("*.parquet"):
        peers.with_zeroed_filters(file, file)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    assert spark.read.parquet(str(path)).where("id = 21").count() == 0  # Spark asks our filters, now empty
    assert ask_spark(path, "id = 21").rows == 1


def test_a_streaming_sink(spark: Any, tmp_path: Path, ask_spark: Any) -> None:
    spark.range(0, 40, 1, 4).write.parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "source")).writeStream
    sink = tmp_path / "sink"
    query = stream.format("parquet").option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
    query.start(str(sink)).awaitTermination()
    answer = ask_spark(sink, "id = 7")
    assert answer.rows == 1
    assert "streaming sink" in answer.doubts
    before = {file: file.read_bytes() for file in sink.rglob("*") if file.is_file()}
    for path in (sink, next(sink.glob("*.parquet")), [sink]):
        with pytest.raises(errors.ManagedTableError, match="streaming sink"):
            parquet_bloom.spark.embed(spark, path, ["id"])
    assert {file: file.read_bytes() for file in sink.rglob("*") if file.is_file()} == before
