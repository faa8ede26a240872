"""Test `prune`, `read_table` and others with zones: the rows that these leave, and when they are not trusted."""

from __future__ import annotations

import gc
import io
import os
import random
import shutil
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.exact_zones import ExactZones, every
from support.scans import BY_PAGES, scan

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import BrokenZonesError, ParquetBloomError, StorageError
from parquet_bloom.file.identity import compare_contents
from parquet_bloom.predicate import parse
from parquet_bloom.scan.model.folder_partitions import Partitions
from parquet_bloom.scan.model.row_selection import intersect_ranges
from parquet_bloom.scan.model.scan_plan import SourceListing
from parquet_bloom.scan.plan import zone_level as evaluate_zones
from parquet_bloom.scan.plan.plan_scan import Evidence, plan_scan
from parquet_bloom.scan.plan.zone_level import open_zone_indexes
from parquet_bloom.scan.plan_document import row_group_state
from parquet_bloom.scan.row_reader import RowReader
from parquet_bloom.scan.scan import find_row_ranges
from parquet_bloom.scan.scan_options import ScanOptions
from parquet_bloom.storage import Entry
from parquet_bloom.types import PruneReport

ROWS, GROUP, ZONE = 400, 100, 10
IDS = random.Random(5).sample(range(1000, 10**9), ROWS)


pytestmark = pytest.mark.usefixtures("settled_tokens")


def tick() -> None:
    time.sleep(0.02)


def write(path: Path, ids: list[Any] = IDS, **options: Any) -> Path:
    """A file whose ranges say nothing of `id`, and all of `n`."""
    table = {"id": ids, "n": list(range(len(ids))), "name": [f"n{value}" for value in ids]}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table(table), path, **{"row_group_size": GROUP, "write_statistics": ["n"], "use_dictionary": False} | options
    )
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "lake" / "a.parquet")


def build(paths: Any, column: str = "id", rows_per_zone: int = ZONE, name: str = "") -> str:
    first = Path(paths if isinstance(paths, str | Path) else paths[0])
    target = (first if first.is_dir() else first.parent).parent / f"{name or column}.zones.parquet"
    zones.build(paths, column, target, rows_per_zone=rows_per_zone, fpp=1e-6)
    return str(target)


def zone(row: int, size: int = ZONE) -> tuple[int, int]:
    start = row % GROUP // size * size
    return start, start + size


def selected_rows(report: PruneReport) -> dict[int, Any]:
    return {one.row_group: one.rows for one in report.files[0].row_groups if one.read}


# ------------------------------------------------------------------------------------------------ what they rule out


def test_only_the_zone_of_a_value_is_left(file: Path) -> None:
    path = build(file)
    with zones.open(path) as opened:
        for given in (path, Path(path), opened, [path], (opened,)):
            for row in (0, 99, 137, 399):
                where = f"id = {IDS[row]}"
                report = parquet_bloom.prune(file, where, zones=given)
                assert selected_rows(report) == {row // GROUP: (zone(row),)}
                assert (report.selected, report.zone_doubts) == ({str(file): [row // GROUP]}, [])
                assert report.skipped_by == {"zones": 3}
                result = parquet_bloom.read_table(file, where, zones=given)
                assert result.to_pylist() == [{"id": IDS[row], "n": row, "name": f"n{IDS[row]}"}]
                (batch,) = parquet_bloom.dataset(file, zones=given).scan(where, ["n"]).to_reader()
                assert batch.to_pylist() == [{"n": row}]
                ranges = parquet_bloom.dataset(file, zones=given).scan(where).row_ranges()
                assert ranges == {str(file): {row // GROUP: [zone(row)]}}


def test_report_contents(file: Path) -> None:
    report = parquet_bloom.prune(file, f"id = {IDS[137]} OR id = {IDS[155]} OR n = 399", zones=build(file))
    assert "; zones leave 20 of 100 rows of these; " in str(report)
    assert "\n  0: skipped by zones: its zones say: no row of it matches\n" in report.explain()
    assert selected_rows(report) == {1: (zone(137), zone(155)), 3: None}
    message = report.explain()
    assert "\n  1: read, 20 of 100 rows by zones\n" in message
    assert "\n  3: read, 100 rows" in message
    skipped = report.files[0].row_groups[0]
    assert (skipped.read, skipped.rows, skipped.num_left) == (False, None, 100)
    one = report.files[0].row_groups[1]
    assert (one.read, one.by, one.reason, one.num_rows, one.num_left) == (True, frozenset(), "", 100, 20)
    assert "zones leave 20 rows" in report.to_html()
    none = parquet_bloom.prune(file, "id = 5", zones=build(file))
    assert none.selected == {}
    assert none.files[0].skipped_by == {"zones": 4}
    assert row_group_state(none.files[0].row_groups[0]).key == "zones"
    assert "skipped by zones" in none.to_html()
    assert "zones: 4" in none._repr_html_()


@pytest.mark.ci
@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (f"id = {IDS[3]} OR id = {IDS[21]}", [(0, 10), (20, 30)]),
        (f"id IN ({IDS[3]}, {IDS[9]}, {IDS[10]}, 7)", [(0, 20)]),
        (f"id = {IDS[3]} AND name = 'n{IDS[4]}'", [(0, 8)]),
        (f"id = {IDS[3]} AND name = 'n{IDS[9]}'", [(8, 10)]),
        (f"id = {IDS[3]} OR name = 'n{IDS[17]}'", [(0, 10), (16, 24)]),
        (f"id = {IDS[3]} AND (name = 'n{IDS[17]}' OR n = 3)", [(0, 10)]),
        (f"id = {IDS[3]} AND n > 2", [(0, 10)]),
        (f"id = {IDS[3]} AND NOT name = 'x'", [(0, 10)]),
        (f"(id = {IDS[3]} OR n > 1000) AND id IS NOT NULL", [(0, 10)]),
        (f"NOT (id <> {IDS[3]} OR name <> 'n{IDS[3]}')", [(0, 8)]),
    ],
)
def test_zones_of_two_columns_are_taken_together(file: Path, where: str, rows: list[tuple[int, int]]) -> None:
    given = [build(file), build(file, "name", 8)]
    report = parquet_bloom.prune(file, f"n < 100 AND ({where})", zones=given)
    assert selected_rows(report) == {0: tuple(rows)}
    assert parquet_bloom.read_table(file, where, zones=given).equals(parquet_bloom.read_table(file, where))


@pytest.mark.parametrize("where", ["id > 5", f"id <> {IDS[3]}", f"NOT id = {IDS[3]}", "n = n", "name = 'x'", "id < 5"])
def test_unanswered_queries_are_as_without_zones(file: Path, where: str) -> None:
    with_zones = None
    try:
        without = parquet_bloom.prune(file, where)
        with_zones = parquet_bloom.prune(file, where, zones=build(file))
    except ParquetBloomError:
        assert where == "n = n"
        return
    assert with_zones.files == without.files


def test_nulls(tmp_path: Path) -> None:
    ids: list[Any] = [None if 20 <= row < 25 or row >= 300 else row for row in range(ROWS)]
    path = write(tmp_path / "lake" / "a.parquet", ids, write_statistics=False, use_dictionary=False)
    given = build(path)
    assert parquet_bloom.dataset(path, zones=given).scan("id IS NULL").row_ranges() == {
        str(path): {0: [(20, 30)], 3: [(0, 100)]}
    }
    assert parquet_bloom.read_table(path, "id IS NULL", zones=given).num_rows == 105
    assert selected_rows(parquet_bloom.prune(path, "id IS NULL OR id = 7", zones=given)) == {
        0: ((0, 10), (20, 30)),
        3: None,
    }
    assert selected_rows(parquet_bloom.prune(path, "id IS NOT NULL", zones=given)) == dict.fromkeys(range(4))


def test_values_of_many_forms(tmp_path: Path) -> None:
    nan = float("nan")
    columns: dict[str, tuple[pa.Array, Any]] = {
        "f": (pa.array([0.0] * 10 + [-0.0] * 10 + [nan] * 10 + [1.5] * 10), [(0.0, 20), (-0.0, 20), (1.5, 10), (2, 0)]),
        "i8": (pa.array([-1] * 10 + [127] * 30, pa.int8()), [(-1, 10), (127, 30), (255, 0)]),
        "u16": (pa.array([65535] * 10 + [1] * 30, pa.uint16()), [(65535, 10), (-1, 0)]),
        "s": (pa.array(["ä"] * 10 + [""] * 30).dictionary_encode(), [("ä", 10), ("", 30), ("a", 0)]),
        "t": (pa.array([10**15] * 10 + [0] * 30, pa.timestamp("us")), [("2001-09-09 01:46:40", 10)]),
        "b": (pa.array([b"\0"] * 10 + [b""] * 30), [(b"\0", 10), (b"", 30)]),
    }
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(
        pa.table({name: array for name, (array, _) in columns.items()}),
        path,
        write_statistics=False,
        use_dictionary=False,
    )
    for name, (_, questions) in columns.items():
        given = build(path, name)
        for value, count in questions:
            report = parquet_bloom.prune(path, [(name, "=", value)], zones=given)
            assert sum(one.num_left for one in report.files[0].row_groups if one.read) == count, (name, value)
            assert parquet_bloom.read_table(path, [(name, "=", value)], zones=given).num_rows == count
        if name == "f":
            report = parquet_bloom.prune(path, [(name, "in", [nan])], zones=given)
            assert selected_rows(report) == {0: None}


def test_columns_in_structs(tmp_path: Path) -> None:
    rows = [None if row == 5 else {"id": None if row == 15 else row} for row in range(40)]
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"user": rows}), path, write_statistics=False, use_dictionary=False)
    given = build(path, "user.id")
    assert selected_rows(parquet_bloom.prune(path, "user.id = 33", zones=given)) == {0: ((30, 40),)}
    assert selected_rows(parquet_bloom.prune(path, "user.id IS NULL", zones=given)) == {0: ((0, 20),)}
    assert parquet_bloom.read_table(path, "user.id IS NULL", zones=given).num_rows == 2


def test_case_folding(file: Path) -> None:
    given = build(file)
    report = parquet_bloom.prune(file, f"ID = {IDS[137]}", case_sensitive=False, zones=given)
    assert selected_rows(report) == {1: (zone(137),)}
    assert find_row_ranges(report) == {str(file): {1: [zone(137)]}}


def test_folders_have_their_say_first(tmp_path: Path) -> None:
    paths = [write(tmp_path / "lake" / f"day={day}" / "a.parquet", IDS[day::2]) for day in (0, 1)]
    given = build(tmp_path / "lake")
    where = f"(day = 0 AND id = {IDS[6]}) OR day = 1"
    report = parquet_bloom.prune(tmp_path / "lake", where, zones=given)
    decisions = {file.path: file.row_groups for file in report.files}
    assert [one.rows for one in decisions[str(paths[0])] if one.read] == [(zone(3),)]
    assert [one.rows for one in decisions[str(paths[1])]] == [None, None]  # every row of it matches
    result = parquet_bloom.read_table(tmp_path / "lake", where, zones=given)
    assert result.num_rows == 1 + ROWS // 2


def test_several_indexes_over_one_column(tmp_path: Path) -> None:
    paths = [write(tmp_path / "lake" / f"{number}.parquet", IDS[number::2]) for number in (0, 1)]
    third = write(tmp_path / "lake" / "2.parquet", [7] * 100)
    given = [build(paths[0], name="0"), build(paths[1], name="1")]
    report = parquet_bloom.prune(tmp_path / "lake", f"id IN ({IDS[6]}, {IDS[7]})", zones=given)
    rows = {file.path: [one.rows for one in file.row_groups if one.read] for file in report.files}
    assert rows == {str(paths[0]): [(zone(3),)], str(paths[1]): [(zone(3),)], str(third): [None]}
    assert report.zone_doubts == []  # a file without zones is nothing odd
    assert parquet_bloom.prune(third, "id = 8", zones=given).zone_doubts == [
        f"{name}: it has no zones of the files that are read" for name in given
    ]
    other = parquet_bloom.prune(third, "id = 8", zones=zones.open(given[0])).zone_doubts
    assert other == [f"{given[0]}: it has no zones of the files that are read"]


def test_with_an_index_of_the_lake(tmp_path: Path) -> None:
    paths = [write(tmp_path / "lake" / f"{number}.parquet", IDS[number::2]) for number in (0, 1)]
    given = build(tmp_path / "lake")
    with parquet_bloom.LakeIndex.create(tmp_path / "index", ["id"], granularity="row_group") as index:
        index.append(tmp_path / "lake")
        for queried in (tmp_path / "lake", None):
            report = parquet_bloom.prune(queried, f"id = {IDS[6]}", index=index, zones=given)
            assert [file.path for file in report.files if file.unopened] == [str(paths[1])]
            assert report.skipped_by == {"index": 1}
            assert selected_rows(report) == {0: (zone(3),)}


def test_polars(file: Path) -> None:
    pl = pytest.importorskip("polars")
    given = build(file)
    for zones_given in (given, zones.open(given)):
        frame = parquet_bloom.scan_polars(file, zones=zones_given)
        result = frame.filter(pl.col("id") == IDS[137]).collect()
        assert result.rows() == [(IDS[137], 137, f"n{IDS[137]}")]
        assert frame.filter(pl.col("id") == IDS[137]).select("n").collect().rows() == [(137,)]
        assert frame.filter((pl.col("id") == IDS[137]) & (pl.col("n") < 5)).collect().is_empty()
        assert frame.head(7).filter(pl.col("id") == IDS[3]).collect().height == 1
        assert frame.collect().height == ROWS


def test_others_take_the_whole_row_group(file: Path) -> None:
    report = parquet_bloom.prune(file, f"id = {IDS[137]}", zones=build(file))
    (decision,) = report.files
    assert RowReader(report).count_matches(decision) == {1: 1}
    assert "1 row group" in report.to_html(check=True)


# --------------------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize("by_path", [False, True])
def test_only_pages_that_cover_the_zone_are_read(tmp_path: Path, by_path: bool) -> None:
    """As predicted: of the key the pages under one zone; of the others the one page with the row."""
    rows, per_zone, per_page = 60_000, 2048, 3000
    rng = np.random.default_rng(1)
    keys = rng.permutation(rows).astype(np.int64) << 20
    columns = {"key": keys} | {name: rng.integers(0, 2**62, rows) for name in ("a", "b", "c", "d")}
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    options = {"row_group_size": rows, "max_rows_per_page": per_page, "use_dictionary": False, "compression": "none"}
    pq.write_table(
        pa.table(columns), path, write_page_index=True, write_statistics=False, **{"use_dictionary": False} | options
    )
    built = build(path, "key", per_zone)
    given = built if by_path else zones.open(built)
    headers = 5 * 256 * (rows // per_page)
    for row in (5, 30_000, 59_999):
        found = parquet_bloom.dataset(path, zones=given).scan(f"key = {keys[row]}")
        assert found.to_arrow().to_pylist() == [{name: int(values[row]) for name, values in columns.items()}]
        first = row // per_zone * per_zone
        last = min(first + per_zone, rows) - 1
        covering = last // per_page - first // per_page + 1
        assert found.plan().data_bytes_read <= headers + (covering + 4) * 8 * (per_page + 10)
    absent = parquet_bloom.read_table(path, "key = 77", zones=given)
    assert (absent.num_rows, absent.column_names) == (0, list(columns))


def test_false_positives_cost_a_page_each(tmp_path: Path) -> None:
    path = write(tmp_path / "lake" / "a.parquet")

    class Liar(ExactZones):
        def check(self, zones: Any, hashes: Any) -> Any:
            return super().check(zones, hashes) | np.isin(zones, [4, 25])

    given = Liar("id", {path: every(GROUP, ZONE, range(4))})
    report = parquet_bloom.prune(path, f"id = {IDS[7]}", zones=given)
    assert selected_rows(report) == {0: ((0, 10), (40, 50)), 2: ((50, 60),)}
    assert parquet_bloom.read_table(path, f"id = {IDS[7]}", zones=given)["n"].to_pylist() == [7]


def test_only_zones_of_row_groups_that_are_read_are_probed(file: Path) -> None:
    given = ExactZones("id", {file: every(GROUP, ZONE, range(4))})
    parquet_bloom.prune(file, f"id = {IDS[7]} AND n >= 300", zones=given)
    assert given.probed_zones == [list(range(30, 40))]
    given.probed_zones.clear()
    parquet_bloom.prune(file, f"id = {IDS[7]} OR n >= 300", zones=given)
    assert given.probed_zones == [list(range(40))]
    given.probed_zones.clear()
    for where in ("id > 5", "n = 7", f"n = 5000 AND id = {IDS[7]}"):
        parquet_bloom.prune(file, where, zones=given)
    assert given.probed_zones == []


def test_pages_and_zones_leave_what_both_leave(tmp_path: Path) -> None:
    path = write(
        tmp_path / "lake" / "a.parquet", IDS * 50, row_group_size=20_000, write_page_index=True, max_rows_per_page=70
    )
    found = scan(path, f"id = {IDS[88]} AND n >= 490 AND n < 900", limits=BY_PAGES, zones=build(path, rows_per_zone=6))
    ((ranges,),) = [result.values() for result in found.row_ranges().values()]
    assert ranges == [(490, 492), (888, 894)]  # of a zone from 486 on, what is in the page from 490 on
    assert found.to_arrow()["n"].to_pylist() == [888]


# -------------------------------------------------------------------------------------------------- shapes of zones


def test_rows_outside_of_every_zone_are_kept(file: Path) -> None:
    given = ExactZones("id", {file: [(0, 0, 10), (0, 20, 10), (1, 90, 50), (2, 0, 100), (7, 0, 100), (3, 100, 5)]})
    assert selected_rows(parquet_bloom.prune(file, f"id = {IDS[25]}", zones=given)) == {
        0: ((10, 100),),
        1: ((0, 90),),
        3: None,
    }
    assert parquet_bloom.read_table(file, f"id = {IDS[55]}", zones=given)["n"].to_pylist() == [55]


def test_zones_over_one_another(file: Path) -> None:
    given = ExactZones("id", {file: [(0, 0, 100), (0, 20, 10), (0, 25, 50)]})
    for row in range(0, 100, 3):
        assert parquet_bloom.read_table(file, f"id = {IDS[row]}", zones=given)["n"].to_pylist() == [row]


def test_zones_of_list_elements_answer_contains_only(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [None if row == 3 else [] if row == 13 else [row, row * 1000] for row in range(40)]
    pq.write_table(pa.table({"tags": rows}), path, write_statistics=False, use_dictionary=False)
    with parquet_bloom.open(path) as file:
        (leaf,) = file.columns
    given = ExactZones("tags", {path: every(40, 10)})
    given.column = leaf
    assert selected_rows(parquet_bloom.prune(path, "array_contains(tags, 17000)", zones=given)) == {0: ((10, 20),)}
    for where in ("tags IS NULL", "tags IS NOT NULL", "NOT array_contains(tags, 5)"):
        assert selected_rows(parquet_bloom.prune(path, where, zones=given)) == {0: None}, where


def test_zones_of_another_type_are_not_used(file: Path) -> None:
    given = ExactZones("id", {file: every(GROUP, ZONE, range(4))})
    with parquet_bloom.open(file) as opened:
        other = opened.column_type("name")
    object.__setattr__(given.file(0), "column_type", other)
    report = parquet_bloom.prune(file, f"id = {IDS[7]}", zones=given)
    assert report.selected_row_groups == 4
    assert report.zone_doubts == [
        f"{file}: column 'id': its zones are of BYTE_ARRAY STRING, the column is of INT64: they are not used"
    ]


# -------------------------------------------------------------------------------------------------- changed files


class Verified(list[str]):
    """Files whose contents were compared, and what happens before each comparison."""

    before: Callable[[], None] = staticmethod(lambda: None)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> Verified:
    seen = Verified()

    def noted(entry: Any, *others: Any) -> Any:
        seen.append(entry.path)
        seen.before()
        return compare_contents(entry, *others)

    monkeypatch.setattr(evaluate_zones, "compare_contents", noted)
    return seen


def restore(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    os.replace(copy, path)


@pytest.mark.ci
@pytest.mark.parametrize(
    "change",
    [
        lambda path: parquet_bloom.embed(path, columns=["id", "name"]),
        lambda path: (parquet_bloom.embed(path, columns=["id"]), parquet_bloom.drop(path)),
        os.utime,
        restore,
        lambda path: os.chmod(path, 0o600),
    ],
    ids=["embed", "drop", "touch", "restore", "chmod"],
)
def test_files_with_the_same_values_keep_their_zones(
    file: Path, verified: Verified, change: Callable[[Path], Any]
) -> None:
    path = build(file)
    where = f"name >= '' AND id = {IDS[137]}"
    with zones.open(path) as given:
        assert selected_rows(parquet_bloom.prune(file, where, zones=given)) == {1: (zone(137),)}
        assert verified == []
        tick()
        change(file)
        for _ in range(3):
            report = parquet_bloom.prune(file, where, zones=given)
            assert (selected_rows(report), report.zone_doubts) == ({1: (zone(137),)}, [])
        assert verified == [str(file)]  # once
        tick()
        os.utime(file)
        assert selected_rows(parquet_bloom.prune(file, where, zones=given)) == {1: (zone(137),)}
        assert verified == [str(file)] * 2
    assert parquet_bloom.read_table(file, where, zones=path)["n"].to_pylist() == [137]
    assert len(verified) == 3  # by each that opens the index anew
    del given
    gc.collect()
    assert not evaluate_zones._VERIFIED


def test_times_that_tell_no_change_are_not_remembered(file: Path, verified: Verified) -> None:
    """A file that was written just now, as another clock says, is read by each query: a change would not show."""
    with zones.open(build(file)) as given:
        tick()
        os.utime(file, (time.time() + 3600, time.time() + 3600))
        for _ in range(2):
            assert selected_rows(parquet_bloom.prune(file, f"id = {IDS[137]}", zones=given)) == {1: (zone(137),)}
    assert verified == [str(file)] * 2


def rewrite(path: Path) -> None:
    write(path, IDS[::-1])


def overwrite_in_place(path: Path) -> None:
    """Other values in a file of the same size, whose modification time is set back."""
    before = os.stat(path)
    data = bytearray(path.read_bytes())
    needle, other = (int(value).to_bytes(8, "little") for value in (IDS[137], IDS[137] + 1))
    at = data.index(needle)
    data[at : at + 8] = other
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.stat(path)
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("change", [rewrite, overwrite_in_place])
def test_zones_of_files_that_changed_are_ignored(file: Path, verified: Verified, change: Callable[[Path], Any]) -> None:
    write(file, compression="none", use_dictionary=False)
    path = build(file)
    tick()
    change(file)
    message = [f"{file}: column 'id': it has changed since its zones were made, which are not used"]
    with zones.open(path) as opened:
        for given in (path, opened, [opened]):
            for value in (IDS[0], IDS[399], IDS[137], IDS[137] + 1):
                report = parquet_bloom.prune(file, f"id = {value}", zones=given)
                assert selected_rows(report) == dict.fromkeys(range(4))
                assert report.zone_doubts == message
                assert str(report).split("; ")[1] == "zones are not used"
                assert f"\nzones are not used: {message[0]}\n" in report.explain()
                assert "Zones are not used" in report.to_html()
                result = parquet_bloom.read_table(file, f"id = {value}", zones=given)
                assert result.equals(parquet_bloom.read_table(file, f"id = {value}"))
    assert len(verified) == 8 + 1
    assert parquet_bloom.read_table(file, f"id = {IDS[137] + 1}", zones=path).num_rows == (change is overwrite_in_place)


def test_a_file_that_is_replaced_between_judging_and_reading_is_read_whole(file: Path) -> None:
    where = f"id = {IDS[3]}"
    for given in (build(file), zones.open(build(file))):
        write(file)
        tick()
        report = parquet_bloom.prune(file, where, zones=given)
        assert selected_rows(report) == {0: (zone(3),)}
        tick()
        rewrite(file)
        assert find_row_ranges(report) == {str(file): {row_group: [(0, GROUP)] for row_group in range(4)}}
        result = RowReader(report).read_table()
        assert result["n"].to_pylist() == [ROWS - 1 - 3]


def test_a_file_that_is_replaced_while_it_is_verified(file: Path, verified: Verified) -> None:
    """Judged was what has other values; compared, what has the old ones again."""
    path = build(file)
    spare = file.with_suffix(".spare")
    shutil.copy(file, spare)
    tick()
    rewrite(file)
    where = f"id = {IDS[3]}"

    def swap() -> None:
        if spare.exists():
            os.replace(spare, file)

    verified.before = swap
    report = parquet_bloom.prune(file, where, zones=path)
    assert selected_rows(report) == dict.fromkeys(range(4))
    assert len(report.zone_doubts) == 1
    assert parquet_bloom.read_table(file, where, zones=path)["n"].to_pylist() == [3]


def test_threads_verify_a_file_once(file: Path, verified: Verified) -> None:
    with zones.open(build(file)) as given:
        tick()
        os.utime(file)
        results: list[Any] = []

        def ask() -> None:
            results.append(selected_rows(parquet_bloom.prune(file, f"id = {IDS[3]}", zones=given)))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [{0: (zone(3),)}] * 8
    assert verified == [str(file)]


def test_many_changed_files_are_reported_in_few_lines(tmp_path: Path) -> None:
    paths = [write(tmp_path / "lake" / f"{number}.parquet", IDS[:100]) for number in range(9)]
    given = build(tmp_path / "lake")
    tick()
    for path in paths:
        write(path, IDS[100:200])
    report = parquet_bloom.prune(tmp_path / "lake", f"id = {IDS[150]}", zones=given)
    assert (len(report.zone_doubts), report.selected_files) == (9, 9)
    message = [line for line in report.explain().splitlines() if line.startswith("zones are not used: ")]
    assert (len(message), message[-1]) == (6, "zones are not used: 4 more")


# --------------------------------------------------------------------------------------------- zones that cannot be


def test_no_zones_at_all(file: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"missing\.parquet"):
        parquet_bloom.prune(file, "id = 5", zones=tmp_path / "missing.parquet")
    with pytest.raises(StorageError):
        parquet_bloom.read_table(file, "id = 5", zones=[build(file), tmp_path / "missing" / "z.arrow"])
    for odd in (5, {"id": 1}, [None]):
        with pytest.raises(ParquetBloomError, match="zones must be a path or an open ZoneIndex, got "):
            parquet_bloom.prune(file, "id = 5", zones=odd)  # type: ignore[arg-type]
    assert parquet_bloom.prune(file, "id = 5", zones=[]).zone_doubts == []


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "other"])
def test_zones_that_cannot_be_read_are_a_doubt(file: Path, damage: str) -> None:
    path = Path(build(file))
    data = path.read_bytes()
    path.write_bytes(
        {"empty": b"", "cut": data[: len(data) // 2], "text": b"zones", "other": file.read_bytes()}[damage]
    )
    report = parquet_bloom.prune(file, f"id = {IDS[7]}", zones=path)
    assert report.selected_row_groups == 4
    (doubt,) = report.zone_doubts
    assert str(path) in doubt
    assert "\n" not in doubt
    assert parquet_bloom.read_table(file, f"id = {IDS[7]}", zones=path)["n"].to_pylist() == [7]


def test_filters_that_cannot_be_read_are_a_doubt(file: Path) -> None:
    class Broken(ExactZones):
        def check(self, zones: Any, hashes: Any) -> Any:
            raise BrokenZonesError("zone 3: damaged", path="z")

    given = Broken("id", {file: every(GROUP, ZONE, range(4))})
    report = parquet_bloom.prune(file, f"id = {IDS[7]}", zones=given)
    assert (report.selected_row_groups, report.zone_doubts) == (4, ["z: zone 3: damaged"])


def test_a_zone_file_that_is_cut_off_while_open(file: Path) -> None:
    path = Path(build(file))
    with zones.open(path) as given:
        with open(path, "r+b") as cut:
            cut.truncate(40)
        report = parquet_bloom.prune(file, f"id = {IDS[7]}", zones=given)
        assert (report.selected_row_groups, len(report.zone_doubts)) in [(4, 1), (1, 0)]  # or it was in memory
        assert 0 in selected_rows(report)


def test_an_index_that_was_closed(file: Path) -> None:
    given = zones.open(build(file))
    given.close()
    report = parquet_bloom.prune(file, f"id = {IDS[7]}", zones=given)
    assert (report.selected_row_groups, len(report.zone_doubts)) in [(4, 1), (1, 0)]  # or it was in memory


def test_lance_has_no_zones_of_parquet_files(file: Path) -> None:
    with zones.open(build(file)) as indexes:
        table = indexes.to_table()
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if b"parquet_bloom" not in key}
    lance = zones.open(table.replace_schema_metadata(metadata))
    with pytest.raises(
        ParquetBloomError, match=r"it is Lance's own index, which is not over Parquet files: make one with zones\.build"
    ):
        parquet_bloom.prune(file, "id = 5", zones=lance)


# ------------------------------------------------------------------------------------------------------ the pieces


def test_ranges_in_both() -> None:
    rng = random.Random(3)

    def some() -> Any:
        borders = sorted(rng.sample(range(30), 2 * rng.randrange(4)))
        return np.array(borders, np.int64).reshape(-1, 2)

    def rows(ranges: Any) -> set[int]:
        return set(range(30)) if ranges is None else {row for start, stop in ranges for row in range(start, stop)}

    for _ in range(500):
        first, second = (None if rng.random() < 0.1 else some() for _ in range(2))
        result = intersect_ranges(first, second)
        assert rows(result) == rows(first) & rows(second)
        assert result is None or (result.shape[1] == 2 and (np.diff(result.ravel()) > 0).all())


# --------------------------------------------------------------------------------------------- who else has a say


def test_columns_that_an_engine_reads_otherwise_are_not_probed(file: Path) -> None:
    @dataclass(frozen=True)
    class Distrust:
        by_schema = False

        def doubts(self, file: Any) -> dict[str, str]:
            return {"id": "it is read as something else"}

    given = ExactZones("id", {file: every(GROUP, ZONE, range(4))})
    with open_zone_indexes(given) as view:
        listing = SourceListing([Entry(str(file))], None, Partitions(()))
        options, evidence = ScanOptions(trust=Distrust()), Evidence(zones=view)
        report = plan_scan(listing, parse(f"id = {IDS[7]}"), options, PruneReport, None, evidence)
    assert (report.selected_row_groups, given.probed_zones) == (4, [])
    assert {one.rows for one in report.files[0].row_groups} == {None}


def test_other_file_systems(verified: Verified) -> None:
    """Without a reliable change marker, the contents are compared each time."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")

    def put(ids: list[int]) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": ids}), sink, row_group_size=GROUP, write_statistics=False, use_dictionary=False)
        memory.pipe("/zoned/lake/a.parquet", sink.getvalue())

    put(IDS)
    zones.build("/zoned/lake/a.parquet", "id", "/zoned/z.arrow", rows_per_zone=ZONE, fpp=1e-6, filesystem=memory)
    options: dict[str, Any] = {"filesystem": memory, "zones": "/zoned/z.arrow"}
    where = f"id = {IDS[137]}"
    assert selected_rows(parquet_bloom.prune("/zoned/lake", where, **options)) == {1: (zone(137),)}
    assert parquet_bloom.read_table("/zoned/lake", where, **options)["id"].to_pylist() == [IDS[137]]
    assert len(verified) == 2
    put(IDS[::-1])
    report = parquet_bloom.prune("/zoned/lake", where, **options)
    assert (selected_rows(report), len(report.zone_doubts)) == (dict.fromkeys(range(4)), 1)
    memory.rm("/zoned", recursive=True)


@pytest.mark.ci
@pytest.mark.usefixtures("settled_footers")
def test_the_cache_of_one_index_is_not_used_for_another(tmp_path: Path) -> None:
    """The layout of an index is cached with the file's footer: neither for a later index, nor permanently."""
    path = write(tmp_path / "a.parquet")
    for size in (ZONE, 7, ZONE, 50):  # later ones may well stand where an earlier one was in memory
        zones.build(path, "id", tmp_path / "zones.arrow", rows_per_zone=size, fpp=1e-6)
        index = zones.open(tmp_path / "zones.arrow")
        for row in (3, 3, ROWS - 1):
            report = parquet_bloom.prune(path, [("id", "=", IDS[row])], zones=index)
            start = row % GROUP // size * size
            expected = {row // GROUP: ((start, min(start + size, GROUP)),)}
            assert {one.row_group: one.rows for one in report.files[0].row_groups if one.read} == expected
            result = parquet_bloom.read_table(path, [("id", "=", IDS[row])], zones=index)
            assert result["n"].to_pylist() == [row]
        index.close()
        gone = weakref.ref(index)
        del index
        gc.collect()
        assert gone() is None
