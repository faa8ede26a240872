"""`<`, `<=`, `>`, `>=`, `<>`, NOT IN and IS NULL, row by row and by statistics of row groups."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import operator
from fractions import Fraction

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.row_filter import ProbeValues, row_mask
from parquet_bloom.predicate.tree import (
    And,
    Compare,
    Equal,
    In,
    IsNotNull,
    IsNull,
    NotEqual,
    NotIn,
    Or,
    negation,
    null_safe_equal,
)

D = decimal.Decimal
NAN, INF = math.nan, math.inf
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

NO_DICTIONARIES = {pa.float16(), pa.decimal32(5, 2)}  # of pyarrow

# Columns, and literals of other types that are compared with their values as exact numbers.
NUMBERS = [
    (
        pa.array([-3, 0, 5, 6, None], pa.int32()),
        [5, D("5.5"), 5.5, -0.5, D("-3"), 2**40, -(2**40), D("1e30"), INF, -INF],
    ),
    (pa.array([0, 2**64 - 1, 7], pa.uint64()), [-1, 2**64 - 1, 2**64, 2**63, D("6.5")]),
    (pa.array([-128, 127, None], pa.int8()), [127, 128, -129, D("126.5")]),
    (
        pa.array([D("-1.25"), D("1.25"), D("9.99"), None], pa.decimal128(5, 2)),
        [1, D("1.25"), D("1.255"), D("-1.251"), 9.5],
    ),
    (pa.array([D("1.25"), D("7")], pa.decimal32(5, 2)), [7, D("1.251")]),
    (pa.array([-1.5, -0.0, 0.0, 2.0, INF, -INF, None]), [0, 2, D("1.5"), 0.0, -0.0, INF, -INF]),
    (pa.array([-1.5, 0.5, 2.0], pa.float32()), [0, 2, D("0.5"), 1.75]),
    (pa.array([-1.5, 0.5, 2.0], pa.float32()).cast(pa.float16()), [0, 2, D("0.5"), 1.75]),
]
MOMENTS = [
    (
        pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None]),
        [dt.date(2020, 1, 2), "2020-01-01", dt.datetime(2020, 1, 1, 12)],
        [dt.date(2020, 1, 2), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)],
    ),
    (
        pa.array([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 1), None], pa.timestamp("s")),
        [dt.datetime(2020, 1, 1, 0, 0, 0, 5), dt.date(2020, 1, 1), "2020-01-01 00:00:01"],
        [dt.datetime(2020, 1, 1, 0, 0, 0, 5), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 1)],
    ),
]


def selected(array: pa.Array, node) -> list[bool | None]:
    return row_mask(pa.table({"x": array}), node).to_pylist()


def exact(value):
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)


@pytest.mark.parametrize(("array", "literals"), NUMBERS)
@pytest.mark.parametrize("sign", OPERATORS)
def test_numbers(array, literals, sign):
    for literal in literals:
        expected = [None if v is None else OPERATORS[sign](exact(v), exact(literal)) for v in array.to_pylist()]
        node = Compare("x", sign, literal)
        for form in (array, array.dictionary_encode()) if array.type not in NO_DICTIONARIES else (array,):
            assert selected(form, node) == expected, literal
        assert selected(array, negation(node)) == [None if v is None else not v for v in expected], literal


@pytest.mark.parametrize(("array", "literals", "meant"), MOMENTS, ids=["dates", "seconds"])
@pytest.mark.parametrize("sign", OPERATORS)
def test_dates_and_times(array, literals, meant, sign):
    def moment(value):
        return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())

    for literal, other in zip(literals, meant, strict=True):
        rows = array.to_pylist()
        expected = [None if v is None else OPERATORS[sign](moment(v), moment(other)) for v in rows]
        assert selected(array, Compare("x", sign, literal)) == expected, literal


def test_texts_are_ordered_by_their_utf8():
    rows = ["", "a", "aa", "b", "ä", "\uffff", "\U00010000", None]
    for array in (pa.array(rows), pa.array(rows, pa.string_view()), pa.array(rows, pa.large_string())):
        for literal in ("", "a", "b", "\uffff", "\U00010000"):
            expected = [None if v is None else v.encode() < literal.encode() for v in rows]
            assert selected(array, Compare("x", "<", literal)) == expected
    rows = [b"\x00", b"\x7f", b"\x80", b"\xff"]
    for array in (pa.array(rows), pa.array(rows, pa.binary(1))):
        assert selected(array, Compare("x", ">", b"\x7f")) == [False, False, True, True]
        assert selected(array, Compare("x", ">=", b"\x7f\x00")) == [False, False, True, True]


@pytest.mark.parametrize("arrow", [pa.float16(), pa.float32(), pa.float64()])
def test_nan_is_above_all_numbers_and_equals_itself(arrow):
    array = pa.array([1.0, NAN, INF, None], pa.float64()).cast(arrow)
    assert selected(array, Compare("x", ">", 1)) == [False, True, True, None]
    assert selected(array, Compare("x", ">=", INF)) == [False, True, True, None]
    assert selected(array, Compare("x", "<", INF)) == [True, False, False, None]
    assert selected(array, Compare("x", "<", NAN)) == [True, False, True, None]
    assert selected(array, Compare("x", "<=", NAN)) == [True, True, True, None]
    assert selected(array, Compare("x", ">", NAN)) == [False, False, False, None]
    assert selected(array, Compare("x", ">=", NAN)) == [False, True, False, None]
    assert selected(array, NotEqual("x", NAN)) == [True, False, True, None]


@pytest.mark.parametrize(
    ("arrow", "literal"),
    [
        (pa.float16(), 65520),
        (pa.float16(), D("1e37")),
        (pa.float32(), 1e39),
        (pa.float32(), 3.41e38),
        (pa.float64(), D("1e400")),
        (pa.float16(), 1e-9),
        (pa.float32(), 5e-324),
        (pa.float64(), D("1e-400")),
    ],
)
def test_out_of_range_floats_are_neither_infinity_nor_zero(arrow, literal):
    values = [1.0, 0.0, -0.0, INF, -INF, NAN, None]
    array = pa.array(values, pa.float64()).cast(arrow)
    for sign, compared in OPERATORS.items():
        for limit in (literal, -literal):
            expected = [
                None if v is None else sign in (">", ">=") if v != v else compared(exact(v), exact(limit))
                for v in values
            ]
            assert selected(array, Compare("x", sign, limit)) == expected, (sign, limit)
    for node, expected in (
        (Equal("x", literal), False),
        (NotEqual("x", -literal), True),
        (In("x", (literal, -literal)), False),
    ):
        assert selected(array, node) == [None if v is None else expected for v in values]
    assert selected(array, In("x", (literal, INF))) == [False, False, False, True, False, False, None]


def test_rows_below_a_decimal_beyond_all_doubles_are_kept(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [-INF, -INF], "zero": [0.0, 0.0]}), path)
    assert parquet_bloom.read_table(path, [("x", "<", D("-1e400"))]).num_rows == 2
    assert parquet_bloom.read_table(path, [("zero", "<", D("1e-400"))]).num_rows == 2


def test_literals_are_prepared_once():
    probes, node = {}, NotIn("x", tuple(range(5000)))
    for _ in range(2):
        assert row_mask(pa.table({"x": [1, 5000, None]}), node, probes=probes).to_pylist() == [False, True, None]
    [(number, name, arrow)] = probes
    assert (number, name, arrow) == (id(node), "x", pa.int64())
    probes[number, name, arrow] = ProbeValues(pa.array([5000]), with_nan=False, targets=None)
    assert row_mask(pa.table({"x": [1, 5000, None]}), node, probes=probes).to_pylist() == [True, False, None]


def test_null_at_every_position():
    array = pa.array([1, 2, None])
    assert selected(array, IsNull("x")) == [False, False, True]
    assert selected(array, IsNotNull("x")) == [True, True, False]
    assert selected(array, NotEqual("x", 1)) == [False, True, None]
    assert selected(array, NotEqual("x", None)) == [None, None, None]
    assert selected(array, Compare("x", "<", None)) == [None, None, None]
    assert selected(array, NotIn("x", (1, None))) == [False, None, None]
    assert selected(array, NotIn("x", (1,))) == [False, True, None]
    assert selected(array, NotIn("x", ())) == [True, True, True]
    assert selected(array, In("x", ())) == [False, False, False]
    assert selected(array, null_safe_equal("x", 1)) == [True, False, False]
    assert selected(array, null_safe_equal("x", None)) == [False, False, True]
    assert selected(array, negation(null_safe_equal("x", 1))) == [False, True, True]
    assert selected(array, Compare("y", "<", 1)) == [None, None, None]  # a column that is not there
    assert selected(array, IsNull("y")) == [True, True, True]


def test_negation_is_its_own_inverse():
    node = Or((And((Compare("a", "<", 1), NotIn("b", (1, None)))), IsNull("c"), Equal("d", 5)))
    assert negation(negation(node)) == node
    assert str(negation(node)) == "(a >= 1 OR b IN (1, NULL)) AND c IS NOT NULL AND d <> 5"


@pytest.mark.parametrize(
    ("array", "literal"), [(pa.array([True]), 1), (pa.array(["5"]), 5), (pa.array([1]), "01"), (pa.array([1]), True)]
)
def test_unordered_types_are_refused(array, literal):
    with pytest.raises(PredicateError, match="x"):
        selected(array, Compare("x", "<", literal))


# ---------------------------------------------------------------------------------------------------- row groups


@pytest.fixture
def path(tmp_path):
    """Row groups of 10: id 0 to 9, 10 to 19, 20 to 29 with nulls, all 30."""
    ids = [*range(10), *range(10, 20), *(n if n % 2 else None for n in range(20, 30)), *[30] * 10]
    table = pa.table(
        {"id": ids, "f": pa.array(ids, pa.float64()), "t": [None if n is None else f"t{n:02}" for n in ids]}
    )
    written = tmp_path / "a.parquet"
    pq.write_table(table, written, row_group_size=10, use_dictionary=False)
    parquet_bloom.embed(written, ["id"])
    return written


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("id < 10", [0]),
        ("id <= 10", [0, 1]),
        ("id < 0", []),
        ("id > 29", [3]),
        ("id > 30", []),
        ("id >= 29.5", [3]),
        ("id > 1000000000000000000000", []),
        ("id < 1000000000000000000000", [0, 1, 2, 3]),
        ("id BETWEEN 12 AND 13", [1]),
        ("id NOT BETWEEN 0 AND 29", [3]),
        ("id <> 30", [0, 1, 2]),
        ("id NOT IN (30, 31)", [0, 1, 2]),
        ("id NOT IN (30, NULL)", []),
        ("id <> NULL", []),
        ("id < NULL", []),
        ("id NOT IN ()", [0, 1, 2, 3]),
        ("id IS NULL", [2]),
        ("id IS NOT NULL", [0, 1, 2, 3]),
        ("NOT (id IS NULL OR id < 15)", [1, 2, 3]),
        ("t < 't10'", [0]),
        ("t >= 't3'", [3]),
        ("f < 10", [0]),
        ("f > 29", [0, 1, 2, 3]),  # NaN would be above, and minimum and maximum leave it out
        ("f <> 30", [0, 1, 2, 3]),
        ("id = 5 OR id > 29", [0, 3]),
        ("id <=> 5", [0]),
        ("id IS DISTINCT FROM 30", [0, 1, 2]),
        ("id < 5 AND t > 't2'", []),
    ],
)
def test_row_groups(path, where, groups):
    report = parquet_bloom.prune(path, where)
    assert report.selected[str(path)] == groups
    result = parquet_bloom.read_table(path, where)
    table = pq.read_table(path)
    assert result.equals(table.filter(row_mask(table, parse(where))))
