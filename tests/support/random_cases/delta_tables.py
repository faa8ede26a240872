"""Random Delta tables: partitions, both modes of column mapping, deletion vectors, columns that come and go."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from support.writers.delta_log import (
    add,
    beginning,
    column,
    commit,
    inline_vector,
    remove,
    stored_vectors,
    struct_of,
    write_checkpoint,
)

_EPOCH = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_TEXTS = ("a", "b" * 40, "é=ü", "100%", "x/y", "a b", "", "z\U0001f600" * 20, "null", "__HIVE_DEFAULT_PARTITION__")

_PART = pa.struct([("a", pa.int32()), ("b", pa.string())])
TYPES: dict[str, tuple[Any, pa.DataType]] = {
    "long": ("long", pa.int64()),
    "integer": ("integer", pa.int32()),
    "short": ("short", pa.int16()),
    "string": ("string", pa.string()),
    "double": ("double", pa.float64()),
    "float": ("float", pa.float32()),
    "date": ("date", pa.date32()),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC")),
    "decimal": ("decimal(18,2)", pa.decimal128(18, 2)),
    "boolean": ("boolean", pa.bool_()),
    "binary": ("binary", pa.binary()),
}
PARTITION_KINDS = ("string", "integer", "date", "timestamp", "boolean", "long")


@dataclass
class Field:
    """A column of the table: its number, by which files name it, its name now, and its kind."""

    number: int
    name: str
    kind: str


@dataclass
class File:
    """A data file: its name in the log, its rows as {number of a column: value}, and which of them are deleted."""

    path: str
    rows: list[dict[int, Any]]
    partition: dict[int, Any]
    action: dict[str, Any]
    deleted: set[int] = field(default_factory=set)


@dataclass
class RandomDelta:
    """A table, with the rows that each version has.

    Attributes
    ----------
    root : its folder.
    rows : {version: rows as {name: value}}.
    fields : its columns now; the first ones partition it.
    """

    root: Path
    mode: str
    fields: list[Field]
    num_partitions: int
    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    live: dict[str, File] = field(default_factory=dict)

    @property
    def partitions(self) -> list[Field]:
        return self.fields[: self.num_partitions]

    def make_schema(self) -> list[dict[str, Any]]:
        return [self._describe(one) for one in self.fields]

    def _describe(self, one: Field) -> dict[str, Any]:
        number = None if self.mode == "none" else one.number
        if one.kind == "struct":
            parts = [("a", "integer"), ("b", "string")]
            kind = struct_of(
                *(
                    column(name, kind, None if number is None else number * 100 + i)
                    for i, (name, kind) in enumerate(parts)
                )
            )
            return column(one.name, kind, number)
        return column(one.name, TYPES[one.kind][0], number)

    def physical(self, one: Field) -> str:
        return one.name if self.mode == "none" else f"c-{one.number}"


def draw_delta(rng: random.Random, root: Path, versions: int = 8) -> RandomDelta:
    """Write a random table."""
    mode = rng.choice(("none", "name", "id"))
    count = rng.choice((0, 0, 1, 2))
    kinds = [rng.choice(PARTITION_KINDS) for _ in range(count)]
    kinds += ["long", *(rng.choice([*TYPES, "struct"]) for _ in range(rng.randint(1, 5)))]
    fields = [Field(i + 1, f"c{i + 1}" if rng.random() < 0.8 else f"Col {i + 1}", kind) for i, kind in enumerate(kinds)]
    table = RandomDelta(root, mode, fields, count)
    actions = _begin(table)
    actions += [_write_file(rng, table) for _ in range(rng.randint(1, 3))]
    _commit(table, 0, actions)
    next_number = len(fields) + 1
    for version in range(1, versions):
        draw = rng.random()
        if draw < 0.35 or not table.live:
            actions = [_write_file(rng, table) for _ in range(rng.randint(1, 3))]
        elif draw < 0.45:
            file = table.live.pop(rng.choice([*table.live]))
            actions = [_remove(file)]
        elif draw < 0.75:
            actions = _delete_rows(rng, table)
        elif draw < 0.85:
            table.fields.append(Field(next_number, f"new{next_number}", rng.choice([*TYPES, "struct"])))
            next_number += 1
            actions = _begin(table)[1:]
        elif mode != "none" and len(table.fields) > count + 2 and draw < 0.92:
            dropped = table.fields.pop(rng.randrange(count + 1, len(table.fields)))
            table.fields.append(Field(next_number, dropped.name, rng.choice([*TYPES])))  # another one of its name
            next_number += 1
            actions = _begin(table)[1:]
        elif mode != "none":
            rng.choice(table.fields).name = f"renamed{version}"
            actions = _begin(table)[1:]
        else:
            actions = [_write_file(rng, table)]
        _commit(table, version, actions)
        if rng.random() < 0.15:
            state = [*_begin(table), *({"add": file.action} for file in table.live.values())]
            write_checkpoint(root, version, state, rng.choice(("single", "parts")))
    return table


def _begin(table: RandomDelta) -> list[dict[str, Any]]:
    features = ["deletionVectors", *(() if table.mode == "none" else ("columnMapping",))]
    configuration = {"delta.enableDeletionVectors": "true"}
    if table.mode != "none":
        configuration |= {"delta.columnMapping.mode": table.mode, "delta.columnMapping.maxColumnId": "100000"}
    return beginning(table.make_schema(), [one.name for one in table.partitions], configuration, features)


def _commit(table: RandomDelta, version: int, actions: list[dict[str, Any]]) -> None:
    commit(table.root, version, actions)
    table.rows[version] = [
        {one.name: (row | file.partition).get(one.number) for one in table.fields}
        for file in table.live.values()
        for i, row in enumerate(file.rows)
        if i not in file.deleted
    ]


def _draw(rng: random.Random, kind: str) -> Any:
    if rng.random() < 0.1:
        return None
    number = rng.randint(-50, 50)
    if kind in ("long", "integer", "short"):
        return number
    if kind == "string":
        return rng.choice(_TEXTS) + str(number) * (rng.random() < 0.5)
    if kind == "double":
        return rng.choice((number / 7, float(number), float("nan"), -0.0, float("inf")))
    if kind == "float":
        return struct.unpack("f", struct.pack("f", number / 7))[0]
    if kind == "date":
        return (_EPOCH + dt.timedelta(days=number)).date()
    if kind == "timestamp":
        return _EPOCH + dt.timedelta(microseconds=number * 123_456)
    if kind == "decimal":
        return Decimal(number) / 4 + rng.choice((0, Decimal("1234567890123456.78")))
    if kind == "boolean":
        return number > 0
    if kind == "binary":
        return bytes([number & 0xFF]) * 3
    return {"a": rng.choice((None, number)), "b": rng.choice((None, *_TEXTS))}


def _draw_partition(rng: random.Random, kind: str) -> Any:
    value = _draw(rng, kind)
    return None if value == "" else value  # Delta has no empty texts there


def _to_text(value: Any) -> str | None:
    """Return a partition value as the log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


def _write_file(rng: random.Random, table: RandomDelta) -> dict[str, Any]:
    partition = {one.number: _draw_partition(rng, one.kind) for one in table.partitions}
    stored = table.fields[table.num_partitions :]
    count = rng.choice((1, 5, 20, 60))
    rows = [{one.number: _draw(rng, one.kind) for one in stored} for _ in range(count)]
    arrays, fields = [], []
    for one in stored:
        kind, name = _find_type(table, one), table.physical(one)
        values = [row[one.number] for row in rows]
        if one.kind == "struct" and table.mode != "none":
            values = [
                value and {f"c-{one.number * 100}": value["a"], f"c-{one.number * 100 + 1}": value["b"]}
                for value in values
            ]
        arrays.append(pa.array(values, kind))
        ids = {b"PARQUET:field_id": str(one.number).encode()} if table.mode == "id" else None
        fields.append(pa.field(name, kind, metadata=ids))
    folders = "".join(
        f"{table.physical(one)}={quote(_to_text(partition[one.number]) or '__HIVE_DEFAULT_PARTITION__', safe='')[:90]}/"
        for one in table.partitions
    )
    name = f"{folders}part-{rng.getrandbits(64):x}.parquet"
    path = table.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    pq.write_table(data, path, row_group_size=rng.choice((7, 30, 100)), write_page_index=rng.random() < 0.5)
    texts = {table.physical(one): _to_text(partition[one.number]) for one in table.partitions}
    stats = _measure(rng, table, stored, rows) if rng.random() < 0.85 else None
    file = File(quote(name), rows, partition, {})
    action = add(file.path, path.stat().st_size, stats, partitionValues=texts)
    file.action = action["add"]
    table.live[file.path] = file
    return action


def _find_type(table: RandomDelta, one: Field) -> pa.DataType:
    if one.kind != "struct":
        return TYPES[one.kind][1]
    names = ("a", "b") if table.mode == "none" else (f"c-{one.number * 100}", f"c-{one.number * 100 + 1}")
    fields = []
    for i, (name, kind) in enumerate(zip(names, (pa.int32(), pa.string()), strict=True)):
        ids = {b"PARQUET:field_id": str(one.number * 100 + i).encode()} if table.mode == "id" else None
        fields.append(pa.field(name, kind, metadata=ids))
    return pa.struct(fields)


def _measure(rng: random.Random, table: RandomDelta, stored: list[Field], rows: list[dict[int, Any]]) -> str:
    """Return statistics as Spark and delta-rs write them: decimals as doubles, times cut to milliseconds, texts cut."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for one in stored:
        values = [row[one.number] for row in rows if row[one.number] is not None]
        name = table.physical(one)
        if one.kind in ("struct", "binary") or rng.random() < 0.1:
            continue
        nulls[name] = len(rows) - len(values)
        numbers = [value for value in values if value == value and value not in (float("inf"), float("-inf"))]
        if not numbers or one.kind == "boolean" or len(numbers) < len(values):
            continue
        low[name], high[name] = _shorten(min(numbers), False), _shorten(max(numbers), True)
    return json.dumps({"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls})


def _shorten(value: Any, upper: bool) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, str) and len(value) > 32:
        return value[:32] + ("\U0010ffff" if upper else "")
    return value


def _delete_rows(rng: random.Random, table: RandomDelta) -> list[dict[str, Any]]:
    """Delete rows of some files by vectors."""
    actions = []
    for file in rng.sample([*table.live.values()], rng.randint(1, min(3, len(table.live)))):
        left = [i for i in range(len(file.rows)) if i not in file.deleted]
        if len(left) < 2:
            continue
        file.deleted |= {*rng.sample(left, rng.randint(1, len(left) - 1))}
        rows = sorted(file.deleted)
        if rng.random() < 0.5:
            vector = inline_vector(rows)
        else:
            (vector,) = stored_vectors(table.root, [rows], absolute=rng.random() < 0.3)
        old = file.action
        file.action = old | {"deletionVector": vector}
        if "stats" in old:
            file.action["stats"] = json.dumps(json.loads(old["stats"]) | {"tightBounds": False})
        actions += [_remove(file, old), {"add": file.action}]
    return actions


def _remove(file: File, action: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the action that removes a file, which has to name the vector that goes with it."""
    action = file.action if action is None else action
    described = {"deletionVector": action["deletionVector"]} if "deletionVector" in action else {}
    return remove(file.path, **described)
