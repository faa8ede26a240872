"""Columns to write: the extremes of their type and random values, in files that all readers can open.

A reader may refuse a whole file for one column that it does not know. So columns that all readers
know are stored in the file `common`, and other types in others.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.writers import peers, random_files

GROUPS = 2
DISTINCT = 12  # values a row group, extremes and draws: two more than texts that are always there

COMMON = ["i8", "i16", "i32", "i64", "f32", "f64", "d4", "d9", "d18", "d38", "date", "tz_ms", "tz_us", "ts_us"]
COMMON += ["str", "bin", "bool", "st", "li"]
OTHER = ["u8", "u16", "u32", "u64", "time_ms", "time_us", "time_ns", "ts_s", "ts_ms", "ts_ns", "tz_s", "tz_ns"]
OTHER += ["flba", "uuid", "json", "large_str", "view_str", "dict_str"]


@dataclass(frozen=True)
class Part:
    """A file of a writer.

    Attributes
    ----------
    columns : of `peers.VALUES`.
    options : of the writer's own.
    distinct, rows : values and rows of a row group.
    common : whether all readers know all of the columns.
    """

    columns: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    distinct: int = DISTINCT
    rows: int = DISTINCT
    common: bool = True

    def values(self, column: str, group: int) -> list[Any]:
        """The values of a column in a row group, each once, nulls included."""
        kind = peers.VALUES[column]
        rng = random.Random(f"compatibility {column} {group}")
        mixed = kind.always + [kind.draw(rng) for _ in range(self.distinct - len(kind.always))]
        rng.shuffle(mixed)
        return mixed

    def column(self, name: str) -> list[Any]:
        """The values of a column, row by row."""
        groups = [self.values(name, group) for group in range(GROUPS)]
        return [stored[i % len(stored)] for stored in groups for i in range(self.rows)]


_SUPPORTED_COLUMNS = {
    "pyarrow": [*COMMON, *OTHER, "f16"],
    "duckdb": [*random_files.DUCKDB, "st", "li"],
    "datafusion": [*random_files.DATAFUSION, "st", "li"],
    "spark": peers.SPARK_COLUMNS,
    "clickhouse": random_files.CLICKHOUSE,
    "polars": [*random_files.POLARS, "ts_us", "tz_us", "st", "li"],
    "fastparquet": ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "str", "bin", "bool"],
}


# What the short run looks at.
QUICK = ["i32", "i64", "f64", "d9", "date", "str"]


def parts(writer: str, distinct: int = DISTINCT, only: list[str] | None = None) -> dict[str, Part]:
    """The files of a writer by their names; `only` leaves one file of those columns."""
    supported = set(_SUPPORTED_COLUMNS[writer])
    rows = 2048 if writer == "duckdb" else distinct  # DuckDB cuts row groups at multiples of this

    def part(columns: list[str], common: bool = True, **options: Any) -> Part:
        return Part([name for name in columns if name in supported], options, distinct, rows, common)

    if only is not None:
        return {"common": part(only)}
    created = {"common": part(COMMON)}
    if supported & set(OTHER):
        created["other"] = part(OTHER, common=False)
    if writer == "pyarrow":
        legacy = {"store_decimal_as_integer": True, "use_deprecated_int96_timestamps": True}
        created["legacy"] = part(["d9", "d18", "ts_ns"], **legacy)
        created["half"] = part(["f16"], common=False)
    if writer == "spark":
        legacy = {"spark.sql.parquet.writeLegacyFormat": "true", "spark.sql.parquet.outputTimestampType": "INT96"}
        created["legacy"] = part(["d4", "d9", "d18", "d38", "tz_us"], **legacy)
    return created


def write_source(path: Path, part: Part) -> Path:
    """Return the input that every writer reads."""
    arrays = {name: peers.arrow_array(part.column(name), peers.VALUES[name].arrow) for name in part.columns}
    pq.write_table(pa.table(arrays), path, row_group_size=part.rows)
    return path


@dataclass(frozen=True)
class Question:
    """A value that a file holds."""

    column: str  # the leaf, dotted
    value: Any
    row: int  # the first that holds it
    arrow: pa.DataType  # of the file's column
    title: str  # of the column's type
    drawn: bool  # not an extreme of the type, so statistics do not reveal it


def list_questions(path: Path, part: Part) -> list[Question]:
    """Every value of a file that a writer made of `part`, each once per leaf; without nulls."""
    results: list[Question] = []
    schema = pq.read_schema(path)
    for leaf, title in titles(path).items():
        top, *rest = leaf.split(".")
        always = [repr(value) for retained in peers.VALUES[top].always for value in peers.leaf_values(retained, rest)]
        seen: set[str] = set()
        for row, stored in enumerate(part.column(top)):
            for value in peers.leaf_values(stored, rest):
                if value is None or repr(value) in seen:
                    continue
                seen.add(repr(value))
                arrow = peers.leaf_type(schema.field(top).type, rest)
                results.append(Question(leaf, value, row, arrow, title, repr(value) not in always))
    return results


def titles(path: Path) -> dict[str, str]:
    """The type of each leaf of a file, as the tables name it."""
    schema = pq.read_metadata(path).schema
    return {schema.column(i).path: _title(schema.column(i)) for i in range(len(schema))}


def _title(column: Any) -> str:
    logical, physical = json.loads(column.logical_type.to_json()), column.physical_type
    kind = logical["Type"]
    if column.max_repetition_level:
        return "list element"
    if "." in column.path:
        return "struct leaf"
    if kind == "Int":
        return f"{'' if logical['isSigned'] else 'u'}int{logical['bitWidth']}"
    if kind == "Decimal":
        return f"decimal {'FLBA' if physical == 'FIXED_LEN_BYTE_ARRAY' else physical}"
    if kind == "Timestamp":
        zone = "UTC" if logical["isAdjustedToUTC"] else "without zone"
        return f"timestamp {_UNITS[logical['timeUnit']]} {zone}"
    if kind == "Time":
        return f"time {_UNITS[logical['timeUnit']]}"
    if kind in ("Date", "Float16", "String", "UUID", "JSON"):
        return {"UUID": "UUID", "JSON": "JSON"}.get(kind, kind.lower())
    return _BARE.get(physical, physical)


_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_BARE = {"INT32": "int32", "INT64": "int64", "FLOAT": "float", "DOUBLE": "double", "BYTE_ARRAY": "binary"}
_BARE |= {"FIXED_LEN_BYTE_ARRAY": "FLBA", "BOOLEAN": "bool", "INT96": "INT96"}
