"""Regressions in embedding filters."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import I64, OFFSET, footer_start
from support.writers import surgery

import parquet_bloom
from parquet_bloom.errors import BrokenFilterError

TABLE = pa.table({"id": pa.array(range(100), pa.int32()), "name": [f"n{i}" for i in range(100)]})


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=10)
    return tmp_path / "a.parquet"


@pytest.mark.parametrize("columns", [["id"], ["name", "id"]], ids=["one", "both"])
@pytest.mark.parametrize("first", [True, False], ids=["kept first", "kept later"])
def test_replaced_filters_of_kept_footers_go_with_them(path, columns, first):
    """A filter that only a kept footer points to stood in the way of those before it, for ever."""
    before = path.read_bytes()
    parquet_bloom.embed(path, ["id", "name"], keep_footer=first)
    for keep_footer in (True, True, False, True):
        parquet_bloom.embed(path, columns, replace=True, keep_footer=keep_footer)
        assert parquet_bloom.verify(path, data=True).ok
    report = parquet_bloom.drop(path)
    assert (path.read_bytes() == before, report.dead_bytes) == (True, 0)


def test_a_footer_that_says_other_things_is_not_one_that_was_kept(path):
    """One of the same column chunks, with other metadata beside them: `drop` took it for `embed`'s own."""
    data = path.read_bytes()
    start = footer_start(data)
    path.write_bytes(data[:start] + data[start:].replace(b"parquet-cpp-arrow", b"parquet-cpp-ARROW") + data[start:])
    before = path.read_bytes()
    parquet_bloom.embed(path, ["id"])
    parquet_bloom.drop(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("lengths", [True, False], ids=["with lengths", "without"])
@pytest.mark.parametrize("keep_footer", [True, False])
def test_a_filter_that_was_cut_short_is_not_made_whole(path, keep_footer, lengths):
    """A kept footer in the place of the missing bytes made it one that denied values: rows were lost."""
    parquet_bloom.embed(path, ["name"])
    if not lengths:
        surgery.without_lengths(path)
    data = path.read_bytes()
    start = footer_start(data)
    path.write_bytes(data[: start - 16] + data[start:])
    before = path.read_bytes()
    with pytest.raises(BrokenFilterError, match="reach beyond the footer's beginning; drop it, or replace it"):
        parquet_bloom.embed(path, ["id"], keep_footer=keep_footer)
    assert path.read_bytes() == before
    parquet_bloom.embed(path, ["id", "name"], replace=True, keep_footer=keep_footer)
    assert parquet_bloom.verify(path, data=True).ok
    assert [parquet_bloom.read_table(path, f"name = 'n{i}'").num_rows for i in range(100)] == [1] * 100


def test_nothing_comes_to_stand_where_a_broken_filter_is_said_to_be(path):
    """A place in a kept footer: the footer went, and another column's filter began there."""
    retained = footer_start(path.read_bytes())
    parquet_bloom.embed(path, ["id"], keep_footer=True)

    def point_into_the_kept_footer(struct):
        _, metadata = next(iter(surgery.each_chunk(struct, "name")))
        metadata.set(OFFSET, I64, retained)

    surgery.rewrite_footer(path, point_into_the_kept_footer)
    parquet_bloom.embed(path, ["id"], replace=True)
    with parquet_bloom.open(path) as file:
        assert min(chunk.offset for chunk in file.chunks() if chunk.column == "id") > retained
    assert parquet_bloom.read_table(path, "name = 'n3'").num_rows == 1


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
