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
from ...metadata.page_decode import StoredColumn
from ...metadata.page_scan import ChunkScan, locate_byte_arrays, measure_byte_arrays
from .decompress import decompress

ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""The encodings of chunks that can be read so: of values, and of levels."""

PIECE_VALUES = 1 << 15
"""The most byte arrays in one run of keys."""

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}
"""The bytes per value of types that have a width, booleans taken out of their bits; 0 for byte arrays."""

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
    codec : number of its codec; -1 for none that is known.
    denies_compression : as of its file's `Footer`.
    column : how its values are stored.
    arrow : the Arrow type of its stored values; None for byte arrays.
    aligned : whether values have to be aligned in memory, for those who compute with them.
    """

    start: int
    end: int
    num_values: int
    num_rows: int
    codec: int
    denies_compression: bool
    column: StoredColumn
    arrow: pa.DataType | None
    aligned: bool


def arrow_of(leaf: Leaf) -> pa.DataType | None:
    """Return the Arrow type of a column's stored values; None for byte arrays."""
    return None if leaf.physical == "BYTE_ARRAY" else _ARROW.get(leaf.physical) or pa.binary(leaf.length)


def stored_column(leaf: Leaf) -> StoredColumn:
    """Return how the values of a column are stored.

    Raises
    ------
    MalformedFooterError
        They are of an unknown width, or in lists that are too deep.
    """
    width = WIDTHS.get(leaf.physical, leaf.length or None)
    if width is None:
        raise UnusualPageError(f"{leaf.physical} of no bytes")
    levels, definition = [0], 0
    for node in leaf.nodes:
        repetition = read_repetition(node)
        definition += repetition != REQUIRED
        if repetition == REPEATED:
            levels.append(definition)
    return StoredColumn(width, levels, definition)


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
    counts = chunk.num_values, chunk.num_rows
    scan = ChunkScan(chunk.column, chunk.codec, chunk.denies_compression, *counts, decompress, scratch)
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
    arrow = chunk.arrow
    if arrow is None:
        width = measure_byte_arrays(values, count)
        offsets = None if width else locate_byte_arrays(values, count)
        for start in range(0, count, PIECE_VALUES):
            length = min(PIECE_VALUES, count - start)
            if offsets is None:
                yield Keys.fixed(values, width, length, start, validity, lead=_PREFIX_BYTES)
            else:
                yield Keys.variable(offsets, values, length, start, validity, lead=_PREFIX_BYTES)
        return
    if len(values) != count * arrow.byte_width:
        raise UnusualPageError(f"{len(values)} bytes of {count} values")
    if not count:
        return
    data = np.frombuffer(values, np.uint8)
    if chunk.aligned and data.ctypes.data % 8:
        data = data.copy()
    bits = None if validity is None else pa.py_buffer(validity)
    yield pa.Array.from_buffers(arrow, count, [bits, pa.py_buffer(data)])
