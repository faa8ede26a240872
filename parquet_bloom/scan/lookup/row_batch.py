"""Row groups of files that are alike, which one thread reads: the rows that match are located, then decoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from ...file.column_statistics import shows_stored
from ...file.pages.row_group_batch import RowGroupBatch, RowsOfGroups
from ...predicate.row_filter import StoredColumn, row_mask
from ...predicate.tree import Node
from ...util.arrow_values import empty_table, keep, take
from ...util.read_ahead import Need
from ..decode.row_group_decoder import OpenFiles, RowGroupDecoder, Window
from ..model.data_file import FileProjection
from ..model.row_selection import (
    RowPositions,
    RowSelection,
    add_positions,
    count_rows,
    mask_to_flags,
    to_positions,
    to_row_ranges,
)
from ..model.scan_plan import FilePlan
from .file_kind import Equality, FileKind, StoredCondition
from .table_rows import TableRows

if TYPE_CHECKING:
    from ..decode.orc_decoder import OrcData, OrcDecoder

_POSITION_BYTES = 8  # of a row's number


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
        if len(positions) == len(self.rows):
            return self
        columns = {name: take(column, positions) for name, column in self.columns.items()}
        return self._replace(rows=self.rows.take(positions), columns=columns)


class RowBatch:
    """Row groups that are read together.

    Parameters
    ----------
    plans : of the files.
    selections : of each row group the rows that are selected; None for all.
    certain : whether all rows of each row group match the predicate.
    kind : what is read of the files.
    files : the files, open.
    decoder : of the row groups.

    Attributes
    ----------
    kind, decoder : as given.
    path : of the first file; the others have the same partition values.
    ways : how the columns that were read last were read: (decoder, reason), see `Decoded`.
    """

    def __init__(
        self,
        plans: Sequence[FilePlan],
        selections: Sequence[RowSelection | None],
        certain: Sequence[bool],
        kind: FileKind,
        files: OpenFiles | OrcData,
        decoder: RowGroupDecoder | OrcDecoder,
    ):
        self.kind, self.decoder, self.path = kind, decoder, plans[0].path
        self.ways: list[tuple[str, str]] = []
        self._plans, self._selections, self._files = plans, selections, files
        # What is known of stored values does not hold for those that are shown in their place.
        self._certain = [False] * len(certain) if kind.is_shown else certain
        self._groups, self._limits = decoder.groups, decoder.limits

    def locate(self) -> Iterator[Need | LocatedRows]:
        """Locate the rows that match, in parts that fit in memory."""
        selections, table = self._selections, self.kind.table
        if self.kind.node is not None and not all(self._certain):
            # Rows that all match are not few.
            equalities = self._find_equalities() if self.kind.equalities and not any(self._certain) else []
            yield Need(self._limits.search_bytes if equalities else 0)
            selections = self._select_by_pages()
            found = self._search(selections, equalities) if equalities else None
            if found is not None and not self._needs_parts(found[0].rows):
                located, rest = found
                if table is not None:
                    located = self._leave_deleted(located, table)
                yield located if rest is None else self._keep_matching(located, rest)
                return
        if table is not None:
            selections = self._select_live(selections, table)
        yield from self._evaluate_all(selections)

    def read(self, located: LocatedRows) -> pa.Table:
        """Read the columns of the result in rows that were located."""
        projection = self.kind.projection
        if not len(located.rows):
            return empty_table(projection.schema)
        window = None if located.window is None else located.window._replace(is_result=True)
        rows = self.decoder.read(projection.names, projection.schema, located.rows, located.columns, window)
        self.ways = list(self.decoder.ways)
        if not located.columns.keys().isdisjoint(projection.schema.names):
            way = ("pages", "") if located.is_searched else self.decoder.WHOLE
            self.ways = [way, *(other for other in self.ways if other != way)]
        return rows

    def add_positions(self, table: pa.Table, rows: RowsOfGroups) -> pa.Table:
        """Append their physical positions to rows."""
        counts = rows.counts.tolist()
        firsts = [self._groups.find_first_row(group) if count else 0 for group, count in enumerate(counts)]
        numbers = self._groups.numbers
        paths = [self._plans[file].path for file, _ in numbers]
        positions = rows.rows + np.repeat(np.array(firsts, np.int64), counts)
        return add_positions(table, paths, [number for _, number in numbers], counts, positions)

    def count(self, rows: RowsOfGroups) -> dict[int, int]:
        """Return how many rows of each row group there are, those of several files by the same number together."""
        result: dict[int, int] = {}
        for (_, number), count in zip(self._groups.numbers, rows.counts.tolist(), strict=True):
            result[number] = result.get(number, 0) + count
        return result

    # --------------------------------------------------------------------------------------------- a search of pages

    def _find_equalities(self) -> list[Equality]:
        """Return the equalities of columns that are known to be shown as stored, so that their bytes decide."""
        footers, found = self._files.footers, []
        for equality in self.kind.equalities:
            for file, number in self._groups.numbers:
                if not shows_stored(footers[file], equality.leaf, [number]):
                    break
            else:
                found.append(equality)
        return found

    def _select_by_pages(self) -> list[RowSelection | None]:
        """Return the rows of each row group that statistics of the pages of large chunks leave; None for all."""
        selections, predicate = list(self._selections), self.kind.row_filter.predicate
        least = self._limits.indexed_bytes if self._files.is_local else 0  # the price of requests decides
        for group in self._groups.find_indexed(self.kind.indexed, least):
            selection, num_rows = selections[group], int(self._groups.num_rows[group])
            # If zones leave few rows, page statistics would save less than they cost.
            if selection is None or count_rows(selection) * self._limits.few_of > num_rows:
                file, number = self._groups.numbers[group]
                with self._files.borrow(file) as data:
                    ranges = data.select_rows(number, predicate, selection)
                selections[group] = None if ranges == [(0, num_rows)] else tuple(ranges)
        return selections

    def _search(
        self, selections: Sequence[RowSelection | None], equalities: Sequence[Equality]
    ) -> tuple[LocatedRows, Node | None] | None:
        """Search pages for the rows that one equality of the predicate leaves.

        Returns
        -------
        The rows, and the rest of the predicate. None if there are so many that whole columns are read faster, or the
        pages cannot be searched.
        """
        if self.kind.too_many >= self._limits.tries:
            return None
        decoder, few_of, groups = self.decoder, self._limits.few_of, self._groups
        assert isinstance(decoder, RowGroupDecoder)
        for equality in equalities:
            if decoder.use_pages(RowGroupBatch.find_problem, equality.column) == "":
                break
        else:
            return None
        is_list, all_of = equality.leaf.repeated, selections.count(None)
        if not self._files.is_local and (is_list or all_of):
            return None  # pyarrow fetches whole chunks of several columns at once
        for group, selection in enumerate(selections if is_list else ()):
            if selection is not None and count_rows(selection) * few_of <= int(groups.num_rows[group]):
                return None  # whole chunks, as of lists, are not searched for so few rows
        given = None if all_of == len(selections) else selections
        found = decoder.use_pages(
            RowGroupBatch.search, equality.column, equality.targets, groups.total_rows // few_of, given
        )
        if found is None:
            if not decoder.problem:
                self.kind.too_many += 1
            return None
        rows, values = found
        columns = {} if values is None else {equality.column: values}
        return LocatedRows(rows, columns, None, len(selections), is_searched=True), equality.rest

    def _needs_parts(self, rows: RowsOfGroups) -> bool:
        """Return whether rows take so much memory that they are decoded in parts."""
        groups = np.flatnonzero(rows.counts).tolist()
        sizes = self._groups.estimate(groups, self.kind.projection.names, self._limits.widths)
        shares = rows.counts[groups] / np.maximum(self._groups.num_rows[groups], 1)
        return self._limits.needs_windows(int((sizes * shares).sum()))

    def _keep_matching(self, located: LocatedRows, node: Node) -> LocatedRows:
        """Return the rows for which a condition is true."""
        if not len(located.rows):
            return located
        mask, columns = self._evaluate(located, node, self.kind.find_condition(node))
        return located._replace(columns={**located.columns, **columns}).take(np.flatnonzero(mask_to_flags(mask)))

    def _evaluate(
        self, located: LocatedRows, node: Node, condition: StoredCondition
    ) -> tuple[pa.ChunkedArray, dict[str, pa.ChunkedArray]]:
        """Return a condition's value in rows, and the columns that were read for it."""
        stored: dict[str, StoredColumn] = {}
        for name, leaf in condition.stored.items():
            assert isinstance(self.decoder, RowGroupDecoder)
            stored[name] = self.decoder.read_stored(leaf, located.rows)
        names, schema, _ = condition
        if names:
            table = self.decoder.read(names, schema, located.rows, located.columns, located.window)
        else:  # a table without columns would not know its number of rows
            table = pa.table({"": pa.nulls(len(located.rows))})
        timezone, probes = self.kind.row_filter.timezone, self.kind.row_filter.probes
        mask = row_mask(table, node, timezone=timezone, stored=stored, probes=probes)
        return mask, {name: table.column(name) for name in names if self.kind.is_reusable(name, schema)}

    # ------------------------------------------------------------------------------------------------ by their values

    def _evaluate_all(self, selections: Sequence[RowSelection | None]) -> Iterator[Need | LocatedRows]:
        """Evaluate the predicate on all selected rows, so many at a time as memory allows."""
        decoder, limits, kind = self.decoder, self._limits, self.kind
        groups = [group for group, selection in enumerate(selections) if selection is None or selection]
        decoder.require_rows(groups, kind.decoded)
        most = 1 if limits.is_streamed else len(groups)
        while groups:
            is_certain = kind.node is None or self._certain[groups[0]]
            part, need = self._take_part(self._take_alike(groups[:most]))
            most *= 2
            groups = groups[len(part) :]
            chosen = {*part}
            rows = RowsOfGroups.select(
                self._groups.num_rows, [rows if group in chosen else () for group, rows in enumerate(selections)]
            )
            few = len(rows) * limits.few_of <= int(self._groups.num_rows[part].sum())
            if few or not limits.needs_windows(need):
                done = groups[0] if groups else len(selections)
                yield Need(min(need, limits.search_bytes) if few else need)
                located = LocatedRows(rows, {}, None, done, False, bool(groups))
                yield located if is_certain else self._keep(located, part, few)
                continue
            if len(self._plans) > 1:  # windows are of one file, whose errors are its own
                none = RowsOfGroups(np.zeros(len(selections), np.int64), np.arange(0))
                yield LocatedRows(none, {}, num_done=part[0], is_cut=True)
                return
            yield from self._evaluate_windows(part[0], selections[part[0]], need, bool(groups))

    def _take_alike(self, groups: Sequence[int]) -> Sequence[int]:
        """Return the first row groups, up to one of which more, or less, is known than of them."""
        certain = self._certain
        alike = 1
        while alike < len(groups) and certain[groups[alike]] == certain[groups[0]]:
            alike += 1
        return groups[:alike]

    def _take_part(self, groups: Sequence[int]) -> tuple[list[int], int]:
        """Return the first row groups, which are decoded together, and an estimate of the memory that this takes."""
        limits, num_rows = self._limits, self._groups.num_rows[list(groups)]
        sizes = np.cumsum(self._groups.estimate(groups, self.kind.decoded, limits.widths) + _POSITION_BYTES * num_rows)
        most = limits.part_bytes if limits.max_bytes is None else min(limits.part_bytes, limits.whole_bytes)
        count = int(np.searchsorted(sizes, most, "right"))
        if not self.kind.texts <= limits.widths.keys():  # how long they are is not known yet
            count = min(count, int(np.searchsorted(np.cumsum(num_rows), limits.first_rows, "right")))
        count = max(count, 1)
        return list(groups[:count]), int(sizes[count - 1])

    def _evaluate_windows(
        self, group: int, selection: RowSelection | None, num_bytes: int, has_more: bool
    ) -> Iterator[Need | LocatedRows]:
        """Evaluate the predicate on rows of a large row group, a window of them at a time."""
        num_rows, limits = int(self._groups.num_rows[group]), self._limits
        window_rows, window_bytes = limits.window_rows(num_rows, num_bytes), limits.window_bytes(num_bytes)
        ranges = to_row_ranges([(0, num_rows)] if selection is None else selection)
        for start in range(0, num_rows, window_rows):
            window = Window(group, start, min(start + window_rows, num_rows))
            rows = to_positions(np.clip(ranges, window.start, window.stop))
            if not len(rows):
                continue
            counts = np.zeros(len(self._groups.num_rows), np.int64)
            counts[group] = len(rows)
            yield Need(window_bytes)
            has_rest = bool(ranges[-1, 1] > window.stop)
            some, done = RowsOfGroups(counts, rows), group if has_rest else group + 1
            part = LocatedRows(some, {}, window, done, has_rest, has_more or has_rest)
            node = None if self._certain[group] else self.kind.node
            yield part if node is None else self._keep_matching(part, node)
        self.decoder.forget_streams()

    def _keep(self, located: LocatedRows, groups: Sequence[int], few: bool) -> LocatedRows:
        """Keep the rows that match, of whole row groups; if not `few`, columns of the result may be read at once."""
        node, limits, kind = self.kind.node, self._limits, self.kind
        if node is None:
            return located
        condition = kind.find_condition(node)
        names = condition.names
        if kind.reads_rows and kind.is_plain(names) and names and not few:
            others = [name for name in kind.projection.schema.names if name not in names]
            num_files = len({self._groups.numbers[group][0] for group in groups})
            of_predicate = int(self._groups.estimate(groups, names, limits.widths).sum())
            small = max(limits.together_bytes * num_files, limits.together_ratio * of_predicate)
            if others and int(self._groups.estimate(groups, others, limits.widths).sum()) <= small:
                condition = kind.find_condition(node, others)
        mask, columns = self._evaluate(located, node, condition)
        used = {*kind.projection.schema.names} if kind.reads_rows else set()
        kept = {name: keep(column, mask) for name, column in columns.items() if name in used}
        return located._replace(rows=located.rows.keep(mask_to_flags(mask)), columns=kept)

    # ---------------------------------------------------------------------------------------- rows deleted by a table

    def _leave_deleted(self, located: LocatedRows, table: TableRows) -> LocatedRows:
        """Return located rows without those that the table has deleted."""
        rows = located.rows
        if not any(table.has_deletes(plan.path) for plan in self._plans):
            return located
        ends, parts = np.cumsum(rows.counts).tolist(), []
        for group, (count, end) in enumerate(zip(rows.counts.tolist(), ends, strict=True)):
            if count:
                path = self._plans[self._groups.numbers[group][0]].path
                parts.append((path, rows.rows[end - count : end] + self._groups.find_first_row(group)))

        def read_columns(columns: FileProjection) -> list[pa.Table]:
            return [self.decoder.read(columns.names, columns.schema, rows, located.columns)]

        live = table.find_live(self.kind.data, parts, read_columns)
        return located.take(np.flatnonzero(live))

    def _select_live(
        self, selections: Sequence[RowSelection | None], table: TableRows
    ) -> Sequence[RowSelection | None]:
        """Take the rows that the table has deleted out of a selection."""
        result = list(selections)
        for group, (file, number) in enumerate(self._groups.numbers):
            if table.has_deletes(self._plans[file].path) and result[group] != ():
                with self._files.borrow(file) as data:
                    live = table.select_live(data, self._plans[file], [(number, result[group])])
                result[group] = live[0][1] if live else ()
        return result
