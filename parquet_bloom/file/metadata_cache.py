"""In-memory cache of footers and of objects' filters."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..metadata.filter_header import MAX_HEADER_BYTES
from ..metadata.footer import Footer
from ..metadata.footer_rewrite import RenamedFooter
from ..metadata.page_index import CachedPageIndex
from ..storage import DATED, Extents, FileIdentity, RemoteIdentity
from ..util.messages import count

# Estimates of memory.
_FIXED_BYTES = 4096  # Python objects, per footer
_LEAF_BYTES = 1024  # per column: what is derived from its part of the schema, which files share
_CHUNK_BYTES = 256  # per column chunk: its statistics
_PAGES_BYTES = 256  # per column chunk whose page index was looked up
_HEADER_BYTES = MAX_HEADER_BYTES + 160  # per filter: its header, and its entries in tables


@dataclass(eq=False)
class CachedFooter:
    """The cache entry of one file.

    Attributes
    ----------
    footer : the footer.
    filter_headers : {offset: bytes at that offset} of the filter headers that were read.
    pages : {(row group, leaf index): page index}; None where the page index cannot be used.
    page_headers : {offset of a column chunk: its page headers} of large chunks of local files; see `PageHeaders`.
    columns : `ColumnStatistics` of `file.column_statistics`, by `FileColumn.key`.
    derived : values that readers have computed from the footer, by the readers' keys, so as to compute them once.
    extents : other ranges that were read, kept for objects in a store, whose filters are probed again and again.
    original : the entry that this one shows in another way; None for the file's own.
    int96_unit : unit of Arrow's timestamps for INT96 ones; None for nanoseconds, which only cover 1677 to 2262.
    """

    footer: Footer
    filter_headers: dict[int, bytes] = field(default_factory=dict)
    pages: dict[tuple[int, int], CachedPageIndex | None] = field(default_factory=dict)
    page_headers: dict[int, bytes] = field(default_factory=dict)
    columns: dict[tuple[int, ...], Any] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    extents: Extents = field(default_factory=Extents)
    original: CachedFooter | None = None
    int96_unit: str | None = None

    def show(self, names: Sequence[bytes] | None, int96_unit: str | None) -> CachedFooter:
        """Return an entry of the same file, with other names in its schema (see `RenamedFooter`) or another unit."""
        footer = self.footer if names is None else RenamedFooter(self.footer, names)
        shown = CachedFooter(footer, self.filter_headers, self.pages, self.page_headers, extents=self.extents)
        shown.original, shown.int96_unit = self, int96_unit
        return shown

    @property
    def spare_bytes(self) -> int:
        """Estimate of the memory that `drop_spare` gives back."""
        headers = sum(_PAGES_BYTES + len(one) for one in list(self.page_headers.values())) if self.page_headers else 0
        return self.extents.num_bytes + headers

    def drop_spare(self) -> None:
        """Drop what the file's footer is used without, at the price of reading it again: extents and page headers."""
        self.extents.clear()
        self.page_headers.clear()

    @property
    def num_bytes(self) -> int:
        """Estimate of the memory needed besides `spare_bytes`, once every column and every header is read."""
        footer = self.footer
        columns = -(-len(footer.chunks) // max(1, footer.num_row_groups))
        tables = footer.chunks.nbytes + footer.row_groups.nbytes
        chunks = len(footer.chunks) * _CHUNK_BYTES + footer.num_filters * _HEADER_BYTES
        pages = 0
        if self.pages:
            pages = sum(_PAGES_BYTES + (index.num_bytes if index else 0) for index in list(self.pages.values()))
        return _FIXED_BYTES + len(footer.data) + tables + columns * _LEAF_BYTES + chunks + pages


DEFAULT_BYTES = 256 * 1024 * 1024

SETTLED_NS = 2_000_000_000
"""Files changed more recently are not cached: clocks of file systems tick every few milliseconds (some every second or
two), and another change within the same tick would not show in the file's times."""

FAR_SETTLED_NS = 600_000_000_000
"""The same for times by another computer's clock, which may be wrong: Kerberos tolerates five minutes."""

_MAX_SHARED = 32


@dataclass(slots=True)
class _Entry:
    cached: CachedFooter
    num_bytes: int
    spare_bytes: int
    path: str


class MetadataCache:
    """Least-recently-used cache of the footers and filter headers of files that were opened.

    For objects in a store it also keeps what was read besides the footer: filters, page indexes, pages. When memory
    runs out, these are evicted before any footer is.

    A file is identified by its state when it was opened: device, inode, size and times (to the nanosecond, including
    the time of its last change of any kind); on other file systems by path, size and etag, on HDFS by path, size and
    modification time. A file that was replaced or written to has another identity, on the local file system even if it
    has the same size and modification time. Files changed within the last two seconds (on HDFS ten minutes) are not
    cached, as their times cannot show another change yet, nor are files of other file systems that give no etag
    (fsspec's among them).

    Parameters
    ----------
    max_bytes : memory that it may take, by estimate.

    Notes
    -----
    Thread-safe. A scan over more files than fit evicts all that the next scan over the same files would need: give such
    a lake a cache as large as its footers.

    Examples
    --------
    >>> cache = parquet_bloom.MetadataCache(max_bytes=64 << 20)
    >>> parquet_bloom.prune("lake", "id = 1401181143", cache=cache).selected_row_groups
    1
    """

    def __init__(self, max_bytes: int = DEFAULT_BYTES):
        self.max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._with_spare: OrderedDict[Hashable, None] = OrderedDict()  # least recently used first, as the entries
        self._identity_by_path: dict[str, Hashable] = {}
        self._shared: OrderedDict[Hashable, object] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<MetadataCache: {count(len(self), 'footer')}, {self._num_bytes:,} of {self.max_bytes:,} bytes>"

    @property
    def num_bytes(self) -> int:
        """Memory that it takes, by estimate."""
        return self._num_bytes

    def find(self, path: str, identity: Hashable) -> CachedFooter | None:
        """Return the entry of a file, given its path and its `Source.identity`; None if it is not cached."""
        with self._lock:
            return self._touch(identity).cached if identity in self._entries else None

    def find_by_paths(self, paths: Sequence[str]) -> list[tuple[FileIdentity, CachedFooter] | None]:
        """Return the entries of the local files that were last opened at some paths.

        The caller has to check that these files are still there.
        """
        entries: list[tuple[FileIdentity, CachedFooter] | None] = []
        with self._lock:
            for path in paths:
                identity = self._identity_by_path.get(path)
                if isinstance(identity, FileIdentity):
                    entries.append((identity, self._touch(identity).cached))
                else:
                    entries.append(None)
        return entries

    def last_identity(self, path: str) -> Hashable:
        """Return the identity of the file last opened at a path; None if it is not cached."""
        with self._lock:
            return self._identity_by_path.get(path)

    def keep(self, path: str, identity: Hashable, cached: CachedFooter) -> CachedFooter:
        """Cache a file, if its identity is distinct, and the path under which it was opened; or note that it has grown.

        Returns
        -------
        The entry as `find` will return it: that of another thread, if it was faster.
        """
        if not distinct(identity):
            return cached
        with self._lock:
            if identity in self._entries:
                cached = self._entries[identity].cached
                self._forget(identity)
            num_bytes = cached.num_bytes
            if num_bytes > self.max_bytes:
                return cached
            entry = self._entries[identity] = _Entry(cached, num_bytes, cached.spare_bytes, path)
            self._num_bytes += entry.num_bytes + entry.spare_bytes
            if entry.spare_bytes:
                self._with_spare[identity] = None
            self._identity_by_path[path] = identity
            while self._num_bytes > self.max_bytes:
                self._make_room()
        return cached

    def _make_room(self) -> None:
        """Evict the extents and page headers of one file, whose footer stays; if no file has any, evict a footer."""
        if not self._with_spare:
            self._forget(next(iter(self._entries)))
            return
        identity, _ = self._with_spare.popitem(last=False)
        entry = self._entries[identity]
        entry.cached.drop_spare()
        self._num_bytes -= entry.spare_bytes
        entry.spare_bytes = 0

    def _touch(self, identity: Hashable) -> _Entry:
        self._entries.move_to_end(identity)
        if identity in self._with_spare:
            self._with_spare.move_to_end(identity)
        return self._entries[identity]

    def _forget(self, identity: Hashable) -> None:
        entry = self._entries.pop(identity)
        self._with_spare.pop(identity, None)
        self._num_bytes -= entry.num_bytes + entry.spare_bytes
        if self._identity_by_path.get(entry.path) == identity:
            del self._identity_by_path[entry.path]

    def flush(self) -> None:
        """Write pending entries to disk, in caches that have one; called at the end of each query."""

    def get_shared(self, key: Hashable) -> Any:
        """Return the value that `put_shared` stored under a key; None if there is none."""
        with self._lock:
            if key not in self._shared:
                return None
            self._shared.move_to_end(key)
            return self._shared[key]

    def put_shared(self, key: Hashable, value: object) -> None:
        """Cache a value derived from many files together; only the values of a few keys are kept."""
        with self._lock:
            self._shared[key] = value
            self._shared.move_to_end(key)
            while len(self._shared) > _MAX_SHARED:
                self._shared.popitem(last=False)

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._shared.clear()
            self._entries.clear()
            self._with_spare.clear()
            self._identity_by_path.clear()
            self._num_bytes = 0


def distinct(identity: Hashable, now_ns: int | None = None) -> bool:
    """Return whether an identity tells a file from every other file, and from its own state after any change.

    Parameters
    ----------
    now_ns : when it was taken at the earliest, in ns since 1970; None for now.
    """
    if isinstance(identity, FileIdentity):
        return identity.changed_ns < (time.time_ns() if now_ns is None else now_ns) - SETTLED_NS
    if not isinstance(identity, RemoteIdentity):
        return False
    if identity.etag is not None:  # a weak etag is shared by objects of equal meaning, not of equal bytes
        return identity.etag[:2] != b"W/"
    return identity.filesystem == DATED and 0 < (identity.modified_ns or 0) < time.time_ns() - FAR_SETTLED_NS


SHARED_CACHE = MetadataCache()
"""The default cache, shared by all calls of the process."""
