"""Delta tables at their latest version, at others and at times; partitions, column mapping, features, broken tables."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import random
import re
import shutil
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scale import scaled
from support.writers.delta_log import (
    TABLE_ID,
    add,
    beginning,
    column,
    commit,
    inline_vector,
    remove,
    stored_vectors,
    struct_of,
)

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, StorageError
from parquet_bloom.tables.delta.delta_table import DeltaSource, delta
from parquet_bloom.tables.table_snapshot import TableColumn, TableSnapshot

deltalake = pytest.importorskip("deltalake")
UTC = dt.UTC
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
PLAIN = beginning([column("id", "long")])


def names(snapshot: TableSnapshot) -> list[str]:
    return [file.path.removeprefix(f"{snapshot.root}/") for file in snapshot.files]


def write(root: Path, start: int, mode: str = "append", **options: Any) -> None:
    deltalake.write_deltalake(root, pa.table({"id": range(start, start + 3)}), mode=mode, **options)


# ------------------------------------------------------------------------------------------------------------
# Versions
# ------------------------------------------------------------------------------------------------------------


def test_the_latest_version_each_time(tmp_path: Path) -> None:
    write(tmp_path / "t", 0)
    table = delta(tmp_path / "t")
    first = table.read_snapshot()
    assert (first.kind, first.version, len(first.files)) == ("delta", 0, 1)
    assert table.read_snapshot() is first
    write(tmp_path / "t", 10)
    second = table.read_snapshot()
    assert (second.version, len(second.files), len(first.files)) == (1, 2, 1)
    deltalake.DeltaTable(tmp_path / "t").optimize.compact()
    assert (table.read_snapshot().version, len(table.read_snapshot().files)) == (2, 1)
    assert len(delta(tmp_path / "t", version=1).read_snapshot().files) == 2
    assert second.find_statistics("id") is not None
    assert len(second.find_statistics("id") or ()) == 2  # of that version still


def test_what_an_update_may_change(tmp_path: Path) -> None:
    """A table that is brought up to date is as one that is opened: schema, features, partitions, deleted rows."""
    root = tmp_path / "t"
    table = delta(root)
    write(root, 0)
    first = pa.table({"id": [7], "more": ["x"], "s": [{"a": 1}]})
    vector = inline_vector([0])
    steps: list[Any] = [
        lambda: deltalake.write_deltalake(root, first, mode="append", schema_mode="merge"),
        lambda: deltalake.DeltaTable(root).alter.add_feature(
            deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
        ),
        lambda: commit(root, 3, [remove("later"), add("new.parquet", 5, {"numRecords": 1}, deletionVector=vector)]),
        lambda: deltalake.DeltaTable(root).create_checkpoint(),
        lambda: deltalake.write_deltalake(root, pa.table({"other": [1.5]}), mode="overwrite", schema_mode="overwrite"),
        lambda: commit(root, 5, beginning([column("id", "long", 1)], (), MAPPED, ["columnMapping"])[1:]),
    ]
    for step in steps:
        table.read_snapshot()
        step()
        mine, anew = table.read_snapshot(), delta(root).read_snapshot()
        assert (mine.version, mine.files, mine.columns) == (anew.version, anew.files, anew.columns)
        assert mine.schema.equals(anew.schema, check_metadata=True)
        assert mine.deletes.keys() == anew.deletes.keys()
        assert mine.actions.equals(anew.actions)
        assert mine.leaves.keys() == anew.leaves.keys()
    assert mine.version == 5


def test_versions_that_are_pinned(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for start in range(0, 30, 10):
        write(root, start)
    opened = deltalake.DeltaTable(root, version=1)
    for table, version in (
        (delta(opened), 1),
        (delta(opened, version=0), 0),
        (delta(str(root), version=2), 2),
        (delta(root.as_uri(), version=0), 0),
        (delta(root, version=np.int64(1)), 1),  # type: ignore[arg-type]
        (delta(root, version=np.uint8(2)), 2),  # type: ignore[arg-type]
    ):
        write(root, 100)
        snapshot = table.read_snapshot()
        assert (snapshot.version, len(snapshot.files)) == (version, version + 1)
        assert table.read_snapshot() is snapshot
        assert snapshot.root == str(root)


def test_versions_that_do_not_exist(tmp_path: Path) -> None:
    root = tmp_path / "a table"
    write(root, 0)
    with pytest.raises(StorageError) as caught:
        delta(root, version=1).read_snapshot()
    assert str(caught.value) == f"{root}: it has no version 1: its log has only version 0"
    for start in (10, 20, 30):
        write(root, start)
    for table in (delta(root, version=10**30), delta(root.as_uri(), version=99)):
        with pytest.raises(StorageError, match=r"it has no version \d+: its log has the versions 0 to 3$"):
            table.read_snapshot()
    deltalake.DeltaTable(root, version=2).create_checkpoint()
    (root / "_delta_log" / f"{0:020}.json").unlink()
    assert delta(root, version=2).read_snapshot().version == 2
    with pytest.raises(StorageError, match=r"it has no version 1: its log has the versions 2 to 3$"):
        delta(root, version=1).read_snapshot()
    (root / "_delta_log" / f"{3:020}.checkpoint.0000000001.9999999999.parquet").touch()  # one of very many
    with pytest.raises(StorageError, match=r"it has no version 4: its log has the versions 2 to 3$"):
        delta(root, version=4).read_snapshot()


def test_a_table_that_was_made_anew(tmp_path: Path) -> None:
    root = tmp_path / "t"
    table, pinned = delta(root), delta(root, version=0)
    for start in (0, 10):
        write(root, start)
    old = table.read_snapshot(), pinned.read_snapshot()
    shutil.rmtree(root)
    for start in (20, 30, 40):
        write(root, start)
    assert table.read_snapshot().table_id == pinned.read_snapshot().table_id != old[0].table_id
    assert set(table.read_snapshot().files) == set(delta(root).read_snapshot().files)
    assert len(table.read_snapshot().files) == 3
    assert pinned.read_snapshot().files != old[1].files


def test_a_log_that_was_cleaned_up(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, 0)
    table = delta(root)
    table.read_snapshot()
    for start in (10, 20):
        write(root, start)
    deltalake.DeltaTable(root).create_checkpoint()
    for version in range(3):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    assert (table.read_snapshot().version, len(table.read_snapshot().files)) == (2, 3)
    assert table.read_snapshot() is table.read_snapshot()


def test_threads_and_pickles(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, 0)
    table = delta(root, storage_options={"timeout": "30s"})
    copy = pickle.loads(pickle.dumps(table))
    assert isinstance(copy, DeltaSource)
    found: list[TableSnapshot] = []
    threads = [threading.Thread(target=lambda: found.append(table.read_snapshot())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(snapshot) for snapshot in found}) == 1
    again = pickle.loads(pickle.dumps(copy.read_snapshot()))
    assert again.files == found[0].files
    assert len(again.find_statistics("id") or ()) == 1


def at(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def dated(root: Path, times: list[str], inside: list[str | None] | None = None, **configuration: str) -> Path:
    """A table of commits whose files have these times, and in-commit timestamps, if any."""
    begin = PLAIN
    if inside:
        configuration["delta.enableInCommitTimestamps"] = "true"
        begin = beginning([column("id", "long")], (), configuration, [], ["inCommitTimestamp"])
    for version, time in enumerate(times):
        info: dict[str, Any] = {"timestamp": 1}
        if inside and inside[version]:
            info["inCommitTimestamp"] = round(at(inside[version] or "") * 1000)
        actions = [{"commitInfo": info}, *(begin if version == 0 else []), add(f"{version}.parquet")]
        path = commit(root, version, actions)
        os.utime(path, (at(time), at(time)))
    return root


def test_time_travel(tmp_path: Path) -> None:
    root = dated(tmp_path / "t", ["2020-01-01", "2021-01-01", "2022-01-01"])
    expected = {
        "2020-01-01T00:00:00Z": 0,
        "2020-12-31T23:59:59.999": 0,
        "2021-01-01": 1,
        "2021-01-01T01:00:00+02:00": 0,
        "2021-01-01T01:00:00-02:00": 1,
        "2030-01-01T00:00:00Z": 2,
    }
    for text, version in expected.items():
        time = dt.datetime.fromisoformat(text)
        for as_of in (text, time, time if time.tzinfo else time.replace(tzinfo=UTC)):
            assert delta(root, as_of=as_of).read_snapshot().version == version
    with pytest.raises(ParquetBloomError, match=r"t: as_of is 2019-12-31, which is before the first commit in its log"):
        delta(root, as_of="2019-12-31").read_snapshot()
    table = pickle.loads(pickle.dumps(delta(root, as_of="2021-06-01")))
    assert table.read_snapshot() is table.read_snapshot()


def test_a_time_in_the_future_is_the_latest_version_each_time(tmp_path: Path) -> None:
    root = dated(tmp_path / "t", ["2020-01-01", "2021-01-01"])
    past, future = delta(root, as_of="2022-01-01"), delta(root, as_of="2999-01-01")
    assert [table.read_snapshot().version for table in (past, future)] == [1, 1]
    dated(root, ["2020-01-01", "2021-01-01", "2023-01-01"])
    assert [table.read_snapshot().version for table in (past, future)] == [1, 2]


def test_times_that_go_back(tmp_path: Path) -> None:
    root = dated(tmp_path / "t", ["2020-01-01", "2022-01-01", "2021-01-01"])
    assert [delta(root, as_of=text).read_snapshot().version for text in ("2021-06-01", "2022-01-02")] == [0, 2]


def test_in_commit_timestamps(tmp_path: Path) -> None:
    """Files have other times; deltalake goes by those."""
    later = ["2030-01-01", "2030-01-02", "2030-01-03"]
    root = dated(tmp_path / "a", later, ["2020-01-01", "2021-01-01", "2022-01-01"])
    for text, version in {"2020-06-01": 0, "2021-01-01": 1, "2021-12-31": 1, "2025-01-01": 2}.items():
        assert delta(root, as_of=text).read_snapshot().version == version
    with pytest.raises(ParquetBloomError, match="before the first commit"):
        delta(root, as_of="2019-06-01").read_snapshot()
    enabled = {"delta.inCommitTimestampEnablementVersion": "1"}
    root = dated(tmp_path / "b", ["2020-01-01", *later[1:]], [None, "2021-01-01", "2022-01-01"], **enabled)
    for text, version in {"2020-06-01": 0, "2021-06-01": 1, "2022-06-01": 2}.items():
        assert delta(root, as_of=text).read_snapshot().version == version
    root = dated(tmp_path / "c", later, ["2020-01-01", None, "2022-01-01"])
    with pytest.raises(ParquetBloomError, match=r"00001\.json: the commit has no in-commit timestamp"):
        delta(root, as_of="2021-01-01").read_snapshot()
    root = dated(tmp_path / "d", later, [None] * 3, **{"delta.inCommitTimestampEnablementVersion": "one"})
    with pytest.raises(ParquetBloomError, match="enabled from version 'one' on"):
        delta(root, as_of="2021-01-01").read_snapshot()


def test_arguments(tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("version and as_of exclude each other", {"version": 1, "as_of": "2020-01-01"}),
        ("version is -1, which is not a version", {"version": -1}),
        ("version is True", {"version": True}),
        ("version is '1'", {"version": "1"}),
        ("version is 1.0", {"version": 1.0}),
        ("version is np.True_", {"version": np.True_}),
        ("storage_options must be a mapping, not int", {"storage_options": 5}),
        ("storage_options must be a mapping, not list", {"storage_options": ["timeout"]}),
        ("as_of is 'soon', which is not a time such as", {"as_of": "soon"}),
        ("as_of is a datetime or a text, not int", {"as_of": 5}),
        ("as_of is a datetime or a text, not date", {"as_of": dt.date(2020, 1, 1)}),
    ]
    for problem, arguments in wrong:
        with pytest.raises(ParquetBloomError, match=problem):
            delta(tmp_path, **arguments)
    with pytest.raises(ParquetBloomError, match=r"a Delta table is a path or a deltalake\.DeltaTable, not list"):
        delta(["a", "b"])


# ------------------------------------------------------------------------------------------------------------
# Contents
# ------------------------------------------------------------------------------------------------------------


def test_the_schema_is_deltalakes(tmp_path: Path) -> None:
    fields = [
        pa.field("a", pa.int8()),
        pa.field("b", pa.large_string(), metadata={"comment": "text"}),
        pa.field("l", pa.list_(pa.int64()), nullable=False),
        pa.field("s", pa.struct([("x", pa.string_view()), ("m", pa.map_(pa.string(), pa.float32()))])),
        pa.field("t", pa.timestamp("ns")),  # what deltalake calls timestampNanos
        pa.field("u", pa.timestamp("us", "UTC")),
        pa.field("d", pa.decimal128(38, 10)),
        pa.field("y", pa.binary()),
        pa.field("z", pa.date32()),
    ]
    table = deltalake.DeltaTable.create(tmp_path / "t", pa.schema(fields), partition_by=["z"])
    snapshot = delta(tmp_path / "t").read_snapshot()
    assert snapshot.schema.equals(pa.schema(table.schema().to_arrow()), check_metadata=True)
    assert [str(kind) for kind in snapshot.schema.types[:2]] == ["int8", "string"]
    plain = [each for each in fields if each.name != "t"]
    theirs = deltalake.DeltaTable.create(tmp_path / "u", pa.schema(plain)).to_pyarrow_table().schema
    assert delta(tmp_path / "u").read_snapshot().schema.equals(theirs, check_metadata=True)
    assert snapshot.columns is None
    assert snapshot.files == []
    assert snapshot.partition_values.equals(pa.table({"z": pa.array([], pa.date32())}))


PARTITIONS: list[tuple[str, pa.DataType, dict[Any, Any]]] = [
    ("string", pa.string(), {v: v for v in ("a b", "x/y", "100%", "é=ü", " ", "a\nb", "#?&", "NULL", "%20", "..")}),
    ("integer", pa.int32(), {"-5": -5, "2147483647": 2**31 - 1}),
    ("long", pa.int64(), {"-9223372036854775808": -(2**63)}),
    ("short", pa.int16(), {"-1": -1}),
    ("byte", pa.int8(), {"127": 127}),
    ("double", pa.float64(), {"0.1": 0.1, "1.0E10": 1e10, "-Infinity": float("-inf")}),
    ("float", pa.float32(), {"3.5": 3.5}),
    ("boolean", pa.bool_(), {"true": True, "false": False}),
    ("date", pa.date32(), {"0001-01-01": dt.date(1, 1, 1), "2024-02-29": dt.date(2024, 2, 29)}),
    ("decimal(18,2)", pa.decimal128(18, 2), {"1234567890123456.78": Decimal("1234567890123456.78")}),
    ("binary", pa.binary(), {"a\u0001b": b"a\x01b"}),
    (
        "timestamp",
        pa.timestamp("us", "UTC"),
        {
            "2024-01-01 00:00:00.123456": dt.datetime(2024, 1, 1, 0, 0, 0, 123456, UTC),
            "2024-01-01T00:00:00.5Z": dt.datetime(2024, 1, 1, 0, 0, 0, 500000, UTC),
        },
    ),
    ("timestamp_ntz", pa.timestamp("us"), {"2024-01-01 00:00:00.123456": dt.datetime(2024, 1, 1, 0, 0, 0, 123456)}),
]


@pytest.mark.parametrize(("kind", "arrow", "values"), PARTITIONS)
def test_partition_values(tmp_path: Path, kind: str, arrow: pa.DataType, values: dict[Any, Any]) -> None:
    expected = [*values.items(), (None, None), ("", None)]
    adds = [add(f"{i}.parquet", partitionValues={"p": text}) for i, (text, _) in enumerate(expected)]
    features = ["timestampNtz"] if kind == "timestamp_ntz" else None
    commit(tmp_path, 0, [*beginning([column("id", "long"), column("p", kind)], ["p"], features=features), *adds[::-1]])
    snapshot = delta(tmp_path).read_snapshot()
    found = dict(zip(names(snapshot), snapshot.partition_values["p"].to_pylist(), strict=True))
    assert found == {f"{i}.parquet": value for i, (_, value) in enumerate(expected)}
    assert snapshot.partition_values.schema == pa.schema([("p", arrow)])
    assert snapshot.schema.field("p").type == arrow
    assert snapshot.find_statistics("p") is None


def test_partitions_that_deltalake_writes(tmp_path: Path) -> None:
    values = ["a b", "x/y", "100%", "é=ü", None, "%20", "a:b", "x=1/y=2"]
    data = pa.table({"p": values, "q": pa.array(range(len(values)), pa.int64()), "id": range(len(values))})
    deltalake.write_deltalake(tmp_path / "a table%", data, partition_by=["p", "q"])
    snapshot = delta(tmp_path / "a table%").read_snapshot()
    assert snapshot.files == sorted(snapshot.files)
    assert snapshot.partition_values.column_names == ["p", "q"]
    for file, row in zip(snapshot.files, snapshot.partition_values.to_pylist(), strict=True):
        assert os.path.getsize(file.path) == file.size
        assert row == {"p": values[row["q"]], "q": pq.ParquetFile(file.path).read()["id"][0].as_py()}


def test_partition_values_that_are_not_values(tmp_path: Path) -> None:
    for number, text in enumerate(["abc", "1.5", "99999999999", " 1"]):
        begin = beginning([column("id", "long"), column("p", "integer")], ["p"])
        commit(tmp_path / f"{number}", 0, [*begin, add("a", partitionValues={"p": text})])
        with pytest.raises(StorageError, match=f"{number}: cannot read the Delta table: .*'{text}'"):
            delta(tmp_path / f"{number}").read_snapshot()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping(tmp_path: Path, mode: str) -> None:
    element, value = struct_of(column("x", "long", 7)), struct_of(column("y", "long", 8))
    fields = [
        column("part", "string", 1),
        column("new name", "long", 2),
        column("s", struct_of(column("a.b", "string", 4)), 3),
        column("l", {"type": "array", "elementType": element, "containsNull": True}, 5),
        column("m", {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}, 6),
    ]
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "8"}
    adds = [add("c-1=a%2520b/x.parquet", partitionValues={"c-1": "a b"})]
    commit(tmp_path, 0, [*beginning(fields, ["part"], configuration, ["columnMapping"]), *adds])
    snapshot = delta(tmp_path).read_snapshot()

    def made(name: str, number: int, kind: Any = "value", *parts: TableColumn) -> TableColumn:
        return TableColumn(name, kind, number if mode == "id" else None, (f"c-{number}",), parts)

    assert snapshot.columns == (
        made("part", 1),
        made("new name", 2),
        made("s", 3, "struct", made("a.b", 4)),
        made("l", 5, "list", TableColumn("element", "struct", None, ("element",), (made("x", 7),))),
        made(
            "m",
            6,
            "map",
            TableColumn("key", "value", None, ("key",)),
            TableColumn("value", "struct", None, ("value",), (made("y", 8),)),
        ),
    )
    assert snapshot.schema.names == ["part", "new name", "s", "l", "m"]
    assert snapshot.partition_values.to_pylist() == [{"part": "a b"}]
    assert names(snapshot) == ["c-1=a%20b/x.parquet"]


def test_a_mapping_that_the_protocol_does_not_have(tmp_path: Path) -> None:
    commit(tmp_path, 0, beginning([column("id", "long", 1)], (), {"delta.columnMapping.mode": "name"}))
    try:
        snapshot = delta(tmp_path).read_snapshot()
    except StorageError:
        return  # deltalake refuses
    assert snapshot.columns is None


def test_files_with_deletion_vectors(tmp_path: Path) -> None:
    begin = beginning([column("id", "long")], features=["deletionVectors"])
    (stored,) = stored_vectors(tmp_path, [[1, 2]])
    first, outside = inline_vector([0]), inline_vector([1]) | {"storageType": "x"}
    commit(tmp_path, 0, [*begin, add("a"), add("b", deletionVector=first), add("c", deletionVector=stored)])
    commit(tmp_path, 1, [remove("a"), add("a", deletionVector=outside)])
    table = delta(tmp_path)
    before = delta(tmp_path, version=0).read_snapshot().deletes
    found = {path: rows.find_positions(range(9)).tolist() for path, rows in before.items()}
    assert found == {f"{tmp_path}/b": [0], f"{tmp_path}/c": [1, 2]}
    deletes = table.read_snapshot().deletes
    assert deletes.keys() == {f"{tmp_path}/{name}" for name in "abc"}
    with pytest.raises(ParquetBloomError, match=r"a: its deleted rows cannot be determined: .* stored as 'x'"):
        deletes[f"{tmp_path}/a"].find_positions(range(9))


# ------------------------------------------------------------------------------------------------------------
# Refusals
# ------------------------------------------------------------------------------------------------------------


def test_files_elsewhere(tmp_path: Path) -> None:
    root = tmp_path / "t"
    commit(root, 0, [*PLAIN, add("a.parquet"), add((tmp_path / "else where.parquet").as_uri())])
    with pytest.raises(ParquetBloomError, match=r"its file .*else where\.parquet is outside .* outside=True"):
        delta(root).read_snapshot()
    snapshot = delta(root, outside=True).read_snapshot()
    assert [file.path for file in snapshot.files] == [str(tmp_path / "else where.parquet"), str(root / "a.parquet")]
    (root / "link.parquet").symlink_to(tmp_path / "x.parquet")
    commit(root, 0, [*PLAIN, add("link.parquet")])
    with pytest.raises(ParquetBloomError, match=r"link\.parquet is outside"):
        delta(root).read_snapshot()
    for path in ("../x.parquet", "a/../../x.parquet", "a//b", "%2e%2e/x"):
        commit(root, 0, [*PLAIN, add(path)])
        with pytest.raises(ParquetBloomError, match="location cannot be resolved"):
            delta(root, outside=True).read_snapshot()
    commit(root, 0, [*PLAIN, add("a.parquet"), add("%61.parquet")])
    with pytest.raises(ParquetBloomError, match=r"its log lists the file .*a\.parquet twice"):
        delta(root).read_snapshot()


@pytest.mark.parametrize("feature", ["catalogManaged", "martian"])
def test_features_that_are_not_understood(tmp_path: Path, feature: str) -> None:
    commit(tmp_path, 0, beginning([column("id", "long")], features=[feature]))
    with pytest.raises(
        ParquetBloomError, match=r"(?i)" + feature.replace("catalogManaged", "catalog-managed")
    ) as caught:
        delta(tmp_path).read_snapshot()
    assert str(caught.value).startswith(f"{tmp_path}: ")


@pytest.mark.parametrize(
    "feature",
    ["columnMapping", "timestampNtz", "v2Checkpoint", "typeWidening", "vacuumProtocolCheck", "deletionVectors"],
)
def test_features_that_are_understood(tmp_path: Path, feature: str) -> None:
    writer = ["rowTracking", "domainMetadata", "inCommitTimestamp", "appendOnly", "clustering", "icebergCompatV2"]
    commit(tmp_path, 0, [*beginning([column("id", "long")], features=[feature], writer_features=writer), add("a")])
    assert names(delta(tmp_path).read_snapshot()) == ["a"]


VARIANTS = ["variantType", "variantType-preview", "variantShredding", "variantShredding-preview"]
NESTED = {
    "top": "variant",
    "struct": struct_of(column("x", "long"), column("v", "variant")),
    "array": {"type": "array", "elementType": "variant", "containsNull": True},
    "map": {"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True},
    "deep": struct_of(
        column("a", {"type": "array", "elementType": struct_of(column("v", "variant")), "containsNull": True})
    ),
}


@pytest.mark.parametrize("features", [*([one] for one in VARIANTS), VARIANTS, ["variantType", "deletionVectors"]])
def test_features_of_variants(tmp_path: Path, features: list[str]) -> None:
    """Writers list them also in tables that have no such column."""
    commit(tmp_path, 0, [*beginning([column("id", "long")], features=features), add("a")])
    opened = delta(tmp_path)
    assert names(opened.read_snapshot()) == ["a"]
    # A column that comes later is seen by a reader that has the table open, and by an index that is brought up to date.
    table_id = opened.read_snapshot().table_id
    metadata = beginning([column("id", "long"), column("v", "variant")], features=features)[1]
    commit(tmp_path, 1, [metadata, add("b")])
    for read in (opened.read_snapshot, delta(tmp_path).read_snapshot, lambda: opened.read_changes(table_id, 0)):
        if {"variantType", "variantType-preview"} & set(features):
            found = read()
            assert found is None or (names(found), found.schema.names) == (["a", "b"], ["id", "v"])
        else:  # deltalake refuses it
            with pytest.raises(StorageError, match="VARIANT"):
                read()


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("features", [["variantType"], []])
def test_a_variant_anywhere(tmp_path: Path, kind: str, features: list[str]) -> None:
    columns = [column("id", "long"), column("w", NESTED[kind])]
    commit(tmp_path, 0, [*beginning(columns, features=features or ["timestampNtz"]), add("a")])
    if not features:
        with pytest.raises(StorageError, match="VARIANT"):
            delta(tmp_path).read_snapshot()
        return
    snapshot = delta(tmp_path).read_snapshot()
    assert "struct<metadata: binary not null, value: binary not null>" in str(snapshot.schema.field("w").type)
    assert snapshot.find_statistics("w") is snapshot.find_statistics("w.v") is None


@pytest.mark.parametrize("setting", ["delta.enableDeletionVectors", "delta.enableChangeDataFeed", "delta.appendOnly"])
def test_tables_as_deltalake_makes_them(tmp_path: Path, setting: str) -> None:
    from deltalake import DeltaTable, write_deltalake

    root = str(tmp_path / "t")
    rows = pa.table({"id": pa.array(range(20), pa.int64()), "s": [{"x": n} for n in range(20)]})
    write_deltalake(root, rows, configuration={setting: "true"})
    write_deltalake(root, rows, mode="append")
    count = pa.table(DeltaTable(root).scan()).num_rows
    assert parquet_bloom.dataset(root).count_rows() == count == 40
    report = parquet_bloom.embed_table(root, ["id"])
    assert len(report.files) == 2
    assert parquet_bloom.dataset(root).scan("id = 7").to_arrow()["id"].to_pylist() == [7, 7]
    assert pa.table(DeltaTable(root).scan(predicate="id = 7")).num_rows == 2
    if setting != "delta.appendOnly":
        DeltaTable(root).delete("id = 7")
        assert parquet_bloom.dataset(root).count_rows() == pa.table(DeltaTable(root).scan()).num_rows == 38


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nothing", tmp_path / "folder", "", "martian://x/y"):
        with pytest.raises(StorageError, match="cannot read the Delta table") as caught:
            delta(path).read_snapshot()
        assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "nothing").exists()


BROKEN = [
    {"schemaString": "{"},
    {"schemaString": "5"},
    {"schemaString": json.dumps(struct_of(column("id", "colour")))},
    {"schemaString": json.dumps(struct_of({"name": "id"}))},
    {"configuration": {"delta.columnMapping.mode": "colour"}},
    {"partitionColumns": ["nothing"]},
    {"id": None},
]


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_metadata(tmp_path: Path, broken: dict[str, Any]) -> None:
    protocol, metadata = beginning([column("id", "long")], features=["columnMapping"])
    commit(tmp_path, 0, [protocol, {"metaData": metadata["metaData"] | broken}, add("a")])
    with pytest.raises(ParquetBloomError) as caught:
        delta(tmp_path).read_snapshot()
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "<unknown>" not in text  # frames of a backtrace


@pytest.mark.ci
def test_a_table_in_an_object_store(s3: Any) -> None:
    options = s3.storage_options | {"allow_http": True}
    texts = options | {"allow_http": "true"}
    url = s3.url("a table/é")
    data = pa.table({"id": range(6), "p": ["a b", "x/y"] * 3})
    deltalake.write_deltalake(url, data, partition_by=["p"], storage_options=texts)
    table = delta(url, storage_options=options)
    snapshot = table.read_snapshot()
    assert (snapshot.root, snapshot.version, len(snapshot.files)) == (url, 0, 2)
    assert snapshot.partition_values["p"].to_pylist() == ["a b", "x/y"]
    for file in snapshot.files:
        assert len(s3.get(file.path.removeprefix(s3.url("")))) == file.size
    deltalake.write_deltalake(url, data, mode="append", storage_options=texts)
    assert len(pickle.loads(pickle.dumps(table)).read_snapshot().files) == len(table.read_snapshot().files) == 4
    assert delta(deltalake.DeltaTable(url, storage_options=texts, version=0)).read_snapshot().files == snapshot.files
    assert delta(url, storage_options=options, as_of="2999-01-01").read_snapshot().version == 1
    assert snapshot.table_id != TABLE_ID


def test_a_panic_in_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rust panics are not Exceptions; damaged checkpoints make the library panic now and then."""
    panic = type("PanicException", (BaseException,), {})

    def fail(*arguments: Any, **options: Any) -> None:
        raise panic("attempt to divide by zero\nstack backtrace:\n   0: <unknown>")

    write(tmp_path, 0)
    table = delta(tmp_path)
    first = table.read_snapshot()
    monkeypatch.setattr(deltalake.DeltaTable, "update_incremental", fail)
    write(tmp_path, 10)
    assert (first.version, table.read_snapshot().version) == (0, 1)  # read anew
    monkeypatch.setattr(deltalake.DeltaTable, "get_add_actions", fail)
    with pytest.raises(StorageError, match=r"cannot read the Delta table: attempt to divide by zero$"):
        delta(tmp_path).read_snapshot()


LOG = [
    *beginning(
        [column("id", "long", 1), column("s", struct_of(column("a", "string", 3)), 2)], (), MAPPED, ["columnMapping"]
    ),
    add(
        "x%20y.parquet",
        stats={"numRecords": 2, "minValues": {"c-1": 1}, "maxValues": {"c-1": 2}, "nullCount": {"c-1": 0}},
    ),
]
TOKENS = [b"null", b"-1", b'""', b"[]", b"{}", b"1e999", b"99999999999999999999", b"true", b'"x"', b'"../x"', b'"%FF"']


def test_changed_logs(tmp_path: Path) -> None:
    """Values replaced by others, and bytes by chance: a snapshot, or an error on one line."""
    rng = random.Random(8)
    text = "\n".join(map(json.dumps, LOG)).encode()
    read = refused = 0
    for number in range(scaled(60)):
        data = text
        for _ in range(rng.randrange(1, 3)):
            spots = [match.span() for match in re.finditer(rb'(?<=: )("(?:[^"\\]|\\.)*"|\d+|true|\{\}|\[\])', data)]
            first, last = rng.choice([*spots, (at := rng.randrange(len(data)), at + 1)])
            data = data[:first] + rng.choice(TOKENS) + data[last:]
        log = tmp_path / f"{number}" / "_delta_log" / f"{0:020}.json"
        log.parent.mkdir(parents=True)
        log.write_bytes(data)
        try:
            snapshot = delta(tmp_path / f"{number}").read_snapshot()
            assert snapshot.find_statistics("s.b") is None
            read += 1
        except ParquetBloomError as error:
            problem = str(error)
            assert len(problem.splitlines()) == 1
            refused += 1
    assert read
    assert refused
