"""Paths within a Variant: `$.a.b`, `$['a.b'][0]`, or short `a.b`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import PredicateError, printable, shortened

_MOST_POSITION = (1 << 31) - 1

# As Spark's VariantPathParser takes them: what is within quotes has none of these, and white space counts everywhere.
_STEP = re.compile(r"""\[(?P<position>[0-9]+)\]|\.(?P<name>[^.\[]+)|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]""")
_FIRST_NAME = re.compile(r"[^\s.\[$][^.\[]*")


@dataclass(frozen=True)
class VariantPath:
    """Where a value is within a Variant: names of fields and positions in arrays, from 0."""

    parts: tuple[str | int, ...]

    @property
    def steps(self) -> list[bytes | int]:
        """The parts as compiled code takes them."""
        return [part.encode() if isinstance(part, str) else part for part in self.parts]

    def __str__(self) -> str:
        """Return the text that all engines take: `$['a.b'][0]`, names without other characters as `.a`."""
        return "$" + "".join(map(_to_text, self.parts))


def _to_text(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part):
        return f".{part}"
    if "'" not in part:
        return f"['{part}']"
    return f'["{part}"]' if '"' not in part else f".{part}"


def parse_path(text: str) -> VariantPath:
    """Parse a path; `$` alone is the whole Variant.

    Parameters
    ----------
    text : `$.a.b`, `$['a.b'][0]`, `$["x"]`, or without `$`: `a.b`, `a['x y']`, `a[0]`. Names are case-sensitive, and
        white space is part of them.

    Raises
    ------
    PredicateError
        It is no such path.
    """
    parts: list[str | int] = []
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _refuse(text, "it is not Unicode")
    if text.startswith("$"):
        at = 1
    elif first := _FIRST_NAME.match(text):
        parts.append(first.group())
        at = first.end()
    else:
        raise _refuse(text, "it begins with $ or a name")
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise _refuse(text, f"at character {at + 1} there is no .name, ['name'] or [number]")
        kind = str(step.lastgroup)
        part = step[kind]
        if kind == "position" and (len(part.lstrip("0")) > 10 or int(part) > _MOST_POSITION):
            raise _refuse(text, f"positions are below {_MOST_POSITION + 1}")
        parts.append(int(part) if kind == "position" else part)
        at = step.end()
    return VariantPath(tuple(parts))


def make_path(parts: Sequence[str | int]) -> VariantPath:
    """Return the path of names and positions.

    Raises
    ------
    PredicateError
        No text says it: engines have none for a name with both kinds of quotes and a dot or bracket.
    """
    path = VariantPath(tuple(parts))
    if parse_path(str(path)) != path:
        raise _refuse(str(path), "no engine takes a name with both kinds of quotes and a dot or bracket")
    return path


def _refuse(text: str, why: str) -> PredicateError:
    return PredicateError(f"'{shortened(printable(text))}' is not a path in a Variant: {why}")
