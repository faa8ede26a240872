"""What a table's metadata says of the paths of a Variant: bounds of a file, which both formats keep in Variants.

The bounds of a column in a file are two Variants, of lower and of upper ones: objects whose keys are paths and whose
values are bounds of the values there. Both formats let a writer have one for a path only if all its values in the file
that are not null are of one type; other paths, and files, have none.

Source: Delta's protocol, section "Statistics for Variant Columns"; the Iceberg table spec, on bounds of Variants; the
keys are normalized paths of RFC 9535, section 2.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.decode.variant_decode import DAMAGED, TYPES
from ..errors import MalformedVariantError
from ..hashing.column_type import ColumnType, Kind, from_arrow, make_domain_array
from ..metadata.writer_rules import SHORTEST_CUT
from ..predicate.pruning_statistics import UNKNOWN, PruningStatisticsArray
from ..predicate.variant_names import VariantName, to_arrow_type
from ..util.arrow_values import from_numpy, make_array, to_numpy
from ..variant.variant_layout import describe_leaf, open_variant
from ..variant.variant_path import VariantPath, parse_path
from ..variant.variant_values import extract

_ESCAPES = {"'": r"\'", "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_MAY_OVERFLOW = ("tinyint", "smallint", "int", "decimal")
_NONE = TYPES["missing"]
_DAY = 86_400_000_000  # of microseconds


class BoundVariants(NamedTuple):
    """Lower or upper bounds of a Variant column in some files.

    Attributes
    ----------
    files : positions of the files.
    variants : the Variant of each; null where there is none.
    """

    files: NDArray[np.intp]
    variants: pa.StructArray


class BoundTrust(NamedTuple):
    """Which bounds of a format are believed.

    Attributes
    ----------
    kinds : of types whose bounds all writers are known to take from all values.
    first_days : the first day, since 1970, that all writers give the same number, by the kind of type.
    """

    kinds: frozenset[Kind]
    first_days: Mapping[Kind, int]


FIXED_KINDS = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})
"""Kinds of types of which writers have statistics of each row group, where they have any.

Of floats they have none of one with a NaN. Writers pass over such row groups when they put bounds of a file together.
"""


def split_serialized(serialized: Sequence[bytes | None]) -> BoundVariants:
    """Return Variants that are serialized as their metadata with the value behind it, one for each file."""
    parts = [(None, None) if data is None else _split(data) for data in serialized]
    arrays = [make_array(column, pa.binary()) for column in zip(*parts, strict=True)] or [pa.nulls(0, pa.binary())] * 2
    absent = from_numpy(np.array([data is None for data in serialized], np.bool_))
    return BoundVariants(
        np.arange(len(serialized)), pa.StructArray.from_arrays(arrays, ["metadata", "value"], mask=absent)
    )


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Return the metadata and the value of a Variant; what is not one is damaged in both.

    Bytes behind the value remain: Delta's text fills them up to a multiple of four.
    """
    width = (data[0] >> 6) + 1 if data else 1
    names = int.from_bytes(data[1 : 1 + width], "little")
    end = 1 + width * (names + 2)
    size = end + int.from_bytes(data[end - width : end], "little")
    return (data[:size], data[size:]) if size < len(data) else (b"", b"")


def normalize_path(path: VariantPath) -> str | None:
    """Return the normalized path of RFC 9535, such as `$['a']['b']`; None for one with elements of arrays."""
    names = [part for part in path.parts if isinstance(part, str)]
    if len(names) < len(path.parts):
        return None
    return "$" + "".join(f"['{''.join(map(_escape, name))}']" for name in names)


def _escape(character: str) -> str:
    return _ESCAPES.get(character) or (character if character >= " " else f"\\u{ord(character):04x}")


def make_path_statistics(
    name: VariantName,
    lower: Sequence[BoundVariants],
    upper: Sequence[BoundVariants],
    has_values: NDArray[np.int8],
    trust: BoundTrust,
) -> PruningStatisticsArray | None:
    """Return the statistics of a path of a Variant, as a type; None if nothing is known of it in any file.

    A bound counts where it has the very type that is asked for, so that a cast gives each value unchanged. What a
    cast may have no room for counts where both bounds fit: then all values do, and no error of a cast is hidden.

    Parameters
    ----------
    lower, upper : bounds of the column in the files; a file is in at most one of each.
    has_values : whether each file has values in the column other than nulls: NO or UNKNOWN.
    trust : what is believed of them.
    """
    key = normalize_path(parse_path(name.path))
    arrow_type = to_arrow_type(name.target)
    column_type = from_arrow(arrow_type)
    if column_type.kind not in trust.kinds:
        lower = upper = ()
    low, low_known, low_types = _take_bounds(lower, key, arrow_type, column_type, len(has_values))
    high, high_known, high_types = _take_bounds(upper, key, arrow_type, column_type, len(has_values))
    if column_type.kind in trust.first_days:
        first = trust.first_days[column_type.kind] * (1 if column_type.kind is Kind.DATE else _DAY)
        low_known &= low.astype(np.int64) >= first
        high_known &= high.astype(np.int64) >= first
    needs_both = name.target.startswith(_MAY_OVERFLOW)
    # Beside a bound of another type, or a damaged one, a bound is not believed, either.
    is_alike = (low_types == high_types) | (low_types == _NONE) | (high_types == _NONE)
    low_known &= is_alike
    high_known &= is_alike
    if needs_both:
        low_known = high_known = low_known & high_known
    cut = None
    if column_type.kind in (Kind.STRING, Kind.BYTES):
        # Writers are known that cut bounds without rounding them up.
        cut = high_known & np.array([value is not None and len(value) >= SHORTEST_CUT for value in high], np.bool_)
    drop_swapped(low, low_known, high, high_known, cut)
    if not (low_known.any() or high_known.any() or (has_values != UNKNOWN).any()):
        return None
    nothing = np.zeros(len(has_values), np.bool_)
    return PruningStatisticsArray(
        column_type,
        has_values,
        np.full(len(has_values), UNKNOWN, np.int8),  # any number of rows may be without the path
        low,
        low_known,
        high,
        high_known,
        nothing,
        cut=cut,
        incomplete=~(low_known | high_known),
    )


def _take_bounds(
    parts: Sequence[BoundVariants], key: str | None, arrow_type: pa.DataType, column_type: ColumnType, count: int
) -> tuple[NDArray[np.generic], NDArray[np.bool_], NDArray[np.uint8]]:
    """Return the bounds of a path in all files, as domain values; which of them are known, and their types."""
    described = describe_leaf(arrow_type)
    assert described is not None, arrow_type
    values, known = make_domain_array([None] * count, column_type), np.zeros(count, np.bool_)
    types = np.full(count, _NONE, np.uint8)
    for files, variants in parts if key is not None else ():
        assert key is not None
        try:
            found = open_variant(variants).list_types([key.encode()])
        except MalformedVariantError:  # a checkpoint has something else in the place of Variants
            types[files] = DAMAGED
            continue
        types[files] = found
        chosen = np.flatnonzero(found == TYPES[described[0]])
        if len(chosen):
            typed = variants.take(from_numpy(chosen))
            bounds = extract(typed, VariantPath((key,)), arrow_type, try_cast=True)
            values[files[chosen]] = _to_domain(bounds, column_type)
            known[files[chosen]] = to_numpy(bounds.is_valid())
    return values, known, types


def _to_domain(bounds: pa.Array, column_type: ColumnType) -> NDArray[np.generic]:
    """Return values of a type as domain values, arbitrary ones for nulls."""
    kind = column_type.kind
    if kind is Kind.DECIMAL:
        data = memoryview(bounds.buffers()[1])[bounds.offset * 16 :]
        numbers = [int.from_bytes(data[16 * i : 16 * (i + 1)], "little", signed=True) for i in range(len(bounds))]
        return make_domain_array(numbers, column_type)
    if kind in (Kind.STRING, Kind.BYTES, Kind.BOOLEAN):
        stored = bounds.cast(pa.binary()) if kind is Kind.STRING else bounds
        return make_domain_array(stored.to_pylist(), column_type)
    if kind is Kind.DATE:
        bounds = bounds.cast(pa.int32())
    return bounds.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def drop_swapped(
    low: NDArray[np.generic],
    low_known: NDArray[np.bool_],
    high: NDArray[np.generic],
    high_known: NDArray[np.bool_],
    cut: NDArray[np.bool_] | None,
) -> None:
    """Drop both bounds of files whose lower one is above the upper one."""
    both = np.flatnonzero(low_known & high_known)
    swapped = both[np.asarray(np.greater(low[both], high[both]), np.bool_)]
    if cut is not None:
        swapped = np.array([i for i in swapped.tolist() if not (cut[i] and low[i].startswith(high[i]))], np.intp)
    low_known[swapped] = high_known[swapped] = False
