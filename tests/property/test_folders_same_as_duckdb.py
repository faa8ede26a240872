"""Random conditions over random trees of folders `name=value`: `read_table` gives the rows that DuckDB gives.

`PARQUET_BLOOM_HUNT_SECONDS=600` goes on with new seeds for so long; `PARQUET_BLOOM_HUNT_SEED` is the first.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom

FIRST_SEED = int(os.environ.get("PARQUET_BLOOM_HUNT_SEED", "0"))
SECONDS = float(os.environ.get("PARQUET_BLOOM_HUNT_SECONDS", "0"))
TREES = 10  # of the default suite
NULL = "__HIVE_DEFAULT_PARTITION__"

# The names of folders, literals to compare with, and DuckDB's type of them.
NUMBERS = (["1", "2", "3", "-4"], ["1", "2", "-4", "5", "2.5"], "BIGINT")
DAYS = (["2026-01-01", "2026-01-02", "2026-01-03"], ["'2026-01-01'", "DATE '2026-01-02'", "'2026-01-09'"], "DATE")
TEXTS = (["a", "b", "ä", "a%3Ab", "07"], ["'a'", "'ä'", "'a:b'", "'07'", "'zz'"], "VARCHAR")
FILE = ([], ["1", "2", "9"], "BIGINT")


def draw_leaf(dice: random.Random, pools: dict[str, Any]) -> str:
    name = dice.choice(list(pools))
    literals = pools[name][1]
    return dice.choice(
        [
            f"{name} {dice.choice(['=', '<>', '<', '<=', '>', '>='])} {dice.choice(literals)}",
            f"{name} {dice.choice(['', 'NOT '])}IN ({dice.choice(literals)}, {dice.choice([*literals, 'NULL'])})",
            f"{name} IS {dice.choice(['', 'NOT '])}NULL",
            f"{name} BETWEEN {dice.choice(literals)} AND {dice.choice(literals)}",
        ]
    )


def draw_condition(dice: random.Random, pools: dict[str, Any], depth: int) -> str:
    if depth == 0:
        return draw_leaf(dice, pools)
    parts = [f"({draw_condition(dice, pools, dice.randrange(depth))})" for _ in range(dice.randint(2, 3))]
    return dice.choice(["", "NOT "]) + "(" + dice.choice([" AND ", " OR "]).join(parts) + ")"


def draw_tree(dice: random.Random, root: Path, pools: dict[str, Any]) -> None:
    number = 0
    for _ in range(dice.randint(2, 8)):
        folder = root
        for name, (values, _, _) in pools.items():
            folder /= f"{name}={NULL if dice.random() < 0.15 else dice.choice(values)}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = range(number, number + dice.randint(1, 12))
        values = pa.array([dice.choice([None, *range(6)]) for _ in rows], pa.int64())
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"row": rows, "x": values}), path, row_group_size=5)
        if dice.random() < 0.5:
            parquet_bloom.embed(path, ["x"])
        number = rows.stop


def hunt(seed: int, root: Path, connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """Compare one tree's rows under some conditions; returns how many files there were, and how many were unopened."""
    dice = random.Random(seed)
    pools = {name: dice.choice([NUMBERS, DAYS, TEXTS]) for name in ["p", "q"][: dice.randint(1, 2)]}
    draw_tree(dice, root, pools)
    # DuckDB takes a name of which every value is null for text, and will not compare that with a number.
    columns = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, (_, _, kind) in pools.items())
    scan = f"SELECT row, x, {columns} FROM read_parquet('{root}/**/*.parquet', hive_partitioning=1)"
    total = unopened = 0
    names = ["row", *pools]
    for _ in range(15):
        where = draw_condition(dice, {**pools, "x": FILE}, dice.randint(0, 2))
        query = f"SELECT {', '.join(names)} FROM ({scan}) WHERE {where} ORDER BY row"
        expected = connection.execute(query).fetchall()
        table = parquet_bloom.read_table(root, where, names).sort_by("row")
        assert [tuple(row[name] for name in names) for row in table.to_pylist()] == expected, (seed, where)
        report = parquet_bloom.prune(root, where)
        total += report.total_files
        unopened += report.unopened_files
    return total, unopened


def test_same_rows_as_duckdb_over_folders(tmp_path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    seed, total, unopened = FIRST_SEED, 0, 0
    with duckdb.connect() as connection:
        connection.execute("SET threads=1")
        while seed < FIRST_SEED + TREES or time.monotonic() < deadline:
            counts = hunt(seed, tmp_path / str(seed), connection)
            total, unopened = total + counts[0], unopened + counts[1]
            seed += 1
    print(f"{seed - FIRST_SEED} trees, {unopened} of {total} files not opened")
    assert unopened > total / 5  # else nothing was shown
