"""The values that occur in column chunks, as hashes: from the pages as they are stored, and as pyarrow decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from parquet_bloom.core.hash.xxh64 import hash_keys
from parquet_bloom.errors import ParquetBloomError, UnreadableColumnError, UnusualPageError
from parquet_bloom.file.bloom_file import BloomFile
from parquet_bloom.file.column_reader import ColumnReader
from parquet_bloom.hashing.arrow_keys import keys_of
from parquet_bloom.storage import open_source

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
    with patch.object(ColumnReader, "_scan", leave_to_pyarrow):
        return hash_all(reader.read_occurring(row_group, chunk))


def stored(reader: ColumnReader, row_group: int) -> Outcome | None:
    """What the pages have as they are stored; None where they are left to pyarrow."""
    with patch.object(ColumnReader, "_decode", _leave):
        try:
            return hash_all(reader.read_occurring(row_group))
        except _LeftToArrow:
            return None


class _LeftToArrow(ParquetBloomError):
    pass


def leave_to_pyarrow(*_: Any) -> Iterator[pa.Array]:
    raise UnusualPageError("left to pyarrow")


def _leave(*_: Any) -> Iterator[pa.Array]:
    raise _LeftToArrow("left to pyarrow")
