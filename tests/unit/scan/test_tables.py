"""Scans of a table: its names, its types, its statistics, its deleted rows."""

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import FilesFailedError, ParquetBloomError, UnknownColumnError, UnreadableColumnError
from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.predicate.pruning_statistics import PruningStatistics, PruningStatisticsArray
from parquet_bloom.scan.plan_document import read_details
from parquet_bloom.tables.table_snapshot import Table, TableColumn, TableFile, TableSnapshot

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ratio", pa.float64()),
        ("place", pa.struct([("town", pa.string()), ("zip", pa.int64())])),
        ("tags", pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))),
        ("day", pa.string()),
    ]
)

COLUMNS = (
    TableColumn("id", names=("c1",)),
    TableColumn("ratio", names=("c2",)),
    TableColumn(
        "place", "struct", None, ("c3",), (TableColumn("town", names=("t",)), TableColumn("zip", names=("z",)))
    ),
    TableColumn(
        "tags",
        "list",
        None,
        ("c4",),
        (
            TableColumn(
                "element", "struct", parts=(TableColumn("key", names=("k",)), TableColumn("value", names=("v",)))
            ),
        ),
    ),
)


class Deleted:
    """Deletes some rows of a file by position, and those in which a column has a value."""

    def __init__(self, positions=(), column="id", value=None):
        self.positions, self.column, self.value = np.array(sorted(positions), np.int64), column, value

    @property
    def values(self):
        return None if self.value is None else self

    def find_positions(self, rows):
        return np.intersect1d(self.positions, rows)

    def find_columns(self):
        return [self.column]

    def find_deleted(self, rows):
        assert rows.schema.names == [self.column]
        return pc.equal(rows.column(0), self.value).fill_null(False).to_numpy()


class Snapshot(TableSnapshot):
    statistics = None

    def find_statistics(self, column):
        return (self.statistics or {}).get(column)


class HandTable(Table):
    kind, name = "delta", "hand-made"

    def __init__(self, snapshot):
        self.snapshot = snapshot

    def read_snapshot(self):
        return self.snapshot


def old_file(path: Path, start: int) -> None:
    """Write a file as of an early version: int32 and float32 columns, no zip, a column that was dropped since."""
    ids = range(start, start + 100)
    table = pa.table(
        {
            "c1": pa.array(ids, pa.int32()),
            "c2": pa.array([i / 10 for i in ids], pa.float32()),
            "c3": pa.array([{"t": f"town{i}"} if i % 7 else None for i in ids]),
            "c4": pa.array([[{"k": "a", "v": str(i)}] for i in ids]),
            "id": pa.array([i + 1 for i in ids]),
        }
    )
    pq.write_table(table, path, row_group_size=30, write_page_index=True)


def new_file(path: Path, start: int) -> None:
    ids = range(start, start + 100)
    table = pa.table(
        {
            "c3": pa.array([{"z": i, "t": f"town{i}"} for i in ids]),
            "c2": pa.array([i / 10 for i in ids], pa.float64()),
            "c1": pa.array(ids, pa.int64()),
        }
    )
    pq.write_table(table, path, row_group_size=30)


@pytest.fixture
def table(tmp_path: Path) -> HandTable:
    old_file(tmp_path / "0.parquet", 0)
    new_file(tmp_path / "1.parquet", 100)
    files = [TableFile(str(tmp_path / name), 1) for name in ("0.parquet", "1.parquet")]
    partitions = pa.table({"day": ["monday", None]})
    deletes = {
        files[0].path: Deleted([0, 5, 29, 30, 99]),
        files[1].path: Deleted(range(30, 60), value=150),
    }
    parquet_bloom.embed([file.path for file in files], ["c1"])
    return HandTable(Snapshot("delta", "t", 3, str(tmp_path), SCHEMA, files, COLUMNS, partitions, deletes))


def expected_rows() -> list[dict]:
    rows = []
    for i in range(200):
        if i in (0, 5, 29, 30, 99) or 130 <= i < 160:
            continue
        old = i < 100
        place = None if old and i % 7 == 0 else {"town": f"town{i}", "zip": None if old else i}
        rows.append(
            {
                "id": i,
                "ratio": float(np.float32(i / 10)) if old else i / 10,
                "place": place,
                "tags": [{"key": "a", "value": str(i)}] if old else None,
                "day": "monday" if old else None,
            }
        )
    return rows


PREDICATES = {
    "id = 7": lambda row: row["id"] == 7,
    "id = 5": lambda row: row["id"] == 5,
    "id IN (3, 29, 31, 140, 170)": lambda row: row["id"] in (3, 29, 31, 140, 170),
    "ratio = 3.4": lambda row: row["ratio"] == 3.4,
    "ratio = 12.3": lambda row: row["ratio"] == 12.3,
    "ratio > 9.55 AND id < 120": lambda row: row["ratio"] > 9.55 and row["id"] < 120,
    "place.town = 'town12'": lambda row: bool(row["place"]) and row["place"]["town"] == "town12",
    "place.zip IS NULL": lambda row: not row["place"] or row["place"]["zip"] is None,
    "place.zip = 166": lambda row: bool(row["place"]) and row["place"]["zip"] == 166,
    "day = 'monday' AND id > 90": lambda row: row["day"] == "monday" and row["id"] > 90,
    "day IS NULL AND id < 105": lambda row: row["day"] is None and row["id"] < 105,
    "day = 'tuesday'": lambda row: False,
    "id = 8 OR day IS NULL": lambda row: row["id"] == 8 or row["day"] is None,
}


@pytest.mark.parametrize("where", PREDICATES)
def test_rows_of_a_predicate(table, where):
    expected = [row for row in expected_rows() if PREDICATES[where](row)]
    rows = parquet_bloom.read_table(table, where)
    assert rows.schema.equals(SCHEMA)
    assert rows.to_pylist() == expected
    dataset = parquet_bloom.dataset(table)
    scan = dataset.scan(where)
    assert scan.count_rows() == len(expected)
    assert [row for batch in scan.to_batches(7) for row in batch.to_pylist()] == expected
    assert dataset.scan(where, ["ratio", "place.town"]).to_arrow().to_pylist() == [
        {"ratio": row["ratio"], "place": row["place"] and {"town": row["place"]["town"]}} for row in expected
    ]
    selected = sum(
        stop - start for groups in scan.row_ranges().values() for ranges in groups.values() for start, stop in ranges
    )
    assert len(expected) <= selected <= len(expected_rows())


def test_all_rows(table):
    dataset = parquet_bloom.dataset(table)
    assert dataset.schema.equals(SCHEMA)
    assert dataset.to_table().to_pylist() == expected_rows()
    assert dataset.count_rows() == dataset.scan().count_rows() == len(expected_rows())
    assert dataset.scan(columns=[]).to_arrow().num_rows == len(expected_rows())
    assert dataset.head(3).to_pylist() == expected_rows()[:3]


def test_engines(table):
    ds = parquet_bloom.dataset(table)
    assert duckdb.sql("SELECT id FROM ds WHERE ratio = 3.4 OR id IN (5, 7)").fetchall() == [(7,)]
    total = sum(row["id"] for row in expected_rows())
    assert duckdb.sql("SELECT count(*), sum(id) FROM ds").fetchall() == [(165, total)]
    assert pl.scan_pyarrow_dataset(ds).filter(pl.col("id") == 7).collect().height == 1
    frame = parquet_bloom.scan_polars(table).filter(pl.col("ratio") == 12.3).collect()
    assert frame["id"].to_list() == [123]
    assert parquet_bloom.scan_polars(table).select(pl.len()).collect().item() == 165


def test_row_ranges_of_all_rows_leave_out_deleted_ones(table):
    ranges = parquet_bloom.dataset(table).scan().row_ranges()
    groups = [of_group for of_file in ranges.values() for of_group in of_file.values()]
    assert sum(stop - start for group in groups for start, stop in group) == len(expected_rows())


def test_large_row_groups_are_read_in_windows(table):
    scan = parquet_bloom.dataset(table).scan()
    assert [row for batch in scan.to_batches(max_bytes=600) for row in batch.to_pylist()] == expected_rows()
    scan = parquet_bloom.dataset(table).scan("ratio >= 3.4")
    rows = [row for batch in scan.to_batches(max_bytes=600) for row in batch.to_pylist()]
    assert rows == [row for row in expected_rows() if row["ratio"] >= 3.4]


def test_dropped_and_physical_names_are_no_columns(table):
    for name in ("c1", "c3.t", "ID"):
        with pytest.raises(UnknownColumnError, match="the table has no such column"):
            parquet_bloom.prune(table, f'"{name}" = 1')
    assert parquet_bloom.read_table(table, "ID = 7", case_sensitive=False).num_rows == 1
    with pytest.raises(UnknownColumnError, match="did you mean 'ratio'"):
        parquet_bloom.read_table(table, None if False else "id = 7", ["rato"])


def test_filters_are_found_by_the_names_of_the_table(table):
    report = parquet_bloom.prune(table, "id = 1000000")
    assert report.skipped_by == {"filter+range": 8} or set(report.skipped_by) <= {"range", "filter"}
    assert not report.selected


def test_statistics_of_the_table_rule_out_files_unopened(table):
    column_type = from_arrow(pa.int64())
    entries = [PruningStatistics(column_type, True, 0, 99), PruningStatistics(column_type, True, 100, 199)]
    table.snapshot.__class__.statistics = {"id": PruningStatisticsArray.of(column_type, entries)}
    try:
        report = parquet_bloom.prune(table, "id = 150")
        assert report.unopened_by == {"table": 1}
        assert "its table says: 'id' lies outside of its range" in report.explain()
        assert "ruled out by the table" in str(report)
        page = report.to_html()
        assert "file ruled out by the table" in page
        assert "The files are those of the delta table" in page
    finally:
        table.snapshot.__class__.statistics = None


def test_changed_schema_is_an_error(table):
    dataset = parquet_bloom.dataset(table)
    old = table.snapshot
    schema = SCHEMA.set(1, pa.field("ratio", pa.string()))
    table.snapshot = Snapshot("delta", "t", 4, old.root, schema, old.files, COLUMNS, old.partition_values)
    with pytest.raises(UnreadableColumnError, match="the table's schema has changed: it is string now, not double"):
        dataset.to_table()


def test_undefined_columns_are_refused_where_files_lack_them(table):
    old = table.snapshot
    undefined = {old.files[1].path: {"tags": "the table gives it a default value, which cannot be applied yet"}}
    table.snapshot = Snapshot(
        "delta", "t", 3, old.root, SCHEMA, old.files, COLUMNS, old.partition_values, old.deletes, undefined
    )
    with pytest.raises(UnreadableColumnError, match="default value"):
        parquet_bloom.read_table(table, "id = 170")
    assert parquet_bloom.read_table(table, "id = 170", ["id"]).num_rows == 1
    assert parquet_bloom.dataset(table).scan("id = 170").count_rows() == 1  # the column is not needed to count
    with pytest.raises(UnreadableColumnError, match="default value"):
        parquet_bloom.dataset(table).scan("id = 170 AND tags IS NULL").count_rows()
    assert parquet_bloom.read_table(table, "id = 7").num_rows == 1


def test_deletes_that_cannot_be_read_show_no_rows(table):
    class Broken:
        def find_positions(self, rows):
            raise ParquetBloomError("its deletion vector is damaged")

    table.snapshot.deletes[table.snapshot.files[0].path] = Broken()
    with pytest.raises(ParquetBloomError, match=r"0\.parquet: its deletion vector is damaged"):
        parquet_bloom.read_table(table, "id = 7")
    assert parquet_bloom.prune(table, "id = 7").selected
    assert parquet_bloom.read_table(table, "id = 170").num_rows == 1


def test_page_indexes_and_the_page_use_the_names_of_the_table(table, tmp_path):
    """In the file, `id` is a dropped column with other values, and the one that is meant is `c1`."""
    path = tmp_path / "0.parquet"
    rows = pa.table({"c1": pa.array(range(40_000), pa.int32()), "id": pa.array(range(100_000, 140_000))})
    pages = {"data_page_size": 4000, "write_batch_size": 1000, "use_dictionary": False, "compression": "none"}
    pq.write_table(rows, path, row_group_size=20_000, write_page_index=True, **pages)
    parquet_bloom.embed(path, ["c1"])
    assert parquet_bloom.dataset(table).scan("id = 7").row_ranges() == {
        str(path): {0: [(1, 5), (6, 29), (31, 99), (100, 1000)]}  # without deleted rows
    }
    details = read_details(parquet_bloom.prune(table, "id = 7"), check=True)
    assert not details.problems
    assert details.num_filters == {"id": 6}  # two of this file, four of the other
    assert [group.matches for group in details.files[str(path)]] == [1, None]


def test_verify_and_advise_are_about_live_files_by_the_names_of_the_table(table, tmp_path):
    new_file(tmp_path / "2.parquet", 200)  # of no version
    report = parquet_bloom.verify(table, data=True)
    assert (report.path, len(report), report.ok) == ("hand-made", 2, True)
    assert {chunk.column for chunk in report.chunks} == {"id"}
    assert sum(chunk.num_values for chunk in report.chunks) == 200
    with pytest.raises(FilesFailedError):
        parquet_bloom.verify(table, columns=["c1"])
    advice = parquet_bloom.advise(table, ["place", "ratio"], sample=4)
    assert (advice.files, advice.rows, advice.paths) == (2, 200, ("hand-made",))
    assert {column.column for column in advice.columns} == {"place.town", "place.zip", "ratio"}
    assert advice.command is None  # nothing says how a command names such a table
    chosen = replace(advice.columns[0], verdict="yes")
    report = replace(advice, columns=(chosen,))
    assert report.call == f"parquet_bloom.embed_table(table, ['{chosen.column}'])"
    assert replace(report, table=("a b",)).command == f"parquet-bloom embed 'a b' --column {chosen.column} --commit"
