"""Regressions: zone indexes that once lost rows."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes.file_size import largest_file
from support.writers import surgery

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import BrokenZonesError, MalformedFooterError, StorageError

ROWS = 400


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": pa.array(np.arange(ROWS) * 7919, pa.int64())}), path, row_group_size=200)
    return path


def lost(index: Path) -> int:
    """Return the number of values that are in no zone that an index names."""
    with zones.open(index) as opened:
        count = 0
        for row in range(0, ROWS, 19):
            named = opened.equals(row * 7919).to_pylist()
            group, within = divmod(row, 200)
            count += not any(
                one["fragment_id"] == group and 0 <= within - one["zone_start"] < one["zone_length"] for one in named
            )
        return count


@pytest.mark.ci
def test_a_bit_beside_the_filters_of_an_arrow_file_loses_nothing(file: Path, tmp_path: Path) -> None:
    """The places of filters are in no checksum: one that was off led to other bytes, and values were not found."""
    target = tmp_path / "z.arrow"
    zones.build(file, "id", target, rows_per_zone=20, fpp=0.01)
    data = target.read_bytes()
    with zones.open(target) as opened:
        filters = [each.as_py() for each in opened.to_table()["bloom_filter_data"]]
    size = len(filters[0])
    first = data.index(b"".join(filters))
    positions = data.index(struct.pack(f"<{len(filters) + 1}i", *range(0, size * len(filters) + 1, size)))
    broken = 0
    # The message that says where columns are, and the offsets of the filters.
    message = data.rindex(b"\xff\xff\xff\xff", 0, positions)
    for at in [*range(message, positions), *range(positions, first, 3)]:
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 3 + 4)
        target.write_bytes(damaged)
        try:
            assert lost(target) == 0, at
        except BrokenZonesError:
            broken += 1
    assert broken


@pytest.mark.parametrize("container", ["parquet", "arrow"])
def test_filters_of_another_length_are_refused(container: str, file: Path, tmp_path: Path) -> None:
    target = tmp_path / f"z.{container}"
    zones.build(file, "id", target, rows_per_zone=20, fpp=0.01)
    with zones.open(target) as opened:
        table = opened.to_table()
    filters = table["bloom_filter_data"].to_pylist()
    filters[0], filters[1] = filters[0] + filters[1][:32], filters[1][32:]
    table = table.set_column(4, table.schema.field(4), pa.array(filters, pa.binary()))
    if container == "parquet":
        pq.write_table(table, target)
    else:
        with pa.ipc.new_file(target, table.schema) as writer:
            writer.write_table(table)
    with pytest.raises(BrokenZonesError, match="a filter of"), zones.open(target) as opened:
        opened.equals(7919)


@pytest.mark.parametrize("alignment", [8, 64])
def test_arrow_files_of_other_writers_are_read(alignment: int, file: Path, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    target = tmp_path / "z.arrow"
    zones.build(file, "id", target, rows_per_zone=20, fpp=0.01)
    with zones.open(target) as opened:
        table = opened.to_table()
    plain = table.replace_schema_metadata({k: v for k, v in table.schema.metadata.items() if b"parquet" not in k})
    if alignment == 64:
        pl.from_arrow(plain).write_ipc(target, compat_level=pl.CompatLevel.oldest())
    else:
        with pa.ipc.new_file(target, plain.schema) as writer:
            writer.write_table(plain, max_chunksize=3)
    with zones.open(target, value_type=pa.int64()) as opened:
        assert opened.to_table()["bloom_filter_data"].to_pylist() == table["bloom_filter_data"].to_pylist()
        assert opened.equals(7919)["zone_start"][0].as_py() == 0


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_pandas_timestamps_are_probed_with_their_nanoseconds(zone: str | None, tmp_path: Path) -> None:
    """They were cut to microseconds: zones and filters denied the very value that a file holds."""
    path, target, kind = tmp_path / "a.parquet", tmp_path / "z.parquet", pa.timestamp("ns", zone)
    pq.write_table(pa.table({"ts": pa.array([84707, 5], pa.int64()).cast(kind)}), path)
    zones.build(path, "ts", target, rows_per_zone=1)
    queried = pd.Timestamp(84707, tz=zone)
    with zones.open(target) as index:
        assert index.equals(queried).to_pylist() == [{"fragment_id": 0, "zone_start": 0, "zone_length": 1}]
        assert index.is_in([queried, pd.Timestamp(5, tz=zone)]).num_rows == 2
    parquet_bloom.embed(path, ["ts"])
    with parquet_bloom.open(path) as opened:
        assert queried in opened.filter(0, "ts")
        assert opened.filter(0, "ts").check([queried]).all()
    stored = pa.array([84707], pa.int64()).cast(kind)
    assert zones.lance_filter([queried], 8, 0.01) == zones.lance_filter(stored, 8, 0.01)


def test_a_null_in_the_first_batch_of_a_zone_is_recorded(tmp_path: Path) -> None:
    """Columns are decoded 8,192 rows at a time; to take the last batch's word for all passed every test."""
    path, target = tmp_path / "a.parquet", tmp_path / "z.parquet"
    pq.write_table(pa.table({"id": pa.array([None, *range(19_999)], pa.int64())}), path)
    zones.build(path, "id", target, rows_per_zone=15_000)
    with zones.open(target) as index:
        assert index.is_null().to_pylist() == [{"fragment_id": 0, "zone_start": 0, "zone_length": 15_000}]
    assert parquet_bloom.read_table(path, "id is null", zones=str(target)).num_rows == 1


def test_files_whose_footer_contradicts_itself_are_named(file: Path, tmp_path: Path) -> None:
    """The error had row group and column, and no file."""

    def change(footer):
        surgery.schema_element(footer, "id").set(1, "i32", 1)

    surgery.rewrite_footer(file, change)
    with pytest.raises(MalformedFooterError, match=r"a\.parquet: row group 0, column 'id': .* another type"):
        zones.build(file, "id", tmp_path / "z.parquet")


def test_no_room_to_put_filters_aside_is_the_end_of_all(file: Path, tmp_path: Path) -> None:
    """It counted as a fault of the file whose filters they were: a lesser index took the place of a whole one."""
    pq.write_table(pa.table({"id": pa.array(np.arange(ROWS), pa.int64())}), tmp_path / "b.parquet")
    target = tmp_path / "ids.zones.arrow"
    zones.build([file, tmp_path / "b.parquet"], "id", target)
    before = target.read_bytes()
    with largest_file(100), pytest.raises(StorageError, match="cannot write temporary files there"):
        zones.build([file, tmp_path / "b.parquet"], "id", target)
    assert target.read_bytes() == before
