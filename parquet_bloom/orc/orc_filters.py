"""Hashes of values in ORC's filters."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..core.hash import orc_murmur3 as orc_hash
from ..core.hash.orc_murmur3 import hash_bytes, hash_longs
from ..errors import FilterTypeError, MalformedOrcError, first_line
from ..hashing.arrow_keys import chunks_of, plain
from ..hashing.column_type import UNITS_PER_SECOND, ColumnType, Domain, Kind
from ..metadata.protobuf import read_bloom_filter
from ..predicate.pruning_statistics import KeyHasher, PruningStatistics
from .orc_schema import OrcLeaf
from .orc_statistics import GREGORIAN_DAY, SETTLED_MS, ZONED_MS
from .orc_tail import BLOOM_FILTER, FILTER_KINDS, OrcTail

if TYPE_CHECKING:
    from ..util.given_types import ArrowScalar, Values

DAY_MS = 86_400_000

Numbers = list[tuple[NDArray[np.intp], NDArray[np.int64]]]


def encode_floats(values: NDArray[np.float64]) -> Numbers:
    """Return the bits of doubles; for a zero, those of both signs."""
    bits = values.view(np.int64)
    zeros = np.flatnonzero(values == 0)
    return [(np.arange(len(values)), bits), (zeros, bits[zeros] ^ np.int64(-(1 << 63)))]


def encode_dates(days: NDArray[np.int64]) -> Numbers:
    """Return days since 1970; for dates before the Gregorian calendar also those of the date in the other calendar."""
    return _encode_in_both_calendars(days, days, 1)


def encode_timestamps(milliseconds: NDArray[np.int64], fractions: NDArray[np.bool_]) -> Numbers:
    """Return milliseconds since 1970, rounded down; `fractions` marks timestamps that are not whole seconds.

    Before 1970 writers rounded fractions of a second either way, and around 1970, in the writer's zone, shifted
    them by a second.
    """
    forms = _encode_in_both_calendars(milliseconds, milliseconds // DAY_MS, DAY_MS)
    early = fractions & (milliseconds < 2 * DAY_MS)
    if early.any():
        for owners, numbers in list(forms):
            selected = early[owners]
            forms += [(owners[selected], numbers[selected] + shift) for shift in (-1_000, -999, 1, 1_000, 1_001)]
    return forms


def _encode_in_both_calendars(numbers: NDArray[np.int64], days: NDArray[np.int64], unit: int) -> Numbers:
    forms = [(np.arange(len(numbers)), numbers)]
    early = np.flatnonzero(days < GREGORIAN_DAY)
    if len(early):
        years = 1970 + days[early] // 365
        between = years // 100 - years // 400 - 2  # days between the calendars, except at the turn of a century
        forms += [
            (early, numbers[early] + sign * (between + more) * unit) for sign in (-1, 1) for more in (-2, -1, 0, 1, 2)
        ]
    return forms


def encode_char(text: bytes, length: int | None) -> set[bytes]:
    """Return a CHAR value as it is, without trailing spaces, and padded with spaces to the length of the column."""
    stripped = text.rstrip(b" ")
    missing = (length or 0) - len(stripped.decode("utf-8", "replace"))
    return {text, stripped, stripped + b" " * max(0, missing)}


def encode_decimal(unscaled: int, scale: int) -> set[bytes]:
    """Return the digits of a decimal, with and without trailing zeros of its fraction."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    integer, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    sign = "-" if unscaled < 0 else ""
    short = fraction.rstrip("0")
    return {f"{sign}{integer}{'.' * bool(part)}{part}".encode() for part in (short, fraction)}


def hash_numbers(forms: Numbers) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of numbers and the index of the value of each, ascending."""
    hashes = np.concatenate([hash_longs(np.ascontiguousarray(numbers, np.int64)) for _, numbers in forms])
    owners = np.concatenate([owners for owners, _ in forms])
    order = np.argsort(owners, kind="stable")
    return hashes[order], owners[order]


def hash_byte_sets(forms: Sequence[set[bytes]]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes of values with sets of bytes as encodings, and the index of the value of each."""
    owners = np.repeat(np.arange(len(forms)), [len(each) for each in forms])
    return hash_texts(pa.array([form for each in forms for form in each], pa.large_binary())), owners


def hash_texts(array: pa.Array) -> NDArray[np.uint64]:
    """Return the hash of each value of a binary array; those of nulls are meaningless."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.empty(0, np.uint64)
    used = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return hash_bytes(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), used)


HashedForms = tuple[NDArray[np.uint64], NDArray[np.intp]]


def hash_values(values: Sequence[Domain], column_type: ColumnType) -> HashedForms:
    """Return the hashes of all encodings of values that a filter may contain (see `coerce.hash_all`)."""
    return _group_by_value(_hash_forms(values, column_type), len(values))


@dataclass(frozen=True)
class CharKeyHasher:
    """`hash_values` for a CHAR column, which pads its strings to its length in code points."""

    length: int | None

    def __call__(self, values: Sequence[Domain], column_type: ColumnType) -> HashedForms:
        texts = [value if isinstance(value, bytes) else b"" for value in values]
        return _group_by_value(hash_byte_sets([encode_char(text, self.length) for text in texts]), len(values))


_make_char_hasher = lru_cache(maxsize=256)(CharKeyHasher)


def keying_of(leaf: OrcLeaf) -> KeyHasher:
    """Return the function that hashes values for filters of a column: `hash_values`, unless it is a CHAR column."""
    return _make_char_hasher(leaf.length) if leaf.kind == "CHAR" else hash_values


def _hash_forms(values: Sequence[Any], column_type: ColumnType) -> HashedForms:
    kind = column_type.kind
    if kind is Kind.FLOAT:
        return hash_numbers(encode_floats(np.array(values, np.float64)))
    if kind is Kind.DATE:
        return hash_numbers(encode_dates(np.array(values, np.int64)))
    if kind is Kind.TIMESTAMP and column_type.physical == "INT96":
        milliseconds = np.array([value // 1_000_000 for value in values], np.int64)
        fractions = np.array([value % 1_000_000_000 != 0 for value in values], np.bool_)
        return hash_numbers(encode_timestamps(milliseconds, fractions))
    if kind is Kind.DECIMAL:
        return hash_byte_sets([encode_decimal(value, column_type.scale) for value in values])
    if column_type.physical == "BYTE_ARRAY":
        return hash_texts(pa.array(values, pa.large_binary())), np.arange(len(values))
    return hash_numbers([(np.arange(len(values)), np.array(values, np.int64))])


def _group_by_value(hashed: HashedForms, count: int) -> HashedForms:
    hashes, owners = hashed
    return hashes, np.searchsorted(owners, np.arange(count + 1)).astype(np.intp)


@dataclass(frozen=True)
class Probes:
    """The hashes to look up in a filter for an array of values.

    Attributes
    ----------
    count : number of values.
    hashes, owners : hash of each encoding, and the index of its value.
    hidden : bool; values that filters do not contain, NULL and NaN, which may always be present.
    """

    count: int
    hashes: NDArray[np.uint64]
    owners: NDArray[np.intp]
    hidden: NDArray[np.bool_]

    def answer(self, check: Callable[[NDArray[np.uint64]], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return which values may be present."""
        present = self.hidden.copy()
        present[self.owners[check(self.hashes)]] = True
        return present


def make_probes(array: pa.Array, leaf: OrcLeaf) -> Probes:
    """Make the probes of a column's filters for Arrow values, of the types that pyarrow reads from ORC or similar ones.

    Raises
    ------
    FilterTypeError
        The values are of another kind than those of the column.
    """
    array = plain(array)
    hidden = np.asarray(array.is_null(), np.bool_)
    try:
        hashes, owners = _hash_array(array, leaf, hidden)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        problem = f"values of {array.type} do not fit a column of {leaf.column_type.name}: {first_line(error)}"
        raise FilterTypeError(problem) from error
    return Probes(len(array), hashes, owners, hidden)


def _hash_array(array: pa.Array, leaf: OrcLeaf, hidden: NDArray[np.bool_]) -> HashedForms:
    column_type, given = leaf.column_type, array.type
    types, kind = pa.types, leaf.column_type.kind
    texts = types.is_string(given) or types.is_large_string(given) or types.is_string_view(given)
    blobs = types.is_binary(given) or types.is_large_binary(given) or types.is_binary_view(given)
    if types.is_null(given):
        return np.empty(0, np.uint64), np.empty(0, np.intp)
    if column_type.physical == "BYTE_ARRAY" and kind in (Kind.STRING, Kind.BYTES) and (texts or blobs):
        if leaf.kind == "CHAR":
            return hash_byte_sets([encode_char(text or b"", leaf.length) for text in _to_bytes(array)])
        return hash_texts(array), np.arange(len(array))
    if kind is Kind.FLOAT and (types.is_integer(given) or types.is_floating(given)):
        doubles = _to_doubles(array).astype(np.float32 if leaf.kind == "FLOAT" else np.float64)
        hidden |= np.isnan(doubles)
        return hash_numbers(encode_floats(doubles.astype(np.float64)))
    if kind is Kind.DECIMAL and (types.is_decimal(given) or types.is_integer(given)):
        return hash_byte_sets([_encode_decimal(value, column_type.scale) for value in array.to_pylist()])
    if types.is_integer(given) and column_type.physical in ("INT32", "INT64") and kind is not Kind.DATE:
        return hash_numbers([(np.arange(len(array)), _to_integers(array))])
    if kind is Kind.DATE and types.is_date(given):
        return hash_numbers(encode_dates(_to_integers(array.cast(pa.date32()).view(pa.int32()))))
    if kind is Kind.TIMESTAMP and types.is_date(given) and column_type.utc is False:
        array, given = array.cast(pa.timestamp("ms")), pa.timestamp("ms")
    if kind is Kind.TIMESTAMP and types.is_timestamp(given) and (given.tz is None) == (column_type.utc is False):
        return _hash_timestamps(_to_integers(array.view(pa.int64())), given.unit, column_type)
    raise ValueError("they are of another kind")


def _to_bytes(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = array.cast(pa.large_binary()).to_pylist()
    return values


def _to_integers(array: pa.Array) -> NDArray[np.int64]:
    """Cast without loss (ArrowInvalid otherwise), with 0 for nulls."""
    return np.ascontiguousarray(pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def _to_doubles(array: pa.Array) -> NDArray[np.float64]:
    """Cast without loss (ArrowInvalid otherwise), with 0 for nulls."""
    return np.ascontiguousarray(pc.fill_null(array.cast(pa.float64()), 0).to_numpy(zero_copy_only=False))


def _encode_decimal(value: decimal.Decimal | int | None, scale: int) -> set[bytes]:
    if value is None:
        return set()
    sign, digits, exponent = _split_decimal(value)
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    encoded = encode_decimal(unscaled * 10 ** max(0, exponent), max(0, -exponent))
    if -exponent <= scale:
        encoded |= encode_decimal(unscaled * 10 ** (scale + exponent), scale)
    return encoded


def _split_decimal(value: decimal.Decimal | int) -> tuple[int, Sequence[int], int]:
    if isinstance(value, int):
        return int(value < 0), [int(digit) for digit in str(abs(value))], 0
    sign, digits, exponent = value.as_tuple()
    return sign, digits, int(exponent)


def _hash_timestamps(counts: NDArray[np.int64], unit: str, column_type: ColumnType) -> HashedForms:
    per_second = UNITS_PER_SECOND[unit]
    if column_type.physical == "INT64":  # stored as microseconds
        if per_second > 1_000_000:
            counts, remainder = np.divmod(counts, per_second // 1_000_000)
            counts = np.where(remainder == 0, counts, np.iinfo(np.int64).max)  # the column cannot store such a value
        else:
            counts = _multiply(counts, 1_000_000 // per_second)
        return hash_numbers([(np.arange(len(counts)), counts)])
    milliseconds = counts // (per_second // 1_000) if per_second >= 1_000 else _multiply(counts, 1_000)
    return hash_numbers(encode_timestamps(milliseconds, counts % per_second != 0))


def _multiply(counts: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    if len(counts) and int(np.abs(counts).max()) > np.iinfo(np.int64).max // factor - (1 << 40):
        raise OverflowError("a timestamp is out of range")
    return counts * factor


_MAX_BITS = 1 << 31


@dataclass(eq=False, repr=False)
class OrcFilter:
    """The filter of one column in one row group.

    Attributes
    ----------
    leaf, column, column_id : the column; `column` is its dotted path.
    stream, kind : number and name of the kind of stream, "BLOOM_FILTER" or "BLOOM_FILTER_UTF8".
    stripe, row_group : the rows; `row_group` is numbered within the stripe.
    bitset : the bits, as little-endian words.
    num_hash_functions, num_bits : k and m; 0 if the filter is unreadable, see `problem`.
    problem : error in its bytes, or None.
    fault : why filters of its writer cannot be trusted, or None.
    """

    leaf: OrcLeaf
    stream: int
    stripe: int
    row_group: int
    bitset: bytes = b""
    num_hash_functions: int = 0
    problem: str | None = None
    fault: str | None = None

    @property
    def column(self) -> str:
        return self.leaf.name

    @property
    def column_id(self) -> int:
        return self.leaf.column_id

    @property
    def kind(self) -> str:
        return FILTER_KINDS[self.stream]

    @property
    def num_bits(self) -> int:
        return 8 * len(self.bitset)

    def __repr__(self) -> str:
        location = f"stripe {self.stripe}, row group {self.row_group}, column '{self.column}'"
        return f"<OrcFilter {location}: {self.num_bits} bits>"

    @property
    def doubt(self) -> str | None:
        """Return why it must answer "maybe" to everything; None when it can be trusted."""
        return self.problem or self.fault

    @property
    def trusted(self) -> bool:
        """Return whether its answers can be used."""
        return self.doubt is None

    @property
    def fill(self) -> float:
        """Return the fraction of set bits; 0 for a filter without bits."""
        if not self.num_bits:
            return 0.0
        return int(np.bitwise_count(np.frombuffer(self.bitset, np.uint8)).sum()) / self.num_bits

    @property
    def fpp(self) -> float:
        """Return the false-positive probability, from the set bits."""
        return self.fill**self.num_hash_functions if self.num_bits else 1.0

    @property
    def ndv_estimate(self) -> float:
        """Return the estimated number of distinct values, from the set bits; infinite when all are set."""
        fill = self.fill
        if not fill:
            return 0.0
        return -self.num_bits / self.num_hash_functions * math.log1p(-fill) if fill < 1 else math.inf

    def check(self, values: Values | ArrowScalar) -> NDArray[np.bool_]:
        """Return which values may be in the row group: all if the filter is not trusted; NULL and NaN always.

        Parameters
        ----------
        values : Arrow data, NumPy array or list (see `hashing.arrow.chunks_of`).

        Raises
        ------
        FilterTypeError
            The values are of another kind than those of the column.
        """
        chunks = list(chunks_of(values))
        if not self.trusted:
            return np.ones(sum(map(len, chunks)), np.bool_)
        masks = [make_probes(chunk, self.leaf).answer(self.check_hashes) for chunk in chunks]
        return np.concatenate(masks) if masks else np.empty(0, np.bool_)

    def check_hashes(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which hashes have all their bits set, even if the filter is not trusted; all if it has no bits."""
        if not self.num_bits or not self.num_hash_functions:
            return np.ones(len(hashes), np.bool_)
        return orc_hash.check(self.bitset, hashes, self.num_hash_functions)


def parse_filter(data: bytes, start: int, end: int, kind: int) -> tuple[bytes, int, str | None]:
    """Parse a filter's message into its bits, number of hash functions, and the problem with it, or None."""
    try:
        functions, words, utf8 = read_bloom_filter(data, start, end)
    except MalformedOrcError as error:
        return b"", 0, error.problem
    bits, other = (words, utf8) if kind == BLOOM_FILTER else (utf8, words)
    if other is not None:
        return b"", 0, "its bits are in the field of filters of another kind"
    if not bits or len(bits) % 8 or 8 * len(bits) >= _MAX_BITS:
        return b"", 0, f"it has {8 * len(bits or b'')} bits"
    if functions is None or not 1 <= functions <= orc_hash.MAX_HASH_FUNCTIONS:
        return b"", 0, f"it has {functions} hash functions"
    return bits, functions, None


_TRUSTED_WRITERS = ("java", "c++", "presto", "trino")
_HASHED_KINDS = (
    *("BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "VARCHAR", "CHAR", "BINARY", "DATE"),
    *("TIMESTAMP", "TIMESTAMP_INSTANT", "DECIMAL"),
)
UTC_ZONES = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z")
_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


def find_fault(tail: OrcTail, leaf: OrcLeaf, kind: int, bloom_encoding: int) -> str | None:
    """Return why the filters of a column are wrong, or cannot be known to be right; None if they can be trusted.

    Parameters
    ----------
    kind : kind of their stream.
    bloom_encoding : encoding of the filters in the stripe's footer.
    """
    if tail.writer not in _TRUSTED_WRITERS:
        return f"what the writer '{tail.writer}' hashes is not known"
    if leaf.kind == "BOOLEAN":
        return "filters of booleans hold nothing, or something else"
    if leaf.kind not in _HASHED_KINDS:
        return f"what is hashed of {leaf.column_type.name} is not known"
    if tail.writer == "c++":
        if leaf.kind == "BYTE":
            return "ORC's C++ library hashes other numbers than the tinyint column holds"
        if leaf.kind == "CHAR":
            return "ORC's C++ library hashes bytes beyond the end of the texts of char columns"
        if not _is_correct_cpp(tail.software_version):
            return f"ORC's C++ library {tail.software_version or 'before 1.6.12'} hashes in a non-standard way"
    if leaf.kind == "TIMESTAMP" or leaf.kind == "TIMESTAMP_INSTANT":
        if kind == BLOOM_FILTER:
            return "filters of this kind hold timestamps of an unknown zone"
        if bloom_encoding != 1:
            return "the file does not say how the filter's timestamps are encoded"
    if kind == BLOOM_FILTER:
        if leaf.kind == "DECIMAL" or tail.writer != "java":
            return "what filters of this kind hold is not known"
        if leaf.kind in ("STRING", "VARCHAR", "CHAR") and tail.writer_version < 3:
            return "the filter's texts are encoded in a way that only its writer knew"
    return None


def _is_correct_cpp(version: str | None) -> bool:
    """Return whether a release of the C++ library hashes as specified: from 1.6.12 on, except 1.7.0."""
    match = _VERSION.match(version or "")
    if not match:
        return False
    number = tuple(map(int, match.groups()))
    final = match.end() == len(version or "")
    if number[:2] == (1, 6):
        return number > (1, 6, 12) or (number == (1, 6, 12) and final)
    return number > (1, 7, 1) or (number == (1, 7, 1) and final)


def find_timezone_fault(tail: OrcTail, leaf: OrcLeaf, timezone: str, statistics: PruningStatistics) -> str | None:
    """Return why a row group's filter cannot be probed for timestamps; None if it can.

    Wall clock times before 1900 are read by other rules than they were written, except in UTC; those of Java's writers
    also where programs disagree about time zones.
    """
    if leaf.kind != "TIMESTAMP" or timezone in UTC_ZONES or statistics.has_values is False:
        return None
    if tail.writer != "c++":
        first, last = (edge * 1_000_000 for edge in SETTLED_MS)
        bounds = statistics.low, statistics.high
        if all(isinstance(bound, int) and first <= bound <= last for bound in bounds):
            return None
        return f"it may hold timestamps before 2000 or after 2037, written in the zone '{timezone or 'unknown'}'"
    if isinstance(statistics.low, int) and statistics.low >= ZONED_MS * 1_000_000:
        return None
    return f"it may hold timestamps before 1900, written in the zone '{timezone or 'unknown'}'"
