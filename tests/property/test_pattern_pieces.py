"""Random patterns against texts that resemble what they match: no engine finds a text without a piece of each set."""

from __future__ import annotations

import random
import re
import warnings
from dataclasses import replace
from typing import NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from support.scale import scaled

from parquet_bloom.errors import PredicateError
from parquet_bloom.predicate.calls import list_ordinary
from parquet_bloom.predicate.pattern_pieces import find_common_pieces, find_pieces
from parquet_bloom.predicate.patterns import escape_like, match_expression, match_like, require_expression
from parquet_bloom.predicate.tree import Like, Matches, PatternLeaf

CHARACTERS = "abcABCxyz0189 .%_\\-/:[](){}*+?|^$#&~'\"" * 2 + "kKsSiIßẞσςΣµμΜéÉİıſ\u212a日本語한😀🚀\0\n\t\u0301ǅ"
WORDS = ["error", "Error", "GET", "straße", "日本", "kiss", "50%", "a_b", "c:\\x", "σίγμας", "İstanbul", "😀😀"]
SAME_BUT_CASE = ["kK\u212a", "sSſ", "µμΜ", "σςΣ", "ßẞ"]
ORDINARY = {*map(chr, list_ordinary("lower"))}
TEXTS = 40


class Drawn(NamedTuple):
    """A part of a pattern, and some of the texts that it matches."""

    pattern: str
    texts: list[str]


def draw_text(rng: random.Random) -> str:
    return rng.choice(WORDS) if rng.random() < 0.4 else "".join(rng.choices(CHARACTERS, k=rng.choice([1, 1, 2, 3, 5])))


def draw_like(rng: random.Random) -> Drawn:
    parts: list[Drawn] = []
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        if kind < 0.3:
            parts.append(Drawn("%", ["", *(draw_text(rng) for _ in range(3))]))
        elif kind < 0.45:
            parts.append(Drawn("_", rng.choices(CHARACTERS, k=4)))
        else:
            text = draw_text(rng)
            parts.append(Drawn(escape_like(text), [text]))
    return join(rng, parts)


def join(rng: random.Random, parts: list[Drawn]) -> Drawn:
    texts = ["".join(rng.choice(part.texts) for part in parts) for _ in range(8)]
    return Drawn("".join(part.pattern for part in parts), texts)


def draw_literal(rng: random.Random) -> Drawn:
    text = draw_text(rng)
    if rng.random() < 0.1 and "\\E" not in text:
        return Drawn(f"\\Q{text}\\E", [text])
    return Drawn("".join(spell(rng, character) for character in text), [text])


def spell(rng: random.Random, character: str) -> str:
    if rng.random() < 0.05:
        return f"\\x{{{ord(character):x}}}"
    if rng.random() < 0.02 and "\x40" <= character < "\x7f":
        return f"\\{ord(character):o}"
    return (
        "\\" + character
        if character in r"\.[](){}*+?|^$" or (character in "%-/:_#" and rng.random() < 0.2)
        else character
    )


def draw_class(rng: random.Random) -> Drawn:
    kind = rng.random()
    if kind < 0.5:
        members = rng.choices(CHARACTERS.replace("\\", "").replace("^", "").replace("[", ""), k=rng.randint(1, 5))
        inside = "".join("\\" + one if one in "]-&~|" else one for one in members)
        return Drawn(f"[{inside}]", members)
    if kind < 0.7:
        return rng.choice([Drawn("[a-c]", [*"abc"]), Drawn("[^ab]", [*"cdk日"]), Drawn("[k-m0]", [*"klm0"])])
    if kind < 0.8:
        return rng.choice([Drawn("[[:digit:]x]", [*"0x"]), Drawn("[]a]", [*"]a"]), Drawn(r"[\d_]", [*"1_"])])
    return rng.choice(
        [
            Drawn(".", [*"ax日"]),
            Drawn(r"\d", [*"01"]),
            Drawn(r"\w", [*"aZ_"]),
            Drawn(r"\s", [*" \t"]),
            Drawn(r"\pL", [*"aé日"]),
        ]
    )


def draw_expression(rng: random.Random, depth: int = 0) -> Drawn:
    parts: list[Drawn] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if kind < 0.45 or depth == 4:
            part = draw_literal(rng)
        elif kind < 0.6:
            part = draw_class(rng)
        elif kind < 0.65:
            part = Drawn(rng.choice(["^", "$", r"\b", r"\B", r"\A", r"\z", "(?i)", "(?s)", "(?-i)", "(?U)"]), [""])
        else:
            part = draw_group(rng, depth)
        parts.append(draw_repetition(rng, part) if rng.random() < 0.25 and part.texts != [""] else part)
    return join(rng, parts)


def draw_group(rng: random.Random, depth: int) -> Drawn:
    branches = [draw_expression(rng, depth + 1) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
    if rng.random() < 0.1:
        branches.append(Drawn("", [""]))
    opening = rng.choice(["(", "(", "(?:", "(?i:", "(?P<n>", "(?-i:", "(?s-i:"])
    if "P<" in opening:
        opening = f"(?P<n{rng.getrandbits(48):x}>"
    inside = "|".join(branch.pattern for branch in branches)
    return Drawn(f"{opening}{inside})", [text for branch in branches for text in branch.texts])


def draw_repetition(rng: random.Random, part: Drawn) -> Drawn:
    """Repeat a part, or where it is several characters perhaps the last of them only."""
    sign, least, most = rng.choice(
        [("*", 0, 2), ("+", 1, 3), ("?", 0, 1), ("{2}", 2, 2), ("{1,}", 1, 3), ("{0,2}", 0, 2), ("{2,3}", 2, 3)]
    )
    lazy = rng.choice(["", "", "?"])
    if rng.random() < 0.7:
        texts = ["".join(rng.choices(part.texts, k=rng.randint(least, most))) for _ in range(8)]
        return Drawn(f"(?:{part.pattern}){sign}{lazy}", texts)
    texts = [text[:-1] + text[-1:] * rng.randint(least, most) for text in part.texts]
    return Drawn(f"{part.pattern}{sign}{lazy}", texts)


def change_case(rng: random.Random, text: str) -> str:
    def change(character: str) -> str:
        same = next((same for same in SAME_BUT_CASE if character in same), character.lower() + character.upper())
        return rng.choice(same)

    return "".join(map(change, text))


def draw_texts(rng: random.Random, drawn: Drawn) -> list[str]:
    texts = []
    for _ in range(TEXTS):
        text = rng.choice(drawn.texts) if rng.random() < 0.95 else "".join(draw_text(rng) for _ in range(3))
        text = change_case(rng, text) if rng.random() < 0.3 else text
        if rng.random() < 0.1 and text:
            at = rng.randrange(len(text))
            text = text[:at] + text[at + 1 :]
        texts.append(draw_text(rng) + text + draw_text(rng) if rng.random() < 0.4 else text)
    return texts


def draw_leaf(rng: random.Random) -> tuple[PatternLeaf, list[str]]:
    """Draw a pattern that is valid, and texts."""
    while True:
        if rng.random() < 0.3:
            drawn = draw_like(rng)
            return Like("t", drawn.pattern), draw_texts(rng, drawn)
        drawn = draw_expression(rng)
        try:
            require_expression(drawn.pattern)
        except PredicateError:
            continue
        return Matches("t", drawn.pattern), draw_texts(rng, drawn)


def find_by_python(leaf: PatternLeaf, texts: list[str]) -> list[bool]:
    """Match by `re` what it can read; words that mean something else there are not among those that are drawn."""
    if isinstance(leaf, Like) or re.search(r"\\[zpQx]|\\\d\d|\[\[|\[\]|\(\?U", leaf.pattern):
        return [False] * len(texts)
    with warnings.catch_warnings(action="error"):
        try:
            expression = re.compile(leaf.pattern)
        except (re.error, Warning):
            return [False] * len(texts)
    return [expression.search(text) is not None for text in texts]


def find_by_duckdb(pairs: list[tuple[PatternLeaf, list[str]]]) -> list[bool]:
    rows = [(leaf.pattern, isinstance(leaf, Like), text) for leaf, texts in pairs for text in texts]
    asked = pa.table(dict(zip(("p", "is_like", "t"), zip(*rows, strict=True), strict=True)))
    condition = r"CASE WHEN is_like THEN t LIKE p ESCAPE '\' ELSE regexp_matches(t, p) END"
    with duckdb.connect() as connection:
        connection.register("asked", asked)
        return [found for (found,) in connection.execute(f"SELECT {condition} FROM asked").fetchall()]


def holds(pieces: tuple[frozenset[str], ...], text: str) -> bool:
    return all(any(piece in text for piece in one) for one in pieces)


def lower_ordinary(texts: list[str]) -> list[str | None]:
    """Lower texts as engines agree on it; None for others."""
    lowered = pc.utf8_lower(pa.array(texts)).to_pylist()
    return [low if {*text} <= ORDINARY else None for text, low in zip(texts, lowered, strict=True)]


def test_every_text_that_an_engine_finds_has_a_piece_of_each_set() -> None:
    rng = random.Random("pieces of patterns")
    pairs = [draw_leaf(rng) for _ in range(scaled(40))]
    by_duckdb = iter(find_by_duckdb(pairs))
    found = known = known_lowered = found_by_polars = 0
    for leaf, texts in pairs:
        match = match_like if isinstance(leaf, Like) else match_expression
        matches = match(pa.array(texts), leaf.pattern)
        pieces, lowered = find_pieces(leaf), find_pieces(leaf, lowered=True)
        assert find_pieces(replace(leaf, function="lower")) == ()
        assert find_pieces(replace(leaf, function="lower"), lowered=True) == lowered
        lows, by_python = lower_ordinary(texts), find_by_python(leaf, texts)
        for text, low, *is_found in zip(texts, lows, matches, by_python, by_duckdb, strict=False):
            if any(is_found):
                found += 1
                assert holds(pieces, text), (leaf, text, pieces)
                assert low is None or holds(lowered, low), (leaf, text, lowered)
        others = [low for low, text in zip(lows, texts, strict=True) if low is not None and low != text]
        for low, is_match in zip(others, match(pa.array(others, pa.string()), leaf.pattern), strict=True):
            assert not is_match or holds(lowered, low), (leaf, low, lowered)
        if isinstance(leaf, Matches) and (common := find_common_pieces(leaf.pattern)):
            for text, is_match in zip(texts, pl.Series(texts).str.contains(leaf.pattern, strict=False), strict=True):
                assert not is_match or holds(common, text), (leaf, text, common)
                found_by_polars += bool(is_match)
        known += bool(pieces)
        known_lowered += bool(lowered)
    assert found_by_polars > len(pairs)
    assert found > len(pairs) * TEXTS // 4
    assert min(known, known_lowered) > len(pairs) // 4
