"""What the evidence of columns that a file stores parts of a Variant in says of a path of the Variant.

What has the type of `typed_value` is there, everything else in `value` (see `file_columns.find_variant_path`). So the
column `typed_value` of a path has all values at the path of a row group only if neither the path's own `value` nor that
of any group around it may have one.

Source: the Parquet format's VariantShredding.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..hashing.column_type import ColumnType, Kind
from ..metadata.footer import SchemaLeaf
from ..predicate.pruning_statistics import NO, UNKNOWN, PruningStatisticsArray
from ..predicate.variant_names import VariantName, find_decimal
from ..variant.variant_path import parse_path
from .file_columns import ShreddedPath, find_variant_path, type_of

_VARIANT_NULL = b"\0"
"""How the null of a Variant is encoded."""

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_KINDS = {
    "boolean": Kind.BOOLEAN,
    "string": Kind.STRING,
    "binary": Kind.BYTES,
    "date": Kind.DATE,
}
_PHYSICAL = {"float": "FLOAT", "double": "DOUBLE"}
_IS_INSTANT = {"timestamp": True, "timestamp_ntz": False}


def find_shredded(leaves: Sequence[SchemaLeaf], name: VariantName, ignore_case: bool = False) -> ShreddedPath | str:
    """Return the column that has the values at a path of a Variant, as they are cast to a type; or why there is none.

    Parameters
    ----------
    leaves : of the file.
    ignore_case : of the Variant's own name: the names in its path are compared as they are.
    """
    path = parse_path(name.path)
    if any(isinstance(step, int) for step in path.parts):
        return "elements of arrays have no evidence of their own"
    found = find_variant_path(leaves, name.column, path, ignore_case)
    if found is None:
        return "it is no Variant"
    if found.leaf is None:
        return f"{name.path} is not stored as a column"
    column_type = type_of(found.leaf)
    if not is_cast_as_stored(column_type, name.target):
        return f"{name.path} is stored as {column_type}, not as {name.target}"
    return found


def is_cast_as_stored(column_type: ColumnType, target: str) -> bool:
    """Return whether a cast to a type leaves all values of a column as they are stored.

    Integers of fewer bits are cast to more without a change; all other types have to be the same.
    """
    kind = column_type.kind
    if target in _INTEGER_BITS:
        return kind is Kind.INTEGER and column_type.signed and (column_type.bits or 64) <= _INTEGER_BITS[target]
    if target in _PHYSICAL:
        return kind is Kind.FLOAT and column_type.physical == _PHYSICAL[target]
    if target in _IS_INSTANT:
        return kind is Kind.TIMESTAMP and (column_type.unit, column_type.utc) == ("us", _IS_INSTANT[target])
    if target in _KINDS:
        return kind is _KINDS[target]
    precision, scale = find_decimal(target)
    is_decimal = kind is Kind.DECIMAL and column_type.scale == scale
    return is_decimal and column_type.precision is not None and column_type.precision <= precision


def drop_incomplete(
    evidence: PruningStatisticsArray, residuals: Sequence[PruningStatisticsArray]
) -> PruningStatisticsArray:
    """Drop what statistics of a path's column say of row groups in which the path may have other values.

    It may where a residual column has a value other than a Variant's null, in which no path leads to a value. Nothing
    is said of nulls, either: any number of rows may be without the path.
    """
    is_complete = np.ones(len(evidence), np.bool_)
    for residual in residuals:
        is_complete &= (residual.has_values == NO) | _has_only(residual, _VARIANT_NULL)
    unknown = np.full(len(evidence), UNKNOWN, np.int8)
    doubts = evidence.doubts
    if not is_complete.all():
        problem = "rows may have values of other types there"
        known = doubts or (None,) * len(evidence)
        doubts = tuple(doubt if one else problem for doubt, one in zip(known, is_complete.tolist(), strict=True))
    return replace(
        evidence,
        has_values=np.where(is_complete, evidence.has_values, unknown),
        has_nulls=unknown,
        low_known=evidence.low_known & is_complete,
        high_known=evidence.high_known & is_complete,
        filtered=evidence.filtered & is_complete,
        doubts=doubts,
        has_nans=None if evidence.has_nans is None else np.where(is_complete, evidence.has_nans, unknown),
        incomplete=None if is_complete.all() else ~is_complete,
    )


def _has_only(statistics: PruningStatisticsArray, value: bytes) -> NDArray[np.bool_]:
    """Return where bounds show that a column of bytes has no other value."""
    is_bounded = statistics.low_known & statistics.high_known
    if statistics.cut is not None:
        is_bounded = is_bounded & ~statistics.cut
    for i in np.flatnonzero(is_bounded).tolist():  # one by one: numpy takes zeros off the end of bytes
        is_bounded[i] = statistics.low[i] == value == statistics.high[i]
    return is_bounded
