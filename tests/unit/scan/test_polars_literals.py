"""Test that literals reach polars' sources as they are, however polars writes its expressions."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.predicate.tree import Equal, In
from parquet_bloom.scan import polars_frame
from tests.support.scale import scaled

X = pl.col("x")
NAN_PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_1234))[0]

OPERATORS: list[Callable[[Any], Any]] = [
    lambda value: value == X,
    lambda value: value != X,
    lambda value: value > X,
    lambda value: value >= X,
    lambda value: value < X,
    lambda value: value <= X,
    lambda value: X.is_between(value, value),
    lambda value: ~(value == X),
    lambda value: (value == X) | X.is_null(),
]

# Types, and values of theirs that a text may change.
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "float64": (pl.Float64, [5e-324, -1.7976931348623157e308, 0.1 + 0.2, 2.0**53 + 2, 1e23, 887.1834218542393]),
    "infinities": (pl.Float64, [math.inf, -math.inf, math.nan, -math.nan, NAN_PAYLOAD, 1.0, 0.0, -0.0]),
    "float32": (pl.Float32, [float.fromhex("0x1.5c87fap-84"), 1.401298464324817e-45, 0.1, math.nan, -math.inf, -0.0]),
    "int64": (pl.Int64, [2**63 - 1, -(2**63), 2**53 + 1, 0]),
    "uint64": (pl.UInt64, [2**64 - 1, 2**63, 2**53 + 1, 0]),
    "int8": (pl.Int8, [-128, 127]),
    "decimal": (pl.Decimal(38, 5), [Decimal("123456789012345678901234567890123.12345"), Decimal("-0.00001")]),
    "date": (pl.Date, [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    "milliseconds": (pl.Datetime("ms"), [dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(9999, 1, 1)]),
    "microseconds": (pl.Datetime("us", "UTC"), [dt.datetime(1583, 1, 1, 0, 0, 0, 1, dt.UTC)]),
    "time": (pl.Time, [dt.time(23, 59, 59, 999999), dt.time(0)]),
    "binary": (pl.Binary, [b"\x00\xff", b"", b'"\\']),
    "text": (pl.String, ["a\0b", '"\\\n', "\u2028", "\U0001f600", '{"Literal":{"Scalar":{"Int64":1}}}', "", "\x7f"]),
}


def write(path: Path, column: pl.Series) -> pl.DataFrame:
    """Write a column with nulls and a row number, each row a row group of its own."""
    frame = pl.DataFrame({"x": pl.concat([column, pl.Series("x", [None], dtype=column.dtype)])}).with_row_index("n")
    pq.write_table(frame.to_arrow(), path, row_group_size=1, coerce_timestamps=None)
    return frame


def series(name: str) -> pl.Series:
    dtype, values = VALUES[name]
    return pl.Series("x", values, dtype=dtype)


@pytest.mark.ci
@pytest.mark.parametrize("name", [*VALUES, "nanoseconds"])
def test_no_literal_changes_on_its_way(tmp_path: Path, name: str) -> None:
    if name == "nanoseconds":
        column = pl.Series("x", [2**63 - 1, -(2**63) + 1, 1, 0], dtype=pl.Int64).cast(
            pl.Datetime("ns", "Europe/Berlin")
        )
    else:
        column = series(name)
    frame = write(tmp_path / "a.parquet", column)
    dataset = parquet_bloom.dataset(tmp_path)
    for number in range(len(column)):
        literal = pl.lit(column.slice(number, 1)).first()
        for lazy in (parquet_bloom.scan_polars(tmp_path), dataset.to_polars()):
            for operator in OPERATORS:
                predicate = operator(literal if name == "nanoseconds" else pl.lit(column[number], dtype=column.dtype))
                assert lazy.filter(predicate).collect()["n"].equals(frame.filter(predicate)["n"]), predicate
        values = column.slice(number, 2).implode()
        for predicate in (X.is_in(values), ~X.is_in(values)):
            assert dataset.to_polars().filter(predicate).collect()["n"].equals(frame.filter(predicate)["n"])


def translate(predicate: Any, dtype: Any) -> Any:
    """Return what a source of a column of a type makes of a predicate that it gets."""
    given: list[Any] = []

    def read(_: Any, predicate: Any, *__: Any) -> Any:
        given.append(predicate)
        return iter([pl.DataFrame(schema={"x": dtype})])

    pl.io.plugins.register_io_source(read, schema={"x": dtype}).filter(predicate).collect()
    return polars_frame.translate(pl, given[0], {"x": dtype}, {"x"})


def random_double(rng: random.Random) -> float:
    bits = rng.getrandbits(64)
    if rng.random() < 0.2:
        bits &= 0x800F_FFFF_FFFF_FFFF  # a denormal
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return rng.random() * 1000 if rng.random() < 0.3 or not math.isfinite(value) else value


@pytest.mark.ci
def test_random_floats_are_taken_bit_for_bit() -> None:
    rng = random.Random(36)
    for _ in range(scaled(200)):
        value = random_double(rng)
        for node in (
            translate(pl.lit(value, dtype=pl.Float64) == X, pl.Float64()),
            translate(X.is_between(value, value), pl.Float64()),
        ):
            assert {struct.pack("<d", leaf) for leaf in iter_values(node)} == {struct.pack("<d", value)}
        narrow = struct.unpack("<f", struct.pack("<f", math.fmod(value, 3e38)))[0]
        assert translate(pl.lit(narrow, dtype=pl.Float32) == X, pl.Float32()) == Equal("x", narrow)


def iter_values(node: Any) -> list[float]:
    parts = getattr(node, "children", (node,))
    return [value for part in parts for value in part.literals]


def test_literals_with_the_same_text_are_told_apart() -> None:
    """In JSON polars writes null for NaN as for the infinities: of such literals none is used."""
    both = (pl.lit(math.inf, dtype=pl.Float64) == X) | (pl.lit(math.nan, dtype=pl.Float64) == X)
    assert translate(both, pl.Float64()) is None
    assert translate((pl.lit(math.inf, dtype=pl.Float64) == X) | (math.inf == X), pl.Float64()) == In(
        "x", (math.inf,) * 2
    )
    beside = both & (X > 0.5)
    assert str(translate(beside, pl.Float64())) == "x > 0.5e0"
