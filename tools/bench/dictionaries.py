"""Dictionaries as evidence: queries that no filter or statistics can prune, over a lake as Spark writes it.

python tools/bench/dictionaries.py [--folder FOLDER] [--files N] [--rows N] [--repeat N] [--latency MS]

The lake has files of one row group without filters, made once by Spark in the folder given, and reused: 20 of 200
services a file, 30 of 360 paths, of which one file in 50 has some with "checkout". `ms` and `msg` have no dictionary.

not used    parquet_bloom with the dictionary level switched off: what the level costs where it decides nothing
first       the first query of a process that has imported what it needs, by wall clock
store       the same files in a store on loopback that answers each request after 30 ms (`_slow_server.py`)
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from _common import header, in_turn, positive  # first, to import the package of this checkout
from _slow_store import Server, url

import parquet_bloom
from parquet_bloom.file.metadata_cache import SHARED_CACHE
from parquet_bloom.predicate.pruning import PruningPredicate

QUERIES = (
    "service = 'service-007' AND level <> 'INFO'",
    "path LIKE '%checkout%'",
    "service = 'service-007' OR path LIKE '%checkout%'",
    "lower(level) = 'error'",
    "path <> 'x' AND ms < 0.001",
    "service >= 'a' AND ms > 0.999",
    "msg LIKE '%ffff%'",
)
Query = Callable[[str], int]


def make_lake(folder: Path, files: int, rows: int) -> None:
    """Write the lake with Spark, unless it is there."""
    if (folder / "_SUCCESS").exists():
        return
    from _spark import session

    with session() as spark:
        frame = spark.range(0, files * rows, 1, files).selectExpr(
            *("*", "spark_partition_id() AS file", "int(rand(1) * 20) AS service", "int(rand(2) * 30) AS path"),
            *("int(rand(3) * 3) AS level", "rand(4) AS ms", "uuid() AS msg"),
        )
        words = "array('users', 'orders', 'cart', 'search', 'health', 'checkout')"
        frame.selectExpr(
            "format_string('service-%03d', pmod(xxhash64(file, service), 200)) AS service",
            "element_at(array('INFO', 'DEBUG', if(file % 10 = 0, 'ERROR', 'INFO')), level + 1) AS level",
            f"format_string('/api/v1/%s/%d', element_at({words}, int(pmod(xxhash64(path, file), "
            "if(file % 50 = 0, 6, 5))) + 1), pmod(xxhash64(file, path, 1), 60)) AS path",
            "ms",
            "msg",
        ).write.mode("overwrite").parquet(str(folder))


@contextmanager
def dictionaries_not_used() -> Iterator[None]:
    """Decide predicates without dictionaries for a while."""
    decide_all = PruningPredicate.decide_all
    PruningPredicate.decide_all = lambda self, columns, count, probe=None, read=None: decide_all(
        self, columns, count, probe, None
    )
    try:
        yield
    finally:
        PruningPredicate.decide_all = decide_all


def make_queries(path: str, options: dict[str, Any] | None = None) -> dict[str, Query]:
    """Return the ways to query a lake; each counts the rows that it has read whole."""

    def ours(where: str) -> int:
        return parquet_bloom.read_table(path, where, storage_options=options).num_rows

    def ours_without(where: str) -> int:
        with dictionaries_not_used():
            return ours(where)

    return {"parquet_bloom": ours, "not used": ours_without}


def make_peers(folder: str) -> dict[str, Query]:
    """Return how engines query a local lake."""
    import datafusion
    import duckdb
    import polars as pl
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    connection = duckdb.connect()
    connection.execute("SET parquet_metadata_cache = true")
    context = datafusion.SessionContext()
    context.register_parquet("lake", folder)
    lazy = pl.scan_parquet(f"{folder}/*.parquet")
    dataset = ds.dataset(folder, format="parquet")
    field = pc.field
    expressions = {
        QUERIES[0]: (field("service") == "service-007") & (field("level") != "INFO"),
        QUERIES[1]: pc.match_substring(field("path"), "checkout"),
        QUERIES[2]: (field("service") == "service-007") | pc.match_substring(field("path"), "checkout"),
        QUERIES[3]: pc.utf8_lower(field("level")) == "error",
        QUERIES[4]: (field("path") != "x") & (field("ms") < 0.001),
        QUERIES[5]: (field("service") >= "a") & (field("ms") > 0.999),
        QUERIES[6]: pc.match_substring(field("msg"), "ffff"),
    }
    return {
        "DuckDB": lambda where: (
            connection.sql(f"SELECT * FROM read_parquet('{folder}/*.parquet') WHERE {where}").to_arrow_table().num_rows
        ),
        "polars": lambda where: lazy.filter(pl.sql_expr(where)).collect().height,
        "DataFusion": lambda where: context.sql(f"SELECT * FROM lake WHERE {where}").to_arrow_table().num_rows,
        "pyarrow": lambda where: dataset.to_table(filter=expressions[where]).num_rows,
    }


def measure_local(folder: Path, repeat: int) -> None:
    ways = make_queries(str(folder)) | make_peers(str(folder))
    print(f"  {'warm, ms (read_table, all columns)':<52}{'rows':>9}" + "".join(f"{name:>14}" for name in ways))
    for where in QUERIES:
        rows = {name: way(where) for name, way in ways.items()}
        assert len(set(rows.values())) == 1, (where, rows)
        times = in_turn({name: partial(way, where) for name, way in ways.items()}, repeat)
        figures = "".join(f"{1e3 * seconds:14.0f}" for seconds in times.values())
        print(f"  {where:<52}{rows['parquet_bloom']:9,}{figures}", flush=True)
    print()


def measure_first(folder: Path, repeat: int) -> None:
    names = ["parquet_bloom", "not used", "DuckDB", "polars", "DataFusion", "pyarrow"]
    print(f"  {'first query of a process, ms':<61}" + "".join(f"{name:>14}" for name in names))
    for where in QUERIES[:2]:
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(repeat):
            for name in names:
                seconds[name].append(float(_run_one(str(folder), name, where)))
        medians = "".join(f"{1e3 * statistics.median(seconds[name]):14.0f}" for name in names)
        print(f"  {where:<61}{medians}", flush=True)
    print()


def _run_one(folder: str, name: str, where: str) -> str:
    command = [sys.executable, __file__, "--one", json.dumps([folder, name, where])]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run_one(folder: str, name: str, where: str) -> None:
    """Print the seconds of one query in this process."""
    ways = make_queries(folder)
    way = ways[name] if name in ways else make_peers(folder)[name]
    started = time.perf_counter()
    way(where)
    print(time.perf_counter() - started)


def measure_store(folder: Path, latency: float) -> None:
    with Server(folder.parent, latency) as server:
        ways = make_queries(url(f"{folder.name}/"), server.options)
        print(f"  {'store: ms, requests, rounds, MB':<61}" + "".join(f"{name:>34}" for name in ways))
        for where in QUERIES:
            for moment in ("first", "again"):
                cells = ""
                for way in ways.values():
                    if moment == "first":
                        SHARED_CACHE.clear()
                    else:
                        way(where)
                    server.counts()
                    started = time.perf_counter()
                    way(where)
                    seconds, counts = time.perf_counter() - started, server.counts()
                    requests = sum(counts["requests"].values())
                    cells += f"{1e3 * seconds:12.0f}{requests:8,}{counts['rounds']:6}{counts['down'] / 1e6:8.1f}"
                print(f"  {where:<54}{moment:<7}{cells}", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the lake, made once and reused (default: a temporary one)")
    parser.add_argument("--files", type=positive, default=1_000)
    parser.add_argument("--rows", type=positive, default=20_000, help="of each file")
    parser.add_argument("--repeat", type=positive, default=7)
    parser.add_argument("--latency", type=float, default=30)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(*json.loads(arguments.one))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)) / "dictionaries"
        make_lake(folder, arguments.files, arguments.rows)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        header(
            "dictionaries as evidence",
            f"lake     {arguments.files:,} files of {arguments.rows:,} rows, {size / 1e6:,.0f} MB, written by Spark",
            f"runs     medians of {arguments.repeat} in turn",
        )
        measure_local(folder, arguments.repeat)
        measure_first(folder, arguments.repeat)
        measure_store(folder, arguments.latency)


if __name__ == "__main__":
    main()
