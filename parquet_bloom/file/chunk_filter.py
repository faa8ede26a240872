"""The Bloom filter of one column chunk: its location, header and bitset, each validated before use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from ..core.bloom import memory
from ..core.bloom.variants import DETECT, Variant
from ..errors import BrokenFilterError, ParquetBloomError
from ..filter import SplitBlockBloomFilter
from ..hashing.column_type import ColumnType
from ..metadata.filter_header import FilterHeader
from ..metadata.footer import MAGIC, Footer, Leaf
from ..storage import Source
from .columns import type_of
from .drafts.trial import Trial, candidates, read_some_hashes
from .values import ColumnReader


class FilterFile(Protocol):
    """The open file that a column chunk's filter is read from; `reader.BloomFile` implements it."""

    path: str
    source: Source
    footer: Footer
    variant: Variant | Literal["detect"]
    is_draft: bool

    @property
    def _filter_spans(self) -> np.ndarray: ...
    @property
    def _filter_offsets(self) -> list[int]: ...
    @property
    def _filter_reach(self) -> list[float]: ...
    def _filter_end(self, number: int) -> int: ...
    def _holds_data(self, start: int, end: int) -> bool: ...
    def _read_header_bytes(self, offset: int) -> bytes: ...
    def _read_header(self, data: bytes) -> FilterHeader: ...
    def _find_owner(self, number: int) -> tuple[int, str]: ...
    def has_values(self, row_group: int, column: str | Leaf) -> bool | None: ...
    def column_reader(self, leaf: Leaf) -> ColumnReader: ...
    def read_headers(self, chunks: Iterable[ChunkFilter]) -> None: ...
    def note_reads(self) -> None: ...


class ChunkFilter:
    """The filter of one column chunk, as the footer points to it. Nothing is read before it is asked for.

    Attributes
    ----------
    file : the file.
    row_group, column : which chunk; `column` is the dotted path.
    leaf : the column in the file's schema: two columns may have one dotted path.
    column_type : type of the column.
    offset : where the filter's header begins in the file, by the footer.
    length : bytes of header and bitset, by the footer; None where it does not say.
    """

    def __init__(self, file: FilterFile, row_group: int, leaf: Leaf, record: np.void):
        self.file = file
        self._record = record
        self.row_group = row_group
        self.column = leaf.name
        self.leaf = leaf
        self.column_type: ColumnType = type_of(leaf)
        self.offset = int(record["filter_offset"])
        self.length = None if record["filter_length"] == -1 else int(record["filter_length"])

    def __repr__(self) -> str:
        return f"<ChunkFilter row group {self.row_group}, column '{self.column}', offset {self.offset}>"

    def _broken(self, problem: str) -> BrokenFilterError:
        return BrokenFilterError(problem, path=self.file.path, row_group=self.row_group, column=self.column)

    @cached_property
    def location_problem(self) -> str | None:
        """What is wrong with the place that the footer gives, or None. Found without reading the file."""
        record, start = self._record, self.file.footer.start
        if self.file.footer.filters_apart:
            return None
        if record["external"]:
            return "the column chunk's data is in another file"
        if record["encrypted"]:
            return "the column is encrypted"
        if record["filter_fields"] > 2:
            return "the footer gives the filter's place twice, or not as a number"
        if not len(MAGIC) <= self.offset < start:
            return f"the filter is said to begin at byte {self.offset}; the footer begins at {start}"
        if self.length is not None and not 0 < self.length <= start - self.offset:
            return f"the filter is said to have {self.length} bytes; {start - self.offset} are left before the footer"
        end = self.offset + (self.length or 1)
        if self.file._holds_data(self.offset, end):
            return f"the filter is said to begin at byte {self.offset}, which is inside pages or page indexes"
        return None

    @cached_property
    def _header(self) -> FilterHeader | BrokenFilterError:
        if self.location_problem:
            return self._broken(self.location_problem)
        try:
            return self.file._read_header(self.file._read_header_bytes(self.offset)[: self.length])
        except BrokenFilterError as error:
            return self._broken(error.problem)

    @property
    def header(self) -> FilterHeader:
        """The header in front of the bitset.

        Raises
        ------
        BrokenFilterError
            The place is impossible, or there is no header at it.
        """
        if isinstance(self._header, BrokenFilterError):
            raise self._header
        return self._header

    @cached_property
    def header_problem(self) -> str | None:
        """What is wrong with place or header, or None. Reads the header, not the bitset."""
        if isinstance(self._header, BrokenFilterError):
            return self._header.problem
        header = self._header
        if header.problem:
            return header.problem
        total = header.total_bytes
        if self.length is not None and self.length != total:
            left = self.length - header.header_bytes
            return f"header says {header.num_bytes} bytes, the filter's length leaves {left}"
        if self.file.footer.filters_apart:
            return None
        end, start = self.offset + total, self.file.footer.start
        if end > start:
            left = start - self.offset - header.header_bytes
            return f"header says {header.num_bytes} bytes, {left} are left before the footer"
        if self.file._holds_data(self.offset, end):
            return f"header says {header.num_bytes} bytes, which reach into pages or page indexes"
        return self._find_overlap(end)

    def _find_overlap(self, end: int) -> str | None:
        """Another filter that begins in this one, or reaches into it: whose bytes they are cannot be said."""
        file = self.file
        first, last = (bisect_left(file._filter_offsets, place) for place in (self.offset, end))
        others: list[np.void] = []
        if first and file._filter_reach[first - 1] > self.offset:
            before = file._filter_spans[:first]
            may_reach = before["offset"] + before["length"] > self.offset
            # Of the filters whose length only their headers tell, the nearest one is asked: asking all would read the
            # whole file's headers for one probe, and one that reaches further is itself broken by those in it.
            may_reach[-1:] |= before["length"][-1:] < 0
            others = [span for span in before[may_reach] if file._filter_end(int(span["chunk"])) > self.offset]
        for span in (*others, *file._filter_spans[first:last]):
            record = file.footer.chunks[int(span["chunk"])]
            if (record["row_group"], record["column"]) != (self.row_group, self.leaf.index):
                row_group, column = file._find_owner(int(span["chunk"]))
                return f"its bytes are also those of the filter of row group {row_group}, column '{column}'"
        return None

    @cached_property
    def _bitset(self) -> np.ndarray:
        if self.header_problem:
            raise self._broken(self.header_problem)
        header = self.header
        # Copied: where Python puts bytes, every other block lies in two cache lines, and no page is huge.
        return memory.copied(self.file.source.read_at(self.offset + header.header_bytes, header.num_bytes))

    @cached_property
    def problem(self) -> str | None:
        """Why the filter cannot be used, or None when it can. Reads the whole filter."""
        if self.header_problem:
            return self.header_problem
        try:
            empty = self._empty
        except ParquetBloomError as error:
            return error.problem
        return (self._empty_problem if empty else None) or self.variant_problem

    def trial(self) -> Trial:
        """Try the variants that the header allows on values of the column chunk: reads the filter, and some pages.

        Raises
        ------
        BrokenFilterError, UnreadableColumnError
        """
        bitset = self._bitset
        values = read_some_hashes(self.file.column_reader(self.leaf), self.row_group)
        return Trial.of(self.header, bitset, values)

    @cached_property
    def _detected(self) -> Variant | str:
        """What the filter's own values tell of its variant, or why it cannot be said."""
        if self.header_problem:
            return self.header_problem
        if not self.column_type.hashable:
            return f"its variant cannot be said: it is over {self.column_type}"
        try:
            if self._empty and not self._empty_problem:
                return candidates(self.header)[0]  # nothing was inserted: under each it denies everything, rightly
            trial = self.trial()
        except ParquetBloomError as error:
            return f"its variant cannot be said: {error.problem}"
        if self.num_blocks == 1:
            trial = trial.of_single_blocks()
        return trial.problem or trial.fitting[0]

    @property
    def variant_problem(self) -> str | None:
        """Why the filter's variant cannot be said, or None; always None in a file that was opened under one."""
        return self._detected if self.file.variant == DETECT and isinstance(self._detected, str) else None

    @property
    def variant(self) -> Variant:
        """The variant that the filter is of: the one under which the file was opened, or what the values tell.

        Raises
        ------
        BrokenFilterError
            It cannot be said; `variant_problem` says why.
        """
        found = self.file.variant if isinstance(self.file.variant, Variant) else self._detected
        if isinstance(found, Variant):
            return found
        raise self._broken(found)

    @property
    def _empty_problem(self) -> str | None:
        """What it means when no bit is set."""
        if self.file.has_values(self.row_group, self.leaf) is False:
            return None
        return "no bit is set, yet the column chunk may hold values"

    @cached_property
    def _empty(self) -> bool:
        return not self._bitset.any()

    @property
    def is_empty_without_null_count(self) -> bool:
        """Whether no bit is set and the footer counts no nulls: a broken filter, unless all values are null."""
        unsure = not self.header_problem and self.file.has_values(self.row_group, self.leaf) is None
        try:
            return unsure and self._empty
        except ParquetBloomError:
            return False

    @cached_property
    def filter(self) -> SplitBlockBloomFilter:
        """The filter, bound to the column's type.

        Raises
        ------
        BrokenFilterError
            It cannot be used; `problem` says why.
        """
        if self.problem:
            raise self._broken(self.problem)
        return SplitBlockBloomFilter.from_bitset(self._bitset, self.column_type, variant=self.variant)

    @property
    def num_bytes(self) -> int:
        """Bytes of the bitset, by the header."""
        return self.header.num_bytes

    @property
    def num_blocks(self) -> int:
        """Whole blocks of 32 bytes."""
        return self.num_bytes // 32

    @property
    def fill(self) -> float:
        """Share of set bits."""
        return self.filter.fill

    @property
    def fpp(self) -> float:
        """False-positive probability, from the set bits."""
        return self.filter.fpp

    @property
    def ndv_estimate(self) -> float:
        """Estimated number of distinct values, from the set bits."""
        return self.filter.ndv_estimate
