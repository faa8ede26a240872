"""Dictionaries rule out only row groups without a matching row, and call certain only those all of whose rows match.

Files of five writers, whose values repeat: of columns and struct fields of all types and of elements of lists, with
NaN, both zeros and nulls, also chunks of nothing else; pages of both versions, many to a chunk, and chunks that give
their dictionary up. Which rows match is worked out by `ranked` from all that pyarrow reads. A failure names the seed;
`hunting` says how to repeat it, and how to go on for longer.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.ranked import Ranked
from support.random_cases.hunting import seeds
from support.random_cases.random_lakes import ROW, combine, decode, write_by_pyarrow, write_by_spark
from support.random_cases.random_predicates import (
    Drawn,
    contains,
    draw_leaf,
    draw_predicate,
    draw_text_leaf,
    has_text,
    rank_table,
)
from support.scale import scaled
from support.writers import random_files
from support.writers.peers import SPARK_COLUMNS, VALUES, arrow_array, bits_of, take_rows

import parquet_bloom
from parquet_bloom.errors import PredicateError

QUERIES = 50  # of each file, and of the others with its schema
LISTS, STRUCT = "list", "s"
_KINDS = {
    "pyarrow": [*VALUES],
    "duckdb": random_files.DUCKDB,
    "datafusion": random_files.DATAFUSION,
    "clickhouse": random_files.CLICKHOUSE,
    "spark": SPARK_COLUMNS,
}
_NEEDS = {"clickhouse": "clickhouse_server", "spark": "spark"}


@dataclass
class File:
    """A file.

    Attributes
    ----------
    rows : as pyarrow reads it.
    groups : rows of each row group.
    """

    path: Path
    rows: pa.Table
    groups: list[int]


def draw_table(rng: random.Random, writer: str, size: int) -> pa.Table:
    """Draw columns of few values, others in each row group."""
    kinds = [name for name in _KINDS[writer] if name not in random_files.NESTED]
    names = [*rng.sample(kinds, 6), "str", "f64", "i64"]
    count = size * rng.randint(2, 4)
    columns: dict[str, pa.Array] = {ROW: pa.array(range(count), pa.int64())}
    for name in dict.fromkeys(names):
        kind = VALUES[name]
        pool = [value for value in kind.always if value is not None] + [kind.draw(rng) for _ in range(5)]
        columns[name] = arrow_array(_draw_values(rng, pool, size, count), kind.arrow)
    texts = _draw_values(rng, ["", "a", "b", "ab", "aX", "a%_", "é"], size, count)
    numbers = [value for value in VALUES["i32"].always if value is not None]
    fields = [pa.array(_draw_values(rng, numbers, size, count), pa.int32()), pa.array(texts)]
    is_null = pa.array([rng.random() < 0.1 for _ in range(count)]) if rng.random() < 0.5 else None
    columns[STRUCT] = pa.StructArray.from_arrays(fields, ["i", "t"], mask=is_null)
    lists = [rng.choice([None, [], [one], [one, one], [one, None], [one, "b"]]) for one in texts]
    columns[LISTS] = pa.array(lists, pa.list_(pa.string()))
    columns["pad"] = pa.array([f"{rng.random()}{number:050}" for number in range(count)])
    return pa.table(columns)


def _draw_values(rng: random.Random, pool: list[Any], size: int, count: int) -> list[Any]:
    """Draw values of row groups: few of the pool, perhaps some nulls, or nulls alone."""
    values: list[Any] = []
    for _ in range(0, count, size):
        some = rng.sample(pool, rng.randint(1, min(rng.choice([3, len(pool)]), len(pool))))
        some += [None] * rng.choice([0, 0, 1, 3])
        if rng.random() < 0.1:
            some = [None]
        group = rng.choices(some, k=size)
        if rng.random() < 0.2:  # a value that is only at the end, where the dictionary may have been given up
            group[-1] = rng.choice(pool)
        values += group
    return values


def write(writer: str, helper: Any, rng: random.Random, table: pa.Table, path: Path, size: int) -> dict[str, Any]:
    """Write a file with dictionaries, which are given up in the middle of some chunks of one file in four."""
    gives_up, small_pages = rng.random() < 0.25, rng.random() < 0.5
    version, page_size = rng.choice(["1.0", "2.0"]), rng.choice([64, 300]) if small_pages else 1 << 20
    if writer == "pyarrow":
        given: dict[str, Any] = {"use_dictionary": True, "dictionary_pagesize_limit": 16 if gives_up else 1 << 20}
        return write_by_pyarrow(rng, table, path, size, **given)
    if writer == "duckdb":  # it gives up whole chunks
        return random_files.by_duckdb(rng, table, path, size, DICTIONARY_SIZE_LIMIT=4 if gives_up else 1000)
    if writer == "datafusion":
        given = {"dictionary_enabled": True, "dictionary_page_size_limit": 16 if gives_up else 1 << 20}
        given |= {
            "writer_version": version,
            "data_pagesize_limit": page_size,
            "write_batch_size": rng.choice([7, 1024]),
        }
        return random_files.by_datafusion(rng, table, path, size, **given)
    if writer == "clickhouse":
        given = {"max_dictionary_size": 16 if gives_up else 1 << 20, "data_page_size": page_size}
        return random_files.by_clickhouse(helper, rng, table, path, size, **given)
    given = {"parquet.enable.dictionary": "true", "parquet.dictionary.page.size": 64 if gives_up else 1 << 20}
    given |= {"parquet.writer.version": f"v{version[0]}", "parquet.page.size": max(page_size, 300)}
    given |= {"parquet.page.row.count.limit": rng.choice([7, 20_000]), "parquet.page.size.row.check.min": 5}
    return write_by_spark(helper, rng, table, path, size, **given)


def draw_file(seed: int, writer: str, helper: Any, folder: Path) -> tuple[random.Random, File, str]:
    """Draw a file, what is drawn next, and how the file was made."""
    rng = random.Random(f"{writer} {seed}")
    size = 2048 if writer == "duckdb" else rng.choice([30, 60, 200])
    path, story = folder / f"{seed}.parquet", ""
    while not story or not random_files.readable(path, story):
        story = f"seed {seed}: {write(writer, helper, rng, draw_table(rng, writer, size), path, size)}"
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    return rng, File(path, decode(file.read()), groups), story


class Questions:
    """Predicates over the rows of some files."""

    def __init__(self, rng: random.Random, rows: pa.Table):
        self.rng, self.rows = rng, rows
        self.columns = [column for column in rank_table(rows) if column.name != "pad"]
        self.texts = [column for column in self.columns if has_text(column) and column.name != ROW]
        # ClickHouse may write texts as bytes.
        self.lists = rows[LISTS].cast(pa.list_(pa.string())).to_pylist()

    def draw(self) -> Drawn:
        one = self.rng.choice(self.columns)
        columns = self.rng.choice([self.columns, [one], [one, self.rng.choice(self.columns)]])
        return draw_predicate(self.rng, columns, self.rng.choice([0, 0, 1, 3]), self._draw_leaf)

    def _draw_leaf(self, rng: random.Random, columns: list[Ranked]) -> Drawn:
        choice = rng.random()
        if choice < 0.12:
            return contains(LISTS, self.lists, rng.choice(["", "a", "b", "ab", "X", "é"]), pa.string())
        texts = [column for column in columns if column in self.texts]
        return draw_text_leaf(rng, texts) if texts and choice < 0.5 else draw_leaf(rng, columns)


@pytest.mark.parametrize(
    "writer",
    [
        *("pyarrow", "duckdb", "datafusion"),
        pytest.param("clickhouse", marks=pytest.mark.ci),
        pytest.param("spark", marks=pytest.mark.spark),
    ],
)
def test_row_groups_are_ruled_out_and_certain_as_their_rows_say(
    writer: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    helper = request.getfixturevalue(_NEEDS[writer]) if writer in _NEEDS else None
    tally: Counter[str] = Counter()
    alike: dict[str, list[File]] = {}
    for seed in seeds(scaled(2)):
        rng, file, story = draw_file(seed, writer, helper, tmp_path)
        others = alike.setdefault(str(file.rows.schema), [])
        files = [file, *rng.sample(others, min(len(others), 2))]
        others.append(file)
        rows = combine([one.rows for one in files])
        questions = Questions(rng, rows)
        for _ in range(QUERIES):
            ask(files, rows, questions.draw(), rng, tally, story)
    print(writer, tally)
    assert tally["refused"] < 0.15 * tally["asked"]
    assert tally["decided"] > 0.1 * tally["asked"]  # else dictionaries decided too little to show anything


def ask(files: list[File], rows: pa.Table, drawn: Drawn, rng: random.Random, tally: Counter[str], story: str) -> None:
    """Compare a plan, and the rows that are read, with those that match."""
    paths, where, true = [str(file.path) for file in files], drawn.spell(rng), drawn.answer.true
    options = {"cache": None} if rng.random() < 0.2 else {}
    story = f"{story}; {paths}, {where}"
    tally["asked"] += 1
    try:
        plan = parquet_bloom.prune(paths, where, **options)
    except PredicateError:
        tally["refused"] += 1
        return
    start, is_ruled_out, is_certain = 0, False, False
    for file, planned in zip(files, plan.files, strict=True):
        for one, count in zip(planned.row_groups, file.groups, strict=True):
            mask = true[start : start + count]
            assert one.read or not mask.any(), f"{story}: {one}"
            assert not one.certain or mask.all(), f"{story}: {one}"
            is_ruled_out |= "dictionary" in one.by
            is_certain |= one.certain
            start += count
    tally.update({"ruled out": is_ruled_out, "certain": is_certain, "decided": is_ruled_out or is_certain})
    try:
        found = parquet_bloom.read_table(paths, where, **options)
        count = parquet_bloom.dataset(paths, **options).scan(where).count_rows()
    except PredicateError:  # of a row, where engines disagree
        tally["refused for a row"] += 1
        return
    assert found[ROW].to_pylist() == rows[ROW].filter(pa.array(true)).to_pylist(), story
    assert count == true.sum(), story
    if rng.random() < 0.2:
        assert bits_of(decode(found)) == bits_of(take_rows(rows, np.flatnonzero(true))), story
