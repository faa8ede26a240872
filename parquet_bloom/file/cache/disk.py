"""Footers and filters kept on disk, so that another process, or this one tomorrow, does not read them again."""

from __future__ import annotations

import os
import struct
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from ...core.hash.xxh64 import hash_one
from ...errors import ParquetBloomError
from ...metadata.footer import TAIL_BYTES, Footer
from ...redaction import redacted
from ...storage import FileIdentity, RecordStore, RemoteIdentity, Source, keeps_change_times, stat_files
from .entry import CachedFooter
from .memory import DEFAULT_BYTES, MetadataCache, distinct

DISK_BYTES = 1 << 30

_NAME = "footers-2.sqlite"  # 2: how records are laid out
_CHECKSUM = struct.Struct("<Q")
# Bytes of the identity, of the footer; where it starts; how many filters' headers; how many other ranges.
_HEAD = struct.Struct("<IIQII")
_BATCH_SIZE = 512  # footers that are written together
_PENDING = 64  # of them the latest, whose filters' headers may still be read


class DiskMetadataCache(MetadataCache, AbstractContextManager["DiskMetadataCache", None]):
    """Footers and filter headers in memory, and behind that in a folder that many processes may share.

    Of objects in a store it keeps the filters, too, as far as they were read; of pages nothing.

    A local file is known again by its real path, inode, size and times (to the nanosecond), not by its device, whose
    number may be another after a reboot. The time of its last change of any kind decides: no program can set it, so
    that a file that was replaced or written to is another one whatever its size and modification time are. Files of
    file systems that keep no such time (FAT, FUSE, SMB) stay in memory only. Objects are known again by path, size and
    etag; without an etag, or with a weak one, they are not kept at all.

    Each record has a checksum over the footer and what file it is of. One that does not fit, or cannot be decoded, is
    not believed, and the footer is read from its file. A folder that cannot be used costs speed, never an error: the
    logger `parquet_bloom.storage` says so once.

    Parameters
    ----------
    path : the folder; made if need be, for this user alone, since footers hold smallest and largest values. It must
        not be writable for others. On a network file system it serves the processes of one host.
    disk_bytes : what its file may take, about; footers used least recently are dropped first.
    max_bytes : memory that the footers in front of it may take, by estimate.

    Notes
    -----
    May be used by many threads and processes, and passed to other processes. `prune` writes when it is done; else
    footers are written some hundred at a time, and by `flush` or `close`.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, disk_bytes: int = DISK_BYTES, max_bytes: int = DEFAULT_BYTES
    ) -> None:
        super().__init__(max_bytes)
        self.path = os.path.abspath(os.fsdecode(path))
        self.disk_bytes = disk_bytes
        self._store = RecordStore(self.path, _NAME, disk_bytes)
        # Files looked at since the last flush: what is known of each, and of how much the disk knows (-1: it does not
        # have the footer). Headers and filters are read after the footer was kept.
        self._seen: dict[Hashable, tuple[_RecordKey, CachedFooter, int]] = {}

    def __repr__(self) -> str:
        return redacted(f"<DiskMetadataCache {self.path!r}: {len(self):,} footers in memory>")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self.path, self.disk_bytes, self.max_bytes)

    def find(self, source: Source) -> CachedFooter | None:
        identity = source.identity
        known = self.get(identity)
        if known is not None and identity in self._seen:
            return known
        place = _make_key(source)
        if place is None:
            return known
        if known is None:
            known = _decode(self._store.get(place.number), place.identity, source.size)
            if known is None:
                return None
            super().keep(source, known)
        self._see(identity, place, known, _count_extras(known))
        return known

    def find_by_paths(self, paths: Sequence[str]) -> list[tuple[FileIdentity, CachedFooter] | None]:
        """What is known of the local files that stand at some paths."""
        found = super().find_by_paths(paths)
        for number, source in enumerate(stat_files(paths)):
            known = None if found[number] is not None or source is None else self.find(source)
            if source is not None and known is not None:
                found[number] = source.identity, known
        return found

    def keep(self, source: Source, known: CachedFooter) -> None:
        super().keep(source, known)
        place = _make_key(source)
        if place is not None and distinct(source.identity):
            self._see(source.identity, place, known, -1)

    def _see(self, identity: Hashable, place: _RecordKey, known: CachedFooter, on_disk: int) -> None:
        with self._lock:
            if identity in self._seen:
                on_disk = self._seen[identity][2]
            self._seen[identity] = place, known, on_disk
            many = len(self._seen) >= _BATCH_SIZE
        if many:
            self._write(_PENDING)

    def flush(self) -> None:
        self._write(0)

    def _write(self, left: int) -> None:
        """Write what the disk does not know yet, but for the latest files."""
        with self._lock:
            chosen = list(self._seen)[: max(0, len(self._seen) - left)]
            seen = [self._seen.pop(identity) for identity in chosen]
        records = [
            (place.number, _encode(place.identity, known))
            for place, known, on_disk in seen
            if _count_extras(known) > on_disk
        ]
        self._store.put([(number, record) for number, record in records if len(record) <= self.disk_bytes // 4])

    def clear(self) -> None:
        """Forget all, on disk too."""
        super().clear()
        with self._lock:
            self._seen.clear()
        self._store.clear()

    def close(self) -> None:
        """Write what is not yet written, and let go of the file; a later use opens it again."""
        self.flush()
        self._store.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _unpickle(kind: type[DiskMetadataCache], path: str, disk_bytes: int, max_bytes: int) -> DiskMetadataCache:
    return kind(path, disk_bytes=disk_bytes, max_bytes=max_bytes)


class _RecordKey(NamedTuple):
    """Where a file's record stands, by the file's path, so that a new state of the file takes the place of the old one.

    Attributes
    ----------
    number : of the record.
    identity : the file's path and state.
    """

    number: int
    identity: bytes


def _make_key(source: Source) -> _RecordKey | None:
    """None for a file that is not kept on disk."""
    identity = source.identity
    if isinstance(identity, FileIdentity) and source.path is not None:
        if not keeps_change_times(source.path, identity.device):
            return None
        name, state = os.fsencode(source.path), f"file {identity[1:]}"
    elif isinstance(identity, RemoteIdentity) and distinct(identity):
        version = identity.etag or identity.modified_ns
        name, state = os.fsencode(identity.path), f"{identity.filesystem} {identity.size} {version!r}"
    else:
        return None
    return _RecordKey(hash_one(name) - (1 << 63), b"%b\0%b" % (name, state.encode()))  # SQLite's numbers are signed


def _count_extras(known: CachedFooter) -> int:
    """How much is known besides the footer, in headers and bytes of filters."""
    return len(known.filter_headers) + known.extents.num_bytes


def _encode(identity: bytes, known: CachedFooter) -> bytes:
    heads = dict(known.filter_headers)  # other threads may add to them
    extents = _filter_extents(known)
    footer = known.footer
    head = _HEAD.pack(len(identity), len(footer.data), footer.start, len(heads), len(extents))
    tables = [_positions_struct(len(heads), "H").pack(*heads, *map(len, heads.values()))]
    tables.append(_positions_struct(len(extents), "I").pack(*extents, *map(len, extents.values())))
    body = b"".join([head, identity, footer.data, *tables, *heads.values(), *extents.values()])
    return _CHECKSUM.pack(hash_one(body)) + body


def _filter_extents(known: CachedFooter) -> dict[int, bytes]:
    """The ranges, by their positions, that hold filters, and nothing of pages: no more of a table than its footer."""
    pages = known.footer.data_ranges()
    kept: dict[int, bytes] = {}
    for offset, data in known.extents.items():
        if not ((pages[:, 0] < offset + len(data)) & (pages[:, 1] > offset)).any():
            kept[offset] = data.tobytes()
    return kept


def _positions_struct(count: int, length_format: str) -> struct.Struct:
    """Positions of ranges in their file, and their lengths."""
    return struct.Struct(f"<{count}Q{count}{length_format}")


def _decode(record: bytes | None, identity: bytes, size: int) -> CachedFooter | None:
    """What a record holds of a file of some size; None where it is of another one, or not what was written."""
    if record is None or len(record) < _CHECKSUM.size + _HEAD.size:
        return None
    body = memoryview(record)[_CHECKSUM.size :]
    if hash_one(body) != _CHECKSUM.unpack_from(record)[0]:
        return None
    identity_bytes, footer_bytes, start, num_heads, num_extents = _HEAD.unpack_from(body)
    at_footer = _HEAD.size + identity_bytes
    end = at_footer + footer_bytes
    if body[_HEAD.size : at_footer] != identity or start + footer_bytes + TAIL_BYTES != size:
        return None
    try:
        known = CachedFooter(Footer(bytes(body[at_footer:end]), start))
        tables = []
        for count, length_format in ((num_heads, "H"), (num_extents, "I")):
            positions = _positions_struct(count, length_format)
            numbers = positions.unpack_from(body, end)
            tables.append(zip(numbers[:count], numbers[count:], strict=True))
            end += positions.size
        for offset, length in tables[0]:
            known.filter_headers[offset] = bytes(body[end : end + length])
            end += length
        for offset, length in tables[1]:
            known.extents.add(offset, bytes(body[end : end + length]))
            end += length
    except (ParquetBloomError, struct.error):
        return None
    return known
