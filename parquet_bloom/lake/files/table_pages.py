"""File tables of very many files, in pages: a lookup reads only the pages of the files that it returns.

The file consists of concatenated Arrow IPC files, each with some rows of the table, then a directory in JSON that
says where each begins. The last 20 bytes are the directory's length (uint32), its XXH64 (uint64) and the magic.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...core.hash.xxh64 import hash_one
from ...errors import BrokenIndexError, first_line
from ...storage import Rewrite, Source
from ...util.threads import can_use_arrow_threads
from ..parts import json_checks as strict

MAGIC = b"PBFILES2"
PAGE_ROWS = 4096
MANY_FILES = 2 * PAGE_ROWS
"""Tables of more files than this are written in pages."""

_TAIL = struct.Struct("<IQ8s")
_END_BYTES = 64 * 1024
_WORTH_THREADS = 1 << 20  # bytes of a table: below, starting threads takes longer than decompressing


class _Page(NamedTuple):
    """Location of a page in its file, its checksum, and its number of rows."""

    offset: int
    length: int
    checksum: int
    rows: int


class FilePages:
    """Pages of a table in an opened file. Thread-safe.

    Parameters
    ----------
    source : the file, which stays open while pages are read.

    Attributes
    ----------
    num_files, num_units : number of files and units of the table.
    units_a_file : units per file, if all files have equally many; else 0.
    constants : {column: value} of columns with one value in all rows.
    header : the segment's, see `segment_header`; None in tables of earlier versions.

    Raises
    ------
    BrokenIndexError
        It is not such a file, or its directory is damaged.
    StorageError
        It cannot be read.
    """

    def __init__(self, source: Source):
        self.source = source
        directory = self._read_directory()
        try:
            self._pages = [_Page(*map(strict.number, page)) for page in strict.items(directory["pages"])]
            self.num_files, self.num_units, self.units_a_file = (
                strict.number(directory[name]) for name in ("files", "units", "units_a_file")
            )
            constants = strict.fields(directory["constants"])
            self.header = None if "segment" not in directory else strict.fields(directory["segment"])
            self.constants = {name: strict.number(value, 2**16) - 1 for name, value in constants.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BrokenIndexError(f"its directory cannot be understood: {error}", path=source.name) from error
        self._ends = np.cumsum([page.rows for page in self._pages], dtype=np.int64)
        end = 0
        for page in self._pages:
            if page.offset != end or page.rows < 1:
                raise BrokenIndexError("its pages do not follow one another", path=source.name)
            end += page.length
        fits = int(self._ends[-1]) if self._pages else 0
        if end > source.size or fits != self.num_files:
            raise BrokenIndexError("its directory contradicts itself", path=source.name)

    @classmethod
    def open(cls, source: Source) -> FilePages | None:
        """Open the pages of a file; None if it is a table in one piece. Raises as the constructor."""
        length = min(source.size, _END_BYTES if source.path is None else _TAIL.size)
        end = source.read_at(source.size - length, length)
        if not end.endswith(MAGIC):
            return None
        if source.path is None:
            source.keep(source.size - length, end)
        return cls(source)

    def _read_directory(self) -> dict[str, Any]:
        source = self.source
        size = source.size
        length, checksum, _ = _TAIL.unpack(source.read_at(size - _TAIL.size, _TAIL.size))
        if length > size - _TAIL.size:
            raise BrokenIndexError("its directory is said to be longer than the file", path=source.name)
        data = source.read_at(size - _TAIL.size - length, length)
        if hash_one(data) != checksum:
            raise BrokenIndexError("its directory does not fit its checksum", path=source.name)
        try:
            return dict(json.loads(data))
        except (ValueError, TypeError, RecursionError) as error:
            raise BrokenIndexError("its directory is not valid JSON", path=source.name) from error

    def find_pages(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the pages of files, by their numbers."""
        return np.searchsorted(self._ends, numbers, "right")

    def first_file(self, page: int) -> int:
        """Return the number of the first file of a page."""
        return int(self._ends[page]) - self._pages[page].rows

    def read(self, pages: list[int] | None = None) -> list[pa.Table]:
        """Read some pages, or all; concurrently from a remote file.

        Raises
        ------
        BrokenIndexError
            A page is damaged.
        StorageError, ConcurrentChangeError
            They cannot be read.
        """
        chosen = [self._pages[number] for number in (range(len(self._pages)) if pages is None else pages)]
        if pages is None:
            data = memoryview(self.source.read_at(0, sum(page.length for page in chosen)))
            blobs = [data[page.offset : page.offset + page.length] for page in chosen]
        else:
            blobs = [memoryview(each) for each in self.source.read_ranges([page[:2] for page in chosen])]
        return [self._table(page, blob) for page, blob in zip(chosen, blobs, strict=True)]

    def _table(self, page: _Page, data: memoryview) -> pa.Table:
        if hash_one(data) != page.checksum:
            raise BrokenIndexError("a page does not fit its checksum", path=self.source.name)
        options = pa.ipc.IpcReadOptions(use_threads=len(data) > _WORTH_THREADS and can_use_arrow_threads())
        try:
            with pa.ipc.open_file(pa.BufferReader(pa.py_buffer(data)), options=options) as reader:
                table = reader.read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, MemoryError) as error:
            problem = f"a page of the table cannot be read: {first_line(error)}"
            raise BrokenIndexError(problem, path=self.source.name) from error
        if "path" not in table.schema.names or table["path"].null_count or table["path"].type != pa.large_binary():
            raise BrokenIndexError("a page of the table has no paths", path=self.source.name)
        if table.num_rows != page.rows:
            raise BrokenIndexError("a page has other rows than its directory says", path=self.source.name)
        return table


def write_pages(
    new: Rewrite, table: pa.Table, num_units: int, constants: dict[str, int], header: Mapping[str, Any] | None = None
) -> None:
    """Write a table in pages to an open file.

    Parameters
    ----------
    table, num_units : the table, in the order of the files' units, and their number.
    constants, header : see `FilePages`.
    """
    pages: list[_Page] = []
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    for start in range(0, table.num_rows, PAGE_ROWS):
        some = table.slice(start, PAGE_ROWS).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, some.schema, options=options) as writer:
            writer.write_table(some)
        data = sink.getvalue().to_pybytes()
        pages.append(
            _Page(pages[-1].offset + pages[-1].length if pages else 0, len(data), hash_one(data), some.num_rows)
        )
        new.write(data)
    first = table["first_unit"].to_numpy()
    counts = np.diff(np.append(first, num_units))
    even = int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0
    fields: dict[str, Any] = {
        "files": table.num_rows,
        "units": num_units,
        "units_a_file": even,
        "constants": {name: value + 1 for name, value in constants.items()},
        "pages": pages,
    }
    if header is not None:
        fields["segment"] = header
    directory = json.dumps(fields, separators=(",", ":")).encode()
    new.write(directory)
    new.write(_TAIL.pack(len(directory), hash_one(directory), MAGIC))
