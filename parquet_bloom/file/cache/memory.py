"""Footers kept in memory, and filters of objects, so that a file that is asked again is not read for them again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ...storage import DATED, FileIdentity, RemoteIdentity, Source
from .entry import CachedFooter

DEFAULT_BYTES = 256 * 1024 * 1024

SETTLED_NS = 2_000_000_000
"""A file changed more recently is not cached: file systems' clocks tick every few milliseconds (some every second or
two), and a change within the same tick would not show in its times."""

FAR_SETTLED_NS = 600_000_000_000
"""The same by another computer's clock, which may be wrong: Kerberos refuses those that differ by five minutes."""

_MAX_TOGETHER = 32


@dataclass(slots=True)
class _Entry:
    cached: CachedFooter
    num_bytes: int
    extent_bytes: int
    path: str | None


class MetadataCache:
    """Footers and filter headers of files that were opened, the least recently used forgotten first.

    Of objects in a store it also keeps what was read besides the footer: filters, page indexes, pages. Where memory
    runs out, that is forgotten before any footer is.

    A file is known again by what it was when it was opened: device, inode, size and times (to the nanosecond, that of
    its last change of any kind among them); on other file systems path, size and etag, on HDFS path, size and
    modification time. A file that was replaced or written to is another one, on the local file system even if it has
    the same size and modification time. Not cached are files changed within the last two seconds, or on HDFS ten
    minutes, whose times cannot tell a further change yet, and files of other file systems that give no etag (fsspec's
    among them).

    Parameters
    ----------
    max_bytes : memory that it may take, by estimate.

    Notes
    -----
    May be used by many threads. A run over more files than fit leaves none of them that the next run over the same
    files finds: give such a lake a cache as large as its footers.
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES):
        self.max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._with_extents: OrderedDict[Hashable, None] = OrderedDict()  # in the order of use, as the entries
        self._at: dict[str, Hashable] = {}
        self._together: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<MetadataCache: {len(self):,} footers, {self._num_bytes:,} of {self.max_bytes:,} bytes>"

    @property
    def num_bytes(self) -> int:
        """Memory that it takes, by estimate."""
        return self._num_bytes

    def get(self, identity: Hashable) -> CachedFooter | None:
        """What is known of a file, given by its `Source.identity`."""
        with self._lock:
            if identity not in self._entries:
                return None
            return self._touch(identity).cached

    def find_by_paths(self, paths: Sequence[str]) -> list[tuple[FileIdentity, CachedFooter] | None]:
        """What is known of the local files that stood at some paths when they were opened last.

        Whether they still do is for the caller to find out.
        """
        found: list[tuple[FileIdentity, CachedFooter] | None] = []
        with self._lock:
            for path in paths:
                identity = self._at.get(path)
                if isinstance(identity, FileIdentity):
                    found.append((identity, self._touch(identity).cached))
                else:
                    found.append(None)
        return found

    def last_identity(self, path: str) -> Hashable:
        """Which file stood at a path when it was opened last; None if it is not known."""
        with self._lock:
            return self._at.get(path)

    def put(self, identity: Hashable, known: CachedFooter, path: str | None = None) -> None:
        """Remember a file, if its identity tells it from each other one, and the path that led to it."""
        num_bytes = known.num_bytes
        if not distinct(identity):
            return
        with self._lock:
            if identity in self._entries:
                self._forget(identity)
            if num_bytes > self.max_bytes:
                return
            entry = self._entries[identity] = _Entry(known, num_bytes, known.extents.num_bytes, path)
            self._num_bytes += entry.num_bytes + entry.extent_bytes
            if entry.extent_bytes:
                self._with_extents[identity] = None
            if path is not None:
                self._at[path] = identity
            while self._num_bytes > self.max_bytes:
                self._make_room()

    def _make_room(self) -> None:
        """Forget extents, of whose files the footers stay, and where there are none, a footer."""
        if not self._with_extents:
            self._forget(next(iter(self._entries)))
            return
        identity, _ = self._with_extents.popitem(last=False)
        entry = self._entries[identity]
        entry.cached.extents.clear()
        self._num_bytes -= entry.extent_bytes
        entry.extent_bytes = 0

    def _touch(self, identity: Hashable) -> _Entry:
        self._entries.move_to_end(identity)
        if identity in self._with_extents:
            self._with_extents.move_to_end(identity)
        return self._entries[identity]

    def _forget(self, identity: Hashable) -> None:
        entry = self._entries.pop(identity)
        self._with_extents.pop(identity, None)
        self._num_bytes -= entry.num_bytes + entry.extent_bytes
        if entry.path is not None and self._at.get(entry.path) == identity:
            del self._at[entry.path]

    def find(self, source: Source) -> CachedFooter | None:
        """What is known of an opened file."""
        return self.get(source.identity)

    def keep(self, source: Source, known: CachedFooter) -> None:
        """Remember an opened file."""
        self.put(source.identity, known, source.name)

    def flush(self) -> None:
        """Write down what is kept elsewhere than in memory, where a cache does that; called when a query is done."""

    def get_shared(self, key: Hashable) -> Any:
        """What `put_shared` has of a key; None if nothing."""
        with self._lock:
            if key not in self._together:
                return None
            self._together.move_to_end(key)
            return self._together[key]

    def put_shared(self, key: Hashable, made: Any) -> None:
        """Remember what was made of many files together, of a few keys."""
        with self._lock:
            self._together[key] = made
            self._together.move_to_end(key)
            while len(self._together) > _MAX_TOGETHER:
                self._together.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._together.clear()
            self._entries.clear()
            self._with_extents.clear()
            self._at.clear()
            self._num_bytes = 0


def distinct(identity: Hashable) -> bool:
    """Whether an identity tells a file from each other one, and from what it will be after a change."""
    if isinstance(identity, FileIdentity):
        return identity.changed_ns < time.time_ns() - SETTLED_NS
    if not isinstance(identity, RemoteIdentity):
        return False
    if identity.etag is not None:  # a weak one stands for all objects that mean the same, not for the same bytes
        return identity.etag[:2] != b"W/"
    return identity.filesystem == DATED and 0 < (identity.modified_ns or 0) < time.time_ns() - FAR_SETTLED_NS


SHARED_CACHE = MetadataCache()
"""The cache that calls of one process share unless they are given another."""
