"""Write positions into a Parquet file: as they are, or in the forms in which tables say what rows are deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ConcurrentChangeError, ParquetBloomError
from ..storage import Rewrite, create
from ..storage.spill import SpillFile, SpillRun
from ..util.lazy import late_module
from .open_table import find_table

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from ..util.given_types import FilePath, FileSystem, TableObject
else:
    pq = late_module("pyarrow.parquet")

PositionForm = Literal["parquet", "iceberg", "delta"]

_BATCH_ROWS = 1 << 17
_RUN_ROWS = 1 << 20

# Field ids that Iceberg's specification reserves for the columns of position delete files.
_FILE_PATH_ID, _POS_ID = 2147483546, 2147483545


def write_positions(
    positions: pa.RecordBatchReader | pa.Table,
    path: str | os.PathLike[str],
    form: PositionForm = "parquet",
    *,
    table: TableObject | FilePath | None = None,
    filesystem: FileSystem | None = None,
) -> int:
    """Write positions of rows into one Parquet file, which is there whole or not at all.

    Parameters
    ----------
    positions : what `Dataset.locate_batches` or `Dataset.locate` returns.
    path, filesystem : the new file, as for `parquet_bloom.embed`; one that exists is replaced.
    form : "parquet": the columns of `positions`, in their order. "iceberg": a position delete file, with the columns
        `file_path` and `pos`, sorted by both. "delta": the columns `path`, as the log of the table names its files, and
        `row_index`, sorted by both.
    table : the table whose files these are: what `parquet_bloom.delta` or `parquet_bloom.iceberg` returns, or a table's
        folder. Files then have the names of its metadata. It is needed for "delta"; for "iceberg" without it files have
        the paths that they were listed by.

    Returns
    -------
    int
        The number of positions.

    Raises
    ------
    ConcurrentChangeError
        The table has lost a file since it was listed.
    ParquetBloomError
        The form is unknown, or is that of another kind of table; or the file cannot be written.

    Examples
    --------
    >>> from parquet_bloom import tables
    >>> positions = parquet_bloom.dataset("lake").locate_batches("id", [1401181143])
    >>> tables.write_positions(positions, "positions.parquet")
    1
    """
    if form not in ("parquet", "iceberg", "delta"):
        raise ParquetBloomError(f"positions are written as 'parquet', 'iceberg' or 'delta', not as {form!r}")
    reader = positions.to_reader() if isinstance(positions, pa.Table) else positions
    if form == "parquet":
        with create(path, filesystem) as new:
            return _write_batches(new, reader.schema, reader)
    opened = None if table is None else find_table(table, None)
    if opened is None and (table is not None or form == "delta"):
        problem = "needs the table: give table=" if table is None else f"needs a table, and {table!r} is not one"
        raise ParquetBloomError(f"the form {form!r} {problem}")
    if opened is not None and opened.kind != form:
        raise ParquetBloomError(f"the form {form!r} is not for a table of the format {opened.kind!r}")

    def find_names() -> Callable[[str], str]:
        if opened is None:
            return str
        names = opened.read_snapshot().name_files()  # now that the files are known
        return lambda file: _find_name(names, file)

    schema = ICEBERG_POSITIONS if form == "iceberg" else _DELTA
    with SpillFile() as spill, create(path, filesystem) as new:
        return _write_batches(new, schema, _sort(reader, schema, find_names, spill))


def _find_name(names: Mapping[str, str], file: str) -> str:
    if file not in names:
        raise ConcurrentChangeError("it is no longer a file of the table: locate the keys again", path=file)
    return names[file]


ICEBERG_POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POS_ID)}),
    ]
)
_DELTA = pa.schema([pa.field("path", pa.string(), False), pa.field("row_index", pa.int64(), False)])


def _write_batches(new: Rewrite, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches as a Parquet file, and commit it."""
    number = 0
    with pq.ParquetWriter(pa.PythonFile(_PositionSink(new), mode="w"), schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            number += batch.num_rows
    new.commit()
    return number


class _PositionSink:
    """The new file as Arrow writes to it; its end is for the caller to decide."""

    closed = False

    def __init__(self, new: Rewrite):
        self._new = new

    def write(self, data: bytes | memoryview) -> int:
        return self._new.write(data)

    def tell(self) -> int:
        return self._new.tell()

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True


def _sort(
    reader: pa.RecordBatchReader, schema: pa.Schema, find_names: Callable[[], Callable[[str], str]], spill: SpillFile
) -> Iterator[pa.RecordBatch]:
    """Yield names and positions by name and position.

    Rows are held for each file as numbers alone; what is too much goes to a temporary file.

    Parameters
    ----------
    find_names : called at the end of `reader`; returns what gives the name of a file.
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
    rename = find_names()
    renamed = {rename(file): file for file in runs}
    if len(renamed) < len(runs):
        raise ParquetBloomError("two files have the same path in the table")
    # By bytes, as Iceberg compares texts, whatever Python's order of characters is.
    names = sorted(renamed, key=str.encode)
    yield from make_batches(
        ((name, np.sort(np.concatenate([spill.get(run) for run in runs[renamed[name]]]))) for name in names), schema
    )


def make_batches(parts: Iterable[tuple[str, NDArray[np.int64]]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches of names and positions; parts are a name and its positions each."""
    pending: list[tuple[str, NDArray[np.int64]]] = []
    size = 0
    for name, positions in parts:
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
