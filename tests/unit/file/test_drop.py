"""Filters dropped from files: what leaves the file, what stays, and what is refused with nothing changed."""

from __future__ import annotations

import io
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.malformed import malformed
from support.oracle import oracle
from support.writers import peers, surgery

import parquet_bloom
from parquet_bloom import errors

ROWS, GROUPS = 120, 3
BY_PEERS = ["pyarrow-all", "pyarrow-other", "duckdb-all", "datafusion-all"]
by_peers = pytest.mark.parametrize("name", [*BY_PEERS, pytest.param("spark-all", marks=pytest.mark.spark)])
COLUMNS = ["id", "name", "user.key"]


def make_table() -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "id": pa.array([number * 7919 for number in numbers], pa.int64()),
            "name": [None if number % 7 == 0 else f"name {number}" for number in numbers],
            "flag": [number % 2 == 0 for number in numbers],
            "user": [{"key": number % 50} for number in numbers],
        }
    )


def write(path: Path, **options: Any) -> bytes:
    pq.write_table(make_table(), path, row_group_size=ROWS // GROUPS, **options)
    return path.read_bytes()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A file of three row groups without filters."""
    write(tmp_path / "plain.parquet")
    return tmp_path / "plain.parquet"


def owners(path: Path) -> set[tuple[int, str]]:
    return {*oracle.filters(path)}


def of_columns(*columns: str) -> set[tuple[int, str]]:
    return {(group, column) for group in range(GROUPS) for column in columns}


def assert_good(path: Path, table: pa.Table) -> None:
    """Every row is there for other readers, and every filter that is left is good by the data."""
    assert pq.read_table(path).equals(table)
    assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(table.num_rows,)]
    report = parquet_bloom.verify(path, data=True)
    assert report.ok, [str(problem) for problem in report.problems]


# ------------------------------------------------------------------------------------------------------------
# Files are what they were before
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write_page_index": True},
        {"bloom_filter_options": {"name": {"ndv": 40, "fpp": 0.01}}},
        {"data_page_version": "2.0", "compression": "zstd", "store_schema": False},
    ],
    ids=["plain", "page index", "its own filters", "v2"],
)
@pytest.mark.parametrize("steps", [[["id", "user.key"]], [["id"], ["user.key"]], [["user.key"], ["id"]]])
def test_dropped_filters_leave_no_trace(tmp_path, options, steps):
    path = tmp_path / "a.parquet"
    before = write(path, **options)
    grown = parquet_bloom.embed(path, ["id", "user.key"])
    table = pq.read_table(path)
    freed = 0
    for columns in steps:
        report = parquet_bloom.drop(path, columns)
        assert (report.changed, report.dead_bytes) == (True, 0)
        assert {(gone.row_group, gone.column) for gone in report.filters} == of_columns(*columns)
        assert all(gone.freed for gone in report.filters)
        assert report.new_size == path.stat().st_size
        freed += report.bytes_freed
        assert_good(path, table)
    assert path.read_bytes() == before
    assert freed == grown.bytes_added


@pytest.mark.ci
@by_peers
def test_other_writers_filters_are_dropped(name, peer_file, tmp_path):
    path = tmp_path / "a.parquet"
    shutil.copy(peer_file(name).path, path)
    before, stored = path.read_bytes(), oracle.filters(path)
    table = pq.read_table(path)
    bits = peers.bits_of(table)
    retained = {owner: entry.bitset for owner, entry in stored.items() if owner[1] != "i64"}
    assert len(retained) < len(stored)
    report = parquet_bloom.drop(path, "i64")
    after = oracle.filters(path)
    assert {owner: entry.bitset for owner, entry in after.items()} == retained
    assert report.kept == len(retained)
    assert report.dead_bytes == sum(gone.num_bytes or 0 for gone in report.filters if not gone.freed)
    # Spark's filters, DuckDB's and pyarrow's without a page index stand before the footer, DataFusion's do not.
    between = name in ("datafusion-all", "pyarrow-other")
    assert (report.dead_bytes > 0) == between
    assert all(gone.freed != between for gone in report.filters)
    first = min(entry.offset for entry in stored.values())
    assert path.read_bytes()[:first] == before[:first]
    assert peers.bits_of(pq.read_table(path)) == bits
    count = duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall()
    assert count == [(table.num_rows,)]
    theirs, ours = (parquet_bloom.verify(one, True).problems for one in (peer_file(name).path, path))
    expected = {(problem.row_group, problem.column) for problem in theirs if problem.column != "i64"}
    assert {(problem.row_group, problem.column) for problem in ours} == expected
    parquet_bloom.drop(path)
    assert oracle.filters(path) == {}
    assert peers.bits_of(pq.read_table(path)) == bits


# ------------------------------------------------------------------------------------------------------------
# What stays
# ------------------------------------------------------------------------------------------------------------


def test_filters_that_stay_move_and_keep_their_bits(plain):
    table = pq.read_table(plain)
    parquet_bloom.embed(plain, COLUMNS)
    bitsets = {owner: entry.bitset for owner, entry in oracle.filters(plain).items()}
    report = parquet_bloom.drop(plain, ["name"])
    assert (report.num_filters, report.kept, report.dead_bytes) == (GROUPS, 2 * GROUPS, 0)
    remaining = {owner: entry.bitset for owner, entry in oracle.filters(plain).items()}
    assert remaining == {owner: bitset for owner, bitset in bitsets.items() if owner[1] != "name"}
    assert_good(plain, table)
    assert str(report) == f"{plain}: {GROUPS} filters, {report.new_size - report.old_size:+,} bytes"


@pytest.mark.parametrize("is_index", [True, False])
def test_filters_before_other_bytes_are_dead_bytes(plain, is_index):
    """Page indexes, or what somebody put there."""
    if is_index:
        write(plain, write_page_index=True, bloom_filter_options={"id": {"ndv": 40, "fpp": 0.01}})
    else:
        parquet_bloom.embed(plain, ["id"])
        surgery.with_bytes_before_the_footer(plain, b"an index of somebody's")
    before, table = plain.read_bytes(), pq.read_table(plain)
    report = parquet_bloom.drop(plain)
    assert report.dead_bytes == sum(gone.num_bytes or 0 for gone in report.filters) > 0
    assert not any(gone.freed for gone in report.filters)
    after = plain.read_bytes()
    assert after[: oracle.footer_start(after)] == before[: oracle.footer_start(before)]
    assert "dead bytes" in str(report)
    assert_good(plain, table)


def test_filters_between_row_groups_are_dead_bytes(plain):
    table = pq.read_table(plain)
    parquet_bloom.embed(plain, ["id", "name"])
    surgery.with_filter_moved_between_row_groups(plain, "id")
    report = parquet_bloom.drop(plain, "id")
    assert [gone.freed for gone in report.filters] == [False, True, True]
    assert report.dead_bytes == report.filters[0].num_bytes
    assert owners(plain) == of_columns("name")
    assert_good(plain, table)


def unused_filters(path: Path, columns: list[str]) -> bytes:
    """Make filters at the tail ones that the footer does not know; returns the file as it was without them."""
    data = path.read_bytes()
    parquet_bloom.embed(path, columns)
    body = path.read_bytes()[: oracle.footer_start(path.read_bytes())]
    path.write_bytes(body + data[oracle.footer_start(data) :])
    return data


def test_filters_that_nothing_points_to_leave_the_tail(plain):
    before = unused_filters(plain, ["id", "name"])
    parquet_bloom.embed(plain, ["user.key"])
    dry = parquet_bloom.drop(plain, dry_run=True)
    report = parquet_bloom.drop(plain)
    assert plain.read_bytes() == before
    assert (dry.new_size, dry.filters) == (report.new_size, report.filters)
    unused_filters(plain, ["id"])
    assert parquet_bloom.drop(plain).changed  # nothing but those
    assert plain.read_bytes() == before


@pytest.mark.parametrize("damage", ["a byte more", "a byte less", "no header", "another algorithm"])
def test_bytes_that_only_look_like_filters_stay(plain, damage):
    before = unused_filters(plain, ["id"])
    data = bytearray(plain.read_bytes())
    start, end = oracle.footer_start(before), oracle.footer_start(bytes(data))
    if damage == "a byte more":
        data[end:end] = b"?"
    elif damage == "a byte less":
        del data[end - 1]
    elif damage == "no header":
        data[start] ^= 0x41
    else:
        assert data[start + 3 : start + 5] == b"\x1c\x1c"
        data[start + 4] = 0x2C  # the union's second member
    plain.write_bytes(data)
    assert not parquet_bloom.drop(plain).changed
    assert plain.read_bytes() == data


@pytest.mark.ci
def test_broken_filters_are_dropped_and_hurt_no_other(tmp_path):

    def footer_filters(path: Path) -> dict[tuple[int, str], bytes]:
        """Any bytes at the offset that the footer gives for a filter."""
        data = path.read_bytes()
        with parquet_bloom.open(path) as file:
            chunks = {(chunk.row_group, chunk.column): chunk for chunk in file.chunks()}
            return {key: data[chunk.offset : chunk.offset + (chunk.length or 0)] for key, chunk in chunks.items()}

    good = malformed.good_file(tmp_path / "good.parquet")
    for case in malformed.cases(good, tmp_path):
        path, before, stored = case.path, case.path.read_bytes(), footer_filters(case.path)
        bits = peers.bits_of(pq.read_table(path))
        report = parquet_bloom.drop(path, "key")
        assert report.changed, case.name
        assert footer_filters(path) == {key: bloom_filter for key, bloom_filter in stored.items() if key[1] != "key"}, (
            case.name
        )
        assert peers.bits_of(pq.read_table(path)) == bits, case.name
        assert path.stat().st_size == report.new_size <= len(before), case.name


# ------------------------------------------------------------------------------------------------------------
# Ways to ask
# ------------------------------------------------------------------------------------------------------------


def test_outputs_and_dry_runs(plain, tmp_path):
    parquet_bloom.embed(plain, COLUMNS)
    before = plain.read_bytes()
    dry = parquet_bloom.drop(plain, ["id"], dry_run=True)
    assert (plain.read_bytes(), dry.changed) == (before, False)
    assert str(dry).startswith(f"{plain}: would lose 3 filters, -")
    target = tmp_path / "out.parquet"
    report = parquet_bloom.drop(plain, ["id"], output=target)
    assert plain.read_bytes() == before
    assert (report.path, report.output, report.new_size) == (str(plain), str(target), dry.new_size)
    assert owners(target) == of_columns("name", "user.key")
    same = parquet_bloom.drop(target, "id", output=tmp_path / "copy.parquet")
    assert (same.changed, same.num_filters) == (True, 0)
    assert (tmp_path / "copy.parquet").read_bytes() == target.read_bytes()
    again = parquet_bloom.drop(target, "id")
    assert (again.changed, again.kept) == (False, 6)
    assert str(again) == f"{target}: nothing to drop, 6 filters stay"


def test_a_group_of_one_column_and_booleans_may_be_named(plain, peer_file, tmp_path):
    parquet_bloom.embed(plain, COLUMNS)
    assert parquet_bloom.drop(plain, "user").num_filters == GROUPS
    path = tmp_path / "a.parquet"
    shutil.copy(peer_file("datafusion-all").path, path)
    assert parquet_bloom.drop(path, "bool").num_filters > 0  # nobody needs one, so it may well go


def test_the_mode_stays_and_other_names_keep_the_old_file(plain, tmp_path):
    parquet_bloom.embed(plain, ["id"])
    before = plain.read_bytes()
    plain.chmod(0o640)
    os.link(plain, tmp_path / "other.parquet")
    (tmp_path / "link.parquet").symlink_to(plain)
    parquet_bloom.drop(tmp_path / "link.parquet")
    assert stat.S_IMODE(plain.stat().st_mode) == 0o640
    assert (tmp_path / "link.parquet").is_symlink()
    assert owners(plain) == set()
    assert (tmp_path / "other.parquet").read_bytes() == before


def test_refused_input(plain, tmp_path):

    def assert_refused(kind: type[Exception], path: Path, columns: Any, match: str, **options: Any) -> None:
        before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
        with pytest.raises(kind, match=match) as caught:
            parquet_bloom.drop(path, columns, **options)
        assert isinstance(caught.value, errors.ParquetBloomError)
        assert "\n" not in str(caught.value)
        assert {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before

    parquet_bloom.embed(plain, ["id"])
    assert_refused(errors.UnknownColumnError, plain, ["nobody"], "plain.parquet: column 'nobody': no such column")
    assert_refused(errors.ParquetBloomError, plain, [], "None means all")
    assert_refused(errors.ParquetBloomError, plain, 7, "columns must be a list")
    assert_refused(errors.ParquetBloomError, plain, [7], "given as a dotted path")
    (tmp_path / "no.parquet").write_bytes(b"not Parquet at all")
    assert_refused(errors.NotParquetError, tmp_path / "no.parquet", None, "not a Parquet file")
    surgery.in_another_file(plain, "id")
    assert_refused(errors.UnreadableColumnError, plain, None, "the column chunk's data is in another file")
    path = tmp_path / "x" / "a.parquet"
    path.parent.mkdir()
    surgery.encrypted(path, make_table().select(["id", "name"]), plaintext_footer=True, columns=("name",))
    assert_refused(errors.EncryptedFileError, path, None, "without the keys")
    (tmp_path / "_delta_log").mkdir()
    assert_refused(errors.ManagedTableError, plain, None, "belongs to the Delta table")


def test_objects_on_s3(s3, plain):
    before = plain.read_bytes()
    s3.put("a.parquet", before)
    parquet_bloom.embed(s3.url("a.parquet"), COLUMNS, storage_options=s3.storage_options)
    table = pq.read_table(io.BytesIO(s3.get("a.parquet")))
    report = parquet_bloom.drop(s3.url("a.parquet"), ["name"], storage_options=s3.storage_options)
    assert (report.changed, report.num_filters, report.kept) == (True, GROUPS, 2 * GROUPS)
    assert pq.read_table(io.BytesIO(s3.get("a.parquet"))).equals(table)
    parquet_bloom.drop(s3.url("a.parquet"), storage_options=s3.storage_options)
    assert s3.get("a.parquet") == before
