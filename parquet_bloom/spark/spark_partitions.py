"""Layout of the files that Spark lists: the base folder of their partitions, and the partition values."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..hashing.coerce import parse_date, parse_timestamp
from ..predicate import tree
from ..predicate.tree import Node
from ..scan.model.folder_partitions import parse_folder
from ..util.arrow_values import make_array
from .session.session_settings import CannotPush, SparkField, find_authority, fold_case, is_pattern, normalize_path
from .spark_arrow import INTEGER_BITS, arrow_type

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")
_JAVA_DOUBLE = re.compile(r"[\0- ]*([+-]?)(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)[\0- ]*")
_HEXADECIMAL = re.compile(r"[\0- ]*[+-]?0[xX][0-9a-fA-F.]+[pP].*", re.DOTALL)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9])?")
_NUMBERS: set[type[DataType]] = {IntegerType, LongType, DecimalType, DoubleType}
_DIGITS: dict[type[DataType], int] = {IntegerType: 10, LongType: 20}
_MOST_DIGITS = 38
_OFFSET = re.compile(r"Z|(?:UTC|GMT|UT)?(?:([+-])([01]?[0-9])(?::([0-5][0-9]))?)?")


def infer_type(texts: Iterable[str | None], zone: str, wall_clock: bool) -> DataType:
    """Infer the type of a partition column as Spark does.

    Parameters
    ----------
    texts : the values in folders' names; None for the folder of nulls.
    zone : the session's time zone.
    wall_clock : whether timestamps are TIMESTAMP_NTZ.

    Raises
    ------
    CannotPush
        The type that Spark infers is not certain.
    """
    types = {_infer_one(text, zone, wall_clock) for text in texts if text is not None}
    return reduce(_widen, sorted(types, key=repr)) if types else NullType()


def _infer_one(text: str, zone: str, wall_clock: bool) -> DataType:
    if not text.isascii() and text and all(character.isdigit() or character in "+-." for character in text):
        raise CannotPush(f"{text!r} has digits of another script")
    if _INTEGER.fullmatch(text):
        for kind, bits in ((IntegerType, 32), (LongType, 64)):
            if -(1 << bits - 1) <= int(text) < 1 << bits - 1:
                return kind()
    if _DECIMAL.fullmatch(text):
        number = decimal.Decimal(text)
        _, digits, exponent = number.as_tuple()
        if isinstance(exponent, int) and exponent <= 0 and "." not in text and "e" not in text.lower():
            if len(digits) <= _MOST_DIGITS:
                return DecimalType(len(digits), 0)
        elif isinstance(exponent, int) and exponent >= 0:
            raise CannotPush(f"{text!r} is an integer in an uncommon form")
    if _JAVA_DOUBLE.fullmatch(text):
        return DoubleType()
    if _HEXADECIMAL.fullmatch(text):
        raise CannotPush(f"{text!r} is a number in an uncommon form")
    kinds: list[DataType] = [TimestampNTZType() if wall_clock else TimestampType(), DateType()]
    for data_type, form in zip(kinds, (_TIMESTAMP, _DAY), strict=True):
        if form.fullmatch(text) and parse_timestamp(text) is not None:
            if isinstance(data_type, TimestampType):
                find_zone(zone)
            return data_type
    return StringType()


def _widen(first: DataType, second: DataType) -> DataType:
    """Return the type that holds the values of both types."""
    if first == second:
        return first
    kinds = {type(first), type(second)}
    if kinds <= _NUMBERS:
        if DoubleType in kinds:
            return DoubleType() if IntegerType in kinds else StringType()
        if DecimalType in kinds:
            digits = max(_DIGITS.get(type(kind), 0) or getattr(kind, "precision", 0) for kind in (first, second))
            return DecimalType(digits, 0)
        return LongType()
    if kinds <= {DateType, TimestampType} or kinds <= {DateType, TimestampNTZType}:
        return next(kind for kind in (first, second) if not isinstance(kind, DateType))
    return StringType()


def parse_value(text: str | None, data_type: DataType, zone: str) -> Any:
    """Parse a partition value as Spark casts its text to the column's type.

    Raises
    ------
    CannotPush
        The value that Spark reads is not certain.
    """
    if text is None:
        return None
    convert = _CONVERSIONS.get(type(data_type))
    value = None if convert is None else convert(text, data_type, zone)
    if value is None or getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise CannotPush(f"{text!r} is not surely a {data_type.simpleString()}")
    return value


def _parse_integer(text: str, data_type: DataType, zone: str) -> int | None:
    bits = INTEGER_BITS[type(data_type)]
    fits = _INTEGER.fullmatch(text) is not None and -(1 << bits - 1) <= int(text) < 1 << bits - 1
    return int(text) if fits else None


def _parse_double(text: str, data_type: DataType, zone: str) -> float | None:
    return (
        float(text.strip("\0 \t\r\n\fdDfF")) if _DECIMAL.fullmatch(text.rstrip("dDfF")) else _parse_special_double(text)
    )


def _parse_special_double(text: str) -> float | None:
    match = _JAVA_DOUBLE.fullmatch(text)
    return float(text.strip().rstrip("dDfF") if match[3] else match[1] + match[2]) if match else None


def _parse_decimal(text: str, data_type: Any, zone: str) -> decimal.Decimal | None:
    if not _DECIMAL.fullmatch(text):
        return None
    _, digits, exponent = decimal.Decimal(text).as_tuple()
    if not isinstance(exponent, int) or -exponent > data_type.scale:
        return None
    integer_digits = len(digits) + exponent
    return decimal.Decimal(text) if integer_digits <= data_type.precision - data_type.scale else None


def _parse_date(text: str, data_type: DataType, zone: str) -> dt.date | None:
    return parse_date(text) if _DAY.fullmatch(text) else None


def _parse_local_time(text: str, data_type: DataType, zone: str) -> dt.datetime | None:
    return parse_timestamp(text) if _TIMESTAMP.fullmatch(text) or _DAY.fullmatch(text) else None


def _parse_instant(text: str, data_type: DataType, zone: str) -> dt.datetime | None:
    local_time = _parse_local_time(text, data_type, zone)
    return None if local_time is None else local_time.replace(tzinfo=find_zone(zone)).astimezone(dt.UTC)


def find_zone(name: str) -> dt.tzinfo:
    """Find a time zone by Spark's name of it.

    Raises
    ------
    CannotPush
        Python has no time zone of that name.
    """
    if not name:
        raise CannotPush("the session's time zone is not known; give the option 'timeZone'")
    offset = _OFFSET.fullmatch(name)
    if offset:
        difference = dt.timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
        return dt.timezone(-difference if offset[1] == "-" else difference)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise CannotPush(f"the time zone {name!r} is not known to Python") from None


_CONVERSIONS: dict[type[DataType], Callable[[str, Any, str], Any]] = {
    **dict.fromkeys(INTEGER_BITS, _parse_integer),
    DoubleType: _parse_double,
    FloatType: lambda text, *_: None,
    DecimalType: _parse_decimal,
    StringType: lambda text, *_: text,
    BooleanType: lambda text, *_: {"true": True, "false": False}.get(text.lower()),
    DateType: _parse_date,
    TimestampType: _parse_instant,
    TimestampNTZType: _parse_local_time,
}


_ESCAPED = re.compile("%([0-9a-fA-F]{2})")
_CERTAIN = (StringType, DateType, *INTEGER_BITS)


@dataclass(frozen=True)
class Layout:
    """The layout of a DataFrame's files.

    Attributes
    ----------
    base : folder that contains the partitions' folders; None if there are no partitions.
    columns : partition columns, as the schema spells them.
    values : {file: partition values as texts, None for NULL}.
    """

    base: str | None = None
    columns: tuple[str, ...] = ()
    values: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    @property
    def base_path(self) -> str | None:
        """The base in the form of the reader's option `basePath`."""
        return self.base if self.base is None or find_authority(self.base) else f"file://{self.base}"


def find_partition_values(
    node: Node, fields: Mapping[str, SparkField], layout: Layout, schema: StructType, files: Sequence[str]
) -> tuple[Node | None, pa.Table]:
    """Return what the partition columns of files say about a predicate.

    Parameters
    ----------
    fields : the column of each name in the predicate.
    layout, schema : of the DataFrame.
    files : as in the layout.

    Returns
    -------
    The predicate without comparisons of partition columns whose values are not certain, None if nothing is left of it;
    and the values of the others: a row for each file, a column for each name in the predicate.
    """
    columns, unknown = {}, set()
    for name, item in fields.items():
        if item.path[0] in layout.columns:
            position, data_type = layout.columns.index(item.path[0]), schema[item.path[0]].dataType
            try:
                if type(data_type) not in _CERTAIN:
                    raise CannotPush(f"Spark may read the texts of {data_type.simpleString()} in other ways")
                values = [parse_value(layout.values[file][position], data_type, "") for file in files]
                columns[name] = make_array(values, arrow_type(data_type))
            except (CannotPush, UnicodeError):
                unknown.add(name)
    residual = tree.find_residual(node, lambda leaf: leaf.column in unknown or leaf)
    return residual if isinstance(residual, Node) else None, pa.table(columns)


def find_layout(
    files: Sequence[str], paths: Sequence[str], options: Mapping[str, Any], schema: StructType | None, ignore_case: bool
) -> Layout:
    """Determine how Spark has interpreted the folders of the files that it listed.

    Parameters
    ----------
    files : results of `listed_path`.
    paths, options : arguments of the reader.
    schema : the resulting schema; None if the columns are to have their names in the folders.

    Raises
    ------
    CannotPush
        There are several possible interpretations.
    """
    lower_options = {name.lower(): str(value) for name, value in options.items()}
    authority = find_authority(files[0]) if files else ""
    roots = [normalize_path(path, authority) for path in paths]
    _refuse_overlap(roots, paths)
    if lower_options.get("recursivefilelookup", "").lower() == "true":
        return Layout()
    base_path = normalize_path(lower_options["basepath"], authority) if "basepath" in lower_options else None
    bases: set[str] = set()
    names: set[tuple[str, ...]] = set()
    values = {}
    for file in files:
        base = base_path or _find_base(file, roots)
        if not file.startswith(base.rstrip("/") + "/"):
            raise CannotPush(f"{file} is not below {base}")
        folders = os.path.dirname(file)[len(base.rstrip("/")) :].strip("/")
        pairs = [parse_folder(folder, _unescape) for folder in folders.split("/") if folder]
        if not all(pairs) and any(pairs):
            raise CannotPush(f"only some of the folders of {file} are partitions")
        partitions = [pair for pair in pairs if pair]
        bases.add(base)
        names.add(tuple(name for name, _ in partitions))
        values[file] = tuple(value for _, value in partitions)
    if len(names) > 1:
        raise CannotPush("the files' folders have different partition columns")
    (columns,) = names or {()}
    if not columns:
        return Layout()
    if len(bases) > 1:
        raise CannotPush("partitions begin at several folders")
    known = columns if schema is None else schema.names
    return Layout(bases.pop(), tuple(_find_column(name, known, ignore_case) for name in columns), values)


def _refuse_overlap(roots: Sequence[str], paths: Sequence[str]) -> None:
    """Refuse paths that overlap: Spark reads a file as often as it is given, but lists it once."""
    if len(roots) == 1:
        if "{" in paths[0] and not os.path.lexists(roots[0]):
            raise CannotPush("the alternatives of a pattern may name a file twice")
        return
    if any(is_pattern(path) and not os.path.lexists(root) for root, path in zip(roots, paths, strict=True)):
        raise CannotPush("several paths with patterns may name a file twice")
    ordered = sorted(root.split("/") for root in roots)  # paths below a folder directly follow it
    for path, following in pairwise(ordered):
        if following[: len(path)] == path:
            raise CannotPush(f"{'/'.join(following)} is given twice")


def _find_base(file: str, roots: Sequence[str]) -> str:
    """Return the folder that can contain a file's partitions: that of the path by which the file was listed."""
    for root in roots:
        if file == root:
            return os.path.dirname(file)
        if file.startswith(root.rstrip("/") + "/"):
            return root
    if len(roots) == 1 and is_pattern(roots[0]):  # each part of a pattern matches one folder
        parts = file.split("/")
        prefix = "/".join(parts[: len(roots[0].split("/"))])
        return os.path.dirname(file) if prefix == file else prefix
    raise CannotPush(f"{file} is below none of the paths given")


def _unescape(text: str) -> str:
    """Decode the name of a folder as Spark does: each escape is one character."""
    return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), text)


def _find_column(name: str, known: Sequence[str], ignore_case: bool) -> str:
    matches = [column for column in known if fold_case(column, ignore_case) == fold_case(name, ignore_case)]
    if len(matches) != 1:
        raise CannotPush(f"the folders' partition column '{name}' is not in the schema")
    return matches[0]
