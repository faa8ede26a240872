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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError, UnsupportedTypeError
from ..hashing.coerce import coerce, make_bounds, stored_forms
from ..hashing.column_type import JULIAN_EPOCH_DAY, NANOS_PER_DAY, ColumnType, Domain, Kind, from_arrow
from ..metadata.page_match import Targets
from ..util.arrow_values import from_numpy, make_array, make_scalar, to_numpy
from ..util.lazy import late_module
from ..variant.variant_type import has_parts_of_variant, may_be_variant
from ..variant.variant_values import extract
from .calls import find_results
from .column_kinds import require_kind
from .in_array import InArray, contain, find_targets
from .literal import Literal, count_units, make_mismatch_error
from .map_lookup import find_map_type, take_first
from .tree import (
    And,
    CallIn,
    CallNotIn,
    Compare,
    Connective,
    Contains,
    Equal,
    HasOtherType,
    HasType,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    MapLookup,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    OfWholeName,
    PatternLeaf,
    VariantLookup,
    fold,
    negation,
)
from .variant_names import to_arrow_type

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
    if pa.types.is_duration(arrow_type):
        leaf = replace(leaf, value=count_units(leaf.value, arrow_type.unit))
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


def list_element_type(arrow_type: pa.DataType, name: str) -> pa.DataType:
    """Return the type of the elements of a list column.

    Raises
    ------
    PredicateError
        The column is not a list; a map is not a list either.
    """
    while isinstance(arrow_type, pa.BaseExtensionType) and not isinstance(arrow_type, pa.UuidType):
        arrow_type = arrow_type.storage_type
    types = pa.types
    if is_list(arrow_type):
        return arrow_type.value_type
    if types.is_list_view(arrow_type) or types.is_large_list_view(arrow_type):
        return arrow_type.value_type
    raise PredicateError(f"a {arrow_type} is not a list", column=name)


def is_list(arrow_type: pa.DataType) -> bool:
    """Return whether a type is that of lists."""
    types = pa.types
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def any_element(lists: pa.Array, matches: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return for each list whether `matches` is true for any of its elements; null for a list that is null."""
    starts, stops, elements, is_null = _list_layout(lists)
    matched = to_numpy(pc.fill_null(matches(elements), make_scalar(False, pa.bool_())))
    before = np.concatenate([[0], np.cumsum(matched)])
    return from_numpy(before[stops] > before[starts], is_null)


def is_empty(lists: pa.Array) -> pa.Array:
    """Return for each list whether it has no element; null for a list that is null."""
    starts, stops, _, is_null = _list_layout(lists)
    return from_numpy(starts == stops, is_null)


def _list_layout(
    lists: pa.Array,
) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array, NDArray[np.bool_]]:
    """Return the start and end of each list's elements, the elements, and which lists are null."""
    while isinstance(lists, pa.ExtensionArray):
        lists = lists.storage
    return *_find_elements(lists), to_numpy(lists.is_null())


def _find_elements(lists: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    types, arrow_type = pa.types, lists.type
    if types.is_fixed_size_list(arrow_type):
        starts = (np.arange(len(lists)) + lists.offset) * arrow_type.list_size
        return starts, starts + arrow_type.list_size, lists.values
    offsets = to_numpy(lists.offsets).astype(np.int64)
    if types.is_list_view(arrow_type) or types.is_large_list_view(arrow_type):
        return offsets, offsets + to_numpy(lists.sizes), lists.values
    return offsets[:-1], offsets[1:], lists.values


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
            if num_rows <= FEW_ROWS and not result.null_count and not other.null_count:
                few = np.logical_and if isinstance(connective, And) else np.logical_or
                result = pa.chunked_array([from_numpy(few(to_numpy(result), to_numpy(other)))])
            else:
                result = combine(result, other)
        return result

    def evaluate(part: Leaf | pa.ChunkedArray) -> pa.ChunkedArray:
        if not isinstance(part, Leaf):
            return part
        if isinstance(part, OfWholeName):
            alone = None if stored and part.column in stored else _select_whole_name(table, part.column)
            if alone is not None:
                return row_mask(alone, part.condition, timezone=timezone, probes=cache)
            part = part.condition  # not by calling itself: a cycle would keep the table in memory
        positive = part
        if isinstance(part, Contains | NotContains):
            return contains([part], part)
        if isinstance(part, MapLookup):
            looked_up = pa.table({part.column: _look_up(table, part, timezone)})
            return row_mask(looked_up, part.condition, timezone=timezone, probes=cache)
        if isinstance(part, VariantLookup):
            looked_up = pa.table({part.column: _take_path(table, part)})
            return row_mask(looked_up, part.condition, timezone=timezone, probes=cache)
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


def _select_whole_name(table: pa.Table, name: str) -> pa.Table | None:
    """Return the only column of a name, whatever fields of structs are called; None if there is not just one."""
    positions = table.schema.get_all_field_indices(name)
    return pa.table({name: table.column(positions[0])}) if len(positions) == 1 else None


def _look_up(table: pa.Table, leaf: MapLookup, timezone: str) -> pa.ChunkedArray:
    """Return the value under a key of each row's map; null without one."""
    maps = find_column(table, leaf.column)
    if maps is None or pa.types.is_null(maps.type):
        return pa.chunked_array([pa.nulls(table.num_rows)])
    map_type = find_map_type(maps.type, leaf.column)
    wanted = coerce_literals([leaf.key], map_type.key_type, leaf.column, timezone)
    probes = ProbeValues(wanted.values, bool(wanted.nans), None)
    values = []
    for chunk in maps.chunks:
        while isinstance(chunk, pa.ExtensionArray):
            chunk = chunk.storage
        matches = pc.fill_null(_equals_any(chunk.keys, probes), make_scalar(False, pa.bool_()))
        values.append(take_first(chunk, to_numpy(matches).astype(np.bool_)))
    return pa.chunked_array(values, map_type.item_type)


def _take_path(table: pa.Table, leaf: VariantLookup) -> pa.ChunkedArray:
    """Return what each row's Variant has at a path, as the type that is asked for; null where there is nothing."""
    column, target = find_column(table, leaf.column), to_arrow_type(leaf.target)
    if column is None or pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(table.num_rows, target)])
    if not has_parts_of_variant(_unwrap_type(column.type)):
        raise PredicateError(f"it is {column.type}, and no Variant: only these have paths", column=leaf.column)
    values = extract(column, leaf.path, target, try_cast=leaf.is_try, name=leaf.column)
    return pa.chunked_array([values], target)


def _keep(leaf: Leaf) -> Leaf | pa.ChunkedArray:
    """Leave a leaf to what joins it."""
    return leaf


def _evaluate_stored_leaf(column: StoredColumn, leaf: Leaf, timezone: str) -> pa.ChunkedArray:
    if isinstance(leaf, IsNull):
        return pc.is_null(column.values)
    if isinstance(leaf, Compare):
        masks = compare_stored(column.values.chunks, column.column_type, leaf, timezone)
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
    literals: Sequence[object] = leaf.literals
    if not isinstance(leaf, InArray) and None in literals:
        literals = [value for value in literals if value is not None]
    column = find_column(table, leaf.column)
    if column is not None and pa.types.is_nested(_unwrap_type(column.type)) and not isinstance(leaf, IsNull):
        problem = f"a {column.type} is not a single value; name one of its leaves"
        if may_be_variant(column.type):
            problem = f"Variants are compared by what is at a path of them, as a type: {leaf.column}:path::STRING, say"
        raise PredicateError(problem, column=leaf.column)
    if isinstance(leaf, IsNull):
        return _make_constant(num_rows, True) if column is None else pc.is_null(column)
    if isinstance(leaf, HasType | HasOtherType):
        if column is not None and not pa.types.is_null(_unwrap_type(column.type)):
            require_kind(from_arrow(_unwrap_type(column.type)), leaf)
        return _make_constant(num_rows, isinstance(leaf, HasType))
    if not leaf.literals:  # IN () is false even where the column is null
        return _make_constant(num_rows, isinstance(leaf, CallNotIn))
    if column is None or not literals or pa.types.is_null(column.type):
        return _make_constant(num_rows, None)
    if isinstance(leaf, PatternLeaf):
        return pa.chunked_array([find_results(chunk, leaf) for chunk in column.chunks], pa.bool_())
    if isinstance(leaf, CallIn | CallNotIn):
        chunks = [find_results(chunk, leaf) for chunk in column.chunks]
        if isinstance(leaf, CallNotIn) and None in leaf.values:
            return _make_constant(num_rows, None)
        return _apply_null_literal(leaf.literals, chunks)
    if isinstance(leaf, Compare):
        chunks = [decode(chunk) for chunk in column.chunks]
        return pa.chunked_array(compare(chunks, _unwrap_type(column.type), leaf, timezone), pa.bool_())
    _require_equality(leaf)
    given = leaf if isinstance(leaf, InArray) else literals
    probes = _find_probes(given, column.type, leaf.column, timezone, probe_cache, number)
    return _apply_null_literal(leaf.literals, [_equals_any(chunk, probes) for chunk in column.chunks])


def _evaluate_contains(
    column: pa.ChunkedArray | None,
    name: str,
    literals: Sequence[object],
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
    literals: Sequence[object] | InArray,
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


def _apply_null_literal(literals: Sequence[object], chunks: list[pa.Array]) -> pa.ChunkedArray:
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
        raise PredicateError(
            "the name matches several columns: one with a dot in it, or a field of a struct", column=name
        )
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


def coerce_literals(literals: Sequence[object], arrow_type: pa.DataType, name: str, timezone: str) -> ColumnLiterals:
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
    if pa.types.is_duration(inner):
        literals = [count_units(cast(Literal, one), inner.unit) for one in literals]
    is_float, nans = pa.types.is_floating(inner), list[int]()
    if is_float or pa.types.is_integer(inner) or pa.types.is_decimal(inner):
        nans = [number for number, one in enumerate(literals) if isinstance(one, float) and math.isnan(one)]
    if nans:
        literals = [None if isinstance(one, float) and math.isnan(one) else one for one in literals]
    coerced = coerce(literals, widen(column_type, inner), timezone, with_texts=True)
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
