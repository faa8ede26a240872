"""The rows of data files that a table has deleted: by their positions in the file, or by their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import ParquetBloomError
from ..util.arrow_values import keep

RowNumbers = range | NDArray[np.int64]
"""Rows of a file, counted from its first one, ascending."""

ReadRows = Callable[[Sequence[str]], pa.Table]
"""Reads top-level columns of a table, by their names in it and as its types, in rows that the caller has chosen."""


class DeletedValues(Protocol):
    """Deletes rows by their values. Several threads may use it at once."""

    def find_columns(self) -> list[str]:
        """Return the top-level columns whose values decide; none if no row is deleted.

        Raises
        ------
        ParquetBloomError
            They cannot be determined.
        """

    def find_deleted(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return which rows are deleted.

        Parameters
        ----------
        rows : these columns, with the names and types of the table.

        Raises
        ------
        ParquetBloomError
            It cannot be determined.
        """


class DeletedRows(Protocol):
    """The rows of one data file that its table has deleted. Several threads may use it at once.

    Attributes
    ----------
    values : what deletes rows of the file by their values, the same object for files that have it in common; or None.
    """

    @property
    def values(self) -> DeletedValues | None: ...

    def find_positions(self, rows: RowNumbers) -> NDArray[np.int64]:
        """Return those of some rows that are deleted by their positions, ascending.

        Raises
        ------
        ParquetBloomError
            They cannot be determined; the file's rows must not be shown.
        """


class RowsOfFile(NamedTuple):
    """Some rows of a file, and which of its rows are deleted; None for none of them."""

    path: str
    deleted: DeletedRows | None
    rows: RowNumbers


def find_deleted(parts: Sequence[RowsOfFile], read: ReadRows) -> NDArray[np.bool_]:
    """Return which rows of files are deleted, those of one file after those of the other.

    Parameters
    ----------
    read : reads columns in all of these rows, if values decide on some.

    Raises
    ------
    ParquetBloomError
        It cannot be determined; these rows must not be shown.
    """
    ends = np.cumsum([len(part.rows) for part in parts], dtype=np.int64).tolist()
    result = np.zeros(ends[-1] if ends else 0, np.bool_)
    by_values: dict[int, tuple[str, DeletedValues, NDArray[np.bool_]]] = {}
    for (path, deleted, rows), end in zip(parts, ends, strict=True):
        if deleted is None or not len(rows):
            continue
        here = slice(end - len(rows), end)
        with _naming(path):
            positions = deleted.find_positions(rows)
        result[here][positions - rows.start if isinstance(rows, range) else np.searchsorted(rows, positions)] = True
        values = deleted.values
        if values is not None:
            if id(values) not in by_values:
                by_values[id(values)] = path, values, np.zeros(len(result), np.bool_)
            by_values[id(values)][2][here] = True
    for path, values, chosen in by_values.values():
        with _naming(path):
            columns = values.find_columns()
            if columns:
                table = read(columns)
                if len(table) != len(result):
                    problem = f"{len(table)} rows were read for its equality deletes instead of {len(result)}"
                    raise ParquetBloomError(f"its deleted rows cannot be determined: {problem}")
                result[chosen] |= values.find_deleted(table if chosen.all() else keep(table, pa.array(chosen)))
    return result


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name a file in errors that do not."""
    try:
        yield
    except ParquetBloomError as error:
        error.path = error.path or path
        raise


def find_in_bitmap(bitmap: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return those of some rows, ascending, that are in a `pyroaring.BitMap64`."""
    from pyroaring import BitMap64

    found = bitmap & BitMap64(np.ascontiguousarray(rows).astype(np.uint64))
    return np.frombuffer(found.to_array(), np.uint64).astype(np.int64)
