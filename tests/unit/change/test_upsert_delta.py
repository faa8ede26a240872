"""Upserts into Delta tables: what is written, what is refused, and other writers meanwhile."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.writers import delta_log

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.storage.index_folder import Folder

deltalake = pytest.importorskip("deltalake")


def make_rows(ids: Any, text: str = "old") -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "day": [f"d{(i or 0) % 3}" for i in ids], "text": [text] * len(ids)}
    )


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = str(tmp_path / "ä table")
    settings = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(path, make_rows(range(100)), partition_by=["day"], configuration=settings)
    return path


def read(root: str) -> dict[int, str]:
    rows = pa.table(deltalake.DeltaTable(root).scan())
    ours = parquet_bloom.dataset(root).scan().to_arrow()
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, rows.select(ours.schema.names).to_pylist()))
    found = dict(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))
    assert len(found) == len(rows)
    return found


def test_rows_are_replaced_and_added_by_one_commit(root: str) -> None:
    report = parquet_bloom.upsert(root, make_rows([3, 5, 1000], "new"), "id")
    assert (report.num_added, report.num_replaced, report.new_version, len(report.added)) == (3, 2, 1, 3)
    found = read(root)
    assert len(found) == 101
    assert {i for i, text in found.items() if text == "new"} == {3, 5, 1000}
    lines = Path(root, "_delta_log", f"{1:020d}.json").read_text().splitlines()
    adds = [action["add"] for action in map(json.loads, lines) if "add" in action]
    new = [add for add in adds if "deletionVector" not in add]
    assert {add["partitionValues"]["day"] for add in new} == {"d0", "d1", "d2"}
    statistics = [json.loads(add["stats"]) for add in new]
    assert sum(each["numRecords"] for each in statistics) == 3
    assert sorted((each["minValues"]["id"], each["maxValues"]["text"]) for each in statistics) == [
        (3, "new"), (5, "new"), (1000, "new"),
    ]  # fmt: skip
    for path in report.added:  # later lookups find them by their filters
        with parquet_bloom.open(path) as file:
            assert [chunk.leaf.name for chunk in file.chunks()] == ["id"]


def test_rows_whose_key_the_table_has_are_kept(root: str) -> None:
    rows = make_rows([3, 5, 1000, None, None], "new")
    report = parquet_bloom.upsert(root, rows, ["id"], when_matched="keep")
    assert (report.num_added, report.num_kept, report.num_replaced, report.num_null_keys) == (3, 2, 0, 2)
    ids = parquet_bloom.dataset(root).scan("text = 'new'").to_arrow()["id"].to_pylist()
    assert sorted(ids, key=str) == [1000, None, None]
    again = parquet_bloom.upsert(root, make_rows([3, 1000]), "id", when_matched="keep")
    assert (again.changed, again.num_kept, again.attempts) == (False, 2, 0)


def test_a_dry_run_writes_nothing(root: str) -> None:
    before = sorted(Path(root).rglob("*"))
    report = parquet_bloom.upsert(root, make_rows([3, 1000]), "id", dry_run=True)
    assert (report.num_added, report.num_replaced, report.changed) == (2, 1, False)
    assert sorted(Path(root).rglob("*")) == before


def test_mistakes_are_named(root: str) -> None:
    rows = make_rows([1, 2])
    for given, on, error, said in (
        (make_rows([1, 1, 2, 2, 3]), "id", PredicateError, "column 'id': several of the rows have the same key: 1, 2$"),
        (rows, "nothing", UnknownColumnError, "column 'nothing': the table has no such column"),
        (rows, [], PredicateError, "a key needs a column"),
        (rows.drop_columns(["text"]), "id", UnknownColumnError, "column 'text': the rows lack this column"),
        (rows.append_column("more", rows["id"]), "id", UnknownColumnError, "column 'more': the rows have this column"),
        (
            rows.set_column(0, "id", pa.array(["x", "y"])),
            "id",
            ParquetBloomError,
            "column 'id': a value of the rows does",
        ),
        ([1, 2], "id", ParquetBloomError, "rows are an Arrow table"),
    ):
        with pytest.raises(error, match=said):
            parquet_bloom.upsert(root, given, on)
    with pytest.raises(ParquetBloomError, match="when_matched must be 'update' or 'keep', got 'delete'"):
        parquet_bloom.upsert(root, rows, "id", when_matched="delete")
    with pytest.raises(ParquetBloomError, match="threads must be an integer of at least 1, got 0"):
        parquet_bloom.upsert(root, rows, "id", threads=0)
    assert deltalake.DeltaTable(root).version() == 0


@pytest.mark.parametrize(
    ("metadata", "configuration", "said"),
    [
        ({"delta.generationExpression": "1"}, {}, "column 'id' is computed from others"),
        ({"delta.invariants": "{}"}, {}, "column 'id' has an invariant"),
        ({"delta.identity.start": 1}, {}, "column 'id' numbers its rows"),
        ({"CURRENT_DEFAULT": "1"}, {}, "column 'id' has a default"),
        ({}, {"delta.constraints.positive": "id > 0"}, "constraint 'positive' is not checked here"),
        ({}, {"delta.enableRowTracking": "true"}, "property delta.enableRowTracking is not heeded"),
    ],
)
def test_tables_that_ask_for_more_are_refused(
    tmp_path: Path, metadata: dict[str, Any], configuration: dict[str, str], said: str
) -> None:
    fields = [delta_log.column("id", "long", **metadata)]
    settings = {"delta.enableDeletionVectors": "true"} | configuration
    delta_log.commit(tmp_path, 0, delta_log.beginning(fields, configuration=settings, features=["deletionVectors"]))
    for is_dry in (True, False):
        with pytest.raises(ParquetBloomError, match=said):
            parquet_bloom.upsert(str(tmp_path), pa.table({"id": [1]}), "id", dry_run=is_dry)
    assert not [*tmp_path.glob("*.parquet")]


@pytest.mark.parametrize(
    ("name", "said"),
    [("delta.appendOnly", "forbids that rows are deleted"), ("delta.enableChangeDataFeed", "a record of each deleted")],
)
def test_rows_are_added_where_none_may_be_deleted(tmp_path: Path, name: str, said: str) -> None:
    root = str(tmp_path / "t")
    deltalake.write_deltalake(root, make_rows([1], "old"), configuration={name: "TRUE"})
    for is_dry in (True, False):
        with pytest.raises(ParquetBloomError, match=said):
            parquet_bloom.upsert(root, make_rows([1, 2], "new"), "id", dry_run=is_dry)
    assert len([*Path(root).glob("*.parquet")]) == 1
    assert parquet_bloom.upsert(root, make_rows([1, 2], "new"), "id", when_matched="keep").num_added == 1
    assert parquet_bloom.upsert(root, make_rows([3], "new"), "id").num_added == 1
    assert read(root) == {1: "old", 2: "new", 3: "new"}


def test_another_writer_comes_first(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Folder.create

    def interfere(self: Folder, name: str, new: bool = False) -> Any:
        if name.endswith(".json"):
            monkeypatch.setattr(Folder, "create", create)
            parquet_bloom.upsert(root, make_rows([3, 1000], "first"), "id")
        return create(self, name, new)

    monkeypatch.setattr(Folder, "create", interfere)
    report = parquet_bloom.upsert(root, make_rows([3, 1000, 1001], "second"), "id")
    assert (report.attempts, report.num_replaced) == (2, 2)
    found = read(root)
    assert len(found) == 102
    assert {i for i, text in found.items() if text != "old"} == {3, 1000, 1001}
    assert "first" not in found.values()
    live = {file.path for file in parquet_bloom.delta(root).read_snapshot().files}
    unused = {str(path) for path in Path(root).rglob("*.parquet")} - live
    assert len(unused) <= 2  # those of the other writer that have left the table, and none of the first try


def naive(*texts: str) -> list[dt.datetime]:
    return [dt.datetime.fromisoformat(text) for text in texts]


@pytest.mark.parametrize(
    ("wanted", "given", "expected"),
    [
        (pa.float32(), pa.array([1e300]), "would be another"),
        (pa.float32(), pa.array([0.1]), "would be another"),
        (pa.float32(), pa.array([0.5, float("nan"), float("inf"), None]), [0.5, float("nan"), float("inf"), None]),
        (pa.bool_(), pa.array([5]), "int64 are not converted to its type bool"),
        (pa.decimal128(10, 2), pa.array([0.125]), "would be another"),
        (pa.decimal128(10, 2), pa.array([0.25, 0.1]), [Decimal("0.25"), Decimal("0.10")]),
        (pa.float64(), pa.array([Decimal("0.12345678901234567890")]), "would be another"),
        (pa.date32(), pa.array(naive("2020-01-01T05:00")), "data|another"),
        (pa.date32(), pa.array(naive("2020-01-01")), [dt.date(2020, 1, 1)]),
        (pa.timestamp("us"), pa.array([1], pa.timestamp("us", "Europe/Berlin")), "tz=Europe/Berlin] are not converted"),
        (pa.timestamp("us", "UTC"), pa.array([0], pa.timestamp("s", "Europe/Berlin")), naive("1970-01-01T00:00Z")),
        (pa.list_(pa.float32()), pa.array([None, [0.5], [0.5, 0.1]]), "would be another"),
        (
            pa.struct([("a", pa.float32()), ("b", pa.int64())]),
            pa.array([{"b": 1, "a": 0.1}]),
            "would be another",
        ),
        (
            pa.map_(pa.string(), pa.float32()),
            pa.array([[("a", 0.5)], None, [("b", 0.1)]], pa.map_(pa.string(), pa.float64())),
            "would be another",
        ),
        (
            pa.map_(pa.string(), pa.float32()),
            pa.array([None, [("a", 0.5)]], pa.map_(pa.string(), pa.float64())),
            [None, [("a", 0.5)]],
        ),
        (pa.list_(pa.int64()), pa.array([[1], [2, 3]], pa.list_view(pa.int64())), "list_view"),
        (
            pa.string(),
            pa.chunked_array([["a", None, "a"]]).cast(pa.dictionary(pa.uint32(), pa.string_view())),
            ["a", None, "a"],
        ),
    ],
)
def test_values_that_would_be_others_are_refused(
    tmp_path: Path, wanted: pa.DataType, given: pa.ChunkedArray, expected: str | list[object]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", wanted)])
    settings = {"delta.enableDeletionVectors": "true"}
    table = deltalake.DeltaTable.create(str(tmp_path), schema, configuration=settings)
    rows = pa.table({"value": given, "id": range(len(given))})
    if isinstance(expected, str):
        with pytest.raises(ParquetBloomError, match=expected):
            parquet_bloom.upsert(str(tmp_path), rows, "id")
        return
    assert parquet_bloom.upsert(str(tmp_path), rows, "id").num_added == len(given)
    table.update_incremental()
    found = pa.table(table.scan())["value"].to_pylist()
    assert list(map(str, found)) == list(map(str, expected))


@pytest.mark.parametrize(
    ("on", "said"), [(None, "name, or a list"), (5, "name, or a list"), ([5], "name, or a list"), (["id"] * 2, "twice")]
)
def test_what_is_no_key_is_named(root: str, on: Any, said: str) -> None:
    with pytest.raises(ParquetBloomError, match=said):
        parquet_bloom.upsert(root, make_rows([3]), on)


def test_values_of_partitions_that_the_log_cannot_hold(root: str) -> None:
    rows = make_rows([3, 1000]).set_column(1, "day", pa.array(["", "d1"]))
    with pytest.raises(ParquetBloomError, match="column 'day': a row has an empty text"):
        parquet_bloom.upsert(root, rows, ["id", "day"])
    assert len(read(root)) == 100
    live = {file.path for file in parquet_bloom.delta(root).read_snapshot().files}
    assert {str(path) for path in Path(root).rglob("*.parquet")} == live


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


LISTS = pa.list_(required("element", pa.int64()))
STRUCTS = pa.struct([required("a", pa.int64())])
MAPS = pa.map_(pa.string(), required("value", pa.int64()))


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (LISTS, pa.array([None, [1, None]]), r"value\.element': the rows have a null"),
        (LISTS, pa.array([[1], [1, None]], LISTS), r"value\.element': the rows have a null"),
        (STRUCTS, pa.array([{"a": 1}, {"a": None}]), r"value\.a': the rows have a null"),
        (pa.list_(STRUCTS), pa.array([None, [None, {"a": None}]], pa.list_(STRUCTS)), r"\w+\.a': the rows have"),
        (
            MAPS,
            pa.array([[], [("k", None)]], pa.map_(pa.string(), pa.int64())),
            r"value\.entries\.value': the rows have",
        ),
    ],
)
def test_nulls_that_the_table_does_not_allow(tmp_path: Path, kind: pa.DataType, given: pa.Array, said: str) -> None:
    """Readers would fail at the table from then on."""
    schema = pa.schema([("id", pa.int64()), ("value", kind)])
    deltalake.DeltaTable.create(str(tmp_path), schema, configuration={"delta.enableDeletionVectors": "true"})
    rows = pa.table({"id": [1, 2], "value": given})
    with pytest.raises(ParquetBloomError, match=said):
        parquet_bloom.upsert(str(tmp_path), rows, "id")
    assert parquet_bloom.upsert(str(tmp_path), rows.slice(0, 1), "id").num_added == 1


def test_nulls_that_null_structs_hide(tmp_path: Path) -> None:
    """They lie in the fields, which may have none, and are no nulls of theirs."""
    inner = pa.struct([required("n", pa.float64()), required("t", pa.string())])
    kind = pa.struct([required("a", pa.int64()), pa.field("b", inner), required("c", inner)])
    schema = pa.schema([("id", pa.int64()), ("value", kind)])
    deltalake.DeltaTable.create(str(tmp_path), schema, configuration={"delta.enableDeletionVectors": "true"})
    below = pa.StructArray.from_arrays([pa.array([0.5, None, None]), pa.array(["x", None, None])], names=["n", "t"])
    other = pa.StructArray.from_arrays(below.flatten(), names=["n", "t"], mask=pa.array([False, True, True]))
    given = pa.StructArray.from_arrays(
        [pa.array([1, None, None], pa.int32()), other, below], names=["a", "b", "c"], mask=pa.array([False, True, True])
    )
    rows = pa.table({"id": [1, 2, 3], "value": given})
    parquet_bloom.upsert(str(tmp_path), rows.slice(1), "id")
    parquet_bloom.upsert(str(tmp_path), rows, "id")
    for found in (
        pa.table(deltalake.DeltaTable(str(tmp_path)).scan()),
        parquet_bloom.read_table(str(tmp_path), "id > 0"),
    ):
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()


def test_maps_under_column_mapping(tmp_path: Path) -> None:
    value = delta_log.struct_of(delta_log.column("amount", "integer", 3))
    kind = {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
    settings = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    fields = [delta_log.column("id", "long", 1), delta_log.column("map", kind, 2)]
    features = ["deletionVectors", "columnMapping"]
    delta_log.commit(tmp_path, 0, delta_log.beginning(fields, configuration=settings, features=features))
    typed = pa.map_(pa.string(), pa.struct([("amount", pa.int32())]))
    rows = pa.table({"id": [1], "map": pa.array([[("k", {"amount": 5})]], typed)})
    parquet_bloom.upsert(str(tmp_path), rows, "id")
    assert pa.table(deltalake.DeltaTable(str(tmp_path)).scan()).to_pylist() == rows.to_pylist()
