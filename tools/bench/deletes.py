"""Delete and replace rows of tables by their keys: parquet_bloom beside deltalake and pyiceberg.

python tools/bench/deletes.py [--folder FOLDER] [--files N] [--rows N] [--keys N] [--repeat N] [--large]

The tables have files of one row group each; the keys are spread over all files, and each library gets a copy of the
table for each run, made anew. What is measured is the call, in a process that has called it before, and the whole
process's CPU time in it.

delete      keys into a Delta table with deletion vectors, and into an Iceberg table of version 2
upsert      as many rows, half of them with keys that the table has
--large     in place of both: 1,000,000 keys, from a Parquet file, into an Iceberg table of 100,000,000 rows in 100
            files of eight row groups, in a process of its own
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, positive  # first, to import the package of this checkout
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

import parquet_bloom


class Case(NamedTuple):
    """A library's way: makes the table in a folder; returns the call that is measured, and what counts its rows."""

    name: str
    prepare: Callable[[Path], tuple[Callable[[], object], Callable[[], int]]]


class Tables:
    """Tables of the same rows.

    Parameters
    ----------
    folder : where they are made once; copies lie beside them.
    """

    def __init__(self, folder: Path, files: int, rows: int, keys: int):
        rng = np.random.default_rng(1)
        self.folder, self.num_files, self.num_rows = folder, files, rows
        self.ids = rng.permutation(files * rows * 2)[: files * rows].astype(np.int64)
        self.keys = rng.choice(self.ids, keys, replace=False)
        fresh = np.arange(files * rows * 2, files * rows * 2 + keys // 2)
        self.upserted = self.make_rows(np.concatenate([self.keys[: keys // 2], fresh]), "new")
        self._delta = folder / "delta"
        for number in range(files):
            part = self.make_rows(self.ids[number * rows : (number + 1) * rows], "old")
            settings = {"delta.enableDeletionVectors": "true"} if number == 0 else None
            write_deltalake(self._delta, part, mode="append", configuration=settings)

    def make_rows(self, ids: np.ndarray, text: str) -> pa.Table:
        return pa.table({"id": ids, "x": ids * 0.5, "text": [f"{text} {i % 1000}" for i in ids.tolist()]})

    def make_delta(self, folder: Path, with_vectors: bool) -> str:
        """Copy the Delta table; without vectors deltalake's own operations read and rewrite it."""
        if with_vectors:
            shutil.copytree(self._delta, folder)
        else:
            for number in range(self.num_files):
                part = self.make_rows(self.ids[number * self.num_rows : (number + 1) * self.num_rows], "old")
                write_deltalake(folder, part, mode="append")
        return str(folder)

    def make_iceberg(self, folder: Path) -> Any:
        folder.mkdir(parents=True)
        catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "lake"))
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", self.make_rows(self.ids[:1], "old").schema)
        for number in range(self.num_files):
            table.append(self.make_rows(self.ids[number * self.num_rows : (number + 1) * self.num_rows], "old"))
        return table


def delta_case(tables: Tables, name: str, call: Callable[[str], object], with_vectors: bool) -> Case:
    def prepare(folder: Path) -> tuple[Callable[[], object], Callable[[], int]]:
        root = tables.make_delta(folder, with_vectors)
        return lambda: call(root), lambda: parquet_bloom.dataset(root).count_rows()

    return Case(name, prepare)


def iceberg_case(tables: Tables, name: str, call: Callable[[Any], object]) -> Case:
    def prepare(folder: Path) -> tuple[Callable[[], object], Callable[[], int]]:
        table = tables.make_iceberg(folder)
        return lambda: call(table), lambda: parquet_bloom.dataset(table.refresh()).count_rows()

    return Case(name, prepare)


def list_deletes(tables: Tables) -> list[Case]:
    keys = tables.keys
    listed = ", ".join(map(str, keys.tolist()))
    source = pa.table({"id": keys})

    def rewrite(root: str) -> object:
        return parquet_bloom.delete(root, keys, "id", mode="rewrite")

    def merge(root: str) -> object:
        merged = DeltaTable(root).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        return merged.when_matched_delete().execute()

    return [
        delta_case(tables, "parquet_bloom, Delta", lambda root: parquet_bloom.delete(root, keys, "id"), True),
        delta_case(
            tables, "the same, rewritten", lambda root: parquet_bloom.delete(root, keys, "id", mode="rewrite"), True
        ),
        delta_case(tables, "deltalake merge", merge, False),
        delta_case(tables, "deltalake delete", lambda root: DeltaTable(root).delete(f"id IN ({listed})"), False),
        iceberg_case(tables, "parquet_bloom, Iceberg", lambda table: parquet_bloom.delete(table, keys, "id")),
        iceberg_case(tables, "pyiceberg delete", lambda table: table.delete(In("id", keys.tolist()))),
    ]


def list_upserts(tables: Tables) -> list[Case]:
    rows = tables.upserted

    def merge(root: str) -> object:
        merged = DeltaTable(root).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        return merged.when_matched_update_all().when_not_matched_insert_all().execute()

    return [
        delta_case(tables, "parquet_bloom, Delta", lambda root: parquet_bloom.upsert(root, rows, "id"), True),
        delta_case(tables, "deltalake merge", merge, False),
    ]


def measure(cases: list[Case], expected: int, repeat: int, folder: Path) -> None:
    """Run each case so often, in turn, and print the medians and how they compare with the first one."""
    taken: dict[str, list[tuple[float, float]]] = {case.name: [] for case in cases}
    for number in range(repeat + 1):  # the first one is not counted
        for case in cases:
            place = folder / f"{case.name} {number}"
            call, count = case.prepare(place)
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            assert count() == expected, (case.name, count(), expected)
            if number:
                taken[case.name].append((wall, cpu))
            shutil.rmtree(place)
    base = statistics.median(wall for wall, _ in taken[cases[0].name])
    for case in cases:
        wall, cpu = (statistics.median(each) for each in zip(*taken[case.name], strict=True))
        print(f"  {case.name:30} {wall * 1e3:10,.0f} ms {cpu * 1e3:10,.0f} ms CPU {wall / base:8.1f} x")


_DELETE_LARGE = """
import resource, sys, time
from pathlib import Path
from pyiceberg.catalog.sql import SqlCatalog
import parquet_bloom
folder = Path(sys.argv[1])
table = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db").load_table("db.t")
wall, cpu = time.perf_counter(), time.process_time()
report = parquet_bloom.delete(table, folder / "keys.parquet", "id")
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"  parquet_bloom, Iceberg {report.num_rows:13,} rows {wall:8.1f} s {cpu:8.1f} s CPU {memory:8,.0f} MB")
"""


def measure_large(folder: Path, files: int = 100, rows: int = 1_000_000, keys: int = 10_000) -> None:
    """Make the large table, and delete so many keys of each of its files."""
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "lake"))
    catalog.create_namespace("db")
    rng = np.random.default_rng(1)
    schema = pa.schema({"id": pa.int64(), "x": pa.int32()})
    table = catalog.create_table("db.t", schema)
    data = Path(table.location().removeprefix("file://")) / "data"
    data.mkdir(parents=True)
    paths, chosen = [], []
    for number in range(files):
        ids = rng.integers(0, 1 << 62, rows)
        part = pa.table([ids, rng.integers(0, 1000, rows).astype(np.int32)], schema=schema)
        path = data / f"{number}.parquet"
        pq.write_table(part, path, row_group_size=1 << 17, use_dictionary=["x"])
        paths.append(str(path))
        chosen.append(rng.choice(ids, keys, replace=False))
    table.add_files(paths)
    pq.write_table(pa.table({"id": np.concatenate(chosen)}), folder / "keys.parquet")
    subprocess.run(
        [sys.executable, "-c", _DELETE_LARGE, str(folder)], check=True, cwd=Path(__file__).resolve().parents[2]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--files", type=positive, default=40)
    parser.add_argument("--rows", type=positive, default=100_000)
    parser.add_argument("--keys", type=positive, default=2_000)
    parser.add_argument("--repeat", type=positive, default=5)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    header("deletes and upserts by keys", "deltalake", "pyiceberg")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.large:
            print("\ndelete 1,000,000 keys from 100 files of 1,000,000 rows")
            measure_large(Path(folder))
            return
        tables = Tables(Path(folder) / "made", given.files, given.rows, given.keys)
        total = given.files * given.rows
        table = f"{given.files} files of {given.rows:,} rows"
        print(f"\ndelete {given.keys:,} keys from {table}; medians of {given.repeat} runs")
        measure(list_deletes(tables), total - given.keys, given.repeat, Path(folder))
        print(f"\nupsert {len(tables.upserted):,} rows into the same, half of them new; medians of {given.repeat} runs")
        measure(list_upserts(tables), total + given.keys // 2, given.repeat, Path(folder))


if __name__ == "__main__":
    main()
