"""The table of zones: Lance's schema and its validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import BrokenZonesError

FILTERS = "bloom_filter_data"
NUMBERS = ("fragment_id", "zone_start", "zone_length", "has_null")

SCHEMA = pa.schema(
    [
        pa.field("fragment_id", pa.uint64(), nullable=False),
        pa.field("zone_start", pa.uint64(), nullable=False),
        pa.field("zone_length", pa.uint64(), nullable=False),
        pa.field("has_null", pa.bool_(), nullable=False),
        pa.field(FILTERS, pa.binary(), nullable=False),
    ]
)

ANSWER = pa.schema([SCHEMA.field(name) for name in NUMBERS[:3]])

ZONE = np.dtype([("fragment_id", "<u8"), ("zone_start", "<u8"), ("zone_length", "<u8"), ("has_null", "?")])

ITEMS_KEY, PROBABILITY_KEY = b"bloomfilter_item", b"bloomfilter_probability"
DEFAULT_ITEMS, DEFAULT_PROBABILITY = 8192, 0.00057
_MAX_ROWS = 1 << 62


@dataclass(frozen=True)
class FilterSizing:
    """The parameters of filter sizes: items per zone, and false-positive probability."""

    items: int
    probability: float

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None, path: str | None) -> FilterSizing:
        """Read the parameters from schema metadata; Lance's defaults if they are missing.

        Raises
        ------
        BrokenZonesError
            They are invalid.
        """
        metadata = metadata or {}
        try:
            items = int(metadata.get(ITEMS_KEY, b"%d" % DEFAULT_ITEMS))
            probability = float(metadata.get(PROBABILITY_KEY, repr(DEFAULT_PROBABILITY).encode()))
        except ValueError:
            items, probability = 0, 0.0
        if not 1 <= items < 1 << 63 or not 0 < probability < 1:
            texts = [metadata.get(key, b"")[:20].decode("utf-8", "replace") for key in (ITEMS_KEY, PROBABILITY_KEY)]
            raise BrokenZonesError(f"metadata: filters of {texts[0]} items at {texts[1]} cannot be", path=path)
        return cls(items, probability)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Return the schema metadata for these parameters."""
        return {ITEMS_KEY: str(self.items).encode(), PROBABILITY_KEY: repr(self.probability).encode()}


def require_schema(schema: pa.Schema, path: str | None) -> None:
    """Raise BrokenZonesError unless the columns are those of a zone index; their order does not matter."""
    for field in SCHEMA:
        indices = schema.get_all_field_indices(field.name)
        if len(indices) != 1:
            problem = f"it is not a zone index: {len(indices) or 'no'} columns of the name {field.name}"
            raise BrokenZonesError(problem, path=path)
        arrow_type = schema.field(indices[0]).type
        if arrow_type != field.type and not (field.name == FILTERS and arrow_type == pa.large_binary()):
            problem = f"it is not a zone index: column {field.name} has values of {arrow_type}, not of {field.type}"
            raise BrokenZonesError(problem, path=path)


def read_zones(table: pa.Table, path: str | None) -> NDArray[np.void]:
    """Read the zones of a table with a valid schema, without their filters, as an array of ZONE.

    Raises
    ------
    BrokenZonesError
        A zone is null, empty or too large, or two zones of a fragment overlap.
    """
    zones = np.empty(table.num_rows, ZONE)
    for name in NUMBERS:
        column = table[name]
        if column.null_count:
            raise BrokenZonesError(f"column {name} has nulls", path=path)
        zones[name] = column.combine_chunks().to_numpy(zero_copy_only=False) if len(column) else 0
    starts, lengths = zones["zone_start"], zones["zone_length"]
    bad = (lengths < 1) | (lengths > _MAX_ROWS) | (starts > _MAX_ROWS)
    if bad.any():
        first = int(bad.argmax())
        problem = f"zone {first}: {lengths[first]} rows from row {starts[first]} on cannot be"
        raise BrokenZonesError(problem, path=path)
    order = np.lexsort((starts, zones["fragment_id"]))
    fragments, firsts, ends = zones["fragment_id"][order], starts[order], (starts + lengths)[order]
    overlap = (fragments[1:] == fragments[:-1]) & (firsts[1:] < ends[:-1])
    if overlap.any():
        first = int(overlap.argmax())
        problem = f"fragment {fragments[first]}: zones {order[first]} and {order[first + 1]} have rows in common"
        raise BrokenZonesError(problem, path=path)
    return zones


def to_zone_table(zones: NDArray[np.void]) -> pa.Table:
    """Return zones as a table, without their filters."""
    return pa.table({name: np.ascontiguousarray(zones[name]) for name in NUMBERS})


def to_table(zones: NDArray[np.void], filters: pa.ChunkedArray, metadata: Mapping[bytes, bytes]) -> pa.Table:
    """Return zones and their filters as a table in Lance's schema."""
    columns = [pa.array(np.ascontiguousarray(zones[name])) for name in NUMBERS]
    return pa.Table.from_arrays([*columns, filters], schema=SCHEMA.with_metadata(metadata))


def to_answer(zones: NDArray[np.void]) -> pa.Table:
    """Return zones as the table of a query result."""
    columns = [pa.array(np.ascontiguousarray(zones[name])) for name in NUMBERS[:3]]
    return pa.Table.from_arrays(columns, schema=ANSWER)
