"""Write rows as aligned tables, JSON, NDJSON or CSV."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from ...errors import escaped
from ...redaction import redacted_in
from ...util.lazy import late_module

if TYPE_CHECKING:
    import rich.cells as unicode
else:
    unicode = late_module("rich.cells")


Row = Mapping[str, Any]

_BLOCK = 1000  # records that a table lays out at a time
_GAP = "  "
_INDENT = " " * 4  # of the lines below a row
_MIN_WIDTH = 12  # cells, of a folded column


def as_text(value: Any) -> str:
    """Format a value for people; `-` for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "-"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {item}" for key, item in value.items()) or "-"
    return str(value)


def text_or_blank(value: Any) -> str:
    """Format a value as `as_text`, but a missing one as an empty string: for the last column."""
    return as_text(value) if value else ""


@dataclass(frozen=True)
class Column:
    """One column of a command's rows.

    Attributes
    ----------
    key : its name in JSON, NDJSON and CSV.
    title : its heading in tables.
    right : whether tables align it to the right, as for numbers.
    text : formats a value for tables.
    usual : returns whether its value in a row is of no interest; if that is so in all rows, the column is omitted on
        terminals too narrow for all columns.
    folds : whether its values may be wrapped on such a terminal.
    style : arguments of `click.style` for its values.
    rare : returns whether it does not apply to a row; if that is so for all rows, the column is always omitted.
    below : whether tables show its values on separate lines below the rows, as for sentences.
    sinks : whether its values, after its title, are moved below the rows on terminals too narrow even with wrapping.
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
    text=text_or_blank,
    usual=lambda row: row["problem"] is None,
    folds=True,
    style={"fg": "red"},
)
"""The problem of a broken filter: the last column of every list of filters."""

STRIPE = Column("stripe", "stripe", right=True, rare=lambda row: row["stripe"] is None)
"""The stripe of a row group of an ORC file."""


def lay_out(
    columns: Sequence[Column],
    rows: Sequence[Row],
    width: int | None = None,
    color: bool = False,
    heads: bool = True,
) -> list[str]:
    """Return the lines of a table; none if there are no rows.

    Parameters
    ----------
    columns, rows : content of the table.
    width : cells of the terminal to fit into: first, columns without information are omitted, then the first column
        becomes a heading above the rows that share its value, then long values are wrapped, then columns are moved
        below their rows. None for no limit.
    color : whether to style headings and values.
    heads : whether the first column may become a heading above the rows that share its value.
    """
    columns = [
        replace(column, title=escaped(column.title))  # the title may be the name of a column in a file
        for column in columns
        if not (column.rare and all(map(column.rare, rows)))
    ]
    below = _format_cells([column for column in columns if column.below], rows)
    columns = [column for column in columns if not column.below]
    table = _TablePrinter(columns, _format_cells(columns, rows))
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
            titles = ["" if column.usual and column.usual(row) else column.title + ": " for row in rows]
            below = [[*texts, head and head + value] for texts, head, value in zip(below, titles, values, strict=True)]
            table = table.without({column.key})
            table.fold(width)
    return list(table.lines(color, firsts, _lines_below(below, width))) if rows else []


def _format_cells(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    return [[escaped(column.text(row[column.key])) for column in columns] for row in rows]


def _lines_below(texts: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """Return the lines below each row."""
    space = sys.maxsize if width is None else max(_MIN_WIDTH, width - len(_INDENT))
    return [[_INDENT + line for text in row if text for line in _fold(text, space)] for row in texts]


class _TablePrinter:
    def __init__(self, columns: Sequence[Column], rows: list[list[str]]) -> None:
        self.columns = columns
        self.rows = rows
        self.widths = [
            max(map(unicode.cell_len, [column.title, *(texts[i] for texts in rows)]))
            for i, column in enumerate(columns)
        ]

    @property
    def width(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)

    def without(self, keys: set[str]) -> _TablePrinter:
        remaining = [i for i, column in enumerate(self.columns) if column.key not in keys]
        return _TablePrinter(
            [self.columns[i] for i in remaining], [[texts[i] for i in remaining] for texts in self.rows]
        )

    def fold(self, width: int) -> None:
        """Shrink the widest columns that fold, until the table fits or none can shrink further."""
        folding = [i for i, column in enumerate(self.columns) if column.folds]
        while self.width > width and folding:
            widest = max(folding, key=lambda i: self.widths[i])
            if self.widths[widest] <= _MIN_WIDTH:
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
        """Yield the lines of one row: several if a value is wider than its column."""
        pieces = [_fold(text, width) for text, width in zip(texts, self.widths, strict=True)]
        for line in zip_longest(*pieces, fillvalue=""):
            cells = []
            for text, width, column, style in zip(line, self.widths, self.columns, styles, strict=True):
                space = " " * (width - unicode.cell_len(text))
                styled = click.style(text, **style) if color and style and text else text
                cells.append(space + styled if column.right else styled + space)
            yield _GAP.join(cells).rstrip()


def _fold(text: str, width: int) -> list[str]:
    if unicode.cell_len(text) <= width:
        return [text]
    if text.isascii():
        return textwrap.wrap(text, width, break_on_hyphens=False)
    return unicode.chop_cells(text, width)


SCHEMA_VERSION = 1
"""Version of the JSON document: increased when a key is removed or changes its meaning, not when one is added."""

FORMATS = ("table", "json", "ndjson", "csv")

Write = Callable[[str], None]


class RowWriter:
    """Writes rows in one format.

    Parameters
    ----------
    columns : whose keys all rows have.
    write : takes the text.
    of_lake : whether the rows are records of the lake: values of `plain_values.plain`, of any number, which must not
        be changed. In all other rows secrets are hidden.

    Attributes
    ----------
    facts : items of the JSON document besides rows; may be added until `end`.
    """

    def __init__(self, columns: Sequence[Column], write: Write, of_lake: bool = False) -> None:
        self.columns = columns
        self.facts: dict[str, Any] = {}
        self._write = write
        self._of_lake = of_lake

    def begin(self) -> None:
        """Write the header."""
        self._write_text(self._head())

    def add(self, row: Row) -> None:
        """Add a row: a value for the key of each column."""
        self.add_all([row])

    def add_all(self, rows: Iterable[Row]) -> None:
        """Add rows, and write their text in one call."""
        self._write_text("".join(map(self._format, rows if self._of_lake else map(redacted_in, rows))))

    def end(self) -> None:
        """Write the remaining text."""
        self._write_text(self._tail())

    def _write_text(self, text: str) -> None:
        if text:
            self._write(text)

    def _head(self) -> str:
        return ""

    def _format(self, row: Row) -> str:
        raise NotImplementedError

    def _tail(self) -> str:
        return ""


class PrintedRows(RowWriter):
    """Writes a table, whose widths depend on all rows; records are laid out in blocks.

    Parameters
    ----------
    width, color : as in `lay_out`.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        write: Write,
        of_lake: bool = False,
        width: int | None = None,
        color: bool = False,
    ) -> None:
        super().__init__(columns, write, of_lake)
        self._rows: list[Row] = []
        self._width = width
        self._color = color

    def _format(self, row: Row) -> str:
        self._rows.append(row)
        return self._tail() if self._of_lake and len(self._rows) == _BLOCK else ""

    def _tail(self) -> str:
        lines = lay_out(self.columns, self._rows, self._width, self._color, heads=not self._of_lake)
        self._rows.clear()
        return "".join(f"{line}\n" for line in lines)


class CsvRows(RowWriter):
    """Writes a line of headings, then a line per row; in records a null is an empty field, an empty string is `""`.

    Parameters
    ----------
    escape : whether unprintable characters are escaped, for a terminal.
    """

    def __init__(self, columns: Sequence[Column], write: Write, of_lake: bool = False, escape: bool = False) -> None:
        super().__init__(columns, write, of_lake)
        self._escape = escape

    def _head(self) -> str:
        return self._join(column.key for column in self.columns)

    def _format(self, row: Row) -> str:
        return self._join(row[column.key] for column in self.columns)

    def _join(self, values: Iterable[Any]) -> str:
        line = ",".join(map(self._quote, values))
        return (line or '""') + "\n"  # readers skip empty lines

    def _quote(self, value: Any) -> str:
        if self._of_lake:
            text = as_value(value, null="")
        elif isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, list | tuple | Mapping):
            text = as_text(value) if value else ""
        else:
            text = "" if value is None else str(value)
        if self._escape:
            text = escaped(text)
        is_empty = self._of_lake and value == ""
        return '"' + text.replace('"', '""') + '"' if is_empty or _TO_QUOTE.search(text) else text


_TO_QUOTE = re.compile(r'[",\r\n]')


def as_value(value: Any, null: str = "NULL") -> str:
    """Format a column's value: strings as they are, other values as JSON."""
    if value is None:
        return null
    return value if isinstance(value, str) else to_json(value)


class JsonRows(RowWriter):
    """Writes a JSON object per line, in a JSON document the rows under their name, then the facts.

    Parameters
    ----------
    document : of which command, and what the rows are called; None for the lines alone.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        write: Write,
        of_lake: bool = False,
        document: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(columns, write, of_lake)
        self._document = document
        self._before = "\n"

    def _head(self) -> str:
        if self._document is None:
            return ""
        command, name = self._document
        head = to_json({"schema_version": SCHEMA_VERSION, "command": command})
        return f'{head[:-1]}, "{name}": ['

    def _format(self, row: Row) -> str:
        text = to_json({column.key: row[column.key] for column in self.columns})
        if self._document is None:
            return text + "\n"
        before, self._before = self._before, ",\n"
        return before + text

    def _tail(self) -> str:
        if self._document is None:
            return ""
        facts = f", {to_json(redacted_in(self.facts))[1:]}" if self.facts else "}"
        return ("]" if self._before == "\n" else "\n]") + facts + "\n"


class FactsAlone(RowWriter):
    """Writes no rows: a JSON document of the facts, or nothing.

    Parameters
    ----------
    command : that of the document; None for nothing.
    """

    def __init__(self, columns: Sequence[Column], write: Write, of_lake: bool, command: str | None) -> None:
        super().__init__(columns, write, of_lake)
        self._command = command

    def add_all(self, rows: Iterable[Row]) -> None:
        for _ in rows:  # it may count them
            pass

    def _tail(self) -> str:
        if self._command is None:
            return ""
        return to_json({"schema_version": SCHEMA_VERSION, "command": self._command} | redacted_in(self.facts)) + "\n"


def to_json(value: Any) -> str:
    """Format as JSON on one line: NaN and infinities become null, and only unprintable characters are escaped."""
    text = json.dumps(_with_nulls(value), ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else _UNPRINTABLE.sub(_escape, text)


_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _with_nulls(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(item) for item in value]
    return value
