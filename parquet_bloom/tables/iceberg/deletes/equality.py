"""Equality deletes: a row is deleted where it equals a row of a delete file in the columns that the file is for.

NULL equals NULL and NaN equals NaN; 0.0 and -0.0 differ, as they do in Iceberg's reference implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ....errors import ParquetBloomError
from ....util.arrow_select import keep
from ..columns import Field
from ..manifests.files import DeleteFile
from .parquet import ColumnPath, find_by_id, open_delete_file


def read_equality(file_io: Any, file: DeleteFile, columns: Sequence[Field]) -> tuple[pa.Table, int]:
    """Return the values that a file deletes, in comparable form and without duplicates, and their size in bytes.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    columns : of the table, those that the file is for.

    Raises
    ------
    ParquetBloomError
        The file lacks one of them, or has it in a type that is not the column's.
    Exception
        Of many kinds, from pyarrow and pyiceberg: the file cannot be read.
    """
    with open_delete_file(file_io, file) as parquet:
        paths = [find_by_id(parquet.schema_arrow, column.field_id) for column in columns]
        if None in paths:
            missing = columns[paths.index(None)]
            problem = f"has no column of field id {missing.field_id}, of '{missing.name}'"
            raise ParquetBloomError(f"its delete file {file.path} {problem}")
        table = parquet.read(columns=[".".join(path) for path in paths if path], use_threads=False)
    found: list[pa.ChunkedArray] = []
    for path, column in zip(paths, columns, strict=True):
        values = select_field(table, path or ())
        if not _may_become(values.type, column.arrow_type):
            problem = f"has '{column.name}' as {values.type}, and the table as {column.arrow_type}"
            raise ParquetBloomError(f"its delete file {file.path} {problem}")
        found.append(make_comparable(values, column.arrow_type))
    result = pa.table(dict(enumerate_names(found)))
    if result.num_columns == 1:
        result = pa.table({"0": result.column(0).unique()})
    return result, result.nbytes


def enumerate_names(arrays: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return arrays with the names that columns have here: their numbers."""
    return [(str(number), each) for number, each in enumerate(arrays)]


def select_field(table: pa.Table, path: ColumnPath) -> pa.ChunkedArray:
    """Return a column, or a field of structs, which is null where a struct is."""
    values = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, name)
    return values


def make_comparable(values: pa.ChunkedArray, arrow_type: pa.DataType) -> pa.Array:
    """Return values in a column's type so that equal bytes are equal values, and all others differ.

    Raises
    ------
    pyarrow.ArrowInvalid
        A value does not fit the type.
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if isinstance(arrow_type, pa.BaseExtensionType):
        arrow_type = arrow_type.storage_type
    if array.type != arrow_type:
        array = array.cast(arrow_type)
    if pa.types.is_floating(arrow_type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), arrow_type), array)
        return array.view(pa.int32() if arrow_type.bit_width == 32 else pa.int64())
    return array


def find_deleted(rows: pa.Table, deleted: pa.Table) -> NDArray[np.bool_]:
    """Return which rows equal one of the deleted ones; both tables have the same columns, in comparable form."""
    count = rows.num_columns
    if len(rows) < len(deleted):  # a hash table of a few rows takes less time than one of all that is deleted
        deleted = keep(deleted, pa.array(_match_columns(deleted, rows)))
    candidates = _match_columns(rows, deleted)
    if count == 1 or not candidates.any():
        return candidates
    # Only those few rows can be equal in all columns at once; they are compared by numbers for their values.
    chosen = keep(rows, pa.array(candidates))
    against = keep(deleted, pa.array(_match_columns(deleted, chosen)))
    codes = np.zeros(len(against) + len(chosen), np.int64)
    for number in range(count):
        column = pa.chunked_array(
            [*against.column(number).chunks, *chosen.column(number).chunks], rows.schema.field(number).type
        )
        encoded = column.combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = pa.concat_arrays(encoded.chunks)
        indices = encoded.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (len(codes) + 1) + indices, return_inverse=True)
    result = candidates.copy()
    result[candidates] = np.isin(codes[len(against) :], codes[: len(against)])
    return result


def _match_columns(rows: pa.Table, others: pa.Table) -> NDArray[np.bool_]:
    """Return the rows each of whose values is somewhere in the same column of the other table."""
    result = np.ones(len(rows), np.bool_)
    for number in range(rows.num_columns):
        if pa.types.is_null(rows.schema.field(number).type):
            result &= len(others) > 0
            continue
        found = pc.is_in(rows.column(number), value_set=others.column(number).combine_chunks())
        result &= found.to_numpy()
    return result


def _may_become(stored: pa.DataType, column: pa.DataType) -> bool:
    """Return whether values of a delete file may be compared as a column's type, to which it may have been promoted."""
    types = pa.types
    stored, column = (
        each.storage_type if isinstance(each, pa.BaseExtensionType) else each for each in (stored, column)
    )
    if types.is_dictionary(stored):
        stored = stored.value_type
    if stored == column or types.is_null(stored):
        return True
    if types.is_integer(column):
        return types.is_signed_integer(stored) and stored.bit_width <= column.bit_width
    if types.is_floating(column):
        return types.is_floating(stored) and stored.bit_width <= column.bit_width
    if types.is_decimal(column):
        return types.is_decimal(stored) and stored.scale == column.scale and stored.precision <= column.precision
    if types.is_timestamp(column):
        is_time = types.is_timestamp(stored) and (stored.tz is None) == (column.tz is None)
        return is_time or (types.is_date32(stored) and column.tz is None)
    if types.is_time(column):
        return types.is_time(stored)
    if types.is_large_string(column):
        return types.is_string(stored) or types.is_string_view(stored)
    if types.is_large_binary(column):
        return types.is_binary(stored) or types.is_binary_view(stored)
    return False
