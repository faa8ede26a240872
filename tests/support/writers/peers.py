"""Real files with real filters by the four writers, and point queries by the four readers.

Every file holds the same made-up values (`VALUES`: extremes, nulls, both zeros, NaN, empty and non-Latin strings, and
draws that differ from row group to row group), as far as its writer knows the type. What was put in is kept beside the
file, so that tests compare filters with the values and never with a read-back.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import json
import math
import random
import shutil
import struct
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.engines import sql_engines
from support.oracle import oracle
from support.processes.line_process import LineProcess

UTC = datetime.UTC
GROUPS = 3
DISTINCT = 120  # values a row group and column, nulls and doubles included
WIDE = decimal.Context(prec=60)

# ------------------------------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A column: its Arrow type, values that every row group has, and how to draw more."""

    arrow: pa.DataType
    always: list[Any]
    draw: Callable[[random.Random], Any]


def _integers(bits: int, signed: bool) -> Kind:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    arrow = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    return Kind(arrow, [low, high, 0, 1, None], lambda rng: rng.randint(low, high))


def _decimals(precision: int, scale: int) -> Kind:
    high = 10**precision - 1

    def value(unscaled: int) -> decimal.Decimal:
        return decimal.Decimal(unscaled).scaleb(-scale, WIDE)

    always = [value(0), value(1), value(-1), value(high), value(-high), None]
    return Kind(pa.decimal128(precision, scale), always, lambda rng: value(rng.randint(-high, high)))


def _floats(arrow: pa.DataType, code: str) -> Kind:
    def rounded(number: float) -> float:
        return struct.unpack(code, struct.pack(code, number))[0]

    always = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, None]
    return Kind(arrow, always, lambda rng: rounded(rng.uniform(-60_000, 60_000)))


def _stamps(unit: str, zone: datetime.tzinfo | None) -> Kind:
    arrow = pa.timestamp(unit, "UTC" if zone else None)
    if unit == "ns":  # as integers: Python's datetime has no nanoseconds
        always: list[Any] = [0, -1, 1, -(2**62), 2**62, None]
        # Whole microseconds among them: not every reader knows finer ones.
        return Kind(arrow, always, lambda rng: rng.randint(-(2**50), 2**50) * rng.choice([1000, 1777]))
    step = {"s": 10**6, "ms": 10**3, "us": 1}[unit]

    def read_all(stamp: datetime.datetime) -> datetime.datetime:
        return stamp.replace(microsecond=stamp.microsecond // step * step, tzinfo=zone)

    always = [
        read_all(datetime.datetime(1, 1, 1)),
        read_all(datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
        read_all(datetime.datetime(1970, 1, 1)),
        read_all(datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        None,
    ]
    first = datetime.datetime(1950, 1, 1)
    seconds = 100 * 365 * 86_400
    return Kind(
        arrow,
        always,
        lambda rng: read_all(
            first + datetime.timedelta(seconds=rng.randrange(seconds), microseconds=rng.randrange(10**6))
        ),
    )


def _times(arrow: pa.DataType, step: int) -> Kind:
    def time(micros: int) -> datetime.time:
        micros = micros // step * step
        seconds, micros = divmod(micros, 10**6)
        return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)

    last = 86_400 * 10**6 - 1
    return Kind(arrow, [time(0), time(last), None], lambda rng: time(rng.randint(0, last)))


def _word(rng: random.Random) -> str:
    letters = "abcxyz0189-_ äßéЖ日本語😀"
    return "".join(rng.choice(letters) for _ in range(rng.randint(2, 40)))


TEXTS = ["", "a", "é", "日本語", "😀", "nul\x00l", "x" * 300, "'\"\\%", "\U0010fffd", None]
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])

VALUES: dict[str, Kind] = {
    "i8": _integers(8, True),
    "i16": _integers(16, True),
    "i32": _integers(32, True),
    "i64": _integers(64, True),
    "u8": _integers(8, False),
    "u16": _integers(16, False),
    "u32": _integers(32, False),
    "u64": _integers(64, False),
    "f16": _floats(pa.float16(), "<e"),
    "f32": _floats(pa.float32(), "<f"),
    "f64": _floats(pa.float64(), "<d"),
    "d4": _decimals(4, 2),
    "d9": _decimals(9, 2),
    "d18": _decimals(18, 3),
    "d38": _decimals(38, 10),
    "date": Kind(
        pa.date32(),
        [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1), None],
        lambda rng: datetime.date(1900, 1, 1) + datetime.timedelta(days=rng.randrange(80_000)),
    ),
    "time_ms": _times(pa.time32("ms"), 1000),
    "time_us": _times(pa.time64("us"), 1),
    "time_ns": Kind(
        pa.time64("ns"),
        [0, 86_400 * 10**9 - 1, None],
        lambda rng: rng.randrange(86_400 * 10**9),
    ),
    **{f"ts_{unit}": _stamps(unit, None) for unit in ("s", "ms", "us", "ns")},
    **{f"tz_{unit}": _stamps(unit, UTC) for unit in ("s", "ms", "us", "ns")},
    "str": Kind(pa.string(), TEXTS, _word),
    "large_str": Kind(pa.large_string(), TEXTS, _word),
    "view_str": Kind(pa.string_view(), TEXTS, _word),
    "dict_str": Kind(pa.dictionary(pa.int32(), pa.string()), TEXTS, _word),
    "json": Kind(pa.json_(), ["{}", "null", '{"a":"日"}', None], lambda rng: json.dumps([_word(rng)])),
    "bin": Kind(pa.binary(), [b"", b"\x00", b"\xff" * 5, None], lambda rng: rng.randbytes(rng.randint(1, 40))),
    "flba": Kind(pa.binary(5), [b"\x00" * 5, b"\xff" * 5, None], lambda rng: rng.randbytes(5)),
    "uuid": Kind(
        pa.uuid(),
        [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), None],
        lambda rng: uuid.UUID(bytes=rng.randbytes(16)),
    ),
    "bool": Kind(pa.bool_(), [True, False, None], lambda rng: rng.random() < 0.5),
    "nothing": Kind(pa.int32(), [None], lambda rng: None),
    "st": Kind(
        STRUCT,
        [
            None,
            {"a": None, "b": None},
            {"a": 7, "b": {"c": None}},
            {"a": -(2**31), "b": {"c": ""}},
            {"a": 2**31 - 1, "b": {"c": "\U0010fffd"}},
        ],
        lambda rng: {"a": rng.randrange(2**31), "b": {"c": _word(rng)}},
    ),
    "li": Kind(
        pa.list_(pa.int64()),
        [None, [], [None], [1, None, 2]],
        lambda rng: [rng.randrange(2**40) for _ in range(rng.randint(0, 3))],
    ),
    "ma": Kind(
        pa.map_(pa.string(), pa.int32()),
        [None, [], [("", None)]],
        lambda rng: [(f"{i}{_word(rng)}", rng.randrange(2**31)) for i in range(rng.randint(0, 2))],
    ),
    "ls": Kind(
        pa.list_(pa.struct([("q", pa.string())])),
        [None, [], [None], [{"q": None}, {"q": ""}]],
        lambda rng: [{"q": _word(rng)} for _ in range(rng.randint(0, 3))],
    ),
}


@functools.cache
def group_values(name: str, group: int) -> tuple[Any, ...]:
    """The values of a column in a row group: those that it always has, and draws of its own."""
    kind = VALUES[name]
    rng = random.Random(f"{name} {group}")
    values = kind.always + [kind.draw(rng) for _ in range(DISTINCT - len(kind.always))]
    rng.shuffle(values)
    return tuple(values)


def column_rows(name: str, rows_per_group: int = DISTINCT) -> list[Any]:
    """The values of a column, row group after row group, each repeated to the number of rows wanted."""
    rows: list[Any] = []
    for group in range(GROUPS):
        values = group_values(name, group)
        rows += [values[i % DISTINCT] for i in range(rows_per_group)]
    return rows


def arrow_array(rows: list[Any], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(arrow):
        return pa.array(rows, arrow.value_type).dictionary_encode()
    if isinstance(arrow, pa.UuidType):
        return pa.array([row if row is None else row.bytes for row in rows], arrow)
    if pa.types.is_temporal(arrow) and any(isinstance(row, int) for row in rows):
        return pa.array(rows, pa.int64()).cast(arrow)
    return pa.array(rows, arrow)


def arrow_table(names: list[str], rows_per_group: int = DISTINCT) -> pa.Table:
    return pa.table({name: arrow_array(column_rows(name, rows_per_group), VALUES[name].arrow) for name in names})


def bits_of(table: pa.Table) -> list[Any]:
    """A table's columns as what compares by bits: NaN equals itself, and zeros differ by their sign."""
    widths = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        complete = column.combine_chunks()
        if isinstance(
            complete, pa.DictionaryArray
        ):  # which entries a dictionary has, and in what order, does not matter
            complete = complete.dictionary_decode()
        columns.append((name, complete.view(widths[complete.type]) if complete.type in widths else complete))
    return columns


def take_rows(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Some rows, in ascending order, of columns of any type: Arrow's own `take` does not know all."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    return pa.concat_tables([table.slice(0, 0), *(table.slice(run[0], len(run)) for run in runs if len(run))])


# ------------------------------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """Metadata of a leaf column."""

    path: str
    index: int
    physical: str
    length: int | None
    logical: str
    unit: str | None
    scale: int | None

    def plain(self, value: Any) -> bytes:
        return oracle.plain(value, self.physical, self.length, unit=self.unit, scale=self.scale)


@dataclass(frozen=True)
class PeerFile:
    """A file by one of the four, and what was put into it."""

    writer: str
    name: str
    path: Path
    rows: dict[str, list[Any]]  # top-level column -> its values, row by row
    switched_on: str  # the writer's options for filters
    types: dict[str, pa.DataType] = field(default_factory=dict)  # of columns that are not as in `VALUES`

    def __str__(self) -> str:
        return f"{self.writer}-{self.name}"

    @functools.cached_property
    def leaves(self) -> dict[str, Leaf]:
        return leaves(self.path)

    @functools.cached_property
    def group_sizes(self) -> list[int]:
        metadata = pq.read_metadata(self.path)
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def values(self, row_group: int, leaf: str) -> list[Any]:
        """The values of a leaf column in a row group, nulls included; a list's elements one by one."""
        start = sum(self.group_sizes[:row_group])
        top, *rest = leaf.split(".")
        rows = self.rows[top][start : start + self.group_sizes[row_group]]
        return [value for row in rows for value in leaf_values(row, rest)]

    def array(self, row_group: int, leaf: str) -> pa.Array:
        """The values of a chunk as Arrow data of the type that they were given in, nulls included."""
        top, *rest = leaf.split(".")
        arrow = self.types[top] if top in self.types else VALUES[top].arrow
        return arrow_array(self.values(row_group, leaf), leaf_type(arrow, rest))

    def plain(self, row_group: int, leaf: str) -> set[bytes]:
        """The plain encodings of a chunk's values, each once."""
        encode = self.leaves[leaf].plain
        return {encode(value) for value in self.values(row_group, leaf) if value is not None}

    def hashed(self, row_group: int, leaf: str) -> set[bytes]:
        """Return the values in the chunk's filter: all, but for the two exceptions of all four writers."""
        plain = self.plain(row_group, leaf)
        if self.writer == "spark" and leaf == "bool":
            return set()  # parquet-java never inserts a BOOLEAN
        if self.writer == "duckdb" and self.leaves[leaf].logical == "Interval":
            return plain | {_normal_interval(value) for value in plain}
        return plain


def _normal_interval(plain: bytes) -> bytes:
    """An interval with 30 days carried over as a month: DuckDB's filters hold this form beside the stored one."""
    months, days, millis = struct.unpack("<III", plain)
    return struct.pack("<III", months + days // 30, days % 30, millis)


def leaf_values(value: Any, parts: list[str]) -> list[Any]:
    """Return the values at the end of a path: through lists (``list.element``) and maps (``key_value.key``)."""
    if value is None or not parts:
        return [value]
    if isinstance(value, dict):
        return leaf_values(value[parts[0]], parts[1:])
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        side = {"key": 0, "value": 1}[parts[1]]
        return [leaf for pair in value for leaf in leaf_values(pair[side], parts[2:])]
    return [leaf for item in value for leaf in leaf_values(item, parts[2:])]


def leaf_type(arrow: pa.DataType, parts: list[str]) -> pa.DataType:
    """The type at the end of a path below a column of a type."""
    if not parts:
        return arrow
    if pa.types.is_struct(arrow):
        return leaf_type(arrow.field(parts[0]).type, parts[1:])
    if pa.types.is_map(arrow):
        return leaf_type(arrow.key_type if parts[1] == "key" else arrow.item_type, parts[2:])
    return leaf_type(arrow.value_type, parts[2:])


UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def leaves(path: Path) -> dict[str, Leaf]:
    """The leaf columns of a file, by dotted path."""
    metadata = pq.read_metadata(path)
    results = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        logical = json.loads(column.logical_type.to_json())
        physical = column.physical_type
        if logical["Type"] in ("Timestamp", "Time"):
            unit = UNITS[logical["timeUnit"]]
        else:  # a bare INT64 that came from seconds: arrow-rs knows no such unit in Parquet
            unit = "ns" if physical == "INT96" else "s"
        results[column.path] = Leaf(
            column.path,
            index,
            physical,
            column.length if physical == "FIXED_LEN_BYTE_ARRAY" else None,
            logical["Type"],
            unit,
            column.scale if logical["Type"] == "Decimal" else None,
        )
    return results


# ------------------------------------------------------------------------------------------------------------
# Writers
# ------------------------------------------------------------------------------------------------------------

NESTED = ["st", "li", "ma", "ls"]
STRINGS = ["large_str", "view_str", "dict_str"]
EVERYTHING = list(VALUES)
FPP = 0.01


def _leaf_paths(table: pa.Table, **options: Any) -> list[str]:
    """The dotted paths that pyarrow would give the leaves of a table."""
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(0, 0), sink, **options)
    schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [schema.column(i).path for i in range(len(schema))]


def by_pyarrow(folder: Path, *, filters: bool = True) -> list[PeerFile]:
    """All types; and again as INT96 and integer decimals, data pages v2, page index, old names of list elements."""
    written = []

    def write(name: str, columns: list[str], options: dict[str, Any], **bloom: Any) -> None:
        path = folder / f"pyarrow-{name}.parquet"
        table = arrow_table(columns)
        if filters:
            filtered = [leaf for leaf in _leaf_paths(table, **options) if leaf != "bool"]
            options = options | {"bloom_filter_options": dict.fromkeys(filtered, bloom)}
        pq.write_table(table, path, row_group_size=DISTINCT, **options)
        rows = {column: column_rows(column) for column in columns}
        written.append(PeerFile("pyarrow", name, path, rows, f"bloom_filter_options={{leaf: {bloom}}}"))

    write("all", EVERYTHING, {}, ndv=DISTINCT, fpp=FPP)
    far = [name for name in EVERYTHING if name[:3] in ("ts_", "tz_") and not name.endswith("_ns")]
    options: dict[str, Any] = {
        "store_decimal_as_integer": True,
        "use_deprecated_int96_timestamps": True,
        "use_compliant_nested_type": False,
        "data_page_version": "2.0",
        "write_page_index": True,
        "use_dictionary": False,
        "compression": "zstd",
    }
    # A size that is folded afterwards, since the number given is far too high.
    write("other", [name for name in EVERYTHING if name not in far], options, ndv=50_000, fpp=0.001)
    return written


def by_duckdb(folder: Path, *, filters: bool = True) -> list[PeerFile]:
    """Only dictionary-encoded chunks get filters: 2048 rows of 120 values. And types that only DuckDB knows."""
    # tz_ns: DuckDB has no such type and cuts to microseconds; f16: nor that.
    columns = [name for name in EVERYTHING if name not in ("f16", "tz_ns")]
    table = arrow_table(columns, 2048).combine_chunks()
    path = folder / "duckdb-all.parquet"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
        connection.register("given", table)
        connection.execute(
            f"COPY (SELECT * FROM given) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048, "
            f"WRITE_BLOOM_FILTER {filters}, BLOOM_FILTER_FALSE_POSITIVE_RATIO {FPP})"
        )
        other = folder / "duckdb-other.parquet"
        connection.execute(
            f"COPY (SELECT (i % 30 + g * 100 - 15)::HUGEINT h, to_months(i % 4) + to_days(i % 5 + g * 100) + "
            f"to_seconds(i % 7) iv, '01:00:00+00'::TIMETZ + to_seconds(i % 50 + g * 100) tz, i % 40 + g * 100 c "
            f"FROM (SELECT i, i // 2048 g FROM range(6144) t(i))) TO '{other}' "
            f"(FORMAT parquet, ROW_GROUP_SIZE 2048, WRITE_BLOOM_FILTER {filters})"
        )
    how = "write_bloom_filter and at most 20 % distinct values"
    numbers = [(i, 100 * (i // 2048)) for i in range(6144)]
    own = {
        "h": [float(i % 30 + g - 15) for i, g in numbers],
        "iv": [struct.pack("<III", i % 4, i % 5 + g, i % 7 * 1000) for i, g in numbers],
        "tz": [(3600 + i % 50 + g) * 10**6 for i, g in numbers],
        "c": [i % 40 + g for i, g in numbers],
    }
    rows = {column: column_rows(column, 2048) for column in columns}
    types = {"h": pa.float64(), "iv": pa.binary(12), "tz": pa.time64("us"), "c": pa.int64()}
    return [PeerFile("duckdb", "all", path, rows, how), PeerFile("duckdb", "other", other, own, how, types)]


def by_datafusion(folder: Path, *, filters: bool = True) -> list[PeerFile]:
    """Filters after each row group, sizes folded."""
    path = folder / "datafusion-all.parquet"
    # A number given is enough to turn filters on, whatever bloom_filter_on_write says.
    sizes = {"bloom_filter_ndv": DISTINCT, "bloom_filter_fpp": FPP} if filters else {}
    options = datafusion.ParquetWriterOptions(
        bloom_filter_on_write=filters, max_row_group_size=DISTINCT, allow_single_file_parallelism=False, **sizes
    )
    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    context.from_arrow(arrow_table(EVERYTHING)).write_parquet_with_options(str(path), options)
    rows = {column: column_rows(column) for column in EVERYTHING}
    # arrow-rs writes seconds as bare INT64, and drops the annotation of extension types.
    bare = {"ts_s": pa.int64(), "tz_s": pa.int64(), "uuid": pa.binary(16)}
    for name in ("ts_s", "tz_s"):
        rows[name] = [oracle.stored(value, "INT64", unit="s") for value in rows[name]]
    rows["uuid"] = [value and value.bytes for value in rows["uuid"]]
    return [PeerFile("datafusion", "all", path, rows, "bloom_filter_on_write, _ndv, _fpp", bare)]


SPARK_COLUMNS = ["i8", "i16", "i32", "i64", "f32", "f64", "d4", "d9", "d18", "d38", "date", "tz_us", "str", "bin"]
SPARK_COLUMNS += ["bool", "nothing", *NESTED]


def by_spark(spark: Any, folder: Path, *, filters: bool = True) -> list[PeerFile]:
    """Spark's types in its several spellings; sizes that are powers of two, and that are not.

    INT96 is Spark's default for timestamps; ``writeLegacyFormat`` puts decimals into FIXED_LEN_BYTE_ARRAY and
    names list elements ``bag.array``; ``max.bytes`` is written as it is, even if no multiple of 32.
    """
    source = folder / "spark-source.parquet"
    pq.write_table(arrow_table(SPARK_COLUMNS), source, store_decimal_as_integer=True)
    everything = spark.read.parquet(str(source))
    written = []

    def write(
        name: str,
        frame: Any,
        rows: dict[str, list[Any]],
        conf: dict[str, str],
        types: dict[str, pa.DataType] | None = None,
        **bloom: Any,
    ) -> None:
        bloom = {"max.bytes": 256, "expected.ndv": DISTINCT} | bloom
        options = {"parquet.enable.dictionary": "false", "parquet.block.row.count.limit": DISTINCT}
        if filters:
            options |= {"parquet.bloom.filter.enabled": "true"}
            options |= {f"parquet.bloom.filter.{key}": value for key, value in bloom.items()}
        target = folder / f"spark-{name}"
        before = {key: spark.conf.get(key) for key in conf}
        try:
            for key, value in conf.items():
                spark.conf.set(key, value)
            frame.coalesce(1).write.options(**options).parquet(str(target))
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
        (part,) = target.glob("*.parquet")
        path = folder / f"spark-{name}.parquet"
        shutil.move(part, path)
        shutil.rmtree(target)
        written.append(PeerFile("spark", name, path, rows, f"{options} {conf}", types or {}))

    def given(*columns: str) -> dict[str, list[Any]]:
        return {column: column_rows(column) for column in columns}

    write("all", everything, given(*SPARK_COLUMNS), {})
    decimals = ["d4", "d9", "d18", "d38"]
    write(
        "legacy",
        everything.select(*decimals, *NESTED),
        given(*decimals, *NESTED),
        {"spark.sql.parquet.writeLegacyFormat": "true"},
    )
    stamps = everything.selectExpr("tz_us", "cast(tz_us as timestamp_ntz) ts_us")
    micros = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
    walls = [value and value.replace(tzinfo=None) for value in column_rows("tz_us")]
    write("micros", stamps, {"tz_us": column_rows("tz_us"), "ts_us": walls}, micros)
    millis = [value and value.replace(microsecond=value.microsecond // 1000 * 1000) for value in column_rows("tz_us")]
    write(
        "millis",
        everything.select("tz_us"),
        {"tz_us": millis},
        {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    )
    odd = everything.select("i32", "i64", "f64", "str", "d38")
    names = odd.columns
    write("odd-blocks", odd, given(*names), {}, **{"max.bytes": 320, "expected.ndv": 10_000})
    write("odd-bytes", odd, given(*names), {}, **{"max.bytes": 1000, "expected.ndv": 10_000})
    write("adaptive", odd, given(*names), {}, **{"adaptive.enabled": "true", "max.bytes": 4096})
    days = [value and (value - datetime.date(1970, 1, 1)).days for value in column_rows("date")]
    intervals = everything.selectExpr(
        "make_dt_interval(unix_date(date), 0, 0, 0.000001) dt", "make_ym_interval(0, unix_date(date)) ym"
    )
    write(
        "intervals",
        intervals,
        {"dt": [None if d is None else d * 86_400 * 10**6 + 1 for d in days], "ym": days},
        {},
        {"dt": pa.int64(), "ym": pa.int32()},
    )
    return written


FILES = {
    "pyarrow": ("all", "other"),
    "duckdb": ("all", "other"),
    "datafusion": ("all",),
    "spark": ("all", "legacy", "micros", "millis", "odd-blocks", "odd-bytes", "adaptive", "intervals"),
}
NAMES = [f"{writer}-{name}" for writer, names in FILES.items() for name in names]

# ------------------------------------------------------------------------------------------------------------
# Readers
# ------------------------------------------------------------------------------------------------------------

READERS = ("pyarrow", "duckdb", "datafusion", "spark")

# Who consults a filter for which of the columns that pyarrow writes (the interop page's table, and what was seen here).
# All others are read and filtered row by row.
_ALL = set(VALUES) - {"bool", "nothing", *NESTED} | {"st.a", "st.b.c"}
CONSULTED: dict[str, set[str]] = {
    "pyarrow": set(_ALL),  # Arrow C++'s own filter reader; pyarrow's scans never ask it
    "duckdb": _ALL - {"d4", "d9", "d18", "d38"},  # these as integers, yes
    "datafusion": {"i32", "i64", "u32", "u64", "f32", "f64", "d4", "d9", "d18", "d38", "flba", "bin", "json"}
    | {"str", *STRINGS},
    "spark": {"i8", "i16", "i32", "i64", "f32", "f64", "d4", "d9", "d18", "d38", "date", "bin", "str"}
    | {*STRINGS, "tz_s", "tz_ms", "tz_us", "st.a", "st.b.c"},
}
UNREADABLE = {"spark": {"f16", "time_ms", "time_us", "time_ns", "uuid", "ts_ns", "tz_ns"}}


Question = tuple[Path, str, Any, pa.DataType]  # file, column, value, the value's type


def needles(engine: str, questions: list[Question], spark: Any = None, probe: Any = None) -> list[int]:
    """The number of rows that an engine finds for ``column = value``, for each question.

    Engines may answer from statistics as well: give a value between a chunk's minimum and maximum. Dictionaries are
    not asked. ``spark`` is the session, ``probe`` the fixture of Arrow C++'s filter reader; either when needed.
    """
    if engine == "spark":
        return _by_spark(spark, questions)
    one = {
        "pyarrow": lambda *question: _by_arrow(probe, *question),
        "duckdb": _by_duckdb,
        "datafusion": _by_datafusion,
    }
    return [one[engine](*question) for question in questions]


def needle(engine: str, *question: Any, **helpers: Any) -> int:
    """`needles` for one question."""
    return needles(engine, [question], **helpers)[0]


def _equals(engine: str, column: str, value: Any, arrow: pa.DataType) -> str:
    return f"{sql_column(engine, column)} = {literal(engine, value, arrow)}"


def _by_duckdb(path: Path, column: str, value: Any, arrow: pa.DataType) -> int:
    return duckdb_count(path, _equals("duckdb", column, value, arrow))


def duckdb_count(path: Path, where: str) -> int:
    """The rows of a file that DuckDB finds by a condition."""
    with contextlib.closing(sql_engines.DuckDB()) as engine:
        return engine.count(path, where)


def _by_datafusion(path: Path, column: str, value: Any, arrow: pa.DataType) -> int:
    return datafusion_count(path, _equals("datafusion", column, value, arrow))


def datafusion_count(path: Path, where: str) -> int:
    """The rows of a file that DataFusion finds by a condition."""
    return sql_engines.DataFusion().count(path, where)


def _by_spark(spark: Any, questions: list[Question]) -> list[int]:
    schemas: dict[Path, str] = {}
    spark_types = {pa.int64(): "BIGINT", pa.string(): "STRING"}
    for path in {path for path, *_ in questions}:
        queried = {name: kind for other, name, _, kind in questions if other == path}
        if queried.keys() <= set(VALUES) and set(queried.values()) <= spark_types.keys():
            # Told what there is, Spark reads files with other columns that it cannot read.
            schemas[path] = ", ".join(f"{name} {spark_types[kind]}" for name, kind in queried.items())
    wheres = [(path, _equals("spark", *question)) for path, *question in questions]
    return sql_engines.spark_counts(spark, wheres, schemas)


def _by_arrow(probe: Any, path: Path, column: str, value: Any, arrow: pa.DataType) -> int:
    """Rows of the row groups that Arrow C++'s filter reader does not rule out."""
    leaf = leaves(path)[column]
    plain = leaf.plain(value)
    count = 0
    with pq.ParquetFile(path) as file:
        for row_group in range(file.num_row_groups):
            if probe(path, row_group, leaf.index, plain) == "absent":
                continue
            top, *rest = column.split(".")
            result = file.read_row_group(row_group, columns=[column])[top]
            if isinstance(value, int) and pa.types.is_temporal(result.type):
                result = result.cast(pa.int64())  # Python's own types know no nanoseconds
            count += sum(leaf == value for row in result.to_pylist() for leaf in leaf_values(row, rest))
    return count


def sql_column(engine: str, column: str) -> str:
    top, *rest = column.split(".")
    if engine == "datafusion":
        return f'"{top}"' + "".join(f"['{part}']" for part in rest)
    quote = "`" if engine == "spark" else '"'
    return ".".join(f"{quote}{part}{quote}" for part in (top, *rest))


def literal(engine: str, value: Any, arrow: pa.DataType) -> str:
    """A value as a literal of an engine's SQL, of a type that keeps the column bare."""
    if isinstance(value, str):
        if engine == "spark":
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, decimal.Decimal):
        return f"CAST('{value:f}' AS DECIMAL({arrow.precision}, {arrow.scale}))"
    if isinstance(value, datetime.datetime) or (isinstance(value, int) and pa.types.is_timestamp(arrow)):
        return _stamp_literal(engine, value, arrow)
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    if isinstance(value, datetime.time) or (isinstance(value, int) and pa.types.is_time(arrow)):
        return _time_literal(engine, value, arrow)
    return {"duckdb": _duckdb_literal, "datafusion": _datafusion_literal, "spark": _spark_literal}[engine](value, arrow)


def nan(engine: str, arrow: pa.DataType) -> str:
    """NaN as a literal of an engine's SQL."""
    width = {16: "Float32", 32: "Float32", 64: "Float64"}[arrow.bit_width]
    return {
        "duckdb": f"'nan'::{'DOUBLE' if width == 'Float64' else 'FLOAT'}",
        "datafusion": f"arrow_cast('NaN', 'Float{arrow.bit_width}')",
        "clickhouse": f"CAST('nan' AS {width})",
        "spark": f"CAST('NaN' AS {'DOUBLE' if width == 'Float64' else 'FLOAT'})",
    }[engine]


def as_literal(value: Any, arrow: pa.DataType) -> Any:
    """A value as a predicate of ours takes it: moments of nanoseconds are integers here only."""
    if isinstance(value, int) and pa.types.is_temporal(arrow):
        return pa.scalar(value, pa.int64()).cast(arrow)
    return value


ARROW_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
DUCKDB_STAMPS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def _iso(value: Any) -> str:
    if not isinstance(value, int):
        return value.replace(tzinfo=None).isoformat(" ")
    seconds, nanos = divmod(value, 10**9)
    return f"{oracle.EPOCH + datetime.timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}.{nanos:09d}"


def _stamp_literal(engine: str, value: Any, arrow: pa.DataType) -> str:
    text = _iso(value)
    if engine == "spark":
        return f"TIMESTAMP '{text}Z'" if arrow.tz else f"TIMESTAMP_NTZ '{text}'"
    if engine == "duckdb":
        return f"TIMESTAMPTZ '{text}+00'" if arrow.tz else f"'{text}'::{DUCKDB_STAMPS[arrow.unit]}"
    zone = 'Some("UTC")' if arrow.tz else "None"
    return f"arrow_cast('{text}{'Z' if arrow.tz else ''}', 'Timestamp({ARROW_UNITS[arrow.unit]}, {zone})')"


def _time_literal(engine: str, value: Any, arrow: pa.DataType) -> str:
    if isinstance(value, int):
        value = f"{datetime.datetime.min + datetime.timedelta(seconds=value // 10**9):%H:%M:%S}.{value % 10**9:09d}"
    if engine == "datafusion":
        return f"arrow_cast('{value}', 'Time{arrow.bit_width}({ARROW_UNITS[arrow.unit]})')"
    return f"'{value}'::{'TIME_NS' if arrow.unit == 'ns' else 'TIME'}"


def _duckdb_literal(value: Any, arrow: pa.DataType) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, uuid.UUID):
        return f"'{value}'::UUID"
    if isinstance(value, float):
        return f"'{value!r}'::{'DOUBLE' if arrow == pa.float64() else 'FLOAT'}"
    return str(value)


def _datafusion_literal(value: Any, arrow: pa.DataType) -> str:
    if isinstance(value, uuid.UUID):
        value, arrow = value.bytes, pa.binary(16)
    if isinstance(value, bytes):
        fixed = pa.types.is_fixed_size_binary(arrow)
        return f"arrow_cast(X'{value.hex()}', 'FixedSizeBinary({len(value)})')" if fixed else f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"arrow_cast({value!r}, 'Float{arrow.bit_width}')"
    return str(value)


def _spark_literal(value: Any, arrow: pa.DataType) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS {'FLOAT' if arrow == pa.float32() else 'DOUBLE'})"
    return f"CAST({value} AS BIGINT)" if -(2**63) <= value < 2**63 and arrow == pa.int64() else str(value)


# ------------------------------------------------------------------------------------------------------------
# Tampering
# ------------------------------------------------------------------------------------------------------------


def with_zeroed_filters(path: Path, target: Path, block: bytes = bytes(32)) -> Path:
    """A copy whose filters have no bit set: an engine that asks them finds nothing any more.

    `block` replaces each block: `NEVER` has bits, and still denies everything.
    """
    data = bytearray(Path(path).read_bytes())
    for stored in oracle.filters(path).values():
        start, size = stored.offset + stored.header_size, len(stored.bitset)
        data[start : start + size] = (block * (size // len(block) + 1))[:size]
    target.write_bytes(data)
    return target


# Careful readers doubt a filter without a bit. Every mask has a bit in each of the eight words, and this has not.
NEVER = b"\x01" + bytes(31)


# ------------------------------------------------------------------------------------------------------------
# Arrow C++'s filter reader
# ------------------------------------------------------------------------------------------------------------


class ArrowProbe:
    """Arrow C++'s own reader of filters, which pyarrow ships and does not expose, through a small C++ program."""

    def __init__(self, folder: Path):
        compiler = shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            raise FileNotFoundError("g++ is needed to ask Arrow C++'s filter reader")
        libraries = Path(pa.get_library_dirs()[0])
        program = folder / "arrow_probe"
        source = Path(__file__).with_name("arrow_probe.cpp")
        shared = [next(libraries.glob(f"{name}.so.*")) for name in ("libparquet", "libarrow")]
        command = [compiler, "-std=c++20", f"-I{pa.get_include()}", str(source), "-o", str(program)]
        command += [str(library) for library in shared] + [f"-Wl,-rpath,{libraries}"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self.process = LineProcess([str(program)])

    def __call__(self, path: Path, row_group: int, column: int, plain: bytes) -> str:
        """``maybe``, ``absent``, ``none`` (no filter) or an error's text."""
        return self._ask("probe", path, row_group, column, plain.hex() or "-")

    def bitset(self, path: Path, row_group: int, column: int) -> bytes:
        return bytes.fromhex(self._ask("bitset", path, row_group, column, "-"))

    def _ask(self, *words: Any) -> str:
        return self.process.ask("\t".join(map(str, words)))

    def close(self) -> None:
        self.process.close()
