"""Whether a stripe's row indexes can be trusted with a seek: ORC's C++ library takes numbers out of them unseen."""

from __future__ import annotations

from collections.abc import Collection

from ...errors import MalformedOrcError
from ...metadata.protobuf import UINT, read_message, read_spans
from .messages import INDEX_ENTRY

PRESENT, DATA, LENGTH, SECONDARY = 0, 1, 2, 5
_ENTRY = {1: ("positions", UINT, True, None)}
_TEXTS = ("STRING", "VARCHAR", "CHAR")
_BLOBS = ("FLOAT", "DOUBLE", "BINARY", "DECIMAL")  # whose DATA are bytes, not runs
_DICTIONARIES = (1, 3)


def count_positions(kind: str, streams: Collection[int], encoding: int, compressed: bool) -> int:
    """How many numbers an entry of a column's row index has, at least. Source: ORC's specification, "Row Index".

    Parameters
    ----------
    kind : of the column; "STRUCT" for the rows themselves.
    streams : kinds of the column's data streams.
    encoding : of the column, as the stripe's footer has it.
    compressed : whether a place in a stream is two numbers: of its chunk, and in that.
    """
    place = 2 if compressed else 1
    in_dictionary = kind in _TEXTS and encoding in _DICTIONARIES
    blob = kind in _BLOBS or (kind in _TEXTS and not in_dictionary)
    of_data = place + (0 if blob else 2 if kind == "BOOLEAN" else 1)
    numbers = {PRESENT: place + 2, DATA: of_data, LENGTH: 0 if in_dictionary else place + 1, SECONDARY: place + 1}
    return sum(count for stream, count in numbers.items() if stream in streams)


def has_positions(stream: bytes, row_groups: int, count: int) -> bool:
    """Whether a row index has an entry for each row group, and each of them so many numbers."""
    try:
        entries = read_spans(stream, INDEX_ENTRY).tolist()
        found = [len(read_message(stream, _ENTRY, start, end).get("positions", ())) for start, end in entries]
    except MalformedOrcError:
        return False
    return len(found) == row_groups and min(found, default=0) >= count
