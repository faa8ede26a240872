"""IN with the values of an Arrow array, of which there may be millions: no Python object is made for each.

Such a leaf is evaluated on rows, and searched for in pages, without its literals. Whatever else asks for these gets
them, at the cost of as many objects: statistics and filters are better asked for a bound of the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..hashing.coerce import coerce, store_array, stored_forms
from ..hashing.column_type import ColumnType
from ..metadata.page_match import Targets
from . import literal
from .tree import In


class ArrayLiterals(Sequence[literal.Literal]):
    """Literals that are values of an Arrow array; they become Python objects where single ones are needed.

    Parameters
    ----------
    array : the values, none of them null.

    Attributes
    ----------
    array : as given.
    """

    def __init__(self, array: pa.Array):
        self.array = array

    @cached_property
    def _values(self) -> tuple[literal.Literal, ...]:
        return literal.from_collection(self.array)

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> literal.Literal: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[literal.Literal, ...]: ...

    def __getitem__(self, index: int | slice) -> literal.Literal | tuple[literal.Literal, ...]:
        if isinstance(index, slice):
            return literal.from_collection(self.array[index])
        return literal.from_python(self.array[index])

    def __iter__(self) -> Iterator[literal.Literal]:
        return iter(self._values)

    def __contains__(self, value: object) -> bool:
        return False if value is None else value in self._values

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.array,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InArray(In):
    """`column IN (values)`, of which `values` are `ArrayLiterals`."""

    def __post_init__(self) -> None:
        pass  # the values of an array were checked as one

    @property
    def array(self) -> pa.Array:
        """The values."""
        return cast(ArrayLiterals, self.values).array

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.column, self.values)


def make_in(column: str, array: pa.Array) -> InArray:
    """Make the leaf of a column and the values of an array without nulls."""
    return InArray(column, cast(Any, ArrayLiterals(array)))


def make_targets(literals: Sequence[object], column_type: ColumnType, timezone: str) -> Targets | None:
    """Return literals as they are stored in a column; None if one cannot be compared exactly.

    Parameters
    ----------
    literals : none of them None.
    column_type : of the column; equal values of it have the same bytes.
    """
    stored = store_array(literals.array, column_type) if isinstance(literals, ArrayLiterals) else None
    if stored is not None:
        return find_targets(stored.unique())
    coerced = coerce(literals, column_type, timezone)
    if coerced.reasons:
        return None
    return Targets([*dict.fromkeys(stored_forms(coerced.values, column_type))])


def find_targets(array: pa.Array) -> Targets | None:
    """Return the values of an array of stored values, all different, as targets; None for types without bytes."""
    slices = _slice(array)
    return None if slices is None else Targets.of_buffer(*slices)


def contain(targets: Targets, array: pa.Array) -> NDArray[np.bool_]:
    """Return for each stored value of an array whether it is one of the targets; whatever for null."""
    width = _find_width(array.type)
    if width:
        first = array.offset * width
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[first : first + len(array) * width]
        return targets.contain_fixed(data, width, len(array))
    slices = _slice(array)
    assert slices is not None
    return targets.contain_slices(*slices)


def _find_width(arrow_type: pa.DataType) -> int:
    """Return the bytes of each value of a type; 0 if they are not all as wide."""
    types = pa.types
    if types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type):
        return int(arrow_type.bit_width // 8)
    return int(arrow_type.byte_width) if types.is_fixed_size_binary(arrow_type) else 0


def _slice(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    """Return the bytes of an array, and where each of its values begins, and the last one ends."""
    width, buffers = _find_width(array.type), array.buffers()
    if width:
        starts = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * width
        return np.frombuffer(buffers[1] or b"", np.uint8), starts
    is_large = pa.types.is_large_binary(array.type)
    if not is_large and not pa.types.is_binary(array.type):
        return None
    if buffers[1] is None:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(buffers[1], np.int64 if is_large else np.int32)
    starts = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return np.frombuffer(buffers[2] or b"", np.uint8), starts
