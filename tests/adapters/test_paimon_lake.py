"""Test Paimon tables against pypaimon's own reader: rows of each kind of table, and what is left to pypaimon."""

from __future__ import annotations

import datetime
import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parquet_bloom
from parquet_bloom.errors import ManagedTableError, ParquetBloomError, UnknownColumnError

pypaimon = pytest.importorskip("pypaimon", reason="tools/adapters.sh installs it")

from pypaimon.schema.data_types import AtomicType  # noqa: E402
from pypaimon.schema.schema_change import SchemaChange  # noqa: E402
from pypaimon.write.table_delete import TableDeleteByRowId  # noqa: E402

from parquet_bloom.adapters import PaimonLake  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # pypaimon's own

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("day", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("city", pa.string())])),
        ("labels", pa.map_(pa.string(), pa.int32())),
        ("at", pa.timestamp("us")),
        ("born", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
    ]
)
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("kind", pa.string())])
PREDICATES: list[tuple[str | None, Callable[[dict[str, Any]], bool]]] = [
    (None, lambda row: True),
    ("id = 17", lambda row: row["id"] == 17),
    ("id IN (3, 17, 44, 999) AND name <> 'n3'", lambda row: row["id"] in (3, 17, 44) and row["name"] != "n3"),
    ("id >= 40 OR name = 'n1'", lambda row: row["id"] >= 40 or row["name"] == "n1"),
    ("name IS NULL", lambda row: row["name"] is None),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    made = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse ü")})
    made.create_database("db", False)
    return made


def create(catalog: Any, schema: pa.Schema, **settings: Any) -> Any:
    catalog.create_table("db.t", pypaimon.Schema.from_pyarrow_schema(schema, **settings), False)
    return catalog.get_table("db.t")


def commit(table: Any, rows: pa.Table | list[Any]) -> None:
    """Write rows, or commit what was written."""
    builder = table.new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    if isinstance(rows, pa.Table):
        writer.write_arrow(rows)
        rows = writer.prepare_commit()
    committer.commit(rows)
    writer.close()
    committer.close()


def make_rows(start: int, number: int = 15) -> pa.Table:
    ids = range(start, start + number)
    return pa.table(
        {
            "id": ids,
            "name": [None if id % 7 == 0 else f"n{id}" for id in ids],
            "score": [float("nan") if id % 5 == 0 else id / 4 for id in ids],
            "day": [("2026-01-01", "b=/ %", None)[id % 3] for id in ids],
            "tags": [[f"t{id % 4}", None] if id % 4 else None for id in ids],
            "place": [{"x": id, "city": f"c{id}"} if id % 6 else None for id in ids],
            "labels": [[("a", id)] for id in ids],
            "at": [datetime.datetime(2026, 1, 1, 0, 0, 0, id) for id in ids],
            "born": [datetime.date(2000, 1, 1) + datetime.timedelta(id) for id in ids],
            "price": [Decimal(id) / 4 for id in ids],
            "raw": [b"\0" * (id % 3) for id in ids],
        },
        SCHEMA,
    )


def make_keyed(ids: list[int], name: str, kind: str = "+I") -> pa.Table:
    return pa.table({"id": ids, "name": [name] * len(ids), "kind": [kind] * len(ids)}, KEYED)


def read_by_paimon(table: Any) -> pa.Table:
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def check(table: Any, is_left: bool | None = False) -> PaimonLake:
    """Compare the rows of all predicates with pypaimon's; and whether all, some (None) or no splits are left to it."""
    lake, rows = PaimonLake(table), read_by_paimon(table).to_pylist()
    for where, is_kept in PREDICATES:
        assert order(lake.read(where).to_pylist()) == order([row for row in rows if is_kept(row)]), where
    assert (bool(lake.left), bool(lake.files)) == ((True, True) if is_left is None else (is_left, not is_left))
    return lake


def test_append_tables(catalog: Any) -> None:
    table = create(catalog, SCHEMA)
    assert PaimonLake(table).read("id = 5").equals(table_of([]))
    lake = PaimonLake(table)
    for start in (0, 15, 30):
        commit(table, make_rows(start))
        assert lake.read().num_rows == start + 15  # of the latest snapshot, each time
    assert len(check(table).files) == 3
    assert lake.read("place.x = 17", ["place.city", "id"]).to_pylist() == [{"place": {"city": "c17"}, "id": 17}]
    assert lake.read("labels['a'] = 20", ["id"]).to_pylist() == [{"id": 20}]
    whole = lake.dataset()
    assert whole.schema == lake.schema
    assert whole.to_table().num_rows == 45
    assert whole.scan("id = 3").plan().selected.keys() <= set(lake.files)
    with pytest.raises(UnknownColumnError, match="no such column"):
        lake.read("ids = 3")
    with pytest.raises(UnknownColumnError, match="no such column"):
        lake.read("id = 3", ["nam"])


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("keys", [["day"], ["born"], ["day", "born"], ["id"]])
def test_partitions_are_those_of_the_metadata(catalog: Any, keys: list[str]) -> None:
    table = create(catalog, SCHEMA, partition_keys=keys)
    commit(table, make_rows(0))
    commit(table, make_rows(15, 5))
    lake = check(table)
    rows = [row for row in read_by_paimon(table).to_pylist() if row["day"] is None]
    assert order(lake.read("day IS NULL").to_pylist()) == order(rows)
    assert lake.read("day = 'b=/ %' AND born < '2000-01-12'").num_rows == 4


def test_partitions_of_other_types_are_left(catalog: Any) -> None:
    table = create(catalog, SCHEMA, partition_keys=["at"])
    commit(table, make_rows(0, 5))
    assert "other values than texts" in check(table, is_left=True).left[0]


def test_key_tables_are_merged_by_pypaimon(catalog: Any) -> None:
    table = create(catalog, KEYED, primary_keys=["id"], options={"bucket": "2", "rowkind.field": "kind"})
    commit(table, make_keyed(list(range(60)), "old"))
    check(table)  # each key is in one file
    commit(table, make_keyed([3, 17], "new"))
    commit(table, make_keyed([17, 18, 44], "gone", "-D"))
    lake = check(table, is_left=True)
    assert "of its files are merged by their key" in lake.left[0]
    assert lake.read("id IN (3, 17, 18, 19)", ["id", "name"]).sort_by("id").to_pylist() == [
        {"id": 3, "name": "new"},
        {"id": 19, "name": "old"},
    ]
    assert lake.read("id = 3 AND name = 'old'").num_rows == 0  # which was replaced
    assert lake.read("name = 'old'").num_rows == 56
    with pytest.raises(ParquetBloomError, match=r"splits are for pypaimon to read \(the rows of .*PaimonLake\.read"):
        lake.dataset()


def test_key_tables_of_which_some_splits_are_merged(catalog: Any) -> None:
    options = {"bucket": "1", "source.split.target-size": "1b", "source.split.open-file-cost": "1b"}
    table = create(catalog, KEYED, primary_keys=["id"], options=options)
    commit(table, make_keyed(list(range(20)), "first"))
    commit(table, make_keyed(list(range(40, 60)), "second"))
    commit(table, make_keyed([41, 44], "third"))
    lake = check(table, is_left=None)
    assert len(lake.files) == 1
    assert lake.read("id IN (5, 44)", ["name"]).to_pylist() == [{"name": "first"}, {"name": "third"}]


@pytest.mark.parametrize("engine", ["partial-update", "first-row", "aggregation"])
def test_other_merge_engines(catalog: Any, engine: str) -> None:
    options = {"bucket": "1", "merge-engine": engine}
    table = create(catalog, KEYED, primary_keys=["id"], options=options)
    commit(table, make_keyed(list(range(50)), "old"))
    commit(table, make_keyed(list(range(10, 20)), "new"))
    lake, rows = PaimonLake(table), read_by_paimon(table).to_pylist()
    assert order(lake.read().to_pylist()) == order(rows)
    assert order(lake.read("id = 17").to_pylist()) == order([row for row in rows if row["id"] == 17])


def test_deletion_vectors(catalog: Any) -> None:
    options = dict.fromkeys(("data-evolution.enabled", "row-tracking.enabled", "deletion-vectors.enabled"), "true")
    written = create(catalog, SCHEMA, options=options)
    for start in (0, 15, 30):
        commit(written, make_rows(start))
    check(written, is_left=True)
    # pypaimon deletes rows of such tables alone; the files of this one are whole, as those of all others are.
    table = written.copy({"data-evolution.enabled": "false"})
    lake = check(table)
    commit(written, TableDeleteByRowId(written).delete([3, 17, 18, 44]))
    assert lake.read("id IN (3, 4, 17, 18, 44)", ["id"]).to_pylist() == [{"id": 4}]
    lake = check(table)
    assert len(lake.files) == 3
    assert lake.read().num_rows == 41
    dataset = pickle.loads(pickle.dumps(lake.dataset()))  # as Ray sends it
    assert dataset.count_rows() == 41
    assert dataset.locate("id", [17, 19])["key"].to_pylist() == [19]
    commit(written, TableDeleteByRowId(written).delete(list(range(15))))
    assert lake.read().num_rows == 27


def test_columns_that_were_renamed_added_dropped_and_changed(catalog: Any) -> None:
    table = create(catalog, SCHEMA)

    def change(*changes: Any) -> Any:
        for one in changes:
            catalog.alter_table("db.t", [one], False)
        return catalog.get_table("db.t")

    commit(table, make_rows(0))
    table = change(SchemaChange.add_column("extra", AtomicType("INT")))
    rows = make_rows(15)
    commit(table, rows.append_column("extra", pa.array(range(15), pa.int32())))
    lake = check(table)
    assert lake.read("extra = 2", ["id"]).to_pylist() == [{"id": 17}]
    assert lake.read("extra IS NULL").num_rows == 15
    assert lake.dataset().to_table().num_rows == 30  # files name the columns alike
    table = change(SchemaChange.rename_column("score", "points"))
    lake = check(table)
    assert lake.read("points = 4.25", ["id", "points"]).to_pylist() == [{"id": 17, "points": 4.25}]
    table = change(SchemaChange.drop_column("price"), SchemaChange.add_column("price", AtomicType("DECIMAL(10, 2)")))
    lake = check(table)
    assert lake.read("price IS NULL").num_rows == 30  # another column than the one that files have
    columns = {**make_rows(30).to_pydict(), "extra": [0] * 15}
    columns["points"] = columns.pop("score")
    commit(table, pa.table(columns, lake.schema))
    lake = check(table)
    assert lake.read("price IS NOT NULL").num_rows == 15
    with pytest.raises(ParquetBloomError, match="a column was renamed"):
        lake.dataset()
    table = change(SchemaChange.update_column_type("extra", AtomicType("BIGINT")))
    assert any("its column extra had the type INT" in reason for reason in check(table, is_left=True).left)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_of_other_formats_are_left(catalog: Any, file_format: str) -> None:
    schema = pa.schema([field for field in SCHEMA if field.name not in ("labels", "tags", "place")])
    table = create(catalog, schema, options={"file.format": file_format})
    commit(table, make_rows(0).select(schema.names))
    assert check(table, is_left=True).left == [PaimonLake(table).left[0]]
    assert f".{file_format} is not a Parquet file" in PaimonLake(table).left[0]
    commit(table.copy({"file.format": "parquet"}), make_rows(15).select(schema.names))
    assert PaimonLake(table).read("id IN (3, 17)").num_rows == 2  # of one file each


def test_snapshots_and_rollbacks(catalog: Any) -> None:
    table = create(catalog, SCHEMA)
    for start in (0, 15, 30):
        commit(table, make_rows(start))
    lake = PaimonLake(table)
    assert lake.read("id = 40").num_rows == 1
    assert PaimonLake(table.copy({"scan.snapshot-id": "1"})).read().num_rows == 15
    times = [table.snapshot_manager().get_snapshot_by_id(number).time_millis for number in (1, 2)]
    between = table.copy({"incremental-between-timestamp": "{},{}".format(*times)})
    assert "is read by its option incremental-between-timestamp" in PaimonLake(between).left[0]
    assert order(PaimonLake(between).read().to_pylist()) == order(read_by_paimon(between).to_pylist())
    table.rollback_to(2)
    assert lake.read("id = 40").num_rows == 0
    commit(table, make_rows(100))  # snapshot 3 again
    assert lake.read("id IN (40, 101)", ["id"]).to_pylist() == [{"id": 101}]


def test_an_index_of_the_files(catalog: Any, tmp_path: Path) -> None:
    table = create(catalog, SCHEMA)
    ids = random.Random(5).sample(range(10**6), 120)
    for start in range(0, 120, 15):
        rows = make_rows(start)
        commit(table, rows.set_column(0, "id", pa.array(ids[start : start + 15])))
    index = tmp_path / "index"
    with parquet_bloom.LakeIndex.create(index, ["id"]) as made:
        made.append(PaimonLake(table).files)
    lake = PaimonLake(table, index=index)
    plan = lake.dataset().scan(f"id = {ids[70]}").plan()
    assert len(plan.selected) == 1
    assert lake.read(f"id = {ids[70]}", ["name"]).to_pylist() == [{"name": None}]
    rows = make_rows(120)  # a file that the index does not know
    commit(table, rows.set_column(0, "id", pa.array(range(10**7, 10**7 + 15))))
    assert lake.read(f"id IN ({10**7 + 1}, {ids[3]})", ["id"]).num_rows == 2


def test_an_index_knows_columns_by_the_names_of_files(catalog: Any, tmp_path: Path) -> None:
    table = create(catalog, SCHEMA)
    commit(table, make_rows(0))
    index = tmp_path / "index"
    with parquet_bloom.LakeIndex.create(index, ["name", "raw"]) as made:
        made.append(PaimonLake(table).files)
    for change in (
        SchemaChange.drop_column("raw"),
        SchemaChange.rename_column("name", "raw"),
        SchemaChange.add_column("name", AtomicType("STRING")),
    ):
        catalog.alter_table("db.t", [change], False)
    table = catalog.get_table("db.t")
    rows = make_rows(15).to_pydict()
    commit(table, pa.table({**rows, "raw": rows["name"]}, PaimonLake(table).schema))
    with parquet_bloom.LakeIndex.open(index) as opened:
        lake = PaimonLake(table, index=opened)
        assert lake.read("raw IN ('n3', 'n17')", ["id"]).sort_by("id").to_pylist() == [{"id": 3}, {"id": 17}]
        assert lake.read("name IN ('n3', 'n17')", ["id"]).to_pylist() == [{"id": 17}]
        assert lake.read("name IS NULL").num_rows == 17


def test_tables_in_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    server_module = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint, settings = f"http://{host}:{port}", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        for name, value in (settings | {"AWS_DEFAULT_REGION": "us-east-1"}).items():
            monkeypatch.setenv(name, value)
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="lake")
        access = {"s3.access-key": "a", "s3.secret-key": "b", "s3.region": "us-east-1"}
        catalog = pypaimon.CatalogFactory.create({"warehouse": "s3://lake/house", "s3.endpoint": endpoint, **access})
        catalog.create_database("db", False)
        table = create(catalog, SCHEMA, partition_keys=["born"])
        commit(table, make_rows(0, 3))
        assert "without storage_options" in check(table, is_left=True).left[0]
        options = {"aws_endpoint": endpoint, "allow_http": "true"}
        lake = PaimonLake(table, storage_options=options)
        assert lake.left == []
        assert lake.read("id = 2", ["id", "name"]).to_pylist() == [{"id": 2, "name": "n2"}]
        with pytest.raises(ManagedTableError, match="belongs to the Paimon table"):
            parquet_bloom.dataset(str(table.table_path), storage_options=options)
    finally:
        server.stop()


def test_what_is_given(catalog: Any, tmp_path: Path) -> None:
    with pytest.raises(ParquetBloomError, match=r"a Paimon table is one of pypaimon's, .*not str"):
        PaimonLake("warehouse/db.db/t")
    table = create(catalog, SCHEMA)
    commit(table, make_rows(0))
    lake = PaimonLake(table)
    with pytest.raises(ParquetBloomError, match=r"append PaimonLake\.files"):
        parquet_bloom.LakeIndex.create(tmp_path / "index", ["id"], lake=lake.dataset().table)
    with pytest.raises(ParquetBloomError, match="Paimon"):
        parquet_bloom.embed_table(lake.dataset().table, ["id"])
    with pytest.raises(ParquetBloomError, match="columns must be a list"):
        lake.read("id = 3", "id")
    assert repr(lake) == "<PaimonLake of 'db.t'>"
