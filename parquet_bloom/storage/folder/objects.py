"""Listing and deletion of the objects of a folder, which is a prefix of keys."""

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
    """Return {name: (size in bytes, modification time in ns, description)} of the objects directly in a folder.

    This takes one request per thousand objects.

    Raises
    ------
    StorageError
        If it cannot be listed.
    """
    if not location.can_list:
        problem = "a web server cannot list files"
        raise StorageError(problem, path=location.name, errno=errno.EOPNOTSUPP)
    with translate_errors("cannot list it", location.name):
        listed = location.client.list_folder(location.key or None)
    start = len(location.key) + 1 if location.key else 0
    # The marker of the folder itself is listed as the key of the folder, without the slash.
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
    """Delete objects of a folder; missing objects are ignored.

    Raises
    ------
    StorageError
        If an object cannot be deleted.
    """
    keys = [f"{location.key}/{name}" if location.key else name for name in names]
    try:
        with translate_errors("cannot delete objects", location.name):
            location.client.delete(keys)
    except StorageError as error:
        if not is_missing(error):
            raise
        # Such a store stops at the first missing object.
        for key in keys:
            _delete_one(location.at(key))


def _delete_one(location: ObjectLocation) -> None:
    try:
        with translate_errors("cannot delete it", location.name):
            location.client.delete([location.key])
    except StorageError as error:
        if not is_missing(error):
            raise
