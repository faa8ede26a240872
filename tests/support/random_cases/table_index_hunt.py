"""Hold queries of random Delta and Iceberg tables with an index against those without one.

The index is made at one version of the table, perhaps brought up to date at another, and asked at any: columns have
been renamed, dropped and added meanwhile, files replaced and rows deleted.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import parquet_bloom
from parquet_bloom import LakeIndex
from parquet_bloom.errors import ParquetBloomError, UnknownColumnError
from support.random_cases.delta_tables import draw_delta
from support.random_cases.table_predicates import iter_queries, sort_rows


@dataclass
class IndexTally:
    """What was compared: numbers of tables, queries and files, those that an index ruled out, and differences."""

    tables: int = 0
    queries: int = 0
    files: int = 0
    ruled_out: int = 0
    appended: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        done = f"{self.tables:,} tables, {self.queries:,} queries, {self.appended:,} files indexed"
        return f"{done}, {self.ruled_out:,} of {self.files:,} ruled out by the index; {len(self.wrong)} wrong"


def hunt_index(kind: str, seed: int, folder: Path, tally: IndexTally, queries: int) -> None:
    """Compare one random table."""
    rng = random.Random(seed)
    sources = _draw_delta(rng, folder) if kind == "delta" else _draw_iceberg(rng, folder)
    tally.tables += 1
    context = f"{kind} index seed {seed}"
    with _make_index(rng, folder / "index", sources, tally) as index:
        for position in sorted(rng.sample(range(len(sources)), min(3, len(sources)))):
            source = sources[position]
            rows = parquet_bloom.dataset(source).scan().to_arrow()
            for given in (source, None) if position == len(sources) - 1 else (source,):
                used: Any = rng.choice([index, folder / "index"])
                dataset = parquet_bloom.dataset(given, index=used)
                _query(rng, dataset, rows, f"{context}, version {position}, {given}", tally, queries)


def _draw_delta(rng: random.Random, folder: Path) -> list[Any]:
    table = draw_delta(rng, folder / "table")
    versions = sorted(table.rows)
    return [
        *(parquet_bloom.delta(table.root, version=version) for version in versions),
        parquet_bloom.delta(table.root),
    ]


def _draw_iceberg(rng: random.Random, folder: Path) -> list[Any]:
    from pyiceberg.table import StaticTable

    from support.random_cases.iceberg_tables import draw_table

    table = draw_table(rng, folder / "table")
    opened = StaticTable.from_metadata(table.metadata)
    ids = [snapshot.snapshot_id for snapshot in opened.snapshots()]
    older = [parquet_bloom.iceberg(table.metadata, snapshot_id=number) for number in ids]
    return [*older, parquet_bloom.iceberg(table.metadata)]


def _make_index(rng: random.Random, path: Path, sources: Sequence[Any], tally: IndexTally) -> LakeIndex:
    """Make an index at some version, and bring it up to date at a later one perhaps."""
    first = rng.randrange(len(sources))
    names = _list_names(sources[first].read_snapshot().schema)
    columns = rng.sample(names, min(len(names), rng.choice([1, 2, 5])))
    while True:
        try:
            granularity = rng.choice(["file", "row_group"])
            index = LakeIndex.create(path, columns, granularity=granularity, lake=sources[-1])  # type: ignore[arg-type]
            break
        except ParquetBloomError as error:
            if error.column not in columns:
                raise
            columns.remove(error.column)
    latest: list[Any] = [None] if rng.random() < 0.5 else []
    for source in [sources[first], *rng.sample(sources[first:], rng.choice([0, 1])), *latest]:
        try:
            report = index.append(source)
        except UnknownColumnError:  # no file has it: it was added since, or dropped before
            continue
        tally.appended += report.added + report.replaced
    return index


def _list_names(schema: pa.Schema) -> list[str]:
    names = []
    for each in schema:
        names.append(each.name)
        if pa.types.is_struct(each.type):
            names += [f"{each.name}.{part.name}" for part in each.type]
    return sorted(set(names))


def _query(rng: random.Random, dataset: Any, rows: pa.Table, context: str, tally: IndexTally, queries: int) -> None:
    for node, scan, found, expected in iter_queries(rng, dataset, rows, queries):
        tally.queries += 1
        tally.files += scan.plan().total_files
        tally.ruled_out += scan.plan().unopened_by.get("index", 0)
        if sort_rows(found) != sort_rows(expected):
            tally.wrong.append(f"{context}: {node}: {found.num_rows} rows, not {expected.num_rows}")
