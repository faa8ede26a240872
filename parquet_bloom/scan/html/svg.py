"""SVG by hand: elements with their texts escaped, patterns, and the heat map."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from ...errors import printable
from .grid import Cell, Grid
from .states import STATES, CellState, in_order

LABEL = 236  # pixels for the names of files
_HEAD = 22
_GAP = 2
_CHARACTER = 6.7  # pixels of one of the names'
_LEAST = 3  # pixels of a fate's part in a cell


def text_of(text: str) -> str:
    """Any text as one that markup can hold."""
    return escape("\n".join(map(printable, text.split("\n"))))


def width_of(grid: Grid) -> int:
    """How wide a heat map is, in pixels."""
    return LABEL + len(grid.heads) * (_cell_width(grid) + _GAP) + _note_width(grid)


def height_of(grid: Grid) -> int:
    """How high a heat map is, in pixels."""
    return _HEAD + len(grid.rows) * (_cell_height(grid) + _GAP) + 4


def _note_width(grid: Grid) -> int:
    """Pixels for what is read of the files."""
    return 20 + int(max((cells(row.note) for row in grid.rows), default=0) * _CHARACTER)


def _cell_width(grid: Grid) -> int:
    return max(11, min(54, 620 // max(1, len(grid.heads)) - _GAP))


def _cell_height(grid: Grid) -> int:
    return 16 if len(grid.rows) <= 40 else 12


def patterns(scope: str, states: Iterable[CellState] = STATES) -> str:
    """Definitions of the fates' fills, their names beginning with `scope`."""
    found = "".join(
        f'<pattern id="{scope}-{state.key}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect class="b-{state.key}" width="8" height="8"/><g class="i-{state.key}">{state.pattern}</g></pattern>'
        for state in states
        if state.pattern
    )
    return f"<defs>{found}</defs>"


def colours(scope: str, dark: bool = True) -> str:
    """The style sheet of the fates, for what stands in an element of the class `scope`."""

    def rules(shade: str) -> str:
        return "".join(
            f".{scope} .b-{state.key}{{fill:{getattr(state, shade)[0]}}}"
            f".{scope} .i-{state.key}{{stroke:{getattr(state, shade)[1]}}}"
            for state in STATES
        )

    return rules("light") + (f"@media screen and (prefers-color-scheme:dark){{{rules('dark')}}}" if dark else "")


def swatch(scope: str, state: CellState) -> str:
    """A small piece of a fate's fill."""
    return f'<svg class="swatch" width="22" height="14" aria-hidden="true">{swatch_at(scope, state, 0.5, 0.5)}</svg>'


def swatch_at(scope: str, state: CellState, x: float, y: float) -> str:
    """The same, inside a picture."""
    return _filled(scope, state, x, y, 21, 13)


def _filled(scope: str, state: CellState, x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    if state.pattern:
        return f'<rect {place} fill="url(#{scope}-{state.key})"/>'
    return f'<rect {place} class="b-{state.key}"/>'


def heat_map(grid: Grid, scope: str, label: str) -> str:
    """The heat map, an ARIA grid: a row a file, in it a cell a row group, each with all about it as its label."""
    width, height = width_of(grid), height_of(grid)
    inside = patterns(scope) + heads_of(grid) + heat_rows(grid, scope)
    return (
        f'<svg class="map" role="grid" aria-readonly="true" aria-label="{text_of(label)}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">{inside}</svg>'
    )


def heat_rows(grid: Grid, scope: str) -> str:
    """The rows of the heat map, each with its name and cells."""
    return "".join(_row_of(grid, scope, number) for number in range(len(grid.rows)))


def heads_of(grid: Grid) -> str:
    """Titles above the columns, as many as there is room for."""
    step = _cell_width(grid) + _GAP
    longest = max(map(len, grid.heads), default=1)
    every = max(1, -(-int(longest * _CHARACTER + 8) // step))
    reach = max(10.0, (longest * _CHARACTER - step) / 2 + 14)  # the first one's, to the left
    found = [f'<text class="head" x="{LABEL - reach:g}" y="14" text-anchor="end">row group</text>']
    for column in range(0, len(grid.heads), every):
        x = LABEL + column * step + (step - _GAP) / 2
        found.append(f'<text class="head" x="{x:g}" y="14" text-anchor="middle">{grid.heads[column]}</text>')
    return f'<g aria-hidden="true">{"".join(found)}</g>'


def _row_of(grid: Grid, scope: str, number: int) -> str:
    row = grid.rows[number]
    high = _cell_height(grid)
    y = _HEAD + number * (high + _GAP)
    base = y + high / 2 + 4
    end = LABEL + len(grid.heads) * (_cell_width(grid) + _GAP) + 8
    hot = " hot" if any(state.read for cell in row.cells for state in cell.states) else ""
    shapes = "".join(_cell(grid, scope, cell, y) for cell in row.cells)
    label = text_of(_shortened(row.label, int((LABEL - 14) / _CHARACTER)))
    return (
        f'<g role="row" aria-label="{text_of(f"{row.text}: {row.note} read")}">'
        f'<text class="name{hot}" x="{LABEL - 10}" y="{base:g}" text-anchor="end" role="rowheader">{label}'
        f"<title>{text_of(row.text)}</title></text>{shapes}"
        f'<text class="note{hot}" x="{end}" y="{base:g}" aria-hidden="true">{text_of(row.note)}</text></g>'
    )


def _cell(grid: Grid, scope: str, cell: Cell, y: int) -> str:
    step, high = _cell_width(grid) + _GAP, _cell_height(grid)
    x, width = float(LABEL + cell.column * step), cell.width * step - _GAP
    parts = _parts(cell, width)
    shapes = []
    for state, share in parts:
        shapes.append(_filled(scope, state, x, y, share, high))
        x += share
    return (
        f'<g role="gridcell" class="cell" data-state="{cell.main.key}" data-column="{cell.column}" '
        f'aria-label="{text_of(cell.text)}">{"".join(shapes)}</g>'
    )


def _parts(cell: Cell, width: float) -> list[tuple[CellState, float]]:
    """How wide each fate's part of a cell is: as its share, but those that are read are never too narrow to be seen."""
    states = in_order([*cell.states])
    total = sum(cell.states.values())
    widths = [max(width * cell.states[state] / total, _LEAST if state.read else 0) for state in states]
    spare = sum(widths) - width
    if spare > 0:
        largest = max(range(len(widths)), key=lambda i: widths[i])
        widths[largest] = max(1.0, widths[largest] - spare)
    return list(zip(states, (round(one, 2) for one in widths), strict=True))


def _shortened(text: str, room: int) -> str:
    """A name in so many characters: its middle is left out, since files of a lake differ at their ends."""
    if cells(text) <= room:
        return text
    head, tail = "", ""
    for character in reversed(text):
        if cells(tail) >= room * 2 // 3:
            break
        tail = character + tail
    for character in text:
        if cells(head) + cells(tail) >= room - 1:
            break
        head += character
    return f"{head}…{tail}"


def cells(text: str) -> int:
    """How wide a text is, wide characters counting twice."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def legend_items(grid: Grid) -> Sequence[tuple[CellState, int]]:
    """The fates that occur, and how often."""
    return [(state, grid.states[state]) for state in in_order([*grid.states])]
