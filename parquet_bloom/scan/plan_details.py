"""Details that a page shows beyond the plan: sizes, filters and their quality, and matching rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.column_statistics import file_statistics
from ..file.metadata_cache import SHARED_CACHE
from ..metadata.footer import SchemaLeaf
from ..predicate import tree
from ..predicate.tree import Contains, Equal, In
from ..tables.table_footers import as_table_footers
from .decode.open_data import open_file
from .decode.parquet_data import ParquetData
from .model.scan_plan import FilePlan, ScanPlan
from .row_reader import RowReader

if TYPE_CHECKING:
    from ..orc import OrcFile

MAX_FILTERS = 500
"""Maximum number of filters that are read, evenly spread over the row groups."""

MAX_FILTER_BYTES = 64 * 1024 * 1024
"""Maximum size of the filters that are read."""


class MeasuredFilter(NamedTuple):
    """A filter that was read.

    Attributes
    ----------
    num_bytes : of its bitset.
    fpp, ndv : false-positive probability and number of distinct values, estimated from the bits that are set.
    """

    num_bytes: int
    fpp: float
    ndv: float


class RowGroupDetails(NamedTuple):
    """Details of one row group.

    Attributes
    ----------
    num_bytes : of its column chunks, as they are stored; in ORC files its share of the stripe.
    predicate_bytes : of the chunks of the predicate's columns; 0 if unknown.
    filtered : whether a column that filters can answer has a filter; None if there is no such column.
    matches : rows that match; None if they were not counted.
    filters : {column: its filter} of those that were read.
    """

    num_bytes: int
    predicate_bytes: int
    filtered: bool | None
    matches: int | None
    filters: Mapping[str, MeasuredFilter]


@dataclass
class PlanDetails:
    """Details of all files.

    Attributes
    ----------
    files : {path: its row groups}; files that have changed or cannot be read are missing.
    problems : why files or their matches are missing.
    num_filters : {column: number of row groups with a filter on it}.
    checked : whether matching rows were counted.
    seconds : time that counting took.
    """

    files: dict[str, list[RowGroupDetails]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    num_filters: dict[str, int] = field(default_factory=dict)
    checked: bool = False
    seconds: float = 0.0

    def measured(self, column: str) -> list[MeasuredFilter]:
        """Return the filters of a column that were read."""
        groups = (group for row_groups in self.files.values() for group in row_groups)
        return [group.filters[column] for group in groups if column in group.filters]


def read_details(
    report: ScanPlan, check: bool = False, progress: Callable[[int, int], None] | None = None
) -> PlanDetails:
    """Read the details of a report's files.

    Parameters
    ----------
    report : of `prune`.
    check : also read the predicate's columns in the selected row groups, and count the rows that match.
    progress : called after each file with (done, in all).
    """
    return _DetailReader(report, check).read(progress)


class _DetailReader:
    """Reads details, and decides which filters are read for them."""

    def __init__(self, report: ScanPlan, check: bool):
        request = report.asked
        assert request is not None, "the report is not prune's"
        leaves = [] if request.node is None else [*tree.leaves(request.node)]
        equalities = {leaf.column for leaf in leaves if isinstance(leaf, Equal | In | Contains)}
        resolved = {report.partitions.resolve_name(name, request.ignore_case): name for name in equalities}
        self._report, self._ignore_case = report, request.ignore_case
        self._cache = as_table_footers(SHARED_CACHE, None if report.table is None else report.table.columns)
        self._names = sorted({leaf.column for leaf in leaves})
        self._filterable = sorted(
            name for column, name in resolved.items() if column not in report.partitions.schema.names
        )
        self._count = RowReader(report).count_matches if check else None
        self._details = PlanDetails(checked=check)
        self._stride = -(-max(1, report.total_row_groups * len(self._filterable)) // MAX_FILTERS)
        self._number = -1  # of the filter that was seen last
        self._remaining_bytes = MAX_FILTER_BYTES

    def read(self, progress: Callable[[int, int], None] | None) -> PlanDetails:
        """Read the details of all files."""
        files = self._report.files
        for done, plan in enumerate(files):
            if not plan.unopened:
                try:
                    self._details.files[plan.path] = self._read_file(plan)
                except ParquetBloomError as error:
                    self._details.problems.append(str(error))
            if progress:
                progress(done + 1, len(files))
        return self._details

    def _read_file(self, plan: FilePlan) -> list[RowGroupDetails]:
        matches = self._count_matches(plan)
        with open_file(plan.path, self._report.filesystem, self._cache) as data:
            if plan.identity in (None, data.source.identity):
                if isinstance(data, ParquetData):
                    row_groups = self._read_parquet(data.file, matches)
                else:
                    row_groups = self._read_orc(data.file, matches)
                if len(row_groups) == len(plan.row_groups):
                    return row_groups
        raise ParquetBloomError("it was replaced meanwhile", path=plan.path)

    def _count_matches(self, plan: FilePlan) -> dict[int, int]:
        if self._count is None or not plan.selected:
            return {}
        started = time.perf_counter()
        try:
            return self._count(plan)
        except ParquetBloomError as error:
            self._details.problems.append(str(error))
            return {}
        finally:
            self._details.seconds += time.perf_counter() - started

    def _read_parquet(self, file: BloomFile, matches: dict[int, int]) -> list[RowGroupDetails]:
        columns = file_statistics(file, self._names, self._ignore_case).columns
        found = {name: column for name, column in columns.items() if column is not None}
        filtered = {name: found[name].evidence.filtered for name in self._filterable if name in found}
        for name, with_filter in filtered.items():
            self._add_filters(name, int(with_filter.sum()))
        num_bytes = _sum_bytes(file, None)
        predicate_bytes = _sum_bytes(file, [column.leaf.index for column in found.values()])
        row_groups = []
        for row_group in file.row_groups:
            leaves = {name: found[name].leaf for name, with_filter in filtered.items() if with_filter[row_group]}
            row_groups.append(
                RowGroupDetails(
                    int(num_bytes[row_group]),
                    int(predicate_bytes[row_group]),
                    bool(leaves) if self._filterable else None,
                    matches.get(row_group),
                    dict(self._measure_filters(file, row_group, leaves)),
                )
            )
        return row_groups

    def _measure_filters(
        self, file: BloomFile, row_group: int, leaves: dict[str, SchemaLeaf]
    ) -> Iterator[tuple[str, MeasuredFilter]]:
        for name, leaf in leaves.items():
            if not self._is_sampled():
                continue
            try:
                chunk = file.chunk(row_group, leaf)
                if chunk is not None and self._affords(chunk.num_bytes):
                    yield name, MeasuredFilter(chunk.num_bytes, chunk.fpp, chunk.ndv_estimate)
            except ParquetBloomError:
                continue  # a filter that cannot be used has no fpp; the plan has a doubt about it

    def _read_orc(self, file: OrcFile, matches: dict[int, int]) -> list[RowGroupDetails]:
        """Return the row groups of an ORC file; each has the share of its stripe's bytes that it has of the rows."""
        # Not at the top: most lakes have no ORC files.
        from .plan.orc_level import orc_statistics

        columns = orc_statistics(file, self._names, self._ignore_case).columns
        leaves = {name: leaf for name in self._filterable if (leaf := columns.get(name)) is not None}
        evidence = file.row_group_evidence(list(leaves.values()), range(len(file.stripes))) if leaves else {}
        row_groups = []
        for row_group in file.row_groups:
            stripe = file.stripes[row_group.stripe]
            num_bytes = stripe.data_length * row_group.num_rows // max(1, stripe.num_rows)
            filtered = {
                name: leaf
                for name, leaf in leaves.items()
                if evidence[stripe.number, leaf.column_id][row_group.row_group].filtered
            }
            for name in leaves:
                self._add_filters(name, int(name in filtered))
            measured: dict[str, MeasuredFilter] = {}
            for name, leaf in filtered.items():
                if self._is_sampled():
                    found = file.filters_of(leaf, stripe.number)[row_group.row_group]
                    if found is not None and found.trusted and self._affords(found.num_bits // 8):
                        measured[name] = MeasuredFilter(found.num_bits // 8, found.fpp, found.ndv_estimate)
            is_filtered = bool(filtered) if self._filterable else None
            row_groups.append(RowGroupDetails(num_bytes, 0, is_filtered, matches.get(row_group.number), measured))
        return row_groups

    def _add_filters(self, column: str, number: int) -> None:
        num_filters = self._details.num_filters
        num_filters[column] = num_filters.get(column, 0) + number

    def _is_sampled(self) -> bool:
        self._number += 1
        return self._number % self._stride == 0

    def _affords(self, num_bytes: int) -> bool:
        if num_bytes > self._remaining_bytes:
            return False
        self._remaining_bytes -= num_bytes
        return True


def _sum_bytes(file: BloomFile, columns: list[int] | None) -> NDArray[Any]:
    """Return the bytes of some columns' chunks, or of all, in each row group."""
    chunks, count = file.footer.chunks, file.num_row_groups
    if columns is not None:
        chunks = chunks[np.isin(chunks["column"], columns)]
    chunks = chunks[(chunks["row_group"] >= 0) & (chunks["row_group"] < count)]
    return np.bincount(chunks["row_group"], np.maximum(chunks["compressed_size"], 0).astype(float), minlength=count)
