"""Read one row of a row group of 1,000,000 by its pages, against pyarrow's `read_row_group` and a filter.

The file has one row group, 5 columns (an ascending timestamp; a random int64 id; a 36-byte request id; one of 1,000
device names; a float64), and a page index. Rows are queried by their timestamp, which page statistics locate, and by
their id, whose column has to be read completely; another row each time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _common import header, in_turn

import parquet_bloom
from parquet_bloom.file.metadata_cache import SETTLED_NS, SHARED_CACHE

ROWS = 1_000_000
TARGETS = {"ts": 50}
REPEAT = 21
PEER = "pyarrow, read_row_group and filter"


def make_table() -> pa.Table:
    rng = np.random.default_rng(7)
    raw = rng.bytes(16 * ROWS)
    ids = pa.array([str(uuid.UUID(bytes=raw[16 * i : 16 * i + 16])) for i in range(ROWS)])
    stamps = 1_700_000_000_000_000 + np.cumsum(rng.integers(1, 60_000_000, ROWS))
    return pa.table(
        {
            "ts": pa.array(stamps, pa.timestamp("us")),
            "user_id": rng.integers(0, 2**63, ROWS),
            "request_id": ids,
            "device": ids[:1000].take(pa.array(rng.integers(0, 1000, ROWS))),
            "amount": rng.random(ROWS),
        }
    )


def measure(path: Path, table: pa.Table, column: str) -> None:
    rows = iter(np.random.default_rng(3).integers(0, ROWS, 10 * REPEAT).tolist())
    row, value = 0, pa.scalar(0)
    results: dict[str, pa.Table] = {}
    connection = duckdb.connect()

    def another() -> None:
        nonlocal row, value
        row = next(rows)
        value = table[column][row]

    def run(name: str, read: Callable[[], Any]) -> Callable[[], None]:
        def runs() -> None:
            results[name] = read()

        return runs

    def read_all() -> pa.Table:
        read = pq.ParquetFile(path).read_row_group(0, table.schema.names)
        return read.filter(pc.equal(read[column], value))

    def first() -> pa.Table:
        SHARED_CACHE.clear()
        return parquet_bloom.read_table(path, [(column, "=", value)])

    query = f"from read_parquet('{path}') where {column} = ?"
    lazy = pl.scan_parquet(path)
    runs = {
        PEER: read_all,
        "pyarrow, read_table(filters=)": lambda: pq.read_table(path, filters=[(column, "=", value)]),
        "DuckDB": lambda: connection.sql(query, params=[value.as_py()]).to_arrow_table(),
        "polars": lambda: lazy.filter(pl.col(column) == value.as_py()).collect(),
        "parquet_bloom, footer not known": first,
        "parquet_bloom, again": lambda: parquet_bloom.read_table(path, [(column, "=", value)]),
    }
    another()
    for name, read in runs.items():
        results[name] = read()
        assert results[name].shape == (1, 5), name
    assert results[PEER].equals(results["parquet_bloom, again"])
    seconds = in_turn({name: run(name, read) for name, read in runs.items()}, REPEAT, before=another)
    assert all(result.shape == (1, 5) for result in results.values())
    print(f"{column} = ...: 1 of {ROWS:,} rows, another each time; medians of {REPEAT} runs in turn")
    for name, taken in seconds.items():
        print(f"  {name:36} {taken * 1e3:9.2f} ms   {seconds[PEER] / taken:6.1f} x")
    ratio = seconds[PEER] / seconds["parquet_bloom, again"]
    target = f" (asked: at least {TARGETS[column]})" if column in TARGETS else ""
    print(f"  ratio {ratio:.1f} x faster{target}\n")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, table = Path(folder, "a.parquet"), make_table()
        pq.write_table(table, path, row_group_size=ROWS, write_page_index=True)
        time.sleep(SETTLED_NS / 1e9 + 0.1)  # footers of more recently changed files are not cached
        header(
            "one row out of a row group of 1,000,000",
            f"file     {path.stat().st_size / 1e6:.0f} MB, 1 row group, 5 columns, snappy, page index",
            f"peers    pyarrow {pa.__version__}, DuckDB {duckdb.__version__}, polars {pl.__version__}",
        )
        for column in ("ts", "user_id"):
            measure(path, table, column)


if __name__ == "__main__":
    main()
