"""Requests of a lookup to a zone index in a store: its end, and blocks of zones of the remaining row groups."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.counted import CountedFileSystem

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import BrokenZonesError
from parquet_bloom.hashing.column_type import ColumnType, Kind
from parquet_bloom.storage import create
from parquet_bloom.zones import zone_builder, zone_manifest
from parquet_bloom.zones.zone_manifest import ZONE, FilterSizing, ZonedFile, ZoneManifest

FILES, GROUPS, ROWS = 6, 20, 64
CONTAINERS = ["parquet", "arrow"]


def ids(number: int) -> list[int]:
    return (np.random.default_rng(number).permutation(GROUPS * ROWS) * FILES + number).tolist()


def lake(s3: Any, tmp_path: Path, filters: bool) -> None:
    for number in range(FILES):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": ids(number)}), path, row_group_size=ROWS, write_page_index=True)
        if filters:
            parquet_bloom.embed(path, ["id"], fpp=1e-6)
        s3.put(f"lake/{number}.parquet", path.read_bytes())


def of_index(s3: Any) -> list[Any]:
    return [request for request in s3.log if request.key.startswith("zones/")]


@pytest.mark.ci
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_lookup_takes_a_hundredth_of_the_index(s3: Any, tmp_path: Path, container: str) -> None:
    lake(s3, tmp_path, filters=True)
    options = {"storage_options": s3.storage_options}
    target = s3.url(f"zones/id.{container}")
    report = zones.build(s3.url("lake"), "id", target, rows_per_zone=8192 * 4, **options)
    assert report.num_bytes > 15_000_000
    for number, at in ((2, 0), (5, 700), (0, GROUPS * ROWS - 1)):
        value = ids(number)[at]
        s3.clear_log()
        result = parquet_bloom.prune(s3.url("lake"), [("id", "=", value)], zones=target, **options)
        assert [file.path for file in result.files if file.selected] == [s3.url(f"lake/{number}.parquet")]
        assert not result.zone_doubts
        # The end, what shows that filters are where they should be, and one block, these two side by side.
        assert len(of_index(s3)) <= 3, of_index(s3)
        assert sum(request.received for request in of_index(s3)) <= report.num_bytes / 100


@pytest.mark.ci
@pytest.mark.parametrize("container", CONTAINERS)
def test_opening_is_one_request_and_asking_one_more_each(s3: Any, tmp_path: Path, container: str) -> None:
    lake(s3, tmp_path, filters=False)
    options = {"storage_options": s3.storage_options}
    target = s3.url(f"zones/id.{container}")
    zones.build(s3.url("lake"), "id", target, rows_per_zone=8192 * 4, **options)
    s3.clear_log()
    with zones.open(target, **options) as index:
        assert len(s3.log) == 1
        assert len(index) == FILES * GROUPS
        hashes, _ = zones.keying([ids(3)[5]], index.column_type)
        s3.clear_log()
        of_file = index.zones_of(3)
        assert index.check(of_file.zones[:1], hashes).tolist() == [True]
        assert len(s3.log) <= 2
        s3.clear_log()
        assert not index.check(of_file.zones[1:2], hashes).any()
        assert [request.received for request in s3.log] == [32]


@pytest.mark.ci
@pytest.mark.parametrize("container", CONTAINERS)
def test_files_without_filters_are_probed_in_parallel(s3: Any, tmp_path: Path, container: str) -> None:
    lake(s3, tmp_path, filters=False)
    options = {"storage_options": s3.storage_options}
    target = s3.url(f"zones/id.{container}")
    zones.build(s3.url("lake"), "id", target, rows_per_zone=ROWS, **options)
    with zones.open(target, **options) as index:
        index.equals(0)  # that everything is where it should be is known from now on
        together = threading.Barrier(FILES)
        s3.before(
            "GetObject", lambda _: together.wait(20), times=FILES, when=lambda request: request.key.startswith("zones/")
        )
        for number in range(FILES):
            s3.clear_log()
            value = ids(number)[77]
            report = parquet_bloom.prune(s3.url("lake"), [("id", "=", value)], zones=index, **options)
            (one,) = [file for file in report.files if any(group.read for group in file.row_groups)]
            assert one.path == s3.url(f"lake/{number}.parquet")
            assert [group.row_group for group in one.row_groups if group.read] == [77 // ROWS]
            assert len(of_index(s3)) <= FILES * GROUPS


def small(tmp_path: Path, container: str, rows_per_zone: int = 20) -> tuple[Path, Path]:
    lake = tmp_path / "lake"
    lake.mkdir()
    table = pa.table({"id": [i if i % 7 else None for i in range(300)]})
    pq.write_table(table, lake / "a.parquet", row_group_size=100)
    zones.build(lake, "id", tmp_path / f"z.{container}", rows_per_zone=rows_per_zone)
    return lake, tmp_path / f"z.{container}"


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_table_that_was_written_anew_is_read_itself(tmp_path: Path, container: str) -> None:
    """Its metadata are those of our file; rows that have moved must not be probed for others' values."""
    _, path = small(tmp_path, container)
    if container == "parquet":
        table = pq.read_table(path).replace_schema_metadata(pq.read_metadata(path).metadata)
    else:
        with pa.ipc.open_file(path) as reader:
            table = reader.read_all()
    assert zone_manifest.SEAL_KEY in table.schema.metadata

    def rewritten(changed: pa.Table) -> Path:
        target = tmp_path / f"other.{container}"
        if container == "parquet":
            # As much like ours as can be.
            options = {"compression": {**dict.fromkeys(changed.schema.names, "zstd"), "bloom_filter_data": "none"}}
            pq.write_table(changed, target, use_dictionary=False, **options)
        else:
            with pa.ipc.new_file(target, changed.schema) as writer:
                writer.write_table(changed)
        return target

    with zones.open(path) as index:
        sealed = index.to_table()
    with zones.open(rewritten(table)) as index:
        assert index.to_table().equals(sealed)
        for value in range(300):
            if value % 7:
                assert any(
                    row["fragment_id"] == value // 100 and 0 <= value % 100 - row["zone_start"] < row["zone_length"]
                    for row in index.equals(value).to_pylist()
                )
    with pytest.raises(BrokenZonesError):  # the numbers, and with them the filters, in another order
        zones.open(rewritten(table.take(pa.array([1, 0, *range(2, len(table))]))))


@pytest.mark.parametrize("container", CONTAINERS)
def test_unproved_offsets_are_searched(tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if container == "parquet":  # several pages a row group, as another pyarrow may write them
        real = pq.ParquetWriter
        monkeypatch.setattr(
            zone_builder.pq, "ParquetWriter", lambda *args, **options: real(*args, **options | {"max_rows_per_page": 4})
        )
    _, path = small(tmp_path, container)
    if container == "arrow":
        real_batch = parquet_bloom.zones.arrow_container._read_batch

        is_first = iter([True])

        def elsewhere(message: bytes, block: Any, columns: int) -> Any:
            batch = real_batch(message, block, columns)
            return batch._replace(num_rows=batch.num_rows + next(is_first, False))

        monkeypatch.setattr("parquet_bloom.zones.arrow_container._read_batch", elsewhere)
    with zones.open(path) as index:
        for value in range(300):
            if value % 7:
                answers = index.equals(value).to_pylist()
                assert any(row["fragment_id"] == value // 100 for row in answers)
                assert len(answers) <= 3


def write_synthetic_index(path: Path, container: str, files: int, zones_each: int, filter_bytes: int) -> Any:
    """Write an index over files that there are none of; returns its filters' bits."""
    table = np.zeros(files * zones_each, ZONE)
    table["fragment_id"] = np.repeat(np.arange(files), zones_each)
    table["zone_start"], table["zone_length"] = np.tile(np.arange(zones_each) * 5, files), 5
    rng = np.random.default_rng(1)
    column_type = ColumnType("INT64", Kind.INTEGER, 8, bits=64, signed=True)
    prints = rng.integers(0, 1 << 62, (files, 2)).tolist()
    stamps = [b"\xff\x00" + rng.bytes(16).hex().encode() for _ in range(files)]
    of = [ZonedFile(n, f"/{n}", 1, stamps[n], *prints[n], column_type, 1) for n in range(files)]
    counts = np.full(files, 5 * zones_each, np.int64)
    manifest = ZoneManifest("id", filter_bytes, of, np.arange(files), np.zeros(files, np.int64), counts)
    reported = zone_manifest.describe_zones(table, 5, zone_builder.zones_per_batch(filter_bytes))
    metadata = FilterSizing(5, 0.01).metadata | manifest.to_metadata(table, reported)
    bits = rng.integers(0, 256, len(table) * filter_bytes).astype(np.uint8)

    def read(first: int, some: int) -> Any:
        return bits[first * filter_bytes : (first + some) * filter_bytes]

    with create(str(path)) as new:
        zone_builder.write_index(new, container, table, filter_bytes, read, metadata)
        new.commit()
    return bits


@pytest.mark.ci
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(("files", "requests"), [(1_000, 1), (5_000, 2)])
def test_opening_reads_the_end_once(s3: Any, tmp_path: Path, container: str, files: int, requests: int) -> None:
    write_synthetic_index(tmp_path / "z", container, files, 4, 4096)
    size = (tmp_path / "z").stat().st_size
    s3.put("z", (tmp_path / "z").read_bytes())
    s3.clear_log()
    with zones.open(s3.url("z"), storage_options=s3.storage_options) as index:
        assert index.files is not None
        assert len(index.files) == files
        assert len(index) == 4 * files
    assert len(s3.log) == requests, s3.log
    assert sum(request.received for request in s3.log) <= max(65_536, size // 100)


@pytest.mark.ci
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("filter_bytes", [32, 64, 1024])
@pytest.mark.parametrize("count", [1, 3, zone_builder.zones_per_batch(32), zone_builder.zones_per_batch(32) + 1])
def test_filters_are_where_they_are_supposed(tmp_path: Path, container: str, filter_bytes: int, count: int) -> None:
    """The written file proves the guess, whatever the sizes: else every lookup would read whole row groups."""
    if count * filter_bytes > 1 << 20:
        pytest.skip("the same as with fewer")
    path = tmp_path / f"z.{container}"
    bits = write_synthetic_index(path, container, 1, count, filter_bytes)

    files = CountedFileSystem({"z": path.read_bytes()})
    with zones.open("z", filesystem=files) as index:
        assert index.files is not None
        assert index.files[0].stamp.startswith(b"\xff\x00")
        hashes = np.array([5], np.uint64)
        index.check(np.array([count - 1]), hashes)  # what shows that filters are where they should be is read at first
        files.ranges_read.clear()
        index.check(np.array([count - 1]), hashes)
        assert sum(end - start for start, end in files.ranges_read) <= 32
    with zones.open(path) as index:
        came = b"".join(bitset.tobytes() for bitset in index.bitsets())
    assert came == bits.tobytes()
    if container == "parquet":
        sink = io.BytesIO(path.read_bytes())
        assert b"".join(pq.read_table(sink)["bloom_filter_data"].to_pylist()) == bits.tobytes()
