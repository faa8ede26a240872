"""Rows that a table has deleted are not shown where its files are read together, and no others are lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scans import elsewhere
from support.writers.delta_log import add, beginning, column, commit, inline_vector, stored_vectors
from support.writers.iceberg_tables import Entry, HandTable

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")

FILES, ROWS = 12, 1500
FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "key", "required": False, "type": "long"},
    {"id": 3, "name": "text", "required": False, "type": "string"},
    {"id": 4, "name": "value", "required": False, "type": "double"},
    {"id": 5, "name": "later", "required": False, "type": "long"},
    {
        "id": 6,
        "name": "inner",
        "required": False,
        "type": {"type": "struct", "fields": [{"id": 7, "name": "a", "required": False, "type": "long"}]},
    },
]
IDS = {"id": 1, "key": 2, "text": 3, "value": 4, "later": 5, "inner": 6, "inner.a": 7}
QUERIES = ["key = 7", "key IN (7, 9, 55) AND value < 0.7", "text = 't9'", "key = 9 AND text IS NULL"]

Row = dict[str, Any]


def make_rows(number: int) -> pa.Table:
    """Return rows in which each key from 0 to 199 comes about seven times; the first files lack `later`."""
    rng = np.random.default_rng(number)
    keys = rng.integers(0, 200, ROWS)
    inner = [None if one % 5 == 0 else {"a": one % 7} for one in range(ROWS)]
    columns = {
        "id": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64()),
        "key": pa.array(keys),
        "text": pa.array([f"t{key}" for key in keys.tolist()], mask=rng.random(ROWS) < 0.3),
        "value": pa.array(rng.random(ROWS)),
        "later": pa.array(rng.integers(0, 3, ROWS), mask=rng.random(ROWS) < 0.3),
        "inner": pa.array(inner, pa.struct([("a", "int64")])),
    }
    if number < FILES // 2:
        del columns["later"]
    return pa.table(columns)


def matches(where: str) -> Callable[[Row], bool]:
    return {
        QUERIES[0]: lambda row: row["key"] == 7,
        QUERIES[1]: lambda row: row["key"] in (7, 9, 55) and row["value"] < 0.7,
        QUERIES[2]: lambda row: row["text"] == "t9",
        QUERIES[3]: lambda row: row["key"] == 9 and row["text"] is None,
    }[where]


def check(table: Any, live: list[Row], names: list[str], filesystem: Any = None) -> None:
    """Compare scans with the rows that are live, in order."""
    for where in QUERIES:
        expected = [row for row in live if matches(where)(row)]
        assert len(expected) > 5
        for columns in (None, ["text", "id"], []):
            scan = parquet_bloom.dataset(table, filesystem=filesystem).scan(where, columns)
            rows = scan.to_arrow()
            shown = names if columns is None else columns
            assert rows.num_rows == scan.count_rows() == len(expected)
            assert rows.to_pylist() == [{name: row[name] for name in shown} for row in expected]


def draw_positions(rng: np.random.Generator) -> list[int]:
    found: list[int] = sorted(rng.choice(ROWS, ROWS // 3, replace=False).tolist())
    return found


@pytest.mark.ci
def test_iceberg(tmp_path: Path) -> None:
    """Positions, deletion vectors, and equality deletes: of columns that are not read, with NULL, and of fields."""
    rng = np.random.default_rng(5)
    table = HandTable(tmp_path / "t", [FIELDS], version=3)
    tables = [make_rows(number) for number in range(FILES)]
    ids = [{name: number for name, number in IDS.items() if name.split(".")[0] in one.schema.names} for one in tables]
    entries: list[Entry] = []
    deleted: list[set[int]] = [set() for _ in tables]
    for number, one in enumerate(tables):
        entries.append(table.write_file(one, ids[number], group=500, sequence=1 + number % 3))
    pairs = []
    for number in range(0, FILES, 2):
        positions = draw_positions(rng)
        pairs += [(entries[number].path, position) for position in positions]
        deleted[number].update(positions)
    entries.append(table.write_positions(pairs, sequence=5))
    vectors = {entries[number].path: draw_positions(rng) for number in (3, 7)}
    entries += table.write_vectors(vectors, sequence=5)
    for number in (3, 7):
        deleted[number].update(vectors[entries[number].path])
    rows = [[{"later": None} | row for row in one.to_pylist()] for one in tables]
    removed = rng.choice(FILES * ROWS, 3000, replace=False)
    by_values: list[tuple[int, pa.Table, dict[str, int], Callable[[Row], Any], set[Any]]] = [
        (3, pa.table({"id": removed}), {"id": 1}, lambda row: row["id"], {*removed.tolist()}),
        (
            9,
            pa.table({"key": [7, 9], "text": pa.array([None, "t9"])}),
            {"key": 2, "text": 3},
            lambda row: (row["key"], row["text"]),
            {(7, None), (9, "t9")},
        ),
        (
            2,
            pa.table({"key": [55], "later": pa.array([None], pa.int64())}),
            {"key": 2, "later": 5},
            lambda row: (row["key"], row["later"]),
            {(55, None)},
        ),
        (
            9,
            pa.table({"inner": pa.array([{"a": 3}], pa.struct([("a", "int64")]))}),
            {"inner": 6, "inner.a": 7},
            lambda row: (row["inner"] or {}).get("a"),
            {3},
        ),
    ]
    for sequence, values, numbers, find, gone in by_values:
        equality_ids = [number for name, number in numbers.items() if name != "inner"]
        entries.append(table.write_equality(values, numbers, equality_ids=equality_ids, sequence=sequence, group=1000))
        for number in range(FILES):
            if 1 + number % 3 < sequence:
                deleted[number].update(i for i, row in enumerate(rows[number]) if find(row) in gone)
    # One query is left with rows in spite of the second delete file, as that is not for the newest files.
    rows.append([{"later": None} | row for row in make_rows(FILES).to_pylist()])
    entries.append(table.write_file(make_rows(FILES), IDS, group=500, sequence=9))
    deleted.append(set())
    table.add_snapshot(entries)
    live = [row for one, gone in zip(rows, deleted, strict=True) for i, row in enumerate(one) if i not in gone]
    source = parquet_bloom.iceberg(table.write_metadata())
    check(source, live, [field["name"] for field in FIELDS])
    assert sum(len(gone) for gone in deleted) > FILES * ROWS // 3


def write_delta(root: Path) -> tuple[list[Row], list[set[int]]]:
    """Write a Delta table with deletion vectors in the log and in a file, and return its rows and the deleted ones."""
    rng = np.random.default_rng(6)
    root.mkdir()
    deleted = [set(draw_positions(rng)) if number % 3 else set() for number in range(FILES)]
    stored = stored_vectors(root, [sorted(gone) for gone in deleted])
    actions = [*beginning([column(name, kind) for name, kind in TYPES.items()], features=["deletionVectors"])]
    rows: list[Row] = []
    for number, gone in enumerate(deleted):
        of_file = make_rows(2 * number).select(list(TYPES))
        pq.write_table(of_file, root / f"{number:02}.parquet", row_group_size=500)
        vector = inline_vector(sorted(gone)) if number % 2 else stored[number]
        members = {"deletionVector": vector} if gone else {}
        size = (root / f"{number:02}.parquet").stat().st_size
        actions.append(add(f"{number:02}.parquet", size, {"numRecords": ROWS}, **members))
        rows += [row for i, row in enumerate(of_file.to_pylist()) if i not in gone]
    commit(root, 0, actions)
    return rows, deleted


TYPES = {"id": "long", "key": "long", "text": "string", "value": "double"}


@pytest.mark.ci
@pytest.mark.parametrize("filesystem", [None, elsewhere(Path("/"))], ids=["together", "one by one"])
def test_delta(tmp_path: Path, filesystem: Any) -> None:
    pytest.importorskip("deltalake")
    rows, _ = write_delta(tmp_path / "t")
    check(parquet_bloom.delta(tmp_path / "t"), rows, list(TYPES), filesystem)


def test_a_vector_that_cannot_be_read(tmp_path: Path) -> None:
    """No row of its file is shown; where the file has no row that matches, it is not needed."""
    pytest.importorskip("deltalake")
    rows, deleted = write_delta(tmp_path / "t")
    (path,) = (tmp_path / "t").glob("deletion_vector_*.bin")
    path.write_bytes(b"\1" + bytes(100))
    with pytest.raises(ParquetBloomError, match=r"\.parquet: its deleted rows cannot be determined"):
        parquet_bloom.read_table(parquet_bloom.delta(tmp_path / "t"), "key = 7")
    live = next(i for i in range(ROWS) if i not in deleted[1])
    number = 2 * ROWS + live
    found = parquet_bloom.read_table(parquet_bloom.delta(tmp_path / "t"), f"id = {number}")
    assert found.to_pylist() == [row for row in rows if row["id"] == number]
