"""metadata/protobuf.pyx: messages, spans and ORC's filters, the messages beside a slow twin."""

from __future__ import annotations

import functools
import struct
from typing import Any

from support.writers import protobuf_fields
from taking import is_compared

from parquet_bloom.errors import MalformedOrcError
from parquet_bloom.metadata import protobuf
from parquet_bloom.metadata.protobuf import BOOL, BYTES, DOUBLE, INT, MESSAGE, SINT, SPAN, UINT
from parquet_bloom.orc import orc_tail

ALLOWED = (MalformedOrcError,)
MAX_INPUT = 512

FIELDS: dict[int, Any] = protobuf_fields.FIELDS | {11: ("reals", DOUBLE, True, None)}
FIELDS[12] = ("self", MESSAGE, False, FIELDS)
OURS = [orc_tail.POSTSCRIPT, orc_tail.FOOTER, orc_tail.STRIPE_FOOTER]


class Refused(Exception):
    """By the twin."""


class Twin:
    """Reference implementation of the reader, slow and plain."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def varint(self, end: int) -> int:
        value = 0
        for i in range(10):
            if self.at >= end:
                raise Refused
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value & ((1 << 64) - 1)
        raise Refused

    def number(self, kind: int, end: int) -> Any:
        if kind == DOUBLE:
            self.at += 8
            if self.at > end:
                raise Refused
            return struct.unpack("<d", self.data[self.at - 8 : self.at])[0]
        value = self.varint(end)
        signed = value - (value >> 63 << 64)
        return {UINT: value, BOOL: value != 0, SINT: value >> 1 ^ -(value & 1), INT: signed}[kind]

    def end_of(self, end: int) -> int:
        inner = self.varint(end) + self.at
        if inner > end:
            raise Refused
        return inner

    def message(self, fields: dict[int, Any], end: int, depth: int = 0) -> dict[str, Any]:
        results: dict[str, Any] = {}
        if depth > 32:
            raise Refused
        while self.at < end:
            tag = self.varint(end)
            number, wire = tag >> 3, tag & 7
            if not 0 < number < 1 << 29 or wire in (3, 4, 6, 7):
                raise Refused
            name, kind, repeated, inner = fields.get(number, ("", 0, False, None))
            if not name:
                if wire == 0:
                    self.varint(end)
                else:
                    self.at = self.end_of(end) if wire == 2 else self.at + (8 if wire == 1 else 4)
                if self.at > end:
                    raise Refused
            elif repeated and kind < BYTES and wire == 2:
                values, last = results.setdefault(name, []), self.end_of(end)
                while self.at < last:
                    values.append(self.number(kind, last))
            else:
                if wire != (1 if kind == DOUBLE else 0 if kind < BYTES else 2):
                    raise Refused
                value: Any
                if kind < BYTES:
                    value = self.number(kind, end)
                else:
                    last = self.end_of(end)
                    start, self.at = self.at, last
                    value = (start, last) if kind == SPAN else self.data[start:last]
                    if kind == MESSAGE:
                        self.at = start
                        value = self.message(inner, last, depth + 1)
                if repeated:
                    results.setdefault(name, []).append(value)
                else:
                    results[name] = value
        return results


def run(data: bytes) -> None:
    kind, data = (data[0], data[1:]) if data else (0, data)
    if kind % 4 == 0:
        same(data, FIELDS, kind >> 5)
    elif kind % 4 == 1:
        same(data, OURS[(kind >> 2) % 3], 0)
    elif kind % 4 == 2:
        for start, end in protobuf.read_spans(data, 1 + (kind >> 5), 0, len(data)).tolist():
            assert 0 < start <= end <= len(data)
    else:
        _, words, utf8 = protobuf.read_bloom_filter(data)
        assert words is None or (words and len(words) % 8 == 0)
        assert len(words or b"") + len(utf8 or b"") <= len(data)


def same(data: bytes, fields: dict[int, Any], start: int) -> None:
    start = min(start, len(data))
    if not is_compared(data):
        protobuf.read_message(data, fields, start)
        return
    try:
        expected = repr(Twin(data, start).message(fields, len(data)))
    except Refused:
        expected = None
    try:
        values = repr(protobuf.read_message(data, fields, start))
    except MalformedOrcError:
        assert expected is None, f"refused, where it is {expected}"
        raise
    assert values == expected, f"{values}, where it is {expected}"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def written(*fields: tuple[int, int | float | bytes]) -> bytes:
    out = bytearray()
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            out += varint(number << 3) + varint(value)
    return bytes(out)


@functools.cache
def seeds() -> list[bytes]:
    inner = written((1, 5), (2, b"a"), (2, b""), (77, b"?"))
    every = written(
        (1, 255), (2, (1 << 64) - 1), (3, 3), (4, 1), (5, 1.5), (6, b"a"), (7, b"bb"), (8, inner), (8000, b"far")
    )
    more = written(
        (9, 1),
        (9, b"\x02\x03\x80\x01"),
        (10, inner),
        (10, b""),
        (11, struct.pack("<2d", 1, 2)),
        (12, written((12, every))),
        (99, 7.0),
    )
    stripe = written((1, 3), (2, 100), (3, 200), (4, 50), (5, 1000))
    column = written((1, 12), (2, b"\1\2"), (3, b"x"), (3, b"y"), (7, written((1, b"k"), (2, b"v"))))
    footer = written(
        (1, 3), (3, stripe), (3, stripe), (4, column), (4, written((1, 4))), (6, 2000), (8, 10000), (12, b"1.9")
    )
    tail = written((1, 100), (2, 1), (3, 1 << 18), (5, 9), (6, 8), (8000, b"ORC"))
    streams = written(
        (1, written((1, 6), (2, 1), (3, 99))), (1, written((1, 8), (2, 1), (3, 300))), (2, written((1, 0), (3, 1)))
    )
    bloom = [
        written((1, 4), (2, bytes(range(16)))),
        written((1, 3), (2, 1.5), (2, 2.5)),
        written((1, 3), (3, bytes(24)), (9, 1)),
    ]
    return [
        *(b"\0" + data for data in (every, more)),
        *(bytes([1 + 4 * i]) + data for i, data in enumerate((tail, footer, streams))),
        bytes([2 + (2 << 5)]) + footer,
        *(b"\3" + data for data in bloom),
    ]
