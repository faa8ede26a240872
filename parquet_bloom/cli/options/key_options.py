"""Keys of a file: lines of text, or columns of a Parquet, Arrow or CSV file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import ParquetBloomError, PredicateError, first_line
from ...hashing.column_type import ColumnType, Kind
from ...predicate.key_expression import KeyExpression, is_of_path, parse_key
from ...predicate.literal import Literal, from_collection
from ...predicate.text_keys import parse_keys
from ...scan.named_columns import find_table_column_type
from ...storage import open_source
from ...util.lazy import late_module
from ..command import CommandOptions, option, usage_error
from ..output.output import Output
from .name_completion import complete_columns
from .path_options import STDIN

if TYPE_CHECKING:
    import csv

    import pyarrow.parquet as pq
else:
    csv, pq = late_module("csv"), late_module("pyarrow.parquet")

MAX_KEYS = 1_000_000
MAX_BYTES = 1 << 28
_BATCH_ROWS = 1 << 17
_PARQUET, _ARROW = b"PAR1", b"ARROW1"

_Texts = list[tuple[int, str]]  # with their numbers, for messages


@dataclass
class KeyList:
    """Keys as they were given; they become literals when the types of their columns are known.

    Attributes
    ----------
    columns : of the key.
    values : for each column, its value in each key: texts, or literals of the file's type.
    source : their file, for messages; None for keys of options.
    unit : what the numbers of texts count.
    num_null : keys that were left out, as they are null or have a null.
    """

    columns: tuple[str, ...]
    values: Sequence[_Texts | tuple[Literal, ...]]
    source: str | None = None
    unit: str = "line"
    num_null: int = 0

    def __len__(self) -> int:
        return len(self.values[0])

    def parse_column(self, position: int, column_type: ColumnType) -> tuple[Literal, ...]:
        """Return the literals of a column.

        Raises
        ------
        PredicateError
            A key is not a value of the column's type.
        """
        values = self.values[position]
        try:
            if isinstance(values, list):
                return parse_keys(values, column_type, self.unit)
            if column_type.kind not in (Kind.STRING, Kind.BYTES) and any(isinstance(key, str) for key in values):
                return parse_keys(((n, str(key)) for n, key in enumerate(values, 1)), column_type, "row")
            return values
        except PredicateError as error:
            raise PredicateError(error.problem, path=self.source, column=self.columns[position]) from None

    def parse(self, schema: pa.Schema) -> tuple[str | list[str], Any]:
        """Return column and keys as the methods of `Dataset` take them.

        Raises
        ------
        UnknownColumnError
            The dataset has no such column.
        PredicateError
            A key is not a value of its column.
        """
        types = _find_types(schema, self.columns)
        literals = [list(self.parse_column(i, each)) for i, each in enumerate(types)]
        if len(self.columns) == 1:
            return self.columns[0], literals[0]
        return list(self.columns), dict(zip(self.columns, literals, strict=True))


class KeyStream:
    """The keys of a Parquet or Arrow file in batches, of which there may be any number; `len` is of those read so far.

    Parameters
    ----------
    file : the file, opened; it stays open.
    is_parquet : whether it is a Parquet file.
    columns : of the key.
    name : of the file, for errors.
    skip_nulls : whether keys may be null, or have a null; they are left out only of those that are read as a list.

    Raises
    ------
    ParquetBloomError
        The file cannot be read, or has no such column.
    """

    def __init__(self, file: pa.NativeFile, is_parquet: bool, columns: tuple[str, ...], name: str, skip_nulls: bool):
        self.columns, self._skip_nulls = columns, skip_nulls
        self._name = name
        self._num_read = 0
        self._all: KeyList | None = None
        with _reading(name):
            self._file = pq.ParquetFile(file, pre_buffer=False) if is_parquet else pa.ipc.open_file(file)
            schema = self._file.schema_arrow if is_parquet else self._file.schema
        positions = [find_key_column(schema.names, column, name, len(columns)) for column in columns]
        self._stored = [schema.names[position] for position in positions]
        types = [schema.field(position).type for position in positions]
        self._schema = pa.schema([*zip(columns, types, strict=True)])
        self._size = file.size()
        self._num_keys = self._file.metadata.num_rows if is_parquet else 0

    def __len__(self) -> int:
        return self._num_read if self._all is None else len(self._all)

    def parse(self, schema: pa.Schema) -> tuple[str | list[str], Any]:
        """Return column and keys as `KeyList.parse` does, the keys to be read in batches unless they are texts."""
        types = _find_types(schema, self.columns)
        if any(
            _is_text(field.type) and each.kind not in (Kind.STRING, Kind.BYTES)
            for field, each in zip(self._schema, types, strict=True)
        ):
            self._all = self.read_all()
            return self._all.parse(schema)
        keys = pa.RecordBatchReader.from_batches(self._schema, self._iterate())
        return self.columns[0] if len(self.columns) == 1 else list(self.columns), keys

    def read_all(self) -> KeyList:
        """Return the keys, of which there are at most `MAX_KEYS`."""
        _refuse_large(self._size, self._name)
        _refuse_many(self._num_keys, self._name)
        table = pa.Table.from_batches(list(self._iterate()), self._schema)
        _refuse_many(table.num_rows, self._name)
        known = table.drop_null()
        values = []
        for column in self.columns:
            try:
                values.append(from_collection(known.column(column)))
            except PredicateError as error:
                raise PredicateError(error.problem, path=self._name, column=column) from None
        return KeyList(self.columns, values, self._name, num_null=len(table) - len(known))

    def _iterate(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys, in columns of the key's names."""
        with _reading(self._name):
            for batch in self._iterate_stored():
                arrays = [batch.column(name) for name in self._stored]
                for column, values in zip(self.columns, arrays, strict=True):
                    if values.null_count and not self._skip_nulls:
                        row = self._num_read + values.is_null().to_pylist().index(True) + 1
                        raise _make_null_error(f"row {row:,}", column, self._name)
                self._num_read += batch.num_rows
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _iterate_stored(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self._file, pq.ParquetFile):
            yield from self._file.iter_batches(_BATCH_ROWS, columns=self._stored)
        else:
            yield from map(self._file.get_batch, range(self._file.num_record_batches))


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except ParquetBloomError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ParquetBloomError(f"its keys cannot be read: {first_line(error)}", path=name) from error


def _find_types(schema: pa.Schema, columns: Sequence[str]) -> list[ColumnType]:
    return [find_table_column_type(schema, column, kind="dataset") for column in columns]


def _is_text(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type)


def _find_field(names: Sequence[str], column: str) -> str:
    """Return the name that a column of keys has in a file: for `lower(email)` also `email`."""
    expression = parse_key(column)
    if column in names or is_of_path(expression) or not isinstance(expression, KeyExpression):
        return column
    return column if len(expression.columns) > 1 else expression.columns[0]


def find_key_column(names: Sequence[str], column: str, name: str, count: int = 1) -> int:
    """Return the position of a column of keys: the one of that name, or for a key of one column the only one.

    Parameters
    ----------
    names : the columns of a file.
    name : of the file, for errors.
    count : columns of the key.
    """
    column = _find_field(names, column)
    if names.count(column) == 1:
        return names.index(column)
    if len(names) == 1 == count:
        return 0
    only = ", and not just one" if count == 1 else ""
    problem = f"it has no column '{column}'{only}" if column not in names else "several columns match"
    raise ParquetBloomError(problem, path=name)


@contextmanager
def open_key_file(
    path: str, columns: tuple[str, ...], paths: Sequence[str], output: Output, skip_nulls: bool = False
) -> Iterator[KeyList | KeyStream]:
    """Open a file of keys; of text with one key per line there is one column.

    Parameters
    ----------
    columns : of the keys.
    paths : arguments of the command, of which - is the standard input as well.
    skip_nulls : leave out lines of CSV with an empty field in place of refusing them.

    Raises
    ------
    click.UsageError
        Standard input is to be read twice.
    ParquetBloomError
        The file cannot be read, is too large, or has no such column.
    """
    if path == STDIN and STDIN in paths:
        raise usage_error("standard input holds either PATHs or keys, not both")
    name = "standard input" if path == STDIN else path
    with ExitStack() as stack:
        if path == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""
            _refuse_large(len(data), name)
        else:
            source = stack.enter_context(open_source(path, output.filesystem))
            data = bytes(source.read_at(0, min(source.size, len(_ARROW)))) if source.size else b""
        if data.startswith((_PARQUET, _ARROW)):
            file = pa.BufferReader(data) if path == STDIN else source.counted_arrow_file()
            yield KeyStream(stack.enter_context(file), data.startswith(_PARQUET), columns, name, skip_nulls)
            return
        if path != STDIN and source.size:
            data = bytes(source.read_at(0, min(source.size, MAX_BYTES + 1)))
    _refuse_large(len(data), name)
    num_null = 0
    if path.lower().endswith(".csv"):
        texts, num_null = _read_csv(data, columns, name, skip_nulls)
    elif len(columns) > 1:
        raise ParquetBloomError("keys of several columns are in a Parquet, Arrow or .csv file, not in lines", path=name)
    else:
        texts = [list(_read_lines(data, name))]
    _refuse_many(len(texts[0]), name)
    yield KeyList(columns, texts, name, num_null=num_null)


def _refuse_large(size: int, name: str) -> None:
    if size > MAX_BYTES:
        raise ParquetBloomError(f"more than {MAX_BYTES:,} bytes of keys; find them in several steps", path=name)


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
            try:
                yield number, line.decode()
            except UnicodeDecodeError:
                raise ParquetBloomError(f"line {number:,} is not valid UTF-8", path=name) from None


def _read_csv(data: bytes, columns: Sequence[str], name: str, skip_nulls: bool) -> tuple[list[_Texts], int]:
    """Return the fields of each column, with the numbers of their lines, and how many keys have an empty one.

    An empty field is a null.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ParquetBloomError(f"byte {error.start:,} is not valid UTF-8", path=name) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        if len(header) == len(columns) == 1:
            column = _find_field(header, columns[0])
            if header[0].casefold() != column.casefold():  # it may be the first key, which would be lost
                problem = f"the first line of a .csv file names its column, which is '{column}'"
                raise ParquetBloomError(f"{problem}; keys alone, one a line, are in a file named .txt", path=name)
        positions = [find_key_column(header, column, name, len(columns)) for column in columns]
        texts: list[_Texts] = [[] for _ in columns]
        num_null = 0
        for row in filter(None, reader):
            if len(row) != len(header):
                problem = f"line {reader.line_num:,} has {len(row):,} fields, the header {len(header):,}"
                raise ParquetBloomError(problem, path=name)
            empty = next((column for column, at in zip(columns, positions, strict=True) if not row[at]), None)
            if empty is not None and not skip_nulls:
                raise _make_null_error(f"line {reader.line_num:,}", empty, name)
            num_null += empty is not None
            for position, fields in zip(positions, texts, strict=True):
                if empty is None:
                    fields.append((reader.line_num, row[position]))
    except csv.Error as error:
        raise ParquetBloomError(f"line {reader.line_num:,} is not CSV: {error}", path=name) from None
    return texts, num_null


def _make_null_error(where: str, column: str, name: str) -> PredicateError:
    return PredicateError(f"{where} has no key: nothing equals a null", path=name, column=column)


def parse_key_options(given: Sequence[str]) -> KeyList:
    """Return the keys of several --key; raise click.UsageError for one that is not of the form COLUMN=VALUE."""
    keys = [_parse_option(text, number) for number, text in enumerate(given, 1)]
    columns = tuple(keys[0])
    for number, key in enumerate(keys, 1):
        if {*key} != {*columns}:
            problem = f"number {number} is of {', '.join(key)}, number 1 of {', '.join(columns)}"
            raise usage_error(f"all --key are of the same columns; {problem}")
    return KeyList(columns, [[(n, key[column]) for n, key in enumerate(keys, 1)] for column in columns], unit="key")


def _parse_option(text: str, number: int) -> dict[str, str]:
    """Parse the COLUMN=VALUE of one key, as fields of CSV."""
    try:
        fields, *more = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    except (csv.Error, ValueError):
        fields, more = [], []
    key = dict(field.split("=", 1) for field in fields if field.find("=") > 0)
    if not fields or more or len(key) < len(fields):
        form = "COLUMN=VALUE[,COLUMN=VALUE...]; quote what has a comma: '\"name=a,b\"'"
        raise usage_error(f"--key number {number} is not of the form {form}")
    return key


class WhereKeys(CommandOptions):
    """Keys of which a row has to have one, next to a predicate."""

    title = "Rows"

    given: tuple[str, ...] = option(
        "COLUMN=VALUE",
        "Find the rows that have this key. Repeatable, for several keys of one column.",
        "--key",
        multiple=True,
    )
    keys_from: str | None = option(
        "FILE",
        "Find the rows whose --key-column is a key of this file. It is text with one key per line, or - for standard "
        "input; or a Parquet or Arrow file that has that column, or only one; or a .csv file whose header has it. With "
        "--where, rows must match both.",
        "--keys",
    )
    key_column: str | None = option("NAME", "The column of --keys.", shell_complete=complete_columns)

    @property
    def are_given(self) -> bool:
        """Whether an option of keys is given."""
        return bool(self.given) or self.keys_from is not None or self.key_column is not None

    def read(self, paths: Sequence[str], output: Output) -> KeyList | None:
        """Return the keys, without nulls; None if there are none. Raises as `open_key_file`."""
        if self.given and (self.keys_from is not None or self.key_column is not None):
            raise usage_error("--key and --keys exclude each other")
        if self.given:
            given = parse_key_options(self.given)
            if len(given.columns) > 1:
                raise usage_error("--key is of one column here: `get` finds the rows of keys of several columns")
            return given
        if not self.are_given:
            return None
        if self.keys_from is None or self.key_column is None:
            raise usage_error("--keys and --key-column go together")
        with open_key_file(self.keys_from, (self.key_column,), paths, output, skip_nulls=True) as keys:
            return keys if isinstance(keys, KeyList) else keys.read_all()
