"""Locate the rows of row groups that match a predicate: by a search of pages, and by values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.pages.sparse import MAX_TAKEN_BYTES, RowsOfGroups
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import StoredColumn, row_mask
from ...predicate.tree import Node
from ...util.arrow_select import keep, take
from ...util.read_ahead import Need
from ..decode.choose_decoder import FEW_OF
from ..decode.row_group_decoder import Pages, RowGroupDecoder, Window, select_all
from ..model.row_selection import RowPositions, RowSelection, count_rows, mask_to_positions, to_positions, to_row_ranges
from .equalities import Equality
from .file_kind import FileKind

SEARCH_BYTES = 8 << 20
"""Memory that a search for few rows takes, about."""

_PART_BYTES = 32 << 20  # decoded at once of several row groups
_FIRST_ROWS = 1 << 12  # of which texts are decoded, to see how long they are
_POSITION_BYTES = 8  # of a row's number
_TRIES = 2  # searches that find too many rows, after which no more are made of files that are alike

# Columns of the result are decoded with those of the predicate if they are so small that another call takes longer:
_AT_ONCE_BYTES = 1 << 18  # for each file, or
_AT_ONCE_RATIO = 4  # times the bytes of the predicate's columns


class LocatedRows(NamedTuple):
    """Rows that match.

    Attributes
    ----------
    rows : of each row group of the decoder.
    columns : those that are known in these rows, as `RowGroupDecoder.read` takes them.
    window : all of them are in; None if row groups are decoded whole.
    num_done : how many of the row groups, from the first one on, have no more rows after these.
    is_inside : whether some rows of the next one are among these.
    has_more : whether more rows may follow.
    is_searched : whether the rows were found in pages, so that known columns were not decoded.
    is_cut : whether the other row groups are left to tasks of one file each.
    """

    rows: RowsOfGroups
    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    window: Window | None = None
    num_done: int = 0
    is_inside: bool = False
    has_more: bool = False
    is_searched: bool = False
    is_cut: bool = False

    def take(self, positions: RowPositions) -> LocatedRows:
        """Return some rows, given by their positions among all."""
        if len(positions) == len(self.rows.rows):
            return self
        columns = {name: take(column, positions) for name, column in self.columns.items()}
        return self._replace(rows=take_rows_of_groups(self.rows, positions), columns=columns)


class RowLocator:
    """Locates rows.

    Parameters
    ----------
    decoder : of the row groups.
    kind : what is read of their files.
    reads_rows : whether columns of the result are read of the rows that match, perhaps with the predicate's.
    """

    def __init__(self, decoder: RowGroupDecoder, kind: FileKind, reads_rows: bool):
        self._decoder = decoder
        self._kind = kind
        self._filter = kind.row_filter
        self._reads_rows = reads_rows

    # --------------------------------------------------------------------------------------------- a search of pages

    def search(
        self, selections: Sequence[RowSelection | None], equalities: Sequence[Equality]
    ) -> tuple[LocatedRows, Node | None] | None:
        """Search pages for the rows that one equality of the predicate leaves.

        Parameters
        ----------
        selections : of each row group; None for all of its rows.
        equalities : of which one is searched for.

        Returns
        -------
        The rows, and what the predicate says besides. None if there are so many that whole columns are read faster, or
        the pages cannot be searched.
        """
        if len(self._kind.too_many) >= _TRIES:
            return None
        equality = self._decoder.use_pages(lambda pages: _choose_equality(pages, equalities)) if equalities else None
        if equality is None or (equality.leaf.repeated and self._are_narrow(selections)):
            return None
        found = self._decoder.use_pages(lambda pages: self._search(pages, equality, selections))
        if found is None:
            if not self._decoder.problem:
                self._kind.too_many.append(None)
            return None
        assert isinstance(self._filter.predicate, PruningPredicate)
        return found, equality.find_rest(self._filter.predicate.node)

    def _are_narrow(self, selections: Sequence[RowSelection | None]) -> bool:
        """Return whether so few rows of a row group are selected that whole chunks, as of lists, are not searched."""
        return any(
            selection is not None and count_rows(selection) * FEW_OF <= count
            for selection, count in zip(selections, self._decoder.num_rows.tolist(), strict=True)
        )

    def _search(
        self, pages: Pages, equality: Equality, selections: Sequence[RowSelection | None]
    ) -> LocatedRows | None:
        targets, column = equality.targets, equality.column
        most = self._decoder.total_rows // FEW_OF
        are_some = any(selection is not None for selection in selections)
        if equality.leaf.repeated:
            in_lists = pages.search_lists(equality.leaf, targets, most)
            if in_lists is None:
                return None
            rows, lists = in_lists
            known = {} if lists is None else {column: lists}
            located = LocatedRows(rows, known, None, len(rows.counts), is_searched=True)
            return located.take(np.flatnonzero(_find_selected(rows, selections))) if are_some else located
        result = pages.search(column, targets, most, selections if are_some else None)
        if result is None:
            return None
        rows, numbers = result
        if are_some:
            inside = _find_selected(rows, selections)
            rows, numbers = take_rows_of_groups(rows, np.flatnonzero(inside)), numbers[inside]
        if len(rows.rows) * targets.longest > MAX_TAKEN_BYTES:
            return None
        known = {column: pages.make_array(column, targets, numbers)}
        return LocatedRows(rows, known, None, len(rows.counts), is_searched=True)

    def keep_matching(self, located: LocatedRows, node: Node | None) -> LocatedRows:
        """Return the rows for which a condition is true."""
        if node is None or not len(located.rows.rows):
            return located
        names, schema = self._kind.find_columns(node)
        mask, columns = self._evaluate(located, node, names, schema)
        return located._replace(columns={**located.columns, **columns}).take(mask_to_positions(mask))

    def _evaluate(
        self, located: LocatedRows, node: Node, names: Sequence[str], schema: pa.Schema
    ) -> tuple[pa.ChunkedArray, dict[str, pa.ChunkedArray]]:
        """Return a condition's value in rows, and the columns that were read for it, given by `names` and `schema`."""
        stored: dict[str, StoredColumn] = {}
        for name, leaf in self._kind.stored_columns(node).items():
            stored[name] = self._decoder.read_stored(leaf, located.rows)
        if names:
            known = {name: column for name, column in located.columns.items() if name in schema.names}
            table = self._decoder.read(names, schema, located.rows, known, located.window)
        else:  # a table without columns would not know its number of rows
            table = pa.table({"": pa.nulls(len(located.rows.rows))})
        timezone, probes = self._filter.timezone, self._filter.probes
        mask = row_mask(table, node, timezone=timezone, stored=stored, probes=probes)
        return mask, {name: table.column(name) for name in names if self._kind.is_reusable(name, schema)}

    # ------------------------------------------------------------------------------------------------ by their values

    def evaluate_all(self, selections: Sequence[RowSelection | None]) -> Iterator[Need | LocatedRows]:
        """Evaluate the predicate on all selected rows, so many at a time as memory allows."""
        decoder, limits = self._decoder, self._decoder.limits
        predicate = self._filter.predicate
        node = predicate.node if isinstance(predicate, PruningPredicate) else None
        groups = [group for group, selection in enumerate(selections) if selection is None or selection]
        names = self._kind.find_names(node, self._reads_rows)
        decoder.require_rows(groups, names)
        most = 1 if limits.is_streamed else len(groups)
        while groups:
            part = self._take_part(groups[:most], names)
            most *= 2
            need = int(self._estimate(part, names).sum())
            if len(part) > 1 and limits.needs_windows(need):  # another thread has seen longer rows meanwhile
                part = part[:1]
                need = int(self._estimate(part, names).sum())
            groups = groups[len(part) :]
            few = self._are_few(selections, part)
            if few or not limits.needs_windows(need):
                chosen = [selections[group] if group in part else () for group in range(len(selections))]
                rows = select_all(decoder.num_rows, chosen)
                yield Need(min(need, SEARCH_BYTES) if few else need)
                done = groups[0] if groups else len(selections)
                yield self._keep(LocatedRows(rows, {}, None, done, False, bool(groups)), node, part, few)
                continue
            if decoder.num_files > 1:  # windows are of one file, whose errors are its own
                none = RowsOfGroups(np.zeros(len(selections), np.int64), np.arange(0))
                yield LocatedRows(none, {}, num_done=part[0], is_cut=True)
                return
            yield from self._evaluate_windows(part[0], selections[part[0]], node, need, bool(groups))

    def _estimate(self, groups: Sequence[int], names: Sequence[str] | None) -> NDArray[np.float64]:
        """Estimate the memory that each of some row groups takes once decoded, with the numbers of its rows."""
        return self._decoder.estimate(groups, names) + _POSITION_BYTES * self._decoder.num_rows[list(groups)]

    def _are_few(self, selections: Sequence[RowSelection | None], groups: Sequence[int]) -> bool:
        """Return whether few of the rows of row groups are selected."""
        counts = self._decoder.num_rows[list(groups)].tolist()
        chosen = [selections[group] for group in groups]
        left = [count if rows is None else count_rows(rows) for count, rows in zip(counts, chosen, strict=True)]
        return sum(left) * FEW_OF <= sum(counts)

    def _take_part(self, groups: Sequence[int], names: Sequence[str] | None) -> list[int]:
        """Return the first row groups, which are decoded together."""
        if len(groups) == 1:
            return list(groups)
        sizes = np.cumsum(self._estimate(groups, names))
        most = self._decoder.limits.whole_bytes
        count = int(np.searchsorted(sizes, _PART_BYTES if most is None else min(_PART_BYTES, most), "right"))
        if self._kind.has_unseen_texts(names, self._decoder.limits):
            rows = np.cumsum(self._decoder.num_rows[list(groups)])
            count = min(count, int(np.searchsorted(rows, _FIRST_ROWS, "right")))
        return list(groups[: max(count, 1)])

    def _evaluate_windows(
        self, group: int, selection: RowSelection | None, node: Node | None, num_bytes: int, has_more: bool
    ) -> Iterator[Need | LocatedRows]:
        """Evaluate the predicate on rows of a large row group, a window of them at a time."""
        num_rows = int(self._decoder.num_rows[group])
        limits = self._decoder.limits
        window_rows, window_bytes = limits.window_rows(num_rows, num_bytes), limits.window_bytes(num_bytes)
        ranges = to_row_ranges([(0, num_rows)] if selection is None else selection)
        for start in range(0, num_rows, window_rows):
            window = Window(group, start, min(start + window_rows, num_rows))
            rows = to_positions(np.clip(ranges, window.start, window.stop))
            if not len(rows):
                continue
            counts = np.zeros(len(self._decoder.num_rows), np.int64)
            counts[group] = len(rows)
            yield Need(window_bytes)
            has_rest = bool(ranges[-1, 1] > window.stop)
            some, done = RowsOfGroups(counts, rows), group if has_rest else group + 1
            part = LocatedRows(some, {}, window, done, has_rest, has_more or has_rest)
            yield self.keep_matching(part, node)
        self._decoder.forget_streams()

    def _keep(self, located: LocatedRows, node: Node | None, groups: Sequence[int], few: bool) -> LocatedRows:
        """Keep the rows that match, of whole row groups; if not `few`, columns of the result may be read at once."""
        if node is None:
            return located
        names, schema = self._kind.find_columns(node)
        if self._reads_rows and self._kind.is_plain(names) and names and not few:
            others = [name for name in self._kind.projection.schema.names if name not in names]
            files = len({self._decoder.row_groups[group][0] for group in groups})
            small = max(_AT_ONCE_BYTES * files, _AT_ONCE_RATIO * int(self._decoder.estimate(groups, names).sum()))
            if others and int(self._decoder.estimate(groups, others).sum()) <= small:
                names, schema = self._kind.find_columns_with(node, others)
        mask, columns = self._evaluate(located, node, names, schema)
        kept = {name: keep(column, mask) for name, column in columns.items()} if self._reads_rows else {}
        return located._replace(rows=take_rows_of_groups(located.rows, mask_to_positions(mask)), columns=kept)


def _choose_equality(pages: Pages, equalities: Sequence[Equality]) -> Equality | None:
    return next((one for one in equalities if one.leaf.repeated or pages.supports([one.column])), None)


def _find_selected(rows: RowsOfGroups, selections: Sequence[RowSelection | None]) -> NDArray[np.bool_]:
    """Return which of some rows are selected."""
    inside = np.ones(len(rows.rows), np.bool_)
    ends = np.cumsum(rows.counts).tolist()
    for selection, end, count in zip(selections, ends, rows.counts.tolist(), strict=True):
        if selection is not None and count:
            ranges = to_row_ranges(selection)
            part = rows.rows[end - count : end]
            inside[end - count : end] = np.searchsorted(ranges[:, 0], part, "right") > np.searchsorted(
                ranges[:, 1], part, "right"
            )
    return inside


def take_rows_of_groups(rows: RowsOfGroups, positions: RowPositions) -> RowsOfGroups:
    """Return some rows, given by their positions among all, ascending."""
    counts = np.diff(np.searchsorted(positions, np.cumsum(rows.counts)), prepend=0)
    return RowsOfGroups(counts, rows.rows[positions])
