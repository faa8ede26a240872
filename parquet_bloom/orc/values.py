"""Read the values of an ORC file's columns by row group, with pyarrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import ParquetBloomError, UnreadableColumnError
from ..predicate.statistics import PruningStatistics
from .metadata.schema import OrcLeaf
from .reader import OrcFile

_MAX_NANOS = (1 << 63) - 1


class StripeValues:
    """Reader of one column of one stripe at a time, which caches the last one.

    Parameters
    ----------
    file : the file.

    Raises
    ------
    ParquetBloomError
        pyarrow cannot read ORC files.
    """

    def __init__(self, file: OrcFile):
        try:
            from pyarrow.orc import ORCFile
        except ImportError:  # some builds of pyarrow lack it
            raise ParquetBloomError("this build of pyarrow does not support ORC files", path=file.path) from None
        self._reader = ORCFile
        self._file = file
        self._last: tuple[tuple[int, str], pa.Array] | None = None

    def of(self, leaf: OrcLeaf, stripe: int, first_row: int, num_rows: int) -> pa.Array:
        """Return the values of a column in some rows of a stripe; elements of lists are concatenated.

        Raises
        ------
        UnreadableColumnError
            pyarrow cannot read them, or returns another number of rows.
        """
        try:
            return _descend(self._read_column(leaf, stripe).slice(first_row, num_rows), leaf.path[1:])
        except (pa.ArrowException, OSError) as error:
            raise self._make_error(leaf, str(error)) from error

    def _read_column(self, leaf: OrcLeaf, stripe: int) -> pa.Array:
        top = leaf.path[0] if leaf.path else ""
        if self._last is None or self._last[0] != (stripe, top):
            names = None if "." in top else [top]  # pyarrow would take a dot in a name for a path
            self._file.require_readable(stripe, names)
            with self._file.source.arrow_file() as opened:
                file = self._reader(opened)
                batch = file.read_stripe(stripe, columns=names)
            names = batch.schema.names
            expected = self._file.stripes[stripe].num_rows
            if names.count(top) != 1 or batch.num_rows != expected:
                raise self._make_error(leaf, f"{batch.num_rows} rows of {names.count(top)} columns in stripe {stripe}")
            self._last = (stripe, top), batch.column(names.index(top))
        return self._last[1]

    def _make_error(self, leaf: OrcLeaf, reason: str) -> UnreadableColumnError:
        problem = f"cannot be read: {reason.splitlines()[0] if reason else 'no reason given'}"
        return UnreadableColumnError(problem, path=self._file.path, column=leaf.name)


def _descend(array: pa.Array, path: Sequence[str]) -> pa.Array:
    """Return the values of a leaf below a column."""
    for name in path:
        if pa.types.is_struct(array.type):
            array = array.flatten()[array.type.get_field_index(name)]
        elif pa.types.is_map(array.type):
            start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
            array = (array.keys if name == "key" else array.items).slice(start, end - start)
        elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            array = array.flatten()
        else:
            raise pa.ArrowNotImplementedError(f"values of {array.type} have no children")
    return array


def fits_nanoseconds(statistics: PruningStatistics) -> bool:
    """Return whether timestamps with these statistics certainly fit in 64-bit nanoseconds, as pyarrow reads them."""
    if statistics.has_values is False:
        return True
    if not isinstance(statistics.low, int) or not isinstance(statistics.high, int):
        return False
    return statistics.low >= -_MAX_NANOS and statistics.high <= _MAX_NANOS
