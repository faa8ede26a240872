"""Whether the files of a table lie in its folder: its books may name any file there is."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..errors import ParquetBloomError
from ..storage import is_url


def require_inside(paths: Iterable[str], root: str) -> None:
    """Raise unless files lie below a table's folder, links followed.

    Parameters
    ----------
    paths : of the files, or their URLs; no part of one is `..`.
    root : the folder, or its URL.

    Raises
    ------
    ParquetBloomError
        One does not.
    """
    folder = root.rstrip("/") + "/"
    if is_url(root):
        problem = next((path for path in paths if not path.startswith(folder) or _leads_up(path)), None)
    else:
        real = os.path.realpath(root).rstrip("/") + "/"
        known: dict[str, bool] = {}
        problem = next((path for path in paths if not _is_inside(path, real, known)), None)
    if problem is not None:
        text = f"its file {problem} is outside of the table's folder; outside=True takes such files, too"
        raise ParquetBloomError(text, path=root)


def _is_inside(path: str, real: str, known: dict[str, bool]) -> bool:
    """Whether a local file is below a folder whose real path is given; of what `known` holds, that is known."""
    if is_url(path):
        return False
    if os.path.islink(path):
        return os.path.realpath(path).startswith(real)
    folder = os.path.dirname(path)
    if folder not in known:
        known[folder] = (os.path.realpath(folder).rstrip("/") + "/").startswith(real)
    return known[folder] and not _leads_up(path)


def _leads_up(path: str) -> bool:
    return ".." in path.split("/")
