"""`embed(keep_footer=True)`: the file as it was can be read by its old length, and `drop` leaves no trace of it."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom

COLUMNS = ["id", "name"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    location = tmp_path / "a.parquet"
    table = pa.table({"id": range(90), "name": [f"name {number}" for number in range(90)], "other": [1.5] * 90})
    pq.write_table(table, location, row_group_size=30, write_page_index=True)
    return location


def footer_of(data: bytes) -> int:
    """The bytes of a file's footer, its length and mark included."""
    return int.from_bytes(data[-8:-4], "little") + 8


def test_readers_with_an_old_length_read_what_it_was(path: Path) -> None:
    states = [path.read_bytes()]
    for column in COLUMNS:
        report = parquet_bloom.embed(path, [column], keep_footer=True)
        assert report.dead_bytes == footer_of(states[-1])
        assert report.new_size == path.stat().st_size
        states.append(path.read_bytes())
    for before in states:
        assert states[-1].startswith(before)
        assert pq.read_table(io.BytesIO(states[-1][: len(before)])).equals(pq.read_table(io.BytesIO(states[0])))
    assert parquet_bloom.verify(path, data=True).ok
    assert parquet_bloom.read_table(path, "id = 31")["name"].to_pylist() == ["name 31"]


@pytest.mark.parametrize("retained", [(True, True), (True, False), (False, True)], ids=["both", "first", "second"])
def test_dropping_leaves_no_trace(path: Path, retained: tuple[bool, bool]) -> None:
    before = path.read_bytes()
    for dropped in ([None], [["id"], ["name"]], [["name"], ["id"]]):
        for column, keep_footer in zip(COLUMNS, retained, strict=True):
            parquet_bloom.embed(path, [column], keep_footer=keep_footer)
        for columns in dropped:
            parquet_bloom.drop(path, columns)
            assert parquet_bloom.verify(path, data=True).ok
        assert path.read_bytes() == before


def test_built_anew_beside_what_was(path: Path) -> None:
    parquet_bloom.embed(path, COLUMNS)
    before = path.read_bytes()
    with parquet_bloom.open(path) as file:
        replaced = sum(chunk.length for chunk in file.chunks() if chunk.column == "id")
    report = parquet_bloom.embed(path, ["id"], replace=True, keep_footer=True, fpp=0.001)
    after = path.read_bytes()
    assert after.startswith(before)
    assert report.dead_bytes == footer_of(before) + replaced
    assert parquet_bloom.verify(path, data=True).ok


def test_replacing_takes_kept_footers_along(path: Path) -> None:
    parquet_bloom.embed(path, COLUMNS)
    once = path.read_bytes()
    parquet_bloom.drop(path)
    parquet_bloom.embed(path, COLUMNS, keep_footer=True)
    parquet_bloom.embed(path, COLUMNS, replace=True)
    assert path.read_bytes() == once


def test_another_file_s_footer_stays(path: Path) -> None:
    """Bytes that nobody mentions are kept, unless they are a footer of this very file."""
    other = path.with_name("b.parquet")
    pq.write_table(pa.table({"id": range(90), "name": ["x"] * 90, "other": [2.5] * 90}), other, row_group_size=30)
    data, alien = path.read_bytes(), other.read_bytes()
    footer = data[-footer_of(data) :]
    path.write_bytes(data[: -len(footer)] + alien[-footer_of(alien) :] + footer)
    before = path.read_bytes()
    parquet_bloom.embed(path, ["id"])
    parquet_bloom.drop(path)
    assert path.read_bytes() == before


def test_nothing_to_do_changes_nothing(path: Path) -> None:
    parquet_bloom.embed(path, COLUMNS, keep_footer=True)
    before = path.read_bytes()
    report = parquet_bloom.embed(path, COLUMNS, keep_footer=True)
    assert (report.changed, report.dead_bytes, path.read_bytes()) == (False, 0, before)
    dry = parquet_bloom.embed(path, ["other"], keep_footer=True, dry_run=True)
    assert dry.new_size == parquet_bloom.embed(path, ["other"], keep_footer=True).new_size
