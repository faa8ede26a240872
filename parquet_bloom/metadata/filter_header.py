"""BloomFilterHeader: the few Thrift bytes in front of a bitset.

Source: parquet.thrift, BloomFilterHeader and the unions it names. Each union has one member today; a header with
another is well-formed and unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

from ..errors import BrokenFilterError

ALGORITHMS = {1: "BLOCK"}
HASHES = {1: "XXHASH"}
COMPRESSIONS = {1: "UNCOMPRESSED"}

MAX_HEADER_BYTES = 256
"""More than any header needs (15 to 19 bytes today), with room for fields of a later format."""

_MAX_KNOWN = 1024  # headers that are remembered

_UNIONS = {2: ("algorithm", ALGORITHMS), 3: ("hash", HASHES), 4: ("compression", COMPRESSIONS)}


@dataclass(frozen=True, slots=True)
class FilterHeader:
    """A header as read.

    Attributes
    ----------
    num_bytes : length of the bitset in bytes, as the header says.
    algorithm, hash, compression : the union's member by name, or `unknown (field N)`.
    header_bytes : bytes that the header takes in the file.
    """

    num_bytes: int
    algorithm: str
    hash: str
    compression: str
    header_bytes: int

    @property
    def problem(self) -> str | None:
        """Why a bitset behind this header cannot be used, or None."""
        for what, known in (("algorithm", ALGORITHMS), ("hash", HASHES), ("compression", COMPRESSIONS)):
            value = getattr(self, what)
            if value not in known.values():
                return f"the filter header's {what} is {value}"
        if self.num_bytes < 32:
            return f"the filter header says {self.num_bytes} bytes; a filter has at least 32"
        if self.num_bytes >= 2**31:
            return f"the filter header says {self.num_bytes} bytes; a filter has less than 2 GiB"
        return None


_known: dict[bytes, FilterHeader] = {}  # filters of one size have one header, and its bytes say where they end
_known_lengths: set[int] = set()


def read_header(data: bytes | memoryview) -> FilterHeader:
    """Decode the header at the beginning of `data`.

    Raises
    ------
    BrokenFilterError
        The bytes are not a header, or it lacks a required field.
    """
    data = bytes(data[:MAX_HEADER_BYTES])
    for length in tuple(_known_lengths):
        found = _known.get(data[:length])
        if found is not None:
            return found
    header = _decode(data)
    if len(_known) < _MAX_KNOWN:
        _known[data[: header.header_bytes]] = header
        _known_lengths.add(header.header_bytes)
    return header


def _decode(data: bytes) -> FilterHeader:
    transport = TMemoryBuffer(data)
    protocol = TCompactProtocol(
        transport, string_length_limit=MAX_HEADER_BYTES, container_length_limit=MAX_HEADER_BYTES
    )
    found: dict[str, Any] = {}
    try:
        protocol.readStructBegin()
        while True:
            _, kind, number = protocol.readFieldBegin()
            if kind == TType.STOP:
                break
            if number == 1 and kind == TType.I32:
                found["num_bytes"] = protocol.readI32()
            elif number in _UNIONS and kind == TType.STRUCT:
                name, members = _UNIONS[number]
                found[name] = _read_union(protocol, members)
            else:
                protocol.skip(kind)
            protocol.readFieldEnd()
        protocol.readStructEnd()
    except (TException, EOFError, ValueError, KeyError, IndexError, TypeError, AssertionError, RecursionError) as error:
        raise BrokenFilterError("there is no filter header where the footer says") from error
    missing = [name for name in ("num_bytes", "algorithm", "hash", "compression") if name not in found]
    if missing:
        raise BrokenFilterError(f"the filter header lacks {', '.join(missing)}")
    return FilterHeader(**found, header_bytes=transport._buffer.tell())


def _read_union(protocol: Any, members: dict[int, str]) -> str:
    """The name of the one member that is set."""
    name = "empty"
    protocol.readStructBegin()
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            break
        known = members.get(number) if kind == TType.STRUCT else None
        name = known if known is not None and name == "empty" else f"unknown (field {number})"
        protocol.skip(kind)
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return name


@lru_cache(maxsize=64)
def write_header(num_bytes: int) -> bytes:
    """The header of an uncompressed split-block filter over XXH64 whose bitset has `num_bytes` bytes."""
    transport = TMemoryBuffer()
    protocol = TCompactProtocol(transport)
    protocol.writeStructBegin("BloomFilterHeader")
    protocol.writeFieldBegin("numBytes", TType.I32, 1)
    protocol.writeI32(num_bytes)
    protocol.writeFieldEnd()
    for number, (name, _) in _UNIONS.items():
        protocol.writeFieldBegin(name, TType.STRUCT, number)
        protocol.writeStructBegin(name)
        protocol.writeFieldBegin("", TType.STRUCT, 1)
        protocol.writeStructBegin("")
        protocol.writeFieldStop()
        protocol.writeStructEnd()
        protocol.writeFieldEnd()
        protocol.writeFieldStop()
        protocol.writeStructEnd()
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()
    return bytes(transport.getvalue())
