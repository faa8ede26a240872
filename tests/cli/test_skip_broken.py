"""`--skip-broken`: a job over a folder that others write to, in which some files are not whole Parquet files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

BROKEN = {"empty.parquet", "half.parquet", "rows.csv"}
COMMANDS = {
    "embed": ["embed", "lake", "--column", "id", "--in-place"],
    "drop": ["drop", "lake", "--in-place"],
    "index append": ["index", "append", "ids.index"],
    "zones build": ["zones", "build", "lake", "--column", "id", "-o", "ids.zones.parquet"],
}


@pytest.fixture
def half_written(lake: Path, run) -> Path:
    """Make a lake in which three files are not whole Parquet files, and an index of it."""
    folder = lake / "lake" / "by=spark"
    whole = next(folder.glob("*.parquet")).read_bytes()
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "half.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "rows.csv").write_text("id,tag\n1,a\n")
    assert run("index", "create", "ids.index", "--column", "id", "--lake", "lake").code == 0
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_files_are_errors_unless_they_are_to_be_skipped(command, half_written, run):
    refused = run(*COMMANDS[command], "--json")
    assert refused.code == 2
    kinds = {Path(one["file"]).name: one["kind"] for one in json.loads(refused.out)["errors"]}
    assert kinds == dict.fromkeys(BROKEN, "NotParquetError")
    done = run(*COMMANDS[command], "--skip-broken", "--json")
    document = json.loads(done.out)
    assert (done.code, done.errors, document["errors"]) == (0, [], [])
    assert {Path(one["file"]).name for one in document["skipped"]} == BROKEN
    lines = done.err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("skipped: ") and "not a Parquet file" in line for line in lines)


@pytest.mark.parametrize("command", ["embed", "drop"])
def test_the_summary_counts_what_is_skipped(command, half_written, run):
    assert run(*COMMANDS[command], "--skip-broken").err.splitlines()[-1].endswith("; 3 files skipped")


def test_other_errors_are_errors_still(half_written, run):
    done = run("embed", "lake", "nowhere", "--column", "id", "--in-place", "--skip-broken")
    assert done.code == 2
    assert [line for line in done.errors if "nowhere" in line] == done.errors
    assert (
        "--commit and --skip-broken exclude each other"
        in run("embed", "lake", "--column", "id", "--commit", "--skip-broken").err
    )


def test_a_file_that_was_skipped_is_read_by_every_lookup_and_indexed_once_it_is_whole(half_written, run):
    """No row is lost: what the index does not know may hold any value."""
    assert run("index", "append", "ids.index", "--skip-broken").code == 0
    listed = run("index", "lookup", "ids.index", "--column", "id", "999999999", "--format", "csv").out
    assert {Path(line.rpartition(",")[2]).name for line in listed.splitlines()[1:]} == BROKEN
    whole = next(path for path in half_written.glob("*.parquet") if path.name not in BROKEN)
    for name in BROKEN:
        (half_written / name).unlink()
    shutil.copy(whole, half_written / "half.parquet")
    done = run("index", "append", "ids.index", "--skip-broken", "--json")
    assert (done.code, done.err, json.loads(done.out)["appends"][0]["added"]) == (0, "", 1)


@pytest.mark.parametrize("command", ["find", "get", "prune", "verify", "show", "advise"])
def test_what_reads_rows_or_judges_filters_has_no_such_option(command, run):
    assert "--skip-broken" not in run(command, "--help").out
