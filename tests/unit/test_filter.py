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
from support.cases import each_case
from support.oracle import oracle
from support.oracle.oracle import OracleFilter

import parquet_bloom
from parquet_bloom.errors import FilterTypeError, UnsupportedTypeError
from parquet_bloom.filter import SplitBlockBloomFilter, hash_values
from parquet_bloom.hashing.column_type import from_arrow, from_parquet


def bound(arrow_type: pa.DataType, *values: object) -> SplitBlockBloomFilter:
    """A large filter of a column of a type, over values of that type."""
    made = SplitBlockBloomFilter(4096)
    made.insert(pa.array(values, arrow_type))
    return SplitBlockBloomFilter.from_bitset(made.to_bytes(), from_arrow(arrow_type))


# ------------------------------------------------------------------------------------------------------------
# Making one
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_bytes", [32, 64, 96, 1024, 32 * 1001])
def test_an_empty_filter(num_bytes):
    made = SplitBlockBloomFilter(num_bytes)
    assert (made.num_bytes, made.num_blocks) == (num_bytes, num_bytes // 32)
    assert (made.fill, made.fpp, made.ndv_estimate) == (0, 0, 0)
    assert made.to_bytes() == bytes(num_bytes)
    assert made.column_type is None
    assert not made.readonly
    assert not made.check([1, 2, 3]).any()


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
    made = SplitBlockBloomFilter.from_bitset(buffer)
    assert made.readonly
    assert made.num_bytes == 96
    assert made.check([b"a", b"b", b"c"]).tolist() == [True, True, False]
    for change in (
        lambda: made.insert([1]),
        lambda: made.insert_hashes(np.zeros(1, np.uint64)),
        lambda: made.merge(SplitBlockBloomFilter(96)),
    ):
        with pytest.raises(ValueError, match="read-only"):
            change()
    assert made.to_bytes() == raw


def test_nothing_is_copied():
    memory = bytearray(96)
    made = SplitBlockBloomFilter.from_bitset(memory)
    memory[:] = OracleFilter.of(96, [b"a"]).to_bytes()
    assert b"a" in made
    assert np.shares_memory(np.frombuffer(memory, np.uint8), np.frombuffer(made, np.uint8))
    words = np.zeros(8, np.uint32)  # any buffer is taken as bytes
    assert SplitBlockBloomFilter.from_bitset(words).num_bytes == 32


def test_bytes_behind_the_last_block():
    """Some writers leave them: kept, and never looked at."""
    raw = OracleFilter.of(64, [b"a"]).to_bytes() + b"\xff" * 20
    made = SplitBlockBloomFilter.from_bitset(raw)
    assert (made.num_bytes, made.num_blocks) == (84, 2)
    assert made.to_bytes() == raw
    assert made.check([b"a", b"b"]).tolist() == [True, False]
    assert made.fill == 8 / 512
    assert made.ndv_estimate == pytest.approx(1, rel=0.02)
    assert made.fold(0.5).to_bytes() == OracleFilter.of(32, [b"a"]).to_bytes()


@pytest.mark.parametrize("buffer", [b"", bytes(31), None, "text", 5, np.zeros((8, 8))[:, ::2]])
def test_what_is_no_bitset(buffer):
    with pytest.raises((ValueError, TypeError, BufferError)):
        SplitBlockBloomFilter.from_bitset(buffer)


# ------------------------------------------------------------------------------------------------------------
# Keys
# ------------------------------------------------------------------------------------------------------------


def test_inserting_binds_to_the_type():
    made = SplitBlockBloomFilter(1024)
    made.insert(pa.array([5, None], pa.int32()))
    assert str(made.column_type) == "INT32 INT_32"
    made.insert(pa.array([7], pa.int64()))  # exactly representable
    assert made.to_bytes() == OracleFilter.of(1024, [oracle.plain_encode(v, "INT32") for v in (5, 7)]).to_bytes()
    before = made.to_bytes()
    for values in (pa.array([2**40]), pa.array(["a"]), pa.array([1.5]), pa.array([5], pa.date32())):
        with pytest.raises(FilterTypeError):
            made.insert(values)
    with pytest.raises(UnsupportedTypeError):
        made.insert([True])
    assert made.to_bytes() == before


@pytest.mark.parametrize("nothing", [[], [None], pa.nulls(3), pl.Series([None]), pa.chunked_array([], pa.null())])
def test_nothing_binds_to_no_type(nothing):
    made = SplitBlockBloomFilter(1024)
    made.insert(nothing)
    assert made.column_type is None
    made.insert(["a"])
    made.insert(nothing)
    assert made.check(["a", "b"]).tolist() == [True, False]
    assert made.check(nothing).tolist() == [True] * len(made.check(nothing))


def test_a_type_for_python_values():
    made = SplitBlockBloomFilter(64)
    made.insert([5], pa.int16())
    assert made.check([5], pa.int16()).all()
    assert made.to_bytes() == OracleFilter.of(64, [oracle.plain_encode(5, "INT32")]).to_bytes()


def test_hashes():
    hashes = hash_values(pa.array(range(100)))
    made = SplitBlockBloomFilter(1024)
    made.insert_hashes(hashes)
    assert made.check_hashes(hashes).all()
    assert made.check_hashes(hashes[::3]).all()  # of any stride
    assert made.check(range_array := pa.array(range(100))).all()
    assert hash_values(range_array).tolist() == hashes.tolist()
    assert made.check_hashes(np.empty(0, np.uint64)).shape == (0,)
    for wrong in (
        [1.5],
        [5],
        np.array([5]),
        np.array([1, 2**63 + 1], object),
        np.zeros((2, 2), np.uint64),
        np.zeros(2),
    ):
        with pytest.raises(FilterTypeError, match="uint64"):
            made.check_hashes(wrong)
        with pytest.raises(FilterTypeError, match="uint64"):
            made.insert_hashes(wrong)


def test_answers_are_bools_in_order():
    made = bound(pa.int64(), *range(0, 100, 2))
    found = made.check(pa.chunked_array([pa.array(range(50)), pa.array(range(50, 100))]))
    assert found.dtype == np.bool_
    assert found.shape == (100,)
    assert found[::2].all()
    assert not found[1::2].all()
    assert made.check(pa.chunked_array([], pa.int64())).shape == (0,)
    assert made.check([]).shape == (0,)


# ------------------------------------------------------------------------------------------------------------
# A column's type
# ------------------------------------------------------------------------------------------------------------

COERCED = [
    # (the column's type, what it holds, values asked in another type, the answers)
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


@each_case(("arrow_type", "held", "asked", "answers"), COERCED)
def test_values_of_another_type_are_converted_exactly(arrow_type, held, asked, answers):
    if isinstance(arrow_type, pa.UuidType):
        made = bound(pa.binary(16), *held)
        made = SplitBlockBloomFilter.from_bitset(made, from_arrow(arrow_type))
    elif pa.types.is_temporal(arrow_type):
        storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
        made = bound(arrow_type)
        inner = SplitBlockBloomFilter(4096)
        inner.insert(pa.array(held, storage).cast(arrow_type))
        made = SplitBlockBloomFilter.from_bitset(inner, from_arrow(arrow_type))
    else:
        made = bound(arrow_type, *([np.float16(v) for v in held] if arrow_type == pa.float16() else held))
    assert made.check(asked).tolist() == answers
    nulls = pa.concat_arrays([asked, pa.nulls(1, asked.type)])
    assert made.check(nulls).tolist() == [*answers, True]
    assert [value in made for value in asked] == answers


@pytest.mark.parametrize(
    ("arrow_type", "asked"),
    [
        (pa.int32(), ["5"]),
        (pa.int32(), [b"5"]),
        (pa.int32(), [dt.date(2020, 1, 1)]),
        (pa.int64(), [2.0**60]),
        (pa.decimal128(38, 2), [1.25]),
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
def test_values_of_another_kind_are_refused(arrow_type, asked):
    """Never answered "absent" for being hashed in the wrong way."""
    made = SplitBlockBloomFilter.from_bitset(bytes(32), from_arrow(arrow_type))
    with pytest.raises(FilterTypeError) as caught:
        made.check(asked)
    assert "\n" not in str(caught.value)
    with pytest.raises(FilterTypeError):
        _ = asked[0] in made


def test_the_wrong_width_is_never_hashed(tmp_path):
    path = tmp_path / "i.parquet"
    parquet_bloom.write_table(pa.table({"i": pa.array([5, 7], pa.int32())}), path, ["i"])
    with parquet_bloom.open(path) as file:
        made = file.filter(0, "i")
        assert made.check(pa.array([5, 7])).all()
        assert made.check(np.array([5, 7], np.int64)).all()
        assert made.check([5, 7]).all()
        assert 5 in made
        assert np.int64(5) in made
        assert 2**40 not in made
        assert 2**70 not in made
        with pytest.raises(FilterTypeError):
            made.check(["5"])


def test_decimals_of_any_length():
    """BYTE_ARRAY decimals may be stored longer than needed: all lengths are probed."""
    column_type = from_parquet("BYTE_ARRAY", None, 5, None, 2, 9)
    for length in (1, 2, 7, 32):
        made = SplitBlockBloomFilter(1024)
        made.insert_hashes(np.array([oracle.xxh64((125).to_bytes(length, "big"))], np.uint64))
        probed = SplitBlockBloomFilter.from_bitset(made, column_type)
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
    made = SplitBlockBloomFilter(4096)
    made.insert(np.array(values) if isinstance(values[0], np.generic) else values)
    unbound = SplitBlockBloomFilter.from_bitset(made.to_bytes())
    for probed in (made, unbound):
        assert all(value in probed for value in values)
        assert absent not in probed
        assert None in probed  # nothing is known of nulls
    for value in pa.array(values):
        assert value in made
        assert made.check(value).tolist() == [True]


@pytest.mark.parametrize(
    "value", [object(), [1], 1j, True, np.bool_(True), np.void(b"ab"), np.longdouble(5), Decimal("nan"), "x"]
)
def test_what_is_no_value_of_the_column(value):
    made = bound(pa.int64(), 5)
    with pytest.raises((FilterTypeError, UnsupportedTypeError)):
        _ = value in made


# ------------------------------------------------------------------------------------------------------------
# Zeros, NaN, null
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrow_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_are_one_value(arrow_type, zero):
    made = SplitBlockBloomFilter(1024)
    made.insert(pa.array(np.array([zero])).cast(arrow_type))
    assert made.fill == 8 / 8192  # what is inserted is what is stored
    for asked in (0.0, -0.0, 0, Decimal("0.0"), np.float64(-0.0)):
        assert asked in made
    assert made.check(pa.array(np.array([0.0, -0.0, 1.0, -0.0])).cast(arrow_type)).tolist() == [
        True,
        True,
        False,
        True,
    ]
    assert made.check([0.0, -0.0, 1.0]).tolist() == [True, True, False]
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
    """NaN is asked of an integer column only by mistake; it is not answered "absent" either."""
    assert bound(pa.int64(), 5).check([math.nan, 5.0, 6.0]).tolist() == [True, True, False]


def test_nulls_answer_maybe():
    made = bound(pa.string(), "a")
    assert made.check(pa.array(["a", None, "b"])).tolist() == [True, True, False]
    assert made.check(pa.nulls(2)).tolist() == [True, True]
    assert made.check(pa.scalar(None)).tolist() == [True]
    assert None in made


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
    made = SplitBlockBloomFilter(1 << 16)
    made.insert(range_ := pa.array(range(100)))
    folded = made.fold(fpp=0.01)
    assert folded.num_bytes == SplitBlockBloomFilter.from_ndv(100, 0.01).num_bytes
    assert folded.fpp <= 0.01
    assert folded.check(range_).all()
    assert folded.column_type == made.column_type
    assert not folded.readonly
    assert made.num_bytes == 1 << 16
    assert made.fold(fpp=1e-9).num_bytes > folded.num_bytes
    odd = SplitBlockBloomFilter(96)
    assert odd.fold(0.5).num_bytes == 96
    assert SplitBlockBloomFilter(32).fold().num_bytes == 32
    full = SplitBlockBloomFilter.from_bitset(b"\xff" * 64)
    assert full.fold().num_bytes == 64  # it cannot get better by folding
    for fpp in (0, 1, -1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            made.fold(fpp=fpp)


def test_measures_follow_what_is_inserted():
    made = SplitBlockBloomFilter(1024)
    seen = []
    for start in range(0, 300, 100):
        made.insert(pa.array(range(start, start + 100)))
        exact = OracleFilter(1024, made.to_bytes())
        assert made.fill == pytest.approx(exact.fill)
        assert made.fpp == pytest.approx(exact.fpp)
        seen.append(made.ndv_estimate)
    assert seen == sorted(seen)
    other = SplitBlockBloomFilter(1024)
    other.insert(pa.array(range(300, 600)))
    before = made.fill
    made.merge(other)
    assert made.fill > before
    memoryview(made)[:] = b"\xff" * 1024  # the buffer is the filter's own memory
    assert made.fill == 1


def test_buffer_protocol():
    made = SplitBlockBloomFilter(64)
    made.insert([b"a"])
    view = memoryview(made)
    assert (view.nbytes, view.readonly, view.format, view.contiguous) == (64, False, "B", True)
    assert bytes(made) == made.to_bytes() == bytes(view)
    assert np.frombuffer(made, np.uint8).sum() > 0
    assert pa.py_buffer(made).to_pybytes() == made.to_bytes()
    assert memoryview(SplitBlockBloomFilter.from_bitset(bytes(32))).readonly
    del made
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
    made = SplitBlockBloomFilter(96)
    made.insert(["a"])
    restored = clone(made)
    assert restored == made
    assert restored.column_type == made.column_type
    assert not restored.readonly
    restored.insert(["b"])
    assert restored != made
    fixed = SplitBlockBloomFilter.from_bitset(made.to_bytes() + b"tail", made.column_type)
    restored = clone(fixed)
    assert restored == fixed
    assert restored.readonly
    assert restored.column_type == fixed.column_type
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(made, protocol)) == made


def test_repr():
    made = SplitBlockBloomFilter(1024)
    assert repr(made) == "<SplitBlockBloomFilter: 1024 bytes, fill 0.000, fpp 0>"
    made.insert(["a"])
    assert repr(made) == "<SplitBlockBloomFilter of BYTE_ARRAY STRING: 1024 bytes, fill 0.001, fpp 2.8e-14>"
    assert repr(SplitBlockBloomFilter.from_bitset(b"\xff" * 32)).endswith("32 bytes, fill 1.000, fpp 1>")


def test_subclasses():
    class Own(SplitBlockBloomFilter):
        pass

    made = Own.from_ndv(10)
    assert type(made) is Own
    assert type(made.fold(0.5)) is Own
    assert type(Own.from_bitset(bytes(32))) is Own
