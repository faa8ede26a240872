"""Rows of Iceberg tables are deleted by one commit: by position delete files, or by vectors in version 3."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.engines.iceberg_duckdb import open_duckdb
from support.random_cases.hunting import seeds
from support.scale import scaled
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import PATH_ID, list_entries

import parquet_bloom
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.embed.exchange_files import HiddenRows, RowChange, TableState
from parquet_bloom.tables.embed.exchange_iceberg import IcebergTarget
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg")
from support.random_cases.iceberg_tables import draw_table


def plain(path: str) -> str:
    return path.removeprefix("file://")


def open_target(table: Any) -> IcebergTarget:
    return IcebergTarget(iceberg(tables.reload(table)).latest(outside=True))


def make_change(state: TableState, rows: Mapping[str, Iterable[int]], removed: Iterable[str] = ()) -> RowChange:
    """Return a change of files by their paths in the metadata."""
    files = {plain(file.entry): file for file in state.files}
    hidden = [HiddenRows(files[plain(path)], np.array(sorted(each), np.int64)) for path, each in rows.items()]
    emptied = [HiddenRows(files[plain(path)], np.empty(0, np.int64)) for path in removed]
    return RowChange(hidden, emptied, (), "delete")


def delete(table: Any, rows: Mapping[str, Iterable[int]], removed: Iterable[str] = ()) -> Any:
    """Delete rows by their numbers in files, and return pyiceberg's snapshot."""
    target = open_target(table)
    state = target.read_state()
    version = target.commit_rows(state, make_change(state, rows, removed))
    now = tables.reload(table).current_snapshot()
    assert now.snapshot_id == version
    return now


def find_rows(table: Any, ids: Iterable[int]) -> dict[str, list[int]]:
    """Return {path: rows} of all rows of files with these ids, whether deleted or not."""
    wanted, found = set(ids), {}
    for file in open_target(table).read_state().files:
        rows = [n for n, value in enumerate(pq.read_table(file.path)["id"].to_pylist()) if value in wanted]
        if rows:
            found[file.path] = rows
    return found


def read(table: Any, snapshot_id: int | None = None, *, engines: Sequence[str] = ("pyiceberg", "duckdb")) -> list[int]:
    """Return the ids, which are the same by this package and other engines."""
    now = tables.reload(table)
    shown = parquet_bloom.dataset(iceberg(now, snapshot_id=snapshot_id)).scan(columns=["id"]).to_arrow()
    ids = sorted(shown["id"].to_pylist())
    if "pyiceberg" in engines:
        assert sorted(now.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist()) == ids
    duckdb = open_duckdb()
    if duckdb is not None and "duckdb" in engines and snapshot_id is None:
        assert duckdb.read(plain(now.metadata_location), "id") == ids
    return ids


def check_manifests(table: Any) -> None:
    """Check the summary's totals, and that each vector is the only one of its data file."""
    now = tables.reload(table)
    data, deletes = list_entries(now, 0), list_entries(now, 1)
    vectors = [entry["referenced_data_file"] for entry in deletes if entry["file_format"] == "PUFFIN"]
    assert len(set(vectors)) == len(vectors)
    assert set(vectors) <= {entry["file_path"] for entry in data}
    totals = now.current_snapshot().summary.additional_properties
    if "total-data-files" in totals:
        assert int(totals["total-data-files"]) == len(data)
        assert int(totals["total-records"]) == sum(entry["record_count"] for entry in data)
        assert int(totals["total-delete-files"]) == len(deletes)
        positions = sum(entry["record_count"] for entry in deletes if entry["content"] == 1)
        assert int(totals["total-position-deletes"]) == positions


def test_position_deletes_of_a_partitioned_table(tmp_path: Path) -> None:
    """One file for each partition, sorted, with bounds; partitions of several specs."""
    table = tables.make_iceberg(tmp_path, 2, partitioned=True)
    with tables.reload(table).update_spec() as update:
        update.remove_field("p")
    tables.reload(table).append(tables.rows(2 * tables.ROWS))
    before, old = read(table), tables.reload(table).current_snapshot()
    gone = [5, 6, 10, 105, 110, 111, 205, 299]
    snapshot = delete(table, find_rows(table, gone))
    assert read(table) == sorted(set(before) - set(gone))
    assert read(table, old.snapshot_id) == before
    check_manifests(table)
    entries = list_entries(tables.reload(table), 1)
    assert len(entries) == 3
    assert {entry["manifest"]["partition_spec_id"] for entry in entries} == {0, 1}
    for entry in entries:
        named = pq.read_table(plain(entry["file_path"]))
        rows = [(row["file_path"], row["pos"]) for row in named.to_pylist()]
        assert rows == sorted(rows, key=lambda row: (row[0].encode(), row[1]))
        assert (entry["record_count"], entry["status"], entry["sequence_number"]) == (len(rows), 1, None)
        bounds = [entry[name][PATH_ID].decode() for name in ("lower_bounds", "upper_bounds")]
        assert bounds == [rows[0][0], rows[-1][0]]
        assert {name: named.schema.field(name).metadata[b"PARQUET:field_id"] for name in named.column_names} == {
            "file_path": b"2147483546",
            "pos": b"2147483545",
        }
    assert snapshot.summary.operation.value == "delete"
    summary = snapshot.summary.additional_properties
    names = ("added-delete-files", "added-position-delete-files", "added-position-deletes", "changed-partition-count")
    assert [summary[name] for name in names] == ["3", "3", "8", "3"]
    # Others go on from there: a delete, by which pyiceberg writes files anew, and an embedding.
    tables.reload(table).delete("id == 7")
    assert embed_table(table, ["id"]).changed
    delete(table, find_rows(table, [8]))
    assert read(table) == sorted(set(before) - {*gone, 7, 8})
    check_manifests(table)


def test_random_tables(tmp_path: Path) -> None:
    """Rows that are chosen at random, of tables that have deletes of all kinds, in several commits."""
    hidden, removed = 0, 0
    for seed in seeds(scaled(4)):
        rng = random.Random(seed)
        drawn = draw_table(rng, tmp_path / str(seed) / "table")
        table = tables.make_catalog(tmp_path / str(seed)).register_table("db.events", drawn.metadata)
        engines = [] if drawn.unusual or drawn.has_equality else ["pyiceberg"]
        if not drawn.unusual and not (drawn.has_equality and drawn.has_nulls()):
            engines.append("duckdb")
        try:
            assert read(table, engines=engines) == drawn.list_ids()
            version, gone = tables.reload(table).metadata.format_version, set[str]()
            for _ in range(3):
                before, old = drawn.list_ids(), tables.reload(table).current_snapshot()
                rows, whole = {}, []
                for file in drawn.files:
                    if file.entry.path in gone:
                        continue
                    live = [number for number in range(len(file.rows)) if number not in file.deleted]
                    part = rng.choice([0, 0.1, 0.5, 1])
                    chosen = [number for number in live if rng.random() < part]
                    if len(chosen) == len(live) and rng.random() < 0.5:
                        whole.append(file.entry.path)
                        gone.add(file.entry.path)
                    elif chosen and version > 1:
                        rows[file.entry.path] = chosen
                        hidden += len(chosen)
                    else:
                        continue
                    file.deleted.update(chosen)
                if rows or whole:
                    delete(table, rows, whole)
                assert read(table, engines=engines) == drawn.list_ids()
                assert read(table, old.snapshot_id, engines=engines) == before
                check_manifests(table)
            removed += len(gone)
        except BaseException as error:
            error.add_note(f"seed {seed}: {drawn.metadata}")
            raise
    assert hidden > 5
    assert removed
