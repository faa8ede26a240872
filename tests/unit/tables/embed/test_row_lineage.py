"""Iceberg tables of format version 3: rows keep their ids, and the metadata all that pyiceberg does not know."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines import duckdb_tables
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import Entry, HandTable, find_row_ids, list_entries

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg")

FIELDS = [{"id": 1, "name": "id", "required": False, "type": "long"}]


def plain(path: str) -> str:
    return path.removeprefix("file://")


def write(hand: HandTable, start: int, count: int, **entry: Any) -> Entry:
    return hand.write_file(pa.table({"id": pa.array(range(start, start + count), pa.int64())}), {"id": 1}, **entry)


def register(hand: HandTable, folder: Path) -> Any:
    return tables.make_catalog(folder).register_table("db.events", hand.write_metadata())


def read_metadata(table: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path(plain(tables.reload(table).metadata_location)).read_text())
    return document


def row_ids(table: Any) -> dict[int, int | None]:
    return find_row_ids(tables.reload(table))


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    """Those of files that say it, and those that are inherited; a file that is gone takes none."""
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    gone = write(hand, 900, 7, status=2, first_row=500)
    files = [write(hand, 0, 10), write(hand, 100, 5, status=0, first_row=70), gone, write(hand, 200, 3)]
    others = [write(hand, 300, 4, manifest=1), write(hand, 400, 4, manifest=1, sequence=None)]
    hand.add_snapshot([*files, *others], first_row=1000)
    table = register(hand, tmp_path)
    before, next_id = row_ids(table), read_metadata(table)["next-row-id"]
    assert (before[0], before[102], before[201], before[300]) == (1000, 72, 1011, 1018)
    assert len(embed_table(table, ["id"], max_files=2).files) == 2
    assert row_ids(table) == before
    assert len(embed_table(table, ["id"]).files) == 3
    assert row_ids(table) == before
    # No new row, no new id.
    document = read_metadata(table)
    assert document["next-row-id"] == next_id
    for snapshot in document["snapshots"][-2:]:
        assert (snapshot["first-row-id"], snapshot["added-rows"]) == (next_id, 0)
    assert all(entry["manifest"]["first_row_id"] is not None for entry in list_entries(tables.reload(table), 0))
    inherited = next(entry for entry in list_entries(tables.reload(table), 0) if entry["first_row_id"] == before[400])
    assert inherited["sequence_number"] == 100


@pytest.mark.ci
def test_duckdb_reads_the_same_ids_and_sequence_numbers(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    files = [write(hand, 0, 10), write(hand, 100, 5, status=0, first_row=70), write(hand, 200, 3, manifest=1)]
    hand.add_snapshot([*files, write(hand, 300, 4, manifest=1, sequence=None)], first_row=1000)
    table = register(hand, tmp_path)
    places = [plain(tables.reload(table).metadata_location)]
    assert len(embed_table(table, ["id"]).files) == 4
    places.append(plain(tables.reload(table).metadata_location))
    columns = "id, _row_id, _last_updated_sequence_number"
    before, after = duckdb_tables.ask(
        *(f"SELECT {columns} FROM iceberg_scan('{place}') ORDER BY id" for place in places)
    )
    assert before == after
    assert [tuple(row[:2]) for row in after] == sorted(row_ids(table).items())


def ask_duckdb(table: Any) -> list[list[int]]:
    place = plain(tables.reload(table).metadata_location)
    columns = "id, _row_id, _last_updated_sequence_number"
    [rows] = duckdb_tables.ask(f"SELECT {columns} FROM iceberg_scan('{place}') ORDER BY id")
    return rows


def test_rows_keep_their_ids_when_files_are_written_anew(tmp_path: Path) -> None:
    """In a column of their own; again, with vectors, after an embedding, and in files that had the column before."""
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    files = [write(hand, 0, 20), write(hand, 100, 5, status=0, first_row=70), write(hand, 200, 3, manifest=1)]
    named = pa.field("_row_id", pa.int64(), metadata={"PARQUET:field_id": "2147483540"})
    own = pa.table({"id": pa.array([300, 301, 302], pa.int64()), "_row_id": pa.array([5, 8, 7], pa.int64())})
    entry = hand.write_file(own, {"id": 1, "_row_id": 2147483540}, sequence=None)
    hand.add_snapshot([*files, entry], first_row=1000)
    table = register(hand, tmp_path)
    before, next_id = row_ids(table), read_metadata(table)["next-row-id"]
    assert (before[7], before[102], before[301]) == (1007, 72, 8)
    gone = [0, 7, 8, 9, 10, 102, 300]
    report = parquet_bloom.delete(tables.reload(table), gone, "id", mode="rewrite")
    assert ({file.how for file in report.files}, report.num_rows, report.rows_after) == ({"rewritten"}, 7, 0)
    assert {pq.read_schema(file.output).field("_row_id").equals(named, True) for file in report.files} == {True}
    expected = {value: number for value, number in before.items() if value not in gone}
    assert row_ids(table) == expected
    numbers = {
        tuple(set(pq.read_table(file.output)["_last_updated_sequence_number"].to_pylist())) for file in report.files
    }
    assert numbers == {(1,), (100,)}  # as those of the files, which keep theirs
    parquet_bloom.delete(tables.reload(table), [1], "id")
    assert embed_table(tables.reload(table), ["id"]).changed
    report = parquet_bloom.delete(tables.reload(table), [2, 3], "id", mode="rewrite")
    assert pq.read_metadata(report.files[0].output).num_rows == 12
    expected = {value: number for value, number in expected.items() if value not in (1, 2, 3)}
    assert row_ids(table) == expected
    assert read_metadata(table)["next-row-id"] == next_id
    assert sorted(parquet_bloom.read_table(iceberg(tables.reload(table)), "id >= 0")["id"].to_pylist()) == sorted(
        expected
    )


@pytest.mark.ci
def test_duckdb_reads_the_same_ids_of_files_written_anew(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    files = [write(hand, 0, 20), write(hand, 100, 5, status=0, first_row=70), write(hand, 200, 3, manifest=1)]
    hand.add_snapshot([*files, write(hand, 300, 4, manifest=1, sequence=None)], first_row=1000)
    table = register(hand, tmp_path)
    before = ask_duckdb(table)
    gone = [0, 7, 102, 201, 303]
    parquet_bloom.delete(tables.reload(table), gone, "id", mode="rewrite")
    assert ask_duckdb(table) == [row for row in before if row[0] not in gone]


def test_a_row_without_an_id_of_its_own_may_not_move(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "_row_id": pa.array([5, None], pa.int64())})
    hand.add_snapshot([hand.write_file(rows, {"id": 1, "_row_id": 2147483540})], first_row=0)
    table = register(hand, tmp_path)
    with pytest.raises(ParquetBloomError, match="column '_row_id': the table numbers rows by their file where"):
        parquet_bloom.delete(table, [1], "id", mode="rewrite")
    assert parquet_bloom.delete(table, [1], "id").num_rows == 1


@pytest.mark.parametrize("max_files", [1, 3])
def test_rows_get_ids_after_an_upgrade(max_files: int, tmp_path: Path) -> None:
    """All rows of the table, by the first commit after it, whichever files are exchanged."""
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    hand.add_snapshot([write(hand, start, 10, manifest=start // 20) for start in range(0, 40, 10)])
    del hand.metadata["snapshots"][-1]["first-row-id"], hand.metadata["snapshots"][-1]["added-rows"]
    hand.metadata["next-row-id"] = 5
    table = register(hand, tmp_path)
    assert set(row_ids(table).values()) == {None}
    embed_table(table, ["id"], max_files=max_files)
    ids = row_ids(table)
    assert sorted(ids.values(), key=int) == list(range(5, 45))
    document = read_metadata(table)
    assert document["next-row-id"] == 45
    assert (document["snapshots"][-1]["first-row-id"], document["snapshots"][-1]["added-rows"]) == (5, 40)
    embed_table(table, ["id"])
    assert row_ids(table) == ids


def test_rows_get_ids_after_an_upgrade_when_a_file_is_written_anew(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    hand.add_snapshot([write(hand, start, 10, manifest=start // 20) for start in range(0, 40, 10)])
    table = register(hand, tmp_path)
    report = parquet_bloom.delete(table, [3, 25], "id", mode="rewrite")
    assert {pq.read_schema(file.output).names == ["id", "_last_updated_sequence_number"] for file in report.files} == {
        True
    }
    ids = row_ids(table)
    assert (len(ids), len({*ids.values()}), read_metadata(table)["next-row-id"]) == (38, 38, 40)
    parquet_bloom.delete(tables.reload(table), [4], "id", mode="rewrite")
    assert row_ids(table) == {value: number for value, number in ids.items() if value != 4}


def test_metadata_that_pyiceberg_does_not_know_stays(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS], version=3)
    hand.add_snapshot([write(hand, 0, 10)], first_row=0)
    hand.metadata |= {"encryption-keys": [{"key-id": "k"}], "later": {"of": "version 4"}, "last-sequence-number": 100}
    hand.metadata["snapshots"][0]["key-id"] = "k"
    hand.metadata["refs"]["main"]["max-ref-age-ms"] = 5_000
    hand.metadata["refs"]["tag"] = {"snapshot-id": 1, "type": "tag", "later": 1}
    before = json.loads(json.dumps(hand.metadata))
    table = register(hand, tmp_path)
    report = embed_table(table, ["id"], set_property=True)
    after = read_metadata(table)
    changed = {key for key in after if after[key] != before.get(key)}
    assert changed == {
        *("snapshots", "refs", "current-snapshot-id", "last-sequence-number", "last-updated-ms"),
        *("snapshot-log", "metadata-log", "properties"),
    }
    assert after["snapshots"][:-1] == before["snapshots"]
    main = {**before["refs"]["main"], "snapshot-id": report.new_version}
    assert after["refs"] == {"tag": before["refs"]["tag"], "main": main}
    assert after["last-sequence-number"] == after["snapshots"][-1]["sequence-number"] == 101


@pytest.mark.parametrize("version", [2, 3])
def test_another_branch_gets_a_snapshot_before_our_commit(version: int, tmp_path: Path) -> None:
    """It takes the sequence number, and row ids: ours has to get others."""
    hand = HandTable(tmp_path / "table", [FIELDS], version=version)
    file = write(hand, 0, 10)
    hand.metadata["last-sequence-number"] = 100
    hand.add_snapshot([file], first_row=0)
    table = register(hand, tmp_path)

    def act(done: int, total: int) -> None:
        hand.add_snapshot([file, write(hand, 50, 5)], first_row=10, sequence=101, branch="other")
        hand.metadata["last-sequence-number"] = 101
        with sqlite3.connect(tmp_path / "catalog.db") as database:
            location = f"file://{hand.write_metadata()}"
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", [location])

    report = embed_table(table, ["id"], progress=act)
    assert (report.attempts, len(report.files)) == (2, 1)
    last = read_metadata(table)["snapshots"][-1]
    assert last["sequence-number"] == read_metadata(table)["last-sequence-number"] == 102
    if version == 3:
        assert last["first-row-id"] == read_metadata(table)["next-row-id"] == 25
