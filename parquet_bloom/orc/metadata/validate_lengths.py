"""Lengths of texts and lists, looked at before ORC's C++ library reads values by them.

It believes them: by a negative one, or by those that are more than there is, it reads memory that is not its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.decode.orc_lengths import sum_lengths
from ...errors import MalformedOrcError
from ...storage import Source
from .compression import Compression
from .schema import KINDS
from .stripes import DATA, DICTIONARY_DATA, LENGTH, StripeFooter

_MAX_BYTES = 1 << 62
_MAX_ITEMS = (1 << 31) - 1  # of all lists of a stripe: pyarrow counts no further
_ITEM_KINDS = (KINDS.index("LIST"), KINDS.index("MAP"))
_DICTIONARIES, _SECOND = (1, 3), (2, 3)  # encodings: with a dictionary, and with numbers of version 2

# Room is made for all texts and items at once. Up to so much nobody minds; beyond, what they are in is unpacked, and
# counted.
_FEW_BYTES, _FEW_ITEMS = 1 << 26, 1 << 23
_USUAL_RATIO = 100  # bytes that a byte becomes: more is rare
_MAX_ITEMS_PER_BYTE = 520  # most numbers that runs have for each byte: of booleans


def find_length_problem(
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
        of_items = types[column].get("kind", 0) in _ITEM_KINDS
        held = DICTIONARY_DATA if encoding in _DICTIONARIES else DATA
        place = footer.places.get((held, column), (0, 0))
        most = _MAX_ITEMS if of_items else place[1] if compression.name == "none" else _MAX_BYTES
        try:
            total = sum_lengths(compression.plain(packed), encoding in _SECOND, most)
            if of_items and total > _FEW_ITEMS:
                below = {*_list_descendants(types, types[column].get("children", []))}
                places = [place for (_, one), place in footer.places.items() if one in below]
                there = max((compression.num_bytes(data) for data in source.read_ranges(places)), default=total)
                if total > there * _MAX_ITEMS_PER_BYTE:
                    return f"the lengths in column {column} cannot be: {total} items in {there} bytes"
            elif not of_items and total > max(_FEW_BYTES, _USUAL_RATIO * place[1]):
                (data,) = source.read_ranges([place])
                if total > (there := compression.num_bytes(data)):
                    return f"the lengths in column {column} cannot be: they are {total} bytes, the texts {there}"
        except (MalformedOrcError, ValueError) as error:
            problem = error.problem if isinstance(error, MalformedOrcError) else str(error)
            return f"the lengths in column {column} cannot be read: {problem}"
    return None


def list_columns(types: Sequence[Mapping[str, Any]], names: Iterable[str] | None) -> list[int]:
    """The numbers of the columns of some names, and of all below them; None for all."""
    if names is None:
        return list(range(len(types)))
    wanted = set(names)
    root = types[0] if types else {}
    told = zip(root.get("children", []), root.get("names", []), strict=False)
    return _list_descendants(types, [child for child, name in told if name.decode("utf-8", "replace") in wanted])


def _list_descendants(types: Sequence[Mapping[str, Any]], columns: Iterable[int]) -> list[int]:
    """These columns and all below them."""
    waiting, found = list(columns), []
    while waiting:
        column = waiting.pop()
        found.append(column)
        waiting += types[column].get("children", [])
    return found
