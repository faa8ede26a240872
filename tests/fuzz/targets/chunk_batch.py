"""file/pages/chunk_batch.pyx: chunks of several files searched together, and rows taken out of them.

An input is a recipe: which column of which files, what is damaged, and how. Of files that are sound the rows are those
that were written; else what is not refused agrees with itself, with pyarrow, and in other chunks with what was written.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from choices import Choices, damaged
from numpy.typing import NDArray
from scratch import as_folder, one_line
from small_chunks import (
    COLUMNS,
    FILE,
    FILES,
    GROUP,
    NUM_BYTES,
    NUM_ROWS,
    OFFSET,
    OPTIONS,
    ROWS,
    VALUES,
    Cell,
    Chunks,
    Column,
    base_of,
    stored_as,
)
from support.oracle import oracle
from support.servers.in_memory import InMemory
from taking import is_compared
from wire import Spelled

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.pages.chunk_batch import ChunkBatch, PageHeaders, pack_pages
from parquet_bloom.file.pages.decompress import decompress
from parquet_bloom.file.pages.fetched_ranges import FetchedRanges
from parquet_bloom.metadata.page_decode import StoredColumn
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.metadata.thrift_compact import index_pages
from parquet_bloom.storage import OpenFiles, stat_files

ALLOWED = (ParquetBloomError,)
MAX_INPUT = 1024
SLICE = 300

TakenValues = tuple[NDArray[np.bool_] | None, NDArray[np.int32] | None, NDArray[np.uint8]]
R = TypeVar("R")
MOST = 1000


def has(cell: Cell, value: bytes) -> bool:
    return value in cell if isinstance(cell, list) else cell == value


def make_stored(column: Column) -> StoredColumn:
    most = column.max_definition if column.least or not column.required else 0
    return StoredColumn(column.width, column.least or [0], most)


class Case:
    """A column of some files, and what is searched for and taken in it."""

    def __init__(self, choices: Choices) -> None:
        number = choices.below(len(OPTIONS))
        self.base = base_of(number)
        self.name = choices.pick(list(COLUMNS))
        self.column = COLUMNS[self.name]
        self.stored = make_stored(self.column)
        self.chunks = self.base.chunks[self.name].copy()
        self.cells = self.base.cells[self.name]
        self.files = list(self.base.files)
        present = [cell for part in self.cells for row in part for cell in (row if isinstance(row, list) else [row])]
        values = [cell for cell in present if cell is not None]
        picked = [choices.pick(values) for _ in range(choices.below(3))] + [b"absentee"[: self.column.width or None]]
        self.values = [*dict.fromkeys(picked)]
        self.few = [sorted({choices.below(GROUP) for _ in range(choices.below(4))}) for _ in self.cells]

    def search(self, batch: ChunkBatch, chunks: Chunks, most: int = MOST) -> list[list[int]] | None:
        """Return the rows of each chunk that match; None if there are more than `most`."""
        found = batch.search(chunks, self.stored, Targets(self.values), most, taken=bool(self.column.least))
        if found is None:
            return None
        counts, rows, numbers, taken = found
        assert ((numbers >= 0) & (numbers < len(self.values))).all()
        if taken is not None:
            lists = self.to_lists(len(rows), *taken)
            assert all(has(one, self.values[number]) for one, number in zip(lists, numbers.tolist(), strict=True))
        parts = [part.tolist() for part in np.split(rows, np.cumsum(counts))]
        assert parts.pop() == []
        for part, num_rows in zip(parts, chunks[:, NUM_ROWS].tolist(), strict=True):
            assert part == sorted(set(part))
            assert not part or 0 <= part[0] <= part[-1] < num_rows
        return parts

    def take(self, batch: ChunkBatch, chunks: Chunks, rows: list[list[int]]) -> list[list[Cell]]:
        """Return the values of some rows of each chunk."""
        counts = np.array([len(part) for part in rows], np.int64)
        together = np.array([row for part in rows for row in part], np.int64)
        taken = batch.take(chunks, self.stored, counts, together)
        make = self.to_lists if self.column.least else self.to_values
        cells: list[Cell] = [*make(len(together), *taken)]
        return [cells[stop - count : stop] for count, stop in zip(counts, np.cumsum(counts), strict=True)]

    def to_lists(
        self, count: int, valid: NDArray[np.bool_], ends: NDArray[np.int32], elements: TakenValues
    ) -> list[Cell]:
        """Return lists that were taken."""
        assert valid.shape == (count,)
        bounds = require_bounds(ends, count)
        values = self.to_values(bounds[-1], *elements)
        return [values[bounds[i] : bounds[i + 1]] if valid[i] else None for i in range(count)]

    def to_values(
        self, count: int, valid: NDArray[np.bool_] | None, ends: NDArray[np.int32] | None, values: NDArray[np.uint8]
    ) -> list[bytes | None]:
        """Return values that were taken."""
        assert valid is None or valid.shape == (count,)
        bounds = [i * self.column.width for i in range(count + 1)] if ends is None else require_bounds(ends, count)
        assert len(bounds) == count + 1
        assert bounds[-1] == len(values)
        stored = values.tobytes()
        return [stored[bounds[i] : bounds[i + 1]] if valid is None or valid[i] else None for i in range(count)]

    def some_cells(self, which: list[int]) -> list[list[Cell]]:
        """Return what was written into the few rows of some chunks."""
        return [[self.cells[i][row] for row in self.few[i]] for i in which]

    def matches(self, cells: list[Cell]) -> list[int]:
        return [row for row, cell in enumerate(cells) if any(has(cell, value) for value in self.values)]

    def require_sound(self, batch: ChunkBatch, which: list[int], chunks: Chunks | None = None) -> None:
        """Hold what is read of sound chunks to what was written."""
        chunks = self.chunks[which] if chunks is None else chunks
        assert self.search(batch, chunks) == [self.matches(self.cells[i]) for i in which]
        assert self.take(batch, chunks, [self.few[i] for i in which]) == self.some_cells(which)


def require_bounds(ends: NDArray[np.int32], count: int) -> list[int]:
    """Return where values begin and end, which must ascend from 0."""
    assert ends.shape == (count + 1,)
    assert ends[0] == 0
    assert (np.diff(ends) >= 0).all()
    return ends.tolist()


def attempt(read: Callable[[], R]) -> R | None:
    """Return what is read, or None where it is refused by a named error."""
    try:
        return read()
    except ALLOWED as error:
        one_line(error)
        return None


def run(data: bytes) -> None:
    choices = Choices(data)
    how, case = choices.below(9), Case(choices)
    damage = [nothing, of_bytes, of_body, of_header, of_table, of_file, of_arguments, replacement, of_index][how]
    damage(case, choices, is_compared(data))


def opened(case: Case, read: Callable[[ChunkBatch], None]) -> None:
    names = [f"{number}.parquet" for number in range(len(case.files))]
    with as_folder(dict(zip(names, case.files, strict=True))) as folder:
        sources = [source for source in stat_files([f"{folder}/{name}" for name in names]) if source is not None]
        files = OpenFiles([source.path for source in sources], [source.identity for source in sources])
        assert files.open()
        try:
            read(ChunkBatch(files, decompress, PageHeaders([{} for _ in sources], 1 << 16)))
        finally:
            files.close()


def nothing(case: Case, choices: Choices, compared: bool) -> None:
    """Sound files: exactly the rows that were written."""

    def read(batch: ChunkBatch) -> None:
        every = [*range(len(case.chunks))]
        case.require_sound(batch, every)
        case.require_sound(batch, [choices.below(len(every)) for _ in range(choices.below(6))])
        total = sum(len(case.matches(part)) for part in case.cells)
        for most in (0, total - 1, total, total + 1):
            assert most < 0 or (case.search(batch, case.chunks, most) is None) == (total > most)

    opened(case, read)


def with_chunk(case: Case, number: int, chunk: bytes, compared: bool) -> None:
    """Read a damaged chunk together with the others."""
    file = int(case.chunks[number, FILE])
    original = case.chunks[number].copy()
    start = len(case.files[file])
    case.chunks[number, OFFSET], case.chunks[number, NUM_BYTES] = start, len(chunk)
    sound = [i for i in range(len(case.chunks)) if i != number]
    case.files[file] += chunk

    def read(batch: ChunkBatch) -> None:
        alone = case.chunks[number : number + 1]
        rows = attempt(lambda: case.search(batch, alone))
        cells = None if case.column.least else attempt(lambda: case.take(batch, alone, [[*range(GROUP)]]))
        together = attempt(lambda: case.search(batch, case.chunks))
        assert (together is None) == (rows is None), "it depends on other chunks"
        if together is not None and rows is not None:
            assert together[number] == rows[0]
            assert [together[i] for i in sound] == [case.matches(case.cells[i]) for i in sound]
        if rows is not None and cells is not None:
            assert case.matches(cells[0]) == rows[0], f"{rows[0]} are found, and {cells[0]} taken"
        few = attempt(lambda: case.take(batch, alone, [case.few[number]]))
        assert cells is None or few == [[cells[0][row] for row in case.few[number]]]
        among = attempt(lambda: case.take(batch, case.chunks, case.few))
        expected_few = case.some_cells([*range(len(case.chunks))])
        expected_few[number : number + 1] = few or []
        assert among == (None if few is None else expected_few), "it depends on other chunks"
        if (rows or cells) and compared:
            expected = by_pyarrow(case, number, original, chunk)
            if expected is not None:
                assert cells is None or cells[0] == expected, f"{cells}, where pyarrow has {expected}"
                assert rows is None or rows[0] == case.matches(expected), f"{rows}, where pyarrow has {expected}"
        case.require_sound(batch, sound)  # whatever the others ended in

    opened(case, read)


def by_pyarrow(case: Case, number: int, original: NDArray[np.int64], chunk: bytes) -> list[Cell] | None:
    """Return what pyarrow reads if the chunk is in the place of the original one, if that is of one size; else None."""
    start, size = int(original[OFFSET]), int(original[NUM_BYTES])
    if size != len(chunk):
        return None
    complete = case.base.files[int(original[FILE])]
    complete = complete[:start] + chunk + complete[start + size :]
    name = case.name.partition(".")[0]
    try:
        file = pq.ParquetFile(io.BytesIO(complete))
        group = file.read_row_group(number % (ROWS // GROUP), columns=[name], use_threads=False)
        group.validate(full=True)
        return [stored_as(value, case.column.width) for value in group[name].to_pylist()]
    except (pa.ArrowException, OSError, ValueError):
        return None


def bytes_of(case: Case, number: int) -> bytes:
    file, start, size = case.base.chunks[case.name][number, :3].tolist()
    return case.base.files[file][start : start + size]


def page_starts(chunk: bytes) -> list[int]:
    starts = [0]
    while True:
        header, end = oracle.read_struct(chunk, starts[-1])
        starts.append(end + header.value(3))
        if starts[-1] >= len(chunk):
            return starts[:-1]


def of_bytes(case: Case, choices: Choices, compared: bool) -> None:
    """A few bytes from the header of a page on are others, and what follows them moves."""
    number = choices.below(len(case.chunks))
    chunk = bytes_of(case, number)
    start = choices.pick(page_starts(chunk))
    end = min(len(chunk), start + choices.pick((40, 80, 10_000, 100_000)))
    with_chunk(case, number, chunk[:start] + damaged(chunk[start:end], choices) + chunk[end:] or b"\0", compared)


def of_body(case: Case, choices: Choices, compared: bool) -> None:
    """A few bytes of a page are others, of as many bytes as before."""
    number = choices.below(len(case.chunks))
    chunk = bytes_of(case, number)
    start = choices.pick(page_starts(chunk))
    header, start = oracle.read_struct(chunk, start)
    end = start + header.value(3)
    end = min(end, start + choices.pick((8, 24, 100, 100_000)))
    body = damaged(chunk[start:end], choices, 2)[: end - start].ljust(end - start, b"\0")
    with_chunk(case, number, chunk[:start] + body + chunk[end:], compared)


def of_header(case: Case, choices: Choices, compared: bool) -> None:
    """A page's header has other numbers, fields that are missing, or fields more."""
    number = choices.below(len(case.chunks))
    chunk = bytes_of(case, number)
    start = choices.pick(page_starts(chunk))
    header, end = oracle.read_struct(chunk, start)
    with_chunk(case, number, chunk[:start] + Spelled.of(header).changed(choices) + chunk[end:], compared)


def replacement(case: Case, choices: Choices, compared: bool) -> None:
    """All bytes of a chunk are those of the input."""
    number = choices.below(len(case.chunks))
    size = int(case.chunks[number, NUM_BYTES])
    chunk = choices.rest
    with_chunk(case, number, chunk[:size].ljust(size, b"\0") if size <= MAX_INPUT else chunk or b"\0", compared)


def of_table(case: Case, choices: Choices, compared: bool) -> None:
    """The table of chunks has another number: chunks are beyond the file, or have a negative size, or another codec."""
    sound = case.chunks.copy()
    for _ in range(1 + choices.below(2)):
        number, field = choices.below(len(sound)), choices.below(6)
        case.chunks[number, field] = choices.odd_number(int(sound[number, field]))
    changed = (case.chunks != sound).any(axis=1)

    def read(batch: ChunkBatch) -> None:
        rows = attempt(lambda: case.search(batch, case.chunks))
        few = [
            [row for row in part if row < rows_of] for part, rows_of in zip(case.few, case.chunks[:, 3], strict=True)
        ]
        cells = None if case.column.least else attempt(lambda: case.take(batch, case.chunks, few))
        for i in np.flatnonzero(~changed).tolist():
            assert rows is None or rows[i] == case.matches(case.cells[i])
            assert cells is None or cells[i] == [case.cells[i][row] for row in case.few[i]]
        for i in np.flatnonzero(changed).tolist():
            other = case.chunks[i] != sound[i]
            if other[[FILE, OFFSET]].any():  # the chunk may be another one
                continue
            if other[NUM_ROWS] or (other[VALUES] and case.column.least):
                assert rows is None or not case.values, "rows are lost"
            assert rows is None or rows[i] == case.matches(case.cells[i])
        case.require_sound(batch, [*range(len(sound))], sound)

    opened(case, read)


def of_file(case: Case, choices: Choices, compared: bool) -> None:
    """A file ends early."""
    file = choices.below(FILES)
    size = choices.below(len(case.files[file]) + 1)
    case.files[file] = case.files[file][:size]
    whole = (case.chunks[:, FILE] != file) | (case.chunks[:, OFFSET] + case.chunks[:, NUM_BYTES] <= size)

    def read(batch: ChunkBatch) -> None:
        rows = attempt(lambda: case.search(batch, case.chunks))
        assert (rows is not None) == whole.all()
        case.require_sound(batch, np.flatnonzero(whole).tolist())

    opened(case, read)


def of_arguments(case: Case, choices: Choices, compared: bool) -> None:
    """Rows and counts that do not fit together, and levels and widths that the column does not have."""
    column = case.column
    counts = np.array([choices.odd_number(len(part)) for part in case.few], np.int64)
    rows = np.array([choices.odd_number(row) for part in case.few for row in part], np.int64)
    least = np.array([choices.odd_number(level) for level in column.least or (0, 2)], np.int64)
    width, most = choices.odd_number(column.width), min(choices.odd_number(MOST), 1 << 20)
    highest = min(max(choices.odd_number(column.max_definition), -1), 300)
    chunks = case.chunks[:, : 6 + choices.below(2)].copy() if choices.below(4) == 3 else case.chunks

    def read(batch: ChunkBatch) -> None:
        targets = Targets(case.values)
        for use in (
            lambda: batch.take(chunks, make_stored(column._replace(width=width)), counts, rows),
            lambda: batch.take(chunks, make_stored(column._replace(required=not column.required)), counts, rows),
            lambda: batch.search(chunks, make_stored(column._replace(width=width)), targets, most),
            lambda: batch.search(
                chunks, make_stored(column._replace(required=not column.required)), Targets([*case.values, b""]), most
            ),
            lambda: batch.search(chunks, StoredColumn(width, least, highest), targets, most),
            lambda: batch.search(chunks, StoredColumn(width, least, highest), targets, most, taken=True),
            lambda: batch.search(chunks, StoredColumn(width, least, highest), targets, most, counts, rows[:, None]),
            lambda: batch.take(chunks, StoredColumn(width, least, highest), counts, rows),
        ):
            try:
                attempt(use)
            except ValueError as error:
                one_line(error)
        case.require_sound(batch, [*range(len(case.chunks))])

    opened(case, read)


def of_index(case: Case, choices: Choices, compared: bool) -> None:
    """Pages are told of by a page index, not by their headers; perhaps it has another number."""
    number = choices.below(len(case.chunks))
    chunk, column, sound = bytes_of(case, number), case.column, not choices.below(2)
    pages = index_pages(chunk, 1000)
    first = int(pages[0, 3] == 2)
    sizes, counts = pages[:, 1] + pages[:, 2], pages[first:, 4].copy()
    if not sound:
        changed = choices.pick((sizes, counts))
        at = choices.below(len(changed))
        changed[at] = min(max(choices.odd_number(int(changed[at])), 0), (1 << 31) - 1)
    packed = pack_pages(int(sizes[0]) if first else 0, sizes[first:], counts)
    table = case.chunks[number : number + 1].copy()
    table[0, [FILE, OFFSET]] = 0
    batch = ChunkBatch(FetchedRanges(InMemory(chunk)), decompress, PageHeaders([{0: packed}], 0))
    if column.least:
        case.search(batch, table)
        return
    rows = case.few[number]
    all_rows = np.array([1]), np.array([[0, GROUP]])
    targets = Targets(case.values)
    found = attempt(lambda: batch.search(table, case.stored, targets, MOST, *all_rows))
    cells = attempt(lambda: case.take(batch, table, [rows]))
    if sound:
        assert found is not None
        assert found[1].tolist() == case.matches(case.cells[number])
        assert cells == [[case.cells[number][row] for row in rows]]
    elif found is not None:
        assert ((found[1] >= 0) & (found[1] < GROUP)).all()


@functools.cache
def seeds() -> list[bytes]:
    results = []
    for base in range(len(OPTIONS)):
        for column in range(len(COLUMNS)):
            front = bytes([base, column, 2, 3, 20, 3, 0, 5, 11, 0, 2, 4, 9, 1, 3])
            hows = [how for how in (0, 1, 2, 3, 4, 5, 6, 8) if (how + base + column) % 4 == 0]
            results += [bytes([how]) + front + bytes([1, 1, 0, 1, 2, 3, 4]) for how in hows]
            chunk = bytes_of(Case(Choices(front)), 1)
            if len(chunk) < 400 and (base + column) % 2:
                results.append(b"\7" + front + b"\1" + chunk)
    return results
