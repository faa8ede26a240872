"""Version tokens of files, which change when a file changes, and checks that a file is unchanged."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core.hash.xxh64 import hash_one
from ..errors import (
    EncryptedFileError,
    ErrorContext,
    MalformedFooterError,
    ParquetBloomError,
    StorageError,
    UnreadableColumnError,
)
from ..metadata.footer import MAGIC, Footer, SchemaLeaf, find_first_pages
from ..metadata.thrift_compact import splice_filters
from ..storage import DATED, Entry, FileIdentity, RemoteIdentity, Source, is_local, is_url, open_source, stat_files
from ..storage.local.local_batch import try_stat
from ..storage.objects.object_source import ObjectSource
from ..util.threads import in_order
from .bloom_file import BloomFile
from .metadata_cache import FAR_SETTLED_NS, SETTLED_NS

if TYPE_CHECKING:
    from ..util.given_types import FileSystem

PIECE_BYTES = 1 << 22  # hashed together: the fingerprint depends on it
READ_BYTES = 1 << 24  # read at once, so about the memory needed
_CHUNK = struct.Struct("<QQQ")  # row group, leaf, length


def footer_fingerprint(footer: Footer) -> int:
    """Compute XXH64 of a footer's bytes without the filter locations: fields 14 and 15 of each ColumnMetaData.

    Notes
    -----
    Adding or dropping filters does not change it as long as everything else stays in place: `embed` and `drop` copy
    all that precedes the filters, page indexes included, and every other byte of the footer. A field header that
    counts from the field before it is hashed as if fields 14 and 15 were absent.

    Any other change of the footer changes it: offsets and sizes of pages, page indexes, statistics, schema, row counts,
    the writer's name and key-value metadata. Other tools that add filters rewrite the whole file, so that offsets, and
    the fingerprint, change. Values of the same width, uncompressed and without statistics, may be exchanged without any
    change of the footer; see `chunk_bytes_fingerprint`.
    """
    chunks = footer.chunks[(footer.chunks["filter_fields"] > 0) & (footer.chunks["meta_start"] >= 0)]
    starts, ends = (np.ascontiguousarray(chunks[name]) for name in ("meta_start", "meta_end"))
    none = np.full(len(chunks), -1, np.int64)
    return hash_one(splice_filters(footer.data, starts, ends, none, none))


def chunk_bytes_fingerprint(source: Source, footer: Footer, leaves: Iterable[SchemaLeaf]) -> int:
    """Compute one hash of all stored bytes of some columns' chunks, dictionaries and page headers included.

    Reads the chunks, 16 MiB at a time. The caller has to check that the file was not changed meanwhile.

    Parameters
    ----------
    source, footer : the file.
    leaves : the columns, in any order; duplicates count once.

    Raises
    ------
    MalformedFooterError
        The footer lacks a chunk, gives it an impossible location, or gives the same bytes to several chunks.
    EncryptedFileError, UnreadableColumnError
        A chunk is encrypted, or in another file.
    TruncatedFileError, StorageError
        The file ends before its pages do, or cannot be read.
    """
    try:
        spans = _list_spans(footer, _sort_leaves(leaves))
    except ParquetBloomError as error:
        error.path = error.path or source.name
        raise
    total = _hash_lengths(spans)
    for offsets, lengths in _batches(spans):
        data = source.gather(np.array(offsets, np.int64), np.array(lengths, np.int64)).data
        hashes, position = [], 0
        for length in lengths:
            hashes.append(hash_one(data[position : position + length]))
            position += length
        total = _combine_hashes(total, hashes)
    return total


class ColumnFingerprint:
    """Incremental `chunk_bytes_fingerprint` over chunks that the caller reads, in any order. Thread-safe.

    Parameters
    ----------
    footer, leaves : as in `chunk_bytes_fingerprint`, which raises the same errors.
    path : the file's path, for errors.

    Attributes
    ----------
    spans : {(row group, leaf index): (offset, length)} of every chunk.
    """

    def __init__(self, footer: Footer, leaves: Iterable[SchemaLeaf], path: str | None = None):
        try:
            self._in_order = _list_spans(footer, _sort_leaves(leaves))
        except ParquetBloomError as error:
            error.path = error.path or path
            raise
        self.spans = {(row_group, leaf): (offset, length) for row_group, leaf, offset, length in self._in_order}
        self._hashes: dict[tuple[int, int], list[int]] = {}

    def add_chunk(self, row_group: int, leaf: int, data: memoryview) -> None:
        """Add all bytes of a chunk."""
        starts = range(0, len(data), PIECE_BYTES)
        self._hashes[row_group, leaf] = [hash_one(data[start : start + PIECE_BYTES]) for start in starts]

    def stream_chunk(self, source: Source, row_group: int, leaf: int) -> StreamedChunk:
        """Return an object that adds a chunk as it is read; the caller has to call its `complete`."""
        hashes: list[int] = []
        self._hashes[row_group, leaf] = hashes
        return StreamedChunk(source, *self.spans[row_group, leaf], hashes)

    def fingerprint(self) -> int:
        """Return the fingerprint of all chunks; KeyError if one is missing."""
        total = _hash_lengths(self._in_order)
        hashes = [one for row_group, leaf, *_ in self._in_order for one in self._hashes[row_group, leaf]]
        for _, lengths in _batches(self._in_order):
            total = _combine_hashes(total, hashes[: len(lengths)])
            hashes = hashes[len(lengths) :]
        return total


class StreamedChunk:
    """A column chunk too long for memory: its bytes are hashed as the caller reads them.

    Parameters
    ----------
    source, offset, length : the file, and the chunk in it.
    hashes : the hash of each piece is appended to it.
    """

    def __init__(self, source: Source, offset: int, length: int, hashes: list[int]):
        self._source = source
        self._next, self._end = offset, offset + length  # next byte to be hashed
        self._hashes = hashes
        self._buffer = bytearray()

    def read(self, offset: int, length: int) -> bytes:
        """Read a range of the file, whose bytes are added."""
        data = self._source.read_at(offset, length)
        self.feed(offset, data)
        return data

    def feed(self, offset: int, data: bytes | memoryview) -> bool:
        """Add bytes read at an offset, without those added before; False if bytes in front of them are missing."""
        if offset > self._next:
            return offset >= self._end
        fresh = memoryview(data)[self._next - offset : self._end - offset]
        self._next += len(fresh)
        while fresh.nbytes:
            room = PIECE_BYTES - len(self._buffer)
            self._buffer += fresh[:room]
            fresh = fresh[room:]
            if len(self._buffer) == PIECE_BYTES:
                self._hash_buffer()
        return True

    def complete(self) -> None:
        """Read and add the bytes that were not fed: pages after the last value, or bytes that were skipped."""
        while self._next < self._end:
            self.read(self._next, min(PIECE_BYTES, self._end - self._next))
        if self._buffer:
            self._hash_buffer()

    def _hash_buffer(self) -> None:
        self._hashes.append(hash_one(self._buffer))
        self._buffer = bytearray()


def _sort_leaves(leaves: Iterable[SchemaLeaf]) -> list[SchemaLeaf]:
    return sorted({leaf.index: leaf for leaf in leaves}.values(), key=lambda leaf: leaf.index)


def _hash_lengths(spans: Iterable[tuple[int, int, int, int]]) -> int:
    """Hash the chunks' row groups, columns and lengths."""
    return hash_one(b"".join(_CHUNK.pack(row_group, leaf, length) for row_group, leaf, _, length in spans))


def _combine_hashes(total: int, hashes: list[int]) -> int:
    return hash_one(struct.pack(f"<{len(hashes) + 1}Q", total, *hashes))


def _list_spans(footer: Footer, leaves: list[SchemaLeaf]) -> list[tuple[int, int, int, int]]:
    """Return (row group, leaf, offset, length) of each chunk, in that order."""
    spans = []
    for row_group in range(footer.num_row_groups):
        for leaf in leaves:
            offset, length = _find_span(footer, row_group, leaf)
            spans.append((row_group, leaf.index, offset, length))
    if sum(length for *_, length in spans) > footer.start:  # reading them all could take for ever
        raise MalformedFooterError("metadata: the column chunks are said to have more bytes than the file")
    return spans


def _find_span(footer: Footer, row_group: int, leaf: SchemaLeaf) -> tuple[int, int]:
    record = require_readable_chunk(footer, row_group, leaf)
    context: ErrorContext = {"row_group": row_group, "column": leaf.name}
    length = int(record["compressed_size"])
    if length == 0:  # without pages their offsets mean nothing
        return len(MAGIC), 0
    data, dictionary = int(record["data_page_offset"]), int(record["dictionary_page_offset"])
    offsets = [offset for offset in (data, dictionary) if offset > 0]  # 0 marks pages that do not exist
    first, last = int(find_first_pages(record)) or max(dictionary, 0), max(offsets, default=0)
    if data < 0 or first < len(MAGIC) or not 0 < length <= footer.start - first or last > first + length:
        problem = f"metadata: its {length} bytes cannot lie at {offsets} before the footer at {footer.start}"
        raise MalformedFooterError(problem, **context)
    return first, length


def _batches(spans: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the spans as batches of ranges of at most PIECE_BYTES; the batches depend on the spans alone."""
    offsets: list[int] = []
    lengths: list[int] = []
    total = 0
    for *_, offset, length in spans:
        for start in range(0, length, PIECE_BYTES):
            offsets.append(offset + start)
            lengths.append(min(PIECE_BYTES, length - start))
            total += lengths[-1]
            if total > READ_BYTES - PIECE_BYTES:
                yield offsets, lengths
                offsets, lengths, total = [], [], 0
    if offsets:
        yield offsets, lengths


def require_readable_chunk(footer: Footer, row_group: int, leaf: SchemaLeaf) -> np.void:
    """Return the footer's record of a column chunk whose pages are unencrypted and in the file itself.

    Raises
    ------
    EncryptedFileError, UnreadableColumnError
        They are not.
    MalformedFooterError
        See `Footer.chunk`.
    """
    context: ErrorContext = {"row_group": row_group, "column": leaf.name}
    group = footer.row_groups[row_group]
    if leaf.index < group["num_columns"] and footer.chunks[int(group["first_chunk"]) + leaf.index]["encrypted"]:
        raise EncryptedFileError("the column is encrypted", **context)
    record = footer.chunk(row_group, leaf)
    if record["external"]:
        raise UnreadableColumnError("the column chunk's data is in another file", **context)
    return record


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
    entries: Sequence[Entry], filesystem: FileSystem | None, costs: list[tuple[int, int]] | None = None
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
    entry: Entry, filesystem: FileSystem | None, costs: list[tuple[int, int]] | None
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
    status = try_stat(path)
    is_missing = isinstance(status, OSError) and status.errno in (errno.ENOENT, errno.ENOTDIR)
    return is_missing and not os.path.islink(path)


def compare_contents(
    entry: Entry,
    filesystem: FileSystem | None,
    footer: int,
    data: int,
    find_leaves: Callable[[BloomFile], Iterable[SchemaLeaf]],
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
