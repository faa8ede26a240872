"""The page of what stays names everything that is public."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import parquet_bloom

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "stability.md").read_text()


def named(section: str) -> set[str]:
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return set(re.findall(r"`([\w.-]+)`", text))


def test_the_page_has_all_names_of_the_root():
    assert set(parquet_bloom.__all__) - {"errors", "types"} <= named("Python")


def test_the_page_has_all_names_for_spark():
    spark = pytest.importorskip("parquet_bloom.spark")
    assert set(spark.__all__) <= named("Python")


def test_the_page_has_all_commands():
    done = subprocess.run([sys.executable, "-m", "parquet_bloom", "--help"], capture_output=True, text=True, check=True)
    _, _, listed = done.stdout.partition("Commands:\n")
    commands = set(re.findall(r"^  ([a-z-]+) {2,}", listed, re.M))
    assert "embed" in commands
    assert commands <= named("Commands")
