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


def list_names(location: ObjectLocation) -> dict[str, tuple[int, int, ListedObject]]:
    """{name: (bytes, ns, what opening it need not ask)} of the objects directly in a folder; a request a thousand.

    Raises
    ------
    StorageError
        It cannot be listed.
    """
    if not location.can_list:
        problem = "a web server tells no names of files"
        raise StorageError(problem, path=location.name, errno=errno.EOPNOTSUPP)
    with translate_errors("cannot list it", location.name):
        listed = location.client.list_folder(location.key or None)
    start = len(location.key) + 1 if location.key else 0
    # The mark of the folder itself is shown as the folder's key, without the slash.
    return {
        item["path"][start:]: (
            item["size"],
            to_nanoseconds(item["last_modified"]),
            make_listed_object(location, Listed(item["path"], item["size"], item["e_tag"])),
        )
        for item in listed
        if item["path"][start:]
    }


def delete(location: ObjectLocation, names: Sequence[str]) -> None:
    """Delete objects of a folder; those that are not there are no error.

    Raises
    ------
    StorageError
        One cannot be deleted.
    """
    keys = [f"{location.key}/{name}" if location.key else name for name in names]
    try:
        with translate_errors("cannot delete objects", location.name):
            location.client.delete(keys)
    except StorageError as error:
        if not is_missing(error):
            raise
        # Such a store stops at the first one that is missing.
        for key in keys:
            _delete_one(location.at(key))


def _delete_one(location: ObjectLocation) -> None:
    try:
        with translate_errors("cannot delete it", location.name):
            location.client.delete([location.key])
    except StorageError as error:
        if not is_missing(error):
            raise
