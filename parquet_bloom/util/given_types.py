"""Types of what callers give, for annotations alone: nothing imports this module until `parquet_bloom.types` is asked.

What comes from other libraries is told by a method that nothing else has. Their own classes would have to be imported,
and those of a library without types are all the same to a type checker: it would take any object for them.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import numpy as np


class ArrowFileSystem(Protocol):
    """A file system of `pyarrow.fs`."""

    def open_input_file(self, path: str, /) -> object: ...


class FsspecFileSystem(Protocol):
    """A file system of fsspec."""

    def cat_file(self, path: str, /) -> object: ...


class ObstoreStore(Protocol):
    """A store of obstore."""

    def head(self, path: str, /) -> object: ...


class StoresByUrl(Protocol):
    """The stores of URLs, under some settings: what `storage_options` become."""

    @property
    def is_one_store(self) -> bool: ...


class ArrowScalar(Protocol):
    """A scalar of pyarrow."""

    def as_py(self) -> object: ...


class ArrowArray(Protocol):
    """An array, column or record batch of pyarrow, polars, nanoarrow and others."""

    def __arrow_c_array__(self, requested_schema: Any = None, /) -> object: ...


class ArrowStream(Protocol):
    """A chunked array, table, batch reader, Series or data frame of pyarrow, polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: Any = None, /) -> object: ...


class ArrowExpression(Protocol):
    """An expression of `pyarrow.compute`."""

    def to_substrait(self, schema: Any, /) -> object: ...


class PredicateTree(Protocol):
    """A predicate that is parsed already."""

    def _key(self) -> tuple[object, ...]: ...


class SnapshotTable(Protocol):
    """What `parquet_bloom.delta` and `parquet_bloom.iceberg` return."""

    def read_snapshot(self) -> object: ...


class DeltalakeTable(Protocol):
    """A table of deltalake."""

    def file_uris(self) -> object: ...


class PyicebergTable(Protocol):
    """A table of pyiceberg."""

    @property
    def metadata_location(self) -> str: ...


class TableFileList(Protocol):
    """What `parquet_bloom.tables.delta_files` and `iceberg_files` return."""

    def as_table(self) -> object: ...


class OpenIndex(Protocol):
    """A `LakeIndex`."""

    def snapshot(self) -> object: ...

    def stats(self) -> object: ...


FilePath: TypeAlias = str | os.PathLike[str]
"""A local path, or a URL of an object store (`s3://`, `gs://`, `az://`, `abfss://`) or a web server (`https://`)."""

Paths: TypeAlias = FilePath | Iterable[FilePath]
"""A file, a folder, a pattern, or a list of them."""

FileSystem: TypeAlias = ArrowFileSystem | FsspecFileSystem | ObstoreStore | StoresByUrl
"""A file system of pyarrow or fsspec, or a store of obstore, whose keys the paths then are."""

TableObject: TypeAlias = SnapshotTable | DeltalakeTable | PyicebergTable
"""A Delta or Iceberg table: what `delta` or `iceberg` returns, or a table of deltalake or pyiceberg."""

TableSource: TypeAlias = TableObject | FilePath | tuple[str, ...]
"""An open table, its folder or metadata file, or its name in a catalog."""

Lake: TypeAlias = Paths | TableObject | TableFileList | Mapping[str, FilePath | bool]
"""Files, or a table: an open one, its folder, its list of files, or `{"delta": path}` or `{"iceberg": path}`."""

DatasetSource: TypeAlias = Paths | TableObject | OpenIndex
"""Files, a table, or a `LakeIndex` for its live files."""

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | bytearray
    | memoryview
    | Decimal
    | dt.date
    | dt.time
    | dt.timedelta
    | UUID
    | np.generic
    | ArrowScalar
)
"""One value that a column can have: of Python, NumPy (and so pandas) or Arrow. Dates include `datetime`."""

Values: TypeAlias = Iterable[Value | tuple[Value | None, ...] | None] | ArrowArray | ArrowStream
"""Many values: a list or other collection, an Arrow or NumPy array, a Series; of several columns a list of tuples."""

Rows: TypeAlias = ArrowArray | ArrowStream
"""Rows with named columns: an Arrow table, record batch or stream, or a data frame of polars, pandas and others."""

RowKeys: TypeAlias = Value | Values | Rows | Mapping[str, Sequence[Value | None]]
"""The keys of rows: one value or many; of several columns a tuple, a list of tuples, or rows with these columns."""

# A list of values of several types is a list of `object` to a type checker.
Condition: TypeAlias = tuple[str, str, object]
"""Column, operator and `Value`, or `Values` for "in": `("user_id", "==", 42)`, `("day", "not in", ["a", "b"])`."""

Predicate: TypeAlias = str | Condition | Sequence[Condition | Sequence[Condition]] | ArrowExpression | PredicateTree
"""SQL text, pyarrow's `filters=` lists (of conditions, or of lists of them), a pyarrow expression, or a tree."""
