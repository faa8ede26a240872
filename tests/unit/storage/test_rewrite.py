"""Writing files: what is copied, what is kept, what is refused, and that nothing is left over."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as fs
import pytest

from parquet_bloom.errors import ConcurrentChangeError, ParquetBloomError, StorageError, TruncatedFileError
from parquet_bloom.storage import create, open_source, rewrite, same_place
from parquet_bloom.storage.local.local_rewrite import delete_leftover, displaced_from, leftovers, leftovers_below

OLD = bytes(np.random.default_rng(1).integers(0, 256, 50_000, dtype=np.uint8))
PREFIX = 30_001
TAIL = b"filters and footer" * 100
NEW = OLD[:PREFIX] + TAIL


@pytest.fixture(autouse=True)
def no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disturbances come from this process, which would wait for a lease of its own; `tests/crash` has other writers."""
    monkeypatch.delattr(fcntl, "F_SETLEASE")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a b%20é.parquet"
    path.write_bytes(OLD)
    return path


def run(path: str | Path, target: Any = None, filesystem: Any = None) -> None:
    """One rewrite, committed."""
    with open_source(path) as source, rewrite(source, target, filesystem) as new:
        new.copy_prefix(PREFIX)
        new.write(TAIL)
        new.commit()


def crc_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# What is written


def test_in_place(path: Path) -> None:
    inode = path.stat().st_ino
    with open_source(path) as source, rewrite(source) as new:
        new.copy_prefix(PREFIX)
        assert new.tell() == PREFIX
        assert new.write(TAIL) == len(TAIL)
        assert new.tell() == len(NEW)
        assert new.path == str(path)
        assert path.read_bytes() == OLD
        new.commit()
        assert path.read_bytes() == NEW
        assert source.read_at(0, len(OLD)) == OLD
    assert path.stat().st_ino != inode
    assert names(path.parent) == [path.name]


@pytest.mark.parametrize("prefix", [0, 1, len(OLD)])
def test_prefixes(path: Path, prefix: int) -> None:
    with open_source(path) as source, rewrite(source) as new:
        new.copy_prefix(prefix)
        new.commit()
    assert path.read_bytes() == OLD[:prefix]


@pytest.mark.parametrize(
    "data",
    [
        TAIL,
        bytearray(TAIL),
        memoryview(TAIL),
        pa.py_buffer(TAIL),
        np.frombuffer(TAIL, np.uint16),
        np.frombuffer(TAIL, ">u4").reshape(2, -1),
    ],
)
def test_writable_types(tmp_path: Path, data: Any) -> None:
    with create(tmp_path / "new") as new:
        assert new.write(b"") == 0
        assert new.write(np.zeros((0, 3))) == 0
        assert new.write(data) == len(TAIL)
        new.commit()
    assert (tmp_path / "new").read_bytes() == TAIL


def test_the_source_under_another_spelling_is_in_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path.parent / "link").symlink_to(path)
    monkeypatch.chdir(path.parent)
    for target in (path.name, f"./{path.name}", "link", path.as_uri()):
        path.write_bytes(OLD)
        assert same_place(path, target)
        with open_source(path) as source, rewrite(source, target) as new:
            new.copy_prefix(PREFIX)
            new.write(TAIL)
            os.utime(path, (1, 1))
            with pytest.raises(ConcurrentChangeError):
                new.commit()
        assert path.read_bytes() == OLD
        run(path, target)
        assert path.read_bytes() == NEW
    assert (path.parent / "link").is_symlink()


def test_links(path: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    link, hard = tmp_path / "sub" / "link", tmp_path / "hard"
    link.symlink_to(path)
    os.link(path, hard)
    run(link)
    assert link.is_symlink()
    assert (path.read_bytes(), hard.read_bytes()) == (NEW, OLD)
    assert names(tmp_path / "sub") == ["link"]
    (tmp_path / "dangling").symlink_to("made")
    run(hard, tmp_path / "dangling")
    assert (tmp_path / "made").read_bytes() == NEW
    assert (tmp_path / "dangling").is_symlink()


def test_the_longest_name(tmp_path: Path) -> None:
    for name in ("é" * 127, "x" * 255, "." + "x" * 254):
        path = tmp_path / name
        path.write_bytes(OLD)
        run(path)
        assert path.read_bytes() == NEW


# Ways of copying


def test_a_source_cut_while_it_is_copied(path: Path) -> None:
    with open_source(path) as source, rewrite(source) as new:
        os.truncate(path, PREFIX - 1)
        with pytest.raises(TruncatedFileError):
            new.copy_prefix(PREFIX)
    assert path.read_bytes() == OLD[: PREFIX - 1]
    assert names(path.parent) == [path.name]


@pytest.mark.parametrize("cloned", [len(OLD), PREFIX - 1])
def test_a_clone_that_is_too_short_is_completed(path: Path, monkeypatch: pytest.MonkeyPatch, cloned: int) -> None:
    def clone(target: int, request: int, source: int) -> int:
        assert request == 0x40049409
        os.pwrite(target, os.pread(source, cloned, 0), 0)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", clone)
    run(path)
    assert path.read_bytes() == NEW


# Misuse


def test_steps_out_of_order(path: Path) -> None:
    with open_source(path) as source:
        new = rewrite(source)
        for use in (lambda: new.write(b"x"), new.commit, lambda: new.copy_prefix(1)):
            with pytest.raises(StorageError, match="the rewrite cannot go on: it is new"):
                use()
        with new:
            with pytest.raises(TruncatedFileError):
                new.copy_prefix(len(OLD) + 1)
            with pytest.raises(StorageError, match="it is failed"):
                new.commit()
        with rewrite(source) as new:
            new.write(b"x")
            with pytest.raises(StorageError, match="must come before any write"):
                new.copy_prefix(1)
            new.commit()
            with pytest.raises(StorageError, match="it is committed"):
                new.commit()
        with pytest.raises(StorageError, match="entered only once"), new:
            pass
    with create(path) as new, pytest.raises(StorageError, match="must come before any write"):
        new.copy_prefix(0)
    assert path.read_bytes() == b"x"
    assert names(path.parent) == [path.name]


def test_without_commit_nothing_happens(path: Path) -> None:
    crc_of(path).write_bytes(b"crc")
    before = path.stat()
    with open_source(path) as source:
        with rewrite(source) as new:
            new.copy_prefix(PREFIX)
            assert len(names(path.parent)) == 3
            assert leftovers(path.parent) == []  # it is in use
        with pytest.raises(TypeError), rewrite(source) as new:
            new.write("text")
    with create(path.with_name("new")) as new:
        new.write(TAIL)
    assert names(path.parent) == [crc_of(path).name, path.name]
    assert path.read_bytes() == OLD
    assert path.stat()[:9] == before[:9]


# What is kept of the old file


def test_modes_of_new_files(path: Path) -> None:
    path.chmod(0o4644)
    old = os.umask(0o027)
    try:
        run(path, path.with_name("copy"))
        with create(path.with_name("new")) as new:
            new.commit()
        path.with_name("there").write_bytes(b"")
        path.with_name("there").chmod(0o604)
        run(path, path.with_name("there"))
    finally:
        os.umask(old)
    modes = {name: path.with_name(name).stat().st_mode & 0o7777 for name in ("copy", "new", "there")}
    assert modes == {"copy": 0o640, "new": 0o640, "there": 0o604}


# What is refused


def refused(path: Path, problem: str, number: int, target: Path | None = None) -> None:
    before = names(path.parent)
    with pytest.raises(StorageError, match=problem) as caught:
        run(path, target)
    assert caught.value.path == str(target or path)
    assert caught.value.errno == number
    assert names(path.parent) == before
    assert path.read_bytes() == OLD


def test_a_file_without_write_permission(path: Path) -> None:
    path.chmod(0o444)
    refused(path, "no write permission: the mode of it is 0444", errno.EACCES)
    path.chmod(0o644)
    path.parent.chmod(0o555)
    try:
        refused(path, "no write permission: the mode of its folder is 0555", errno.EACCES)
    finally:
        path.parent.chmod(0o755)


def test_a_full_disk(disk: Path) -> None:
    path = disk / "a.parquet"
    path.write_bytes(OLD)
    crc_of(path).write_bytes(b"crc")
    with open_source(path) as source, rewrite(source) as new:
        new.copy_prefix(PREFIX)
        with pytest.raises(StorageError, match=r"a\.parquet: cannot write the new file: No space left") as caught:
            new.write(bytes(2 << 20))
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(StorageError, match="it is failed"):
            new.commit()
    assert path.read_bytes() == OLD
    assert names(disk) == [crc_of(path).name, "a.parquet"]
    run(path)
    assert path.read_bytes() == NEW


def test_no_folder_and_no_file(path: Path) -> None:
    refused(path, "there is no folder", errno.ENOENT, path.parent / "missing" / "b")
    refused(path, "there is no folder", errno.ENOENT, path / "b")
    refused(path, "not a regular file", errno.EINVAL, path.parent)
    with pytest.raises(StorageError, match="null character"):
        run(path, "a\0b")
    with pytest.raises(StorageError, match="filesystem= gives others"):
        create("hdfs://host/key")


# Other writers (more of them in tests/crash)


@pytest.mark.parametrize(
    ("disturb", "target"),
    [
        (os.utime, None),
        (os.utime, "b"),
        (lambda path: path.write_bytes(OLD[::-1]), None),
        (lambda path: path.write_bytes(OLD[::-1]), "b"),
        (lambda path: path.chmod(0o600), None),
        (Path.unlink, None),
        (lambda path: os.replace(shutil.copy(path, path.with_name("other")), path), None),
    ],
)
def test_a_change_meanwhile_is_noticed(path: Path, disturb: Callable[[Path], Any], target: str | None) -> None:
    crc_of(path).write_bytes(b"crc")
    with open_source(path) as source, rewrite(source, target and path.with_name(target)) as new:
        new.copy_prefix(PREFIX)
        new.write(TAIL)
        disturb(path)
        data = path.read_bytes() if path.exists() else None
        before = path.stat() if path.exists() else None
        with pytest.raises(ConcurrentChangeError, match=r"changed|removed"):
            new.commit()
    assert before is None or (path.read_bytes(), path.stat()) == (data, before)
    assert crc_of(path).read_bytes() == b"crc"
    assert names(path.parent) == sorted([crc_of(path).name] + [path.name] * path.exists())


# Hadoop's checksums


def test_checksums_beside_the_file_and_its_link_are_removed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link"
    link.symlink_to(path)
    crc_of(link).write_bytes(b"crc")
    crc_of(path).write_bytes(b"crc")
    run(link)
    assert not crc_of(link).exists()
    assert not crc_of(path).exists()


def test_checksums_that_are_not_a_file(path: Path) -> None:
    crc_of(path).mkdir()
    run(path)
    assert crc_of(path).is_dir()
    crc_of(path).rmdir()
    crc_of(path).symlink_to("nowhere")
    run(path)
    assert names(path.parent) == [path.name]


# Leftovers


def test_files_of_a_dead_writer_are_known_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    own, displaced = (f".a.parquet.0123456789abcdef.parquet_bloom.{ending}" for ending in ("tmp", "old"))
    others = ["a.parquet", own[1:], own[:-1], ".a.parquet.parquet_bloom.tmp", ".a.0123456789ABCDEF.parquet_bloom.tmp"]
    for name in (own, displaced, "sub/" + own, *others):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ".d.0123456789abcdef.parquet_bloom.tmp").mkdir()
    assert leftovers(tmp_path) == [str(tmp_path / displaced), str(tmp_path / own)]
    assert leftovers_below(tmp_path) == sorted(str(tmp_path / name) for name in (own, displaced, "sub/" + own))
    assert (displaced_from(own), displaced_from(displaced), displaced_from("a.parquet")) == (None, "a.parquet", None)
    with open_source(tmp_path / own) as source:
        fcntl.flock(source.fileno(), fcntl.LOCK_EX)  # type: ignore[attr-defined]
        assert not delete_leftover(str(tmp_path / own))
    assert delete_leftover(str(tmp_path / own))
    assert not delete_leftover(str(tmp_path / own))
    for find in (leftovers, leftovers_below):
        with pytest.raises(StorageError):
            find(tmp_path / "missing")


# Other file systems


@pytest.fixture(params=["subtree", "mock", "fsspec memory"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A file system that is not the local one, with a file `a` in it."""
    filesystem: Any
    if request.param == "subtree":
        (tmp_path / "remote").mkdir()
        filesystem = fs.SubTreeFileSystem(str(tmp_path / "remote"), fs.LocalFileSystem())
    elif request.param == "mock":
        filesystem = fs._MockFileSystem()
    else:
        filesystem = pytest.importorskip("fsspec").filesystem("memory", skip_instance_cache=True)
        filesystem.store = {}
        filesystem.pipe_file("/a", OLD)
        return filesystem
    with filesystem.open_output_stream("a") as stream:
        stream.write(OLD)
    return filesystem


def content(filesystem: Any, name: str) -> bytes:
    with open_source(name, filesystem) as source:
        return source.read_at(0, source.size)


def remote_names(filesystem: Any) -> list[str]:
    if isinstance(filesystem, fs.FileSystem):
        return sorted(info.base_name for info in filesystem.get_file_info(fs.FileSelector("")))
    return sorted(name.lstrip("/") for name in filesystem.store)


def write_remote(source_fs: Any, target: str, target_fs: Any) -> None:
    with open_source("a", source_fs) as source, rewrite(source, target, target_fs) as new:
        new.copy_prefix(PREFIX)
        new.write(np.frombuffer(TAIL, np.uint8))
        assert new.tell() == len(NEW)
        new.commit()


def write_ranges(new: Any) -> bytes:
    """Write ranges of the source behind its beginning, and return what is written."""
    with new:
        new.copy_prefix(4)
        new.copy_range(7, 100)
        new.write(TAIL)
        new.copy_range(len(OLD) - 5, 5)
        new.copy_range(len(OLD), 0)
        for start, length in ((len(OLD), 1), (-1, 1), (0, -1)):
            with pytest.raises(TruncatedFileError):
                new.copy_range(start, length)
        new.commit()
    return OLD[:4] + OLD[7:107] + TAIL + OLD[-5:]


@pytest.mark.parametrize("kernel", [True, False])
def test_ranges_of_the_source(path: Path, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel:
        monkeypatch.delattr(os, "copy_file_range")
    with open_source(path) as source:
        expected = write_ranges(rewrite(source))
    assert path.read_bytes() == expected
    with create(path.with_name("b")) as new, pytest.raises(StorageError, match="needs a source"):
        new.copy_range(0, 0)


def test_ranges_of_remote_sources(remote: Any, tmp_path: Path) -> None:
    with open_source("a", remote) as source:
        assert write_ranges(rewrite(source, "b", remote)) == content(remote, "b")
        assert write_ranges(rewrite(source, str(tmp_path / "c"))) == (tmp_path / "c").read_bytes()


def test_writing_remotely(remote: Any, tmp_path: Path) -> None:
    for _ in range(2):
        write_remote(remote, "b", remote)
        assert content(remote, "b") == NEW
        assert content(remote, "a") == OLD
    assert remote_names(remote) == ["a", "b"]
    # From there to here, and from here to there.
    write_remote(remote, str(tmp_path / "local"), None)
    assert (tmp_path / "local").read_bytes() == NEW
    with open_source(tmp_path / "local") as source, rewrite(source, "c", remote) as new:
        new.copy_prefix(source.size)
        new.commit()
    with create("d", remote) as new:
        new.write(TAIL)
        new.commit()
    assert (content(remote, "c"), content(remote, "d")) == (NEW, TAIL)
    assert remote_names(remote) == ["a", "b", "c", "d"]


def test_giving_up_remotely(remote: Any) -> None:
    with open_source("a", remote) as source:
        with rewrite(source, "b", remote) as new:
            new.copy_prefix(PREFIX)
        with pytest.raises(TruncatedFileError), rewrite(source, "b", remote) as new:
            new.copy_prefix(1 << 40)
        with pytest.raises(KeyError), rewrite(source, "b", remote) as new:
            raise KeyError
    assert remote_names(remote) == ["a"]


def test_in_place_on_another_file_system_is_refused(remote: Any) -> None:
    with open_source("a", remote) as source:
        for target in (None, "a"):
            with pytest.raises(StorageError, match="only; give an output elsewhere"):
                rewrite(source, target, remote)
    assert same_place("a", "a", remote)
    assert content(remote, "a") == OLD


def test_a_remote_folder_that_is_missing(tmp_path: Path, path: Path) -> None:
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    with pytest.raises(ParquetBloomError, match="no/b: cannot write beside it"), create("no/b", filesystem):
        pass
    assert names(tmp_path) == [path.name]
