"""Write rows as aligned tables, JSON, NDJSON or CSV."""

from __future__ import annotations

import json
import math
import re
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
TABLE_WIDTH = 119
"""Cells of a table's lines, as far as its values allow; of no terminal, so that tables are alike everywhere."""


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
    usual : returns whether its value in a row is of no interest; if that is so in all rows, tables leave
        the column out.
    folds : whether its values are sentences, which are wrapped where the table would be too wide.
    style : arguments of `click.style` for its values.
    below : whether tables show its values on separate lines below the rows, as for sentences.
    sinks : whether its values, after its title, are moved below the rows of a table too wide even with wrapping.
    """

    key: str
    title: str
    right: bool = False
    text: Callable[[Any], str] = as_text
    usual: Callable[[Row], bool] | None = None
    folds: bool = False
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

STRIPE = Column("stripe", "stripe", right=True, usual=lambda row: row["stripe"] is None)
"""The stripe of a row group of an ORC file."""


def lay_out(
    columns: Sequence[Column], rows: Sequence[Row], color: bool = False, heads: bool = True, width: int = TABLE_WIDTH
) -> list[str]:
    """Return the lines of a table, which are the same on every terminal and in pipes; none if there are no rows.

    Parameters
    ----------
    columns, rows : content of the table; columns without information are left out.
    color : whether to style headings and values.
    heads : whether the first column may become a heading above the rows that share its value.
    width : cells to fit into, as far as the values allow: the first column becomes a heading if no other but a
        sentence is wider, then sentences are wrapped, then columns are moved below their rows.
    """
    columns = [column for column in columns if not (column.usual and all(map(column.usual, rows)))]
    below = _format_cells([column for column in columns if column.below], rows)
    columns = [column for column in columns if not column.below]
    table = _TablePrinter(columns, _format_cells(columns, rows))
    firsts = None
    others = [size for column, size in zip(table.columns[1:], table.widths[1:], strict=True) if not column.folds]
    if table.width > width and heads and table.widths[0] >= max(others, default=0) and not table.columns[0].right:
        firsts = [texts[0] for texts in table.rows]
        table = table.without(table.columns[0].key)
    table.fold(width)
    while table.width > width and (sinking := [i for i, column in enumerate(table.columns) if column.sinks]):
        column = table.columns[sinking[-1]]
        values = (texts[sinking[-1]] for texts in table.rows)
        titles = ["" if column.usual and column.usual(row) else column.title + ": " for row in rows]
        below = [[*texts, head and head + value] for texts, head, value in zip(below, titles, values, strict=True)]
        table = table.without(column.key)
        table.fold(width)
    return [*table.title_lines(color), *table.lines(color, firsts, _lines_below(below, width))] if rows else []


def _format_cells(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    return [[escaped(column.text(row[column.key])) for column in columns] for row in rows]


def _lines_below(texts: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the lines below each row."""
    return [[_INDENT + line for text in row if text for line in _fold(text, width - len(_INDENT))] for row in texts]


class _TablePrinter:
    """The cells of a table, and how wide its columns are; `least` are widths of those printed before."""

    def __init__(self, columns: Sequence[Column], rows: list[list[str]], least: Sequence[int] = ()) -> None:
        self.columns = columns
        self.rows = rows
        self.widths = [
            max(map(unicode.cell_len, [column.title, *(texts[i] for texts in rows)]))
            for i, column in enumerate(columns)
        ]
        if least:
            self.widths = list(map(max, self.widths, least))

    @property
    def width(self) -> int:
        return sum(self.widths) + len(_GAP) * (len(self.widths) - 1)

    def without(self, key: str) -> _TablePrinter:
        remaining = [i for i, column in enumerate(self.columns) if column.key != key]
        return _TablePrinter(
            [self.columns[i] for i in remaining], [[texts[i] for i in remaining] for texts in self.rows]
        )

    def fold(self, width: int) -> None:
        """Shrink the widest columns that fold, until the table fits or none can shrink without cutting a word."""
        folding = {i: self._find_least_width(i) for i, column in enumerate(self.columns) if column.folds}
        while self.width > width and (able := [i for i, least in folding.items() if self.widths[i] > least]):
            self.widths[max(able, key=lambda i: self.widths[i])] -= 1

    def _find_least_width(self, position: int) -> int:
        texts = [self.columns[position].title, *(row[position] for row in self.rows)]
        return max(_MIN_WIDTH, *(unicode.cell_len(word) for text in texts for word in text.split(" ")))

    def title_lines(self, color: bool) -> Iterator[str]:
        return self._lines([column.title for column in self.columns], [{"bold": True}] * len(self.columns), color)

    def lines(
        self, color: bool, heads: Sequence[str] | None = None, below: Sequence[Sequence[str]] | None = None
    ) -> Iterator[str]:
        styles = [column.style for column in self.columns]
        last = None
        for i, texts in enumerate(self.rows):
            if heads is not None and heads[i] != last:
                last = heads[i]
                yield click.style(last, bold=True) if color else last
            yield from self._lines(texts, styles, color)
            yield from () if below is None else below[i]

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
    """Wrap a text between its words, none of which is cut."""
    if unicode.cell_len(text) <= width:
        return [text]
    first, *words = text.split(" ")
    lines = [first]
    for word in words:
        if unicode.cell_len(lines[-1]) + 1 + unicode.cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


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
    """Writes a table, whose widths depend on all rows; records are laid out in blocks, below one header.

    Parameters
    ----------
    color : as in `lay_out`.
    """

    def __init__(self, columns: Sequence[Column], write: Write, of_lake: bool = False, color: bool = False) -> None:
        super().__init__(columns, write, of_lake)
        self._rows: list[Row] = []
        self._widths: list[int] = []  # of the records so far
        self._color = color

    def _format(self, row: Row) -> str:
        self._rows.append(row)
        return self._tail() if self._of_lake and len(self._rows) == _BLOCK else ""

    def _tail(self) -> str:
        lines = self._lay_out_records() if self._of_lake else lay_out(self.columns, self._rows, self._color)
        self._rows.clear()
        return "".join(f"{line}\n" for line in lines)

    def _lay_out_records(self) -> list[str]:
        if not self._rows:
            return []
        columns = [replace(column, title=escaped(column.title)) for column in self.columns]  # names in a file
        table = _TablePrinter(columns, _format_cells(self.columns, self._rows), self._widths)
        titles = [] if self._widths else [*table.title_lines(self._color)]
        self._widths = table.widths
        return [*titles, *table.lines(self._color)]


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
