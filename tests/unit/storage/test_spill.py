"""Room on disk for what does not fit in memory: numbers come back as they were, and nothing stays."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parquet_bloom.errors import StorageError
from parquet_bloom.storage.spill import SpillFile, SpillRun

ROOT = Path(__file__).parents[3]

DTYPES = ["u1", "<u2", "<u4", "<u8", "<i8", ">u4", "f8", "bool", [("key", "<u8"), ("unit", "<u4")]]


def random_array(rng: np.random.Generator, dtype: Any, length: int) -> Any:
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return rng.integers(0, 2, length).astype(bool)
    data = np.frombuffer(rng.bytes(length * kind.itemsize), kind)
    return np.nan_to_num(data) if kind.kind == "f" else data


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_come_back(tmp_path: Path, dtype: Any) -> None:
    """Runs of many sizes, put in any order of arrays, against a list of lists."""
    rng = np.random.default_rng(1)
    put: list[tuple[SpillRun, list[Any]]] = []
    with SpillFile(tmp_path) as scratch:
        for lengths in ([3], [0], [1, 0, 2], [5000, 1], [0, 0], [7] * 30):
            arrays = [random_array(rng, dtype, length) for length in lengths]
            put.append((scratch.put(arrays), [value for array in arrays for value in array.tolist()]))
        for run, expected in reversed(put):
            assert (run.count, run.dtype) == (len(expected), np.dtype(dtype))
            assert scratch.get(run).tolist() == expected
            assert scratch.get(run).dtype == np.dtype(dtype)
            for first in {0, 1, run.count // 2, run.count}:
                if first > run.count:
                    continue
                assert scratch.get(run, first).tolist() == expected[first:]
                for count in {0, 1, run.count - first}:
                    if first + count <= run.count:
                        assert scratch.get(run, first, count).tolist() == expected[first : first + count]
        assert scratch.num_bytes == sum(run.count for run, _ in put) * np.dtype(dtype).itemsize
        assert os.listdir(tmp_path) == []


def test_arrays_that_lie_otherwise_in_memory() -> None:
    table = np.arange(24, dtype=np.uint64).reshape(4, 6)
    with SpillFile() as scratch:
        for array in (table[:, 2], table[0, ::-1], table[1:3], table.T, table[:0]):
            assert scratch.get(scratch.put([array])).tolist() == array.ravel().tolist()
        assert scratch.get(scratch.put([])).tolist() == []


def test_many_threads(tmp_path: Path) -> None:
    """Each puts and gets its own and others' runs at the same time."""
    num_threads, rounds = 8, 30
    done: list[tuple[SpillRun, int, int]] = []
    problems: list[str] = []
    barrier = threading.Barrier(num_threads)

    def numbers(seed: int, length: int) -> Any:
        return np.random.default_rng(seed).integers(0, 1 << 63, length, dtype=np.uint64)

    def work(thread: int) -> None:
        barrier.wait(30)
        for turn in range(rounds):
            seed = thread * rounds + turn
            length = 1 + seed * 37 % 5000
            array = numbers(seed, length)
            done.append((scratch.put(np.array_split(array, 1 + turn % 3)), seed, length))
            run, other, size = done[seed * 7919 % len(done)]
            first = seed % size
            if not np.array_equal(scratch.get(run, first), numbers(other, size)[first:]):
                problems.append(f"run {other} read by {thread}")

    with SpillFile(tmp_path) as scratch:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert problems == []
        assert len(done) == num_threads * rounds
        assert scratch.num_bytes == 8 * sum(length for _, _, length in done)
        ends = sorted((run.offset, run.offset + 8 * run.count) for run, _, _ in done)
        assert all(end == start for (_, end), (start, _) in pairwise(ends))
        for run, seed, length in done:
            assert np.array_equal(scratch.get(run), numbers(seed, length))


def test_closing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    scratch = SpillFile(tmp_path)
    scratch.put([np.zeros(1000)])
    scratch.close()
    scratch.close()
    with pytest.raises(KeyError), SpillFile(tmp_path):
        raise KeyError
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path) == []


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    with SpillFile(tmp_path) as scratch:
        run = scratch.put([np.arange(1000)])
        os.ftruncate(scratch._file.fileno(), 4000)
        assert scratch.get(run, 0, 500).tolist() == list(range(500))
        with pytest.raises(StorageError, match="a temporary file there was truncated") as caught:
            scratch.get(run)
        assert caught.value.path == str(tmp_path)


def test_reads_that_are_short_or_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short writes: tests/crash."""
    preadv = os.preadv
    numbers = np.arange(10_000)
    with SpillFile(tmp_path) as scratch:
        run = scratch.put([numbers])
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", lambda file, views, at: preadv(file, [views[0][:1000]], at))
            assert scratch.get(run).tolist() == numbers.tolist()
        os.close(scratch._file.fileno())
        with pytest.raises(StorageError, match="cannot read temporary files there: Bad file descriptor"):
            scratch.get(run)
        os.open(os.devnull, os.O_RDONLY)  # takes the number, so that it can be closed again


@pytest.mark.parametrize("name", ["missing", "file"])
def test_where_no_file_can_be_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=f"{name}: cannot make a temporary file there: No") as caught:
        SpillFile(tmp_path / name)
    assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR)


def free(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def test_a_full_disk(disk: Path) -> None:
    """Said by name; what was put before is still there, and all room is given back."""
    room = free(disk)
    with SpillFile(disk) as scratch:
        first = scratch.put([np.arange(60_000)])
        with pytest.raises(StorageError, match=f"{disk}: cannot write temporary files there: No space left") as caught:
            scratch.put([np.ones(50_000), np.ones(50_000)])
        assert caught.value.errno == errno.ENOSPC
        assert scratch.get(first).tolist() == list(range(60_000))
        assert free(disk) < room
    assert free(disk) == room


HOLDER = """
import sys
sys.path.insert(0, sys.argv[2])
import numpy as np
from parquet_bloom.storage.spill import SpillFile
scratch = SpillFile(sys.argv[1])
scratch.put([np.ones(60_000)])
print("there", flush=True)
sys.stdin.readline()
"""


def test_a_killed_process_leaves_nothing(disk: Path) -> None:
    room = free(disk)
    command = [sys.executable, "-c", HOLDER, str(disk), str(ROOT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        assert os.listdir(disk) == []
        assert free(disk) < room
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    assert free(disk) == room
