"""An open Parquet file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...file.cache.entry import CachedFooter
from ...file.pages.lookup import PageLookup
from ...file.pages.plain import PageColumn
from ...file.pages.sparse import RowGroupBatch, RowGroups
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ..model.limits import Limits
from ..model.plan import PARQUET
from ..model.row_selection import RowSelection, intersect_ranges, to_range_list, to_row_ranges
from ..model.schemas import arrow_schema, reading
from .columns_decoder import ColumnsDecoder
from .page_statistics import select_rows_by_pages

if TYPE_CHECKING:
    from typing import Self


class ParquetData:
    """`DataFile` of a Parquet file; also the only one of the files that are read together, see `OpenFiles`.

    Parameters
    ----------
    file : the file.
    limits : how much is decoded at once.
    columns : decodes whole columns; None to make it when it is first used.
    """

    format = PARQUET

    def __init__(self, file: BloomFile, limits: Limits | None = None, columns: ColumnsDecoder | None = None):
        self.file, self.path, self.source = file, file.path, file.source
        self._limits, self._columns = limits or Limits(max_bytes=None), columns
        self._lock = Lock()

    @property
    def columns(self) -> ColumnsDecoder:
        """Decodes whole columns."""
        if self._columns is None:
            with self._lock:
                self._columns = self._columns or ColumnsDecoder(self.file, limits=self._limits)
        return self._columns

    @property
    def footers(self) -> Sequence[CachedFooter]:
        return (self.file.cached,)

    @property
    def is_local(self) -> bool:
        return self.source.path is not None

    def make_pages(self, groups: RowGroups, columns: Mapping[str, PageColumn]) -> RowGroupBatch:
        return RowGroupBatch.of_file(self.file, groups, columns)

    def borrow(self, number: int) -> nullcontext[ParquetData]:
        return nullcontext(self)

    def remember(self, pages: RowGroupBatch) -> None:
        """Update the size in the cache of the file, if its entry has grown."""
        if pages.grown:
            self.file.remember()

    @property
    def leaves(self) -> list[Leaf]:
        return self.file.leaves

    @property
    def row_groups(self) -> range:
        return self.file.row_groups

    @property
    def schema(self) -> pa.Schema:
        if "arrow_schemas" in self.file.cached.derived:
            return arrow_schema(self.file)
        with reading(self.file):
            return arrow_schema(self.file)

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        with reading(self.file):
            return arrow_schema(self.file, columns)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.footer.num_rows_of(row_group)

    def find_stripe(self, row_group: int) -> None:
        return None

    def first_row_of(self, row_group: int) -> int:
        return int(self.file.footer.row_groups["num_rows"][:row_group].sum())

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        return trust.doubts(self.file)

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        ranges = None if selection is None else to_row_ranges(selection)
        with reading(self.file):
            if isinstance(predicate, PruningPredicate):
                self.columns.require_rows(row_group, sorted(tree.columns(predicate.node)))
                pages = PageLookup(self.file, row_group)
                ranges = intersect_ranges(select_rows_by_pages(self.file, row_group, pages, predicate), ranges)
        all_rows = [(0, self.num_rows_of(row_group))]
        return all_rows if ranges is None else to_range_list(ranges)

    def close(self) -> None:
        if self._columns is not None:
            self._columns.close()
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
