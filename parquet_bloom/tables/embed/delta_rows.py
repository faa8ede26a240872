"""The actions by which a commit deletes rows of a Delta table."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow.parquet as pq
from pyroaring import BitMap64

from ...errors import ParquetBloomError
from ...file.bloom_file import BloomFile
from ...storage import open_source
from ..delta.delta_commit import make_remove
from ..delta.delta_log import Action
from ..delta.delta_properties import APPEND_ONLY, CHANGE_FEED, DELETION_VECTORS, ROW_TRACKING, is_on
from ..delta.delta_vectors import FEATURE, DeletionVector, Vector, write_vectors
from ..delta.row_tracking import explain_materializing
from .new_files import WrittenFile
from .table_target import Exchange, HiddenRows, LiveFile, RewrittenFile, RowChange, TableState

if TYPE_CHECKING:
    from ...util.given_types import FileSystem


def explain_deleting(properties: Mapping[str, str]) -> str | None:
    """Return why rows of a table cannot be deleted in any way; None if they can."""
    if is_on(properties, APPEND_ONLY):
        return f"its property {APPEND_ONLY} forbids that rows are deleted"
    if is_on(properties, CHANGE_FEED):
        problem = f"its property {CHANGE_FEED} asks for a record of each deleted row, which is not written here"
        return f"{problem}: delete the rows by Spark, or unset the property"
    return None


def explain_hiding(properties: Mapping[str, str], features: Collection[str]) -> str | None:
    """Return why rows of a table cannot be deleted by deletion vectors; None if they can.

    Parameters
    ----------
    features : of its protocol, for readers.
    """
    if FEATURE in features and is_on(properties, DELETION_VECTORS):
        return None
    return f"its property {DELETION_VECTORS} is not on"


def explain_rewriting(properties: Mapping[str, str]) -> str | None:
    """Return why files of a table cannot be written anew without rows; None if they can."""
    return explain_materializing(properties) if is_on(properties, ROW_TRACKING) else None


_IDS = ("baseRowId", "defaultRowCommitVersion")


class RowActions(NamedTuple):
    """What a commit writes into the log, what the table's history shows of it, and the new files that it needs."""

    actions: Sequence[Action]
    sums: Mapping[str, int]
    files: Sequence[WrittenFile]


def delete_rows(state: TableState, change: RowChange, filesystem: FileSystem | None, name: UUID) -> RowActions:
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
    written = write_vectors(state.snapshot.root, filesystem, name, vectors) if vectors else None
    described = () if written is None else written.described
    now = time.time_ns() // 1_000_000
    actions: list[Action] = []
    for removed in change.removed:
        actions.append(make_remove(removed.old.entry, now, changes_data=True))
    for file, vector_of_file in zip(change.hidden, described, strict=True):
        actions += _hide(file, vector_of_file, now, filesystem)
    for new in change.rewritten:
        actions += _exchange(new, now, filesystem)
    actions += ({"add": file.entry} for file in change.added)
    sums = {
        "numAddedFiles": len(change.added) + len(change.rewritten),
        "numOutputRows": sum(file.num_rows for file in change.added),
        "numDeletedRows": change.num_rows,
        "numRemovedFiles": len(change.removed) + len(change.rewritten),
        "numCopiedRows": sum(new.num_rows for new in change.rewritten),
        "numDeletionVectorsAdded": len(change.hidden),
        "numDeletionVectorsUpdated": num_updated,
    }
    files: list[WrittenFile] = [*change.added, *change.rewritten]
    return RowActions(actions, sums, files if written is None else [*files, written])


def _hide(file: HiddenRows, described: Vector, now: int, filesystem: FileSystem | None) -> Iterator[Action]:
    """Yield the actions that give a file another deletion vector."""
    add = file.old.entry
    yield make_remove(add, now, changes_data=True)
    statistics = _loosen(add.get("stats"), file.old, filesystem)
    changed = {"dataChange": True, "deletionVector": described, "stats": statistics}
    yield {"add": {"partitionValues": {}, "modificationTime": now, **add, **changed}}


def _exchange(new: RewrittenFile, now: int, filesystem: FileSystem | None) -> Iterator[Action]:
    """Yield the actions that put a file in the place of an old one."""
    add = new.old.entry
    yield make_remove(add, now, changes_data=True)
    kept = {name: value for name, value in add.items() if name not in ("deletionVector", "stats", *_IDS)}
    changed = {"path": name_in_log(new), "size": new.size, "modificationTime": now, "dataChange": True}
    statistics = _shrink(add.get("stats"), new, filesystem)
    yield {"add": {"partitionValues": {}, **kept, **changed, "stats": statistics}}


def _shrink(text: str | None, new: RewrittenFile, filesystem: FileSystem | None) -> str:
    """Return the statistics of a file that has fewer rows than the old one; bounds of the old one hold."""
    statistics = _parse_statistics(text, new.old)
    with open_source(new.path, filesystem) as source, source.arrow_file() as stream:
        metadata = pq.read_metadata(stream)
    counts: dict[str, int | None] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(group.num_columns):
            chunk = group.column(position)
            known = chunk.statistics.null_count if chunk.is_stats_set and chunk.statistics.has_null_count else None
            before = counts.get(chunk.path_in_schema, 0)
            counts[chunk.path_in_schema] = None if known is None or before is None else before + known
    statistics["nullCount"] = _count_nulls(statistics.get("nullCount"), counts, "")
    return _write_json({**statistics, "numRecords": new.num_rows, "tightBounds": False})


def _count_nulls(before: object, counts: Mapping[str, int | None], above: str) -> dict[str, object]:
    """Return the null counts of the columns that had some before, as far as the new file's footer says them."""
    found: dict[str, object] = {}
    for name, value in before.items() if isinstance(before, dict) else ():
        if isinstance(value, dict):
            found[name] = _count_nulls(value, counts, f"{above}{name}.")
        elif counts.get(above + name) is not None:
            found[name] = counts[above + name]
    return found


def _parse_statistics(text: str | None, file: LiveFile) -> dict[str, Any]:
    try:
        statistics = {} if text is None else json.loads(text, parse_float=_Number)
    except json.JSONDecodeError as error:
        raise ParquetBloomError(f"its statistics in the log are not JSON: {error}", path=file.path) from None
    if not isinstance(statistics, dict):
        raise ParquetBloomError("its statistics in the log are not an object", path=file.path)
    return statistics


def _loosen(text: str | None, file: LiveFile, filesystem: FileSystem | None) -> str:
    """Return the statistics of a file of which rows are deleted: bounds hold, but may not be values any more.

    A file with a deletion vector has to have its number of rows, those deleted included.
    """
    statistics = _parse_statistics(text, file)
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


def name_in_log(new: Exchange | RewrittenFile) -> str:
    """Return the path of a new file as the log has it: behind that of the old file's folder, to the letter."""
    folder = new.old.entry["path"].rpartition("/")[0]
    return f"{folder}/{os.path.basename(new.path)}" if folder else os.path.basename(new.path)
