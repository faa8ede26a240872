"""A predicate over an Arrow table: exactly the rows that match. What pruning may skip is measured by this.

The literals are coerced by the same rules that pruning follows (`hashing.literals`), and compared as the column's
stored values: integers, not the temporal types over them; bytes, not texts. Beyond that:

- Zero equals zero, whatever the signs. NaN equals NaN, as Spark and DuckDB have it (and IEEE 754 has not).
- A column that the table does not have is null in every row, and so is the leaf of a struct that is null.
- A list has an element equal to a literal or not, whatever other elements are null, as in DuckDB; Spark has null
  instead of false where one is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import PredicateError, UnsupportedTypeError
from ..hashing.coerce import coerce, stored_forms
from ..hashing.coerce_many import coerce_all
from ..hashing.column_type import ColumnType, from_arrow
from . import comparison as ordered
from . import lists
from .tree import (
    And,
    Compare,
    Connective,
    Contains,
    IsNotNull,
    IsNull,
    Leaf,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    fold,
    negation,
)

_DAY_MILLIS = 86_400_000


class StoredColumn(NamedTuple):
    """A column as its file stores it, for types whose Arrow form hides values.

    Attributes
    ----------
    values : storage array (see `hashing.arrays`), a value a row.
    column_type : the type in the file.
    """

    values: pa.ChunkedArray
    column_type: ColumnType


Probes = dict[tuple[int, pa.DataType], tuple[pa.Array, bool]]
"""Literals of leaves, given by their id, as values of a type; see `row_mask`."""


def row_mask(
    table: pa.Table,
    node: Node,
    *,
    timezone: str = "UTC",
    stored: Mapping[str, StoredColumn] | None = None,
    probes: Probes | None = None,
) -> pa.ChunkedArray:
    """For each row of a table whether the predicate is true, false or null (which does not select it).

    Parameters
    ----------
    table : rows; the columns that the predicate names are enough. A dotted name is a column of that very name, or a
        struct's leaf.
    timezone : zone in which datetimes without one are read where a column holds instants.
    stored : columns that are compared as stored values, by name; they need not be in the table.
    probes : what was made of long lists of literals for other tables, under the same predicate and timezone; added to.

    Returns
    -------
    pyarrow.ChunkedArray of booleans, for `table.filter`.

    Raises
    ------
    PredicateError
        A literal cannot be compared exactly with its column's type, the column is no single value a row (a list, a
        struct), or none that `Contains` looks into (a list of single values), or its name fits several.
    """

    def join(connective: Connective, masks: list[Any]) -> Any:
        combine = pc.and_kleene if isinstance(connective, And) else pc.or_kleene
        result = masks[0]
        for other in masks[1:]:
            result = combine(result, other)
        return result

    def compare(leaf: Leaf) -> pa.ChunkedArray:
        positive = leaf
        if isinstance(leaf, NotEqual | NotIn | NotContains | IsNotNull):
            opposite = negation(leaf)
            assert isinstance(opposite, Leaf)
            positive = opposite
        if stored and leaf.column in stored:
            found = _evaluate_stored_leaf(stored[leaf.column], positive, timezone)
        else:
            found = _evaluate_leaf(table, positive, num_rows, timezone, {} if probes is None else probes, id(leaf))
        return found if positive is leaf else pc.invert(found)

    # A table without columns does not know its rows.
    num_rows = len(next(iter(stored.values())).values) if stored else table.num_rows
    return fold(node, compare, join)


def _evaluate_stored_leaf(column: StoredColumn, leaf: Leaf, timezone: str) -> pa.ChunkedArray:
    if isinstance(leaf, IsNull):
        return pc.is_null(column.values)
    if isinstance(leaf, Compare):
        return ordered.compare_stored(column.values, column.column_type, leaf, timezone)
    if isinstance(leaf, Contains):
        raise PredicateError(f"{column.column_type} is no list", column=leaf.column)
    if not leaf.literals:
        return _make_constant(len(column.values), False)
    forms: list[bytes] = []
    for value in leaf.literals:
        coerced = coerce(value, column.column_type, timezone)
        if coerced.unknown is not None:
            raise PredicateError(coerced.unknown, column=leaf.column)
        forms.extend(stored_forms(coerced.values, column.column_type))
    probes = pa.array(forms, column.values.type)
    return _apply_null_literal(leaf, [_equals_any(chunk, probes, False) for chunk in column.values.chunks])


def _evaluate_leaf(
    table: pa.Table, leaf: Leaf, num_rows: int, timezone: str, known: Probes, number: int
) -> pa.ChunkedArray:
    literals = [value for value in leaf.literals if value is not None]
    column = _find_column(table, leaf.column)
    if isinstance(leaf, Contains):
        return _evaluate_contains(column, leaf, num_rows, timezone)
    if column is not None and pa.types.is_nested(_unwrap_type(column.type)):
        raise PredicateError(f"a {column.type} is no single value; name one of its leaves", column=leaf.column)
    if isinstance(leaf, IsNull):
        return _make_constant(num_rows, True) if column is None else pc.is_null(column)
    if not leaf.literals:  # IN () is false even where the column is null
        return _make_constant(num_rows, False)
    if column is None or not literals or pa.types.is_null(column.type):
        return _make_constant(num_rows, None)
    if isinstance(leaf, Compare):
        return ordered.compare([_decode(chunk) for chunk in column.chunks], _unwrap_type(column.type), leaf, timezone)
    key = number, column.type
    if key not in known:
        known[key] = _coerce_literals(literals, column.type, leaf.column, timezone)
    probes, with_nan = known[key]
    return _apply_null_literal(leaf, [_equals_any(chunk, probes, with_nan) for chunk in column.chunks])


def _evaluate_contains(column: pa.ChunkedArray | None, leaf: Contains, num_rows: int, timezone: str) -> pa.ChunkedArray:
    if column is None or pa.types.is_null(column.type):
        return _make_constant(num_rows, None)
    element_type = lists.list_element_type(column.type, leaf.column)
    inner = _unwrap_type(element_type)
    if pa.types.is_nested(inner):
        raise PredicateError(f"a list of {inner} has no single values to compare", column=leaf.column)
    if leaf.value is None:
        return _make_constant(num_rows, None)

    def equal(elements: pa.Array) -> pa.Array:
        return _equals_any(elements, probes, with_nan)

    def nothing(elements: pa.Array) -> pa.Array:
        return pa.nulls(len(elements), pa.bool_())

    if not pa.types.is_null(inner):
        probes, with_nan = _coerce_literals([leaf.value], element_type, leaf.column, timezone)
    is_wanted = nothing if pa.types.is_null(inner) else equal
    return pa.chunked_array([lists.any_element(chunk, is_wanted) for chunk in column.chunks], pa.bool_())


def _apply_null_literal(leaf: Leaf, chunks: list[pa.Array]) -> pa.ChunkedArray:
    """The comparison under SQL's rule for x IN (1, NULL): a row that is not 1 is null, not false."""
    if None in leaf.literals:
        true = pa.scalar(True)
        chunks = [pc.if_else(pc.fill_null(chunk, False), true, pa.scalar(None, pa.bool_())) for chunk in chunks]
    return pa.chunked_array(chunks, pa.bool_())


def _make_constant(length: int, value: bool | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(value, pa.bool_()), length)], pa.bool_())


# ------------------------------------------------------------------------------------------------------- the column


def _find_column(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """The column or struct leaf of a dotted name; None when there is none."""
    found = _find_paths(table.schema, name, name)
    if len(found) > 1:
        raise PredicateError("the name fits several columns", column=name)
    if not found:
        return None
    top, *below = found[0]
    column = table.column(top)
    for position in below:
        column = pc.struct_field(column, [position])  # null where the struct is, unlike its bare child array
    return column


def _unwrap_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type of the values themselves, without what wraps or encodes them (but for UUIDs, whose meaning counts)."""
    while True:
        if isinstance(arrow_type, pa.BaseExtensionType) and not isinstance(arrow_type, pa.UuidType):
            arrow_type = arrow_type.storage_type
        elif pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
            arrow_type = arrow_type.value_type
        else:
            return arrow_type


def _find_paths(fields: Any, name: str, whole: str) -> list[list[int]]:
    """Every way to resolve a dotted name, as positions: a name may itself have dots."""
    found: list[list[int]] = []
    for position, field in enumerate(fields):
        if field.name == name:
            found.append([position])
        if name.startswith(field.name + "."):
            rest = name[len(field.name) + 1 :]
            if pa.types.is_struct(field.type):
                found.extend([position, *below] for below in _find_paths(list(field.type), rest, whole))
            elif pa.types.is_nested(_unwrap_type(field.type)):
                raise PredicateError(f"what is inside of a {field.type} cannot be compared", column=whole)
    return found


# ----------------------------------------------------------------------------------------------------- the literals


def _coerce_literals(literals: list[Any], arrow_type: pa.DataType, name: str, timezone: str) -> tuple[pa.Array, bool]:
    """The values to look for, as an array of the type that `_to_stored` gives the column, and whether NaN is one."""
    inner = _unwrap_type(arrow_type)
    try:
        column_type = from_arrow(inner)
    except UnsupportedTypeError as error:
        raise PredicateError(error.problem, column=name) from None
    numeric = pa.types.is_floating(inner) or pa.types.is_integer(inner) or pa.types.is_decimal(inner)
    others = [value for value in literals if not (numeric and isinstance(value, float) and math.isnan(value))]
    with_nan = len(others) < len(literals) and pa.types.is_floating(inner)  # no integer or decimal is NaN
    values, unknown = coerce_all(others, column_type, timezone)
    if unknown is not None:
        raise PredicateError(unknown, column=name)
    if pa.types.is_floating(inner) and any(value == 0 or math.isinf(value) for value in values):
        # What is too large for the type is no infinity, and what is too small no zero, though the nearest value is one.
        values = [value for value in values if (value and math.isfinite(value)) or value in others]
    return _make_probes(values, inner, column_type.unit), with_nan


def _make_probes(values: list[Any], arrow_type: pa.DataType, unit: str | None) -> pa.Array:
    """Domain values as an array of the column's stored type; those that it cannot hold are left out."""
    types = pa.types
    if types.is_floating(arrow_type):
        zeros = [0.0, -0.0] if 0.0 in values else []  # is_in tells them apart, `=` does not
        return pa.array([*values, *zeros], pa.float64() if arrow_type.bit_width == 64 else pa.float32())
    if types.is_decimal(arrow_type):
        width = 32 if arrow_type.bit_width == 256 else 16
        limit = 1 << (8 * width - 1)
        raw = b"".join(v.to_bytes(width, "little", signed=True) for v in values if -limit <= v < limit)
        return pa.Array.from_buffers(_widen_decimal(arrow_type), len(raw) // width, [None, pa.py_buffer(raw)])
    if types.is_temporal(arrow_type):
        if types.is_date64(arrow_type):
            values = [day * _DAY_MILLIS for day in values]
        elif getattr(arrow_type, "unit", None) == "s" and unit == "ms":  # seconds are stored as milliseconds
            values = [value // 1_000 for value in values if value % 1_000 == 0]
        stored = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
        limit = 1 << (arrow_type.bit_width - 1)
        return pa.array([value for value in values if -limit <= value < limit], stored)
    if types.is_fixed_size_binary(arrow_type) or isinstance(arrow_type, pa.UuidType):
        stored = pa.binary(16) if isinstance(arrow_type, pa.UuidType) else arrow_type
        return pa.array([value for value in values if len(value) == stored.byte_width], stored)
    if types.is_integer(arrow_type) or types.is_boolean(arrow_type):
        return pa.array(values, arrow_type)
    return pa.array(values, _binary_type(arrow_type))


def _widen_decimal(arrow_type: pa.DataType) -> pa.DataType:
    """decimal32 and decimal64 as decimal128, which every kernel knows."""
    if arrow_type.bit_width >= 128:
        return arrow_type
    return pa.decimal128(arrow_type.precision, arrow_type.scale)


def _binary_type(arrow_type: pa.DataType) -> pa.DataType:
    """The binary type of a text or binary column, which kernels know views as well."""
    small = pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type)
    return pa.binary() if small else pa.large_binary()


# ------------------------------------------------------------------------------------------------ the stored values


def _equals_any(chunk: pa.Array, probes: pa.Array, with_nan: bool) -> pa.Array:
    """For each value whether it is among the probes; null for null."""
    if isinstance(chunk, pa.DictionaryArray):  # fewer values to compare
        return _equals_any(chunk.dictionary, probes, with_nan).take(chunk.indices)
    stored = _decode(chunk)
    if len(probes) == 1:
        found = pc.equal(stored, probes[0])
    else:
        found = pc.is_in(stored, value_set=probes)
        if stored.null_count:
            found = pc.if_else(pc.is_valid(stored), found, pa.scalar(None, pa.bool_()))
    # is_in knows one NaN of the many, and equal none.
    return pc.or_(found, pc.is_nan(stored)) if with_nan else found


def _decode(chunk: pa.Array) -> pa.Array:
    """The values as `_to_stored` gives them, without what wraps or encodes them."""
    if isinstance(chunk, pa.ExtensionArray):
        return _decode(chunk.storage)
    if pa.types.is_run_end_encoded(chunk.type):
        return _decode(pc.run_end_decode(chunk))
    if isinstance(chunk, pa.DictionaryArray):
        return _decode(chunk.dictionary).take(chunk.indices)
    return _to_stored(chunk)


def _to_stored(array: pa.Array) -> pa.Array:
    """The values in a type that the kernels compare as the column's stored values."""
    types, kind = pa.types, array.type
    if types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if types.is_decimal(kind):
        return array.cast(_widen_decimal(kind))
    if types.is_float16(kind):
        return array.cast(pa.float32())
    if types.is_string(kind) or types.is_large_string(kind):
        return array.view(_binary_type(kind))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    return array
