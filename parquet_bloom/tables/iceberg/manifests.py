"""The live files of an Iceberg snapshot, by its manifests; manifests that were read are kept."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...util.lazy import late_module
from ..table_locations import require_all_inside
from .avro_files import AvroColumn, read_avro

if TYPE_CHECKING:
    import pyiceberg.utils.decimal as decimals
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table import Table as PyicebergTable
    from pyiceberg.table.snapshots import Snapshot
else:
    decimals = late_module("pyiceberg.utils.decimal")


class ListedManifest(NamedTuple):
    """A manifest as a list of manifests has it; see the Iceberg specification for the fields.

    `added` and `existing` are numbers of files; `content` is DATA or DELETES.
    """

    path: str
    length: int | None
    spec_id: int
    sequence_number: int | None
    key_metadata: bytes | None
    added: int | None
    existing: int | None
    snapshot_id: int | None
    content: int | None
    first_row_id: int | None


class FieldEntries(NamedTuple):
    """What a map of field ids has for one field: the rows, counted from the first data file, and their values."""

    rows: NDArray[np.int64]
    values: pa.Array


class MapPart(NamedTuple):
    """The entries of the maps of some data files: field id, the number of the file, and the value of each."""

    keys: NDArray[np.int32]
    rows: NDArray[np.int32]
    values: pa.Array

    @property
    def num_bytes(self) -> int:
        return int(self.keys.nbytes + self.rows.nbytes + self.values.nbytes)


def make_part(column: AvroColumn | None, chosen: pa.Array | None, value_type: pa.DataType) -> MapPart:
    """Return the entries of a column of maps, as Iceberg writes those with numbers as keys.

    Parameters
    ----------
    column : the maps; None for none.
    chosen : the files to take, as booleans; None for all. Rows are counted among these.

    Raises
    ------
    ValueError, pa.ArrowException
        They are no maps from field ids to such values.
    """
    if column is None:
        return MapPart(np.empty(0, np.int32), np.empty(0, np.int32), pa.array([], value_type))
    maps = column.array if chosen is None else column.array.filter(chosen)
    item = maps.type.value_type if pa.types.is_large_list(maps.type) else None
    names = [each.name for each in item] if item is not None and pa.types.is_struct(item) else []
    if sorted(names) != ["key", "value"]:
        raise ValueError("its columns are not described by maps")
    keys, values = (maps.flatten().field(names.index(name)) for name in ("key", "value"))
    stored = pa.int64() if pa.types.is_integer(value_type) else pa.large_binary()
    if keys.null_count or keys.type != pa.int64() or values.type != stored:
        raise ValueError("its columns are not described by maps from field ids to values")
    lengths = pc.list_value_length(maps).fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(maps), dtype=np.int32), lengths)
    return MapPart(keys.cast(pa.int32()).to_numpy(), rows, values.cast(value_type))


class FieldMap:
    """A map by field id of many data files, as columns: a hundred thousand dictionaries would fill the memory."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._value_type = value_type
        self._parts: list[tuple[int, MapPart]] = []

    def add(self, first: int, part: MapPart) -> None:
        """Add the maps of further files.

        Parameters
        ----------
        first : the number of the first of them.
        """
        if len(part.keys):
            self._parts.append((first, part))

    def select(self, field_id: int) -> FieldEntries:
        """Return what there is for one field; of two entries for a file, neither."""
        rows: list[NDArray[np.int64]] = []
        chunks = []
        for first, part in self._parts:
            chosen = np.flatnonzero(part.keys == field_id)
            rows.append(part.rows[chosen].astype(np.int64) + first)
            chunks.append(part.values.take(pa.array(chosen)))
        numbers = np.concatenate([np.empty(0, np.int64), *rows])
        selected = pa.concat_arrays([pa.array([], self._value_type), *chunks])
        again = np.flatnonzero(np.diff(numbers) == 0)
        if len(again):
            once = ~np.isin(numbers, numbers[again])
            numbers, selected = numbers[once], selected.filter(pa.array(once))
        return FieldEntries(numbers, selected)


UNKNOWN_SEQUENCE = -1
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
DELETES = 1  # the content of a manifest of delete files
EXISTING, ADDED, DELETED = 0, 1, 2
_UNKNOWN_STATUS = -1

# Field ids by the specification, of a manifest's entries and of the files in them.
_STATUS, _SEQUENCE_NUMBER, _DATA_FILE, _PARTITION = 0, 3, 2, 102
_FILE = {
    "content": 134, "file_path": 100, "file_format": 101, "record_count": 103, "size": 104,
    "value_counts": 109, "null_counts": 110, "lower": 125, "upper": 128, "key_metadata": 131, "equality_ids": 135,
    "referenced": 143, "offset": 144, "length": 145,
}  # fmt: skip
_TYPES = {
    "content": pa.int64(), "file_path": pa.large_string(), "file_format": pa.large_string(),
    "record_count": pa.int64(), "size": pa.int64(), "key_metadata": pa.large_binary(),
    "equality_ids": pa.large_list(pa.int64()), "referenced": pa.large_string(), "offset": pa.int64(),
    "length": pa.int64(),
}  # fmt: skip
_REQUIRED = ("file_path", "file_format", "record_count", "size")
PATH_COLUMN = 2147483546  # the field id of position delete files' column of paths
_OVERHEAD = 400  # bytes of the Python objects for a file

Partition = tuple[int, tuple[object, ...]]
"""The spec's id and the values of its fields, comparable: floats as their bits, as NaN equals NaN here."""


class DeleteFile(NamedTuple):
    """A delete file as a manifest has it; see the Iceberg specification for the fields.

    `lower` and `upper` are the bounds of the paths in a file of positions.
    """

    path: str
    content: int
    file_format: str
    partition: Partition
    sequence_number: int
    record_count: int
    size: int
    encrypted: bool
    equality_ids: tuple[int, ...]
    referenced: str | None
    offset: int | None
    length: int | None
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True)
class ManifestFiles:
    """The live files of one manifest; the lists and maps have an entry for each data file. See `Manifests`."""

    paths: list[str]
    formats: list[str]
    sizes: list[int]
    record_counts: list[int]
    sequence_numbers: list[int]
    partitions: list[Partition]
    values: list[tuple[object, ...]]
    deletes: list[DeleteFile]
    value_counts: MapPart
    null_counts: MapPart
    lower_bounds: MapPart
    upper_bounds: MapPart

    @property
    def num_bytes(self) -> int:
        """About how much memory it takes."""
        maps = self.value_counts, self.null_counts, self.lower_bounds, self.upper_bounds
        names = sum(map(len, self.paths)) + _OVERHEAD * (len(self.paths) + 4 * len(self.deletes) + 1)
        return names + sum(each.num_bytes for each in maps)


def read_files(
    file_io: FileIO, manifest: ListedManifest, spec_fields: Sequence[PartitionField], name: str
) -> ManifestFiles:
    """Read a manifest.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    manifest : its record in the list of manifests.
    spec_fields : the fields of its partition spec, pyiceberg's.
    name : of the table, for errors.

    Raises
    ------
    ParquetBloomError
        It is cut short, or not understood.
    Exception
        Of many kinds, from pyiceberg: it cannot be read.
    """
    path = manifest.path
    partition = {each.field_id: None for each in spec_fields}
    file_fields = dict.fromkeys(_FILE.values()) | {_PARTITION: partition}
    wanted = {_STATUS: None, _SEQUENCE_NUMBER: None, _DATA_FILE: file_fields}
    entries = read_avro(file_io, path, name, wanted, manifest.length)
    try:
        return _ManifestReading(entries, manifest, spec_fields).make_files()
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
        raise ParquetBloomError(f"its manifest {path} {error}", path=name) from error


class _ManifestReading:
    def __init__(self, entries: AvroColumn, manifest: ListedManifest, spec_fields: Sequence[PartitionField]) -> None:
        self._manifest, self._spec_fields = manifest, spec_fields
        data_file = entries.fields.get(_DATA_FILE)
        status = entries.fields.get(_STATUS)
        if status is None or data_file is None or not pa.types.is_struct(data_file.array.type):
            raise ValueError("lacks fields of a manifest")
        self._files = {name: data_file.fields[i] for name, i in _FILE.items() if i in data_file.fields}
        partition = data_file.fields.get(_PARTITION)
        missing = [each for each in _REQUIRED if each not in self._files]
        if partition is None or missing:
            raise ValueError(f"lacks fields of a manifest: {', '.join(missing or ['partition'])}")
        for each, of in _TYPES.items():
            column = self._files.get(each)
            if column is not None and column.array.type != of:
                raise ValueError(f"has {each} of another type: {column.array.type}")
        self._partition = partition
        self._status = _to_numbers(status, _UNKNOWN_STATUS)
        self._sequence_numbers = entries.fields.get(_SEQUENCE_NUMBER)

    def make_files(self) -> ManifestFiles:
        unknown = self._status[~np.isin(self._status, (EXISTING, ADDED, DELETED))]
        if len(unknown):
            raise ValueError(f"has an entry of unknown status {int(unknown[0])}")
        is_live = self._status != DELETED
        added, existing = self._manifest.added, self._manifest.existing
        if added is not None and existing is not None and is_live.sum() < added + existing:
            raise ValueError(f"has {is_live.sum()} live entries, but the list of manifests counts {added + existing}")
        content = self._files.get("content")
        contents = np.zeros(len(is_live), np.int64) if content is None else _to_numbers(content, DATA)
        self._number_files()
        is_data = is_live & (contents == DATA)
        chosen = None if is_data.all() else pa.array(is_data)
        for each in _REQUIRED:
            if self._files[each].array.filter(pa.array(is_live)).null_count:
                raise ValueError(f"has a file without {each}")
        values = self._list_partitions(chosen)
        return ManifestFiles(
            self._list("file_path", chosen),
            self._list("file_format", chosen),
            self._list("size", chosen),
            self._list("record_count", chosen),
            self._numbers[is_data].tolist(),
            self._make_partitions(values),
            values,
            self._list_deletes(is_live & (contents != DATA), contents),
            make_part(self._files.get("value_counts"), chosen, pa.int64()),
            make_part(self._files.get("null_counts"), chosen, pa.int64()),
            make_part(self._files.get("lower"), chosen, pa.binary()),
            make_part(self._files.get("upper"), chosen, pa.binary()),
        )

    def _number_files(self) -> None:
        """Find the sequence numbers: those that are null are inherited, as is none of a table of version 1."""
        count, own = len(self._status), self._manifest.sequence_number
        inherits = (self._status == ADDED) | (not own)
        inherited = np.where(inherits, own or 0, UNKNOWN_SEQUENCE)
        column = self._sequence_numbers
        if column is None or column.array.null_count == count:
            self._numbers = inherited
            return
        known = column.array.is_valid().to_numpy(zero_copy_only=False)
        self._numbers = np.where(known, _to_numbers(column, 0), inherited)

    def _list(self, name: str, chosen: pa.Array | None) -> list[Any]:
        return _list_values(self._files.get(name), len(self._status), chosen)

    def _list_partitions(self, chosen: pa.Array | None) -> list[tuple[object, ...]]:
        """Return the partition values, as pyiceberg reads them; None for those that the manifest lacks."""
        count = len(self._status) if chosen is None else chosen.true_count
        columns = []
        for each in self._spec_fields:
            column = self._partition.fields.get(each.field_id)
            columns.append(
                repeat(None, count) if column is None else map(_find_conversion(column), self._take(column, chosen))
            )
        return list(zip(*columns, strict=True)) if columns else [()] * count

    def _take(self, column: AvroColumn, chosen: pa.Array | None) -> list[Any]:
        return _list_values(column, len(self._status), chosen)

    def _make_partitions(self, values: Sequence[tuple[object, ...]]) -> list[Partition]:
        spec_id = self._manifest.spec_id
        if not self._spec_fields:
            return [(spec_id, ())] * len(values)
        return [(spec_id, tuple(map(_make_comparable, each))) for each in values]

    def _list_deletes(self, is_delete: NDArray[np.bool_], contents: NDArray[np.int64]) -> list[DeleteFile]:
        if not is_delete.any():
            return []
        chosen = pa.array(is_delete)
        columns = {name: self._list(name, chosen) for name in _TYPES}
        bounds = [self._find_path_bounds(name, chosen) for name in ("lower", "upper")]
        partitions = self._make_partitions(self._list_partitions(chosen))
        rows = zip(contents[is_delete].tolist(), self._numbers[is_delete].tolist(), partitions, *bounds, strict=True)
        return [
            DeleteFile(
                columns["file_path"][i],
                content,
                columns["file_format"][i].upper(),
                partition,
                number,
                columns["record_count"][i],
                columns["size"][i],
                columns["key_metadata"][i] is not None,
                tuple(columns["equality_ids"][i] or ()),
                columns["referenced"][i],
                columns["offset"][i],
                columns["length"][i],
                lower,
                upper,
            )
            for i, (content, number, partition, lower, upper) in enumerate(rows)
        ]

    def _find_path_bounds(self, name: str, chosen: pa.Array) -> list[bytes | None]:
        """Return the bounds of the paths in files of positions."""
        result: list[bytes | None] = [None] * chosen.true_count
        part = make_part(self._files.get(name), chosen, pa.binary())
        for i in np.flatnonzero(part.keys == PATH_COLUMN).tolist():
            result[int(part.rows[i])] = part.values[i].as_py()
        return result


def _list_values(column: AvroColumn | None, count: int, chosen: pa.Array | None) -> list[Any]:
    """Return the values of some files; None for those of a column that the manifest lacks."""
    if column is None:
        return [None] * (count if chosen is None else chosen.true_count)
    values: list[Any] = (column.array if chosen is None else column.array.filter(chosen)).to_pylist()
    return values


def _to_numbers(column: AvroColumn, null: int) -> NDArray[np.int64]:
    if column.array.type != pa.int64():
        raise ValueError(f"has {column.array.type} where a number should be")
    numbers: NDArray[np.int64] = column.array.fill_null(null).to_numpy(zero_copy_only=False)
    return numbers


def _find_conversion(column: AvroColumn) -> Callable[[Any], object]:
    """Return what makes a partition value of a column's value."""
    if pa.types.is_nested(column.array.type):
        raise ValueError("has a partition value of several parts")
    logical = column.annotations.get("logicalType")
    if logical == "decimal" and pa.types.is_large_binary(column.array.type):
        scale = column.annotations.get("scale", 0)
        return lambda value: None if value is None else decimals.bytes_to_decimal(value, scale)
    if logical == "uuid":
        is_text = pa.types.is_large_string(column.array.type)
        return lambda value: None if value is None else UUID(value) if is_text else UUID(bytes=value)
    return lambda value: value


def _make_comparable(value: object) -> object:
    return struct.pack("<d", value) if isinstance(value, float) else value


T = TypeVar("T")

MOST_MANIFEST_BYTES = 256 * 1024 * 1024


class SizedCache:
    """What was read of files, by any key. Several threads may use it; each file is read by one of them.

    Parameters
    ----------
    most : bytes that are kept; what was used last is kept in any case.
    """

    def __init__(self, most: int = MOST_MANIFEST_BYTES) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._reading: dict[Hashable, threading.Lock] = {}

    def __reduce__(self) -> tuple[type[SizedCache], tuple[int]]:
        return SizedCache, (self._most,)  # without its content

    def get(self, key: Hashable, read: Callable[[], tuple[T, int]]) -> T:
        """Return what is kept under a key, or else read it; `read` returns it and its size in bytes."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
            waiting = self._reading.setdefault(key, threading.Lock())
        with waiting:
            with self._lock:
                if key in self._entries:
                    return self._entries[key][0]
            try:
                value, size = read()
            finally:
                with self._lock:
                    self._reading.pop(key, None)
            with self._lock:
                self._entries[key] = value, size
                self._size += size
                while self._size > self._most and len(self._entries) > 1:
                    self._size -= self._entries.popitem(last=False)[1][1]
            return value


# Field ids of a manifest list by the specification, and their types.
_MANIFEST = {
    "path": 500, "length": 501, "spec_id": 502, "sequence_number": 515, "key_metadata": 519,
    "added": 504, "existing": 505, "snapshot_id": 503, "content": 517, "first_row_id": 520,
}  # fmt: skip
_ENTRY_TYPES = {"path": pa.large_string(), "key_metadata": pa.large_binary()}
_ENTRY_REQUIRED = ("path", "spec_id")
_MANIFEST_BYTES = 600  # of a manifest's record in memory, besides its path


@dataclass
class Manifests:
    """The live files of a snapshot, in the order of its manifests; the lists have an entry for each data file.

    Attributes
    ----------
    listed : the manifests, in their order, and what was read of each.
    paths : as they are written in the metadata.
    sequence_numbers : UNKNOWN_SEQUENCE where the manifest does not say.
    partitions : see `Partition`; `values` has the values as they are.
    deletes : the delete files.
    """

    listed: list[tuple[ListedManifest, ManifestFiles]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    record_counts: list[int] = field(default_factory=list)
    sequence_numbers: list[int] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    values: list[tuple[object, ...]] = field(default_factory=list)
    deletes: list[DeleteFile] = field(default_factory=list)
    value_counts: FieldMap = field(default_factory=lambda: FieldMap(pa.int64()))
    null_counts: FieldMap = field(default_factory=lambda: FieldMap(pa.int64()))
    lower_bounds: FieldMap = field(default_factory=lambda: FieldMap(pa.binary()))
    upper_bounds: FieldMap = field(default_factory=lambda: FieldMap(pa.binary()))

    def add(self, manifest: ListedManifest, files: ManifestFiles) -> None:
        first = len(self.paths)
        self.listed.append((manifest, files))
        for name in (
            "paths",
            "formats",
            "sizes",
            "record_counts",
            "sequence_numbers",
            "partitions",
            "values",
            "deletes",
        ):
            getattr(self, name).extend(getattr(files, name))
        for name in ("value_counts", "null_counts", "lower_bounds", "upper_bounds"):
            getattr(self, name).add(first, getattr(files, name))


def read_manifests(
    table: PyicebergTable, snapshot: Snapshot | None, location: str | None, name: str, cache: SizedCache | None = None
) -> Manifests:
    """Read the manifests of a snapshot.

    Parameters
    ----------
    table, snapshot : pyiceberg's; None for a table without a snapshot.
    location : the folder or URL where manifests have to lie; None for anywhere.
    name : of the table, for errors.
    cache : what was read of manifests and their lists, which never change; None to read all.

    Raises
    ------
    ParquetBloomError
        A manifest lies elsewhere, is cut short, or is not understood.
    Exception
        Of many kinds, from pyiceberg: a manifest cannot be read.
    """
    result = Manifests()
    if snapshot is None:
        return result
    cache = SizedCache() if cache is None else cache
    path, table_id = snapshot.manifest_list, str(table.metadata.table_uuid)
    if location is not None:
        require_all_inside([path], location, name)
    manifests = cache.get((table_id, path, snapshot.snapshot_id), lambda: read_list(table.io, path, name))
    if location is not None:
        require_all_inside([manifest.path for manifest in manifests], location, name)
    specs = table.specs()
    for manifest in manifests:
        key = table_id, *manifest, str(specs.get(manifest.spec_id))
        files = cache.get(key, lambda manifest=manifest: _read_manifest(table.io, manifest, specs, name))  # type: ignore[misc]
        result.add(manifest, files)
    return result


def list_new_manifests(table: PyicebergTable, snapshot: Snapshot, name: str) -> dict[str, int | None]:
    """Return {path: number of bytes} of the manifests that a snapshot has added.

    Parameters
    ----------
    table, snapshot : pyiceberg's.
    name : of the table, for errors.

    Raises
    ------
    StorageError
        The list of manifests is cut short.
    ParquetBloomError
        It is not understood.
    """
    manifests, _ = read_list(table.io, snapshot.manifest_list, name)
    new = [manifest for manifest in manifests if manifest.snapshot_id == snapshot.snapshot_id]
    return {manifest.path: manifest.length for manifest in new}


def read_list(file_io: FileIO, path: str, name: str) -> tuple[list[ListedManifest], int]:
    """Return the records of a manifest list, and about how much memory they take.

    Raises
    ------
    StorageError
        It is cut short or malformed.
    ParquetBloomError
        It is not understood.
    """
    records = read_avro(file_io, path, name, dict.fromkeys(_MANIFEST.values()))
    columns = {}
    for key, number in _MANIFEST.items():
        column = records.fields.get(number)
        if column is None:
            columns[key] = [None] * len(records.array)
        elif column.array.type != _ENTRY_TYPES.get(key, pa.int64()):
            raise ParquetBloomError(f"its file {path} has {key} of another type: {column.array.type}", path=name)
        else:
            columns[key] = column.array.to_pylist()
    missing = [key for key in _ENTRY_REQUIRED if _MANIFEST[key] not in records.fields or None in columns[key]]
    if missing:
        raise ParquetBloomError(f"its file {path} lacks fields of a manifest: {', '.join(missing)}", path=name)
    manifests = [ListedManifest(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    return manifests, sum(_MANIFEST_BYTES + len(each.path) for each in manifests)


def _read_manifest(
    file_io: FileIO, manifest: ListedManifest, specs: Mapping[int, PartitionSpec], name: str
) -> tuple[ManifestFiles, int]:
    """Return the files of a manifest, and about how much memory they take."""
    path = manifest.path
    if manifest.key_metadata:
        raise ParquetBloomError(f"its manifest {path} is encrypted, which is not supported", path=name)
    if manifest.spec_id not in specs:
        raise ParquetBloomError(f"its manifest {path} names a partition spec that the metadata lacks", path=name)
    files = read_files(file_io, manifest, specs[manifest.spec_id].fields, name)
    return files, files.num_bytes
