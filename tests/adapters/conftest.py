"""A lake whose ids are random, so that only filters can tell the files apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

FILES, ROWS = 12, 300


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    dice = np.random.default_rng(11)
    number = FILES * ROWS
    floats = dice.integers(-3, 4, number) / 2
    floats[::7] = np.nan
    floats[::11] = -0.0
    return pa.table(
        {
            "row": range(number),
            "id": dice.permutation(number * 9)[:number],
            "name": [None if row % 13 == 0 else f"n{row * 7919 % number}" for row in range(number)],
            "score": floats,
            "small": pa.array(dice.integers(-100, 100, number), pa.int16()),
            "at": pa.array(range(0, number * 1000, 1000), pa.timestamp("us")),
            "is_new": dice.integers(0, 2, number) == 1,
            "tags": [[f"t{row % 5}"] for row in range(number)],
        }
    )


@pytest.fixture(scope="module")
def lake(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake ü")
    for number in range(FILES):
        path = folder / f"day=2026-01-{number % 3 + 1:02}" / f"{number:02}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows.slice(number * ROWS, ROWS), path, row_group_size=100)
        parquet_bloom.embed(path, ["id", "name"], fpp=1e-6)
    return folder
