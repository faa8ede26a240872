"""The tables of the benchmark of shapes, losses first, and what of the demands on them is kept."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from _shapes_peers import OURS
from _shapes_queries import NONE, ONE, QUERIES

FIRST, WARM, PROCESS, BYTES = MODES = ("first", "warm", "process", "bytes")
FIND = "one id, find"
"""A query of `PROCESS` in which `parquet-bloom find` takes the place of our Python program."""

MANY_FILES = ("many", "lookup", "files")
_TITLES = {
    FIRST: "first call of a process, after its imports, ms",
    WARM: "warm, ms",
    PROCESS: "whole process, from start to exit, ms",
}
_NOT_HERE = (
    ("spark.embed, 400 small and 40 large files", "spark_embed"),
    ("Spark point query, 2,000 files, warm", "spark_lookup"),
)


class Cell(NamedTuple):
    mode: str
    lake: str
    query: str


@dataclass
class Samples:
    """What one engine used in the runs of one cell: seconds, seconds of all threads, bytes read."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)

    def median(self, what: str) -> float:
        return statistics.median(getattr(self, what))


class Results:
    """The samples of all cells."""

    def __init__(self) -> None:
        self.cells: dict[Cell, dict[str, Samples]] = defaultdict(lambda: defaultdict(Samples))

    def best(self, cell: Cell, what: str = "seconds") -> tuple[str, float] | None:
        """Return the peer with the least, and its median; None if there is no peer."""
        peers = [(name, samples.median(what)) for name, samples in self.cells[cell].items() if name != OURS]
        return min(peers, key=lambda peer: peer[1], default=None)

    def ours(self, cell: Cell, what: str = "seconds") -> float:
        return self.cells[cell][OURS].median(what)

    def ratio(self, cell: Cell, what: str = "seconds") -> float:
        """Return ours divided by the best peer's; 0 where there is no peer."""
        best = self.best(cell, what)
        return self.ours(cell, what) / max(best[1], 1e-9) if best is not None else 0.0

    def chosen(self, mode: str, queries: Sequence[str], lakes: Sequence[str] | None = None) -> list[Cell]:
        """Return the cells of a mode with one of some queries, in the order of the runs."""
        return [
            cell
            for cell in self.cells
            if cell.mode == mode and cell.query in queries and (lakes is None or cell.lake in lakes)
        ]


@dataclass(frozen=True)
class Demand:
    """At most `times` the time of the best peer, or of `peer`, in some cells of some modes."""

    text: str
    times: float
    modes: tuple[str, ...]
    queries: tuple[str, ...]
    lakes: tuple[str, ...] | None = None
    peer: str | None = None

    def judge(self, results: Results) -> list[tuple[float, Cell]]:
        """Return for each cell how many times more than allowed ours takes: more than 1 falls short."""
        judged = []
        for mode in self.modes:
            for cell in results.chosen(mode, self.queries, self.lakes):
                best = self._find_peer(results, cell)
                if best is not None:
                    judged.append((results.ours(cell) / (self.times * max(best, 1e-9)), cell))
        return judged

    def _find_peer(self, results: Results, cell: Cell) -> float | None:
        if self.peer is not None:
            samples = results.cells[cell].get(self.peer)
            return None if samples is None else samples.median("seconds")
        best = results.best(cell)
        return None if best is None else best[1]


_LOOKUPS = tuple(name for name in QUERIES if name != NONE)
DEMANDS = (
    Demand("every lake, warm: best peer's time or less", 1.0, (WARM,), _LOOKUPS),
    Demand("one id among many files, warm: a third of the best peer's time", 1 / 3, (WARM,), (ONE,), MANY_FILES),
    Demand("every lake, first call: best peer's time or less", 1.0, (FIRST,), _LOOKUPS),
    Demand("no filter: pyarrow's time or less", 1.0, (WARM, FIRST), (NONE,), None, "pyarrow"),
    Demand("no filter: 1.5 x of the best peer's time or less", 1.5, (WARM, FIRST), (NONE,)),
    Demand("`parquet-bloom find` on 300 files: 1.3 x of Python with DuckDB", 1.3, (PROCESS,), (FIND,), None, "DuckDB"),
    Demand("10,000 files, one id, first call: DuckDB's time or less", 1.0, (FIRST,), (ONE,), ("files",), "DuckDB"),
)


def print_tables(results: Results, modes: Iterable[str]) -> None:
    """Print a table for each mode that was run, with the cells that lose most first."""
    for mode in modes:
        if mode == BYTES:
            for run in (FIRST, WARM):
                _print_table(results, run, f"MB read by system calls, {run}", "read", 1e-6)
        else:
            _print_table(results, mode, _TITLES[mode], "seconds", 1e3)


def _print_table(results: Results, mode: str, title: str, what: str, factor: float) -> None:
    cells = sorted((cell for cell in results.cells if cell.mode == mode), key=lambda cell: -results.ratio(cell, what))
    if not cells:
        return
    peers = list(dict.fromkeys(name for cell in cells for name in results.cells[cell] if name != OURS))
    lost = sum(results.ratio(cell, what) > 1 for cell in cells)
    print(f"{title}: {len(cells) - lost} of {len(cells)} no worse than the best peer")
    has_cpu = what == "seconds"
    tail = "   CPU: ours, the best's" if has_cpu else ""
    print(f"  {'lake':8}{'query':14}{'ours/best':>10}{'ours':>11}" + "".join(f"{name:>11}" for name in peers) + tail)
    for cell in cells:
        figures = [_show(results.cells[cell].get(name), what, factor) for name in (OURS, *peers)]
        best = results.best(cell)
        cpu = ""
        if has_cpu and best is not None:
            cpu = f"{results.ours(cell, 'cpu') * 1e3:13,.1f}{results.cells[cell][best[0]].median('cpu') * 1e3:10,.1f}"
        print(f"  {cell.lake:8}{cell.query:14}{results.ratio(cell, what):10.2f}" + "".join(figures) + cpu)
    print()


def _show(samples: Samples | None, what: str, factor: float) -> str:
    if samples is None or not getattr(samples, what):
        return f"{'-':>11}"
    figure = samples.median(what) * factor
    return f"{figure:11,.2f}" if figure < 100 else f"{figure:11,.0f}"


def print_demands(results: Results, demands: Sequence[Demand] = DEMANDS) -> None:
    """Print which demands are kept, and where others fall short by how much."""
    print("shown by")
    for demand in demands:
        for line in describe_demand(results, demand):
            print(f"  {line}")
    for text, bench in _NOT_HERE:
        print(f"  {text}: see the benchmark {bench}")


def describe_demand(results: Results, demand: Demand) -> Iterator[str]:
    judged = sorted(demand.judge(results), key=lambda pair: -pair[0])
    short = [(times, cell) for times, cell in judged if times > 1]
    if not judged:
        yield f"{demand.text}: not measured"
    elif not short:
        yield f"{demand.text}: ok in all {len(judged)} cells, nearest {judged[0][0]:.2f} of what is allowed"
    else:
        yield f"{demand.text}: falls short in {len(short)} of {len(judged)} cells"
        for times, cell in short:
            name = f"{cell.mode:8}{cell.lake:8}{cell.query:14}"
            yield f"    by {times:6.2f} x   {name}{results.ours(cell) * 1e3:9,.1f} ms"
