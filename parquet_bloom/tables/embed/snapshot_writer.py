"""Write the metadata files of an Iceberg snapshot that says of files what the one before does, but for the changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from ...errors import ParquetBloomError
from ...util.lazy import late_module
from ..iceberg.avro_rewrite import StoredRecords
from ..iceberg.file_metrics import FileMetrics
from ..iceberg.iceberg_deletes import AppliedDeletes
from ..iceberg.iceberg_snapshot import Contents
from ..iceberg.manifests import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    PATH_COLUMN,
    POSITION_DELETES,
    DeleteFile,
    ListedManifest,
    ManifestFiles,
    read_files,
)
from ..table_locations import resolve_iceberg_path
from ..table_snapshot import TableSnapshot
from .hidden_rows import RowHider
from .moved_deletes import DeleteChange, DeleteKey, DeletesMover, NewDelete, make_key, name_beside
from .new_data import NewDataFile, write_data_manifest, write_empty_list
from .table_target import RowChange, find_outside

if TYPE_CHECKING:
    import pyiceberg.table.snapshots as snapshots
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
else:
    snapshots = late_module("pyiceberg.table.snapshots")

# Field ids by the specification: of a manifest list,
_PATH, _LENGTH, _CONTENT, _SEQUENCE, _LEAST_SEQUENCE, _SNAPSHOT, _FIRST_ROW = 500, 501, 517, 515, 516, 503, 520
_SPEC, _PARTITIONS, _MANIFEST_KEY = 502, 507, 519
_NUM_FILES = {ADDED: 504, EXISTING: 505, DELETED: 506}
_NUM_ROWS = {ADDED: 512, EXISTING: 513, DELETED: 514}
# of the entries of a manifest,
_STATUS, _ENTRY_SNAPSHOT, _FILE, _ENTRY_SEQUENCE, _FILE_SEQUENCE = 0, 1, 2, 3, 4
# and of the files in them.
_FILE_CONTENT, _FILE_PATH, _FILE_FORMAT, _NUM_RECORDS, _SIZE = 134, 100, 101, 103, 104
_COLUMN_SIZES, _VALUE_COUNTS, _NULL_COUNTS, _NAN_COUNTS = 108, 109, 110, 137
_LOWER, _UPPER, _SPLITS = 125, 128, 132
_METRICS = _COLUMN_SIZES, _VALUE_COUNTS, _NULL_COUNTS, _LOWER, _UPPER  # as `FileMetrics.list_maps` has them
_FILE_FIRST_ROW, _REFERENCED, _OFFSET, _CONTENT_LENGTH = 142, 143, 144, 145
_DISTINCT_COUNTS, _KEY_METADATA, _EQUALITY_IDS, _SORT_ORDER = 111, 131, 135, 140
# The fields of `_StoredEntry`.
_OF_ENTRY = {
    "status": _STATUS, "snapshot_id": _ENTRY_SNAPSHOT, "sequence": _ENTRY_SEQUENCE, "file_sequence": _FILE_SEQUENCE,
}  # fmt: skip
_OF_FILE = {"path": _FILE_PATH, "num_records": _NUM_RECORDS, "size": _SIZE}
_OF_DATA = _OF_FILE | {"first_row": _FILE_FIRST_ROW}
_OF_DELETES = _OF_FILE | {"offset": _OFFSET, "length": _CONTENT_LENGTH, "lower": _LOWER, "upper": _UPPER}

# What the entry of new deletes has not got from that of a data file.
_OF_NEW_DELETES = {
    _STATUS: ADDED, _FILE_SEQUENCE: None, _FILE_CONTENT: POSITION_DELETES,
    **dict.fromkeys((_DISTINCT_COUNTS, _KEY_METADATA, _EQUALITY_IDS, _SORT_ORDER, _FILE_FIRST_ROW)),
    **dict.fromkeys((_VALUE_COUNTS, _NULL_COUNTS, _NAN_COUNTS)),
}  # fmt: skip

_WITH_SEQUENCE, LINEAGE_SINCE = 2, 3  # the versions of the format that brought sequence numbers, and row lineage

_TOTALS = (
    *("total-data-files", "total-delete-files", "total-records"),
    *("total-position-deletes", "total-equality-deletes", "total-files-size"),
)


class NewPath(NamedTuple):
    """Where the rows of a data file are from now on, and what is said of its columns; None for what was said before."""

    path: str
    size: int
    metrics: FileMetrics | None = None

    def describe(self) -> dict[int, object]:
        """Return {field id: value} of what a manifest says of the file."""
        told: dict[int, object] = {_FILE_PATH: self.path, _SIZE: self.size}
        if self.metrics is not None:
            told[_NUM_RECORDS] = self.metrics.num_rows
            told |= dict.fromkeys((_NAN_COUNTS, _DISTINCT_COUNTS, _SPLITS))
            for number, values in zip(_METRICS, self.metrics.list_maps(), strict=True):
                told[number] = [{"key": key, "value": value} for key, value in sorted(values.items())]
        return told


class _FileChanges(NamedTuple):
    """What a snapshot does to the files of the one before; data files are named as the metadata has them.

    Attributes
    ----------
    replaced : {data file: its new place}.
    removed : data files that the table no longer has.
    deletes : what becomes of delete files.
    added_deletes : {data file: new deletes of its partition}; one file for each partition is enough.
    added : new data files.
    """

    replaced: Mapping[str, NewPath]
    removed: Collection[str]
    deletes: Mapping[DeleteKey, DeleteChange]
    added_deletes: Mapping[str, Sequence[NewDelete]]
    added: Sequence[NewDataFile] = ()

    def find_in(self, files: ManifestFiles) -> int:
        """Return how many of the data files that change are in a manifest."""
        return sum(path in self.replaced or path in self.removed for path in files.paths)

    def change(self, files: ManifestFiles) -> bool:
        """Return whether a manifest changes."""
        return self.find_in(files) > 0 or any(make_key(file) in self.deletes for file in files.deletes)


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
    length: int | None = None
    lower: list[dict[str, Any]] | None = None
    upper: list[dict[str, Any]] | None = None


@dataclass
class _Draft:
    """A manifest of new deletes; its records are those of data files of the same partitions, with other values.

    Attributes
    ----------
    row, manifest : the manifest of one of these data files in the list of manifests.
    stored : its records.
    records : the new ones.
    deletes : what the new manifest says.
    """

    row: int
    manifest: ListedManifest
    stored: StoredRecords
    records: list[bytes] = field(default_factory=list)
    deletes: list[DeleteFile] = field(default_factory=list)


def list_deletes(contents: Contents, paths: Container[str]) -> dict[str, AppliedDeletes]:
    """Return the deletes of some data files, by their paths as the metadata has them."""
    listed = enumerate(contents.manifests.paths)
    return {path: contents.deletes[row] for row, path in listed if path in paths and row in contents.deletes}


class RowNumbers(NamedTuple):
    """The id of a data file's first row, and the number of the snapshot that has last changed the rows.

    Files of a table that has been upgraded have no ids so far: their rows get them by the next commit.
    """

    first_row: int | None
    sequence: int | None


def find_row_numbers(contents: Contents, paths: Container[str]) -> dict[str, RowNumbers]:
    """Return what some data files number their rows by, by their paths as the metadata has them."""
    name = ".".join(contents.table.name())
    found = {}
    for manifest, files in contents.manifests.listed:
        if any(path in paths for path in files.paths):
            stored = StoredRecords(contents.table.io, manifest.path, name, manifest.length, record=_FILE)
            for entry in _list_entries(stored, manifest, manifest.first_row_id):
                if entry.path in paths and entry.status != DELETED:
                    found[entry.path] = RowNumbers(entry.first_row, entry.sequence)
    return found


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
        self._drafts: dict[tuple[int, str], _Draft] = {}  # by spec and schema
        self._next_row: int | None = None
        if self._version >= LINEAGE_SINCE:
            self._next_row = self._metadata.next_row_id

    def exchange(self, replaced: Mapping[str, NewPath], note: Mapping[str, str]) -> Snapshot:
        """Write a snapshot in which files have other paths, and nothing else is different.

        Parameters
        ----------
        replaced : {path of a live data file as the metadata has it: its new place}.
        note : goes into the snapshot's summary.

        Returns
        -------
        Snapshot
            pyiceberg's description of it.

        Raises
        ------
        UnfitFiles
            Deletes of some of the files cannot be written anew.
        ParquetBloomError
            Not each of the files is live and listed once.
        """
        moved = self._move_deletes(replaced)
        return self._write(_FileChanges(replaced, (), moved, {}), snapshots.Operation.REPLACE, note)

    def change_rows(
        self,
        change: RowChange,
        replaced: Mapping[str, NewPath],
        added: Sequence[NewDataFile],
        snapshot: TableSnapshot,
        note: Mapping[str, str],
    ) -> Snapshot:
        """Write a snapshot in which rows are deleted and added.

        Parameters
        ----------
        replaced : the files that are written anew, as of `exchange`, with metrics.
        added : files with new rows.
        snapshot : the one that it follows, to be read.

        Raises
        ------
        ParquetBloomError
            Deletes of one of the files cannot be read, or not each of the files is live and listed once.
        """
        sequence = self._metadata.next_sequence_number()
        deletes = RowHider(self._contents, snapshot, sequence, self._name_delete_file).write(change)
        removed = {file.old.entry for file in change.removed}
        changes = _FileChanges(replaced, removed, deletes.changed, deletes.added, added)
        has_old = bool(change.hidden or change.removed or replaced)
        operation = snapshots.Operation.OVERWRITE if has_old else snapshots.Operation.APPEND
        return self._write(changes, operation if replaced or added else snapshots.Operation.DELETE, note)

    def _write(self, changes: _FileChanges, operation: Operation, note: Mapping[str, str]) -> Snapshot:
        """Write manifests and their list, and return pyiceberg's description of the snapshot."""
        metadata, parent, listed = self._metadata, self._contents.snapshot, self._contents.manifests.listed
        first_row, sequence = self._next_row, metadata.next_sequence_number()
        path = self._new_file(f"snap-{self.snapshot_id}-0-{self._name}.avro")
        if parent is None:
            write_empty_list(self._io.new_output(path), self._version, self.snapshot_id, sequence)
        stored = StoredRecords(self._io, path if parent is None else parent.manifest_list, self._table_name)
        if stored.decode({_PATH: None}).fields[_PATH].array.to_pylist() != [each.path for each, _ in listed]:
            raise ParquetBloomError("its list of manifests is not the one from before", path=self._table_name)
        always = self._extend_list(stored)
        records, found = [], 0
        for row, (manifest, files) in enumerate(listed):
            if not files.paths and not files.deletes:
                continue  # what it says was for the snapshot that added it
            self._draft_deletes(row, manifest, files, changes.added_deletes)
            fields: dict[int, object] = {}
            if changes.change(files):
                fields = self._write_manifest(manifest, files, changes, sequence)
            elif manifest.content != DELETES and manifest.first_row_id is None and self._next_row is not None:
                # Rows of a table that has been upgraded get their ids by the first commit after that.
                fields = {_FIRST_ROW: self._next_row}
                self._next_row += sum(files.record_counts)
            found += changes.find_in(files)
            records.append(stored.encode(row, always | fields))
        if changes.added:
            records.append(stored.encode(0, always | self._write_new_data(changes.added, sequence)))
        for draft in self._drafts.values():
            records.append(stored.encode(draft.row, always | self._write_new_deletes(draft, sequence)))
        drafted = sum(len(draft.records) for draft in self._drafts.values())
        due = len(changes.replaced) + len(changes.removed), sum(map(len, changes.added_deletes.values()))
        if (found, drafted) != due:
            raise ParquetBloomError("its metadata lists other files than before", path=self._table_name)
        parent_id = None if parent is None else parent.snapshot_id
        meta = {"snapshot-id": self.snapshot_id} | ({} if parent is None else {"parent-snapshot-id": parent_id})
        meta |= {"sequence-number": sequence} if self._version >= _WITH_SEQUENCE else {}
        meta |= {} if first_row is None else {"first-row-id": first_row}
        meta["format-version"] = self._version
        stored.write(self._io.new_output(path), records, {key: str(value) for key, value in meta.items()})
        return snapshots.Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent_id,
            sequence_number=sequence if self._version >= _WITH_SEQUENCE else None,
            # Times of snapshots must not go back, whatever the clocks of two writers say.
            timestamp_ms=max(
                time.time_ns() // 1_000_000, metadata.last_updated_ms, 0 if parent is None else parent.timestamp_ms + 1
            ),
            manifest_list=path,
            summary=self._summarize(operation, parent, note),
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

    def _name_delete_file(self, beside: str, suffix: str) -> str:
        path = name_beside(beside, suffix)
        if find_outside([resolve_iceberg_path(path, path)], self._contents.root):
            path = self._contents.table.location_provider().new_data_location(path.rpartition("/")[2])
        self.files.append(path)  # by several threads
        return path

    def _move_deletes(self, replaced: Mapping[str, NewPath]) -> dict[DeleteKey, DeleteChange]:
        contents = self._contents
        deletes = list_deletes(contents, replaced)

        names = {path: new.path.rpartition("/")[2] for path, new in replaced.items()}
        return DeletesMover(self._io, self._version, self._name_delete_file).write(
            deletes, names, contents.manifests.paths
        )

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
        if self._version >= LINEAGE_SINCE:
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
        if self._version >= LINEAGE_SINCE and is_data:
            stored.add_field(_FILE_FIRST_ROW, "first_row_id", "long", nullable=True, inside=True)
        elif self._version >= LINEAGE_SINCE:
            stored.add_field(_REFERENCED, "referenced_data_file", "string", nullable=True, inside=True)
            for number, name in ((_OFFSET, "content_offset"), (_CONTENT_LENGTH, "content_size_in_bytes")):
                stored.add_field(number, name, "long", nullable=True, inside=True)
        return always

    def _write_manifest(
        self,
        old: ListedManifest,
        files: ManifestFiles,
        changes: _FileChanges,
        sequence: int,
    ) -> dict[int, object]:
        """Write a manifest with the changes, and return what the list says of it."""
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
            now: dict[int, Any] = always | {
                _STATUS: EXISTING,
                _ENTRY_SNAPSHOT: entry.snapshot_id,
                _ENTRY_SEQUENCE: entry.sequence,
                _FILE_SEQUENCE: entry.file_sequence,
            }
            keeps, changed = True, []
            if is_data:
                now[_FILE_FIRST_ROW] = entry.first_row
                if entry.path in changes.replaced:
                    keeps, changed = False, [self._replace(entry, changes.replaced[entry.path])]
                elif entry.path in changes.removed:
                    keeps = False
                    self._remove(entry)
            elif (entry.path, entry.offset) in changes.deletes:
                keeps, new = changes.deletes[entry.path, entry.offset]
                changed = [self._add_delete(entry, each) for each in new]
                if not keeps:
                    self._remove_delete(entry)
            added = {_STATUS: ADDED, _ENTRY_SNAPSHOT: self.snapshot_id, _FILE_SEQUENCE: None}
            gone = {} if keeps else {_STATUS: DELETED, _ENTRY_SNAPSHOT: self.snapshot_id}
            for each in [now | gone, *(now | added | change for change in changed)]:
                records.append(stored.encode(row, each))
                status = each[_STATUS]
                num_files[status] += 1
                num_rows[status] += each.get(_NUM_RECORDS, entry.num_records)
                if status != DELETED:
                    sequences.append(sequence if each[_ENTRY_SEQUENCE] is None else each[_ENTRY_SEQUENCE])
        path, length = self._write_records(stored, records, is_data)
        manifest = old._replace(path=path, length=length, sequence_number=sequence)
        self._verify(manifest, files, changes)
        # One without live files has the sequence number that a file of this commit would have.
        listed = self._list_manifest(manifest, min(sequences, default=sequence), num_files, num_rows)
        return listed | ({_FIRST_ROW: first_row} if is_data and first_row is not None else {})

    def _write_records(self, stored: StoredRecords, records: Sequence[bytes], is_data: bool) -> tuple[str, int]:
        """Write a manifest; return its path and its number of bytes."""
        path = self._new_file(f"{self._name}-m{len(self.files)}.avro")
        meta = {"format-version": str(self._version)}
        if self._version >= _WITH_SEQUENCE:
            meta["content"] = "data" if is_data else "deletes"
        return path, stored.write(self._io.new_output(path), records, meta)

    def _list_manifest(
        self, manifest: ListedManifest, least: int, num_files: Mapping[int, int], num_rows: Mapping[int, int]
    ) -> dict[int, object]:
        """Return what the list says of a new manifest.

        Parameters
        ----------
        least : the lowest sequence number of its live files.
        num_files, num_rows : {status: number}.
        """
        return {
            _PATH: manifest.path,
            _LENGTH: manifest.length,
            _SNAPSHOT: self.snapshot_id,
            _SEQUENCE: manifest.sequence_number,
            _LEAST_SEQUENCE: least,
            **{number: num_files.get(status, 0) for status, number in _NUM_FILES.items()},
            **{number: num_rows.get(status, 0) for status, number in _NUM_ROWS.items()},
        }

    def _draft_deletes(
        self, row: int, manifest: ListedManifest, files: ManifestFiles, added: Mapping[str, Sequence[NewDelete]]
    ) -> None:
        """Make the entries of new deletes of the partitions of a manifest's data files, which lend them the others."""
        if added.keys().isdisjoint(files.paths):
            return
        stored = StoredRecords(self._io, manifest.path, self._table_name, manifest.length, record=_FILE)
        always = self._extend_manifest(stored, False) | _OF_NEW_DELETES | {_ENTRY_SNAPSHOT: self.snapshot_id}
        draft = self._drafts.setdefault((manifest.spec_id, stored.schema), _Draft(row, manifest, stored))
        partitions = dict(zip(files.paths, files.partitions, strict=True))
        for number, entry in enumerate(_list_entries(stored, manifest, None)):
            for new in () if entry.status == DELETED else added.get(entry.path, ()):
                changes = always | self._add_delete(entry, new) | {_ENTRY_SEQUENCE: None}
                draft.records.append(stored.encode(number, changes))
                draft.deletes.append(new.make_file(partitions[entry.path]))
                self._partitions.add(partitions[entry.path])

    def _write_new_deletes(self, draft: _Draft, sequence: int) -> dict[int, object]:
        """Write a manifest of new deletes, and return what the list says of it."""
        path, length = self._write_records(draft.stored, draft.records, False)
        manifest = draft.manifest._replace(
            path=path, length=length, sequence_number=sequence, content=DELETES, added=len(draft.records), existing=0
        )
        after = self._read_files(manifest)
        if after.paths or sorted(after.deletes, key=str) != sorted(draft.deletes, key=str):
            problem = f"the manifest {path} of new deletes is not as it should be: nothing was committed"
            raise ParquetBloomError(problem, path=self._table_name)
        count = sum(file.record_count for file in draft.deletes)
        listed = self._list_manifest(manifest, sequence, {ADDED: len(draft.records)}, {ADDED: count})
        return listed | {_CONTENT: DELETES, _PARTITIONS: None, _MANIFEST_KEY: None, _FIRST_ROW: None}

    def _write_new_data(self, added: Sequence[NewDataFile], sequence: int) -> dict[int, object]:
        """Write a manifest of new data files, and return what the list says of it."""
        table, path = self._contents.table, self._new_file(f"{self._name}-m{len(self.files)}.avro")
        spec_id, num_files = table.metadata.default_spec_id, len(added)
        length = write_data_manifest(table, self._io.new_output(path), self.snapshot_id, added)
        manifest = ListedManifest(path, length, spec_id, sequence, None, num_files, 0, self.snapshot_id, DATA, None)
        after = self._read_files(manifest)
        counts = [new.metrics.num_rows for new in added]
        expected = [new.path for new in added], counts, [_list_values(new.partition) for new in added]
        # As texts, where NaN is like NaN.
        if repr((after.paths, after.record_counts, list(map(_list_values, after.values)))) != repr(expected):
            problem = f"the manifest {path} of new data files is not as it should be: nothing was committed"
            raise ParquetBloomError(problem, path=self._table_name)
        self._partitions.update(after.partitions)
        for new in added:
            self._count_added(new.metrics.num_rows, new.size)
        told = self._list_manifest(manifest, sequence, {ADDED: num_files}, {ADDED: sum(counts)})
        told |= {_CONTENT: DATA, _SPEC: spec_id, _PARTITIONS: None, _MANIFEST_KEY: None, _FIRST_ROW: self._next_row}
        if self._next_row is not None:
            self._next_row += sum(counts)
        return told

    def _assign_rows(self, old: ListedManifest, files: ManifestFiles) -> int | None:
        """Return the id of the first row in the files of a manifest that do not say it themselves; None for no ids."""
        if old.first_row_id is not None or self._next_row is None:
            return old.first_row_id
        first = self._next_row
        self._next_row += sum(files.record_counts)
        return first

    def _replace(self, entry: _StoredEntry, new: NewPath) -> dict[int, object]:
        """Return the values of a data file's entry that differ at the new place."""
        self._remove(entry)
        self._count_added(entry.num_records if new.metrics is None else new.metrics.num_rows, new.size)
        return new.describe()

    def _count_added(self, num_rows: int, size: int) -> None:
        for name, number in (("data-files", 1), ("records", num_rows), ("files-size", size)):
            self._add(f"added-{name}", number)
            self._grown[f"total-{name}"] += number

    def _remove(self, entry: _StoredEntry) -> None:
        """Count a data file that the table no longer has."""
        self._add("deleted-data-files", 1)
        self._add("deleted-records", entry.num_records)
        self._add("removed-files-size", entry.size)
        self._grown["total-data-files"] -= 1
        self._grown["total-records"] -= entry.num_records
        self._grown["total-files-size"] -= entry.size

    def _add_delete(self, entry: _StoredEntry, new: NewDelete) -> dict[int, object]:
        """Return the values of new deletes that differ from those of an entry."""
        self._count_delete("added", new.offset, new.record_count, new.size if new.length is None else new.length)
        change: dict[int, object] = {_FILE_PATH: new.path, _SIZE: new.size, _NUM_RECORDS: new.record_count}
        change |= {_FILE_FORMAT: new.file_format, _ENTRY_SEQUENCE: new.sequence_number}
        change |= {_REFERENCED: new.referenced, _OFFSET: new.offset, _CONTENT_LENGTH: new.length}
        change |= {_COLUMN_SIZES: None, _SPLITS: None}
        if new.lower is not None:
            change |= {_LOWER: _set_bound(entry.lower, new.lower), _UPPER: _set_bound(entry.upper, new.upper)}
        elif entry.offset is None:  # a vector in place of positions
            change |= dict.fromkeys((_VALUE_COUNTS, _NULL_COUNTS, _NAN_COUNTS, _LOWER, _UPPER))
        return change

    def _remove_delete(self, entry: _StoredEntry) -> None:
        self._count_delete("removed", entry.offset, entry.num_records, entry.length or entry.size)

    def _count_delete(self, what: str, offset: int | None, count: int, size: int) -> None:
        """Count a delete file, or a vector, which counts by its own bytes."""
        sign = 1 if what == "added" else -1
        self._add(f"{what}-delete-files", 1)
        self._add(f"{what}-{'position-delete-files' if offset is None else 'dvs'}", 1)
        self._add(f"{what}-position-deletes", count)
        self._add(f"{what}-files-size", size)
        self._grown["total-delete-files"] += sign
        self._grown["total-position-deletes"] += sign * count
        self._grown["total-files-size"] += sign * size

    def _add(self, name: str, number: int) -> None:
        self._sums[name] = self._sums.get(name, 0) + number

    def _verify(self, manifest: ListedManifest, before: ManifestFiles, changes: _FileChanges) -> None:
        """Raise unless a manifest that was written says what the one before did, but for the changes."""
        after = self._read_files(manifest._replace(added=None, existing=None))
        deletes, expected = [], {}
        for file in before.deletes:
            keeps, made = changes.deletes.get(make_key(file), (True, ()))
            deletes += [*([file] if keeps else []), *(each.change(file) for each in made)]
        for path, fact in _list_facts(before):
            if path in changes.replaced or path in changes.removed:
                self._partitions.add(fact[0])
            new = changes.replaced.get(path)
            if new is not None:
                expected[new.path] = fact if new.metrics is None else (fact[0], new.metrics.num_rows, fact[2])
            elif path not in changes.removed:
                expected[path] = fact
        if dict(_list_facts(after)) != expected or sorted(after.deletes, key=str) != sorted(deletes, key=str):
            problem = f"the manifest in place of {manifest.path} is not as it should be: nothing was committed"
            raise ParquetBloomError(problem, path=self._table_name)

    def _read_files(self, manifest: ListedManifest) -> ManifestFiles:
        fields = self._contents.table.specs()[manifest.spec_id].fields
        return read_files(self._io, manifest, fields, self._table_name)

    def _summarize(self, operation: Operation, parent: Snapshot | None, note: Mapping[str, str]) -> Summary:
        sums = {name: str(value) for name, value in self._sums.items()}
        sums["changed-partition-count"] = str(len(self._partitions))
        before = None if parent is None else parent.summary
        for name in _TOTALS:
            total = 0 if parent is None else None if before is None else before[name]
            if total is not None and str(total).isdigit():
                sums[name] = str(int(total) + self._grown[name])
        return snapshots.Summary(operation, **sums, **note)


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


def _list_values(partition: Iterable[object]) -> list[object]:
    """Return partition values, of UUIDs their bytes."""
    return [getattr(value, "bytes", value) for value in partition]


def _set_bound(bounds: list[dict[str, Any]] | None, value: bytes | None) -> list[dict[str, Any]]:
    """Return a map of bounds with another one for the paths in a file of positions."""
    kept = [each for each in bounds or () if each["key"] != PATH_COLUMN]
    return [*kept, {"key": PATH_COLUMN, "value": value}]
