"""Lists in Arrow columns: what type their elements have, and which lists have an element of some kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import PredicateError


def list_element_type(arrow_type: pa.DataType, name: str) -> pa.DataType:
    """The type of the elements of a list column.

    Raises
    ------
    PredicateError
        It is no list; a map is none either.
    """
    while isinstance(arrow_type, pa.BaseExtensionType) and not isinstance(arrow_type, pa.UuidType):
        arrow_type = arrow_type.storage_type
    types = pa.types
    if types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type):
        return arrow_type.value_type
    if types.is_list_view(arrow_type) or types.is_large_list_view(arrow_type):
        return arrow_type.value_type
    raise PredicateError(f"a {arrow_type} is no list", column=name)


def any_element(lists: pa.Array, is_wanted: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """For each list whether `is_wanted` is true of any of its elements; null for a list that is null."""
    while isinstance(lists, pa.ExtensionArray):
        lists = lists.storage
    starts, stops, elements = _list_layout(lists)
    is_null = lists.is_null().to_numpy(zero_copy_only=False)
    wanted = pc.fill_null(is_wanted(elements), False).to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(wanted)])
    return pa.array(before[stops] > before[starts], pa.bool_(), mask=is_null)


def _list_layout(lists: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array]:
    """Where each list's elements begin and end, and the elements."""
    types, kind = pa.types, lists.type
    if types.is_fixed_size_list(kind):
        starts = (np.arange(len(lists)) + lists.offset) * kind.list_size
        return starts, starts + kind.list_size, lists.values
    offsets = lists.offsets.to_numpy().astype(np.int64)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return offsets, offsets + lists.sizes.to_numpy(), lists.values
    return offsets[:-1], offsets[1:], lists.values
