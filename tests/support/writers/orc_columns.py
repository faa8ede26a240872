"""Columns of every type that ORC's filters know, and what each writer hashes of their values."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from support.oracle import orc_oracle

STRIDE, ROWS, FPP = 200, 460, 0.01


def _long(value: int) -> int:
    return orc_oracle.wang(value)


def _double(value: float) -> int:
    return orc_oracle.wang(orc_oracle.double_bits(value))


def _text(value: str) -> int:
    return orc_oracle.murmur(value.encode())


def _milliseconds(nanoseconds: int) -> int:
    # pyarrow rounds towards 1970; other writers round down.
    return orc_oracle.wang(nanoseconds // 1_000_000 if nanoseconds > 0 else -(-nanoseconds // 1_000_000))


def _decimal(value: Decimal) -> int:
    text = format(value, "f")
    return orc_oracle.murmur((text.rstrip("0").rstrip(".") if "." in text else text).encode())


def _some_null(values: list[Any], draw: random.Random) -> list[Any]:
    return [None if draw.random() < 0.1 else value for value in values]


def _decimals(draw: random.Random) -> list[Decimal]:
    result = [Decimal(draw.randrange(-(10**12), 10**12)).scaleb(-draw.randrange(4)) for _ in range(ROWS)]
    result[:4] = [Decimal("0"), Decimal("100"), Decimal("-0.5"), Decimal("1.500")]
    return [value.quantize(Decimal("0.001")) for value in result]


def columns(seed: int = 7) -> dict[str, tuple[pa.DataType, list[Any], Callable[[Any], int]]]:
    """Name -> type, values in the form that Arrow takes and that is hashed, and the hash of a value."""
    draw = random.Random(seed)
    moments = [draw.randrange(-(10**18), 4 * 10**18) for _ in range(ROWS)]
    singles = pa.array([draw.gauss(0, 9) for _ in range(ROWS)], pa.float32()).to_pylist()
    columns_by_name: dict[str, tuple[pa.DataType, list[Any], Callable[[Any], int]]] = {
        "i16": (pa.int16(), [draw.randrange(-(1 << 15), 1 << 15) for _ in range(ROWS)], _long),
        "i32": (pa.int32(), [draw.randrange(-(1 << 31), 1 << 31) for _ in range(ROWS)], _long),
        "i64": (pa.int64(), [draw.randrange(-(1 << 63), 1 << 63) for _ in range(ROWS)], _long),
        "f32": (pa.float32(), singles, _double),
        "f64": (pa.float64(), [0.0, *(draw.gauss(0, 1e99) for _ in range(ROWS - 1))], _double),
        "text": (pa.string(), [f"é{draw.randrange(10**9)}" for _ in range(ROWS)], _text),
        "blob": (pa.binary(), [draw.randbytes(draw.randrange(40)) for _ in range(ROWS)], orc_oracle.murmur),
        "day": (pa.date32(), [draw.randrange(-100_000, 60_000) for _ in range(ROWS)], _long),
        "wall": (pa.timestamp("ns"), moments, _milliseconds),
        "moment": (pa.timestamp("ns", tz="UTC"), moments, _milliseconds),
        "d18": (pa.decimal128(18, 3), _decimals(draw), _decimal),
        "d38": (pa.decimal128(38, 3), _decimals(draw), _decimal),
    }
    return {name: (kind, _some_null(values, draw), key) for name, (kind, values, key) in columns_by_name.items()}


def table_of(columns_by_name: dict[str, tuple[pa.DataType, list[Any], Callable[[Any], int]]]) -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values, _) in columns_by_name.items()})


def expected_bits(values: list[Any], key: Callable[[Any], int], functions: int, num_bits: int) -> bytes:
    """The filter of some values, by the slow twin."""
    return orc_oracle.bitset([key(value) for value in values if value is not None], functions, num_bits)
