"""`prune`: row groups to read, reasons to skip the others, doubts; and `zones`, which leave rows of them."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.report_pages import drawn_states

import parquet_bloom
from parquet_bloom import zones


def test_rows_are_those_of_the_report(lake, run):
    where = "id = 4250 OR id = 100"
    report = parquet_bloom.prune("lake", where)
    document = run("prune", "lake", "--where", where, "--json").document
    selected: dict[str, list[int]] = {}
    for row in document["row_groups"]:
        if row["read"]:
            selected.setdefault(row["file"], []).append(row["row_group"])
        assert bool(row["by"]) == bool(row["reason"]) == (not row["read"])
    assert selected == report.selected
    assert document["totals"]["selected_row_groups"] == report.selected_row_groups == 10
    assert document["where"] == "id IN (4250, 100)"


def test_files_that_their_folders_rule_out_are_a_row_each(lake, run):
    document = run("prune", "lake", "--where", "by = 'spark' AND id = 4250", "--json").document
    unopened = [row for row in document["row_groups"] if row["by"] == ["partition"]]
    assert len(unopened) == document["totals"]["unopened_files"] == 4
    assert {(row["row_group"], row["num_rows"], row["read"]) for row in unopened} == {(None, None, False)}
    assert unopened[0]["reason"] == "its folder says by is datafusion"
    assert document["totals"]["requests"] == 1
    lines = run("prune", "lake", "--where", "by = 'nobody'").out.splitlines()
    assert len(lines) == 6
    assert lines[1].split()[:5] == ["lake/by=datafusion/part-0.parquet", "-", "skip", "-", "partition"]
    assert run("prune", "lake", "--where", "by = 'nobody'").code == 1


def test_exit_codes(lake, run):
    assert run("prune", "lake", "--where", "id = 4250").code == 0
    assert run("prune", "lake", "--where", "id = -1").code == 1
    assert run("prune", "lake", "nowhere", "--where", "id = 4250").code == 2
    assert run("prune", "nowhere", "--where", "id = 4250").code == 2


def test_files_that_cannot_be_read_do_not_hide_the_others(lake, run):
    for name in ("0", "zz"):
        Path(f"lake/{name}.parquet").write_bytes(b"this is not a Parquet file")
    result = run("prune", "lake", "--where", "id = 4250", "--json")
    assert result.code == 2
    assert [line.split(": ")[1] for line in result.errors] == ["lake/0.parquet", "lake/zz.parquet"]
    document = result.document
    assert document["totals"]["selected_row_groups"] == 6
    assert [error["file"] for error in document["errors"]] == ["lake/0.parquet", "lake/zz.parquet"]


def test_doubtful_files_are_read_and_reported(lake, run):
    result = run("prune", "broken.parquet", "--where", "key = 12345", "--format", "ndjson")
    assert result.code == 0
    rows = result.rows
    assert [row["read"] for row in rows] == [False, True, False]
    assert [row["by"] for row in rows] == [["filter"], [], ["filter"]]
    (doubt,) = rows[1]["doubts"]
    assert "header says 128 bytes" in doubt
    assert doubt in run("prune", "broken.parquet", "--where", "key = 12345", "--format", "csv").out


def test_files_without_the_column_are_pruned_by_the_others(tmp_path, run):
    for name in ("a", "b"):
        parquet_bloom.write_table(pa.table({name: [1, 2, 3]}), tmp_path / f"{name}.parquet", [name])
    result = run("prune", tmp_path, "--where", "a = 1", "--format", "ndjson")
    read = {Path(row["file"]).name: row["read"] for row in result.rows}
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
    document = run("prune", path, "--where", where, "--json").document
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
    (row,) = result.document["row_groups"]
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


def test_doubts_are_summed_up(run, lake):
    done = run("prune", "lake", "--where", "id = '4250.0'")
    assert done.err.endswith("10 row groups in doubt: 'id': '4250.0' cannot be compared exactly with INT64\n")


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


# -------------------------------------------------------------------------------------------------------- zones


def test_zones_are_those_that_the_library_builds(lake, run):
    done = run("zones", "build", "lake", "--column", "id", "-o", "cli.arrow", "--rows-per-zone", "1e2", "--jobs", "2")
    assert (done.code, done.err) == (0, "")
    zones.build("lake", "id", "library.arrow", rows_per_zone=100)
    assert zones.open("cli.arrow").to_table().equals(zones.open("library.arrow").to_table())
    for container in ("parquet", "arrow"):
        run("zones", "build", "lake", "--column", "id", "-o", "any", "--container", container, "--fpp", "0.1")
        with zones.open("any") as index:
            assert (index.items, index.probability) == (8192, 0.1)
        assert run("zones", "show", "any", "--json").document["totals"]["zones"] == 10
    problem = "lake/by=datafusion/part-0.parquet: column 'nothing': no such column"
    done = run("zones", "build", "lake", "--column", "nothing", "-o", "z.arrow")
    assert (done.code, done.out, problem in done.errors[0]) == (2, "", True)
    assert run("zones", "build", "nowhere", "--column", "id", "-o", "z.arrow").code == 2
    assert not Path("z.arrow").exists()


def test_files_that_are_broken_or_change_are_said_to_be(lake, run):
    Path("lake/by=spark/empty.parquet").write_bytes(b"")
    done = run("zones", "build", "lake", "nowhere", "--column", "id", "-o", "z.arrow", "--json")
    assert done.code == 2
    assert len(done.errors) == len(done.document["errors"]) == 2
    assert done.document["indexes"][0]["files"] == 5
    listed = run("zones", "build", "-", "--column", "id", "-o", "one.arrow", stdin="lake/by=spark/part-0.parquet\n")
    assert listed.code == 0
    assert len(zones.open("one.arrow").files) == 1
    run("embed", "lake/by=pyarrow/plain.parquet", "--column", "id", "--in-place")
    Path("lake/by=spark/part-0.parquet").unlink()
    pq.write_table(pa.table({"id": [1]}), "lake/by=duckdb/part-0.parquet")
    shown = run("zones", "show", "z.arrow", "--json").document
    assert [row["state"] for row in shown["zones"]] == ["current", "changed", "current", "current", "gone"]
    assert shown["totals"]["stale"] == 2
    asleep = run("zones", "show", "z.arrow", "--json", "--no-live").document
    assert {row["state"] for row in asleep["zones"]} == {None}


def test_an_index_of_lance_is_shown_by_fragments(lake, run):
    lance = pytest.importorskip("lance", reason="pylance is missing")
    from lance.indices import IndexConfig

    dataset = lance.write_dataset(pa.table({"id": range(100)}), "set.lance", max_rows_per_file=60)
    dataset.create_scalar_index("id", IndexConfig("bloomfilter", {"number_of_items": 25, "probability": 0.01}))
    lance.write_dataset(pa.table({"id": [5]}), "set.lance", mode="append")
    shown = run("zones", "show", "set.lance", "--json").document
    rows = [(row["fragment"], row["zones"], row["rows"], row["file"]) for row in shown["zones"]]
    assert rows == [(0, 3, 60, None), (1, 2, 40, None)]
    assert (shown["column"], shown["type"], shown["items"], shown["uncovered"]) == ("id", "int64", 25, [2])
    assert "1 fragment not covered" in run("zones", "show", "set.lance").err
    assert "no Bloom filter indexes" in run("zones", "show", "set.lance", "--column", "x").errors[0]


def test_commands_leave_out_rows_by_zones_that_can_be_used(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    ids = random.Random(5).sample(range(1000, 10**9), 400)

    def write(ids):
        names = [f"n{value}" for value in ids]
        table = pa.table({"id": ids, "n": range(400), "name": names})
        pq.write_table(table, "lake/a.parquet", row_group_size=100, use_dictionary=False)

    Path("lake").mkdir()
    write(ids)
    for column in ("id", "name"):
        zones.build("lake", column, f"{column}.zones.parquet", rows_per_zone=10, fpp=1e-6)
    where = ("--where", f"id = {ids[137]} AND name >= 'a'", "--zones", "id.zones.parquet")
    result = run("prune", "lake", *where, "--zones", "name.zones.parquet", "--json")
    assert (result.code, result.document["totals"]["zone_doubts"]) == (0, [])
    skipped, one, *_ = result.document["row_groups"]
    assert (one["row_ranges"], one["reason"]) == ([[30, 40]], "its zones leave 10 of 100 rows")
    assert (skipped["by"], skipped["reason"]) == (["zones"], "its zones say: no row of it matches")
    table = run("prune", "lake", *where)
    assert "zones leave 10 of 100 rows of these" in table.err
    assert "30-39" in table.out
    assert run("prune", "lake", "--where", "id = 5000", *where[2:]).code == 1
    result = run("find", "lake", *where, "--format", "csv")
    assert (result.code, result.out.splitlines()[1:]) == (0, [f"{ids[137]},137,n{ids[137]}"])

    time.sleep(0.02)
    write(ids[::-1])
    message = "lake/a.parquet: column 'id': it has changed since its zones were made, which are not used"
    for verb in ("prune", "find"):
        result = run(verb, "lake", *where, "--json")
        assert result.code == 0
        assert f"zones are not used, so more may be read: {message}\n" in result.err
        assert result.document["totals"]["zone_doubts"] == [message]
    assert [row["n"] for row in result.document["rows"]] == [399 - 137]
    Path("id.zones.parquet").write_bytes(b"zones")
    for verb in ("prune", "find"):
        result = run(verb, "lake", *where)
        assert (result.code, result.errors) == (0, [])
        assert "zones are not used, so more may be read: id.zones.parquet: " in result.err
