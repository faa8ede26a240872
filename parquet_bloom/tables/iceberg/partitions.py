"""The values of identity partition columns, which Iceberg's metadata has for each data file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .columns import Field


def find_identities(specs: Mapping[int, Any]) -> dict[int, dict[int, int]]:
    """Return {field id of the column: {spec id: position of its value}} of the identity partitions of all specs."""
    from pyiceberg.transforms import IdentityTransform

    result: dict[int, dict[int, int]] = {}
    for spec_id, spec in specs.items():
        for position, each in enumerate(spec.fields):
            if isinstance(each.transform, IdentityTransform):
                result.setdefault(each.source_id, {}).setdefault(spec_id, position)
    return result


def make_values(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Return partition values, as pyiceberg reads them, in a column's Arrow type.

    It reads dates, times and timestamps as numbers of the column's unit.
    """
    if isinstance(arrow_type, pa.BaseExtensionType):  # UUIDs
        plain = [getattr(value, "bytes", value) for value in values]
        return pa.ExtensionArray.from_storage(arrow_type, pa.array(plain, arrow_type.storage_type))
    if pa.types.is_temporal(arrow_type):
        width = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(arrow_type)
    return pa.array(values, arrow_type)


def serialize_values(column: Field, values: Sequence[Any], known: Sequence[bool]) -> pa.StructArray:
    """Return partition values of a column as bounds in the metadata would have them, and which are known."""
    from pyiceberg.conversions import to_bytes

    stored: list[bytes | None] = []
    certain = []
    for value, is_known in zip(values, known, strict=True):
        serialized = None
        if is_known and value is not None:
            try:
                serialized = to_bytes(column.iceberg_type, value)
            except Exception:  # of many kinds: it is not a value of the type
                is_known = False
        stored.append(serialized)
        certain.append(is_known)
    fields = [pa.array(np.array(certain, np.bool_)), pa.array(stored, pa.binary())]
    return pa.StructArray.from_arrays(fields, ["known", "value"])
