"""`spark.locate` finds the positions that `Dataset.locate` finds, whether keys are sent to tasks or joined."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from support.spark.spark_settings import settings
from support.writers.delta_log import add, beginning, column, commit, inline_vector
from support.writers.iceberg_tables import HandTable

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.errors import (
    ParquetBloomError,
    PredicateError,
    StorageError,
    UnknownColumnError,
    UnreadableColumnError,
)

pytestmark = pytest.mark.spark

FILES, ROWS = 5, 400
EPOCH = dt.datetime(2024, 1, 1)


def make_table(number: int) -> pa.Table:
    """Rows of a file, in which most ids come about twice in the lake, and some columns are null."""
    rng = np.random.default_rng(number)
    ids = rng.integers(0, FILES * ROWS // 2, ROWS).tolist()
    names = [None if id % 11 == 0 else f"n{id}ü" for id in ids]
    floats = [float("nan") if id % 50 == 1 else -0.0 if id % 50 == 2 else id / 4 for id in ids]
    return pa.table(
        {
            "id": pa.array([None if id % 13 == 0 else id for id in ids], pa.int64()),
            "short": pa.array([id % 1000 for id in ids], pa.int16()),
            "name": pa.array(names).dictionary_encode() if number % 2 else pa.array(names),
            "raw": [id.to_bytes(3, "big") for id in ids],
            "float": pa.array(floats, pa.float64(), from_pandas=False),
            "price": pa.array([decimal.Decimal(id) / 100 for id in ids], pa.decimal128(20, 2)),
            "day": [dt.date(1970, 1, 1) + dt.timedelta(days=id) for id in ids],
            "at": pa.array([EPOCH + dt.timedelta(seconds=id) for id in ids], pa.timestamp("ms", "UTC")),
            "naive": pa.array([EPOCH + dt.timedelta(seconds=id) for id in ids], pa.timestamp("us")),
            "flag": [id % 400 == 0 for id in ids],
            "user": [{"id": id * 3, "x": 1} for id in ids],
            "wide": pa.array(ids, pa.uint64()),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("locate") / "lä {k}e%41"
    for number in range(FILES):
        folder = root / f"part={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(make_table(number), folder / f"{number}.parquet", row_group_size=150)
    return root


def to_rows(found: Any) -> Counter[Any]:
    """Positions of a DataFrame or a table, with keys that can be compared."""
    table = found if isinstance(found, pa.Table) else found.toArrow()
    rows = zip(*(table[name].to_pylist() for name in ("path", "row_group", "row")), strict=True)
    keys = (repr(tuple(key.items()) if isinstance(key, dict) else key) for key in table["key"].to_pylist())
    return Counter(zip(keys, rows, strict=True))


def make_keys(spark: Any, table: pa.Table, names: list[str]) -> tuple[Any, pa.Table]:
    """Some values of some columns: a DataFrame, and a table of those that are not null."""
    columns = {}
    for name in names:
        top, _, leaf = name.partition(".")
        values = table[top].combine_chunks()
        columns[name] = values.field(leaf) if leaf else values
    values = pa.table(
        {n: c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for n, c in columns.items()}
    )
    return spark.createDataFrame(values), values.drop_null()


@pytest.mark.parametrize("name", ["id", "user.id", "part"])
def test_both_ways(spark: Any, lake: Path, name: str) -> None:
    """Keys that are sent to tasks, and keys that are joined, find what a dataset finds."""
    source = make_table(7).slice(0, 90).append_column("part", pa.array([1] * 89 + [9], pa.int32()))
    keys, values = make_keys(spark, source, [name])
    expected = to_rows(parquet_bloom.dataset(lake).locate(name, values))
    assert len(expected) > 50
    for max_keys in (1_000_000, 0):
        found = parquet_bloom.spark.locate(spark, lake, name, keys.union(keys), max_keys=max_keys)
        assert found.columns == ["key", "path", "row_group", "row"]
        assert to_rows(found) == expected


def test_types(spark: Any, lake: Path) -> None:
    for name in ("short", "name", "raw", "float", "price", "day", "at", "naive", "flag"):
        options = {"spark.sql.session.timeZone": "Asia/Tokyo"}
        if name == "naive":
            options["spark.sql.timestampType"] = "TIMESTAMP_NTZ"  # of which Spark then makes it
        with settings(spark, options):
            keys, values = make_keys(spark, make_table(8).slice(0, 60), [name])
            expected = to_rows(parquet_bloom.dataset(lake).locate(name, values))
            assert expected
            sent, joined = (
                parquet_bloom.spark.locate(spark, lake, name, keys, max_keys=max_keys) for max_keys in (1_000_000, 0)
            )
            assert to_rows(sent) == to_rows(joined) == expected, name


def test_several_columns(spark: Any, lake: Path) -> None:
    names = ["name", "id", "part"]
    source = pa.concat_tables(
        make_table(number).append_column("part", pa.array([number // 2 % 2] * ROWS, pa.int32())) for number in (0, 2, 4)
    )
    keys, values = make_keys(spark, source.take(pa.array(range(0, 1200, 3))), names)
    expected = to_rows(parquet_bloom.dataset(lake).locate(names, values))
    assert len(expected) > 100
    for max_keys in (1_000_000, 0):
        assert to_rows(parquet_bloom.spark.locate(spark, lake, names, keys, max_keys=max_keys)) == expected


def test_an_index_chooses_the_files_of_tasks(spark: Any, lake: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lake"
    copy.mkdir()
    for number in range(4):
        pq.write_table(pa.table({"id": range(number * 100, number * 100 + 100)}), copy / f"{number}.parquet")
    parquet_bloom.LakeIndex.create(tmp_path / "index", ["id"], lake=copy).append()
    keys = spark.createDataFrame([(5,), (77,), (205,), (999,)], "id long")
    tasks = []
    with settings(spark, {"spark.sql.leafNodeDefaultParallelism": "8"}):  # a task for each file
        for paths in (copy, None, copy):
            found = parquet_bloom.spark.locate(spark, paths, "id", keys, index=str(tmp_path / "index"))
            assert to_rows(found) == to_rows(parquet_bloom.dataset(copy).locate("id", [5, 77, 205, 999]))
            tasks.append(found.rdd.getNumPartitions())
            if len(tasks) == 2:  # a file that the index does not know
                pq.write_table(pa.table({"id": [999, 5]}), copy / "new.parquet")
    assert tasks == [2, 2, 3]


def test_deleted_rows_of_tables(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    pytest.importorskip("pyroaring")
    tables = [pa.table({"key": pa.array(range(start, start + 300), pa.int64())}) for start in (0, 200)]
    hand = HandTable(tmp_path / "ice", [[{"id": 1, "name": "key", "required": False, "type": "long"}]], version=2)
    entries = [hand.write_file(table, {"key": 1}, group=100, sequence=1) for table in tables]
    deletes = hand.write_positions([(entries[0].path, row) for row in range(0, 300, 2)], sequence=2)
    hand.add_snapshot([*entries, deletes])
    root = tmp_path / "delta"
    root.mkdir()
    actions = [*beginning([column("key", "long")], features=["deletionVectors"])]
    for number, table in enumerate(tables):
        pq.write_table(table, root / f"{number}.parquet", row_group_size=100)
        size = (root / f"{number}.parquet").stat().st_size
        members = {"deletionVector": inline_vector([*range(0, 300, 2)])} if number == 0 else {}
        actions.append(add(f"{number}.parquet", size, {"numRecords": 300}, **members))
    commit(root, 0, actions)
    keys = spark.range(190, 260, 1, 2)
    for table in (parquet_bloom.iceberg(hand.write_metadata()), str(root)):
        source = table if isinstance(table, str) else parquet_bloom.iceberg(table.name)
        expected = to_rows(parquet_bloom.dataset(source).locate("key", [*range(190, 260)]))
        assert sum(expected.values()) == 35 + 60
        for max_keys in (1_000_000, 0):
            assert to_rows(parquet_bloom.spark.locate(spark, table, "key", keys, max_keys=max_keys)) == expected


def test_few_keys_and_none(spark: Any, lake: Path) -> None:
    none = spark.createDataFrame([(None,)], StructType([StructField("any name", LongType())]))
    for keys in (none, none.limit(0)):
        found = parquet_bloom.spark.locate(spark, lake, "id", keys)
        assert found.count() == 0
        assert found.schema["key"].dataType == LongType()
    with pytest.raises(UnknownColumnError, match="the keys have no such column, but any name"):
        parquet_bloom.spark.locate(spark, lake, ["id", "name"], none)


def test_errors(spark: Any, lake: Path) -> None:
    keys = spark.range(5)
    with pytest.raises(UnknownColumnError, match="'none': no such column"):
        parquet_bloom.spark.locate(spark, lake, "none", keys)
    with pytest.raises(PredicateError, match="no single values"):
        parquet_bloom.spark.locate(spark, lake, "user", keys)
    with pytest.raises(PredicateError, match="it is string, but the key is bigint: cast the key"):
        parquet_bloom.spark.locate(spark, lake, "name", keys)
    with pytest.raises(UnreadableColumnError, match="no type for a key of uint64"):
        parquet_bloom.spark.locate(spark, lake, "wide", keys)
    with pytest.raises(StorageError, match="nowhere"):
        parquet_bloom.spark.locate(spark, lake / "nowhere", "id", keys)
    with pytest.raises(ParquetBloomError, match="keys must be a Spark DataFrame"):
        parquet_bloom.spark.locate(spark, lake, "id", [1, 2])  # type: ignore[arg-type]
    with pytest.raises(ParquetBloomError, match="max_keys must be"):
        parquet_bloom.spark.locate(spark, lake, "id", keys, max_keys=-1)
    text = spark.createDataFrame([("5",)], StructType([StructField("id", StringType())]))
    with pytest.raises(PredicateError, match="it is bigint, but the key is string"):
        parquet_bloom.spark.locate(spark, lake, "id", text)


def test_a_file_that_goes_or_changes(spark: Any, tmp_path: Path) -> None:
    """The positions are those of the file as a task finds it, or the job fails and says which file it was."""
    for number in range(3):
        pq.write_table(pa.table({"id": range(number * 10, number * 10 + 10)}), tmp_path / f"{number}.parquet")
    keys = spark.createDataFrame([(5,), (15,), (25,)], "id long")
    found = parquet_bloom.spark.locate(spark, tmp_path, "id", keys)
    pq.write_table(pa.table({"id": [1, 15, 15]}), tmp_path / "1.parquet")
    assert to_rows(found) == to_rows(parquet_bloom.dataset(tmp_path).locate("id", [5, 15, 25]))
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(Exception, match=r"1\.parquet"):
        found.count()
