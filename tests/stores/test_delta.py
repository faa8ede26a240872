"""Filters in a Delta table on every store: by one commit where the store creates objects only if there are none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from servers import Store, cases

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.errors import StorageError

deltalake = pytest.importorskip("deltalake")

TAKEN = {"radosgw", "azurite", "moto"}


@pytest.mark.parametrize("store", cases("radosgw", "swift", "s3rver", "azurite", "moto", "moto-lax"), indirect=True)
def test_embed_table(store: Store, tmp_path: Path) -> None:
    bucket, root = store.create_bucket(), Path(tables.make_delta(tmp_path / "t", 2))
    for path in root.rglob("*"):
        if path.is_file():
            store.put(bucket, f"t/{path.relative_to(root)}", path.read_bytes())
    table: Any = parquet_bloom.delta(store.url(bucket, "t"), storage_options=store.storage_options)
    before = tables.read_delta(str(root))
    assert tables.contents(parquet_bloom.read_table(table, "id >= 0")) == before
    if store.name not in TAKEN:
        with pytest.raises(
            StorageError, match=r"overwrites objects that are only to be created|cannot create the object"
        ):
            parquet_bloom.embed_table(table, ["id", "s"])
        assert table.read_snapshot().version == 1
    else:
        report = parquet_bloom.embed_table(table, ["id", "s"])
        assert (len(report.files), report.skipped, report.new_version) == (10, (), 2)
        assert parquet_bloom.prune(table, "id = 57").skipped_by["filter"]
        assert not parquet_bloom.embed_table(table, ["id", "s"]).changed
    assert tables.contents(parquet_bloom.read_table(table, "id >= 0")) == before
