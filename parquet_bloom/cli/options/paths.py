"""From PATH arguments to files, and from files to the places of their outputs."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ...errors import ParquetBloomError, StorageError
from ...storage import Folder, is_url, list_files, same_place
from ...storage.paths import resolve_local_path
from ..output.output import Output

STDIN = "-"


@dataclass(frozen=True)
class MatchedPaths:
    """A file, and what it was found by.

    Attributes
    ----------
    path : the file.
    root : the folder below which its place is kept in an output folder; None for a file that was named itself.
    of_folder : whether all of `root` was asked for.
    """

    path: str
    root: str | None
    of_folder: bool


def find_files(paths: Sequence[str], output: Output) -> list[MatchedPaths]:
    """The files that PATH arguments stand for, each once; a path that leads to none is reported."""
    found: dict[str, MatchedPaths] = {}
    with output.step("find files"):
        several = [*with_stdin(paths)]
        for path in several:
            with output.going_on():
                files = list_files(path, output.filesystem, alone=len(several) == 1)
                root, of_folder = _root(path, files)
                for file in files:
                    # As in list_files: `a/..` is not the folder of `a` where that is a link.
                    key = os.path.abspath(file) if ".." not in file and not is_url(file) else file
                    found.setdefault(key, MatchedPaths(file, root, of_folder))
                if not files:
                    output.note(f"{os.fspath(path)}: no files in it")
    return list(found.values())


def with_stdin(paths: Iterable[str]) -> Iterator[str | PurePath]:
    """PATH arguments, the names that standard input lists in place of `-`."""
    for path in paths:
        if path != STDIN:
            yield path
            continue
        listed = sys.stdin.buffer.read() if sys.stdin else b""
        lines = listed.split(b"\0") if b"\0" in listed else listed.splitlines()
        for line in lines:
            if line:
                name = os.fsdecode(line)
                yield name if is_url(name) else PurePath(name)  # an object, not a string: a name, never a pattern


def _root(path: str | PurePath, files: Sequence[str]) -> tuple[str | None, bool]:
    if isinstance(path, str) and is_url(path):
        if [*files] == [path]:
            return None, False
        return (_fixed(path), False) if glob.has_magic(path) else (path, True)
    name = resolve_local_path(path)
    if os.path.isdir(name):
        return name, True
    if os.path.lexists(name) or isinstance(path, PurePath):
        return None, False
    return _fixed(name), False


def _fixed(pattern: str) -> str:
    """The folder below which a pattern is one."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern


def place_outputs(files: Sequence[MatchedPaths], paths: Sequence[str], output: str) -> dict[str, str]:
    """Where each file's output goes: {file: output}.

    Parameters
    ----------
    files, paths : what was found, and by which arguments.
    output : a file if a single file was named and no folder is meant, else a folder. Below it, files of a folder or a
        pattern keep their place in that, files named one by one their place in the folder that they share.

    Raises
    ------
    ParquetBloomError
        Two files would have one output, or an output is itself an input or comes to stand among them.
    """
    target = output if is_url(output) else resolve_local_path(output)
    one = len(paths) == 1 and paths[0] != STDIN and all(file.root is None for file in files)
    if one and not output.endswith(os.sep) and not os.path.isdir(target):
        places = {file.path: target for file in files}
    else:
        if os.path.lexists(target) and not os.path.isdir(target):
            raise StorageError("it is a file, and the output of several is a folder", path=output)
        places = {file.path: os.path.join(target, place) for file, place in zip(files, _relative(files), strict=True)}
    _check_places(files, places, target)
    return places


def _relative(files: Sequence[MatchedPaths]) -> Iterator[str]:
    named = [os.path.dirname(os.path.abspath(file.path)) for file in files if file.root is None]
    shared = os.path.commonpath(named) if named else ""
    for file in files:
        yield os.path.relpath(file.path, shared if file.root is None else file.root or os.curdir)


def _check_places(files: Sequence[MatchedPaths], places: dict[str, str], target: str) -> None:
    inputs = {os.path.realpath(path): path for path in places}
    taken: dict[str, str] = {}
    for path, place in places.items():
        real = os.path.realpath(place)
        if real == os.path.realpath(path):
            raise ParquetBloomError("the output is the file itself; --in-place is the way to replace it", path=path)
        if real in inputs:
            raise ParquetBloomError(f"the output would replace {inputs[real]}, which is also to be read", path=path)
        if real in taken:
            raise ParquetBloomError(f"the output {place} would also be that of {taken[real]}", path=path)
        taken[real] = path
    _refuse_among(files, target)


def check_output(files: Sequence[MatchedPaths], target: str) -> None:
    """Refuse a file to be written that is itself an input, or would come to stand among them."""
    if any(same_place(file.path, target) for file in files):
        raise ParquetBloomError("it is also to be read", path=target)
    _refuse_among(files, target)


def _refuse_among(files: Sequence[MatchedPaths], target: str) -> None:
    inside = os.path.join(os.path.realpath(target), "")
    for root in {file.root for file in files if file.root is not None and file.of_folder}:
        if inside.startswith(os.path.join(os.path.realpath(root), "")):
            raise ParquetBloomError(f"it lies in {root}, whose readers would find rows twice", path=target)


def make_folder_of(path: str) -> None:
    """Make the folder that a file is to be written into, so that it lasts as the file does."""
    folder = os.path.dirname(path)
    if folder and not is_url(path):
        Folder(folder).make()
