"""Random SQL queries of a lake, in DuckDB's words and in DataFusion's."""

from __future__ import annotations

import math
import random
from typing import Any

from .dataset_lakes import KINDS, PARTITIONS, Lake

_NUMBERS = ("i", "l", "u", "f", "d")
_TEXTS = ("s", "c")
_QUERIES = (
    *["SELECT row FROM {t} WHERE {c}"] * 6,
    *["SELECT * FROM {t} WHERE {c}"] * 2,
    "SELECT {some} FROM {t} WHERE {c}",
    *["SELECT count(*) FROM {t} WHERE {c}"] * 2,
    "SELECT count(*), count({name}), min(row), max(row) FROM {t} WHERE {c}",
    "SELECT {name}, count(*) AS n, max(row) AS m FROM {t} WHERE {c} GROUP BY {name}",
    "SELECT row FROM {t} WHERE {c} ORDER BY row DESC LIMIT 3",
    "SELECT row, {name} FROM {t} WHERE {c} ORDER BY {name}, row LIMIT 5",
    "SELECT DISTINCT {name} FROM {t} WHERE {c}",
    "WITH few AS (SELECT * FROM {t} WHERE {c}) SELECT row FROM few WHERE row >= (SELECT min(row) + 1 FROM few)",
    "SELECT a.row FROM {t} AS a JOIN (SELECT row AS other FROM {t} WHERE {c}) AS o ON a.row = o.other + 1",
    "SELECT a.row, o.n FROM {t} AS a JOIN (SELECT {name} AS k, row AS n FROM {t} WHERE {c}) AS o ON a.{name} = o.k",
    "SELECT row FROM {t} WHERE row IN (SELECT row + 1 FROM {t} WHERE {c})",
    "SELECT row FROM {t} WHERE {c} UNION ALL SELECT row FROM {t} WHERE {c2}",
    "SELECT row FROM (SELECT * FROM {t} WHERE {c}) AS x WHERE {c2}",
    "SELECT row FROM {t} AS a WHERE NOT EXISTS (SELECT 1 FROM {t} AS o WHERE o.row = a.row + 1) AND ({c})",
    "SELECT row, CASE WHEN {c} THEN 1 WHEN NOT ({c}) THEN 0 END AS x FROM {t}",
    "SELECT row, sum(row) OVER (ORDER BY row) AS x FROM {t} WHERE {c}",
)


class SqlDrawing:
    """Draws queries.

    Parameters
    ----------
    rng : decides.
    lake : that is queried.
    dialect : "duckdb" or "datafusion".
    """

    def __init__(self, rng: random.Random, lake: Lake, dialect: str):
        self.rng, self.lake, self.dialect = rng, lake, dialect
        # The kind of every column and leaf, as SQL refers to it.
        self.kinds = dict(lake.kinds)
        self.pools = {name: lake.values[name] for name in lake.kinds}
        for struct, members in lake.structs.items():
            for leaf, kind in members.items():
                name = f"{struct}.{leaf}" if dialect == "duckdb" else f"{struct}['{leaf}']"
                self.kinds[name], self.pools[name] = kind, lake.values[f"{struct}.{leaf}"]
        self.kinds["row"], self.pools["row"] = "i", list(range(0, 150, 7))
        if "p" in lake.ours.schema.names:
            of_p = lake.ours.schema.field("p").type
            [(kind, values)] = [(one, pool) for one, pool in PARTITIONS.values() if one == of_p]
            self.kinds["p"], self.pools["p"] = {"int64": "i", "string": "s", "date32[day]": "day"}[str(kind)], values

    def query(self) -> str:
        """Draw a query of the table `{t}`."""
        top = [name for name in self.kinds if "." not in name and "[" not in name]
        words = {"c": self.condition(), "c2": self.condition(), "name": self.rng.choice(top), "t": "{t}"}
        some = self.rng.sample([*self.kinds], self.rng.randint(1, min(3, len(self.kinds))))
        words["some"] = ", ".join(["row AS r", *(f"{name} AS x{i}" for i, name in enumerate(some))])
        return self.rng.choice(_QUERIES).format(**words)

    def condition(self, depth: int = 0) -> str:
        rng = self.rng
        if depth == 3 or rng.random() < 0.4:
            return self._leaf()
        parts = [f"({self.condition(depth + 1)})" for _ in range(rng.choice([2, 2, 3]))]
        joined = rng.choice([" AND ", " OR "]).join(parts)
        return f"NOT ({joined})" if rng.random() < 0.2 else joined

    def _leaf(self) -> str:
        rng = self.rng
        if self.lake.lists and rng.random() < 0.1:
            [(name, kind)] = self.lake.lists.items()
            has = "list_contains" if self.dialect == "duckdb" else "array_has"
            return f"{has}({name}, {self._format(kind, rng.choice(self.lake.values[name]))})"
        name = rng.choice(list(self.kinds))
        kind = self.kinds[name]
        choice = rng.random()
        if choice < 0.08:
            return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
        if choice < 0.22:
            values = [self.literal(name) for _ in range(rng.choice([1, 2, 3, 5, 30]))]
            return f"{name} {rng.choice(['', '', 'NOT '])}IN ({', '.join(values)})"
        if choice < 0.32:
            return f"{name} {rng.choice(['', '', 'NOT '])}BETWEEN {self.literal(name)} AND {self.literal(name)}"
        if choice < 0.37:
            return f"{name} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {self.literal(name)}"
        if choice < 0.5:
            return self._function(name, kind)
        if choice < 0.56:
            alike = [one for one, other in self.kinds.items() if one != name and _alike(kind, other)]
            if alike:
                return f"{name} {self._operator()} {rng.choice(alike)}"
        if kind == "flag" and choice < 0.8:
            return rng.choice([name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE"])
        operands = [name, self.literal(name)]
        if rng.random() < 0.25:
            operands.reverse()
        return f"{operands[0]} {self._operator()} {operands[1]}"

    def _operator(self) -> str:
        return self.rng.choice(["=", "=", "=", "=", "<>", "<", "<=", ">", ">="])

    def _function(self, name: str, kind: str) -> str:
        rng = self.rng
        literal = self.literal(name)
        choices = [
            f"COALESCE({name}, {literal}) = {literal}",
            f"CASE WHEN {name} IS NULL THEN true ELSE {name} = {literal} END",
        ]
        choices += [f"CAST({name} AS VARCHAR) = CAST({literal} AS VARCHAR)", f"NULLIF({name}, {literal}) IS NULL"]
        if kind in _NUMBERS:
            choices += [
                f"{name} + 1 = {literal}",
                f"CAST({name} AS DOUBLE) = {literal}",
                f"CAST({name} AS SMALLINT) < 3",
            ]
            choices += [
                f"{name} * 2 > {literal}",
                f"abs({name}) = {literal}",
                f"CAST({name} AS REAL) = 0.1",
                f"-{name} < 1",
            ]
            choices += [f"{name} = CAST({literal} AS DOUBLE)", f"{name} = CAST({literal} AS REAL)", f"{name} = '3'"]
            choices += [f"CAST({name} AS DECIMAL(20,3)) = {literal}", f"{name} IN (1, 2.5, 3)", f"{name} = 1.50"]
        if kind == "f":
            choices += [
                f"isnan({name})",
                f"NOT isnan({name})",
                f"{name} = CAST('nan' AS DOUBLE)",
                f"{name} > 0.0 IS NULL",
            ]
            choices += [f"{name} < CAST('nan' AS DOUBLE)", f"NOT ({name} >= 1.5)", f"{name} <> CAST('nan' AS DOUBLE)"]
        if kind in _TEXTS:
            pattern = rng.choice(["a%", "%a", "%a%", "_", "a", "", "%", "x\\_y", "ä%"])
            choices += [
                f"{name} {rng.choice(['', 'NOT '])}LIKE '{pattern}'",
                f"{name} ILIKE '{pattern}'",
                f"upper({name}) = 'A'",
            ]
            choices += [
                f"length({name}) = 1",
                f"{name} || 'a' = 'aa'",
                f"starts_with({name}, 'a')",
                f"lower({name}) IN ('a', 'z')",
            ]
            choices += [f"substr({name}, 1, 1) = 'a'", f"{name} ~ '^a'", f"{name} > ''"]
        if kind == "day":
            choices += [f"{name} = TIMESTAMP '2020-01-01 00:00:00'", f"{name} < TIMESTAMP '2020-01-02 12:00:00'"]
            choices += [
                f"CAST({name} AS TIMESTAMP) >= TIMESTAMP '2020-01-01 00:00:00'",
                f"date_part('day', {name}) = 1",
            ]
        if kind in ("ts", "tz", "berlin"):
            choices += [f"CAST({name} AS DATE) = DATE '2020-01-01'", f"{name} >= DATE '2020-01-01'"]
            choices += [f"{name} < TIMESTAMP '2020-01-01 12:00:00.123456'", f"date_part('hour', {name}) = 3"]
            choices += [
                f"date_trunc('day', {name}) = TIMESTAMP '2020-01-01 00:00:00'",
                f"{name} = '2020-01-01 00:00:00'",
            ]
        return rng.choice(choices)

    def literal(self, name: str) -> str:
        rng = self.rng
        if rng.random() < 0.04:
            return "NULL"
        kind, pool = self.kinds[name], self.pools[name]
        value = rng.choice(pool) if rng.random() < 0.75 else KINDS[kind].draw(rng)
        return self._format(kind, value)

    def _format(self, kind: str, value: Any) -> str:
        rng, duck = self.rng, self.dialect == "duckdb"
        if kind in ("i", "l", "u"):
            text = str(value)
            choice = rng.random()
            if choice < 0.06:
                return f"{text}.0" if choice < 0.03 else f"{text}.5"
            if choice < 0.1:
                return f"CAST({text} AS BIGINT)" if abs(value) < 2**63 else text
            return str(value + rng.choice([-1, 1])) if choice < 0.16 else text
        if kind == "f":
            if not math.isfinite(value):
                return f"CAST('{value}' AS DOUBLE)"
            text = f"{value!r}" + ("e0" if duck and "e" not in repr(value) else "")
            return f"CAST({text} AS REAL)" if rng.random() < 0.15 else text
        if kind == "d":
            return rng.choice([str(value), str(value), f"{value}0", f"CAST({value} AS DECIMAL(18,4))"])
        if kind in _TEXTS:
            return "'" + value.replace("'", "''") + "'"
        if kind in ("b", "fb"):
            return "'" + "".join(f"\\x{one:02X}" for one in value) + "'::BLOB" if duck else f"X'{value.hex()}'"
        if kind == "flag":
            return str(value).lower()
        if kind == "day":
            return f"DATE '{value}'"
        if kind == "tm":
            return f"TIME '{value}'"
        if kind == "id":
            return f"UUID '{value}'" if duck else f"X'{value.hex}'"
        text = value.isoformat(sep=" ")
        if kind == "ts":
            return rng.choice([f"TIMESTAMP '{text}'", f"'{text}'", f"CAST('{text}' AS TIMESTAMP)"])
        if duck:
            return rng.choice([f"TIMESTAMPTZ '{text}'", f"TIMESTAMP '{value.replace(tzinfo=None)}'"])
        return f"""arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, Some("UTC"))')"""


def _alike(one: str, other: str) -> bool:
    return any(
        one in group and other in group for group in (_NUMBERS, _TEXTS, ("day", "ts", "tz", "berlin"), ("b", "fb"))
    )
