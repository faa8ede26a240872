"""Columns of the types of format version 3: they are read, or refused where they are asked for, and others are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import HandTable, find_row_ids

import parquet_bloom
from parquet_bloom.errors import StorageError
from parquet_bloom.tables.embed.embed_table import embed_table

pytest.importorskip("pyiceberg")

POINT = b"\x01\x01\0\0\0" + bytes(16)
MOMENTS = [1, 1_000_000_000_000_000_001, None]
TYPES = {
    "timestamp_ns": pa.array(MOMENTS, pa.timestamp("ns")),
    "timestamptz_ns": pa.array(MOMENTS, pa.timestamp("ns", "UTC")),
    "geometry": pa.array([POINT, None, POINT]),
    "geography": pa.array([POINT, None, POINT]),
    "unknown": None,
}


def make_table(root: Path, kind: Any, values: pa.Array | None) -> HandTable:
    """Make a table of two columns, `id`, and `x` of a type; None for values that files do not have."""
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "x", "required": False, "type": kind},
    ]
    table, columns = HandTable(root, [fields], version=3), {"id": pa.array([1, 2, 3])}
    if values is not None:
        columns["x"] = values
    table.add_snapshot([table.write_file(pa.table(columns), dict(zip(columns, (1, 2), strict=False)))], first_row=10)
    return table


@pytest.mark.ci
@pytest.mark.parametrize("kind", TYPES)
def test_tables_with_such_columns_get_filters(tmp_path: Path, kind: str) -> None:
    hand = make_table(tmp_path / "t", kind, TYPES[kind])
    table = tables.make_catalog(tmp_path).register_table("db.events", hand.write_metadata())
    found = parquet_bloom.dataset(parquet_bloom.iceberg(table))
    rows, ids = found.to_table(), find_row_ids(table)
    values = TYPES[kind]
    assert rows["x"].cast("int64" if kind.startswith("time") else rows["x"].type).to_pylist() == (
        [None] * 3 if values is None else MOMENTS if kind.startswith("time") else values.to_pylist()
    )
    assert len(embed_table(table, ["id"]).files) == 1
    if kind.startswith("time"):
        assert len(embed_table(table, ["x"]).files) == 1
        (chunk,) = parquet_bloom.verify(parquet_bloom.iceberg(tables.reload(table)), data=True, columns=["x"]).chunks
        assert chunk.num_values == 2
        where = "x = TIMESTAMP '2001-09-09 01:46:40.000000001'"
        assert parquet_bloom.read_table(parquet_bloom.iceberg(tables.reload(table)), where)["id"].to_pylist() == [2]
    assert (found.to_table().equals(rows), find_row_ids(tables.reload(table))) == (True, ids)
    assert parquet_bloom.prune(parquet_bloom.iceberg(tables.reload(table)), "id = 7").skipped_by


def test_catalogs_of_pyiceberg_do_not_know_variants(tmp_path: Path) -> None:
    """They read the metadata by themselves; the file with the metadata is read here."""
    hand = make_table(tmp_path / "t", "long", pa.array([1, 2, 3]))
    catalog = tables.make_catalog(tmp_path)
    catalog.register_table("db.events", hand.write_metadata())
    hand.metadata["schemas"][0]["fields"][1]["type"] = "variant"
    metadata = hand.write_metadata()
    with pytest.raises(StorageError, match=r"cannot read the Iceberg table: .*variant"):
        parquet_bloom.prune(parquet_bloom.iceberg("db.events", catalog=catalog), "id = 1")
    assert parquet_bloom.read_table(parquet_bloom.iceberg(metadata), "id = 1", ["id"])["id"].to_pylist() == [1]


def test_geometries_of_a_reference_system(tmp_path: Path) -> None:
    """As Java writes it, without quotes, which pyiceberg does not take."""
    table = parquet_bloom.iceberg(make_table(tmp_path / "t", "geometry(srid:4326)", TYPES["geometry"]).write_metadata())
    assert parquet_bloom.dataset(table).to_table()["x"].to_pylist() == [POINT, None, POINT]
