"""`--ids-from FILE`: thousands of keys, from lines of text or from a column of a Parquet, Arrow or CSV file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from ...errors import ParquetBloomError, PredicateError, first_line
from ...hashing.column_type import ColumnType, Kind
from ...predicate.literal import Literal, from_collection
from ...predicate.parse.keys import parse_keys
from ...predicate.tree import In
from ...storage import open_source
from ...util.lazy import late_module
from .column_completion import complete_columns
from .paths import STDIN

if TYPE_CHECKING:
    import csv

    import pyarrow.parquet as pq
else:
    csv, pq = late_module("csv"), late_module("pyarrow.parquet")

MAX_KEYS = 1_000_000
MAX_BYTES = 1 << 28

_OPTIONS = (
    click.option(
        "--ids-from",
        metavar="FILE",
        help="Find the rows whose --id-column is one of these keys: a text file with one key per line, or - for "
        "standard input; or a Parquet, Arrow or .csv file (with a header) that has that column, or only one. With "
        "--where, rows must match both.",
    ),
    click.option("--id-column", metavar="NAME", shell_complete=complete_columns, help="The column of --ids-from."),
)


def key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --ids-from and --id-column to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class Keys:
    """Keys as they were read; they become literals when the type of their column is known.

    Attributes
    ----------
    column : the column that they are keys of.
    source : their file, for messages.
    texts : keys as text, with their number in the file.
    values : keys that have a type already.
    unit : what the numbers of `texts` count.
    """

    column: str
    source: str
    texts: Sequence[tuple[int, str]] = ()
    values: tuple[Literal, ...] = ()
    unit: str = "line"

    def match(self, column_type: ColumnType) -> In:
        """Return the predicate that selects their rows.

        Raises
        ------
        PredicateError
            A key is not a value of the column's type.
        """
        values = self.values
        try:
            if self.texts:
                values = parse_keys(self.texts, column_type, self.unit)
            elif column_type.kind not in (Kind.STRING, Kind.BYTES) and any(isinstance(key, str) for key in values):
                values = parse_keys(((n, str(key)) for n, key in enumerate(values, 1)), column_type, "row")
        except PredicateError as error:
            raise PredicateError(error.problem, path=self.source, column=self.column) from None
        return In(self.column, values)


def read_keys(path: str | None, column: str | None, paths: Sequence[str], filesystem: Any) -> Keys | None:
    """Read the keys of the options; None if there are none.

    Raises
    ------
    click.UsageError
        One of the options is missing, or standard input is to be read twice.
    ParquetBloomError
        The file cannot be read, is too large, or has no such column.
    """
    if path is None and column is None:
        return None
    if path is None or column is None:
        raise click.UsageError("--ids-from and --id-column go together", click.get_current_context())
    if path == STDIN and STDIN in paths:
        raise click.UsageError("standard input holds either PATHs or keys, not both", click.get_current_context())
    name = "standard input" if path == STDIN else path
    data = _read_stdin() if path == STDIN else _read_file(path, filesystem)
    if len(data) > MAX_BYTES:
        raise ParquetBloomError(f"more than {MAX_BYTES:,} bytes of keys; find them in several steps", path=name)
    try:
        if data[:4] == b"PAR1":
            return _from_arrow(pq.ParquetFile(pa.BufferReader(data)), column, name)
        if data[:6] == b"ARROW1":
            return _from_arrow(pa.ipc.open_file(pa.BufferReader(data)), column, name)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, ParquetBloomError):
            raise
        raise ParquetBloomError(f"its keys cannot be read: {first_line(error)}", path=name) from error
    texts = list(_read_csv(data, column, name) if path.lower().endswith(".csv") else _read_lines(data, name))
    _refuse_many(len(texts), name)
    return Keys(column, name, texts)


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""


def _read_file(path: str, filesystem: Any) -> bytes:
    with open_source(path, filesystem) as source:
        return bytes(source.read_at(0, min(source.size, MAX_BYTES + 1))) if source.size else b""


def _refuse_many(number: int, name: str) -> None:
    if number > MAX_KEYS:
        problem = f"{number:,} keys; {MAX_KEYS:,} are possible at a time, so find them in several steps"
        raise ParquetBloomError(problem, path=name)


def _read_lines(data: bytes, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, with their numbers."""
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        if b"\0" in line:
            raise ParquetBloomError(f"line {number:,} holds a null character: it is not a text of keys", path=name)
        if line:
            yield number, _decode(line, number, name)


def _decode(data: bytes, line: int, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ParquetBloomError(f"line {line:,} is not valid UTF-8", path=name) from None


def _read_csv(data: bytes, column: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield the fields of the column that are not empty, with the numbers of their lines."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParquetBloomError(f"byte {error.start:,} is not valid UTF-8", path=name) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        position = _find_column(header, column, name)
        for row in reader:
            if row and len(row) != len(header):
                problem = f"line {reader.line_num:,} has {len(row):,} fields, the header {len(header):,}"
                raise ParquetBloomError(problem, path=name)
            if row and row[position]:
                yield reader.line_num, row[position]
    except csv.Error as error:
        raise ParquetBloomError(f"line {reader.line_num:,} is not CSV: {error}", path=name) from None


def _from_arrow(file: Any, column: str, name: str) -> Keys:
    """Read the column of a Parquet or Arrow file."""
    schema = file.schema_arrow if isinstance(file, pq.ParquetFile) else file.schema
    position = _find_column(schema.names, column, name)
    if isinstance(file, pq.ParquetFile):
        _refuse_many(file.metadata.num_rows, name)
        values = file.read([schema.names[position]]).column(0)
    else:
        values = file.read_all().column(position)
    _refuse_many(len(values), name)
    try:
        keys = from_collection(values.drop_null())
    except PredicateError as error:
        raise PredicateError(error.problem, path=name, column=schema.names[position]) from None
    return Keys(column, name, values=tuple(dict.fromkeys(keys)))


def _find_column(names: Sequence[str], column: str, name: str) -> int:
    """Return the position of the keys' column: of that name, or the only one."""
    if names.count(column) == 1:
        return names.index(column)
    if len(names) == 1:
        return 0
    problem = f"it has no column '{column}', and not just one" if column not in names else "several columns match"
    raise ParquetBloomError(problem, path=name)
