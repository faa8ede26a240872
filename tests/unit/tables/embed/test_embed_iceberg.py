"""Filters in the files of Iceberg tables: what the new snapshot says, deletes of all kinds, and what is refused."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.writers import changing_tables as tables
from support.writers.iceberg_tables import PATH_ID, HandTable

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.tables.embed.embed_table import embed_table
from parquet_bloom.tables.iceberg.avro_rewrite import StoredRecords
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg")

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "s", "required": False, "type": "string"},
]
IDS = {"id": 1, "s": 2}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # pyiceberg says that it does not heed the property.
        warnings.filterwarnings("ignore", message="Parquet writer option")
        yield


def entries_of(table: Any) -> dict[str, Any]:
    """Return {path: live entry} of a table's data files."""
    result = {}
    table = tables.reload(table)
    for manifest in table.current_snapshot().manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            result[entry.data_file.file_path] = entry
    return result


def plain(path: str) -> str:
    return path.removeprefix("file://")


def data_files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*.parquet"))


def registered(hand: HandTable, folder: Path) -> Any:
    return tables.make_catalog(folder).register_table("db.events", hand.write_metadata())


def read(table: Any) -> list[Any]:
    return sorted(parquet_bloom.read_table(iceberg(tables.reload(table)), "id is not null")["id"].to_pylist())


@pytest.mark.ci
@pytest.mark.parametrize("version", [1, 2])
def test_one_snapshot_that_says_the_same(version: int, tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 3, version, partitioned=True)
    before, entries, old = tables.read_iceberg(table), entries_of(table), tables.reload(table).current_snapshot()
    report = embed_table(table, ["id", "s"])
    now = tables.reload(table)
    new = now.current_snapshot()
    assert (report.old_version, report.new_version) == (old.snapshot_id, new.snapshot_id)
    assert len(now.snapshots()) == 4
    assert new.parent_snapshot_id == old.snapshot_id
    assert new.summary.operation.value == "replace"
    summary = new.summary.additional_properties
    assert summary["added-data-files"] == summary["deleted-data-files"] == str(len(report.files)) == "15"
    assert summary["added-records"] == summary["deleted-records"] == summary["total-records"] == "300"
    assert int(summary["total-files-size"]) == sum(file.new_size for file in report.files)
    assert summary["total-data-files"] == "15"
    assert summary["changed-partition-count"] == "5"
    assert tables.read_iceberg(table) == before
    assert tables.read_iceberg(table, old.snapshot_id) == before
    after = entries_of(table)
    by_old = {file.old: file for file in report.files}
    for path, entry in entries.items():
        file = by_old[plain(path)]
        assert os.path.dirname(file.new) == os.path.dirname(file.old)
        moved = after[f"file://{file.new}"]
        assert moved.sequence_number == entry.sequence_number
        names = [name for name in dir(type(entry.data_file)) if not name.startswith("_") and name != "from_args"]
        for name in set(names) - {"file_path", "file_size_in_bytes"}:
            assert getattr(moved.data_file, name) == getattr(entry.data_file, name), name
        assert moved.data_file.file_size_in_bytes == os.path.getsize(file.new) == file.new_size
    assert not embed_table(table, ["id", "s"]).changed
    assert len(tables.reload(table).snapshots()) == 4
    # Later changes find their way.
    tables.reload(table).append(tables.rows(5_000, 10))
    tables.reload(table).delete("id == 7")
    assert tables.read_iceberg(table) == tables.kept(lambda row: row[0] != 7)(before) + tables.contents(
        tables.rows(5_000, 10)
    )


@pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin")
def test_other_readers_find_the_same_rows(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    table = tables.make_iceberg(tmp_path)
    before = tables.read_iceberg(table)
    embed_table(table, ["id"])
    now = tables.reload(table)
    assert tables.contents(polars.scan_iceberg(now).collect().to_arrow()) == before
    assert now.scan(row_filter="id == 57").to_arrow().num_rows == 1
    assert read(table) == sorted(row[0] for row in before.elements())


def test_some_files_only(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 2, partitioned=True)
    report = embed_table(table, ["id"], where="p = 'x/y' or p is null", max_files=3)
    assert (len(report.files), report.num_left) == (3, 1)
    report = embed_table("db.events", ["id"], catalog=table.catalog, where="p = 'x/y' or p is null")
    assert (len(report.files), report.num_complete) == (1, 3)
    with pytest.raises(PredicateError, match="of p; 'id' is not one"):
        embed_table(table, ["id"], where="id = 5")
    with pytest.raises(UnknownColumnError, match="no such column; it has: id, s, p"):
        embed_table(table, ["nope"])


def test_deleted_rows_stay_deleted(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS])

    def data(start: int, sequence: int) -> Any:
        rows = pa.table({"id": pa.array(range(start, start + 10), pa.int64()), "s": [str(n) for n in range(10)]})
        return hand.write_file(rows, IDS, sequence=sequence)

    old, positions, late, same = data(0, 1), data(10, 1), data(0, 60), data(20, 50)
    bound = {PATH_ID: positions.path.encode()}  # else it could be about any file
    deletes = [
        hand.write_equality(pa.table({"id": pa.array([3, 21], pa.int64())}), {"id": 1}, sequence=50),
        hand.write_positions([(positions.path, 4)], sequence=2, metrics={"lower": bound, "upper": bound}),
    ]
    hand.add_snapshot([old, positions, late, same, *deletes])
    table = registered(hand, tmp_path)
    expected = sorted(
        [*(n for n in range(10) if n != 3), *(n for n in range(10, 20) if n != 14), *range(10), *range(20, 30)]
    )
    assert read(table) == expected
    report = embed_table(table, ["id"])
    assert (len(report.files), report.skipped) == (4, ())
    assert read(table) == expected
    numbers = {plain(path): entry.sequence_number for path, entry in entries_of(table).items()}
    sequences = {plain(entry.path): entry.sequence for entry in (old, positions, late, same)}
    # An equality delete is about files of older sequence numbers.
    assert {file.old: numbers[file.new] for file in report.files} == sequences
    assert not embed_table(table, ["id"]).changed


@pytest.mark.ci
def test_several_specs_and_a_column_that_is_gone(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 1, partitioned=True)
    with tables.reload(table).update_spec() as update:
        update.remove_field("p")
    tables.reload(table).append(tables.rows(1_000))
    with tables.reload(table).update_spec() as update:
        update.add_identity("id")
    tables.reload(table).append(tables.rows(2_000, 3))
    before, specs = tables.read_iceberg(table), {}
    for path, entry in entries_of(table).items():
        specs[plain(path)] = entry.data_file.spec_id, str(entry.data_file.partition)
    assert len({spec for spec, _ in specs.values()}) == 3
    report = embed_table(table, ["s"])
    assert len(report.files) == 9
    for path, entry in entries_of(table).items():
        file = next(file for file in report.files if file.new == plain(path))
        assert (entry.data_file.spec_id, str(entry.data_file.partition)) == specs[file.old]
    assert tables.read_iceberg(table) == before
    with tables.reload(table).update_spec() as update:
        update.remove_field("id")
    with tables.reload(table).update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("p")
    now = tables.reload(table)
    rows = sorted(now.scan().to_arrow()["id"].to_pylist())
    assert len(embed_table(table, ["id"]).files) == 9
    assert sorted(tables.reload(table).scan().to_arrow()["id"].to_pylist()) == rows


@pytest.mark.ci
def test_manifests_from_before_an_upgrade(tmp_path: Path) -> None:
    """Those of version 1 have no sequence numbers, which their entries need in a table of version 2."""
    table = tables.make_iceberg(tmp_path, 2, version=1, partitioned=True)
    with tables.reload(table).transaction() as transaction:
        transaction.upgrade_table_version(2)
    before = tables.read_iceberg(table)
    assert len(embed_table(table, ["id"], max_files=3).files) == 3
    assert tables.read_iceberg(table) == before
    assert {entry.sequence_number for entry in entries_of(table).values()} == {0}
    tables.reload(table).append(tables.rows(5_000, 10))
    tables.reload(table).delete("id == 7")
    assert len(embed_table(table, ["id"]).files) > 0
    assert read(table) == sorted(row[0] for row in tables.read_iceberg(table).elements())
    assert tables.reload(table).metadata.format_version == 2


def test_renamed_and_promoted_columns_and_files_without_ids(tmp_path: Path) -> None:
    fields = [{**FIELDS[0], "name": "number"}, {"id": 3, "name": "id", "required": False, "type": "string"}, FIELDS[1]]
    mapping = '[{"field-id": 1, "names": ["number", "old"]}, {"field-id": 2, "names": ["s"]}]'
    hand = HandTable(tmp_path / "table", [FIELDS, fields], properties={"schema.name-mapping.default": mapping})
    small = hand.write_file(pa.table({"id": pa.array([1, 2], pa.int32()), "s": ["a", "b"]}), IDS)
    unnamed = hand.write_file(pa.table({"old": pa.array([3, 4], pa.int64()), "s": ["c", "d"]}), None)
    newer = hand.write_file(pa.table({"number": pa.array([5], pa.int64()), "id": ["x"]}), {"number": 1, "id": 3})
    hand.add_snapshot([small, unnamed, newer])
    table = registered(hand, tmp_path)
    report = embed_table(table, ["number"])
    assert len(report.files) == 3
    for file, column in zip(sorted(report.files, key=lambda file: file.old), ["id", "old", "number"], strict=True):
        copy = tmp_path / os.path.basename(file.new)
        copy.write_bytes(Path(file.new).read_bytes())
        with parquet_bloom.open(copy) as opened:
            assert [chunk.column for chunk in opened.chunks()] == [column]
    report = embed_table(table, ["id"])
    assert (len(report.files), report.num_complete) == (1, 2)
    rows = parquet_bloom.read_table(iceberg(tables.reload(table)), "number = 4")
    assert rows["s"].to_pylist() == ["d"]


def test_what_is_refused(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path / "one", 1)
    folder = plain(table.location())
    for given in (folder, plain(table.metadata_location), iceberg(plain(table.metadata_location))):
        with pytest.raises(ParquetBloomError, match="has no catalog to commit to") as caught:
            embed_table(given, ["id"])
        assert "\n" not in str(caught.value)
    with pytest.raises(ParquetBloomError, match="only the latest version can"):
        embed_table(iceberg(table, ref="main"), ["id"])
    assert len(embed_table(iceberg(table), ["id"]).files) == 1


def test_a_file_outside_of_the_table(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS])
    one = hand.write_file(pa.table({"id": [1], "s": ["a"]}), IDS)
    other = hand.write_file(pa.table({"id": [2], "s": ["b"]}), IDS)
    (tmp_path / "elsewhere").mkdir()
    os.rename(plain(other.path), tmp_path / "elsewhere" / "secret.parquet")
    other.path = f"file://{tmp_path}/elsewhere/secret.parquet"
    hand.add_snapshot([one, other])
    report = embed_table(registered(hand, tmp_path), ["id"])
    assert [one.reason for one in report.skipped] == ["it lies outside of the table's folder"]
    assert len(report.files) == 1
    assert os.listdir(tmp_path / "elsewhere") == ["secret.parquet"]


def test_properties(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 1)
    name = "write.parquet.bloom-filter-enabled.column.id"
    report = embed_table(table, ["id"], set_property=True)
    assert report.properties == (name,)
    assert tables.reload(table).properties[name] == "true"
    metadata = tables.reload(table).metadata_location
    assert not embed_table(table, ["id"], set_property=True).changed
    assert tables.reload(table).metadata_location == metadata
    # With nothing to embed the property alone is set.
    embed_table(table, ["s"])
    report = embed_table(table, ["s"], set_property=True)
    assert report.changed
    assert report.files == ()
    assert report.old_version == report.new_version
    assert str(report).endswith(": no filters to add, 1 property of the table set, 1 file complete")
    assert tables.reload(table).properties["write.parquet.bloom-filter-enabled.column.s"] == "true"


def test_how_long_a_branch_keeps_its_snapshots(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS])
    hand.add_snapshot([hand.write_file(pa.table({"id": [1], "s": ["a"]}), IDS)])
    kept = {"min-snapshots-to-keep": 7, "max-snapshot-age-ms": 1_000_000, "max-ref-age-ms": 2_000_000}
    hand.metadata["refs"]["main"] |= kept
    table = registered(hand, tmp_path)
    embed_table(table, ["id"])
    branch = tables.reload(table).metadata.refs["main"]
    assert {name: getattr(branch, name.replace("-", "_")) for name in kept} == kept


def test_a_table_without_rows(tmp_path: Path) -> None:
    table = tables.make_iceberg(tmp_path, 0)
    report = embed_table(table, ["id"])
    assert (report.changed, report.old_version) == (False, None)
    assert str(report) == "db.events: nothing to add, 0 files complete"


def test_encrypted_and_broken_files_stay(tmp_path: Path) -> None:
    hand = HandTable(tmp_path / "table", [FIELDS])
    files = [hand.write_file(pa.table({"id": [n], "s": ["a"]}), IDS) for n in range(3)]
    hand.add_snapshot(files)
    table = registered(hand, tmp_path)
    Path(plain(files[0].path)).write_bytes(b"x" * files[0].size)
    pq.write_table(pa.table({"id": [1, 2, 3], "s": ["a"] * 3}), plain(files[1].path))
    report = embed_table(table, ["id"])
    assert [file.old for file in report.files] == [plain(files[2].path)]
    reasons = {one.path: one.reason for one in report.skipped}
    assert "PAR1" in reasons[plain(files[0].path)]
    assert "by the table's metadata" in reasons[plain(files[1].path)]


@pytest.mark.ci
@pytest.mark.parametrize("version", [1, 2])
def test_values_of_double_partitions_stay_exact(tmp_path: Path, version: int) -> None:
    """Rows of such a partition have the value from the manifest, whose doubles pyiceberg reads in single precision."""
    from pyiceberg.transforms import IdentityTransform

    values = [0.1, -3.3, 1e300, 5e-324, -0.0, 2.0**53 + 2, None]
    drawn = pa.table({"id": pa.array(range(14), pa.int64()), "x": pa.array(values * 2, pa.float64())})
    properties = {"format-version": str(version)}
    table = tables.make_catalog(tmp_path).create_table("db.doubles", drawn.schema, properties=properties)
    with table.update_spec() as update:
        update.add_field("x", IdentityTransform(), "x")
    table.append(drawn)
    for column in ("id", "x"):  # the second time a manifest of ours is written anew
        assert len(embed_table(table, [column]).files) == len(values)
        dataset = parquet_bloom.dataset(parquet_bloom.iceberg(tables.reload(table)))
        assert dataset.scan().to_arrow().sort_by("id").equals(drawn)
        for number, value in enumerate(values[:-1]):
            assert sorted(dataset.scan([("x", "==", value)]).to_arrow()["id"].to_pylist()) == [number, number + 7]


def test_a_manifest_that_is_written_otherwise_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables.make_iceberg(tmp_path, 2, partitioned=True)
    before, files = tables.read_iceberg(table), set(tmp_path.rglob("*.*"))
    genuine = StoredRecords.encode
    one_more = lambda self, row, changes: genuine(self, row, {**changes, 103: 101})  # noqa: E731 - the number of rows
    monkeypatch.setattr(StoredRecords, "encode", one_more)
    with pytest.raises(ParquetBloomError, match=r"the manifest in place of .* is not as it should be"):
        embed_table(table, ["id"])
    assert tables.read_iceberg(table) == before
    assert set(tmp_path.rglob("*.*")) == files
