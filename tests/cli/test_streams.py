"""Closed pipes, full disks, signals, and other streams that end early."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom


def test_a_closed_pipe_is_not_an_error(lake):
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


@pytest.mark.parametrize("arguments", [["show", "lake"], ["show", "lake", "--json"], ["show", "--help"], ["--help"]])
def test_a_full_disk_is_one_line(arguments, lake, spawn):
    with open("/dev/full", "wb") as full:
        result = spawn(*arguments, stdout=full)
    assert (result.code, result.err) == (2, "error: cannot write to standard output: No space left on device\n")


def test_closed_streams(lake):
    command = f"{shlex.quote(sys.executable)} -m parquet_bloom"
    for rest, code in (
        ("verify lake >&-", 0),
        ("verify lake 2>&-", 0),
        ("verify nowhere >&- 2>&- <&-", 2),
        ("verify - <&-", 0),
    ):
        result = subprocess.run(f"{command} {rest}", shell=True, capture_output=True, timeout=60)
        assert result.returncode == code, rest
        assert b"Traceback" not in result.stderr
        assert b"Exception" not in result.stderr


def test_the_locale_does_not_matter(tmp_path, spawn, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet_bloom.write_table(pa.table({"größe": [1]}), "a.parquet", ["größe"])
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert json.loads(spawn("show", "a.parquet", "--json", env=environment).out)["filters"][0]["column"] == "größe"
    assert "gr\\xf6\\xdfe" in spawn("show", "a.parquet", env=environment).out


STOPPED = """
import os, signal, sys
from parquet_bloom import cli
from parquet_bloom.file import embed_filters
written = embed_filters.write_filter
def stop(new, *rest):  # in the middle of the second file
    written(new, *rest)
    if rest[-1].path.endswith("b.parquet"):
        os.kill(os.getpid(), signal.{signal})
embed_filters.write_filter = stop
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("name", "code", "message"), [("SIGINT", 130, "interrupted\n"), ("SIGTERM", 143, "")])
@pytest.mark.parametrize("format", ["table", "ndjson"])
def test_interrupted_files_are_whole(name, code, message, format, tmp_path):
    for letter in "abc":
        pq.write_table(pa.table({"id": range(1000)}), tmp_path / f"{letter}.parquet", row_group_size=100)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    command = [sys.executable, "-c", STOPPED.format(signal=name), "embed", "--in-place", "--column=id"]
    command += [f"--format={format}", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (code, message)
    assert "a.parquet" in result.stdout
    assert "b.parquet" not in result.stdout
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after.keys() == before.keys()
    assert after["a.parquet"] != before["a.parquet"]
    assert parquet_bloom.verify(tmp_path / "a.parquet", data=True).ok
    assert (after["b.parquet"], after["c.parquet"]) == (before["b.parquet"], before["c.parquet"])
