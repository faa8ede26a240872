"""`parquet-bloom drop`: removing filters, and the output."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def test_embed_and_drop_leave_a_lake_as_it_was(lake, run):
    assert run("drop", "lake", "--in-place").code == 0  # what their writers put there
    before = contents(lake / "lake")
    assert run("embed", "lake", "--column", "id", "--column", "tag", "--in-place").code == 0
    assert contents(lake / "lake") != before
    done = run("drop", "lake", "--column", "id", "--column", "tag", "--in-place", "--json")
    assert done.code == 0
    assert json.loads(done.out)["totals"] | {"bytes_freed": 0} == {
        "files": 5, "changed": 5, "filters": 20, "kept": 0, "bytes_freed": 0, "dead_bytes": 0,
    }  # fmt: skip
    assert contents(lake / "lake") == before


def test_a_plan_tells_what_is_then_done(lake, run):
    before = contents(lake)
    plan = json.loads(run("drop", "lake", "broken.parquet", "--dry-run", "--json").out)
    assert contents(lake) == before
    done = run("drop", "lake", "broken.parquet", "-o", "out", "--json")
    assert done.code == 0
    totals = json.loads(done.out)["totals"]
    assert plan["totals"] | {"changed": 6} == totals
    assert contents(lake / "lake") == {name: data for name, data in before.items() if "/lake/" in name}
    sizes = [os.path.getsize(path) for path in (lake / "out").rglob("*.parquet")]
    assert sum(map(len, before.values())) - sum(sizes) == totals["bytes_freed"]
    assert json.loads(run("show", "out", "--json").out)["filters"] == []
    assert {row["freed"] for row in plan["filters"]} == {True, False}


def test_one_file_that_cannot_be_changed_keeps_no_other_from_it(lake, run):
    (lake / "lake" / "a.parquet").write_bytes(b"no Parquet")
    for jobs in (1, 3):
        done = run("drop", "lake", "--in-place", "--json", "--jobs", jobs)
        assert done.code == 2
        assert len(done.errors) == 1
        assert done.errors[0].startswith("error: lake/a.parquet: not a Parquet file")
        assert [row["changed"] for row in json.loads(done.out)["files"]].count(True) == (4 if jobs == 1 else 0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["lake"], "no target given: add -o PATH, --in-place or --dry-run"),
        (["lake", "-o", "x", "--in-place"], "-o and --in-place exclude each other"),
        (["lake", "-o", "lake/x"], "the output lies in lake, whose readers would find rows twice"),
        (["broken.parquet", "--in-place", "--column", "nobody"], "column 'nobody': no such column"),
        (["lake", "--in-place", "--jobs", "0"], "--jobs"),
    ],
)
def test_a_refused_write_changes_nothing(arguments, problem, lake, run):
    before = contents(lake)
    done = run("drop", *arguments)
    assert done.code == 2
    assert problem in done.err
    assert contents(lake) == before
