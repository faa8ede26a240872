"""The heat map as an SVG document, for pages that show images."""

from __future__ import annotations

from ..model.scan_plan import ScanPlan, summarize
from .details import PlanDetails
from .grid import Grid, make_grid
from .summary import summary_figures
from .svg import (
    display_width,
    escape_text,
    legend_items,
    make_style_sheet,
    map_height,
    map_width,
    render_heads,
    render_patterns,
    render_rows,
    render_swatch_at,
)

_MAX_ROWS, _MAX_COLUMNS = 64, 36
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


def render_document(report: ScanPlan, details: PlanDetails) -> str:
    """Render an SVG with the predicate, the numbers, the legend and the heat map."""
    grid = make_grid(report, details, _MAX_ROWS, _MAX_COLUMNS)
    width, height = map_width(grid) + 2 * _MARGIN, _TOP + map_height(grid) + _MARGIN
    parts = [""]  # the background, once its height is known
    parts.append(f'<text class="where" x="{_MARGIN}" y="32">{escape_text(f"WHERE {report.where}")}</text>')
    x = float(_MARGIN)
    for what, number, rest in summary_figures(report, details):
        if what == "cost of deciding":
            continue
        parts.append(f'<text class="what" x="{x:g}" y="58">{escape_text(what)}</text>')
        parts.append(
            f'<text x="{x:g}" y="82"><tspan class="number">{escape_text(number)}</tspan> '
            f'<tspan class="what">{escape_text(rest)}</tspan></text>'
        )
        x += max(display_width(what) * _CHARACTER, display_width(number) * 13 + display_width(rest) * _CHARACTER) + 26
    legend, lines = _render_legend(grid, width)
    parts += legend
    top = _TOP + _LINE * (lines - 1)
    height += _LINE * (lines - 1)
    parts[0] = f'<rect class="ground" width="{width}" height="{height}" rx="8"/>'
    body = f'<g transform="translate({_MARGIN} {top})">{render_heads(grid)}{render_rows(grid, _SCOPE)}</g>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{_SCOPE}" role="img" '
        f'aria-label="{escape_text(summarize(report))}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<style>{_STYLE.replace(chr(10), '')}{make_style_sheet(_SCOPE)}</style>"
        f"{render_patterns(_SCOPE)}{''.join(parts)}{body}</svg>\n"
    )


def _render_legend(grid: Grid, width: float) -> tuple[list[str], int]:
    """Render the states with their counts; return also the number of lines."""
    parts: list[str] = []
    x, line = float(_MARGIN), 0
    for state, count in legend_items(grid):
        label = f"{state.label} {count:,}"
        taken = 28 + display_width(label) * _CHARACTER
        if x > _MARGIN and x + taken > width - _MARGIN:
            x, line = float(_MARGIN), line + 1
        parts.append(render_swatch_at(_SCOPE, state, x, 100 + _LINE * line))
        parts.append(f'<text x="{x + 28:g}" y="{111 + _LINE * line}">{escape_text(label)}</text>')
        x += taken + 16
    return parts, line + 1
