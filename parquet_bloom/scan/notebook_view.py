"""The view for notebooks: figures, a small picture and the first files, of bounded size and without a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from itertools import chain

from ..errors import printable
from ..page.cell_states import STATES, CellState
from ..page.report_page import shorten
from .model.scan_plan import FilePlan, ScanPlan, describe_unopened, summarize
from .plan_document import describe_causes, describe_doubts, file_states, plan_figures

_MAX_SQUARES, _SQUARES_A_LINE, _SIDE = 1200, 60, 14
_MAX_FILES, _MAX_WHERE = 20, 2000
_HEAD = ("file", "row groups read", "of", "rows read", "skipped by", "doubtful")


def render_snippet(plan: ScanPlan) -> str:
    """Render the result of `PruneReport._repr_html_`; nothing is read for it."""
    states = list(chain.from_iterable(map(file_states, plan.files)))
    figures = "".join(
        f'<span style="margin-right:2em">{_text(label)} <b>{_text(number)}</b> {_text(remark)}</span>'
        for label, number, remark in plan_figures(plan)
    )
    counts = Counter(states)
    legend = "".join(
        f'<span style="margin-right:1.5em"><span style="color:{state.light[1]};opacity:{_opacity(state)}">&#9632;'
        f"</span> {_text(state.label)} <b>{counts[state]:,}</b></span>"
        for state in STATES
        if state in counts
    )
    return (
        f"<div><p><code>{_text(shorten(plan.where, _MAX_WHERE))}</code></p><p>{figures}</p>"
        f"{_render_squares(states, summarize(plan))}<p>{legend}</p>{_render_table(plan)}</div>"
    )


def _render_squares(states: list[CellState], label: str) -> str:
    """Render a square for each row group, or, of many, one for as many as needed, with the first of their states."""
    step = max(1, -(-len(states) // _MAX_SQUARES))
    order = {state: number for number, state in enumerate(STATES)}
    squares = [min(states[start : start + step], key=order.__getitem__) for start in range(0, len(states), step)]
    paths = {state: "" for state in STATES if state in squares}
    for number, state in enumerate(squares):
        line, column = divmod(number, _SQUARES_A_LINE)
        paths[state] += f"M{column * _SIDE} {line * _SIDE}h12v12h-12z"
    width = min(len(squares), _SQUARES_A_LINE) * _SIDE
    height = -(-len(squares) // _SQUARES_A_LINE) * _SIDE
    shapes = "".join(
        f'<path fill="{state.light[1]}" opacity="{_opacity(state)}" d="{path}"/>' for state, path in paths.items()
    )
    about = f"<p>A square is {step:,} row groups.</p>" if step > 1 else ""
    return (
        f'{about}<svg role="img" aria-label="{_text(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="max-width:100%">{shapes}</svg>'
    )


def _opacity(state: CellState) -> float:
    """Return how opaque a state is: the same colours stand for row groups, and paler for files that are not opened."""
    return 0.4 if state.is_group else 1


def _text(text: str) -> str:
    return escape(printable(text))


def _render_table(plan: ScanPlan) -> str:
    """Render a row for each of the first files, those that are read first, and the totals of all."""
    shown = plan.first_files(_MAX_FILES)
    rows = [_render_row("td", _describe_file(file)) for file in shown]
    if len(shown) < len(plan.files):
        rows.append(_render_row("td", [f"… {len(plan.files) - len(shown):,} more files", *[""] * (len(_HEAD) - 1)]))
    causes = [f"{cause}: {number:,}" for cause, number in sorted(plan.skipped_by.items())]
    unopened = describe_unopened(plan)
    totals = [
        f"{plan.selected_files:,} of {plan.total_files:,} files",
        f"{plan.selected_row_groups:,}",
        f"{plan.total_row_groups:,}",
        f"{sum(group.num_rows for file in plan.files for group in file.read_groups):,}",
        ", ".join([*causes, *([f"not opened: {', '.join(unopened)}"] if unopened else [])]),
        f"{len({doubt[:2] for doubt in plan.doubts}):,} row groups" if plan.doubts else "",
    ]
    return (
        f"<details><summary>Files</summary><table><thead>{_render_row('th', _HEAD)}</thead>"
        f"<tbody>{''.join(rows)}</tbody><tfoot>{_render_row('th', totals)}</tfoot></table></details>"
    )


def _describe_file(file: FilePlan) -> list[str]:
    num_rows = sum(group.num_rows for group in file.read_groups)
    row_groups = "" if file.unopened else f"{len(file.row_groups):,}"
    return [
        shorten(file.path, 320),
        f"{len(file.selected):,}",
        row_groups,
        f"{num_rows:,}",
        describe_causes(file),
        describe_doubts(file),
    ]


def _render_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"
