"""Rows of an Iceberg table in a store are deleted and added, whatever others do between any two requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.servers.iceberg_store import NAME, IcebergStore
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.tables.embed.exchange_iceberg import IcebergTarget
from parquet_bloom.tables.embed.table_target import CommitConflict, HiddenRows, RowChange
from parquet_bloom.tables.iceberg.iceberg_table import iceberg
from parquet_bloom.tables.table_snapshot import ReadTable

pytest.importorskip("pyiceberg.catalog.sql")

GONE = [5, 6, 12, 77]
STEPS = 60  # more than there are requests of one run


def delete_ids(catalog: Any) -> int | None:
    """Delete rows, located anew after each conflict; return the version by which they were."""
    target = IcebergTarget(iceberg(NAME, catalog=catalog).latest(outside=True))
    while True:
        state = target.read_state()
        found = parquet_bloom.dataset(ReadTable(state.snapshot)).locate("id", GONE)
        rows: dict[str, list[int]] = {}
        for path, row in zip(found["path"].to_pylist(), found["row"].to_pylist(), strict=True):
            rows.setdefault(path, []).append(row)
        files = {file.path: file for file in state.files}
        hidden = [HiddenRows(files[path], np.array(sorted(each), np.int64)) for path, each in rows.items()]
        if not hidden:
            return state.version
        try:
            return target.commit_rows(state, RowChange(hidden, [], "delete"))
        except CommitConflict:
            continue


def check(store: IcebergStore, expected: Counter[Any]) -> None:
    """Check the rows by two readers, and that a second run deletes nothing."""
    assert store.read() == expected
    shown = parquet_bloom.dataset(iceberg(NAME, catalog=store.open("sql"))).scan().to_arrow()
    assert tables.contents(shown) == expected
    current = store.load().current_snapshot().snapshot_id
    assert delete_ids(store.open("sql")) == current


def kept(rows: Counter[Any]) -> Counter[Any]:
    return tables.kept(lambda row: row[0] not in GONE)(rows)


@pytest.fixture
def store(s3: Any, tmp_path: Path) -> Iterator[IcebergStore]:
    made = IcebergStore(s3, tmp_path)
    made.create()
    yield made
    made.server.close()


@pytest.fixture(scope="module")
def other_process() -> Iterator[ProcessPoolExecutor]:
    """Where another writer works: in this one pyarrow has it wait for the request that waits for it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


OTHERS = ["append", "delete all", "overwrite"]


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["sql", pytest.param("rest", marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", ["delete", *(pytest.param(name, marks=pytest.mark.ci) for name in OTHERS)])
@pytest.mark.parametrize("steps", [[8], pytest.param(range(STEPS), marks=pytest.mark.long)], ids=["some", "all"])
def test_another_writer_between_any_two_requests(
    store: IcebergStore, other_process: ProcessPoolExecutor, kind: str, name: str, steps: Any
) -> None:
    before, changes = store.read(), tables.ICEBERG_OPERATIONS[name].changes
    for step in steps:
        store.restore()
        done = store.at_request(
            step, lambda: other_process.submit(tables.change_iceberg, store.sql, NAME, name).result()
        )
        version = delete_ids(store.open(kind))
        store.calm()
        # Rows that the other writer has written after ours are not deleted: those of "overwrite" have such ids.
        after = [kept(changes(before)), changes(kept(before))] if done else [kept(before)]
        assert store.read() in after, step
        assert version in {each.snapshot_id for each in store.load().snapshots()}
        if name != "overwrite":
            check(store, kept(changes(before)) if done else kept(before))
        if step == steps[-1] and len(steps) == STEPS:
            assert not done  # all steps were reached


PROGRAM = """
import json, sys
sys.path[:0] = json.loads(sys.argv[2])
from pyiceberg.catalog import load_catalog
from test_iceberg_row_races import delete_ids
delete_ids(load_catalog("catalog", **json.loads(sys.argv[1])))
"""


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["sql", pytest.param("rest", marks=pytest.mark.ci)])
@pytest.mark.parametrize("steps", [[14], pytest.param(range(STEPS), marks=pytest.mark.long)], ids=["some", "all"])
def test_kill_at_any_request(store: IcebergStore, kind: str, steps: Any) -> None:
    before = store.read()
    for step in steps:
        store.restore()
        paths = json.dumps([os.path.dirname(__file__), *sys.path])
        command = [sys.executable, "-c", PROGRAM, json.dumps(getattr(store, kind)), paths]
        running: list[subprocess.Popen[bytes]] = []
        killed = store.at_request(step, lambda running=running: running[0].send_signal(signal.SIGKILL))
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE))
        _, errors = running[0].communicate(timeout=300)
        store.calm()
        assert running[0].returncode == (-signal.SIGKILL if killed else 0), errors.decode()
        assert store.read() in (before, kept(before))
        delete_ids(store.open(kind))
        check(store, kept(before))
