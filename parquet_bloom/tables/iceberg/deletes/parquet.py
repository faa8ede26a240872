"""Read columns of delete files, which are found by their field ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ....errors import ParquetBloomError
from ..manifests.files import DeleteFile

_FIELD_ID = b"PARQUET:field_id"

ColumnPath = tuple[str, ...]


@contextmanager
def open_delete_file(file_io: Any, file: DeleteFile) -> Iterator[pq.ParquetFile]:
    """Open a Parquet delete file.

    Parameters
    ----------
    file_io : pyiceberg's FileIO: it has the settings of the store, and the credentials that a catalog gave.

    Raises
    ------
    ParquetBloomError
        The file is of another format, or encrypted.
    """
    if file.file_format != "PARQUET":
        raise ParquetBloomError(f"its delete file {file.path} is {file.file_format}, and only Parquet is supported")
    if file.encrypted:
        raise ParquetBloomError(f"its delete file {file.path} is encrypted, which is not supported")
    with (
        file_io.new_input(file.path).open() as stream,
        pq.ParquetFile(stream) as parquet,
    ):
        yield parquet


def find_by_id(schema: pa.Schema, field_id: int) -> ColumnPath | None:
    """Return the path of a column, or of a field of structs, by its field id; None if there is none."""
    pending: list[tuple[ColumnPath, pa.Field]] = [((each.name,), each) for each in schema]
    while pending:
        path, each = pending.pop(0)
        if (each.metadata or {}).get(_FIELD_ID) == str(field_id).encode():
            return path
        if pa.types.is_struct(each.type):
            pending.extend(((*path, part.name), part) for part in each.type)
    return None
