"""On-disk cache of footers and filters, shared by processes and kept between runs."""

from __future__ import annotations

import os
import struct
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from ..core.hash.xxh64 import hash_one
from ..errors import ParquetBloomError
from ..metadata.footer import TAIL_BYTES, Footer
from ..redaction import redacted
from ..storage import DATED, FileIdentity, RemoteIdentity, stat_files
from ..storage.local.system_calls import keeps_change_times
from ..storage.sqlite_store import RecordStore
from ..util.messages import logger
from .metadata_cache import DEFAULT_BYTES, CachedFooter, MetadataCache, distinct

log = logger("parquet_bloom.storage")

DISK_BYTES = 1 << 30

_NAME = "footers-4.sqlite"  # 4: the version of the record layout
_CHECKSUM = struct.Struct("<Q")
# Lengths of identity and footer in bytes; the footer's offset; number of filter headers; number of other ranges.
_HEADER = struct.Struct("<IIQII")
_BATCH_SIZE = 512  # footers that are written together
_PENDING = 64  # the latest footers, which wait: the headers of their filters may still be read


class DiskMetadataCache(MetadataCache, AbstractContextManager["DiskMetadataCache", None]):
    """Cache of footers and filter headers in memory, backed by a folder that many processes may share.

    For objects in a store it also keeps the filters that were read, but never pages.

    A local file is identified by its real path, inode, size and times (to the nanosecond), not by its device, whose
    number may change at a reboot. The time of its last change of any kind is decisive, as no program can set it: a file
    that was replaced or written to has another identity whatever its size and modification time are. Files of file
    systems without such a time (FAT, FUSE, SMB) stay in memory only. Objects are identified by path, size and etag;
    without an etag, or with a weak one, they are not cached at all.

    Each record has a checksum over the footer and the identity of its file. A record that does not match, or cannot be
    decoded, is ignored, and the footer is read from its file. A folder that cannot be used, and files that cannot be
    kept, cost speed, but are never an error: the logger `parquet_bloom.storage` reports each once.

    Parameters
    ----------
    path : the folder; created if necessary, for this user alone, since footers hold smallest and largest values. It
        must not be writable for others. On a network file system it serves the processes of one host.
    disk_bytes : approximate limit of its file; the least recently used footers are dropped first.
    max_bytes : limit of the in-memory cache, by estimate.

    Notes
    -----
    May be used by many threads and processes, and passed to other processes. `prune` writes at its end; otherwise
    footers are written some hundred at a time, and by `flush` or `close`.

    Examples
    --------
    >>> with parquet_bloom.DiskMetadataCache("footers") as cache:
    ...     parquet_bloom.prune("lake", "id = 1401181143", cache=cache).selected_row_groups
    1
    """

    def __init__(
        self, path: str | os.PathLike[str], *, disk_bytes: int = DISK_BYTES, max_bytes: int = DEFAULT_BYTES
    ) -> None:
        super().__init__(max_bytes)
        self.path = os.path.abspath(os.fsdecode(path))
        self.disk_bytes = disk_bytes
        self._store = RecordStore(self.path, _NAME, disk_bytes)
        # Files used since the last flush, each with the extras that are already on disk (-1: not even the footer is).
        # Headers and filters are read after the footer was cached.
        self._pending: dict[Hashable, tuple[_RecordKey, CachedFooter, int]] = {}
        self._warned = False

    def __repr__(self) -> str:
        return redacted(f"<DiskMetadataCache {self.path!r}: {len(self):,} footers in memory>")

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (type(self), self.path, self.disk_bytes, self.max_bytes)

    def find(self, path: str, identity: Hashable) -> CachedFooter | None:
        cached = super().find(path, identity)
        if cached is not None and identity in self._pending:
            return cached
        key = _make_key(path, identity)
        if key is None:
            return cached
        if cached is None:
            cached = _decode(self._store.get(key.number), key)
            if cached is None:
                return None
            cached = super().keep(path, identity, cached)
        self._add_pending(identity, key, cached, _count_extras(cached))
        return cached

    def find_by_paths(self, paths: Sequence[str]) -> list[tuple[FileIdentity, CachedFooter] | None]:
        """Return the entries of the local files at some paths."""
        entries = super().find_by_paths(paths)
        for i, source in enumerate(stat_files(paths)):
            cached = None if entries[i] is not None or source is None else self.find(source.name, source.identity)
            if source is not None and cached is not None:
                entries[i] = source.identity, cached
        return entries

    def keep(self, path: str, identity: Hashable, cached: CachedFooter) -> CachedFooter:
        cached = super().keep(path, identity, cached)
        key = _make_key(path, identity)
        if key is not None and distinct(identity):
            self._add_pending(identity, key, cached, -1)
        elif not self._warned and (problem := _find_problem(path, identity)) is not None:
            self._warned = True
            log.warning("%s: it does not keep footers of files such as %s: %s", self.path, path, problem)
        return cached

    def _add_pending(self, identity: Hashable, key: _RecordKey, cached: CachedFooter, on_disk: int) -> None:
        with self._lock:
            if identity in self._pending:
                on_disk = self._pending[identity][2]
            self._pending[identity] = key, cached, on_disk
            is_full = len(self._pending) >= _BATCH_SIZE
        if is_full:
            self._write(_PENDING)

    def flush(self) -> None:
        self._write(0)

    def _write(self, num_remaining: int) -> None:
        """Write what is not on disk yet, except for the latest files."""
        with self._lock:
            identities = list(self._pending)[: max(0, len(self._pending) - num_remaining)]
            pending = [self._pending.pop(identity) for identity in identities]
        records = [
            (key.number, _encode(key.identity, cached))
            for key, cached, on_disk in pending
            if _count_extras(cached) > on_disk
        ]
        self._store.put([(number, record) for number, record in records if len(record) <= self.disk_bytes // 4])

    def clear(self) -> None:
        """Remove all entries, on disk too."""
        super().clear()
        with self._lock:
            self._pending.clear()
        self._store.clear()

    def close(self) -> None:
        """Write pending entries and close the file; a later use opens it again."""
        self.flush()
        self._store.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _unpickle(kind: type[DiskMetadataCache], path: str, disk_bytes: int, max_bytes: int) -> DiskMetadataCache:
    return kind(path, disk_bytes=disk_bytes, max_bytes=max_bytes)


class _RecordKey(NamedTuple):
    """The key of a file's record; it depends on the path alone, so that a new state of the file replaces the old one.

    Attributes
    ----------
    number : the record's number.
    identity : the file's path and state.
    size : of the file.
    """

    number: int
    identity: bytes
    size: int


def _make_key(path: str, identity: Hashable) -> _RecordKey | None:
    """Return the key of a file's record; None for a file that is not cached on disk."""
    if isinstance(identity, FileIdentity):
        real = os.path.realpath(path)
        if not keeps_change_times(real, identity.device):
            return None
        name, state = os.fsencode(real), f"file {identity[1:]}"
    elif isinstance(identity, RemoteIdentity) and distinct(identity):
        version = identity.etag or identity.modified_ns
        name, state = os.fsencode(identity.path), f"{identity.filesystem} {identity.size} {version!r}"
    else:
        return None
    number = hash_one(name) - (1 << 63)  # SQLite's numbers are signed
    return _RecordKey(number, b"%b\0%b" % (name, state.encode()), identity.size)


def _find_problem(path: str, identity: Hashable) -> str | None:
    """Return why a file is not cached on disk; None if it will be later, as it has just been changed."""
    if isinstance(identity, FileIdentity):
        if not keeps_change_times(os.path.realpath(path), identity.device):
            return "their file system does not tell when a file was changed last"
    elif not isinstance(identity, RemoteIdentity):
        return "their file system does not tell one version of a file from another"
    elif not distinct(identity) and (identity.etag is not None or identity.filesystem != DATED):
        return "their store gives no strong etag"
    return None


def _count_extras(cached: CachedFooter) -> int:
    """Return the amount of data besides the footer: headers, and bytes of filters."""
    return len(cached.filter_headers) + cached.extents.num_bytes


def _encode(identity: bytes, cached: CachedFooter) -> bytes:
    headers = dict(cached.filter_headers)  # other threads may add to them
    extents = _filter_extents(cached)
    footer = cached.footer
    header = _HEADER.pack(len(identity), len(footer.data), footer.start, len(headers), len(extents))
    tables = [_positions_struct(len(headers), "H").pack(*headers, *map(len, headers.values()))]
    tables.append(_positions_struct(len(extents), "I").pack(*extents, *map(len, extents.values())))
    body = b"".join([header, identity, footer.data, *tables, *headers.values(), *extents.values()])
    return _CHECKSUM.pack(hash_one(body)) + body


def _filter_extents(cached: CachedFooter) -> dict[int, bytes]:
    """Return the ranges, by offset, without any that holds pages: of a table's data, only the footer is stored."""
    pages = cached.footer.data_ranges()
    extents: dict[int, bytes] = {}
    for offset, data in cached.extents.items():
        if not ((pages[:, 0] < offset + len(data)) & (pages[:, 1] > offset)).any():
            extents[offset] = data.tobytes()
    return extents


def _positions_struct(count: int, length_format: str) -> struct.Struct:
    """Return the layout of a table of ranges: their offsets in the file, then their lengths."""
    return struct.Struct(f"<{count}Q{count}{length_format}")


def _decode(record: bytes | None, key: _RecordKey) -> CachedFooter | None:
    """Decode the record of a file; None if it belongs to another file or is damaged."""
    if record is None or len(record) < _CHECKSUM.size + _HEADER.size:
        return None
    body = memoryview(record)[_CHECKSUM.size :]
    if hash_one(body) != _CHECKSUM.unpack_from(record)[0]:
        return None
    identity_bytes, footer_bytes, start, num_headers, num_extents = _HEADER.unpack_from(body)
    footer_start = _HEADER.size + identity_bytes
    end = footer_start + footer_bytes
    if body[_HEADER.size : footer_start] != key.identity or start + footer_bytes + TAIL_BYTES != key.size:
        return None
    try:
        cached = CachedFooter(Footer(bytes(body[footer_start:end]), start))
        tables = []
        for count, length_format in ((num_headers, "H"), (num_extents, "I")):
            positions = _positions_struct(count, length_format)
            numbers = positions.unpack_from(body, end)
            tables.append(zip(numbers[:count], numbers[count:], strict=True))
            end += positions.size
        for offset, length in tables[0]:
            cached.filter_headers[offset] = bytes(body[end : end + length])
            end += length
        for offset, length in tables[1]:
            cached.extents.add(offset, bytes(body[end : end + length]))
            end += length
    except (ParquetBloomError, struct.error):
        return None
    return cached
