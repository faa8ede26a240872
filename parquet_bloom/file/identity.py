"""Version tokens of files, which change when a file changes, and checks that a file is unchanged."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Callable, Hashable, Iterable, Sequence

from ..errors import ParquetBloomError, StorageError
from ..metadata.footer import Leaf
from ..storage import (
    DATED,
    Entry,
    FileIdentity,
    RemoteIdentity,
    Source,
    is_local,
    is_url,
    open_source,
    stat_files,
)
from ..storage.objects.source import ObjectSource
from ..util.threads import in_order
from .cache.memory import FAR_SETTLED_NS, SETTLED_NS
from .fingerprint import chunk_bytes_fingerprint, footer_fingerprint
from .reader import BloomFile

_MAX_OPEN = 16  # files opened at a time

_TIMES = struct.Struct("<qq")
_LOCAL = struct.Struct("<QQqq")

NO_TOKEN = b""
"""The token of a file without any known property that changes with it: only its contents can be compared."""

UNREADABLE = (-1, NO_TOKEN)
"""Size and token of a file that cannot be read."""


def version_token(identity: Hashable) -> bytes:
    """Return the token of a file as it was opened or listed: its inode and times, or its etag."""
    if isinstance(identity, FileIdentity):
        return _LOCAL.pack(identity.device, identity.inode, identity.modified_ns, identity.changed_ns)
    if isinstance(identity, RemoteIdentity):
        if identity.etag is not None:
            return b"etag " + identity.etag
        if identity.filesystem == DATED and identity.modified_ns is not None:
            return _TIMES.pack(identity.modified_ns, 0)
    return NO_TOKEN


def etag_token(etag: str | None) -> bytes:
    """Return the version token of an object, given its etag in a listing."""
    return NO_TOKEN if etag is None else b"etag " + etag.encode()


WAIT_SECONDS = SETTLED_NS / 1e9
"""Longest wait until a file's times show every later change."""


def _unsettled_ns(identity: Hashable) -> int:
    """Return the time until the times of a file show every later change, in ns; at most 0 if they already do.

    Clocks of file systems tick every few milliseconds, some every second or two. An etag shows every change at once.
    """
    if isinstance(identity, FileIdentity):
        return max(identity.modified_ns, identity.changed_ns) + SETTLED_NS - time.time_ns()
    if isinstance(identity, RemoteIdentity) and identity.etag is None and identity.modified_ns is not None:
        return identity.modified_ns + FAR_SETTLED_NS - time.time_ns()
    return 0


def seconds_to_settle(identity: Hashable) -> float:
    """Return how long to wait until a local file's times show every later change; 0 if they do, or it is unknown."""
    seconds = _unsettled_ns(identity) / 1e9 if isinstance(identity, FileIdentity) else 0.0
    return seconds if seconds <= WAIT_SECONDS else 0.0  # more: another clock dated it in the future


def settled_token(identity: Hashable) -> bytes:
    """Return the token of a file that is about to be read; NO_TOKEN if it would not show a change right after."""
    return version_token(identity) if _unsettled_ns(identity) <= 0 else NO_TOKEN


def wait_until_settled(source: Source) -> bytes:
    """Return the token of a file that is about to be read, after a short wait if it was written just now.

    Otherwise each check whether such a file is unchanged would have to read it again.
    """
    seconds = seconds_to_settle(source.identity)
    if seconds > 0:
        time.sleep(seconds + 0.001)
        source.check_unchanged()
    return settled_token(source.identity)


def require_unchanged(source: Source) -> None:
    """Raise ConcurrentChangeError if the data read from a file may belong to different states of it.

    Objects with a strong etag need no request: every read of a range has already verified the etag.
    """
    if not (isinstance(source, ObjectSource) and source.identity.etag is not None):
        source.check_unchanged()


def read_version_tokens(
    entries: Sequence[Entry], filesystem: object | None, costs: list[tuple[int, int]] | None = None
) -> list[tuple[int, bytes] | None]:
    """Return the current size and token of files; None for a missing file, UNREADABLE for one that cannot be read.

    Parameters
    ----------
    costs : the requests and bytes of each file that had to be opened are appended to it.
    """
    if is_local(filesystem) and not any(is_url(entry.path) for entry in entries):
        paths = [entry.path for entry in entries]
        return [
            (None if _is_gone(path) else UNREADABLE)
            if source is None
            else (source.size, version_token(source.identity))
            for path, source in zip(paths, stat_files(paths), strict=True)
        ]
    with in_order(lambda entry: _read_version_token(entry, filesystem, costs), entries, _MAX_OPEN) as tokens:
        return list(tokens)


def _read_version_token(
    entry: Entry, filesystem: object | None, costs: list[tuple[int, int]] | None
) -> tuple[int, bytes] | None:
    known = entry.known
    if known is not None and known.size is not None and known.e_tag is not None:
        return known.size, etag_token(known.e_tag)
    try:
        with open_source(entry.path, filesystem, entry) as source:
            if costs is not None:
                costs.append((source.requests, source.bytes_read))
            return source.size, version_token(source.identity)
    except StorageError as error:
        return None if error.errno == errno.ENOENT else UNREADABLE
    except ParquetBloomError:
        return UNREADABLE


def _is_gone(path: str) -> bool:
    """Return whether there is no file at a path, as opposed to one that may not be accessed."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return not os.path.islink(path)
    except (OSError, ValueError):
        return False
    return False


def compare_contents(
    entry: Entry,
    filesystem: object | None,
    footer: int,
    data: int,
    find_leaves: Callable[[BloomFile], Iterable[Leaf]],
) -> tuple[bool, bytes]:
    """Read a file and return whether its footer and column bytes are unchanged, whatever its times are.

    Parameters
    ----------
    footer, data : its recorded fingerprints (see `fingerprint`).
    find_leaves : returns the columns that `data` was computed from; may raise ParquetBloomError.

    Returns
    -------
    Whether it is the same, and its current version token; NO_TOKEN if none would show a later change. A file that
    cannot be read is not the same.
    """
    try:
        with open_source(entry.path, filesystem, entry) as source:
            settled = settled_token(source.identity)
            file = BloomFile(source, None)
            same = footer_fingerprint(file.footer) == footer
            if same:
                same = chunk_bytes_fingerprint(source, file.footer, find_leaves(file)) == data
            require_unchanged(source)
    except ParquetBloomError:
        return False, NO_TOKEN
    return same, settled
