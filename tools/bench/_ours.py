"""parquet_bloom as a peer of kernels.py; kernels_peer.h defines the protocol, extended by `do_fill` and `do_boundary`.

It runs in a separate process, as PARQUET_BLOOM_SIMD is read when the package is imported.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import _common  # noqa: F401  # finds the package
import numpy as np
import pyarrow as pa

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom.sbbf import check_keys, insert_keys
from parquet_bloom.core.hash.xxh64 import hash_keys
from parquet_bloom.core.keys import Keys
from parquet_bloom.filter import hash_values

SWEPT = 32 << 20  # as in kernels_peer.h
SWEEPS = 4
WARM_KEYS = 4096
LENGTHS = (1_048_576, 1_000)  # values per call, to measure the overhead of calls


class Run:
    """Keys in mapped files."""

    def __init__(self, kind: str, values: str, offsets: str):
        self.values = np.memmap(values, np.int64 if kind == "int64" else np.uint8, "r")
        self.offsets = None if kind == "int64" else np.memmap(offsets, np.int32, "r")
        self.count = len(self.values) if self.offsets is None else len(self.offsets) - 1
        for mapped in (self.values, self.offsets):
            if mapped is not None:
                mapped.view(np.uint8)[::4096].sum()  # so that no slice includes page faults

    def keys(self, start: int, count: int) -> Keys:
        if self.offsets is None:
            return Keys.fixed(self.values, 8, count, start)
        return Keys.variable(self.offsets, self.values, count, start)

    def array(self, start: int, count: int) -> pa.Array:
        values = pa.py_buffer(self.values)
        if self.offsets is None:
            return pa.Array.from_buffers(pa.int64(), count, [None, values], offset=start)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(self.offsets), values], offset=start)


class Server:
    """Answers each line of input with a line."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.filters: list[SplitBlockBloomFilter] = []
        self.pool = ThreadPoolExecutor(2)

    def answer(self, verb: str, *words: str) -> str:
        return getattr(self, f"do_{verb}")(*words)

    def do_keys(self, which: str, kind: str, values: str, offsets: str) -> str:
        self.runs[which] = Run(kind, values, offsets)
        return str(self.runs[which].count)

    def do_warm(self) -> str:
        return "ok"

    def do_filter(self, num_bytes: str, filled: str) -> str:
        self.filters.clear()
        self.filters += [SplitBlockBloomFilter(int(num_bytes)) for _ in range(3)]
        np.frombuffer(self.filters[2], np.uint8)[:] = np.fromfile(filled, np.uint8)
        return "ok"

    def do_fill(self, filled: str) -> str:
        """Insert the present keys into the filled filter, and write it, for all peers to probe."""
        present = self.runs["present"]
        insert_keys(self.filters[2], present.keys(0, present.count))
        np.frombuffer(self.filters[2], np.uint8).tofile(filled)
        return "ok"

    def do_bits(self) -> str:
        present = self.runs["present"]
        insert_keys(self.filters[0], present.keys(0, present.count))
        words = np.frombuffer(self.filters[0], np.uint64)
        return str(np.sum(words * np.arange(1, 2 * len(words), 2, dtype=np.uint64), dtype=np.uint64))

    def do_run(self, operation: str, threads: str, start: str, count: str) -> str:
        share = int(count) // int(threads)
        barrier = threading.Barrier(int(threads))

        def work(thread: int) -> tuple[int, int]:
            return self._work(operation, thread, int(start) + thread * share, share, barrier)

        done = list(self.pool.map(work, range(int(threads))))
        return f"{max(taken for taken, _ in done)} {sum(hits for _, hits in done)}"

    def _work(self, operation: str, thread: int, start: int, count: int, barrier: threading.Barrier) -> tuple[int, int]:
        filter = self.filters[thread if operation == "insert" else 2]
        run = self.runs["absent" if operation == "miss" else "present"]
        kernel: Callable[[SplitBlockBloomFilter, Keys], np.ndarray | None]
        kernel = insert_keys if operation == "insert" else check_keys
        if filter.num_bytes <= SWEPT:
            for _ in range(SWEEPS):
                np.frombuffer(filter, np.uint64).sum()
        kernel(filter, run.keys((start + run.count // 2) % (run.count - WARM_KEYS), WARM_KEYS))
        barrier.wait()
        before = time.thread_time_ns()
        answers = kernel(filter, run.keys(start, count))
        taken = time.thread_time_ns() - before
        return taken, 0 if answers is None else int(np.count_nonzero(answers))

    def do_boundary(self) -> str:
        """Return as JSON the nanoseconds per key of each entry point, by values per call, and of a scalar probe."""
        present = self.runs["present"]
        filter = SplitBlockBloomFilter(self.filters[2].num_bytes)
        filter.insert(present.array(0, 1))  # bound to a type, like a filter of a file
        np.frombuffer(filter, np.uint8)[:] = np.frombuffer(self.filters[2], np.uint8)
        lengths = [min(length, present.count) for length in LENGTHS]
        table = {str(length): self._entrances(filter, present, length) for length in lengths}
        value = present.array(0, 1)[0].as_py()
        assert value in filter
        repeats = 2000
        nanoseconds = _median(lambda: [value in filter for _ in range(repeats)]) / repeats
        return json.dumps({"entrances": table, "scalar": nanoseconds})

    def _entrances(self, filter: SplitBlockBloomFilter, run: Run, length: int) -> dict[str, float]:
        scratch = SplitBlockBloomFilter(filter.num_bytes)
        keys, array = run.keys(0, length), run.array(0, length)
        hashes = hash_keys(keys)
        entrances: dict[str, Callable[[], object]] = {
            "kernel check_keys": lambda: check_keys(filter, keys),
            "filter.check(array)": lambda: filter.check(array),
            "kernel insert_keys": lambda: insert_keys(scratch, keys),
            "filter.insert(array)": lambda: scratch.insert(array),
            "filter.check_hashes": lambda: filter.check_hashes(hashes),
            "filter.insert_hashes": lambda: scratch.insert_hashes(hashes),
            "kernel hash_keys": lambda: hash_keys(keys),
            "hash_values(array)": lambda: hash_values(array),
        }
        repeats = max(1, 20_000 // length)

        def many(entrance: Callable[[], object]) -> Callable[[], object]:
            return lambda: [entrance() for _ in range(repeats)]

        return {name: _median(many(entrance)) / repeats / length for name, entrance in entrances.items()}


def _median(run: Callable[[], object], rounds: int = 15) -> float:
    taken = []
    for _ in range(rounds):
        before = time.thread_time_ns()
        run()
        taken.append(time.thread_time_ns() - before)
    return float(np.median(taken))


def main() -> None:
    server = Server()
    for line in sys.stdin:
        try:
            answer = server.answer(*line.rstrip("\n").split("\t"))
        except Exception as error:
            answer = f"error: {error!r}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
