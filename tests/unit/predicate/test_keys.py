"""Keys as text, by the type of their column."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid

import pyarrow as pa
import pytest

from parquet_bloom.errors import PredicateError
from parquet_bloom.hashing.column_type import ColumnType, Kind, from_arrow
from parquet_bloom.predicate.text_keys import parse_keys

ID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
UTC = dt.UTC

GOOD = [
    (pa.int64(), ["1", " +2", "-3\t", "00004", "9" * 40], (1, 2, -3, 4, int("9" * 40))),
    (pa.uint8(), ["255", "256"], (255, 256)),
    (pa.string(), [" a ", "1", "", "é", "x'00'"], (" a ", "1", "", "é", "x'00'")),
    (pa.binary(), ["text", "X'00ff'", "x''"], ("text", b"\x00\xff", b"")),
    (pa.uuid(), [str(ID), str(ID).upper(), f" {ID.hex} "], (ID, ID, ID)),
    (pa.date32(), ["2026-01-31 "], (dt.date(2026, 1, 31),)),
    (pa.time64("us"), ["12:30:15.25"], (dt.time(12, 30, 15, 250_000),)),
    (
        pa.timestamp("us", "UTC"),
        ["2026-01-31 12:30:15Z", "2026-01-31T12:30", "2026-01-31"],
        (
            dt.datetime(2026, 1, 31, 12, 30, 15, tzinfo=UTC),
            dt.datetime(2026, 1, 31, 12, 30),
            dt.datetime(2026, 1, 31),
        ),
    ),
    (pa.decimal128(10, 2), ["1.50", "-2", "+.5"], (decimal.Decimal("1.50"), -2, decimal.Decimal(".5"))),
    (pa.float64(), ["1.5", "-2", "1e3", "inf"], (1.5, -2.0, 1000.0, math.inf)),
    (pa.bool_(), ["true", "FALSE"], (True, False)),
]


@pytest.mark.parametrize(("arrow_type", "texts", "expected"), GOOD, ids=lambda value: str(value)[:20])
def test_keys_have_the_type_of_their_column(arrow_type, texts, expected):
    keys = parse_keys(enumerate(texts, 1), from_arrow(arrow_type))
    assert keys == expected
    assert list(map(type, keys)) == list(map(type, expected))


BAD = [
    (pa.int32(), ["1.5", "1_000", "0x10", "", "١", "1 2", "9" * 101], "is not an integer"),
    (
        pa.uuid(),
        ["123", "{123e4567-e89b-12d3-a456-426614174000}", "urn:uuid:" + str(ID)],
        "is not a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    ),
    (pa.date32(), ["2026-02-30", "31.1.2026", "2026-01-31 10:00"], "is not a date such as 2026-01-31"),
    (pa.time32("ms"), ["25:00:00", "noon"], "is not a time such as 12:30:15.25"),
    (
        pa.timestamp("ns"),
        ["yesterday", "2026-01-31 25:00"],
        "is not a timestamp without time zone such as 2026-01-31 12:30:15.25",
    ),
    (pa.timestamp("ns", "UTC"), ["now"], "is not a timestamp such as 2026-01-31 12:30:15.25Z"),
    (pa.decimal128(10, 2), ["1,5", "x", "-", "--1"], "is not a number such as 1.50"),
    (pa.float32(), ["1,5", "x", ""], "is not a number such as 1.5"),
    (pa.bool_(), ["1", "yes"], "is not true or false"),
]


@pytest.mark.parametrize(("arrow_type", "texts", "problem"), BAD, ids=lambda value: str(value)[:20])
def test_a_key_that_is_no_value_of_the_type_is_named(arrow_type, texts, problem):
    for text in texts:
        with pytest.raises(PredicateError) as caught:
            parse_keys([(1234, text)], from_arrow(arrow_type))
        assert str(caught.value).startswith("line 1,234: ")
        assert str(caught.value).endswith(problem)
        assert len(str(caught.value)) < 180


def test_each_key_is_there_once_and_numbers_count_rows_too():
    assert parse_keys([(1, "1"), (2, "01"), (3, "2"), (4, "1")], from_arrow(pa.int8())) == (1, 1, 2, 1)
    assert parse_keys([], from_arrow(pa.int8())) == ()
    with pytest.raises(PredicateError, match="row 7: 'x' is not an integer"):
        parse_keys([(7, "x")], from_arrow(pa.int8()), "row")


def test_types_that_cannot_be_compared():
    with pytest.raises(PredicateError, match="values of the type INT64 cannot be compared"):
        parse_keys([(1, "1")], ColumnType("INT64", Kind.UNKNOWN))
