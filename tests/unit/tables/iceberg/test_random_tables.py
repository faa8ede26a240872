"""Random Iceberg tables: deleted rows and statistics against an oracle and pyiceberg's scan."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_predicate
from support.scale import scaled

import parquet_bloom
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.tables.iceberg.iceberg_table import iceberg

pytest.importorskip("pyiceberg")
pytest.importorskip("pyroaring")
from support.random_cases.iceberg_tables import RandomTable, draw_rows, draw_table, rank_rows

SEEDS = scaled(5)
PREDICATES = 40


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


@pytest.mark.ci
def test_random_tables(tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    ruled_out = deleted = 0
    for seed in seeds(SEEDS):
        rng = random.Random(seed)
        table = draw_table(rng, tmp_path / str(seed))
        expected = table.list_ids()
        deleted += sum(len(file.deleted) for file in table.files)
        try:
            shown = parquet_bloom.dataset(iceberg(table.metadata)).scan(columns=["id"]).to_arrow()
            assert sorted(shown["id"].to_pylist()) == expected
            if not table.has_equality and not table.unusual:
                assert sorted(StaticTable.from_metadata(table.metadata).scan().to_arrow()["id"].to_pylist()) == expected
            ruled_out += check_statistics(rng, table)
        except BaseException as error:
            error.add_note(f"seed {seed}: {table.metadata}")
            raise
    assert deleted > SEEDS
    assert ruled_out > 10 * SEEDS


@pytest.mark.ci
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
