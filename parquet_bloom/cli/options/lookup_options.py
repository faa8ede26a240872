"""Options of the commands that take keys and a lake: `--key`, `--keys`, `--key-column`, `--index`, and the PATHs."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click
import pyarrow as pa

from ...errors import ManagedTableError
from ...lake.index_manifest import list_lake_roots
from ...scan.named_columns import find_table_column_type
from ...storage import is_url, open_source
from ..output.output import Output
from .key_values import KeyArguments, KeyFile, is_parquet, read_key_columns
from .name_completion import complete_columns
from .path_options import STDIN, MatchedPaths, check_output, expand_stdin
from .shared_options import make_missing_path
from .table_options import WAY_OUT, TableRequest

if TYPE_CHECKING:
    from ...scan.engines.dataset import Dataset

KEYS_HELP = (
    "A key is text of its column's type: 42, 1.50, 2026-01-30, 2026-01-30T12:00:00Z, a UUID, a string as it is, "
    "bytes as X'AB'. Several columns together are one key: tenant=a,id=42; where a value has a comma, quote it with "
    "its column: '\"name=Smith, J.\",id=42'."
)

_OPTIONS = (
    click.option(
        "--key",
        "given",
        metavar="COLUMN=VALUE",
        multiple=True,
        help="A key to look up. Repeatable; several columns that are a key together are separated by commas.",
    ),
    click.option(
        "--keys",
        "keys_from",
        metavar="FILE",
        help="Look up the keys of this file: text with one key per line, or - for standard input; or a Parquet, Arrow "
        "or .csv file (with a header) that has the --key-column, or only one.",
    ),
    click.option(
        "--key-column",
        "key_columns",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_columns,
        help="A column of --keys; repeatable, for keys of several columns. Default: the index's column, if it has one.",
    ),
    click.option(
        "--index",
        metavar="FOLDER",
        help="The index of the lake that says which files may have a key. Without PATHs: all files of its lake.",
    ),
)


class FoundKeys(Protocol):
    """KeyArguments as the methods of `Dataset` take them.

    Attributes
    ----------
    columns : of the key.
    number : of keys; of a file that is read in batches, those that were read so far.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def number(self) -> int: ...

    def parse(self, schema: pa.Schema) -> tuple[str | list[str], Any]: ...


class GivenKeys(NamedTuple):
    """The keys of the options, of the type that their file or their text has.

    Attributes
    ----------
    columns : of the key.
    parts : for each column, its values in each key.
    """

    columns: tuple[str, ...]
    parts: list[KeyArguments]

    @property
    def number(self) -> int:
        return len(self.parts[0])

    def parse(self, schema: pa.Schema) -> tuple[str | list[str], Any]:
        """Return column and keys as the methods of `Dataset` take them.

        Raises
        ------
        UnknownColumnError
            The dataset has no such column.
        PredicateError
            A key is not a value of its column.
        """
        types = [find_table_column_type(schema, column, kind="dataset") for column in self.columns]
        literals = [list(part.parse(each)) for part, each in zip(self.parts, types, strict=True)]
        if len(self.columns) == 1:
            return self.columns[0], literals[0]
        return list(self.columns), dict(zip(self.columns, literals, strict=True))


class StreamedKeys:
    """The keys of a Parquet file, which are read in batches: there may be any number of them.

    Parameters
    ----------
    columns : of the key.
    file : has them.
    read_all : reads them all, for a file that has texts of values.
    """

    def __init__(self, columns: tuple[str, ...], file: KeyFile, read_all: Callable[[], GivenKeys]):
        self.columns = columns
        self._file = file
        self._read_all = read_all
        self._all: GivenKeys | None = None

    @property
    def number(self) -> int:
        return self._file.num_read if self._all is None else self._all.number

    def parse(self, schema: pa.Schema) -> tuple[str | list[str], Any]:
        """Return column and keys; see `GivenKeys.parse`."""
        types = [find_table_column_type(schema, column, kind="dataset") for column in self.columns]
        if self._file.has_texts_of(types):
            self._all = self._read_all()
            return self._all.parse(schema)
        return self.columns[0] if len(self.columns) == 1 else list(self.columns), self._file.read_batches()


def lookup_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --key, --keys, --key-column and --index to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def collect_keys(
    given: Sequence[str],
    keys_from: str | None,
    key_columns: Sequence[str],
    index: str | None,
    paths: Sequence[str],
    output: Output,
) -> GivenKeys:
    """Return the keys of the options.

    Raises
    ------
    click.UsageError
        The options do not fit together, or a --key is not of the form COLUMN=VALUE.
    ParquetBloomError
        The file of keys cannot be read, or has no such column; or the index does not say which column is meant.
    """
    _require_one_way(given, keys_from, key_columns)
    if keys_from is None:
        return _parse_options(given)
    columns = tuple(key_columns) or (_find_only_column(index, output),)
    return GivenKeys(columns, read_key_columns(keys_from, columns, paths, output.filesystem))


@contextmanager
def open_keys(
    given: Sequence[str],
    keys_from: str | None,
    key_columns: Sequence[str],
    index: str | None,
    paths: Sequence[str],
    output: Output,
) -> Iterator[FoundKeys]:
    """Open the keys of the options as `collect_keys` does, but a Parquet file of them to be read in batches."""
    _require_one_way(given, keys_from, key_columns)
    with ExitStack() as stack:
        source = None
        if keys_from is not None and keys_from != STDIN:
            source = stack.enter_context(open_source(keys_from, output.filesystem))
        if source is None or not is_parquet(source):
            yield collect_keys(given, keys_from, key_columns, index, paths, output)
            return
        columns = tuple(key_columns) or (_find_only_column(index, output),)
        file = KeyFile(source, columns, str(keys_from))
        yield StreamedKeys(columns, file, lambda: collect_keys(given, keys_from, key_columns, index, paths, output))


def _require_one_way(given: Sequence[str], keys_from: str | None, key_columns: Sequence[str]) -> None:
    if not given and keys_from is None:
        raise _usage("nothing to look up: give --key COLUMN=VALUE, or --keys FILE")
    if given and keys_from is not None:
        raise _usage("--key and --keys exclude each other")
    if keys_from is None and key_columns:
        raise _usage("--key-column is for --keys; --key names its columns itself")
    if len({*key_columns}) < len(key_columns):
        raise _usage("--key-column names a column twice")


def _parse_options(given: Sequence[str]) -> GivenKeys:
    keys = [_parse_option(text, number) for number, text in enumerate(given, 1)]
    columns = tuple(keys[0])
    for number, key in enumerate(keys, 1):
        if {*key} != {*columns}:
            problem = f"number {number} is of {', '.join(key)}, number 1 of {', '.join(columns)}"
            raise _usage(f"all --key are of the same columns; {problem}")
    texts = [[(number, key[column]) for number, key in enumerate(keys, 1)] for column in columns]
    parts = [KeyArguments(column, None, some, unit="key") for column, some in zip(columns, texts, strict=True)]
    return GivenKeys(columns, parts)


def _parse_option(text: str, number: int) -> dict[str, str]:
    """Parse the COLUMN=VALUE of one key, as fields of CSV."""
    try:
        fields, *more = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    except (csv.Error, ValueError):
        fields, more = [], []
    key: dict[str, str] = {}
    for field in fields:
        column, equals, value = field.partition("=")
        if not equals or not column or column in key:
            fields = []
            break
        key[column] = value
    if not fields or more:
        form = "COLUMN=VALUE[,COLUMN=VALUE...]; quote what has a comma: '\"name=a,b\"'"
        raise _usage(f"--key number {number} is not of the form {form}")
    return key


def _find_only_column(index: str | None, output: Output) -> str:
    if index is None:
        raise _usage("--keys needs --key-column")
    from ...lake.lake_index import LakeIndex

    with LakeIndex.open(index, live=False, filesystem=output.filesystem) as opened:
        columns = opened.columns
    if len(columns) != 1:
        raise _usage(f"--keys needs --key-column: the index has {', '.join(columns)}")
    return columns[0]


def open_lookups(paths: Sequence[str], request: TableRequest, index: str | None, output: Output) -> Dataset:
    """Open the dataset of PATHs, of a table, or without them of the index's own lake.

    Raises
    ------
    click.UsageError
        There are no PATHs and no index, or the options of tables do not fit.
    ParquetBloomError
        The files, the table or the index cannot be read.
    """
    from ...scan.engines.dataset import dataset

    request.require_valid(paths)
    if not paths and not request.in_catalog and index is None:
        raise make_missing_path()
    table = request.find(paths, output)
    if table is not None:
        return dataset(table, index=index, filesystem=output.filesystem)
    # The only PATH as it is, since it may be a table's folder, which `dataset` recognises too.
    source: Any = None
    if paths:
        source = paths[0] if len(paths) == 1 and paths[0] != STDIN else [*expand_stdin(paths)]
    try:
        return dataset(source, index=index, filesystem=output.filesystem)
    except ManagedTableError as error:
        table = request.find(paths, output, certain=True) if [*map(is_url, paths)] == [True] else None
        if table is None:
            error.problem += WAY_OUT
            raise
        return dataset(table, index=index, filesystem=output.filesystem)


def check_lookup_output(
    dataset: Dataset, paths: Sequence[str], index: str | None, output: Output, target: str, *, inside: bool = False
) -> None:
    """Reject an output file that is itself a file of the lake, or lies in one of its folders.

    Parameters
    ----------
    inside : accept one in these folders, for a file that belongs into a table's.
    """
    roots = [path for path in paths if path != STDIN and not inside]
    if not paths and index is not None and not inside:
        from ...lake.lake_index import LakeIndex

        with LakeIndex.open(index, live=False, filesystem=output.filesystem) as opened:
            roots = list_lake_roots(opened.state.manifest.lake)
    files = [MatchedPaths(file, None, False) for file in dataset.files]
    check_output([*files, *(MatchedPaths(root, root, True) for root in roots if os.path.isdir(root))], target)


def _usage(problem: str) -> click.UsageError:
    return click.UsageError(problem, click.get_current_context())
