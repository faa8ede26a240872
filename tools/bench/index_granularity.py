"""A lake index by its granularity: bytes per value, and what a lookup of one key reads and takes.

python tools/bench/index_granularity.py [--folder FOLDER] [--files N] [--rows N] [--group-rows N] [--zone-rows N ...]

The key is a random int64 that occurs once, beside one column of text; files have page indexes, and pages of 64 KiB.

B/value     of the index's values, each counted once a unit; "with table": with the table of its files
build       seconds of `append`, both threads
candidates  units that a lookup names, on average
lookup      median of `LakeIndex.lookup`, in microseconds
get         median of `Dataset.get` of one key and the other column, in microseconds, of a dataset of an open index
read        bytes that one `get` reads, of the kernel's count of this process, on average
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive  # first, to import the package of this checkout

import parquet_bloom

STEP, LOOKUPS = 7_919, 300


def make_lake(folder: Path, files: int, rows: int, group_rows: int) -> None:
    folder.mkdir()
    ids = np.random.default_rng(0).permutation(files * rows).astype(np.int64) * STEP
    for number in range(files):
        keys = ids[number * rows : (number + 1) * rows]
        table = pa.table({"id": keys, "text": [f"{key:x}" for key in keys.tolist()]})
        options: dict[str, Any] = {"data_page_size": 64 * 1024, "use_dictionary": False, "write_page_index": True}
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group_rows, **options)


def time_each(look_up: Callable[[int], Any], keys: list[int]) -> float:
    """Return the median of a call in microseconds."""
    seconds = []
    for key in keys:
        started = time.perf_counter()
        look_up(key)
        seconds.append(time.perf_counter() - started)
    return 1e6 * statistics.median(seconds)


def count_bytes_read() -> int:
    """Return how many bytes this process has read so far."""
    text = Path("/proc/self/io").read_text()
    return int(text.split("rchar:")[1].split()[0])


def measure(folder: Path, name: str, settings: dict[str, Any], keys: list[int], values: int) -> str:
    with parquet_bloom.LakeIndex.create(folder / name, "id", lake=folder / "lake", **settings) as index:
        started = time.perf_counter()
        index.append()
        build = time.perf_counter() - started
        stats = index.stats()
        candidates = statistics.mean(
            sum(map(len, candidate.rows)) if candidate.rows else len(candidate.row_groups or [None])
            for key in keys
            for candidate in index.lookup("id", [key])[0]
        )
        lookup = time_each(lambda key: index.lookup("id", [key]), keys)
        dataset = parquet_bloom.dataset(index)
        for key in keys:
            assert dataset.get("id", key, ["text"]).num_rows == 1, key
        before = count_bytes_read()
        get = time_each(lambda key: dataset.get("id", key, ["text"]), keys)
        read = (count_bytes_read() - before) / len(keys)
    with_table = (sum(stats.num_bytes.values()) + stats.files_bytes) / values
    return (
        f"{name:<22} {stats.units:>8,} {stats.bytes_a_value:>8.2f} {with_table:>11.2f} {build:>8.1f} "
        f"{candidates:>11.2f} {lookup:>8.0f} {get:>8.0f} {read:>11,.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    parser.add_argument("--files", type=positive, default=20)
    parser.add_argument("--rows", type=positive, default=500_000)
    parser.add_argument("--group-rows", type=positive, default=250_000)
    parser.add_argument("--zone-rows", type=positive, nargs="*", default=[8192, 1024])
    arguments = parser.parse_args()
    header("A lake index by its granularity")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        make_lake(folder / "lake", arguments.files, arguments.rows, arguments.group_rows)
        values = arguments.files * arguments.rows
        keys = (np.random.default_rng(1).integers(0, values, LOOKUPS) * STEP).tolist()
        os.sync()
        columns = ("B/value", "with table", "build s", "candidates", "lookup", "get", "read")
        widths = (8, 11, 8, 11, 8, 8, 11)
        titles = " ".join(f"{title:>{width}}" for title, width in zip(columns, widths, strict=True))
        print(f"{values:,} values in {arguments.files:,} files\n{'':<22} {'units':>8} {titles}")
        units: list[dict[str, Any]] = [{"granularity": "file"}, {"granularity": "row_group"}]
        units += [{"granularity": "zone", "zone_rows": zone_rows} for zone_rows in arguments.zone_rows]
        for layout in ("postings", "cuckoo"):
            for unit in units:
                rows = {"file": arguments.rows, "row_group": arguments.group_rows}.get(unit["granularity"])
                expected = values if layout == "postings" else rows or unit["zone_rows"]
                settings = {"layout": layout, "expected_values": expected, **unit}
                label = "-".join(map(str, [layout, *unit.values()]))
                print(measure(folder, label, settings, keys, values), flush=True)


if __name__ == "__main__":
    main()
