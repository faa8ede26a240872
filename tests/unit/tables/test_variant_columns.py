"""Delta and Iceberg tables with Variants: they are read by other columns, and changed; Variants are shown whole."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.engines.duckdb_tables import ask
from support.writers.delta_log import add, beginning, column, commit, inline_vector, struct_of, to_z85, write_checkpoint
from support.writers.iceberg_tables import Entry, HandTable

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, UnknownColumnError, UnreadableColumnError, UnsupportedTypeError

duckdb = pytest.importorskip("duckdb")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")

ROWS = 10  # of a file
STORED = pa.struct([pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)])
SHOWN = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
FEATURES = ["variantType", "variantShredding", "deletionVectors"]
ON = {"delta.enableDeletionVectors": "true"}
SHREDDED = r"shred.*\.parquet: column '(v|x)': its Variants are shredded.*variant='json'"
VALUES = [None if n == 3 else {"metadata": b"\1\0\0", "value": bytes([0x0C, n])} for n in range(ROWS)]
"""The integers from 0 on, and a null."""


def write_shredded(path: Path, start: int, filler: int = 0, fields: str = "") -> None:
    """Write objects with fields of two types, and a text of so many bytes that nothing compresses."""
    text = base64.b64encode(np.random.default_rng(start).bytes(filler)).decode()
    rows = f"""SELECT i id, ('{{"a": ' || i || ', "b": "{text}' || i || '"}}')::JSON::VARIANT v"""
    duckdb.sql(f"COPY ({rows} FROM range({start}, {start + ROWS}) t(i)) TO '{path}' (FORMAT parquet{fields})")
    assert "typed_value" in str(pq.read_schema(path).field("v").type)


def describe(path: Path, low: int, **members: Any) -> dict[str, Any]:
    """Return the add action of a file whose ids begin with `low`."""
    statistics = {"numRecords": ROWS, "minValues": {"id": low}, "maxValues": {"id": low + ROWS - 1}}
    return add(path.name, path.stat().st_size, statistics | {"nullCount": {"id": 0}}, **members)


def make_table(root: Path, names: Mapping[str, str] | None = None, filler: int = 0) -> Path:
    """Make a Delta table of three files: with whole Variants, with shredded ones, and of the time before the column."""
    root.mkdir()
    plain, shredded, old = (root / f"{name}.parquet" for name in ("plain", "shred", "old"))
    ids = [pa.array(range(low, low + ROWS), pa.int64()) for low in (0, ROWS, 2 * ROWS)]
    pq.write_table(pa.table({"id": ids[0], "v": pa.array(VALUES, STORED)}), plain, row_group_size=ROWS // 2)
    write_shredded(shredded, ROWS, filler)
    pq.write_table(pa.table({"id": ids[2]}), old)
    files = [describe(file, low) for file, low in ((plain, 0), (shredded, ROWS), (old, 2 * ROWS))]
    fields = [column("id", "long"), column("v", "variant")]
    commit(root, 0, [*beginning(fields, features=FEATURES, configuration=ON), *files])
    return root


def list_ids(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


def show(rows: pa.Table) -> dict[int, Any]:
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def read_all(root: Path, where: str = f"id < {ROWS} OR id >= {2 * ROWS}") -> dict[int, Any]:
    return show(parquet_bloom.read_table(parquet_bloom.delta(root), where))


BEFORE = dict(enumerate(VALUES)) | dict.fromkeys(range(2 * ROWS, 3 * ROWS))


def test_each_file_is_read_by_its_other_columns_and_shown_where_it_can_be(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t")
    table = parquet_bloom.delta(root)
    dataset = parquet_bloom.dataset(table)
    assert dataset.schema.field("v").type == SHOWN
    assert list_ids(dataset.to_table(columns=["id"])) == [*range(3 * ROWS)]
    assert dataset.count_rows() == 3 * ROWS
    assert read_all(root) == BEFORE
    assert show(dataset.get("id", [4, 3])) == {4: VALUES[4], 3: None}
    assert dataset.get("id", [14], columns=["id"])["id"].to_pylist() == [14]
    assert list_ids(parquet_bloom.read_table(table, "v IS NULL AND id < 10")) == [3]
    assert list_ids(parquet_bloom.read_table(table, "v IS NOT NULL AND id < 10")) == [0, 1, 2, *range(4, ROWS)]
    assert list_ids(parquet_bloom.read_table(table, "v IS NULL", ["id"])) == [3, *range(2 * ROWS, 3 * ROWS)]
    for ask_for in (
        dataset.to_table,
        lambda: [*dataset.to_batches()],
        lambda: parquet_bloom.read_table(table, "id = 14"),
        lambda: dataset.get("id", [14]),
        lambda: [*dataset.scan("id IN (4, 14)").to_reader()],
    ):
        with pytest.raises(UnreadableColumnError, match=SHREDDED) as caught:
            ask_for()
        assert len(str(caught.value).splitlines()) == 1


def test_no_row_is_no_error(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    rows = """SELECT i * 2 id, ('{"a": 1}')::JSON::VARIANT v FROM range(10) t(i)"""
    duckdb.sql(f"COPY ({rows}) TO '{root}/shred.parquet'")
    fields = [column("id", "long"), column("v", "variant")]
    commit(root, 0, [*beginning(fields, features=FEATURES), describe(root / "shred.parquet", 0)])
    assert parquet_bloom.read_table(parquet_bloom.delta(root), "id = 5").schema.field("v").type == SHOWN
    with pytest.raises(UnreadableColumnError, match=SHREDDED):
        parquet_bloom.read_table(parquet_bloom.delta(root), "id = 6")


def test_a_lake_without_a_table(tmp_path: Path) -> None:
    """Its schema is that of the files that it has had: what is shredded in a later one has no place there."""
    pq.write_table(pa.table({"id": range(ROWS), "v": pa.array(VALUES, STORED)}), tmp_path / "plain.parquet")
    dataset = parquet_bloom.dataset(tmp_path)
    write_shredded(tmp_path / "shred.parquet", ROWS)
    assert dataset.get("id", [14], columns=["id"])["id"].to_pylist() == [14]
    with pytest.raises(UnreadableColumnError, match=SHREDDED):
        dataset.get("id", [14])
    rows = parquet_bloom.dataset(tmp_path).to_table(filter=pc.field("id") == 14)
    assert rows["v"].to_pylist() == [pq.read_table(tmp_path / "shred.parquet")["v"][4].as_py()]


def test_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = parquet_bloom.scan_polars(parquet_bloom.delta(make_table(tmp_path / "t")))
    chosen = frame.filter(polars.col("id").is_in([3, 4])).sort("id")
    assert chosen.collect()["v"].to_list() == [None, VALUES[4]]
    assert frame.filter(polars.col("id") == 14).select("id").collect()["id"].to_list() == [14]
    with pytest.raises(UnreadableColumnError, match=SHREDDED):
        frame.filter(polars.col("id") == 14).collect()


@pytest.mark.parametrize("name", ["v.value", "v.metadata", "v.typed_value.a.typed_value"])
def test_parts_are_no_columns(tmp_path: Path, name: str) -> None:
    """What a file has in them depends on how it is shredded: for a row group without such a value there may be one."""
    root = make_table(tmp_path / "t")
    table, dataset = parquet_bloom.delta(root), parquet_bloom.dataset(root)
    for ask_for in (
        lambda: parquet_bloom.read_table(table, f"{name} IS NULL", ["id"]),
        lambda: parquet_bloom.prune(table, f"{name} = X'0C01'"),
        lambda: parquet_bloom.read_table(table, "id = 4", [name]),
        lambda: dataset.get("id", [4], columns=[name]),
    ):
        with pytest.raises(UnknownColumnError, match=f"column '{name}': a part of a Variant is no column: name 'v'"):
            ask_for()
    for embedded in (name, "v"):
        with pytest.raises(UnsupportedTypeError, match=f"column '{embedded}': a Variant gets no filter"):
            parquet_bloom.embed_table(root, [embedded])
    # A struct of the user's own may be called so.
    own = tmp_path / "own"
    deltalake.write_deltalake(own, pa.table({"id": [1], "v": [{"metadata": b"m", "value": b"\x0c\x01"}]}))
    found = parquet_bloom.read_table(parquet_bloom.delta(own), "v.value = X'0C01'", ["id", "v.metadata"])
    assert found.to_pylist() == [{"id": 1, "v": {"metadata": b"m"}}]


def test_other_columns_cost_what_they_cost_without_variants(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t", filler=100_000)
    assert (root / "shred.parquet").stat().st_size > 1_000_000
    for where, columns in (("id IN (4, 14)", ["id"]), ("id >= 14", ["id"]), (None, ["id"])):
        scan = parquet_bloom.dataset(parquet_bloom.delta(root)).scan(where, columns)
        assert scan.to_arrow().num_rows > 0
        assert scan.plan().data_bytes_read + scan.plan().bytes_read < 300_000  # of footers above all


def test_rows_are_counted_by_another_column(tmp_path: Path) -> None:
    """Of a file that has none of the columns that are read."""
    root = tmp_path / "t"
    root.mkdir()
    duckdb.sql(f"COPY (SELECT repeat('{os.urandom(500_000).hex()}', 1)::VARIANT v, 1::BIGINT id) TO '{root}/a.parquet'")
    fields = [column("v", "variant"), column("id", "long"), column("later", "long")]
    commit(root, 0, [*beginning(fields, features=FEATURES), add("a.parquet", (root / "a.parquet").stat().st_size)])
    scan = parquet_bloom.dataset(parquet_bloom.delta(root)).scan(None, ["later"])
    assert scan.to_arrow()["later"].to_pylist() == [None]
    assert scan.plan().data_bytes_read < 100_000


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_ends_at_the_variant(tmp_path: Path, mode: str) -> None:
    """What is in its group has names and no ids. There are partitions, deleted rows, and a column that was dropped."""
    root = tmp_path / "t"
    root.mkdir()
    ids = {"PARQUET:field_id": "1"}, {"PARQUET:field_id": "2"}, {"PARQUET:field_id": "9"}
    schema = pa.schema([
        pa.field("c-1", pa.int64(), metadata=ids[0]), pa.field("c-2", STORED, metadata=ids[1]),
        pa.field("v", pa.int64(), metadata=ids[2]),
    ])  # fmt: skip
    numbers = pa.array(range(ROWS), pa.int64())
    pq.write_table(pa.table([numbers, pa.array(VALUES, STORED), numbers], schema=schema), root / "plain.parquet")
    rows = 'SELECT i "c-1", (\'{"a": \' || i || \'}\')::JSON::VARIANT "c-2" FROM range(10, 20) t(i)'
    duckdb.sql(f"COPY ({rows}) TO '{root}/shred.parquet' (FIELD_IDS {{'c-1': 1, 'c-2': 2}})")
    part = {"partitionValues": {"c-3": "x"}}
    files = [
        describe(root / "plain.parquet", 0, deletionVector=inline_vector([4, 5]), **part),
        describe(root / "shred.parquet", ROWS, **part),
    ]
    fields = [column("id", "long", 1), column("v", "variant", 2), column("p", "string", 3)]
    settings = ON | {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "9"}
    commit(root, 0, [*beginning(fields, ["p"], settings, [*FEATURES, "columnMapping"]), *files])
    expected = {n: value for n, value in enumerate(VALUES) if n not in (4, 5)}
    assert read_all(root, "p = 'x' AND id < 10") == expected
    assert list_ids(parquet_bloom.read_table(parquet_bloom.delta(root), "p = 'x'", ["id"])) == [
        *expected,
        *range(10, 20),
    ]
    with pytest.raises(UnreadableColumnError, match=SHREDDED):
        read_all(root, "id = 14")
    parquet_bloom.embed_table(root, ["id"])
    assert read_all(root, "id < 10") == expected
    rows = pa.table({"id": [2, 14], "v": pa.array([VALUES[9], VALUES[3]], STORED), "p": ["x", "y"]})
    parquet_bloom.upsert(root, rows, "id")
    assert read_all(root, "id < 10 OR id = 14") == expected | {2: VALUES[9], 14: None}


ELEMENTS = {"type": "array", "elementType": "variant", "containsNull": True}
ENTRIES = {"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True}


def nest(variants: pa.Array) -> dict[str, pa.Array]:
    """Return columns that hold some Variants in structs, lists and maps."""
    offsets = pa.array(range(len(variants) + 1), pa.int32())
    return {
        "s": pa.StructArray.from_arrays([variants], ["v"]),
        "l": pa.ListArray.from_arrays(offsets, variants),
        "m": pa.MapArray.from_arrays(offsets, pa.array(["k"] * len(variants)), variants),
        "d": pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([variants], ["v"])),
    }


def shred(variants: pa.Array) -> pa.Array:
    """Return Variants as a file without the annotation of a Variant may have them that are numbers."""
    numbers = pa.array([None if value is None else value["value"][1] for value in variants.to_pylist()], pa.int8())
    fields = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())]
    parts = [variants.field("metadata"), pa.nulls(len(variants), pa.binary()), numbers]
    return pa.StructArray.from_arrays(
        parts, fields=[*fields, pa.field("typed_value", pa.int8())], mask=variants.is_null()
    )


@pytest.mark.parametrize("name", ["s", "l", "m", "d"])
def test_nested_variants(tmp_path: Path, name: str) -> None:
    root = tmp_path / "t"
    root.mkdir()
    kinds = {"s": struct_of(column("v", "variant")), "l": ELEMENTS, "m": ENTRIES}
    kinds["d"] = ELEMENTS | {"elementType": kinds["s"]}
    variants = pa.array(VALUES, STORED)
    files: list[Any] = []
    expected: dict[int, Any] = {}
    for low, stored in ((0, variants), (ROWS, shred(variants))):
        values = nest(stored)[name]
        path = root / f"{'shred' if low else 'plain'}.parquet"
        pq.write_table(pa.table({"id": pa.array(range(low, low + ROWS), pa.int64()), name: values}), path)
        files.append(describe(path, low))
        expected |= {} if low else dict(enumerate(values.to_pylist()))
    commit(root, 0, [*beginning([column("id", "long"), column(name, kinds[name])], features=FEATURES), *files])
    table = parquet_bloom.delta(root)
    found = parquet_bloom.read_table(table, "id < 10")
    assert dict(zip(found["id"].to_pylist(), found[name].to_pylist(), strict=True)) == expected
    assert list_ids(parquet_bloom.read_table(table, "id >= 8", ["id"])) == [*range(8, 2 * ROWS)]
    with pytest.raises(UnreadableColumnError, match=rf"shred\.parquet: column '{name}': its Variants are shred"):
        parquet_bloom.read_table(table, "id >= 8")
    if name == "s":
        with pytest.raises(UnreadableColumnError, match=r"shred\.parquet"):
            parquet_bloom.read_table(table, "id = 14", ["s.v"])
    # Rows that were read can be written again.
    parquet_bloom.upsert(root, found.slice(0, 5), "id")
    again = parquet_bloom.read_table(table, "id < 10")
    assert dict(zip(again["id"].to_pylist(), again[name].to_pylist(), strict=True)) == expected


BOUND = to_z85(b"\1\0\0\x0c\7\0\0\0")


@pytest.mark.ci
@pytest.mark.parametrize("bound", [BOUND, {"a": 7}, {"value": BOUND}, "", 7, None], ids=str)
@pytest.mark.parametrize("is_checkpoint", [False, True])
def test_statistics_of_variants_are_not_taken_for_others(tmp_path: Path, bound: Any, is_checkpoint: bool) -> None:
    """Writers put the bounds of paths into one Variant, as a text of 85 characters, or a struct in checkpoints."""
    root = make_table(tmp_path / "t")
    actions = [json.loads(line) for line in (root / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    for action in actions[2:]:
        statistics = json.loads(action["add"]["stats"])
        for name in ("minValues", "maxValues"):
            statistics[name]["v"] = bound
        action["add"]["stats"] = json.dumps(statistics | {"nullCount": {"id": 0, "v": 0}})
    commit(root, 0, actions)
    if is_checkpoint:
        write_checkpoint(root, 0, actions, "single")
    snapshot = parquet_bloom.delta(root).read_snapshot()
    assert snapshot.find_statistics("v") is None
    assert snapshot.find_statistics("id") is not None
    assert read_all(root) == BEFORE
    assert list_ids(parquet_bloom.read_table(parquet_bloom.delta(root), "v IS NOT NULL AND id < 5")) == [0, 1, 2, 4]
    assert list_ids(parquet_bloom.read_table(parquet_bloom.delta(root), "id IN (2, 14, 24)", ["id"])) == [2, 14, 24]


def read_actions(root: Path) -> list[dict[str, Any]]:
    """Return the actions of the last commit."""
    return [json.loads(line) for line in max((root / "_delta_log").glob("*.json")).read_text().splitlines()]


@pytest.mark.parametrize("mode", ["hide", "rewrite"])
def test_rows_are_deleted(tmp_path: Path, mode: Any) -> None:
    root = make_table(tmp_path / "t")
    parquet_bloom.embed_table(root, ["id"])
    assert read_all(root) == BEFORE
    deleted = [3, 4, 14, 24]
    report = parquet_bloom.delete(root, deleted, "id", mode=mode)
    assert report.num_rows == 4
    assert read_all(root) == {n: value for n, value in BEFORE.items() if n not in deleted}
    protocol = deltalake.DeltaTable(root).protocol()
    assert protocol.reader_features == protocol.writer_features == FEATURES
    shredded = next(uri for uri in deltalake.DeltaTable(root).file_uris() if "typed_value" in str(pq.read_schema(uri)))
    values = duckdb.sql(f"SELECT id, (v.a)::BIGINT, (v.b)::VARCHAR FROM '{shredded}' ORDER BY id").fetchall()
    assert values == [(n, n, str(n)) for n in range(10, 20) if mode == "hide" or n != 14]


def test_rows_are_replaced(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t")
    other = {"metadata": b"\1\0\0", "value": b"\x0c\x63"}
    rows = pa.table({"id": [2, 5, 14, 40], "v": pa.array([other, None, VALUES[1], VALUES[2]], STORED)})
    parquet_bloom.upsert(root, rows, "id")
    after = BEFORE | {2: other, 5: None, 14: VALUES[1], 40: VALUES[2]}
    assert read_all(root, "id < 10 OR id = 14 OR id >= 20") == after
    (new,) = [
        action["add"] for action in read_actions(root) if "add" in action and "deletionVector" not in action["add"]
    ]
    assert json.loads(new["stats"]) == {
        "numRecords": 4, "minValues": {"id": 2}, "maxValues": {"id": 40}, "nullCount": {"id": 0, "v": 1},
    }  # fmt: skip
    assert pq.read_table(root / new["path"])["v"].to_pylist() == [other, None, VALUES[1], VALUES[2]]
    untagged = pa.array([{"value": None, "metadata": b"\1\0\0"}])
    for values, said in (
        (None, "column 'v': the rows lack this column of the table"),
        (pa.array(["{}"]), "column 'v': a value of the rows does not fit its type struct<metadata: binary, value"),
        (
            untagged.cast(pa.struct([("value", pa.binary()), ("metadata", pa.binary())])),
            r"'v\.value': the rows have a null",
        ),
        (
            pa.array([{"value": b"\0", "metadata": b"\1\0\0", "typed_value": 1}]),
            r"column 'v\.typed_value': only one of",
        ),
    ):
        given = pa.table({"id": [2]} | ({} if values is None else {"v": values}))
        with pytest.raises(ParquetBloomError, match=said):
            parquet_bloom.upsert(root, given, "id")
    assert read_all(root, "id = 2") == {2: other}


def test_an_index_over_other_columns(tmp_path: Path) -> None:
    root = make_table(tmp_path / "t")
    index = parquet_bloom.LakeIndex.create(tmp_path / "index", ["id"], lake=parquet_bloom.delta(root))
    index.append()
    dataset = parquet_bloom.dataset(parquet_bloom.delta(root), index=index)
    assert show(dataset.get("id", [4])) == {4: VALUES[4]}
    assert dataset.get("id", [14], columns=["id"])["id"].to_pylist() == [14]
    with pytest.raises(UnreadableColumnError, match=SHREDDED):
        dataset.get("id", [14])
    parquet_bloom.delete(root, [4], "id")
    index.append()
    assert parquet_bloom.dataset(index).get("id", [4, 5, 14], columns=["id"])["id"].to_pylist() == [5, 14]
    for name in ("v", "v.value"):
        other = parquet_bloom.LakeIndex.create(tmp_path / name, [name], lake=parquet_bloom.delta(root))
        with pytest.raises(
            UnsupportedTypeError, match=f"column '{name}': what files have of a Variant depends on how it"
        ):
            other.append()


# ---------------------------------------------------------------------------------------------------------- Iceberg

LARGE = pa.struct([
    pa.field("metadata", pa.large_binary(), nullable=False), pa.field("value", pa.large_binary(), nullable=False)
])  # fmt: skip


def make_iceberg(
    root: Path, kind: Any, values: pa.Array, ids: Mapping[str, int], shredded: bool = False, **entry: Any
) -> str:
    """Make a table of the columns `id` and `x`, with one file of both and another of ids alone; return its metadata."""
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "x", "required": False, "type": kind},
    ]
    hand = HandTable(root, [fields], version=3)
    numbers = pa.array(range(ROWS), pa.int64())
    whole = hand.write_file(pa.table({"id": numbers, "x": values}), {"id": 1, "x": 2} | dict(ids), **entry)
    old = hand.write_file(pa.table({"id": pa.array([20], pa.int64())}), {"id": 1})
    files = [whole, old]
    if shredded:
        path, name = hand.place("-shred.parquet")
        rows = "SELECT 14::BIGINT id, ('{\"a\": 14}')::JSON::VARIANT x"
        duckdb.sql(f"COPY ({rows}) TO '{path}' (FIELD_IDS {{id: 1, x: 2}})")
        files.append(Entry(name, 1, os.path.getsize(path), metrics={"lower": BOUNDS["lower"]}))
    hand.add_snapshot(files)
    return hand.write_metadata()


BOUNDS = {"lower": {2: b"\1\0\0\x0c\2"}, "upper": {2: b"\1\0\0\x0c\3"}, "nulls": {2: 1}, "values": {2: ROWS}}
ICEBERG = {
    "x": "variant",
    "s": {"type": "struct", "fields": [{"id": 3, "name": "v", "required": False, "type": "variant"}]},
    "l": {"type": "list", "element-id": 3, "element-required": False, "element": "variant"},
    "m": {
        "type": "map", "key-id": 3, "key": "string", "value-id": 4, "value-required": False, "value": "variant",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ICEBERG)
def test_of_iceberg(tmp_path: Path, name: str) -> None:
    variants = pa.array(VALUES, STORED)
    values = variants if name == "x" else nest(variants)[name]
    ids = {"x.v": 3} if name == "s" else {}
    table = parquet_bloom.iceberg(make_iceberg(tmp_path / "t", ICEBERG[name], values, ids, metrics=BOUNDS))
    found = parquet_bloom.dataset(table).to_table().sort_by("id")
    assert found["x"].to_pylist() == [*values.to_pylist(), None]
    assert table.read_snapshot().find_statistics("x") is None
    assert list_ids(parquet_bloom.read_table(table, "id IN (2, 20)", ["id"])) == [2, 20]
    expected = [n for n, value in enumerate(values.to_pylist()) if value is None]
    assert list_ids(parquet_bloom.read_table(table, "x IS NULL")) == [*expected, 20]
    if name == "x":
        assert found.schema.field("x").type == LARGE
        assert list_ids(parquet_bloom.read_table(table, "x IS NOT NULL")) == [0, 1, 2, *range(4, ROWS)]
        with pytest.raises(UnknownColumnError, match=r"column 'x\.value': a part of a Variant is no column"):
            parquet_bloom.prune(table, "x.value = X'0C01'")


def test_shredded_files_of_iceberg(tmp_path: Path) -> None:
    table = parquet_bloom.iceberg(make_iceberg(tmp_path / "t", "variant", pa.array(VALUES, STORED), {}, shredded=True))
    assert list_ids(parquet_bloom.read_table(table, "id >= 9", ["id"])) == [9, 14, 20]
    assert parquet_bloom.read_table(table, "id IN (4, 20)").sort_by("id")["x"].to_pylist() == [VALUES[4], None]
    assert list_ids(parquet_bloom.read_table(table, "x IS NULL")) == [3, 20]
    with pytest.raises(UnreadableColumnError, match=SHREDDED):
        parquet_bloom.read_table(table, "id = 14")


def make_whole(root: Path) -> dict[int, Any]:
    """Make a Delta table that has no shredded file and may have none, change its rows, and return what it has then."""
    root.mkdir()
    ids = pa.array(range(ROWS), pa.int64())
    pq.write_table(pa.table({"id": ids, "v": pa.array(VALUES, STORED)}), root / "plain.parquet")
    fields, features = [column("id", "long"), column("v", "variant")], ["variantType", "deletionVectors"]
    start = beginning(fields, features=features, configuration=ON)
    commit(root, 0, [*start, describe(root / "plain.parquet", 0)])
    parquet_bloom.embed_table(root, ["id"])
    parquet_bloom.delete(root, [4], "id")
    parquet_bloom.delete(root, [5], "id", mode="rewrite")
    parquet_bloom.upsert(root, pa.table({"id": [2, 50], "v": pa.array([VALUES[7], None], STORED)}), "id")
    return {n: value for n, value in enumerate(VALUES) if n not in (4, 5)} | {2: VALUES[7], 50: None}


def test_deltalake_reads_the_same(tmp_path: Path) -> None:
    expected = make_whole(tmp_path / "t")
    assert (
        show(pa.table(deltalake.DeltaTable(tmp_path / "t").scan())) == expected == read_all(tmp_path / "t", "id >= 0")
    )


@pytest.mark.ci
def test_duckdb_reads_the_same(tmp_path: Path) -> None:
    """By extensions of its own; that for Delta does not open tables that may have shredded files."""
    root = tmp_path / "delta"
    expected = make_whole(root)
    metadata = make_iceberg(tmp_path / "iceberg", "variant", pa.array(VALUES, STORED), {})
    found = ask(
        f"SELECT id, v::VARCHAR FROM delta_scan('{root}')", f"SELECT id, x::VARCHAR FROM iceberg_scan('{metadata}')"
    )
    for rows, known in zip(found, (expected, dict(enumerate(VALUES)) | {20: None}), strict=True):
        assert dict(rows) == {n: None if value is None else str(value["value"][1]) for n, value in known.items()}
