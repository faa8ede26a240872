"""An opened zone index: which zones may hold a value."""

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
from ..hashing.coerce_many import coerce_all
from ..hashing.column_type import ColumnType
from ..storage import Source
from ..storage.paths import name_of
from . import schema
from .filters import Filters
from .hashes import hash_values
from .manifest import Manifest
from .reports import Fragment, ZonedFile
from .sizing import lance_num_bytes

_READ_TOGETHER = 1 << 24  # bytes of filters


class FileZones(NamedTuple):
    """The zones of a file, by row group and first row; every row of the file is in one.

    Attributes
    ----------
    row_group : of each.
    start, length : its rows in the row group.
    has_null : whether it has a null.
    zones : its ordinal in the index, as `ZoneIndex.check` takes it.
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
    path : where it is; None for a table in memory.
    column : dotted name of the column; None where the source does not say.
    column_type : how its values are stored; None where the source does not say. Of an index over Parquet files of
        several types that of the first file; each file has its own.
    value_type : the same as an Arrow type.
    items, probability : what the filters were sized for.
    zones : a structured array: fragment_id, zone_start, zone_length (uint64), has_null (bool).
    uncovered : fragments of the Lance dataset that the index does not cover, as (fragment_id, rows): each is named in
        every answer.
    """

    def __init__(
        self,
        path: str | None,
        zones: NDArray[np.void],
        filters: Filters,
        sizes: schema.Sizes,
        *,
        manifest: Manifest | None = None,
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
        """Let go of the files; may be called again."""
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
        """Whether its filters are read from a file that is not local, so that each answer is waited for."""
        return any(isinstance(each, Source) and each.path is None for each in self._closing)

    # ------------------------------------------------------------------------------------------------------- as a whole

    def to_table(self) -> pa.Table:
        """All of it, in Lance's schema: fragment_id, zone_start, zone_length, has_null, bloom_filter_data."""
        return schema.to_table(self.zones, self._filters.read(0, len(self)), self.metadata)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """That of the schema."""
        told = {} if self._manifest is None else self._manifest.to_metadata(self.zones)
        return self._sizes.metadata | told

    def bitsets(self, first: int = 0, count: int | None = None) -> Iterator[NDArray[np.uint8]]:
        """The filters of zones that follow one another, a few of them in memory at a time."""
        end = len(self) if count is None else min(len(self), first + count)
        step = max(1, _READ_TOGETHER // self._filter_bytes)
        for start in range(first, end, step):
            for bitset in self._filters.read(start, min(step, end - start)):
                yield np.frombuffer(bitset.as_buffer(), np.uint8)

    @property
    def _filter_bytes(self) -> int:
        return lance_num_bytes(self.items, self.probability)

    # --------------------------------------------------------------------------------------------------- as Lance asks

    def equals(self, value: Any) -> pa.Table:
        """At most these zones have rows whose value equals `value`: fragment_id, zone_start, zone_length.

        None asks for nulls. All zones are named where nothing can be said: for NaN, for a value that cannot be
        compared exactly with the column's type, and where that type is not known.
        """
        return self.is_in([value])

    def is_in(self, values: Iterable[Any]) -> pa.Table:
        """At most these zones have rows whose value is one of `values`; see `equals`."""
        wanted = list(values)
        nulls = any(value is None or (isinstance(value, pa.Scalar) and not value.is_valid) for value in wanted)
        found = self.zones["has_null"].copy() if nulls else np.zeros(len(self), np.bool_)
        wanted = [value.item() if isinstance(value, np.number) else value for value in wanted if value is not None]
        if wanted:
            hashes = self._hashes(wanted)
            asked = np.flatnonzero(~found)
            found[asked] = True if hashes is None else self.check(asked, hashes)
        return self._answer(found)

    def is_null(self) -> pa.Table:
        """At most these zones have nulls; see `equals`."""
        return self._answer(self.zones["has_null"])

    def _hashes(self, values: list[Any]) -> NDArray[np.uint64] | None:
        """Every hash that one of the values may have in a file; None where that cannot be said."""
        if not self._types:
            return None
        found = []
        for column_type in self._types:
            known, unknown = coerce_all(values, column_type, "UTC")
            if unknown is not None:
                return None
            found.append(hash_values(known, column_type)[0])
        return np.unique(np.concatenate(found))

    def _answer(self, found: NDArray[np.bool_]) -> pa.Table:
        answer = schema.to_answer(self.zones[found])
        if not self.uncovered:
            return answer
        more = np.zeros(len(self.uncovered), schema.ZONE)
        more["fragment_id"], more["zone_length"] = np.array(self.uncovered, np.uint64).T
        return pa.concat_tables([answer, schema.to_answer(more)])

    # -------------------------------------------------------------------------------------------- over Parquet files

    @property
    def fragments(self) -> list[Fragment] | None:
        """The row groups that have zones, by fragment_id; None for an index that is not over Parquet files."""
        return None if self._manifest is None else self._manifest.fragments

    @property
    def files(self) -> list[ZonedFile] | None:
        """The files that have zones; None for an index that is not over Parquet files."""
        return None if self._manifest is None else list(self._manifest.files)

    def file(self, number: int) -> ZonedFile:
        """A file by its number."""
        return self._over_files.files[number]

    @property
    def _over_files(self) -> Manifest:
        if self._manifest is None:
            raise ParquetBloomError("the zone index is not over Parquet files", path=self.path)
        return self._manifest

    def of_file(self, path: str | os.PathLike[str], filesystem: object | None = None) -> int | None:
        """The number of a file, by any of its names; None if it has no zones.

        Whether it still is the file that it was is for the caller to find out (see `file.stamps`).
        """
        return self._over_files.numbers.get(name_of(os.fspath(path), filesystem))

    def zones_of(self, number: int) -> FileZones:
        """The zones of a file, by its number."""
        manifest = self._over_files
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
        """Whether zones may hold one of the hashes.

        Parameters
        ----------
        zones : ordinals of zones.
        hashes : as `hash_values` gives them for the column's type (of the file that the zones are of).

        Returns
        -------
        bool array, an answer a zone; False where all of the hashes are certainly absent.

        Raises
        ------
        BrokenZonesError, StorageError, TruncatedFileError, ConcurrentChangeError
            The filters cannot be read, or are not what was written.
        """
        return self._filters.check(np.asarray(zones, np.intp), np.ascontiguousarray(hashes, np.uint64))
