"""`parquet-bloom embed`: columns, outputs, plans."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.cli.commands.embed_command import parse_column_arguments
from parquet_bloom.errors import ParquetBloomError


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: ``in/x/a.parquet``, ``in/y/a.parquet``, ``in/b.parquet``, without filters."""
    monkeypatch.chdir(tmp_path)
    for name in ("x/a", "y/a", "b"):
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(200), "flag": [True] * 200}), path, row_group_size=100)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["id"], {"id": None}),
        (["id=0.001", "user.id"], {"id": 0.001, "user.id": None}),
        (["a=b"], {"a=b": None}),
        (["a=b=1e-3"], {"a=b": 0.001}),
        (["a=.5", "b=5.", "c=+0.5"], {"a": 0.5, "b": 5.0, "c": 0.5}),
        (["a=nan", "b=inf", "c=1_0", "d= 1", "e=", "=0.1", "f=٠.١"], None),
    ],
)
def test_a_number_after_the_last_equals_sign_is_the_fpp(arguments, expected):
    assert parse_column_arguments(tuple(arguments)) == (expected or dict.fromkeys(arguments))


def test_a_column_is_named_once():
    with pytest.raises(ParquetBloomError, match="column 'a': the column is named twice"):
        parse_column_arguments(("a", "a=0.1"))


def test_options_reach_the_filters(plain, run):
    pq.write_table(pa.table({"k=v": range(1000), "n": range(1000)}), "c.parquet")
    assert run("embed", "c.parquet", "--column", "k=v=0.5", "--column", "n", "--fpp", "0.001", "--in-place").code == 0
    with parquet_bloom.open("c.parquet") as file:
        sizes = [parquet_bloom.SplitBlockBloomFilter.from_ndv(1000, fpp).num_bytes for fpp in (0.5, 0.001)]
        assert [chunk.num_bytes for chunk in file.chunks()] == sizes
    run("embed", "c.parquet", "--column", "n", "--exact-size", "--replace", "-o", "d.parquet")
    with parquet_bloom.open("d.parquet") as file:
        size = file.filter(0, "n").num_bytes
    assert size & (size - 1)  # no power of two
    assert size == parquet_bloom.SplitBlockBloomFilter.from_ndv(1000, 0.01, power_of_two=False).num_bytes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--column", "id=1"], "error: column 'id': fpp must be a number between 0 and 1, not 1.0"),
        (["--column", "id", "--fpp", "0"], "error: fpp must be a number between 0 and 1, not 0.0"),
        (["--column", "id", "--column", "id=0.1"], "error: column 'id': the column is named twice"),
        (["--column", ""], "error: in/b.parquet: column ''"),
    ],
)
def test_option_errors_are_raised_first(options, expected, plain, run):
    before = snapshot(plain)
    result = run("embed", "in/b.parquet", "in/x", "--in-place", *options)
    assert result.code == 2
    assert result.errors[0].startswith(expected)
    assert snapshot(plain) == before


@pytest.mark.parametrize(
    ("column", "problem"), [("flag", "BOOLEAN columns get no filter"), ("nope", "no such column; there are: ")]
)
def test_a_column_that_cannot_be_is_an_error_of_each_file_on_one_line(column, problem, plain, run):
    before = snapshot(plain)
    for jobs in "12":
        result = run("embed", "in", "--in-place", "--column", column, "--jobs", jobs)
        assert result.code == 2
        (line,) = result.errors
        assert line.startswith(f"error: in/b.parquet: column '{column}': {problem}")
        assert line.endswith("(the same in 2 more files)")
    document = json.loads(run("embed", "in", "--in-place", "--column", column, "--json").out)
    assert [error["file"] for error in document["errors"]] == ["in/b.parquet", "in/x/a.parquet", "in/y/a.parquet"]
    assert snapshot(plain) == before


def test_columns_that_some_files_lack_are_an_error_of_these(plain, run):
    pq.write_table(pa.table({"other": [1, 2]}), "in/c.parquet")
    pq.write_table(pa.table({"another": [1, 2]}), "in/d.parquet")
    result = run("embed", "in", "--in-place", "--column", "id", "--column", "other")
    assert result.code == 2
    assert [line.rpartition(" (the same")[0] or line for line in result.errors] == [
        "error: in/b.parquet: column 'other': no such column; there are: "
        + ", ".join(pq.read_schema("in/b.parquet").names),
        "error: in/c.parquet: column 'id': no such column; there are: other",
    ]
    assert len(json.loads(run("embed", "in", "--in-place", "--column", "other", "--json").out)["errors"]) == 4


@pytest.mark.parametrize(
    ("paths", "output", "written"),
    [
        (["in/b.parquet"], "out.parquet", ["out.parquet"]),
        (["in/b.parquet"], "new/deep/out.parquet", ["new/deep/out.parquet"]),
        (["in/b.parquet"], "out/", ["out/b.parquet"]),
        (["in/b.parquet"], "there", ["there/b.parquet"]),
        (["in"], "out", ["out/b.parquet", "out/x/a.parquet", "out/y/a.parquet"]),
        (["in/"], "out/", ["out/b.parquet", "out/x/a.parquet", "out/y/a.parquet"]),
        (["./in/../in"], "out", ["out/b.parquet", "out/x/a.parquet", "out/y/a.parquet"]),
        (["in/x"], "out", ["out/a.parquet"]),
        (["in/*/a.parquet"], "out", ["out/x/a.parquet", "out/y/a.parquet"]),
        (["in/x/*"], "out", ["out/a.parquet"]),
        (["i*/b.parquet"], "out", ["out/in/b.parquet"]),
        (["in/x/a.parquet", "in/y/a.parquet"], "out", ["out/x/a.parquet", "out/y/a.parquet"]),
        (["in/x/a.parquet", "in/b.parquet"], "out", ["out/b.parquet", "out/x/a.parquet"]),
        (["in/x", "in/b.parquet"], "out", ["out/a.parquet", "out/b.parquet"]),
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
def test_outputs_keep_their_order(paths, output, written, absolute, plain, run):
    (plain / "there").mkdir()
    before = snapshot(plain)
    if absolute:
        paths, output = [os.path.join(plain, path) for path in paths], os.path.join(plain, output)
    result = run("embed", *paths, "--column", "id", "-o", output)
    assert result.code == 0, result.err
    after = snapshot(plain)
    assert sorted(after.keys() - before.keys()) == written
    assert {name: after[name] for name in before} == before
    for path in written:
        assert parquet_bloom.verify(path, data=True).ok
        assert len(parquet_bloom.verify(path).chunks) == 2


def test_a_list_keeps_the_order_of_its_files(plain, run):
    result = run("embed", "-", "--column", "id", "-o", "out", stdin="in/x/a.parquet\nin/y/a.parquet\n")
    assert result.code == 0
    assert sorted(snapshot(plain / "out")) == ["x/a.parquet", "y/a.parquet"]
    run("embed", "-", "--column", "id", "-o", "one", stdin="in/x/a.parquet\n")
    assert sorted(snapshot(plain / "one")) == ["a.parquet"]


@pytest.mark.parametrize(
    ("paths", "output", "problem"),
    [
        (["in/b.parquet"], "in/b.parquet", "the output is the file itself"),
        (["in/b.parquet"], "in/../in/b.parquet", "the output is the file itself"),
        (["in/b.parquet"], "link.parquet", "the output is the file itself"),
        (["in/b.parquet"], "in", "the output is the file itself"),
        (["in"], "in", "the output is the file itself"),
        (["in"], "in/out", "the output lies in in, whose readers would find rows twice"),
        (["in/x", "in/y"], "out", "would also be that of in/x/a.parquet"),
        (["in/x", "other/a.parquet"], "other", "would replace other/a.parquet, which is also an input"),
        (["in/x", "in/b.parquet"], "link.parquet", "the output of several files must be a folder, but this is a file"),
        (["in/x"], "link.parquet", "the output of several files must be a folder, but this is a file"),
    ],
)
def test_outputs_that_would_do_harm_are_refused(paths, output, problem, plain, run):
    (plain / "link.parquet").symlink_to("in/b.parquet")
    (plain / "other").mkdir()
    shutil.copy("in/b.parquet", "other/a.parquet")
    before = snapshot(plain)
    for option in ([], ["--dry-run"]):
        result = run("embed", *paths, "--column", "id", "-o", output, *option)
        assert (result.code, result.out) == (2, "")
        assert len(result.err.splitlines()) == 1
        assert problem in result.err
    assert snapshot(plain) == before


def test_a_plan_tells_what_is_then_done(lake, run):
    before = snapshot(lake)
    arguments = ["embed", "lake", "--column", "id=0.001", "--column", "tag", "--replace", "--json"]
    plan = json.loads(run(*arguments, "--dry-run").out)
    assert snapshot(lake) == before
    done = json.loads(run(*arguments, "--in-place").out)
    assert plan["totals"] | {"changed": 5} == done["totals"]
    assert (plan["dry_run"], done["dry_run"]) == (True, False)
    sizes = {path: len(data) - len(before[path]) for path, data in snapshot(lake).items()}
    assert {row["file"]: row["bytes_added"] for row in done["files"]} == {p: s for p, s in sizes.items() if "lake" in p}
    assert sum(sizes.values()) == plan["totals"]["bytes_added"]
    written = {
        (row["file"], row["row_group"], row["column"]): row
        for row in json.loads(run("show", "lake", "--json").out)["filters"]
    }
    assert {(row["file"], row["row_group"], row["column"]) for row in plan["filters"]} == written.keys()
    for row in plan["filters"]:
        assert written[row["file"], row["row_group"], row["column"]]["num_bytes"] == row["num_bytes"]


def test_a_plan_for_another_path_creates_no_folder(plain, run):
    result = run("embed", "in", "--column", "id", "-o", "out/deep", "--dry-run", "--json")
    assert result.code == 0
    assert {row["output"] for row in json.loads(result.out)["filters"]} == {
        f"out/deep/{name}.parquet" for name in ("b", "x/a", "y/a")
    }
    assert not Path("out").exists()


def test_dry_run_of_the_library(plain):
    before = snapshot(plain)
    plan = parquet_bloom.embed("in/b.parquet", ["id"], dry_run=True)
    assert snapshot(plain) == before
    assert str(plan).startswith("in/b.parquet: would get 2 filters, +")
    done = parquet_bloom.embed("in/b.parquet", ["id"])
    assert (plan.changed, done.changed) == (False, True)
    assert (plan.new_size, plan.filters) == (done.new_size, done.filters)
    again = parquet_bloom.embed("in/b.parquet", ["id"], dry_run=True)
    assert (again.changed, again.kept, again.bytes_added, again.filters) == (False, 2, 0, [])
    copied = parquet_bloom.embed("in/b.parquet", ["id"], output="c.parquet", dry_run=True)
    assert (copied.changed, copied.bytes_added) == (False, 0)
    assert not Path("c.parquet").exists()


def test_nothing_to_add_is_not_an_error(lake, run):
    before = snapshot(lake)
    result = run("embed", "lake/by=spark", "--column", "id", "--in-place", "-v")
    assert result.code == 0
    assert "nothing to add, 2 filters are there" in result.err
    assert "embedded 0 filters in 1 file, +0 bytes, 2 filters kept\n" in result.err
    assert snapshot(lake) == before


def test_a_broken_filter_is_replaced_only_on_request(lake, run):
    result = run("embed", "broken.parquet", "--column", "key", "--in-place")
    assert result.code == 2
    assert result.errors[0].startswith("error: broken.parquet: row group 1, column 'key': header says 128 bytes")
    assert run("embed", "broken.parquet", "--column", "key", "--in-place", "--replace").code == 0
    assert run("verify", "broken.parquet", "--data").code == 0


def test_a_table_is_refused(plain, run):
    os.makedirs("in/_delta_log")
    before = snapshot(plain)
    for path in ("in", "in/b.parquet"):
        result = run("embed", path, "--column", "id", "--in-place")
        assert result.code == 2
        assert "belongs to the Delta table" in result.errors[0]
    assert snapshot(plain) == before
