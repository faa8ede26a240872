"""Write a zone index atomically: the table of zones in a Parquet or an Arrow container."""

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
_ZONES_PER_BATCH = 1 << 14  # pyarrow's maximum number of rows of a page

Reader = Callable[[int, int], NDArray[np.uint8]]
"""Returns the bytes of the filters of consecutive zones, given the first one and their number."""


def zones_per_batch(filter_bytes: int) -> int:
    """Return the number of zones of each row group or batch except the last."""
    return max(1, min(_ZONES_PER_BATCH, _BYTES_PER_BATCH // filter_bytes))


class _Sink:
    """The file object that pyarrow writes into."""

    closed = False

    def __init__(self, new: Rewrite):
        self._new = new
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        if self.error is not None:  # pyarrow's writers write their footers even after an error
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
    """Write a zone index into a new file.

    Parameters
    ----------
    new, container : the file, and its container, "parquet" or "arrow".
    zones, filter_bytes, read : the zones, the size of all filters, and the function that reads them.
    metadata : metadata of the schema.

    Raises
    ------
    StorageError
        The file cannot be written.
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
        part = zones[start : start + most]
        offsets = np.arange(len(part) + 1, dtype=np.int32) * np.int32(filter_bytes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(read(start, len(part)))]
        filters = pa.Array.from_buffers(pa.binary(), len(part), buffers)
        numbers = [pa.array(np.ascontiguousarray(part[name])) for name in NUMBERS]
        yield pa.RecordBatch.from_arrays([*numbers, filters], schema=schema)


def _write_parquet(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch], before_end: Callable[[], object]
) -> None:
    options: dict[str, Any] = {
        "compression": {**dict.fromkeys(NUMBERS, "zstd"), FILTERS: "none"},
        "use_dictionary": False,
        "write_statistics": list(NUMBERS),  # bounds of filters are meaningless and long
        "store_schema": False,  # Parquet's types suffice, and the metadata would be stored twice
        "data_page_version": "1.0",
        "data_page_size": (1 << 31) - 1,  # one page of filters per row group: readers rely on that
        "write_batch_size": _ZONES_PER_BATCH,
    }
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=batch.num_rows)  # written when it returns
        before_end()
        writer.add_key_value_metadata(schema.metadata)  # pyarrow omits it without the stored schema


def _write_arrow(
    sink: pa.NativeFile, schema: pa.Schema, batches: Iterator[pa.RecordBatch], before_end: Callable[[], object]
) -> None:
    with pa.ipc.new_file(sink, schema) as writer:
        has_batches = False
        for batch in batches:
            writer.write_batch(batch)
            has_batches = True
        if has_batches:  # otherwise not even the first bytes of the file are written yet
            before_end()
