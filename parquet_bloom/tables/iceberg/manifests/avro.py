"""Read Avro files of Iceberg metadata as columns.

pyiceberg's own decoder makes an object of each value, and trusts the lengths and counts in a file: a few damaged bytes
end the process. Source: Avro specification 1.11, "Object Container Files".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ....core.decode.avro import RecordDecoder, read_block_head
from ....errors import ParquetBloomError, StorageError
from .schema import Node, Wanted, compile_schema

_MAGIC = b"Obj\x01"
_SYNC = 16  # bytes that each block ends with
_ARROW_TYPES = {
    "int": pa.int64(), "long": pa.int64(), "enum": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.large_binary(), "fixed": pa.large_binary(), "string": pa.large_string(),
}  # fmt: skip
_HEADER = {
    "type": "record",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": len(_MAGIC)}, "field-id": 1},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}, "field-id": 2},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": _SYNC}, "field-id": 3},
    ],
}


@dataclass(frozen=True)
class Column:
    """The values of one field in all records.

    Attributes
    ----------
    annotations : the field's type in the Avro schema.
    array : the values: integers as int64, what has bytes by Arrow's large types, arrays as large lists. Of a record,
        its fields in their order.
    fields : of a record, by field id.
    """

    annotations: Mapping[str, Any]
    array: pa.Array
    fields: Mapping[int, Column]


def read_avro(file_io: Any, path: str, name: str, wanted: Wanted, length: int | None = None) -> Column:
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
    with file_io.new_input(path).open() as stream:
        data = bytes(stream.read())
    if length is not None and length != len(data):
        raise ParquetBloomError(f"its file {path} has {len(data)} bytes instead of {length}", path=name)
    try:
        return _read_records(data, wanted)
    except Exception as error:  # of many kinds: the codecs', Arrow's
        raise StorageError.wrap(error, f"its file {path} is malformed or cut short", name) from error


def _read_records(data: bytes, wanted: Wanted) -> Column:
    from pyiceberg.avro.codecs import KNOWN_CODECS

    meta, sync, at = _read_header(data)
    codec_name = meta.get("avro.codec", b"null").decode()
    if codec_name not in KNOWN_CODECS:
        raise ValueError(f"it is compressed by {codec_name!r}, which is not known")
    codec = KNOWN_CODECS[codec_name]
    nodes = compile_schema(json.loads(meta.get("avro.schema", b"")), wanted)
    decoder = RecordDecoder([node.to_tuple() for node in nodes])
    while at < len(data):
        count, begin, end = read_block_head(data, at)
        at = end + _SYNC
        if data[end:at] != sync:
            raise ValueError("a block does not end with the file's marker")
        content = data
        if codec is not None:
            content = codec.decompress(data[begin:end])
            begin, end = 0, len(content)
        if decoder.decode(content, begin, end, count) != end:
            raise ValueError("a block is longer than its records")
    return _make_column(nodes, 0, decoder)


def _read_header(data: bytes) -> tuple[dict[str, bytes], bytes, int]:
    """Return the metadata in a file's header, the marker of its blocks, and where the header ends."""
    nodes = compile_schema(_HEADER, {1: None, 2: None, 3: None})
    decoder = RecordDecoder([node.to_tuple() for node in nodes])
    if not data.startswith(_MAGIC):
        raise ValueError("it is not an Avro file")
    end = decoder.decode(data, 0, len(data), 1)
    header = _make_column(nodes, 0, decoder)
    entries = header.fields[2].array[0].as_py()
    return {each["key"]: each["value"] for each in entries}, header.fields[3].array[0].as_py(), end


def _make_column(nodes: list[Node], index: int, decoder: RecordDecoder) -> Column:
    """Return the values of a node, and of those below it that are kept."""
    node = nodes[index]
    valid, values, ends = decoder.column(index)
    flags = np.frombuffer(valid, np.uint8)
    count = len(flags)
    nulls = None if flags.all() else pa.py_buffer(_pack(flags))
    if node.type == "null":
        return Column(node.annotations, pa.nulls(count), {})
    if node.type == "boolean":
        buffers = [nulls, pa.py_buffer(_pack(np.frombuffer(values, np.uint8) != 0))]
        return Column(node.annotations, pa.Array.from_buffers(pa.bool_(), count, buffers), {})
    if node.type == "array":
        items = _make_column(nodes, node.children[0], decoder).array
        of = pa.large_list(pa.field("item", items.type))
        array = pa.Array.from_buffers(of, count, [nulls, pa.py_buffer(ends)], children=[items])
        return Column(node.annotations, array, {})
    if node.type == "record":
        chosen = [i for i in node.children if nodes[i].is_kept]
        columns = [_make_column(nodes, i, decoder) for i in chosen]
        of = pa.struct([pa.field(nodes[i].name, column.array.type) for i, column in zip(chosen, columns, strict=True)])
        array = pa.Array.from_buffers(of, count, [nulls], children=[column.array for column in columns])
        ids = [nodes[i].field_id for i in chosen]
        return Column(node.annotations, array, {i: one for i, one in zip(ids, columns, strict=True) if i is not None})
    buffers = [nulls, pa.py_buffer(values)]
    if node.type in ("bytes", "fixed", "string"):
        buffers.insert(1, pa.py_buffer(ends))
    array = pa.Array.from_buffers(_ARROW_TYPES[node.type], count, buffers)
    if node.type == "string":
        array.validate(full=True)  # that it is UTF-8
    return Column(node.annotations, array, {})


def _pack(flags: Any) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()
