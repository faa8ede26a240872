"""Random lakes under random predicates: with zones the rows are those that are found without them.

The lakes are those of `test_prune_index`; here each has zone indexes of some columns, of any size, over some of the
files, in either container, and files change under them. `hunting` says how to go on with it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from property.test_prune_index import Lake, damage, draw_lake, rows_of
from support.random_cases.hunting import seeds
from support.writers import random_files

from parquet_bloom import zones
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.tree import And, Equal, In, IsNotNull, IsNull, Node, Or
from parquet_bloom.scan.scan import find_row_ranges
from parquet_bloom.scan.scan_options import LIMITS

LAKES, MORE_LAKES = 4, 60
PREDICATES = 12
DAMAGED = "damaged"


def make_zones(lake: Lake, folder: Path) -> list[str]:
    """Zone indexes of some columns; of one perhaps several, of a few files each."""
    rng = lake.rng
    columns = [name for name, kinds in lake.kinds.items() if name != "li" and kinds != ["st"]]
    columns += [f"{name}.{leaf}" for name, kinds in lake.kinds.items() if kinds == ["st"] for leaf in ("a", "b.c")]
    created = []
    for column in rng.sample(columns, rng.randint(min(1, len(columns)), min(3, len(columns)))):
        files = lake.files()
        cut = rng.randint(0, len(files))
        for some in rng.choice([[files], [files[:cut], files[cut:]], [files, files[cut:]]]):
            ending = rng.choice(["parquet", "arrow"])
            target = folder / f"{len(created)}.{ending}"
            options = {"rows_per_zone": rng.choice([1, 2, 3, 7, 8, 30, 8192]), "fpp": rng.choice([0.5, 0.05, 0.00057])}
            try:
                zones.build([str(path) for path in some], column, target, **options)
            except ParquetBloomError:  # no file has the column, or it is of a type that has no zones
                continue
            created.append(str(target))
    return created


def column_of(path: str) -> str:
    with zones.open(path) as opened:
        assert opened.column is not None
        return opened.column


def change(lake: Lake, indexes: list[str]) -> str:
    """Let something happen to the lake or the zones."""
    rng, files = lake.rng, lake.files()
    time.sleep(0.02)  # a tick of the clock that files are dated by
    happens = rng.choice(["add", "remove", "rewrite", "swap", "embed", "embed", "touch", "restore", DAMAGED, "nothing"])
    one = rng.choice(files)
    if happens == "add":
        lake.write()
    elif happens == "remove" and len(files) > 1:
        one.unlink()
    elif happens == "rewrite":
        lake.write(one)
    elif happens == "swap":
        shutil.copyfile(one, rng.choice([path for path in files if path != one] or [one.with_name("x.parquet")]))
    elif happens == "embed":
        random_files.embed(rng, one)
    elif happens == "touch":
        os.utime(one)
    elif happens == "restore":
        shutil.copyfile(one, one.with_name("_copy"))
        one.with_name("_copy").rename(one)
    elif happens == DAMAGED and indexes:
        folder = Path(indexes[0]).parent / "damaged"
        folder.mkdir(exist_ok=True)
        location = folder / Path(indexes[0]).name
        if not location.exists():
            shutil.move(indexes[0], location)
            damage(rng, folder)
            location.touch()  # what is gone is an error, not damage
            shutil.move(location, indexes[0])
    return happens


def locate_rows(lake: Lake) -> dict[int, set[tuple[str, int, int]]]:
    """{value of column `row`: where it is, as (file, row group, row)}."""
    results: dict[int, set[tuple[str, int, int]]] = {}
    for path in lake.files():
        file = pq.ParquetFile(path)
        for row_group in range(file.num_row_groups):
            for at, row in enumerate(file.read_row_group(row_group, ["row"])["row"].to_pylist()):
                results.setdefault(row, set()).add((str(path), row_group, at))
    return results


def predicate(lake: Lake, columns: list[str]) -> Node:
    """Any predicate, or one that asks columns with zones for single values, nulls among them."""
    rng = lake.rng
    node = lake.predicate()
    if columns and rng.random() < 0.7:
        points = [_point(lake, rng.choice(columns)) for _ in range(rng.choice([1, 1, 2, 3]))]
        chosen = rng.choice([And, Or])(tuple(points)) if len(points) > 1 else points[0]
        node = chosen if rng.random() < 0.6 else rng.choice([And, Or])((chosen, node))
    return node


def _point(lake: Lake, column: str) -> Node:
    rng = lake.rng
    name, *within = column.split(".")
    pool = lake.pools.get((name, rng.choice(lake.kinds[name]))) or [None]
    values = []
    for value in rng.sample(pool, min(len(pool), rng.choice([1, 1, 1, 3]))):
        for each in within:
            value = value and value[each]
        if value is not None:
            values.append(value)
    try:
        if not values:
            return rng.choice([IsNull, IsNull, IsNotNull])(column)
        return Equal(column, values[0]) if len(values) == 1 else In(column, tuple(values))
    except PredicateError:  # the value is not a literal
        return IsNull(column)


def check(lake: Lake, node: Node, indexes: list[Any], tally: Counter[str], damaged: bool) -> None:
    rng = lake.rng
    ignore_case = rng.random() < 0.4
    if ignore_case and rng.random() < 0.5:
        node = tree.rename_columns(node, {name: rng.choice([name, name.upper()]) for name in tree.columns(node)})
    try:
        expected, plain = rows_of(lake.root, node, ignore_case)
    except (PredicateError, UnknownColumnError):
        tally["refused"] += 1
        return
    result, report = rows_of(lake.root, node, ignore_case, zones=indexes)
    assert result == expected, f"{node} {ignore_case=}; {report.explain()}"
    ranges = find_row_ranges(report)
    remaining = {
        (path, group, row) for path, of in ranges.items() for group in of for a, b in of[group] for row in range(a, b)
    }
    paths = locate_rows(lake)
    for row in set(expected):
        assert paths[row] & remaining, f"row {row} is not among those left: {node} {ignore_case=}"
    counts = Counter(expected)
    complete = [row for row, count in counts.items() if count == len(paths[row])]
    assert all(paths[row] <= remaining for row in complete)
    tally["asked"] += 1
    tally["matched"] += bool(expected)
    tally["rows"] += sum(one.num_rows for file in plain.files for one in file.row_groups if one.read)
    tally["left"] += sum(one.num_left for file in report.files for one in file.row_groups if one.read)
    tally["row groups"] += report.skipped_by.get("zones", 0)
    tally["doubts"] += bool(report.zone_doubts)
    tally["narrowed"] += any(one.rows is not None for file in report.files for one in file.row_groups)
    assert report.selected_row_groups <= plain.selected_row_groups
    assert damaged or not any("checksum" in doubt for doubt in report.zone_doubts)


def hunt(seed: int, folder: Path, counts: Counter[str]) -> None:
    rng = random.Random(f"zones {seed}")
    folder.mkdir()
    lake = draw_lake(rng, folder / "lake")
    index_paths = make_zones(lake, folder)
    columns = sorted({column_of(path) for path in index_paths})
    opened = []
    try:
        queried: list[Any] = list(index_paths)
        if rng.random() < 0.5:
            queried = opened = [zones.open(path) for path in index_paths]
        happened = [change(lake, index_paths) for _ in range(rng.randint(0, 3))]
        for _ in range(PREDICATES):
            node = predicate(lake, columns)
            try:
                check(lake, node, queried, counts, DAMAGED in happened)
            except Exception as error:
                error.add_note(f"seed {seed}: {node}; {happened}, {lake.kinds}, {queried!r}")
                raise
    finally:
        for one in opened:
            one.close()
    shutil.rmtree(folder)


@pytest.fixture(params=["pages", "whole"], autouse=True)
def by_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small column chunks are read by pages, too, or none is."""
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)  # `change` waits for the clock's next tick
    monkeypatch.chdir(tmp_path)
    if request.param == "pages":
        monkeypatch.setitem(vars(PAGE_COSTS), "small_bytes", 0)
        monkeypatch.setitem(vars(PAGE_COSTS), "most_share", 10.0)
        monkeypatch.setitem(vars(LIMITS), "few_of", 1)


def hunt_all(first: int, count: int, folder: Path, request: pytest.FixtureRequest) -> None:
    counts: Counter[str] = Counter()
    shift = 1_000_000 * ("whole" in request.node.name)
    for seed in seeds(count):
        hunt(first + shift + seed, folder / str(seed), counts)
    print(dict(counts))
    assert counts["left"] < counts["rows"] * 0.9  # else nothing was shown
    assert counts["matched"] > counts["asked"] / 10
    assert counts["narrowed"] > counts["asked"] / 20


def test_with_zones_the_rows_are_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    hunt_all(0, LAKES, tmp_path, request)


@pytest.mark.long
def test_with_zones_the_rows_are_the_same_in_many_lakes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    hunt_all(10_000, MORE_LAKES, tmp_path, request)


def test_zones_that_lie_do_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = zones.ZoneIndex.check
    monkeypatch.setattr(zones.ZoneIndex, "check", lambda self, some, hashes: ask(self, some, hashes) & (some % 2 == 0))

    def hunted() -> None:
        for seed in range(50):
            hunt(seed, tmp_path / str(seed), Counter())

    with pytest.raises(AssertionError):
        hunted()


def test_zones_that_forget_nulls_do_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = zones.ZoneIndex.zones_of

    def without(self: Any, number: int) -> Any:
        result = reported(self, number)
        return result._replace(has_null=np.zeros_like(result.has_null))

    monkeypatch.setattr(zones.ZoneIndex, "zones_of", without)

    def hunted() -> None:
        for seed in range(50):
            hunt(seed, tmp_path / str(seed), Counter())

    with pytest.raises(AssertionError):
        hunted()
