"""Zones that are built while their files are rewritten: what is in them is right, or is not used."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.processes.churn import FILES, ROWS, name_of, value_of

import parquet_bloom
from parquet_bloom import zones


def test_built_while_filters_come_and_go(churned: Any, tmp_path: Path) -> None:
    lake, chance = churned("id"), random.Random(8)
    location = tmp_path / "id.zones.parquet"
    while lake.rewritten < 20:
        report = zones.build(lake.folder, "id", location, rows_per_zone=32, fpp=0.01)
        assert not report.failed
        for _ in range(3):
            value = value_of(chance.randrange(FILES), chance.randrange(ROWS))
            table = parquet_bloom.read_table(lake.folder, f"id = {value}", zones=str(location))
            assert table["name"].to_pylist() == [name_of(value)]


def test_built_while_a_file_is_replaced_by_other_rows(tmp_path: Path, monkeypatch: Any) -> None:
    """The file that was read is the one whose zones these are: of the other one nothing is known."""
    path, location = tmp_path / "a.parquet", tmp_path / "zones" / "id.parquet"
    location.parent.mkdir()
    pq.write_table(pa.table({"id": range(1000)}), path)
    build = zones.build.__globals__["ZoneMaker"]

    class Replacing(build):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            pq.write_table(pa.table({"id": range(5000, 6000)}), tmp_path / ".new")
            (tmp_path / ".new").rename(path)

    monkeypatch.setitem(zones.build.__globals__, "ZoneMaker", Replacing)
    zones.build(path, "id", location, rows_per_zone=100)
    monkeypatch.undo()
    for value in (5000, 5999):
        assert parquet_bloom.read_table(path, f"id = {value}", zones=str(location)).num_rows == 1
    assert parquet_bloom.read_table(path, "id = 7", zones=str(location)).num_rows == 0
