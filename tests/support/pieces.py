"""Everything (`--tier all`), in pieces of some minutes: a run that is stopped continues with the next call.

    python tests/support/pieces.py [--again] [--keep] [-- PYTEST ARGUMENT...]

Each test is in one piece, which its name decides, and runs there as it does by `--tier all`, with all of its cases.
Each finished piece is a line of JSON in `.cache/all.jsonl`; what pytest printed is beside it, in `.cache/all/`.

Exit codes: 0 every piece passed, 1 one failed, 2 nothing can be run, 130 stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
RECORD = PROJECT / ".cache" / "all.jsonl"
LOGS = PROJECT / ".cache" / "all"
PIECES = 60
APART = (
    "slow",
    "fuzz",
    "parts",
)  # markers of tests whose cases are spread over the pieces; of a file all others stay together
OUTCOMES = ("passed", "skipped", "xfailed", "failed", "error")
FAILURES = ("failed", "error")


class Report:
    """A plugin of pytest that stores as JSON which tests there are, or what came of them."""

    def __init__(self, path: Path):
        self.path = path

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Store each test with what its piece depends on: its name, or its file's."""
        if session.config.option.collectonly:
            self.path.write_text(json.dumps({item.nodeid: _unit_of(item) for item in session.items}))

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Store how many had which outcome, which failed, and which had any."""
        if config.option.collectonly:
            return
        ended = {kind: [report.nodeid for report in terminalreporter.stats.get(kind, [])] for kind in OUTCOMES}
        self.path.write_text(json.dumps(ended))


def _unit_of(item: pytest.Item) -> str:
    apart = any(item.get_closest_marker(marker) for marker in APART)
    return item.nodeid if apart else item.nodeid.split("::", 1)[0]


@dataclass(frozen=True)
class Piece:
    """Some of the tests: its number, from 1, and their names in the order in which they run."""

    number: int
    tests: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Say which tests it has, briefly."""
        return hashlib.sha256("\n".join(sorted(self.tests)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Result:
    """A line of the record: what came of a piece."""

    piece: int
    tests: str  # the piece's digest
    commit: str
    passed: int
    skipped: int
    failing: list[str]  # names of tests that failed, or that pytest did not come to
    seconds: int


def cut(tests: Mapping[str, str], count: int) -> list[Piece]:
    """Divide tests, given with what their piece depends on, into so many pieces; one that is empty is left out.

    Which piece a test is in depends on no other test, so a test more or less changes one piece.
    """
    pieces: list[list[str]] = [[] for _ in range(count)]
    for test, unit in tests.items():
        pieces[zlib.crc32(unit.encode()) % count].append(test)
    return [Piece(number, tuple(names)) for number, names in enumerate(pieces, 1) if names]


def read_record(path: Path) -> list[Result]:
    """Read the results that are recorded; a line that was not finished, or that another version wrote, is none."""
    results = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


def add_to_record(path: Path, result: Result) -> None:
    """Append a result, so that it is there after a power cut."""
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("ab") as record:
        record.write(b"\n" * cut_off + json.dumps(dataclasses.asdict(result)).encode() + b"\n")
        record.flush()
        os.fsync(record.fileno())


def finished(pieces: Iterable[Piece], results: Sequence[Result], commit: str | None) -> dict[int, Result]:
    """Return, by number, each piece's last result of the tests that it has now, at a commit or, for None, at any."""
    digests = {piece.number: piece.digest for piece in pieces}
    return {
        result.piece: result
        for result in results
        if digests.get(result.piece) == result.tests and commit in (None, result.commit)
    }


def run_all(pieces: Sequence[Piece], done: dict[int, Result], run: Callable[[Piece], Result]) -> bool:
    """Run the pieces that have not passed, a line for each, and say how all of them ended; whether all passed."""
    for piece in pieces:
        about = f"piece {piece.number} of {PIECES}:"
        if piece.number in done and not done[piece.number].failing:
            say(about, _describe(done[piece.number]), "(before)")
            continue
        say(about, end=" ")
        done[piece.number] = run(piece)
        say(_describe(done[piece.number]))
        for test in done[piece.number].failing:
            say(f"    {test}")
    failing = [test for result in done.values() for test in result.failing]
    commits = Counter(result.commit for result in done.values())
    say(f"{len(done)} pieces: {sum(len(piece.tests) for piece in pieces)} tests,", end=" ")
    say(f"{sum(result.passed for result in done.values())} passed,", end=" ")
    say(f"{sum(result.skipped for result in done.values())} skipped, {len(failing)} failed,", end=" ")
    say(f"{sum(result.seconds for result in done.values()) / 60:.0f} min,", end=" ")
    say("at commit " + ", ".join(f"{commit} ({count} pieces)" for commit, count in commits.items()))
    for test in failing:
        say(f"FAILED {test}")
    return not failing


def say(*words: str, end: str = "\n") -> None:
    """Print at once, for whoever watches or reads a log."""
    print(*words, end=end, flush=True)


def _describe(result: Result) -> str:
    failed = f"{len(result.failing)} failed, " if result.failing else ""
    skipped = f", {result.skipped} skipped" if result.skipped else ""
    return f"{failed}{result.passed} passed{skipped}, {result.seconds} s"


def judge(piece: Piece, commit: str, code: int, outcomes: Mapping[str, list[str]], seconds: float) -> Result:
    """Turn what pytest reported of a piece's tests into its result; a test without an outcome has failed."""
    bad = {test for kind in FAILURES for test in outcomes.get(kind, [])}
    ended = bad.union(*outcomes.values())
    failing = [test for test in piece.tests if test in bad or test not in ended]
    failing += sorted(bad.difference(piece.tests))
    if code and not failing:
        failing = [f"pytest, with exit code {code}"]
    numbers = {kind: len(outcomes.get(kind, [])) for kind in OUTCOMES}
    passed, skipped = numbers["passed"] + numbers["xfailed"], numbers["skipped"]
    return Result(piece.number, piece.digest, commit, passed, skipped, failing, round(seconds))


def pytest_once(log: Path, *arguments: str) -> tuple[int, Any]:
    """Run pytest in the tier `all`; return its exit code and what `Report` stored. Stop it when this is stopped."""
    LOGS.mkdir(parents=True, exist_ok=True)
    report = log.with_suffix(".json")
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "--tier", "all", "--report", str(report), *arguments]
    with log.open("wb") as output:
        # In a group of its own: a Ctrl-C reaches it once, from here.
        process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    return code, json.loads(report.read_text()) if report.exists() else {}


def run_piece(piece: Piece, commit: str, options: Sequence[str]) -> Result:
    """Run a piece and record its result."""
    began = time.monotonic()
    code, outcomes = pytest_once(LOGS / f"{piece.number}.log", "--durations=10", *options, *piece.tests)
    result = judge(piece, commit, code, outcomes, time.monotonic() - began)
    add_to_record(RECORD, result)
    return result


def current_commit() -> str:
    """Name the commit that is checked out, with "+" for changes since."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
        cwd=PROJECT, capture_output=True, text=True,
    )  # fmt: skip
    return said.stdout.strip() if said.returncode == 0 else "unknown+"


def stop(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C."""
    raise KeyboardInterrupt


def main() -> int:
    """Do as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--again", action="store_true", help="begin again with the first piece")
    parser.add_argument("--keep", action="store_true", help="keep what passed at another commit")
    parser.add_argument("options", nargs="*", metavar="PYTEST ARGUMENT")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)

    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another run of everything is at work here", file=sys.stderr)
            return 2
        try:
            return run_pieces(arguments)
        except KeyboardInterrupt:
            print("\nstopped; the same command without --again continues with this piece", file=sys.stderr)
            return 130


def run_pieces(arguments: argparse.Namespace) -> int:
    """Divide the tests, run what is left of them, and return the exit code."""
    if arguments.again:
        RECORD.unlink(missing_ok=True)
    code, tests = pytest_once(LOGS / "collect.log", "--collect-only", "-q", "-n", "0")
    if code or not tests:
        print((LOGS / "collect.log").read_text(), file=sys.stderr)
        return 2
    pieces, commit = cut(tests, PIECES), current_commit()
    results = read_record(RECORD)
    say(f"{len(tests)} tests in {len(pieces)} pieces, at commit {commit}; the record is {RECORD.relative_to(PROJECT)}")
    if commit.endswith("+") and not arguments.keep:
        say("there are changes since that commit, so what passed before counts with --keep only")
        results = []
    done = finished(pieces, results, None if arguments.keep else commit)
    passed = run_all(pieces, done, lambda piece: run_piece(piece, commit, arguments.options))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
