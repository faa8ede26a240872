"""Random documents for Variants, values that casts treat in odd ways, and schemas to shred them to."""

from __future__ import annotations

import decimal
import random
import struct
from typing import Any

import pyarrow as pa

from support.writers.variant_columns import LEAVES, Primitive

NAMES = ["a", "b", "c", "a b", "é", "", "😀", '"q"', "a.b", "it's", "z" * 70, *(f"k{i}" for i in range(40))]
_NUMBERS = [0, 1, 10, 127, 128, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 86_399, 9_223_372_036_854, 9_223_372_036_855]
_DOUBLES = [
    0.0,
    -0.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    2.0**63,
    -(2.0**63),
    2.0**31,
    2147483647.5,
    -2147483648.5,
]
_DOUBLES += [
    127.9,
    -128.9,
    128.0,
    32767.99,
    1e308,
    5e-324,
    0.5,
    9.5,
    0.005,
    1.005,
    1e15,
    1e16,
    1e17,
    9223372036854.775807,
]
_TEXTS = [
    "true",
    "F",
    "yes",
    "N",
    "1",
    "on",
    "NaN",
    "nan",
    "-NaN",
    "inf",
    "+Inf",
    "-Infinity",
    "2020",
    "2020-01",
    "T12:30",
    "12:30",
]
_TEXTS += [
    "-2020-01-01",
    "02020-1-1",
    "+294247-01-10",
    "294247-01-10T04:00:54.775807Z",
    "2020-01-01T",
    "2020-01-01 abc",
    "2020-02-30",
]
_TEXTS += [
    "2020-01-01 12:30",
    "5881580-07-11",
    "5881580-07-12",
    "-5877641-06-23",
    "0000-12-31 1:2:3",
    "1999999-01-01",
    "0x1.8p1",
    "1d",
]
_TEXTS += [
    "1e400",
    "1e-400",
    ".5",
    "5.",
    ".",
    "1e",
    "1e+5",
    "1_0",
    "1e2147483647",
    "1e99999999999",
    "4.9e-324",
    "1" * 39 + "e-10",
]
_TEXTS += ["9" * 38 + ".5", "0." + "0" * 37 + "5", "1." + "3" * 50, "-9223372036854775808", "9223372036854775808"]
_ZONES = [
    "",
    "",
    "Z",
    "+01:00",
    "-08:30",
    " UTC",
    "UTC+1",
    "GMT+01:30",
    "+1:2",
    "+19:00",
    "+0100",
    "UT",
    "z",
    "+01:00:30",
    "+1",
]


def draw_integer(rng: random.Random, bits: int) -> int:
    value = rng.getrandbits(rng.randint(1, bits)) if rng.random() < 0.8 else rng.choice(_NUMBERS)
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, rng.choice((value, -value))))


def draw_decimal(rng: random.Random) -> Primitive:
    kind, digits = rng.choice([("decimal4", 9), ("decimal8", 18), ("decimal16", 38)])
    unscaled = rng.choice((1, -1)) * rng.randrange(10 ** rng.randint(1, digits))
    if rng.random() < 0.3:
        unscaled = rng.choice([10**digits - 1, 0, 10 ** (digits - 1), unscaled // 1000 * 100])
    return Primitive(kind, (unscaled, rng.randint(0, digits)))


def draw_double(rng: random.Random) -> float:
    how = rng.randrange(4)
    if how == 0:
        return float(struct.unpack("<d", rng.randbytes(8))[0])
    if how == 1:
        return round(rng.uniform(-1000, 1000), rng.randint(0, 4))
    return rng.choice(_DOUBLES) if how == 2 else float(draw_integer(rng, 64) * rng.choice([1, 0.5, 0.001]))


def draw_text(rng: random.Random) -> str:
    how = rng.randrange(8)
    if how == 0:
        text = str(draw_integer(rng, 64))
    elif how == 1:
        text = repr(draw_double(rng))
    elif how == 2:
        unscaled, scale = draw_decimal(rng).value
        text = str(decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=50)))
    elif how == 3:
        text = f"{rng.randint(0, 10000):04}-{rng.randint(0, 13):02}-{rng.randint(0, 32):02}"
    elif how == 4:
        day = f"{rng.randint(1, 2100):04}-{rng.randint(1, 12)}-{rng.randint(1, 28)}"
        time = f"{rng.randint(0, 24):02}:{rng.randint(0, 60):02}:{rng.randint(0, 60):02}"
        text = day + rng.choice(" T") + time + rng.choice(["", ".1", ".123456", ".1234567", "."]) + rng.choice(_ZONES)
    elif how == 5:
        return "".join(rng.choice('abc éß漢😀"\\\n\t\x01/') for _ in range(rng.randint(0, 90)))
    else:
        text = rng.choice(_TEXTS)
    if rng.random() < 0.3:
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(" \t\x00\x7f+-.eEdDxZ:0N\u00a0é") + text[at + rng.randint(0, 1) :]
    return text


def draw_scalar(rng: random.Random) -> Any:
    how = rng.randrange(14)
    if how < 2:
        bits = rng.choice((8, 16, 32, 64))
        return Primitive(f"int{bits}", draw_integer(rng, bits))
    if how == 2:
        return draw_decimal(rng)
    if how == 3:
        return Primitive("double", draw_double(rng))
    if how == 4:
        return Primitive("float", float(struct.unpack("<f", rng.randbytes(4))[0]) if rng.random() < 0.5 else 1.5)
    if how == 5:
        return Primitive(rng.choice(("true", "false", "null")))
    if how == 6:
        return Primitive("date", rng.choice((draw_integer(rng, 32), rng.randint(-800_000, 800_000))))
    if how == 7:
        kind = rng.choice(("timestamp", "timestamp_ntz"))
        return Primitive(kind, rng.choice((draw_integer(rng, 64), rng.randint(-(10**15), 10**15))))
    if how == 8:
        return Primitive("binary", rng.choice((rng.randbytes(rng.randint(0, 20)), draw_text(rng).encode())))
    return draw_text(rng)


def draw_document(rng: random.Random, depth: int = 0) -> Any:
    how = rng.random()
    if depth > 3 or how < 0.2 + 0.2 * depth:
        return draw_scalar(rng)
    if how < 0.5:
        return [draw_document(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 5)))]
    return {name: draw_document(rng, depth + 1) for name in rng.sample(NAMES, rng.choice((0, 1, 2, 4, 8, 40)))}


def draw_json(rng: random.Random, depth: int = 0) -> Any:
    """A document of Python's own types, as JSON has them."""
    how = rng.random()
    if depth > 3 or how < 0.4:
        return rng.choice([None, True, False, 0, -5, 2**40, 0.5, -1e300, "", "x", "é😀", "12", 'say "a"\n'])
    if how < 0.6:
        return [draw_json(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {name: draw_json(rng, depth + 1) for name in rng.sample(["a", "b", "c d", "é", "a.b"], rng.randint(0, 4))}


def draw_odd_scalar(rng: random.Random) -> Primitive:
    """Of the types that Spark has no values of."""
    how = rng.randrange(4)
    if how == 0:
        return Primitive("time", rng.randrange(86_400_000_000))
    if how == 1:
        return Primitive("uuid", rng.randbytes(16))
    return Primitive("timestamp_nanos" if how == 2 else "timestamp_ntz_nanos", draw_integer(rng, 64))


def draw_schema(document: Any, rng: random.Random, depth: int = 0) -> pa.DataType | None:
    """A schema to shred to, that often fits the document; None for none."""
    if isinstance(document, dict) and depth < 5:
        names = [name for name in document if rng.random() < 0.5] + rng.sample(NAMES, rng.randint(0, 2))
        fields = {name: draw_schema(document.get(name), rng, depth + 1) for name in names}
        # A struct without fields cannot be stored; neither can a field without a type be told from one of null.
        typed = {name: kind for name, kind in fields.items() if kind is not None} or {"a": pa.int64()}
        return pa.struct(list(typed.items()))
    if isinstance(document, list) and depth < 5:
        item = draw_schema(rng.choice(document), rng, depth + 1) if document else None
        return pa.list_(item or pa.string())
    if isinstance(document, str):
        return pa.string()
    if isinstance(document, Primitive) and rng.random() < 0.9:
        if document.kind in ("true", "false"):
            return pa.bool_()
        if document.kind.startswith("decimal"):
            precision = {"decimal4": 9, "decimal8": 18, "decimal16": 38}[document.kind]
            return pa.decimal128(precision, document.value[1])
        return LEAVES.get(document.kind)
    return None if rng.random() < 0.3 else rng.choice([pa.int64(), pa.string(), pa.float64(), pa.decimal128(9, 2)])
