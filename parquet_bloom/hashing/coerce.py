"""Literals -> the domain values of a column that can equal them, the bytes these are stored as, and their hashes.

A literal has a value (look for it), none (nothing in such a column equals it), or is unknown with a reason, so that
everything is read. Engines coerce differently across types (Spark compares a string column with a number as numbers,
so that '05' equals 5), so a literal of another family is never guessed at.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import chain, compress, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.scalar import ScalarHasher
from ..core.hash.xxh64 import Keys, hash_keys, hash_one
from ..util.arrow_values import from_numpy, make_array, to_numpy
from ..util.lazy import late_module
from ..util.messages import show_value
from .arrow_keys import keys_of, plain
from .column_type import NANOS_PER_DAY, UNITS_PER_SECOND, ColumnType, Domain, Kind, encode, integer_range

if TYPE_CHECKING:
    import fractions
    import zoneinfo

    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")
    fractions = late_module("fractions")
    zoneinfo = late_module("zoneinfo")


_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_EXACT_IN_DOUBLE = 1 << 53


class Coerced(NamedTuple):
    """Literals in a column's type.

    Attributes
    ----------
    values : domain values, in the order of their literals; a literal that no value equals has none.
    literals : for each value, the number of its literal.
    reasons : {number of a literal: reason why its value is unknown}.
    """

    values: Sequence[Domain]
    literals: Sequence[int]
    reasons: dict[int, str]

    @property
    def unknown(self) -> str | None:
        """The first reason why a value is unknown; None if all values are known."""
        return next(iter(self.reasons.values())) if self.reasons else None


def coerce(
    literals: Sequence[object] | pa.Array,
    column_type: ColumnType,
    timezone: str = "UTC",
    *,
    go_on: bool = False,
    with_texts: bool = False,
) -> Coerced:
    """Find the domain values of `column_type` that equal literals.

    Parameters
    ----------
    literals : None, bool, int, float, Decimal, str, bytes, date, time, datetime, UUID, or a temporal `pyarrow.Scalar`
        each. None equals nothing. NaN is always unknown.
    column_type : the column's type in the file.
    timezone : zone in which a datetime without one (and text) is read where the column holds instants.
    go_on : whether the literals after the first unknown one are coerced as well.
    with_texts : whether a text may be a whole number, as in the SQL of engines: `n = '15'`. They read other texts of
        numbers, such as '015', in different ways.
    """
    if type(literals) is not list and type(literals) is not tuple:
        literals = list_literals(literals) if isinstance(literals, pa.Array) else [*literals]
    if with_texts and column_type.kind is Kind.INTEGER:
        literals = [_read_integer(literal) if isinstance(literal, str) else literal for literal in literals]
    if (alike := _coerce_alike(literals, column_type)) is not None:
        return alike
    values: list[Domain] = []
    numbers: list[int] = []
    reasons: dict[int, str] = {}
    for number, literal in enumerate(literals):
        if literal is None:
            continue
        value = _find_value(literal, column_type, timezone)
        if value is None:
            reasons[number] = _explain(literal, column_type)
            if not go_on:
                break
        elif value is not _ABSENT:
            values.append(value)
            numbers.append(number)
    return Coerced(values, numbers, reasons)


def list_literals(array: pa.Array) -> list[object]:
    """Return the values of an array as literals; Python's own types do not hold nanoseconds."""
    array = plain(array)
    if not pa.types.is_temporal(array.type):
        return list(array.to_pylist())
    return [scalar if scalar.is_valid else None for scalar in array]


def _coerce_alike(literals: Sequence[Any], column_type: ColumnType) -> Coerced | None:
    """Coerce literals of one simple type at once; None where each has to be coerced by itself."""
    types = set(map(type, literals))
    numbers: Sequence[int] = range(len(literals))
    if type(None) in types:
        types.discard(type(None))
        numbers = [number for number, literal in enumerate(literals) if literal is not None]
        literals = [literals[number] for number in numbers]
    if not types:
        return Coerced([], [], {})
    if types == {int} and column_type.kind is Kind.INTEGER:
        low, high = integer_range(column_type)
        if low > min(literals) or max(literals) > high:
            numbers, literals = _select(numbers, literals, [low <= literal <= high for literal in literals])
        return Coerced(literals, numbers, {})
    if types == {str} and column_type.kind is Kind.STRING:
        try:
            return Coerced([*map(str.encode, literals)], numbers, {})
        except UnicodeEncodeError:
            return None
    if types == {bytes} and column_type.kind is Kind.STRING:
        return Coerced(literals, numbers, {})
    if types == {float} and column_type.physical == "DOUBLE" and all(literal == literal for literal in literals):
        return Coerced(literals, numbers, {})
    return None


T = TypeVar("T")


def _select(numbers: Sequence[int], values: Sequence[T], which: Sequence[bool]) -> tuple[list[int], list[T]]:
    return [*compress(numbers, which)], [*compress(values, which)]


def _find_value(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    """Return the value that equals a literal other than None: _ABSENT if there is none, None if it is unknown."""
    if isinstance(literal, pa.Scalar):
        return _arrow_scalar(literal, column_type, timezone)
    if isinstance(literal, float) and math.isnan(literal):
        return None
    handler = _HANDLERS.get(column_type.kind)
    return handler(literal, column_type, timezone) if handler else None


def _explain(literal: object, column_type: ColumnType) -> str:
    """Return why it is unknown what equals a literal."""
    if isinstance(literal, pa.Scalar) and not pa.types.is_temporal(literal.type):
        literal = literal.as_py()
    if isinstance(literal, float) and math.isnan(literal):
        return "NaN is not looked for in filters or ranges"
    problem = f"{show_value(literal, 40)} cannot be compared exactly with {column_type}"
    is_time = isinstance(literal, dt.date | dt.time | dt.timedelta | pa.Scalar)
    if is_time and column_type.kind is Kind.INTEGER:  # an Arrow schema may still say what they count
        return f"{problem}, which is stored without a unit of time"
    return problem


_OF_KIND: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.INTEGER: (int, float, decimal.Decimal),
    Kind.DECIMAL: (int, float, decimal.Decimal),
    Kind.FLOAT: (int, float, decimal.Decimal),
    Kind.DATE: (dt.date,),
    Kind.TIME: (dt.time,),
    Kind.TIMESTAMP: (dt.date,),
    Kind.STRING: (str, bytes, bytearray, memoryview),
    Kind.BYTES: (str, bytes, bytearray, memoryview),
    Kind.UUID: (uuid.UUID, bytes, bytearray, memoryview),
}
_BELOW_MICROSECONDS = re.compile(r"(\.\d{6})\d{1,3}(?!\d)")


def is_of_kind(literal: object, column_type: ColumnType) -> bool:
    """Return whether a literal is of the kind of a column's values, such as a number for a column of any numbers.

    `coerce` may still not know what equals it: a number that no double holds, an instant in a column of wall clocks.
    """
    kind = column_type.kind
    if kind not in _OF_KIND:
        return True
    if isinstance(literal, pa.Scalar):
        if pa.types.is_temporal(literal.type):
            return (kind is Kind.TIME) if pa.types.is_time(literal.type) else kind in (Kind.DATE, Kind.TIMESTAMP)
        literal = literal.as_py()
    if isinstance(literal, str) and kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP):
        parse = parse_time if kind is Kind.TIME else parse_timestamp
        return parse(_BELOW_MICROSECONDS.sub(r"\1", literal)) is not None
    if isinstance(literal, str) and kind is Kind.UUID:
        return _UUID_TEXT.fullmatch(literal) is not None
    return isinstance(literal, _OF_KIND[kind]) and (kind is Kind.BOOLEAN) == isinstance(literal, bool)


def stored_forms(values: Iterable[Domain], column_type: ColumnType) -> list[bytes]:
    """Return every byte string as which one of the values may be stored in the file."""
    return [*chain.from_iterable(map(encode, values, repeat(column_type)))]


def store_array(array: pa.Array, column_type: ColumnType) -> pa.Array | None:
    """Return the stored forms that `coerce` finds for an array, without an object for each value.

    Parameters
    ----------
    array : literals, none of them null. Those that the column cannot have are left out.

    Returns
    -------
    int32, int64 or any binary type, in order; None where each has to be coerced by itself.
    """
    types, kind = pa.types, column_type.kind
    if isinstance(array, pa.ExtensionArray) and (kind is not Kind.UUID or not isinstance(array.type, pa.UuidType)):
        return None
    array = plain(array)
    if kind is Kind.INTEGER and types.is_integer(array.type):
        numbers = to_numpy(array)
        least, most = np.iinfo(numbers.dtype).min, np.iinfo(numbers.dtype).max
        low, high = integer_range(column_type)
        if low > least or high < most:
            numbers = numbers[(numbers >= max(low, least)) & (numbers <= min(high, most))]
        return from_numpy(numbers.astype(_INTEGERS[column_type.physical]))
    if kind is Kind.DATE and types.is_date32(array.type):
        return array.view(pa.int32())
    is_text = types.is_string(array.type) or types.is_large_string(array.type) or types.is_string_view(array.type)
    if kind not in (Kind.STRING, Kind.BYTES, Kind.UUID) or (is_text and kind is Kind.UUID):
        return None
    if types.is_fixed_size_binary(array.type):
        return array if column_type.length in (None, array.type.byte_width) else array[:0]
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    elif is_text:
        array = array.view(pa.binary() if types.is_string(array.type) else pa.large_binary())
    elif not types.is_binary(array.type) and not types.is_large_binary(array.type):
        return None
    if is_text and kind is Kind.BYTES and pc.any(pc.match_substring(array, "\\x")).as_py():
        return None  # perhaps a byte that is escaped, see `_bytes`
    return array if column_type.length is None else array.filter(pc.equal(pc.binary_length(array), column_type.length))


class HashedLiterals(NamedTuple):
    """Hashes of literals in a column's type.

    Attributes
    ----------
    hashes : uint64, of every stored form of each literal's value, in the order of the literals.
    literals : intp, of the same length: the number of the literal that each hash belongs to, ascending.
    reasons : {number of a literal: reason why its hashes are unknown}.
    """

    hashes: NDArray[np.uint64]
    literals: NDArray[np.intp]
    reasons: dict[int, str]


def hash_literals(
    literals: Sequence[object] | pa.Array,
    column_type: ColumnType,
    timezone: str = "UTC",
    hash_function: Callable[[Keys], NDArray[np.uint64]] = hash_keys,
) -> HashedLiterals:
    """Return the hashes of literals; see `coerce` and `hash_all`."""
    values, numbers, reasons = coerce(literals, column_type, timezone, go_on=True)
    hashes, first_hash = hash_all(values, column_type, hash_function)
    return HashedLiterals(hashes, np.repeat(np.array(numbers, np.intp), np.diff(first_hash)), reasons)


def hash_all(
    values: Sequence[Domain],
    column_type: ColumnType,
    hash_function: Callable[[Keys], NDArray[np.uint64]] = hash_keys,
) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of every stored form of some values: a filter without any of them has no such value.

    Parameters
    ----------
    values : domain values.
    column_type : the column's type, which is hashable.
    hash_function : of another kind of filter.

    Returns
    -------
    hashes : uint64, those of the first value first.
    first_hash : intp of length `len(values) + 1`; `hashes[first_hash[i]:first_hash[i + 1]]` belong to `values[i]`.
    """
    physical = column_type.physical
    if len(values) == 1 and hash_function is hash_keys:  # takes a third of the time this way
        hashes = np.array([*map(hash_one, encode(values[0], column_type))], np.uint64)
        return hashes, np.array([0, len(hashes)], np.intp)
    counts = np.ones(len(values), np.intp)
    if column_type.kind is Kind.FLOAT and physical in _FLOATS:
        floats = np.array(values, _FLOATS[physical])
        zeros = np.flatnonzero(floats == 0)
        counts[zeros] = 2
        forms = np.repeat(floats, counts)
        first_zeros = zeros + np.arange(len(zeros))
        forms[first_zeros], forms[first_zeros + 1] = 0.0, -0.0
        keys = Keys.fixed(forms, forms.itemsize, len(forms))
    elif physical in _INTEGERS:
        wide = np.array(values, np.int64 if column_type.signed else np.uint64)
        forms = wide.astype(_INTEGERS[physical])  # narrow integers are stored extended, by their sign
        keys = Keys.fixed(forms, forms.itemsize, len(forms))
    elif physical == "BYTE_ARRAY" and column_type.kind is not Kind.DECIMAL:
        keys = keys_of(make_array(values, pa.large_binary()))
    else:
        of_each = [encode(value, column_type) for value in values]
        counts = np.array([*map(len, of_each)], np.intp)
        keys = keys_of(make_array([form for some in of_each for form in some], pa.large_binary()))
    first_hash = np.zeros(len(values) + 1, np.intp)
    np.cumsum(counts, out=first_hash[1:])
    return hash_function(keys), first_hash


def make_scalar_hasher(column_type: ColumnType) -> ScalarHasher:
    """Return what hashes single literals of the common kinds, as `hash_literals` does, without a batch."""
    kind, length = column_type.kind, column_type.length
    if kind is Kind.INTEGER and length in (4, 8):
        return ScalarHasher.integers(length, *integer_range(column_type))
    if kind is Kind.FLOAT and length in (4, 8):
        return ScalarHasher.floats(length)
    if kind is Kind.STRING:
        return ScalarHasher.strings(-1, texts=True, backslashes=True)
    if kind is Kind.BYTES:
        return ScalarHasher.strings(-1 if length is None else length, texts=True, backslashes=False)
    return ScalarHasher.strings(16, texts=False, backslashes=False) if kind is Kind.UUID else ScalarHasher()


_FLOATS = {"FLOAT": "<f4", "DOUBLE": "<f8"}
_INTEGERS = {"INT32": "<i4", "INT64": "<i8"}


# ------------------------------------------------------------------------------------------- one handler a kind
# Each returns the value, _ABSENT where no value equals the literal, or None where it is unknown.


class _Absent(Enum):
    ABSENT = 0


_ABSENT = _Absent.ABSENT
_Found = Domain | _Absent | None


def _in_range(value: int, column_type: ColumnType) -> _Found:
    low, high = integer_range(column_type)
    return value if low <= value <= high else _ABSENT


_INTEGER_TEXT = re.compile(r"-?(?:0|[1-9][0-9]{0,39})")


def _read_integer(text: str) -> int | str:
    return int(text) if _INTEGER_TEXT.fullmatch(text) else text


def _integer(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int):
        return _in_range(literal, column_type)
    if isinstance(literal, decimal.Decimal) and literal.is_finite():
        if literal and literal.adjusted() > 40:  # far outside of any range, and too long to write out
            return _ABSENT
        return _in_range(int(literal or 0), column_type) if literal == literal.to_integral_value() else _ABSENT
    if isinstance(literal, float):
        if math.isinf(literal) or literal != math.floor(literal):
            return _ABSENT
        # Past 2^53 an engine that compares as doubles lets several integers equal the literal.
        return _in_range(int(literal), column_type) if abs(literal) < _EXACT_IN_DOUBLE else None
    return None


def _decimal(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, float):
        # Decimals of up to 15 digits and doubles match one to one, by the shortest text; past that several decimals
        # are the same double.
        if math.isinf(literal):
            return _ABSENT
        if (column_type.precision or 99) > 15 and not _tells_apart(literal, column_type):
            return None
        literal = decimal.Decimal(repr(float(literal)))  # NumPy's own repr names its type
        nearest = literal.quantize(decimal.Decimal(1).scaleb(-column_type.scale), context=_WIDE)
        if float(nearest) != float(literal):
            return _ABSENT
        literal = nearest
    if isinstance(literal, int):
        return _in_range(literal * 10**column_type.scale, column_type) if column_type.scale >= 0 else None
    if isinstance(literal, decimal.Decimal) and literal.is_finite():
        if not -100 < literal.adjusted() < 100:  # far beyond any decimal's digits, and too long to write out
            return _ABSENT if literal else 0
        unscaled = literal.scaleb(column_type.scale, _EXACT)
        return _in_range(int(unscaled), column_type) if unscaled == unscaled.to_integral_value() else _ABSENT
    return None


def _tells_apart(literal: float, column_type: ColumnType) -> bool:
    """Return whether doubles near a literal tell decimals of a type apart, however engines make doubles of these."""
    return fractions.Fraction(1, 10**column_type.scale) >= _ULPS * fractions.Fraction(math.ulp(literal))


_ULPS = 16  # more than engines' conversions are off by
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_WIDE = decimal.Context(prec=800)
_FLOAT_FORMATS = {2: "<e", 4: "<f"}


def _float(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int):
        if abs(literal) > _EXACT_IN_DOUBLE:
            return None
        literal = float(literal)
    elif isinstance(literal, decimal.Decimal):
        if not literal.is_finite():
            return None
        exact, literal = literal, float(literal)  # SQL's 0.1 means the float nearest to it
        if column_type.length != 8 and math.isfinite(literal):
            # Avoid double rounding: a tie produced by the first rounding is broken by the digits that it dropped.
            rest = exact.compare(decimal.Decimal.from_float(literal), _WIDE)
            literal = math.nextafter(literal, math.inf * int(rest)) if rest else literal
    if not isinstance(literal, float):
        return None
    # In narrower floats the literal means its nearest value, as in DuckDB; an engine that widens the column instead
    # (Spark, pyarrow) finds no row there unless both are the same.
    return _narrow(literal, column_type.length or 8)


def _narrow(value: float, width: int) -> float:
    if width == 8:
        return value
    try:
        return float(struct.unpack(_FLOAT_FORMATS[width], struct.pack(_FLOAT_FORMATS[width], value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _string(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, str):
        return _encode_text(literal)
    return bytes(literal) if isinstance(literal, bytes | bytearray | memoryview) else None


def _encode_text(text: str) -> _Found:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate: no UTF-8 column holds it
        return _ABSENT


_ESCAPED_BYTE = re.compile(r"\\x[0-9a-fA-F]{2}")


def _bytes(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, str) and _ESCAPED_BYTE.search(literal):
        return None  # DuckDB reads it as the byte that is escaped
    found = _string(literal, column_type, timezone)
    fits = not isinstance(found, bytes) or column_type.length in (None, len(found))
    return found if fits else _ABSENT


_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _uuid(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, uuid.UUID):
        return literal.bytes
    if isinstance(literal, str):
        return uuid.UUID(literal).bytes if _UUID_TEXT.fullmatch(literal) else None
    if isinstance(literal, bytes | bytearray | memoryview):
        return bytes(literal) if len(literal) == 16 else _ABSENT
    return None


def _boolean(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    return literal if isinstance(literal, bool) else None


def _date(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, str):
        literal = parse_date(literal)
    if isinstance(literal, dt.datetime):
        if literal.tzinfo is not None:
            return None  # which day an instant falls on depends on the engine's zone
        if literal.time() != dt.time():
            return _ABSENT
    return literal.toordinal() - _EPOCH_DAY if isinstance(literal, dt.date) else None


def _time(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, str):
        return _unless_cut(_time(parse_time(literal), column_type, timezone))
    if not isinstance(literal, dt.time) or literal.tzinfo is not None:
        return None
    seconds = (literal.hour * 60 + literal.minute) * 60 + literal.second
    return _from_nanos((seconds * 1_000_000 + literal.microsecond) * 1_000, column_type)


def _from_nanos(nanos: int, column_type: ColumnType) -> _Found:
    """Convert nanoseconds to the column's unit; absent where the unit is too coarse to hold them."""
    count, rest = divmod(nanos, 1_000_000_000 // UNITS_PER_SECOND[column_type.unit or "ns"])
    return _ABSENT if rest else _in_range(count, column_type)


def _unless_cut(found: _Found) -> _Found:
    """Return the result for a text; None where it has digits below the column's unit, which DuckDB truncates."""
    return None if found is _ABSENT else found


def _timestamp(literal: object, column_type: ColumnType, timezone: str) -> _Found:
    if isinstance(literal, str):
        return _unless_cut(_timestamp(parse_timestamp(literal), column_type, timezone))
    if isinstance(literal, dt.date) and not isinstance(literal, dt.datetime):
        literal = dt.datetime.combine(literal, dt.time())
    if not isinstance(literal, dt.datetime):
        return None
    if literal.tzinfo is not None:
        if column_type.utc is False:
            return None  # an instant against a wall clock: the engine's zone decides
    elif column_type.utc is not False:
        zoned = _in_zone(literal, timezone)
        if zoned is None:
            return None
        literal = zoned
    try:
        moment = literal if literal.tzinfo is None else literal.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        return None
    below = getattr(literal, "nanosecond", 0)  # of pandas' subclass
    return _from_nanos((moment - _EPOCH) // dt.timedelta(microseconds=1) * 1_000 + below, column_type)


def _in_zone(moment: dt.datetime, timezone: str) -> dt.datetime | None:
    """Return a wall-clock time as an instant of a zone; None where a clock change skips or repeats it."""
    if timezone in ("UTC", "Z", "+00:00"):
        return moment.replace(tzinfo=dt.UTC)
    zone = _find_arrow_zone(timezone)
    if zone is None:
        return None
    first, second = moment.replace(tzinfo=zone, fold=0), moment.replace(tzinfo=zone, fold=1)
    return first if first.utcoffset() == second.utcoffset() else None


_OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3]):?([0-5][0-9])")
# Other files in the folder of zones, for which `ZoneInfo` raises ValueError, have a dot or begin with a small letter.
_ZONE_NAME = re.compile(r"localtime|(posix/|right/)?[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")


@lru_cache(maxsize=64)
def find_zone(name: str) -> dt.tzinfo | None:
    """Return a time zone by its name, without offsets; None if there is none."""
    if name == "UTC":
        return dt.UTC
    if not _ZONE_NAME.fullmatch(name):
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, OSError):
        return None


def _find_arrow_zone(timezone: str) -> dt.tzinfo | None:
    """Return a time zone of an Arrow type, which may be an offset."""
    if match := _OFFSET.fullmatch(timezone):
        offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return dt.timezone(-offset if match[1] == "-" else offset)
    return find_zone(timezone)


def _arrow_scalar(literal: pa.Scalar, column_type: ColumnType, timezone: str) -> _Found:
    """Coerce an Arrow scalar; its dates and times hold nanoseconds and years that Python's cannot."""
    kind, arrow_type = column_type.kind, literal.type
    if not literal.is_valid:
        return _ABSENT
    if pa.types.is_timestamp(arrow_type):
        nanos = literal.value * (1_000_000_000 // UNITS_PER_SECOND[arrow_type.unit])
        if kind in (Kind.TIMESTAMP, Kind.DATE):
            return _moment(nanos, arrow_type.tz is not None, column_type, timezone)
    elif pa.types.is_date32(arrow_type) or (pa.types.is_date64(arrow_type) and literal.value % 86_400_000 == 0):
        day = literal.value if pa.types.is_date32(arrow_type) else literal.value // 86_400_000
        if kind in (Kind.TIMESTAMP, Kind.DATE):
            return _moment(day * NANOS_PER_DAY, False, column_type, timezone)
    elif pa.types.is_time(arrow_type):
        if kind is Kind.TIME:
            return _from_nanos(literal.value * (1_000_000_000 // UNITS_PER_SECOND[arrow_type.unit]), column_type)
    elif not pa.types.is_temporal(arrow_type):
        return _find_value(literal.as_py(), column_type, timezone)
    return None


def _moment(nanos: int, zoned: bool, column_type: ColumnType, timezone: str) -> _Found:
    """Coerce nanoseconds since 1970, of an instant if `zoned`, else of a wall clock; None where unknown."""
    if column_type.kind is Kind.DATE:
        day, rest = divmod(nanos, NANOS_PER_DAY)
        return None if zoned else _ABSENT if rest else _in_range(day, column_type)
    if zoned == (column_type.utc is not False):
        return _from_nanos(nanos, column_type)
    if zoned:
        return None
    micros, below = divmod(nanos, 1_000)  # a wall clock for a column of instants: shifted as a datetime is
    try:
        shifted = _timestamp(_EPOCH + dt.timedelta(microseconds=micros), _MICROS, timezone)
    except OverflowError:
        return None
    return _from_nanos(shifted * 1_000 + below, column_type) if isinstance(shifted, int) else None


_MICROS = ColumnType("INT64", Kind.TIMESTAMP, 8, unit="us", utc=True)

_HANDLERS = {
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.STRING: _string,
    Kind.BYTES: _bytes,
    Kind.UUID: _uuid,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
}

# ------------------------------------------------------------------------------------------- text to dates and times
# Only the unambiguous ISO forms are parsed.

_DATE_TEXT = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])")
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"
_TIME_TEXT = re.compile(_TIME)
_TIMESTAMP_TEXT = re.compile(rf"([0-9-]{{10}})[ T]({_TIME}) ?(Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?")
_LAST_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_date(text: str) -> dt.date | None:
    """Parse a date such as `2026-01-31`; None for anything else."""
    match = _DATE_TEXT.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    last = 29 if month == 2 and is_leap else _LAST_DAYS[month - 1]
    return dt.date(year, month, day) if year and 1 <= day <= last else None


def parse_time(text: str) -> dt.time | None:
    """Parse a time such as `12:30`, `12:30:01` or `12:30:01.25`; None for anything else."""
    return dt.time.fromisoformat(text.strip()) if _TIME_TEXT.fullmatch(text.strip()) else None


def parse_timestamp(text: str) -> dt.datetime | None:
    """Parse a date, or a date and a time with or without a UTC offset; None for anything else."""
    text = text.strip()
    day = parse_date(text)
    if day is not None:
        return dt.datetime.combine(day, dt.time())
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None or parse_date(match[1]) is None:
        return None
    return dt.datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3] or ''}")


_NANOS = 10**9
_NO_ORDER = "values of {} have no order to compare by"


@dataclass(frozen=True, slots=True)
class LiteralBounds:
    """Nearest values of a column on either side of a literal.

    Attributes
    ----------
    at_most : the largest value <= the literal; None when there is none.
    at_least : the smallest value >= the literal; None when there is none. Where several values equal the literal, it
        is below `at_most`.
    unknown : reason why the bounds are unknown; None when they are exact.
    """

    at_most: Domain | None = None
    at_least: Domain | None = None
    unknown: str | None = None


def make_bounds(literal: object, column_type: ColumnType, timezone: str = "UTC") -> LiteralBounds:
    """Return the bounds of a literal (see `coerce.coerce`; neither NULL nor NaN) among a column's values.

    The literal is interpreted as in an equality: as the nearest float in a float column, as an instant in `timezone`
    where it has no zone. A literal that equality cannot compare exactly has no bounds either.
    """
    kind = column_type.kind
    if kind is Kind.UNKNOWN or (kind is Kind.BYTES and isinstance(literal, str) and "\\" in literal):
        return LiteralBounds(
            unknown=_NO_ORDER.format(column_type) if kind is not Kind.BYTES else "a text with a backslash"
        )
    if kind in (Kind.TIMESTAMP, Kind.TIME, Kind.DATE):
        return _temporal(literal, column_type, timezone)
    if kind in (Kind.INTEGER, Kind.DECIMAL):
        return _number(literal, column_type, timezone)
    if kind in (Kind.STRING, Kind.BYTES):
        # A literal of another length than the column's fixed length still has a position in the order.
        column_type = replace(column_type, physical="BYTE_ARRAY", length=None)
    return _exactly(literal, column_type, timezone)


def _exactly(literal: object, column_type: ColumnType, timezone: str) -> LiteralBounds:
    coerced = coerce([literal], column_type, timezone)
    if coerced.unknown is not None:
        return LiteralBounds(unknown=coerced.unknown)
    if not coerced.values:
        return LiteralBounds(unknown=f"{type(literal).__name__} cannot be ordered among values of {column_type}")
    return LiteralBounds(coerced.values[0], coerced.values[0])


def _number(literal: object, column_type: ColumnType, timezone: str) -> LiteralBounds:
    scale = column_type.scale or 0 if column_type.kind is Kind.DECIMAL else 0
    if isinstance(literal, str) and column_type.kind is Kind.INTEGER and _INTEGER_TEXT.fullmatch(literal):
        literal = int(literal)
    if isinstance(literal, bool) or not isinstance(literal, int | float | decimal.Decimal):
        return _exactly(literal, column_type, timezone)
    if isinstance(literal, float):
        if math.isinf(literal):
            low, high = integer_range(column_type)
            return LiteralBounds(None, low) if literal < 0 else LiteralBounds(high, None)
        if column_type.kind is Kind.DECIMAL and not _tells_apart(literal, column_type):
            return _between(*_find_rounded(literal, scale), column_type)
        coerced = coerce([literal], column_type, timezone)
        if coerced.unknown is not None:
            return LiteralBounds(unknown=coerced.unknown)
        if coerced.values:
            return LiteralBounds(coerced.values[0], coerced.values[0])
    elif isinstance(literal, decimal.Decimal) and not (literal.is_finite() and -400 < literal.adjusted() < 400):
        return LiteralBounds(unknown=f"this Decimal cannot be ordered among values of {column_type}")
    exact = literal * 10**scale if isinstance(literal, int) else fractions.Fraction(literal) * 10**scale
    return _between(math.floor(exact), math.ceil(exact), column_type)


def _find_rounded(value: float, scale: int) -> tuple[int, int]:
    """Return the largest decimal that is rounded to a double or less, and the least that is rounded to it or more.

    Spark and DuckDB compare a decimal with a double as doubles: of several decimals that are rounded to the same one,
    all equal it. Both are returned unscaled.
    """
    exact, is_even = fractions.Fraction(value), int(math.frexp(value)[0] * _EXACT_IN_DOUBLE) % 2 == 0
    low, high = (
        (exact + fractions.Fraction(math.nextafter(value, end))) / 2 * 10**scale for end in (-math.inf, math.inf)
    )
    at_most, at_least = math.floor(high), math.ceil(low)
    return at_most - (at_most == high and not is_even), at_least + (at_least == low and not is_even)


def _between(below: int, above: int, column_type: ColumnType) -> LiteralBounds:
    """Return the bounds of what lies between two integers, or is one of them, within the column's range."""
    low, high = integer_range(column_type)
    return LiteralBounds(
        None if below < low else min(below, high),
        None if above > high else max(above, low),
    )


def _temporal(literal: object, column_type: ColumnType, timezone: str) -> LiteralBounds:
    """Return the bounds of dates and times, by way of a column of the same kind in nanoseconds."""
    if column_type.kind is Kind.DATE:
        fine, per_value = ColumnType("INT64", Kind.TIMESTAMP, 8, unit="ns", utc=False), NANOS_PER_DAY
    else:
        fine = replace(column_type, physical="INT64", length=8, unit="ns")
        per_value = _NANOS // UNITS_PER_SECOND[column_type.unit or "ns"]
    wide = coerce([literal], fine, timezone)
    if wide.values:
        nanos = wide.values[0]
    else:  # nanoseconds do not reach as far as a literal does
        coarse = coerce([literal], replace(fine, unit="us"), timezone)
        if wide.unknown is not None or not coarse.values:
            return _exactly(literal, column_type, timezone)
        exact = fractions.Fraction(1_000 * int(coarse.values[0]), per_value)
        return _between(math.floor(exact), math.ceil(exact), column_type)
    assert isinstance(nanos, int)
    below, rest = divmod(nanos, per_value)
    if rest and isinstance(literal, str):  # some engines truncate such digits before they compare
        return LiteralBounds(unknown=f"{literal!r} has digits below the unit of {column_type}")
    return LiteralBounds(below, below + bool(rest))
