"""The columns of Iceberg tables: their names in files, what files may lack, and what metadata says of their values."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.writers.iceberg_tables import Entry, HandTable

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.predicate.tree import Compare, Equal, NotEqual
from parquet_bloom.tables.iceberg import iceberg_deletes, iceberg_statistics
from parquet_bloom.tables.iceberg.iceberg_snapshot import translate_settings
from parquet_bloom.tables.iceberg.iceberg_statistics import decode_bounds
from parquet_bloom.tables.iceberg.iceberg_table import iceberg
from parquet_bloom.tables.iceberg.manifests import DeleteFile
from parquet_bloom.tables.table_snapshot import TableColumn

pytest.importorskip("pyiceberg")


def field(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def many(number: int, kind: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element-required": False, "element": kind}


def pairs(key: int, value: int, kind: Any) -> dict[str, Any]:
    return {"type": "map", "key-id": key, "key": "string", "value-id": value, "value-required": False, "value": kind}


NESTED = [
    field(1, "id", "long"),
    field(2, "st", struct(field(3, "x", "int"), field(4, "y.z", "string"))),
    field(5, "li", many(6, struct(field(7, "q", "long")))),
    field(8, "ma", pairs(9, 10, "int")),
]


def entry(name: str = "a", **more: Any) -> Entry:
    return Entry(f"file:///none/{name}.parquet", 10, 1, **more)


def snapshot_of(table: HandTable, *entries: Entry) -> Any:
    table.add_snapshot(entries)
    return iceberg(table.write_metadata(), outside=True).read_snapshot()


def test_columns_and_their_names(tmp_path: Path) -> None:
    columns = snapshot_of(HandTable(tmp_path / "1", [NESTED])).columns
    assert columns == (
        TableColumn("id", "value", 1),
        TableColumn("st", "struct", 2, (), (TableColumn("x", "value", 3), TableColumn("y.z", "value", 4))),
        TableColumn("li", "list", 5, (), (TableColumn("element", "struct", 6, (), (TableColumn("q", "value", 7),)),)),
        TableColumn("ma", "map", 8, (), (TableColumn("key", "value", 9), TableColumn("value", "value", 10))),
    )
    mapping = [
        {"field-id": 1, "names": ["id", "key"]},
        {"field-id": 2, "names": ["st"], "fields": [{"field-id": 3, "names": ["x", "old"]}]},
        {"field-id": 5, "names": ["li"], "fields": [{"field-id": 6, "names": ["element"]}]},
        {"names": ["nothing"]},
    ]
    properties = {"schema.name-mapping.default": json.dumps(mapping)}
    named = snapshot_of(HandTable(tmp_path / "2", [NESTED], properties=properties)).columns
    assert named[0] == TableColumn("id", "value", 1, ("id", "key"))
    assert named[1].parts == (TableColumn("x", "value", 3, ("x", "old")), TableColumn("y.z", "value", 4))
    assert named[2].parts[0].names == ("element",)
    assert named[3].names == ()


def test_what_files_may_lack(tmp_path: Path) -> None:
    schema = [
        *NESTED,
        field(20, "n", "long", **{"initial-default": 5, "write-default": 6}),
        field(21, "deep", many(22, struct(field(23, "v", "int", **{"initial-default": 1})))),
        field(24, "p", "string"),
    ]
    spec = [{"source-id": 24, "field-id": 1000, "name": "part", "transform": "identity"}]
    table = HandTable(tmp_path / "t", [schema], [(), spec], version=3)
    both = snapshot_of(table, entry("a", spec=1, partition=("x",)), entry("b"))
    assert {path: set(columns) for path, columns in both.undefined.items()} == {
        "/none/a.parquet": {"deep.element.v", "p"},
        "/none/b.parquet": {"deep.element.v"},
    }
    assert both.defaults.to_pydict() == {"n": [5]}
    assert both.partition_values.schema.names == []
    assert both.partition_values.num_rows == 2
    statistics = both.find_statistics("p")
    assert statistics.low[0] == statistics.high[0] == b"x"
    assert (statistics.low_known.tolist(), statistics.has_values.tolist()) == ([True, False], [1, -1])
    one = snapshot_of(table, entry("a", spec=1, partition=("x",)), entry("b", spec=1, partition=(None,)))
    assert one.partition_values.to_pydict() == {"p": ["x", None]}
    assert one.partition_values.schema.field("p").type == one.schema.field("p").type
    assert set(one.undefined["/none/a.parquet"]) == {"deep.element.v"}


PARTITION_VALUES: list[tuple[Any, Any, Any]] = [
    ("long", 5, 5),
    ("date", 20_000, dt.date(1970, 1, 1) + dt.timedelta(days=20_000)),
    ("time", 61_000_000, dt.time(0, 1, 1)),
    ("timestamp", 1_000_000, dt.datetime(1970, 1, 1, 0, 0, 1)),
    ("timestamptz", 1_000_000, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
    ("decimal(9, 2)", decimal.Decimal("-1.50"), decimal.Decimal("-1.50")),
    ("uuid", uuid.UUID(int=7), uuid.UUID(int=7)),
    ("double", 0.5, 0.5),
    ("float", 0.5, 0.5),
    ("boolean", True, True),
    ("string", "é=ü", "é=ü"),
    ("binary", b"\0", b"\0"),
    ("fixed[2]", b"ab", b"ab"),
]


@pytest.mark.parametrize(("kind", "stored", "value"), PARTITION_VALUES)
def test_partition_values_of_every_type(tmp_path: Path, kind: str, stored: Any, value: Any) -> None:
    spec = [{"source-id": 1, "field-id": 1000, "name": "other", "transform": "identity"}]
    table = HandTable(tmp_path / uuid.uuid4().hex, [[field(1, "a b", kind)]], [(), spec])
    given = snapshot_of(table, entry("a", spec=1, partition=(stored,)), entry("b", spec=1, partition=(None,)))
    assert given.partition_values.to_pydict() == {"a b": [value, None]}
    assert given.partition_values.schema == given.schema
    mixed = snapshot_of(
        table, entry("a", spec=1, partition=(stored,)), entry("b", spec=1, partition=(None,)), entry("c")
    )
    statistics = mixed.find_statistics("a b")
    assert statistics.low[0] == statistics.high[0]
    assert statistics.low_known.tolist() == statistics.high_known.tolist() == [True, False, False]
    assert (statistics.has_values.tolist(), statistics.has_nulls.tolist()) == ([1, 0, -1], [0, 1, -1])


def test_counts_of_nulls(tmp_path: Path) -> None:
    """Of ten rows; counts that contradict each other say nothing."""
    table = HandTable(tmp_path / "t", [NESTED])
    cases = [(10, 0, 1, 0), (10, 10, 0, 1), (10, 3, 1, 1), (None, 0, 1, 0), (None, 10, 0, 1), (9, 0, -1, -1),
             (10, 11, -1, -1), (10, -1, -1, -1), (10, None, -1, -1), (None, None, -1, -1)]  # fmt: skip
    entries = []
    for number, (values, nulls, _, _) in enumerate(cases):
        counts = {"values": values, "nulls": nulls}
        metrics = {key: dict.fromkeys((1, 3), count) for key, count in counts.items() if count is not None}
        entries.append(entry(f"{number:02}", metrics=metrics))
    snapshot = snapshot_of(table, *entries)
    statistics = snapshot.find_statistics("id")
    assert list(zip(statistics.has_values.tolist(), statistics.has_nulls.tolist(), strict=True)) == [
        case[2:] for case in cases
    ]
    nested = snapshot.find_statistics("st.x")  # not all writers count the rows in which the struct is null
    assert nested.has_nulls.tolist() == [-1] * len(cases)
    assert nested.has_values.tolist() == [-1, 0, *([-1] * 8)]
    for name in ("st", "li", "ma", "li.element.q", "st.y.z", "none", "ma.key"):
        assert snapshot.find_statistics(name) is None


def packed(value: Any, form: str) -> bytes:
    return np.array(value, form).tobytes()


DAY = 86_400_000_000
BOUNDS: list[tuple[pa.DataType, list[bytes | None], list[Any]]] = [
    (pa.int32(), [packed(-5, "<i4"), packed(-5, "<i8"), b"", None, b"\1"], [-5, None, None, None, None]),
    (pa.int64(), [packed(-5, "<i4"), packed(-5, "<i8"), b"abc"], [-5, -5, None]),
    (pa.float32(), [packed(1.5, "<f4"), packed(1.5, "<f8"), packed(math.nan, "<f4")], [1.5, None, None]),
    (pa.float64(), [packed(1.5, "<f4"), packed(-0.0, "<f8"), packed(math.nan, "<f4")], [1.5, 0.0, None]),
    (pa.bool_(), [b"\0", b"\1", b"", b"\0\0"], [False, True, None, None]),
    (pa.decimal128(9, 2), [b"\xff", b"\x00\x80", b"", b"\0" * 16, b"\0" * 17], [-1, 128, None, 0, None]),
    (pa.date32(), [packed(7, "<i4"), packed(7, "<i8")], [7, None]),
    (pa.timestamp("us"), [packed(7, "<i8"), packed(2, "<i4"), b"abc"], [7, 2 * DAY, None]),
    (pa.timestamp("ns"), [packed(-2, "<i4"), packed(2**31 - 1, "<i4")], [-2000 * DAY, None]),
    (pa.timestamp("us", "UTC"), [packed(7, "<i8"), packed(2, "<i4")], [7, None]),
    (pa.time64("us"), [packed(7, "<i8"), packed(2, "<i4")], [7, None]),
    (pa.large_string(), [b"", "é".encode(), None], [b"", "é".encode(), None]),
    (pa.large_binary(), [b"\xff", None], [b"\xff", None]),
    (pa.binary(5), [b"ab", b"abcde"], [b"ab", b"abcde"]),
    (pa.uuid(), [b"a" * 16, b"a" * 15], [b"a" * 16, None]),
]


@pytest.mark.parametrize(("arrow", "stored", "expected"), BOUNDS)
def test_bounds_of_every_type(arrow: pa.DataType, stored: list[bytes | None], expected: list[Any]) -> None:
    values, known = decode_bounds(pa.array(stored, pa.binary()), from_arrow(arrow))
    assert [value if is_known else None for value, is_known in zip(values.tolist(), known, strict=True)] == expected
    none, nothing = decode_bounds(pa.array([], pa.binary()), from_arrow(arrow))
    assert len(none) == len(nothing) == 0


def test_bounds_in_the_wrong_order_say_nothing(tmp_path: Path) -> None:
    table = HandTable(tmp_path / "t", [[field(1, "id", "long"), field(2, "s", "string")]])
    metrics = {"lower": {1: packed(5, "<i8"), 2: b"b"}, "upper": {1: packed(4, "<i8"), 2: b"a"}}
    good = {"lower": {1: packed(5, "<i8"), 2: b"b"}, "upper": {1: packed(5, "<i8")}}
    snapshot = snapshot_of(table, entry("a", metrics=metrics), entry("b", metrics=good))
    for name, high in (("id", [False, True]), ("s", [False, False])):
        statistics = snapshot.find_statistics(name)
        assert statistics.low_known.tolist() == [False, True]
        assert statistics.high_known.tolist() == high


def test_metadata_that_contradicts_itself(tmp_path: Path) -> None:
    table = HandTable(tmp_path / "t", [NESTED])
    for entries, problem in (
        ([entry("a"), entry("a")], "a.parquet is listed twice"),
        ([entry("a"), Entry("/none/a.parquet", 1, 1)], "a.parquet is listed twice"),
        ([entry("a", status=7)], "an entry of unknown status 7"),
        ([entry("a", file_format="orc")], "a.parquet is not a Parquet file"),
    ):
        with pytest.raises(ParquetBloomError, match=problem):
            snapshot_of(table, *entries)
    assert snapshot_of(table, entry("a", status=2)).files == []
    table.metadata["schemas"][0]["fields"][0]["type"] = "no type"
    with pytest.raises(StorageError, match="cannot read the Iceberg table"):
        iceberg(table.write_metadata(), outside=True).read_snapshot()


# Bounds in Iceberg manifests that were cut and not rounded up: of columns, and of the paths that deletes name


pytest.importorskip("pyiceberg")


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.binary()])
def test_bounds_of_columns_that_are_cut(arrow_type: pa.DataType) -> None:
    """The second file's bound is of its partition, which is never cut; the third one's is short."""
    upper = pa.array([b"k" * 16, b"k" * 16, b"k" * 5, None], pa.binary())
    lower = pa.array([b"k" * 16 + b"a", b"k" * 16, b"k", None], pa.binary())
    unknown = np.full(4, -1, np.int8)
    is_exact = np.array([False, True, False, False])
    made = iceberg_statistics._make_statistics(from_arrow(arrow_type), lower, upper, is_exact, unknown, unknown)

    def possible(node: Any) -> list[bool]:
        predicate = PruningPredicate(node)
        return predicate.possible(predicate.decide_all({"a": made}, 4)).tolist()  # type: ignore[no-any-return]

    text = "k" * 16
    literal = text if pa.types.is_string(arrow_type) else text.encode()
    longer = literal + literal[:1]
    assert possible(Equal("a", longer)) == [True, False, False, True]
    assert possible(Compare("a", ">", longer)) == [True, False, False, True]
    assert possible(NotEqual("a", literal)) == [True, False, True, True]


@pytest.mark.parametrize("cut", [12, 22, 99])
def test_bounds_of_paths_that_are_cut(cut: int) -> None:
    path = "s3://bucket/warehouse/data/a.parquet"
    fields: dict[str, Any] = dict.fromkeys(DeleteFile.__annotations__)
    file = DeleteFile(**fields)
    file = file._replace(lower=path.encode()[:cut], upper=path.encode()[:cut])
    plain = iceberg_deletes.without_scheme(path)
    assert iceberg_deletes.may_name(file, path)
    assert not iceberg_deletes.may_name(file, "s3://other/warehouse/data/a.parquet")
    assert iceberg_deletes.find_target(file, {plain}) == (plain if cut == 99 else None)


# Iceberg tables in object stores: the settings of pyiceberg's catalog are those of the data files


pytest.importorskip("pyiceberg")


def test_settings_are_translated() -> None:
    assert translate_settings({"type": "sql", "uri": "x"}) is None
    given = {"s3.endpoint": "http://127.0.0.1:1", "client.region": "eu-west-1", "s3.region": "us-east-1"}
    expected = {"aws_endpoint": "http://127.0.0.1:1", "aws_region": "us-east-1", "allow_http": "true"}
    assert translate_settings(given) == expected


@pytest.mark.ci
def test_a_table_of_a_catalog_in_s3(s3: Any, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    options = s3.storage_options
    properties = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": s3.url("warehouse"),
        "s3.endpoint": options["aws_endpoint"],
        "s3.access-key-id": options["aws_access_key_id"],
        "s3.secret-access-key": options["aws_secret_access_key"],
        "s3.region": options["aws_region"],
    }
    catalog = SqlCatalog("stores", **properties)
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64())]))
    for start in (0, 100):
        table.append(pa.table({"id": range(start, start + 100)}))
    source = parquet_bloom.iceberg("db.events", catalog=catalog)
    assert parquet_bloom.read_table(source, "id = 150").to_pylist() == [{"id": 150}]
    assert parquet_bloom.prune(source, "id = 150").unopened_by == {"table": 1}
    assert parquet_bloom.dataset(table).count_rows() == 200
