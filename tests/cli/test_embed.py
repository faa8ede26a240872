"""`embed` and `drop`: columns, outputs, plans."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.cli.commands.embed_command import parse_column_arguments


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: ``in/x/a.parquet``, ``in/y/a.parquet``, ``in/b.parquet``, without filters."""
    monkeypatch.chdir(tmp_path)
    for name in ("x/a", "y/a", "b"):
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(200), "flag": [True] * 200}), path, row_group_size=100)
    return tmp_path


def test_a_number_after_the_last_equals_sign_is_the_fpp():
    for arguments, expected in (
        (["id"], {"id": None}),
        (["id=0.001", "user.id"], {"id": 0.001, "user.id": None}),
        (["a=b"], {"a=b": None}),
        (["a=b=1e-3"], {"a=b": 0.001}),
        (["a=.5", "b=5.", "c=+0.5"], {"a": 0.5, "b": 5.0, "c": 0.5}),
        (["a=nan", "b=inf", "c=1_0", "d= 1", "e=", "=0.1", "f=٠.١"], None),
    ):
        assert parse_column_arguments(tuple(arguments)) == (expected or dict.fromkeys(arguments))


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


def test_a_column_that_cannot_be_is_an_error_of_each_file_on_one_line(plain, run, contents):
    before = contents(plain)
    for column, problem in (("flag", "BOOLEAN columns get no filter"), ("nope", "no such column; there are: ")):
        for jobs in "12":
            result = run("embed", "in", "--in-place", "--column", column, "--jobs", jobs)
            assert result.code == 2
            (line,) = result.errors
            assert line.startswith(f"error: in/b.parquet: column '{column}': {problem}")
            assert line.endswith("(the same in 2 more files)")
        errors = run("embed", "in", "--in-place", "--column", column, "--json").document["errors"]
        assert [error["file"] for error in errors] == ["in/b.parquet", "in/x/a.parquet", "in/y/a.parquet"]
    assert run("embed", "in/b.parquet", "--in-place", "--column", "").errors[0].startswith("error: in/b.parquet: col")
    assert contents(plain) == before


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
    assert len(run("embed", "in", "--in-place", "--column", "other", "--json").document["errors"]) == 4


@pytest.mark.ci
def test_outputs_keep_their_order(plain, run, contents):
    Path("there").mkdir()
    before = contents(plain)
    for paths, output, written in (
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
        (["-", "in/x/a.parquet", "in/y/a.parquet"], "out", ["out/x/a.parquet", "out/y/a.parquet"]),  # a list
        (["-", "in/x/a.parquet"], "out", ["out/a.parquet"]),
    ):
        for start in ("", f"{plain}/"):
            given = [start + path for path in paths if path != "-"]
            stdin = "\n".join(given) if paths[0] == "-" else None
            result = run("embed", *(["-"] if stdin else given), "--column", "id", "-o", start + output, stdin=stdin)
            assert result.code == 0, result.err
            after = contents(plain)
            assert sorted(after.keys() - before.keys()) == written, paths
            assert {name: after[name] for name in before} == before
            for path in written:
                report = parquet_bloom.verify(path, data=True)
                assert (report.ok, len(report.chunks)) == (True, 2)
                Path(path).unlink()
            shutil.rmtree("out", ignore_errors=True)
            shutil.rmtree("new", ignore_errors=True)


def test_outputs_that_would_do_harm_are_refused(plain, refused):
    Path("link.parquet").symlink_to("in/b.parquet")
    Path("other").mkdir()
    shutil.copy("in/b.parquet", "other/a.parquet")
    itself, several = (
        "the output is the file itself",
        "the output of several files must be a folder, but this is a file",
    )
    for paths, output, problem in (
        (["in/b.parquet"], "in/b.parquet", itself),
        (["in/b.parquet"], "in/../in/b.parquet", itself),
        (["in/b.parquet"], "link.parquet", itself),
        (["in/b.parquet"], "in", itself),
        (["in"], "in", itself),
        (["in"], "in/out", "the output lies in in, whose readers would find rows twice"),
        (["in/x", "in/y"], "out", "would also be that of in/x/a.parquet"),
        (["in/x", "other/a.parquet"], "other", "would replace other/a.parquet, which is also an input"),
        (["in/x", "in/b.parquet"], "link.parquet", several),
        (["in/x"], "link.parquet", several),
    ):
        for option in ([], ["--dry-run"]):
            assert problem in refused("embed", *paths, "--column", "id", "-o", output, *option)


def test_a_plan_tells_what_is_then_done(lake, run, contents):
    before = contents(lake)
    arguments = ["embed", "lake", "--column", "id=0.001", "--column", "tag", "--replace", "--json"]
    plan = run(*arguments, "--dry-run").document
    assert contents(lake) == before
    done = run(*arguments, "--in-place").document
    assert plan["totals"] | {"changed": 5} == done["totals"]
    assert (plan["dry_run"], done["dry_run"]) == (True, False)
    sizes = {path: len(data) - len(before[path]) for path, data in contents(lake).items()}
    assert {row["file"]: row["bytes_added"] for row in done["files"]} == {p: s for p, s in sizes.items() if "lake" in p}
    assert sum(sizes.values()) == plan["totals"]["bytes_added"]
    written = {
        (row["file"], row["row_group"], row["column"]): row for row in run("show", "lake", "--json").document["filters"]
    }
    assert {(row["file"], row["row_group"], row["column"]) for row in plan["filters"]} == written.keys()
    for row in plan["filters"]:
        assert written[row["file"], row["row_group"], row["column"]]["num_bytes"] == row["num_bytes"]


def test_a_plan_for_another_path_creates_no_folder(plain, run):
    result = run("embed", "in", "--column", "id", "-o", "out/deep", "--dry-run", "--json")
    assert result.code == 0
    assert {row["output"] for row in result.document["filters"]} == {
        f"out/deep/{name}.parquet" for name in ("b", "x/a", "y/a")
    }
    assert not Path("out").exists()


def test_nothing_to_add_is_not_an_error(lake, run, contents):
    before = contents(lake)
    result = run("embed", "lake/by=spark", "--column", "id", "--in-place", "-v")
    assert result.code == 0
    assert "nothing to add, 2 filters are there" in result.err
    assert "embedded 0 filters in 1 file, +0 bytes, 2 filters kept\n" in result.err
    assert contents(lake) == before


def test_a_broken_filter_is_replaced_only_on_request(lake, run):
    result = run("embed", "broken.parquet", "--column", "key", "--in-place")
    assert result.code == 2
    assert result.errors[0].startswith("error: broken.parquet: row group 1, column 'key': header says 128 bytes")
    assert run("embed", "broken.parquet", "--column", "key", "--in-place", "--replace").code == 0
    assert run("verify", "broken.parquet", "--data").code == 0


def test_embed_and_drop_leave_a_lake_as_it_was(lake, run, contents):
    assert run("drop", "lake", "--in-place").code == 0  # what their writers put there
    before = contents("lake")
    assert run("embed", "lake", "--column", "id", "--column", "tag", "--in-place").code == 0
    assert contents("lake") != before
    done = run("drop", "lake", "--column", "id", "--column", "tag", "--in-place", "--json")
    assert done.code == 0
    assert done.document["totals"] | {"bytes_freed": 0} == {
        "files": 5, "changed": 5, "filters": 20, "kept": 0, "bytes_freed": 0, "dead_bytes": 0,
    }  # fmt: skip
    assert contents("lake") == before


def test_a_plan_of_drop_tells_what_is_then_done(lake, run, contents):
    before = contents(lake)
    plan = run("drop", "lake", "broken.parquet", "--dry-run", "--json").document
    assert contents(lake) == before
    done = run("drop", "lake", "broken.parquet", "-o", "out", "--json")
    assert done.code == 0
    totals = done.document["totals"]
    assert plan["totals"] | {"changed": 6} == totals
    after = contents(lake)
    assert {name: after[name] for name in before} == before
    sizes = [sum(len(data) for name, data in after.items() if name.startswith(start)) for start in ("lake", "out")]
    assert sizes[0] + len(before["broken.parquet"]) - sizes[1] == totals["bytes_freed"]
    assert run("show", "out", "--json").document["filters"] == []
    assert {row["freed"] for row in plan["filters"]} == {True, False}


def test_one_file_that_cannot_be_changed_keeps_no_other_from_it(lake, run):
    Path("lake/a.parquet").write_bytes(b"no Parquet")
    for jobs in (1, 3):
        done = run("drop", "lake", "--in-place", "--json", "--jobs", jobs)
        assert done.code == 2
        (error,) = done.errors
        assert error.startswith("error: lake/a.parquet: not a Parquet file")
        assert [row["changed"] for row in done.document["files"]].count(True) == (4 if jobs == 1 else 0)
    done = run("drop", "broken.parquet", "--in-place", "--column", "nobody")
    assert done.code == 2
    assert done.errors[0].startswith("error: broken.parquet: column 'nobody': no such column")
