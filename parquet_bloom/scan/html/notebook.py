"""The view for notebooks: heat map, legend and files, of bounded size and without a script."""

from __future__ import annotations

import hashlib

from ..model.scan_plan import FilePlan, ScanPlan, describe_unopened, summarize
from .grid import make_grid
from .page import describe_causes, describe_doubts, describe_layout, render_legend
from .summary import summary_figures
from .svg import escape_text, make_style_sheet, render_heat_map

_MAX_ROWS, _MAX_COLUMNS = 24, 32
_MAX_FILES = 20
_HEAD = ("file", "row groups read", "of", "rows read", "skipped by", "doubtful")

_STYLE = """
.S{color:inherit;font:13px/1.5 system-ui,sans-serif;max-width:1000px}
.S p{margin:0 0 6px}.S .facts{display:flex;flex-wrap:wrap;gap:4px 28px;margin:0 0 8px}.S .facts b{font-size:16px}
.S .legend{display:flex;flex-wrap:wrap;gap:2px 18px;margin:0 0 6px;padding:0;list-style:none}
.S .legend li{display:flex;align-items:center;gap:6px;margin:0}.S .scroll{overflow-x:auto}
.S .map text{font:11px ui-monospace,monospace;fill:currentColor;fill-opacity:.65}.S .map .hot{fill-opacity:1}
.S .swatch rect{stroke:currentColor;stroke-opacity:.4;stroke-width:.5}.S .cell:hover rect{stroke:currentColor}
"""


def render_snippet(report: ScanPlan) -> str:
    """Render the result of `PruneReport._repr_html_`; nothing is read for it."""
    grid = make_grid(report, None, _MAX_ROWS, _MAX_COLUMNS)
    # Each cell of a notebook has its own scope, so that their styles do not interfere.
    scope = (
        "pb-"
        + hashlib.sha256(f"{report.where}{summarize(report)}{grid.rows}".encode("utf-8", "replace")).hexdigest()[:10]
    )
    facts = "".join(
        f"<span>{escape_text(what)} <b>{escape_text(n)}</b> {escape_text(rest)}</span>"
        for what, n, rest in summary_figures(report, None)
    )
    style = (_STYLE.replace("\n", "").replace(".S", f".{scope}")) + make_style_sheet(scope, dark=False)
    return (
        f'<div class="{scope}"><style>{style}</style><p><code>{escape_text(report.where)}</code></p>'
        f'<div class="facts">{facts}</div>{render_legend(grid, scope)}<p>{escape_text(describe_layout(grid))}</p>'
        f'<div class="scroll">{render_heat_map(grid, scope, summarize(report))}</div>{_render_table(report)}</div>'
    )


def _render_table(report: ScanPlan) -> str:
    """Render a row for each of the first files, those that are read first, and the totals of all."""
    shown = report.first_files(_MAX_FILES)
    rows = [_render_row("td", _file_cells(file)) for file in shown]
    if len(shown) < len(report.files):
        rows.append(_render_row("td", [f"… {len(report.files) - len(shown):,} more files", *[""] * (len(_HEAD) - 1)]))
    num_rows = sum(plan.num_rows for file in report.files for plan in file.row_groups if plan.read)
    totals = [
        f"{report.selected_files:,} of {report.total_files:,} files",
        f"{report.selected_row_groups:,}",
        f"{report.total_row_groups:,}",
        f"{num_rows:,}",
        ", ".join(filter(None, [_describe_causes(report.skipped_by), _describe_unopened(report)])),
        f"{len({doubt[:2] for doubt in report.doubts}):,} row groups" if report.doubts else "",
    ]
    body = f"<tbody>{''.join(rows)}</tbody><tfoot>{_render_row('th', totals)}</tfoot>"
    head = f"<thead>{_render_row('th', list(_HEAD))}</thead>"
    return f"<details><summary>Files</summary><table>{head}{body}</table></details>"


def _file_cells(file: FilePlan) -> list[str]:
    num_rows = sum(plan.num_rows for plan in file.row_groups if plan.read)
    counts = [f"{len(file.selected):,}", "" if file.unopened else f"{len(file.row_groups):,}", f"{num_rows:,}"]
    return [file.path, *counts, describe_causes(file), describe_doubts(file)]


def _describe_unopened(report: ScanPlan) -> str:
    phrases = describe_unopened(report)
    return f"not opened: {', '.join(phrases)}" if phrases else ""


def _describe_causes(skipped_by: dict[str, int]) -> str:
    return ", ".join(f"{cause}: {count:,}" for cause, count in sorted(skipped_by.items()))


def _render_row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape_text(cell)}</{tag}>" for cell in cells) + "</tr>"
