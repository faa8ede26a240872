"""Parts of an index: the hashes of a column in some files, stored in one immutable file.

A part's file consists of sections, followed by a footer in JSON with the offsets of the sections and the part's
metadata. The last 20 bytes are the footer's length (uint32), its XXH64 (uint64) and the magic, all little-endian.
"""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_one
from ..errors import BrokenIndexError, ParquetBloomError
from ..storage import Entry, Rewrite, Source, create, open_source
from . import json_checks as strict

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

MAGIC = b"PBLAKE01"
_TAIL = struct.Struct("<IQ8s")
_MAX_FOOTER_BYTES = 1 << 20

END_BYTES = 64 * 1024
"""Bytes at the end of a remote part that are read and cached when it is opened; they may hold all of a small part."""


class Section(NamedTuple):
    """Location of a section in its file; `checksum`: XXH64 of its bytes, None where its contents have checksums."""

    offset: int
    length: int
    checksum: int | None


def _section(offset: object, length: object, checksum: object) -> Section:
    """Read a section's location from a footer; raise ValueError if it is invalid."""
    unchecked = checksum is None
    return Section(strict.number(offset), strict.number(length), None if unchecked else strict.number(checksum))


class SectionWriter:
    """Writes a part's file: sections in turn, then `finish`, which creates the file; after an error there is none.

    Parameters
    ----------
    path, filesystem : the file.
    """

    def __init__(self, path: str, filesystem: FileSystem | None = None):
        self._rewrite: Rewrite = create(path, filesystem)
        self._sections: dict[str, Section] = {}
        self._open: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        self._rewrite.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rewrite.__exit__(kind, error, trace)

    def begin(self, name: str) -> None:
        """Begin a section that is written incrementally, and whose contents have checksums."""
        self._end()
        self._open = name, self._rewrite.tell()

    def write(self, data: bytes | memoryview | NDArray[np.uint8]) -> None:
        """Append to the current section."""
        self._rewrite.write(data)

    def add(self, name: str, data: bytes | memoryview | NDArray[np.uint8]) -> None:
        """Write a complete section, with its checksum."""
        self._end()
        self._sections[name] = Section(
            self._rewrite.tell(), len(data) if isinstance(data, bytes) else data.nbytes, hash_one(data)
        )
        self._rewrite.write(data)

    def finish(self, kind: str, meta: Mapping[str, object]) -> int:
        """Write the footer with `kind` and `meta` (JSON), and publish the file. Return its length in bytes."""
        self._end()
        footer = json.dumps({"kind": kind, "meta": dict(meta), "sections": self._sections}).encode()
        self._rewrite.write(footer)
        self._rewrite.write(_TAIL.pack(len(footer), hash_one(footer), MAGIC))
        self._rewrite.commit()
        return self._rewrite.tell()

    def _end(self) -> None:
        if self._open is not None:
            name, start = self._open
            self._sections[name] = Section(start, self._rewrite.tell() - start, None)
            self._open = None


class Sections:
    """An opened part's file.

    Parameters
    ----------
    path, filesystem : the file.
    kind : expected kind of the part.
    entry : entry of the file in a listing, if there is one.
    end_bytes : number of last bytes to read at once: the footer, and sections that are needed right away.

    Attributes
    ----------
    source : the file.
    meta : metadata from the footer.

    Raises
    ------
    BrokenIndexError
        It is not a file of this kind, or is damaged.
    StorageError
        It cannot be read.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        filesystem: FileSystem | None = None,
        entry: Entry | None = None,
        end_bytes: int = 0,
    ):
        self.source: Source = open_source(path, filesystem, entry)
        try:
            self._keep_end(end_bytes)
            footer = self._footer()
            if footer["kind"] != kind:
                raise BrokenIndexError(f"it is a {footer['kind']!r} part, not a {kind!r} one")
            self.meta: Mapping[str, object] = strict.fields(footer["meta"])
            self._sections = {
                name: _section(*strict.items(section)) for name, section in strict.fields(footer["sections"]).items()
            }
            for name, section in self._sections.items():
                if not (
                    section.offset >= 0 and section.length >= 0 and section.offset + section.length <= self.source.size
                ):
                    raise BrokenIndexError(f"section '{name}' is said to lie outside of the file")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self.source.close()
            if isinstance(error, ParquetBloomError):
                error.path = error.path or path
                raise
            raise BrokenIndexError(f"its footer cannot be understood: {error}", path=path) from error
        except BaseException:
            self.source.close()
            raise

    def _keep_end(self, length: int) -> None:
        """Fetch the end of a remote file at once, unless opening it did."""
        source = self.source
        length = min(source.size, length)
        if source.path is None and length > len(source.kept[0]):
            source.keep(source.size - length, source.read_at(source.size - length, length))

    def let_go_of_end(self, most_bytes: int) -> None:
        """Drop the cached end of the file if it is larger than `most_bytes`."""
        if len(self.source.kept[0]) > most_bytes:
            self.source.keep(0, b"")

    def _footer(self) -> Mapping[str, object]:
        size = self.source.size
        if size < _TAIL.size:
            raise BrokenIndexError(f"it has {size} bytes, too few for a part of an index")
        end = self.source.read_at(size - _TAIL.size, _TAIL.size)
        length, checksum, magic = _TAIL.unpack(end)
        if magic != MAGIC:
            raise BrokenIndexError("it does not end as a part of an index does")
        if length > min(_MAX_FOOTER_BYTES, size - _TAIL.size):
            raise BrokenIndexError(f"its footer is said to have {length} bytes")
        footer = self.source.read_at(size - _TAIL.size - length, length)
        if hash_one(footer) != checksum:
            raise BrokenIndexError("its footer does not fit its checksum")
        return strict.fields(json.loads(footer))

    def section(self, name: str) -> Section:
        """Return the location of a section; raise BrokenIndexError if there is none of the name."""
        if name not in self._sections:
            raise BrokenIndexError(f"it has no section '{name}'", path=self.source.name)
        return self._sections[name]

    def read(self, name: str) -> bytes:
        """Read a complete section and verify its checksum.

        Raises
        ------
        BrokenIndexError
            There is no such section, or it is damaged.
        """
        section = self.section(name)
        data = self.source.read_at(section.offset, section.length)
        if section.checksum is not None and hash_one(data) != section.checksum:
            raise BrokenIndexError(f"section '{name}' does not fit its checksum", path=self.source.name)
        return data

    def close(self) -> None:
        self.source.close()


@dataclass(frozen=True)
class PartInfo:
    """Entry of a part in the manifest.

    Attributes
    ----------
    name : name of its file.
    num_bytes : the file's length.
    num_entries : (value, unit) pairs in it.
    first, last : range of the hashes that it covers (both included).
    """

    name: str
    num_bytes: int
    num_entries: int
    first: int = 0
    last: int = 2**64 - 1


@dataclass
class PartMatches:
    """Units in a part that match some hashes.

    Attributes
    ----------
    queries : intp, the position of the queried hash of each match, ascending.
    units : uint32, of the same length: a unit that may hold the hash. Ascending within a query, each once.
    unknown : {position of a queried hash: reason why its units are unknown}; it may be in every unit.
    requests, bytes_read : cost of the query.
    """

    queries: NDArray[np.intp]
    units: NDArray[np.uint32]
    unknown: dict[int, str] = field(default_factory=dict)
    requests: int = 0
    bytes_read: int = 0


class PartWriter(ABC):
    """Builds a part from the hashes of units (files, or row groups of files), added in the order of unit numbers."""

    @abstractmethod
    def add(self, unit: int, hashes: NDArray[np.uint64]) -> None:
        """Add distinct hashes of a unit, in any order; units are added in ascending order, and may be repeated."""

    @abstractmethod
    def finish(self, num_units: int) -> PartInfo:
        """Write the part's file; `num_units` is the number of units, with and without values."""

    @abstractmethod
    def close(self) -> None:
        """Free memory and temporary files; may be called again, and without `finish`."""


class PartReader(ABC):
    """Finds units in a part's file. Thread-safe."""

    _source: Source

    @property
    def cost(self) -> tuple[int, int]:
        """Range reads of the file since it was opened, and their bytes."""
        return self._source.requests, self._source.bytes_read

    @abstractmethod
    def find(self, hashes: NDArray[np.uint64]) -> PartMatches:
        """Return the units that may hold each hash. A damaged file raises no error: see `PartMatches`."""

    def find_one(self, h: int) -> PartMatches:
        """Return the units that may hold a single hash; see `find`."""
        return self.find(np.array([h], np.uint64))

    @abstractmethod
    def check(self) -> Iterator[str]:
        """Read the complete part and yield its problems, one line each."""

    @abstractmethod
    def expected_false(self) -> float:
        """Return the expected number of false candidate units for an absent value."""

    @abstractmethod
    def close(self) -> None: ...
