"""Pipes, sockets, devices, and links in folders of data; and what another user may not read."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import LakeIndex
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.storage import list_files, managed_table

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
NOBODY = 65534


def make_lake(path: Path) -> Path:
    path.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), path / "a.parquet")
    return path


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # whose length is limited


SPECIAL: dict[str, Callable[[Path], Any]] = {"a pipe": os.mkfifo, "a socket": make_socket}


def make_special(path: Path, kind: str) -> None:
    SPECIAL[kind](path)


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_skipped_with_a_word(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = make_lake(tmp_path / "lake")
    make_special(lake / "b.parquet", kind)
    make_special(lake / "_hidden", kind)
    with caplog.at_level(logging.WARNING, "parquet_bloom"):
        assert list(parquet_bloom.prune(lake, "id = 1").selected) == [str(lake / "a.parquet")]
        with LakeIndex.create(tmp_path / "index", "id") as index:
            assert index.append(lake).added == 1
        assert parquet_bloom.dataset(lake).to_table().num_rows == 2
    assert caplog.messages == [f"{lake / 'b.parquet'}: skipped, as it is {kind}, not a file"]
    for path in (lake / "b.parquet", f"{lake}/*.parquet"):  # it was named
        with pytest.raises(StorageError, match=f"it is {kind}, neither a file nor a folder"):
            list_files(path)


@pytest.mark.parametrize("kind", [*SPECIAL, "a device"])
def test_a_link_to_what_is_no_file(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lake = make_lake(tmp_path / "lake")
    if kind != "a device":
        make_special(tmp_path / "special", kind)
    (lake / "b.parquet").symlink_to("/dev/zero" if kind == "a device" else "../special")
    with pytest.raises(StorageError, match=f"b.parquet: the link leads to {kind}, not to a file"):
        list_files(lake)
    with pytest.raises(StorageError, match=f"it is {kind}, neither a file nor a folder"):
        list_files(lake / "b.parquet")


@as_root
def test_devices_are_skipped_with_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = make_lake(tmp_path / "lake")
    try:
        os.mknod(lake / "b.parquet", 0o600 | 0o020000, os.makedev(1, 5))  # as /dev/zero
    except PermissionError:
        pytest.skip("devices cannot be made here")
    with caplog.at_level(logging.WARNING, "parquet_bloom"):
        assert list_files(lake) == [str(lake / "a.parquet")]
    assert caplog.messages == [f"{lake / 'b.parquet'}: skipped, as it is a device, not a file"]


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ({"b": "b"}, "b: the link cannot be followed: Too many levels of symbolic links"),
        ({"b": "c", "c": "b"}, "the link cannot be followed: Too many levels of symbolic links"),
        ({"b": "a.parquet/x"}, "b: the link cannot be followed: Not a directory"),
        ({"b": "nowhere"}, "b: the link leads nowhere"),
    ],
)
def test_links_that_cannot_be_followed(tmp_path_factory: pytest.TempPathFactory, links: Any, problem: str) -> None:
    lake = make_lake(tmp_path_factory.mktemp("odd") / "lake")
    for name, target in links.items():
        (lake / name).symlink_to(target)
    with pytest.raises(StorageError, match=problem):
        list_files(lake)
    with pytest.raises(StorageError, match="the link cannot be followed"):
        list_files(f"{lake}/*")


def test_a_folder_that_is_called_like_a_file(tmp_path: Path) -> None:
    lake = make_lake(tmp_path / "lake")
    make_lake(lake / "b.parquet")
    files = [str(lake / "a.parquet"), str(lake / "b.parquet" / "a.parquet")]
    assert list_files(lake) == list_files(f"{lake}/*.parquet") == files


@contextmanager
def as_nobody() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that others get into, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@as_root
def test_what_another_user_may_not_read(open_folder: Path) -> None:
    lake = make_lake(open_folder / "lake")
    shutil.copy(lake / "a.parquet", lake / "b.parquet")
    (open_folder / "private").mkdir(mode=0o700)
    (lake / "link").symlink_to("../private")
    (lake / "sub").mkdir()
    parquet_bloom.prune(lake, "id = 1")  # all is imported, whoever may read it

    def refusal(path: Path) -> str:
        with as_nobody(), pytest.raises(ParquetBloomError) as caught:
            parquet_bloom.prune(path, "id = 1")
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert refusal(lake) == f"{lake}/link: cannot list the folder: Permission denied"
    (lake / "link").unlink()
    (lake / "link").symlink_to("../private/x")
    assert refusal(lake) == f"{lake}/link: the link cannot be followed: Permission denied"
    (lake / "link").unlink()
    (lake / "sub").chmod(0o700)
    assert refusal(lake) == f"{lake}/sub: cannot list the folder: Permission denied"
    (lake / "sub").chmod(0o755)
    (lake / "b.parquet").chmod(0o600)
    assert refusal(lake) == f"{lake}/b.parquet: cannot open: Permission denied"
    (lake / "metadata").mkdir(mode=0o700)
    with as_nobody():
        assert "cannot be listed" in str(managed_table(lake / "a.parquet"))
    (lake / "metadata").rmdir()
    for mode in (0o700, 0o744):
        lake.chmod(mode)
        assert refusal(lake) == f"{lake}: cannot look into the folder: Permission denied"


@as_root
def test_an_index_of_another_user(open_folder: Path) -> None:
    lake, path = make_lake(open_folder / "lake"), open_folder / "index"
    with LakeIndex.create(path, "id", lake=lake) as index:
        index.append()
        index.check(1)
    parquet_bloom.dataset(lake, index=path).get("id", [1])
    with as_nobody():
        with LakeIndex.open(path) as index:
            assert [candidate.path for candidate in index.lookup("id", [2])[0]] == [str(lake / "a.parquet")]
            assert index.check(1).problems == []
            assert index.stats().files == 1
            for change in (index.append, index.compact, lambda: index.remove(lake / "a.parquet")):
                with pytest.raises(StorageError, match="no write permission: the folder may not be written"):
                    change()
        assert parquet_bloom.dataset(lake, index=path).get("id", [1]).num_rows == 1
        with pytest.raises(StorageError, match="no write permission"):
            LakeIndex.create(path, "id")
        with pytest.raises(StorageError, match="cannot create the folder: Permission denied"):
            LakeIndex.create(open_folder / "another", "id")
    (part,) = path.glob("*.postings")
    part.chmod(0o600)
    with as_nobody(), LakeIndex.open(path) as index:
        answers = index.lookup("id", [424242])
        assert len(answers[0]) == 1
        assert "Permission denied" in answers.doubts[0]
    max(path.glob("manifest-*")).chmod(0o600)
    with as_nobody(), pytest.raises(StorageError, match="cannot open: Permission denied"):
        LakeIndex.open(path)
