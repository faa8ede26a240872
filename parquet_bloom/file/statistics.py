"""Column statistics of files from their footers and filter headers, per row group; computed once per file.

One file is a batch of one: `column_statistics` reads a column in many footers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..hashing.column_type import may_wrap
from ..metadata.footer import Footer, Leaf
from ..predicate.reason import UNDECIDED, Reason, make_ignored
from ..predicate.statistics import NO, ColumnShape, PruningStatisticsArray
from .column_statistics import ColumnEvidence, FileColumn, read_column
from .columns import find_leaves, holds_elements, type_of

if TYPE_CHECKING:
    from .cache.entry import CachedFooter
    from .chunk_filter import ChunkFilter
    from .reader import BloomFile

UNREAD = -1

_MAX_VIEWS = 32  # sets of columns that are cached for a file
_LAYOUTS: dict[tuple[object, ...], int] = {}
_NUMBERS = count()
_FOOTER = attrgetter("footer")
_RESOLVED: dict[tuple[object, ...], tuple[object, ResolvedColumns]] = {}
_MAX_RESOLVED = 64  # predicates over schemas


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


def join_parts(parts: Sequence[StatisticsPart]) -> tuple[PruningStatisticsArray, NDArray[np.int64]]:
    """Concatenate evidence and locations of a column in files of one layout."""
    runs = [parts[0]]
    for part in parts[1:]:
        last = runs[-1]
        if part.evidence is last.evidence and part.start == last.stop:
            runs[-1] = last._replace(stop=part.stop)
        else:
            runs.append(part)
    first = runs[0]
    if len(runs) == 1 and first.start == 0 and first.stop == len(first.locations):
        return first.evidence, first.locations
    evidence = PruningStatisticsArray.joined([run.evidence.part(run.start, run.stop) for run in runs])
    locations = [run.locations[run.start : run.stop] for run in runs]
    return evidence, locations[0] if len(locations) == 1 else np.concatenate(locations)


class ColumnStatistics:
    """Statistics of one column of a file; each array has one entry per row group.

    Attributes
    ----------
    leaf : the column.
    part : the evidence and the locations as a part of arrays over more row groups.
    stored_name : its name in the file, where a table gives it another one.
    evidence : the statistics of the footer, without filters.
    locations : int64 of shape (row groups, 2): offset and length of the filter with its header, by the footer; the
        offset is -1 where there is none, or the column chunk is malformed.
    starts : int64, offset of the filter's bitset in the file.
    num_bytes : int64, size of the bitset; 0 for a filter that cannot be used, UNREAD before its header is read.
    problems : why the filter cannot be used, or None.
    """

    __slots__ = ("leaf", "num_bytes", "part", "problems", "starts", "stored_name")

    def __init__(self, leaf: Leaf, stored_name: str, part: StatisticsPart):
        self.leaf = leaf
        self.stored_name = stored_name
        self.part = part
        count = part.stop - part.start
        self.starts, self.num_bytes = part.bitsets[:, part.start : part.stop]
        self.problems: list[str | None] = [None] * count

    @property
    def evidence(self) -> PruningStatisticsArray:
        return join_parts([self.part])[0]

    @property
    def locations(self) -> NDArray[np.int64]:
        return join_parts([self.part])[1]

    def is_bounded(self, row_group: int) -> bool:
        """Return whether the values of a row group have bounds, or there are none."""
        evidence, number = self.part.evidence, self.part.start + row_group
        return bool(evidence.low_known[number] and evidence.high_known[number]) or evidence.has_values[number] == NO

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


def shows_stored(file: CachedFooter, leaf: Leaf, row_groups: Iterable[int]) -> bool:
    """Return whether all integers of a column are known to be shown as stored, by statistics that were read before."""
    if not may_wrap(type_of(leaf)):
        return True
    column: ColumnStatistics | None = file.columns.get(leaf.index)
    return column is not None and all(map(column.is_bounded, row_groups))


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


class StatisticsKey(NamedTuple):
    """What statistics of a file are asked for, by which they are also cached; see `file_statistics`."""

    names: tuple[str, ...]
    ignore_case: bool
    trust: ColumnCompatibility | None


class ResolvedColumns(NamedTuple):
    """What the names of a predicate mean in files with one schema; the attributes are those of `FileStatistics`.

    Attributes
    ----------
    columns : the column of each name; None where there is not one that can be used.
    """

    columns: dict[str, FileColumn | None]
    holds: dict[str, ColumnShape]
    missing: tuple[str, ...]
    doubts: tuple[Reason, ...]
    layout: int


def _resolve_columns(file: BloomFile, key: StatisticsKey) -> ResolvedColumns:
    """Resolve names against a file's columns."""
    names, ignore_case, trust = key
    columns: dict[str, FileColumn | None] = {}
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
        columns[name] = None
        if len(leaves) == 1:
            columns[name] = FileColumn.of(file.footer, leaves[0])
            holds[name] = _find_shape(leaves[0], name, ignore_case)
            doubt = file.footer.describe_doubts(leaves[0])
            if doubt:
                doubts.append(Reason(doubt, UNDECIDED, name))
    types = (None if column is None else column.column_type for column in columns.values())
    layout = _LAYOUTS.setdefault((*types, *holds.values(), len(missing), *doubts), next(_NUMBERS))
    return ResolvedColumns(columns, holds, tuple(missing), tuple(doubts), layout)


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
    key = StatisticsKey(tuple(names), ignore_case, trust)
    draft = str(file.variant) if file.is_draft else None
    (statistics,) = statistics_of_files([file.cached], key, lambda _: file, draft)
    if isinstance(statistics, ParquetBloomError):
        raise statistics
    return statistics


def statistics_of_files(
    files: Sequence[CachedFooter],
    key: StatisticsKey,
    open_file: Callable[[int], BloomFile],
    draft: str | None = None,
) -> list[FileStatistics | ParquetBloomError]:
    """Return what `file_statistics` does for each of many files, or the error that it raises.

    Parameters
    ----------
    files : the files' footers.
    open_file : returns a file, given its number; only its footer is used.
    draft : as in `read_column`.
    """
    results: list[FileStatistics | ParquetBloomError] = []
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, file in enumerate(files):
        known = file.derived.get("file_statistics", {}).get(key)
        results.append(known)
        if known is None:
            footer = file.footer
            try:
                rules = footer.writer_rules
                of_writer = footer.schema_key[1] if rules.rules else b""
                schema = footer.leaves, footer.stored_leaves, rules
            except ParquetBloomError as error:
                error.path = error.path or open_file(i).path
                results[i] = error
            else:
                by_schema = key.trust is None or key.trust.by_schema
                group = (*map(id, schema), footer.type_ordered, of_writer, -1 if by_schema else i, key)
                groups.setdefault(group, []).append(i)
    for group, members in groups.items():
        footer = files[members[0]].footer
        _, resolved = _RESOLVED.get(group, (None, None))
        try:
            if resolved is None:
                resolved = _resolve_columns(open_file(members[0]), key)
                if key.trust is None or key.trust.by_schema:
                    if len(_RESOLVED) >= _MAX_RESOLVED:
                        _RESOLVED.clear()
                    # What the key has the numbers of is kept, so that nothing else can have these numbers.
                    _RESOLVED[group] = (footer.leaves, footer.stored_leaves, footer.writer_rules), resolved
            some = _read_statistics(list(map(files.__getitem__, members)), key, resolved, draft)
        except ParquetBloomError as error:
            some = [error] * len(members)
        for i, one in zip(members, some, strict=True):
            results[i] = one
    return results


def _read_statistics(
    files: Sequence[CachedFooter], key: StatisticsKey, resolved: ResolvedColumns, draft: str | None
) -> list[FileStatistics | ParquetBloomError]:
    """Read and cache the statistics of files with one schema."""
    footers: list[Footer] = list(map(_FOOTER, files))
    columns: dict[int, tuple[FileColumn, ColumnEvidence, NDArray[np.int64]]] = {}
    for column in resolved.columns.values():
        if column is not None and column.leaf.index not in columns:
            evidence = read_column(footers, column, draft)
            unread = np.array([[0], [UNREAD]], np.int64).repeat(len(evidence.locations), axis=1)
            columns[column.leaf.index] = column, evidence, unread
    results: list[FileStatistics | ParquetBloomError] = []
    start = 0
    for number, (file, footer) in enumerate(zip(files, footers, strict=True)):
        num_rows: list[int | None] = footer.row_groups["num_rows"].tolist()
        end = start + len(num_rows)
        if 0 in num_rows:
            num_rows = [None if footer.empty_row_groups[i] else rows for i, rows in enumerate(num_rows)]
        own, error = {}, None
        for index, (column, evidence, bitsets) in columns.items():
            error = error or evidence.errors.get(number)
            part = StatisticsPart(evidence.evidence, evidence.locations, bitsets, start, end)
            own[index] = ColumnStatistics(column.leaf, column.stored.name, part)
        start = end
        if error is not None:
            results.append(error)
            continue
        by_name: dict[str, ColumnStatistics | None] = {}
        for name, column in resolved.columns.items():
            by_name[name] = None
            if column is not None:
                by_name[name] = file.columns.setdefault(column.leaf.index, own[column.leaf.index])
        statistics = FileStatistics(
            by_name, resolved.holds, resolved.missing, resolved.doubts, tuple(num_rows), resolved.layout
        )
        views = file.derived.setdefault("file_statistics", {})
        if len(views) >= _MAX_VIEWS:
            views.clear()
        results.append(views.setdefault(key, statistics))
    return results
