"""Text of floating-point numbers: the digits are Python's, in Java's notation."""

import math
import random
import struct

from support.oracle.variant_twin import java_text

from parquet_bloom.core.decode.float_text import format_double, format_float

EDGES = [0.0, -0.0, 1.0, 1e7, 9999999.0, 0.001, 9.99e-4, 5e-324, 2e-323, 1e22, 1e23, 2.0**-44, 1.7976931348623157e308]
EDGES += [2.2250738585072014e-308, 9007199254740993.0, 123456.789, math.inf, -math.inf, math.nan]


def test_doubles() -> None:
    rng = random.Random(1)
    numbers = EDGES + [2.0**exponent for exponent in range(-1074, 1024)]
    numbers += [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(3000)]
    numbers += [round(rng.uniform(-1e6, 1e6), rng.randint(0, 8)) for _ in range(1000)]
    for number in numbers:
        assert format_double(number) == java_text(number)


def test_floats() -> None:
    rng = random.Random(2)
    numbers = [2.0**exponent for exponent in range(-149, 128)] + [1.1, 3e9, 16777217.0, 1e-45, 3.4e38]
    numbers += [struct.unpack("<f", rng.randbytes(4))[0] for _ in range(2000)]
    for number in numbers:
        narrow = struct.unpack("<f", struct.pack("<f", number))[0]
        assert format_float(narrow) == java_text(narrow, narrow=True)


def test_the_notation() -> None:
    texts = {
        0.0: "0.0",
        -1.5: "-1.5",
        1e7: "1.0E7",
        1234567.0: "1234567.0",
        0.001: "0.001",
        1.25e-4: "1.25E-4",
        5e-324: "4.9E-324",
    }
    assert {number: format_double(number) for number in texts} == texts
    assert format_float(struct.unpack("<f", struct.pack("<f", 0.1))[0]) == "0.1"
