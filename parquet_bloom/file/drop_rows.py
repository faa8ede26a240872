"""Writing of a Parquet file anew without some of its rows.

Row groups that lose no row are copied byte for byte, with their filters and page indexes; only offsets change. Of the
others each column chunk is encoded anew (`encode_chunk`), and one that loses all rows goes. The new file has the bytes
that its footer refers to and no others, so that nothing of an erased row is left in what earlier changes left behind.
Of the row groups that lose no row, chunks whose dictionaries have values of the rows that go are encoded anew, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import (
    BrokenFilterError,
    ConcurrentChangeError,
    ErrorContext,
    MalformedFooterError,
    ParquetBloomError,
    UnreadableColumnError,
)
from ..metadata.encoded_struct import EncodedStruct
from ..metadata.footer import MAGIC, Footer
from ..metadata.thrift_compact import I16, I32, I64
from ..metadata.writer_rules import Doubt
from ..util.threads import in_order, processors
from .bloom_file import BloomFile
from .encode_chunk import (
    COMPRESSED_SIZE,
    DICTIONARY_PAGE,
    FILTER,
    FILTER_LENGTH,
    INDEX_PAGE,
    UNCOMPRESSED_SIZE,
    ChunkEncoder,
    EncodedChunk,
    place_chunk,
    require_codec,
    shift_offset_index,
)
from .file_rewrite import Owner, Sink, open_for_edit, refuse_pages_beyond, refuse_uneditable, rewrite_file
from .identity import version_token
from .numbered_column import (
    ARROW_SCHEMA,
    NumberedChunk,
    NumberedColumn,
    add_to_schema,
    choose_columns,
    encode_numbers,
)
from .unused_entries import find_oversized_dictionaries, find_unused_entries

if TYPE_CHECKING:
    from ..util.given_types import FilePath, FileSystem

# Fields of FileMetaData, RowGroup and ColumnChunk.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _TOTAL_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _TOTAL_COMPRESSED, _ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_OFFSET, _METADATA = 2, 3
_INDEXES = {"offset_index": (4, 5), "column_index": (6, 7)}
_LAST_FIELDS = {"FileMetaData": 9, "RowGroup": 7, "ColumnChunk": 9, "ColumnMetaData": 17}
_PAGES, _FILTER, _COLUMN_INDEX, _OFFSET_INDEX = "pages", "filter", "column_index", "offset_index"


@dataclass(frozen=True, order=True)
class _FilePart:
    """Bytes of the file that its footer refers to: the pages, filter or page index of a column chunk.

    Attributes
    ----------
    start, length : where they are.
    kind : what they are.
    owner : the column chunk, (row group, leaf index).
    """

    start: int
    length: int
    kind: str
    owner: Owner

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(frozen=True)
class LostPart:
    """What a column chunk had, and has not after it was encoded anew, such as a filter over a type without one.

    Attributes
    ----------
    row_group, column : the column chunk, by the old file.
    what : for people.
    """

    row_group: int
    column: str
    what: str


@dataclass
class DroppedRows:
    """What `drop_rows` has done to a file.

    Attributes
    ----------
    num_rows : rows that were left out.
    rows_left : rows of the new file.
    rewritten, copied, removed : row groups that were encoded anew, copied, and left out as they had no other rows.
    trimmed : column chunks of copied row groups that were encoded anew, as their dictionaries had values of the rows
        that went, though no row there has them.
    shared : columns whose dictionaries had values that no row of their row group has. Writers that put one dictionary
        into several row groups do so into several files, too.
    bytes_encoded, bytes_copied : of the new file, those of pages encoded anew, and those that were copied.
    old_size, new_size : bytes of the files.
    lost : evidence that column chunks have not any more; reading without it reads more, and finds the same.
    """

    num_rows: int = 0
    rows_left: int = 0
    rewritten: int = 0
    copied: int = 0
    removed: int = 0
    trimmed: int = 0
    shared: tuple[str, ...] = ()
    bytes_encoded: int = 0
    bytes_copied: int = 0
    old_size: int = 0
    new_size: int = 0
    lost: list[LostPart] = field(default_factory=list)


def drop_rows(
    file: BloomFile,
    rows: NDArray[np.int64],
    new: Sink,
    *,
    numbered: Sequence[NumberedColumn] = (),
    threads: int | None = None,
) -> DroppedRows:
    """Write a file anew, without some rows.

    Schema, key-value metadata and all else that the footer says of the file stay. Chunks that are encoded anew have
    the codec, encodings, version and size of pages, checksums, statistics, page index and filter (of the same size)
    that the old ones had, as far as pyarrow writes them; what it does not is said in the report.

    Parameters
    ----------
    rows : numbers of the rows in the file, ascending, none twice.
    new : where the file is written to; not committed.
    numbered : columns that the new file gets if the old one has not got them.
    threads : column chunks encoded at a time; None for one per processor. Each takes the memory of its rows, decoded
        and encoded.

    Raises
    ------
    ParquetBloomError
        One of its subclasses, before `new` can be committed: the rows are not those of the file; columns are encrypted,
        in other files, or of a later format; parts of the file overlap, or their extent is not certain; a chunk cannot
        be decoded, or not be encoded as it was.
    """
    threads = threads or processors()
    plan = _Plan(file, rows, choose_columns(file, numbered), threads)
    job = _Job(plan, new)
    with in_order(job.encode, job.todo(), threads) as encoded:
        job.write(encoded)
    return job.report


def write_without_rows(
    path: FilePath,
    rows: NDArray[np.int64],
    output: FilePath | None = None,
    *,
    token: bytes | None = None,
    filesystem: FileSystem | None = None,
    in_table: bool = False,
    numbered: Sequence[NumberedColumn] = (),
    dry_run: bool = False,
    threads: int | None = None,
) -> DroppedRows:
    """Replace a file by one without some rows, or write that to another path.

    Parameters
    ----------
    path, output : the file, and where to write; None replaces the file itself, in one step. A file whose rows all stay
        is not replaced, but written to another path as it is.
    rows, numbered, threads : as for `drop_rows`.
    token : the version of the file that the rows are of (see `identity.version_token`); None if the caller knows it.
    filesystem : of both paths, resolved.
    in_table : whether the caller commits `output` to the table that tracks the file.
    dry_run : encode everything, so that the report has all figures, but write nothing.

    Raises
    ------
    ConcurrentChangeError
        The file is another version.
    ManagedTableError
        A table tracks the file, and this is not for the table.
    ParquetBloomError
        As `drop_rows` raises, or the new file cannot be written; the old one is then unchanged.
    """
    with open_for_edit(path, output, filesystem, of_orc="its rows are not rewritten", in_table=in_table) as opened:
        file, target = opened
        if token is not None and version_token(file.source.identity) != token:
            raise ConcurrentChangeError("it has changed since its rows were located; locate them again", path=file.path)
        reports = []

        def write(new: Sink) -> bool:
            reports.append(drop_rows(file, rows, new, numbered=numbered, threads=threads))
            return len(rows) > 0

        rewrite_file(file, target, filesystem, dry_run, write)
    return reports[0]


class _Plan:
    """Which rows of which row groups go, and where in the old file everything is.

    Attributes
    ----------
    kept : {row group: for each of its rows, whether it stays}, of those that lose some.
    gone : row groups that lose all rows.
    trimmed : column chunks of other row groups that are encoded anew, for their dictionaries' sake.
    parts : all parts of the file that the footer refers to, in the order of the file.
    numbered : columns that the new file has besides.
    """

    def __init__(
        self, file: BloomFile, rows: NDArray[np.int64], numbered: Sequence[NumberedColumn] = (), threads: int = 1
    ):
        self.file, self.footer = file, file.footer
        self.rows, self.numbered = rows, numbered
        self._refuse()
        self.kept, self.gone = self._divide(rows)
        self.parts = self._find_parts()
        for row_group in self.kept:
            for leaf in file.leaves:
                require_codec(file, row_group, leaf)
        self.trimmed = find_unused_entries(file, self.kept, self.gone, threads)

    def is_encoded(self, owner: Owner) -> bool:
        """Return whether a column chunk of the new file is encoded anew."""
        return owner[0] in self.kept or owner in self.trimmed

    def keep_of(self, row_group: int) -> NDArray[np.bool_]:
        """Return for each row of a row group whether it stays."""
        keep = self.kept.get(row_group)
        return np.ones(self.footer.num_rows_of(row_group), np.bool_) if keep is None else keep

    def _refuse(self) -> None:
        """Raise for files whose parts are not all known."""
        footer, leaves = self.footer, self.file.leaves
        refuse_uneditable(footer, leaves)
        refuse_pages_beyond(self.file)
        if footer.later_types:
            problem = "a column is of a type of a later format, and may refer to bytes of the file: its rows stay"
            raise UnreadableColumnError(problem, path=self.file.path)
        for leaf in leaves:
            if footer.doubts_of(leaf) & Doubt.CHUNK_SIZES:
                problem = "its writer gives wrong sizes of column chunks, so that they cannot be copied"
                raise UnreadableColumnError(problem, path=self.file.path, column=leaf.name)
        metadata = EncodedStruct(footer.data)
        self._refuse_later_fields("FileMetaData", metadata, {})
        for number, group in enumerate(metadata.structs(_ROW_GROUPS)):
            self._refuse_later_fields("RowGroup", group, {"row_group": number})
            for leaf, chunk in zip(leaves, group.structs(_COLUMNS), strict=False):
                context: ErrorContext = {"row_group": number, "column": leaf.name}
                self._refuse_later_fields("ColumnChunk", chunk, context)
                self._refuse_later_fields("ColumnMetaData", chunk.struct(_METADATA), context)

    def _refuse_later_fields(self, name: str, struct: EncodedStruct, context: ErrorContext) -> None:
        numbers = struct.numbers
        if numbers and not 1 <= numbers[0] <= numbers[-1] <= _LAST_FIELDS[name]:
            number = numbers[-1] if numbers[-1] > _LAST_FIELDS[name] else numbers[0]
            problem = (
                f"metadata: {name} has field {number}, of a later format: it may tell of rows, or of places in the file"
            )
            raise MalformedFooterError(problem, **context)

    def _divide(self, rows: NDArray[np.int64]) -> tuple[dict[int, NDArray[np.bool_]], set[int]]:
        counts = self.footer.row_groups["num_rows"]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total != self.footer.num_rows:
            problem = f"metadata: {self.footer.num_rows} rows, but {total} in the row groups"
            raise MalformedFooterError(problem, path=self.file.path)
        if len(rows) and (rows[0] < 0 or rows[-1] >= total or (np.diff(rows) <= 0).any()):
            raise ParquetBloomError(f"rows to leave out must ascend from 0 to {total - 1}", path=self.file.path)
        kept: dict[int, NDArray[np.bool_]] = {}
        gone: set[int] = set()
        bounds = np.searchsorted(rows, np.concatenate([[0], ends]))
        for row_group, (first, last) in enumerate(pairwise(bounds.tolist())):
            num_rows = int(counts[row_group])
            if first == last:
                continue
            if last - first == num_rows:
                gone.add(row_group)
                continue
            kept[row_group] = np.ones(num_rows, np.bool_)
            kept[row_group][rows[first:last] - (int(ends[row_group]) - num_rows)] = False
        return kept, gone

    def _find_parts(self) -> list[_FilePart]:
        """Return the parts of the file, after a check that they do not overlap."""
        footer, file = self.footer, self.file
        file.read_headers(file.chunks())
        parts = []
        for row_group in file.row_groups:
            for leaf in file.leaves:
                owner, record = (row_group, leaf.index), file.record(row_group, leaf)
                parts.append(
                    _FilePart(footer.first_page(row_group, leaf), int(record["compressed_size"]), _PAGES, owner)
                )
                chunk = file.chunk(row_group, leaf)
                if chunk is not None:
                    if chunk.header_problem:
                        problem = f"{chunk.header_problem}; drop the filter, or rebuild it, before rows are left out"
                        raise BrokenFilterError(problem, path=file.path, row_group=row_group, column=leaf.name)
                    parts.append(_FilePart(chunk.offset, chunk.header.total_bytes, _FILTER, owner))
                for kind in (_COLUMN_INDEX, _OFFSET_INDEX):
                    offset, length = int(record[f"{kind}_offset"]), int(record[f"{kind}_length"])
                    if offset > 0 and length > 0:
                        parts.append(_FilePart(offset, length, kind, owner))
        parts.sort()
        end, before = len(MAGIC), "the file's beginning"
        for part in parts:
            row_group, column = part.owner
            name = f"{_NAMES[part.kind]} of row group {row_group}, column '{file.leaves[column].name}'"
            if part.length and (part.start < end or part.length < 0 or part.end > footer.start):
                problem = f"metadata: the {name} overlap {before if part.start < end else 'the footer'}"
                raise MalformedFooterError(problem, path=file.path)
            if part.length:
                end, before = part.end, f"the {name}"
        return parts


_NAMES = {_PAGES: "pages", _FILTER: "bytes of the filter", _COLUMN_INDEX: "bytes of the column index"}
_NAMES |= {_OFFSET_INDEX: "bytes of the offset index"}


class _Job:
    """Writes the new file by a plan.

    Attributes
    ----------
    report : what was done, complete after `write`.
    """

    def __init__(self, plan: _Plan, new: Sink):
        self._plan, self._file, self._footer, self._new = plan, plan.file, plan.footer, new
        self._encoders: dict[int, ChunkEncoder] = {}
        self._encoded: dict[Owner, EncodedChunk] = {}  # their pages are written and let go first
        self._places: dict[tuple[Owner, str], tuple[int, int]] = {}
        self._numbers: dict[int, list[tuple[int, NumberedChunk]]] = {}  # by row group, with their places
        self._shared = find_oversized_dictionaries(plan.file, plan.gone)
        num_rows = len(plan.rows)
        self.report = DroppedRows(num_rows, plan.footer.num_rows - num_rows, len(plan.kept), removed=len(plan.gone))
        self.report.copied = plan.footer.num_row_groups - len(plan.kept) - len(plan.gone)
        self.report.trimmed = len(plan.trimmed)
        self.report.old_size = plan.file.source.size
        frame = EncodedStruct(plan.footer.data)
        frame.drop(_ROW_GROUPS)
        for column in sorted({column for _, column in self.todo()}):
            self._encoders[column] = ChunkEncoder(plan.file, plan.file.leaves[column], frame)

    def todo(self) -> list[Owner]:
        """Return the chunks to encode, in the order in which they are written."""
        return [part.owner for part in self._plan.parts if part.kind == _PAGES and self._plan.is_encoded(part.owner)]

    def encode(self, owner: Owner) -> EncodedChunk:
        row_group, column = owner
        return self._encoders[column].encode(row_group, self._plan.keep_of(row_group))

    def write(self, encoded: Iterator[EncodedChunk]) -> None:
        """Write everything, given the chunks of `todo`; check the new footer before it is written."""
        plan, new = self._plan, self._new
        parts = [part for part in plan.parts if part.owner[0] not in plan.gone]
        # An offset index has the places of pages, and what else belongs to a new chunk is known when it is encoded.
        parts.sort(key=lambda part: part.kind == _OFFSET_INDEX or part.start < self._start_of(part.owner))
        front = self._copy_front(parts)
        run: list[_FilePart] = []  # parts one after the other that are copied at once
        for part in parts[front:]:
            is_encoded = plan.is_encoded(part.owner)
            is_copied = not is_encoded and part.kind != _OFFSET_INDEX
            if run and not (is_copied and part.start == run[-1].end):
                self._copy_run(run)
            if is_copied:
                run.append(part)
            elif is_encoded:
                self._write_encoded(part, encoded)
            else:
                index = self._file.source.read_at(part.start, part.length)
                shift = self._places[part.owner, _PAGES][0] - self._start_of(part.owner)
                self._put(part, shift_offset_index(index, shift))
        if run:
            self._copy_run(run)
        self._write_numbers()
        footer = self._make_footer()
        self._check(Footer(footer, new.tell()))
        new.write(footer)
        new.write(len(footer).to_bytes(4, "little"))
        new.write(MAGIC)
        self.report.new_size = new.tell()
        self.report.shared = tuple(sorted(self._shared))

    def _start_of(self, owner: Owner) -> int:
        return self._footer.first_page(owner[0], self._file.leaves[owner[1]])

    def _copy_front(self, parts: Sequence[_FilePart]) -> int:
        """Copy the beginning of the file as far as it stays as it is; return how many parts that are."""
        count, end = 0, len(MAGIC)
        for part in parts:
            if self._plan.is_encoded(part.owner) or (part.length and part.start != end):
                break
            self._places[part.owner, part.kind] = part.start, part.length
            count, end = count + 1, max(end, part.end)
        self._new.copy_prefix(end)
        self.report.bytes_copied += end - len(MAGIC)
        return count

    def _copy_run(self, run: list[_FilePart]) -> None:
        start, length = run[0].start, run[-1].end - run[0].start
        shift = self._new.tell() - start
        for part in run:
            self._places[part.owner, part.kind] = part.start + shift, part.length
        self._new.copy_range(start, length)
        self.report.bytes_copied += length
        run.clear()

    def _put(self, part: _FilePart, data: bytes | memoryview) -> None:
        self._places[part.owner, part.kind] = self._new.tell(), len(data)
        self._new.write(data)

    def _write_encoded(self, part: _FilePart, encoded: Iterator[EncodedChunk]) -> None:
        """Write what stands in place of a part that is not copied; nothing if the new chunk has no such part."""
        if part.kind == _PAGES:
            chunk = self._encoded[part.owner] = next(encoded)
            self._put(part, chunk.pages)
            if chunk.has_unused:
                self._shared.add(self._file.leaves[part.owner[1]].name)
            self.report.bytes_encoded += len(chunk.pages)
            chunk.pages = memoryview(b"")
            row_group, column = part.owner
            self.report.lost += [LostPart(row_group, self._file.leaves[column].name, what) for what in chunk.lost]
            return
        chunk = self._encoded[part.owner]
        data = {_FILTER: chunk.filter, _COLUMN_INDEX: chunk.column_index, _OFFSET_INDEX: chunk.offset_index}[part.kind]
        if data and part.kind == _OFFSET_INDEX:
            data = shift_offset_index(data, self._places[part.owner, _PAGES][0])
        if data:
            self._put(part, data)

    def _write_numbers(self) -> None:
        """Write the columns that the new file has besides."""
        if not self._plan.numbered:
            return
        first = 0
        for row_group, num_rows in enumerate(self._footer.row_groups["num_rows"].tolist()):
            kept = self._plan.keep_of(row_group)
            for column in () if row_group in self._plan.gone else self._plan.numbered:
                chunk = encode_numbers(column, column.number(first, kept))
                self._numbers.setdefault(row_group, []).append((self._new.tell(), chunk))
                self._new.write(chunk.pages)
                self.report.bytes_encoded += len(chunk.pages)
            first += num_rows

    # ------------------------------------------------------------------------------------------------- the footer

    def _make_footer(self) -> bytes:
        """Return the old footer with other numbers of rows and places."""
        metadata = EncodedStruct(self._footer.data)
        groups: list[EncodedStruct] = []
        for row_group, group in enumerate(metadata.structs(_ROW_GROUPS)):
            if row_group not in self._plan.gone:
                self._change_row_group(row_group, group, len(groups))
                groups.append(group)
        metadata.set(_NUM_ROWS, I64, self.report.rows_left)
        metadata.set_structs(_ROW_GROUPS, groups)
        if self._plan.numbered:
            add_to_schema(metadata, self._plan.numbered, self._file.path)
        return metadata.encode()

    def _change_row_group(self, row_group: int, group: EncodedStruct, ordinal: int) -> None:
        chunks = group.structs(_COLUMNS)
        for column, chunk in enumerate(chunks):
            self._change_chunk((row_group, column), chunk)
        sizes = [self._places[(row_group, column), _PAGES] for column in range(len(chunks))]
        if _GROUP_OFFSET in group:
            group.set(_GROUP_OFFSET, I64, min((start for start, _ in sizes), default=0))
        if _ORDINAL in group:
            group.set(_ORDINAL, I16, ordinal)
        if row_group in self._plan.kept:
            group.set(_GROUP_ROWS, I64, int(self._plan.kept[row_group].sum()))
        if any((row_group, column) in self._encoded for column in range(len(chunks))):
            unpacked = [chunk.struct(_METADATA).integer(UNCOMPRESSED_SIZE) for chunk in chunks]
            group.set(_TOTAL_BYTES, I64, sum(unpacked))
            if _TOTAL_COMPRESSED in group:
                group.set(_TOTAL_COMPRESSED, I64, sum(length for _, length in sizes))
        for start, numbers in self._numbers.get(row_group, ()):
            place_chunk(numbers.chunk, numbers.metadata, start)
            numbers.chunk.set(_CHUNK_OFFSET, I64, 0)
            chunks.append(numbers.chunk)
            for number in (_TOTAL_BYTES, _TOTAL_COMPRESSED):
                if number in group:
                    group.set(number, I64, group.integer(number) + len(numbers.pages))
        group.set_structs(_COLUMNS, chunks)

    def _change_chunk(self, owner: Owner, chunk: EncodedStruct) -> None:
        old_start, (start, _) = self._start_of(owner), self._places[owner, _PAGES]
        if owner in self._encoded:
            metadata, shift = self._encoded[owner].metadata, start
        else:
            metadata, shift = chunk.struct(_METADATA), start - old_start
            for number in (INDEX_PAGE, DICTIONARY_PAGE):  # some writers have 0 for none
                if not old_start <= metadata.integer(number, -1) < old_start + metadata.integer(COMPRESSED_SIZE):
                    metadata.drop(number)
        place = self._places.get((owner, _FILTER))
        metadata.drop(FILTER, *([] if place else [FILTER_LENGTH]))
        if place:
            metadata.set(FILTER, I64, place[0])
            if owner in self._encoded or FILTER_LENGTH in metadata:
                metadata.set(FILTER_LENGTH, I32, place[1])
        place_chunk(chunk, metadata, shift)
        # Writers disagree on what this is the place of; of what was not copied it is left unknown.
        chunk.set(_CHUNK_OFFSET, I64, start if chunk.integer(_CHUNK_OFFSET) == old_start else 0)
        for kind, (offset, length) in _INDEXES.items():
            place = self._places.get((owner, kind))
            chunk.drop(offset, length)
            if place:
                chunk.set(offset, I64, place[0])
                chunk.set(length, I32, place[1])

    def _check(self, footer: Footer) -> None:
        """Raise MalformedFooterError unless the new footer says what was written, and else what the old one does."""
        old, kept, owners = self._footer, self._plan.kept, []
        rows = []
        numbers: list[tuple[int, int]] = []
        for row_group in range(old.num_row_groups):
            if row_group not in self._plan.gone:
                rows.append(int(kept[row_group].sum()) if row_group in kept else old.num_rows_of(row_group))
                owners += [(row_group, leaf.index) for leaf in self._file.leaves]
                numbers += [(start, len(chunk.pages)) for start, chunk in self._numbers.get(row_group, ())]
        num_old, num_new = len(self._file.leaves), len(self._plan.numbered)
        is_new = np.arange(len(footer.chunks)) % max(1, num_old + num_new) >= num_old
        is_same = (
            footer.row_groups["num_rows"].tolist() == rows
            and footer.num_rows == sum(rows) == self.report.rows_left
            and len(footer.chunks) == len(owners) + len(numbers)
            and footer.schema[1 : len(old.schema)] == old.schema[1:]
            and len(footer.schema) == len(old.schema) + num_new
            and self._list_metadata(footer) == self._list_metadata(old)
            and footer.created_by == old.created_by
            and footer.column_orders[:num_old] == old.column_orders
        )
        found = zip(footer.first_pages[is_new].tolist(), footer.chunks["compressed_size"][is_new].tolist(), strict=True)
        is_same &= [*found] == numbers
        for number, owner in zip(np.flatnonzero(~is_new).tolist(), owners if is_same else (), strict=False):
            record, before = footer.chunks[number], self._file.record(owner[0], self._file.leaves[owner[1]])
            place = int(footer.first_pages[number]), int(record["compressed_size"])
            is_same &= place == self._places[owner, _PAGES]
            is_same &= record["codec"] == before["codec"] and record["physical_type"] == before["physical_type"]
            if owner not in self._encoded:
                names = ("num_values", "compressed_size", "uncompressed_size", "dictionary_only", "bit_packed")
                is_same &= all(record[name] == before[name] for name in names)
            for kind in (_FILTER, _COLUMN_INDEX, _OFFSET_INDEX):
                expected = self._places.get((owner, kind), (-1, -1))
                told = int(record[f"{kind}_offset"]), int(record[f"{kind}_length"])
                is_same &= told == expected or (kind == _FILTER and told == (expected[0], -1))
        if not is_same:
            raise MalformedFooterError("metadata: the new footer does not say what was written; nothing was changed")

    def _list_metadata(self, footer: Footer) -> dict[bytes, bytes]:
        """Return the key-value metadata that stays as it is."""
        changed = (ARROW_SCHEMA,) if self._plan.numbered else ()
        return {key: value for key, value in footer.key_value_metadata.items() if key not in changed}
