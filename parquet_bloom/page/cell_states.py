"""The states of cells: a colour each for light and dark backgrounds, and a pattern that is visible without colours."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class CellState:
    """A state of cells, with a line in the legend.

    Attributes
    ----------
    key : its name in the page's data.
    label : its name for readers.
    light, dark : (colour, colour of the pattern) on a light and on a dark background.
    pattern : an SVG path on a tile of 8 by 8; empty for a plain colour.
    read : whether what the cell stands for is read.
    is_group : whether the cell stands for its whole group, as for a file that was not opened.
    """

    key: str
    label: str
    light: tuple[str, str]
    dark: tuple[str, str]
    pattern: str = ""
    read: bool = False
    is_group: bool = False


_RISING, _CROSSED, _LEVEL = "M-2 2l4-4M0 8l8-8M6 10l4-4", "M0 0l8 8M0 8l8-8", "M0 2h8M0 6h8"
_UPRIGHT, _DOTTED, _THIN = "M2 0v8", "M1 2h2M5 6h2", "M0 4h8"

MATCHED = CellState("matched", "read, rows match", ("#c2410c", "#c2410c"), ("#fb7a35", "#fb7a35"), read=True)
READ = replace(MATCHED, key="read", label="read")
VAIN = CellState("vain", "read in vain", ("#ffe3cf", "#d9601f"), ("#43220f", "#fb8a4c"), _RISING, read=True)
UNFILTERED = CellState(
    "unfiltered", "read, no filter", ("#fdeebb", "#b07f00"), ("#453709", "#d9ad2b"), _LEVEL, read=True
)
VAIN_UNFILTERED = replace(UNFILTERED, key="vain-unfiltered", label="read in vain, no filter")
UNKNOWN = replace(UNFILTERED, key="unknown", label="read, or skipped by a filter")
DOUBTFUL = CellState("doubtful", "read, doubtful", ("#f1d3e6", "#a3387c"), ("#4d1b3b", "#e289bf"), _CROSSED, read=True)
FILTER = CellState("filter", "skipped by a filter", ("#cfe3f5", "#7fb2dc"), ("#16344d", "#3f7eb3"), _DOTTED)
DICTIONARY = CellState("dictionary", "skipped by a dictionary", ("#ded9f3", "#8f82cf"), ("#2a2549", "#7668bd"), _DOTTED)
ZONED = CellState("zones", "skipped by zones", ("#d3ecec", "#5fb0b0"), ("#123838", "#3c9191"), _DOTTED)
INDEXED = CellState("index", "skipped by the index", ("#d3ebdc", "#6fb58c"), ("#173a28", "#3f9468"), _DOTTED)
RANGE = CellState("range", "skipped by min and max", ("#dfe2e7", "#9aa1ab"), ("#2f353d", "#6d7682"))
OTHER = replace(RANGE, key="other", label="skipped by nulls, type or no rows", pattern=_UPRIGHT)
INDEXED_FILE = replace(INDEXED, key="index-file", label="file ruled out by the index", pattern=_THIN, is_group=True)
TABLE_FILE = replace(FILTER, key="table-file", label="file ruled out by the table", pattern=_THIN, is_group=True)
PARTITION = replace(RANGE, key="partition", label="file in another partition", pattern=_THIN, is_group=True)

STATES = (
    *(MATCHED, READ, VAIN, VAIN_UNFILTERED, UNFILTERED, UNKNOWN, DOUBTFUL),
    *(FILTER, DICTIONARY, ZONED, INDEXED, RANGE, OTHER, INDEXED_FILE, TABLE_FILE, PARTITION),
)
"""All states, the most important first."""
