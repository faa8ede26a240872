"""File table of a segment: paths, version tokens and fingerprints of its files, and their units."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from errno import EINVAL
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_keys, hash_one
from ..errors import BrokenIndexError, StorageError, first_line
from ..hashing.arrow_keys import keys_of
from ..storage import Rewrite, Source
from ..storage.index_folder import Folder
from ..storage.objects.object_source import ObjectSource
from ..util.arrow_values import from_numpy, make_array, to_numpy
from ..util.threads import can_use_arrow_threads
from . import json_checks as strict
from .units import FILE, Units

MAGIC = b"PBFILES2"
PAGE_ROWS = 4096
MANY_FILES = 2 * PAGE_ROWS
"""Tables of more files than this are written in pages."""

_TAIL = struct.Struct("<IQ8s")
_END_BYTES = 64 * 1024
_PARALLEL_BYTES = 1 << 20  # bytes of a table: below, starting threads takes longer than decompressing


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
    header : the segment's, see `segment.make_header`; None in tables of earlier versions.

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
            self._pages = [_Page(*map(strict.number, strict.items(page))) for page in strict.items(directory["pages"])]
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

    def _read_directory(self) -> Mapping[str, object]:
        source = self.source
        size = source.size
        length, checksum, _ = _TAIL.unpack(source.read_at(size - _TAIL.size, _TAIL.size))
        if length > size - _TAIL.size:
            raise BrokenIndexError("its directory is said to be longer than the file", path=source.name)
        data = source.read_at(size - _TAIL.size - length, length)
        if hash_one(data) != checksum:
            raise BrokenIndexError("its directory does not fit its checksum", path=source.name)
        try:
            return strict.fields(json.loads(data))
        except (ValueError, TypeError, RecursionError) as error:
            raise BrokenIndexError("its directory is not valid JSON", path=source.name) from error

    def find_pages(self, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the pages of files, by their numbers."""
        return np.searchsorted(self._ends, numbers, "right")

    def first_file(self, page: int) -> int:
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
        options = pa.ipc.IpcReadOptions(use_threads=len(data) > _PARALLEL_BYTES and can_use_arrow_threads())
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
    new: Rewrite, table: pa.Table, num_units: int, constants: dict[str, int], header: Mapping[str, object] | None = None
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
    first = to_numpy(table["first_unit"])
    counts = np.diff(np.append(first, num_units))
    even = int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0
    fields: dict[str, object] = {
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


NOT_COVERED = -1
WHOLE_FILES = Units()

_TOGETHER = 8192  # records that are converted together
_MAX_PAGES_READ_SINGLY = 16  # read one by one; for paths in more pages the complete table is read
_PAGES_KEPT = 64
_ROW_COUNTS = pa.list_(pa.int64())
_HEADER = "segment"  # key of the schema's metadata


class _PageColumns(NamedTuple):
    """Columns of a page of a table that lookups need.

    Attributes
    ----------
    paths : of its files.
    row_counts : rows of the row groups of each; None where units are not zones.
    """

    paths: pa.LargeBinaryArray
    row_counts: pa.ListArray | None


@dataclass(frozen=True)
class FileRecord:
    """Record of an indexed file.

    Attributes
    ----------
    path : path as listed (see `names.name_of`).
    size : bytes; -1 for a file that was not checked.
    stamp : version token, see `file.identity`.
    footer, data : fingerprints of its footer without filters, and of the indexed columns' bytes.
    row_counts : rows of each of its row groups, which determine its units.
    listed : whether it was listed in the lake; otherwise it was given by name.
    parts : {column: number of the segment's part with its values}; missing where the column is not covered.
    doubts : {column: reason why it is not covered}.
    """

    path: str
    size: int
    stamp: bytes
    footer: int
    data: int
    row_counts: Sequence[int]
    listed: bool
    parts: Mapping[str, int] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)

    @property
    def checked(self) -> bool:
        """True if the file is checked for liveness."""
        return self.size >= 0


class FileTable:
    """The records of a segment's files, by their numbers.

    Parameters
    ----------
    table : see the property; None for a table that is read from pages, as needed.
    num_units : number of units of all files.
    pages : the pages to read from.
    units : what a unit is. Where units are zones, the table has the rows of each row group.
    header : the segment's, see `segment.make_header`; None in tables of earlier versions.
    """

    def __init__(
        self,
        table: pa.Table | None,
        num_units: int,
        pages: FilePages | None = None,
        units: Units = WHOLE_FILES,
        header: Mapping[str, object] | None = None,
    ):
        self.num_units = num_units
        self.units = units
        self.header = header
        self._pages = pages
        self._read_pages: dict[int, _PageColumns] = {}
        self._reported_cost = 0, 0
        if table is not None:
            self.__dict__["table"] = table.combine_chunks()

    @cached_property
    def table(self) -> pa.Table:
        """One row per file: path, size, stamp, footer, data, first_unit, listed, and a part and a doubt per column.

        Where units are zones, also row_counts: the rows of each row group.
        """
        assert self._pages is not None
        return _concat_pages(self._pages.read(), self._pages, self.units)

    @property
    def _in_pages(self) -> FilePages | None:
        """The pages of a table that has not been read completely, else None."""
        return None if "table" in self.__dict__ else self._pages

    def __len__(self) -> int:
        pages = self._in_pages
        return self.table.num_rows if pages is None else pages.num_files

    def new_cost(self) -> tuple[int, int]:
        """Return the requests and bytes of reading pages since the last call."""
        if self._pages is None:
            return 0, 0
        before, source = self._reported_cost, self._pages.source
        self._reported_cost = source.requests, source.bytes_read
        return self._reported_cost[0] - before[0], self._reported_cost[1] - before[1]

    @classmethod
    def from_records(
        cls, records: Iterable[FileRecord], columns: Sequence[str], units: Units = WHOLE_FILES
    ) -> FileTable:
        """Make the table of files whose units are numbered in the records' order."""
        rows = FileRowsTable(columns, units)
        for record in records:
            rows.add(record)
        return rows.table()

    # ----------------------------------------------------------------------------------------------------- its file

    def write(self, folder: Folder, name: str) -> None:
        """Write the table to a file of the index."""
        if len(self) > MANY_FILES:
            with folder.create(name) as new:
                write_pages(new, self.table, self.num_units, self._constants(), self.header)
                new.commit()
            return
        sink = pa.BufferOutputStream()
        header = {} if self.header is None else {_HEADER: json.dumps(self.header)}
        schema = self.table.schema.with_metadata({"num_units": str(self.num_units), **header})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(sink, schema, options=options) as writer:
            writer.write_table(self.table.cast(schema))
        data = sink.getvalue().to_pybytes()
        with folder.create(name) as new:
            new.write(data)
            new.write(hash_one(data).to_bytes(8, "little"))
            new.commit()

    @classmethod
    def read(cls, folder: Folder, name: str, num_files: int, num_units: int, units: Units = WHOLE_FILES) -> FileTable:
        """Read a table from a file of the index.

        Raises
        ------
        BrokenIndexError
            The file is damaged.
        StorageError
            It cannot be read.
        """
        source = folder.open(name)
        try:
            pages = FilePages.open(source) if num_files > MANY_FILES else None
            data = b"" if pages is not None else source.read_at(0, source.size)
            if data.endswith(MAGIC):  # written by a version with a lower limit
                pages = FilePages(source)
            if pages is not None:
                result = cls._from_pages(pages, num_files, num_units, units)
                if result._in_pages is None:
                    source.close()
                return result
        except BaseException:
            source.close()
            raise
        source.close()
        body = data[:-8]
        if hash_one(body).to_bytes(8, "little") != data[-8:]:
            raise BrokenIndexError("it does not fit its checksum", path=folder.path_of(name))
        try:
            options = pa.ipc.IpcReadOptions(use_threads=len(body) > _PARALLEL_BYTES and can_use_arrow_threads())
            with pa.ipc.open_file(pa.BufferReader(body), options=options) as reader:
                table = reader.read_all()
            table.validate(full=True)
            metadata = table.schema.metadata or {}
            text = metadata.get(_HEADER.encode())
            header = None if text is None else strict.fields(json.loads(text))
            result = cls(table.replace_schema_metadata(), int(metadata[b"num_units"][:20]), units=units, header=header)
            result._require_sound()
        except (pa.ArrowException, OSError, MemoryError, KeyError, TypeError, ValueError, RecursionError) as error:
            problem = f"the table of files cannot be read: {first_line(error)}"
            raise BrokenIndexError(problem, path=folder.path_of(name)) from error
        if (len(result), result.num_units) != (num_files, num_units):
            problem = f"it holds {len(result)} files of {result.num_units} units, not {num_files} of {num_units}"
            raise BrokenIndexError(problem, path=folder.path_of(name))
        return result

    @classmethod
    def _from_pages(cls, pages: FilePages, num_files: int, num_units: int, units: Units) -> FileTable:
        """Open a table in pages, which are read when needed if the index is remote."""
        if (pages.num_files, pages.num_units) != (num_files, num_units):
            difference = f"{pages.num_files} files of {pages.num_units} units, not {num_files} of {num_units}"
            raise BrokenIndexError(f"it holds {difference}", path=pages.source.name)
        if units.granularity == FILE and not num_files == num_units == num_files * pages.units_a_file:
            raise BrokenIndexError("its files do not divide the units among them", path=pages.source.name)
        result = cls(None, num_units, pages, units, pages.header)
        if not isinstance(pages.source, ObjectSource):
            result.table  # noqa: B018  # read now, and the file closed
        return result

    def _constants(self) -> dict[str, int]:
        """Return {column: value} of the "part" columns with one value in all rows."""
        constants = {}
        for name in self.table.schema.names:
            if name.startswith("part "):
                ends = pc.min_max(self.table[name]).as_py()
                if ends["min"] == ends["max"] is not None:
                    constants[name] = ends["min"]
        return constants

    def _require_sound(self) -> None:
        """Raise ValueError unless the columns are those of `FileRowsTable`, and every unit belongs to a file."""
        columns = [name.removeprefix("part ") for name in self.table.schema.names if name.startswith("part ")]
        expected = _make_schema(tuple(columns), self.units)
        if self.table.schema != expected:
            raise ValueError("it has other columns than such a table")
        for i, name in enumerate(expected.names):
            if not name.startswith("doubt ") and self.table.column(i).null_count:
                raise ValueError(f"column {name} has nulls")
        units = self.first_units
        if (np.diff(units) < 0).any() or units[0] != 0:
            raise ValueError("its files do not divide the units among them")
        if self.units.granularity == FILE and (np.diff(units) != 1).any():
            raise ValueError("units are files, and a file has several of them")
        if self.units.zone_rows:
            self._require_zones(self._row_counts, np.diff(units))

    def _require_zones(self, row_counts: pa.ListArray, counts: NDArray[np.int64]) -> None:
        """Raise ValueError unless files with such row groups have so many zones: others would be of other rows."""
        rows = row_counts.values
        if rows.null_count or (len(rows) and pc.min(rows).as_py() < 0):
            raise ValueError("a row group has no number of rows")
        if not np.array_equal(self.units.count_all(row_counts), counts):
            raise ValueError("the zones of its files are not those of their rows")

    def problem_with(self, columns: Iterable[str], columns_of_parts: Sequence[str]) -> str | None:
        """Return why this cannot be the table of a segment with these columns and parts; None if it can.

        A file with a wrong part number would never be returned by a lookup.

        Parameters
        ----------
        columns_of_parts : of each part the column that its values are of.
        """
        pages = self._in_pages
        for column in columns:
            is_constant = pages is not None and _part(column) in pages.constants
            if not is_constant and _part(column) not in self.table.schema.names:
                return f"it does not say where the values of column '{column}' are"
            parts = self.parts(column)
            if len(parts) and not (parts.min() >= NOT_COVERED and parts.max() < len(columns_of_parts)):
                return f"values of column '{column}' are said to be in parts that there are none of"
            used = np.zeros(len(columns_of_parts) + 1, np.bool_)  # the last one for NOT_COVERED
            used[parts] = True
            if any(is_used and of != column for is_used, of in zip(used[:-1].tolist(), columns_of_parts, strict=True)):
                return f"values of column '{column}' are said to be in a part of another column"
        return None

    # -------------------------------------------------------------------------------------------------- its columns

    def path(self, number: int) -> str:
        if self._in_pages is not None:
            return self.paths(np.array([number], np.int64))[0]
        return _decode_path(self._paths[number].as_py())

    def paths(self, numbers: NDArray[np.int64] | None = None) -> list[str]:
        """Return the paths of all files, or of some.

        Raises
        ------
        BrokenIndexError, StorageError, ConcurrentChangeError
            Their pages cannot be read, or are damaged.
        """
        pages = self._in_pages
        if pages is not None and numbers is not None:
            some = self._some_paths(pages, numbers)
            if some is not None:
                return some
        chosen = self._paths if numbers is None else self._paths.take(from_numpy(numbers))
        return [_decode_path(path) for path in chosen.to_pylist()]

    def _some_paths(self, pages: FilePages, numbers: NDArray[np.int64]) -> list[str] | None:
        """Return paths of files in a few pages, reading those that are not cached; None if there are too many."""
        page_numbers = pages.find_pages(numbers)
        cached = self._read_some_pages(pages, np.unique(page_numbers).tolist())
        if cached is None:
            return None
        return [
            _decode_path(cached[page].paths[number - pages.first_file(page)].as_py())
            for page, number in zip(page_numbers.tolist(), numbers.tolist(), strict=True)
        ]

    def _read_some_pages(self, pages: FilePages, needed: Sequence[int]) -> dict[int, _PageColumns] | None:
        """Return the cached pages, with those that are needed; None if these are too many."""
        cached = self._read_pages
        missing = [page for page in needed if page not in cached]
        if len(missing) > _MAX_PAGES_READ_SINGLY:
            return None
        if missing:
            tables = pages.read(missing)
            cached = cached if len(cached) + len(missing) <= _PAGES_KEPT else {}
            cached = cached | {
                page: self._take_columns(table, pages) for page, table in zip(missing, tables, strict=True)
            }
            if any(page not in cached for page in needed):
                return None
            self._read_pages = cached
        return cached

    def _take_columns(self, table: pa.Table, pages: FilePages) -> _PageColumns:
        """Return the columns of a page that lookups need."""
        paths = _combine_chunks(table["path"])
        if not self.units.zone_rows:
            return _PageColumns(paths, None)
        try:
            if "row_counts" not in table.schema.names or table.schema.field("row_counts").type != _ROW_COUNTS:
                raise ValueError("a page of the table has no rows")
            row_counts = _combine_chunks(table["row_counts"])
            firsts = to_numpy(table["first_unit"])
            end = firsts[-1] + self.units.count_all(row_counts)[-1]
            self._require_zones(row_counts, np.diff(np.append(firsts, end)))
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            problem = f"the table of files cannot be read: {first_line(error)}"
            raise BrokenIndexError(problem, path=pages.source.name) from error
        return _PageColumns(paths, row_counts)

    def row_counts(self, number: int) -> tuple[int, ...]:
        """Return the rows of each row group of a file, where units are zones; for errors see `paths`."""
        pages = self._in_pages
        if pages is not None:
            page = int(pages.find_pages(np.array([number], np.int64))[0])
            cached = self._read_some_pages(pages, [page])
            if cached is not None and (row_counts := cached[page].row_counts) is not None:
                return tuple(row_counts[number - pages.first_file(page)].as_py())
        return tuple(self._row_counts[number].as_py())

    @cached_property
    def _row_counts(self) -> pa.ListArray:
        return _combine_chunks(self.table["row_counts"])

    @cached_property
    def _paths(self) -> pa.LargeBinaryArray:
        return _combine_chunks(self.table["path"])

    @cached_property
    def path_hashes(self) -> NDArray[np.uint64]:
        return np.asarray(hash_keys(keys_of(self._paths)))

    def has_paths(self, numbers: NDArray[np.int64], names: pa.LargeBinaryArray) -> NDArray[np.bool_]:
        """Return which files have these paths, file by file."""
        same = pc.equal(self._paths.take(from_numpy(numbers)), names)
        return np.asarray(to_numpy(same), np.bool_)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.asarray(to_numpy(self.table["size"]))

    @cached_property
    def stamps(self) -> pa.BinaryArray:
        return _combine_chunks(self.table["stamp"])

    @cached_property
    def listed(self) -> NDArray[np.bool_]:
        return np.asarray(to_numpy(self.table["listed"]))

    @cached_property
    def first_units(self) -> NDArray[np.int64]:
        """Unit bounds, one more than files: file i has the units first_units[i] to first_units[i + 1] - 1."""
        pages = self._in_pages
        if pages is not None and pages.units_a_file:
            return np.arange(pages.num_files + 1, dtype=np.int64) * pages.units_a_file
        return np.append(to_numpy(self.table["first_unit"]), self.num_units)

    def fingerprints(self, number: int) -> tuple[int, int]:
        """Return the fingerprints of the footer and of the data."""
        return self.table["footer"][number].as_py(), self.table["data"][number].as_py()

    def find_files(self, units: NDArray[np.uint32]) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self.first_units, units, "right") - 1)

    def parts(self, column: str) -> NDArray[np.int16]:
        """Return for each file the number of the part with its values of a column, or NOT_COVERED."""
        pages = self._in_pages
        if pages is not None and _part(column) in pages.constants:
            return np.full(pages.num_files, pages.constants[_part(column)], np.int16)
        return np.asarray(to_numpy(self.table[_part(column)]))

    def doubt(self, column: str, number: int) -> str | None:
        """Return the reason why a column of a file is not covered."""
        reason = self.table[_doubt(column)][number].as_py()
        return None if reason is None else str(reason)

    # ------------------------------------------------------------------------------------------------- changed tables

    def with_stamps(self, stamps_by_file: Mapping[int, tuple[int, bytes]]) -> FileTable:
        """Return the table with new sizes and stamps of some files, given by their numbers."""
        sizes, stamps = self.sizes.copy(), self.stamps.to_pylist()
        for number, (size, stamp) in stamps_by_file.items():
            sizes[number], stamps[number] = size, stamp
        table = self.table
        for name, values in (("size", pa.array(sizes)), ("stamp", pa.array(stamps, pa.binary()))):
            table = table.set_column(table.schema.get_field_index(name), name, values)
        return FileTable(table, self.num_units, units=self.units, header=self.header)

    def with_header(self, header: Mapping[str, object]) -> FileTable:
        """Return the table with the header of its segment."""
        return FileTable(self.table, self.num_units, units=self.units, header=header)

    @classmethod
    def merge(
        cls, tables: Sequence[tuple[FileTable, NDArray[np.bool_]]], parts: Sequence[Sequence[int]]
    ) -> tuple[FileTable, list[NDArray[np.int64]]]:
        """Merge the kept files of tables into one.

        Parameters
        ----------
        tables : tables, each with a mask of the files to keep.
        parts : for each table the new numbers of its parts.

        Returns
        -------
        The table, and for each input table the new number of every unit, -1 for dropped ones.
        """
        chosen, units, done = [], [], 0
        for (table, kept), numbers in zip(tables, parts, strict=True):
            counts = np.diff(table.first_units)
            of_unit = np.repeat(kept, counts)
            remap = np.where(of_unit, done + np.cumsum(of_unit) - 1, -1).astype(np.int64)
            units.append(remap)
            first = done + np.cumsum(np.where(kept, counts, 0)) - np.where(kept, counts, 0)
            renumbered = np.append(np.array(numbers, np.int16), np.int16(NOT_COVERED))  # the last for NOT_COVERED
            rows = table.table.set_column(
                table.table.schema.get_field_index("first_unit"), "first_unit", pa.array(first, pa.int64())
            )
            for i, name in enumerate(rows.schema.names):
                if name.startswith("part "):
                    rows = rows.set_column(i, name, from_numpy(renumbered[to_numpy(rows[name])]))
            chosen.append(rows.filter(pa.array(kept)))
            done += int(of_unit.sum())
        combined = pa.concat_tables(chosen).unify_dictionaries()
        return cls(combined, done, units=tables[0][0].units), units


class FileRowsTable:
    """Builder of a file table, which stores records as compactly as the table.

    Parameters
    ----------
    columns : indexed columns.
    units : what a unit is.
    """

    def __init__(self, columns: Sequence[str], units: Units = WHOLE_FILES):
        self._columns = columns
        self._units = units
        self._waiting: list[FileRecord] = []
        self._done: list[pa.Table] = []
        self._num_units = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, record: FileRecord) -> None:
        """Add the next file; its units follow those of the previous one."""
        self._waiting.append(record)
        self._count += 1
        if len(self._waiting) == _TOGETHER:
            self._convert()

    def table(self) -> FileTable:
        """Return the table of all files added."""
        if self._waiting or not self._done:
            self._convert()
        return FileTable(pa.concat_tables(self._done).unify_dictionaries(), self._num_units, units=self._units)

    def _convert(self) -> None:
        records, self._waiting = self._waiting, []
        units = np.array([self._units.count(record.row_counts) for record in records], np.int64)
        first = self._num_units + np.cumsum(units) - units
        self._num_units += int(units.sum())
        columns: dict[str, pa.Array] = {
            "path": encode_paths([record.path for record in records]),
            "size": make_array([record.size for record in records], pa.int64()),
            "stamp": make_array([record.stamp for record in records], pa.binary()),
            "footer": make_array([record.footer for record in records], pa.uint64()),
            "data": make_array([record.data for record in records], pa.uint64()),
            "first_unit": from_numpy(first),
            "listed": make_array([record.listed for record in records], pa.bool_()),
        }
        if self._units.zone_rows:
            counts = [record.row_counts for record in records]
            columns["row_counts"] = pa.array(counts, _ROW_COUNTS) if counts else pa.nulls(0, _ROW_COUNTS)
        for column in self._columns:
            parts = [record.parts.get(column, NOT_COVERED) for record in records]
            columns[_part(column)] = make_array(parts, pa.int16())
            doubts = [record.doubts.get(column) for record in records]
            columns[_doubt(column)] = make_array(doubts, pa.string()).dictionary_encode()
        self._done.append(pa.table(columns))


@lru_cache(maxsize=64)
def _make_schema(columns: tuple[str, ...], units: Units) -> pa.Schema:
    """Return the schema of a file table for these columns."""
    return FileRowsTable(columns, units).table().table.schema


def _part(column: str) -> str:
    return f"part {column}"


def _doubt(column: str) -> str:
    return f"doubt {column}"


def _encode_path(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")  # names of files may be invalid UTF-8
    except UnicodeEncodeError:
        raise StorageError("the path holds characters that no file's name can", path=path, errno=EINVAL) from None


def _decode_path(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def encode_paths(paths: Sequence[str]) -> pa.LargeBinaryArray:
    """Return paths as the table stores them."""
    return make_array([_encode_path(path) for path in paths], pa.large_binary())


def _concat_pages(tables: Sequence[pa.Table], pages: FilePages, units: Units) -> pa.Table:
    """Concatenate pages to a table and validate it; raise BrokenIndexError if it is invalid."""
    try:
        result = FileTable(pa.concat_tables(tables).unify_dictionaries(), pages.num_units, units=units)
        result.table.validate(full=True)
        result._require_sound()
    except (pa.ArrowException, TypeError, ValueError) as error:
        problem = f"the table of files cannot be read: {first_line(error)}"
        raise BrokenIndexError(problem, path=pages.source.name) from error
    return result.table


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])
