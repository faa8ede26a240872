"""Write the metadata files of an Iceberg snapshot in which files have other paths, and nothing else is different."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from ...errors import ParquetBloomError
from ...util.lazy import late_module
from ..iceberg.avro_rewrite import StoredRecords
from ..iceberg.iceberg_snapshot import Contents
from ..iceberg.manifests import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    PATH_COLUMN,
    DeleteFile,
    ListedManifest,
    ManifestFiles,
    read_files,
    read_list,
)
from .moved_deletes import DeleteKey, DeletesMover, MovedDelete, name_beside

if TYPE_CHECKING:
    import pyiceberg.table.snapshots as snapshots
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot, Summary
else:
    snapshots = late_module("pyiceberg.table.snapshots")

# Field ids by the specification: of a manifest list,
_PATH, _LENGTH, _CONTENT, _SEQUENCE, _LEAST_SEQUENCE, _SNAPSHOT, _FIRST_ROW = 500, 501, 517, 515, 516, 503, 520
_NUM_FILES = {ADDED: 504, EXISTING: 505, DELETED: 506}
_NUM_ROWS = {ADDED: 512, EXISTING: 513, DELETED: 514}
# of the entries of a manifest,
_STATUS, _ENTRY_SNAPSHOT, _FILE, _ENTRY_SEQUENCE, _FILE_SEQUENCE = 0, 1, 2, 3, 4
# and of the files in them.
_FILE_CONTENT, _FILE_PATH, _NUM_RECORDS, _SIZE = 134, 100, 103, 104
_COLUMN_SIZES, _LOWER, _UPPER, _SPLITS = 108, 125, 128, 132
_FILE_FIRST_ROW, _REFERENCED, _OFFSET, _CONTENT_LENGTH = 142, 143, 144, 145
# The fields of `_StoredEntry`.
_OF_ENTRY = {
    "status": _STATUS, "snapshot_id": _ENTRY_SNAPSHOT, "sequence": _ENTRY_SEQUENCE, "file_sequence": _FILE_SEQUENCE,
}  # fmt: skip
_OF_FILE = {"path": _FILE_PATH, "num_records": _NUM_RECORDS, "size": _SIZE}
_OF_DATA = _OF_FILE | {"first_row": _FILE_FIRST_ROW}
_OF_DELETES = _OF_FILE | {"offset": _OFFSET, "lower": _LOWER, "upper": _UPPER}

_WITH_SEQUENCE, _WITH_LINEAGE = 2, 3  # the versions of the format that brought sequence numbers, and row lineage

_TOTALS = (
    *("total-data-files", "total-delete-files", "total-records"),
    *("total-position-deletes", "total-equality-deletes", "total-files-size"),
)


class NewPath(NamedTuple):
    """Where the rows of a data file are from now on."""

    path: str
    size: int


class _StoredEntry(NamedTuple):
    """An entry of a manifest, and what it inherits; the bounds are as Avro has maps, and of delete files only."""

    status: int
    snapshot_id: int | None
    sequence: int | None
    file_sequence: int | None
    path: str
    num_records: int
    size: int
    first_row: int | None = None
    offset: int | None = None
    lower: list[dict[str, Any]] | None = None
    upper: list[dict[str, Any]] | None = None


class SnapshotWriter:
    """Writes the metadata files of a snapshot; until it is committed they may be deleted.

    Parameters
    ----------
    contents : the table at the snapshot that the new one follows.

    Attributes
    ----------
    snapshot_id : of the new snapshot.
    files : the metadata files and delete files that were begun.
    """

    def __init__(self, contents: Contents):
        self._contents, self._metadata = contents, contents.table.metadata
        self._io: FileIO = contents.table.io
        self._table_name = ".".join(contents.table.name())
        self._version: int = self._metadata.format_version
        self.snapshot_id: int = self._metadata.new_snapshot_id()
        self.files: list[str] = []
        self._name = str(uuid4())
        self._sums: dict[str, int] = dict.fromkeys(("added-files-size", "removed-files-size"), 0)
        self._grown = dict.fromkeys(_TOTALS, 0)
        self._partitions: set[object] = set()
        self._next_row: int | None = None
        if self._version >= _WITH_LINEAGE:
            self._next_row = self._metadata.next_row_id

    def write(self, replaced: Mapping[str, NewPath], note: Mapping[str, str]) -> Snapshot:
        """Write manifests and their list, and return pyiceberg's description of the snapshot.

        Parameters
        ----------
        replaced : {path of a live data file as the metadata has it: its new place}.
        note : goes into the snapshot's summary.

        Raises
        ------
        UnfitFiles
            Deletes of some of the files cannot be written anew.
        ParquetBloomError
            Not each of the files is live and listed once.
        """
        contents, metadata = self._contents, self._metadata
        parent = contents.snapshot
        if parent is None:
            raise ParquetBloomError("its metadata lists no files any more", path=self._table_name)
        first_row, sequence = self._next_row, metadata.next_sequence_number()
        moved = self._move_deletes(replaced)
        listed, _ = read_list(self._io, parent.manifest_list, self._table_name)
        stored = StoredRecords(self._io, parent.manifest_list, self._table_name)
        always = self._extend_list(stored)
        records, found = [], 0
        for row, manifest in enumerate(listed):
            files = self._read_files(manifest)
            hits = sum(path in replaced for path in files.paths)
            changes: dict[int, object] = {}
            if hits or any((file.path, file.offset) in moved for file in files.deletes):
                changes = self._write_manifest(manifest, files, replaced, moved, sequence)
            elif manifest.content != DELETES and manifest.first_row_id is None and self._next_row is not None:
                # Rows of a table that has been upgraded get their ids by the first commit after that.
                changes = {_FIRST_ROW: self._next_row}
                self._next_row += sum(files.record_counts)
            found += hits
            records.append(stored.encode(row, always | changes))
        if found != len(replaced):
            raise ParquetBloomError("its metadata lists other files than before", path=self._table_name)
        path = self._new_file(f"snap-{self.snapshot_id}-0-{self._name}.avro")
        meta = {"snapshot-id": self.snapshot_id, "parent-snapshot-id": parent.snapshot_id}
        meta |= {"sequence-number": sequence} if self._version >= _WITH_SEQUENCE else {}
        meta |= {} if first_row is None else {"first-row-id": first_row}
        meta["format-version"] = self._version
        stored.write(self._io.new_output(path), records, {key: str(value) for key, value in meta.items()})
        return snapshots.Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=sequence if self._version >= _WITH_SEQUENCE else None,
            # Times of snapshots must not go back, whatever the clocks of two writers say.
            timestamp_ms=max(time.time_ns() // 1_000_000, metadata.last_updated_ms, parent.timestamp_ms + 1),
            manifest_list=path,
            summary=self._summarize(parent.summary, note),
            schema_id=metadata.current_schema_id,
            first_row_id=first_row,
            added_rows=None if first_row is None or self._next_row is None else self._next_row - first_row,
        )

    def delete(self, delete: Callable[[FileIO, str], None]) -> None:
        """Delete the files that were begun, by a function that does what it can: the snapshot was not committed."""
        for path in self.files:
            delete(self._io, path)

    def _new_file(self, name: str) -> str:
        path: str = self._contents.table.location_provider().new_metadata_location(name)
        self.files.append(path)
        return path

    def _move_deletes(self, replaced: Mapping[str, NewPath]) -> dict[DeleteKey, MovedDelete]:
        contents = self._contents
        deletes = {
            path: contents.deletes[row]
            for row, path in enumerate(contents.manifests.paths)
            if path in replaced and row in contents.deletes
        }

        def name_file(file: DeleteFile, suffix: str) -> str:
            self.files.append(name_beside(file, suffix))
            return self.files[-1]

        names = {path: new.path.rpartition("/")[2] for path, new in replaced.items()}
        return DeletesMover(self._io, name_file).write(deletes, names)

    def _extend_list(self, stored: StoredRecords) -> dict[int, object]:
        """Give a manifest list the fields of the table's version; return the values that they have unless changed."""
        always: dict[int, object] = {}
        if self._version >= _WITH_SEQUENCE:
            for number, name, kind in (
                (_CONTENT, "content", "int"),
                (_SEQUENCE, "sequence_number", "long"),
                (_LEAST_SEQUENCE, "min_sequence_number", "long"),
            ):
                if not stored.has_field(number):
                    always[number] = DATA if number == _CONTENT else 0
                    stored.add_field(number, name, kind, nullable=False)
        if self._version >= _WITH_LINEAGE:
            stored.add_field(_FIRST_ROW, "first_row_id", "long", nullable=True)
        return always

    def _extend_manifest(self, stored: StoredRecords, is_data: bool) -> dict[int, object]:
        """Give a manifest the fields of the table's version; return the values that they have unless changed."""
        always: dict[int, object] = {}
        if self._version >= _WITH_SEQUENCE:
            for number, name in ((_ENTRY_SEQUENCE, "sequence_number"), (_FILE_SEQUENCE, "file_sequence_number")):
                stored.add_field(number, name, "long", nullable=True)
            if not stored.has_field(_FILE_CONTENT):
                always[_FILE_CONTENT] = DATA
                stored.add_field(_FILE_CONTENT, "content", "int", nullable=False, inside=True)
        if self._version >= _WITH_LINEAGE and is_data:
            stored.add_field(_FILE_FIRST_ROW, "first_row_id", "long", nullable=True, inside=True)
        return always

    def _write_manifest(
        self,
        old: ListedManifest,
        files: ManifestFiles,
        replaced: Mapping[str, NewPath],
        moved: Mapping[DeleteKey, MovedDelete],
        sequence: int,
    ) -> dict[int, object]:
        """Write a manifest with the new paths, and return what the list says of it."""
        is_data = old.content != DELETES
        stored = StoredRecords(self._io, old.path, self._table_name, old.length, record=_FILE)
        always = self._extend_manifest(stored, is_data)
        records: list[bytes] = []
        num_files, num_rows = dict.fromkeys(_NUM_FILES, 0), dict.fromkeys(_NUM_ROWS, 0)
        first_row = self._assign_rows(old, files) if is_data else None
        sequences = []
        for row, entry in enumerate(_list_entries(stored, old, first_row)):
            if entry.status == DELETED:
                continue
            if entry.sequence is None:
                raise ParquetBloomError(f"its manifest {old.path} lacks sequence numbers", path=self._table_name)
            sequences.append(entry.sequence)
            now: dict[int, object] = always | {
                _STATUS: EXISTING,
                _ENTRY_SNAPSHOT: entry.snapshot_id,
                _ENTRY_SEQUENCE: entry.sequence,
                _FILE_SEQUENCE: entry.file_sequence,
            }
            if is_data:
                now[_FILE_FIRST_ROW] = entry.first_row
                new = replaced.get(entry.path)
                change = None if new is None else self._replace(entry, new)
            else:
                delete = moved.get((entry.path, entry.offset))
                change = None if delete is None else self._replace_delete(entry, delete)
            written = [now]
            if change is not None:
                added = {_STATUS: ADDED, _FILE_SEQUENCE: None} | change
                written = [now | {_STATUS: DELETED}, now | added]
            for each in written:
                if change is not None:
                    each[_ENTRY_SNAPSHOT] = self.snapshot_id
                records.append(stored.encode(row, each))
                status = each[_STATUS]
                num_files[status] += 1  # type: ignore[index]
                num_rows[status] += each.get(_NUM_RECORDS, entry.num_records)  # type: ignore[index, operator]
        path = self._new_file(f"{self._name}-m{len(self.files)}.avro")
        meta = {"format-version": str(self._version)}
        if self._version >= _WITH_SEQUENCE:
            meta["content"] = "data" if is_data else "deletes"
        length = stored.write(self._io.new_output(path), records, meta)
        self._verify(old._replace(path=path, length=length, sequence_number=sequence), files, replaced, moved)
        return {
            _PATH: path,
            _LENGTH: length,
            _SNAPSHOT: self.snapshot_id,
            _SEQUENCE: sequence,
            _LEAST_SEQUENCE: min(sequences),
            **{number: num_files[status] for status, number in _NUM_FILES.items()},
            **{number: num_rows[status] for status, number in _NUM_ROWS.items()},
            **({_FIRST_ROW: first_row} if is_data and first_row is not None else {}),
        }

    def _assign_rows(self, old: ListedManifest, files: ManifestFiles) -> int | None:
        """Return the id of the first row in the files of a manifest that do not say it themselves; None for no ids."""
        if old.first_row_id is not None or self._next_row is None:
            return old.first_row_id
        first = self._next_row
        self._next_row += sum(files.record_counts)
        return first

    def _replace(self, entry: _StoredEntry, new: NewPath) -> dict[int, object]:
        """Return the values of a data file's entry that differ at the new place."""
        for name, number in (("data-files", 1), ("records", entry.num_records)):
            self._add(f"added-{name}", number)
            self._add(f"deleted-{name}", number)
        self._count_sizes(entry.size, new.size)
        return {_FILE_PATH: new.path, _SIZE: new.size}

    def _replace_delete(self, entry: _StoredEntry, new: MovedDelete) -> dict[int, object]:
        kind = "dvs" if new.offset is not None else "position-delete-files"
        for name, number in (("added-delete-files", 1), ("removed-delete-files", 1)):
            self._add(name, number)
        self._add(f"added-{kind}", 1)
        self._add(f"removed-{kind}", 1)
        self._add("added-position-deletes", new.record_count)
        self._add("removed-position-deletes", entry.num_records)
        self._grown["total-position-deletes"] += new.record_count - entry.num_records
        # Vectors in one Puffin file count each by its own bytes.
        sizes = (entry.size, new.size) if new.length is None else (new.length, new.length)
        self._count_sizes(*sizes)
        change: dict[int, object] = {_FILE_PATH: new.path, _SIZE: new.size, _NUM_RECORDS: new.record_count}
        change |= {_REFERENCED: new.referenced, _OFFSET: new.offset, _CONTENT_LENGTH: new.length}
        change |= {_COLUMN_SIZES: None, _SPLITS: None}
        if new.lower is not None:
            change |= {_LOWER: _set_bound(entry.lower, new.lower), _UPPER: _set_bound(entry.upper, new.upper)}
        return change

    def _add(self, name: str, number: int) -> None:
        self._sums[name] = self._sums.get(name, 0) + number

    def _count_sizes(self, before: int, after: int) -> None:
        self._sums["added-files-size"] += after
        self._sums["removed-files-size"] += before
        self._grown["total-files-size"] += after - before

    def _verify(
        self,
        manifest: ListedManifest,
        before: ManifestFiles,
        replaced: Mapping[str, NewPath],
        moved: Mapping[DeleteKey, MovedDelete],
    ) -> None:
        """Raise unless a manifest that was written says what the one before did, but for the new paths."""
        counts = manifest._replace(added=None, existing=None)
        after = self._read_files(counts)
        deletes = [
            moved[file.path, file.offset].change(file) if (file.path, file.offset) in moved else file
            for file in before.deletes
        ]
        expected = {(replaced[path].path if path in replaced else path): fact for path, fact in _list_facts(before)}
        for path, (partition, *_) in _list_facts(before):
            if path in replaced:
                self._partitions.add(partition)
        if dict(_list_facts(after)) != expected or sorted(after.deletes, key=str) != sorted(deletes, key=str):
            problem = f"the manifest in place of {manifest.path} is not as it should be: nothing was committed"
            raise ParquetBloomError(problem, path=self._table_name)

    def _read_files(self, manifest: ListedManifest) -> ManifestFiles:
        fields = self._contents.table.specs()[manifest.spec_id].fields
        return read_files(self._io, manifest, fields, self._table_name)

    def _summarize(self, before: Summary | None, note: Mapping[str, str]) -> Summary:
        sums = {name: str(value) for name, value in self._sums.items()}
        sums["changed-partition-count"] = str(len(self._partitions))
        for name in _TOTALS:
            total = None if before is None else before[name]
            if total is not None and str(total).isdigit():
                sums[name] = str(int(total) + self._grown[name])
        return snapshots.Summary(snapshots.Operation.REPLACE, **sums, **note)


def _list_facts(files: ManifestFiles) -> list[tuple[str, tuple[Any, ...]]]:
    """Return (path, what has to stay of it) of data files."""
    facts = zip(files.partitions, files.record_counts, files.sequence_numbers, strict=True)
    return list(zip(files.paths, facts, strict=True))


def _list_entries(stored: StoredRecords, manifest: ListedManifest, first_row: int | None) -> list[_StoredEntry]:
    """Return the entries of a manifest, with what they inherit.

    Parameters
    ----------
    first_row : the id of the first row in the live files that do not say it themselves; None for no ids.
    """
    of_file = _OF_DELETES if manifest.content == DELETES else _OF_DATA
    top = stored.decode({**dict.fromkeys(_OF_ENTRY.values()), _FILE: dict.fromkeys(of_file.values())})
    found = {name: top.fields.get(number) for name, number in _OF_ENTRY.items()}
    found |= {name: top.fields[_FILE].fields.get(number) for name, number in of_file.items()}
    columns: dict[str, list[Any]] = {
        name: [None] * len(top.array) if column is None else column.array.to_pylist() for name, column in found.items()
    }
    own = manifest.sequence_number or 0
    entries = []
    for values in zip(*columns.values(), strict=True):
        entry = _StoredEntry(**dict(zip(columns, values, strict=True)))
        inherits = entry.status == ADDED or not own
        sequence, file_sequence = (
            own if number is None and inherits else number for number in (entry.sequence, entry.file_sequence)
        )
        first = entry.first_row
        if first is None and first_row is not None and entry.status != DELETED:
            first = first_row
            first_row += entry.num_records
        snapshot_id = manifest.snapshot_id if entry.snapshot_id is None else entry.snapshot_id
        entries.append(
            entry._replace(sequence=sequence, file_sequence=file_sequence, first_row=first, snapshot_id=snapshot_id)
        )
    return entries


def _set_bound(bounds: list[dict[str, Any]] | None, value: bytes | None) -> list[dict[str, Any]]:
    """Return a map of bounds with another one for the paths in a file of positions."""
    kept = [each for each in bounds or () if each["key"] != PATH_COLUMN]
    return [*kept, {"key": PATH_COLUMN, "value": value}]
