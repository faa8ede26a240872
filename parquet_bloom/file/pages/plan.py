"""The columns of a file of which rows can be taken out of pages."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...metadata.footer import Leaf
from ..columns import holds_elements
from ..reader import BloomFile
from .plain import find_layout

RowPositions = NDArray[np.int64]


class FlatColumn(NamedTuple):
    """A column with one value per row, directly below the root, whose name is unique.

    Attributes
    ----------
    leaf, arrow : the column, and its Arrow type.
    layout : the Arrow type that has its stored values, byte for byte, see `plain.find_layout`; None if there is none.
    """

    leaf: Leaf
    arrow: pa.DataType
    layout: pa.DataType | None

    @property
    def same(self) -> bool:
        """Whether its stored values are, byte for byte, those of its Arrow type."""
        return self.layout is self.arrow


class ListColumn(NamedTuple):
    """A column of lists of single values, directly below the root, whose name is unique.

    Attributes
    ----------
    leaf, arrow : the elements, and the Arrow type of the lists.
    layout : the Arrow type that has the elements' stored values, see `plain.find_layout`.
    """

    leaf: Leaf
    arrow: pa.DataType
    layout: pa.DataType


def find_flat_columns(file: BloomFile, schema: pa.Schema) -> dict[str, FlatColumn]:
    """Return the flat columns of a file by name; computed once per file and schema."""
    entry: tuple[pa.Schema, dict[str, FlatColumn]] | None = file.cached.derived.get("flat_columns")
    if entry is None or entry[0] is not schema:
        names = Counter(schema.names)
        tops = Counter(leaf.path[0] for leaf in file.leaves)
        columns = {}
        for leaf in file.leaves:
            name = leaf.path[0]
            if len(leaf.path) == 1 and not leaf.repeated and names[name] == 1 == tops[name]:
                arrow = schema.field(name).type
                columns[name] = FlatColumn(leaf, arrow, find_layout(leaf, arrow))
        entry = file.cached.derived["flat_columns"] = schema, columns
    return entry[1]


def find_list_columns(file: BloomFile, schema: pa.Schema) -> dict[str, ListColumn]:
    """Return the columns of lists of a file by name whose elements can be taken out of their pages."""
    columns = {}
    names, tops = Counter(schema.names), Counter(leaf.path[0] for leaf in file.leaves)
    for leaf in file.leaves:
        name = leaf.path[0]
        if not leaf.repeated or not names[name] == 1 == tops[name] or not holds_elements(leaf, name):
            continue
        arrow = schema.field(name).type
        if not pa.types.is_list(arrow) or pa.types.is_dictionary(arrow.value_type):
            continue
        layout = find_layout(leaf, arrow.value_type)
        if layout is not None and leaf.physical != "INT96":
            columns[name] = ListColumn(leaf, arrow, layout)
    return columns
