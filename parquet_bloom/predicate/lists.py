"""Lists as Arrow arrays: the type of their elements, and whether any element of a list matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError
from ..util.arrow_values import from_numpy, make_scalar, to_numpy
from ..util.lazy import late_module

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


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
