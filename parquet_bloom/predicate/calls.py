"""Texts, and functions of a column that predicates compare with texts: `lower`, `upper` and `string` (CAST AS STRING).

Engines agree on them for most values, not for all: they know different versions of Unicode, and map `ß` or a final
sigma in different ways. So each function has a pinned *rule*. It says which values are **ordinary**: their result is
the same in every engine, whatever its version. Of the others nothing is assumed: an index lets them match everything,
and rows are compared by each of the mappings in use; where these disagree about a row, it is an error.

- `lower`, `upper`: texts of the characters listed here, which have had the same simple mapping since Unicode 5.2, in
  every context. No collation and no language but the root's.
- `string`: integers in decimal digits, dates of the years 1 to 9999 as YYYY-MM-DD, booleans as true and false, texts as
  they are, UUIDs in lower case. Floats, decimals, times and timestamps have no text that engines agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.hash.xxh64 import hash_keys, hash_one
from ..errors import ParquetBloomError, PredicateError, UnsupportedTypeError
from ..hashing.arrow_keys import keys_of, plain
from ..hashing.coerce import hash_all
from ..hashing.column_type import ColumnType, Domain, Kind
from ..util.arrow_values import from_numpy, make_array, make_scalar, to_numpy
from ..util.lazy import late_module
from .patterns import match_expression, match_like
from .tree import CallIn, CallNotIn, Like, Matches, NotLike, PatternLeaf, call_text

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")


RULES = {"lower": "ordinary-1", "upper": "ordinary-1", "string": "ordinary-1"}
"""The version of each function's rule; an index stores it, and is not used with another."""

OTHER = hash_one(b"\xff a value that is not ordinary")
"""The hash that an index has in addition where a value is not ordinary, and that every search is also for."""

# Hexadecimal code points, inclusive.
_CASED = """
    0-7F A0-B4 B6-DE E0-12F 132-148 14A-17E 386 388-38A 38C 38E-38F 391-3A1 3A4-3AF 3B1-3C1 3C4-3CE 400-45F 490-491
    531-556 561-586 1E00-1E95 1EA0-1EF9
"""
_CASELESS = """
    300-306 308-333 5D0-5EA 621-63A 640-64A 660-669 900-DFF E01-E3A E3F-E5B 2010-2027 2030-205E 20A0-20B5 2190-23FF
    2500-26FF 2701-27BF 3000-303F 3041-3096 309D-30FF 3400-4DB5 4E00-9FA5 AC00-D7A3 FE0F 1F300-1F6FF
"""
_ORDINARY = {
    "lower": (*_CASED.split(), *_CASELESS.split(), "DF", "B5", "3C2-3C3", "390", "3B0"),
    "upper": (*_CASED.split(), *_CASELESS.split(), "3A3", "3C2-3C3"),
}
_MAPPINGS = {"lower": 0xE681FD560D4D4E0E, "upper": 0xEE72053503D68A98}
"""Hash of each function's mapping of all ordinary characters; another would be another rule."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, as days since 1970


def hash_texts(values: Sequence[Domain], column_type: ColumnType) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the hashes to search for each of some results: its own, and `OTHER`; see `coerce.hash_all`."""
    own, first = hash_all(values, column_type)
    return add_other(own), 2 * first


def add_other(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return each hash, and after each `OTHER`."""
    both = np.full(2 * len(hashes), OTHER, np.uint64)
    both[::2] = hashes
    return both


def hash_results(storage: pa.Array, function: str, column_type: ColumnType) -> NDArray[np.uint64]:
    """Return the hashes of a function's results, and `OTHER` if a value is not ordinary; nulls have none.

    Parameters
    ----------
    storage : stored values (see `hashing.arrow`).
    column_type : their type, which `require_type` accepts.
    """
    values = storage.drop_null()
    others = np.empty(0, np.uint64)
    if function == "string":
        texts, ordinary = _to_texts(_show(values, column_type))
    else:
        require_mapping(function)
        read, valid = _read_texts(values)
        ordinary = valid.copy()
        ordinary[valid] = _are_ordinary(read, function)
        texts = _change_case(read.filter(from_numpy(ordinary[valid])), function)
    if not ordinary.all():
        others = np.array([OTHER], np.uint64)
        texts = texts.filter(from_numpy(ordinary)) if function == "string" else texts
    return np.concatenate([np.asarray(hash_keys(keys_of(texts.cast(pa.large_binary())))), others])


def require_type(function: str, column_type: ColumnType) -> None:
    """Raise UnsupportedTypeError unless engines agree on a function's results for stored values of a type."""
    if function == "string":
        kinds = (Kind.INTEGER, Kind.DATE, Kind.STRING, Kind.UUID)
        if column_type.kind not in kinds:
            problem = f"{column_type} has no text that all engines agree on: only integers, dates, texts and UUIDs have"
            raise UnsupportedTypeError(problem)
    elif column_type.kind is not Kind.STRING:
        raise UnsupportedTypeError(f"{function} takes a text, not {column_type}")


def find_results(chunk: pa.Array, leaf: CallIn | CallNotIn | PatternLeaf) -> pa.Array:
    """Evaluate a leaf without NULL literals, or regardless of them, for each value; null for null.

    Raises
    ------
    PredicateError
        The function is not defined for such values, or the leaf is exact and engines disagree about one of them.
    """
    if isinstance(chunk, pa.DictionaryArray):
        return find_results(chunk.dictionary, leaf).take(chunk.indices)
    values = chunk if isinstance(chunk.type, pa.UuidType) else plain(chunk)
    match = _make_matcher(leaf)
    if not leaf.function:
        mask, doubtful = _match_plain(values, leaf, match)
    else:
        mask, doubtful = (_match_texts if leaf.function == "string" else _match_cases)(values, leaf, match)
    present = to_numpy(values.is_valid())
    if leaf.is_exact and (doubtful & present).any():
        shown = values[int(np.flatnonzero(doubtful & present)[0])].cast(pa.string()).as_py()
        problem = f"{call_text(leaf.function, leaf.column)} of {str(shown)[:50]!r} is not the same in all engines"
        raise PredicateError(f"{problem}: compare the column itself", column=leaf.column)
    result = (mask if isinstance(leaf, CallIn | Like | Matches) else ~mask) | doubtful
    return pc.if_else(from_numpy(present), from_numpy(result), make_scalar(None, pa.bool_()))


_Matches: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""For each value whether its result is wanted, and whether engines disagree about that."""


_Matcher: TypeAlias = Callable[[pa.Array], NDArray[np.bool_]]
"""Returns which of some texts are wanted."""


def _make_matcher(leaf: CallIn | CallNotIn | PatternLeaf) -> _Matcher:
    if isinstance(leaf, PatternLeaf):
        match = match_like if isinstance(leaf, Like | NotLike) else match_expression
        return partial(match, pattern=leaf.pattern)
    wanted = {text.encode("utf-8", "surrogatepass") for text in leaf.values if isinstance(text, str)}
    return partial(_is_in, wanted=wanted)


def _match_plain(values: pa.Array, leaf: CallIn | CallNotIn | PatternLeaf, match: _Matcher) -> _Matches:
    if not _is_text(values.type):
        raise PredicateError(f"{values.type} is not a text, and has no pattern", column=leaf.column)
    return match(values.cast(pa.large_string())), np.zeros(len(values), np.bool_)


def _match_texts(values: pa.Array, leaf: CallIn | CallNotIn | PatternLeaf, match: _Matcher) -> _Matches:
    texts, ordinary = _to_texts(values, leaf.column)
    return match(texts), ~ordinary


def _match_cases(values: pa.Array, leaf: CallIn | CallNotIn | PatternLeaf, match: _Matcher) -> _Matches:
    if not _is_text(values.type):
        raise PredicateError(f"{leaf.function} takes a text, not {values.type}", column=leaf.column)
    raw = values.cast(pa.large_string()).view(pa.large_binary())
    mask, doubtful = np.zeros(len(raw), np.bool_), np.zeros(len(raw), np.bool_)
    texts, valid = _read_texts(raw)
    doubtful[~valid] = True
    mask[valid] = match(_change_case(texts, leaf.function))
    unusual = np.flatnonzero(valid)[~_are_ordinary(texts, leaf.function)]
    if len(unusual):
        others = [value.decode() for value in raw.take(from_numpy(unusual)).to_pylist()]
        full = [text.lower() if leaf.function == "lower" else text.upper() for text in others]
        doubtful[unusual] = mask[unusual] != match(make_array(full, pa.large_string()))
    return mask, doubtful


def _is_in(texts: pa.Array, wanted: set[bytes]) -> NDArray[np.bool_]:
    found = pc.is_in(texts.cast(pa.large_binary()), value_set=make_array(sorted(wanted), pa.large_binary()))
    return np.asarray(to_numpy(found), np.bool_)


# ------------------------------------------------------------------------------------------------------------- case


def require_mapping(function: str) -> None:
    """Raise ParquetBloomError unless this pyarrow maps the ordinary characters as the rule says."""
    if _hash_mapping(function) != _MAPPINGS[function]:
        raise ParquetBloomError(f"this version of pyarrow has another mapping for {function}, which cannot be indexed")


@cache
def _hash_mapping(function: str) -> int:
    text = "\n".join(map(chr, list_ordinary(function)))
    return int(hash_one(_change_case(make_array([text], pa.large_string()), function)[0].as_py().encode()))


def list_ordinary(function: str) -> list[int]:
    """Return the code points of all ordinary characters of `lower` or `upper`."""
    points: set[int] = set()
    for first, last in _parse_ranges(function):
        points.update(range(first, last + 1))
    return sorted(points)


def is_ordinary(character: str, function: str) -> bool:
    """Return whether a character is an ordinary one of `lower` or `upper`."""
    return any(first <= ord(character) <= last for first, last in _parse_ranges(function))


@cache
def _parse_ranges(function: str) -> list[tuple[int, int]]:
    ends = [text.partition("-") for text in _ORDINARY[function]]
    return [(int(first, 16), int(last or first, 16)) for first, _, last in ends]


@cache
def _make_pattern(function: str) -> str:
    """Return a regular expression for a character that is not ordinary."""
    ranges = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in _parse_ranges(function))
    return f"[^{ranges}]"


def _are_ordinary(texts: pa.Array, function: str) -> NDArray[np.bool_]:
    """Return for each text whether all of its characters are ordinary; True for null."""
    ascii_only = pc.string_is_ascii(texts)
    if pc.all(ascii_only, min_count=0).as_py():
        return np.ones(len(texts), np.bool_)
    unusual = pc.match_substring_regex(texts, pattern=_make_pattern(function))
    return ~np.asarray(to_numpy(pc.fill_null(unusual, make_scalar(False, pa.bool_()))), np.bool_)


def _change_case(texts: pa.Array, function: str) -> pa.Array:
    return pc.utf8_lower(texts) if function == "lower" else pc.utf8_upper(texts)


def _read_texts(values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return the values that are valid UTF-8 as texts, and for each value whether it is."""
    values = values.cast(pa.large_binary())
    try:
        return values.cast(pa.large_string()), np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:
        valid = np.array([_is_utf8(value) for value in values.to_pylist()], np.bool_)
        return values.filter(from_numpy(valid)).cast(pa.large_string()), valid


def _is_utf8(value: bytes | None) -> bool:
    try:
        _ = value is None or value.decode()
    except UnicodeDecodeError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------ texts


def _show(storage: pa.Array, column_type: ColumnType) -> pa.Array:
    """Return stored values in the Arrow form that has their text."""
    if column_type.kind is Kind.DATE:
        return storage.view(pa.date32())
    if column_type.kind is Kind.INTEGER and not column_type.signed:
        return storage.view(pa.uint64() if column_type.length == 8 else pa.uint32())
    return storage


def _to_texts(values: pa.Array, column: str | None = None) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Return the text of each value, and whether it is an ordinary one.

    Raises
    ------
    PredicateError
        Values of this type have no text that engines agree on.
    """
    types, arrow_type = pa.types, values.type
    ordinary = np.ones(len(values), np.bool_)
    if isinstance(arrow_type, pa.UuidType) or (types.is_fixed_size_binary(arrow_type) and column is None):
        texts = [None if value is None else _format_uuid(value) for value in plain(values).to_pylist()]
        return make_array(texts, pa.large_string()), ordinary
    if types.is_date32(arrow_type):
        days = to_numpy(pc.fill_null(values.view(pa.int32()), make_scalar(0, pa.int32())))
        ordinary = (days >= _FIRST_DAY) & (days <= _LAST_DAY)
        inside = pc.if_else(from_numpy(ordinary), values, make_scalar(None, arrow_type))
        return inside.cast(pa.large_string()), ordinary
    if types.is_integer(arrow_type):
        return values.cast(pa.large_string()), ordinary
    if types.is_boolean(arrow_type):
        return values.cast(pa.string()), ordinary
    if _is_text(arrow_type):
        return values.cast(pa.large_string()), ordinary
    if column is None:  # stored texts, which need not be valid
        return values, ordinary if _is_valid(values) else np.array([*map(_is_utf8, values.to_pylist())], np.bool_)
    problem = f"the text of {arrow_type} is not the same in all engines"
    raise PredicateError(f"{problem}: compare the column itself", column=column)


def _is_text(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type))


def _is_valid(values: pa.Array) -> bool:
    try:
        values.cast(pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _format_uuid(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
