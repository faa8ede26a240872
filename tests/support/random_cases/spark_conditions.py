"""Random conditions on a lake of `spark_lakes`, as Spark's SQL and as lists."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from support.random_cases.spark_lakes import KINDS, Column, Lake

_EPOCH = dt.datetime(1970, 1, 1)
_WIDE = decimal.Context(prec=60)
_COMPARISONS = ["=", "==", "<=>", "<", "<=", ">", ">=", "<>", "!="]
_OFTEN = [30, 5, 8, 3, 3, 3, 3, 3, 2]


@dataclass(frozen=True)
class Condition:
    """Condition of a query.

    Attributes
    ----------
    text : as SQL.
    lists : the same as pyarrow's lists; None where they cannot say it.
    """

    text: str
    lists: Any = None


@dataclass(frozen=True)
class _Term:
    """Something that can be compared: its SQL, and how literals for it are drawn."""

    sql: str
    kind: str
    pool: list[Any]


@dataclass
class Drawing:
    """Draws conditions.

    Parameters
    ----------
    rng : decides.
    lake : whose columns they are about.
    zone : the session's time zone.
    """

    rng: random.Random
    lake: Lake
    zone: str

    def condition(self) -> Condition:
        if self.rng.random() < 0.15:
            return self._lists()
        return Condition(self._tree(0))

    def _tree(self, depth: int) -> str:
        rng = self.rng
        if rng.random() < 0.06:
            return f"NOT ({self._tree(depth)})"
        if depth == 3 or rng.random() < 0.5:
            return self._leaf()
        word = rng.choice(["AND", "OR"])
        return f" {word} ".join(f"({self._tree(depth + 1)})" for _ in range(rng.randint(2, 3)))

    def _leaf(self) -> str:
        rng = self.rng
        term = self._term()
        choice = rng.random()
        if term.sql.startswith("@"):
            contains = f"array_contains({term.sql[1:]}, {self._literal(term)})"
            return self._odd(term) if choice < 0.2 else contains
        if choice < 0.05:
            return f"{term.sql} IS {rng.choice(['', 'NOT '])}NULL"
        if choice < 0.10:
            return self._odd(term)
        if choice < 0.14:
            not_ = rng.choice(["", "", "NOT "])
            return f"{term.sql} {not_}BETWEEN {self._literal(term)} AND {self._literal(term)}"
        if choice < 0.40:
            count = rng.choice([1, 2, 2, 3, 3, 6, 14])
            alike = rng.random() < 0.7
            values = [self._usual(term) if alike else self._literal(term) for _ in range(count)]
            values += ["NULL"] * (rng.random() < 0.1)
            return f"{term.sql} {rng.choice(['', '', '', '', 'NOT '])}IN ({', '.join(values)})"
        operator = rng.choices(_COMPARISONS, _OFTEN)[0]
        literal = "NULL" if rng.random() < 0.02 else self._literal(term)
        return f"{literal} {operator} {term.sql}" if rng.random() < 0.1 else f"{term.sql} {operator} {literal}"

    # -------------------------------------------------------------------------------------------------- columns

    def _column(self) -> Column:
        return self.rng.choice(self.lake.columns)

    def _spelled(self, name: str) -> str:
        return self.rng.choice([name, name, name, name.upper(), f"`{name}`"])

    def _term(self) -> _Term:
        """A column, a field of one, or a cast or function of one, that is not nested."""
        rng = self.rng
        if self.lake.folders and rng.random() < 0.08:
            return _Term(self._spelled("p"), "folder", [folder for folder in self.lake.folders if folder is not None])
        column = self._column()
        name = self._spelled(column.name)
        if column.kind == "st":
            inner, kind, take = rng.choice(_FIELDS)
            values = [take(value) for value in column.pool if value is not None]
            return _Term(f"{name}{inner}", kind, [value for value in values if value is not None])
        if column.kind in ("li", "ls", "lt"):
            kind = {"li": "i64", "ls": "s", "lt": "ts"}[column.kind]
            values = [item for value in column.pool for item in value or () if item is not None]
            if rng.random() < 0.15:
                return _Term(f"try_element_at({name}, 1)", kind, values)
            return _Term(f"@{name}", kind, values)
        if column.kind == "ma":
            values = [item for value in column.pool for _, item in value or () if item is not None]
            keys = [key for value in column.pool for key, _ in value or ()]
            return _Term(f"{name}[{_text(rng.choice(keys))}]" if keys else f"{name}['k']", "i32", values)
        if column.kind in _CASTS and rng.random() < 0.1:
            name = rng.choice(_CASTS[column.kind]).format(name)
        return _Term(name, column.kind, [value for value in column.pool if value is not None])

    def _odd(self, term: _Term) -> str:
        """Draw a condition that pruning cannot use, or should not."""
        rng = self.rng
        if term.sql.startswith("@"):
            name = term.sql[1:]
            literal = self._usual(term)
            return rng.choice(
                [
                    f"exists({name}, x -> x = {literal})",
                    f"arrays_overlap({name}, array({literal}))",
                    f"size({name}) = {rng.randint(-1, 3)}",
                    f"{name} = array({literal})",
                ]
            )
        literal = self._usual(term)
        forms = [
            f"coalesce({term.sql}, {literal}) = {literal}",
            f"if({term.sql} = {literal}, true, null)",
            f"CASE WHEN {term.sql} = {literal} THEN false ELSE {term.sql} IS NULL END",
            f"({term.sql} = {literal}) IS NOT TRUE",
            f"({term.sql} = {literal}) <=> true",
            f"isnull({term.sql}) OR {term.sql} = {literal}",
            f"nullif({term.sql}, {literal}) IS NULL",
            f"{term.sql} = {term.sql}",
            f"struct({term.sql}, 1) = struct({literal}, 1)",
            f"equal_null({term.sql}, {literal})",
        ]
        if term.kind == "s":
            forms += [
                f"{term.sql} LIKE {_text(str(literal[1:3]).strip(chr(92) + chr(39)) + '%')}",
                f"startswith({term.sql}, 'a')",
                f"{term.sql} COLLATE UTF8_LCASE = {literal}",
                f"rtrim({term.sql}) = {literal}",
            ]
        other = self._column()
        if other.kind == term.kind:
            forms += [f"{term.sql} = {other.name}", f"{term.sql} <=> {other.name}"]
        return rng.choice(forms)

    # ------------------------------------------------------------------------------------------------- literals

    def _value(self, term: _Term) -> Any:
        rng = self.rng
        if term.pool and rng.random() < 0.8:
            value = rng.choice(term.pool)
            return value if rng.random() < 0.92 else _beside(rng, value, term.kind)
        kind = KINDS.get(term.kind)
        if kind is None:
            return rng.choice(["02", "2", "none", "2020-01-01", ""])
        drawn = kind.draw(rng) if rng.random() < 0.7 else rng.choice(kind.always)
        return term.pool[0] if drawn is None and term.pool else drawn

    def _usual(self, term: _Term) -> str:
        return _usual(self._value(term), term.kind)

    def _literal(self, term: _Term) -> str:
        """A literal in any spelling that Spark compares with the type."""
        value = self._value(term)
        if value is None:
            return "NULL"
        forms = _FORMS.get(term.kind, [])
        if self.rng.random() < 0.55 or not forms:
            return _usual(value, term.kind)
        try:
            return self.rng.choice(forms)(value, ZoneInfo(self.zone))
        except (OverflowError, ValueError, decimal.InvalidOperation):
            return _usual(value, term.kind)

    # --------------------------------------------------------------------------------------------------- as lists

    def _lists(self) -> Condition:
        rng = self.rng
        combined = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            combined.append([self._listed() for _ in range(rng.choice([1, 1, 2]))])
        text = " OR ".join("(" + " AND ".join(message for _, message in terms) + ")" for terms in combined)
        lists: Any = [[given for given, _ in terms] for terms in combined]
        return Condition(text, lists[0] if len(lists) == 1 and rng.random() < 0.5 else lists)

    def _listed(self) -> tuple[tuple[str, str, Any], str]:
        rng = self.rng
        columns = [column for column in self.lake.columns if column.kind in _LISTED and any(column.pool)]
        column = rng.choice(columns)
        term = _Term(column.name, column.kind, [value for value in column.pool if value is not None])
        if rng.random() < 0.3:
            values = [self._value(term) for _ in range(rng.randint(1, 8))]
            text = ", ".join(_usual(value, column.kind) for value in values)
            return (column.name, "in", values), f"{column.name} IN ({text})"
        operator = rng.choice(["=", "==", "=", "=", "!=", "<", ">="])
        value = self._value(term)
        return (column.name, operator, value), f"{column.name} {operator} {_usual(value, column.kind)}"


def _beside(rng: random.Random, value: Any, kind: str) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return math.nextafter(value, math.inf) if kind == "f64" else value
    if isinstance(value, str):
        return rng.choice([value + " ", value + "\0", value[:-1], value.upper()])
    if isinstance(value, bytes):
        return value + b"\0"
    try:
        if isinstance(value, dt.datetime):
            return value + dt.timedelta(microseconds=rng.choice([-1, 1, 1000]))
        if isinstance(value, dt.date):
            return value + dt.timedelta(days=1)
        if isinstance(value, decimal.Decimal):
            return _WIDE.add(value, decimal.Decimal((0, (1,), int(value.as_tuple().exponent))))
    except OverflowError:
        return value
    return value + rng.choice([-1, 1])


def _text(value: str) -> str:
    created = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000")
    return f"'{created}'"


def _wall(value: dt.datetime, zone: ZoneInfo) -> str:
    """An instant as the session's clocks show it, roughly: in some years other rules may hold there."""
    return value.astimezone(zone).replace(tzinfo=None).isoformat(" ")


def _usual(value: Any, kind: str) -> str:
    """A literal of the type itself."""
    if value is None:
        return "NULL"
    if kind == "f32":
        return f"CAST('{value!r}' AS FLOAT)"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dt.datetime):
        plain = value.replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMP_LTZ '{plain}+00:00'" if value.tzinfo else f"TIMESTAMP_NTZ '{plain}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}BD" if value >= 0 else f"CAST('{value:f}' AS DECIMAL(38,{-int(value.as_tuple().exponent)}))"
    return f"CAST('{value}' AS BIGINT)" if value == -(1 << 63) else str(value)


_Form = Callable[[Any, ZoneInfo], str]
_INTEGER: list[_Form] = [
    lambda value, _: f"'{value}'",
    lambda value, _: f"{value}.0",
    lambda value, _: f"{value}.5",
    lambda value, _: f"{value}D",
    lambda value, _: f"CAST('{value}' AS BIGINT)",
    lambda value, _: f"CAST('{value}' AS DECIMAL(38,0))",
    lambda value, _: f"try_cast('{value}' AS DECIMAL(20,2))",
    lambda value, _: f"CAST('{value}' AS FLOAT)",
    lambda value, _: f"CAST('{value}' AS STRING)",
    lambda value, _: f"try_add({value >> 1}, {value - (value >> 1)})",
    lambda value, _: str(value + (1 << 64)),
    lambda value, _: f"try_cast('{value}' AS SMALLINT)",
    lambda value, _: f"(SELECT {value}L)" if abs(value) < 1 << 63 else str(value),
]
_FLOAT: list[_Form] = [
    lambda value, _: f"CAST('{value!r}' AS FLOAT)",
    lambda value, _: f"CAST('{value!r}' AS DOUBLE)",
    lambda value, _: f"{round(value)}",
    lambda value, _: f"{decimal.Decimal(value):.3f}BD",
    lambda value, _: f"'{value!r}'",
    lambda value, _: "0",
    lambda value, _: "-0.0D",
    lambda value, _: "0.0",
    lambda value, _: "float('NaN')",
]
_DECIMAL: list[_Form] = [
    lambda value, _: f"{value:f}",
    lambda value, _: f"{int(value)}",
    lambda value, _: f"'{value:f}'",
    lambda value, _: f"{float(value)!r}D",
    lambda value, _: f"try_cast('{value:f}' AS DECIMAL(38,18))",
    lambda value, _: f"try_cast('{value:f}' AS DECIMAL(10,1))",
    lambda value, _: f"CAST('{value:f}' AS FLOAT)",
]
_STRING: list[_Form] = [
    lambda value, _: f"concat({_text(value[:1])}, {_text(value[1:])})",
    lambda value, _: f"CAST({_text(value)} AS BINARY)",
    lambda value, _: f"X'{value.encode().hex()}'",
    lambda value, _: f"CAST({_text(value)} AS VARCHAR(400))",
    lambda value, _: f"upper({_text(value)})",
    lambda value, _: f"{_text(value)} COLLATE UTF8_BINARY",
    lambda value, _: f"(SELECT {_text(value)})",
]
_BINARY: list[_Form] = [
    lambda value, _: _text(value.decode("ascii")) if value.isascii() else f"X'{value.hex()}'",
    lambda value, _: f"unhex('{value.hex()}')",
]
_DAY: list[_Form] = [
    lambda value, _: f"'{value.isoformat()}'",
    lambda value, _: f"TIMESTAMP_NTZ '{value.isoformat()} 00:00:00'",
    lambda value, _: f"TIMESTAMP '{value.isoformat()} 00:00:00'",
    lambda value, _: f"TIMESTAMP '{value.isoformat()} 12:00:00'",
    lambda value, _: f"TIMESTAMP '{value.isoformat()}'",
    lambda value, _: f"date_add(DATE '{value.isoformat()}', 1)",
    lambda value, _: f"CAST('{value.isoformat()}' AS DATE)",
    lambda value, _: f"'{value.isoformat()} 00:00:00'",
]
_STAMP: list[_Form] = [
    lambda value, zone: f"TIMESTAMP '{_wall(value, zone)}'",
    lambda value, zone: f"'{_wall(value, zone)}'",
    lambda value, zone: f"TIMESTAMP_NTZ '{_wall(value, zone)}'",
    lambda value, zone: f"CAST('{_wall(value, zone)}' AS TIMESTAMP)",
    lambda value, zone: f"DATE '{_wall(value, zone)[:10]}'",
    lambda value, zone: f"'{_wall(value, zone)[:10]}'",
    lambda value, _: f"timestamp_micros({(value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)})",
    lambda value, _: f"TIMESTAMP '{_wall(value, ZoneInfo('Asia/Kolkata'))}+05:30'",
    lambda value, _: f"'{_wall(value, ZoneInfo('Asia/Kolkata'))}+05:30'",
]
_CLOCK: list[_Form] = [
    lambda value, _: f"'{value.isoformat(' ')}'",
    lambda value, _: f"TIMESTAMP '{value.isoformat(' ')}'",
    lambda value, _: f"TIMESTAMP '{value.isoformat(' ')}+00:00'",
    lambda value, _: f"DATE '{value.date().isoformat()}'",
    lambda value, _: f"'{value.isoformat(' ')}+01:00'",
    lambda value, _: f"CAST('{value.isoformat(' ')}' AS TIMESTAMP_NTZ)",
]
_FORMS: dict[str, list[_Form]] = {
    **dict.fromkeys(("i8", "i16", "i32", "i64", "nothing"), _INTEGER),
    **dict.fromkeys(("f32", "f64"), _FLOAT),
    **dict.fromkeys(("d9", "d18", "d38"), _DECIMAL),
    "s": _STRING,
    "bin": _BINARY,
    "day": _DAY,
    "ts": _STAMP,
    "ntz": _CLOCK,
}
_WHOLE_CASTS = [
    "CAST({} AS BIGINT)",
    "CAST({} AS DOUBLE)",
    "try_cast({} AS DECIMAL(38,2))",
    "CAST({} AS FLOAT)",
    "CAST({} AS STRING)",
    "try_cast({} AS TINYINT)",
]
_DECIMAL_CASTS = ["try_cast({} AS DECIMAL(38,10))", "CAST({} AS DOUBLE)", "try_cast({} AS DECIMAL(10,1))"]
_CASTS: dict[str, list[str]] = {
    **dict.fromkeys(("i8", "i16", "i32", "i64"), _WHOLE_CASTS),
    "f32": ["CAST({} AS DOUBLE)", "CAST({} AS STRING)"],
    "f64": ["try_cast({} AS FLOAT)", "round({}, 1)"],
    **dict.fromkeys(("d9", "d18"), _DECIMAL_CASTS),
    "s": ["CAST({} AS BINARY)", "upper({})", "trim({})", "CAST({} AS VARCHAR(3))"],
    "bin": ["CAST({} AS STRING)", "substr({}, 1, 3)"],
    "day": ["CAST({} AS TIMESTAMP_NTZ)", "CAST({} AS STRING)", "CAST({} AS TIMESTAMP)"],
    "ts": ["CAST({} AS DATE)", "CAST({} AS TIMESTAMP_NTZ)", "date_trunc('HOUR', {})"],
    "ntz": ["CAST({} AS DATE)", "CAST({} AS TIMESTAMP)"],
}
_LISTED = {"i8", "i16", "i32", "i64", "d9", "d18", "d38", "s", "bin", "day", "ts", "ntz", "f64"}
_FIELDS: list[tuple[str, str, Callable[[Any], Any]]] = [
    (".a", "i64", lambda value: value["a"]),
    (".A", "i64", lambda value: value["a"]),
    (".b.c", "s", lambda value: value["b"] and value["b"]["c"]),
    (".t", "ts", lambda value: value["t"]),
    (".f", "f64", lambda value: value["f"]),
]
