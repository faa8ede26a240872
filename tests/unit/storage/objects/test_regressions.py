"""Past defects of reading from object stores."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore
from support.writers import surgery

import parquet_bloom


@pytest.mark.parametrize("kind", [LocalStore, MemoryStore])
def test_chunks_that_were_read_with_the_filters_around_them(kind: type, tmp_path: Path) -> None:
    """One request read filters and the chunk between them, and reading that chunk was a ValueError."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": range(6), "b": range(6)})
    filters = {name: {"ndv": 2, "fpp": 0.01} for name in table.column_names}
    pq.write_table(table, path, row_group_size=2, write_statistics=False, bloom_filter_options=filters)
    surgery.with_filter_moved_between_row_groups(path, "a")
    data = path.read_bytes()
    store = kind(tmp_path) if kind is LocalStore else kind()
    store.put("a.parquet", data)
    scan = parquet_bloom.dataset(["a.parquet"], filesystem=store).scan("a = 3 OR b = 1")
    assert scan.to_arrow() == table.take([1, 3])
