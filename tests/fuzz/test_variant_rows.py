"""Variants: metadata and value of a row, alone and beside shredded columns."""

from __future__ import annotations

import functools
import json
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing import Choices, fuzz
from support.oracle.variant_twin import at
from support.random_cases.random_documents import NAMES, draw_document, draw_odd_scalar, draw_scalar
from support.writers.variant_columns import Primitive, encode, make_column

from parquet_bloom.errors import MalformedVariantError, VariantCastError
from parquet_bloom.variant.variant_path import VariantPath
from parquet_bloom.variant.variant_text import to_json
from parquet_bloom.variant.variant_values import extract

TARGETS = [pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.string()]
TARGETS += [pa.decimal128(38, 10), pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")]
TARGETS += [pa.time64("us"), pa.binary(16), pa.timestamp("ns")]
STEPS: list[str | int] = [0, 1, 2, 100, *NAMES[:14], "k30"]


def packed(target: int, steps: list[int], metadata: bytes, value: bytes) -> bytes:
    """An input: the type to cast to, the steps of a path, and a row."""
    return bytes([target, len(steps), *steps]) + len(metadata).to_bytes(2, "little") + metadata + value


@functools.cache
def good_rows() -> list[bytes]:
    rng = random.Random(5)
    results = []
    while len(results) < 60:
        metadata, value = encode(rng.choice((draw_document, draw_scalar, draw_odd_scalar))(rng), rng)
        if len(metadata) + len(value) < 1000:
            results.append(packed(7, [rng.randrange(20) for _ in range(rng.randrange(3))], metadata, value))
    return results


def unpack(choices: Choices) -> tuple[pa.DataType, VariantPath, bytes, bytes]:
    target = choices.pick(TARGETS)
    path = VariantPath(tuple(choices.pick(STEPS) for _ in range(choices.below(4))))
    size = choices.number(2)
    return target, path, choices.take(size), choices.rest()


@fuzz(MalformedVariantError, VariantCastError, recipes=good_rows)
def test_variant_rows(data: bytes) -> None:
    """A row's text is JSON, and what is at a path is what the text has there."""
    target, path, metadata, value = unpack(Choices(data))
    column = make_column([(metadata, value)])
    document = json.loads(to_json(column)[0].as_py())
    part = to_json(column, path)[0].as_py()
    there = at(document, path.parts)
    assert (there is None and part in (None, "null")) or json.loads(part) == there
    array = extract(column, path, target, try_cast=True)
    array.validate(full=True)
    if there is None:
        assert array[0].as_py() is None
    elif pa.types.is_string(target):
        assert array[0].as_py() == (there if isinstance(there, str) else part) or isinstance(there, str)


GROUP = pa.struct({"value": pa.binary(), "typed_value": pa.int64()})
INNER = pa.struct({"value": pa.binary(), "typed_value": pa.struct({"c": GROUP, "a.b": GROUP})})
OBJECT = pa.struct({"a": GROUP, "b": INNER, "": pa.struct({"value": pa.binary(), "typed_value": pa.list_(GROUP)})})
SHREDDED = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": OBJECT})


def draw_group(choices: Choices, kind: pa.DataType, values: list[bytes]) -> dict[str, Any]:
    """Any of the four cases of a group, most of them valid ones."""
    how, row = choices.number() % 8, {}
    if how in (0, 1, 7):
        row["value"] = choices.pick(values)
    if how > 1:
        typed = kind.field("typed_value").type
        if pa.types.is_struct(typed):
            row["typed_value"] = {field.name: draw_group(choices, field.type, values) for field in typed}
        elif pa.types.is_list(typed):
            row["typed_value"] = [draw_group(choices, typed.value_type, values) for _ in range(choices.below(3))]
        else:
            row["typed_value"] = choices.number()
    return row


@fuzz(MalformedVariantError, VariantCastError, recipes=good_rows)
def test_shredded_variants(data: bytes) -> None:
    """Groups of a shredded column in any state: a text is JSON, and what is at a path is what it has there."""
    choices = Choices(data)
    target, path, metadata, value = unpack(choices)
    more = [encode(document)[1] for document in ({}, "x", Primitive("null"), Primitive("int8", 5))]
    row = {"metadata": metadata, **draw_group(Choices(data[::-1]), SHREDDED, [value, *more])}
    column = pa.array([row], SHREDDED)
    document = json.loads(to_json(column)[0].as_py())
    part = to_json(column, path)[0].as_py()
    there = at(document, path.parts)
    assert (there is None and part in (None, "null")) or json.loads(part) == there
    extract(column, path, target, try_cast=True).validate(full=True)
