"""Files of Variants that are shredded by hand: each column of the layout is given as it is to be stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NULL, NUMBER = b"\0", b"\x0c\x07"  # encoded: Variant null, and 7 as an int8
METADATA = b"\x01\0\0"


def make_field(kind: pa.DataType) -> pa.DataType:
    """Return the type of a shredded field."""
    return pa.struct([("value", pa.binary()), ("typed_value", kind)])


def make_object(**fields: pa.DataType) -> pa.DataType:
    """Return the type of an object's `typed_value`."""
    return pa.struct([pa.field(name, make_field(kind), nullable=False) for name, kind in fields.items()])


KIND = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        ("value", pa.binary()),
        (
            "typed_value",
            make_object(
                **{
                    "id": pa.int64(),
                    "s.t": pa.string(),
                    "o": make_object(x=pa.float64()),
                    "l": pa.list_(make_field(pa.int64())),
                }
            ),
        ),
    ]
)


def row(number: int, **changed: Any) -> dict[str, Any]:
    """Return a Variant whose path `id` is a number; `changed` names what of the groups is another."""
    typed = {
        "id": {"value": None, "typed_value": number},
        "s.t": {"value": None, "typed_value": f"t{number}"},
        "o": {"value": None, "typed_value": {"x": {"value": None, "typed_value": number / 2}}},
        "l": {"value": None, "typed_value": [{"value": None, "typed_value": number}]},
    }
    made = {"metadata": METADATA, "value": None, "typed_value": typed}
    for place, value in changed.items():
        *groups, last = place.split("__")
        target: dict[str, Any] = made
        for group in groups:
            target = target[group]
        target[last] = value
    return made


def write(path: Path, rows: list[dict[str, Any] | None], group: int = 3, **options: Any) -> Path:
    """Write Variants, numbered by a column `k`, in row groups of so many rows."""
    table = pa.table({"k": range(len(rows)), "v": pa.array(rows, KIND)})
    pq.write_table(table, path, row_group_size=group, **options)
    return path
