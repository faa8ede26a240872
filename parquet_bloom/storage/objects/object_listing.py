"""Listing of the objects for a URL: one object, all below a folder, or all that match a pattern."""

from __future__ import annotations

import errno
import glob
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from ...errors import NoFilesError, StorageError
from ...util import threads
from ..file_names import (
    ICEBERG,
    ICEBERG_FILES,
    LOGS,
    Pattern,
    describe_table,
    find_tables,
    is_hidden,
    refuse_managed_table,
)
from .location import ListedObject, ObjectLocation, RequestCount
from .object_source import ObjectSource
from .request_limits import LIST_PAGE
from .store_errors import is_missing, translate_errors

if TYPE_CHECKING:
    from .store_client import Listed

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


_SAME_ETAG = ("S3", "Memory", "Local")
"""Stores whose listings have the same etags as reads. Azure omits the quotes, and Google may list other etags."""


def list_objects(location: ObjectLocation, alone: bool, requests: RequestCount) -> list[ListedObject]:
    """Return the data objects for a URL, sorted by key.

    Parameters
    ----------
    location : an object, a folder (a prefix of keys), or a pattern; a name that ends in a slash is not an object.
    alone : whether it is the only URL of the caller. Otherwise a name that looks like a file is taken for an object
        without a request; the URL of such a folder must end in a slash.
    requests : counter for the requests of the listing, without those in `ListedObject.requests`.

    Raises
    ------
    StorageError, ManagedTableError
        As in `list_files`.
    """
    if not location.can_list:
        return [ListedObject(location)]
    if glob.has_magic(location.key):
        return _expand_pattern(location, requests)
    if not location.key or location.name.endswith("/"):
        listed = _list_folder(location, requests)
        if not listed:
            raise _make_not_found_error(location)
        return listed
    if _looks_like_file(location):
        return (
            (_open_object(location) or _list_folder(location, requests) or _open_empty(location))
            if alone
            else [ListedObject(location)]
        )
    return _list_folder(location, requests) or _open_object(location) or _open_empty(location)


def needs_requests(location: ObjectLocation) -> bool:
    """Return whether `list_objects` makes requests for a location that is one of several."""
    return location.can_list and (
        not _looks_like_file(location) or location.name.endswith("/") or glob.has_magic(location.key)
    )


def _looks_like_file(location: ObjectLocation) -> bool:
    return "." in location.key.rpartition("/")[2]


def _make_not_found_error(location: ObjectLocation) -> StorageError:
    """Return the error for a missing object or folder; it mentions if the whole bucket seems to be empty."""
    problem = "there is no such object or folder"
    with suppress(Exception):  # the bucket may not be listable; then nothing is added
        if not any(location.client.list_first([None])):
            problem += "; the whole bucket is listed as empty, or a proxy answered instead of the store"
    return StorageError(problem, path=location.name, errno=errno.ENOENT)


def _open_object(location: ObjectLocation) -> list[ListedObject]:
    """Open an object and return it with its last bytes; nothing if it does not exist or is empty."""
    try:
        with ObjectSource(location) as source:
            return (
                [ListedObject(location, source.size, source.e_tag, source.tail, source.requests)] if source.size else []
            )
    except StorageError as error:
        if not is_missing(error):
            raise
        return []


def _open_empty(location: ObjectLocation) -> list[ListedObject]:
    """Return an empty object that does not mark a folder."""
    try:
        with ObjectSource(location) as source:
            return [ListedObject(location, source.size, source.e_tag)]
    except StorageError as error:
        raise (_make_not_found_error(location) if is_missing(error) else error) from None


def _list_folder(location: ObjectLocation, requests: RequestCount) -> list[ListedObject]:
    listed, tables, above = _list_below(location, location.key, requests)
    refuse_managed_table(above, location.name)
    for root, marker in tables.items():
        refuse_managed_table(describe_table(marker, location.root + root), location.name)
    start = len(location.key) + 1 if location.key else 0
    return [item for item in listed if not any(_hidden_parts(item.location.key[start:].split("/")))]


def _expand_pattern(location: ObjectLocation, requests: RequestCount) -> list[ListedObject]:
    fixed = location.key
    while glob.has_magic(fixed):
        fixed = fixed.rpartition("/")[0]
    listed, tables, above = _list_below(location, fixed, requests)
    exact = [item for item in listed if item.location.key == location.key]
    if exact:
        return exact
    pattern = Pattern(location.key.split("/"), folders_only=location.name.endswith("/"))
    matches = [item for item in listed if pattern.takes(item.location.key)]
    if not matches:
        raise NoFilesError("no object matches the pattern", path=location.name, errno=errno.ENOENT)
    refuse_managed_table(above, location.name)
    for root, marker in tables.items():
        if not root or any(item.location.key.startswith(root + "/") for item in matches):
            refuse_managed_table(describe_table(marker, location.root + root), location.name)
    return matches


def _list_below(
    location: ObjectLocation, folder: str, requests: RequestCount
) -> tuple[list[ListedObject], dict[str, str], str | None]:
    """Return all objects below a folder, {root: marker} of tables among them, and the table above the folder."""
    table_requests = RequestCount()
    search = partial(find_table_above, location, itself=False, remembered=True, requests=table_requests)
    with threads.in_order(search, [folder], 1) as above:
        items = _list_all(location, folder, requests)
        tables = dict(find_tables(item.key for item in items))
        folders = {item.key[:end] for item in items for end in _slashes(item.key)} | {folder}
        listed = [
            make_listed_object(location, *item) for item in items if not _is_folder_marker(item.key, item.size, folders)
        ]
        table = next(above)
    requests.number += table_requests.number
    return listed, tables, table


def _list_all(location: ObjectLocation, folder: str, requests: RequestCount) -> list[Listed]:
    """Return all objects below a folder, sorted by key."""
    with translate_errors("cannot list it", location.name):
        items, number = location.client.list_objects(folder or None)
    requests.number += number
    return items


def make_listed_object(location: ObjectLocation, key: str, size: int, e_tag: str | None) -> ListedObject:
    """Return the description of an object in a listing, with its etag if reads return the same one."""
    has_etag = location.kind in _SAME_ETAG and e_tag is not None and e_tag.startswith('"')
    return ListedObject(location.at(key), size, e_tag if has_etag else None)


def _is_folder_marker(key: str, size: int, folders: set[str]) -> bool:
    """Return whether an object only marks a folder; obstore shows the key `a/` as `a`."""
    return not size and (key in folders or "." not in key.rpartition("/")[2] or key.endswith("_$folder$"))


def _slashes(key: str) -> Iterator[int]:
    end = key.find("/")
    while end >= 0:
        yield end
        end = key.find("/", end + 1)


def _hidden_parts(parts: list[str]) -> Iterator[bool]:
    *folders, name = parts
    yield from (is_hidden(folder, is_folder=True) for folder in folders)
    yield is_hidden(name, is_folder=False)
