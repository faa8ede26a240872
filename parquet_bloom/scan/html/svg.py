"""SVG elements with escaped texts, patterns, and the heat map."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from ...errors import printable
from .grid import Cell, Grid
from .states import STATES, CellState, sort_states

LABEL = 236  # pixels for the names of files
_HEAD = 22
_GAP = 2
_CHARACTER = 6.7  # pixels of a character of a name
_MIN_WIDTH = 3  # pixels of the part of a state that is read


def escape_text(text: str) -> str:
    """Escape a text for markup."""
    return escape("\n".join(map(printable, text.split("\n"))))


def map_width(grid: Grid) -> int:
    """Return the width of a heat map in pixels."""
    return LABEL + len(grid.heads) * (_cell_width(grid) + _GAP) + _note_width(grid)


def map_height(grid: Grid) -> int:
    """Return the height of a heat map in pixels."""
    return _HEAD + len(grid.rows) * (_cell_height(grid) + _GAP) + 4


def _note_width(grid: Grid) -> int:
    """Return the width of the notes about the files in pixels."""
    return 20 + int(max((display_width(row.note) for row in grid.rows), default=0) * _CHARACTER)


def _cell_width(grid: Grid) -> int:
    return max(11, min(54, 620 // max(1, len(grid.heads)) - _GAP))


def _cell_height(grid: Grid) -> int:
    return 16 if len(grid.rows) <= 40 else 12


def render_patterns(scope: str, states: Iterable[CellState] = STATES) -> str:
    """Render the definitions of the states' fills; their names begin with `scope`."""
    definitions = "".join(
        f'<pattern id="{scope}-{state.key}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect class="b-{state.key}" width="8" height="8"/><g class="i-{state.key}">{state.pattern}</g></pattern>'
        for state in states
        if state.pattern
    )
    return f"<defs>{definitions}</defs>"


def make_style_sheet(scope: str, dark: bool = True) -> str:
    """Return the style sheet of the states, for the contents of an element of the class `scope`."""

    def rules(shade: str) -> str:
        return "".join(
            f".{scope} .b-{state.key}{{fill:{getattr(state, shade)[0]}}}"
            f".{scope} .i-{state.key}{{stroke:{getattr(state, shade)[1]}}}"
            for state in STATES
        )

    return rules("light") + (f"@media screen and (prefers-color-scheme:dark){{{rules('dark')}}}" if dark else "")


def render_swatch(scope: str, state: CellState) -> str:
    """Render a small sample of a state's fill."""
    sample = render_swatch_at(scope, state, 0.5, 0.5)
    return f'<svg class="swatch" width="22" height="14" aria-hidden="true">{sample}</svg>'


def render_swatch_at(scope: str, state: CellState, x: float, y: float) -> str:
    """Render a sample inside of an SVG, at a position."""
    return _render_rectangle(scope, state, x, y, 21, 13)


def _render_rectangle(scope: str, state: CellState, x: float, y: float, width: float, height: float) -> str:
    box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    if state.pattern:
        return f'<rect {box} fill="url(#{scope}-{state.key})"/>'
    return f'<rect {box} class="b-{state.key}"/>'


def render_heat_map(grid: Grid, scope: str, label: str) -> str:
    """Render the heat map, an ARIA grid with a row for each file and a cell for each row group, labelled in full."""
    width, height = map_width(grid), map_height(grid)
    inside = render_patterns(scope) + render_heads(grid) + render_rows(grid, scope)
    return (
        f'<svg class="map" role="grid" aria-readonly="true" aria-label="{escape_text(label)}" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">{inside}</svg>'
    )


def render_rows(grid: Grid, scope: str) -> str:
    """Render the rows of the heat map, each with its name and cells."""
    return "".join(_render_row(grid, scope, number) for number in range(len(grid.rows)))


def render_heads(grid: Grid) -> str:
    """Render titles above the columns, as many as fit."""
    step = _cell_width(grid) + _GAP
    longest = max(map(len, grid.heads), default=1)
    every = max(1, -(-int(longest * _CHARACTER + 8) // step))
    reach = max(10.0, (longest * _CHARACTER - step) / 2 + 14)  # the first one's, to the left
    titles = [f'<text class="head" x="{LABEL - reach:g}" y="14" text-anchor="end">row group</text>']
    for column in range(0, len(grid.heads), every):
        x = LABEL + column * step + (step - _GAP) / 2
        titles.append(f'<text class="head" x="{x:g}" y="14" text-anchor="middle">{grid.heads[column]}</text>')
    return f'<g aria-hidden="true">{"".join(titles)}</g>'


def _render_row(grid: Grid, scope: str, number: int) -> str:
    row = grid.rows[number]
    high = _cell_height(grid)
    y = _HEAD + number * (high + _GAP)
    base = y + high / 2 + 4
    end = LABEL + len(grid.heads) * (_cell_width(grid) + _GAP) + 8
    hot = " hot" if any(state.read for cell in row.cells for state in cell.states) else ""
    shapes = "".join(_render_cell(grid, scope, cell, y) for cell in row.cells)
    label = escape_text(_shorten(row.label, int((LABEL - 14) / _CHARACTER)))
    return (
        f'<g role="row" aria-label="{escape_text(f"{row.text}: {row.note} read")}">'
        f'<text class="name{hot}" x="{LABEL - 10}" y="{base:g}" text-anchor="end" role="rowheader">{label}'
        f"<title>{escape_text(row.text)}</title></text>{shapes}"
        f'<text class="note{hot}" x="{end}" y="{base:g}" aria-hidden="true">{escape_text(row.note)}</text></g>'
    )


def _render_cell(grid: Grid, scope: str, cell: Cell, y: int) -> str:
    step, high = _cell_width(grid) + _GAP, _cell_height(grid)
    x, width = float(LABEL + cell.column * step), cell.width * step - _GAP
    parts = _divide_cell(cell, width)
    shapes = []
    for state, share in parts:
        shapes.append(_render_rectangle(scope, state, x, y, share, high))
        x += share
    return (
        f'<g role="gridcell" class="cell" data-state="{cell.main.key}" data-column="{cell.column}" '
        f'aria-label="{escape_text(cell.text)}">{"".join(shapes)}</g>'
    )


def _divide_cell(cell: Cell, width: float) -> list[tuple[CellState, float]]:
    """Divide a cell by the shares of its states; states that are read are never too narrow to be seen."""
    states = sort_states([*cell.states])
    total = sum(cell.states.values())
    widths = [max(width * cell.states[state] / total, _MIN_WIDTH if state.read else 0) for state in states]
    spare = sum(widths) - width
    if spare > 0:
        largest = max(range(len(widths)), key=lambda i: widths[i])
        widths[largest] = max(1.0, widths[largest] - spare)
    return list(zip(states, (round(one, 2) for one in widths), strict=True))


def _shorten(text: str, room: int) -> str:
    """Shorten a name to some width by leaving out its middle, since files of a lake differ at their ends."""
    if display_width(text) <= room:
        return text
    head, tail = "", ""
    for character in reversed(text):
        if display_width(tail) >= room * 2 // 3:
            break
        tail = character + tail
    for character in text:
        if display_width(head) + display_width(tail) >= room - 1:
            break
        head += character
    return f"{head}…{tail}"


def display_width(text: str) -> int:
    """Return the width of a text in characters; wide characters count twice."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def legend_items(grid: Grid) -> Sequence[tuple[CellState, int]]:
    """Return the states that occur, with their counts."""
    return [(state, grid.states[state]) for state in sort_states([*grid.states])]
