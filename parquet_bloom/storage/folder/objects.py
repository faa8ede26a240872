"""The objects of a folder: what keys begin with, up to the next slash."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from ...errors import StorageError
from ..objects.client import Listed
from ..objects.errors import is_missing, translate_errors
from ..objects.listing import make_listed_object
from ..objects.location import ListedObject, ObjectLocation
from ..objects.source import to_nanoseconds


def list_names(place: ObjectLocation) -> dict[str, tuple[int, int, ListedObject]]:
    """{name: (bytes, ns, what opening it need not ask)} of the objects directly in a folder; a request a thousand.

    Raises
    ------
    StorageError
        It cannot be listed.
    """
    if not place.lists:
        problem = "a web server tells no names of files"
        raise StorageError(problem, path=place.name, errno=errno.EOPNOTSUPP)
    with translate_errors("cannot list it", place.name):
        listed = place.client.list_folder(place.key or None)
    start = len(place.key) + 1 if place.key else 0
    # The mark of the folder itself is shown as the folder's key, without the slash.
    return {
        item["path"][start:]: (
            item["size"],
            to_nanoseconds(item["last_modified"]),
            make_listed_object(place, Listed(item["path"], item["size"], item["e_tag"])),
        )
        for item in listed
        if item["path"][start:]
    }


def delete(place: ObjectLocation, names: Sequence[str]) -> None:
    """Delete objects of a folder; those that are not there are no error.

    Raises
    ------
    StorageError
        One cannot be deleted.
    """
    keys = [f"{place.key}/{name}" if place.key else name for name in names]
    try:
        with translate_errors("cannot delete objects", place.name):
            place.client.delete(keys)
    except StorageError as error:
        if not is_missing(error):
            raise
        # Such a store stops at the first one that is missing.
        for key in keys:
            _delete_one(place.at(key))


def _delete_one(place: ObjectLocation) -> None:
    try:
        with translate_errors("cannot delete it", place.name):
            place.client.delete([place.key])
    except StorageError as error:
        if not is_missing(error):
            raise
