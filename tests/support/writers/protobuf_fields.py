"""A description of messages that has a field of each kind, single and many, for the tests of the protobuf cursor."""

from __future__ import annotations

from typing import Any

from parquet_bloom.metadata.protobuf import BOOL, BYTES, DOUBLE, INT, MESSAGE, SINT, SPAN, UINT

INNER: dict[int, Any] = {1: ("number", UINT, False, None), 2: ("texts", BYTES, True, None)}
FIELDS: dict[int, Any] = {
    1: ("uint", UINT, False, None),
    2: ("int", INT, False, None),
    3: ("sint", SINT, False, None),
    4: ("bool", BOOL, False, None),
    5: ("double", DOUBLE, False, None),
    6: ("bytes", BYTES, False, None),
    7: ("span", SPAN, False, None),
    8: ("message", MESSAGE, False, INNER),
    9: ("many", SINT, True, None),
    10: ("messages", MESSAGE, True, INNER),
    8000: ("far", BYTES, False, None),
}
