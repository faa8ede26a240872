"""Floats are pruned by order where the footer says that none of them is NaN, which is above all numbers."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import I64
from support.writers.surgery import each_chunk, rewrite_footer

import parquet_bloom

NAN_COUNT = 9


def write(path, values, arrow_type, nan_count):
    pq.write_table(pa.table({"x": pa.array(values, arrow_type)}), path, use_dictionary=False)

    def change(footer):
        for _, metadata in each_chunk(footer):
            metadata.value(12).pop(NAN_COUNT, None)
            if nan_count is not None:
                metadata.value(12).set(NAN_COUNT, I64, nan_count)

    return rewrite_footer(path, change)


@pytest.mark.parametrize(("arrow_type", "nan_count"), [(pa.float64(), 0), (pa.float32(), 0), (pa.float64(), None)])
@pytest.mark.parametrize(
    ("where", "is_impossible"),
    [
        ("x > 2.5", True),
        ("x >= 2.5", True),
        ("x > 2", True),
        ("x >= 2", False),
        ("x > 1", False),
        ("x BETWEEN 3 AND 4", True),
    ],
)
def test_order_decides_without_nan(tmp_path, arrow_type, nan_count, where, is_impossible):
    path = write(tmp_path / "a.parquet", [1.0, 2.0, None, -0.0], arrow_type, nan_count)
    skipped = parquet_bloom.prune(path, where).skipped_by
    # What is equal in a narrow float need not be for an engine that widens it.
    is_near = where == "x > 2" and arrow_type == pa.float32()
    known = is_impossible and nan_count == 0 and not is_near
    assert skipped == ({"range": 1} if known else {})
    assert parquet_bloom.read_table(path, where).num_rows == (0 if is_impossible else 1)


@pytest.mark.parametrize("nan_count", [None, 1, -1, 5])
def test_nan_is_found_whatever_the_bounds(tmp_path, nan_count):
    path = write(tmp_path / "a.parquet", [1.0, 2.0, math.nan], pa.float64(), nan_count)
    assert parquet_bloom.read_table(path, "x > 100").num_rows == 1
    assert parquet_bloom.prune(path, "x <> 1").skipped_by == {}


def test_one_value_and_no_nan_has_no_other(tmp_path):
    path = write(tmp_path / "a.parquet", [1.5, 1.5, None], pa.float64(), 0)
    assert parquet_bloom.prune(path, "x <> 1.5").skipped_by == {"range": 1}
    assert parquet_bloom.prune(path, "NOT x IN (1.5, 7)").skipped_by == {"range": 1}
    assert parquet_bloom.prune(path, "x <> 2").skipped_by == {}
