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

from parquet_bloom.errors import UnsupportedTypeError
from parquet_bloom.hashing.column_type import (
    ColumnType,
    Kind,
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
LENGTHS = (1, 2, 5, 12, 16, 32)
UNITS = {1: "ms", 2: "us", 3: "ns"}


def annotations():
    """(name, LogicalType, where it may stand, what it means there) for every member and parameter that there is."""
    binary = {("BYTE_ARRAY", None)}
    fixed = {("FIXED_LEN_BYTE_ARRAY", length) for length in LENGTHS}
    yield "STRING", {1: {}}, binary, {"kind": Kind.STRING}
    yield "ENUM", {4: {}}, binary, {"kind": Kind.STRING}
    yield "JSON", {12: {}}, binary, {"kind": Kind.STRING}
    yield "BSON", {13: {}}, binary, {"kind": Kind.BYTES}
    decimals = {("INT32", None), ("INT64", None)} | binary | fixed
    yield "DECIMAL(5,2)", {5: {1: 2, 2: 5}}, decimals, {"kind": Kind.DECIMAL, "precision": 5, "scale": 2}
    yield "DECIMAL(9,0)", {5: {2: 9}}, decimals, {"kind": Kind.DECIMAL, "precision": 9, "scale": 0}
    yield "DATE", {6: {}}, {("INT32", None)}, {"kind": Kind.DATE}
    for number, unit in UNITS.items():
        for utc in (True, False):
            shown = f"({unit}{',UTC' if utc else ''})"
            parameters = {1: utc, 2: {number: {}}}
            time = {("INT32" if unit == "ms" else "INT64", None)}
            yield f"TIME{shown}", {7: parameters}, time, {"kind": Kind.TIME, "unit": unit, "utc": utc}
            stamp = {"kind": Kind.TIMESTAMP, "unit": unit, "utc": utc}
            yield f"TIMESTAMP{shown}", {8: parameters}, {("INT64", None)}, stamp
    for bits in (8, 16, 32, 64):
        for signed in (True, False):
            physical_types = {("INT64" if bits == 64 else "INT32", None)}
            meaning = {"kind": Kind.INTEGER, "bits": bits, "signed": signed}
            yield f"{'' if signed else 'U'}INT_{bits}", {10: {1: bits, 2: signed}}, physical_types, meaning
    yield "UUID", {14: {}}, {("FIXED_LEN_BYTE_ARRAY", 16)}, {"kind": Kind.UUID}
    yield "FLOAT16", {15: {}}, {("FIXED_LEN_BYTE_ARRAY", 2)}, {"kind": Kind.FLOAT}
    everywhere = {(physical, None) for physical in PHYSICAL[:-1]} | fixed
    yield "NULL", {11: {}}, everywhere, {"kind": Kind.UNKNOWN}


ANNOTATIONS = list(annotations())
PHYSICAL_TYPES = [(physical, None) for physical in PHYSICAL[:-1]] + [
    ("FIXED_LEN_BYTE_ARRAY", length) for length in LENGTHS
]


@pytest.mark.parametrize(("name", "logical", "physical_types", "meaning"), ANNOTATIONS)
def test_every_annotation_on_every_physical_type(name, logical, physical_types, meaning):
    for physical, length in PHYSICAL_TYPES:
        column_type = from_parquet(physical, length, logical=logical)
        assert column_type.physical == physical
        if (physical, length) in physical_types:
            assert {field: getattr(column_type, field) for field in meaning} == meaning
            width = f"({length})" if length else ""
            assert str(column_type) == f"{physical}{width} {name}"
        else:  # it does not belong there: bytes can be hashed, but no literal is understood
            assert column_type.kind is Kind.UNKNOWN, (physical, length)
        assert column_type.hashable == (physical != "BOOLEAN")
        assert column_type.length == {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}.get(
            physical, length
        )


@pytest.mark.parametrize(
    ("converted", "logical", "physical"),
    [
        (0, {1: {}}, "BYTE_ARRAY"),
        (4, {4: {}}, "BYTE_ARRAY"),
        (6, {6: {}}, "INT32"),
        (7, {7: {1: True, 2: {1: {}}}}, "INT32"),
        (8, {7: {1: True, 2: {2: {}}}}, "INT64"),
        (9, {8: {1: True, 2: {1: {}}}}, "INT64"),
        (10, {8: {1: True, 2: {2: {}}}}, "INT64"),
        (11, {10: {1: 8, 2: False}}, "INT32"),
        (12, {10: {1: 16, 2: False}}, "INT32"),
        (13, {10: {1: 32, 2: False}}, "INT32"),
        (14, {10: {1: 64, 2: False}}, "INT64"),
        (15, {10: {1: 8, 2: True}}, "INT32"),
        (16, {10: {1: 16, 2: True}}, "INT32"),
        (17, {10: {1: 32, 2: True}}, "INT32"),
        (18, {10: {1: 64, 2: True}}, "INT64"),
        (19, {12: {}}, "BYTE_ARRAY"),
        (20, {13: {}}, "BYTE_ARRAY"),
    ],
)
def test_old_annotations_mean_what_replaced_them(converted, logical, physical):
    column_type = from_parquet(physical, converted=converted)
    assert column_type == from_parquet(physical, logical=logical)
    assert str(column_type) == str(from_parquet(physical, logical=logical))
    # The newer one counts where both stand.
    assert from_parquet("INT32", converted=converted, logical={6: {}}).kind is Kind.DATE


def test_old_decimals():
    for physical, length in (
        ("INT32", None),
        ("INT64", None),
        ("BYTE_ARRAY", None),
        ("FIXED_LEN_BYTE_ARRAY", 7),
    ):
        column_type = from_parquet(physical, length, 5, None, 2, 9)
        assert column_type == from_parquet(physical, length, logical={5: {1: 2, 2: 9}})
        assert from_parquet(physical, length, 5, None, None, 9).scale == 0


@pytest.mark.parametrize(
    ("physical", "kind", "shown"),
    [
        ("BOOLEAN", Kind.BOOLEAN, "BOOLEAN"),
        ("INT32", Kind.INTEGER, "INT32"),
        ("INT64", Kind.INTEGER, "INT64"),
        ("INT96", Kind.TIMESTAMP, "INT96"),
        ("FLOAT", Kind.FLOAT, "FLOAT"),
        ("DOUBLE", Kind.FLOAT, "DOUBLE"),
        ("BYTE_ARRAY", Kind.BYTES, "BYTE_ARRAY"),
        ("FIXED_LEN_BYTE_ARRAY", Kind.BYTES, "FIXED_LEN_BYTE_ARRAY(5)"),
    ],
)
def test_without_an_annotation(physical, kind, shown):
    column_type = from_parquet(physical, 5)
    assert (column_type.kind, str(column_type)) == (kind, shown)


@pytest.mark.parametrize(
    "arguments",
    [
        ("INT32", None, None, {16: {}}),  # a member of a later specification
        ("INT32", None, None, {99: {1: 5}}),
        ("INT32", None, None, {6: {}, 10: {}}),  # two members
        ("INT32", None, None, {10: {}}),
        ("INT32", None, None, {10: {1: 24, 2: True}}),
        ("INT32", None, None, {10: {1: b"8", 2: True}}),
        ("INT32", None, None, {10: 5}),
        ("INT64", None, None, {8: {1: True}}),
        ("INT64", None, None, {8: {1: True, 2: {}}}),
        ("INT64", None, None, {8: {1: True, 2: {9: {}}}}),
        ("INT64", None, None, {8: {1: True, 2: 5}}),
        ("INT32", None, 21),  # INTERVAL elsewhere
        ("FIXED_LEN_BYTE_ARRAY", 12, 21),  # INTERVAL: its twelve bytes are not a single value
        ("INT32", None, 99),
        ("INT32", None, -1),
        ("FIXED_LEN_BYTE_ARRAY", None),
        ("FIXED_LEN_BYTE_ARRAY", 0),
        ("FIXED_LEN_BYTE_ARRAY", -5, 5, None, 2, 9),
        ("INT32", None, 5, None, 2, None),  # decimals that cannot be
        ("INT32", None, 5, None, 10, 9),
        ("INT32", None, 5, None, -1, 9),
        ("INT32", None, 5, None, 0, 0),
        ("INT32", None, 5, None, 2**31 - 1, 2**31 - 1),
        ("INT32", None, None, {5: {1: b"2", 2: 9}}),
        ("INT32", None, None, {5: {1: 2, 2: 5.0}}),
        ("FIXED_LEN_BYTE_ARRAY", 2**31 - 1, 5, None, 2, 9),
        ("BYTE_ARRAY", None, 5, None, 0, 77),
    ],
)
def test_annotations_that_mean_nothing_here(arguments):
    column_type = from_parquet(*arguments)
    assert column_type.kind is Kind.UNKNOWN
    assert not is_ordered(column_type)
    assert not is_legacy_ordered(column_type)


# ------------------------------------------------------------------------------------------------------------
# As pyarrow writes them
# ------------------------------------------------------------------------------------------------------------

ARROW = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
    *(
        pa.decimal32(7, 3),
        pa.decimal64(15, 0),
        pa.decimal128(1, 0),
        pa.decimal128(38, 38),
        pa.decimal256(76, 4),
    ),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(1), pa.binary(16), pa.uuid(), pa.json_(), pa.bool8()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int16())),
]


@pytest.mark.parametrize("arrow_type", ARROW)
def test_arrow_types_are_those_of_a_written_file(arrow_type):
    sink = io.BytesIO()
    storage = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    column = pa.nulls(1, storage)
    if storage is not arrow_type:
        column = pa.ExtensionArray.from_storage(arrow_type, column)
    pq.write_table(pa.table({"c": column}), sink, version="2.6")
    data = sink.getvalue()
    element = oracle.read_struct(data, oracle.footer_start(data))[0].value(2, [1])
    column_type = from_parquet(
        PHYSICAL[element.value(1)],
        element.value(2) if 2 in element else None,
        element.value(6) if 6 in element else None,
        plain_dict(element.value(10)) if 10 in element else None,
        element.value(7) if 7 in element else None,
        element.value(8) if 8 in element else None,
    )
    expected = from_arrow(arrow_type)
    if pa.types.is_integer(storage) and storage.bit_width >= 32 and pa.types.is_signed_integer(storage):
        assert (column_type.physical, column_type.kind, column_type.bits) == (
            expected.physical,
            expected.kind,
            expected.bits,
        )
    else:
        assert column_type == expected


def plain_dict(struct_: oracle.Struct) -> dict:
    """A struct of the oracle without its types."""
    return {
        number: plain_dict(value) if isinstance(value, oracle.Struct) else value
        for number, (_, value) in struct_.items()
    }


@pytest.mark.parametrize("precision", range(1, 77))
def test_decimals_take_as_few_bytes_as_pyarrow_gives_them(precision):
    length = decimal_length(precision)
    largest = 10**precision - 1
    assert -(1 << 8 * length - 1) <= -largest
    assert largest < 1 << 8 * length - 1
    assert length == 1 or largest >= 1 << 8 * (length - 1) - 1
    assert from_arrow((pa.decimal128 if precision <= 38 else pa.decimal256)(precision, 0)).length == length


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.list_(pa.int32()),
        pa.large_list(pa.int32()),
        pa.list_(pa.int32(), 3),
        pa.map_(pa.string(), pa.int32()),
        pa.struct([("a", pa.int32())]),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.decimal128(5, -2),
        pa.decimal128(3, 4),
    ],
    ids=str,
)
def test_arrow_types_without_an_encoding(arrow_type):
    with pytest.raises(UnsupportedTypeError):
        from_arrow(arrow_type)


# ------------------------------------------------------------------------------------------------------------
# Values and bytes
# ------------------------------------------------------------------------------------------------------------


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
    return [
        low,
        low + 1,
        high - 1,
        high,
        -1 if column_type.signed else 1,
        0,
        1,
        *(rng.randint(low, high) for _ in range(30)),
    ]


TYPES = [
    from_parquet(physical, length, logical=logical)
    for name, logical, physical_types, _ in ANNOTATIONS
    if name != "NULL"
    for physical, length in sorted(physical_types, key=str)
] + [from_parquet(physical, 7) for physical in PHYSICAL[1:]]


@pytest.mark.parametrize("column_type", TYPES)
def test_encoding_and_back(column_type):
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


@pytest.mark.parametrize("column_type", TYPES)
def test_bytes_of_another_length_are_not_values(column_type):
    if column_type.length is None:
        return
    for length in range(40):
        assert (decode(bytes(length), column_type) is None) == (length != column_type.length)


def test_both_zeros_and_nan():
    for physical, length, width in (
        ("FLOAT", None, "<f"),
        ("DOUBLE", None, "<d"),
        ("FIXED_LEN_BYTE_ARRAY", 2, "<e"),
    ):
        column_type = from_parquet(physical, length, logical={15: {}} if length else None)
        assert column_type.signed_zero
        for zero in (0.0, -0.0):
            assert set(encode(zero, column_type)) == {struct.pack(width, 0.0), struct.pack(width, -0.0)}
        assert is_nan(decode(struct.pack(width, math.nan), column_type))
    assert not is_nan(1.0)
    assert not is_nan(b"nan")
    assert not from_parquet("INT32").signed_zero


@pytest.mark.parametrize(
    "moment",
    [
        dt.datetime(1, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(9999, 12, 31, 23, 59, 59),
    ],
)
def test_int96_counts_julian_days(moment):
    column_type = from_parquet("INT96")
    nanos = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000
    form = encode(nanos, column_type)[0]
    assert form == oracle.plain(moment, "INT96")
    assert len(form) == 12
    assert 0 <= int.from_bytes(form[:8], "little") < 86_400 * 10**9


def test_booleans():
    column_type = from_parquet("BOOLEAN")
    assert (decode(b"\x00", column_type), decode(b"\x01", column_type)) == (False, True)
    assert decode(b"", column_type) is None
    assert decode(bytes(4), column_type) is None


def test_a_float_is_not_taken_for_an_integer():
    with pytest.raises(TypeError):
        encode(1.0, from_parquet("INT32"))


@pytest.mark.parametrize("column_type", [*TYPES, from_parquet("BOOLEAN")])
def test_which_bounds_count(column_type):
    """INT96 has no order; the deprecated min and max compare as signed numbers, whatever the type."""
    assert is_ordered(column_type) == (column_type.physical != "INT96")
    numbers = column_type.physical in ("INT32", "INT64", "FLOAT", "DOUBLE")
    assert is_legacy_ordered(column_type) == (numbers and column_type.signed)


def test_ranges_of_integers():
    assert integer_range(from_parquet("INT32", logical={10: {1: 8, 2: True}})) == (-128, 127)
    assert integer_range(from_parquet("INT32", logical={10: {1: 16, 2: False}})) == (0, 65535)
    assert integer_range(from_parquet("INT64", logical={10: {1: 64, 2: False}})) == (0, 2**64 - 1)
    assert integer_range(from_parquet("INT64", logical={8: {1: True, 2: {2: {}}}})) == (-(2**63), 2**63 - 1)
    assert integer_range(from_parquet("FIXED_LEN_BYTE_ARRAY", 3, logical={5: {1: 0, 2: 5}})) == (
        -(2**23),
        2**23 - 1,
    )
