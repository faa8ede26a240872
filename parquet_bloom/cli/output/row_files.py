"""Write rows into a file atomically, in the format given by its extension."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click
import pyarrow as pa

from ...errors import ParquetBloomError, first_line
from ...storage import Rewrite

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}

_ROWS, _BYTES = 1 << 17, 1 << 26  # maximum size of a row group, which is buffered in memory


def parse_format(path: str) -> str:
    """Return the format of a path by its extension.

    Raises
    ------
    click.UsageError
        The extension is unknown.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in FORMATS:
        raise click.UsageError(f"{path!r} must end in one of {', '.join(FORMATS)}", click.get_current_context())
    return FORMATS[suffix]


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...


class Batches:
    """Buffers batches, which may be small, into larger row groups."""

    def __init__(self, writer: _Writer, schema: pa.Schema):
        self._writer = writer
        self._schema = schema
        self._buffer: list[pa.RecordBatch] = []
        self._num_rows = self._num_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._buffer.append(batch)
        self._num_rows += batch.num_rows
        self._num_bytes += batch.nbytes
        if self._num_rows >= _ROWS or self._num_bytes >= _BYTES:
            self.flush()

    def flush(self) -> None:
        if self._buffer:
            self._writer.write_table(pa.Table.from_batches(self._buffer, self._schema).combine_chunks())
        self._buffer = []
        self._num_rows = self._num_bytes = 0


@contextmanager
def open_batch_writer(new: Rewrite, format: str, schema: pa.Schema) -> Iterator[Batches]:
    """Open a writer of batches into a file, in format "parquet" or "arrow".

    Raises
    ------
    ParquetBloomError
        The format does not support the columns' types.
    """
    import pyarrow.parquet as pq

    from ...file.write.write_table import Sink

    sink = pa.PythonFile(Sink(new), mode="w")
    open_writer = pq.ParquetWriter if format == "parquet" else pa.ipc.new_file
    try:
        with open_writer(sink, schema) as writer:
            batches = Batches(writer, schema)
            yield batches
            batches.flush()
    except pa.ArrowException as error:
        raise ParquetBloomError(f"cannot be written: {first_line(error)}", path=new.path) from error
