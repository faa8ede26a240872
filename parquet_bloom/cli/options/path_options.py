"""Resolve PATH arguments to files, and files to the paths of their outputs."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ...errors import ManagedTableError, NoFilesError, ParquetBloomError, StorageError
from ...storage import is_url, list_files, same_place
from ...storage.paths import resolve_local_path
from ..output.output import Output

STDIN = "-"


@dataclass(frozen=True)
class MatchedPaths:
    """A file, and the folder or pattern that it was matched by.

    Attributes
    ----------
    path : the file.
    root : the folder that its path in an output folder is relative to; None for a file that was named itself.
    of_folder : whether all of `root` was requested.
    """

    path: str
    root: str | None
    of_folder: bool


def find_files(paths: Sequence[str], output: Output, *, way_out: str = "", raises: bool = False) -> list[MatchedPaths]:
    """Return the files matched by PATH arguments, each once; report paths without files.

    Parameters
    ----------
    way_out : what the error of a table's folder says besides.
    raises : whether that error is raised in place of reported.
    """
    matches: dict[str, MatchedPaths] = {}
    with output.step("find files"):
        expanded = [*expand_stdin(paths)]
        for path in expanded:
            try:
                files = list_files(path, output.filesystem, alone=len(expanded) == 1)
            except ParquetBloomError as error:
                if isinstance(error, ManagedTableError):
                    if raises:
                        raise
                    error.problem += way_out
                output.fail(error)
                continue
            root, of_folder = _find_root(path, files)
            for file in files:
                # As in list_files: `a/..` is not the parent of `a` if that is a symbolic link.
                key = os.path.abspath(file) if ".." not in file and not is_url(file) else file
                matches.setdefault(key, MatchedPaths(file, root, of_folder))
            if not files:  # a mount that is missing, for one
                output.fail(NoFilesError("no files in it", path=path))
    return list(matches.values())


def expand_stdin(paths: Iterable[str]) -> Iterator[str | PurePath]:
    """Yield PATH arguments, with `-` replaced by the names listed on standard input."""
    for path in paths:
        if path != STDIN:
            yield path
            continue
        data = sys.stdin.buffer.read() if sys.stdin else b""
        lines = data.split(b"\0") if b"\0" in data else data.splitlines()
        for line in lines:
            if line:
                name = os.fsdecode(line)
                yield name if is_url(name) else PurePath(name)  # a PurePath is never taken for a pattern


def _find_root(path: str | PurePath, files: Sequence[str]) -> tuple[str | None, bool]:
    if isinstance(path, str) and is_url(path):
        if [*files] == [path]:
            return None, False
        return (_fixed_folder(path), False) if glob.has_magic(path) else (path, True)
    name = resolve_local_path(path, for_reading=True)
    if os.path.isdir(name):
        return name, True
    if os.path.lexists(name) or isinstance(path, PurePath):
        return None, False
    return _fixed_folder(name), False


def _fixed_folder(pattern: str) -> str:
    """Return the folder before the first wildcard of a pattern."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern


def plan_outputs(files: Sequence[MatchedPaths], paths: Sequence[str], output: str) -> dict[str, str]:
    """Return the path of each file's output: {file: output}.

    Parameters
    ----------
    files, paths : the matched files, and the arguments that matched them.
    output : a file if a single file was named and `output` is not a folder, else a folder. Files of a folder or a
        pattern keep their paths relative to it, files named one by one those relative to their common folder.

    Raises
    ------
    ParquetBloomError
        Two files would have the same output, or an output is itself an input or lies in an input folder.
    """
    target = output if is_url(output) else resolve_local_path(output)
    one = len(paths) == 1 and paths[0] != STDIN and all(file.root is None for file in files)
    if one and not output.endswith(os.sep) and not os.path.isdir(target):
        outputs = {file.path: target for file in files}
    else:
        if os.path.lexists(target) and not os.path.isdir(target):
            raise StorageError("the output of several files must be a folder, but this is a file", path=output)
        outputs = {
            file.path: os.path.join(target, part) for file, part in zip(files, _iter_relative_paths(files), strict=True)
        }
    _check_outputs(files, outputs, target)
    return outputs


def _iter_relative_paths(files: Sequence[MatchedPaths]) -> Iterator[str]:
    named = [os.path.dirname(os.path.abspath(file.path)) for file in files if file.root is None]
    shared = os.path.commonpath(named) if named else ""
    for file in files:
        yield os.path.relpath(file.path, shared if file.root is None else file.root or os.curdir)


def _check_outputs(files: Sequence[MatchedPaths], outputs: dict[str, str], target: str) -> None:
    inputs = {os.path.realpath(path): path for path in outputs}
    sources: dict[str, str] = {}
    for path, output in outputs.items():
        real = os.path.realpath(output)
        if real == os.path.realpath(path):
            raise ParquetBloomError("the output is the file itself; use --in-place to replace it", path=path)
        if real in inputs:
            raise ParquetBloomError(f"the output would replace {inputs[real]}, which is also an input", path=path)
        if real in sources:
            raise ParquetBloomError(f"the output {output} would also be that of {sources[real]}", path=path)
        sources[real] = path
    _refuse_among(files, target)


def check_output(files: Sequence[MatchedPaths], target: str) -> None:
    """Reject an output file that is itself an input, or lies in an input folder."""
    if any(same_place(file.path, target) for file in files):
        raise ParquetBloomError("the output is also an input", path=target)
    _refuse_among(files, target)


def _refuse_among(files: Sequence[MatchedPaths], target: str) -> None:
    inside = os.path.join(os.path.realpath(target), "")
    for root in {file.root for file in files if file.root is not None and file.of_folder}:
        if inside.startswith(os.path.join(os.path.realpath(root), "")):
            raise ParquetBloomError(f"the output lies in {root}, whose readers would find rows twice", path=target)


def create_parent_folder(path: str) -> None:
    """Create the folder of an output file, as durably as the file itself."""
    folder = os.path.dirname(path)
    if folder and not is_url(path):
        from ...storage.index_folder import Folder

        Folder(folder).make()
