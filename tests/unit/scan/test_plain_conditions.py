"""Plain conditions that every engine takes: they are not refused, and mean what DuckDB, polars or Arrow say."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import pickle
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.predicate import parse
from parquet_bloom.predicate.tree import negation, to_text

D = decimal.Decimal
UNITS = ("s", "ms", "us", "ns")


def make_file(path: Path, columns: dict[str, object]) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def test_a_column_with_an_empty_name(tmp_path: Path) -> None:
    path = make_file(tmp_path / "a.parquet", {"": [7, 8, 9, None], "s": [{"": 1}, None, {"": 2}, {"": None}]})
    for where, numbers in (
        ('"" = 8', [8]),
        ('"" IN (9, 7) AND s."" = 2', [9]),
        ('"" IS NULL', [None]),
        ('s."" IS NULL', [8, None]),
        ('"" <> 7 OR "" IS NULL', [8, 9, None]),
    ):
        assert parquet_bloom.read_table(path, where)[""].to_pylist() == numbers, where
    for where in ([("", "=", 8)], pc.field("") == 8, "`` = 8"):
        report = parquet_bloom.prune(path, where)
        assert (report.where, report.selected) == ('"" = 8', {str(path): [0]})


@pytest.mark.ci
@pytest.mark.parametrize("unit", UNITS)
def test_durations(tmp_path: Path, unit: str) -> None:
    step = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[unit]
    counts = [-3, -1, 0, 1, 2, 3, None]
    path = make_file(tmp_path / "a.parquet", {"d": pa.array(counts, pa.duration(unit)), "n": counts})
    for nanos in (2 * step, 2 * step + step // 2, -step, 10**18):
        seconds = f"{D(nanos).scaleb(-9):.9f}"
        for operator in ("=", "<>", "<", "<=", ">", ">="):
            rows = parquet_bloom.read_table(path, f"d {operator} INTERVAL '{seconds} seconds'")["n"].to_pylist()
            expected = duckdb.sql(f"SELECT n FROM '{path}' WHERE n * {step}::HUGEINT {operator} {nanos}").fetchall()
            assert rows == [row[0] for row in expected], (unit, nanos, operator)
    two = pa.scalar(2, pa.duration(unit))
    for where in (pc.field("d") == two, [("d", "in", np.array([2, 9], f"m8[{unit}]"))], [("d", "=", two)]):
        assert parquet_bloom.read_table(path, where)["n"].to_pylist() == [2]
    if unit != "ns":
        frame = parquet_bloom.dataset(path).to_polars().filter(pl.col("d") > dt.timedelta(microseconds=step / 1000))
        assert frame.collect()["n"].to_list() == [2, 3]
    with pytest.raises(parquet_bloom.errors.PredicateError, match="cannot be compared exactly with INT64"):
        parquet_bloom.read_table(path, "n = INTERVAL '2 seconds'")


@pytest.mark.ci
@pytest.mark.parametrize("scale", [0, 2, 18, 30])
def test_decimals_against_floats_beyond_their_digits(tmp_path: Path, scale: int) -> None:
    """A decimal is compared with a float as the nearest double, as in DuckDB and Spark."""
    exact = decimal.Context(prec=76)
    for literal in (1e19, 1e17 + 16, 123456789.125, 0.1, -7e-3):
        limit = D(10) ** (38 - scale)
        near = [
            D(literal) + exact.multiply(D(part), D(math.ulp(literal))) for part in ("-1", "-.5", "-.4", "0", ".5", ".6")
        ]
        values = [exact.quantize(value, D(1).scaleb(-scale)) for value in (*near, D(-5), D(7)) if abs(value) < limit]
        path = make_file(tmp_path / "a.parquet", {"d": pa.array([*values, None], pa.decimal128(38, scale))})
        for operator in ("<", "<=", ">", ">="):
            where = f"d {operator} {literal:.17e}"
            expected = [row[0] for row in duckdb.sql(f"SELECT d FROM '{path}' WHERE {where}").fetchall()]
            assert parquet_bloom.read_table(path, where)["d"].to_pylist() == expected, where
    assert parquet_bloom.prune(path, "d > 1e30").selected == {}


def test_a_name_with_a_dot_beside_a_field_of_a_struct(tmp_path: Path) -> None:
    both = {"u.v": ["p", "q", None, "q"], "u": [{"v": 1}, {"v": 2}, {"v": 3}, None], "n": [1, 2, 3, 4]}
    path = make_file(tmp_path / "both.parquet", both)
    for where in ("\"u.v\" = 'q'", "NOT \"u.v\" = 'p' AND n > 2", '"u.v" IS NULL', "lower(\"u.v\") IN ('q', 'r')"):
        node = parse(where)
        assert parse(to_text(node)) == node == negation(negation(node)) == pickle.loads(pickle.dumps(node))
        expected = [row[0] for row in duckdb.sql(f"SELECT n FROM '{path}' WHERE {where}").fetchall()]
        assert parquet_bloom.read_table(path, where)["n"].to_pylist() == expected, where
        assert parquet_bloom.dataset(path).scan(where).count_rows() == len(expected)
    for where in ("u.v = 1", '"u"."v" = 1', [("u.v", "=", "q")]):
        with pytest.raises(parquet_bloom.errors.PredicateError, match="the name matches several columns"):
            parquet_bloom.read_table(path, where)
    column = make_file(tmp_path / "column.parquet", {"u.v": ["p", "q", "r", "s"]})
    field = make_file(tmp_path / "field.parquet", {"u": [{"v": one} for one in "pqrs"]})
    for path in (column, field):  # where nothing else is meant the evidence is used
        assert parquet_bloom.prune(path, "\"u.v\" = 's'").selected == {str(path): [1]}
        assert parquet_bloom.read_table(path, "\"u.v\" = 's'").num_rows == 1
