"""The picture in a notebook: the heat map, its legend and the files, of bounded size, without a script."""

from __future__ import annotations

import hashlib

from ..model.decision import FilePlan, ScanPlan
from ..model.wording import describe_unopened, summarize
from .grid import grid_of
from .page import causes, doubts, how_laid_out, legend
from .summary import summary_facts
from .svg import colours, heat_map, text_of

_ROWS, _COLUMNS = 24, 32
_FILES = 20
_HEAD = ("file", "row groups read", "of", "rows read", "skipped by", "doubtful")

_STYLE = """
.S{color:inherit;font:13px/1.5 system-ui,sans-serif;max-width:1000px}
.S p{margin:0 0 6px}.S .facts{display:flex;flex-wrap:wrap;gap:4px 28px;margin:0 0 8px}.S .facts b{font-size:16px}
.S .legend{display:flex;flex-wrap:wrap;gap:2px 18px;margin:0 0 6px;padding:0;list-style:none}
.S .legend li{display:flex;align-items:center;gap:6px;margin:0}.S .scroll{overflow-x:auto}
.S .map text{font:11px ui-monospace,monospace;fill:currentColor;fill-opacity:.65}.S .map .hot{fill-opacity:1}
.S .swatch rect{stroke:currentColor;stroke-opacity:.4;stroke-width:.5}.S .cell:hover rect{stroke:currentColor}
"""


def snippet(report: ScanPlan) -> str:
    """What `PruneReport._repr_html_` gives; nothing is read for it."""
    grid = grid_of(report, None, _ROWS, _COLUMNS)
    # Of its own in each cell of a notebook, whatever stands in the others.
    scope = (
        "pb-"
        + hashlib.sha256(f"{report.where}{summarize(report)}{grid.rows}".encode("utf-8", "replace")).hexdigest()[:10]
    )
    facts = "".join(
        f"<span>{text_of(what)} <b>{text_of(n)}</b> {text_of(rest)}</span>"
        for what, n, rest in summary_facts(report, None)
    )
    style = (_STYLE.replace("\n", "").replace(".S", f".{scope}")) + colours(scope, dark=False)
    return (
        f'<div class="{scope}"><style>{style}</style><p><code>{text_of(report.where)}</code></p>'
        f'<div class="facts">{facts}</div>{legend(grid, scope)}<p>{text_of(how_laid_out(grid))}</p>'
        f'<div class="scroll">{heat_map(grid, scope, summarize(report))}</div>{_table(report)}</div>'
    )


def _table(report: ScanPlan) -> str:
    """A row a file, those that are read first and not more than a screenful, and the totals of all."""
    shown = report.notable(_FILES)
    rows = [_row("td", _cells(file)) for file in shown]
    if len(shown) < len(report.files):
        rows.append(_row("td", [f"… {len(report.files) - len(shown):,} more files", *[""] * (len(_HEAD) - 1)]))
    num_rows = sum(decision.num_rows for file in report.files for decision in file.row_groups if decision.read)
    totals = [
        f"{report.selected_files:,} of {report.total_files:,} files",
        f"{report.selected_row_groups:,}",
        f"{report.total_row_groups:,}",
        f"{num_rows:,}",
        ", ".join(filter(None, [_causes(report.skipped_by), _unopened(report)])),
        f"{len({doubt[:2] for doubt in report.doubts}):,} row groups" if report.doubts else "",
    ]
    body = f"<tbody>{''.join(rows)}</tbody><tfoot>{_row('th', totals)}</tfoot>"
    return f"<details><summary>Files</summary><table><thead>{_row('th', list(_HEAD))}</thead>{body}</table></details>"


def _cells(file: FilePlan) -> list[str]:
    num_rows = sum(decision.num_rows for decision in file.row_groups if decision.read)
    counts = [f"{len(file.selected):,}", "" if file.unopened else f"{len(file.row_groups):,}", f"{num_rows:,}"]
    return [file.path, *counts, causes(file), doubts(file)]


def _unopened(report: ScanPlan) -> str:
    told = describe_unopened(report)
    return f"not opened: {', '.join(told)}" if told else ""


def _causes(skipped_by: dict[str, int]) -> str:
    return ", ".join(f"{cause}: {count:,}" for cause, count in sorted(skipped_by.items()))


def _row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{text_of(cell)}</{tag}>" for cell in cells) + "</tr>"
