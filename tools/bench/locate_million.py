"""One key among a million partitions: lookup in the index, and `Dataset.locate`, from end to end.

python tools/bench/locate_million.py [--folder FOLDER] [--partitions N] [--keys N] [--append]

Each partition is a real Parquet file of eight rows, 1,000 of them in a folder `part=N` (1 GB of bytes, 4 GB of blocks).
pyarrow writes the first file; the others are copies of it with other ids, in pages and statistics. An id is unique, and
the ids of a file lie anywhere, so that only an index knows its file. The index gets the ids from memory, a file after
the other (`LakeIndex.append_batches`), or with --append from the files (`LakeIndex.append`), which takes ten times as
long. All are made once, in the folder given, and reused. Each answer is compared with the position that the id was
written to; a tenth of the keys are in no file.

open        the index of all partitions is opened; with --append its files are compared with those that were indexed
lookup      of one key in the index alone: the files that may have it
locate      of one key: path, row group and row, read from its file and compared
get         its row, of two columns
folder      `locate` over the folder, not the opened index: each call finds out whether any of the files has changed,
            and the first one lists them
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import struct
import subprocess
import sys
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

ROWS, STEP, IN_FOLDER = 8, 7_919, 1_000
_FEW = 3  # calls over the folder


def find_factor(total: int) -> int:
    """Return a number whose multiples by all numbers below `total` are different modulo it."""
    return next(number for number in range(0x9E3779B1 % total or 1, 2 * total) if math.gcd(number, total) == 1)


def make_ids(partitions: int) -> np.ndarray:
    """Return the ids of each partition."""
    total = partitions * ROWS
    numbers = np.arange(total, dtype=np.uint64)
    return ((numbers * np.uint64(find_factor(total)) % np.uint64(total)).astype(np.int64) * STEP).reshape(-1, ROWS)


def name_file(number: int) -> str:
    return f"part={number // IN_FOLDER:04}/{number % IN_FOLDER:03}.parquet"


class Stamper:
    """Makes files that differ in their ids alone, from one that pyarrow wrote."""

    def __init__(self, folder: Path):
        marks = np.arange(1, ROWS + 1, dtype=np.int64) * 0x0102030405060708 // 8
        table = pa.table({"id": marks, "amount": np.arange(ROWS) / 4})
        path = folder / "template.parquet"
        pq.write_table(table, path, compression="none", use_dictionary=False)
        self.data = path.read_bytes()
        path.unlink()
        # Where the least id is, the greatest one (both in statistics besides), and each of the others.
        self._places = [self._find(struct.pack("<q", mark)) for mark in marks.tolist()]
        assert [len(places) for places in self._places[1:-1]] == [1] * (ROWS - 2)
        assert len(self._places[0]) == len(self._places[-1]) > 1

    def _find(self, text: bytes) -> list[int]:
        places = [place for place in range(len(self.data)) if self.data.startswith(text, place)]
        assert places
        return places

    def make(self, ids: np.ndarray) -> bytes:
        """Return a file with some ids: in its page in their order, in its statistics the least and greatest of them."""
        data = bytearray(self.data)
        for places, number in zip(self._places, ids.tolist(), strict=True):
            for place in places:
                struct.pack_into("<q", data, place, number)
        page = self._places[1][0] - 8  # of the first id
        for places, at, bound in ((self._places[0], page, min(ids)), (self._places[-1], page + 8 * ROWS - 8, max(ids))):
            for place in places:
                if place != at:
                    struct.pack_into("<q", data, place, int(bound))
        return bytes(data)


def make_lake(folder: Path, partitions: int, by_reading: bool) -> None:
    """Write the files and their index, unless they are there."""
    if (folder / "complete").exists():
        return
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    stamper, ids_by_file = Stamper(folder), make_ids(partitions)
    begun = time.perf_counter()
    for number, ids in enumerate(ids_by_file):
        path = data / name_file(number)
        if number % IN_FOLDER == 0:
            path.parent.mkdir(exist_ok=True)
        path.write_bytes(stamper.make(ids))
    check_files(data, partitions)
    written = time.perf_counter()
    settings: dict[str, Any] = {"expected_values": partitions * ROWS, "lake": data}
    values = pa.array(ids_by_file.ravel())
    batches = (
        (os.path.abspath(data / name_file(number)), {"id": values.slice(number * ROWS, ROWS)})
        for number in range(partitions)
    )
    with parquet_bloom.LakeIndex.create(folder / "index", ["id"], **settings) as index:
        report = index.append() if by_reading else index.append_batches(batches)
    assert report.added == partitions, report
    took = {
        "files": written - begun,
        "index": time.perf_counter() - written,
        "from": "files" if by_reading else "memory",
    }
    (folder / "complete").write_text(json.dumps(took))


def check_files(data: Path, partitions: int) -> None:
    """Read some files by pyarrow, which has no part in how they were made."""
    ids = make_ids(partitions)
    for number in np.random.default_rng(2).integers(0, partitions, 100).tolist():
        file = pq.ParquetFile(data / name_file(number))
        assert file.read().column("id").to_pylist() == ids[number].tolist()
        bounds = file.metadata.row_group(0).column(0).statistics
        assert (bounds.min, bounds.max) == (ids[number].min(), ids[number].max())


def run(folder: Path, partitions: int, keys: int) -> None:
    """Measure in this process, and print the figures."""
    figures: dict[str, float] = {}
    total, data = partitions * ROWS, folder / "data"
    numbers = np.random.default_rng(1).integers(0, total + total // 9, keys)
    inverse = pow(find_factor(total), -1, total)
    positions: list[tuple[int, list[tuple[str, int, int]]]] = []
    for number in numbers.tolist():
        place = number * inverse % total
        path = os.path.abspath(data / name_file(place // ROWS))
        positions.append((number * STEP, [(path, 0, place % ROWS)] if number < total else []))
    begun = time.perf_counter()
    index = parquet_bloom.LakeIndex.open(folder / "index")
    figures["open"] = time.perf_counter() - begun
    dataset = parquet_bloom.dataset(index)
    over_folder = parquet_bloom.dataset(data, index=folder / "index", schema=dataset.schema)

    def locate(source: Any, key: int) -> list[tuple[str, int, int]]:
        found = source.locate("id", key)
        return [*zip(*(found[name].to_pylist() for name in ("path", "row_group", "row")), strict=True)]

    def measure(name: str, call: Callable[[int], Any], check: Callable[[Any, list[Any]], bool], count: int) -> None:
        seconds, cpu = [], []
        for key, expected in positions[:count]:
            begun, before = time.perf_counter(), time.process_time()
            answer = call(key)
            seconds.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - before)
            if not check(answer, expected):
                raise SystemExit(f"{name} of {key}: {answer} in place of {expected}")
        ordered = sorted(seconds)
        figures[f"{name} first"] = seconds[0]
        figures[name] = statistics.median(ordered)
        figures[f"{name} CPU"] = statistics.median(cpu)
        figures[f"{name} p99"] = ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)]

    def has_candidate(answers: Any, expected: list[Any]) -> bool:
        found = {candidate.path for candidate in answers[0]}
        return len(found) < 100 and {path for path, _, _ in expected} <= found

    measure("lookup", lambda key: index.lookup("id", [key]), has_candidate, keys)
    measure("locate", lambda key: locate(dataset, key), list.__eq__, keys)
    measure("get", lambda key: dataset.get("id", key, ["amount"])["amount"].to_pylist(), has_amounts, keys)
    measure("folder", lambda key: locate(over_folder, key), list.__eq__, _FEW)
    # Not ru_maxrss, in which a process begins with what its parent had.
    figures["memory"] = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps(figures))


def has_amounts(amounts: list[float], expected: list[tuple[str, int, int]]) -> bool:
    return amounts == [row / 4 for _, _, row in expected]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of the lake; a temporary one without it")
    parser.add_argument("--partitions", type=positive, default=1_000_000)
    parser.add_argument("--keys", type=positive, default=1_000)
    parser.add_argument("--append", action="store_true", help="index the files by reading them")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    partitions, keys = arguments.partitions, arguments.keys
    if arguments.run:
        run(arguments.folder, partitions, keys)
        return
    header("One key among many partitions")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        make_lake(folder, partitions, arguments.append)
        made = json.loads((folder / "complete").read_text())
        command = [sys.executable, __file__, "--run", "--folder", str(folder), "--partitions", str(partitions)]
        output = subprocess.run([*command, "--keys", str(keys)], check=True, capture_output=True, text=True).stdout
        figures = json.loads(output.splitlines()[-1])
        num_bytes = sum(path.stat().st_size for path in (folder / "index").iterdir())
    print(f"{partitions:,} partitions of {ROWS} rows, {keys:,} keys; each answer is the position that was written: yes")
    print(f"files written in {made['files']:.0f} s")
    print(f"index built from {made['from']} in {made['index']:.0f} s, {num_bytes / 1e6:.0f} MB")
    print(f"index opened in {figures['open']:.2f} s; memory at most {figures['memory'] / 1e6:.0f} MB\n")
    print(f"{'ms':10} {'first':>12} {'median':>12} {'99 %':>12} {'CPU, median':>12}")
    for name in ("lookup", "locate", "get", "folder"):
        columns = (figures[key] for key in (f"{name} first", name, f"{name} p99", f"{name} CPU"))
        print(f"{name:10} {' '.join(f'{1e3 * seconds:12.3f}' for seconds in columns)}")


if __name__ == "__main__":
    main()
