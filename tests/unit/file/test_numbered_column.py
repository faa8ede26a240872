"""Columns of numbers that a file gets when rows leave it: each row that stays keeps its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines import duckdb_tables

import parquet_bloom
from parquet_bloom.errors import MalformedFooterError, UnreadableColumnError
from parquet_bloom.file.drop_rows import write_without_rows
from parquet_bloom.file.numbered_column import NumberedColumn

IDS, VERSIONS = NumberedColumn("ids", 77, 1000, 1), NumberedColumn("versions", None, 7, 0)
GONE = [0, 1, 2, 3, 4, 7, 11]
KEPT = [number for number in range(20) if number not in GONE]


def write(path: Path, **options: Any) -> pa.Table:
    """Write four row groups: of GONE the first loses all rows, two lose some, and the last one none."""
    rows = pa.table({"id": range(20), "s": [{"t": f"x{i}" if i % 3 else None, "l": [i, i + 1]} for i in range(20)]})
    pq.write_table(rows, path, row_group_size=5, **options)
    return rows


def drop(path: Path, gone: list[int], *columns: NumberedColumn) -> pa.Table:
    write_without_rows(path, np.array(gone), path, numbered=columns)
    parquet_bloom.verify(path, data=True)
    return pq.read_table(path)


@pytest.mark.parametrize(
    "options", [{}, {"store_schema": False}, {"write_page_index": True, "bloom_filter_options": {"id": True}}]
)
def test_rows_keep_their_numbers(tmp_path: Path, options: dict[str, Any]) -> None:
    """In all row groups, and in a file that has the columns already."""
    path = tmp_path / "a.parquet"
    rows = write(path, **options)
    found = drop(path, GONE, IDS, VERSIONS)
    expected = rows.take(KEPT).append_column("ids", pa.array([1000 + number for number in KEPT]))
    expected = expected.append_column("versions", pa.array([7] * len(KEPT)))
    assert found.equals(expected)
    assert [field.metadata for field in found.schema.remove(0).remove(0)] == [{b"PARQUET:field_id": b"77"}, None]
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(number).num_columns for number in range(3)] == [5] * 3
    again = IDS._replace(name="others", first=0), VERSIONS._replace(first=0)
    assert drop(path, [0, 12], *again).equals(expected.slice(1, 11))
    assert parquet_bloom.read_table(path, "id = 12 AND ids = 1012").num_rows == 1


@pytest.mark.ci
def test_duckdb_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    drop(path, GONE, IDS, VERSIONS)
    [rows] = duckdb_tables.ask(f"SELECT id, ids, versions FROM '{path}' WHERE ids > 1005 ORDER BY id")
    assert rows == [[number, 1000 + number, 7] for number in KEPT[1:]]


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    nulls = pa.table({"id": [1, 2], "ids": pa.array([5, None])})
    pq.write_table(nulls, path)
    before = path.read_bytes()
    known = IDS._replace(field_id=None)
    with pytest.raises(UnreadableColumnError, match="row group 0, column 'ids': the table numbers rows by their file"):
        drop(path, [0], known)
    with pytest.raises(
        UnreadableColumnError, match="column 'ids': the table numbers rows by a column of this name, and"
    ):
        drop(path, [0], IDS)
    assert path.read_bytes() == before
    assert drop(path, [0], known._replace(may_be_null=True))["ids"].to_pylist() == [None]
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64())]), store_schema=False) as writer:
        writer.write_table(pa.table({"id": [1, 2]}))
        writer.add_key_value_metadata({"ARROW:schema": "?"})
    before = path.read_bytes()
    with pytest.raises(MalformedFooterError, match="its Arrow schema cannot be read"):
        write_without_rows(path, np.array([0]), path, numbered=[IDS])
    assert path.read_bytes() == before
