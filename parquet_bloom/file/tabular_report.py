"""Reports as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal, TypeAlias

import pyarrow as pa

from ..storage.paths import as_utf8
from ..util.arrow_export import ArrowExport
from ..util.arrow_values import make_array

Kind: TypeAlias = Literal["bool", "float", "int", "path", "text", "texts"]

_TYPES: Mapping[Kind, pa.DataType] = {
    "bool": pa.bool_(),
    "float": pa.float64(),
    "int": pa.int64(),
    "path": pa.string(),
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
}


class TabularReport(ArrowExport):
    """A report whose parts are rows of a table, of the columns `_columns`: {name: kind of its values}."""

    _columns: ClassVar[Mapping[str, Kind]]

    def _make_rows(self) -> Iterable[tuple[object, ...]]:
        """Make the rows: a value, or None, for each column."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """Return the parts of the report as a table. A path that is not UTF-8 is a `file:` URI."""
        values: list[list[object]] = [[] for _ in self._columns]
        for row in self._make_rows():
            for column, kind, value in zip(values, self._columns.values(), row, strict=True):
                column.append(as_utf8(value) if kind == "path" and isinstance(value, str) else value)
        types = [_TYPES[kind] for kind in self._columns.values()]
        return pa.Table.from_arrays(list(map(make_array, values, types)), names=list(self._columns))
