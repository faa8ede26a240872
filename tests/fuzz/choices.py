"""An input read as a row of decisions: which case, which field, which odd number.

Where every file that the bytes of an input could be would be refused at its first byte, the input is a recipe instead:
it says what is done to a good file. When the bytes are over, every decision is the first of its choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ODD = (
    0, 1, -1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 1000, 4096, 65_535, 65_536, 10**6,
    2**24, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -2, -8, -32, -128, -(2**15),
    -(2**31), -(2**31) - 1, -(2**32), -(2**62), -(2**63),
)  # fmt: skip


class Choices:
    """Decisions by the bytes of an input."""

    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def byte(self) -> int:
        at, self._at = self._at, self._at + 1
        return self._data[at] if at < len(self._data) else 0

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if count <= 256:
            return self.byte() % max(count, 1)
        return (self.byte() << 16 | self.byte() << 8 | self.byte()) % count

    def pick(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def odd_number(self, near: int = 0) -> int:
        """A number that is often at fault, one beside `near`, or any of up to eight bytes."""
        how = self.byte()
        if how < 120:
            return ODD[how % len(ODD)]
        if how < 200:
            return near + (how - 160)
        return int.from_bytes(self.take(1 + how % 8), "little", signed=True)

    def take(self, count: int) -> bytes:
        """The next bytes; fewer at the end."""
        at, self._at = self._at, self._at + count
        return self._data[at : at + count]

    @property
    def rest(self) -> bytes:
        return self.take(len(self._data))

    def __bool__(self) -> bool:
        return self._at < len(self._data)


def damaged(data: bytes, choices: Choices, most: int = 3) -> bytes:
    """Bytes of which a few are others, missing, or there twice."""
    for _ in range(1 + choices.below(most)):
        if not data:
            return data
        how, at = choices.below(6), choices.below(len(data))
        if how == 0:
            data = data[:at] + bytes([data[at] ^ 1 << choices.below(8)]) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + bytes([choices.byte()]) + data[at + 1 :]
        elif how == 2:
            data = data[:at]
        elif how == 3:
            data = data[:at] + data[at + 1 + choices.below(40) :]
        elif how == 4:
            data = data[:at] + choices.take(1 + choices.below(8)) + data[at:]
        else:
            length = 1 + choices.below(64)
            data = data[:at] + data[at : at + length] + data[at:]
    return data
