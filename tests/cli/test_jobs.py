"""Parallel jobs: the same results in the same order, and no incomplete files after an interrupt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a lake of 30 files, of which each tenth is larger and one is broken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number in range(30):
        rows = 30_000 if number % 10 == 0 else 100
        pq.write_table(pa.table({"id": range(rows)}), f"in/{number:02}.parquet", row_group_size=10_000)
    (tmp_path / "in" / "15.parquet").write_bytes(b"no Parquet")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("jobs", [2, 7, 64])
def test_results_and_their_order_are_those_of_one_by_one(jobs, many, run, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    for arguments in (
        ("embed", "in", "--column", "id", "-o", "out", "--json"),
        ("embed", "in", "--column", "id", "--dry-run", "--format", "csv"),
        ("verify", "out", "--data", "--format", "ndjson"),
        ("drop", "out", "-o", "plain", "--json"),
    ):
        alone = run(*arguments)
        written = {name: contents(many / name) for name in ("out", "plain") if (many / name).exists()}
        together = run(*arguments, "--jobs", jobs)
        assert (together.code, together.out, together.err) == (alone.code, alone.out, alone.err)
        assert {name: contents(many / name) for name in ("out", "plain") if (many / name).exists()} == written
    assert contents(many / "plain") == {k: v for k, v in contents(many / "in").items() if k != "15.parquet"}


STOPPED = """
import os, signal, sys, threading, time
from parquet_bloom import cli
from parquet_bloom.file import embed_filters
written, begun = embed_filters.write_filter, []
def stop(new, *rest):  # when several files are in the middle
    written(new, *rest)
    begun.append(rest[-1].path)
    if len(begun) == 8:
        os.kill(os.getpid(), signal.{signal})
    time.sleep(0.05)
embed_filters.write_filter = stop
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("name", "code", "message"), [("SIGINT", 130, "interrupted\n"), ("SIGTERM", 143, "")])
def test_interrupted_runs_leave_only_complete_files(name, code, message, tmp_path):
    for letter in "abcdef":
        pq.write_table(pa.table({"id": range(2000)}), tmp_path / f"{letter}.parquet", row_group_size=100)
    before = contents(tmp_path)
    command = [sys.executable, "-c", STOPPED.format(signal=name), "embed", "--in-place", "--column=id"]
    done = subprocess.run([*command, "--jobs=3", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, message)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert after == before  # none was done by then


def test_the_bar_counts_parts_of_files_in_work():
    from parquet_bloom.util.progress import Bar

    with Bar("embed", 3, visible=False, color=False) as bar:
        moves = [bar.make_file_updater() for _ in range(3)]
        moves[0](1, 4)
        moves[1](1, 2)
        assert bar._done == pytest.approx(0.75)
        moves[1](2, 2)
        moves[0](1, 1)
        moves[2](1, 1)
        assert bar._done == pytest.approx(3)


def test_a_link_to_a_file_in_work_does_no_harm(tmp_path, run):
    pq.write_table(pa.table({"id": range(50_000)}), tmp_path / "a.parquet", row_group_size=5000)
    for letter in "bcd":
        (tmp_path / f"{letter}.parquet").symlink_to(tmp_path / "a.parquet")
    done = run("embed", tmp_path, "--column", "id", "--in-place", "--jobs", "4", "--json")
    assert done.code in (0, 2)  # the second writer may find it changed meanwhile
    assert all("meanwhile" in error for error in done.errors)
    assert len(json.loads(done.out)["files"]) + len(done.errors) == 4
    report = parquet_bloom.verify(tmp_path / "a.parquet", data=True)
    assert (len(report.chunks), report.ok) == (10, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{letter}.parquet" for letter in "abcd"]
