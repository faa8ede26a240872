"""KeyArguments of `--keys FILE`: lines of text, or columns of a Parquet, Arrow or CSV file."""

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
from ...predicate.parse.text_keys import parse_keys
from ...predicate.tree import In
from ...storage import Source, open_source
from ...util.lazy import late_module
from .name_completion import complete_columns
from .path_options import STDIN

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

if TYPE_CHECKING:
    import csv

    import pyarrow.parquet as pq
else:
    csv, pq = late_module("csv"), late_module("pyarrow.parquet")


_MAGIC = b"PAR1"
_BATCH_ROWS = 1 << 17


def is_parquet(source: Source) -> bool:
    """Return whether a file begins as Parquet files do."""
    return source.size >= len(_MAGIC) and bytes(source.read_at(0, len(_MAGIC))) == _MAGIC


class KeyFile:
    """The key's columns of a Parquet file.

    Parameters
    ----------
    source : the file, opened; it stays open.
    columns : of the key.
    name : of the file, for errors.

    Attributes
    ----------
    num_read : keys that were read so far.

    Raises
    ------
    ParquetBloomError
        The file cannot be read, or has no such column.
    """

    def __init__(self, source: Source, columns: Sequence[str], name: str):
        self.num_read = 0
        self._columns = columns
        self._name = name
        try:
            self._file = pq.ParquetFile(source.counted_arrow_file(), pre_buffer=False)
            schema = self._file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise self._wrap(error) from error
        stored = [schema.field(find_key_column(schema.names, column, name, len(columns))) for column in columns]
        self._stored = [field.name for field in stored]
        self.schema = pa.schema([pa.field(column, field.type) for column, field in zip(columns, stored, strict=True)])

    def has_texts_of(self, types: Sequence[ColumnType]) -> bool:
        """Return whether the file has texts for a column of another type, which have to be parsed."""
        return any(
            _is_text(field.type) and column_type.kind not in (Kind.STRING, Kind.BYTES)
            for field, column_type in zip(self.schema, types, strict=True)
        )

    def read_batches(self) -> pa.RecordBatchReader:
        """Return the keys, in columns of the key's names.

        Raises
        ------
        PredicateError
            While they are read: a key is null.
        ParquetBloomError
            While they are read: the file cannot be read.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._iterate())

    def _iterate(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=self._stored):
                for column, stored in zip(self._columns, self._stored, strict=True):
                    values = batch.column(stored)
                    if values.null_count:
                        row = self.num_read + values.is_null().to_pylist().index(True) + 1
                        raise make_null_error(f"row {row:,}", column, self._name)
                self.num_read += batch.num_rows
                yield pa.RecordBatch.from_arrays([batch.column(name) for name in self._stored], schema=self.schema)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, ParquetBloomError):
                raise
            raise self._wrap(error) from error

    def _wrap(self, error: Exception) -> ParquetBloomError:
        return ParquetBloomError(f"its keys cannot be read: {first_line(error)}", path=self._name)


def _is_text(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)


MAX_KEYS = 1_000_000
MAX_BYTES = 1 << 28

_OPTIONS = (
    click.option(
        "--keys",
        "--ids-from",
        "ids_from",
        metavar="FILE",
        help="Find the rows whose --key-column is one of these keys: a text file with one key per line, or - for "
        "standard input; or a Parquet, Arrow or .csv file (with a header) that has that column, or only one. With "
        "--where, rows must match both.",
    ),
    click.option(
        "--key-column",
        "--id-column",
        "id_column",
        metavar="NAME",
        shell_complete=complete_columns,
        help="The column of --keys.",
    ),
)


def key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --keys and --key-column to a command; --ids-from and --id-column are older names of the same."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True)
class KeyArguments:
    """KeyArguments as they were read; they become literals when the type of their column is known.

    Attributes
    ----------
    column : the column that they are keys of.
    source : their file, for messages; None for keys of an option.
    texts : keys as text, with their number in the file.
    values : keys that have a type already.
    unit : what the numbers of `texts` count.
    """

    column: str
    source: str | None
    texts: Sequence[tuple[int, str]] = ()
    values: tuple[Literal, ...] = ()
    unit: str = "line"

    def __len__(self) -> int:
        return len(self.texts or self.values)

    def match(self, column_type: ColumnType) -> In:
        """Return the predicate that selects their rows.

        Raises
        ------
        PredicateError
            A key is not a value of the column's type.
        """
        return In(self.column, tuple(dict.fromkeys(self.parse(column_type))))

    def parse(self, column_type: ColumnType) -> tuple[Literal, ...]:
        """Return the keys as literals, in their order; raises as `match`."""
        values = self.values
        try:
            if self.texts:
                return parse_keys(self.texts, column_type, self.unit)
            if column_type.kind not in (Kind.STRING, Kind.BYTES) and any(isinstance(key, str) for key in values):
                return parse_keys(((n, str(key)) for n, key in enumerate(values, 1)), column_type, "row")
        except PredicateError as error:
            raise PredicateError(error.problem, path=self.source, column=self.column) from None
        return values


def read_keys(path: str | None, column: str | None, paths: Sequence[str], filesystem: Any) -> KeyArguments | None:
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
        raise click.UsageError("--keys and --key-column go together", click.get_current_context())
    return read_key_columns(path, [column], paths, filesystem, skip_nulls=True)[0]


def read_key_columns(
    path: str, columns: Sequence[str], paths: Sequence[str], filesystem: Any, *, skip_nulls: bool = False
) -> list[KeyArguments]:
    """Read the columns of a file of keys; of a text file with one key per line there is one.

    Parameters
    ----------
    columns : of the keys.
    paths : arguments of the command, of which - is the standard input as well.
    skip_nulls : leave out keys that are null in place of refusing them.

    Raises
    ------
    click.UsageError
        Standard input is to be read twice.
    ParquetBloomError
        The file cannot be read, is too large, or has no such column.
    """
    if path == STDIN and STDIN in paths:
        raise click.UsageError("standard input holds either PATHs or keys, not both", click.get_current_context())
    name = "standard input" if path == STDIN else path
    data = _read_stdin() if path == STDIN else _read_file(path, filesystem)
    if len(data) > MAX_BYTES:
        raise ParquetBloomError(f"more than {MAX_BYTES:,} bytes of keys; find them in several steps", path=name)
    try:
        if data[:4] == b"PAR1":
            return _from_arrow(pq.ParquetFile(pa.BufferReader(data)), columns, name, skip_nulls)
        if data[:6] == b"ARROW1":
            return _from_arrow(pa.ipc.open_file(pa.BufferReader(data)), columns, name, skip_nulls)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, ParquetBloomError):
            raise
        raise ParquetBloomError(f"its keys cannot be read: {first_line(error)}", path=name) from error
    if path.lower().endswith(".csv"):
        texts = _read_csv(data, columns, name, skip_nulls)
    elif len(columns) > 1:
        raise ParquetBloomError("keys of several columns are in a Parquet, Arrow or .csv file, not in lines", path=name)
    else:
        texts = [list(_read_lines(data, name))]
    _refuse_many(len(texts[0]), name)
    return [KeyArguments(column, name, some) for column, some in zip(columns, texts, strict=True)]


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


def _read_csv(data: bytes, columns: Sequence[str], name: str, skip_nulls: bool) -> list[list[tuple[int, str]]]:
    """Return the fields of each column, with the numbers of their lines; an empty one is a null."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParquetBloomError(f"byte {error.start:,} is not valid UTF-8", path=name) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        positions = [find_key_column(header, column, name, len(columns)) for column in columns]
        texts: list[list[tuple[int, str]]] = [[] for _ in columns]
        for row in reader:
            if row and len(row) != len(header):
                problem = f"line {reader.line_num:,} has {len(row):,} fields, the header {len(header):,}"
                raise ParquetBloomError(problem, path=name)
            for column, position, fields in zip(columns, positions, texts, strict=True):
                if row and row[position]:
                    fields.append((reader.line_num, row[position]))
                elif row and not skip_nulls:
                    raise make_null_error(f"line {reader.line_num:,}", column, name)
    except csv.Error as error:
        raise ParquetBloomError(f"line {reader.line_num:,} is not CSV: {error}", path=name) from None
    return texts


def make_null_error(where: str, column: str, name: str) -> PredicateError:
    """Return the error for a null among the keys of a file."""
    return PredicateError(f"{where} has no key: nothing equals a null", path=name, column=column)


def _from_arrow(file: Any, columns: Sequence[str], name: str, skip_nulls: bool) -> list[KeyArguments]:
    """Read columns of a Parquet or Arrow file."""
    schema = file.schema_arrow if isinstance(file, pq.ParquetFile) else file.schema
    positions = [find_key_column(schema.names, column, name, len(columns)) for column in columns]
    if isinstance(file, pq.ParquetFile):
        _refuse_many(file.metadata.num_rows, name)
        table = file.read([schema.names[position] for position in dict.fromkeys(positions)])
    else:
        table = file.read_all()
    _refuse_many(table.num_rows, name)
    keys = []
    for column, position in zip(columns, positions, strict=True):
        values = table.column(schema.names[position])
        if values.null_count and not skip_nulls:
            row = values.is_null().to_pylist().index(True) + 1
            raise make_null_error(f"row {row:,}", schema.names[position], name)
        try:
            keys.append(KeyArguments(column, name, values=tuple(from_collection(values.drop_null()))))
        except PredicateError as error:
            raise PredicateError(error.problem, path=name, column=schema.names[position]) from None
    return keys


def find_key_column(names: Sequence[str], column: str, name: str, count: int = 1) -> int:
    """Return the position of a column of keys: the one of that name, or for a key of one column the only one.

    Parameters
    ----------
    names : the columns of a file.
    name : of the file, for errors.
    count : columns of the key.
    """
    if names.count(column) == 1:
        return names.index(column)
    if len(names) == 1 == count:
        return 0
    only = ", and not just one" if count == 1 else ""
    problem = f"it has no column '{column}'{only}" if column not in names else "several columns match"
    raise ParquetBloomError(problem, path=name)
