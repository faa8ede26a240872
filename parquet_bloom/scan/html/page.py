"""The HTML page: markup, style and script in one file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import pkgutil
from collections.abc import Iterable, Iterator

from ...util.messages import format_bytes
from ..model.scan_plan import FilePlan, ScanPlan, summarize
from .curve import describe_filters, render_curve
from .details import MAX_FILTERS, PlanDetails
from .grid import Grid, make_grid
from .summary import describe_notes, summary_figures
from .svg import escape_text, legend_items, make_style_sheet, render_heat_map, render_swatch

_MAX_ROWS, _MAX_COLUMNS = 64, 36
_MAX_FILES = 40  # in the table
_MAX_CURVES = 6
_NOISE = 1.2  # estimates from the bits of a filter are less precise than this factor
_MAX_DOUBTS = 3  # shown for a file
_SCOPE = "pb"
_HINT = "Point at a cell, or go through them with Tab and the arrow keys."


def render_page(report: ScanPlan, details: PlanDetails, asked_fpp: float | None = None) -> str:
    """Render the whole page.

    Parameters
    ----------
    report, details : the plan, and details of its files.
    asked_fpp : the false-positive probability that the filters were made for; None if unknown.
    """
    grid = make_grid(report, details, _MAX_ROWS, _MAX_COLUMNS)
    script, style = _read_resource("page.js"), _read_resource("page.css") + make_style_sheet(_SCOPE)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    body = "".join(_render_body(report, details, grid, asked_fpp))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape_text(_shorten(report.where))}</title><style>{style}</style></head>"
        f'<body class="{_SCOPE}">{body}<script>{script}</script></body></html>\n'
    )


def _read_resource(name: str) -> str:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


def _shorten(text: str, length: int = 120) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _render_body(report: ScanPlan, details: PlanDetails, grid: Grid, asked_fpp: float | None) -> Iterator[str]:
    yield f'<h1>What this predicate reads</h1><code class="where">{escape_text(report.where)}</code>'
    yield f'<dl class="facts">{"".join(map(_render_figure, summary_figures(report, details)))}</dl>'
    yield '<main><h2 id="map">Row groups</h2>'
    if grid.rows:
        yield render_legend(grid, _SCOPE)
        yield f'<p class="quiet">{escape_text(describe_layout(grid))}</p>'
        yield f'<div class="scroll">{render_heat_map(grid, _SCOPE, summarize(report))}</div>'
        yield f'<div class="details" role="status">{_HINT}</div>'
    else:
        yield "<p>There are no files.</p>"
    yield "".join(f'<p class="quiet">{escape_text(remark)}</p>' for remark in describe_notes(report, details))
    yield from _render_filters(details, asked_fpp)
    yield from _render_files(report, details)
    yield "</main>"


def _render_figure(fact: tuple[str, str, str]) -> str:
    what, number, rest = map(escape_text, fact)
    return f"<div><dt>{what}</dt><dd>{number} <small>{rest}</small></dd></div>"


def render_legend(grid: Grid, scope: str) -> str:
    """Render the states that occur, with their labels and counts."""
    items = "".join(
        f"<li>{render_swatch(scope, state)}<span>{escape_text(state.label)} <b>{count:,}</b></span></li>"
        for state, count in legend_items(grid)
    )
    return f'<ul class="legend">{items}</ul>'


def describe_layout(grid: Grid) -> str:
    """Describe how to read the heat map."""
    row = "a file" if grid.files_a_row == 1 else f"{grid.files_a_row:,} files"
    cell = "a row group" if grid.groups_a_cell == 1 else f"{grid.groups_a_cell:,} row groups"
    text = f"A row is {row}, a column {cell}"
    if grid.files_a_row > 1 or grid.groups_a_cell > 1:
        text += "; a cell is divided by what becomes of them, what is read standing in front, at least a hair wide"
    return f"{text}." + (f" All below {grid.prefix}" if grid.prefix else "")


def _render_filters(details: PlanDetails, asked_fpp: float | None) -> Iterator[str]:
    if not details.num_filters:
        return
    yield "<h2>Filters</h2>"
    if not any(details.num_filters.values()):
        columns = escape_text(", ".join(details.num_filters))
        yield f"<p>There are none on {columns}: <code>parquet-bloom advise</code> tells whether they are worth it.</p>"
        return
    figures: list[str] = []
    rows = []
    for column, count in details.num_filters.items():
        measured = details.measured(column)
        over = "" if asked_fpp is None else f"{sum(one.fpp > _NOISE * asked_fpp for one in measured):,}"
        rows.append(
            [column, f"{count:,}", f"{len(measured):,}", describe_filters(measured) if measured else "", over][
                : 4 + bool(over)
            ]
        )
        if measured and len(figures) < _MAX_CURVES:
            figures.append(
                f"<figure>{render_curve(column, measured, asked_fpp)}<figcaption><b>{escape_text(column)}</b>: "
                f"{escape_text(describe_filters(measured))}</figcaption></figure>"
            )
    heads = [
        "column",
        "filters",
        "measured",
        "what they are",
        *([f"over {_NOISE} × asked"] if asked_fpp is not None else []),
    ]
    yield _render_table("Filters of the predicate's columns", heads, rows, numbers=(1, 2, 4))
    yield (
        '<p class="quiet">Each dot is a filter where its own bits put it: the false-positive probability is estimated '
        "from the bits that are set. The line is what a filter of that size would have, for the median of the filters' "
        f"distinct values. Of many filters some {MAX_FILTERS:,} are read, evenly spread.</p>"
    )
    yield f'<div class="curves">{"".join(figures)}</div>'


def _render_files(report: ScanPlan, details: PlanDetails) -> Iterator[str]:
    shown = report.first_files(_MAX_FILES)
    if not shown:
        return
    yield "<h2>Files</h2>"
    heads = ["file", "row groups read", "rows", "bytes", *(["rows that match"] if details.checked else [])]
    heads += ["skipped by", "doubtful"]
    rows = [_file_cells(file, details) for file in shown]
    yield _render_table(
        "Files, those that are read first", heads, rows, numbers=(1, 2, 3, *((4,) if details.checked else ()))
    )
    rest = len(report.files) - len(shown)
    if rest:
        still = report.selected_files - sum(bool(file.selected) for file in shown)
        yield f'<p class="quiet">{rest:,} more files, {still:,} of them read.</p>'


def _file_cells(file: FilePlan, details: PlanDetails) -> list[str]:
    groups = details.files.get(file.path, [])
    of_read = [groups[i] for i in file.selected if i < len(groups)]
    rows = sum(file.row_groups[i].num_rows for i in file.selected)
    of_all = "" if file.unopened else f"{len(file.selected):,} of {len(file.row_groups):,}"
    cells = [file.path, of_all, f"{rows:,}" if rows else "", format_bytes(sum(group.num_bytes for group in of_read))]
    cells[-1] = cells[-1] if of_read else ""
    if details.checked:
        cells.append(f"{sum(group.matches or 0 for group in of_read):,}" if of_read else "")
    return [*cells, describe_causes(file), describe_doubts(file)]


def describe_causes(file: FilePlan) -> str:
    """Describe what ruled out row groups of a file, or the whole file."""
    if file.unopened:
        return f"not opened: {file.unopened}"
    return ", ".join(f"{cause}: {count:,}" for cause, count in sorted(file.skipped_by.items()))


def describe_doubts(file: FilePlan) -> str:
    """Describe the first few doubts about a file."""
    doubts = file.doubts
    more = [f"{len(doubts) - _MAX_DOUBTS:,} more"] if len(doubts) > _MAX_DOUBTS else []
    return "; ".join(doubts[:_MAX_DOUBTS] + more)


def _render_table(caption: str, heads: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...]) -> str:
    def row(tag: str, cells: list[str], scope: str = "") -> str:
        parts = []
        for i, cell in enumerate(cells):
            kind = "number" if i in numbers else "path" if i == 0 and tag == "td" else ""
            parts.append(
                f"<{tag}{scope}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escape_text(cell)}</{tag}>"
            )
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    head = row("th", heads, ' scope="col"')
    table = f'<table aria-label="{escape_text(caption)}"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'
