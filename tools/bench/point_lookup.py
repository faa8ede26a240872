"""Look up one id in 1,000 files of 4 row groups: `prune` and `read_table` against engines with the same filters.

python tools/bench/point_lookup.py [--files N] [--rows N] [--fpp P] [--folder FOLDER] [--engines NAME,...] [--repeat N]

The lake (2 GB) is made once and reused, in the given folder, PARQUET_BLOOM_LAKE or a temporary folder. Each engine has
a separate process; they run interleaved, each lookup with another id, alternately present and absent; every answer is
compared with the row that was written. The figures are medians:

warm    a process that has looked up other ids, with the files in the page cache
first   the first lookup of a process, with the files in the page cache
cached  as warm, but with no page of the files in memory, which is checked (mincore); the process may have footers
cold    as first, but with no page of the files in memory

"asked" are bytes that the process read by system calls: no engine here maps the files (ClickHouse by a setting). Reads
from storage are of complete pages, and include read-ahead. Both are counted by the system (/proc/PID/io).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import mmap
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import _lookup
import numpy as np
from _common import header, positive
from _lake import Lake
from _lookup_tables import ALWAYS, KINDS, PYARROW, USES, Answers, print_table, print_verdicts
from _peers import HERE, Peer

from parquet_bloom.storage import open_source
from parquet_bloom.storage.local.scatter import count_resident

SLOW = ("Spark", *PYARROW)  # run only once or twice for each kind
COMPILING = "Spark"  # needs more lookups than others to warm up
STUBBORN = 0.01  # share of the pages that may remain in memory after dropping them


class Keys:
    """Ids that have not been looked up before, with their rows."""

    def __init__(self, lake: Lake) -> None:
        self._rng = np.random.default_rng()
        self._rows = lake.some_rows(self._rng)

    def next(self, kind: str) -> tuple[int, list[dict[str, Any]]]:
        if kind == "there":
            row = next(self._rows)
            return row["id"], [_lookup.plain(row)]
        return int(self._rng.integers(-(2**63), 2**63)), []  # present with a probability of 10^-12


def drop(lake: Lake) -> None:
    """Drop the lake from the page cache, and check that."""
    for path in lake.paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    resident, total = resident_pages(lake)
    if resident > STUBBORN * total:
        raise SystemExit(f"{resident:,} of {total:,} pages of {lake.data} stay in the page cache")


def resident_pages(lake: Lake) -> tuple[int, int]:
    """Return the number of pages of the lake in the page cache, and of all its pages."""
    resident = total = 0
    for path in lake.paths:
        with open_source(path) as source:
            pages = np.arange(0, source.size, mmap.PAGESIZE, dtype=np.int64)
            resident += count_resident(source.mapped().data, pages)
            total += len(pages)
    return resident, total


class Race:
    """Engines, each in a separate process, that run interleaved on one lake."""

    def __init__(self, lake: Lake, engines: list[str], repeat: int) -> None:
        self.lake = lake
        self.trial = replace(lake, files=2, rows=100)
        self.trial.make()
        self.engines = engines
        self.repeat = repeat
        self.keys = Keys(lake)
        self.answers = {name: Answers() for name in engines}

    def run(self) -> None:
        few, slow = 2 * -(-self.repeat // 4), 2  # an even number, for both kinds
        for path in self.lake.paths:
            path.read_bytes()
        for turn, name in self._turns(few, slow):
            self._alone(name, "first", turn)
        with ExitStack() as stack:
            peers = {name: self._start(name, stack) for name in self.engines}
            for turn, name in self._turns(6):
                if turn < 2 or name == COMPILING:
                    self._ask(peers[name], None, turn)
            for turn, name in self._turns(2 * self.repeat, 2 * slow):
                self._ask(peers[name], "warm", turn)
            for turn, name in self._turns(few, slow):
                drop(self.lake)
                self._ask(peers[name], "cached", turn)
        for turn, name in self._turns(few, slow):
            self._alone(name, "cold", turn)

    def _turns(self, count: int, slow: int | None = None) -> Iterator[tuple[int, str]]:
        """Run all engines, interleaved, `count` times; the slow ones only `slow` times."""
        for turn in range(count):
            for name in self.engines:
                if slow is None or turn < slow or name not in SLOW:
                    yield turn, name

    def _start(self, name: str, stack: ExitStack) -> Peer:
        peer = Peer(name, [sys.executable, str(HERE / "_lookup.py"), name, str(self.lake.data), str(self.trial.data)])
        stack.callback(peer.close)
        peer.ask("prepare")
        return peer

    def _alone(self, name: str, case: str, turn: int) -> None:
        """Look up an id in a new process."""
        with ExitStack() as stack:
            peer = self._start(name, stack)
            if case == "cold":
                drop(self.lake)
            self._ask(peer, case, turn)

    def _ask(self, peer: Peer, case: str | None, turn: int) -> None:
        kind = KINDS[turn % len(KINDS)]
        key, rows = self.keys.next(kind)
        answer = json.loads(peer.ask("lookup", key))
        if answer["rows"] is not None and answer["rows"] != rows:
            raise SystemExit(f"{peer.name} found {answer['rows']} for id {key}: there is {rows}")
        if case is not None:
            for what in USES:
                self.answers[peer.name].used[what, case, kind].append(answer[what])


def choose(names: str | None) -> list[str]:
    """Return the engines that can run here; print the reason for each other one."""
    requested = list(_lookup.ENGINES) if names is None else [*ALWAYS, *names.split(",")]
    chosen = []
    for name in dict.fromkeys(requested):
        module = _lookup.ENGINES[name][0]
        if importlib.util.find_spec(module) is None:
            print(f"left out {name}: {module} is not installed; pip install {module}")
        elif name == "Spark" and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
            print("left out Spark: there is no Java; on Debian: apt-get install openjdk-17-jdk-headless")
        else:
            chosen.append(name)
    return chosen


def _versions(engines: list[str]) -> str:
    modules = dict.fromkeys(_lookup.ENGINES[name][0] for name in engines if name not in ALWAYS)
    return ", ".join(f"{module} {importlib.metadata.version(module)}" for module in modules)


def _engines(text: str) -> str:
    for name in text.split(","):
        if name not in _lookup.ENGINES:
            raise argparse.ArgumentTypeError(f"no engine {name!r}; there are: {', '.join(_lookup.ENGINES)}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    home = os.environ.get("PARQUET_BLOOM_LAKE") or Path(tempfile.gettempdir(), "parquet_bloom_lake")
    parser.add_argument("--files", type=positive, default=1_000)
    parser.add_argument("--rows", type=positive, default=5_000, help="rows of a row group; a file has 4")
    parser.add_argument("--fpp", type=float, default=0.001, help="false-positive probability of the filters")
    parser.add_argument(
        "--folder", type=Path, default=home, help="folder of the lake; default: PARQUET_BLOOM_LAKE if set"
    )
    parser.add_argument("--engines", type=_engines, default=None, help="comma-separated names; default: all")
    parser.add_argument("--repeat", type=positive, default=9, help="number of warm lookups of each kind")
    options = parser.parse_args()
    lake = Lake(Path(options.folder), options.files, 4, options.rows, options.fpp)
    lake.make()
    size = sum(path.stat().st_size for path in lake.paths)
    engines = choose(options.engines)
    header(
        f"one id among {lake.files:,} files of {lake.row_groups} row groups",
        f"lake     {size / 1e9:.2f} GB, {lake.rows:,} rows a row group; filters on id, key: fpp {lake.fpp}; page index",
        f"scale    {lake.files:,} files, 1,000 were asked for",
        f"peers    {_versions(engines)}",
        f"medians  of {options.repeat} lookups of each kind in turn when warm, of fewer otherwise",
    )
    race = Race(lake, engines, options.repeat)
    race.run()
    print_table(race.answers)
    print_verdicts(race.answers)


if __name__ == "__main__":
    main()
