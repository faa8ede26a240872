"""`parquet-bloom advise`: advice for each kind of column, from metadata alone and with a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.report_pages import drawn_paths

import parquet_bloom
from parquet_bloom.file import advice_report

FILES, GROUP = 5, 3000  # with two row groups a file
MOST = "no dictionary holds its values, so most may be distinct"
SEEM_FEW = "most row groups have the same min and max: they seem to hold the same few values"
BY_RANGES = "min and max alone leave 10.0% of the row groups: it is sorted, or nearly"


def tables() -> Iterator[pa.Table]:
    """The lake: a sorted and a random id, few values, repeated values in a dictionary, a nested column, a bulk."""
    rng = np.random.default_rng(5)
    for number in range(FILES):
        rows = 2 * GROUP
        ids = rng.integers(0, 1 << 60, rows)
        # Each in six rows of one row group.
        groups = (rng.permutation(rng.integers(0, 1 << 40, GROUP // 6).repeat(6)).tolist() for _ in range(2))
        sessions = [f"session {value:010x}" for group in groups for value in group]
        yield pa.table(
            {
                "seq": np.arange(number * rows, (number + 1) * rows),
                "id": ids,
                "country": [f"c{value}" for value in rng.integers(0, 20, rows).tolist()],
                "session": sessions,
                "user": [{"key": f"{value:015x}"} for value in ids.tolist()],
                "bulk": [rng.bytes(90) for _ in range(rows)],
            }
        )


def by_pyarrow(folder: Path, **options: Any) -> Path:
    for number, table in enumerate(tables()):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=GROUP, **options)
    return folder


@pytest.fixture(scope="module")
def plain_ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written as pyarrow writes large row groups: of unique values no dictionary is kept."""
    return by_pyarrow(tmp_path_factory.mktemp("plain"), use_dictionary=["country", "session"])


@pytest.fixture(scope="module")
def all_dictionaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_pyarrow(tmp_path_factory.mktemp("dictionaries"))


@pytest.fixture(scope="module")
def by_spark(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("by-spark")
    given = tmp_path_factory.mktemp("given")
    for number, table in enumerate(tables()):
        pq.write_table(table, given / f"{number}.parquet")
        frame = spark.read.parquet(str(given / f"{number}.parquet")).coalesce(1)
        options = {"parquet.block.row.count.limit": GROUP}
        frame.write.mode("append").options(**options).parquet(str(folder / "lake"))
    return folder / "lake"


def advised(run: Callable[..., Any], *arguments: Any) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    done = run("advise", *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    document = done.document
    return document, {row["column"]: (row["verdict"], row["reason"]) for row in document["columns"]}


@pytest.mark.ci
def test_a_page_is_written(run: Callable[..., Any], plain_ids: Path, tmp_path: Path) -> None:
    printed = run("advise", plain_ids)
    done = run("advise", plain_ids, "--html", tmp_path / "page.html")
    assert (done.code, done.out, done.err) == (printed.code, printed.out, printed.err)
    assert "id: yes" in drawn_paths((tmp_path / "page.html").read_text("utf-8"))


def check_sampled(run: Callable[..., Any], lake: Path) -> None:
    """Check the advice for each column when some values are read."""
    document, advice = advised(run, lake, "--sample", 8)
    assert {name: verdict for name, (verdict, _) in advice.items()} == {
        "seq": "no", "id": "yes", "country": "no", "session": "yes", "user.key": "yes", "bulk": "yes",
    }  # fmt: skip
    assert advice["seq"][1] == BY_RANGES
    assert advice["country"][1].startswith("a value is in about 100% of the row groups, which have to be read")
    for name in ("id", "session", "user.key"):
        assert advice[name][1].startswith("a filter leaves 10.9% of the row groups, where min and max leave 100%, for ")
    rows = {row["column"]: row for row in document["columns"]}
    assert rows["id"]["distinct"] == pytest.approx(1)
    assert rows["session"]["distinct"] == pytest.approx(1 / 6)
    assert rows["session"]["dictionary"] == rows["country"]["dictionary"] == 1
    assert rows["id"]["skipped_present"] == pytest.approx(0.891, abs=0.001)
    assert rows["id"]["skipped_absent"] == pytest.approx(0.99, abs=0.001)
    assert rows["id"]["engines"] == ["DuckDB", "DataFusion", "ClickHouse", "Spark"]
    assert rows["user.key"]["engines"] == ["DuckDB", "ClickHouse", "Spark"]
    total = sum(path.stat().st_size for path in Path(lake).glob("*.parquet"))
    assert document["totals"]["num_bytes"] == total
    for fpp, num_bytes in rows["id"]["sizes"].items():
        assert num_bytes == 2 * FILES * parquet_bloom.size_for(GROUP, float(fpp))
        assert rows["id"]["shares"][fpp] == pytest.approx(num_bytes / total)
    names = " ".join(f"--column {name}" for name in ("id", "session", "user.key", "bulk"))
    assert document["embed_command"] == f"parquet-bloom embed {lake} {names} --in-place"
    assert document["sample_command"] is None


@pytest.mark.ci
@pytest.mark.parametrize("which", ["plain_ids", "all_dictionaries"])
def test_with_a_sample(which, run, request):
    check_sampled(run, request.getfixturevalue(which))


@pytest.mark.ci
@pytest.mark.spark
def test_with_a_sample_by_spark(run, by_spark):
    check_sampled(run, by_spark)


def test_metadata_alone_says_what_it_does_not_know(run, plain_ids):
    document, advice = advised(run, plain_ids, "--sample", 0)
    assert advice["seq"] == ("no", BY_RANGES)
    assert advice["country"] == ("no", f"0.67% of a row group's values are distinct, and {SEEM_FEW}")
    for name in ("id", "user.key"):
        verdict, reason = advice[name]
        assert verdict == "maybe"
        assert reason.startswith(MOST)
        assert "row groups seldom have the same min or max, so a value may be in few of them" in reason
        assert reason.endswith("min and max leave 100% of the row groups; a sample of several row groups would tell")
    verdict, reason = advice["session"]
    assert verdict == "maybe"
    assert "of a row group's values are distinct; row groups seldom have the same min or max" in reason
    assert document["totals"]["sampled_files"] == 0
    assert document["embed_command"] is None
    names = " ".join(f"--column {name}" for name in ("id", "session", "user.key", "bulk"))
    assert document["sample_command"] == f"parquet-bloom advise {plain_ids} {names} --sample 8"
    rows = {row["column"]: row for row in document["columns"]}
    assert (rows["id"]["distinct"], rows["id"]["holding"], rows["id"]["skipped_present"]) == (None, None, None)
    assert rows["id"]["skipped_absent"] == pytest.approx(0.99)
    assert rows["id"]["sizes"]["0.01"] == 2 * FILES * parquet_bloom.size_for(GROUP, 0.01)  # at most


def test_what_metadata_leaves_in_doubt_is_read(run, plain_ids, monkeypatch):
    document, advice = advised(run, plain_ids)
    assert {name: verdict for name, (verdict, _) in advice.items()} == {
        "seq": "no", "id": "yes", "country": "no", "session": "yes", "user.key": "yes", "bulk": "yes",
    }  # fmt: skip
    assert advice["country"] == ("no", f"0.67% of a row group's values are distinct, and {SEEM_FEW}")  # not read
    assert (document["totals"]["sampled_files"], document["sample_command"]) == (5, None)
    # Of a bound that two row groups of the largest column exceed, the others are read.
    largest = max(row["num_bytes"] for row in document["columns"]) // (2 * FILES)
    monkeypatch.setattr(advice_report, "SAMPLE_BYTES", 2 * largest - 1000)
    document, advice = advised(run, plain_ids)
    assert [name for name, (verdict, _) in advice.items() if verdict == "maybe"] == ["bulk"]
    assert advice["id"][0] == advice["user.key"][0] == "yes"
    assert document["sample_command"] == f"parquet-bloom advise {plain_ids} --column bulk --sample 8"
    monkeypatch.setattr(advice_report, "SAMPLE_BYTES", 1000)
    assert advised(run, plain_ids)[0]["totals"]["sampled_files"] == 0


def test_few_row_groups_of_random_ids_are_decided(run, tmp_path):
    rng = np.random.default_rng(7)
    for number in range(2):
        ids = pa.table({"id": rng.integers(0, 1 << 60, 10_000)})
        pq.write_table(ids, tmp_path / f"{number}.parquet", row_group_size=5000)
    _, advice = advised(run, tmp_path)
    assert advice["id"][0] == "yes"
    assert re.fullmatch(r"a filter leaves 2.*%, for 1\d\.\d\d% of the files' size", advice["id"][1])


def test_constant_columns_and_filters_that_are_there_are_said(run, tmp_path):
    table = pa.table({"day": ["2026-01-31"] * 100, "n": pa.array([7, None] * 50), "seq": range(100)})
    for options in ({"row_group_size": 100}, {"row_group_size": 10, "use_dictionary": False}):
        pq.write_table(table, tmp_path / "a.parquet", **options)
        _, advice = advised(run, tmp_path, "--sample", 0)
        for name in ("day", "n"):
            assert advice[name] == ("no", "all of its values are the same, by min and max")
    parquet_bloom.embed(tmp_path / "a.parquet", "seq")
    pq.write_table(table.slice(0, 10), tmp_path / "b.parquet")
    ten = "; 10 of 11 row groups have a filter already"
    assert advised(run, tmp_path)[1]["seq"][1].endswith(ten)
    long = pa.table({"text": ["x" * 100] * 10})  # min and max may be cut, and say nothing of what follows
    pq.write_table(long, tmp_path / "a.parquet", row_group_size=5)
    (tmp_path / "b.parquet").unlink()
    assert "by min and max" not in advised(run, tmp_path, "--sample", 0)[1]["text"][1]


@pytest.mark.parametrize(
    "which", ["all_dictionaries", pytest.param("by_spark", marks=[pytest.mark.spark, pytest.mark.ci])]
)
def test_dictionaries_tell_metadata_how_many_values_are_distinct(which, run, request):
    _, advice = advised(run, request.getfixturevalue(which), "--sample", 0)
    assert advice["seq"] == ("no", BY_RANGES)
    assert advice["country"] == ("no", f"0.67% of a row group's values are distinct, and {SEEM_FEW}")
    assert advice["session"][0] == "maybe"
    for name in ("id", "user.key"):
        verdict, reason = advice[name]
        # Spark gives its dictionary up where it would be larger than the values.
        assert verdict == ("yes" if which == "all_dictionaries" else verdict)
        assert verdict == "yes" or reason.startswith(MOST)
        assert "row groups were compared by min and max alone" in reason or verdict == "maybe"


def test_numbers_between_few_bounds_are_few(run, tmp_path):
    rng = np.random.default_rng(3)
    for number in range(4):
        columns = {"status": rng.integers(200, 205, 5000), "near": 1000 * number + rng.integers(0, 1000, 5000)}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet", row_group_size=2500, use_dictionary=False)
    _, advice = advised(run, tmp_path, "--sample", 0)
    assert advice["status"] == ("no", f"at most 0.20% of a row group's values are distinct, and {SEEM_FEW}")
    assert advice["near"][0] == "maybe"  # the row groups of a file are alike, those of others are not
    assert advice["near"][1].startswith("at most ")
    assert advised(run, tmp_path)[1]["near"][0] == "no"


def test_metadata_takes_no_values_for_granted(run, tmp_path):
    """Ids of the same users every day: unique within a row group, and present in all of them."""
    rng = np.random.default_rng(4)
    users = rng.integers(0, 1 << 60, 3000)
    for number in range(10):
        pq.write_table(pa.table({"user": rng.permutation(users)[:2500]}), tmp_path / f"{number}.parquet")
    assert advised(run, tmp_path, "--sample", 0)[1]["user"][0] == "maybe"
    verdict, reason = advised(run, tmp_path)[1]["user"]
    assert verdict == "no"
    assert reason.startswith("a value is in about 8")


def test_texts_that_were_cut_are_not_compared(run, tmp_path):
    rng = np.random.default_rng(6)
    for number in range(10):
        urls = [f"https://{'x' * 80}/{value}" for value in rng.integers(0, 1 << 60, 2000).tolist()]
        pq.write_table(pa.table({"url": urls}), tmp_path / f"{number}.parquet")
    document, advice = advised(run, tmp_path, "--sample", 0)
    assert advice["url"][0] == "maybe"
    assert (document["columns"][0]["same_min"], document["columns"][0]["same_max"]) == (None, None)


def test_embedded_filters_need_no_further_change(run, plain_ids, tmp_path):
    run("embed", plain_ids, "--column", "id", "-o", tmp_path / "out")
    for options in ([], ["--sample", "8"]):
        assert advised(run, tmp_path / "out", *options)[1]["id"] == (
            "no",
            "all 10 row groups with values have a filter already",
        )


def test_columns_and_broken_files(run, plain_ids, tmp_path):
    assert [*advised(run, plain_ids, "--column", "user", "--column", "id")[1]] == ["id", "user.key"]
    (tmp_path / "a.parquet").write_bytes((plain_ids / "0.parquet").read_bytes())
    (tmp_path / "b.parquet").write_bytes(b"no Parquet")
    done = run("advise", tmp_path, "--json")
    assert (done.code, len(done.errors)) == (2, 1)
    assert (done.document["totals"]["files"], len(done.document["errors"])) == (1, 1)
    empty = run("advise", tmp_path / "nowhere", "--json")
    assert (empty.code, empty.document["columns"]) == (2, [])
