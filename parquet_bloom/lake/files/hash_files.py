"""Read files of the lake and hash their indexed columns: many files concurrently, row group by row group.

Every byte of a remote file is read once: column chunks are fetched (see `fetching`), and the same bytes are decoded and
fingerprinted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError, UnknownColumnError
from ...file.column_hashes import ColumnHashes
from ...file.columns import find_leaves, holds_elements
from ...file.fingerprint import ColumnFingerprint, chunk_bytes_fingerprint, footer_fingerprint
from ...file.identity import require_unchanged, wait_until_settled
from ...file.key_hashes import ExpressionHashes
from ...file.page_checks import ReadRange
from ...file.reader import BloomFile
from ...hashing.column_type import ColumnType
from ...metadata.footer import Leaf
from ...predicate.key_expression import KeyExpression
from ...predicate.statistics import ColumnShape
from ...storage import Entry, Source, is_local, open_source
from ...tables.column_identity import identify_column
from ...tables.footers import show_as_table
from ...tables.snapshot import TableColumn
from ...util.threads import in_order
from .fetching import FetchedChunks, Fetching, fetch_ahead

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

    leaves: tuple[Leaf, ...]
    column_type: ColumnType
    holds: ColumnShape
    hashes: ColumnHashes | ExpressionHashes
    meaning: str = ""
    other_types: tuple[ColumnType, ...] = ()


@dataclass
class OpenedFile:
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
class RowGroupResult:
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
    opened: OpenedFile | None
    column: str = ""
    row_group: int = 0
    hashes: list[NDArray[np.uint64]] = field(default_factory=list)
    chunks: FetchedChunks | None = None
    error: ParquetBloomError | None = None

    @property
    def last(self) -> bool:
        return not self.column


def open_to_index(
    entry: Entry, columns: Sequence[str], filesystem: object | None, table_columns: TableColumns = None
) -> OpenedFile:
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
        return OpenedFile(entry, file, stamp, footer, covered, doubts, frozenset(missing))
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


def find_column_leaf(file: BloomFile, column: str) -> Leaf:
    """Return the leaf of a file for a column.

    Raises
    ------
    UnknownColumnError
        There is none, or more than one.
    """
    leaves = find_leaves(file.leaves, column)
    if len(leaves) != 1:
        problem = "no such column" if not leaves else f"the name matches {len(leaves)} columns"
        raise UnknownColumnError(problem, path=file.path, column=column)
    (leaf,) = leaves
    if any(f"{other.name}.".lower().startswith(f"{column}.".lower()) for other in file.leaves if other is not leaf):
        # A case-insensitive query may mean the other column.
        raise UnknownColumnError("other columns differ from it by their case only", path=file.path, column=column)
    return leaf


def cover_column(file: BloomFile, column: str, table_columns: TableColumns = None) -> Covered:
    """Return how a column is indexed; raise ParquetBloomError with the reason if it cannot be.

    Parameters
    ----------
    file : as the table shows it, if `table_columns` are given.
    """
    if isinstance(column, KeyExpression):
        return _cover_expression(file, column, table_columns)
    leaf = find_column_leaf(file, column)
    meaning = "" if table_columns is None else identify_column(file.footer, leaf, column, table_columns)
    hashes = ColumnHashes(file, leaf)
    if not leaf.repeated and leaf.name == column:
        holds = ColumnShape.VALUES
    else:
        holds = ColumnShape.ELEMENTS if holds_elements(leaf, column) else ColumnShape.PARTS
    return Covered((leaf,), hashes.column_type, holds, hashes, meaning)


def find_key_leaves(file: BloomFile, column: str) -> list[Leaf]:
    """Return the leaves of a file that the values of a column or expression are from; see `find_column_leaf`."""
    names = column.columns if isinstance(column, KeyExpression) else (column,)
    return [find_column_leaf(file, name) for name in names]


def _cover_expression(file: BloomFile, expression: KeyExpression, table_columns: TableColumns) -> Covered:
    if table_columns is not None:  # whose columns may be renamed, each by itself
        raise ParquetBloomError(f"the expression {expression} is not indexed in tables")
    leaves = find_key_leaves(file, expression)
    for leaf, name in zip(leaves, expression.columns, strict=True):
        if leaf.repeated or leaf.name != name:
            raise ParquetBloomError("it is not a column of single values", path=file.path, column=name)
    hashes = ExpressionHashes(file, expression, leaves)
    first, *others = hashes.column_types
    return Covered(tuple(leaves), first, ColumnShape.VALUES, hashes, "", tuple(others))


def hash_files(
    entries: Sequence[Entry],
    columns: Sequence[str],
    filesystem: object | None,
    threads: int,
    table_columns: TableColumns = None,
    memory_limit: int = _FETCHED_BYTES,
    zone_rows: int = 0,
) -> Generator[RowGroupResult, None, None]:
    """Read and hash files, in their order; close the iterator to cancel.

    Parameters
    ----------
    threads : number of threads that decode and hash.
    table_columns : see `open_to_index`.
    memory_limit : approximate bytes that wait to be decoded.
    zone_rows : rows of a zone, to hash each zone of a row group by itself; 0 to hash row groups.
    """

    def open_entry(entry: Entry) -> RowGroupResult:
        try:
            return RowGroupResult(entry, open_to_index(entry, columns, filesystem, table_columns))
        except ParquetBloomError as error:
            return RowGroupResult(entry, None, error=error)

    def work(result: RowGroupResult) -> RowGroupResult:
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


def _tasks(files: Iterator[RowGroupResult]) -> Generator[tuple[list[RowGroupResult], FetchedChunks | None], None, None]:
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


def _plan_local(result: RowGroupResult, opened: OpenedFile) -> Iterator[tuple[list[RowGroupResult], None]]:
    for column in opened.columns:
        for row_group in opened.file.row_groups:
            yield [replace(result, column=column, row_group=row_group)], None


def _plan_remote(result: RowGroupResult, opened: OpenedFile) -> Iterator[tuple[list[RowGroupResult], FetchedChunks]]:
    leaves = [leaf for column in opened.columns.values() for leaf in column.leaves]
    opened.fetching = Fetching(opened.file.source, ColumnFingerprint(opened.file.footer, leaves, opened.file.path))
    for chunks, row_groups in opened.fetching.group_row_groups(opened.file.row_groups):
        pairs = ((row_group, column) for row_group in row_groups for column in opened.columns)
        results = [replace(result, column=column, row_group=row_group, chunks=chunks) for row_group, column in pairs]
        yield results, chunks


def _one_by_one(ready: Iterator[tuple[list[RowGroupResult], ParquetBloomError | None]]) -> Iterator[RowGroupResult]:
    """Yield results whose bytes have been fetched, or failed to be."""
    for results, error in ready:
        for result in results:
            result.error = result.error or error
            yield result


def _read(result: RowGroupResult, opened: OpenedFile, zone_rows: int) -> RowGroupResult:
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


def _finish(result: RowGroupResult, opened: OpenedFile) -> None:
    """Complete a file of which all column chunks have been read."""
    if opened.fetching is None:
        return
    opened.data = opened.fetching.sums.fingerprint()
    try:
        require_unchanged(opened.file.source)
    except ParquetBloomError as error:
        error.path = error.path or result.entry.path
        result.error = error
