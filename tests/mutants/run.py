"""Plant each fault of `faults/` in a copy of the project, and see whether the tests that should notice do.

    python tests/mutants/run.py [--list] [--write] [NAME...]

Exit codes: 0 each fault was caught, 1 one was not, 2 nothing can be said: the tests fail without a fault, or a fault
cannot be planted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import bench
import catalogue

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
_LAST_LINES = 40  # of what pytest printed, where it helps
_HEAD = "| fault | folder | what it breaks | caught by | tier | s |"
_MISSED = "**nothing**"


class Result(NamedTuple):
    """Outcome of a fault: the test that caught it, or what happened instead; and the time that it took."""

    fault: catalogue.Fault
    caught_by: str | None
    otherwise: str
    seconds: float


def main() -> int:
    """Do as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults to plant; all by default")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("--write", action="store_true", help=f"store the rows in {RESULTS.name}")
    arguments = parser.parse_args()

    faults = [fault for fault in catalogue.load() if not arguments.names or fault.name in arguments.names]
    unknown = set(arguments.names) - {fault.name for fault in faults}
    if unknown:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    if arguments.list:
        for fault in faults:
            print(f"{fault.name} ({fault.folder}, {fault.tier}): {fault.breaks}")
        return 0
    problems = [f"{fault.name}: {problem}" for fault in faults if (problem := fault.problem())]
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 2

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy is removed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else the tests, too, ignore it in a background job
    try:
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            results = caught(faults, bench.Bench(catalogue.PROJECT, Path(folder).resolve()))
    except KeyboardInterrupt:
        print("\ninterrupted; the copy is removed", file=sys.stderr)
        return 130
    if results is None:
        return 2
    rows = {result.fault.name: row_of(result) for result in results}
    print("\n" + table_of(rows), end="")
    if arguments.write:
        before = kept_rows(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        table = table_of({fault.name: row for fault in catalogue.load() if (row := (before | rows).get(fault.name))})
        RESULTS.write_text(table, encoding="utf-8")
    return 0 if all(result.caught_by for result in results) else 1


def caught(faults: list[catalogue.Fault], copy: bench.Bench) -> list[Result] | None:
    """Plant the faults one by one; None if the tests fail without any."""
    package = faults[0].file.partition("/")[0]
    where = copy.imported(package)
    if copy.folder not in where.parents:
        say(f"Python finds {package} at {where}, not in the copy")
        return None
    for tier in catalogue.TIERS:
        tests = sorted({test for fault in faults if fault.tier == tier for test in fault.tests})
        if tests and not pass_without_a_fault(copy, tests, tier):
            return None
    results = []
    for number, fault in enumerate(faults, 1):
        say(f"[{number}/{len(faults)}] {fault.name} ... ", end="")
        results.append(judged(fault, copy))
        say(f"{results[-1].seconds:.0f} s, {results[-1].caught_by or 'NOT CAUGHT: ' + results[-1].otherwise}")
    return results


def pass_without_a_fault(copy: bench.Bench, tests: list[str], tier: str) -> bool:
    """Run a tier's tests in the copy as it is; whether all pass."""
    begun = time.monotonic()
    say(f"{len(tests)} tests of the {tier} tier without a fault ... ", end="")
    ended = copy.test(tests, tier)
    say(f"{time.monotonic() - begun:.0f} s, {ended.text.strip().splitlines()[-1]}")
    if ended.code:
        say(last_lines(ended.text))
    return ended.code == 0


def judged(fault: catalogue.Fault, copy: bench.Bench) -> Result:
    """Plant a fault and run its tests."""
    begun = time.monotonic()
    with copy.planted(fault) as broken:
        ended = broken or copy.test(fault.tests, fault.tier, "-x")
    failed = bench.failed(ended.text)
    if not broken and ended.code == 1 and failed:
        return Result(fault, failed[0], "", time.monotonic() - begun)
    what = "it cannot be built" if broken else {0: "its tests pass", 1: "no test failed, but"}.get(ended.code, "")
    detail = "" if ended.code == 0 else f" (exit code {ended.code})\n{last_lines(ended.text)}"
    return Result(fault, None, f"{what}{detail}".strip(), time.monotonic() - begun)


def row_of(result: Result) -> str:
    """Return the row of a fault in the table."""
    fault, caught_by, otherwise, taken = result
    by = f"`{caught_by.removeprefix('tests/')}`" if caught_by else f"{_MISSED}: {otherwise.splitlines()[0]}"
    return f"| {fault.name} | {fault.folder} | {fault.breaks} | {by} | {fault.tier} | {taken:.0f} |"


def table_of(rows: dict[str, str]) -> str:
    """Return the results as a Markdown table."""
    count = sum(_MISSED not in row for row in rows.values())
    lines = [
        "# Faults planted, and the tests that caught them",
        "",
        f"{count} of {len(rows)} caught. The seconds are those of the build and of the tests, and until Spark",
        "has started. Written by `bash tools/mutants.sh --write`, not by hand.",
        "",
        _HEAD,
        "| --- | --- | --- | --- | --- | ---: |",
        *rows.values(),
    ]
    return "\n".join(lines) + "\n"


def kept_rows(table: str) -> dict[str, str]:
    """Return the rows of an earlier table, by the names of their faults."""
    rows = table.partition(_HEAD)[2].splitlines()[2:]
    return {row.split(" ", 2)[1]: row for row in rows}


def last_lines(text: str) -> str:
    """Return the end of a long text."""
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])


def say(text: str, end: str = "\n") -> None:
    """Print at once, also where the output is piped."""
    print(text, end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
