"""Row tracking of Delta tables: the ids that commits have given to rows, and those that are left to be given.

Source: the Delta transaction log protocol, sections "Row IDs", "Row Commit Versions" and "Domain Metadata".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import ParquetBloomError, StorageError
from ...file.numbered_column import NumberedColumn
from ...storage.index_folder import Folder
from .delta_log import Action, choose_files, read_lines

FEATURE = "rowTracking"
_DOMAIN, _MARK = "delta.rowTracking", "rowIdHighWaterMark"
_MATERIALIZED = (
    ("delta.rowTracking.materializedRowIdColumnName", "baseRowId", 1),
    ("delta.rowTracking.materializedRowCommitVersionColumnName", "defaultRowCommitVersion", 0),
)


def find_last_row_id(log: Folder, version: int, adds: Iterable[Action]) -> int:
    """Return the highest id that a row of a table has ever had; -1 if none has had any.

    Parameters
    ----------
    adds : the live add actions of the version.

    Raises
    ------
    StorageError, ParquetBloomError
        The log cannot be read, or does not say it.
    """
    checkpoint, commits = choose_files(log, version)
    found = -1
    names = () if checkpoint is None else checkpoint.names
    for name in (*commits[::-1], *names):
        domains = [domain for domain in _read_domains(log, name) if domain.get("domain") == _DOMAIN]
        if domains:
            try:
                found = json.loads(domains[-1]["configuration"])[_MARK]
                if type(found) is not int:
                    raise TypeError(f"{found!r} is not a number")
            except (ValueError, KeyError, TypeError) as error:
                problem = f"its domain {_DOMAIN} does not say which ids rows have had: {error}"
                raise ParquetBloomError(problem, path=log.path_of(name)) from None
            break
    for add in adds:
        if "baseRowId" in add:
            found = max(found, add["baseRowId"] + (_count_rows(add) or 1) - 1)
    return found


def _read_domains(log: Folder, name: str) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".json"):
        for action in read_lines(log, name):
            if isinstance(action.get("domainMetadata"), dict):
                yield action["domainMetadata"]
        return
    try:
        with log.open(name) as source, source.arrow_file() as stream, pq.ParquetFile(stream) as file:
            if "domainMetadata" in file.schema_arrow.names:
                for value in file.read(["domainMetadata"], use_threads=False)["domainMetadata"].drop_null():
                    yield value.as_py()
    except (pa.ArrowException, OSError) as error:
        raise StorageError.wrap(error, "cannot read the checkpoint", log.path_of(name)) from error


def _count_rows(add: Action) -> int | None:
    try:
        found = json.loads(add.get("stats", "null"))["numRecords"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None


def explain_materializing(properties: Mapping[str, str]) -> str | None:
    """Return why rows of a table that tracks them cannot move into other files; None if they can."""
    missing = next((name for name, _, _ in _MATERIALIZED if not properties.get(name)), None)
    return None if missing is None else f"it tracks rows, and lacks the property {missing}, which names their column"


def number_rows(add: Action, path: str, properties: Mapping[str, str]) -> list[NumberedColumn]:
    """Return the columns by which rows of a file keep their ids and versions in another file.

    Raises
    ------
    ParquetBloomError
        The log has none for the file.
    """
    if any(member not in add for _, member, _ in _MATERIALIZED):
        raise ParquetBloomError("it tracks rows, and the log has no ids for those of this file", path=path)
    return [NumberedColumn(properties[name], None, add[member], step) for name, member, step in _MATERIALIZED]


def assign_row_ids(actions: Iterable[Action], last: int, version: int) -> Iterator[Action]:
    """Yield the actions of a commit, in which new files get ids for their rows.

    Parameters
    ----------
    last : the highest id that a row has had.
    """
    first = last
    for action in actions:
        add = action.get("add")
        if add is None or "baseRowId" in add:
            yield action
            continue
        yield {"add": {**add, "baseRowId": last + 1, "defaultRowCommitVersion": version}}
        count = _count_rows(add)
        if count is None:
            raise ParquetBloomError(
                "its entry in the log has no number of rows, by which they get ids", path=add["path"]
            )
        last += count
    if last != first:
        configuration = json.dumps({_MARK: last})
        yield {"domainMetadata": {"domain": _DOMAIN, "configuration": configuration, "removed": False}}
