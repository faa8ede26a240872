"""What a file is called by who keeps something about it: one name, whichever way it was written."""

from __future__ import annotations

import os

from . import paths as location
from .objects.location import is_store, is_url

_SCHEMES = {"s3a": "s3", "gcs": "gs", "azure": "az"}


def name_of(path: str, filesystem: object | None = None) -> str:
    """The name of a file: absolute on the local file system, and whichever way S3's scheme was written."""
    if is_url(path):
        scheme, colon, rest = path.partition(":")
        scheme = scheme.lower()
        return _SCHEMES.get(scheme, scheme) + colon + rest
    if location.arrow_filesystem(filesystem) is not None or is_store(filesystem):
        return path
    if path[:1] == "/" and "//" not in path and "/." not in path:
        return path
    folder, name = os.path.split(path)
    if ".." in folder.split(os.sep):  # behind a link it leads elsewhere than its name says
        return os.path.join(os.path.realpath(folder), name)
    return os.path.abspath(path)
