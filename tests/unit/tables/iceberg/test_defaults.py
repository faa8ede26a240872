"""Columns with an `initial-default`, which all rows of files without the column have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.writers.iceberg_tables import HandTable

import parquet_bloom
from parquet_bloom.errors import PredicateError, UnreadableColumnError

pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")

DEFAULTS = {
    "long": 5, "int": -5, "float": 1.5, "double": 0.1, "boolean": False, "decimal(9, 2)": "14.20", "date": "2017-11-16",
    "time": "22:31:08.123456", "timestamp": "1917-11-16T22:31:08.123456",
    "timestamptz": "2017-11-16T22:31:08.123456+00:00", "string": "é", "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
    "fixed[2]": "0a0b", "binary": "00ff",
}  # fmt: skip
OLD, NEW = pa.table({"id": range(12)}), pa.table({"id": range(100, 104), "n": [None, 5, 6, 7]})


def field(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def defaulted(number: int, name: str, kind: Any, value: Any) -> dict[str, Any]:
    return field(number, name, kind, **{"initial-default": value})


def make_table(root: Path, *more: dict[str, Any], deletes: bool = False) -> str:
    """Make a table of a file without the column `n`, which has a default, and of one with it."""
    table = HandTable(root, [[field(1, "id", "long"), defaulted(2, "n", "long", 5), *more]], version=3)
    entries = [table.write_file(OLD, {"id": 1}), table.write_file(NEW, {"id": 1, "n": 2})]
    if deletes:
        entries.append(table.write_equality(pa.table({"n": [5]}), {"n": 2}, sequence=2))
    table.add_snapshot(entries)
    return table.write_metadata()


def test_defaults_of_every_type(tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    columns = [defaulted(10 + i, kind, kind, value) for i, (kind, value) in enumerate(DEFAULTS.items())]
    metadata = make_table(tmp_path / "t", *columns)
    shown = parquet_bloom.dataset(parquet_bloom.iceberg(metadata)).scan().to_arrow()
    expected = StaticTable.from_metadata(metadata).scan().to_arrow()
    assert shown.sort_by("id").equals(expected.sort_by("id"))
    assert not any(column.null_count for column in shown.drop_columns("n").columns)


OLD_ROWS = [*range(12)]
PREDICATES = {
    "n = 5": [*OLD_ROWS, 101],
    "n = 6": [102],
    "n IN (7, 5) AND id > 10": [11, 101, 103],
    "n IS NULL": [100],
    "n IS NOT NULL AND id >= 11": [11, 101, 102, 103],
    "n <> 5": [102, 103],
    "NOT (n <> 5)": [*OLD_ROWS, 101],
    "n = 6 OR id = 3": [3, 102],
    "n > 5.5": [102, 103],
    "n + 1 = 6 AND id < 2": [0, 1],
    "coalesce(n, 5) = 5": [*OLD_ROWS, 100, 101],
}


def test_predicates_meet_the_default(tmp_path: Path) -> None:
    table = parquet_bloom.iceberg(make_table(tmp_path / "t"))
    dataset = parquet_bloom.dataset(table)
    for where, expected in PREDICATES.items():
        assert parquet_bloom.read_table(table, where, ["id"])["id"].to_pylist() == expected, where
        assert dataset.scan(where).count_rows() == len(expected), where
        ranges = [
            one for groups in dataset.scan(where).row_ranges().values() for group in groups.values() for one in group
        ]
        assert sum(stop - start for start, stop in ranges) >= len(expected), where


def test_files_are_ruled_out_by_the_default(tmp_path: Path) -> None:
    table = parquet_bloom.iceberg(make_table(tmp_path / "t"))
    report = parquet_bloom.prune(table, "n = 9")
    assert not report.selected
    assert "its table says n is 5 in files without it" in report.explain()
    assert parquet_bloom.prune(table, "n = 6 AND id >= 0").selected_files == 1
    assert parquet_bloom.prune(table, "n = 5").selected_files == 2
    with pytest.raises(PredicateError, match="'x' cannot be compared exactly"):
        parquet_bloom.read_table(table, "n = 'x'")


def test_lookups_and_engines_show_the_default(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = parquet_bloom.iceberg(make_table(tmp_path / "t"))
    dataset = parquet_bloom.dataset(table)
    assert dataset.get("n", [6, 5], ["id", "n"])["id"].to_pylist() == [102, *OLD_ROWS, 101]
    assert dataset.get(["n", "id"], (5, 7)).to_pylist() == [{"id": 7, "n": 5}]
    assert set(dataset.locate("n", 5)["key"].to_pylist()) == {5}
    assert dataset.locate("n", [5, 7]).num_rows == 14
    assert dataset.locate("id", 3)["row"].to_pylist() == [3]
    frame = parquet_bloom.scan_polars(table).filter(pl.col("n") == 5)
    assert frame.collect()["n"].to_list() == [5] * 13
    assert duckdb.sql("SELECT count(*), sum(id) FROM dataset WHERE n = 5").fetchall() == [(13, 167)]
    assert duckdb.sql("SELECT count(*) FROM dataset WHERE n IS NULL").fetchall() == [(1,)]
    assert dataset.to_table(filter=pc.field("n") == 5, columns=["n"])["n"].to_pylist() == [5] * 13
    assert dataset.head(2, columns=["n"])["n"].to_pylist() == [5, 5]
    as_text = dataset.replace_schema(pa.schema([("id", pa.int64()), ("n", pa.string())]))
    assert as_text.to_table(filter=pc.field("n") == "5").num_rows == 13


def test_an_index_does_not_hide_files_without_the_column(tmp_path: Path) -> None:
    table = parquet_bloom.iceberg(make_table(tmp_path / "t"))
    with parquet_bloom.LakeIndex.create(tmp_path / "index", columns=["n", "id"]) as index:
        index.append(table)
    for where in ("n = 5", "n = 6", "n = 9"):
        shown = parquet_bloom.read_table(table, where, ["id"], index=tmp_path / "index")
        assert shown["id"].to_pylist() == PREDICATES.get(where, [])
    assert parquet_bloom.dataset(table, index=tmp_path / "index").get("n", 5).num_rows == 13


def test_equality_deletes_compare_with_the_default(tmp_path: Path) -> None:
    table = parquet_bloom.iceberg(make_table(tmp_path / "t", deletes=True))
    assert parquet_bloom.dataset(table).scan(columns=["id"]).to_arrow()["id"].to_pylist() == [100, 102, 103]
    assert parquet_bloom.dataset(table).get("id", [3, 102])["id"].to_pylist() == [102]
    assert parquet_bloom.read_table(table, "n = 5").num_rows == 0


def test_defaults_that_are_not_shown_are_refused_where_they_are_asked_for(tmp_path: Path) -> None:
    """Of parts of columns; and the values of identity partitions, which come before defaults."""
    inner = {"type": "struct", "fields": [defaulted(4, "x", "long", 1), field(5, "y", "long")]}
    spec = [{"source-id": 2, "field-id": 1000, "name": "n", "transform": "identity"}]
    schema = [field(1, "id", "long"), defaulted(2, "n", "long", 5), field(3, "st", inner)]
    table = HandTable(tmp_path / "t", [schema], [(), spec], version=3)
    of_spec = table.write_file(pa.table({"id": [50]}), {"id": 1}, spec=1, partition=(8,))
    table.add_snapshot([table.write_file(OLD, {"id": 1}), of_spec])
    opened = parquet_bloom.iceberg(table.write_metadata())
    with pytest.raises(UnreadableColumnError, match=r"column 'st\.x': the table gives it a default"):
        parquet_bloom.read_table(opened, "id = 3")
    assert parquet_bloom.read_table(opened, "id = 3", ["n"])["n"].to_pylist() == [5]
    assert parquet_bloom.read_table(opened, "n = 5 AND id = 50", ["id"]).num_rows == 0  # by the partition's value
    for where in ("id = 50", "n = 8"):
        with pytest.raises(UnreadableColumnError, match="column 'n': its value in files without the column is in the"):
            parquet_bloom.read_table(opened, where, ["id", "n"])
