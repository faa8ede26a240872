"""Avro files of random schemas and records, written plainly, value by value."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

SYNC = b"\x01\x9a\x80\xff" * 4
PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")


class MemoryIO:
    """Stands for pyiceberg's FileIO: one file in memory, whatever its name."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def new_input(self, path: str) -> MemoryIO:
        return self

    def open(self) -> io.BytesIO:
        return io.BytesIO(self._data)


def write_long(number: int) -> bytes:
    bits = (number << 1) ^ (number >> 63)
    result = bytearray()
    while bits >= 0x80:
        result.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*result, bits])


def write_value(schema: Any, value: Any, rng: random.Random) -> bytes:
    """Return a value as Avro stores it; arrays in blocks of any size, some of which say how long they are."""
    if isinstance(schema, list):
        branch = schema.index("null") if value is None else next(i for i, one in enumerate(schema) if one != "null")
        return write_long(branch) + write_value(schema[branch], value, rng)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "null":
        return b""
    if kind == "boolean":
        return bytes([value])
    if kind in ("int", "long"):
        return write_long(value)
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind in ("bytes", "string"):
        data = value.encode() if kind == "string" else value
        return write_long(len(data)) + data
    if kind == "fixed":
        return bytes(value)
    if kind == "record":
        return b"".join(write_value(each["type"], value[each["name"]], rng) for each in schema["fields"])
    result, items = b"", list(value)
    while items:
        size = rng.randint(1, len(items))
        data = b"".join(_write_item(schema, item, rng) for item in items[:size])
        result += rng.choice([write_long(size), write_long(-size) + write_long(len(data))]) + data
        del items[:size]
    return result + write_long(0)


def _write_item(schema: Mapping[str, Any], item: Any, rng: random.Random) -> bytes:
    if schema["type"] == "map":
        return write_value("string", item["key"], rng) + write_value(schema["values"], item["value"], rng)
    return write_value(schema["items"], item, rng)


def write_file(schema: Any, records: Sequence[Any], rng: random.Random, codec: str = "null") -> bytes:
    """Return an Avro file with records in blocks of any size."""
    meta = [
        {"key": "avro.schema", "value": json.dumps(schema).encode()},
        {"key": "avro.codec", "value": codec.encode()},
    ]
    data = b"Obj\x01" + write_value({"type": "map", "values": "bytes"}, meta, rng) + SYNC
    pending = list(records)
    while pending:
        count = rng.choice([1, 1, rng.randint(1, len(pending))])
        content = b"".join(write_value(schema, each, rng) for each in pending[:count])
        content = zlib.compress(content)[2:-4] if codec == "deflate" else content
        data += write_long(count) + write_long(len(content)) + content + SYNC
        del pending[:count]
    return data


def make_schema(rng: random.Random) -> dict[str, Any]:
    """Return a random schema of records, with a field that takes bytes."""
    names = iter(range(10**6))
    fields = [_make_field(rng, names, 0) for _ in range(rng.randint(0, 6))]
    return {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long", "field-id": 0}, *fields]}


def _make_field(rng: random.Random, names: Any, depth: int) -> dict[str, Any]:
    number = next(names) + 1
    return {"name": f"f{number}", "type": _make_type(rng, names, depth), "field-id": number}


def _make_type(rng: random.Random, names: Any, depth: int) -> Any:
    kind = rng.choice([*PRIMITIVES, "fixed", "null"] + ["record", "array", "map"] * (depth < 3))
    made: Any = kind
    if kind == "fixed":
        made = {"type": "fixed", "name": f"x{next(names)}", "size": rng.choice([1, 4, 16])}
    elif kind == "record":
        parts = [_make_field(rng, names, depth + 1) for _ in range(rng.randint(1, 3))]
        made = {"type": "record", "name": f"x{next(names)}", "fields": parts}
    elif kind == "array":
        made = {"type": "array", "items": _make_item(rng, names, depth + 1)}
    elif kind == "map":
        made = {"type": "map", "values": _make_type(rng, names, depth + 1)}
    elif rng.random() < 0.2 and kind != "null":
        made = {"type": kind}
    if kind != "null" and rng.random() < 0.4:
        return ["null", made] if rng.random() < 0.7 else [made, "null"]
    return made


def _make_item(rng: random.Random, names: Any, depth: int) -> Any:
    """Return a type whose values take bytes."""
    made = _make_type(rng, names, depth)
    simple = {"type": "record", "name": f"x{next(names)}", "fields": [_make_field(rng, names, depth)]}
    simple["fields"].append({"name": "n", "type": "int", "field-id": 10**6 + next(names)})
    return simple if made == "null" or (isinstance(made, dict) and made["type"] == "record") else made


def make_value(schema: Any, rng: random.Random) -> Any:
    """Return a random value; maps as lists of keys and values."""
    if isinstance(schema, list):
        other = next(one for one in schema if one != "null")
        return None if rng.random() < 0.3 else make_value(other, rng)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return rng.choice([0, -1, 63, 64, -64, -65, 2**bits - 1, -(2**bits), rng.randint(-(2**bits), 2**bits - 1)])
    if kind in ("float", "double"):
        return rng.choice([0.0, -1.5, 0.25, float("inf"), 1024.125])
    if kind in ("bytes", "string"):
        text = "".join(rng.choice("aé\0ü𝄞 ") for _ in range(rng.choice([0, 1, 5, 100])))
        return text if kind == "string" else text.encode()
    if kind == "fixed":
        return rng.randbytes(schema["size"])
    if kind == "record":
        return {each["name"]: make_value(each["type"], rng) for each in schema["fields"]}
    count = rng.choice([0, 0, 1, 3])
    if kind == "map":
        return [{"key": make_value("string", rng), "value": make_value(schema["values"], rng)} for _ in range(count)]
    return [make_value(schema["items"], rng) for _ in range(count)]
