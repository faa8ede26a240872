"""One matrix of columns: every Arrow type that Parquet stores, with values, and the ways in which they are stored."""

from __future__ import annotations

import decimal
import random
import string
from decimal import Decimal
from typing import Any

import pyarrow as pa

ARROW_TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal32(9, 2), pa.decimal64(18, 3), pa.decimal64(15, 0)),
    *(pa.decimal128(1, 0), pa.decimal128(3, 1), pa.decimal128(18, 6), pa.decimal128(38, 10)),
    *(pa.decimal256(40, 5), pa.decimal256(76, 20), pa.decimal256(5, 0)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Kolkata")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(1), pa.binary(7), pa.binary(16)),
]

# The ways in which a file's columns are stored; "deltas" stands for `delta_encodings` of its schema.
FORMATS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "plain": {"use_dictionary": False, "compression": "none", "data_page_size": 500, "write_batch_size": 64},
    "v2": {"data_page_version": "2.0", "data_page_size": 1000, "write_batch_size": 64, "compression": "brotli"},
    "v2 zstd": {"data_page_version": "2.0", "compression": "zstd", "store_schema": False},
    "page index": {"compression": "lz4", "write_page_index": True, "data_page_size": 2000, "write_batch_size": 100},
    "given up": {"dictionary_pagesize_limit": 600, "data_page_size": 700, "write_batch_size": 64},
    "deltas": {"use_dictionary": False, "column_encoding": "deltas", "data_page_size": 1000, "write_batch_size": 64},
    "v2 deltas": {
        "use_dictionary": False,
        "column_encoding": "deltas",
        "data_page_version": "2.0",
        "compression": "gzip",
    },
    "others": {"write_statistics": False, "use_compliant_nested_type": False},
}


def write_options(name: str, schema: pa.Schema) -> dict[str, Any]:
    """Return the options of `pq.write_table` for one of `FORMATS`."""
    options = dict(FORMATS[name])
    if options.get("column_encoding") == "deltas":
        options["column_encoding"] = delta_encodings(schema)
    return options


def delta_encodings(schema: pa.Schema) -> dict[str, str]:
    """Return an encoding other than PLAIN for each flat column, and for lists of flat values."""
    encodings = {}
    for number, field in enumerate(schema):
        is_list = pa.types.is_list(field.type)
        kind = field.type.value_type if is_list else field.type
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        if pa.types.is_boolean(kind):
            encoding = "RLE"
        elif pa.types.is_floating(kind) and not pa.types.is_float16(kind):
            encoding = "BYTE_STREAM_SPLIT"
        elif pa.types.is_integer(kind) or pa.types.is_temporal(kind):
            encoding = ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")[number % 2]
        elif pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind) or pa.types.is_float16(kind):
            encoding = ("DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")[number % 2]
        elif pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
            continue
        else:
            encoding = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")[number % 2]
        encodings[f"{field.name}.list.element" if is_list else field.name] = encoding
    return encodings


def draw_values(arrow_type: pa.DataType, count: int = 90) -> pa.Array:
    """Draw different values of a type, its extremes among them."""
    rng, types = random.Random(str(arrow_type)), pa.types
    values: list[Any]
    if types.is_integer(arrow_type) or types.is_duration(arrow_type):
        bits, signed = arrow_type.bit_width, not types.is_unsigned_integer(arrow_type)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        values = [low, high, 0, 1, *(rng.randint(low, high) for _ in range(count))]
        storage = pa.int64() if types.is_duration(arrow_type) else arrow_type
    elif types.is_floating(arrow_type):
        values = [0.0, 1.5, float("inf"), float("-inf"), *(rng.randrange(-1000, 1000) / 8 for _ in range(count))]
        storage = pa.float64()
    elif types.is_decimal(arrow_type):
        most = 10**arrow_type.precision - 1
        values = [most, -most, 0, 1, -1, *(rng.randint(-most, most) for _ in range(count))]
        values = [Decimal(value).scaleb(-arrow_type.scale, decimal.Context(prec=90)) for value in values]
        storage = arrow_type
    elif types.is_time(arrow_type):
        most = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[arrow_type.unit]
        values = [0, most - 1, *(rng.randrange(most) for _ in range(count))]
        storage = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
    elif types.is_date(arrow_type):
        days = [0, -1, *(rng.randrange(-10_000, 40_000) for _ in range(count))]
        is_wide = arrow_type.bit_width == 64
        values = [day * 86_400_000 for day in days] if is_wide else [-719_162, 2_932_896, *days]
        storage = pa.int64() if is_wide else pa.int32()
    elif types.is_timestamp(arrow_type):
        most = {"s": 253_402_300_799, "ms": 253_402_300_799_999}.get(arrow_type.unit, 2**63 - 1)
        values = [0, -1, most, -most, *(rng.randint(-most, most) for _ in range(count))]
        storage = pa.int64()
    elif types.is_fixed_size_binary(arrow_type):
        values, storage = [rng.randbytes(arrow_type.byte_width) for _ in range(count)], arrow_type
    else:
        alphabet = string.ascii_letters + "äßЖ日本😀"
        values = ["", *("".join(rng.choice(alphabet) for _ in range(rng.randrange(60))) for _ in range(count))]
        storage = arrow_type
    return pa.array([*dict.fromkeys(values)], storage).cast(arrow_type)
