"""Write an Iceberg snapshot that has other files with the same rows: operation `replace`, manifest by manifest.

Each manifest that lists a replaced file is written anew under the partition spec it has, and all others are kept. A new
file keeps the data sequence number of the file it replaces: with a newer one, equality deletes would not apply to its
rows any more. pyiceberg writes the Avro files; it has no operation of this kind by itself.

Source: the Iceberg table specification, sections "Manifests", "Snapshots" and "Sequence Number Inheritance".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from ...errors import ParquetBloomError
from ..iceberg.manifests.files import read_files

_CODEC: Any = "gzip"
_TOTALS = (
    *("total-data-files", "total-delete-files", "total-records"),
    *("total-position-deletes", "total-equality-deletes", "total-files-size"),
)


class NewPath(NamedTuple):
    """Where the rows of a data file are from now on."""

    path: str
    size: int


class _Known(NamedTuple):
    """What a manifest says of a file: the values of its partition, and what has to stay, comparable."""

    values: tuple[Any, ...]
    facts: tuple[Any, ...]


class SnapshotWriter:
    """Writes the metadata files of a snapshot; until it is committed they may be deleted.

    Parameters
    ----------
    table : pyiceberg's, at the snapshot that the new one follows.

    Attributes
    ----------
    snapshot_id : of the new snapshot.
    files : the metadata files that were begun.
    """

    def __init__(self, table: Any):
        self._table, self._metadata = table, table.metadata
        self.snapshot_id: int = self._metadata.new_snapshot_id()
        self.files: list[str] = []
        self._name = str(uuid4())
        self._sums = {"added-files-size": 0, "removed-files-size": 0, "added-records": 0, "added-data-files": 0}
        self._partitions: set[tuple[int, str]] = set()

    def write(self, replaced: Mapping[str, NewPath], note: Mapping[str, str]) -> Any:
        """Write manifests and their list, and return pyiceberg's description of the snapshot.

        Parameters
        ----------
        replaced : {path of a live data file as the metadata has it: its new place}.
        note : goes into the snapshot's summary.

        Raises
        ------
        ParquetBloomError
            Not each of the files is live and listed once.
        """
        from pyiceberg.manifest import ManifestContent, write_manifest_list
        from pyiceberg.table.snapshots import Snapshot

        table, metadata = self._table, self._metadata
        parent, found, manifests = table.current_snapshot(), [], []
        for manifest in parent.manifests(table.io):
            if manifest.content == ManifestContent.DATA:
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                here = [entry.data_file.file_path for entry in entries if entry.data_file.file_path in replaced]
                found += here
                if here:
                    manifests.append(self._write_manifest(manifest, entries, replaced))
                    continue
            manifests.append(manifest)
        if sorted(found) != sorted(replaced):
            raise ParquetBloomError("its metadata lists other files than before", path=".".join(table.name()))
        sequence_number = metadata.next_sequence_number()
        path = self._new_file(f"snap-{self.snapshot_id}-0-{self._name}.avro")
        version, ids = metadata.format_version, (self.snapshot_id, parent.snapshot_id)
        with write_manifest_list(version, table.io.new_output(path), *ids, sequence_number, _CODEC) as writer:
            writer.add_manifests(manifests)
        make: Any = Snapshot  # mypy knows the names of the JSON only
        return make(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=sequence_number if version > 1 else None,
            # Times of snapshots must not go back, whatever the clocks of two writers say.
            timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms, parent.timestamp_ms + 1),
            manifest_list=path,
            summary=self._summarize(parent.summary, note),
            schema_id=metadata.current_schema_id,
        )

    def delete(self) -> None:
        """Delete the metadata files, as far as that is possible: the snapshot was not committed."""
        for path in self.files:
            try:
                self._table.io.delete(path)
            except Exception:  # of many kinds; it is not worth another error
                continue

    def _new_file(self, name: str) -> str:
        path: str = self._table.location_provider().new_metadata_location(name)
        self.files.append(path)
        return path

    def _write_manifest(self, old: Any, entries: Sequence[Any], replaced: Mapping[str, NewPath]) -> Any:
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest

        table, version = self._table, self._metadata.format_version
        spec = table.specs()[old.partition_spec_id]
        known = self._read_files(old)
        _restore_floats(entries, known)
        output = table.io.new_output(self._new_file(f"{self._name}-m{len(self.files)}.avro"))
        with write_manifest(version, spec, self._find_schema(spec), output, self.snapshot_id, _CODEC) as writer:
            for entry in entries:
                file, new = entry.data_file, replaced.get(entry.data_file.file_path)
                if new is None:
                    writer.existing(entry)
                    continue
                writer.delete(entry)
                added = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self.snapshot_id,
                    sequence_number=entry.sequence_number if version > 1 else None,
                    data_file=move_file(file, new),
                )
                writer.add_entry(added)
                self._count(file, new)
        written = writer.to_manifest_file()
        expected = {replaced[path].path if path in replaced else path: one.facts for path, one in known.items()}
        if {path: one.facts for path, one in self._read_files(written).items()} != expected:
            problem = f"pyiceberg has not written its manifest {old.manifest_path} as it was: nothing was committed"
            raise ParquetBloomError(problem, path=".".join(table.name()))
        return written

    def _read_files(self, manifest: Any) -> dict[str, _Known]:
        """Return {path: what is known} of the live files of a manifest, by our own reader."""
        table = self._table
        own = manifest.sequence_number
        record = {
            "manifest_path": manifest.manifest_path,
            "manifest_length": manifest.manifest_length,
            "spec_id": manifest.partition_spec_id,
            "added": manifest.added_files_count,
            "existing": manifest.existing_files_count,
            # Of a manifest that is not in a list yet it is not known.
            "sequence_number": self._metadata.next_sequence_number() if own is None or own < 0 else own,
        }
        fields = table.specs()[manifest.partition_spec_id].fields
        files = read_files(table.io, record, fields, ".".join(table.name()))
        facts = zip(files.partitions, files.record_counts, files.sequence_numbers, strict=True)
        return {path: _Known(values, fact) for path, values, fact in zip(files.paths, files.values, facts, strict=True)}

    def _find_schema(self, spec: Any) -> Any:
        """Return a schema with the columns of a partition spec, which the current one may have lost."""
        schemas = [self._table.schema(), *sorted(self._table.schemas().values(), key=lambda one: -one.schema_id)]
        for schema in schemas:
            if all(field.source_id in schema._lazy_id_to_field for field in spec.fields):
                return schema
        problem = f"no schema has the columns of its partition spec {spec.spec_id}"
        raise ParquetBloomError(problem, path=".".join(self._table.name()))

    def _count(self, file: Any, new: NewPath) -> None:
        self._sums["added-data-files"] += 1
        self._sums["added-files-size"] += new.size
        self._sums["removed-files-size"] += file.file_size_in_bytes
        self._sums["added-records"] += file.record_count
        self._partitions.add((file.spec_id, str(file.partition)))

    def _summarize(self, before: Any, note: Mapping[str, str]) -> Any:
        from pyiceberg.table.snapshots import Operation, Summary

        sums = {name: str(value) for name, value in self._sums.items()}
        sums |= {"deleted-data-files": sums["added-data-files"], "deleted-records": sums["added-records"]}
        sums["changed-partition-count"] = str(len(self._partitions))
        for name in _TOTALS:
            total = None if before is None else before[name]
            if total is not None and str(total).isdigit():
                grown = self._sums["added-files-size"] - self._sums["removed-files-size"]
                sums[name] = str(int(total) + (grown if name == "total-files-size" else 0))
        return Summary(Operation.REPLACE, **sums, **note)


def _restore_floats(entries: Sequence[Any], known: Mapping[str, _Known]) -> None:
    """Set partition values that are floats to what the manifest has: pyiceberg reads doubles in single precision."""
    for entry in entries:
        file = entry.data_file
        for position, value in enumerate(known[file.file_path].values):
            if isinstance(value, float):
                file.partition[position] = value


def move_file(file: Any, new: NewPath) -> Any:
    """Return pyiceberg's description of a data file at another place, with all else as it was."""
    from pyiceberg.manifest import DATA_FILE_TYPE, DEFAULT_READ_VERSION, DataFile

    moved = DataFile(*(file[position] for position in range(len(file))))
    for position, field in enumerate(DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields):
        if field.name == "file_path":
            moved[position] = new.path
        elif field.name == "file_size_in_bytes":
            moved[position] = new.size
    moved.spec_id = file.spec_id
    return moved
