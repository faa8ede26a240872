"""Resolve the paths in an Iceberg table's metadata, and check that they lie in the table, as it may name any file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...errors import ParquetBloomError
from ...storage import is_url
from ...storage.names import ICEBERG_FILES
from ..locations import URL, find_real, require_inside, without_scheme


def resolve_path(name: str, table: str) -> str:
    """Resolve a file name of Iceberg metadata, which has unquoted paths and URLs, to a path or URL.

    Raises
    ------
    ParquetBloomError
        It is neither an absolute path nor a URL.
    """
    path = without_scheme(name)
    if not path.startswith("/") and not (URL.fullmatch(path) and not path.lower().startswith("file:")):
        raise ParquetBloomError(f"it has a file {name!r}, whose location cannot be resolved", path=table)
    return path


def require_location(location: str, given: str) -> None:
    """Raise unless an Iceberg table's location is the given folder.

    The metadata names the location as well as the files: with a location such as `/` all files would be inside.

    Parameters
    ----------
    location : by the metadata, resolved.
    given : the path of the table's folder or of one of its metadata files, or its URL.

    Raises
    ------
    ParquetBloomError
        The location differs.
    """
    if find_real(location) != find_real(_find_folder(given)):
        text = f"its metadata says that it is in {location}, which is another folder; outside=True takes that, too"
        raise ParquetBloomError(text, path=given)


def require_all_inside(names: Iterable[str], location: str, table: str) -> None:
    """Raise unless all files, named as in the metadata, lie in the table's location."""
    require_inside([resolve_path(name, table) for name in names], location)


def _find_folder(given: str) -> str:
    """Return a table's folder, given that or one of its metadata files, which lie in `metadata/` there."""
    path = without_scheme(given).rstrip("/") or "/"
    if not path.endswith(ICEBERG_FILES):
        return path
    folder = os.path.dirname(path if is_url(path) else os.path.abspath(path))
    return os.path.dirname(folder) if os.path.basename(folder) == "metadata" else folder
