"""BloomFilterHeader: the few Thrift bytes in front of a bitset, and the headers of drafts of the format.

Source: parquet.thrift, BloomFilterHeader and the unions it names. Each union has one member today; a header with
another member is well-formed and unknown. Drafts had three numbers of 4 bytes, or Thrift without the compression field:
they are read only where a variant is named (see `core.bloom.variants`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..core.bloom.variants import FINAL, MASK, MURMUR3, RAW, THRIFT3, THRIFT4, XXH64, Variant
from ..errors import BrokenFilterError
from ..util.lazy import late_module

if TYPE_CHECKING:
    import thrift.protocol.TCompactProtocol as compact
    import thrift.Thrift as thrift
    import thrift.transport.TTransport as transports
else:
    compact, transports = late_module("thrift.protocol.TCompactProtocol"), late_module("thrift.transport.TTransport")
    thrift = late_module("thrift.Thrift")

ALGORITHMS = {1: "BLOCK"}
HASHES = {1: "XXHASH"}
COMPRESSIONS = {1: "UNCOMPRESSED"}

MAX_HEADER_BYTES = 256
"""More than any header needs (15 to 19 bytes today), with room for fields of a later format."""

_MAX_CACHED = 1024  # cached headers

RAW_BYTES = 12
_RAW = struct.Struct("<iii")  # size, then algorithm and hash (or hash and algorithm): 0 either way

UNKNOWN_HASH = "XXHASH or MURMUR3"
"""The hash given by a draft's header, which is the same for both."""

_HASHES = {XXH64: "XXHASH", MURMUR3: "MURMUR3"}
_DRAFT_HASHES = (*_HASHES.values(), UNKNOWN_HASH)

_UNIONS = {2: ("algorithm", ALGORITHMS), 3: ("hash", HASHES), 4: ("compression", COMPRESSIONS)}


@dataclass(frozen=True, slots=True)
class FilterHeader:
    """A decoded header.

    Attributes
    ----------
    num_bytes : length of the bitset in bytes, by the header.
    algorithm, hash, compression : name of the union's member, or `unknown (field N)`.
        A draft's header does not contain its hash: it is taken from the variant under which the header was read.
    header_bytes : size of the header in the file.
    form : thrift4 today; raw or thrift3 in drafts.
    """

    num_bytes: int
    algorithm: str
    hash: str
    compression: str
    header_bytes: int
    form: str = THRIFT4

    @property
    def total_bytes(self) -> int:
        """Bytes of header and bitset."""
        return self.header_bytes + self.num_bytes

    @property
    def problem(self) -> str | None:
        """The reason why a bitset with this header cannot be used, or None."""
        for name, members in (("algorithm", ALGORITHMS), ("hash", HASHES), ("compression", COMPRESSIONS)):
            value = getattr(self, name)
            if value not in members.values() and not (self.form != THRIFT4 and value in _DRAFT_HASHES):
                return f"the filter header's {name} is {value}"
        if self.num_bytes < 32:
            return f"the filter header says {self.num_bytes} bytes; a filter has at least 32"
        if self.num_bytes >= 2**31:
            return f"the filter header says {self.num_bytes} bytes; a filter has less than 2 GiB"
        return None


_header_cache: dict[bytes, FilterHeader] = {}  # filters of one size have one header, and its bytes say where they end
_cached_lengths: set[int] = set()


def read_header(data: bytes | memoryview, variant: Variant = FINAL) -> FilterHeader:
    """Decode the header at the beginning of `data`.

    Raises
    ------
    BrokenFilterError
        The bytes are not a header of the variant, or it lacks a required field.
    """
    if variant != FINAL:
        return _check_variant(read_any(data), variant)
    data = bytes(data[:MAX_HEADER_BYTES])
    for length in tuple(_cached_lengths):
        cached = _header_cache.get(data[:length])
        if cached is not None:
            return cached
    header = _decode(data)
    if len(_header_cache) < _MAX_CACHED:
        _header_cache[data[: header.header_bytes]] = header
        _cached_lengths.add(header.header_bytes)
    return header


def read_any(data: bytes | memoryview) -> FilterHeader:
    """Decode a header of any form, determined from its bytes: Thrift begins with 0x15, a raw one with a power of two.

    Raises
    ------
    BrokenFilterError
        The bytes are not a header of any form.
    """
    data = bytes(data[:MAX_HEADER_BYTES])
    raw = _decode_raw(data)
    if raw is not None:
        return raw
    fields = _read_fields(data)
    if "compression" in fields or len(fields) < 4:
        return _make_header(fields)
    header = _make_header(fields | {"compression": COMPRESSIONS[1], "form": THRIFT3})
    return replace(header, hash=UNKNOWN_HASH) if header.hash in HASHES.values() else header


def _check_variant(header: FilterHeader, variant: Variant) -> FilterHeader:
    if header.form != variant.header:
        raise BrokenFilterError(f"the filter header is {_FORMS[header.form]}; variant {variant} has another")
    if variant.block == MASK and header.num_bytes & (header.num_bytes - 1):
        raise BrokenFilterError(f"header says {header.num_bytes} bytes; variant {variant} has powers of two alone")
    return replace(header, hash=hash_name(header, variant))


def hash_name(header: FilterHeader, variant: Variant) -> str:
    """Return the hash given by a header, or by the variant where the header does not contain it."""
    return _HASHES[variant.hash] if header.hash == UNKNOWN_HASH else header.hash


_FORMS = {RAW: "three raw numbers", THRIFT3: "Thrift that names no compression", THRIFT4: "Thrift of four fields"}


def _decode_raw(data: bytes) -> FilterHeader | None:
    """Decode a raw header; None if there is none. Sizes are powers of two, by the draft and in its writers' files."""
    if len(data) < RAW_BYTES:
        return None
    num_bytes, algorithm, hash = _RAW.unpack_from(data)
    if num_bytes < 32 or num_bytes & (num_bytes - 1) or algorithm or hash:
        return None
    return FilterHeader(num_bytes, ALGORITHMS[1], UNKNOWN_HASH, COMPRESSIONS[1], RAW_BYTES, RAW)


def _decode(data: bytes) -> FilterHeader:
    if _decode_raw(data) is not None:
        raise BrokenFilterError(f"the filter header is three raw numbers{_DRAFTS}")
    fields = _read_fields(data)
    if "compression" not in fields and len(fields) == 4:
        raise BrokenFilterError(f"the filter header lacks compression{_DRAFTS}")
    return _make_header(fields)


_DRAFTS = ": it is a draft's; to read it, name its variant, or 'detect'"


def _read_fields(data: bytes) -> dict[str, Any]:
    """Read the fields of a Thrift header, and its length."""
    transport = transports.TMemoryBuffer(data)
    protocol = compact.TCompactProtocol(
        transport, string_length_limit=MAX_HEADER_BYTES, container_length_limit=MAX_HEADER_BYTES
    )
    fields: dict[str, Any] = {}
    try:
        protocol.readStructBegin()
        while True:
            _, kind, number = protocol.readFieldBegin()
            if kind == thrift.TType.STOP:
                break
            if number == 1 and kind == thrift.TType.I32:
                fields["num_bytes"] = protocol.readI32()
            elif number in _UNIONS and kind == thrift.TType.STRUCT:
                name, members = _UNIONS[number]
                fields[name] = _read_union(protocol, members)
            else:
                protocol.skip(kind)
            protocol.readFieldEnd()
        protocol.readStructEnd()
    except (
        thrift.TException,
        EOFError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AssertionError,
        RecursionError,
    ) as error:
        raise BrokenFilterError("there is no filter header where the footer says") from error
    return fields | {"header_bytes": transport._buffer.tell()}


def _make_header(fields: dict[str, Any]) -> FilterHeader:
    missing = [name for name in ("num_bytes", "algorithm", "hash", "compression") if name not in fields]
    if missing:
        raise BrokenFilterError(f"the filter header lacks {', '.join(missing)}")
    return FilterHeader(**fields)


def _read_union(protocol: compact.TCompactProtocol, members: dict[int, str]) -> str:
    """Read a union and return the name of the member that is set."""
    name = "empty"
    protocol.readStructBegin()
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == thrift.TType.STOP:
            break
        member = members.get(number) if kind == thrift.TType.STRUCT else None
        name = member if member is not None and name == "empty" else f"unknown (field {number})"
        protocol.skip(kind)
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return name


@lru_cache(maxsize=64)
def write_header(num_bytes: int, variant: Variant = FINAL) -> bytes:
    """Encode the header of an uncompressed split-block filter whose bitset has `num_bytes` bytes."""
    if variant.header == RAW:
        return _RAW.pack(num_bytes, 0, 0)
    transport = transports.TMemoryBuffer()
    protocol = compact.TCompactProtocol(transport)
    protocol.writeStructBegin("BloomFilterHeader")
    protocol.writeFieldBegin("numBytes", thrift.TType.I32, 1)
    protocol.writeI32(num_bytes)
    protocol.writeFieldEnd()
    for number, (name, _) in _UNIONS.items():
        if name == "compression" and variant.header == THRIFT3:
            break
        protocol.writeFieldBegin(name, thrift.TType.STRUCT, number)
        protocol.writeStructBegin(name)
        protocol.writeFieldBegin("", thrift.TType.STRUCT, 1)
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
