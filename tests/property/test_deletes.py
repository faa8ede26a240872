"""After random deletes, random tables have the rows that a model leaves, and their older versions all of theirs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_point, draw_predicate, rank_table
from support.scale import scaled

import parquet_bloom
from parquet_bloom.change.delete_rows import delete
from parquet_bloom.errors import PredicateError, UnsupportedTypeError

pytest.importorskip("deltalake")
from deltalake import DeltaTable
from support.random_cases.delta_tables import draw_delta

DELETES = 3  # of a table


def sort_rows(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def read_all(root: str, version: int | None = None) -> pa.Table:
    return parquet_bloom.dataset(parquet_bloom.delta(root, version=version)).scan().to_arrow()


def draw_rows(rng: random.Random, rows: pa.Table) -> tuple[dict[str, Any], np.ndarray] | None:
    """Draw rows to delete: return the arguments that choose them, and which they are."""
    columns = rank_table(rows)
    if rng.random() < 0.5:
        drawn = (draw_point if rng.random() < 0.5 else draw_predicate)(rng, columns)
        return {"where": drawn.spell(rng)}, drawn.answer.true
    names = [
        field.name
        for field in rows.schema
        if not pa.types.is_nested(field.type)
        and not pa.types.is_floating(field.type)
        and rows[field.name].null_count < len(rows)
    ]
    name = rng.choice(names)
    values = rows[name].drop_null().unique()
    keys = values.take(pa.array(rng.sample(range(len(values)), rng.randint(1, min(3, len(values))))))
    chosen = pc.is_in(rows[name], keys)
    given = keys if rng.random() < 0.5 else [*keys.to_pylist(), None]
    return {"keys": given, "on": name}, np.asarray(chosen)


def test_deleted_rows_are_gone_and_no_others(tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in seeds(max(6, scaled(6))):
        rng = random.Random(f"deletes {seed}")
        root = str(draw_delta(rng, tmp_path / str(seed)).root)
        print(f"delta seed {seed}")
        for _ in range(DELETES):
            before = read_all(root)
            if not len(before):
                break
            drawn = draw_rows(rng, before)
            assert drawn is not None
            arguments, chosen = drawn
            try:
                report = delete(root, **arguments)
            except (PredicateError, UnsupportedTypeError):  # a literal that fits no type
                tally["refused"] += 1
                continue
            after = read_all(root)
            assert sort_rows(after) == sort_rows(before.take(np.flatnonzero(~chosen))), arguments
            assert report.num_rows == chosen.sum()
            assert report.changed == bool(chosen.sum())
            assert not delete(root, **arguments).changed
            assert sort_rows(read_all(root, report.old_version)) == sort_rows(before)
            theirs = pa.table(DeltaTable(root).scan())
            assert theirs.num_rows == len(after)
            if len(after):
                assert sort_rows(theirs.select(after.schema.names)) == sort_rows(after)
            tally.update(deletes=1, rows=report.num_rows, vectors=sum(file.how == "hidden" for file in report.files))
            tally["removed"] += sum(file.how == "removed" for file in report.files)
    print(tally)
    assert min(tally["vectors"], tally["removed"], tally["deletes"]) > 0
    assert tally["refused"] < tally["deletes"] / 4
