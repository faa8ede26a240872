"""Variant columns of documents, written plainly: encoded with any widths and orders that are valid, and shredded.

A document is a `Primitive`, a str, a list or a dict of documents.
"""

from __future__ import annotations

import decimal
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

NUMBERS = {
    "null": 0,
    "true": 1,
    "false": 2,
    "int8": 3,
    "int16": 4,
    "int32": 5,
    "int64": 6,
    "double": 7,
    "decimal4": 8,
    "decimal8": 9,
    "decimal16": 10,
    "date": 11,
    "timestamp": 12,
    "timestamp_ntz": 13,
    "float": 14,
    "binary": 15,
    "time": 17,
    "timestamp_nanos": 18,
    "timestamp_ntz_nanos": 19,
    "uuid": 20,
}
_SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "date": 4, "decimal4": 4, "decimal8": 8, "decimal16": 16}


@dataclass(frozen=True)
class Primitive:
    """A value of one of the format's types: numbers as stored, decimals as a pair of unscaled value and scale."""

    kind: str
    value: Any = None


NULL = Primitive("null")


def names_in(document: Any) -> set[str]:
    if isinstance(document, dict):
        return set(document).union(*map(names_in, document.values()))
    return set().union(*map(names_in, document)) if isinstance(document, list) else set()


class Encoder:
    """Encodes documents with one dictionary, of widths and orders by chance."""

    def __init__(self, names: Sequence[str], rng: random.Random) -> None:
        self._rng = rng
        names = sorted(set(names), key=str.encode)
        self._is_sorted = rng.random() < 0.5
        if not self._is_sorted:
            rng.shuffle(names)
        self._numbers = {name: number for number, name in enumerate(names)}

    def _width(self, most: int) -> int:
        width = max((most.bit_length() + 7) // 8, 1)
        return width if self._rng.random() < 0.7 else self._rng.randint(width, 4)

    def metadata(self) -> bytes:
        encoded = [name.encode() for name in self._numbers]
        ends = [0]
        for name in encoded:
            ends.append(ends[-1] + len(name))
        width = self._width(max(ends[-1], len(encoded)))
        head = 1 | self._is_sorted << 4 | (width - 1) << 6
        numbers = b"".join(number.to_bytes(width, "little") for number in [len(encoded), *ends])
        return bytes([head]) + numbers + b"".join(encoded)

    def value(self, document: Any) -> bytes:
        if isinstance(document, dict):
            return self._object(document)
        if isinstance(document, list):
            return self._container(3, list(map(self.value, document)), [])
        if isinstance(document, str):
            data = document.encode()
            if len(data) < 64 and self._rng.random() < 0.9:
                return bytes([len(data) << 2 | 1]) + data
            return bytes([16 << 2]) + struct.pack("<I", len(data)) + data
        return bytes([NUMBERS[document.kind] << 2]) + _payload(document)

    def _object(self, fields: dict[str, Any]) -> bytes:
        key = str.encode if self._rng.random() < 0.5 else lambda name: name.encode("utf-16-be")
        names = sorted(fields, key=key)
        return self._container(2, [self.value(fields[name]) for name in names], [self._numbers[name] for name in names])

    def _container(self, basic: int, values: list[bytes], numbers: list[int]) -> bytes:
        order = list(range(len(values)))
        if basic == 2 and self._rng.random() < 0.3:  # values of an object may be in any order
            self._rng.shuffle(order)
        offsets, size = [0] * len(values), 0
        for i in order:
            offsets[i], size = size, size + len(values[i])
        width = self._width(size)
        number_width = self._width(max(numbers, default=0))
        large = len(values) > 255 or self._rng.random() < 0.1
        head = width - 1 | (large << 4 | (number_width - 1) << 2 if basic == 2 else large << 2)
        parts = [bytes([head << 2 | basic]), len(values).to_bytes(4 if large else 1, "little")]
        parts += [number.to_bytes(number_width, "little") for number in numbers]
        parts += [offset.to_bytes(width, "little") for offset in [*offsets, size]]
        return b"".join(parts + [values[i] for i in order])


def _payload(primitive: Primitive) -> bytes:
    kind, value = primitive.kind, primitive.value
    if kind in ("null", "true", "false"):
        return b""
    if kind.startswith("decimal"):
        unscaled, scale = value
        return bytes([scale]) + unscaled.to_bytes(_SIZES[kind], "little", signed=True)
    if kind in ("double", "float"):
        return struct.pack("<d" if kind == "double" else "<f", value)
    if kind == "binary":
        return struct.pack("<I", len(value)) + value
    if kind == "uuid":
        return bytes(value)
    return int(value).to_bytes(_SIZES.get(kind, 8), "little", signed=True)


def encode(document: Any, rng: random.Random | None = None) -> tuple[bytes, bytes]:
    """Return metadata and value of a document."""
    encoder = Encoder(sorted(names_in(document)), rng or random.Random(0))
    return encoder.metadata(), encoder.value(document)


def make_column(rows: Sequence[tuple[bytes, bytes] | None]) -> pa.StructArray:
    """A column that is not shredded, of metadata and value; None is SQL's NULL."""
    fields = [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
    parts = [pa.array([row[i] if row else b"" for row in rows], pa.binary()) for i in range(2)]
    mask = pa.array([row is None for row in rows], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)


# Types that a document's values may be shredded to, by their kind.
LEAVES: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_nanos": pa.timestamp("ns", "UTC"),
    "timestamp_ntz_nanos": pa.timestamp("ns"),
    "time": pa.time64("us"),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
}


def _matches(document: Any, arrow_type: pa.DataType) -> bool:
    if pa.types.is_struct(arrow_type):
        return isinstance(document, dict)
    if pa.types.is_list(arrow_type):
        return isinstance(document, list)
    if isinstance(document, str):
        return arrow_type == pa.string()
    if not isinstance(document, Primitive):
        return False
    if arrow_type == pa.bool_():
        return document.kind in ("true", "false")
    if pa.types.is_decimal(arrow_type):
        kind = "decimal4" if arrow_type.precision < 10 else "decimal8" if arrow_type.precision < 19 else "decimal16"
        return document.kind == kind and document.value[1] == arrow_type.scale
    return LEAVES.get(document.kind) == arrow_type


def shredded_type(schema: pa.DataType | None, top: bool = False) -> pa.DataType:
    """The type of a group that is shredded to a schema: a leaf, a struct or a list of such; None for none."""
    fields = [pa.field("metadata", pa.binary(), False)] if top else []
    fields.append(pa.field("value", pa.binary()))
    if schema is None:
        return pa.struct(fields)
    if pa.types.is_struct(schema):
        typed = pa.struct([pa.field(field.name, shredded_type(field.type), False) for field in schema])
    elif pa.types.is_list(schema):
        typed = pa.list_(pa.field("element", shredded_type(schema.value_type), False))
    else:
        typed = schema
    return pa.struct([*fields, pa.field("typed_value", typed)])


def _shred(document: Any, schema: pa.DataType | None, encoder: Encoder, rng: random.Random) -> dict[str, Any]:
    if schema is None or not _matches(document, schema):
        return {"value": encoder.value(document)}
    if isinstance(document, list):
        return {"typed_value": [_shred(item, schema.value_type, encoder, rng) for item in document]}
    if isinstance(document, dict):
        typed = {
            field.name: _shred(document[field.name], field.type, encoder, rng) if field.name in document else {}
            for field in schema
        }
        rest = {name: value for name, value in document.items() if name not in typed}
        return {"typed_value": typed, "value": encoder.value(rest) if rest or rng.random() < 0.1 else None}
    if rng.random() < 0.1:
        return {"value": encoder.value(document)}  # valid, if not expected
    return {"typed_value": _leaf(document)}


def _leaf(document: Any) -> Any:
    if isinstance(document, str):
        return document
    if document.kind in ("true", "false"):
        return document.kind == "true"
    if document.kind.startswith("decimal"):
        unscaled, scale = document.value
        return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=50))
    return document.value


def make_shredded(documents: Sequence[Any], schema: pa.DataType, rng: random.Random) -> pa.StructArray:
    """A column that is shredded to a schema; None is SQL's NULL."""
    rows = []
    for document in documents:
        encoder = Encoder(sorted(names_in(document)), rng)
        shredded = None if document is None else _shred(document, schema, encoder, rng)
        rows.append(None if shredded is None else {"metadata": encoder.metadata(), **shredded})
    return pa.array(rows, shredded_type(schema, top=True))
