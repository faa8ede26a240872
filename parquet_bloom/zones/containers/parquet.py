"""A zone index in a Parquet file: the numbers are read at once, and of the filters only the blocks that are asked for.

In files of ours the filters of a row group are one page, PLAIN and not compressed, and all of one size, so that where
each is follows from where the page begins. Of other files a row group's filters are loaded when one is first asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import numpy as np
import pyarrow as pa

from ...errors import BrokenZonesError, MalformedFooterError, ParquetBloomError
from ...file.columns import type_of
from ...file.fingerprint import require_readable_chunk
from ...file.reader import read_footer
from ...file.values import ColumnReader
from ...hashing.column_type import ColumnType, Kind
from ...metadata.footer import TAIL_BYTES, Footer, Leaf
from ...metadata.page_index import PAGE_HEADER_BYTES, PLAIN, read_page_header
from ...storage import Source
from ..filters import FilterPart, HeldFilters, LaterFilters, PlacedFilters, Proof
from ..manifest import KEY
from ..packed import is_sealed, keep_end, unpacked, zones_of
from ..schema import FILTERS, ITEMS_KEY, NUMBERS, SCHEMA, numbers_of
from .arrow import Opened

MAGIC = b"PAR1"
_ARROW_SCHEMA = b"ARROW:schema"
_MOST_ROWS_A_BYTE = 32  # of a file: zeros compress well, but somewhere a number of rows is damage
_UNCOMPRESSED = 0

_TYPES = {name: ColumnType("INT64", Kind.INTEGER, 8, bits=64, signed=False) for name in NUMBERS[:3]}
_TYPES |= {"has_null": ColumnType("BOOLEAN", Kind.BOOLEAN), FILTERS: ColumnType("BYTE_ARRAY", Kind.BYTES)}


def read_parquet(source: Source) -> Opened:
    """A zone index in a Parquet file.

    Raises
    ------
    ParquetBloomError
        It cannot be read as one.
    """
    length = int.from_bytes(source.read_at(source.size - TAIL_BYTES, 4), "little")
    keep_end(source, max(0, source.size - TAIL_BYTES - length))
    footer = read_footer(source)
    leaves = _leaves(footer, source.name)
    rows = sum(map(footer.num_rows_of, range(footer.num_row_groups)))
    if rows != footer.num_rows or rows > _MOST_ROWS_A_BYTE * source.size:
        problem = f"{footer.num_rows} zones, {rows} in row groups, cannot be in {source.size} bytes"
        raise BrokenZonesError(problem, path=source.name)
    told = {key: value for key, value in footer.key_value_metadata.items() if key != _ARROW_SCHEMA}
    metadata = unpacked(told, source.name)
    sealed = zones_of(metadata.get(KEY), rows, source.name) if is_sealed(source, told, footer.start) else None
    if sealed is not None and len(sealed.zones) != rows:
        raise BrokenZonesError(f"it has {rows} zones, its metadata says {len(sealed.zones)}", path=source.name)
    numbers = _numbers(source, footer, leaves) if sealed is None else numbers_of(sealed.zones)
    if not rows and ITEMS_KEY not in metadata:  # what was said of them may be lost
        raise BrokenZonesError("it has no zones, and does not say for how many items", path=source.name)
    filter_bytes = _filter_bytes(metadata.get(KEY))
    parts: list[FilterPart] = [
        LaterFilters(
            footer.num_rows_of(row_group),
            partial(_filters, source, footer, leaves[FILTERS], row_group),
            source.name,
            None if filter_bytes is None else _placed(source, footer, leaves[FILTERS], row_group, filter_bytes),
        )
        for row_group in range(footer.num_row_groups)
    ]
    return Opened(numbers, parts, metadata)


def _numbers(source: Source, footer: Footer, leaves: Mapping[str, Leaf]) -> pa.Table:
    """The zones, read from the columns."""
    columns = []
    for name in NUMBERS:
        chunks = _read(source, footer, leaves[name], range(footer.num_row_groups))
        wanted = SCHEMA.field(name).type
        columns.append(pa.chunked_array([chunk.view(wanted) for chunk in chunks], wanted))
    if len({len(column) for column in columns}) != 1:
        raise BrokenZonesError("its columns are of different lengths", path=source.name)
    return pa.table(columns, names=list(NUMBERS))


def _leaves(footer: Footer, path: str) -> dict[str, Leaf]:
    found = {}
    for name, column_type in _TYPES.items():
        leaves = [leaf for leaf in footer.leaves if leaf.name == name]
        if len(leaves) != 1:
            problem = f"it is no zone index: {len(leaves) or 'no'} columns of the name {name}"
            raise BrokenZonesError(problem, path=path)
        (leaf,) = leaves
        if leaf.repeated or type_of(leaf) != column_type:
            problem = f"it is no zone index: column {name} has values of {type_of(leaf)}, not of {column_type}"
            raise BrokenZonesError(problem, path=path)
        found[name] = leaf
    return found


def _read(source: Source, footer: Footer, leaf: Leaf, row_groups: range) -> list[pa.Array]:
    """The values of a column in some row groups."""
    reader = ColumnReader(source, footer, leaf)
    found: list[pa.Array] = []
    for row_group in row_groups:
        if footer.num_rows_of(row_group):
            require_readable_chunk(footer, row_group, leaf)
            found += reader.batches(row_group)
    return found


def _filter_bytes(told: bytes | None) -> int | None:
    """The one size of all filters, where an index over Parquet files says it."""
    try:
        found = json.loads(told)["filter_bytes"] if told else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # who reads the rest of it will complain
    return found if type(found) is int and 32 <= found <= 1 << 27 else None


def _filters(source: Source, footer: Footer, leaf: Leaf, row_group: int) -> FilterPart:
    """The filters of a row group, all of them read."""
    arrays = _read(source, footer, leaf, range(row_group, row_group + 1))
    if any(array.null_count for array in arrays):
        raise BrokenZonesError(f"column {FILTERS} has nulls", path=source.name, row_group=row_group)
    wide = pa.large_binary()
    return HeldFilters(pa.concat_arrays([pa.array([], wide), *(array.cast(wide) for array in arrays)]), source.name)


def _placed(source: Source, footer: Footer, leaf: Leaf, row_group: int, filter_bytes: int) -> PlacedFilters | None:
    """The filters of a row group where they are if they stand as ours do; None where they cannot."""
    try:
        record = require_readable_chunk(footer, row_group, leaf)
        rows, stride = footer.num_rows_of(row_group), 4 + filter_bytes
        start, size = int(record["data_page_offset"]), int(record["compressed_size"])
        plain = footer.codec(record) == _UNCOMPRESSED and record["dictionary_page_offset"] <= 0 and leaf.required
    except ParquetBloomError:  # who reads them says what is wrong
        return None
    header_bytes = size - rows * stride
    if not plain or start < len(MAGIC) or not 0 < header_bytes <= PAGE_HEADER_BYTES or size > footer.start - start:
        return None

    def holds(head: bytes) -> bool:
        """Whether one page of filters of that size begins with these bytes."""
        try:
            header = read_page_header(head)
        except MalformedFooterError:
            return False
        one_page = header.version == 1 and header.encoding == PLAIN and header.num_values == rows
        fits = header.num_bytes == size and header.header_bytes == header_bytes
        first = head[header_bytes : header_bytes + 4] == filter_bytes.to_bytes(4, "little")
        return one_page and fits and first and not header.is_dictionary

    offsets = start + header_bytes + 4 + stride * np.arange(rows, dtype=np.int64)
    proof = Proof(start, min(size, header_bytes + 4), holds)
    return PlacedFilters(source, offsets, np.full(rows, filter_bytes, np.int64), proof)
