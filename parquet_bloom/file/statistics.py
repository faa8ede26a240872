"""Column statistics of files from their footers and filter headers, per row group; computed once per file.

One file is a batch of one: `column_statistics` reads a column in many footers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..hashing.column_type import may_wrap
from ..metadata.footer import Leaf
from ..predicate.reason import UNDECIDED, Reason, make_ignored
from ..predicate.statistics import NO, ColumnShape, PruningStatisticsArray
from .column_statistics import read_column
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
    column = cached_columns(file).get(leaf.index)
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


def cached_columns(cached: CachedFooter) -> dict[int, ColumnStatistics]:
    """Return the statistics of columns that are cached with a file's footer, by the leaf's number."""
    columns: dict[int, ColumnStatistics] = cached.derived.setdefault("column_statistics", {})
    return columns


class StatisticsKey(NamedTuple):
    """What statistics of a file are asked for, by which they are also cached; see `file_statistics`."""

    names: tuple[str, ...]
    ignore_case: bool
    trust: ColumnCompatibility | None


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


def _resolve_columns(file: BloomFile, key: StatisticsKey) -> ResolvedColumns:
    """Resolve names against a file's columns."""
    names, ignore_case, trust = key
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
    (statistics,) = statistics_of_files([file.cached], StatisticsKey(tuple(names), ignore_case, trust), lambda _: file)
    if isinstance(statistics, ParquetBloomError):
        raise statistics
    return statistics


def statistics_of_files(
    files: Sequence[CachedFooter], key: StatisticsKey, open_file: Callable[[int], BloomFile]
) -> list[FileStatistics | ParquetBloomError]:
    """Return what `file_statistics` does for each of many files, or the error that it raises.

    Parameters
    ----------
    files : the files' footers.
    open_file : returns a file, given its number; only its footer is used.
    """
    results: list[FileStatistics | ParquetBloomError] = []
    groups: dict[Hashable, list[int]] = {}
    by_schema = key.trust is None or key.trust.by_schema
    for i, file in enumerate(files):
        known = file.derived.get("file_statistics", {}).get(key)
        results.append(known)
        if known is None:
            footer = file.footer
            try:
                rules = footer.writer_rules
                group = (
                    id(footer.leaves),
                    id(footer.stored_leaves),
                    footer.type_ordered,
                    id(rules),
                    footer.schema_key[1] if rules else b"",
                    -1 if by_schema else i,
                )
            except ParquetBloomError as error:
                error.path = error.path or open_file(i).path
                results[i] = error
            else:
                groups.setdefault(group, []).append(i)
    for members in groups.values():
        try:
            some = _read_statistics([files[i] for i in members], key, open_file(members[0]))
        except ParquetBloomError as error:
            some = [error] * len(members)
        for i, one in zip(members, some, strict=True):
            results[i] = one
    return results


def _read_statistics(
    files: Sequence[CachedFooter], key: StatisticsKey, first: BloomFile
) -> list[FileStatistics | ParquetBloomError]:
    """Read and cache the statistics of files with one schema, given one of them."""
    resolved = _resolve_columns(first, key)
    leaves = {leaf.index: leaf for leaf in resolved.leaves.values() if leaf is not None}
    footers = [file.footer for file in files]
    draft = str(first.variant) if first.is_draft else None
    columns = {index: read_column(footers, leaf, draft) for index, leaf in leaves.items()}
    bitsets = {index: make_bitsets(len(column.locations)) for index, column in columns.items()}
    results: list[FileStatistics | ParquetBloomError] = []
    start = 0
    for number, (file, footer) in enumerate(zip(files, footers, strict=True)):
        num_rows: list[int | None] = footer.row_groups["num_rows"].tolist()
        end = start + len(num_rows)
        if 0 in num_rows:
            num_rows = [None if footer.empty_row_groups[i] else rows for i, rows in enumerate(num_rows)]
        errors = [column.errors[number] for column in columns.values() if number in column.errors]
        if errors:
            start = end
            results.append(errors[0])
            continue
        own = cached_columns(file)
        for index, leaf in leaves.items():
            if index not in own:
                part = StatisticsPart(columns[index].evidence, columns[index].locations, bitsets[index], start, end)
                own.setdefault(index, ColumnStatistics(leaf, footer.stored_leaf(leaf).name, part))
        start = end
        by_name = {name: None if leaf is None else own[leaf.index] for name, leaf in resolved.leaves.items()}
        statistics = FileStatistics(
            by_name, resolved.holds, resolved.missing, resolved.doubts, tuple(num_rows), resolved.layout
        )
        views = file.derived.setdefault("file_statistics", {})
        if len(views) >= _MAX_VIEWS:
            views.clear()
        results.append(views.setdefault(key, statistics))
    return results
