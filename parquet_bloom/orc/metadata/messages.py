"""The protobuf messages of ORC metadata, with the fields that are read. Source: orc_proto.proto of Apache ORC."""

from __future__ import annotations

from typing import Any

from ...metadata.protobuf import BOOL, BYTES, DOUBLE, MESSAGE, SINT, SPAN, UINT

Fields = dict[int, tuple[str, int, bool, Any]]


def _single(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Any]:
    return name, kind, False, inner


def _repeated(name: str, kind: int, inner: Fields | None = None) -> tuple[str, int, bool, Any]:
    return name, kind, True, inner


POSTSCRIPT: Fields = {
    1: _single("footer_length", UINT),
    2: _single("compression", UINT),
    3: _single("block_size", UINT),
    5: _single("metadata_length", UINT),
    6: _single("writer_version", UINT),
    8000: _single("magic", BYTES),
}

STRIPE: Fields = {
    1: _single("offset", UINT),
    2: _single("index_length", UINT),
    3: _single("data_length", UINT),
    4: _single("footer_length", UINT),
    5: _single("num_rows", UINT),
}

TYPE: Fields = {
    1: _single("kind", UINT),
    2: _repeated("children", UINT),
    3: _repeated("names", BYTES),
    4: _single("length", UINT),
    5: _single("precision", UINT),
    6: _single("scale", UINT),
    7: _repeated("attributes", MESSAGE, {1: _single("key", BYTES), 2: _single("value", BYTES)}),
}

FOOTER: Fields = {
    3: _repeated("stripes", MESSAGE, STRIPE),
    4: _repeated("types", MESSAGE, TYPE),
    6: _single("num_rows", UINT),
    8: _single("row_index_stride", UINT),
    9: _single("writer", UINT),
    10: _single("encryption", SPAN),
    11: _single("calendar", UINT),
    12: _single("software_version", BYTES),
}

STRIPE_FOOTER: Fields = {
    1: _repeated(
        "streams", MESSAGE, {1: _single("kind", UINT), 2: _single("column", UINT), 3: _single("length", UINT)}
    ),
    2: _repeated("encodings", MESSAGE, {1: _single("kind", UINT), 3: _single("bloom_encoding", UINT)}),
    3: _single("timezone", BYTES),
    4: _repeated("encryption", SPAN),
}

COLUMN_STATISTICS: Fields = {
    1: _single("num_values", UINT),
    2: _single("integers", MESSAGE, {1: _single("low", SINT), 2: _single("high", SINT)}),
    3: _single("doubles", MESSAGE, {1: _single("low", DOUBLE), 2: _single("high", DOUBLE), 3: _single("sum", DOUBLE)}),
    4: _single(
        "strings",
        MESSAGE,
        {1: _single("low", BYTES), 2: _single("high", BYTES), 4: _single("lower", BYTES), 5: _single("upper", BYTES)},
    ),
    5: _single("buckets", MESSAGE, {1: _repeated("counts", UINT)}),
    6: _single("decimals", MESSAGE, {1: _single("low", BYTES), 2: _single("high", BYTES)}),
    7: _single("dates", MESSAGE, {1: _single("low", SINT), 2: _single("high", SINT)}),
    # Not read: 1 and 2, in the writer's zone, and 5 and 6, digits below milliseconds.
    9: _single("timestamps", MESSAGE, {3: _single("low", SINT), 4: _single("high", SINT)}),
    10: _single("has_null", BOOL),
}

# Numbers of repeated fields that are read one by one.
METADATA_STRIPE, STRIPE_COLUMN = 1, 1
INDEX_ENTRY, ENTRY_STATISTICS = 1, 2
FILTER_ENTRY = 1
