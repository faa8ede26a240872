"""`<`, `<=`, `>` and `>=` over Arrow columns, by the literal's exact place among the column's values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import PredicateError, UnsupportedTypeError
from ..hashing.bounds import place
from ..hashing.column_type import JULIAN_EPOCH_DAY, NANOS_PER_DAY, ColumnType, Domain, from_arrow
from .tree import Compare

_DAY_MILLIS = 86_400_000


def select_bound(operator: str, at_most: Domain | None, at_least: Domain | None) -> Domain | bool | None:
    """What a column's values are compared with for a literal that stands between the two.

    None if the comparison holds for all values or for none; `holds_for_all` says which.
    """
    return at_least if operator in ("<", ">=") else at_most


def holds_for_all(operator: str) -> bool:
    """Whether a comparison without a boundary holds for all values: `<` a literal above all of them does."""
    return operator in ("<", ">")


def compare(chunks: list[pa.Array], arrow_type: pa.DataType, leaf: Compare, timezone: str) -> pa.ChunkedArray:
    """Compare a column's decoded chunks, which hold stored values (see `evaluate`), with a literal that is not NULL."""
    try:
        column_type = from_arrow(arrow_type)
    except UnsupportedTypeError as error:
        raise PredicateError(error.problem, column=leaf.column) from None
    if getattr(arrow_type, "unit", None) == "s":  # a file would hold milliseconds
        column_type = replace(column_type, unit="s")
    is_float = pa.types.is_floating(arrow_type)
    if is_float and isinstance(leaf.value, float) and math.isnan(leaf.value):
        return _to_chunked(_compare_with_nan(chunk, leaf.operator) for chunk in chunks)
    limit = _find_limit(leaf, column_type, timezone)
    if limit is None:
        answer = pa.scalar(holds_for_all(leaf.operator))
        return _to_chunked(pc.if_else(pc.is_valid(chunk), answer, pa.scalar(None, pa.bool_())) for chunk in chunks)
    if pa.types.is_date64(arrow_type):
        assert isinstance(limit, int)
        limit *= _DAY_MILLIS
    operator = leaf.operator
    if isinstance(limit, float) and (limit == 0 or math.isinf(limit)) and leaf.value != limit:
        # A literal too large for the type, or too small, stands between that and the next value, and equals neither.
        operator = (_BELOW_LIMIT if leaf.value < limit else _ABOVE_LIMIT).get(operator, operator)  # type: ignore[operator]
    return _to_chunked(_compare_chunk(chunk, operator, limit, is_float) for chunk in chunks)


def compare_stored(values: pa.ChunkedArray, column_type: ColumnType, leaf: Compare, timezone: str) -> pa.ChunkedArray:
    """Compare stored INT96 timestamps, days beyond those that nanoseconds of 64 bits can count included."""
    if leaf.value is None:
        return _to_chunked(pa.nulls(len(chunk), pa.bool_()) for chunk in values.chunks)
    limit = _find_limit(leaf, column_type, timezone)
    return _to_chunked(_compare_int96(chunk, leaf.operator, limit) for chunk in values.chunks)


def _find_limit(leaf: Compare, column_type: ColumnType, timezone: str) -> Domain | None:
    found = place(leaf.value, column_type, timezone)
    if found.unknown is not None:
        raise PredicateError(found.unknown, column=leaf.column)
    return select_bound(leaf.operator, found.at_most, found.at_least)


def _to_chunked(chunks: Any) -> pa.ChunkedArray:
    return pa.chunked_array(list(chunks), pa.bool_())


_BELOW_LIMIT, _ABOVE_LIMIT = {"<=": "<", ">": ">="}, {"<": "<=", ">=": ">"}
_KERNELS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def _compare_chunk(chunk: pa.Array, operator: str, limit: Domain, is_float: bool) -> pa.Array:
    if pa.types.is_fixed_size_binary(chunk.type):
        chunk = chunk.cast(pa.binary())  # the limit may be of another length
    found = pc.call_function(_KERNELS[operator], [chunk, _make_scalar(limit, chunk.type)])
    return pc.or_(found, pc.is_nan(chunk)) if is_float and operator in (">", ">=") else found


def _make_scalar(limit: Domain, stored: pa.DataType) -> pa.Scalar:
    if pa.types.is_decimal(stored):
        assert isinstance(limit, int)
        width = stored.bit_width // 8
        raw = limit.to_bytes(width, "little", signed=True)
        return pa.Array.from_buffers(stored, 1, [None, pa.py_buffer(raw)])[0]
    return pa.scalar(limit, stored)


def _compare_with_nan(chunk: pa.Array, operator: str) -> pa.Array:
    """NaN equals itself and is above all other numbers."""
    is_nan = pc.is_nan(chunk)
    if operator == "<":
        return pc.invert(is_nan)
    if operator == ">=":
        return is_nan
    return pc.if_else(pc.is_valid(chunk), pa.scalar(operator == "<="), pa.scalar(None, pa.bool_()))


def _compare_int96(chunk: pa.Array, operator: str, limit: Domain | None) -> pa.Array:
    if limit is None:
        found = np.full(len(chunk), holds_for_all(operator))
    else:
        assert isinstance(limit, int)
        rows = np.frombuffer(chunk.buffers()[1], np.uint8, 12 * len(chunk), 12 * chunk.offset).reshape(-1, 12)
        nanos = rows[:, :8].copy().view(np.int64)[:, 0]
        days = rows[:, 8:].copy().view(np.int32)[:, 0].astype(np.int64) - JULIAN_EPOCH_DAY
        day, rest = divmod(limit, NANOS_PER_DAY)
        below = (days < day) | ((days == day) & (nanos < rest))
        equal = (days == day) & (nanos == rest)
        found = {"<": below, "<=": below | equal, ">": ~(below | equal), ">=": ~below}[operator]
    return pa.array(found, mask=chunk.is_null().to_numpy(zero_copy_only=False))
