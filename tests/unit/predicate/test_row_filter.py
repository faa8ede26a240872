"""The exact row filter, compared with plain Python one row at a time."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import PredicateError
from parquet_bloom.hashing.column_type import from_arrow
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.text_keys import parse_keys
from parquet_bloom.predicate.tree import And, Compare, Connective, Equal, In, Leaf, Node, Or, fold

D = decimal.Decimal
NAN = math.nan
EPOCH = dt.datetime(1970, 1, 1)
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def selected(column: pa.Array | pa.ChunkedArray, node: Node, **options: Any) -> list[bool | None]:
    return row_mask(pa.table({"x": column}), node, **options).to_pylist()


# ----------------------------------------------------------------------------- every type, against a row at a time


@dataclass
class Case:
    """An Arrow type, values it stores, literals to look for, and when a value equals a literal."""

    arrow_type: pa.DataType
    values: list[Any]
    literals: list[Any]
    equal: Callable[[Any, Any], bool]


def number_equal(value: Any, literal: Any) -> bool:
    if isinstance(literal, float) and math.isnan(literal):
        return False
    return bool(value == literal)  # Python compares int, float and Decimal exactly


def integers(arrow_type: pa.DataType) -> Case:
    bits, signed = arrow_type.bit_width, pa.types.is_signed_integer(arrow_type)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    values = [low, low + 1, 0, 1, 5, high - 1, high]
    others = [low - 1, high + 1, -1, 2**64, 10**30, 5.0, 5.5, NAN, math.inf, D("5.00"), D("5.5"), D(high)]
    return Case(arrow_type, values, values + others, number_equal)


def floats(arrow_type: pa.DataType) -> Case:
    narrow = {16: np.float16, 32: np.float32, 64: np.float64}[arrow_type.bit_width]
    values = [narrow(v) for v in (0.0, -0.0, NAN, math.inf, -math.inf, 1.5, 0.1, -0.1, 2.0)]

    def equal(value: Any, literal: Any) -> bool:
        with np.errstate(over="ignore"):
            expected_result = float(narrow(float(literal)))
        other = (
            np.isinf(expected_result) or expected_result == 0
        ) and expected_result != literal  # too large, or too small, as DuckDB has it
        return bool((value == expected_result and not other) or (np.isnan(value) and np.isnan(expected_result)))

    return Case(
        arrow_type,
        values,
        [0.0, -0.0, NAN, math.inf, 1.5, 0.1, 1e300, 2, 0, D("0.1"), D("-0.0"), D("-1e300"), 1e-60],
        equal,
    )


def decimals(arrow_type: pa.DataType) -> Case:
    top = D(10**arrow_type.precision - 1).scaleb(-arrow_type.scale, decimal.Context(prec=100))
    values = [D(0), D(1), D("-1.5"), D("1.50"), top, top.copy_negate()]
    literals = [*values, 1, 0, D("1.5000"), D("1.505"), D("1E+3"), D("1E+500"), D("1E-500"), 10**90, NAN, D("-0.00")]
    return Case(arrow_type, values, literals, number_equal)


def texts(arrow_type: pa.DataType) -> Case:
    def equal(value: str, literal: str | bytes) -> bool:
        return value.encode() == (literal.encode() if isinstance(literal, str) else literal)

    return Case(arrow_type, ["", "a", "A", "a ", "ä☃", "a\0"], ["", "a", "ä☃", "a\0", "b", b"a", b"\xff"], equal)


def bytestrings(arrow_type: pa.DataType) -> Case:
    def equal(value: bytes, literal: str | bytes) -> bool:
        return value == (literal.encode() if isinstance(literal, str) else literal)

    values = [b"abc", b"\0\0\0", b"\xff\xfe\xfd"]
    return Case(arrow_type, values, [*values, b"", b"ab", b"abcd", "abc", "ab"], equal)


def uuids(arrow_type: pa.DataType) -> Case:
    def equal(value: bytes, literal: Any) -> bool:
        return value == (literal if isinstance(literal, bytes) else uuid.UUID(str(literal)).bytes)

    ids = [uuid.UUID(int=n) for n in (0, 1, 2**128 - 1)]
    return Case(arrow_type, [i.bytes for i in ids], [*ids, uuid.UUID(int=9), str(ids[1]), ids[1].bytes, b"x"], equal)


def dates(arrow_type: pa.DataType) -> Case:
    scale = 86_400_000 if arrow_type == pa.date64() else 1

    def equal(value: int, literal: Any) -> bool:
        if isinstance(literal, str):
            literal = dt.date.fromisoformat(literal)
        if not isinstance(literal, dt.datetime):
            literal = dt.datetime.combine(literal, dt.time())
        return EPOCH + dt.timedelta(value // scale) == literal

    moments = [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    values = [(moment.toordinal() - EPOCH.toordinal()) * scale for moment in moments]
    literals = [*moments, dt.date(2000, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 1), "1969-12-31"]
    return Case(arrow_type, values, literals, equal)


def times(arrow_type: pa.DataType) -> Case:
    scale = NANOS[arrow_type.unit]

    def equal(value: int, literal: Any) -> bool:
        if isinstance(literal, pa.Scalar):
            return value * scale == literal.value
        if isinstance(literal, str):
            literal = dt.time.fromisoformat(literal)
        return value * scale == (dt.datetime.combine(EPOCH, literal) - EPOCH) // dt.timedelta(microseconds=1) * 1_000

    values = [0, 1, 1_000, 86_400 * 10**9 // scale - 1]
    literals = [dt.time(), dt.time(0, 0, 1), dt.time(0, 0, 0, 1), dt.time(0, 0, 0, 1_000), dt.time(23, 59, 59)]
    literals += [dt.time(23, 59, 59, 999_999), "00:00:01", pa.scalar(1, pa.time64("ns")), dt.time(5)]
    return Case(arrow_type, values, literals, equal)


def timestamps(arrow_type: pa.DataType) -> Case:
    scale, zoned = NANOS[arrow_type.unit], arrow_type.tz is not None

    def equal(value: int, literal: Any) -> bool:
        if isinstance(literal, pa.Scalar):
            return value * scale == literal.value * NANOS[literal.type.unit]
        if not isinstance(literal, dt.datetime):
            literal = dt.datetime.combine(literal, dt.time())
        if literal.tzinfo is not None:
            literal = literal.astimezone(dt.UTC).replace(tzinfo=None)
        return value * scale == (literal - EPOCH) // dt.timedelta(microseconds=1) * 1_000

    values = [0, 1, -1, 1_000, 86_400 * 10**9 // scale, -(2**62) // (10**9 if scale == 10**9 else 1), 2**62 // 10**9]
    literals: list[Any] = [EPOCH, dt.date(1970, 1, 2), EPOCH + dt.timedelta(seconds=1), EPOCH - dt.timedelta(seconds=1)]
    literals += [dt.datetime(1970, 1, 1, 0, 0, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1_000), dt.datetime(1, 1, 1)]
    literals += [pa.scalar(n, pa.timestamp("ns")) for n in (1, -1, 1_000)]
    if zoned:
        literals += [dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))]
        literals += [pa.scalar(n, pa.timestamp("ns", "UTC")) for n in (1, -1)]
    return Case(arrow_type, values, literals, equal)


def booleans() -> Case:
    return Case(pa.bool_(), [True, False], [True, False], lambda value, literal: value is literal)


CASES = [
    *map(integers, (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    *map(floats, (pa.float16(), pa.float32(), pa.float64())),
    *map(decimals, (pa.decimal32(7, 2), pa.decimal64(16, 3), pa.decimal128(38, 10), pa.decimal256(70, 2))),
    *map(texts, (pa.string(), pa.large_string(), pa.string_view())),
    *map(bytestrings, (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))),
    *map(uuids, (pa.uuid(),)),
    *map(dates, (pa.date32(), pa.date64())),
    *map(times, (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
    *(timestamps(pa.timestamp(unit, zone)) for unit in NANOS for zone in (None, "UTC", "Asia/Tokyo")),
    booleans(),
]


def expected(case: Case, value: Any, literals: list[Any]) -> bool | None:
    if not literals:
        return False
    if value is None or None in literals[:1] * (len(literals) == 1):
        return None
    if any(case.equal(value, literal) for literal in literals if literal is not None):
        return True
    return None if any(literal is None for literal in literals) else False


def dictionary(array: pa.Array) -> pa.Array:
    """Dictionary-encoded by hand: duplicates and a null in the dictionary, nulls in the indices."""
    indices = pa.array([None if n % 5 == 4 else n for n in range(len(array))], pa.int16())
    return pa.DictionaryArray.from_arrays(indices, array)


FORMS: list[Callable[[pa.Array], Any]] = [
    lambda array: array,
    lambda array: pa.chunked_array([array[:2], array[2:2], array[2:]], array.type),
    lambda array: pa.concat_arrays([array, array])[len(array) :] if len(array) and not _view(array) else array,
]


def _view(array: pa.Array) -> bool:
    return bool(pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.arrow_type))
@given(st.data())
def test_each_type(case: Case, data: st.DataObject):
    rows = data.draw(st.lists(st.sampled_from([None, *case.values]), max_size=12))
    literals = data.draw(st.lists(st.sampled_from([None, *case.literals]), max_size=5))
    array = data.draw(st.sampled_from(FORMS))(pa.array(rows, case.arrow_type))
    expected_result = [expected(case, row, literals) for row in rows]
    assert selected(array, In("x", tuple(literals))) == expected_result
    for literal in literals[:1]:
        assert selected(array, Equal("x", literal)) == [expected(case, row, [literal]) for row in rows]


@pytest.mark.parametrize("case", CASES)
def test_each_value_is_found_by_its_own_literal(case: Case):
    array = pa.array(case.values, case.arrow_type)
    for literal in case.literals:
        requested = [case.equal(value, literal) for value in case.values]
        assert selected(array, Equal("x", literal)) == requested
    hits = {value for value in case.values for literal in case.literals if case.equal(value, literal)}
    assert len(hits) >= 2  # the cases are not vacuous


@pytest.mark.parametrize("case", CASES[:-1])
def test_encoded_columns(case: Case):
    rows = [*case.values, None, *case.values]
    plain = pa.array(rows, case.arrow_type)
    node = In("x", tuple(case.literals[:3]))
    expected_result = selected(plain, node)
    if not _view(plain):
        encoded = dictionary(plain)
        assert selected(encoded, node) == [None if n % 5 == 4 else result for n, result in enumerate(expected_result)]
        assert (
            selected(encoded[3:], node)
            == [None if n % 5 == 4 else result for n, result in enumerate(expected_result)][3:]
        )
    if not (isinstance(case.arrow_type, pa.BaseExtensionType) or _view(plain)):
        runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(2, 2 * len(rows) + 1, 2), pa.int32()), plain)
        assert selected(runs, node) == [result for result in expected_result for _ in range(2)]


# --------------------------------------------------------------------------------------------------- special values


def test_every_nan_equals_nan():
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 0], np.uint64)
    column = pa.array(bits.view(np.float64))
    assert selected(column, Equal("x", NAN)) == [True] * 4 + [False]
    assert selected(column, In("x", (NAN, 0.0))) == [True] * 5
    assert selected(column, In("x", (1.0, 2.0))) == [False] * 5


def test_null_literals():
    column = pa.array([1, 2, None])
    assert selected(column, Equal("x", None)) == [None] * 3
    assert selected(column, In("x", (1, None))) == [True, None, None]
    assert selected(column, In("x", (None,))) == [None] * 3
    assert selected(column, In("x", ())) == [False] * 3
    assert selected(column, Or((Equal("x", None), Equal("x", 1)))) == [True, None, None]
    assert selected(column, And((Equal("x", None), Equal("x", 1)))) == [None, False, None]


def test_bytes_that_are_not_utf8_match_no_text():
    assert selected(pa.array(["a", "\ufffd"]), Equal("x", b"\xff")) == [False, False]
    assert selected(pa.array(["a"]), Equal("x", "\ud800")) == [False]


def test_zone_of_literals_without_one():
    noon = pa.array([dt.datetime(2026, 7, 1, 10), dt.datetime(2026, 7, 1, 12)], pa.timestamp("us", "UTC"))
    node = Equal("x", dt.datetime(2026, 7, 1, 12))
    assert selected(noon, node) == [False, True]
    assert selected(noon, node, timezone="Europe/Berlin") == [True, False]


def test_nanoseconds_are_not_lost():
    column = pa.array([1_767_312_000_000_000_000 + n for n in range(3)], pa.timestamp("ns"))
    assert selected(column, parse("x = TIMESTAMP '2026-01-02 00:00:00.000000001'")) == [False, True, False]
    assert selected(column, parse([("x", "=", np.datetime64("2026-01-02T00:00:00.000000002"))])) == [False, False, True]
    assert selected(column.cast(pa.timestamp("us"), safe=False), parse("x = TIMESTAMP '2026-01-02'")) == [True] * 3


def test_a_column_of_nulls():
    assert selected(pa.nulls(2), Equal("x", 1)) == [None, None]
    assert selected(pa.nulls(2), In("x", ())) == [False, False]
    assert selected(pa.nulls(2, pa.int64()), Equal("x", 1)) == [None, None]


def test_nothing_to_filter():
    for column in (pa.array([], pa.int64()), pa.chunked_array([], pa.int64()), pa.array([], pa.string_view())):
        literal = 1 if pa.types.is_integer(column.type) else "a"
        answers = row_mask(pa.table({"x": column}), Or((Equal("x", literal), Equal("y", 2))))
        assert answers.type == pa.bool_()
        assert len(answers) == 0


def test_the_mask_filters_a_table():
    table = pa.table({"x": [1, 2, None], "y": ["a", "b", "c"]})
    assert table.filter(row_mask(table, parse("x = 2 OR y = 'c'")))["y"].to_pylist() == ["b", "c"]


# ------------------------------------------------------------------------------------------------ columns and names


def test_a_missing_column_is_null():
    table = pa.table({"x": [1, 2]})
    assert row_mask(table, Equal("y", 1)).to_pylist() == [None, None]
    assert row_mask(table, Equal("x.y", 1)).to_pylist() == [None, None]
    assert row_mask(table, In("y", ())).to_pylist() == [False, False]
    assert row_mask(table, Or((Equal("y", 1), Equal("x", 2)))).to_pylist() == [None, True]
    assert row_mask(table, And((Equal("y", 1), Equal("x", 2)))).to_pylist() == [False, None]


def test_struct_leaves_are_null_where_a_parent_is():
    child = pa.array([1, 2, 3, None, 1], pa.int64())
    inner = pa.StructArray.from_arrays([child], ["c"], mask=pa.array([False, True, False, False, False]))
    outer = pa.StructArray.from_arrays([inner], ["b"], mask=pa.array([False, False, True, False, True]))
    table = pa.table({"a": pa.chunked_array([outer[:2], outer[2:]])})
    assert row_mask(table, In("a.b.c", (1, 2, 3))).to_pylist() == [True, None, None, None, None]
    assert row_mask(table, In("a.b.c", ())).to_pylist() == [False] * 5
    assert row_mask(table, Equal("a.b.missing", 1)).to_pylist() == [None] * 5


def test_names_with_dots():
    one = pa.array([1, 2])
    assert row_mask(pa.table({"a.b": one}), Equal("a.b", 1)).to_pylist() == [True, False]
    nested = pa.StructArray.from_arrays([one], ["b.c"])
    assert row_mask(pa.table({"a": nested}), Equal("a.b.c", 2)).to_pylist() == [False, True]
    dotted = pa.StructArray.from_arrays([one], ["c"])
    assert row_mask(pa.table({"a.b": dotted}), Equal("a.b.c", 2)).to_pylist() == [False, True]
    assert row_mask(pa.table({"a": one, "a.b": one}), parse('"a.b" = 1')).to_pylist() == [True, False]
    assert row_mask(pa.table({"X": one, "x": pa.array([2, 1])}), Equal("x", 1)).to_pylist() == [False, True]


EXTENSION = type(
    "Tagged",
    (pa.ExtensionType,),
    {
        "__init__": lambda self: pa.ExtensionType.__init__(self, pa.struct([("f", pa.int64())]), "tests.tagged"),
        "__arrow_ext_serialize__": lambda self: b"",
        "__arrow_ext_deserialize__": classmethod(lambda cls, storage, serialized: cls()),
    },
)


@pytest.mark.parametrize(
    ("table", "node", "words"),
    [
        (pa.table({"x": [[1]]}), Equal("x", 1), "not a single value"),
        (pa.table({"x": [[1]]}), Equal("x.list.element", 1), "values inside"),
        (pa.table({"x": [{"y": 1}]}), Equal("x", 1), "not a single value"),
        (pa.table({"x": pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64()))}), Equal("x.key_value.key", 1), "inside"),
        (pa.table({"x": EXTENSION().wrap_array(pa.array([{"f": 1}]))}), Equal("x.f", 1), "values inside"),
        (pa.table({"x": EXTENSION().wrap_array(pa.array([{"f": 1}]))}), Equal("x", 1), "not a single value"),
        (pa.table({"a.b": [1], "a": [{"b": 1}]}), Equal("a.b", 1), "several"),
        (pa.Table.from_arrays([pa.array([1])] * 2, ["x", "x"]), Equal("x", 1), "several"),
        (pa.table({"x": [1]}), Equal("x", "01"), "compared exactly"),
        (pa.table({"x": ["1"]}), Equal("x", 1), "compared exactly"),
        (pa.table({"x": ["1"]}), Equal("x", NAN), "NaN"),
        (pa.table({"x": [1]}), In("x", (1, "1.0")), "compared exactly"),
        (pa.table({"x": [True]}), Equal("x", 1), "compared exactly"),
        (pa.table({"x": [1.5]}), Equal("x", True), "compared exactly"),
        (pa.table({"x": pa.array([1], pa.timestamp("us"))}), Equal("x", dt.datetime.now(dt.UTC)), "compared exactly"),
        (pa.table({"x": pa.array([1], pa.date32())}), Equal("x", dt.datetime.now(dt.UTC)), "compared exactly"),
    ],
)
def test_inexact_comparisons_are_errors(table, node, words):
    with pytest.raises(PredicateError, match=words) as caught:
        row_mask(table, node)
    assert caught.value.column == node.column


# ---------------------------------------------------------------------------------------------------- whole predicates

ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 2, 3]),
        st.sampled_from([None, "a", "b", ""]),
        st.sampled_from([None, 0.0, -0.0, NAN, 1.5]),
        st.sampled_from([None, D("1.5"), D("2.50")]),
    ),
    max_size=10,
)
LITERALS = {
    "i": [None, 0, 1, 2, 7, D(1)],
    "s": [None, "a", "", "z"],
    "f": [None, 0.0, -0.0, NAN, 1.5, 0],
    "g.d": [None, D("1.50"), D("2.5"), 3],
}
LEAVES = st.sampled_from(list(LITERALS)).flatmap(
    lambda name: st.one_of(
        st.builds(Equal, st.just(name), st.sampled_from(LITERALS[name])),
        st.builds(In, st.just(name), st.lists(st.sampled_from(LITERALS[name]), max_size=3).map(tuple)),
    )
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from([And, Or]), st.lists(inner, min_size=1, max_size=3)).map(
        lambda made: made[0](tuple(made[1]))
    ),
    max_leaves=8,
)


def row_holds(node: Node, row: dict[str, Any]) -> bool | None:
    def leaf(item: Leaf) -> bool | None:
        value = row[item.column]
        if not item.literals:
            return False
        answers: list[bool | None] = []
        for literal in item.literals:
            if value is None or literal is None:
                answers.append(None)
            else:
                answers.append(value == literal or (value != value and literal != literal))
        return True if True in answers else None if None in answers else False

    def join(connective: Connective, answers: list[bool | None]) -> bool | None:
        decisive = isinstance(connective, Or)
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive

    return fold(node, leaf, join)


@given(ROWS, TREES, st.integers(0, 10))
def test_predicates_against_a_row_at_a_time(rows: list[tuple[Any, ...]], node: Node, cut: int):
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    table = pa.table(
        {
            "i": pa.array(columns[0], pa.int32()),
            "s": pa.chunked_array([columns[1][:cut], columns[1][cut:]], pa.string()),
            "f": pa.array(columns[2], pa.float64()),
            "g": pa.array([{"d": value} for value in columns[3]], pa.struct([("d", pa.decimal128(5, 2))])),
        }
    )
    expected_result = [row_holds(node, dict(zip(LITERALS, row, strict=True))) for row in rows]
    assert row_mask(table, node).to_pylist() == expected_result


@pytest.mark.ci
def test_long_lists_and_deep_trees():
    n = 200_000
    table = pa.table({"i": np.arange(n), "s": [f"id{i}" for i in range(n)]})
    assert row_mask(table, In("i", tuple(range(0, n, 2)))).to_numpy().sum() == n / 2
    assert row_mask(table, In("s", tuple(f"id{i}" for i in range(0, n, 2)))).to_numpy().sum() == n / 2
    node: Node = Equal("i", 0)
    for i in range(3_000):
        node = (And if i % 2 else Or)((Equal("i", i), node))
    assert row_mask(table.slice(0, 10), node).to_pylist().count(True) in range(11)


@pytest.mark.parametrize(
    ("values", "value", "expected"),
    [
        (pa.array(["a"]), uuid.uuid4(), "a string"),
        (pa.array(["a"]), 5, "a string"),
        (pa.array([b"a"]), 5, "bytes or a string"),
        (pa.array([1]), "1.0", "an integer"),
        (pa.array([1], pa.uint8()), True, "an integer"),
        (pa.array([1.5]), "1.5", "a number such as 1.5"),
        (pa.array([decimal.Decimal("1.5")]), "1.5", "a number such as 1.50"),
        (pa.array([True]), 1, "true or false"),
        (pa.array([bytes(16)], pa.uuid()), "1", "a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
        (pa.array([1], pa.date32()), "1.1.2026", "a date such as 2026-01-31"),
        (pa.array([1], pa.time32("s")), "noon", "a time such as 12:30:15.25"),
        (pa.array([1], pa.timestamp("us", "UTC")), "now", "a timestamp such as 2026-01-31 12:30:15.25Z"),
        (
            pa.array([1], pa.timestamp("us")),
            dt.datetime.now(dt.UTC),
            "a timestamp without time zone such as 2026-01-31 12:30:15.25",
        ),
    ],
)
def test_what_a_column_can_be_compared_with_is_said_and_true(values, value, expected):
    """The advice is followed by the parser of keys, whose result compares."""
    table = pa.table({"x": values})
    for node in (Equal("x", value), In("x", (value,)), Compare("x", "<", value)):
        if isinstance(node, Compare) and not can_order(values.type):
            continue
        with pytest.raises(PredicateError) as caught:
            row_mask(table, node)
        assert str(caught.value).endswith(f"; give {expected}")
    column_type = from_arrow(values.type)
    _, _, example = expected.partition(" such as ")
    (key,) = parse_keys(
        [(1, example or {"an integer": "1", "true or false": "true"}.get(expected, "text"))], column_type
    )
    row_mask(table, Equal("x", key))


def can_order(arrow_type: pa.DataType) -> bool:
    return not (pa.types.is_boolean(arrow_type) or isinstance(arrow_type, pa.UuidType))
