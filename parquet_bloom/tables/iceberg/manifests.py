"""Read the manifests of a snapshot: its data files and delete files, and what is known of the data files' columns.

pyiceberg's own planning is not used: it refuses tables with equality deletes, and evaluates predicates by other rules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from .avro import read_avro
from .locations import require_all_inside

UNKNOWN_SEQUENCE = -1
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
_EXISTING, _ADDED, _DELETED = 0, 1, 2

# Field ids by the specification: of a manifest list, of a manifest's entries, and of the files in them.
_MANIFEST = {
    "manifest_path": 500, "manifest_length": 501, "spec_id": 502, "sequence_number": 515, "key_metadata": 519,
    "added": 504, "existing": 505,
}  # fmt: skip
_ENTRY = {"status": 0, "sequence_number": 3, "data_file": 2}
_FILE = {
    "content": 134, "file_path": 100, "file_format": 101, "partition": 102, "record_count": 103, "size": 104,
    "value_counts": 109, "null_counts": 110, "lower": 125, "upper": 128, "key_metadata": 131, "equality_ids": 135,
    "referenced": 143, "offset": 144, "length": 145,
}  # fmt: skip
_REQUIRED_OF_MANIFEST = {"manifest_path", "spec_id"}
_REQUIRED_OF_ENTRY = {"status", "data_file"}
_REQUIRED_OF_FILE = {"file_path", "file_format", "partition", "record_count", "size"}
_PATH_COLUMN = 2147483546  # the field id of position delete files' column of paths
_BATCH = 4096  # entries whose counts and bounds are Python objects at a time

Partition = tuple[int, tuple[Any, ...]]
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


class FieldEntries(NamedTuple):
    """What a map of field ids has for one field: the rows, counted from the first data file, and their values."""

    rows: NDArray[np.int64]
    values: pa.Array


class FieldMap:
    """A map by field id of many data files, as columns: a hundred thousand dictionaries would fill the memory."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._value_type = value_type
        self._pending: list[tuple[int, Mapping[int, Any]]] = []
        self._parts: list[tuple[NDArray[np.int32], NDArray[np.int64], pa.Array]] = []

    def add(self, row: int, entries: Mapping[int, Any] | None) -> None:
        """Add the map of a data file; rows ascend."""
        if entries:
            self._pending.append((row, entries))
            if len(self._pending) >= _BATCH:
                self.pack()

    def pack(self) -> None:
        """Pack what was added."""
        if not self._pending:
            return
        keys: list[int] = []
        values: list[Any] = []
        lengths = []
        for _, entries in self._pending:
            keys.extend(entries.keys())
            values.extend(entries.values())
            lengths.append(len(entries))
        rows = np.repeat(np.array([row for row, _ in self._pending], np.int64), lengths)
        self._parts.append((np.array(keys, np.int32), rows, pa.array(values, self._value_type)))
        self._pending.clear()

    def select(self, field_id: int) -> FieldEntries:
        """Return what there is for one field; of two entries for a file, neither."""
        rows: list[NDArray[np.int64]] = []
        chunks = []
        for keys, row_numbers, values in self._parts:
            chosen = np.flatnonzero(keys == field_id)
            rows.append(row_numbers[chosen])
            chunks.append(values.take(pa.array(chosen)))
        numbers = np.concatenate([np.empty(0, np.int64), *rows])
        selected = pa.concat_arrays([pa.array([], self._value_type), *chunks])
        again = np.flatnonzero(np.diff(numbers) == 0)
        if len(again):
            once = ~np.isin(numbers, numbers[again])
            numbers, selected = numbers[once], selected.filter(pa.array(once))
        return FieldEntries(numbers, selected)


@dataclass
class Manifests:
    """The live files of a snapshot, in the order of its manifests; the lists have an entry for each data file.

    Attributes
    ----------
    paths : as they are written in the metadata.
    sequence_numbers : UNKNOWN_SEQUENCE where the manifest does not say.
    partitions : see `Partition`; `values` has the values as they are.
    deletes : the delete files.
    """

    paths: list[str] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    record_counts: list[int] = field(default_factory=list)
    sequence_numbers: list[int] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    values: list[tuple[Any, ...]] = field(default_factory=list)
    deletes: list[DeleteFile] = field(default_factory=list)
    value_counts: FieldMap = field(default_factory=lambda: FieldMap(pa.int64()))
    null_counts: FieldMap = field(default_factory=lambda: FieldMap(pa.int64()))
    lower_bounds: FieldMap = field(default_factory=lambda: FieldMap(pa.binary()))
    upper_bounds: FieldMap = field(default_factory=lambda: FieldMap(pa.binary()))


def read_manifests(table: Any, snapshot: Any, location: str | None, name: str) -> Manifests:
    """Read the manifests of a snapshot.

    Parameters
    ----------
    table, snapshot : pyiceberg's; None for a table without a snapshot.
    location : the folder or URL where manifests have to lie; None for anywhere.
    name : of the table, for errors.

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
    if location is not None:
        require_all_inside([snapshot.manifest_list], location, name)
    manifests = [
        _select(record, positions)
        for positions, records in [_read_records(table.io, snapshot.manifest_list, _MANIFEST, name)]
        for record in records
    ]
    if location is not None:
        require_all_inside([manifest["manifest_path"] for manifest in manifests], location, name)
    specs = table.specs()
    for manifest in manifests:
        _read_manifest(table.io, manifest, specs, result, name)
    for each in (result.value_counts, result.null_counts, result.lower_bounds, result.upper_bounds):
        each.pack()
    return result


def _read_manifest(
    file_io: Any, manifest: Mapping[str, Any], specs: Mapping[int, Any], result: Manifests, name: str
) -> None:
    path = manifest["manifest_path"]
    if manifest["key_metadata"]:
        raise ParquetBloomError(f"its manifest {path} is encrypted, which is not supported", path=name)
    if manifest["spec_id"] not in specs:
        raise ParquetBloomError(f"its manifest {path} names a partition spec that the metadata lacks", path=name)
    spec_id, spec = manifest["spec_id"], specs[manifest["spec_id"]]
    positions, records = _read_records(file_io, path, _ENTRY, name, manifest["manifest_length"])
    live = 0
    of_file: dict[str, int] | None = None
    for record in records:
        status, sequence_number, data_file = (record[positions[key]] if key in positions else None for key in _ENTRY)
        if status == _DELETED:
            continue
        if status not in (_EXISTING, _ADDED):
            raise ParquetBloomError(f"its manifest {path} has an entry of unknown status {status!r}", path=name)
        if of_file is None:
            of_file = positions["data_file", "fields"]
        live += 1
        if sequence_number is None:  # inherited, as is none of a table of version 1
            inherits = status == _ADDED or not manifest["sequence_number"]
            sequence_number = (manifest["sequence_number"] or 0) if inherits else UNKNOWN_SEQUENCE
        entry = _select(data_file, of_file)
        order = positions["data_file", "partition"]
        part = entry["partition"]
        values = tuple(part[order[each.field_id]] if each.field_id in order else None for each in spec.fields)
        _add_file(entry, (spec_id, tuple(map(_make_comparable, values))), values, sequence_number, result)
    counts = [manifest[key] for key in ("added", "existing")]
    if None not in counts and live < sum(counts):
        problem = f"its manifest {path} has {live} live entries, but the list of manifests counts {sum(counts)}"
        raise ParquetBloomError(problem, path=name)


def _add_file(
    entry: Mapping[str, Any], partition: Partition, values: tuple[Any, ...], sequence_number: int, result: Manifests
) -> None:
    content = entry["content"] or DATA
    if content != DATA:
        lower, upper = entry["lower"] or {}, entry["upper"] or {}
        result.deletes.append(
            DeleteFile(
                entry["file_path"],
                content,
                str(entry["file_format"]).upper(),
                partition,
                sequence_number,
                entry["record_count"],
                entry["size"],
                entry["key_metadata"] is not None,
                tuple(entry["equality_ids"] or ()),
                entry["referenced"],
                entry["offset"],
                entry["length"],
                lower.get(_PATH_COLUMN),
                upper.get(_PATH_COLUMN),
            )
        )
        return
    row = len(result.paths)
    result.paths.append(entry["file_path"])
    result.formats.append(entry["file_format"])
    result.sizes.append(int(entry["size"]))
    result.record_counts.append(int(entry["record_count"]))
    result.sequence_numbers.append(sequence_number)
    result.partitions.append(partition)
    result.values.append(values)
    result.value_counts.add(row, entry["value_counts"])
    result.null_counts.add(row, entry["null_counts"])
    result.lower_bounds.add(row, entry["lower"])
    result.upper_bounds.add(row, entry["upper"])


def _make_comparable(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def _select(record: Any, positions: Mapping[str, int]) -> dict[str, Any]:
    """Return the fields of a record by name; None for those that it lacks."""
    names = _MANIFEST if "manifest_path" in positions else _FILE
    return {name: record[positions[name]] if name in positions else None for name in names}


def _read_records(
    file_io: Any, path: str, fields: Mapping[str, int], name: str, length: int | None = None
) -> tuple[dict[Any, Any], Iterator[Any]]:
    """Return where the fields are in a file's records, and the records.

    Of entries of a manifest, the result also has ("data_file", "fields"), the positions in the record of the file, and
    ("data_file", "partition"), those in the record of partition values, by field id.
    """
    schema, records = read_avro(file_io, path, name, length)
    positions: dict[Any, Any] = _find_positions(schema.fields, fields)
    missing = (_REQUIRED_OF_ENTRY if fields is _ENTRY else _REQUIRED_OF_MANIFEST) - positions.keys()
    if not missing and fields is _ENTRY:
        of_file = schema.fields[positions["data_file"]].field_type.fields
        positions["data_file", "fields"] = inner = _find_positions(of_file, _FILE)
        missing = _REQUIRED_OF_FILE - inner.keys()
        partition = of_file[inner["partition"]].field_type.fields if "partition" in inner else ()
        positions["data_file", "partition"] = {each.field_id: i for i, each in enumerate(partition)}
    if missing:
        raise ParquetBloomError(f"its file {path} lacks fields of a manifest: {', '.join(sorted(missing))}", path=name)
    return positions, records


def _find_positions(fields: Sequence[Any], ids: Mapping[str, int]) -> dict[str, int]:
    positions = {each.field_id: i for i, each in enumerate(fields)}
    return {name: positions[number] for name, number in ids.items() if number in positions}
