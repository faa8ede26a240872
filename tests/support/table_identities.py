"""Which stored columns of a file a table's columns are."""

from __future__ import annotations

from pathlib import Path

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.file.file_columns import find_leaf
from parquet_bloom.tables.names_in_files import identify_column
from parquet_bloom.tables.table_footers import show_as_table
from parquet_bloom.tables.table_snapshot import TableSnapshot


def find_identities(snapshot: TableSnapshot | None, path: Path | str, *names: str) -> dict[str, str]:
    """Return {column of the table: identity of the stored column}, or what is wrong with it."""
    assert snapshot is not None
    assert snapshot.columns is not None
    result = {}
    with parquet_bloom.open(path) as file:
        shown = show_as_table(file, snapshot.columns)
        for name in names:
            try:
                leaf = find_leaf(shown.leaves, name, str(path))
                result[name] = identify_column(shown.footer, leaf, name, snapshot.columns)
            except ParquetBloomError as error:
                result[name] = error.problem
    return result
