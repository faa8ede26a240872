"""Row groups of Parquet files that are alike, which one thread reads: they are located and decoded together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pyarrow as pa

from ...file.cache.entry import CachedFooter
from ...file.pages.sparse import RowsOfGroups
from ...file.statistics import shows_stored
from ...metadata.footer import Leaf
from ...predicate.pruning import PruningPredicate
from ...util.arrow_values import empty_table
from ...util.read_ahead import Need
from ..decode.choose_decoder import FEW_OF, MANY_ROWS
from ..decode.parquet_file import ParquetData
from ..decode.row_group_decoder import Pages, RowGroupDecoder
from ..locate.deleted_rows import TableRows
from ..locate.file_kind import FileKind
from ..locate.locate_rows import SEARCH_BYTES, LocatedRows, RowLocator
from ..model.data_file import FileProjection
from ..model.limits import ReadLimits
from ..model.plan import FilePlan
from ..model.positions import add_positions
from ..model.row_selection import RowSelection, count_rows
from .planned_files import PlannedFiles

LARGE_BYTES = 1 << 20
"""Bytes of a column chunk of a local file: decoding less takes no longer than reading its page index."""


class RowBatch:
    """Row groups that are read together.

    Parameters
    ----------
    plans : of the files.
    row_groups : (number of a file in `plans`, its row group, the rows of it that are selected or None for all) of each.
    kind, footers : of the files.
    make_pages, open_data : as for `RowGroupDecoder`.
    table : the table whose files they are; None for files of no table.
    reads_rows : whether rows are read, and not only counted.
    limits : how much is decoded at once.
    least_indexed : bytes of a column chunk whose page index is read.

    Attributes
    ----------
    decoder : of the row groups.
    kind : as given.
    path : of the first file; the others have the same partition values.
    ways : how the columns that were read last were read: (decoder, reason), see `Decoded`.
    """

    def __init__(
        self,
        plans: Sequence[FilePlan],
        row_groups: Sequence[tuple[int, int, RowSelection | None]],
        kind: FileKind,
        footers: Sequence[CachedFooter],
        make_pages: Callable[[], Pages],
        open_data: Callable[[int], AbstractContextManager[ParquetData]],
        table: TableRows | None,
        reads_rows: bool,
        limits: ReadLimits,
        least_indexed: int = LARGE_BYTES,
    ):
        self._plans = plans
        self._selections = [selection for _, _, selection in row_groups]
        self.kind = kind
        self.path = plans[0].path
        self.ways: list[tuple[str, str]] = []
        self._footers = footers
        self._open_data = open_data
        self._table = table
        self._least_indexed = least_indexed
        numbers = [(file, number) for file, number, _ in row_groups]
        self.decoder = RowGroupDecoder(numbers, footers, kind.columns, make_pages, open_data, limits)
        self._locator = RowLocator(self.decoder, kind, reads_rows)

    def locate(self) -> Iterator[Need | LocatedRows]:
        """Locate the rows that match, in parts that fit in memory."""
        predicate = self.kind.row_filter.predicate
        selections: Sequence[RowSelection | None] = self._selections
        if isinstance(predicate, PruningPredicate):
            equalities = [one for one in self.kind.equalities if self._shows_stored(one.leaf)]
            yield Need(SEARCH_BYTES if equalities else 0)
            selections = self._select_by_pages(predicate)
            found = self._locator.search(selections, equalities)
            if found is not None and not self._needs_parts(found[0].rows):
                located, rest = found
                yield self._locator.keep_matching(self._leave_deleted(located), rest)
                return
        if self._table is not None:
            selections = self._select_live(selections)
        yield from self._locator.evaluate_all(selections)

    def _needs_parts(self, rows: RowsOfGroups) -> bool:
        """Return whether rows take so much memory that they are decoded in parts."""
        groups = np.flatnonzero(rows.counts).tolist()
        sizes = self.decoder.estimate(groups, self.kind.projection.names)
        shares = rows.counts[groups] / np.maximum(self.decoder.num_rows[groups], 1)
        return self.decoder.limits.needs_windows(int((sizes * shares).sum()))

    def read(self, located: LocatedRows) -> pa.Table:
        """Read the columns of the result in rows that were located."""
        projection = self.kind.projection
        if not len(located.rows.rows):
            return empty_table(projection.schema)
        known = {name: column for name, column in located.columns.items() if name in projection.schema.names}
        window = None if located.window is None else located.window._replace(is_result=True)
        table = self.decoder.read(projection.names, projection.schema, located.rows, known, window)
        way = ("pages", "") if located.is_searched else ("columns", MANY_ROWS)
        self.ways = [*dict.fromkeys([way, *self.decoder.ways] if known else self.decoder.ways)]
        return table

    def add_positions(self, table: pa.Table, rows: RowsOfGroups) -> pa.Table:
        """Append their physical positions to rows."""
        counts = rows.counts.tolist()
        firsts = [self._first_row(group) if count else 0 for group, count in enumerate(counts)]
        numbers = self.decoder.row_groups
        paths = [self._plans[file].path for file, _ in numbers]
        positions = rows.rows + np.repeat(np.array(firsts, np.int64), counts)
        return add_positions(table, paths, [number for _, number in numbers], counts, positions)

    def count(self, rows: RowsOfGroups) -> dict[int, int]:
        """Return how many rows of each row group there are, those of several files by the same number together."""
        result: dict[int, int] = {}
        for (_, number), count in zip(self.decoder.row_groups, rows.counts.tolist(), strict=True):
            result[number] = result.get(number, 0) + count
        return result

    def remember(self, files: PlannedFiles) -> None:
        """Update the sizes in the cache of files of which page headers were kept."""
        if self.decoder.pages is not None:
            files.remember(self.decoder.pages, self._footers)

    def _first_row(self, group: int) -> int:
        file, number = self.decoder.row_groups[group]
        return int(self._footers[file].footer.row_groups["num_rows"][:number].sum())

    def _shows_stored(self, leaf: Leaf) -> bool:
        """Return whether the values of a column are known to be shown as stored, so that their bytes decide."""
        return all(shows_stored(self._footers[file], leaf, [number]) for file, number in self.decoder.row_groups)

    def _select_by_pages(self, predicate: PruningPredicate) -> list[RowSelection | None]:
        """Return the rows of each row group that statistics of the pages of large chunks leave; None for all."""
        selections = list(self._selections)
        for group in self.decoder.find_indexed(self.kind.find_indexed(), self._least_indexed):
            selection, num_rows = selections[group], int(self.decoder.num_rows[group])
            # If zones leave few rows, page statistics would save less than they cost.
            if selection is None or count_rows(selection) * FEW_OF > num_rows:
                file, number = self.decoder.row_groups[group]
                with self._open_data(file) as data:
                    ranges = data.select_rows(number, predicate, selection)
                selections[group] = None if ranges == [(0, num_rows)] else tuple(ranges)
        return selections

    # ---------------------------------------------------------------------------------------- rows deleted by a table

    def _leave_deleted(self, located: LocatedRows) -> LocatedRows:
        """Return located rows without those that the table has deleted."""
        table, rows = self._table, located.rows
        if table is None or not any(table.has_deletes(plan.path) for plan in self._plans):
            return located
        ends, parts = np.cumsum(rows.counts).tolist(), []
        for group, (count, end) in enumerate(zip(rows.counts.tolist(), ends, strict=True)):
            if count:
                path = self._plans[self.decoder.row_groups[group][0]].path
                parts.append((path, rows.rows[end - count : end] + self._first_row(group)))

        def read_columns(columns: FileProjection) -> list[pa.Table]:
            known = {name: column for name, column in located.columns.items() if name in columns.schema.names}
            return [self.decoder.read(columns.names, columns.schema, rows, known)]

        live = table.find_live(ParquetData(self.kind.file), parts, read_columns)
        return located.take(np.flatnonzero(live))

    def _select_live(self, selections: Sequence[RowSelection | None]) -> Sequence[RowSelection | None]:
        """Take the rows that the table has deleted out of a selection."""
        table, result = self._table, list(selections)
        assert table is not None
        for group, (file, number) in enumerate(self.decoder.row_groups):
            if table.has_deletes(self._plans[file].path) and result[group] != ():
                with self._open_data(file) as data:
                    live = table.select_live(data, self._plans[file], [(number, result[group])])
                result[group] = live[0][1] if live else ()
        return result
