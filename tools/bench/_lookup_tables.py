"""The tables of the point lookups: the resources used by each engine, relative to ours."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

OURS = "read_table"
ALWAYS = ("prune", OURS)
POLARS = "polars"
PYARROW = ("pyarrow dataset", "pyarrow read_table")
WITHOUT_FILTERS = (POLARS, *PYARROW)

KINDS = ("there", "absent")
CASES = ("warm", "first", "cached", "cold")
USES = ("seconds", "cpu", "asked", "stored")

_UNITS = {"seconds": (1e3, 1), "cpu": (1e3, 1), "asked": (1e-6, 3), "stored": (1e-6, 1)}  # factor, digits
_COLUMNS = (
    ("ms", "seconds", CASES),
    ("ms of CPU", "cpu", ("warm",)),
    ("MB asked", "asked", ("cached", "first", "cold")),
    ("MB from storage", "stored", ("cached", "cold")),
)


@dataclass
class Answers:
    """The resources used by one engine's lookups, by resource, case and kind."""

    used: dict[tuple[str, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def median(self, what: str, case: str, kind: str) -> float:
        return statistics.median(self.used[what, case, kind])


@dataclass(frozen=True)
class Target:
    """A target: ours uses `times` times less than the best of some peers."""

    what: str
    case: str
    times: int
    title: str
    without_filters: bool | None = None  # True for peers that use none, False for those that do, None for all

    def peers(self, names: Iterable[str]) -> list[str]:
        peers = (name for name in names if name not in ALWAYS)
        return [name for name in peers if self.without_filters in (None, name in WITHOUT_FILTERS)]


TARGETS = (
    Target("seconds", "warm", 3, "faster, warm", False),
    Target("seconds", "warm", 20, "faster, warm", True),
    Target("asked", "cached", 20, "fewer bytes asked, footers cached"),
    Target("asked", "cold", 4, "fewer bytes asked, cold"),
    Target("stored", "cached", 20, "fewer bytes from storage, footers cached"),
    Target("stored", "cold", 4, "fewer bytes from storage, cold"),
)


def print_table(answers: Mapping[str, Answers]) -> None:
    width = max(map(len, answers))
    for kind in KINDS:
        title = {"there": "the id of a row", "absent": "an id of no row"}[kind]
        print(title)
        print(f"  {'':{width}}" + "".join(f"   {text:^{10 * len(cases)}}".rstrip() for text, _, cases in _COLUMNS))
        print(f"  {'':{width}}" + _line([f"{case:>10}" for case in cases] for _, _, cases in _COLUMNS))
        for name, uses in answers.items():
            print(f"  {name:{width}}" + _line(_cells(uses, what, cases, kind) for _, what, cases in _COLUMNS))
        print()


def _line(groups: Iterable[Iterable[str]]) -> str:
    return "".join("   " + "".join(cells) for cells in groups)


def _cells(uses: Answers, what: str, cases: Sequence[str], kind: str) -> list[str]:
    factor, digits = _UNITS[what]
    return [f"{uses.median(what, case, kind) * factor:10,.{digits}f}" for case in cases]


def verdicts(answers: Mapping[str, Answers]) -> Iterator[tuple[Target, dict[str, float]]]:
    """Print each target, and the usage of its peers relative to ours, in the worse of the two kinds."""
    for target in TARGETS:
        ratios = {
            name: min(_times_more(answers[name], answers[OURS], target, kind) for kind in KINDS)
            for name in target.peers(answers)
        }
        if ratios:
            yield target, ratios


def _times_more(theirs: Answers, ours: Answers, target: Target, kind: str) -> float:
    least = ours.median(target.what, target.case, kind)
    return theirs.median(target.what, target.case, kind) / least if least else float("inf")


def print_verdicts(answers: Mapping[str, Answers]) -> None:
    for target, ratios in verdicts(answers):
        worst = min(ratios.values())
        reached = "reached" if worst >= target.times else "missed"
        print(f"{target.title}: {worst:,.1f} x (asked: at least {target.times}): {reached}")
        print("    " + ", ".join(f"{name} {ratio:,.1f}" for name, ratio in sorted(ratios.items(), key=lambda p: p[1])))
