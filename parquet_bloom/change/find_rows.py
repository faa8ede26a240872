"""The rows to act on: those of keys, those that match a predicate, or those that do both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ParquetBloomError, PredicateError
from ..predicate import parse
from ..predicate.key_expression import KeyExpression, is_of_path, parse_key
from ..predicate.row_filter import find_column
from ..predicate.tree import CallIn, In, Node, VariantLookup
from ..scan.lookup.key_chunks import KeyCounts, iterate_chunks, list_columns
from ..scan.lookup.key_lookups import KeyLookups
from ..scan.lookup.locate_keys import Locator
from ..scan.model.row_selection import PATH, ROW
from ..scan.named_columns import has_column
from ..scan.row_reader import RowReader
from ..scan.scan_options import ScanOptions
from ..scan.scan_source import ScanSource
from ..storage.paths import as_utf8
from ..util.arrow_values import empty_table, to_numpy

_CHUNK_TEXTS = 50_000  # that a function of a column is compared with at once: they become Python objects

RowsByPath = dict[str, NDArray[np.int64]]
"""{path as listed: the numbers of its rows in the file, ascending}."""


@dataclass
class FoundRows:
    """Rows that were found.

    Attributes
    ----------
    rows : of each file that has some.
    counts : the keys that were given; None if none were.
    distinct : the different keys that rows have; None without keys, or if they are of an expression.
    """

    rows: RowsByPath
    counts: KeyCounts | None = None
    distinct: DistinctKeys | None = None

    @property
    def num_rows(self) -> int:
        return sum(map(len, self.rows.values()))

    @property
    def num_found(self) -> int | None:
        """How many different keys rows have; None if that is not known."""
        return None if self.distinct is None else len(self.distinct)

    def add(self, others: FoundRows) -> None:
        """Add what was found of the same keys in other files."""
        self.rows |= others.rows
        if self.distinct is not None and others.distinct is not None:
            self.distinct.add(others.distinct)


Find = Callable[[ScanSource], FoundRows]
"""Searches the files of a source."""


@dataclass(frozen=True)
class RowSearch:
    """Which rows are meant; it can be searched for again.

    Attributes
    ----------
    keys : as for `Dataset.locate`; None for none. Keys that are null are counted and left out.
    on : the column of the keys, or a list of columns, or a function of one, such as `lower(email)`.
    node : a predicate that rows have to match, too; None for none.
    options : of each search.
    """

    keys: object = None
    on: str | Sequence[str] | None = None
    node: Node | None = None
    options: ScanOptions = field(default_factory=ScanOptions)

    @classmethod
    def make(
        cls, keys: object, on: str | Sequence[str] | None, where: object, dialect: str | None, options: ScanOptions
    ) -> RowSearch:
        """Check what a caller gives.

        Raises
        ------
        ParquetBloomError
            There are neither keys nor a predicate, or keys without their column.
        PredicateError
            The predicate cannot be parsed.
        """
        if keys is None and where is None:
            raise ParquetBloomError("which rows? give keys and their column, or a predicate")
        if (keys is None) != (on is None):
            raise ParquetBloomError("keys and on= go together: on= names the column of the keys")
        if on is not None:
            list_columns(on)
        if isinstance(keys, pa.RecordBatchReader):  # keys are searched for twice, and a stream is read once
            keys = keys.read_all()
        elif isinstance(keys, Iterator):
            keys = list(keys)
        return cls(keys, on, None if where is None else parse(where, dialect=dialect), options)

    def find(
        self,
        source: ScanSource,
        progress: Callable[[int, int], None] | None = None,
        schema: pa.Schema | None = None,
    ) -> FoundRows:
        """Search files, and return the rows.

        Parameters
        ----------
        schema : of a lake that these are some files of, by `fix_row_schema` as the source: they need not have all of
            its columns. None to read their own.

        Raises
        ------
        PredicateError
            A key, or a literal of the predicate, cannot be compared with its column.
        UnknownColumnError
            There is no such column.
        """
        named = None if schema is None else partial(has_column, schema)
        options = replace(self.options, progress=progress, named=named)
        if self.keys is None:
            return FoundRows(collect_rows(self._read_matching(source, options)))
        lookups = KeyLookups.open(source) if schema is None else KeyLookups(source, schema)
        found = self._find_keys(source, lookups, options)
        if self.node is not None and found.rows:
            with_them = replace(source, paths=[*found.rows], index=None)
            matching = collect_rows(self._read_matching(with_them, options))
            both = {path: np.intersect1d(rows, matching.get(path, [])) for path, rows in found.rows.items()}
            found.rows = {path: rows for path, rows in both.items() if len(rows)}
        return found

    def _read_matching(self, source: ScanSource, options: ScanOptions) -> Iterator[tuple[pa.Array, pa.Array]]:
        yield from _read_positions(source, self.node, options)

    def _find_keys(self, source: ScanSource, lookups: KeyLookups, options: ScanOptions) -> FoundRows:
        assert self.on is not None
        counts = KeyCounts()
        expression = parse_expression(self.on, lookups.schema)
        if expression is not None:
            return FoundRows(collect_rows(self._read_results(source, expression, counts, options)), counts)
        locator = Locator(
            lookups.source, lookups.schema, lookups.session, self.on, self.options, options.progress, counts
        )
        seen = DistinctKeys()
        with closing(locator.read_batches(self.keys)) as batches:
            rows = collect_rows((batch.column("path"), batch.column("row")) for batch in seen.note(batches))
        return FoundRows(rows, counts, seen)

    def _read_results(
        self, source: ScanSource, expression: KeyExpression, counts: KeyCounts, options: ScanOptions
    ) -> Iterator[tuple[pa.Array, pa.Array]]:
        """Yield the positions of rows for which a function of a column, or a path of a Variant, is one of the keys."""
        [column] = expression.columns
        with closing(iterate_chunks(str(expression), self.keys, _CHUNK_TEXTS, counts)) as chunks:
            for chunk in chunks:
                keys = tuple(chunk.literals[0])
                node: Node
                if is_of_path(expression):
                    node = VariantLookup(column, expression.path, expression.target, False, In(column, keys))
                else:
                    node = CallIn(column, expression.function, keys)
                yield from _read_positions(source, node, options)


def parse_expression(on: str | Sequence[str], schema: pa.Schema) -> KeyExpression | None:
    """Return the expression of a column that keys are compared with; None if they are values of columns.

    Raises
    ------
    PredicateError
        It is in a list of columns.
    """
    if not isinstance(on, str):
        for name in on:
            if isinstance(parse_key(name), KeyExpression) and not has_column(schema, name):
                problem = "a function of a column is no part of a key of several: give it by itself, as on='lower(a)'"
                raise PredicateError(problem, column=name)
        return None
    if find_column(empty_table(schema), on) is not None:
        return None
    expression = parse_key(on)
    return expression if isinstance(expression, KeyExpression) and len(expression.columns) == 1 else None


def _read_positions(source: ScanSource, node: Node | None, options: ScanOptions) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield path and row of the rows that match a predicate."""
    reader = RowReader(source.plan(node, options), [], cache=source.cache, options=options, positions=True)
    with closing(reader.read_batches()[1]) as batches:
        for batch in batches:
            yield batch.column(PATH), batch.column(ROW)


def find_live_rows(source: ScanSource) -> RowsByPath:
    """Return the rows of files that are not deleted."""
    return collect_rows(_read_positions(source, None, ScanOptions()))


def collect_rows(positions: Iterable[tuple[pa.Array, pa.Array]]) -> RowsByPath:
    """Return positions by their paths."""
    found: dict[str, list[NDArray[np.int64]]] = {}
    for paths, rows in positions:
        encoded = paths.dictionary_encode()
        numbers, of_file = to_numpy(encoded.indices), to_numpy(rows)
        for number, path in enumerate(encoded.dictionary.to_pylist()):
            found.setdefault(path, []).append(of_file[numbers == number])
    return {path: np.unique(np.concatenate(parts)) for path, parts in found.items()}


def show_stored(keys: pa.Table) -> pa.Table:
    """Return keys with the stored values of extension types such as UUIDs, which Arrow does not group."""
    columns = [
        pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        if isinstance(column.type, pa.BaseExtensionType)
        else column
        for column in keys.columns
    ]
    return pa.table(columns, names=keys.column_names)


class DistinctKeys:
    """The different keys that rows have."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def note(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of positions, and note their keys."""
        for batch in batches:
            key = batch.column("key")
            arrays = key.flatten() if pa.types.is_struct(key.type) else [key]
            table = show_stored(pa.table(arrays, names=[str(number) for number in range(len(arrays))]))
            self._tables.append(table.group_by(table.column_names, use_threads=False).aggregate([]))
            if sum(one.num_rows for one in self._tables[1:]) > self._tables[0].num_rows:
                self._merge()
            yield batch

    def add(self, others: DistinctKeys) -> None:
        """Add the keys that rows of other files have."""
        self._tables += others._tables

    def _merge(self) -> None:
        table = pa.concat_tables(self._tables)
        self._tables = [table.group_by(table.column_names, use_threads=False).aggregate([])]

    def __len__(self) -> int:
        if len(self._tables) > 1:
            self._merge()
        return self._tables[0].num_rows if self._tables else 0


def listed_paths(source: ScanSource) -> dict[str, str]:
    """Return the files of a source, {as positions name them: as they are listed}."""
    return {as_utf8(entry.path): entry.path for entry in source.list_files().entries}
