"""A program's private folder: its contents, names that only one writer gets, and the writer's lock."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs as fs
import pytest
from obstore.store import LocalStore, MemoryStore

from parquet_bloom.errors import ConcurrentChangeError, IndexInUseError, StorageError
from parquet_bloom.storage import index_folder as folder_lock
from parquet_bloom.storage.index_folder import Folder
from parquet_bloom.storage.objects.location import ObjectStores

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
TEMPORARY = ".x.0123456789abcdef.parquet_bloom.tmp"


@pytest.fixture(params=["local", "s3", "memory", "local store", "store's root"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    """A folder that can be written, of each kind, with something beside it that is not to be seen."""
    name = "a b/é%20+#/t"
    if request.param == "local":
        yield Folder(tmp_path / name)
        return
    if request.param == "s3":
        s3 = request.getfixturevalue("s3")
        s3.put(f"{name}-other/a", b"not to be seen")
        yield Folder(f"s3://{s3.bucket}/{name}/", options(s3))
        return
    store = LocalStore(tmp_path) if request.param == "local store" else MemoryStore()
    root = request.param == "store's root"
    store.put("t-other/a" if root else f"{name}-other/a", b"not to be seen")
    yield Folder("" if root else name, store)


def options(s3: Any) -> ObjectStores:
    return ObjectStores(s3.storage_options | {"init_backoff": 0.01, "max_backoff": 0.02, "max_retries": 2})


def write(folder: Folder, name: str, data: bytes, new: bool = False) -> None:
    with folder.create(name, new) as file:
        file.write(data)
        file.commit()


def read(folder: Folder, name: str) -> bytes:
    with folder.open(name) as source:
        return source.read_at(0, source.size)


# What is in it


@pytest.mark.ci
def test_files_come_and_go(folder: Folder) -> None:
    folder.make()
    folder.make()
    assert folder.names() == {}
    contents = {"manifest-1": b"one", ".hidden": b"h", "_under": b"", "ü b%+#?.part": b"x" * 70_000}
    for name, data in contents.items():
        write(folder, name, data)
    paths = folder.names()
    assert {name: size for name, (size, _) in paths.items()} == {name: len(data) for name, data in contents.items()}
    for name, data in contents.items():
        assert read(folder, name) == data
        assert 1_700_000_000 * 10**9 < paths[name][1] < 4_000_000_000 * 10**9
    write(folder, "manifest-1", b"longer")
    assert read(folder, "manifest-1") == b"longer"
    folder.delete(["nothing", "manifest-1", "not there either", ".hidden", "manifest-1"])
    folder.delete(["nothing"])
    folder.delete([])
    assert set(folder.names()) == {"_under", "ü b%+#?.part"}
    with pytest.raises(StorageError, match=r"[Nn]o such"):
        folder.open("manifest-1")


def test_an_abandoned_write_leaves_nothing(folder: Folder) -> None:
    folder.make()
    for new in (False, True):
        with folder.create("a", new) as file:
            file.write(b"x")
        with suppress(KeyError), folder.create("a", new) as file:
            file.write(b"x")
            raise KeyError
    assert folder.names() == {}
    assert folder.sweep_temporary() == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a/", "a\0b", pytest.param("a\udc00", id="surrogate")])
def test_names_that_are_none(folder: Folder, name: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: folder.path_of(name),
        lambda: folder.open(name),
        lambda: folder.create(name),
        lambda: folder.delete(["a", name]),
        lambda: folder.lock(name),
    ]
    folder.make()
    write(folder, "a", b"x")
    for call in calls:
        with pytest.raises(StorageError):
            call()
    assert set(folder.names()) == {"a"}


def test_only_files_directly_in_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_bytes(b"x")
    (tmp_path / TEMPORARY).write_bytes(b"x")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "link").symlink_to("sub/a")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "a").write_bytes(b"xyz")
    os.utime(tmp_path / "a", ns=(5, 1_234_567_890_123_456_789))
    assert folder.names()["a"] == (3, 1_234_567_890_123_456_789)
    with folder.lock():
        assert set(folder.names()) == {"a", "link"}
    with pytest.raises(StorageError, match="cannot delete it"):
        folder.delete(["sub"])
    folder.delete(["link", "nowhere"])
    assert sorted(os.listdir(tmp_path)) == sorted([TEMPORARY, "a", "fifo", "sub", "writer.lock"])


def test_only_objects_directly_in_it(s3: Any) -> None:
    for key in ("t/", "t/a", "t/.b", "t/sub/", "t/sub/a", "t", "t2/a", f"t/{TEMPORARY}", "t/writer.lock"):
        s3.put(key, b"x")
    folder = Folder(s3.url("t"), options(s3))
    assert set(folder.names()) == {"a", ".b"}
    assert s3.operations() == ["ListObjects"]
    assert set(Folder(f"s3://{s3.bucket}/", options(s3)).names()) == {"t"}


def test_many_objects_take_a_request_a_thousand(s3: Any) -> None:
    expected = {f"{number:05}" for number in range(1001)}
    for name in expected:
        s3.put(f"t/{name}", b"x")
    folder = Folder(s3.url("t"), options(s3))
    assert set(folder.names()) == expected
    assert s3.operations() == ["ListObjects"] * 2
    s3.clear_log()
    folder.delete(expected)
    assert s3.operations() == ["DeleteObjects"] * 2
    assert folder.names() == {}


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    for path in ("a b", "a b//", tmp_path / "a b", (tmp_path / "a b").as_uri(), b"a b"):
        folder = Folder(path)  # type: ignore[arg-type]
        assert os.path.samefile(folder.path, "a b")
        assert os.path.dirname(folder.path_of("x")) == folder.path
    assert Folder("/").path_of("x") == "/x"
    assert Folder("s3://bucket").path_of("x") == Folder("s3://bucket/").path_of("x") == "s3://bucket/x"
    assert Folder("https://host/a/").path_of("ü b%") == "https://host/a/%C3%BC%20b%25"
    for wrong in ("", 3, None, "s3://", "hdfs://host/a", "a\0b"):
        with pytest.raises(StorageError):
            Folder(wrong)  # type: ignore[arg-type]


# Folders that are missing, or may not be written


def test_a_missing_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "x" / "y")
    calls: list[Callable[[], object]] = [
        folder.names,
        folder.sweep_temporary,
        lambda: folder.lock().__enter__(),
        lambda: folder.create("a", True).__enter__(),
    ]
    for call in calls:
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.errno == errno.ENOENT
        assert str(tmp_path / "x" / "y") in str(caught.value)
    assert os.listdir(tmp_path) == []
    folder.make()
    assert folder.names() == {}


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    for path in ("f", "f/x/y"):
        folder = Folder(tmp_path / path)
        for call in (folder.make, folder.names):
            with pytest.raises(StorageError):
                call()
    assert (tmp_path / "f").read_bytes() == b"x"


def test_a_read_only_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "t")
    folder.make()
    write(folder, "a", b"x")
    (tmp_path / "t").chmod(0o555)
    try:
        assert read(folder, "a") == b"x"
        assert set(folder.names()) == {"a"}
        for call in (lambda: folder.lock().__enter__(), lambda: folder.create("b", True).__enter__()):
            with pytest.raises(StorageError, match="no write permission") as caught:
                call()
            assert caught.value.errno == errno.EACCES
        assert os.listdir(tmp_path / "t") == ["a"]
    finally:
        (tmp_path / "t").chmod(0o755)


def test_a_full_disk(disk: Path) -> None:
    folder = Folder(disk)
    write(folder, "a", b"x")
    (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * 4096))
    with pytest.raises(StorageError) as caught:
        write(folder, "b", bytes(100_000), new=True)
    assert caught.value.errno == errno.ENOSPC
    assert set(folder.names()) == {"a", "filler"}
    with folder.lock(), pytest.raises(IndexInUseError), folder.lock():  # its holder cannot be recorded
        pass


@pytest.fixture(params=["subtree", "mock", "fsspec memory"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A file system that is read only through pyarrow."""
    if request.param == "fsspec memory":
        filesystem = pytest.importorskip("fsspec").filesystem("memory", skip_instance_cache=True)
        filesystem.store = {}
        filesystem.pipe_file("/t/a", b"x")
        return filesystem
    filesystem = fs._MockFileSystem()
    if request.param == "subtree":
        filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    filesystem.create_dir("t/sub")
    with filesystem.open_output_stream("t/a") as stream:
        stream.write(b"x")
    return filesystem


def test_other_file_systems_are_read_only(foreign: Any) -> None:
    for path in ("t", "t/"):
        folder = Folder(path, foreign)
        assert read(folder, "a") == b"x"
        ((name, (size, changed)),) = folder.names().items()
        assert (name, size, type(changed)) == ("a", 1, int)
    calls: list[Callable[[], object]] = [
        lambda: folder.create("b"),
        lambda: folder.create("b", True),
        lambda: folder.delete(["a"]),
        folder.make,
        folder.lock,
        folder.sweep_temporary,
    ]
    for call in calls:
        with pytest.raises(StorageError, match="t: an index cannot be written there"):
            call()
    with pytest.raises(StorageError, match="cannot list the folder"):
        Folder("missing", foreign).names()
    assert set(folder.names()) == {"a"}


def test_a_web_server_is_read_by_name_only() -> None:
    folder = Folder("http://127.0.0.1:9/t")
    with pytest.raises(StorageError, match="cannot list files"):
        folder.names()
    for new in (False, True):
        with pytest.raises(StorageError, match="cannot write to a web server"), folder.create("a", new):
            pass


def test_no_such_bucket(s3: Any) -> None:
    folder = Folder("s3://no-such-bucket/t", options(s3))
    with pytest.raises(StorageError, match="there is no such bucket"):
        folder.names()
    with pytest.raises(StorageError, match="there is no such bucket"):
        write(folder, "a", b"x", new=True)


# Names that only one gets


@pytest.mark.parametrize("size", [0, 5, 17 * MIB])
def test_a_new_file_takes_no_place(folder: Folder, size: int) -> None:
    folder.make()
    write(folder, "a", bytes(size), new=True)
    assert read(folder, "a") == bytes(size)
    for theirs in (b"theirs", bytes(size)):
        with pytest.raises(ConcurrentChangeError, match="there is one already") as caught:
            write(folder, "a", theirs, new=True)
        assert caught.value.path == folder.path_of("a")
        assert "\n" not in str(caught.value)
    assert read(folder, "a") == bytes(size)
    assert list(folder.names()) == ["a"]
    assert folder.sweep_temporary() == []
    folder.delete(["a"])
    write(folder, "a", b"again", new=True)
    assert read(folder, "a") == b"again"


def test_only_one_of_several_gets_a_name(folder: Folder) -> None:
    """They commit at the same moment; all but one get an error, and the one's bytes are there."""
    folder.make()
    num_threads = 6
    for number in range(5):
        won: list[bytes] = []
        lost: list[ConcurrentChangeError] = []
        barrier = threading.Barrier(num_threads)

        def run(mine: bytes, name: str, won: Any = won, lost: Any = lost, barrier: Any = barrier) -> None:
            with suppress(ConcurrentChangeError), folder.create(name, new=True) as file:
                file.write(mine)
                barrier.wait(30)
                try:
                    file.commit()
                except ConcurrentChangeError as error:
                    lost.append(error)
                    raise
                won.append(mine)

        threads = [threading.Thread(target=run, args=(b"%d" % each, f"n{number}")) for each in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len(won), len(lost)) == (1, num_threads - 1)
        assert read(folder, f"n{number}") == won[0]
    assert set(folder.names()) == {f"n{number}" for number in range(5)}


@pytest.mark.parametrize("there", ["link to a file", "link that leads nowhere", "folder"])
def test_other_objects_with_the_name(tmp_path: Path, there: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    if there == "folder":
        (tmp_path / "t" / "a").mkdir()
    else:
        (tmp_path / "t" / "a").symlink_to("../file" if there == "link to a file" else "../gone")
    with pytest.raises(ConcurrentChangeError):
        write(Folder(tmp_path / "t"), "a", b"new", new=True)
    assert os.listdir(tmp_path / "t") == ["a"]
    assert (tmp_path / "file").read_bytes() == b"old"
    assert not (tmp_path / "gone").exists()


# New objects, when answers get lost


def test_one_request_and_a_condition(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    write(folder, "a", b"mine", new=True)
    assert s3.operations() == ["PutObject"]
    assert s3.log[0].headers["if-none-match"] == "*"


@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_answer(s3: Any, times: int) -> None:
    """The request is sent again, and refused on account of what it has written itself."""
    folder = Folder(s3.url("t"), options(s3))
    lost = s3.lose_answer("PutObject", times)
    write(folder, "a", b"mine", new=True)
    assert lost.happened == times
    assert read(folder, "a") == b"mine"
    s3.lose_answer("PutObject")
    with pytest.raises(ConcurrentChangeError):
        write(folder, "a", b"mine", new=True)


def test_a_lost_request_and_another_writer(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    s3.lose_request("PutObject")
    s3.before("PutObject", lambda request: s3.put("t/a", b"theirs"), skip=1)
    with pytest.raises(ConcurrentChangeError, match="there is one already"):
        write(folder, "a", b"mine", new=True)
    assert s3.get("t/a") == b"theirs"


def test_nothing_can_be_asked(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    s3.lose_answer("PutObject", 99)
    s3.fail("PutObject", 99, skip=1)
    s3.fail("HeadObject", 99)
    with pytest.raises(StorageError, match="cannot tell whether it was written") as caught:
        write(folder, "a", b"mine", new=True)
    assert "\n" not in str(caught.value)
    assert s3.get("t/a") == b"mine"


@pytest.mark.ci
@pytest.mark.parametrize("times", [1, 99])
def test_conflicts_that_no_writer_wins(s3: Any, times: int) -> None:
    """S3 may refuse several writers at the same moment, all of them."""
    folder = Folder(s3.url("t"), options(s3))
    s3.fail("PutObject", times, status=409, code="ConditionalRequestConflict")
    if times == 1:
        write(folder, "a", b"mine", new=True)
        assert s3.get("t/a") == b"mine"
        return
    with pytest.raises(ConcurrentChangeError, match="others keep writing it"):
        write(folder, "a", b"mine", new=True)
    assert s3.get("t/a") is None


def test_a_new_object_that_is_too_large(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    with folder.create("b", new=True) as file:
        file.write(b"x")
        with pytest.raises(StorageError, match="at most 1073741824 bytes"):
            file.write(np.zeros(1 << 30, np.uint8))  # pages that nobody touches take no memory
    assert folder.names() == {}


def test_a_store_that_refuses(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    s3.fail("PutObject", 99, status=403, code="AccessDenied")
    with pytest.raises(StorageError, match="access denied"):
        write(folder, "a", b"mine", new=True)
    assert s3.operations() == ["PutObject"]
    without = ObjectStores(s3.storage_options | {"conditional_put": "disabled"})
    with pytest.raises(StorageError, match="conditional put is disabled"):
        write(Folder(s3.url("t"), without), "a", b"mine", new=True)


def test_deleting_is_refused(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    s3.put("t/a", b"x")
    s3.fail("DeleteObjects", 99, status=403, code="AccessDenied")
    with pytest.raises(StorageError, match="access denied"):
        folder.delete(["a"])


# The lock

HOLDER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from parquet_bloom.storage.index_folder import Folder
folder = Folder(sys.argv[1])
with folder.lock():
    if "write" in sys.argv:
        file = folder.create("a", new=True)
        file.__enter__()
        file.write(b"x" * 1000)
    print(os.getpid(), flush=True)
    sys.stdin.readline()
"""


class Holder:
    """Another process that holds the lock until it is asked to release it, or killed."""

    def __init__(self, folder: Path, *more: str):
        command = [sys.executable, "-c", HOLDER, str(folder), str(ROOT), *more]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def end(self, kill: bool) -> None:
        if kill:
            self.process.kill()
        self.process.communicate("\n", timeout=60)


@pytest.mark.parametrize("kill", [False, True])
def test_the_lock_of_another_process(tmp_path: Path, kill: bool) -> None:
    folder = Folder(tmp_path)
    holder = Holder(tmp_path)
    try:
        for _ in range(2):
            with pytest.raises(IndexInUseError, match=f"another writer is at work: process {holder.pid} on ") as caught:
                folder.lock().__enter__()
            assert str(caught.value).startswith(f"{tmp_path}: ")
            assert "\n" not in str(caught.value)
    finally:
        holder.end(kill)
    with folder.lock():
        pass
    assert os.listdir(tmp_path) == ["writer.lock"]


def test_the_lock_of_another_thread(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.lock():
        for other in (folder, Folder(tmp_path)):
            with pytest.raises(IndexInUseError, match=f"process {os.getpid()} on "), other.lock():
                pass
        with folder.lock("another.lock"):
            pass
    with pytest.raises(KeyError), folder.lock():
        raise KeyError
    with folder.lock():
        pass
    assert (tmp_path / "writer.lock").read_bytes() == b""


def test_a_lock_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking it: what is locked then is nobody's, and another one is made."""
    real, remaining = fcntl.flock, [3]

    class Deleting:
        LOCK_EX, LOCK_NB, LOCK_UN = (getattr(fcntl, name) for name in ("LOCK_EX", "LOCK_NB", "LOCK_UN"))

        @staticmethod
        def flock(file: int, how: int) -> None:
            real(file, how)
            if remaining[0]:
                remaining[0] -= 1
                (tmp_path / "writer.lock").unlink()

    monkeypatch.setattr(folder_lock, "fcntl", Deleting)
    with Folder(tmp_path).lock():
        assert remaining == [0]
        with pytest.raises(IndexInUseError), Folder(tmp_path).lock():
            pass


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Without:
        LOCK_EX = LOCK_NB = LOCK_UN = 0

        @staticmethod
        def flock(file: int, how: int) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folder_lock, "fcntl", Without)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StorageError, match="cannot lock the folder: No locks available"), Folder(tmp_path).lock():
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_fork_does_not_give_the_lock_back(tmp_path: Path) -> None:
    code = """
import os, sys
sys.path.insert(0, sys.argv[2])
from parquet_bloom.errors import IndexInUseError
from parquet_bloom.storage.index_folder import Folder
with Folder(sys.argv[1]).lock():
    child = os.fork()
    if not child:
        sys.exit(0)  # leaves the block
    os.waitpid(child, 0)
    try:
        Folder(sys.argv[1]).lock().__enter__()
    except IndexInUseError:
        print("still held")
"""
    command = [sys.executable, "-c", code, str(tmp_path), str(ROOT)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "still held\n"


def test_what_holds_an_object_store_is_nothing(s3: Any) -> None:
    folder = Folder(s3.url("t"), options(s3))
    with folder.lock(), folder.lock():
        assert folder.sweep_temporary() == []
    assert s3.log == []


# What killed writers leave


def test_leftovers_of_a_killed_writer(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    holder = Holder(tmp_path, "write")
    try:
        assert folder.names() == {}
        assert folder.sweep_temporary() == []  # it is still at work
        assert len(os.listdir(tmp_path)) == 2
    finally:
        holder.end(kill=True)
    assert folder.names() == {}
    with folder.lock():
        (name,) = folder.sweep_temporary()
    assert name.startswith(".a.")
    assert os.listdir(tmp_path) == ["writer.lock"]
    write(folder, "a", b"x", new=True)
