"""Test the chain of evaluators that plans a scan: order, laziness, what early evidence leaves to later ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scans import elsewhere

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicate import parse
from parquet_bloom.scan.model.folder_partitions import Partitions, parse_folder
from parquet_bloom.scan.model.scan_plan import (
    INDEX,
    Evaluator,
    FilePlan,
    FileScan,
    RowGroupPlan,
    ScanPlan,
    SourceListing,
)
from parquet_bloom.scan.plan.plan_scan import Evidence, plan_scan
from parquet_bloom.scan.scan import find_row_ranges
from parquet_bloom.scan.scan_options import Limits, ScanOptions
from parquet_bloom.storage import Entry, list_entries

FILES = 10
OPTIONS = ScanOptions()


class Stub:
    """An evaluator that does something to each file, and records what it was given.

    Attributes
    ----------
    taken : the files that were taken from the evaluator before, by name.
    is_closed : whether its generator has ended.
    """

    def __init__(self, act: Callable[[FileScan], None] = lambda file: None):
        self._act = act
        self.taken: list[str] = []
        self.is_closed = False

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        try:
            for file in files:
                self.taken.append(Path(file.entry.path).name)
                self._act(file)
                yield file
        finally:
            self.is_closed = True


@pytest.fixture
def lake(tmp_path: Path) -> list[Entry]:
    """Ten files with two row groups; file n has the ids 10 n to 10 n + 9 without statistics."""
    for number in range(FILES):
        folder = tmp_path / f"half={number // 5}"
        folder.mkdir(exist_ok=True)
        table = pa.table({"id": range(10 * number, 10 * number + 10)})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=5, write_statistics=False)
    return list_entries(str(tmp_path))


def plan(
    entries: list[Entry], where: str | None, options: ScanOptions = OPTIONS, files: Any = None, **evidence: Evaluator
) -> ScanPlan:
    partitions = Partitions([entry.path for entry in entries], str(Path(entries[0].path).parents[1]))
    node = None if where is None else parse(where)
    return plan_scan(SourceListing(entries, files, partitions), node, options, ScanPlan, None, Evidence(**evidence))


def number(path: str) -> int:
    return int(Path(path).stem)


def names(files: list[FilePlan]) -> list[int]:
    return [number(file.path) for file in files]


def number_of(file: FileScan) -> int:
    return number(file.entry.path)


def test_files_that_are_ruled_out_are_not_opened(lake: list[Entry]) -> None:
    def rule_out(file: FileScan) -> None:
        if number_of(file) % 2:
            file.rule_out("it is odd", INDEX)

    for entry in lake[1::2]:
        Path(entry.path).unlink()  # an error, if it were opened
    result = plan(lake, "id = 5", index=Stub(rule_out))
    assert names(result.files) == [*range(FILES)]
    assert [file.unopened for file in result.files] == ["", "it is odd"] * 5
    assert result.unopened_by == {INDEX: 5}


@pytest.mark.parametrize("filesystem", [None, elsewhere(Path("/"))], ids=["together", "one by one"])
def test_what_is_learned_before_narrows_the_plan(lake: list[Entry], filesystem: Any) -> None:
    def skip_first(file_plan: FilePlan) -> FilePlan:
        skipped = RowGroupPlan(0, False, frozenset({INDEX}), "the first one", num_rows=5)
        return replace(file_plan, row_groups=(skipped, *file_plan.row_groups[1:]))

    def narrow(file: FileScan) -> None:
        file.narrow = skip_first

    result = plan(lake, "id >= 0", ScanOptions(threads=3), filesystem, index=Stub(narrow))
    assert list(map(number, result.selected)) == [*range(FILES)]
    assert set(map(tuple, result.selected.values())) == {(1,)}
    assert result.skipped_by == {INDEX: FILES}


def test_files_are_taken_as_their_plans_are_needed(lake: list[Entry]) -> None:
    first, last = Stub(), Stub()

    def stop(done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupt:
        plan(lake, "id = 5", ScanOptions(progress=stop, limits=Limits(files_per_batch=3)), index=first, zones=last)
    # While the exception refers to the frames, only closing ends the evaluators.
    assert first.is_closed
    assert last.is_closed
    assert (len(first.taken), len(last.taken)) == (6, 4)
    del interrupt


def test_other_evidence_takes_the_place_of_footers(lake: list[Entry]) -> None:
    def decide(file: FileScan) -> None:
        if number_of(file) == 3:
            file.error = ParquetBloomError("it is out of reach", path=file.entry.path)
        else:
            file.set_plan(FilePlan(file.entry.path, (RowGroupPlan(0, number_of(file) == 7),)))

    errors: list[ParquetBloomError] = []
    options = ScanOptions(on_error=errors.append, named=lambda name: True)
    result = plan(lake, "id = 5", options, footers=Stub(decide))
    assert list(map(number, result.selected)) == [7]
    assert [error.problem for error in errors] == ["it is out of reach"]
    assert 3 not in names(result.files)
    with pytest.raises(ParquetBloomError, match="out of reach"):
        plan(lake, "id = 5", footers=Stub(decide))


def test_pages_of_a_file_that_has_changed_are_all_read(lake: list[Entry]) -> None:
    path = lake[3].path
    pq.write_table(pa.table({"id": range(30, 40)}), path, row_group_size=5, data_page_size=1, write_page_index=True)
    report = parquet_bloom.prune(path, "id = 33")
    assert find_row_ranges(report)[path].keys() == {0}
    pq.write_table(pa.table({"id": [33] * 9}), path, row_group_size=3)
    assert find_row_ranges(report) == {path: {number: [(0, 3)] for number in range(3)}}
    Path(path).unlink()
    errors: list[ParquetBloomError] = []
    assert find_row_ranges(report, on_error=errors.append) == {}
    assert [error.path for error in errors] == [path]


@pytest.mark.parametrize(
    ("folder", "pair"),
    [
        ("day=2026-01-31", ("day", "2026-01-31")),
        ("a=b=c", ("a", "b=c")),
        ("a=", ("a", "")),
        ("a%3Db=c%2Fd", ("a=b", "c/d")),
        ("a=__HIVE_DEFAULT_PARTITION__", ("a", None)),
        ("a=__HIVE_DEFAULT_PARTITION__%20", ("a", "__HIVE_DEFAULT_PARTITION__ ")),
        ("day", None),
    ],
)
def test_folders_of_partitions(folder: str, pair: tuple[str, str | None] | None) -> None:
    assert parse_folder(folder, unquote) == pair


def test_plans_of_many_row_groups_are_made_when_they_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(400)}), path, row_group_size=10)
    scan = parquet_bloom.dataset(path).scan("id IN (25, 31, 305)")
    assert scan.to_arrow()["id"].to_pylist() == [25, 31, 305]
    (plan,) = scan.plan().files
    assert "row_groups" not in vars(plan)
    read = plan.read_groups
    assert plan.selected == [group.row_group for group in read] == [2, 3, 30]
    assert [group.row_group for group in plan.row_groups] == [*range(40)]
    assert [group for group in plan.row_groups if group.read] == [*read]
    assert plan.row_groups[3] is read[1]
    assert plan.row_groups[0].reason == "'id' lies outside of its range"
    assert {group.num_rows for group in plan.row_groups} == {10}

    (unseen,) = parquet_bloom.dataset(path).scan("id IN (25, 31, 305)").plan().files
    assert pickle.loads(pickle.dumps(unseen)) == unseen == plan
    assert hash(unseen) == hash(plan)
    whole = FilePlan(plan.path, plan.row_groups, identity=plan.identity)
    assert repr(whole) == repr(plan)
    assert whole == replace(unseen, format=unseen.format)
    with pytest.raises(AttributeError, match="no attribute 'row_group'"):
        _ = unseen.row_group
