"""The queries of the benchmark of shapes: for each lake, terms that differ from run to run and are the same for all."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _shapes_lakes import IDS, TAGS, Lake

Term = tuple[str, str, Any]
"""A column, one of = < >= "in" "contains" "contains any", and a value or a list of them; terms are joined by AND."""

ONE, ABSENT, HUNDRED, RANGE, NONE = "one id", "absent id", "100 UUIDs", "id and range", "no filter"
QUERIES = (ONE, ABSENT, HUNDRED, RANGE, NONE)
_LOW = 0.0625  # a fraction of the values of `v`, exact in every notation
_HUNDRED = 100


@dataclass(frozen=True)
class Query:
    """One query: the terms of its condition, its columns (None for all), and its rows where they are known."""

    name: str
    terms: list[Term]
    columns: list[str] | None
    rows: int | None


def make_query(lake: Lake, samples: Sequence[dict[str, Any]], name: str, run: int) -> Query:
    """Return a query of a lake, with other values for each run."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), run])
    key, one = _LOOKUPS.get(lake.content, ("id", _by_id))
    columns = ["id", key, "v"] if key != "id" else ["id", "uuid", "v"]
    every = None if lake.content == "wide" and name in (ONE, ABSENT) else columns
    samples = [row for row in samples if row.get("tags", True)]  # not those whose list is empty
    row = samples[int(rng.integers(len(samples)))]
    if name == NONE:
        group: Term = ("country", "=", "country 05") if lake.content == "dictionary" else ("g", "=", 5)
        return Query(name, [group, ("v", "<", _LOW / (1 + run % 4))], ["id", "v"], None)
    if name == HUNDRED:
        some = [samples[number] for number in rng.choice(len(samples), min(_HUNDRED, len(samples)), replace=False)]
        return Query(
            name, [_many(lake, some)], columns, len(some) if lake.content in ("plain", "payload", "wide") else None
        )
    if name == ABSENT:
        return Query(name, [one(row, rng)], every, 0)
    terms, rows = [one(row, None)], 1 if key == "id" else None
    if name == RANGE:
        terms += [("ts", ">=", row["ts"] - 10_000_000), ("ts", "<", row["ts"] + 10_000_000)]
    return Query(name, terms, every if name == ONE else columns, rows)


def _by_id(row: dict[str, Any], rng: np.random.Generator | None) -> Term:
    return "id", "=", row["id"] if rng is None else int(rng.integers(0, IDS))


def _by_user(row: dict[str, Any], rng: np.random.Generator | None) -> Term:
    return "user", "=", row["user"] if rng is None else _change(row["user"], rng)


def _by_tag(row: dict[str, Any], rng: np.random.Generator | None) -> Term:
    return "tags", "contains", row["tags"][0] if rng is None else int(rng.integers(0, TAGS))


def _change(text: str, rng: np.random.Generator) -> str:
    """Return another text of the same form."""
    digits = rng.integers(0, 16, 12)
    return text[:-12] + "".join(f"{digit:x}" for digit in digits)


def _many(lake: Lake, rows: Sequence[dict[str, Any]]) -> Term:
    if lake.content == "list":
        return "tags", "contains any", [row["tags"][0] for row in rows]
    key = "user" if lake.content == "dictionary" else "uuid"
    return key, "in", [row[key] for row in rows]


_LOOKUPS: dict[str, tuple[str, Callable[[dict[str, Any], np.random.Generator | None], Term]]] = {
    "list": ("tags", _by_tag),
    "dictionary": ("user", _by_user),
}


def to_sql(terms: Sequence[Term], contains: str, contains_any: str, array: str) -> str:
    """Return terms as SQL; `contains` and `contains_any` are an engine's functions of lists, `array` its literal."""
    parts = []
    for column, operator, value in terms:
        if operator == "in":
            parts.append(f"{column} IN ({', '.join(map(_literal, value))})")
        elif operator == "contains":
            parts.append(f"{contains}({column}, {value})")
        elif operator == "contains any":
            parts.append(f"{contains_any}({column}, {array.format(', '.join(map(_literal, value)))})")
        else:
            parts.append(f"{column} {operator} {_literal(value)}")
    return " AND ".join(parts)


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)
