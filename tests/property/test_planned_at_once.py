"""Files planned together give the plan that each gives by itself: random lakes of several writers, some files damaged.

A seed decides everything, and a failure names it; `hunting` says how to go on for longer.
"""

from __future__ import annotations

import collections
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import literal_form
from support.writers import random_files
from support.writers.peers import VALUES, arrow_array
from support.writers.random_files import NESTED

import parquet_bloom
from parquet_bloom import MetadataCache
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file import column_statistics as of_footers
from parquet_bloom.file import metadata_cache
from parquet_bloom.scan.plan import file_level as plan_files
from parquet_bloom.scan.plan import file_level as planned_files
from parquet_bloom.scan.plan import statistics_level

pytestmark = pytest.mark.default

LAKES = 12  # of the default suite
FILES = 8


def make_lake(rng: random.Random, folder: Path) -> tuple[list[str], dict[str, list[Any]]]:
    """Write files of one writer, a few of them with fewer columns; return their columns, and values of each."""
    writer = rng.choice(["pyarrow"] * 4 + ["duckdb", "datafusion", "polars"])
    kinds = rng.sample(random_files.KINDS[writer], min(len(random_files.KINDS[writer]), rng.randint(2, 6)))
    values: dict[str, list[Any]] = collections.defaultdict(list)
    for number in range(FILES):
        own = kinds if rng.random() < 0.8 else kinds[: rng.randint(1, len(kinds))]
        count = rng.choice([1, 7, 40, 200])
        columns = {}
        for kind in own:
            pool = [VALUES[kind].draw(rng) for _ in range(rng.choice([1, 3, count]))]
            pool += VALUES[kind].always if rng.random() < 0.5 else []
            rows = [rng.choice(pool) for _ in range(count)]
            values[kind] += rows
            columns[kind] = arrow_array(rows, VALUES[kind].arrow)
        table = pa.table({"row": pa.array(range(count), pa.int32()), **columns})
        path = folder / f"{number}.parquet"
        options = getattr(random_files, f"by_{writer}")(rng, table, path, rng.choice([10, 50, 1000]))
        if rng.random() < 0.8 and random_files.readable(path, f"{writer} {options}"):
            random_files.embed(rng, path)
    return kinds, values


def damage(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    footer = max(4, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    how = rng.randrange(5)
    if how == 0:
        del data[rng.randrange(len(data)) :]
    elif how == 1:  # the footer's length
        data[-8 + rng.randrange(4)] ^= 1 << rng.randrange(8)
    else:  # the footer, or what is before it
        start, end = (footer, len(data) - 8) if how < 4 else (4, footer)
        for _ in range(rng.choice([1, 1, 3])):
            data[rng.randrange(start, end)] = rng.randrange(256)
    path.write_bytes(data)


def draw_leaf(rng: random.Random, kinds: list[str], values: dict[str, list[Any]]) -> tuple[str, str, Any]:
    kind = rng.choice(kinds)

    def draw() -> Any:
        value = rng.choice(values[kind]) if values[kind] and rng.random() < 0.5 else VALUES[kind].draw(rng)
        return literal_form(rng, VALUES[kind].arrow, value)

    if rng.random() < 0.5:
        return kind, "in", [draw() for _ in range(rng.choice([1, 2, 5, 70]))]
    return kind, rng.choice(["=", "="] if kind == "bool" else ["=", "=", "!=", "<", ">="]), draw()


def plan(folder: Path, where: Any, cache: MetadataCache | None, threads: int = 1) -> tuple[Any, list[str]]:
    errors: list[str] = []
    try:
        report = parquet_bloom.prune(
            folder, where, cache=cache, threads=threads, on_error=lambda error: errors.append(str(error))
        )
    except ParquetBloomError as error:
        return None, [*errors, str(error)]
    return report.files, errors


def hunt(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch, tally: collections.Counter[str]) -> None:
    rng = random.Random(seed)
    kinds, values = make_lake(rng, folder)
    for path in sorted(folder.iterdir()):
        if rng.random() < 0.3:
            damage(rng, path)
    kinds = [kind for kind in kinds if kind not in NESTED]
    cache = MetadataCache()

    def left_to_themselves(*arguments: Any) -> dict[int, Any]:
        return {}

    read_statistics = of_footers.read_statistics

    def read_each_by_itself(*arguments: Any) -> Any:
        stored = read_statistics(*arguments)
        stored["is_usual"] = 0
        return stored

    for _ in range(8 if kinds else 0):
        terms = [rng.choice([1, 1, 2]) for _ in range(rng.choice([1, 2]))]
        where = [[draw_leaf(rng, kinds, values) for _ in range(count)] for count in terms]
        monkeypatch.setattr(planned_files, "evaluate_together", left_to_themselves)
        monkeypatch.setattr(of_footers, "read_statistics", read_each_by_itself)
        expected = plan(folder, where, None)
        monkeypatch.setattr(of_footers, "read_statistics", read_statistics)
        monkeypatch.setattr(planned_files, "evaluate_together", statistics_level.evaluate_together)
        for kept in (None, cache, cache):
            assert plan(folder, where, kept, rng.choice([1, 3])) == expected, (seed, where)
        tally["errors"] += len(expected[1])
        tally["doubts"] += sum(len(file.doubts) for file in expected[0] or ())
        tally["skipped"] += sum(not group.read for file in expected[0] or () for group in file.row_groups)


def test_plans_are_those_of_single_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_cache, "SETTLED_NS", -(10**12))
    monkeypatch.setattr(plan_files, "_FIRST_FILES", 3)
    tally = collections.Counter[str]()
    for number, seed in enumerate(seeds(LAKES)):
        folder = tmp_path / str(number)
        folder.mkdir()
        hunt(seed, folder, monkeypatch, tally)
    assert min(tally[name] for name in ("errors", "doubts", "skipped")) > 0
