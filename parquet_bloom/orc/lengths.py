"""Lengths of texts and lists, looked at before ORC's C++ library reads values by them.

It believes them: by a negative one, or by those that are more than there is, it reads memory that is not its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.orc_lengths import sum_lengths
from ..errors import MalformedOrcError
from ..storage import Source
from .chunks import Compression
from .schema import KINDS
from .stripes import DATA, DICTIONARY_DATA, LENGTH, StripeFooter

_MOST_ITEMS = (1 << 31) - 1  # of all lists of a stripe: pyarrow counts no further
_OF_ITEMS = (KINDS.index("LIST"), KINDS.index("MAP"))
_DICTIONARIES, _SECOND = (1, 3), (2, 3)  # encodings: with a dictionary, and with numbers of version 2


def problem_of(
    source: Source,
    compression: Compression,
    types: Sequence[Mapping[str, Any]],
    footer: StripeFooter,
    columns: Iterable[int],
) -> str | None:
    """Why lengths of a stripe's columns, given by their numbers, cannot be what they say; None if they can."""
    asked = [column for column in columns if (LENGTH, column) in footer.places]
    streams = source.read_ranges([footer.places[LENGTH, column] for column in asked])
    for column, packed in zip(asked, streams, strict=True):
        encoding = footer.column_encodings.get(column, 0)
        most = _MOST_ITEMS
        if types[column].get("kind", 0) not in _OF_ITEMS:
            of_values = DICTIONARY_DATA if encoding in _DICTIONARIES else DATA
            most = compression.most_bytes(footer.places.get((of_values, column), (0, 0))[1])
        try:
            sum_lengths(compression.plain(packed), encoding in _SECOND, most)
        except (MalformedOrcError, ValueError) as error:
            problem = error.problem if isinstance(error, MalformedOrcError) else str(error)
            return f"the lengths in column {column} cannot be read: {problem}"
    return None


def columns_below(types: Sequence[Mapping[str, Any]], names: Iterable[str] | None) -> list[int]:
    """The numbers of the columns of some names, and of all below them; None for all."""
    if names is None:
        return list(range(len(types)))
    wanted = set(names)
    root = types[0] if types else {}
    told = zip(root.get("children", []), root.get("names", []), strict=False)
    waiting = [child for child, name in told if name.decode("utf-8", "replace") in wanted]
    found = []
    while waiting:
        column = waiting.pop()
        found.append(column)
        waiting += types[column].get("children", [])
    return found
