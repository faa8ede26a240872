"""Filters in a Delta table, and queries that use them. Read it from top to bottom.

    python examples/delta_table.py [FOLDER]

1. a Delta table of orders, written by deltalake, a commit a day
2. filters for customers and orders: one commit, in which no row changes
3. one order, by this package, by DuckDB and by polars, all through one dataset
4. a correction (deltalake's merge), and the filters of the files that it wrote

FOLDER keeps what is made; without it a temporary one is used. Needs
`pip install ".[delta]" duckdb polars` in the checkout.
"""

import random
import sys
import tempfile
import uuid
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import parquet_bloom

DAYS, ORDERS_PER_DAY, CUSTOMERS = 20, 5_000, 30_000


def write_day(table: Path, day: int) -> str:
    """Append a day's orders to the table, and return the id of one of them."""
    dice = random.Random(day)
    ids = [str(uuid.UUID(int=dice.getrandbits(128), version=4)) for _ in range(ORDERS_PER_DAY)]
    orders = pa.table(
        {
            "order_id": ids,
            "customer": [dice.randrange(CUSTOMERS) * 7919 for _ in ids],
            "cents": [dice.randrange(100, 100_000) for _ in ids],
            "day": [f"2026-03-{day + 1:02d}"] * ORDERS_PER_DAY,
        }
    )
    write_deltalake(table, orders, mode="append", partition_by=["day"])
    return ids[7]


def main(folder: Path) -> None:
    table = folder / "orders"
    folder.mkdir(parents=True, exist_ok=True)

    print(f"1. a Delta table: {DAYS} commits of {ORDERS_PER_DAY:,} orders")
    orders = [write_day(table, day) for day in range(DAYS)]
    wanted = orders[11]
    where = f"order_id = '{wanted}'"
    print(f"   {where}: {parquet_bloom.prune(table, where)}")

    print("2. filters, by a commit")
    print(f"   {parquet_bloom.embed_table(table, {'order_id': 0.001, 'customer': 0.001})}")
    print(f"   {where}: {parquet_bloom.prune(table, where)}")

    print("3. one dataset, three engines")
    dataset = parquet_bloom.dataset(table)
    ours = dataset.scan(where).to_arrow().select(["order_id", "cents"])
    by_duckdb = duckdb.sql(f"SELECT order_id, cents FROM dataset WHERE {where}").fetchall()
    by_polars = (
        parquet_bloom.scan_polars(table).filter(pl.col("order_id") == wanted).select("order_id", "cents").collect()
    )
    print(f"   parquet_bloom {[tuple(row.values()) for row in ours.to_pylist()]}")
    print(f"   DuckDB        {by_duckdb}")
    print(f"   polars        {by_polars.rows()}")

    print("4. a correction, and the filters of what it wrote")
    correction = pa.table({"order_id": [wanted], "cents": pa.array([1], pa.int64())})
    merge = DeltaTable(table).merge(correction, "t.order_id = s.order_id", source_alias="s", target_alias="t")
    merge.when_matched_update({"cents": "s.cents"}).execute()
    print(f"   {parquet_bloom.embed_table(table, {'order_id': 0.001, 'customer': 0.001})}")
    print(f"   the order now: {dataset.scan(where).to_arrow().column('cents').to_pylist()} cents")
    before = parquet_bloom.delta(table, version=DAYS)
    print(f"   at version {DAYS}: {parquet_bloom.read_table(before, where).column('cents').to_pylist()} cents")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="orders ") as name:
            main(Path(name))
