"""Files of Iceberg tables with deleted rows get filters: the deletes are written anew, for the new paths."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import PATH_ID, POSITION_ID, Entry, HandTable, list_entries

import parquet_bloom
from parquet_bloom.errors import StorageError
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg")

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "p", "required": False, "type": "string"},
]


def plain(path: str) -> str:
    return path.removeprefix("file://")


class Deleting:
    """A table of three files of ten rows, whose ids begin at 0, 10 and 20."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder = folder
        self.hand = HandTable(folder / "table", [FIELDS], version=version)
        self.files = [self._write(number) for number in range(0, 30, 10)]
        self.first, self.second, self.third = self.files

    def _write(self, start: int) -> Entry:
        rows = pa.table({"id": pa.array(range(start, start + 10), pa.int64()), "p": ["x"] * 10})
        return self.hand.write_file(rows, {"id": 1, "p": 2}, sequence=3)

    def register(self, deletes: Sequence[Entry]) -> Any:
        self.hand.add_snapshot([*self.files, *deletes])
        return tables.make_catalog(self.folder).register_table("db.events", self.hand.write_metadata())

    def replace(self, deletes: Sequence[Entry]) -> None:
        """Commit a snapshot with other deletes, as another writer: the catalog is a database."""
        self.hand.add_snapshot([*self.files, *deletes])
        location = f"file://{self.hand.write_metadata()}"
        with sqlite3.connect(self.folder / "catalog.db") as database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", [location])


def read(table: Any, snapshot_id: int | None = None) -> list[int]:
    """Return the ids by pyiceberg, which has to show the same rows as this package."""
    now = tables.reload(table)
    found = sorted(now.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())
    own = iceberg(plain(now.metadata_location), snapshot_id=snapshot_id)
    assert sorted(parquet_bloom.read_table(own, "id is not null")["id"].to_pylist()) == found
    return found


def without(*deleted: int) -> list[int]:
    return [number for number in range(30) if number not in deleted]


def test_position_deletes_follow_their_files(tmp_path: Path) -> None:
    """One file of positions is about two data files, of which only one is exchanged at first."""
    made = Deleting(tmp_path, 2)
    one, two, three = (entry.path for entry in made.files)
    bound = {PATH_ID: three.encode(), POSITION_ID: (4).to_bytes(8, "little")}
    deletes = [
        made.hand.write_positions([(one, 4), (one, 9), (two, 1)], sequence=5),
        made.hand.write_positions([(three, 4)], sequence=7, metrics={"lower": bound, "upper": bound}, referenced=three),
    ]
    table = made.register(deletes)
    expected = without(4, 9, 11, 24)
    assert read(table) == expected
    report = embed_table(table, ["id"], max_files=1)
    assert (len(report.files), report.num_left, report.skipped) == (1, 2, ())
    assert read(table) == expected
    positions = next(entry for entry in list_entries(tables.reload(table), 1) if entry["sequence_number"] == 5)
    assert positions["file_path"] != deletes[0].path
    named = pq.read_table(plain(positions["file_path"])).to_pylist()
    new = f"file://{report.files[0].new}"
    rows = [(new, 4), (new, 9), (two, 1)]
    assert [(row["file_path"], row["pos"]) for row in named] == sorted(rows, key=lambda row: (row[0].encode(), row[1]))
    assert positions["lower_bounds"][PATH_ID] == min(new, two).encode()
    assert positions["upper_bounds"][PATH_ID] == max(new, two).encode()
    assert (positions["record_count"], positions["referenced_data_file"]) == (3, None)
    assert positions["file_size_in_bytes"] == os.path.getsize(plain(positions["file_path"]))
    assert len(embed_table(table, ["id"]).files) == 2
    assert read(table) == expected
    assert read(table, report.old_version) == expected
    assert sorted(entry["sequence_number"] for entry in list_entries(tables.reload(table), 1)) == [5, 7]
    single = next(entry for entry in list_entries(tables.reload(table), 1) if entry["sequence_number"] == 7)
    assert single["lower_bounds"][PATH_ID].decode() == single["referenced_data_file"]
    assert single["lower_bounds"][POSITION_ID] == bound[POSITION_ID]
    assert single["referenced_data_file"] in {entry["file_path"] for entry in list_entries(tables.reload(table), 0)}
    summary = tables.reload(table).current_snapshot().summary.additional_properties
    assert (summary["added-delete-files"], summary["removed-delete-files"]) == ("2", "2")
    assert not embed_table(table, ["id"]).changed


def test_deletion_vectors_follow_their_files(tmp_path: Path) -> None:
    """Two vectors are in one Puffin file; one of their data files is exchanged at first."""
    from pyiceberg.table.puffin import PuffinFile

    made = Deleting(tmp_path, 3)
    vectors = made.hand.write_vectors({made.first.path: [0, 5], made.third.path: range(1, 9)}, sequence=6)
    table = made.register(vectors)
    expected = without(0, 5, *range(21, 29))
    assert read(table) == expected
    assert len(embed_table(table, ["id"], max_files=1).files) == 1
    assert read(table) == expected
    assert {entry["file_path"] == vectors[0].path for entry in list_entries(tables.reload(table), 1)} == {True, False}
    assert len(embed_table(table, ["id"]).files) == 2
    assert read(table) == expected
    entries = list_entries(tables.reload(table), 1)
    paths = {entry["file_path"] for entry in list_entries(tables.reload(table), 0)}
    assert {entry["referenced_data_file"] for entry in entries} < paths
    for entry in entries:
        content = Path(plain(entry["file_path"])).read_bytes()
        assert entry["file_size_in_bytes"] == len(content)
        assert entry["sequence_number"] == 6
        blob = next(blob for blob in PuffinFile(content).footer.blobs if blob.offset == entry["content_offset"])
        assert blob.properties["referenced-data-file"] == entry["referenced_data_file"]
        assert (blob.length, blob.properties["cardinality"]) == (
            entry["content_size_in_bytes"],
            str(entry["record_count"]),
        )
    assert not embed_table(table, ["id"]).changed


@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_deleted_before_our_commit(version: int, tmp_path: Path) -> None:
    """Of a file that had deleted rows already, and of one that had none."""
    made = Deleting(tmp_path, version)

    def delete(rows: dict[str, list[int]]) -> list[Entry]:
        if version == 3:
            return made.hand.write_vectors(rows, sequence=10)
        return [made.hand.write_positions([(path, row) for path in rows for row in rows[path]], sequence=10)]

    table = made.register(delete({made.first.path: [1]}))
    later = {made.first.path: [1, 2], made.second.path: [3]}
    act = lambda done, total: made.replace(delete(later)) if done == total else None  # noqa: E731
    report = embed_table(table, ["id"], progress=act)
    assert (len(report.files), report.skipped, report.attempts) == (3, (), 2)
    assert read(table) == without(1, 2, 13)
    # Nothing of the first try is left: each file is in the metadata of a snapshot.
    now = tables.reload(table)
    named = {entry["file_path"] for entry in [*list_entries(now, 0), *list_entries(now, 1)]}
    ours = {f"file://{path}" for path in (tmp_path / "table" / "data").glob("00000-0-*")}
    assert ours <= named


def test_rows_are_deleted_before_our_commit_in_another_way(tmp_path: Path) -> None:
    """By a delete file that cannot be written anew: the data file stays as it is."""
    made = Deleting(tmp_path, 2)
    table = made.register([])
    deletes = made.hand.write_positions([(made.first.path, 4)], sequence=10, referenced=made.first.path)
    (tmp_path / "elsewhere").mkdir()
    os.rename(plain(deletes.path), tmp_path / "elsewhere" / "deletes.parquet")
    deletes.path = f"file://{tmp_path}/elsewhere/deletes.parquet"
    act = lambda done, total: made.replace([deletes]) if done == total else None  # noqa: E731
    report = embed_table(table, ["id"], progress=act)
    assert [(one.path, one.reason) for one in report.skipped] == [
        (plain(made.first.path), "another writer has deleted rows of it meanwhile")
    ]
    assert len(report.files) == 2
    assert sorted(tables.reload(table).scan().to_arrow()["id"].to_pylist()) == without(4)


def test_position_deletes_become_vectors_in_version_3(tmp_path: Path) -> None:
    """Such tables may have them from before an upgrade, and do not get new ones."""
    made = Deleting(tmp_path, 3)
    one, two, three = (entry.path for entry in made.files)
    bound = {PATH_ID: two.encode(), POSITION_ID: (3).to_bytes(8, "little")}
    both = made.hand.write_positions([(one, 4), (two, 1), (three, 0)], sequence=5)
    single = made.hand.write_positions([(two, 3), (two, 1)], sequence=7, metrics={"lower": bound, "upper": bound})
    vectors = made.hand.write_vectors({three: [0, 9]}, sequence=8)  # what applies to the third file alone
    table = made.register([both, single, *vectors])
    expected = without(4, 11, 13, 20, 29)
    assert read(table) == expected
    report = embed_table(table, ["id"], where=None, max_files=2)
    assert (len(report.files), report.skipped) == (2, ())
    assert read(table) == expected
    found = {entry["referenced_data_file"]: entry for entry in list_entries(tables.reload(table), 1)}
    new = {f"file://{file.old}": f"file://{file.new}" for file in report.files}
    assert set(found) == {None, new[one], new[two], three}
    assert found[None]["file_path"] == both.path  # it is about the third file, too
    assert [found[new[one]][name] for name in ("sequence_number", "record_count", "file_format")] == [5, 1, "PUFFIN"]
    assert [found[new[two]][name] for name in ("sequence_number", "record_count", "lower_bounds")] == [7, 2, None]
    summary = tables.reload(table).current_snapshot().summary.additional_properties
    assert (summary["added-dvs"], summary["removed-position-delete-files"]) == ("2", "1")
    assert len(embed_table(table, ["id"]).files) == 1
    assert read(table) == expected
    assert read(table, report.old_version) == expected


def test_what_stays_with_its_reason(tmp_path: Path) -> None:
    made = Deleting(tmp_path, 2)
    one, two, three = (entry.path for entry in made.files)
    bounds = [{"lower": {PATH_ID: path.encode()}, "upper": {PATH_ID: path.encode()}} for path in (one, two, three)]
    with_row = made.hand.write_file(
        pa.table({"file_path": [one], "pos": [1], "row": [{"id": 1}]}),
        {"file_path": PATH_ID, "pos": POSITION_ID},
        content=1,
        sequence=9,
        metrics=bounds[0],
    )
    broken = made.hand.write_positions([(two, 1)], sequence=9, metrics=bounds[1])
    Path(plain(broken.path)).write_bytes(b"x" * broken.size)
    outside = made.hand.write_positions([(three, 1)], sequence=9, metrics=bounds[2])
    (tmp_path / "elsewhere").mkdir()
    os.rename(plain(outside.path), tmp_path / "elsewhere" / "deletes.parquet")
    outside.path = f"file://{tmp_path}/elsewhere/deletes.parquet"
    table = made.register([with_row, broken, outside])
    files = set(tmp_path.rglob("*.*"))
    expected = embed_table(table, ["id"], dry_run=True)
    report = embed_table(table, ["id"])
    assert (expected.files, expected.skipped) == (report.files, report.skipped)
    reasons = {f"file://{one.path}": one.reason for one in report.skipped}
    assert "has more columns than paths and positions: file_path, pos, row" in reasons[one]
    assert f"its delete file {broken.path} cannot be read" in reasons[two]
    assert reasons[three] == f"its delete file {outside.path} lies outside of the table's folder"
    assert (report.files, report.changed) == ((), False)
    assert set(tmp_path.rglob("*.*")) == files


def test_a_vector_in_a_table_of_version_2(tmp_path: Path) -> None:
    made = Deleting(tmp_path, 2)
    table = made.register(made.hand.write_vectors({made.first.path: [1]}, sequence=9))
    report = embed_table(table, ["id"])
    reason = "it has a deletion vector, which tables of format version 2 have not"
    assert (len(report.files), [one.reason for one in report.skipped]) == (2, [reason])
    assert read(table) == without(1)


@pytest.mark.ci
@pytest.mark.parametrize("version", [2, 3])
def test_many_delete_files_are_read_together(version: int, tmp_path: Path) -> None:
    """More than are in memory at a time, one of them damaged; what a dry run says is what the run does."""
    made = Deleting(tmp_path, version)
    deleted = [*range(9), *range(20, 29)]
    deletes = [made.hand.write_positions([(made.first.path, i), (made.third.path, i)], sequence=5) for i in range(9)]
    deletes += [made.hand.write_positions([(made.first.path, i)], sequence=i + 5) for i in range(9)]
    broken = made.hand.write_positions([(made.second.path, 5)], sequence=9, referenced=made.second.path)
    table = made.register([*deletes, broken])
    content = Path(plain(broken.path)).read_bytes()
    Path(plain(broken.path)).write_bytes(bytes(len(content)))
    files = set(tmp_path.rglob("*.*"))
    expected = embed_table(table, ["id"], dry_run=True)
    assert set(tmp_path.rglob("*.*")) == files
    report = embed_table(table, ["id"])
    assert [one.old for one in expected.files] == [one.old for one in report.files]
    assert (len(report.files), [one.path for one in report.skipped]) == (2, [plain(made.second.path)])
    assert expected.skipped == report.skipped
    Path(plain(broken.path)).write_bytes(content)
    assert read(table) == without(*deleted, 15)


def test_a_commit_that_is_refused_leaves_no_delete_file(tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import ForbiddenError

    class Refusing(SqlCatalog):
        def commit_table(self, *args: Any) -> Any:
            raise ForbiddenError("not allowed")

    made = Deleting(tmp_path, 3)
    table = made.register(made.hand.write_vectors({made.first.path: [1]}, sequence=9))
    table.catalog = Refusing(table.catalog.name, **table.catalog.properties)
    files = set(tmp_path.rglob("*.*"))
    with pytest.raises(StorageError, match="not allowed"):
        embed_table(table, ["id"])
    assert set(tmp_path.rglob("*.*")) == files
