"""A report as a small HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..errors import printable

if TYPE_CHECKING:
    from .report import FileDecision, PruneReport

_FILES = 20
_DOUBTS = 3  # a file
_HEAD = ("file", "row groups read", "of", "rows read", "skipped by", "doubtful")


def table(report: PruneReport) -> str:
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
        ", ".join(filter(None, [_causes(report.skipped_by), _unopened(report.unopened_files)])),
        f"{len({doubt[:2] for doubt in report.doubts}):,} row groups" if report.doubts else "",
    ]
    caption = f"<caption><code>{_text(report.where)}</code> {_text(str(report))}</caption>"
    body = f"<tbody>{''.join(rows)}</tbody><tfoot>{_row('th', totals)}</tfoot>"
    return f"<table>{caption}<thead>{_row('th', list(_HEAD))}</thead>{body}</table>"


def _cells(file: FileDecision) -> list[str]:
    if file.unopened:
        return [file.path, "0", "", "0", f"not opened: {file.unopened}", ""]
    doubts = file.doubts
    more = [f"{len(doubts) - _DOUBTS:,} more"] if len(doubts) > _DOUBTS else []
    return [
        file.path,
        f"{len(file.selected):,}",
        f"{len(file.row_groups):,}",
        f"{sum(decision.num_rows for decision in file.row_groups if decision.read):,}",
        _causes(file.skipped_by),
        "; ".join(doubts[:_DOUBTS] + more),
    ]


def _unopened(count: int) -> str:
    return f"not opened: {count:,} file{'' if count == 1 else 's'}" if count else ""


def _causes(skipped_by: dict[str, int]) -> str:
    return ", ".join(f"{cause}: {count:,}" for cause, count in sorted(skipped_by.items()))


def _row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(text: str) -> str:
    return escape(printable(text))
