"""Files of several writers, written anew without random rows: the rows that stay are the old ones, and found."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.dropped_rows import assert_without
from support.random_cases.hunting import seeds
from support.random_cases.random_tables import draw_table
from support.scale import scaled
from support.writers import random_files

import parquet_bloom

WRITERS = {
    "pyarrow": random_files.by_pyarrow,
    "duckdb": random_files.by_duckdb,
    "datafusion": random_files.by_datafusion,
    "polars": random_files.by_polars,
}
HASHED = {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.string()}


@pytest.mark.parametrize("writer", WRITERS)
def test_random_rows_of_random_files(tmp_path: Path, writer: str) -> None:
    path, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for seed in seeds(scaled(4)):
        rng = random.Random(f"dropped {writer} {seed}")
        rows = rng.choice([1, 50, 700, 3000])
        table = draw_table(rng, random_files.KINDS[writer], rows)
        options = WRITERS[writer](rng, table, path, 2048 if writer == "duckdb" else rng.choice([rows, rows // 7 + 1]))
        try:
            read = pq.read_table(path)
        except OSError:  # pyarrow cannot read some of DuckDB's deltas
            assert writer == "duckdb"
            continue
        plain = [name for name in read.column_names if read.schema.field(name).type in HASHED]
        if plain and rng.random() < 0.6:
            parquet_bloom.embed(path, plain, keep_footer=rng.random() < 0.3, replace=True)
        gone = set(rng.sample(range(rows), rng.choice([0, 1, min(rows, 3), rows // 2, rows])))
        try:
            # pyarrow stores the whole dictionary of a dictionary-encoded column in each row group.
            assert_without(path, gone, target, trims=writer == "pyarrow")
            for name in plain[:2]:
                values = [value for number, value in enumerate(read[name].to_pylist()) if number not in gone]
                value = rng.choice(values) if values else None
                if value is not None:
                    found = parquet_bloom.read_table(target, [(name, "=", value)], [name]).num_rows
                    assert found == values.count(value), (name, value)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {options}, {sorted(gone)}: {error}") from error
        path.unlink()
        target.unlink()
