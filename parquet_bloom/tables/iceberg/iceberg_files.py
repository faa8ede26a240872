"""Resolve the paths in an Iceberg table's metadata, and check that they lie in the table, as it may name any file."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ...errors import ParquetBloomError
from ...storage import is_url
from ...storage.file_names import ICEBERG_FILES
from ..table_locations import URL, find_real, require_inside, without_scheme


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


T = TypeVar("T")

_MOST_BYTES = 256 * 1024 * 1024


class SizedCache:
    """What was read of files, by any key. Several threads may use it; each file is read by one of them.

    Parameters
    ----------
    most : bytes that are kept; what was used last is kept in any case.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self._entries: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._reading: dict[Any, threading.Lock] = {}

    def __reduce__(self) -> tuple[type[SizedCache], tuple[int]]:
        return SizedCache, (self._most,)  # without its content

    def get(self, key: Any, read: Callable[[], tuple[T, int]]) -> T:
        """Return what is kept under a key, or else read it; `read` returns it and its size in bytes."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
            waiting = self._reading.setdefault(key, threading.Lock())
        with waiting:
            with self._lock:
                if key in self._entries:
                    return self._entries[key][0]
            try:
                value, size = read()
            finally:
                with self._lock:
                    self._reading.pop(key, None)
            with self._lock:
                self._entries[key] = value, size
                self._size += size
                while self._size > self._most and len(self._entries) > 1:
                    self._size -= self._entries.popitem(last=False)[1][1]
            return value
