"""A command's rows in each format of `--format`: text that is handed on piece by piece, as rows come."""

from __future__ import annotations

import csv
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
"""Of the JSON document: raised when a key goes away or changes its meaning, not when one is added."""

FORMATS = ("table", "json", "ndjson", "csv")

Write = Callable[[str], None]


class RowWriter(ABC):
    """Takes a command's rows.

    Attributes
    ----------
    facts : what the JSON document holds besides rows; filled in at any time before `end`.
    of_lake : whether the rows are data of the lake, which nobody may change: of all others secrets are hidden.
    """

    of_lake = False

    def __init__(self, columns: Sequence[Column], write: Write) -> None:
        self.columns = columns
        self.facts: dict[str, Any] = {}
        self._write = write

    def begin(self) -> None:  # noqa: B027
        """Write what stands before all rows."""

    def add(self, row: Row) -> None:
        """Take a row: a value for the key of each column."""
        self.add_all([row])

    def add_all(self, rows: Iterable[Row]) -> None:
        """Take rows, and hand on in one piece what they make."""
        text = "".join(map(self._text, rows if self.of_lake else map(redacted_in, rows)))
        if text:
            self._write(text)

    @abstractmethod
    def _text(self, row: Row) -> str:
        """What is printed of a row at once."""

    def end(self) -> None:  # noqa: B027
        """Write what is left."""


class TableRows(RowWriter):
    """A table: it needs all rows to know its widths, or as many as are laid out at a time, `block`."""

    def __init__(
        self, columns: Sequence[Column], write: Write, width: int | None, color: bool, block: int | None = None
    ) -> None:
        """With `block` the rows are records of many columns, none of which is a heading for those below it."""
        super().__init__(columns, write)
        self._rows: list[Row] = []
        self._width = width
        self._color = color
        self._block = block

    def _text(self, row: Row) -> str:
        self._rows.append(row)
        return self._laid_out() if len(self._rows) == self._block else ""

    def _laid_out(self) -> str:
        lines = lay_out(self.columns, self._rows, self._width, self._color, heads=self._block is None)
        self._rows.clear()
        return "".join(f"{line}\n" for line in lines)

    def end(self) -> None:
        self._write(self._laid_out())


class CsvRows(RowWriter):
    """A line of headings, then a line a row; `escape` when it is a terminal that will show them."""

    def __init__(self, columns: Sequence[Column], write: Write, escape: bool) -> None:
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
        # Told that lines end in both, it quotes either, as readers need it; they end as lines do here.
        line = self._buffer.getvalue().removesuffix("\r\n") + "\n"
        self._buffer.seek(0)
        self._buffer.truncate()
        return line


class ValueCsvRows(CsvRows):
    """Values of columns as `values.plain` gives them: a null is nothing, an empty text `""`, what is nested JSON."""

    def _line(self, cells: list[Any]) -> str:
        line = ",".join(map(self._quoted, cells))
        return (line or '""') + "\n"  # readers pass over a line that has nothing in it

    def _quoted(self, cell: Any) -> str:
        text = as_value(cell, null="")
        if self._escape:
            text = escaped(text)
        return '"' + text.replace('"', '""') + '"' if cell == "" or _TO_QUOTE.search(text) else text

    def _cell(self, value: Any) -> Any:
        return value


_TO_QUOTE = re.compile(r'[",\r\n]')


def as_value(value: Any, null: str = "NULL") -> str:
    """A column's value as text: what is no text as in JSON."""
    if value is None:
        return null
    return value if isinstance(value, str) else to_json(value)


class NdjsonRows(RowWriter):
    """A JSON object a line."""

    def _text(self, row: Row) -> str:
        return self._object(row) + "\n"

    def _object(self, row: Row) -> str:
        return to_json({column.key: row[column.key] for column in self.columns})


class JsonRows(NdjsonRows):
    """One JSON document, still a line a row: the rows under their name, then the facts."""

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
    """JSON on one line: what is no number is null, what cannot be printed is escaped, other text stands as it is."""
    text = json.dumps(_with_nulls(value), ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else _UNPRINTABLE.sub(_escaped, text)


_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _with_nulls(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    return value
