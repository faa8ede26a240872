"""Arrow values that are made without pandas: the same as pyarrow makes, with the same errors."""

from __future__ import annotations

import datetime as dt
import math
import random

import numpy as np
import pyarrow as pa
import pyarrow.lib
import pytest

from parquet_bloom.util.arrow_values import empty_table, from_numpy, make_array, make_scalar, to_numpy

VALUES = {
    pa.int8(): [0, -128, 127],
    pa.int16(): [0, -(1 << 15), (1 << 15) - 1],
    pa.int32(): [0, -(1 << 31), (1 << 31) - 1],
    pa.int64(): [0, -(1 << 63), (1 << 63) - 1],
    pa.uint8(): [0, 255],
    pa.uint16(): [0, (1 << 16) - 1],
    pa.uint32(): [0, (1 << 32) - 1],
    pa.uint64(): [0, (1 << 64) - 1],
    pa.float32(): [0.0, -0.0, 0.1, 1e-45, math.inf],
    pa.float64(): [0.0, -0.0, 0.1, 5e-324, -math.inf],
    pa.bool_(): [True, False],
    pa.string(): ["", "a", "ü\0", "𝄞" * 9],
    pa.large_string(): ["", "a", "ü\0"],
    pa.binary(): [b"", b"\xff\0", b"abc"],
    pa.large_binary(): [b"", b"\xff\0"],
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pa.timestamp("us"): [dt.datetime(2020, 1, 1), 5],
    pa.list_(pa.int8()): [[1], []],
    pa.decimal128(5, 2): [1],
    pa.null(): [],
}


@pytest.mark.parametrize(("kind", "values"), list(VALUES.items()))
def test_arrays_and_scalars_are_those_of_pyarrow(kind, values):
    rng = random.Random(0)
    for number in (0, 1, 2, 7, 8, 9, 64, 65):
        for choices in ([*values, None], values or [None], [None]):
            chosen = rng.choices(choices, k=number)
            made = make_array(chosen, kind)
            made.validate(full=True)
            assert made.type == kind
            assert made.equals(pa.array(chosen, kind))
            assert repr(made.to_pylist()) == repr(pa.array(chosen, kind).to_pylist())  # with the zeros' signs
    for value in [*values, None]:
        made, expected = make_scalar(value, kind), pa.scalar(value, kind)
        assert made.equals(expected)
        assert made.type == kind


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), 128),
        (pa.uint64(), -1),
        (pa.uint64(), 1 << 64),
        (pa.int64(), 1 << 63),
        (pa.int64(), "1"),
        (pa.binary(3), b"ab"),
        (pa.string(), 1),
        (pa.string(), "\ud800"),
        (pa.bool_(), "x"),
        (pa.date32(), "2020-01-01"),
    ],
)
def test_errors_are_those_of_pyarrow(kind, value):
    for make, of_pyarrow in (
        (make_scalar, pa.scalar),
        (lambda v, k: make_array([v], k), lambda v, k: pa.array([v], k)),
    ):
        with pytest.raises(Exception) as expected:
            of_pyarrow(value, kind)
        with pytest.raises(type(expected.value)) as error:
            make(value, kind)
        assert str(error.value) == str(expected.value)


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.int64(), np.int64(5)), (pa.int64(), True), (pa.float64(), 3), (pa.float64(), np.nan)]
)
def test_values_of_other_types_are_left_to_pyarrow(kind, value):
    try:
        expected = pa.array([value], kind)
    except pa.ArrowException as error:
        with pytest.raises(type(error)):
            make_array([value], kind)
    else:
        assert str(make_array([value], kind)) == str(expected)


@pytest.mark.parametrize(
    "dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", ">i4", "M8[us]"]
)
def test_numpy_arrays_come_and_go(dtype):
    for number in (0, 1, 8, 9, 100):
        values = np.random.default_rng(number).integers(0, 2, number).astype(dtype)
        if dtype != ">i4":
            made = from_numpy(values)
            made.validate(full=True)
            assert made.equals(pa.array(values))
            mask = np.arange(number) % 3 == 0
            masked = from_numpy(values, mask)
            assert masked.equals(pa.array(values, mask=mask))
            for array in (made, made.slice(3), made.slice(9), made.slice(2, 5), masked, masked.slice(1)):
                expected = array.to_numpy(zero_copy_only=False)
                assert to_numpy(array).dtype == expected.dtype
                assert np.array_equal(to_numpy(array), expected, equal_nan=expected.dtype.kind in "fM")
            strided = from_numpy(values[::2])
            assert strided.equals(pa.array(np.ascontiguousarray(values[::2])))
            chunked = pa.chunked_array([made, made.slice(1)])
            assert np.array_equal(to_numpy(chunked), chunked.to_numpy())
            assert np.array_equal(to_numpy(pa.chunked_array([], made.type)), pa.chunked_array([], made.type).to_numpy())


def test_empty_tables_have_every_type():
    schema = pa.schema([(str(kind), kind) for kind in VALUES], {"a": "b"})
    schema = schema.append(pa.field("d", pa.dictionary(pa.int8(), pa.string()), nullable=False))
    assert empty_table(schema).equals(schema.empty_table(), check_metadata=True)
