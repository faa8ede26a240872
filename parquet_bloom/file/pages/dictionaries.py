"""Dictionaries of column chunks all of whose pages are dictionary-encoded: the exact set of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...hashing.column_type import ColumnType, Kind
from ...metadata.footer import SchemaLeaf
from ...storage.local.open_files import RangeReader
from ..column_reader import find_value_outside_type
from ..file_columns import WIDTHS, stored_column, type_of
from .chunk_batch import ChunkBatch
from .decompress import decompress
from .page_columns import convert, find_layout, make_array_of_buffers

MOST_BYTES = 64 << 20
"""Bytes of the values of dictionaries that are read together."""

_INT96 = pa.binary(12)


class Dictionaries(NamedTuple):
    """Dictionaries of one column.

    Attributes
    ----------
    counts : how many values each has; -1 for one that cannot be used (int64).
    values : of all of them, one after the other.
    problems : why some cannot be used, by their numbers.
    """

    counts: NDArray[np.int64]
    values: pa.Array
    problems: dict[int, str]


def shown_type(column_type: ColumnType) -> pa.DataType | None:
    """Return the Arrow type of a column's values in rows; None if there is none, or the column has no dictionary."""
    kind, unit = column_type.kind, column_type.unit
    if column_type.physical == "BOOLEAN" or kind is Kind.UNKNOWN:
        return None
    if column_type.physical == "INT96":
        return _INT96
    if kind is Kind.INTEGER:
        signed, bits = column_type.signed, column_type.bits or 64
        return {8: (pa.uint8(), pa.int8()), 16: (pa.uint16(), pa.int16()), 32: (pa.uint32(), pa.int32())}.get(
            bits, (pa.uint64(), pa.int64())
        )[signed]
    if kind is Kind.FLOAT:
        return {2: pa.float16(), 4: pa.float32(), 8: pa.float64()}[column_type.length or 8]
    if kind is Kind.DECIMAL:
        if column_type.physical == "BYTE_ARRAY" or column_type.precision is None:
            return None
        make = pa.decimal128 if column_type.precision <= 38 else pa.decimal256
        return make(column_type.precision, column_type.scale)
    if kind is Kind.DATE:
        return pa.date32()
    if kind is Kind.TIME:
        return pa.time32("ms") if unit == "ms" else pa.time64(unit)
    if kind is Kind.TIMESTAMP:
        return pa.timestamp(unit, "UTC" if column_type.utc else None)
    if kind is Kind.UUID:
        return pa.uuid()
    if kind is Kind.STRING:
        return pa.string()
    return pa.binary(-1 if column_type.physical == "BYTE_ARRAY" else column_type.length)


def read_dictionaries(
    files: RangeReader, leaf: SchemaLeaf, numbers: Sequence[int] | NDArray[np.intp], locations: NDArray[np.int64]
) -> Dictionaries | None:
    """Read dictionaries of a column.

    Parameters
    ----------
    files : the files, open.
    numbers : of each dictionary's file.
    locations : of each, as in `ColumnStatistics.dictionaries`.

    Returns
    -------
    The dictionaries; None if the values cannot be had as rows have them.
    """
    column_type = type_of(leaf)
    arrow, width = shown_type(column_type), WIDTHS.get(leaf.physical, leaf.length or None)
    layout = None if arrow is None else _INT96 if arrow is _INT96 else find_layout(leaf, arrow)
    if arrow is None or layout is None or width is None:
        return None
    chunks = np.zeros((len(locations), 7), np.int64)
    chunks[:, 0], chunks[:, 1], chunks[:, 2], chunks[:, 4] = numbers, *locations.T
    batch = ChunkBatch(files, decompress)
    counts, ends, data, problems = batch.read_dictionaries(chunks, stored_column(leaf), MOST_BYTES)
    stored = make_array_of_buffers(layout, int(counts[counts > 0].sum()), None, ends, data)
    if find_value_outside_type(stored, column_type):
        return None  # engines show other values
    values = stored if arrow is _INT96 else convert(stored, arrow)
    if column_type.kind is Kind.STRING and not _is_text(values):
        return None
    return Dictionaries(counts, values, problems)


def _is_text(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:  # a text that is not UTF-8
        return False
    return True
