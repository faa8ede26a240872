"""Compare the kernels with Arrow C++, parquet-java and bare random reads, by sizes, keys, operations and threads.

python tools/bench/kernels.py [--simd PATH,...] [--sizes SIZE,...] [--quick] [--output FILE]

Every peer is a process that runs commands. They run interleaved, on a slice of the keys each, so that other load
affects all equally; times are CPU nanoseconds of the slowest thread per key, medians of the slices, including hashing.
Before a slice, filters small enough for a cache are read, as the other peers have evicted them, and a few keys are run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import _keys
import _peers
import numpy as np
import pyarrow as pa
from _common import header
from _kernel_tables import HUGE, SIZES, Case, Times, print_boundary, print_table, print_verdicts
from _peers import Peer
from _results import record

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom.sbbf import insert_hashes
from parquet_bloom.core.cpu import instruction_sets
from parquet_bloom.util.threads import processors

OPERATIONS = {"insert": "insert", "check-hit": "hit", "check-miss": "miss"}
PATHS = (*instruction_sets(), "base")  # best first


@dataclass(frozen=True)
class Effort:
    """The amount of work: key counts, slices per case, and keys per slice for cheap and for expensive keys."""

    int64s: int = _keys.NUM_INT64
    strings: int = _keys.NUM_STRINGS
    rounds: int = 11
    near_slice: int = 1 << 20
    far_slice: int = 1 << 18

    def keys(self, kind: str) -> int:
        return self.int64s if kind == "int64" else self.strings

    def slice(self, num_bytes: int) -> int:
        return self.near_slice if num_bytes < HUGE else self.far_slice


QUICK = Effort(1 << 18, 1 << 17, 3, 1 << 16, 1 << 16)


class Bench:
    """Makes keys and filters, runs the peers interleaved, and compares their results."""

    def __init__(self, peers: list[Peer], folder: Path, effort: Effort):
        self.peers = peers
        self.folder = folder
        self.effort = effort
        self.times: dict[Case, Times] = {}
        self.boundaries: dict[str, dict[str, dict]] = {}  # path -> kind -> results of _ours.py

    def run(self, sizes: list[str], threads: list[int]) -> None:
        for kind in _keys.KINDS:
            count = self.effort.keys(kind)
            present = _keys.make(kind, count, seed=1)
            self.tell("keys", "absent", _protocol(kind), *_keys.make(kind, count, seed=2).save(self.folder / "absent"))
            loaded = None
            for i, size in enumerate(sizes):
                distinct = min(count, _keys.capacity(SIZES[size]))
                if distinct != loaded:
                    keys = present.repeated(distinct, count).save(self.folder / "present")
                    self.tell("keys", "present", _protocol(kind), *keys)
                    loaded = distinct
                if i == 0:
                    self.tell("warm")
                self.fill(kind, SIZES[size], distinct)
                for operation, many in itertools.product(OPERATIONS, threads):
                    self.measure(Case(size, kind, operation, many))
                if size == "1M" and kind != _keys.KINDS[2]:
                    for peer in self.peers:
                        if peer.name in PATHS:
                            self.boundaries.setdefault(peer.name, {})[kind] = json.loads(peer.ask("boundary"))

    def tell(self, *words: object) -> None:
        for peer in self.peers:
            peer.ask(*words)

    def fill(self, kind: str, num_bytes: int, distinct: int) -> None:
        """Load a filter filled to an fpp of 1 % into every peer, and compare the bits each sets for the same keys."""
        filled = self.folder / "filled"
        ours = self.peers[0]
        ours.ask("filter", num_bytes, _background(filled, num_bytes, distinct))
        ours.ask("fill", filled)
        self.tell("filter", num_bytes, filled)
        bits = {peer.name: peer.ask("bits") for peer in self.peers if peer.fills}
        _same(bits, f"set other bits for {kind} keys in {num_bytes} bytes")

    def measure(self, case: Case) -> None:
        num_bytes = SIZES[case.size]
        count = self.effort.slice(num_bytes)
        starts = self.effort.keys(case.kind) // count
        taken: dict[str, list[float]] = {peer.name: [] for peer in self.peers}
        for turn in range(self.effort.rounds):
            counts = {}
            shift = turn % len(self.peers)
            for peer in self.peers[shift:] + self.peers[:shift]:
                words = (OPERATIONS[case.operation], case.threads, turn % starts * count, count)
                nanoseconds, many = map(int, peer.ask("run", *words).split())
                taken[peer.name].append(nanoseconds / count)
                if peer.fills:
                    counts[peer.name] = many
                elif peer.name == "limit mask" and case.operation == "check-hit" and many:
                    raise SystemExit(f"the limit lost keys that are in the filter: {case}")
            _same(counts, f"found other keys: {case}")
            if case.operation == "check-hit" and set(counts.values()) != {count}:
                raise SystemExit(f"a key that is in a filter was not found: {case}, {counts}")
        self.times[case] = {name: statistics.median(times) for name, times in taken.items()}
        if sys.stderr.isatty():
            progress = f"{len(self.times)} cases: {case.size} {case.kind} {case.operation}, threads {case.threads}"
            print(f"\r{progress:60}", end="\r", file=sys.stderr, flush=True)


def _protocol(kind: str) -> str:
    return "int64" if kind == "int64" else "strings"


def _same(answers: dict[str, object], problem: str) -> None:
    if len(set(answers.values())) > 1:
        raise SystemExit(f"the peers {problem}: {answers}")


def _background(path: Path, num_bytes: int, distinct: int) -> Path:
    """Make a filter of random keys with room for `distinct` more."""
    background = SplitBlockBloomFilter(num_bytes)
    rng = np.random.default_rng(num_bytes)
    remaining = _keys.capacity(num_bytes) - distinct
    while remaining > 0:
        hashes = rng.integers(0, 2**64, min(remaining, 1 << 22), dtype=np.uint64)
        insert_hashes(background, hashes)
        remaining -= len(hashes)
    np.frombuffer(background, np.uint8).tofile(path)
    return path


def default_paths() -> list[str]:
    """Return AVX-512 and AVX2, which have targets; on a processor without them its best path."""
    return [path for path in PATHS if path in ("avx512", "avx2")] or [PATHS[0]]


def start_peers(paths: list[str], folder: Path) -> list[Peer]:
    return [
        *map(_peers.ours, paths),
        *_peers.available(lambda: _peers.arrow(folder, "batch"), "Arrow C++"),
        *_peers.available(lambda: _peers.arrow(folder, "single"), "Arrow C++, a key at a time"),
        *_peers.available(_peers.java, "parquet-java"),
        *_peers.available(lambda: _peers.limit(folder, "read"), "the limit"),
        *_peers.available(lambda: _peers.limit(folder, "mask"), "the limit with masks"),
    ]


def _choices(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        for one in chosen:
            if one not in names:
                raise argparse.ArgumentTypeError(f"{one!r} is none of {', '.join(names)}")
        return chosen

    return parse


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simd", type=_choices(PATHS), default=default_paths(), help=", ".join(PATHS))
    parser.add_argument("--sizes", type=_choices(tuple(SIZES)), default=list(SIZES), help=", ".join(SIZES))
    parser.add_argument("--quick", action="store_true", help="few keys and slices, only to test that it runs")
    parser.add_argument("--output", type=Path, help="file of results in which to replace the part of the kernels")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse_arguments(sys.argv[1:])
    effort = QUICK if options.quick else Effort()
    threads = [1, 2] if processors() > 1 else [1]
    with record(options.output, "kernels"), tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        header(
            "insert and check: the kernels against their peers",
            f"peers    Arrow C++ {pa.__version__}: 256 keys hashed at a time as its writer does; key by key;",
            "         parquet-java of pyspark's jars, in the JVM's own pages",
            "limits   read: hash, index and a random read of 32 bytes in huge pages; mask: the same with the key's",
            "         eight bits made and compared, but no answer given",
            f"keys     {effort.int64s:,} int64; {effort.strings:,} strings of 36, and of 4 to 32 bytes",
            "filters  filled to an fpp of 1 %; two threads check one together, and insert into one each",
            f"times    CPU ns of the slowest thread a key, hashing included: medians of {effort.rounds} slices in turn",
            "checked  all set the same bits and find the same keys",
        )
        peers = start_peers(options.simd, Path(name))
        for peer in peers:
            stack.callback(peer.close)
        bench = Bench(peers, Path(name), effort)
        bench.run(options.sizes, threads)
        for path in (peer.name for peer in peers if peer.name in PATHS):
            print_table(bench.times, path)
            print_verdicts(bench.times, path)
            print_boundary(bench.boundaries.get(path, {}), path)


if __name__ == "__main__":
    main()
