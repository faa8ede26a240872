"""The data source `parquet_bloom`: rows, types and row groups, held against Spark's own reading without filters."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.spark.source.datasource import FileListing
from parquet_bloom.spark.source.source_options import Options, read_settings
from parquet_bloom.spark.spark_partitions import parse_value

pytestmark = pytest.mark.spark

EVERY_ROW_GROUP = 1 << 20  # tasks wanted: more than there are row groups, each of which is one then
NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(scope="module", autouse=True)
def registered(spark: Any, interpreted: None) -> None:
    parquet_bloom.spark.register(spark)


@pytest.fixture
def load(spark: Any) -> Callable[..., Any]:
    """The data source's DataFrame of a path."""

    def loaded(path: Any, schema: Any = None, **options: Any) -> Any:
        reader = spark.read.format("parquet_bloom").options(**options)
        return (reader.schema(schema) if schema else reader).load(str(path))

    return loaded


@pytest.fixture
def check_against_spark(load: Any, rows: Any, without_filters: Any) -> Callable[..., Any]:
    """Ask with a condition, pruned by it, hold rows and schema against Spark's own; the DataFrame is returned."""

    def ask(path: Any, where: str | None = None, prune: str | None = None, **options: Any) -> Any:
        if where:
            options = {"prune": prune or where, "numPartitions": EVERY_ROW_GROUP} | options
        result, native = load(path, **options), without_filters(str(path))
        assert result.schema == native.schema
        assert rows(result.where(where) if where else result) == rows(native.where(where) if where else native)
        return result

    return ask


@pytest.mark.parametrize(
    ("where", "num_row_groups"),
    [
        ("id = 77", 1),
        ("ts = TIMESTAMP '2020-09-13 12:26:43.703701'", 1),
        ("ts = TIMESTAMP '0001-01-01 00:00:00'", 2),
        ("ts = TIMESTAMP '9999-12-31 23:59:59.999999'", 2),
        ("ntz = TIMESTAMP_NTZ '2020-09-13 12:26:43.703701'", 1),
        ("p = '02' AND i8 = 0", 10),
        ("p IS NULL AND day = '1990-03-01' OR p IS NULL AND id = 4", 1),
        ("d = DATE '2020-01-01' AND NOT i16 <> 10", 1),
        ("st.b.c = 'n77'", 1),
        ("bin = X'623737'", 1),
        ("d38 = 77 OR f64 = 9.625 OR array_contains(li, 78)", 2),
        ("id = -1", 1),  # Spark makes one task of none
    ],
)
def test_rows_of_every_type(where: str, num_row_groups: int, lake: str, check_against_spark: Any) -> None:
    queried = check_against_spark(lake, where).rdd.getNumPartitions()
    # A false positive of some filter is one more row group.
    assert num_row_groups <= queried <= num_row_groups + 2


def test_everything(lake: str, check_against_spark: Any, load: Any) -> None:
    matches = check_against_spark(lake)
    assert matches.rdd.getNumPartitions() < 12
    assert load(lake, numPartitions=EVERY_ROW_GROUP).rdd.getNumPartitions() == 60


def test_one_dataframe_for_several_queries(lake: str, load: Any, rows: Any, without_filters: Any, conf: Any) -> None:
    """Spark keeps what a Python data source makes of pushed filters for the next query."""
    with conf({"spark.sql.python.filterPushdown.enabled": "true"}):
        result, native = load(lake, columns="id,s"), without_filters(lake).select("id", "s")
        for query in ("id = 5", "id = 77", "s = 'u78'", "id % 1000 = 7", "true"):
            assert rows(result.where(query)) == rows(native.where(query))
        for one, other in (("id = 5", "true"), ("id < 50", "id > 40")):
            both = result.where(one).join(result.where(other).selectExpr("id", "s t"), "id")
            assert both.count() == native.where(f"({one}) AND ({other})").count()


def test_random_conditions(spark: Any, lake: str, load: Any, without_filters: Any) -> None:
    draw = random.Random(7)
    texts = [_condition(draw) for _ in range(16)]
    expected = without_filters(lake).select(*(F.count(F.when(F.expr(text), 1)) for text in texts)).first()
    schema = without_filters(lake).schema
    frames = [load(lake, schema, prune=text).where(text).select(F.lit(number)) for number, text in enumerate(texts)]
    numbers = [row[0] for row in functools.reduce(lambda one, other: one.unionAll(other), frames).collect()]
    assert {text: numbers.count(number) for number, text in enumerate(texts)} == dict(zip(texts, expected, strict=True))
    assert sum(map(bool, expected)) > 6


def _condition(draw: random.Random) -> str:
    def literal(name: str, number: int) -> str:
        moment = f"2020-09-13 12:{26 + number * 1234567 // 60_000_000 % 30}:{40 + number % 20}"
        return {
            "id": f"{number}",
            "i8": f"{number % 128}",
            "i16": f"{number}",
            "i32": f"{number * 7}",
            "d9": f"{number * 7}.00",
            "s": f"'u{number}'",
            "bin": f"X'{f'b{number}'.encode().hex()}'",
            "day": f"DATE '{1990 + number // 400}-03-01'",
            "ts": f"TIMESTAMP '{moment}'",
            "ntz": f"TIMESTAMP_NTZ '{moment}'",
            "st.a": f"{number}",
            "p": draw.choice(["'02'", "'a b%/ü{}'", "'none'"]),
            "d": f"DATE '2020-01-0{number % 3 + 1}'",
        }[name]

    def term() -> str:
        name = draw.choice(["id", "i8", "i16", "i32", "d9", "s", "bin", "day", "ts", "ntz", "st.a", "p", "d"])
        number = draw.randrange(6000)
        kind = draw.choice(["=", "=", "=", "<=>", "<>", "<", ">=", "IN", "NOT IN", "IS NULL", "IS NOT NULL"])
        if kind.endswith("NULL"):
            return f"{name} {kind}"
        if kind.endswith("IN"):
            return f"{name} {kind} ({', '.join(literal(name, number * factor % 6000) for factor in (1, 3, 7))})"
        return f"{name} {kind} {literal(name, number)}"

    terms = [term() for _ in range(draw.choice([1, 1, 2, 3]))]
    text = draw.choice([" AND ", " OR "]).join(terms)
    return f"NOT ({text})" if draw.random() < 0.2 else text


def test_nothing_else_is_read(spark: Any, write: Any, load: Any) -> None:
    """Row groups that are ruled out may be rubbish."""
    path = write("spoiled", "id", "concat('text', id) s", rows=4000, files=2, **{"parquet.block.row.count.limit": 500})
    assert parquet_bloom.spark.embed(spark, path, ["s"]).ok
    (retained,) = parquet_bloom.prune(path, "s = 'text77'").selected.items()
    for file in path.glob("*.parquet"):
        for number in range(4):
            if (str(file), [number]) != retained:
                group = pq.read_metadata(file).row_group(number)
                with file.open("r+b") as data:
                    data.seek(group.column(0).dictionary_page_offset or group.column(0).data_page_offset)
                    data.write(b"\xff" * sum(group.column(n).total_compressed_size for n in range(group.num_columns)))
    assert load(path, prune="s = 'text77'").where("s = 'text77'").collect() == [(77, "text77")]
    with pytest.raises(Exception, match=r"\.parquet: cannot be read: "):
        load(path).collect()


def test_pages_that_are_ruled_out(tmp_path: Path, check_against_spark: Any) -> None:
    count = 200_000
    numbers = pa.array(range(count), pa.int64())
    table = pa.table(
        {
            "id": numbers,
            "s": numbers.cast(pa.string()),
            "ts": numbers.cast(pa.timestamp("us")),
            "l": pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), numbers),
            "n": pa.array([None if number % 3 == 0 else number for number in range(count)], pa.int32()),
        }
    )
    options = {"write_page_index": True, "data_page_size": 1 << 14, "use_dictionary": False}
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, **options)
    assert 0 < check_against_spark(tmp_path, "id IN (77, 123456)").count() < count // 10
    assert 0 < check_against_spark(tmp_path, "id BETWEEN 99999 AND 100001 OR n = 7").count() < count // 10
    assert check_against_spark(tmp_path, "id = 77 AND n = 123457").count() == 0
    assert check_against_spark(tmp_path, "ts = TIMESTAMP '1970-01-01 00:00:00.000077'").count() == count


TEXTS = [
    ["02", "1", "-7", "+3"],
    ["1", "12345678901", NULL],
    ["1", "x"],
    ["1.5", "2", "1e-5", "NaN", "Infinity", ".5", "1d", " 1", "-0.0"],
    ["12345678901234567890", "1"],
    ["12345678901234567890123456789012345678", "12345678901"],
    ["12345678901234567890", "1.5"],
    ["12345678901", "1.5"],
    ["9" * 40],
    ["2020-01-01", "2020-02-30"],
    ["2020-01-01", "0001-01-01"],
    ["2020-01-01 00:00:00", "2020-01-01", "2020-07-01 12:30:00.5"],
    ["2020-01-01 00:00:00.123", "2020-01-01T00:00:00", "2020-1-1", "2020-01-01 25:00:00"],
    ["1", "2020-01-01"],
    ["true", "a=b", "ü %{}[]", "1_000", "-"],
    [NULL],
]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "GMT+5:30"])
def test_types_of_partitions(zone: str, spark: Any, tmp_path: Path, conf: Any) -> None:
    with conf({"spark.sql.session.timeZone": zone}):
        settings = read_settings(spark)
        for number, texts in enumerate(TEXTS if zone == "UTC" else [TEXTS[11]]):
            for position, text in enumerate(texts):
                folder = (
                    tmp_path
                    / str(number)
                    / f"k={text if text == NULL else quote(text, safe=' +-.').replace('%C3%BC', 'ü')}"
                )
                folder.mkdir(parents=True)
                pq.write_table(pa.table({"place": [position]}), folder / "a.parquet")
            native = spark.read.parquet(str(tmp_path / str(number)))
            schema = FileListing(Options({"path": str(tmp_path / str(number))}, settings)).schema()
            assert schema == native.schema, texts
            expected = dict(native.collect())
            for position, text in enumerate(texts):
                value = parse_value(None if text == NULL else text, schema["k"].dataType, zone)
                value = value.astimezone().replace(tzinfo=None) if getattr(value, "tzinfo", None) else value
                assert repr(value) == repr(expected[position]), text


@pytest.mark.parametrize("text", ["0x10p3", "1e5", "5.", "٣"])
def test_partitions_of_unclear_types(text: str, tmp_path: Path) -> None:
    folder = tmp_path / f"k={text}"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    with pytest.raises(ParquetBloomError, match=r"'k': its type cannot be inferred: .*; give a schema"):
        FileListing(Options({"path": str(tmp_path)})).schema()


OTHERS = {
    "unsigned": {
        "a": pa.array([255], pa.uint8()),
        "b": pa.array([65535], "uint16"),
        "c": pa.array([7], pa.uint32()),
    },
    "moments": {"a": pa.array([1], pa.timestamp("ms", "UTC")), "b": pa.array([1], pa.timestamp("us"))},
    "bytes": {"a": pa.array([b"1"]), "b": pa.array([b"1234"], pa.binary(4)), "c": pa.array([b"x"], pa.large_binary())},
    "decimals": {"a": pa.array([1], pa.decimal128(38, 37)), "b": pa.array([None], pa.decimal128(5, 2))},
    "nulls": {"a": pa.nulls(1), "b": pa.array(["x"]).dictionary_encode()},
    "floats": {"a": pa.array([0.0, -0.0, float("nan"), None]), "b": pa.array([1, 2, 3, 4], pa.float32())},
    "none": {"a": pa.array([], pa.int64())},
    "nested": {
        "l": pa.array([[{"x": [1, None]}, None], [], None]),
        "m": pa.array([[("a", {"y": 1})], [], None], pa.map_(pa.string(), pa.struct([("y", pa.int32())]))),
    },
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_writers(name: str, tmp_path: Path, check_against_spark: Any) -> None:
    pq.write_table(pa.table(OTHERS[name]), tmp_path / "a.parquet")
    check_against_spark(tmp_path)


def test_files_that_differ(tmp_path: Path, check_against_spark: Any) -> None:
    pq.write_table(pa.table({"i": [1], "x": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["b"], "i": [2], "z": [1.5]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"I": [3]}), tmp_path / "c.parquet")
    (tmp_path / "_hidden").mkdir()
    (tmp_path / "below").mkdir()  # Spark looks only into partitions' folders
    for folder in ("_hidden", "below"):
        pq.write_table(pa.table({"i": [4]}), tmp_path / folder / "d.parquet")
    check_against_spark(tmp_path)
    check_against_spark(tmp_path, "i = 3")
    check_against_spark(tmp_path, "x IS NULL")


def test_char_and_collation(spark: Any, tmp_path: Path, check_against_spark: Any, load: Any) -> None:
    spark.range(3).selectExpr("id", "concat('K', id) COLLATE UTF8_LCASE c").write.parquet(str(tmp_path / "collated"))
    check_against_spark(tmp_path / "collated")
    check_against_spark(tmp_path / "collated", "c = 'k1'", prune="id < 5")
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": f"{kind}(5)"}}
        for name, kind in (("c", "char"), ("v", "varchar"))
    ]
    metadata = {"org.apache.spark.sql.parquet.row.metadata": repr({"type": "struct", "fields": fields})}
    metadata = {key: text.replace("'", '"').replace("True", "true") for key, text in metadata.items()}
    table = pa.table({"c": ["ü", "ab   ", None], "v": ["x", "y ", None]})
    (tmp_path / "char").mkdir()
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "char" / "a.parquet")
    check_against_spark(tmp_path / "char")
    assert load(tmp_path / "char").where("c = 'ab'").collect() == [("ab   ", "y ")]
    with pytest.raises(Exception, match="option 'prune': 'v' is a CHAR or VARCHAR column"):
        load(tmp_path / "char", prune="v = 'x'").count()


def test_a_schema_that_is_given(lake: str, load: Any, rows: Any, spark: Any) -> None:
    schema = "id BIGINT, p STRING, absent INT"
    native = spark.read.schema(schema).parquet(lake).select("id", "p", "absent").where("id % 100 = 7")
    assert rows(load(lake, schema).where("id % 100 = 7")) == rows(native)
    strict = load(lake, "id BIGINT NOT NULL, s STRING NOT NULL", prune="id = 5000")
    assert strict.where("id = 5000").collect() == [(5000, "u5000")]
    with pytest.raises(Exception, match="column 'nothing': it has a null, but the given schema"):
        load(lake, "nothing STRING NOT NULL").collect()


def test_chosen_columns(lake: str, load: Any, rows: Any, without_filters: Any) -> None:
    native = without_filters(lake)
    for columns in ("p,d", '["ST", "id"]', " s , p "):
        result = load(lake, columns=columns)
        assert result.schema == native.select(*result.columns).schema
        assert rows(result) == rows(native.select(*result.columns))
    assert load(lake, columns="p").where("p = '02'").count() == 2000


def test_paths(lake: str, load: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"prune": "id IN (6, 7)"}
    assert load(f"{lake}/p=02", basePath=lake, **where).where("id IN (6, 7)").select("id", "p").collect() == [(6, 2)]
    for path in (f"file:{lake}", f"file://{quote(lake)}"):
        assert load(path, columns="id", **where).where("id IN (6, 7)").count() == 2
    combined = spark.read.format("parquet_bloom").options(**where).load([f"{lake}/p=02", f"{lake}/p={NULL}"])
    assert combined.where("id IN (6, 7)").select("id").count() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "id,nope"}, "column 'nope': no such column"),
        ({"columns": "[1]"}, "option 'columns' is not a list of names"),
        ({"mergeSchema": "true"}, "files' schemas are not merged"),
        ({"pathGlobFilter": "*"}, "there is no option 'pathglobfilter'; there are .*columns"),
        ({"numPartitions": "0"}, "option 'numPartitions' must be a number from 1 to "),
        ({"prune": "nope = 1"}, "column 'nope': option 'prune': no such column"),
        ({"prune": "id = "}, "option 'prune': "),
        ({"prune": "id = 'x'"}, "option 'prune': 'id': comparisons of bigint with str are not supported"),
        ({"prune": "ts = TIMESTAMP '1850-01-01 00:00:00'", "timeZone": "Europe/Paris"}, "outside of the years"),
        ({"prune": "ts = TIMESTAMP '2020-01-01 00:00:00'", "timeZone": "Mars/Here"}, "'Mars/Here' is not known"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], message: str, lake: str, load: Any) -> None:
    with pytest.raises(Exception, match=message):
        load(lake, **options).count()


def test_unreadable_input(spark: Any, tmp_path: Path, load: Any) -> None:
    def refused(name: str, message: str, **options: str) -> None:
        with pytest.raises(Exception, match=message):
            load(tmp_path / name, **options).count()

    for name in ("empty", "broken", "delta/_delta_log", "twins", "long"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("broken", "delta"):
        pq.write_table(pa.table({"i": [1]}), tmp_path / name / "a.parquet")
    (tmp_path / "broken" / "b.parquet").write_bytes(b"PAR1----PAR1")
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path / "ns.parquet")
    pq.write_table(pa.table({"d": pa.array([1], pa.duration("us")), "i": [1]}), tmp_path / "d.parquet")
    pq.write_table(pa.table([[1], [2]], ["a", "A"]), tmp_path / "twins" / "a.parquet")
    pq.write_table(pa.table({"i": pa.array([1], pa.int32())}), tmp_path / "long" / "a.parquet")
    pq.write_table(pa.table({"i": [1 << 40]}), tmp_path / "long" / "b.parquet")
    spark.sql("SELECT 1 id, make_ym_interval(1, 2) m").write.parquet(str(tmp_path / "months"))
    spark.sql("SELECT 1 id, parse_json('[]') v").write.parquet(str(tmp_path / "variant"))
    refused("missing", "missing: there is no such file or folder")
    with pytest.raises(Exception, match=r"in another folder: give an absolute path"):
        load("no/such/folder").count()
    refused("empty", "empty: there is no Parquet file in it")
    refused("broken", r"b\.parquet: ")
    refused("delta", "belongs to the Delta table")
    refused("ns.parquet", r"ns\.parquet: column 't': Spark has no type for INT64 TIMESTAMP\(ns\)")
    refused("d.parquet", r"d\.parquet: 'd': duration\[us\] cannot be read as bigint outside of Spark; leave the column")
    refused("twins", "column 'A': there is also 'a'; set the option caseSensitive")
    refused("long", r"b\.parquet: 'i': int64 cannot be read as int outside of Spark")
    refused("months", "column 'm': Python cannot pass interval year to month to Spark; leave it out by option")
    refused("variant", "column 'v': Python cannot pass variant to Spark")
    assert load(tmp_path / "months", columns="id").collect() == [(1,)]
    assert load(tmp_path / "d.parquet", columns="i").collect() == [(1,)]
    assert load(tmp_path / "twins", caseSensitive="true").columns == ["a", "A"]
    with pytest.raises(Exception, match="neither on the local file system nor in a supported object store"):
        load("hdfs://host/lake")


def test_legacy_calendars(spark: Any, write: Any, load: Any, conf: Any) -> None:
    with conf({"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        path = write("legacy", "id", "DATE '1500-01-01' old", files=1)
    with pytest.raises(Exception, match=r"the file has org\.apache\.spark\.legacyDateTime; leave"):
        load(path).collect()
    assert load(path, columns="id").count() == 200


def test_a_file_that_changed_meanwhile(write: Any, load: Any, rows: Any) -> None:
    path = write("changing", "id", files=2)
    frame = load(path)
    assert len(frame.collect()) == 200
    for file in path.glob("*.parquet"):
        os.utime(file, (1, 1))
    with pytest.raises(Exception, match="it was changed since the DataFrame was made"):
        frame.collect()
    assert len(load(path).collect()) == 200


def test_an_object_store(s3: Any, lake: str, tmp_path: Path, load: Any) -> None:
    table = pa.table({"id": range(1000), "s": [f"s{number}" for number in range(1000)]})
    for number in range(2):
        pq.write_table(table.slice(number * 500, 500), tmp_path / "a.parquet", row_group_size=100)
        parquet_bloom.embed(tmp_path / "a.parquet", ["s"])
        s3.put(f"lake/p=0{number}/a.parquet", (tmp_path / "a.parquet").read_bytes())
    options = {f"storage.{name}": value for name, value in s3.storage_options.items()}
    frame = load(s3.url("lake"), prune="s = 's777'", numPartitions=EVERY_ROW_GROUP, **options)
    assert frame.where("s = 's777'").collect() == [(777, "s777", 1)]
    assert frame.rdd.getNumPartitions() == 1


@pytest.mark.long
def test_connect(lake: str, connect: Any) -> None:
    wheres = {"id = 77": 1, "ts = TIMESTAMP '2020-09-13 12:26:43.703701'": 1, "p = '02' AND i8 = 0": 16}
    for where, count in wheres.items():
        answer = connect.run(
            "parquet_bloom.spark.register(spark)\n"
            "found = spark.read.format('parquet_bloom').option('prune', where).load(lake)\n"
            "native = spark.read.option('parquet.filter.bloom.enabled', 'false').parquet(lake)\n"
            "rows = [sorted(map(repr, frame.where(where).toArrow().to_pylist())) for frame in (found, native)]\n"
            "answer = ['connect' in type(spark).__module__, found.schema == native.schema, *rows]\n",
            lake=lake,
            where=where,
        )
        connected, same_schema, ours, theirs = answer
        assert (connected, same_schema, len(ours)) == (True, True, count)
        assert ours == theirs
