"""What this package needs to run elsewhere: the distributions, and the files that each of them has recorded."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from ...errors import ParquetBloomError
from ...storage import open_source

OURS = "parquet-bloom"
ROOT = Path(__file__).parents[1]
FROM_SPARK = frozenset({"pyspark", "py4j"})
"""What every executor has from Spark itself."""

# Read with a regular expression, as nothing at hand can be trusted to have a parser: name[extras] version; marker.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?", re.ASCII | re.DOTALL)
_OF_EXTRA = re.compile(r"\bextra\s*==\s*['\"]([^'\"]+)['\"]")
# Tests, and what only a compiler reads; what pip notes of how something came here (there may be credentials in a URL).
_UNUSED_FOLDERS = {"tests", "__pycache__"}
_UNUSED_ENDINGS = (".pyc", ".pxd", ".pyx", ".pxi", ".h", ".hpp", ".c", ".cpp", ".a", ".lib", ".pth")
_UNUSED_NOTES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}


@dataclass(frozen=True)
class Distribution:
    """One that is to be packed.

    Attributes
    ----------
    name, version : as its metadata have them.
    files : local paths by their places below a folder of packages, sorted.
    missing : number of files that it has recorded, but which are not there.
    """

    name: str
    version: str
    files: dict[str, str]
    missing: int = 0

    @cached_property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(os.stat(path).st_size for path in self.files.values())


def closure(extras: Collection[str] = (), without: Collection[str] = ()) -> list[Distribution]:
    """Find all that this package needs, itself first, the others in the order of their names.

    Parameters
    ----------
    extras : extras of this package that are wanted, too.
    without : distributions to leave out, and with them what only they need.

    Raises
    ------
    ParquetBloomError
        A distribution is not installed or has no list of its files, or a name is unknown.
    """
    left_out = {normal(name): name for name in without}
    used: set[str] = set()
    found: dict[str, Distribution] = {}
    first, known = _own_requirements()
    for extra in extras:
        if normal(extra) not in known:
            raise ParquetBloomError(f"there is no extra {extra!r}; there are: {', '.join(sorted(known))}")
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [*_needed(first, {normal(extra) for extra in extras})]
    while waiting:
        name, wanted, optional = waiting.pop()
        if name in left_out:
            used.add(name)
        elif name not in FROM_SPARK and (name, wanted) not in done:
            done.add((name, wanted))
            if name == OURS:  # an extra that is made of others
                waiting += _needed(first, wanted)
                continue
            try:
                distribution = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                if optional:  # meant for another platform or version of Python
                    continue
                raise ParquetBloomError(f"{name} is needed and not installed here; or leave it out") from None
            if name not in found:
                found[name] = _recorded(distribution)
            waiting += _needed(distribution.requires or (), wanted)
    if unused := sorted(left_out.keys() - used):
        raise ParquetBloomError(f"{left_out[unused[0]]!r} is to be left out, but nothing that is packed needs it")
    return [_ourselves(), *(found[name] for name in sorted(found))]


def normal(name: str) -> str:
    """A distribution's or an extra's name, spelled one way."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _needed(requirements: Iterable[str], extras: Collection[str]) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Names, their extras, and whether a marker may rule them out. Markers but those of extras are not evaluated."""
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is None:
            raise ParquetBloomError(f"a requirement that cannot be read: {requirement!r}")
        name, wanted, marker = found.groups()
        of = set(map(normal, _OF_EXTRA.findall(marker or "")))
        if not of or of & set(extras):
            names = frozenset(normal(extra) for extra in (wanted or "").split(",") if extra.strip())
            yield normal(name), names, bool(_OF_EXTRA.sub("", marker or "").strip())


def _own_requirements() -> tuple[list[str], set[str]]:
    """Requirements as metadata spell them, and the names of all extras; of the sources when it is them that run."""
    table = _project_table()
    if normal(str(table.get("name"))) == OURS:
        by_extra = table.get("optional-dependencies", {})
        texts = [f"{text}; extra == '{extra}'" for extra, texts in by_extra.items() for text in texts]
        return [*table.get("dependencies", ()), *texts], {*map(normal, by_extra)}
    try:
        ours = metadata.distribution(OURS)
    except metadata.PackageNotFoundError:
        raise ParquetBloomError(f"what {OURS} needs is not known: it has neither metadata nor sources here") from None
    return ours.requires or [], {*map(normal, ours.metadata.get_all("Provides-Extra") or ())}


def _project_table() -> dict[str, Any]:
    """What the sources say of their project; beside an installed package anyone's may stand."""
    project = ROOT.parent / "pyproject.toml"
    try:
        table = tomllib.loads(_read(project)).get("project") if project.is_file() else None
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def _ourselves() -> Distribution:
    """The package that runs now, wherever that is: an editable install has no list of its files."""
    files = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(set(folders) - _UNUSED_FOLDERS)
        for name in sorted(names):
            if name.endswith((".py", *EXTENSION_SUFFIXES)) and _loads_here(name):
                path = os.path.join(folder, name)
                files[os.path.relpath(path, ROOT.parent)] = path
    return Distribution(OURS, sys.modules[__name__.partition(".")[0]].__version__, files)


def _loads_here(name: str) -> bool:
    """Whether a module is not one compiled for another Python: `.cpython-310-...so` ends in `.so` like all."""
    _, dot, tag = name.removesuffix(".so").partition(".")
    return not name.endswith(".so") or not dot or f".{tag}.so" in EXTENSION_SUFFIXES


def _recorded(distribution: metadata.Distribution) -> Distribution:
    name = distribution.metadata["Name"]
    if distribution.files is None:
        raise ParquetBloomError(f"{name} has no list of its files: install it with pip, or leave it out")
    files, missing = {}, 0
    for file in distribution.files:
        path = os.path.abspath(str(file.locate()))
        if file.name == "direct_url.json" and os.path.isfile(path) and '"editable"' in _read(path):
            raise ParquetBloomError(f"{name} is an editable install, whose files nobody has recorded; or leave it out")
        if {"..", ""} & set(file.parts) or file.is_absolute() or not _is_used(file.parts):
            continue
        if os.path.isfile(path):
            files[file.as_posix()] = path
        else:
            missing += 1
    return Distribution(name, distribution.version, dict(sorted(files.items())), missing)


def _read(path: str | os.PathLike[str]) -> str:
    with open_source(path) as source:
        return source.read_at(0, source.size).decode()


def _is_used(parts: tuple[str, ...]) -> bool:
    if parts[0].endswith(".dist-info"):
        return parts[-1] not in _UNUSED_NOTES
    return not (_UNUSED_FOLDERS & set(parts[:-1]) or parts[-1].endswith(_UNUSED_ENDINGS))
