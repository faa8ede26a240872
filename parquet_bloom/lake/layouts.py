"""The two layouts of a part, and the functions that write, read and merge each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.index.cuckoo import MOST_BUCKETS
from ..errors import BrokenIndexError, ParquetBloomError
from ..predicate.key_expression import is_of_grams, parse_key
from ..storage import Entry
from .cuckoo_reader import CuckooReader
from .cuckoo_writer import CuckooWriter
from .cuckoo_writer import merge as merge_cuckoo
from .index_part import PartInfo, PartReader, PartWriter
from .postings_reader import PostingsReader
from .postings_reader import merge as merge_postings
from .postings_writer import PartShape, PostingsWriter

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

POSTINGS, CUCKOO = "postings", "cuckoo"
LAYOUTS = (POSTINGS, CUCKOO)

_ENTRIES_A_SUB_BUCKET = 12
MOST_PREFIX_BITS = 40
_GRAM_PREFIX_BITS = 28  # a question asks for several grams: a unit that has one of them by chance has not the others
_FREQUENT_SHARE = 8  # a gram in more than one of so many units tells too little to list them

DEFAULT_EXPECTED_VALUES = 1_000_000_000
DEFAULT_REMAINDER_BITS = 8
DEFAULT_FINGERPRINT_BITS = 16
DEFAULT_VALUES_A_UNIT = 100_000
_SLOTS_A_BUCKET, _OCCUPANCY = 3, 0.88


def make_settings(
    layout: str,
    remainder_bits: int | None = None,
    fingerprint_bits: int | None = None,
    expected_values: int | None = None,
    num_buckets: int | None = None,
    unit_values: int = DEFAULT_VALUES_A_UNIT,
) -> dict[str, int]:
    """Return the settings of a new index.

    Parameters
    ----------
    unit_values : values to expect of a unit for the layout "cuckoo", where `expected_values` are not given.

    Raises
    ------
    ParquetBloomError
        The layout does not exist, or a setting does not apply to it, or is out of range.
    """
    numbers = {
        "remainder_bits": remainder_bits,
        "fingerprint_bits": fingerprint_bits,
        "expected_values": expected_values,
        "num_buckets": num_buckets,
    }
    for name, number in numbers.items():
        if number is not None and type(number) is not int:
            raise ParquetBloomError(f"{name} must be an integer, got {number!r}")
    if layout == POSTINGS:
        if fingerprint_bits is not None or num_buckets is not None:
            raise ParquetBloomError("fingerprint_bits and num_buckets are of the layout 'cuckoo'")
        expected = DEFAULT_EXPECTED_VALUES if expected_values is None else expected_values
        remainder = DEFAULT_REMAINDER_BITS if remainder_bits is None else remainder_bits
        if not 1 <= expected <= 10**13:
            raise ParquetBloomError(f"expected_values lie between 1 and 10**13, not at {expected}")
        if not 0 <= remainder <= 24:
            raise ParquetBloomError(f"remainder_bits lie between 0 and 24, not at {remainder}")
        bits = math.ceil(math.log2(max(1.0, expected / _ENTRIES_A_SUB_BUCKET))) + remainder
        return {"prefix_bits": min(max(bits, 8), MOST_PREFIX_BITS)}
    if layout == CUCKOO:
        if remainder_bits is not None:
            raise ParquetBloomError("remainder_bits are of the layout 'postings'; here it is fingerprint_bits")
        bits = DEFAULT_FINGERPRINT_BITS if fingerprint_bits is None else fingerprint_bits
        if bits not in (8, 12, 16, 24):
            raise ParquetBloomError(f"fingerprint_bits are 8, 12, 16 or 24, not {bits}")
        if num_buckets is None:
            values = unit_values if expected_values is None else expected_values
            num_buckets = max(1, round(values / (_SLOTS_A_BUCKET * _OCCUPANCY)))
        if not 1 <= num_buckets <= MOST_BUCKETS:
            raise ParquetBloomError(f"num_buckets lie between 1 and {MOST_BUCKETS:,}, not at {num_buckets}")
        return {"num_buckets": num_buckets, "fingerprint_bits": bits}
    raise ParquetBloomError(f"layout is 'postings' or 'cuckoo', not {layout!r}")


def parse_columns(columns: object) -> tuple[str, ...]:
    """Return a caller's columns, or expressions over them, as a tuple; raise ParquetBloomError if they are invalid."""
    given = tuple(columns) if isinstance(columns, Iterable) and not isinstance(columns, str) else (columns,)
    names = [name for name in given if isinstance(name, str) and name]
    if not given or len(set(names)) < len(given):
        raise ParquetBloomError("columns are one or more different names")
    keys = tuple(map(parse_key, names))
    if len(set(keys)) < len(keys):
        raise ParquetBloomError("columns are one or more different names")
    return keys


def require_layout_for(layout: str, columns: Sequence[str]) -> None:
    """Raise ParquetBloomError if a layout does not serve one of the columns."""
    grams = next(filter(is_of_grams, columns), None)
    if layout != POSTINGS and grams is not None:
        raise ParquetBloomError(f"grams are of the layout 'postings', not {layout!r}", column=grams)


def most_units(layout: str, settings: Mapping[str, int]) -> int:
    """Return the largest number of units of a segment."""
    return 2 ** (64 - settings["prefix_bits"]) - 2 if layout == POSTINGS else 2**32 - 2


def find_prefix_bits(settings: Mapping[str, int], column: str) -> int:
    """Return how many bits of a hash the postings of a column keep."""
    bits = settings["prefix_bits"]
    return min(bits, _GRAM_PREFIX_BITS) if is_of_grams(column) else bits


def find_listed_share(column: str) -> int:
    """Return of how many units one may hold a value, for all of them to be listed; 0 for any number."""
    return _FREQUENT_SHARE if is_of_grams(column) else 0


def make_shape(settings: Mapping[str, int], column: str, num_units: int) -> PartShape:
    """Return the form of a part of a column's postings, of whatever hashes."""
    prefix_bits, listed_share = find_prefix_bits(settings, column), find_listed_share(column)
    return PartShape(prefix_bits, num_units, listed_share=listed_share)


def writer(
    layout: str, settings: Mapping[str, int], column: str, path: str, filesystem: FileSystem | None, memory_limit: int
) -> PartWriter:
    """Return the writer of a new part of a column."""
    if layout == POSTINGS:
        prefix_bits, listed_share = find_prefix_bits(settings, column), find_listed_share(column)
        return PostingsWriter(path, filesystem, prefix_bits, memory_limit, listed_share=listed_share)
    return CuckooWriter(
        path,
        filesystem,
        num_buckets=settings["num_buckets"],
        fingerprint_bits=settings["fingerprint_bits"],
        memory_limit=memory_limit,
    )


def reader(
    layout: str,
    settings: Mapping[str, int],
    column: str,
    path: str,
    filesystem: FileSystem | None,
    info: PartInfo,
    num_units: int,
    entry: Entry | None = None,
) -> PartReader:
    """Open the reader of a part, which has to be what the manifest says of it.

    Parameters
    ----------
    layout, settings : the index's.
    info : the file's entry in the manifest.
    num_units : units of the segment.
    entry : its entry in a listing, if there is one.

    Raises
    ------
    BrokenIndexError, StorageError
        The file is missing or damaged, or the manifest says something else of it than it does itself.
    """
    if layout == POSTINGS:
        few = min(info.num_entries, info.num_bytes)
        postings = PostingsReader(path, filesystem, info.num_bytes, entry=entry, num_entries=few)
        stored = postings.info
        found = {
            "prefix_bits": (find_prefix_bits(settings, column), postings.prefix_bits),
            "num_entries": (info.num_entries, stored.num_entries),
            "first": (info.first, stored.first),
            "last": (info.last, stored.last),
            "num_units": (num_units, postings.num_units),
        }
        return _confirm(postings, path, found)
    if layout == CUCKOO:
        cuckoo = CuckooReader(path, filesystem, info.num_bytes, entry)
        found = {
            "num_buckets": (settings["num_buckets"], cuckoo.layout.num_buckets),
            "fingerprint_bits": (settings["fingerprint_bits"], cuckoo.layout.fingerprint_bits),
            "num_entries": (info.num_entries, cuckoo.num_entries),
            "first": (info.first, 0),
            "last": (info.last, 2**64 - 1),
            "num_units": (num_units, cuckoo.num_units),
        }
        return _confirm(cuckoo, path, found)
    raise BrokenIndexError(f"layout {layout!r} is not known", path=path)


def _confirm(reader: PartReader, path: str, found: Mapping[str, tuple[int, int]]) -> PartReader:
    """Return a reader if the manifest says the same numbers as the part itself; else raise BrokenIndexError."""
    for name, (said, stored) in found.items():
        if said != stored:
            reader.close()
            raise BrokenIndexError(f"the manifest says that its {name} is {said}, not {stored}", path=path)
    return reader


def merge(
    layout: str,
    settings: Mapping[str, int],
    column: str,
    parts: Sequence[tuple[PartReader, NDArray[np.int64]]],
    path: str,
    filesystem: FileSystem | None,
    num_units: int,
    memory_limit: int,
) -> PartInfo:
    """Merge parts of a column into one; each comes with the new number of every unit, -1 for dropped ones."""
    if layout == POSTINGS:
        postings = [(reader, remap) for reader, remap in parts if isinstance(reader, PostingsReader)]
        return merge_postings(postings, path, filesystem, make_shape(settings, column, num_units), memory_limit)
    cuckoo = [(reader, remap) for reader, remap in parts if isinstance(reader, CuckooReader)]
    return merge_cuckoo(cuckoo, path, filesystem, num_units=num_units, memory_limit=memory_limit)
