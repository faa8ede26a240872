"""Details that the page shows beyond the report: sizes, filters and their quality, and matching rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import ParquetBloomError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import file_statistics
from ...file.metadata_cache import SHARED_CACHE
from ...metadata.footer import SchemaLeaf
from ...predicate import tree
from ...predicate.tree import Contains, Equal, In
from ...tables.table_footers import as_table_footers
from ..decode.open_data import open_file
from ..decode.parquet_data import ParquetData
from ..model.scan_plan import FilePlan, ScanPlan
from ..row_reader import RowReader

if TYPE_CHECKING:
    from ...orc import OrcFile

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
    filters: dict[str, MeasuredFilter]


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
        groups = (group for of_file in self.files.values() for group in of_file)
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
    request = report.asked
    assert request is not None, "the report is not prune's"
    leaves = [] if request.node is None else [*tree.leaves(request.node)]
    names = sorted({leaf.column for leaf in leaves})
    equalities = {leaf.column for leaf in leaves if isinstance(leaf, Equal | In | Contains)}
    resolved = {report.partitions.resolve_name(name, request.ignore_case): name for name in equalities}
    filterable = sorted(name for column, name in resolved.items() if column not in report.partitions.schema.names)
    details = PlanDetails(checked=check)
    sample = _Sample(max(1, report.total_row_groups * max(1, len(filterable))))
    count = RowReader(report).count_matches if check else None
    cache = as_table_footers(SHARED_CACHE, None if report.table is None else report.table.columns)
    for done, plan in enumerate(report.files):
        if not plan.unopened:
            try:
                matches = _count_matches(count, plan, details)
                with open_file(plan.path, report.filesystem, cache) as data:
                    if plan.identity in (None, data.source.identity):
                        options = names, filterable, request.ignore_case, matches, sample, details
                        if isinstance(data, ParquetData):
                            details.files[plan.path] = _read_parquet(data.file, *options)
                        else:
                            details.files[plan.path] = _read_orc(data.file, *options)
                    else:
                        details.problems.append(f"{plan.path}: it was replaced meanwhile")
            except ParquetBloomError as error:
                details.problems.append(str(error))
        if progress:
            progress(done + 1, len(report.files))
    return details


def _count_matches(
    count: Callable[[FilePlan], dict[int, int]] | None, plan: FilePlan, details: PlanDetails
) -> dict[int, int]:
    if count is None or not plan.selected:
        return {}
    started = time.perf_counter()
    try:
        return count(plan)
    except ParquetBloomError as error:
        details.problems.append(str(error))
        return {}
    finally:
        details.seconds += time.perf_counter() - started


class _Sample:
    """Selects the filters that are read."""

    def __init__(self, num_filters: int):
        self._stride = -(-num_filters // MAX_FILTERS)
        self._number = -1
        self._remaining_bytes = MAX_FILTER_BYTES

    def takes(self) -> bool:
        self._number += 1
        return self._number % self._stride == 0

    def affords(self, num_bytes: int) -> bool:
        if num_bytes > self._remaining_bytes:
            return False
        self._remaining_bytes -= num_bytes
        return True


def _read_parquet(
    file: BloomFile,
    names: Sequence[str],
    filterable: Sequence[str],
    ignore_case: bool,
    matches: dict[int, int],
    sample: _Sample,
    details: PlanDetails,
) -> list[RowGroupDetails]:
    statistics = file_statistics(file, names, ignore_case)
    leaves = {name: column.leaf for name, column in statistics.columns.items() if column is not None}
    count = file.num_row_groups
    num_bytes = _sum_bytes(file, count, None)
    predicate_bytes = _sum_bytes(file, count, [leaf.index for leaf in leaves.values()])
    has = {name: statistics.columns[name] for name in filterable if name in leaves}
    filtered = {name: column.evidence.filtered for name, column in has.items() if column is not None}
    for name, of_column in filtered.items():
        details.num_filters[name] = details.num_filters.get(name, 0) + int(of_column.sum())
    return [
        RowGroupDetails(
            num_bytes[row_group],
            predicate_bytes[row_group],
            any(bool(of_column[row_group]) for of_column in filtered.values()) if filterable else None,
            matches.get(row_group),
            dict(
                _measure_filters(
                    file, row_group, {name: leaves[name] for name in filtered if filtered[name][row_group]}, sample
                )
            ),
        )
        for row_group in file.row_groups
    ]


def _read_orc(
    file: OrcFile,
    names: Sequence[str],
    filterable: Sequence[str],
    ignore_case: bool,
    matches: dict[int, int],
    sample: _Sample,
    details: PlanDetails,
) -> list[RowGroupDetails]:
    """Return the row groups of an ORC file; each has the share of its stripe's bytes that it has of the rows."""
    # Not at the top: most lakes have no ORC files.
    from ..plan.orc_level import orc_statistics

    statistics = orc_statistics(file, names, ignore_case)
    leaves = {name: leaf for name in filterable if (leaf := statistics.columns.get(name)) is not None}
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
            details.num_filters[name] = details.num_filters.get(name, 0) + (name in filtered)
        measured: dict[str, MeasuredFilter] = {}
        for name, leaf in filtered.items() if sample.takes() else ():
            one = file.filters_of(leaf, stripe.number)[row_group.row_group]
            if one is not None and one.trusted and sample.affords(one.num_bits // 8):
                measured[name] = MeasuredFilter(one.num_bits // 8, one.fpp, one.ndv_estimate)
        is_filtered = bool(filtered) if filterable else None
        row_groups.append(RowGroupDetails(num_bytes, 0, is_filtered, matches.get(row_group.number), measured))
    return row_groups


def _sum_bytes(file: BloomFile, count: int, columns: list[int] | None) -> list[int]:
    """Return the bytes of some columns' chunks, or of all, in each row group."""
    chunks = file.footer.chunks
    if columns is not None:
        chunks = chunks[np.isin(chunks["column"], columns)]
    sizes = np.maximum(chunks["compressed_size"], 0)
    inside = (chunks["row_group"] >= 0) & (chunks["row_group"] < count)
    totals = np.bincount(chunks["row_group"][inside], sizes[inside].astype(float), minlength=count)
    return [int(total) for total in totals]


def _measure_filters(
    file: BloomFile, row_group: int, leaves: dict[str, SchemaLeaf], sample: _Sample
) -> Iterator[tuple[str, MeasuredFilter]]:
    for name, leaf in leaves.items():
        if not sample.takes():
            continue
        try:
            chunk = file.chunk(row_group, leaf)
            if chunk is not None and sample.affords(chunk.num_bytes):
                yield name, MeasuredFilter(chunk.num_bytes, chunk.fpp, chunk.ndv_estimate)
        except ParquetBloomError:
            continue  # a filter that cannot be used has no fpp; the plan has a doubt about it
