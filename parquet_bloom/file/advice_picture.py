"""Picture the advice on columns: what a lookup of one value reads of each, with a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..page.cell_states import FILTER, RANGE, READ, STATES, UNKNOWN, CellState
from ..page.report_page import CellMap, ReportTable, describe_states, shorten
from ..util.messages import count_of, format_bytes
from .verdict import ENGINES, ColumnAdvice

_CELLS = 40  # of each column
_MAX_COLUMNS = 200  # drawn; a canvas cannot be of any height, and the table has all


def make_column_map(columns: Sequence[ColumnAdvice]) -> CellMap:
    """Return the picture of columns: cells that stand for their row groups, divided by what becomes of these."""
    drawn = columns[:_MAX_COLUMNS]
    about = f"What a lookup of one value reads, with a filter. A cell is {100 / _CELLS:g} % of the row groups."
    if len(drawn) < len(columns):
        about += f" The first {count_of(len(drawn), len(columns), 'column')} are drawn."
    strips = [_divide(advice) for advice in drawn]
    counts = sum(strips, Counter[CellState]())
    states = [state for state in STATES if state in counts]
    kinds: list[tuple[int, str]] = []
    kind_of: list[int] = []
    for advice, strip in zip(drawn, strips, strict=True):
        for state in filter(strip.__contains__, states):
            kind_of += [len(kinds)] * strip[state]
            kinds.append((states.index(state), _describe(advice)))
    return {
        "heading": "Columns",
        "about": about,
        "group": "column",
        "cell": "cell",
        "is_share": True,
        "states": describe_states({state: counts[state] for state in states}),
        "kinds": kinds,
        "folders": [""],
        "ending": "",
        "groups": [(0, f"{shorten(advice.column)}: {advice.verdict}", _CELLS) for advice in drawn],
        "kind_of": kind_of,
        "rows": [],
        "bytes": [],
    }


def _divide(advice: ColumnAdvice) -> Counter[CellState]:
    """Divide a column's cells; what is read has one at least."""
    by_range = round((1 - advice.in_range) * _CELLS)
    if advice.skipped_present is None:
        rest = READ if advice.barred else UNKNOWN
        return Counter({rest: max(1, _CELLS - by_range), RANGE: min(by_range, _CELLS - 1)})
    read = max(1, round((1 - advice.skipped_present) * _CELLS))
    by_range = min(by_range, _CELLS - read)
    return Counter({READ: read, FILTER: _CELLS - read - by_range, RANGE: by_range})


def _describe(advice: ColumnAdvice) -> str:
    read = "unknown" if advice.skipped_present is None else _percent(1 - advice.skipped_present)
    lines = [
        f"a filter: {advice.verdict}; {shorten(advice.reason, 400)}",
        f"a lookup reads of the row groups: {read} with a filter, {_percent(advice.in_range)} by min and max alone",
    ]
    if advice.filtered:
        lines.append(f"{count_of(advice.filtered, advice.row_groups, 'row group')} have a filter")
    return "\n".join(lines)


def make_column_table(columns: Sequence[ColumnAdvice], fpp: float, num_bytes: int) -> ReportTable:
    """Return the figures of columns; filters are of that fpp, and their sizes shares of `num_bytes`."""
    heads = ["column", "filter?", "type", "distinct", "min and max leave", "a filter skips", "filters take", "of files"]
    rows = [
        [
            shorten(advice.column),
            advice.verdict,
            advice.type,
            _percent(advice.distinct),
            _percent(advice.in_range),
            _percent(advice.skipped_present),
            format_bytes(advice.sizes[fpp]) if fpp in advice.sizes else "",
            _percent(advice.share(fpp, num_bytes)),
            "all" if len(advice.engines) == len(ENGINES) else ", ".join(advice.engines),
            shorten(advice.reason, 400),
        ]
        for advice in columns
    ]
    about = f"Filters are of fpp {fpp:g}. “Skips” is the share of the row groups, for a value that occurs."
    numbers = [3, 4, 5, 6, 7]
    heads += ["asked by", "why"]
    return {"heading": "Figures", "about": about, "heads": heads, "rows": rows, "numbers": numbers, "curves": []}


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.1%}"
