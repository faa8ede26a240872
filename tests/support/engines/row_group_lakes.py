"""Lakes of five writers with the same rows: which of statistics, filters and dictionaries decide differs by column.

Each file has eight row groups of as many rows, and of each column one page at least, so that the rows that an engine
scans say how many row groups it reads.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from support.engines.sql_engines import clickhouse_copy

GROUPS, ROWS = 8, 2048  # DuckDB's row groups are of multiples of 2,048 rows
TOTAL = GROUPS * ROWS
FPP = 1e-6  # of filters, as far as the writer lets it be chosen: thousands of values are asked for at once
SPAN = 1_000_000_000  # ids are even numbers up to it, in each row group from 0 on
FILTERED = ("id", "uid")  # unique values, of which no writer keeps a dictionary


def id_of(row: int) -> int:
    """Return the id of a row; the first two of a row group have the least and the greatest."""
    return (0, SPAN)[row % ROWS] if row % ROWS < 2 else row * 2_654_435_761 % (SPAN // 2) * 2


def uid_of(row: int) -> str:
    return f"u{id_of(row):010d}"


def make_rows() -> pa.Table:
    """Make the rows of a file.

    ``k``, ``pre`` and ``stamp`` are clustered: ranges decide. The ranges of ``id`` and ``uid`` are the same everywhere:
    filters decide. So are those of the columns below them, which have few values: dictionaries decide.
    """
    source = random.Random(0)
    columns: dict[str, list[Any]] = {name: [] for name in _TYPES}
    for row in range(TOTAL):
        group, number = divmod(row, ROWS)
        turn = number % 4
        of_group = dt.datetime(2024, 6, group + 1, 12)
        moment = (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31), of_group, of_group)[turn]
        values = {
            "id": id_of(row),
            "uid": uid_of(row),
            "k": group * 20 + number % 20,
            "pre": f"p{group}-{number % 5}",
            "stamp": of_group + dt.timedelta(seconds=number % 50),
            "n": (0, 1000, 10 + group, 20 + group)[turn],
            # Two at first, so that a small dictionary is given up after some pages.
            "path": ("/aa/first-of-all", "/zz/last-of-all", f"/m{group}/checkout", f"/Mixed{group % 2}/Index")[
                turn if number >= ROWS // 2 else turn % 2
            ],
            "f": (-1.5, 1000.0, 100.5 + group, 0.0)[turn],
            "same": 1.5,
            "ratio": (-1.5, 7.0, float("nan") if group % 2 else 5.0, 6.0 + group / 10)[turn],
            "day": moment.date(),
            "ts": moment.replace(tzinfo=dt.UTC),
            "dec": (Decimal("0.00"), Decimal("999.99"), Decimal("10.00") + group, Decimal("10.50"))[turn],
            "flag": (True, False, turn < 2, turn < 2 if turn else None)[group % 4],
            "one": "only",
            "once": None if group == 5 and turn else "only",
            "part": (None, "a", None if number < ROWS // 2 else "b", "c")[group % 4],  # chunks and pages of nulls
            "tags": (["a", "z"], [], [f"t{group}", "z"], None)[turn],
            "payload": source.randbytes(24).hex(),  # the bulk of a row, as elsewhere
            "st": {"a": (0, 1000, 10 + group, None)[turn], "b": ("aa", "zz", f"s{group}", "aa")[turn]},
        }
        for name, value in values.items():
            columns[name].append(value)
    return pa.table({name: pa.array(columns[name], _TYPES[name]) for name in _TYPES})


_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "uid": pa.string(),
    "k": pa.int32(),
    "pre": pa.string(),
    "stamp": pa.timestamp("us"),
    "n": pa.int32(),
    "path": pa.string(),
    "f": pa.float64(),
    "same": pa.float64(),
    "ratio": pa.float64(),
    "day": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "dec": pa.decimal128(9, 2),
    "flag": pa.bool_(),
    "one": pa.string(),
    "once": pa.string(),
    "part": pa.string(),
    "tags": pa.list_(pa.string()),
    "payload": pa.string(),
    "st": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}


class Lake(NamedTuple):
    """Files of one writer: `files` of them with the same rows, in a folder."""

    title: str
    folder: Path
    files: int


_SPARK_FILTERS = {f"parquet.bloom.filter.enabled#{name}": True for name in FILTERED}
_SPARK_FILTERS |= {f"parquet.bloom.filter.expected.ndv#{name}": ROWS for name in FILTERED}
_SPARK_FILTERS |= {f"parquet.bloom.filter.fpp#{name}": FPP for name in FILTERED}
_SPARK = {"parquet.enable.dictionary": True}
_INT96 = {"spark.sql.parquet.outputTimestampType": "INT96"}
_SMALL_PAGES = {"parquet.dictionary.page.size": 64, "parquet.page.row.count.limit": 256}
_MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
_ARROW_FILTERS = {"bloom_filter_options": {name: {"ndv": ROWS, "fpp": FPP} for name in FILTERED}}

# Of each lake the options of its files: by `sql_engines.Engine.write`, or by `pyarrow.parquet.write_table`.
LAKES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "Spark, v1, INT96": ("spark", [_SPARK | _INT96]),
    "Spark, v2, filters": ("spark", [_SPARK | _MICROS | _SPARK_FILTERS | {"parquet.writer.version": "v2"}]),
    "Spark, dictionaries given up midway": ("spark", [_SPARK | _MICROS | _SMALL_PAGES]),
    "Spark, with and without dictionaries": (
        "spark",
        [_SPARK | _MICROS, _MICROS | _SPARK_FILTERS | {"parquet.enable.dictionary": False}],
    ),
    "pyarrow": ("pyarrow", [{}]),
    "pyarrow, v2, filters": ("pyarrow", [{"data_page_version": "2.0"} | _ARROW_FILTERS]),
    "DuckDB": ("duckdb", [{"filters": True}]),
    "DataFusion, filters": ("datafusion", [{"filters": True, "bloom_filter_ndv": ROWS, "bloom_filter_fpp": FPP}]),
    "ClickHouse": ("clickhouse", [{}]),
}


def write_lakes(folder: Path, writers: dict[str, Any]) -> list[Lake]:
    """Write the lakes of some writers.

    Parameters
    ----------
    writers : engines of `sql_engines` by their names; for ClickHouse its server, for pyarrow anything.
    """
    source, table = str(folder / "source.parquet"), make_rows()
    pq.write_table(table, source, row_group_size=ROWS)
    lakes = []
    for title, (writer, files) in LAKES.items():
        if writer not in writers:
            continue
        target = folder / title.replace(", ", "-").replace(" ", "-")
        target.mkdir()
        for number, options in enumerate(files):
            path = str(target / f"{number}.parquet")
            if writer == "pyarrow":
                pq.write_table(table, path, row_group_size=ROWS, **options)
            elif writer == "clickhouse":
                writers[writer](clickhouse_copy(source, path, True, ROWS, string_as_string=1))
            else:
                given = {"filters": False, **options}
                writers[writer].write(source, path, given.pop("filters"), ROWS, **given)
            assert pq.read_metadata(path).num_row_groups == GROUPS, title
        lakes.append(Lake(title, target, len(files)))
    return lakes
