"""The Bloom filter of one column chunk: its location, header and bitset, each validated before use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from ..core.bloom import memory
from ..core.bloom.variants import DETECT, Variant
from ..errors import BrokenFilterError, ParquetBloomError
from ..filter import SplitBlockBloomFilter
from ..hashing.column_type import ColumnType
from ..metadata.filter_header import FilterHeader
from ..metadata.footer import MAGIC, Footer, SchemaLeaf
from ..storage import Source
from ..util.lazy import late_module
from .column_reader import ColumnReader
from .file_columns import type_of

if TYPE_CHECKING:
    from . import drafts
else:
    drafts = late_module("parquet_bloom.file.drafts")


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
    def has_values(self, row_group: int, column: str | SchemaLeaf) -> bool | None: ...
    def column_reader(self, leaf: SchemaLeaf) -> ColumnReader: ...
    def read_headers(self, chunks: Iterable[ChunkFilter]) -> None: ...
    def note_reads(self) -> None: ...


class ChunkFilter:
    """The filter of one column chunk, as located by the footer. Everything is read lazily.

    Attributes
    ----------
    file : the file.
    row_group, column : the column chunk; `column` is the dotted path.
    leaf : the column in the file's schema: two columns may have the same dotted path.
    column_type : type of the column.
    offset : offset of the filter's header in the file, by the footer.
    length : bytes of header and bitset, by the footer; None where it does not say.
    """

    def __init__(self, file: FilterFile, row_group: int, leaf: SchemaLeaf, record: np.void):
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
        """The problem with the filter's location in the footer, or None. Does not read the file."""
        record, start = self._record, self.file.footer.start
        if self.file.footer.filters_apart:
            return None
        if record["external"]:
            return "the column chunk's data is in another file"
        if record["encrypted"]:
            return "the column is encrypted"
        if record["filter_fields"] > 2:
            return "the footer gives the filter's location twice, or not as a number"
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
            The location is impossible, or has no header.
        """
        if isinstance(self._header, BrokenFilterError):
            raise self._header
        return self._header

    @cached_property
    def header_problem(self) -> str | None:
        """The problem with the filter's location or header, or None. Reads the header, not the bitset."""
        if isinstance(self._header, BrokenFilterError):
            return self._header.problem
        header = self._header
        if header.problem:
            return header.problem
        total = header.total_bytes
        if self.length is not None and self.length != total:
            remaining = self.length - header.header_bytes
            return f"header says {header.num_bytes} bytes, the filter's length leaves {remaining}"
        if self.file.footer.filters_apart:
            return None
        end, start = self.offset + total, self.file.footer.start
        if end > start:
            remaining = start - self.offset - header.header_bytes
            return f"header says {header.num_bytes} bytes, {remaining} are left before the footer"
        if self.file._holds_data(self.offset, end):
            return f"header says {header.num_bytes} bytes, which reach into pages or page indexes"
        return self._find_overlap(end)

    def _find_overlap(self, end: int) -> str | None:
        """Return a problem if another filter overlaps this one: the bytes cannot be attributed to either."""
        file = self.file
        first, last = (bisect_left(file._filter_offsets, offset) for offset in (self.offset, end))
        others: list[np.void] = []
        if first and file._filter_reach[first - 1] > self.offset:
            before = file._filter_spans[:first]
            may_reach = before["offset"] + before["length"] > self.offset
            # Of the filters whose length only their headers tell, only the nearest is checked: checking all would read
            # the whole file's headers for one probe, and a filter that reaches further overlaps others itself.
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
        # Copied: in Python's bytes every other block spans two cache lines, and no page is huge.
        return memory.copied(self.file.source.read_at(self.offset + header.header_bytes, header.num_bytes))

    @cached_property
    def problem(self) -> str | None:
        """The reason why the filter cannot be used, or None if it can. Reads the entire filter."""
        if self.header_problem:
            return self.header_problem
        try:
            empty = self._empty
        except ParquetBloomError as error:
            return error.problem
        return (self._empty_problem if empty else None) or self.variant_problem

    def trial(self) -> drafts.Trial:
        """Try the variants that the header allows on values of the column chunk; reads the filter and some pages.

        Raises
        ------
        BrokenFilterError, UnreadableColumnError
        """
        bitset = self._bitset
        values = drafts.read_some_hashes(self.file.column_reader(self.leaf), self.row_group)
        return drafts.Trial.of(self.header, bitset, values)

    @cached_property
    def _detected(self) -> Variant | str:
        """The variant determined from the column's values, or why it cannot be determined."""
        if self.header_problem:
            return self.header_problem
        if not self.column_type.hashable:
            return f"its variant cannot be said: it is over {self.column_type}"
        try:
            if self._empty and not self._empty_problem:
                return drafts.candidates(self.header)[
                    0
                ]  # nothing was inserted: every variant denies everything, correctly
            trial = self.trial()
        except ParquetBloomError as error:
            return f"its variant cannot be said: {error.problem}"
        if self.num_blocks == 1:
            trial = trial.of_single_blocks()
        return trial.problem or trial.fitting[0]

    @property
    def variant_problem(self) -> str | None:
        """The reason why the filter's variant is unknown, or None; always None for files opened under a variant."""
        return self._detected if self.file.variant == DETECT and isinstance(self._detected, str) else None

    @property
    def variant(self) -> Variant:
        """The filter's variant: the one under which the file was opened, or the one determined from values.

        Raises
        ------
        BrokenFilterError
            It cannot be determined; `variant_problem` says why.
        """
        variant = self.file.variant if isinstance(self.file.variant, Variant) else self._detected
        if isinstance(variant, Variant):
            return variant
        raise self._broken(variant)

    @property
    def _empty_problem(self) -> str | None:
        """The problem that the filter has if no bit is set, or None."""
        if self.file.has_values(self.row_group, self.leaf) is False:
            return None
        return "no bit is set, yet the column chunk may hold values"

    @cached_property
    def _empty(self) -> bool:
        return not self._bitset.any()

    @property
    def is_empty_without_null_count(self) -> bool:
        """True if no bit is set and the footer has no null count: the filter is broken unless all values are null."""
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
            The filter cannot be used; `problem` says why.
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
        """Number of complete 32-byte blocks."""
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
