"""`BloomFile`: a Parquet file opened for its Bloom filters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..core.bloom.variants import DETECT, FINAL, Variant
from ..errors import EncryptedFileError, MissingFilterError, NotParquetError, ParquetBloomError, UnknownColumnError
from ..filter import SplitBlockBloomFilter
from ..hashing.column_type import ColumnType
from ..metadata.filter_header import MAX_HEADER_BYTES, FilterHeader, read_any, read_header
from ..metadata.footer import TAIL_BYTES, Footer, SchemaLeaf, find_footer
from ..redaction import redacted
from ..storage import RemoteIdentity, Source, entry_for_identity, open_source, resolve_filesystem
from ..util.lazy import late_module
from ..util.messages import count
from .chunk_filter import ChunkFilter
from .column_reader import ColumnReader
from .file_columns import find_leaf, type_of
from .metadata_cache import CachedFooter, MetadataCache, distinct

if TYPE_CHECKING:
    from typing import Self

    from ..util.given_types import FilePath, FileSystem
    from . import drafts
else:
    drafts = late_module("parquet_bloom.file.drafts")


_PREFETCHED_BYTES = 8 << 20  # of a file, after which no more is fetched ahead: many files may be read at a time


def read_footer(source: Source) -> Footer:
    """Read the footer of an opened file. Bytes of filters that were read along with it are cached in `source`.

    Raises
    ------
    NotParquetError, EncryptedFileError, TruncatedFileError, MalformedFooterError
    """
    try:
        length = min(source.size, source.first_read)
        tail = source.read_at(source.size - length, length)
        try:
            start, length = find_footer(tail, source.size)
        except NotParquetError:
            source.keep(source.size - length, tail)  # for readers of other formats
            raise
        inside = len(tail) - TAIL_BYTES - length
        missing = b"" if inside >= 0 else source.read_at(start, -inside)
        footer = Footer(missing + tail[max(0, inside) : -TAIL_BYTES], start)
    except ParquetBloomError as error:
        error.path = error.path or source.name
        raise
    if inside > 0:
        _cache_filter_bytes(source, footer, start - inside, tail[:inside])
    return footer


def _cache_filter_bytes(source: Source, footer: Footer, offset: int, before: bytes) -> None:
    """Cache the bytes that can belong to filters, of those before the footer, which begin at `offset`."""
    filters = footer.chunks[footer.chunks["filter_offset"] >= 0]
    unknown, end = filters["filter_length"] < 0, filters["filter_offset"] + filters["filter_length"]
    offsets = filters["filter_offset"][(filters["filter_offset"] < footer.start) & (unknown | (end > offset))]
    if len(offsets):
        first = max(offset, int(offsets.min()))
        source.keep(first, before[first - offset :])


class BloomFile:
    """A Parquet file opened for its filters. Use `parquet_bloom.open`; close it, or use it as a context manager.

    Attributes
    ----------
    path : as the caller gave it.
    footer : the parsed footer.
    cached : the footer with everything derived from it, as a cache holds it.
    variant : how filters are read: today's format, a draft of it, or "detect" to find out from values.
    is_draft : whether `variant` is anything but today's format.
    """

    def __init__(
        self,
        source: Source,
        cache: MetadataCache | None = None,
        cached: CachedFooter | None = None,
        variant: Variant | Literal["detect"] = FINAL,
    ):
        self.source = source
        self.variant = variant
        self.is_draft = variant != FINAL
        self.path = source.name
        if cached is None and cache is not None:
            cached = cache.find(source.name, source.identity)
        if cached is None:
            cached = CachedFooter(read_footer(source))
            if cache is not None:
                cached = cache.keep(source.name, source.identity, cached)
        if self.is_draft:  # what is derived from now on is valid for this variant only
            cached, cache = CachedFooter(cached.footer, cached.filter_headers), None
        self.cached = cached
        self.footer: Footer = cached.footer
        self._cache = cache
        self._remembered_bytes = cached.extents.num_bytes
        self._header_bytes = cached.filter_headers
        self._filter_ends: dict[int, int] = {}
        self._prepared: set[int] = set()  # offsets of filters whose header, and all that is needed to judge it, is read
        has_etag = isinstance(source.identity, RemoteIdentity) and source.identity.etag is not None
        if cache is not None and has_etag and distinct(source.identity):
            self.cache_filters()
            source.remembered = cached.extents
            self.note_reads()

    def cache_filters(self) -> None:
        """Cache, with the footer, the filters that were read together with it."""
        data, offset = self.source.kept
        filters = self.footer.chunks["filter_offset"]
        filters = filters[(filters >= offset) & (filters < self.footer.start)]
        if len(data) and len(filters):
            first = int(filters.min())
            self.cached.extents.add(first, data[first - offset : self.footer.start - offset])

    def close(self) -> None:
        self.note_reads()
        self.source.close()

    def note_reads(self) -> None:
        """Update the file's size in the cache if more ranges of the file have been read."""
        if self.source.remembered is not None and self.source.remembered.num_bytes != self._remembered_bytes:
            self._remembered_bytes = self.source.remembered.num_bytes
            self.remember()

    def with_variant(self, variant: Variant | Literal["detect"]) -> BloomFile:
        """Return the same open file under another variant."""
        return BloomFile(self.source, cached=self.cached, variant=variant)

    def remember(self) -> None:
        """Update the file's size in the cache, if there is one, after its entry has grown."""
        if self._cache is not None:
            self._cache.keep(self.path, self.source.identity, self.cached)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = f"{count(self.num_row_groups, 'row group')}, {count(len(self.columns), 'column')}"
        return redacted(f"<BloomFile {self.path!r}: {counts}>")

    @property
    def num_row_groups(self) -> int:
        return self.footer.num_row_groups

    @property
    def row_groups(self) -> range:
        """The ordinals of the row groups."""
        return range(self.num_row_groups)

    @cached_property
    def leaves(self) -> list[SchemaLeaf]:
        try:
            return self.footer.leaves
        except ParquetBloomError as error:
            raise self._add_path(error) from error

    @property
    def columns(self) -> list[str]:
        """Dotted paths of the leaf columns, in schema order."""
        return [leaf.name for leaf in self.leaves]

    def leaf(self, column: str) -> SchemaLeaf:
        """Return the leaf of a given name.

        Raises
        ------
        UnknownColumnError
        """
        return find_leaf(self.leaves, column, self.path)

    def column_type(self, column: str) -> ColumnType:
        """Return the type of a column."""
        return type_of(self.leaf(column))

    def _add_path(self, error: ParquetBloomError) -> ParquetBloomError:
        error.path = error.path or self.path
        return error

    def record(self, row_group: int, leaf: SchemaLeaf) -> np.void:
        """Return the footer's record of a column chunk (see `metadata.thrift_compact.CHUNK_DTYPE`)."""
        if not 0 <= row_group < self.num_row_groups:
            raise UnknownColumnError(f"no row group {row_group}: the file has {self.num_row_groups}", path=self.path)
        try:
            return self.footer.chunk(row_group, leaf)
        except ParquetBloomError as error:
            raise self._add_path(error) from None

    def chunk(self, row_group: int, column: str | SchemaLeaf) -> ChunkFilter | None:
        """Return the filter of a column chunk, as located by the footer; None if it has none."""
        leaf = self.leaf(column) if isinstance(column, str) else column
        return self.make_chunk(row_group, leaf, self.record(row_group, leaf))

    def make_chunk(self, row_group: int, leaf: SchemaLeaf, record: np.void) -> ChunkFilter | None:
        """Return what `chunk` does, given the footer's record of the column chunk."""
        return ChunkFilter(self, row_group, leaf, record) if self.has_filter(record) else None

    def has_filter(self, record: np.void) -> bool:
        """Return whether the footer points to a filter, given a chunk's record; False also where that is encrypted."""
        return bool(record["filter_offset"] != -1 or record["filter_fields"] > 0)

    def chunks(
        self, row_groups: Iterable[int] | None = None, columns: Iterable[str] | None = None
    ) -> Iterator[ChunkFilter]:
        """Yield the filters of the file (of some row groups, some columns), by row group and then in schema order."""
        leaves = self.leaves
        if columns is not None:
            indices = {self.leaf(name).index for name in columns}
            leaves = [leaf for leaf in leaves if leaf.index in indices]
        for row_group in self.row_groups if row_groups is None else row_groups:
            for leaf in leaves:
                chunk = None
                with suppress(EncryptedFileError):  # encrypted metadata: the filter's location cannot be seen
                    chunk = self.chunk(row_group, leaf)
                if chunk is not None:
                    yield chunk

    def filter(self, row_group: int, column: str) -> SplitBlockBloomFilter:
        """Return the filter of a column chunk, bound to the column's type.

        Raises
        ------
        MissingFilterError
            The chunk has no filter.
        BrokenFilterError
            Its filter cannot be used.
        UnknownColumnError
            There is no such column or row group.
        """
        leaf = self.leaf(column)
        chunk = self.chunk(row_group, leaf)
        if chunk is None:
            raise MissingFilterError("no filter", path=self.path, row_group=row_group, column=leaf.name)
        return chunk.filter

    def has_values(self, row_group: int, column: str | SchemaLeaf) -> bool | None:
        """Return whether a column chunk holds a value that is not null; None where the footer does not say."""
        leaf = self.leaf(column) if isinstance(column, str) else column
        self.record(row_group, leaf)
        return self.footer.has_values(row_group, leaf)

    @cached_property
    def _page_sizes(self) -> np.ndarray | None:
        """Lengths of the column chunks' pages, where the footer's are wrong, as some drafts' writers left them."""
        if not self.is_draft:
            return None
        return drafts.page_sizes(self.footer, self._ends_by_header)

    def column_reader(self, leaf: SchemaLeaf) -> ColumnReader:
        """Return a reader of a column's stored values."""
        return ColumnReader(self.source, self.footer, leaf, self._page_sizes)

    @cached_property
    def _data_reach(self) -> tuple[list[int], list[int]]:
        """Starts of pages and page indexes, sorted, and for each the largest end of it and those before."""
        ranges = self.footer.data_ranges(self._page_sizes)
        ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
        return ranges[:, 0].tolist(), np.maximum.accumulate(ranges[:, 1]).tolist()

    def _holds_data(self, start: int, end: int) -> bool:
        """Return whether pages or page indexes overlap [start, end)."""
        starts, reach = self._data_reach
        count = bisect_left(starts, end)
        return count > 0 and reach[count - 1] > start

    @cached_property
    def _filter_spans(self) -> np.ndarray:
        """Offset, length (negative if unknown) and chunk number of all filters, by offset."""
        chunks = self.footer.chunks
        numbers = np.flatnonzero(chunks["filter_offset"] != -1)
        spans = np.empty(len(numbers), dtype=[("offset", np.int64), ("length", np.int64), ("chunk", np.int64)])
        spans["offset"], spans["length"] = chunks["filter_offset"][numbers], chunks["filter_length"][numbers]
        spans["chunk"] = numbers
        return np.sort(spans, order="offset", kind="stable")

    @cached_property
    def _filter_offsets(self) -> list[int]:
        return self._filter_spans["offset"].tolist()

    @cached_property
    def _filter_reach(self) -> list[float]:
        """Largest end of each of `_filter_spans` and those before it; inf where only the filter's header can tell."""
        spans = self._filter_spans
        reach = np.maximum.accumulate(spans["offset"] + np.maximum(spans["length"], 0)).astype(float)
        reach[spans["length"] < 0] = np.inf
        return reach.tolist()

    def _filter_end(self, number: int) -> int:
        """Return the end of a chunk's filter by its own header; its beginning if there is no header."""
        if number not in self._filter_ends:
            offset = int(self.footer.chunks["filter_offset"][number])
            end = offset
            if 0 <= offset < self.footer.start:
                end = self._end_by_header(offset)
            self._filter_ends[number] = end
        return self._filter_ends[number]

    def _end_by_header(self, offset: int) -> int:
        """Return the end of the filter that begins at an offset, by its header; the offset if there is no header."""
        with suppress(ParquetBloomError):
            header = (read_any if self.is_draft else read_header)(self._read_header_bytes(offset))
            return offset + header.header_bytes + max(0, header.num_bytes)
        return offset

    def _ends_by_header(self, offsets: list[int]) -> list[int]:
        """Return what `_end_by_header` does for many filters, whose headers are read at once."""
        unread = sorted({offset for offset in offsets if offset not in self._header_bytes})
        ranges = [(offset, min(MAX_HEADER_BYTES, self.footer.start - offset)) for offset in unread]
        self._header_bytes.update(zip(unread, self.source.read_ranges(ranges), strict=True))
        return [self._end_by_header(offset) for offset in offsets]

    def _read_header(self, data: bytes) -> FilterHeader:
        return read_header(data, self.variant) if isinstance(self.variant, Variant) else read_any(data)

    def _read_header_bytes(self, offset: int) -> bytes:
        """Return the bytes at a filter's offset, enough of them for any header."""
        if offset not in self._header_bytes:
            self._header_bytes[offset] = self.source.read_at(offset, min(MAX_HEADER_BYTES, self.footer.start - offset))
        return self._header_bytes[offset]

    def read_headers(self, chunks: Iterable[ChunkFilter]) -> None:
        """Read the headers of many of the file's filters at once, before they are used one by one.

        Raises
        ------
        TruncatedFileError, StorageError
            The file is shorter than it was, or cannot be read.
        """
        requested = {chunk.offset for chunk in chunks if not chunk.location_problem} - self._prepared
        if not requested:
            return
        prepared = frozenset(requested)
        # Where the footer gives no length, only the header of the filter before tells whether it reaches into this one.
        spans = self._filter_spans
        before = np.searchsorted(spans["offset"], np.fromiter(requested, np.int64)) - 1
        before = np.unique(before[before >= 0])
        nearest = spans["offset"][before[spans["length"][before] < 0]].tolist()
        requested.update(offset for offset in nearest if 0 <= offset < self.footer.start)
        offsets = sorted(offset for offset in requested if offset not in self._header_bytes)
        headers = self.source.read_ranges(
            (offset, min(MAX_HEADER_BYTES, self.footer.start - offset)) for offset in offsets
        )
        self._header_bytes.update(zip(offsets, headers, strict=True))
        self._prepared |= prepared

    def prefetch(self, chunks: Iterable[ChunkFilter], *, values: bool = False) -> None:
        """Have a store send filters together that are about to be read one by one, the first ones of many.

        Parameters
        ----------
        values : whether the values of their columns are read, too.

        Raises
        ------
        StorageError
            They cannot be read.
        """
        if self.source.path is not None:
            return
        spans: list[tuple[int, int]] = []
        room = _PREFETCHED_BYTES
        for chunk in chunks:
            if chunk.length is None or chunk.location_problem:
                continue
            needed = [(chunk.offset, chunk.length)]
            if values:
                size = int(self.record(chunk.row_group, chunk.leaf)["compressed_size"])
                needed.append((self.footer.first_page(chunk.row_group, chunk.leaf), size))
            room -= sum(length for _, length in needed)
            if room < 0:
                break
            spans += needed
        offsets, lengths = np.array(spans, np.int64).reshape(-1, 2).T
        self.source.prefetch(offsets, lengths)

    def _find_owner(self, number: int) -> tuple[int, str]:
        record: np.void = self.footer.chunks[number]
        column = int(record["column"])
        return int(record["row_group"]), self.leaves[column].name if column < len(self.leaves) else f"#{column}"


def parse_variant(variant: Variant | str | None) -> Variant | Literal["detect"]:
    """Parse the `variant` argument of `open`.

    Raises
    ------
    ValueError
        There is no such variant.
    """
    return "detect" if variant == DETECT else Variant.of(variant)


def open(
    path: FilePath,
    filesystem: FileSystem | None = None,
    *,
    storage_options: Mapping[str, object] | None = None,
    cache: MetadataCache | None = None,
    variant: Variant | str | None = None,
) -> BloomFile:
    """Open a Parquet file, by any writer, to read its filters.

    Parameters
    ----------
    path : str or path-like; a local path or a URL of an object store or web server.
    filesystem, storage_options : as in `prune`.
    cache : cache in which the footer is looked up and stored; None for none.
    variant : name of the draft of the format under which the filters are read; None for today's format. "detect" tries,
        filter by filter, each variant that its header allows on the first values of its column chunk; a filter cannot
        be used unless exactly one variant fits.

    Raises
    ------
    ValueError
        There is no such variant.
    StorageError
        The file cannot be opened.
    NotParquetError, TruncatedFileError, EncryptedFileError, MalformedFooterError
        It is not a Parquet file with a readable footer.

    Examples
    --------
    >>> with parquet_bloom.open("lake/day=2026-01-30/a.parquet") as file:
    ...     file.filter(0, "id").check([1401181143, -1]).tolist()
    [True, False]
    """
    parsed = parse_variant(variant)
    source = open_source(path, resolve_filesystem(filesystem, storage_options))
    try:
        return BloomFile(source, cache, variant=parsed)
    except BaseException:
        source.close()
        raise


def open_version(
    path: str, filesystem: FileSystem | None, cache: MetadataCache | None, identity: Hashable
) -> BloomFile:
    """Reopen a file, on object stores without a request that checks that it is the same version.

    There, reading another version raises ConcurrentChangeError; elsewhere compare `source.identity`.
    """
    source = open_source(path, filesystem, entry_for_identity(path, filesystem, identity))
    try:
        return BloomFile(source, cache)
    except BaseException:
        source.close()
        raise


def detect_variant(
    file: BloomFile, columns: Iterable[str] | None = None, row_groups: Iterable[int] | None = None
) -> Variant | None:
    """Return the one variant that all filters of a file (of some columns, some row groups) can have.

    Each variant that the filters' headers allow is tried on the first 1,024 distinct values of each column chunk.
    Returns None unless there is exactly one variant under which no filter denies a value, or if chance can explain the
    result, because values are few or nearly all bits are set.

    Parameters
    ----------
    file : an open file, under any variant.
    columns : dotted paths; None for all.
    row_groups : ordinals; None for all.

    Raises
    ------
    ParquetBloomError
        A filter or a column cannot be read.

    Examples
    --------
    >>> with parquet_bloom.open("old.parquet") as file:  # doctest: +SKIP
    ...     print(detect_variant(file))
    murmur3+mask+raw
    """
    trials = [
        chunk.trial() for chunk in file.with_variant("detect").chunks(row_groups, columns) if chunk.column_type.hashable
    ]
    trial = drafts.Trial.together(trials) if trials else None
    return trial.fitting[0] if trial and not trial.problem else None
