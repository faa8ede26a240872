"""The examples run, as they are, and show what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import doc_blocks, doc_lakes

import parquet_bloom

pytestmark = pytest.mark.spark

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_events_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "events ü"
    paths = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(PROJECT / "examples" / "events_pipeline.py"), str(folder)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    rows = re.findall(
        r"^   (Spark, no filters|Spark alone|read_parquet) +(\S+) +(\S+) +(\S+) +\d+$", done.stdout, re.MULTILINE
    )
    table = [(way, *(int(number.replace(",", "")) for number in numbers)) for way, *numbers in rows]
    first, second = table[:3], table[3:]
    assert [way for way, *_ in table] == ["Spark, no filters", "Spark alone", "read_parquet"] * 2
    assert [result for _, result, *_ in first] == [1] * 3
    assert [files for *_, files, _ in first] == [24, 24, 1]
    assert first[0][3] == 144_000
    assert first[1][3] == first[2][3] <= 3_000
    assert {result for _, result, *_ in second} == {second[0][1]}
    assert [files for *_, files, _ in second][:2] == [12, 12]  # three of six days
    assert second[2][2] < 12
    assert second[0][3] == 72_000 > second[1][3] == second[2][3]

    for file in (folder / "lake").rglob("*.parquet"):
        with parquet_bloom.open(file) as opened:
            assert {chunk.column for chunk in opened.chunks()} == {"request_id", "user_id"}
            assert all(chunk.fpp < 0.0011 for chunk in opened.chunks())


def test_the_block_of_the_readme(spark: Any, tmp_path: Path, capsys: Any) -> None:
    """It runs on the files that the README has written before, in a session that exists already."""
    doc_lakes.filtered(tmp_path)
    blocks = doc_blocks.blocks((PROJECT / "README.md").read_text("utf-8"))
    (code,) = [block.text for block in blocks if "SparkSession" in block.text]
    # Spark has the folder that it was started in.
    exec(compile(code.replace('"events/"', repr(f"{tmp_path}/lake/")), "README.md", "exec"), {})
    assert "id=912284217" in capsys.readouterr().out
