"""Column statistics from a file's footer and filter headers, per row group; computed once per file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import EncryptedFileError, MalformedFooterError
from ..hashing.column_type import (
    ColumnType,
    Domain,
    Kind,
    decimal_length,
    decode,
    integer_range,
    is_legacy_ordered,
    is_nan,
    is_ordered,
    may_wrap,
)
from ..metadata.footer import Footer, Leaf, Statistics
from ..metadata.writer_rules import SHORTEST_CUT, Doubt
from ..predicate.reason import UNDECIDED, Reason, make_ignored
from ..predicate.statistics import NO, ColumnShape, CutBound, PruningStatistics, PruningStatisticsArray
from .columns import find_leaves, holds_elements, type_of

if TYPE_CHECKING:
    from .cache.entry import CachedFooter
    from .chunk_filter import ChunkFilter
    from .reader import BloomFile

UNREAD = -1

_MAX_VIEWS = 32  # sets of columns that are cached for a file
_LAYOUTS: dict[tuple[object, ...], int] = {}
_NUMBERS = count()


class StatisticsPart(NamedTuple):
    """The row groups from `start` to `stop` of arrays over those of many files, which are not copied.

    Attributes
    ----------
    evidence, locations : as in `ColumnStatistics`.
    bitsets : its `starts` and `num_bytes`.
    """

    evidence: PruningStatisticsArray
    locations: NDArray[np.int64]
    bitsets: NDArray[np.int64]
    start: int
    stop: int


def make_bitsets(count: int) -> NDArray[np.int64]:
    """Return `StatisticsPart.bitsets` of filters of which no header was read."""
    return np.array([[0], [UNREAD]], np.int64).repeat(count, axis=1)


def join_parts(parts: Sequence[StatisticsPart]) -> tuple[PruningStatisticsArray, NDArray[np.int64]]:
    """Concatenate evidence and locations of a column in files of one layout."""
    runs = [parts[0]]
    for part in parts[1:]:
        last = runs[-1]
        if part.evidence is last.evidence and part.start == last.stop:
            runs[-1] = last._replace(stop=part.stop)
        else:
            runs.append(part)
    evidence = PruningStatisticsArray.joined([run.evidence.part(run.start, run.stop) for run in runs])
    locations = [run.locations[run.start : run.stop] for run in runs]
    return evidence, locations[0] if len(locations) == 1 else np.concatenate(locations)


class ColumnStatistics:
    """Statistics of one column of a file; each array has one entry per row group.

    Attributes
    ----------
    leaf : the column.
    stored_name : its name in the file, where a table gives it another one.
    evidence : the statistics of the footer, without filters.
    locations : int64 of shape (row groups, 2): offset and length of the filter with its header, by the footer; the
        offset is -1 where there is none, or the column chunk is malformed.
    starts : int64, offset of the filter's bitset in the file.
    num_bytes : int64, size of the bitset; 0 for a filter that cannot be used, UNREAD before its header is read.
    problems : why the filter cannot be used, or None.
    """

    __slots__ = ("_parts", "leaf", "num_bytes", "problems", "starts", "stored_name")

    def __init__(self, leaf: Leaf, stored_name: str, parts: StatisticsPart):
        self.leaf = leaf
        self.stored_name = stored_name
        self._parts = parts
        count = parts.stop - parts.start
        self.starts, self.num_bytes = parts.bitsets[:, parts.start : parts.stop]
        self.problems: list[str | None] = [None] * count

    @classmethod
    def of(cls, file: BloomFile, leaf: Leaf) -> ColumnStatistics:
        """Return the statistics of a column of a file."""
        column_type = type_of(leaf)
        records = file.footer.column_chunks(leaf)
        evidence = PruningStatisticsArray.of(
            column_type, [_chunk_statistics(file, i, leaf, column_type, record) for i, record in enumerate(records)]
        )
        locations = [
            (-1, -1)
            if isinstance(record, EncryptedFileError | MalformedFooterError)
            else record[["filter_offset", "filter_length"]].item()
            for record in records
        ]
        of_footer = np.array(locations, np.int64).reshape(-1, 2)
        part = StatisticsPart(evidence, of_footer, make_bitsets(len(records)), 0, len(records))
        return cls(leaf, file.footer.stored_leaf(leaf).name, part)

    @property
    def evidence(self) -> PruningStatisticsArray:
        return join_parts([self._parts])[0]

    @property
    def locations(self) -> NDArray[np.int64]:
        return join_parts([self._parts])[1]

    def is_bounded(self, row_group: int) -> bool:
        """Return whether the values of a row group have bounds, or there are none."""
        evidence, number = self._parts.evidence, self._parts.start + row_group
        return bool(evidence.low_known[number] and evidence.high_known[number]) or evidence.has_values[number] == NO

    @property
    def part(self) -> StatisticsPart:
        """The evidence and the locations as a part of arrays over more row groups."""
        return self._parts

    def note_header(self, cached: CachedFooter, row_group: int, header: bytes, offset: int, num_bytes: int) -> None:
        """Take the usual header of a filter, which was read where `locations` says."""
        cached.filter_headers[offset] = header
        self.starts[row_group] = offset + len(header)
        self.num_bytes[row_group] = num_bytes  # last: it signals other threads

    def load_header(self, chunk: ChunkFilter) -> None:
        """Take the header of a filter, which is read if it was not."""
        problem = self.problems[chunk.row_group] = chunk.header_problem
        if not problem:
            self.starts[chunk.row_group] = chunk.offset + chunk.header.header_bytes
        self.num_bytes[chunk.row_group] = 0 if problem else chunk.num_bytes  # last: it signals other threads


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
    if record["encrypted"]:  # the writer's own statistics are encrypted: unencrypted ones cannot be trusted
        return PruningStatistics(column_type, doubt="the column is encrypted")
    footer = file.footer
    statistics = footer.statistics(record)
    low, high = decode_leaf_bounds(footer, leaf, statistics)
    # Filters of BOOLEAN columns are not probed: some writers leave them empty.
    has_filter = file.has_filter(record) and column_type.hashable and not footer.empty_row_groups[row_group]
    has_filter = has_filter and not footer.doubts_of(leaf) & Doubt.FILTERS
    doubt = None
    if has_filter and file.is_draft:
        doubt = f"its filter is read under variant {file.variant}"
    elif has_filter and may_wrap(column_type) and low is None:
        doubt = "its filter is not used: no bounds show that all values are within the type's range"
    return PruningStatistics(
        column_type,
        footer.chunk_has_values(row_group, leaf, record, statistics),
        low,
        high,
        has_filter and doubt is None,
        doubt=doubt,
        has_nulls=footer.chunk_has_nulls(row_group, leaf, record, statistics),
    )


def shows_stored(file: CachedFooter, leaf: Leaf, row_groups: Iterable[int]) -> bool:
    """Return whether all integers of a column are known to be shown as stored, by statistics that were read before."""
    if not may_wrap(type_of(leaf)):
        return True
    column = cached_columns(file).get(leaf.index)
    return column is not None and all(map(column.is_bounded, row_groups))


def decode_leaf_bounds(footer: Footer, leaf: Leaf, statistics: Statistics) -> tuple[Domain | None, Domain | None]:
    """Return the bounds that statistics of a column of a file have, as `decode_bounds` does."""
    type_ordered = leaf.index in footer.type_ordered
    return decode_bounds(statistics, type_of(leaf), type_ordered, footer.writer_rules.shortest_cut)


def may_be_cut(column_type: ColumnType) -> bool:
    """Return whether upper bounds of a column may be cut: of texts and bytes of any length.

    Those of a fixed length are not used if they are shorter.
    """
    return column_type.physical == "BYTE_ARRAY" and column_type.kind in (Kind.STRING, Kind.BYTES)


def decode_bounds(
    statistics: Statistics, column_type: ColumnType, type_ordered: bool, shortest_cut: int = 1
) -> tuple[Domain | None, Domain | None]:
    """Return the bounds of a column chunk's values, as domain values; None where nothing is known.

    Statistics are used only where the format defines their order: under a declared type order, or in the deprecated
    fields for signed numbers. NaN and bounds in the wrong order are ignored, and those that do not bound what is shown.

    Parameters
    ----------
    shortest_cut : length from which on an upper bound may be cut, unless it is declared exact, or not to be.
    """
    low_stored, high_stored = statistics.min_value, statistics.max_value
    if not is_ordered(column_type) or not (type_ordered or is_legacy_ordered(column_type)):
        return None, None
    if low_stored is None and high_stored is None and is_legacy_ordered(column_type):
        low_stored, high_stored = statistics.legacy_min, statistics.legacy_max
    low = None if low_stored is None else decode(low_stored, column_type)
    high = None if high_stored is None else decode(high_stored, column_type)
    if not statistics.max_is_exact:
        shortest = shortest_cut if statistics.max_is_exact is None else 1
        if isinstance(high, bytes) and len(high) >= shortest and may_be_cut(column_type):
            high = CutBound(high)
        elif may_be_cut_decimals(column_type) and max(len(low_stored or b""), len(high_stored or b"")) >= SHORTEST_CUT:
            return None, None
    if any(bound is not None and is_nan(bound) for bound in (low, high)):
        return None, None
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        return None, None
    if may_wrap(column_type):  # both bounds are needed to know that no value is shown as another one
        least, largest = integer_range(column_type)
        if low is None or high is None or low < least or high > largest:  # type: ignore[operator]
            return None, None
    return low, high


def may_be_cut_decimals(column_type: ColumnType) -> bool:
    """Return whether a column has decimals so long that their bounds may be cut, and then are other numbers."""
    is_text = column_type.kind is Kind.DECIMAL and column_type.physical == "BYTE_ARRAY"
    return is_text and decimal_length(column_type.precision or 0) > SHORTEST_CUT


@dataclass(frozen=True, eq=False)
class FileStatistics:
    """Statistics of the columns that a predicate uses.

    Attributes
    ----------
    columns : one entry per name; None for a column that the file does not have, or has twice.
    holds : the shape of each column: scalar values, elements of a list, or parts of a nested value.
    missing : the columns that the file does not have.
    doubts : why columns that it has cannot be used, or not all that it says of them.
    num_rows : rows of each row group; None for a row group without rows.
    layout : a number shared by files that can be evaluated together: their columns have the same types.
    beside : values derived from these statistics and zone indexes, by readers' keys (see `scan.plan.zone_rows`).
    """

    columns: dict[str, ColumnStatistics | None]
    holds: dict[str, ColumnShape]
    missing: tuple[str, ...]
    doubts: tuple[Reason, ...]
    num_rows: tuple[int | None, ...]
    layout: int
    beside: dict[Hashable, Any] = field(default_factory=dict)


class ColumnCompatibility(Protocol):
    """Reports the columns of a file that an engine reads differently from how they are stored.

    Statistics are cached under it, so instances of the same kind must be equal and have the same hash.

    Attributes
    ----------
    by_schema : whether files with the same schema have the same doubts.
    """

    @property
    def by_schema(self) -> bool: ...

    def doubts(self, file: BloomFile) -> Mapping[str, str]:
        """Return {name: why the file's statistics do not apply to what the engine reads}."""

    def __hash__(self) -> int: ...


def cached_statistics(
    cached: CachedFooter, key: tuple[tuple[str, ...], bool, ColumnCompatibility | None]
) -> FileStatistics | None:
    """Return what `file_statistics` returned before for the same names, case and trust; None if it was not called."""
    statistics: FileStatistics | None = cached.derived.get("file_statistics", {}).get(key)
    return statistics


def cache_statistics(
    cached: CachedFooter,
    key: tuple[tuple[str, ...], bool, ColumnCompatibility | None],
    statistics: FileStatistics,
) -> FileStatistics:
    """Cache statistics with a file's footer, and return them."""
    views: dict[tuple[tuple[str, ...], bool, ColumnCompatibility | None], FileStatistics] = cached.derived.setdefault(
        "file_statistics", {}
    )
    if len(views) >= _MAX_VIEWS:
        views.clear()
    return views.setdefault(key, statistics)


def cached_columns(cached: CachedFooter) -> dict[int, ColumnStatistics]:
    """Return the statistics of columns that are cached with a file's footer, by the leaf's number."""
    columns: dict[int, ColumnStatistics] = cached.derived.setdefault("column_statistics", {})
    return columns


class ResolvedColumns(NamedTuple):
    """What the names of a predicate mean in a file; the attributes are those of `FileStatistics`.

    Attributes
    ----------
    leaves : the column of each name; None where there is not one that can be used.
    """

    leaves: dict[str, Leaf | None]
    holds: dict[str, ColumnShape]
    missing: tuple[str, ...]
    doubts: tuple[Reason, ...]
    layout: int

    def make_statistics(
        self, columns: Mapping[int, ColumnStatistics], num_rows: tuple[int | None, ...]
    ) -> FileStatistics:
        """Return the statistics of a file, given those of its columns by the leaves' numbers."""
        by_name = {name: None if leaf is None else columns[leaf.index] for name, leaf in self.leaves.items()}
        return FileStatistics(by_name, self.holds, self.missing, self.doubts, num_rows, self.layout)


def resolve_columns(
    file: BloomFile, names: Iterable[str], ignore_case: bool = False, trust: ColumnCompatibility | None = None
) -> ResolvedColumns:
    """Resolve names against a file's columns; for the parameters see `file_statistics`."""
    leaf_of: dict[str, Leaf | None] = {}
    holds: dict[str, ColumnShape] = {}
    missing, doubts = [], []
    distrusted = trust.doubts(file) if trust else {}
    for name in names:
        leaves = find_leaves(file.leaves, name, ignore_case)
        if not leaves:
            missing.append(name)
        elif name in distrusted:
            doubts.append(make_ignored(distrusted[name], name))
            leaves = []
        if len(leaves) > 1:
            doubts.append(make_ignored(f"the name is ambiguous: the file has {len(leaves)} such columns", name))
        leaf_of[name] = leaves[0] if len(leaves) == 1 else None
        if len(leaves) == 1:
            holds[name] = _find_shape(leaves[0], name, ignore_case)
            doubt = file.footer.describe_doubts(leaves[0])
            if doubt:
                doubts.append(Reason(doubt, UNDECIDED, name))
    types = (None if leaf is None else type_of(leaf) for leaf in leaf_of.values())
    layout = _LAYOUTS.setdefault((*types, *holds.values(), len(missing), *doubts), next(_NUMBERS))
    return ResolvedColumns(leaf_of, holds, tuple(missing), tuple(doubts), layout)


def file_statistics(
    file: BloomFile, names: Iterable[str], ignore_case: bool = False, trust: ColumnCompatibility | None = None
) -> FileStatistics:
    """Return the statistics of some columns of a file; they are cached with its footer.

    Parameters
    ----------
    names : dotted names, as in the predicate.
    ignore_case : whether names match case-insensitively, as in Spark.
    trust : reports the columns whose statistics must not be used; None for none.
    """
    key = (tuple(names), ignore_case, trust)
    cached = cached_statistics(file.cached, key)
    if cached is None:
        resolved, columns = resolve_columns(file, *key), cached_columns(file.cached)
        for leaf in resolved.leaves.values():
            if leaf is not None and leaf.index not in columns:
                columns.setdefault(leaf.index, ColumnStatistics.of(file, leaf))
        groups = zip(file.footer.empty_row_groups, file.footer.row_groups["num_rows"].tolist(), strict=True)
        num_rows = tuple(None if empty else count for empty, count in groups)
        cached = cache_statistics(file.cached, key, resolved.make_statistics(columns, num_rows))
    return cached
