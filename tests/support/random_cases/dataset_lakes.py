"""Random lakes for engines: files whose columns differ in type, with filters, page indexes, partitions, and nothing.

A seed decides everything. Every file has the column `row`, whose values no other row has.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError

TEXTS = ["", "a", "aa", "b", "Z", "ä", "\U00010000", "a%", "x_y", "O'Neil", "long text of more than twelve bytes"]
FLOATS = [0.0, -0.0, 1.5, 0.1, math.nan, math.inf, -math.inf, 2.0**53]
DAY = dt.date(2020, 1, 1)
MOMENT = dt.datetime(2020, 1, 1)


def _draw_integer(rng: random.Random) -> int:
    return rng.choice(
        [rng.randint(-5, 5), rng.randint(-5, 5), rng.randint(-120, 120), rng.randint(-(2**31), 2**31 - 1)]
    )


def _draw_large(rng: random.Random) -> int:
    return rng.choice([rng.randint(-5, 5), 2**53, 2**53 + 1, rng.randint(-(2**63), 2**63 - 1)])


def _draw_unsigned(rng: random.Random) -> int:
    return rng.choice([rng.randint(0, 5), rng.randint(0, 2**32 - 1), rng.randint(2**63, 2**64 - 1)])


def _draw_moment(rng: random.Random) -> dt.datetime:
    unit = rng.choice(["hours", "hours", "seconds", "milliseconds", "microseconds"])
    return MOMENT + dt.timedelta(**{unit: rng.randint(-30, 30)})


def _draw_time(rng: random.Random) -> dt.time:
    return dt.time(rng.randint(0, 23), rng.choice([0, 30]), 0, rng.choice([0, 0, 5000, 7]))


@dataclass(frozen=True)
class Kind:
    """A kind of column.

    Attributes
    ----------
    draw : a value.
    types : of which each file has one; values that do not fit are null there.
    """

    draw: Callable[[random.Random], Any]
    types: tuple[pa.DataType, ...]


_FAR = dt.timezone(dt.timedelta(hours=2))
KINDS = {
    "i": Kind(_draw_integer, (pa.int32(), pa.int64(), pa.int16(), pa.int8(), pa.uint8())),
    "l": Kind(_draw_large, (pa.int64(), pa.int32())),
    "u": Kind(_draw_unsigned, (pa.uint64(), pa.uint32())),
    "f": Kind(lambda rng: rng.choice([*FLOATS, rng.randint(-3, 3) / 2, rng.random()]), (pa.float64(), pa.float32())),
    "d": Kind(
        lambda rng: decimal.Decimal(rng.choice([rng.randint(-9, 9), rng.randint(-9999, 9999)])) / 100,
        (pa.decimal128(9, 2), pa.decimal128(14, 2), pa.decimal128(12, 3), pa.decimal128(25, 2)),
    ),
    "s": Kind(
        lambda rng: rng.choice([*TEXTS, str(rng.randint(0, 99))]),
        (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    ),
    "c": Kind(lambda rng: rng.choice(TEXTS[:5]), (pa.dictionary(pa.int32(), pa.string()),)),
    "b": Kind(lambda rng: rng.choice([b"", b"a", b"\xff\x00", rng.randbytes(2)]), (pa.binary(), pa.large_binary())),
    "fb": Kind(lambda rng: bytes([rng.randint(0, 3)] * 4), (pa.binary(4),)),
    "flag": Kind(lambda rng: rng.random() < 0.5, (pa.bool_(),)),
    "day": Kind(lambda rng: DAY + dt.timedelta(days=rng.randint(-4, 4)), (pa.date32(),)),
    "ts": Kind(_draw_moment, tuple(pa.timestamp(unit) for unit in ("us", "us", "ms", "ns", "s"))),
    "tz": Kind(
        lambda rng: _draw_moment(rng).replace(tzinfo=dt.UTC),
        tuple(pa.timestamp(unit, "UTC") for unit in ("us", "us", "ms", "ns", "s")),
    ),
    "berlin": Kind(lambda rng: _draw_moment(rng).replace(tzinfo=_FAR), (pa.timestamp("us", "Europe/Berlin"),)),
    "tm": Kind(_draw_time, (pa.time64("us"), pa.time32("ms"))),
    "id": Kind(lambda rng: uuid.UUID(int=rng.randint(0, 6)), (pa.uuid(),)),
}
PARTITIONS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [1, 2, 7]),
    "word": (pa.string(), ["a", "ä", "07", "x y"]),
    "date": (pa.date32(), [DAY, DAY + dt.timedelta(days=1)]),
}


@dataclass
class Lake:
    """A lake, as this package sees it and as pyarrow does.

    Attributes
    ----------
    ours, plain : the datasets, of the same files and schema.
    kinds : {column: name in KINDS}, without structs and lists.
    values : some values of each column, those of the files among them; of structs' leaves by dotted names.
    structs : {struct: {leaf: name in KINDS}}.
    lists : {list: name in KINDS}.
    """

    ours: Any
    plain: ds.Dataset
    kinds: dict[str, str]
    values: dict[str, list[Any]]
    structs: dict[str, dict[str, str]] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)


def draw_lake(seed: int, folder: Path) -> Lake:
    """Write a lake below a new folder; one whose files have no common schema is drawn anew."""
    rng = random.Random(seed)
    for attempt in range(50):
        lake = _Drawing(rng, folder / f"{seed}-{attempt}").draw()
        if lake is not None:
            return lake
    raise AssertionError(f"seed {seed} draws no lake whose files fit together")


class _Drawing:
    def __init__(self, rng: random.Random, root: Path):
        self.rng, self.root = rng, root
        names = rng.sample(list(KINDS), rng.randint(2, 6))
        self.kinds = {name: name for name in names}
        self.structs: dict[str, dict[str, str]] = {}
        self.lists: dict[str, str] = {}
        if rng.random() < 0.35:
            self.structs["st"] = {name: name for name in rng.sample(["i", "f", "s", "ts", "d", "l"], 2)}
        if rng.random() < 0.2:
            self.lists["li"] = rng.choice(["i", "s"])
        self.pools: dict[str, list[Any]] = {}
        for name, kind in self._flat().items():
            self.pools[name] = [KINDS[kind].draw(rng) for _ in range(rng.choice([1, 3, 8, 60]))]
        self.partition = rng.choice(list(PARTITIONS)) if rng.random() < 0.3 else None
        self.row = 0

    def _flat(self) -> dict[str, str]:
        leaves = {f"{one}.{leaf}": kind for one, members in self.structs.items() for leaf, kind in members.items()}
        return {**self.kinds, **self.lists, **leaves}

    def draw(self) -> Lake | None:
        rng = self.rng
        paths = [self._write(number) for number in range(rng.randint(1, 7))]
        partitioning = None
        try:
            ours = parquet_bloom.dataset(str(self.root) if rng.random() < 0.5 or self.partition else paths)
        except ParquetBloomError:
            return None
        values = dict(self.pools)
        if self.partition:
            kind = PARTITIONS[self.partition][0]
            if ours.schema.field("p").type != kind:
                return None  # "07" alone is text, and nulls alone are
            partitioning = ds.partitioning(pa.schema([pa.field("p", kind)]), flavor="hive")
        # Files in the order in which this package lists them, for `head` and `take`.
        plain = ds.dataset(
            ours.files,
            schema=ours.schema,
            partitioning=partitioning,
            partition_base_dir=str(self.root),
            format="parquet",
        )
        # A column that is in no file is not in the schema.
        found = {*ours.schema.names}
        kinds, structs, lists = (
            {name: kind for name, kind in columns.items() if name in found}
            for columns in (self.kinds, self.structs, self.lists)
        )
        return Lake(ours, plain, kinds, values, structs, lists)  # type: ignore[arg-type]

    def _write(self, number: int) -> str:
        rng = self.rng
        count = rng.choice([0, 1, 5, 20, 40, 60])
        columns: dict[str, Any] = {"row": pa.array(range(self.row, self.row + count), pa.int64())}
        self.row += count
        for name, kind in self.kinds.items():
            if rng.random() < 0.9:
                columns[name] = self._column(name, kind, count)
        for name, kind in self.lists.items():
            item = KINDS[kind].types[0]
            rows = [[rng.choice(self.pools[name]) for _ in range(rng.choice([0, 1, 2]))] for _ in range(count)]
            rows = [None if rng.random() < 0.1 else row for row in rows]
            columns[name] = pa.array(rows, pa.list_(item))
        for name, members in self.structs.items():
            if rng.random() < 0.9:
                arrays = [self._column(f"{name}.{leaf}", kind, count, first=True) for leaf, kind in members.items()]
                mask = pa.array([rng.random() < 0.15 for _ in range(count)], pa.bool_())
                columns[name] = pa.StructArray.from_arrays(arrays, list(members), mask=mask)
        table = pa.table(columns)
        sortable = [name for name in self.kinds if name in columns and name not in ("c", "s", "id")]
        if sortable and rng.random() < 0.5:
            table = table.sort_by(rng.choice(sortable))
        folder = self.root
        if self.partition:
            value = rng.choice([None, *PARTITIONS[self.partition][1] * 2])
            folder /= f"p={'__HIVE_DEFAULT_PARTITION__' if value is None else value}"
        folder.mkdir(parents=True, exist_ok=True)
        path = str(folder / f"{number}.parquet")
        options: dict[str, Any] = {"write_page_index": rng.random() < 0.5, "store_schema": rng.random() < 0.85}
        options |= {"use_dictionary": rng.random() < 0.5, "data_page_version": rng.choice(["1.0", "2.0"])}
        options["use_deprecated_int96_timestamps"] = rng.random() < 0.15
        pq.write_table(table, path, row_group_size=rng.choice([4, 15, 1000]), data_page_size=40, **options)
        hashable = [
            name for name in self._flat() if name.split(".")[0] in columns and name not in ("flag", *self.lists)
        ]
        chosen = [name for name in hashable if rng.random() < 0.6]
        if chosen and count and rng.random() < 0.75:
            try:
                parquet_bloom.embed(path, chosen)
            except ParquetBloomError:  # INT96, for example, has no filters
                parquet_bloom.embed(path, ["row"])
        return path

    def _column(self, name: str, kind: str, count: int, first: bool = False) -> pa.Array:
        """Draw rows; values that the file's type cannot hold are null."""
        rng, options = self.rng, KINDS[kind].types
        arrow_type = options[0] if first or rng.random() < 0.5 else rng.choice(options)
        some = rng.sample(self.pools[name], rng.randint(1, len(self.pools[name])))  # other values in each file
        nulls = rng.choice([0, 0.15, 0.15, 1.0 if rng.random() < 0.2 else 0])
        rows = [None if rng.random() < nulls else _fit(rng.choice(some), arrow_type) for _ in range(count)]
        if pa.types.is_dictionary(arrow_type):
            return pa.array(rows, arrow_type.value_type).dictionary_encode()
        if isinstance(arrow_type, pa.UuidType):
            return pa.array([None if row is None else row.bytes for row in rows], pa.binary(16)).cast(arrow_type)
        return pa.array(rows, arrow_type)


def _fit(value: Any, arrow_type: pa.DataType) -> Any:
    if isinstance(value, uuid.UUID) or pa.types.is_dictionary(arrow_type):
        return value
    try:
        return value if isinstance(value, float) else pa.scalar(value, arrow_type).as_py()
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None
