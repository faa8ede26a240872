"""The files of Delta and Iceberg tables that their own libraries write, and columns that have other names in them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError, UnknownColumnError
from parquet_bloom.tables.files import TableFiles, delta_files
from parquet_bloom.tables.iceberg.files import iceberg_files
from parquet_bloom.tables.locations import resolve_delta_path

ODD = ["a b", "ä/ö", "x:y%41", "plain", "#1?", "it's"]


def rows(start: int, count: int = 12) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [ODD[number % len(ODD)] for number in numbers]})


def ids_in(table_files: TableFiles) -> list[int]:
    """The ids in all files, each opened by the path that is given, which has the size that is given."""
    read: list[int] = []
    for path, size in table_files.files:
        assert os.path.getsize(path) == size
        with parquet_bloom.open(path) as file:
            assert file.source.size == size
        read += pq.ParquetFile(path).read(["id"])["id"].to_pylist()
    assert table_files.files == sorted(set(table_files.files))
    return sorted(read)


# ------------------------------------------------------------------------------------------------------------
# Delta
# ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def delta() -> Any:
    return pytest.importorskip("deltalake")


def replayed(root: Path, version: int) -> set[tuple[str, int]]:
    """Return a log of relative paths, action by action."""
    live: dict[str, int] = {}
    for number in range(version + 1):
        for line in (root / "_delta_log" / f"{number:020}.json").read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                live[str(root / unquote(action["add"]["path"]))] = action["add"]["size"]
            if "remove" in action:
                del live[str(root / unquote(action["remove"]["path"]))]
    return set(live.items())


@pytest.mark.parametrize("name", ["t", "tab le", "ü#+"])
def test_every_version_of_a_delta_table(tmp_path: Path, delta: Any, name: str) -> None:
    root = tmp_path / name
    delta.write_deltalake(root, rows(0), partition_by=["p"])
    delta.write_deltalake(root, rows(12), mode="append")
    table = delta.DeltaTable(root)
    table.delete("id >= 4 AND id < 20")
    delta.write_deltalake(root, rows(20, 4), mode="append")
    table.update_incremental()
    assert table.optimize.compact()["numFilesRemoved"] > 0
    table.create_checkpoint()
    delta.write_deltalake(root, rows(100), mode="overwrite")
    remaining = [*range(4), *range(20, 24)]
    twice = sorted([*remaining, *range(20, 24)])
    expected = [[*range(12)], [*range(24)], remaining, twice, twice, [*range(100, 112)]]
    for version, ids in enumerate(expected):
        table_files = delta_files(root, version)
        assert (table_files.kind, table_files.version, table_files.root) == ("delta", version, str(root))
        assert set(table_files.files) == replayed(root, version)
        assert ids_in(table_files) == ids
        assert table_files.columns == {"id": "id", "p": "p"}
        assert table_files.partitions == ("p",)
    assert delta_files(str(root)) == delta_files(root, 5) == delta_files(root.as_uri())
    assert {delta_files(root, version).table_id for version in range(6)} == {str(table.metadata().id)}


def test_a_delta_table_that_was_moved(tmp_path: Path, delta: Any, monkeypatch: Any) -> None:
    delta.write_deltalake(tmp_path / "a", rows(0), partition_by=["p"])
    before = delta_files(tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    monkeypatch.chdir(tmp_path)
    after = delta_files("b")
    assert after.table_id == before.table_id
    assert ids_in(after) == [*range(12)]
    assert all(os.path.isabs(path) for path, _ in after.files)


def test_an_empty_delta_table(tmp_path: Path, delta: Any) -> None:
    delta.DeltaTable.create(tmp_path / "a", rows(0).schema)
    assert delta_files(tmp_path / "a").files == []
    delta.write_deltalake(tmp_path / "a", rows(0), mode="append")
    delta.DeltaTable(tmp_path / "a").delete()
    assert delta_files(tmp_path / "a").files == []
    assert ids_in(delta_files(tmp_path / "a", 1)) == [*range(12)]


def test_a_delta_table_on_s3(s3: Any, delta: Any) -> None:
    options = s3.storage_options | {"allow_http": True}
    texts = options | {"allow_http": "true"}
    delta.write_deltalake(s3.url("tab le/ä"), rows(0), partition_by=["p"], storage_options=texts)
    table_files = delta_files(s3.url("tab le/ä"), storage_options=options)
    assert table_files.root == s3.url("tab le/ä")
    read: list[int] = []
    for path, size in table_files.files:
        assert path.startswith(s3.url("tab le/ä/p="))
        data = s3.get(path.removeprefix(s3.url("")))
        assert len(data) == size
        with parquet_bloom.open(path, storage_options=options) as file:
            assert file.source.size == size
        read += pq.read_table(pa.BufferReader(data))["id"].to_pylist()
    assert sorted(read) == [*range(12)]


def field(name: str, kind: Any, physical: str | None, number: int) -> dict[str, Any]:
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped if physical else {}}


def by_hand(root: Path, fields: list[Any], adds: list[dict[str, Any]], mode: str = "name") -> Path:
    """A table's log as Spark writes it, for features that delta-rs does not write."""
    features = ["columnMapping", "deletionVectors"]
    configuration = {"delta.columnMapping.mode": mode, "delta.enableDeletionVectors": "true"}
    schema = json.dumps({"type": "struct", "fields": fields})
    common = {"partitionValues": {}, "size": 100, "modificationTime": 1, "dataChange": True}
    actions = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {
            "metaData": {
                "id": "909ada06-e0ee-484c-9c05-dbe3bf220e34",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "createdTime": 1,
                "configuration": configuration,
            }
        },
        *({"add": common | add} for add in adds),
    ]
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return root


def test_places_in_a_delta_log(tmp_path: Path, delta: Any) -> None:
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    adds = [
        {"path": "p=a%20b/x%20y.parquet", "deletionVector": vector},
        {"path": "file:///else%20where/%C3%A4.parquet"},
        {"path": "file:/one/slash.parquet", "size": 7},
        {"path": "s3://bucket/k%20y%2525.parquet"},
        {"path": "/abso/lute.parquet"},
    ]
    root = by_hand(tmp_path / "a", [field("id", "long", "c-1", 1)], adds)
    with pytest.raises(ParquetBloomError, match=r"its file .* is outside of the table's folder; outside=True"):
        delta_files(root)
    table_files = delta_files(root, outside=True)
    assert table_files.outside
    assert set(table_files.files) == {
        (f"{tmp_path}/a/p=a b/x y.parquet", 100),
        ("/else where/ä.parquet", 100),
        ("/one/slash.parquet", 7),
        ("s3://bucket/k y%25.parquet", 100),
        ("/abso/lute.parquet", 100),
    }


@pytest.mark.parametrize(
    "path",
    ["../a.parquet", "b/../a.parquet", "b//a.parquet", "file://host/a.parquet", "s3://b/a?v=1", "c:a.parquet", "%FF"],
)
def test_paths_that_are_not_understood(tmp_path: Path, delta: Any, path: str) -> None:
    root = by_hand(tmp_path / "a", [field("id", "long", "c-1", 1)], [{"path": path}])
    with pytest.raises(ParquetBloomError) as caught:
        delta_files(root)
    assert str(caught.value).startswith(f"{root}: ")


def test_absolute_paths_of_a_store_that_nothing_names() -> None:
    with pytest.raises(ParquetBloomError, match="location cannot be resolved"):
        resolve_delta_path("/a/b.parquet", "s3://bucket/t")
    assert resolve_delta_path("a/b%2B.parquet", "s3://bucket") == "s3://bucket/a/b+.parquet"
    assert resolve_delta_path("a.parquet", "/") == "/a.parquet"


MAPPED = [
    field("id", "long", "c-1", 1),
    field("s", {"type": "struct", "fields": [field("x y", "string", "c-3", 3)]}, "c-2", 2),
    field("l", {"type": "array", "elementType": "long", "containsNull": True}, "c-4", 4),
]


def written(path: Path, ids: dict[str, int] | None) -> Path:
    """A data file of that table; with field ids, if any."""

    def named(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, kind, metadata=ids and {"PARQUET:field_id": str(ids[name])})

    schema = pa.schema(
        [
            named("c-1", pa.int64()),
            named("c-2", pa.struct([named("c-3", pa.string())])),
            named("c-4", pa.list_(pa.int64())),
        ]
    )
    pq.write_table(pa.table({"c-1": [1], "c-2": [{"c-3": "x"}], "c-4": [[1]]}, schema), path)
    return path


def leaves(table_files: TableFiles, path: Path | str) -> dict[str, str]:
    """{column of the table: leaf of a file}, or what is wrong with it."""
    result = {}
    with parquet_bloom.open(path) as file:
        for name in table_files.columns:
            try:
                result[name] = table_files.leaf_of(name, file.leaves, str(path)).name
            except UnknownColumnError as error:
                result[name] = error.problem if error.path == str(path) else str(error)
    return result


NUMBERS = {"c-1": 1, "c-2": 2, "c-3": 3, "c-4": 4}


def test_columns_that_are_mapped_by_name(tmp_path: Path, delta: Any) -> None:
    table_files = delta_files(by_hand(tmp_path / "a", MAPPED, []))
    assert table_files.columns == {"id": "c-1", "s": "c-2", "s.x y": "c-2.c-3", "l": "c-4"}
    for number, ids in enumerate((None, NUMBERS, NUMBERS | {"c-1": 9})):
        expected = {"id": "c-1", "s": "c-2.c-3", "s.x y": "c-2.c-3", "l": "c-4.list.element"}
        assert leaves(table_files, written(tmp_path / f"{number}.parquet", ids)) == expected
    with pytest.raises(UnknownColumnError, match="column 'c-1': the table has no such column"):
        table_files.leaf_of("c-1", [])


def test_columns_that_are_mapped_by_id(tmp_path: Path, delta: Any) -> None:
    table_files = delta_files(by_hand(tmp_path / "a", MAPPED, [], "id"))
    assert table_files.ids == {"id": 1, "s": 2, "s.x y": 3, "l": 4}
    good = leaves(table_files, written(tmp_path / "0.parquet", NUMBERS))
    assert good == {"id": "c-1", "s": "c-2.c-3", "s.x y": "c-2.c-3", "l": "c-4.list.element"}
    bad = leaves(table_files, written(tmp_path / "1.parquet", NUMBERS | {"c-1": 7, "c-3": 8}))
    assert bad["id"] == "the file's column of that name has field id 7, the table's 1"
    assert "field id 8" in bad["s.x y"]
    assert bad["l"] == "c-4.list.element"
    assert all("field id None" in text for text in leaves(table_files, written(tmp_path / "2.parquet", None)).values())


def test_delta_tables_that_cannot_be_read(tmp_path: Path, delta: Any) -> None:
    with pytest.raises(StorageError, match=r"nothing: cannot read the Delta table"):
        delta_files(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError):
        delta_files(tmp_path / "folder")
    assert not (tmp_path / "nothing").exists()
    delta.write_deltalake(tmp_path / "a", rows(0))
    with pytest.raises(StorageError, match=r"a: cannot read the Delta table"):
        delta_files(tmp_path / "a", 1)
    version: Any
    for version in (-1, "now", True):
        with pytest.raises(ParquetBloomError, match=r"a: version is .*, which is not a version"):
            delta_files(tmp_path / "a", version)
    log = tmp_path / "a" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text()[:200])
    with pytest.raises(StorageError):
        delta_files(tmp_path / "a")


def test_delta_tables_that_are_not_understood(tmp_path: Path, delta: Any) -> None:
    with pytest.raises(ParquetBloomError):
        delta_files(by_hand(tmp_path / "a", MAPPED, [], "colour"))
    with pytest.raises(ParquetBloomError):
        delta_files(by_hand(tmp_path / "b", [field("id", "long", None, 1)], []))
    root = by_hand(tmp_path / "c", MAPPED, [])
    log = root / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"deletionVectors"', '"martianVectors"'))
    with pytest.raises(ParquetBloomError):
        delta_files(root)


# ------------------------------------------------------------------------------------------------------------
# Iceberg
# ------------------------------------------------------------------------------------------------------------


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
            assert table_files.columns == {"id": "id", "p": "p"}
            assert ids_in(table_files) == ids
            for file, _ in table_files.files:
                assert set(leaves(table_files, file).values()) == {"id", "p"}
        assert iceberg_files(given) == iceberg_files(given, snapshots[-1][0])
    with pytest.raises(ParquetBloomError, match="no snapshot 5"):
        iceberg_files(table, 5)


def test_a_folder_of_a_table_needs_a_hint(catalog: Any) -> None:
    table = partitioned(catalog)
    table.append(rows(0))
    root = Path(iceberg_files(table).root)
    with pytest.raises(StorageError, match="version-hint"):
        iceberg_files(root)
    (root / "metadata" / "version-hint.text").write_text(os.path.basename(table.metadata_location))
    assert iceberg_files(root) == iceberg_files(f"{root}/") == iceberg_files(table)


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
    assert leaves(before, first.path) == {
        **{name: name for name in ("kept", "old", "swap", "other", "again", "s.x", "s.y")},
        "s": "several columns match the name: s.x, s.y",
        "my-col": "my_x2Dcol",
        "l": "l.list.element",
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
    table_files = iceberg_files(table)
    assert set(table_files.columns) == {"kept", "s", "s.y", "l", "my-col", "again", "added", "old"}
    now = leaves(table_files, first.path)
    assert {name for name, leaf in now.items() if leaf == table_files.columns[name]} == {"kept", "my-col", "s.y"}
    assert now["l"] == "l.list.element"
    assert "field id" in now["again"]
    assert "field id" in now["old"]
    assert "no such column" in now["added"]
    # By the schema of its time.
    assert set(iceberg_files(table, before.version).columns) >= {"kept", "my-col", "again"}


def test_files_that_were_not_written_for_iceberg(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    pq.write_table(rows(0), tmp_path / "x y%20.parquet")
    table.add_files([f"file://{tmp_path}/x y%20.parquet"])
    with pytest.raises(ParquetBloomError, match=r"x y%20\.parquet is outside of the table's folder"):
        iceberg_files(table)
    table_files = iceberg_files(table, outside=True)
    assert [path for path, _ in table_files.files] == [f"{tmp_path}/x y%20.parquet"]
    assert ids_in(table_files) == [*range(12)]
    assert leaves(table_files, table_files.files[0].path) == {"id": "id", "p": "p"}
    without = replace(table_files, unnumbered=False)  # no table's mapping says what its columns are
    assert all("field id None" in text for text in leaves(without, table_files.files[0].path).values())
    mixed = pa.schema([pa.field("id", pa.int64()), pa.field("p", pa.string(), metadata={"PARQUET:field_id": "2"})])
    pq.write_table(rows(0).cast(mixed), tmp_path / "mixed.parquet")
    assert "field id None" in leaves(table_files, tmp_path / "mixed.parquet")["id"]
    with table.transaction() as change:
        mapping = '[{"field-id": 1, "names": ["id", "key"]}, {"field-id": 2, "names": ["p"]}]'
        change.set_properties({"schema.name-mapping.default": mapping})
    assert iceberg_files(table, outside=True).columns == {"p": "p"}


def test_files_that_are_not_parquet(catalog: Any, monkeypatch: Any) -> None:
    table = partitioned(catalog)
    table.append(rows(0, 1))
    scan = type(table.scan())

    def plan(location: str, kind: str) -> None:
        file = SimpleNamespace(file_path=location, file_format=kind, file_size_in_bytes=5)
        monkeypatch.setattr(scan, "plan_files", lambda self: [SimpleNamespace(file=file, delete_files=set())])

    plan("s3://b/k y%20.parquet", "parquet")
    assert iceberg_files(table, outside=True).files == [("s3://b/k y%20.parquet", 5)]
    plan("file:/one/x%20.parquet", "PARQUET")
    assert iceberg_files(table, outside=True).files == [("/one/x%20.parquet", 5)]
    for location, kind in (("/a.orc", "ORC"), ("a.parquet", "PARQUET"), ("file://host/a", "PARQUET"), ("", "PARQUET")):
        plan(location, kind)
        with pytest.raises(ParquetBloomError, match=r"n\.t: it has a file|n\.t: its file"):
            iceberg_files(table)


def test_iceberg_tables_that_cannot_be_read(catalog: Any, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path / "nothing.metadata.json", str(tmp_path)):
        with pytest.raises(StorageError, match="cannot read the Iceberg table"):
            iceberg_files(path)
    (tmp_path / "a.metadata.json").write_text('{"format-version": 2, "location": "x"}')
    with pytest.raises(StorageError, match=r"a\.metadata\.json: cannot read the Iceberg table"):
        iceberg_files(tmp_path / "a.metadata.json")
    for odd in (5, None, {"a": 1}):
        with pytest.raises(ParquetBloomError, match="is a pyiceberg Table or a path"):
            iceberg_files(odd)
    table = partitioned(catalog)
    table.append(rows(0))
    for manifest in Path(iceberg_files(table).root).glob("metadata/*.avro"):
        manifest.write_bytes(b"nothing")
    with pytest.raises(StorageError):
        iceberg_files(table.metadata_location)


@pytest.mark.parametrize(
    ("function", "package", "extra"), [(delta_files, "deltalake", "delta"), (iceberg_files, "pyiceberg", "iceberg")]
)
def test_a_library_that_is_not_there(monkeypatch: Any, function: Any, package: str, extra: str) -> None:
    for name in [package, *(module for module in sys.modules if module.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ParquetBloomError) as caught:
        function("/t")
    needed = f"read by {package}, which is not installed: pip install 'parquet-bloom[{extra}]'"
    assert str(caught.value).endswith(needed)
