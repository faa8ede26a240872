"""Probe one key in 10,000 filters of 1 MiB in one file: single blocks, mapped and read, against complete filters.

The file holds bitsets of random bits, half of them set, each after a header as in a Parquet file. A second file is a
real one, with embedded filters, probed by the public API. `--filters`, `--row-groups` and `--folder` (or TMPDIR) set
sizes and location; the files are removed at the end. Cold means that the page cache holds none of the blocks at the
start, which is checked (mincore); caches of the host are unknown.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive

import parquet_bloom
from parquet_bloom.core.bloom import sbbf
from parquet_bloom.core.bloom.blocks import check_blocks, locate_blocks
from parquet_bloom.file.probe_file import probe
from parquet_bloom.metadata.filter_header import write_header
from parquet_bloom.storage import open_source
from parquet_bloom.storage.local.scatter import count_resident

NUM_BYTES = 1 << 20
REPEAT = 7
SAMPLE = 300  # filters that are read completely; all would take half a minute
ROWS = 100_000  # rows per row group of the real file


def write_filters(path: Path, count: int) -> np.ndarray:
    """Write a file of `count` headers and bitsets; return the offsets of the bitsets."""
    head = write_header(NUM_BYTES)
    bits = memoryview(np.random.default_rng(7).bytes(16 * NUM_BYTES))
    with path.open("wb", buffering=0) as file:
        for i in range(count):
            start = 4_099 * i % (15 * NUM_BYTES)  # no two alike
            os.writev(file.fileno(), [head, bits[start : start + NUM_BYTES]])
        os.fsync(file.fileno())
    assert path.stat().st_size == count * (len(head) + NUM_BYTES)
    return np.arange(count, dtype=np.int64) * (len(head) + NUM_BYTES) + len(head)


def drop(path: Path, offsets: np.ndarray | None = None) -> None:
    """Drop the file from the page cache, and check that for the pages at `offsets`."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if offsets is not None:
        with open_source(path) as source:
            resident = count_resident(source.mapped().data, np.ascontiguousarray(offsets.ravel(), np.int64))
            assert resident <= offsets.size // 100, f"{resident} of {offsets.size} blocks are still in the page cache"


def timed(run: Callable[[], object], times: int = REPEAT, before: Callable[[], object] = lambda: None) -> float:
    seconds = []
    for _ in range(times):
        before()
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def show(what: str, seconds: float, filters: int) -> float:
    """Print a line; return the time per filter."""
    each = seconds / filters
    text = f"{each * 1e9:9.1f} ns" if each < 1e-6 else f"{each * 1e6:9.2f} us"
    print(f"{what:58}{text} a filter")
    return each


def write_inputs(path: Path, count: int) -> None:
    starts = write_filters(path, count)
    sizes = np.full(count, NUM_BYTES, np.int64)
    lengths = np.full(count, sbbf.BLOCK_BYTES, np.int64)
    numbers = np.arange(count, dtype=np.int64).reshape(-1, 1)
    rng = np.random.default_rng(11)

    def new_key() -> np.ndarray:
        return rng.integers(0, 2**64, 1, dtype=np.uint64)

    def by_blocks(reader: object, key: np.ndarray) -> np.ndarray:
        offsets = starts + locate_blocks(sizes, key)[:, 0]
        return check_blocks(reader.gather(offsets, lengths).reshape(-1, sbbf.BLOCK_BYTES), numbers, key)

    # Cold first, as pages accessed through a mapping cannot be dropped. Blocks and complete filters are interleaved, so
    # that other load on the disk affects both.
    cold, complete, cold_mapped = [], [], []
    sample = min(SAMPLE, count)
    for turn in range(REPEAT):
        key = new_key()
        drop(path, starts + locate_blocks(sizes, key)[:, 0])
        with open_source(path) as source:
            started = time.perf_counter()
            answers = by_blocks(source, key)
            cold.append(time.perf_counter() - started)
            requests = source.requests, source.bytes_read
        with open_source(path) as source:
            assert (answers == sbbf.probe_filters(source.mapped().data, starts, sizes, key)).all()

        first = turn * (count - sample) // REPEAT
        drop(path, starts[first : first + sample])
        with open_source(path) as source:
            started = time.perf_counter()
            for start in starts[first : first + sample].tolist():
                sbbf.check_hashes(np.frombuffer(source.read_at(start, NUM_BYTES), np.uint8), key)
            complete.append(time.perf_counter() - started)

        key = new_key()
        drop(path, starts + locate_blocks(sizes, key)[:, 0])
        with open_source(path) as source:
            started = time.perf_counter()
            by_blocks(source.mapped(), key)
            cold_mapped.append(time.perf_counter() - started)

    key = new_key()
    with open_source(path) as source:
        by_blocks(source, key)
        hot = timed(lambda: by_blocks(source, key))
        data = source.mapped().data
        started = time.perf_counter()
        sbbf.probe_filters(data, starts, sizes, key)
        first_touch = time.perf_counter() - started
        mapped = timed(lambda: sbbf.probe_filters(data, starts, sizes, key), 5 * REPEAT)
        copied = timed(lambda: by_blocks(source.mapped(), key), 5 * REPEAT)

    kernel = show("mapped, hot, the same key again: probe_filters (asked: at most 50 ns)", mapped, count)
    show("mapped, hot, the same key again: blocks copied and checked", copied, count)
    show("mapped, in the page cache, each page touched first", first_touch, count)
    show("read, hot", hot, count)
    blocks = show("read, cold: all announced, then read", statistics.median(cold), count)
    show("mapped, cold: all announced, then touched", statistics.median(cold_mapped), count)
    each = show(f"whole filters, cold ({sample} of them in a row)", statistics.median(complete), sample)
    print(f"the runs, cold blocks: {' '.join(f'{run / count * 1e6:.1f}' for run in cold)} us")
    print(f"the runs, cold whole:  {' '.join(f'{run / sample * 1e6:.0f}' for run in complete)} us")
    print(f"asked of the system: {requests[0]:,} requests, {requests[1]:,} bytes")
    print(f"cold ratio      {each / blocks:8.1f} x faster than whole filters (asked: at least 50)")
    print(f"mapped and hot  {kernel * 1e9:8.1f} ns (asked: at most 50)")


def real(path: Path, row_groups: int) -> None:
    rng = np.random.default_rng(3)
    schema = pa.schema({"id": pa.int64()})
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for _ in range(row_groups):
            writer.write_table(pa.table({"id": rng.integers(0, 2**62, ROWS)}, schema))
    key = int(rng.integers(0, 2**62))
    parquet_bloom.embed(path, ["id"], fpp=0.01)
    with path.open("rb") as file:
        os.fsync(file.fileno())

    def in_blocks(immutable: bool) -> tuple[np.ndarray, int, int]:
        with parquet_bloom.open(path) as file:
            maybe = probe(list(file.chunks(columns=["id"])), [key], immutable=immutable).maybe
            return maybe[:, 0], file.source.requests, file.source.bytes_read

    def check_whole_filters() -> tuple[np.ndarray, int, int]:
        with parquet_bloom.open(path) as file:
            maybe = [key in chunk.filter for chunk in file.chunks(columns=["id"])]
            return np.array(maybe), file.source.requests, file.source.bytes_read

    with parquet_bloom.open(path) as file:
        num_bytes = file.filter(0, "id").num_bytes
    print(f"\n{row_groups} row groups of a Parquet file, filters of {num_bytes:,} bytes; footer and headers included")
    answers = []
    ways = {
        "probe(...)": lambda: in_blocks(False),
        "probe(..., immutable=True)": lambda: in_blocks(True),
        "whole filters": check_whole_filters,
    }
    for name, run in ways.items():
        answers.append(run())
        show(f"{name}, hot", timed(run), row_groups)
        show(f"{name}, cold", timed(run, before=lambda: drop(path)), row_groups)
        print(f"    {answers[-1][1]:,} requests, {answers[-1][2]:,} bytes")
    assert all((answer[0] == answers[0][0]).all() for answer in answers)


def _folder(text: str) -> str:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filters", type=positive, default=10_000)
    parser.add_argument("--row-groups", type=positive, default=200)
    parser.add_argument("--folder", type=_folder, default=None, help="folder for the files; default: TMPDIR")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        needed, free = options.filters * NUM_BYTES * 11 // 10, shutil.disk_usage(folder).free
        if needed > free:
            fitting = free * 10 // (11 * NUM_BYTES)
            sys.exit(f"{folder} has {free / 1e9:.1f} GB free: --filters {fitting} would fit, or give another --folder")
        header(
            f"one key against {options.filters:,} filters of 1 MiB in one file",
            f"file     {options.filters * NUM_BYTES / 1e9:.1f} GB of random bits",
            f"scale    {options.filters:,} filters, 10,000 were asked for",
        )
        write_inputs(Path(folder, "filters"), options.filters)
        Path(folder, "filters").unlink()
        real(Path(folder, "real.parquet"), options.row_groups)


if __name__ == "__main__":
    main()
