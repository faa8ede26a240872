r"""Patterns of texts: LIKE's, in which a backslash takes `%`, `_` and `\` literally, and RE2's regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import PredicateError, first_line
from ..util.arrow_values import make_scalar, to_numpy
from ..util.lazy import late_module

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = late_module("pyarrow.compute")

ESCAPE = "\\"
_SPECIAL = "%_" + ESCAPE


class Prefix(NamedTuple):
    """What the texts that match a pattern begin with.

    Attributes
    ----------
    text : their common beginning.
    is_all : whether every text with that beginning matches.
    is_whole : whether it is the only text that matches.
    """

    text: str
    is_all: bool
    is_whole: bool


def escape_like(text: str) -> str:
    """Return the pattern that matches exactly a text."""
    return "".join(ESCAPE + character if character in _SPECIAL else character for character in text)


def normalize_like(pattern: str, escape: str | None) -> str:
    """Return a LIKE pattern with another escape character, or with none, as one with a backslash.

    Raises
    ------
    PredicateError
        The escape character stands before an ordinary one, or at the end: engines differ about what that means.
    """
    parts, at = [], 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            following = pattern[at : at + 1]
            if following not in ("%", "_", escape):
                where = f"before {following!r}" if following else "at the end"
                raise PredicateError(
                    f"the escape character {escape!r} of LIKE stands {where}, not before %, _ or itself"
                )
            parts.append(escape_like(following))
        else:
            parts.append(ESCAPE + character if character == ESCAPE else character)
        at += 1
    return "".join(parts)


def split_like(pattern: str) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a LIKE pattern, each with whether it is a wildcard."""
    characters = iter(pattern)
    for character in characters:
        if character == ESCAPE:
            yield next(characters, ESCAPE), False
        else:
            yield character, character in "%_"


def find_prefix(pattern: str) -> Prefix:
    """Return what the texts that match a LIKE pattern begin with."""
    text, wildcards = "", ""
    for character, is_wildcard in split_like(pattern):
        if is_wildcard:
            wildcards += character
        elif wildcards:
            return Prefix(text, False, False)
        else:
            text += character
    return Prefix(text, bool(wildcards) and {*wildcards} == {"%"}, not wildcards)


def require_like(pattern: str) -> None:
    """Raise PredicateError unless a backslash of a LIKE pattern stands before `%`, `_` or another one only."""
    normalize_like(pattern, ESCAPE)


def require_expression(pattern: str) -> None:
    """Raise PredicateError unless a text is a regular expression in RE2's syntax."""
    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), pattern=pattern)
    except pa.ArrowInvalid as error:
        raise PredicateError(f"{pattern!r} is not a regular expression of RE2: {first_line(error)}") from None


def match_like(texts: pa.Array, pattern: str) -> NDArray[np.bool_]:
    r"""Return which texts match a LIKE pattern; False for null.

    Arrow's own function takes the escaped backslash of `%\\` for two.
    """
    characters = [*split_like(pattern)]
    piece = "".join(character for character, is_wildcard in characters if not is_wildcard)
    first = bool(characters) and characters[0] == ("%", True)
    last = bool(characters) and characters[-1] == ("%", True)
    inside = characters[first : len(characters) - last]
    if any(is_wildcard for _, is_wildcard in inside):
        parts = [
            _WILDCARDS[character] if is_wildcard else re.escape(character) for character, is_wildcard in characters
        ]
        matched = pc.match_substring_regex(texts, pattern=rf"(?s)\A{''.join(parts)}\z")
    elif first and (last or len(characters) == 1):
        matched = pc.match_substring(texts, pattern=piece)
    elif first:
        matched = pc.ends_with(texts, pattern=piece)
    elif last:
        matched = pc.starts_with(texts, pattern=piece)
    else:
        matched = pc.equal(texts, make_scalar(piece, texts.type))
    return _to_flags(matched)


_WILDCARDS = {"%": ".*", "_": "."}


def match_expression(texts: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Return in which texts a regular expression is found anywhere; False for null."""
    return _to_flags(pc.match_substring_regex(texts, pattern=pattern))


def _to_flags(matched: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(to_numpy(pc.fill_null(matched, make_scalar(False, pa.bool_()))), np.bool_)
