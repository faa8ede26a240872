"""Attributes of an object are kept when filters are embedded in place; else the call changes nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from races import parquet
from servers import Store, cases

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

STORES = cases("radosgw", "swift", "s3rver", "moto", "moto-lax")


def attributes(store: Store, target: dict[str, str]) -> dict[str, Any]:
    """Read what the store has kept, but for the key that embedding adds."""
    head = store.client.head_object(**target)
    tags: Any = None
    with suppress(store.client.exceptions.ClientError):  # a store without tags
        tags = store.client.get_object_tagging(**target).get("TagSet")
    metadata = {name: text for name, text in head["Metadata"].items() if name != "parquet-bloom-run"}
    rest = {name: head.get(name) for name in ("ContentType", "CacheControl", "ContentLanguage", "StorageClass")}
    return {"metadata": metadata, "tags": tags, **rest}


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("size", ["tiny", "large"])
@pytest.mark.parametrize("store", STORES, indirect=True)
def test_attributes(store: Store, size: str, tagged: bool, tmp_path: Path) -> None:
    target = {"Bucket": store.create_bucket(), "Key": "a.parquet"}
    more: dict[str, Any] = {"Metadata": {"owner": "lake"}, "ContentType": "application/vnd.apache.parquet"}
    more["CacheControl"] = "max-age=60"
    old = parquet(size, 1)
    if tagged and store.name == "swift":
        pytest.skip("Swift takes no tags")
    store.client.put_object(**target, Body=old, **more, **({"Tagging": "a=b"} if tagged else {}))
    before = attributes(store, target)
    error = None
    try:
        parquet_bloom.embed(store.url(*target.values()), ["id"], storage_options=store.storage_options)
    except ParquetBloomError as caught:
        error = caught
    path = tmp_path / "a.parquet"
    path.write_bytes(old)
    parquet_bloom.embed(path, ["id"])
    assert store.get(*target.values()) == (old if error else path.read_bytes())
    assert attributes(store, target) == before
    if store.name == "moto":
        assert error is None
