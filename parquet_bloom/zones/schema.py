"""The table of zones: Lance's schema, and what must hold for it to be believed."""

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
    """What filters were sized for: items a zone, and a false-positive probability."""

    items: int
    probability: float

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None, path: str | None) -> FilterSizing:
        """As a schema's metadata says; Lance's defaults where it does not.

        Raises
        ------
        BrokenZonesError
            It says something that cannot be.
        """
        metadata = metadata or {}
        try:
            items = int(metadata.get(ITEMS_KEY, b"%d" % DEFAULT_ITEMS))
            probability = float(metadata.get(PROBABILITY_KEY, repr(DEFAULT_PROBABILITY).encode()))
        except ValueError:
            items, probability = 0, 0.0
        if not 1 <= items < 1 << 63 or not 0 < probability < 1:
            told = [metadata.get(key, b"")[:20].decode("utf-8", "replace") for key in (ITEMS_KEY, PROBABILITY_KEY)]
            raise BrokenZonesError(f"metadata: filters of {told[0]} items at {told[1]} cannot be", path=path)
        return cls(items, probability)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """As a schema says it."""
        return {ITEMS_KEY: str(self.items).encode(), PROBABILITY_KEY: repr(self.probability).encode()}


def require_schema(schema: pa.Schema, path: str | None) -> None:
    """Raise BrokenZonesError unless the columns are those of a zone index; their order does not matter."""
    for field in SCHEMA:
        places = schema.get_all_field_indices(field.name)
        if len(places) != 1:
            problem = f"it is no zone index: {len(places) or 'no'} columns of the name {field.name}"
            raise BrokenZonesError(problem, path=path)
        found = schema.field(places[0]).type
        if found != field.type and not (field.name == FILTERS and found == pa.large_binary()):
            problem = f"it is no zone index: column {field.name} has values of {found}, not of {field.type}"
            raise BrokenZonesError(problem, path=path)


def read_zones(table: pa.Table, path: str | None) -> NDArray[np.void]:
    """The zones of a table whose schema is right, without their filters; an array of ZONE.

    Raises
    ------
    BrokenZonesError
        One is null, empty or impossibly large, or two of a fragment have rows in common.
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
    """Zones as a table, without their filters."""
    return pa.table({name: np.ascontiguousarray(zones[name]) for name in NUMBERS})


def to_table(zones: NDArray[np.void], filters: pa.ChunkedArray, metadata: Mapping[bytes, bytes]) -> pa.Table:
    """The table of zones and their filters, in Lance's schema."""
    columns = [pa.array(np.ascontiguousarray(zones[name])) for name in NUMBERS]
    return pa.Table.from_arrays([*columns, filters], schema=SCHEMA.with_metadata(metadata))


def to_answer(zones: NDArray[np.void]) -> pa.Table:
    """Some zones as an answer names them."""
    columns = [pa.array(np.ascontiguousarray(zones[name])) for name in NUMBERS[:3]]
    return pa.Table.from_arrays(columns, schema=ANSWER)
