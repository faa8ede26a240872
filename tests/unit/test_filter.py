"""SplitBlockBloomFilter, everything that callers can do with one."""

from __future__ import annotations

import copy
import datetime as dt
import math
import pickle
import uuid
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from support.oracle import oracle
from support.oracle.oracle import OracleFilter

import parquet_bloom
from parquet_bloom.errors import FilterTypeError, UnsupportedTypeError
from parquet_bloom.filter import SplitBlockBloomFilter, hash_values
from parquet_bloom.hashing.column_type import from_arrow, from_parquet


def bound(arrow_type: pa.DataType, *values: object) -> SplitBlockBloomFilter:
    """A large filter of a column of a type, over values of that type."""
    bloom_filter = SplitBlockBloomFilter(4096)
    bloom_filter.insert(pa.array(values, arrow_type))
    return SplitBlockBloomFilter.from_bitset(bloom_filter.to_bytes(), from_arrow(arrow_type))


# ------------------------------------------------------------------------------------------------------------
# Making one
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_bytes", [32, 64, 96, 1024, 32 * 1001])
def test_an_empty_filter(num_bytes):
    bloom_filter = SplitBlockBloomFilter(num_bytes)
    assert (bloom_filter.num_bytes, bloom_filter.num_blocks) == (num_bytes, num_bytes // 32)
    assert (bloom_filter.fill, bloom_filter.fpp, bloom_filter.ndv_estimate) == (0, 0, 0)
    assert bloom_filter.to_bytes() == bytes(num_bytes)
    assert bloom_filter.column_type is None
    assert not bloom_filter.readonly
    assert not bloom_filter.check([1, 2, 3]).any()


@pytest.mark.parametrize("num_bytes", [0, 31, 33, 48, -32, 2**36])
def test_sizes_that_no_filter_has(num_bytes):
    with pytest.raises(ValueError, match="32"):
        SplitBlockBloomFilter(num_bytes)


def test_sizes_from_the_number_of_values():
    assert SplitBlockBloomFilter.from_ndv(1000).num_bytes == 2048
    assert SplitBlockBloomFilter.from_ndv(1000, 0.01, power_of_two=False).num_bytes == 1344
    assert SplitBlockBloomFilter.from_ndv(0).num_bytes == 32
    assert SplitBlockBloomFilter.from_ndv(1000, fpp=0.5).num_bytes < 1024
    for arguments in ((-1,), (10, 0), (10, 1), (10, math.nan), (math.nan,)):
        with pytest.raises(ValueError):
            SplitBlockBloomFilter.from_ndv(*arguments)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, np.frombuffer, pa.py_buffer])
def test_a_filter_over_bytes_that_exist(kind):
    raw = OracleFilter.of(96, [b"a", b"b"]).to_bytes()
    buffer = np.frombuffer(raw, np.uint8) if kind is np.frombuffer else kind(raw)
    bloom_filter = SplitBlockBloomFilter.from_bitset(buffer)
    assert bloom_filter.readonly
    assert bloom_filter.num_bytes == 96
    assert bloom_filter.check([b"a", b"b", b"c"]).tolist() == [True, True, False]
    for change in (
        lambda: bloom_filter.insert([1]),
        lambda: bloom_filter.insert_hashes(np.zeros(1, np.uint64)),
        lambda: bloom_filter.merge(SplitBlockBloomFilter(96)),
    ):
        with pytest.raises(ValueError, match="read-only"):
            change()
    assert bloom_filter.to_bytes() == raw


def test_nothing_is_copied():
    memory = bytearray(96)
    bloom_filter = SplitBlockBloomFilter.from_bitset(memory)
    memory[:] = OracleFilter.of(96, [b"a"]).to_bytes()
    assert b"a" in bloom_filter
    assert np.shares_memory(np.frombuffer(memory, np.uint8), np.frombuffer(bloom_filter, np.uint8))
    words = np.zeros(8, np.uint32)  # any buffer is taken as bytes
    assert SplitBlockBloomFilter.from_bitset(words).num_bytes == 32


def test_bytes_after_the_last_block():
    """Some writers leave them: kept, and never looked at."""
    raw = OracleFilter.of(64, [b"a"]).to_bytes() + b"\xff" * 20
    bloom_filter = SplitBlockBloomFilter.from_bitset(raw)
    assert (bloom_filter.num_bytes, bloom_filter.num_blocks) == (84, 2)
    assert bloom_filter.to_bytes() == raw
    assert bloom_filter.check([b"a", b"b"]).tolist() == [True, False]
    assert bloom_filter.fill == 8 / 512
    assert bloom_filter.ndv_estimate == pytest.approx(1, rel=0.02)
    assert bloom_filter.fold(0.5).to_bytes() == OracleFilter.of(32, [b"a"]).to_bytes()


@pytest.mark.parametrize("buffer", [b"", bytes(31), None, "text", 5, np.zeros((8, 8))[:, ::2]])
def test_invalid_bitsets(buffer):
    with pytest.raises((ValueError, TypeError, BufferError)):
        SplitBlockBloomFilter.from_bitset(buffer)


# ------------------------------------------------------------------------------------------------------------
# Keys
# ------------------------------------------------------------------------------------------------------------


def test_inserting_binds_to_the_type():
    bloom_filter = SplitBlockBloomFilter(1024)
    bloom_filter.insert(pa.array([5, None], pa.int32()))
    assert str(bloom_filter.column_type) == "INT32 INT_32"
    bloom_filter.insert(pa.array([7], pa.int64()))  # exactly representable
    assert (
        bloom_filter.to_bytes() == OracleFilter.of(1024, [oracle.plain_encode(v, "INT32") for v in (5, 7)]).to_bytes()
    )
    before = bloom_filter.to_bytes()
    for values in (pa.array([2**40]), pa.array(["a"]), pa.array([1.5]), pa.array([5], pa.date32())):
        with pytest.raises(FilterTypeError):
            bloom_filter.insert(values)
    with pytest.raises(UnsupportedTypeError):
        bloom_filter.insert([True])
    assert bloom_filter.to_bytes() == before


@pytest.mark.parametrize("nothing", [[], [None], pa.nulls(3), pl.Series([None]), pa.chunked_array([], pa.null())])
def test_nothing_binds_to_no_type(nothing):
    bloom_filter = SplitBlockBloomFilter(1024)
    bloom_filter.insert(nothing)
    assert bloom_filter.column_type is None
    bloom_filter.insert(["a"])
    bloom_filter.insert(nothing)
    assert bloom_filter.check(["a", "b"]).tolist() == [True, False]
    assert bloom_filter.check(nothing).tolist() == [True] * len(bloom_filter.check(nothing))


def test_a_type_for_python_values():
    bloom_filter = SplitBlockBloomFilter(64)
    bloom_filter.insert([5], pa.int16())
    assert bloom_filter.check([5], pa.int16()).all()
    assert bloom_filter.to_bytes() == OracleFilter.of(64, [oracle.plain_encode(5, "INT32")]).to_bytes()


def test_hashes():
    hashes = hash_values(pa.array(range(100)))
    bloom_filter = SplitBlockBloomFilter(1024)
    bloom_filter.insert_hashes(hashes)
    assert bloom_filter.check_hashes(hashes).all()
    assert bloom_filter.check_hashes(hashes[::3]).all()  # of any stride
    assert bloom_filter.check(range_array := pa.array(range(100))).all()
    assert hash_values(range_array).tolist() == hashes.tolist()
    assert bloom_filter.check_hashes(np.empty(0, np.uint64)).shape == (0,)
    for wrong in (
        [1.5],
        [5],
        np.array([5]),
        np.array([1, 2**63 + 1], object),
        np.zeros((2, 2), np.uint64),
        np.zeros(2),
    ):
        with pytest.raises(FilterTypeError, match="uint64"):
            bloom_filter.check_hashes(wrong)
        with pytest.raises(FilterTypeError, match="uint64"):
            bloom_filter.insert_hashes(wrong)


def test_answers_are_bools_in_order():
    bloom_filter = bound(pa.int64(), *range(0, 100, 2))
    matches = bloom_filter.check(pa.chunked_array([pa.array(range(50)), pa.array(range(50, 100))]))
    assert matches.dtype == np.bool_
    assert matches.shape == (100,)
    assert matches[::2].all()
    assert not matches[1::2].all()
    assert bloom_filter.check(pa.chunked_array([], pa.int64())).shape == (0,)
    assert bloom_filter.check([]).shape == (0,)


# ------------------------------------------------------------------------------------------------------------
# A column's type
# ------------------------------------------------------------------------------------------------------------

COERCED = [
    # (the column's type, its values, queries in another type, the answers)
    (pa.int32(), [5], pa.array([5, 6], pa.int64()), [True, False]),
    (pa.int32(), [5], pa.array([5, 2**40, -(2**40)], pa.int64()), [True, False, False]),
    (pa.int32(), [5], pa.array([5, 2**63], pa.uint64()), [True, False]),
    (pa.int32(), [5], pa.array([5, 6], pa.int8()), [True, False]),
    (pa.int32(), [5], pa.array([5.0, 5.5, math.inf]), [True, False, False]),
    (pa.int32(), [5], pa.array([Decimal("5.00"), Decimal("5.01")]), [True, False]),
    (pa.int32(), [-1], pa.array([2**32 - 1], pa.uint32()), [False]),
    (pa.uint32(), [2**32 - 1], pa.array([-1], pa.int32()), [False]),
    (pa.uint32(), [2**32 - 1], pa.array([2**32 - 1]), [True]),
    (pa.int64(), [5], pa.array([5, 6], pa.int32()), [True, False]),
    (pa.int8(), [5], pa.array([5, 300]), [True, False]),
    (pa.float32(), [0.5], pa.array([0.5, 0.25]), [True, False]),
    (pa.float32(), [0.1], pa.array([0.1, 0.2]), [True, False]),  # the nearest float
    (pa.float64(), [0.5], pa.array([0.5, 0.25], pa.float32()), [True, False]),
    (pa.float64(), [5.0], pa.array([5, 6]), [True, False]),
    (pa.float16(), [0.5], pa.array([0.5, 0.25]), [True, False]),
    (pa.decimal128(9, 2), [Decimal("1.25")], pa.array([Decimal("1.250"), Decimal("1.255")]), [True, False]),
    (pa.decimal128(9, 2), [Decimal("5.00")], pa.array([5, 6]), [True, False]),
    (pa.decimal128(9, 2), [Decimal("1.25")], pa.array([1.25, 1.255]), [True, False]),
    (pa.string(), ["a"], pa.array(["a", "b"], pa.large_string()), [True, False]),
    (pa.string(), ["a"], pa.array([b"a", b"b"]), [True, False]),
    (pa.string(), ["a"], pa.array(["a", "b"]).dictionary_encode(), [True, False]),
    (pa.binary(2), [b"ab"], pa.array([b"ab", b"abc", b""]), [True, False, False]),
    (
        pa.uuid(),
        [uuid.UUID(int=5).bytes],
        pa.array([str(uuid.UUID(int=5)), str(uuid.UUID(int=6))]),
        [True, False],
    ),
    (pa.uuid(), [uuid.UUID(int=5).bytes], pa.array([uuid.UUID(int=5).bytes, bytes(3)]), [True, False]),
    (pa.timestamp("ms"), [5], pa.array([5000, 5001], pa.timestamp("us")), [True, False]),
    (pa.timestamp("us"), [5000], pa.array([5, 6], pa.timestamp("ms")), [True, False]),
    (pa.timestamp("us", "UTC"), [5], pa.array([5, 6], pa.timestamp("us", "Asia/Tokyo")), [True, False]),
    (pa.timestamp("ns"), [5], pa.array([2**62], pa.timestamp("s")), [False]),
    (pa.timestamp("us"), [0], pa.array([0, 1], pa.date32()), [True, False]),
    (pa.date32(), [1], pa.array([86_400_000, 5], pa.timestamp("ms")), [True, False]),
    (pa.date32(), [1], pa.array([86_400_000], pa.date64()), [True]),
    (pa.time64("us"), [5000], pa.array([5, 6], pa.time32("ms")), [True, False]),
    (pa.time32("ms"), [5], pa.array([5000, 5001], pa.time64("us")), [True, False]),
]


@pytest.mark.parametrize(("arrow_type", "stored_values", "queried", "answers"), COERCED)
def test_values_of_another_type_are_converted_exactly(arrow_type, stored_values, queried, answers):
    if isinstance(arrow_type, pa.UuidType):
        bloom_filter = bound(pa.binary(16), *stored_values)
        bloom_filter = SplitBlockBloomFilter.from_bitset(bloom_filter, from_arrow(arrow_type))
    elif pa.types.is_temporal(arrow_type):
        storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
        bloom_filter = bound(arrow_type)
        inner = SplitBlockBloomFilter(4096)
        inner.insert(pa.array(stored_values, storage).cast(arrow_type))
        bloom_filter = SplitBlockBloomFilter.from_bitset(inner, from_arrow(arrow_type))
    else:
        bloom_filter = bound(
            arrow_type, *([np.float16(v) for v in stored_values] if arrow_type == pa.float16() else stored_values)
        )
    assert bloom_filter.check(queried).tolist() == answers
    nulls = pa.concat_arrays([queried, pa.nulls(1, queried.type)])
    assert bloom_filter.check(nulls).tolist() == [*answers, True]
    assert [value in bloom_filter for value in queried] == answers


@pytest.mark.parametrize(
    ("arrow_type", "queried"),
    [
        (pa.int32(), ["5"]),
        (pa.int32(), [b"5"]),
        (pa.int32(), [dt.date(2020, 1, 1)]),
        (pa.int64(), [2.0**60]),
        (pa.decimal128(38, 20), [1.25]),
        (pa.float64(), ["0.5"]),
        (pa.float64(), [2**53 + 1]),
        (pa.string(), [5]),
        (pa.string(), [dt.date(2020, 1, 1)]),
        (pa.date32(), [5]),
        (pa.timestamp("us"), [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
        (pa.timestamp("us"), [5]),
        (pa.timestamp("us"), [dt.time(1)]),
        (pa.time64("us"), [dt.datetime(2020, 1, 1)]),
        (pa.uuid(), ["sixteen letters!"]),
    ],
)
def test_values_of_another_kind_are_refused(arrow_type, queried):
    """Never answered "absent" for being hashed in the wrong way."""
    bloom_filter = SplitBlockBloomFilter.from_bitset(bytes(32), from_arrow(arrow_type))
    with pytest.raises(FilterTypeError) as caught:
        bloom_filter.check(queried)
    assert "\n" not in str(caught.value)
    with pytest.raises(FilterTypeError):
        _ = queried[0] in bloom_filter


def test_the_wrong_width_is_never_hashed(tmp_path):
    path = tmp_path / "i.parquet"
    parquet_bloom.write_table(pa.table({"i": pa.array([5, 7], pa.int32())}), path, ["i"])
    with parquet_bloom.open(path) as file:
        bloom_filter = file.filter(0, "i")
        assert bloom_filter.check(pa.array([5, 7])).all()
        assert bloom_filter.check(np.array([5, 7], np.int64)).all()
        assert bloom_filter.check([5, 7]).all()
        assert 5 in bloom_filter
        assert np.int64(5) in bloom_filter
        assert 2**40 not in bloom_filter
        assert 2**70 not in bloom_filter
        with pytest.raises(FilterTypeError):
            bloom_filter.check(["5"])


def test_decimals_of_any_length():
    """BYTE_ARRAY decimals may be stored longer than needed: all lengths are probed."""
    column_type = from_parquet("BYTE_ARRAY", None, 5, None, 2, 9)
    for length in (1, 2, 7, 32):
        bloom_filter = SplitBlockBloomFilter(1024)
        bloom_filter.insert_hashes(np.array([oracle.xxh64((125).to_bytes(length, "big"))], np.uint64))
        probed = SplitBlockBloomFilter.from_bitset(bloom_filter, column_type)
        assert probed.check([Decimal("1.25"), Decimal("-1.25")]).tolist() == [True, False]
        assert Decimal("1.25") in probed
        assert 2 not in probed


# ------------------------------------------------------------------------------------------------------------
# One value
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "absent"),
    [
        ([5, 2**40], 6),
        ([1.5], 2.5),
        (["a", ""], "b"),
        ([b"\xff"], b"\xfe"),
        ([dt.date(2020, 1, 1)], dt.date(2020, 1, 2)),
        ([dt.datetime(2020, 1, 1)], dt.datetime(2020, 1, 2)),
        ([dt.time(1)], dt.time(2)),
        ([Decimal("1.25")], Decimal("1.26")),
        ([uuid.UUID(int=1)], uuid.UUID(int=2)),
        ([np.int32(5)], np.int32(6)),
        ([np.float32(0.5)], np.float32(0.25)),
        ([np.str_("a")], np.str_("b")),
        ([np.datetime64("2020-01-01T00:00:00", "us")], np.datetime64("2020-01-02T00:00:00", "us")),
    ],
)
def test_one_value(values, absent):
    bloom_filter = SplitBlockBloomFilter(4096)
    bloom_filter.insert(np.array(values) if isinstance(values[0], np.generic) else values)
    unbound = SplitBlockBloomFilter.from_bitset(bloom_filter.to_bytes())
    for probed in (bloom_filter, unbound):
        assert all(value in probed for value in values)
        assert absent not in probed
        assert None in probed  # nothing is known of nulls
    for value in pa.array(values):
        assert value in bloom_filter
        assert bloom_filter.check(value).tolist() == [True]


@pytest.mark.parametrize(
    "value", [object(), [1], 1j, True, np.bool_(True), np.void(b"ab"), np.longdouble(5), Decimal("nan"), "x"]
)
def test_values_that_the_column_cannot_hold(value):
    bloom_filter = bound(pa.int64(), 5)
    with pytest.raises((FilterTypeError, UnsupportedTypeError)):
        _ = value in bloom_filter


# ------------------------------------------------------------------------------------------------------------
# Zeros, NaN, null
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrow_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_are_one_value(arrow_type, zero):
    bloom_filter = SplitBlockBloomFilter(1024)
    bloom_filter.insert(pa.array(np.array([zero])).cast(arrow_type))
    assert bloom_filter.fill == 8 / 8192  # what is inserted is what is stored
    for queried in (0.0, -0.0, 0, Decimal("0.0"), np.float64(-0.0)):
        assert queried in bloom_filter
    assert bloom_filter.check(pa.array(np.array([0.0, -0.0, 1.0, -0.0])).cast(arrow_type)).tolist() == [
        True,
        True,
        False,
        True,
    ]
    assert bloom_filter.check([0.0, -0.0, 1.0]).tolist() == [True, True, False]
    nothing = SplitBlockBloomFilter.from_bitset(bytes(32), from_arrow(arrow_type))
    assert 0.0 not in nothing
    assert not nothing.check([0.0, -0.0]).any()


@pytest.mark.parametrize("arrow_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_nan_is_never_absent(arrow_type):
    nothing = SplitBlockBloomFilter.from_bitset(bytes(32), from_arrow(arrow_type))
    assert nothing.check(pa.array(np.array([math.nan, 1.0])).cast(arrow_type)).tolist() == [True, False]
    assert nothing.check([math.nan, 1.0, None]).tolist() == [True, False, True]
    assert math.nan in nothing
    assert -math.nan in nothing
    unbound = SplitBlockBloomFilter(32)
    assert unbound.check([math.nan]).tolist() == [True]


def test_nan_and_integers():
    """NaN is queried on an integer column only by mistake; it is not answered "absent" either."""
    assert bound(pa.int64(), 5).check([math.nan, 5.0, 6.0]).tolist() == [True, True, False]


def test_nulls_answer_maybe():
    bloom_filter = bound(pa.string(), "a")
    assert bloom_filter.check(pa.array(["a", None, "b"])).tolist() == [True, True, False]
    assert bloom_filter.check(pa.nulls(2)).tolist() == [True, True]
    assert bloom_filter.check(pa.scalar(None)).tolist() == [True]
    assert None in bloom_filter


# ------------------------------------------------------------------------------------------------------------
# Whole filters
# ------------------------------------------------------------------------------------------------------------


def test_merge():
    first, second = SplitBlockBloomFilter(256), SplitBlockBloomFilter(256)
    first.insert([1, 2])
    second.insert([3])
    assert first.merge(second) is first
    assert first.check([1, 2, 3, 4]).tolist() == [True, True, True, False]
    assert second.check([1, 3]).tolist() == [False, True]
    empty = SplitBlockBloomFilter(256)
    assert empty.merge(first) == first
    assert empty.column_type == first.column_type
    texts = SplitBlockBloomFilter(256)
    texts.insert(["a"])
    with pytest.raises(FilterTypeError):
        first.merge(texts)
    with pytest.raises(ValueError, match="256 and 512"):
        first.merge(SplitBlockBloomFilter(512))
    assert first == empty


def test_fold():
    bloom_filter = SplitBlockBloomFilter(1 << 16)
    bloom_filter.insert(range_ := pa.array(range(100)))
    folded = bloom_filter.fold(fpp=0.01)
    assert folded.num_bytes == SplitBlockBloomFilter.from_ndv(100, 0.01).num_bytes
    assert folded.fpp <= 0.01
    assert folded.check(range_).all()
    assert folded.column_type == bloom_filter.column_type
    assert not folded.readonly
    assert bloom_filter.num_bytes == 1 << 16
    assert bloom_filter.fold(fpp=1e-9).num_bytes > folded.num_bytes
    odd = SplitBlockBloomFilter(96)
    assert odd.fold(0.5).num_bytes == 96
    assert SplitBlockBloomFilter(32).fold().num_bytes == 32
    full = SplitBlockBloomFilter.from_bitset(b"\xff" * 64)
    assert full.fold().num_bytes == 64  # it cannot get better by folding
    for fpp in (0, 1, -1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            bloom_filter.fold(fpp=fpp)


def test_measures_follow_what_is_inserted():
    bloom_filter = SplitBlockBloomFilter(1024)
    seen = []
    for start in range(0, 300, 100):
        bloom_filter.insert(pa.array(range(start, start + 100)))
        exact = OracleFilter(1024, bloom_filter.to_bytes())
        assert bloom_filter.fill == pytest.approx(exact.fill)
        assert bloom_filter.fpp == pytest.approx(exact.fpp)
        seen.append(bloom_filter.ndv_estimate)
    assert seen == sorted(seen)
    other = SplitBlockBloomFilter(1024)
    other.insert(pa.array(range(300, 600)))
    before = bloom_filter.fill
    bloom_filter.merge(other)
    assert bloom_filter.fill > before
    memoryview(bloom_filter)[:] = b"\xff" * 1024  # the buffer is the filter's own memory
    assert bloom_filter.fill == 1


def test_buffer_protocol():
    bloom_filter = SplitBlockBloomFilter(64)
    bloom_filter.insert([b"a"])
    view = memoryview(bloom_filter)
    assert (view.nbytes, view.readonly, view.format, view.contiguous) == (64, False, "B", True)
    assert bytes(bloom_filter) == bloom_filter.to_bytes() == bytes(view)
    assert np.frombuffer(bloom_filter, np.uint8).sum() > 0
    assert pa.py_buffer(bloom_filter).to_pybytes() == bloom_filter.to_bytes()
    assert memoryview(SplitBlockBloomFilter.from_bitset(bytes(32))).readonly
    del bloom_filter
    assert bytes(view) == OracleFilter.of(64, [b"a"]).to_bytes()  # the view keeps the memory


def test_equality():
    first, second = SplitBlockBloomFilter(64), SplitBlockBloomFilter(64)
    assert first == second
    first.insert([1])
    assert first != second
    second.insert([1])
    assert first == second
    assert first == SplitBlockBloomFilter.from_bitset(first.to_bytes())
    assert SplitBlockBloomFilter(64) != SplitBlockBloomFilter(96)
    assert first != first.to_bytes()
    assert first != None  # noqa: E711
    with pytest.raises(TypeError):
        hash(first)


@pytest.mark.parametrize("clone", [lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy])
def test_pickle(clone):
    bloom_filter = SplitBlockBloomFilter(96)
    bloom_filter.insert(["a"])
    restored = clone(bloom_filter)
    assert restored == bloom_filter
    assert restored.column_type == bloom_filter.column_type
    assert not restored.readonly
    restored.insert(["b"])
    assert restored != bloom_filter
    fixed = SplitBlockBloomFilter.from_bitset(bloom_filter.to_bytes() + b"tail", bloom_filter.column_type)
    restored = clone(fixed)
    assert restored == fixed
    assert restored.readonly
    assert restored.column_type == fixed.column_type
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(bloom_filter, protocol)) == bloom_filter


def test_repr():
    bloom_filter = SplitBlockBloomFilter(1024)
    assert repr(bloom_filter) == "<SplitBlockBloomFilter: 1024 bytes, fill 0.000, fpp 0>"
    bloom_filter.insert(["a"])
    assert repr(bloom_filter) == "<SplitBlockBloomFilter of BYTE_ARRAY STRING: 1024 bytes, fill 0.001, fpp 2.8e-14>"
    assert repr(SplitBlockBloomFilter.from_bitset(b"\xff" * 32)).endswith("32 bytes, fill 1.000, fpp 1>")


def test_subclasses():
    class Own(SplitBlockBloomFilter):
        pass

    bloom_filter = Own.from_ndv(10)
    assert type(bloom_filter) is Own
    assert type(bloom_filter.fold(0.5)) is Own
    assert type(Own.from_bitset(bytes(32))) is Own
