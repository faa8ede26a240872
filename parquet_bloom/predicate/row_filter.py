"""Evaluate a predicate over an Arrow table: exactly the rows that match. Pruning must never skip one of these.

Literals are coerced by the same rules as in pruning (`hashing.coerce`), and compared with the column's stored values:
integers rather than temporal types, bytes rather than strings. In addition:

- Zero equals zero, whatever the signs. NaN equals NaN, as in Spark and DuckDB (unlike IEEE 754).
- A column that the table does not have is null in every row, and so is the leaf of a struct that is null.
- A function of a column, such as `lower(x)`, gives what `calls` says, or an error where engines differ.
- Whether a list has an element equal to a literal does not depend on null elements, as in DuckDB; Spark returns null
  instead of false where a list has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError, UnsupportedTypeError
from ..hashing.coerce import coerce, stored_forms
from ..hashing.column_type import ColumnType, from_arrow
from ..metadata.page_match import Targets
from ..util.arrow_values import from_numpy, make_array, make_scalar, to_numpy
from ..util.lazy import late_module
from . import comparison as ordered
from .calls import find_results
from .expected import make_mismatch_error
from .in_array import InArray, contain, find_targets
from .lists import any_element, is_empty, list_element_type
from .tree import (
    And,
    CallIn,
    CallNotIn,
    Compare,
    Connective,
    Contains,
    Equal,
    In,
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

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")

_DAY_MILLIS = 86_400_000
_MANY_PROBES = 10_000


class StoredColumn(NamedTuple):
    """A column as its file stores it, for types whose Arrow form cannot represent all values.

    Attributes
    ----------
    values : storage array (see `hashing.arrow`), one value per row.
    column_type : the type in the file.
    """

    values: pa.ChunkedArray
    column_type: ColumnType


class ProbeValues(NamedTuple):
    """Literals of a leaf as values of a column.

    Attributes
    ----------
    values : distinct, of the type of `decode`.
    with_nan : whether NaN is one of them.
    targets : many values, to be searched for: `is_in` would arrange them anew for each table. None for few.
    """

    values: pa.Array
    with_nan: bool
    targets: Targets | None


Probes = dict[tuple[int, str, pa.DataType], ProbeValues]
"""Literals as arrays of a column type, by the id of their leaf, or of what joins several, its column and that type."""


def row_mask(
    table: pa.Table,
    node: Node,
    *,
    timezone: str = "UTC",
    stored: Mapping[str, StoredColumn] | None = None,
    probes: Probes | None = None,
) -> pa.ChunkedArray:
    """Evaluate a predicate for each row of a table: true, false or null (only true selects a row).

    Parameters
    ----------
    table : the rows, with at least the columns of the predicate. A dotted name is a column of exactly that name, or the
        leaf of a struct.
    timezone : zone of datetimes without one, where a column holds instants.
    stored : columns that are compared as stored values, by name; they need not be in the table.
    probes : cache of coerced literals, shared by tables that are filtered with the same predicate and timezone.

    Returns
    -------
    pyarrow.ChunkedArray of booleans, for `table.filter`.

    Raises
    ------
    PredicateError
        A literal cannot be compared exactly with its column's type, the column does not have a single value per row (a
        list, a struct), or `Contains` is applied to a column that is not a list of single values, or the name matches
        several columns.
    """

    def join(connective: Connective, parts: list[Leaf | pa.ChunkedArray]) -> pa.ChunkedArray:
        combine, joined = (pc.and_kleene, NotContains) if isinstance(connective, And) else (pc.or_kleene, Contains)
        masks, by_column = [], dict[str, list[Contains | NotContains]]()
        for part in parts:
            if isinstance(part, joined):  # elements are compared with all literals at once
                by_column.setdefault(part.column, []).append(part)
            else:
                masks.append(evaluate(part))
        masks += [contains(leaves, connective if len(leaves) > 1 else leaves[0]) for leaves in by_column.values()]
        result = masks[0]
        for other in masks[1:]:
            if num_rows <= ordered.FEW_ROWS and not result.null_count and not other.null_count:
                few = np.logical_and if isinstance(connective, And) else np.logical_or
                result = pa.chunked_array([from_numpy(few(to_numpy(result), to_numpy(other)))])
            else:
                result = combine(result, other)
        return result

    def evaluate(part: Leaf | pa.ChunkedArray) -> pa.ChunkedArray:
        if not isinstance(part, Leaf):
            return part
        positive = part
        if isinstance(part, Contains | NotContains):
            return contains([part], part)
        if isinstance(part, NotEqual | NotIn | IsNotNull) or (isinstance(part, CallNotIn) and part.is_exact):
            opposite = negation(part)
            assert isinstance(opposite, Leaf)
            positive = opposite
        if stored and part.column in stored:
            mask = _evaluate_stored_leaf(stored[part.column], positive, timezone)
        else:
            mask = _evaluate_leaf(table, positive, num_rows, timezone, cache, id(part))
        return mask if positive is part else pc.invert(mask)

    def contains(leaves: Sequence[Contains | NotContains], origin: Node) -> pa.ChunkedArray:
        """Evaluate leaves of one column: Contains that are joined by OR, or NotContains that are joined by AND."""
        name, literals = leaves[0].column, [leaf.value for leaf in leaves]
        if stored and name in stored:
            raise PredicateError(f"{stored[name].column_type} is not a list", column=name)
        column = find_column(table, name)
        mask = _evaluate_contains(column, name, literals, num_rows, timezone, cache, id(origin))
        return mask if isinstance(leaves[0], Contains) else pc.invert(mask)

    # A table without columns does not know its number of rows.
    num_rows = len(next(iter(stored.values())).values) if stored else table.num_rows
    cache: Probes = {} if probes is None else probes
    return evaluate(fold(node, _keep, join))


def _keep(leaf: Leaf) -> Leaf | pa.ChunkedArray:
    """Leave a leaf to what joins it."""
    return leaf


def _evaluate_stored_leaf(column: StoredColumn, leaf: Leaf, timezone: str) -> pa.ChunkedArray:
    if isinstance(leaf, IsNull):
        return pc.is_null(column.values)
    if isinstance(leaf, Compare):
        masks = ordered.compare_stored(column.values.chunks, column.column_type, leaf, timezone)
        return pa.chunked_array(masks, pa.bool_())
    _require_equality(leaf)
    if not leaf.literals:
        return _make_constant(len(column.values), False)
    coerced = coerce(leaf.literals, column.column_type, timezone)
    if coerced.unknown is not None:
        raise make_mismatch_error(coerced.unknown, column.column_type, leaf.column)
    probes = make_array(stored_forms(coerced.values, column.column_type), column.values.type)
    prepared = ProbeValues(probes, False, None)
    return _apply_null_literal(leaf.literals, [_equals_any(chunk, prepared) for chunk in column.values.chunks])


def _require_equality(leaf: Leaf) -> None:
    """Raise PredicateError for a kind of leaf that this module does not know: it must not be taken for an equality."""
    if not isinstance(leaf, Equal | In):
        raise PredicateError(f"{leaf} cannot be evaluated on rows", column=leaf.column)


def _evaluate_leaf(
    table: pa.Table, leaf: Leaf, num_rows: int, timezone: str, probe_cache: Probes, number: int
) -> pa.ChunkedArray:
    literals: Sequence[Any] = leaf.literals
    if not isinstance(leaf, InArray) and None in literals:
        literals = [value for value in literals if value is not None]
    column = find_column(table, leaf.column)
    if column is not None and pa.types.is_nested(_unwrap_type(column.type)):
        raise PredicateError(f"a {column.type} is not a single value; name one of its leaves", column=leaf.column)
    if isinstance(leaf, IsNull):
        return _make_constant(num_rows, True) if column is None else pc.is_null(column)
    if not leaf.literals:  # IN () is false even where the column is null
        return _make_constant(num_rows, isinstance(leaf, CallNotIn))
    if column is None or not literals or pa.types.is_null(column.type):
        return _make_constant(num_rows, None)
    if isinstance(leaf, CallIn | CallNotIn):
        chunks = [find_results(chunk, leaf) for chunk in column.chunks]
        if isinstance(leaf, CallNotIn) and None in leaf.values:
            return _make_constant(num_rows, None)
        return _apply_null_literal(leaf.literals, chunks)
    if isinstance(leaf, Compare):
        chunks = [decode(chunk) for chunk in column.chunks]
        return pa.chunked_array(ordered.compare(chunks, _unwrap_type(column.type), leaf, timezone), pa.bool_())
    _require_equality(leaf)
    given = leaf if isinstance(leaf, InArray) else literals
    probes = _find_probes(given, column.type, leaf.column, timezone, probe_cache, number)
    return _apply_null_literal(leaf.literals, [_equals_any(chunk, probes) for chunk in column.chunks])


def _evaluate_contains(
    column: pa.ChunkedArray | None,
    name: str,
    literals: Sequence[Any],
    num_rows: int,
    timezone: str,
    probe_cache: Probes,
    number: int,
) -> pa.ChunkedArray:
    """Return for each list whether any of its elements equals any of some literals."""
    if column is None or pa.types.is_null(column.type):
        return _make_constant(num_rows, None)
    element_type = list_element_type(column.type, name)
    inner = _unwrap_type(element_type)
    if pa.types.is_nested(inner):
        raise PredicateError(f"a list of {inner} has no single values to compare", column=name)
    others = [value for value in literals if value is not None]

    def equal(elements: pa.Array) -> pa.Array:
        return _equals_any(elements, probes)

    def make_nulls(elements: pa.Array) -> pa.Array:
        return pa.nulls(len(elements), pa.bool_())

    if others and not pa.types.is_null(inner):
        probes = _find_probes(others, element_type, name, timezone, probe_cache, number)
    matches = make_nulls if pa.types.is_null(inner) else equal
    masks = [any_element(chunk, matches) for chunk in column.chunks] if others else []
    if None in literals:  # nothing equals NULL for certain, but in an empty list there is nothing that could
        null, false = make_scalar(None, pa.bool_()), make_scalar(False, pa.bool_())
        unknown = [pc.if_else(is_empty(chunk), false, null) for chunk in column.chunks]
        masks = [*map(pc.or_kleene, masks, unknown)] if others else unknown
    return pa.chunked_array(masks, pa.bool_())


def _find_probes(
    literals: Sequence[Any] | InArray,
    arrow_type: pa.DataType,
    name: str,
    timezone: str,
    probe_cache: Probes,
    number: int,
) -> ProbeValues:
    """Return the literals of a leaf, given its id, as values of a column, once for all tables."""
    key = number, name, arrow_type
    if key not in probe_cache:
        made = _take_array(literals.array, _unwrap_type(arrow_type)) if isinstance(literals, InArray) else None
        if made is None:
            given = literals.literals if isinstance(literals, InArray) else literals
            coerced = coerce_literals(given, arrow_type, name, timezone)
            made = coerced.values, bool(coerced.nans)
        values, with_nan = made
        targets = find_targets(values.unique()) if len(values) >= _MANY_PROBES else None
        probe_cache.setdefault(key, ProbeValues(values, with_nan, targets))
    return probe_cache[key]


def _take_array(array: pa.Array, inner: pa.DataType) -> tuple[pa.Array, bool] | None:
    """Return what `coerce_literals` makes of an array of values of the column's own type; None for other types."""
    is_alike = _comparable_type(array.type) == _comparable_type(inner)
    if not is_alike or pa.types.is_date64(inner) or pa.types.is_nested(inner):
        return None
    stored = decode(array)
    if not pa.types.is_floating(inner):
        return stored, False
    is_nan = pc.is_nan(stored)
    stored = stored.filter(pc.invert(is_nan))
    if pc.any(pc.equal(stored, 0.0)).as_py():  # `is_in` distinguishes the zeros, `=` does not
        stored = pa.concat_arrays([stored, make_array([0.0, -0.0], stored.type)])
    return stored, bool(pc.any(is_nan).as_py())


def _apply_null_literal(literals: Sequence[Any], chunks: list[pa.Array]) -> pa.ChunkedArray:
    """Apply SQL's rule for x IN (1, NULL): a row that is not 1 is null, not false."""
    if None in literals:
        true, false, null = (make_scalar(value, pa.bool_()) for value in (True, False, None))
        chunks = [pc.if_else(pc.fill_null(chunk, false), true, null) for chunk in chunks]
    return pa.chunked_array(chunks, pa.bool_())


def _make_constant(length: int, value: bool | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(make_scalar(value, pa.bool_()), length)], pa.bool_())


# ------------------------------------------------------------------------------------------------------- the column


def find_column(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """Return the column or struct leaf of a dotted name; None when there is none."""
    paths = _find_paths(table.schema, name, name)
    if len(paths) > 1:
        raise PredicateError("the name matches several columns", column=name)
    if not paths:
        return None
    top, *child_path = paths[0]
    column = table.column(top)
    for position in child_path:
        column = pc.struct_field(column, [position])  # null where the struct is, unlike its bare child array
    return column


def _unwrap_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the values without extension types and encodings (UUIDs stay: they compare as UUIDs)."""
    while True:
        if isinstance(arrow_type, pa.BaseExtensionType) and not isinstance(arrow_type, pa.UuidType):
            arrow_type = arrow_type.storage_type
        elif pa.types.is_dictionary(arrow_type) or pa.types.is_run_end_encoded(arrow_type):
            arrow_type = arrow_type.value_type
        else:
            return arrow_type


def _find_paths(fields: pa.Schema | pa.StructType, name: str, full_name: str) -> list[list[int]]:
    """Return every way to resolve a dotted name, as positions: a name may itself contain dots."""
    paths: list[list[int]] = [*map(list, zip(fields.get_all_field_indices(name), strict=True))]
    dot = name.find(".")
    while dot >= 0:
        for i in fields.get_all_field_indices(name[:dot]):
            field = fields.field(i)
            if pa.types.is_struct(field.type):
                paths.extend([i, *child] for child in _find_paths(field.type, name[dot + 1 :], full_name))
            elif pa.types.is_nested(_unwrap_type(field.type)):
                raise PredicateError(f"values inside a {field.type} cannot be compared", column=full_name)
        dot = name.find(".", dot + 1)
    return paths


# ----------------------------------------------------------------------------------------------------- the literals


class ColumnLiterals(NamedTuple):
    """Literals as values of an Arrow column.

    Attributes
    ----------
    values : of the type of `decode`, for those literals that the column can have.
    literals : for each value, the number of its literal; a zero has two values, one for each sign.
    nans : the numbers of literals that are NaN, in a column of floats; no integer or decimal is.
    """

    values: pa.Array
    literals: NDArray[np.int64]
    nans: list[int]


def coerce_literals(literals: Sequence[Any], arrow_type: pa.DataType, name: str, timezone: str) -> ColumnLiterals:
    """Return literals as values to look for in a column.

    Raises
    ------
    PredicateError
        A literal cannot be compared exactly with the column's type.
    """
    inner = _unwrap_type(arrow_type)
    try:
        column_type = from_arrow(inner)
    except UnsupportedTypeError as error:
        raise PredicateError(error.problem, column=name) from None
    is_float, nans = pa.types.is_floating(inner), list[int]()
    if is_float or pa.types.is_integer(inner) or pa.types.is_decimal(inner):
        nans = [number for number, one in enumerate(literals) if isinstance(one, float) and math.isnan(one)]
    if nans:
        literals = [None if isinstance(one, float) and math.isnan(one) else one for one in literals]
    coerced = coerce(literals, ordered.widen(column_type, inner), timezone)
    if coerced.unknown is not None:
        raise make_mismatch_error(coerced.unknown, column_type, name)
    values: Sequence[Any] = coerced.values
    numbers = np.array(coerced.literals, np.int64)
    if is_float and any(value == 0 or math.isinf(value) for value in values):
        # A literal too large for the type is not infinity, and one too small is not zero, though the nearest value is.
        exact = [(v and math.isfinite(v)) or v == literals[i] for v, i in zip(values, numbers.tolist(), strict=True)]
        values, numbers = [*compress(values, exact)], numbers[np.array(exact, np.bool_)]
        zeros = [value == 0 for value in values]  # `is_in` distinguishes them, `=` does not
        values = [*values, *(-value for value in compress(values, zeros))]
        numbers = np.append(numbers, numbers[np.array(zeros, np.bool_)])
    stored, fits = _store(values, inner, column_type.unit)
    return ColumnLiterals(stored, numbers if fits is None else numbers[fits], nans if is_float else [])


def _store(
    values: Sequence[Any], arrow_type: pa.DataType, unit: str | None
) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Convert domain values to the column's stored type; the bools (None: all) say which of them that can represent."""
    types = pa.types
    if types.is_floating(arrow_type):
        return make_array(values, pa.float64() if arrow_type.bit_width == 64 else pa.float32()), None
    if types.is_integer(arrow_type) or types.is_boolean(arrow_type):
        return make_array(values, arrow_type), None
    if types.is_fixed_size_binary(arrow_type) or isinstance(arrow_type, pa.UuidType):
        stored = pa.binary(16) if isinstance(arrow_type, pa.UuidType) else arrow_type
        fits = [len(value) == stored.byte_width for value in values]
        return make_array([*compress(values, fits)], stored), np.array(fits, np.bool_)
    if not types.is_decimal(arrow_type) and not types.is_temporal(arrow_type):
        return make_array(values, _binary_type(arrow_type)), None
    bits = (256 if arrow_type.bit_width == 256 else 128) if types.is_decimal(arrow_type) else arrow_type.bit_width
    counts, fits = values, [True] * len(values)
    if types.is_date64(arrow_type):
        counts = [day * _DAY_MILLIS for day in values]
    elif types.is_temporal(arrow_type) and getattr(arrow_type, "unit", None) == "s" and unit == "ms":
        # Seconds are stored as milliseconds.
        counts, fits = [value // 1_000 for value in values], [value % 1_000 == 0 for value in values]
    limit = 1 << (bits - 1)
    fits = [fit and -limit <= count < limit for fit, count in zip(fits, counts, strict=True)]
    counts = [*compress(counts, fits)]
    if types.is_decimal(arrow_type):
        raw = b"".join(count.to_bytes(bits // 8, "little", signed=True) for count in counts)
        made = pa.Array.from_buffers(_widen_decimal(arrow_type), len(counts), [None, pa.py_buffer(raw)])
    else:
        made = make_array(counts, pa.int32() if bits == 32 else pa.int64())
    return made, np.array(fits, np.bool_)


def _widen_decimal(arrow_type: pa.DataType) -> pa.DataType:
    """Return decimal128 for decimal32 and decimal64: every kernel supports it."""
    if arrow_type.bit_width >= 128:
        return arrow_type
    return pa.decimal128(arrow_type.precision, arrow_type.scale)


def _comparable_type(arrow_type: pa.DataType) -> pa.DataType:
    arrow_type = _unwrap_type(arrow_type)
    return _widen_decimal(arrow_type) if pa.types.is_decimal(arrow_type) else arrow_type


def _binary_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the binary type for a string or binary column; string views become large_binary."""
    small = pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type)
    return pa.binary() if small else pa.large_binary()


# ------------------------------------------------------------------------------------------------ the stored values


def _equals_any(chunk: pa.Array, probes: ProbeValues) -> pa.Array:
    """Return for each value whether it is one of the probes; null for null."""
    if isinstance(chunk, pa.DictionaryArray):  # fewer values to compare
        return _equals_any(chunk.dictionary, probes).take(chunk.indices)
    stored = decode(chunk)
    if len(probes.values) == 1:
        mask = pc.equal(stored, probes.values[0])
    else:
        if probes.targets is not None and stored.type == probes.values.type:
            mask = from_numpy(contain(probes.targets, stored))
        else:
            mask = pc.is_in(stored, value_set=probes.values)
        if stored.null_count:
            mask = pc.if_else(pc.is_valid(stored), mask, make_scalar(None, pa.bool_()))
    # is_in finds only one bit pattern of NaN, and equal finds none.
    return pc.or_(mask, pc.is_nan(stored)) if probes.with_nan else mask


def decode(chunk: pa.Array) -> pa.Array:
    """Return stored values, of a type for which the kernels compare these, without extension types and encodings."""
    if isinstance(chunk, pa.ExtensionArray):
        return decode(chunk.storage)
    if pa.types.is_run_end_encoded(chunk.type):
        return decode(pc.run_end_decode(chunk))
    if isinstance(chunk, pa.DictionaryArray):
        return decode(chunk.dictionary).take(chunk.indices)
    types, arrow_type = pa.types, chunk.type
    if types.is_temporal(arrow_type):
        return chunk.view(pa.int32() if arrow_type.bit_width == 32 else pa.int64())
    if types.is_decimal(arrow_type):
        return chunk.cast(_widen_decimal(arrow_type))
    if types.is_float16(arrow_type):
        return chunk.cast(pa.float32())
    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return chunk.view(_binary_type(arrow_type))
    if types.is_string_view(arrow_type) or types.is_binary_view(arrow_type):
        return chunk.cast(pa.large_binary())
    return chunk
