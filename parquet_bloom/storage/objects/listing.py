"""From a URL to objects: one object, all below a folder, or what a pattern matches."""

from __future__ import annotations

import errno
import glob
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from ...errors import StorageError
from ...util import threads
from ..patterns import Pattern, is_hidden
from ..table_markers import describe_table, find_tables, refuse_managed_table
from .client import Listed, RequestCount
from .errors import is_missing, translate_errors
from .location import ListedObject, ObjectLocation
from .managed_tables import find_table_above
from .source import ObjectSource

_SAME_TAG = ("S3", "Memory", "Local")
"""Stores whose listings have the etags that reads have. Azure's write them without quotes, Google's may have others."""


def list_objects(place: ObjectLocation, alone: bool, requests: RequestCount) -> list[ListedObject]:
    """The data objects that a URL stands for, sorted by key.

    Parameters
    ----------
    place : an object, a folder (what keys begin with), or a pattern; what ends in a slash is no object.
    alone : whether it is asked for by itself. Among several, a name that looks like a file's is taken for one, without
        a request; such a folder's URL then has to end in a slash.
    requests : counts those that listing takes; `ListedObject.requests` are not among them.

    Raises
    ------
    StorageError, ManagedTableError
        As in `list_files`.
    """
    if not place.lists:
        return [ListedObject(place)]
    if glob.has_magic(place.key):
        return _matches(place, requests)
    if not place.key or place.name.endswith("/"):
        found = _folder(place, requests)
        if not found:
            raise _nothing(place)
        return found
    if _named_as_a_file(place):
        return (_object(place) or _folder(place, requests) or _empty(place)) if alone else [ListedObject(place)]
    return _folder(place, requests) or _object(place) or _empty(place)


def needs_requests(place: ObjectLocation) -> bool:
    """Whether `list_objects` asks the store about a place that is one of several."""
    return place.lists and (not _named_as_a_file(place) or place.name.endswith("/") or glob.has_magic(place.key))


def _named_as_a_file(place: ObjectLocation) -> bool:
    return "." in place.key.rpartition("/")[2]


def _nothing(place: ObjectLocation) -> StorageError:
    """The error for what does not exist; it says if nothing seems to exist in the whole bucket."""
    problem = "there is no such object or folder"
    with suppress(Exception):  # where the bucket may not be listed, that is no news
        if not any(place.client.list_first([None])):
            problem += "; the whole bucket is listed as empty, which is also what a proxy's page looks like"
    return StorageError(problem, path=place.name, errno=errno.ENOENT)


def _object(place: ObjectLocation) -> list[ListedObject]:
    """The object, opened: what that has brought is handed on. Nothing if it does not exist, or is empty."""
    try:
        with ObjectSource(place) as source:
            return [ListedObject(place, source.size, source.e_tag, source.tail, source.requests)] if source.size else []
    except StorageError as error:
        if not is_missing(error):
            raise
        return []


def _empty(place: ObjectLocation) -> list[ListedObject]:
    """An object without a byte that is no folder's mark."""
    try:
        with ObjectSource(place) as source:
            return [ListedObject(place, source.size, source.e_tag)]
    except StorageError as error:
        raise (_nothing(place) if is_missing(error) else error) from None


def _folder(place: ObjectLocation, requests: RequestCount) -> list[ListedObject]:
    listed, tables, above = _look(place, place.key, requests)
    refuse_managed_table(above, place.name)
    for root, sign in tables.items():
        refuse_managed_table(describe_table(sign, place.root + root), place.name)
    start = len(place.key) + 1 if place.key else 0
    return [item for item in listed if not any(_hidden_parts(item.place.key[start:].split("/")))]


def _matches(place: ObjectLocation, requests: RequestCount) -> list[ListedObject]:
    fixed = place.key
    while glob.has_magic(fixed):
        fixed = fixed.rpartition("/")[0]
    listed, tables, above = _look(place, fixed, requests)
    exact = [item for item in listed if item.place.key == place.key]
    if exact:
        return exact
    pattern = Pattern(place.key.split("/"), folders_only=place.name.endswith("/"))
    found = [item for item in listed if pattern.takes(item.place.key)]
    if not found:
        raise StorageError("no object matches the pattern", path=place.name, errno=errno.ENOENT)
    refuse_managed_table(above, place.name)
    for root, sign in tables.items():
        if not root or any(item.place.key.startswith(root + "/") for item in found):
            refuse_managed_table(describe_table(sign, place.root + root), place.name)
    return found


def _look(
    place: ObjectLocation, folder: str, requests: RequestCount
) -> tuple[list[ListedObject], dict[str, str], str | None]:
    """All objects below a folder, {root: sign} of the tables that they show, and a table above, found meanwhile."""
    of_tables = RequestCount()
    search = partial(find_table_above, place, itself=False, remembered=True, requests=of_tables)
    with threads.in_order(search, [folder], 1) as above:
        items = _listed(place, folder, requests)
        tables = dict(find_tables(item.key for item in items))
        folders = {item.key[:end] for item in items for end in _slashes(item.key)} | {folder}
        known = [make_listed_object(place, item) for item in items if not _marks_a_folder(item.key, item.size, folders)]
        table = next(above)
    requests.number += of_tables.number
    return known, tables, table


def _listed(place: ObjectLocation, folder: str, requests: RequestCount) -> list[Listed]:
    """All objects below a folder, sorted by key."""
    with translate_errors("cannot list it", place.name):
        items, number = place.client.list_objects(folder or None)
    requests.number += number
    return items


def make_listed_object(place: ObjectLocation, item: Listed) -> ListedObject:
    """What a listing tells of an object; its etag where reads have the same."""
    told = place.kind in _SAME_TAG and item.e_tag is not None and item.e_tag.startswith('"')
    return ListedObject(place.at(item.key), item.size, item.e_tag if told else None)


def _marks_a_folder(key: str, size: int, folders: set[str]) -> bool:
    """Whether an object only stands for a folder. obstore shows the key `a/` as `a`."""
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
