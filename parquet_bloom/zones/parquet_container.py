"""A zone index in a Parquet file: zones are read at once, and of the filters only the blocks that are probed.

In files of this package the filters of a row group are one page, PLAIN and uncompressed, and all of one size, so that
their offsets follow from that of the page. In other files, the filters of a row group are loaded at the first probe.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from ..errors import BrokenZonesError, MalformedFooterError, ParquetBloomError
from ..file.bloom_file import read_footer
from ..file.column_reader import ColumnReader
from ..file.file_columns import type_of
from ..file.identity import require_readable_chunk
from ..hashing.column_type import ColumnType, Kind
from ..metadata.footer import TAIL_BYTES, Footer, SchemaLeaf
from ..metadata.page_index import PAGE_HEADER_BYTES, PLAIN, read_page_header
from ..storage import Source
from .arrow_container import OpenedContainer
from .zone_filters import FilterPart, InMemoryFilters, LayoutCheck, LazyFilters, StoredFilters
from .zone_manifest import (
    FILTERS,
    ITEMS_KEY,
    NUMBERS,
    SCHEMA,
    Document,
    cache_footer,
    is_sealed,
    read_document,
    to_zone_table,
    unpack_metadata,
    unpack_zones,
)

MAGIC = b"PAR1"
_ARROW_SCHEMA = b"ARROW:schema"
_MAX_ROWS_PER_BYTE = 32  # of a file: zeros compress well, but more rows are implausible
_UNCOMPRESSED = 0

_TYPES = {name: ColumnType("INT64", Kind.INTEGER, 8, bits=64, signed=False) for name in NUMBERS[:3]}
_TYPES |= {"has_null": ColumnType("BOOLEAN", Kind.BOOLEAN), FILTERS: ColumnType("BYTE_ARRAY", Kind.BYTES)}


def read_parquet(source: Source) -> OpenedContainer:
    """Read a zone index in a Parquet file.

    Raises
    ------
    ParquetBloomError
        The file is invalid.
    """
    length = int.from_bytes(source.read_at(source.size - TAIL_BYTES, 4), "little")
    cache_footer(source, max(0, source.size - TAIL_BYTES - length))
    footer = read_footer(source)
    leaves = _find_leaves(footer, source.name)
    rows = sum(map(footer.num_rows_of, range(footer.num_row_groups)))
    if rows != footer.num_rows or rows > _MAX_ROWS_PER_BYTE * source.size:
        problem = f"{footer.num_rows} zones, {rows} in row groups, cannot be in {source.size} bytes"
        raise BrokenZonesError(problem, path=source.name)
    packed_metadata = {key: value for key, value in footer.key_value_metadata.items() if key != _ARROW_SCHEMA}
    metadata = unpack_metadata(packed_metadata, source.name)
    document = read_document(metadata, source.name)
    sealed = unpack_zones(document, rows, source.name) if is_sealed(source, packed_metadata, footer.start) else None
    if sealed is not None and len(sealed.zones) != rows:
        raise BrokenZonesError(f"it has {rows} zones, its metadata says {len(sealed.zones)}", path=source.name)
    numbers = _read_numbers(source, footer, leaves) if sealed is None else to_zone_table(sealed.zones)
    if not rows and ITEMS_KEY not in metadata:  # the metadata may be lost
        raise BrokenZonesError("it has no zones, and its metadata has no number of items", path=source.name)
    filter_bytes = _find_filter_bytes(document)
    parts: list[FilterPart] = [
        LazyFilters(
            footer.num_rows_of(row_group),
            partial(_read_filters, source, footer, leaves[FILTERS], row_group),
            source.name,
            None if filter_bytes is None else _locate_filters(source, footer, leaves[FILTERS], row_group, filter_bytes),
        )
        for row_group in range(footer.num_row_groups)
    ]
    return OpenedContainer(numbers, parts, metadata)


def _read_numbers(source: Source, footer: Footer, leaves: Mapping[str, SchemaLeaf]) -> pa.Table:
    """Read the zones from the columns."""
    columns = []
    for name in NUMBERS:
        chunks = _read_column(source, footer, leaves[name], range(footer.num_row_groups))
        arrow_type = SCHEMA.field(name).type
        columns.append(pa.chunked_array([chunk.view(arrow_type) for chunk in chunks], arrow_type))
    if len({len(column) for column in columns}) != 1:
        raise BrokenZonesError("its columns are of different lengths", path=source.name)
    return pa.table(columns, names=list(NUMBERS))


def _find_leaves(footer: Footer, path: str) -> dict[str, SchemaLeaf]:
    by_name = {}
    for name, column_type in _TYPES.items():
        leaves = [leaf for leaf in footer.leaves if leaf.name == name]
        if len(leaves) != 1:
            problem = f"it is not a zone index: {len(leaves) or 'no'} columns of the name {name}"
            raise BrokenZonesError(problem, path=path)
        (leaf,) = leaves
        if leaf.repeated or type_of(leaf) != column_type:
            problem = f"it is not a zone index: column {name} has values of {type_of(leaf)}, not of {column_type}"
            raise BrokenZonesError(problem, path=path)
        by_name[name] = leaf
    return by_name


def _read_column(source: Source, footer: Footer, leaf: SchemaLeaf, row_groups: range) -> list[pa.Array]:
    reader = ColumnReader(source, footer, leaf)
    arrays: list[pa.Array] = []
    for row_group in row_groups:
        if footer.num_rows_of(row_group):
            require_readable_chunk(footer, row_group, leaf)
            arrays += reader.batches(row_group)
    return arrays


def _find_filter_bytes(document: Document | None) -> int | None:
    """Return the size of all filters by the manifest of an index over Parquet files; None if it has no such size."""
    num_bytes = None if document is None else document.get("filter_bytes")
    return num_bytes if type(num_bytes) is int and 32 <= num_bytes <= 1 << 27 else None


def _read_filters(source: Source, footer: Footer, leaf: SchemaLeaf, row_group: int) -> FilterPart:
    arrays = _read_column(source, footer, leaf, range(row_group, row_group + 1))
    if any(array.null_count for array in arrays):
        raise BrokenZonesError(f"column {FILTERS} has nulls", path=source.name, row_group=row_group)
    wide = pa.large_binary()
    return InMemoryFilters(pa.concat_arrays([pa.array([], wide), *(array.cast(wide) for array in arrays)]), source.name)


def _locate_filters(
    source: Source, footer: Footer, leaf: SchemaLeaf, row_group: int, filter_bytes: int
) -> StoredFilters | None:
    """Locate the filters of a row group, assuming the layout of this package; None where it cannot be."""
    try:
        record = require_readable_chunk(footer, row_group, leaf)
        rows, stride = footer.num_rows_of(row_group), 4 + filter_bytes
        start, size = int(record["data_page_offset"]), int(record["compressed_size"])
        plain = footer.codec(record) == _UNCOMPRESSED and record["dictionary_page_offset"] <= 0 and leaf.required
    except ParquetBloomError:  # raised when they are read
        return None
    header_bytes = size - rows * stride
    if not plain or start < len(MAGIC) or not 0 < header_bytes <= PAGE_HEADER_BYTES or size > footer.start - start:
        return None

    def holds(head: bytes) -> bool:
        """Return whether these bytes begin a single page of filters of that size."""
        try:
            header = read_page_header(head)
        except MalformedFooterError:
            return False
        one_page = header.version == 1 and header.encoding == PLAIN and header.num_values == rows
        fits = header.num_bytes == size and header.header_bytes == header_bytes
        first = head[header_bytes : header_bytes + 4] == filter_bytes.to_bytes(4, "little")
        return one_page and fits and first and not header.is_dictionary

    offsets = start + header_bytes + 4 + stride * np.arange(rows, dtype=np.int64)
    proof = LayoutCheck(start, min(size, header_bytes + 4), holds)
    return StoredFilters(source, offsets, np.full(rows, filter_bytes, np.int64), proof)
