"""Older releases, each in an environment of its own that is made when it is missing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Release:
    """A release of an engine, and its requirements for pip."""

    engine: str
    version: str
    requirements: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.engine} {self.version}"


def _of(engine: str, package: str, versions: str, *more: str) -> list[Release]:
    return [Release(engine, version, (f"{package}=={version}", *more)) for version in versions.split()]


# parquet-java is 1.12.2 in Spark 3.2 and 3.3, 1.12.3 in 3.4, 1.13.1 in 3.5, 1.15.2 in 4.0, 1.16.0 in 4.1. Those from
# 1.14.0 to 1.15.2 lose rows when a filter's length is absent. DuckDB knows filters from 1.2 on.
RELEASES = [
    *_of("spark", "pyspark", "4.0.0 3.2.4 3.3.4 3.4.4 3.5.6 4.0.1 4.1.1"),
    *_of("duckdb", "duckdb", "0.9.2 0.10.3 1.0.0 1.1.3 1.2.2 1.3.2 1.4.4"),
    *_of("datafusion", "datafusion", "43.1.0 48.0.0"),
    *_of("pyarrow", "pyarrow", "10.0.1 14.0.2", "numpy<2"),
    *_of("pyarrow", "pyarrow", "17.0.0 20.0.0", "numpy"),
    *_of("polars", "polars", "1.0.0"),
    *_of("fastparquet", "fastparquet", "2026.9.0"),  # no dependency of the tests
    *_of("clickhouse", "chdb", "3.6.0"),
]
PIP_SECONDS = 1800


class NotInstalled(Exception):
    """A release that is not to be had here."""


def python(cache: Path, release: Release) -> str:
    """The Python of a release's environment below `cache`; raises NotInstalled."""
    folder = cache / f"{release.requirements[0].replace('==', '-')}"
    program = folder / "bin" / "python"
    done = folder / "installed"
    if done.exists():
        return str(program)
    cache.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(folder)], release)
    _run([str(program), "-m", "pip", "install", "-q", "--disable-pip-version-check", *release.requirements], release)
    done.touch()
    return str(program)


def _run(command: list[str], release: Release) -> None:
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{release}: pip took more than {PIP_SECONDS} s") from None
    if process.returncode:
        lines = [
            line for line in process.stderr.splitlines() if line.startswith("ERROR")
        ] or process.stderr.splitlines()
        raise NotInstalled(f"{release}: {lines[0] if lines else 'pip failed'}")
