"""Hold queries of random Delta and Iceberg tables against all of their rows, and these against other readers."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import parquet_bloom
from support.random_cases.delta_tables import draw_delta
from support.random_cases.table_predicates import find_columns, iter_queries, sort_rows, to_sql

Ask = Callable[[str, str, str], Any]
"""Asks another reader (kind, path, where) for the number of rows; it returns a text where that fails."""


@dataclass
class TableTally:
    """What was compared.

    Attributes
    ----------
    tables, queries, files, unopened : numbers; the files are those of all queries.
    wrong : differences.
    readers : {what other readers showed: times}.
    readers_wrong : queries that another reader answered otherwise.
    """

    tables: int = 0
    queries: int = 0
    files: int = 0
    unopened: int = 0
    wrong: list[str] = field(default_factory=list)
    readers: Counter[str] = field(default_factory=Counter)
    readers_wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = f"{self.tables:,} tables, {self.queries:,} queries, {self.unopened:,} of {self.files:,} files not opened"
        return f"{done}; {len(self.wrong)} wrong; {dict(self.readers)}"


def hunt_delta(seed: int, folder: Path, tally: TableTally, queries: int, ask: Ask | None = None) -> None:
    """Compare a random Delta table at three of its versions, and at the latest one."""
    from deltalake import DeltaTable

    rng = random.Random(seed)
    table = draw_delta(rng, folder)
    latest = max(table.rows)
    for version in [*rng.sample(sorted(table.rows), 3), latest]:
        source = parquet_bloom.delta(table.root, version=None if version == latest else version)
        context = f"delta seed {seed}, version {version}"
        rows = _compare_rows(source, table.rows[version], context, tally)
        if rows is None:
            continue
        try:
            theirs = pa.table(DeltaTable(table.root, version=version).scan())
            same = sort_rows(theirs.select(rows.schema.names)) == sort_rows(rows)
        except Exception as error:
            tally.readers[f"deltalake: {type(error).__name__}"] += 1
        else:
            tally.readers["deltalake same" if same else "deltalake differs"] += 1
        _query(rng, source, rows, context, tally, queries, ask if version == latest else None, str(table.root))


def hunt_iceberg(seed: int, folder: Path, tally: TableTally, queries: int, ask: Ask | None = None) -> None:
    """Compare a random Iceberg table."""
    from pyiceberg.table import StaticTable

    from support.random_cases.iceberg_tables import draw_table

    rng = random.Random(seed)
    table = draw_table(rng, folder)
    source, context = parquet_bloom.iceberg(table.metadata), f"iceberg seed {seed}"
    tally.tables += 1
    rows = parquet_bloom.dataset(source).scan().to_arrow()
    if sorted(rows["id"].to_pylist()) != table.list_ids():
        tally.wrong.append(f"{context}: other rows")
        return
    if not table.has_equality and not table.unusual:
        same = sort_rows(StaticTable.from_metadata(table.metadata).scan().to_arrow()) == sort_rows(rows)
        tally.readers["pyiceberg same" if same else "pyiceberg differs"] += 1
    is_usual = not table.unusual and not (table.has_equality and table.has_nulls())  # DuckDB ends on others
    _query(rng, source, rows, context, tally, queries, ask if is_usual else None, table.metadata)


def _compare_rows(source: Any, expected: list[dict[str, Any]], context: str, tally: TableTally) -> pa.Table | None:
    rows: pa.Table = parquet_bloom.dataset(source).scan().to_arrow()
    tally.tables += 1
    if _as_texts(rows.to_pylist()) != _as_texts(expected):
        tally.wrong.append(f"{context}: {rows.num_rows} rows, not the {len(expected)} expected ones")
        return None
    return rows


def _query(
    rng: random.Random,
    source: Any,
    rows: pa.Table,
    context: str,
    tally: TableTally,
    queries: int,
    ask: Ask | None,
    path: str,
) -> None:
    dataset, columns = parquet_bloom.dataset(source), find_columns(rows)
    for node, scan, found, expected in iter_queries(rng, dataset, rows, queries):
        count = scan.count_rows()
        tally.queries += 1
        tally.files += scan.plan().total_files
        tally.unopened += scan.plan().unopened_files
        if sort_rows(found) != sort_rows(expected) or count != expected.num_rows:
            tally.wrong.append(f"{context}: {node}: {found.num_rows} rows, counted {count}, not {expected.num_rows}")
        where = None if ask is None else to_sql(node, columns)
        if ask is not None and where is not None:
            theirs = ask(source.kind, path, where)
            if isinstance(theirs, str):
                tally.readers["DuckDB: an error"] += 1
            elif theirs == expected.num_rows:
                tally.readers["DuckDB same"] += 1
            else:
                tally.readers["DuckDB differs"] += 1
                tally.readers_wrong.append(f"{context}: {node}: DuckDB {theirs} rows, not {expected.num_rows}")


def _as_texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr([(name, _plain(value)) for name, value in sorted(row.items())]) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    return f"{value:.2f}" if type(value).__name__ == "Decimal" else repr(value)


def hunt(kind: str, seeds: Iterator[int], folder: Path, queries: int, ask: Ask | None = None) -> TableTally:
    """Compare random tables of a kind."""
    tally = TableTally()
    for seed in seeds:
        run = hunt_delta if kind == "delta" else hunt_iceberg
        try:
            run(seed, folder / f"{kind}-{seed}", tally, queries, ask)
        except BaseException as error:
            error.add_note(f"{kind} seed {seed}")
            raise
    return tally
