"""Inputs made of good ones by chance: what the tests use, which have no fuzzer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

# Bytes that begin or end something in one of the formats: no and all bits, the ends of a varint, types, list headers.
TELLING = bytes(
    [0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 0x15, 0x18, 0x1C, 0x19, 0x3F, 0x40, 0x7F, 0x80, 0xF9, 0xFC, 0xFE, 0xFF]
)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Numbers at the edge of what a width holds, in the ways that formats write them.
_EDGES = [e for bits in (7, 8, 15, 16, 24, 31, 32, 63, 64) for e in ((1 << bits) - 1, 1 << bits) if e < 1 << 64]
NUMBERS = [
    *(_varint(edge) for edge in _EDGES),
    *(min(edge, (1 << 32) - 1).to_bytes(4, "little") for edge in _EDGES),
    *(edge.to_bytes(8, "little") for edge in _EDGES),
    b"\xff" * 10,
    b"\x80" * 9 + b"\x01",
]

Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def _flip(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)


def _replace(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    at = int(rng.random() * len(data))
    data[at] = TELLING[int(rng.random() * len(TELLING))] if rng.random() < 0.5 else int(rng.random() * 256)


def _count(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    at = int(rng.random() * len(data))
    data[at] = (data[at] + int(rng.random() * 9) - 4) & 255


def _insert(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    at = int(rng.random() * (len(data) + 1))
    data[at:at] = rng.randbytes(1 + int(rng.random() * 4))


def _delete(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    at = int(rng.random() * len(data))
    del data[at : at + 1 + int(rng.random() * 8)]


def _cut(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    del data[int(rng.random() * len(data)) :]


def _copy(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    at, to = int(rng.random() * len(data)), int(rng.random() * (len(data) + 1))
    piece = data[at : at + 1 + int(rng.random() * 32)]
    if rng.random() < 0.5:
        data[to : to + len(piece)] = piece
    else:
        data[to:to] = piece


def _number(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    at = int(rng.random() * len(data))
    number = NUMBERS[int(rng.random() * len(NUMBERS))]
    data[at : at + (len(number) if rng.random() < 0.7 else 1)] = number


def _splice(rng: random.Random, data: bytearray, good: Sequence[bytes]) -> None:
    other = good[int(rng.random() * len(good))]
    data[int(rng.random() * (len(data) + 1)) :] = other[int(rng.random() * (len(other) + 1)) :]


_CHANGES: list[Change] = [_flip, _replace, _replace, _count, _insert, _delete, _cut, _copy, _number, _number, _splice]


def mutate(rng: random.Random, good: Sequence[bytes], longest: int) -> bytes:
    """One of the inputs with a few changes."""
    data = bytearray(good[int(rng.random() * len(good))])
    while True:
        if data:
            _CHANGES[int(rng.random() * len(_CHANGES))](rng, data, good)
        else:
            data += rng.randbytes(1 + int(rng.random() * 16))
        if rng.random() < 0.4:
            return bytes(data[:longest])
