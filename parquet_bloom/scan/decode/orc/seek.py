"""Read single row groups of an ORC file with pyorc, which seeks by the row index; pyarrow reads whole stripes.

Only flat columns are read, of types that both libraries convert alike. After any error pyarrow is used instead. Neither
pyorc's predicates nor its filters are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .columns import names_to_read

if TYPE_CHECKING:
    from ....orc import OrcFile

_SLOWER = 12
"""Approximate cost of a value by pyorc, which makes Python objects, relative to pyarrow."""

_TYPES = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


def is_worthwhile(schema: pa.Schema, ranges: Sequence[tuple[int, int]], num_rows: int) -> bool:
    """Return whether reading some ranges, (first row, number of rows), is faster than reading the whole stripe."""
    few = sum(count for _, count in ranges) * _SLOWER <= num_rows
    return few and len(schema) > 0 and all(any(test(field.type) for test in _TYPES) for field in schema)


def read(
    file: OrcFile, stripe: int, ranges: Sequence[tuple[int, int]], file_schema: pa.Schema, schema: pa.Schema
) -> pa.Table | None:
    """Read columns of ranges of a stripe, one after the other; None if pyorc is not installed, or cannot.

    Parameters
    ----------
    ranges : (first row in the stripe, number of rows).
    file_schema, schema : of all columns, and of those to read.
    """
    if file.row_index_stride == 0 or (pyorc := _pyorc()) is None:
        return None
    names = schema.names if names_to_read(file_schema, schema) is not None else file_schema.names
    if len({*names}) < len(names):
        return None
    has_local_times = any(pa.types.is_timestamp(field.type) and field.type.tz is None for field in schema)
    if has_local_times and not file.is_in_utc(stripe):  # releases of ORC's library differ by a second around 1970
        return None
    if not file.seekable(stripe, schema.names):
        return None
    try:
        return _read(pyorc, file, stripe, ranges, schema)
    except (pyorc.ORCError, RuntimeError, UnicodeDecodeError, pa.ArrowException):  # of the library, about the file
        return None  # pyarrow reads it, or raises a better error


def _read(
    pyorc: Any, file: OrcFile, stripe: int, ranges: Sequence[tuple[int, int]], schema: pa.Schema
) -> pa.Table | None:
    with file.source.counted_arrow_file() as opened:
        reader = pyorc.Reader(opened, column_names=schema.names, converters=_converters())
        if [*reader.selected_schema.fields] != schema.names:
            return None
        stripe_reader = reader.read_stripe(stripe)
        tables = []
        for first, count in ranges:
            stripe_reader.seek(first)
            rows = stripe_reader.read(count)
            if len(rows) != count:
                return None
            # zip would make an iterator for each of thousands of rows.
            columns = [_to_array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
            tables.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(tables)


def _to_array(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_date32(arrow_type):
        return pa.array(values, pa.int32()).cast(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


@cache
def _pyorc() -> Any:
    """Import pyorc, an optional dependency; None if it is not installed."""
    try:
        import pyorc
    except ImportError:
        return None
    return pyorc


class _AsStored:
    """Converter to days and nanoseconds: Python's own types cannot represent all dates and timestamps."""

    @staticmethod
    def from_orc(number: int, nanoseconds: int | None = None, timezone: Any = None) -> int:
        return number if nanoseconds is None else number * 1_000_000_000 + nanoseconds

    @staticmethod
    def to_orc(*given: Any) -> Any:
        raise NotImplementedError


@cache
def _converters() -> dict[Any, Any]:
    kinds = _pyorc().TypeKind
    return dict.fromkeys((kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_INSTANT), _AsStored)
