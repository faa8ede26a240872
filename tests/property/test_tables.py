"""Random Delta and Iceberg tables show the rows that they have by the formats' rules, whatever a query is for.

With and without an index, which is made at one version of the table, perhaps brought up to date at another, and asked
at any; and before and after filters are embedded. Columns have been renamed, dropped and added meanwhile, files
replaced and rows deleted.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_point, draw_predicate, draw_text_leaf, rank_table
from support.scale import scaled

import parquet_bloom
from parquet_bloom import LakeIndex
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError, UnsupportedTypeError
from parquet_bloom.predicate.key_expression import GRAMS, KeyExpression

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from support.random_cases.delta_tables import draw_delta
from support.random_cases.iceberg_tables import draw_table
from support.writers import changing_tables

QUERIES = 10  # of a table, or of one of its versions

pytestmark = pytest.mark.parametrize("kind", ["delta", "iceberg"])


@dataclass
class Version:
    """A version of a table: what opens it, the values that its rows have, and how another library reads it."""

    source: Callable[[], Any]
    has_rows: Callable[[pa.Table], bool]
    read_otherwise: Callable[[], pa.Table] | None = None


def draw_versions(kind: str, rng: random.Random, folder: Path, in_catalog: bool = False) -> tuple[Any, list[Version]]:
    """Write a table; return what it is embedded by, and its versions, the latest one last."""
    if kind == "delta":
        delta = draw_delta(rng, folder)
        root = str(delta.root)

        def make(version: int | None) -> Version:
            expected = _as_texts(delta.rows[max(delta.rows) if version is None else version])
            return Version(
                lambda: parquet_bloom.delta(root, version=version),
                lambda rows: _as_texts(rows.to_pylist()) == expected,
                lambda: pa.table(DeltaTable(root, version=version).scan()),
            )

        return root, [*map(make, sorted(delta.rows)), make(None)]
    table = draw_table(rng, folder / "table")
    opened: Any = table.metadata
    if in_catalog:
        opened = changing_tables.make_catalog(folder / "catalog").register_table("db.events", table.metadata)
    ids = [snapshot.snapshot_id for snapshot in StaticTable.from_metadata(table.metadata).snapshots()]
    versions = [
        Version(lambda one=one: parquet_bloom.iceberg(opened, snapshot_id=one), lambda rows: True) for one in ids
    ]
    latest = Version(
        lambda: parquet_bloom.iceberg(opened), lambda rows: sorted(rows["id"].to_pylist()) == table.list_ids()
    )
    if not table.has_equality and not table.unusual:
        latest.read_otherwise = lambda: (
            (changing_tables.reload(opened) if in_catalog else StaticTable.from_metadata(opened)).scan().to_arrow()
        )
    return opened, [*versions, latest]


def _as_texts(rows: list[dict[str, Any]]) -> list[str]:
    def plain(value: Any) -> Any:
        if hasattr(value, "astimezone"):
            return value.astimezone().isoformat()
        return f"{value:.2f}" if type(value).__name__ == "Decimal" else repr(value)

    return sorted(repr([(name, plain(value)) for name, value in sorted(row.items())]) for row in rows)


def sort_rows(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def read_all(version: Version) -> pa.Table:
    return parquet_bloom.dataset(version.source()).scan().to_arrow()


def check_queries(rng: random.Random, dataset: Any, rows: pa.Table, tally: Counter[str]) -> None:
    """Hold random queries of a dataset against the oracle's answer over all of its rows."""
    columns = rank_table(rows)
    texts = [column for column in columns if pa.types.is_string(column.arrow)]
    for _ in range(QUERIES):
        drawn = (draw_point if rng.random() < 0.5 else draw_predicate)(rng, columns)
        if texts and rng.random() < 0.2:
            drawn = draw_predicate(rng, texts, rng.choice([0, 3]), draw_text_leaf)
        scan = dataset.scan(drawn.spell(rng))
        try:
            found = scan.to_arrow()
        except (PredicateError, UnsupportedTypeError):  # a literal that fits no type
            tally["refused"] += 1
            continue
        plan, expected = scan.plan(), rows.take(np.flatnonzero(drawn.answer.true))
        assert sort_rows(found) == sort_rows(expected), drawn.node
        assert scan.count_rows() == len(expected), drawn.node
        tally.update(queries=1, matched=bool(len(expected)), files=plan.total_files, unopened=plan.unopened_files)
        tally["by index"] += plan.unopened_by.get("index", 0)


def draw_tables(
    kind: str, folder: Path, in_catalog: bool = False
) -> Iterator[tuple[random.Random, Any, list[Version]]]:
    """Yield tables, which are all written before the first one is used."""
    drawn = []
    for seed in seeds(max(4, scaled(1.4))):  # with fewer, some have no deletes, or nothing to skip
        rng = random.Random(f"{folder.name} {seed}")
        drawn.append((seed, rng, *draw_versions(kind, rng, folder / str(seed), in_catalog)))
    for seed, *table in drawn:
        print(f"{kind} seed {seed}")
        yield tuple(table)


def test_queries_find_the_rows_that_a_version_has(kind: str, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for rng, _, versions in draw_tables(kind, tmp_path):
        for version in {*rng.sample(range(len(versions)), min(2, len(versions))), len(versions) - 1}:
            one = versions[version]
            rows = read_all(one)
            assert one.has_rows(rows)
            check_queries(rng, parquet_bloom.dataset(one.source()), rows, tally)
            try:
                theirs = one.read_otherwise and one.read_otherwise()
            except Exception:  # they do not read all
                continue
            if theirs is not None:
                assert sort_rows(theirs.select(rows.schema.names)) == sort_rows(rows)
                tally["compared"] += 1
    assert tally["unopened"]
    assert tally["compared"] or kind == "iceberg"  # which few tables are simple enough for
    assert tally["matched"] > tally["queries"] / 10
    assert tally["refused"] < tally["queries"] / 10


def test_an_index_of_another_version_hides_no_row(kind: str, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for rng, _, versions in draw_tables(kind, tmp_path):
        if not tally["tables"]:
            time.sleep(2.5)  # an index does not rely on files that may change once more without another time
        tally["tables"] += 1
        first = rng.randrange(len(versions))
        schema = versions[first].source().read_snapshot().schema
        names = [name for field in schema for name in (field.name, *_list_fields(field))]
        columns = rng.sample(names, min(len(names), rng.choice([1, 2, 5])))
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        columns += [KeyExpression(GRAMS, [name], rng.choice(["", "lower"])) for name in texts]
        options = {"granularity": rng.choice(["file", "row_group"]), "lake": versions[-1].source()}
        path = tmp_path / f"index {tally['tables']}"
        while True:
            try:
                index = LakeIndex.create(path, columns, **options)
                break
            except ParquetBloomError as error:  # of such types there are no indexes
                columns.remove(error.column)
        with index:
            latest = [None] if rng.random() < 0.5 else []
            later = rng.sample(versions[first:], rng.choice([0, 1]))
            for source in [*(one.source() for one in (versions[first], *later)), *latest]:
                try:
                    tally["appended"] += index.append(source).added
                except UnknownColumnError:  # no file has it: it was added since, or dropped before
                    continue
            for one in rng.sample(versions, min(2, len(versions))):
                dataset = parquet_bloom.dataset(one.source(), index=rng.choice([index, path]))
                check_queries(rng, dataset, read_all(one), tally)
            check_queries(rng, parquet_bloom.dataset(None, index=path), read_all(versions[-1]), tally)
    assert tally["appended"]
    assert tally["by index"]


def _list_fields(field: pa.Field) -> list[str]:
    return [f"{field.name}.{part.name}" for part in field.type] if pa.types.is_struct(field.type) else []


def test_embedding_changes_no_rows(kind: str, tmp_path: Path) -> None:
    """Deleted ones stay deleted, and other libraries see the same ones."""
    tally: Counter[str] = Counter()
    for rng, given, versions in draw_tables(kind, tmp_path, in_catalog=True):
        latest = versions[-1]
        before, snapshot = read_all(latest), latest.source().read_snapshot()
        partitions = {*snapshot.partition_values.schema.names}
        names = [
            name
            for field in before.schema
            for name in (_list_fields(field) or [field.name])
            if field.name not in partitions and not pa.types.is_boolean(field.type)
        ]
        columns, fpp = rng.sample(names, min(len(names), rng.randint(1, 3))), rng.choice([0.5, 0.01])
        report = parquet_bloom.embed_table(given, columns, fpp=fpp)
        for one in report.skipped:
            assert any(word in one.reason for word in ("deletes", "deletion vector", "quoted")), one
        after = read_all(latest)
        assert sort_rows(after) == sort_rows(before)
        assert latest.has_rows(after)
        assert (report.old_version, report.new_version) == (
            snapshot.version,
            latest.source().read_snapshot().version,
        )
        assert report.changed is bool(report.files)
        tally["commits"] += report.changed
        assert not parquet_bloom.embed_table(given, columns).changed
        check_queries(rng, parquet_bloom.dataset(latest.source()), after, tally)
        try:
            theirs = latest.read_otherwise and latest.read_otherwise()
        except Exception:  # they do not read all
            continue
        assert theirs is None or sort_rows(theirs.select(before.schema.names)) == sort_rows(after)
    assert tally["commits"]
