"""Local paths as libraries give them: `file:` URIs, quoted as a whole, in part, or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import LakeIndex
from parquet_bloom.errors import StorageError
from parquet_bloom.file.metadata_cache import SETTLED_NS
from parquet_bloom.storage.paths import resolve_given_path, resolve_local_path

NAMES = ["plain", "a b", "ü", "100%", "x#y", "a%20b", "q?r", "50%25"]


def spellings(path: Path) -> dict[str, str]:
    """A file's path in every way in which libraries write it."""
    text, folder, name = str(path), quote(str(path.parent)), path.name
    return {
        "path": text,
        "quoted": quote(text),
        "folder quoted": f"{folder}/{name}",
        "quoted URI": f"file://{quote(text)}",
        "URI of Spark": f"file:{quote(text)}",
        "URI that is not quoted": f"file://{text}",
        "URI with a host": f"file://localhost{quote(text)}",
        "URI, the folder quoted": f"file://{folder}/{name}",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are old enough for an index to rely on their times."""
    folder = tmp_path_factory.mktemp("paths") / "la ke ü#%"
    for number, name in enumerate(NAMES):
        (folder / f"{number}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), folder / f"{number}" / f"{name}.parquet")
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    return folder


@pytest.fixture(params=NAMES)
def file(request: Any, folder: Path) -> Path:
    return folder / f"{NAMES.index(request.param)}" / f"{request.param}.parquet"


@pytest.mark.ci
def test_every_spelling_is_found(file: Path) -> None:
    for way, text in spellings(file).items():
        assert resolve_local_path(text, for_reading=True) == str(file), way
        assert resolve_given_path(text) == str(file) or way == "path", way
        assert parquet_bloom.read_table(text, "id = 1").num_rows == 1, way
        assert parquet_bloom.dataset([text]).count_rows() == 2, way
        assert list(parquet_bloom.prune(text, "id = 1").selected) == [str(file)], way


def test_an_index_takes_every_spelling(file: Path, tmp_path: Path) -> None:
    with LakeIndex.create(tmp_path / "index", "id") as index:
        for number, text in enumerate(spellings(file).values()):
            assert index.append(text).added == (number == 0)
        assert [found.path for found in index.lookup("id", [1])[0]] == [str(file)]
        for text in spellings(file).values():
            assert index.remove(text) == 1
            assert index.append([text]).added == 1
            assert parquet_bloom.prune(text, "id = 9", index=index).unopened_by == {"index": 1}
            index.remove(text)
            assert index.append_batches([(text, {"id": pa.array([5])})]).added == 1
            assert [found.path for found in index.lookup("id", [5])[0]] == [str(file)]


def test_folders_and_their_partitions(tmp_path: Path) -> None:
    folder = tmp_path / "year=2026" / "la ke%"
    (folder / "day=a%20b").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "day=a%20b" / "x.parquet")
    for text in (str(folder), quote(str(folder)), folder.as_uri(), f"file://{folder}/"):
        rows = parquet_bloom.read_table(text, "day = 'a b'")
        assert rows.to_pylist() == [{"id": 1, "day": "a b"}]
    with LakeIndex.create(tmp_path / "index", "id", lake=folder.as_uri()) as index:
        assert index.state.manifest.lake == {"paths": [str(folder)]}
        assert index.append().added == 1
        assert index.remove(f"{folder.as_uri()}/") == 1
        assert index.state.manifest.lake == {}


def test_what_exists_comes_first(tmp_path: Path) -> None:
    for number, name in enumerate(("a b.parquet", "a%20b.parquet")):
        pq.write_table(pa.table({"id": [number]}), tmp_path / name)
    plain, quoted = f"{tmp_path}/a%20b.parquet", f"file://{tmp_path}/a%20b.parquet"
    assert parquet_bloom.read_table(plain, "id >= 0")["id"].to_pylist() == [1]
    assert parquet_bloom.read_table(quoted, "id >= 0")["id"].to_pylist() == [0]
    with pytest.raises(StorageError, match=r"x%20y\.parquet"):
        parquet_bloom.read_table(f"{tmp_path}/x%20y.parquet", "id = 1")
    with pytest.raises(StorageError):
        parquet_bloom.read_table(f"file://{tmp_path}/x%00y.parquet", "id = 1")
    assert resolve_local_path(f"{tmp_path}/%2e%2e%2Fetc", for_reading=True) == f"{tmp_path}/%2e%2e%2Fetc"
    assert not os.path.lexists(tmp_path / "x y.parquet")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with links that lead out of it, beside one that nobody may read."""
    for name, key in (("lake/sub/a b.parquet", 1), ("private/x.parquet", 4711)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [key]}), tmp_path / name)
    (tmp_path / "lake" / "_lnk").symlink_to("../private")
    (tmp_path / "lake" / "sub" / "up").symlink_to("../..")
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "dots", ["%2e%2e", ".%2E", "..%2f..", "%2e%2e%2f%2e%2e", "sub%2f..%2f..", "%00", "sub/%2e%2e/%2e%2e"]
)
def test_no_quoted_name_leads_elsewhere(lake: Path, dots: str) -> None:
    for start in (str(lake), f"file://{lake}", f"file:{lake}", f"file://localhost{lake}"):
        for given in (f"{start}/{dots}/private/x.parquet", f"{start}/{dots}/private"):
            found = os.path.normpath(resolve_local_path(given, for_reading=True))
            assert "/private" not in found.removeprefix(str(lake.parent))[:8]
            for read in (parquet_bloom.read_table, parquet_bloom.prune):
                with pytest.raises(StorageError):
                    read(given, "id = 4711")
            with pytest.raises(StorageError):
                parquet_bloom.open(given)


@pytest.mark.parametrize("name", ["%5flnk", "_%6cnk", "%73ub/up/private", "sub/%75p/private", "s%75b/../../private"])
def test_a_check_of_a_path_holds_for_what_is_read(lake: Path, name: str) -> None:
    """An application lets those paths pass that lead to no place outside of the lake."""
    given = f"{lake}/{name}/x.parquet"
    if os.path.realpath(given).startswith(f"{lake}/"):
        for read in (parquet_bloom.read_table, parquet_bloom.prune, parquet_bloom.dataset):
            with pytest.raises(StorageError):
                read(given, *(["id = 4711"] if read is not parquet_bloom.dataset else []))
    assert parquet_bloom.read_table(f"{lake}/s%75b/a%20b.parquet", "id = 1").num_rows == 1


@pytest.mark.parametrize(("path", "problem"), [("a\0b", "null character"), ("\ud800x", "that no file's name can")])
def test_what_no_path_can_be_is_an_error_of_one_line(path: str, problem: str) -> None:
    for read in (parquet_bloom.read_table, parquet_bloom.prune):
        for given in (path, [path]):
            with pytest.raises(StorageError, match=problem):
                read(given, "id = 1")
    with pytest.raises(StorageError, match=problem):
        parquet_bloom.dataset(path)
