"""Detection of tables that track objects in their metadata, by their logs in the folders above."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import StorageError
from ..names import ICEBERG, ICEBERG_FILES, LOGS, describe_table
from .client import LIST_PAGE
from .errors import translate_errors
from .location import ObjectLocation, RequestCount

REMEMBERED = 60.0
"""Seconds for which listings remember that a folder has no table; writers check each time."""

_MAX_REMEMBERED = 10_000
_LISTS = {"S3": "s3:ListBucket", "GCS": "storage.objects.list", "Azure": "List on the container"}
_NO_TABLE: dict[tuple[str, str], float] = {}
_LOCK = threading.Lock()


def find_table_above(
    location: ObjectLocation, key: str, itself: bool, remembered: bool = False, requests: RequestCount | None = None
) -> str | None:
    """Return which table tracks a key, or None.

    Parameters
    ----------
    location : any location in the store.
    key : key of an object or a folder.
    itself : whether the key itself may be the root of the table.
    remembered : accept results of the last minute.
    requests : counter for the requests.

    Raises
    ------
    StorageError
        If the store cannot be listed, because then a table cannot be ruled out. It names `location` as the caller did.
    """
    parts = key.split("/") if key else []
    folders = ["/".join(parts[:depth]) for depth in range(len(parts) + itself)]
    now = time.monotonic()
    if remembered:
        folders = [folder for folder in folders if _NO_TABLE.get((location.label, folder), 0.0) < now]
    if not folders:
        return None
    candidates = [(folder, name) for folder in reversed(folders) for name in (*LOGS, ICEBERG)]
    prefixes = [f"{folder}/{name}" if folder else name for folder, name in candidates]
    with _checking(location):
        pages = location.client.list_first(prefixes)
        if requests is not None:
            requests.number += len(prefixes)
        for (folder, name), prefix, page in zip(candidates, prefixes, pages, strict=True):
            if name != ICEBERG:
                is_table = bool(page)
            else:  # the metadata folder of a table may have many other files
                items = location.client.list_objects(prefix)[0] if len(page) == LIST_PAGE else page
                is_table = any(_is_iceberg_metadata(item.key[len(prefix) + 1 :]) for item in items)
            if is_table:
                return describe_table(name, location.root + folder)
    with _LOCK:
        if len(_NO_TABLE) > _MAX_REMEMBERED:
            _NO_TABLE.clear()
        _NO_TABLE.update(((location.label, folder), now + REMEMBERED) for folder in folders)
    return None


@contextmanager
def _checking(location: ObjectLocation) -> Iterator[None]:
    """Extend errors: say that a table cannot be ruled out, and which permission is needed."""
    try:
        with translate_errors("it cannot be checked whether it belongs to a table", location.name):
            yield
    except StorageError as error:
        if error.errno != errno.EACCES:
            raise
        needed = _LISTS.get(location.kind, "listing it")
        problem = f"{error.problem}; that takes the permission to list its bucket ({needed})"
        raise StorageError(problem, path=location.name, errno=error.errno) from error.__cause__


def _is_iceberg_metadata(name: str) -> bool:
    """Return whether a name in a folder `metadata` is the metadata file of an Iceberg table."""
    return "/" not in name and name.endswith(ICEBERG_FILES)
