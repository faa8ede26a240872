"""Which rows of a row group its pages' statistics leave for a predicate."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...file.columns import type_of
from ...file.pages.reader import RowGroupPages
from ...file.reader import BloomFile
from ...file.statistics import decode_bounds, file_statistics
from ...hashing.column_type import ColumnType, Domain
from ...metadata.footer import Leaf
from ...metadata.page_index import ASCENDING, DESCENDING, CachedPageIndex
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.statistics import PruningStatistics, PruningStatisticsArray

MANY_LITERALS = 1000
"""A predicate with more literals is not held against pages: to prepare it again costs more than the pages do."""

RowRanges = NDArray[np.int64]
"""(n, 2): ranges of rows [start, stop), ascending, none of which touches the next."""


@dataclass(frozen=True)
class _Column:
    """A column of the predicate whose pages are known: where they begin, and what is told of each."""

    rows: NDArray[np.int64]
    told: PruningStatisticsArray


def rows_left(file: BloomFile, row_group: int, pages: RowGroupPages, decider: PruningPredicate) -> RowRanges | None:
    """The rows that pages leave; None for all of them."""
    if sum(len(leaf.literals) for leaf in tree.leaves(decider.node)) > MANY_LITERALS:
        return None
    facts = file_statistics(file, decider.columns)
    leaves = {name: column.leaf for name, column in facts.columns.items() if column is not None}
    known = pages.bounds(leaves.values())
    columns: dict[str, _Column] = {}
    for name, leaf in leaves.items():
        if leaf.index not in known:
            continue
        told = _told(file, row_group, leaf, known[leaf.index])
        if told is None:
            pages.give_up(leaf, "its bounds contradict the column chunk's, or their own order")
        else:
            columns[name] = _Column(known[leaf.index].index.rows, told)
    if not columns:
        return None
    # Between two of these rows no column goes from one page to the next.
    borders = np.unique(np.concatenate([column.rows for column in columns.values()]))
    count = len(borders) - 1
    evidence: dict[str, PruningStatisticsArray | None] = dict.fromkeys(decider.columns)
    for name, leaf in leaves.items():
        if name in columns:
            of_stretch = np.searchsorted(columns[name].rows, borders[:-1], "right") - 1
            of_leaf = columns[name].told.at(of_stretch)
        else:
            of_leaf = PruningStatisticsArray.of(type_of(leaf), [PruningStatistics(type_of(leaf))]).at(
                np.zeros(count, np.intp)
            )
        evidence[name] = of_leaf.holding(facts.holds[name])
    possible = decider.possible(decider.decide_all(evidence, count))
    if possible.all():
        return None
    changes = np.flatnonzero(np.diff(possible, prepend=False, append=False)).reshape(-1, 2)
    return borders[changes]


def in_both(some: RowRanges | None, others: RowRanges | None) -> RowRanges | None:
    """The rows that are in two choices of rows; None is all of them."""
    if some is None or others is None:
        return others if some is None else some
    borders = np.unique(np.concatenate([some.ravel(), others.ravel()]))
    # Before a border have begun one range more than have ended, where rows behind it are in one.
    inside = [
        np.searchsorted(ranges[:, 0], borders, "right") > np.searchsorted(ranges[:, 1], borders, "right")
        for ranges in (some, others)
    ]
    changes = np.flatnonzero(np.diff(inside[0] & inside[1], prepend=False, append=False)).reshape(-1, 2)
    return borders[changes] if len(changes) else np.empty((0, 2), np.int64)


def _told(file: BloomFile, row_group: int, leaf: Leaf, known: CachedPageIndex) -> PruningStatisticsArray | None:
    """What the index tells of each page; None if it contradicts the column chunk's own statistics."""
    if known.statistics is None:
        type_ordered = leaf.index in file.footer.type_ordered
        told = _tell(known, type_of(leaf), type_ordered)
        statistics = file.footer.statistics(file.record(row_group, leaf))
        if not _spans(told, *decode_bounds(statistics, type_of(leaf), type_ordered)) or not _in_order(told, known):
            return None
        known.statistics = PruningStatisticsArray.of(type_of(leaf), told)
    assert isinstance(known.statistics, PruningStatisticsArray)
    return known.statistics


def _tell(known: CachedPageIndex, column_type: ColumnType, type_ordered: bool) -> list[PruningStatistics]:
    index = known.bounds
    assert index is not None
    told = []
    counts = index.null_counts
    for page in range(known.index.num_pages):
        low, high = decode_bounds(index.statistics(page), column_type, type_ordered)
        # That a page is said to be null without a count of its nulls can be held against nothing.
        has_values = None if counts is None else not index.null_pages[page]
        has_nulls = None if counts is None else counts[page] > 0
        told.append(PruningStatistics(column_type, has_values, low, high, has_nulls=has_nulls))
    return told


def _spans(told: list[PruningStatistics], low: Domain | None, high: Domain | None) -> bool:
    """Whether the pages' bounds reach as far as those of the column chunk, and none lies beyond them."""
    if any(_apart(page, low, high) for page in told):
        return False
    # Only numbers have to reach as far: bounds of others may be cut short, in one place and not in the other.
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return True
    bounded = [page for page in told if page.has_values is not False]
    lows = [page.low for page in bounded if isinstance(page.low, int | float)]
    highs = [page.high for page in bounded if isinstance(page.high, int | float)]
    if not bounded or len(lows) < len(bounded) or len(highs) < len(bounded):
        return bool(bounded)
    return min(lows) <= low and max(highs) >= high


def _in_order(told: list[PruningStatistics], known: CachedPageIndex) -> bool:
    """Whether the pages' bounds are in the order that the index says they are in."""
    assert known.bounds is not None
    order = known.bounds.order
    if order not in (ASCENDING, DESCENDING):
        return True
    for bound in ("low", "high"):
        there = [value for page in told if (value := getattr(page, bound)) is not None]
        if order == DESCENDING:
            there.reverse()
        if any(one > next_one for one, next_one in pairwise(there)):
            return False
    return True


def _apart(page: PruningStatistics, low: Domain | None, high: Domain | None) -> bool:
    """Whether no value can lie both within the bounds of a page and within those of its column chunk."""
    below = page.high is not None and low is not None and page.high < low  # type: ignore[operator]
    return below or (page.low is not None and high is not None and page.low > high)  # type: ignore[operator]
