"""Open a zone index from a file, a Lance dataset or a table, and find the zones that may contain a value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from errno import EISDIR, ENOENT
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import BrokenZonesError, ParquetBloomError, StorageError, first_line
from ..file.identity import require_unchanged
from ..hashing.coerce import coerce
from ..hashing.column_type import ColumnType
from ..storage import Source, is_url, open_source, resolve_filesystem
from ..storage.paths import name_of
from . import arrow_container as arrow_file
from . import lance_container as lance_index
from . import parquet_container as parquet_file
from . import zone_manifest
from .arrow_container import OpenedContainer, open_table
from .zone_filters import ZoneFilters, lance_num_bytes
from .zone_hashes import find_column_type, hash_values, to_arrow_type
from .zone_manifest import ZonedFile, ZonedFragment, ZoneManifest

if TYPE_CHECKING:
    from ..util.given_types import ArrowStream, FilePath, FileSystem, Value

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


class KnownColumn(NamedTuple):
    """The column of a zone index, as far as the source or the caller says it.

    Attributes
    ----------
    name : dotted.
    column_type, value_type : how its values are stored, and the same as an Arrow type.
    """

    name: str | None = None
    column_type: ColumnType | None = None
    value_type: pa.DataType | None = None


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
        container: OpenedContainer,
        column: KnownColumn,
        *,
        uncovered: Sequence[tuple[int, int]] = (),
        source: Source | None = None,
    ):
        self.path = path
        self.zones = zone_manifest.read_zones(container.numbers, path)
        self._sizes = zone_manifest.FilterSizing.from_metadata(container.metadata, path)
        self.items, self.probability = self._sizes.items, self._sizes.probability
        self._filters = ZoneFilters(container.parts)
        self._manifest = ZoneManifest.from_metadata(container.metadata, self.zones, path)
        self.column, self.column_type, self.value_type = column
        self.uncovered = list(uncovered)
        self._source = source
        self._types = [] if self.column_type is None else [self.column_type]
        if self._manifest is not None:
            if column.name not in (None, self._manifest.column):
                problem = f"the zones are those of column '{self._manifest.column}'"
                raise ParquetBloomError(problem, path=path, column=column.name)
            self._filters.require_length(self._manifest.filter_bytes)
            self.column = self._manifest.column
            self._types = list(dict.fromkeys(file.column_type for file in self._manifest.files))
            self.column_type = self._types[0] if self._types else None
            self.value_type = None if self.column_type is None else to_arrow_type(self.column_type)

    def close(self) -> None:
        """Close the files; may be called again."""
        if self._source is not None:
            with suppress(OSError):
                self._source.close()

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
        return self._source is not None and self._source.path is None

    # ------------------------------------------------------------------------------------------------------- as a whole

    def to_table(self) -> pa.Table:
        """Return all zones in Lance's schema: fragment_id, zone_start, zone_length, has_null, bloom_filter_data."""
        return zone_manifest.to_table(self.zones, self._filters.read(0, len(self)), self.metadata)

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

    def equals(self, value: Value | None) -> pa.Table:
        """Return the zones that may have rows whose value equals `value`: fragment_id, zone_start, zone_length.

        None means nulls. All zones are returned if they cannot be pruned: for NaN, for a value that cannot be compared
        exactly with the column's type, and if that type is unknown.
        """
        return self.is_in([value])

    def is_in(self, values: Iterable[Value | None]) -> pa.Table:
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

    def _hash_values(self, values: Sequence[object]) -> NDArray[np.uint64] | None:
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
        table = zone_manifest.to_answer(self.zones[mask])
        if not self.uncovered:
            return table
        uncovered = np.zeros(len(self.uncovered), zone_manifest.ZONE)
        uncovered["fragment_id"], uncovered["zone_length"] = np.array(self.uncovered, np.uint64).T
        return pa.concat_tables([table, zone_manifest.to_answer(uncovered)])

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

    def of_file(self, path: str | os.PathLike[str], filesystem: FileSystem | None = None) -> int | None:
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


_LANCE_MAGIC = b"LANC"
_STREAM = b"\xff\xff\xff\xff"


def open(
    source: FilePath | ArrowStream,
    filesystem: FileSystem | None = None,
    *,
    column: str | None = None,
    name: str | None = None,
    value_type: pa.DataType | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> ZoneIndex:
    """Open a zone index.

    Parameters
    ----------
    source : a file that `build` wrote, or one in Lance's schema, Parquet or Arrow (by its content); the folder of a
        Lance dataset; an index file of one, `_indices/<uuid>/bloomfilter.lance`; a pyarrow Table or RecordBatchReader.
        Lance's containers need the extra 'lance'.
    filesystem, storage_options : as in `prune`; a Lance dataset is given by path or URL, and takes `storage_options`.
    column, name : column or name of the Bloom filter index of a Lance dataset that has several.
    value_type : Arrow type of the column, for a source that does not contain it.

    Raises
    ------
    BrokenZonesError
        The source is not a zone index, or is inconsistent.
    ParquetBloomError
        There is no such index, or more than one, or pylance is not installed.
    StorageError
        The source cannot be read.

    Examples
    --------
    >>> from parquet_bloom import zones
    >>> report = zones.build("lake", "id", "ids.parquet")
    >>> zones.open("ids.parquet").equals(1401181143).num_rows
    1
    """
    given = KnownColumn(column, None if value_type is None else find_column_type(value_type), value_type)
    if isinstance(source, pa.RecordBatchReader):
        try:
            source = source.read_all()
        except pa.ArrowException as error:
            raise BrokenZonesError(f"it cannot be read: {first_line(error)}") from error
    if isinstance(source, pa.Table):
        return ZoneIndex(None, open_table(source, None), given)
    if not isinstance(source, str | os.PathLike):
        raise ParquetBloomError(f"a zone index is a path or a pyarrow Table, got {type(source).__name__}")
    filesystem = resolve_filesystem(filesystem, storage_options)
    try:
        opened_source = open_source(source, filesystem)
    except StorageError as error:
        if filesystem is not None and storage_options is None:
            raise
        if error.errno != EISDIR and not (error.errno == ENOENT and is_url(os.fspath(source))):
            raise
        lance = lance_index.open_dataset(os.fspath(source), column, name, storage_options)
        found = KnownColumn(lance.column, find_column_type(lance.value_type), lance.value_type)
        return ZoneIndex(os.fspath(source), lance.container, found, uncovered=lance.uncovered)
    return _open_file(opened_source, given, storage_options)


def _open_file(source: Source, column: KnownColumn, storage_options: Mapping[str, object] | None) -> ZoneIndex:
    try:
        if source.size < 16:
            raise BrokenZonesError("it is neither Parquet nor Arrow nor Lance", path=source.name)
        end = source.read_at(source.size - 8, 8)
        # The end of a remote file is cached; its beginning would need one more request.
        head = (
            b""
            if source.path is None and end.endswith((parquet_file.MAGIC, arrow_file.MAGIC))
            else source.read_at(0, 8)
        )
        if (head or end[-4:]).startswith(parquet_file.MAGIC):
            container = _read_parquet(source)
        elif head.startswith(arrow_file.MAGIC) or (not head and end.endswith(arrow_file.MAGIC)):
            container = arrow_file.read_arrow(source)
        elif head.startswith(_STREAM):
            container = _read_stream(source)
        elif source.read_at(source.size - 4, 4) == _LANCE_MAGIC:
            table = lance_index.read_file(source.path or source.name, storage_options)
            container = open_table(table, source.name)
        else:
            raise BrokenZonesError("it is neither Parquet nor Arrow nor Lance", path=source.name)
        require_unchanged(source)
        return ZoneIndex(source.name, container, column, source=source)
    except BaseException:
        source.close()
        raise


def _read_parquet(source: Source) -> OpenedContainer:
    try:
        return parquet_file.read_parquet(source)
    except (BrokenZonesError, StorageError):
        raise
    except ParquetBloomError as error:
        location = "" if error.column is None else f"column '{error.column}': "
        raise BrokenZonesError(f"it cannot be read as Parquet: {location}{error.problem}", path=source.name) from error


def _read_stream(source: Source) -> OpenedContainer:
    try:
        with source.arrow_file() as opened, pa.ipc.open_stream(opened) as reader:
            table = reader.read_all()
    except (pa.ArrowException, OSError, MemoryError) as error:
        problem = f"it cannot be read as Arrow: {first_line(error)}"
        raise BrokenZonesError(problem, path=source.name) from error
    return open_table(table, source.name)
