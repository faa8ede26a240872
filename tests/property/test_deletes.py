"""After random deletes, random tables have the rows that a model leaves, and their older versions all of theirs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_point, draw_predicate, rank_table
from support.scale import scaled

import parquet_bloom
from parquet_bloom.change.delete_rows import delete
from parquet_bloom.change.upsert_rows import upsert
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnsupportedTypeError

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from deltalake import DeltaTable
from support.random_cases.delta_tables import draw_delta
from support.random_cases.iceberg_tables import draw_table
from support.writers import changing_tables

DELETES = 3  # of a table


class Drawn:
    """A random table, as it is given to `delete`, and how its versions are read."""

    def __init__(self, kind: str, rng: random.Random, folder: Path):
        self.kind = kind
        if kind == "delta":
            self.given: Any = str(draw_delta(rng, folder).root)
            self.is_read_by_others = True
        else:
            table = draw_table(rng, folder / "table")
            catalog = changing_tables.make_catalog(folder / "catalog")
            self.given = catalog.register_table("db.events", table.metadata)
            self.is_read_by_others = not table.has_equality and not table.unusual

    def read(self, version: int | None = None) -> pa.Table:
        if self.kind == "delta":
            table = parquet_bloom.delta(self.given, version=version)
        else:
            table = parquet_bloom.iceberg(changing_tables.reload(self.given), snapshot_id=version)
        return parquet_bloom.dataset(table).scan().to_arrow()

    def read_otherwise(self) -> pa.Table:
        if self.kind == "delta":
            return pa.table(DeltaTable(self.given).scan())
        return changing_tables.reload(self.given).scan().to_arrow()


def sort_rows(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def is_read_alike(table: Drawn, rows: pa.Table) -> bool:
    """Compare a table's rows with what another library reads; return whether it does."""
    if not table.is_read_by_others:
        return False
    try:
        theirs = table.read_otherwise()
    except Exception:  # they do not read all
        return False
    assert theirs.num_rows == len(rows)
    assert not len(rows) or sort_rows(theirs.select(rows.schema.names)) == sort_rows(rows)
    return True


def draw_rows(rng: random.Random, rows: pa.Table) -> tuple[dict[str, Any], np.ndarray]:
    """Draw rows to delete: return the arguments that choose them, and which they are."""
    columns = rank_table(rows)
    names = [
        field.name
        for field in rows.schema
        if not pa.types.is_nested(field.type)
        and not pa.types.is_floating(field.type)
        and rows[field.name].null_count < len(rows)
    ]
    if not names or rng.random() < 0.5:
        drawn = (draw_point if rng.random() < 0.5 else draw_predicate)(rng, columns)
        return {"where": drawn.spell(rng)}, drawn.answer.true
    name = rng.choice(names)
    values = rows[name].to_pylist()
    distinct = sorted({value for value in values if value is not None}, key=repr)
    keys = rng.sample(distinct, rng.randint(1, min(3, len(distinct))))
    chosen = np.array([value in keys for value in values])
    is_plain = rng.random() < 0.5 or isinstance(rows.schema.field(name).type, pa.ExtensionType)
    return {"keys": [*keys, None] if is_plain else pa.array(keys, rows.schema.field(name).type), "on": name}, chosen


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_deleted_rows_are_gone_and_no_others(kind: str, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in seeds(max(6, scaled(6))):
        rng = random.Random(f"deletes {seed}")
        table = Drawn(kind, rng, tmp_path / str(seed))
        print(f"{kind} seed {seed}")
        for _ in range(DELETES):
            before = table.read()
            if not len(before):
                break
            arguments, chosen = draw_rows(rng, before)
            arguments["mode"] = rng.choice(["hide", "rewrite"])
            try:
                report = delete(table.given, **arguments)
            except (PredicateError, UnsupportedTypeError):  # a literal that fits no type
                tally["refused"] += 1
                continue
            except ParquetBloomError as error:
                if not any(word in str(error) for word in ("rows have ids", "equality deletes apply")):
                    raise
                tally["not anew"] += 1
                continue
            after = table.read()
            assert sort_rows(after) == sort_rows(before.take(np.flatnonzero(~chosen))), arguments
            assert report.num_rows == chosen.sum()
            assert report.changed == bool(chosen.sum())
            assert not delete(table.given, **arguments).changed
            assert sort_rows(table.read(report.old_version)) == sort_rows(before)
            tally.update(deletes=1, rows=report.num_rows)
            tally.update(file.how for file in report.files)
            tally["compared"] += is_read_alike(table, after)
    print(tally)
    assert min(tally[how] for how in ("hidden", "rewritten", "removed", "deletes", "compared")) > 0
    assert tally["refused"] < tally["deletes"] / 4


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_given_rows_take_the_place_of_those_with_their_keys(kind: str, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in seeds(max(6, scaled(6))):
        rng = random.Random(f"upserts {seed}")
        table = Drawn(kind, rng, tmp_path / str(seed))
        print(f"{kind} seed {seed}")
        for _ in range(DELETES):
            before = table.read()
            names = draw_key(rng, before)
            if len(before) < 2 or not names:
                break
            # Rows of the table with other values, and with their keys or with those of others, each key once.
            order = np.array([rng.randrange(len(before)) for _ in range(rng.randint(1, 20))])
            mixed = [
                before[name].take(order[rng.sample(range(len(order)), len(order))]) for name in before.schema.names
            ]
            given = pa.table(mixed, before.schema)
            keys = list(zip(*(given[name].to_pylist() for name in names), strict=True))
            first = [i for i, key in enumerate(keys) if None in key or keys.index(key) == i]
            given, keys = given.take(first), [keys[i] for i in first]
            there = list(zip(*(before[name].to_pylist() for name in names), strict=True))
            when_matched = rng.choice(["update", "keep"])
            if when_matched == "update":
                kept = [i for i, key in enumerate(there) if None in key or key not in keys]
                expected = pa.concat_tables([before.take(np.array(kept, np.int64)), given])
            else:
                new = [i for i, key in enumerate(keys) if None in key or key not in there]
                expected = pa.concat_tables([before, given.take(np.array(new, np.int64))])
            try:
                report = upsert(table.given, given, names, when_matched=when_matched)
            except ParquetBloomError as error:
                if "equality deletes apply" not in str(error):
                    raise
                continue
            after = table.read()
            assert sort_rows(after) == sort_rows(expected), (names, when_matched)
            assert len(after) == len(before) - report.num_replaced + report.num_added
            assert sort_rows(table.read(report.old_version)) == sort_rows(before)
            tally["compared"] += is_read_alike(table, after)
            tally.update(upserts=1, replaced=report.num_replaced, added=report.num_added, kept=report.num_kept)
    print(tally)
    assert min(tally["replaced"], tally["kept"], tally["added"]) > 0


def draw_key(rng: random.Random, rows: pa.Table) -> list[str]:
    """Draw one or two columns that can be a key."""
    names = [
        field.name
        for field in rows.schema
        if not pa.types.is_nested(field.type) and not pa.types.is_floating(field.type)
    ]
    return rng.sample(names, rng.randint(1, min(2, len(names)))) if names else []
