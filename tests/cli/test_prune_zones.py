"""`prune --zones` and `find --zones`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquet_bloom import zones

ROWS = 400
IDS = random.Random(5).sample(range(1000, 10**9), ROWS)


def write(path: Path, ids: list[int]) -> None:
    names = [f"n{value}" for value in ids]
    pq.write_table(pa.table({"id": ids, "n": list(range(ROWS)), "name": names}), path, row_group_size=100)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)
    Path("lake").mkdir()
    write(Path("lake", "a.parquet"), IDS)
    for column in ("id", "name"):
        zones.build("lake", column, f"{column}.zones.parquet", rows_per_zone=10, fpp=1e-6)
    return tmp_path


WHERE = ("--where", f"id = {IDS[137]} AND name >= 'a'")


def test_prune_tells_the_rows_that_zones_leave(folder: Path, run: Callable[..., Any]) -> None:
    result = run("prune", "lake", *WHERE, "--zones", "id.zones.parquet", "--zones", "name.zones.parquet", "--json")
    document = json.loads(result.out)
    assert (result.code, document["totals"]["zone_doubts"]) == (0, [])
    skipped, one, *_ = document["row_groups"]
    assert (one["row_ranges"], one["reason"]) == ([[30, 40]], "its zones leave 10 of 100 rows")
    assert (skipped["by"], skipped["reason"]) == (["zones"], "its zones say: no row of it matches")
    table = run("prune", "lake", *WHERE, "--zones", "id.zones.parquet")
    assert "zones leave 10 of 100 rows of these" in table.err
    assert "30-39" in table.out
    assert run("prune", "lake", "--where", "id = 5000", "--zones", "id.zones.parquet").code == 1


def test_find_reads_what_zones_leave(folder: Path, run: Callable[..., Any]) -> None:
    result = run("find", "lake", *WHERE, "--zones", "id.zones.parquet", "--format", "csv")
    assert (result.code, result.out.splitlines()[1:]) == (0, [f"{IDS[137]},137,n{IDS[137]}"])


@pytest.mark.parametrize("verb", ["prune", "find"])
def test_zones_that_cannot_be_used_are_said_to_be(verb: str, folder: Path, run: Callable[..., Any]) -> None:
    time.sleep(0.02)
    write(Path("lake", "a.parquet"), IDS[::-1])
    result = run(verb, "lake", *WHERE, "--zones", "id.zones.parquet", "--json")
    assert result.code == 0
    message = "lake/a.parquet: column 'id': it has changed since its zones were made, which are not used"
    assert f"zones are not used, so more may be read: {message}\n" in result.err
    document = json.loads(result.out)
    assert document["totals"]["zone_doubts"] == [message]
    if verb == "find":
        assert [row["n"] for row in document["rows"]] == [ROWS - 1 - 137]
    Path("id.zones.parquet").write_bytes(b"zones")
    result = run(verb, "lake", *WHERE, "--zones", "id.zones.parquet")
    assert (result.code, result.errors) == (0, [])
    assert "zones are not used, so more may be read: id.zones.parquet: " in result.err


def test_zones_that_are_not_there(folder: Path, run: Callable[..., Any]) -> None:
    result = run("prune", "lake", *WHERE, "--zones", "none.parquet")
    assert (result.code, len(result.errors)) == (2, 1)
    assert "none.parquet" in result.errors[0]
