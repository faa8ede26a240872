"""Columns of a row group that are read whole, by pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...file.reader import BloomFile
from ..model.schemas import reader_of


class WholeReader:
    """pyarrow's reader of a file, opened when something is first read.

    pyarrow asks for one column chunk after the other. Of an object all of them are fetched side by side before.

    Parameters
    ----------
    file : the file.
    open_reader : opens pyarrow's reader of it.
    """

    def __init__(self, file: BloomFile, open_reader: Callable[[BloomFile], pq.ParquetFile] = reader_of):
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
        """Fetch what reading these columns will ask for, where that is waited for."""
        if self._file.source.path is not None:
            return
        footer = self._file.footer
        group = footer.row_groups[row_group]
        first, count = int(group["first_chunk"]), int(group["num_columns"])
        if count != len(footer.leaves):  # pyarrow says what is wrong
            return
        wanted = None if names is None else {*names}
        chosen = [
            leaf.index
            for leaf in footer.leaves
            if wanted is None or any(".".join(leaf.path[:depth]) in wanted for depth in range(1, len(leaf.path) + 1))
        ]
        numbers = first + np.array(chosen, np.intp)
        self._file.source.prefetch(footer.first_pages[numbers], footer.chunks["compressed_size"][numbers])
