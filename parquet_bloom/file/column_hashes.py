"""Distinct hashes of a column's values, as stored in an index over many files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.distinct import HashSet
from ..core.hash.xxh64 import Keys, hash_keys
from ..errors import (
    FilterTypeError,
    MalformedFooterError,
    ParquetBloomError,
    UnreadableColumnError,
    UnsupportedTypeError,
)
from ..hashing import arrow_keys as arrays
from ..hashing.arrow_keys import keys_of
from ..hashing.coerce import hash_all
from ..hashing.column_type import ColumnType, Kind
from ..metadata.footer import SchemaLeaf
from ..predicate.calls import hash_results, require_type
from ..predicate.key_expression import TUPLE, KeyExpression
from ..util.arrow_values import from_numpy, to_numpy
from .bloom_file import BloomFile
from .column_reader import ColumnReader, find_value_outside_type
from .file_columns import type_of
from .identity import require_readable_chunk
from .page_checks import ReadRange, require_value_per_row

PIECE_ROWS = 1 << 16  # hashed at once, of an array in memory


class ColumnHashes:
    """The distinct hashes of a column, row group by row group. Thread-safe.

    Hashes are XXH64 (seed 0) of each value's plain encoding; nulls have none. Where a zero occurs, zeros of both signs
    are included, and where a NaN occurs also the canonical NaN, so that a search for one encoding finds every other.

    Parameters
    ----------
    file, leaf : the column.

    Attributes
    ----------
    column_type : the type of its stored values.

    Raises
    ------
    UnsupportedTypeError
        The column is BOOLEAN.
    EncryptedFileError, UnreadableColumnError, MalformedFooterError
        Pages are encrypted, in another file, or cannot be decoded, or the footer contradicts itself.
    """

    def __init__(self, file: BloomFile, leaf: SchemaLeaf):
        self._file = file
        self.column_type = type_of(leaf)
        try:
            if not self.column_type.hashable:
                problem = "BOOLEAN columns are not indexed: there are two values to find"
                raise UnsupportedTypeError(problem, column=leaf.name)
            self._counts = [count_values(file, row_group, leaf) for row_group in file.row_groups]
            self._reader = ColumnReader(file.source, file.footer, leaf)
        except ParquetBloomError as error:
            error.path = error.path or file.path
            raise

    def of(self, row_group: int, chunk: ReadRange | None = None) -> NDArray[np.uint64]:
        """Return the hashes of a row group, unordered; needs memory for a `HashSet` of them, and for the array.

        The caller has to check that the file was not changed meanwhile (`file.source.check_unchanged`). For `chunk` see
        `ColumnReader`, as its `read`.

        Raises
        ------
        UnreadableColumnError
            Pages cannot be decoded, or a value is outside its type.
        """
        distinct = HashSet(self._counts[row_group])
        try:
            if not self._file.footer.empty_row_groups[row_group]:
                for storage in self._reader.read_occurring(row_group, chunk):
                    add_hashes(distinct, storage, self.column_type)
        except ParquetBloomError as error:
            error.path = error.path or self._file.path
            raise
        return distinct.to_array()

    def of_zones(self, row_group: int, zone_rows: int, chunk: ReadRange | None = None) -> list[NDArray[np.uint64]]:
        """Return the hashes of each zone of `zone_rows` rows of a row group; otherwise as `of`."""
        zones = ZoneHashes(self._file.footer.num_rows_of(row_group), zone_rows)
        try:
            for zone, storage in self._reader.read_zones(row_group, zone_rows, chunk) if zones.num_zones else ():
                add_hashes(zones.open(zone), storage, self.column_type)
        except ParquetBloomError as error:
            error.path = error.path or self._file.path
            raise
        return zones.finish()


class ZoneHashes:
    """Collects the distinct hashes of the zones of a row group, one zone after the other.

    Parameters
    ----------
    num_rows : of the row group.
    zone_rows : of each zone; the last one may have fewer.
    """

    def __init__(self, num_rows: int, zone_rows: int):
        self.num_zones = -(-num_rows // zone_rows)
        self._most_rows = min(zone_rows, num_rows)
        self._done: list[NDArray[np.uint64]] = []
        self._distinct = HashSet(self._most_rows)  # of one zone after the other, as fresh memory takes time

    def open(self, zone: int) -> HashSet:
        """Return the set to add the hashes of a zone to; zones are opened in order, each any number of times."""
        while zone > len(self._done):
            self._close()
        return self._distinct

    def _close(self) -> None:
        hashes = self._distinct.to_array()
        self._done.append(hashes)
        self._distinct.clear(max(self._most_rows, len(hashes)))

    def finish(self) -> list[NDArray[np.uint64]]:
        """Return the hashes of every zone; those of zones without values are empty."""
        while len(self._done) < self.num_zones:
            self._close()
        return self._done


def distinct_hashes(file: BloomFile, leaf: SchemaLeaf) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Yield each row group's number and the distinct hashes of a column in it; see `ColumnHashes`."""
    hashes = ColumnHashes(file, leaf)
    return ((row_group, hashes.of(row_group)) for row_group in file.row_groups)


def count_values(file: BloomFile, row_group: int, leaf: SchemaLeaf) -> int:
    """Return the number of values, nulls included, of a column chunk with readable pages.

    Raises
    ------
    EncryptedFileError, UnreadableColumnError
        See `require_readable_chunk`.
    MalformedFooterError
        The row group declares another number of rows than the column chunk has, so that readers would disagree.
    """
    footer = file.footer
    num_values = int(require_readable_chunk(footer, row_group, leaf)["num_values"])
    num_rows = footer.num_rows_of(row_group)
    if not leaf.repeated:
        require_value_per_row(file.source, footer, row_group, leaf)
        return num_rows
    if not (num_values >= num_rows > 0 or num_values == num_rows == 0):
        # Some readers stop at the number of rows, others at the number of values.
        problem = f"metadata: {num_values} values in {num_rows} rows"
        raise MalformedFooterError(problem, row_group=row_group, column=leaf.name)
    return num_values


def hash_distinct(values: object) -> tuple[ColumnType, NDArray[np.uint64]]:
    """Return the type as which pyarrow's writer would store values, and their distinct hashes; see `distinct_hashes`.

    Parameters
    ----------
    values : a pyarrow Array or ChunkedArray. Lists are flattened, as is a struct of one field; nulls at every level are
        left out. An array of Arrow's null type is a column without values.

    Raises
    ------
    UnsupportedTypeError
        BOOLEAN; maps, unions and structs of more than one field; types that Parquet cannot store.
    FilterTypeError
        `values` is not such an array, or holds values that cannot be stored unchanged.
    """
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        raise FilterTypeError(f"values must be a pyarrow Array or ChunkedArray, not {type(values).__name__}")
    pieces = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    leaf_type, column_type = _find_types(values.type)
    distinct = HashSet()
    for array in pieces:
        while array.type != leaf_type:
            array = array.flatten()[0] if pa.types.is_struct(array.type) else array.flatten()
        if isinstance(array, pa.DictionaryArray):  # each used value once
            array = array.dictionary.take(array.indices.unique().drop_null())
        for start in range(0, len(array), PIECE_ROWS):
            add_hashes(distinct, arrays.to_storage(array.slice(start, PIECE_ROWS), column_type), column_type)
    return column_type, distinct.to_array()


@lru_cache(maxsize=256)
def _find_types(arrow_type: pa.DataType) -> tuple[pa.DataType, ColumnType]:
    """Return the Arrow type of the values of one column, and the type as which they would be stored."""
    leaf_type = _find_leaf_type(arrow_type)
    return leaf_type, arrays.type_of(pa.nulls(0, leaf_type))


def _find_leaf_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the values below lists and structs of one field."""
    while pa.types.is_nested(arrow_type) and not pa.types.is_run_end_encoded(arrow_type):
        is_map_or_union = pa.types.is_map(arrow_type) or pa.types.is_union(arrow_type)
        if is_map_or_union or arrow_type.num_fields != 1:
            raise UnsupportedTypeError(f"values of Arrow type {arrow_type} are not those of one column")
        arrow_type = arrow_type.field(0).type
    return arrow_type


def add_hashes(distinct: HashSet, storage: pa.Array | Keys, column_type: ColumnType) -> None:
    """Add the hashes of stored values to a set, as `ColumnHashes` has them."""
    distinct.add(hash_keys(arrays.keys_of(storage)))
    if column_type.kind is Kind.FLOAT and not isinstance(storage, Keys):
        floats = arrays.to_floats(storage.drop_null())
        values = ([0.0] if (floats == 0).any() else []) + ([math.nan] if np.isnan(floats).any() else [])
        distinct.add(hash_all(values, column_type)[0])


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

    def __init__(self, file: BloomFile, expression: KeyExpression, leaves: Sequence[SchemaLeaf]):
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
                for arrays in align_rows([self._read(reader, row_group, chunk) for reader, chunk in pairs]):
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
            for arrays in align_rows([self._read(reader, row_group, chunk) for reader, chunk in pairs]):
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


def _require_usable(expression: KeyExpression, leaf: SchemaLeaf, column_type: ColumnType) -> None:
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


def align_rows(columns: Sequence[Iterator[pa.Array]]) -> Iterator[list[pa.Array]]:
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
