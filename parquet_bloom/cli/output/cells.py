"""Widths of texts on a terminal, in cells: some characters take two, some none."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

# Characters without a width of their own. Format characters, such as the one that joins emojis, are escaped before.
_JOINING = ("Mn", "Me")
_JAMO = range(0x1160, 0x1200)  # vowels and finals of Hangul, drawn into the consonant before them


def cell_len(text: str) -> int:
    """Return the number of cells that a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def chop_cells(text: str, width: int) -> list[str]:
    """Split a text into lines of at most `width` cells; a character that is wider is a line of its own."""
    return list(_lines(text, width))


def _lines(text: str, width: int) -> Iterator[str]:
    start = cells = 0
    for i, character in enumerate(text):
        taken = _width(character)
        if cells + taken > width and i > start:
            yield text[start:i]
            start, cells = i, 0
        cells += taken
    if start < len(text):
        yield text[start:]


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in _JOINING or ord(character) in _JAMO:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
