"""Filters go into random Delta and Iceberg tables: rows stay, deleted ones stay deleted, queries find the same."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.random_cases.hunting import seeds
from support.scale import scaled

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnsupportedTypeError
from parquet_bloom.predicate.row_filter import row_mask

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from support.random_cases.delta_tables import draw_delta
from support.random_cases.iceberg_tables import draw_table
from support.random_cases.table_predicates import draw_node, find_columns
from support.writers import changing_tables as tables


def read_all(source: Any) -> pa.Table:
    return parquet_bloom.dataset(source).scan().to_arrow()


def texts(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def choose_columns(rng: random.Random, schema: pa.Schema, partitions: set[str]) -> list[str]:
    names = []
    for field in schema:
        if field.name in partitions or pa.types.is_boolean(field.type):
            continue
        if pa.types.is_struct(field.type):
            names += [f"{field.name}.{part.name}" for part in field.type if not pa.types.is_boolean(part.type)]
        elif not pa.types.is_nested(field.type):
            names.append(field.name)
    return rng.sample(names, min(len(names), rng.randint(1, 3)))


def check(rng: random.Random, given: Any, source: Any, partitions: set[str], tally: Counter[str], context: str) -> None:
    """Compare a table before and after; `source` opens it."""
    before = read_all(source())
    version = source().read_snapshot().version
    columns = choose_columns(rng, before.schema, partitions)
    fpp = rng.choice([0.5, 0.01])
    if source().kind == "iceberg" and tables.reload(given).metadata.format_version == 3:
        with pytest.raises(ParquetBloomError, match="format version 3"):
            parquet_bloom.embed_table(given, columns, fpp=fpp)
        tally["refused"] += 1
        return
    report = parquet_bloom.embed_table(given, columns, fpp=fpp)
    tally["tables"] += 1
    tally["files"] += len(report.files)
    tally["skipped"] += len(report.skipped)
    for one in report.skipped:
        assert any(word in one.reason for word in ("deletes", "deletion vector", "quoted")), f"{context}: {one}"
    after = read_all(source())
    assert texts(after) == texts(before), context
    assert report.old_version == version
    assert source().read_snapshot().version == report.new_version
    assert report.changed is bool(report.files)
    if report.changed:
        tally["commits"] += 1
    assert not parquet_bloom.embed_table(given, columns).changed, context
    dataset = parquet_bloom.dataset(source())
    pool = find_columns(after)
    for node in (draw_node(rng, pool) for _ in range(10)):
        try:
            expected = after.filter(row_mask(after, node))
        except (PredicateError, UnsupportedTypeError):  # a literal that fits no type
            continue
        assert texts(dataset.scan(node).to_arrow()) == texts(expected), f"{context}: {node}"
        tally["queries"] += 1


def hunt_delta(seed: int, folder: Path, tally: Counter[str]) -> None:
    from deltalake import DeltaTable

    rng = random.Random(seed)
    table = draw_delta(rng, folder)
    root, names = str(table.root), {one.name for one in table.partitions}
    latest = max(table.rows)
    check(rng, root, lambda: parquet_bloom.delta(root), names, tally, f"delta seed {seed}")
    before = read_all(parquet_bloom.delta(root, version=latest))
    try:
        theirs = pa.table(DeltaTable(root).scan())
    except Exception:  # theirs
        tally["deltalake cannot"] += 1
        return
    same = texts(theirs.select(before.schema.names)) == texts(before)
    tally["deltalake same" if same else "deltalake differs"] += 1


def hunt_iceberg(seed: int, folder: Path, tally: Counter[str]) -> None:
    rng = random.Random(seed)
    table = draw_table(rng, folder / "table")
    registered = tables.make_catalog(folder / "catalog").register_table("db.events", table.metadata)
    check(rng, registered, lambda: parquet_bloom.iceberg(registered), set(), tally, f"iceberg seed {seed}")
    rows = read_all(parquet_bloom.iceberg(registered))
    assert sorted(rows["id"].to_pylist()) == table.list_ids()
    if not table.has_equality and not table.unusual:
        same = texts(tables.reload(registered).scan().to_arrow()) == texts(rows)
        tally["pyiceberg same" if same else "pyiceberg differs"] += 1


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_random_tables_keep_their_rows(kind: str, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in seeds(scaled(3)):
        folder = tmp_path / str(seed)
        (hunt_delta if kind == "delta" else hunt_iceberg)(seed, folder, tally)
        shutil.rmtree(folder)
    print(dict(tally))
    assert tally["commits"]
    assert not tally["deltalake differs"]
    assert not tally["pyiceberg differs"]
