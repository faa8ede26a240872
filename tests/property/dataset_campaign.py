"""Hold engines over `parquet_bloom.dataset` against the same engines over plain pyarrow datasets, for many queries.

    python tests/property/dataset_campaign.py [--queries 20000] [--seed 0] [ENGINE...]

For each engine, random lakes are asked random queries until so many were compared. Progress and the tally go to stdout;
each difference is printed with its seed, by which `hunt` repeats it. The lakes are asked in a child process: an engine
that crashes ends the queries of that lake alone, and is reported. The exit code is 1 after any difference or crash.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
        tally, has_crashed = _ask_some(engine, list(range(seed, seed + _LAKES_AT_ONCE)))
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


def _ask_some(engine: str, seeds: list[int]) -> tuple[Tally, int]:
    """Ask some lakes in a child process; after a crash, those that are left in another one."""
    total, crashes = Tally(), 0
    context = multiprocessing.get_context("spawn")
    while seeds:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_hunt_all, args=(engine, seeds, sender))
        child.start()
        sender.close()
        try:
            while True:
                total.add(receiver.recv())
                seeds = seeds[1:]
        except EOFError:
            child.join()
        if seeds:
            print(f"CRASH seed {seeds[0]} {engine}: exit code {child.exitcode}", flush=True)
            crashes, seeds = crashes + 1, seeds[1:]
    return total, crashes


def _hunt_all(engine: str, seeds: list[int], sender: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            sender.send(hunt(seed, engine, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
