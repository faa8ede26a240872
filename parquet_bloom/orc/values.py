"""The values of an ORC file's columns, by row group, as pyarrow reads them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import ParquetBloomError, UnreadableColumnError
from ..predicate.statistics import PruningStatistics
from .metadata.schema import OrcLeaf
from .reader import OrcFile

_MOST_NANOS = (1 << 63) - 1


class StripeValues:
    """Reads one column of one stripe at a time, and keeps the last one.

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
        except ImportError:  # not every build of pyarrow has it
            raise ParquetBloomError("this build of pyarrow reads no ORC files", path=file.path) from None
        self._reader = ORCFile
        self._file = file
        self._last: tuple[tuple[int, str], pa.Array] | None = None

    def of(self, leaf: OrcLeaf, stripe: int, first_row: int, num_rows: int) -> pa.Array:
        """The values of a column in some rows of a stripe; those of lists one behind the other.

        Raises
        ------
        UnreadableColumnError
            pyarrow cannot read them, or finds another number of rows.
        """
        try:
            return _descend(self._column(leaf, stripe).slice(first_row, num_rows), leaf.path[1:])
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(leaf, str(error)) from error

    def _column(self, leaf: OrcLeaf, stripe: int) -> pa.Array:
        top = leaf.path[0] if leaf.path else ""
        if self._last is None or self._last[0] != (stripe, top):
            names = None if "." in top else [top]  # a dot in a name would be taken for the way to a column below
            self._file.require_readable(stripe, names)
            with self._file.source.arrow_file() as opened:
                file = self._reader(opened)
                batch = file.read_stripe(stripe, columns=names)
            names = batch.schema.names
            expected = self._file.stripes[stripe].num_rows
            if names.count(top) != 1 or batch.num_rows != expected:
                raise self._unreadable(leaf, f"{batch.num_rows} rows of {names.count(top)} columns in stripe {stripe}")
            self._last = (stripe, top), batch.column(names.index(top))
        return self._last[1]

    def _unreadable(self, leaf: OrcLeaf, reason: str) -> UnreadableColumnError:
        problem = f"cannot be read: {reason.splitlines()[0] if reason else 'no reason given'}"
        return UnreadableColumnError(problem, path=self._file.path, column=leaf.name)


def _descend(array: pa.Array, path: Sequence[str]) -> pa.Array:
    """The values of a leaf below a column."""
    for name in path:
        if pa.types.is_struct(array.type):
            array = array.flatten()[array.type.get_field_index(name)]
        elif pa.types.is_map(array.type):
            start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
            array = (array.keys if name == "key" else array.items).slice(start, end - start)
        elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            array = array.flatten()
        else:
            raise pa.ArrowNotImplementedError(f"values of {array.type} cannot be taken apart")
    return array


def fits_nanoseconds(known: PruningStatistics) -> bool:
    """Whether timestamps of which something is known are sure to be such as pyarrow reads: nanoseconds of 64 bits."""
    if known.has_values is False:
        return True
    if not isinstance(known.low, int) or not isinstance(known.high, int):
        return False
    return known.low >= -_MOST_NANOS and known.high <= _MOST_NANOS
