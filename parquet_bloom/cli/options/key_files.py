"""Parquet files of keys that are read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ParquetBloomError, first_line
from ...hashing.column_type import ColumnType, Kind
from ...storage import Source
from ...util.lazy import late_module
from .keys import find_key_column, make_null_error

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

_MAGIC = b"PAR1"
_BATCH_ROWS = 1 << 17


def is_parquet(source: Source) -> bool:
    """Return whether a file begins as Parquet files do."""
    return source.size >= len(_MAGIC) and bytes(source.read_at(0, len(_MAGIC))) == _MAGIC


class KeyFile:
    """The key's columns of a Parquet file.

    Parameters
    ----------
    source : the file, opened; it stays open.
    columns : of the key.
    name : of the file, for errors.

    Attributes
    ----------
    num_read : keys that were read so far.

    Raises
    ------
    ParquetBloomError
        The file cannot be read, or has no such column.
    """

    def __init__(self, source: Source, columns: Sequence[str], name: str):
        self.num_read = 0
        self._columns = columns
        self._name = name
        try:
            self._file = pq.ParquetFile(source.counted_arrow_file(), pre_buffer=False)
            schema = self._file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise self._wrap(error) from error
        stored = [schema.field(find_key_column(schema.names, column, name, len(columns))) for column in columns]
        self._stored = [field.name for field in stored]
        self.schema = pa.schema([pa.field(column, field.type) for column, field in zip(columns, stored, strict=True)])

    def has_texts_of(self, types: Sequence[ColumnType]) -> bool:
        """Return whether the file has texts for a column of another type, which have to be parsed."""
        return any(
            _is_text(field.type) and column_type.kind not in (Kind.STRING, Kind.BYTES)
            for field, column_type in zip(self.schema, types, strict=True)
        )

    def read_batches(self) -> pa.RecordBatchReader:
        """Return the keys, in columns of the key's names.

        Raises
        ------
        PredicateError
            While they are read: a key is null.
        ParquetBloomError
            While they are read: the file cannot be read.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._iterate())

    def _iterate(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=self._stored):
                for column, stored in zip(self._columns, self._stored, strict=True):
                    values = batch.column(stored)
                    if values.null_count:
                        row = self.num_read + values.is_null().to_pylist().index(True) + 1
                        raise make_null_error(f"row {row:,}", column, self._name)
                self.num_read += batch.num_rows
                yield pa.RecordBatch.from_arrays([batch.column(name) for name in self._stored], schema=self.schema)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, ParquetBloomError):
                raise
            raise self._wrap(error) from error

    def _wrap(self, error: Exception) -> ParquetBloomError:
        return ParquetBloomError(f"its keys cannot be read: {first_line(error)}", path=self._name)


def _is_text(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)
