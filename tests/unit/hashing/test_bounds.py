"""Bounds of literals among a column's values."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid

import pyarrow as pa
import pytest

from parquet_bloom.hashing.coerce import LiteralBounds, make_bounds
from parquet_bloom.hashing.column_type import ColumnType, Kind, from_arrow

D = decimal.Decimal
UTC = dt.UTC
INT96 = ColumnType("INT96", Kind.TIMESTAMP, 12, utc=None)


@pytest.mark.parametrize(
    ("arrow", "literal", "at_most", "at_least"),
    [
        (pa.int32(), 5, 5, 5),
        (pa.int32(), D("5.5"), 5, 6),
        (pa.int32(), -5.5, -6, -5),
        (pa.int8(), 127, 127, 127),
        (pa.int8(), 128, 127, None),
        (pa.int8(), -129, None, -128),
        (pa.int8(), D("127.5"), 127, None),
        (pa.uint8(), -1, None, 0),
        (pa.uint8(), D("-0.5"), None, 0),
        (pa.uint64(), 2**64 - 1, 2**64 - 1, 2**64 - 1),
        (pa.uint64(), 2**64, 2**64 - 1, None),
        (pa.int64(), math.inf, 2**63 - 1, None),
        (pa.int64(), -math.inf, None, -(2**63)),
        (pa.decimal128(9, 2), D("1.25"), 125, 125),
        (pa.decimal128(9, 2), D("1.255"), 125, 126),
        (pa.decimal128(9, 2), D("-1.255"), -126, -125),
        (pa.decimal128(9, 2), 3, 300, 300),
        (pa.decimal128(9, 2), 1.25, 125, 125),
        (pa.float64(), 1, 1.0, 1.0),
        (pa.float64(), D("0.1"), 0.1, 0.1),
        (pa.string(), "b", b"b", b"b"),
        (pa.string(), "", b"", b""),
        (pa.binary(), b"\xff", b"\xff", b"\xff"),
        (pa.binary(4), b"ab", b"ab", b"ab"),
        (pa.uuid(), uuid.UUID(int=7), uuid.UUID(int=7).bytes, uuid.UUID(int=7).bytes),
        (pa.date32(), dt.date(1970, 1, 3), 2, 2),
        (pa.date32(), dt.datetime(1970, 1, 3, 12), 2, 3),
        (pa.date32(), "1970-01-03", 2, 2),
        (pa.date32(), dt.date(9999, 12, 31), 2_932_896, 2_932_896),
        (pa.time32("ms"), dt.time(0, 0, 1, 500), 1000, 1001),
        (pa.time64("us"), dt.time(0, 0, 1), 1_000_000, 1_000_000),
        (pa.timestamp("ms"), dt.datetime(1970, 1, 1, 0, 0, 1, 1500), 1001, 1002),
        (pa.timestamp("us"), pa.scalar(1500, pa.timestamp("ns")), 1, 2),
        (pa.timestamp("us"), pa.scalar(-1500, pa.timestamp("ns")), -2, -1),
        (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0, 0),
        (pa.timestamp("us"), dt.datetime(9999, 1, 1), 253_370_764_800_000_000, 253_370_764_800_000_000),
        (pa.timestamp("us"), "1970-01-01 00:00:01", 1_000_000, 1_000_000),
    ],
)
def test_places(arrow, literal, at_most, at_least):
    assert make_bounds(literal, from_arrow(arrow)) == LiteralBounds(at_most, at_least)


def test_bounds_among_int96_timestamps():
    assert make_bounds(dt.datetime(1970, 1, 1, 0, 0, 1), INT96).at_most == 10**9


@pytest.mark.parametrize(
    ("arrow", "literal"),
    [
        (pa.bool_(), True),
        (pa.int32(), "5"),
        (pa.int32(), True),
        (pa.int64(), float(2**60)),
        (pa.decimal128(9, 2), 1.255),  # between two of its values, where engines differ
        (pa.string(), 5),
        (pa.binary(), "\\xff"),  # DuckDB reads a byte
        (pa.timestamp("us"), dt.datetime(2020, 1, 1, tzinfo=UTC)),  # the engine's zone decides
        (pa.timestamp("ms"), "1970-01-01 00:00:00.0015"),  # DuckDB cuts it
        (pa.uuid(), "no uuid"),
        (pa.int32(), D("1e999999")),
        (pa.int32(), D("NaN")),
        (pa.date32(), 5),
    ],
)
def test_columns_without_an_offset(arrow, literal):
    statistics = make_bounds(literal, from_arrow(arrow))
    assert statistics.unknown
    assert (statistics.at_most, statistics.at_least) == (None, None)
