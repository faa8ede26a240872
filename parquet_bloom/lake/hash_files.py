"""Read files of the lake and hash their indexed columns: many files concurrently, row group by row group.

Every byte of a remote file is read once: column chunks are fetched (see `fetching`), and the same bytes are decoded and
fingerprinted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.bloom_file import BloomFile
from ..file.column_hashes import ColumnHashes, ExpressionHashes
from ..file.column_reader import DISTANT_WINDOW_BYTES
from ..file.file_columns import find_sole_leaf, holds_elements
from ..file.gram_hashes import GramHashes
from ..file.identity import (
    ColumnFingerprint,
    chunk_bytes_fingerprint,
    footer_fingerprint,
    require_unchanged,
    wait_until_settled,
)
from ..file.page_checks import ReadRange
from ..file.variant_hashes import VariantHashes, find_path_leaves
from ..hashing.column_type import ColumnType
from ..metadata.footer import SchemaLeaf
from ..predicate.key_expression import GRAMS, TUPLE, KeyExpression, is_of_path
from ..predicate.pruning_statistics import ColumnShape
from ..storage import Entry, Source, is_local, open_source
from ..tables.names_in_files import identify_column
from ..tables.table_footers import show_as_table
from ..tables.table_snapshot import TableColumn
from ..util.threads import in_order, stoppable_pool, wait_for_result

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

T = TypeVar("T")

_TOGETHER_BYTES = DISTANT_WINDOW_BYTES  # fetched together, of one file; longer chunks are streamed
_SIDE_BY_SIDE = 64


class FetchedChunks:
    """Some column chunks of a file, available after `fetch`.

    Attributes
    ----------
    num_bytes : bytes of all chunks.
    """

    def __init__(self, source: Source, spans: dict[tuple[int, int], tuple[int, int]]):
        self._source, self._spans = source, spans
        self.num_bytes = sum(length for _, length in spans.values())
        self._data: dict[tuple[int, int], memoryview] = {}

    def fetch(self) -> None:
        """Read the chunks in few requests; the end of the file that the source has cached is not read again."""
        kept_from = self._source.size - len(self._source.kept[0])
        ranges = [(start, stop) for at, length in self._spans.values() for start, stop in _cut(at, length, kept_from)]
        starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
        data, offset_in_data = self._source.gather(starts, stops - starts).data, 0
        for key, (_, length) in self._spans.items():
            self._data[key] = data[offset_in_data : offset_in_data + length]
            offset_in_data += length

    def find_chunk(self, row_group: int, leaf: SchemaLeaf) -> tuple[memoryview, ReadRange] | None:
        """Return the bytes of a chunk, and what reads its file but for them; None if it was not fetched."""
        data = self._data.get((row_group, leaf.index))
        if data is None:
            return None
        chunk_start = self._spans[row_group, leaf.index][0]

        def read(offset: int, length: int) -> bytes | memoryview:
            start = offset - chunk_start
            inside = 0 <= start <= start + length <= len(data)
            return data[start : start + length] if inside else self._source.read_at(offset, length)

        return data, read


def _cut(offset: int, length: int, at: int) -> list[tuple[int, int]]:
    """Return a range as (start, stop), cut in two where position `at` is inside of it."""
    stop = offset + length
    return [(offset, at), (at, stop)] if offset < at < stop else [(offset, stop)]


class Fetching:
    """Reads the column chunks of a file once, both for their values and for the file's fingerprint.

    Parameters
    ----------
    source, sums : the file, and the checksums of its indexed columns.
    """

    def __init__(self, source: Source, sums: ColumnFingerprint):
        self._source, self.sums = source, sums

    def group_row_groups(self, row_groups: Iterable[int]) -> Iterator[tuple[FetchedChunks, list[int]]]:
        """Yield row groups whose column chunks are fetched together, in order; long chunks are left out."""
        leaves = {leaf for _, leaf in self.sums.spans}
        some: list[int] = []
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        total = 0
        for row_group in row_groups:
            new_spans = {(row_group, leaf): self.sums.spans[row_group, leaf] for leaf in leaves}
            new_spans = {key: span for key, span in new_spans.items() if span[1] <= _TOGETHER_BYTES}
            more = sum(length for _, length in new_spans.values())
            if some and total + more > _TOGETHER_BYTES:
                yield FetchedChunks(self._source, spans), some
                some, spans, total = [], {}, 0
            some.append(row_group)
            spans |= new_spans
            total += more
        if some:
            yield FetchedChunks(self._source, spans), some

    @contextmanager
    def chunk(self, chunks: FetchedChunks, row_group: int, leaf: SchemaLeaf) -> Iterator[ReadRange]:
        """Yield what reads a column chunk; on exit it is added to the sums, even if it was not read to its end."""
        fetched = chunks.find_chunk(row_group, leaf)
        if fetched is not None:
            data, read = fetched
            self.sums.add_chunk(row_group, leaf.index, data)
            yield read
            return
        streamed = self.sums.stream_chunk(self._source, row_group, leaf.index)
        yield streamed.read
        streamed.complete()


def fetch_ahead(
    tasks: Iterable[tuple[T, FetchedChunks | None]], most_bytes: int
) -> Generator[tuple[T, ParquetBloomError | None], None, None]:
    """Yield tasks in their order when their chunks have been fetched, with the error if that failed.

    Parameters
    ----------
    most_bytes : limit of fetched bytes that wait; a single task may exceed it.
    """
    waiting: deque[tuple[T, int, Future[ParquetBloomError | None] | None]] = deque()
    total = 0
    with stoppable_pool(_SIDE_BY_SIDE) as pool:
        try:
            for task, chunks in tasks:
                size = 0 if chunks is None else chunks.num_bytes
                while waiting and (_has_come(waiting[0]) or len(waiting) >= _SIDE_BY_SIDE or total + size > most_bytes):
                    first, num_bytes, future = waiting.popleft()
                    yield first, None if future is None else wait_for_result(future)
                    total -= num_bytes
                waiting.append((task, size, None if chunks is None else pool.submit(_fetch, chunks)))
                total += size
            while waiting:
                first, num_bytes, future = waiting.popleft()
                yield first, None if future is None else wait_for_result(future)
        finally:
            for _, _, future in waiting:
                if future is not None:
                    future.cancel()


def _has_come(waiting: tuple[T, int, Future[ParquetBloomError | None] | None]) -> bool:
    return waiting[2] is None or waiting[2].done()


def _fetch(chunks: FetchedChunks) -> ParquetBloomError | None:
    try:
        chunks.fetch()
    except ParquetBloomError as error:
        return error
    return None


TableColumns = tuple[TableColumn, ...] | None
"""The columns of the table that files belong to; None for files that have the names of the columns that are indexed."""

_FILES_AHEAD = 4  # opened concurrently, so that decoding does not wait for them
_REMOTE_FILES_AHEAD = 32  # the same for remote files, where each takes a request
_FETCHED_BYTES = 128 << 20  # of column chunks that wait to be decoded


@dataclass(frozen=True)
class Covered:
    """A column of a file that can be indexed.

    Attributes
    ----------
    leaves : the column; those of an expression.
    column_type, holds : stored type of its values, and their shape.
    hashes : reader of its hashes.
    meaning, other_types : as in `ColumnPart`.
    """

    leaves: tuple[SchemaLeaf, ...]
    column_type: ColumnType
    holds: ColumnShape
    hashes: ColumnHashes | ExpressionHashes | GramHashes | VariantHashes
    meaning: str = ""
    other_types: tuple[ColumnType, ...] = ()


@dataclass
class OpenedDataFile:
    """A file that is being indexed.

    Attributes
    ----------
    entry : entry of the listing.
    file : the opened file; closed when its fingerprint is known.
    stamp : version token, by which it is recognized as unchanged later.
    footer : fingerprint of the footer without filters.
    data : fingerprint of the indexed columns' bytes; set at the end.
    columns : {column: how it is indexed}.
    doubts : {column: reason why it is not indexed}.
    missing : the columns among them that the file does not have.
    fetching : fetches its column chunks; None where they are read as they are decoded.
    """

    entry: Entry
    file: BloomFile
    stamp: bytes
    footer: int
    columns: dict[str, Covered]
    doubts: dict[str, str]
    missing: frozenset[str]
    data: int = 0
    fetching: Fetching | None = None

    @cached_property
    def row_counts(self) -> tuple[int, ...]:
        """Rows of each row group."""
        return tuple(map(self.file.footer.num_rows_of, self.file.row_groups))

    def data_fingerprint(self) -> int:
        """Return the fingerprint of the indexed columns' stored bytes."""
        leaves = [leaf for column in self.columns.values() for leaf in column.leaves]
        return chunk_bytes_fingerprint(self.file.source, self.file.footer, leaves)


@dataclass
class HashedRowGroup:
    """Hashes of one column in one row group of a file, or the end of the file.

    Attributes
    ----------
    opened : the file; None if it could not be opened.
    column, row_group : what was read; the column is empty in the last result of a file.
    hashes : those of the row group, or of each of its zones.
    chunks : fetched bytes, which may be shared with other results.
    error : the error, if reading failed; later results of the file are to be ignored.
    entry : the file as it was listed.
    """

    entry: Entry
    opened: OpenedDataFile | None
    column: str = ""
    row_group: int = 0
    hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    chunks: FetchedChunks | None = None
    error: ParquetBloomError | None = None

    @property
    def last(self) -> bool:
        return not self.column


def open_to_index(
    entry: Entry, columns: Sequence[str], filesystem: FileSystem | None, table_columns: TableColumns = None
) -> OpenedDataFile:
    """Open a file, and determine which of the columns can be indexed.

    Parameters
    ----------
    table_columns : of the table that the file belongs to, which names the columns then.

    Raises
    ------
    ParquetBloomError
        It cannot be opened, or is not a Parquet file.
    """
    source = open_source(entry.path, filesystem, entry)
    try:
        stamp = wait_until_settled(source)
        file = _open_with_tail(source)
        footer = footer_fingerprint(file.footer)
        file = file if table_columns is None else show_as_table(file, table_columns)
        covered: dict[str, Covered] = {}
        doubts: dict[str, str] = {}
        missing = []
        for column in columns:
            try:
                covered[column] = cover_column(file, column, table_columns)
            except ParquetBloomError as error:
                doubts[column] = error.problem
                if isinstance(error, UnknownColumnError):
                    missing.append(column)
        return OpenedDataFile(entry, file, stamp, footer, covered, doubts, frozenset(missing))
    except BaseException:
        source.close()
        raise


def _open_with_tail(source: Source) -> BloomFile:
    """Open the file; keep the last bytes of a remote one, as column chunks may lie in them."""
    if source.path is not None:
        return BloomFile(source, None)
    length = min(source.size, source.first_read)
    end = source.read_at(source.size - length, length)
    source.keep(source.size - length, end)
    file = BloomFile(source, None)  # which keeps no more than its filters
    source.keep(source.size - length, end)
    return file


def cover_column(file: BloomFile, column: str, table_columns: TableColumns = None) -> Covered:
    """Return how a column is indexed; raise ParquetBloomError with the reason if it cannot be.

    Parameters
    ----------
    file : as the table shows it, if `table_columns` are given.
    """
    if isinstance(column, KeyExpression):
        return _cover_expression(file, column, table_columns)
    leaf = find_sole_leaf(file.leaves, column, file.path)
    meaning = "" if table_columns is None else identify_column(file.footer, leaf, column, table_columns)
    hashes = ColumnHashes(file, leaf)
    if not leaf.repeated and leaf.name == column:
        holds = ColumnShape.VALUES
    else:
        holds = ColumnShape.ELEMENTS if holds_elements(leaf, column) else ColumnShape.PARTS
    return Covered((leaf,), hashes.column_type, holds, hashes, meaning)


def find_key_leaves(file: BloomFile, column: str) -> list[SchemaLeaf]:
    """Return the leaves of a file that the values of a column or expression are from; see `find_sole_leaf`."""
    if is_of_path(column):
        return find_path_leaves(file, column)
    names = column.columns if isinstance(column, KeyExpression) else (column,)
    return [find_sole_leaf(file.leaves, name, file.path) for name in names]


def _cover_expression(file: BloomFile, expression: KeyExpression, table_columns: TableColumns) -> Covered:
    if table_columns is not None and expression.function == TUPLE:  # its columns may be renamed, each by itself
        raise ParquetBloomError(f"the expression {expression} is not indexed in tables")
    leaves = find_key_leaves(file, expression)
    meaning = ""
    if table_columns is not None:
        meaning = identify_column(file.footer, leaves[0], expression.columns[0], table_columns)
    if is_of_path(expression):
        values = VariantHashes(file, expression)
        return Covered(tuple(values.leaves), values.column_type, ColumnShape.VALUES, values, meaning)
    for leaf, name in zip(leaves, expression.columns, strict=True):
        if leaf.repeated or leaf.name != name:
            raise ParquetBloomError("it is not a column of single values", path=file.path, column=name)
    if expression.function == GRAMS:
        grams = GramHashes(file, expression, leaves[0])
        return Covered(tuple(leaves), grams.column_type, ColumnShape.VALUES, grams, meaning)
    hashes = ExpressionHashes(file, expression, leaves)
    first, *others = hashes.column_types
    return Covered(tuple(leaves), first, ColumnShape.VALUES, hashes, meaning, tuple(others))


def hash_files(
    entries: Sequence[Entry],
    columns: Sequence[str],
    filesystem: FileSystem | None,
    threads: int,
    table_columns: TableColumns = None,
    memory_limit: int = _FETCHED_BYTES,
    zone_rows: int = 0,
) -> Generator[HashedRowGroup, None, None]:
    """Read and hash files, in their order; close the iterator to cancel.

    Parameters
    ----------
    threads : number of threads that decode and hash.
    table_columns : see `open_to_index`.
    memory_limit : approximate bytes that wait to be decoded.
    zone_rows : rows of a zone, to hash each zone of a row group by itself; 0 to hash row groups.
    """

    def open_entry(entry: Entry) -> HashedRowGroup:
        try:
            return HashedRowGroup(entry, open_to_index(entry, columns, filesystem, table_columns))
        except ParquetBloomError as error:
            return HashedRowGroup(entry, None, error=error)

    def work(result: HashedRowGroup) -> HashedRowGroup:
        if result.opened is None or result.error is not None:
            return result
        try:
            return _read(result, result.opened, zone_rows)
        except ParquetBloomError as error:
            error.path = error.path or result.entry.path
            result.error = error
            return result

    ahead = _FILES_AHEAD if is_local(filesystem, (entry.path for entry in entries)) else _REMOTE_FILES_AHEAD
    failed = False
    with (
        in_order(open_entry, entries, ahead) as files,
        closing(_tasks(files)) as tasks,
        closing(fetch_ahead(tasks, min(memory_limit, _FETCHED_BYTES))) as ready,
        in_order(work, _one_by_one(ready), threads) as done,
    ):
        for result in done:
            failed |= result.error is not None
            if result.last:
                if result.opened is not None and not failed:
                    _finish(result, result.opened)
                failed = False
            yield result


def _tasks(files: Iterator[HashedRowGroup]) -> Generator[tuple[list[HashedRowGroup], FetchedChunks | None], None, None]:
    """Yield the results to read of each file, with the column chunks that are fetched for them together."""
    for result in files:
        opened = result.opened
        if opened is not None:
            try:
                plan = _plan_local if opened.file.source.path is not None else _plan_remote
                yield from plan(result, opened)
            except ParquetBloomError as error:
                result.error = error
        yield [result], None


def _plan_local(result: HashedRowGroup, opened: OpenedDataFile) -> Iterator[tuple[list[HashedRowGroup], None]]:
    for column in opened.columns:
        for row_group in opened.file.row_groups:
            yield [replace(result, column=column, row_group=row_group)], None


def _plan_remote(
    result: HashedRowGroup, opened: OpenedDataFile
) -> Iterator[tuple[list[HashedRowGroup], FetchedChunks]]:
    leaves = [leaf for column in opened.columns.values() for leaf in column.leaves]
    opened.fetching = Fetching(opened.file.source, ColumnFingerprint(opened.file.footer, leaves, opened.file.path))
    for chunks, row_groups in opened.fetching.group_row_groups(opened.file.row_groups):
        pairs = ((row_group, column) for row_group in row_groups for column in opened.columns)
        results = [replace(result, column=column, row_group=row_group, chunks=chunks) for row_group, column in pairs]
        yield results, chunks


def _one_by_one(ready: Iterator[tuple[list[HashedRowGroup], ParquetBloomError | None]]) -> Iterator[HashedRowGroup]:
    """Yield results whose bytes have been fetched, or failed to be."""
    for results, error in ready:
        for result in results:
            result.error = result.error or error
            yield result


def _read(result: HashedRowGroup, opened: OpenedDataFile, zone_rows: int) -> HashedRowGroup:
    if not result.last:
        column = opened.columns[result.column]
        if opened.fetching is None or result.chunks is None:
            result.hashes = hash_row_group(column, result.row_group, zone_rows)
        else:
            with ExitStack() as stack:
                fetched = (opened.fetching.chunk(result.chunks, result.row_group, leaf) for leaf in column.leaves)
                chunks = [*map(stack.enter_context, fetched)]
                result.hashes = hash_row_group(column, result.row_group, zone_rows, *chunks)
            result.chunks = None
    elif opened.fetching is None:
        opened.data = opened.data_fingerprint()
        opened.file.source.check_unchanged()
    return result


def hash_row_group(
    column: Covered, row_group: int, zone_rows: int, *chunks: ReadRange | None
) -> list[NDArray[np.uint64]]:
    """Return the distinct hashes of each zone of a row group; of the row group as a whole if `zone_rows` is 0.

    Parameters
    ----------
    chunks : fetched column chunks, see `ColumnHashes.of`.
    """
    if zone_rows:
        return column.hashes.of_zones(row_group, zone_rows, *chunks)
    return [column.hashes.of(row_group, *chunks)]


def _finish(result: HashedRowGroup, opened: OpenedDataFile) -> None:
    """Complete a file of which all column chunks have been read."""
    if opened.fetching is None:
        return
    opened.data = opened.fetching.sums.fingerprint()
    try:
        require_unchanged(opened.file.source)
    except ParquetBloomError as error:
        error.path = error.path or result.entry.path
        result.error = error
