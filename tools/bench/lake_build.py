"""Measure the time and memory of building an index of a million to a billion values.

Values are random 64-bit numbers in memory (`append_batches`, a million per file), to measure hashing, the external sort
and packing without reading files, which `spark_index.py` measures. Each size runs in a separate process.

python tools/bench/lake_build.py [--most VALUES] [--folder FOLDER] [--output FILE]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from _common import header, positive
from _results import record

from parquet_bloom.lake.lake_index import LakeIndex

IN_A_FILE = 1_000_000
LIMIT = 256 << 20
PAPER = 10**11


class Batches:
    """Random numbers, a million per file; `seconds` is the time of generating them."""

    def __init__(self, values: int):
        self._files = values // IN_A_FILE
        self.seconds = 0.0

    def __iter__(self) -> Iterator[tuple[str, dict[str, pa.Array]]]:
        for number in range(self._files):
            started = time.perf_counter()
            array = pa.array(np.random.default_rng(number).integers(0, 2**63, IN_A_FILE))
            self.seconds += time.perf_counter() - started
            yield f"f{number}", {"id": array}


def build(folder: str, values: int, queue: Any) -> None:
    list(Batches(IN_A_FILE))  # allocates the memory of numpy and pyarrow before it is measured
    batches = Batches(values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    with LakeIndex.create(folder, "id", expected_values=values) as index:
        index.append_batches(batches, memory_limit=LIMIT)
        seconds = time.perf_counter() - started
        stats = index.stats()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    queue.put((seconds, seconds - batches.seconds, memory / 1024, stats.bytes_a_value))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=positive, default=100_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with record(given.output, "lake_build"), tempfile.TemporaryDirectory(dir=given.folder) as folder:
        os.environ["TMPDIR"] = folder
        header("building a lake index", f"limit    {LIMIT >> 20} MiB of memory for values", "layout   postings")
        print(f"{'values':>15} {'seconds':>9} {'values a second':>16} {'MiB more':>9} {'bytes a value':>14}")
        values, rate = IN_A_FILE, 0.0
        while values <= given.most:
            queue: Any = multiprocessing.Queue()
            child = multiprocessing.get_context("fork").Process(
                target=build, args=(f"{folder}/{values}", values, queue)
            )
            child.start()
            seconds, net_seconds, memory, width = queue.get()
            child.join()
            rate = values / net_seconds
            print(f"{values:15,} {seconds:9.1f} {rate:16,.0f} {memory:9,.0f} {width:14.2f}")
            values *= 10
        print("values a second leave out the making of the random numbers")
        print(f"{PAPER:15,} values on paper at the last rate: {PAPER / rate / 3600:.0f} hours on one core,", end=" ")
        print(f"{PAPER * 8 / 1e9:,.0f} GB of sorted runs on disk meanwhile")


if __name__ == "__main__":
    main()
