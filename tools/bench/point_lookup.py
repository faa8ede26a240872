"""One id among 1,000 files of 4 row groups: `prune` and `read_table` against the engines, same files, same filters.

python tools/bench/point_lookup.py [--files N] [--rows N] [--fpp P] [--folder FOLDER] [--engines NAME,...] [--repeat N]

The lake (2 GB) is made once and kept, in the folder given, PARQUET_BLOOM_LAKE or a folder below the system's temporary
one. Each engine has a process of its own and they take turns, each lookup with an id of its own, by turns one of a row
and one of none; every answer is compared with the row that was written. The figures are medians:

warm    a process that has looked up others, the files in the page cache
first   the first lookup of a process, which knows nothing of the files yet; they are in the page cache
cached  as warm, but no page of the files in memory, which is looked at (mincore): footers can come from the process
cold    as first, but no page of the files in memory

Asked are bytes that the process read by system calls: no engine here maps the files, ClickHouse is told not to. From
storage came whole pages, and what the system reads ahead. Both are counted by the system (/proc/PID/io).
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

SLOW = ("Spark", *PYARROW)  # asked once or twice for each kind
COMPILING = "Spark"  # warm after more lookups than others
STUBBORN = 0.01  # part of the pages that may withstand being dropped


class Keys:
    """Ids that no lookup has asked for before, and the rows that have them."""

    def __init__(self, lake: Lake) -> None:
        self._rng = np.random.default_rng()
        self._rows = lake.some_rows(self._rng)

    def next(self, kind: str) -> tuple[int, list[dict[str, Any]]]:
        if kind == "there":
            row = next(self._rows)
            return row["id"], [_lookup.plain(row)]
        return int(self._rng.integers(-(2**63), 2**63)), []  # one in 10^12 is there


def drop(lake: Lake) -> None:
    """Put the lake out of the page cache, and make sure that it is."""
    for path in lake.paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    resident, total = resident_pages(lake)
    if resident > STUBBORN * total:
        raise SystemExit(f"{resident:,} of {total:,} pages of {lake.data} stay in the page cache")


def resident_pages(lake: Lake) -> tuple[int, int]:
    """How many pages of the lake are in the page cache, and how many it has."""
    resident = total = 0
    for path in lake.paths:
        with open_source(path) as source:
            pages = np.arange(0, source.size, mmap.PAGESIZE, dtype=np.int64)
            resident += count_resident(source.mapped().data, pages)
            total += len(pages)
    return resident, total


class Race:
    """Engines, each in its process, that take turns at one lake."""

    def __init__(self, lake: Lake, engines: list[str], repeat: int) -> None:
        self.lake = lake
        self.trial = replace(lake, files=2, rows=100)
        self.trial.make()
        self.engines = engines
        self.repeat = repeat
        self.keys = Keys(lake)
        self.answers = {name: Answers() for name in engines}

    def run(self) -> None:
        few, slow = 2 * -(-self.repeat // 4), 2  # as many of each kind
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
        """All engines, `count` times in turn; the slow ones `slow` times only."""
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
        """A lookup in a new process."""
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


def choose(asked: str | None) -> list[str]:
    """The engines that can run here; of each other one, a line says why not."""
    wanted = list(_lookup.ENGINES) if asked is None else [*ALWAYS, *asked.split(",")]
    chosen = []
    for name in dict.fromkeys(wanted):
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
    parser.add_argument("--rows", type=positive, default=5_000, help="of a row group; a file has 4")
    parser.add_argument("--fpp", type=float, default=0.001, help="of the filters")
    parser.add_argument("--folder", type=Path, default=home, help="where the lake is kept; PARQUET_BLOOM_LAKE if set")
    parser.add_argument("--engines", type=_engines, default=None, help="names, with commas between; else all")
    parser.add_argument("--repeat", type=positive, default=9, help="warm lookups of each kind")
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
