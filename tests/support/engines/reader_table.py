"""Engines that skip a row group by its filter, by type: measured, and as a Markdown table.

    python tests/support/engines/reader_table.py [--spark]

A peer asks a filter if a needle that it finds vanishes as soon as the filter's bits are cleared; statistics cannot
help, since all row groups reach from one extreme to the other. Of us it is wanted that each row group without the
needle is skipped, and by its filter.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a program, too

from support.engines import clickhouse, sql_engines
from support.engines.clickhouse import ClickHouse, ClickHouseError
from support.oracle import oracle
from support.writers import peers, surgery
from support.writers.haystack import Haystack

FPP = 0.0001
OURS = "parquet_bloom"

Question = tuple[Path, str]  # a file, and a condition in the engine's SQL
Engine = Callable[[list[Question]], list[int | None]]  # the rows found, None where the engine fails

# ------------------------------------------------------------------------------------------------------- engines


def engine(name: str, helper: Any = None) -> Engine:
    """An engine by its name; `helper` is Spark's session or ClickHouse's server."""

    def each(count: Callable[[Path, str], int], *errors: type[Exception]) -> Engine:
        def one(question: Question) -> int | None:
            try:
                return count(*question)
            except errors:
                return None

        return lambda questions: [one(question) for question in questions]

    if name == "spark":
        return lambda questions: list(sql_engines.spark_counts(helper, questions))
    if name == "clickhouse":
        return each(lambda path, where: clickhouse.count(helper, path, where), ClickHouseError)
    if name == "datafusion":
        return each(peers.datafusion_count, Exception)  # its errors have no type of their own
    return each(peers.duckdb_count, duckdb.Error)


def sql(engine: str, column: str, value: Any, arrow: pa.DataType) -> str:
    """`column = value` for an engine."""
    if engine == "clickhouse":
        unit, scale = getattr(arrow, "unit", "us"), getattr(arrow, "scale", 0)
        return f"{clickhouse.column(column)} = {clickhouse.literal(value, unit, scale)}"
    return f"{peers.sql_column(engine, column)} = {peers.literal(engine, value, arrow)}"


# --------------------------------------------------------------------------------------------------------- types


@dataclass(frozen=True)
class TypeRow:
    """A row of the table: columns of `peers.VALUES`, and how pyarrow writes them."""

    columns: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    byte_array: bool = False  # decimals in BYTE_ARRAY


TYPES = {
    "int8/16": TypeRow(("i8", "i16")),
    "uint8/16": TypeRow(("u8", "u16")),
    "int32/64": TypeRow(("i32", "i64")),
    "uint32/64": TypeRow(("u32", "u64")),
    "float, double": TypeRow(("f32", "f64")),
    "float16": TypeRow(("f16",)),
    "decimal INT32/INT64": TypeRow(("d9", "d18"), {"store_decimal_as_integer": True}),
    "decimal FLBA": TypeRow(("d4", "d9", "d18", "d38")),
    "decimal BYTE_ARRAY": TypeRow(("d9",), byte_array=True),
    "date": TypeRow(("date",)),
    "time": TypeRow(("time_ms", "time_us", "time_ns")),
    "timestamp without zone": TypeRow(("ts_ms", "ts_us", "ts_ns")),
    "timestamp UTC": TypeRow(("tz_ms", "tz_us", "tz_ns")),
    "INT96": TypeRow(("ts_ns",), {"use_deprecated_int96_timestamps": True}),
    "string, binary": TypeRow(("str", "bin")),
    "FLBA": TypeRow(("flba",)),
    "UUID": TypeRow(("uuid",)),
    "struct leaf": TypeRow(("st.a", "st.b.c")),
    "list element": TypeRow(("li.list.element",)),
    "bool": TypeRow(("bool",)),
}
NO_FILTER = {"bool"}  # as the format has it
NO_SQL = {"list element", "bool"}  # no engine compares a list's elements by its filter, nor are there any for bool


def haystack(folder: Path, title: str, columns: tuple[str, ...] | None = None) -> Haystack:
    """The file of a row of the table, or of some columns of it."""
    row = TYPES[title]
    name = title.replace(" ", "_").replace("/", "_") + "_".join(columns or ())
    if not row.byte_array:
        return Haystack(folder, name, list(columns or row.columns), fpp=FPP, **row.options)
    (column,) = row.columns
    kind = peers.VALUES[column].arrow
    stored = [
        None if value is None else oracle.stored(value, "BYTE_ARRAY", scale=kind.scale)
        for value in peers.column_rows(column)
    ]
    return Haystack(
        folder,
        name,
        [column],
        table=pa.table({column: pa.array(stored, pa.binary())}),
        fpp=FPP,
        prepare=lambda path: surgery.relabel(path, column, surgery.decimal_annotation(kind.precision, kind.scale)),
    )


def filtered_by_pyarrow(folder: Path, stack: Haystack, title: str) -> Path | None:
    """Write the values with pyarrow's own filters; None where it does not write such a column."""
    row = TYPES[title]
    if row.byte_array:
        return None
    path = folder / f"{stack.path.stem}-pyarrow.parquet"
    bloom = {column: {"ndv": 2 * peers.DISTINCT, "fpp": FPP} for column in row.columns}
    table = peers.arrow_table(list(stack.file.rows))
    pq.write_table(table, path, row_group_size=peers.DISTINCT, bloom_filter_options=bloom, **row.options)
    return path


def skips(path: Path, where: Any, holding: set[int]) -> bool:
    """Return whether we read only the row groups that hold a needle, and skip the others by their filters."""
    (file,) = parquet_bloom.prune(path, where).files
    return set(file.selected) == holding and all("filter" in group.by for group in file.row_groups if not group.read)


def ours_of_type(stack: Haystack, title: str, path: Path | None = None) -> str:
    """Needles of each column, and one that is nowhere but lies within all ranges; `path` has other filters."""
    path = path or stack.path
    for column in TYPES[title].columns:
        groups = [set(stack.file.values(group, column)) for group in range(peers.GROUPS)]
        value, count, arrow = stack.needle(column)
        absent = absent_value(stack, column)
        literals = [peers.as_literal(item, arrow) for item in (value, absent)]
        holding = {number for number, stored in enumerate(groups) if value in stored}
        for literal, expected in zip(literals, (holding, set()), strict=True):
            if not all(skips(path, where, expected) for where in forms(column, literal)):
                return "no"
        if title != "list element":  # of which pruning is all that there is
            engines = parquet_bloom.read_table(path, [(column, "=", literals[0])])
            if engines.num_rows != count:
                return "loses rows"
    return "yes"


def forms(column: str, literal: Any) -> list[Any]:
    """Return the forms of a predicate for a needle: another operator for list elements is another form."""
    return [[(column, "=", literal)], [(column, "in", [literal, None])]]


def absent_value(stack: Haystack, column: str) -> Any:
    stored_values = {value for group in range(peers.GROUPS) for value in stack.file.values(group, column)}
    top, *rest = column.split(".")
    for number in range(1000):
        row = peers.VALUES[top].draw(random.Random(f"absent {number}"))
        for value in peers.leaf_values(row, rest):
            if value is not None and value not in stored_values:
                return value
    raise AssertionError(f"all values of {column} are held")


def haystacks(folder: Path) -> dict[str, Haystack]:
    """The files of all rows of the table that can have filters."""
    return {title: haystack(folder, title) for title in TYPES if title not in NO_FILTER}


def types_table(folder: Path, stacks: dict[str, Haystack], engines: dict[str, Engine]) -> dict[str, dict[str, str]]:
    """{type: {engine: what it does}}."""
    table = {title: {OURS: ours_of_type(stack, title)} for title, stack in stacks.items()}
    table |= {title: {OURS: "no"} for title in NO_FILTER}
    for engine, ask in engines.items():
        questions: list[Question] = []
        positions: list[tuple[str, str, int, bool]] = []  # title, column, rows expected, whether cleared
        for title, stack in stacks.items():
            columns = tuple(column for column in TYPES[title].columns if readable(engine, title, column))
            if title in NO_SQL or not columns:
                continue
            if columns != TYPES[title].columns:  # Spark refuses a file with one column that it cannot read
                stack = haystack(folder, title, columns)
            for column in columns:
                value, count, arrow = stack.needle(column)
                for path in (stack.path, stack.cleared):
                    questions.append((path, sql(engine, column, value, arrow)))
                    positions.append((title, column, count, path == stack.cleared))
        cells: dict[str, dict[str, str]] = {}
        for (title, column, count, cleared), rows in zip(positions, ask(questions), strict=True):
            cell = "error" if rows is None else "loses rows" if rows < count else "no"
            if cleared and cells[title][column] == "no" and rows == 0:
                cells[title][column] = "yes"
            elif not cleared:
                cells.setdefault(title, {})[column] = cell
        for title in TYPES:
            table[title][engine] = "no" if title in NO_SQL else together(cells.get(title, {}), TYPES[title].columns)
        for title, text in losses(folder, engine, ask).items():
            table[title][engine] += f", {text}"
    return table


def readable(engine: str, title: str, column: str) -> bool:
    if engine == "spark" and TYPES[title].byte_array:  # its vectorised reader breaks off
        return False
    return title == "INT96" or column not in peers.UNREADABLE.get(engine, ())


def together(cells: dict[str, str], columns: tuple[str, ...]) -> str:
    """One cell for several columns, of which those that cannot be read do not count."""
    states = {column: cells[column] for column in columns if column in cells}
    if len(set(states.values())) <= 1:
        return next(iter(states.values()), "unreadable")
    return ", ".join(f"{column} {state}" for column, state in states.items())


def losses(folder: Path, engine: str, ask: Engine) -> dict[str, str]:
    """Return rows that engines lose by filters that hash a float's bits alone, as those of all writers but ours do."""
    titles = {"f16": "float16", "f32": "float, double", "f64": "float, double"}
    options: dict[str, Any] = {"write_statistics": False, "use_dictionary": False}
    questions: list[Question] = []
    positions: list[tuple[str, str]] = []
    for column, title in titles.items():
        if column in peers.UNREADABLE.get(engine, ()):
            continue
        arrow = peers.VALUES[column].arrow
        table = pa.table({column: pa.array([-8.0, -0.0, 1.5, 8.0, math.nan], arrow)})
        plain, theirs = folder / f"{engine}-{column}.parquet", folder / f"{engine}-{column}-filtered.parquet"
        pq.write_table(table, plain, **options)
        pq.write_table(table, theirs, bloom_filter_options={column: {"ndv": 50, "fpp": FPP}}, **options)
        for name, value in (("±0", 0.0), ("NaN", math.nan), ("rows", 1.5)):
            where = f"{column} = {peers.nan(engine, arrow)}" if value != value else sql(engine, column, value, arrow)
            questions += [(plain, where), (theirs, where)]
            positions.append((title, name))
    answers = ask(questions)
    engines: dict[str, set[str]] = {}
    for (title, name), before, after in zip(positions, answers[::2], answers[1::2], strict=True):
        if before and not after:
            engines.setdefault(title, set()).add(name)
    return {
        title: "loses rows" if "rows" in lost else f"loses {' and '.join(sorted(lost))}"
        for title, lost in engines.items()
    }


# -------------------------------------------------------------------------------------------------------- the page


def markdown(table: dict[str, dict[str, str]], heading: str) -> str:
    names = list(next(iter(table.values())))
    lines = [f"| {heading} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {title} | " + " | ".join(cells[name] for name in names) + " |" for title, cells in table.items()]
    return "\n".join(lines)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        engines = {"duckdb": engine("duckdb"), "datafusion": engine("datafusion")}
        if clickhouse.installed():
            engines["clickhouse"] = engine("clickhouse", stack.enter_context(ClickHouse(folder / "clickhouse")))
        if "--spark" in sys.argv[1:]:
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            builder = builder.config("spark.sql.session.timeZone", "UTC")
            for kind in ("datetime", "int96"):  # years before 1900 as they stand
                builder = builder.config(f"spark.sql.parquet.{kind}RebaseModeInRead", "CORRECTED")
            engines["spark"] = engine("spark", builder.getOrCreate())
        print(markdown(types_table(folder, haystacks(folder), engines), "type"))


if __name__ == "__main__":
    main()
