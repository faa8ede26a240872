"""An open zone index, which returns the zones that may contain a value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..hashing.coerce import coerce
from ..hashing.column_type import ColumnType
from ..storage import Source
from ..storage.paths import name_of
from . import zone_schema
from .zone_filters import ZoneFilters, lance_num_bytes
from .zone_hashes import hash_values
from .zone_manifest import ZoneManifest
from .zone_reports import ZonedFile, ZonedFragment

_BYTES_PER_READ = 1 << 24  # bytes of filters


class FileZones(NamedTuple):
    """The zones of a file, by row group and first row; every row of the file is in one.

    Attributes
    ----------
    row_group : row group of each zone.
    start, length : rows of each zone in the row group.
    has_null : whether each zone has a null.
    zones : ordinal of each zone in the index, as for `ZoneIndex.check`.
    """

    row_group: NDArray[np.intp]
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    has_null: NDArray[np.bool_]
    zones: NDArray[np.intp]


class ZoneIndex:
    """A zone index. Use `parquet_bloom.zones.open`; close it, or use it as a context manager. Threads may share it.

    Attributes
    ----------
    path : path of the index; None for a table in memory.
    column : dotted name of the column; None if the source does not contain it.
    column_type : how its values are stored; None if the source does not contain it. For an index over Parquet files
        with several types, the type in the first file; see `ZonedFile.column_type`.
    value_type : the same as an Arrow type.
    items, probability : number of values and fpp that the filters were sized for.
    zones : a structured array: fragment_id, zone_start, zone_length (uint64), has_null (bool).
    uncovered : fragments of the Lance dataset that the index does not cover, as (fragment_id, rows); all results
        include them.
    """

    def __init__(
        self,
        path: str | None,
        zones: NDArray[np.void],
        filters: ZoneFilters,
        sizes: zone_schema.FilterSizing,
        *,
        manifest: ZoneManifest | None = None,
        column: str | None = None,
        column_type: ColumnType | None = None,
        value_type: pa.DataType | None = None,
        uncovered: Sequence[tuple[int, int]] = (),
        closing: Iterable[Any] = (),
    ):
        self.path = path
        self.zones = zones
        self.items, self.probability = sizes.items, sizes.probability
        self.column, self.column_type, self.value_type = column, column_type, value_type
        self.uncovered = list(uncovered)
        self._filters, self._sizes, self._manifest = filters, sizes, manifest
        self._closing = list(closing)
        self._types = [column_type] if column_type is not None else []
        if manifest is not None:
            self.column = manifest.column
            self._types = list(dict.fromkeys(file.column_type for file in manifest.files))
            self.column_type = self._types[0] if self._types else None

    def close(self) -> None:
        """Close the files; may be called again."""
        for each in self._closing:
            with suppress(OSError):
                each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        of = "" if self.column is None else f" of column '{self.column}'"
        return f"<ZoneIndex{of}: {len(self.zones):,} zones of {self.items:,} items at {self.probability:g}>"

    def __len__(self) -> int:
        return len(self.zones)

    @property
    def distant(self) -> bool:
        """Return whether its filters are read from a file that is not local, so that each result needs a request."""
        return any(isinstance(each, Source) and each.path is None for each in self._closing)

    # ------------------------------------------------------------------------------------------------------- as a whole

    def to_table(self) -> pa.Table:
        """Return all zones in Lance's schema: fragment_id, zone_start, zone_length, has_null, bloom_filter_data."""
        return zone_schema.to_table(self.zones, self._filters.read(0, len(self)), self.metadata)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Return the metadata of the schema."""
        manifest_metadata = {} if self._manifest is None else self._manifest.to_metadata(self.zones)
        return self._sizes.metadata | manifest_metadata

    def bitsets(self, first: int = 0, count: int | None = None) -> Iterator[NDArray[np.uint8]]:
        """Yield the filters of consecutive zones, with only a few of them in memory at a time."""
        end = len(self) if count is None else min(len(self), first + count)
        step = max(1, _BYTES_PER_READ // self._filter_bytes)
        for start in range(first, end, step):
            for bitset in self._filters.read(start, min(step, end - start)):
                yield np.frombuffer(bitset.as_buffer(), np.uint8)

    @property
    def _filter_bytes(self) -> int:
        return lance_num_bytes(self.items, self.probability)

    # ------------------------------------------------------------------------------------------- queries as in Lance

    def equals(self, value: Any) -> pa.Table:
        """Return the zones that may have rows whose value equals `value`: fragment_id, zone_start, zone_length.

        None means nulls. All zones are returned if they cannot be pruned: for NaN, for a value that cannot be compared
        exactly with the column's type, and if that type is unknown.
        """
        return self.is_in([value])

    def is_in(self, values: Iterable[Any]) -> pa.Table:
        """Return the zones that may have rows whose value is one of `values`; see `equals`."""
        requested = list(values)
        nulls = any(value is None or (isinstance(value, pa.Scalar) and not value.is_valid) for value in requested)
        mask = self.zones["has_null"].copy() if nulls else np.zeros(len(self), np.bool_)
        requested = [
            value.item() if isinstance(value, np.number) else value for value in requested if value is not None
        ]
        if requested:
            hashes = self._hash_values(requested)
            probed = np.flatnonzero(~mask)
            mask[probed] = True if hashes is None else self.check(probed, hashes)
        return self._make_result(mask)

    def is_null(self) -> pa.Table:
        """Return the zones that may have nulls; see `equals`."""
        return self._make_result(self.zones["has_null"])

    def _hash_values(self, values: list[Any]) -> NDArray[np.uint64] | None:
        """Return all hashes that the values may have in a file; None if they cannot be determined."""
        if not self._types:
            return None
        hashes = []
        for column_type in self._types:
            coerced = coerce(values, column_type)
            if coerced.unknown is not None:
                return None
            hashes.append(hash_values(coerced.values, column_type)[0])
        return np.unique(np.concatenate(hashes))

    def _make_result(self, mask: NDArray[np.bool_]) -> pa.Table:
        table = zone_schema.to_answer(self.zones[mask])
        if not self.uncovered:
            return table
        uncovered = np.zeros(len(self.uncovered), zone_schema.ZONE)
        uncovered["fragment_id"], uncovered["zone_length"] = np.array(self.uncovered, np.uint64).T
        return pa.concat_tables([table, zone_schema.to_answer(uncovered)])

    # -------------------------------------------------------------------------------------------- over Parquet files

    @property
    def fragments(self) -> list[ZonedFragment] | None:
        """Return the row groups that have zones, by fragment_id; None for an index that is not over Parquet files."""
        return None if self._manifest is None else self._manifest.fragments

    @property
    def files(self) -> list[ZonedFile] | None:
        """Return the files that have zones; None for an index that is not over Parquet files."""
        return None if self._manifest is None else list(self._manifest.files)

    def file(self, number: int) -> ZonedFile:
        """Return a file by its number."""
        return self._parquet_manifest.files[number]

    @property
    def _parquet_manifest(self) -> ZoneManifest:
        if self._manifest is None:
            raise ParquetBloomError("the zone index is not over Parquet files", path=self.path)
        return self._manifest

    def of_file(self, path: str | os.PathLike[str], filesystem: object | None = None) -> int | None:
        """Return the number of a file, given by any of its names; None if it has no zones.

        The caller has to check that the file is unchanged (see `file.identity`).
        """
        return self._parquet_manifest.numbers.get(name_of(os.fspath(path), filesystem))

    def zones_of(self, number: int) -> FileZones:
        """Return the zones of a file, given by its number."""
        manifest = self._parquet_manifest
        fragments = manifest.fragments_of(number)
        ends = np.array([fragments.start, fragments.stop], np.uint64)
        first, last = np.searchsorted(self.zones["fragment_id"], ends).tolist()
        zones = self.zones[first:last]
        return FileZones(
            manifest.fragment_row_groups[zones["fragment_id"].astype(np.intp)].astype(np.intp),
            zones["zone_start"].astype(np.int64),
            zones["zone_length"].astype(np.int64),
            zones["has_null"].copy(),
            np.arange(first, last, dtype=np.intp),
        )

    def check(self, zones: NDArray[np.intp], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return whether zones may contain one of the hashes.

        Parameters
        ----------
        zones : ordinals of zones.
        hashes : from `hash_values` for the column's type (in the file of the zones).

        Returns
        -------
        bool array, one entry per zone; False where all hashes are certainly absent.

        Raises
        ------
        BrokenZonesError, StorageError, TruncatedFileError, ConcurrentChangeError
            The filters cannot be read, or changed after they were written.
        """
        return self._filters.check(np.asarray(zones, np.intp), np.ascontiguousarray(hashes, np.uint64))
