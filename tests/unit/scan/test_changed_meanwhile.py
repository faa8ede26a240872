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


@pytest.mark.parametrize("schema", [None, pa.schema({"id": pa.int32()})])
@pytest.mark.parametrize("expected", [5, 145])
def test_a_dataset_of_a_replaced_file_has_all_of_it(tmp_path: Path, expected: int, schema: pa.Schema | None) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(encoded(0, 10))
    dataset = parquet_bloom.dataset(path, schema=schema)
    condition = pc.field("id") == expected
    scans = [dataset.scan(condition) for _ in range(2)]
    plans = [scan.plan() for scan in scans]
    fragments = [fragment for fragment in dataset.get_fragments(condition) if fragment.row_groups]
    assert len(plans[0].selected) == len(fragments) == (expected < 100)
    path.unlink()
    path.write_bytes(encoded(100 if expected > 100 else -50, 20))
    assert dataset.to_table(filter=condition)["id"].to_pylist() == [expected]
    if fragments:  # planned before
        assert [batch["id"].to_pylist() for batch in scans[0].to_batches()] == [[expected]]
        assert scans[1].to_arrow()["id"].to_pylist() == [expected]
        assert fragments[0].to_table()["id"].to_pylist() == [expected]


def test_a_dataset_of_a_replaced_object_has_all_of_it(s3: Any) -> None:
    s3.put("a.parquet", encoded(0, 10))
    dataset = parquet_bloom.dataset(s3.url("a.parquet"), storage_options=s3.storage_options)
    scan = dataset.scan("id = 95")
    assert scan.plan().selected_row_groups == 1
    s3.put("a.parquet", encoded(50, 20))
    assert scan.to_arrow()["id"].to_pylist() == [95]
    assert dataset.to_table(filter=pc.field("id") == 95)["id"].to_pylist() == [95]


def test_a_protocol_before_the_path_does_not_make_it_another_file() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/lake/a.parquet", encoded(0, 10))
    with pytest.raises(StorageError, match="give an output elsewhere"):
        parquet_bloom.embed("/lake/a.parquet", ["id"], output="memory://lake/a.parquet", filesystem=memory)
    assert memory.cat("/lake/a.parquet") == encoded(0, 10)
