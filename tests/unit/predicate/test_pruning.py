"""Conditions that other engines get wrong, in each notation: matching rows, and skipped row groups."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.hashing.column_type import ColumnType, from_parquet
from parquet_bloom.predicate.pruning import PruningPredicate, PruningStatistics
from parquet_bloom.predicate.tree import In

NAN = float("nan")


def write(path: Path, columns: dict[str, Any], filtered: list[str], row_group_size: int = 4) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    parquet_bloom.embed(path, filtered, fpp=1e-6)
    return path


def groups(path: Path, where: Any) -> list[int]:
    return parquet_bloom.prune(path, where).selected.get(str(path), [])


def rows(path: Path, where: Any) -> list[int]:
    return parquet_bloom.read_table(path, where)["row"].to_pylist()


def notations(column: str, values: list[Any], spelled: list[str], arrow_type: pa.DataType) -> list[Any]:
    """`column IN (values)` in SQL, as a chain of `=`, as a list of tuples, as an expression."""
    return [
        f"{column} IN ({', '.join(spelled)})",
        " OR ".join(f"{column} = {one}" for one in spelled),
        [(column, "in", values)],
        [[(column, "=", value)] for value in values],
        pc.field(column).isin(pa.array(values, arrow_type)),
    ]


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_in_is_a_chain_of_equalities_to_which_both_zeros_are_one(zero: float, tmp_path: Path) -> None:
    floats = [0.0, 1.0, 5.0, 9.0, -0.0, 1.5, 5.0, 9.0, 3.0, 1.0, 5.0, 9.0]
    path = write(tmp_path / "a.parquet", {"row": range(12), "a": floats}, ["a"])
    for where in notations("a", [zero, 7.0], [f"{zero}", "7.0"], pa.float64()):
        assert rows(path, where) == [0, 4], where
        assert groups(path, where) == [0, 1], where


def test_integers_above_two_to_the_63(tmp_path: Path) -> None:
    large = [2**63 + 5 * number for number in range(8)] + [3, 2**64 - 1, 0, 1]
    column = pa.array(large, pa.uint64())
    path = write(tmp_path / "a.parquet", {"row": range(12), "a": column}, ["a"])
    for where in notations("a", [2**64 - 1, 2**63 + 5], [str(2**64 - 1), str(2**63 + 5)], pa.uint64()):
        assert rows(path, where) == [1, 9], where
        assert groups(path, where) == [0, 2], where
    beyond: list[Any] = [f"a = {2**64}", [("a", "=", 2**64)], "a = -1", pc.field("a") == -1]
    for where in beyond:
        assert groups(path, where) == [], where
    assert rows(path, pc.field("a") > pa.scalar(2**63 + 30, pa.uint64())) == [7, 9]
    assert rows(path, f"a > {2**63 + 30}") == [7, 9]


def test_nan_equals_nan_and_is_above_all_other_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"row": range(4), "a": [1.0, NAN, np.inf, None]}, ["a"])
    equal: list[Any] = [
        "a = CAST('NaN' AS DOUBLE)",
        "a IN (CAST('NaN' AS DOUBLE), 7.0)",
        [("a", "=", NAN)],
        [("a", "in", [NAN])],
        pc.field("a") == NAN,
        pc.field("a").isin([NAN]),
    ]
    for where in equal:
        assert rows(path, where) == [1], where
    assert rows(path, "a > 1.0") == [1, 2]
    assert rows(path, "a <> 1.0") == [1, 2]
    assert rows(path, "a <= CAST('NaN' AS DOUBLE)") == [0, 1, 2]


def test_a_null_in_an_in_hides_no_skipping(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"row": range(12), "a": [*range(0, 80, 10), None, 100, 110, 120]}, ["a"])
    for where in ("a IN (NULL, 50)", [("a", "in", [50, None])], "a IN (50, NULL) AND row < 6"):
        assert rows(path, where) == [5], where
        assert groups(path, where) == [1], where
    assert groups(path, "a IN (NULL)") == groups(path, "a NOT IN (1, NULL)") == []
    arrows = pc.field("a").isin([50, None])  # to Arrow a null is among the values
    assert rows(path, arrows) == [5, 8]
    assert groups(path, arrows) == [1, 2]


def test_an_or_over_two_filtered_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 2**40, 40), rng.integers(0, 2**40, 40)
    path = write(tmp_path / "a.parquet", {"row": range(40), "a": left, "b": right}, ["a", "b"])
    conditions: list[Any] = [
        f"a = {left[13]} OR b = {right[30]}",
        [[("a", "=", left[13])], [("b", "=", right[30])]],
        (pc.field("a") == left[13]) | (pc.field("b") == right[30]),
    ]
    for where in conditions:
        assert rows(path, where) == [13, 30], where
        assert groups(path, where) == [3, 7], where
    assert groups(path, f"a = {left[13]} AND b = {right[30]}") == []


@pytest.mark.ci
@pytest.mark.parametrize("make", [int, "{:x}".format], ids=["int64", "string"])
def test_a_list_of_100_000_values_over_40_row_groups(make: Any, tmp_path: Path) -> None:
    """In a second or so of the processors; the bound is generous."""
    rng = np.random.default_rng(1)
    for number in range(10):
        keys = [make(int(key)) for key in rng.integers(0, 2**62, 80)]
        write(tmp_path / f"{number}.parquet", {"a": keys}, ["a"], row_group_size=20)
    values = tuple(make(int(key)) for key in rng.integers(0, 2**62, 100_000))
    begin = time.process_time()
    by_chance = parquet_bloom.prune(tmp_path, In("a", values))
    report = parquet_bloom.prune(tmp_path, In("a", (*values, keys[-1])))
    assert time.process_time() - begin < 5
    assert by_chance.total_row_groups == 40
    assert by_chance.selected_row_groups <= 20  # each filter was probed for 100,000 keys
    assert 3 in report.selected[str(tmp_path / "9.parquet")]
    assert parquet_bloom.read_table(tmp_path, In("a", (*values, keys[-1])))["a"].to_pylist() == [keys[-1]]


def prepared(leaf: In, column_type: ColumnType) -> float:
    """Seconds that it takes to prepare a leaf for a column of some type."""
    times = []
    for _ in range(3):
        decider = PruningPredicate(leaf)
        begin = time.perf_counter()
        decider.decide({"a": PruningStatistics(column_type)})
        times.append(time.perf_counter() - begin)
    return min(times)


def test_many_values_are_prepared_together() -> None:
    """A step a list, not some a value, which decimals do take."""
    numbers = In("a", tuple(range(0, 200_000, 10)))
    decimals = from_parquet("INT64", logical={5: {1: 2, 2: 18}})
    assert prepared(numbers, from_parquet("INT64")) < prepared(numbers, decimals) / 2


def test_many_terms_are_combined_as_few_are(tmp_path: Path) -> None:
    """Each row group is ruled out, or selected, by a term of its own."""
    numbers = np.arange(200)
    pq.write_table(
        pa.table({"row": numbers, "a": numbers, "s": [{"b.c": n} for n in range(200)]}),
        tmp_path / "a.parquet",
        row_group_size=5,
    )
    some = np.random.default_rng(36).permutation(40)[:23].tolist()
    others = sorted({*range(40)} - {*some})
    for name in ("a", '"s"."b.c"'):
        pad = [f"{name} >= {-number}" for number in range(300)]
        ruled_out = [f"({name} < {5 * group} OR {name} >= {5 * group + 5})" for group in some]
        where = " AND ".join([*ruled_out, *pad])
        assert groups(tmp_path / "a.parquet", where) == others
        assert rows(tmp_path / "a.parquet", where) == [5 * group + i for group in others for i in range(5)]
        selected = [f"({name} >= {5 * group} AND {name} < {5 * group + 5})" for group in some]
        where = " OR ".join([*selected, *(f"{name} > {1000 + number}" for number in range(300))])
        assert groups(tmp_path / "a.parquet", where) == sorted(some)
