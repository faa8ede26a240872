"""Pages that are given as bytes, searched and scanned by the compiled modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parquet_bloom.file.pages.chunk_batch import ChunkBatch
from parquet_bloom.file.pages.decompress import decompress
from parquet_bloom.file.pages.fetched_ranges import FetchedRanges
from parquet_bloom.metadata.page_decode import StoredColumn
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.metadata.page_scan import ChunkScan

from .servers.in_memory import InMemory

PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
_DICTIONARY_PAGE, _DATA_PAGE_V2 = 2, 3


def search_chunk(
    pages: bytes, column: StoredColumn, num_rows: int, num_values: int, targets: Sequence[bytes], codec: int = 0
) -> list[int]:
    """Return the rows of a column chunk that have one of some values."""
    table = np.array([[0, 0, len(pages), num_rows, codec, num_values, 0]], np.int64)
    batch = ChunkBatch(FetchedRanges(InMemory(pages, "")), decompress)
    found = batch.search(table, column, Targets([*targets]), max(num_rows, 0))
    assert found is not None
    assert found[0].tolist() == [len(found[1])]
    return found[1].tolist()


def scan_page(
    column: StoredColumn,
    counts: tuple[int, int],
    repetition: bytes,
    definition: bytes,
    values: bytes = b"",
    entries: bytes | None = None,
    missing: tuple[int, int] = (0, 0),
) -> tuple[int | None, NDArray[np.uint8] | None]:
    """Scan a chunk of one page of version 2, uncompressed.

    Parameters
    ----------
    counts : of its values, nulls included, and of its rows.
    entries : the dictionary, of values of one byte; None without one, and the values are plain.
    missing : values and rows that the chunk should have besides.

    Returns
    -------
    How many values are not null, if they are plain; and which entries are used, if there is a dictionary.
    """
    body = repetition + definition + values
    encoding = PLAIN if entries is None else RLE_DICTIONARY
    levels = len(repetition), len(definition)
    page = [0, 0, len(body), _DATA_PAGE_V2, counts[0], encoding, len(body), RLE, *levels, 0, RLE, 0, counts[1]]
    scan = ChunkScan(column, 0, False, counts[0] + missing[0], counts[1] + missing[1], decompress)
    if entries is not None:
        size = len(entries)
        dictionary = [0, 0, size, _DICTIONARY_PAGE, size, PLAIN, size, *[-1] * 7]
        assert scan.scan(memoryview(entries), np.array([dictionary], np.int64), 0) == (1, [])
    _, found = scan.scan(memoryview(body), np.array([page], np.int64), 0)
    found += scan.finish()
    return (found[0][1] if found else None), scan.used


def make_column(least: Any, max_definition: int, width: int = 8) -> StoredColumn:
    return StoredColumn(width, [*map(int, least)], max_definition)
