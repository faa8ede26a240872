"""upsert on Spark: rows are written on executors, and those with the same keys hidden, by one commit of the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.writers import changing_tables as tables

import parquet_bloom
import parquet_bloom.spark
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.spark import upsert_into_table

pytestmark = pytest.mark.spark
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


def make_rows(ids: Any, text: str = "old") -> pa.Table:
    days = [f"d{(id or 0) % 3}" for id in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days, "text": [text] * len(days)})


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "a täble")
    settings = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(path, make_rows(range(100)), partition_by=["day"], configuration=settings)
    return path


def read(root: str) -> list[tuple[int, str]]:
    """Key and text of all rows, by deltalake and by us."""
    rows = pa.table(deltalake.DeltaTable(root).scan()).select(["id", "day", "text"]).to_pylist()
    ours = parquet_bloom.dataset(root).scan().to_arrow().select(["id", "day", "text"]).to_pylist()
    assert sorted(map(str, ours)) == sorted(map(str, rows))
    assert all(row["day"] == f"d{(row['id'] or 0) % 3}" for row in rows)
    return sorted((-1 if row["id"] is None else row["id"], row["text"]) for row in rows)


def test_rows_are_replaced_and_added(spark: Any, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert_into_table, "_ROWS_OF_TASK", 20)
    ids = [*range(10, 60), *range(200, 210), None]
    rows = spark.createDataFrame(make_rows(ids, "new")).select("text", "id", "day")
    report = parquet_bloom.spark.upsert(spark, root, rows, "id", dry_run=True)
    assert (report.num_added, report.num_replaced, report.changed, report.added) == (61, 50, False, ())
    report = parquet_bloom.spark.upsert(spark, root, rows, "id")
    assert (report.num_added, report.num_replaced, report.num_null_keys) == (61, 50, 1)
    expected = [(id, "new" if 10 <= id < 60 else "old") for id in range(100)]
    assert read(root) == [(-1, "new"), *expected, *((id, "new") for id in range(200, 210))]
    assert {Path(path) for path in report.added} < {*Path(root).rglob("*.parquet")}
    with parquet_bloom.open(report.added[0]) as file:
        assert [chunk.leaf.name for chunk in file.chunks()] == ["id"]


def test_keep(spark: Any, root: str) -> None:
    rows = spark.createDataFrame(make_rows([5, 6, 300, None], "new"))
    report = parquet_bloom.spark.upsert(spark, root, rows, ["day", "id"], when_matched="keep")
    assert (report.num_added, report.num_kept, report.num_replaced, report.num_null_keys) == (2, 2, 0, 1)
    assert read(root) == [(-1, "new"), *((id, "old") for id in range(100)), (300, "new")]


def test_rows_stay_as_they_were_when_their_keys_were_looked_for(spark: Any, root: str) -> None:
    """A DataFrame whose rows are others each time that it is computed."""
    rows = spark.range(1000).selectExpr("id", "concat('d', id % 3) day", "'new' text").where("rand() < 0.5")
    report = parquet_bloom.spark.upsert(spark, root, rows, "id")
    found = read(root)
    assert len({id for id, _ in found}) == len(found) == 100 + report.num_added - report.num_replaced


def test_refused(spark: Any, root: str) -> None:
    def upsert(rows: pa.Table, on: Any = "id") -> None:
        parquet_bloom.spark.upsert(spark, root, spark.createDataFrame(rows), on)

    with pytest.raises(PredicateError, match="several of the rows have the same key: 7"):
        upsert(make_rows([7, 7, 8, None, None], "new"))
    with pytest.raises(UnknownColumnError, match="lack this column"):
        upsert(make_rows([7]).drop_columns(["text"]))
    with pytest.raises(PredicateError, match="cast the key"):
        upsert(make_rows([7]).set_column(0, "id", pa.array(["7"])))
    with pytest.raises(ParquetBloomError, match="DataFrame"):
        parquet_bloom.spark.upsert(spark, root, make_rows([7]), "id")  # type: ignore[arg-type]
    narrow = f"{root} of small numbers"
    deltalake.write_deltalake(narrow, pa.table({"n": pa.array([1], pa.int8())}))
    before = {*Path(narrow).rglob("*.parquet")}
    rows = spark.createDataFrame(pa.table({"n": [2, 1000]}))
    with pytest.raises(ParquetBloomError, match="does not fit its type int8"):
        parquet_bloom.spark.upsert(spark, narrow, rows, "n")
    assert {*Path(narrow).rglob("*.parquet")} == before


def test_iceberg(spark: Any, tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 2)
    before = parquet_bloom.dataset(table).scan().to_arrow()
    changed = before.slice(0, 3)
    columns = [column.cast(pa.int64()) if pa.types.is_integer(column.type) else column for column in changed.columns]
    rows = spark.createDataFrame(pa.table(columns, names=changed.column_names))
    report = parquet_bloom.spark.upsert(spark, table, rows, "id")
    assert (report.num_added, report.num_replaced) == (3, 3)
    now = tables.reload(table)
    assert tables.read_iceberg(now) == tables.contents(before)
