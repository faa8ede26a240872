"""Closed pipes, full disks, signals; files that several jobs write at a time."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.util.progress import Bar

TOOL = f"{shlex.quote(sys.executable)} -m parquet_bloom"


@pytest.mark.ci
def test_a_reader_that_leaves_is_not_an_error(lake):
    """The commands run in one shell, as starting Python takes most of the time."""
    command = [sys.executable, "-m", "parquet_bloom", "show", "-", "--format", "ndjson"]
    for i in range(3000):
        os.link("lake/by=spark/part-0.parquet", f"lake/{i}.parquet")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"lake\n")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["row_group"] == 0
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141
    for i in range(3000):
        os.unlink(f"lake/{i}.parquet")
    script = "set -o pipefail\n"
    for name, more in (("advise", ""), ("drop", "--dry-run")):
        script += f"({TOOL} {name} lake {more} --json | true; echo {name} $?) &\n"
    done = subprocess.run(["bash", "-c", script + "wait"], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == ["advise 141", "drop 141"]


@pytest.mark.ci
def test_a_full_disk_is_one_line(lake, spawn):
    for arguments in (["show", "lake"], ["show", "lake", "--json"], ["show", "--help"]):
        with open("/dev/full", "wb") as full:
            result = spawn(*arguments, stdout=full)
        assert (result.code, result.err) == (2, "error: cannot write to standard output: No space left on device\n")


@pytest.mark.ci
def test_closed_streams(lake):
    for rest, code in (
        ("verify lake >&-", 0),
        ("verify lake 2>&-", 0),
        ("verify nowhere >&- 2>&- <&-", 2),
        ("verify - <&-", 0),
    ):
        result = subprocess.run(f"{TOOL} {rest}", shell=True, capture_output=True, timeout=60)
        assert result.returncode == code, rest
        assert b"Traceback" not in result.stderr
        assert b"Exception" not in result.stderr


@pytest.mark.ci
def test_the_locale_does_not_matter(tmp_path, spawn, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet_bloom.write_table(pa.table({"größe": [1]}), "a.parquet", ["größe"])
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert spawn("show", "a.parquet", "--json", env=environment).document["filters"][0]["column"] == "größe"
    assert "gr\\xf6\\xdfe" in spawn("show", "a.parquet", env=environment).out


STOPPED = """
import os, signal, sys, time
from parquet_bloom import cli
from parquet_bloom.file import embed_filters
written, begun = embed_filters.write_filter, []
def stop(new, *rest):  # in the middle of files
    written(new, *rest)
    begun.append(rest[-1].path)
    if len(begun) == int(sys.argv[2]):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(float(sys.argv[3]))
embed_filters.write_filter = stop
sys.exit(cli.main(sys.argv[4:]))
"""


@pytest.mark.ci
@pytest.mark.parametrize(("name", "code", "message"), [("SIGINT", 130, "interrupted\n"), ("SIGTERM", 143, "")])
@pytest.mark.parametrize("jobs", [1, 3])
def test_interrupted_files_are_whole(name, code, message, jobs, tmp_path, contents):
    for letter in "abcdef":
        pq.write_table(pa.table({"id": range(2000)}), tmp_path / f"{letter}.parquet", row_group_size=200)
    before = contents(tmp_path)
    # One by one in the middle of the second file; together in the middle of several.
    moment = ["15", "0"] if jobs == 1 else ["8", "0.05"]
    arguments = ["embed", "--in-place", "--column=id", f"--jobs={jobs}", "--format=ndjson", str(tmp_path)]
    command = [sys.executable, "-c", STOPPED, name, *moment, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, message)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    whole = [name for name in after if after[name] != before[name]]
    assert whole == (["a.parquet"] if jobs == 1 else [])
    assert [Path(json.loads(line)["file"]).name for line in done.stdout.splitlines()] == whole
    assert all(parquet_bloom.verify(tmp_path / name, data=True).ok for name in whole)


@pytest.mark.ci
def test_results_and_their_order_are_those_of_one_by_one(tmp_path, monkeypatch, run, contents):
    """A lake of 30 files, of which each tenth is larger and one is broken."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for number in range(30):
        rows = 30_000 if number % 10 == 0 else 100
        pq.write_table(pa.table({"id": range(rows)}), f"in/{number:02}.parquet", row_group_size=10_000)
    Path("in/15.parquet").write_bytes(b"no Parquet")

    def untimed(done):
        if not done.out.startswith("{"):
            return done.out
        rows = next(value for value in done.document.values() if isinstance(value, list))
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]

    for arguments in (
        ("embed", "in", "--column", "id", "-o", "out", "--json"),
        ("embed", "in", "--column", "id", "--dry-run", "--format", "csv"),
        ("verify", "out", "--data", "--json"),
        ("drop", "out", "-o", "plain", "--json"),
    ):
        alone = run(*arguments)
        written = {name: contents(name) for name in ("out", "plain")}
        for jobs in (7, 64):
            together = run(*arguments, "--jobs", jobs)
            assert (together.code, untimed(together), together.err) == (alone.code, untimed(alone), alone.err)
            assert {name: contents(name) for name in ("out", "plain")} == written
    assert contents("plain") == {name: data for name, data in contents("in").items() if name != "15.parquet"}


def test_the_bar_counts_parts_of_files_in_work():
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
    assert len(done.document["files"]) + len(done.errors) == 4
    report = parquet_bloom.verify(tmp_path / "a.parquet", data=True)
    assert (len(report.chunks), report.ok) == (10, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{letter}.parquet" for letter in "abcd"]
