"""Filters and files of the format's drafts: slow, obviously right twins of them, and surgery that makes such files.

As in `oracle`, nothing here imports parquet_bloom.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.oracle import oracle
from support.oracle.oracle import I32, I64, Struct

SEED = 1361930890

NAMES = (
    "final",
    "murmur3+mask+raw",
    "murmur3+multiply-shift+raw",
    "xxh64+mask+raw",
    "xxh64+multiply-shift+raw",
    "murmur3+mask+thrift3",
    "murmur3+multiply-shift+thrift3",
    "xxh64+mask+thrift3",
    "xxh64+multiply-shift+thrift3",
    "xxh64+mask+thrift4",
)
DRAFTS = NAMES[1:]
ALL = 2**64 - 1


def parts(name: str) -> tuple[str, str, str]:
    """Hash, block choice and header of a variant."""
    return ("xxh64", "multiply-shift", "thrift4") if name == "final" else tuple(name.split("+"))  # type: ignore[return-value]


def _rotated(x: int, bits: int) -> int:
    return (x << bits | x >> 64 - bits) & ALL


def _final_mix(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & ALL
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & ALL
    return h ^ h >> 33


def murmur3_x64_128(data: bytes, seed: int = 0) -> tuple[int, int]:
    """Both words, by SMHasher's text."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = seed
    complete = len(data) // 16 * 16
    for at in range(0, complete, 16):
        k1, k2 = struct.unpack_from("<QQ", data, at)
        h1 ^= _rotated(k1 * c1 & ALL, 31) * c2 & ALL
        h1 = ((_rotated(h1, 27) + h2) * 5 + 0x52DCE729) & ALL
        h2 ^= _rotated(k2 * c2 & ALL, 33) * c1 & ALL
        h2 = ((_rotated(h2, 31) + h1) * 5 + 0x38495AB5) & ALL
    k1, k2 = struct.unpack("<QQ", data[complete:].ljust(16, b"\x00"))
    h2 ^= _rotated(k2 * c2 & ALL, 33) * c1 & ALL
    h1 ^= _rotated(k1 * c1 & ALL, 31) * c2 & ALL
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & ALL
    h2 = (h2 + h1) & ALL
    h1, h2 = _final_mix(h1), _final_mix(h2)
    h1 = (h1 + h2) & ALL
    return h1, (h2 + h1) & ALL


class DraftFilter(oracle.OracleFilter):
    """`OracleFilter` with a draft's hash and block choice."""

    def __init__(self, num_bytes: int, name: str, bitset: bytes | None = None):
        super().__init__(num_bytes, bitset)
        self.hash_name, self.block, self.header = parts(name)

    def _block_index(self, hash64: int) -> int:
        if self.block == "multiply-shift":
            return oracle.block_index(hash64, self.num_blocks)
        return (hash64 >> 32) % self.num_blocks

    def insert_hash(self, hash64: int) -> None:
        for i, bit in enumerate(oracle.mask(hash64)):
            self.words[8 * self._block_index(hash64) + i] |= bit

    def check_hash(self, hash64: int) -> bool:
        return all(self.words[8 * self._block_index(hash64) + i] & bit for i, bit in enumerate(oracle.mask(hash64)))

    def hash(self, plain: bytes) -> int:
        return oracle.xxh64(plain) if self.hash_name == "xxh64" else murmur3_x64_128(plain, SEED)[0]

    def insert(self, plain: bytes) -> None:
        self.insert_hash(self.hash(plain))

    def check(self, plain: bytes) -> bool:
        return self.check_hash(self.hash(plain))

    def with_header(self) -> bytes:
        return header(self.num_bytes, self.header) + self.to_bytes()


def header(num_bytes: int, form: str) -> bytes:
    """A header of 12 raw bytes, or of Thrift with three fields or four."""
    if form == "raw":
        return struct.pack("<iii", num_bytes, 0, 0)
    fields = oracle.filter_header(num_bytes)
    if form == "thrift3":
        del fields[4]
    return oracle.write_struct(fields)


def filled(name: str, num_bytes: int, plain_values: Iterable[bytes]) -> DraftFilter:
    """A filter with every one of the plain-encoded values."""
    bloom_filter = DraftFilter(num_bytes, name)
    for plain in plain_values:
        bloom_filter.insert(plain)
    return bloom_filter


_PHYSICAL = {pa.int32(): "INT32", pa.int64(): "INT64", pa.float64(): "DOUBLE", pa.string(): "BYTE_ARRAY"}


def plain_values(column: pa.ChunkedArray) -> list[bytes]:
    """The bytes that are hashed of a column's values."""
    physical = _PHYSICAL[column.type]
    return [oracle.plain(value, physical) for value in column.to_pylist() if value is not None]


def with_filters_in_chunks(
    path: Path,
    filters: Mapping[tuple[int, str], bytes],
    *,
    counted: bool = False,
    lengths: bool = False,
) -> Path:
    """Put filters (headers included) at the beginning of their column chunks, in place; everything after them moves.

    Parameters
    ----------
    filters : {(row group, column): bytes}.
    counted : whether the column chunks' sizes count them.
    lengths : whether the footer says how long they are, which no draft did.
    """
    data, footer = path.read_bytes(), oracle.read_footer(path)
    results = []
    for number, group in enumerate(footer.value(oracle.ROW_GROUPS).items):
        for chunk in group.value(oracle.COLUMNS).items:
            metadata = chunk.value(oracle.META_DATA)
            block = filters.get((number, oracle.dotted(metadata)))
            if block is not None:
                results.append((_first_byte(metadata), block))
    results.sort()
    starts = [start for start, _ in results]

    def moved(offset: int) -> int:
        return offset + sum(len(block) for _, block in results[: bisect_right(starts, offset)])

    for number, group in enumerate(footer.value(oracle.ROW_GROUPS).items):
        group.pop(5, None)  # file_offset
        for chunk in group.value(oracle.COLUMNS).items:
            metadata = chunk.value(oracle.META_DATA)
            first = _first_byte(metadata)
            for fields, numbers in ((metadata, (9, 10, 11)), (chunk, (4, 6))):
                for key in numbers:
                    if key in fields:
                        fields[key] = (fields[key][0], moved(fields.value(key)))
            block = filters.get((number, oracle.dotted(metadata)))
            if block is None:
                continue
            position = moved(first) - len(block)
            metadata.set(oracle.OFFSET, I64, position)
            chunk.set(2, I64, position)
            if lengths:
                metadata.set(oracle.LENGTH, I32, len(block))
            if counted:
                metadata.set(7, I64, metadata.value(7) + len(block))
    body, at = b"", 0
    for start, block in results:
        body += data[at:start] + block
        at = start
    body += data[at : oracle.footer_start(data)]
    path.write_bytes(oracle.with_footer(body, oracle.write_struct(footer)))
    return path


def _first_byte(metadata: Struct) -> int:
    return min(metadata.value(number) for number in (9, 11) if metadata.get(number, (0, 0))[1])


def write_draft(
    path: Path,
    table: pa.Table,
    columns: Iterable[str],
    name: str,
    *,
    row_group_size: int = 100,
    num_bytes: int = 1024,
    counted: bool = False,
    lengths: bool = False,
    **options: Any,
) -> Path:
    """A file by pyarrow, with a draft's filters at the beginning of column chunks."""
    pq.write_table(table, path, row_group_size=row_group_size, **options)
    columns = list(columns)
    filters = {}
    for row_group in range(-(-table.num_rows // row_group_size)):
        rows = table.slice(row_group * row_group_size, row_group_size)
        for column in columns:
            filled_filter = filled(name, num_bytes, plain_values(rows[column]))
            filters[row_group, column] = filled_filter.with_header()
    return with_filters_in_chunks(path, filters, counted=counted, lengths=lengths)
