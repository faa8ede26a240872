"""An open Parquet file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...file.pages.reader import RowGroupPages
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.pruning import PruningPredicate
from ...storage import Source
from ...util.lazy import late_module
from ..model.limits import ReadLimits
from ..model.plan import PARQUET
from ..model.row_selection import RowSelection, intersect_ranges, to_range_list, to_row_ranges
from ..model.schemas import arrow_schema, reading, select_schema
from .columns_decoder import ColumnsDecoder
from .page_statistics import select_rows_by_pages

if TYPE_CHECKING:
    from typing import Self

    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


class ParquetData:
    """`DataFile` of a Parquet file.

    Attributes
    ----------
    columns : decodes whole columns.
    """

    format = PARQUET

    def __init__(self, file: BloomFile, columns: ColumnsDecoder | None = None):
        self.file = file
        self.columns = columns or ColumnsDecoder(file)

    @property
    def is_shareable(self) -> bool:
        return self.source.path is not None  # what is prefetched of an object is for one row group at a time

    @property
    def limits(self) -> ReadLimits:
        return self.columns.limits

    @limits.setter
    def limits(self, limits: ReadLimits) -> None:
        self.columns.limits = limits

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def source(self) -> Source:
        return self.file.source

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
            return select_schema(self.file, columns)

    def num_rows_of(self, row_group: int) -> int:
        return self.file.footer.num_rows_of(row_group)

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
                pages = RowGroupPages(self.file, arrow_schema(self.file), row_group)
                ranges = intersect_ranges(select_rows_by_pages(self.file, row_group, pages, predicate), ranges)
        all_rows = [(0, self.num_rows_of(row_group))]
        return all_rows if ranges is None else to_range_list(ranges)

    def close(self) -> None:
        self.columns.close()
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
