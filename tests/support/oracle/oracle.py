"""Slow, obviously right twins of what parquet_bloom does fast.

Nothing here imports parquet_bloom: the suite compares the package with this file, so a mistake would have to
be made twice, in two different ways, to stay unseen. The hash is the ``xxhash`` package's; everything else is
plain Python.

Three parts: split block Bloom filters, the plain encoding of values, and the Thrift compact protocol (reader and
writer of arbitrary structs, for looking into footers and for building broken ones).
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

# ------------------------------------------------------------------------------------------------------------
# Filters
# ------------------------------------------------------------------------------------------------------------

SALT = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
BLOCK_BYTES = 32
MIN_BYTES = 32
MAX_BYTES = 128 * 1024 * 1024


def xxh64(data: bytes) -> int:
    """XXH64 with seed 0."""
    return xxhash.xxh64_intdigest(data, seed=0)


def mask(key: int) -> list[int]:
    """Eight words with one bit each, chosen by the low 32 bits of ``key``."""
    low = key & 0xFFFFFFFF
    return [1 << (((low * salt) & 0xFFFFFFFF) >> 27) for salt in SALT]


def block_index(hash64: int, num_blocks: int) -> int:
    """The block of a hash: its high 32 bits, scaled to the number of blocks (multiply-shift)."""
    return ((hash64 >> 32) * num_blocks) >> 32


class OracleFilter:
    """A split block Bloom filter as a list of Python integers.

    A size that is not a multiple of 32 is allowed, since Spark writes such bitsets: the odd bytes at the end belong
    to no block and stay what they were.
    """

    def __init__(self, num_bytes: int, bitset: bytes | None = None):
        if num_bytes < BLOCK_BYTES:
            raise ValueError(f"a filter has a block of 32 bytes at least, not {num_bytes} bytes")
        bitset = bytes(num_bytes) if bitset is None else bytes(bitset)
        if len(bitset) != num_bytes:
            raise ValueError(f"{len(bitset)} bytes given for a filter of {num_bytes}")
        self.num_bytes = num_bytes
        self.num_blocks = num_bytes // BLOCK_BYTES
        complete = self.num_blocks * BLOCK_BYTES
        self.words = list(struct.unpack(f"<{complete // 4}I", bitset[:complete]))
        self.tail = bitset[complete:]

    @classmethod
    def of(cls, num_bytes: int, plain_values: Any) -> OracleFilter:
        """A filter of the given size with every one of the plain-encoded values."""
        new = cls(num_bytes)
        for plain in plain_values:
            new.insert(plain)
        return new

    def insert_hash(self, hash64: int) -> None:
        first = 8 * block_index(hash64, self.num_blocks)
        for i, bit in enumerate(mask(hash64)):
            self.words[first + i] |= bit

    def check_hash(self, hash64: int) -> bool:
        first = 8 * block_index(hash64, self.num_blocks)
        return all(self.words[first + i] & bit for i, bit in enumerate(mask(hash64)))

    def insert(self, plain: bytes) -> None:
        self.insert_hash(xxh64(plain))

    def check(self, plain: bytes) -> bool:
        return self.check_hash(xxh64(plain))

    def to_bytes(self) -> bytes:
        return struct.pack(f"<{len(self.words)}I", *self.words) + self.tail

    def merge(self, other: OracleFilter) -> OracleFilter:
        """A new filter that holds what either holds."""
        if self.num_bytes != other.num_bytes:
            raise ValueError(f"filters of {self.num_bytes} and {other.num_bytes} bytes cannot be merged")
        merged = OracleFilter(self.num_bytes)
        merged.words = [a | b for a, b in zip(self.words, other.words, strict=True)]
        return merged

    def fold(self) -> OracleFilter:
        """A new filter of half the size: neighbours 2i and 2i+1 become block i."""
        if self.num_blocks % 2 or self.tail:
            raise ValueError(f"a filter of {self.num_bytes} bytes cannot be folded")
        folded = OracleFilter(self.num_bytes // 2)
        for block in range(folded.num_blocks):
            for i in range(8):
                folded.words[8 * block + i] = self.words[16 * block + i] | self.words[16 * block + 8 + i]
        return folded

    def popcount(self) -> int:
        return sum(word.bit_count() for word in self.words)

    @property
    def fill(self) -> float:
        """Share of the bits that are set."""
        return self.popcount() / (32 * len(self.words))

    @property
    def fpp(self) -> float:
        """Chance that a random hash finds its eight bits: over the blocks, the mean product of the words' fills."""
        total = 0.0
        for block in range(self.num_blocks):
            words = self.words[8 * block : 8 * block + 8]
            total += math.prod(word.bit_count() / 32 for word in words)
        return total / self.num_blocks


# ------------------------------------------------------------------------------------------------------------
# Sizes
# ------------------------------------------------------------------------------------------------------------


def exact_fpp(ndv: int, num_bytes: int) -> float:
    """False positive probability of ``ndv`` distinct keys in ``num_bytes``: the Poisson mixture, in 40 digits.

    Keys fall into blocks like rain: a block holds i of them with Poisson probability, and then each of its words
    has set the probed bit with probability 1 - (31/32)^i.
    """
    with decimal.localcontext() as context:
        context.prec = 40
        context.Emin, context.Emax = decimal.MIN_EMIN, decimal.MAX_EMAX
        keys_per_block = decimal.Decimal(ndv) / (decimal.Decimal(num_bytes) / BLOCK_BYTES)
        chance = (-keys_per_block).exp()
        missed = decimal.Decimal(1)
        total = decimal.Decimal(0)
        i = 0
        while True:
            total += chance * (1 - missed) ** 8
            if i > keys_per_block and chance < decimal.Decimal("1e-35"):
                return float(total)
            i += 1
            chance *= keys_per_block / i
            missed *= decimal.Decimal(31) / 32


def fpp_float(ndv: int, num_bytes: int) -> float:
    """``exact_fpp`` in floating point, for the searches below (keys a block up to a few hundred)."""
    keys_per_block = ndv * BLOCK_BYTES / num_bytes
    if keys_per_block > 600:  # 1 but for 1e-7, and exp() would leave the range of floats
        return 1.0
    chance, missed, terms, i = math.exp(-keys_per_block), 1.0, [], 0
    while i <= keys_per_block or chance > 1e-25:
        terms.append(chance * (1 - missed) ** 8)
        i += 1
        chance *= keys_per_block / i
        missed *= 31 / 32
    return math.fsum(terms)


def smallest_num_bytes(ndv: int, fpp: float, power_of_two: bool = True) -> int:
    """The smallest size whose exact fpp is at most ``fpp``, looked for one size after the other."""
    num_bytes = MIN_BYTES
    while num_bytes < MAX_BYTES and fpp_float(ndv, num_bytes) > fpp:
        num_bytes = 2 * num_bytes if power_of_two else num_bytes + BLOCK_BYTES
    return num_bytes


# ------------------------------------------------------------------------------------------------------------
# Plain encoding
# ------------------------------------------------------------------------------------------------------------

EPOCH = datetime.datetime(1970, 1, 1)
JULIAN_DAY_OF_EPOCH = 2_440_588
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_encode(value: Any, physical: str, length: int | None = None) -> bytes:
    """The bytes that are hashed for one stored value.

    Parameters
    ----------
    value : int, float, bool or bytes
        What is stored: the unscaled integer of a decimal, days of a date, nanoseconds since the epoch for INT96
        (or its twelve raw bytes). Integers that a signed type cannot hold are taken as unsigned.
    physical : str
        Parquet's physical type.
    length : int, optional
        Width of a FIXED_LEN_BYTE_ARRAY.
    """
    if physical == "BOOLEAN":
        return b"\x01" if value else b"\x00"
    if physical == "INT32":
        return (value & 0xFFFFFFFF).to_bytes(4, "little")
    if physical == "INT64":
        return (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
    if physical == "INT96":
        if isinstance(value, bytes):
            assert len(value) == 12
            return value
        day, nanos = divmod(value, 86_400 * 10**9)
        return struct.pack("<qi", nanos, day + JULIAN_DAY_OF_EPOCH)
    if physical == "FLOAT":
        return struct.pack("<f", value)
    if physical == "DOUBLE":
        return struct.pack("<d", value)
    if physical == "BYTE_ARRAY":
        return bytes(value)
    if physical == "FIXED_LEN_BYTE_ARRAY":
        if isinstance(value, int):
            return value.to_bytes(length, "big", signed=True)
        assert length is None or len(value) == length, (value, length)
        return bytes(value)
    raise ValueError(f"no physical type {physical!r}")


def stored(value: Any, physical: str, *, unit: str | None = None, scale: int | None = None) -> Any:
    """Return the form in which Parquet stores a Python value: see `plain_encode`.

    ``unit`` is the column's time unit (``s``, ``ms``, ``us``, ``ns``), ``scale`` its decimal scale; a float that
    goes into FIXED_LEN_BYTE_ARRAY is a float16, a decimal that goes into BYTE_ARRAY takes as few bytes as it needs.
    """
    if isinstance(value, decimal.Decimal):
        with decimal.localcontext(prec=80):
            unscaled = value.scaleb(scale)
            assert unscaled == unscaled.to_integral_value(), (value, scale)
            number = int(unscaled)
        if physical == "BYTE_ARRAY":
            shortest = (number if number >= 0 else ~number).bit_length() // 8 + 1
            return number.to_bytes(shortest, "big", signed=True)
        return number
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, datetime.datetime):
        naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        micros = (naive - EPOCH) // datetime.timedelta(microseconds=1)
        if physical == "INT96":
            return micros * 1000
        return _rescale(micros, "us", unit)
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if isinstance(value, datetime.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _rescale(seconds * 10**6 + value.microsecond, "us", unit)
    if isinstance(value, float) and physical == "FIXED_LEN_BYTE_ARRAY":
        return struct.pack("<e", value)
    return value


def plain(
    value: Any, physical: str, length: int | None = None, *, unit: str | None = None, scale: int | None = None
) -> bytes:
    """`plain_encode` of what is `stored` for a Python value."""
    return plain_encode(stored(value, physical, unit=unit, scale=scale), physical, length)


def _rescale(number: int, unit: str, target_unit: str) -> int:
    scaled, rest = divmod(number * PER_SECOND[target_unit], PER_SECOND[unit])
    assert rest == 0, (number, unit, target_unit)
    return scaled


# ------------------------------------------------------------------------------------------------------------
# Thrift compact protocol
# ------------------------------------------------------------------------------------------------------------

BOOL = "bool"
I8, I16, I32, I64, DOUBLE = "i8", "i16", "i32", "i64", "double"
BINARY, LIST, SET, MAP, STRUCT, UUID = "binary", "list", "set", "map", "struct", "uuid"
CODES = {I8: 3, I16: 4, I32: 5, I64: 6, DOUBLE: 7, BINARY: 8, LIST: 9, SET: 10, MAP: 11, STRUCT: 12, UUID: 13}
_NAMES = {code: name for name, code in CODES.items()} | {1: BOOL, 2: BOOL}


class Struct(dict):
    """Field id -> (type, value), in the wire's order; ``long_form`` holds ids whose header is spelled out.

    A field whose id does not follow the one before it by 1 to 15 is written in the long form anyway: reorder the
    dict for negative deltas.
    """

    def __init__(self, fields: Any = (), long_form: Any = ()):
        super().__init__(fields)
        self.long_form = set(long_form)

    def value(self, *path: Any) -> Any:
        """The value at a path of field ids, list positions as ``[i]``: ``footer.value(4, [0], 1, [2], 3)``."""
        here: Any = self
        for step in path:
            here = here.items[step[0]] if isinstance(step, list) else here[step][1]
        return here

    def set(self, field_id: int, type_name: str, value: Any) -> None:
        """Set a field; a new one goes where ascending order wants it."""
        if field_id in self:
            self[field_id] = (type_name, value)
            return
        after = [(key, dict.pop(self, key)) for key in [key for key in self if key > field_id]]
        self[field_id] = (type_name, value)
        self.update(after)


@dataclass
class Many:
    """A list or set: the elements' type and the elements."""

    type: str | None
    items: list[Any]
    long_form: bool = False  # spell out a length below 15, too


@dataclass
class Encoded:
    """A value of any type as bytes that are written as they are, right or wrong."""

    data: bytes


@dataclass
class Pairs:
    """A map: the types of keys and values, and the pairs."""

    key_type: str | None
    value_type: str | None
    items: list[tuple[Any, Any]] = field(default_factory=list)


def read_struct(data: bytes, position: int = 0) -> tuple[Struct, int]:
    """Read a struct at ``position``; return it and the position after it."""
    result = Struct()
    previous = 0
    while True:
        head = data[position]
        position += 1
        if head == 0:
            return result, position
        code, delta = head & 15, head >> 4
        if delta:
            field_id = previous + delta
        else:
            field_id, position = _read_zigzag(data, position)
            if 1 <= field_id - previous <= 15:
                result.long_form.add(field_id)
        assert field_id not in result, f"field {field_id} stands twice"
        if code in (1, 2):
            result[field_id] = (BOOL, code == 1)
        else:
            value, position = _read_value(_NAMES[code], data, position)
            result[field_id] = (_NAMES[code], value)
        previous = field_id


def write_struct(fields: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    previous = 0
    for field_id, (type_name, value) in fields.items():
        code = (1 if value else 2) if type_name == BOOL else CODES.get(type_name, 14)  # 14 is not a type
        delta = field_id - previous
        if 1 <= delta <= 15 and field_id not in fields.long_form:
            out.append(delta << 4 | code)
        else:
            out.append(code)
            out += varint(zigzag(field_id))
        if type_name != BOOL:
            out += _write_value(type_name, value)
        previous = field_id
    out.append(0)
    return bytes(out)


def zigzag(number: int) -> int:
    return number * 2 if number >= 0 else -number * 2 - 1


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte, lowest first."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, position


def _read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    number, position = _read_varint(data, position)
    return (number >> 1) ^ -(number & 1), position


def _read_value(type_name: str, data: bytes, position: int) -> tuple[Any, int]:
    if type_name == BOOL:  # an element of a list or map: a byte of its own
        return data[position] == 1, position + 1
    if type_name == I8:
        return struct.unpack_from("<b", data, position)[0], position + 1
    if type_name in (I16, I32, I64):
        return _read_zigzag(data, position)
    if type_name == DOUBLE:
        return struct.unpack_from("<d", data, position)[0], position + 8
    if type_name == UUID:
        return data[position : position + 16], position + 16
    if type_name == BINARY:
        length, position = _read_varint(data, position)
        assert position + length <= len(data)
        return data[position : position + length], position + length
    if type_name in (LIST, SET):
        head = data[position]
        position += 1
        # fastparquet gives empty lists no type.
        length, element, long_form = head >> 4, _NAMES[head & 15] if head else None, False
        if length == 15:
            length, position = _read_varint(data, position)
            long_form = length < 15
        items = []
        for _ in range(length):
            item, position = _read_value(element, data, position)
            items.append(item)
        return Many(element, items, long_form), position
    if type_name == MAP:
        length, position = _read_varint(data, position)
        if not length:
            return Pairs(None, None), position
        head = data[position]
        position += 1
        pairs = Pairs(_NAMES[head >> 4], _NAMES[head & 15])
        for _ in range(length):
            key, position = _read_value(pairs.key_type, data, position)
            value, position = _read_value(pairs.value_type, data, position)
            pairs.items.append((key, value))
        return pairs, position
    if type_name == STRUCT:
        return read_struct(data, position)
    raise ValueError(f"no compact type {type_name!r}")


def _write_value(type_name: str, value: Any) -> bytes:
    if isinstance(value, Encoded):
        return value.data
    if type_name == BOOL:
        return b"\x01" if value else b"\x02"
    if type_name == I8:
        return struct.pack("<b", value)
    if type_name in (I16, I32, I64):
        return varint(zigzag(value))
    if type_name == DOUBLE:
        return struct.pack("<d", value)
    if type_name == UUID:
        assert len(value) == 16
        return bytes(value)
    if type_name == BINARY:
        return varint(len(value)) + value
    if type_name in (LIST, SET):
        code = 0 if value.type is None else 1 if value.type == BOOL else CODES[value.type]
        count = len(value.items)
        head = (
            bytes([count << 4 | code])
            if count < 15 and not value.long_form
            else bytes([15 << 4 | code]) + varint(count)
        )
        return head + b"".join(_write_value(value.type, item) for item in value.items)
    if type_name == MAP:
        if not value.items:
            return b"\x00"
        codes = [1 if name == BOOL else CODES[name] for name in (value.key_type, value.value_type)]
        body = b"".join(_write_value(value.key_type, k) + _write_value(value.value_type, v) for k, v in value.items)
        return varint(len(value.items)) + bytes([codes[0] << 4 | codes[1]]) + body
    if type_name == STRUCT:
        return write_struct(value)
    raise ValueError(f"no compact type {type_name!r}")


# ------------------------------------------------------------------------------------------------------------
# Footers and filters in files
# ------------------------------------------------------------------------------------------------------------

MAGIC = b"PAR1"
# Field ids of the footer's structs: FileMetaData, RowGroup, ColumnChunk, and three of ColumnMetaData.
ROW_GROUPS, COLUMNS, META_DATA, PATH_IN_SCHEMA, OFFSET, LENGTH = 4, 1, 3, 3, 14, 15


def footer_start(data: bytes) -> int:
    """Return the offset of a Parquet file's footer."""
    assert data[-4:] == MAGIC, data[-4:]
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert start >= 4
    return start


def read_footer(path: str | Path) -> Struct:
    """The FileMetaData of a file, as a generic struct."""
    data = Path(path).read_bytes()
    start = footer_start(data)
    footer, end = read_struct(data, start)
    assert end == len(data) - 8, f"the footer ends at {end}, {len(data) - 8} was said"
    return footer


def write_footer(path: str | Path, footer: Struct, source: str | Path | None = None) -> None:
    """Give a file another footer; the bytes before it are those of ``source``, by default the file itself."""
    data = Path(source or path).read_bytes()
    Path(path).write_bytes(with_footer(data[: footer_start(data)], write_struct(footer)))


def with_footer(body: bytes, footer: bytes) -> bytes:
    """A file of the bytes before the footer and the footer."""
    return body + footer + len(footer).to_bytes(4, "little") + MAGIC


def column_metadata(footer: Struct, row_group: int, column: str | int) -> Struct:
    """The ColumnMetaData of a chunk, by the column's dotted path or position."""
    chunks = footer.value(ROW_GROUPS, [row_group], COLUMNS).items
    if isinstance(column, int):
        return chunks[column].value(META_DATA)
    for chunk in chunks:
        if dotted(chunk.value(META_DATA)) == column:
            return chunk.value(META_DATA)
    raise KeyError(column)


def dotted(metadata: Struct) -> str:
    return ".".join(part.decode() for part in metadata.value(PATH_IN_SCHEMA).items)


@dataclass
class StoredFilter:
    """A filter as it is stored in a file."""

    row_group: int
    column: str
    offset: int
    length: int | None
    header: Struct
    header_size: int
    bitset: bytes


def filters(path: str | Path) -> dict[tuple[int, str], StoredFilter]:
    """Every filter of a (good) file by row group and column."""
    data = Path(path).read_bytes()
    footer = read_footer(path)
    results = {}
    for row_group, group in enumerate(footer.value(ROW_GROUPS).items):
        for chunk in group.value(COLUMNS).items:
            metadata = chunk.value(META_DATA)
            if OFFSET not in metadata:
                continue
            offset = metadata.value(OFFSET)
            header, end = read_struct(data, offset)
            num_bytes = header.value(1)
            results[row_group, dotted(metadata)] = StoredFilter(
                row_group,
                dotted(metadata),
                offset,
                metadata.value(LENGTH) if LENGTH in metadata else None,
                header,
                end - offset,
                data[end : end + num_bytes],
            )
    return results


def filter_header(num_bytes: int, *, algorithm: int = 1, hash_function: int = 1, compression: int = 1) -> Struct:
    """A BloomFilterHeader; the numbers are the union members set (1 is the only one that the spec knows)."""

    def union(member: int) -> tuple[str, Struct]:
        return STRUCT, Struct({member: (STRUCT, Struct())})

    return Struct({1: (I32, num_bytes), 2: union(algorithm), 3: union(hash_function), 4: union(compression)})
