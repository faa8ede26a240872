"""Measure the index of a lake with Spark: the speed of building it, and of looking up one value in 2,000 files with it.

python tools/bench/spark_index.py [--files N] [--folder FOLDER] [--repeat N] [--values N] [--parts NAME,...]

All in one process and one session of two task slots, warmed up first.

build   values per second, of a column of random integers and one of strings, by Spark and by LakeIndex.append
lookup  2,000 files of one row group of 2,000 rows, with our filters: all ways run interleaved, each lookup with another
        value, alternately present and absent; figures are medians. Cold: no footers are cached in memory. Files are
        counted by Spark's own metric of the scan (numFiles).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _spark
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive
from _lake import Lake
from _spark import Way
from spark_lookup import bases, print_ways, race

from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.spark import build_index, install, pruned, read_parquet

BUILT_FILES = 20


def build(spark: Any, values: int, repeat: int) -> None:
    """Measure values per second, the better of two runs each."""
    rows = values // 2 // BUILT_FILES
    with tempfile.TemporaryDirectory(prefix="spark_index") as folder:
        lake = Path(folder, "lake")
        lake.mkdir()
        rng = np.random.default_rng(1)
        for number in range(BUILT_FILES):
            ids = rng.integers(-(2**63), 2**63, rows)
            table = pa.table({"id": ids, "key": pa.array(ids).cast(pa.string())})
            pq.write_table(table, lake / f"{number}.parquet", use_dictionary=False)
        num_bytes = sum(file.stat().st_size for file in lake.iterdir())
        print(f"{2 * rows * BUILT_FILES:,} values in {BUILT_FILES} files of {num_bytes / 1e6:.0f} MB")
        print(f"{'':>24}{'values/s':>14}{'seconds':>10}{'bytes/value':>14}")
        build_index(spark, str(lake / "0.parquet"), ["id", "key"], Path(folder, "warm"))
        rates: dict[str, list[float]] = {}
        for turn in range(repeat):
            for name in ("Spark, local[2]", "LakeIndex.append"):
                index = Path(folder, f"index {turn} {name}")
                started = time.perf_counter()
                if name == "LakeIndex.append":
                    LakeIndex.create(index, ["id", "key"]).append(lake)
                else:
                    build_index(spark, lake, ["id", "key"], index)
                rates.setdefault(name, []).append(time.perf_counter() - started)
                with LakeIndex.open(index, live=False) as opened:
                    size = opened.stats().bytes_a_value
                shutil.rmtree(index)
        for name, seconds in rates.items():
            best = min(seconds)
            print(f"{name:>24}{2 * rows * BUILT_FILES / best:>14,.0f}{best:>10.2f}{size:>14.2f}")
    print()


def lookup(spark: Any, lake: Lake, repeat: int) -> None:
    """Look up one value in many files."""
    lake.make()
    path, index = str(lake.data), lake.folder / "index"
    shutil.rmtree(index, ignore_errors=True)
    started = time.perf_counter()
    report = build_index(spark, path, ["id", "key"], index)
    print(f"index: {report}; {time.perf_counter() - started:.1f} s")
    rows = lake.some_rows(np.random.default_rng(3))
    frame = spark.read.parquet(path)
    with LakeIndex.open(index) as opened:
        ways = [
            Way("native, DataFrame at hand", frame.where),
            Way("native, from the path", lambda where: spark.read.parquet(path).where(where)),
            Way("pruned, cold", lambda where: pruned(frame, where), cold=True),
            Way("pruned, warm", lambda where: pruned(frame, where)),
            Way("read_parquet, index by its path", lambda where: read_parquet(spark, path, where, index=index), True),
            Way("pruned, index by its path", lambda where: pruned(frame, where, index=index), True),
            Way("pruned, open index", lambda where: pruned(frame, where, index=opened), True),
            Way("install, open index", install(frame, index=opened).where, True),
        ]

        def ask(kind: str) -> tuple[str, list[dict[str, Any]]]:
            row = next(rows)
            return (f"id = {row['id']}", [row]) if kind == "there" else (f"id = {row['id'] ^ 1}", [])

        race(ways, ask, repeat)
    print_ways(ways, [("ms", "seconds", 1000, 0), ("numFiles", "files", 1, 0)], bases(ways))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=positive, default=2000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "parquet_bloom_lakes"))
    parser.add_argument("--repeat", type=positive, default=7)
    parser.add_argument("--values", type=positive, default=20_000_000)
    parser.add_argument("--parts", default="build,lookup")
    options = parser.parse_args()
    header("The index of a lake with Spark", f"pyspark  {version('pyspark')}")
    with _spark.session() as spark:
        if "build" in options.parts:
            build(spark, options.values, 2)
        if "lookup" in options.parts:
            lookup(spark, Lake(options.folder, options.files, 1, 2000, 0.01), options.repeat)


if __name__ == "__main__":
    main()
