"""Malicious names of files and columns, for a terminal, a table or a document."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

NAMES = [
    "with spaces and 'quotes' \"both\"",
    "[red]markup :smile: [bold]",
    "ümläut 数据 🎉 e\u0301",
    "esc\x1b[31mred\x1b]0;title\x07",
    "line\nbreak\r\ttab",
    "c1\x9b31m and \u202eright to left\u200b",
    "comma,semicolon;",
    "not utf-8 \udcff\udc80",
    "-dash",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_files_are_neither_lost_nor_obeyed(name, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    path = f"./{name}.parquet"
    parquet_bloom.write_table(pa.table({"id": [1, 2, 3]}), path, ["id"])
    Path(f"{name}.txt").write_text("no Parquet file at all")
    table = run("show", ".", "-v")
    assert table.code == 2
    assert all(c.isprintable() or c == "\n" for c in table.out + table.err)
    assert len(table.out.splitlines()) == 2
    (error,) = table.errors
    assert error.endswith("not a Parquet file, or one cut off: it does not end in PAR1")
    if name.isprintable():
        assert f"{name}.parquet" in table.out
        assert f"{name}.txt: " in error

    for format in ("json", "ndjson"):
        shown = run("show", path, "--format", format)
        assert all(c.isprintable() or c == "\n" for c in shown.out)
        document = json.loads(shown.out)
        assert (document["filters"][0] if format == "json" else document)["file"] == path
    (row,) = csv.DictReader(io.StringIO(run("show", path, "--format", "csv").out, newline=""))
    assert row["file"] == path
    listed = run("verify", "-", "--format", "ndjson", stdin=os.fsencode(path) + b"\0")
    assert os.path.samefile(json.loads(listed.out)["file"], path)


def test_names_of_columns_are_neither_lost_nor_obeyed(tmp_path, run):
    names = [name for name in NAMES if name.isprintable() or "\x1b" in name or "\n" in name]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: [1, 2, 3] for name in names}), path)
    result = run("embed", path, "--in-place", "-v", *(f"--column={name}" for name in names))
    assert result.code == 0
    table = run("show", path)
    assert len(table.out.splitlines()) == len(names) + 1
    assert all(c.isprintable() or c == "\n" for c in table.out)
    assert [row["column"] for row in json.loads(run("show", path, "--json").out)["filters"]] == names
    for name in names:
        shown = run("show", path, "--format", "ndjson", f"--column={name}")
        assert json.loads(shown.out)["column"] == name
        missing = run("verify", path, "--column", f"{name}?")
        assert all(c.isprintable() or c == "\n" for c in missing.err)
