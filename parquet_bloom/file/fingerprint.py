"""What a file is known by to who keeps something about its values: its footer and pages, whatever filters it has.

Neither number is a seal: XXH64 tells files apart that differ by accident, not those that are made to look alike.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import numpy as np

from ..core.hash.xxh64 import hash_one
from ..errors import EncryptedFileError, ErrorContext, MalformedFooterError, ParquetBloomError, UnreadableColumnError
from ..metadata.footer import MAGIC, Footer, Leaf
from ..metadata.thrift_compact import splice_filters
from ..storage import Source

PIECE_BYTES = 1 << 22  # hashed at once: the fingerprint depends on it
READ_BYTES = 1 << 24  # read at once, and so about the memory that it takes
_CHUNK = struct.Struct("<QQQ")  # row group, leaf, length


def footer_fingerprint(footer: Footer) -> int:
    """XXH64 of a footer's bytes less the places of filters: fields 14 and 15 of each ColumnMetaData.

    Notes
    -----
    Filters come and go without changing it as long as all else stays where it was: `embed` and `drop` copy what is
    before the filters, page indexes among it, and every other byte of the footer. A field's header that counts from a
    field before it is taken as if fields 14 and 15 were not there, so that it does not tell whether they are.

    Any other change shows that shows in the footer: places and sizes of pages, page indexes, statistics, schema, row
    counts, the writer's name and key-value metadata. Other tools that add filters write the whole file anew, so that
    places change: to it this is another file. Values of the same width, uncompressed and without statistics, may be
    exchanged without any change of the footer; feed `chunk_bytes_fingerprint`.
    """
    chunks = footer.chunks[(footer.chunks["filter_fields"] > 0) & (footer.chunks["meta_start"] >= 0)]
    starts, ends = (np.ascontiguousarray(chunks[name]) for name in ("meta_start", "meta_end"))
    none = np.full(len(chunks), -1, np.int64)
    return hash_one(splice_filters(footer.data, starts, ends, none, none))


def chunk_bytes_fingerprint(source: Source, footer: Footer, leaves: Iterable[Leaf]) -> int:
    """One number for all bytes of some columns' chunks as they are stored, dictionaries and page headers included.

    Reads the chunks, 16 MiB at a time; that the file was not changed meanwhile is for the caller to check.

    Parameters
    ----------
    source, footer : the file.
    leaves : the columns, in any order; each counts once.

    Raises
    ------
    MalformedFooterError
        The footer lacks a chunk, gives it an impossible place, or gives the same bytes to several.
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
        sums, at = [], 0
        for length in lengths:
            sums.append(hash_one(data[at : at + length]))
            at += length
        total = _combine_hashes(total, sums)
    return total


class ColumnFingerprint:
    """The same number, made of chunks that somebody else reads, whichever comes first. Threads may add_chunk them.

    Parameters
    ----------
    footer, leaves, path : as of `chunk_bytes_fingerprint`, which has the same errors; the path is for those.

    Attributes
    ----------
    spans : {(row group, leaf's index): (offset, length)} of every chunk.
    """

    def __init__(self, footer: Footer, leaves: Iterable[Leaf], path: str | None = None):
        try:
            self._in_order = _list_spans(footer, _sort_leaves(leaves))
        except ParquetBloomError as error:
            error.path = error.path or path
            raise
        self.spans = {(row_group, leaf): (offset, length) for row_group, leaf, offset, length in self._in_order}
        self._sums: dict[tuple[int, int], list[int]] = {}

    def add_chunk(self, row_group: int, leaf: int, data: memoryview) -> None:
        """All bytes of a chunk have come."""
        starts = range(0, len(data), PIECE_BYTES)
        self._sums[row_group, leaf] = [hash_one(data[start : start + PIECE_BYTES]) for start in starts]

    def stream_chunk(self, row_group: int, leaf: int) -> StreamedChunk:
        """What takes a chunk piece by piece; the chunk counts once that is complete."""
        sums: list[int] = []
        self._sums[row_group, leaf] = sums
        return StreamedChunk(*self.spans[row_group, leaf], sums)

    def fingerprint(self) -> int:
        """Of all chunks; KeyError if one has not come."""
        total = _hash_lengths(self._in_order)
        sums = [each for row_group, leaf, *_ in self._in_order for each in self._sums[row_group, leaf]]
        for _, lengths in _batches(self._in_order):
            total = _combine_hashes(total, sums[: len(lengths)])
            sums = sums[len(lengths) :]
        return total


class StreamedChunk:
    """A column chunk that is too long to be held: its bytes are summed as somebody else reads them.

    Parameters
    ----------
    offset, length : the chunk.
    sums : takes what comes of each piece.
    """

    def __init__(self, offset: int, length: int, sums: list[int]):
        self._next, self._end = offset, offset + length  # up to where bytes have come
        self._sums = sums
        self._buffer = bytearray()

    def feed(self, offset: int, data: bytes | memoryview) -> bool:
        """Take what was read at a place; False if bytes before it are missing. What came before is not taken again."""
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

    def complete(self, source: Source) -> None:
        """Read what nobody has read: pages behind the last value, or bytes that were skipped."""
        while self._next < self._end:
            length = min(PIECE_BYTES, self._end - self._next)
            self.feed(self._next, source.read_at(self._next, length))
        if self._buffer:
            self._hash_buffer()

    def _hash_buffer(self) -> None:
        self._sums.append(hash_one(self._buffer))
        self._buffer = bytearray()


def _sort_leaves(leaves: Iterable[Leaf]) -> list[Leaf]:
    return sorted({leaf.index: leaf for leaf in leaves}.values(), key=lambda leaf: leaf.index)


def _hash_lengths(spans: Iterable[tuple[int, int, int, int]]) -> int:
    """What stands for the chunks' places among the others, and their lengths."""
    return hash_one(b"".join(_CHUNK.pack(row_group, leaf, length) for row_group, leaf, _, length in spans))


def _combine_hashes(total: int, sums: list[int]) -> int:
    return hash_one(struct.pack(f"<{len(sums) + 1}Q", total, *sums))


def _list_spans(footer: Footer, leaves: list[Leaf]) -> list[tuple[int, int, int, int]]:
    """(row group, leaf, offset, length) of each chunk, in that order."""
    spans = []
    for row_group in range(footer.num_row_groups):
        for leaf in leaves:
            offset, length = _find_span(footer, row_group, leaf)
            spans.append((row_group, leaf.index, offset, length))
    if sum(length for *_, length in spans) > footer.start:  # to read them all could take for ever
        raise MalformedFooterError("metadata: the column chunks are said to have more bytes than the file")
    return spans


def _find_span(footer: Footer, row_group: int, leaf: Leaf) -> tuple[int, int]:
    record = require_readable_chunk(footer, row_group, leaf)
    where: ErrorContext = {"row_group": row_group, "column": leaf.name}
    length = int(record["compressed_size"])
    if length == 0:  # no pages: where they are not means nothing
        return len(MAGIC), 0
    data, dictionary = int(record["data_page_offset"]), int(record["dictionary_page_offset"])
    places = [place for place in (data, dictionary) if place > 0]  # 0 is said of pages that are not there
    first, last = min(places, default=0), max(places, default=0)
    if data < 0 or first < len(MAGIC) or not 0 < length <= footer.start - first or last > first + length:
        problem = f"metadata: its {length} bytes cannot lie at {places} before the footer at {footer.start}"
        raise MalformedFooterError(problem, **where)
    return first, length


def _batches(spans: Iterable[tuple[int, int, int, int]]) -> Iterator[tuple[list[int], list[int]]]:
    """The same bytes as ranges of at most PIECE_BYTES, some of them at a time; how many depends on the spans alone."""
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
    """The footer's record of a column chunk whose pages stand, not encrypted, in the file.

    Raises
    ------
    EncryptedFileError, UnreadableColumnError
        They do not.
    MalformedFooterError
        See `Footer.chunk`.
    """
    place: ErrorContext = {"row_group": row_group, "column": leaf.name}
    group = footer.row_groups[row_group]
    if leaf.index < group["num_columns"] and footer.chunks[int(group["first_chunk"]) + leaf.index]["encrypted"]:
        raise EncryptedFileError("the column is encrypted", **place)
    record = footer.chunk(row_group, leaf)
    if record["external"]:
        raise UnreadableColumnError("the column chunk's data is in another file", **place)
    return record
