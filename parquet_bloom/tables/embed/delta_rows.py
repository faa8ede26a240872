"""The actions by which a commit deletes rows of a Delta table."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from pyroaring import BitMap64

from ...errors import ParquetBloomError
from ...file.bloom_file import BloomFile
from ...storage import open_source
from ..delta.delta_commit import make_remove
from ..delta.delta_log import Action
from ..delta.delta_vectors import FEATURE, DeletionVector, Vector, write_vectors
from .exchange_files import HiddenRows, LiveFile, RowChange, TableState

_VECTORS = "delta.enableDeletionVectors"
_APPEND_ONLY = "delta.appendOnly"
_CHANGE_FEED = "delta.enableChangeDataFeed"


def require_deletable(properties: Mapping[str, str], path: str) -> None:
    """Raise ParquetBloomError for a table whose properties forbid that rows are deleted, or ask for more than that."""
    if properties.get(_APPEND_ONLY, "").lower() == "true":
        raise ParquetBloomError(f"its property {_APPEND_ONLY} forbids that rows are deleted", path=path)
    if properties.get(_CHANGE_FEED, "").lower() == "true":
        problem = f"its property {_CHANGE_FEED} asks for a record of each deleted row, which is not written here"
        raise ParquetBloomError(f"{problem}: delete the rows by Spark, or unset the property", path=path)


def explain_hiding(properties: Mapping[str, str], features: Collection[str]) -> str | None:
    """Return why rows of a table cannot be deleted by deletion vectors; None if they can.

    Parameters
    ----------
    features : of its protocol, for readers.
    """
    if FEATURE in features and properties.get(_VECTORS) == "true":
        return None
    return f"its property {_VECTORS} is not on"


class RowActions(NamedTuple):
    """What a commit writes into the log, and what the table's history shows of it."""

    actions: Sequence[Action]
    sums: Mapping[str, int]


def delete_rows(state: TableState, change: RowChange, filesystem: object | None, name: UUID) -> RowActions:
    """Write the deletion vectors of a change, and return its actions.

    Parameters
    ----------
    name : of the file of vectors.

    Raises
    ------
    StorageError
        The vectors cannot be written.
    ParquetBloomError
        The deleted rows of a file cannot be determined, or it has fewer rows than are to be deleted.
    """
    vectors, num_updated = [], 0
    for file in change.hidden:
        before = state.snapshot.deletes.get(file.old.path)
        vector = BitMap64(np.ascontiguousarray(file.rows).astype(np.uint64))
        if before is not None:
            assert isinstance(before, DeletionVector)
            vector |= before.read()
            num_updated += 1
        vectors.append(vector)
    written = write_vectors(state.snapshot.root, filesystem, name, vectors) if vectors else []
    now = time.time_ns() // 1_000_000
    actions: list[Action] = []
    for removed in change.removed:
        actions.append(make_remove(removed.old.entry, now, changes_data=True))
    for file, described in zip(change.hidden, written, strict=True):
        actions += _hide(file, described, now, filesystem)
    actions += ({"add": file.entry} for file in change.added)
    sums = {
        "numAddedFiles": len(change.added),
        "numOutputRows": sum(file.num_rows for file in change.added),
        "numDeletedRows": change.num_rows,
        "numRemovedFiles": len(change.removed),
        "numDeletionVectorsAdded": len(change.hidden),
        "numDeletionVectorsUpdated": num_updated,
    }
    return RowActions(actions, sums)


def _hide(file: HiddenRows, described: Vector, now: int, filesystem: object | None) -> Iterator[Action]:
    """Yield the actions that give a file another deletion vector."""
    add = file.old.entry
    yield make_remove(add, now, changes_data=True)
    statistics = _loosen(add.get("stats"), file.old, filesystem)
    changed = {"dataChange": True, "deletionVector": described, "stats": statistics}
    yield {"add": {"partitionValues": {}, "modificationTime": now, **add, **changed}}


def _loosen(text: str | None, file: LiveFile, filesystem: object | None) -> str:
    """Return the statistics of a file of which rows are deleted: bounds hold, but may not be values any more.

    A file with a deletion vector has to have its number of rows, those deleted included.
    """
    try:
        statistics = {} if text is None else json.loads(text, parse_float=_Number)
    except json.JSONDecodeError as error:
        raise ParquetBloomError(f"its statistics in the log are not JSON: {error}", path=file.path) from None
    if not isinstance(statistics, dict):
        raise ParquetBloomError("its statistics in the log are not an object", path=file.path)
    if not isinstance(statistics.get("numRecords"), int):
        with open_source(file.path, filesystem) as source:
            statistics["numRecords"] = BloomFile(source).footer.num_rows
    return _write_json({**statistics, "tightBounds": False})


class _Number(str):
    """A number with a fraction as it was written: a float may have fewer digits."""

    __slots__ = ()


def _write_json(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_write_json(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
