"""The decoder "pages" of one row group of a file that is not read by compiled code, such as an object in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...file.pages.reader import RowGroupPages
from ...file.pages.sparse import RowsOfGroups
from ...file.reader import BloomFile
from ...metadata.footer import Leaf
from ...metadata.page_match import Targets
from ..model.row_selection import to_positions, to_row_ranges
from ..model.schemas import arrow_schema

_FEW_TARGETS = 8  # that each value of selected pages is compared with


class ObjectPages:
    """Pages of a row group; see `Pages`."""

    cost = (0, 0)  # is counted by the file

    def __init__(self, file: BloomFile, row_group: int):
        self.grown: set[int] = set()
        self._pages = RowGroupPages(file, arrow_schema(file), row_group)

    def supports(self, names: Sequence[str]) -> bool:
        """Return whether rows of columns may be taken out of their pages."""
        return all(map(self._pages.is_flat, names))

    def search(
        self,
        name: str,
        targets: Targets,
        most: int,
        selections: Sequence[Sequence[tuple[int, int]] | None] | None = None,
    ) -> tuple[RowsOfGroups, NDArray[np.int32]] | None:
        """Find the selected rows with one of some values; None if whole columns are to be read."""
        selection = None if selections is None else selections[0]
        if selection is None or len(targets) > _FEW_TARGETS:
            return None
        wanted = [targets[number] for number in range(len(targets))]
        rows = to_positions(to_row_ranges(selection))
        found = self._pages.find_equal(name, rows, wanted)
        if found is None:
            return None
        positions, which = found
        return RowsOfGroups(np.array([len(positions)], np.int64), positions), which

    def search_lists(self, leaf: Leaf, targets: Targets, most: int) -> None:
        """Return None: lists are read whole."""

    def make_array(self, name: str, targets: Targets, numbers: NDArray[np.int32]) -> pa.Array:
        """Return the values of a column in the rows that `search` returned, by the numbers of their targets."""
        return self._pages.make_array(name, [targets[number] for number in numbers.tolist()])

    def read(self, names: Sequence[str], rows: RowsOfGroups) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Read some rows of those columns of which that is worthwhile."""
        return self._pages.read(names, rows.rows)
