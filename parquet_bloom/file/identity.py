"""What tells that a file still is the one whose values were looked at, and what it takes to find out."""

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
    ObjectSource,
    RemoteIdentity,
    Source,
    is_local,
    is_url,
    open_source,
    stat_files,
)
from ..util.threads import in_order
from .cache.memory import FAR_SETTLED_NS, SETTLED_NS
from .fingerprint import chunk_bytes_fingerprint, footer_fingerprint
from .reader import BloomFile

_OPENED_AT_A_TIME = 16

_TIMES = struct.Struct("<qq")
_LOCAL = struct.Struct("<QQqq")

NO_TOKEN = b""
"""The stamp of a file of which nothing is known that would change with it: only its contents can tell."""

UNREADABLE = (-1, NO_TOKEN)
"""Size and stamp of a file that cannot be looked at."""


def version_token(identity: Hashable) -> bytes:
    """The stamp of a file as it was opened or listed: which file, and its times, or the etag."""
    if isinstance(identity, FileIdentity):
        return _LOCAL.pack(identity.device, identity.inode, identity.modified_ns, identity.changed_ns)
    if isinstance(identity, RemoteIdentity):
        if identity.etag is not None:
            return b"etag " + identity.etag
        if identity.filesystem == DATED and identity.modified_ns is not None:
            return _TIMES.pack(identity.modified_ns, 0)
    return NO_TOKEN


def etag_token(etag: str | None) -> bytes:
    """The same of an object whose etag a listing told."""
    return NO_TOKEN if etag is None else b"etag " + etag.encode()


WAIT_SECONDS = SETTLED_NS / 1e9
"""So long a file's reader waits at most for its times to tell every later change."""


def _unsettled_ns(identity: Hashable) -> int:
    """How long until the times of a file tell every change from now on, in ns; not above 0 if they do.

    Clocks of file systems tick every few milliseconds, some every second or two. An etag tells every change at once.
    """
    if isinstance(identity, FileIdentity):
        return max(identity.modified_ns, identity.changed_ns) + SETTLED_NS - time.time_ns()
    if isinstance(identity, RemoteIdentity) and identity.etag is None and identity.modified_ns is not None:
        return identity.modified_ns + FAR_SETTLED_NS - time.time_ns()
    return 0


def seconds_to_settle(identity: Hashable) -> float:
    """How long to wait until a local file's times tell every change from then on; 0 if they do, or nobody can say."""
    left = _unsettled_ns(identity) / 1e9 if isinstance(identity, FileIdentity) else 0.0
    return left if left <= WAIT_SECONDS else 0.0  # by another clock it was written in the future


def settled_token(identity: Hashable) -> bytes:
    """The stamp of a file that is about to be read; NONE if a change right after would not show in it."""
    return version_token(identity) if _unsettled_ns(identity) <= 0 else NO_TOKEN


def wait_until_settled(source: Source) -> bytes:
    """The stamp of a file that is about to be read; of one that was written just now, after a moment.

    Without it such a file would have to be read again whenever somebody asks whether it is unchanged.
    """
    left = seconds_to_settle(source.identity)
    if left > 0:
        time.sleep(left + 0.001)
        source.check_unchanged()
    return settled_token(source.identity)


def require_unchanged(source: Source) -> None:
    """Raise ConcurrentChangeError if what was read of a file may be of several states of it.

    Of an object with a strong etag nothing is asked: every request for a range of it carried that etag, and what came
    was compared with it, which proves as much.
    """
    if not (isinstance(source, ObjectSource) and source.identity.etag is not None):
        source.check_unchanged()


def read_version_tokens(
    entries: Sequence[Entry], filesystem: object | None, costs: list[tuple[int, int]] | None = None
) -> list[tuple[int, bytes] | None]:
    """Size and stamp of files as they are now; None for one that is not there, UNSEEN for one that cannot be looked at.

    Parameters
    ----------
    costs : takes the requests and bytes of each file that had to be opened for it.
    """
    if is_local(filesystem) and not any(is_url(entry.path) for entry in entries):
        paths = [entry.path for entry in entries]
        return [
            (None if _is_gone(path) else UNREADABLE)
            if source is None
            else (source.size, version_token(source.identity))
            for path, source in zip(paths, stat_files(paths), strict=True)
        ]
    with in_order(lambda entry: _read_version_token(entry, filesystem, costs), entries, _OPENED_AT_A_TIME) as found:
        return list(found)


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
    """Whether there is no file of the name, rather than one that may not be looked at."""
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
    leaves_of: Callable[[BloomFile], Iterable[Leaf]],
) -> tuple[bool, bytes]:
    """Whether a file has the footer and the column bytes it had, whatever its times say: it is read to find out.

    Parameters
    ----------
    footer, data : its fingerprints as they were (see `fingerprint`).
    leaves_of : the columns whose bytes the second one is made of; may raise ParquetBloomError.

    Returns
    -------
    Whether it is the same, and the stamp that it is known by from now on; NONE if there is none that would tell a later
    change. A file that cannot be read is not the same.
    """
    try:
        with open_source(entry.path, filesystem, entry) as source:
            settled = settled_token(source.identity)
            file = BloomFile(source, None)
            same = footer_fingerprint(file.footer) == footer
            if same:
                same = chunk_bytes_fingerprint(source, file.footer, leaves_of(file)) == data
            require_unchanged(source)
    except ParquetBloomError:
        return False, NO_TOKEN
    return same, settled
