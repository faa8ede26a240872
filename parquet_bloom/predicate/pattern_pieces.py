"""Find the pieces of text that every text contains which a pattern matches, for an index of substrings.

The result is a conjunction of sets: a text that matches contains at least one piece of each set. An expression is read
from left to right into what is known of the texts that its parts match, which are joined and united as it goes, with
few texts in each set, so that neither deep nesting nor many alternatives take more than time in proportion.

What cannot be known is left out, so that a text which matches is never without a piece: what is between two parts that
are known counts as any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import groupby
from typing import NamedTuple, TypeAlias

from .calls import is_ordinary
from .patterns import split_like
from .tree import Leaf, Like, Matches

Pieces: TypeAlias = frozenset[str]
"""Texts of which a text contains at least one."""

MIN_BYTES = 3
"""The least length in UTF-8 of a piece."""

_MAX_PIECES = 16  # of a set
_MAX_SETS = 32
_MAX_JOINED = 4096  # characters of a piece that is joined of several; a longer one is two pieces
_MAX_CLASS = 4  # characters of a class that are alternatives; more of them are any character


def find_pieces(leaf: Leaf, *, lowered: bool = False) -> tuple[Pieces, ...]:
    """Return sets of pieces, the longest first: a text for which a leaf is true contains one of each set.

    Parameters
    ----------
    leaf : of a column, or of `lower` of one.
    lowered : whether the pieces are those of `lower` of the column. That is as its rule in `calls` says: it holds for
        values of ordinary characters only, of all others nothing is known. Pieces of the column itself come from the
        column's own patterns only; what they match regardless of case is then no part of a piece.

    Returns
    -------
    tuple of sets of pieces of at least `MIN_BYTES`; empty if nothing is known, as of every leaf but `Like` and
    `Matches`.
    """
    if not isinstance(leaf, Like | Matches) or leaf.function not in (("", "lower") if lowered else ("",)):
        return ()
    if isinstance(leaf, Like):
        return _choose(_join_all(_read_like(leaf.pattern, lowered)))
    try:
        return _choose(_read_expression(leaf.pattern, lowered))
    except _UnknownSyntax:
        return ()


def find_common_pieces(expression: str) -> tuple[Pieces, ...]:
    """Return sets of pieces of what a regular expression matches in Java and Rust as well; see `find_pieces`.

    Empty for an expression that they may read in another way than RE2, wherever in it that is.
    """
    return find_pieces(Matches("text", expression)) if _COMMON.fullmatch(expression) else ()


class _UnknownSyntax(Exception):
    """An expression is not RE2's, or of a newer version."""


class _PatternPart(NamedTuple):
    """What is known of the texts that a part of a pattern matches.

    Attributes
    ----------
    starts, ends : texts, one of which each of them starts, or ends, with; the empty text where nothing is known.
    is_whole : whether `starts`, and `ends` as well, are all of the texts.
    inside : sets of pieces of which each text contains one.
    """

    starts: Pieces
    ends: Pieces
    is_whole: bool
    inside: tuple[Pieces, ...] = ()


def _one_of(texts: Iterable[str]) -> _PatternPart:
    pieces = frozenset(texts)
    return _PatternPart(pieces, pieces, True)


_NOTHING = frozenset([""])
_EMPTY = _one_of([""])
_ANYTHING = _PatternPart(_NOTHING, _NOTHING, False)


# --------------------------------------------------------------------------------------------------- characters, LIKE


def _read_like(pattern: str, lowered: bool) -> Iterator[_PatternPart]:
    for is_wildcard, group in groupby(split_like(pattern), key=lambda item: item[1]):
        if is_wildcard:
            yield _ANYTHING
        else:
            yield from _read_text("".join(character for character, _ in group), lowered, ignores_case=False)


def _read_text(text: str, lowered: bool, ignores_case: bool) -> Iterator[_PatternPart]:
    """Yield the parts of a text that a pattern has literally."""
    spellings = [_spell(character, lowered, ignores_case) for character in text]
    for count, group in groupby(spellings, key=len):
        if count == 1:
            yield _one_of(["".join(group)])
        else:
            yield from (_one_of(characters) if characters else _ANYTHING for characters in group)


@lru_cache(4096)
def _spell(character: str, lowered: bool, ignores_case: bool) -> str:
    """Return the characters that a text may have where a pattern has this one; none if that is not known."""
    if not lowered and not ignores_case:
        return "" if "\ud800" <= character <= "\udfff" else character  # half of a character is in no text
    if not is_ordinary(character, "lower"):
        return ""
    lower = character.lower()
    if lowered:
        return _SAME_BUT_CASE.get(lower, lower) if ignores_case else lower
    return character if character.upper() == lower else ""  # it has no case


_SAME_BUT_CASE = {**dict.fromkeys("µμ", "µμ"), **dict.fromkeys("σς", "σς")}
"""The ordinary characters in lower case that are the same regardless of case: two of µ, and the sigma at an end."""


# ------------------------------------------------------------------------------------------------ regular expressions

_PLAIN = re.compile(r"[^\\\[(){|*+?.^$]+")
_REPEAT = re.compile(r"(?:[*+?]|\{(0|[1-9][0-9]{0,3})(,(?:0|[1-9][0-9]{0,3})?)?\})\??")
_GROUP = re.compile(r"\((?:\?(?:P?<\w+>|([imsU]*)(?:-([imsU]+))?([:)])))?")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_ESCAPE = re.compile(
    r"""\\(?:
        x\{(?P<long>[0-9A-Fa-f]{1,6})\} | x(?P<short>[0-9A-Fa-f]{2}) | (?P<octal>0[0-7]{0,2}|[1-7][0-7]{1,2})
        | (?P<letter>[aftnrv]) | (?P<itself>[\x00-/:-@\[-`{-\x7f])
        | (?P<class>[dDsSwW]|[pP](?:[A-Za-z]|\{\^?\w+\}))
    )""",
    re.VERBOSE,
)
_LETTERS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_NAMED_CLASS = re.compile(r"\[:\^?\w+:\]")
_MEMBER = r"(?:[^\\\[\]&~^\ufffd-]|\\[dDsSwW!-/:;=?@\[-`{-~])"
# Without U+FFFD, which Java has for bytes that are no text, and without what is something else in Rust: \< and
# \b{start} are boundaries, {,2} is a repetition.
_COMMON = re.compile(
    rf"""(?:\(\?[ims]+\))?(?:
        [^\\\[(){{}}\ufffd] | \) | \{{(?:0|[1-9][0-9]{{0,3}})(?:,(?:0|[1-9][0-9]{{0,3}})?)?\}}
        | \\(?:[!-/:;=?@\[-`{{-~] | [AzdDsSwWtnrfa] | [bB](?!\{{) | x[0-9A-Fa-f]{{2}} | [pP](?:[A-Z]|\{{[A-Za-z]+\}}))
        | \((?:\?:|\?P?<[A-Za-z][A-Za-z0-9]*>|(?!\?)) | \[\^?{_MEMBER}(?:-?{_MEMBER})*+-?\]
    )*+""",
    re.VERBOSE,
)
_WIDTHLESS = ("^", "$", r"\A", r"\z", r"\b", r"\B")


@dataclass(slots=True)
class _OpenGroup:
    """A group that is being read.

    Attributes
    ----------
    ignores_case : whether the characters that follow match regardless of case.
    before : what has been read of the alternative, without `item`.
    item : what has been read last, and a repetition is of; None for nothing.
    others : the alternatives before.
    """

    ignores_case: bool
    before: _PatternPart = _EMPTY
    item: _PatternPart | None = None
    others: _PatternPart | None = None

    def add(self, parts: Iterable[_PatternPart]) -> None:
        for part in parts:
            if self.item is not None:
                self.before = _join(self.before, self.item)
            self.item = part

    def end_alternative(self) -> None:
        alternative = self.before if self.item is None else _join(self.before, self.item)
        self.others = alternative if self.others is None else _unite(self.others, alternative)
        self.before, self.item = _EMPTY, None


def _read_expression(pattern: str, lowered: bool) -> _PatternPart:
    """Return what is known of the texts that a regular expression of RE2 matches.

    Raises
    ------
    _UnknownSyntax
        It is not one.
    """
    groups, at = [_OpenGroup(False)], 0
    while at < len(pattern):
        group, character = groups[-1], pattern[at]
        if plain := _PLAIN.match(pattern, at):
            text, at = plain[0], plain.end()
            group.add(_read_text(text[:-1], lowered, group.ignores_case))
            group.add(_read_text(text[-1], lowered, group.ignores_case))
        elif repeat := _REPEAT.match(pattern, at):
            if group.item is None:
                raise _UnknownSyntax
            group.item, at = _repeat(group.item, repeat), repeat.end()
        elif character == "|":
            group.end_alternative()
            at += 1
        elif opening := _GROUP.match(pattern, at):
            on, off, ends = opening.groups(default="")
            ignores_case = (group.ignores_case or "i" in on) and "i" not in off
            if ends == ")":
                group.ignores_case = ignores_case
            else:
                groups.append(_OpenGroup(ignores_case))
            at = opening.end()
        elif character == ")" and len(groups) > 1:
            group.end_alternative()
            groups.pop()
            assert group.others is not None
            groups[-1].add([group.others])
            at += 1
        elif character == "[":
            characters, at = _read_class(pattern, at)
            group.add([_any_character(characters, lowered, group.ignores_case)])
        elif character == "{":  # that begins no repetition
            group.add(_read_text(character, lowered, group.ignores_case))
            at += 1
        elif character == "." or pattern.startswith(r"\C", at):
            group.add([_ANYTHING])
            at += 1 if character == "." else 2
        elif widthless := next((text for text in _WIDTHLESS if pattern.startswith(text, at)), ""):
            group.add([_EMPTY])
            at += len(widthless)
        elif quoted := _QUOTED.match(pattern, at):
            for part in quoted[1]:
                group.add(_read_text(part, lowered, group.ignores_case))
            at = quoted.end()
        else:
            escaped, at = _read_escape(pattern, at)
            group.add(_read_text(escaped, lowered, group.ignores_case) if escaped else [_ANYTHING])
    if len(groups) > 1:
        raise _UnknownSyntax
    groups[0].end_alternative()
    assert groups[0].others is not None
    return groups[0].others


def _read_escape(pattern: str, at: int) -> tuple[str, int]:
    """Return the character that an escape stands for, or nothing for a class, and where it ends."""
    escape = _ESCAPE.match(pattern, at)
    if escape is None:
        raise _UnknownSyntax
    digits, base = escape["octal"] or escape["long"] or escape["short"], 8 if escape["octal"] else 16
    if digits:
        point = int(digits, base)
        if point > 0x10FFFF:
            raise _UnknownSyntax
        return chr(point), escape.end()
    return _LETTERS.get(escape["letter"], escape["itself"] or ""), escape.end()


def _read_class(pattern: str, at: int) -> tuple[str, int]:
    """Return the characters of a class in brackets, or nothing if they are others or many, and where it ends."""
    at += 1
    is_few = pattern[at : at + 1] != "^"
    begin = at = at if is_few else at + 1
    found: set[str] = set()
    while at == begin or pattern[at : at + 1] != "]":
        if named := _NAMED_CLASS.match(pattern, at):
            is_few, at = False, named.end()
            continue
        first, at = _read_member(pattern, at)
        last = first
        if first and pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]"):
            last, at = _read_member(pattern, at + 1)
        if is_few := is_few and bool(first and last) and ord(last) - ord(first) < _MAX_CLASS:
            found.update(map(chr, range(ord(first), ord(last) + 1)))
    return "".join(sorted(found)) if is_few and len(found) <= _MAX_CLASS else "", at + 1


def _read_member(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at : at + 1] == "\\":
        return _read_escape(pattern, at)
    if at == len(pattern):
        raise _UnknownSyntax
    return pattern[at], at + 1


def _any_character(characters: str, lowered: bool, ignores_case: bool) -> _PatternPart:
    spellings = [_spell(character, lowered, ignores_case) for character in characters]
    return _one_of("".join(spellings)) if spellings and all(spellings) else _ANYTHING


# ------------------------------------------------------------------------------------------------ joining and choosing


def _join_all(parts: Iterable[_PatternPart]) -> _PatternPart:
    return reduce(_join, parts, _EMPTY)


def _join(one: _PatternPart, other: _PatternPart) -> _PatternPart:
    """Return what is known of the texts of one part, each followed by one of another part."""
    inside, between = one.inside + other.inside, _multiply(one.ends, other.starts)
    if between is None:
        return _PatternPart(one.starts, other.ends, False, _limit((*inside, one.ends, other.starts)))
    if one.is_whole and other.is_whole:
        return _PatternPart(between, between, True)
    if one.is_whole:
        return _PatternPart(between, other.ends, False, inside)
    if other.is_whole:
        return _PatternPart(one.starts, between, False, inside)
    return _PatternPart(one.starts, other.ends, False, _limit((*inside, between)))


def _multiply(ones: Pieces, others: Pieces) -> Pieces | None:
    """Return each text followed by each other; None if these are too many or too long."""
    if ones == _NOTHING or others == _NOTHING:
        return others if ones == _NOTHING else ones
    if len(ones) * len(others) > _MAX_PIECES or max(map(len, ones)) + max(map(len, others)) > _MAX_JOINED:
        return None
    return frozenset([one + other for one in ones for other in others])


def _unite(one: _PatternPart, other: _PatternPart) -> _PatternPart:
    """Return what is known of the texts of either part."""
    starts, ends = (_few(ones | others) for ones, others in ((one.starts, other.starts), (one.ends, other.ends)))
    if one.is_whole and other.is_whole and starts != _NOTHING:
        return _PatternPart(starts, starts, True)
    best = [max((part.starts, part.ends, *part.inside), key=_rate) for part in (one, other)]
    return _PatternPart(starts, ends, False, _limit([_few(best[0] | best[1])]))


def _few(pieces: Pieces) -> Pieces:
    return pieces if len(pieces) <= _MAX_PIECES else _NOTHING


def _repeat(part: _PatternPart, repeat: re.Match[str]) -> _PatternPart:
    least = int(repeat[1] or (repeat[0][0] == "+"))
    if not least:
        is_optional = repeat[0][0] == "?" and part.is_whole
        return _unite(part, _EMPTY) if is_optional else _ANYTHING
    repeated = part
    for _ in range(least - 1 if part != _EMPTY else 0):
        repeated = _join(repeated, part)
        if not repeated.is_whole:
            break
    is_counted = repeat[1] is not None and repeat[2] is None
    return repeated._replace(is_whole=repeated.is_whole and is_counted)


def _rate(pieces: Pieces) -> tuple[bool, int, int, int]:
    """Return how much a set of pieces says: whether anything, then by its shortest piece and how many there are."""
    shortest = min(len(piece.encode()) for piece in pieces)
    return shortest >= MIN_BYTES, min(shortest, 12), -len(pieces), shortest


def _limit(sets: Iterable[Pieces]) -> tuple[Pieces, ...]:
    """Return the sets that say anything, and the best of them if there are many."""
    worth = tuple(pieces for pieces in sets if all(len(piece) >= MIN_BYTES or _rate(pieces)[0] for piece in pieces))
    return worth if len(worth) <= 2 * _MAX_SETS else tuple(sorted(worth, key=_rate, reverse=True)[:_MAX_SETS])


def _choose(part: _PatternPart) -> tuple[Pieces, ...]:
    """Return the best sets of pieces, without those that follow from others."""
    shortened = {_shorten(pieces) for pieces in (part.starts, part.ends, *part.inside)}
    chosen: list[Pieces] = []
    for pieces in sorted(_limit(shortened), key=lambda pieces: (_rate(pieces), sorted(pieces)), reverse=True):
        follows = any(all(any(piece in longer for piece in pieces) for longer in other) for other in chosen)
        if not follows and len(chosen) < _MAX_SETS:
            chosen.append(pieces)
    return tuple(chosen)


def _shorten(pieces: Pieces) -> Pieces:
    """Return a set without pieces that contain another one."""
    return frozenset([piece for piece in pieces if not any(other in piece for other in pieces if other is not piece)])
