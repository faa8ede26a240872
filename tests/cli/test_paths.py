"""PATH arguments, folders without files, and files that are not whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom


def files_of(result: Any) -> list[str]:
    return list(dict.fromkeys(row["file"] for row in result.rows))


def test_paths_are_files_folders_patterns_and_lists(lake, run):
    spark, duckdb = "lake/by=spark/part-0.parquet", "lake/by=duckdb/part-0.parquet"
    show = ("show", "--format", "ndjson", "--column", "id")
    assert files_of(run(*show, spark)) == [spark]
    assert files_of(run(*show, "lake/*/part-0.parquet")) == sorted(
        f"lake/by={writer}/part-0.parquet" for writer in ("datafusion", "duckdb", "pyarrow", "spark")
    )
    assert files_of(run(*show, "-", stdin=f"{spark}\n\n{duckdb}\r\n")) == [spark, duckdb]
    assert files_of(run(*show, "-", stdin=f"{spark}\0{duckdb}\0")) == [spark, duckdb]
    assert files_of(run(*show, duckdb, "-", stdin=spark)) == [duckdb, spark]
    # A file that is found twice is shown once.
    once = run("show", "lake", "--format", "ndjson")
    assert run("show", "lake", "lake/by=spark", f"./{duckdb}", "lake/*/*", "--format", "ndjson") == once
    # A list holds names, not patterns.
    os.rename(spark, "lake/part[0].parquet")
    os.rename(duckdb, "lake/part0.parquet")
    assert files_of(run(*show, "-", stdin="lake/part[0].parquet")) == ["lake/part[0].parquet"]
    os.remove("lake/part[0].parquet")
    result = run("show", "-", stdin="lake/part[0].parquet")
    assert (result.code, result.out) == (2, "")
    assert result.errors == ["error: lake/part[0].parquet: there is no such file or folder"]


def test_an_empty_folder(tmp_path, monkeypatch, run):
    """It may be a mount that is missing: nothing was done, which is not success."""
    monkeypatch.chdir(tmp_path)
    Path("empty/_hidden").mkdir(parents=True)
    Path("empty/_hidden/a.parquet").touch()
    pq.write_table(pa.table({"id": [1, 2]}), "a.parquet")
    for arguments in (
        ["show"],
        ["advise"],
        ["verify"],
        ["embed", "--column", "id", "-o", "out"],
        ["embed", "--column", "id", "--in-place"],
        ["drop", "--dry-run"],
        ["drop", "--in-place"],
        ["prune", "--where", "id = 1"],
        ["find", "--where", "id = 1"],
    ):
        result = run(*arguments, "empty")
        assert (result.code, result.out) == (3, ""), arguments
        assert result.errors == ["error: empty: no files in it"]
        document = run(*arguments, "empty", "--json").document
        assert document["totals"]["files"] == 0
        assert [(error["file"], error["problem"]) for error in document["errors"]] == [("empty", "no files in it")]
        result = run(*arguments, "empty", "a.parquet")  # beside another one
        assert (result.code, result.errors) == (3, ["error: empty: no files in it"])
        nothing = run(*arguments, "nothing*")
        assert (nothing.code, nothing.errors) == (3, ["error: nothing*: no file matches the pattern"])
        for other in ("nowhere", "empty/_hidden/a.parquet"):  # what is missing or broken is another error
            assert run(*arguments, "empty", other).code == 2, arguments


def test_other_commands_without_files(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for command in (
        "get empty --key id=1",
        "locate empty --key id=1",
        "erase empty --key id=1 --dry-run",
        "zones build empty --column id -o id.zones",
        "index advise empty --column id",
    ):
        result = run(*command.split())
        assert (result.code, result.out, len(result.errors)) == (3, "", 1), command
        assert run(*command.replace("empty", "nowhere").split()).code == 2, command


def test_an_index_whose_lake_is_empty(tmp_path, run, monkeypatch):
    """As a mount that is missing is: neither is it up to date, nor is there no row."""
    monkeypatch.chdir(tmp_path)
    Path("lake").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), "lake/a.parquet")
    with parquet_bloom.LakeIndex.create("ids.index", ["id"], lake="lake") as index:
        index.append()
    Path("lake/a.parquet").rename("a.parquet")
    for command in ("find", "prune"):
        result = run(command, "--index", "ids.index", "--where", "id = 2")
        assert (result.code, result.errors) == (3, ["error: ids.index: no files in its lake"])
    for paths in ([], ["lake"]):
        result = run("index", "append", "ids.index", *paths)
        assert result.code == 3
        (error,) = result.errors
        assert error.endswith("lake: no files in it")
    assert run("index", "append", "ids.index", "-", stdin="").code == 0  # an empty list is none
    Path("a.parquet").rename("lake/a.parquet")
    assert run("index", "append", "ids.index").code == 0
    assert run("find", "--index", "ids.index", "--where", "id = 2").code == 0


@pytest.mark.parametrize("num_row_groups", [0, 1])
def test_files_without_rows(num_row_groups, tmp_path, run):
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64())])) as writer:
        for _ in range(num_row_groups):
            writer.write_table(pa.table({"id": pa.array([], pa.int64())}))
    assert pq.read_metadata(path).num_row_groups == num_row_groups
    before = path.read_bytes()
    assert run("show", path).code == 0
    assert run("verify", path, "--data").code == 0
    assert run("prune", path, "--where", "id = 1").code == 1
    assert run("embed", path, "--column", "id", "--in-place").code == 0
    assert path.read_bytes() == before
    assert run("embed", path, "--column", "id", "-o", tmp_path / "b.parquet").code == 0
    assert (tmp_path / "b.parquet").read_bytes() == before


# --------------------------------------------------------------------------------------------------- --skip-broken

BROKEN = {"empty.parquet", "half.parquet", "rows.csv"}
SKIPPING = {
    "embed": ["embed", "lake", "--column", "id", "--in-place"],
    "drop": ["drop", "lake", "--in-place"],
    "index append": ["index", "append", "ids.index"],
    "zones build": ["zones", "build", "lake", "--column", "id", "-o", "ids.zones.parquet"],
}


@pytest.fixture
def half_written(lake: Path) -> Path:
    """Make a lake in which three files are not whole Parquet files, and an index of it."""
    folder = lake / "lake" / "by=spark"
    whole = next(folder.glob("*.parquet")).read_bytes()
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "half.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "rows.csv").write_text("id,tag\n1,a\n")
    parquet_bloom.LakeIndex.create("ids.index", ["id"], lake="lake").close()
    return folder


@pytest.mark.parametrize("command", SKIPPING)
def test_broken_files_are_errors_unless_they_are_to_be_skipped(command, half_written, run):
    refused = run(*SKIPPING[command], "--json")
    assert refused.code == 2
    kinds = {Path(one["file"]).name: one["kind"] for one in refused.document["errors"]}
    assert kinds == dict.fromkeys(BROKEN, "NotParquetError")
    done = run(*SKIPPING[command], "--skip-broken", "--json")
    assert (done.code, done.errors, done.document["errors"]) == (0, [], [])
    assert {Path(one["file"]).name for one in done.document["skipped"]} == BROKEN
    lines = done.err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("skipped: ") and "not a Parquet file" in line for line in lines)
    if command in ("embed", "drop"):
        assert run(*SKIPPING[command], "--skip-broken").err.splitlines()[-1].endswith("; 3 files skipped")


def test_other_errors_are_errors_still(half_written, run):
    done = run("embed", "lake", "nowhere", "--column", "id", "--in-place", "--skip-broken")
    assert done.code == 2
    assert [line for line in done.errors if "nowhere" in line] == done.errors
    both = run("embed", "lake", "--column", "id", "--commit", "--skip-broken")
    assert "--commit and --skip-broken exclude each other" in both.err
    for command in ("find", "get", "prune", "verify", "show", "advise"):  # which read rows or judge filters
        assert "--skip-broken" not in run(command, "--help").out


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
    assert (done.code, done.err, done.document["appends"][0]["added"]) == (0, "", 1)
