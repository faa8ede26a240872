"""Rows of Iceberg tables are deleted by one commit: by position delete files, or by vectors in version 3."""

from __future__ import annotations

import datetime as dt
import decimal
import errno
import json
import os
import random
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines.iceberg_duckdb import open_duckdb
from support.random_cases.hunting import seeds
from support.scale import scaled
from support.servers.iceberg_store import NAME, IcebergStore
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import PATH_ID, POSITION_ID, HandTable, list_entries

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.embed.exchange_iceberg import IcebergTarget
from parquet_bloom.tables.embed.new_data import split_by_partition
from parquet_bloom.tables.embed.table_target import (
    CommitConflict,
    HiddenRows,
    NewFile,
    RewrittenFile,
    RowChange,
    TableState,
)
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
    return RowChange(hidden, emptied, "delete")


def write_anew(target: IcebergTarget, state: TableState, path: str, rows: Sequence[int]) -> RewrittenFile:
    """Write a file with these rows of a file alone."""
    old = next(file for file in state.files if plain(file.entry) == plain(path))
    new = target.name_new_file(old)
    pq.write_table(pq.read_table(old.path).take(rows), new)
    return RewrittenFile(old, np.empty(0, np.int64), new, os.path.getsize(new), len(rows))


def delete(
    table: Any,
    rows: Mapping[str, Iterable[int]],
    removed: Iterable[str] = (),
    rewritten: Mapping[str, Sequence[int]] | None = None,
) -> Any:
    """Delete rows by their numbers in files, or write files with others alone, and return pyiceberg's snapshot."""
    target = open_target(table)
    state = target.read_state()
    new = [write_anew(target, state, path, kept) for path, kept in (rewritten or {}).items()]
    version = target.commit_rows(state, make_change(state, rows, removed)._replace(rewritten=new))
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


@pytest.mark.ci
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


FIELDS = [{"id": 1, "name": "id", "required": False, "type": "long"}]


def make_hand(folder: Path, version: int, files: int = 3) -> tuple[HandTable, list[Any]]:
    """Return a table of files of ten rows, whose ids begin at 0, 10 and 20, and their entries."""
    hand = HandTable(folder / "table", [FIELDS], version=version)
    parts = [pa.table({"id": pa.array(range(10 * n, 10 * n + 10), pa.int64())}) for n in range(files)]
    return hand, [hand.write_file(part, {"id": 1}, sequence=3) for part in parts]


def register(hand: HandTable, folder: Path) -> Any:
    return tables.make_catalog(folder).register_table("db.events", hand.write_metadata())


def test_vectors_take_the_place_of_what_there_was(tmp_path: Path) -> None:
    """Of older vectors, and of position deletes from before an upgrade, unless these are about other files too."""
    from pyiceberg.table.puffin import PuffinFile

    hand, files = make_hand(tmp_path, 3)
    one, two, three = (entry.path for entry in files)
    bound = {PATH_ID: two.encode(), POSITION_ID: (3).to_bytes(8, "little")}
    vectors = hand.write_vectors({one: [0, 5]}, sequence=6)
    single = hand.write_positions([(two, 3)], sequence=7, metrics={"lower": bound, "upper": bound})
    both = hand.write_positions([(two, 1), (three, 0)], sequence=5)
    hand.add_snapshot([*files, *vectors, single, both], first_row=100)
    table = register(hand, tmp_path)
    old = tables.reload(table).current_snapshot()
    before = read(table)
    snapshot = delete(table, {one: [9], two: [0, 9]})
    expected = sorted(set(before) - {9, 10, 19})
    assert read(table) == expected
    assert read(table, old.snapshot_id) == before
    found = {entry["referenced_data_file"]: entry for entry in list_entries(tables.reload(table), 1)}
    assert {name: (entry["record_count"], entry["status"]) for name, entry in found.items()} == {
        one: (3, 1),
        two: (4, 1),
        None: (2, 0),
    }
    assert found[None]["file_path"] == both.path
    for name in (one, two):  # each in a file of its own
        content = Path(plain(found[name]["file_path"])).read_bytes()
        (blob,) = PuffinFile(content).footer.blobs
        place = found[name]["content_offset"], found[name]["content_size_in_bytes"]
        assert (blob.properties["referenced-data-file"], (blob.offset, blob.length)) == (name, place)
        assert found[name]["file_size_in_bytes"] == len(content)
    summary = snapshot.summary.additional_properties
    names = ("added-dvs", "added-position-deletes", "removed-dvs", "removed-position-delete-files")
    assert [summary[name] for name in names] == ["2", "7", "1", "1"]
    # Rows keep their ids, and no ids are taken.
    assert (snapshot.first_row_id, snapshot.added_rows) == (130, 0)
    assert tables.reload(table).metadata.next_row_id == 130
    delete(table, {three: [1]}, [two])
    assert read(table) == sorted(set(expected) - {*range(10, 20), 21})
    assert {entry["referenced_data_file"] for entry in list_entries(tables.reload(table), 1)} == {one, three, None}
    assert embed_table(table, ["id"]).changed
    assert read(table) == sorted(set(expected) - {*range(10, 20), 21})


def test_files_of_which_all_rows_are_deleted(tmp_path: Path) -> None:
    """They go, with the deletes that are about them alone; what is left empty is left out of the next snapshot."""
    table = tables.make_iceberg(tmp_path, 3)
    paths = sorted(file.entry for file in open_target(table).read_state().files)
    delete(table, {paths[0]: [1, 2], paths[1]: [5]})
    live = read(table)
    snapshot = delete(table, {paths[1]: [6]}, [paths[0]])
    gone = pq.read_table(plain(paths[0]))["id"].to_pylist() + pq.read_table(plain(paths[1]))["id"].to_pylist()[6:7]
    assert read(table) == sorted(set(live) - set(gone))
    assert len(list_entries(tables.reload(table), 1)) == 2  # the first one is about two data files
    summary = snapshot.summary.additional_properties
    assert [summary[name] for name in ("deleted-data-files", "deleted-records", "total-records")] == ["1", "100", "200"]
    delete(table, {}, paths[1:])
    assert read(table) == []
    assert tables.reload(table).current_snapshot().summary.additional_properties["total-data-files"] == "0"
    tables.reload(table).append(tables.rows(7_000, 10))
    delete(table, find_rows(table, [7_001]))
    assert read(table) == [7_000, *range(7_002, 7_010)]
    check_manifests(table)
    manifests = tables.reload(table).current_snapshot().manifests(table.io)
    assert all(one.added_files_count or one.existing_files_count for one in manifests)


def test_equality_deletes_stay(tmp_path: Path) -> None:
    hand, files = make_hand(tmp_path, 2)
    hand.add_snapshot([*files, hand.write_equality(pa.table({"id": [3, 21]}), {"id": 1}, sequence=50)])
    table = register(hand, tmp_path)
    delete(table, {files[0].path: [4], files[2].path: [0, 9]})  # of which 20 was not deleted so far, and 29
    assert read(table, engines=["duckdb"]) == sorted({*range(30)} - {3, 4, 20, 21, 29})
    assert {entry["content"] for entry in list_entries(tables.reload(table), 1)} == {1, 2}


@pytest.mark.ci
@pytest.mark.parametrize("version", [1, 2])
def test_files_that_are_written_anew(tmp_path: Path, version: int) -> None:
    """The manifest says of them what pyiceberg says of files with such rows; nothing hides rows of them any more."""
    table = tables.make_iceberg(tmp_path, 2, version=version, partitioned=True)
    old = tables.reload(table).current_snapshot()
    before = read(table)
    paths = [entry["file_path"] for entry in list_entries(tables.reload(table), 0)][:2]
    rows = {path: pq.read_table(plain(path))["id"].to_pylist() for path in paths}
    if version > 1:
        delete(table, {paths[0]: [3]})
    kept = {path: [number for number in range(len(rows[path])) if number not in (0, 3, 5)] for path in paths}
    gone = {rows[path][number] for path in paths for number in (0, 3, 5)}
    snapshot = delete(table, {}, rewritten=kept)
    assert read(table) == sorted(set(before) - gone)
    assert read(table, old.snapshot_id) == before
    assert snapshot.summary.operation.value == "overwrite"
    summary = snapshot.summary.additional_properties
    names = ("added-data-files", "deleted-data-files", "added-records", "deleted-records", "total-records")
    assert [summary[name] for name in names] == ["2", "2", "34", "40", "194"]
    check_manifests(table)
    assert list_entries(tables.reload(table), 1) == []  # what was about an old file alone
    new = [entry for entry in list_entries(tables.reload(table), 0) if entry["record_count"] == 17]
    for number, entry in enumerate(new):
        expected = table.catalog.create_table(f"db.same{number}", tables.rows(0).schema)
        expected.append(pq.read_table(plain(entry["file_path"])))
        (same,) = list_entries(expected, 0)
        for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
            assert entry[name] == same[name], name
    for number in (1, 2, 7):
        assert tables.reload(table).scan(row_filter=f"id == {number}").to_arrow().num_rows == (number not in gone)


@pytest.mark.ci
@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_and_files_that_are_written_anew(tmp_path: Path, version: int) -> None:
    """A new file is as old as the one before: what deleted its rows by their values still does."""
    hand, files = make_hand(tmp_path, version)
    deletes = hand.write_equality(pa.table({"id": [3, 4, 21]}), {"id": 1}, sequence=50)
    hand.add_snapshot([*files, deletes], first_row=0 if version == 3 else None)
    table = register(hand, tmp_path)
    delete(table, {}, rewritten={files[0].path: [0, 1, 2, 4, 9]})  # with a row that they have deleted so far
    assert read(table, engines=["duckdb"]) == [0, 1, 2, 9, *range(10, 21), *range(22, 30)]
    new = next(entry for entry in list_entries(tables.reload(table), 0) if entry["record_count"] == 5)
    assert (new["status"], new["sequence_number"]) == (1, 3)
    report = parquet_bloom.delete(tables.reload(table), [2, 20], "id", mode="rewrite")
    # A row that was deleted by its value is not written anew, either.
    assert {pq.read_table(file.output)["id"].to_pylist()[0]: file.num_rows for file in report.files} == {0: 1, 22: 1}
    assert [pq.read_metadata(file.output).num_rows for file in report.files] == [3, 8]
    assert (report.rows_after, read(table, engines=["duckdb"])) == (0, [0, 1, 9, *range(10, 20), *range(22, 30)])
    report = parquet_bloom.delete(tables.reload(table), where="id < 10", mode="rewrite")
    assert [(file.how, file.num_rows) for file in report.files] == [("removed", 3)]


def make_transforms(folder: Path) -> Any:
    """Return a table of thirty rows that is partitioned in several ways from now on, and these rows and thirty more."""
    from pyiceberg import transforms

    catalog = tables.make_catalog(folder)
    moments = [dt.datetime(2026, 1, 1 + number % 3, number % 24) for number in range(60)]
    rows = pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "s": [None if number % 7 == 0 else f"né{number % 5}" for number in range(60)],
            "x": pa.array([float("nan") if number % 9 == 0 else number % 2 / 3 for number in range(60)]),
            "t": pa.array(moments, pa.timestamp("us")),
        }
    )
    table = catalog.create_table("db.events", rows.schema, properties={"format-version": "2"})
    table.append(rows.slice(0, 30))
    with table.update_spec() as update:
        update.add_field("id", transforms.BucketTransform(2), "b")
        update.add_field("s", transforms.TruncateTransform(2), "p")
        update.add_field("x", transforms.IdentityTransform(), "x")
        update.add_field("t", transforms.DayTransform(), "d")
    return table, rows


def upgrade(table: Any, folder: Path) -> None:
    """Make a table one of version 3, which pyiceberg does not."""
    location = plain(tables.reload(table).metadata_location)
    document = json.loads(Path(location).read_text()) | {"format-version": 3, "next-row-id": 0}
    later = f"{os.path.dirname(location)}/00099-later.metadata.json"
    Path(later).write_text(json.dumps(document))
    with sqlite3.connect(folder / "catalog.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", [f"file://{later}"])


def write_new(state: TableState, rows: pa.Table) -> list[NewFile]:
    """Write files of new rows."""
    added = []
    for part in split_by_partition(state.handle.table, rows):
        path = plain(part.path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        pq.write_table(part.rows, path)
        added.append(NewFile(path, os.path.getsize(path), len(part.rows), part.partition))
    return added


@pytest.mark.ci
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_first_rows_of_a_table(tmp_path: Path, version: int) -> None:
    table = tables.make_iceberg(tmp_path, 0, version=min(version, 2), partitioned=True)
    if version == 3:
        upgrade(table, tmp_path)
    for start in (0, 100):  # the second time there is a snapshot before
        target = open_target(table)
        state = target.read_state()
        added = write_new(state, tables.rows(start, 10))
        target.commit_rows(state, RowChange([], [], "upsert", added=added))
        assert tables.reload(table).current_snapshot().summary.operation.value == "append"
    assert read(table) == [*range(10), *range(100, 110)]
    assert read(table, state.version) == [*range(10)]
    check_manifests(table)
    path = f"{os.path.dirname(added[0].path)}/without-ids.parquet"
    pq.write_table(tables.rows(200, 5), path)
    change = RowChange([], [], "upsert", added=[NewFile(path, os.path.getsize(path), 5, None)])
    with pytest.raises(ParquetBloomError, match="has no field ids, and its table has no name mapping"):
        target.commit_rows(state, change)


def test_partitions_of_every_type(tmp_path: Path) -> None:
    """New rows get the partition values that readers show in the place of the columns."""
    from pyiceberg.transforms import IdentityTransform

    storage = pa.array([uuid.UUID(int=5).bytes, None], pa.binary(16))
    values = {
        "id": pa.array([0, 1], pa.int64()),
        "a": pa.array([dt.date(1969, 12, 31), None]),
        "t": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 5), None], pa.timestamp("us")),
        "c": pa.array([dt.time(1, 2, 3), None], pa.time64("us")),
        "d": pa.array([decimal.Decimal("-123.45"), None], pa.decimal128(9, 2)),
        "u": pa.ExtensionArray.from_storage(pa.uuid(), storage),
        "b": pa.array([b"ab", None], pa.large_binary()),
        "o": pa.array([False, None]),
        "s": pa.array(["x/y é", None], pa.large_string()),
        "x": pa.array([0.1, None], pa.float64()),
    }
    rows = pa.table(values)
    table = tables.make_catalog(tmp_path).create_table("db.events", rows.schema)
    with table.update_spec() as update:
        for name in rows.column_names[1:]:
            update.add_field(name, IdentityTransform(), f"of {name}")
    target = open_target(table)
    state = target.read_state()
    target.commit_rows(state, RowChange([], [], "upsert", added=write_new(state, rows)))
    assert read(table) == [0, 1]
    shown = parquet_bloom.dataset(iceberg(tables.reload(table))).scan().to_arrow().sort_by("id")
    assert shown.to_pylist() == tables.reload(table).scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


@pytest.mark.ci
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_hidden_and_added_in_one_commit(tmp_path: Path, version: int) -> None:
    table, rows = make_transforms(tmp_path)
    if version == 3:
        upgrade(table, tmp_path)
    before = read(table)
    target = open_target(table)
    state = target.read_state()
    added = write_new(state, rows.slice(10))
    assert len(added) == 20
    change = make_change(state, find_rows(table, range(10, 60)))
    target.commit_rows(state, change._replace(operation="upsert", added=added))
    assert before == list(range(30))
    assert read(table) == list(range(60))
    now = tables.reload(table)
    assert now.current_snapshot().summary.operation.value == "overwrite"
    check_manifests(table)
    for text in ("s = 'né3'", "t >= '2026-01-03T00:00:00'", "x < 0.2", "s is null", "id = 41"):
        found = now.scan(row_filter=text).to_arrow()["id"].to_pylist()
        own = parquet_bloom.read_table(iceberg(now), text)["id"].to_pylist()
        assert sorted(own) == sorted(found) != [], text
    if version == 3:
        assert now.metadata.next_row_id == 30 + 50


def files_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and ".db" not in path.suffix}


def test_what_is_refused_by_name(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 1, version=1)
    (path,) = (file.entry for file in open_target(table).read_state().files)
    files = files_in(tmp_path)
    with pytest.raises(ParquetBloomError, match="it has format version 1: upgrade it to version 2 first"):
        delete(table, {path: [1]})
    with tables.reload(table).transaction() as transaction:
        transaction.upgrade_table_version(2)
    files = files_in(tmp_path)
    for rows in ([-1], [100], [3, 3], []):
        with pytest.raises(ParquetBloomError, match="are not numbers of its 100 rows in ascending order"):
            delete(table, {path: rows})
    with pytest.raises(ParquetBloomError, match="a file that the table has not, or is named twice"):
        delete(table, {path: [1]}, [path])
    assert files_in(tmp_path) == files
    delete(table, {path: [99]})  # its manifest is of version 1
    assert len(read(table)) == 99
    delete(table, {}, [path])
    assert read(table) == []


@pytest.mark.ci
@pytest.mark.parametrize("version", [1, 2])
def test_snapshots_that_still_hold_rows_are_counted(tmp_path: Path, version: int) -> None:
    """Each of them is searched; of version 1 it is only known of the last one, as rows have no age there."""
    table = tables.make_iceberg(tmp_path, 2, version=version)
    snapshots = [snapshot.snapshot_id for snapshot in tables.reload(table).snapshots()]
    assert embed_table(tables.reload(table), ["id"]).changed
    snapshots.append(tables.reload(table).current_snapshot().snapshot_id)
    gone = [5, 105, 106]
    report = parquet_bloom.delete(tables.reload(table), gone, "id", mode="rewrite")
    texts = [str(one) for one in report.held]
    if version == 1:
        assert texts[0].startswith(f"still holds 3 of them: the snapshot {snapshots[2]} of the table; ")
        assert texts[1].startswith(f"may still hold them: the snapshots up to {snapshots[1]} of the table, in files")
        return
    assert texts[0].startswith(f"still holds 3 of them: the snapshots {snapshots[1]} to {snapshots[2]} of the table; ")
    assert texts[1].startswith(f"still holds 1 of them: the snapshot {snapshots[0]} of the table; ")
    held = [len({*gone} & {*read(table, number)}) for number in snapshots]
    assert held == [1, 3, 3]


LESS_USUAL = ["append", "delete all", "overwrite"]


@pytest.mark.ci
@pytest.mark.parametrize(
    "name", ["delete", "embed", "add a column", *(pytest.param(name, marks=pytest.mark.ci) for name in LESS_USUAL)]
)
def test_another_writer_was_first(tmp_path: Path, name: str) -> None:
    table = tables.make_iceberg(tmp_path, 2)
    target = open_target(table)
    state = target.read_state()
    if name == "embed":
        embed_table(table, ["id"])
    else:
        tables.ICEBERG_OPERATIONS[name].run(tables.reload(table))
    files, before = files_in(tmp_path), read(table)
    change = make_change(state, {state.files[0].entry: [5, 7]})
    if name == "add a column":  # the files are the same
        target.commit_rows(state, change)
        assert len(read(table)) == len(before) - 2
        return
    with pytest.raises(CommitConflict):
        target.commit_rows(state, change)
    assert (files_in(tmp_path), read(table)) == (files, before)


@pytest.mark.ci
@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.ci), 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "no space left")], ids=["stop", "full"])
def test_a_commit_that_ends_at_any_step(
    tmp_path: Path, version: int, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a file is opened or begun: the table is as it was, and nothing is left behind."""
    from pyiceberg.io.pyarrow import PyArrowFile

    hand, files = make_hand(tmp_path, version)
    paths = [entry.path for entry in files]
    deletes = hand.write_vectors({paths[0]: [0]}, sequence=6) if version == 3 else []
    hand.add_snapshot([*files, *deletes], first_row=100 if version == 3 else None)
    table = register(hand, tmp_path)
    before, found, left = read(table), files_in(tmp_path), [0]

    def step(genuine: Any, *args: Any, **more: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise error
        return genuine(*args, **more)

    for kind in ("open", "create"):
        monkeypatch.setattr(PyArrowFile, kind, partialmethod(partial(step, getattr(PyArrowFile, kind))))
    for number in range(1, 50):
        target = open_target(table)
        state = target.read_state()
        change = make_change(state, {paths[0]: [3], paths[1]: [4]}, paths[2:])
        left[0] = number
        try:
            target.commit_rows(state, change)
            break
        except (KeyboardInterrupt, StorageError):
            left[0] = 0
            assert target.find_commit(state) is None
        assert files_in(tmp_path) == found
        assert tables.reload(table).current_snapshot().snapshot_id == state.version
    assert number > 8
    left[0] = 0
    assert read(table) == sorted(set(before) - {3, 14, *range(20, 30)})


@pytest.fixture
def store(s3: Any, tmp_path: Path) -> Iterator[IcebergStore]:
    made = IcebergStore(s3, tmp_path)
    made.create()
    yield made
    made.server.close()


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["sql", pytest.param("rest", marks=pytest.mark.ci)])
def test_a_table_in_a_store(store: IcebergStore, kind: str) -> None:
    """Another writer is in between, at first; each file that is left behind is one of the table's."""
    target = IcebergTarget(iceberg(NAME, catalog=store.open(kind)).latest(outside=True))
    state = target.read_state()
    first = state.files[0]
    ids = pq.read_table(first.path.removeprefix("s3://"), filesystem=store.load().io.fs_by_scheme("s3", None))["id"]
    change = make_change(state, {first.entry: [2, 3]})
    store.load().append(tables.rows(9_000, 1))
    keys = store.keys()
    with pytest.raises(CommitConflict):
        target.commit_rows(state, change)
    assert store.keys() == keys
    before, state = store.read(), target.read_state()
    target.commit_rows(state, make_change(state, {first.entry: [2, 3]}))
    gone = ids.to_pylist()[2:4]
    assert store.read() == tables.kept(lambda row: row[0] not in gone)(before)
    found = parquet_bloom.read_table(iceberg(NAME, catalog=store.open(kind)), "id >= 0")
    assert tables.contents(found) == store.read()
    assert len(store.keys() - keys) == 4  # deletes, their manifest, the list, metadata


def change_at_random(rng: random.Random, table: Any, files: list[Any]) -> Counter[str]:
    """Hide rows, write files anew and remove files, of a table and of what is known of it; return how many files."""
    target = open_target(table)
    state = target.read_state()
    version = state.handle.table.metadata.format_version
    done: Counter[str] = Counter()
    hidden, removed, new = {}, [], []
    for file in list(files):
        path, live = file.entry.path, [number for number in range(len(file.rows)) if number not in file.deleted]
        part = rng.choice([0, 0.1, 0.5, 1])
        chosen = [number for number in live if rng.random() < part]
        kept = [number for number in live if number not in chosen]
        if not kept and rng.random() < 0.5:
            removed.append(path)
            files.remove(file)
            done["removed"] += 1
        elif kept and rng.random() < 0.3:
            new.append(write_anew(target, state, path, kept))
            file.entry.path = f"file://{new[-1].path}"
            file.rows[:] = [file.rows[number] for number in kept]
            file.deleted.clear()
            done["rewritten"] += 1
        elif chosen and version > 1:
            hidden[path] = chosen
            file.deleted.update(chosen)
            done["hidden"] += 1
    if done:
        target.commit_rows(state, make_change(state, hidden, removed)._replace(rewritten=new))
    return done


@pytest.mark.ci
def test_random_tables(tmp_path: Path) -> None:
    """Rows that are chosen at random, of tables that have deletes of all kinds, in several commits."""
    done: Counter[str] = Counter()
    for seed in seeds(scaled(3)):
        rng = random.Random(seed)
        drawn = draw_table(rng, tmp_path / str(seed) / "table")
        table = tables.make_catalog(tmp_path / str(seed)).register_table("db.events", drawn.metadata)
        # pyiceberg refuses equality deletes, and DuckDB ends where nulls are among them.
        engines = [] if drawn.unusual or drawn.has_equality else ["pyiceberg", "duckdb"]
        try:
            assert read(table, engines=engines) == drawn.list_ids()
            for _ in range(3):
                before, old = drawn.list_ids(), tables.reload(table).current_snapshot()
                done.update(change_at_random(rng, table, drawn.files))
                assert read(table, engines=engines) == drawn.list_ids()
                assert read(table, old.snapshot_id, engines=engines) == before
                check_manifests(table)
        except BaseException as error:
            error.add_note(f"seed {seed}: {drawn.metadata}")
            raise
    assert done.keys() == {"hidden", "removed", "rewritten"}
