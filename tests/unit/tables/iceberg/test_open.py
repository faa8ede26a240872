"""Every way to name an Iceberg table, its snapshots, and that nothing in its metadata is run or trusted."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import gc
import json
import os
import pickle
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.scale import scaled

from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.iceberg import catalog_search, iceberg_table
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

from .conftest import rows

pytest.importorskip("sqlalchemy")
sql = pytest.importorskip("pyiceberg.catalog.sql")
Config = pytest.importorskip("pyiceberg.utils.config").Config


def count(named: Any) -> int:
    return len(named.read_snapshot().files)


@pytest.mark.ci
def test_every_way_in(catalog: Any, table: Any, tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    root, metadata = f"{tmp_path}/wh/n/t", table.metadata_location
    live = [
        iceberg(table),
        iceberg("n.t", catalog=catalog),
        iceberg(("n", "t"), catalog=catalog),
        iceberg("n.t", catalog="lake", properties=settings),
        iceberg(root),
        iceberg(Path(root)),
        iceberg(f"file://{root}/"),
    ]
    fixed = [iceberg(metadata), iceberg(metadata.removeprefix("file://"))]
    for named in [*live, *fixed]:
        snapshot = named.read_snapshot()
        assert (snapshot.kind, snapshot.root, len(snapshot.files)) == ("iceberg", root, 2)
        assert snapshot.version == table.current_snapshot().snapshot_id
        assert snapshot.table_id == str(table.metadata.table_uuid)
        assert snapshot.schema == table.scan().to_arrow().schema
        assert snapshot.partition_values.num_rows == 2
        again = pickle.loads(pickle.dumps(named))
        assert repr(again) == repr(named)
        assert again.read_snapshot().files == snapshot.files
    catalog.load_table("n.t").append(rows(6))
    assert [count(named) for named in live] == [3] * 7
    assert [count(named) for named in fixed] == [2, 2]
    assert count(pickle.loads(pickle.dumps(live[0]))) == 3
    from pyiceberg.table import StaticTable

    assert count(iceberg(StaticTable.from_metadata(metadata))) == 2
    catalog.drop_table("n.t")
    for named in live[:4]:
        with pytest.raises(StorageError, match=r"^n\.t: cannot read the Iceberg table"):
            named.read_snapshot()


def test_snapshots(catalog: Any, table: Any) -> None:
    first, second = table.snapshots()
    with table.manage_snapshots() as manage:
        manage.create_tag(first.snapshot_id, "one")
        manage.create_branch(first.snapshot_id, "side")
    with table.update_schema() as update:
        update.rename_column("id", "key")
    moment = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC)
    old, new = ["id"], ["key"]
    cases: list[tuple[dict[str, Any], int, list[str]]] = [
        ({}, second.snapshot_id, new),
        ({"ref": "main"}, second.snapshot_id, new),
        ({"ref": "side"}, first.snapshot_id, new),  # branches have the table's schema, tags their own
        ({"ref": "one"}, first.snapshot_id, old),
        ({"snapshot_id": first.snapshot_id}, first.snapshot_id, old),
        ({"snapshot_id": second.snapshot_id}, second.snapshot_id, old),
        ({"as_of": moment}, first.snapshot_id, old),
        ({"as_of": moment.isoformat()}, first.snapshot_id, old),
        ({"as_of": moment.replace(tzinfo=None).isoformat()}, first.snapshot_id, old),
        ({"as_of": "2099-01-01"}, second.snapshot_id, old),
    ]
    for arguments, version, names in cases:
        for named in (iceberg(table, **arguments), iceberg("n.t", catalog=catalog, **arguments)):
            snapshot = named.read_snapshot()
            assert (snapshot.version, snapshot.schema.names) == (version, names), arguments
            assert [column.name for column in snapshot.columns or ()] == names
            assert [column.field_id for column in snapshot.columns or ()] == [1]
    missing: list[tuple[dict[str, Any], str]] = [
        ({"snapshot_id": 5}, "no snapshot 5"),
        ({"ref": "gone"}, "no branch or tag 'gone'; there are: main, one, side"),
        ({"as_of": moment - dt.timedelta(milliseconds=1)}, "its first known snapshot is of a time after"),
        ({"as_of": "1970-01-01T00:00:00+05:00"}, "is of a time after 1969-12-31T19:00:00"),
    ]
    for arguments, problem in missing:
        with pytest.raises(StorageError, match=problem):
            iceberg(table, **arguments).read_snapshot()


def test_an_empty_table(catalog: Any) -> None:
    table = catalog.create_table("n.empty", rows(0).schema)
    snapshot = iceberg(table).read_snapshot()
    assert (snapshot.version, list(snapshot.files), snapshot.find_statistics("id")) == (None, [], None)
    assert iceberg(table, ref="main").read_snapshot().version is None
    for arguments in ({"snapshot_id": 1}, {"as_of": "2020-01-01"}, {"ref": "x"}):
        with pytest.raises(StorageError):
            iceberg(table, **arguments).read_snapshot()  # type: ignore[arg-type]


def test_what_is_not_understood(catalog: Any, table: Any) -> None:
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (5, {}, "is a pyiceberg Table or a path, not int"),
        (table, {"catalog": catalog}, "with a catalog a table is given by its name, not as Table"),
        ("", {"catalog": catalog}, "given by its name"),
        ((1,), {"catalog": catalog}, "given by its name"),
        ("n.t", {"catalog": 5}, "a catalog is pyiceberg's or the name of one, not int"),
        ("n.t", {"catalog": catalog, "properties": {"a": "b"}}, "properties are for the name of a catalog"),
        (table, {"properties": {"a": "b"}}, "properties are for a path"),
        (table, {"snapshot_id": 1, "ref": "a"}, "snapshot_id and ref exclude each other"),
        (table, {"as_of": "now", "ref": "a"}, "ref and as_of exclude each other"),
        (table, {"as_of": "yesterday"}, "a time is a datetime or text such as"),
        (table, {"as_of": 5}, "a time is a datetime or text such as"),
        (table, {"snapshot_id": "5"}, "a snapshot id is a number"),
        (table, {"snapshot_id": True}, "a snapshot id is a number"),
        (table, {"ref": 5}, "a ref is the name of a branch or tag"),
    ]
    for given, arguments, problem in wrong:
        with pytest.raises(ParquetBloomError, match=problem):
            iceberg(given, **arguments)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    named = iceberg("s3://user:hunter2@bucket/t", properties={"s3.secret-access-key": "hunter3"})
    assert "hunter" not in repr(named)
    assert "hunter" not in str(named)
    named = iceberg("n.t", catalog="none", properties={"uri": "http://u:hunter2@127.0.0.1:9/", "type": "rest"})
    assert "hunter" not in repr(named)


# ------------------------------------------------------------------------------------------------------ no code


@pytest.mark.ci
@pytest.mark.parametrize("way", ["table", "catalog", "name", "folder", "metadata", "pickle"])
def test_a_table_names_no_code(catalog: Any, table: Any, tmp_path: Path, way: str) -> None:
    """Its properties are written by whoever can write the table: no callable of theirs is called, no setting used."""
    mark = tmp_path / "mark"
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    metadata["properties"] |= {"py-io-impl": "subprocess.Popen", "/bin/mkdir": "", str(mark): "", "s3.endpoint": "evil"}
    path = f"{tmp_path}/wh/n/t/metadata/00009-x.metadata.json"
    Path(path).write_text(json.dumps(metadata))
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{path}",))
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    ways = {
        "table": lambda: iceberg(table),
        "catalog": lambda: iceberg("n.t", catalog=catalog),
        "name": lambda: iceberg("n.t", catalog="lake", properties=settings),
        "folder": lambda: iceberg(f"{tmp_path}/wh/n/t"),
        "metadata": lambda: iceberg(path),
        "pickle": lambda: pickle.loads(pickle.dumps(iceberg(table))),
    }
    contents = ways[way]().read_contents()
    assert len(contents.files) == 2
    assert contents.table.metadata.properties["py-io-impl"] == "subprocess.Popen"
    assert not {"py-io-impl", "s3.endpoint"} & contents.table.io.properties.keys()
    assert not mark.exists()
    with pytest.raises(Exception):  # pyiceberg's own way calls it, and takes the result for a FileIO  # noqa: B017
        catalog.load_table("n.t").io.new_input(path)


def test_settings_that_a_rest_catalog_sends_are_kept() -> None:
    class Rest:
        def __init__(self) -> None:
            self.properties = {"own": "1"}

        def _resolve_storage_credentials(self, credentials: Any, location: str) -> dict[str, str]:
            return {"token": "of the place"}

        def _load_file_io(self, properties: Any, location: Any) -> Any:
            return {**self.properties, **properties}

        def _response_to_table(self, identifier: Any, response: Any) -> Any:
            properties = {**response.metadata.properties, **response.config}
            return argparse.Namespace(io=self._load_file_io(properties, response.metadata_location))

        def load_table(self, identifier: Any) -> Any:
            metadata = SimpleNamespace(properties={"py-io-impl": "a.b", "endpoint": "evil"})
            response = SimpleNamespace(
                metadata=metadata, config={"sent": "2"}, storage_credentials=[], metadata_location="s3://b/m.json"
            )
            return self._response_to_table(identifier, response)

    rest = Rest()
    opened: Any = iceberg_table.CatalogTable("n.t", rest, {}).open()
    assert opened.io == {"own": "1", "sent": "2", "token": "of the place"}
    assert "py-io-impl" in rest.load_table("n.t").io  # the caller's catalog is as it was


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed on Linux")
def test_connections_to_a_catalog_that_was_opened_by_name_are_closed(
    catalog: Any, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_connections() -> int:
        links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
        return sum(os.readlink(link) == f"{tmp_path}/c.db" for link in links if link.is_symlink())

    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/c.db")
    # pyiceberg reads the environment when it is imported.
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    by_object = iceberg("n.t", catalog=catalog)
    before = count_connections()
    gc.disable()  # of what waits for the collector, each lookup would leave one
    try:
        for _ in range(3):
            assert count(iceberg("n.t", catalog="lake")) == 2
            assert count(pickle.loads(pickle.dumps(by_object))) == 2
            assert count(catalog_search.open_at(f"{tmp_path}/wh/n/t", "lake")) == 2
            with pytest.raises(StorageError):
                count(iceberg("n.missing", catalog="lake"))
        assert count_connections() == before
    finally:
        gc.enable()
    assert count(by_object) == 2


# ------------------------------------------------------------------------------------------------ nothing outside


def test_a_table_that_was_copied_or_points_elsewhere(table: Any, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "wh" / "n" / "t", tmp_path / "copy")
    with pytest.raises(ParquetBloomError, match=r"its metadata says that it is in .*another folder; outside=True"):
        iceberg(tmp_path / "copy").read_snapshot()
    assert count(iceberg(tmp_path / "copy", outside=True)) == 2
    os.symlink(tmp_path / "wh" / "n" / "t", tmp_path / "link")
    assert count(iceberg(tmp_path / "link")) == 2


@pytest.mark.ci
def test_every_broken_file_ends_in_one_line(catalog: Any, table: Any, tmp_path: Path) -> None:
    """Each file of the metadata, cut short anywhere or filled with other bytes: an error or the right files."""
    root = tmp_path / "wh" / "n" / "t"
    expected = iceberg(root).read_snapshot().files
    rng = random.Random(0)
    for path in sorted((root / "metadata").glob("*")):
        data = path.read_bytes()
        cuts = [data[:size] for size in range(0, len(data), max(1, len(data) // 12))]
        for broken in [*cuts, data[::-1], bytes(len(data)), data[:-16] + bytes(16)]:
            path.write_bytes(broken)
            problem = ""
            try:
                files = iceberg(table.metadata_location).read_snapshot().files
            except ParquetBloomError as error:
                problem = str(error)
            assert problem or files == expected, (path, len(broken))
            assert "\n" not in problem
            assert problem.startswith(table.metadata_location) or not problem
        for _ in range(scaled(10)):  # what is read then may be anything, but it is read or refused
            broken = bytearray(data)
            for _ in range(rng.choice([1, 1, 8])):
                broken[rng.randrange(len(broken))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            path.write_bytes(broken)
            with contextlib.suppress(ParquetBloomError):
                iceberg(table.metadata_location).read_snapshot()
        path.write_bytes(data)
    assert iceberg(table.metadata_location).read_snapshot().files == expected
