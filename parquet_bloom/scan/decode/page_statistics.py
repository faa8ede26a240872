"""Select the rows of a row group that can match a predicate by the statistics of its pages."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...file.columns import type_of
from ...file.pages.lookup import PageLookup
from ...file.reader import BloomFile
from ...file.statistics import decode_leaf_bounds, file_statistics
from ...hashing.column_type import Domain
from ...metadata.footer import Leaf
from ...metadata.page_index import ASCENDING, DESCENDING, CachedPageIndex
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...predicate.statistics import PruningStatistics, PruningStatisticsArray
from ..model.row_selection import RowRanges, find_runs

MAX_LITERALS = 1000
"""Predicates with more literals are not evaluated on pages: preparing them again costs more than pages save."""


@dataclass(frozen=True)
class _Column:
    """A column of the predicate with page statistics.

    Attributes
    ----------
    rows : first row of each page, then the number of rows.
    statistics : of each page.
    """

    rows: NDArray[np.int64]
    statistics: PruningStatisticsArray


def select_rows_by_pages(
    file: BloomFile, row_group: int, pages: PageLookup, predicate: PruningPredicate
) -> RowRanges | None:
    """Return the rows that page statistics leave; None for all of them."""
    if sum(len(leaf.literals) for leaf in tree.leaves(predicate.node)) > MAX_LITERALS:
        return None
    file_columns = file_statistics(file, predicate.columns)
    leaves = {name: column.leaf for name, column in file_columns.columns.items() if column is not None}
    bounds_of = pages.find_bounds(leaves.values())
    columns: dict[str, _Column] = {}
    for name, leaf in leaves.items():
        if leaf.index not in bounds_of:
            continue
        statistics = _page_statistics(file, row_group, leaf, bounds_of[leaf.index])
        if statistics is None:
            pages.give_up(leaf.index, "its bounds contradict the column chunk's, or their own order")
        else:
            columns[name] = _Column(bounds_of[leaf.index].index.rows, statistics)
    if not columns:
        return None
    # Between two borders no page of any column begins or ends.
    borders = np.unique(np.concatenate([column.rows for column in columns.values()]))
    count = len(borders) - 1
    evidence: dict[str, PruningStatisticsArray | None] = dict.fromkeys(predicate.columns)
    for name, leaf in leaves.items():
        if name in columns:
            page_of = np.searchsorted(columns[name].rows, borders[:-1], "right") - 1
            of_leaf = columns[name].statistics.at(page_of)
        else:
            of_leaf = PruningStatisticsArray.of(type_of(leaf), [PruningStatistics(type_of(leaf))]).at(
                np.zeros(count, np.intp)
            )
        evidence[name] = of_leaf.holding(file_columns.holds[name])
    possible = predicate.possible(predicate.decide_all(evidence, count))
    if possible.all():
        return None
    return borders[find_runs(possible)]


def _page_statistics(
    file: BloomFile, row_group: int, leaf: Leaf, pages: CachedPageIndex
) -> PruningStatisticsArray | None:
    """Return the statistics of each page; None if they contradict the column chunk's."""
    if pages.statistics is None:
        statistics = _read_page_statistics(file, leaf, pages)
        chunk = file.footer.statistics(file.record(row_group, leaf))
        bounds = decode_leaf_bounds(file.footer, leaf, chunk)
        if not _covers_chunk(statistics, *bounds) or not _is_ordered(statistics, pages):
            return None
        pages.statistics = PruningStatisticsArray.of(type_of(leaf), statistics)
    assert isinstance(pages.statistics, PruningStatisticsArray)
    return pages.statistics


def _read_page_statistics(file: BloomFile, leaf: Leaf, pages: CachedPageIndex) -> list[PruningStatistics]:
    index, column_type = pages.bounds, type_of(leaf)
    assert index is not None
    statistics = []
    counts = index.null_counts
    for page in range(pages.index.num_pages):
        low, high = decode_leaf_bounds(file.footer, leaf, index.statistics(page))
        # Without a count of nulls, nothing confirms that a page is null.
        has_values = None if counts is None else not index.null_pages[page]
        has_nulls = None if counts is None or leaf.shown_as_null else counts[page] > 0
        statistics.append(PruningStatistics(column_type, has_values, low, high, has_nulls=has_nulls))
    return statistics


def _covers_chunk(pages: list[PruningStatistics], low: Domain | None, high: Domain | None) -> bool:
    """Return whether the pages' bounds reach those of the column chunk, and no page lies outside of them."""
    if any(_is_disjoint(page, low, high) for page in pages):
        return False
    # Only numbers have to reach them: other bounds may be truncated, differently in pages and chunk.
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return True
    bounded = [page for page in pages if page.has_values is not False]
    lows = [page.low for page in bounded if isinstance(page.low, int | float)]
    highs = [page.high for page in bounded if isinstance(page.high, int | float)]
    if not bounded or len(lows) < len(bounded) or len(highs) < len(bounded):
        return bool(bounded)
    return min(lows) <= low and max(highs) >= high


def _is_ordered(statistics: list[PruningStatistics], pages: CachedPageIndex) -> bool:
    """Return whether the pages' bounds are in the order that the index declares."""
    assert pages.bounds is not None
    order = pages.bounds.order
    if order not in (ASCENDING, DESCENDING):
        return True
    for bound in ("low", "high"):
        values = [value for page in statistics if (value := getattr(page, bound)) is not None]
        if order == DESCENDING:
            values.reverse()
        if any(one > next_one for one, next_one in pairwise(values)):
            return False
    return True


def _is_disjoint(page: PruningStatistics, low: Domain | None, high: Domain | None) -> bool:
    """Return whether no value can lie within the bounds of both a page and its column chunk."""
    below = page.high is not None and low is not None and page.high < low  # type: ignore[operator]
    return below or (page.low is not None and high is not None and page.low > high)  # type: ignore[operator]
