"""A row that matches is never lost: random tables, writers, filters and predicates, against Python's own comparison.

A seed decides everything, and a failure names it; `hunting` says how to go on for longer.
"""

from __future__ import annotations

import collections
import math
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import literal_form
from support.writers import random_files
from support.writers.peers import VALUES, arrow_array
from support.writers.random_files import NESTED

import parquet_bloom
from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate import And, Node, Or, parse, tree

pytestmark = pytest.mark.default

TABLES = 24  # of the default suite


@dataclass
class Column:
    """A column as it was made: what is compared, row by row, with literals."""

    name: str
    kind: str
    rows: list[Any]

    @property
    def arrow(self) -> pa.DataType:
        return VALUES[self.kind].arrow


@dataclass
class File:
    path: Path
    columns: dict[str, Column]
    number: dict[int, int]  # values of "row" -> index
    story: str


@dataclass
class Tally:
    """Counts of row groups that could be skipped, and that were."""

    groups: int = 0
    without_match: int = 0
    skipped: int = 0
    predicates: int = 0
    refused: int = 0
    by: collections.Counter[str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.by = collections.Counter()


# ---------------------------------------------------------------------------------------------------- the tables


def draw_rows(rng: random.Random, kind: str, count: int) -> list[Any]:
    """Values in one of the ways that data comes: few distinct ones, all different, sorted, mostly null."""
    values = VALUES[kind]
    fresh = [values.draw(rng) for _ in range(rng.choice([1, 3, count or 1]))]
    pool = fresh + (values.always if rng.random() < 0.6 else [])
    rows = [rng.choice(pool) for _ in range(count)]
    if kind not in NESTED and rng.random() < 0.2 and not any(isinstance(row, float) and row != row for row in rows):
        rows.sort(key=lambda row: (row is None, 0 if row is None else row))
    if rng.random() < 0.15:
        rows = [None if rng.random() < 0.9 else row for row in rows]
    return rows


def make_file(rng: random.Random, folder: Path, kinds: list[str] | None = None) -> File:
    writer = rng.choice(["pyarrow"] * 5 + ["duckdb", "datafusion", "polars"])
    expected = random_files.KINDS[writer]
    kinds = kinds or rng.sample(expected, min(len(expected), rng.randint(2, 7)))
    kinds = [kind for kind in kinds if kind in expected]
    count = rng.choice([0, 1, 2, 7, 40, 200, 200])
    columns = {kind: Column(kind, kind, draw_rows(rng, kind, count)) for kind in kinds}
    table = pa.table(
        {"row": pa.array(range(count), pa.int32()), **{c.name: arrow_array(c.rows, c.arrow) for c in columns.values()}}
    )
    path = folder / f"{rng.randrange(2**60):x}.parquet"
    group = rng.choice([1, 3, 17, 50, 1000]) if count < 100 else rng.choice([10, 23, 64, 1000])
    options = getattr(random_files, f"by_{writer}")(rng, table, path, group)
    return File(path, columns, {n: n for n in range(count)}, f"{writer} {options}")


# ------------------------------------------------------------------------------------------------ the predicates


def equal(value: Any, literal: Any) -> bool | None:
    """SQL's `=`, of values that are made of the same type."""
    if value is None or literal is None:
        return None
    if isinstance(value, float) and math.isnan(value):
        return isinstance(literal, float) and math.isnan(literal)
    return bool(value == literal)


def less(value: Any, literal: Any) -> bool | None:
    """SQL's `<`, with NaN above all numbers, and texts by their UTF-8."""
    if value is None or literal is None:
        return None
    return bool(rank(value) < rank(literal))


def rank(value: Any) -> Any:
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    if isinstance(value, str):
        return value.encode()
    return value.bytes if isinstance(value, uuid.UUID) else value


def inverted(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def any_true(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def all_true(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def draw_literal(rng: random.Random, column: Column) -> Any:
    choice = rng.random()
    if column.rows and choice < 0.35:
        return rng.choice(column.rows)
    if choice < 0.45:
        return rng.choice(VALUES[column.kind].always)
    return VALUES[column.kind].draw(rng)


Match = Callable[[int], bool | None]  # a row's number -> true, false or null


def draw_leaf(rng: random.Random, columns: list[Column]) -> tuple[tuple[str, str, Any], Match]:
    """One condition in pyarrow's form, and which rows it selects."""
    column = rng.choice(columns)
    rows = column.rows
    choice = rng.random()
    if choice < 0.6:
        value = draw_literal(rng, column)
        form = literal_form(rng, column.arrow, value)
        if choice < 0.3 or column.kind == "bool":  # values of TRUE and FALSE have no order
            return (column.name, rng.choice(["=", "=="]), form), lambda i: equal(rows[i], value)
        if choice < 0.35:
            return (column.name, rng.choice(["!=", "<>"]), form), lambda i: inverted(equal(rows[i], value))
        comparisons: dict[str, Match] = {
            "<": lambda i: less(rows[i], value),
            ">=": lambda i: inverted(less(rows[i], value)),
            ">": lambda i: less(value, rows[i]),
            "<=": lambda i: inverted(less(value, rows[i])),
        }
        operator = rng.choice(list(comparisons))
        return (column.name, operator, form), comparisons[operator]
    values = [draw_literal(rng, column) for _ in range(rng.choice([0, 1, 2, 5, 30]))]
    forms = [literal_form(rng, column.arrow, value) for value in values]
    if choice < 0.9:
        return (column.name, "in", forms), lambda i: any_true([equal(rows[i], value) for value in values])
    return (column.name, "not in", forms), lambda i: inverted(any_true([equal(rows[i], value) for value in values]))


def draw_predicate(rng: random.Random, columns: list[Column]) -> tuple[Any, Match]:
    """A predicate in DNF, and which rows it selects."""
    terms = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        terms.append([draw_leaf(rng, columns) for _ in range(rng.choice([1, 1, 2, 3]))])
    matches = [[match for _, match in term] for term in terms]
    dnf = [[leaf for leaf, _ in term] for term in terms]
    return dnf, lambda i: any_true([all_true([match(i) for match in term]) for term in matches])


def draw_nested(rng: random.Random, columns: list[Column], depth: int = 0) -> tuple[Node, Match]:
    """A tree of any shape."""
    if rng.random() < 0.15:
        node, inner = draw_nested(rng, columns, depth)
        return tree.negation(node), lambda i: inverted(inner(i))
    if depth == 3 or rng.random() < 0.4:
        if rng.random() < 0.15:
            column = rng.choice(columns)
            rows = column.rows
            if rng.random() < 0.5:
                return tree.IsNull(column.name), lambda i: rows[i] is None
            return tree.IsNotNull(column.name), lambda i: rows[i] is not None
        (name, op, value), match = draw_leaf(rng, columns)
        return parse([(name, op, value)]), match
    parts = [draw_nested(rng, columns, depth + 1) for _ in range(rng.randint(2, 3))]
    matches = [match for _, match in parts]
    if rng.random() < 0.5:
        return And(tuple(node for node, _ in parts)), lambda i: all_true([match(i) for match in matches])
    return Or(tuple(node for node, _ in parts)), lambda i: any_true([match(i) for match in matches])


# ------------------------------------------------------------------------------------------------------ the check


def expected_rows(file: File, match: Match) -> list[int]:
    return [i for i in range(len(file.number)) if match(i)]


def group_starts(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return list(np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))]))


def check(file: File, where: Any, match: Match, tally: Tally) -> None:
    expected = expected_rows(file, match)
    report = parquet_bloom.prune(file.path, where)
    starts = group_starts(file.path)
    selected = set(report.selected[str(file.path)])
    for group in range(len(starts) - 1):
        holds = any(starts[group] <= i < starts[group + 1] for i in expected)
        assert group in selected or not holds, (file.story, str(where)[:500], report.skipped)
        tally.groups += 1
        tally.without_match += not holds
        tally.skipped += group not in selected
    tally.by.update(report.skipped_by)
    tally.predicates += 1
    try:
        result = parquet_bloom.read_table(file.path, where, columns=["row"])
    except PredicateError:  # a literal cannot be compared exactly
        tally.refused += 1
        return
    assert result["row"].to_pylist() == expected, (file.story, str(where)[:500])


def hunt(seed: int, folder: Path, tally: Tally) -> None:
    rng = random.Random(seed)
    file = make_file(rng, folder)
    if not random_files.readable(file.path, file.story):
        return
    try:
        file.story += random_files.embed(rng, file.path)
        columns = [column for column in file.columns.values() if column.kind not in NESTED]
        st = file.columns.get("st")
        if st:
            a = [None if row is None else row["a"] for row in st.rows]
            c = [None if row is None or row["b"] is None else row["b"]["c"] for row in st.rows]
            columns += [Column("st.a", "i32", a), Column("st.b.c", "str", c)]
        for _ in range(12 if columns else 0):
            where, match = draw_predicate(rng, columns)
            check(file, where, match, tally)
            node, match = draw_nested(rng, columns)
            # The same as SQL text, where SQL can say it
            check(file, tree.to_text(node) if rng.random() < 0.6 else node, match, tally)
        for name in ("li", "ma", "ls"):
            if name in file.columns:
                check_elements(rng, file, file.columns[name], tally)
    except Exception as error:
        error.add_note(f"seed {seed}: {file.story}")
        raise
    finally:
        file.path.unlink(missing_ok=True)


def check_elements(rng: random.Random, file: File, column: Column, tally: Tally) -> None:
    """Pruning by list elements skips no row group that holds the element."""
    leaf, kind, elements = {
        "li": ("li.list.element", "i64", lambda row: row),
        "ls": ("ls.list.element.q", "str", lambda row: [item["q"] for item in row if item]),
        "ma": ("ma.key_value.key", "str", lambda row: [key for key, _ in row]),
    }[column.name]
    stored_values = [[] if row is None else elements(row) for row in column.rows]
    everything = [value for row in stored_values for value in row]
    starts = group_starts(file.path)
    for _ in range(6):
        value = rng.choice(everything) if everything and rng.random() < 0.5 else VALUES[kind].draw(rng)
        if value is None:
            continue
        selected = parquet_bloom.prune(file.path, [(leaf, "=", value)]).selected[str(file.path)]
        for group in range(len(starts) - 1):
            holds = any(value in stored_values[i] for i in range(starts[group], starts[group + 1]))
            assert group in selected or not holds, (file.story, leaf, value)
            tally.groups += 1
            tally.without_match += not holds
            tally.skipped += group not in selected


def test_no_row_is_lost(tmp_path):
    tally = Tally()
    tables = 0
    for seed in seeds(TABLES):
        hunt(seed, tmp_path, tally)
        tables += 1
    print(f"{tables} tables, {tally}")
    # That nothing is lost would also hold if nothing was skipped. (Not every column has a filter or statistics.)
    assert tally.refused < 0.02 * tally.predicates
    assert tally.skipped > 0.6 * tally.without_match
    assert tally.by["filter"] > 0
