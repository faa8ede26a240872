"""Random filters of a lake as expressions: pyarrow's, and polars'."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import uuid
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from .dataset_lakes import KINDS, PARTITIONS, Lake

_NUMBERS = ("i", "l", "u", "f", "d")
_MOMENTS = ("ts", "tz", "berlin")


class Expressions:
    """Draws filters.

    Parameters
    ----------
    rng : decides.
    lake : that is filtered.
    """

    def __init__(self, rng: random.Random, lake: Lake):
        self.rng, self.lake = rng, lake
        self.leaves: dict[tuple[str, ...], tuple[str, list[Any]]] = {
            (name,): (kind, lake.values[name]) for name, kind in lake.kinds.items()
        }
        for struct, members in lake.structs.items():
            for leaf, kind in members.items():
                self.leaves[struct, leaf] = kind, lake.values[f"{struct}.{leaf}"]
        self.leaves["row",] = "i", list(range(0, 150, 7))
        if "p" in lake.ours.schema.names:
            type_of_p = lake.ours.schema.field("p").type
            [values] = [values for kind, values in PARTITIONS.values() if kind == type_of_p]
            self.leaves["p",] = {"int64": "i", "string": "s", "date32[day]": "day"}[str(type_of_p)], values

    def _value(self, kind: str, pool: list[Any]) -> Any:
        return self.rng.choice(pool) if self.rng.random() < 0.75 else KINDS[kind].draw(self.rng)

    def _combine(self, leaf: Callable[[], Any], depth: int = 0) -> Any:
        rng = self.rng
        if depth == 3 or rng.random() < 0.4:
            found = leaf()
        else:
            left, right = (self._combine(leaf, depth + 1) for _ in range(2))
            found = left & right if rng.random() < 0.5 else left | right
        return ~found if rng.random() < 0.2 else found

    # ---------------------------------------------------------------------------------------------------------- Arrow

    def arrow(self) -> pc.Expression:
        """Draw a filter of pyarrow."""
        return self._combine(self._arrow_leaf)

    def _type_of(self, path: tuple[str, ...]) -> pa.DataType:
        found = self.lake.ours.schema.field(path[0]).type
        return found.field(path[1]).type if len(path) > 1 else found

    def _arrow_leaf(self) -> pc.Expression:
        rng = self.rng
        path = rng.choice(list(self.leaves))
        kind, pool = self.leaves[path]
        field = pc.field(*path)
        choice = rng.random()
        if choice < 0.1:
            return rng.choice([field.is_null(), field.is_valid(), field.is_null(nan_is_null=True)])
        if choice < 0.3:
            return self._arrow_is_in(field, path, kind, pool)
        if choice < 0.45:
            return self._arrow_function(field, path, kind, pool)
        if choice < 0.52:
            alike = [other for other, (one, _) in self.leaves.items() if other != path and _is_alike(kind, one)]
            if alike:
                return self._arrow_compare(field, pc.field(*rng.choice(alike)))
        if kind == "flag" and choice < 0.8:
            return field
        operands = [field, pc.scalar(self._arrow_scalar(path, kind, pool))]
        if rng.random() < 0.25:
            operands.reverse()
        return self._arrow_compare(*operands)

    def _arrow_compare(self, left: Any, right: Any) -> pc.Expression:
        functions = [pc.equal] * 4 + [pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]
        return self.rng.choice(functions)(left, right)

    def _arrow_scalar(self, path: tuple[str, ...], kind: str, pool: list[Any]) -> pa.Scalar:
        if self.rng.random() < 0.03:
            own = self._type_of(path)
            is_large = pa.types.is_large_string(own) or pa.types.is_large_binary(own)
            return pa.scalar(None, pa.string() if is_large else own)  # Arrow crashes over nulls of large texts
        return self._arrow_array(path, kind, [self._value(kind, pool)])[0]

    def _arrow_array(self, path: tuple[str, ...], kind: str, values: list[Any]) -> pa.Array:
        """Make an array of the column's type, or of another one that holds the values."""
        rng = self.rng
        own = self._type_of(path)
        if rng.random() < 0.7:
            try:
                return _make_array(values, own)
            except (pa.ArrowException, OverflowError, ValueError, TypeError, AttributeError):
                pass
        types = [own, *KINDS[kind].types]
        if kind in _NUMBERS:
            types += [
                pa.float64(),
                pa.float32(),
                pa.int64(),
                pa.int16(),
                pa.uint64(),
                pa.decimal128(30, 4),
                pa.float16(),
            ]
        if kind in ("s", "b", "c"):
            types += [
                pa.string(),
                pa.binary(),
                pa.large_string(),
                pa.string_view(),
                pa.dictionary(pa.int8(), pa.string()),
            ]
        if kind in _MOMENTS:
            types += [pa.timestamp(unit, rng.choice([None, "UTC", "Asia/Tokyo"])) for unit in ("s", "ms", "us", "ns")]
            types += [pa.date32(), pa.date64()]
        if kind == "day":
            types += [pa.date64(), pa.timestamp("s"), pa.timestamp("us")]
        for _ in range(8):
            arrow_type = rng.choice(types)
            try:
                return _make_array(values, arrow_type)
            except (pa.ArrowException, OverflowError, ValueError, TypeError, AttributeError):
                continue
        return pa.nulls(len(values), own)

    def _arrow_is_in(self, field: Any, path: tuple[str, ...], kind: str, pool: list[Any]) -> pc.Expression:
        rng = self.rng
        values = [self._value(kind, pool) for _ in range(rng.choice([0, 1, 2, 5, 30]))]
        if rng.random() < 0.25:
            values.append(None)
        member = pc.is_in(field, self._arrow_array(path, kind, values), skip_nulls=rng.random() < 0.5)
        if rng.random() < 0.3:  # as DuckDB writes it
            return pc.if_else(field.is_valid(), member, pc.scalar(pa.scalar(None, pa.bool_())))
        return member

    def _arrow_function(self, field: Any, path: tuple[str, ...], kind: str, pool: list[Any]) -> pc.Expression:
        rng = self.rng
        scalar = pc.scalar(self._arrow_scalar(path, kind, pool))
        choices: list[Callable[[], pc.Expression]] = [
            lambda: pc.coalesce(field, scalar) == scalar,
            lambda: pc.if_else(field == scalar, field.is_valid(), pc.scalar(rng.choice([True, False]))),
            lambda: pc.if_else(field.is_null(), pc.scalar(True), field != scalar),
            lambda: pc.coalesce(field == scalar, pc.scalar(rng.choice([True, False]))),
            lambda: field.cast(rng.choice([pa.string(), pa.int64(), pa.float64(), pa.int8()]), safe=False) == scalar,
            lambda: pc.is_valid(field == scalar),
            lambda: (field == scalar).is_null(),
            lambda: pc.xor(field == scalar, field.is_null()),
            lambda: pc.and_not_kleene(field == scalar, field.is_null()),
            lambda: pc.scalar(rng.choice([True, False])) & (field == scalar),
            lambda: (field == scalar) == pc.scalar(rng.choice([True, False])),
        ]
        if kind in _NUMBERS:
            choices += [
                lambda: pc.add(field, 1) == scalar,
                lambda: pc.multiply(field, 2) > scalar,
                lambda: pc.negate(field) < scalar,
                lambda: pc.abs(field) == scalar,
                lambda: field == rng.choice([0, 1, 2.5, -1, 300, 2**40]),
                lambda: field > rng.choice([0, 1, 2.5, -1, 300, 2**40]),
                lambda: field.isin(rng.choice([[0, 1], [2.5], [-1, 300], [2**40]])),
            ]
        if kind == "f":
            choices += [lambda: pc.is_nan(field), lambda: pc.is_finite(field), lambda: ~(field > scalar)]
            choices += [lambda: field == pc.scalar(float("nan")), lambda: field != pc.scalar(float("nan"))]
        if kind in ("s", "c"):
            choices += [
                lambda: pc.starts_with(field, "a"),
                lambda: pc.match_like(field, rng.choice(["a%", "_", "%"])),
                lambda: pc.match_substring(field, "a", ignore_case=rng.random() < 0.5),
                lambda: pc.utf8_length(field) == 1,
                lambda: pc.utf8_upper(field) == "A",
            ]
        if kind in _MOMENTS:
            choices += [lambda: pc.hour(field) == 3, lambda: pc.floor_temporal(field, unit="day") == scalar]
        return rng.choice(choices)()

    # --------------------------------------------------------------------------------------------------------- polars

    def polars(self) -> pl.Expr:
        """Draw a filter of polars."""
        found: pl.Expr = self._combine(self._polars_leaf)
        return found

    def _polars_leaf(self) -> pl.Expr:
        rng = self.rng
        path = rng.choice(list(self.leaves))
        kind, pool = self.leaves[path]
        field = pl.col(path[0])
        for part in path[1:]:
            field = field.struct.field(part)
        choice = rng.random()

        def literal() -> Any:
            value = self._value(kind, pool)
            return value.bytes if isinstance(value, uuid.UUID) else value

        if choice < 0.1:
            return rng.choice([field.is_null(), field.is_not_null()])
        if choice < 0.28:
            values = [literal() for _ in range(rng.choice([0, 1, 2, 5, 30]))] + [None] * (rng.random() < 0.2)
            return field.is_in(values, nulls_equal=rng.random() < 0.2)
        if choice < 0.38:
            return field.is_between(literal(), literal(), closed=rng.choice(["both", "left", "right", "none"]))
        if choice < 0.5:
            return self._polars_function(field, kind, literal())
        if choice < 0.57:
            alike = [other for other, (one, _) in self.leaves.items() if len(other) == 1 and _is_alike(kind, one)]
            return self._polars_compare(field, pl.col(rng.choice(alike or [path])[0]))
        if kind == "flag" and choice < 0.8:
            return field
        return self._polars_compare(field, pl.lit(literal()) if rng.random() < 0.9 else pl.lit(None))

    def _polars_compare(self, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        names = ["eq"] * 4 + ["ne", "lt", "le", "gt", "ge", "eq_missing", "ne_missing"]
        found: pl.Expr = getattr(left, self.rng.choice(names))(right)
        return found

    def _polars_function(self, field: pl.Expr, kind: str, value: Any) -> pl.Expr:
        rng = self.rng
        choices = [field.fill_null(value) == value, (field == value).fill_null(True), (field == value).is_null()]
        choices += [pl.when(field.is_null()).then(True).otherwise(field == value), field.cast(pl.String) == str(value)]
        if kind in _NUMBERS:
            choices += [field + 1 == value, field * 2 > value, -field < 1, field.abs() == value, field == 2.5]
            choices += [field.cast(pl.Int8, strict=False) == 1, field.cast(pl.Float32) == 0.1, field.is_in([1, 2, 300])]
        if kind == "f":
            choices += [field.is_nan(), field.is_not_nan(), field == float("nan"), field > float("nan"), ~(field > 1.0)]
        if kind == "s":
            choices += [field.str.starts_with("a"), field.str.contains("a"), field.str.len_chars() == 1]
        if kind in ("ts", "tz", "day"):
            choices += [field.dt.day() == 1, field == dt.date(2020, 1, 1), field > dt.datetime(2020, 1, 1, 1)]
        return rng.choice(choices)


def _is_alike(one: str, other: str) -> bool:
    groups = (_NUMBERS, ("s", "c"), ("b", "fb"), ("ts", "day"), ("tz", "berlin"))
    return any(one in group and other in group for group in groups)


def _make_array(values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(arrow_type):
        return pa.array(values, arrow_type.value_type).cast(arrow_type)
    if isinstance(arrow_type, pa.UuidType):
        return pa.array([None if value is None else value.bytes for value in values], pa.binary(16)).cast(arrow_type)
    if pa.types.is_decimal(arrow_type):
        values = [None if value is None else decimal.Decimal(value) for value in values]
    elif pa.types.is_floating(arrow_type):
        values = [None if value is None else float(value) for value in values]
    elif pa.types.is_binary(arrow_type):
        values = [value.encode() if isinstance(value, str) else value for value in values]
    if pa.types.is_timestamp(arrow_type) and arrow_type.tz is None:
        values = [value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value for value in values]
    return pa.array(values, arrow_type)
