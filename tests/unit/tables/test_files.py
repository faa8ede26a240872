"""The files of Delta tables that its own library writes, and columns that have other names in them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.table_rows import ids_in, rows
from support.table_identities import find_identities
from support.writers.delta_log import add, beginning, commit

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.delta.delta_table import delta_files
from parquet_bloom.tables.iceberg.iceberg_table import iceberg_files
from parquet_bloom.tables.names_in_files import is_same_column

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


@pytest.mark.ci
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
        assert table_files.snapshot is not None
        assert table_files.snapshot.columns is None
        assert table_files.snapshot.partition_values.column_names == ["p"]
    assert delta_files(str(root)) == delta_files(root, 5) == delta_files(root.as_uri())
    assert {delta_files(root, version).table_id for version in range(6)} == {str(table.metadata().id)}


def field(name: str, kind: Any, physical: str, number: int) -> dict[str, Any]:
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped}


def by_hand(root: Path, fields: list[Any], adds: list[dict[str, Any]], mode: str = "name") -> Path:
    """A table's log as Spark writes it, for features that delta-rs does not write."""
    configuration = {"delta.columnMapping.mode": mode}
    begin = beginning(fields, (), configuration, ["columnMapping", "deletionVectors"])
    commit(
        root,
        0,
        [
            *begin,
            *(
                add(one["path"], one.get("size", 100), **{k: v for k, v in one.items() if k not in ("path", "size")})
                for one in adds
            ),
        ],
    )
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


NUMBERS = {"c-1": 1, "c-2": 2, "c-3": 3, "c-4": 4}
NAMES = ("id", "s", "s.x y", "l")


def test_columns_that_are_mapped_by_name(tmp_path: Path, delta: Any) -> None:
    snapshot = delta_files(by_hand(tmp_path / "a", MAPPED, [])).snapshot
    assert snapshot is not None
    for number, ids in enumerate((None, NUMBERS, NUMBERS | {"c-1": 9})):
        of_file = {name: "" if ids is None else str(ids[name]) for name in NUMBERS}
        expected = {"id": f"c-1#{of_file['c-1']}", "l": f"c-4#{of_file['c-4']}"}
        expected |= dict.fromkeys(("s", "s.x y"), f"c-2.c-3#{of_file['c-3']}")
        found = find_identities(snapshot, written(tmp_path / f"{number}.parquet", ids), *NAMES)
        assert found == expected
        assert all(is_same_column(snapshot.columns, name, found[name]) for name in NAMES)
        assert [name for name in NAMES if is_same_column(snapshot.columns, name, found["id"])] == ["id"]
    assert "no such column" in find_identities(snapshot, tmp_path / "0.parquet", "c-1")["c-1"]


def test_columns_that_are_mapped_by_id(tmp_path: Path, delta: Any) -> None:
    snapshot = delta_files(by_hand(tmp_path / "a", MAPPED, [], "id")).snapshot
    good = find_identities(snapshot, written(tmp_path / "0.parquet", NUMBERS), *NAMES)
    assert good == {"id": "c-1#1", "s": "c-2.c-3#3", "s.x y": "c-2.c-3#3", "l": "c-4#4"}
    bad = find_identities(snapshot, written(tmp_path / "1.parquet", NUMBERS | {"c-1": 7, "c-3": 8}), *NAMES)
    assert "no such column" in bad["id"]
    assert "no such column" in bad["s.x y"]
    assert bad["l"] == "c-4#4"
    assert find_identities(snapshot, written(tmp_path / "2.parquet", None), *NAMES) == {
        "id": "c-1#",
        "s": "c-2.c-3#",
        "s.x y": "c-2.c-3#",
        "l": "c-4#",
    }


@pytest.mark.parametrize("library", ["deltalake", "pyiceberg"])
def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    for name in [library, *(module for module in sys.modules if module.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    read, extra = {"deltalake": (delta_files, "delta"), "pyiceberg": (iceberg_files, "iceberg")}[library]
    with pytest.raises(
        ParquetBloomError, match=rf"by {library}, which is not installed: pip install 'parquet-bloom\[{extra}\]'$"
    ):
        read("/t")
