"""The examples run as they are, and print what they say. The one for Spark: `tests/spark/test_examples.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

PROJECT = Path(__file__).resolve().parents[1]


def run(name: str, *arguments: Path) -> str:
    """Run an example in a process of its own, and return what it printed."""
    paths = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::DeprecationWarning:__main__",
            str(PROJECT / "examples" / name),
            *map(str, arguments),
        ],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout


def test_logs_by_request_id(tmp_path: Path) -> None:
    shown = run("logs_by_request_id.py", tmp_path / "logs ü")
    assert "168 files added; 336,000 values" in shown
    assert re.search(r"filters alone: read [12] of 168 files", shown)
    assert re.findall(r"^   (?:every|the) .* +(\d+) +[\d.]+ +[\d.]+$", shown, re.MULTILINE) == ["1"] * 4
    assert "not indexed yet, and found: 1 row" in shown
    assert "1 file added, 168 unchanged" in shown
    assert "   indexed, and found: 1 row" in shown


def test_gdpr_erasure(tmp_path: Path) -> None:
    shown = run("gdpr_erasure.py", tmp_path / "lake ü")
    (erased, changed) = map(int, re.search(r"^3\. (\d+) rows in (\d+) of 60 files", shown, re.MULTILINE).groups())
    assert erased > 0 < changed < 10
    assert f"{changed} indexed again, {60 - changed} unchanged" in shown
    assert f"0 by the index, 0 in all files; other rows: {600_000 - erased:,}" in shown
    assert not list((tmp_path / "lake ü" / "events").glob(".*"))


def test_delta_table(tmp_path: Path) -> None:
    for package in ("deltalake", "duckdb", "polars"):
        pytest.importorskip(package)
    shown = run("delta_table.py", tmp_path / "shop ü")
    assert "read 20 of 20 files" in shown
    assert "40 filters in 20 files" in shown
    assert re.search(r"read [12] of 20 files", shown)
    ours, *others = re.findall(r"^   (?:parquet_bloom|DuckDB|polars) +(\[.+\])$", shown, re.MULTILINE)
    assert others == [ours] * 2
    assert "the order now: [1] cents" in shown
    assert "2 filters in 1 file" in shown


def test_s3_lake() -> None:
    for package in ("boto3", "moto"):
        pytest.importorskip(package)
    shown = run("s3_lake.py")
    assert re.search(r"nothing known:  read [12] of 40 files", shown)
    assert re.search(r"filters cached: read [12] of 40 files, .*; 1 request, 0 bytes", shown)
    assert "by an index:    read 1 of 40 files" in shown
    assert len(re.findall(r"\{'user': \d+, 'action'", shown)) == 1
