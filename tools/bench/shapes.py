"""Query lakes of many shapes: `dataset` against engines with the same files and filters.

python tools/bench/shapes.py [--lakes FOLDER] [--only LAKE...] [--query QUERY...] [--runs N] [--modes MODE...]
    [--peers PEER...] [--small]

The lakes (2 GB) are made once, in the folder given, and reused. Rows must be the same from every engine in every run;
each run looks up other values, the same for all. Files are in the page cache. The figures are medians, in ms:

first    the first query of a process that has imported the engine, from before the dataset or connection is made
warm     one process for each engine, with its dataset or connection kept from query to query
process  a Python process with that query alone, from its start to its exit; "find" is `parquet-bloom find`
bytes    read by system calls in `first`, with those of modules that it imports then, and in `warm`

Of lakes of lists and of dictionaries, elements and texts take the place of ids and UUIDs.
Engines take turns. A peer that is more than 3 times slower than the best one is run only twice.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from _common import header, positive
from _peers import HERE, PROJECT, Peer
from _shapes_lakes import FPP, LAKES, Lake
from _shapes_peers import ENGINES, OURS, make_job, our_sql, program
from _shapes_queries import NONE, ONE, QUERIES, Query, make_query
from _shapes_rows import describe
from _shapes_tables import BYTES, FIND, FIRST, MODES, PROCESS, WARM, Cell, Results, print_demands, print_tables

_SLOW = 3  # times the best peer's time
_FEW = 2  # runs of a slow peer
_WARM_UP = 2
_ENVIRONMENT = {
    "PYTHONPATH": str(PROJECT),
    "PYTHONDONTWRITEBYTECODE": "",
}  # modules are compiled once, as installed ones
_FIND = "import sys; from parquet_bloom.cli import main; sys.exit(main())"  # as the installed script does

Answer = dict[str, Any]
Run = Callable[[str, Query, bool], Answer | None]
"""Runs a query by an engine, given its name; the bool says whether only to warm up. None if it has no such query."""


class Race:
    """Engines that take turns at the queries of one lake."""

    def __init__(self, lake: Lake, home: Path, engines: Sequence[str], runs: int, results: Results) -> None:
        self.lake = lake
        self.data = lake.data(home)
        self.samples = lake.samples(home)
        self.engines = engines
        self.runs = runs
        self.results = results
        for path in lake.paths(home):
            path.read_bytes()

    def run(self, modes: Sequence[str], queries: Sequence[str]) -> None:
        """Run the queries in some of the modes."""
        if FIRST in modes:
            for name in queries:
                self._compete(Cell(FIRST, self.lake.name, name), self._run_first)
        if WARM in modes:
            with ExitStack() as stack:
                peers = {engine: self._start(engine, stack) for engine in self.engines}

                def run_warm(engine: str, query: Query, is_warming: bool) -> Answer:
                    return self._ask(peers[engine], query, is_first=False)

                for name in queries:
                    self._compete(Cell(WARM, self.lake.name, name), run_warm, _WARM_UP)
        if PROCESS in modes:
            for name in (ONE, NONE):
                if name in queries:
                    self._compete(Cell(PROCESS, self.lake.name, name), self._run_program)
            if self.lake.name == "lookup" and ONE in queries:
                self._compete(Cell(PROCESS, self.lake.name, FIND), self._run_find)

    def _compete(self, cell: Cell, run: Run, warm_up: int = 0) -> None:
        """Run a query of a cell by all engines in turn, as often as asked, and keep what they used."""
        engines = list(self.engines)
        for number in range(-warm_up, self.runs):
            query = make_query(self.lake, self.samples, ONE if cell.query == FIND else cell.query, number + warm_up)
            if number == _FEW:
                engines = self._leave_out_slow(cell, engines)
            described = None if query.rows is None else {"count": query.rows}
            start = number % len(engines)  # none is always behind the same one
            for engine in (*engines[start:], *engines[:start]):
                answer = run(engine, query, number < 0)
                if answer is None:
                    continue
                described = _check(cell, engine, answer["rows"], described)
                if number >= 0:
                    samples = self.results.cells[cell][engine]
                    for what in ("seconds", "cpu", "read"):
                        if what in answer:
                            getattr(samples, what).append(answer[what])
        best = self.results.best(cell)
        text = "" if best is None else f", {best[0]} {best[1] * 1e3:,.1f} ms: {self.results.ratio(cell):.2f}"
        print(f"{' '.join(cell)}: {self.results.ours(cell) * 1e3:,.1f} ms{text}", file=sys.stderr, flush=True)

    def _leave_out_slow(self, cell: Cell, engines: list[str]) -> list[str]:
        times = {engine: min(samples.seconds) for engine, samples in self.results.cells[cell].items()}
        least = min((seconds for engine, seconds in times.items() if engine != OURS), default=0.0)
        return [name for name in engines if name == OURS or (name in times and times[name] <= _SLOW * least)]

    def _start(self, engine: str, stack: ExitStack) -> Peer:
        peer = Peer(engine, [sys.executable, str(HERE / "_shapes_one.py"), engine], environment=_ENVIRONMENT)
        stack.callback(peer.close)
        peer.ask("prepare")
        return peer

    def _ask(self, peer: Peer, query: Query, is_first: bool) -> Answer:
        answer: Answer = json.loads(peer.ask(make_job(self.data, query.terms, query.columns, is_first)))
        return answer

    def _run_first(self, engine: str, query: Query, is_warming: bool) -> Answer:
        with ExitStack() as stack:
            return self._ask(self._start(engine, stack), query, is_first=True)

    def _run_program(self, engine: str, query: Query, is_warming: bool) -> Answer | None:
        text = program(engine, self.data, query.terms, query.columns)
        return None if text is None else _run_process(engine, [sys.executable, "-c", text], ast.literal_eval)

    def _run_find(self, engine: str, query: Query, is_warming: bool) -> Answer | None:
        if engine != OURS:
            return self._run_program(engine, query, is_warming) if engine == "DuckDB" else None
        options = ["find", str(self.data), "--where", our_sql(query.terms), "--columns", ",".join(query.columns or [])]
        command = [sys.executable, "-c", _FIND, *options, "--format", "ndjson"]
        return _run_process(engine, command, lambda text: [json.loads(line) for line in text.splitlines()])


def _run_process(engine: str, command: list[str], parse: Callable[[str], list[dict[str, Any]]]) -> Answer:
    """Run a process that prints rows; return its time from start to exit."""
    environment = {**os.environ, **_ENVIRONMENT}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=PROJECT, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{engine}: a process ended with {process.returncode}: {errors.read()}")
        output.seek(0)
        rows = parse(output.read())
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "rows": describe(rows)}


def _check(cell: Cell, engine: str, rows: dict[str, Any], others: dict[str, Any] | None) -> dict[str, Any]:
    """Compare rows with those of the engines before, or with their number if it is known."""
    if others is not None and any(rows[what] != expected for what, expected in others.items() if what != "some"):
        raise SystemExit(f"{', '.join(cell)}: {engine} gives other rows: {rows}, others {others}")
    return rows


def choose(names: Sequence[str] | None) -> list[str]:
    """Return the engines that can run here, ours first; print the reason for each other one."""
    chosen = [OURS]
    for name in names or ENGINES:
        module = ENGINES[name][0]
        if importlib.util.find_spec(module) is None:
            print(f"left out {name}: {module} is not installed; pip install {module}")
        elif name != OURS:
            chosen.append(name)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lakes", type=Path, help="folder of the lakes, which are kept; default: a temporary one")
    parser.add_argument("--only", nargs="+", choices=[lake.name for lake in LAKES], help="lakes; default: all")
    parser.add_argument("--query", nargs="+", choices=QUERIES, default=list(QUERIES), help="queries; default: all")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), help="default: all")
    parser.add_argument("--peers", nargs="+", choices=[name for name in ENGINES if name != OURS], help="default: all")
    parser.add_argument("--runs", type=positive, default=9, help="runs that a figure is the median of")
    parser.add_argument("--small", action="store_true", help="lakes of a tenth of the size, for a test")
    options = parser.parse_args()
    chosen = [lake for lake in LAKES if options.only is None or lake.name in options.only]
    lakes = [lake.made_smaller() if options.small else lake for lake in chosen]
    engines = choose(options.peers)
    modes = [mode for mode in MODES if mode in options.modes]
    # Bytes come with other modes; with those of the first call if no other is run.
    runs = modes if {FIRST, WARM} & {*modes} or BYTES not in modes else [FIRST, *modes]
    modules = dict.fromkeys(ENGINES[name][0] for name in engines if name != OURS)
    header(
        "lakes of many shapes",
        f"peers    {', '.join(f'{module} {importlib.metadata.version(module)}' for module in modules)}",
        f"filters  fpp {FPP}",
        f"medians  of {options.runs} runs in turn",
        *(f"lake     {lake.name:8}{lake.title}" for lake in lakes),
    )
    results = Results()
    with ExitStack() as stack:
        home = options.lakes or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for lake in lakes:
            lake.make(home.resolve())
            Race(lake, home.resolve(), engines, options.runs, results).run(runs, options.query)
    print_tables(results, modes)
    print_demands(results)


if __name__ == "__main__":
    main()
