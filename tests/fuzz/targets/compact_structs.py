"""metadata/thrift_compact.pyx over any struct: what is read is what Apache Thrift reads, and is written again."""

from __future__ import annotations

import functools
import struct
from typing import Any

from taking import is_compared
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import thrift_compact as compact

ALLOWED = (MalformedFooterError,)
MAX_INPUT = 512


def run(data: bytes) -> None:
    start = data[0] % 4 if data else 0
    values, end = compact.read_struct(data, min(start, len(data)))
    assert start < end <= len(data)
    plain = [(number, kind_of(value), value) for number, value in values.items() if kind_of(value)]
    again, _ = compact.read_struct(compact.write_struct(plain))
    assert again == {number: value for number, _, value in plain}
    theirs = read_by_thrift(data[start:]) if is_compared(data) else None
    if theirs is not None:
        fields, theirs_end = theirs
        assert theirs_end == end - start
        for number, value in fields.items():
            assert repr(values[number]) == repr(value), number


def kind_of(value: Any) -> int:
    """The type of a value that is written as it was read, wherever that is plain."""
    if isinstance(value, bytes):
        return compact.BINARY
    return compact.I64 if type(value) is int else 0


def read_by_thrift(data: bytes) -> tuple[dict[int, Any], int] | None:
    """Numbers, bytes and doubles of a struct as Apache Thrift reads them; None where it does not."""
    buffer = TMemoryBuffer(data)
    protocol = TCompactProtocol(buffer, string_length_limit=1 << 16, container_length_limit=1 << 10)
    fields: dict[int, Any] = {}
    try:
        protocol.readStructBegin()
        while True:
            _, kind, number = protocol.readFieldBegin()
            if kind == TType.STOP:
                return fields, buffer.cstringio_buf.tell()
            if not -32768 <= number <= 32767:
                return None
            fields.pop(number, None)
            if kind in (TType.I16, TType.I32, TType.I64):
                value = protocol.readI64()
                fields[number] = value
                if not -(1 << 63) <= value < 1 << 63:
                    return None  # more than ten bytes hold, which Python has room for
            elif kind == TType.STRING:
                fields[number] = protocol.readBinary()
            elif kind == TType.DOUBLE:
                fields[number] = protocol.readDouble()
            elif kind == TType.BOOL:
                fields[number] = protocol.readBool()
            else:
                return None  # what is inside of it is not compared
    except (EOFError, struct.error, KeyError, AssertionError, TypeError, ValueError, RecursionError):
        return None
    except Exception as error:
        if type(error).__module__.startswith("thrift."):
            return None
        raise


@functools.cache
def seeds() -> list[bytes]:
    inner = [(1, compact.I64, -1), (40, compact.BINARY, b"text"), (41, compact.STRUCT, [])]
    created = [
        compact.write_struct([(4, compact.I64, 1 << 62), (5, compact.I32, -7), (300, compact.BINARY, b"\x00" * 9)]),
        compact.write_struct([(1, compact.LIST, (compact.STRUCT, [inner, inner])), (2, compact.STRUCT, inner)]),
        compact.write_struct(
            [(1, compact.LIST, (compact.BINARY, [b"a", b"bc"] * 9)), (2, compact.LIST, (compact.I64, [1, 2]))]
        ),
        b"\x11\x12\x13\x05\x17"
        + struct.pack("<d", 1.5)
        + b"\x1d"
        + bytes(16)
        + b"\x1b\x02\x58\x02\x01a\x04\x01b\x1a\x25\x02\x04\x00",
    ]
    return [b"\1" + data for data in created]
