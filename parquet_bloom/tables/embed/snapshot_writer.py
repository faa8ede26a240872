"""Write the metadata files of an Iceberg snapshot in which files have other paths, and nothing else is different."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from ...errors import ParquetBloomError
from ...util.lazy import late_module
from ..iceberg.avro_rewrite import StoredRecords
from ..iceberg.iceberg_deletes import AppliedDeletes
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
from .moved_deletes import DeleteChange, DeleteKey, DeletesMover, NewDelete, make_key, name_beside

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
_FILE_CONTENT, _FILE_PATH, _FILE_FORMAT, _NUM_RECORDS, _SIZE = 134, 100, 101, 103, 104
_COLUMN_SIZES, _VALUE_COUNTS, _NULL_COUNTS, _NAN_COUNTS = 108, 109, 110, 137
_LOWER, _UPPER, _SPLITS = 125, 128, 132
_FILE_FIRST_ROW, _REFERENCED, _OFFSET, _CONTENT_LENGTH = 142, 143, 144, 145
# The fields of `_StoredEntry`.
_OF_ENTRY = {
    "status": _STATUS, "snapshot_id": _ENTRY_SNAPSHOT, "sequence": _ENTRY_SEQUENCE, "file_sequence": _FILE_SEQUENCE,
}  # fmt: skip
_OF_FILE = {"path": _FILE_PATH, "num_records": _NUM_RECORDS, "size": _SIZE}
_OF_DATA = _OF_FILE | {"first_row": _FILE_FIRST_ROW}
_OF_DELETES = _OF_FILE | {"offset": _OFFSET, "length": _CONTENT_LENGTH, "lower": _LOWER, "upper": _UPPER}

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
    length: int | None = None
    lower: list[dict[str, Any]] | None = None
    upper: list[dict[str, Any]] | None = None


def list_deletes(contents: Contents, paths: Container[str]) -> dict[str, AppliedDeletes]:
    """Return the deletes of some data files, by their paths as the metadata has them."""
    listed = enumerate(contents.manifests.paths)
    return {path: contents.deletes[row] for row, path in listed if path in paths and row in contents.deletes}


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
            if hits or any(make_key(file) in moved for file in files.deletes):
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

    def _move_deletes(self, replaced: Mapping[str, NewPath]) -> dict[DeleteKey, DeleteChange]:
        contents = self._contents
        deletes = list_deletes(contents, replaced)

        def name_file(file: DeleteFile, suffix: str) -> str:
            self.files.append(name_beside(file, suffix))
            return self.files[-1]

        names = {path: new.path.rpartition("/")[2] for path, new in replaced.items()}
        return DeletesMover(self._io, self._version, name_file).write(deletes, names, contents.manifests.paths)

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
        elif self._version >= _WITH_LINEAGE:
            stored.add_field(_REFERENCED, "referenced_data_file", "string", nullable=True, inside=True)
            for number, name in ((_OFFSET, "content_offset"), (_CONTENT_LENGTH, "content_size_in_bytes")):
                stored.add_field(number, name, "long", nullable=True, inside=True)
        return always

    def _write_manifest(
        self,
        old: ListedManifest,
        files: ManifestFiles,
        replaced: Mapping[str, NewPath],
        moved: Mapping[DeleteKey, DeleteChange],
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
            now: dict[int, Any] = always | {
                _STATUS: EXISTING,
                _ENTRY_SNAPSHOT: entry.snapshot_id,
                _ENTRY_SEQUENCE: entry.sequence,
                _FILE_SEQUENCE: entry.file_sequence,
            }
            keeps, changed = True, []
            if is_data:
                now[_FILE_FIRST_ROW] = entry.first_row
                if entry.path in replaced:
                    keeps, changed = False, [self._replace(entry, replaced[entry.path])]
            elif (entry.path, entry.offset) in moved:
                keeps, new = moved[entry.path, entry.offset]
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
                    sequences.append(each[_ENTRY_SEQUENCE])
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
        self._add("added-files-size", new.size)
        self._add("removed-files-size", entry.size)
        self._grown["total-files-size"] += new.size - entry.size
        return {_FILE_PATH: new.path, _SIZE: new.size}

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

    def _verify(
        self,
        manifest: ListedManifest,
        before: ManifestFiles,
        replaced: Mapping[str, NewPath],
        moved: Mapping[DeleteKey, DeleteChange],
    ) -> None:
        """Raise unless a manifest that was written says what the one before did, but for the new paths."""
        counts = manifest._replace(added=None, existing=None)
        after = self._read_files(counts)
        deletes = []
        for file in before.deletes:
            keeps, new = moved.get(make_key(file), (True, ()))
            deletes += [*([file] if keeps else []), *(each.change(file) for each in new)]
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
