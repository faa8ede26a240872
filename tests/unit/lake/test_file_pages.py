"""Tables of very many files: in pages, of which only the requested ones are read, and each is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.errors import BrokenIndexError
from parquet_bloom.lake.file_table import FileRecord, FileTable
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.lake.units import Units
from parquet_bloom.storage import resolve_filesystem
from parquet_bloom.storage.index_folder import Folder

COUNT = 10_000  # of more than 8,192 files a table is in pages of 4,096
ROW_GROUPS = Units("row_group")


def record(number: int, units: int, part: int) -> FileRecord:
    parts = {"id": part} if part >= 0 else {}
    doubts = {} if part >= 0 else {"id": "why not"}
    rows = tuple(range(1, units + 1))
    return FileRecord(f"s3://b/é-{number}", number, b"etag", 1, 2**63 + number, rows, True, parts, doubts)


def tables(even: bool, of: Units = ROW_GROUPS) -> FileTable:
    rng = np.random.default_rng(3)
    units = [1] * COUNT if even else rng.integers(1, 5, COUNT).tolist()
    parts = [0] * COUNT if even else rng.integers(-1, 3, COUNT).tolist()
    return FileTable.from_records(map(record, range(COUNT), units, parts), ["id"], of)


@pytest.fixture(params=["disk", "bucket"])
def folder(request: Any, tmp_path: Path) -> Folder:
    if request.param == "disk":
        return Folder(str(tmp_path))
    s3 = request.getfixturevalue("s3")
    return Folder(s3.url("index"), resolve_filesystem(None, s3.storage_options))


@pytest.mark.ci
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("units", [ROW_GROUPS, Units("zone", 2)], ids=str)
def test_it_says_what_the_whole_table_says(folder: Folder, even: bool, units: Units) -> None:
    table = tables(even, units)
    table.write(folder, "t.files")
    folder.names()
    for order in range(3):
        table_files = FileTable.read(folder, "t.files", COUNT, table.num_units, units)
        if units.zone_rows:
            assert [table_files.row_counts(number) for number in (0, 4097, COUNT - 1)] == [
                table.row_counts(number) for number in (0, 4097, COUNT - 1)
            ]
        if order == 1:
            assert table_files.table.equals(table.table)
        assert len(table_files) == COUNT
        assert table_files.problem_with(["id"], ["id"] * 3) is None
        assert "parts that there are none of" in (table_files.problem_with(["id"], []) or "")
        assert (table_files.first_units == table.first_units).all()
        assert (table_files.parts("id") == table.parts("id")).all()
        for numbers in ([0], [4095, 4096, 4097], [COUNT - 1], [5000, 3, 5000], [], list(range(0, COUNT, 7))):
            assert table_files.paths(np.array(numbers, np.int64)) == [f"s3://b/é-{number}" for number in numbers]
        assert table_files.path(777) == "s3://b/é-777"
        if order == 2:
            assert table_files.fingerprints(7) == (1, 2**63 + 7)
            assert table_files.doubt("id", 3) == table.doubt("id", 3)
        assert table_files.paths() == table.paths()
        assert table_files.table.equals(table.table)


@pytest.mark.ci
def test_every_damaged_byte_is_noticed(folder: Folder) -> None:
    tables(True).write(folder, "t.files")
    with folder.open("t.files") as source:
        good = source.read_at(0, source.size)
    rng = np.random.default_rng(1)
    positions = {*rng.integers(0, len(good), 40).tolist(), *range(len(good) - 12, len(good) - 8)}
    for location in [*positions, None]:
        bad = bytearray(good)
        if location is not None:
            bad[location] ^= 1 << int(rng.integers(8))
        with folder.create("t.files") as new:
            new.write(bytes(bad) if location is not None else good[:-100] + good[-20:])
            new.commit()
        with pytest.raises((BrokenIndexError, UnicodeDecodeError)):
            FileTable.read(folder, "t.files", COUNT, COUNT).table  # noqa: B018


def test_damage_in_a_page_does_no_harm_to_others(s3: Any) -> None:
    folder = Folder(s3.url("index"), resolve_filesystem(None, s3.storage_options))
    tables(True).write(folder, "t.files")
    data = bytearray(s3.get("index/t.files"))
    data[3] ^= 1
    s3.put("index/t.files", bytes(data))
    table_files = FileTable.read(folder, "t.files", COUNT, COUNT)
    assert table_files.path(5000) == "s3://b/é-5000"
    with pytest.raises(BrokenIndexError, match="page does not fit its checksum"):
        table_files.path(4)


@pytest.mark.ci
def test_an_index_of_pages_is_an_index_like_any_other(s3: Any) -> None:
    options = {"storage_options": s3.storage_options}
    with LakeIndex.create(s3.url("index"), "id", **options) as index:
        for first, end in ((0, 9000), (9000, 9500)):
            index.append_batches((f"f/{n}", {"id": pa.array([n, n + 1, -1])}) for n in range(first, end))
        with LakeIndex.open(s3.url("index"), live=False, **options) as cold:
            for number in range(1, 9499, 613):
                (answer,) = cold.lookup("id", [number])
                assert {candidate.path for candidate in answer} >= {f"f/{number}", f"f/{number - 1}"}
            assert {candidate.path for candidate in cold.lookup("id", [-1])[0]} == {f"f/{n}" for n in range(9500)}
        index.remove(["f/7", "f/300"])
        index.compact()
        with LakeIndex.open(s3.url("index"), live=False, **options) as cold:
            assert "f/7" not in {candidate.path for candidate in cold.lookup("id", [7])[0]}
            assert "f/299" in {candidate.path for candidate in cold.lookup("id", [300])[0]}
            assert len(cold.lookup("id", [-1])[0]) == 9498
