"""Any number of keys, in chunks that fit in memory: no key is in two of them."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ParquetBloomError, PredicateError, first_line
from ...hashing.arrow_keys import chunks_of, hash_array, plain
from ...predicate import literal
from ...predicate.in_array import make_in
from ...predicate.row_filter import decode
from ...predicate.tree import Compare, Node, all_of
from ...storage import open_source
from ...storage.spill import SpillFile, SpillRun
from ...util.arrow_values import keep, take, to_numpy
from ...util.lazy import late_module
from .lookup_session import LookupKeys

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc = late_module("pyarrow.compute")
    pq = late_module("pyarrow.parquet")

_FILE_BATCH = 1 << 17  # keys of a file that are read at a time
_INT64 = 1 << 63
_BUCKETS = 256  # of keys that are too many for one chunk


@dataclass(frozen=True)
class KeyChunk:
    """Distinct keys without nulls.

    Attributes
    ----------
    keys : a column for each column of the key.
    """

    keys: pa.Table

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.keys.column_names)

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    @cached_property
    def arrays(self) -> list[pa.Array]:
        """The values of each column, distinct."""
        return [_find_distinct(column) for column in self.keys.columns]

    @cached_property
    def node(self) -> Node:
        """The predicate that all rows of the keys meet, and of one column no others."""
        return all_of(make_in(name, array) for name, array in zip(self.columns, self.arrays, strict=True))

    @cached_property
    def bounds(self) -> Node | None:
        """A predicate that all rows of the keys meet, and that statistics decide; None if there is none."""
        limits: list[Node] = []
        for name, array in zip(self.columns, self.arrays, strict=True):
            if pa.types.is_integer(array.type) or pa.types.is_date32(array.type) or pa.types.is_string(array.type):
                least = pc.min_max(array)
                limits += [
                    Compare(name, operator, literal.from_python(least[bound]))
                    for operator, bound in ((">=", "min"), ("<=", "max"))
                ]
        return all_of(limits) if limits else None

    @cached_property
    def literals(self) -> tuple[tuple[object, ...], ...]:
        """For each column, its literal in each key."""
        return tuple(literal.from_collection(column) for column in self.keys.columns)

    def to_keys(self) -> LookupKeys:
        """Return the keys as literals."""
        return LookupKeys(self.columns, self.literals, is_single=False)


@dataclass
class KeyCounts:
    """How many keys a caller gives, where those that are null are left out and counted.

    Attributes
    ----------
    given, null : all keys so far, and those of which a value is null: nothing equals them.
    """

    given: int = 0
    null: int = 0

    def drop_nulls(self, table: pa.Table) -> pa.Table:
        """Count the keys of a table, and return those that are not null."""
        is_null = np.zeros(table.num_rows, np.bool_)
        for column in table.columns:
            if column.null_count:
                is_null |= to_numpy(_combine(column.is_null()))
        self._add(len(is_null), int(is_null.sum()))
        return keep(table, pa.array(~is_null)) if is_null.any() else table

    def drop_none(self, columns: str | Sequence[str], keys: Sequence[object]) -> list[object]:
        """Count the keys of a list, and return those that are not null."""
        if isinstance(columns, str):
            kept = [key for key in keys if key is not None]
        else:
            kept = [key for key in keys if not (isinstance(key, tuple | list) and None in key)]
        self._add(len(keys), len(keys) - len(kept))
        return kept

    def _add(self, given: int, null: int) -> None:
        self.given, self.null = self.given + given, self.null + null


def list_columns(columns: object) -> tuple[str, ...]:
    """Return the columns of a key, given as a name or a list of names.

    Raises
    ------
    PredicateError
        There is none, or one twice.
    ParquetBloomError
        It is something else.
    """
    given = [columns] if isinstance(columns, str) else columns
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise ParquetBloomError(f"the column of a key is a name, or a list of names, got {columns!r}")
    if not given:
        raise PredicateError("a key needs a column")
    if len({*given}) < len(given):
        raise PredicateError("a column is in the key twice", column=next(n for n in given if given.count(n) > 1))
    return tuple(given)


def iterate_chunks(
    columns: str | Sequence[str], keys: object, size: int, counts: KeyCounts | None = None
) -> Generator[KeyChunk, None, None]:
    """Yield the keys of a caller, each once.

    Keys that are more than one chunk are written to a temporary file, in parts by their hashes.

    Parameters
    ----------
    columns, keys : see `Dataset.locate`.
    size : the most keys of a chunk.
    counts : counts the keys, and leaves out those that are null; without it, these are errors.

    Raises
    ------
    PredicateError
        A key is null, is not of one value for each column, or cannot be compared.
    """
    names = list_columns(columns)
    held: list[pa.Table] = []
    number = 0
    with closing(_iterate_tables(columns, names, keys, counts)) as tables:
        for table in tables:
            held.append(_check(table))
            number += table.num_rows
            if number > 2 * size:
                held = [_make_distinct(held)]
                number = held[0].num_rows
                if number > size:
                    yield from _spill(held[0], tables, size)
                    return
    if number:
        distinct = _make_distinct(held)
        yield from _slice(distinct, size)


def _slice(table: pa.Table, size: int) -> Iterator[KeyChunk]:
    """Yield distinct keys in chunks of at most some size."""
    for start in range(0, table.num_rows, size):
        yield KeyChunk(table.slice(start, size))


def _iterate_tables(
    columns: str | Sequence[str], names: Sequence[str], keys: object, counts: KeyCounts | None
) -> Generator[pa.Table, None, None]:
    """Yield tables of the key's columns, as the caller gives them, or without nulls, which are counted."""
    if counts is None:
        yield from _iterate_given(columns, names, keys)
    elif isinstance(keys, list | set | frozenset) or (isinstance(keys, tuple) and isinstance(columns, str)):
        kept = counts.drop_none(columns, list(keys))
        yield from _iterate_given(columns, names, kept) if kept else ()
    elif isinstance(keys, Mapping) and all(isinstance(keys.get(name), list | tuple) for name in names):
        rows = list(zip(*(keys[name] for name in names), strict=True))
        kept = counts.drop_none(list(names), rows)
        listed = zip(*kept, strict=True) if kept else [()] * len(names)
        yield from _iterate_given(columns, names, dict(zip(names, map(list, listed), strict=True))) if kept else ()
    elif isinstance(columns, str) and type(keys).__module__.startswith("pandas.") and not _is_frame(keys):
        # Nulls of pandas are of several kinds.
        yield from (counts.drop_nulls(pa.table([chunk], [names[0]])) for chunk in chunks_of(keys))
    else:
        yield from map(counts.drop_nulls, _iterate_given(columns, names, keys))


def _iterate_given(columns: str | Sequence[str], names: Sequence[str], keys: object) -> Generator[pa.Table, None, None]:
    if isinstance(keys, os.PathLike):
        yield from _read_file(os.fspath(keys), names)
        return
    if isinstance(keys, pa.RecordBatchReader):
        for batch in keys:
            yield _select(pa.Table.from_batches([batch]), names)
        return
    if isinstance(keys, pa.Table | pa.RecordBatch):
        yield _select(pa.table(keys) if isinstance(keys, pa.RecordBatch) else keys, names)
        return
    if _is_frame(keys):
        yield from _read_frame(keys, names)
        return
    if isinstance(columns, str) and not isinstance(keys, Mapping):
        if isinstance(keys, pa.Scalar | str | bytes) or not hasattr(keys, "__len__"):
            keys = [literal.from_python(keys)]
        if isinstance(keys, pa.Array | pa.ChunkedArray | np.ndarray) or hasattr(keys, "__arrow_c_stream__"):
            yield from (pa.table([chunk], [names[0]]) for chunk in chunks_of(keys))
            return
    elif isinstance(keys, Mapping):
        _require_columns([*map(str, keys)], names, None)
        yield pa.table({name: _to_array(list(keys[name]), name) for name in names})
        return
    parsed = LookupKeys.parse(columns, keys)
    arrays = [_to_array(values, name) for name, values in zip(names, parsed.literals, strict=True)]
    yield pa.table(arrays, names=list(names))


def _to_array(values: Sequence[Any], column: str) -> pa.Array:
    """Return Python values as an array of the type that they have together."""
    problem = "its keys have no type in common"
    kinds = {type(value) for value in values}
    zoned = {value.tzinfo is not None for value in values if isinstance(value, dt.datetime)}
    if len(zoned) < 2 and (len(kinds) < 2 or kinds <= {int, float, decimal.Decimal}):
        wide = kinds == {int} and not all(-_INT64 <= value < _INT64 for value in values)
        try:
            return next(chunks_of(list(values), pa.decimal128(38) if wide else None))
        except ParquetBloomError as error:
            problem = f"{problem}: {error.problem}"
    raise PredicateError(f"{problem}; give an Arrow array of the column's type", column=column)


def _read_file(path: str, names: Sequence[str]) -> Iterator[pa.Table]:
    """Read the keys of a Parquet file."""
    with open_source(path) as source:
        try:
            file = pq.ParquetFile(source.counted_arrow_file(), pre_buffer=False)
            _require_columns(file.schema_arrow.names, names, path)
            for batch in file.iter_batches(_FILE_BATCH, columns=list(names)):
                yield pa.Table.from_batches([batch]).select(list(names))
        except (pa.ArrowException, OSError) as error:
            raise ParquetBloomError(f"its keys cannot be read: {first_line(error)}", path=path) from error


def _select(table: pa.Table, names: Sequence[str]) -> pa.Table:
    _require_columns(table.column_names, names, None)
    return table.select(list(names))


def _is_frame(keys: object) -> bool:
    """Return whether keys are a DataFrame of pandas, polars, DuckDB or others, or a scan: rows that Arrow can read."""
    return hasattr(keys, "__arrow_c_stream__") and (hasattr(keys, "columns") or not hasattr(keys, "__len__"))


def _read_frame(frame: object, names: Sequence[str]) -> Iterator[pa.Table]:
    try:
        stream = pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, TypeError) as error:
        raise PredicateError(f"the keys cannot be taken as Arrow data: {first_line(error)}") from error
    for batch in stream:
        yield _select(pa.Table.from_batches([batch]), names)


def _require_columns(found: Sequence[str], names: Sequence[str], path: str | None) -> None:
    for name in names:
        if found.count(name) != 1:
            number = "no" if name not in found else "more than one"
            listed = ", ".join(found[:8])
            raise PredicateError(f"the keys have {number} such column, but {listed}", path=path, column=name)


def _check(table: pa.Table) -> pa.Table:
    """Return keys in the form in which equal values have the same bytes."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise PredicateError("a key is null: nothing equals it, leave it out", column=name)
        array = plain(_combine(column)) if not isinstance(column.type, pa.UuidType) else _combine(column)
        if pa.types.is_null(array.type):
            array = array.cast(pa.int64())  # of no keys
        if pa.types.is_nested(array.type) or pa.types.is_duration(array.type):
            problem = f"a key is a {array.type}: keys are single values; name a leaf of a struct as 'a.b'"
            raise PredicateError(problem, column=name)
        if pa.types.is_floating(array.type):
            array = _unify_floats(array)
        if pa.types.is_decimal(array.type):
            array = decode(array)  # of a width that `unique` knows
        columns.append(array)
    return pa.table(columns, names=table.column_names)


def _unify_floats(array: pa.Array) -> pa.Array:
    """Return floats with one zero and one NaN."""
    wide = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    values = np.array(wide.to_numpy(zero_copy_only=False))
    values[values == 0] = 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values, wide.type)


def _combine(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    except pa.ArrowException as error:
        raise PredicateError(f"the keys do not fit into memory as one array: {first_line(error)}") from error


def _make_distinct(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the distinct keys of tables."""
    names = tables[0].column_names
    if len({table.schema.remove_metadata() for table in tables}) > 1:
        raise PredicateError("the keys are not all of one type", column=names[0])
    table = pa.concat_tables(tables)
    if len(names) == 1:
        return pa.table([_find_distinct(table.column(0))], names=names)
    hashes = _hash(table)
    order = np.argsort(hashes, kind="stable")
    sorted_hashes = hashes[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = sorted_hashes[1:] != sorted_hashes[:-1]
    if first.all():
        return table
    # Keys with the same hash are nearly always the same: only these are compared as Python objects.
    kept = set[int](order[first].tolist())
    same = np.flatnonzero(~first)
    seen: set[tuple[object, ...]] = set()
    groups = np.unique(sorted_hashes[same])
    members = order[np.isin(sorted_hashes, groups)]
    kept -= set(members.tolist())
    for number, row in zip(members.tolist(), take(table, members).to_pylist(), strict=True):
        key = tuple(row.values())
        if key not in seen:
            seen.add(key)
            kept.add(number)
    return take(table, np.array(sorted(kept), np.int64))


def _find_distinct(column: pa.ChunkedArray) -> pa.Array:
    array = _combine(column)
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, array.storage.unique())
    return array.unique()


def _hash(table: pa.Table) -> NDArray[np.uint64]:
    """Hash keys, equal ones alike."""
    total = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        array = _combine(column)
        hashes = hash_array(array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array)
        total = total * np.uint64(0x9E3779B97F4A7C15) + hashes
    return total


def _spill(first: pa.Table, tables: Iterator[pa.Table], size: int) -> Generator[KeyChunk, None, None]:
    """Yield keys in chunks by their hashes, once all of them are in a temporary file."""
    with SpillFile() as file:
        buckets: list[list[SpillRun]] = [[] for _ in range(_BUCKETS)]
        counts = np.zeros(_BUCKETS, np.int64)
        held, number = [first], first.num_rows
        schema = first.schema.remove_metadata()

        def write() -> None:
            table = _make_distinct(held)
            if table.schema.remove_metadata() != schema:
                raise PredicateError("the keys are not all of one type", column=schema.names[0])
            of_key = (_hash(table) >> np.uint64(56)).astype(np.intp)
            order = np.argsort(of_key, kind="stable")
            ends = np.searchsorted(of_key[order], np.arange(_BUCKETS + 1))
            table = take(table, order).combine_chunks()
            for bucket in range(_BUCKETS):
                count = int(ends[bucket + 1] - ends[bucket])
                if count:
                    part = _serialize(table.slice(ends[bucket], count))
                    buckets[bucket].append(file.put([part]))
                    counts[bucket] += count

        for table in tables:
            held.append(_check(table))
            number += table.num_rows
            if number >= size:
                write()
                held, number = [], 0
        if held:
            write()
        taken: list[int] = []
        for bucket in range(_BUCKETS):
            if taken and counts[[*taken, bucket]].sum() > size:
                yield from _read_buckets(file, buckets, taken, size)
                taken = []
            taken.append(bucket)
        yield from _read_buckets(file, buckets, taken, size)


def _read_buckets(
    file: SpillFile, buckets: Sequence[Sequence[SpillRun]], taken: Sequence[int], size: int
) -> Iterator[KeyChunk]:
    tables = [_deserialize(file.get(run)) for bucket in taken for run in buckets[bucket]]
    if tables:
        yield from _slice(_make_distinct(tables), size)


def _serialize(table: pa.Table) -> NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _deserialize(data: NDArray[np.uint8]) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
