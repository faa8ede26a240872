"""A zone index in an Arrow IPC file: the offsets of columns in its batches, so that filters need not be loaded.

pyarrow does not expose offsets. They are in flatbuffers: a footer that lists blocks, and before each block a message
that lists buffers. Source: Arrow's Columnar.md, File.fbs, Message.fbs; the FlatBuffers binary format.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.sizing import BLOCK_BYTES
from ..errors import BrokenZonesError, first_line
from ..file.page_checks import RangeFile
from ..storage import Source
from .zone_filters import FilterPart, InMemoryFilters, LayoutCheck, LazyFilters, StoredFilters
from .zone_manifest import (
    FILTERS,
    NUMBERS,
    SCHEMA,
    cache_footer,
    is_sealed,
    read_document,
    require_schema,
    to_zone_table,
    unpack_metadata,
    unpack_zones,
)

MAGIC = b"ARROW1"
_TAIL = struct.Struct("<i6s")
_BLOCK = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("", "<i4"), ("body", "<i8")])
_PAIR = np.dtype([("first", "<i8"), ("second", "<i8")])  # a buffer's offset and length; a column's length and nulls
_RECORD_BATCH = 3
_ALIGNMENTS = (8, 16, 32, 64, 128)  # of buffers, by various writers


class _MalformedError(Exception):
    """An Arrow file's metadata has a form that no writer gives it."""


class OpenedContainer(NamedTuple):
    """The contents of a container: the zones without their filters, the filters, the metadata of the schema."""

    numbers: pa.Table
    parts: list[FilterPart]
    metadata: dict[bytes, bytes]


class _Batch(NamedTuple):
    num_rows: int
    buffers: NDArray[np.void]  # first: offset in the file; second: length


def read_arrow(source: Source) -> OpenedContainer:
    """Read a zone index in an Arrow IPC file, without its filters unless its batches are compressed.

    Raises
    ------
    BrokenZonesError
        The file is invalid.
    """
    path = source.name
    try:
        cache_footer(source, _find_footer(source))
        is_local = source.path is not None
        opened = source.arrow_file() if is_local else pa.PythonFile(RangeFile(source.size, source.read_at), mode="r")
        with opened, pa.ipc.open_file(opened) as reader:
            schema = reader.schema
            require_schema(schema, path)
            sealed = _read_sealed(source, schema)
            if sealed is not None:
                return sealed
            batches = _read_batches(source, len(schema))
            if batches is None:
                return open_table(reader.read_all(), path)
    except (pa.ArrowException, OSError, _MalformedError) as error:
        problem = f"it cannot be read as Arrow: {first_line(error)}"
        raise BrokenZonesError(problem, path=path) from error
    tables, parts = [], []
    for batch in batches:
        table, part = _read_columns(source, schema, batch)
        tables.append(table)
        parts.append(part)
    numbers = pa.concat_tables(tables) if tables else pa.schema([SCHEMA.field(name) for name in NUMBERS]).empty_table()
    return OpenedContainer(numbers, parts, unpack_metadata(schema.metadata or {}, path))


def _read_sealed(source: Source, schema: pa.Schema) -> OpenedContainer | None:
    """Read the footer of an index as this package wrote it; None for any other file."""
    metadata_in_file = dict(schema.metadata or {})
    start = _find_footer(source)
    if schema.names != SCHEMA.names or not is_sealed(source, metadata_in_file, start):
        return None
    metadata = unpack_metadata(metadata_in_file, source.name)
    sealed = unpack_zones(read_document(metadata, source.name), source.size // BLOCK_BYTES, source.name)
    if sealed is None:
        return None
    zones, batch, filter_bytes = sealed
    blocks = _read_blocks(source)
    rows = [min(batch, len(zones) - start) for start in range(0, len(zones), batch)] if blocks else []
    if len(rows) != len(blocks) or any(
        count * filter_bytes > body for count, (_, _, body) in zip(rows, blocks, strict=True)
    ):
        raise BrokenZonesError("its batches do not match its metadata", path=source.name)
    parts: list[FilterPart] = [
        LazyFilters(
            count,
            partial(_read_part, source, schema, block),
            source.name,
            _locate_filters(source, len(schema), block, count, filter_bytes),
        )
        for count, block in zip(rows, blocks, strict=True)
    ]
    return OpenedContainer(to_zone_table(zones), parts, metadata)


def _read_part(source: Source, schema: pa.Schema, block: tuple[int, int, int]) -> FilterPart:
    """Locate the filters of a batch by its message."""
    try:
        batch = _read_batch(source.read_at(block[0], block[1]), block, len(schema))
        if batch is None:
            raise _MalformedError("a batch is compressed")
        return _read_columns(source, schema, batch)[1]
    except _MalformedError as error:
        problem = f"it cannot be read as Arrow: {first_line(error)}"
        raise BrokenZonesError(problem, path=source.name) from error


def _locate_filters(
    source: Source, num_columns: int, block: tuple[int, int, int], rows: int, filter_bytes: int
) -> StoredFilters:
    """Locate the filters of a batch at the end of its body, where pyarrow's writer puts them."""
    offset, metadata, body = block
    first = offset + metadata + body - rows * filter_bytes

    def holds(message: bytes) -> bool:
        try:
            batch = _read_batch(message, block, num_columns)
        except _MalformedError:
            return False
        if batch is None or batch.num_rows != rows:
            return False
        start, length = batch.buffers[-1].tolist()
        return bool(start == first and length == rows * filter_bytes)

    offsets = first + filter_bytes * np.arange(rows, dtype=np.int64)
    return StoredFilters(source, offsets, np.full(rows, filter_bytes, np.int64), LayoutCheck(offset, metadata, holds))


def open_table(table: pa.Table, path: str | None) -> OpenedContainer:
    """Open a zone index in memory.

    Raises
    ------
    BrokenZonesError
        The table is not a zone index, or has invalid values.
    """
    require_schema(table.schema, path)
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BrokenZonesError(f"the table contradicts itself: {first_line(error)}", path=path) from error
    if table[FILTERS].null_count:
        raise BrokenZonesError(f"column {FILTERS} has nulls", path=path)
    parts: list[FilterPart] = [InMemoryFilters(array, path) for array in table[FILTERS].chunks]
    return OpenedContainer(table.select(list(NUMBERS)), parts, unpack_metadata(table.schema.metadata or {}, path))


def _find_footer(source: Source) -> int:
    """Return the offset of the footer; raise _MalformedError if there is none."""
    size = source.size
    length, magic = _TAIL.unpack(source.read_at(size - _TAIL.size, _TAIL.size)) if size > 16 else (0, b"")
    if magic != MAGIC or not 0 < length <= size - _TAIL.size:
        raise _MalformedError("its end is missing")
    return int(size - _TAIL.size - length)


def _read_blocks(source: Source) -> list[tuple[int, int, int]]:
    """Return (offset, length of the message, length of the body) of each batch."""
    start = _find_footer(source)
    footer = _ArrowTable.root(source.read_at(start, source.size - _TAIL.size - start))
    blocks = []
    for block in footer.structs(3, _BLOCK):
        offset, metadata, body = int(block["offset"]), int(block["metadata"]), int(block["body"])
        if min(offset, metadata, body) < 0 or offset + metadata + body > source.size or metadata < 8:
            raise _MalformedError("a batch is not inside of the file")
        blocks.append((offset, metadata, body))
    return blocks


def _read_batches(source: Source, num_columns: int) -> list[_Batch] | None:
    """Return the batches of a file; None if one is compressed. Raises _MalformedError for invalid files."""
    blocks = _read_blocks(source)
    messages = source.read_ranges([(offset, metadata) for offset, metadata, _ in blocks])
    batches = []
    for message, block in zip(messages, blocks, strict=True):
        batch = _read_batch(message, block, num_columns)
        if batch is None:
            return None
        batches.append(batch)
    return batches


def _read_batch(message: bytes, block: tuple[int, int, int], num_columns: int) -> _Batch | None:
    """Parse the message before a batch; None if the batch is compressed."""
    offset, metadata, body = block
    message = message[8 if message[:4] == b"\xff\xff\xff\xff" else 4 :]
    table = _ArrowTable.root(message)
    batch = table.table(2)
    if table.number(1, "<B") != _RECORD_BATCH or batch is None:
        raise _MalformedError("a batch is missing")
    if batch.table(3) is not None:
        return None
    rows, nodes, buffers = batch.number(0, "<q"), batch.structs(1, _PAIR), batch.structs(2, _PAIR).copy()
    if rows < 0 or len(nodes) != num_columns or (nodes["first"] != rows).any():
        raise _MalformedError("a batch has columns of different lengths")
    if nodes["second"].any():
        raise _MalformedError("a column has nulls")
    ends = buffers["first"] + buffers["second"]
    if len(buffers) and (buffers["first"].min() < 0 or buffers["second"].min() < 0 or ends.max() > body):
        raise _MalformedError("a column is not inside of its batch")
    if not _are_contiguous(buffers, body):
        raise _MalformedError("the columns of a batch do not follow one another")
    buffers["first"] += offset + metadata
    return _Batch(rows, buffers)


def _are_contiguous(buffers: NDArray[np.void], body: int) -> bool:
    """Return whether buffers fill their batch without gaps, as all writers arrange them.

    A wrong offset would point into the middle of a filter, which no other check could detect.
    """
    ends = buffers["first"] + buffers["second"]
    starts, previous_ends = np.append(buffers["first"], body), np.insert(ends, 0, 0)
    return any((starts == -(-previous_ends // step) * step).all() for step in _ALIGNMENTS)


def _read_columns(source: Source, schema: pa.Schema, batch: _Batch) -> tuple[pa.Table, FilterPart]:
    path, rows = source.name, batch.num_rows
    spans, i = {}, 0
    for field in schema:
        binary = field.type in (pa.binary(), pa.large_binary())
        spans[field.name] = batch.buffers[i + 1 : i + (3 if binary else 2)]
        i += 3 if binary else 2
    if i != len(batch.buffers):
        raise BrokenZonesError(f"a batch has {len(batch.buffers)} buffers, not {i}", path=path)
    wide = schema.field(FILTERS).type == pa.large_binary()
    width = 8 if wide else 4
    offsets_span, data_span = spans[FILTERS]
    needed = {name: -(-rows // 8) if name == "has_null" else 8 * rows for name in NUMBERS}
    ranges = [(int(spans[name][0]["first"]), needed[name]) for name in NUMBERS]
    ranges.append((int(offsets_span["first"]), width * (rows + 1) if rows else 0))
    lengths = [int(spans[name][0]["second"]) for name in NUMBERS] + [int(offsets_span["second"])]
    if any(length < minimum for length, (_, minimum) in zip(lengths, ranges, strict=True)):
        raise BrokenZonesError(f"a batch of {rows} rows has columns of fewer", path=path)
    *numbers, offsets = source.read_ranges(ranges)
    columns = [
        pa.Array.from_buffers(SCHEMA.field(name).type, rows, [None, pa.py_buffer(data)])
        for name, data in zip(NUMBERS, numbers, strict=True)
    ]
    starts = np.frombuffer(offsets, "<i8" if wide else "<i4").astype(np.int64) if rows else np.zeros(1, np.int64)
    sizes = np.diff(starts)
    if (sizes < 0).any() or starts[0] < 0 or starts[-1] > int(data_span["second"]):
        raise BrokenZonesError("filters are not inside of their column", path=path)
    part = StoredFilters(source, int(data_span["first"]) + starts[:-1], sizes)
    return pa.table(columns, names=list(NUMBERS)), part


class _ArrowTable:
    """A table of a flatbuffer: fields by number, with bounds checks for every offset."""

    def __init__(self, data: bytes, at: int):
        self._data, self._start = data, at
        distance = self._unpack("<i", at)
        self._fields = at - distance
        self._length = self._unpack("<H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> _ArrowTable:
        if len(data) < 4:
            raise _MalformedError("its metadata is cut short")
        return cls(data, struct.unpack_from("<I", data)[0])

    def _unpack(self, form: str, at: int) -> int:
        if not 0 <= at <= len(self._data) - struct.calcsize(form):
            raise _MalformedError("its metadata has an offset out of bounds")
        return int(struct.unpack_from(form, self._data, at)[0])

    def _find_field(self, number: int) -> int | None:
        entry = 4 + 2 * number
        offset = self._unpack("<H", self._fields + entry) if entry < self._length else 0
        return self._start + offset if offset else None

    def number(self, number: int, form: str) -> int:
        offset = self._find_field(number)
        return 0 if offset is None else self._unpack(form, offset)

    def table(self, number: int) -> _ArrowTable | None:
        offset = self._find_field(number)
        return None if offset is None else _ArrowTable(self._data, offset + self._unpack("<I", offset))

    def structs(self, number: int, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        offset = self._find_field(number)
        if offset is None:
            return np.empty(0, dtype)
        start = offset + self._unpack("<I", offset)
        count = self._unpack("<I", start)
        if start + 4 + count * dtype.itemsize > len(self._data):
            raise _MalformedError("its metadata is cut short")
        return np.frombuffer(self._data, dtype, count, start + 4)
