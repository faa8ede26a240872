"""Random lakes: files of several writers with every type, codec, encoding and size of page, in folders, some damaged.

A seed decides everything. Every file has the column `row`, whose values no other row has, and whose pages are whole.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError
from support.oracle import oracle
from support.oracle.ranked import NANOS, NANOS_PER_DAY, Ranked, key
from support.random_cases.scan_damage import damage
from support.writers import orc_tables, random_files, surgery
from support.writers.peers import SPARK_COLUMNS, VALUES, Kind, arrow_array

ROW, FOLDER = "row", "p"
WRITERS = ("pyarrow", "pyarrow", "pyarrow", "duckdb", "polars", "datafusion")
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_NARROWER = {"i64": (pa.int32(), pa.int16()), "i32": (pa.int16(), pa.int8()), "u64": (pa.uint32(),)}
_TAKES = {
    **random_files.KINDS,
    "spark": [name for name in SPARK_COLUMNS if name not in random_files.NESTED] + ["st"],
    "orc": [*orc_tables.KINDS, "nothing", "st"],
}


def _some(draw: Callable[[random.Random], Any], most: int = 3) -> Callable[[random.Random], list[Any]]:
    return lambda rng: [None if rng.random() < 0.1 else draw(rng) for _ in range(rng.randint(0, most))]


def _text(rng: random.Random) -> str:
    return rng.choice(
        ["", "a", "b", "ä", "\U00010000", str(rng.randrange(2000)), "long text of more than twelve bytes"]
    )


# Lists that predicates ask for an element.
LISTS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "li_i64": (pa.int64(), lambda rng: rng.choice([rng.randint(0, 60), rng.randint(-(2**63), 2**63 - 1)])),
    "li_i32": (pa.int32(), lambda rng: rng.choice([rng.randint(-20, 20), rng.randint(-2000, 2000)])),
    "li_str": (pa.string(), _text),
    "li_date": (pa.date32(), lambda rng: dt.date(2020, 1, 1) + dt.timedelta(days=rng.randrange(900))),
    "li_f64": (pa.float64(), lambda rng: rng.randint(-9, 9) / 2),
    "li_bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
}
# What is in results alone.
_CARRIED: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "large_list": (pa.large_list(pa.int32()), _some(lambda rng: rng.randint(0, 99))),
    "fixed_list": (pa.list_(pa.int16(), 2), lambda rng: [rng.randint(0, 99), None if rng.random() < 0.2 else 1]),
    "lists": (pa.list_(pa.list_(pa.string())), _some(_some(_text, 2))),
    "map_lists": (
        pa.map_(pa.string(), pa.list_(pa.int64())),
        lambda rng: [(f"{i}", _some(lambda r: r.randint(0, 9), 2)(rng)) for i in range(rng.randint(0, 2))],
    ),
    "deep": (
        pa.struct([("x", pa.list_(pa.int64())), ("y", pa.struct([("z", pa.timestamp("us"))]))]),
        lambda rng: {
            "x": rng.choice([None, _some(lambda r: r.randint(0, 9))(rng)]),
            "y": rng.choice([None, {"z": dt.datetime(2020, 1, 1) + dt.timedelta(seconds=rng.randrange(99))}]),
        },
    ),
    "d76": (pa.decimal256(50, 5), lambda rng: decimal.Decimal(rng.randint(-(10**18), 10**18)) / 10**5),
    "dict_int": (pa.dictionary(pa.int16(), pa.int64()), lambda rng: rng.randint(0, 9)),
    "duration": (pa.duration("us"), lambda rng: dt.timedelta(seconds=rng.randint(0, 9999))),
    "null": (pa.null(), lambda rng: None),
    "bin_view": (pa.binary_view(), lambda rng: rng.randbytes(rng.randint(0, 30))),
    "large_bin": (pa.large_binary(), lambda rng: rng.randbytes(rng.randint(0, 30))),
    "halves": (pa.list_(pa.float16()), _some(lambda rng: float(rng.randint(-9, 9)))),
    "pad": (pa.binary(), lambda rng: rng.randbytes(120)),
    **{name: (VALUES[name].arrow, VALUES[name].draw) for name in ("li", "ma", "ls")},
}
_FOLDERS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("i64", pa.int64(), [1, 2, -7]),
    ("str", pa.string(), ["a", "ä", "07", "x y"]),
    ("date", pa.date32(), [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]),
]


@dataclass
class LakeFile:
    """A file of a lake.

    Attributes
    ----------
    rows : as plain pyarrow reads the file before it is damaged.
    groups : number of rows of each row group.
    damage : what is wrong with it; "" for nothing.
    start : number of the lake's rows before its own.
    """

    path: Path
    rows: pa.Table
    groups: list[int]
    story: str
    damage: str = ""
    start: int = 0

    @cached_property
    def filtered(self) -> dict[str, np.ndarray]:
        """For each leaf of a Parquet file, which row groups have a filter of it."""
        groups = oracle.read_footer(self.path).value(oracle.ROW_GROUPS).items
        found: dict[str, np.ndarray] = {}
        for number, group in enumerate(groups):
            for chunk in group.value(oracle.COLUMNS).items:
                metadata = chunk.value(oracle.META_DATA)
                flags = found.setdefault(oracle.dotted(metadata), np.zeros(len(groups), np.bool_))
                flags[number] = oracle.OFFSET in metadata
        return found


@dataclass
class Lake:
    """A lake.

    Attributes
    ----------
    columns : what predicates may name. Their rows are those of all files in order, as they were before the damage;
        then come those of the damaged file, as pyarrow reads it.
    lists : {list: the lists of these rows}.
    elements : {list: values to ask for}.
    rows : of all files as they were before the damage, combined.
    seen : {column: rows of the damaged file as pyarrow reads it, and which of them it can read}.
    """

    seed: int
    folder: Path
    files: list[LakeFile]
    columns: dict[str, Ranked]
    lists: dict[str, list[Any]]
    elements: dict[str, list[Any]]
    rows: pa.Table
    seen: dict[str, tuple[pa.ChunkedArray, np.ndarray]] = field(default_factory=dict)

    @property
    def damaged(self) -> LakeFile | None:
        return next((file for file in self.files if file.damage), None)

    @property
    def names(self) -> list[str]:
        """Of the files, below the folder."""
        return [str(file.path.relative_to(self.folder)) for file in self.files]

    @property
    def has_folders(self) -> bool:
        return FOLDER in self.rows.column_names

    @property
    def is_alike(self) -> bool:
        """Whether all files have the same columns of the same types."""
        return all(file.rows.schema.equals(self.files[0].rows.schema) for file in self.files)

    @property
    def story(self) -> str:
        return "; ".join(
            f"{file.path.name}: {file.story}{file.damage and ' DAMAGED ' + file.damage}" for file in self.files
        )


@dataclass(frozen=True)
class Choices:
    """What a lake is drawn from.

    Attributes
    ----------
    writers : of its files.
    helper : what the writer needs: a session for Spark, a server for ClickHouse.
    scale : of row groups: "small", "medium", "large" with thousands of rows; None for any.
    kinds : columns by name.
    narrower : other types that files may have of a column; values that these do not hold are null there.
    is_mixed : whether files may differ in columns and types.
    can_be_damaged : whether a file may be.
    carries : whether there are columns of types that predicates cannot name.
    """

    writers: Sequence[str] = WRITERS
    helper: Any = None
    scale: str | None = None
    kinds: Mapping[str, Kind] = field(default_factory=lambda: VALUES)
    narrower: Mapping[str, Sequence[pa.DataType]] = field(default_factory=lambda: _NARROWER)
    is_mixed: bool = True
    can_be_damaged: bool = True
    carries: bool = True


def draw_lake(seed: int, folder: Path, choices: Choices | None = None) -> Lake:
    """Write a lake into a new folder; one whose files have no common schema is drawn anew."""
    choices = choices or Choices()
    rng = random.Random(f"lake {seed} {choices.writers}")
    for attempt in range(30):
        lake = _Drawing(rng, seed, folder / f"{seed}-{attempt}", choices).draw()
        if lake is not None:
            return lake
        shutil.rmtree(folder / f"{seed}-{attempt}")
    raise AssertionError(f"seed {seed} draws no lake whose files fit together")


class _Drawing:
    def __init__(self, rng: random.Random, seed: int, folder: Path, choices: Choices):
        self.rng, self.seed, self.folder, self.choices = rng, seed, folder, choices
        folder.mkdir(parents=True)
        writers = choices.writers
        self.writers = writers if rng.random() < 0.4 else [rng.choice(writers)]
        kinds = [name for name in choices.kinds if name not in random_files.NESTED]
        if len({*writers}) == 1:
            kinds = [name for name in kinds if self._takes(writers[0], name)]
        self.kinds = rng.sample(kinds, rng.randint(1, min(6, len(kinds))))
        if rng.random() < 0.25:
            self.kinds.append("st")
        self.lists = rng.sample(list(LISTS), rng.choice([0, 0, 1, 1, 2]))
        self.carried = rng.sample([*_CARRIED], rng.choice([0, 0, 1, 2])) if choices.carries else []
        self.pools: dict[str, list[Any]] = {name: [None] for name in (ROW, *self.kinds, *self.lists)}
        self.picks: dict[str, list[np.ndarray]] = {name: [] for name in self.pools}
        self.scale = choices.scale or rng.choices(["small", "medium", "large"], [62, 33, 5])[0]
        self.is_mixed = choices.is_mixed and rng.random() < 0.4  # files have other columns and types
        self.folders = rng.choice(_FOLDERS) if rng.random() < 0.2 else None

    def _takes(self, writer: str, name: str) -> bool:
        return name in _TAKES[writer] or name not in VALUES

    def _kind(self, name: str) -> Kind:
        return VALUES["st"] if name == "st" else self.choices.kinds[name]

    def draw(self) -> Lake | None:
        rng = self.rng
        count = 1 if self.scale == "large" else rng.choice([1, 1, 2, 3, 5, 8])
        if "spark" in self.writers:
            count = min(count, 2)  # each takes a job
        values = []
        if self.folders:
            # Folders are read in the order of their names, of text alone if each could be something else.
            texts = sorted([NULL_FOLDER if one is None else str(one) for one in (None, *self.folders[2])])
            values = sorted(rng.choices(texts, k=count))
            if set(values) <= {NULL_FOLDER, "07"}:
                return None
        files, start = [], 0
        for number in range(count):
            file = self._write(number, start, values[number] if values else None)
            if file is None:
                return None
            files.append(file)
            start += len(file.rows)
        try:
            rows = combine([file.rows for file in files])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return None
        damaged = self._damage(files) if self.choices.can_be_damaged and rng.random() < 0.2 else None
        seen = {} if damaged is None else see_columns(damaged, rows.schema)
        columns: dict[str, Ranked] = {}
        for name in rows.column_names:
            if name in (*self.kinds, ROW):
                columns.update(self._rank(name, seen))
            elif name == FOLDER and self.folders:
                kind, arrow, pool = self.folders
                known, more = rows[name].to_pylist(), [] if damaged is None else keys_of(seen[name], [], arrow)
                places = np.array([[None, *pool].index(value) for value in known], np.int64)
                columns[name] = Column(name, kind, arrow, [None, *pool], places, more)
        elements = {
            name: [item for value in self.pools[name] for item in value or () if item is not None]
            for name in self.lists
            if name in rows.column_names
        }
        lists = {name: self._list_values(name, seen) for name in elements}
        return Lake(self.seed, self.folder, files, columns, lists, elements, rows, seen)

    # ------------------------------------------------------------------------------------------------------ one file

    def _write(self, number: int, start: int, folder: str | None) -> LakeFile | None:
        rng = self.rng
        writer = rng.choice(self.writers)
        size, count = self._sizes(writer)
        self.pools[ROW] += range(start, start + count)
        self.picks[ROW].append(np.arange(start + 1, start + count + 1))
        arrays: dict[str, pa.Array] = {}
        for name in self.kinds:
            is_here = self._takes(writer, name) and not (self.is_mixed and rng.random() < 0.12)
            picks = self._draw(name, self._kind(name).draw, self._kind(name).always, size, count, is_here)
            if is_here:
                arrays[name] = self._array(name, picks)
        for name in self.lists:
            element, draw = LISTS[name]
            is_here = writer == "pyarrow" and not (self.is_mixed and rng.random() < 0.12)
            picks = self._draw(name, _some(draw), [None, []], size, count, is_here)
            if is_here:
                arrays[name] = arrow_array(self.pools[name], pa.list_(element)).take(pa.array(picks))
        for name in self.carried if writer == "pyarrow" else ():
            arrow, draw = _CARRIED[name]
            arrays[name] = arrow_array([None if rng.random() < 0.1 else draw(rng) for _ in range(count)], arrow)
        names = list(arrays)
        if self.is_mixed and rng.random() < 0.3:
            rng.shuffle(names)
        names.insert(rng.choice([0, len(names)]), ROW)
        arrays[ROW] = pa.array(np.arange(start, start + count), pa.int64())
        table = pa.table({name: arrays[name] for name in names})
        path = self.folder / (f"{FOLDER}={folder}" if folder is not None else "") / f"{number:02}.parquet"
        path.parent.mkdir(exist_ok=True)
        story = f"{writer} {self._write_by(writer, table, path, size)}"
        try:
            stored = po.read_table(path) if writer == "orc" else pq.ParquetFile(path).read()
        except (OSError, pa.ArrowInvalid):  # pyarrow does not read all that DuckDB and itself write
            return None
        order = stored[ROW].to_numpy() - start
        assert np.array_equal(np.sort(order), np.arange(count)), f"{writer} has written other rows: seed {self.seed}"
        for picks in self.picks.values():
            picks[-1] = picks[-1][order]
        if writer == "orc":
            (plan,) = parquet_bloom.prune(path, f"{ROW} IS NOT NULL").files
            groups = [one.num_rows for one in plan.row_groups]
        else:
            story += self._change_evidence(path, writer)
            metadata = pq.read_metadata(path)
            groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if folder is not None and self.folders:
            value = next((one for one in self.folders[2] if str(one) == folder), None)
            stored = stored.append_column(FOLDER, pa.array([value] * count, self.folders[1]))
        return LakeFile(path, stored, groups, f"{story} {groups}", start=start)

    def _write_by(self, writer: str, table: pa.Table, path: Path, size: int) -> Any:
        rng = self.rng
        if writer == "pyarrow":
            return write_by_pyarrow(rng, table, path, size)
        if writer == "clickhouse":
            return random_files.by_clickhouse(self.choices.helper, rng, table, path, size)
        if writer == "spark":
            return write_by_spark(self.choices.helper, rng, table, path, size)
        if writer == "orc":
            return orc_tables.by_either(rng, path, {name: _as_python(table[name]) for name in table.column_names})
        return getattr(random_files, f"by_{writer}")(rng, table, path, size)

    def _change_evidence(self, path: Path, writer: str) -> str:
        """Give columns filters of ours, and take statistics and filters of some chunks away."""
        rng, story = self.rng, ""
        with contextlib.suppress(ParquetBloomError):  # pyarrow does not read all pages of others
            story += random_files.embed(rng, path, odd=writer == "spark")
        if rng.random() < 0.15:
            story += " without some"

            def remove(footer: oracle.Struct) -> None:
                for _, metadata in surgery.each_chunk(footer):
                    for fields in ((surgery.STATISTICS,), (oracle.OFFSET, oracle.LENGTH)):
                        if rng.random() < 0.3:
                            for one in fields:
                                metadata.pop(one, None)

            surgery.rewrite_footer(path, remove)
        return story

    def _sizes(self, writer: str) -> tuple[int, int]:
        """Draw the rows of a row group, and those of a file."""
        rng = self.rng
        if rng.random() < 0.05:
            return 10, 0 if writer != "spark" else 1
        if self.scale == "small":
            size = rng.choice([1, 5, 30, 30, 100])
        elif self.scale == "medium":
            size = rng.choice([200, 1000, 3000])
        else:
            size = rng.choice([5_000, 20_000])
        count = max(size * rng.choice([1, 2, 3, 5]) - rng.randrange(size), 1)
        return (max(2048, size // 2048 * 2048) if writer == "duckdb" else size), min(count, 40_000)

    def _draw(
        self,
        name: str,
        draw: Callable[[random.Random], Any],
        always: Sequence[Any],
        size: int,
        count: int,
        is_here: bool,
    ) -> np.ndarray:
        """Draw which of the column's values each row has: each row group draws from a part of them."""
        rng, pool = self.rng, self.pools[name]
        if not is_here:
            self.picks[name].append(np.zeros(count, np.int64))
            return self.picks[name][-1]
        numbers = np.random.default_rng(rng.randrange(2**32))
        picks = []
        share = rng.choice([0.0, 0.0, 0.1, 0.9, 1.0])
        for rows in [min(size, count - start) for start in range(0, count, size)]:
            fresh = [draw(rng) for _ in range(rng.choice([1, 3, 20, 60, min(rows, 500), min(rows, 500)]))]
            own = np.arange(len(pool), len(pool) + len(fresh))
            pool += fresh
            if rng.random() < 0.3:
                pool += always
                own = np.append(own, np.arange(len(pool) - len(always), len(pool)))
            chosen = numbers.choice(own, rows)
            chosen[numbers.random(rows) < (share if rng.random() < 0.8 else 0)] = 0
            picks.append(np.sort(chosen) if rng.random() < 0.2 else chosen)
        self.picks[name].append(np.concatenate(picks) if picks else np.zeros(0, np.int64))
        return self.picks[name][-1]

    def _array(self, name: str, picks: np.ndarray) -> pa.Array:
        arrow, pool, narrower = self._kind(name).arrow, self.pools[name], self.choices.narrower
        if self.is_mixed and name in narrower and self.rng.random() < 0.4:
            arrow = self.rng.choice(narrower[name])
            pool = [_fit(value, arrow) for value in pool]
            picks[np.array([value is None for value in pool])[picks]] = 0
        is_view = arrow == pa.string_view()  # which Arrow's take does not know
        values = arrow_array(pool, pa.string() if is_view else arrow).take(pa.array(picks))
        return values.cast(pa.string_view()) if is_view else values

    # ------------------------------------------------------------------------------------------------ what is in them

    def _damage(self, files: list[LakeFile]) -> LakeFile | None:
        file = self.rng.choice(files)
        if file.story.startswith("orc"):
            return None
        file.damage = damage(self.rng, file.path, [ROW])
        return file if file.damage else None

    def _rank(self, name: str, seen: dict[str, tuple[pa.ChunkedArray, np.ndarray]]) -> dict[str, Ranked]:
        pool, picks = self.pools[name], np.concatenate(self.picks[name])
        if name == "st":
            a = [value and value["a"] for value in pool]
            c = [value and value["b"] and value["b"]["c"] for value in pool]
            leaves = {"st.a": ("i32", pa.int32(), a), "st.b.c": ("str", pa.string(), c)}
        else:
            leaves = {name: ("i64", pa.int64(), pool) if name == ROW else (name, self._kind(name).arrow, pool)}
        columns: dict[str, Ranked] = {}
        for path, (kind, arrow, values) in leaves.items():
            more = [] if name not in seen else keys_of(seen[name], path.split(".")[1:], arrow)
            columns[path] = Column(path, kind, arrow, values, picks, more)
        return columns

    def _list_values(self, name: str, seen: dict[str, tuple[pa.ChunkedArray, np.ndarray]]) -> list[Any]:
        values = [self.pools[name][pick] for pick in np.concatenate(self.picks[name])]
        for array in seen[name][0].chunks if name in seen else ():
            for value in array:
                try:
                    values.append(value.as_py())
                except (UnicodeDecodeError, OverflowError, ValueError):  # texts that are none
                    values.append([])
        return values


def _fit(value: Any, arrow: pa.DataType) -> Any:
    """Return a value as another type has it, or None."""
    if isinstance(value, float) or pa.types.is_dictionary(arrow):
        return value
    try:
        return pa.scalar(value, arrow).as_py()
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


class Column(Ranked):
    """A column, followed by rows of which the keys are given."""

    def __init__(
        self, name: str, kind: str, arrow: pa.DataType, pool: Sequence[Any], picks: np.ndarray, more: Sequence[Any]
    ):
        super().__init__(name, kind, arrow, pool, picks)
        if more:
            keys = [*self.keys(np.arange(len(picks))), *more]
            self._order = sorted({item for item in keys if item is not None})
            ranks = {item: rank for rank, item in enumerate(self._order)}
            self._ranks = np.array([-1 if item is None else ranks[item] for item in keys], np.int64)


def keys_of(seen: tuple[pa.ChunkedArray, np.ndarray], path: Sequence[str], arrow: pa.DataType) -> list[Any]:
    """Return the sort keys of a column as it is read; None where it is not."""
    values = seen[0].combine_chunks()
    for part in path:
        values = pc.struct_field(values, part)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    kind = values.type
    factor = 0
    if pa.types.is_temporal(kind):
        factor = NANOS_PER_DAY if pa.types.is_date(kind) else NANOS[kind.unit]
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        values = values.cast(pa.large_binary())
    rows = values.to_pylist()
    if factor:
        return [None if row is None else row * factor for row in rows]
    return [None if row is None else key(row, arrow) for row in rows]


def combine(tables: Sequence[pa.Table]) -> pa.Table:
    """Combine the rows of files, with dictionaries decoded."""
    return pa.concat_tables([decode(table) for table in tables], promote_options="permissive")


def decode(table: pa.Table) -> pa.Table:
    """Decode dictionaries, and drop what files say of themselves."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            chunks = [chunk.dictionary_decode() for chunk in column.chunks]
            column = pa.chunked_array(chunks, column.type.value_type)
        columns.append(column.cast(_make_nullable(column.type)) if pa.types.is_struct(column.type) else column)
    return pa.table(columns, names=table.column_names)


def _make_nullable(arrow: pa.DataType) -> pa.DataType:
    """Return a type whose fields may be null: whether files say that of them differs by their writers."""
    if not pa.types.is_struct(arrow):
        return arrow
    return pa.struct([pa.field(field.name, _make_nullable(field.type)) for field in arrow])


def see_columns(file: LakeFile, schema: pa.Schema) -> dict[str, tuple[pa.ChunkedArray, np.ndarray]]:
    """Read a damaged file with pyarrow, each column of each row group by itself.

    Returns
    -------
    {column: its rows, null where they cannot be read, and which of them can}.
    """
    seen = {}
    names = set(file.rows.column_names)
    for name in schema.names:
        parts, readable = [], []
        for group, (start, count) in enumerate(zip(np.cumsum([0, *file.groups]), file.groups, strict=False)):
            column = file.rows[name].slice(start, count) if name == FOLDER else None
            if name in names - {FOLDER}:
                with contextlib.suppress(OSError, pa.ArrowException, MemoryError):
                    with pq.ParquetFile(file.path) as opened:
                        rows = decode(opened.read_row_group(group, [name]))
                    if rows.num_rows == count:
                        rows.validate(full=False)
                        column = rows.column(name)
            is_read = column is not None or name not in names
            kind = file.rows.schema.field(name).type if name in names else schema.field(name).type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            parts += [pa.nulls(count, kind)] if column is None else column.chunks
            readable.append(np.full(count, is_read))
        whole = pa.chunked_array(parts, kind) if parts else pa.chunked_array([], schema.field(name).type)
        seen[name] = whole, np.concatenate(readable) if readable else np.zeros(0, np.bool_)
    return seen


def _as_python(column: pa.ChunkedArray) -> list[Any]:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


# -------------------------------------------------------------------------------------------------------- two writers

_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_STAMPS = {name for name in VALUES if name[:3] in ("ts_", "tz_")}
# Encodings other than PLAIN, and the columns that have them.
_ENCODINGS = {
    "DELTA_BINARY_PACKED": {*_INTEGERS, "date", "time_ms", "time_us", "time_ns", *_STAMPS},
    "DELTA_LENGTH_BYTE_ARRAY": {"str", "large_str", "view_str", "bin", "json"},
    "DELTA_BYTE_ARRAY": {"str", "large_str", "view_str", "bin", "json", "flba", "uuid"},
    "BYTE_STREAM_SPLIT": {"i32", "i64", "u32", "u64", "f16", "f32", "f64", "flba", "uuid", "d38", "date"},
    "RLE": {"bool"},
}


def write_by_pyarrow(rng: random.Random, table: pa.Table, path: Path, size: int, **given: Any) -> dict[str, Any]:
    """Write a file with random options but for those given.

    There are also row groups without rows, every encoding, and decimals in BYTE_ARRAY.
    """
    options: dict[str, Any] = {
        "version": rng.choice(["1.0", "2.4", "2.6"]),
        "data_page_version": rng.choice(["1.0", "2.0"]),
        "compression": rng.choice(["none", "none", "snappy", "zstd", "gzip", "lz4", "brotli"]),
        "write_statistics": rng.random() < 0.7,
        "write_page_index": rng.random() < 0.5,
        "data_page_size": rng.choice([40, 400, 10_000, 1 << 20]),
        "write_batch_size": rng.choice([1, 7, 100, 1024]),
        "store_schema": rng.random() < 0.85,
        "store_decimal_as_integer": rng.random() < 0.5,
        "write_page_checksum": rng.random() < 0.3,
        "use_content_defined_chunking": rng.random() < 0.1,
        "use_compliant_nested_type": rng.random() < 0.8,
    }
    kinds = {name for name in table.column_names if name in VALUES}
    if any("[ns" in str(field.type) for field in table.schema):
        options["version"] = "2.6"  # the older ones have no nanoseconds
    if all(name.endswith("_ns") for name in kinds & _STAMPS) and "deep" not in table.column_names:
        options["use_deprecated_int96_timestamps"] = rng.random() < 0.3  # others have dates that are too far
    choice = rng.random()
    if choice < 0.5:
        options["use_dictionary"] = rng.random() < 0.7
    elif choice < 0.6:
        options["use_dictionary"] = rng.sample(table.column_names, rng.randint(0, len(table.column_names)))
    else:
        options["use_dictionary"] = False
        encodings = {name: _draw_encoding(rng, table, name, options) for name in sorted(kinds)}
        options["column_encoding"] = {name: one for name, one in encodings.items() if one is not None}
        options["column_encoding"][ROW] = rng.choice(["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
    if rng.random() < 0.3:
        options["dictionary_pagesize_limit"] = rng.choice([1, 200])  # the rest of a chunk is plain
    if rng.random() < 0.25:
        options["bloom_filter_options"] = {ROW: {"ndv": 100, "fpp": 0.05}}
    if given.get("use_dictionary"):
        options.pop("column_encoding", None)
    options |= given
    decimals = [name for name in table.column_names if pa.types.is_decimal128(table[name].type)]
    if decimals and rng.random() < 0.2:
        name, options["store_schema"] = rng.choice(decimals), False
        kind = table[name].type
        texts = [
            None if value is None else oracle.stored(value, "BYTE_ARRAY", scale=kind.scale)
            for value in table[name].to_pylist()
        ]
        options.get("column_encoding", {}).pop(name, None)
        stored = table.set_column(table.column_names.index(name), name, pa.array(texts, pa.binary()))
        pq.write_table(stored, path, row_group_size=size, **options)
        surgery.relabel(path, name, surgery.decimal_annotation(kind.precision, kind.scale))
        return {**options, "BYTE_ARRAY": name}
    if rng.random() < 0.1:
        with pq.ParquetWriter(path, table.schema, **options) as writer:
            for start in range(0, len(table), size):
                writer.write_table(table.slice(0, 0))
                writer.write_table(table.slice(start, size))
        return {**options, "row_groups": "with empty ones"}
    pq.write_table(table, path, row_group_size=size, **options)
    return options


def _draw_encoding(rng: random.Random, table: pa.Table, name: str, options: dict[str, Any]) -> str | None:
    kind = table.schema.field(name).type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return None
    if options.get("use_deprecated_int96_timestamps") and pa.types.is_timestamp(kind):
        return "PLAIN"
    return rng.choice(["PLAIN", *(encoding for encoding, names in _ENCODINGS.items() if name in names)])


def write_by_spark(
    spark: Any, rng: random.Random, table: pa.Table, path: Path, size: int, **given: Any
) -> dict[str, Any]:
    """Write a file by a job of Spark with random options but for those given."""
    source, target = path.with_suffix(".source"), path.with_suffix(".target")
    pq.write_table(table, source, store_decimal_as_integer=True)
    options: dict[str, Any] = {
        "parquet.block.row.count.limit": size,
        "parquet.enable.dictionary": rng.choice(["true", "false"]),
        "parquet.column.statistics.enabled": rng.choice(["true", "true", "false"]),
        "parquet.bloom.filter.enabled": rng.choice(["true", "true", "false"]),
        "parquet.bloom.filter.expected.ndv": rng.choice([10, 100]),
        "parquet.bloom.filter.max.bytes": rng.choice([256, 320, 1000, 4096]),
        "parquet.bloom.filter.adaptive.enabled": rng.choice(["true", "false"]),
        "compression": rng.choice(["snappy", "zstd", "uncompressed"]),
        **given,
    }
    settings = {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # far dates of INT96 are others to pyarrow
        "spark.sql.parquet.writeLegacyFormat": rng.choice(["true", "false"]),
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.read.parquet(str(source)).coalesce(1).write.options(**options).parquet(str(target))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    (part,) = target.glob("*.parquet")
    part.rename(path)
    source.unlink()
    shutil.rmtree(target)
    return options | settings
