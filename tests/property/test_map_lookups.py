"""Random lookups in random maps, by four ways to store them: the rows are DuckDB's, and none is lost by pruning."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scale import scaled

import parquet_bloom

GROUPS, GROUP_ROWS = 6, 25
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "t": (pa.string(), ["", "a", "b", "k1", "k2", "ä"]),
    "n": (pa.int32(), [-5, 0, 1, 2, 70_000]),
}
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [-3, 0, 1, 2, 3, 2**40]),
    "s": (pa.string(), ["", "a", "ab", "b", "x" * 80]),
    "f": (pa.float64(), [-1.5, -0.0, 0.0, 0.5, float("inf")]),  # DuckDB prunes NaN by bounds that it is not in
}
STORAGES: dict[str, dict[str, Any]] = {
    "dictionaries": {},
    "plain": {"use_dictionary": False},
    "pages": {"data_page_size": 64, "write_batch_size": 4, "write_page_index": True},
    "no statistics": {"write_statistics": False, "use_dictionary": False},
}


def draw_maps(rng: random.Random, keys: list[Any], values: list[Any]) -> list[Any]:
    """Draw maps whose row groups have some of the keys and some of the values each."""
    maps: list[Any] = []
    for _ in range(GROUPS):
        some_keys = rng.sample(keys, rng.randint(1, 3))
        some_values = [*rng.sample(values, rng.randint(1, 3)), *([None] if rng.random() < 0.4 else [])]
        for _ in range(GROUP_ROWS):
            if rng.random() < 0.1:
                maps.append(None)
            else:
                count = rng.choice([0, 1, 1, 2, 3])
                maps.append([(rng.choice(some_keys), rng.choice(some_values)) for _ in range(count)])
    return maps


def spell(value: Any) -> str:
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)"
    return "'" + value + "'" if isinstance(value, str) else str(value)


def draw_comparison(rng: random.Random) -> str:
    key, value = rng.choice([*KEYS]), rng.choice([*VALUES])
    subject = f"{key}{value}[{spell(rng.choice(KEYS[key][1]))}]"
    pool = [*map(spell, VALUES[value][1])]
    kind = rng.choice(["compare", "compare", "in", "between", "null", "pattern"])
    if kind == "null":
        return f"{subject} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == "in":
        literals = rng.choices([*pool, "NULL"], k=rng.randint(1, 4))
        return f"{subject} {rng.choice(['', 'NOT '])}IN ({', '.join(literals)})"
    if kind == "between":
        return f"{subject} BETWEEN {rng.choice(pool)} AND {rng.choice(pool)}"
    if kind == "pattern" and value == "s":
        return f"{subject} {rng.choice(['', 'NOT '])}LIKE '{rng.choice(['a%', '%b', 'x%', '%', '_'])}'"
    operators = ["=", "=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    return f"{subject} {rng.choice(operators)} {rng.choice(pool)}"


def draw_condition(rng: random.Random, depth: int = 0) -> str:
    if depth == 2 or rng.random() < 0.5:
        return rng.choice(["", "", "NOT "]) + draw_comparison(rng)
    word = rng.choice([" AND ", " OR "])
    joined = word.join(f"({draw_condition(rng, depth + 1)})" for _ in range(rng.randint(2, 3)))
    return f"NOT ({joined})" if rng.random() < 0.2 else joined


@pytest.mark.parametrize("storage", [*STORAGES])
def test_rows_and_pruning(tmp_path: Path, storage: str) -> None:
    rng = random.Random(f"maps in {storage}")
    skipped = 0
    for number in range(scaled(2)):
        columns: dict[str, Any] = {"row": range(GROUPS * GROUP_ROWS)}
        for key, (key_type, keys) in KEYS.items():
            for value, (value_type, values) in VALUES.items():
                columns[key + value] = pa.array(draw_maps(rng, keys, values), pa.map_(key_type, value_type))
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=GROUP_ROWS, **STORAGES[storage])
        if storage == "no statistics":
            names = [f"{key}{value}.key_value.{part}" for key in KEYS for value in "is" for part in ("key", "value")]
            assert parquet_bloom.embed(path, names).num_filters == len(names) * GROUPS
        for _ in range(scaled(40)):
            where = draw_condition(rng)
            expected = duckdb.sql(f"SELECT row FROM '{path}' WHERE {where} ORDER BY row").fetchall()
            table = parquet_bloom.read_table(path, where)
            assert [(row,) for row in table["row"].to_pylist()] == expected, where
            skipped += len(parquet_bloom.prune(path, where).skipped)
    assert skipped > scaled(2) * scaled(40) * GROUPS // 10
