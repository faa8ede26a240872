"""metadata/thrift_compact.pyx over a footer: indexing it, reading its values, and putting filters into it."""

from __future__ import annotations

import numpy as np
from small_footers import seeds as seeds
from taking import is_compared

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import thrift_compact as compact

ALLOWED = (MalformedFooterError,)

POSITION_FIELDS = [name for name in compact.CHUNK_DTYPE.names if name.endswith(("start", "end"))]
VALUES = [
    name
    for name in compact.CHUNK_DTYPE.names
    if name not in POSITION_FIELDS and name not in ("filter_fields", "filter_offset", "filter_length")
]


def run(data: bytes) -> None:
    file, row_groups, chunks = compact.index_footer(data)
    assert file["end"] <= len(data)
    assert row_groups["num_columns"].sum() == len(chunks) <= len(data)
    for chunk in chunks[:8]:
        assert 0 <= chunk["start"] <= len(data)
        for name, kind in (("path_start", compact.LIST), ("statistics_start", compact.STRUCT)):
            if chunk[name] >= 0:
                compact.read_value(data, int(chunk[name]), kind)
        if chunk["meta_start"] >= 0:
            _, end = compact.read_struct(data, int(chunk["meta_start"]))
            assert end == chunk["meta_end"]
    if is_compared(data):
        splice(data, chunks[chunks["meta_start"] >= 0])


def splice(data: bytes, chunks: np.ndarray) -> None:
    """Filters stand where they were put, and all else as before."""
    some = chunks[:: 1 + data[-1] % 3]
    positions = 1 + np.arange(len(some)) * 12345
    positions[1::3] = -1
    spliced = compact.splice_filters(data, some["meta_start"].copy(), some["meta_end"].copy(), positions, positions + 1)
    _, _, after = compact.index_footer(spliced)
    after = after[after["meta_start"] >= 0]
    assert len(after) == len(chunks)
    for name in VALUES:
        assert (after[name] == chunks[name]).all(), name
    changed = after[:: 1 + data[-1] % 3]
    assert (changed["filter_offset"] == positions).all()
    assert (changed["filter_length"] == np.where(positions < 0, -1, positions + 1)).all()
    assert (changed["filter_fields"] == np.where(positions < 0, 0, 2)).all()
    for old, new, location in zip(some[:4], changed[:4], positions, strict=False):
        fields, _ = compact.read_struct(data, int(old["meta_start"]))
        others, _ = compact.read_struct(spliced, int(new["meta_start"]))
        expected = {number: repr(value) for number, value in fields.items() if number not in (14, 15)}
        if location >= 0:
            expected |= {14: repr(int(location)), 15: repr(int(location) + 1)}
        assert {number: repr(value) for number, value in others.items()} == expected
