"""Read Avro files of Iceberg metadata as columns.

pyiceberg's own decoder makes an object of each value, and trusts the lengths and counts in a file: a few damaged bytes
end the process. Source: Avro specification 1.11, "Object Container Files".
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.decode.avro import TYPES, RecordDecoder, read_block_head
from ...errors import ParquetBloomError, StorageError
from ...util.lazy import late_module

if TYPE_CHECKING:
    import pyiceberg.avro.codecs as codecs
    from pyiceberg.io import FileIO
else:
    codecs = late_module("pyiceberg.avro.codecs")

Wanted: TypeAlias = "Mapping[int, Wanted | None]"
"""The fields of a record to read, by field id, and which parts of them; None for all."""

SKIPPED, DECODED, STORED = 0, 1, 2  # STORED are the bytes of a value, as they are

_MOST_NODES = 10_000
_NAMED = ("record", "fixed", "enum")
_BY_NAME_ONLY = ("record", "fixed", "enum", "array", "map")


@dataclass(frozen=True)
class AvroNode:
    """A type in a schema, with what the schema says of it.

    Attributes
    ----------
    annotations : the schema of the type, such as its logical type.
    null_branch : which branch of a union null is; -1 for a type without null.
    keeps : what is read of its values: SKIPPED, DECODED or STORED.
    field_id, name : of the field of a record; None and "" for others.
    children : the nodes of the fields, or of the items.
    """

    type: str
    annotations: Mapping[str, object]
    null_branch: int
    keeps: int
    field_id: int | None
    name: str
    children: range

    def to_tuple(self) -> tuple[int, int, int, int, int, int]:
        """Return the node as the decoder takes it."""
        size = self.annotations.get("size") if self.type == "fixed" else 0
        if type(size) is not int or not 0 <= size < 1 << 31:
            raise ValueError(f"its schema has a fixed type of {size!r} bytes")
        kind = TYPES[self.type]
        return kind, self.null_branch, self.keeps, size, self.children.start, len(self.children)


def compile_schema(schema: object, wanted: Wanted) -> list[AvroNode]:
    """Return the types in a schema: the records' first, the children of each side by side and after it.

    Raises
    ------
    ValueError
        It is not an Avro schema of records, or has unions of several types, as no Iceberg metadata has.
    """
    named = _find_named(schema)
    nodes: list[AvroNode] = []
    pending: deque[tuple[object, Wanted | None, bool, int | None, str]] = deque([(schema, wanted, True, None, "")])
    while pending:
        given, parts, is_kept, field_id, name = pending.popleft()
        kind, annotations, null_branch = _resolve(given, named)
        below = _list_parts(kind, annotations)
        end = len(nodes) + 1 + len(pending)
        keeps = DECODED if is_kept else SKIPPED
        nodes.append(AvroNode(kind, annotations, null_branch, keeps, field_id, name, range(end, end + len(below))))
        if end + len(below) > _MOST_NODES:
            raise ValueError(f"its schema has more than {_MOST_NODES:,} types, or one that contains itself")
        for part, part_id, part_name in below:
            chosen = is_kept and (parts is None or part_id in parts)
            pending.append((part, parts.get(part_id) if parts and part_id else None, chosen, part_id, part_name))
    return nodes


def _list_parts(kind: str, annotations: Mapping[str, object]) -> list[tuple[object, int | None, str]]:
    """Return schema, field id and name of the parts of a type."""
    if kind == "array":
        return [(annotations.get("items"), None, "")]
    if kind != "record":
        return []
    fields = annotations.get("fields")
    if not isinstance(fields, list) or not all(isinstance(each, dict) for each in fields):
        raise ValueError("its schema has a record without fields")
    ids = [each.get("field-id") for each in fields]
    numbers = [number if type(number) is int else None for number in ids]
    return [(each.get("type"), number, str(each.get("name", ""))) for each, number in zip(fields, numbers, strict=True)]


def _resolve(schema: object, named: Mapping[str, object]) -> tuple[str, Mapping[str, object], int]:
    """Return the type that a schema is of, its annotations, and which branch of a union null is."""
    null_branch = -1
    if isinstance(schema, list):
        if len(schema) == 2 and "null" in schema:
            null_branch = schema.index("null")
        elif len(schema) != 1:
            raise ValueError("its schema has a union of several types")
        schema = schema[1 - null_branch if null_branch >= 0 else 0]
    while isinstance(schema, dict) and isinstance(schema.get("type"), dict):
        schema = schema["type"]
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    annotations: Mapping[str, object] = schema if isinstance(schema, dict) else {"type": schema}
    kind = annotations.get("type")
    if kind == "map":
        return "array", _as_entries(annotations), null_branch
    if not isinstance(kind, str) or kind not in TYPES or (isinstance(schema, str) and kind in _BY_NAME_ONLY):
        raise ValueError(f"its schema has a type {str(kind)[:100]!r}")
    return kind, annotations, null_branch


def _as_entries(annotations: Mapping[str, object]) -> dict[str, object]:
    """Return a map as the array of records that it is stored as."""
    fields = [{"name": "key", "type": "string"}, {"name": "value", "type": annotations.get("values")}]
    return {"type": "array", "items": {"type": "record", "fields": fields}}


def _find_named(schema: object) -> dict[str, object]:
    """Return the types that a schema names, which may be used again by their names."""
    named: dict[str, object] = {}
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("type") in _NAMED and isinstance(part.get("name"), str):
                named.setdefault(part["name"], part)
                if isinstance(part.get("namespace"), str):
                    named.setdefault(f"{part['namespace']}.{part['name']}", part)
            pending.extend(value for value in part.values() if isinstance(value, dict | list))
        elif isinstance(part, list):
            pending.extend(value for value in part if isinstance(value, dict | list))
    return {name: part for name, part in named.items() if name not in TYPES and name != "map"}


AVRO_MAGIC = b"Obj\x01"
SYNC_BYTES = 16  # bytes that each block ends with
_ARROW_TYPES = {
    "int": pa.int64(), "long": pa.int64(), "enum": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.large_binary(), "fixed": pa.large_binary(), "string": pa.large_string(),
}  # fmt: skip
_HEADER = {
    "type": "record",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(AVRO_MAGIC)}, "field-id": 1},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}, "field-id": 2},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": SYNC_BYTES}, "field-id": 3},
    ],
}


@dataclass(frozen=True)
class AvroColumn:
    """The values of one field in all records.

    Attributes
    ----------
    annotations : the field's type in the Avro schema.
    array : the values: integers as int64, what has bytes by Arrow's large types, arrays as large lists. Of a record,
        its fields in their order.
    fields : of a record, by field id.
    """

    annotations: Mapping[str, object]
    array: pa.Array
    fields: Mapping[int, AvroColumn]


def read_avro(file_io: FileIO, path: str, name: str, wanted: Wanted, length: int | None = None) -> AvroColumn:
    """Return the records of an Avro file.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    path : the file.
    name : of the table, for errors.
    wanted : the fields to read; those that the file lacks are not in the result.
    length : bytes of the file, if known.

    Raises
    ------
    StorageError
        The file is cut short or malformed.
    ParquetBloomError
        It has another length.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read.
    """
    data = read_bytes(file_io, path, name, length)
    with named_damage(path, name):
        return read_records(data, wanted)


def read_bytes(file_io: FileIO, path: str, name: str, length: int | None = None) -> bytes:
    """Return the content of a file; parameters and errors as of `read_avro`."""
    with file_io.new_input(path).open() as stream:
        data = bytes(stream.read())
    if length is not None and length != len(data):
        raise ParquetBloomError(f"its file {path} has {len(data)} bytes instead of {length}", path=name)
    return data


@contextmanager
def named_damage(path: str, name: str) -> Iterator[None]:
    """Raise whatever a damaged file makes raise as StorageError with its path."""
    try:
        yield
    except Exception as error:  # of many kinds: the codecs', Arrow's
        raise StorageError.wrap(error, f"its file {path} is malformed or cut short", name) from error


def read_records(data: bytes, wanted: Wanted) -> AvroColumn:
    """Return the records in an Avro file's content; raises errors of many kinds if it is malformed."""
    header = read_header(data)
    nodes = compile_schema(json.loads(header.meta.get("avro.schema", b"")), wanted)
    return _make_column(nodes, 0, decode_records(data, header, nodes))


def decode_records(data: bytes, header: AvroHeader, nodes: Sequence[AvroNode]) -> RecordDecoder:
    """Decode the records in an Avro file's content; raises errors of many kinds if it is malformed."""
    meta, sync, at = header
    codec_name = meta.get("avro.codec", b"null").decode()
    if codec_name not in codecs.KNOWN_CODECS:
        raise ValueError(f"it is compressed by {codec_name!r}, which is not known")
    codec = codecs.KNOWN_CODECS[codec_name]
    decoder = RecordDecoder([node.to_tuple() for node in nodes])
    while at < len(data):
        count, begin, end = read_block_head(data, at)
        at = end + SYNC_BYTES
        if data[end:at] != sync:
            raise ValueError("a block does not end with the file's marker")
        content = data
        if codec is not None:
            content = codec.decompress(data[begin:end])
            begin, end = 0, len(content)
        if decoder.decode(content, begin, end, count) != end:
            raise ValueError("a block is longer than its records")
    return decoder


class AvroHeader(NamedTuple):
    """The metadata in a file's header, the marker of its blocks, and where the header ends."""

    meta: dict[str, bytes]
    sync: bytes
    end: int


@cache
def _compile_header() -> list[AvroNode]:
    return compile_schema(_HEADER, {1: None, 2: None, 3: None})


def read_header(data: bytes) -> AvroHeader:
    """Read the header in an Avro file's content; raises errors of many kinds if it is malformed."""
    nodes = _compile_header()
    decoder = RecordDecoder([node.to_tuple() for node in nodes])
    if not data.startswith(AVRO_MAGIC):
        raise ValueError("it is not an Avro file")
    end = decoder.decode(data, 0, len(data), 1)
    header = _make_column(nodes, 0, decoder)
    entries = header.fields[2].array[0].as_py()
    meta = {each["key"]: each["value"] for each in entries}
    return AvroHeader(meta, header.fields[3].array[0].as_py(), end)


def _make_column(nodes: list[AvroNode], index: int, decoder: RecordDecoder) -> AvroColumn:
    """Return the values of a node, and of those below it that are kept."""
    node = nodes[index]
    valid, values, ends = decoder.column(index)
    flags = np.frombuffer(valid, np.uint8)
    count = len(flags)
    nulls = None if flags.all() else pa.py_buffer(_pack(flags))
    if node.type == "null":
        return AvroColumn(node.annotations, pa.nulls(count), {})
    if node.type == "boolean":
        buffers = [nulls, pa.py_buffer(_pack(np.frombuffer(values, np.uint8) != 0))]
        return AvroColumn(node.annotations, pa.Array.from_buffers(pa.bool_(), count, buffers), {})
    if node.type == "array":
        items = _make_column(nodes, node.children[0], decoder).array
        of = pa.large_list(pa.field("item", items.type))
        array = pa.Array.from_buffers(of, count, [nulls, pa.py_buffer(ends)], children=[items])
        return AvroColumn(node.annotations, array, {})
    if node.type == "record":
        chosen = [i for i in node.children if nodes[i].keeps]
        columns = [_make_column(nodes, i, decoder) for i in chosen]
        of = pa.struct([pa.field(nodes[i].name, column.array.type) for i, column in zip(chosen, columns, strict=True)])
        array = pa.Array.from_buffers(of, count, [nulls], children=[column.array for column in columns])
        ids = [nodes[i].field_id for i in chosen]
        return AvroColumn(
            node.annotations, array, {i: column for i, column in zip(ids, columns, strict=True) if i is not None}
        )
    buffers = [nulls, pa.py_buffer(values)]
    if node.type in ("bytes", "fixed", "string"):
        buffers.insert(1, pa.py_buffer(ends))
    array = pa.Array.from_buffers(_ARROW_TYPES[node.type], count, buffers)
    if node.type == "string":
        array.validate(full=True)  # that it is UTF-8
    return AvroColumn(node.annotations, array, {})


def _pack(flags: NDArray[np.uint8] | NDArray[np.bool_]) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()
