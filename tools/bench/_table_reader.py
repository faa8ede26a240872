"""One reader of a Delta or Iceberg table, in a process of its own: `_table_reader.py ENGINE TABLE`.

It reads ids from stdin, one or more a line, and answers with a line of JSON: rows, seconds, bytes read by system calls,
seconds since the start, seconds of CPU time.
DuckDB's Python needs nothing but DuckDB and its extensions.
"""

import glob
import importlib
import json
import os
import sys
import time


def read_bytes() -> int:
    with open("/proc/self/io") as file:
        return int(next(line for line in file if line.startswith("rchar")).split()[1])


def condition(ids: list[int]) -> str:
    return f"id = {ids[0]}" if len(ids) == 1 else f"id IN ({', '.join(map(str, ids))})"


def open_engine(engine: str, table: str):
    """Return what gives the number of rows with some ids."""
    kind, name = engine.split("/")
    if name == "parquet_bloom":
        import parquet_bloom

        dataset = parquet_bloom.dataset(getattr(parquet_bloom, kind)(table))
        return lambda ids: dataset.scan(condition(ids)).to_arrow().num_rows
    if name == "deltalake":
        import pyarrow as pa
        from deltalake import DeltaTable

        opened = DeltaTable(table)
        return lambda ids: pa.table(opened.scan(predicate=condition(ids))).num_rows
    if name == "polars":
        import polars as pl

        scan = pl.scan_delta if kind == "delta" else pl.scan_iceberg
        return lambda ids: scan(table).filter(pl.col("id").is_in(ids)).collect().height
    if name == "pyiceberg":
        from pyiceberg.table import StaticTable

        static = StaticTable.from_metadata(table)
        return lambda ids: static.scan(row_filter=condition(ids)).to_arrow().num_rows
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in ("avro", "iceberg", "delta"):
        folder = os.path.dirname(importlib.import_module(f"duckdb_extension_{extension}").__file__)
        connection.execute(f"LOAD '{glob.glob(folder + '/**/*.duckdb_extension', recursive=True)[0]}'")
    return lambda ids: len(
        connection.execute(f"SELECT * FROM {kind}_scan('{table}') WHERE {condition(ids)}").fetchall()
    )


def main() -> None:
    start = time.perf_counter()
    look_up = open_engine(*sys.argv[1:])
    for line in sys.stdin:
        begun, used, before = time.perf_counter(), time.process_time(), read_bytes()
        rows = look_up([int(number) for number in line.split()])
        now = time.perf_counter()
        first = now - start if start else None
        start = 0.0
        cpu = time.process_time() - used
        print(json.dumps([rows, now - begun, read_bytes() - before, first, cpu]), flush=True)


if __name__ == "__main__":
    main()
