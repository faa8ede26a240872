"""`ColumnReader`: the stored values of a column chunk, for hashing.

Building filters takes neither an order of values nor their nulls. So they are taken from the pages as they are stored:
each page is decompressed, its levels are counted, and its plain-encoded values are hashed in their place; of a
dictionary, those that are used. Where values are needed row by row, and of pages that are not decoded so, damage
included, pyarrow decodes them, but through a footer of ours that shows the column without its annotations (see
`make_physical_view`): the result is the stored bytes, which decoding to dates, decimals or nanoseconds could change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..core.decode.snappy import Scratch
from ..core.keys import Keys
from ..errors import UnreadableColumnError, UnusualPageError
from ..hashing.arrow_keys import leaf_values, rows_of
from ..hashing.column_type import LONGEST_DECIMAL, NANOS_PER_DAY, ColumnType, Kind, integer_range
from ..metadata.footer import Footer, SchemaLeaf
from ..metadata.footer_rewrite import make_physical_view
from ..metadata.page_scan import ChunkScan, locate_byte_arrays, measure_byte_arrays
from ..metadata.writer_rules import Doubt
from ..storage import Source
from ..util.arrow_values import from_numpy, to_numpy
from ..util.lazy import late_module
from .file_columns import stored_column, type_of
from .page_checks import (
    PageClaimError,
    PageWalk,
    RangeFile,
    ReadRange,
    find_unknown,
    require_pages,
    require_value_per_row,
)
from .pages.decompress import decompress

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc, pq = late_module("pyarrow.compute"), late_module("pyarrow.parquet")

BATCH_ROWS = 1 << 13  # decoded at once: few enough to stay in the processor's caches until they are hashed
ROWS_AT_ONCE = 1 << 17  # decoded at once where all of a column chunk is held in memory anyway
BATCH_BYTES = 1 << 26  # decoded at once, by the chunk's size: values of many megabytes come few at a time
PIECE_VALUES = 1 << 15  # byte arrays hashed at once
WHOLE_BYTES = 1 << 20  # column chunks up to this size are read at once by pyarrow
BUFFER_BYTES = 1 << 17  # read at once by pyarrow of a longer chunk, which need not fit in memory
WINDOW_BYTES = 1 << 18  # read at once of pages that pyarrow does not decode; larger pages one by one
DISTANT_WINDOW_BYTES = 1 << 23  # replaces all three for remote files, where the number of requests matters
SLACK_BYTES = 100  # by which pyarrow extends chunks of parquet-mr before 1.2.9, which omits the dictionary's header

_DICTIONARY_BYTES = 3  # per value, dictionary included: a value stored without one takes at least 4, for its length
DICTIONARY_PAGE, _PLAIN_ENCODINGS = 2, (0, 2)  # kind of page; encodings of its entries
_PREFIX_BYTES = 4  # of the length in front of a plain-encoded byte array
_ARROW = {"INT32": pa.int32(), "INT64": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64()}


class ColumnReader:
    """Reads one column of a file as storage arrays (see `hashing.arrow`). Thread-safe.

    Where a method takes `read`, it reads ranges of the file in place of the file itself: some of it is in memory
    already, or someone else takes the bytes, too.

    Parameters
    ----------
    source, footer : the file.
    leaf : the column.
    page_sizes : lengths of all column chunks' pages where the footer's are wrong; None where they are right.
    annotation : fields of a schema element, by which `read_rows` has stored values shown in another Arrow type.
    """

    def __init__(
        self,
        source: Source,
        footer: Footer,
        leaf: SchemaLeaf,
        page_sizes: np.ndarray | None = None,
        annotation: Sequence[tuple[int, int, object]] = (),
    ):
        self.leaf = leaf
        self.column_type = type_of(leaf)
        self._source = source
        self._footer = footer
        self._scratch = Scratch()
        kind, bits = self.column_type.kind, self.column_type.bits or 64
        self._are_computed = kind is Kind.FLOAT or (
            kind is Kind.INTEGER and bits < 32
        )  # values, so that they are aligned
        self._is_local = source.path is not None
        try:
            view = make_physical_view(footer, leaf, page_sizes, annotation)
            self._metadata = pq.read_metadata(pa.BufferReader(view))
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable_error(str(error)) from error

    def _unreadable_error(self, reason: str, row_group: int | None = None) -> UnreadableColumnError:
        problem = f"cannot be read: {reason.splitlines()[0] if reason else 'no reason given'}"
        return UnreadableColumnError(problem, path=self._source.name, row_group=row_group, column=self.leaf.name)

    # -------------------------------------------------------------------------------------------- values that occur

    def read_occurring(self, row_group: int, read: ReadRange | None = None) -> Iterator[pa.Array | Keys]:
        """Yield every value that occurs in a row group, at least once, for building filters; check their types.

        Byte arrays may come as keys. Where a dictionary holds the values, they are taken from it.

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or a value is outside its type, so that readers would show another value.
        """
        for values in self.read_stored(row_group, read):
            yield self._require_type(values, row_group)

    def read_stored(self, row_group: int, read: ReadRange | None = None) -> Iterator[pa.Array | Keys]:
        """Yield what `read_occurring` yields, without a check of types."""
        try:
            yield from self._scan(row_group, read)
        except UnusualPageError:  # pyarrow reads all of it, or reports what is wrong; values may come twice
            for _, values in self._decode_zones(row_group, self._footer.num_rows_of(row_group) or 1, read):
                yield values

    def read_dictionary(self, row_group: int, read: ReadRange | None = None) -> Iterator[pa.Array | Keys]:
        """Yield all entries of a row group's dictionary, also those that no row has; nothing if it has none.

        Raises
        ------
        UnusualPageError
            It cannot be taken as it is stored.
        """
        start, end = self._locate(row_group)
        record = self._footer.chunk(row_group, self.leaf)
        if start < record["data_page_offset"] < end:
            end = int(record["data_page_offset"])
        walk = PageWalk(start, end, self._metadata.row_group(row_group).column(0).num_values)
        for data, pages in walk.windows(read or self._source.read_at, WINDOW_BYTES):
            first, header_bytes, size, kind, count, encoding, unpacked = pages[0, :7].tolist()
            if kind == DICTIONARY_PAGE:
                if encoding not in _PLAIN_ENCODINGS:
                    raise UnusualPageError(f"a dictionary of encoding {encoding}")
                body = data[first + header_bytes : first + header_bytes + size]
                yield from self._wrap_plain(decompress(body, self._footer.codec(record), unpacked), count)
            return

    def _require_type(self, values: pa.Array | Keys, row_group: int) -> pa.Array | Keys:
        problem = None if isinstance(values, Keys) else find_value_outside_type(values, self.column_type)
        if problem:
            raise self._unreadable_error(problem, row_group)
        return values

    def _scan(self, row_group: int, read: ReadRange | None) -> Iterator[pa.Array | Keys]:
        """Yield what `read_stored` yields, from pages as they are stored.

        Raises
        ------
        UnusualPageError
            pyarrow has to read the chunk; what was yielded before occurs in it, as far as its pages can be read.
        """
        scan = self._begin_scan(row_group)
        for values, count in self._pass_pages(scan, row_group, read):
            yield from self._wrap_plain(values, count)
        if scan.used is not None:
            yield from self._wrap_plain(scan.dictionary, len(scan.used), scan.used)

    def uses_all_entries(self, row_group: int) -> bool:
        """Return whether a row group's values certainly use all entries of its dictionary, which is not decoded."""
        try:
            scan = self._begin_scan(row_group, flags_only=True)
            for _ in self._pass_pages(scan, row_group, None):
                pass
        except UnusualPageError:
            return False
        return scan.used is None or bool(scan.used.all())

    def _begin_scan(self, row_group: int, flags_only: bool = False) -> ChunkScan:
        chunk = self._metadata.row_group(row_group).column(0)
        start, end = self._locate(row_group)
        physical, kind = self.leaf.physical, self.column_type.kind
        is_other = (
            physical == "BOOLEAN"
            or (kind is Kind.DECIMAL and physical == "BYTE_ARRAY")  # the length of each has to be checked
            or "DELTA_BINARY_PACKED" in chunk.encodings  # pyarrow takes 1.4 times less for integers of 40 bits
            or self._omits_dictionary_header
        )
        if is_other or not 0 < start <= end <= self._source.size:
            raise UnusualPageError("a chunk that pyarrow has to read")
        codec = self._footer.codec(self._footer.chunk(row_group, self.leaf))
        return ChunkScan(
            stored_column(self.leaf),
            -1 if codec is None else codec,
            self._footer.denies_compression,
            chunk.num_values,
            self._footer.num_rows_of(row_group),
            decompress,
            self._scratch,
            flags_only,
        )

    def _pass_pages(self, scan: ChunkScan, row_group: int, read: ReadRange | None) -> Iterator[tuple[memoryview, int]]:
        """Have a chunk's pages scanned; yield the plain-encoded values of each, and how many they should be."""
        start, end = self._locate(row_group)
        read = read or (self._read_again if self._is_local else self._source.read_at)
        window = WINDOW_BYTES if self._is_local else DISTANT_WINDOW_BYTES
        num_values = self._metadata.row_group(row_group).column(0).num_values
        for data, pages in PageWalk(start, end, num_values).windows(read, window, once=not self._is_local):
            first = 0
            while first < len(pages):
                first, found = scan.scan(data, pages, first)
                yield from found
            del data, found  # so that their memory can be used again
        yield from scan.finish()

    def _read_again(self, offset: int, length: int) -> memoryview:
        """Read a range of a local file into memory that is used again."""
        out = self._scratch.take(length)
        self._source.read_into(offset, out)
        return out.data

    def _wrap_plain(self, values: memoryview, count: int, used: np.ndarray | None = None) -> Iterator[pa.Array | Keys]:
        """Yield plain-encoded values, or those that are used: keys of byte arrays, storage arrays of others."""
        validity = None if used is None else np.packbits(used, bitorder="little")
        if self.leaf.physical == "BYTE_ARRAY":
            width = measure_byte_arrays(values, count)
            offsets = None if width else locate_byte_arrays(values, count)
            for start in range(0, count, PIECE_VALUES):
                length = min(PIECE_VALUES, count - start)
                if offsets is None:
                    yield Keys.fixed(values, width, length, start, validity, lead=_PREFIX_BYTES)
                else:
                    yield Keys.variable(offsets, values, length, start, validity, lead=_PREFIX_BYTES)
            return
        arrow = _ARROW.get(self.leaf.physical) or pa.binary(12 if self.leaf.physical == "INT96" else self.leaf.length)
        if len(values) != count * arrow.byte_width:
            raise UnusualPageError(f"{len(values)} bytes of {count} values")
        if not count:
            return
        data = np.frombuffer(values, np.uint8)
        if self._are_computed and data.ctypes.data % 8:
            data = data.copy()
        bits = None if validity is None else pa.py_buffer(validity)
        yield pa.Array.from_buffers(arrow, count, [bits, pa.py_buffer(data)])

    # -------------------------------------------------------------------------------------------------- row by row

    def batches(self, row_group: int, read: ReadRange | None = None) -> Iterator[pa.Array]:
        """Yield the values of a row group in file order, 8,192 rows at a time; lists are flattened.

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or do not hold the declared number of rows.
        """
        for array in self._decode(row_group, BATCH_ROWS, [], read):
            yield leaf_values(array)

    @property
    def arrow_field(self) -> pa.Field:
        """The field of what `read_rows` yields: the column in structs and lists for the groups that it is in."""
        return self._metadata.schema.to_arrow_schema().field(0)

    def read_rows(
        self, row_group: int, read: ReadRange | None = None, batch_rows: int = ROWS_AT_ONCE
    ) -> Iterator[pa.Array]:
        """Yield the rows of a row group in order, of the type of `arrow_field`; errors are those of `batches`."""
        yield from self._decode(row_group, batch_rows, [], read)

    def all_null(self, row_group: int) -> bool:
        """Return whether a row group has only nulls. Reads it up to the first value."""
        return all(array.null_count == len(array) for array in self.batches(row_group))

    def read_zones(
        self, row_group: int, zone_rows: int, read: ReadRange | None = None
    ) -> Iterator[tuple[int, pa.Array]]:
        """Yield the values of each zone of a row group, as storage arrays, in file order; lists are flattened.

        A zone has `zone_rows` consecutive rows, however many values these have; the last one may have fewer. Its
        values may come in several arrays, and of a dictionary each only once an array.

        Yields
        ------
        (number of the zone, some of its values)

        Raises
        ------
        UnreadableColumnError
            The pages cannot be decoded, or a value is outside its type.
        """
        for zone, values in self._decode_zones(row_group, zone_rows, read):
            yield zone, self._require_type(values, row_group)

    def _decode_zones(self, row_group: int, zone_rows: int, read: ReadRange | None) -> Iterator[tuple[int, pa.Array]]:
        dictionaries = [self._metadata.schema.column(0).path] if self._has_dictionary(row_group) else []
        row = 0
        for array in self._decode(row_group, min(zone_rows, BATCH_ROWS), dictionaries, read):
            start = 0
            while start < len(array):  # pyarrow may end a batch anywhere
                count = min(len(array) - start, zone_rows - row % zone_rows)
                values = leaf_values(array.slice(start, count))
                if isinstance(values, pa.DictionaryArray):  # only what is used of it: other values no row has
                    used = to_numpy(values.indices.drop_null().unique())
                    if len(used) and not 0 <= used.min() <= used.max() < len(values.dictionary):
                        raise self._unreadable_error("a value's number is not in the dictionary", row_group)
                    values = values.dictionary.take(from_numpy(used))
                yield row // zone_rows, values
                start, row = start + count, row + count

    def _has_dictionary(self, row_group: int) -> bool:
        """Return whether a dictionary holds all or most values of a row group, judging by the column chunk's size.

        The result only affects speed. Writers abandon a dictionary that becomes large; pyarrow would build one of the
        values after it, which takes longer than reading them as they are, and makes none of delta pages.
        """
        if self.leaf.physical != "BYTE_ARRAY":
            return False  # pyarrow reads dictionaries of this type only
        chunk = self._metadata.row_group(row_group).column(0)
        small = chunk.total_uncompressed_size <= _DICTIONARY_BYTES * chunk.num_values
        return bool(chunk.has_dictionary_page and small and not any("DELTA" in name for name in chunk.encodings))

    def _decode(
        self, row_group: int, batch_rows: int, dictionaries: list[str], read: ReadRange | None
    ) -> Iterator[pa.Array]:
        """Yield what pyarrow decodes, in row order."""
        num_rows, declared = 0, self._footer.num_rows_of(row_group)
        size = self._metadata.row_group(row_group).column(0).total_uncompressed_size
        if size > BATCH_BYTES:  # of long values, of which one has to be held, few
            batch_rows = max(1, min(batch_rows, BATCH_BYTES * declared // size))
        require_value_per_row(self._source, self._footer, row_group, self.leaf)
        try:
            opened, buffer_bytes = self._open(row_group, read)
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
            raise self._unreadable_error(self._find_unknown(row_group) or str(error), row_group) from error
        if num_rows != declared:
            problem = self._find_unknown(row_group) or f"{num_rows} rows instead of {declared}"
            raise self._unreadable_error(problem, row_group)

    def _find_unknown(self, row_group: int) -> str | None:
        return find_unknown(self._source, self._footer, row_group, self.leaf)

    def _open(self, row_group: int, read: ReadRange | None) -> tuple[pa.NativeFile, int]:
        """Open the file so that pages of a row group cannot claim too much memory; also return pyarrow's buffer size.

        With a buffer size of 0 the chunk is read as a whole and pages are slices of it, so that claims take no memory.
        """
        start, end = self._locate(row_group)
        most, source = WHOLE_BYTES if self._is_local else DISTANT_WINDOW_BYTES, self._source
        is_whole = 0 <= start <= end <= source.size and end - start <= most
        end += SLACK_BYTES if self._omits_dictionary_header else 0
        walk = PageWalk(start, min(end, source.size), self._metadata.row_group(row_group).column(0).num_values)
        if self._is_local and read is None:  # which pyarrow reads itself
            if not is_whole:
                require_pages(source, walk)
            return source.arrow_file(), 0 if is_whole else BUFFER_BYTES
        file = RangeFile(source.size, read or source.read_at, None if is_whole else walk)
        return pa.PythonFile(file, mode="r"), 0 if is_whole else DISTANT_WINDOW_BYTES

    @property
    def _omits_dictionary_header(self) -> bool:
        """True if column chunks are longer than declared: PARQUET-816."""
        return bool(self._footer.doubts_of(self.leaf) & Doubt.CHUNK_SIZES)

    def _locate(self, row_group: int) -> tuple[int, int]:
        """Return where a column chunk's pages begin and end in the file."""
        start = self._footer.first_page(row_group, self.leaf)
        return start, start + self._metadata.row_group(row_group).column(0).total_compressed_size


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
