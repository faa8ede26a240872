"""A zone index in an Arrow IPC file: where the columns of its batches stand, so that filters need not be loaded.

pyarrow says nothing of places. They stand in flatbuffers: a footer that lists blocks, and in front of each block a
message that lists buffers. Source: Arrow's Columnar.md, File.fbs, Message.fbs; the FlatBuffers binary format.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.bloom.sizing import BLOCK_BYTES
from ...errors import BrokenZonesError, first_line
from ...file.pages.buffered_chunk import BufferedChunk, BufferedChunkFile
from ...storage import Source
from ..filters import FilterPart, HeldFilters, LaterFilters, PlacedFilters, Proof
from ..manifest import KEY
from ..packed import is_sealed, keep_end, unpacked, zones_of
from ..schema import FILTERS, NUMBERS, SCHEMA, numbers_of, require_schema

MAGIC = b"ARROW1"
_TAIL = struct.Struct("<i6s")
_BLOCK = np.dtype([("offset", "<i8"), ("metadata", "<i4"), ("", "<i4"), ("body", "<i8")])
_PAIR = np.dtype([("first", "<i8"), ("second", "<i8")])  # a buffer's offset and length; a column's length and nulls
_RECORD_BATCH = 3
_ALIGNMENTS = (8, 16, 32, 64, 128)  # of buffers, by various writers


class Opened(NamedTuple):
    """What was found in a container: the zones without their filters, the filters, the schema's metadata."""

    numbers: pa.Table
    parts: list[FilterPart]
    metadata: dict[bytes, bytes]


class _Batch(NamedTuple):
    num_rows: int
    buffers: NDArray[np.void]  # first: offset in the file; second: length


def read_arrow(source: Source) -> Opened:
    """A zone index in an Arrow IPC file, of which only the numbers are read, unless its batches are compressed.

    Raises
    ------
    BrokenZonesError
        It cannot be read as one.
    """
    path = source.name
    try:
        keep_end(source, _footer_start(source))
        kept, kept_from = source.kept
        chunk = BufferedChunk(kept_from, memoryview(kept))
        opened = (
            source.arrow_file()
            if source.path is not None
            else pa.PythonFile(BufferedChunkFile(source, chunk), mode="r")
        )
        with opened, pa.ipc.open_file(opened) as reader:
            schema = reader.schema
            require_schema(schema, path)
            sealed = _sealed(source, schema)
            if sealed is not None:
                return sealed
            batches = _batches(source, len(schema))
            if batches is None:
                return held(reader.read_all(), path)
    except (pa.ArrowException, OSError, struct.error, ValueError, OverflowError) as error:
        if isinstance(error, BrokenZonesError):
            raise
        problem = f"it cannot be read as Arrow: {first_line(error)}"
        raise BrokenZonesError(problem, path=path) from error
    tables, parts = [], []
    for batch in batches:
        table, part = _columns(source, schema, batch)
        tables.append(table)
        parts.append(part)
    numbers = pa.concat_tables(tables) if tables else pa.schema([SCHEMA.field(name) for name in NUMBERS]).empty_table()
    return Opened(numbers, parts, unpacked(schema.metadata or {}, path))


def _sealed(source: Source, schema: pa.Schema) -> Opened | None:
    """An index as this project wrote it, of which nothing is read but its footer; None for any other."""
    told = dict(schema.metadata or {})
    start = _footer_start(source)
    if schema.names != SCHEMA.names or not is_sealed(source, told, start):
        return None
    metadata = unpacked(told, source.name)
    sealed = zones_of(metadata.get(KEY), source.size // BLOCK_BYTES, source.name)
    if sealed is None:
        return None
    zones, batch, filter_bytes = sealed
    blocks = _blocks(source)
    rows = [min(batch, len(zones) - start) for start in range(0, len(zones), batch)] if blocks else []
    if len(rows) != len(blocks) or any(
        count * filter_bytes > body for count, (_, _, body) in zip(rows, blocks, strict=True)
    ):
        raise BrokenZonesError("its batches are not those that its metadata says", path=source.name)
    parts: list[FilterPart] = [
        LaterFilters(
            count,
            partial(_part, source, schema, block),
            source.name,
            _placed(source, len(schema), block, count, filter_bytes),
        )
        for count, block in zip(rows, blocks, strict=True)
    ]
    return Opened(numbers_of(zones), parts, metadata)


def _part(source: Source, schema: pa.Schema, block: tuple[int, int, int]) -> FilterPart:
    """The filters of a batch, where its message says that they are."""
    try:
        batch = _batch(source.read_at(block[0], block[1]), block, len(schema))
        if batch is None:
            raise ValueError("a batch is compressed")
        return _columns(source, schema, batch)[1]
    except (struct.error, ValueError, OverflowError) as error:
        problem = f"it cannot be read as Arrow: {first_line(error)}"
        raise BrokenZonesError(problem, path=source.name) from error


def _placed(
    source: Source, num_columns: int, block: tuple[int, int, int], rows: int, filter_bytes: int
) -> PlacedFilters:
    """The filters of a batch where pyarrow's writer puts the last of its buffers."""
    offset, metadata, body = block
    first = offset + metadata + body - rows * filter_bytes

    def holds(message: bytes) -> bool:
        try:
            batch = _batch(message, block, num_columns)
        except (struct.error, ValueError, OverflowError):
            return False
        if batch is None or batch.num_rows != rows:
            return False
        place, length = batch.buffers[-1].tolist()
        return bool(place == first and length == rows * filter_bytes)

    offsets = first + filter_bytes * np.arange(rows, dtype=np.int64)
    return PlacedFilters(source, offsets, np.full(rows, filter_bytes, np.int64), Proof(offset, metadata, holds))


def held(table: pa.Table, path: str | None) -> Opened:
    """A zone index that is in memory.

    Raises
    ------
    BrokenZonesError
        It is none, or holds values that cannot be.
    """
    require_schema(table.schema, path)
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BrokenZonesError(f"the table contradicts itself: {first_line(error)}", path=path) from error
    if table[FILTERS].null_count:
        raise BrokenZonesError(f"column {FILTERS} has nulls", path=path)
    parts: list[FilterPart] = [HeldFilters(array, path) for array in table[FILTERS].chunks]
    return Opened(table.select(list(NUMBERS)), parts, unpacked(table.schema.metadata or {}, path))


def _footer_start(source: Source) -> int:
    """Where the footer begins; ValueError if there is none."""
    size = source.size
    length, magic = _TAIL.unpack(source.read_at(size - _TAIL.size, _TAIL.size)) if size > 16 else (0, b"")
    if magic != MAGIC or not 0 < length <= size - _TAIL.size:
        raise ValueError("its end is not there")
    return int(size - _TAIL.size - length)


def _blocks(source: Source) -> list[tuple[int, int, int]]:
    """(offset, length of the message, length of the body) of each batch."""
    start = _footer_start(source)
    footer = _Table.root(source.read_at(start, source.size - _TAIL.size - start))
    found = []
    for block in footer.structs(3, _BLOCK):
        offset, metadata, body = int(block["offset"]), int(block["metadata"]), int(block["body"])
        if min(offset, metadata, body) < 0 or offset + metadata + body > source.size or metadata < 8:
            raise ValueError("a batch is not inside of the file")
        found.append((offset, metadata, body))
    return found


def _batches(source: Source, num_columns: int) -> list[_Batch] | None:
    """The batches of a file; None where one is compressed. What cannot be is a ValueError or struct.error."""
    blocks = _blocks(source)
    messages = source.read_ranges([(offset, metadata) for offset, metadata, _ in blocks])
    found = []
    for message, block in zip(messages, blocks, strict=True):
        batch = _batch(message, block, num_columns)
        if batch is None:
            return None
        found.append(batch)
    return found


def _batch(message: bytes, block: tuple[int, int, int], num_columns: int) -> _Batch | None:
    """What the message in front of a batch says; None if it is compressed."""
    offset, metadata, body = block
    message = message[8 if message[:4] == b"\xff\xff\xff\xff" else 4 :]
    table = _Table.root(message)
    batch = table.table(2)
    if table.number(1, "<B") != _RECORD_BATCH or batch is None:
        raise ValueError("there is no batch where one should be")
    if batch.table(3) is not None:
        return None
    rows, nodes, buffers = batch.number(0, "<q"), batch.structs(1, _PAIR), batch.structs(2, _PAIR).copy()
    if rows < 0 or len(nodes) != num_columns or (nodes["first"] != rows).any():
        raise ValueError("a batch has columns of other lengths than it says")
    if nodes["second"].any():
        raise ValueError("a column has nulls")
    ends = buffers["first"] + buffers["second"]
    if len(buffers) and (buffers["first"].min() < 0 or buffers["second"].min() < 0 or ends.max() > body):
        raise ValueError("a column is not inside of its batch")
    if not _side_by_side(buffers, body):
        raise ValueError("the columns of a batch do not follow one another")
    buffers["first"] += offset + metadata
    return _Batch(rows, buffers)


def _side_by_side(buffers: NDArray[np.void], body: int) -> bool:
    """Whether buffers fill their batch one behind the other, as all writers lay them.

    A place that is off would lead beside where a filter begins, and nothing else would show it.
    """
    ends = buffers["first"] + buffers["second"]
    places, behind = np.append(buffers["first"], body), np.insert(ends, 0, 0)
    return any((places == -(-behind // step) * step).all() for step in _ALIGNMENTS)


def _columns(source: Source, schema: pa.Schema, batch: _Batch) -> tuple[pa.Table, FilterPart]:
    path, rows = source.name, batch.num_rows
    spans, at = {}, 0
    for field in schema:
        binary = field.type in (pa.binary(), pa.large_binary())
        spans[field.name] = batch.buffers[at + 1 : at + (3 if binary else 2)]
        at += 3 if binary else 2
    if at != len(batch.buffers):
        raise BrokenZonesError(f"a batch has {len(batch.buffers)} buffers, not {at}", path=path)
    wide = schema.field(FILTERS).type == pa.large_binary()
    width = 8 if wide else 4
    offsets_span, data_span = spans[FILTERS]
    needed = {name: -(-rows // 8) if name == "has_null" else 8 * rows for name in NUMBERS}
    wanted = [(int(spans[name][0]["first"]), needed[name]) for name in NUMBERS]
    wanted.append((int(offsets_span["first"]), width * (rows + 1) if rows else 0))
    lengths = [int(spans[name][0]["second"]) for name in NUMBERS] + [int(offsets_span["second"])]
    if any(length < need for length, (_, need) in zip(lengths, wanted, strict=True)):
        raise BrokenZonesError(f"a batch of {rows} rows has columns of fewer", path=path)
    *numbers, offsets = source.read_ranges(wanted)
    columns = [
        pa.Array.from_buffers(SCHEMA.field(name).type, rows, [None, pa.py_buffer(data)])
        for name, data in zip(NUMBERS, numbers, strict=True)
    ]
    starts = np.frombuffer(offsets, "<i8" if wide else "<i4").astype(np.int64) if rows else np.zeros(1, np.int64)
    sizes = np.diff(starts)
    if (sizes < 0).any() or starts[0] < 0 or starts[-1] > int(data_span["second"]):
        raise BrokenZonesError("filters are not inside of their column", path=path)
    part = PlacedFilters(source, int(data_span["first"]) + starts[:-1], sizes)
    return pa.table(columns, names=list(NUMBERS)), part


class _Table:
    """A table of a flatbuffer: fields by number, every place checked to lie inside of the bytes."""

    def __init__(self, data: bytes, at: int):
        self._data, self._at = data, at
        back = self._unpack("<i", at)
        self._fields = at - back
        self._length = self._unpack("<H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        if len(data) < 4:
            raise ValueError("its metadata is cut short")
        return cls(data, struct.unpack_from("<I", data)[0])

    def _unpack(self, form: str, at: int) -> Any:
        if at < 0:
            raise ValueError("its metadata leads out of itself")
        return struct.unpack_from(form, self._data, at)[0]

    def _place(self, number: int) -> int | None:
        entry = 4 + 2 * number
        offset = self._unpack("<H", self._fields + entry) if entry < self._length else 0
        return self._at + offset if offset else None

    def number(self, number: int, form: str) -> int:
        place = self._place(number)
        return 0 if place is None else int(self._unpack(form, place))

    def table(self, number: int) -> _Table | None:
        place = self._place(number)
        return None if place is None else _Table(self._data, place + self._unpack("<I", place))

    def structs(self, number: int, dtype: np.dtype[Any]) -> NDArray[np.void]:
        place = self._place(number)
        if place is None:
            return np.empty(0, dtype)
        start = place + self._unpack("<I", place)
        count = self._unpack("<I", start)
        if start + 4 + count * dtype.itemsize > len(self._data):
            raise ValueError("its metadata is cut short")
        return np.frombuffer(self._data, dtype, count, start + 4)
