"""`iter_occurring`: the values that occur in a column chunk, taken from its pages as they are stored.

For building filters values need neither an order nor their nulls. So a page is decompressed, its levels are counted,
and its plain-encoded values are hashed in their place; of a dictionary, those that are used. Only pages of the usual
kinds that agree with their headers are read so. Everything else, damage included, is left to pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.decode.snappy import Scratch
from ...core.keys import Keys
from ...errors import UnusualPageError
from ...metadata.footer import REPEATED, REQUIRED, Leaf, read_repetition
from ...metadata.page_scan import ChunkScan, locate_byte_arrays, measure_byte_arrays
from .decompress import decompress

ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""The encodings of chunks that can be read so: of values, and of levels."""

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


def iter_occurring(
    windows: Iterator[tuple[memoryview, NDArray[np.int64]]], chunk: StoredChunk, scratch: Scratch | None = None
) -> Iterator[pa.Array | Keys]:
    """Yield every value that occurs in a column chunk, at least once: keys of byte arrays, storage arrays of others.

    Parameters
    ----------
    windows : the chunk's pages, by `PageWalk.windows`.
    scratch : memory for decompressed pages, or None.

    Raises
    ------
    MalformedFooterError
        pyarrow has to read the chunk; what was yielded before occurs in it, as far as its pages can be read.
    """
    scan = ChunkScan(
        -1 if chunk.codec is None else chunk.codec,
        chunk.denies_compression,
        0 if chunk.physical == "BYTE_ARRAY" else chunk.arrow.byte_width,
        chunk.max_definition,
        chunk.list_levels,
        chunk.num_values,
        chunk.num_rows,
        decompress,
        scratch,
    )
    for data, pages in windows:
        first = 0
        while first < len(pages):
            first, found = scan.scan(data, pages, first)
            for values, count in found:
                yield from _plain_values(values, count, chunk)
        del data, found  # so that their memory can be used again
    for values, count in scan.finish():
        yield from _plain_values(values, count, chunk)
    if scan.used is not None:
        yield from _plain_values(scan.dictionary, len(scan.used), chunk, scan.used)


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
