"""The data source `parquet_bloom`: rows, types and row groups, held against Spark's own reading without filters.

Spark starts a Python for each schema and each plan of a source in Python, so most of its methods are called here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.spark.source.datasource import FileListing, ParquetBloomSource
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


@dataclass
class Direct:
    """What the source gives Spark: a schema, the rows of its tasks as lists of values, and how many tasks there are."""

    schema: Any
    rows: list[dict[str, Any]]
    tasks: int


@pytest.fixture
def direct(spark: Any) -> Callable[..., Direct]:
    """Read as Spark has the data source do, in this process."""
    registered = type("Registered", (ParquetBloomSource,), {"settings": read_settings(spark)})

    def read(path: Any, schema: Any = None, **options: Any) -> Direct:
        # Spark's options have no case, and are texts.
        source = registered({name.lower(): str(value) for name, value in options.items()} | {"path": str(path)})
        reader = source.reader(schema or source.schema())
        tasks = reader.partitions()
        batches = [batch for task in tasks for batch in reader.read(task)]
        rows = pa.Table.from_batches(batches).to_pylist() if batches else []
        return Direct(schema or source.schema(), rows, len(tasks))

    return read


@pytest.fixture
def check_whole(direct: Any, without_filters: Any) -> Callable[..., None]:
    """Read all rows directly, and hold them and the schema against Spark's own."""

    def check(path: Any, **options: Any) -> None:
        result, native = direct(path, **options), without_filters(str(path))
        assert result.schema == native.schema
        assert sorted(map(repr, result.rows)) == sorted(map(repr, native.toArrow().to_pylist()))

    return check


def test_rows_of_every_type(lake: str, direct: Any, without_filters: Any) -> None:
    """Each condition reads its rows, all of them as they are, and about as few row groups as hold them."""
    wheres = {
        "id = 77": 1,
        "ts = TIMESTAMP '2020-09-13 12:26:43.703701'": 1,
        "ts = TIMESTAMP '0001-01-01 00:00:00'": 2,
        "ts = TIMESTAMP '9999-12-31 23:59:59.999999'": 2,
        "ntz = TIMESTAMP_NTZ '2020-09-13 12:26:43.703701'": 1,
        "p = '02' AND i8 = 0": 10,
        "p IS NULL AND day = '1990-03-01' OR p IS NULL AND id = 4": 1,
        "d = DATE '2020-01-01' AND NOT i16 <> 10": 1,
        "st.b.c = 'n77'": 1,
        "bin = X'623737'": 1,
        "d38 = 77 OR f64 = 9.625 OR array_contains(li, 78)": 2,
        "id = -1": 0,
    }
    native = without_filters(lake)
    rows = {row["id"]: repr(row) for row in native.toArrow().to_pylist()}
    masks = native.select("id", *(F.expr(where).alias(f"c{number}") for number, where in enumerate(wheres))).toArrow()
    for number, (where, num_row_groups) in enumerate(wheres.items()):
        result = direct(lake, prune=where, numPartitions=EVERY_ROW_GROUP)
        assert result.schema == native.schema
        found = {row["id"]: repr(row) for row in result.rows}
        matches = {row["id"] for row in masks.select(["id", f"c{number}"]).to_pylist() if row[f"c{number}"]}
        assert matches <= found.keys(), where
        assert found == {id: rows[id] for id in found}, where
        # A false positive of some filter is one more row group.
        assert num_row_groups <= result.tasks <= num_row_groups + 2, where


def test_a_query_by_spark(lake: str, load: Any, rows: Any, without_filters: Any) -> None:
    where = "ts = TIMESTAMP '2020-09-13 12:26:43.703701' AND id > 0"
    result = load(lake, prune=where, numPartitions=EVERY_ROW_GROUP)
    assert result.schema == without_filters(lake).schema
    assert rows(result.where(where)) == rows(without_filters(lake).where(where))


def test_everything(lake: str, check_whole: Any, direct: Any, load: Any) -> None:
    check_whole(lake)
    assert load(lake, columns="id").rdd.getNumPartitions() < 12
    assert direct(lake, numPartitions=EVERY_ROW_GROUP).tasks == 60


def test_one_dataframe_for_several_queries(lake: str, load: Any, rows: Any, without_filters: Any, conf: Any) -> None:
    """Spark keeps what a Python data source makes of pushed filters for the next query."""
    with conf({"spark.sql.python.filterPushdown.enabled": "true"}):
        result, native = load(lake, columns="id,s"), without_filters(lake).select("id", "s")
        for query in ("id = 5", "s = 'u78'", "true"):
            assert rows(result.where(query)) == rows(native.where(query))
        both = result.where("id < 50").join(result.where("id > 40").selectExpr("id", "s t"), "id")
        assert both.count() == native.where("id < 50 AND id > 40").count()


def test_nothing_else_is_read(spark: Any, write: Any, direct: Any) -> None:
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
    assert {"id": 77, "s": "text77"} in direct(path, prune="s = 'text77'").rows
    with pytest.raises(ParquetBloomError, match=r"\.parquet: cannot be read: "):
        direct(path)


def test_pages_that_are_ruled_out(spark: Any, tmp_path: Path, direct: Any) -> None:
    count = 100_000
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
    options = {"write_page_index": True, "data_page_size": 1 << 13, "use_dictionary": False}
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, **options)
    for where, wanted in (
        ("id IN (77, 63456)", [77, 63456]),
        ("id BETWEEN 49999 AND 50001 OR n = 7", [7, 49999, 50000, 50001]),
        ("id = 77 AND n = 63457", []),
        ("ts = TIMESTAMP '1970-01-01 00:00:00.000077'", [77]),  # there is no order of INT96
    ):
        found = {row["id"]: row for row in direct(tmp_path, prune=where).rows}
        assert set(wanted) <= found.keys()
        assert (len(found) == count) if "ts" in where else (bool(wanted) <= len(found) < count // 10), where
        for id in wanted:
            assert (found[id]["s"], found[id]["l"], found[id]["n"]) == (str(id), [id], None if id % 3 == 0 else id)


def test_types_of_partitions(spark: Any, tmp_path: Path, conf: Any) -> None:
    all_texts = [
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
    for number, texts in enumerate(all_texts):
        for position, text in enumerate(texts):
            name = text if text == NULL else quote(text, safe=" +-.").replace("%C3%BC", "ü")
            folder = tmp_path / str(number) / f"k={name}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"place": [position]}), folder / "a.parquet")
    for zone in ("UTC", "America/Los_Angeles", "GMT+5:30"):
        with conf({"spark.sql.session.timeZone": zone}):
            settings = read_settings(spark)
            for number, texts in enumerate(all_texts) if zone == "UTC" else [(11, all_texts[11])]:
                native = spark.read.parquet(str(tmp_path / str(number)))
                schema = FileListing(Options({"path": str(tmp_path / str(number))}, settings)).schema()
                assert schema == native.schema, texts
                expected = dict(native.collect())
                for position, text in enumerate(texts):
                    value = parse_value(None if text == NULL else text, schema["k"].dataType, zone)
                    value = value.astimezone().replace(tzinfo=None) if getattr(value, "tzinfo", None) else value
                    assert repr(value) == repr(expected[position]), text
    for text in ("0x10p3", "1e5", "5.", "٣"):
        folder = tmp_path / text / f"k={text}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
        with pytest.raises(ParquetBloomError, match=r"'k': its type cannot be inferred: .*; give a schema"):
            FileListing(Options({"path": str(tmp_path / text)})).schema()


def test_other_writers(tmp_path: Path, check_whole: Any) -> None:
    for name, columns in {
        "unsigned": {
            "a": pa.array([255], pa.uint8()),
            "b": pa.array([65535], "uint16"),
            "c": pa.array([7], pa.uint32()),
        },
        "moments": {"a": pa.array([1], pa.timestamp("ms", "UTC")), "b": pa.array([1], pa.timestamp("us"))},
        "bytes": {
            "a": pa.array([b"1"]),
            "b": pa.array([b"1234"], pa.binary(4)),
            "c": pa.array([b"x"], pa.large_binary()),
        },
        "decimals": {"a": pa.array([1], pa.decimal128(38, 37)), "b": pa.array([None], pa.decimal128(5, 2))},
        "nulls": {"a": pa.nulls(1), "b": pa.array(["x"]).dictionary_encode()},
        "floats": {"a": pa.array([0.0, -0.0, float("nan"), None]), "b": pa.array([1, 2, 3, 4], pa.float32())},
        "none": {"a": pa.array([], pa.int64())},
        "nested": {
            "l": pa.array([[{"x": [1, None]}, None], [], None]),
            "m": pa.array([[("a", {"y": 1})], [], None], pa.map_(pa.string(), pa.struct([("y", pa.int32())]))),
        },
    }.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "a.parquet")
        check_whole(tmp_path / name)


def test_files_that_differ(tmp_path: Path, check_whole: Any, direct: Any) -> None:
    pq.write_table(pa.table({"i": [1], "x": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["b"], "i": [2], "z": [1.5]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"I": [3]}), tmp_path / "c.parquet")
    (tmp_path / "_hidden").mkdir()
    (tmp_path / "below").mkdir()  # Spark looks only into partitions' folders
    for folder in ("_hidden", "below"):
        pq.write_table(pa.table({"i": [4]}), tmp_path / folder / "d.parquet")
    check_whole(tmp_path)
    for where in ("i = 3", "x IS NULL"):
        assert {"i": 3, "x": None} in direct(tmp_path, prune=where).rows


def test_char_and_collation(spark: Any, tmp_path: Path, check_whole: Any, direct: Any, load: Any, rows: Any) -> None:
    spark.range(3).selectExpr("id", "concat('K', id) COLLATE UTF8_LCASE c").write.parquet(str(tmp_path / "collated"))
    check_whole(tmp_path / "collated")
    assert load(tmp_path / "collated", prune="id < 5").where("c = 'k1'").collect() == [(1, "K1")]
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": f"{kind}(5)"}}
        for name, kind in (("c", "char"), ("v", "varchar"))
    ]
    metadata = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": fields})}
    table = pa.table({"c": ["ü", "ab   ", None], "v": ["x", "y ", None]})
    (tmp_path / "char").mkdir()
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "char" / "a.parquet")
    native = spark.read.parquet(str(tmp_path / "char"))  # Spark pads
    assert load(tmp_path / "char").schema == native.schema
    assert rows(load(tmp_path / "char")) == rows(native)
    assert load(tmp_path / "char").where("c = 'ab'").collect() == [("ab   ", "y ")]
    with pytest.raises(ParquetBloomError, match="option 'prune': 'v' is a CHAR or VARCHAR column"):
        direct(tmp_path / "char", prune="v = 'x'")


def test_a_schema_that_is_given(lake: str, load: Any, rows: Any, spark: Any) -> None:
    schema = "id BIGINT, p STRING, absent INT"
    native = spark.read.schema(schema).parquet(lake).select("id", "p", "absent").where("id % 100 = 7")
    assert rows(load(lake, schema).where("id % 100 = 7")) == rows(native)
    strict = load(lake, "id BIGINT NOT NULL, s STRING NOT NULL", prune="id = 5000")
    assert strict.where("id = 5000").collect() == [(5000, "u5000")]
    with pytest.raises(Exception, match="column 'nothing': it has a null, but the given schema"):
        load(lake, "nothing STRING NOT NULL").collect()


def test_chosen_columns(lake: str, direct: Any, without_filters: Any) -> None:
    native = without_filters(lake)
    table = native.select("p", "d", "st", "id", "s").toArrow()
    for columns in ("p,d", '["ST", "id"]', " s , p "):
        result = direct(lake, columns=columns)
        names = result.schema.names
        assert result.schema == native.select(*names).schema
        assert sorted(map(repr, result.rows)) == sorted(map(repr, table.select(names).to_pylist()))


def test_paths(lake: str, load: Any, spark: Any) -> None:
    where = {"prune": "id IN (6, 7)"}
    assert load(f"{lake}/p=02", basePath=lake, **where).where("id IN (6, 7)").select("id", "p").collect() == [(6, 2)]
    for path in (f"file:{lake}", f"file://{quote(lake)}"):
        assert load(path, columns="id", **where).where("id IN (6, 7)").count() == 2
    combined = spark.read.format("parquet_bloom").options(**where).load([f"{lake}/p=02", f"{lake}/p={NULL}"])
    assert combined.where("id IN (6, 7)").select("id").count() == 2


def test_options_that_cannot_be(lake: str, direct: Any, load: Any) -> None:
    for options, message in (
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
    ):
        with pytest.raises(ParquetBloomError, match=message):
            direct(lake, **options)
    with pytest.raises(Exception, match="column 'nope': no such column"):
        load(lake, columns="id,nope").count()


def test_unreadable_input(spark: Any, tmp_path: Path, direct: Any) -> None:
    def refused(name: str, message: str, **options: str) -> None:
        with pytest.raises(ParquetBloomError, match=message):
            direct(tmp_path / name, **options)

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
    with pytest.raises(ParquetBloomError, match=r"in another folder: give an absolute path"):
        direct("no/such/folder")
    refused("empty", "empty: there is no Parquet file in it")
    refused("broken", r"b\.parquet: ")
    refused("delta", "belongs to the Delta table")
    refused("ns.parquet", r"ns\.parquet: column 't': Spark has no type for INT64 TIMESTAMP\(ns\)")
    refused("d.parquet", r"d\.parquet: 'd': duration\[us\] cannot be read as bigint outside of Spark; leave the column")
    refused("twins", "column 'A': there is also 'a'; set the option caseSensitive")
    refused("long", r"b\.parquet: 'i': int64 cannot be read as int outside of Spark")
    refused("months", "column 'm': Python cannot pass interval year to month to Spark; leave it out by option")
    refused("variant", "'v': it is a shredded Variant, which only Spark's own reader puts together")
    assert direct(tmp_path / "months", columns="id").rows == [{"id": 1}]
    assert direct(tmp_path / "d.parquet", columns="i").rows == [{"i": 1}]
    assert direct(tmp_path / "twins", caseSensitive="true").schema.names == ["a", "A"]
    with pytest.raises(ParquetBloomError, match="neither on the local file system nor in a supported object store"):
        direct("hdfs://host/lake")


def test_legacy_calendars(write: Any, direct: Any, conf: Any) -> None:
    with conf({"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        path = write("legacy", "id", "DATE '1500-01-01' old", files=1)
    with pytest.raises(ParquetBloomError, match=r"the file has org\.apache\.spark\.legacyDateTime; leave"):
        direct(path)
    assert len(direct(path, columns="id").rows) == 200


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
