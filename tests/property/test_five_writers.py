"""Random predicates over random tables by five writers: `read_table` gives the rows that SQL gives, and skips.

What SQL gives is worked out by `ranked`, from the values that were put in; DuckDB checks a part of the
predicates, over the same table in memory, so that the oracle is held against an engine. A failing case is kept, file
and seed; `hunting` says how to go on for longer than the suite does.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import SECONDS, seeds
from support.random_cases.random_predicates import Drawn, draw_predicate
from support.writers import five_writers
from support.writers.five_writers import Table
from support.writers.peers import VALUES, bits_of, take_rows

import parquet_bloom
from parquet_bloom.errors import PredicateError, UnreadableColumnError
from parquet_bloom.file.pages.page_lookup import PAGE_COSTS
from parquet_bloom.predicate import pruning, tree
from parquet_bloom.scan.model.scan_plan import FilePlan, RowGroupPlan
from parquet_bloom.scan.plan_report import PruneReport
from parquet_bloom.scan.scan_source import ScanSource

TABLES = 6  # of each writer in the default suite
PREDICATES = 40  # of a table
SPARK_TABLES, SPARK_HUNTED = 8, 20  # of a job
ASK_DUCKDB = 0.3  # share of the predicates
WHOLE_ROWS = 0.05
STOP = 20  # failures

IN_DUCKDB = {"row", "st", *five_writers.random_files.DUCKDB}  # columns whose types it has

# The share of the row groups without a match that has to be skipped: of all; of those where each column of a predicate
# has a filter or minimum and maximum; and of those that a single =, IN or <=> asks a filter about.
DEMANDED = {"all": 0.5, "evident": 0.6, "point": 0.8}


@dataclass
class Tally:
    """Counts of queries, skipped row groups and lost rows; `matchless` counts row groups without a match, by kind."""

    tables: int = 0
    predicates: int = 0
    refused: int = 0
    compared: int = 0
    groups: int = 0
    matchless: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    extra: int = 0

    def shares(self) -> dict[str, float]:
        return {kind: self.skipped[kind] / self.matchless[kind] for kind in self.matchless}

    def __str__(self) -> str:
        shares = ", ".join(
            f"{kind}: {self.skipped[kind]:,} of {self.matchless[kind]:,} ({share:.1%})"
            for kind, share in sorted(self.shares().items())
        )
        return (
            f"{self.tables:,} tables, {self.predicates:,} predicates ({self.refused:,} refused, {self.compared:,} also "
            f"by DuckDB), {self.groups:,} row groups; skipped of those without a match {shares}; "
            f"{self.lost:,} rows lost, {self.extra:,} too many"
        )


@dataclass
class Hunt:
    """Tallies by writer, and failures with what it takes to see them again."""

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    failures: list[str] = field(default_factory=list)
    choose: Callable[[PruneReport], PruneReport] = lambda report: report
    report: PruneReport | None = None

    def demand(self) -> None:
        """That nothing was lost, little refused, and enough skipped: reading everything does not pass."""
        for writer, tally in self.tallies.items():
            print(f"{writer}: {tally}")
        assert not self.failures, "\n".join(self.failures)
        assert self.tallies
        for writer, tally in self.tallies.items():
            assert tally.refused < 0.04 * tally.predicates, writer
            for kind, share in DEMANDED.items():
                assert tally.skipped[kind] >= share * tally.matchless[kind] > 0, (writer, kind, tally.shares())


@pytest.fixture
def hunt(monkeypatch: pytest.MonkeyPatch) -> Hunt:
    """A hunt that sees which row groups `read_table` chose (and may choose others)."""
    result = Hunt()
    original = ScanSource.plan

    def noted(*arguments: Any, **options: Any) -> PruneReport:
        result.report = result.choose(original(*arguments, **options))
        return result.report

    monkeypatch.setattr(ScanSource, "plan", noted)
    return result


def by_pages(rng: random.Random) -> AbstractContextManager[Any]:
    """Every other table is read by pages, however small they are, where it has a page index."""
    if rng.random() < 0.5:
        return nullcontext()
    return patch.dict(vars(PAGE_COSTS), small_bytes=0, most_share=10.0)


def check_table(hunt: Hunt, table: Table, rng: random.Random, seed: int, connection: Any) -> None:
    tally = hunt.tallies[table.writer]
    tally.tables += 1
    names = rng.sample(sorted(table.columns), min(len(table.columns), 6))
    columns = [table.columns[name] for name in names]
    small_pages = by_pages(rng)
    connection.register("t", table.given.select([name for name in table.given.column_names if name in IN_DUCKDB]))
    try:
        for number in range(PREDICATES if columns else 0):
            drawn = draw_predicate(rng, columns)
            try:
                with small_pages:
                    check(hunt, table, drawn, rng)
                if rng.random() < ASK_DUCKDB:
                    check_oracle(tally, table, drawn, connection)
            except Exception as error:
                keep(hunt, table, f"predicate {number}: {drawn.node!r}: {error!r}", seed)
        for leaf, elements in table.elements.items():
            try:
                check_elements(hunt, table, leaf, elements, rng)
            except AssertionError as error:
                keep(hunt, table, f"{leaf}: {error!r}", seed)
    finally:
        connection.unregister("t")
        table.path.unlink()


def keep(hunt: Hunt, table: Table, message: str, seed: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="parquet_bloom_failed_"))
    shutil.copy(table.path, folder)
    hunt.failures.append(f"seed {seed}, {table.writer}, {folder / table.path.name}: {message[:2000]}; {table.story}")
    print(hunt.failures[-1], file=sys.stderr)


def check(hunt: Hunt, table: Table, drawn: Drawn, rng: random.Random) -> None:
    """Ask for the rows of one predicate."""
    tally = hunt.tallies[table.writer]
    tally.predicates += 1
    truth = drawn.answer.true[table.order]  # as the rows stand in the file
    where = tree.to_text(drawn.node) if rng.random() < 0.15 else drawn.node
    complete = rng.random() < WHOLE_ROWS
    try:
        try:
            result = parquet_bloom.read_table(table.path, where, columns=None if complete else ["row"])
        except UnreadableColumnError as error:  # pyarrow shows far dates of INT96 as other ones
            if not complete or "INT96" not in str(error):
                raise
            complete, result = False, parquet_bloom.read_table(table.path, where, columns=["row"])
    except PredicateError:  # a literal cannot be compared exactly; what would be read is still right
        result = None
        tally.refused += 1
    assert hunt.report is not None
    chosen = np.zeros(len(table.starts) - 1, np.bool_)
    chosen[hunt.report.files[0].selected] = True
    hits = np.add.reduceat(np.append(truth, False), table.starts)[:-1] * (np.diff(table.starts) > 0)
    tally.lost += int(hits[~chosen].sum())
    assert chosen[hits > 0].all(), f"row groups {np.flatnonzero((hits > 0) & ~chosen)} lost: {hunt.report.skipped}"
    count(tally, table, drawn, hits == 0, chosen)
    if result is not None:
        expected, rows = table.order[truth], result["row"].to_numpy()
        tally.lost += len(np.setdiff1d(expected, rows))
        tally.extra += max(len(rows) - len(np.intersect1d(expected, rows)), 0)
        assert rows.tolist() == expected.tolist()
    if complete and result is not None:
        assert bits_of(result) == bits_of(take_rows(pq.read_table(table.path), np.flatnonzero(truth)))


def count(tally: Tally, table: Table, drawn: Drawn, matchless: np.ndarray, chosen: np.ndarray) -> None:
    columns = tree.columns(drawn.node)
    filtered = np.logical_and.reduce([table.filtered[name] for name in columns])
    evident = np.logical_and.reduce([table.filtered[name] | table.bounded[name] for name in columns])
    tally.groups += len(chosen)
    rows = np.diff(table.starts) > 0  # skipping a row group without rows does not count
    for kind, counted in (("all", rows), ("evident", evident & rows), ("point", filtered & rows & drawn.point)):
        tally.matchless[kind] += int((matchless & counted).sum())
        tally.skipped[kind] += int((matchless & counted & ~chosen).sum())


def check_oracle(tally: Tally, table: Table, drawn: Drawn, connection: Any) -> None:
    """That DuckDB finds the same rows in the table in memory, where it has all of its types."""
    names = {name.split(".")[0] for name in tree.columns(drawn.node)}
    if drawn.sql is None or not names <= IN_DUCKDB:
        return
    tally.compared += 1
    rows = [row for (row,) in connection.execute(f"SELECT row FROM t WHERE {drawn.sql} ORDER BY row").fetchall()]
    assert rows == np.flatnonzero(drawn.answer.true).tolist(), f"DuckDB has it otherwise: {drawn.sql}"


def check_elements(hunt: Hunt, table: Table, leaf: str, elements: list[list[Any]], rng: random.Random) -> None:
    """No row group that holds an element is skipped; others are."""
    everything = [value for row in elements for value in row if value is not None]
    for _ in range(PREDICATES // 5):
        value = rng.choice(everything) if everything and rng.random() < 0.5 else VALUES["i64"].draw(rng)
        selected = parquet_bloom.prune(table.path, [(leaf, "=", value)]).files[0].selected
        for group, (start, end) in enumerate(zip(table.starts, table.starts[1:], strict=False)):
            holds = any(value in elements[row] for row in table.order[start:end])
            hunt.tallies[table.writer].lost += holds and group not in selected
            assert group in selected or not holds, (value, group)


@pytest.fixture
def connection() -> Iterator[Any]:
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone='UTC'; SET threads=1")
        yield opened


def tables_of(
    writer: str, folder: Path, helper: Any = None, count: int = TABLES
) -> Iterator[tuple[int, random.Random, Table]]:
    """(seed, what comes of it, a table): so many of a writer as the suite or a hunt asks for."""
    for seed in seeds(count):
        rng = random.Random(f"{writer} {seed}")
        if writer == "spark":
            tables = SPARK_HUNTED if SECONDS else SPARK_TABLES
            for table in five_writers.spark_tables(helper, rng, folder / str(seed), tables):
                yield seed, rng, table
            shutil.rmtree(folder / str(seed))
        else:
            table = five_writers.make_table(rng, writer, folder / f"{seed}.parquet", helper)
            if table is not None:
                yield seed, rng, table


@pytest.mark.parametrize(
    "writer", ["pyarrow", "duckdb", "datafusion", "clickhouse", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_rows_of_a_writer(writer, hunt, connection, tmp_path, request):
    needs = {"clickhouse": "clickhouse_server", "spark": "spark"}
    helper = request.getfixturevalue(needs[writer]) if writer in needs else None
    for seed, rng, table in tables_of(writer, tmp_path, helper, 1 if writer == "spark" else TABLES):
        check_table(hunt, table, rng, seed, connection)
        if len(hunt.failures) >= STOP:
            break
    hunt.demand()


# ------------------------------------------------------------------------------------------------ that it can fail


def reading_all(report: PruneReport) -> PruneReport:
    for number, file in enumerate(report.files):
        groups = tuple(RowGroupPlan(group.row_group, True) for group in file.row_groups)
        report.files[number] = FilePlan(file.path, groups)
    return report


def test_reading_everything_does_not_pass(hunt, connection, tmp_path):
    hunt.choose = reading_all
    for seed, rng, table in tables_of("pyarrow", tmp_path, count=4):
        check_table(hunt, table, rng, seed, connection)
    assert not hunt.failures
    with pytest.raises(AssertionError, match="'all'"):
        hunt.demand()


def test_a_wrong_hash_does_not_pass(hunt, connection, tmp_path, monkeypatch):
    original = pruning.PruningPredicate._get_values

    def wrong(*arguments):
        values = original(*arguments)
        return replace(values, hashes=values.hashes ^ np.uint64(0x5555_5555_5555_5555))

    monkeypatch.setattr(pruning.PruningPredicate, "_get_values", wrong)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # nobody wants to keep these
    for seed, rng, table in tables_of("pyarrow", tmp_path, count=4):
        check_table(hunt, table, rng, seed, connection)
    assert hunt.tallies["pyarrow"].lost > 0
    with pytest.raises(AssertionError, match="lost"):
        hunt.demand()
