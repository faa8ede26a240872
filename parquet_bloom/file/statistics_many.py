"""Column statistics of many files with one schema, computed as arrays over the row groups of all of them.

A file with anything unusual is left to `statistics.file_statistics`, which gives the same for every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..hashing.column_type import (
    ColumnType,
    Domain,
    Kind,
    decode,
    integer_range,
    is_legacy_ordered,
    is_nan,
    is_ordered,
    may_wrap,
)
from ..metadata.footer import PHYSICAL_TYPES, Footer, Leaf, concatenate_records
from ..metadata.thrift_compact import CHUNK_DTYPE, read_statistics
from ..metadata.writer_rules import LEGACY, SHORTEST_CUT, Doubt
from ..predicate.statistics import NO, UNKNOWN, YES, CutBound, PruningStatisticsArray, make_domain_array, split_cut
from .cache.entry import CachedFooter
from .columns import type_of
from .statistics import (
    ColumnCompatibility,
    ColumnStatistics,
    FileStatistics,
    ResolvedColumns,
    StatisticsPart,
    cache_statistics,
    cached_columns,
    cached_statistics,
    file_statistics,
    make_bitsets,
    may_be_cut,
    may_be_cut_decimals,
    resolve_columns,
)

if TYPE_CHECKING:
    from .reader import BloomFile

_Key = tuple[tuple[str, ...], bool, ColumnCompatibility | None]

_MIN, _MAX, _LEGACY_MIN, _LEGACY_MAX = range(4)
"""Of the bounds of a record of `thrift_compact.STATISTICS_DTYPE`."""

_NUMBERS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}


def file_statistics_of_many(
    files: Sequence[CachedFooter], key: _Key, open_file: Callable[[int], BloomFile]
) -> list[FileStatistics | None]:
    """Return what `file_statistics` does for each of many files; it is cached with their footers.

    Parameters
    ----------
    files : the files' footers.
    key : names, ignore_case and trust, as in `file_statistics`.
    open_file : returns a file, given its number; only its footer is used.

    Returns
    -------
    None for a file of which they cannot be read, which a closer look explains.
    """
    results = [cached_statistics(file, key) for file in files]
    groups: dict[tuple[int, frozenset[int], tuple[object, ...]], list[int]] = {}
    trust = key[2]
    for i, file in enumerate(files):
        if results[i] is None and (trust is None or trust.by_schema) and _is_usual(file.footer):
            footer = file.footer
            groups.setdefault((id(footer.leaves), footer.type_ordered, _doubt_key(footer)), []).append(i)
    for members in groups.values():
        try:
            resolved = resolve_columns(open_file(members[0]), *key)
        except ParquetBloomError:
            continue
        statistics = _read_statistics([files[i] for i in members], resolved, key)
        for i, one in zip(members, statistics, strict=True):
            results[i] = one
    for i, one in enumerate(results):
        if one is None:
            with suppress(ParquetBloomError):
                results[i] = file_statistics(open_file(i), *key)
    return results


def _doubt_key(footer: Footer) -> tuple[object, ...]:
    """Return a key that footers of one schema share if the same is known of their writers' faults."""
    rules = footer.writer_rules
    return (id(rules), footer.schema_key[1]) if rules else (id(rules),)


def _is_usual(footer: Footer) -> bool:
    """Return whether a footer names its own columns, and describes every column in every row group, with rows."""
    if type(footer) is not Footer:
        return False
    try:
        num_leaves = len(footer.leaves)
    except ParquetBloomError:  # `file_statistics` says what is wrong
        return False
    groups = footer.row_groups
    if len(groups) == 1:  # without a loop of NumPy's over one row group
        return bool(len(footer.chunks) == num_leaves > 0 and groups[0].item()[1] > 0)
    regular = len(groups) > 1 and len(footer.chunks) == num_leaves * len(groups) > 0
    return bool(regular and (groups["num_columns"] == num_leaves).all() and (groups["num_rows"] > 0).all())


def _read_statistics(
    files: list[CachedFooter], resolved: ResolvedColumns, key: _Key
) -> Iterator[FileStatistics | None]:
    """Yield the statistics of files with one schema; None for one with anything unusual."""
    footers = [file.footer for file in files]
    leaves = {leaf.index: leaf for leaf in resolved.leaves.values() if leaf is not None}
    is_usual = np.ones(len(files), np.bool_)
    row_groups = concatenate_records([footer.row_groups for footer in footers])
    columns = {index: _read_column(footers, row_groups, leaf, is_usual) for index, leaf in leaves.items()}
    num_rows = row_groups["num_rows"].tolist()
    start = 0
    for file, usual in zip(files, is_usual.tolist(), strict=True):
        end = start + len(file.footer.row_groups)
        statistics = None
        if usual:
            own = cached_columns(file)
            for index, leaf in leaves.items():
                if index not in own:
                    part = StatisticsPart(*columns[index], start, end)
                    own.setdefault(index, ColumnStatistics(leaf, leaf.name, part))
            statistics = cache_statistics(file, key, resolved.make_statistics(own, tuple(num_rows[start:end])))
        yield statistics
        start = end


def _read_column(
    footers: list[Footer], row_groups: NDArray[np.void], leaf: Leaf, is_usual: NDArray[np.bool_]
) -> tuple[PruningStatisticsArray, NDArray[np.int64], NDArray[np.int64]]:
    """Read what `StatisticsPart` has of a column in all footers, and mark those with anything unusual as such."""
    width = len(footers[0].leaves)
    column_type = type_of(leaf)
    fields = len(CHUNK_DTYPE.names or ())
    chunks = [footer.chunks.view(np.int64).reshape(-1, width, fields)[:, leaf.index] for footer in footers]
    records = np.concatenate(chunks).view(CHUNK_DTYPE).reshape(-1)
    num_rows = row_groups["num_rows"]
    which = np.repeat(np.arange(len(footers)), [len(footer.row_groups) for footer in footers])
    stored = read_statistics(
        [footer.data for footer in footers],
        which,
        np.ascontiguousarray(records["statistics_start"]),
        np.ascontiguousarray(records["path_start"]),
        leaf.encoded_path,
    )
    usual = (stored["is_usual"] != 0) & (records["meta_start"] >= 0) & (records["encrypted"] == 0)
    usual &= records["physical_type"] == PHYSICAL_TYPES.index(leaf.physical)
    is_usual[which[~usual]] = False

    num_values, null_count = records["num_values"], stored["null_count"]
    has_null_count = _believe(footers[0], leaf, stored, num_values)
    # As `Footer.chunk_has_values` and `chunk_has_nulls` say.
    all_null = has_null_count & np.equal(null_count, num_values)
    has_values = np.where(has_null_count, YES, UNKNOWN)
    has_values[all_null | (num_values == 0)] = NO
    has_nulls = np.where(has_null_count, (null_count > 0).astype(int), UNKNOWN)
    if leaf.repeated or leaf.shown_as_null:
        has_nulls[:] = UNKNOWN
    if leaf.repeated:
        has_values[num_values < num_rows] = UNKNOWN
    else:
        disagrees = np.not_equal(num_values, num_rows)
        has_values[disagrees] = has_nulls[disagrees] = UNKNOWN
    has_filter = (records["filter_offset"] != -1) | (records["filter_fields"] > 0)
    has_filter &= not footers[0].doubts_of(leaf) & Doubt.FILTERS
    low, low_known, high, high_known, cut = _decode_bounds(footers, which, stored, column_type, leaf)
    if may_wrap(column_type):
        is_usual[which[has_filter & ~low_known]] = False
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
    )
    locations = np.stack([records["filter_offset"], records["filter_length"]], axis=1)
    return evidence, locations, make_bitsets(len(records))


def _believe(footer: Footer, leaf: Leaf, stored: Any, num_values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which null counts are believed, and take out the bounds that are not, as `Footer.statistics` does.

    Parameters
    ----------
    footer : one of the footers; the others are by the same writer, as far as faults are known.
    """
    null_count, has_null_count = stored["null_count"], stored["has_null_count"] != 0
    bounded = np.any(stored["start"] >= 0, axis=1)
    contradicts = (null_count < 0) | (null_count > num_values) | ((null_count == num_values) & bounded)
    if not leaf.nullable:
        contradicts |= null_count != 0
    contradicts &= has_null_count
    rules = footer.rules_of(leaf)
    if rules:
        doubts = footer.doubts_of(leaf)
        if leaf.index not in footer.type_ordered and any(rule.columns == LEGACY for rule in rules):
            contradicts |= np.any(stored["start"][:, [_MIN, _MAX]] < 0, axis=1)
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
    footers: list[Footer], which: NDArray[np.intp], stored: Any, column_type: ColumnType, leaf: Leaf
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Decode bounds as `statistics.decode_bounds` does.

    Returns
    -------
    Low, whether it is known, high, whether it is known, and whether it may be cut.
    """
    count = len(stored)
    is_legacy = is_legacy_ordered(column_type)
    if not is_ordered(column_type) or not (leaf.index in footers[0].type_ordered or is_legacy):
        nothing, unknown = make_domain_array([None] * count, column_type), np.zeros(count, np.bool_)
        return nothing, unknown, nothing, unknown, None
    low_at, high_at = np.full(count, _MIN), np.full(count, _MAX)
    if is_legacy:
        neither = (stored["start"][:, _MIN] < 0) & (stored["start"][:, _MAX] < 0)
        low_at[neither], high_at[neither] = _LEGACY_MIN, _LEGACY_MAX
    if leaf.physical in _NUMBERS:
        low, low_known = _decode_numbers(stored, low_at, column_type)
        high, high_known = _decode_numbers(stored, high_at, column_type)
        if column_type.kind is Kind.FLOAT:
            valid = ~((low_known & np.isnan(low)) | (high_known & np.isnan(high)))
            low_known, high_known = low_known & valid, high_known & valid
        wrong = low_known & high_known & np.greater(low, high).astype(np.bool_)
        if may_wrap(column_type):
            least, largest = integer_range(column_type)
            wrong |= ~(low_known & high_known) | np.less(low, least) | np.greater(high, largest)
        return low, low_known & ~wrong, high, high_known & ~wrong, None
    lows = _decode_each(footers, which, stored, low_at, column_type)
    highs = _decode_each(footers, which, stored, high_at, column_type)
    if may_be_cut(column_type):
        shortest = np.where(stored["max_is_exact"] < 0, 1, footers[0].writer_rules.shortest_cut)
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
        is_wrong = one is not None and other is not None and one > other  # type: ignore[operator]
        if is_wrong or any(bound is not None and is_nan(bound) for bound in (one, other)):
            lows[i] = highs[i] = None
    known = [np.array([bound is not None for bound in bounds], np.bool_) for bounds in (lows, highs)]
    high, cut_highs = split_cut(highs, column_type)
    return make_domain_array(lows, column_type), known[0], high, known[1], cut_highs


def _decode_numbers(
    stored: Any, at: NDArray[np.intp], column_type: ColumnType
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
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
    footers: list[Footer], which: NDArray[np.intp], stored: Any, at: NDArray[np.intp], column_type: ColumnType
) -> list[Domain | None]:
    rows = np.arange(len(stored))
    starts, lengths = stored["start"][rows, at].tolist(), stored["length"][rows, at].tolist()
    return [
        None if start < 0 else decode(footers[i].data[start : start + length], column_type)
        for i, start, length in zip(which.tolist(), starts, lengths, strict=True)
    ]
