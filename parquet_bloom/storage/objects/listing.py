"""Listing of the objects for a URL: one object, all below a folder, or all that match a pattern."""

from __future__ import annotations

import errno
import glob
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from ...errors import StorageError
from ...util import threads
from ..names import Pattern, describe_table, find_tables, is_hidden, refuse_managed_table
from .client import Listed
from .errors import is_missing, translate_errors
from .location import ListedObject, ObjectLocation, RequestCount
from .managed_tables import find_table_above
from .source import ObjectSource

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
        raise StorageError("no object matches the pattern", path=location.name, errno=errno.ENOENT)
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
            make_listed_object(location, item) for item in items if not _is_folder_marker(item.key, item.size, folders)
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


def make_listed_object(location: ObjectLocation, item: Listed) -> ListedObject:
    """Return the description of an object in a listing, with its etag if reads return the same one."""
    has_etag = location.kind in _SAME_ETAG and item.e_tag is not None and item.e_tag.startswith('"')
    return ListedObject(location.at(item.key), item.size, item.e_tag if has_etag else None)


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
