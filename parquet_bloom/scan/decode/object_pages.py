"""The decoder "pages" of one row group of a file of any kind, such as an object in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.pages.sparse import RowGroupBatch, RowsOfGroups
from ...file.reader import BloomFile
from ...metadata.footer import Leaf
from ...metadata.page_match import Targets
from ..model.schemas import arrow_schema

_AT_ONCE = 1 << 14  # rows that are taken


class ObjectPages:
    """Pages of a row group; see `Pages`. What is read of them is fetched all at once, where that is worthwhile."""

    cost = (0, 0)  # is counted by the file

    def __init__(self, file: BloomFile, row_group: int):
        self._file = file
        self._batch = RowGroupBatch.of_file(file, arrow_schema(file), [row_group])
        self.grown: set[int] = set()  # the file remembers what was read

    def supports(self, names: Sequence[str]) -> bool:
        """Return whether rows of columns may be taken out of their pages."""
        return not self._batch.find_untakable(names)

    def search(
        self,
        name: str,
        targets: Targets,
        most: int,
        selections: Sequence[Sequence[tuple[int, int]] | None] | None = None,
    ) -> tuple[RowsOfGroups, NDArray[np.int32]] | None:
        """Find the selected rows with one of some values; None if whole columns are to be read."""
        selection = None if selections is None else selections[0]
        if not selection:
            return None
        rows = np.concatenate([np.arange(start, stop) for start, stop in selection])
        of_group = RowsOfGroups(np.array([len(rows)], np.int64), rows)
        if not self._batch.fetch_pages([name], of_group):
            return None
        try:
            return self._batch.search(name, targets, most, [selection], fetched=True)
        finally:
            self._remember()

    def search_lists(self, leaf: Leaf, targets: Targets, most: int) -> None:
        """Return None: lists are read whole."""

    def make_array(self, name: str, targets: Targets, numbers: NDArray[np.int32]) -> pa.Array:
        """Return the values of a column in the rows that `search` returned, by the numbers of their targets."""
        return self._batch.make_array(name, targets, numbers)

    def read(self, names: Sequence[str], rows: RowsOfGroups) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Read some rows of those columns of which that is worthwhile."""
        try:
            fetched = self._batch.fetch_pages(names, rows)
            parts = [
                self._batch.read(fetched, RowsOfGroups(np.array([len(part)], np.int64), part), fetched=True)
                for part in np.split(rows.rows, range(_AT_ONCE, len(rows.rows), _AT_ONCE))
            ]
            return {name: pa.chunked_array([part[name] for part in parts]) for name in fetched}
        finally:
            self._remember()

    def _remember(self) -> None:
        if self._batch.grown:
            self._file.remember()
            self._batch.grown.clear()
