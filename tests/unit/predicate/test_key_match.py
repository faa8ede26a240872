"""Rows match the keys that their values equal, as `row_mask` compares them one by one."""

from __future__ import annotations

import datetime as dt
import math
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate.key_expression import match_keys
from parquet_bloom.predicate.row_filter import row_mask
from parquet_bloom.predicate.tree import Equal, all_of

DAY, MOMENT = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 12)
NUMBERS = [0, 1, -1, 2, 1 << 40, 1.0, 0.0, -0.0, 1.5, math.nan, math.inf, Decimal("1.50"), Decimal(2), 1 << 70]
TEXTS = ["", "a", "b", "it's", "ü"]
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "small": (pa.int8(), [0, 1, -1, 2], NUMBERS),
    "unsigned": (pa.uint64(), [0, 1, 2, (1 << 64) - 1], [*NUMBERS, (1 << 64) - 1]),
    "integer": (pa.int64(), [0, 1, -1, 1 << 40], NUMBERS),
    "float": (pa.float32(), [0.0, -0.0, 1.0, 1.5, math.nan, math.inf], NUMBERS[:-1]),
    "double": (pa.float64(), [0.0, -0.0, 1.0, 1.5, math.nan], NUMBERS[:-1]),
    "decimal": (pa.decimal128(9, 2), [Decimal(0), Decimal("1.50"), Decimal(2)], [*NUMBERS[:9], *NUMBERS[11:]]),
    "text": (pa.string(), TEXTS, TEXTS),
    "large": (pa.large_string(), TEXTS, TEXTS),
    "view": (pa.string_view(), TEXTS, TEXTS),
    "coded": (pa.dictionary(pa.int32(), pa.string()), TEXTS, TEXTS),
    "bytes": (pa.binary(), [b"", b"a", b"\xff"], [b"", b"a", b"\xff"]),
    "uuid": (pa.uuid(), [uuid.UUID(int=i).bytes for i in range(3)], [uuid.UUID(int=1), str(uuid.UUID(int=2))]),
    "day": (pa.date32(), [DAY, DAY + dt.timedelta(1)], [DAY, "2026-01-02", MOMENT]),
    "moment": (pa.timestamp("ms", "UTC"), [MOMENT, MOMENT + dt.timedelta(1)], [MOMENT, "2026-01-02 12:00:00", DAY]),
    "flag": (pa.bool_(), [True, False], [True, False]),
}


def make_column(rng: random.Random, name: str, count: int) -> pa.ChunkedArray:
    arrow_type, values, _ = COLUMNS[name]
    drawn = [rng.choice([None, *values]) for _ in range(count)]
    cut = rng.randrange(count + 1)
    return pa.chunked_array([pa.array(part, arrow_type) for part in (drawn[:cut], drawn[cut:])], arrow_type)


def expect(table: pa.Table, columns: list[str], keys: list[list[Any]]) -> list[tuple[int, int]]:
    pairs = []
    for number, key in enumerate(zip(*keys, strict=True)):
        node = all_of([Equal(column, literal) for column, literal in zip(columns, key, strict=True)])
        pairs += [(number, row) for row, is_true in enumerate(row_mask(table, node).to_pylist()) if is_true]
    return pairs


def match(table: pa.Table, columns: list[str], keys: list[list[Any]]) -> list[tuple[int, int]]:
    rows, numbers = match_keys(table, columns, keys, "UTC")
    return list(zip(numbers.tolist(), rows.tolist(), strict=True))


@pytest.mark.parametrize("name", COLUMNS)
def test_keys_of_one_column(name: str) -> None:
    rng = random.Random(name)
    for count in (0, 1, 30):
        table = pa.table({name: make_column(rng, name, count)})
        keys = [rng.choice(COLUMNS[name][2]) for _ in range(12)]
        assert match(table, [name], [keys]) == expect(table, [name], [keys])
        alike = [key for key in keys if type(key) is type(keys[0])]
        assert match(table, [name], [alike]) == expect(table, [name], [alike])


@pytest.mark.parametrize("seed", range(20))
def test_keys_of_several_columns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr("parquet_bloom.predicate.key_expression._LARGEST_CODE", 2)
    rng = random.Random(seed)
    names = rng.sample([*COLUMNS], 3)
    table = pa.table({name: make_column(rng, name, 60) for name in names})
    keys = [[rng.choice(COLUMNS[name][2]) for _ in range(40)] for name in names]
    assert match(table, names, keys) == expect(table, names, keys)


def test_a_column_that_is_not_there_or_null() -> None:
    table = pa.table({"a": [1, 2], "n": pa.nulls(2)})
    assert match(table, ["b"], [[1]]) == match(table, ["n"], [[1]]) == match(table, ["a", "b"], [[1], [1]]) == []


def test_a_key_of_another_kind_is_refused() -> None:
    with pytest.raises(PredicateError):
        match_keys(pa.table({"a": [1]}), ["a"], [["x", 1]], "UTC")
