"""Paths within a Variant: `$.a.b`, `$['a.b'][0]`, or short `a.b`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import PredicateError, printable, shortened

_MOST_POSITION = (1 << 31) - 1

# As Spark's VariantPathParser takes them, whose parser skips white space in front of each of its parts.
_STEP = re.compile(
    r"""\s*(?:
        \[\s*(?P<position>[0-9]+)\s*\]
      | \.\s*(?P<name>[^.\[]+)
      | \['\s*(?P<single>[^'?]+)'\]
      | \["\s*(?P<double>[^"?]+)"\]
    )""",
    re.VERBOSE,
)
_FIRST_NAME = re.compile(r"\s*(?P<name>[^.\[$][^.\[]*)")


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
    return f'["{part}"]' if "'" in part else f"['{part}']"


def parse_path(text: str) -> VariantPath:
    """Parse a path; `$` alone is the whole Variant.

    Parameters
    ----------
    text : `$.a.b`, `$['a.b'][0]`, `$["x"]`, or without `$`: `a.b`, `a['x y']`, `a[0]`. Names are case-sensitive.

    Raises
    ------
    PredicateError
        It is no such path.
    """
    parts: list[str | int] = []
    begin = len(text) - len(text.lstrip())
    if text.startswith("$", begin):
        at = begin + 1
    elif first := _FIRST_NAME.match(text):
        parts.append(first["name"])
        at = first.end()
    else:
        raise _refuse(text, "it begins with $ or a name")
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            if not text[at:].strip():
                break
            raise _refuse(text, f"at character {at + 1} there is no .name, ['name'] or [number]")
        at = step.end()
        if step["position"] is None:
            parts.append(step["name"] or step["single"] or step["double"])
        elif int(step["position"]) > _MOST_POSITION:
            raise _refuse(text, f"positions are below {_MOST_POSITION + 1}")
        else:
            parts.append(int(step["position"]))
    return VariantPath(tuple(parts))


def _refuse(text: str, why: str) -> PredicateError:
    return PredicateError(f"{shortened(printable(text))!r} is not a path in a Variant: {why}")
