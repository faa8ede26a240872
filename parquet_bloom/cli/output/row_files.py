"""Rows written into a file, in the format that its name's ending says; it is there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import ParquetBloomError, first_line
from ...file.write.write_table import Sink
from ...storage import Rewrite

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}

_ROWS, _BYTES = 1 << 17, 1 << 26  # of a row group: so much is kept in memory


def format_of(path: str) -> str:
    """The format that a name's ending stands for.

    Raises
    ------
    click.UsageError
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in FORMATS:
        raise click.UsageError(f"{path!r} must end in one of {', '.join(FORMATS)}", click.get_current_context())
    return FORMATS[suffix]


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...


class Batches:
    """Collects batches, which may hold a row each, to row groups that are worth it."""

    def __init__(self, writer: _Writer, schema: pa.Schema):
        self._writer = writer
        self._schema = schema
        self._held: list[pa.RecordBatch] = []
        self._num_rows = self._num_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._num_rows += batch.num_rows
        self._num_bytes += batch.nbytes
        if self._num_rows >= _ROWS or self._num_bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema).combine_chunks())
        self._held = []
        self._num_rows = self._num_bytes = 0


@contextmanager
def batches_into(new: Rewrite, format: str, schema: pa.Schema) -> Iterator[Batches]:
    """Take batches of a schema for a file that is being written, as "parquet" or "arrow".

    Raises
    ------
    ParquetBloomError
        The format cannot hold columns of such types.
    """
    sink = pa.PythonFile(Sink(new), mode="w")
    make = pq.ParquetWriter if format == "parquet" else pa.ipc.new_file
    try:
        with make(sink, schema) as writer:
            batches = Batches(writer, schema)
            yield batches
            batches.flush()
    except pa.ArrowException as error:
        raise ParquetBloomError(f"cannot be written: {first_line(error)}", path=new.path) from error
