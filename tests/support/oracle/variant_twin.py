"""Slow, obviously right twins for Variants: the JSON text of a document, and what is at a path in it."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
import struct
import uuid
from typing import Any

import numpy as np

from support.writers.variant_columns import NULL, Primitive

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def json_of(document: Any) -> str:
    """JSON as Spark writes it; fields in the order of their names' UTF-16."""
    if isinstance(document, dict):
        names = sorted(document, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{quoted(name)}:{json_of(document[name])}" for name in names) + "}"
    if isinstance(document, list):
        return "[" + ",".join(map(json_of, document)) + "]"
    if isinstance(document, str):
        return quoted(document)
    kind, value = document.kind, document.value
    if kind == "binary":
        return f'"{base64.b64encode(value).decode()}"'
    if kind.startswith(("date", "time", "uuid")) or (kind in ("double", "float") and not math.isfinite(value)):
        return f'"{plain(document)}"'
    return plain(document)


def quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04X}" if c < " " else c) for c in text) + '"'


def plain(primitive: Primitive) -> str:
    kind, value = primitive.kind, primitive.value
    if value is None:
        return kind
    if kind.startswith("int"):
        return str(value)
    if kind.startswith("decimal"):
        number = decimal.Decimal(value[0]).scaleb(-value[1], decimal.Context(prec=50))
        text = f"{number:f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text) if number else "0"
    if kind in ("double", "float"):
        return java_text(value, kind == "float")
    if kind == "date":
        return date_text(value)
    if kind == "uuid":
        return str(uuid.UUID(bytes=value))
    per_second = 10**9 if kind.endswith("nanos") else 10**6
    days, rest = (0, value) if kind == "time" else divmod(value, 86_400 * per_second)
    second, fraction = divmod(rest, per_second)
    text = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    if fraction:
        text += "." + f"{fraction:0{len(str(per_second)) - 1}}".rstrip("0")
    if kind == "time":
        return text
    return f"{date_text(days)} {text}" + ("" if "ntz" in kind else "+00:00")


def date_text(days: int) -> str:
    """Days since 1970 in the Gregorian calendar, which repeats after 400 years of 146,097 days."""
    cycles, day = divmod(days + 719_162, 146_097)
    date = dt.date.fromordinal(day + 1)
    year = date.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


def java_text(number: float, narrow: bool = False) -> str:
    """A number as Java from 19 on writes it: the digits are those of Python, but one is written as two."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if math.copysign(1, number) < 0 else ""
    if number == 0:
        return f"{sign}0.0"
    _, digits, exponent = decimal.Decimal(shortest(abs(number), narrow)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    if -3 < point <= 7:
        text = text.ljust(point, "0") if point > 0 else "0" * (1 - point) + text
        head = max(point, 1)
        return f"{sign}{text[:head]}.{text[head:] or '0'}"
    return f"{sign}{text[0]}.{text[1:] or '0'}E{point - 1}"


def shortest(number: float, narrow: bool) -> str:
    text = np.format_float_scientific(np.float32(number)) if narrow else repr(number)
    if len(text.partition("e")[0].replace(".", "").strip("0")) == 1:  # the closest of two digits
        two = f"{number:.1e}"
        same = struct.pack("<f", float(two)) == struct.pack("<f", number) if narrow else float(two) == number
        return two if same else text
    return text


def parsed(text: str | None) -> Any:
    """A JSON text for comparison: numbers stay texts, fields have no order but may not be there twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    if text is None:
        return None
    keep = lambda number: ("number", number)  # noqa: E731
    return json.loads(text, parse_float=keep, parse_int=keep, object_pairs_hook=unique)


def at(document: Any, parts: tuple[str | int, ...]) -> Any:
    """What is at a path; None if nothing is."""
    for part in parts:
        if isinstance(part, str) and isinstance(document, dict):
            document = document.get(part)
        elif isinstance(part, int) and isinstance(document, list):
            document = document[part] if part < len(document) else None
        else:
            return None
    return document


def paths_of(document: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """All paths to something."""
    results = [before]
    if isinstance(document, dict):
        for name, value in document.items():
            results += paths_of(value, (*before, name))
    elif isinstance(document, list):
        for position, value in enumerate(document):
            results += paths_of(value, (*before, position))
    return results


def is_null(document: Any) -> bool:
    return document is None or document == NULL


def same_floats(text: str, other: str) -> bool:
    """Whether texts differ in nothing but digits of floating-point numbers: Java before 19 writes more than needed."""
    number = re.compile(r"-?\d+\.\d+(?:E-?\d+)?")
    if number.sub("#", text) != number.sub("#", other):
        return False
    pairs = zip(map(float, number.findall(text)), map(float, number.findall(other)), strict=True)
    return all(a == b or (math.isclose(a, b, rel_tol=1e-6) and narrowed(a) == narrowed(b)) for a, b in pairs)


def narrowed(number: float) -> bytes:
    return struct.pack("<f", number)
