"""Compare postings and aligned Cuckoo filters of the lake index: building, warm and cold lookups, single or batched.

File i holds the integers i*V to i*V+V-1, so that every answer can be checked without a lake. Lookups are those of
`LakeIndex.lookup`, one value per call unless stated otherwise; present values are random. "cold" drops the part's pages
from the page cache before each lookup (posix_fadvise), so that it is read from the disk.

python tools/bench/lake_index.py [--files N] [--values V] [--layout NAME] [--folder FOLDER] [--output FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from _common import header, positive
from _results import record

from parquet_bloom.core.hash.xxh64 import hash_keys
from parquet_bloom.hashing.arrow_keys import keys_of
from parquet_bloom.lake.lake_index import LakeIndex

LOOKUPS, COLD, ABSENT, BATCH = 3000, 200, 200_000, 10_000
SEED_MS = {1_000_000: 5.023, 100_000: 0.382}  # the original program on the same data, by its partitions
MILLION = 1_000_000
MEMORY = 512 << 20
PEER = Path(__file__).with_name("cuckoo_peer.c")
SECONDS = 3.0


def batches(files: int, values: int) -> Iterator[tuple[str, dict[str, pa.Array]]]:
    for number in range(files):
        yield f"f{number}", {"id": pa.array(np.arange(number * values, (number + 1) * values))}


def settings(layout: str, values: int) -> dict[str, Any]:
    return {"num_buckets": max(1, round(values / 2.64))} if layout == "cuckoo" else {}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def build(folder: Path, layout: str, files: int, values: int) -> tuple[float, float]:
    """Return the seconds and the peak MiB of a separate process."""
    queue: Any = multiprocessing.Queue()

    def run() -> None:
        before = peak()
        started = time.perf_counter()
        with LakeIndex.create(folder / layout, "id", layout=layout, **settings(layout, values)) as index:
            index.append_batches(batches(files, values), memory_limit=MEMORY)
        queue.put((time.perf_counter() - started, peak() - before))

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    result = queue.get()
    child.join()
    return result


def part_of(folder: Path, layout: str) -> Path:
    return max((folder / layout).glob(f"*.{layout}"), key=lambda path: path.stat().st_size)


def drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def timed(
    index: LakeIndex, keys: list[int], values: int, before: Callable[[], None] | None = None
) -> tuple[list[float], int]:
    """Return the seconds of each lookup, and the number of false positives."""
    seconds, false = [], 0
    for value in keys:
        if before:
            before()
        started = time.perf_counter()
        (answer,) = index.lookup("id", [value])
        seconds.append(time.perf_counter() - started)
        names = [candidate.path for candidate in answer]
        if f"f{value // values}" not in names:
            raise SystemExit(f"{value} was not found: a lost row")
        false += len(names) - 1
    return seconds, false


def as_the_original(part: Path, reader: Any, keys: list[int]) -> list[float]:
    """Return the seconds of lookups done as in the original program: two rows into new memory, slot by slot."""
    with tempfile.TemporaryDirectory() as folder:
        built = f"{folder}/peer.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", built, str(PEER)], check=True)
        peer = ctypes.CDLL(built)
        descriptor = os.open(part, os.O_RDONLY)
        slots = np.ascontiguousarray(reader.slots, np.uint8)
        out = np.empty(1 << 20, np.uint32)
        seconds = []
        hashes = np.asarray(hash_keys(keys_of(pa.array(keys))))
        prints, *rows = reader.layout.locate(hashes)
        for at in range(len(keys)):
            started = time.perf_counter()
            for row in rows:
                peer.scan_row(
                    ctypes.c_int(descriptor),
                    ctypes.c_int64(reader.row_offset(int(row[at]))),
                    ctypes.c_int64(reader.num_slots),
                    slots.ctypes.data_as(ctypes.c_void_p),
                    ctypes.c_int64(len(slots)),
                    ctypes.c_uint16(int(prints[at])),
                    out.ctypes.data_as(ctypes.c_void_p),
                )
            seconds.append(time.perf_counter() - started)
        os.close(descriptor)
        return seconds


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]


def reader(folder: Path, layout: str, total: int, seed: int, go: Any, queue: Any) -> None:
    chance = np.random.default_rng(seed)
    with LakeIndex.open(folder / layout, live=False) as index:
        keys = chance.integers(0, total, 20_000).tolist()
        index.lookup("id", keys[:10])
        go.wait()
        seconds: list[float] = []
        ends = time.perf_counter() + SECONDS
        while (started := time.perf_counter()) < ends:
            index.lookup("id", [keys[len(seconds) % len(keys)]])
            seconds.append(time.perf_counter() - started)
    queue.put((len(seconds), statistics.median(seconds)))


def side_by_side(folder: Path, layout: str, total: int) -> None:
    for count in (1, 2, 4, 8):
        queue: Any = multiprocessing.Queue()
        go = multiprocessing.Event()
        given = (folder, layout, total)
        readers = [multiprocessing.Process(target=reader, args=(*given, seed, go, queue)) for seed in range(count)]
        for process in readers:
            process.start()
        time.sleep(1 + 0.3 * count)
        go.set()
        results = [queue.get() for _ in readers]
        for process in readers:
            process.join()
        rate = sum(lookups for lookups, _ in results) / SECONDS
        median = statistics.median(seconds for _, seconds in results)
        print(f"  {count} readers{rate:15,.0f} lookups a second, median {1e6 * median:9,.1f} us")


def measure(folder: Path, layout: str, files: int, values: int) -> None:
    total = files * values
    seconds, memory = build(folder, layout, files, values)
    print(f"{layout}, {files:,} files of {values:,} values")
    rate = total / seconds / 1e6
    print(
        f"  build            {seconds:9.1f} s    {rate:.2f} million values a second, {memory:,.0f} MiB more than before"
    )
    chance = np.random.default_rng(1)
    part = part_of(folder, layout)
    with LakeIndex.open(folder / layout, live=False) as index:
        stats = index.stats()
        print(f"  size             {stats.bytes_a_value:9.2f} bytes a value")
        keys = chance.integers(0, total, LOOKUPS).tolist()
        timed(index, keys, values)
        warm, false = timed(index, keys, values)
        seed = f"   the original program: {1e3 * SEED_MS[files]:,.0f} us" if files in SEED_MS else ""
        print(f"  warm             {1e6 * statistics.median(warm):9.1f} us   p99 {1e6 * p99(warm):,.1f}{seed}")
        if layout == "cuckoo" and shutil.which("cc"):
            (opened,) = index.state.segments[0].parts
            peer = statistics.median(as_the_original(part, opened.readers[0], keys[:300]))
            ratio = peer / statistics.median(warm)
            print(f"  as the original  {1e6 * peer:9.1f} us   read, and compared slot by slot: {ratio:.1f} x ours")
        one = index.lookup("id", keys[:1])
        print(f"  read             {one.bytes_read / 1000:9.1f} KB   in {one.requests} requests")
        started = time.perf_counter()
        many = index.lookup("id", chance.integers(0, total, BATCH).tolist()) if layout == "postings" else []
        if many:
            print(f"  {BATCH:,} in a call  {1e6 * (time.perf_counter() - started) / BATCH:8.1f} us   a value")
        absent = (total + chance.integers(0, 2**50, ABSENT if layout == "postings" else 1000)).tolist()
        named = sum(map(len, index.lookup("id", absent))) / len(absent)
        expected = stats.expected_false["id"]
        print(f"  false files      {named:9.4f}      a lookup of an absent value; predicted {expected:.4f}")
        print(f"                   {false / LOOKUPS:9.4f}      a lookup of a present one")
        cold, _ = timed(index, keys[:COLD], values, lambda: drop(part))
        print(f"  cold             {1e3 * statistics.median(cold):9.3f} ms   p99 {1e3 * p99(cold):.3f}")
    side_by_side(folder, layout, total)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=positive, default=MILLION)
    parser.add_argument("--values", type=positive, default=100)
    parser.add_argument("--layout", action="append", choices=["postings", "cuckoo"])
    parser.add_argument("--folder", type=Path, help="folder in which the index is created (and kept)")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    name = "lake_index" if given.files == MILLION else f"lake_index_{given.files}x{given.values}"
    with record(given.output, name), tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        header("the lake index", f"values   {given.files * given.values:,}", f"memory   {MEMORY >> 20} MiB asked for")
        for layout in given.layout or ["postings", "cuckoo"]:
            measure(folder, layout, given.files, given.values)


if __name__ == "__main__":
    main()
