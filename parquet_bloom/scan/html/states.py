"""The states of a row group in a plan, each with a colour, and a pattern that is visible without colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..model.scan_plan import INDEX, TABLE, ZONES, FilePlan, RowGroupPlan


@dataclass(frozen=True)
class CellState:
    """One state of a row group.

    Attributes
    ----------
    key : its name in the page's markup.
    label : its name for readers.
    read : whether the row group is read.
    light, dark : (colour, colour of the pattern) on a light and on a dark background.
    pattern : SVG shapes on a tile of 8 by 8; empty for a plain colour.
    """

    key: str
    label: str
    read: bool
    light: tuple[str, str]
    dark: tuple[str, str]
    pattern: str = ""


_RISING = '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4" fill="none" stroke-width="2.4"/>'
_CROSSED = '<path d="M0 0l8 8M0 8l8-8" fill="none" stroke-width="1.6"/>'
_LEVEL = '<path d="M0 2h8M0 6h8" fill="none" stroke-width="1.2"/>'
_UPRIGHT = '<path d="M2 0v8" fill="none" stroke-width="1"/>'
_DOTS = '<path d="M2 2h.01M6 6h.01" fill="none" stroke-width="1.9" stroke-linecap="round"/>'
_THIN = '<path d="M0 4h8" fill="none" stroke-width=".8"/>'

MATCHED = CellState("matched", "read, rows match", True, ("#c2410c", "#c2410c"), ("#fb7a35", "#fb7a35"))
READ = CellState("read", "read", True, ("#c2410c", "#c2410c"), ("#fb7a35", "#fb7a35"))
VAIN = CellState("vain", "read in vain", True, ("#ffe9d9", "#d9601f"), ("#43220f", "#fb8a4c"), _RISING)
UNFILTERED = CellState("unfiltered", "read, no filter", True, ("#fdeebb", "#b07f00"), ("#453709", "#d9ad2b"), _LEVEL)
VAIN_UNFILTERED = replace(UNFILTERED, key="vain-unfiltered", label="read in vain, no filter")
DOUBTFUL = CellState("doubtful", "read, doubtful", True, ("#f1d3e6", "#a3387c"), ("#4d1b3b", "#e289bf"), _CROSSED)
FILTER = CellState("filter", "skipped by filter", False, ("#d9e9f7", "#7fb2dc"), ("#16344d", "#3f7eb3"), _DOTS)
RANGE = CellState("range", "skipped by range", False, ("#e6e8ec", "#e6e8ec"), ("#2c3138", "#2c3138"))
OTHER = CellState(
    "other", "skipped by nulls, type or no rows", False, ("#e6e8ec", "#9aa1ab"), ("#2c3138", "#6d7682"), _UPRIGHT
)
INDEXED = CellState("index", "skipped by the index", False, ("#dcefe3", "#6fb58c"), ("#173a28", "#3f9468"), _DOTS)
ZONED = CellState("zones", "skipped by its zones", False, ("#dff0f0", "#5fb0b0"), ("#123838", "#3c9191"), _DOTS)
PARTITION = CellState("partition", "file not opened", False, ("#ffffff", "#b8bec7"), ("#15181c", "#4b535d"), _THIN)
INDEXED_FILE = CellState(
    "index-file", "file ruled out by the index", False, ("#ffffff", "#6fb58c"), ("#15181c", "#3f9468"), _THIN
)

TABLE_FILE = CellState(
    "table-file", "file ruled out by the table", False, ("#ffffff", "#7fb2dc"), ("#15181c", "#3f7eb3"), _THIN
)

STATES = (
    *(MATCHED, READ, VAIN, VAIN_UNFILTERED, UNFILTERED, DOUBTFUL),
    *(FILTER, ZONED, INDEXED, RANGE, OTHER, INDEXED_FILE, TABLE_FILE, PARTITION),
)
"""All states, the most important first."""


def row_group_state(plan: RowGroupPlan, filtered: bool | None = None, matches: int | None = None) -> CellState:
    """Return the state of a row group.

    Parameters
    ----------
    plan : of the row group.
    filtered : whether a column of the predicate that filters can answer has a filter; None if that is unknown, or if
        there is no such column.
    matches : number of its rows that match; None if they were not read.
    """
    if not plan.read:
        return _skipped_state(plan.by)
    if matches:
        return MATCHED
    if plan.doubts:
        return DOUBTFUL
    if filtered is False:
        return UNFILTERED if matches is None else VAIN_UNFILTERED
    return READ if matches is None else VAIN


def file_state(file: FilePlan) -> CellState:
    """Return the state of a file that was not opened."""
    return {INDEX: INDEXED_FILE, TABLE: TABLE_FILE}.get(file.unopened_by, PARTITION)


def _skipped_state(by: frozenset[str]) -> CellState:
    if "filter" in by:
        return FILTER
    if ZONES in by:
        return ZONED
    if INDEX in by:
        return INDEXED
    return RANGE if "range" in by else OTHER


def sort_states(states: Sequence[CellState]) -> list[CellState]:
    """Return the distinct states in the order of `STATES`."""
    return [state for state in STATES if state in states]
