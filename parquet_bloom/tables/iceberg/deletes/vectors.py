"""Deletion vectors of Iceberg tables of version 3: blobs `deletion-vector-v1` in Puffin files."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from ....errors import ParquetBloomError
from ..manifests.files import DeleteFile
from .roaring import parse_bitmap

_MAGIC = b"\xd1\xd3\x39\x64"
_PUFFIN = b"PFA1"
_FRAME = 12  # bytes: the length and the checksum, both big-endian, and the magic
_OVERHEAD = 200  # bytes, of a bitmap in memory


def read_vector(file_io: Any, file: DeleteFile) -> tuple[Any, int]:
    """Return the positions as a `pyroaring.BitMap64`, and its size in bytes.

    Parameters
    ----------
    file_io : pyiceberg's FileIO.
    file : the vector's entry in a manifest.

    Raises
    ------
    ParquetBloomError
        The vector is damaged.
    Exception
        Of many kinds, from pyiceberg: the file cannot be read.
    """
    offset, size = file.offset, file.length
    if offset is None or size is None or offset < 0 or size < _FRAME:
        raise ParquetBloomError(f"the manifest does not say where in {file.path} the deletion vector lies")
    source = file_io.new_input(file.path)
    if offset + size > len(source):
        raise ParquetBloomError(f"the deletion vector would lie behind the end of {file.path}")
    with source.open() as stream:
        head = stream.read(len(_PUFFIN))
        stream.seek(offset)
        blob = stream.read(size)
    if head != _PUFFIN or len(blob) != size:
        raise ParquetBloomError(f"{file.path} is not a Puffin file, or changes")
    body = blob[4:-4]
    (length,), (checksum,) = struct.unpack(">I", blob[:4]), struct.unpack(">I", blob[-4:])
    if length != len(body) or body[:4] != _MAGIC:
        raise ParquetBloomError(f"the deletion vector in {file.path} has a wrong length or magic")
    if zlib.crc32(body) != checksum:
        raise ParquetBloomError(f"the deletion vector in {file.path} has a wrong checksum")
    try:
        positions = parse_bitmap(body[4:])
    except ValueError as error:
        raise ParquetBloomError(f"the deletion vector in {file.path} is malformed: {error}") from None
    if len(positions) != file.record_count:
        problem = f"has {len(positions)} positions, but by the manifest {file.record_count}"
        raise ParquetBloomError(f"the deletion vector in {file.path} {problem}")
    return positions, size + _OVERHEAD
