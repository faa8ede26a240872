"""Random Iceberg tables: deleted rows and statistics against an oracle, pyiceberg's scan and DuckDB's."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_predicate
from support.scale import scaled

from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.tables.iceberg.iceberg_table import iceberg
from parquet_bloom.tables.table_snapshot import RowsOfFile, find_deleted

pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")
from support.random_cases.iceberg_tables import RandomTable, draw_rows, draw_table, rank_rows, read_columns

SEEDS = scaled(12)
PREDICATES = 40
DUCKDB_PYTHON = os.environ.get("PARQUET_BLOOM_DUCKDB_ICEBERG")  # a Python with duckdb 1.5.5 and its iceberg extension
ASK_DUCKDB = """
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg, glob, json, os, sys
modules = (duckdb_extension_avro, duckdb_extension_iceberg)
paths = [glob.glob(os.path.dirname(each.__file__) + "/**/*.duckdb_extension", recursive=True)[0] for each in modules]
for line in sys.stdin:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})  # anew: some errors end a database
    for path in paths:
        connection.execute(f"LOAD '{path}'")
    try:
        rows = connection.execute("SELECT id FROM iceberg_scan(?) ORDER BY id", [json.loads(line)]).fetchall()
        print(json.dumps([row[0] for row in rows]), flush=True)
    except Exception as error:
        print(json.dumps(str(error)), flush=True)
"""


def ask_duckdb(python: str, paths: Sequence[str]) -> list[Any]:
    """The ids that DuckDB finds in tables, or what it says; None where it ends."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    answers: list[Any] = []
    while len(answers) < len(paths):
        text = "".join(json.dumps(path) + "\n" for path in paths[len(answers) :])
        done = subprocess.run([python, "-c", ASK_DUCKDB], input=text, capture_output=True, text=True, env=environment)
        answers += [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode and len(answers) < len(paths):
            answers.append(None)
    return answers


def list_ids(path: str) -> list[int]:
    """The ids of the rows that a table's snapshot shows."""
    snapshot = iceberg(path).read_snapshot()
    ids: list[int] = []
    for file in snapshot.files:
        data = pq.ParquetFile(file.path)
        start = 0
        for number in range(data.num_row_groups):
            stop = start + data.metadata.row_group(number).num_rows
            of_group = pq.read_table(file.path)["id"].slice(start, stop - start).to_numpy()
            if file.path in snapshot.deletes:

                def read(names: Any, begin: int = start, end: int = stop, path: str = file.path) -> Any:
                    return read_columns(path, begin, end, names, snapshot.schema)

                part = RowsOfFile(file.path, snapshot.deletes[file.path], range(start, stop))
                of_group = of_group[~find_deleted([part], read)]
            ids += of_group.tolist()
            start = stop
    return sorted(ids)


def check_statistics(rng: random.Random, table: RandomTable) -> int:
    """Ask random predicates of the files' statistics, and return how many files they rule out."""
    snapshot = iceberg(table.metadata).read_snapshot()
    ranked, numbers = table.rank()
    place = {file.path: i for i, file in enumerate(snapshot.files)}
    of_file = np.array([place[file.entry.path.removeprefix("file://")] for file in table.files])[numbers]
    given = set(snapshot.partition_values.schema.names)
    ranked = [column for column in ranked if column.name not in given]
    ruled_out = 0
    for _ in range(PREDICATES):
        drawn = draw_predicate(rng, ranked)
        predicate = PruningPredicate(drawn.node)
        columns = {name: snapshot.find_statistics(name) for name in predicate.columns}
        possible = predicate.possible(predicate.decide_all(columns, len(snapshot.files)))
        matching = np.unique(of_file[drawn.answer.true])
        assert possible[matching].all(), (drawn.node, snapshot.files)
        ruled_out += int((~possible).sum())
    for name in given:
        values = snapshot.partition_values[name].to_pylist()
        assert values == [
            next(file.rows[0][16] for file in table.files if file.entry.path.endswith(each.path))
            for each in snapshot.files
        ]
    return ruled_out


def test_random_tables(tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    ruled_out = deleted = 0
    for seed in seeds(SEEDS):
        rng = random.Random(seed)
        table = draw_table(rng, tmp_path / str(seed))
        expected = table.list_ids()
        deleted += sum(len(file.deleted) for file in table.files)
        try:
            assert list_ids(table.metadata) == expected
            if not table.has_equality and not table.unusual:
                assert sorted(StaticTable.from_metadata(table.metadata).scan().to_arrow()["id"].to_pylist()) == expected
            ruled_out += check_statistics(rng, table)
        except BaseException as error:
            error.add_note(f"seed {seed}: {table.metadata}")
            raise
    assert deleted > SEEDS
    assert ruled_out > 10 * SEEDS


def test_statistics_that_pyiceberg_writes(tmp_path: Path) -> None:
    """Of files of its own, whose values are of every type."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    ruled_out = 0
    for seed in seeds(max(SEEDS // 4, 1)):
        rng = random.Random(seed)
        drawn = draw_rows(rng, 8, 30)
        table = catalog.create_table(f"n.t{seed}", drawn[0].schema)
        for part in drawn:
            table.append(part)
        snapshot = iceberg(table).read_snapshot()
        place = {pq.read_table(file.path)["id"][0].as_py() // 1000: i for i, file in enumerate(snapshot.files)}
        of_file = np.repeat([place[number] for number in range(len(drawn))], [len(part) for part in drawn])
        ranked = rank_rows(drawn)
        for _ in range(PREDICATES):
            asked = draw_predicate(rng, ranked)
            predicate = PruningPredicate(asked.node)
            columns = {name: snapshot.find_statistics(name) for name in predicate.columns}
            possible = predicate.possible(predicate.decide_all(columns, len(snapshot.files)))
            assert possible[np.unique(of_file[asked.answer.true])].all(), (seed, asked.node)
            ruled_out += int((~possible).sum())
    catalog.close()
    assert ruled_out > 10 * SEEDS // 4


@pytest.mark.skipif(
    DUCKDB_PYTHON is None, reason="PARQUET_BLOOM_DUCKDB_ICEBERG names no Python with DuckDB's extension"
)
def test_duckdb_shows_the_same_rows(tmp_path: Path) -> None:
    """It ends on some equality deletes of several columns; the tables that it shows otherwise are left out.

    Of one table in a hundred it shows other rows than the specification says: it applies another deletion vector of
    the same file, or one partition's equality deletes to another partition. There the table as it was drawn decides.
    """
    assert DUCKDB_PYTHON is not None
    tables = [draw_table(random.Random(seed), tmp_path / str(seed)) for seed in seeds(4 * SEEDS)]
    tables = [table for table in tables if not table.unusual and not (table.has_equality and table.has_nulls())]
    answers = ask_duckdb(DUCKDB_PYTHON, [table.metadata for table in tables])
    read = [(table, answer) for table, answer in zip(tables, answers, strict=True) if isinstance(answer, list)]
    for table, _ in read:
        assert list_ids(table.metadata) == table.list_ids(), table.metadata
    others = [table.metadata for table, answer in read if answer != table.list_ids()]
    assert len(others) <= len(read) // 50, others
    assert len(read) > SEEDS // 2
    assert any(table.has_equality for table, _ in read)
