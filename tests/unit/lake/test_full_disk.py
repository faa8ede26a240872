"""Changes of an index for which the disk has no room: an error, and no file more than before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes.file_size import largest_file

from parquet_bloom import LakeIndex
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.storage.index_folder import Folder

LIMITS = [0, 100, 400, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 1 << 20]


def list_files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    for number in range(4):
        rows = range(2000 * number, 2000 * number + 2000)
        table = pa.table({"few": [row % 3 for row in rows], "many": [row * 7919 for row in rows]})
        pq.write_table(table, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (time.time() - 60, time.time() - 60))
    return folder


def test_an_index_that_could_not_be_created_leaves_nothing(tmp_path: Path, lake: Path) -> None:
    (tmp_path / "empty").mkdir()
    before = list_files(tmp_path)
    for path in (tmp_path / "new", tmp_path / "a" / "b" / "new", tmp_path / "empty"):
        with largest_file(100), pytest.raises(StorageError):
            LakeIndex.create(path, "few", lake=lake)
        assert list_files(tmp_path) == before
    with pytest.raises(ParquetBloomError):  # the lock is held by then
        LakeIndex.create(tmp_path / "new", "few", lake=lake, lake_filesystem=Broken())
    assert list_files(tmp_path) == before


class Broken:
    """What is no file system."""


def test_an_index_that_is_there_keeps_its_lock(tmp_path: Path, lake: Path) -> None:
    LakeIndex.create(tmp_path / "index", "few", lake=lake).close()
    before = list_files(tmp_path)
    assert str(tmp_path / "index" / "writer.lock") in before
    with pytest.raises(StorageError, match="there is an index already"):
        LakeIndex.create(tmp_path / "index", "few", lake=lake)
    assert list_files(tmp_path) == before
    os.unlink(tmp_path / "index" / "writer.lock")
    with pytest.raises(StorageError, match="there is an index already"):
        LakeIndex.create(tmp_path / "index", "few", lake=lake)
    assert list_files(tmp_path) == before[:-1]


def test_a_lock_is_undone_by_who_made_it(tmp_path: Path) -> None:
    folder, path = Folder(str(tmp_path)), tmp_path / "writer.lock"
    with pytest.raises(KeyError), folder.lock(undo=True):
        raise KeyError(path.stat())
    assert not path.exists()
    with folder.lock(undo=True):
        pass
    assert path.exists()
    with pytest.raises(KeyError), folder.lock(undo=True):
        raise KeyError
    assert path.exists()


def test_folders_that_could_not_all_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        Folder(str(tmp_path / "file" / "below")).make()
    made = Folder(str(tmp_path / "a" / "b" / "c")).make()
    assert made == [str(tmp_path / "a"), str(tmp_path / "a" / "b"), str(tmp_path / "a" / "b" / "c")]
    (tmp_path / "a" / "other").write_text("")
    Folder.unmake(made)
    assert list_files(tmp_path) == [str(tmp_path / "a"), str(tmp_path / "a" / "other"), str(tmp_path / "file")]


CHANGES: dict[str, Callable[[LakeIndex, Path], Any]] = {
    "append": lambda index, lake: index.append(lake),
    "append by way of the disk": lambda index, lake: index.append(lake, memory_limit=1000),
    "append values": lambda index, lake: index.append_batches(
        [("/x", {"few": pa.array([1, 2]), "many": pa.array(range(3000))})]
    ),
    "remove": lambda index, lake: index.remove(lake / "0.parquet"),
    "compact": lambda index, lake: index.compact(),
}


@pytest.mark.ci
@pytest.mark.parametrize("layout", ["postings", "cuckoo"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_without_room_leaves_the_index_as_it_was(tmp_path: Path, lake: Path, change: str, layout: Any) -> None:
    with LakeIndex.create(tmp_path / "index", ["few", "many"], layout=layout, expected_values=9000) as index:
        index.append(lake / "0.parquet")
        index.append(lake / "1.parquet")
        before = list_files(tmp_path)
        errors: list[str] = []
        for limit in LIMITS:
            with largest_file(limit):
                try:
                    CHANGES[change](index, lake)
                    break
                except ParquetBloomError as error:
                    errors.append(str(error))
            assert list_files(tmp_path) == before, limit
        assert 2 <= len(errors) < len(LIMITS)
        assert "\n" not in "".join(errors)
        assert index.check(1).problems == []
    with LakeIndex.open(tmp_path / "index") as index:
        assert index.check(1).problems == []
