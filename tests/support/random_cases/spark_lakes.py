"""Random lakes for Spark: partitioned folders of files by several writers, of types and schemas that differ."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import random
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.errors import UnreadableColumnError
from support.writers import random_files
from support.writers.peers import VALUES

UTC = dt.UTC
Draw = Callable[[random.Random], Any]
_TEXTS = [
    "5",
    "05",
    "5.0",
    " 5",
    "5 ",
    "-1",
    "true",
    "2020-01-01",
    "2020-01-01 00:00:00",
    "A",
    "ß",
    "it's",
    "\\",
    "null",
]
# Clock changes in the zones of the queries, and midnights there.
_STAMPS = [
    *(dt.datetime(2020, 3, 29, hour, 30) for hour in range(4)),
    *(dt.datetime(2020, 10, 25, hour, 30) for hour in range(4)),
    *(dt.datetime(2018, 11, 4, hour) for hour in range(5)),
    *(dt.datetime(2020, 1, 1, hour) for hour in (0, 5, 18, 23)),
    dt.datetime(1883, 11, 18, 12, 3, 58),
    dt.datetime(1582, 10, 10),
]
_STRUCT = pa.struct(
    [("a", pa.int64()), ("b", pa.struct([("c", pa.string())])), ("t", pa.timestamp("us", "UTC")), ("f", pa.float64())]
)


def _listed(name: str) -> Draw:
    return lambda rng: rng.choice([[], [None], [_any(name, rng) for _ in range(rng.randint(1, 3))]])


def _struct(rng: random.Random) -> Any:
    inner = rng.choice([None, {"c": _any("str", rng)}, {"c": _any("str", rng)}])
    return {"a": _any("i64", rng), "b": inner, "t": _any("tz_us", rng), "f": _any("f64", rng)}


def _any(name: str, rng: random.Random) -> Any:
    kind = VALUES[name]
    return rng.choice(kind.always) if rng.random() < 0.3 else kind.draw(rng)


@dataclass(frozen=True)
class Column:
    """A column of a lake.

    Attributes
    ----------
    name : its name in the lake's schema.
    kind : what conditions are made of; the name of a type in `KINDS`.
    pool : the values that files draw theirs from, and conditions their literals.
    """

    name: str
    kind: str
    pool: list[Any]


@dataclass(frozen=True)
class Kind:
    """A type: Arrow's, Spark's, and its values."""

    arrow: pa.DataType
    ddl: str
    draw: Draw
    always: list[Any] = field(default_factory=list)


def _of_peer(name: str, ddl: str, *more: Any) -> Kind:
    return Kind(VALUES[name].arrow, ddl, VALUES[name].draw, [*VALUES[name].always, *more])


KINDS = {
    "i8": _of_peer("i8", "tinyint", 5),
    "i16": _of_peer("i16", "smallint", 5, 128),
    "i32": _of_peer("i32", "int", 5, 1 << 24, (1 << 24) + 1),
    "i64": _of_peer("i64", "bigint", 5, 1 << 53, (1 << 53) + 1, 1 << 31),
    "f32": _of_peer("f32", "float", 5.0, float(1 << 24)),
    "f64": _of_peer("f64", "double", 5.0, 0.1, float(1 << 53)),
    "d9": _of_peer("d9", "decimal(9,2)", decimal.Decimal("5.00"), decimal.Decimal("0.10")),
    "d18": _of_peer("d18", "decimal(18,3)", decimal.Decimal("5.000")),
    "d38": _of_peer("d38", "decimal(38,10)", decimal.Decimal("5.0000000000")),
    "s": _of_peer("str", "string", *_TEXTS),
    "bin": _of_peer("bin", "binary", b"5", b"abc"),
    "flag": _of_peer("bool", "boolean"),
    "day": _of_peer("date", "date", *(stamp.date() for stamp in _STAMPS)),
    "ts": _of_peer("tz_us", "timestamp", *(stamp.replace(tzinfo=UTC) for stamp in _STAMPS)),
    "ntz": _of_peer("ts_us", "timestamp_ntz", *_STAMPS),
    "nothing": _of_peer("nothing", "int"),
    "st": Kind(_STRUCT, "struct<a:bigint,b:struct<c:string>,t:timestamp,f:double>", _struct, [None]),
    "li": Kind(pa.list_(pa.int64()), "array<bigint>", _listed("i64"), [None]),
    "ls": Kind(pa.list_(pa.string()), "array<string>", _listed("str"), [None]),
    "lt": Kind(pa.list_(pa.timestamp("us", "UTC")), "array<timestamp>", _listed("tz_us"), [None]),
    "ma": Kind(VALUES["ma"].arrow, "map<string,int>", VALUES["ma"].draw, [None]),
}
_NESTED = {"st", "li", "ls", "lt", "ma"}
_FLAT = [name for name in KINDS if name not in _NESTED]
# What a writer takes; files by those that do not take all have fewer columns.
_TAKES = {
    "spark": list(KINDS),
    "pyarrow": list(KINDS),
    "duckdb": [*_FLAT, "li", "ls"],
    "datafusion": _FLAT,
    "polars": [name for name in _FLAT if name not in ("ts", "ntz", "flag", "nothing")],
}
# Other types that a file may have of a column, and Spark reads as the lake's.
_OTHERS: dict[str, list[pa.DataType]] = {
    "i16": [pa.int8(), pa.uint8()],
    "i32": [pa.int16(), pa.int8(), pa.uint16(), pa.uint8()],
    "i64": [pa.int32(), pa.uint32(), pa.int8()],
    "f64": [pa.float32(), pa.int32(), pa.int8()],
    "d9": [pa.decimal128(6, 2), pa.decimal128(5, 1), pa.int16()],
    "d18": [pa.decimal128(9, 3), pa.decimal128(12, 1), pa.int32()],
    "d38": [pa.decimal128(18, 10), pa.decimal128(28, 0), pa.int64()],
    "s": [pa.binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "bin": [pa.string(), pa.binary(5)],
    "ts": [pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("us")],
    "ntz": [pa.timestamp("ms"), pa.date32(), pa.timestamp("us", "UTC")],
}
_NANOSECONDS = pa.timestamp("ns", "UTC")  # Spark reads a file of them by a schema that says so, but infers none
_FOLDERS: list[list[str | None]] = [
    [],
    ["02", "2", "x", None, "a b%/ü{}"],
    ["02", "2", "-7", None],
    ["A", "a", "x=y", "100%", "[a]*?", "\\", "日本", " "],
    ["2020-01-01", "2020-01-02", None],
    ["2020-01-01 05:00:00", "2020-03-29 02:30:00"],
    ["1.50", "2", None],
]
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^")


@dataclass
class Lake:
    """A folder of files.

    Attributes
    ----------
    path : where it is.
    columns : those of its schema, besides `row`, which numbers all rows.
    folders : values of the column `p` in the names of folders; none for a lake without.
    story : what was done, file by file.
    """

    path: Path
    columns: list[Column]
    folders: list[str | None]
    story: list[str]

    @property
    def schema(self) -> str:
        """As DDL, without the column of the folders."""
        return ", ".join(["row bigint", *(f"{column.name} {KINDS[column.kind].ddl}" for column in self.columns)])

    @property
    def files(self) -> list[Path]:
        """Its files."""
        return sorted(self.path.rglob("*.parquet"))

    def save(self, path: Path) -> None:
        """For another process, which finds it by `load`."""
        path.write_bytes(pickle.dumps(self))

    @staticmethod
    def load(path: str | Path) -> Lake:
        cached_lake: Lake = pickle.loads(Path(path).read_bytes())
        return cached_lake


@dataclass
class _File:
    number: int
    path: Path
    writer: str
    table: pa.Table
    group: int


def escaped(value: str | None) -> str:
    """A value as Spark has it in the name of a folder."""
    if value is None:
        return _NULL
    return "".join(f"%{ord(char):02X}" if char < " " or char in _ESCAPED else char for char in value)


def make_lake(spark: Any, rng: random.Random, path: Path, files: int = 12) -> Lake:
    """Write a lake of so many files; those that Spark cannot read as the lake's schema are removed again."""
    expected = ["s", "i64", *rng.sample(sorted(KINDS.keys() - {"s", "i64"}), rng.randint(6, len(KINDS) - 2))]
    columns = [Column(name, name, _pool(name, rng)) for name in KINDS if name in expected]
    lake = Lake(path, columns, rng.choice(_FOLDERS), [])
    values = [_draw_file(rng, lake, number) for number in range(files)]
    for writer in ("pyarrow", "duckdb", "datafusion", "polars"):
        for file in values:
            if file.writer == writer:
                write = getattr(random_files, f"by_{writer}")
                options = write(rng, file.table, file.path, file.group)
                lake.story.append(f"{file.path.name}: {writer} {options} {_described(file.table)}")
    theirs = [file for file in values if file.writer == "spark"]
    middle = rng.randint(0, len(theirs))
    for some in (theirs[:middle], theirs[middle:]):
        if some:
            _by_spark(spark, rng, lake, some)
    for file in values:
        if file.path.exists() and rng.random() < 0.85:
            _embed(rng, lake, file)
    _remove_unreadable(spark, lake)
    return lake


def _described(table: pa.Table) -> str:
    return ", ".join(f"{item.name} {item.type}" for item in table.schema)


def _pool(name: str, rng: random.Random) -> list[Any]:
    kind = KINDS[name]
    return [*kind.always, *(kind.draw(rng) for _ in range(rng.choice([5, 60, 60, 60])))]


def _draw_file(rng: random.Random, lake: Lake, number: int) -> _File:
    writer = rng.choices(list(_TAKES), [5, 3, 1, 1, 1])[0]
    groups, group = rng.choice([1, 1, 2, 4]), rng.choice([10, 30])
    folder = lake.path
    if lake.folders:
        folder = folder / f"p={escaped(lake.folders[number % len(lake.folders)])}"
    folder.mkdir(parents=True, exist_ok=True)
    columns: dict[str, pa.Array] = {"row": pa.array(range(number * 1000, number * 1000 + groups * group), pa.int64())}
    odd = rng.random() < 0.4
    for column in lake.columns:
        if column.kind not in _TAKES[writer] or (odd and rng.random() < 0.2):
            continue  # the file lacks it
        arrow = KINDS[column.kind].arrow
        if odd and writer != "polars" and column.kind in _OTHERS and rng.random() < 0.3:
            others = [other for other in _OTHERS[column.kind] if writer != "spark" or other != _NANOSECONDS]
            arrow = rng.choice(others)
        values: list[Any] = []
        for _ in range(groups):
            few = rng.sample(column.pool, min(len(column.pool), rng.randint(1, 8)))
            values += rng.choices(few, k=group)
        name = column.name.upper() if odd and rng.random() < 0.2 else column.name
        columns[name] = _array(values, KINDS[column.kind].arrow, arrow)
    table = pa.table(columns)
    if odd:
        order = rng.sample(table.column_names, len(table.column_names))
        table = table.select(order)
    return _File(number, folder / f"f{number:02} {writer}.parquet", writer, table, group)


def _array(values: list[Any], arrow: pa.DataType, other: pa.DataType) -> pa.Array:
    """Values as another type; those that it does not have are null."""
    complete = pa.array(values, arrow)
    if other == arrow:
        return complete
    try:
        return complete.cast(other)
    except pa.ArrowException:
        parts = [complete[position : position + 1] for position in range(len(complete))]
        return pa.concat_arrays([_one(part, other) for part in parts])


def _one(part: pa.Array, other: pa.DataType) -> pa.Array:
    try:
        return part.cast(other)
    except pa.ArrowException:
        return pa.nulls(1, other)


def _by_spark(spark: Any, rng: random.Random, lake: Lake, files: list[_File]) -> None:
    """Several files in one job, under options and settings as they fall."""
    options = {
        "parquet.block.row.count.limit": str(files[0].group),
        "parquet.enable.dictionary": rng.choice(["true", "false"]),
        "compression": rng.choice(["none", "snappy", "zstd", "gzip"]),
        "parquet.writer.version": rng.choice(["v1", "v2"]),
    }
    if rng.random() < 0.4:
        options |= {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.expected.ndv": "100"}
        options |= {"parquet.bloom.filter.max.bytes": rng.choice(["64", "1024"])}
    conf = {
        "spark.sql.parquet.outputTimestampType": rng.choice(["INT96", "INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"]),
        "spark.sql.parquet.writeLegacyFormat": rng.choice(["false", "false", "true"]),
    }
    folder = Path(tempfile.mkdtemp(dir=lake.path.parent))
    frames = []
    for file in files:
        source = folder / f"{file.number}.source"
        pq.write_table(file.table, source)
        frames.append((file, spark.read.parquet(str(source)).coalesce(1)))
    before = {key: spark.conf.get(key) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        for file, frame in frames:
            target = folder / str(file.number)
            frame.write.options(**options).parquet(str(target))
            (part,) = target.glob("*.parquet")
            shutil.move(part, file.path)
            lake.story.append(f"{file.path.name}: spark {options} {conf} {_described(file.table)}")
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
        shutil.rmtree(folder)


def _embed(rng: random.Random, lake: Lake, file: _File) -> None:
    with parquet_bloom.open(file.path) as opened:
        leaves = [leaf.name for leaf in opened.leaves if leaf.physical != "BOOLEAN" and leaf.name != "row"]
    if rng.random() < 0.3:
        leaves = rng.sample(leaves, rng.randint(0, len(leaves)))
    fpp, replace = rng.choice([0.1, 0.001, 0.001]), rng.random() < 0.5
    while leaves:
        try:
            parquet_bloom.embed(file.path, dict.fromkeys(leaves, fpp), replace=replace)
        except UnreadableColumnError as error:  # pyarrow does not read all pages of nothing but nulls
            leaves.remove(error.column)
            lake.story.append(f"{file.path.name}: {error.problem}")
        else:
            lake.story.append(f"{file.path.name}: embed({leaves}, {replace=})")
            return


def as_path(path: Path | str) -> str:
    """A path as Spark takes it, which reads patterns."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))


def _remove_unreadable(spark: Any, lake: Lake) -> None:
    def problem(path: Path) -> str | None:
        try:
            spark.read.schema(lake.schema).parquet(as_path(path)).toArrow()
        except Exception as error:
            return (str(error).splitlines() or [""])[0]
        return None

    if problem(lake.path) is None:
        return
    for file in lake.files:
        message = problem(file)
        if message is not None:
            file.unlink()
            lake.story.append(f"{file.name}: removed, {message[:150]}")
