"""Targets of a buffer are those of a list, however many, and of any width."""

from __future__ import annotations

import numpy as np
import pytest

from parquet_bloom.metadata.page_match import Targets


def make_buffer(values: list[bytes], first: int = 0) -> tuple[bytes, np.ndarray]:
    starts = np.cumsum([first, *map(len, values)], dtype=np.int64)
    return bytes(first) + b"".join(values), starts


@pytest.mark.ci
@pytest.mark.parametrize("width", [1, 4, 8, 12, 0])
@pytest.mark.parametrize("count", [0, 1, 2, 100, 20_000])
def test_values_are_those_of_the_set(width: int, count: int) -> None:
    rng = np.random.default_rng(width + count)

    def draw() -> bytes:
        return rng.bytes(width or int(rng.integers(0, 12)))

    values = [*dict.fromkeys(draw() for _ in range(count))]
    others = [draw() for _ in range(5000)] + values[:100] + [value[:-1] + b"\xff" for value in values[:1] if value]
    for targets in (Targets(values), Targets.of_buffer(*make_buffer(values, first=5))):
        assert [targets[number] for number in range(len(targets))] == values
        wanted = set(values)
        expected = [value in wanted for value in others]
        assert targets.contain_slices(*make_slices(others)).tolist() == expected
        if width:
            data = np.frombuffer(b"".join(others), np.uint8)
            assert targets.contain_fixed(data, width, len(others)).tolist() == expected
        assert targets.longest == max(map(len, values), default=-1)


def make_slices(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    data, starts = make_buffer(values)
    return np.frombuffer(data, np.uint8), starts


def test_what_is_outside_of_a_buffer_is_refused() -> None:
    data = np.zeros(16, np.uint8)
    targets = Targets([b"\0"])
    for starts in ([0, 17], [-1, 3], [4, 2], [0, 8, 4]):
        with pytest.raises(ValueError, match="not inside"):
            Targets.of_buffer(data, np.array(starts, np.int64))
        with pytest.raises(ValueError, match="not inside"):
            targets.contain_slices(data, np.array(starts, np.int64))
    with pytest.raises(ValueError, match="not inside"):
        targets.contain_fixed(data, 4, 5)
    with pytest.raises(ValueError, match="not inside"):
        Targets.of_buffer(data, np.empty(0, np.int64))
    for number in (-1, 1):
        with pytest.raises(IndexError):
            targets[number]
