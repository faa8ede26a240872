"""Fixtures that run the command line, in this or in a separate process, and compare its output with golden files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parquet_bloom.cli import tool

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Run:
    """The result of a run: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """Return the lines of stderr that are errors."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def _decoded(stream: bytes | None) -> str:
    return (stream or b"").decode("utf-8", "surrogateescape")


@pytest.fixture(autouse=True)
def as_wide_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the width of tables in pipes independent of the terminal of the test run."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def run() -> Callable[..., Run]:
    """Run commands in this process: ``run("show", path)``. An uncaught exception fails the test."""

    def call(*args: Any, stdin: str | bytes | None = None) -> Run:
        result = CliRunner().invoke(tool, [str(arg) for arg in args], input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert "Traceback" not in result.stderr
        return Run(result.exit_code, _decoded(result.stdout_bytes), _decoded(result.stderr_bytes))

    return call


@pytest.fixture
def spawn() -> Callable[..., Run]:
    """Run commands in a separate process, with pipes as stdout and stderr unless `options` say otherwise."""

    def call(*args: Any, **options: Any) -> Run:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60} | options
        command = [sys.executable, "-m", "parquet_bloom", *map(os.fspath, args)]
        result = subprocess.run(command, **options)
        return Run(result.returncode, _decoded(result.stdout), _decoded(result.stderr))

    return call


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working directory with copies of ``lake/``, ``orc/`` and ``broken.parquet``."""
    shutil.copytree(HERE / "lake", tmp_path / "lake")
    shutil.copytree(HERE / "orc", tmp_path / "orc")
    shutil.copy(HERE / "broken.parquet", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a golden file; with ``PARQUET_BLOOM_UPDATE_GOLDEN=1`` write it instead."""

    def compare(name: str, text: str) -> None:
        path = HERE / "golden" / f"{name}.txt"
        if os.environ.get("PARQUET_BLOOM_UPDATE_GOLDEN", "0") not in ("", "0"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.is_file(), f"no {path}; PARQUET_BLOOM_UPDATE_GOLDEN=1 writes it"
        assert text == path.read_text("utf-8"), (
            "it differs from the golden file; PARQUET_BLOOM_UPDATE_GOLDEN=1 renews it"
        )

    return compare
