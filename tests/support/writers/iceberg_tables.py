"""Iceberg tables written by hand: what pyiceberg cannot write, and metadata that nobody should have written.

A snapshot is the list of its live files; manifests are Avro files with the fields of the specification's version 3,
which older readers ignore.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PATH_ID, POSITION_ID = 2147483546, 2147483545
DATA, POSITIONS, EQUALITY = 0, 1, 2


@dataclass
class Entry:
    """A live file of a snapshot; `sequence` None is inherited from the manifest."""

    path: str
    records: int
    size: int
    content: int = DATA
    spec: int = 0
    partition: tuple[Any, ...] = ()
    sequence: int | None = 1
    status: int = 1
    file_format: str = "PARQUET"
    metrics: dict[str, dict[int, Any]] = field(default_factory=dict)
    equality_ids: list[int] | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None
    key: bytes | None = None
    first_row: int | None = None
    manifest: int = 0  # files of different numbers are in different manifests


class HandTable:
    """A table's folder, its metadata and its files.

    Parameters
    ----------
    root : the folder.
    schemas : of the table, as JSON has them; the last is current.
    specs : the partition specs: lists of fields as JSON has them.
    version : of the format.
    """

    def __init__(
        self,
        root: Path,
        schemas: Sequence[Sequence[Mapping[str, Any]]],
        specs: Sequence[Sequence[Mapping[str, Any]]] = ((),),
        version: int = 2,
        properties: Mapping[str, str] | None = None,
        scheme: str = "file://",
    ) -> None:
        self.root = root
        self.location = f"{scheme}{root}"
        self.version = version
        (root / "metadata").mkdir(parents=True)
        (root / "data").mkdir()
        self.count = 0
        self.metadata: dict[str, Any] = {
            "format-version": version, "table-uuid": str(uuid.uuid4()), "location": self.location,
            "last-sequence-number": 1000, "last-updated-ms": 1, "last-column-id": 999,
            "schemas": [{"type": "struct", "schema-id": i, "fields": list(each)} for i, each in enumerate(schemas)],
            "current-schema-id": len(schemas) - 1, "default-spec-id": len(specs) - 1,
            "partition-specs": [{"spec-id": i, "fields": list(each)} for i, each in enumerate(specs)],
            "last-partition-id": 1999, "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": dict(properties or {}), "snapshots": [], "snapshot-log": [], "refs": {}, "next-row-id": 0,
        }  # fmt: skip
        if version == 1:
            self.metadata["schema"] = self.metadata["schemas"][-1]
            self.metadata["partition-spec"] = list(specs[-1])

    def place(self, suffix: str, folder: str = "data") -> tuple[str, str]:
        """Return a new file's path, and how the metadata names it."""
        self.count += 1
        name = f"{folder}/{self.count:05d}{suffix}"
        return str(self.root / name), f"{self.location}/{name}"

    def write_file(self, table: pa.Table, ids: Mapping[str, int] | None, **entry: Any) -> Entry:
        """Write a Parquet file with field ids for the columns (dotted for fields of structs), and return its entry."""
        path, name = self.place(".parquet")
        pq.write_table(table.cast(with_ids(table.schema, ids or {})), path, row_group_size=entry.pop("group", 5))
        return Entry(name, table.num_rows, os.path.getsize(path), **entry)

    def write_positions(self, pairs: Sequence[tuple[str, int]], **entry: Any) -> Entry:
        schema = pa.schema([pa.field("file_path", pa.string()), pa.field("pos", pa.int64())])
        rows = [{"file_path": path, "pos": position} for path, position in sorted(pairs)]
        ids = {"file_path": PATH_ID, "pos": POSITION_ID}
        return self.write_file(pa.Table.from_pylist(rows, schema), ids, content=POSITIONS, **entry)

    def write_equality(self, table: pa.Table, ids: Mapping[str, int], **entry: Any) -> Entry:
        entry.setdefault("equality_ids", list(ids.values()))
        return self.write_file(table, ids, content=EQUALITY, **entry)

    def write_vectors(self, vectors: Mapping[str, Sequence[int]], **entry: Any) -> list[Entry]:
        """Write deletion vectors, {data file: positions}, into one Puffin file."""
        path, name = self.place(".puffin")
        data, entries, blobs = b"PFA1", [], []
        for target, positions in vectors.items():
            blob = make_blob(positions)
            properties = {"referenced-data-file": target, "cardinality": str(len(set(positions)))}
            blobs.append(
                {
                    "type": "deletion-vector-v1",
                    "fields": [],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": len(data),
                    "length": len(blob),
                    "properties": properties,
                }
            )
            rest = {"referenced": target, "offset": len(data), "length": len(blob), "file_format": "PUFFIN"} | entry
            entries.append(Entry(name, len(set(positions)), 0, POSITIONS, **rest))
            data += blob
        footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
        data += b"PFA1" + footer + struct.pack("<i", len(footer)) + b"\0\0\0\0" + b"PFA1"
        Path(path).write_bytes(data)
        for each in entries:
            each.size = len(data)
        return entries

    def add_snapshot(
        self,
        entries: Sequence[Entry],
        *,
        schema: int | None = None,
        sequence: int = 100,
        first_row: int | None = None,
        branch: str = "main",
    ) -> int:
        """Add a snapshot of these files, which becomes the current one of a branch, and return its id.

        Parameters
        ----------
        first_row : the id of the first row, of the files that do not say it; None for a snapshot without row ids.
        """
        number = len(self.metadata["snapshots"]) + 1
        groups: dict[tuple[int, bool, int], list[Entry]] = {}
        for entry in entries:
            groups.setdefault((entry.spec, entry.content != DATA, entry.manifest), []).append(entry)
        manifests = [self._write_manifest(*key[:2], group, sequence, number) for key, group in groups.items()]
        if first_row is not None:
            for each, group in zip(manifests, groups.values(), strict=True):
                if not each["content"]:
                    each["first_row"] = first_row
                    first_row += sum(entry.records for entry in group if entry.status != 2)
            self.metadata["next-row-id"] = first_row
        name = self._write_list(manifests, number)
        schema = self.metadata["current-schema-id"] if schema is None else schema
        moment = 1_600_000_000_000 + number * 60_000
        snapshot = {
            "snapshot-id": number, "timestamp-ms": moment, "sequence-number": sequence, "manifest-list": name,
            "summary": {"operation": "append"}, "schema-id": schema,
        }  # fmt: skip
        if self.version == 3:
            snapshot |= {"first-row-id": 0, "added-rows": 0}
        self.metadata["snapshots"].append(snapshot)
        self.metadata["snapshot-log"].append({"snapshot-id": number, "timestamp-ms": moment})
        if branch == "main":
            self.metadata["current-snapshot-id"] = number
        self.metadata["refs"][branch] = {"snapshot-id": number, "type": "branch"}
        return number

    def write_metadata(self) -> str:
        """Write the metadata file, and return its path."""
        path = self.root / "metadata" / f"v{len(self.metadata['snapshots'])}.metadata.json"
        path.write_text(json.dumps(self.metadata))
        (self.root / "metadata" / "version-hint.text").write_text(path.name.split(".")[0][1:])
        return str(path)

    def _write_manifest(
        self, spec: int, deletes: bool, entries: Sequence[Entry], sequence: int, snapshot: int
    ) -> dict[str, Any]:
        from pyiceberg.avro.file import AvroOutputFile
        from pyiceberg.io.pyarrow import PyArrowFileIO

        path, name = self.place(".avro", "metadata")
        schema, struct_type = self._make_schema(spec)
        meta = {
            "schema": json.dumps(self.metadata["schemas"][-1]), "partition-spec-id": str(spec),
            "partition-spec": json.dumps(self.metadata["partition-specs"][spec]["fields"]),
            "format-version": str(self.version), "content": "deletes" if deletes else "data",
        }  # fmt: skip
        with AvroOutputFile(PyArrowFileIO({}).new_output(path), schema, "manifest_entry", metadata=meta) as file:
            for start in range(0, len(entries), 1000):
                file.write_block(
                    [self._make_record(each, struct_type, snapshot) for each in entries[start : start + 1000]]
                )
        return {
            "path": name, "length": os.path.getsize(path), "spec": spec, "content": int(deletes), "sequence": sequence,
            "added": sum(each.status == 1 for each in entries), "existing": sum(each.status == 0 for each in entries),
            "deleted": sum(each.status == 2 for each in entries), "snapshot": snapshot,
        }  # fmt: skip

    def _make_schema(self, spec: int) -> tuple[Any, Any]:
        from pyiceberg.manifest import DATA_FILE_TYPE
        from pyiceberg.schema import Schema
        from pyiceberg.table.metadata import TableMetadataUtil
        from pyiceberg.types import IntegerType, LongType, NestedField, StructType

        known = json.dumps(self.metadata).replace('"variant"', '"binary"').replace("(srid:4326)", "")  # to pyiceberg
        metadata = TableMetadataUtil.parse_obj(json.loads(known))
        fields = metadata.specs()[spec].partition_type(metadata.schema()).fields
        of_file = [
            NestedField(102, "partition", StructType(*fields), required=True) if each.field_id == 102 else each
            for each in DATA_FILE_TYPE[3].fields
            if self.version > 1 or each.field_id in (*range(100, 105), 108, 109, 110, 125, 128, 137, 131)
        ]
        entry = [NestedField(0, "status", IntegerType(), required=True), NestedField(1, "snapshot_id", LongType())]
        if self.version > 1:
            entry += [NestedField(3, "sequence_number", LongType()), NestedField(4, "file_sequence_number", LongType())]
        return Schema(*entry, NestedField(2, "data_file", StructType(*of_file), required=True)), of_file

    def _make_record(self, entry: Entry, of_file: Sequence[Any], snapshot: int) -> Any:
        from pyiceberg.typedef import Record

        known = {
            134: entry.content, 100: entry.path, 101: entry.file_format, 102: Record(*entry.partition),
            103: entry.records, 104: entry.size, 109: entry.metrics.get("values"), 110: entry.metrics.get("nulls"),
            125: entry.metrics.get("lower"), 128: entry.metrics.get("upper"), 131: entry.key,
            137: entry.metrics.get("nans"), 135: entry.equality_ids, 143: entry.referenced, 144: entry.offset,
            145: entry.length, 142: entry.first_row,
        }  # fmt: skip
        file = Record(*[known.get(each.field_id) for each in of_file])
        if self.version == 1:
            return Record(entry.status, snapshot, file)
        return Record(entry.status, snapshot, entry.sequence, entry.sequence, file)

    def _write_list(self, manifests: Sequence[Mapping[str, Any]], snapshot: int) -> str:
        from pyiceberg.avro.file import AvroOutputFile
        from pyiceberg.io.pyarrow import PyArrowFileIO
        from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS
        from pyiceberg.typedef import Record

        path, name = self.place(".avro", "metadata")
        schema = MANIFEST_LIST_FILE_SCHEMAS[self.version]  # type: ignore[index]
        meta = {"snapshot-id": str(snapshot), "parent-snapshot-id": "null", "format-version": str(self.version)}
        with AvroOutputFile(PyArrowFileIO({}).new_output(path), schema, "manifest_file", metadata=meta) as file:
            records = []
            for each in manifests:
                known = {
                    500: each["path"], 501: each["length"], 502: each["spec"], 517: each["content"],
                    515: each["sequence"], 516: 0, 503: each["snapshot"], 504: each["added"], 505: each["existing"],
                    506: each["deleted"], 512: 0, 513: 0, 514: 0, 520: each.get("first_row"),
                }  # fmt: skip
                records.append(Record(*[known.get(one.field_id) for one in schema.fields]))
            file.write_block(records)
        return name


def make_blob(positions: Sequence[int], magic: bytes = b"\xd1\xd3\x39\x64") -> bytes:
    """Return a deletion vector's blob in a Puffin file."""
    from pyroaring import BitMap64

    body = magic + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def with_ids(schema: pa.Schema, ids: Mapping[str, int]) -> pa.Schema:
    """Return a schema with field ids for columns and fields of structs, by their dotted names."""
    return pa.schema([_with_id(each, ids, "") for each in schema])


def _with_id(each: pa.Field, ids: Mapping[str, int], above: str) -> pa.Field:
    name = f"{above}{each.name}"
    kind = each.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_id(part, ids, f"{name}.") for part in kind])
    message = {"PARQUET:field_id": str(ids[name])} if name in ids else None
    return pa.field(each.name, kind, each.nullable, message)


def list_entries(table: Any, content: int) -> list[dict[str, Any]]:
    """Return the live entries of the manifests of a table of pyiceberg's, by the names of their fields.

    pyiceberg's Avro reader reads them by the fields of version 3; `manifest` is the manifest's record in its list.

    Parameters
    ----------
    content : of the manifests: 0 for data files, 1 for delete files.
    """
    from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS

    schema = MANIFEST_ENTRY_SCHEMAS[3]
    names = [each.name for each in schema.fields[-1].field_type.fields]  # type: ignore[union-attr]
    found = []
    for manifest in _read_records(table, table.current_snapshot().manifest_list, MANIFEST_LIST_FILE_SCHEMAS[3]):
        if manifest["content"] == content:
            for entry in _read_records(table, manifest["manifest_path"], schema):
                file = dict(zip(names, entry["data_file"]._data, strict=True))
                found.append({**entry, **file, "manifest": manifest})
    return [entry for entry in found if entry["status"] != 2]


def find_row_ids(table: Any) -> dict[int, int | None]:
    """Return {value of the column `id`: id of the row}, by the specification's rules of inheritance."""
    result: dict[int, int | None] = {}
    following: dict[str, int] = {}
    for entry in list_entries(table, DATA):
        manifest, first = entry["manifest"], entry["first_row_id"]
        if first is None and manifest["first_row_id"] is not None:
            first = following.setdefault(manifest["manifest_path"], manifest["first_row_id"])
            following[manifest["manifest_path"]] += entry["record_count"]
        with table.io.new_input(entry["file_path"]).open() as stream:
            rows = pq.read_table(stream)
        own = rows["_row_id"].to_pylist() if "_row_id" in rows.column_names else [None] * len(rows)
        for row, (value, number) in enumerate(zip(rows["id"].to_pylist(), own, strict=True)):
            result[value] = number if number is not None else None if first is None else first + row
    return result


def _read_records(table: Any, path: str, schema: Any) -> list[dict[str, Any]]:
    from pyiceberg.avro.file import AvroFile

    names = [each.name for each in schema.fields]
    with AvroFile[Any](table.io.new_input(path), schema) as records:
        return [dict(zip(names, record._data, strict=True)) for record in records]
