"""Variants made by hand: documents encoded as the format says, whole or shredded by any schema."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Shredding: TypeAlias = "pa.DataType | Mapping[str, Any] | list[Any] | None"
"""How a place is shredded: to a type, to fields of an object, to an array of elements (in a list), or not at all."""

MISSING = object()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def make_variants(documents: Sequence[object], shredding: Shredding = None) -> pa.StructArray:
    """Return a Variant column; a document that is `MISSING` is a null of the column itself."""
    rows = [None if document is MISSING else _make_row(document, shredding) for document in documents]
    metadata = pa.field("metadata", pa.binary(), nullable=False)
    return pa.array(rows, pa.struct([metadata, *_make_group(shredding)]))


def serialize(document: object) -> bytes:
    """Return a Variant as one piece: its metadata, and its value behind that."""
    row = _make_row(document, None)
    return bytes(row["metadata"] + row["value"])


def _make_group(shredding: Shredding) -> list[pa.Field]:
    if isinstance(shredding, Mapping):
        fields = [pa.field(name, pa.struct(_make_group(inner)), nullable=False) for name, inner in shredding.items()]
        typed: pa.DataType = pa.struct(fields)
    elif isinstance(shredding, list):
        typed = pa.list_(pa.field("element", pa.struct(_make_group(shredding[0])), nullable=False))
    elif shredding is None:
        return [pa.field("value", pa.binary())]
    else:
        typed = shredding
    return [pa.field("value", pa.binary()), pa.field("typed_value", typed)]


def _make_row(document: object, shredding: Shredding) -> dict[str, Any]:
    names = sorted(_list_names(document), key=str.encode)
    texts = [name.encode() for name in names]
    ends = [sum(map(len, texts[:count])) for count in range(len(texts) + 1)]
    metadata = b"\xd1" + struct.pack(f"<{len(ends) + 1}I", len(names), *ends) + b"".join(texts)
    return {"metadata": metadata, **shred(document, shredding, {name: i for i, name in enumerate(names)})}


def _list_names(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_list_names, value.values()))
    return set().union(*map(_list_names, value)) if isinstance(value, list) else set()


def shred(value: object, shredding: Shredding, names: Mapping[str, int]) -> dict[str, Any]:
    """Return the `value` and `typed_value` of a place."""
    if shredding is None:
        return {"value": None if value is MISSING else encode(value, names)}
    if value is MISSING:
        return {"value": None, "typed_value": None}
    if isinstance(shredding, Mapping):
        if not isinstance(value, dict):
            return {"value": encode(value, names), "typed_value": None}
        rest = {name: part for name, part in value.items() if name not in shredding}
        typed: object = {name: shred(value.get(name, MISSING), inner, names) for name, inner in shredding.items()}
        return {"value": encode(rest, names) if rest else None, "typed_value": typed}
    if isinstance(shredding, list):
        if isinstance(value, list):
            return {"value": None, "typed_value": [shred(part, shredding[0], names) for part in value]}
    elif _is_of(value, shredding):
        return {"value": None, "typed_value": value}
    return {"value": encode(value, names), "typed_value": None}


def _is_of(value: object, arrow_type: pa.DataType) -> bool:
    if pa.types.is_integer(arrow_type):
        return type(value) is int and abs(value) < 1 << (arrow_type.bit_width - 1)
    kinds = {pa.string(): str, pa.float64(): float, pa.bool_(): bool, pa.date32(): dt.date}
    return type(value) is kinds.get(arrow_type, dt.datetime)


def encode(value: object, names: Mapping[str, int]) -> bytes:
    """Return the encoded value; offsets and numbers of names have four bytes."""
    if value is None or isinstance(value, bool):
        return bytes([0 if value is None else 4 if value else 8])
    if isinstance(value, int):
        kind, form = next(
            (kind, form) for kind, form, bits in ((3, "b", 7), (4, "h", 15), (5, "i", 31), (6, "q", 63))
            if -(1 << bits) <= value < 1 << bits
        )  # fmt: skip
        return struct.pack(f"<B{form}", kind << 2, value)
    if isinstance(value, float):
        return struct.pack("<Bd", 7 << 2, value)
    if isinstance(value, np.float32):
        return struct.pack("<Bf", 14 << 2, value)
    if isinstance(value, decimal.Decimal):
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return bytes([10 << 2, -exponent]) + number.to_bytes(16, "little", signed=True)
    if isinstance(value, bytes):
        return struct.pack("<BI", 15 << 2, len(value)) + value
    if isinstance(value, dt.datetime):
        is_instant = value.tzinfo is not None
        since = value - (_EPOCH if is_instant else _EPOCH.replace(tzinfo=None))
        return struct.pack("<Bq", (12 if is_instant else 13) << 2, since // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return struct.pack("<Bi", 11 << 2, (value - _EPOCH.date()).days)
    if isinstance(value, str):
        text = value.encode()
        head = bytes([len(text) << 2 | 1]) if len(text) < 64 else struct.pack("<BI", 16 << 2, len(text))
        return head + text
    if isinstance(value, list):
        parts = [encode(part, names) for part in value]
        return struct.pack("<BI", 0b11111, len(parts)) + _join(parts)
    assert isinstance(value, dict)
    fields = sorted(value.items(), key=lambda field: field[0].encode())
    numbers = struct.pack(f"<{len(fields)}I", *(names[name] for name, _ in fields))
    return struct.pack("<BI", 0b1111110, len(fields)) + numbers + _join([encode(part, names) for _, part in fields])


def _join(parts: Sequence[bytes]) -> bytes:
    ends = [sum(map(len, parts[:count])) for count in range(len(parts) + 1)]
    return struct.pack(f"<{len(ends)}I", *ends) + b"".join(parts)
