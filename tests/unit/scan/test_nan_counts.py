"""Floats are pruned by order where the footer says that none of them is NaN, which is above all numbers."""

import math
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.oracle import BINARY, I32, I64, LIST, Many
from support.writers.surgery import each_chunk, rewrite_footer, with_bounds

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


CREATED_BY, ENCODINGS, BIT_PACKED = 6, 2, 4
SPARK = "parquet-mr version 1.17.0 (build abc)"


@pytest.mark.parametrize(
    ("created_by", "encodings", "skipped"),
    [
        (SPARK, [0, 3, BIT_PACKED], {"range": 1}),
        ("parquet-mr version 1.10.0", [0, 3, BIT_PACKED], {"range": 1}),
        (SPARK, [0, 3], {}),  # as in files of others that parquet-java has put together
        ("parquet-mr version 1.9.1", [0, 3, BIT_PACKED], {}),
        ("parquet-mr version 1.10.0-SNAPSHOT", [0, 3, BIT_PACKED], {}),
        ("parquet-mr version new", [0, 3, BIT_PACKED], {}),
        ("parquet-mr compatible Photon version 2.0", [0, 3, BIT_PACKED], {}),
        ("parquet-cpp-arrow version 26.0.1", [0, 3, BIT_PACKED], {}),
    ],
)
@pytest.mark.parametrize("arrow_type", [pa.float64(), pa.float32()])
def test_bounds_of_parquet_java_show_nan(tmp_path, created_by, encodings, skipped, arrow_type):
    path = write(tmp_path / "a.parquet", [1.5, 2.0, None, -0.0], arrow_type, None)

    def change(footer):
        footer.set(CREATED_BY, BINARY, created_by.encode())
        for _, metadata in each_chunk(footer):
            metadata.set(ENCODINGS, LIST, Many(I32, encodings))

    rewrite_footer(path, change)
    assert parquet_bloom.prune(path, "x > 2.5").skipped_by == skipped
    low, high, nan = (struct.pack("<d" if arrow_type == pa.float64() else "<f", bound) for bound in (0, 2, math.nan))
    for bounds, counts in [((low, nan), {}), ((low, b""), {}), (None, {}), ((low, high), {"nan_count": 1})]:
        with_bounds(path, "x", [bounds], null_count=1, **counts)
        assert parquet_bloom.prune(path, "x > 2.5").skipped_by == {}, bounds
