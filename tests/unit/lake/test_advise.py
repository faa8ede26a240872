"""Advice on the granularity of an index: its figures are those of the index that is made then."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.lake import advise_index
from parquet_bloom.lake.lake_index import LakeIndex


def write(folder: Path, files: int, rows: int, most: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(3)
    for number in range(files):
        table = pa.table({"id": rng.integers(0, most, rows)})
        options: dict[str, Any] = {"use_dictionary": False, "data_page_size": 16 << 10, "write_page_index": True}
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=rows // 2, **options)


def test_an_index_weighs_what_was_estimated(tmp_path: Path) -> None:
    write(tmp_path / "lake", 5, 60_000, 10**12)
    advice = advise_index(tmp_path / "lake", "id", zone_rows=4000)
    assert (advice.files, advice.rows, advice.sampled_files, advice.page_index) == (5, 300_000, 4, True)
    for one in advice.granularities:
        settings: dict[str, Any] = {"granularity": one.granularity, "zone_rows": one.zone_rows or None}
        with LakeIndex.create(tmp_path / one.granularity, "id", lake=tmp_path / "lake", **settings) as index:
            index.append()
            stats = index.stats()
        assert (one.units, one.values) == (stats.units, stats.entries["id"])
        assert one.num_bytes == pytest.approx(stats.num_bytes["id"], rel=0.03)
        assert one.candidates == pytest.approx(1, abs=0.01)
    file, row_group, zone = advice.granularities
    assert file.bytes_read == pytest.approx(2 * row_group.bytes_read, rel=0.02)
    assert zone.bytes_read < row_group.bytes_read / 4
    assert zone.bytes_read_without_pages == row_group.bytes_read
    assert advice.recommended == "zone"
    assert shlex.split(advice.command)[4:9] == ["--column", "id", "--granularity", "zone", "--zone-rows"]
    assert "zone" in str(advice)


def test_a_value_that_is_everywhere_needs_no_index(tmp_path: Path) -> None:
    write(tmp_path / "lake", 3, 2_000, 50)
    advice = advise_index(tmp_path / "lake", "id")
    assert (advice.recommended, advice.command) == (None, "")
    assert advice.granularities[0].candidates == pytest.approx(3, abs=0.01)


def test_what_cannot_be_advised_on(tmp_path: Path) -> None:
    write(tmp_path / "lake", 1, 100, 50)
    (tmp_path / "empty").mkdir()
    for lake, column, options in (
        ("empty", "id", {}),
        ("lake", "none", {}),
        ("lake", "id", {"sample": 0}),
        ("lake", "id", {"granularities": []}),
        ("lake", "id", {"granularities": ["page"]}),
        ("lake", "id", {"zone_rows": 0}),
    ):
        with pytest.raises(ParquetBloomError):
            advise_index(tmp_path / lake, column, **options)
