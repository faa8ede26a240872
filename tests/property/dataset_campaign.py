"""Hold engines over `parquet_bloom.dataset` against the same engines over plain pyarrow datasets, for many queries.

    python tests/property/dataset_campaign.py [--queries 20000] [--seed 0] [ENGINE...]

For each engine, random lakes are asked random queries until so many were compared. Progress and the tally go to stdout;
each difference is printed with its seed, by which `hunt` repeats it. The exit code is 1 if there was any. Each lake runs
in a child process that starts over after some lakes: an engine that crashes ends that lake alone, and is reported.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.random_cases.dataset_engines import ENGINES, Tally, hunt

_LAKES_AT_ONCE = 40


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=20_000, help="queries of each engine that are compared")
    parser.add_argument("--seed", type=int, default=0, help="the first lake's")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"of {', '.join(ENGINES)}; all by default")
    arguments = parser.parse_args()
    wrong = 0
    for engine in arguments.engines or ENGINES:
        wrong += campaign(engine, arguments.queries, arguments.seed)
    return 1 if wrong else 0


def campaign(engine: str, queries: int, seed: int) -> int:
    """Ask one engine so many queries; return the number of differences and crashes."""
    start, shown, crashes, total = time.monotonic(), 0.0, 0, Tally()
    while total.asked < queries:
        tally, has_crashed = _ask_some(engine, range(seed, seed + _LAKES_AT_ONCE))
        seed += _LAKES_AT_ONCE
        crashes += has_crashed
        total.add(tally)
        for text in tally.wrong:
            print(f"DIFFERENCE {text}", flush=True)
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            print(f"{engine}: {total}; {shown - start:.0f} s, next seed {seed}", flush=True)
    for text in total.peer_wrong[:5]:
        print(f"wrong over plain files: {text}"[:600])
    print(f"{engine} done: {total}; {crashes} crashes; {time.monotonic() - start:.0f} s", flush=True)
    return len(total.wrong) + crashes


def _ask_some(engine: str, seeds: range) -> tuple[Tally, int]:
    """Ask some lakes in a process of their own; after a crash, each in one."""
    try:
        return _ask_in_child(engine, list(seeds)), 0
    except BrokenProcessPool:
        if len(seeds) == 1:
            print(f"CRASH seed {seeds.start} {engine}", flush=True)
            return Tally(), 1
    tally, crashes = Tally(), 0
    for seed in seeds:
        more, crashed = _ask_some(engine, range(seed, seed + 1))
        tally.add(more)
        crashes += crashed
    return tally, crashes


def _ask_in_child(engine: str, seeds: list[int]) -> Tally:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_hunt_all, engine, seeds).result()


def _hunt_all(engine: str, seeds: list[int]) -> Tally:
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            total.add(hunt(seed, engine, Path(folder)))
    return total


if __name__ == "__main__":
    sys.exit(main())
