"""`ColumnReader`: streams the stored values of a column chunk.

pyarrow decodes the pages, but through a footer of ours that shows the column without its annotations (see
`make_physical_view`), so that the result is the stored bytes, which decoding to dates, decimals or nanoseconds could
change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..core.decode.snappy import Scratch
from ..core.keys import Keys
from ..errors import MalformedFooterError, UnreadableColumnError
from ..hashing.arrow import leaf_values, rows_of
from ..hashing.column_type import (
    LONGEST_DECIMAL,
    NANOS_PER_DAY,
    ColumnType,
    Kind,
    integer_range,
)
from ..metadata.footer import Footer, Leaf
from ..metadata.footer_rewrite import make_physical_view
from ..metadata.writer_rules import Doubt
from ..storage import Source
from ..util.arrow_values import from_numpy, to_numpy
from ..util.lazy import late_module
from .columns import type_of
from .fingerprint import StreamedChunk
from .page_checks import CheckedPages, PageClaimError, PageWalk, require_pages, require_value_per_row
from .pages import chunk_values
from .pages.buffered_chunk import BufferedChunk, BufferedChunkFile
from .pages.chunk_values import StoredChunk

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc, pq = late_module("pyarrow.compute"), late_module("pyarrow.parquet")

BATCH_ROWS = 1 << 13  # decoded at once: few enough to stay in the processor's caches until they are hashed
BATCH_BYTES = 1 << 26  # decoded at once, by the chunk's size: values of many megabytes come few at a time
DICTIONARY_ROWS = 1 << 16  # decoded at once where only dictionary indices are
DICTIONARY_BYTES = 3  # per value, dictionary included: a value stored without one takes at least 4, for its length
WHOLE_BYTES = 1 << 20  # column chunks up to this size are read at once
BUFFER_BYTES = 1 << 17  # read at once of a longer chunk, which need not fit in memory
WINDOW_BYTES = 1 << 18  # read at once of pages that are not decoded by pyarrow; larger pages one by one
SLACK_BYTES = 100  # by which pyarrow extends chunks of parquet-mr before 1.2.9, which omits the dictionary's header
DISTANT_BUFFER_BYTES = 1 << 23  # replaces both for remote files, where the number of requests matters

Chunk = BufferedChunk | StreamedChunk | None
"""A column chunk whose bytes are in memory, or one that takes the bytes as they are read."""


class ColumnReader:
    """Reads one column of a file as storage arrays (see `hashing.arrow`). Thread-safe.

    Parameters
    ----------
    source, footer : the file.
    leaf : the column.
    page_sizes : lengths of all column chunks' pages where the footer's are wrong; None where they are right.
    """

    def __init__(self, source: Source, footer: Footer, leaf: Leaf, page_sizes: np.ndarray | None = None):
        self.leaf = leaf
        self.column_type = type_of(leaf)
        self._source = source
        self._footer = footer
        self._scratch = Scratch()
        try:
            self._metadata = pq.read_metadata(pa.BufferReader(make_physical_view(footer, leaf, page_sizes)))
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable_error(str(error)) from error

    def _unreadable_error(self, reason: str, row_group: int | None = None) -> UnreadableColumnError:
        problem = f"cannot be read: {reason.splitlines()[0] if reason else 'no reason given'}"
        return UnreadableColumnError(problem, path=self._source.name, row_group=row_group, column=self.leaf.name)

    def batches(self, row_group: int, chunk: Chunk = None) -> Iterator[pa.Array]:
        """Yield the values of a row group in file order, 8,192 rows at a time; lists are flattened.

        Parameters
        ----------
        chunk : bytes of the column chunk that have been read already, so that they are not read again, or an object
            that takes the bytes as they are read; None for neither.

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or do not hold the declared number of rows.
        """
        for array in self._decode(row_group, BATCH_ROWS, [], chunk):
            yield leaf_values(array)

    def read_zones(self, row_group: int, zone_rows: int, chunk: Chunk = None) -> Iterator[tuple[int, pa.Array]]:
        """Yield the values of each zone of a row group, as storage arrays, in file order; lists are flattened.

        A zone has `zone_rows` consecutive rows, however many values these have; the last one may have fewer. Its
        values may come in several arrays, and of a dictionary each only once an array. For `chunk` see `batches`.

        Yields
        ------
        (number of the zone, some of its values)

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or a value is outside its type.
        """
        dictionaries = [self._metadata.schema.column(0).path] if self._has_dictionary(row_group) else []
        row = 0
        for array in self._decode(row_group, min(zone_rows, BATCH_ROWS), dictionaries, chunk):
            start = 0
            while start < len(array):  # pyarrow may end a batch anywhere
                count = min(len(array) - start, zone_rows - row % zone_rows)
                values = leaf_values(array.slice(start, count))
                if isinstance(values, pa.DictionaryArray):
                    values = self._take_used(values, row_group)
                problem = find_value_outside_type(values, self.column_type)
                if problem:
                    raise self._unreadable_error(problem, row_group)
                yield row // zone_rows, values
                start, row = start + count, row + count

    def _take_used(self, values: pa.DictionaryArray, row_group: int) -> pa.Array:
        """Return the entries of a dictionary that are used, each once."""
        used = to_numpy(values.indices.drop_null().unique())
        if len(used) and not 0 <= used.min() <= used.max() < len(values.dictionary):
            raise self._unreadable_error("a value's number is not in the dictionary", row_group)
        return values.dictionary.take(from_numpy(used))

    def _decode(
        self, row_group: int, batch_rows: int, dictionaries: list[str], chunk: Chunk = None
    ) -> Iterator[pa.Array]:
        num_rows = 0
        require_value_per_row(self._source, self._footer, row_group, self.leaf)
        try:
            opened, buffer_bytes = self._open_checked(row_group, chunk)
            with opened:
                file = pq.ParquetFile(
                    opened,
                    metadata=self._metadata,
                    read_dictionary=dictionaries,
                    pre_buffer=False,
                    buffer_size=buffer_bytes,
                )
                for batch in file.iter_batches(
                    self._limit_rows(row_group, batch_rows), row_groups=[row_group], use_threads=False
                ):
                    num_rows += batch.num_rows
                    yield batch.column(0)
        except (pa.ArrowException, OSError, PageClaimError) as error:
            raise self._unreadable_error(str(error), row_group) from error
        if num_rows != self._footer.num_rows_of(row_group):
            raise self._unreadable_error(f"{num_rows} rows instead of {self._footer.num_rows_of(row_group)}", row_group)

    def _limit_rows(self, row_group: int, batch_rows: int) -> int:
        """Return how many rows are decoded at once: fewer than usual of long values, of which one has to be held."""
        size = self._metadata.row_group(row_group).column(0).total_uncompressed_size
        most = BATCH_BYTES * self._footer.num_rows_of(row_group) // max(1, size)
        return max(1, min(batch_rows, most)) if size > BATCH_BYTES else batch_rows

    def _open_checked(self, row_group: int, chunk: Chunk) -> tuple[pa.NativeFile, int]:
        """Open the file so that pages of a row group cannot claim too much memory; also return pyarrow's buffer size.

        With a buffer size of 0 the chunk is read as a whole and pages are slices of it, so that claims take no memory.
        """
        metadata = self._metadata.row_group(row_group).column(0)
        start, size = self._locate(row_group)
        distant = self._source.path is None
        end = start + size + (SLACK_BYTES if self._omits_dictionary_header else 0)
        if 0 <= start <= start + size <= self._source.size and size <= (
            DISTANT_BUFFER_BYTES if distant else WHOLE_BYTES
        ):
            return self._open(chunk), 0
        if distant:
            pages = CheckedPages(self._open(chunk), start, end, metadata.num_values)
            return pa.PythonFile(pages, mode="r"), DISTANT_BUFFER_BYTES
        require_pages(self._source, start, end, metadata.num_values)
        return self._source.arrow_file(), BUFFER_BYTES

    @property
    def _omits_dictionary_header(self) -> bool:
        """True if column chunks are longer than declared: PARQUET-816."""
        return bool(self._footer.doubts_of(self.leaf) & Doubt.CHUNK_SIZES)

    def _locate(self, row_group: int) -> tuple[int, int]:
        """Return the offset and length of a column chunk's pages."""
        return (
            self._footer.first_page(row_group, self.leaf),
            self._metadata.row_group(row_group).column(0).total_compressed_size,
        )

    def _open(self, chunk: Chunk) -> pa.NativeFile:
        return (
            self._source.arrow_file()
            if chunk is None
            else pa.PythonFile(BufferedChunkFile(self._source, chunk), mode="r")
        )

    def all_null(self, row_group: int) -> bool:
        """Return whether a row group has only nulls. Reads it up to the first value."""
        return all(array.null_count == len(array) for array in self.batches(row_group))

    def read_occurring(self, row_group: int, chunk: Chunk = None) -> Iterator[pa.Array | Keys]:
        """Yield every value that occurs in a row group, at least once, for building filters; check their types.

        Byte arrays may come as keys. Where a dictionary holds the values, they are taken from it, once for many rows.
        For `chunk` see `batches`.

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or a value is outside its type, so that readers would show another value.
        """
        for values in self.read_stored(row_group, chunk):
            problem = None if isinstance(values, Keys) else find_value_outside_type(values, self.column_type)
            if problem:
                raise self._unreadable_error(problem, row_group)
            yield values

    def read_stored(self, row_group: int, chunk: Chunk = None) -> Iterator[pa.Array | Keys]:
        """Yield what `read_occurring` yields, without a check of types: from the pages where that is possible."""
        stored = self._stored_chunk(row_group)
        if stored is not None:
            distant = self._source.path is None
            window = DISTANT_BUFFER_BYTES if distant else WINDOW_BYTES
            read: Callable[[int, int], bytes | memoryview] = self._source.read_at if distant else self._read
            if chunk is not None:
                read = BufferedChunkFile(self._source, chunk).read_at
            walk = PageWalk(stored.start, stored.end, stored.num_values)
            try:
                yield from chunk_values.iter_occurring(walk.windows(read, window, once=distant), stored, self._scratch)
                return
            except MalformedFooterError:
                pass  # pyarrow reads all of it, or reports what is wrong; values that come twice do not matter
        yield from (
            self._read_dictionary(row_group, chunk)
            if self._has_dictionary(row_group)
            else self.batches(row_group, chunk)
        )

    def _read(self, offset: int, length: int) -> memoryview:
        """Read a range of a local file into memory that is used again."""
        out = self._scratch.take(length)
        self._source.read_into(offset, out)
        return out.data

    def _stored_chunk(self, row_group: int) -> StoredChunk | None:
        """Describe a column chunk whose values may be taken from its pages as they are stored; None for others."""
        metadata = self._metadata.row_group(row_group).column(0)
        start, size = self._locate(row_group)
        kind, physical = self.column_type.kind, self.leaf.physical
        if kind is Kind.DECIMAL and physical == "BYTE_ARRAY":  # their lengths have to be checked
            return None
        if (
            physical == "BOOLEAN"
            or not set(metadata.encodings) <= chunk_values.ENCODINGS
            or not 0 < start <= start + size <= self._source.size
            or self._omits_dictionary_header
        ):
            return None
        codec = self._footer.codec(self._footer.chunk(row_group, self.leaf))
        try:
            column = chunk_values.stored_column(self.leaf)
        except MalformedFooterError:  # of lists that are too deep
            return None
        return StoredChunk(
            start,
            start + size,
            metadata.num_values,
            self._footer.num_rows_of(row_group),
            -1 if codec is None else codec,
            self._footer.denies_compression,
            column,
            chunk_values.arrow_of(self.leaf),
            kind is Kind.FLOAT or (kind is Kind.INTEGER and (self.column_type.bits or 64) < 32),
        )

    def _has_dictionary(self, row_group: int) -> bool:
        """Return whether a dictionary holds all or most values of a row group, judging by the column chunk's size.

        The result only affects speed. Writers abandon a dictionary that becomes large; pyarrow would build one of the
        values after it, which takes longer than reading them as they are.
        """
        if self.leaf.physical != "BYTE_ARRAY":
            return False  # pyarrow reads dictionaries of this type only
        chunk = self._metadata.row_group(row_group).column(0)
        small = chunk.total_uncompressed_size <= DICTIONARY_BYTES * chunk.num_values
        # pyarrow makes no dictionary of delta pages, which writers of version 2 use after abandoning a dictionary.
        return bool(chunk.has_dictionary_page and small and set(chunk.encodings) <= chunk_values.ENCODINGS)

    def _read_dictionary(self, row_group: int, chunk: Chunk) -> Iterator[pa.Array]:
        path = self._metadata.schema.column(0).path
        for array in self._decode(row_group, DICTIONARY_ROWS, [path], chunk):
            values = leaf_values(array)
            indices = to_numpy(values.indices.drop_null())
            if len(indices) and not 0 <= indices.min() <= indices.max() < len(values.dictionary):
                raise self._unreadable_error("a value's number is not in the dictionary", row_group)
            # Only the used part of the dictionary: values that no row has must not be in the filter.
            used = np.bincount(indices, minlength=len(values.dictionary)) > 0
            yield values.dictionary.filter(from_numpy(used))


def find_value_outside_type(array: pa.Array, column_type: ColumnType) -> str | None:
    """Return why some stored values are invalid for their type, or None: filters would not match what readers show."""
    if column_type.kind is Kind.INTEGER and (column_type.bits or 64) < 32:
        low, high = integer_range(column_type)
        ends = pc.min_max(array).as_py()
        if ends["min"] is not None and not (low <= ends["min"] and ends["max"] <= high):
            return f"it holds {ends['min']} to {ends['max']}, outside its type"
    if column_type.kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY":
        lengths = pc.min_max(pc.binary_length(array)).as_py()
        if lengths["min"] is not None and not 1 <= lengths["min"] <= lengths["max"] <= LONGEST_DECIMAL:
            return f"it holds decimals of {lengths['min']} to {lengths['max']} bytes"
    if column_type.physical == "INT96":
        nanos = rows_of(array.drop_null(), 12)[:, :8].copy().view(np.int64)
        if ((nanos < 0) | (nanos >= NANOS_PER_DAY)).any():
            return "it holds INT96 timestamps whose time of day is not within a day"
    return None
