"""The messages of an ORC file's metadata, as far as they are read. Source: orc_proto.proto of Apache ORC."""

from __future__ import annotations

from typing import Any

from ...metadata.protobuf import BOOL, BYTES, DOUBLE, MESSAGE, SINT, SPAN, UINT

Fields = dict[int, tuple[str, int, bool, Any]]


def _one(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Any]:
    return name, kind, False, inner


def _many(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Any]:
    return name, kind, True, inner


POSTSCRIPT: Fields = {
    1: _one("footer_length", UINT),
    2: _one("compression", UINT),
    3: _one("block_size", UINT),
    5: _one("metadata_length", UINT),
    6: _one("writer_version", UINT),
    8000: _one("magic", BYTES),
}

STRIPE: Fields = {
    1: _one("offset", UINT),
    2: _one("index_length", UINT),
    3: _one("data_length", UINT),
    4: _one("footer_length", UINT),
    5: _one("num_rows", UINT),
}

TYPE: Fields = {
    1: _one("kind", UINT),
    2: _many("children", UINT),
    3: _many("names", BYTES),
    4: _one("length", UINT),
    5: _one("precision", UINT),
    6: _one("scale", UINT),
    7: _many("attributes", MESSAGE, {1: _one("key", BYTES), 2: _one("value", BYTES)}),
}

FOOTER: Fields = {
    3: _many("stripes", MESSAGE, STRIPE),
    4: _many("types", MESSAGE, TYPE),
    6: _one("num_rows", UINT),
    8: _one("row_index_stride", UINT),
    9: _one("writer", UINT),
    10: _one("encryption", SPAN),
    11: _one("calendar", UINT),
    12: _one("software_version", BYTES),
}

STRIPE_FOOTER: Fields = {
    1: _many("streams", MESSAGE, {1: _one("kind", UINT), 2: _one("column", UINT), 3: _one("length", UINT)}),
    2: _many("encodings", MESSAGE, {1: _one("kind", UINT), 3: _one("bloom_encoding", UINT)}),
    3: _one("timezone", BYTES),
    4: _many("encryption", SPAN),
}

COLUMN_STATISTICS: Fields = {
    1: _one("num_values", UINT),
    2: _one("integers", MESSAGE, {1: _one("low", SINT), 2: _one("high", SINT)}),
    3: _one("doubles", MESSAGE, {1: _one("low", DOUBLE), 2: _one("high", DOUBLE), 3: _one("sum", DOUBLE)}),
    4: _one(
        "strings",
        MESSAGE,
        {1: _one("low", BYTES), 2: _one("high", BYTES), 4: _one("lower", BYTES), 5: _one("upper", BYTES)},
    ),
    5: _one("buckets", MESSAGE, {1: _many("counts", UINT)}),
    6: _one("decimals", MESSAGE, {1: _one("low", BYTES), 2: _one("high", BYTES)}),
    7: _one("dates", MESSAGE, {1: _one("low", SINT), 2: _one("high", SINT)}),
    # 1 and 2, in the writer's zone, are not read; neither are 5 and 6, digits below milliseconds.
    9: _one("timestamps", MESSAGE, {3: _one("low", SINT), 4: _one("high", SINT)}),
    10: _one("has_null", BOOL),
}

# Numbers of repeated fields that are read one by one.
METADATA_STRIPE, STRIPE_COLUMN = 1, 1
INDEX_ENTRY, ENTRY_STATISTICS = 1, 2
FILTER_ENTRY = 1
