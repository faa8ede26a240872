"""Random queries of a lake for engines: SQL of DuckDB and DataFusion, expressions of pyarrow and of polars."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from parquet_bloom.scan.scan_source import ScanSource
from support.oracle.ranked import Ranked
from support.random_cases.random_lakes import LISTS, Choices, Lake
from support.writers.peers import Kind

_TEXTS = ["", "a", "aa", "b", "Z", "ä", "\U00010000", "a%", "x_y", "O'Neil", "long text of more than twelve bytes"]
_FLOATS = [0.0, -0.0, 1.5, 0.1, math.nan, math.inf, -math.inf, 2.0**53]
_DAY, _MOMENT = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)


def _draw_number(low: int, high: int, *edges: int) -> Callable[[random.Random], int]:
    return lambda rng: rng.choice([rng.randint(max(low, -5), 5), rng.randint(max(low, -120), 120), *edges, low, high])


def _draw_moment(rng: random.Random) -> dt.datetime:
    unit = rng.choice(["hours", "hours", "seconds", "milliseconds", "microseconds"])
    return _MOMENT + dt.timedelta(**{unit: rng.randint(-30, 30)})


def _kind(arrow: pa.DataType, draw: Callable[[random.Random], Any]) -> Kind:
    return Kind(arrow, [None], draw)


# Columns whose values all engines have, often equal ones.
KINDS = {
    "i": _kind(pa.int32(), _draw_number(-(2**31), 2**31 - 1)),
    "l": _kind(pa.int64(), _draw_number(-(2**63), 2**63 - 1, 2**53, 2**53 + 1)),
    "u": _kind(pa.uint64(), _draw_number(0, 2**64 - 1, 2**32 - 1, 2**63)),
    "f": _kind(pa.float64(), lambda rng: rng.choice([*_FLOATS, rng.randint(-3, 3) / 2, rng.random()])),
    "d": _kind(
        pa.decimal128(9, 2), lambda rng: decimal.Decimal(rng.choice([rng.randint(-9, 9), rng.randint(-999, 999)])) / 100
    ),
    "s": _kind(pa.string(), lambda rng: rng.choice([*_TEXTS, str(rng.randint(0, 99))])),
    "c": _kind(pa.dictionary(pa.int32(), pa.string()), lambda rng: rng.choice(_TEXTS[:5])),
    "b": _kind(pa.binary(), lambda rng: rng.choice([b"", b"a", b"\xff\x00", rng.randbytes(2)])),
    "fb": _kind(pa.binary(4), lambda rng: bytes([rng.randint(0, 3)] * 4)),
    "flag": _kind(pa.bool_(), lambda rng: rng.random() < 0.5),
    "day": _kind(pa.date32(), lambda rng: _DAY + dt.timedelta(days=rng.randint(-4, 4))),
    "ts": _kind(pa.timestamp("us"), _draw_moment),
    "tz": _kind(pa.timestamp("us", "UTC"), lambda rng: _draw_moment(rng).replace(tzinfo=dt.UTC)),
    "berlin": _kind(pa.timestamp("us", "Europe/Berlin"), lambda rng: _draw_moment(rng).replace(tzinfo=dt.UTC)),
    "tm": _kind(pa.time64("us"), lambda rng: dt.time(rng.randint(0, 23), rng.choice([0, 30]), 0, rng.choice([0, 7]))),
    "id": _kind(pa.uuid(), lambda rng: uuid.UUID(int=rng.randint(0, 6))),
}
NARROWER = {
    "i": [pa.int64(), pa.int16(), pa.int8(), pa.uint8()],
    "l": [pa.int32()],
    "u": [pa.uint32()],
    "f": [pa.float32()],
    "d": [pa.decimal128(14, 2), pa.decimal128(12, 3), pa.decimal128(25, 2)],
    "s": [pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "b": [pa.large_binary()],
    "ts": [pa.timestamp(unit) for unit in ("ms", "ns", "s")],
    "tz": [pa.timestamp(unit, "UTC") for unit in ("ms", "ns", "s")],
    "tm": [pa.time32("ms")],
}
CHOICES = Choices(("pyarrow",), scale="small", kinds=KINDS, narrower=NARROWER, can_be_damaged=False, carries=False)
NUMBERS, TEXTS, MOMENTS = ("i", "l", "u", "f", "d"), ("s", "c"), ("ts", "tz", "berlin")
_ALIKE = (NUMBERS, TEXTS, ("b", "fb"), ("ts", "day"), ("tz", "berlin"))
_KIND_OF = {"i64": "l", "i32": "i", "str": "s", "date": "day"}  # of folders, structs, and the rows' numbers


@contextmanager
def recording(reports: list[Any]) -> Iterator[None]:
    """Record the plan of each scan."""
    make_plan = ScanSource.plan

    def plan(self: ScanSource, *arguments: Any, **options: Any) -> Any:
        reports.append(make_plan(self, *arguments, **options))
        return reports[-1]

    with mock.patch.object(ScanSource, "plan", plan):
        yield


class _Drawing:
    """Draws conditions on the columns of a lake, and the fields of its struct.

    Attributes
    ----------
    columns : {dotted name: kind}.
    """

    def __init__(self, rng: random.Random, lake: Lake):
        self.rng, self.lake = rng, lake
        self.ranked: dict[str, Ranked] = lake.columns
        self.columns = {name: _KIND_OF.get(one.kind, one.kind) for name, one in lake.columns.items()}
        self.top = [name for name in self.columns if "." not in name]

    def value(self, name: str) -> Any:
        kind, values = self.columns[name], self.ranked[name].values
        return self.rng.choice(values) if values and self.rng.random() < 0.75 else KINDS[kind].draw(self.rng)

    def values(self, name: str) -> list[Any]:
        return [self.value(name) for _ in range(self.rng.choice([0, 1, 2, 5, 30]))]

    def other(self, name: str) -> str:
        """Another column that can be compared with this one, if there is one."""
        kind = self.columns[name]
        alike = [one for one in self.top if any(kind in group and self.columns[one] in group for group in _ALIKE)]
        return self.rng.choice(alike or [name])

    def combine(self, leaf: Callable[[], Any], depth: int = 0) -> Any:
        rng = self.rng
        if depth == 3 or rng.random() < 0.4:
            found = leaf()
        else:
            left, right = (self.combine(leaf, depth + 1) for _ in range(2))
            found = left & right if rng.random() < 0.5 else left | right
        return ~found if rng.random() < 0.2 else found


# ----------------------------------------------------------------------------------------------------------------- SQL

QUERIES = (
    *["SELECT row FROM lake WHERE {c}"] * 6,
    *["SELECT * FROM lake WHERE {c}"] * 2,
    "SELECT row AS r, {name} AS x FROM lake WHERE {c}",
    *["SELECT count(*) FROM lake WHERE {c}"] * 2,
    "SELECT count(*), count({name}), min(row), max(row) FROM lake WHERE {c}",
    "SELECT {name}, count(*) AS n, max(row) AS m FROM lake WHERE {c} GROUP BY {name}",
    "SELECT row FROM lake WHERE {c} ORDER BY row DESC LIMIT 3",
    "SELECT row, {name} FROM lake WHERE {c} ORDER BY {name}, row LIMIT 5",
    "SELECT DISTINCT {name} FROM lake WHERE {c}",
    "WITH few AS (SELECT * FROM lake WHERE {c}) SELECT row FROM few WHERE row >= (SELECT min(row) + 1 FROM few)",
    "SELECT a.row FROM lake AS a JOIN (SELECT row AS other FROM lake WHERE {c}) AS o ON a.row = o.other + 1",
    "SELECT a.row, o.n FROM lake AS a JOIN (SELECT {name} AS k, row AS n FROM lake WHERE {c}) AS o ON a.{name} = o.k",
    "SELECT row FROM lake WHERE row IN (SELECT row + 1 FROM lake WHERE {c})",
    "SELECT row FROM lake WHERE {c} UNION ALL SELECT row FROM lake WHERE {c2}",
    "SELECT row FROM (SELECT * FROM lake WHERE {c}) AS x WHERE {c2}",
    "SELECT row FROM lake AS a WHERE NOT EXISTS (SELECT 1 FROM lake AS o WHERE o.row = a.row + 1) AND ({c})",
    "SELECT row, CASE WHEN {c} THEN 1 WHEN NOT ({c}) THEN 0 END AS x FROM lake",
    "SELECT row, sum(row) OVER (ORDER BY row) AS x FROM lake WHERE {c}",
)
# Conditions on a column {n}, with a literal {l}, that engines hand on in many ways, or not at all.
_FORMS: dict[str, list[str]] = {
    "": [
        "COALESCE({n}, {l}) = {l}",
        "CASE WHEN {n} IS NULL THEN true ELSE {n} = {l} END",
        "CAST({n} AS VARCHAR) = CAST({l} AS VARCHAR)",
        "NULLIF({n}, {l}) IS NULL",
    ],
    "number": [
        *("{n} + 1 = {l}", "CAST({n} AS DOUBLE) = {l}", "CAST({n} AS SMALLINT) < 3", "{n} * 2 > {l}", "-{n} < 1"),
        *("abs({n}) = {l}", "CAST({n} AS REAL) = 0.1", "{n} = CAST({l} AS DOUBLE)", "{n} = CAST({l} AS REAL)"),
        *("{n} = '3'", "CAST({n} AS DECIMAL(20,3)) = {l}", "{n} IN (1, 2.5, 3)", "{n} = 1.50"),
    ],
    "f": [
        *("isnan({n})", "NOT isnan({n})", "{n} = CAST('nan' AS DOUBLE)", "{n} > 0.0 IS NULL", "NOT ({n} >= 1.5)"),
        *("{n} < CAST('nan' AS DOUBLE)", "{n} <> CAST('nan' AS DOUBLE)"),
    ],
    "text": [
        *(f"{{n}} LIKE '{one}'" for one in ("a%", "%a", "%a%", "_", "a", "", "%", "x\\_y", "ä%")),
        *("{n} NOT LIKE 'a%'", "{n} ILIKE 'A%'", "upper({n}) = 'A'", "length({n}) = 1", "{n} || 'a' = 'aa'"),
        *("starts_with({n}, 'a')", "lower({n}) IN ('a', 'z')", "substr({n}, 1, 1) = 'a'", "{n} ~ '^a'", "{n} > ''"),
    ],
    "day": [
        *("{n} = TIMESTAMP '2020-01-01 00:00:00'", "{n} < TIMESTAMP '2020-01-02 12:00:00'"),
        *("CAST({n} AS TIMESTAMP) >= TIMESTAMP '2020-01-01 00:00:00'", "date_part('day', {n}) = 1"),
    ],
    "moment": [
        *("CAST({n} AS DATE) = DATE '2020-01-01'", "{n} >= DATE '2020-01-01'", "date_part('hour', {n}) = 3"),
        *("{n} < TIMESTAMP '2020-01-01 12:00:00.123456'", "{n} = '2020-01-01 00:00:00'"),
        "date_trunc('day', {n}) = TIMESTAMP '2020-01-01 00:00:00'",
    ],
}


class Sql(_Drawing):
    """Draws SQL.

    Parameters
    ----------
    dialect : "duckdb", "datafusion", or "ours" for conditions that this package and DuckDB take alike.
    """

    def __init__(self, rng: random.Random, lake: Lake, dialect: str):
        super().__init__(rng, lake)
        self.dialect = dialect
        if dialect == "ours":
            unlike = ("b", "fb", "id", "tz", "berlin")  # whose literals are spelled in other ways
            self.columns = {name: kind for name, kind in self.columns.items() if kind not in unlike}

    def query(self) -> str:
        words = {"c": self.condition(), "c2": self.condition(), "name": self.rng.choice(self.top)}
        return self.rng.choice(QUERIES).format(**words)

    def condition(self, depth: int = 0) -> str:
        rng = self.rng
        if depth == 3 or rng.random() < 0.4:
            return self._leaf()
        parts = [f"({self.condition(depth + 1)})" for _ in range(rng.choice([2, 2, 3]))]
        joined = rng.choice([" AND ", " OR "]).join(parts)
        return f"NOT ({joined})" if rng.random() < 0.2 else joined

    def _leaf(self) -> str:
        rng = self.rng
        if self.lake.lists and rng.random() < 0.15:
            return self._list_leaf(rng.choice([*self.lake.lists]))
        key = rng.choice([*self.columns])
        kind, negation, choice = self.columns[key], rng.choice(["", "", "NOT "]), rng.random()
        name, literal = self._spell(key), lambda: self._literal(key)
        if choice < 0.08:
            return f"{name} IS {negation}NULL"
        if choice < 0.22:
            return f"{name} {negation}IN ({', '.join(literal() for _ in range(rng.choice([1, 2, 3, 5, 30])))})"
        if choice < 0.32:
            return f"{name} {negation}BETWEEN {literal()} AND {literal()}"
        if choice < 0.37:
            return f"{name} IS {negation}DISTINCT FROM {literal()}"
        operator = rng.choice(["=", "=", "=", "=", "<>", "<", "<=", ">", ">="])
        if self.dialect != "ours":
            if choice < 0.5:
                return rng.choice(self._forms(kind)).format(n=name, l=literal())
            if choice < 0.56:
                return f"{name} {operator} {self._spell(self.other(key))}"
            if kind == "flag" and choice < 0.8:
                return rng.choice([name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE"])
        operands = [name, literal()]
        if rng.random() < 0.25:
            operands.reverse()
        return f"{operands[0]} {'=' if kind == 'flag' else operator} {operands[1]}"

    def _list_leaf(self, name: str) -> str:
        values = [self._format(_LISTED[name], one) for one in self.lake.elements[name] or [LISTS[name][1](self.rng)]]
        if self.dialect != "ours" or self.rng.random() < 0.7:
            return (
                f"{'array_has' if self.dialect == 'datafusion' else 'list_contains'}({name}, {self.rng.choice(values)})"
            )
        some = ", ".join(sorted(set(self.rng.choices(values, k=3))))
        return f"{self.rng.choice(['list_has_any', 'list_has_all'])}({name}, [{some}])"

    def _forms(self, kind: str) -> list[str]:
        forms = [*_FORMS[""], *_FORMS.get(kind, [])]
        for name, group in {"number": NUMBERS, "text": TEXTS, "moment": MOMENTS}.items():
            forms += _FORMS[name] if kind in group else []
        return forms

    def _spell(self, name: str) -> str:
        top, *fields = name.split(".")
        if self.dialect == "datafusion":
            return top + "".join(f"['{field}']" for field in fields)
        return name

    def _literal(self, name: str) -> str:
        return "NULL" if self.rng.random() < 0.04 else self._format(self.columns[name], self.value(name))

    def _format(self, kind: str, value: Any) -> str:
        rng, duck, is_ours = self.rng, self.dialect != "datafusion", self.dialect == "ours"
        if kind in ("i", "l", "u"):
            forms = [f"{value}"] * 8 + [f"{value + rng.choice([-1, 1])}", f"{value}.5"]
            return rng.choice(forms if is_ours or abs(value) >= 2**63 else [*forms, f"CAST({value} AS BIGINT)"])
        if kind == "f":
            if not math.isfinite(value):
                return f"CAST('{value}' AS DOUBLE)"
            text = f"{value!r}" + ("e0" if duck and "e" not in repr(value) else "")
            return f"CAST({text} AS REAL)" if rng.random() < 0.15 and not is_ours else text
        if kind == "d":
            return rng.choice([f"{value}"] if is_ours else [f"{value}", f"{value}0", f"CAST({value} AS DECIMAL(18,4))"])
        if kind in TEXTS:
            return "'" + value.replace("'", "''") + "'"
        if kind in ("b", "fb"):
            return "'" + "".join(f"\\x{one:02X}" for one in value) + "'::BLOB" if duck else f"X'{value.hex()}'"
        if kind in ("day", "tm", "flag"):
            return {"day": f"DATE '{value}'", "tm": f"TIME '{value}'", "flag": str(value).lower()}[kind]
        if kind == "id":
            return f"UUID '{value}'" if duck else f"X'{value.hex}'"
        text = value.isoformat(sep=" ")
        if kind == "ts":
            return rng.choice(
                [f"TIMESTAMP '{text}'", *([] if is_ours else [f"'{text}'", f"CAST('{text}' AS TIMESTAMP)"])]
            )
        if duck:
            return rng.choice([f"TIMESTAMPTZ '{text}'", f"TIMESTAMP '{value.replace(tzinfo=None)}'"])
        return f"""arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, Some("UTC"))')"""


_LISTED = {"li_i64": "l", "li_i32": "i", "li_str": "s", "li_date": "day", "li_f64": "f", "li_bool": "flag"}

# --------------------------------------------------------------------------------------------------------- expressions


class ArrowExpressions(_Drawing):
    """Draws filters of pyarrow."""

    def draw(self) -> pc.Expression:
        return self.combine(self._leaf)

    def _leaf(self) -> pc.Expression:
        rng = self.rng
        name = rng.choice([*self.columns])
        kind, field, choice = self.columns[name], pc.field(*name.split(".")), rng.random()
        if choice < 0.1:
            return rng.choice([field.is_null(), field.is_valid(), field.is_null(nan_is_null=True)])
        if choice < 0.3:
            values = self.values(name) + [None] * (rng.random() < 0.25)
            member = pc.is_in(field, self._array(name, values), skip_nulls=rng.random() < 0.5)
            is_valid = rng.random() < 0.3  # as DuckDB writes it
            return pc.if_else(field.is_valid(), member, pc.scalar(pa.scalar(None, pa.bool_()))) if is_valid else member
        scalar = pc.scalar(self._scalar(name))
        if choice < 0.45:
            return rng.choice(self._functions(field, kind, scalar))()
        if kind == "flag" and choice < 0.8:
            return field
        operands = [field, pc.field(*self.other(name).split(".")) if choice < 0.52 else scalar]
        if rng.random() < 0.25:
            operands.reverse()
        functions = [pc.equal] * 4 + [pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]
        return rng.choice(functions)(*operands)

    def _type(self, name: str) -> pa.DataType:
        top, *fields = name.split(".")
        found = self.lake.rows.schema.field(top).type
        for one in fields:
            found = found.field(one).type
        return found

    def _scalar(self, name: str) -> pa.Scalar:
        own = self._type(name)
        if self.rng.random() < 0.03:
            is_large = pa.types.is_large_string(own) or pa.types.is_large_binary(own)
            return pa.scalar(None, pa.string() if is_large else own)  # Arrow crashes over nulls of large texts
        return self._array(name, [self.value(name)])[0]

    def _array(self, name: str, values: list[Any]) -> pa.Array:
        """Make an array of the column's type, or of another one that holds the values."""
        rng, own, kind = self.rng, self._type(name), self.columns[name]
        types = [own, *NARROWER.get(kind, [])]
        if kind in NUMBERS:
            types += [pa.float64(), pa.float32(), pa.int64(), pa.int16(), pa.uint64(), pa.decimal128(30, 4)]
        if kind in (*TEXTS, "b"):
            types += [pa.string(), pa.binary(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
        if kind in (*MOMENTS, "day"):
            types += [pa.timestamp(unit, rng.choice([None, "UTC", "Asia/Tokyo"])) for unit in ("s", "ms", "us", "ns")]
            types += [pa.date32(), pa.date64()]
        for arrow in [*([own] if rng.random() < 0.7 else []), *rng.choices(types, k=8)]:
            try:
                return _make_array(values, arrow)
            except (pa.ArrowException, OverflowError, ValueError, TypeError, AttributeError):
                continue
        return pa.nulls(len(values), own)

    def _functions(self, field: Any, kind: str, scalar: Any) -> list[Callable[[], pc.Expression]]:
        rng = self.rng
        either = pc.scalar(rng.choice([True, False]))
        number = rng.choice([0, 1, 2.5, -1, 300, 2**40])
        choices: list[Callable[[], pc.Expression]] = [
            lambda: pc.coalesce(field, scalar) == scalar,
            lambda: pc.if_else(field == scalar, field.is_valid(), either),
            lambda: pc.if_else(field.is_null(), pc.scalar(True), field != scalar),
            lambda: pc.coalesce(field == scalar, either),
            lambda: field.cast(rng.choice([pa.string(), pa.int64(), pa.float64(), pa.int8()]), safe=False) == scalar,
            lambda: pc.is_valid(field == scalar),
            lambda: (field == scalar).is_null(),
            lambda: pc.xor(field == scalar, field.is_null()),
            lambda: pc.and_not_kleene(field == scalar, field.is_null()),
            lambda: either & (field == scalar),
            lambda: (field == scalar) == either,
        ]
        if kind in NUMBERS:
            choices += [lambda: pc.add(field, 1) == scalar, lambda: pc.multiply(field, 2) > scalar]
            choices += [lambda: pc.negate(field) < scalar, lambda: pc.abs(field) == scalar]
            choices += [lambda: field == number, lambda: field > number, lambda: field.isin([number, 1])]
        if kind == "f":
            choices += [lambda: pc.is_nan(field), lambda: pc.is_finite(field), lambda: ~(field > scalar)]
            choices += [lambda: field == pc.scalar(math.nan), lambda: field != pc.scalar(math.nan)]
        if kind in TEXTS:
            choices += [lambda: pc.starts_with(field, "a"), lambda: pc.match_like(field, rng.choice(["a%", "_", "%"]))]
            choices += [lambda: pc.match_substring(field, "a", ignore_case=rng.random() < 0.5)]
            choices += [lambda: pc.utf8_length(field) == 1, lambda: pc.utf8_upper(field) == "A"]
        if kind in MOMENTS:
            choices += [lambda: pc.hour(field) == 3, lambda: pc.floor_temporal(field, unit="day") == scalar]
        return choices


def _make_array(values: list[Any], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).cast(arrow)
    if isinstance(arrow, pa.UuidType):
        return pa.array([None if value is None else value.bytes for value in values], pa.binary(16)).cast(arrow)
    if pa.types.is_decimal(arrow) or pa.types.is_floating(arrow):
        make = decimal.Decimal if pa.types.is_decimal(arrow) else float
        values = [None if value is None else make(value) for value in values]
    elif pa.types.is_binary(arrow):
        values = [value.encode() if isinstance(value, str) else value for value in values]
    elif pa.types.is_timestamp(arrow) and arrow.tz is None:
        values = [value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value for value in values]
    return pa.array(values, arrow)


class PolarsExpressions(_Drawing):
    """Draws filters of polars."""

    def draw(self) -> pl.Expr:
        return self.combine(self._leaf)

    def _value(self, name: str) -> Any:
        value = self.value(name)
        return value.bytes if isinstance(value, uuid.UUID) else value

    def _leaf(self) -> pl.Expr:
        rng = self.rng
        name = rng.choice([*self.columns])
        top, *fields = name.split(".")
        field, kind, choice = pl.col(top), self.columns[name], rng.random()
        for one in fields:
            field = field.struct.field(one)
        if choice < 0.1:
            return rng.choice([field.is_null(), field.is_not_null()])
        if choice < 0.28:
            values = [self._value(name) for _ in range(rng.choice([0, 1, 2, 5, 30]))] + [None] * (rng.random() < 0.2)
            return field.is_in(values, nulls_equal=rng.random() < 0.2)
        if choice < 0.38:
            closed = rng.choice(["both", "left", "right", "none"])
            return field.is_between(self._value(name), self._value(name), closed=closed)
        if choice < 0.5:
            return self._function(field, kind, self._value(name))
        if kind == "flag" and choice < 0.8:
            return field
        operand = pl.col(self.other(name).split(".")[0]) if choice < 0.57 and not fields else pl.lit(self._value(name))
        return getattr(field, rng.choice(["eq"] * 4 + ["ne", "lt", "le", "gt", "ge", "eq_missing", "ne_missing"]))(
            pl.lit(None) if rng.random() < 0.05 else operand
        )

    def _function(self, field: pl.Expr, kind: str, value: Any) -> pl.Expr:
        choices = [field.fill_null(value) == value, (field == value).fill_null(True), (field == value).is_null()]
        choices += [pl.when(field.is_null()).then(True).otherwise(field == value), field.cast(pl.String) == str(value)]
        if kind in NUMBERS:
            choices += [field + 1 == value, field * 2 > value, -field < 1, field.abs() == value, field == 2.5]
            choices += [field.cast(pl.Int8, strict=False) == 1, field.cast(pl.Float32) == 0.1, field.is_in([1, 2, 300])]
        if kind == "f":
            choices += [field.is_nan(), field.is_not_nan(), field == math.nan, field > math.nan, ~(field > 1.0)]
        if kind == "s":
            choices += [field.str.starts_with("a"), field.str.contains("a"), field.str.len_chars() == 1]
        if kind in ("ts", "tz", "day"):
            choices += [field.dt.day() == 1, field == dt.date(2020, 1, 1), field > dt.datetime(2020, 1, 1, 1)]
        return self.rng.choice(choices)
