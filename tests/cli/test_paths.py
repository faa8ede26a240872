"""PATH arguments, and invalid files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def files_of(result: Any) -> list[str]:
    return list(dict.fromkeys(json.loads(line)["file"] for line in result.out.splitlines()))


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


def test_a_file_found_twice_is_shown_once(lake, run):
    once = run("show", "lake", "--format", "ndjson")
    again = run("show", "lake", "lake/by=spark", "./lake/by=duckdb/part-0.parquet", "lake/*/*", "--format", "ndjson")
    assert again == once


def test_a_list_holds_names_not_patterns(lake, run):
    os.rename("lake/by=spark/part-0.parquet", "lake/part[0].parquet")
    os.rename("lake/by=duckdb/part-0.parquet", "lake/part0.parquet")
    assert files_of(run("show", "-", "--format", "ndjson", stdin="lake/part[0].parquet")) == ["lake/part[0].parquet"]
    os.remove("lake/part[0].parquet")
    result = run("show", "-", stdin="lake/part[0].parquet")
    assert (result.code, result.out) == (2, "")
    assert result.errors == ["error: lake/part[0].parquet: there is no such file or folder"]


@pytest.fixture
def mixed(lake: Path) -> Path:
    """Make a folder with valid and invalid files."""
    Path("lake/a.txt").write_text("not a Parquet file, but longer than twelve bytes")
    Path("lake/empty.parquet").touch()
    data = Path("lake/by=spark/part-0.parquet").read_bytes()
    Path("lake/cut.parquet").write_bytes(data[:-100])
    Path("lake/footless.parquet").write_bytes(data[:400] + data[-8:])
    return lake


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["verify", "--data"],
        ["embed", "--column", "id", "--in-place", "--replace"],
        ["embed", "--column", "id", "--dry-run", "--replace"],
        ["prune", "--where", "id = 4250"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_broken_files_are_reported_and_the_rest_goes_on(arguments, mixed, run):
    result = run(*arguments, "nowhere", "nothing*", "lake", "--json")
    assert result.code == 2
    assert sorted(line.split(":")[1].strip() for line in result.errors) == [
        "lake/a.txt",
        "lake/cut.parquet",
        "lake/empty.parquet",
        "lake/footless.parquet",
        "nothing*",
        "nowhere",
    ]
    document = json.loads(result.out)
    assert document["totals"]["files"] == 5
    assert sorted(error["file"] for error in document["errors"]) == sorted(
        line.split(":")[1].strip() for line in result.errors
    )
    for line, error in zip(result.errors, document["errors"], strict=True):
        assert error["problem"] in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["advise"],
        ["verify"],
        ["embed", "--column", "id", "--in-place"],
        ["embed", "--column", "id", "-o", "out"],
        ["drop", "--in-place"],
        ["drop", "--dry-run"],
        ["prune", "--where", "id = 1"],
        ["find", "--where", "id = 1"],
    ],
)
def test_an_empty_folder(arguments, tmp_path, monkeypatch, run):
    """It may be a mount that is missing: nothing was done, which is not success."""
    monkeypatch.chdir(tmp_path)
    Path("empty/_hidden").mkdir(parents=True)
    Path("empty/_hidden/a.parquet").touch()
    result = run(*arguments, "empty")
    assert (result.code, result.out) == (2, "")
    assert result.errors == ["error: empty: no files in it"]
    document = json.loads(run(*arguments, "empty", "--json").out)
    assert document["totals"]["files"] == 0
    assert [(error["file"], error["problem"]) for error in document["errors"]] == [("empty", "no files in it")]


def test_an_empty_folder_beside_another_one(tmp_path, run):
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    result = run("embed", "--column", "id", "--in-place", tmp_path / "empty", tmp_path / "a.parquet")
    assert result.code == 2
    assert result.errors == [f"error: {tmp_path}/empty: no files in it"]
    assert result.err.splitlines()[-1].startswith("embedded 1 filter in 1 file")


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
