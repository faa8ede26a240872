"""Numbers and byte arrays of a page, one by one, are those that are found by decoding all; broken ones are refused."""

import random
import struct
from itertools import pairwise

import numpy as np
import pytest

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata.page_values import (
    find_equal,
    find_values,
    split_byte_arrays,
    take_byte_arrays,
    take_fixed,
    take_hybrid,
)


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encode(numbers, width, rng):
    """Runs of either kind, as they come."""
    out, position = b"", 0
    while position < len(numbers):
        alike = position
        while alike < len(numbers) and numbers[alike] == numbers[position]:
            alike += 1
        if alike - position > rng.choice([1, 8]):
            out += varint(alike - position << 1) + int(numbers[position]).to_bytes((width + 7) // 8, "little")
            position = alike
            continue
        groups = rng.randint(1, 4)
        part = [int(number) for number in numbers[position : position + 8 * groups]]
        bits = sum(number << (width * i) for i, number in enumerate(part))
        out += varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")
        position += len(part)
        if len(part) < 8 * groups:
            break
    return out


def draw(rng, width, count):
    numbers = [rng.randrange(1 << width) for _ in range(count)]
    for _ in range(rng.randint(0, 3)):
        start = rng.randrange(count)
        end = min(count, start + rng.randrange(60))
        numbers[start:end] = [numbers[start]] * (end - start)
    return numbers


def some(rng, count):
    return np.array(sorted(rng.choices(range(count), k=rng.randint(1, 12))), np.int64)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32])
def test_numbers(width) -> None:
    rng = random.Random(width)
    for _ in range(100):
        numbers = draw(rng, width, rng.randint(1, 300))
        data, expected = encode(numbers, width, rng), some(rng, len(numbers))
        assert take_hybrid(data, width, expected).tolist() == [numbers[i] for i in expected]
    assert take_hybrid(b"\x06", 0, np.arange(3)).tolist() == [0, 0, 0]
    for data in (b"", b"\x04", b"\x03"):  # no run, one of two numbers, a packed one
        with pytest.raises(MalformedFooterError):
            take_hybrid(data, 0, np.arange(3))
    assert take_hybrid(b"", width, np.arange(0)).tolist() == []


def test_a_last_run_without_its_padding() -> None:
    data = bytes([2 << 1 | 1, 0b10101010])  # two groups of eight bits, and the bytes of one
    assert take_hybrid(data, 1, np.arange(8)).tolist() == [0, 1] * 4
    with pytest.raises(MalformedFooterError):
        take_hybrid(data, 1, np.array([8]))


def test_levels() -> None:
    rng = random.Random(5)
    for _ in range(500):
        levels = draw(rng, 1, rng.randint(1, 400))
        rows = some(rng, len(levels))
        has_value, numbers = find_values(encode(levels, 1, rng), len(levels), rows)
        assert has_value.tolist() == [levels[row] == 1 for row in rows]
        assert numbers.tolist() == [sum(levels[:row]) for row in rows if levels[row]]


@pytest.mark.parametrize(
    ("data", "width", "expected"),
    [
        (b"", 1, [0]),
        (b"\x02", 8, [0]),  # a run without its number
        (b"\x00\x01", 1, [0]),  # of no numbers
        (b"\x80", 1, [0]),
        (b"\x80\x80\x80\x80\x80\x80\x01", 1, [0]),
        (b"\x02\x02", 1, [0]),  # a number of two bits
        (b"\x02\x01", 1, [1]),
        (b"\x02\x01", 33, [0]),
        (b"\x02\x01", -1, [0]),
        (b"\x08\x01", 1, [2, 1]),
        (b"\x08\x01", 1, [-1]),
        (b"\x08\x01", 1, [1 << 40]),
    ],
)
def test_numbers_that_are_not_there(data, width, expected) -> None:
    with pytest.raises(MalformedFooterError):
        take_hybrid(data, width, np.array(expected, np.int64))
    if width == 1:
        with pytest.raises(MalformedFooterError):
            find_values(data, 4, np.array(expected, np.int64))


def plain(values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def test_byte_arrays() -> None:
    rng = random.Random(6)
    for _ in range(300):
        values = [rng.randbytes(rng.choice([0, 1, 5, 300])) for _ in range(rng.randint(1, 40))]
        expected = rng.choices(range(len(values)), k=rng.randint(0, 10))  # in any order, some twice
        assert take_byte_arrays(plain(values), np.array(expected, np.int64)) == plain(values[i] for i in expected)
    for broken, number in [
        (plain([b"abc"]), 1),
        (plain([b"abc"]), -1),
        (plain([b"abc"])[:-1], 0),
        (b"\x03\x00\x00", 0),
        (b"\xff\xff\xff\xffabc", 0),
        (b"", 0),
        (plain([b"a"]), 1 << 60),
    ]:
        with pytest.raises(MalformedFooterError):
            take_byte_arrays(broken, np.array([number], np.int64))


def test_values_of_one_width() -> None:
    data = bytes(range(50))  # and a part of a value that is missing
    assert take_fixed(data, 8, np.array([5, 0, 5], np.int64)) == data[40:48] + data[:8] + data[40:48]
    assert take_fixed(b"", 8, np.array([], np.int64)) == b""
    for width, number in [(8, 6), (8, -1), (8, 1 << 60), (0, 0), (-1, 0), (64, 0)]:
        with pytest.raises(MalformedFooterError):
            take_fixed(data, width, np.array([number], np.int64))


def test_byte_arrays_as_arrow_has_them() -> None:
    rng = random.Random(8)
    for _ in range(300):
        valid = [rng.random() < 0.7 for _ in range(rng.randrange(20))]
        values = [rng.randbytes(rng.choice([0, 1, 5, 300])) for here in valid if here]
        offsets, data = split_byte_arrays(plain(values), np.array(valid, np.uint8))
        ends, rest = offsets.tolist(), iter(values)
        received = [data[begin:end].tobytes() for begin, end in pairwise(ends)]
        assert received == [next(rest) if here else b"" for here in valid]
    for broken, valid in [(b"", [1]), (b"\1\0\0", [1]), (b"\2\0\0\0a", [1]), (plain([b"a"]), [0]), (b"\xff" * 9, [1])]:
        with pytest.raises(MalformedFooterError):
            split_byte_arrays(broken, np.array(valid, np.uint8))


@pytest.mark.parametrize("width", [0, 1, 4, 16])
def test_values_that_are_one_of_some(width) -> None:
    rng = random.Random(width)
    for _ in range(300):
        kinds = [rng.randbytes(width or rng.randrange(9)) for _ in range(6)]
        values = rng.choices(kinds, k=rng.randint(1, 60))
        data = b"".join(values) if width else plain(values)
        numbers = some(rng, len(values))
        requested = [*dict.fromkeys(rng.sample(kinds, 3)), b"of no value here"]
        positions, which = find_equal(data, width, numbers, requested)
        expected = [(at, requested.index(values[i])) for at, i in enumerate(numbers) if values[i] in requested]
        assert list(zip(positions.tolist(), which.tolist(), strict=True)) == expected
        for cut in (data[:-1], b""):
            with pytest.raises(MalformedFooterError):
                find_equal(cut, width, np.array([len(values) - 1]), requested)
        for bad in ([-1], [len(values)], [1 << 60], [1, 0]):
            with pytest.raises(MalformedFooterError):
                find_equal(data, width, np.array(bad), requested)


def test_broken_bytes_end_in_the_named_error_or_in_numbers() -> None:
    rng = random.Random(7)
    refused = 0
    for _ in range(5000):
        width, count = rng.choice([1, 1, 5, 12, 32]), rng.randint(1, 60)
        data = bytearray(encode(draw(rng, width, count), width, rng))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            assert all(0 <= number < 1 << width for number in take_hybrid(bytes(data), width, some(rng, count)))
            find_values(bytes(data), count, some(rng, count))
            take_byte_arrays(bytes(data), some(rng, count))
            find_equal(bytes(data), rng.choice([0, 3]), some(rng, count), [b"a"])
        except MalformedFooterError:
            refused += 1
    assert refused > 1000
