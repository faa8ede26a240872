"""`iter_occurring`: the values that occur in a column chunk, taken from its pages as they are stored.

For building filters values need neither an order nor their nulls. So a page is decompressed, its levels are counted,
and its plain-encoded values are hashed in their place; of a dictionary, those that are used. Only pages of the usual
kinds that agree with their headers are read so. Everything else, damage included, is left to pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.keys import Keys
from ...errors import MalformedFooterError, UnusualPageError
from ...metadata.footer import REPEATED, REQUIRED, Leaf, read_repetition
from ...metadata.page_index import PAGE_HEADER_BYTES, PLAIN, PLAIN_DICTIONARY, RLE, PageHeader, read_page_header
from ...metadata.page_scan import count_nested, count_present, locate_byte_arrays, mark_used, measure_byte_arrays
from .decompress import UNCOMPRESSED, can_pair, decompress, decompress_pair
from .rows import Page

ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""The encodings of chunks that can be read so: of values, and of levels."""

LEAST_VALUES = 1024
"""Local chunks of smaller pages are left to pyarrow, which spends less time on each page."""

PIECE_VALUES = 1 << 15
"""The most byte arrays in one run of keys."""

_PREFIX_BYTES = 4  # of the length in front of a plain-encoded byte array
_ARROW = {
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "INT96": pa.binary(12),
}
_HEADER_LIMIT = 1 << 16  # longer headers are left to pyarrow


class StoredChunk(NamedTuple):
    """A column chunk in a file.

    Attributes
    ----------
    start, end : its range of bytes.
    num_values, num_rows : numbers of its values, nulls included, and of its row group's rows.
    codec : number of its codec.
    denies_compression : as of its file's `Footer`.
    physical, length : its physical type, and the bytes of a FIXED_LEN_BYTE_ARRAY.
    max_definition : its highest definition level, that of its values.
    list_levels : for each repetition level that it has, the least definition level of an element of its lists, as
        `count_nested` takes them; for a column without lists only that of level 0.
    aligned : whether values have to be aligned in memory, for those who compute with them.
    least_values : number of values that its first page must have, unless there are fewer.
    """

    start: int
    end: int
    num_values: int
    num_rows: int
    codec: int | None
    denies_compression: bool
    physical: str
    length: int
    max_definition: int
    list_levels: NDArray[np.int64]
    aligned: bool
    least_values: int

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of its stored values; of fixed width."""
        return _ARROW.get(self.physical) or pa.binary(self.length)


def list_levels(leaf: Leaf) -> NDArray[np.int64]:
    """Return the least definition level of an element of lists of each repetition level, and 0 for level 0."""
    levels, definition = [0], 0
    for node in leaf.nodes:
        repetition = read_repetition(node)
        definition += repetition != REQUIRED
        if repetition == REPEATED:
            levels.append(definition)
    return np.array(levels, np.int64)


class ChunkPages:
    """Reads the pages of a column chunk from front to back, small ones several at a time.

    Parameters
    ----------
    read : returns a range of the file, given its offset and length.
    start, end : the chunk.
    window : bytes to read at once.
    once : whether no byte may be read twice, which takes a copy of those that were read before their page.
    """

    def __init__(
        self, read: Callable[[int, int], bytes | memoryview], start: int, end: int, window: int, once: bool = False
    ) -> None:
        self._read, self._offset, self._end, self._window, self._once = read, start, end, window, once
        self._bytes = memoryview(b"")  # of the file, from the next page on

    def next_page(self) -> Page:
        """Return the next page.

        Raises
        ------
        MalformedFooterError
            There is none that ends within the chunk.
        """
        header = self._next_header()
        if header.num_bytes > self._end - self._offset:
            raise UnusualPageError("a page claims more bytes than the chunk has")
        if header.num_bytes > len(self._bytes):
            # A large page alone, with the header of the next one, so that few bytes are read twice.
            is_large = 4 * header.num_bytes > self._window
            self._fill(header.num_bytes + PAGE_HEADER_BYTES if is_large else self._window)
        page = Page(header, self._bytes[: header.num_bytes])
        self._bytes = self._bytes[header.num_bytes :]
        self._offset += header.num_bytes
        return page

    def _next_header(self) -> PageHeader:
        length = PAGE_HEADER_BYTES
        if len(self._bytes) < min(length, self._end - self._offset):
            self._fill(self._window)
        while True:
            try:
                return read_page_header(self._bytes[:length])
            except MalformedFooterError:
                if length >= min(_HEADER_LIMIT, self._end - self._offset):
                    raise
            length *= 16
            if len(self._bytes) < min(length, self._end - self._offset):
                self._fill(max(length, self._window))

    def _fill(self, length: int) -> None:
        length = min(length, self._end - self._offset)
        kept = bytes(self._bytes) if self._once else b""
        self._bytes = memoryview(b"")  # frees what was read before
        data = self._read(self._offset + len(kept), length - len(kept))
        self._bytes = memoryview(kept + data if kept else data).cast("B")


def iter_occurring(pages: ChunkPages, chunk: StoredChunk) -> Iterator[pa.Array | Keys]:
    """Yield every value that occurs in a column chunk, at least once: keys of byte arrays, storage arrays of others.

    Raises
    ------
    MalformedFooterError, ValueError, OSError, pyarrow.ArrowException
        pyarrow has to read the chunk; what was yielded before occurs in it, as far as its pages can be read.
    """
    num_rows, last_level = 0, -1
    dictionary: _Dictionary | None = None
    for block, unpacked in _iter_unpacked(pages, chunk):
        header = block.header
        if header.is_dictionary:
            dictionary = _Dictionary(header, unpacked, chunk)
            continue
        repetition, definition, values = _split_levels(block, unpacked, chunk)
        num_begun = num_present = header.num_values
        if len(chunk.list_levels) > 1:
            num_begun, num_present, last_level = count_nested(
                repetition, definition, chunk.list_levels, chunk.max_definition, header.num_values, last_level
            )
        elif chunk.max_definition:
            num_present = count_present(definition, chunk.max_definition, header.num_values)
        if header.version == 2 and (header.num_rows != num_begun or not 0 <= header.num_nulls <= header.num_values):
            raise UnusualPageError(f"{header.num_rows} rows, {header.num_nulls} nulls")
        num_rows += num_begun
        if num_rows > chunk.num_rows:  # before any of its values is taken: pyarrow stops at the last row
            raise UnusualPageError(f"{num_rows} rows")
        if header.needs_dictionary:
            if dictionary is None:
                raise UnusualPageError("a page of dictionary indices without a dictionary")
            dictionary.mark(values, num_present)
        elif header.encoding != PLAIN:
            raise UnusualPageError(f"encoding {header.encoding}")
        else:
            yield from _plain_values(values, num_present, chunk)
    if num_rows != chunk.num_rows:
        raise UnusualPageError(f"{num_rows} rows")
    if dictionary is not None:
        yield from dictionary.used_values()


class _Dictionary:
    """The entries of a dictionary page, and which of them are used by data pages."""

    def __init__(self, header: PageHeader, values: memoryview, chunk: StoredChunk) -> None:
        if header.encoding not in (PLAIN, PLAIN_DICTIONARY):
            raise UnusualPageError(f"a dictionary of encoding {header.encoding}")
        self._chunk, self._values = chunk, values
        width = 0 if chunk.physical == "BYTE_ARRAY" else chunk.arrow.byte_width
        if header.num_values * (width or _PREFIX_BYTES) > len(self._values):
            raise UnusualPageError("entries of the dictionary are missing")
        self._used = np.zeros(header.num_values, np.uint8)

    def mark(self, indices: memoryview, count: int) -> None:
        """Mark the entries that a page uses, given its values."""
        if count:
            if not len(indices):
                raise UnusualPageError("a page without dictionary indices")
            mark_used(indices[1:], indices[0], count, self._used)
        elif len(indices) and indices[0] > _MOST_BITS:
            raise UnusualPageError(f"indices of {indices[0]} bits")

    def used_values(self) -> Iterator[pa.Array | Keys]:
        """Yield the used entries."""
        return _plain_values(self._values, len(self._used), self._chunk, self._used)


_MOST_BITS = 32  # of an index


class _Block(NamedTuple):
    """The part of a page that is compressed as a whole.

    Attributes
    ----------
    header : the page's header.
    repetition, definition : levels in front of it, of a page of version 2.
    data, codec, size : its bytes, their codec, and the number of bytes that are compressed in it.
    """

    header: PageHeader
    repetition: memoryview
    definition: memoryview
    data: memoryview
    codec: int | None
    size: int


def _iter_pages(pages: ChunkPages, chunk: StoredChunk) -> Iterator[Page]:
    """Yield pages until these have all values of the chunk; check their order and numbers."""
    missing, is_first = chunk.num_values, True
    while missing:
        page = pages.next_page()
        num_values = page.header.num_values
        if page.header.is_dictionary:
            if not is_first:
                raise UnusualPageError("a dictionary page behind other pages")
            yield page
            page = pages.next_page()
            num_values = page.header.num_values
            if page.header.is_dictionary:
                raise UnusualPageError("two dictionary pages")
        if not 0 < num_values <= missing or (is_first and num_values < min(missing, chunk.least_values)):
            raise UnusualPageError(f"a page of {num_values} values where {missing} are left")
        missing -= num_values
        is_first = False
        yield page


def _iter_unpacked(pages: ChunkPages, chunk: StoredChunk) -> Iterator[tuple[_Block, memoryview]]:
    """Yield each page's block and its decompressed bytes: two pages are decompressed together where that is faster."""
    blocks = (_find_block(page, chunk) for page in _iter_pages(pages, chunk))
    for block in blocks:
        other = next(blocks, None) if can_pair(block.codec, block.size) else None
        if other is not None and can_pair(other.codec, other.size):
            unpacked = decompress_pair(block.data, block.size, other.data, other.size)
            yield block, unpacked[0]
            yield other, unpacked[1]
            continue
        yield block, decompress(block.data, block.codec, block.size)
        if other is not None:
            yield other, decompress(other.data, other.codec, other.size)


def _find_block(page: Page, chunk: StoredChunk) -> _Block:
    """Return the compressed part of a page."""
    header, body = page.header, page.body
    if header.is_dictionary or header.version == 1:
        if not header.is_dictionary and min(header.encoding, header.level_encoding, header.repeat_encoding) < 0:
            raise UnusualPageError("a header without encodings")
        return _Block(header, body[:0], body[:0], body, chunk.codec, header.unpacked_bytes)
    first, end = header.repeat_bytes, header.repeat_bytes + header.level_bytes
    if min(header.repeat_bytes, header.level_bytes) < 0 or end > len(body):
        raise UnusualPageError("levels beyond the page")
    if (first and len(chunk.list_levels) == 1) or (end > first and not chunk.max_definition):
        raise UnusualPageError("levels of another kind of column")
    codec = chunk.codec if header.compressed or chunk.denies_compression else UNCOMPRESSED
    return _Block(header, body[:first], body[first:end], body[end:], codec, header.unpacked_bytes - end)


def _split_levels(block: _Block, unpacked: memoryview, chunk: StoredChunk) -> tuple[memoryview, memoryview, memoryview]:
    """Return repetition levels, definition levels and encoded values of a data page."""
    header = block.header
    if header.version == 2:
        return block.repetition, block.definition, unpacked
    repetition, unpacked = _cut_runs(unpacked, len(chunk.list_levels) > 1, header.repeat_encoding)
    return repetition, *_cut_runs(unpacked, chunk.max_definition > 0, header.level_encoding)


def _cut_runs(body: memoryview, exist: bool, encoding: int) -> tuple[memoryview, memoryview]:
    """Return the levels that a page of version 1 begins with, and what follows them."""
    if not exist:
        return body[:0], body
    end = 4 + int.from_bytes(body[:4], "little")
    if encoding != RLE or not 4 <= end <= len(body):
        raise UnusualPageError(f"levels of encoding {encoding}")
    return body[4:end], body[end:]


def _plain_values(
    values: memoryview, count: int, chunk: StoredChunk, used: np.ndarray | None = None
) -> Iterator[pa.Array | Keys]:
    """Yield plain-encoded values, or those that are used; check that they fill their bytes."""
    validity = None if used is None else np.packbits(used, bitorder="little")
    if chunk.physical == "BYTE_ARRAY":
        width = measure_byte_arrays(values, count)
        offsets = None if width else locate_byte_arrays(values, count)
        for start in range(0, count, PIECE_VALUES):
            length = min(PIECE_VALUES, count - start)
            if offsets is None:
                yield Keys.fixed(values, width, length, start, validity, lead=_PREFIX_BYTES)
            else:
                yield Keys.variable(offsets, values, length, start, validity, lead=_PREFIX_BYTES)
        return
    arrow = chunk.arrow
    if len(values) != count * arrow.byte_width:
        raise UnusualPageError(f"{len(values)} bytes of {count} values")
    if not count:
        return
    data = np.frombuffer(values, np.uint8)
    if chunk.aligned and data.ctypes.data % 8:
        data = data.copy()
    bits = None if validity is None else pa.py_buffer(validity)
    yield pa.Array.from_buffers(arrow, count, [bits, pa.py_buffer(data)])
