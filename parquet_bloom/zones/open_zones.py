"""Open a zone index from a file, a Lance dataset or a table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from errno import EISDIR, ENOENT
from typing import Any

import pyarrow as pa

from ..errors import BrokenZonesError, ParquetBloomError, StorageError, first_line
from ..file.identity import require_unchanged
from ..hashing.column_type import ColumnType
from ..storage import Source, is_url, open_source, resolve_filesystem
from . import arrow_container as arrow_file
from . import lance_container as lance_index
from . import parquet_container as parquet_file
from .arrow_container import OpenedContainer, open_table
from .zone_filters import ZoneFilters
from .zone_hashes import find_column_type, to_arrow_type
from .zone_index import ZoneIndex
from .zone_manifest import ZoneManifest
from .zone_schema import FilterSizing, read_zones

_LANCE_MAGIC = b"LANC"
_STREAM = b"\xff\xff\xff\xff"


def open(
    source: Any,
    filesystem: Any = None,
    *,
    column: str | None = None,
    name: str | None = None,
    value_type: pa.DataType | None = None,
    storage_options: Mapping[str, Any] | None = None,
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
    """
    column_type = None if value_type is None else find_column_type(value_type)
    if isinstance(source, pa.RecordBatchReader):
        try:
            source = source.read_all()
        except pa.ArrowException as error:
            raise BrokenZonesError(f"it cannot be read: {first_line(error)}") from error
    if isinstance(source, pa.Table):
        return _make_index(open_table(source, None), None, column_type, value_type, column)
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
        return lance_index.open_dataset(os.fspath(source), column, name, storage_options)
    return _open_file(opened_source, column_type, value_type, column, storage_options)


def _open_file(
    source: Source,
    column_type: ColumnType | None,
    value_type: pa.DataType | None,
    column: str | None,
    storage_options: Mapping[str, Any] | None,
) -> ZoneIndex:
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
        return _make_index(container, source.name, column_type, value_type, column, [source])
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


def _make_index(
    container: OpenedContainer,
    path: str | None,
    column_type: ColumnType | None,
    value_type: pa.DataType | None,
    column: str | None,
    closing: Any = (),
) -> ZoneIndex:
    zones = read_zones(container.numbers, path)
    sizes, filters = FilterSizing.from_metadata(container.metadata, path), ZoneFilters(container.parts)
    manifest = ZoneManifest.from_metadata(container.metadata, zones, path)
    if manifest is not None:
        if column is not None and column != manifest.column:
            raise ParquetBloomError(f"the zones are those of column '{manifest.column}'", path=path, column=column)
        filters.require_length(manifest.filter_bytes)
        column_type = manifest.files[0].column_type if manifest.files else None
        value_type = None if column_type is None else to_arrow_type(column_type)
    return ZoneIndex(
        path,
        zones,
        filters,
        sizes,
        manifest=manifest,
        column=column,
        column_type=column_type,
        value_type=value_type,
        closing=closing,
    )
