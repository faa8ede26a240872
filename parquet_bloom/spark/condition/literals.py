"""Exact conversion of literals to values of a column's type, following Spark's coercion rules.

Spark coerces both sides of a comparison to a common type, and so may round, pad, or read texts in the session's time
zone. Pruning looks up single values. So a literal is converted only if the rows that Spark finds are exactly those with
one of the values returned here; every other comparison is left to Spark.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from ...hashing.coerce import parse_date, parse_timestamp
from ...predicate import tree
from ...predicate.subject import Subject, VariantPart
from ...predicate.tree import (
    CallIn,
    CallNotIn,
    Compare,
    Contains,
    Equal,
    In,
    IsNotNull,
    IsNull,
    Leaf,
    MapLookup,
    Node,
    NotContains,
    NotEqual,
    NotIn,
    PatternLeaf,
    VariantLookup,
)
from ...predicate.variant_names import to_arrow_type
from ..session.session_settings import CannotPush, SparkField, is_set, setting
from ..spark_arrow import INTEGER_BITS, spark_type

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAX_PRECISION = 38
_INTEGER_DIGITS: dict[type[DataType], int] = {
    ByteType: 3,
    ShortType: 5,
    IntegerType: 10,
    LongType: 20,
}  # as Spark turns them into decimals
_EXACT_FLOATS = 1 << 53  # integers up to here are floats without rounding
_UTC = frozenset({"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "+00:00", "UTC+00:00", "GMT+00:00"})

Values = Sequence[Any]


class Zone:
    """The session's time zone, by Spark's own rules: Python's time zone data may be of another version.

    Parameters
    ----------
    spark : the session.
    """

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self.is_utc = setting(spark, "spark.sql.session.timeZone") in _UTC

    def instants(self, values: Values, stamp: str) -> list[dt.datetime]:
        """Convert local times and dates to instants as Spark does.

        Parameters
        ----------
        values : dates, and datetimes without a zone.
        stamp : type of the datetimes: TIMESTAMP_LTZ, TIMESTAMP_NTZ, or empty for a text that Spark casts.
        """
        if self.is_utc:
            return [_to_datetime(value).replace(tzinfo=dt.UTC) for value in values]
        casts = ", ".join(f"unix_micros(CAST({_format_sql(value, stamp)} AS TIMESTAMP_LTZ))" for value in values)
        row = self._spark.sql(f"SELECT array({casts}) AS micros").first()
        if row is None or None in row["micros"]:
            raise CannotPush("Spark cannot cast a literal to a timestamp")
        try:
            return [_EPOCH + dt.timedelta(microseconds=micros) for micros in row["micros"]]
        except OverflowError:
            raise CannotPush("a timestamp is outside of the years 1 to 9999") from None


def _to_datetime(value: dt.datetime | dt.date) -> dt.datetime:
    return value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())


def _format_sql(value: dt.datetime | dt.date, stamp: str) -> str:
    if isinstance(value, dt.datetime):
        return f"{stamp} '{value.isoformat(' ')}'"
    return f"DATE '{value.isoformat()}'"


def convert_values(values: Values, data_type: DataType, zone: Zone, *, stamp: str, is_list: bool) -> Values:
    """Convert literals to the values that a row has if, and only if, Spark finds it equal; extra values are allowed.

    Parameters
    ----------
    values : the literals of one comparison; NULLs are passed through, as no row equals them.
    data_type : the column's type in Spark.
    stamp : type of datetimes without a zone in Spark: TIMESTAMP_LTZ or TIMESTAMP_NTZ.
    is_list : whether Spark sees them as an IN list, whose values it coerces to one type.

    Raises
    ------
    CannotPush
        There is no exact conversion.
    """
    non_null = [value for value in values if value is not None]
    handler = _HANDLERS.get(type(data_type))
    if handler is None:
        raise CannotPush(f"pruning does not support columns of type {data_type.simpleString()}")
    if not non_null:
        return values
    exact = handler(non_null, data_type, zone, stamp, is_list)
    if exact is None:
        kinds = " and ".join(sorted({type(value).__name__ for value in non_null}))
        raise CannotPush(f"comparisons of {data_type.simpleString()} with {kinds} are not supported")
    return [*exact, *([None] if len(non_null) < len(values) else [])]


def _all_of_types(values: Values, *kinds: type) -> bool:
    """Return True if all values are of exactly these types (a datetime is not a date, a bool not an int)."""
    return all(type(value) in kinds for value in values)


def _count_digits(value: int | decimal.Decimal) -> tuple[int, int]:
    """Return the largest numbers of digits before and after the point that Spark's type for a literal can have."""
    if isinstance(value, int):
        return max(10 if -(1 << 31) <= value < 1 << 31 else 20, len(str(abs(value)))), 0
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return max(0, len(digits) + int(exponent)), scale


def _fits_decimal(values: Values, integer_digits: int, scale: int) -> bool:
    """Return True if the common decimal type of a column and literals holds all values without rounding."""
    parts = [(integer_digits, scale), *map(_count_digits, values)]
    return max(part[0] for part in parts) + max(part[1] for part in parts) <= _MAX_PRECISION


def _convert_integers(values: Values, data_type: DataType, *_: Any) -> Values | None:
    if _all_of_types(values, int, decimal.Decimal):
        return values if _fits_decimal(values, _INTEGER_DIGITS[type(data_type)], 0) else None
    return values if _all_of_types(values, float) else None


def _convert_floats(values: Values, *_: Any) -> Values | None:
    return values if _all_of_types(values, int, decimal.Decimal, float) else None


def _convert_decimals(values: Values, data_type: Any, *_: Any) -> Values | None:
    if _all_of_types(values, int, decimal.Decimal):
        return values if _fits_decimal(values, data_type.precision - data_type.scale, data_type.scale) else None
    return values if _all_of_types(values, float) else None


def _convert_strings(values: Values, data_type: Any, *_: Any) -> Values | None:
    if getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise CannotPush(f"different texts are equal under the collation {data_type.collation}")
    return values if _all_of_types(values, str) else None


def _convert_dates(values: Values, data_type: DataType, zone: Zone, *_: Any) -> Values | None:
    # Datetimes are not accepted: the midnight that a date is cast to may not exist in the session's zone.
    return values if _all_of_types(values, dt.date) else _parse(values, parse_date)


def _parse(values: Values, parse: Callable[[str], Any]) -> Values | None:
    """Parse texts in ISO form, which every parser reads alike; return None if any text is not."""
    if not _all_of_types(values, str) or not all(value.isascii() for value in values):
        return None
    parsed = [parse(value) for value in values]
    return None if None in parsed else parsed


def _convert_instants(values: Values, data_type: DataType, zone: Zone, stamp: str, is_list: bool) -> Values | None:
    if _all_of_types(values, str):
        # Spark may compare the values of a list as texts, and when clocks are set back two instants have one text.
        parsed = None if is_list and not zone.is_utc else _parse(values, parse_timestamp)
        if parsed is None:
            return None
        values, stamp = parsed, ""
    elif not (_all_of_types(values, dt.datetime) or _all_of_types(values, dt.date)):
        return None
    zoned = [value for value in values if getattr(value, "tzinfo", None) is not None]
    local = [value for value in values if getattr(value, "tzinfo", None) is None]
    return [*zoned, *zone.instants(local, stamp)] if local else zoned


def _convert_local_times(values: Values, data_type: DataType, zone: Zone, stamp: str, is_list: bool) -> Values | None:
    if _all_of_types(values, dt.date):
        return values
    parsed = _parse(values, parse_timestamp) if _all_of_types(values, str) else None
    if parsed is not None:
        return parsed if all(value.tzinfo is None for value in parsed) else None
    if not _all_of_types(values, dt.datetime):
        return None
    if stamp == "TIMESTAMP_NTZ" and all(value.tzinfo is None for value in values):
        return values
    # Spark casts the column to instants: when clocks are set forward, two local times become one instant.
    return [_to_utc(value) for value in values] if zone.is_utc else None


def _to_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


_HANDLERS: dict[type[DataType], Callable[..., Values | None]] = {
    **dict.fromkeys(INTEGER_BITS, _convert_integers),
    FloatType: _convert_floats,
    DoubleType: _convert_floats,
    DecimalType: _convert_decimals,
    StringType: _convert_strings,
    BinaryType: lambda values, *_: values if _all_of_types(values, bytes) else None,
    BooleanType: lambda values, *_: values if _all_of_types(values, bool) else None,
    DateType: _convert_dates,
    TimestampType: _convert_instants,
    TimestampNTZType: _convert_local_times,
}


def convert_typed_values(
    values: Values, types: Sequence[DataType], data_type: DataType, zone: Zone, *, is_list: bool
) -> Values:
    """Convert literals of types that Spark has reported, such as `CAST(5 AS SMALLINT)` or those of a Column.

    Parameters
    ----------
    values, types : the literals of one comparison, and the type of each in Spark.
    data_type, zone, is_list : as for `convert_values`.

    Raises
    ------
    CannotPush
        There is no exact conversion.
    """
    typed = [(value, literal_type) for value, literal_type in zip(values, types, strict=True) if value is not None]
    if any(getattr(literal_type, "collation", "UTF8_BINARY") != "UTF8_BINARY" for _, literal_type in typed):
        raise CannotPush("a literal has a collation")
    is_default = all(has_default_type(value, literal_type) for value, literal_type in typed)
    # Of one type, or both integers, or both floats: widening keeps the value.
    is_alike = all(
        literal_type == data_type
        or any(isinstance(literal_type, kind) and isinstance(data_type, kind) for kind in (_INTEGERS, _FLOATS))
        for _, literal_type in typed
    )
    if not is_default and not is_alike and not _fits_types([literal_type for _, literal_type in typed], data_type):
        kinds = " and ".join(sorted({literal_type.simpleString() for _, literal_type in typed}))
        raise CannotPush(f"comparisons of {data_type.simpleString()} with {kinds} are not supported")
    if is_default or type(data_type) not in _HANDLERS:
        return convert_values(values, data_type, zone, stamp="TIMESTAMP_NTZ", is_list=is_list)
    return values


_INTEGERS = tuple(INTEGER_BITS)
_FLOATS = (FloatType, DoubleType)


def has_default_type(value: Any, literal_type: DataType) -> bool:
    """Return True if a literal has the type that Spark's parser gives to the usual form of its value."""
    if type(value) is int:
        return type(literal_type) is (IntegerType if -(1 << 31) <= value < 1 << 31 else LongType)
    if type(value) is decimal.Decimal:
        integer_digits, scale = _count_digits(value)
        if not isinstance(literal_type, DecimalType):
            return False
        return literal_type.precision - literal_type.scale <= integer_digits and literal_type.scale <= scale
    return type(literal_type) is _DEFAULT_TYPES.get(_type_key(value))


def _type_key(value: Any) -> Any:
    return (dt.datetime, value.tzinfo is None) if isinstance(value, dt.datetime) else type(value)


_DEFAULT_TYPES: dict[Any, type[DataType]] = {
    bool: BooleanType,
    float: DoubleType,
    str: StringType,
    bytes: BinaryType,
    dt.date: DateType,
    (dt.datetime, True): TimestampNTZType,
    (dt.datetime, False): TimestampType,
}


def _fits_types(types: Sequence[DataType], data_type: DataType) -> bool:
    """Return True if integers and decimals have a common type that holds all of their values without rounding."""
    parts = []
    for number_type in (*types, data_type):
        if isinstance(number_type, DecimalType):
            parts.append((number_type.precision - number_type.scale, number_type.scale))
        elif type(number_type) in _INTEGER_DIGITS:
            parts.append((_INTEGER_DIGITS[type(number_type)], 0))
        else:
            return False
    return max(part[0] for part in parts) + max(part[1] for part in parts) <= _MAX_PRECISION


# Literals that Spark orders against columns of a type without rounding either.
_ORDERED: dict[type[DataType], tuple[type, ...]] = {
    **dict.fromkeys(INTEGER_BITS, (int,)),
    StringType: (str,),
    BinaryType: (bytes,),
    DateType: (dt.date,),
    TimestampType: (dt.datetime,),
    TimestampNTZType: (dt.datetime,),
}
_EQUATED: dict[type[DataType], tuple[type, ...]] = {
    **_ORDERED,
    BooleanType: (bool,),
    FloatType: (float,),
    DoubleType: (float,),
    DecimalType: (decimal.Decimal, int),
}


def is_ordered_alike(values: Values, data_type: DataType) -> bool:
    """Return whether Spark orders a column of a type and converted literals as these values are ordered."""
    return all(type(value) in _ORDERED.get(type(data_type), ()) for value in values)


def is_atomic(data_type: DataType) -> bool:
    """Return whether a column of a type has single values that literals are compared with."""
    return type(data_type) in _EQUATED


def find_equal_values(values: Values, data_type: DataType) -> Values | None:
    """Return converted literals as values of a column's type; None if Spark may round one of them, or the column.

    Rows can be told apart by such values alone; statistics and filters can use other literals as well.
    """
    exact = [_find_equal_value(value, data_type) for value in values]
    return (
        None
        if any(after is None and before is not None for before, after in zip(values, exact, strict=True))
        else exact
    )


def _find_equal_value(value: Any, data_type: DataType) -> Any:
    is_cast_alike = type(value) is decimal.Decimal or (type(value) is int and abs(value) <= _EXACT_FLOATS)
    if isinstance(data_type, _FLOATS) and is_cast_alike:
        return float(value)
    return value if type(value) in _EQUATED.get(type(data_type), ()) else None


_WITH_TEXT = (*INTEGER_BITS, DateType)


def is_plain_text(data_type: DataType) -> bool:
    """Return whether values are texts that are compared byte by byte, and not padded."""
    return type(data_type) is StringType and getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"


def find_target_type(target: str) -> DataType:
    """Return Spark's type for that of a path of a Variant, by its canonical name."""
    data_type = spark_type(to_arrow_type(target))
    assert data_type is not None, target
    return data_type


def read_call(item: CallIn, data_type: DataType) -> CallIn:
    """Return what is necessary for a comparison of a function of a column of some type in Spark.

    Raises
    ------
    CannotPush
        Spark's function of such values is another: texts of other collations than the default are compared, and changed
        to lower case, in other ways.
    """
    if not is_plain_text(data_type) and not (item.function == "string" and type(data_type) in _WITH_TEXT):
        raise CannotPush(f"{item} of {data_type.simpleString()} is left to Spark")
    return replace(item, is_exact=False)


@dataclass(frozen=True)
class Coercion:
    """Rules by which a session compares literals with columns.

    Attributes
    ----------
    zone : the session's time zone.
    as_texts : whether the session compares dates and times with texts as texts.
    naive : type of datetimes without a zone; None for the column's.
    types : types of the literals in Spark; None for literals in their usual form.
    """

    zone: Zone
    as_texts: bool = False
    naive: str | None = None
    types: Sequence[DataType] | None = None

    @classmethod
    def of(cls, spark: SparkSession) -> Coercion:
        """Return the rules of a session."""
        return cls(Zone(spark), is_set(spark, "spark.sql.legacy.typeCoercion.datetimeToString.enabled"))

    def convert(self, values: Values, data_type: DataType, is_list: bool) -> Values:
        """Return the values of a column that Spark finds equal to literals.

        Parameters
        ----------
        data_type : the column's type.
        is_list : whether they are an IN list.
        """
        is_list = is_list or self.as_texts
        if self.types is not None:
            return convert_typed_values(values, self.types, data_type, self.zone, is_list=is_list)
        stamp = self.naive or ("TIMESTAMP_NTZ" if isinstance(data_type, TimestampNTZType) else "TIMESTAMP_LTZ")
        return convert_values(values, data_type, self.zone, stamp=stamp, is_list=is_list)

    def apply(self, node: Node, fields: Mapping[str, SparkField]) -> Node:
        """Return the predicate for pruning: with the values that Spark compares the columns with.

        How Spark orders values of two types is not modelled: of such order comparisons only IS NOT NULL remains.

        Parameters
        ----------
        fields : the column of each name in the predicate.

        Raises
        ------
        CannotPush
            A literal has no exact conversion.
        """

        def leaf(item: Leaf) -> Node:
            if isinstance(item, NotContains | IsNull | IsNotNull) or (isinstance(item, NotIn) and not item.values):
                return item
            data_type = fields[item.column].type
            if isinstance(item, MapLookup):
                return self._apply_lookup(item, fields[item.column])
            if isinstance(item, VariantLookup):
                return self._apply_part(item, fields[item.column])
            if isinstance(item, Compare):
                return self._apply_order(item, data_type)
            if isinstance(item, PatternLeaf):
                return item if is_plain_text(data_type) and not item.function else IsNotNull(item.column)
            if isinstance(item, NotEqual | NotIn | CallNotIn):
                return IsNotNull(item.column)
            if isinstance(item, CallIn):
                return read_call(item, data_type)
            if not isinstance(item, Equal | In | Contains):  # a new kind of leaf must not be taken for an equality
                raise CannotPush(f"{item} is not supported")
            if isinstance(item, Contains) and isinstance(data_type, ArrayType):
                data_type = data_type.elementType
            try:
                values = tuple(self.convert(item.literals, data_type, isinstance(item, In)))
            except CannotPush as error:
                raise CannotPush(f"'{item.column}': {error}") from None
            if isinstance(item, Contains):
                return tree.any_of([Contains(item.column, value) for value in values])
            return Equal(item.column, values[0]) if len(values) == 1 else In(item.column, values)

        coerced = tree.find_residual(node, leaf)
        assert isinstance(coerced, Node)
        return coerced

    def _apply_lookup(self, item: MapLookup, field: SparkField) -> Node:
        """Return the lookup of the key that Spark looks for, with what its values are compared with."""
        if not isinstance(field.type, MapType):
            raise CannotPush(f"{item} is left to Spark: '{item.column}' is not a map")
        try:
            keys = replace(self, types=None).convert((item.key,), field.type.keyType, False)
        except CannotPush as error:
            raise CannotPush(f"'{item.column}': {error}") from None
        if len(keys) != 1 or keys[0] is None:
            raise CannotPush(f"{item} is left to Spark")
        condition = self.apply(item.condition, {item.column: replace(field, type=field.type.valueType)})
        return Subject(item.column, key=keys[0]).look_up(condition)

    def _apply_part(self, item: VariantLookup, field: SparkField) -> Node:
        """Return the lookup of a path of a Variant, with what the values that Spark casts are compared with."""
        if not isinstance(field.type, VariantType):
            raise CannotPush(f"{item} is left to Spark: '{item.column}' is no Variant")
        as_target = replace(field, type=find_target_type(item.target))
        condition = self.apply(item.condition, {item.column: as_target})
        return Subject(item.column, part=VariantPart(item.path, item.target, item.is_try)).look_up(condition)

    def _apply_order(self, item: Compare, data_type: DataType) -> Node:
        """Return a comparison by order with the value that Spark compares with, or IS NOT NULL."""
        try:
            values = () if item.value is None else self.convert(item.literals, data_type, False)
        except CannotPush:
            values = ()
        is_exact = len(values) == 1 and is_ordered_alike(values, data_type)
        return Compare(item.column, item.operator, values[0]) if is_exact else IsNotNull(item.column)


def meets_zero_or_nan(node: Node | None, fields: Mapping[str, SparkField]) -> bool:
    """Return whether a float column is compared with zero or NaN, of which filters of other writers have one form."""
    return any(
        any(value is not None and (value == 0 or value != value) for value in leaf.literals)
        for leaf in (() if node is None else tree.leaves(node))
        if isinstance(_find_compared_type(leaf, fields), FloatType | DoubleType)
    )


def _find_compared_type(leaf: Leaf, fields: Mapping[str, SparkField]) -> DataType:
    """Return the type of what a leaf compares."""
    return find_target_type(leaf.target) if isinstance(leaf, VariantLookup) else fields[leaf.column].type
