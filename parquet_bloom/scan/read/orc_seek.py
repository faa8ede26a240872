"""Single row groups of an ORC file by pyorc, which seeks by the row index; pyarrow reads stripes whole.

Only flat columns of types that come out the same either way. Whatever goes wrong is left to pyarrow. Neither pyorc's
predicates nor its use of filters take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .orc_columns import names_within

if TYPE_CHECKING:
    from ...orc import OrcFile

_SLOWER = 12
"""How many times as long pyorc, which makes Python's objects, takes for a value, about."""

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


def pays(schema: pa.Schema, ranges: Sequence[tuple[int, int]], num_rows: int) -> bool:
    """Whether to read ranges of a stripe alone: (first row, number of rows) of so many."""
    few = sum(count for _, count in ranges) * _SLOWER <= num_rows
    return few and len(schema) > 0 and all(any(test(field.type) for test in _TYPES) for field in schema)


def read(
    file: OrcFile, stripe: int, ranges: Sequence[tuple[int, int]], whole: pa.Schema, schema: pa.Schema
) -> pa.Table | None:
    """Columns of ranges of a stripe, one behind the other; None if pyorc is not there, or cannot.

    Parameters
    ----------
    ranges : (first row in the stripe, number of rows).
    whole, schema : of all columns, and of those to read.
    """
    if file.row_index_stride == 0 or (pyorc := _pyorc()) is None:
        return None
    names = schema.names if names_within(whole, schema) is not None else whole.names
    if len({*names}) < len(names):
        return None
    zoned = any(pa.types.is_timestamp(field.type) and field.type.tz is None for field in schema)
    if zoned and not file.is_in_utc(stripe):  # releases of ORC's library differ by a second around 1970
        return None
    if not file.seekable(stripe, schema.names):
        return None
    try:
        return _read(pyorc, file, stripe, ranges, schema)
    except Exception:  # whatever it is, pyarrow says it better, or reads it
        return None


def _read(pyorc: Any, file: OrcFile, stripe: int, ranges: Sequence[tuple[int, int]], schema: pa.Schema) -> pa.Table:
    with file.source.arrow_file() as opened:
        reader = pyorc.Reader(opened, column_names=schema.names, converters=_converters())
        if [*reader.selected_schema.fields] != schema.names:
            raise ValueError("other columns than those that were asked for")
        at = reader.read_stripe(stripe)
        tables = []
        for first, count in ranges:
            at.seek(first)
            rows = at.read(count)
            if len(rows) != count:
                raise ValueError("rows are missing")
            # Not by zip: of thousands of rows it makes as many iterators.
            columns = [_array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
            tables.append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(tables)


def _array(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_date32(arrow_type):
        return pa.array(values, pa.int32()).cast(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return pa.array(values, pa.int64()).cast(arrow_type)
    return pa.array(values, arrow_type)


@cache
def _pyorc() -> Any:
    """pyorc, an extra; None where it is not installed."""
    try:
        import pyorc
    except ImportError:
        return None
    return pyorc


class _AsStored:
    """Days of a date, and nanoseconds of a timestamp: Python's own types do not hold all of them."""

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
