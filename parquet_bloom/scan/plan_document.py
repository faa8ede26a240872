"""Turn a plan into the report that a page draws: a cell for each row group, its state, and figures of the filters."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.bloom.sizing import BLOCK_BYTES, fpp_for
from ..errors import ParquetBloomError
from ..file.bloom_file import BloomFile
from ..file.column_statistics import file_statistics
from ..file.metadata_cache import SHARED_CACHE
from ..metadata.footer import SchemaLeaf
from ..page.cell_states import (
    DICTIONARY,
    DOUBTFUL,
    FILTER,
    INDEXED,
    INDEXED_FILE,
    MATCHED,
    OTHER,
    PARTITION,
    RANGE,
    READ,
    STATES,
    TABLE_FILE,
    UNFILTERED,
    VAIN,
    VAIN_UNFILTERED,
    ZONED,
    CellState,
)
from ..page.report_page import CellMap, Curve, Report, ReportTable, describe_states, shorten, split_paths
from ..predicate import tree
from ..predicate.tree import Contains, Equal, In
from ..tables.table_footers import as_table_footers
from ..util.messages import count, count_of, format_bytes, truncate_list
from .decode.open_data import open_file
from .decode.parquet_data import ParquetData
from .model.scan_plan import INDEX, TABLE, ZONES, FilePlan, RowGroupPlan, ScanPlan, describe_unopened
from .row_reader import RowReader

if TYPE_CHECKING:
    from ..orc import OrcFile


MAX_CELLS = 200_000
"""Row groups, and files that are not opened, that a page draws at most; files that are read come before others."""

_MAX_WHERE = 10_000  # characters of a predicate
_MAX_DOUBTS = 3  # shown for a row group, and for a file
_MAX_FILES = 40  # in the table
_MAX_CURVES = 6
_MAX_DOTS = 200
_NOISE = 1.2  # estimates from the bits of a filter are less precise than this factor
_LOWEST_FPP = 1e-6
_MIN_BYTES, _MIN_SECONDS = 1_000_000, 0.02  # less does not give a rate


def row_group_state(plan: RowGroupPlan, details: RowGroupDetails | None = None) -> CellState:
    """Return the state of a row group; without details neither its filter nor its matching rows are known."""
    if not plan.read:
        causes = {"dictionary": DICTIONARY, "filter": FILTER, ZONES: ZONED, INDEX: INDEXED, "range": RANGE}
        return next((state for cause, state in causes.items() if cause in plan.by), OTHER)
    matches = None if details is None else details.matches
    if matches:
        return MATCHED
    if plan.doubts:
        return DOUBTFUL
    if details is not None and details.filtered is False:
        return UNFILTERED if matches is None else VAIN_UNFILTERED
    return READ if matches is None else VAIN


def file_states(file: FilePlan, details: Sequence[RowGroupDetails] | None = None) -> list[CellState]:
    """Return the state of each row group of a file, or that of the file if it was not opened."""
    if file.unopened:
        return [{INDEX: INDEXED_FILE, TABLE: TABLE_FILE}.get(file.unopened_by, PARTITION)]
    return list(map(row_group_state, file.row_groups, details or repeat(None)))


def make_report(
    plan: ScanPlan, details: PlanDetails, asked_fpp: float | None = None, most_cells: int = MAX_CELLS
) -> Report:
    """Return what a page shows of a plan.

    Parameters
    ----------
    plan, details : the plan, and details of its files.
    asked_fpp : the false-positive probability that the filters were made for; None if unknown.
    most_cells : row groups that are drawn.
    """
    totals = _sum_details(plan, details)
    read_files, read_groups, *cost = plan_figures(plan)
    return {
        "title": "What this predicate reads",
        "where": shorten(plan.where, _MAX_WHERE),
        "facts": [read_files, read_groups, *_detail_figures(details, totals), *cost],
        "map": _make_map(plan, details, most_cells) if plan.files else None,
        "notes": [*_describe_notes(plan, details, totals)],
        "commands": [],
        "tables": [*_make_filter_table(details, asked_fpp), *_make_file_table(plan, details)],
    }


# ------------------------------------------------------------------------------------------------ figures and notes


def plan_figures(plan: ScanPlan) -> Iterator[tuple[str, str, str]]:
    """Yield what is read, and what it took to decide that, as (label, number, remark)."""
    yield "files read", f"{plan.selected_files:,}", f"of {plan.total_files:,}"
    yield "row groups read", f"{plan.selected_row_groups:,}", f"of {plan.total_row_groups:,}"
    if plan.requests:
        yield "cost of deciding", format_bytes(plan.bytes_read), f"in {count(plan.requests, 'request')}"


def _detail_figures(details: PlanDetails, totals: Counter[str]) -> Iterator[tuple[str, str, str]]:
    if totals["bytes"]:
        skipped = totals["bytes"] - totals["bytes read"]
        share = format_share(skipped, totals["bytes"])
        yield "bytes skipped", share, f"{format_bytes(skipped)} of {format_bytes(totals['bytes'])}"
    if details.checked:
        yield "rows that match", f"{totals['matches']:,}", f"in {count(totals['matched'], 'row group')}"
        yield "read in vain", f"{totals['vain']:,}", f"of {count(totals['matched'] + totals['vain'], 'row group')}"


def _sum_details(plan: ScanPlan, details: PlanDetails) -> Counter[str]:
    """Sum up bytes, those of the predicate's columns, matching rows, and row groups with and without any."""
    totals: Counter[str] = Counter()
    for file in plan.files:
        groups = details.files.get(file.path)
        for row_group, group in zip(file.row_groups, groups, strict=True) if groups else ():
            totals["bytes"] += group.num_bytes
            totals["predicate"] += group.predicate_bytes
            if row_group.read:
                totals["bytes read"] += group.num_bytes
                totals["predicate read"] += group.predicate_bytes
                totals["matches"] += group.matches or 0
                totals["matched"] += bool(group.matches)
                totals["vain"] += group.matches == 0
    return totals


def format_share(part: int, total: int) -> str:
    """Format a percentage that is never rounded up to 100, or down to 0."""
    if part in (0, total):
        return f"{100 * part // total} %"
    return f"{min(99.99, max(0.01, 100 * part / total)):.{1 if part / total < 0.99 else 2}f} %"


def _describe_notes(plan: ScanPlan, details: PlanDetails, totals: Counter[str]) -> Iterator[str]:
    if not plan.files:
        yield "There are no files."
        return
    if plan.table is not None:
        version = "" if plan.table.version is None else f" at version {plan.table.version}"
        yield f"The files are those of the {plan.table.kind} table {shorten(plan.table.root)}{version}."
    if details.files:
        yield "Bytes are those of the column chunks as the footers give them, compressed, all columns together."
    if plan.unopened_files:
        causes = "; ".join(describe_unopened(plan))
        yield f"{count(plan.unopened_files, 'file')} not opened ({causes}): their row groups are not counted."
    for note in plan.index_notes:
        yield f"Of the index: {note}."
    for doubt in plan.index_doubts:
        yield f"The index is doubtful, so more may be read than necessary: {shorten(doubt)}"
    for doubt in truncate_list(plan.zone_doubts):
        yield f"Zones are not used, so more may be read than necessary: {shorten(doubt)}"
    if details.checked:
        yield _describe_time(totals, details.seconds)
    else:
        yield "No data was read: whether rows match in the row groups that are read is not known."
    if details.problems:
        more = f"; {len(details.problems) - 3:,} more" if len(details.problems) > 3 else ""
        problems = "; ".join(map(shorten, details.problems[:3]))
        yield f"Without details, as files could not be read again: {problems}{more}."


def _describe_time(totals: Counter[str], seconds: float) -> str:
    read = totals["predicate read"]
    skipped = totals["predicate"] - read
    cost = f"To look for matches, {format_bytes(read)} of the predicate's columns took {seconds:.2f} s."
    if read < _MIN_BYTES or seconds < _MIN_SECONDS:
        return f"{cost} That is too little to estimate a rate, and the time saved."
    more = skipped / read * seconds
    return (
        f"{cost} At that rate, the {format_bytes(skipped)} of these columns that were skipped would have taken about "
        f"{more:,.{0 if more >= 10 else 1}f} s more: an estimate, for this predicate and this machine."
    )


# ------------------------------------------------------------------------------------------------ the picture


def _make_map(plan: ScanPlan, details: PlanDetails, most_cells: int) -> CellMap:
    shown, others = _choose_files(plan.files, most_cells)
    kinds: dict[tuple[object, ...], int] = {}
    described: list[tuple[CellState, str]] = []
    kind_of: list[int] = []
    rows: list[int] = []
    sizes: list[int] = []
    for file in shown:
        groups = details.files.get(file.path)
        keys = map(_row_group_key, file.row_groups, groups or repeat(None))
        for number, key in enumerate([(file.unopened, file.unopened_by)] if file.unopened else keys):
            kind = kinds.setdefault(key, len(kinds))
            if kind == len(described):
                text = shorten(file.unopened) or _describe_row_group(file, number, groups)
                described.append((file_states(file, groups)[number], text))
            kind_of.append(kind)
        rows += [-1] if file.unopened else [group.num_rows for group in file.row_groups]
        sizes += [group.num_bytes for group in groups] if groups else [-1] * _num_cells(file)
    counts = Counter(described[kind][0] for kind in kind_of)
    for file in others:
        counts.update(file_states(file, details.files.get(file.path)))
    states = [state for state in STATES if state in counts]
    paths = split_paths([file.path for file in shown])
    about = "A cell is a row group. Those of a file stand side by side, and files in the order of the plan."
    if others:
        about += f" {count_of(len(shown), len(plan.files), 'file')} are drawn: first of all those that are read."
    return {
        "heading": "Row groups",
        "about": about + (f" All paths begin with {paths.prefix}" if paths.prefix else ""),
        "group": "file",
        "cell": "row group",
        "is_share": False,
        "states": describe_states({state: counts[state] for state in states}),
        "kinds": [(states.index(state), text) for state, text in described],
        "folders": paths.folders,
        "ending": paths.ending,
        "groups": [(*name, _num_cells(file)) for name, file in zip(paths.names, shown, strict=True)],
        "kind_of": kind_of,
        "rows": rows,
        "bytes": sizes,
    }


def _num_cells(file: FilePlan) -> int:
    return 1 if file.unopened else len(file.row_groups)


def _choose_files(files: list[FilePlan], most_cells: int) -> tuple[list[FilePlan], list[FilePlan]]:
    """Return the files that are drawn, and the others: of too many, those that are read and as many more as fit."""
    if sum(map(_num_cells, files)) <= most_cells:
        return files, []
    left = most_cells
    chosen = set()
    for number in sorted(range(len(files)), key=lambda number: not files[number].selected):
        if _num_cells(files[number]) <= left:
            left -= _num_cells(files[number])
            chosen.add(number)
    numbered = [*enumerate(files)]
    return [file for n, file in numbered if n in chosen], [file for n, file in numbered if n not in chosen]


def _row_group_key(plan: RowGroupPlan, details: RowGroupDetails | None) -> tuple[object, ...]:
    """Return all that a row group's state and description depend on."""
    known = () if details is None else (details.filtered, details.matches, *details.filters.items())
    return plan.read, plan.by, plan.reason, plan.doubts, plan.rows and plan.num_left, known


def _describe_row_group(file: FilePlan, number: int, groups: Sequence[RowGroupDetails] | None) -> str:
    """Describe a row group on several lines: the reasons of its plan, and its filters."""
    plan, details = file.row_groups[number], groups[number] if groups else None
    lines = [shorten(plan.reason)] if plan.reason else []
    if details is not None and details.matches is not None:
        lines.append(f"{details.matches:,} of its rows match")
    lines += [f"zones leave {plan.num_left:,} rows"] if plan.rows is not None else []
    lines += [f"doubtful: {shorten(doubt)}" for doubt in plan.doubts[:_MAX_DOUBTS]]
    for column, measured in details.filters.items() if details is not None else ():
        size, fpp = format_bytes(measured.num_bytes), format_fpp(measured.fpp)
        lines.append(f"filter on {shorten(column)}: {size}, fpp {fpp}")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ filters


def format_fpp(share: float) -> str:
    """Format a probability."""
    text = f"{share * 100:.2g}"
    return f"{share * 100:.0f} %" if share >= 0.1 or not share else f"{text} %" if "e" not in text else f"{share:.1e}"


def _make_filter_table(details: PlanDetails, asked_fpp: float | None) -> Iterator[ReportTable]:
    if not details.num_filters:
        return
    about = (
        f"Each dot is a filter, of many some {MAX_FILTERS:,}: its false-positive probability is estimated from its "
        "bits. The line is what a filter of each size would have, for the median number of distinct values."
    )
    if not any(details.num_filters.values()):
        about = "The columns have none: `parquet-bloom advise` tells whether they are worth it."
    heads, rows = ["column", "filters", "measured", "what they are"], []
    for column, number in details.num_filters.items():
        measured = details.measured(column)
        rows.append([shorten(column), f"{number:,}", f"{len(measured):,}", describe_filters(measured)])
        if asked_fpp is not None:
            rows[-1].append(f"{sum(each.fpp > _NOISE * asked_fpp for each in measured):,}")
    if asked_fpp is not None:
        heads.append(f"over {_NOISE} × asked")
    curves = [*_make_curves(details, asked_fpp)]
    yield {"heading": "Filters", "about": about, "heads": heads, "rows": rows, "numbers": [1, 2, 4], "curves": curves}


def describe_filters(filters: Sequence[MeasuredFilter]) -> str:
    """Describe the filters of a column in one line."""
    if not filters:
        return ""
    fpps = sorted(each.fpp for each in filters)
    finite = [each.ndv for each in filters if math.isfinite(each.ndv)]
    values = f"{median(finite):,.0f} distinct values" if finite else "full"
    size = format_bytes(int(median(each.num_bytes for each in filters)))
    worst = f", worst {format_fpp(fpps[-1])}" if len(fpps) > 1 else ""
    return f"median {size}, {values}, fpp {format_fpp(median(fpps))}{worst}"


def _make_curves(details: PlanDetails, asked_fpp: float | None) -> Iterator[Curve]:
    """Yield the filters of each column by size, with the curve of the model around them."""
    for column in [*details.num_filters][:_MAX_CURVES]:
        filters = details.measured(column)
        if not filters:
            continue
        sizes = [each.num_bytes for each in filters]
        ndv = median([each.ndv for each in filters if math.isfinite(each.ndv)] or [0.0])
        first = max(5, math.floor(math.log2(max(BLOCK_BYTES, min(sizes)))) - 4)
        last = min(27, math.ceil(math.log2(max(sizes))) + 3)
        steps = [round(2 ** (first + step / 8) / BLOCK_BYTES) * BLOCK_BYTES for step in range((last - first) * 8 + 1)]
        line = [(num_bytes, fpp_for(ndv, num_bytes)) for num_bytes in steps]
        yield {
            "column": shorten(column),
            "caption": describe_filters(filters),
            "line": [(num_bytes, fpp) for num_bytes, fpp in line if fpp >= _LOWEST_FPP],
            "span": (2**first, 2**last),
            "dots": [
                (max(BLOCK_BYTES, each.num_bytes), max(_LOWEST_FPP, each.fpp))
                for each in filters[:: max(1, len(filters) // _MAX_DOTS)]
            ],
            "asked": asked_fpp,
        }


# ------------------------------------------------------------------------------------------------ files


def _make_file_table(plan: ScanPlan, details: PlanDetails) -> Iterator[ReportTable]:
    shown = plan.first_files(_MAX_FILES)
    if not shown:
        return
    heads = ["file", "row groups read", "rows", "bytes", "rows that match", "skipped by", "doubtful"]
    rows = [_describe_file(file, details) for file in shown]
    rest = len(plan.files) - len(shown)
    left = plan.selected_files - sum(bool(file.selected) for file in shown)
    about = f"{count(rest, 'more file')}, {left:,} of them read." if rest else ""
    numbers = [1, 2, 3, 4]
    yield {"heading": "Files", "about": about, "heads": heads, "rows": rows, "numbers": numbers, "curves": []}


def _describe_file(file: FilePlan, details: PlanDetails) -> list[str]:
    groups = details.files.get(file.path, [])
    read = [groups[row_group] for row_group in file.selected if groups]
    rows = sum(plan.num_rows for plan in file.read_groups)
    return [
        shorten(file.path, 320),
        "" if file.unopened else f"{len(file.selected):,} of {len(file.row_groups):,}",
        f"{rows:,}" if rows else "",
        format_bytes(sum(group.num_bytes for group in read)) if read else "",
        f"{sum(group.matches or 0 for group in read):,}" if read and details.checked else "",
        describe_causes(file),
        describe_doubts(file),
    ]


def describe_causes(file: FilePlan) -> str:
    """Describe what ruled out row groups of a file, or the whole file."""
    if file.unopened:
        return f"not opened: {shorten(file.unopened)}"
    return ", ".join(f"{shorten(cause)}: {number:,}" for cause, number in sorted(file.skipped_by.items()))


def describe_doubts(file: FilePlan) -> str:
    """Describe the first few doubts about a file."""
    doubts = file.doubts
    more = [f"{len(doubts) - _MAX_DOUBTS:,} more"] if len(doubts) > _MAX_DOUBTS else []
    return "; ".join([*map(shorten, doubts[:_MAX_DOUBTS]), *more])


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
