"""Read whole columns of a row group with pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...file.reader import BloomFile
from ..model.schemas import open_parquet_file


class RowGroupReader:
    """pyarrow's reader of a file, opened when something is first read.

    pyarrow reads one column chunk after the other; those of an object are fetched concurrently before.

    Parameters
    ----------
    file : the file.
    open_reader : opens it with pyarrow.
    """

    def __init__(self, file: BloomFile, open_reader: Callable[[BloomFile], pq.ParquetFile] = open_parquet_file):
        self._file = file
        self._open_reader = open_reader

    @cached_property
    def parquet_file(self) -> pq.ParquetFile:
        """Pyarrow's reader."""
        return self._open_reader(self._file)

    def read_row_group(self, row_group: int, names: Sequence[str] | None) -> pa.Table:
        """Read some columns of a row group, given as `pyarrow.parquet` takes them; None for all."""
        self.prefetch(row_group, names)
        return self.parquet_file.read_row_group(row_group, None if names is None else list(names))

    def prefetch(self, row_group: int, names: Sequence[str] | None) -> None:
        """Fetch the chunks of some columns concurrently, if the file is remote."""
        if self._file.source.path is not None:
            return
        footer = self._file.footer
        group = footer.row_groups[row_group]
        first, count = int(group["first_chunk"]), int(group["num_columns"])
        if count != len(footer.leaves):  # malformed: pyarrow raises the error
            return
        requested = None if names is None else {*names}
        columns = [
            leaf.index
            for leaf in footer.leaves
            if requested is None
            or any(".".join(leaf.path[:depth]) in requested for depth in range(1, len(leaf.path) + 1))
        ]
        chunks = first + np.array(columns, np.intp)
        self._file.source.prefetch(footer.first_pages[chunks], footer.chunks["compressed_size"][chunks])
