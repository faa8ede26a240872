"""ORC's runs of unsigned integers, slow and plain: decoded, and written in each way that there is.

Source: ORC specification v1, "Run Length Encoding".
"""

from __future__ import annotations

from collections.abc import Sequence

from support.writers.orc_files import varint

WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]
_WORD = (1 << 64) - 1


class Refused(Exception):
    """The bytes are not such a stream."""


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise Refused
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def varint(self) -> int:
        count = shift = 0
        while True:
            byte = self.number(1)
            count |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return count & _WORD

    def packed(self, count: int, width: int) -> list[int]:
        size = -(-count * width // 8)
        bits = int.from_bytes(self.take(size), "big") >> (size * 8 - count * width)
        return [bits >> (width * (count - 1 - i)) & ((1 << width) - 1) for i in range(count)]


def lengths_in(data: bytes, second: bool) -> list[int]:
    """The numbers of a stream, modulo 2^64."""
    stream, results = _Bytes(data), []
    while stream.at < len(data):
        results += _second(stream) if second else _first(stream)
    return [number & _WORD for number in results]


def _first(stream: _Bytes) -> list[int]:
    head = stream.number(1)
    if head >= 128:
        return [stream.varint() for _ in range(256 - head)]
    step = int.from_bytes(stream.take(1), "big", signed=True)
    base = stream.varint()
    return [base + step * i for i in range(head + 3)]


def _second(stream: _Bytes) -> list[int]:
    head = stream.number(1)
    if head < 64:
        return [stream.number((head >> 3) + 1)] * ((head & 7) + 3)
    code, count = head >> 1 & 31, (head & 1) * 256 + stream.number(1) + 1
    if head < 128:
        return stream.packed(count, WIDTHS[code])
    if head < 192:
        return _patched(stream, WIDTHS[code], count)
    base, step = stream.varint(), stream.varint()
    step = step // 2 if step % 2 == 0 else -(step // 2) - 1
    changes = [step] * (count - 1)
    if code and count > 2:
        changes[1:] = [-change if step < 0 else change for change in stream.packed(count - 2, WIDTHS[code])]
    result = [base]
    for change in changes:
        result.append(result[-1] + change)
    return result


def _patched(stream: _Bytes, width: int, count: int) -> list[int]:
    third, fourth = stream.number(1), stream.number(1)
    base_bytes, patch_width, gap_width, patches = (third >> 5) + 1, WIDTHS[third & 31], (fourth >> 5) + 1, fourth & 31
    if not patches or patch_width + gap_width > 64:
        raise Refused
    base = stream.number(base_bytes)
    sign = 1 << (8 * base_bytes - 1)
    base = sign - base if base >= sign else base
    result = stream.packed(count, width)
    position = 0
    for entry in stream.packed(patches, next(one for one in WIDTHS if one >= patch_width + gap_width)):
        gap, patch = entry >> patch_width, entry & ((1 << patch_width) - 1)
        position += gap
        if position < count and (gap, patch) != (255, 0):
            result[position] |= patch << width & _WORD
    return [number + base for number in result]


# ------------------------------------------------------------------------------------------------ written


def _pack(numbers: Sequence[int], width: int) -> bytes:
    bits = 0
    for number in numbers:
        bits = bits << width | number
    size = -(-len(numbers) * width // 8)
    return (bits << (size * 8 - len(numbers) * width)).to_bytes(size, "big")


def _head(kind: int, width: int, count: int) -> bytes:
    code = WIDTHS.index(width) if width else 0
    return bytes([kind << 6 | code << 1 | (count - 1) >> 8, (count - 1) & 255])


def first_run(base: int, step: int, count: int) -> bytes:
    return bytes([count - 3, step & 255]) + varint(base)


def first_literals(numbers: Sequence[int]) -> bytes:
    return bytes([256 - len(numbers)]) + b"".join(map(varint, numbers))


def short_repeat(number: int, size: int, count: int) -> bytes:
    return bytes([(size - 1) << 3 | count - 3]) + number.to_bytes(size, "big")


def direct(numbers: Sequence[int], width: int) -> bytes:
    return _head(1, width, len(numbers)) + _pack(numbers, width)


def patched(
    numbers: Sequence[int], width: int, base: int, base_bytes: int, patch_width: int, gap_width: int,
    patches: Sequence[tuple[int, int]],
) -> bytes:  # fmt: skip
    """`patches` are (gap, high bits); `numbers` what is packed."""
    stored = base if base >= 0 else 1 << (8 * base_bytes - 1) | -base
    head = bytes([base_bytes - 1 << 5 | WIDTHS.index(patch_width), gap_width - 1 << 5 | len(patches)])
    least = next(one for one in WIDTHS if one >= patch_width + gap_width)
    entries = _pack([gap << patch_width | patch for gap, patch in patches], least)
    return _head(2, width, len(numbers)) + head + stored.to_bytes(base_bytes, "big") + _pack(numbers, width) + entries


def delta(base: int, step: int, changes: Sequence[int], width: int) -> bytes:
    """`changes` are what follows the first one, without sign; with width 0 there are as many, all of them `step`."""
    zigzag = step * 2 if step >= 0 else -step * 2 - 1
    packed = _pack(changes, width) if width else b""
    return _head(3, width, len(changes) + 2) + varint(base) + varint(zigzag) + packed
