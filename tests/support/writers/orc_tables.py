"""ORC files for tests, by pyarrow and by pyorc, of small stripes and row groups; and their rows in plain Python."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc

from support.writers.peers import VALUES, arrow_array

STRIDE = 100

DEFAULTS: dict[str, Any] = {
    "row_index_stride": STRIDE,
    "stripe_size": 1,  # a stripe ends with the batch that makes it large enough: two row groups are one
    "batch_size": 2 * STRIDE,
    "bloom_filter_fpp": 0.01,
}


def by_pyarrow(path: Path, table: pa.Table, **options: Any) -> Path:
    """Write a table; `blooms` are names of top-level columns of a table without nested ones before them."""
    blooms = options.pop("blooms", ())
    options = DEFAULTS | options
    numbers = _column_ids(table.schema)
    po.write_table(table, path, bloom_filter_columns=[numbers[name] for name in blooms], **options)
    return path


def _column_ids(schema: pa.Schema) -> dict[str, int]:
    """ORC's numbers of top-level columns: a column's is followed by those below it."""
    results, number = {}, 1
    for field in schema:
        results[field.name] = number
        number += _size(field.type)
    return results


def _size(arrow_type: pa.DataType) -> int:
    if pa.types.is_struct(arrow_type):
        return 1 + sum(_size(child.type) for child in arrow_type)
    if pa.types.is_map(arrow_type):
        return 1 + _size(arrow_type.key_type) + _size(arrow_type.item_type)
    if pa.types.is_list(arrow_type):
        return 1 + _size(arrow_type.value_type)
    return 1


def by_pyorc(path: Path, schema: str, rows: Sequence[tuple[Any, ...]], **options: Any) -> Path:
    """Write rows of a schema as ORC's text has it (`struct<a:bigint>`); `blooms` are names of columns."""
    blooms = options.pop("blooms", ())
    options = DEFAULTS | options
    with path.open("wb") as file, pyorc.Writer(file, schema, bloom_filter_columns=list(blooms), **options) as writer:
        writer.writerows(rows)
    return path


def rewritten(path: Path, first: bytes) -> None:
    """Have a file begin with other bytes, which says nothing of its format."""
    data = path.read_bytes()
    path.write_bytes(first + data[len(first) :])


def keys(count: int, seed: int = 0) -> list[int]:
    """Different numbers without any order, so that only filters can prune."""
    return [((i * 0x9E37_79B9_7F4A_7C15 + seed * 0x61C8_8647) % (1 << 64)) >> 24 for i in range(1, count + 1)]


MOMENT = dt.datetime(2026, 1, 1)


def make_table(count: int, seed: int = 0) -> pa.Table:
    """Rows of many types, in no order, with nulls."""
    own = keys(count, seed)
    some = [None if i % 11 == 3 else key for i, key in enumerate(own)]

    def of(make: Any) -> list[Any]:
        return [None if key is None else make(key) for key in some]

    return pa.table(
        {
            "row": pa.array(range(count), pa.int32()),
            "key": pa.array(own, pa.int64()),
            "text": pa.array(of(lambda key: f"{key:x}"), pa.string()),
            "i8": pa.array(of(lambda key: key % 100 - 50), pa.int8()),
            "i16": pa.array(of(lambda key: key % 60_000 - 30_000), pa.int16()),
            "i32": pa.array(of(lambda key: key % (1 << 31)), pa.int32()),
            "f32": pa.array(of(lambda key: key % 1_000_003 / 8), pa.float32()),
            "f64": pa.array(of(lambda key: key / 1024), pa.float64()),
            "flag": pa.array(of(lambda key: key % 2 == 0), pa.bool_()),
            "raw": pa.array(of(lambda key: key.to_bytes(6, "big")), pa.binary()),
            "day": pa.array(of(lambda key: MOMENT.date() + dt.timedelta(key % 100_000)), pa.date32()),
            "at": pa.array(of(lambda key: MOMENT + dt.timedelta(milliseconds=key)), pa.timestamp("ns")),
            "instant": pa.array(of(lambda key: MOMENT + dt.timedelta(milliseconds=key)), pa.timestamp("ns", "UTC")),
            "price": pa.array(of(lambda key: Decimal(key) / 100), pa.decimal128(18, 2)),
        }
    )


FILTERED = ["key", "text", "i16", "i32", "f32", "f64", "raw", "day", "at", "instant", "price"]


# ---------------------------------------------------------------------------------------------------- as they fall


KINDS = [
    "i8",
    "i16",
    "i32",
    "i64",
    "f32",
    "f64",
    "d4",
    "d9",
    "d18",
    "d38",
    "date",
    "ts_ns",
    "tz_ns",
    "str",
    "bin",
    "bool",
]
"""Columns that ORC has, by their names in `peers.VALUES`; "nothing" and "st" besides."""

_PYORC = {
    "i8": "tinyint",
    "i16": "smallint",
    "i32": "int",
    "i64": "bigint",
    "f32": "float",
    "f64": "double",
    "d4": "decimal(4,2)",
    "d9": "decimal(9,2)",
    "d18": "decimal(18,3)",
    "d38": "decimal(38,10)",
    "date": "date",
    "ts_ns": "timestamp",
    "tz_ns": "timestamp with local time zone",
    "str": "string",
    "bin": "binary",
    "bool": "boolean",
    "nothing": "int",
    "st": "struct<a:int,b:struct<c:string>>",
    "row": "int",
}


def by_either(rng: random.Random, path: Path, columns: dict[str, list[Any]]) -> str:
    """Write columns, by their kind, with one of the two writers and random options; return a description."""
    options: dict[str, Any] = {
        "row_index_stride": rng.choice([1, 3, 17, 50, 1000]),
        "stripe_size": rng.choice([1, 64 << 20]),
        "batch_size": rng.choice([7, 50, 64, 1024]),
        "bloom_filter_fpp": rng.choice([0.3, 0.05, 0.001]),
    }
    flat = [name for name in columns if name != "st"]
    options["blooms"] = rng.sample(flat, rng.randint(0, len(flat)))
    if rng.random() < 0.5:
        # ORC's C++ library writes other texts than it is given into dictionaries of a struct that is null somewhere.
        options["dictionary_key_size_threshold"] = 0.0 if "st" in columns else rng.choice([0.0, 1.0])
        options["compression"] = rng.choice(["uncompressed", "zlib", "snappy", "lz4", "zstd"])
        arrays = {name: arrow_array(rows, VALUES.get(name, VALUES["i32"]).arrow) for name, rows in columns.items()}
        by_pyarrow(path, pa.table(arrays), **options)
        return f"pyarrow {options}"
    schema = ",".join(f"{name}:{_PYORC[name]}" for name in columns)
    by_pyorc(path, f"struct<{schema}>", list(zip(*map(_for_pyorc, columns.items()), strict=True)), **options)
    return f"pyorc {options}"


def _for_pyorc(column: tuple[str, list[Any]]) -> list[Any]:
    name, rows = column
    if name in ("ts_ns", "tz_ns"):
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return [None if row is None else epoch + dt.timedelta(microseconds=row // 1000) for row in rows]
    if name == "st":
        return [None if row is None else (row["a"], row["b"] and (row["b"]["c"],)) for row in rows]
    return rows
