"""`parquet-bloom show`: selection of columns and row groups, broken filters."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom


def rows(result: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.out.splitlines()]


def test_rows_say_what_the_file_says(lake, run):
    shown = rows(run("show", "lake", "--format", "ndjson"))
    results = []
    for path in sorted({row["file"] for row in shown}):
        with parquet_bloom.open(path) as file:
            results += [(path, chunk) for chunk in file.chunks()]
            for row, chunk in zip([row for row in shown if row["file"] == path], file.chunks(), strict=True):
                assert (row["row_group"], row["column"]) == (chunk.row_group, chunk.column)
                assert (row["offset"], row["length"]) == (chunk.offset, chunk.length)
                assert (row["fill"], row["fpp"], row["ndv_estimate"]) == (chunk.fill, chunk.fpp, chunk.ndv_estimate)
    assert len(results) == len(shown) == 10


def test_columns_and_row_groups_are_chosen(tmp_path, run):
    path = tmp_path / "a.parquet"
    user = pa.array([{"id": i, "name": str(i)} for i in range(4)])
    pq.write_table(pa.table({"user": user, "user.id": [1, 2, 3, 4], "z": [1, 2, 3, 4]}), path, row_group_size=2)
    embedded = run("embed", path, "--column", "user.name", "--column", "z", "--in-place")
    assert embedded.code == 0

    def shown(*options: str) -> list[tuple[int, str]]:
        result = run("show", path, "--format", "ndjson", *options)
        assert (result.code, result.err) == (0, "")
        return [(row["row_group"], row["column"]) for row in rows(result)]

    assert shown() == [(0, "user.name"), (0, "z"), (1, "user.name"), (1, "z")]
    assert shown("--column", "z", "--row-group", "1") == [(1, "z")]
    assert shown("--column", "user") == [(0, "user.name"), (1, "user.name")]  # all below it
    assert shown("--column", "z", "--column", "user.name", "--row-group", "0", "--row-group", "1") == shown()
    assert shown("--column", "user.id") == []  # two columns have that dotted path, none has a filter


def test_a_choice_that_no_file_knows_is_an_error(tmp_path, run):
    for name in ("a", "b"):
        table = pa.table({name: range(4), "id": range(4)})
        parquet_bloom.write_table(
            table, tmp_path / f"{name}.parquet", [name, "id"], row_group_size=2 if name == "b" else 4
        )
    result = run("show", tmp_path, "--column", "b", "--row-group", "1", "--format", "ndjson")
    assert (result.code, len(rows(result)), result.err) == (0, 1, "")
    result = run("show", tmp_path, "--column", "c", "--column", "id", "--row-group", "0", "--row-group", "7")
    assert result.code == 2
    assert result.errors == [
        "error: column 'c': no such column in any of 2 files",
        "error: no row group 7 in any of 2 files",
    ]
    assert len(result.out.splitlines()) == 3


def test_a_full_filter_estimates_no_number(tmp_path, run):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(20_000)}), path)
    parquet_bloom.embed(path, {"id": {"ndv": 1}})
    (row,) = rows(run("show", path, "--format", "ndjson"))
    assert (row["num_bytes"], row["fill"], row["ndv_estimate"]) == (
        32,
        1.0,
        None,
    )  # infinitely many, as far as one sees
    assert row["fpp"] == 1.0
    assert run("show", path).out.splitlines()[1].split()[-2:] == ["1", "inf"]


def test_no_filters_no_table(lake, run):
    result = run("show", "lake/by=pyarrow/plain.parquet")
    assert (result.code, result.out, result.err) == (0, "", "no filters in 1 file\n")
