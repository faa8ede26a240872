"""Find the physical positions of the rows of keys, however many there are.

Few keys are planned as a predicate is. Many would take longer to look up in the statistics and filters of each file
than it takes to search the column: they are hashed once, and the pages of all candidates are searched for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import PredicateError, UnknownColumnError
from ...predicate.key_expression import match_keys
from ...predicate.row_filter import find_column
from ...storage.paths import as_utf8
from ...util.arrow_values import empty_table, keep, take
from ..model.folder_partitions import ScanRequest
from ..model.row_selection import PATH, ROW, ROW_GROUP
from ..model.scan_plan import ScanPlan
from ..named_columns import select_columns, suggest_names
from ..row_reader import RowReader
from ..scan_options import ScanOptions
from ..scan_source import ScanSource
from .key_chunks import KeyChunk, KeyCounts, iterate_chunks, list_columns
from .lookup_session import LookupSession

INDEX_KEYS = 100_000
"""Keys that an index is queried for."""


class Locator:
    """Finds the positions of keys in a dataset.

    Parameters
    ----------
    source, schema : of the dataset.
    session : its lookups by an index, if it has one.
    columns : of the key.
    options : of each search.
    progress : called with (done, in all) after each file that is read, of all searches so far.
    counts : counts the keys, and leaves out those that are null; without it, these are errors.

    Attributes
    ----------
    schema : of the result.
    """

    def __init__(
        self,
        source: ScanSource,
        schema: pa.Schema,
        session: LookupSession | None,
        columns: str | Sequence[str],
        options: ScanOptions,
        progress: Callable[[int, int], None] | None = None,
        counts: KeyCounts | None = None,
    ):
        self._source = source
        self._dataset_schema = schema
        self._session = session
        self._columns = columns
        self._options = replace(options, named=schema.names.__contains__)
        self._progress, self._counts = progress, counts
        self._num_searched = 0  # files of the searches that have ended
        self._names = list_columns(columns)
        fields = [pa.field(name, _find_type(schema, name)) for name in self._names]
        key_type = fields[0].type if isinstance(columns, str) else pa.struct(fields)
        self.schema = pa.schema(
            [
                pa.field("key", key_type),
                pa.field("path", pa.string()),
                pa.field("row_group", pa.int32()),
                pa.field("row", pa.int64()),
            ]
        )

    def read_batches(self, keys: object) -> Generator[pa.RecordBatch, None, None]:
        """Yield the positions of keys, those of one chunk of keys after those of the other."""
        with closing(self._read_chunks(keys, {})) as chunks:
            for batches in chunks:
                yield from batches

    def read_all_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the positions of all rows, also of those whose key is null."""
        plan = self._source.plan(None, self._options, self._dataset_schema)
        with closing(self._read_rows(plan)) as batches:
            for batch in batches:
                yield self._make_batch(pa.Table.from_batches([batch]))

    def read_table(self, keys: object) -> pa.Table:
        """Return the positions of all keys, in the order of files and rows."""
        order: dict[str, int] = {}
        chunks = [list(batches) for batches in self._read_chunks(keys, order)]
        table = pa.Table.from_batches([batch for batches in chunks for batch in batches], self.schema)
        if len(chunks) < 2 or not table.num_rows:
            return table
        paths = table["path"].combine_chunks().dictionary_encode() if table.num_rows else table["path"]
        paths = paths.chunk(0) if isinstance(paths, pa.ChunkedArray) else paths
        ranks = np.array([order[path] for path in paths.dictionary.to_pylist()], np.int64)
        rows = np.lexsort((np.asarray(table["row"]), ranks[np.asarray(paths.indices)]))
        return take(table, rows)

    def _read_chunks(
        self, keys: object, order: dict[str, int]
    ) -> Generator[Generator[pa.RecordBatch, None, None], None, None]:
        """Yield the positions of each chunk of keys; the numbers of files are entered into `order`."""
        limits = self._options.limits
        size = limits.chunk_keys if len(self._names) == 1 else limits.chunk_tuples
        with closing(iterate_chunks(self._columns, keys, size, self._counts)) as chunks:
            chunk, following = next(chunks, None), next(chunks, None)
            is_only = following is None
            found = _FoundRows() if chunk is not None and not is_only and self._are_ambiguous(chunk) else None
            while chunk is not None:
                plan = self._plan(chunk, is_only)
                for file in plan.files:
                    order.setdefault(as_utf8(file.path), len(order))
                with closing(self._read(chunk, plan)) as batches:
                    yield batches if found is None else found.keep_new(batches)
                chunk, following = following, next(chunks, None)

    def _are_ambiguous(self, chunk: KeyChunk) -> bool:
        """Return whether keys that differ can be equal to the same value of a column."""
        key = self.schema.field("key").type
        types = [key] if isinstance(self._columns, str) else [field.type for field in key]
        return any(map(_can_share_value, chunk.keys.schema.types, types))

    def _plan(self, chunk: KeyChunk, is_only: bool) -> ScanPlan:
        """Return the files and row groups that may have a key.

        Parameters
        ----------
        is_only : whether there are no other chunks, so that the files that have no key need no number.
        """
        options = self._options
        if len(chunk) <= options.limits.few_keys:
            keys = chunk.to_keys()
            plan = self._session.plan(keys, options) if self._session and is_only else None
            if plan is None:
                plan = self._source.plan(keys.node, options, self._dataset_schema)
            return plan
        plan = None
        if self._session is not None and is_only and len(chunk) <= INDEX_KEYS:
            plan = self._session.plan(chunk.to_keys(), options, by_index_alone=True)
        if plan is None:
            plan = self._source.plan(chunk.bounds, options, self._dataset_schema)
        plan.asked = ScanRequest(chunk.node, options.timezone, False)
        return plan

    def _read(self, chunk: KeyChunk, plan: ScanPlan) -> Generator[pa.RecordBatch, None, None]:
        """Yield the positions of a chunk of keys."""
        with closing(self._read_rows(plan)) as batches:
            if len(self._names) == 1:
                for batch in batches:
                    yield self._make_batch(pa.Table.from_batches([batch]))
                return
            held: list[pa.RecordBatch] = []
            for batch in batches:
                held.append(batch)
                if sum(one.num_rows for one in held) >= self._options.limits.matched_rows:
                    yield from self._match(chunk, held)
                    held = []
            yield from self._match(chunk, held)

    def _read_rows(self, plan: ScanPlan) -> Generator[pa.RecordBatch, None, None]:
        """Yield the key's columns of the rows of a plan, with their positions."""
        columns, schema = select_columns(self._dataset_schema, list(dict.fromkeys(self._names)))
        options = replace(self._options, progress=self._make_progress())
        reader = RowReader(plan, columns, schema=schema, cache=self._source.cache, options=options, positions=True)
        return reader.read_batches()[1]

    def _make_progress(self) -> Callable[[int, int], None] | None:
        """Return what counts the files of the next search."""
        report, before = self._progress, self._num_searched
        if report is None:
            return None

        def count(done: int, total: int) -> None:
            self._num_searched = before + total
            report(before + done, before + total)

        return count

    def _match(self, chunk: KeyChunk, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have all values of a key of several columns."""
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        rows = np.unique(match_keys(table, self._names, chunk.literals, self._options.timezone).rows)
        if len(rows):
            yield self._make_batch(take(table, rows))

    def _make_batch(self, table: pa.Table) -> pa.RecordBatch:
        arrays = []
        for name in self._names:
            column = find_column(table, name)
            assert column is not None
            arrays.append(_decode(column.combine_chunks()))
        key = self.schema.field("key").type
        if isinstance(self._columns, str):
            keys = arrays[0].cast(key) if arrays[0].type != key else arrays[0]
        else:
            keys = pa.StructArray.from_arrays(
                [array.cast(field.type) for array, field in zip(arrays, key, strict=True)], fields=list(key)
            )
        rest = [table.column(name).combine_chunks() for name in (PATH, ROW_GROUP, ROW)]
        rest = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in rest]
        return pa.RecordBatch.from_arrays([keys, *rest], schema=self.schema)


class _FoundRows:
    """The rows that were found so far, of which a later chunk of keys may find some again."""

    def __init__(self) -> None:
        self._rows: dict[str, NDArray[np.int64]] = {}  # by path, ascending

    def keep_new(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
        """Yield the positions that were not found before."""
        for batch in batches:
            paths = batch.column("path").dictionary_encode()
            numbers, rows = np.asarray(paths.indices), np.asarray(batch.column("row"), np.int64)
            is_new = np.ones(len(rows), np.bool_)
            for number, path in enumerate(paths.dictionary.to_pylist()):
                of_path = numbers == number
                before = self._rows.get(path, np.empty(0, np.int64))
                is_new[of_path] = ~np.isin(rows[of_path], before)
                self._rows[path] = np.union1d(before, rows[of_path])
            if is_new.all():
                yield batch
            elif is_new.any():
                yield keep(batch, pa.array(is_new))


def _can_share_value(key: pa.DataType, column: pa.DataType) -> bool:
    """Return whether two keys of a type can be equal to one value: two spellings of it, or rounded to one float."""
    if pa.types.is_floating(column):
        return bool(key != column)
    return _is_text(key) and not _is_text(column)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or data_type == pa.string_view())


def _decode(column: object) -> pa.Array:
    """Return one array of a column, without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _find_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Return the type of a key's column."""
    column = find_column(empty_table(schema), name)
    if column is None:
        raise UnknownColumnError(
            f"no such column{suggest_names(name, schema.names, can_ignore_case=False)}", column=name
        )
    key_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(key_type):
        raise PredicateError(f"a {key_type} has no single values: keys are of a column of these", column=name)
    return key_type
