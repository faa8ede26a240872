"""Writers of a command's rows, one per `--format`; text is written as rows come in."""

from __future__ import annotations

import io
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...errors import escaped
from ...redaction import redacted_in
from .table import Column, Row, as_text, lay_out

SCHEMA_VERSION = 1
"""Version of the JSON document: increased when a key is removed or changes its meaning, not when one is added."""

FORMATS = ("table", "json", "ndjson", "csv")

Write = Callable[[str], None]


class RowWriter(ABC):
    """Base class of row writers.

    Attributes
    ----------
    facts : items of the JSON document besides rows; may be added until `end`.
    of_lake : whether the rows are data of the lake, which must not be changed; in all others secrets are hidden.
    """

    of_lake = False

    def __init__(self, columns: Sequence[Column], write: Write) -> None:
        self.columns = columns
        self.facts: dict[str, Any] = {}
        self._write = write

    def begin(self) -> None:  # noqa: B027
        """Write the header."""

    def add(self, row: Row) -> None:
        """Add a row: a value for the key of each column."""
        self.add_all([row])

    def add_all(self, rows: Iterable[Row]) -> None:
        """Add rows, and write their text in one call."""
        text = "".join(map(self._text, rows if self.of_lake else map(redacted_in, rows)))
        if text:
            self._write(text)

    @abstractmethod
    def _text(self, row: Row) -> str:
        """Return the text to write for a row immediately."""

    def end(self) -> None:  # noqa: B027
        """Write the remaining text."""


class TableRows(RowWriter):
    """Writes a table: buffers all rows to compute column widths, or `block` rows at a time."""

    def __init__(
        self, columns: Sequence[Column], write: Write, width: int | None, color: bool, block: int | None = None
    ) -> None:
        """Initialize; with `block` rows are records, whose first column is not a heading for the rows below it."""
        super().__init__(columns, write)
        self._rows: list[Row] = []
        self._width = width
        self._color = color
        self._block = block

    def _text(self, row: Row) -> str:
        self._rows.append(row)
        return self._lay_out() if len(self._rows) == self._block else ""

    def _lay_out(self) -> str:
        lines = lay_out(self.columns, self._rows, self._width, self._color, heads=self._block is None)
        self._rows.clear()
        return "".join(f"{line}\n" for line in lines)

    def end(self) -> None:
        self._write(self._lay_out())


class CsvRows(RowWriter):
    """Writes a line of headings, then a line per row; `escape` is for output to a terminal."""

    def __init__(self, columns: Sequence[Column], write: Write, escape: bool) -> None:
        import csv

        super().__init__(columns, write)
        self._escape = escape
        self._buffer = io.StringIO()
        self._csv = csv.writer(self._buffer, lineterminator="\r\n")

    def begin(self) -> None:
        self._write(self._line([column.key for column in self.columns]))

    def _text(self, row: Row) -> str:
        return self._line([self._cell(row[column.key]) for column in self.columns])

    def _cell(self, value: Any) -> Any:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list | Mapping):
            value = as_text(value) if value else ""
        return escaped(value) if self._escape and isinstance(value, str) else value

    def _line(self, cells: list[Any]) -> str:
        self._csv.writerow(cells)
        # With "\r\n" as its line terminator csv quotes both characters, as readers need; the lines end in "\n".
        line = self._buffer.getvalue().removesuffix("\r\n") + "\n"
        self._buffer.seek(0)
        self._buffer.truncate()
        return line


class ValueCsvRows(CsvRows):
    """Writes values of `plain_values.plain`: a null is an empty field, an empty string `""`, nested values are JSON."""

    def _line(self, cells: list[Any]) -> str:
        line = ",".join(map(self._quote, cells))
        return (line or '""') + "\n"  # readers skip empty lines

    def _quote(self, cell: Any) -> str:
        text = as_value(cell, null="")
        if self._escape:
            text = escaped(text)
        return '"' + text.replace('"', '""') + '"' if cell == "" or _TO_QUOTE.search(text) else text

    def _cell(self, value: Any) -> Any:
        return value


_TO_QUOTE = re.compile(r'[",\r\n]')


def as_value(value: Any, null: str = "NULL") -> str:
    """Format a column's value: strings as they are, other values as JSON."""
    if value is None:
        return null
    return value if isinstance(value, str) else to_json(value)


class NdjsonRows(RowWriter):
    """Writes a JSON object per line."""

    def _text(self, row: Row) -> str:
        return self._object(row) + "\n"

    def _object(self, row: Row) -> str:
        return to_json({column.key: row[column.key] for column in self.columns})


class JsonRows(NdjsonRows):
    """Writes one JSON document with a line per row: the rows under their name, then the facts."""

    def __init__(self, columns: Sequence[Column], write: Write, command: str, name: str) -> None:
        super().__init__(columns, write)
        self._command = command
        self._name = name
        self._first = True

    def begin(self) -> None:
        head = to_json({"schema_version": SCHEMA_VERSION, "command": self._command})
        self._write(f'{head[:-1]}, "{self._name}": [')

    def _text(self, row: Row) -> str:
        before = "\n" if self._first else ",\n"
        self._first = False
        return before + self._object(row)

    def end(self) -> None:
        self._write(
            ("]" if self._first else "\n]")
            + (f", {to_json(redacted_in(self.facts))[1:]}" if self.facts else "}")
            + "\n"
        )


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
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    return value
