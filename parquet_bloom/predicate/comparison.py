"""`<`, `<=`, `>` and `>=` over Arrow columns, by the exact position of the literal among the column's values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError, UnsupportedTypeError
from ..hashing.bounds import make_bounds
from ..hashing.column_type import JULIAN_EPOCH_DAY, NANOS_PER_DAY, ColumnType, Domain, Kind, from_arrow
from ..util.arrow_values import from_numpy, make_scalar, to_numpy
from ..util.lazy import late_module
from .expected import make_mismatch_error
from .tree import Compare

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")

_DAY_MILLIS = 86_400_000

FEW_ROWS = 1024
"""So many rows without nulls are evaluated by numpy, whose functions need no time to be found and prepared."""


def select_bound(operator: str, at_most: Domain | None, at_least: Domain | None) -> Domain | bool | None:
    """Return the bound to compare a column's values with, for a literal between `at_most` and `at_least`.

    None if the comparison holds for all values or for none; see `holds_for_all`.
    """
    return at_least if operator in ("<", ">=") else at_most


def holds_for_all(operator: str) -> bool:
    """Return whether a comparison without a bound holds for all values, as `<` does for a literal above all of them."""
    return operator in ("<", ">")


def compare(chunks: list[pa.Array], arrow_type: pa.DataType, leaf: Compare, timezone: str) -> list[pa.Array]:
    """Compare a column's decoded chunks of stored values (see `row_filter`) with a literal that is not NULL."""
    try:
        column_type = from_arrow(arrow_type)
    except UnsupportedTypeError as error:
        raise PredicateError(error.problem, column=leaf.column) from None
    if getattr(arrow_type, "unit", None) == "s":  # a file would hold milliseconds
        column_type = replace(column_type, unit="s")
    is_float = pa.types.is_floating(arrow_type)
    if is_float and isinstance(leaf.value, float) and math.isnan(leaf.value):
        return [_compare_with_nan(chunk, leaf.operator) for chunk in chunks]
    limit = _find_limit(leaf, widen(column_type, arrow_type), timezone)
    if limit is None:
        result, null = make_scalar(holds_for_all(leaf.operator), pa.bool_()), make_scalar(None, pa.bool_())
        return [pc.if_else(pc.is_valid(chunk), result, null) for chunk in chunks]
    if pa.types.is_date64(arrow_type):
        assert isinstance(limit, int)
        limit *= _DAY_MILLIS
    operator = leaf.operator
    if isinstance(limit, float) and (limit == 0 or math.isinf(limit)) and leaf.value != limit:
        # A literal that is too large or too small for the type lies between two of its values, and equals neither.
        operator = (_BELOW_LIMIT if leaf.value < limit else _ABOVE_LIMIT).get(operator, operator)  # type: ignore[operator]
    return list(_compare_chunks(chunks, operator, limit, is_float))


def widen(column_type: ColumnType, arrow_type: pa.DataType) -> ColumnType:
    """Return a type of decimals that has all values of the Arrow type: those of a file may have too many digits."""
    if column_type.kind is not Kind.DECIMAL:
        return column_type
    return replace(column_type, physical="FIXED_LEN_BYTE_ARRAY", length=max(arrow_type.bit_width // 8, 16))


def compare_stored(chunks: list[pa.Array], column_type: ColumnType, leaf: Compare, timezone: str) -> list[pa.Array]:
    """Compare stored INT96 timestamps, including days beyond the range of 64-bit nanoseconds."""
    if leaf.value is None:
        return [pa.nulls(len(chunk), pa.bool_()) for chunk in chunks]
    limit = _find_limit(leaf, column_type, timezone)
    return [_compare_int96(chunk, leaf.operator, limit) for chunk in chunks]


def _find_limit(leaf: Compare, column_type: ColumnType, timezone: str) -> Domain | None:
    bounds = make_bounds(leaf.value, column_type, timezone)
    if bounds.unknown is not None:
        raise make_mismatch_error(bounds.unknown, column_type, leaf.column)
    return select_bound(leaf.operator, bounds.at_most, bounds.at_least)


_BELOW_LIMIT, _ABOVE_LIMIT = {"<=": "<", ">": ">="}, {"<": "<=", ">=": ">"}
_OPERATORS: dict[str, Callable[[Any, Any], NDArray[np.bool_]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_KERNELS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def _compare_chunks(chunks: list[pa.Array], operator: str, limit: Domain, is_float: bool) -> Iterator[pa.Array]:
    scalar = None
    for chunk in chunks:
        if len(chunk) <= FEW_ROWS and pa.types.is_integer(chunk.type) and not chunk.null_count:
            yield from_numpy(_OPERATORS[operator](to_numpy(chunk), limit))
            continue
        values = chunk
        if pa.types.is_fixed_size_binary(chunk.type):
            values = chunk.cast(pa.binary())  # the limit may have another length
        if scalar is None:
            scalar = _make_scalar(limit, values.type)
        result = pc.call_function(_KERNELS[operator], [values, scalar])
        yield pc.or_(result, pc.is_nan(values)) if is_float and operator in (">", ">=") else result


def _make_scalar(limit: Domain, stored: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(stored):
        assert isinstance(limit, int)
        width = stored.bit_width // 8
        raw = limit.to_bytes(width, "little", signed=True)
        return pa.Array.from_buffers(stored, 1, [None, pa.py_buffer(raw)])[0]
    return make_scalar(limit, stored)


def _compare_with_nan(chunk: pa.Array, operator: str) -> pa.Array:
    """Compare with NaN, which equals itself and is above all other numbers."""
    is_nan = pc.is_nan(chunk)
    if operator == "<":
        return pc.invert(is_nan)
    if operator == ">=":
        return is_nan
    result, null = make_scalar(operator == "<=", pa.bool_()), make_scalar(None, pa.bool_())
    return pc.if_else(pc.is_valid(chunk), result, null)


def _compare_int96(chunk: pa.Array, operator: str, limit: Domain | None) -> pa.Array:
    if limit is None:
        result = np.full(len(chunk), holds_for_all(operator))
    else:
        assert isinstance(limit, int)
        rows = np.frombuffer(chunk.buffers()[1], np.uint8, 12 * len(chunk), 12 * chunk.offset).reshape(-1, 12)
        nanos = rows[:, :8].copy().view(np.int64)[:, 0]
        days = rows[:, 8:].copy().view(np.int32)[:, 0].astype(np.int64) - JULIAN_EPOCH_DAY
        day, nanos_of_day = divmod(limit, NANOS_PER_DAY)
        below = (days < day) | ((days == day) & (nanos < nanos_of_day))
        equal = (days == day) & (nanos == nanos_of_day)
        result = {"<": below, "<=": below | equal, ">": ~(below | equal), ">=": ~below}[operator]
    return from_numpy(result, to_numpy(chunk.is_null()))
