"""Read the log of a Delta table: the add actions of a version as they were written.

deltalake decides what a table consists of, but shows neither deletion vectors nor the other parts of an add action that
a new action for the same rows has to repeat. This reader finds them, by the newest checkpoint and the commits after it;
`require_same_files` compares what it finds with deltalake's files.

Source: the Delta transaction log protocol, sections "Action Reconciliation" and "Checkpoints".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import ParquetBloomError, StorageError
from ...storage import Source
from ...storage.index_folder import Folder
from ..table_locations import resolve_delta_path
from ..table_snapshot import FileChange

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

LOG_FOLDER = "_delta_log"
PARSED = "stats_parsed"
_SIDECAR_FOLDER = "_sidecars"

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9A-Za-z-]+)?\.(parquet|json)")

# Real logs are far below these limits; deltalake, which reads a log first, has limits of its own.
_CHUNK_BYTES = 8 * 1024 * 1024
_LONGEST_LINE = 256 * 1024 * 1024
_MOST_ACTIONS = 50_000_000
_MOST_SIDECARS = 100_000
_BATCH_ROWS = 8192
_LONGEST_INFO = 16 * 1024 * 1024  # bytes of a commit's first line

Action = dict[str, Any]
"""An action of a log by the names of the protocol; add actions that were checked are without members that are null."""

_Key = tuple[str, str | None]
"""What identifies a file of the log: its path as written, and its deletion vector."""


class Checkpoint(NamedTuple):
    """The files of a checkpoint."""

    version: int
    names: tuple[str, ...]


def read_live_adds(
    root: str, version: int, filesystem: FileSystem | None = None, fields: Collection[str] | None = None
) -> list[Action]:
    """Return the add actions that are live at a version, in the order of their paths.

    Parameters
    ----------
    root : the table's folder, or its URL.
    version : the version, which exists.
    filesystem : what `storage.resolve_filesystem` returns.
    fields : members of add actions to read from checkpoints, besides `path`, `size` and `deletionVector`; None for all
        but `stats_parsed` and `partitionValues_parsed`. Actions of commits have all their members. `stats_parsed` is
        an array of one row.

    Raises
    ------
    StorageError
        A file of the log is missing or cannot be read.
    ParquetBloomError
        The log is incomplete, or not understood.
    """
    folder = Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem)
    checkpoint, commits = choose_files(folder, version)
    live: dict[_Key, Action] = {}
    if checkpoint is not None:
        for add in read_checkpoint(folder, checkpoint, root, fields):
            live[_make_key(add)] = add
    for name in commits:
        path = folder.path_of(name)
        for action in read_lines(folder, name):
            _apply(action, live, path)
    return [live[key] for key in sorted(live, key=lambda key: (key[0], key[1] or ""))]


def read_file_changes(
    root: str, after: int, version: int, filesystem: FileSystem | None = None
) -> dict[str, FileChange] | None:
    """Return {path: change} of the files in the commits after one version and up to another, with paths resolved.

    None if a commit is missing, or changes more than files: the table's columns, or its protocol.

    Raises
    ------
    StorageError
        The log cannot be read.
    ParquetBloomError
        The log is not understood.
    """
    folder = Folder(f"{root.rstrip('/')}/{LOG_FOLDER}", filesystem)
    commits = list_commits(folder)
    changes: dict[str, FileChange] = {}
    for number in range(after + 1, version + 1):
        if number not in commits:
            return None
        path = folder.path_of(commits[number][0])
        added: dict[_Key, Action] = {}
        removed = set()
        for action in read_lines(folder, commits[number][0]):
            if action.get("metaData") is not None or action.get("protocol") is not None:
                return None
            if isinstance(action.get("remove"), dict):
                removed.add(resolve_delta_path(str(action["remove"].get("path")), root))
            _apply(action, added, path)
        live = {resolve_delta_path(add["path"], root) for add in added.values()}
        for name in removed | live:
            first = changes.get(name, FileChange(name in removed, True))
            changes[name] = first._replace(is_live=name in live)
    return changes


def require_same_files(adds: Iterable[Action], files: Iterable[tuple[str, int]], root: str) -> dict[str, Action]:
    """Return {path: add action}, with paths resolved, if the actions are those of a list of files.

    Parameters
    ----------
    adds : the live actions by `read_live_adds`.
    files : path and size of the live files by another reader, deltalake.
    root : the table's folder, or its URL.

    Raises
    ------
    ParquetBloomError
        The two differ, or a file is listed twice.
    """
    expected = dict(files)
    found: dict[str, Action] = {}
    for add in adds:
        path = resolve_delta_path(add["path"], root)
        if path in found:
            raise ParquetBloomError(f"its log lists the file {path} twice", path=root)
        if expected.get(path) != add["size"]:
            problem = "is live by its log, but not by deltalake" if path not in expected else "has two sizes in its log"
            raise ParquetBloomError(f"its file {path} {problem}; it is not read", path=root)
        found[path] = add
    missing = expected.keys() - found.keys()
    if missing:
        raise ParquetBloomError(f"its file {min(missing)} is live by deltalake, but not by its log", path=root)
    return found


def find_versions(folder: Folder) -> tuple[int, int] | None:
    """Return the first and the last version that can be read of a log; None if there is none."""
    names = folder.names()
    commits = {int(match[1]) for name in names if (match := _COMMIT.fullmatch(name))}
    complete = {checkpoint.version for checkpoint in list_checkpoints(names)} | (commits & {0})
    return (min(complete), max(complete | commits)) if complete else None


def list_commits(folder: Folder) -> dict[int, tuple[str, int]]:
    """Return {version: (name, modification time in ns)} of the commits in a log's folder, ascending."""
    found = ((_COMMIT.fullmatch(name), name, modified) for name, (_, modified) in folder.names().items())
    return dict(sorted((int(match[1]), (name, modified)) for match, name, modified in found if match))


# -------------------------------------------------------------------------------------------------------- files


def choose_files(folder: Folder, version: int) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest complete checkpoint up to a version, and the commits after it."""
    names = folder.names()
    commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
    checkpoint = max((found for found in list_checkpoints(names) if found.version <= version), default=None)
    after = range(0 if checkpoint is None else checkpoint.version + 1, version + 1)
    missing = next((number for number in after if number not in commits), None)
    if missing is not None:
        problem = f"version {version} cannot be read: commit {missing} is missing, and no checkpoint replaces it"
        raise ParquetBloomError(problem, path=folder.path)
    return checkpoint, [commits[number] for number in after]


def list_checkpoints(names: Mapping[str, tuple[int, int]]) -> list[Checkpoint]:
    """Return the complete checkpoints of a log, with all their parts, of which none is empty.

    Parameters
    ----------
    names : as `Folder.names` returns them.
    """
    parts: dict[tuple[int, str], dict[int, str]] = {}  # by version and number of parts
    checkpoints: list[Checkpoint] = []
    for name, (size, _) in sorted(names.items()):
        match = _CHECKPOINT.fullmatch(name)
        if match is None or size == 0:  # deltalake passes over those that a writer has only begun
            continue
        number, part, count, suffix = match.groups()
        if part is None:
            checkpoints.append(Checkpoint(int(number), (name,)))
        elif suffix == "parquet":
            parts.setdefault((int(number), count), {})[int(part)] = name
    for (number, count), by_part in parts.items():
        if min(by_part) == 1 and max(by_part) == len(by_part) == int(count):
            checkpoints.append(Checkpoint(number, tuple(by_part[part] for part in sorted(by_part))))
    return checkpoints


def read_lines(folder: Folder, name: str) -> Iterator[Action]:
    """Yield the actions of a file with one JSON object in a line.

    Raises
    ------
    StorageError
        The file cannot be read.
    ParquetBloomError
        A line is not an action.
    """
    path = folder.path_of(name)
    with folder.open(name) as source:
        for number, line in enumerate(_split_lines(source, path), 1):
            try:
                action = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _make_error(path, f"line {number} is not JSON: {error}") from None
            if not isinstance(action, dict):
                raise _make_error(path, f"line {number} is not an action")
            yield action


def read_commit_time(folder: Folder, name: str) -> int:
    """Return the in-commit timestamp of a commit, in ms since 1970, which its first line has.

    Raises
    ------
    StorageError
        The commit cannot be read.
    ParquetBloomError
        It has none.
    """
    with folder.open(name) as source:
        length, line = 64 * 1024, b""
        while b"\n" not in line and len(line) < source.size:
            if length > _LONGEST_INFO:
                break
            line = source.read_at(0, min(length, source.size))
            length *= 4
    try:
        time = json.loads(line.split(b"\n", 1)[0])["commitInfo"]["inCommitTimestamp"]
        if type(time) is not int:
            raise TypeError(f"{type(time).__name__} is not a time")
    except (ValueError, KeyError, TypeError, RecursionError):
        problem = "the commit has no in-commit timestamp in its first line"
        raise ParquetBloomError(problem, path=folder.path_of(name)) from None
    return time


def _split_lines(source: Source, path: str) -> Iterator[bytes]:
    rest = b""
    for offset in range(0, source.size, _CHUNK_BYTES):
        rest += source.read_at(offset, min(_CHUNK_BYTES, source.size - offset))
        *lines, rest = rest.split(b"\n")
        yield from filter(bytes.strip, lines)
        if len(rest) > _LONGEST_LINE:
            raise _make_error(path, f"a line is longer than {_LONGEST_LINE:,} bytes")
    if rest.strip():
        yield rest


# ------------------------------------------------------------------------------------------------------ actions


def _apply(action: Action, live: dict[_Key, Action], path: str) -> None:
    """Apply an action of a commit to the live files."""
    add, remove = action.get("add"), action.get("remove")
    if add is not None:
        checked = _check_add(add, path)
        live[_make_key(checked)] = checked
        if len(live) > _MOST_ACTIONS:
            raise _make_error(path, f"the table has more than {_MOST_ACTIONS:,} files")
    if remove is not None:
        if not isinstance(remove, dict) or not isinstance(remove.get("path"), str):
            raise _make_error(path, "a remove action has no path")
        live.pop(_make_key(remove), None)


def _check_add(add: object, path: str) -> Action:
    """Return an add action without null members, if the members that decide what is read are as they should be."""
    if not isinstance(add, dict):
        raise _make_error(path, "an add action is not an object")
    checked: Action = {name: value for name, value in add.items() if value is not None}
    name, size, values = checked.get("path"), checked.get("size"), checked.get("partitionValues", {})
    if not isinstance(name, str) or not name:
        raise _make_error(path, "an add action has no path")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _make_error(path, f"the add action of {name!r} has the size {size!r}")
    if not isinstance(values, dict) or not all(value is None or isinstance(value, str) for value in values.values()):
        raise _make_error(path, f"the partition values of {name!r} are not texts")
    if not isinstance(checked.get("stats", ""), str):
        raise _make_error(path, f"the statistics of {name!r} are not a text")
    return checked


def _make_key(action: Action) -> _Key:
    """Return what identifies the file of an add or remove action."""
    vector = action.get("deletionVector")
    if not isinstance(vector, dict):
        return action["path"], None
    offset = vector.get("offset")
    name = f"{vector.get('storageType')}{vector.get('pathOrInlineDv')}"
    return action["path"], name if offset is None else f"{name}@{offset}"


# -------------------------------------------------------------------------------------------------- checkpoints


def read_checkpoint(
    folder: Folder, checkpoint: Checkpoint, root: str, fields: Collection[str] | None
) -> Iterator[Action]:
    """Yield the add actions of a checkpoint: of one file or of several, with sidecars or without."""
    sidecars: list[object] = []
    number = 0
    for name in checkpoint.names:
        path = folder.path_of(name)
        actions = read_lines(folder, name) if name.endswith(".json") else _read_parquet(folder, name, fields)
        for action in actions:
            if action.get("sidecar") is not None:
                sidecars.append(action["sidecar"])
            if action.get("add") is not None:
                number += 1
                yield _check_add(action["add"], path)
            if number > _MOST_ACTIONS or len(sidecars) > _MOST_SIDECARS:
                raise _make_error(path, "it has too many actions")
    if not sidecars:
        return
    below = Folder(f"{folder.path}/{_SIDECAR_FOLDER}", folder.filesystem)
    for name in _resolve_sidecars(sidecars, below, root, folder.path_of(checkpoint.names[0])):
        for action in _read_parquet(below, name, fields):
            if action.get("sidecar") is not None:
                raise _make_error(below.path_of(name), "a sidecar names other sidecars")
            if action.get("add") is not None:
                number += 1
                yield _check_add(action["add"], below.path_of(name))
            if number > _MOST_ACTIONS:
                raise _make_error(below.path_of(name), "it has too many actions")


def _resolve_sidecars(sidecars: list[object], below: Folder, root: str, path: str) -> Iterator[str]:
    """Yield the file names of sidecars, which lie in one folder."""
    for sidecar in sidecars:
        name = sidecar.get("path") if isinstance(sidecar, dict) else None
        base, found = f"{root.rstrip('/')}/{LOG_FOLDER}/{_SIDECAR_FOLDER}", ""
        if isinstance(name, str):
            with suppress(ParquetBloomError):  # then it cannot be resolved
                found = resolve_delta_path(name, base)
        if found.rpartition("/")[0] != base:
            raise _make_error(path, f"it has a sidecar {name!r}, which is not in {_SIDECAR_FOLDER}/")
        yield found.rpartition("/")[2]


def _read_parquet(folder: Folder, name: str, fields: Collection[str] | None) -> Iterator[Action]:
    """Yield the actions `add` and `sidecar` of a checkpoint's Parquet file."""
    path = folder.path_of(name)
    try:
        with folder.open(name) as source, source.arrow_file() as stream, pq.ParquetFile(stream) as file:
            columns = _choose_columns(file.schema_arrow, fields)
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False) if columns else ():
                for action in batch.schema.names:
                    array = batch.column(action)
                    yield from ({action: value} for value in _list_actions(array.filter(array.is_valid()), path))
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        if isinstance(error, ParquetBloomError):
            raise
        raise StorageError.wrap(error, "cannot read the checkpoint", path) from error


def _choose_columns(schema: pa.Schema, fields: Collection[str] | None) -> list[str]:
    """Return the columns of a checkpoint to read."""
    columns = [name for name in ("sidecar",) if name in schema.names]
    if "add" in schema.names and pa.types.is_struct(schema.field("add").type):
        always = ("path", "size", "deletionVector")
        for member in schema.field("add").type:
            wanted = not member.name.endswith("_parsed") if fields is None else member.name in fields
            if wanted or member.name in always:
                columns.append(f"add.{member.name}")
    return columns


def _list_actions(array: pa.Array, path: str) -> Iterator[Action]:
    """Yield the actions of an array without nulls; null members are dropped, but not null values of maps."""
    if not pa.types.is_struct(array.type):
        raise _make_error(path, "a column of actions is not a struct")
    names = [member.name for member in array.type]
    # Member by member, which takes half the time of whole actions.
    members = [_list_members(name, member) for name, member in zip(names, array.flatten(), strict=True)]
    for values in zip(*members, strict=True):
        yield {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _list_members(name: str, member: pa.Array) -> list[object]:
    if member.null_count == len(member):
        return [None] * len(member)
    if name == PARSED:
        return [member.slice(row, 1) if valid else None for row, valid in enumerate(member.is_valid().to_pylist())]
    values = member.to_pylist(maps_as_pydicts="strict")
    if name != "deletionVector":
        return values
    return [{key: part for key, part in value.items() if part is not None} if value else None for value in values]


def _make_error(path: str, problem: str) -> ParquetBloomError:
    return ParquetBloomError(f"the table's log cannot be understood: {problem}", path=path)
