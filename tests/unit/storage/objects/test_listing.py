"""URLs of folders and patterns: which objects they match, and how many requests that takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.fs
import pytest

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.errors import ManagedTableError, StorageError
from parquet_bloom.storage.objects import object_listing
from parquet_bloom.storage.objects.location import ObjectStores

KEYS = [
    "t/a.parquet",
    "t/b.txt",
    "t/_SUCCESS",
    "t/_temporary/0/c.parquet",
    "t/.hidden.parquet",
    "t/.hidden/d.parquet",
    "t/day=1/a.parquet",
    "t/day=1/_x=2/a.parquet",
    "t/day=1/deep/er/a.parquet",
    "t/day=10/a.parquet",
    "t/day=2/a.parquet",
    "t/day=2/a.parquet._COPYING_",
    "t/_extra/a.parquet",
    "t/[x]/q.parquet",
    "u/a.parquet",
    "t-other/a.parquet",
]


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Clear the cache of folders that are not tables."""
    object_listing._NO_TABLE.clear()


@pytest.fixture
def names(s3: Any) -> Callable[[str], list[str]]:
    """Return the keys that a path in the bucket matches."""
    object_stores = ObjectStores(s3.storage_options)
    return lambda path: [name.removeprefix(s3.url("")) for name in storage.list_files(s3.url(path), object_stores)]


def lists(s3: Any) -> list[str]:
    return [request.query.get("prefix", "") for request in s3.log if request.operation == "ListObjects"]


PATTERNS = [
    "t",
    "t/",
    "t/*",
    "t/*.parquet",
    "t/*/*.parquet",
    "t/day=*",
    "t/day=*/",
    "t/day=[12]/*.parquet",
    "t/day=[!1]/*.parquet",
    "t/day=?/a.parquet",
    "t/**/*.parquet",
    "t/**",
    "t/**/a.parquet",
    "**/a.parquet",
    "*/a.parquet",
    "t/_temporary/*/c.parquet",
    "t/_extra/*",
    "t/*/_x=2/*",
    "t/.hidden/*.parquet",
    "t/[x]/q.parquet",
    "t/[[]x]/*",
    "t/**/er/*",
    "t/*/**/a.parquet",
]


@pytest.mark.ci
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_they_mean_on_disk(
    s3: Any, names: Callable[[str], list[str]], tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in KEYS:
        s3.put(key, b"x")
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    paths = names(pattern)
    assert paths == sorted(os.path.normpath(name) for name in storage.list_files(pattern))
    assert paths


@pytest.fixture(params=["pyarrow", "subtree", "memory", "memory URL", "local"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, str, Callable[[str], None]]:
    """A file system, what its paths begin with, and what writes a file there."""
    if request.param == "pyarrow":
        s3 = request.getfixturevalue("s3")
        filesystem = pyarrow.fs.S3FileSystem(
            access_key="testing",
            secret_key="testing",
            endpoint_override=s3.endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
        )
        return filesystem, f"{s3.bucket}/", lambda key: s3.put(key, b"x")
    if request.param in ("subtree", "local"):
        root = tmp_path / "elsewhere"

        def write(key: str) -> None:
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            (root / key).write_bytes(b"x")

        local = pyarrow.fs.LocalFileSystem()
        if request.param == "subtree":
            root.mkdir()
            return pyarrow.fs.SubTreeFileSystem(str(root), local), "", write
        return (
            pyarrow.fs.PyFileSystem(
                pyarrow.fs.FSSpecHandler(fsspec.filesystem("dir", path="/", fs=fsspec.filesystem("local")))
            ),
            f"{root}/",
            write,
        )
    memory = fsspec.filesystem("memory", skip_instance_cache=True)
    memory.store, memory.pseudo_dirs = {}, [""]
    start = "memory://lake/" if "URL" in request.param else "/lake/"
    return memory, start, lambda key: memory.pipe_file(f"/lake/{key}", b"x")


@pytest.mark.ci
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_the_same_elsewhere(
    elsewhere: tuple[Any, str, Callable[[str], None]], tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem, start, write = elsewhere
    for key in KEYS:
        write(key)
        (tmp_path / "twin" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "twin" / key).write_bytes(b"x")
    monkeypatch.chdir(tmp_path / "twin")
    paths = storage.list_files(start + pattern, filesystem)
    # A file itself is called what it was called; what is found in fsspec's has no scheme.
    assert [name.removeprefix(start).removeprefix(start.removeprefix("memory:/")) for name in paths] == sorted(
        os.path.normpath(name) for name in storage.list_files(pattern)
    )
    for name in paths:
        with storage.open_source(name, filesystem) as source:
            assert source.size == 1


@pytest.mark.ci
def test_elsewhere_a_name_comes_first_and_tables_are_refused(
    elsewhere: tuple[Any, str, Callable[[str], None]],
) -> None:
    filesystem, start, write = elsewhere
    write("t/a1.parquet")
    with pytest.raises(StorageError, match="no file matches the pattern"):
        storage.list_files(f"{start}t/b*", filesystem)
    with pytest.raises(StorageError, match="no file matches the pattern"):
        storage.list_files(f"{start}nothing/b*", filesystem)
    assert len(storage.list_files(f"{start}t/a[1].parquet", filesystem)) == 1
    write("t/a[1].parquet")
    assert storage.list_files(f"{start}t/a[1].parquet", filesystem)[0].endswith("a[1].parquet")
    with pytest.raises(StorageError, match="no such file or folder"):
        storage.list_files(Path(f"{start}t/*"), filesystem)
    write("t/table/_delta_log/0.json")
    write("t/table/b.parquet")
    for pattern in ("t/*", "t/table/*", "t/*/b.parquet", "*/table"):
        with pytest.raises(ManagedTableError, match="the Delta table"):
            storage.list_files(start + pattern, filesystem)
    assert len(storage.list_files(f"{start}t/a1*", filesystem)) == 1


def test_a_name_with_pattern_characters_is_a_name_first(s3: Any, names: Callable[[str], list[str]]) -> None:
    s3.put("t/a[1].parquet", b"x")
    s3.put("t/a1.parquet", b"x")
    assert names("t/a[1].parquet") == ["t/a[1].parquet"]
    s3.delete("t/a[1].parquet")
    assert names("t/a[1].parquet") == ["t/a1.parquet"]


def test_folder_markers_are_not_files(s3: Any, names: Callable[[str], list[str]]) -> None:
    for key in ("t/", "t/day=1/", "t/empty/", "t/old_$folder$"):
        s3.put(key, b"")
    s3.put("t/day=1/a.parquet", b"x")
    s3.put("t/x.parquet/part-0.parquet", b"x")  # a folder whose name looks like a file's
    s3.put("t/x.parquet/", b"")
    s3.put("t/cut.parquet", b"")  # not a folder: opening it will raise the error
    expected = ["t/cut.parquet", "t/day=1/a.parquet", "t/x.parquet/part-0.parquet"]
    assert names("t") == names("t/") == names("t/**") == expected
    assert names("t/x.parquet") == ["t/x.parquet/part-0.parquet"]
    assert names("t/cut.parquet") == ["t/cut.parquet"]
    assert names("t/day=1") == ["t/day=1/a.parquet"]
    assert names("") == expected


def test_one_object_costs_one_request_and_is_opened_by_it(s3: Any) -> None:
    object_stores = ObjectStores(s3.storage_options)
    data = os.urandom(100_000)
    s3.put("t/a.parquet", data)
    (entry,) = storage.list_entries(s3.url("t/a.parquet"), object_stores)
    assert s3.operations() == ["GetObject"]
    with storage.open_source(entry.path, object_stores, entry) as source:
        assert source.read_at(90_000, 10_000) == data[90_000:]
    assert s3.operations() == ["GetObject"]


def test_several_are_taken_as_named(s3: Any) -> None:
    """Without a request for what looks like a file; folders side by side."""
    object_stores = ObjectStores(s3.storage_options)
    for number in range(6):
        s3.put(f"t/{number}/b.parquet", b"x")
        s3.put(f"t/{number}/a.parquet", b"x")
    named = [s3.url(f"t/{number}/a.parquet") for number in range(5, -1, -1)]
    assert storage.list_files(named, object_stores) == named
    assert s3.log == []
    folders = [s3.url(f"t/{number}") for number in range(5, -1, -1)]
    paths = storage.list_files([*folders, named[0]], object_stores)
    assert paths == [f"{folder}/{name}.parquet" for folder in folders for name in "ab"]
    assert lists(s3).count("t/3/") == 1


def test_urls_and_local_paths_together(s3: Any, tmp_path: Path) -> None:
    s3.put("t/a.parquet", b"x")
    (tmp_path / "b.parquet").write_bytes(b"x")
    paths = [str(tmp_path), s3.url("t/"), s3.url("t/a.parquet")]
    listed = storage.list_files(paths, ObjectStores(s3.storage_options))
    assert listed == [str(tmp_path / "b.parquet"), s3.url("t/a.parquet")]


@pytest.mark.ci
def test_thousands_of_objects(s3: Any, names: Callable[[str], list[str]]) -> None:
    keys = [f"t/{number % 7}/{number:05}.parquet" for number in range(3000)]
    for key in keys:
        s3.put(key, b"x")
    assert names("t/") == sorted(keys)
    assert lists(s3).count("t/") == 4  # a full last page needs another request
    s3.clear_log()
    assert names("t/*/*9.parquet") == [key for key in sorted(keys) if key.endswith("9.parquet")]
    assert lists(s3) == ["t/"] * 4


@pytest.mark.ci
@pytest.mark.parametrize("sign", ["_delta_log/0.json", "_spark_metadata/0", ".hoodie/x", "metadata/v1.metadata.json"])
@pytest.mark.parametrize("root", ["", "lake/t/"])
def test_managed_tables(s3: Any, names: Callable[[str], list[str]], sign: str, root: str) -> None:
    s3.put(f"{root}{sign}", b"{}")
    s3.put(f"{root}day=1/a.parquet", b"x")
    s3.put(f"{root}day=1/more/a.parquet", b"x")
    above = ["", "lake", "lake/", "lake/*", "**/a.parquet"] if root else ["", "**/a.parquet"]
    for path in [
        *above,
        root,
        f"{root}day=1/",
        f"{root}day=1",
        f"{root}day=*",
        f"{root}*/a.parquet",
        f"{root}day=1/more",
    ]:
        with pytest.raises(ManagedTableError, match="give the table itself") as caught:
            names(path)
        assert f"{sign.split('/')[0]}/" in str(caught.value)
    assert names(f"{root}day=1/a.parquet") == [f"{root}day=1/a.parquet"]
    reason = storage.managed_table(s3.url(f"{root}day=1/a.parquet"), ObjectStores(s3.storage_options))
    assert reason is not None
    assert s3.url(root.rstrip("/")) in reason


def test_a_table_next_to_the_given_paths_does_no_harm(s3: Any, names: Callable[[str], list[str]]) -> None:
    s3.put("lake/t/_delta_log/0.json", b"{}")
    s3.put("lake/t/a.parquet", b"x")
    s3.put("lake/u/a.parquet", b"x")
    s3.put("lake/u/metadata/notes.txt", b"x")
    assert names("lake/[u]/*.parquet") == ["lake/u/a.parquet"]
    assert names("lake/u/") == ["lake/u/a.parquet", "lake/u/metadata/notes.txt"]


def test_that_there_is_no_table_is_remembered_by_listings(s3: Any, names: Callable[[str], list[str]]) -> None:
    s3.put("lake/t/a.parquet", b"x")
    names("lake/t/")
    assert len(lists(s3)) == 1 + 2 * 4  # a folder's four signs, of the bucket and of lake/
    s3.clear_log()
    names("lake/t/")
    assert lists(s3) == ["lake/t/"]
    s3.clear_log()
    assert storage.managed_table(s3.url("lake/t/a.parquet"), ObjectStores(s3.storage_options)) is None
    assert len(lists(s3)) == 4 * 4  # before something is written it is looked again


def test_a_listing_that_is_refused(s3: Any, names: Callable[[str], list[str]]) -> None:
    s3.put("t/a.parquet", b"x")
    s3.fail("ListObjects", 1, status=403, code="AccessDenied", when=lambda request: request.query["prefix"] == "t/")
    with pytest.raises(StorageError, match=r"t/: cannot list it: access denied \(AccessDenied"):
        names("t/")


def test_a_table_that_cannot_be_ruled_out(s3: Any, names: Callable[[str], list[str]]) -> None:
    s3.put("t/a.parquet", b"x")
    s3.fail("ListObjects", 99, status=403, code="AccessDenied", when=lambda request: "_log" in request.query["prefix"])
    with pytest.raises(StorageError, match=r"s3:ListBucket") as caught:
        names("t/*")
    message = "it cannot be checked whether it belongs to a table: access denied (AccessDenied"
    assert str(caught.value).startswith(f"{s3.url('t/*')}: {message}")
    assert "_delta_log" not in str(caught.value)
    with pytest.raises(StorageError, match="checked whether it belongs to a table") as caught:
        parquet_bloom.embed(s3.url("t/a.parquet"), ["id"], storage_options=s3.storage_options)
    assert caught.value.path == s3.url("t/a.parquet")


def test_unreachable_keys_are_reported(s3: Any, names: Callable[[str], list[str]]) -> None:
    s3.put("t/a//b.parquet", b"x")
    s3.put("t/a.parquet", b"x")
    with pytest.raises(StorageError, match=r"cannot list it: .*empty path segment") as caught:
        names("t/")
    assert "\n" not in str(caught.value)
