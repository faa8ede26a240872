"""An index of zones of rows: which rows it names, how it is stored, and when it names whole files instead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_files import change_file_tables, read_manifest, seal_manifest

import parquet_bloom
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError
from parquet_bloom.file.identity import version_token
from parquet_bloom.lake.index_manifest import SegmentInfo
from parquet_bloom.lake.index_reports import Candidate, FileSelection
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.lake.units import Units, unite_ranges
from parquet_bloom.scan.plan.index_level import narrow_by_index

LAYOUTS: list[Any] = ["postings", "cuckoo"]
GROUP, ZONE = 100, 30


pytestmark = pytest.mark.usefixtures("settled_tokens")


def write(path: Path, ids: Sequence[Any], **options: Any) -> None:
    tags = pa.array([[one, one, one + 1] if one is not None and one % 2 else [] for one in ids], pa.list_(pa.int64()))
    texts = [None if one is None else f"text {one}" for one in ids]
    table = pa.table({"id": pa.array(ids, pa.int64()), "tags": tags, "text": texts})
    pq.write_table(table, path, row_group_size=GROUP, **options)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    rng = np.random.default_rng(4)
    for number in range(3):
        ids: list[Any] = rng.integers(0, 400, 250).tolist()
        ids[7] = None
        write(folder / f"{number}.parquet", ids, use_dictionary=number > 0)
    pq.write_table(pq.read_table(folder / "0.parquet").slice(0, 0), folder / "empty.parquet")
    return folder


def make(lake: Path, columns: Any = ("id", "tags", "text"), **options: Any) -> LakeIndex:
    options = {"granularity": "zone", "zone_rows": ZONE, "expected_values": 4000, **options}
    if options.get("layout") == "cuckoo":
        options["expected_values"] = None
    index = LakeIndex.create(lake.parent / "index", columns, lake=lake, **options)
    index.append()
    return index


def list_rows(candidate: Candidate) -> set[int]:
    """Return the rows of a file that a candidate names."""
    assert candidate.row_groups is not None
    assert candidate.rows is not None
    pairs = zip(candidate.row_groups, candidate.rows, strict=True)
    return {number * GROUP + row for number, ranges in pairs for start, stop in ranges for row in range(start, stop)}


def assert_names_zones(index: LakeIndex, lake: Path) -> None:
    """Assert that lookups name the zones that have a value, and hardly any others."""
    extra = 0
    for column in index.columns:
        holders: dict[Any, dict[str, set[int]]] = {}
        for path in sorted(lake.glob("*.parquet")):
            for row, value in enumerate(pq.read_table(path)[column].to_pylist()):
                for one in value if isinstance(value, list) else [] if value is None else [value]:
                    first = row // GROUP * GROUP + row % GROUP // ZONE * ZONE
                    end = min(first + ZONE, row // GROUP * GROUP + GROUP, 250)
                    holders.setdefault(one, {}).setdefault(str(path), set()).update(range(first, end))
        for number, (value, candidates) in enumerate(zip(holders, index.lookup(column, list(holders)), strict=True)):
            named = {candidate.path: list_rows(candidate) for candidate in candidates}
            for path, rows in holders[value].items():
                assert rows <= named[path]
            extra += sum(map(len, named.values())) - sum(map(len, holders[value].values()))
            if number % 7 == 0:
                assert sorted(index.lookup(column, [value])[0]) == sorted(candidates)
    assert extra < 20 * ZONE


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lookups_name_the_rows_of_zones(lake: Path, layout: Any) -> None:
    with make(lake, layout=layout) as index:
        assert index.stats().zone_rows == ZONE
        assert index.stats().units == 3 * (4 + 4 + 2) + 1
        assert_names_zones(index, lake)
        assert index.check(sample=4).problems == []
        assert index.lookup("id", [-5]) == [[]]


@pytest.mark.ci
@pytest.mark.parametrize("layout", LAYOUTS)
def test_zones_stay_those_of_their_files_in_merged_segments(lake: Path, layout: Any) -> None:
    with make(lake, layout=layout) as index:
        rng = np.random.default_rng(5)
        for number in range(3, 14):
            write(lake / f"{number}.parquet", rng.integers(0, 400, 250).tolist())
            index.append()
        (lake / "4.parquet").unlink()
        write(lake / "5.parquet", rng.integers(0, 400, 250).tolist())
        index.append()
        assert_names_zones(index, lake)
        index.remove([str(lake / "6.parquet")])
        index.compact(keep_seconds=0)
        index.append()
        index.compact(keep_seconds=0)
        assert_names_zones(index, lake)
        assert index.check(sample=20).problems == []


def test_zones_of_lists_count_rows(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    tags = [list(range(row, row + 50)) for row in range(0, 5000, 50)]  # 50 values a row
    pq.write_table(pa.table({"tags": tags}), tmp_path / "lake" / "a.parquet", data_page_size=100, write_batch_size=3)
    with make(tmp_path / "lake", ["tags"], zone_rows=10, expected_values=10**9) as index:
        for value in range(0, 5000, 61):
            (candidate,) = index.lookup("tags", [value])[0]
            row = value // 50
            assert (candidate.row_groups, candidate.rows) == ((0,), (((row // 10 * 10, row // 10 * 10 + 10),),))


@pytest.mark.parametrize("use_dictionary", [False, True])
@pytest.mark.parametrize("column", ["id", "tags", "text", "(id, text)"])
def test_zones_end_where_no_batch_of_a_decoder_ends(tmp_path: Path, column: str, use_dictionary: bool) -> None:
    (tmp_path / "lake").mkdir()
    rows = pa.array(range(25_000), pa.int64())
    texts = [f"text {row}" for row in range(25_000)]
    table = pa.table({"id": rows, "text": texts, "tags": [[row] for row in range(25_000)]})
    pq.write_table(table, tmp_path / "lake" / "a.parquet", use_dictionary=use_dictionary)
    with make(tmp_path / "lake", [column], zone_rows=10_000, expected_values=10**9) as index:
        for row in (0, 8191, 8192, 9999, 10_000, 16_384, 19_999, 20_000, 24_999):
            key = {"text": f"text {row}", "(id, text)": (row, f"text {row}")}.get(column, row)
            (candidate,) = index.lookup(column, [key])[0]
            start = row // 10_000 * 10_000
            assert candidate.rows == (((start, min(start + 10_000, 25_000)),),)


def test_zones_of_both_kinds_leave_what_both_leave(lake: Path, tmp_path: Path) -> None:
    from parquet_bloom import zones

    zones.build(lake, "text", tmp_path / "text.zones.arrow", rows_per_zone=20)
    row = pq.read_table(lake / "0.parquet").slice(55, 1).to_pylist()[0]
    where = f"id = {row['id']} AND text = '{row['text']}'"
    with make(lake, ["id"]) as index:
        report = parquet_bloom.prune(lake, where, index=index, zones=tmp_path / "text.zones.arrow")
        (plan,) = [file for file in report.files if file.path.endswith("0.parquet")]
        assert plan.row_groups[0].rows is not None
        assert (40, 60) in plan.row_groups[0].rows  # of 30 to 60, and of 40 to 60
        assert all(stop <= 30 or start >= 40 for start, stop in plan.row_groups[0].rows)
        found = parquet_bloom.read_table(lake, where=where, index=index, zones=tmp_path / "text.zones.arrow")
        assert row in found.to_pylist()


def test_filters_that_come_and_go_change_no_zone(lake: Path) -> None:
    with make(lake) as index:
        parquet_bloom.embed(lake / "0.parquet", ["id", "text"])
        index.refresh()
        assert index.unindexed == []
        assert_names_zones(index, lake)
        for value in range(0, 400, 17):
            with_index = parquet_bloom.read_table(lake, where=f"id = {value}", index=index)
            assert with_index.equals(parquet_bloom.read_table(lake, where=f"id = {value}"))


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"granularity": "file", "zone_rows": 10}, "zone_rows are of the granularity 'zone', not of 'file'"),
        ({"granularity": "row_group", "zone_rows": 10}, "not of 'row_group'"),
        ({"granularity": "zone", "zone_rows": 0}, "zone_rows must be an integer from 1"),
        ({"granularity": "zone", "zone_rows": 1 << 40}, "zone_rows must be an integer from 1"),
        ({"granularity": "zone", "zone_rows": "9"}, "got '9'"),
        ({"granularity": "zones"}, "granularity is 'file', 'row_group' or 'zone', not 'zones'"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParquetBloomError, match=message):
        LakeIndex.create(tmp_path / "index", "id", **options)
    assert not (tmp_path / "index").exists()


def test_values_in_memory_have_no_zones(tmp_path: Path) -> None:
    with LakeIndex.create(tmp_path / "index", "id", granularity="zone") as index:
        with pytest.raises(ParquetBloomError, match="index of files only, not of zones of 8,192 rows"):
            index.append_batches([("a.parquet", {"id": pa.array([1])})])
        assert index.stats().files == 0


def test_a_file_of_too_many_zones_is_not_indexed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.lake.layouts.most_units", lambda layout, settings: 5)
    failed: list[ParquetBloomError] = []
    with LakeIndex.create(lake.parent / "index", "id", lake=lake, granularity="zone", zone_rows=ZONE) as index:
        index.append(on_error=failed.append)
        assert [error.problem for error in failed] == ["a file of 10 zones of 30 rows has too many for this index"] * 3
        assert {candidate.path for candidate in index.lookup("id", [1])[0]} == {
            str(lake / f"{number}.parquet") for number in range(3)
        }


# ------------------------------------------------------------------------------------------------------------ storage


def test_versions_that_do_not_know_zones_refuse(lake: Path) -> None:
    make(lake, ["id", "(id, text)"]).close()
    path, fields = read_manifest(lake.parent / "index")
    assert (fields["format"], fields["zone_rows"]) == (3, ZONE)  # older versions know 1, and 2 of expressions
    with LakeIndex.open(lake.parent / "index") as index:
        assert index.columns == ("id", "(id, text)")
        assert index.state.manifest.expressions
    changes: list[dict[str, Any]] = [
        {"format": 1},
        {"format": 2},
        {"format": 4},
        {"zone_rows": None},
        {"zone_rows": 0},
        {"zone_rows": "30"},
        {"zone_rows": 2 * ZONE},  # zones of other rows than the table of files has
        {"granularity": "row_group"},
        {"granularity": "file"},
    ]
    for change in changes:
        seal_manifest(path, {name: value for name, value in {**fields, **change}.items() if value is not None})
        with pytest.raises(BrokenIndexError):
            LakeIndex.open(lake.parent / "index")


@pytest.mark.parametrize("rows", [None, [[100, 100, 80]], [[100, 100, -50]], [[250]], [[None, 100, 50]], ["x"]])
def test_a_table_of_other_rows_is_refused(tmp_path: Path, rows: Any) -> None:
    (tmp_path / "lake").mkdir()
    write(tmp_path / "lake" / "0.parquet", list(range(250)))
    make(tmp_path / "lake").close()

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("row_counts")
        kind = pa.string() if rows == ["x"] else pa.list_(pa.int64())
        left = table.remove_column(at)
        return left if rows is None else left.add_column(at, "row_counts", pa.array(rows, kind))

    change_file_tables(tmp_path / "index", change)
    with pytest.raises(BrokenIndexError):
        LakeIndex.open(tmp_path / "index")


# ----------------------------------------------------------------------------------------------------------- in doubt


def test_other_row_groups_than_indexed_are_read_whole(lake: Path) -> None:
    report = parquet_bloom.prune(lake / "0.parquet", "id >= 0")
    (plan,) = report.files
    stamp = version_token(plan.identity)
    selection = FileSelection(True, True, frozenset([1]), "", stamp, {1: ((0, 30),)}, (100, 100, 50))
    narrowed = narrow_by_index(plan, selection)
    assert [one.rows if one.read else "skipped" for one in narrowed.row_groups] == ["skipped", ((0, 30),), "skipped"]
    for other in (
        selection._replace(row_counts=(100, 150)),
        selection._replace(row_counts=(100, 99, 51)),
        selection._replace(stamp=b"another"),
        selection._replace(row_groups=None),
    ):
        assert narrow_by_index(plan, other) == plan


def test_what_was_ruled_out_before_stays_so(lake: Path) -> None:
    (plan,) = parquet_bloom.prune(lake / "0.parquet", "id >= 0").files
    first = plan.row_groups[0]
    by = frozenset(["index"])
    assert first.narrow(((0, 30), (60, 90)), by, "why").narrow(((20, 70),), by, "why").rows == ((20, 30), (60, 70))
    nothing = replace(first, rows=((0, 30),)).narrow(((30, 60),), by, "why")
    assert (nothing.read, nothing.by, nothing.reason, nothing.rows) == (False, by, "why", None)


def test_a_file_that_changes_meanwhile_is_read_whole(lake: Path) -> None:
    make(lake).close()
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    key = pq.read_table(lake / "1.parquet")["id"][0].as_py()
    assert dataset.get("id", key).num_rows
    ids = [*range(1000, 1240), key]
    temporary = lake / "_1.parquet"
    pq.write_table(pa.table({"id": ids, "tags": [[]] * 241, "text": ["x"] * 241}), temporary, row_group_size=37)
    os.replace(temporary, lake / "1.parquet")
    assert "x" in dataset.get("id", key)["text"].to_pylist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_part_names_all_rows(lake: Path, layout: Any) -> None:
    with make(lake, ["id"], layout=layout) as index:
        part: SegmentInfo = index.state.manifest.segments[0]
        name = part.parts[0].slices[0].name
    path = lake.parent / "index" / name
    data = bytearray(path.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    path.write_bytes(data)
    with LakeIndex.open(lake.parent / "index") as index:
        answers = index.lookup("id", [5, 6])
        assert answers.doubts
        for number in range(3):
            for answer in answers:
                (candidate,) = [one for one in answer if one.path.endswith(f"{number}.parquet")]
                assert list_rows(candidate) == set(range(250))


def test_ranges_are_united() -> None:
    assert unite_ranges([(5, 9), (0, 3), (3, 4), (8, 12), (20, 21)]) == ((0, 4), (5, 12), (20, 21))
    assert unite_ranges([]) == ()


def test_units_of_row_groups_without_rows() -> None:
    units = Units("zone", 10)
    counts = (0, 25, 0, 10, 0)
    assert units.count(counts) == 4
    assert [units.find_first(number, counts) for number in range(5)] == [0, 0, 3, 3, 4]
    assert units.find_rows([0, 2, 3], counts) == {1: ((0, 10), (20, 25)), 3: None}
    assert units.find_rows([0], ()) == {}
    assert units.find_rows([0], (0, 0)) == {}
    array = pa.array([counts, (), (0,), (31,)], pa.list_(pa.int64()))
    assert units.count_all(array).tolist() == [4, 1, 1, 4]
    assert units.count_all(array.slice(1)).tolist() == [1, 1, 4]
