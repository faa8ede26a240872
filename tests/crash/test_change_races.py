"""Deletes and upserts while another writer commits at any of their calls, and others that read before ours commit.

Whoever comes first, the rows are those of one order of the two: none is lost, there twice, or back.
`PARQUET_BLOOM_HUNT_SECONDS=600` goes on with random races for so long.
"""

from __future__ import annotations

import json
import random
import warnings
from collections import Counter
from pathlib import Path

import pytest
from faulty import ASK, BEFORE, Call, Commands, Rule
from support.random_cases.hunting import seeds
from support.scale import scaled
from table_stage import (
    KINDS,
    OTHERS,
    Change,
    Other,
    Rows,
    TableStage,
    draw_change,
    draw_other,
    open_for_others,
    open_table,
)

from parquet_bloom.errors import UnknownColumnError

pytestmark = pytest.mark.crash
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")

_RACES_PER_TABLE = 12


class Race:
    """One of ours and another change of the same table, at the same time."""

    def __init__(self, stage: TableStage, ours: Change, other: Other):
        self.stage, self.ours, self.other = stage, ours, other
        ours_first, theirs_first = other.changes(ours.changes(stage.before)), ours.changes(other.changes(stage.before))
        self._left_by_other: set[str] = set()
        self.allowed = {"ours first": ours_first, "theirs first": theirs_first}

    def commit_by_other(self) -> bool:
        """Have the other read the table and commit; return False if ours holds the catalog's database."""
        try:
            self.other.run(open_for_others(self.stage.kind, self.stage.folder))
        except Exception as error:  # of many libraries
            if "locked" not in str(error):
                raise
            return False
        return True

    def play_at(self, number: int) -> str | None:
        """Have the other commit just before a call of ours; return what came of it, None if there is no such call."""
        came: list[bool] = []

        def act() -> None:
            came.append(self.commit_by_other())

        outcome = self.stage.run(self.ours, Rule(number, number, "", BEFORE, ASK), on_asked=act, reads=True)
        if not came:
            return None
        end = "done"
        if not came[0]:
            self._left_by_other = self.stage.orphans()
            assert self.commit_by_other()
            end = "waited"
        if outcome.code:
            (line,) = outcome.err.splitlines()
            if self.other.name != "vacuum":  # rows of an upsert have to have the new column
                assert "the rows lack this column" in line
                assert not self.stage.orphans()
                assert self.stage.read() == self.other.changes(self.stage.before)
                return "refused as it should be"
            rows = self.stage.read()
            assert rows == self.other.changes(self.stage.before), line
            self.finish(rows)
            return "refused"
        return f"{end} {self.judge()}"

    def play_stale(self) -> str:
        """Have the other commit what it has made of the table before ours."""
        handle = open_for_others(self.stage.kind, self.stage.folder)
        self.ours.run(open_table(self.stage.kind, self.stage.folder))
        assert not self.stage.orphans()
        refused = None
        try:
            self.other.run(handle)
        except Exception as error:  # a conflict, by the words of many libraries
            refused = error
        if refused is not None:
            assert self.stage.read() == self.ours.changes(self.stage.before), refused
            return f"conflict: {type(refused).__name__}"
        after, before = self.ours.changes(self.stage.before), self.stage.before
        if not before - after:
            # Their libraries do not look for what was appended since they read the table, be it by themselves: an
            # overwrite leaves it there, and an upsert does not find its keys.
            self.allowed["theirs missed ours"] = self.other.changes(before) + (after - before)
        return f"done {self.judge()}"

    def judge(self) -> str:
        rows = self.stage.read()
        found = [order for order, expected in self.allowed.items() if rows == expected]
        if not found:
            texts = [
                f"{order}: missing {[*(expected - rows)][:5]}, too many {[*(rows - expected)][:5]}"
                for order, expected in self.allowed.items()
            ]
            raise AssertionError("rows are lost, doubled or back; " + "; ".join(texts))
        self.finish(rows)
        return found[0]

    def finish(self, rows: Rows) -> None:
        """No files are left over, and a second run ends the work, and a third changes nothing."""
        orphans = self.stage.orphans() - self._left_by_other
        assert not orphans, orphans
        expected = self.ours.changes(rows)
        if self.other.name == "schema" and self.ours.how == "upsert":
            with pytest.raises(UnknownColumnError, match="the rows lack this column"):
                self.ours.run(open_table(self.stage.kind, self.stage.folder))
            return
        report = self.ours.run(open_table(self.stage.kind, self.stage.folder))
        if self.ours.mode != "update":
            assert report.changed == (rows != expected)
            assert not self.ours.run(open_table(self.stage.kind, self.stage.folder)).changed
        assert self.stage.read() == expected


def may_be_stale(kind: str, other: str) -> bool:
    """Return whether another writer's library may be asked to go on with a table that it read before ours committed.

    A vacuum by deltalake deletes what it does not know, if it is told to keep no files for a time.
    """
    return kind != "iceberg 3" and other != "ours" and (kind, other) != ("delta", "vacuum")


def find_last(calls: list[Call], other: str) -> int:
    """Return the number of the last call at which another writer may come.

    A vacuum that keeps no files for a time must not come between the last look at the new files and the commit, which
    are a few calls apart; and two runs differ by a few calls.
    """
    if other != "vacuum":
        return len(calls)
    in_log = (call.number for call in calls if call.name == "fsync" and "/_delta_log/." in call.path)
    return max(in_log, default=len(calls) + 8) - 8


@pytest.mark.ci
@pytest.mark.parametrize("kind", [pytest.param(KINDS[0], marks=pytest.mark.default), *KINDS[1:]])
def test_another_writer_at_any_call(kind: str, commands: Commands, room: Path) -> None:
    tally: Counter[str] = Counter()
    stage: TableStage | None = None
    calls: dict[str, list[Call]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for played, seed in enumerate(seeds(max(scaled(3), 3))):
            rng = random.Random(f"{kind} {seed}")
            if stage is None or not played % _RACES_PER_TABLE:
                stage, calls = TableStage(kind, commands, room, rng), {}
            ours = draw_change(rng, kind)
            name = OTHERS[seed % len(OTHERS)]
            other = draw_other(rng, kind, name, ours, stage.folder)
            race = Race(stage, ours, other)
            is_stale = may_be_stale(kind, name) and rng.random() < 0.25
            try:
                stage.fresh()
                if is_stale:
                    end = "stale: " + race.play_stale()
                else:
                    if ours.name not in calls:
                        calls[ours.name] = stage.run(ours, reads=True).calls
                        stage.fresh()
                    number = rng.randint(1, find_last(calls[ours.name], name))
                    end = race.play_at(number) or "no such call"
            except BaseException as error:
                where = "stale" if is_stale else f"at call {number} of {len(calls[ours.name])}"
                print(json.dumps({"kind": kind, "tally": tally}))
                error.add_note(f"seed {seed}, {kind}: {ours}, {other.name}, {where}")
                raise
            tally[f"{name} | {ours.name} | {other.name} | {end}"] += 1
    print(json.dumps({"kind": kind, "tally": tally}))
    assert sum(tally.values()) > sum(number for text, number in tally.items() if "no such call" in text)
