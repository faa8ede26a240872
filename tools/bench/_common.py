"""What the benchmarks share: where they ran, and medians of repeated runs taken in turn."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

# Measured is the package beside these tools, whatever else may be installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def machine() -> str:
    """Processor, cores in use, kernel and Python, on one line."""
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
    """Say what runs, where, and how it was called."""
    print(f"# {title}")
    print(f"machine  {machine()}")
    print(f"command  python {' '.join(sys.argv)}")
    for detail in details:
        print(detail)
    print()


def positive(text: str) -> int:
    """A whole number from 1 on, as argparse takes types."""
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
    """Median seconds of each run; they take turns, so that a noisy neighbour disturbs all alike.

    `before` is called ahead of each, outside of its time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeat):
        for name, run in runs.items():
            before()
            started = clock()
            run()
            seconds[name].append(clock() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}
