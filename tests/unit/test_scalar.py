"""`value in filter`: what is answered without asking `literals` is what `literals` says, for every type and value."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.oracle import oracle

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom import sbbf
from parquet_bloom.core.bloom.memory import zeros
from parquet_bloom.core.bloom.scalar import ScalarHasher
from parquet_bloom.hashing import coerce as coerce_module
from parquet_bloom.hashing.column_type import ColumnType, Kind, from_arrow, from_parquet


class Int(int):
    pass


class Float(float):
    pass


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    pass


INTEGERS = {
    f"{'' if signed else 'U'}INT_{bits} as {physical}": from_parquet(physical, logical={10: {1: bits, 2: signed}})
    for physical, widths in (("INT32", (8, 16, 32)), ("INT64", (64,)))
    for bits in widths
    for signed in (True, False)
}
TYPES: dict[str, ColumnType] = {
    **INTEGERS,
    "INT32": from_parquet("INT32"),
    "INT64": from_parquet("INT64"),
    "FLOAT": from_parquet("FLOAT"),
    "DOUBLE": from_parquet("DOUBLE"),
    "FLOAT16": from_arrow(pa.float16()),
    "STRING": from_arrow(pa.string()),
    "ENUM": from_parquet("BYTE_ARRAY", logical={4: {}}),
    "JSON": from_parquet("BYTE_ARRAY", logical={12: {}}),
    "BSON": from_parquet("BYTE_ARRAY", logical={13: {}}),
    "BYTE_ARRAY": from_parquet("BYTE_ARRAY"),
    "FIXED(1)": from_parquet("FIXED_LEN_BYTE_ARRAY", 1),
    "FIXED(5)": from_parquet("FIXED_LEN_BYTE_ARRAY", 5),
    "FIXED(16)": from_parquet("FIXED_LEN_BYTE_ARRAY", 16),
    "UUID": from_arrow(pa.uuid()),
    "DECIMAL INT32": from_parquet("INT32", logical={5: {1: 2, 2: 9}}),
    "DECIMAL INT64": from_parquet("INT64", logical={5: {1: 0, 2: 18}}),
    "DECIMAL FIXED": from_arrow(pa.decimal128(20, 2)),
    "DECIMAL BYTE_ARRAY": from_parquet("BYTE_ARRAY", None, 5, None, 2, 9),
    "DATE": from_arrow(pa.date32()),
    "TIME ms": from_arrow(pa.time32("ms")),
    "TIME ns": from_arrow(pa.time64("ns")),
    "TIMESTAMP ms": from_arrow(pa.timestamp("ms")),
    "TIMESTAMP us UTC": from_arrow(pa.timestamp("us", "UTC")),
    "TIMESTAMP ns": from_arrow(pa.timestamp("ns")),
    "TIMESTAMP ns UTC": from_arrow(pa.timestamp("ns", "UTC")),
    "INT96": from_parquet("INT96"),
    "BOOLEAN": from_arrow(pa.bool_()),
    "UNKNOWN INT32": from_parquet("INT32", logical={99: {}}),
    "UNKNOWN FIXED": from_parquet("FIXED_LEN_BYTE_ARRAY", 12, converted=21),
}

EDGES = sorted(
    {sign * (1 << bits) + off for bits in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64, 65, 200) for off in (-1, 0, 1)
     for sign in (1, -1)}
)  # fmt: skip
FLOATS = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, 0.1, 5e-324, 1e-46, 7e-46, 1e-45, 1e39, -1e39]
FLOATS += [3.4028235677973366e38, 3.4028235677973362e38, 2.0**53, 2.0**53 + 2, 16777217.0, 1.7976931348623157e308]
TEXTS = ["", "a", "\0", "a\0", "zoë", "日本", "😀", "\ud800", "a\udfff", r"\x41", r"a\b", "\\", "sixteen letters!"]
TEXTS += ["x" * 31, "x" * 32, "y" * 1000, "é" * 40, "5", "2020-01-01", str(uuid.UUID(int=5)), "12345", "ab\\xFFc"]
BYTES = [b"", b"a", b"\0", b"\xff", b"12345", bytes(16), b"sixteen letters!", b"x" * 33, bytes(range(256)), b"\\x41"]
OTHERS: list[Any] = [
    None, True, False, Int(5), Int(2**80), Float(0.0), Float(1.5), Float("nan"), Text("a"), Text("\ud800"), Bytes(b"a"),
    bytearray(b"12345"), memoryview(b"12345"), Decimal("1.25"), Decimal(5), Decimal("NaN"), Decimal("-0"),
    Decimal("1e99"), uuid.UUID(int=5), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1),
    dt.datetime(2020, 1, 1, 1, 2, 3, 456789),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.time(1, 2, 3, 4), dt.timedelta(1), 1j, object, [1], (1,), {}, ...,
    np.bool_(True), np.str_("a"), np.str_("a\0"), np.bytes_(b"12345"), np.bytes_(b"a\0"), np.longdouble(5),
    np.void(b"a"), np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00:00:00.123456789", "ns"),
    np.timedelta64(5, "ns"), np.timedelta64(5, "s"), np.complex64(1),
    pa.scalar(5), pa.scalar("a"), pa.scalar(None), pa.scalar(1.5),
    pa.scalar(1577836800123456789, pa.timestamp("ns")), pa.scalar(1577836800123456789, pa.timestamp("ns", "UTC")),
]  # fmt: skip
VALUES: list[Any] = [*EDGES, *FLOATS, *TEXTS, *BYTES, *OTHERS]

anything = st.one_of(
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.integers(-200, 70_000),
    st.floats(),
    st.floats(width=32),
    st.text(st.characters(exclude_categories=()), max_size=40),
    st.text("\\x4f", max_size=8),
    st.binary(max_size=40),
    st.binary(min_size=16, max_size=16),
    st.decimals(allow_nan=True),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.times(),
    st.uuids(),
    st.sampled_from(VALUES),
)


def coarse(num_blocks: int, seed: int) -> bytes:
    """A bitset that answers "maybe" to about half of all hashes, so that a wrong hash shows."""
    set_bits = np.random.default_rng(seed).random(256 * num_blocks) < 0.917
    return np.packbits(set_bits).tobytes()


BITSETS = [bytes(32), b"\xff" * 96, *(coarse(num_blocks, num_blocks) for num_blocks in (1, 3, 100, 1000, 1001))]
BITSETS += [coarse(64, seed) for seed in range(6)]
FILTERS = {
    name: [SplitBlockBloomFilter.from_bitset(bitset, column_type) for bitset in BITSETS]
    for name, column_type in TYPES.items()
}


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def slow(bloom_filter: SplitBlockBloomFilter, value: Any) -> Any:
    """The answer from the stored forms of what `literals` makes of a value, hashed by the oracle."""
    coerced = coerce_module.coerce([value], bloom_filter.column_type)
    if coerced.unknown is not None:
        return outcome(lambda: bloom_filter._contains_slowly(value))
    exact = oracle.OracleFilter(bloom_filter.num_bytes, bloom_filter.to_bytes())
    return value is None or any(
        exact.check(form) for form in coerce_module.stored_forms(coerced.values, bloom_filter.column_type)
    )


@pytest.mark.ci
@pytest.mark.parametrize("name", TYPES)
def test_the_fast_answer_is_the_slow_one(name):
    for bloom_filter in FILTERS[name]:
        for value in VALUES:
            expected = outcome(lambda: bloom_filter._contains_slowly(value))  # noqa: B023
            assert outcome(lambda: value in bloom_filter) == expected, (name, value)  # noqa: B023


@pytest.mark.ci
@pytest.mark.parametrize("name", TYPES)
@given(value=anything)
@example(value=0)
@example(value="\ud800")
def test_the_fast_answer_is_the_slow_one_for_anything(name, value):
    for bloom_filter in FILTERS[name]:
        result = outcome(lambda: value in bloom_filter)  # noqa: B023
        assert result == outcome(lambda: bloom_filter._contains_slowly(value))  # noqa: B023
        assert type(result) is bool or isinstance(result, tuple)


@pytest.mark.ci
@pytest.mark.parametrize("name", TYPES)
def test_both_are_the_oracles(name):
    for bloom_filter in FILTERS[name][:7]:
        for value in [*EDGES, *FLOATS, *TEXTS, *BYTES]:
            assert outcome(lambda: value in bloom_filter) == slow(bloom_filter, value), (name, value)  # noqa: B023


@pytest.mark.parametrize("name", TYPES)
def test_one_value_is_found_where_it_was_put(name):
    """And nothing else is, but by chance: a filter of one value, of every form in which it may be stored."""
    column_type = TYPES[name]
    for value in [*EDGES, *FLOATS, *TEXTS, *BYTES, *OTHERS[1:]]:
        coerced = coerce_module.coerce([value], column_type)
        if coerced.unknown is not None:
            continue
        for form in coerce_module.stored_forms(coerced.values, column_type):
            bloom_filter = SplitBlockBloomFilter(1 << 14)
            bloom_filter.insert_hashes(np.array([oracle.xxh64(form)], np.uint64))
            assert value in SplitBlockBloomFilter.from_bitset(bloom_filter, column_type)


@pytest.mark.parametrize("name", TYPES)
def test_one_value_has_the_hash_of_the_batch(name):
    column_type = TYPES[name]
    hasher, hashed = coerce_module.make_scalar_hasher(column_type), 0
    for value in [*EDGES, *FLOATS, *TEXTS, *BYTES, *OTHERS[1:]]:
        batch = coerce_module.hash_literals([value], column_type)
        if (one := hasher.hash(value)) is not None:
            assert batch.hashes.tolist() == [one], value
            hashed += 1
    others = column_type.length == 2 or column_type.kind not in (
        Kind.INTEGER,
        Kind.FLOAT,
        Kind.STRING,
        Kind.BYTES,
        Kind.UUID,
    )
    assert hashed or others


def numbers() -> list[Any]:
    with np.errstate(all="ignore"):
        kinds = [np.dtype(code).type for code in "bhilqBHILQ"]
        complete = [kind(value) for kind in kinds for value in (0, 1, 5, np.iinfo(kind).min, np.iinfo(kind).max)]
        return complete + [kind(value) for kind in (np.float16, np.float32, np.float64) for value in FLOATS]


@pytest.mark.ci
@pytest.mark.parametrize("name", TYPES)
def test_numpy_scalars_are_as_arrays_of_them(name):
    """The conversion to Python's numbers is a short cut, not another meaning."""
    others = [
        np.timedelta64(5, "ns"),
        np.datetime64("2020-01-01", "us"),
        np.bool_(True),
        np.str_("a"),
        np.bytes_(b"12345"),
    ]
    for bloom_filter in FILTERS[name][::3]:
        for value in [*numbers(), *others]:
            complete = outcome(lambda: bool(bloom_filter.check(np.array([value]))[0]))  # noqa: B023
            assert outcome(lambda: value in bloom_filter) == complete, (name, value, value.dtype)  # noqa: B023


def test_numpy_texts_keep_their_last_zeros():
    """NumPy's arrays cut them off, which would look for another value."""
    bloom_filter = SplitBlockBloomFilter(1024)
    bloom_filter.insert(["a\0"])
    assert np.str_("a\0") in bloom_filter
    assert np.str_("a") not in bloom_filter
    bloom_filter = SplitBlockBloomFilter(1024)
    bloom_filter.insert([b"a\0"])
    assert np.bytes_(b"a\0") in bloom_filter


WHOLE_TEXTS = [text for text in TEXTS if not any("\ud800" <= letter <= "\udfff" for letter in text)]


class Fast(SplitBlockBloomFilter):
    def _contains_slowly(self, value):
        raise AssertionError(f"{value!r} was not answered at once")


@pytest.mark.parametrize(
    ("name", "values", "others"),
    [
        ("INT32", EDGES, [True, Int(5), 5.0, "5", None, np.int32(5)]),
        ("INT64", EDGES, [True, Int(5), 5.0, Decimal(5)]),
        ("UINT_64 as INT64", EDGES, [False, 5.0]),
        ("UINT_8 as INT32", EDGES, [False, 5.0]),
        ("DOUBLE", FLOATS, [5, True, Float(5), np.float64(5)]),
        ("FLOAT", FLOATS, [5]),
        ("STRING", [*BYTES, *WHOLE_TEXTS], ["\ud800", Text("a")]),
        ("BYTE_ARRAY", [*BYTES, "a", "é"], ["\\x41", "a\\", bytearray(b"a")]),
        ("FIXED(5)", [*BYTES, "12345", ""], ["a\\b"]),
        ("UUID", BYTES, ["a", uuid.UUID(int=5)]),
        ("FLOAT16", [], [1.5]),
        ("DATE", [], [5, dt.date(2020, 1, 1)]),
        ("TIMESTAMP ns", [], [5]),
        ("DECIMAL INT32", [], [5, Decimal(5)]),
        ("BOOLEAN", [], [True]),
        ("UNKNOWN INT32", [], [5]),
    ],
)  # fmt: skip
def test_which_values_are_answered_at_once(name, values, others):
    """A filter bound by being read, by values, by a merge, or restored."""
    bloom_filter = Fast.from_bitset(bytes(32), TYPES[name])
    merged = Fast(32).merge(bloom_filter)
    for bound in (bloom_filter, merged, merged.fold(), bloom_filter.__reduce__()[0](*bloom_filter.__reduce__()[1])):
        for value in values:
            assert (value in bound) == (isinstance(value, float) and math.isnan(value))
    for value in others:
        with pytest.raises(AssertionError, match="at once"):
            _ = value in bloom_filter


def test_a_filter_of_no_type_asks():
    unbound = Fast(32)
    for value in (5, "a", b"a", 1.5):
        with pytest.raises(AssertionError, match="at once"):
            _ = value in unbound
    unbound.insert([5])
    assert 6 not in unbound
    unbound.__init__(64)  # bound no longer
    with pytest.raises(AssertionError, match="at once"):
        _ = 6 in unbound


def test_errors_of_the_slow_way_are_raised():
    bloom_filter = SplitBlockBloomFilter.from_bitset(bytes(32), TYPES["STRING"])
    with decimal.localcontext(), pytest.raises(TypeError):
        _ = 5 in bloom_filter
    assert "\ud800" not in bloom_filter


def test_the_compiled_class_alone():
    bare = sbbf.Bitset()
    with pytest.raises(TypeError, match="int"):
        _ = 5 in bare
    with pytest.raises(ValueError, match="no bitset"):
        bare._contains_any([b"a"])
    bare._expect(ScalarHasher.integers(8, -(2**63), 2**63 - 1))
    with pytest.raises(TypeError, match="int"):
        _ = 5 in bare  # it has no bits yet
    bare._bitset = zeros(64)
    bare._expect(ScalarHasher.integers(8, -(2**63), 2**63 - 1))
    assert 5 not in bare
    bare._bitset[:] = 255
    assert 5 in bare
    assert 2**63 not in bare
    for wrong in (zeros(31), np.zeros(64, np.uint32), None):
        with pytest.raises((ValueError, TypeError)):
            bare._bitset = wrong
    assert 5 in bare
    for width in (0, 2, 16):
        with pytest.raises(ValueError, match="4 or 8"):
            ScalarHasher.integers(width, 0, 1)
        with pytest.raises(ValueError, match="4 or 8"):
            ScalarHasher.floats(width)
    with pytest.raises(OverflowError):
        ScalarHasher.integers(4, -(2**70), 1)
    assert 5 in bare
