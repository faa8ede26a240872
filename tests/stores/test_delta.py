"""Filters in a Delta table on every store: by one commit where the store creates objects only if there are none."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from delta_races import OTHERS, DeltaField
from proxy import proxied
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


@pytest.fixture
def delta_field(store: Store, tmp_path: Path) -> Iterator[DeltaField]:
    with proxied(store.endpoint) as proxy:
        yield DeltaField(store, proxy, tmp_path)


EACH = pytest.mark.parametrize("store", sorted(TAKEN), indirect=True)


@pytest.mark.long
@EACH
def test_two_hundred_races(delta_field: DeltaField) -> None:
    moments = itertools.product(range(delta_field.num_requests), (False, True), OTHERS)
    for number, after, other in itertools.islice(itertools.cycle(moments), 200):
        delta_field.play(number, after, other)


@pytest.mark.long
@EACH
def test_kill_at_each_request(delta_field: DeltaField) -> None:
    assert all(map(delta_field.kill, range(delta_field.num_requests)))
    assert not delta_field.kill(2 * delta_field.num_requests)
