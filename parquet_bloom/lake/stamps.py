"""What tells that a file still is the one that was indexed, without reading it."""

from __future__ import annotations

import struct
import time
from collections.abc import Hashable

from ..file.footer_cache import FAR_SETTLED_NS, SETTLED_NS
from ..storage import DATED, FileIdentity, RemoteIdentity

_TIMES = struct.Struct("<qq")
_LOCAL = struct.Struct("<QQqq")

NONE = b""
"""The stamp of a file of which nothing is known that would change with it: only its contents can tell."""


def stamp_of(identity: Hashable) -> bytes:
    """The stamp of a file as it was opened or listed: which file, and its times, or the etag."""
    if isinstance(identity, FileIdentity):
        return _LOCAL.pack(identity.device, identity.inode, identity.modified_ns, identity.changed_ns)
    if isinstance(identity, RemoteIdentity):
        if identity.etag is not None:
            return b"etag " + identity.etag
        if identity.filesystem == DATED and identity.modified_ns is not None:
            return _TIMES.pack(identity.modified_ns, 0)
    return NONE


def stamp_of_etag(etag: str | None) -> bytes:
    """The same of an object whose etag a listing told."""
    return NONE if etag is None else b"etag " + etag.encode()


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


def settled_stamp(identity: Hashable) -> bytes:
    """The stamp of a file that is about to be read; NONE if a change right after would not show in it."""
    return stamp_of(identity) if _unsettled_ns(identity) <= 0 else NONE
