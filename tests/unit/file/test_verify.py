"""`verify`: a filter that denies a value is found, and so is whatever else is wrong with one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import surgery

import parquet_bloom
from parquet_bloom import errors

ROWS = 200


def make_table() -> pa.Table:
    return pa.table(
        {
            "i": pa.array(range(ROWS), pa.int32()),
            "s": pa.array([None if i % 5 == 0 else f"s{i}" for i in range(ROWS)]),
            "l": pa.array([[i, i + 1][: i % 3] for i in range(ROWS)], pa.list_(pa.int64())),
            "f": pa.array([i / 3 for i in range(ROWS)]),
            "plain": pa.array(range(ROWS)),
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "a.parquet"
    pq.write_table(make_table(), target, row_group_size=ROWS // 2)
    parquet_bloom.embed(target, ["i", "s", "l", "f"])
    return target


def change_bitset(path: Path, row_group: int, column: str, change) -> None:
    stored = oracle.filters(path)[row_group, column]
    data = bytearray(path.read_bytes())
    start = stored.offset + stored.header_size
    data[start : start + len(stored.bitset)] = change(stored.bitset)
    path.write_bytes(data)


def test_all_is_well(path):
    for data in (False, True):
        report = parquet_bloom.verify(path, data=data)
        assert report.ok
        assert report.problems == []
        assert report.path == str(path)
        unread = "" if data else "; only their structure was checked (data=True probes the values)"
        assert str(report) == f"{path}: 8 filters, none of them bad{unread}"
        assert [(c.row_group, c.column) for c in report.chunks] == list(oracle.filters(path))
        assert {c.num_values for c in report.chunks} == ({None} if not data else {80, 99, 100})
        assert all(str(c).endswith(": good") for c in report.chunks)


def test_a_denied_value_is_found(path):
    """Every bit of the filter is some value's: without it, that value would be denied."""
    (position, byte) = next((i, b) for i, b in enumerate(oracle.filters(path)[1, "s"].bitset) if b)
    change_bitset(path, 1, "s", lambda bits: bits[:position] + bytes([byte & (byte - 1)]) + bits[position + 1 :])
    assert parquet_bloom.verify(path).ok  # it takes the values to see that
    report = parquet_bloom.verify(path, data=True)
    (problem,) = report.problems
    assert (problem.row_group, problem.column, problem.num_values) == (1, "s", 80)
    assert 1 <= problem.num_missing <= 3
    assert f"the filter denies {problem.num_missing} of the column's 80 values" in str(problem)
    assert str(problem).startswith(f"{path}: row group 1, column 's': ")
    assert not report.ok
    assert str(report) == f"{path}: 8 filters, 1 of them bad"


def test_filters_of_other_values_are_found(path):
    """The other row group's, of the same size."""
    for column in ("i", "s", "l.list.element", "f"):
        other = oracle.filters(path)[0, column].bitset
        change_bitset(path, 1, column, lambda bits, other=other: other[: len(bits)].ljust(len(bits), b"\x00"))
    report = parquet_bloom.verify(path, data=True)
    assert [(c.row_group, c.column) for c in report.problems] == [(1, c) for c in ("i", "s", "l.list.element", "f")]
    assert all(problem.num_missing > 30 for problem in report.problems)


def test_an_empty_filter_is_found_without_the_data(path):
    change_bitset(path, 0, "i", lambda bits: bytes(len(bits)))
    for data in (False, True):
        (problem,) = parquet_bloom.verify(path, data=data).problems
        assert "no bit is set" in str(problem)


def test_a_full_filter_is_valid_but_useless(path):
    change_bitset(path, 0, "i", lambda bits: b"\xff" * len(bits))
    report = parquet_bloom.verify(path, data=True)
    assert report.ok
    (chunk,) = [c for c in report.chunks if c.note]
    assert "saturated: 100%" in str(chunk)


def test_odd_bytes_are_noted(path):
    def change(footer: oracle.Struct) -> None:
        metadata = oracle.column_metadata(footer, 0, "i")
        metadata[oracle.OFFSET] = (oracle.I64, start)
        metadata[oracle.LENGTH] = (oracle.I32, len(block))

    bitset = oracle.filters(path)[0, "i"].bitset
    spark = oracle.OracleFilter.of(100, [oracle.plain_encode(i, "INT32") for i in range(ROWS // 2)])
    block = oracle.write_struct(oracle.filter_header(100)) + spark.to_bytes()
    start = oracle.footer_start(path.read_bytes())
    surgery.with_bytes_before_the_footer(path, block)
    surgery.rewrite_footer(path, change)
    report = parquet_bloom.verify(path, data=True)
    assert report.ok
    assert len(bitset) % 32 == 0
    assert [c.note for c in report.chunks if c.note] == ["100 bytes are not a multiple of 32; the last 4 are unused"]


def test_a_denied_value_is_found_wherever_it_stands(tmp_path):
    """Values are probed a few thousand rows at a time; what one piece lacks is not forgotten over the next."""
    path = tmp_path / "long.parquet"
    values = np.arange(30_000)
    pq.write_table(pa.table({"i": values}), path)
    for missing in (0, len(values) // 2, len(values) - 1):
        parquet_bloom.embed(path, ["i"], fpp=1e-9, replace=True)
        others = parquet_bloom.SplitBlockBloomFilter(len(oracle.filters(path)[0, "i"].bitset))
        others.insert(np.delete(values, missing))
        change_bitset(path, 0, "i", lambda _, others=others: bytes(others))
        (chunk,) = parquet_bloom.verify(path, data=True).chunks
        assert (chunk.num_values, chunk.num_missing) == (len(values), 1), missing
        assert "denies 1 of" in chunk.problem


def test_some_columns(path):
    change_bitset(path, 0, "i", lambda bits: bytes(len(bits)))
    assert parquet_bloom.verify(path, data=True, columns=["s", "l"]).ok
    assert len(parquet_bloom.verify(path, columns=["i"]).chunks) == 2
    assert parquet_bloom.verify(path, columns=["plain"]).chunks == []
    with pytest.raises(errors.UnknownColumnError, match="nope"):
        parquet_bloom.verify(path, columns=["nope"])


def test_pages_that_cannot_be_decoded(path):
    data = bytearray(path.read_bytes())
    metadata = oracle.column_metadata(oracle.read_footer(path), 1, "s")
    start = surgery.first_byte(metadata) + 30
    data[start : start + 40] = b"\xaa" * 40
    path.write_bytes(data)
    assert parquet_bloom.verify(path).ok
    report = parquet_bloom.verify(path, data=True)
    (problem,) = report.problems
    assert (problem.row_group, problem.column) == (1, "s")
    assert "cannot be read" in str(problem)
    assert "\n" not in str(problem)


def test_values_are_probed_as_they_are_stored(tmp_path):
    """Each zero under its own sign, NaN too; what `check` forgives is not forgiven here."""
    target = tmp_path / "a.parquet"
    pq.write_table(pa.table({"f": [0.0, -0.0, float("nan")]}), target)
    parquet_bloom.embed(target, ["f"])
    assert parquet_bloom.verify(target, data=True).ok
    stored = oracle.filters(target)[0, "f"]
    one_zero = oracle.OracleFilter.of(
        len(stored.bitset), [oracle.plain_encode(v, "DOUBLE") for v in (0.0, float("nan"))]
    )
    change_bitset(target, 0, "f", lambda bits: one_zero.to_bytes())
    (problem,) = parquet_bloom.verify(target, data=True).problems
    assert problem.num_missing == 1


def test_files_without_filters(tmp_path):
    target = tmp_path / "a.parquet"
    pq.write_table(make_table(), target)
    report = parquet_bloom.verify(target, data=True)
    assert report.ok
    assert str(report) == f"{target}: no filters"
    for kind in (errors.StorageError, errors.NotParquetError):
        other = tmp_path / "b.parquet"
        with pytest.raises(kind):
            parquet_bloom.verify(other)
        other.write_bytes(b"nothing of the sort, but long enough")
