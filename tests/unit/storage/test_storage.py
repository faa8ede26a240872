"""Reading files, listing them, and recognizing tables that track their files in metadata."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pytest

from parquet_bloom.errors import (
    ConcurrentChangeError,
    ManagedTableError,
    ParquetBloomError,
    StorageError,
)
from parquet_bloom.storage import list_files, managed_table, open_source

DATA = bytes(range(256)) * 40


def test_identity(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(DATA)
    with open_source(path) as one, open_source(path, fs.LocalFileSystem()) as two:
        assert one.identity == two.identity
        path.write_bytes(DATA)
        with open_source(path) as three:
            assert three.identity != one.identity
        with pytest.raises(ConcurrentChangeError):
            one.check_unchanged()
    subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    with open_source("a", subtree) as source:
        path.write_bytes(DATA + b"more")
        with pytest.raises(ConcurrentChangeError):
            source.arrow_file()
        with pytest.raises(ConcurrentChangeError):
            source.check_unchanged()


@pytest.mark.parametrize("with_proc", [True, False])
def test_the_opened_file_stays_when_another_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_proc: bool
) -> None:
    path = tmp_path / "a"
    path.write_bytes(DATA)

    def no_proc(path: str) -> None:
        raise FileNotFoundError(path)

    if not with_proc:
        monkeypatch.setattr(pa, "OSFile", no_proc)
    with open_source(path) as source:
        (tmp_path / "b").write_bytes(b"another")
        os.replace(tmp_path / "b", path)
        assert source.read_at(0, 4) == DATA[:4]
        file = source.arrow_file()
        other = source.arrow_file()
    # Files outlive the source, and each has a position of its own.
    assert file.read(100) == DATA[:100]
    assert other.read() == DATA
    assert file.read(100) == DATA[100:200]
    file.seek(-5, os.SEEK_END)
    assert file.tell() == len(DATA) - 5
    assert file.read() == DATA[-5:]
    assert file.size() == len(DATA)
    file.close()
    other.close()


def test_use_after_close(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(DATA)
    source = open_source(path)
    source.close()
    source.close()
    for use in (lambda: source.read_at(0, 1), source.arrow_file, source.check_unchanged):
        with pytest.raises(StorageError, match="Bad file descriptor"):
            use()


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, problem in {
        "missing": "No such file",
        ".": "not a regular file",
        "pipe": "not a regular file",
        "loop": "symbolic link",
        "x" * 300: "too long",
        "a\0b": "null character",
        "a\ud800b": "no file's name can",
        "hdfs://host/key": "filesystem= gives others",
    }.items():
        path = name if "://" in name else f"{tmp_path}/{name}"
        with pytest.raises(StorageError, match=problem) as caught:
            open_source(path)
        assert caught.value.errno
        assert "\n" not in str(caught.value)
    subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for name in ("missing", "."):
        with pytest.raises(StorageError):
            open_source(name, subtree)
    with pytest.raises(StorageError, match="str is not a file system"):
        open_source("a", "s3")


def test_links_and_names(tmp_path: Path) -> None:
    for name in ("plain", "with space", "ü%20", "a#b?c", "file:x", "\udcff"):
        path = tmp_path / name
        path.write_bytes(DATA)
        with open_source(path) as source:
            assert source.read_at(0, 3) == DATA[:3]
        assert list_files(path) == [str(path)]
    (tmp_path / "link").symlink_to("plain")
    with open_source(tmp_path / "link") as source:
        assert source.name == str(tmp_path / "link")
        assert source.path == str(tmp_path / "plain")


def lay_out(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return root


LAKE = (
    "p=1/b.parquet",
    "p=1/a.parquet",
    "p=1/.a.parquet.crc",
    "p=02/ü %.parquet",
    "_q=3/c.parquet",
    "_q=3/deep/d",
    "_SUCCESS",
    "_k=v.parquet",
    ".hidden/x.parquet",
    "_temporary/0/x.parquet",
    "x._COPYING_",
    "p=1/.b.0123456789abcdef.parquet_bloom.tmp",
)
LISTED = ["_q=3/c.parquet", "_q=3/deep/d", "p=02/ü %.parquet", "p=1/a.parquet", "p=1/b.parquet"]


def test_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path / "lake", *LAKE)
    assert list_files(tmp_path / "lake") == [f"{tmp_path}/lake/{name}" for name in LISTED]
    monkeypatch.chdir(tmp_path)
    assert list_files("lake") == [f"lake/{name}" for name in LISTED]
    assert list_files("lake/") == [f"lake/{name}" for name in LISTED]
    assert list_files("lake", fs.LocalFileSystem()) == [f"lake/{name}" for name in LISTED]
    subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    assert list_files("lake", subtree) == [f"lake/{name}" for name in LISTED]


def test_a_folder_of_another_file_system() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory", skip_instance_cache=True)
    memory.store = {}
    for name in LAKE:
        memory.pipe_file(f"/lake/{name}", b"x")
    assert [name.lstrip("/") for name in list_files("/lake", memory)] == [f"lake/{name}" for name in LISTED]


def test_several_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, "x/b", "x/a", "y/_hidden")
    monkeypatch.chdir(tmp_path)
    assert list_files(["x/b", "x", Path("y/_hidden"), str(tmp_path / "x/a")]) == ["x/b", "x/a", "y/_hidden"]
    assert list_files(path for path in ("x/b", "./x//b")) == ["x/b"]
    assert list_files([]) == []
    (tmp_path / "empty").mkdir()
    assert list_files("empty") == []


@pytest.mark.parametrize("missing", ["nothing", "a/b", "", "x*/", "[", Path("*")])
def test_a_missing_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str | Path) -> None:
    lay_out(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=r"no such file or folder|no file matches"):
        list_files(missing)
    with pytest.raises(StorageError):
        list_files(["a", missing])
    with pytest.raises(StorageError):
        list_files(missing or "nothing", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))


def test_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, "p=1/a.x", "p=2/a.x", "p=2/b.x", "_temporary/a.x", "_SUCCESS", "[p]/a.x", "q/r/a.x")
    monkeypatch.chdir(tmp_path)
    assert list_files("p=*/a.x") == ["p=1/a.x", "p=2/a.x"]
    result = ["p=1/a.x", "p=2/a.x", "p=2/b.x"]
    assert list_files(f"{tmp_path}/p=?") == [f"{tmp_path}/{name}" for name in result]
    assert list_files("*/a.x") == ["[p]/a.x", "p=1/a.x", "p=2/a.x"]
    assert list_files("_temporary/*") == ["_temporary/a.x"]
    assert list_files("**/a.x") == ["[p]/a.x", "p=1/a.x", "p=2/a.x", "q/r/a.x"]
    assert list_files("[p]/a.x") == ["[p]/a.x"]
    assert list_files("[p]") == ["[p]/a.x"]
    with pytest.raises(StorageError, match="no file matches"):
        list_files("_*")


def test_links_to_folders(tmp_path: Path) -> None:
    lay_out(tmp_path, "lake/p=1/a", "elsewhere/b", "elsewhere/deep/c")
    (tmp_path / "lake/p=2").symlink_to("../elsewhere")
    (tmp_path / "lake/p=1/up").symlink_to("..")
    (tmp_path / "elsewhere/back").symlink_to("../lake")
    (tmp_path / "lake/file").symlink_to("p=1/a")
    paths = [os.path.relpath(name, tmp_path / "lake") for name in list_files(tmp_path / "lake")]
    assert paths == ["file", "p=1/a", "p=2/b", "p=2/deep/c"]
    (tmp_path / "link").symlink_to("lake")
    assert list_files(tmp_path / "link/p=2/deep") == [str(tmp_path / "link/p=2/deep/c")]
    (tmp_path / "lake/dangling").symlink_to("nowhere")
    with pytest.raises(StorageError, match="the link leads nowhere"):
        list_files(tmp_path / "lake")
    with pytest.raises(StorageError, match="the link cannot be followed"):
        list_files(tmp_path / "lake/dangling")


SIGNS = {
    "_delta_log/0.json": "the Delta table",
    "metadata/v1.metadata.json": "the Iceberg table",
    "metadata/00001-x.gz.metadata.json": "the Iceberg table",
    "schema/schema-0": "the Paimon table",
    "_spark_metadata/0": "the streaming sink",
    ".hoodie/hoodie.properties": "the Hudi table",
}


@pytest.mark.parametrize("sign", SIGNS)
def test_managed_tables(tmp_path: Path, sign: str) -> None:
    lay_out(tmp_path, "db/t/data/p=1/a.parquet", f"db/t/{sign}", "plain/metadata/x.json", "plain/schema/schema-a")
    lay_out(tmp_path, "plain/_delta_log")
    table = tmp_path / "db/t"
    for path in (table, table / "data", table / "data/p=1/a.parquet", table / "data/not-yet"):
        reason = managed_table(path)
        assert reason is not None
        assert reason.startswith(f"belongs to {SIGNS[sign]} {table} (it has ")
    assert managed_table(f"file://{table}") is not None
    assert managed_table(tmp_path / "plain") is None
    assert managed_table(tmp_path / "db") is None

    file = str(table / "data/p=1/a.parquet")
    assert list_files([file]) == [file]
    subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    assert list_files("db/t/data/p=1/a.parquet", subtree) == ["db/t/data/p=1/a.parquet"]
    assert managed_table("db/t/data/p=1/a.parquet", subtree) is not None
    assert managed_table("plain", subtree) is None
    # The table's folder, one in it, one around it, and patterns into it.
    for path in ("db/t", "db/t/data/p=1", "db", "."):
        with pytest.raises(ManagedTableError, match="give the table itself"):
            list_files(tmp_path / path)
        if path != ".":
            with pytest.raises(ManagedTableError, match=SIGNS[sign]):
                list_files(path, subtree)
    for pattern in ("db/t/data/*/a.parquet", "db/*", "d?"):
        with pytest.raises(ManagedTableError):
            list_files(f"{tmp_path}/{pattern}")


def test_tables_that_links_lead_to(tmp_path: Path) -> None:
    lay_out(tmp_path, "t/_delta_log/0.json", "t/a", "other/b")
    (tmp_path / "other/link").symlink_to("../t/a")
    (tmp_path / "t/link").symlink_to("../other/b")
    assert managed_table(tmp_path / "other/link")
    assert managed_table(tmp_path / "t/link")
    assert managed_table(tmp_path / "other/b") is None


def test_errors_of_a_remote_file_system_are_ours() -> None:
    class Broken(fs.FileSystemHandler):
        def __getattribute__(self, name: str) -> Any:
            def fail(*args: Any, **kwargs: Any) -> Any:
                raise OSError("the network is down")

            return fail if name.startswith(("get_file_info", "open_")) else super().__getattribute__(name)

        def __eq__(self, other: object) -> bool:
            return self is other

        def __hash__(self) -> int:
            return id(self)

    for name in fs.FileSystemHandler.__abstractmethods__ - {"get_type_name", "normalize_path"}:
        setattr(Broken, name, lambda self, *args: None)
    Broken.get_type_name = lambda self: "broken"
    Broken.normalize_path = lambda self, path: path
    Broken.__abstractmethods__ = frozenset()
    filesystem = fs.PyFileSystem(Broken())
    for call in (open_source, list_files, managed_table):
        with pytest.raises(ParquetBloomError, match="the network is down"):
            call("a/b", filesystem)
