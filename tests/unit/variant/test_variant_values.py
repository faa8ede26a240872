"""Values at paths of Variants, cast: shredded in any way as encoded; what Spark gives for them is in the table."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from support.oracle.variant_twin import paths_of
from support.random_cases.random_documents import draw_document, draw_odd_scalar, draw_scalar, draw_schema
from support.scale import scaled
from support.writers.variant_columns import NULL, Primitive, encode, make_column, make_shredded

from parquet_bloom.errors import ParquetBloomError, UnsupportedTypeError, VariantCastError
from parquet_bloom.variant.variant_path import VariantPath, parse_path
from parquet_bloom.variant.variant_values import extract

BOOL, INT, LONG, FLOAT, DOUBLE = pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64()
MONEY, WIDE, TEXT, BYTES = pa.decimal128(5, 2), pa.decimal128(38, 10), pa.string(), pa.binary()
DAY, STAMP, CLOCK = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")
FAILS, DEPENDS, NO_CAST = object(), object(), object()
PROBLEMS = {
    FAILS: "try_variant_get gives null",
    DEPENDS: "depends on a session's time zone",
    NO_CAST: "there is no cast",
}

# What Spark 4.3 gives; dates and times as numbers.
CASTS: list[tuple[Any, dict[pa.DataType, Any]]] = [
    (
        Primitive("true"),
        {BOOL: True, INT: 1, DOUBLE: 1.0, MONEY: Decimal("1.00"), TEXT: "true", BYTES: FAILS, STAMP: FAILS},
    ),
    (
        Primitive("int16", 300),
        {BOOL: True, pa.int8(): FAILS, INT: 300, FLOAT: 300.0, MONEY: Decimal(300), STAMP: 300_000_000},
    ),
    (
        Primitive("int64", 2**63 - 1),
        {INT: FAILS, LONG: 2**63 - 1, DOUBLE: 2.0**63, MONEY: FAILS, STAMP: FAILS, DAY: FAILS},
    ),
    (Primitive("double", -1.5), {INT: -1, MONEY: Decimal("-1.50"), TEXT: "-1.5", STAMP: -1_500_000, CLOCK: FAILS}),
    (Primitive("double", 2.0**63), {LONG: 2**63 - 1, INT: FAILS, TEXT: "9.223372036854776E18"}),
    (Primitive("double", 2147483647.5), {INT: 2147483647, LONG: 2147483647}),
    (Primitive("double", float("nan")), {BOOL: True, INT: FAILS, LONG: FAILS, MONEY: FAILS, TEXT: "NaN", STAMP: FAILS}),
    (Primitive("float", 1.100000023841858), {TEXT: "1.1", DOUBLE: 1.100000023841858, WIDE: Decimal("1.1000000238")}),
    (Primitive("decimal8", (99_999_995, 3)), {INT: 99_999, MONEY: FAILS, TEXT: "99999.995", STAMP: 99_999_995_000}),
    (Primitive("decimal4", (-5, 3)), {BOOL: True, INT: 0, MONEY: Decimal("-0.01"), DOUBLE: -0.005}),
    (Primitive("decimal4", (1000, 2)), {TEXT: "10", INT: 10, MONEY: Decimal(10)}),
    ("1", {BOOL: True, INT: 1, FLOAT: 1.0, MONEY: Decimal(1), TEXT: "1", BYTES: b"1", STAMP: FAILS, DAY: FAILS}),
    (" 12 ", {BOOL: FAILS, INT: 12, DOUBLE: 12.0, WIDE: Decimal(12), TEXT: " 12 "}),
    ("1.5", {INT: FAILS, DOUBLE: 1.5, MONEY: Decimal("1.50")}),
    ("0.005", {MONEY: Decimal("0.01"), LONG: FAILS}),
    ("999.995", {MONEY: FAILS}),
    ("1e2", {LONG: FAILS, DOUBLE: 100.0, MONEY: Decimal(100)}),
    ("-inf", {DOUBLE: float("-inf"), MONEY: FAILS}),
    ("0x1.8p1", {DOUBLE: 3.0, MONEY: FAILS, LONG: FAILS}),
    ("1d", {DOUBLE: 1.0, WIDE: FAILS}),
    ("9223372036854775808", {LONG: FAILS, DOUBLE: 2.0**63}),
    ("yes", {BOOL: True, INT: FAILS}),
    ("", {BOOL: FAILS, INT: FAILS, DOUBLE: FAILS, MONEY: FAILS, DAY: FAILS, CLOCK: FAILS, TEXT: ""}),
    ("2020-01-02", {DAY: 18_263, CLOCK: 18_263 * 86_400_000_000, STAMP: DEPENDS}),
    ("2020-01-02 abc", {DAY: 18_263, CLOCK: FAILS}),
    ("2020-02-30", {DAY: FAILS, CLOCK: FAILS}),
    ("2020-01-02T03:04:05.123456+01:00", {DAY: 18_263, STAMP: 1_577_930_645_123_456, CLOCK: 1_577_934_245_123_456}),
    ("2020-01-02 03:04:05 Europe/Rome", {STAMP: DEPENDS, CLOCK: DEPENDS}),
    ("12:30", {STAMP: DEPENDS, CLOCK: FAILS}),
    (
        Primitive("date", 18_263),
        {TEXT: "2020-01-02", DAY: 18_263, CLOCK: 18_263 * 86_400_000_000, STAMP: DEPENDS, LONG: FAILS},
    ),
    (
        Primitive("timestamp", -1),
        {LONG: -1, INT: -1, STAMP: -1, TEXT: DEPENDS, DAY: DEPENDS, CLOCK: DEPENDS, BOOL: FAILS},
    ),
    (Primitive("timestamp", 1_500_000), {DOUBLE: 1.5, WIDE: Decimal("1.5"), LONG: 1}),
    (
        Primitive("timestamp_ntz", -1),
        {TEXT: "1969-12-31 23:59:59.999999", DAY: -1, CLOCK: -1, STAMP: DEPENDS, LONG: FAILS},
    ),
    (Primitive("binary", b"ab"), {TEXT: "ab", BYTES: b"ab", INT: FAILS, BOOL: FAILS}),
    (Primitive("binary", b"\xff"), {TEXT: NO_CAST, BYTES: b"\xff"}),
    ([Primitive("int8", 1), "a"], {TEXT: '[1,"a"]', LONG: FAILS, BYTES: FAILS}),
    ({"a": [Primitive("timestamp", 0)]}, {TEXT: DEPENDS}),
    (NULL, dict.fromkeys((BOOL, INT, TEXT, BYTES, DAY, STAMP))),
    (Primitive("time", 1), {pa.time64("us"): 1, TEXT: "00:00:00.000001", LONG: NO_CAST}),
    (Primitive("uuid", bytes(16)), {pa.binary(16): bytes(16), LONG: NO_CAST}),
    (Primitive("timestamp_nanos", 5), {pa.timestamp("ns", "UTC"): 5, STAMP: NO_CAST}),
    ("x", {pa.binary(16): NO_CAST, pa.time64("us"): NO_CAST}),
]


def stored(array: pa.Array) -> list[Any]:
    """Values, of dates and times as numbers: Python has no years from 10,000 on."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date(array.type) else pa.int64())
    return list(array.to_pylist())


@pytest.mark.parametrize(("document", "target", "expected"), [(d, t, e) for d, row in CASTS for t, e in row.items()])
def test_a_cast(document: Any, target: pa.DataType, expected: Any) -> None:
    column = make_column([encode(document)])
    if expected in PROBLEMS:
        with pytest.raises(VariantCastError, match=f"^column 'v': row 0: .*{PROBLEMS[expected]}"):
            extract(column, VariantPath(()), target, try_cast=False, name="v")
    if expected in (DEPENDS, NO_CAST):
        with pytest.raises(VariantCastError):
            extract(column, VariantPath(()), target, try_cast=True)
        return
    array = extract(column, VariantPath(()), target, try_cast=expected is FAILS)
    assert array.type == target
    assert stored(array) == [None if expected is FAILS else expected]


TARGETS = [
    BOOL,
    pa.int8(),
    LONG,
    FLOAT,
    DOUBLE,
    pa.decimal128(9, 2),
    WIDE,
    TEXT,
    pa.large_string(),
    BYTES,
    DAY,
    STAMP,
    CLOCK,
]
TARGETS += [pa.time64("us"), pa.binary(16), pa.timestamp("ns")]


def outcome(column: pa.Array, path: VariantPath, target: pa.DataType, try_cast: bool) -> Any:
    try:
        array = extract(column, path, target, try_cast=try_cast)
    except ParquetBloomError as error:
        return str(error)
    array.validate(full=True)
    return repr(stored(array))  # NaN is like itself


def test_shredded_columns_give_the_same() -> None:
    rng = random.Random(9)
    for _ in range(scaled(10)):
        draws = (draw_document, draw_document, draw_scalar, draw_odd_scalar)
        documents = [rng.choice(draws)(rng) for _ in range(6)] + [None]
        rows = [None if document is None else encode(document, rng) for document in documents]
        schema = draw_schema(rng.choice(documents[:-1]), rng) or TEXT
        plain, shredded = make_column(rows), make_shredded(documents, schema, rng)
        for parts in rng.sample(found := [p for d in documents for p in paths_of(d)], min(6, len(found))):
            for target in rng.sample(TARGETS, 3):
                asked = VariantPath(parts), target, rng.random() < 0.7
                assert outcome(shredded, *asked) == outcome(plain, *asked)
                assert outcome(shredded[2:6], *asked) == outcome(plain[2:6], *asked)


def test_a_column_that_holds_all_values_is_returned_itself() -> None:
    documents = [{"a": {"b": Primitive("int64", number)}, "c": NULL} for number in range(5)]
    schema = pa.struct({"a": pa.struct({"b": LONG})})
    column = make_shredded(documents, schema, random.Random(10))
    leaf = column.field("typed_value").field("a").field("typed_value").field("b").field("typed_value")
    assert leaf.null_count == 0
    array = extract(column, parse_path("a.b"), LONG, try_cast=False)
    assert array.buffers()[1].address == leaf.buffers()[1].address
    assert array.to_pylist() == list(range(5))


def test_a_column_of_another_type_is_cast() -> None:
    """All values are in one column, of another type than the one that is asked for, narrower, wider or a text."""
    documents = [{"a": Primitive("int32", number)} for number in (7, -1, 300)]
    column = make_shredded(documents, pa.struct({"a": INT}), random.Random(2))
    assert column.field("typed_value").field("a").field("typed_value").null_count == 0
    for target, expected in [(LONG, [7, -1, 300]), (pa.int8(), [7, -1, None]), (TEXT, ["7", "-1", "300"])]:
        array = extract(column, parse_path("a"), target, try_cast=True)
        assert (array.type, array.to_pylist()) == (target, expected)


def test_a_planted_residual_is_found() -> None:
    """One row's value is beside the column that the path is shredded to, as another type, and one beside its parent."""
    documents = [{"a": Primitive("int64", 1)}, {"a": "2"}, NULL, None, {"a": NULL}, {"b": NULL}, "x"]
    column = make_shredded(documents, pa.struct({"a": LONG}), random.Random(1))
    assert extract(column, parse_path("a"), LONG, try_cast=False).to_pylist() == [1, 2, *([None] * 5)]
    # An object that is not shredded, though it could be: the column of the path holds all the others.
    in_its_column = {"metadata": b"\1\1\0\1a", "typed_value": {"a": {"typed_value": 1}}}
    rows = [in_its_column, {"metadata": b"\1\1\0\1a", "value": b"\2\1\0\0\2\x0c\3", "typed_value": None}]
    assert extract(pa.array(rows, column.type), parse_path("a"), LONG, try_cast=False).to_pylist() == [1, 3]


def test_rows_are_counted_over_chunks() -> None:
    rows = [encode({"a": Primitive("int8", 1)}), encode({"a": "b" * 200})]
    column = pa.chunked_array([make_column(rows[:1]), make_column(rows[:1]), make_column(rows)])
    with pytest.raises(VariantCastError) as caught:
        extract(column, parse_path("a"), INT, try_cast=False)
    assert str(caught.value).startswith('row 3: "bbb')
    assert str(caught.value).endswith("bbb... cannot be cast to int32; try_variant_get gives null for it")
    assert extract(column, parse_path("a"), INT, try_cast=True).to_pylist() == [1, 1, 1, None]
    assert extract(column, parse_path("$[0]"), INT, try_cast=False).to_pylist() == [None] * 4
    empty = pa.chunked_array([], column.type)
    assert extract(empty, parse_path("a"), WIDE, try_cast=False).to_pylist() == []


@pytest.mark.parametrize(
    "target", [pa.uint8(), pa.timestamp("ms"), pa.decimal256(40, 1), pa.list_(pa.int8()), pa.date64(), pa.null()]
)
def test_other_targets_are_refused(target: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match="cannot be cast to"):
        extract(make_column([encode(NULL)]), VariantPath(()), target, try_cast=True)


def test_many_fields_are_searched_by_halves() -> None:
    names = [f"k{number}" for number in range(300)] + ["\ue000", "😀", "z😀"]
    document = {name: Primitive("int16", number) for number, name in enumerate(names)}
    for seed in range(4):
        column = make_column([encode(document, random.Random(seed))])
        for number in range(0, len(names), 7 if seed else 1):
            assert extract(column, VariantPath((names[number],)), INT, try_cast=False)[0].as_py() == number
        assert extract(column, VariantPath(("k",)), INT, try_cast=False)[0].as_py() is None
