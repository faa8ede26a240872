"""`parquet-bloom find`: all rows, in every format, and files that are written atomically."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.file.metadata_cache import SHARED_CACHE

MOMENT = dt.datetime(2026, 1, 31, 12, 30, 15, 250_000, dt.UTC)
MANY = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "text": ["plain", "", None],
        "odd": ['a "quoted", cell', "two\nlines", "日本\x1b[31m"],
        "number": pa.array([math.nan, -math.inf, 0.5]),
        "short": pa.array([0.1, math.inf, None], pa.float32()),
        "price": pa.array(
            [decimal.Decimal("0.10"), decimal.Decimal("-12345678901234567890.12"), None], pa.decimal128(38, 2)
        ),
        "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "Europe/Berlin")),
        "naive": pa.array([0, 1, None], pa.timestamp("ns")),
        "day": pa.array([0, 2_932_897, None], pa.date32()),
        "time": pa.array([1, None, 2], pa.time64("us")),
        "flag": [True, False, None],
        "user": [{"id": 7, "tags": ["x", None]}, {"id": None, "tags": []}, None],
        "map": pa.array([[("k", 1), ("k", 2)], [], None], pa.map_(pa.string(), pa.int64())),
    }
)
TWO = MANY.drop_columns("number").take([0, 2])  # no NaN, which equals nothing


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working directory with a file that has a column of each kind."""
    monkeypatch.chdir(tmp_path)
    Path("many").mkdir()
    pq.write_table(MANY, "many/a.parquet")
    return tmp_path


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_json_is_json_and_loses_nothing(many, run):
    document = json.loads(run("find", "many", "--where", "id <= 2", "--json").out, parse_constant=refuse)
    assert document["rows"] == [
        {
            "id": 1,
            "text": "plain",
            "odd": 'a "quoted", cell',
            "number": "NaN",
            "short": 0.1,
            "price": "0.10",
            "raw": "00ff",
            "at": "2026-01-31T12:30:15.250000Z",
            "naive": "1970-01-01T00:00:00.000000000",
            "day": "1970-01-01",
            "time": "00:00:00.000001",
            "flag": True,
            "user": {"id": 7, "tags": ["x", None]},
            "map": [{"key": "k", "value": 1}, {"key": "k", "value": 2}],
        },
        {
            "id": 2,
            "text": "",
            "odd": "two\nlines",
            "number": "-Infinity",
            "short": "Infinity",
            "price": "-12345678901234567890.12",
            "raw": "",
            "at": None,
            "naive": "1970-01-01T00:00:00.000000001",
            "day": "10000-01-01",
            "time": None,
            "flag": False,
            "user": {"id": None, "tags": []},
            "map": [],
        },
    ]
    lines = run("find", "many", "--where", "id = 3", "--format", "ndjson").out.splitlines()
    (row,) = [json.loads(line, parse_constant=refuse) for line in lines]
    assert row["odd"] == "日本\x1b[31m"
    assert "\x1b" not in lines[0]
    assert [row[name] for name in ("text", "short", "price", "raw", "naive", "day", "flag", "user", "map")] == [
        None
    ] * 9


def test_csv_tells_nulls_from_empty_texts(many, run):
    result = run("find", "many", "--where", "id >= 1", "--format", "csv", "--columns", "id,text,odd,user")
    assert result.out == (
        'id,text,odd,user\n1,plain,"a ""quoted"", cell","{""id"": 7, ""tags"": [""x"", null]}"\n'
        '2,"","two\nlines","{""id"": null, ""tags"": []}"\n3,,日本\x1b[31m,\n'
    )
    assert len(list(csv.reader(io.StringIO(result.out)))) == 4
    assert run("find", "many", "--where", "id = 3", "--format", "csv", "--columns", "text").out == 'text\n""\n'


def test_tables_print_no_control_characters(many, run):
    printed = run("find", "many", "--where", "id = 3").out
    assert "\x1b" not in printed
    assert "日本\\x1b[31m" in printed
    assert "NULL" in printed


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "json", "ndjson", "jsonl"])
def test_files_hold_the_rows(suffix, many, run):
    target = Path(f"found.{suffix}")
    target.write_text("what stood there")
    result = run("find", "many", "--where", "id <> 2", "-o", target)
    assert (result.code, result.out) == (0, "")
    assert f"2 rows in found.{suffix}; read 1 of 1 file" in result.err
    if suffix == "parquet":
        assert pq.read_table(target).drop_columns("number").equals(TWO)
    elif suffix == "arrow":
        assert pa.ipc.open_file(target).read_all().drop_columns("number").equals(TWO)
    else:
        stdout = run("find", "many", "--where", "id <> 2", "--format", "ndjson" if suffix == "jsonl" else suffix).out
        assert target.read_text("utf-8") == stdout
    assert sorted(os.listdir()) == [target.name, "many"]


def test_columns_are_in_the_requested_order(many, run):
    out = run("find", "many", "--where", "id = 1", "--columns", "text,user.id,id", "--format", "ndjson").out
    assert out == '{"text": "plain", "user": {"id": 7}, "id": 1}\n'


def test_columns_that_are_spelled_otherwise_or_missing_are_one(drifting, run):
    pq.write_table(pa.table({"ID": [1], "OLD": ["z"]}), "lake/day=3/d.parquet")
    options = ["--where", "Id = 1", "--columns", "New,day,Old", "--case-insensitive", "--format", "csv"]
    out = run("find", "lake", *options).out.splitlines()
    assert out[:3] == ["new,day,old,OLD", ",1,a,", "1.5,2,,"]
    assert out[3:] == [",3,,z"]


@pytest.fixture
def drifting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make three files with different columns, in partition folders."""
    monkeypatch.chdir(tmp_path)
    tables = {
        "day=1/a": pa.table({"id": pa.array([1, 2], pa.int32()), "old": ["a", "b"]}),
        "day=2/b": pa.table({"id": pa.array([1, 1 << 40], pa.int64()), "new": [1.5, 2.5]}),
        "day=3/c": pa.table({"other": ["x"], "rare": [True]}),
    }
    for name, table in tables.items():
        path = tmp_path / "lake" / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table, path)
    return tmp_path


def test_files_that_disagree_share_one_schema(drifting, run):
    def run_find(*options):
        return run("find", "lake", *options, "--format", "ndjson").rows

    assert run_find("--where", "id = 1") == [
        {"id": 1, "old": "a", "new": None, "other": None, "rare": None, "day": 1},
        {"id": 1, "old": None, "new": 1.5, "other": None, "rare": None, "day": 2},
    ]
    assert run_find("--where", "id = 1", "--columns", "new,day") == [{"new": None, "day": 1}, {"new": 1.5, "day": 2}]
    # A column that only files have of which no row is read, and one that some of those read lack.
    assert run_find("--where", "id = 1", "--columns", "rare") == [{"rare": None}, {"rare": None}]
    assert run_find("--where", "day = 3", "--columns", "id,day") == [{"id": None, "day": 3}]
    table = parquet_bloom.read_table("lake", "id = 1", ["rare", "new"])
    assert table.schema.field("rare").type == pa.bool_()
    assert table.to_pydict() == {"rare": [None, None], "new": [None, 1.5]}


def test_a_column_that_no_file_has_is_one_line(drifting, refused):
    case = "; '{0}' differs in case only: spell it so, or ignore case (--case-insensitive, or "
    for options, hint in (
        (["--columns", "nope"], ""),
        (["--where", "nope = 1"], ""),
        (["--columns", "id,id.x"], "; did you mean 'id'?"),
        (["--columns", "others"], "; did you mean 'other'?"),
        (["--where", "od = 1"], "; did you mean 'old'"),
        (["--where", "days = 1"], "; did you mean 'day'?"),
        (["--where", "Id = 1"], case.format("id")),
        (["--columns", "RARE"], case.format("rare")),
    ):
        where = [] if "--where" in options else ["--where", "id = 1"]
        before, problem, after = refused("find", "lake", *where, *options).partition("no such column in any of 3 files")
        assert before.startswith("column '")
        assert problem
        assert after.startswith(hint) if hint else not after


def test_names_whatever_their_case(drifting, run):
    assert run("find", "lake", "--where", "ID = 1").code == 2
    out = run(
        "find", "lake", "--where", "ID = 1 AND DAY = 2", "--columns", "NEW,Day", "--case-insensitive", "--format", "csv"
    ).out
    assert out == "new,day\n1.5,2\n"
    pq.write_table(pa.table({"id": [1], "Id": [2]}), "lake/day=1/two.parquet")
    result = run("find", "lake", "--where", "ID = 1", "--case-insensitive", "--format", "csv", "--columns", "day")
    assert result.code == 2
    assert "day=1/two.parquet: column 'ID': several columns match the name: id, Id" in result.err
    assert result.out == "day\n1\n2\n"


def test_the_rest_is_found_beside_broken_files(drifting, run):
    Path("lake/day=1/0.parquet").write_bytes(b"not Parquet at all")
    data = Path("lake/day=2/b.parquet").read_bytes()
    Path("lake/day=2/bad.parquet").write_bytes(data[:4] + bytes(60) + data[64:])  # pages that cannot be decoded
    result = run("find", "lake", "--where", "id = 1", "--json", "-o", "found.ndjson")
    assert result.code == 2
    assert [line.split(": ")[1] for line in result.errors] == ["lake/day=1/0.parquet", "lake/day=2/bad.parquet"]
    assert len(Path("found.ndjson").read_text().splitlines()) == 2
    document = run("find", "lake", "--where", "id = 1", "--json").document
    assert len(document["rows"]) == document["totals"]["rows"] == 2
    assert [error["file"] for error in document["errors"]] == ["lake/day=1/0.parquet", "lake/day=2/bad.parquet"]


def test_a_limit_stops_reading(drifting, run):
    Path("lake/day=2/b.parquet").unlink()
    pq.write_table(pa.table({"id": [1] * 10_000}), "lake/day=2/0.parquet")
    data = Path("lake/day=2/0.parquet").read_bytes()
    Path("lake/day=2/b.parquet").write_bytes(data[:4] + bytes(60) + data[64:])
    result = run("find", "lake", "--where", "id = 1", "--limit", "9000", "--format", "csv", "--columns", "day")
    assert (result.code, result.out.count("\n")) == (0, 9001)
    assert run("find", "lake", "--where", "id = 1", "--limit", "10002", "--format", "csv").code == 2
    assert run("find", "lake", "--where", "id = 1", "--limit", "0").code == 2


def test_exit_codes(drifting, run):
    assert run("find", "lake", "--where", "id = 99").code == 1
    assert run("find", "lake", "nowhere", "--where", "id = 1").code == 2
    assert run("find", "lake", "--where", "id = 99", "-o", "none.parquet").code == 1
    assert pq.read_table("none.parquet").num_rows == 0


INTERRUPTED = """
import os, signal, sys
from parquet_bloom import cli
from parquet_bloom.cli.commands import find_command
taken = find_command._limit
def stop(batches, limit):  # between the first rows and the others
    for number, batch in enumerate(taken(batches, limit)):
        yield batch
        os.kill(os.getpid(), signal.SIGINT)
find_command._limit = stop
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.ci
def test_interrupted_nothing_is_left(drifting):
    for suffix in ("parquet", "csv"):
        command = [sys.executable, "-c", INTERRUPTED, "find", "lake", "--where=id = 1", "-o", f"found.{suffix}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stdout, result.stderr) == (128 + signal.SIGINT, "", "interrupted\n")
        assert sorted(os.listdir()) == ["lake"]


@pytest.mark.ci
def test_rows_stream_in_bounded_memory(tmp_path):
    """Rows of 360 MB need only a fraction of that memory."""
    path = tmp_path / "wide.parquet"
    texts = pa.DictionaryArray.from_arrays(
        pa.array([i % 50 for i in range(1000)], pa.int32()), [f"{i:03}" * 2000 for i in range(50)]
    )
    with pq.ParquetWriter(path, pa.schema({"id": pa.int64(), "text": pa.string()})) as writer:
        for _ in range(60):
            writer.write_table(pa.table({"id": pa.array([1] * 1000, pa.int64()), "text": texts.cast(pa.string())}))
    code = (
        "import re, sys; from parquet_bloom.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "peak = re.search(r'VmHWM:\\s*([0-9]+) kB', open('/proc/self/status').read())[1]\n"  # rusage has the parent's
        "print(peak, file=sys.stderr); sys.exit(code)"
    )
    with open(os.devnull, "wb") as nowhere:
        command = [sys.executable, "-c", code, "find", str(path), "--where=id = 1", "--format=ndjson"]
        result = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, text=True, timeout=120)
    output, peak = result.stderr.splitlines()
    assert output.startswith("60,000 rows; ")
    assert int(peak) < 360_000  # kilobytes, of which some 150,000 are code


@pytest.mark.ci
def test_a_literal_of_the_wrong_type_is_found_before_anything_is_read(tmp_path, run):
    for number in range(3):
        pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / f"{number}.parquet")
    time.sleep(2.1)  # footers of files of just now are not cached
    for where in ("name = 5", "name > 5", "name IN (4, 5) AND id = 1", "NOT (id = 1 OR name = 5)"):
        SHARED_CACHE.clear()
        process = run("find", tmp_path, "--where", where)
        assert (process.code, process.out) == (2, "")
        (error,) = process.errors
        assert error.startswith(f"error: {tmp_path}/0.parquet: column 'name': ")
        problem = "cannot be compared exactly with BYTE_ARRAY STRING; give a string (the same in 2 more files)"
        assert error.endswith(problem)
        (summary,) = [line for line in process.err.splitlines() if line != error]
        assert re.fullmatch(
            r"0 rows; planned to read 3 of 3 files, 3 of 3 row groups; \d requests, [\d.]+ K?B", summary
        )
        document = run("find", tmp_path, "--where", where, "--json").document
        assert document["totals"]["data_requests"] == 0
        assert [error["kind"] for error in document["errors"]] == ["PredicateError"] * 3


def test_files_that_differ_are_read_as_far_as_they_go(tmp_path, run):
    """A literal that some file has the type of is no mistake: rows of that file are found, and the other is named."""
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [1, 2], "name": [5, 6]}), tmp_path / "b.parquet")
    process = run("find", tmp_path / "b.parquet", tmp_path / "a.parquet", "--where", "name = 5", "--columns", "id")
    assert process.code == 2
    assert process.out.split() == ["id", "1"]
    (error,) = process.errors
    assert error.startswith(f"error: {tmp_path}/a.parquet: column 'name': 5 cannot be compared")
    # A row group of which another condition leaves nothing needs no answer of this one.
    assert run("find", tmp_path, "--where", "name = 5 AND id = 1").code == 2
    assert run("find", tmp_path, "--where", "name = 5 AND id = 9").code == 1


def test_a_limit_says_that_not_all_was_read(tmp_path, run):
    for number in range(40):
        pq.write_table(pa.table({"id": [number] * 3}), tmp_path / f"{number:02}.parquet")
    process = run("find", tmp_path, "--where", "id >= 0", "--limit", "4", "--format", "ndjson")
    assert [row["id"] for row in process.rows] == [0, 0, 0, 1]
    head = "4 rows, where --limit stops; planned to read 40 of 40 files, 40 of 40 row groups; "
    assert process.err.startswith(head)
    assert re.search(r"40 requests, .* to plan; \d+ requests?, .* of data\n$", process.err)
    assert run("find", tmp_path, "--where", "id = 1", "--limit", "4").err.startswith("3 rows; read 1 of 40 files")
