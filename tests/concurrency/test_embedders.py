"""Concurrent writers that embed into one file: a writer whose call succeeds finds its filters there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.processes import churn

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError
from parquet_bloom.storage.local import local_rewrite, system_calls
from parquet_bloom.storage.local.local_rewrite import leftovers

COLUMNS = ("a", "b", "c")
PROGRAM = """
import sys
import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError
path, column = sys.argv[1:]
parquet_bloom.embed(path, [column], dry_run=True)
for line in sys.stdin:
    try:
        if line == "drop\\n":
            parquet_bloom.drop(path, [column])
        else:
            parquet_bloom.embed(path, [column], threads=1)
        print("done", flush=True)
    except ConcurrentChangeError as error:
        print(error, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = np.random.default_rng(2).integers(0, 1 << 60, (3, 2_000))
    table = pa.table(dict(zip(COLUMNS, values, strict=True)))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500, use_dictionary=False)
    return tmp_path / "a.parquet"


def filtered(path: Path) -> set[str]:
    """The columns that have filters, of which each row group has a good one."""
    report = parquet_bloom.verify(path, data=True)
    assert report.ok
    columns = {chunk.column for chunk in report.chunks}
    assert len(report.chunks) == 4 * len(columns)
    return columns


def assert_conflict(path: Path, message: str) -> None:
    assert message.startswith(f"{path}: ")
    assert "meanwhile" in message
    assert "\n" not in message


def test_processes(path: Path) -> None:
    plain, table = path.read_bytes(), pq.read_table(path)
    environment = {**os.environ, "PYTHONPATH": str(churn.PROJECT)}
    children = {
        column: subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), column],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        for column in COLUMNS
    }  # fmt: skip
    lost = 0
    for _ in range(8):
        path.write_bytes(plain)
        for child in children.values():
            child.stdin.write("embed\n")
            child.stdin.flush()
        output = {column: child.stdout.readline().strip() for column, child in children.items()}
        done = {column for column, line in output.items() if line == "done"}
        for column in COLUMNS:
            if column not in done:
                assert_conflict(path, output[column])
        assert done
        assert filtered(path) == done
        assert pq.read_table(path).equals(table)
        lost += len(COLUMNS) - len(done)
    for child in children.values():
        child.communicate(timeout=60)
        assert child.returncode == 0
    assert lost, "no two were ever at work at the same time"
    assert [file.name for file in path.parent.iterdir()] == ["a.parquet"]


def test_one_embeds_while_another_drops(path: Path) -> None:
    """Filters of `a` come and go; those of `b` are there whenever that was said."""
    stopped = threading.Event()

    def drop_and_embed() -> None:
        while not stopped.is_set():
            try:
                parquet_bloom.embed(path, ["a"], threads=1)
                parquet_bloom.drop(path, ["a"])
            except ConcurrentChangeError:
                continue

    other = threading.Thread(target=drop_and_embed)
    other.start()
    num_reported = 0
    try:
        for _ in range(40):
            try:
                parquet_bloom.embed(path, ["b"], threads=1)
                assert "b" in filtered(path)
                parquet_bloom.drop(path, ["b"])
                assert "b" not in filtered(path)
            except ConcurrentChangeError as error:
                num_reported += 1
                assert_conflict(path, str(error))
    finally:
        stopped.set()
        other.join()
    assert filtered(path) <= {"a", "b"}
    assert leftovers(path.parent) == []


def test_a_reader_right_after_the_exchange_meets_no_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is whole from the moment at which it has its name, though its writer has still to clear up."""
    flush, came = local_rewrite.flush, []

    def come(folder: str) -> None:
        if not came:
            came.append(True)
            parquet_bloom.embed(path, ["b"], threads=1)
        flush(folder)

    monkeypatch.setattr(local_rewrite, "flush", come)
    parquet_bloom.embed(path, ["a"], threads=1)
    assert filtered(path) == {"a", "b"}
    assert leftovers(path.parent) == []


def test_two_that_exchange_one_file_do_not_cross(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that starts while another one exchanges the same file is refused before it has touched the file."""
    exchange, output = system_calls.exchange, []

    def come(*names: str) -> None:
        if not output:
            output.append("")
            with pytest.raises(ConcurrentChangeError) as caught:
                parquet_bloom.embed(path, ["b"], threads=1)
            output.append(str(caught.value))
        exchange(*names)

    monkeypatch.setattr(system_calls, "exchange", come)
    parquet_bloom.embed(path, ["a"], threads=1)
    assert_conflict(path, output[1])
    assert filtered(path) == {"a"}
    assert leftovers(path.parent) == []


def test_threads(path: Path) -> None:
    plain = path.read_bytes()
    start = threading.Barrier(len(COLUMNS))
    for _ in range(15):
        path.write_bytes(plain)
        done, errors = set(), []

        def embed(column: str, done: set[str] = done, errors: list[ConcurrentChangeError] = errors) -> None:
            start.wait()
            try:
                parquet_bloom.embed(path, [column], threads=1)
                done.add(column)
            except ConcurrentChangeError as reported:
                errors.append(reported)

        threads = [threading.Thread(target=embed, args=(column,)) for column in COLUMNS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in errors:
            assert_conflict(path, str(error))
        assert len(done) + len(errors) == len(COLUMNS)
        assert filtered(path) == done
