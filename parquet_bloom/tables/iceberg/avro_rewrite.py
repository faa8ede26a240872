"""Write an Avro file of Iceberg metadata anew: fields that do not change keep their bytes, whatever they mean.

So nothing is lost that a reader does not know or would round, such as the fields of later versions of the format.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .avro_files import (
    AVRO_MAGIC,
    DECODED,
    STORED,
    SYNC_BYTES,
    AvroColumn,
    AvroNode,
    Wanted,
    compile_schema,
    decode_records,
    read_bytes,
    read_header,
    read_records,
)

if TYPE_CHECKING:
    from pyiceberg.io import FileIO, OutputFile

_BLOCK_BYTES = 1 << 20  # of records, before they are compressed


@dataclass(frozen=True)
class _Field:
    """A field of the records, or of the record among their fields that is taken apart.

    Attributes
    ----------
    type : the index of its node.
    values : its bytes in each record; None for a field that the file has not.
    """

    field_id: int | None
    type: int
    values: Sequence[bytes] | None


class StoredRecords:
    """The records of an Avro file, field by field as they are stored.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    path : the file.
    name : of the table, for errors.
    length : bytes of the file, if known.
    record : the field id of a record among the fields that is taken apart into its own; None for none.

    Raises
    ------
    ParquetBloomError
        It has another length.
    Exception
        Of many kinds: the file cannot be read, or is malformed.
    """

    def __init__(self, file_io: FileIO, path: str, name: str, length: int | None = None, record: int | None = None):
        self._data = read_bytes(file_io, path, name, length)
        self._header = read_header(self._data)
        self._meta = self._header.meta
        self._schema: dict[str, Any] = json.loads(self._meta["avro.schema"])
        self._record = record
        self._nodes = compile_schema(self._schema, {})
        self._is_changed = False
        self._fields: list[_Field] = []
        self._end = 0  # of the fields of the record that is taken apart
        self._list_fields()

    def decode(self, wanted: Wanted) -> AvroColumn:
        """Return values, as `read_avro` does."""
        return read_records(self._data, wanted)

    @property
    def schema(self) -> str:
        """Of the records, as it would be written: those of files of the same one may be written into one file."""
        return json.dumps(self._schema)

    def has_field(self, field_id: int) -> bool:
        """Return whether the records have a field, by its id."""
        return any(each.field_id == field_id for each in self._fields)

    def add_field(self, field_id: int, name: str, kind: str, *, nullable: bool, inside: bool = False) -> None:
        """Add a field that the file has not, as the last one; a field that is there is left.

        Parameters
        ----------
        kind : "int", "long" or "string".
        inside : add it to the record that is taken apart, and not to the records themselves.
        """
        if self.has_field(field_id):
            return
        written: dict[str, Any] = {"name": name, "type": ["null", kind] if nullable else kind, "field-id": field_id}
        if nullable:
            written["default"] = None
        self._find_record(inside)["fields"].append(written)
        self._nodes.append(AvroNode(kind, {"type": kind}, 0 if nullable else -1, DECODED, field_id, name, range(0)))
        place = len(self._fields) if not inside else self._end
        self._fields.insert(place, _Field(field_id, len(self._nodes) - 1, None))
        self._end += inside
        self._is_changed = True

    def encode(self, row: int, changes: Mapping[int, object]) -> bytes:
        """Return the bytes of a record with other values in some fields.

        Parameters
        ----------
        changes : {field id: value}; those of fields that there are not are left out. An array is a list, a record in
            it a dictionary.

        Raises
        ------
        ValueError
            A field cannot have the value.
        """
        parts = []
        for each in self._fields:
            if each.field_id is not None and each.field_id in changes:
                parts.append(self._encode_value(each.type, changes[each.field_id]))
            elif each.values is not None:
                parts.append(each.values[row])
            else:
                parts.append(self._encode_value(each.type, None))
        return b"".join(parts)

    def write(self, output: OutputFile, records: Sequence[bytes], meta: Mapping[str, str]) -> int:
        """Write a file of the same schema and metadata, and return its number of bytes.

        Parameters
        ----------
        output : pyiceberg's.
        meta : other values in the metadata of the file's header.
        """
        kept = dict(self._meta)
        if self._is_changed:
            kept.pop("iceberg.schema", None)
        kept |= {key: value.encode() for key, value in meta.items()}
        kept |= {"avro.codec": b"deflate", "avro.schema": self.schema.encode()}
        sync = os.urandom(SYNC_BYTES)
        entries = b"".join(_encode_bytes(key.encode()) + _encode_bytes(value) for key, value in kept.items())
        part = AVRO_MAGIC + _encode_long(len(kept)) + entries + _encode_long(0) + sync
        size = len(part)
        with output.create(overwrite=True) as stream:
            stream.write(part)
            for block in _split(records):
                packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
                content = packer.compress(b"".join(block)) + packer.flush()
                part = _encode_long(len(block)) + _encode_bytes(content) + sync
                stream.write(part)
                size += len(part)
        return size

    def _list_fields(self) -> None:
        """Fill `_fields`, in the order in which their bytes follow each other."""
        order: list[int] = []
        for index in self._nodes[0].children:
            node = self._nodes[index]
            if self._record is None or node.field_id != self._record:
                order.append(index)
                continue
            if node.type != "record" or node.null_branch >= 0:
                raise ValueError(f"its field {node.name} is not a record")
            self._nodes[index] = replace(node, keeps=DECODED)
            order += node.children
            self._end = len(order)
        for index in order:
            self._nodes[index] = replace(self._nodes[index], keeps=STORED)
        decoder = decode_records(self._data, self._header, self._nodes)
        for index in order:
            _, values, ends = decoder.column(index)
            places = memoryview(ends).cast("q")
            parts = [values[begin:end] for begin, end in pairwise(places)]
            self._fields.append(_Field(self._nodes[index].field_id, index, parts))

    def _find_record(self, inside: bool) -> dict[str, Any]:
        if not inside:
            return self._schema
        found: Any = next(each["type"] for each in self._schema["fields"] if each.get("field-id") == self._record)
        while isinstance(found, dict) and isinstance(found.get("type"), dict):
            found = found["type"]
        if not isinstance(found, dict):
            raise ValueError(f"its schema has a record by the name {found!r}")
        return found

    def _encode_value(self, index: int, value: Any) -> bytes:
        node = self._nodes[index]
        branch = b""
        if node.null_branch >= 0:
            branch = _encode_long(node.null_branch if value is None else 1 - node.null_branch)
            if value is None:
                return branch
        elif value is None:
            raise ValueError(f"its field {node.name} has no null")
        if node.type in ("int", "long"):
            return branch + _encode_long(value)
        if node.type == "string":
            return branch + _encode_bytes(value.encode())
        if node.type == "bytes":
            return branch + _encode_bytes(value)
        if node.type == "record":
            children = (self._encode_value(child, value[self._nodes[child].name]) for child in node.children)
            return branch + b"".join(children)
        if node.type == "array":
            items = b"".join(self._encode_value(node.children[0], item) for item in value)
            return branch + (_encode_long(len(value)) + items if value else b"") + _encode_long(0)
        raise ValueError(f"its field {node.name} is of the type {node.type!r}")


def _split(records: Sequence[bytes]) -> list[list[bytes]]:
    """Return records in blocks of some size."""
    blocks: list[list[bytes]] = []
    free = 0
    for record in records:
        if free < len(record) or not blocks:
            blocks.append([])
            free = _BLOCK_BYTES
        blocks[-1].append(record)
        free -= len(record)
    return blocks


def _encode_long(number: int) -> bytes:
    bits = (number << 1) ^ (number >> 63)
    result = bytearray()
    while bits >= 0x80:
        result.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes((*result, bits))


def _encode_bytes(data: bytes) -> bytes:
    return _encode_long(len(data)) + data
