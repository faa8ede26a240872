"""`parquet-bloom prune`: row groups to read, reasons to skip the others, and doubts."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.report_pages import drawn_states

import parquet_bloom


def test_rows_are_those_of_the_report(lake, run):
    where = "id = 4250 OR id = 100"
    report = parquet_bloom.prune("lake", where)
    document = json.loads(run("prune", "lake", "--where", where, "--json").out)
    selected: dict[str, list[int]] = {}
    for row in document["row_groups"]:
        if row["read"]:
            selected.setdefault(row["file"], []).append(row["row_group"])
        assert bool(row["by"]) == bool(row["reason"]) == (not row["read"])
    assert selected == report.selected
    assert document["totals"]["selected_row_groups"] == report.selected_row_groups == 10
    assert document["where"] == "id IN (4250, 100)"


def test_files_that_their_folders_rule_out_are_a_row_each(lake, run):
    document = json.loads(run("prune", "lake", "--where", "by = 'spark' AND id = 4250", "--json").out)
    unopened = [row for row in document["row_groups"] if row["by"] == ["partition"]]
    assert len(unopened) == document["totals"]["unopened_files"] == 4
    assert {(row["row_group"], row["num_rows"], row["read"]) for row in unopened} == {(None, None, False)}
    assert unopened[0]["reason"] == "its folder says by is datafusion"
    assert document["totals"]["requests"] == 1
    lines = run("prune", "lake", "--where", "by = 'nobody'").out.splitlines()
    assert len(lines) == 6
    assert lines[1].split()[:6] == ["lake/by=datafusion/part-0.parquet", "-", "skip", "-", "-", "partition"]
    assert run("prune", "lake", "--where", "by = 'nobody'").code == 1


def test_exit_codes(lake, run):
    assert run("prune", "lake", "--where", "id = 4250").code == 0
    assert run("prune", "lake", "--where", "id = -1").code == 1
    assert run("prune", "lake", "--where", "id = 'x").code == 2
    assert run("prune", "lake", "nowhere", "--where", "id = 4250").code == 2
    assert run("prune", "nowhere", "--where", "id = 4250").code == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--where", "id = "], "error: id =: "),
        (["--where", "id ~ 4"], "error: "),
        (["--where", ""], "error: "),
        (["--where", "nope = 1"], "error: column 'nope': no such column in any of 5 files"),
        (["--where", "id = 1", "--dialect", "klingon"], "error: "),
        (["--where", "id = TIMESTAMP '2024-01-01 00:00:00'", "--timezone", "Nowhere/Land"], "error: invalid value"),
    ],
)
def test_predicate_errors_are_one_line(options, expected, lake, run):
    result = run("prune", "lake", *options)
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.splitlines()
    assert line.startswith(expected)
    assert " a bug" not in line


def test_an_unknown_column_of_one_file_names_the_file(lake, run):
    result = run("prune", "broken.parquet", "--where", "nope = 1")
    assert result.err == "error: broken.parquet: column 'nope': no such column\n"


def test_files_that_cannot_be_read_do_not_hide_the_others(lake, run):
    for name in ("0", "zz"):
        Path(f"lake/{name}.parquet").write_bytes(b"this is not a Parquet file")
    result = run("prune", "lake", "--where", "id = 4250", "--json")
    assert result.code == 2
    assert [line.split(": ")[1] for line in result.errors] == ["lake/0.parquet", "lake/zz.parquet"]
    document = json.loads(result.out)
    assert document["totals"]["selected_row_groups"] == 6
    assert [error["file"] for error in document["errors"]] == ["lake/0.parquet", "lake/zz.parquet"]


def test_doubtful_files_are_read_and_reported(lake, run):
    result = run("prune", "broken.parquet", "--where", "key = 12345", "--format", "ndjson")
    assert result.code == 0
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [row["read"] for row in rows] == [False, True, False]
    assert [row["by"] for row in rows] == [["filter"], [], ["filter"]]
    (doubt,) = rows[1]["doubts"]
    assert "header says 128 bytes" in doubt
    assert doubt in run("prune", "broken.parquet", "--where", "key = 12345").out


def test_files_without_the_column_are_pruned_by_the_others(tmp_path, run):
    for name in ("a", "b"):
        parquet_bloom.write_table(pa.table({name: [1, 2, 3]}), tmp_path / f"{name}.parquet", [name])
    result = run("prune", tmp_path, "--where", "a = 1", "--format", "ndjson")
    read = {Path(row["file"]).name: row["read"] for row in map(json.loads, result.out.splitlines())}
    assert read["a.parquet"]
    assert result.code == 0


def test_options_reach_the_predicate(tmp_path, run):
    path = tmp_path / "a.parquet"
    moments = pa.array([1_700_000_000], pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"At": moments}), path)  # 2023-11-14 22:13:20 UTC
    where = "at = TIMESTAMP '2023-11-14 23:13:20'"
    assert run("prune", path, "--where", where).code == 2
    assert run("prune", path, "--where", where, "--case-insensitive").code == 1
    assert run("prune", path, "--where", where, "--case-insensitive", "--timezone", "Europe/Berlin").code == 0
    assert run("prune", path, "--where", "`At` = TIMESTAMP '2023-11-14 22:13:20'", "--dialect", "spark").code == 0


# Column chunks of less than 64 KiB are read whole, whatever their page indexes say.
PAGES = {"write_page_index": True, "use_dictionary": False, "compression": "none"}
PAGES |= {"data_page_size": 8000, "write_batch_size": 1000}


def test_row_ranges_are_those_of_the_page_indexes(tmp_path, run):
    path = tmp_path / "a.parquet"
    table = pa.table({"id": range(40_000), "other": [7] * 40_000})
    pq.write_table(table, path, row_group_size=20_000, **PAGES)
    where = "id IN (1500, 19999) OR (id = 30000 AND other = 8)"
    document = json.loads(run("prune", path, "--where", where, "--json").out)
    ranges = parquet_bloom.dataset(path).scan(where).row_ranges()[str(path)]
    first, second = document["row_groups"]
    assert [tuple(span) for span in first["row_ranges"]] == ranges[0]
    assert len(ranges[0]) == 2
    remaining = sum(stop - start for start, stop in ranges[0])
    assert 2 <= remaining < 10_000
    assert first["reason"] == f"its pages leave {remaining:,} of 20,000 rows"
    assert (second["read"], second["row_ranges"]) == (False, None)
    assert f"{ranges[0][0][0]}-{ranges[0][0][1] - 1}, " in run("prune", path, "--where", where).out


def test_nothing_can_match_where_pages_leave_nothing(tmp_path, run):
    path = tmp_path / "a.parquet"
    ids = [*range(10_000), *range(20_000, 30_000)]
    pq.write_table(pa.table({"id": ids}), path, **PAGES)
    result = run("prune", path, "--where", "id = 15000", "--json")
    (row,) = json.loads(result.out)["row_groups"]
    assert (row["read"], row["row_ranges"], row["reason"]) == (True, [], "its pages leave 0 of 20,000 rows")
    assert result.code == 1
    assert "none" in run("prune", path, "--where", "id = 15000").out
    assert run("find", path, "--where", "id = 15000").code == 1


def test_the_page_is_drawn(lake, run):
    command = ["prune", "lake", "--where", "id = 4250", "--html", "page.html"]
    printed = run(*command[:4])
    result = run(*command, "--check", "--asked-fpp", "0.01")
    error = re.sub(r" to plan; \d+ requests, [\d.]+ \w+ of data", "", result.err)  # --check reads data
    assert (result.code, result.out, error) == (0, printed.out, printed.err)
    states = Counter(drawn_states(Path("page.html").read_text("utf-8")))
    assert states == {"matched": 5, "vain-unfiltered": 1, "filter": 4}
    run(*command)
    assert drawn_states(Path("page.html").read_text("utf-8")).count("read") == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--check"], "--check and --asked-fpp are about the page of --html"),
        (["--html", "lake/page.html"], "the output lies in lake"),
        (["--html", "lake/by=spark/part-0.parquet"], "the output is also an input"),
        (["--html", "no/page.html"], "no/page.html: there is no folder"),
        (["--html", "page.html", "--asked-fpp", "1"], "invalid value for '--asked-fpp'"),
    ],
)
def test_page_errors_are_one_line(options, message, lake, run):
    result = run("prune", "lake", "--where", "id = 4250", *options)
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert message in line
    assert not Path("page.html").exists()


def test_doubts_are_summed_up(run, lake):
    done = run("prune", "lake", "--where", "id = '4250'")
    assert done.err.endswith("10 row groups in doubt: 'id': '4250' cannot be compared exactly with INT64\n")


@pytest.mark.parametrize("command", ["prune", "find"])
def test_footers_are_kept_in_a_folder(run, lake, tmp_path, command, monkeypatch):
    arguments = [command, "lake", "--where", "id = 4250"]
    plain = run(*arguments)
    first = run(*arguments, "--cache", "kept")
    assert (first.code, first.out) == (plain.code, plain.out)
    assert list((lake / "kept").iterdir())
    monkeypatch.setenv("PARQUET_BLOOM_CACHE", "kept")
    assert run(*arguments).out == plain.out
    unusable = run(*arguments, "--cache", "/proc/nowhere")  # costs time, not rows
    assert (unusable.code, unusable.out) == (plain.code, plain.out)
