"""Choose the snapshot of an Iceberg table that was asked for, and the schema to read it with."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass
from typing import Any

from ...errors import ParquetBloomError, StorageError
from ..snapshot import as_integer

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAIN = "main"
_NO_SNAPSHOT = -1  # as Java writers have it


@dataclass(frozen=True)
class Request:
    """Which snapshot of a table: the current one, or by one of these.

    Attributes
    ----------
    snapshot_id : its id.
    ref : the name of a branch or tag.
    as_of : a time in milliseconds since 1970.
    """

    snapshot_id: int | None = None
    ref: str | None = None
    as_of: int | None = None


def make_request(snapshot_id: Any, ref: Any, as_of: Any) -> Request:
    """Check and convert what a caller gives.

    Raises
    ------
    ParquetBloomError
        There is more than one of them, or one is not of its type.
    """
    given = [
        name for name, value in (("snapshot_id", snapshot_id), ("ref", ref), ("as_of", as_of)) if value is not None
    ]
    if len(given) > 1:
        raise ParquetBloomError(f"{' and '.join(given)} exclude each other: give one")
    number = as_integer(snapshot_id)
    if snapshot_id is not None and number is None:
        raise ParquetBloomError(f"a snapshot id is a number, not {snapshot_id!r}")
    if ref is not None and not isinstance(ref, str):
        raise ParquetBloomError(f"a ref is the name of a branch or tag, not {ref!r}")
    return Request(number, ref, None if as_of is None else _to_millis(as_of))


def _to_millis(as_of: Any) -> int:
    moment = as_of
    if isinstance(as_of, str):
        with contextlib.suppress(ValueError):
            moment = dt.datetime.fromisoformat(as_of.strip())
    if not isinstance(moment, dt.datetime):
        raise ParquetBloomError(f"a time is a datetime or text such as 2026-01-31T12:00:00Z, not {as_of!r}")
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def choose_snapshot(table: Any, request: Request, name: str) -> tuple[Any, Any]:
    """Return the snapshot, None if the table is empty, and the schema; both pyiceberg's.

    The current snapshot and branches are read with the table's current schema, as the format's documentation has it;
    tags, and snapshots by id or time, with the schema of their own.

    Raises
    ------
    StorageError
        There is no such snapshot.
    """
    metadata = table.metadata
    if request == Request():
        snapshot = table.current_snapshot()
        if snapshot is None and metadata.current_snapshot_id not in (None, _NO_SNAPSHOT):  # not an empty table
            raise StorageError(f"its metadata lacks the current snapshot, {metadata.current_snapshot_id}", path=name)
        return snapshot, table.schema()
    if request.ref is not None:
        snapshot, is_branch = _find_ref(metadata, request.ref, name)
    else:
        snapshot, is_branch = _find_snapshot(metadata, request, name), False
    if is_branch or snapshot is None or snapshot.schema_id is None:
        return snapshot, table.schema()
    return snapshot, table.schemas().get(snapshot.schema_id, table.schema())


def _find_ref(metadata: Any, ref: str, name: str) -> tuple[Any, bool]:
    """Return the snapshot of a branch or tag, and whether it is a branch."""
    if ref not in metadata.refs:
        if ref == _MAIN and metadata.current_snapshot_id is None:
            return None, True
        known = ", ".join(sorted(map(str, metadata.refs))) or "none"
        raise StorageError(f"it has no branch or tag {ref!r}; there are: {known}", path=name)
    found = metadata.refs[ref]
    snapshot = metadata.snapshot_by_id(found.snapshot_id)
    if snapshot is None:
        raise StorageError(f"the snapshot {found.snapshot_id} of its {ref!r} is gone", path=name)
    return snapshot, str(found.snapshot_ref_type) == "branch"


def _find_snapshot(metadata: Any, request: Request, name: str) -> Any:
    snapshot_id = request.snapshot_id
    if request.as_of is not None:
        log = metadata.snapshot_log
        snapshot_id = next((each.snapshot_id for each in reversed(log) if each.timestamp_ms <= request.as_of), None)
        if snapshot_id is None:
            moment = (_EPOCH + dt.timedelta(milliseconds=request.as_of)).isoformat()
            raise StorageError(f"its first known snapshot is of a time after {moment}", path=name)
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise StorageError(f"it has no snapshot {snapshot_id}, or no longer", path=name)
    return snapshot
