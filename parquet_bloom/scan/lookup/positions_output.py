"""Write positions into a Parquet file: as they are, or in the forms in which tables say what rows are deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...storage import Rewrite, create
from ...storage.spill import SpillFile, SpillRun
from ...util.lazy import late_module

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = late_module("pyarrow.parquet")

PositionForm = Literal["parquet", "iceberg", "delta"]

_BATCH_ROWS = 1 << 17
_RUN_ROWS = 1 << 20

# Field ids that Iceberg's specification reserves for the columns of position delete files.
_FILE_PATH_ID, _POS_ID = 2147483546, 2147483545


def write_positions(
    reader: pa.RecordBatchReader,
    path: str | os.PathLike[str],
    form: PositionForm = "parquet",
    *,
    root: str | None = None,
    rename: Callable[[str], str] | None = None,
    filesystem: object | None = None,
) -> int:
    """Write positions into one Parquet file, which is there whole or not at all; return their number.

    Parameters
    ----------
    reader : as `Dataset.locate_batches` gives it.
    path, filesystem : the new file, as for `storage.create`; one that exists is replaced.
    form : "parquet": the columns of `reader`, in its order. "iceberg": a position delete file, with the columns
        `file_path` and `pos`, sorted by both. "delta": the columns `path`, as the log of a Delta table names files, and
        `row_index`, sorted by both.
    root : for "delta", the folder of the table, to which paths are relative; files outside of it keep theirs.
    rename : returns the name of a file in the table's metadata, given its path as listed; for Iceberg tables of local
        files whose metadata has URLs (`file:///...`), which are listed as paths. None if they are the same.

    Raises
    ------
    ParquetBloomError
        The form is not known, or "delta" without the root of a table; or the file cannot be written.
    """
    if form not in ("parquet", "iceberg", "delta"):
        raise ParquetBloomError(f"positions are written as 'parquet', 'iceberg' or 'delta', not as {form!r}")
    if form == "parquet":
        with create(path, filesystem) as new:
            return _write_batches(new, reader.schema, reader)
    if rename is None and form == "delta":
        if root is None:
            raise ParquetBloomError("positions in a Delta table need the folder of the table, root=")
        rename = _make_relative(root)
    schema = _ICEBERG if form == "iceberg" else _DELTA
    with SpillFile() as spill, create(path, filesystem) as new:
        return _write_batches(new, schema, _sort(reader, schema, rename or str, spill))


_ICEBERG = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POS_ID)}),
    ]
)
_DELTA = pa.schema([pa.field("path", pa.string(), False), pa.field("row_index", pa.int64(), False)])


def _write_batches(new: Rewrite, schema: pa.Schema, batches: Any) -> int:
    """Write batches as a Parquet file, and commit it."""
    number = 0
    with pq.ParquetWriter(pa.PythonFile(_Sink(new), mode="w"), schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            number += batch.num_rows
    new.commit()
    return number


class _Sink:
    """The new file as Arrow writes to it; its end is for the caller to decide."""

    closed = False

    def __init__(self, new: Rewrite):
        self._new = new

    def write(self, data: Any) -> int:
        return self._new.write(data)

    def tell(self) -> int:
        return self._new.tell()

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


def _sort(
    reader: pa.RecordBatchReader, schema: pa.Schema, rename: Callable[[str], str], spill: SpillFile
) -> Iterator[pa.RecordBatch]:
    """Yield paths and positions by path and position.

    Rows are held for each file as numbers alone; what is too much goes to a temporary file.
    """
    runs: dict[str, list[SpillRun]] = {}
    held: dict[str, list[NDArray[np.int64]]] = {}
    number = 0

    def write() -> None:
        for file, parts in held.items():
            runs.setdefault(file, []).append(spill.put([np.concatenate(parts)]))
        held.clear()

    for batch in reader:
        paths = batch.column("path").dictionary_encode()
        rows = np.asarray(batch.column("row"), np.int64)
        numbers = np.asarray(paths.indices)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(paths.dictionary) + 1))
        for which, file in enumerate(paths.dictionary.to_pylist()):
            held.setdefault(file, []).append(rows[order[ends[which] : ends[which + 1]]])
        number += batch.num_rows
        if number >= _RUN_ROWS:
            write()
            number = 0
    write()
    renamed = {rename(file): file for file in runs}
    if len(renamed) < len(runs):
        raise ParquetBloomError("two files have the same path in the table")
    # By bytes, as Iceberg compares texts, whatever Python's order of characters is.
    pending: list[tuple[str, NDArray[np.int64]]] = []
    size = 0
    for name in sorted(renamed, key=str.encode):
        positions = np.sort(np.concatenate([spill.get(run) for run in runs[renamed[name]]]))
        for start in range(0, len(positions), _BATCH_ROWS):
            part = positions[start : start + _BATCH_ROWS]
            pending.append((name, part))
            size += len(part)
            if size >= _BATCH_ROWS:
                yield _make_batch(pending, schema)
                pending, size = [], 0
    if pending:
        yield _make_batch(pending, schema)


def _make_batch(parts: Sequence[tuple[str, NDArray[np.int64]]], schema: pa.Schema) -> pa.RecordBatch:
    numbers = np.repeat(np.arange(len(parts)), [len(rows) for _, rows in parts])
    names = pa.array([name for name, _ in parts], pa.string()).take(pa.array(numbers))
    rows = pa.array(np.concatenate([rows for _, rows in parts]))
    return pa.RecordBatch.from_arrays([names, rows], schema=schema)


def _make_relative(root: str) -> Callable[[str], str]:
    """Return what turns the path of a file into the one that the log of a Delta table has: relative, and encoded."""
    prefix = root.rstrip("/") + "/"

    def rename(path: str) -> str:
        if not path.startswith(prefix):
            return path
        return quote(path[len(prefix) :], safe="/=~!$&'()*+,;:@-._")

    return rename
