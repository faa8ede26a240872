"""Pages of a column with lists, encoded run by run, and the slow twin of the search of their values."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parquet_bloom.metadata.thrift_compact import I32, STRUCT, write_struct

PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8


class Refused(Exception):
    """The bytes are not pages of such a column."""


class Shape(NamedTuple):
    """The levels of a column: see `StoredColumn`."""

    least: Sequence[int]
    max_definition: int


# ------------------------------------------------------------------------------------------------------ encoding


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encode_runs(numbers: Sequence[int], width: int, draw: random.Random) -> bytes:
    """Encode numbers as runs of either kind, by chance; the last one is padded."""
    out, at = b"", 0
    while at < len(numbers):
        alike = 1
        while at + alike < len(numbers) and numbers[at + alike] == numbers[at]:
            alike += 1
        if draw.random() < (0.9 if alike > 8 else 0.2):
            alike = draw.randint(1, alike)
            out += varint(alike << 1) + numbers[at].to_bytes((width + 7) // 8, "little")
            at += alike
            continue
        groups = min(draw.choice([1, 1, 2, 9, 200]), (len(numbers) - at + 7) // 8)
        part = numbers[at : at + 8 * groups]
        bits = sum(number << (width * i) for i, number in enumerate(part))
        out += varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")
        at += len(part)
    return out


def encode_values(values: Sequence[bytes], width: int) -> bytes:
    return b"".join(value if width else struct.pack("<I", len(value)) + value for value in values)


def data_page(
    levels: Sequence[tuple[int, int]],
    values: bytes,
    shape: Shape,
    version: int,
    draw: random.Random,
    encoding: int = PLAIN,
) -> bytes:
    """Encode an uncompressed data page of some pairs of levels."""
    repeats = encode_runs([pair[0] for pair in levels], (len(shape.least) - 1).bit_length(), draw)
    definitions = encode_runs([pair[1] for pair in levels], shape.max_definition.bit_length(), draw)
    if version == 1:
        body = struct.pack("<I", len(repeats)) + repeats + struct.pack("<I", len(definitions)) + definitions + values
        fields = [(1, I32, len(levels)), (2, I32, encoding), (3, I32, RLE), (4, I32, RLE)]
        return write_struct([(1, I32, 0), (2, I32, len(body)), (3, I32, len(body)), (5, STRUCT, fields)]) + body
    rows = sum(pair[0] == 0 for pair in levels)
    fields = [(1, I32, len(levels)), (2, I32, 0), (3, I32, rows), (4, I32, encoding)]
    fields += [(5, I32, len(definitions)), (6, I32, len(repeats))]
    body = repeats + definitions + values
    return write_struct([(1, I32, 3), (2, I32, len(body)), (3, I32, len(body)), (8, STRUCT, fields)]) + body


def dictionary_page(values: Sequence[bytes], width: int) -> bytes:
    body = encode_values(values, width)
    fields = [(1, I32, len(values)), (2, I32, PLAIN)]
    return write_struct([(1, I32, 2), (2, I32, len(body)), (3, I32, len(body)), (7, STRUCT, fields)]) + body


def draw_levels(shape: Shape, num_rows: int, draw: random.Random) -> list[tuple[int, int]]:
    """Return levels of so many rows, by chance."""
    levels: list[tuple[int, int]] = []
    for _ in range(num_rows):
        levels.append((0, draw.choice([*range(shape.max_definition + 1), *[shape.max_definition] * 3])))
        while draw.random() < 0.6:
            open_lists = [depth for depth in range(1, len(shape.least)) if shape.least[depth] <= levels[-1][1]]
            if not open_lists:
                break
            depth = draw.choice(open_lists)
            levels.append((depth, draw.randint(shape.least[depth], shape.max_definition)))
    return levels


def find_rows(
    levels: Sequence[tuple[int, int]], values: Sequence[bytes], shape: Shape, targets: Sequence[bytes]
) -> list[int]:
    """Return the rows with a value that is a target; levels and values are those of a whole chunk."""
    rows, row, remaining = [], -1, iter(values)
    for repeat, definition in levels:
        row += repeat == 0
        if definition == shape.max_definition and next(remaining) in targets and row not in rows[-1:]:
            rows.append(row)
    return rows


# ------------------------------------------------------------------------------------------------------ the twin


def decode_runs(data: bytes, width: int, complete: bool) -> Iterator[int]:
    """Yield the numbers of runs; Refused where they end. `complete` runs have all their bytes."""
    at = 0
    while True:
        header = shift = 0
        while True:
            if at >= len(data) or shift > 35:
                raise Refused
            header |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        if header >> 1 == 0:
            raise Refused
        size = (header >> 1) * width if header & 1 else (width + 7) // 8
        piece = data[at : at + size]
        at += size
        if len(piece) < size and (complete or not header & 1):
            raise Refused
        bits = int.from_bytes(piece, "little")
        if header & 1:
            if width == 0:
                raise Refused
            for i in range(min((header >> 1) * 8, len(piece) * 8 // width)):
                yield bits >> (i * width) & ((1 << width) - 1)
        elif bits >> width:
            raise Refused
        else:
            for _ in range(header >> 1):
                yield bits


def _take(numbers: Iterator[int], count: int) -> list[int]:
    return [next(numbers) for _ in range(count)]


def _decode_plain(data: bytes, width: int, count: int) -> list[bytes]:
    if width:
        if len(data) // width < count:
            raise Refused
        return [data[i * width : (i + 1) * width] for i in range(count)]
    values, at = [], 0
    for _ in range(count):
        if len(data) - at < 4:
            raise Refused
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        if end > len(data):
            raise Refused
        values.append(data[at + 4 : end])
        at = end
    return values


def _cut(body: bytes, encoding: int) -> tuple[bytes, bytes]:
    if encoding != RLE or len(body) < 4:
        raise Refused
    end = 4 + struct.unpack_from("<I", body)[0]
    if end > len(body):
        raise Refused
    return body[4:end], body[end:]


def search_slowly(
    data: bytes,
    table: Sequence[Sequence[int]],
    width: int,
    shape: Shape,
    num_rows: int,
    num_values: int,
    targets: Sequence[bytes],
) -> list[int]:
    """Do what `ChunkBatch.search` does with pages that are not compressed.

    Raises
    ------
    Refused
    """
    if not targets or (width and not any(len(target) == width for target in targets)):
        return []
    unread: tuple[int, int, int, bytes] | None = None  # the dictionary, which is not read unless a page needs it
    dictionary: list[bytes] | None = None
    levels: list[tuple[int, int]] = []
    values: list[bytes] = []
    last = -1
    for number, page in enumerate(table):
        start, header, size, kind, count, encoding, unpacked, level_encoding, repeat_bytes, level_bytes = page[:10]
        repeat_encoding = page[11]
        body = data[start + header : start + header + size]
        if kind == 2:
            assert number == 0
            unread = encoding, count, unpacked, body
            continue
        if count == 0:
            continue
        if unpacked != size:
            raise Refused
        if kind == 3:
            end = repeat_bytes + level_bytes
            if repeat_bytes <= 0 or level_bytes <= 0 or end > size:
                raise Refused
            repeats, definitions, rest = body[:repeat_bytes], body[repeat_bytes:end], body[end:]
        else:
            repeats, rest = _cut(body, repeat_encoding)
            definitions, rest = _cut(rest, level_encoding)
        first = _take(decode_runs(repeats, (len(shape.least) - 1).bit_length(), True), count)
        second = _take(decode_runs(definitions, shape.max_definition.bit_length(), True), count)
        for repeat, definition in zip(first, second, strict=True):
            if repeat >= len(shape.least) or definition > shape.max_definition:
                raise Refused
            if repeat and min(definition, last) < shape.least[repeat]:
                raise Refused
            last = definition
        levels += zip(first, second, strict=True)
        count = second.count(shape.max_definition)
        if encoding in (2, RLE_DICTIONARY) and unread is not None and dictionary is None:
            if unread[0] not in (PLAIN, 2) or (unread[1] and unread[2] != len(unread[3])):
                raise Refused
            dictionary = _decode_plain(unread[3], width, unread[1])
        if not count:
            continue
        if encoding == PLAIN:
            values += _decode_plain(rest, width, count)
        elif encoding not in (2, RLE_DICTIONARY) or dictionary is None:
            raise Refused
        else:
            if not dictionary or not rest or rest[0] > 32:
                raise Refused
            numbers = _take(decode_runs(rest[1:], rest[0], False), count)
            if any(entry >= len(dictionary) for entry in numbers):
                raise Refused
            values += [dictionary[entry] for entry in numbers]
    if len(levels) != num_values or sum(repeat == 0 for repeat, _ in levels) != num_rows:
        raise Refused
    return find_rows(levels, values, shape, targets)
