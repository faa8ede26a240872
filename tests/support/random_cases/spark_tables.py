"""Random Delta tables for Spark, by logs written line by line, and the rows that they have."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from support.random_cases.spark_lakes import KINDS, Column, Lake, _pool, escaped
from support.writers.delta_log import add, beginning, column, commit, inline_vector, stored_vectors

_SIMPLE = {
    "i8": "byte",
    "i16": "short",
    "i32": "integer",
    "i64": "long",
    "f32": "float",
    "f64": "double",
    "d9": "decimal(9,2)",
    "d18": "decimal(18,3)",
    "d38": "decimal(38,10)",
    "s": "string",
    "bin": "binary",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
    "nothing": "integer",
}
_LISTS = {"li": "long", "ls": "string", "lt": "timestamp"}
# Types that files may still have of a column whose type was widened.
_NARROW: dict[str, list[pa.DataType]] = {
    "i16": [pa.int8()],
    "i32": [pa.int8(), pa.int16()],
    "i64": [pa.int32(), pa.int16()],
    "f64": [pa.float32()],
    "d9": [pa.decimal128(6, 2)],
    "d18": [pa.decimal128(9, 3)],
    "d38": [pa.decimal128(18, 10)],
    "ts": [pa.timestamp("ms", "UTC")],
}
_FOLDERS: list[list[str | None]] = [
    [],
    ["02", "2", None],
    ["a b", "x/y", "100%", "é=ü", None, "{}[]*?,\\", "2020-01-01"],
]


@dataclass
class RandomDelta:
    """A table; `lake` has its folder and columns, `rows` its rows."""

    lake: Lake
    rows: pa.Table


def make_delta(rng: random.Random, path: Path, files: int = 6) -> RandomDelta:
    """Write a table: column mapping, partitions, deletion vectors, files of other types and with fewer columns."""
    kinds = ["s", "i64", "ts", *rng.sample(sorted({*_SIMPLE, *_LISTS, "st"} - {"s", "i64", "ts"}), 7)]
    columns = [Column(name, name, _pool(name, rng)) for name in kinds]
    lake = Lake(path, columns, rng.choice(_FOLDERS), [])
    mode = rng.choice(["none", "none", "name", "id"])
    mapped = mode != "none"
    numbers = {name: i for i, name in enumerate(["row", *kinds, "p"], 1)}
    fields = [_describe("row", "i64", numbers["row"], mapped), *(_describe(k, k, numbers[k], mapped) for k in kinds)]
    if lake.folders:
        fields.append(_describe("p", "s", numbers["p"], mapped))
    features = ["deletionVectors", "timestampNtz", *(["columnMapping"] if mapped else [])]
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "99"} if mapped else {}
    actions: list[Any] = beginning(fields, ["p"] if lake.folders else [], configuration, features)
    parts = []
    for number in range(files):
        odd = rng.random() < 0.4
        made, shown = _draw_file(rng, lake, number, numbers if mapped else None, odd)
        deleted = [i for i in range(len(shown)) if rng.random() < 0.3] if rng.random() < 0.4 else []
        value = lake.folders[number % len(lake.folders)] if lake.folders else None
        folder = f"p={escaped(value)}/" if lake.folders and rng.random() < 0.8 else ""
        name = f"{folder}part {number}.parquet"
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        # INT96 for Spark's own scan alone: tasks refuse its years that nanoseconds cannot count.
        is_old = not (mapped or odd or deleted or "ntz" in kinds) and rng.random() < 0.5
        pq.write_table(made, path / name, row_group_size=rng.choice([10, 100]), use_deprecated_int96_timestamps=is_old)
        embedded = [f"c-{numbers[n]}" if mapped else n for n in ("s", "i64") if n in shown.column_names]
        if embedded and rng.random() < 0.6:
            parquet_bloom.embed(path / name, embedded)
        members: dict[str, Any] = {}
        if lake.folders:
            members["partitionValues"] = {f"c-{numbers['p']}" if mapped else "p": value}
            shown = shown.append_column("p", pa.array([value] * len(shown), pa.string()))
        if deleted:
            vectors = [inline_vector(deleted)] if rng.random() < 0.5 else stored_vectors(path, [deleted])
            members["deletionVector"] = vectors[0]
        actions.append(add(quote(name), (path / name).stat().st_size, {"numRecords": len(shown)}, **members))
        parts.append(shown.take([i for i in range(len(shown)) if i not in {*deleted}]))
        lake.story.append(f"{name}: {made.schema.names}, {len(deleted)} deleted")
    commit(path, 0, actions)
    names = ["row", *kinds, *(["p"] if lake.folders else [])]
    types = [pa.int64(), *(KINDS[kind].arrow for kind in kinds), *([pa.string()] if lake.folders else [])]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return RandomDelta(lake, pa.concat_tables([_complete(part, schema) for part in parts]))


def _describe(name: str, kind: str, number: int, mapped: bool) -> dict[str, Any]:
    return column(name, _delta_type(kind, number, mapped), number if mapped else None)


def _delta_type(kind: str, number: int, mapped: bool) -> Any:
    if kind in _LISTS:
        return {"type": "array", "elementType": _LISTS[kind], "containsNull": True}
    if kind == "st":
        first = 100 * number  # physical names of fields are the logical ones, as of a table that was mapped later
        inner = {"type": "struct", "fields": [_field("c", "string", first + 1, mapped)]}
        fields = [("a", "long"), ("b", inner), ("t", "timestamp"), ("f", "double")]
        return {"type": "struct", "fields": [_field(n, t, first + i, mapped) for i, (n, t) in enumerate(fields, 2)]}
    return _SIMPLE[kind]


def _field(name: str, kind: Any, number: int, mapped: bool) -> dict[str, Any]:
    metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name} if mapped else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def _draw_file(
    rng: random.Random, lake: Lake, number: int, numbers: dict[str, int] | None, odd: bool
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a file as it has them, and as the table shows them, without columns that the file lacks."""
    count = rng.choice([10, 40])
    made: dict[str, pa.Array] = {"row": pa.array(range(number * 1000, number * 1000 + count), pa.int64())}
    shown = dict(made)
    for each in lake.columns:
        if odd and rng.random() < 0.2:
            continue
        arrow = KINDS[each.kind].arrow
        values = pa.array(rng.choices(rng.sample(each.pool, min(len(each.pool), 8)), k=count), arrow)
        other = rng.choice(_NARROW[each.kind]) if odd and each.kind in _NARROW and rng.random() < 0.4 else arrow
        stored = values if other == arrow else _narrow(values, other)
        made[each.name], shown[each.name] = stored, stored.cast(arrow)
    if numbers is not None:
        made = {f"c-{numbers[name]}": array for name, array in made.items()}
        if odd:  # a column that was dropped, under the name of another
            made["s"] = pa.array(["dropped"] * count)
        if rng.random() < 0.5:
            made = dict(rng.sample(list(made.items()), len(made)))
    if numbers is None:
        return pa.table(made), pa.table(shown)
    fields = [pa.field(n, _add_ids(array.type, n), metadata=_number(n)) for n, array in made.items()]
    return pa.Table.from_arrays(list(made.values()), schema=pa.schema(fields)), pa.table(shown)


def _add_ids(arrow: pa.DataType, name: str) -> pa.DataType:
    """Return the type of a column with the field ids of `_delta_type` in a struct."""
    if not pa.types.is_struct(arrow):
        return arrow
    first = 100 * int(name[2:])
    c = pa.field("c", pa.string(), metadata={b"PARQUET:field_id": str(first + 1).encode()})
    inner = [field.with_type(pa.struct([c])) if field.name == "b" else field for field in arrow]
    numbers = [{b"PARQUET:field_id": str(number).encode()} for number in range(first + 2, first + 2 + len(inner))]
    return pa.struct([field.with_metadata(one) for field, one in zip(inner, numbers, strict=True)])


def _number(name: str) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": (name[2:] if name.startswith("c-") else "77").encode()}


def _narrow(values: pa.Array, other: pa.DataType) -> pa.Array:
    """Return values as a narrower type, those that it does not have as nulls."""
    parts = []
    for i in range(len(values)):
        try:
            parts.append(values[i : i + 1].cast(other))
        except pa.ArrowException:
            parts.append(pa.nulls(1, other))
    return pa.concat_arrays(parts)


def _complete(part: pa.Table, schema: pa.Schema) -> pa.Table:
    arrays = [part[f.name] if f.name in part.column_names else pa.nulls(len(part), f.type) for f in schema]
    return pa.table(arrays, schema)
