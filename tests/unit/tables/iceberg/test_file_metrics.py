"""Metrics of new data files by their footers: those that pyiceberg writes, and none that are not certain."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scale import scaled
from support.writers.iceberg_tables import list_entries, with_ids

import parquet_bloom
from parquet_bloom.tables.iceberg.file_metrics import FileMetrics, find_modes, measure_file
from parquet_bloom.tables.iceberg.iceberg_statistics import list_fields, make_arrow_schema
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg")
from support.random_cases.iceberg_tables import draw_rows


def make_catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    return catalog


def measure(table: Any, path: str) -> FileMetrics:
    schema = table.schema()
    fields, modes = list_fields(schema, make_arrow_schema(schema)), find_modes(schema, table.properties)
    with parquet_bloom.open(path) as file:
        return measure_file(file, iceberg(table).read_snapshot().columns or (), fields, modes)


def test_they_are_those_of_pyiceberg(tmp_path: Path) -> None:
    catalog = make_catalog(tmp_path)
    for seed in range(max(scaled(3), 1)):
        rng = random.Random(seed)
        parts = draw_rows(rng, 2, 30)
        default = rng.choice(["truncate(16)", "truncate(3)", "full", "counts", "none"])
        properties = {"write.metadata.metrics.default": default, "write.parquet.row-group-limit": "7"}
        table = catalog.create_table(f"n.t{seed}", parts[0].schema, properties=properties)
        for part in parts:
            table.append(part)
        for entry in list_entries(table, 0):
            found = measure(table, entry["file_path"].removeprefix("file://"))
            names = ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
            for mine, name in zip(found.list_maps(), names, strict=True):
                assert mine == (entry[name] or {}), (seed, default, name)
            assert found.num_rows == entry["record_count"]
    catalog.close()


def test_what_is_not_certain_is_left_out(tmp_path: Path) -> None:
    schema = pa.schema(
        [("s", pa.string()), ("x", pa.float64()), ("n", pa.int64()), ("l", pa.list_(pa.int64())), ("z", pa.float32())]
    )
    table = make_catalog(tmp_path).create_table("n.t", schema)
    ids = {name: number for number, name in enumerate(schema.names, 1)}
    nan = float("nan")
    columns = [["a" * 16 + "\ud7ff", "b"], [nan, nan], [None, 1], [[1], [2, 3]], [0.0, nan]]
    rows = pa.table(columns, schema=with_ids(schema, ids))
    path = str(tmp_path / "new.parquet")
    pq.write_table(rows, path, write_statistics=["s", "x", "z"])
    found = measure(table, path)
    assert (found.num_rows, found.null_counts) == (2, {1: 0, 2: 0, 5: 0})
    # The highest text is the second one; all values of the second column are NaN; zero has the sign that is lower.
    assert found.lower == {1: b"a" * 16, 5: b"\0\0\0\x80"}
    assert found.upper == {1: b"b", 5: b"\0\0\0\0"}
    assert set(found.value_counts) == {1, 2, 3, 5}  # not of lists
    # A text that is cut is rounded up by its last character, and there is none after U+D7FF.
    rows = rows.set_column(0, rows.schema.field(0), [["a" * 15 + "\ud7ffb", "b"]]).slice(0, 1)
    pq.write_table(rows, path)
    found = measure(table, path)
    assert (found.lower[1], 1 in found.upper) == (("a" * 15 + "\ud7ff").encode(), False)
