"""Write rows of a lake, batch by batch: on standard output, or into a file that is put in place at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa

from ...storage import Rewrite, create
from ...util.plain_values import is_number, plain_rows
from .formats import RowWriter, Write, as_value
from .output import Output
from .row_files import open_batch_writer
from .table import Column

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
    columns = [
        Column(field.name, field.name, right=is_number(field.type), text=as_value, folds=True) for field in schema
    ]
    with nullcontext() if target is None else create(target, output.filesystem) as new:
        if new is not None and kind in ("parquet", "arrow"):
            with open_batch_writer(new, kind, schema) as into:
                yield into.add
        else:
            with output.records("rows", columns, None if new is None else _text_into(new), kind) as rows:
                rows.facts = facts
                yield lambda batch: _add(rows, batch, schema)
        if new is not None:
            new.commit()


def _text_into(new: Rewrite) -> Write:
    def write(text: str) -> None:
        new.write(text.encode("utf-8", "surrogateescape"))

    return write


def _add(rows: RowWriter, batch: pa.RecordBatch, schema: pa.Schema) -> None:
    rows.add_all(dict(zip(schema.names, row, strict=True)) for row in plain_rows(batch))
