"""Rows with odd partition values, and the ids in the files that a table is said to have."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.tables.table_snapshot import TableFiles

ODD = ["a b", "ä/ö", "x:y%41", "plain", "#1?", "it's"]


def rows(start: int, count: int = 12) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": [ODD[number % len(ODD)] for number in numbers]})


def ids_in(table_files: TableFiles) -> list[int]:
    """The ids in all files, each opened by the path that is given, which has the size that is given."""
    read: list[int] = []
    for path, size in table_files.files:
        assert os.path.getsize(path) == size
        with parquet_bloom.open(path) as file:
            assert file.source.size == size
        read += pq.ParquetFile(path).read(["id"])["id"].to_pylist()
    assert table_files.files == sorted(set(table_files.files))
    return sorted(read)
