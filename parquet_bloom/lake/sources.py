"""The lake's files as they are now: of folders and patterns, of a table, or those that were named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ParquetBloomError
from ..storage import Entry, is_local, is_url, list_entries
from .hashed import FindLeaf
from .tables import TableFiles, delta_files, iceberg_files


def name_of(path: str, filesystem: object | None = None) -> str:
    """How an index names a file: absolute on the local file system, and whichever way S3's scheme was written."""
    if is_url(path):
        scheme, colon, rest = path.partition(":")
        scheme = scheme.lower()
        return ({"s3a": "s3", "gcs": "gs", "azure": "az"}.get(scheme, scheme)) + colon + rest
    if is_local(filesystem):
        return path if path[:1] == "/" and "//" not in path and "/." not in path else os.path.abspath(path)
    return path


@dataclass(frozen=True)
class Listing:
    """Files of the lake.

    Attributes
    ----------
    entries : the files.
    found : whether they were found in folders, by patterns or in a table; otherwise each was named.
    roots : what they were found in, to be looked at again; as a manifest has it.
    snapshot : which state of a table they are; empty for plain files.
    find : which leaf of a file is a column of the table; None where it is the one of its name.
    """

    entries: Sequence[Entry]
    found: bool
    roots: Mapping[str, Any] = field(default_factory=dict)
    snapshot: Mapping[str, Any] = field(default_factory=dict)
    find: FindLeaf | None = None


def list_lake(lake: Any, filesystem: object | None, storage_options: Mapping[str, Any] | None = None) -> Listing:
    """The files that a caller's description of the lake stands for.

    Parameters
    ----------
    lake : what `storage.list_files` takes; a `TableFiles`; or, as manifests have it, {"paths": [...]},
        {"delta": path} or {"iceberg": path}.

    Raises
    ------
    StorageError
        There is no such path.
    ManagedTableError
        A folder belongs to a table.
    ParquetBloomError
        The table cannot be read, or the library that reads it is not installed.
    """
    if isinstance(lake, Mapping):
        if "delta" in lake:
            lake = delta_files(lake["delta"], storage_options=storage_options)
        elif "iceberg" in lake:
            lake = iceberg_files(lake["iceberg"])
        else:
            return list_lake(lake.get("paths", []), filesystem)
    if isinstance(lake, TableFiles):
        entries = [Entry(file.path) for file in lake.files]
        snapshot = {"kind": lake.kind, "table_id": lake.table_id, "version": lake.version}
        return Listing(entries, True, {lake.kind: lake.root}, snapshot, lake.leaf_of)
    paths = [lake] if isinstance(lake, (str, os.PathLike)) else list(lake)
    entries = list_entries(paths, filesystem)
    roots = folders_among(paths, entries, filesystem)
    return Listing(entries, bool(roots), {"paths": roots} if roots else {})


def folders_among(paths: Iterable[Any], entries: Sequence[Entry], filesystem: object | None) -> list[str]:
    """Those of a caller's paths that are no files, but folders or patterns; absolute."""
    files = {entry.path for entry in entries}
    found = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise ParquetBloomError(f"a path is a string or a path object, not {type(path).__name__}")
        text = os.fsdecode(path)
        if text not in files:
            found.append(name_of(text, filesystem))
    return found


def merged(roots: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of the lake, and what was added to it.

    Raises
    ------
    ParquetBloomError
        One is a table, and the other is not that table.
    """
    if not roots or not more or dict(roots) == dict(more):
        return dict(roots or more)
    if set(roots) != {"paths"} or set(more) != {"paths"}:
        raise ParquetBloomError("an index is of one table, or of files that are in none: make another one")
    paths = list(roots["paths"])
    for path in more["paths"]:
        if not any(path == known or path.startswith(known.rstrip("/") + "/") for known in paths):
            paths = [known for known in paths if not known.startswith(path.rstrip("/") + "/")]
            paths.append(path)
    return {"paths": paths}
