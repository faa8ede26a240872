"""Passes over a whole page give what decoding its numbers one by one gives; what a page lacks is an error."""

import random
import struct

import numpy as np
import pytest
from support.oracle.oracle import varint
from support.stored_pages import make_column, scan_page

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata.page_scan import locate_byte_arrays, measure_byte_arrays


def encode(numbers: list[int], width: int, rng: random.Random) -> bytes:
    """Runs of either kind, as they come; the last one is padded."""
    out, position = b"", 0
    while position < len(numbers):
        alike = position
        while alike < len(numbers) and numbers[alike] == numbers[position]:
            alike += 1
        if alike - position > rng.choice([1, 8]):
            out += varint(alike - position << 1) + numbers[position].to_bytes((width + 7) // 8, "little")
            position = alike
            continue
        groups = rng.randint(1, 40)
        part = numbers[position : position + 8 * groups]
        groups = -(-len(part) // 8)
        bits = sum(number << (width * i) for i, number in enumerate(part))
        out += varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")
        position += len(part)
    return out


def draw(rng: random.Random, most: int, count: int) -> list[int]:
    numbers: list[int] = []
    while len(numbers) < count:
        numbers += [rng.randint(0, most)] * rng.choice([1, 1, 1, 30])
    return numbers[:count]


def count_present(definition: bytes, most: int, count: int) -> int | None:
    return scan_page(make_column([0], most), (count, count), b"", definition)[0]


def test_counts_of_levels() -> None:
    rng = random.Random(1)
    for most in (1, 2, 3, 4, 7, 255):
        for count in (1, 7, 8, 63, 64, 65, 1000, 5000):
            levels = draw(rng, most, count)
            data = encode(levels, most.bit_length(), rng)
            assert count_present(data, most, count) == levels.count(most)
            assert count_present(data + b"\xff", most, count) == levels.count(most)  # nobody reads on
            if count > 300:
                with pytest.raises(MalformedFooterError):
                    count_present(data[: len(data) // 2], most, count)
    with pytest.raises(MalformedFooterError, match="higher than the schema"):
        count_present(encode([2, 3], 2, rng), 2, 2)
    with pytest.raises(MalformedFooterError, match="higher than the schema"):
        count_present(varint(5 << 1) + b"\x03", 2, 5)
    with pytest.raises(MalformedFooterError, match="cut off"):  # readers disagree about a last run without its padding
        count_present(b"\x05\xff", 1, 8)
    with pytest.raises(MalformedFooterError, match="are missing"):
        scan_page(make_column([0], 1), (1, 1), b"", encode([1], 1, rng), missing=(1, 0))


def test_counts_of_lists() -> None:
    """Lists in lists: at least 2 for an element of the outer one, 4 for one of the inner one, 5 for a value."""
    rng = random.Random(2)
    column = make_column([0, 2, 4], 5)
    for _ in range(50):
        depths, levels = [], []
        for _ in range(rng.choice([3, 200, 1500])):
            outer = rng.randint(0, 3)
            begun = 0
            for _ in range(outer):
                inner = rng.randint(0, 3)
                for i in range(inner):
                    depths.append(2 if i else begun)
                    levels.append(rng.choice([4, 5]))
                if not inner:
                    depths.append(begun)
                    levels.append(rng.choice([2, 3]))
                begun = 1
            if not outer:
                depths.append(0)
                levels.append(rng.choice([0, 1]))
        first, second, num_rows = encode(depths, 2, rng), encode(levels, 3, rng), depths.count(0)
        assert scan_page(column, (len(levels), num_rows), first, second)[0] == levels.count(5)
        for wrong in (num_rows - 1, num_rows + 1):
            with pytest.raises(MalformedFooterError, match="rows"):
                scan_page(column, (len(levels), wrong), first, second)


def test_lists_that_contradict_themselves() -> None:
    rng, column = random.Random(3), make_column([0, 2, 4], 5)
    assert scan_page(column, (1, 1), b"\x02\x00", b"\x02\x05") == (1, None)
    for depths, levels in (
        ([1, 0], [5, 5]),  # the first page begins within a row
        ([0, 1], [1, 5]),  # an empty list goes on
        *(([0, 2], [5, 3]), ([0, 2], [3, 5])),  # an element that is none
        *(([0, 3], [5, 5]), ([0, 1], [5, 6])),
        ([0] * 1500 + [0, 1], [5] * 1500 + [1, 5]),
    ):
        counts = len(depths), depths.count(0)
        with pytest.raises(MalformedFooterError, match=r"goes on|higher than"):
            scan_page(column, counts, encode(depths, 2, rng), encode(levels, 3, rng))


def test_used_entries() -> None:

    def mark_used(data: bytes, width: int, count: int, num_entries: int) -> list[int]:
        used = scan_page(make_column([0], 0, 1), (count, count), b"", b"", bytes([width]) + data, bytes(num_entries))[1]
        assert used is not None
        return np.flatnonzero(used).tolist()

    rng = random.Random(4)
    for width in range(1, 33):
        most = min((1 << width) - 1, 5000)
        for count in (1, 8, 9, 1000):
            numbers = draw(rng, rng.randint(0, most), count)
            assert mark_used(encode(numbers, width, rng), width, count, most + 1) == sorted(set(numbers))
            if max(numbers):
                with pytest.raises(MalformedFooterError, match="not in the dictionary"):
                    mark_used(encode(numbers, width, rng), width, count, max(numbers))
    assert mark_used(varint(100 << 1), 0, 100, 1) == [0]  # of one entry, numbers have no bits
    for data, width in ((b"\x03", 0), (b"", 1), (varint(99 << 1) + b"\x00", 1), (b"", 33), (b"\x03\xff", 9)):
        with pytest.raises(MalformedFooterError):
            mark_used(data, width, 100, 8)


def test_byte_arrays() -> None:
    rng = random.Random(5)
    for lengths in ([], [0], [7] * 300, [rng.choice([0, 1, 5, 5, 5, 300]) for _ in range(300)]):
        data = b"".join(struct.pack("<I", length) + rng.randbytes(length) for length in lengths)
        expected = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64) + 4)])
        assert locate_byte_arrays(data, len(lengths)).tolist() == expected.tolist()
        for wrong in (data + b"\0", data[:-1]):
            if wrong != data:
                with pytest.raises(MalformedFooterError):
                    locate_byte_arrays(wrong, len(lengths))
        for count in {len(lengths) - 1, len(lengths) + 1} - {-1}:
            with pytest.raises(MalformedFooterError):
                locate_byte_arrays(data, count)
    for length in (2, 1 << 31, (1 << 32) - 1):
        with pytest.raises(MalformedFooterError, match="cut off"):
            locate_byte_arrays(struct.pack("<I", length) + b"a", 1)


def test_byte_arrays_of_one_length() -> None:
    rng = random.Random(6)
    for length in (0, 1, 4, 5, 300):
        for count in (1, 2, 3, 100):
            data = b"".join(struct.pack("<I", length) + rng.randbytes(length) for _ in range(count))
            width = 4 + length
            assert measure_byte_arrays(data, count) == width
            # Other numbers of values, or of bytes.
            for wrong in (-1, 0, count - 1, count + 1, 1 << 62):
                assert measure_byte_arrays(data, wrong) == 0
            assert measure_byte_arrays(data[:-1], count) == 0
            assert measure_byte_arrays(data + b"\0", count) == 0
            # One of another length, by any bit of any prefix: it is for `locate_byte_arrays` to judge.
            for number in (0, count // 2, count - 1):
                other = bytearray(data)
                other[number * width + rng.randrange(4)] ^= 1 << rng.randrange(8)
                assert measure_byte_arrays(bytes(other), count) == 0


def test_byte_arrays_whose_lengths_lie() -> None:
    for data, count in (
        (b"", 0),
        (b"", 1),
        (b"\0\0\0", 1),
        (b"\x01\0\0\0", 1),
        (b"\xff\xff\xff\xff" + b"a" * 8, 1),
        (b"\xfc\xff\xff\xff" * 2, 1 << 32),
        # As many bytes as four values of the first one's length take, but the second one is longer.
        (b"\x02\0\0\0ab" + b"\x08\0\0\0abcdefgh" + b"\x02\0\0\0ab", 4),
    ):
        assert measure_byte_arrays(data, count) == 0, data
