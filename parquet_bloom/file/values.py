"""A column chunk's stored values, streamed as hashes.

pyarrow decodes the pages, but through a footer of ours that shows the column without its annotations (see
`make_physical_view`): what arrives are the stored bytes, whatever a decode to dates, decimals or nanoseconds would
have hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import UnreadableColumnError
from ..hashing import arrow as arrays
from ..hashing.column_type import (
    JULIAN_EPOCH_DAY,
    LONGEST_DECIMAL,
    NANOS_PER_DAY,
    ColumnType,
    Kind,
    integer_range,
)
from ..metadata.footer import Footer, Leaf
from ..metadata.footer_rewrite import make_physical_view
from ..storage import Source
from .columns import type_of
from .fingerprint import StreamedChunk
from .page_checks import CheckedPages, PageClaimError, require_pages
from .pages.buffered_chunk import BufferedChunk, BufferedChunkFile

BATCH_ROWS = 1 << 13  # decoded at once: few enough to stay in the near caches until they are hashed
DICTIONARY_ROWS = 1 << 16  # where only numbers are decoded
DICTIONARY_ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
DICTIONARY_BYTES = (
    3  # a value, dictionary included: one that is stored as such takes 4 and more (its length, its bytes)
)
WHOLE_BYTES = 1 << 20  # of a column chunk that is read at once
BUFFER_BYTES = 1 << 17  # read at once of a longer one: it need not fit in memory
SLACK_BYTES = 100  # that pyarrow allows a chunk by parquet-mr before 1.2.9, which did not count a dictionary's header
DISTANT_BUFFER_BYTES = 1 << 23  # both, of files that are not local, where it is the number of requests that takes time

Chunk = BufferedChunk | StreamedChunk | None
"""What is known of a column chunk's bytes, or wants to know them."""


class ColumnReader:
    """Reads one column of a file as storage arrays (see `hashing.arrays`). Several threads may use one.

    Parameters
    ----------
    source, footer : the file.
    leaf : the column.
    page_sizes : lengths of all column chunks' pages where the footer gives others; None where it does not.
    """

    def __init__(self, source: Source, footer: Footer, leaf: Leaf, page_sizes: np.ndarray | None = None):
        self.leaf = leaf
        self.column_type = type_of(leaf)
        self._source = source
        self._footer = footer
        try:
            self._metadata = pq.read_metadata(pa.BufferReader(make_physical_view(footer, leaf, page_sizes)))
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable_error(str(error)) from error

    def _unreadable_error(self, reason: str, row_group: int | None = None) -> UnreadableColumnError:
        problem = f"cannot be read: {reason.splitlines()[0] if reason else 'no reason given'}"
        return UnreadableColumnError(problem, path=self._source.name, row_group=row_group, column=self.leaf.name)

    def batches(self, row_group: int, chunk: Chunk = None) -> Iterator[pa.Array]:
        """The values of a row group in file order, 8,192 rows at a time; those of lists one behind the other.

        Parameters
        ----------
        chunk : bytes of the column chunk that have been read already, so that they are not read again, or what takes
            them as they come by; None for neither.

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or hold other than the announced number of rows.
        """
        for array in self._decode(row_group, BATCH_ROWS, [], chunk):
            yield arrays.leaf_values(array)

    def _decode(
        self, row_group: int, batch_rows: int, dictionaries: list[str], chunk: Chunk = None
    ) -> Iterator[pa.Array]:
        num_rows = 0
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
                for batch in file.iter_batches(batch_rows, row_groups=[row_group], use_threads=False):
                    num_rows += batch.num_rows
                    yield batch.column(0)
        except (pa.ArrowException, OSError, PageClaimError) as error:
            raise self._unreadable_error(str(error), row_group) from error
        if num_rows != self._footer.num_rows_of(row_group):
            raise self._unreadable_error(f"{num_rows} rows instead of {self._footer.num_rows_of(row_group)}", row_group)

    def _open_checked(self, row_group: int, chunk: Chunk) -> tuple[pa.NativeFile, int]:
        """A file whose pages of a row group claim no more than there is, and how many bytes pyarrow is to buffer.

        What is not buffered (0) is read whole, and pages are cut out of it, so that claims take no memory.
        """
        told = self._metadata.row_group(row_group).column(0)
        start, size = told.data_page_offset, told.total_compressed_size
        if told.has_dictionary_page and 0 < told.dictionary_page_offset < start:
            start = told.dictionary_page_offset
        distant = self._source.path is None
        end = start + size + (SLACK_BYTES if _omits_dictionary_header(self._footer.created_by) else 0)
        if 0 <= start <= start + size <= self._source.size and size <= (
            DISTANT_BUFFER_BYTES if distant else WHOLE_BYTES
        ):
            return self._open(chunk), 0
        if distant:
            pages = CheckedPages(self._open(chunk), start, end, told.num_values)
            return pa.PythonFile(pages, mode="r"), DISTANT_BUFFER_BYTES
        require_pages(self._source, start, end, told.num_values)
        return self._source.arrow_file(), BUFFER_BYTES

    def _open(self, chunk: Chunk) -> pa.NativeFile:
        return (
            self._source.arrow_file()
            if chunk is None
            else pa.PythonFile(BufferedChunkFile(self._source, chunk), mode="r")
        )

    def all_null(self, row_group: int) -> bool:
        """Whether a row group has no value but nulls. Reads it up to the first one."""
        return all(array.null_count == len(array) for array in self.batches(row_group))

    def read_occurring(self, row_group: int, chunk: Chunk = None) -> Iterator[pa.Array]:
        """Every value that occurs in a row group, at least once: what filters are built from. Each is of its type.

        Where a dictionary holds the values, they are taken from it, once for many rows. For `chunk` see `batches`.

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or a value is outside its type, so that readers would show another one.
        """
        from_dictionary = self._has_dictionary(row_group)
        for array in self._read_dictionary(row_group, chunk) if from_dictionary else self.batches(row_group, chunk):
            problem = find_value_outside_type(array, self.column_type)
            if problem:
                raise self._unreadable_error(problem, row_group)
            yield array

    def _has_dictionary(self, row_group: int) -> bool:
        """Whether a dictionary holds the values of a row group, or so many that it shows in the column chunk's size.

        Only the time taken hangs on the answer. Writers give a dictionary up when it becomes large; pyarrow would build
        one of the values behind it, which takes longer than to read them as they are.
        """
        if self.leaf.physical != "BYTE_ARRAY":
            return False  # pyarrow has dictionaries of these alone
        chunk = self._metadata.row_group(row_group).column(0)
        small = chunk.total_uncompressed_size <= DICTIONARY_BYTES * chunk.num_values
        # pyarrow makes no dictionary of delta pages, to which writers of version 2 turn when they give theirs up.
        return bool(chunk.has_dictionary_page and small and set(chunk.encodings) <= DICTIONARY_ENCODINGS)

    def _read_dictionary(self, row_group: int, chunk: Chunk) -> Iterator[pa.Array]:
        path = self._metadata.schema.column(0).path
        for array in self._decode(row_group, DICTIONARY_ROWS, [path], chunk):
            values = arrays.leaf_values(array)
            numbers = values.indices.drop_null().to_numpy()
            if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(values.dictionary):
                raise self._unreadable_error("a value's number is not in the dictionary", row_group)
            # Not all of the dictionary: what no row has, be it a leftover, must not be in the filter.
            used = np.bincount(numbers, minlength=len(values.dictionary)) > 0
            yield values.dictionary.filter(pa.array(used))


def _omits_dictionary_header(created_by: str | None) -> bool:
    """Whether a file is by a parquet-mr whose column chunks are longer than they say: PARQUET-816."""
    found = re.match(r"parquet-mr(?: version (\d+)\.(\d+)\.(\d+))?", created_by or "")
    return found is not None and tuple(int(part or 0) for part in found.groups()) < (1, 2, 9)


def find_value_outside_type(array: pa.Array, column_type: ColumnType) -> str | None:
    """Why some stored values are none of their type, or None: a filter over them would not find what readers show."""
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
        nanos = arrays.rows_of(array.drop_null(), 12)[:, :8].copy().view(np.int64)
        if ((nanos < 0) | (nanos >= NANOS_PER_DAY)).any():
            return "it holds INT96 timestamps whose time of day is not within a day"
    return None


def fit_nanoseconds(values: pa.ChunkedArray) -> bool:
    """Whether stored INT96 timestamps are days that nanoseconds of 64 bits, counted from 1970, reach."""
    for array in values.chunks:
        days = arrays.rows_of(array.drop_null(), 12)[:, 8:].copy().view(np.int32)[:, 0].astype(np.int64)
        if (np.abs(days - JULIAN_EPOCH_DAY) > np.iinfo(np.int64).max // NANOS_PER_DAY - 1).any():
            return False
    return True
