"""Search of whole column chunks for the rows with certain values, without decoding the others.

Each page is decompressed, and its stored values are compared where they are: no arrays are made. A page in dictionary
encoding is searched for the numbers of matching entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MalformedFooterError
from ...metadata.footer import Leaf
from ...metadata.page_index import OffsetIndex, PageTable
from ...metadata.page_match import Targets, search_pages
from .decompress import Unsupported
from .rows import byte_width, unpack_pages


class ChunkMatches(NamedTuple):
    """The rows of a column chunk with one of some values.

    Attributes
    ----------
    rows : of the row group, ascending; int64.
    targets : the number of the target that each of them has; int32.
    pages : where the chunk's pages are, by their headers; None if a page has no rows.
    """

    rows: NDArray[np.int64]
    targets: NDArray[np.int32]
    pages: OffsetIndex | None


def search_chunk(
    leaf: Leaf, codec: int | None, data: memoryview, start: int, num_rows: int, targets: Targets
) -> ChunkMatches:
    """Find the rows of a column chunk whose value is, byte for byte, one of some targets.

    Parameters
    ----------
    leaf, codec : a column directly below the root, and the number of its codec.
    data, start : all bytes of the chunk, and their offset in the file.
    num_rows : of the row group.

    Raises
    ------
    Unsupported
        The chunk has to be decoded by pyarrow, which reports what is wrong with it, if anything is.
    """
    try:
        table = PageTable.of(data)
        unpacked, pages, packed_by = unpack_pages(data, table.pages, codec)
        rows, numbers = search_pages(unpacked, pages, byte_width(leaf), packed_by, leaf.required, num_rows, targets)
    except (MalformedFooterError, pa.ArrowException, OSError, ValueError) as error:
        raise Unsupported(str(error)) from error
    return ChunkMatches(rows, numbers, table.make_index(start))
