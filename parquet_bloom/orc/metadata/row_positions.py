"""Validate row indexes before a seek: ORC's C++ library reads their positions without checks."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import MalformedOrcError
from ...metadata.protobuf import UINT, read_message, read_spans
from .messages import INDEX_ENTRY

PRESENT, DATA, LENGTH, SECONDARY = 0, 1, 2, 5
_ENTRY = {1: ("positions", UINT, True, None)}
_TEXTS = ("STRING", "VARCHAR", "CHAR")
_BLOBS = ("FLOAT", "DOUBLE", "BINARY", "DECIMAL")  # kinds whose DATA stream has bytes, not runs
_DICTIONARIES = (1, 3)


def count_positions(kind: str, streams: Collection[int], encoding: int, compressed: bool) -> int:
    """Return the minimum number of positions in an entry of a column's row index.

    Source: ORC specification, "Row Index".

    Parameters
    ----------
    kind : kind of the column; "STRUCT" for the rows themselves.
    streams : kinds of the column's data streams.
    encoding : encoding of the column in the stripe's footer.
    compressed : whether a position in a stream has two numbers: the offset of a chunk, and the offset in it.
    """
    offsets = 2 if compressed else 1
    in_dictionary = kind in _TEXTS and encoding in _DICTIONARIES
    blob = kind in _BLOBS or (kind in _TEXTS and not in_dictionary)
    data_count = offsets + (0 if blob else 2 if kind == "BOOLEAN" else 1)
    numbers = {
        PRESENT: offsets + 2,
        DATA: data_count,
        LENGTH: 0 if in_dictionary else offsets + 1,
        SECONDARY: offsets + 1,
    }
    return sum(count for stream, count in numbers.items() if stream in streams)


def has_positions(stream: bytes, row_groups: int, count: int) -> bool:
    """Return whether a row index has an entry for each row group, with at least `count` positions each."""
    try:
        entries = read_spans(stream, INDEX_ENTRY).tolist()
        counts = [len(read_message(stream, _ENTRY, start, end).get("positions", ())) for start, end in entries]
    except MalformedOrcError:
        return False
    return len(counts) == row_groups and min(counts, default=0) >= count
