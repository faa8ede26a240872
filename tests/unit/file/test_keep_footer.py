"""`embed(keep_footer=True)`: the file as it was can be read by its old length, and `drop` leaves no trace of it."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import I64, OFFSET, footer_start
from support.writers import surgery

import parquet_bloom
from parquet_bloom.errors import BrokenFilterError

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


# ------------------------------------------------------------------------------------------------------------
# Regressions
# ------------------------------------------------------------------------------------------------------------

TABLE = pa.table({"id": pa.array(range(100), pa.int32()), "name": [f"n{i}" for i in range(100)]})


@pytest.fixture
def small(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=10)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("columns", [["id"], ["name", "id"]], ids=["one", "both"])
@pytest.mark.parametrize("first", [True, False], ids=["kept first", "kept later"])
def test_replaced_filters_of_kept_footers_go_with_them(small, columns, first):
    """A filter that only a kept footer points to stood in the way of those before it, for ever."""
    before = small.read_bytes()
    parquet_bloom.embed(small, ["id", "name"], keep_footer=first)
    for keep_footer in (True, True, False, True):
        parquet_bloom.embed(small, columns, replace=True, keep_footer=keep_footer)
        assert parquet_bloom.verify(small, data=True).ok
    report = parquet_bloom.drop(small)
    assert (small.read_bytes() == before, report.dead_bytes) == (True, 0)


def test_a_footer_that_says_other_things_is_not_one_that_was_kept(small):
    """One of the same column chunks, with other metadata beside them: `drop` took it for `embed`'s own."""
    data = small.read_bytes()
    start = footer_start(data)
    small.write_bytes(data[:start] + data[start:].replace(b"parquet-cpp-arrow", b"parquet-cpp-ARROW") + data[start:])
    before = small.read_bytes()
    parquet_bloom.embed(small, ["id"])
    parquet_bloom.drop(small)
    assert small.read_bytes() == before


@pytest.mark.ci
@pytest.mark.parametrize("lengths", [True, False], ids=["with lengths", "without"])
@pytest.mark.parametrize("keep_footer", [True, False])
def test_a_filter_that_was_cut_short_is_not_made_whole(small, keep_footer, lengths):
    """A kept footer in the place of the missing bytes made it one that denied values: rows were lost."""
    parquet_bloom.embed(small, ["name"])
    if not lengths:
        surgery.without_lengths(small)
    data = small.read_bytes()
    start = footer_start(data)
    small.write_bytes(data[: start - 16] + data[start:])
    before = small.read_bytes()
    with pytest.raises(BrokenFilterError, match="reach beyond the footer's beginning; drop it, or replace it"):
        parquet_bloom.embed(small, ["id"], keep_footer=keep_footer)
    assert small.read_bytes() == before
    parquet_bloom.embed(small, ["id", "name"], replace=True, keep_footer=keep_footer)
    assert parquet_bloom.verify(small, data=True).ok
    assert [parquet_bloom.read_table(small, f"name = 'n{i}'").num_rows for i in range(100)] == [1] * 100


def test_nothing_comes_to_stand_where_a_broken_filter_is_said_to_be(small):
    """A place in a kept footer: the footer went, and another column's filter began there."""
    retained = footer_start(small.read_bytes())
    parquet_bloom.embed(small, ["id"], keep_footer=True)

    def point_into_the_kept_footer(struct):
        _, metadata = next(iter(surgery.each_chunk(struct, "name")))
        metadata.set(OFFSET, I64, retained)

    surgery.rewrite_footer(small, point_into_the_kept_footer)
    parquet_bloom.embed(small, ["id"], replace=True)
    with parquet_bloom.open(small) as file:
        assert min(chunk.offset for chunk in file.chunks() if chunk.column == "id") > retained
    assert parquet_bloom.read_table(small, "name = 'n3'").num_rows == 1


def test_a_file_of_nothing_but_footers_takes_no_hours(tmp_path):
    """Each of them was parsed: eight megabytes took half a minute."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int32())}), path, store_schema=False)
    data = path.read_bytes()
    start = footer_start(data)
    path.write_bytes(data[:start] + data[start:] * 1500)
    assert parquet_bloom.drop(path).changed
    assert len(path.read_bytes()) == start + 500 * (len(data) - start)
    parquet_bloom.drop(path)
    assert path.read_bytes() == data
