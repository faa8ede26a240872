"""Where a file system shares blocks, the data of a new file takes no room of its own, and its bytes are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom import storage
from parquet_bloom.storage.local import copy_front

BYTES = 16 << 20
SLACK = 2 << 20  # that the file system needs for itself
KINDS = {
    "xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"],
    "btrfs": ["mkfs.btrfs", "-q"],
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of that kind, in a sparse file; only root may mount it."""
    command = KINDS[request.param]
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() or not (mount and umount and shutil.which(command[0])):
        pytest.skip(f"no {request.param} can be made and mounted here")
    root = tmp_path_factory.mktemp(request.param)
    image, at = root / "image", root / "mounted"
    at.mkdir()
    with open(image, "wb") as file:
        file.truncate(512 << 20)
    for step in ([*command, str(image)], [mount, "-o", "loop", str(image), str(at)]):
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{step[0]}: {done.stderr.strip()}")
    yield at
    subprocess.run([umount, str(at)], check=True)
    image.unlink()


def free_bytes(folder: Path) -> int:
    os.sync()
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def test_prefixes_of_any_length(folder: Path) -> None:
    path = folder / "data"
    data = np.random.default_rng(1).bytes(BYTES)
    path.write_bytes(data)
    before = free_bytes(folder)
    results = []
    for length in (0, 1, 4095, 4096, 4097, BYTES // 2 + 123, BYTES - 1, BYTES):
        results.append(folder / str(length))
        with storage.open_source(path) as source, open(results[-1], "wb") as new:
            copy_front.copy_prefix(source, new.fileno(), length)
        assert results[-1].read_bytes() == data[:length]
    assert before - free_bytes(folder) < SLACK
    with open(results[-1], "r+b") as file:  # what is shared belongs to each of them
        file.write(b"changed")
    assert path.read_bytes() == data


def test_embedding_takes_the_room_of_the_filters(folder: Path) -> None:
    path, output = folder / "a.parquet", folder / "filters.parquet"
    keys = np.random.default_rng(2).integers(0, 1000, BYTES // 8)
    pq.write_table(pa.table({"k": keys, "v": keys[::-1]}), path, use_dictionary=False, compression="none")
    old, before = path.read_bytes(), free_bytes(folder)
    report = parquet_bloom.embed(path, ["k"], output=output)
    assert before - free_bytes(folder) < report.bytes_added + SLACK
    footer = int.from_bytes(old[-8:-4], "little") + 8
    assert output.read_bytes().startswith(old[:-footer])
    assert parquet_bloom.verify(output, data=True).ok
    parquet_bloom.embed(path, ["k"])
    assert before - free_bytes(folder) < 2 * report.bytes_added + SLACK
    assert path.read_bytes() == output.read_bytes()
