"""Deletes and upserts killed, or failing, at a call that changes the disk: a table is the old one or the new one."""

from __future__ import annotations

import errno
import json
import os
import random
import warnings
from collections import Counter
from pathlib import Path

import pytest
from faulty import AFTER, BEFORE, EVER, KILL, Commands, Outcome, Rule
from scenarios import moments
from support.random_cases.hunting import seeds
from support.scale import scaled
from table_stage import KINDS, Change, TableStage, draw_other, find_leftovers, open_for_others, open_table
from test_faults import KINDS as FAILURES

from parquet_bloom.file.file_rewrite import sweep

pytestmark = pytest.mark.crash
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg.catalog.sql")

CHANGES = {
    kind: [
        Change("delete", "hide", (5, 40, 150, 230)),
        Change("upsert", "update", (5, 150, 230)),
        Change("upsert", "keep", (5, 230)),
        *([] if kind == "iceberg 3" else [Change("delete", "rewrite", (5, 40, 150, 230))]),
    ]
    for kind in KINDS
}
_TURN = 4  # changes of one table


def undisturbed(stage: TableStage, change: Change) -> Outcome:
    stage.fresh()
    outcome = stage.run(change)
    assert outcome.code == 0, outcome.err
    assert stage.read() == change.changes(stage.before)
    assert not stage.orphans()
    return outcome


def check(stage: TableStage, change: Change, by_another: bool) -> bool:
    """Assert that a table is the old or the new one, and that work goes on; return which."""
    rows, expected = stage.read(), change.changes(stage.before)
    assert rows in (stage.before, expected), "neither the old rows nor the new ones"
    if by_another:
        other = draw_other(random.Random(0), stage.kind, "append", change, stage.folder)
        other.run(open_for_others(stage.kind, stage.folder))
        expected = change.changes(other.changes(rows))
    change.run(open_table(stage.kind, stage.folder))
    assert stage.read() == expected
    if change.mode != "update":
        assert not change.run(open_table(stage.kind, stage.folder)).changed
    for leftover in sweep(stage.folder):
        assert leftover.deleted
    assert not find_leftovers(stage.folder)
    assert stage.read() == expected
    return rows == change.changes(stage.before)


def draw(kind: str, commands: Commands, room: Path, count: int):  # type: ignore[no-untyped-def]
    """Yield a random table, a change of it, and the run that nothing has disturbed."""
    for turn, seed in enumerate(seeds(count)):
        rng = random.Random(f"{kind} {seed}")
        if turn % _TURN == 0:
            stage = TableStage(kind, commands, room, rng)
            runs: dict[str, Outcome] = {}
        change = CHANGES[kind][seed % len(CHANGES[kind])]
        if change.name not in runs:
            runs[change.name] = undisturbed(stage, change)
        stage.fresh()
        yield rng, stage, change, runs[change.name].calls


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_call(kind: str, commands: Commands, room: Path) -> None:
    tally: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rng, stage, change, calls in draw(kind, commands, room, max(4, scaled(4))):
            some = moments(calls)
            # One in three kills about the commit, which is the last but few of all calls.
            number, when = rng.choice(some[-12:] if rng.random() < 0.3 else some)
            outcome = stage.run(change, Rule(number, number, "", when, KILL))
            try:
                assert outcome.killed or when == AFTER
                done = check(stage, change, by_another=rng.random() < 0.5)
            except BaseException as error:
                error.add_note(
                    f"{kind}: {change}, killed at call {number} of {len(calls)}, {calls[number - 1]}, {when}"
                )
                raise
            tally[f"{change.name} | {'new' if done else 'old'}"] += 1
    print(json.dumps({"kind": kind, "kills": tally}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_fails(kind: str, commands: Commands, room: Path) -> None:
    """The disk is full, from a call on or for one, or may only be read: one line, the old table, and nothing left."""
    tally: Counter[str] = Counter()
    kinds = ["full disk", "full disk for good", "read-only for good"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rng, stage, change, calls in draw(kind, commands, room, max(4, scaled(4))):
            failure = rng.choice(kinds)
            names, number_of_error, for_good = FAILURES[failure]
            number = 1 if failure.startswith("read-only") and rng.random() < 0.3 else rng.randint(1, len(calls))
            rule = Rule(number, EVER if for_good else number, names, BEFORE, number_of_error)
            outcome = stage.run(change, rule)
            try:
                assert not outcome.killed
                rows = stage.read()
                if outcome.code:
                    assert len(outcome.err.splitlines()) == 1, outcome.err
                    assert os.strerror(number_of_error) in outcome.err or is_of_database(outcome.err), outcome.err
                    assert rows == stage.before
                    if number_of_error == errno.ENOSPC:  # otherwise nothing can be deleted
                        assert not stage.orphans()
                else:
                    assert rows == change.changes(stage.before)
                check(stage, change, by_another=False)
            except BaseException as error:
                error.add_note(f"{kind}: {change}, {failure} from call {number} of {len(calls)}, {calls[number - 1]}")
                raise
            tally[f"{change.name} | {failure} | {'refused' if outcome.code else 'done'}"] += 1
    print(json.dumps({"kind": kind, "failures": tally}))


def is_of_database(line: str) -> bool:
    """Return whether an error is SQLite's, which says by itself why it failed."""
    return any(text in line for text in ("disk is full", "disk I/O error", "readonly database", "unable to open"))
