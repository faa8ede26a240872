"""What a file's footer, and the headers of its filters, tell of a column in each row group: worked out once a file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..errors import BrokenFilterError, EncryptedFileError, MalformedFooterError
from ..hashing import column_type as physical
from ..hashing.column_type import ColumnType, Domain
from ..metadata.filter_header import MAX_HEADER_BYTES, read_header
from ..metadata.footer import Leaf, Statistics
from ..predicate.statistics import ColumnShape, PruningStatistics, PruningStatisticsArray
from .columns import find_leaves, holds_elements, type_of

if TYPE_CHECKING:
    from .cache.entry import CachedFooter
    from .chunk_filter import ChunkFilter
    from .reader import BloomFile

UNREAD = -1

_MAX_VIEWS = 32  # sets of columns that are remembered for a file
_LAYOUTS: dict[tuple[object, ...], int] = {}
_NUMBERS = count()


class ColumnStatistics:
    """Facts of one column of a file; each array has an entry a row group.

    Attributes
    ----------
    leaf : the column.
    evidence : what is known without the filters.
    starts : int64, where the filter's bitset begins in the file.
    num_bytes : int64, the bitset's size; 0 for a filter that cannot be used, UNREAD before its header was read.
    problems : why the filter cannot be used, or None.
    """

    __slots__ = ("_places", "evidence", "leaf", "num_bytes", "problems", "starts")

    def __init__(self, file: BloomFile, leaf: Leaf):
        self.leaf = leaf
        column_type = type_of(leaf)
        records = file.footer.column_chunks(leaf)
        self.evidence = PruningStatisticsArray.of(
            column_type, [_chunk_statistics(file, i, leaf, column_type, record) for i, record in enumerate(records)]
        )
        self._places = [
            None
            if isinstance(record, EncryptedFileError | MalformedFooterError)
            else record[["filter_offset", "filter_length"]].item()
            for record in records
        ]
        self.starts = np.zeros(file.num_row_groups, np.int64)
        self.num_bytes = np.full(file.num_row_groups, UNREAD, np.int64)
        self.problems: list[str | None] = [None] * file.num_row_groups

    def decode_header(self, known: CachedFooter, row_group: int, data: bytes, data_start: int) -> bool:
        """Know what the header of a filter says, which stands in some bytes of the file; False if it is not so simple.

        Parameters
        ----------
        known : what is remembered of the file; the header will be.
        data, data_start : bytes of the file, and where in it they begin.
        """
        place = self._places[row_group]
        if place is None or not known.footer.filters_apart or place[0] < data_start:
            return False
        begin, length = place[0] - data_start, place[1]
        try:
            header = read_header(data[begin : begin + min(length, MAX_HEADER_BYTES)])
        except BrokenFilterError:
            return False
        if header.problem or header.total_bytes != length:
            return False
        known.filter_headers[place[0]] = data[begin : begin + header.header_bytes]
        self.starts[row_group] = place[0] + header.header_bytes
        self.num_bytes[row_group] = header.num_bytes
        return True

    def filter_offset(self, row_group: int) -> int:
        """Where a filter begins in the file by the footer; -1 where that is odd."""
        place = self._places[row_group]
        return -1 if place is None else place[0]

    def load_header(self, chunk: ChunkFilter) -> None:
        """Know from now on what the header of a filter says, which is read if it was not."""
        problem = self.problems[chunk.row_group] = chunk.header_problem
        if not problem:
            self.starts[chunk.row_group] = chunk.offset + chunk.header.header_bytes
        self.num_bytes[chunk.row_group] = 0 if problem else chunk.num_bytes  # the last: threads take it as a sign


def _find_shape(leaf: Leaf, name: str, ignore_case: bool) -> ColumnShape:
    if not leaf.repeated and leaf.name.lower() == name.lower():
        return ColumnShape.VALUES
    return ColumnShape.ELEMENTS if holds_elements(leaf, name, ignore_case) else ColumnShape.PARTS


def _chunk_statistics(
    file: BloomFile,
    row_group: int,
    leaf: Leaf,
    column_type: ColumnType,
    record: np.void | EncryptedFileError | MalformedFooterError,
) -> PruningStatistics:
    if isinstance(record, EncryptedFileError | MalformedFooterError):
        return PruningStatistics(column_type, doubt=record.problem)
    if record["encrypted"]:  # what its writer says of it is said under encryption: nobody answers for the rest
        return PruningStatistics(column_type, doubt="the column is encrypted")
    footer = file.footer
    statistics = footer.statistics(record)
    low, high = decode_bounds(statistics, column_type, leaf.index in footer.type_ordered)
    has_filter = file.has_filter(record) and column_type.hashable and not footer.empty_row_groups[row_group]
    return PruningStatistics(
        column_type,
        footer.chunk_has_values(row_group, leaf, record, statistics),
        low,
        high,
        # A BOOLEAN column's filter is not asked: some writers leave it empty.
        has_filter and not file.is_draft,
        doubt=f"its filter is read under variant {file.variant}" if has_filter and file.is_draft else None,
        has_nulls=footer.chunk_has_nulls(row_group, leaf, record, statistics),
    )


def decode_bounds(
    statistics: Statistics, column_type: ColumnType, type_ordered: bool
) -> tuple[Domain | None, Domain | None]:
    """The smallest and largest value that a column chunk can hold, as domain values; None where nothing is known.

    Statistics count only where the format says what order they are in: under a declared type order, or in the
    deprecated fields for signed numbers. NaN bounds nothing, and bounds the wrong way round are none.
    """
    low_stored, high_stored = statistics.min_value, statistics.max_value
    if not physical.ordered(column_type) or not (type_ordered or physical.legacy_ordered(column_type)):
        return None, None
    if low_stored is None and high_stored is None and physical.legacy_ordered(column_type):
        low_stored, high_stored = statistics.legacy_min, statistics.legacy_max
    low = None if low_stored is None else physical.decode(low_stored, column_type)
    high = None if high_stored is None else physical.decode(high_stored, column_type)
    if any(bound is not None and physical.is_nan(bound) for bound in (low, high)):
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    return low, high


@dataclass(frozen=True, eq=False)
class FileStatistics:
    """Facts of the columns that a predicate looks at.

    Attributes
    ----------
    columns : one entry a name; None for a column that the file does not have, or has twice.
    holds : what the values of each column are of what its name means.
    missing : the columns that the file does not have.
    doubts : why columns that it has cannot be told apart.
    num_rows : of each row group; None for one without rows.
    layout : a number, the same for files that can be judged together: their columns are of the same types.
    beside : what was made of them and of indexes beside the file, by who did (see `prune.zone_rows`).
    """

    columns: dict[str, ColumnStatistics | None]
    holds: dict[str, ColumnShape]
    missing: tuple[str, ...]
    doubts: tuple[str, ...]
    num_rows: tuple[int | None, ...]
    layout: int
    beside: dict[Hashable, Any] = field(default_factory=dict)


class ColumnCompatibility(Protocol):
    """Says which columns of a file an engine reads as something else than what is stored.

    Facts are kept for the next time, so two of the same kind must be equal, and have one hash.
    """

    def doubts(self, file: BloomFile) -> Mapping[str, str]:
        """{name: why what the file tells of the column says nothing of what the engine reads}."""

    def __hash__(self) -> int: ...


def cached_statistics(
    known: CachedFooter, key: tuple[tuple[str, ...], bool, ColumnCompatibility | None]
) -> FileStatistics | None:
    """Return what `file_statistics` returned before for the same names, case and trust; None if it was not called."""
    facts: FileStatistics | None = known.derived.get("file_statistics", {}).get(key)
    return facts


def file_statistics(
    file: BloomFile, names: Iterable[str], ignore_case: bool = False, trust: ColumnCompatibility | None = None
) -> FileStatistics:
    """The facts of some columns of a file; they are kept with its footer.

    Parameters
    ----------
    names : dotted names, as a predicate has them.
    ignore_case : whether names match whatever their case, as in Spark.
    trust : which columns are not looked at; None for none.
    """
    key = (tuple(names), ignore_case, trust)
    derived = file.cached.derived
    views: dict[tuple[tuple[str, ...], bool, ColumnCompatibility | None], FileStatistics] = derived.setdefault(
        "file_statistics", {}
    )
    columns: dict[int, ColumnStatistics] = derived.setdefault("column_statistics", {})
    if key not in views:
        found: dict[str, ColumnStatistics | None] = {}
        holds: dict[str, ColumnShape] = {}
        missing, doubts = [], []
        distrusted = trust.doubts(file) if trust else {}
        for name in key[0]:
            leaves = find_leaves(file.leaves, name, ignore_case)
            if not leaves:
                missing.append(name)
            elif name in distrusted:
                doubts.append(f"'{name}': {distrusted[name]}")
                leaves = []
            if len(leaves) > 1:
                doubts.append(f"'{name}' stands for {len(leaves)} columns of the file")
            found[name] = None
            if len(leaves) == 1:
                index, holds[name] = leaves[0].index, _find_shape(leaves[0], name, ignore_case)
                found[name] = columns.get(index) or columns.setdefault(index, ColumnStatistics(file, leaves[0]))
        groups = zip(file.footer.empty_row_groups, file.footer.row_groups["num_rows"].tolist(), strict=True)
        num_rows = [None if empty else count for empty, count in groups]
        types = (None if facts is None else facts.evidence.column_type for facts in found.values())
        layout = _LAYOUTS.setdefault((*types, *holds.values(), len(missing), *doubts), next(_NUMBERS))
        if len(views) >= _MAX_VIEWS:
            views.clear()
        views[key] = FileStatistics(found, holds, tuple(missing), tuple(doubts), tuple(num_rows), layout)
    return views[key]
