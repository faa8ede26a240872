"""Documents, how Variants of them are shredded, and conditions on what they have at the paths of an index."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa

from support.writers.shredded_variants import MISSING, Shredding

KEYS = [
    "v:a.b::STRING",
    "v:a.n::BIGINT",
    "v:a.n::double",
    "v:a.n::decimal(10, 2)",
    "variant_get(v, '$.t[0]', 'string')",
    "v:t::string",
    "v:a::string",
    'v:"s.t"::int',
    "v:d::date",
    "v:d::timestamp_ntz",
]
SHREDDINGS: list[Shredding] = [
    None,
    {"a": {"b": pa.string(), "n": pa.int64()}, "t": [pa.string()], "s.t": pa.int32(), "d": pa.date32()},
    {"a": {"b": pa.int64(), "n": pa.float64()}, "t": [None], "d": pa.timestamp("us")},
    {"a": {"n": pa.int8()}, "s.t": pa.string(), "t": [{"x": pa.string()}]},
    {"a": pa.string(), "t": [[pa.int64()]]},
    pa.string(),
]
DAY = dt.date(2020, 1, 1)


def random_place(rng: random.Random, number: int) -> Any:
    """Return a value of any kind; those of one number are often equal after a cast."""
    return rng.choice(
        [
            number,
            str(number),
            f"x{number}",
            number + 0.5,
            float(number),
            number * 10**12,
            None,
            True,
            [number],
            {"c": number},
            MISSING,
        ]
    )


def drop_missing(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not MISSING}


def random_document(rng: random.Random, number: int) -> object:
    if rng.random() < 0.08:
        return rng.choice([MISSING, None, f"x{number}", [number], number])
    day = DAY + dt.timedelta(number)
    usual = rng.random() < 0.6
    inner = drop_missing(
        {
            "b": f"x{number}" if usual else random_place(rng, number),
            "n": number if usual else random_place(rng, number),
            "more": random_place(rng, number),
        }
    )
    document = {
        "a": inner if rng.random() < 0.9 else random_place(rng, number),
        "t": [f"x{number}", number, {"x": f"x{number}"}][rng.randrange(3) :],
        "s.t": rng.choice([number, str(number), MISSING]),
        "d": rng.choice([day, dt.datetime.combine(day, dt.time(5)), str(day), MISSING]),
    }
    fields = list(drop_missing(document).items())
    rng.shuffle(fields)
    return dict(fields)


def random_condition(rng: random.Random, rows: int) -> str:
    number = rng.choice([100 * rng.randrange(len(SHREDDINGS)) + rng.randrange(24), rng.randrange(rows)])
    get = rng.choice(["try_variant_get", "try_variant_get", "variant_get"])
    path, target, literal = rng.choice(
        [
            ("$.a.b", "string", f"'x{number}'"),
            ("$.a.b", "string", f"'{number}'"),
            ("$.a.n", "bigint", f"{number}"),
            ("$.a.n", "bigint", f"{number * 10**12}"),
            ("$.a.n", "double", f"{number}.5"),
            ("$.a.n", "double", f"{number}"),
            ("$.a.n", "decimal(10,2)", f"{number}.50"),
            ("$.t[0]", "string", f"'x{number}'"),
            ("$.t[0]", "string", f"'{number}'"),
            ("$.t[0]", "string", f"""'{{"x":"x{number}"}}'"""),
            ("$.t", "string", f"""'[{{"x":"x{number}"}}]'"""),
            ("$.a", "string", f"'{number}'"),
            ("$['s.t']", "int", f"{number}"),
            ("$.d", "date", f"DATE '{DAY + dt.timedelta(number)}'"),
            ("$.d", "timestamp_ntz", f"TIMESTAMP_NTZ '{DAY + dt.timedelta(number)} 05:00:00'"),
        ]
    )
    quoted = path.replace("'", "''")
    leaf = f"{get}(v, '{quoted}', '{target}') = {literal}"
    return rng.choice(
        [
            leaf,
            f"{get}(v, '{quoted}', '{target}') IN ({literal}, {literal})",
            f"{leaf} AND k > {number // 2}",
            f"({leaf} OR try_variant_get(v, '$.a.n', 'bigint') = {number + 1})",
            f"{leaf} OR k = 3",
            f"NOT ({leaf}) AND try_variant_get(v, '$.a.b', 'string') = 'x{number}'",
        ]
    )
