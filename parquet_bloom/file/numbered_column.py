"""A column of numbers that a file gets when it is written anew without some of its rows: each row keeps its number."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import MalformedFooterError, UnreadableColumnError, first_line
from ..metadata.encoded_struct import EncodedStruct
from ..metadata.footer import MAGIC, TAIL_BYTES, Footer, SchemaLeaf
from ..metadata.thrift_compact import BINARY, I32, I64, read_struct
from ..util.lazy import late_module
from .bloom_file import BloomFile
from .encode_chunk import DATA_PAGE

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

# Fields of FileMetaData,
_SCHEMA, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS = 2, 4, 5, 7
# of RowGroup, ColumnChunk, SchemaElement and KeyValue.
_COLUMNS, _METADATA, _NUM_CHILDREN, _FIELD_ID, _KEY, _VALUE = 1, 3, 5, 9, 1, 2

ARROW_SCHEMA = b"ARROW:schema"


class NumberedColumn(NamedTuple):
    """Numbers that a table counts the rows of a file by, while the file has them not.

    Attributes
    ----------
    name, field_id : of the column; without an id it is known by its name.
    first : the number of the file's first row.
    step : from one row to the next.
    may_be_null : whether a row of a file that has the column keeps its number where that is null.
    """

    name: str
    field_id: int | None
    first: int
    step: int
    may_be_null: bool = False

    def find_in(self, leaves: Sequence[SchemaLeaf]) -> SchemaLeaf | None:
        """Return the leaf of a file that has the numbers already; None if there is none."""
        if self.field_id is not None:
            return next((leaf for leaf in leaves if leaf.nodes[-1].get(_FIELD_ID) == self.field_id), None)
        return next((leaf for leaf in leaves if leaf.path == (self.name,)), None)

    def number(self, first_row: int, keep: NDArray[np.bool_]) -> pa.Array:
        """Return the numbers of rows that follow one another, of those for which `keep` is true."""
        return pa.array(self.first + self.step * (first_row + np.flatnonzero(keep)), pa.int64())


class NumberedChunk(NamedTuple):
    """The numbers of the rows of a row group, as a column chunk.

    Attributes
    ----------
    pages : its bytes.
    chunk, metadata : its ColumnChunk and the ColumnMetaData in that, with offsets from its beginning on.
    """

    pages: memoryview
    chunk: EncodedStruct
    metadata: EncodedStruct


def choose_columns(file: BloomFile, columns: Sequence[NumberedColumn]) -> list[NumberedColumn]:
    """Return the columns that a file has not.

    Raises
    ------
    UnreadableColumnError
        It has one of them, and there may be a null in it, in whose place the table has the number by the file; or
        another column of its name.
    """
    chosen = []
    for column in columns:
        leaf = column.find_in(file.leaves)
        if leaf is None:
            if any(other.name.partition(".")[0] == column.name for other in file.leaves):
                problem = "the table numbers rows by a column of this name, and this is another one"
                raise UnreadableColumnError(problem, path=file.path, column=column.name)
            chosen.append(column)
            continue
        for row_group in file.row_groups if leaf.nullable and not column.may_be_null else ():
            if file.footer.statistics(file.record(row_group, leaf)).null_count != 0:
                problem = "the table numbers rows by their file where it is null, as it may be: they cannot leave it"
                raise UnreadableColumnError(problem, path=file.path, row_group=row_group, column=leaf.name)
    return chosen


def encode_numbers(column: NumberedColumn, numbers: pa.Array) -> NumberedChunk:
    """Return numbers as a column chunk; at least one."""
    footer, written = _write(column, numbers)
    [group] = EncodedStruct(footer.data).structs(_ROW_GROUPS)
    [chunk] = group.structs(_COLUMNS)
    [leaf] = footer.leaves
    start, length = footer.first_page(0, leaf), int(footer.chunk(0, leaf)["compressed_size"])
    metadata = chunk.struct(_METADATA)
    metadata.set(DATA_PAGE, I64, metadata.integer(DATA_PAGE) - start)
    return NumberedChunk(written[start : start + length], chunk, metadata)


def add_to_schema(metadata: EncodedStruct, columns: Sequence[NumberedColumn], path: str) -> None:
    """Add columns at the end of a FileMetaData's schema, also of that which Arrow keeps beside it.

    Raises
    ------
    MalformedFooterError
        Arrow's schema cannot be read: its readers take the columns by their positions in it.
    """
    elements = metadata.structs(_SCHEMA)
    elements[0].set(_NUM_CHILDREN, I32, elements[0].integer(_NUM_CHILDREN) + len(columns))
    orders = metadata.structs(_COLUMN_ORDERS) if _COLUMN_ORDERS in metadata else []
    has_orders = len(orders) > 0
    for column in columns:
        alone = EncodedStruct(_write(column, pa.nulls(0, pa.int64()))[0].data)
        elements.append(alone.structs(_SCHEMA)[1])
        orders += alone.structs(_COLUMN_ORDERS)
    metadata.set_structs(_SCHEMA, elements)
    if has_orders:
        metadata.set_structs(_COLUMN_ORDERS, orders)
    if _KEY_VALUES not in metadata:
        return
    pairs = metadata.structs(_KEY_VALUES)
    for pair in pairs:
        fields = read_struct(pair.encode())[0]
        if fields.get(_KEY) == ARROW_SCHEMA:
            try:
                schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields[_VALUE])))
            except (pa.ArrowException, ValueError) as error:
                problem = f"metadata: its Arrow schema cannot be read: {first_line(error)}"
                raise MalformedFooterError(problem, path=path) from None
            for column in columns:
                schema = schema.append(_make_field(column))
            pair.set(_VALUE, BINARY, base64.b64encode(schema.serialize()))
    metadata.set_structs(_KEY_VALUES, pairs)


def _make_field(column: NumberedColumn) -> pa.Field:
    field = pa.field(column.name, pa.int64())
    return field if column.field_id is None else field.with_metadata({"PARQUET:field_id": str(column.field_id)})


def _write(column: NumberedColumn, numbers: pa.Array) -> tuple[Footer, memoryview]:
    """Return a Parquet file of numbers alone, and its footer."""
    table = pa.table([numbers], schema=pa.schema([_make_field(column)]))
    sink = pa.BufferOutputStream()
    pq.write_table(
        *(table, sink),
        row_group_size=max(1, len(table)),
        store_schema=False,
        use_dictionary=False,
        column_encoding="DELTA_BINARY_PACKED",  # a few bytes for numbers that follow one another
        compression="none",
    )
    written = memoryview(sink.getvalue())
    length = int.from_bytes(written[-TAIL_BYTES : -len(MAGIC)], "little")
    start = len(written) - TAIL_BYTES - length
    return Footer(bytes(written[start:-TAIL_BYTES]), start), written
