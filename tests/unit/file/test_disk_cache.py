"""Footers on disk: found again by other processes, never believed when wrong, and never in the way."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.counted import CountedFileSystem

import parquet_bloom
from parquet_bloom import DiskMetadataCache
from parquet_bloom.file import metadata_cache
from parquet_bloom.storage import DATED, RemoteIdentity, sqlite_store
from parquet_bloom.storage.local import system_calls
from parquet_bloom.storage.local.system_calls import keeps_change_times
from parquet_bloom.storage.sqlite_store import RecordStore
from parquet_bloom.types import PruneReport

FILES, GROUPS, ROWS = 12, 4, 400
KEYS = np.random.default_rng(11).integers(0, 2**60, (FILES, GROUPS * ROWS))
ABSENT = 2**59 + 1
NAME = "footers-4.sqlite"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "lake"
    folder.mkdir()
    for number, keys in enumerate(KEYS):
        path = folder / f"{number:02}.parquet"
        pq.write_table(pa.table({"key": keys, "n": np.arange(len(keys))}), path, row_group_size=ROWS)
        parquet_bloom.embed(path, ["key"])
    return folder


@pytest.fixture
def lake(written: Path, settled_footers: None) -> Path:
    return written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def prune_paths(paths: Any, cache: DiskMetadataCache | None, where: str = f"key = {ABSENT}") -> PruneReport:
    return parquet_bloom.prune(paths, where, cache=cache)


def fill(lake: Path, folder: Path) -> PruneReport:
    with DiskMetadataCache(folder) as cache:
        return prune_paths(lake, cache)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# ------------------------------------------------------------------------------------------------------------
# Found again
# ------------------------------------------------------------------------------------------------------------


def test_another_cache_over_the_folder_reads_no_footer(lake: Path, folder: Path) -> None:
    first = fill(lake, folder)
    again = fill(lake, folder)
    assert again.files == first.files == prune_paths(lake, None).files
    assert (again.requests, again.bytes_read) == (FILES * GROUPS, 32 * FILES * GROUPS)  # a block of each filter alone
    assert first.requests == FILES
    assert fill(lake, folder).requests == again.requests
    changed = lake / "00.parquet"
    data = changed.read_bytes()
    try:
        changed.write_bytes((lake / "01.parquet").read_bytes())
        where = f"key = {KEYS[1][5]}"
        with DiskMetadataCache(folder) as cache:
            assert set(prune_paths(lake, cache, where).selected) == {str(changed), str(lake / "01.parquet")}
    finally:
        changed.write_bytes(data)


@pytest.mark.usefixtures("settled_footers")
def test_headers_that_were_read_are_kept_as_well(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "a.parquet"
    keys = np.arange(8000) * 3
    pq.write_table(pa.table({"key": keys, "other": keys}), path, row_group_size=2000)
    options = {"ndv": 80_000, "fpp": 0.01}  # only the last one is within the first read
    parquet_bloom.embed(path, {"key": options, "other": options})
    with DiskMetadataCache(folder) as cache:
        prune_paths(path, cache, "key = 4")
    with DiskMetadataCache(folder) as cache:
        assert prune_paths(path, cache, "key = 4").bytes_read == 32


def test_objects_without_etags_are_not_kept(lake: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = CountedFileSystem({"a": (lake / "00.parquet").read_bytes()})
    for number in (1, 2):
        with DiskMetadataCache(folder) as cache:
            assert parquet_bloom.prune("a", "n = -1", filesystem=files, cache=cache).requests == 1
        assert len(warnings_of(caplog)) == number
    assert warnings_of(caplog)[0].endswith("their store gives no strong etag")


def test_prune_writes_what_it_found_even_if_nobody_closes(lake: Path, folder: Path) -> None:
    cache = DiskMetadataCache(folder)
    prune_paths(lake, cache)
    assert prune_paths(lake, DiskMetadataCache(folder), "n = -1").requests == 0
    assert pickle.loads(pickle.dumps(cache)).path == str(folder)
    assert prune_paths(lake, pickle.loads(pickle.dumps(cache)), "n = -1").requests == 0


@pytest.mark.ci
@pytest.mark.usefixtures("settled_footers")
def test_more_files_than_are_written_together(tmp_path: Path, folder: Path) -> None:
    """Of 600 files some hundred are written before the cache is closed."""
    files = tmp_path / "many"
    files.mkdir()
    pq.write_table(pa.table({"n": [1]}), files / "000.parquet")
    for number in range(1, 600):
        shutil.copyfile(files / "000.parquet", files / f"{number:03}.parquet")
    cache = DiskMetadataCache(folder)
    for path in sorted(files.iterdir()):
        parquet_bloom.open(path, cache=cache).close()
    assert 0 < prune_paths(files, DiskMetadataCache(folder), "n = -1").requests < 300  # not yet written
    cache.close()
    assert prune_paths(files, DiskMetadataCache(folder), "n = -1").requests == 0


def test_other_users_may_not_read_it(lake: Path, folder: Path) -> None:
    with DiskMetadataCache(folder) as cache:
        prune_paths(lake, cache)
        names = {path.name for path in folder.iterdir()}
        assert names == {NAME, f"{NAME}-wal", f"{NAME}-shm"}
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_objects_are_kept_by_their_etags(lake: Path, folder: Path, s3: Any) -> None:
    """A new state takes the place of the old one; weak etags are asked for in `test_remote_files_that_are_cached`."""
    read, options = [], {"storage_options": s3.storage_options}
    s3.put("lake/a.parquet", (lake / "11.parquet").read_bytes())
    for number in (0, 0, 1, 1, 0):
        s3.put("lake/b.parquet", (lake / f"0{number}.parquet").read_bytes())
        with DiskMetadataCache(folder) as cache:
            read.append(parquet_bloom.prune(s3.url("lake"), "n = -1", cache=cache, **options).bytes_read)
    assert [count > 0 for count in read] == [True, False, True, False, True]
    assert read[2] < read[0]


# ------------------------------------------------------------------------------------------------------------
# Files that are others now
# ------------------------------------------------------------------------------------------------------------


def write_shifted(path: Path, shift: int) -> None:
    table = pa.table({"key": np.arange(1000) * 10 + shift})
    pq.write_table(table, path, row_group_size=100, compression="none", use_dictionary=False)
    parquet_bloom.embed(path, ["key"])


@pytest.mark.usefixtures("settled_footers")
@pytest.mark.parametrize("how", ["renamed over", "written in place", "rsync", "link"])
def test_a_file_of_the_same_size_and_time_is_another_one(tmp_path: Path, folder: Path, how: str) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    write_shifted(path, 0)
    write_shifted(other, 5_000)
    name = path
    if how == "link":
        name = tmp_path / "link.parquet"
        name.symlink_to(path)
    assert path.stat().st_size == other.stat().st_size
    with DiskMetadataCache(folder) as cache:
        assert prune_paths(name, cache, "key = 12340").selected == {}
    time.sleep(0.05)  # a tick of the clock, and more
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    os.utime(other, ns=times)
    if how == "renamed over":
        os.replace(other, path)
    elif how == "written in place":
        path.write_bytes(other.read_bytes())
    elif how == "rsync":  # a copy beside it, its times set, and renamed
        shutil.copy2(other, tmp_path / ".a.parquet.x")
        os.replace(tmp_path / ".a.parquet.x", path)
    else:
        name.unlink()
        name.symlink_to(other)
    os.utime(path, ns=times)
    assert path.stat().st_mtime_ns == times[1]
    for _ in range(2):
        with DiskMetadataCache(folder) as cache:
            assert prune_paths(name, cache, "key = 12340").selected == {str(name): [7]}


def test_files_of_just_now_are_not_kept(tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.parquet"
    for _ in range(5):  # in case that so much else goes on that the file gets old
        write_shifted(path, 0)
        if fill(path, folder).requests == fill(path, folder).requests:
            break
    else:
        pytest.fail("it was kept")
    assert not warnings_of(caplog)


def test_file_systems_without_change_times_are_left_out(
    lake: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(system_calls, "_KEEPING", {0x65735546: "fuse"})
    monkeypatch.setattr(system_calls, "_cached", {})
    fill(lake, folder)
    (warning,) = warnings_of(caplog)  # once, not for each file
    assert warning.startswith(f"{folder}: it does not keep footers of files such as {lake}/")
    assert warning.endswith("their file system does not tell when a file was changed last")
    assert fill(lake, folder).requests == FILES


def test_the_type_of_a_file_system_is_known(tmp_path: Path) -> None:
    assert not keeps_change_times("/proc/version", os.stat("/proc/version").st_dev)
    for place in (tmp_path, Path("/dev/shm")):
        process = subprocess.run(["stat", "-f", "-c", "%t", place], capture_output=True, text=True, check=True)
        assert system_calls.find_filesystem_type(os.path.realpath(place)) == int(process.stdout, 16)
        if int(process.stdout, 16) in system_calls._KEEPING:
            assert keeps_change_times(os.path.realpath(place), place.stat().st_dev)


def test_a_file_that_is_gone_says_nothing_about_its_device(tmp_path: Path) -> None:
    device = 1 << 60  # no other test's
    assert not keeps_change_times(str(tmp_path / "gone"), device)
    assert device not in system_calls._cached


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for chroot")
def test_files_in_a_chroot_are_kept(lake: Path, tmp_path: Path) -> None:
    """A chroot's list of mounts does not have the file system that its root is on."""
    script = """
import os, sys, parquet_bloom
from parquet_bloom.file import metadata_cache
from parquet_bloom.file.disk_cache import DiskMetadataCache

metadata_cache.SETTLED_NS = -(10**12)
parquet_bloom.prune(sys.argv[2], "key = 1", cache=None)  # imports all that is needed
os.chroot(sys.argv[1])
os.chdir("/")
for _ in range(2):
    with DiskMetadataCache("/cache") as cache:
        print(parquet_bloom.prune("/lake", "key = 1", cache=cache).requests)
"""
    inner = tmp_path / "root"
    shutil.copytree(lake, inner / "lake")
    command = [sys.executable, "-c", script, inner, lake]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout.split(), done.stderr) == ([str(FILES), "0"], "")


# ------------------------------------------------------------------------------------------------------------
# What is wrong is not believed
# ------------------------------------------------------------------------------------------------------------


def flipped(record: bytes) -> bytes:
    data = bytearray(record)
    data[random.Random(len(record)).randrange(len(data))] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    "change",
    [flipped, lambda record: record[:-1], lambda record: record + b"x", lambda record: b"", lambda record: "text"],
    ids=["flipped", "cut", "longer", "empty", "text"],
)
def test_a_record_that_fails_its_checksum_is_read_anew(
    lake: Path, folder: Path, change: Any, caplog: pytest.LogCaptureFixture
) -> None:

    def damage(folder: Path, change: Any) -> None:
        with sqlite3.connect(folder / NAME) as connection:
            for number, record in connection.execute("SELECT number, record FROM records").fetchall():
                connection.execute("UPDATE records SET record = ? WHERE number = ?", (change(record), number))
        connection.close()

    first = fill(lake, folder)
    damage(folder, change)
    again = fill(lake, folder)
    assert (again.files, again.requests) == (first.files, FILES)
    assert fill(lake, folder).requests == FILES * GROUPS  # and written anew
    assert warnings_of(caplog) == []


def test_the_record_of_another_file_is_not_taken(lake: Path, folder: Path) -> None:
    first = fill(lake, folder)
    with sqlite3.connect(folder / NAME) as connection:
        connection.execute("UPDATE records SET record = (SELECT record FROM records LIMIT 1)")
    connection.close()
    again = fill(lake, folder)
    assert again.files == first.files
    assert FILES - 1 <= again.requests - GROUPS <= FILES


def test_an_invalid_database_is_created_anew(lake: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir(mode=0o700)
    for number, content in enumerate((b"", b"no database" * 999, b"SQLite format 3\0" + bytes(9000))):
        for path in folder.iterdir():
            path.unlink()
        (folder / NAME).touch(0o600)
        (folder / NAME).write_bytes(content)
        assert fill(lake, folder).requests == FILES
        assert fill(lake, folder).requests == FILES * GROUPS
        assert len(warnings_of(caplog)) == number


@pytest.mark.ci
def test_random_damage_costs_speed_only(lake: Path, folder: Path) -> None:
    chosen = sorted(lake.iterdir())[:4]
    expected = prune_paths(chosen, None).files
    with DiskMetadataCache(folder) as cache:
        prune_paths(chosen, cache)
    content = (folder / NAME).read_bytes()
    dice = random.Random(5)
    believed = 0
    for _ in range(120):
        data = bytearray(content)
        for _ in range(dice.choice([1, 1, 20])):
            start = dice.randrange(len(data))
            length = dice.choice([1, 1, 100])
            data[start : start + length] = dice.randbytes(length)
        cut = dice.choice([len(data)] * 3 + [dice.randrange(len(data))])
        (folder / NAME).write_bytes(data[:cut])
        for suffix in ("-wal", "-shm"):
            (folder / f"{NAME}{suffix}").unlink(missing_ok=True)
        with DiskMetadataCache(folder) as cache:
            report = prune_paths(chosen, cache)
            assert report.files == expected
            believed += report.requests > len(chosen)
    assert believed > 20  # not all damage is to what is read


# ------------------------------------------------------------------------------------------------------------
# Folders that cannot be used
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["folder", "file", "link"])
def test_caches_writable_by_others_are_not_used(
    lake: Path, folder: Path, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, folder)
    if mode == "folder":
        folder.chmod(0o777)
    elif mode == "file":
        (folder / NAME).chmod(0o622)
    else:
        (folder / NAME).rename(tmp_path / "elsewhere")
        (folder / NAME).symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        report = fill(lake, folder)
    assert report.requests == FILES
    assert len(warnings_of(caplog)) == 2  # one of each cache
    assert "other users may have written" in warnings_of(caplog)[0]


@pytest.mark.ci
def test_an_exclusive_holder_is_not_awaited_for_ever(
    lake: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(lake, folder)
    other = sqlite3.connect(folder / NAME, isolation_level=None)
    other.execute("PRAGMA locking_mode = exclusive")
    other.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    assert fill(lake, folder).requests == FILES
    assert time.monotonic() - start < 60
    other.close()
    assert len(warnings_of(caplog)) == 1
    assert "locked" in warnings_of(caplog)[0]


def test_a_path_where_no_folder_can_be_created(lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    for location in (tmp_path / "file", tmp_path / "file" / "cache"):
        cache = DiskMetadataCache(location)
        assert prune_paths(lake, cache).files == prune_paths(lake, None).files
        assert prune_paths(lake, cache).requests == FILES * GROUPS  # memory still serves
    assert len(warnings_of(caplog)) == 2


SCRIPT = """
import logging, os, resource, sys
import parquet_bloom
from parquet_bloom.file import metadata_cache
metadata_cache.SETTLED_NS = -(10**12)
logging.basicConfig(format="%(message)s")
lake, folder, limit, user = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
parquet_bloom.DiskMetadataCache
parquet_bloom.prune(lake, "n = -1", cache=None)  # all is imported, whoever may read it
if int(user):
    os.setuid(int(user))
for _ in range(2):
    with parquet_bloom.DiskMetadataCache(folder) as cache:
        print(parquet_bloom.prune(lake, "n = -1", cache=cache).requests)
"""


def run_apart(lake: Path, folder: Path, limit: int = 0, user: int = 0) -> tuple[list[int], list[str]]:
    command = [sys.executable, "-c", SCRIPT, str(lake), str(folder), str(limit), str(user)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    return [int(line) for line in done.stdout.split()], done.stderr.splitlines()


@pytest.mark.ci
@pytest.mark.parametrize("limit", [1, 30_000])
def test_a_full_disk(lake: Path, folder: Path, limit: int) -> None:
    """Of a size that no file may pass, the system says the same as of a disk that is full."""
    requests, output = run_apart(lake, folder, limit=limit)
    assert requests == [FILES, FILES]
    assert len(output) == 2
    assert run_apart(lake, folder) == ([FILES, 0], [])


@pytest.mark.ci
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_can_only_be_read(lake: Path, tmp_path: Path) -> None:
    nobody = 65534
    open_lake = Path("/tmp") / f"parquet_bloom-{os.getpid()}"  # nobody gets into pytest's folders
    try:
        shutil.copytree(lake, open_lake / "lake")
        folder = open_lake / "cache"
        folder.mkdir(mode=0o700)
        for path in (open_lake, open_lake / "lake", *(open_lake / "lake").iterdir()):
            path.chmod(0o755)
        fill(open_lake / "lake", folder)
        folder.chmod(0o755)
        (folder / NAME).chmod(0o644)
        requests, output = run_apart(open_lake / "lake", folder, user=nobody)
        assert requests == [0, 0]
        assert len(output) == 2
        assert "used read-only" in output[0]
        (folder / NAME).chmod(0o600)
        requests, output = run_apart(open_lake / "lake", folder, user=nobody)
        assert requests == [FILES, FILES]
        assert len(output) == 2
    finally:
        shutil.rmtree(open_lake, ignore_errors=True)


# ------------------------------------------------------------------------------------------------------------
# Bounds, and others beside
# ------------------------------------------------------------------------------------------------------------


def test_least_recently_used_entries_are_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 1000
    monkeypatch.setattr(sqlite_store, "_hour", lambda: hour)
    store = RecordStore(str(folder), "x", 1_000_000)
    for number in range(80):
        store.put([(number, bytes([number]) * 10_000)])
    hour += 1
    assert all(store.get(number) for number in range(10))
    store.put([])
    hour += 1
    for number in range(80, 120):
        store.put([(number, bytes(10_000))])
    remaining = [number for number in range(120) if store.get(number) is not None]
    assert set(range(10)) < {*remaining}
    assert 70 <= len(remaining) < 100
    assert not {*range(10, 25)} & {*remaining}
    store.clear()
    assert not any(store.get(number) for number in range(120))
    store.close()
    assert (folder / "x").stat().st_size < 1_300_000


def test_the_other_side_of_a_fork_has_a_connection_of_its_own(lake: Path, folder: Path) -> None:
    fill(lake, folder)
    cache = DiskMetadataCache(folder)
    assert prune_paths(lake / "00.parquet", cache, "n = -1").requests == 0
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        queue.put(prune_paths(lake, cache, "n = -1").requests)

    process = context.Process(target=child)
    process.start()
    process.join()
    assert (process.exitcode, queue.get()) == (0, 0)
    assert prune_paths(lake, cache, "n = -1").requests == 0
    cache.close()


@pytest.mark.ci
@pytest.mark.crash
def test_many_processes_some_of_which_are_killed(lake: Path, folder: Path) -> None:
    script = """
import sys
import parquet_bloom
from parquet_bloom.file import metadata_cache
metadata_cache.SETTLED_NS = -(10**12)
lake, folder = sys.argv[1:]
expected = parquet_bloom.prune(lake, "n = -1", cache=None).files
print("ready", flush=True)
while True:
    with parquet_bloom.DiskMetadataCache(folder, disk_bytes=60_000) as cache:  # too few: writers evict all the time
        assert parquet_bloom.prune(lake, "n = -1", cache=cache).files == expected
"""
    command = [sys.executable, "-c", script, str(lake), str(folder)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    dice = random.Random(1)
    crowd = [subprocess.Popen(command, cwd=Path(__file__).parents[3], **pipes) for _ in range(5)]
    try:
        assert [process.stdout and process.stdout.readline() for process in crowd] == ["ready\n"] * 5
        for member in crowd:
            time.sleep(dice.uniform(0.05, 0.4))
            assert member.poll() is None
            member.send_signal(signal.SIGKILL)
            with DiskMetadataCache(folder) as cache:
                assert prune_paths(lake, cache).files == prune_paths(lake, None).files
            assert "broken" not in member.communicate()[1]
    finally:
        for process in crowd:
            process.kill()
            process.communicate()
    connection = sqlite3.connect(folder / NAME)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_remote_files_that_are_cached() -> None:
    def is_settled(filesystem: str, minutes: float | None, etag: bytes | None = None) -> bool:
        modified_ns = None if minutes is None else time.time_ns() - int(minutes * 60 * 10**9)
        return metadata_cache.distinct(RemoteIdentity(filesystem, "hdfs://a/b", 10, modified_ns, etag))

    assert is_settled(DATED, 11)
    for minutes in (9, 0, -30, None, time.time() / 60 + 1):  # of just now, by a wrong clock, and of none
        assert not is_settled(DATED, minutes)
    assert not is_settled("py::fsspec+memory", 11)
    assert is_settled("s3", None, b'"etag"')
    assert not is_settled("s3", None, b'W/"etag"')
