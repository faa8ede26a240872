"""The picture as an SVG document of its own, for pages that show images."""

from __future__ import annotations

from ..model.decision import ScanPlan
from ..model.wording import summarize
from .details import PlanDetails
from .grid import Grid, grid_of
from .summary import summary_facts
from .svg import (
    cells,
    colours,
    heads_of,
    heat_rows,
    height_of,
    legend_items,
    patterns,
    swatch_at,
    text_of,
    width_of,
)

_ROWS, _COLUMNS = 64, 36
_SCOPE = "pb"
_TOP = 128  # pixels above the heat map
_MARGIN = 20
_CHARACTER = 7.0
_LINE = 24  # pixels between lines of the legend

_STYLE = """
.pb{font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.pb .ground{fill:#fff}.pb text{fill:#1b1f24}.pb .head,.pb .note,.pb .name,.pb .what{fill:#5d6570}
.pb .name,.pb .note,.pb .head{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.pb .hot{fill:#1b1f24}.pb .name.hot{font-weight:600}.pb .where{font:14px ui-monospace,Menlo,Consolas,monospace}
.pb .number{font-size:22px;font-weight:600}
@media (prefers-color-scheme:dark){.pb .ground{fill:#15181c}.pb text,.pb .hot{fill:#e8eaed}
.pb .head,.pb .note,.pb .name,.pb .what{fill:#a0a8b3}.pb .name.hot,.pb .note.hot{fill:#e8eaed}}
"""


def document(report: ScanPlan, look: PlanDetails) -> str:
    """An SVG with the predicate, the numbers, the legend and the heat map."""
    grid = grid_of(report, look, _ROWS, _COLUMNS)
    width, height = width_of(grid) + 2 * _MARGIN, _TOP + height_of(grid) + _MARGIN
    parts = [""]  # the ground, when its height is known
    parts.append(f'<text class="where" x="{_MARGIN}" y="32">{text_of(f"WHERE {report.where}")}</text>')
    x = float(_MARGIN)
    for what, number, rest in summary_facts(report, look):
        if what == "cost of deciding":
            continue
        parts.append(f'<text class="what" x="{x:g}" y="58">{text_of(what)}</text>')
        parts.append(
            f'<text x="{x:g}" y="82"><tspan class="number">{text_of(number)}</tspan> '
            f'<tspan class="what">{text_of(rest)}</tspan></text>'
        )
        x += max(cells(what) * _CHARACTER, cells(number) * 13 + cells(rest) * _CHARACTER) + 26
    legend, lines = _legend(grid, width)
    parts += legend
    top = _TOP + _LINE * (lines - 1)
    height += _LINE * (lines - 1)
    parts[0] = f'<rect class="ground" width="{width}" height="{height}" rx="8"/>'
    body = f'<g transform="translate({_MARGIN} {top})">{heads_of(grid)}{heat_rows(grid, _SCOPE)}</g>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{_SCOPE}" role="img" '
        f'aria-label="{text_of(summarize(report))}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<style>{_STYLE.replace(chr(10), '')}{colours(_SCOPE)}</style>{patterns(_SCOPE)}{''.join(parts)}{body}</svg>\n"
    )


def _legend(grid: Grid, width: float) -> tuple[list[str], int]:
    """The fates with their counts, and how many lines they take."""
    parts: list[str] = []
    x, line = float(_MARGIN), 0
    for state, count in legend_items(grid):
        label = f"{state.label} {count:,}"
        taken = 28 + cells(label) * _CHARACTER
        if x > _MARGIN and x + taken > width - _MARGIN:
            x, line = float(_MARGIN), line + 1
        parts.append(swatch_at(_SCOPE, state, x, 100 + _LINE * line))
        parts.append(f'<text x="{x + 28:g}" y="{111 + _LINE * line}">{text_of(label)}</text>')
        x += taken + 16
    return parts, line + 1
