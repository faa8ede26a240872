"""The values that occur in column chunks, as hashes: from the pages as they are stored, and as pyarrow decodes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from support.writers.peers import VALUES

from parquet_bloom.core.hash.xxh64 import hash_keys
from parquet_bloom.errors import ParquetBloomError, UnreadableColumnError
from parquet_bloom.file.pages import chunk_values
from parquet_bloom.file.reader import BloomFile
from parquet_bloom.file.values import ColumnReader
from parquet_bloom.hashing.arrow import keys_of
from parquet_bloom.storage import open_source

# Nested already, or what writers cannot nest; `_ns`: old versions of the format have no nanoseconds.
UNNESTED = {"li", "ma", "ls", "st", "nothing", "dict_str", "view_str"}

Outcome = set[int] | str
"""Hashes, or the text of the error."""


@contextmanager
def open_readers(path: Path) -> Iterator[dict[str, ColumnReader]]:
    """Open a file; yield the readers of its columns that have hashes, by dotted path."""
    with open_source(path) as source:
        file = BloomFile(source)
        leaves = [leaf for leaf in file.leaves if leaf.physical != "BOOLEAN"]
        yield {leaf.name: ColumnReader(source, file.footer, leaf) for leaf in leaves}


def hash_all(batches: Any) -> Outcome:
    hashes: set[int] = set()
    try:
        for values in batches:
            hashes.update(hash_keys(keys_of(values)).tolist())
    except UnreadableColumnError as error:
        return str(error)
    return hashes


def decoded(reader: ColumnReader, row_group: int, chunk: Any = None) -> Outcome:
    """What pyarrow decodes."""
    with patch.object(ColumnReader, "_stored_chunk", lambda *_: None):
        return hash_all(reader.read_occurring(row_group, chunk))


def stored(reader: ColumnReader, row_group: int) -> Outcome | None:
    """What the pages have as they are stored; None where they are left to pyarrow. Pages may be of any size."""
    with patch.object(ColumnReader, "batches", _leave), patch.object(ColumnReader, "_read_dictionary", _leave):
        try:
            return hash_all(reader.read_occurring(row_group))
        except _LeftToArrow:
            return None


class _LeftToArrow(ParquetBloomError):
    pass


def _leave(*_: Any) -> Iterator[pa.Array]:
    raise _LeftToArrow("left to pyarrow")


@contextmanager
def small_pages() -> Iterator[None]:
    """Let the smallest pages be read as they are stored."""
    with patch.object(chunk_values, "LEAST_VALUES", 1):
        yield


def draw_table(rng: random.Random, kinds: list[str], rows: int) -> pa.Table:
    """Draw a table: all kinds of nulls, runs, few and many distinct values, lists and structs."""
    columns: dict[str, pa.Array] = {}
    for name in rng.sample(kinds, rng.randint(1, min(5, len(kinds)))):
        kind = VALUES[name]
        pool = [kind.draw(rng) for _ in range(rng.choice([1, 3, 40, rows]))]
        pool += [value for value in kind.always if value is not None and rng.random() < 0.3]
        nulls = rng.choice([0, 0, 0.01, 0.5, 0.99, 1])
        run = rng.choice([1, 1, 7, 900])
        values: list[Any] = []
        while len(values) < rows:
            values += [None if rng.random() < nulls else rng.choice(pool)] * rng.randint(1, run)
        columns[name] = pa.array(values[:rows], kind.arrow)
        if name not in UNNESTED and not name.endswith("ns") and rng.random() < 0.3:
            column = rng.choice([_listed, _nested])(rng, columns[name])
            columns[name] = pa.concat_arrays([column, pa.nulls(max(0, rows - len(column)), column.type)]).slice(0, rows)
    return pa.table(columns)


def _listed(rng: random.Random, values: pa.Array) -> pa.Array:
    """Cut values into lists, some of them empty or null."""
    offsets: list[int | None] = [0]
    last = 0
    while last < len(values):
        last = min(len(values), last + rng.choice([0, 0, 1, 1, 2, 30]))
        offsets.append(last)
    starts = [None if rng.random() < 0.1 else start for start in offsets[:-1]]
    return pa.ListArray.from_arrays(pa.array([*starts, last], pa.int32()), values)


def _nested(rng: random.Random, values: pa.Array) -> pa.Array:
    """Put values into structs in structs, some of them null."""
    inner = pa.StructArray.from_arrays([values], ["a"], mask=_mask(rng, len(values)))
    return pa.StructArray.from_arrays([inner], ["b"], mask=_mask(rng, len(values)))


def _mask(rng: random.Random, length: int) -> pa.Array:
    share = rng.choice([0, 0.2])
    return pa.array([rng.random() < share for _ in range(length)], pa.bool_())
