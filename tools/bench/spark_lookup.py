"""Look up one value in 2,000 files with Spark: pruning before the scan against Spark's own use of the same filters.

python tools/bench/spark_lookup.py [--files N] [--web-files N] [--folder FOLDER] [--repeat N] [--parts NAME,...]

All in one process and one session of two task slots, warmed up first; all ways run interleaved, each lookup with
another value, alternately present and absent, and every answer is compared. The figures are medians. Times are from the
call to the rows, including listing if a path is given. Cold: no footers are cached in memory; the files are in the page
cache. Files are counted by Spark's own metric of the scan (numFiles).

lake    2,000 files of one row group of 2,000 rows, with our filters
moments INT96 and timestamp_ntz, for which Spark uses no filters itself: a file of 50 row groups, and 100 files
scans   all rows, nothing to skip
web     files on WebHDFS on loopback, with a delay of 25 ms per response, served by another process
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _spark
import numpy as np
from _common import header, positive
from _lake import Lake
from _spark import Way
from _spark_moments import KINDS as MOMENTS
from _spark_moments import Moments

from parquet_bloom.spark import install, pruned, read_parquet
from parquet_bloom.util.messages import count

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
KINDS = ("there", "absent")
WARMING = 3
DELAY = 0.025
MOST_OF_LIST = 1.3
Question = Callable[[str], tuple[str, list[dict[str, Any]]]]
"""Makes a condition of a kind of query, and its rows."""


def race(
    ways: Sequence[Way], ask: Question, repeat: int, count: Callable[[], int] | None = None, warming: int = WARMING
) -> None:
    """Run all ways interleaved, `repeat` times each kind of query; `count` returns the requests since its last call."""
    for turn in range(-warming, repeat):
        for kind in KINDS:
            for way in ways:
                where, rows = ask(kind)
                way.run(where, kind if turn >= 0 else None, rows, count)


def print_ways(ways: Sequence[Way], columns: Sequence[tuple[str, str, float, int]], base: dict[str, str]) -> None:
    """Print a line per way; `base` names the way that each is compared with."""
    width = max(len(way.name) for way in ways)
    titles = "".join(f"{title:>12}" for title, *_ in columns)
    print(f"  {'':{width}}" + "".join(f"   {kind + titles[len(kind) :]}{'':9}".rstrip() for kind in KINDS))
    by_name = {way.name: way for way in ways}
    for way in ways:
        cells = []
        for kind in KINDS:
            cell = "".join(f"{way.median(what, kind) * by:12,.{digits}f}" for _, what, by, digits in columns)
            native = by_name.get(base.get(way.name, ""))
            ratio = native.median("seconds", kind) / way.median("seconds", kind) if native else None
            cells.append(cell + (f"{ratio:7.1f} x" if ratio else " " * 9))
        print(f"  {way.name:{width}}   " + "   ".join(cells).rstrip())


def bases(ways: Sequence[Way]) -> dict[str, str]:
    """Return the way to compare with: native from the path for ours from the path, else native on a DataFrame."""
    natives = ("native, DataFrame at hand", "native, from the path")
    ours = [way.name for way in ways if not way.name.startswith(("native", _spark.BY_HAND))]
    return {name: natives[name.startswith("read_parquet")] for name in ours}


def verdict(ways: Sequence[Way], case: str, target: float, title: str) -> None:
    """Check that each of our ways is a number of times as fast as native, in the worse of the two kinds."""
    by_name = {way.name: way for way in ways}
    ratios = {}
    for name, native in bases(ways).items():
        if name.endswith(case):
            pairs = [(by_name[native].median("seconds", k), by_name[name].median("seconds", k)) for k in KINDS]
            ratios[name] = min(theirs / ours for theirs, ours in pairs)
    worst = min(ratios.values())
    reached = "reached" if worst >= target else "missed"
    text = ", ".join(f"{name.partition(',')[0]} {ratio:.1f}" for name, ratio in ratios.items())
    print(f"{title}: {text} x (asked: at least {target:.1f}): {reached}")


def against_list(ways: Sequence[Way], case: str = "") -> None:
    """Check each of our ways against Spark on a hand-given list of the surviving files; an absent value leaves none."""
    by_name = {way.name: way for way in ways}
    hand = by_name[_spark.BY_HAND].median("seconds", "there")
    for name in bases(ways):
        if name.endswith(case):
            ratio = by_name[name].median("seconds", "there") / hand
            reached = "reached" if ratio <= MOST_OF_LIST else "missed"
            print(f"of the time by hand: {name} {ratio:.2f} x (asked: at most {MOST_OF_LIST}): {reached}")


class Ids:
    """Queries for ids that have not been queried before."""

    def __init__(self, lake: Lake) -> None:
        self._rng = np.random.default_rng()
        self._rows = lake.some_rows(self._rng)

    def __call__(self, kind: str) -> tuple[str, list[dict[str, Any]]]:
        if kind == "absent":
            return f"id = {int(self._rng.integers(-(2**63), 2**63))}", []  # present with a probability of 10^-12
        row = next(self._rows)
        return f"id = {row['id']}", [{name: row[name] for name in ("id", "key")}]


def selecting(ways: Sequence[Way], *columns: str) -> list[Way]:
    """Return the same ways, for some columns only."""
    return [replace(way, ask=lambda where, ask=way.ask: ask(where).select(*columns)) for way in ways]


def lake_part(spark: Any, lake: Lake, repeat: int) -> None:
    print(f"{lake.files:,} files of one row group of {lake.rows:,} rows: one id")
    path = str(lake.data)
    ways = selecting([*_spark.ways_of(spark, path), *_spark.by_hand(spark, path)], "id", "key")
    race(ways, Ids(lake), repeat)
    print_ways(ways, [("ms", "seconds", 1000, 0), ("numFiles", "files", 1, 0)], bases(ways))
    verdict(ways, "warm", 10, "faster, warm")
    verdict(ways, "cold", 1 / 1.1, "faster, cold")
    against_list(ways, "warm")
    print()


def moments_part(spark: Any, home: Path, repeat: int) -> None:
    for files, row_groups, size in ((1, 50, 40_000), (100, 1, 2_000)):
        for kind in MOMENTS:
            moments = Moments(spark, home, kind, files, row_groups, size)
            moments.make()
            path = str(moments.data)
            ways = selecting([*moment_ways(spark, path), *_spark.by_hand(spark, path)], "id")
            print(f"{kind}: {count(files, 'file')} of {row_groups} x {moments.rows:,} rows: one value")
            race(ways, moments, repeat)
            for way in ways:
                for of_kind, rows in way.rows.items():
                    way.extra[of_kind] = [count // moments.rows for count in rows]
            columns = [("ms", "seconds", 1000, 0), ("numFiles", "files", 1, 0), ("row groups", "extra", 1, 0)]
            print_ways(ways, columns, bases(ways))
            verdict([way for way in ways if "False" not in way.name], "", 1, "faster")
            against_list(ways)
            print()


def moment_ways(spark: Any, path: str) -> list[Way]:
    """Return native Spark and ours, warm; by row groups and by files."""
    frame = spark.read.parquet(path)
    installed = install(spark.read.parquet(path))
    return [
        Way("native, DataFrame at hand", frame.where),
        Way("native, from the path", lambda where: spark.read.parquet(path).where(where)),
        Way("read_parquet, row_groups=auto", lambda where: read_parquet(spark, path, where)),
        Way("read_parquet, row_groups=True", lambda where: read_parquet(spark, path, where, row_groups=True)),
        Way("read_parquet, row_groups=False", lambda where: read_parquet(spark, path, where, row_groups=False)),
        Way("pruned, row_groups=auto", lambda where: pruned(frame, where)),
        Way("pruned, row_groups=True", lambda where: pruned(frame, where, row_groups=True)),
        Way("install (files only)", installed.where),
    ]


def scans_part(spark: Any, lake: Lake, repeat: int) -> None:
    path, all_rows = str(lake.data), "value >= 0"
    frames: dict[str, Callable[[], Any]] = {
        "native": lambda: spark.read.parquet(path),
        "read_parquet": lambda: read_parquet(spark, path),
        "native, all rows match": lambda: spark.read.parquet(path).where(all_rows),
        "read_parquet, all rows match": lambda: read_parquet(spark, path, all_rows),
    }
    at_hand = spark.read.parquet(path)
    installed = install(spark.read.parquet(path))
    frames |= {
        "native, DataFrame at hand": lambda: at_hand,
        "install": lambda: installed,
        "native, DataFrame at hand, all rows match": lambda: at_hand.where(all_rows),
        "install, all rows match": lambda: installed.where(all_rows),
        "native, DataFrame at hand, all rows match ": lambda: at_hand.where(all_rows),
        "pruned, all rows match": lambda: pruned(at_hand, all_rows),
    }
    ways = [
        Way(name, lambda _, frame=frame: frame().selectExpr("sum(value) s", "count(key) n"))
        for name, frame in frames.items()
    ]
    for turn in range(-WARMING, repeat):
        for way in ways:
            way.run("", "all" if turn >= 0 else None)
    print(f"all {lake.files * lake.rows:,} rows of {lake.files:,} files, two columns")
    width = max(map(len, frames))
    for native, ours in zip(ways[::2], ways[1::2], strict=True):
        theirs, taken = native.median("seconds", "all"), ours.median("seconds", "all")
        print(f"  {native.name:{width}}{theirs * 1000:8,.0f} ms")
        reached = "reached" if taken <= 1.05 * theirs else "missed"
        print(f"  {ours.name:{width}}{taken * 1000:8,.0f} ms{100 * (taken / theirs - 1):+7.1f} % (asked: 5): {reached}")
    print()


def web_part(spark: Any, lake: Lake, repeat: int) -> None:
    from support.servers import webhdfs_server

    print(f"{lake.files:,} files of {lake.rows:,} rows behind WebHDFS, each answer after {DELAY * 1000:.0f} ms: one id")
    long_ago = time.time() - 86_400  # files that were changed just now are not cached
    for file in lake.paths:
        os.utime(file, (long_ago, long_ago))
    with webhdfs_server.other_process(lake.data, DELAY) as server:
        ways = selecting(_spark.ways_of(spark, server.url + "/"), "id", "key")
        race(ways, Ids(lake), repeat, lambda: sum(server.take()["requests"].values()), 1)
    print("  requests: until there is a plan (listing, probing), and from then on (the scan)")
    columns = [("ms", "seconds", 1000, 0), ("numFiles", "files", 1, 0)]
    print_ways(ways, [*columns, ("plan", "planning", 1, 0), ("scan", "scanning", 1, 0)], bases(ways))
    verdict(ways, "warm", 10, "faster, warm")
    verdict(ways, "cold", 1 / 1.1, "faster, cold")
    fewer_requests(ways)
    print()


def fewer_requests(ways: Sequence[Way]) -> None:
    """Check that none of our ways makes more requests than native, in the worse of the two kinds."""
    by_name = {way.name: way for way in ways}
    texts, worst = [], float("inf")
    for name, native in bases(ways).items():
        counts = [
            [way.median("planning", kind) + way.median("scanning", kind) for kind in KINDS]
            for way in (by_name[native], by_name[name])
        ]
        ratio = min(theirs / max(1, ours) for theirs, ours in zip(*counts, strict=True))
        worst = min(worst, ratio)
        texts.append(f"{name} {ratio:.1f}")
    print(f"fewer requests: {'; '.join(texts)} x (asked: at least 1.0): {'reached' if worst >= 1 else 'missed'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    home = os.environ.get("PARQUET_BLOOM_LAKE") or Path(tempfile.gettempdir(), "parquet_bloom_lake")
    parts = ("lake", "moments", "scans", "web")
    parser.add_argument("--files", type=positive, default=2_000)
    parser.add_argument("--web-files", type=positive, default=300)
    parser.add_argument(
        "--folder", type=Path, default=home, help="folder of the lakes; default: PARQUET_BLOOM_LAKE if set"
    )
    parser.add_argument("--repeat", type=positive, default=9, help="number of lookups of each kind")
    parser.add_argument("--parts", default=",".join(parts), help="comma-separated names")
    options = parser.parse_args()
    parts_to_run = options.parts.split(",")
    lake = Lake(Path(options.folder), options.files, 1, 2_000, 0.001)
    web = Lake(Path(options.folder), options.web_files, 1, 2_000, 0.001)
    for lake_maker, part in ((lake, "lake"), (lake, "scans"), (web, "web")):
        if part in parts_to_run:
            lake_maker.make()
    header(
        "one value among many files, by Spark",
        f"scale    {lake.files:,} files, 2,000 were asked for",
        f"peer     pyspark {version('pyspark')}, local[2], its own Bloom filters on",
        f"medians  of {options.repeat} runs of each kind in turn, {WARMING} before them to get warm",
    )
    with _spark.session() as spark:
        if "lake" in parts_to_run:
            lake_part(spark, lake, options.repeat)
        if "moments" in parts_to_run:
            moments_part(spark, Path(options.folder), options.repeat)
        if "scans" in parts_to_run:
            scans_part(spark, lake, 2 * options.repeat)
        if "web" in parts_to_run:
            web_part(spark, web, -(-options.repeat // 3))


if __name__ == "__main__":
    main()
