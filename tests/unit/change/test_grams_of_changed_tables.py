"""Pieces of text in tables whose rows are deleted and replaced: an index of grams follows, and hides none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.writers import changing_tables

import parquet_bloom
from parquet_bloom.change.delete_rows import delete
from parquet_bloom.change.upsert_rows import upsert
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.tables.embed.embed_table import embed_table

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

pytestmark = [pytest.mark.ci, pytest.mark.usefixtures("settled_tokens")]
WORDS = ["timeout", "Zoë", "refused", "GET /index", "kernel", "ok"]


class ChangingTable:
    """A table of ids and texts, and the rows that it should have."""

    def __init__(self, kind: str, folder: Path):
        self.rows: dict[int, str | None] = {}
        self._rng, self._root = random.Random(kind), str(folder / "t")
        self._table: Any = None
        if kind == "iceberg":
            schema = pa.schema([("id", pa.int64()), ("t", pa.string())])
            self._table = changing_tables.make_catalog(folder).create_table("db.logs", schema)

    @property
    def given(self) -> Any:
        return self._root if self._table is None else changing_tables.reload(self._table)

    def draw(self, ids: list[int]) -> pa.Table:
        """Draw rows, whose texts have their ids, and take them for those of the table."""
        texts = [None if id % 13 == 0 else f"{self._rng.choice(WORDS)} of row <{id}>" for id in ids]
        self.rows |= dict(zip(ids, texts, strict=True))
        return pa.table({"id": pa.array(ids, pa.int64()), "t": pa.array(texts, pa.string())})

    def append(self) -> None:
        first = max(self.rows, default=-1) + 1
        rows = self.draw([*range(first, first + 60)])
        if self._table is None:
            properties = deltalake.WriterProperties(max_row_group_size=20)
            options = {"configuration": {"delta.enableDeletionVectors": "true"}} if not first else {}
            deltalake.write_deltalake(self._root, rows, mode="append", writer_properties=properties, **options)
        else:
            self.given.append(rows)

    def delete(self, mode: str, where: str = "") -> None:
        if where:
            assert delete(self.given, where=f"t LIKE '%{where}%'", mode=mode).num_rows
            self.rows = {id: text for id, text in self.rows.items() if where not in (text or "")}
        else:
            keys = self._rng.sample([*self.rows], 3)
            assert delete(self.given, keys, "id", mode=mode).num_rows == 3
            self.rows = {id: text for id, text in self.rows.items() if id not in keys}

    def upsert(self) -> None:
        ids = [*self._rng.sample([*self.rows], 3), max(self.rows) + 1]
        assert upsert(self.given, self.draw(ids), "id").changed


def ask(table: ChangingTable, index: Any) -> int:
    """Hold what is found against the rows that the table should have; return how many files the index ruled out."""
    some = sorted(table.rows)[::79]
    pieces = [*WORDS[:3], *(f"row <{id}>" for id in some), "row <999>"]
    ruled_out = 0
    for piece in pieces:
        expected = [id for id, text in table.rows.items() if piece in (text or "")]
        for where in (f"t LIKE '%{piece}%'", f"contains(lower(t), '{piece.lower()}')"):
            rows = parquet_bloom.read_table(table.given, where, ["id"], index=index)
            assert sorted(rows["id"].to_pylist()) == sorted(expected), where
        plan = parquet_bloom.prune(table.given, f"t LIKE '%{piece}%'", index=index)
        assert plan.index_doubts == []
        ruled_out += plan.unopened_by.get("index", 0)
    found = parquet_bloom.dataset(table.given, index=index).get("id", [*some, 999], ["id", "t"])
    assert dict(zip(found["id"].to_pylist(), found["t"].to_pylist(), strict=True)) == {
        id: table.rows[id] for id in some
    }
    return ruled_out


@pytest.mark.parametrize(
    ("kind", "granularity"), [("delta", "zone"), ("delta", "row_group"), ("iceberg", "file"), ("iceberg", "zone")]
)
def test_an_index_of_grams_follows_a_table(kind: str, granularity: Any, tmp_path: Path) -> None:
    table = ChangingTable(kind, tmp_path)
    for _ in range(3):
        table.append()
    zone_rows = {"zone_rows": 7} if granularity == "zone" else {}
    keys, path = ["id", "grams(t)", "grams(lower(t))"], tmp_path / "index"
    lake = table.given if kind == "iceberg" else parquet_bloom.delta(table.given)
    with LakeIndex.create(path, keys, lake=lake, granularity=granularity, **zone_rows) as index:
        index.append()
        ruled_out = [ask(table, index)]
        for change in (
            lambda: table.delete("hide"),
            lambda: table.delete("hide", "refused"),
            table.upsert,
            table.append,
            lambda: table.delete("rewrite"),
            lambda: table.delete("rewrite", "Zoë"),
            table.upsert,
        ):
            change()
            ruled_out.append(ask(table, path))
        assert all(ruled_out[:4])  # the files that are left, until all of them are written anew
        embed_table(table.given, ["id"])
        ask(table, index)
        index.append()
        for _ in range(2):
            assert ask(table, index)
            index.append()
            assert index.stats().unindexed == 0
            index.compact(keep_seconds=0)
        assert index.check(99).problems == []
