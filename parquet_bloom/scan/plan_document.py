"""Turn a plan into the report that a page draws: a cell for each row group, its state, and figures of the filters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from statistics import median

from ..core.bloom.sizing import BLOCK_BYTES, fpp_for
from ..page.cell_states import (
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
from ..util.messages import count, count_of, format_bytes, truncate_list
from .model.scan_plan import INDEX, TABLE, ZONES, FilePlan, RowGroupPlan, ScanPlan, describe_unopened
from .plan_details import MAX_FILTERS, MeasuredFilter, PlanDetails, RowGroupDetails

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
        causes = {"filter": FILTER, ZONES: ZONED, INDEX: INDEXED, "range": RANGE}
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


def make_report(plan: ScanPlan, details: PlanDetails, asked_fpp: float | None = None) -> Report:
    """Return what a page shows of a plan.

    Parameters
    ----------
    plan, details : the plan, and details of its files.
    asked_fpp : the false-positive probability that the filters were made for; None if unknown.
    """
    totals = _sum_details(plan, details)
    read_files, read_groups, *cost = plan_figures(plan)
    return {
        "title": "What this predicate reads",
        "where": shorten(plan.where, _MAX_WHERE),
        "facts": [read_files, read_groups, *_detail_figures(details, totals), *cost],
        "map": _make_map(plan, details) if plan.files else None,
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


def _make_map(plan: ScanPlan, details: PlanDetails) -> CellMap:
    shown, others = _choose_files(plan.files)
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


def _choose_files(files: list[FilePlan]) -> tuple[list[FilePlan], list[FilePlan]]:
    """Return the files that are drawn, and the others: of too many, those that are read and as many more as fit."""
    if sum(map(_num_cells, files)) <= MAX_CELLS:
        return files, []
    left = MAX_CELLS
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
