"""A griffe extension: docstrings whose sections say what a parameter is, not which type it has.

The project writes ``paths : a file, a folder, or a list of them.``; numpydoc's parser takes what follows the colon for
a type. The signatures have the types, so here the text moves to the line below, where the parser expects a description.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTIONS = ("Parameters", "Other Parameters", "Attributes")
_UNDERLINE = re.compile(r"-{3,}$")
_ENTRY = re.compile(r"^(?P<names>[\w*]+(?:, [\w*]+)*) : (?P<text>.+)$")


class DescribedParameters(griffe.Extension):
    """Move each parameter's text to where the parser looks for it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that griffe has loaded."""
        if obj.docstring is not None:
            obj.docstring.value = move_descriptions(obj.docstring.value)


def move_descriptions(docstring: str) -> str:
    """Return a docstring with `name : text` as two lines, the second one indented, in the sections of parameters."""
    lines = docstring.splitlines()
    result: list[str] = []
    section = ""
    for number, line in enumerate(lines):
        if number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1]) and line.strip():
            section = line.strip()
        match = _ENTRY.match(line) if section in _SECTIONS else None
        if match:
            result += [match["names"], f"    {match['text']}"]
        else:
            result.append(line)
    return "\n".join(result)
