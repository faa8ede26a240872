"""Write a report as a page: `Report` is what `page.js` draws.

All texts in it have passed `printable`: the script shows them as texts, and nothing in them can become markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pkgutil
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ..errors import printable
from ..storage import create
from .cell_states import CellState

if TYPE_CHECKING:
    from ..util.given_types import FileSystem


class CellMap(TypedDict):
    """The cells that are drawn, in groups: the row groups of files, for one.

    heading, about : the title, and how to read the picture.
    group, cell : what these are called: "file", "row group".
    is_share : whether cells are shares of their group: then each group has lines of its own, and cells have no numbers.
    states : those that occur, by `describe_states`.
    kinds : (number of its state, description) of the distinct cells.
    folders, ending, groups : the path of each group, as in `SplitPaths`, each name with the group's number of cells.
    kind_of : the kind of each cell, group after group.
    rows, bytes : how many rows and bytes each cell stands for; -1 where that is unknown, empty if it always is.
    """

    heading: str
    about: str
    group: str
    cell: str
    is_share: bool
    states: list[dict[str, Any]]
    kinds: list[tuple[int, str]]
    folders: list[str]
    ending: str
    groups: list[tuple[int, str, int]]
    kind_of: list[int]
    rows: list[int]
    bytes: list[int]


class Curve(TypedDict):
    """False-positive probability by size: a line of the model, a dot for each filter, and what was asked for.

    span : the sizes from left to right.
    """

    column: str
    caption: str
    span: tuple[int, int]
    line: list[tuple[int, float]]
    dots: list[tuple[int, float]]
    asked: float | None


class ReportTable(TypedDict):
    """A table of texts; `numbers` are the columns that are aligned to the right, `curves` follow it."""

    heading: str
    about: str
    heads: list[str]
    rows: list[list[str]]
    numbers: list[int]
    curves: list[Curve]


class Report(TypedDict):
    """What a page shows, from top to bottom.

    title, where : its heading, and the predicate or paths under it.
    facts : (label, number, remark) of the figures at the top.
    map : the picture; None if there is nothing to draw.
    notes : paragraphs under the picture.
    commands : (what it does, command) to run next.
    """

    title: str
    where: str
    facts: list[tuple[str, str, str]]
    map: CellMap | None
    notes: list[str]
    commands: list[tuple[str, str]]
    tables: list[ReportTable]


def render_page(report: Report) -> str:
    """Render a report as one HTML file, which loads nothing else."""
    style, script = _read_resource("page.css"), _read_resource("page.js")
    parts = {
        "style": style,
        "style_hash": _digest(style),
        "script": script,
        "script_hash": _digest(script),
        "report": to_script_json(report),
    }
    return re.sub(r"\{(\w+)\}", lambda name: parts[name[1]], _read_resource("page.html"))


def write_page(report: Report, output: str | os.PathLike[str] | None, filesystem: FileSystem | None) -> str:
    """Render a report, and write it to a file unless `output` is None."""
    text = render_page(report)
    if output is not None:
        with create(output, filesystem) as new:
            new.write(text.encode())
            new.commit()
    return text


def to_script_json(value: object) -> str:
    """Convert to ASCII JSON that nothing in a `<script>` can be ended by."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def shorten(text: str, length: int = 160) -> str:
    """Make a text printable, and leave out its middle if it is too long."""
    return _cut(printable(text), length)


def _cut(text: str, length: int = 160) -> str:
    return text if len(text) <= length else f"{text[: length // 2]}…{text[-length // 2 :]}"


class SplitPaths(NamedTuple):
    """Paths in parts: each is the prefix, one of the folders, a name and the ending.

    Attributes
    ----------
    prefix, ending : what all begin and end with.
    folders : the distinct folders below the prefix, each with its last slash.
    names : (number of its folder, its name without the ending) of each path.
    """

    prefix: str
    ending: str
    folders: list[str]
    names: list[tuple[int, str]]


def split_paths(paths: Iterable[str]) -> SplitPaths:
    """Split paths, made printable and not too long, into what they have in common and what they have not."""
    folders: dict[str, int] = {}
    names = []
    for path in map(printable, paths):
        folder, slash, name = path.rpartition("/")
        names.append((folders.setdefault(folder + slash, len(folders)), _cut(name)))
    common = _common_start(folders)
    prefix = common[: common.rfind("/") + 1]
    ending = _common_start({name[::-1] for _, name in names})[::-1] if len(names) > 1 else ""
    return SplitPaths(
        _cut(prefix),
        ending,
        [_cut(folder[len(prefix) :]) for folder in folders],
        [(folder, name[: len(name) - len(ending)]) for folder, name in names],
    )


def _common_start(texts: Collection[str]) -> str:
    first, last = min(texts, default=""), max(texts, default="")  # what these begin with, all between them do
    return first[: next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))]


def describe_states(counts: Mapping[CellState, int]) -> list[dict[str, Any]]:
    """Return the states for a `CellMap`, each with its number of cells."""
    return [asdict(state) | {"count": number} for state, number in counts.items()]


def _read_resource(name: str) -> str:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
