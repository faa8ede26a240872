"""Rows as lines of text: aligned for people, and safe to print whatever names hold."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import click
from rich.cells import cell_len, chop_cells

from ...errors import escaped

Row = Mapping[str, Any]

_GAP = "  "
_INDENT = " " * 4  # of what stands below a row
_NARROWEST = 12  # cells that a folded column keeps


def as_text(value: Any) -> str:
    """A value for people; `-` for one that is not there."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "-"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {item}" for key, item in value.items()) or "-"
    return str(value)


def or_blank(value: Any) -> str:
    """The same, but nothing at all for one that is not there: for the last column."""
    return as_text(value) if value else ""


def counted(number: int, what: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Column:
    """One column of a command's rows.

    Attributes
    ----------
    key : its name in JSON, NDJSON and CSV.
    title : its heading in tables.
    right : whether tables align it to the right, as numbers are.
    text : a value as tables show it.
    usual : tells rows in which it says nothing of interest; a terminal too narrow for all columns leaves the column out
        when there are no others.
    folds : whether its values may go on in the next line on such a terminal.
    style : how `click.style` shows its values.
    rare : tells rows that have nothing of that kind; tables of such rows alone leave the column out on any terminal.
    below : whether tables show its values below the rows, each in lines of its own, as sentences want to be.
    sinks : whether they also do so, behind its title, on a terminal for which folding is not enough.
    """

    key: str
    title: str
    right: bool = False
    text: Callable[[Any], str] = as_text
    usual: Callable[[Row], bool] | None = None
    folds: bool = False
    rare: Callable[[Row], bool] | None = None
    style: Mapping[str, Any] | None = None
    below: bool = False
    sinks: bool = False


PROBLEM = Column(
    "problem",
    "problem",
    text=or_blank,
    usual=lambda row: row["problem"] is None,
    folds=True,
    style={"fg": "red"},
)
"""What is wrong with a filter: the last column wherever one is listed."""


def lay_out(
    columns: Sequence[Column],
    rows: Sequence[Row],
    width: int | None = None,
    color: bool = False,
    heads: bool = True,
) -> list[str]:
    """The lines of a table; none when there are no rows.

    Parameters
    ----------
    columns, rows : what it shows.
    width : cells of the terminal it should fit into: columns that say nothing are left out, then the first column
        stands above the rows that share it, then long texts are folded, then columns sink below their rows. None to
        leave everything where it is.
    color : whether headings and values are styled.
    heads : whether the first column may stand above the rows that share it.
    """
    columns = [
        replace(column, title=escaped(column.title))  # which may be a file's own column
        for column in columns
        if not (column.rare and all(map(column.rare, rows)))
    ]
    under = _texts([column for column in columns if column.below], rows)
    columns = [column for column in columns if not column.below]
    table = _Table(columns, _texts(columns, rows))
    firsts = None
    if width is not None and table.width > width:
        table = table.without({c.key for c in columns if c.usual and all(map(c.usual, rows))})
        if table.width > width and heads:
            firsts = [texts[0] for texts in table.rows]
            table = table.without({table.columns[0].key})
        table.fold(width)
        while table.width > width and (sinking := [i for i, column in enumerate(table.columns) if column.sinks]):
            column = table.columns[sinking[-1]]
            values = (texts[sinking[-1]] for texts in table.rows)
            told = ["" if column.usual and column.usual(row) else column.title + ": " for row in rows]
            under = [[*texts, head and head + value] for texts, head, value in zip(under, told, values, strict=True)]
            table = table.without({column.key})
            table.fold(width)
    return list(table.lines(color, firsts, _sentences(under, width))) if rows else []


def _texts(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    return [[escaped(column.text(row[column.key])) for column in columns] for row in rows]


def _sentences(texts: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """The lines that stand below each row."""
    space = sys.maxsize if width is None else max(_NARROWEST, width - len(_INDENT))
    return [[_INDENT + line for text in row if text for line in _folded(text, space)] for row in texts]


class _Table:
    def __init__(self, columns: Sequence[Column], rows: list[list[str]]) -> None:
        self.columns = columns
        self.rows = rows
        self.widths = [
            max(map(cell_len, [column.title, *(texts[i] for texts in rows)])) for i, column in enumerate(columns)
        ]

    @property
    def width(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)

    def without(self, keys: set[str]) -> _Table:
        kept = [i for i, column in enumerate(self.columns) if column.key not in keys]
        return _Table([self.columns[i] for i in kept], [[texts[i] for i in kept] for texts in self.rows])

    def fold(self, width: int) -> None:
        """Take cells from the widest columns that fold, as long as one has some to give."""
        folding = [i for i, column in enumerate(self.columns) if column.folds]
        while self.width > width and folding:
            widest = max(folding, key=lambda i: self.widths[i])
            if self.widths[widest] <= _NARROWEST:
                return
            self.widths[widest] -= 1

    def lines(self, color: bool, heads: Sequence[str] | None, below: Sequence[Sequence[str]]) -> Iterator[str]:
        yield from self._lines([column.title for column in self.columns], [{"bold": True}] * len(self.columns), color)
        styles = [column.style for column in self.columns]
        last = None
        for i, texts in enumerate(self.rows):
            if heads is not None and heads[i] != last:
                last = heads[i]
                yield click.style(last, bold=True) if color else last
            yield from self._lines(texts, styles, color)
            yield from below[i]

    def _lines(self, texts: Sequence[str], styles: Sequence[Mapping[str, Any] | None], color: bool) -> Iterator[str]:
        """One row: a line, or several when a value is wider than its column."""
        pieces = [_folded(text, width) for text, width in zip(texts, self.widths, strict=True)]
        for line in zip_longest(*pieces, fillvalue=""):
            cells = []
            for text, width, column, style in zip(line, self.widths, self.columns, styles, strict=True):
                space = " " * (width - cell_len(text))
                styled = click.style(text, **style) if color and style and text else text
                cells.append(space + styled if column.right else styled + space)
            yield _GAP.join(cells).rstrip()


def _folded(text: str, width: int) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    if text.isascii():
        return textwrap.wrap(text, width, break_on_hyphens=False)
    return chop_cells(text, width)
