"""The examples run as they are, and print what they say. The one for Spark: `tests/spark/test_examples.py`."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

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


def of_many_types(rows: int) -> pa.Table:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    return pa.table(
        {
            "user": pa.array(range(rows), pa.uint32()),
            "at": pa.array([moment] * rows, pa.timestamp("ns", "Europe/Berlin")),
            "day": pa.array([moment.date()] * rows),
            "tag": pa.array(["a", "b"] * (rows // 2)).dictionary_encode(),
            "text": pa.array([None, "x" * 50] * (rows // 2), pa.large_string()),
            "cents": pa.array([Decimal("1.25")] * rows, pa.decimal128(7, 2)),
            "more": pa.array([[{"a": 1}], None] * (rows // 2), pa.list_(pa.struct([("a", pa.int16())]))),
        }
    ).replace_schema_metadata({"made by": "a test"})


@pytest.mark.parametrize("integers", [False, True])
def test_the_erasure_leaves_types_codecs_and_metadata_as_they_are(tmp_path: Path, integers: bool) -> None:
    path, table = tmp_path / "a.parquet", of_many_types(500)
    codecs = dict.fromkeys(["user", "at", "day", "tag", "text", "cents", "more.list.element.a"], "GZIP") | {
        "at": "NONE"
    }
    options = {"store_decimal_as_integer": integers, "compression": codecs, "write_page_index": integers}
    pq.write_table(table, path, row_group_size=200, **options)
    parquet_bloom.embed(path, ["user", "text"])
    path.chmod(0o640)
    checksums = tmp_path / ".a.parquet.crc"  # as Hadoop has written it beside the file
    checksums.write_bytes(b"crc\0\0\0\2\0")
    old, rows = pq.ParquetFile(path), pq.read_table(path)
    erased = [*range(200), 333, 499]
    runpy.run_path(str(PROJECT / "examples" / "gdpr_erasure.py"))["erase"](path, np.array(erased))

    new = pq.ParquetFile(path)
    left = pq.read_table(path)
    assert left.schema.equals(rows.schema, check_metadata=True)
    assert left.to_pylist() == rows.take([n for n in range(500) if n not in erased]).to_pylist()
    assert new.schema.equals(old.schema)
    assert new.metadata.metadata == old.metadata.metadata
    assert [new.metadata.row_group(n).num_rows for n in range(new.num_row_groups)] == [199, 99]
    chunks = [[file.metadata.row_group(0).column(n) for n in range(len(new.schema))] for file in (old, new)]
    assert [one.compression for one in chunks[1]] == [one.compression for one in chunks[0]]
    assert [one.has_column_index for one in chunks[1]] == [one.has_column_index for one in chunks[0]]
    with parquet_bloom.open(path) as file:
        assert {chunk.column for chunk in file.chunks()} == {"user", "text"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("what", ["INT96 in nanoseconds", "lists of other names"])
def test_the_erasure_leaves_files_as_they_are_that_it_would_change(tmp_path: Path, what: str) -> None:
    path, table = tmp_path / "a.parquet", of_many_types(4)
    if what == "INT96 in nanoseconds":
        pq.write_table(table.select(["user", "at"]), path, use_deprecated_int96_timestamps=True)
    else:
        pq.write_table(table.select(["user", "more"]), path, use_compliant_nested_type=False, store_schema=False)
    checksums = tmp_path / ".a.parquet.crc"
    checksums.write_bytes(b"crc\0\0\0\2\0")
    before = path.read_bytes()
    erase = runpy.run_path(str(PROJECT / "examples" / "gdpr_erasure.py"))["erase"]
    with pytest.raises(ValueError, match=r"a\.parquet: column '(at|more)[a-z.]*': .* left as it was"):
        erase(path, np.array([3]))
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [".a.parquet.crc", "a.parquet"]


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
