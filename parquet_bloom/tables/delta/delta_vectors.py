"""Deletion vectors of a Delta table: the rows of a data file that it has deleted, read and written.

Source: the Delta transaction log protocol, sections "Deletion Vectors" and "Deletion Vector Format".
"""

from __future__ import annotations

import base64
import struct
import threading
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from ...errors import ParquetBloomError
from ...storage import open_source
from ...storage.index_folder import Folder
from ..table_locations import require_inside, resolve_delta_path
from ..table_snapshot import RowNumbers, find_in_bitmap

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

FEATURE = "deletionVectors"
"""The reader feature of tables that have deletion vectors."""

_ADD_FEATURE = "table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)"
_MAGIC = 1681511377
_FILE_VERSION = 1
_LARGEST_BYTES = 1 << 30  # a bitmap of 2**32 rows takes half of it at most
_MOST_ROWS = 1 << 30
_LAST_ROW = (1 << 63) - 2  # positions, and ends of ranges of them, are signed
_ID_LENGTH = 20  # characters of a UUID in Z85

# Z85 in the alphabet of Python's base85, which encodes groups alike.
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85, _TO_Z85 = bytes.maketrans(_Z85, _B85), bytes.maketrans(_B85, _Z85)


Vector = dict[str, str | int]
"""`deletionVector` of an add action."""


@dataclass(frozen=True)
class VectorDescriptor:
    """What an add action says of its deletion vector.

    Attributes
    ----------
    storage : "i" for a vector in the log itself, "u" for a file in the table's folder, "p" for one at a path.
    content : the vector in Z85; the file's UUID in Z85, behind the name of its folder; the file's URI.
    offset : of the vector in the file, in bytes.
    size : length in bytes, without its own length and checksum in a file.
    cardinality : number of deleted rows.
    """

    storage: Literal["i", "u", "p"]
    content: str
    offset: int
    size: int
    cardinality: int

    @classmethod
    def parse(cls, action: object) -> VectorDescriptor:
        """Return the descriptor for `deletionVector` of an add action.

        Raises
        ------
        ParquetBloomError
            It is not understood.
        """
        action = action if isinstance(action, Mapping) else {}
        storage, content = action.get("storageType"), action.get("pathOrInlineDv")
        numbers = action.get("offset") or 0, action.get("sizeInBytes"), action.get("cardinality")
        if storage not in ("i", "u", "p"):
            raise ParquetBloomError(f"its deletion vector is stored as {storage!r}, which is not supported")
        if not isinstance(content, str) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ParquetBloomError("its deletion vector is not described completely")
        offset, size, cardinality = (int(number) for number in numbers if number is not None)
        if size > _LARGEST_BYTES:
            raise ParquetBloomError(f"its deletion vector of {size:,} bytes is too large")
        return cls(storage, content, offset, size, cardinality)


class DeletionVector:
    """The deleted rows of one data file, read when they are first needed; a `table_snapshot.DeletedRows`.

    Parameters
    ----------
    action : `deletionVector` of the file's add action.
    path : the data file, for errors.
    root : the table's folder, or its URL.
    filesystem : what `storage.resolve_filesystem` returns.
    outside : whether the vector may lie outside of the table's folder.
    """

    values = None

    def __init__(
        self, action: object, path: str, root: str, filesystem: FileSystem | None = None, outside: bool = False
    ) -> None:
        self._action = action
        self._where = path, root, filesystem, outside
        self._bitmap: BitMap64 | None = None
        self._lock = threading.Lock()

    def find_positions(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Return those of some rows that are deleted; see `DeletedRows.find_positions`."""
        bitmap = self.read()
        if not isinstance(rows, range):
            return find_in_bitmap(bitmap, rows)
        count = bitmap.range_cardinality(rows.start, rows.stop)
        if count > _MOST_ROWS:
            problem = f"{count:,} of its rows {rows.start:,} to {rows.stop:,} are deleted"
            raise ParquetBloomError(f"{problem}, which is more than a row group has", path=self._where[0])
        # A bitmap of the range, to intersect with, would take memory for all of a range that a footer only claims.
        return np.fromiter(islice(bitmap.iter_equal_or_larger(rows.start), count), np.int64, count)

    def read(self) -> BitMap64:
        """Return all deleted rows.

        Raises
        ------
        ParquetBloomError
            They cannot be determined.
        """
        with self._lock:
            if self._bitmap is None:
                path, root, filesystem, outside = self._where
                try:
                    descriptor = VectorDescriptor.parse(self._action)
                    self._bitmap = read_vector(descriptor, root, filesystem, outside)
                except ParquetBloomError as error:
                    problem = f"its deleted rows cannot be determined: {error}"
                    raise ParquetBloomError(problem, path=path) from error
            return self._bitmap

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._action, *self._where)


@dataclass(frozen=True)
class UndeclaredVector:
    """A deletion vector in a table whose protocol lacks the feature, so that readers differ about the file's rows.

    Attributes
    ----------
    path : the data file.
    root : the table's folder, or its URL.
    """

    path: str
    root: str
    values: ClassVar[None] = None

    def find_positions(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Raise ParquetBloomError: some readers apply such a vector, others show the rows."""
        problem = f"the log of {self.root} gives it a deletion vector, but the table lacks the feature '{FEATURE}'"
        way_out = f"its rows are not shown, as readers differ about them: add the feature (deltalake: {_ADD_FEATURE})"
        raise ParquetBloomError(f"{problem}; {way_out}", path=self.path)


def read_vector(
    descriptor: VectorDescriptor, root: str, filesystem: FileSystem | None = None, outside: bool = False
) -> BitMap64:
    """Read and check a deletion vector.

    Parameters
    ----------
    descriptor, root, filesystem, outside : as for `DeletionVector`.

    Raises
    ------
    StorageError
        Its file is missing or cannot be read.
    ParquetBloomError
        It is damaged, not as the log describes it, or outside of the table's folder.
    """
    if descriptor.storage == "i":
        data, path = decode_z85(descriptor.content)[: descriptor.size], None
        if len(data) != descriptor.size:
            raise ParquetBloomError("the vector in the log is cut short")
    else:
        path = resolve_vector_path(descriptor, root)
        if not outside:
            require_inside([path], root)
        data = _read_stored(path, descriptor, filesystem)
    try:
        (magic,) = struct.unpack_from("<i", data)
        if magic != _MAGIC:
            raise ParquetBloomError(f"it is a bitmap of format {magic}, which is not supported", path=path)
        bitmap = BitMap64.deserialize(data[4:])
    except (struct.error, ValueError, IndexError) as error:
        raise ParquetBloomError(f"the bitmap is damaged: {error}", path=path) from None
    if bitmap and bitmap.max() > _LAST_ROW:
        raise ParquetBloomError(f"the bitmap has the row {bitmap.max():,}, which no file has", path=path)
    if len(bitmap) != descriptor.cardinality:
        problem = f"the bitmap has {len(bitmap):,} rows, and {descriptor.cardinality:,} by the log"
        raise ParquetBloomError(problem, path=path)
    return bitmap


def resolve_vector_path(descriptor: VectorDescriptor, root: str) -> str:
    """Return the path or URL of a vector's file; raise ParquetBloomError if it cannot be resolved."""
    content = descriptor.content
    if descriptor.storage == "p":
        path = resolve_delta_path(content, None)
        if not path:
            raise ParquetBloomError(f"it has a file {content!r}, whose location cannot be resolved")
        return path
    prefix, name = content[:-_ID_LENGTH], decode_z85(content[-_ID_LENGTH:])
    if len(name) != 16 or (prefix and any(part in ("", ".", "..") or "\0" in part for part in prefix.split("/"))):
        raise ParquetBloomError(f"it has a vector {content!r}, which is not the name of a file")
    parts = [root.rstrip("/"), *([prefix] if prefix else []), name_vector_file(uuid.UUID(bytes=name))]
    return "/".join(parts)


def decode_z85(text: str) -> bytes:
    """Decode base85 in the alphabet of ZeroMQ; raise ParquetBloomError if it is not that."""
    try:
        coded = text.encode("ascii")
        if len(coded) % 5 or coded.translate(None, _Z85):
            raise ValueError
        return base64.b85decode(coded.translate(_TO_B85))
    except ValueError:
        raise ParquetBloomError(f"{text[:40]!r} is not Z85") from None


def _read_stored(path: str, descriptor: VectorDescriptor, filesystem: FileSystem | None) -> bytes:
    """Return the bytes of a vector in a file, after checking its version, length and checksum."""
    size, offset = descriptor.size, descriptor.offset
    with open_source(path, filesystem) as source:
        version, stored = source.read_ranges([(0, 1), (offset, size + 8)])
    if version[0] != _FILE_VERSION:
        raise ParquetBloomError(f"it is a vector file of version {version[0]}, which is not supported", path=path)
    (length,), (checksum,) = struct.unpack_from(">i", stored), struct.unpack_from(">I", stored, size + 4)
    data = stored[4 : size + 4]
    if length != size:
        raise ParquetBloomError(f"the vector has {length} bytes, and {size} by the log", path=path)
    if zlib.crc32(data) != checksum:
        raise ParquetBloomError("the vector is damaged: its checksum differs", path=path)
    return data


class VectorFile(NamedTuple):
    """A new file of deletion vectors, of a size in bytes, and how add actions describe these."""

    path: str
    size: int
    described: Sequence[Vector]


def write_vectors(root: str, filesystem: FileSystem | None, name: uuid.UUID, vectors: Sequence[BitMap64]) -> VectorFile:
    """Write deletion vectors into one new file in a table's folder.

    Parameters
    ----------
    name : of the file; see `name_vector_file`.
    vectors : none of them empty.

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    described: list[Vector] = []
    content = base64.b85encode(name.bytes).translate(_TO_Z85).decode("ascii")
    folder = Folder(root, filesystem)
    with folder.create(name_vector_file(name), new=True) as new:
        new.write(bytes([_FILE_VERSION]))
        for vector in vectors:
            data = struct.pack("<i", _MAGIC) + vector.serialize()
            described.append({
                "storageType": "u",
                "pathOrInlineDv": content,
                "offset": new.tell(),
                "sizeInBytes": len(data),
                "cardinality": len(vector),
            })  # fmt: skip
            new.write(struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
        size = new.tell()
        new.commit()
    return VectorFile(folder.path_of(name_vector_file(name)), size, described)


def name_vector_file(name: uuid.UUID) -> str:
    """Return the name of a file of vectors in the table's folder."""
    return f"deletion_vector_{name}.bin"
