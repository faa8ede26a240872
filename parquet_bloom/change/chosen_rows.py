"""The rows that a caller chooses by keys, by a predicate, or by both, as positions in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import PredicateError
from ..predicate import parse
from ..predicate.key_expression import TUPLE, KeyExpression, parse_key
from ..predicate.literal import from_collection
from ..predicate.tree import CallIn, Node
from ..scan.lookup.key_chunks import iterate_tables
from ..scan.lookup.key_lookups import KeyLookups
from ..scan.model.row_selection import PATH, ROW
from ..scan.named_columns import has_column
from ..scan.row_reader import RowReader
from ..scan.scan_options import ScanOptions
from ..util.arrow_values import keep

Progress = Callable[[int, int], None]

FoundRows = dict[str, NDArray[np.int64]]
"""The numbers of rows in each file, by its path: ascending, and counted from the file's first row."""


class Keys:
    """Keys as a caller gives them, without nulls, to be read as often as is needed.

    Parameters
    ----------
    on : the column of the key, or a list of columns.
    keys : see `Dataset.locate`; nulls are left out, as they equal nothing. A stream is read into memory, a file is read
        anew each time.

    Attributes
    ----------
    num_keys, num_null : how many were given, with repetitions, and how many of them are null or have a null; of a file
        once it is read.

    Raises
    ------
    PredicateError
        They are not of one value for each column.
    """

    def __init__(self, on: str | Sequence[str], keys: object):
        self.on = on
        self._names = [on] if isinstance(on, str) else [*on]
        self.num_keys = self.num_null = 0
        self._file = keys if isinstance(keys, os.PathLike) else None
        self._tables: list[pa.Table] = []
        if self._file is None:
            keys = self._drop_missing(keys)
            self._tables = [self._drop_nulls(table) for table in self._iterate(keys)]

    def open(self) -> pa.RecordBatchReader:
        """Return the keys as a stream of batches with the key's columns."""
        if self._file is None:
            tables: Iterator[pa.Table] = iter(self._tables)
        else:
            self.num_keys = self.num_null = 0
            tables = map(self._drop_nulls, self._iterate(self._file))
        first = next(tables, None)
        schema = pa.schema([(name, pa.null()) for name in self._names]) if first is None else first.schema

        def batches() -> Iterator[pa.RecordBatch]:
            for table in chain([] if first is None else [first], tables):
                yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _iterate(self, keys: object) -> Iterator[pa.Table]:
        return iterate_tables(self.on, self._names, keys)

    def _drop_missing(self, keys: object) -> object:
        """Return keys that are Python objects without those that are None, or have None in them."""
        if isinstance(keys, Mapping) and all(isinstance(keys.get(name), Sequence) for name in self._names):
            rows = list(zip(*(keys[name] for name in self._names), strict=True))
            kept = [row for row in rows if None not in row]
            self._note_missing(len(rows) - len(kept))
            return {name: [row[number] for row in kept] for number, name in enumerate(self._names)}
        if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Sequence | set | frozenset):
            return keys
        if isinstance(keys, tuple) and not isinstance(self.on, str) and not any(isinstance(k, tuple) for k in keys):
            keys = [keys]  # a single key of several columns
        listed = [key for key in keys if key is not None and not (isinstance(key, tuple) and None in key)]
        self._note_missing(len(keys) - len(listed))
        return listed

    def _note_missing(self, number: int) -> None:
        self.num_null += number
        self.num_keys += number

    def _drop_nulls(self, table: pa.Table) -> pa.Table:
        self.num_keys += table.num_rows
        known = None
        for column in table.columns:
            if column.null_count:
                valid = column.is_valid()
                known = valid if known is None else pc.and_(known, valid)
        if known is None:
            return table
        kept = keep(table, known)
        self.num_null += table.num_rows - kept.num_rows
        return kept


@dataclass(frozen=True)
class RowChoice:
    """Which rows a caller chooses.

    Attributes
    ----------
    keys : their keys; None for all of them.
    where : the predicate that they meet; None for all of them.
    timezone, threads : as for `Dataset.scan`.
    """

    keys: Keys | None
    where: Node | None
    timezone: str = "UTC"
    threads: int | None = None

    @classmethod
    def make(cls, keys: object, on: str | Sequence[str] | None, where: object, **options: Any) -> RowChoice:
        """Check what a caller gives.

        Raises
        ------
        PredicateError
            There are neither keys nor a predicate, or keys without their column.
        """
        if (keys is None) != (on is None):
            problem = "on= names the column of the keys, which are missing" if keys is None else "on= is missing"
            raise PredicateError(f"{problem}: keys and on= go together")
        if keys is None and where is None:
            raise PredicateError("say which rows are meant, by keys and on=, or by where=")
        chosen = None
        if keys is not None and on is not None:
            chosen = Keys(on, keys)
        return cls(chosen, None if where is None else parse(where), **options)

    def find(self, lookups: KeyLookups, progress: Progress | None = None) -> FoundRows:
        """Find the rows.

        Parameters
        ----------
        lookups : of the files.
        progress : called with (done, in all) after each file that is read.

        Raises
        ------
        ParquetBloomError
            A column does not exist, a key is not of its type, or a file cannot be read.
        """
        found = None
        if self.keys is not None:
            found = self._find_by_keys(lookups, self.keys, progress)
        if self.where is not None and (found is None or found):
            matching = self._find_matching(lookups, self.where, progress)
            found = matching if found is None else _intersect(found, matching)
        assert found is not None
        return found

    def _find_by_keys(self, lookups: KeyLookups, keys: Keys, progress: Progress | None) -> FoundRows:
        if isinstance(keys.on, str) and not has_column(lookups.schema, keys.on):
            expression = parse_key(keys.on)
            if isinstance(expression, KeyExpression):
                return self._find_matching(lookups, _make_call(expression, keys), progress)
        locator = lookups.make_locator(keys.on, self.timezone, self.threads, progress)
        with closing(locator.read_batches(keys.open())) as batches:
            return _collect((batch.column("path"), batch.column("row")) for batch in batches)

    def _find_matching(self, lookups: KeyLookups, where: Node, progress: Progress | None) -> FoundRows:
        options = ScanOptions(self.timezone, threads=self.threads, progress=progress)
        source, schema = lookups.source, lookups.schema
        plan = source.plan(where, options, schema)
        nothing = pa.schema([])
        reader = RowReader(plan, [], schema=nothing, cache=source.cache, options=options, positions=True)
        with closing(reader.read_batches()[1]) as batches:
            return _collect((batch.column(PATH), batch.column(ROW)) for batch in batches)


def _make_call(expression: KeyExpression, keys: Keys) -> Node:
    """Return the condition that an expression over a column has one of some keys."""
    if expression.function == TUPLE:
        raise PredicateError(f"keys of several columns are named as a list: on={list(expression.columns)!r}")
    table = keys.open().read_all()
    return CallIn(expression.columns[0], expression.function, from_collection(table.column(0).combine_chunks()))


def _collect(batches: Iterator[tuple[pa.Array, pa.Array]]) -> FoundRows:
    """Return the rows of batches of paths and row numbers, each once."""
    parts: dict[str, list[NDArray[np.int64]]] = {}
    for paths, rows in batches:
        encoded = paths if isinstance(paths, pa.DictionaryArray) else paths.dictionary_encode()
        numbers, positions = np.asarray(encoded.indices), np.asarray(rows, np.int64)
        for number, path in enumerate(encoded.dictionary.to_pylist()):
            parts.setdefault(path, []).append(positions[numbers == number])
    return {path: np.unique(np.concatenate(rows)) for path, rows in parts.items()}


def _intersect(one: FoundRows, other: FoundRows) -> FoundRows:
    common = {path: np.intersect1d(one[path], other[path], assume_unique=True) for path in one.keys() & other.keys()}
    return {path: rows for path, rows in common.items() if len(rows)}
