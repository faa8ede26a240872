"""Values and literals as keys of filters: every form that a writer may have hashed is probed."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.oracle import orc_oracle

from parquet_bloom.core.hash import orc_murmur3 as orc_hash
from parquet_bloom.errors import FilterTypeError
from parquet_bloom.hashing.coerce import coerce
from parquet_bloom.orc.orc_filters import OrcFilter, hash_values, keying_of, make_probes
from parquet_bloom.orc.orc_schema import OrcLeaf, read_leaves
from parquet_bloom.orc.orc_tail import BLOOM_FILTER_UTF8

KINDS = {"BOOLEAN": 0, "BYTE": 1, "SHORT": 2, "INT": 3, "LONG": 4, "FLOAT": 5, "DOUBLE": 6, "STRING": 7, "BINARY": 8}
KINDS |= {"TIMESTAMP": 9, "DECIMAL": 14, "DATE": 15, "VARCHAR": 16, "CHAR": 17, "TIMESTAMP_INSTANT": 18}
EPOCH = dt.date(1970, 1, 1)


def leaf(kind: str, **described: Any) -> OrcLeaf:
    return read_leaves([{"kind": 12, "children": [1], "names": [b"a"]}, {"kind": KINDS[kind], **described}])[0]


def filter_of(of: OrcLeaf, *hashes: int) -> OrcFilter:
    """A filter in which only these hashes are."""
    bits = bytearray(8_192)
    orc_hash.insert(bits, np.array(hashes, np.uint64), 7)
    return OrcFilter(of, BLOOM_FILTER_UTF8, 0, 0, bytes(bits), 7)


def probed_hashes(value: Any, of: OrcLeaf, timezone: str = "UTC") -> set[int]:
    """The hashes that are probed for a literal."""
    coerced = coerce([value], of.column_type, timezone)
    assert coerced.unknown is None
    hashes, first = keying_of(of)(coerced.values, of.column_type)
    assert first[0] == 0
    assert first[-1] == len(hashes)
    return set(hashes.tolist())


def test_many_values_at_once() -> None:
    """Each value's forms follow those of the value before."""
    of = leaf("DOUBLE")
    hashes, first = hash_values([-1.0, 0.0, 2.0], of.column_type)
    assert first.tolist() == [0, 1, 3, 4]
    assert hashes.dtype == np.uint64
    assert first.dtype == np.intp
    assert hashes[3] == orc_oracle.wang(orc_oracle.double_bits(2.0))
    for kind in ("LONG", "DATE", "TIMESTAMP", "DECIMAL", "STRING", "CHAR"):
        empty, first = keying_of(leaf(kind, precision=9, scale=2, length=4))((), leaf(kind, precision=9).column_type)
        assert (len(empty), first.tolist()) == (0, [0])


@given(st.lists(st.integers(-(1 << 80), 1 << 80), max_size=8, unique=True))
def test_forms_belong_to_their_values(values: list[int]) -> None:
    """Probes of many values equal the probes of each."""
    of = leaf("TIMESTAMP").column_type
    values = sorted(values)
    values = [value for value in values if abs(value) < 1 << 70]
    hashes, first = hash_values(values, of)
    for i, value in enumerate(values):
        alone, _ = hash_values([value], of)
        assert sorted(hashes[first[i] : first[i + 1]].tolist()) == sorted(alone.tolist())


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers(value: int) -> None:
    of = leaf("LONG")
    assert probed_hashes(value, of) == {orc_oracle.wang(value)}
    assert filter_of(of, orc_oracle.wang(value)).check([value, value ^ 1]).tolist() == [True, False]


def test_integers_of_any_arrow_type() -> None:
    of = leaf("INT")
    bloom_filter = filter_of(of, orc_oracle.wang(5))
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()):
        assert bloom_filter.check(pa.array([5, 6, None], kind)).tolist() == [True, False, True]
    assert bloom_filter.check(np.array([5, 6])).tolist() == [True, False]
    assert bloom_filter.check(pa.array([5, 6, 5]).dictionary_encode()).tolist() == [True, False, True]
    assert bloom_filter.check(pa.chunked_array([[5], [], [6, 5]])).tolist() == [True, False, True]
    assert bloom_filter.check([]).tolist() == []
    assert bloom_filter.check(pa.array([1, 5, 6])[1:]).tolist() == [True, False]
    with pytest.raises(FilterTypeError):
        bloom_filter.check(pa.array([1 << 63], pa.uint64()))


def test_floats() -> None:
    for kind in ("FLOAT", "DOUBLE"):
        of = leaf(kind)
        both = {orc_oracle.wang(orc_oracle.double_bits(zero)) for zero in (0.0, -0.0)}
        assert len(both) == 2
        assert probed_hashes(0.0, of) == both
        for bits in both:
            bloom_filter = filter_of(of, bits)
            assert bloom_filter.check([0.0, -0.0, 1.0, None, math.nan]).tolist() == [True, True, False, True, True]
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    bloom_filter = filter_of(leaf("FLOAT"), orc_oracle.wang(orc_oracle.double_bits(single)))
    assert bloom_filter.check(pa.array([0.1, 0.2], pa.float32())).tolist() == [True, False]
    assert bloom_filter.check([0.1, 0.2]).tolist() == [True, False]
    assert probed_hashes(0.1, leaf("FLOAT")) == {orc_oracle.wang(orc_oracle.double_bits(single))}
    assert filter_of(leaf("DOUBLE"), orc_oracle.wang(orc_oracle.double_bits(5.0))).check([5, 6]).tolist() == [
        True,
        False,
    ]


def test_texts_and_bytes() -> None:
    for kind in ("STRING", "VARCHAR", "BINARY"):
        of = leaf(kind)
        bloom_filter = filter_of(of, orc_oracle.murmur("héllo".encode()))
        values = ["héllo", "héllo ", None, ""]
        for given_type in (pa.string(), pa.large_string(), pa.string_view()):
            assert bloom_filter.check(pa.array(values, given_type)).tolist() == [True, False, True, False]
        assert bloom_filter.check(["héllo".encode(), b"x"]).tolist() == [True, False]
        assert bloom_filter.check(pa.array(["x", "héllo", None])[1:]).tolist() == [True, True]
        assert probed_hashes("héllo", of) == {orc_oracle.murmur("héllo".encode())}


@pytest.mark.parametrize("stored", ["é ", "é", "é   ", "é    "])
def test_char(stored: str) -> None:
    """Padded by its writer or not, it is found by its text with any number of trailing spaces."""
    of = leaf("CHAR", length=4)
    hashed = orc_oracle.murmur(stored.encode())
    if stored in ("é", "é   "):
        bloom_filter = filter_of(of, hashed)
        for text in ("é", "é ", "é   "):
            assert hashed in probed_hashes(text, of)
            assert bloom_filter.check([text, "e"]).tolist() == [True, False]
    else:
        assert hashed in probed_hashes(stored, of)
    assert keying_of(of) is keying_of(leaf("CHAR", length=4))
    assert keying_of(of) != keying_of(leaf("CHAR", length=5))
    assert keying_of(leaf("STRING")) is hash_values


def test_decimals() -> None:
    of = leaf("DECIMAL", precision=20, scale=2)
    for value, stored in (
        *(("0", b"0"), ("100", b"100"), ("-0.5", b"-0.5"), ("1.50", b"1.5"), ("1.50", b"1.50")),
        *(("-12.34", b"-12.34"), ("0.01", b"0.01")),
    ):
        bloom_filter = filter_of(of, orc_oracle.murmur(stored))
        assert orc_oracle.murmur(stored) in probed_hashes(Decimal(value), of)
        for kind in (pa.decimal128(20, 2), pa.decimal128(30, 5), pa.decimal256(40, 2)):
            array = pa.array([Decimal(value), Decimal("7.77"), None], pa.decimal128(20, 2)).cast(kind)
            assert bloom_filter.check(array).tolist()[1:] == [False, True]
            assert stored == b"1.50" or bloom_filter.check(array).tolist()[0]
        if value == "100":
            assert bloom_filter.check([100, 101]).tolist() == [True, False]


def julian_day(day: int) -> int:
    """The number of the day that the Julian calendar gives the date which the Gregorian one gives this day."""
    date = EPOCH + dt.timedelta(day)
    a = (14 - date.month) // 12
    year, month = date.year + 4800 - a, date.month + 12 * a - 3
    return date.day + (153 * month + 2) // 5 + 365 * year + year // 4 - 32083 - 2_440_588


@given(st.dates(max_value=dt.date(1582, 10, 14)))
@example(dt.date(1582, 10, 4))
@example(dt.date(1582, 10, 5))
def test_dates_before_the_gregorian_calendar(date: dt.date) -> None:
    of = leaf("DATE")
    day = (date - EPOCH).days
    other = julian_day(day)
    assert {orc_oracle.wang(day), orc_oracle.wang(other)} <= probed_hashes(date, of)
    assert filter_of(of, orc_oracle.wang(other)).check([date]).all()
    # A reader that takes the other number for a Gregorian day shows another date, which is found as well. The ten dates
    # that were left out when the calendar changed have days from the change on, which all readers show alike.
    if date < dt.date(1582, 10, 5):
        back, _ = hash_values([other], of.column_type)
        assert orc_oracle.wang(day) in back.tolist()
    moment = dt.datetime.combine(date, dt.time(5))
    assert orc_oracle.wang(other * 86_400_000 + 5 * 3_600_000) in probed_hashes(moment, leaf("TIMESTAMP"))


@given(st.dates(min_value=dt.date(1582, 10, 15)))
def test_dates(date: dt.date) -> None:
    day = (date - EPOCH).days
    assert probed_hashes(date, leaf("DATE")) == {orc_oracle.wang(day)}
    assert julian_day(0) == 13
    bloom_filter = filter_of(leaf("DATE"), orc_oracle.wang(day))
    assert bloom_filter.check(pa.array([date, None], pa.date32())).all()
    assert bloom_filter.check(pa.array([date], pa.date64())).all()


@given(st.integers(-(1 << 62), 1 << 62))
def test_timestamps(nanos: int) -> None:
    for kind, zone in (("TIMESTAMP", None), ("TIMESTAMP_INSTANT", "UTC")):
        of = leaf(kind)
        array = pa.array([nanos, None], pa.timestamp("ns", tz=zone))
        forms = probed_hashes(array[0], of)
        down = nanos // 1_000_000
        near = {orc_oracle.wang(down)}
        if nanos % 1_000_000_000 and down < 2 * 86_400_000:
            near |= {orc_oracle.wang(down + shift) for shift in (1, 1_000, -1_000)}
        elif down >= 2 * 86_400_000:
            assert forms == near
        assert near <= forms
        assert len(forms) <= 66
        for hashed in near:
            assert filter_of(of, hashed).check(array).all()
        assert set(make_probes(array[:1], of).hashes.tolist()) == forms


def test_timestamps_of_any_arrow_type() -> None:
    of = leaf("TIMESTAMP")
    moment = dt.datetime(2024, 5, 6, 7, 8, 9)
    bloom_filter = filter_of(of, orc_oracle.wang((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)))
    other = moment + dt.timedelta(seconds=1)
    for unit in ("s", "ms", "us", "ns"):
        assert bloom_filter.check(pa.array([moment, other], pa.timestamp(unit))).tolist() == [True, False]
    assert bloom_filter.check([moment, other, None]).tolist() == [True, False, True]
    day = filter_of(of, orc_oracle.wang((dt.date(2024, 5, 6) - EPOCH).days * 86_400_000))
    assert day.check([dt.date(2024, 5, 6), dt.date(2024, 5, 7)]).tolist() == [True, False]
    for far in ("s", "ms"):
        with pytest.raises(FilterTypeError, match="out of range"):
            filter_of(leaf("TIMESTAMP") if far == "s" else _ntz(), 1).check(pa.array([1 << 62], pa.timestamp(far)))


def _ntz() -> OrcLeaf:
    return leaf("LONG", attributes=[{"key": b"spark.sql.catalyst.type", "value": b"timestamp_ntz"}])


def test_wall_clocks_of_spark() -> None:
    of = _ntz()
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
    micros = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    bloom_filter = filter_of(of, orc_oracle.wang(micros))
    assert probed_hashes(moment, of) == {orc_oracle.wang(micros)}
    assert bloom_filter.check([micros, micros + 1]).tolist() == [True, False]
    assert bloom_filter.check([moment, moment + dt.timedelta(microseconds=1)]).tolist() == [True, False]
    assert bloom_filter.check(pa.array([micros * 1_000, micros * 1_000 + 1], pa.timestamp("ns"))).tolist() == [
        True,
        False,
    ]


def test_values_of_another_kind() -> None:
    day, moment = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)
    for kind, *values in (
        *(("LONG", "a", 1.5, day), ("STRING", 1), ("BINARY", 1), ("CHAR", 1), ("DOUBLE", "a"), ("DATE", 1, moment)),
        *(("TIMESTAMP", moment.replace(tzinfo=dt.UTC)), ("TIMESTAMP_INSTANT", moment, day), ("DECIMAL", "1", 1.5)),
    ):
        for value in values:
            with pytest.raises(FilterTypeError, match="do not fit a column of"):
                filter_of(leaf(kind, precision=9, scale=2, length=3), 1).check([value])


def test_values_that_filters_do_not_tell_of() -> None:
    bloom_filter = filter_of(leaf("LONG"))
    assert bloom_filter.check([None, None]).tolist() == [True, True]
    assert bloom_filter.check(pa.nulls(2)).tolist() == [True, True]
    assert bloom_filter.check([1]).tolist() == [False]


def test_numbers_of_a_filter() -> None:
    draw = np.random.default_rng(1)
    bloom_filter = filter_of(leaf("LONG"), *draw.integers(0, 1 << 63, 3_000).tolist())
    set_bits = int.from_bytes(bloom_filter.bitset, "little").bit_count()
    assert bloom_filter.fill == set_bits / 65_536
    assert bloom_filter.fpp == pytest.approx(bloom_filter.fill**7)
    assert bloom_filter.ndv_estimate == pytest.approx(3_000, rel=0.05)
    full = OrcFilter(leaf("LONG"), BLOOM_FILTER_UTF8, 0, 0, b"\xff" * 8, 7)
    assert (full.fill, full.fpp, full.ndv_estimate) == (1.0, 1.0, math.inf)
    none = OrcFilter(leaf("LONG"), BLOOM_FILTER_UTF8, 0, 0, problem="it is broken")
    assert (none.fill, none.fpp, none.ndv_estimate, none.trusted, none.doubt) == (0.0, 1.0, 0.0, False, "it is broken")
    assert none.check([1]).all()
    assert none.check_hashes(np.array([1], np.uint64)).all()
