"""Write rows into a file atomically, in the format given by its extension."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import click
import pyarrow as pa

from ...errors import ParquetBloomError, first_line
from ...storage import Rewrite, create
from ...util.plain_values import is_number, plain_rows
from .output import Output
from .row_formats import Column, as_value

SUFFIXES = {
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
    if suffix not in SUFFIXES:
        raise click.UsageError(f"{path!r} must end in one of {', '.join(SUFFIXES)}", click.get_current_context())
    return SUFFIXES[suffix]


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

    from ...file.write_table import TableSink

    sink = pa.PythonFile(TableSink(new), mode="w")
    open_writer = pq.ParquetWriter if format == "parquet" else pa.ipc.new_file
    try:
        with open_writer(sink, schema) as writer:
            batches = Batches(writer, schema)
            yield batches
            batches.flush()
    except pa.ArrowException as error:
        raise ParquetBloomError(f"cannot be written: {first_line(error)}", path=new.path) from error


_Take = Callable[[pa.RecordBatch], None]


@contextmanager
def open_rows(
    output: Output, target: str | None, kind: str | None, schema: pa.Schema, facts: dict[str, Any]
) -> Iterator[_Take]:
    """Open standard output, or a file that is put in place once all batches are written.

    Parameters
    ----------
    target, kind : the file, and its format by `row_files.parse_format`; None for standard output.
    facts : items of the JSON document besides the rows; may change until the end.
    """
    columns = [Column(field.name, field.name, right=is_number(field.type), text=as_value) for field in schema]
    with nullcontext() if target is None else create(target, output.filesystem) as new:
        if new is not None and kind in ("parquet", "arrow"):
            with open_batch_writer(new, kind, schema) as into:
                yield into.add
        else:

            def write(text: str, new: Any = new) -> None:
                new.write(text.encode("utf-8", "surrogateescape"))

            with output.rows("rows", columns, True, write if new is not None else None, kind) as rows:
                rows.facts = facts
                yield lambda batch: rows.add_all(dict(zip(schema.names, row, strict=True)) for row in plain_rows(batch))
        if new is not None:
            new.commit()
