"""Match rows to keys: which of many given keys, of one column or of several, each row has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..util.lazy import late_module
from .row_filter import coerce_literals, decode, find_column

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")

Int64s = NDArray[np.int64]

_LARGEST_CODE = 1 << 62


class KeyMatches(NamedTuple):
    """Rows with the numbers of their keys, by key and then by row; a row that equals several keys is there for each.

    Attributes
    ----------
    rows, keys : of the same length.
    """

    rows: Int64s
    keys: Int64s


class _Ids(NamedTuple):
    """Values of one column that keys equal, numbered from 0.

    Attributes
    ----------
    of_rows : the number of each row's value; -1 for a value that no key equals.
    of_keys, keys : pairs of a number and a key that equals the value, by key.
    size : how many numbers there are.
    """

    of_rows: Int64s
    of_keys: Int64s
    keys: Int64s
    size: int


def match_keys(table: pa.Table, columns: Sequence[str], keys: Sequence[Sequence[Any]], timezone: str) -> KeyMatches:
    """Match the rows of a table to keys; values and literals are compared as by `row_filter.row_mask`.

    Parameters
    ----------
    columns : of the key.
    keys : for each of these columns, a literal of each key.

    Raises
    ------
    PredicateError
        A literal cannot be compared exactly with its column's type.
    """
    rows = np.zeros(table.num_rows, np.int64)  # codes, of rows and of keys: equal where all columns so far are
    numbers = np.arange(len(keys[0]))
    codes = np.zeros(len(numbers), np.int64)
    size = 1
    for column, literals in zip(columns, keys, strict=True):
        ids = _find_ids(table, column, literals, timezone)
        if size * max(1, ids.size) >= _LARGEST_CODE:
            known, codes = np.unique(codes, return_inverse=True)
            places = np.searchsorted(known, rows)
            rows = np.where(known[np.minimum(places, len(known) - 1)] == rows, places, -1)
            size = len(known)
        first, last = np.searchsorted(ids.keys, numbers, "left"), np.searchsorted(ids.keys, numbers, "right")
        counts = last - first
        pairs = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        numbers, codes = np.repeat(numbers, counts), np.repeat(codes, counts) * ids.size + ids.of_keys[pairs]
        rows = np.where((rows >= 0) & (ids.of_rows >= 0), rows * ids.size + ids.of_rows, -1)
        size *= max(1, ids.size)
    order = np.argsort(codes, kind="stable")
    matching = np.flatnonzero(rows >= 0)
    first = np.searchsorted(codes[order], rows[matching], "left")
    counts = np.searchsorted(codes[order], rows[matching], "right") - first
    places = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    matched = np.unique(np.stack([numbers[order][places], np.repeat(matching, counts)], axis=1), axis=0)
    return KeyMatches(np.ascontiguousarray(matched[:, 1]), np.ascontiguousarray(matched[:, 0]))


def _find_ids(table: pa.Table, column: str, literals: Sequence[Any], timezone: str) -> _Ids:
    values = find_column(table, column)
    if values is None or not len(values) or pa.types.is_null(values.type):
        return _Ids(np.full(table.num_rows, -1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), 0)
    stored = pa.chunked_array([decode(chunk) for chunk in values.chunks])
    probes, keys, nan_keys = coerce_literals(literals, values.type, column, timezone)
    distinct = probes.unique()
    of_rows = _to_ids(pc.index_in(stored, value_set=distinct))
    of_keys = _to_ids(pc.index_in(probes, value_set=distinct))
    count = len(distinct)
    if nan_keys:
        of_rows[np.asarray(pc.fill_null(pc.is_nan(stored), False))] = count
        of_keys, keys = np.append(of_keys, [count] * len(nan_keys)), np.append(keys, nan_keys)
        count += 1
    order = np.argsort(keys, kind="stable")
    return _Ids(of_rows, of_keys[order], keys[order], count)


def _to_ids(positions: pa.Array | pa.ChunkedArray) -> Int64s:
    return np.array(pc.fill_null(positions, -1), np.int64)
