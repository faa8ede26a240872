"""Spark's own retries, of tasks whose Python or executor was killed: in sessions of their own."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

pytestmark = [pytest.mark.spark, pytest.mark.crash]

FILES, ROWS = 200, 50
FILES_OF_A_TASK = 100  # on two cores


def checksums(data: bytes) -> bytes:
    """Return the contents of Hadoop's `.crc` for a file."""
    pieces = (data[start : start + 512] for start in range(0, len(data), 512))
    return struct.pack(">4si", b"crc\0", 512) + b"".join(struct.pack(">I", zlib.crc32(piece)) for piece in pieces)


@pytest.mark.long
def test_an_executor_that_is_killed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    before = {}
    for number in range(FILES):
        file = lake / f"p={number % 4}" / f"part-{number:05}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        ids = range(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": ids, "name": [f"n{id}" for id in ids]}), file, row_group_size=ROWS // 2)
        before[file] = file.read_bytes()
        if number % 3 == 0:  # as Hadoop left it; of every other one, for what the file was before
            content = before[file] if number % 2 else b"an older file"
            file.with_name(f".{file.name}.crc").write_bytes(checksums(content))
    (lake / "_SUCCESS").touch()
    (lake / "p=0" / ".part-hidden.parquet").write_bytes(b"not for us")
    names = {path for path in lake.rglob("*") if path.is_file()}

    script = Path(__file__).with_name("dying_executors.py")
    command = [sys.executable, str(script), str(lake), str(tmp_path / "scratch")]
    document = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout)
    assert 60 <= document["done"] < FILES
    assert not os.path.exists(f"/proc/{document['killed']}")
    assert [(result["path"], result["error"]) for result in document["files"]] == [
        (str(file), None) for file in sorted(before)
    ]
    # Files that a lost executor had rewritten without reporting them are found done by its successor.
    assert {result["status"] for result in document["files"]} <= {"embedded", "unchanged"}
    assert sum(result["status"] == "embedded" for result in document["files"]) >= FILES - FILES_OF_A_TASK
    assert "0 of 50 files" in document["again"]
    total = FILES * ROWS
    assert document["rows"] == [total, total * (total - 1) // 2, 1]
    for file, old in before.items():
        new = file.read_bytes()
        data = len(old) - 8 - int.from_bytes(old[-8:-4], "little")
        assert new[:data] == old[:data]
        assert parquet_bloom.verify(file, data=True).ok
        with parquet_bloom.open(file) as opened:
            assert len(list(opened.chunks())) == 4
    added = {path for path in lake.rglob("*") if path.is_file()} - names
    assert [path for path in added if path.name[0] not in "._"] == []


@pytest.mark.long
def test_tasks_that_are_killed_and_run_again(tmp_path: Path) -> None:
    script = Path(__file__).with_name("dying_workers.py")
    lake = tmp_path / "lake"
    command = [sys.executable, str(script), str(lake), str(tmp_path / "scratch")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    # Task 0 has every second file. Its second attempt begins with the last, and finds the first two done; of task 1 the
    # fourth attempt does so too, the third began with the first file, which it could not report.
    first = ["unchanged 4", "unchanged 3", "embedded 2", "embedded 1"]
    second = ["unchanged 4", "embedded 3", "embedded 2", "embedded 1"]
    assert lines[:-1] == [each for pair in zip(first, second, strict=True) for each in pair]
    assert lines[-1] == "1 8000"
    for file in lake.glob("*.parquet"):
        assert parquet_bloom.verify(file, data=True).ok
        with parquet_bloom.open(file) as opened:
            assert len(list(opened.chunks())) == 1
