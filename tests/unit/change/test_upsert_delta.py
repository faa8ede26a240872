"""Upserts into Delta tables: what is written, what is refused, and other writers meanwhile."""

from __future__ import annotations

import json
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
    with pytest.raises(ParquetBloomError, match="when_matched must be"):
        parquet_bloom.upsert(root, rows, "id", when_matched="delete")
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
        ({}, {"delta.enableChangeDataFeed": "true"}, "a record of each deleted row"),
    ],
)
def test_tables_that_ask_for_more_are_refused(
    tmp_path: Path, metadata: dict[str, Any], configuration: dict[str, str], said: str
) -> None:
    fields = [delta_log.column("id", "long", **metadata)]
    settings = {"delta.enableDeletionVectors": "true"} | configuration
    delta_log.commit(tmp_path, 0, delta_log.beginning(fields, configuration=settings, features=["deletionVectors"]))
    with pytest.raises(ParquetBloomError, match=said):
        parquet_bloom.upsert(str(tmp_path), pa.table({"id": [1]}), "id")
    assert not [*tmp_path.glob("*.parquet")]


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
