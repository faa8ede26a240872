"""Numbers taken off the front of an input, and put there for seeds; and results held to those of a slow twin."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parquet_bloom.errors import MalformedFooterError

compared_every = 1
"""Of so many inputs one is also tried on the slow twin. Campaigns of millions set it, to have more inputs."""

TELLING = np.array(
    [0, 1, 2, 3, 31, 32, 33, 64, 255, 256, 1 << 16, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -1], np.int64
)


def is_compared(data: bytes) -> bool:
    return compared_every == 1 or zlib.crc32(data) % compared_every == 0


class RefusedError(Exception):
    """A twin refuses its bytes."""


def check(data: bytes, ours: Callable[[], Any], twin: Callable[[], Any]) -> None:
    """Hold what the package does with an input to what a slow twin does: the same result, or both refuse it.

    Parameters
    ----------
    twin : returns None, or raises RefusedError, where the bytes are to be refused.
    """
    if not is_compared(data):
        ours()
        return
    try:
        expected = twin()
    except RefusedError:
        expected = None
    try:
        result = ours()
    except MalformedFooterError:
        assert expected is None, f"refused, where {expected} is right"
        raise
    assert result == expected, f"{result}, where {expected} is right"


class Taken:
    """Remaining bytes of an input; missing ones are 0."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        data = self.data[self.at : self.at + count]
        self.at += count
        return data.ljust(count, b"\0")

    def number(self, width: int = 1) -> int:
        return int.from_bytes(self.bytes(width), "little")

    def numbers(self, count: int) -> NDArray[np.int64]:
        return np.frombuffer(self.bytes(8 * count), np.int64).copy()

    def short_numbers(self, count: int) -> NDArray[np.int64]:
        """Numbers of 16 bits; those from 0xFFF0 on stand for some that are at an edge."""
        short = np.frombuffer(self.bytes(2 * count), np.uint16).astype(np.int64)
        return np.where(short >= 0xFFF0, TELLING[short & 15], short)

    def rest(self) -> bytes:
        data = self.data[self.at :]
        self.at = len(self.data)
        return data


def short(*numbers: int) -> bytes:
    """As `short_numbers` takes them."""
    return np.array(numbers, np.uint16).tobytes()
