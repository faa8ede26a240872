"""The schema of selected columns is the one that pyarrow gives their rows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.scan.model.file_schemas import arrow_schema

ONE = pa.table({
    "a": pa.array([1, 2], pa.int32()),
    "b": pa.array([{"x": 1, "y": [1, 2]}, None]),
    "c": pa.array(["a", "b"]).dictionary_encode(),
    "d": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
    "e": pa.array([None, None], pa.null()),
    "f": pa.array([1, 2], pa.timestamp("ns", "UTC")),
}).replace_schema_metadata({"k": "v"})  # fmt: skip
DOTTED = pa.table({"a": [1], "a.b": [2], "c": [{"b": 3}]})
TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "b", "a"])


@pytest.mark.parametrize(
    ("table", "names", "options"),
    [
        (ONE, [*ONE.column_names, "b.x"], {}),
        (ONE, ONE.column_names, {"store_schema": False}),
        (ONE, ONE.column_names, {"use_deprecated_int96_timestamps": True}),
        (DOTTED, ["a", "a.b", "c", "c.b"], {}),
        (TWICE, ["a", "b"], {}),
    ],
)
def test_selected_columns(table: pa.Table, names: list[str], options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, **options)
    with pq.ParquetFile(path) as expected, parquet_bloom.open(path) as file:
        for count in (1, 2, 3):
            for chosen in itertools.permutations(names, min(count, len(names))):
                schema = expected.read_row_groups([], list(chosen), use_threads=False).schema
                assert arrow_schema(file, chosen).equals(schema, check_metadata=True), chosen
