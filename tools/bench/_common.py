"""Helpers shared by the benchmarks: a description of the machine, and medians of interleaved runs."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

# Measure the package of this checkout, even if another one is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def machine() -> str:
    """Describe processor, cores in use, kernel and Python on one line."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def header(title: str, *details: str) -> None:
    """Print the title, the machine and the command line."""
    print(f"# {title}")
    print(f"machine  {machine()}")
    print(f"command  python {' '.join(sys.argv)}")
    for detail in details:
        print(detail)
    print()


def positive(text: str) -> int:
    """Parse an integer of at least 1, as a type of argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def in_turn(
    runs: Mapping[str, Callable[[], object]],
    repeat: int = 5,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each run; runs are interleaved, so that other load affects all equally.

    `before` is called before each, and not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            before()
            started = clock()
            run()
            seconds[name].append(clock() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}
