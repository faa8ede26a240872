"""Random predicates against what a table's metadata says of its files, compared with the rows that the files have."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate.pruning import PruningPredicate
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.tree import Compare, Equal, In, IsNotNull, IsNull, Node, NotEqual, NotIn
from parquet_bloom.tables.table_snapshot import TableSnapshot

COLUMN = "c"


def draw_predicates(rng: random.Random, values: list[Any], count: int) -> Iterator[Node]:
    """Yield predicates on `COLUMN` with literals among the values."""
    yield IsNull(COLUMN)
    yield IsNotNull(COLUMN)
    present = [value for value in values if value is not None]
    for _ in range(count if present else 0):
        value = rng.choice(present)
        several = tuple(rng.choice(present) for _ in range(rng.randrange(1, 4)))
        operator = rng.choice(["<", "<=", ">", ">="])
        yield rng.choice(
            [
                Equal(COLUMN, value),
                NotEqual(COLUMN, value),
                In(COLUMN, several),
                NotIn(COLUMN, several),
                Compare(COLUMN, operator, value),
            ]
        )


def find_impossible(snapshot: TableSnapshot, column: str, node: Node) -> set[str]:
    """Return the files that the table's statistics of a column rule out."""
    statistics = snapshot.find_statistics(column)
    if statistics is None:
        return set()
    assert len(statistics) == len(snapshot.files)
    predicate = PruningPredicate(node)
    possible = predicate.possible(predicate.decide_all({COLUMN: statistics}, len(statistics)))
    return {file.path for file, kept in zip(snapshot.files, possible.tolist(), strict=True) if not kept}


def _plain(value: Any) -> Any:
    """Return a value as predicates take it; pyarrow gives nanoseconds as a type of pandas."""
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def check_column(
    snapshot: TableSnapshot, column: str, values: dict[str, pa.ChunkedArray], rng: random.Random, count: int = 60
) -> int:
    """Check that no predicate rules out a file that has a row for it; return how many files were ruled out.

    Parameters
    ----------
    values : the column in each file, in the table's type.
    """
    listed = [_plain(value) for array in values.values() for value in array.to_pylist()]
    ruled_out = 0
    for node in draw_predicates(rng, listed, count):
        impossible = find_impossible(snapshot, column, node)
        for path in impossible:
            try:
                mask = row_mask(pa.table({COLUMN: values[path]}), node)
            except PredicateError:
                continue
            assert not pc.any(mask).as_py(), f"{node} on '{column}' has rows in {path}, which was ruled out"
        ruled_out += len(impossible)
    return ruled_out
