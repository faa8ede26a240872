"""Deletes and upserts of Iceberg tables in any order, against a model and other readers."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines.iceberg_duckdb import open_duckdb
from support.random_cases.hunting import seeds
from support.scale import scaled
from support.writers import changing_tables as tables

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.tables.embed.exchange_iceberg import IcebergTarget
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg.catalog.sql")


def make_rows(rng: random.Random, ids: list[int], text: str) -> pa.Table:
    days = [rng.choice(["a b", "x/y", "100%", None]) for _ in ids]
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "s": pa.array([text] * len(ids)), "p": pa.array(days, pa.string())}
    )


def make_table(rng: random.Random, folder: Path, version: int) -> Any:
    """Return a table of files by several specs, of a version of the format, and its rows."""
    from pyiceberg import transforms

    first, second = make_rows(rng, list(range(60)), "first"), make_rows(rng, list(range(60, 100)), "second")
    table = tables.make_catalog(folder).create_table("db.events", first.schema)
    table.append(first)
    with table.update_spec() as update:
        update.add_field("p", transforms.IdentityTransform(), "of p")
    table.append(second)
    if rng.random() < 0.5:
        with table.update_spec() as update:
            update.add_field("id", transforms.BucketTransform(3), "b")
    if version == 3:  # which pyiceberg does not write
        location = table.metadata_location.removeprefix("file://")
        document = json.loads(Path(location).read_text()) | {"format-version": 3, "next-row-id": 0}
        later = f"{os.path.dirname(location)}/00099-later.metadata.json"
        Path(later).write_text(json.dumps(document))
        with sqlite3.connect(folder / "catalog.db") as database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", [f"file://{later}"])
    return table, {row["id"]: row for row in [*first.to_pylist(), *second.to_pylist()]}


def read(table: Any, snapshot_id: int | None = None) -> list[dict[str, Any]]:
    """Return the rows, which are the same by this package and by other engines."""
    now = tables.reload(table)
    rows: list[dict[str, Any]] = now.scan(snapshot_id=snapshot_id).to_arrow().sort_by("id").to_pylist()
    shown = parquet_bloom.dataset(iceberg(now, snapshot_id=snapshot_id)).scan().to_arrow()
    assert shown.sort_by("id").to_pylist() == rows
    duckdb = open_duckdb()
    if duckdb is not None and snapshot_id is None:
        found = duckdb.read(now.metadata_location.removeprefix("file://"), "id")
        assert found == [row["id"] for row in rows]
    return rows


def change(rng: random.Random, table: Any, model: dict[int, dict[str, Any]], version: int) -> str:
    """Delete or upsert some rows of a table and its model, and return how."""
    ids = sorted(rng.sample(range(130), rng.choice([1, 5, 40])))
    how = rng.choice(["hide", "rewrite", "where", "upsert", "keep"])
    if how in ("hide", "rewrite"):
        report = parquet_bloom.delete(table, ids, "id", mode=how)
        assert report.num_rows == sum(number in model for number in ids)
        for number in ids:
            model.pop(number, None)
    elif how == "where":
        day = rng.choice(["x/y", "100%"])
        parquet_bloom.delete(table, where=f"p = '{day}' and id < {ids[-1]}")
        for number in [number for number, row in model.items() if row["p"] == day and number < ids[-1]]:
            del model[number]
    else:
        rows = make_rows(rng, ids, f"new {rng.random()}")
        parquet_bloom.upsert(table, rows, "id", when_matched="update" if how == "upsert" else "keep")
        for row in rows.to_pylist():
            if how == "upsert" or row["id"] not in model:
                model[row["id"]] = row
    return how


def test_files_elsewhere(tmp_path: Path) -> None:
    """Rows of files that were added in place are hidden if a caller accepts them, and nothing is written there."""
    rows = make_rows(random.Random(1), list(range(60)), "first")
    (tmp_path / "elsewhere").mkdir()
    pq.write_table(rows, tmp_path / "elsewhere" / "a.parquet")
    table = tables.make_catalog(tmp_path).create_table("db.events", rows.schema)
    table.add_files([str(tmp_path / "elsewhere" / "a.parquet")])
    with pytest.raises(ParquetBloomError, match=r"a.parquet: rows of it may not .*iceberg\(..., outside=True\)"):
        parquet_bloom.delete(table, [5], "id")
    accepted = iceberg(table, outside=True)
    with pytest.raises(ParquetBloomError, match=r"a.parquet: rows of it cannot be deleted: it lies outside of the"):
        parquet_bloom.delete(accepted, [5], "id", mode="rewrite")
    for number in (5, 6):
        assert parquet_bloom.delete(accepted, [number], "id").num_rows == 1
    assert parquet_bloom.upsert(accepted, rows.slice(4, 5), "id").num_replaced == 3
    assert os.listdir(tmp_path / "elsewhere") == ["a.parquet"]
    shown = parquet_bloom.dataset(iceberg(tables.reload(table), outside=True)).scan().to_arrow()
    assert sorted(shown["id"].to_pylist()) == list(range(60))
    assert sorted(tables.reload(table).scan().to_arrow()["id"].to_pylist()) == list(range(60))
    assert parquet_bloom.embed_table(accepted, ["id"]).skipped[0].reason == "it lies outside of the table's folder"
    assert {file.how for file in parquet_bloom.delete(accepted, where="id >= 0").files} == {"removed"}
    assert tables.reload(table).scan().to_arrow().num_rows == 0


def test_what_cannot_be_searched_again_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are deleted, and the report says so, though their column has another name since."""
    table = tables.make_iceberg(tmp_path, 2)
    genuine = IcebergTarget.commit_rows

    def commit_rows(self: IcebergTarget, *given: Any) -> Any:
        version = genuine(self, *given)
        with tables.reload(table).update_schema() as update:
            update.rename_column("id", "number")
        return version

    monkeypatch.setattr(IcebergTarget, "commit_rows", commit_rows)
    report = parquet_bloom.delete(table, [5, 150], "id", mode="rewrite")
    assert (report.changed, report.num_rows, report.rows_after) == (True, 2, None)
    assert "may still hold them: what could not be searched again (column 'id': no such column)" in str(report)
    assert not {5, 150} & {*tables.reload(table).scan().to_arrow()["number"].to_pylist()}


@pytest.mark.ci
def test_changes_in_any_order(tmp_path: Path) -> None:
    done = set()
    for seed in seeds(max(scaled(2), 1)):
        rng = random.Random(seed)
        version = 2 + seed % 2
        table, model = make_table(rng, tmp_path / str(seed), version)
        steps: list[str] = []
        try:
            for _ in range(6):
                before, old = read(table), tables.reload(table).current_snapshot()
                steps.append(change(rng, tables.reload(table), model, version))
                assert read(table) == [model[number] for number in sorted(model)]
                assert read(table, old.snapshot_id) == before
        except BaseException as error:
            error.add_note(f"seed {seed}, version {version}: {steps}")
            raise
        done.update(steps)
    assert len(done) > 3
