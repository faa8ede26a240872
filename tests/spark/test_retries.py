"""Spark's own retries, of tasks whose Python was killed: a session of its own, as local ones commonly try but once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import parquet_bloom

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.crash]


def test_tasks_that_are_killed_and_run_again(tmp_path: Path) -> None:
    script = Path(__file__).with_name("dying_workers.py")
    lake = tmp_path / "lake"
    command = [sys.executable, str(script), str(lake), str(tmp_path / "scratch")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert output == ["embedded", "embedded", "embedded", "unchanged"] * 2 + ["1", "8000"]
    for file in lake.glob("*.parquet"):
        assert parquet_bloom.verify(file, data=True).ok
        with parquet_bloom.open(file) as opened:
            assert len(list(opened.chunks())) == 1
