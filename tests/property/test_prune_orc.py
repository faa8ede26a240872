"""A row of an ORC file that matches is never lost: random tables, writers and predicates.

What pyarrow reads of the whole file is what the rows are; which of them match, `ranked` says, which knows nothing of
files. A seed decides everything, and a failure names it; `hunting` says how to go on for longer.
"""

from __future__ import annotations

import collections
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest
from property.test_no_row_lost import draw_rows
from support.oracle.ranked import Ranked
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_predicate
from support.writers import orc_tables
from support.writers.peers import VALUES

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.scan.decode import orc_decoder as orc_rows

TABLES = 8  # of the default suite
PREDICATES = 10


@dataclass
class Tally:
    """Counts of row groups that could be skipped, and that were."""

    groups: int = 0
    without_match: int = 0
    skipped: int = 0
    predicates: int = 0
    refused: int = 0
    by: collections.Counter[str] = field(default_factory=collections.Counter)


def ranked(path: Path) -> list[Ranked]:
    """The columns of a file, and the leaves of its structs, as pyarrow reads them."""
    table = po.ORCFile(path).read()
    results = []
    for name in table.column_names:
        rows = values_of(table[name])
        if name == "st":
            a = [None if row is None else row["a"] for row in rows]
            c = [None if row is None or row["b"] is None else row["b"]["c"] for row in rows]
            results += [("st.a", "i32", a), ("st.b.c", "str", c)]
        elif name != "row":
            results.append((name, name, rows))
    return [Ranked(name, kind, VALUES[kind].arrow, rows, np.arange(len(rows))) for name, kind, rows in results]


def values_of(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    return column.to_pylist()


def hunt(seed: int, path: Path, tally: Tally) -> None:
    rng = random.Random(seed)
    count = rng.choice([0, 1, 2, 7, 40, 200, 200])
    kinds = rng.sample([*orc_tables.KINDS, "nothing", "st"], rng.randint(1, 6))
    columns: dict[str, list[Any]] = {"row": list(range(count))}
    columns |= {kind: draw_rows(rng, kind, count) for kind in kinds}
    story = orc_tables.by_either(rng, path, columns)
    try:
        reference = ranked(path)
        for _ in range(PREDICATES):
            drawn = draw_predicate(rng, reference)
            expected = np.flatnonzero(drawn.answer.true)
            check(rng, path, drawn.node, expected, tally)
    except Exception as error:
        error.add_note(f"seed {seed}: {story}")
        raise


def check(rng: random.Random, path: Path, where: Any, expected: np.ndarray, tally: Tally) -> None:
    report = parquet_bloom.prune(path, where)
    (decision,) = report.files
    ends = np.cumsum([one.num_rows for one in decision.row_groups])
    holding = set(np.searchsorted(ends, expected, "right").tolist())
    assert holding <= set(decision.selected), (str(where)[:500], report.skipped)
    tally.groups += len(ends)
    tally.without_match += len(ends) - len(holding)
    tally.skipped += len(ends) - len(decision.selected)
    tally.by.update(report.skipped_by)
    tally.predicates += 1
    columns = rng.choice([["row"], None])
    try:
        result = parquet_bloom.read_table(path, where, columns)
    except PredicateError:  # a literal cannot be compared exactly
        tally.refused += 1
        return
    assert result["row"].to_pylist() == expected.tolist(), str(where)[:500]
    if columns is None:
        expected_result = po.ORCFile(path).read().take(pa.array(expected))
        assert result.schema.equals(expected_result.schema)
        for name in expected_result.column_names:  # NaN is not equal to itself
            assert str(values_of(result[name])) == str(values_of(expected_result[name])), name


def run(folder: Path, tally: Tally, numbers: Any) -> None:
    for seed in numbers:
        path = folder / f"{seed}.orc"  # each its own: by its name it may be known
        hunt(seed, path, tally)
        path.unlink()
    print(tally)
    # That nothing is lost would also hold if nothing was skipped. (Not every column has a filter.)
    assert tally.refused < 0.02 * tally.predicates
    assert tally.skipped > 0.5 * tally.without_match
    assert tally.by["filter"] > 0


@pytest.mark.parametrize("slower", [0, 1 << 40], ids=["pyorc", "pyarrow"])
def test_no_row_is_lost(tmp_path, monkeypatch, slower):
    """Row groups read alone wherever that can be, and stripes read whole."""
    monkeypatch.setattr(orc_rows, "_SLOWER", slower)
    run(tmp_path, Tally(), range(slower % 7 * TABLES, (slower % 7 + 1) * TABLES))


@pytest.mark.long
def test_no_row_is_lost_for_longer(tmp_path):
    run(tmp_path, Tally(), (1_000_000 + seed for seed in seeds(300)))
