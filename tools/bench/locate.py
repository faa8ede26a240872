"""Positions of many keys: `Dataset.locate`, beside DuckDB's join of the same, each in a process of its own.

python tools/bench/locate.py [--folder FOLDER] [--small] [--keys N] [--repeat N]

The lake has 1,000 files of 100,000 rows in two row groups: a unique random int64 `id`, a float64 and a text of eight
values. It is made once, in the folder given, and reused (1 GB). The keys are drawn from its ids, and come as an Arrow
array, or as a Parquet file of twice as many, which `locate` reads in batches.

rows        positions that were given
equal       whether these are the positions of a join by brute force: the same keys, paths and rows, by checksums of all
wall, CPU   of the call alone, the dataset opened and the keys in memory; medians, the three in turn
memory      the largest resident set of the process, with the interpreter, its libraries and the keys
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive  # first, to import the package of this checkout

import parquet_bloom

STEP = 7_919
WAYS = {"locate": "locate", "locate-file": "locate, keys of a file", "duckdb": "DuckDB, join"}


def make_lake(folder: Path, files: int, rows: int) -> None:
    """Write a lake, unless it is there."""
    if (folder / "complete").exists():
        return
    (folder / "data").mkdir(parents=True, exist_ok=True)
    total = files * rows
    factor = next(number for number in range(0x9E3779B1 % total or 1, 2 * total) if math.gcd(number, total) == 1)
    rng = np.random.default_rng(25)
    countries = pa.array(["DE", "FR", "US", "IN", "BR", "JP", "NG", "MX"])
    for number in range(files):
        numbers = np.arange(number * rows, (number + 1) * rows, dtype=np.uint64)
        ids = (numbers * np.uint64(factor) % np.uint64(total)).astype(np.int64) * STEP
        country = countries.take(pa.array(rng.integers(0, 8, rows)))
        table = pa.table({"id": ids, "amount": rng.random(rows), "country": country})
        path = folder / "data" / f"part-{number:05}.parquet"
        pq.write_table(table, path, row_group_size=(rows + 1) // 2, compression="zstd")
    (folder / "complete").touch()


def draw(total: int, count: int) -> pa.Array:
    """Return keys: all but a tenth of them are ids."""
    numbers = np.random.default_rng(1).choice(total + total // 9, count, replace=False)
    return pa.array(numbers.astype(np.int64) * STEP)


def digest(keys: Any, paths: Any, rows: Any) -> str:
    """Return a checksum of positions, whatever their order."""
    names = pa.chunked_array(paths).combine_chunks().dictionary_encode()
    names = names.chunk(0) if isinstance(names, pa.ChunkedArray) else names
    files = np.array([int(path[-13:-8]) for path in names.dictionary.to_pylist()])[np.asarray(names.indices)]
    order = np.lexsort((np.asarray(rows), files))
    parts = (np.asarray(keys)[order], files[order].astype(np.int64), np.asarray(rows)[order].astype(np.int64))
    return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()


def run(way: str, folder: Path, total: int, count: int) -> None:
    """Do it once, and print the figures."""
    keys = draw(total, count)
    if way == "duckdb":
        import duckdb

        table = pa.table({"id": keys})  # which DuckDB finds by its name
        files = f"read_parquet('{folder}/data/*.parquet', filename = true, file_row_number = true)"
        query = f'SELECT id, filename, file_row_number FROM {files} JOIN "table" USING (id)'
        connection = duckdb.connect()
        connection.register("table", table)
        begun, cpu = time.perf_counter(), time.process_time()
        positions = connection.sql(query).to_arrow_table()
        columns = [positions[name] for name in ("id", "filename", "file_row_number")]
    else:
        dataset = parquet_bloom.dataset(folder / "data")
        given = keys if way == "locate" else folder / f"keys-{count}.parquet"
        begun, cpu = time.perf_counter(), time.process_time()
        positions = dataset.locate("id", given)
        columns = [positions[name] for name in ("key", "path", "row")]
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    # Not ru_maxrss, in which a process begins with what its parent had.
    memory = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps([positions.num_rows, wall, cpu, memory, digest(columns[0], columns[1].chunks, columns[2])]))


def join(folder: Path, total: int, count: int, files: int) -> tuple[int, str]:
    """Join by brute force: each file is read, and each of its ids looked up in the sorted keys."""
    keys = np.sort(np.asarray(draw(total, count)))
    parts: list[tuple[np.ndarray, str, np.ndarray]] = []
    for number in range(files):
        path = f"{folder}/data/part-{number:05}.parquet"
        ids = pq.read_table(path, columns=["id"])["id"].to_numpy()
        rows = np.flatnonzero(keys[np.minimum(np.searchsorted(keys, ids), len(keys) - 1)] == ids)
        parts.append((ids[rows], path, rows))
    paths = pa.chunked_array([pa.repeat(pa.scalar(path), len(rows)) for _, path, rows in parts])
    ids, rows = np.concatenate([ids for ids, _, _ in parts]), np.concatenate([rows for *_, rows in parts])
    return len(rows), digest(ids, paths.chunks, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the lake; a temporary one without it")
    parser.add_argument("--small", action="store_true", help="10 files of 10,000 rows, and 10,000 keys")
    parser.add_argument("--keys", type=positive)
    parser.add_argument("--repeat", type=positive, default=5)
    parser.add_argument("--run", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    files, rows, count = (10, 10_000, 10_000) if arguments.small else (1_000, 100_000, 1_000_000)
    count, total = arguments.keys or count, files * rows
    if arguments.run:
        run(arguments.run, arguments.folder, total, count)
        return
    header("Positions of many keys")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        make_lake(folder, files, rows)
        keys = draw(total, count)
        pq.write_table(pa.table({"id": pa.concat_arrays([keys, keys])}), folder / f"keys-{count}.parquet")
        expected = join(folder, total, count, files)
        print(f"{files:,} files of {rows:,} rows, {count:,} keys")
        print(f"join by brute force: {expected[0]:,} positions\n")
        results: dict[str, list[Any]] = {way: [] for way in WAYS}
        command = [sys.executable, __file__, "--folder", str(folder), "--keys", str(count)]
        command += ["--small"] if arguments.small else []
        for _ in range(arguments.repeat):
            for way, figures in results.items():
                output = subprocess.run([*command, "--run", way], check=True, capture_output=True, text=True).stdout
                figures.append(json.loads(output.splitlines()[-1]))
    print(f"{'':24} {'rows':>10} {'wall s':>8} {'CPU s':>8} {'memory MB':>10}  equal")
    for way, figures in results.items():
        wall, cpu = (statistics.median(one[i] for one in figures) for i in (1, 2))
        memory = max(one[3] for one in figures) / 1e6
        is_same = all((one[0], one[4]) == expected for one in figures)
        same = "yes" if is_same else "NO"
        print(f"{WAYS[way]:24} {figures[0][0]:10,} {wall:8.2f} {cpu:8.2f} {memory:10.0f}  {same}")


if __name__ == "__main__":
    main()
