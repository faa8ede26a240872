"""`embed_table`, killed at each system call by which it changes the disk: no row is lost or there twice."""

from __future__ import annotations

import itertools
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from errno import EIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty import AFTER, BEFORE, KILL, Commands, Outcome, Rule
from scenarios import moments

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.file_rewrite import sweep
from parquet_bloom.tables.embed.embed_table import embed_table

pytestmark = pytest.mark.crash
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


def open_table(kind: str, folder: Path) -> Any:
    """Return what `embed_table` takes."""
    return str(folder / "table") if kind == "delta" else tables.make_catalog(folder).load_table("db.events")


def main(arguments: Sequence[str]) -> int:
    """Put filters into the files of a table; run by `faulty`, which kills it."""
    kind, folder = arguments
    warnings.simplefilter("ignore")
    try:
        print(embed_table(open_table(kind, Path(folder)), ["id", "s"], threads=1))
    except Exception as error:
        if not isinstance(error, ParquetBloomError) and kind == "delta":
            raise
        print(error, file=sys.stderr)  # or pyiceberg's, as the table was opened
        return 1
    return 0


class State(NamedTuple):
    """What a table's own library says of it."""

    versions: int
    rows: Counter[Any]


class TableStage:
    """A table on its stage: a copy of it for as many runs as are wanted, at one path, which its metadata has."""

    def __init__(self, kind: str, commands: Commands, room: Path) -> None:
        self.kind, self._commands, self._room = kind, commands, room
        self.folder, self._template = room / "stage", room / "template"
        (room / "scratch").mkdir()
        self.folder.mkdir()
        if kind == "delta":
            tables.make_delta(self.folder / "table", 2, partitioned=False)
        else:
            tables.make_iceberg(self.folder, 2)
        shutil.copytree(self.folder, self._template)
        self.before = self.state()

    def fresh(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._template, self.folder)

    def run(self, *rules: Rule) -> Outcome:
        under = [self.folder, self._room / "scratch"]
        return self._commands.run([self.kind, str(self.folder)], under, rules, program="test_embed_table")

    def state(self) -> State:
        if self.kind == "delta":
            from deltalake import DeltaTable

            root = str(self.folder / "table")
            return State(DeltaTable(root).version() + 1, tables.read_delta(root))
        table = open_table("iceberg", self.folder)
        return State(len(table.snapshots()), tables.read_iceberg(table))

    def data_files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*.parquet") if "_delta_log" not in path.parts}

    def check(self) -> bool:
        """Assert that the table is as it was or as it should be; returns which."""
        now = self.state()
        assert now.rows == self.before.rows
        self.read_by_us(now.rows)
        done = now.versions - self.before.versions
        assert done in (0, 1)
        return bool(done)

    def read_by_us(self, rows: Counter[Any]) -> None:
        """Assert that our readers find the same rows: by the log, or by the catalog and by the folder without it."""
        if self.kind == "delta":
            given: list[Any] = [parquet_bloom.delta(self.folder / "table")]
        else:
            folder = self.folder / "warehouse" / "db" / "events"
            given = [parquet_bloom.iceberg(open_table("iceberg", self.folder)), parquet_bloom.iceberg(folder)]
        for table in given:
            assert tables.contents(parquet_bloom.dataset(table).scan().to_arrow()) == rows

    def commit_by_another(self) -> None:
        """Another writer goes on after a killed one, whose version it may be that it writes."""
        operations = tables.DELTA_OPERATIONS if self.kind == "delta" else tables.ICEBERG_OPERATIONS
        append, changes = operations["append"]
        append(str(self.folder / "table") if self.kind == "delta" else open_table("iceberg", self.folder))
        rows = changes(self.before.rows)
        assert self.state().rows == rows
        self.read_by_us(rows)
        embed_table(open_table(self.kind, self.folder), ["id", "s"])
        assert self.state().rows == rows
        self.read_by_us(rows)

    def again(self) -> None:
        """The next run does what is left to do, once; a sweep and a vacuum delete what a killed one has left."""
        embed_table(open_table(self.kind, self.folder), ["id", "s"])
        assert self.check()
        assert not embed_table(open_table(self.kind, self.folder), ["id", "s"]).changed
        for leftover in sweep(self.folder):
            assert leftover.deleted
        if self.kind == "delta":
            from deltalake import DeltaTable

            table = DeltaTable(str(self.folder / "table"))
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
            live = {uri.removeprefix("file://") for uri in table.file_uris()}
            assert {str(path) for path in (self.folder / "table").glob("*.parquet")} == live
            assert self.state().rows == self.before.rows


@pytest.fixture(params=["delta", "iceberg"])
def stage(request: pytest.FixtureRequest, commands: Commands, room: Path) -> TableStage:
    return TableStage(request.param, commands, room)


def undisturbed(stage: TableStage) -> Outcome:
    outcome = stage.run()
    assert outcome.code == 0, outcome.err
    assert stage.check()
    stage.again()
    return outcome


def kill(stage: TableStage, some: list[tuple[int, int]]) -> int:
    """Kill a run at each of some moments; returns how often it had committed by then."""
    done = 0
    for position, (number, when) in enumerate(some):
        stage.fresh()
        outcome = stage.run(Rule(number, number, "", when, KILL))
        assert outcome.killed, (number, when, outcome)
        done += stage.check()
        if position % 2:
            stage.commit_by_another()
        else:
            stage.again()
    return done


def test_killed_about_the_commit(stage: TableStage) -> None:
    calls = undisturbed(stage).calls
    last = len(calls)
    # An entry of Delta's log gets its name if there is none; of a catalog's database the last call but one counts.
    commit = max((call.number for call in calls if call.name == "rename_new"), default=last - 1)
    some = [(commit, BEFORE), (commit, AFTER), (last, AFTER)]
    assert 0 < kill(stage, some) < len(some)


@pytest.mark.long
def test_killed_at_each_call(stage: TableStage) -> None:
    some = moments(undisturbed(stage).calls)
    assert 0 < kill(stage, some) < len(some)


def fail(stage: TableStage, some: Iterable[tuple[int, int]]) -> Counter[str]:
    """Let a call fail, one in each run, or have it done and say that it failed; returns what the runs came to."""
    ends: Counter[str] = Counter()
    for number, when in some:
        stage.fresh()
        old = stage.data_files()
        outcome = stage.run(Rule(number, number, "", when, EIO))
        done = stage.check()
        assert not outcome.killed
        assert done or outcome.code, (number, outcome.out)
        assert "Traceback" not in outcome.err, (number, outcome.err)
        # The new files are there if they are the table's; a file that could not be deleted may be there as well.
        kept = 2 if done or "it is not known" in outcome.err else 0
        left = len(stage.data_files() - old) - kept
        assert left == 0 or (left == 1 and any(c.name == "unlink" and c.errno for c in outcome.calls)), (
            number,
            outcome,
        )
        ends["done" if done else "failed"] += 1
        stage.again()
    return ends


def test_a_call_fails_about_the_commit(stage: TableStage) -> None:
    last = len(undisturbed(stage).calls)
    assert fail(stage, [(last // 3, BEFORE), (last - 1, BEFORE), (last - 1, AFTER)])


@pytest.mark.long
def test_each_call_fails(stage: TableStage) -> None:
    assert fail(stage, itertools.product(range(1, len(undisturbed(stage).calls) + 1), (BEFORE, AFTER)))["failed"]
