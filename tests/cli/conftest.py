"""Fixtures that run the command line, in this or in a separate process, and compare its output with golden files."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
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

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of NDJSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> dict[str, Any]:
        """Return the document of JSON."""
        document: dict[str, Any] = json.loads(self.out)
        return document


def _decoded(stream: bytes | None) -> str:
    return (stream or b"").decode("utf-8", "surrogateescape")


@pytest.fixture(scope="session")
def run_on_terminal() -> Callable[..., Run]:
    """Return what runs a command in a process of its own, and answers its question on a terminal."""

    def start(answer: str, *arguments: str) -> Run:
        controller, terminal = pty.openpty()
        command = [sys.executable, "-m", "parquet_bloom", *arguments]
        with subprocess.Popen(command, stdin=terminal, stderr=terminal, stdout=subprocess.DEVNULL) as process:
            os.close(terminal)
            seen = b""
            with contextlib.suppress(OSError):  # at the end
                while part := os.read(controller, 1000):
                    if b"?" in part:
                        os.write(controller, f"{answer}\n".encode())
                    seen += part
            code = process.wait(60)
        os.close(controller)
        return Run(code, "", _decoded(seen))

    return start


@pytest.fixture(scope="session")
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
def refused(run: Callable[..., Run]) -> Callable[..., str]:
    """Return the line that a command prints in place of any row, after `error: `.

    No file in the working directory may change.
    """

    def call(*args: Any, stdin: str | bytes | None = None) -> str:
        before = read_files(Path())
        done = run(*args, stdin=stdin)
        assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1), (args, done)
        (line,) = done.errors
        assert " a bug" not in line
        assert line.isprintable()
        assert read_files(Path()) == before, args
        return line.removeprefix("error: ")

    return call


@pytest.fixture
def spawn() -> Callable[..., Run]:
    """Run commands in a separate process, with pipes as stdout and stderr unless `options` say otherwise."""

    def call(*args: Any, **options: Any) -> Run:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120} | options
        command = [sys.executable, "-m", "parquet_bloom", *map(os.fspath, args)]
        result = subprocess.run(command, **options)
        return Run(result.returncode, _decoded(result.stdout), _decoded(result.stderr))

    return call


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by their paths from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def contents() -> Callable[[Any], dict[str, bytes]]:
    """``contents("lake")``: what all files below a folder hold."""
    return lambda folder: read_files(Path(folder))


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working directory with copies of ``lake/``, ``orc/`` and ``broken.parquet``."""
    shutil.copytree(HERE / "lake", tmp_path / "lake")
    shutil.copytree(HERE / "orc", tmp_path / "orc")
    shutil.copy(HERE / "broken.parquet", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An Iceberg table `db.events` of a catalog `prod`: two snapshots, a tag, a column that was renamed."""
    catalogs = pytest.importorskip("pyiceberg.catalog")
    config = pytest.importorskip("pyiceberg.utils.config")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", config.Config())  # pyiceberg reads the environment when it is imported
    catalog = catalogs.load_catalog("prod")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    table.append(pa.table({"id": range(100), "text": ["a"] * 100}))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()
    with table.update_schema() as update:
        update.rename_column("id", "user")
    table.append(pa.table({"user": range(100, 200), "text": ["b"] * 100}))
    return catalog.load_table("db.events")


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
