"""A map by field id of many data files, such as the bounds of their columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .avro import Column


class FieldEntries(NamedTuple):
    """What a map of field ids has for one field: the rows, counted from the first data file, and their values."""

    rows: NDArray[np.int64]
    values: pa.Array


class MapPart(NamedTuple):
    """The entries of the maps of some data files: field id, the number of the file, and the value of each."""

    keys: NDArray[np.int32]
    rows: NDArray[np.int32]
    values: pa.Array

    @property
    def num_bytes(self) -> int:
        return int(self.keys.nbytes + self.rows.nbytes + self.values.nbytes)


def make_part(column: Column | None, chosen: pa.Array | None, value_type: pa.DataType) -> MapPart:
    """Return the entries of a column of maps, as Iceberg writes those with numbers as keys.

    Parameters
    ----------
    column : the maps; None for none.
    chosen : the files to take, as booleans; None for all. Rows are counted among these.

    Raises
    ------
    ValueError, pa.ArrowException
        They are no maps from field ids to such values.
    """
    if column is None:
        return MapPart(np.empty(0, np.int32), np.empty(0, np.int32), pa.array([], value_type))
    maps = column.array if chosen is None else column.array.filter(chosen)
    item = maps.type.value_type if pa.types.is_large_list(maps.type) else None
    names = [each.name for each in item] if item is not None and pa.types.is_struct(item) else []
    if sorted(names) != ["key", "value"]:
        raise ValueError("its columns are not described by maps")
    keys, values = (maps.flatten().field(names.index(name)) for name in ("key", "value"))
    stored = pa.int64() if pa.types.is_integer(value_type) else pa.large_binary()
    if keys.null_count or keys.type != pa.int64() or values.type != stored:
        raise ValueError("its columns are not described by maps from field ids to values")
    lengths = pc.list_value_length(maps).fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(maps), dtype=np.int32), lengths)
    return MapPart(keys.cast(pa.int32()).to_numpy(), rows, values.cast(value_type))


class FieldMap:
    """A map by field id of many data files, as columns: a hundred thousand dictionaries would fill the memory."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._value_type = value_type
        self._parts: list[tuple[int, MapPart]] = []

    def add(self, first: int, part: MapPart) -> None:
        """Add the maps of further files.

        Parameters
        ----------
        first : the number of the first of them.
        """
        if len(part.keys):
            self._parts.append((first, part))

    def select(self, field_id: int) -> FieldEntries:
        """Return what there is for one field; of two entries for a file, neither."""
        rows: list[NDArray[np.int64]] = []
        chunks = []
        for first, part in self._parts:
            chosen = np.flatnonzero(part.keys == field_id)
            rows.append(part.rows[chosen].astype(np.int64) + first)
            chunks.append(part.values.take(pa.array(chosen)))
        numbers = np.concatenate([np.empty(0, np.int64), *rows])
        selected = pa.concat_arrays([pa.array([], self._value_type), *chunks])
        again = np.flatnonzero(np.diff(numbers) == 0)
        if len(again):
            once = ~np.isin(numbers, numbers[again])
            numbers, selected = numbers[once], selected.filter(pa.array(once))
        return FieldEntries(numbers, selected)
