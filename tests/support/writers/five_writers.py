"""Random tables in files of five writers, and what is known of them without reading them back.

Row groups overlap in their ranges and differ in their values, so that statistics alone do not distinguish them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.engines.clickhouse import ClickHouse
from support.oracle import oracle
from support.oracle.ranked import Ranked, key
from support.writers import random_files, surgery
from support.writers.peers import SPARK_COLUMNS, VALUES, arrow_array, leaves, take_rows

DUCKDB_ROWS = 2048  # it cuts row groups at multiples of this


@dataclass
class Table:
    """A file and what was put into it.

    Attributes
    ----------
    columns : what predicates may name, by dotted path.
    given : the same as DuckDB gets it, with the rows' numbers as `row`.
    elements : {leaf: the values of each row's list}; by the column's name while the file is made.
    order : the rows' numbers as they stand in the file.
    starts : where in `order` each row group starts, and where the last one ends.
    filtered, bounded : {leaf: for each row group, whether there is a filter, or minimum and maximum}.
    """

    writer: str
    path: Path
    columns: dict[str, Ranked]
    given: pa.Table
    elements: dict[str, list[list[Any]]]
    story: str
    order: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    filtered: dict[str, np.ndarray] = field(default_factory=dict)
    bounded: dict[str, np.ndarray] = field(default_factory=dict)


def draw_column(rng: random.Random, kind: str, groups: list[int]) -> tuple[list[Any], np.ndarray]:
    """A pool of values, and for each row the index of its own: each row group draws from a part of the pool."""
    values = VALUES[kind]
    numbers = np.random.default_rng(rng.randrange(2**32))
    pool: list[Any] = [None, *values.always]
    picks = []
    extremes = rng.random() < 0.3
    for rows in groups:
        fresh = [values.draw(rng) for _ in range(rng.choice([1, 3, 20, 60]))]
        own = np.arange(len(pool), len(pool) + len(fresh))
        pool += fresh
        if extremes:
            own = np.append(own, np.arange(len(values.always) + 1))
        chosen = numbers.choice(own, rows)
        nulls = rng.choice([0.0, 0.0, 0.1, 0.9, 1.0 if rng.random() < 0.3 else 0.2])
        chosen[numbers.random(rows) < nulls] = 0
        picks.append(chosen)
    return pool, np.concatenate(picks) if picks else np.zeros(0, np.int64)


def draw_table(
    rng: random.Random, kinds: list[str], groups: list[int]
) -> tuple[pa.Table, dict[str, Ranked], dict[str, list[list[Any]]]]:
    """Arrow data, its columns and leaves, and what its lists hold."""
    arrays: dict[str, pa.Array] = {"row": pa.array(np.arange(sum(groups)), pa.int32())}
    columns: dict[str, Ranked] = {}
    elements: dict[str, list[list[Any]]] = {}
    for kind in kinds:
        pool, picks = draw_column(rng, kind, groups)
        view = VALUES[kind].arrow == pa.string_view()  # which Arrow's take does not know
        values = arrow_array(pool, pa.string() if view else VALUES[kind].arrow).take(pa.array(picks, pa.int64()))
        arrays[kind] = values.cast(pa.string_view()) if view else values
        if kind == "st":
            a = [value and value["a"] for value in pool]
            c = [value and value["b"] and value["b"]["c"] for value in pool]
            columns["st.a"] = Ranked("st.a", "i32", pa.int32(), a, picks)
            columns["st.b.c"] = Ranked("st.b.c", "str", pa.string(), c, picks)
        elif kind == "li":
            elements[kind] = [pool[pick] or [] for pick in picks]
        elif kind not in random_files.NESTED:
            columns[kind] = Ranked(kind, kind, VALUES[kind].arrow, pool, picks)
    return pa.table(arrays), columns, elements


def make_table(rng: random.Random, writer: str, path: Path, server: ClickHouse | None) -> Table | None:
    """A file of one of the writers but Spark; None where its writer makes what pyarrow cannot read."""
    kinds = rng.sample(random_files.KINDS[writer], rng.randint(2, 6))
    size = DUCKDB_ROWS if writer == "duckdb" else rng.choice([1, 5, 30, 30, 100])
    groups = [] if rng.random() < 0.02 else [size] * rng.randint(1, 5)
    if groups:
        groups[-1] -= rng.randrange(size)
    given, columns, elements = draw_table(rng, kinds, groups)
    if writer == "pyarrow":
        options, given = _by_pyarrow(rng, given, path, size)
    elif writer == "clickhouse":
        assert server is not None
        options = random_files.by_clickhouse(server, rng, given, path, size)
    else:
        options = getattr(random_files, f"by_{writer}")(rng, given, path, size)
    if not random_files.readable(path, str(options)):
        return None
    return finished(rng, Table(writer, path, columns, given, elements, f"{kinds} {groups} {options}"))


def _by_pyarrow(rng: random.Random, given: pa.Table, path: Path, size: int) -> tuple[Any, pa.Table]:
    """Also decimals in BYTE_ARRAY, which no writer makes any more, and row groups without rows."""
    decimals = [name for name in given.column_names if pa.types.is_decimal(given[name].type)]
    if decimals and rng.random() < 0.4:
        name = rng.choice(decimals)
        kind = given[name].type
        texts = [
            None if value is None else oracle.stored(value, "BYTE_ARRAY", scale=kind.scale)
            for value in given[name].to_pylist()
        ]
        stored = given.set_column(given.column_names.index(name), name, pa.array(texts, pa.binary()))
        options = random_files.by_pyarrow(
            rng, stored.drop_columns(["row"]).append_column("row", given["row"]), path, size
        )
        surgery.relabel(path, name, surgery.decimal_annotation(kind.precision, kind.scale))
        return options | {"BYTE_ARRAY": name}, given
    if rng.random() < 0.15:
        with pq.ParquetWriter(path, given.schema, use_dictionary=rng.random() < 0.5) as writer:
            for start in range(0, len(given), size):
                writer.write_table(given.slice(0, 0))
                writer.write_table(given.slice(start, size))
        return {"row_groups": "with empty ones"}, given
    return random_files.by_pyarrow(rng, given, path, size), given


def spark_tables(spark: Any, rng: random.Random, folder: Path, count: int) -> Iterator[Table]:
    """Files of one Spark job, all of Spark's types in each."""
    folder.mkdir()
    size = rng.choice([5, 30, 100])
    kinds = [kind for kind in SPARK_COLUMNS if kind not in ("ma", "ls")]
    values = [draw_table(rng, kinds, [size] * rng.randint(1, 5)) for _ in range(count)]
    parts = [
        given.append_column("part", pa.array([i] * len(given), pa.int32())) for i, (given, *_) in enumerate(values)
    ]
    source = folder / "spark-source.parquet"
    pq.write_table(pa.concat_tables(parts), source, store_decimal_as_integer=True)
    options: dict[str, Any] = {
        "parquet.block.row.count.limit": size,
        "parquet.enable.dictionary": rng.choice(["true", "false"]),
        "parquet.column.statistics.enabled": rng.choice(["true", "true", "false"]),
        "parquet.bloom.filter.enabled": rng.choice(["true", "true", "false"]),
        "parquet.bloom.filter.expected.ndv": rng.choice([10, 100]),
        "parquet.bloom.filter.max.bytes": rng.choice([256, 320, 1000, 4096]),
        "parquet.bloom.filter.adaptive.enabled": rng.choice(["true", "false"]),
        "compression": rng.choice(["snappy", "zstd", "uncompressed"]),
    }
    settings = {
        "spark.sql.parquet.outputTimestampType": rng.choice(["INT96", "TIMESTAMP_MICROS"]),
        "spark.sql.parquet.writeLegacyFormat": rng.choice(["true", "false"]),
    }
    before = {name: spark.conf.get(name) for name in settings}
    target = folder / "spark-target"
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame = spark.read.parquet(str(source)).coalesce(1)
        frame.write.partitionBy("part").options(**options).parquet(str(target))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    for number, (given, columns, elements) in enumerate(values):
        (part,) = (target / f"part={number}").glob("*.parquet")
        path = part.rename(folder / f"spark-{rng.randrange(2**60):x}.parquet")
        yield finished(rng, Table("spark", path, columns, given, elements, f"{options} {settings}"))


def finished(rng: random.Random, table: Table) -> Table:
    """Add filters of ours, take evidence away here and there, and look at what is there."""
    table.story += random_files.embed(rng, table.path, odd=table.writer == "spark")
    if rng.random() < 0.25:
        table.story += _without_some(rng, table.path)
    metadata = pq.read_metadata(table.path)
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    table.starts = np.cumsum([0, *sizes])
    scan = pq.read_table(table.path)
    table.order = scan["row"].to_numpy()
    assert sorted(table.order) == list(range(len(table.given)))
    _check_footer(table)
    # The leaf's name is its writer's choice.
    table.elements = {
        leaf: stored_values
        for leaf in table.filtered
        for top, stored_values in table.elements.items()
        if leaf.startswith(f"{top}.")
    }
    assert_as_given(rng, table, scan)
    return table


def _without_some(rng: random.Random, path: Path) -> str:
    """Some chunks lose their statistics, others their filters."""
    share = rng.choice([0.2, 0.7])

    def change(footer: oracle.Struct) -> None:
        for _, metadata in surgery.each_chunk(footer):
            if rng.random() < share:
                metadata.pop(surgery.STATISTICS, None)
            if rng.random() < share:
                metadata.pop(oracle.OFFSET, None)
                metadata.pop(oracle.LENGTH, None)

    surgery.rewrite_footer(path, change)
    return f"; without some ({share})"


def _check_footer(table: Table) -> None:
    groups = oracle.read_footer(table.path).value(oracle.ROW_GROUPS).items
    for columns in (table.filtered, table.bounded):
        columns.update({name: np.zeros(len(groups), np.bool_) for name in leaves(table.path)})
    for number, group in enumerate(groups):
        for chunk in group.value(oracle.COLUMNS).items:
            metadata = chunk.value(oracle.META_DATA)
            name = oracle.dotted(metadata)
            statistics = metadata.value(surgery.STATISTICS) if surgery.STATISTICS in metadata else {}
            for columns, known_statistics in (
                (table.filtered, oracle.OFFSET in metadata),
                (table.bounded, 5 in statistics and 6 in statistics),
            ):
                columns[name][number] = known_statistics


SAMPLE = 200


def assert_as_given(rng: random.Random, table: Table, scan: pa.Table) -> None:
    """That the file holds what was put into it, for the oracle speaks of that."""
    physical = {name: leaf.physical for name, leaf in leaves(table.path).items()}
    rows = np.array(sorted(rng.sample(range(len(scan)), min(SAMPLE, len(scan)))), np.int64)
    some = take_rows(scan, rows)
    for name, column in table.columns.items():
        if physical[name] == "INT96":  # pyarrow wraps what nanoseconds of 64 bits cannot count
            continue
        top, *rest = name.split(".")
        stored = some[top].combine_chunks()
        if pa.types.is_timestamp(stored.type) or pa.types.is_time(stored.type):
            unit: Callable[[Any], Any] = lambda value, kind=stored.type: key(value, kind)  # noqa: E731
            values = stored.cast(pa.int32() if stored.type.bit_width == 32 else pa.int64()).to_pylist()
        else:
            unit = lambda value, kind=column.arrow: key(value, kind)  # noqa: E731
            values = stored.to_pylist()
        for part in rest:
            values = [value and value[part] for value in values]
        result = [None if value is None else unit(value) for value in values]
        assert result == column.keys(table.order[rows]), (name, table.story)
