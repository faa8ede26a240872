"""pyarrow's filters= form, and the conversion of Python, numpy, pandas and Arrow values."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.arrow_expression import parse_dnf
from parquet_bloom.predicate.tree import And, Compare, Equal, In, NotEqual, NotIn, Or

D = decimal.Decimal


def value_of(value: object) -> object:
    return parse_dnf(("a", "=", value)).value


@pytest.mark.parametrize(
    ("filters", "node"),
    [
        (("a", "=", 1), Equal("a", 1)),
        ([("a", "==", 1)], Equal("a", 1)),
        ([("a", "=", 1), ("b.c", "in", [2, 3])], And((Equal("a", 1), In("b.c", (2, 3))))),
        ([[("a", "=", 1)], [("a", "=", 2)], [("a", "in", {3})]], In("a", (1, 2, 3))),
        ([[("a", "=", 1), ("b", "=", 2)], [("c", "=", 3)]], Or((And((Equal("a", 1), Equal("b", 2))), Equal("c", 3)))),
        ((("a", "=", 1), ("b", "=", 2)), And((Equal("a", 1), Equal("b", 2)))),
        ([[("a", "=", 1), ("b", "=", 2)]], And((Equal("a", 1), Equal("b", 2)))),
        (("a", "IN", ()), In("a", ())),
        (("in", "in", ["in"]), In("in", ("in",))),
    ],
)
def test_shapes(filters, node):
    assert parse_dnf(filters) == node
    assert parse(filters) == node


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ([], "must not be empty"),
        ([[]], "must not be empty"),
        ([[("a", "=", 1)], []], "must not be empty"),
        ([("a", "=", 1), [("b", "=", 1)]], "mix"),
        ([["a", "=", 1]], "a tuple"),
        ([("a", "=")], "a tuple"),
        (("a", "=", 1, 2), "a tuple"),
        ([(("a", "b"), "=", 1)], "a tuple"),
        ([5], "must be a list"),
        ({"a": 1}, "SQL text, a list"),
        (5, "SQL text, a list"),
        (("a", "like", 1), "'not in'"),
        (("a", "<=>", 1), "'not in'"),
        (("a", "not  in", [1]), "'not in'"),
        (("a", None, 1), "'not in'"),
        (("a", "<", [1]), "takes 'in'"),
        (("a", "not in", 1), "a collection"),
        (("a", "=", [1]), "takes 'in'"),
        (("a", "in", 1), "a collection"),
        (("a", "in", "text"), "a collection"),
        (("a", "in", b"bytes"), "a collection"),
        (("a", "in", {"k": 1}), "a collection"),
        (("a", "in", np.array(5)), "a collection"),
        (("a", "in", np.zeros((2, 2))), "one dimension"),
        (("a", "in", [1, object()]), "cannot be a literal"),
        (("a", "in", pa.array([[1]])), "cannot be a literal"),
        (("a", "=", np.array([1])), "array"),
    ],
)
def test_unsupported_input_is_named_on_one_line(filters, words):
    with pytest.raises(PredicateError) as caught:
        parse(filters)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_names_the_column():
    with pytest.raises(PredicateError) as caught:
        parse_dnf([("user.id", "=", 1), ("user.name", "like", "a")])
    assert caught.value.column == "user.name"


class Number(enum.IntEnum):
    ONE = 1


class Color(str, enum.Enum):  # noqa: UP042 - as older code has it
    RED = "red"


class OwnUUID(uuid.UUID):
    pass


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        *((same, same) for same in (None, True, 5, 2**70, 0.5, "x", b"x", D("1.10"), dt.date(1, 1, 1), dt.time(1))),
        (np.bool_(True), True),
        (np.int8(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.1), 0.10000000149011612),
        (np.float16(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.longdouble(0.5), 0.5),
        (np.str_("x"), "x"),
        (np.bytes_(b"x"), b"x"),
        (np.array(7), 7),
        (np.array("2026-01-02", "M8[D]"), dt.date(2026, 1, 2)),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (Number.ONE, 1),
        (Color.RED, "red"),
        (OwnUUID(int=5), uuid.UUID(int=5)),
        (np.datetime64("NaT"), None),
        (np.timedelta64("NaT"), None),
        (np.timedelta64(2, "h"), dt.timedelta(hours=2)),
        (np.timedelta64(-1, "ns"), pa.scalar(-1, pa.duration("ns"))),
        (pa.scalar(1, pa.duration("s")), dt.timedelta(seconds=1)),
        (np.datetime64("2026-01-02"), dt.date(2026, 1, 2)),
        (np.datetime64("2026-02"), dt.date(2026, 2, 1)),
        (np.datetime64("1969"), dt.date(1969, 1, 1)),
        (np.datetime64("2026-01-02T03"), dt.datetime(2026, 1, 2, 3)),
        (np.datetime64("2026-01-02T03:04:05.000006"), dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
        (np.datetime64("1950-01-01T00:00:00.123456000"), dt.datetime(1950, 1, 1, 0, 0, 0, 123456)),
        (np.datetime64(1_000, "ps"), pa.scalar(1, pa.timestamp("ns"))),
        (np.datetime64("1950-01-01T00:00:00.123456789"), pa.scalar(-631151999876543211, pa.timestamp("ns"))),
        (pa.scalar(None, pa.int64()), None),
        (pa.scalar(2**64 - 1, pa.uint64()), 2**64 - 1),
        (pa.scalar(0.1, pa.float32()), 0.10000000149011612),
        (pa.scalar(D("1.10"), pa.decimal128(5, 2)), D("1.10")),
        (pa.scalar(D(10) ** 60, pa.decimal256(70)), D(10) ** 60),
        (pa.scalar("x", pa.string_view()), "x"),
        (pa.scalar(b"x", pa.large_binary()), b"x"),
        (pa.scalar(b"xy", pa.binary(2)), b"xy"),
        (pa.scalar(5, pa.date32()), dt.date(1970, 1, 6)),
        (pa.scalar(86_400_000, pa.date64()), dt.date(1970, 1, 2)),
        (pa.scalar(1_000, pa.time32("ms")), dt.time(0, 0, 1)),
        (pa.scalar(1_000, pa.time64("ns")), dt.time(0, 0, 0, 1)),
        (pa.scalar(1, pa.time64("ns")), pa.scalar(1, pa.time64("ns"))),
        (pa.scalar(-1, pa.timestamp("s")), dt.datetime(1969, 12, 31, 23, 59, 59)),
        (pa.scalar(-1, pa.timestamp("ns")), pa.scalar(-1, pa.timestamp("ns"))),
        (pa.scalar(0, pa.timestamp("us", "Asia/Tokyo")), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        (pa.scalar(1, pa.timestamp("ns", "Asia/Tokyo")), pa.scalar(1, pa.timestamp("ns", "UTC"))),
        (pa.array([b"a" * 16], pa.uuid())[0], uuid.UUID(bytes=b"a" * 16)),
        (pa.array(["x"]).dictionary_encode()[0], "x"),
    ],
)
def test_scalars_keep_their_exact_value(given, plain):
    value = value_of(given)
    assert (type(value), value) == (type(plain), plain)
    collected = parse_dnf(("a", "in", [given, 1])).values
    assert (type(collected[0]), collected[0]) == (type(plain), plain)


@pytest.mark.parametrize(
    "value",
    [
        D("NaN"),
        D("Infinity"),
        np.timedelta64(1, "M"),
        np.complex64(1),
        np.datetime64(1, "ps"),
        np.datetime64(10**9, "Y"),
        np.datetime64(2**40, "D"),
        np.datetime64(2**62, "s"),
        pa.scalar(2**62, pa.timestamp("s", "UTC")),
        np.longdouble(1) / 3,
        pa.scalar(2**62, pa.duration("s")),
        dt.time(1, tzinfo=dt.UTC),
        enum.Enum("Plain", "A").A,
        pa.scalar([1]),
        pa.scalar({"a": 1}),
        pa.scalar(2**30, pa.date32()),
        1j,
        ...,
    ],
)
def test_values_without_an_exact_form_are_refused(value):
    with pytest.raises(PredicateError):
        value_of(value)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        (1, 2),
        range(1, 3),
        {1: "a", 2: "b"}.keys(),
        (i for i in (1, 2)),
        np.array([1, 2]),
        np.array([1, 2], "u1"),
        np.array([1, 2], object),
        pa.array([1, 2]),
        pa.chunked_array([[1], [2]]),
        pa.array([1, 2]).dictionary_encode(),
    ],
)
def test_collections(values):
    assert parse_dnf(("a", "in", values)) == In("a", (1, 2))


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        (pa.array([None, "x"]), (None, "x")),
        (pa.array(["x"], pa.string_view()), ("x",)),
        (pa.array([1.5], pa.float16()), (1.5,)),
        (pa.array([b"a" * 16], pa.uuid()), (uuid.UUID(bytes=b"a" * 16),)),
        (pa.array([1], pa.timestamp("ns")), (pa.scalar(1, pa.timestamp("ns")),)),
        (pa.array([2_000], pa.timestamp("ns")), (dt.datetime(1970, 1, 1, 0, 0, 0, 2),)),
        (np.array(["x", "yy"]), ("x", "yy")),
        (np.array([b"x"]), (b"x",)),
        (np.array([0.5], "f4"), (0.5,)),
        (np.array(["2026-01-02"], "M8[D]"), (dt.date(2026, 1, 2),)),
        (np.array([True]), (True,)),
    ],
)
def test_arrays_keep_their_exact_values(values, plain):
    assert parse_dnf(("a", "in", values)) == In("a", plain)


def test_pandas_values():
    pd = pytest.importorskip("pandas")
    assert value_of(pd.Timestamp("2026-01-02 03:04:05.000006")) == dt.datetime(2026, 1, 2, 3, 4, 5, 6)
    assert type(value_of(pd.Timestamp("2026-01-02"))) is dt.datetime
    assert value_of(pd.Timestamp("2026-01-02 00:00:00.000000001")) == pa.scalar(1767312000000000001, pa.timestamp("ns"))
    zoned = value_of(pd.Timestamp("1970-01-01 00:00:00.000000001+02:00"))
    assert zoned == pa.scalar(1 - 7_200 * 10**9, pa.timestamp("ns", "UTC"))
    assert value_of(pd.NaT) is None
    assert value_of(pd.NA) is None
    assert parse_dnf(("a", "in", pd.Series([1, 2]))) == In("a", (1, 2))
    assert parse_dnf(("a", "in", pd.Series(["x", None]))) == In("a", ("x", None))


def test_polars_values():
    pl = pytest.importorskip("polars")
    assert parse_dnf(("a", "in", pl.Series([1, 2]))) == In("a", (1, 2))
    assert parse_dnf(("a", "in", pl.Series(["x", None]))) == In("a", ("x", None))


def test_long_filters():
    assert len(parse_dnf([[("a", "=", i)] for i in range(20_000)]).values) == 20_000
    assert len(parse_dnf([(f"c{i}", "=", i) for i in range(20_000)]).children) == 20_000


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (("a", "!=", 1), NotEqual("a", 1)),
        (("a", "<>", 1), NotEqual("a", 1)),
        (("a", "<", 1), Compare("a", "<", 1)),
        (("a", ">=", np.float32(1.5)), Compare("a", ">=", 1.5)),
        (("a", "NOT IN", [1, None]), NotIn("a", (1, None))),
        (("a", "not in", set()), NotIn("a", ())),
    ],
)
def test_other_comparisons(filters, expected):
    assert parse_dnf(filters) == expected
