"""Zone indexes as files: the table of zones in a Parquet or an Arrow container, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..storage import Rewrite
from .packed import make_seal, pack_metadata
from .schema import FILTERS, NUMBERS, SCHEMA

_BYTES_PER_BATCH = 1 << 25  # of filters, in a row group or batch
_ZONES_PER_BATCH = 1 << 14  # a page of no more rows than pyarrow makes one of

Reader = Callable[[int, int], NDArray[np.uint8]]
"""Gives the filters of zones that follow one another, from the first on: their bytes."""


def zones_per_batch(filter_bytes: int) -> int:
    """How many zones are in a row group or batch, unless it is the last."""
    return max(1, min(_ZONES_PER_BATCH, _BYTES_PER_BATCH // filter_bytes))


class _Sink:
    """What pyarrow writes into."""

    closed = False

    def __init__(self, new: Rewrite):
        self._new = new
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        if self.error is not None:  # pyarrow's writers write their ends even so
            return len(data)
        try:
            return self._new.write(data)
        except BaseException as error:
            self.error = error
            raise

    def tell(self) -> int:
        return self._new.tell()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def write_index(
    new: Rewrite,
    container: str,
    zones: NDArray[np.void],
    filter_bytes: int,
    read: Reader,
    metadata: Mapping[bytes, bytes],
) -> None:
    """Write a zone index into a file that is begun.

    Parameters
    ----------
    new, container : the file, and whether it is "parquet" or "arrow".
    zones, filter_bytes, read : what it holds; all filters are of one size.
    metadata : of the schema.

    Raises
    ------
    StorageError
        It cannot be written.
    """
    seal = make_seal(metadata)
    schema = SCHEMA.with_metadata(pack_metadata(metadata, seal))
    batch = zones_per_batch(filter_bytes)
    write = _write_parquet if container == "parquet" else _write_arrow
    batches = _make_batches(schema, zones, filter_bytes, read, batch)
    sink = _Sink(new)
    try:
        with pa.PythonFile(sink, mode="w") as opened:
            write(opened, schema, batches, lambda: sink.write(seal))
    except BaseException:
        if sink.error is not None:
            raise sink.error from None
        raise


def _make_batches(
    schema: pa.Schema,
    zones: NDArray[np.void],
    filter_bytes: int,
    read: Reader,
    most: int,
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(zones), most):
        some = zones[start : start + most]
        offsets = np.arange(len(some) + 1, dtype=np.int32) * np.int32(filter_bytes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(read(start, len(some)))]
        filters = pa.Array.from_buffers(pa.binary(), len(some), buffers)
        numbers = [pa.array(np.ascontiguousarray(some[name])) for name in NUMBERS]
        yield pa.RecordBatch.from_arrays([*numbers, filters], schema=schema)


def _write_parquet(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch], before_end: Callable[[], object]
) -> None:
    options: dict[str, Any] = {
        "compression": {**dict.fromkeys(NUMBERS, "zstd"), FILTERS: "none"},
        "use_dictionary": False,
        "write_statistics": list(NUMBERS),  # bounds of filters mean nothing, and are long
        "store_schema": False,  # Parquet's own types say all of it, and the metadata would be there twice
        "data_page_version": "1.0",
        "data_page_size": (1 << 31) - 1,  # a row group's filters are one page: readers go by that
        "write_batch_size": _ZONES_PER_BATCH,
    }
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)  # written when it returns
        before_end()
        writer.add_key_value_metadata(schema.metadata)  # without the stored schema pyarrow leaves it out


def _write_arrow(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch], before_end: Callable[[], object]
) -> None:
    with pa.ipc.new_file(sink, schema) as writer:
        begun = False
        for batch in batches:
            writer.write_batch(batch)
            begun = True
        if begun:  # else not even the file's first bytes are written yet
            before_end()
