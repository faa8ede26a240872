"""Files of positions: each row names a data file and a row of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ....errors import ParquetBloomError
from ...locations import without_scheme
from ..manifests.files import DeleteFile
from .parquet import find_by_id, open_delete_file

_PATH, _POSITION = (2147483546, "file_path"), (2147483545, "pos")
_BATCH = 1 << 17  # rows
_OVERHEAD = 400  # bytes for each data file that is named


def read_positions(file_io: Any, file: DeleteFile) -> tuple[dict[str, Any], int]:
    """Return {path of a data file: its positions as a `pyroaring.BitMap64`}, and the size of that in bytes.

    Paths are without the scheme of local files, as some writers have it in the manifest only.

    Raises
    ------
    ParquetBloomError
        It is not such a file.
    Exception
        Of many kinds, from pyarrow and pyiceberg: the file cannot be read.
    """
    from pyroaring import BitMap64

    result: dict[str, Any] = {}
    with open_delete_file(file_io, file) as parquet:
        schema = parquet.schema_arrow
        columns = [
            (find_by_id(schema, number) or ((name,) if name in schema.names else None))
            for number, name in (_PATH, _POSITION)
        ]
        if None in columns or any(len(column) != 1 for column in columns if column):
            raise ParquetBloomError(f"its delete file {file.path} has no columns file_path and pos")
        (path_column,), (position_column,) = columns  # type: ignore[misc]
        for batch in parquet.iter_batches(_BATCH, columns=[path_column, position_column], use_threads=False):
            paths, positions = batch.column(path_column), batch.column(position_column)
            if paths.null_count or positions.null_count or not pa.types.is_integer(positions.type):
                raise ParquetBloomError(f"its delete file {file.path} has a row without a path or position")
            if not pa.types.is_dictionary(paths.type):
                paths = paths.dictionary_encode()
            rows = positions.cast(pa.int64()).to_numpy(zero_copy_only=False)
            if (rows < 0).any():
                raise ParquetBloomError(f"its delete file {file.path} has a negative position")
            codes = paths.indices.to_numpy(zero_copy_only=False)
            order = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
            names = paths.dictionary
            for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
                name = without_scheme(str(names[int(codes[order[begin]])].as_py()))
                chosen = np.ascontiguousarray(rows[order[begin:end]].astype(np.uint64))
                result.setdefault(name, BitMap64()).update(chosen)
    size = sum(_OVERHEAD + min(2 * len(each), len(each) // 8 + 8192) for each in result.values())
    return result, size
