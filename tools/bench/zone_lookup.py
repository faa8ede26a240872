"""Read one row of a row group of 1,000,000 by a zone index, against pyarrow's `read_row_group` and a filter.

The files have one row group, 5 columns (a 36-byte request id, which is queried; an ascending timestamp; a random int64
user; an address of about 80 bytes; a float64), and a page index. One has pyarrow's default pages (20,000 rows or 1 MB),
the other pages of at most as many rows as a zone, as reading a row requires decoding its page up to it. The zones have
8,192 rows, with filters of 32 KiB each. Present ids, another one each time, and absent ones are looked up. `--profile`
prints where the time of a lookup goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from _common import header, in_turn

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.file.metadata_cache import SETTLED_NS, SHARED_CACHE

ROWS, ZONE = 1_000_000, 8192
TARGET = 50
REPEAT = 11
IN_A_ROW = 5  # lookups, each of another value
LAYOUTS = {"pages as pyarrow makes them": {}, f"pages of at most {ZONE:,} rows": {"max_rows_per_page": ZONE}}
PEER = "pyarrow, read_row_group and filter"
OURS = "read_table, an open ZoneIndex"


def ids_of(rng: np.random.Generator, count: int) -> list[str]:
    raw = rng.bytes(16 * count)
    return [str(uuid.UUID(bytes=raw[16 * i : 16 * i + 16])) for i in range(count)]


def make_table() -> pa.Table:
    rng = np.random.default_rng(7)
    stamps = 1_700_000_000_000_000 + np.cumsum(rng.integers(1, 60_000_000, ROWS))
    parts = [f"https://shop.example/{kind}/" for kind in ("basket", "search", "product", "account")]
    ends = ids_of(rng, ROWS)
    kinds = rng.integers(0, len(parts), ROWS).tolist()
    urls = [
        f"{parts[kind]}{number % 977}?session={end}" for number, (kind, end) in enumerate(zip(kinds, ends, strict=True))
    ]
    return pa.table(
        {
            "request_id": ids_of(rng, ROWS),
            "ts": pa.array(stamps, pa.timestamp("us")),
            "user_id": rng.integers(0, 2**63, ROWS),
            "url": urls,
            "amount": rng.random(ROWS),
        }
    )


def measure(path: Path, zone_path: Path, table: pa.Table, index: zones.ZoneIndex, present: bool) -> None:
    rng = np.random.default_rng(3)
    count = 20 * REPEAT * IN_A_ROW
    ids: Iterator[str] = iter([table["request_id"][int(row)].as_py() for row in rng.integers(0, ROWS, count)])
    if not present:
        ids = iter(ids_of(rng, count))
    value = next(ids)
    results: dict[str, pa.Table] = {}

    def ours(given: object) -> pa.Table:
        return parquet_bloom.read_table(path, [("request_id", "=", value)], zones=given)

    def read_all() -> pa.Table:
        read = pq.ParquetFile(path).read_row_group(0)
        return read.filter(pc.equal(read["request_id"], value))

    def first() -> pa.Table:
        SHARED_CACHE.clear()
        return ours(zone_path)

    readers = {
        PEER: read_all,
        "read_table, without zones": lambda: parquet_bloom.read_table(path, [("request_id", "=", value)]),
        "read_table, a path, footer not known": first,
        "read_table, a path": lambda: ours(zone_path),
        OURS: lambda: ours(index),
    }

    def run(name: str) -> Callable[[], None]:
        def runs() -> None:
            nonlocal value
            for _ in range(IN_A_ROW):
                value = next(ids)
                results[name] = readers[name]()

        return runs

    for name in readers:
        results[name] = readers[name]()
        assert results[name].equals(results[PEER]), name
        assert results[name].num_rows == present, name
    in_a_row = in_turn({name: run(name) for name in readers}, REPEAT)
    seconds = {name: taken / IN_A_ROW for name, taken in in_a_row.items()}
    what = f"1 of {ROWS:,} rows, another each time" if present else "no row, another value each time"
    print(f"request_id = ...: {what}; medians of {REPEAT} runs in turn, each of {IN_A_ROW} lookups; one lookup takes")
    for name, taken in seconds.items():
        print(f"  {name:38} {taken * 1e3:9.2f} ms   {seconds[PEER] / taken:6.1f} x")
    report = parquet_bloom.prune(path, [("request_id", "=", value)], zones=index)
    remaining = sum(one.num_left for file in report.files for one in file.row_groups if one.read)
    print(f"  rows left by zones: {remaining:,}")
    print(f"  ratio {seconds[PEER] / seconds[OURS]:.1f} x faster (asked: at least {TARGET})")
    # pyarrow decodes columns on all processors, a lookup uses one.
    busy = in_turn({name: run(name) for name in (PEER, OURS)}, REPEAT, clock=time.process_time)
    peer, ours_busy = (busy[name] / IN_A_ROW * 1e3 for name in (PEER, OURS))
    print(f"  time of processors: {peer:.2f} ms and {ours_busy:.2f} ms, {peer / ours_busy:.1f} x\n")


def profile(path: Path, table: pa.Table, index: zones.ZoneIndex) -> None:
    rows = np.random.default_rng(5).integers(0, ROWS, 200).tolist()
    values = [table["request_id"][row].as_py() for row in rows]
    with cProfile.Profile() as profiler:
        for value in values:
            parquet_bloom.read_table(path, [("request_id", "=", value)], zones=index)
    pstats.Stats(profiler).sort_stats("cumtime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="print where the time of 200 lookups goes")
    arguments = parser.parse_args()
    table = make_table()
    for name, options in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path, zone_path = Path(folder, "a.parquet"), Path(folder, "zones", "request_id.arrow")
            zone_path.parent.mkdir()
            pq.write_table(table, path, row_group_size=ROWS, write_page_index=True, **options)
            time.sleep(SETTLED_NS / 1e9 + 0.1)  # footers of more recently changed files are not cached
            started = time.perf_counter()
            zones.build(path, "request_id", zone_path, rows_per_zone=ZONE)
            taken = time.perf_counter() - started
            size = zone_path.stat().st_size / 1e6
            index = zones.open(zone_path)
            header(
                f"one row out of a row group of 1,000,000, by zones; {name}",
                f"file     {path.stat().st_size / 1e6:.0f} MB, 1 row group, 5 columns, snappy, page index",
                f"zones    {len(index)} of {ZONE:,} rows, {size:.1f} MB, built in {taken:.2f} s",
                f"peer     pyarrow {pa.__version__}",
            )
            with index:
                for present in (True, False):
                    measure(path, zone_path, table, index, present)
                if arguments.profile:
                    profile(path, table, index)


if __name__ == "__main__":
    main()
