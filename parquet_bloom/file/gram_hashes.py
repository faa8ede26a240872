"""Distinct hashes of the grams of a text column, as stored in an index over many files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.distinct import HashSet
from ..core.index.grams import GramExtractor
from ..core.keys import Keys
from ..errors import ParquetBloomError, UnsupportedTypeError
from ..hashing.arrow_keys import keys_of
from ..hashing.column_type import Kind
from ..hashing.gram_weights import GramWeights
from ..metadata.footer import SchemaLeaf
from ..predicate.calls import OTHER, map_case
from ..predicate.key_expression import KeyExpression
from .bloom_file import BloomFile
from .column_hashes import ZoneHashes, count_values
from .column_reader import ColumnReader
from .file_columns import type_of
from .page_checks import ReadRange


class GramHashes:
    """The distinct hashes of a column's grams, row group by row group; see `core.index.grams`. Thread-safe.

    Grams of `lower(column)` are those of the texts of ordinary characters; others have `calls.OTHER` in their place.

    Parameters
    ----------
    file, expression : the grams; their weights have to be known.
    leaf : the column.

    Attributes
    ----------
    column_type : the type of its stored values.

    Raises
    ------
    UnsupportedTypeError
        The column does not have texts.
    ParquetBloomError
        As of `ColumnHashes`.
    """

    def __init__(self, file: BloomFile, expression: KeyExpression, leaf: SchemaLeaf):
        assert expression.weights is not None
        self._file, self._case, self._weights = file, expression.case, expression.weights
        self.column_type = type_of(leaf)
        try:
            if self.column_type.kind is not Kind.STRING:
                problem = f"grams are those of texts, not of {self.column_type}"
                raise UnsupportedTypeError(problem, column=leaf.name)
            for row_group in file.row_groups:
                count_values(file, row_group, leaf)
            self._reader = ColumnReader(file.source, file.footer, leaf)
        except ParquetBloomError as error:
            error.path = error.path or file.path
            raise

    def of(self, row_group: int, chunk: ReadRange | None = None) -> NDArray[np.uint64]:
        """Return the hashes of a row group, unordered; for `chunk` see `ColumnReader`, as its `read`.

        Raises
        ------
        UnreadableColumnError
            Pages cannot be decoded.
        """
        grams = _TextGrams(self._weights, self._case)
        distinct = HashSet()
        num_rows = self._file.footer.num_rows_of(row_group)
        try:
            if num_rows:
                for texts in self._read(row_group, num_rows, chunk):
                    grams.add_to(distinct, texts)
        except ParquetBloomError as error:
            error.path = error.path or self._file.path
            raise
        return distinct.to_array()

    def read_texts(self, row_group: int) -> tuple[list[bytes], int]:
        """Return the texts that grams are of in the first rows of a row group, and how many rows these are."""
        for texts in self._reader.batches(row_group):
            mapped = map_case(texts, self._case)[0] if self._case else texts.drop_null()
            return mapped.cast(pa.large_binary()).to_pylist(), len(texts)
        return [], 0

    def _read(self, row_group: int, num_rows: int, chunk: ReadRange | None) -> Iterator[pa.Array | Keys]:
        if not self._case:
            return self._reader.read_occurring(row_group, chunk)
        return (values for _, values in self._reader.read_zones(row_group, num_rows, chunk))

    def of_zones(self, row_group: int, zone_rows: int, chunk: ReadRange | None = None) -> list[NDArray[np.uint64]]:
        """Return the hashes of each zone of `zone_rows` rows of a row group; otherwise as `of`."""
        zones = ZoneHashes(self._file.footer.num_rows_of(row_group), zone_rows)
        grams, last = _TextGrams(self._weights, self._case), 0
        try:
            for zone, texts in self._reader.read_zones(row_group, zone_rows, chunk) if zones.num_zones else ():
                if zone != last:
                    grams.forget()
                    last = zone
                grams.add_to(zones.open(zone), texts)
        except ParquetBloomError as error:
            error.path = error.path or self._file.path
            raise
        return zones.finish()


class _TextGrams:
    """Adds the hashes of texts' grams to sets, as far as it does not remember to have added them to the same one."""

    def __init__(self, weights: GramWeights, case: str):
        self._extractor = GramExtractor(weights.array)
        self._case = case

    def forget(self) -> None:
        """Prepare for another set."""
        self._extractor.forget()

    def add_to(self, distinct: HashSet, texts: pa.Array | Keys) -> None:
        if self._case:
            assert isinstance(texts, pa.Array)
            mapped, has_others = map_case(texts, self._case)
            texts = mapped.cast(pa.large_binary())
            if has_others:
                distinct.add(np.array([OTHER], np.uint64))
        keys = keys_of(texts)
        next_text = 0
        while next_text < len(keys):
            hashes, next_text = self._extractor.extract(keys, next_text)
            distinct.add(hashes)
