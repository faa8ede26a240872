"""Column chunks of several files searched together, and rows taken out of them, where something is damaged.

Of files that are sound the rows are those that were written; else what is not refused agrees with itself, with
pyarrow, and in other chunks with what was written. The first bytes of an input choose files, column and values, the
others the damage.
"""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from changes import Spelled
from fuzzing import Choices, as_folder, fuzz, one_line
from support.oracle import oracle
from support.servers.in_memory import InMemory

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.pages.chunk_batch import HAS_BITS, ChunkBatch, PageHeaders, pack_pages
from parquet_bloom.file.pages.decompress import decompress
from parquet_bloom.file.pages.fetched_ranges import FetchedRanges
from parquet_bloom.metadata.page_decode import StoredColumn
from parquet_bloom.metadata.page_match import Targets
from parquet_bloom.metadata.thrift_compact import index_pages
from parquet_bloom.storage import OpenFiles, stat_files

Chunks = NDArray[np.int64]
Cell = bytes | list[bytes | None] | None
"""A stored value; of a column with lists, those of a row."""

ROWS, GROUP, FILES = 24, 12, 2
FILE, OFFSET, NUM_BYTES, NUM_ROWS, CODEC, VALUES, FLAGS = range(7)
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}


class Column(NamedTuple):
    """A column: bytes per value, whether each row has one, the levels of its lists, if it has any, and its flags."""

    width: int
    required: bool
    least: tuple[int, ...] = ()
    max_definition: int = 1
    flags: int = 0


COLUMNS = {
    "k": Column(8, True),
    "n": Column(4, False),
    "s": Column(0, False),
    "f": Column(3, False),
    "l.list.element": Column(8, False, (0, 2), 3),
    "t.list.element": Column(0, False, (0, 2), 3),
    "b": Column(1, False, flags=HAS_BITS),
}
_SMALL = {"data_page_size": 1, "write_batch_size": 4}
_DELTA = {"k": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "t.list.element": "DELTA_LENGTH_BYTE_ARRAY"}
_OTHERS = {
    "k": "BYTE_STREAM_SPLIT",
    "n": "DELTA_BINARY_PACKED",
    "s": "DELTA_LENGTH_BYTE_ARRAY",
    "f": "DELTA_BYTE_ARRAY",
}
_OTHERS |= {"l.list.element": "DELTA_BINARY_PACKED", "t.list.element": "DELTA_BYTE_ARRAY", "b": "RLE"}
OPTIONS: list[dict[str, Any]] = [
    {"compression": "none", "use_dictionary": False, **_SMALL},
    {"compression": "none", "data_page_version": "2.0"},
    {"compression": "snappy", **_SMALL},
    {"compression": "snappy", "use_dictionary": False, "data_page_version": "2.0", **_SMALL},
    {"compression": "zstd", "data_page_version": "2.0", **_SMALL},
    {"compression": "gzip", "use_dictionary": False},
    {"compression": "lz4", "use_dictionary": False, **_SMALL},
    {"compression": "brotli", "data_page_version": "2.0"},
    {"compression": "snappy", "use_dictionary": ["n", "f"], "column_encoding": _DELTA, **_SMALL},
    {"compression": "none", "use_dictionary": False, "large": True, **_SMALL},
    {"compression": "snappy", "large": True, "data_page_version": "2.0", **_SMALL},
    {"compression": "zstd", "large": True, **_SMALL},
    {"compression": "zstd", "use_dictionary": False, "column_encoding": _OTHERS},
    {"compression": "none", "use_dictionary": False, "column_encoding": _OTHERS, "data_page_version": "2.0", **_SMALL},
]


def _columns(number: int, large: bool) -> dict[str, list[Any]]:
    """Return the rows of a file; where they are large, no chunk of texts is read whole to take a few of its rows."""
    rows = range(number * ROWS, (number + 1) * ROWS)
    noise = np.random.default_rng(number)
    words = [noise.bytes(4000).hex() if large else f"v{row % 9}" * (row % 3) for row in rows]
    return {
        "k": [row // 2 * 7 for row in rows],
        "n": [None if row % 5 == 2 else row % 11 for row in rows],
        "s": [None if row % 7 == 3 else word for row, word in zip(rows, words, strict=True)],
        "f": [None if row % 4 == 1 else bytes([row % 6, 1, row % 3]) for row in rows],
        "l": [[row, None, row + 1][: row % 4] if row % 6 else None for row in rows],
        "t": [[word, f"v{row}"][: row % 3] if row % 8 else None for row, word in zip(rows, words, strict=True)],
        "b": [None if row % 5 == 1 else row % 3 == 0 for row in rows],
    }


_SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("f", pa.binary(3)),
        ("l", pa.list_(pa.int64())),
        ("t", pa.list_(pa.string())),
        ("b", pa.bool_()),
    ]
)


def stored_as(value: Any, width: int) -> Any:
    """Return a value as pages have it."""
    if isinstance(value, list):
        return [stored_as(element, width) for element in value]
    if isinstance(value, int):
        return value.to_bytes(width, "little", signed=True)
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class Base:
    """Files that are alike, where the chunks of each column are, and what is in each of these."""

    files: list[bytes]
    chunks: dict[str, Chunks]
    cells: dict[str, list[list[Cell]]]


@functools.cache
def base_of(number: int) -> Base:
    options = dict(OPTIONS[number])
    large = options.pop("large", False)
    files: list[bytes] = []
    chunks: dict[str, list[list[int]]] = {name: [] for name in COLUMNS}
    cells: dict[str, list[list[Cell]]] = {name: [] for name in COLUMNS}
    for file in range(FILES):
        sink, columns = io.BytesIO(), _columns(file, large)
        pq.write_table(pa.table(columns, schema=_SCHEMA), sink, row_group_size=GROUP, **options)
        files.append(sink.getvalue())
        metadata = pq.read_metadata(sink)
        for group in range(ROWS // GROUP):
            for i in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(i)
                start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
                name = chunk.path_in_schema
                size, codec = chunk.total_compressed_size, _CODECS[chunk.compression]
                chunks[name].append([file, start, size, GROUP, codec, chunk.num_values, COLUMNS[name].flags])
                part = columns[name.partition(".")[0]][group * GROUP : (group + 1) * GROUP]
                cells[name].append([stored_as(value, COLUMNS[name].width) for value in part])
    return Base(files, {name: np.array(rows, np.int64) for name, rows in chunks.items()}, cells)


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

    def chunk(self, number: int) -> bytes:
        file, start, size = self.base.chunks[self.name][number, :3].tolist()
        return self.base.files[file][start : start + size]


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
    except ParquetBloomError as error:
        one_line(error)
        return None


@contextmanager
def opened(case: Case) -> Iterator[ChunkBatch]:
    names = [f"{number}.parquet" for number in range(len(case.files))]
    with as_folder(dict(zip(names, case.files, strict=True))) as folder:
        sources = [source for source in stat_files([f"{folder}/{name}" for name in names]) if source is not None]
        files = OpenFiles([source.path for source in sources], [source.identity for source in sources])
        assert files.open()
        try:
            yield ChunkBatch(files, decompress, PageHeaders([{} for _ in sources], 1 << 16))
        finally:
            files.close()


def front(base: int, column: int) -> bytes:
    return bytes([base, column, 2, 3, 20, 3, 0, 5, 11, 0, 2, 4, 9, 1, 3])


BASES = [(base, column) for base in range(len(OPTIONS)) for column in range(len(COLUMNS))]


@functools.cache
def good_recipes() -> list[bytes]:
    return [front(*base) + bytes([1, 1, 0, 1, 2, 3, 4]) for base in BASES]


@functools.cache
def good_damage() -> list[bytes]:
    results = [bytes([how]) + recipe for how in range(3) for recipe in good_recipes()[how::3]]
    for base in BASES[1::2]:
        chunk = Case(Choices(front(*base))).chunk(1)
        if len(chunk) < 400:
            results.append(b"\3" + front(*base) + b"\1" + chunk)
    return results


@fuzz(recipes=good_damage, longest=1024, examples=30)
def test_damaged_chunks(data: bytes) -> None:
    """A chunk has other bytes after or in a page's header, in a page, or throughout: the others do not suffer."""
    choices = Choices(data)
    how, case = choices.below(4), Case(choices)
    number = choices.below(len(case.chunks))
    chunk = case.chunk(number)
    starts = [0]
    while starts[-1] < len(chunk):
        header, end = oracle.read_struct(chunk, starts[-1])
        starts.append(end + header.value(3))
    if how == 3:
        new, size = choices.rest(), int(case.chunks[number, NUM_BYTES])
        chunk = new[:size].ljust(size, b"\0") if size <= 1024 else new or b"\0"
    else:
        start = choices.pick(starts[:-1])
        header, body = oracle.read_struct(chunk, start)
        if how == 0:  # what follows moves
            end = min(len(chunk), start + choices.pick((40, 80, 10_000, 100_000)))
            chunk = chunk[:start] + choices.damage(chunk[start:end]) + chunk[end:] or b"\0"
        elif how == 1:
            end = min(body + header.value(3), body + choices.pick((8, 24, 100, 100_000)))
            damaged = choices.damage(chunk[body:end], 2)[: end - body].ljust(end - body, b"\0")
            chunk = chunk[:body] + damaged + chunk[end:]
        else:
            chunk = chunk[:start] + Spelled.of(header).changed(choices) + chunk[body:]
    file = int(case.chunks[number, FILE])
    original = case.chunks[number].copy()
    case.chunks[number, OFFSET], case.chunks[number, NUM_BYTES] = len(case.files[file]), len(chunk)
    case.files[file] += chunk
    sound = [i for i in range(len(case.chunks)) if i != number]
    alone = case.chunks[number : number + 1]
    with opened(case) as batch:
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
        if (rows or cells) and original[NUM_BYTES] == len(chunk):
            start, complete = int(original[OFFSET]), case.base.files[file]
            complete = complete[:start] + chunk + complete[start + len(chunk) :]
            name = case.name.partition(".")[0]
            try:
                group = pq.ParquetFile(io.BytesIO(complete)).read_row_group(
                    number % (ROWS // GROUP), columns=[name], use_threads=False
                )
                group.validate(full=True)
                expected = [stored_as(value, case.column.width) for value in group[name].to_pylist()]
            except (pa.ArrowException, OSError, ValueError):
                expected = None
            if expected is not None:
                assert cells is None or cells[0] == expected, f"{cells}, where pyarrow has {expected}"
                assert rows is None or rows[0] == case.matches(expected), f"{rows}, where pyarrow has {expected}"
        case.require_sound(batch, sound)  # whatever the others ended in


@fuzz(recipes=good_recipes, longest=1024, examples=15)
def test_other_tables_of_chunks(data: bytes) -> None:
    """The table of chunks has another number: chunks are beyond the file, or have a negative size, or another codec."""
    choices = Choices(data)
    case = Case(choices)
    sound = case.chunks.copy()
    for _ in range(1 + choices.below(2)):
        number, field = choices.below(len(sound)), choices.below(6)
        case.chunks[number, field] = choices.odd_number(int(sound[number, field]))
    changed = (case.chunks != sound).any(axis=1)
    counts = case.chunks[:, NUM_ROWS].tolist()
    few = [[row for row in part if row < num_rows] for part, num_rows in zip(case.few, counts, strict=True)]
    with opened(case) as batch:
        case.require_sound(batch, [*range(len(sound))], sound)
        total = sum(len(case.matches(part)) for part in case.cells)
        for most in {0, max(total - 1, 0), total, total + 1}:
            assert (case.search(batch, sound, most) is None) == (total > most)
        rows = attempt(lambda: case.search(batch, case.chunks))
        cells = None if case.column.least else attempt(lambda: case.take(batch, case.chunks, few))
        for i in range(len(sound)):
            if not changed[i]:
                assert rows is None or rows[i] == case.matches(case.cells[i])
                assert cells is None or cells[i] == [case.cells[i][row] for row in case.few[i]]
                continue
            other = case.chunks[i] != sound[i]
            if not other[[FILE, OFFSET]].any():  # else the chunk may be another one
                if other[NUM_ROWS] or (other[VALUES] and case.column.least):
                    assert rows is None or not case.values, "rows are lost"
                assert rows is None or rows[i] == case.matches(case.cells[i])
        case.require_sound(batch, [*range(len(sound))], sound)


@fuzz(recipes=good_recipes, longest=1024, examples=10)
def test_files_that_end_early(data: bytes) -> None:
    choices = Choices(data)
    case, file = Case(choices), choices.below(FILES)
    size = choices.below(len(case.files[file]) + 1)
    case.files[file] = case.files[file][:size]
    whole = (case.chunks[:, FILE] != file) | (case.chunks[:, OFFSET] + case.chunks[:, NUM_BYTES] <= size)
    with opened(case) as batch:
        rows = attempt(lambda: case.search(batch, case.chunks))
        assert (rows is not None) == whole.all()
        case.require_sound(batch, np.flatnonzero(whole).tolist())


@fuzz(recipes=good_recipes, longest=1024, examples=15)
def test_other_arguments(data: bytes) -> None:
    """Rows and counts that do not fit together, and levels and widths that the column does not have."""
    choices = Choices(data)
    case = Case(choices)
    column, targets = case.column, Targets(case.values)
    counts = np.array([choices.odd_number(len(part)) for part in case.few], np.int64)
    rows = np.array([choices.odd_number(row) for part in case.few for row in part], np.int64)
    least = np.array([choices.odd_number(level) for level in column.least or (0, 2)], np.int64)
    width, most = choices.odd_number(column.width), min(choices.odd_number(MOST), 1 << 20)
    highest = min(max(choices.odd_number(column.max_definition), -1), 300)
    chunks = case.chunks[:, : 6 + choices.below(2)].copy() if choices.below(4) == 3 else case.chunks
    with opened(case) as batch:
        for make in (
            lambda: make_stored(column._replace(width=width)),
            lambda: make_stored(column._replace(required=not column.required)),
            lambda: StoredColumn(width, least, highest),
        ):
            for use in (
                lambda stored: batch.take(chunks, stored, counts, rows),
                lambda stored: batch.search(chunks, stored, targets, most),
                lambda stored: batch.search(chunks, stored, Targets([*case.values, b""]), most, taken=True),
                lambda stored: batch.search(chunks, stored, targets, most, counts, rows[:, None]),
            ):
                try:
                    use(make())
                except (ParquetBloomError, ValueError) as error:
                    one_line(error)
        case.require_sound(batch, [*range(len(case.chunks))])


@fuzz(ParquetBloomError, recipes=good_recipes, longest=1024, examples=20)
def test_pages_by_index(data: bytes) -> None:
    """Pages are told of by a page index, not by their headers; perhaps it has another number."""
    choices = Choices(data)
    case = Case(choices)
    number = choices.below(len(case.chunks))
    chunk, is_sound = case.chunk(number), not choices.below(2)
    pages = index_pages(chunk, 1000)
    first = int(pages[0, 3] == 2)
    sizes, counts = pages[:, 1] + pages[:, 2], pages[first:, 4].copy()
    if not is_sound:
        changed = choices.pick((sizes, counts))
        at = choices.below(len(changed))
        changed[at] = min(max(choices.odd_number(int(changed[at])), 0), (1 << 31) - 1)
    packed = pack_pages(int(sizes[0]) if first else 0, sizes[first:], counts)
    table = case.chunks[number : number + 1].copy()
    table[0, [FILE, OFFSET]] = 0
    batch = ChunkBatch(FetchedRanges(InMemory(chunk)), decompress, PageHeaders([{0: packed}], 0))
    if case.column.least:
        case.search(batch, table)
        return
    every = np.array([1]), np.array([[0, GROUP]])
    found = attempt(lambda: batch.search(table, case.stored, Targets(case.values), MOST, *every))
    cells = attempt(lambda: case.take(batch, table, [case.few[number]]))
    if is_sound:
        assert found is not None
        assert found[1].tolist() == case.matches(case.cells[number])
        assert cells == case.some_cells([number])
    elif found is not None:
        assert ((found[1] >= 0) & (found[1] < GROUP)).all()
