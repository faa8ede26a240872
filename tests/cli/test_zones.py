"""`zones build` and `zones show`: arguments, errors and output."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom import zones


def test_the_index_is_the_one_that_the_library_builds(lake, run):
    done = run("zones", "build", "lake", "--column", "id", "-o", "cli.arrow", "--rows-per-zone", "1e2", "--jobs", "2")
    assert (done.code, done.err) == (0, "")
    zones.build("lake", "id", "library.arrow", rows_per_zone=100)
    assert zones.open("cli.arrow").to_table().equals(zones.open("library.arrow").to_table())
    for container in ("parquet", "arrow"):
        run("zones", "build", "lake", "--column", "id", "-o", "any", "--container", container, "--fpp", "0.1")
        with zones.open("any") as index:
            assert (index.items, index.probability) == (8192, 0.1)
        assert json.loads(run("zones", "show", "any", "--json").out)["totals"]["zones"] == 10


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["lake", "-o", "z.arrow"], "missing option '--column'"),
        (["lake", "--column", "id"], "missing option '-o'"),
        (["--column", "id", "-o", "z.arrow"], "missing argument 'PATH...'"),
        (["lake", "--column", "id", "-o", "z.index"], "z.index: the container is unknown"),
        (["lake", "--column", "id", "-o", "lake/z.arrow"], "lake/z.arrow: it lies in lake"),
        (["lake", "--column", "id", "-o", "no/z.arrow"], "no/z.arrow: there is no folder"),
        (
            ["lake", "--column", "id", "-o", "z.arrow", "--rows-per-zone", "0"],
            "must be an integer of at least 1, got 0",
        ),
        (["lake", "--column", "id", "-o", "z.arrow", "--rows-per-zone", "1.5"], "'1.5' is not an integer"),
        (["lake", "--column", "id", "-o", "z.arrow", "--fpp", "1"], "the probability must be between 0 and 1"),
        (["lake", "--column", "id", "-o", "z.arrow", "--fpp", "nan"], "the probability must be between 0 and 1"),
        (["lake", "--column", "id", "-o", "z.arrow", "--container", "orc"], "'orc' is not one of"),
        (["lake", "--column", "nothing", "-o", "z.arrow"], "column 'nothing': no such column"),
        (["nowhere", "--column", "id", "-o", "z.arrow"], "nowhere: there is no such file or folder"),
    ],
)
def test_bad_input_is_said_in_a_line_and_nothing_is_written(arguments, problem, lake, run):
    done = run("zones", "build", *arguments)
    assert (done.code, done.out) == (2, "")
    assert problem in done.errors[0]
    assert len(done.errors) == len(done.err.splitlines()) <= 2
    assert sorted(os.listdir()) == ["broken.parquet", "lake", "orc"]


def test_broken_files_are_reported_and_the_rest_has_zones(lake, run):
    (lake / "lake" / "by=spark" / "empty.parquet").write_bytes(b"")
    done = run("zones", "build", "lake", "nowhere", "--column", "id", "-o", "z.arrow", "--json")
    assert done.code == 2
    assert len(done.errors) == len(json.loads(done.out)["errors"]) == 2
    assert json.loads(done.out)["indexes"][0]["files"] == 5
    listed = run("zones", "build", "-", "--column", "id", "-o", "z.arrow", stdin="lake/by=spark/part-0.parquet\n")
    assert listed.code == 0
    assert len(zones.open("z.arrow").files) == 1


def test_states_of_files_are_shown(lake, run):
    run("zones", "build", "lake", "--column", "id", "-o", "z.arrow")
    run("embed", "lake/by=pyarrow/plain.parquet", "--column", "id", "--in-place")
    (lake / "lake" / "by=spark" / "part-0.parquet").unlink()
    pq.write_table(pa.table({"id": [1]}), "lake/by=duckdb/part-0.parquet")
    shown = json.loads(run("zones", "show", "z.arrow", "--json").out)
    assert [row["state"] for row in shown["zones"]] == ["current", "changed", "current", "current", "gone"]
    assert shown["totals"]["stale"] == 2
    asleep = json.loads(run("zones", "show", "z.arrow", "--json", "--no-live").out)
    assert {row["state"] for row in asleep["zones"]} == {None}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("nowhere", "nowhere: cannot open: No such file"),
        ("lake", "lake: the folder is not a Lance dataset"),
        ("broken.parquet", "broken.parquet: it is not a zone index: no columns of the name fragment_id"),
    ],
)
def test_an_invalid_index_is_reported_on_one_line(path, problem, lake, run):
    done = run("zones", "show", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == done.errors
    assert problem in done.errors[0]


def test_an_index_of_lance_is_shown_by_fragments(lake, run):
    lance = pytest.importorskip("lance", reason="pylance is missing")
    from lance.indices import IndexConfig

    dataset = lance.write_dataset(pa.table({"id": range(100)}), "set.lance", max_rows_per_file=60)
    dataset.create_scalar_index("id", IndexConfig("bloomfilter", {"number_of_items": 25, "probability": 0.01}))
    lance.write_dataset(pa.table({"id": [5]}), "set.lance", mode="append")
    shown = json.loads(run("zones", "show", "set.lance", "--json").out)
    assert [(row["fragment"], row["zones"], row["rows"], row["file"]) for row in shown["zones"]] == [
        (0, 3, 60, None),
        (1, 2, 40, None),
    ]
    assert (shown["column"], shown["type"], shown["items"], shown["uncovered"]) == ("id", "int64", 25, [2])
    assert "1 fragment not covered" in run("zones", "show", "set.lance").err
    assert "no Bloom filter indexes" in run("zones", "show", "set.lance", "--column", "x").errors[0]
