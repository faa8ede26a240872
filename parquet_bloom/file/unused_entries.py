"""Dictionaries that hold values of rows which go, though no row of their row group has these values.

Most writers put into a dictionary what they have met in the row group. pyarrow writes the dictionary of a
dictionary-encoded Arrow column whole into each row group, and into each file that it divides a table into. Where such
a row group is copied, erased values would go along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom import sizing
from ..core.bloom.distinct import HashSet
from ..core.bloom.sbbf import check_keys, insert_hashes
from ..core.hash.xxh64 import Keys, hash_keys
from ..errors import UnusualPageError
from ..hashing.arrow_keys import keys_of, leaf_values
from ..metadata.footer import SchemaLeaf
from ..metadata.page_index import PAGE_HEADER_BYTES
from ..util.threads import in_order
from .bloom_file import BloomFile
from .column_reader import DICTIONARY_PAGE, DISTANT_WINDOW_BYTES, WINDOW_BYTES, ColumnReader
from .file_rewrite import Owner
from .page_checks import PageClaimError, PageWalk, ReadRange

_DICTIONARY_ENCODINGS = {2, 8}
_SIEVE_FPP = 1e-6
_Hashes = NDArray[np.uint64]


class _GoingValues:
    """The values of rows that go.

    Attributes
    ----------
    hashes : of them, ascending.
    """

    def __init__(self, hashes: HashSet):
        self.hashes = np.sort(hashes.to_array())
        self._sieve = np.zeros(sizing.size_for(len(hashes), _SIEVE_FPP, True), np.uint8)
        insert_hashes(self._sieve, self.hashes)

    def find(self, values: pa.Array | Keys) -> _Hashes:
        """Return the hashes of those that are among some values, each once."""
        keys = _make_keys(values)
        maybe = check_keys(self._sieve, keys)
        return _common(self.hashes, hash_keys(keys)[maybe]) if maybe.any() else self.hashes[:0]


def find_unused_entries(
    file: BloomFile, kept: Mapping[int, NDArray[np.bool_]], gone: AbstractSet[int], threads: int
) -> set[Owner]:
    """Return the column chunks of row groups that lose no row whose dictionaries have a value of rows that go, unused.

    Where a dictionary cannot be read as it is stored, its chunk is among them, too. Of a copied row group the pages of
    values' numbers are read, which show whether all of the dictionary is used, or the dictionary, whichever is shorter;
    and the whole chunk where its dictionary has a value of rows that go.

    Parameters
    ----------
    kept : {row group: for each of its rows, whether it stays}, of those that lose some.
    gone : row groups that lose all rows.

    Raises
    ------
    UnreadableColumnError
        Pages of row groups that lose rows, or of one that has such a value in its dictionary, cannot be decoded.
    """
    copied = [row_group for row_group in file.row_groups if row_group not in kept and row_group not in gone]
    if not copied or not (kept or gone):
        return set()
    leaves = [leaf for leaf in file.leaves if leaf.physical != "BOOLEAN"]  # which has no dictionaries

    def find(leaf: SchemaLeaf) -> list[int]:
        with_dictionary = [row_group for row_group in copied if _has_dictionary(file, row_group, leaf)]
        return _GoingColumn(file, leaf).find(with_dictionary, kept, gone) if with_dictionary else []

    with in_order(find, leaves, threads) as found:
        return {(number, leaf.index) for leaf, numbers in zip(leaves, found, strict=True) for number in numbers}


def find_oversized_dictionaries(file: BloomFile, row_groups: Iterable[int]) -> set[str]:
    """Return the names of columns whose dictionary has more entries than there are values in a row group.

    Only headers of pages are read; one that cannot be read is no evidence.
    """
    asked = []
    for row_group in row_groups:
        for leaf in file.leaves:
            record = file.record(row_group, leaf)
            if leaf.physical == "BYTE_ARRAY" and record["dictionary_only"]:
                start, size = file.footer.first_page(row_group, leaf), int(record["compressed_size"])
                asked.append((leaf.name, int(record["num_values"]), start, size))
    heads = file.source.read_ranges((start, min(size, PAGE_HEADER_BYTES)) for *_, start, size in asked)
    found = set()
    for (name, num_values, start, size), head in zip(asked, heads, strict=True):
        try:
            pages = PageWalk(start, start + size, num_values).find(head)
        except PageClaimError:
            continue
        if len(pages) and pages[0, 3] == DICTIONARY_PAGE and pages[0, 4] > num_values:
            found.add(name)
    return found


def _has_dictionary(file: BloomFile, row_group: int, leaf: SchemaLeaf) -> bool:
    record = file.record(row_group, leaf)
    return bool(record["dictionary_page_offset"] > 0 or _DICTIONARY_ENCODINGS & {*file.footer.encodings(record)})


class _GoingColumn:
    """One column of a file that is written anew."""

    def __init__(self, file: BloomFile, leaf: SchemaLeaf):
        self._file, self._leaf = file, leaf
        self._reader = ColumnReader(file.source, file.footer, leaf)

    def find(self, copied: Sequence[int], kept: Mapping[int, NDArray[np.bool_]], gone: AbstractSet[int]) -> list[int]:
        copied = [row_group for row_group in copied if not self._is_used_whole(row_group)]
        if not copied:
            return []
        going = self._find_going(kept, gone)
        if not len(going.hashes):
            return []
        return [row_group for row_group, read in self._fetch(copied) if self._has_unused(row_group, going, read)]

    def _is_used_whole(self, row_group: int) -> bool:
        """Return whether a dictionary has no unused entry, if its values' numbers take less to read than it does."""
        record = self._file.record(row_group, self._leaf)
        dictionary_bytes = int(record["data_page_offset"]) - self._file.footer.first_page(row_group, self._leaf)
        is_shorter = 0 < int(record["compressed_size"]) - dictionary_bytes < dictionary_bytes
        return is_shorter and self._file.source.path is not None and self._reader.uses_all_entries(row_group)

    def _find_going(self, kept: Mapping[int, NDArray[np.bool_]], gone: AbstractSet[int]) -> _GoingValues:
        going = HashSet()
        for row_group, keep in kept.items():
            first = 0
            for rows in self._reader.read_rows(row_group):
                goes = pa.array(~keep[first : first + len(rows)])
                going.add(hash_keys(keys_of(leaf_values(rows.filter(goes)))))
                first += len(rows)
        for row_group in gone:
            for values in self._reader.read_stored(row_group):
                going.add(hash_keys(_make_keys(values)))
        return _GoingValues(going)

    def _fetch(self, row_groups: Sequence[int]) -> Iterator[tuple[int, ReadRange]]:
        """Yield row groups, each with what reads its chunk; dictionaries are in memory, and several fetched at once."""
        source = self._file.source
        ranges: dict[int, tuple[int, int]] = {}
        for row_group in row_groups:
            record = self._file.record(row_group, self._leaf)
            start, size = self._file.footer.first_page(row_group, self._leaf), int(record["compressed_size"])
            known = int(record["data_page_offset"]) - start  # not where the footer tells of no dictionary page
            ranges[row_group] = start, known if 0 < known <= size else min(size, WINDOW_BYTES)
        while ranges:
            taken: list[int] = []
            num_bytes = 0
            for row_group, (_, length) in ranges.items():
                if taken and num_bytes + length > DISTANT_WINDOW_BYTES:
                    break
                taken.append(row_group)
                num_bytes += length
            offsets, lengths = np.array([ranges.pop(row_group) for row_group in taken], np.int64).T
            data = source.gather(offsets, lengths).data
            ends = np.cumsum(lengths).tolist()
            for row_group, start, length, end in zip(taken, offsets.tolist(), lengths.tolist(), ends, strict=True):
                yield row_group, _read_first_from(data[end - length : end], start, source.read_at)

    def _has_unused(self, row_group: int, going: _GoingValues, read: ReadRange) -> bool:
        unused = going.hashes[:0]
        try:
            for values in self._reader.read_dictionary(row_group, read):
                unused = np.union1d(unused, going.find(values))
        except UnusualPageError:
            return True  # by pyarrow it can be read, or it is said what is wrong
        for values in self._reader.read_stored(row_group) if len(unused) else ():
            unused = np.setdiff1d(unused, _common(unused, hash_keys(_make_keys(values))), assume_unique=True)
            if not len(unused):
                break
        return len(unused) > 0


def _make_keys(values: pa.Array | Keys) -> Keys:
    return values if isinstance(values, Keys) else keys_of(values)


def _common(ascending: _Hashes, hashes: _Hashes) -> _Hashes:
    """Return the hashes that are among some that ascend, each once."""
    places = np.searchsorted(ascending, hashes)
    places[places == len(ascending)] = 0
    return np.unique(hashes[ascending[places] == hashes])


def _read_first_from(data: memoryview, start: int, read_at: ReadRange) -> ReadRange:
    """Return what reads a file of which the bytes from `start` on are in memory."""

    def read(offset: int, length: int) -> bytes | memoryview:
        inside = start <= offset and offset + length <= start + len(data)
        return data[offset - start : offset - start + length] if inside else read_at(offset, length)

    return read
