"""Column statistics of files from their footers and filter headers, per row group; computed once per file.

One file is a batch of one: a column is read in the footers of many files with one schema at once, as arrays over all of
their row groups (`read_column`). What is unusual about a column chunk, such as encryption or another order of fields,
is looked at for that chunk alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import EncryptedFileError, MalformedFooterError, ParquetBloomError
from ..hashing.column_type import (
    ColumnType,
    Domain,
    Kind,
    decode_bound,
    integer_range,
    is_legacy_ordered,
    is_nan,
    is_ordered,
    make_domain_array,
    may_wrap,
)
from ..metadata.footer import PHYSICAL_TYPES, Footer, SchemaLeaf
from ..metadata.thrift_compact import CHUNK_DTYPE, read_statistics
from ..metadata.writer_rules import LEGACY, SHORTEST_CUT, Doubt
from ..predicate.map_lookup import find_column_of, find_map, is_key
from ..predicate.pruning_statistics import (
    NO,
    UNKNOWN,
    YES,
    ColumnShape,
    CutBound,
    PruningStatistics,
    PruningStatisticsArray,
    split_cut,
)
from ..predicate.reason import UNDECIDED, Reason, make_ignored
from ..predicate.variant_names import parse_evidence
from ..util.arrow_values import AnyArray
from .chunk_bounds import decode_leaf_bounds, may_be_cut, may_be_cut_decimals
from .file_columns import ShreddedPath, find_evidence_leaves, find_leaves, holds_elements, type_of
from .variant_leaves import drop_incomplete, find_shredded

if TYPE_CHECKING:
    from .bloom_file import BloomFile
    from .chunk_filter import ChunkFilter
    from .metadata_cache import CachedFooter

UNREAD = -1

_MAX_VIEWS = 32  # sets of columns that are cached for a file
_LAYOUTS: dict[tuple[object, ...], int] = {}
_LAYOUT_NUMBERS = count()
_FOOTER = attrgetter("footer")
_RESOLVED: dict[tuple[object, ...], tuple[object, ResolvedColumns]] = {}
_MAX_RESOLVED = 64  # predicates over schemas

_MIN, _MAX, _LEGACY_MIN, _LEGACY_MAX = range(4)
"""Of the bounds of a record of `thrift_compact.STATISTICS_DTYPE`."""

_NUMBERS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}
_FIELDS = len(CHUNK_DTYPE.names or ())


class StatisticsPart(NamedTuple):
    """The row groups from `start` to `stop` of arrays over those of many files, which are not copied.

    Attributes
    ----------
    evidence, locations, dictionaries : as in `ColumnStatistics`.
    """

    evidence: PruningStatisticsArray
    locations: NDArray[np.int64]
    dictionaries: NDArray[np.int64]
    start: int
    stop: int


def join_parts(parts: Sequence[StatisticsPart]) -> StatisticsPart:
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
        return first
    evidence = PruningStatisticsArray.joined([run.evidence.part(run.start, run.stop) for run in runs])
    locations = [run.locations[run.start : run.stop] for run in runs]
    dictionaries = [run.dictionaries[run.start : run.stop] for run in runs]
    if len(runs) == 1:
        return StatisticsPart(evidence, locations[0], dictionaries[0], 0, len(locations[0]))
    return StatisticsPart(evidence, np.concatenate(locations), np.concatenate(dictionaries), 0, len(evidence))


@dataclass(eq=False, slots=True)
class ColumnStatistics:
    """Statistics of one column of a file; each array has one entry per row group.

    Attributes
    ----------
    leaf : the column.
    stored_name : its name in the file, where a table gives it another one.
    part : the evidence and the locations as a part of arrays over more row groups.
    evidence : the statistics of the footer, without filters.
    locations : int64 of shape (row groups, 2): offset and length of the filter with its header, by the footer; the
        offset is -1 where there is none, or the column chunk is malformed.
    dictionaries : int64 of shape (row groups, 3): offset and length of the dictionary page that has every value, with
        its header, and the chunk's codec; the length is 0 where the footer does not prove that there is one.
    starts : int64, offset of the filter's bitset in the file.
    num_bytes : int64, size of the bitset; 0 for a filter that cannot be used, UNREAD before its header is read.
    problems : why the filter cannot be used, or None.
    """

    leaf: SchemaLeaf
    stored_name: str
    part: StatisticsPart
    starts: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    problems: list[str | None]

    @property
    def evidence(self) -> PruningStatisticsArray:
        return join_parts([self.part]).evidence

    @property
    def locations(self) -> NDArray[np.int64]:
        return join_parts([self.part]).locations

    @property
    def dictionaries(self) -> NDArray[np.int64]:
        return join_parts([self.part]).dictionaries

    def is_bounded(self, row_group: int) -> bool:
        """Return whether the values of a row group have bounds, or there are none."""
        evidence, number = self.part.evidence, self.part.start + row_group
        return bool(evidence.low_known[number] and evidence.high_known[number]) or evidence.has_values[number] == NO

    def is_complete(self, row_group: int) -> bool:
        """Return whether the column has all values that its name is about; no page of it is evidence otherwise."""
        incomplete = self.part.evidence.incomplete
        return incomplete is None or not incomplete[self.part.start + row_group]

    def load_header(self, chunk: ChunkFilter) -> None:
        """Take the header of a filter, which is read if it was not."""
        problem = self.problems[chunk.row_group] = chunk.header_problem
        if not problem:
            self.starts[chunk.row_group] = chunk.offset + chunk.header.header_bytes
        self.num_bytes[chunk.row_group] = 0 if problem else chunk.num_bytes  # last: it signals other threads


def _find_shape(leaf: SchemaLeaf, name: str, ignore_case: bool) -> ColumnShape:
    if not leaf.repeated and leaf.name.lower() == name.lower():
        return ColumnShape.VALUES
    return ColumnShape.ELEMENTS if holds_elements(leaf, name, ignore_case) else ColumnShape.PARTS


def shows_stored(file: CachedFooter, leaf: SchemaLeaf, row_groups: Iterable[int]) -> bool:
    """Return whether all integers of a column are known to be shown as stored, by statistics that were read before."""
    if not may_wrap(type_of(leaf)):
        return True
    column: ColumnStatistics | None = file.columns.get((leaf.index,))
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
        container = find_column_of(name)
        leaves = find_evidence_leaves(file.leaves, name, ignore_case)
        distrust = distrusted.get(name) or distrusted.get(container)
        of_variant = parse_evidence(name)
        if of_variant is not None and find_leaves(file.leaves, container, ignore_case):
            shredded = distrust or find_shredded(file.leaves, of_variant, ignore_case)
            if leaves:
                shredded = "the name may mean a column, or a path of a Variant"
            columns[name] = None if isinstance(shredded, str) else _find_path_column(file, shredded)
            doubts += [make_ignored(shredded, container)] if isinstance(shredded, str) else []
            holds[name] = ColumnShape.VALUES
            continue
        if not leaves and (container == name or not find_leaves(file.leaves, container, ignore_case)):
            missing.append(name)
        elif not leaves:
            doubts += [make_ignored("it is not a map of single values", container)] if is_key(name) else []
        elif distrust:
            doubts.append(make_ignored(distrust, container))
            leaves = []
        if len(leaves) > 1:
            doubts.append(make_ignored(f"the name is ambiguous: the file has {len(leaves)} such columns", name))
        columns[name] = None
        if len(leaves) == 1:
            columns[name] = FileColumn.of(file.footer, leaves[0])
            holds[name] = _find_shape(leaves[0], name if find_map(name) == name else leaves[0].name, ignore_case)
            doubt = file.footer.describe_doubts(leaves[0])
            if doubt:
                doubts.append(Reason(doubt, UNDECIDED, name))
    types = (None if column is None else column.column_type for column in columns.values())
    layout = _LAYOUTS.setdefault((*types, *holds.values(), len(missing), *doubts), next(_LAYOUT_NUMBERS))
    return ResolvedColumns(columns, holds, tuple(missing), tuple(doubts), layout)


def _find_path_column(file: BloomFile, shredded: ShreddedPath) -> FileColumn | None:
    """Return the column that has what a Variant has at a path."""
    if shredded.leaf is None:
        return None
    residuals = tuple(FileColumn.of(file.footer, leaf) for leaf in shredded.residuals)
    return FileColumn.of(file.footer, shredded.leaf)._replace(residuals=residuals)


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
                group = (*map(id, schema), footer.column_orders, of_writer, -1 if by_schema else i, key)
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
    columns: dict[ColumnKey, tuple[FileColumn, ColumnEvidence, NDArray[np.int64]]] = {}
    for column in resolved.columns.values():
        if column is not None and column.key not in columns:
            evidence = read_column(footers, column, draft)
            if column.residuals:
                residuals = [read_column(footers, other, draft) for other in column.residuals]
                evidence = _drop_incomplete(evidence, residuals)
            unread = np.array([[0], [UNREAD]], np.int64).repeat(len(evidence.locations), axis=1)
            columns[column.key] = column, evidence, unread
    results: list[FileStatistics | ParquetBloomError] = []
    start = 0
    for number, (file, footer) in enumerate(zip(files, footers, strict=True)):
        num_rows: list[int | None] = footer.row_groups["num_rows"].tolist()
        end = start + len(num_rows)
        if 0 in num_rows:
            num_rows = [None if footer.empty_row_groups[i] else rows for i, rows in enumerate(num_rows)]
        own, error = {}, None
        for key_of_column, (column, evidence, bitsets) in columns.items():
            error = error or evidence.errors.get(number)
            part = StatisticsPart(evidence.evidence, evidence.locations, evidence.dictionaries, start, end)
            starts, num_bytes = bitsets[:, start:end]
            problems: list[str | None] = [None] * len(num_rows)
            own[key_of_column] = ColumnStatistics(column.leaf, column.stored.name, part, starts, num_bytes, problems)
        start = end
        if error is not None:
            results.append(error)
            continue
        by_name: dict[str, ColumnStatistics | None] = {}
        for name, column in resolved.columns.items():
            by_name[name] = None
            if column is not None:
                by_name[name] = file.columns.setdefault(column.key, own[column.key])
        statistics = FileStatistics(
            by_name, resolved.holds, resolved.missing, resolved.doubts, tuple(num_rows), resolved.layout
        )
        views = file.derived.setdefault("file_statistics", {})
        if len(views) >= _MAX_VIEWS:
            views.clear()
        results.append(views.setdefault(key, statistics))
    return results


# ------------------------------------------------------------------------------------- a column in many footers


ColumnKey = tuple[int, ...]


class FileColumn(NamedTuple):
    """A column of files with one schema, by writers with the same faults.

    Attributes
    ----------
    leaf, column_type : the column.
    stored : the column as the files name it, where a table gives it another name.
    shown_as_null : whether readers show nothing but nulls.
    ordered : whether bounds are of the order that they are compared by.
    legacy : whether those of the deprecated fields are, too.
    wraps : whether values may be shown as others than are stored.
    doubts : what of it is not believed in every column chunk, because of the writer.
    legacy_doubts : whether statistics without both bounds of today's fields are not believed.
    shortest_cut : length from which on an upper bound may be cut, see `decode_bounds`.
    bounds_show_nans : see `WriterRules`.
    residuals : of a shredded path of a Variant, the columns that may have other values at the path, see
        `variant_leaves.ShreddedPath`.
    """

    leaf: SchemaLeaf
    column_type: ColumnType
    stored: SchemaLeaf
    shown_as_null: bool
    ordered: bool
    legacy: bool
    wraps: bool
    doubts: Doubt
    legacy_doubts: bool
    shortest_cut: int
    bounds_show_nans: bool
    residuals: tuple[FileColumn, ...] = ()

    @property
    def key(self) -> ColumnKey:
        """What tells it from other columns of its file."""
        return (self.leaf.index, *(column.leaf.index for column in self.residuals))

    @classmethod
    def of(cls, footer: Footer, leaf: SchemaLeaf) -> FileColumn:
        """Return what is known of a column, given the footer of one of the files."""
        column_type, rules, order = type_of(leaf), footer.rules_of(leaf), footer.order_of(leaf)
        return cls(
            leaf,
            column_type,
            footer.stored_leaf(leaf),
            leaf.shown_as_null,
            is_ordered(column_type, order),
            is_legacy_ordered(column_type),
            may_wrap(column_type),
            footer.doubts_of(leaf) if rules else Doubt.NOTHING,
            not order and any(rule.columns == LEGACY for rule in rules),
            footer.writer_rules.shortest_cut,
            footer.writer_rules.bounds_show_nans,
        )


class ColumnEvidence(NamedTuple):
    """What many footers say of one column.

    Attributes
    ----------
    evidence : its statistics, without filters, in the row groups of all files.
    locations : int64 of shape (row groups, 2): offset and length of the filter with its header, by the footer; the
        offset is -1 where there is none, or the column chunk is malformed.
    dictionaries : as in `ColumnStatistics`.
    errors : {number of a file: why its statistics cannot be read}.
    """

    evidence: PruningStatisticsArray
    locations: NDArray[np.int64]
    dictionaries: NDArray[np.int64]
    errors: dict[int, ParquetBloomError]


def read_column(footers: Sequence[Footer], column: FileColumn, draft: str | None = None) -> ColumnEvidence:
    """Read the statistics of a column in the footers of such files.

    Parameters
    ----------
    draft : the variant under which filters are read, which then are no evidence; None for today's format.
    """
    leaf, column_type, counts, all_rows, all_records, data = column.leaf, column.column_type, [], [], [], []
    for footer in footers:
        counts.append(len(footer.row_groups))
        all_rows.append(footer.row_groups["num_rows"])
        all_records.append(_find_chunks(footer, leaf.index))
        data.append(footer.data)
    which = np.repeat(np.arange(len(footers)), counts)
    num_rows = np.concatenate(all_rows)
    records = np.concatenate(all_records).view(CHUNK_DTYPE).reshape(-1)
    stored = read_statistics(
        data,
        which,
        np.ascontiguousarray(records["statistics_start"]),
        np.ascontiguousarray(records["path_start"]),
        column.stored.encoded_path,
    )
    usual = (stored["is_usual"] != 0) & (records["meta_start"] >= 0) & (records["encrypted"] == 0) & (num_rows > 0)
    usual &= records["physical_type"] == PHYSICAL_TYPES.index(leaf.physical)

    num_values, null_count = records["num_values"], stored["null_count"]
    has_null_count = _believe(column, stored, num_values)
    # As `Footer.chunk_has_values` and `chunk_has_nulls` say.
    all_null = has_null_count & np.equal(null_count, num_values)
    has_values = np.where(has_null_count, YES, UNKNOWN)
    has_values[all_null | (num_values == 0)] = NO
    has_nulls = np.where(has_null_count, (null_count > 0).astype(int), UNKNOWN)
    if leaf.repeated or column.shown_as_null:
        has_nulls[:] = UNKNOWN
    if leaf.repeated:
        has_values[num_values < num_rows] = UNKNOWN
    else:
        disagrees = np.not_equal(num_values, num_rows)
        has_values[disagrees] = has_nulls[disagrees] = UNKNOWN
    has_filter = (records["filter_offset"] != -1) | (records["filter_fields"] > 0)
    has_filter &= not column.doubts & Doubt.FILTERS
    low, low_known, high, high_known, cut = _decode_bounds(column, data, which, stored)
    has_nans = None
    if column_type.kind is Kind.FLOAT:
        has_none = stored["nan_count"] == 0
        if column.bounds_show_nans and leaf.physical in _NUMBERS:
            # Column chunks that parquet-java has copied from other writers' files do not list this encoding.
            has_none |= (stored["nan_count"] < 0) & low_known & high_known & (records["bit_packed"] == 1)
        has_nans = np.where(has_none & usual & (records["statistics_start"] >= 0), NO, UNKNOWN).astype(np.int8)
        all_nan = has_null_count & (stored["nan_count"] > 0) & (stored["nan_count"] == num_values - null_count)
        # Bounds that no number is within.
        low[all_nan], high[all_nan] = np.inf, -np.inf
        low_known, high_known = low_known | all_nan, high_known | all_nan
    if draft is not None:
        usual &= ~has_filter
    elif column.wraps:
        usual &= ~has_filter | low_known
    evidence = PruningStatisticsArray(
        column_type,
        has_values.astype(np.int8),
        has_nulls.astype(np.int8),
        low,
        low_known,
        high,
        high_known,
        has_filter & column_type.hashable,
        cut=cut,
        has_nans=has_nans,
    )
    locations = np.stack([records["filter_offset"], records["filter_length"]], axis=1)
    dictionaries = _locate_dictionaries(records, usual, np.array([footer.start for footer in footers], np.int64)[which])
    errors: dict[int, ParquetBloomError] = {}
    if not usual.all():
        row_groups = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
        parts, done = [], 0
        odd = np.flatnonzero(~usual)
        for run in np.split(odd, np.flatnonzero(np.diff(odd) > 1) + 1):
            chunks = []
            for i in run.tolist():
                number, row_group = int(which[i]), int(row_groups[i])
                try:
                    chunks.append(_read_chunk(footers[number], row_group, column, draft, locations[i]))
                except ParquetBloomError as error:  # the file is not planned by this, and is reported with it
                    errors.setdefault(number, error)
                    chunks.append(PruningStatistics(column_type))
            parts += [evidence.part(done, int(run[0])), PruningStatisticsArray.of(column_type, chunks)]
            done = int(run[-1]) + 1
        parts.append(evidence.part(done, len(which)))
        evidence = PruningStatisticsArray.joined([part for part in parts if len(part)])
    return ColumnEvidence(evidence, locations, dictionaries, errors)


def _drop_incomplete(evidence: ColumnEvidence, residuals: Sequence[ColumnEvidence]) -> ColumnEvidence:
    """Return the evidence of a Variant's path without that of row groups in which the path may have other values."""
    complete = drop_incomplete(evidence.evidence, [residual.evidence for residual in residuals])
    locations, dictionaries = evidence.locations, evidence.dictionaries
    if complete.incomplete is not None:
        locations, dictionaries = locations.copy(), dictionaries.copy()
        locations[complete.incomplete, 0] = -1
        dictionaries[complete.incomplete, 1] = 0
    errors = {number: error for one in (*residuals, evidence) for number, error in one.errors.items()}
    return ColumnEvidence(complete, locations, dictionaries, errors)


def _locate_dictionaries(
    records: NDArray[np.void], usual: NDArray[np.bool_], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return where dictionaries are that have every value of their column chunk; see `ColumnStatistics.dictionaries`.

    Parameters
    ----------
    usual : which chunks are as the schema says.
    ends : of the data of each chunk's file.
    """
    start, stop, size = records["dictionary_page_offset"], records["data_page_offset"], records["compressed_size"]
    proven = usual & (records["dictionary_only"] == 1) & (records["external"] == 0) & (records["codec"] >= 0)
    proven &= (start > 0) & (start < stop) & (stop - start < size) & (size <= ends - start)
    return np.stack([start, np.where(proven, stop - start, 0), np.where(proven, records["codec"], 0)], axis=1)


def _find_chunks(footer: Footer, number: int) -> NDArray[np.int64]:
    """Return a column's records, one for each row group, as rows of numbers; -1 throughout where there is none."""
    groups, width = footer.row_groups, len(footer.leaves)
    is_regular = len(footer.chunks) == width * len(groups)
    if is_regular and (len(groups) == 1 or bool((groups["num_columns"] == width).all())):
        return footer.chunks.view(np.int64).reshape(-1, width, _FIELDS)[:, number]
    records = np.full((len(groups), _FIELDS), -1, np.int64)
    described = groups["num_columns"] == width
    records[described] = footer.chunks.view(np.int64).reshape(-1, _FIELDS)[groups["first_chunk"][described] + number]
    return records


def _read_chunk(
    footer: Footer, row_group: int, column: FileColumn, draft: str | None, location: NDArray[np.int64]
) -> PruningStatistics:
    """Return the statistics of a column chunk with anything unusual; `location` is set to -1 if it is malformed."""
    leaf, column_type = column.leaf, column.column_type
    try:
        record = footer.chunk(row_group, leaf)
    except (EncryptedFileError, MalformedFooterError) as error:
        location[:] = -1
        return PruningStatistics(column_type, doubt=error.problem)
    if record["encrypted"]:  # the writer's own statistics are encrypted: unencrypted ones cannot be trusted
        return PruningStatistics(column_type, doubt="the column is encrypted")
    statistics = footer.statistics(record)
    low, high = decode_leaf_bounds(footer, leaf, statistics)
    # Filters of BOOLEAN columns are not probed: some writers leave them empty.
    has_filter = bool(record["filter_offset"] != -1 or record["filter_fields"] > 0) and column_type.hashable
    has_filter = has_filter and not footer.empty_row_groups[row_group] and not column.doubts & Doubt.FILTERS
    doubt = None
    if has_filter and draft is not None:
        doubt = f"its filter is read under variant {draft}"
    elif has_filter and column.wraps and low is None:
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


def _believe(column: FileColumn, stored: NDArray[np.void], num_values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which null counts are believed, and take out the bounds that are not, as `Footer.statistics` does."""
    null_count, has_null_count = stored["null_count"], stored["has_null_count"] != 0
    bounded = np.any(stored["start"] >= 0, axis=1)
    contradicts = (null_count < 0) | (null_count > num_values) | ((null_count == num_values) & bounded)
    if not column.leaf.nullable:
        contradicts |= null_count != 0
    contradicts &= has_null_count
    if column.legacy_doubts:
        contradicts |= np.any(stored["start"][:, [_MIN, _MAX]] < 0, axis=1)
    doubts = column.doubts
    if doubts:
        if doubts & Doubt.BOUNDS:
            stored["start"] = -1
        if doubts & Doubt.FEW_NULLS:
            has_null_count &= null_count == num_values
        if doubts & Doubt.MANY_NULLS:
            has_null_count &= null_count == 0
    if contradicts.any():
        stored["start"][contradicts] = -1
        has_null_count &= ~contradicts
    return has_null_count


def _decode_bounds(
    column: FileColumn, data: Sequence[bytes], which: NDArray[np.intp], stored: NDArray[np.void]
) -> tuple[AnyArray, NDArray[np.bool_], AnyArray, NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Decode bounds as `decode_bounds` does; `data` are the bytes of the footers.

    Returns
    -------
    Low, whether it is known, high, whether it is known, and whether it may be cut.
    """
    count, leaf, column_type = len(stored), column.leaf, column.column_type
    if not column.ordered:
        nothing, unknown = make_domain_array([None] * count, column_type), np.zeros(count, np.bool_)
        return nothing, unknown, nothing, unknown, None
    low_at, high_at = np.full(count, _MIN), np.full(count, _MAX)
    if column.legacy:
        neither = (stored["start"][:, _MIN] < 0) & (stored["start"][:, _MAX] < 0)
        low_at[neither], high_at[neither] = _LEGACY_MIN, _LEGACY_MAX
    if leaf.physical in _NUMBERS:
        low, low_known = _decode_numbers(stored, low_at, column_type)
        high, high_known = _decode_numbers(stored, high_at, column_type)
        if column_type.kind is Kind.FLOAT:
            valid = ~((low_known & np.isnan(low)) | (high_known & np.isnan(high)))
            low_known, high_known = low_known & valid, high_known & valid
        wrong = low_known & high_known & np.greater(low, high).astype(np.bool_)
        if column.wraps:
            least, largest = integer_range(column_type)
            wrong |= ~(low_known & high_known) | np.less(low, least) | np.greater(high, largest)
        return low, low_known & ~wrong, high, high_known & ~wrong, None
    lows = _decode_each(data, which, stored, low_at, column_type)
    highs = _decode_each(data, which, stored, high_at, column_type)
    if may_be_cut(column_type):
        shortest = np.where(stored["max_is_exact"] < 0, 1, column.shortest_cut)
        lengths = stored["length"][np.arange(count), high_at]
        for i in np.flatnonzero((lengths >= shortest) & (stored["max_is_exact"] != 1)).tolist():
            if highs[i] is not None:
                highs[i] = CutBound(highs[i])  # type: ignore[arg-type]
    elif may_be_cut_decimals(column_type):
        rows = np.arange(count)
        length = np.maximum(stored["length"][rows, low_at], stored["length"][rows, high_at])
        for i in np.flatnonzero((length >= SHORTEST_CUT) & (stored["max_is_exact"] != 1)).tolist():
            lows[i] = highs[i] = None
    for i, (one, other) in enumerate(zip(lows, highs, strict=True)):
        if one is None or other is None:
            is_wrong = leaf.physical == "INT96"
        else:
            is_wrong = one > other  # type: ignore[operator]
        if is_wrong or any(bound is not None and is_nan(bound) for bound in (one, other)):
            lows[i] = highs[i] = None
    known = [np.array([bound is not None for bound in bounds], np.bool_) for bounds in (lows, highs)]
    high, cut_highs = split_cut(highs, column_type)
    return make_domain_array(lows, column_type), known[0], high, known[1], cut_highs


def _decode_numbers(
    stored: NDArray[np.void], at: NDArray[np.intp], column_type: ColumnType
) -> tuple[AnyArray, NDArray[np.bool_]]:
    rows, width = np.arange(len(stored)), _NUMBERS[column_type.physical]
    known = (stored["start"][rows, at] >= 0) & (stored["length"][rows, at] == width)
    numbers = np.where(known, stored["number"][rows, at], 0).astype(np.uint64)
    if column_type.physical == "DOUBLE":
        return numbers.view(np.float64), known
    if column_type.physical == "FLOAT":
        return numbers.astype(np.uint32).view(np.float32).astype(np.float64), known
    if width == 4:
        narrow = numbers.astype(np.uint32)
        return (narrow.view(np.int32) if column_type.signed else narrow).astype(np.int64), known
    if not column_type.signed and (numbers >> np.uint64(63)).any():
        return make_domain_array(numbers.tolist(), column_type), known
    return numbers.view(np.int64), known


def _decode_each(
    data: Sequence[bytes],
    which: NDArray[np.intp],
    stored: NDArray[np.void],
    at: NDArray[np.intp],
    column_type: ColumnType,
) -> list[Domain | None]:
    rows = np.arange(len(stored))
    starts, lengths = stored["start"][rows, at].tolist(), stored["length"][rows, at].tolist()
    return [
        None if start < 0 else decode_bound(data[i][start : start + length], column_type)
        for i, start, length in zip(which.tolist(), starts, lengths, strict=True)
    ]
