"""Bounds of literals among a column's values."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid

import pyarrow as pa

from parquet_bloom.hashing.coerce import LiteralBounds, make_bounds
from parquet_bloom.hashing.column_type import ColumnType, Kind, from_arrow

D = decimal.Decimal


def test_places_of_literals_among_the_values():
    """Each literal with the largest value at most it, and the smallest at least it; one number where both are equal."""
    hour_east = dt.timezone(dt.timedelta(hours=1))
    for arrow_type, *cases in (
        (pa.int32(), (5, 5), (D("5.5"), 5, 6), (-5.5, -6, -5)),
        (pa.int8(), (127, 127), (128, 127, None), (-129, None, -128), (D("127.5"), 127, None)),
        (pa.uint8(), (-1, None, 0), (D("-0.5"), None, 0)),
        (pa.uint64(), (2**64 - 1, 2**64 - 1), (2**64, 2**64 - 1, None)),
        (pa.int64(), (math.inf, 2**63 - 1, None), (-math.inf, None, -(2**63))),
        (
            pa.decimal128(9, 2),
            (D("1.25"), 125),
            (D("1.255"), 125, 126),
            (D("-1.255"), -126, -125),
            (3, 300),
            (1.25, 125),
        ),
        # Of several decimals that are rounded to one double all equal it.
        (pa.decimal128(38, 2), (1e19, 10**21 + 102_400, 10**21 - 102_400), (1e17 + 16, 10**19 + 2_399, 10**19 + 801)),
        (pa.decimal128(38, 0), (1e19, 10**19 + 1024, 10**19 - 1024), (-1e19, 1024 - 10**19, -1024 - 10**19)),
        (pa.decimal128(38, 0), (1e300, 2**127 - 1, None)),
        (pa.float64(), (1, 1.0), (D("0.1"), 0.1)),
        (pa.string(), ("b", b"b"), ("", b"")),
        (pa.binary(), (b"\xff", b"\xff")),
        (pa.binary(4), (b"ab", b"ab")),
        (pa.uuid(), (uuid.UUID(int=7), uuid.UUID(int=7).bytes)),
        (pa.date32(), (dt.date(1970, 1, 3), 2), (dt.datetime(1970, 1, 3, 12), 2, 3), ("1970-01-03", 2)),
        (pa.date32(), (dt.date(9999, 12, 31), 2_932_896)),
        (pa.time32("ms"), (dt.time(0, 0, 1, 500), 1000, 1001)),
        (pa.time64("us"), (dt.time(0, 0, 1), 1_000_000)),
        (pa.timestamp("ms"), (dt.datetime(1970, 1, 1, 0, 0, 1, 1500), 1001, 1002)),
        (
            pa.timestamp("us"),
            (pa.scalar(1500, pa.timestamp("ns")), 1, 2),
            (pa.scalar(-1500, pa.timestamp("ns")), -2, -1),
        ),
        (pa.timestamp("us"), (dt.datetime(9999, 1, 1), 253_370_764_800_000_000), ("1970-01-01 00:00:01", 1_000_000)),
        (pa.timestamp("us", "UTC"), (dt.datetime(1970, 1, 1, 1, tzinfo=hour_east), 0)),
    ):
        for literal, at_most, *at_least in cases:
            expected = LiteralBounds(at_most, *(at_least or [at_most]))
            assert make_bounds(literal, from_arrow(arrow_type)) == expected, (arrow_type, literal)
    int96 = ColumnType("INT96", Kind.TIMESTAMP, 12, utc=None)
    assert make_bounds(dt.datetime(1970, 1, 1, 0, 0, 1), int96).at_most == 10**9


def test_literals_that_have_no_place():
    for arrow_type, literal in (
        *((pa.bool_(), 1), (pa.int32(), "5x"), (pa.int32(), True), (pa.int64(), float(2**60)), (pa.string(), 5)),
        *((pa.uuid(), "no uuid"), (pa.int32(), D("1e999999")), (pa.int32(), D("NaN")), (pa.date32(), 5)),
        (pa.binary(), "\\xff"),  # DuckDB reads a byte
        (pa.timestamp("us"), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),  # the engine's zone decides
        (pa.timestamp("ms"), "1970-01-01 00:00:00.0015"),  # DuckDB cuts it
    ):
        bounds = make_bounds(literal, from_arrow(arrow_type))
        assert bounds.unknown, (arrow_type, literal)
        assert (bounds.at_most, bounds.at_least) == (None, None)
