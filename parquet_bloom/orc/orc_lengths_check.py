"""Validate lengths of strings and lists before ORC's C++ library reads values.

The library does not check them: negative or too large lengths make it read out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.decode.orc_lengths import sum_lengths
from ..errors import MalformedOrcError
from ..storage import Source
from .orc_compression import Compression
from .orc_schema import KINDS
from .stripes import DATA, DICTIONARY_DATA, LENGTH, StripeFooter

_MAX_BYTES = 1 << 62
_MAX_ITEMS = (1 << 31) - 1  # of all lists of a stripe: a limit of pyarrow
_ITEM_KINDS = (KINDS.index("LIST"), KINDS.index("MAP"))
_DICTIONARIES, _SECOND = (1, 3), (2, 3)  # encodings with a dictionary, and with integers of version 2

# The library allocates memory for all strings and items at once. Up to these sizes that is harmless; beyond, the
# streams of the values are decompressed to count their bytes.
_FEW_BYTES, _FEW_ITEMS = 1 << 26, 1 << 23
_USUAL_RATIO = 100  # of compression: more is rare
_MAX_ITEMS_PER_BYTE = 520  # the most that run-length encoding reaches, for booleans


def find_length_problem(
    source: Source,
    compression: Compression,
    types: Sequence[Mapping[str, Any]],
    footer: StripeFooter,
    columns: Iterable[int],
) -> str | None:
    """Return why the lengths of a stripe's columns, given by their ids, are invalid; None if they are valid."""
    checked = [column for column in columns if (LENGTH, column) in footer.value_streams]
    streams = source.read_ranges([footer.value_streams[LENGTH, column] for column in checked])
    for column, packed in zip(checked, streams, strict=True):
        encoding = footer.column_encodings.get(column, 0)
        of_items = types[column].get("kind", 0) in _ITEM_KINDS
        kind = DICTIONARY_DATA if encoding in _DICTIONARIES else DATA
        location = footer.value_streams.get((kind, column), (0, 0))
        most = _MAX_ITEMS if of_items else location[1] if compression.name == "none" else _MAX_BYTES
        try:
            total = sum_lengths(compression.plain(packed), encoding in _SECOND, most)
            if of_items and total > _FEW_ITEMS:
                descendants = {*_list_descendants(types, types[column].get("children", []))}
                locations = [
                    location for (_, column_id), location in footer.value_streams.items() if column_id in descendants
                ]
                num_bytes = max((compression.num_bytes(data) for data in source.read_ranges(locations)), default=total)
                if total > num_bytes * _MAX_ITEMS_PER_BYTE:
                    return f"the lengths in column {column} are invalid: {total} items in {num_bytes} bytes"
            elif not of_items and total > max(_FEW_BYTES, _USUAL_RATIO * location[1]):
                (data,) = source.read_ranges([location])
                if total > (num_bytes := compression.num_bytes(data)):
                    return (
                        f"the lengths in column {column} are invalid: they add up to {total} bytes,"
                        f" the texts have {num_bytes}"
                    )
        except (MalformedOrcError, ValueError) as error:
            problem = error.problem if isinstance(error, MalformedOrcError) else str(error)
            return f"the lengths in column {column} cannot be read: {problem}"
    return None


def list_columns(types: Sequence[Mapping[str, Any]], names: Iterable[str] | None) -> list[int]:
    """Return the ids of the columns with these names and of all their descendants; all for None."""
    if names is None:
        return list(range(len(types)))
    requested = set(names)
    root = types[0] if types else {}
    children = zip(root.get("children", []), root.get("names", []), strict=False)
    return _list_descendants(types, [child for child, name in children if name.decode("utf-8", "replace") in requested])


def _list_descendants(types: Sequence[Mapping[str, Any]], columns: Iterable[int]) -> list[int]:
    """Return these columns and all their descendants."""
    pending, result = list(columns), []
    while pending:
        column = pending.pop()
        result.append(column)
        pending += types[column].get("children", [])
    return result
