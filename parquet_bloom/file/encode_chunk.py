"""Encoding of a column chunk anew, without some of its rows, in the manner of the old one.

One way serves all columns: pyarrow reads and writes the *stored* values of a single leaf, through a view of the footer
without annotations (`make_physical_view`), with the structs and lists that it is in. Arrow's types have no say in it: a
timestamp is the INT64 that it is, a decimal the bytes that it is, and the levels come out as they were, since a leaf's
levels depend only on what is optional or repeated above it. Only where a type has another order than its stored values,
the view has an annotation that gives pyarrow that order for the statistics, and the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.sbbf import check_keys
from ..errors import ErrorContext, MalformedFooterError, UnreadableColumnError
from ..hashing.arrow_keys import keys_of, leaf_values, to_floats
from ..hashing.column_type import ColumnType, Kind, Order, is_ordered
from ..metadata.encoded_struct import EncodedStruct
from ..metadata.filter_header import write_header
from ..metadata.footer import MAGIC, PHYSICAL_TYPES, REQUIRED, TAIL_BYTES, Footer, SchemaLeaf, read_repetition
from ..metadata.thrift_compact import I32, I64, LIST, STRUCT, read_struct, write_struct
from ..storage.source import MemorySource
from ..util.lazy import late_module
from .bloom_file import BloomFile
from .column_reader import ColumnReader
from .file_columns import type_of
from .filter_builder import ExactSize, FilterBuilder
from .page_checks import PageClaimError, PageWalk

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc, pq = late_module("pyarrow.compute"), late_module("pyarrow.parquet")

# Fields of ColumnMetaData.
ENCODINGS, NUM_VALUES, UNCOMPRESSED_SIZE, COMPRESSED_SIZE = 2, 5, 6, 7
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, FILTER, FILTER_LENGTH = 9, 10, 11, 14, 15
_STATISTICS, _ENCODING_STATS, _SIZES, _GEOSPATIAL = 12, 13, 16, 17

_CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4"}
_CODEC_NAMES = {3: "LZO (3)", 5: "LZ4 of Hadoop (5)"}
_PLAIN_DICTIONARY, _RLE_DICTIONARY = 2, 8
_ENCODINGS = {
    3: "RLE",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    9: "BYTE_STREAM_SPLIT",
}
_DICTIONARY, _DATA_V2 = 2, 3  # kinds of pages
_CRC, _DICTIONARY_HEADER = 4, 7  # of a page's header
_NULL_COUNT, _BOUNDS = 3, (1, 2, 5, 6)  # of statistics
_DEFAULT_PAGE_BYTES, _DEFAULT_PAGE_ROWS = 1 << 20, 20_000
_LONGEST_DECIMAL = 32  # in bytes, of pyarrow's decimals
_CONVERTED_INTERVAL = 21
_NO_FIELDS = b"\0"  # a struct without any
_DUCKDB_INTERVALS = b"duckdb.interval_bloom_filter"
_Annotation = tuple[tuple[int, int, object], ...]


@dataclass
class EncodedChunk:
    """A column chunk that was encoded anew.

    Attributes
    ----------
    pages : its bytes.
    filter : header and bitset of its filter; empty if it has none.
    column_index, offset_index : its page index; empty where there is none. Offsets of pages count from its beginning.
    metadata : its ColumnMetaData, with offsets from its beginning on, and without the filter's location.
    uncompressed_size : bytes of its pages before compression.
    lost : what the old chunk had, and this one has not, for people; empty if nothing.
    num_entries : entries of its dictionary; -1 if its footer does not prove that this has all values.
    has_unused : whether the old chunk's dictionary is known to have had entries that no row of it had.
    """

    pages: memoryview
    metadata: EncodedStruct
    filter: bytes = b""
    column_index: bytes = b""
    offset_index: bytes = b""
    lost: list[str] = field(default_factory=list)
    num_entries: int = -1
    has_unused: bool = False

    @property
    def uncompressed_size(self) -> int:
        return self.metadata.integer(UNCOMPRESSED_SIZE)


def place_chunk(chunk: EncodedStruct, metadata: EncodedStruct, start: int) -> None:
    """Put a ColumnMetaData whose offsets count from another place into a ColumnChunk, `start` bytes further on."""
    placed = metadata.copy()
    for number in (DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE):
        if number in placed:
            placed.set(number, I64, placed.integer(number) + start)
    chunk.set(3, STRUCT, placed.encode())


def shift_offset_index(index: bytes, shift: int) -> bytes:
    """Return an OffsetIndex whose pages begin `shift` bytes further on.

    Raises
    ------
    MalformedFooterError
        It has other fields than the format knows.
    """
    if not shift:
        return index
    shifted = EncodedStruct(index)
    locations = shifted.structs(1)
    for location in locations:
        if location.numbers != [1, 2, 3]:
            raise MalformedFooterError(f"page index: a page's location has the fields {location.numbers}, not 1, 2, 3")
        location.set(1, I64, location.integer(1) + shift)
    shifted.set_structs(1, locations)
    return shifted.encode()


def require_codec(file: BloomFile, row_group: int, leaf: SchemaLeaf) -> int:
    """Return the number of a column chunk's codec; raise UnreadableColumnError for one that is not written."""
    codec = file.footer.codec(file.footer.chunk(row_group, leaf))
    if codec is None or codec not in _CODECS:
        name = _CODEC_NAMES.get(-1 if codec is None else codec, "")
        problem = f"its codec, {name or codec}, is not written, so rows cannot be left out"
        raise UnreadableColumnError(problem, path=file.path, row_group=row_group, column=leaf.name)
    return codec


class ChunkEncoder:
    """Encodes the chunks of one column anew; for many row groups, one after the other.

    Parameters
    ----------
    file, leaf : the column.
    frame : the file's FileMetaData without its row groups.
    """

    def __init__(self, file: BloomFile, leaf: SchemaLeaf, frame: EncodedStruct):
        self._file, self._footer, self._leaf, self._frame = file, file.footer, leaf, frame
        self._type = type_of(leaf)
        self._annotation, self._is_ordered = _find_order(self._type, leaf, self._footer.order_of(leaf))
        self._reader = ColumnReader(file.source, self._footer, leaf, annotation=self._annotation)

    def _context(self, row_group: int) -> ErrorContext:
        return {"path": self._file.path, "row_group": row_group, "column": self._leaf.name}

    def encode(self, row_group: int, keep: NDArray[np.bool_]) -> EncodedChunk:
        """Encode the chunk of a row group anew, with the rows for which `keep` is true; at least one.

        Raises
        ------
        UnreadableColumnError
            Its pages cannot be decoded, or are of a codec that is not written, or what was written does not hold the
            rows that were kept.
        """
        record = self._footer.chunk(row_group, self._leaf)
        start, size = self._footer.first_page(row_group, self._leaf), int(record["compressed_size"])
        data = memoryview(self._file.source.read_at(start, size))

        def read(offset: int, length: int) -> memoryview:
            return data[offset - start : offset - start + length]

        options = self._find_options(row_group, record, data)
        kept, going, first = [], [], 0
        for rows in self._reader.read_rows(row_group, read):
            stays = keep[first : first + len(rows)]
            kept.append(rows.filter(pa.array(stays)))
            going.append(leaf_values(rows.filter(pa.array(~stays))))
            first += len(rows)
        old = EncodedStruct(self._footer.data, int(record["meta_start"]))
        has_bounds = self._writes_bounds(old, record, kept)
        written = self._write(row_group, kept, options, has_bounds)
        encoded = self._describe(row_group, record, old, written, kept, has_bounds)
        self._finish(row_group, encoded, kept)
        if self._leaf.physical == "BYTE_ARRAY" and encoded.num_entries >= 0:
            num_others = pc.count_distinct(pa.chunked_array(going)).as_py()
            encoded.has_unused = _count_entries(record, data) > encoded.num_entries + num_others
        return encoded

    def _find_options(self, row_group: int, record: np.void, data: memoryview) -> dict[str, object]:
        """Return the arguments by which pyarrow writes like the writer of a chunk, as far as its pages show that."""
        codec = require_codec(self._file, row_group, self._leaf)
        try:
            pages = PageWalk(0, len(data), int(record["num_values"])).find(data)
        except PageClaimError as error:
            raise UnreadableColumnError(f"cannot be read: {error.problem}", **self._context(row_group)) from error
        is_dictionary = pages[:, 3] == _DICTIONARY
        values = pages[~is_dictionary]
        header = read_struct(data)[0]
        encodings = set(values[:, 5].tolist())
        has_dictionary = bool(is_dictionary.any())
        is_one = len(values) < 2  # of which it is only known that it did not become full
        options: dict[str, object] = {
            "version": "1.0" if _PLAIN_DICTIONARY in encodings and not self._annotation else "2.6",
            "compression": _CODECS[codec],
            "use_dictionary": has_dictionary,
            "data_page_size": max(_DEFAULT_PAGE_BYTES if is_one else 1, *values[:, 6].tolist()),
            "max_rows_per_page": max(_DEFAULT_PAGE_ROWS if is_one else 1, *values[:, 4].tolist()),
            "data_page_version": "2.0" if self._is_v2(values) else "1.0",
            "write_page_checksum": _CRC in header,
            "write_page_index": bool(record["offset_index_offset"] > 0),
        }
        if has_dictionary:
            options["dictionary_pagesize_limit"] = max(_DEFAULT_PAGE_BYTES, int(pages[is_dictionary, 6].max()))
        other = next((_ENCODINGS[number] for number in sorted(encodings, reverse=True) if number in _ENCODINGS), None)
        if not has_dictionary and other and self._can_encode(other):
            options["column_encoding"] = other
        return options

    def _is_v2(self, pages: NDArray[np.int64]) -> bool:
        """Return whether pages of version 2 are written: those of some writers are read as if all were compressed."""
        return bool((pages[:, 3] == _DATA_V2).any()) and not self._footer.denies_compression

    def _can_encode(self, encoding: str) -> bool:
        physical = self._leaf.physical
        return (
            physical
            in {
                "RLE": ("BOOLEAN",),
                "DELTA_BINARY_PACKED": ("INT32", "INT64"),
                "DELTA_LENGTH_BYTE_ARRAY": ("BYTE_ARRAY",),
                "DELTA_BYTE_ARRAY": ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"),
                "BYTE_STREAM_SPLIT": ("INT32", "INT64", "FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY"),
            }[encoding]
        )

    def _writes_bounds(self, old: EncodedStruct, record: np.void, kept: Sequence[pa.Array]) -> bool:
        """Return whether the new chunk gets bounds of its values, where the old one has any.

        Not if pyarrow would compute others than the format wants for the type, and not for NaN among the values where
        readers go by the file's writer, whose own bounds are NaN then.
        """
        statistics = old.struct(_STATISTICS).numbers if _STATISTICS in old else []
        if not self._is_ordered or not (any(n in statistics for n in _BOUNDS) or record["column_index_offset"] > 0):
            return False
        shows_nans = self._footer.writer_rules.bounds_show_nans or self._footer.order_of(self._leaf) == Order.IEEE_754
        return not (shows_nans and self._type.kind is Kind.FLOAT and any(map(_has_nan, kept)))

    def _write(
        self, row_group: int, kept: Sequence[pa.Array], options: Mapping[str, object], has_bounds: bool
    ) -> memoryview:
        """Return a Parquet file of one column with the rows."""
        schema = pa.schema([self._reader.arrow_field])
        table = pa.Table.from_arrays([pa.chunked_array(kept, schema.field(0).type)], schema=schema)
        sink = pa.BufferOutputStream()
        try:
            pq.write_table(
                table,
                sink,
                row_group_size=table.num_rows,
                store_schema=False,
                write_statistics=has_bounds,
                **options,
            )
        except (pa.ArrowException, OSError) as error:
            problem = f"cannot be encoded: {str(error).splitlines()[0]}"
            raise UnreadableColumnError(problem, **self._context(row_group)) from error
        return memoryview(sink.getvalue()).cast("B")

    def _describe(
        self,
        row_group: int,
        record: np.void,
        old: EncodedStruct,
        written: memoryview,
        kept: Sequence[pa.Array],
        has_bounds: bool,
    ) -> EncodedChunk:
        """Return the chunk of a file of one column, with the metadata that it has in a file like the old one."""
        length = int.from_bytes(written[-TAIL_BYTES : -len(MAGIC)], "little")
        footer = Footer(bytes(written[-TAIL_BYTES - length : -TAIL_BYTES]), len(written) - TAIL_BYTES - length)
        [leaf] = footer.leaves
        if footer.num_row_groups != 1 or _levels(leaf) != _levels(self._leaf) or not _stores_same(leaf, self._leaf):
            problem = "cannot be encoded as it is stored: pyarrow would write another type, or several row groups"
            raise UnreadableColumnError(problem, **self._context(row_group))
        new_record = footer.chunk(0, leaf)
        start = footer.first_page(0, leaf)
        new = EncodedStruct(footer.data, int(new_record["meta_start"]))
        metadata = old.copy()
        for number in (ENCODINGS, NUM_VALUES, UNCOMPRESSED_SIZE, COMPRESSED_SIZE):
            metadata.take(number, new)
        metadata.drop(INDEX_PAGE, _GEOSPATIAL, FILTER, FILTER_LENGTH)
        for number in (_ENCODING_STATS, _SIZES):
            if number in metadata:
                metadata.take(number, new)
        metadata.set(DATA_PAGE, I64, new.integer(DATA_PAGE) - start)
        metadata.drop(DICTIONARY_PAGE)
        if DICTIONARY_PAGE in new:
            metadata.set(DICTIONARY_PAGE, I64, new.integer(DICTIONARY_PAGE) - start)
        lost = []
        if _STATISTICS in metadata:
            statistics = metadata.struct(_STATISTICS)
            if has_bounds and _STATISTICS in new:
                others = new.struct(_STATISTICS)
                for number in statistics.numbers:
                    statistics.take(number, others)
            else:
                if any(number in statistics for number in _BOUNDS):
                    lost.append("statistics")
                statistics.drop(*(number for number in statistics.numbers if number != _NULL_COUNT))
                if _NULL_COUNT in statistics:
                    num_present = sum(len(values) - values.null_count for values in map(leaf_values, kept))
                    statistics.set(_NULL_COUNT, I64, new.integer(NUM_VALUES) - num_present)
            metadata.drop(_STATISTICS)
            if statistics.numbers:
                metadata.set(_STATISTICS, STRUCT, statistics.encode())
        if _GEOSPATIAL in old:
            lost.append("geospatial statistics")
        chunk = EncodedChunk(written[start : start + int(new_record["compressed_size"])], metadata, lost=lost)
        chunk.num_entries = _count_entries(new_record, chunk.pages)
        if record["column_index_offset"] > 0:
            if new_record["column_index_offset"] > 0:
                chunk.column_index = _cut(written, new_record, "column_index")
            else:
                lost.append("bounds of pages")
        if record["offset_index_offset"] > 0 and new_record["offset_index_offset"] > 0:
            chunk.offset_index = shift_offset_index(_cut(written, new_record, "offset_index"), -start)
        return chunk

    def _finish(self, row_group: int, encoded: EncodedChunk, kept: Sequence[pa.Array]) -> None:
        """Check that readers of the new chunk get the rows that were kept, and make its filter.

        It is read as a file with the footer of the old one, of which only this chunk is described anew.
        """
        footer = self._describe_alone(row_group, encoded, sum(map(len, kept)))
        with MemorySource(self._file.source.name, MAGIC + encoded.pages) as source:
            reader = ColumnReader(source, footer, self._leaf, annotation=self._annotation)
            if not _have_same_rows(reader.read_rows(0), kept):
                problem = "what was encoded anew does not hold the rows that stay; nothing was changed"
                raise UnreadableColumnError(problem, **self._context(row_group))
            old = self._file.chunk(row_group, self._leaf)
            if old is None:
                return
            is_duckdb_interval = (
                self._leaf.converted == _CONVERTED_INTERVAL and _DUCKDB_INTERVALS in self._footer.key_value_metadata
            )
            if not self._type.hashable or is_duckdb_interval:
                encoded.lost.append("filter")
                return
            size = max(ExactSize.size, old.num_bytes // ExactSize.size * ExactSize.size)
            builder = FilterBuilder()
            built = builder.build(reader.read_occurring(0), self._type, ExactSize(size=size))
            if built.empty and footer.has_values(0, self._leaf) is not False:
                encoded.lost.append("filter")
                return
            for values in reader.read_occurring(0):
                if not check_keys(memoryview(built.filter), keys_of(values)).all():
                    problem = "the filter that was made anew denies a value; nothing was changed"
                    raise UnreadableColumnError(problem, **self._context(row_group))
            encoded.filter = write_header(size) + bytes(memoryview(built.filter))

    def _describe_alone(self, row_group: int, encoded: EncodedChunk, num_rows: int) -> Footer:
        """Return the old file's footer with one row group, which has this chunk alone, behind the magic."""
        chunk = EncodedStruct(self._footer.data, int(self._footer.chunk(row_group, self._leaf)["start"]))
        place_chunk(chunk, encoded.metadata, len(MAGIC))
        chunks = [_NO_FIELDS] * len(self._footer.leaves)
        chunks[self._leaf.index] = chunk.encode()
        group = [(1, LIST, (STRUCT, chunks)), (2, I64, encoded.uncompressed_size), (3, I64, num_rows)]
        metadata = self._frame.copy()
        metadata.set(3, I64, num_rows)
        metadata.set(4, LIST, (STRUCT, [write_struct(group)]))
        return Footer(metadata.encode(), len(MAGIC) + len(encoded.pages))


def _find_order(column_type: ColumnType, leaf: SchemaLeaf, order: int) -> tuple[_Annotation, bool]:
    """Return the annotation by which pyarrow has a type's order, and the stored bytes; and whether it has the order."""
    kind, physical, length = column_type.kind, column_type.physical, column_type.length or 0
    is_known = is_ordered(column_type, order) and physical != "INT96"
    if kind is Kind.INTEGER and not column_type.signed:
        return ((6, I32, 13 if physical == "INT32" else 14),), is_known
    if kind is Kind.FLOAT and length == 2:
        return ((10, STRUCT, [(15, STRUCT, [])]),), is_known
    if kind is Kind.DECIMAL and physical == "FIXED_LEN_BYTE_ARRAY" and length <= _LONGEST_DECIMAL:
        precision = len(str(2 ** (8 * length - 1) - 1)) - 1  # the largest that this length has room for
        return ((6, I32, 5), (7, I32, 0), (8, I32, precision)), is_known
    return (), is_known and not (kind is Kind.DECIMAL and physical.endswith("BYTE_ARRAY"))


def _levels(leaf: SchemaLeaf) -> list[int]:
    """Return what a leaf's levels depend on: the repetitions of it and of what it is in, without required ones."""
    return [one for one in map(read_repetition, leaf.nodes) if one != REQUIRED]


def _stores_same(written: SchemaLeaf, old: SchemaLeaf) -> bool:
    if old.physical == "INT96":
        return written.physical == PHYSICAL_TYPES[7] and written.length == 12
    return written.physical == old.physical and (old.length is None or written.length == old.length)


def _count_entries(record: np.void, pages: memoryview) -> int:
    """Return how many entries the dictionary of a chunk has; -1 if the footer does not prove that it has all values."""
    header = read_struct(pages)[0].get(_DICTIONARY_HEADER) if record["dictionary_only"] else None
    return int(header[1]) if header else -1


def _cut(data: memoryview, record: np.void, name: str) -> bytes:
    start = int(record[f"{name}_offset"])
    return bytes(data[start : start + int(record[f"{name}_length"])])


def _has_nan(array: pa.Array) -> bool:
    values = leaf_values(array).drop_null()
    if pa.types.is_float16(values.type):
        values = values.view(pa.binary(2))
    return bool(np.isnan(to_floats(values)).any())


_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def _have_same_rows(ones: Iterable[pa.Array], others: Iterable[pa.Array]) -> bool:
    """Return whether arrays hold the same rows as others, which may be divided otherwise."""
    waiting = iter(others)
    other = _NONE
    for one in ones:
        while len(one):
            while not len(other):
                other = next(waiting, None)
                if other is None:
                    return False
            length = min(len(one), len(other))
            if not _are_same(one.slice(0, length), other.slice(0, length)):
                return False
            one, other = one.slice(length), other.slice(length)
    return not len(other) and not any(map(len, waiting))


_NONE = pa.nulls(0)


def _are_same(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two arrays of lists and structs of single fields hold the same; floats bit by bit."""
    while pa.types.is_nested(one.type):
        if len(one) != len(other) or not one.is_valid().equals(other.is_valid()):
            return False
        if pa.types.is_struct(one.type):
            [one], [other] = one.flatten(), other.flatten()
        else:
            if not pc.list_value_length(one).equals(pc.list_value_length(other)):
                return False
            one, other = one.flatten(), other.flatten()
    bits = _BITS.get(one.type)
    if bits is not None:
        one, other = one.view(bits), other.view(bits)
    return bool(one.equals(other))
