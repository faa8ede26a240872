"""Hold random scans of random lakes, in every public way, against plain pyarrow, an oracle and DuckDB.

    python tests/property/scan_campaign.py [--scans 30000] [--seed 0] [--processes 2]
    python tests/property/scan_campaign.py --lake SEED [--scan NUMBER] [--keep FOLDER]      # one that differed

A lake is of one seed, and is asked some scans; `support/random_cases/scan_hunt.py` says what is compared. Progress and
the tally go to stdout; each difference is printed with the arguments that repeat it. Child processes ask the lakes: a
crash, or a lake that takes longer than ten minutes, ends that lake alone, and is reported. The exit code is 1 after
any difference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.random_cases.scan_hunt import SCANS, ScanTally, hunt

_LAKES_AT_ONCE = 20
_LONGEST_SECONDS = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scans", type=int, default=30_000, help="scans that are compared, at least")
    parser.add_argument("--seed", type=int, default=0, help="the first lake's")
    parser.add_argument("--processes", type=int, default=1, help="that work at the same time")
    parser.add_argument("--lake", type=int, help="scan the lake of this seed only")
    parser.add_argument("--scan", type=int, help="do this scan of it only")
    parser.add_argument("--keep", type=Path, help="write the lake into this folder, which must not exist")
    arguments = parser.parse_args()
    if arguments.lake is not None:
        return repeat(arguments.lake, arguments.scan, arguments.keep)
    return 1 if campaign(arguments.scans, arguments.seed, arguments.processes) else 0


def repeat(lake: int, scan: int | None, keep: Path | None) -> int:
    """Scan one lake again."""
    if keep is not None:
        keep.mkdir()
    folder = Path(tempfile.mkdtemp()) if keep is None else keep
    try:
        tally = hunt(lake, folder, only=scan)
    finally:
        if keep is None:
            shutil.rmtree(folder)
    for text in tally.wrong:
        print(f"DIFFERENCE {text}")
    print(tally)
    return 1 if tally.wrong else 0


def campaign(scans: int, seed: int, processes: int) -> int:
    """Scan lakes until there were so many scans; return the number of differences and crashes."""
    start, shown, total, crashes = time.monotonic(), time.monotonic(), ScanTally(), 0
    with ThreadPoolExecutor(processes) as threads:
        while total.scans < scans:
            missing = -(-(scans - total.scans) // (SCANS * _LAKES_AT_ONCE))
            firsts = [seed + number * _LAKES_AT_ONCE for number in range(min(processes, missing))]
            seed += len(firsts) * _LAKES_AT_ONCE
            for tally, num_crashes in threads.map(_scan_some, firsts):
                total.add(tally)
                crashes += num_crashes
                for text in tally.wrong:
                    print(f"DIFFERENCE {text}", flush=True)
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                print(f"{total}; {shown - start:.0f} s, next seed {seed}", flush=True)
    print(f"done: {total}; {crashes} crashes; {time.monotonic() - start:.0f} s, next seed {seed}")
    print(f"ways {dict(total.ways)}; places {dict(total.places)}", flush=True)
    return len(total.wrong) + crashes


def _scan_some(first: int) -> tuple[ScanTally, int]:
    """Scan some lakes in a child process; after a crash, those that are left in another one."""
    total, crashes, seeds = ScanTally(), 0, list(range(first, first + _LAKES_AT_ONCE))
    context = multiprocessing.get_context("spawn")
    while seeds:
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_scan_all, args=(seeds, sender))
        child.start()
        sender.close()
        try:
            while receiver.poll(_LONGEST_SECONDS):
                total.add(receiver.recv())
                seeds = seeds[1:]
            child.kill()
        except EOFError:
            pass
        child.join()
        if seeds:
            print(f"CRASH --lake {seeds[0]}: exit code {child.exitcode}", flush=True)
            crashes, seeds = crashes + 1, seeds[1:]
    return total, crashes


def _scan_all(seeds: list[int], sender: Any) -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            try:
                tally = hunt(seed, Path(folder))
            except Exception as error:
                tally = ScanTally(wrong=[f"--lake {seed}: {type(error).__name__}: {error}"])
            sender.send(tally)
            for path in Path(folder).iterdir():
                shutil.rmtree(path)


if __name__ == "__main__":
    sys.exit(main())
