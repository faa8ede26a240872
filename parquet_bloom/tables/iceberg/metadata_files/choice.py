"""Which of the metadata files in a folder is the latest, by their names and by what is in them.

Catalogs name them `00012-<uuid>.metadata.json`, and tables without a catalog (Hadoop's) `v12.metadata.json`.

Source: the Iceberg table specification, "Table Metadata Fields" (metadata-log) and "Table Metadata and Snapshots".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

_NUMBERED = re.compile(r"(?:v(\d{1,18})|(\d{1,18})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")

# Clocks by which files get their times lag by so much: they tick, and stores count in seconds.
_TICK_NS, _SECOND_NS = 20_000_000, 1_000_000_000


class ListedFile(NamedTuple):
    """A file of a folder, and when it was written, in nanoseconds since 1970; None where that is not known."""

    name: str
    modified: int | None


class Numbered(NamedTuple):
    """A metadata file, its number, and whether it is named as those of tables without a catalog are."""

    file: ListedFile
    number: int
    is_hadoop: bool


class Candidate(NamedTuple):
    """A metadata file and its content; None for content that is not understood."""

    file: ListedFile
    opened: Any


def number_files(files: Iterable[ListedFile]) -> list[Numbered]:
    """Return the metadata files that have numbers, the highest first."""
    found = []
    for file in files:
        match = _NUMBERED.fullmatch(file.name)
        if match is not None:
            found.append(Numbered(file, int(match[1] or match[2]), match[1] is not None))
    return sorted(found, key=lambda one: (-one.number, one.file.name))


def follow_hint(numbered: Sequence[Numbered], number: int) -> list[Numbered]:
    """Return what the number in a hint and the names of a Hadoop table say is the latest, the highest first.

    A commit is the renaming of its file, and the hint is written after it: versions that follow are committed, too.
    """
    by_number: dict[int, list[Numbered]] = {}
    for one in numbered:
        if one.is_hadoop:
            by_number.setdefault(one.number, []).append(one)
    found: list[Numbered] = []
    while number in by_number:
        found = by_number[number] + found
        number += 1
    return found


def list_predecessors(metadata: Any) -> list[str]:
    """Return the names of the metadata files that a table had before this one, by its log."""
    return [str(entry.metadata_file).rpartition("/")[2] for entry in metadata.metadata_log]


def choose_among(candidates: Sequence[Candidate], known: Collection[str]) -> Candidate | None:
    """Return the one of several metadata files of one number that was committed; None if that cannot be told.

    All follow the same version, and at most one of them was committed. Whoever follows a file has got it from the
    catalog. Otherwise it is the file that was begun after the others were finished: its writer asked the catalog then,
    and got the version before, so that none of the others was committed; they are of writers that died.

    Parameters
    ----------
    known : names of files that others follow.
    """
    followed = [one for one in candidates if one.file.name in known]
    if len(followed) == 1:
        return followed[0]
    for one in candidates:
        others = [other.file.modified for other in candidates if other is not one]
        if one.opened is None or None in others:
            continue
        begun = one.opened.table.metadata.last_updated_ms * 1_000_000
        if all(begun > _finished_by(modified) for modified in others if modified is not None):
            return one
    return None


def _finished_by(modified: int) -> int:
    """Return a time by which a file of a modification time was finished."""
    return modified + (_SECOND_NS if modified % _SECOND_NS == 0 else _TICK_NS)
