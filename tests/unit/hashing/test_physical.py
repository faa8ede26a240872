"""The table of types: what each physical type means under each annotation, and which bytes its values are."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import math
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers.typed_columns import ARROW_TYPES

from parquet_bloom.errors import UnsupportedTypeError
from parquet_bloom.hashing.column_type import (
    ColumnType,
    Kind,
    Order,
    decimal_length,
    decode,
    encode,
    from_arrow,
    from_parquet,
    integer_range,
    is_legacy_ordered,
    is_nan,
    is_ordered,
)

PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
FIXED = {("FIXED_LEN_BYTE_ARRAY", length) for length in (1, 2, 5, 12, 16, 32)}
PHYSICAL_TYPES = [*((physical, None) for physical in PHYSICAL[:-1]), *sorted(FIXED)]


def annotations():
    """(name, LogicalType, where it may stand, what it means there) for every member and parameter that there is."""
    binary = {("BYTE_ARRAY", None)}
    for name, number, kind in (("STRING", 1, Kind.STRING), ("ENUM", 4, Kind.STRING), ("JSON", 12, Kind.STRING)):
        yield name, {number: {}}, binary, {"kind": kind}
    yield "BSON", {13: {}}, binary, {"kind": Kind.BYTES}
    decimals = {("INT32", None), ("INT64", None)} | binary | FIXED
    yield "DECIMAL(5,2)", {5: {1: 2, 2: 5}}, decimals, {"kind": Kind.DECIMAL, "precision": 5, "scale": 2}
    yield "DECIMAL(9,0)", {5: {2: 9}}, decimals, {"kind": Kind.DECIMAL, "precision": 9, "scale": 0}
    yield "DATE", {6: {}}, {("INT32", None)}, {"kind": Kind.DATE}
    for number, unit in enumerate(("ms", "us", "ns"), 1):
        for utc in (True, False):
            shown, parameters = f"({unit}{',UTC' if utc else ''})", {1: utc, 2: {number: {}}}
            time = {("INT32" if unit == "ms" else "INT64", None)}
            yield f"TIME{shown}", {7: parameters}, time, {"kind": Kind.TIME, "unit": unit, "utc": utc}
            stamp = {"kind": Kind.TIMESTAMP, "unit": unit, "utc": utc}
            yield f"TIMESTAMP{shown}", {8: parameters}, {("INT64", None)}, stamp
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            meaning = {"kind": Kind.INTEGER, "bits": bits, "signed": signed}
            where = {("INT64" if bits == 64 else "INT32", None)}
            yield f"{'' if signed else 'U'}INT_{bits}", {10: {1: bits, 2: signed}}, where, meaning
    yield "UUID", {14: {}}, {("FIXED_LEN_BYTE_ARRAY", 16)}, {"kind": Kind.UUID}
    yield "FLOAT16", {15: {}}, {("FIXED_LEN_BYTE_ARRAY", 2)}, {"kind": Kind.FLOAT}
    yield "NULL", {11: {}}, set(PHYSICAL_TYPES), {"kind": Kind.UNKNOWN}


TYPES = [
    from_parquet(physical, length, logical=logical)
    for name, logical, physical_types, _ in annotations()
    if name != "NULL"
    for physical, length in sorted(physical_types, key=str)
] + [from_parquet(physical, 7) for physical in PHYSICAL[1:]]


@pytest.mark.parametrize(("name", "logical", "physical_types", "meaning"), [*annotations()])
def test_every_annotation_on_every_physical_type(name, logical, physical_types, meaning):
    widths = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
    for physical, length in PHYSICAL_TYPES:
        column_type = from_parquet(physical, length, logical=logical)
        assert column_type.physical == physical
        if (physical, length) in physical_types:
            assert {field: getattr(column_type, field) for field in meaning} == meaning
            assert str(column_type) == f"{physical}{f'({length})' if length else ''} {name}"
        else:  # it does not belong there: bytes can be hashed, but no literal is understood
            assert column_type.kind is Kind.UNKNOWN, (physical, length)
        assert column_type.hashable == (physical != "BOOLEAN")
        assert column_type.length == widths.get(physical, length)


def test_old_annotations_mean_what_replaced_them():
    for converted, logical, physical in (
        *((0, {1: {}}, "BYTE_ARRAY"), (4, {4: {}}, "BYTE_ARRAY"), (19, {12: {}}, "BYTE_ARRAY")),
        *((20, {13: {}}, "BYTE_ARRAY"), (6, {6: {}}, "INT32"), (7, {7: {1: True, 2: {1: {}}}}, "INT32")),
        *((8, {7: {1: True, 2: {2: {}}}}, "INT64"), (9, {8: {1: True, 2: {1: {}}}}, "INT64")),
        (10, {8: {1: True, 2: {2: {}}}}, "INT64"),
        *((11 + i, {10: {1: 8 << i, 2: False}}, "INT64" if i == 3 else "INT32") for i in range(4)),
        *((15 + i, {10: {1: 8 << i, 2: True}}, "INT64" if i == 3 else "INT32") for i in range(4)),
    ):
        column_type = from_parquet(physical, converted=converted)
        assert column_type == from_parquet(physical, logical=logical)
        assert str(column_type) == str(from_parquet(physical, logical=logical))
        # The newer one counts where both stand.
        assert from_parquet("INT32", converted=converted, logical={6: {}}).kind is Kind.DATE
    for physical, length in (("INT32", None), ("INT64", None), ("BYTE_ARRAY", None), ("FIXED_LEN_BYTE_ARRAY", 7)):
        assert from_parquet(physical, length, 5, None, 2, 9) == from_parquet(
            physical, length, logical={5: {1: 2, 2: 9}}
        )
        assert from_parquet(physical, length, 5, None, None, 9).scale == 0
    kinds = [Kind.BOOLEAN, *[Kind.INTEGER] * 2, Kind.TIMESTAMP, *[Kind.FLOAT] * 2, *[Kind.BYTES] * 2]
    for physical, kind in zip(PHYSICAL, kinds, strict=True):  # without any
        shown = f"{physical}(5)" if physical == "FIXED_LEN_BYTE_ARRAY" else physical
        assert (from_parquet(physical, 5).kind, str(from_parquet(physical, 5))) == (kind, shown)


def test_annotations_that_mean_nothing_here():
    fixed = "FIXED_LEN_BYTE_ARRAY"
    for arguments in (
        ("INT32", None, None, {16: {}}),  # a member of a later specification
        *(("INT32", None, None, logical) for logical in ({99: {1: 5}}, {6: {}, 10: {}}, {10: {}}, {10: 5})),
        *(("INT32", None, None, {10: {1: bits, 2: True}}) for bits in (24, b"8")),
        *(("INT64", None, None, {8: {1: True, **unit}}) for unit in ({}, {2: {}}, {2: {9: {}}}, {2: 5})),
        ("INT32", None, 21),  # INTERVAL elsewhere
        (fixed, 12, 21),  # INTERVAL: its twelve bytes are not a single value
        *(("INT32", None, 99), ("INT32", None, -1), (fixed, None), (fixed, 0), (fixed, -5, 5, None, 2, 9)),
        # Decimals that cannot be.
        *(("INT32", None, 5, None, *of) for of in ((2, None), (10, 9), (-1, 9), (0, 0), (2**31 - 1, 2**31 - 1))),
        *(("INT32", None, None, {5: of}) for of in ({1: b"2", 2: 9}, {1: 2, 2: 5.0})),
        *((fixed, 2**31 - 1, 5, None, 2, 9), ("BYTE_ARRAY", None, 5, None, 0, 77)),
    ):
        column_type = from_parquet(*arguments)
        assert column_type.kind is Kind.UNKNOWN, arguments
        assert not any(is_ordered(column_type, order) for order in Order)
        assert not is_legacy_ordered(column_type)


def plain_dict(struct_: oracle.Struct) -> dict:
    """A struct of the oracle without its types."""
    return {n: plain_dict(value) if isinstance(value, oracle.Struct) else value for n, (_, value) in struct_.items()}


@pytest.mark.parametrize(
    "arrow_type",
    [
        *(*ARROW_TYPES, pa.bool_(), pa.null(), pa.uuid(), pa.json_(), pa.bool8(), pa.decimal128(38, 38)),
        *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int16())),
    ],
)
def test_arrow_types_are_those_of_a_written_file(arrow_type):
    sink = io.BytesIO()
    storage = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    column = pa.nulls(1, storage)
    if storage is not arrow_type:
        column = pa.ExtensionArray.from_storage(arrow_type, column)
    pq.write_table(pa.table({"c": column}), sink, version="2.6")
    data = sink.getvalue()
    element = oracle.read_struct(data, oracle.footer_start(data))[0].value(2, [1])
    found = {number: element.value(number) if number in element else None for number in (1, 2, 6, 7, 8, 10)}
    logical = None if found[10] is None else plain_dict(found[10])
    column_type = from_parquet(PHYSICAL[found[1]], found[2], found[6], logical, found[7], found[8])
    expected = from_arrow(arrow_type)
    if pa.types.is_signed_integer(storage) and storage.bit_width >= 32:
        for field in ("physical", "kind", "bits"):
            assert getattr(column_type, field) == getattr(expected, field)
    else:
        assert column_type == expected


def test_decimals_take_as_few_bytes_as_pyarrow_gives_them():
    for precision in range(1, 77):
        length, largest = decimal_length(precision), 10**precision - 1
        assert -(1 << 8 * length - 1) <= -largest <= largest < 1 << 8 * length - 1
        assert length == 1 or largest >= 1 << 8 * (length - 1) - 1
        assert from_arrow((pa.decimal128 if precision <= 38 else pa.decimal256)(precision, 0)).length == length


def test_arrow_types_without_an_encoding():
    int32 = pa.int32()
    for arrow_type in (
        *(pa.list_(int32), pa.large_list(int32), pa.list_(int32, 3), pa.map_(pa.string(), int32)),
        *(pa.struct([("a", int32)]), pa.month_day_nano_interval(), pa.dense_union([pa.field("a", int32)])),
        *(pa.decimal128(5, -2), pa.decimal128(3, 4)),
    ):
        with pytest.raises(UnsupportedTypeError):
            from_arrow(arrow_type)


# ------------------------------------------------------------------------------------------------------------
# Values and bytes
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column_type", TYPES)
def test_encoding_and_back(column_type):

    def some_values(column_type: ColumnType) -> list:
        """Domain values of a type: its ends, around zero, and some between."""
        rng = random.Random(str(column_type))
        if column_type.kind is Kind.FLOAT:
            width = {2: "<e", 4: "<f", 8: "<d"}[column_type.length]
            drawn = [rng.uniform(-1000, 1000) for _ in range(30)] + [math.inf, -math.inf, 0.5, 1.0]
            return [struct.unpack(width, struct.pack(width, value))[0] for value in drawn]
        if column_type.kind in (Kind.STRING, Kind.BYTES, Kind.UUID):
            return [rng.randbytes(column_type.length or rng.randrange(40)) for _ in range(30)]
        low, high = integer_range(column_type)
        ends = [low, low + 1, high - 1, high, -1 if column_type.signed else 1, 0, 1]
        return ends + [rng.randint(low, high) for _ in range(30)]

    for value in some_values(column_type):
        forms = encode(value, column_type)
        assert {decode(form, column_type) for form in forms} == {value}
        assert len(set(forms)) == len(forms)
        if column_type.kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY":
            shortest = oracle.stored(decimal.Decimal(value), "BYTE_ARRAY", scale=0)
            assert forms[0] == shortest
            assert [len(form) for form in forms] == list(range(len(shortest), 33))
        elif value == 0 and column_type.kind is Kind.FLOAT:
            assert len(forms) == 2
        elif column_type.physical == "INT96":
            assert forms[0] == oracle.plain_encode(value, "INT96")
            assert 2 <= len(forms) <= 3  # of the first and the last day there are two
        elif column_type.kind is Kind.FLOAT and column_type.length == 2:
            assert forms == [struct.pack("<e", value)]
        else:
            assert forms == [oracle.plain_encode(value, column_type.physical, column_type.length)]
    for length in range(40) if column_type.length is not None else ():
        assert (decode(bytes(length), column_type) is None) == (length != column_type.length)


def test_zeros_nan_int96_and_booleans():
    for physical, length, width in (("FLOAT", None, "<f"), ("DOUBLE", None, "<d"), ("FIXED_LEN_BYTE_ARRAY", 2, "<e")):
        column_type = from_parquet(physical, length, logical={15: {}} if length else None)
        assert column_type.signed_zero
        for zero in (0.0, -0.0):
            assert set(encode(zero, column_type)) == {struct.pack(width, 0.0), struct.pack(width, -0.0)}
        assert is_nan(decode(struct.pack(width, math.nan), column_type))
    assert not is_nan(1.0)
    assert not is_nan(b"nan")
    assert not from_parquet("INT32").signed_zero
    last = dt.datetime(9999, 12, 31, 23, 59, 59)
    for moment in (dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), last):
        nanos = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000
        form = encode(nanos, from_parquet("INT96"))[0]
        assert form == oracle.plain(moment, "INT96")  # it counts Julian days
        assert len(form) == 12
        assert 0 <= int.from_bytes(form[:8], "little") < 86_400 * 10**9
    assert [decode(form, from_parquet("BOOLEAN")) for form in (b"\0", b"\1", b"", bytes(4))] == [
        False,
        True,
        None,
        None,
    ]
    with pytest.raises(TypeError):
        encode(1.0, from_parquet("INT32"))


def test_which_bounds_count():
    """Each order is that of some types; the deprecated min and max compare as signed numbers, whatever the type."""
    for column_type in (*TYPES, from_parquet("BOOLEAN")):
        assert is_ordered(column_type, Order.TYPE) == (column_type.physical != "INT96")
        assert is_ordered(column_type, Order.INT96_TIMESTAMP) == (column_type.physical == "INT96")
        assert is_ordered(column_type, Order.IEEE_754) == (column_type.kind is Kind.FLOAT)
        assert is_ordered(column_type, Order.UNDECLARED) == is_legacy_ordered(column_type)
        assert not any(is_ordered(column_type, order) for order in (Order.UNSUPPORTED, 4, 77))
        numbers = column_type.physical in ("INT32", "INT64", "FLOAT", "DOUBLE")
        assert is_legacy_ordered(column_type) == (numbers and column_type.signed)
    for arguments, expected in (
        (("INT32", {10: {1: 8, 2: True}}), (-128, 127)),
        (("INT32", {10: {1: 16, 2: False}}), (0, 65535)),
        (("INT64", {10: {1: 64, 2: False}}), (0, 2**64 - 1)),
        (("INT64", {8: {1: True, 2: {2: {}}}}), (-(2**63), 2**63 - 1)),
        (("FIXED_LEN_BYTE_ARRAY", {5: {1: 0, 2: 5}}), (-(2**23), 2**23 - 1)),
    ):
        length = 3 if arguments[0] == "FIXED_LEN_BYTE_ARRAY" else None
        assert integer_range(from_parquet(arguments[0], length, logical=arguments[1])) == expected
