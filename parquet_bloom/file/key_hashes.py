"""Distinct hashes of expressions over a file's columns, as an index stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.distinct import HashSet
from ..core.hash.xxh64 import Keys, hash_keys
from ..errors import ParquetBloomError, UnreadableColumnError, UnsupportedTypeError
from ..hashing.arrow import keys_of
from ..hashing.column_type import ColumnType, Kind
from ..metadata.footer import Leaf
from ..predicate.calls import hash_results, require_type
from ..predicate.key_expression import TUPLE, KeyExpression
from ..util.arrow_values import from_numpy, to_numpy
from .column_hashes import ZoneHashes, count_values
from .columns import type_of
from .page_checks import ReadRange
from .reader import BloomFile
from .values import ColumnReader, find_value_outside_type


class ExpressionHashes:
    """The distinct hashes of an expression, row group by row group. Thread-safe.

    Those of a function are hashes of its texts, see `predicate.calls`. A tuple's is the hash of the hashes of its
    parts, eight bytes little-endian each, in order; a tuple with a null has none.

    Parameters
    ----------
    file, expression : the expression.
    leaves : its columns, in order; not inside of lists.

    Attributes
    ----------
    column_types : of the stored values of its columns.

    Raises
    ------
    UnsupportedTypeError
        Values of such types cannot be compared exactly.
    ParquetBloomError
        As of `ColumnHashes`.
    """

    def __init__(self, file: BloomFile, expression: KeyExpression, leaves: Sequence[Leaf]):
        self._file = file
        self._expression = expression
        self.column_types = tuple(map(type_of, leaves))
        try:
            for leaf, column_type in zip(leaves, self.column_types, strict=True):
                _require_usable(expression, leaf, column_type)
            self._counts = [[count_values(file, one, leaf) for leaf in leaves] for one in file.row_groups]
            self._readers = [ColumnReader(file.source, file.footer, leaf) for leaf in leaves]
        except ParquetBloomError as error:
            error.path = error.path or file.path
            raise

    def of(self, row_group: int, *chunks: ReadRange | None) -> NDArray[np.uint64]:
        """Return the hashes of a row group, unordered.

        Parameters
        ----------
        chunks : of each column, what reads it in place of the file, see `ColumnReader`; none for the file.

        Raises
        ------
        UnreadableColumnError
            Pages cannot be decoded, or a value is outside its type.
        """
        distinct = HashSet(max(self._counts[row_group]))
        given = chunks or (None,) * len(self._readers)
        try:
            if not self._file.footer.empty_row_groups[row_group]:
                pairs = zip(self._readers, given, strict=True)
                for arrays in _align([self._read(reader, row_group, chunk) for reader, chunk in pairs]):
                    distinct.add(self._hash(arrays))
        except ParquetBloomError as error:
            error.path = error.path or self._file.path
            raise
        return distinct.to_array()

    def of_zones(self, row_group: int, zone_rows: int, *chunks: ReadRange | None) -> list[NDArray[np.uint64]]:
        """Return the hashes of each zone of `zone_rows` rows of a row group; otherwise as `of`."""
        zones = ZoneHashes(self._file.footer.num_rows_of(row_group), zone_rows)
        given = chunks or (None,) * len(self._readers)
        row = 0
        try:
            pairs = zip(self._readers, given, strict=True) if zones.num_zones else ()
            for arrays in _align([self._read(reader, row_group, chunk) for reader, chunk in pairs]):
                start = 0
                while start < len(arrays[0]):
                    count = min(len(arrays[0]) - start, zone_rows - row % zone_rows)
                    zones.open(row // zone_rows).add(self._hash([array.slice(start, count) for array in arrays]))
                    start, row = start + count, row + count
        except ParquetBloomError as error:
            error.path = error.path or self._file.path
            raise
        return zones.finish()

    def _read(self, reader: ColumnReader, row_group: int, chunk: ReadRange | None) -> Iterator[pa.Array]:
        for array in reader.batches(row_group, chunk):
            problem = find_value_outside_type(array, reader.column_type)
            if problem:
                raise UnreadableColumnError(f"cannot be read: {problem}", row_group=row_group, column=reader.leaf.name)
            yield array

    def _hash(self, arrays: Sequence[pa.Array]) -> NDArray[np.uint64]:
        if self._expression.function != TUPLE:
            return hash_results(arrays[0], self._expression.function, self.column_types[0])
        present = np.logical_and.reduce([to_numpy(array.is_valid()) for array in arrays])
        if not present.all():
            arrays = [array.filter(from_numpy(present)) for array in arrays]
        return combine_hashes([hash_keys(keys_of(array)) for array in arrays])


def combine_hashes(hashes: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the hashes of tuples, given those of their parts, as many of each."""
    parts = np.ascontiguousarray(np.stack(hashes, axis=1).astype("<u8"))
    return np.asarray(hash_keys(Keys.fixed(parts, 8 * len(hashes), len(parts))))


def _require_usable(expression: KeyExpression, leaf: Leaf, column_type: ColumnType) -> None:
    try:
        if leaf.repeated:
            raise UnsupportedTypeError(f"the expression {expression} is of single values, not of those of a list")
        if expression.function != TUPLE:
            require_type(expression.function, column_type)
        elif not column_type.hashable or column_type.kind is Kind.FLOAT:
            raise UnsupportedTypeError(f"a key of several columns cannot have one of {column_type}")
    except UnsupportedTypeError as error:
        error.column = leaf.name
        raise


def _align(columns: Sequence[Iterator[pa.Array]]) -> Iterator[list[pa.Array]]:
    """Yield arrays of the same rows of several columns, whose arrays may end at different rows.

    Raises
    ------
    UnreadableColumnError
        A column has fewer rows than another.
    """
    waiting: list[pa.Array | None] = [None] * len(columns)
    while True:
        for i, column in enumerate(columns):
            array = waiting[i]
            while array is None or not len(array):
                array = next(column, None)
                if array is None:
                    break
            waiting[i] = array
        arrays = [array for array in waiting if array is not None]
        if not arrays:
            return
        if len(arrays) < len(columns):
            raise UnreadableColumnError("the columns of a key have different numbers of rows")
        length = min(map(len, arrays))
        yield [array.slice(0, length) for array in arrays]
        waiting = [array.slice(length) for array in arrays]
