"""Parameters in docstrings, as the site's parser expects them.

The project writes ``paths : a file, a folder, or a list of them.``; numpydoc's parser takes what follows the colon for
a type. The signatures have the types, so here the text moves to the line below, where the parser expects a description.
"""

from __future__ import annotations

import re

_SECTIONS = ("Parameters", "Other Parameters", "Attributes")
_UNDERLINE = re.compile(r"-{3,}$")
_ENTRY = re.compile(r"^(?P<names>[\w*]+(?:, [\w*]+)*) : (?P<text>.+)$")
_LONG_NAMES = re.compile(r"^((?:[\w*]+, )*[\w*]+),\n +((?:[\w*]+, )*[\w*]+ : )", re.MULTILINE)


def move_descriptions(docstring: str) -> str:
    """Return a docstring with `name : text` as two lines, the second one indented, in the sections of parameters.

    `one, two : text` becomes an entry for each: the parser gives all names of one entry the first one's type.
    """
    lines = _LONG_NAMES.sub(r"\1, \2", docstring).splitlines()
    result: list[str] = []
    section, names, description = "", [""], list[str]()

    def end_entry() -> None:
        for name in filter(None, names):
            result.extend([name, *description])
        names[:], description[:] = [""], []

    for number, line in enumerate(lines):
        if number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1]) and line.strip():
            section = line.strip()
        match = _ENTRY.match(line) if section in _SECTIONS else None
        if match:
            end_entry()
            names[:], description[:] = match["names"].split(", "), [f"    {match['text']}"]
        elif names[0] and line.startswith("    "):
            description.append(line)
        else:
            end_entry()
            result.append(line)
    end_entry()
    return "\n".join(result)
