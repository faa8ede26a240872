"""A table that is read again: what has changed is seen, and what cannot have changed is not read."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.processes.watching import watching_opens

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

from .conftest import rows

pytest.importorskip("sqlalchemy")
sql = pytest.importorskip("pyiceberg.catalog.sql")


def ways(catalog: Any, table: Any) -> list[Any]:
    return [iceberg(table), iceberg("n.t", catalog=catalog), iceberg(table.location())]


def test_nothing_is_read_again_and_a_commit_is_seen(catalog: Any, table: Any) -> None:
    def read(named: Any) -> tuple[Any, int]:
        """A snapshot, and the number of Avro files that were opened for it."""
        with watching_opens(f"{table.location().removeprefix('file://')}/metadata") as opened:
            snapshot = named.read_snapshot()
        return snapshot, len({name for name in opened if name.endswith(".avro")})

    for named in ways(catalog, table):
        first, count = read(named)
        assert (len(first.files), count >= 3) == (2, True)  # the list, and two manifests
        assert read(named) == (first, 0)
        catalog.load_table("n.t").append(rows(6))
        second, count = read(named)
        assert (len(second.files), 2 <= count <= 3) == (3, True)  # the new list and manifest, of three manifests
        assert len(first.files) == 2  # as it was
        for snapshot, lowest in ((first, [0, 3]), (second, [0, 3, 6])):
            statistics = snapshot.find_statistics("id")
            assert statistics is not None
            assert sorted(statistics.low.tolist()) == lowest
        catalog.load_table("n.t").delete("id >= 6")
        assert [file.path for file in named.read_snapshot().files] == [file.path for file in first.files]


@pytest.mark.ci
def test_an_open_dataset_sees_commits(catalog: Any, table: Any) -> None:
    for named in ways(catalog, table):
        dataset = parquet_bloom.dataset(named)
        assert dataset.scan("id >= 3").to_arrow().num_rows == 3
        catalog.load_table("n.t").append(rows(6))
        assert sorted(dataset.scan("id >= 3").to_arrow()["id"].to_pylist()) == [3, 4, 5, 6, 7, 8]
        assert dataset.to_table().num_rows == 9
        catalog.load_table("n.t").delete("id = 7")
        assert sorted(dataset.scan("id >= 3").to_arrow()["id"].to_pylist()) == [3, 4, 5, 6, 8]
        catalog.load_table("n.t").delete("id >= 6")
    fixed = parquet_bloom.dataset(iceberg("n.t", catalog=catalog, snapshot_id=table.current_snapshot().snapshot_id))
    catalog.load_table("n.t").append(rows(6))
    assert fixed.scan("id >= 3").to_arrow().num_rows == 3


def test_a_metadata_file_of_the_same_name_and_length_is_seen(catalog: Any, table: Any) -> None:
    """The specification has it that it never changes; a table that was made anew may have another one of the name."""
    path = Path(table.metadata_location.removeprefix("file://"))
    text = path.read_text()
    first, second = (f'"current-snapshot-id":{each.snapshot_id}' for each in table.snapshots())
    old = text.replace(second, first).replace(second.split(":")[1] + ',"type"', first.split(":")[1] + ',"type"')
    length = max(len(old), len(text))  # ids are not all of one length
    old, text = old.ljust(length), text.ljust(length)
    path.write_text(text)
    named, folder = iceberg(str(path)), iceberg(table.location())
    assert [len(each.read_snapshot().files) for each in (named, folder)] == [2, 2]
    status = path.stat()
    path.write_text(old)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [len(each.read_snapshot().files) for each in (named, folder)] == [1, 1]
    path.write_text(text)
    assert [len(each.read_snapshot().files) for each in (named, folder)] == [2, 2]


def test_a_table_that_was_dropped_and_made_anew(catalog: Any, table: Any) -> None:
    named = ways(catalog, table)
    before = [each.read_snapshot().table_id for each in named]
    catalog.drop_table("n.t")
    shutil.rmtree(table.location().removeprefix("file://"))
    for each in named:
        with pytest.raises(ParquetBloomError, match="cannot read the Iceberg table"):
            each.read_snapshot()
    catalog.create_table("n.t", rows(0).schema).append(rows(70))
    for each, old in zip(named, before, strict=True):
        snapshot = each.read_snapshot()
        assert len(snapshot.files) == 1
        assert snapshot.table_id != old
        assert parquet_bloom.dataset(each).to_table().equals(rows(70))


def test_a_manifest_never_changes_for_an_open_table(catalog: Any, table: Any) -> None:
    """As the specification has it, and documented so: one that is overwritten is not seen, but by opening it anew."""
    named = iceberg(table.location())
    live = named.read_snapshot().files
    for manifest in Path(table.location().removeprefix("file://")).glob("metadata/*.avro"):
        manifest.write_bytes(bytes(manifest.stat().st_size))
    assert named.read_snapshot().files == live
    for other in (iceberg(table.location()), pickle.loads(pickle.dumps(named))):
        with pytest.raises(ParquetBloomError, match="malformed or cut short"):
            other.read_snapshot()


def test_other_credentials_of_a_catalog_make_another_snapshot(catalog: Any, table: Any) -> None:
    named = iceberg("n.t", catalog=catalog)
    first = named.read_snapshot()
    opened = named._source.open

    def send_other() -> Any:
        found = opened()
        found.io.properties["s3.session-token"] = "new"
        return found

    object.__setattr__(named, "_source", type("Source", (), {"open": staticmethod(send_other)})())
    second = named.read_snapshot()
    assert second is not first
    assert (second.storage_options or {}).get("aws_session_token") == "new"
    assert second.files == first.files
