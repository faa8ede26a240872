"""Buffers of shredded Variants, changed in place: no array is made anew, so that an input takes microseconds."""

from __future__ import annotations

import functools
import random
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzzing import ODD, Choices, fuzz
from support.oracle.variant_twin import at, parsed, paths_of
from support.random_cases.random_documents import draw_document, draw_odd_scalar, draw_scalar, draw_schema
from support.writers.variant_columns import encode, make_shredded
from test_variant_rows import TARGETS

from parquet_bloom.core.decode.variant_decode import TYPES, VariantReader
from parquet_bloom.errors import MalformedVariantError, VariantCastError
from parquet_bloom.variant.variant_layout import describe_leaf, open_variant
from parquet_bloom.variant.variant_path import VariantPath
from parquet_bloom.variant.variant_values import extract

COLUMNS, ROWS, MOST_BYTES = 40, 5, 3000


class Held(NamedTuple):
    """A column whose buffers can be changed, and what reads them.

    Attributes
    ----------
    column : the array, which has counted its nulls before the buffers change: `renew` counts them again.
    reader : the compiled one; it remembers nothing of what the buffers have.
    buffers : their bytes, none of them empty.
    paths : some that lead to a value, or beside one.
    shredded : the paths that have a column of their own, and its type.
    """

    column: pa.Array
    reader: VariantReader
    buffers: list[NDArray[np.uint8]]
    paths: list[tuple[str | int, ...]]
    shredded: list[tuple[tuple[str, ...], pa.DataType]]


def copy_array(array: pa.Array, bitmaps: list[NDArray[np.uint8]], buffers: list[NDArray[np.uint8]]) -> pa.Array:
    """Copy an array, which has no offset, into buffers that can be changed; each of its parts gets a bitmap."""
    bitmaps.append(np.packbits(np.array(array.is_valid().to_pylist(), np.bool_), bitorder="little"))
    own = [pa.py_buffer(bitmaps[-1])]
    for buffer in own_buffers(array)[1:]:
        buffers.append(np.frombuffer(b"" if buffer is None else buffer, np.uint8).copy())
        own.append(pa.py_buffer(buffers[-1]))
    children = [copy_array(child, bitmaps, buffers) for child in children_of(array)]
    return pa.Array.from_buffers(array.type, len(array), own, children=children)


def own_buffers(array: pa.Array) -> list[pa.Buffer | None]:
    """Return the buffers of an array without those of its children."""
    count = 1 if pa.types.is_struct(array.type) else 2 if pa.types.is_list(array.type) else 3
    found: list[pa.Buffer | None] = array.buffers()[:count]
    return found


def children_of(array: pa.Array) -> list[pa.Array]:
    if pa.types.is_struct(array.type):
        return [array.field(i) for i in range(array.type.num_fields)]
    return [array.values] if pa.types.is_list(array.type) else []


def renew(array: pa.Array) -> pa.Array:
    """Return an array of the same buffers that has not counted its nulls yet."""
    children = [renew(child) for child in children_of(array)]
    return pa.Array.from_buffers(array.type, len(array), own_buffers(array), children=children)


@functools.cache
def held_columns() -> list[Held]:
    rng = random.Random(11)
    results: dict[str, Held] = {}
    while len(results) < COLUMNS:
        draws = (draw_odd_scalar, draw_scalar, *[functools.partial(draw_document, depth=depth) for depth in (1, 2, 2)])
        draw = rng.choice(draws)
        documents = [draw(rng) for _ in range(ROWS - 1)]
        schema = draw_schema(documents[-1], rng)
        is_wanted = len(results) % 3 or "list" in str(schema)  # which are rarer
        if schema is None or str(schema) in results or not is_wanted:
            continue
        column = make_shredded(documents[:-1], schema, rng)
        # Valid, if not expected: an object that is not shredded, though it could be.
        whole = dict(zip(("metadata", "value"), encode(documents[-1], rng), strict=True))
        column = pa.concat_arrays([column, pa.array([whole, None], column.type)])
        if column.nbytes < MOST_BYTES:
            paths = [path for document in documents for path in paths_of(document)]
            paths += [(*path, more) for path in paths[:10] for more in (0, "a")]
            results[str(schema)] = hold(column, paths)
    return [*results.values()]


def hold(column: pa.Array, paths: list[tuple[str | int, ...]]) -> Held:
    bitmaps: list[NDArray[np.uint8]] = []
    buffers: list[NDArray[np.uint8]] = []
    copied = copy_array(column, bitmaps, buffers)
    before = [bitmap.copy() for bitmap in bitmaps]
    for bitmap in bitmaps:
        bitmap[:] = 0
    reader = open_variant(copied)  # which leaves out bitmaps without nulls
    for bitmap, one in zip(bitmaps, before, strict=True):
        bitmap[:] = one
    assert renew(copied).equals(column) or "nan" in str(column)
    return Held(
        copied, reader, [one for one in (*bitmaps, *buffers) if len(one)], paths, [*shredded_paths(column.type)]
    )


def shredded_paths(group: pa.DataType, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    typed = group.field("typed_value").type if group.get_field_index("typed_value") >= 0 else None
    if typed is not None and pa.types.is_struct(typed):
        for field in typed:
            yield from shredded_paths(field.type, (*before, field.name))
    elif typed is not None and not pa.types.is_list(typed):
        yield before, typed


def change(buffer: NDArray[np.uint8], choices: Choices) -> None:
    how, at = choices.below(8), choices.below(len(buffer))
    if how < 2:
        buffer[at] ^= 1 << choices.below(8)
    elif how == 2:
        buffer[at] = choices.number()
    elif how == 3:
        buffer[at] = int(buffer[at]) + choices.below(9) - 4 & 255
    elif how < 6 and len(buffer) >= 4:  # an offset, size or count
        at -= at % 4 if how == 4 else 0
        at = min(at, len(buffer) - 4)
        near = int.from_bytes(buffer[at : at + 4].tobytes(), "little")
        number = near + choices.below(17) - 8 if choices.below(2) else ODD[choices.below(len(ODD))]
        buffer[at : at + 4] = np.frombuffer((number & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)
    else:
        piece = choices.pick(choices.pick(held_columns()).buffers)
        start = choices.below(len(piece))
        size = min(1 + choices.below(16), len(piece) - start, len(buffer) - at)
        buffer[at : at + size] = piece[start : start + size].copy()


def decisions() -> list[bytes]:
    held_columns()  # not in the time and memory of the first input
    rng = random.Random(12)
    return [rng.randbytes(64) for _ in range(500)]


@fuzz(recipes=decisions, longest=96, examples=100)
def test_variant_buffers(data: bytes) -> None:
    """Whatever the buffers have: a text is JSON, and what is at a path is what it has there."""
    choices = Choices(data)
    held = choices.pick(held_columns())
    parts, target = choices.pick(held.paths), choices.pick(TARGETS)
    is_shredded = choices.below(8) == 0 and len(held.shredded) > 0
    if is_shredded:
        parts, target = choices.pick(held.shredded)
    before: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []
    try:
        for _ in range(1 + choices.below(3)):
            buffer = choices.pick(held.buffers)
            before.append((buffer, buffer.copy()))
            change(buffer, choices)
        compare(held, VariantPath(parts), target, is_shredded)
    finally:
        for buffer, copied in reversed(before):
            buffer[:] = copied


def compare(held: Held, path: VariantPath, target: pa.DataType, is_shredded: bool) -> None:
    documents, texts = read(held.reader, []), read(held.reader, path.steps)
    try:
        cast = cast_all(held.reader, path, target)
    except MalformedVariantError:
        assert documents is None, "a value is malformed, and its text is not"
        return
    if documents is not None:
        assert texts is not None, "a path is malformed, and the whole is not"
        for i, (document, text) in enumerate(zip(documents, texts, strict=True)):
            there, part = at(parsed(document), path.parts), parsed(text)
            assert there == part, (document, text)
            if cast is None or there is None:
                assert cast is None or cast[i] is None, (document, cast[i])
            elif isinstance(there, dict | list):
                assert cast[i] == (text if pa.types.is_string(target) else None), (document, cast[i])
            elif isinstance(there, bool) and pa.types.is_boolean(target):
                assert cast[i] == there
            elif pa.types.is_int64(target) and isinstance(there, tuple) and there[1].lstrip("-").isdecimal():
                number = int(there[1])
                assert cast[i] == (number if -(1 << 63) <= number < 1 << 63 else None), (document, cast[i])
    if is_shredded and cast is not None:
        try:
            column = renew(held.column)
            column.validate(full=True)
        except pa.ArrowInvalid:  # as no reader makes it
            return
        array = extract(column, path, target, try_cast=True)
        array.validate(full=True)
        assert repr(plain_values(array)) == repr(cast), path


def read(reader: VariantReader, steps: list[bytes | int]) -> list[str | None] | None:
    """Return the texts at a path; None if a row is malformed."""
    try:
        valid, ends, text = reader.to_json(steps)
    except MalformedVariantError:
        return None
    return split(valid, ends.tolist(), bytes(text))


def split(valid: NDArray[np.uint8], ends: list[int], text: bytes) -> list[str | None]:
    flags = np.unpackbits(valid, bitorder="little").tolist()
    return [text[ends[i] : ends[i + 1]].decode() if flags[i] else None for i in range(len(ends) - 1)]


def cast_all(reader: VariantReader, path: VariantPath, target: pa.DataType) -> list[Any] | None:
    """Return the values at a path as `plain_values` does; None if there is no cast of one, or it needs a session."""
    described = describe_leaf(target)
    assert described is not None
    kind, width, scale = described
    width = 1 if kind == "boolean" else width
    precision = target.precision if kind == "decimal" else 0
    try:
        valid, ends, values = reader.extract(
            path.steps, (TYPES[kind], width * 8, precision, scale, width, str(target)), True
        )
    except VariantCastError:
        return None
    if kind == "string":
        return split(valid, ends.tolist(), bytes(values))
    data = bytes(values)
    starts = ends.tolist() if kind == "binary" else range(0, width * (ROWS + 1), width)
    found = [data[starts[i] : starts[i + 1]] for i in range(ROWS)]
    flags = np.unpackbits(valid, bitorder="little").tolist()
    return [to_plain(one, kind) if flag else None for one, flag in zip(found, flags, strict=False)]


def plain_values(array: pa.Array) -> list[Any]:
    described = describe_leaf(array.type)
    assert described is not None
    kind, width, _ = described
    if kind in ("boolean", "string", "binary"):
        return list(array.to_pylist())
    data = array.buffers()[1].to_pybytes()[array.offset * width :]
    found = [to_plain(data[i * width : (i + 1) * width], kind) for i in range(len(array))]
    return [one if flag.as_py() else None for one, flag in zip(found, array.is_valid(), strict=True)]


def to_plain(data: bytes, kind: str) -> object:
    """Return a value as Python has it; those of which equal ones have different bytes, as such, and else the bytes."""
    if kind == "boolean":
        return bool(data[0])
    if kind == "integer":
        return int.from_bytes(data, "little", signed=True)
    if kind in ("double", "float"):
        return struct.unpack("<d" if kind == "double" else "<f", data)[0]
    return data
