"""The page: markup, style and script in one file that asks nothing of any other place."""

from __future__ import annotations

import base64
import hashlib
import pkgutil
from collections.abc import Iterable, Iterator

from ...util.wording import format_bytes
from ..model.decision import FilePlan, ScanPlan
from ..model.wording import summarize
from .curve import curve, summary
from .details import MEASURED, PlanDetails
from .grid import Grid, grid_of
from .summary import remarks, summary_facts
from .svg import colours, heat_map, legend_items, swatch, text_of

_ROWS, _COLUMNS = 64, 36
_FILES = 40  # in the table
_CURVES = 6
_NOISE = 1.2  # by less, what bits tell of a filter may be off
_DOUBTS = 3  # of a file
_SCOPE = "pb"
_HINT = "Point at a cell, or go through them with Tab and the arrow keys."


def page(report: ScanPlan, look: PlanDetails, asked_fpp: float | None = None) -> str:
    """The whole page as text.

    Parameters
    ----------
    report, look : what was decided, and what else is known.
    asked_fpp : the false-positive probability that filters were asked to have; None if nobody says.
    """
    grid = grid_of(report, look, _ROWS, _COLUMNS)
    script, style = _resource("page.js"), _resource("page.css") + colours(_SCOPE)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    body = "".join(_body(report, look, grid, asked_fpp))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text_of(_shortened(report.where))}</title><style>{style}</style></head>"
        f'<body class="{_SCOPE}">{body}<script>{script}</script></body></html>\n'
    )


def _resource(name: str) -> str:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


def _shortened(text: str, length: int = 120) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _body(report: ScanPlan, look: PlanDetails, grid: Grid, asked_fpp: float | None) -> Iterator[str]:
    yield f'<h1>What this predicate reads</h1><code class="where">{text_of(report.where)}</code>'
    yield f'<dl class="facts">{"".join(map(_fact, summary_facts(report, look)))}</dl>'
    yield '<main><h2 id="map">Row groups</h2>'
    if grid.rows:
        yield legend(grid, _SCOPE)
        yield f'<p class="quiet">{text_of(how_laid_out(grid))}</p>'
        yield f'<div class="scroll">{heat_map(grid, _SCOPE, summarize(report))}</div>'
        yield f'<div class="details" role="status">{_HINT}</div>'
    else:
        yield "<p>There are no files.</p>"
    yield "".join(f'<p class="quiet">{text_of(remark)}</p>' for remark in remarks(report, look))
    yield from _filters(look, asked_fpp)
    yield from _files(report, look)
    yield "</main>"


def _fact(fact: tuple[str, str, str]) -> str:
    what, number, rest = map(text_of, fact)
    return f"<div><dt>{what}</dt><dd>{number} <small>{rest}</small></dd></div>"


def legend(grid: Grid, scope: str) -> str:
    """The fates that occur: how they look, what they are, how many there are."""
    items = "".join(
        f"<li>{swatch(scope, state)}<span>{text_of(state.label)} <b>{count:,}</b></span></li>"
        for state, count in legend_items(grid)
    )
    return f'<ul class="legend">{items}</ul>'


def how_laid_out(grid: Grid) -> str:
    """How to read the heat map."""
    row = "a file" if grid.files_a_row == 1 else f"{grid.files_a_row:,} files"
    cell = "a row group" if grid.groups_a_cell == 1 else f"{grid.groups_a_cell:,} row groups"
    told = f"A row is {row}, a column {cell}"
    if grid.files_a_row > 1 or grid.groups_a_cell > 1:
        told += "; a cell is divided by what becomes of them, what is read standing in front, at least a hair wide"
    return f"{told}." + (f" All below {grid.prefix}" if grid.prefix else "")


def _filters(look: PlanDetails, asked_fpp: float | None) -> Iterator[str]:
    if not look.num_filters:
        return
    yield "<h2>Filters</h2>"
    if not any(look.num_filters.values()):
        columns = text_of(", ".join(look.num_filters))
        yield f"<p>There is none on {columns}: <code>parquet-bloom advise</code> tells whether one is worth it.</p>"
        return
    figures: list[str] = []
    rows = []
    for column, count in look.num_filters.items():
        measured = look.measured(column)
        over = "" if asked_fpp is None else f"{sum(one.fpp > _NOISE * asked_fpp for one in measured):,}"
        rows.append(
            [column, f"{count:,}", f"{len(measured):,}", summary(measured) if measured else "", over][: 4 + bool(over)]
        )
        if measured and len(figures) < _CURVES:
            figures.append(
                f"<figure>{curve(column, measured, asked_fpp)}<figcaption><b>{text_of(column)}</b>: "
                f"{text_of(summary(measured))}</figcaption></figure>"
            )
    heads = [
        "column",
        "filters",
        "measured",
        "what they are",
        *([f"over {_NOISE} × asked"] if asked_fpp is not None else []),
    ]
    yield _table("Filters of the predicate's columns", heads, rows, numbers=(1, 2, 4))
    yield (
        '<p class="quiet">Each dot is a filter where its own bits put it: the false-positive probability is estimated '
        "from the bits that are set. The line is what a filter of that size would have, for the median of the filters' "
        f"distinct values. Of many filters some {MEASURED:,} are read, evenly spread.</p>"
    )
    yield f'<div class="curves">{"".join(figures)}</div>'


def _files(report: ScanPlan, look: PlanDetails) -> Iterator[str]:
    shown = report.notable(_FILES)
    if not shown:
        return
    yield "<h2>Files</h2>"
    heads = ["file", "row groups read", "rows", "bytes", *(["rows that match"] if look.checked else [])]
    heads += ["skipped by", "doubtful"]
    rows = [_file(file, look) for file in shown]
    yield _table("Files, those that are read first", heads, rows, numbers=(1, 2, 3, *((4,) if look.checked else ())))
    rest = len(report.files) - len(shown)
    if rest:
        still = report.selected_files - sum(bool(file.selected) for file in shown)
        yield f'<p class="quiet">{rest:,} more files, {still:,} of them read.</p>'


def _file(file: FilePlan, look: PlanDetails) -> list[str]:
    groups = look.files.get(file.path, [])
    of_read = [groups[i] for i in file.selected if i < len(groups)]
    rows = sum(file.row_groups[i].num_rows for i in file.selected)
    of_all = "" if file.unopened else f"{len(file.selected):,} of {len(file.row_groups):,}"
    cells = [file.path, of_all, f"{rows:,}" if rows else "", format_bytes(sum(group.num_bytes for group in of_read))]
    cells[-1] = cells[-1] if of_read else ""
    if look.checked:
        cells.append(f"{sum(group.matches or 0 for group in of_read):,}" if of_read else "")
    return [*cells, causes(file), doubts(file)]


def causes(file: FilePlan) -> str:
    """What ruled out row groups of a file, or all of it."""
    if file.unopened:
        return f"not opened: {file.unopened}"
    return ", ".join(f"{cause}: {count:,}" for cause, count in sorted(file.skipped_by.items()))


def doubts(file: FilePlan) -> str:
    """What was doubtful in a file, the first few."""
    found = file.doubts
    more = [f"{len(found) - _DOUBTS:,} more"] if len(found) > _DOUBTS else []
    return "; ".join(found[:_DOUBTS] + more)


def _table(caption: str, heads: list[str], rows: Iterable[list[str]], numbers: tuple[int, ...]) -> str:
    def row(tag: str, cells: list[str], scope: str = "") -> str:
        found = []
        for place, cell in enumerate(cells):
            kind = "number" if place in numbers else "path" if place == 0 and tag == "td" else ""
            found.append(f"<{tag}{scope}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{text_of(cell)}</{tag}>")
        return f"<tr>{''.join(found)}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    head = row("th", heads, ' scope="col"')
    table = f'<table aria-label="{text_of(caption)}"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'
