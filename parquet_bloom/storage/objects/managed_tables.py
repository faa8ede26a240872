"""Tables that keep books on objects: their logs are looked for in every folder above."""

from __future__ import annotations

import threading
import time

from ... import threads
from ..table_signs import ICEBERG, ICEBERG_FILES, LOGS, reason
from .errors import translated
from .location import ObjectPlace

REMEMBERED = 60.0
"""Seconds for which it is remembered that a folder is no table's, for listings. Who writes looks each time."""

_PARALLEL = 16
_MAX_REMEMBERED = 10_000
_NO_TABLE: dict[tuple[str, str], float] = {}
_LOCK = threading.Lock()


def table_above(place: ObjectPlace, key: str, itself: bool, remembered: bool = False) -> str | None:
    """Say which table keeps books on a key, or None.

    Parameters
    ----------
    place : any of the store.
    key : an object's or a folder's.
    itself : whether the key may be the table's root, too.
    remembered : whether an answer of the last minute will do.

    Raises
    ------
    StorageError
        if it may not be looked for: then a table cannot be ruled out.
    """
    parts = key.split("/") if key else []
    folders = ["/".join(parts[:depth]) for depth in range(len(parts) + itself)]
    now = time.monotonic()
    if remembered:
        folders = [folder for folder in folders if _NO_TABLE.get((place.label, folder), 0.0) < now]
    if not folders:
        return None
    asked = [(folder, name) for folder in reversed(folders) for name in (*LOGS, ICEBERG)]
    with threads.in_order(lambda sign: _stands(place, *sign), asked, min(_PARALLEL, len(asked))) as found:
        for (folder, name), stands in zip(asked, found, strict=True):
            if stands:
                return reason(name, place.root + folder)
    with _LOCK:
        if len(_NO_TABLE) > _MAX_REMEMBERED:
            _NO_TABLE.clear()
        _NO_TABLE.update(((place.label, folder), now + REMEMBERED) for folder in folders)
    return None


def _stands(place: ObjectPlace, folder: str, name: str) -> bool:
    """Whether a folder has such a log. Listing it stops at the first key that tells."""
    import obstore

    prefix = f"{folder}/{name}" if folder else name
    with translated("cannot look for a table around it", place.root + prefix):
        for page in obstore.list(place.store, prefix, chunk_size=100):
            for item in page:
                inside = item["path"][len(prefix) + 1 :]
                if name != ICEBERG or ("/" not in inside and inside.endswith(ICEBERG_FILES)):
                    return True
    return False
