"""Test that rows of any Arrow type are taken as Python would take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parquet_bloom.util.arrow_values import has_kernels, keep, take, widen

TEXTS = pa.array(["a", "a text of more than twelve bytes", None, "", "a"], pa.string_view())
OFFSETS = pa.array([0, 1, 1, 3, 5], pa.int32())

ARRAYS: dict[str, pa.Array] = {
    "string_view": TEXTS,
    "binary_view": TEXTS.cast(pa.binary_view()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0, 1], pa.int8()), TEXTS.slice(0, 2)),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), pa.array(["a", None, "b"])),
    "runs of views": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int16()), TEXTS.slice(1, 3)),
    "extension": pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "t", "v"), TEXTS),
    "list": pa.ListArray.from_arrays(OFFSETS, TEXTS),
    "large list": pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), TEXTS),
    "list view": pa.ListViewArray.from_arrays(OFFSETS.slice(0, 4), pa.array([1, 0, 2, 2], pa.int32()), TEXTS),
    "fixed-size list": pa.FixedSizeListArray.from_arrays(pa.concat_arrays([TEXTS, TEXTS]), 2),
    "map": pa.MapArray.from_arrays(OFFSETS, pa.array([*"abcde"], pa.string_view()), TEXTS),
    "struct": pa.StructArray.from_arrays(
        [TEXTS, pa.array(range(5))], ["s", "n"], mask=pa.array([False, True, False, False, False])
    ),
    "null": pa.nulls(5),
    "half float": pa.array(np.arange(5, dtype=np.float16)),
    "duration": pa.array([1, None, 3, 4, 5], pa.duration("ns")),
    "interval": pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
    "decimal32": pa.array([1, None, 3], pa.decimal32(5, 2)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None, b"b" * 16], pa.binary(16))),
}
ARRAYS["struct of extensions"] = pa.StructArray.from_arrays([ARRAYS["extension"]], ["e"])
ARRAYS["list of structs"] = pa.ListArray.from_arrays(OFFSETS, ARRAYS["struct"])


@pytest.mark.parametrize("name", ARRAYS)
def test_rows_of_any_type_are_taken(name: str) -> None:
    array = ARRAYS[name]
    chunked = pa.chunked_array([array, array.slice(0, 0), array.slice(1, 2)])
    data: list[Any] = [array, array.slice(1), array.slice(0, 0), chunked, pa.chunked_array([], array.type)]
    data += [pa.table({"n": pa.array(range(len(chunked))), "x": chunked}), pa.table({"x": array}).to_batches()[0]]
    rng = np.random.default_rng(36)
    for one in data:
        values, count = one.to_pylist(), len(one)
        rows = rng.integers(0, count, 7) if count else np.empty(0, np.int64)
        taken = take(one, rows)
        assert type(taken) is type(one)
        assert taken.to_pylist() == [values[row] for row in rows]
        mask = rng.random(count) < 0.5
        kept = keep(one, pa.array(mask, mask=rng.random(count) < 0.2))
        assert keep(one, pa.chunked_array([pa.array(mask)])).to_pylist() == [
            value for value, is_kept in zip(values, mask, strict=True) if is_kept
        ]
        for result in (taken, kept):
            result.validate(full=True)
            if isinstance(one, pa.Array | pa.ChunkedArray):
                assert result.type == one.type
            else:
                assert result.schema == one.schema
    wide = widen(pa.table({"x": array}))
    assert wide["x"].to_pylist() == array.to_pylist()
    assert has_kernels(wide.schema.field("x").type) or "run" in name or "extension" in name or name == "list view"
