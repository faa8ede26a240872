"""Read the manifests of a snapshot: its data files and delete files, and what is known of the data files' columns.

pyiceberg's own planning is not used: it refuses tables with equality deletes, and evaluates predicates by other rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ....errors import ParquetBloomError
from ..cache import SizedCache
from ..locations import require_all_inside
from .avro import read_avro
from .field_map import FieldMap
from .files import DeleteFile, ManifestFiles, Partition, read_files

# Field ids of a manifest list by the specification, and their types.
_MANIFEST = {
    "manifest_path": 500, "manifest_length": 501, "spec_id": 502, "sequence_number": 515, "key_metadata": 519,
    "added": 504, "existing": 505, "snapshot_id": 503,
}  # fmt: skip
_TYPES = {"manifest_path": pa.large_string(), "key_metadata": pa.large_binary()}
_REQUIRED = ("manifest_path", "spec_id")
_MANIFEST_BYTES = 600  # of a manifest's record in memory, besides its path


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

    def add(self, files: ManifestFiles) -> None:
        """Add the files of a manifest."""
        first = len(self.paths)
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
    table: Any, snapshot: Any, location: str | None, name: str, cache: SizedCache | None = None
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
    manifests = cache.get((table_id, path, snapshot.snapshot_id), lambda: _read_list(table.io, path, name))
    if location is not None:
        require_all_inside([manifest["manifest_path"] for manifest in manifests], location, name)
    specs = table.specs()
    for manifest in manifests:
        key = table_id, *manifest.values(), str(specs.get(manifest["spec_id"]))
        result.add(cache.get(key, lambda manifest=manifest: _read_manifest(table.io, manifest, specs, name)))  # type: ignore[misc]
    return result


def list_new_manifests(table: Any, snapshot: Any, name: str) -> dict[str, int | None]:
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
    manifests, _ = _read_list(table.io, snapshot.manifest_list, name)
    new = [manifest for manifest in manifests if manifest["snapshot_id"] == snapshot.snapshot_id]
    return {manifest["manifest_path"]: manifest["manifest_length"] for manifest in new}


def _read_list(file_io: Any, path: str, name: str) -> tuple[list[dict[str, Any]], int]:
    """Return the records of a manifest list, and about how much memory they take."""
    records = read_avro(file_io, path, name, dict.fromkeys(_MANIFEST.values()))
    columns = {}
    for key, number in _MANIFEST.items():
        column = records.fields.get(number)
        if column is None:
            columns[key] = [None] * len(records.array)
        elif column.array.type != _TYPES.get(key, pa.int64()):
            raise ParquetBloomError(f"its file {path} has {key} of another type: {column.array.type}", path=name)
        else:
            columns[key] = column.array.to_pylist()
    missing = [key for key in _REQUIRED if _MANIFEST[key] not in records.fields or None in columns[key]]
    if missing:
        raise ParquetBloomError(f"its file {path} lacks fields of a manifest: {', '.join(missing)}", path=name)
    manifests = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return manifests, sum(_MANIFEST_BYTES + len(each["manifest_path"]) for each in manifests)


def _read_manifest(
    file_io: Any, manifest: Mapping[str, Any], specs: Mapping[int, Any], name: str
) -> tuple[ManifestFiles, int]:
    """Return the files of a manifest, and about how much memory they take."""
    path = manifest["manifest_path"]
    if manifest["key_metadata"]:
        raise ParquetBloomError(f"its manifest {path} is encrypted, which is not supported", path=name)
    if manifest["spec_id"] not in specs:
        raise ParquetBloomError(f"its manifest {path} names a partition spec that the metadata lacks", path=name)
    files = read_files(file_io, manifest, specs[manifest["spec_id"]].fields, name)
    return files, files.num_bytes
