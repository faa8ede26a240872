"""Content fingerprints of a file's footer and pages, independent of embedded filters.

They are not cryptographic: XXH64 tells apart files that differ by accident, not files crafted to look alike.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import numpy as np

from ..core.hash.xxh64 import hash_one
from ..errors import EncryptedFileError, ErrorContext, MalformedFooterError, ParquetBloomError, UnreadableColumnError
from ..metadata.footer import MAGIC, Footer, Leaf, find_first_pages
from ..metadata.thrift_compact import splice_filters
from ..storage import Source

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


def chunk_bytes_fingerprint(source: Source, footer: Footer, leaves: Iterable[Leaf]) -> int:
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

    def __init__(self, footer: Footer, leaves: Iterable[Leaf], path: str | None = None):
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


def _sort_leaves(leaves: Iterable[Leaf]) -> list[Leaf]:
    return sorted({leaf.index: leaf for leaf in leaves}.values(), key=lambda leaf: leaf.index)


def _hash_lengths(spans: Iterable[tuple[int, int, int, int]]) -> int:
    """Hash the chunks' row groups, columns and lengths."""
    return hash_one(b"".join(_CHUNK.pack(row_group, leaf, length) for row_group, leaf, _, length in spans))


def _combine_hashes(total: int, hashes: list[int]) -> int:
    return hash_one(struct.pack(f"<{len(hashes) + 1}Q", total, *hashes))


def _list_spans(footer: Footer, leaves: list[Leaf]) -> list[tuple[int, int, int, int]]:
    """Return (row group, leaf, offset, length) of each chunk, in that order."""
    spans = []
    for row_group in range(footer.num_row_groups):
        for leaf in leaves:
            offset, length = _find_span(footer, row_group, leaf)
            spans.append((row_group, leaf.index, offset, length))
    if sum(length for *_, length in spans) > footer.start:  # reading them all could take for ever
        raise MalformedFooterError("metadata: the column chunks are said to have more bytes than the file")
    return spans


def _find_span(footer: Footer, row_group: int, leaf: Leaf) -> tuple[int, int]:
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


def require_readable_chunk(footer: Footer, row_group: int, leaf: Leaf) -> np.void:
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
