"""The files of Iceberg tables as the lake index takes them, and columns that have other names in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.table_rows import ids_in, rows
from support.table_identities import find_identities
from support.writers.iceberg_tables import Entry, HandTable

from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.iceberg.iceberg_table import iceberg_files
from parquet_bloom.tables.names_in_files import is_same_column


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    pytest.importorskip("sqlalchemy")
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    home = tmp_path / "ware house %41"
    home.mkdir()
    created = sql.SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=f"file://{home}")
    created.create_namespace("n")
    yield created
    created.close()


def partitioned(catalog: Any) -> Any:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    with table.update_spec() as update:
        update.add_identity("p")
    return catalog.load_table("n.t")


@pytest.mark.ci
def test_every_snapshot_of_an_iceberg_table(catalog: Any, tmp_path: Path) -> None:
    table = partitioned(catalog)
    assert iceberg_files(table).files == []
    assert iceberg_files(table).version is None
    snapshots = []
    table.append(rows(0))
    snapshots.append((table.current_snapshot().snapshot_id, [*range(12)]))
    table.append(rows(12))
    snapshots.append((table.current_snapshot().snapshot_id, [*range(24)]))
    table.delete("id >= 4 and id < 20")
    snapshots.append((table.current_snapshot().snapshot_id, [*range(4), *range(20, 24)]))
    path = table.metadata_location.removeprefix("file://")
    for given in (table, table.metadata_location, path, Path(path)):
        for snapshot, ids in snapshots:
            table_files = iceberg_files(given, snapshot)
            assert (table_files.kind, table_files.version) == ("iceberg", snapshot)
            assert table_files.root == str(tmp_path / "ware house %41" / "n" / "t")
            assert table_files.table_id == str(table.metadata.table_uuid)
            assert ids_in(table_files) == ids
            for file, _ in table_files.files:
                assert find_identities(table_files.snapshot, file, "id", "p") == {"id": "id#1", "p": "p#2"}
        assert iceberg_files(given) == iceberg_files(given, snapshots[-1][0])
    with pytest.raises(ParquetBloomError, match="no snapshot 5"):
        iceberg_files(table, 5)


def test_columns_that_changed(catalog: Any) -> None:
    """Old files have a column under its old name, or another one under its new name: neither may be taken for it."""
    full_table = pa.table(
        {name: pa.array([1], pa.int64()) for name in ("kept", "old", "swap", "other", "again", "my-col", "dot.ted")}
        | {"s": [{"x": 1, "y": 2}], "l": [["t"]]}
    )
    table = catalog.create_table("n.t", schema=full_table.schema)
    table.append(full_table)
    (first,) = iceberg_files(table).files
    before = iceberg_files(table)
    names = ("kept", "old", "swap", "other", "again", "s.x", "s.y", "my-col", "dot.ted", "l")
    assert find_identities(before.snapshot, first.path, *names) == {
        **{name: f"{name}#{number}" for number, name in enumerate(names[:5], 1)},
        "s.x": "s.x#10",
        "s.y": "s.y#11",
        "my-col": "my_x2Dcol#6",
        "dot.ted": "dot_x2Eted#7",
        "l": "l#9",
    }
    with table.update_schema() as update:
        update.rename_column("old", "new")
        update.rename_column("swap", "swap2")
        update.rename_column("other", "swap")
        update.rename_column("s.x", "z")
        update.delete_column("again")
    with table.update_schema() as update:
        from pyiceberg.types import LongType

        update.add_column("again", LongType())
        update.add_column("added", LongType())
        update.add_column("old", LongType())
    now = iceberg_files(table).snapshot
    found = find_identities(now, first.path, "kept", "new", "swap", "swap2", "s.z", "s.y", "again", "added", "old")
    assert found["kept"] == "kept#1"
    assert (found["new"], found["swap"], found["swap2"]) == ("old#2", "other#4", "swap#3")
    assert (found["s.z"], found["s.y"]) == ("s.x#10", "s.y#11")
    assert all("no such column" in found[name] for name in ("again", "added", "old"))
    # By the schema of its time.
    earlier = iceberg_files(table, before.version).snapshot
    assert find_identities(earlier, first.path, "again", "swap") == {"again": "again#5", "swap": "swap#3"}
    # What was known of a column by its old name is not believed of another that has the name now.
    assert now is not None
    assert not is_same_column(now.columns, "swap", "swap#3")
    assert not is_same_column(now.columns, "again", "again#5")
    assert is_same_column(now.columns, "swap2", "swap#3")
    assert not is_same_column(now.columns, "kept", "")


def test_files_that_were_not_written_for_iceberg(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    pq.write_table(rows(0), tmp_path / "x y%20.parquet")
    table.add_files([f"file://{tmp_path}/x y%20.parquet"])
    with pytest.raises(ParquetBloomError, match=r"x y%20\.parquet is outside of the table's folder"):
        iceberg_files(table)
    table_files = iceberg_files(table, outside=True)
    assert [path for path, _ in table_files.files] == [f"{tmp_path}/x y%20.parquet"]
    assert ids_in(table_files) == [*range(12)]
    path = table_files.files[0].path
    assert find_identities(table_files.snapshot, path, "id", "p") == {"id": "id#", "p": "p#"}
    mixed = pa.schema([pa.field("id", pa.int64()), pa.field("p", pa.string(), metadata={"PARQUET:field_id": "2"})])
    pq.write_table(rows(0).cast(mixed), tmp_path / "mixed.parquet")
    found = find_identities(table_files.snapshot, tmp_path / "mixed.parquet", "id", "p")
    assert found == {"id": found["id"], "p": "p#2"}
    assert "no such column" in found["id"]
    with table.transaction() as change:
        mapping = '[{"field-id": 1, "names": ["id", "key"]}, {"field-id": 2, "names": ["p"]}]'
        change.set_properties({"schema.name-mapping.default": mapping})
    mapped = iceberg_files(table, outside=True).snapshot
    assert mapped is not None
    assert find_identities(mapped, path, "id") == {"id": "id#"}
    assert is_same_column(mapped.columns, "id", "key#")
    assert not is_same_column(mapped.columns, "p", "key#")
    assert not is_same_column(mapped.columns, "id", "")


def plan(root: Path, location: str, file_format: str) -> str:
    """A table with one file, which nobody has to look at."""
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    table = HandTable(root, [fields])
    table.add_snapshot([Entry(location, 1, 5, file_format=file_format)])
    return table.write_metadata()


def test_files_that_are_not_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    path = plan(tmp_path / "1", "s3://b/k y%20.parquet", "parquet")
    assert iceberg_files(path, outside=True).files == [("s3://b/k y%20.parquet", 5)]
    path = plan(tmp_path / "2", "file:/one/x%20.parquet", "PARQUET")
    assert iceberg_files(path, outside=True).files == [("/one/x%20.parquet", 5)]
    odd = (("/a.orc", "ORC"), ("a.parquet", "PARQUET"), ("file://host/a", "PARQUET"), ("", "PARQUET"))
    for number, (location, kind) in enumerate(odd):
        with pytest.raises(
            ParquetBloomError, match=r"v1\.metadata\.json: it has a file|its file /a\.orc is not a Parquet"
        ):
            iceberg_files(plan(tmp_path / f"odd{number}", location, kind))


def test_iceberg_tables_that_cannot_be_read(catalog: Any, tmp_path: Path) -> None:
    (tmp_path / "a.metadata.json").write_text('{"format-version": 2, "location": "x"}')
    for path in (tmp_path / "nothing", tmp_path / "nothing.metadata.json", tmp_path, tmp_path / "a.metadata.json"):
        with pytest.raises(StorageError, match="cannot read the Iceberg table"):
            iceberg_files(path)
