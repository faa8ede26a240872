"""Test the values that commands and the service print."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from parquet_bloom.util.plain_values import plain


def test_short_floats_are_read_back_as_the_same_floats() -> None:
    hard = float.fromhex("0x1.5c87fap-84")  # the double nearest to its shortest digits is nearer to the next float
    bits = np.random.default_rng(36).integers(0, 2**32, 2000, np.uint32).view(np.float32)
    numbers = np.concatenate([np.array([hard, -hard, 0.1, 1e-45, -0.0], np.float32), bits[np.isfinite(bits)]])
    printed = json.loads(json.dumps(plain(pa.array(numbers))))
    assert np.array(printed, np.float64).astype(np.float32).tobytes() == numbers.tobytes()
    assert printed[2] == 0.1
    assert plain(pa.array([None, np.nan, np.inf, -np.inf], pa.float32())) == [None, "NaN", "Infinity", "-Infinity"]
    assert plain(pa.array([np.float16(0.1), None], pa.float16())) == [0.1, None]
