"""Resolve the file names in a table's metadata, and check that they lie in its folder, as it may name any file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import unquote

from ..errors import ParquetBloomError
from ..storage import is_url
from ..storage.file_names import ICEBERG_FILES
from ..storage.paths import name_of

FILE_SCHEME = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))", re.IGNORECASE)
"""Prefix of a local file's path that is written as a URI."""
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#]+)(/.*)?", re.DOTALL)
"""A URL with a host or bucket; the groups are its beginning and its path."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN = re.compile(r"[\w=-][\w=.-]*(?:/[\w=-][\w=.-]*)*", re.ASCII)  # nothing quoted, no scheme, and no part of dots


def without_scheme(name: str) -> str:
    """Return the path of a local file's URI; any other name unchanged."""
    local = FILE_SCHEME.match(name)
    return name[local.end() :] if local else name


def resolve_delta_path(name: str, root: str | None) -> str:
    """Resolve a file name of a Delta log. The log has quoted URIs; those without a scheme are relative to the root.

    Parameters
    ----------
    name : as the log has it; or the table's own URI, without `root`.
    root : the table's folder, or its URL.

    Raises
    ------
    ParquetBloomError
        The location cannot be resolved, or the name is not quoted UTF-8.
    """
    if root is not None and _PLAIN.fullmatch(name):
        return f"{root.rstrip('/')}/{name}"
    local, url = FILE_SCHEME.match(name), URL.fullmatch(name)
    try:
        if local:
            return unquote(name[local.end() :], errors="strict")
        path = unquote(name, errors="strict")
        if url and "?" not in name and "#" not in name and not name.lower().startswith("file:"):
            return url[1] + unquote(url[2] or "", errors="strict")
    except UnicodeDecodeError:
        raise ParquetBloomError(f"it has a file {name!r}, whose name is not quoted UTF-8") from None
    # An absolute path without a scheme does not say which store it belongs to.
    has_root = root is not None and not (path.startswith("/") and URL.fullmatch(root))
    leads_on = any(part in ("", ".", "..") or "\0" in part for part in path.removeprefix("/").split("/"))
    if not has_root or _SCHEME.match(name) or leads_on:
        raise ParquetBloomError(f"it has a file {name!r}, whose location cannot be resolved")
    return path if path.startswith("/") else f"{(root or '').rstrip('/')}/{path}"


def require_inside(paths: Iterable[str], root: str) -> None:
    """Raise unless files lie below a table's folder, links followed.

    Parameters
    ----------
    paths : paths or URLs of the files, without `..`.
    root : the folder, or its URL.

    Raises
    ------
    ParquetBloomError
        A file lies outside.
    """
    folder = root.rstrip("/") + "/"
    if is_url(root):
        problem = next((path for path in paths if not path.startswith(folder) or _leads_up(path)), None)
    else:
        real = os.path.realpath(root).rstrip("/") + "/"
        inside_by_folder: dict[str, bool] = {}
        problem = next((path for path in paths if not _is_inside(path, real, inside_by_folder)), None)
    if problem is not None:
        text = f"its file {problem} is outside of the table's folder; outside=True (--outside) takes such files, too"
        raise ParquetBloomError(text, path=root)


def find_real(path: str) -> str:
    """Return the path of a folder with links followed, or the one name of a URL."""
    return name_of(path) if is_url(path) else os.path.realpath(path)


def _is_inside(path: str, real: str, inside_by_folder: dict[str, bool]) -> bool:
    """Return whether a local file is below a folder of real path `real`; `inside_by_folder` is a cache."""
    if is_url(path):
        return False
    if os.path.islink(path):
        return os.path.realpath(path).startswith(real)
    folder = os.path.dirname(path)
    if folder not in inside_by_folder:
        inside_by_folder[folder] = (os.path.realpath(folder).rstrip("/") + "/").startswith(real)
    return inside_by_folder[folder] and not _leads_up(path)


def _leads_up(path: str) -> bool:
    return ".." in path.split("/")


def resolve_iceberg_path(name: str, table: str) -> str:
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
    if find_real(location) != find_real(find_folder(given)):
        text = f"its metadata says that it is in {location}, which is another folder; outside=True takes that, too"
        raise ParquetBloomError(text, path=given)


def require_all_inside(names: Iterable[str], location: str, table: str) -> None:
    """Raise unless all files, named as in the metadata, lie in the table's location."""
    require_inside([resolve_iceberg_path(name, table) for name in names], location)


def find_folder(given: str) -> str:
    """Return a table's folder, given that or one of its metadata files, which lie in `metadata/` there."""
    path = without_scheme(given).rstrip("/") or "/"
    if not path.endswith(ICEBERG_FILES):
        return path
    folder = os.path.dirname(path if is_url(path) else os.path.abspath(path))
    return os.path.dirname(folder) if os.path.basename(folder) == "metadata" else folder
