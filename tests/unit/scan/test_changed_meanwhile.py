"""Test files that are replaced between planning and reading: no row of theirs is lost."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import StorageError


def encoded(start: int, row_group_size: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(start, start + 100))}), sink, row_group_size=row_group_size)
    return sink.getvalue()


@pytest.mark.parametrize("schema", [None, pa.schema({"id": pa.int64()})])
@pytest.mark.parametrize("expected", [5, 145])
def test_a_dataset_of_a_replaced_file_has_all_of_it(tmp_path: Path, expected: int, schema: pa.Schema | None) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(encoded(0, 10))
    report = parquet_bloom.prune(path, f"id = {expected}")
    path.unlink()
    path.write_bytes(encoded(100 if expected > 100 else -50, 20))
    result = report.to_dataset(schema).to_table(filter=pc.field("id") == expected)
    assert result["id"].to_pylist() == [expected]


def test_a_dataset_of_a_replaced_object_has_all_of_it(s3: Any) -> None:
    s3.put("a.parquet", encoded(0, 10))
    report = parquet_bloom.prune(s3.url("a.parquet"), "id = 95", storage_options=s3.storage_options)
    s3.put("a.parquet", encoded(50, 20))
    result = report.to_dataset().to_table(filter=pc.field("id") == 95)
    assert result["id"].to_pylist() == [95]


def test_a_protocol_before_the_path_does_not_make_it_another_file() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/lake/a.parquet", encoded(0, 10))
    with pytest.raises(StorageError, match="give an output elsewhere"):
        parquet_bloom.embed("/lake/a.parquet", ["id"], output="memory://lake/a.parquet", filesystem=memory)
    assert memory.cat("/lake/a.parquet") == encoded(0, 10)
