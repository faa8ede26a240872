"""Fetch column chunks of remote files: some chunks per request, many files concurrently, each byte once."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from ...errors import ParquetBloomError
from ...file.fingerprint import ColumnFingerprint
from ...file.page_checks import ReadRange
from ...file.values import DISTANT_WINDOW_BYTES
from ...metadata.footer import Leaf
from ...storage import Source
from ...util.threads import stoppable_pool, wait_for_result

T = TypeVar("T")

_TOGETHER_BYTES = DISTANT_WINDOW_BYTES  # fetched together, of one file; longer chunks are streamed
_SIDE_BY_SIDE = 64


class FetchedChunks:
    """Some column chunks of a file, available after `fetch`.

    Attributes
    ----------
    num_bytes : bytes of all chunks.
    """

    def __init__(self, source: Source, spans: dict[tuple[int, int], tuple[int, int]]):
        self._source, self._spans = source, spans
        self.num_bytes = sum(length for _, length in spans.values())
        self._data: dict[tuple[int, int], memoryview] = {}

    def fetch(self) -> None:
        """Read the chunks in few requests; the end of the file that the source has cached is not read again."""
        kept_from = self._source.size - len(self._source.kept[0])
        ranges = [(start, stop) for at, length in self._spans.values() for start, stop in _cut(at, length, kept_from)]
        starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
        data, offset_in_data = self._source.gather(starts, stops - starts).data, 0
        for key, (_, length) in self._spans.items():
            self._data[key] = data[offset_in_data : offset_in_data + length]
            offset_in_data += length

    def find_chunk(self, row_group: int, leaf: Leaf) -> tuple[memoryview, ReadRange] | None:
        """Return the bytes of a chunk, and what reads its file but for them; None if it was not fetched."""
        data = self._data.get((row_group, leaf.index))
        if data is None:
            return None
        chunk_start = self._spans[row_group, leaf.index][0]

        def read(offset: int, length: int) -> bytes | memoryview:
            start = offset - chunk_start
            inside = 0 <= start <= start + length <= len(data)
            return data[start : start + length] if inside else self._source.read_at(offset, length)

        return data, read


def _cut(offset: int, length: int, at: int) -> list[tuple[int, int]]:
    """Return a range as (start, stop), cut in two where position `at` is inside of it."""
    stop = offset + length
    return [(offset, at), (at, stop)] if offset < at < stop else [(offset, stop)]


class Fetching:
    """Reads the column chunks of a file once, both for their values and for the file's fingerprint.

    Parameters
    ----------
    source, sums : the file, and the checksums of its indexed columns.
    """

    def __init__(self, source: Source, sums: ColumnFingerprint):
        self._source, self.sums = source, sums

    def group_row_groups(self, row_groups: Iterable[int]) -> Iterator[tuple[FetchedChunks, list[int]]]:
        """Yield row groups whose column chunks are fetched together, in order; long chunks are left out."""
        leaves = {leaf for _, leaf in self.sums.spans}
        some: list[int] = []
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        total = 0
        for row_group in row_groups:
            new_spans = {(row_group, leaf): self.sums.spans[row_group, leaf] for leaf in leaves}
            new_spans = {key: span for key, span in new_spans.items() if span[1] <= _TOGETHER_BYTES}
            more = sum(length for _, length in new_spans.values())
            if some and total + more > _TOGETHER_BYTES:
                yield FetchedChunks(self._source, spans), some
                some, spans, total = [], {}, 0
            some.append(row_group)
            spans |= new_spans
            total += more
        if some:
            yield FetchedChunks(self._source, spans), some

    @contextmanager
    def chunk(self, chunks: FetchedChunks, row_group: int, leaf: Leaf) -> Iterator[ReadRange]:
        """Yield what reads a column chunk; on exit it is added to the sums, even if it was not read to its end."""
        fetched = chunks.find_chunk(row_group, leaf)
        if fetched is not None:
            data, read = fetched
            self.sums.add_chunk(row_group, leaf.index, data)
            yield read
            return
        streamed = self.sums.stream_chunk(self._source, row_group, leaf.index)
        yield streamed.read
        streamed.complete()


def fetch_ahead(
    tasks: Iterable[tuple[T, FetchedChunks | None]], most_bytes: int
) -> Generator[tuple[T, ParquetBloomError | None], None, None]:
    """Yield tasks in their order when their chunks have been fetched, with the error if that failed.

    Parameters
    ----------
    most_bytes : limit of fetched bytes that wait; a single task may exceed it.
    """
    waiting: deque[tuple[T, int, Future[ParquetBloomError | None] | None]] = deque()
    total = 0
    with stoppable_pool(_SIDE_BY_SIDE) as pool:
        try:
            for task, chunks in tasks:
                size = 0 if chunks is None else chunks.num_bytes
                while waiting and (_has_come(waiting[0]) or len(waiting) >= _SIDE_BY_SIDE or total + size > most_bytes):
                    first, num_bytes, future = waiting.popleft()
                    yield first, None if future is None else wait_for_result(future)
                    total -= num_bytes
                waiting.append((task, size, None if chunks is None else pool.submit(_fetch, chunks)))
                total += size
            while waiting:
                first, num_bytes, future = waiting.popleft()
                yield first, None if future is None else wait_for_result(future)
        finally:
            for _, _, future in waiting:
                if future is not None:
                    future.cancel()


def _has_come(waiting: tuple[T, int, Future[ParquetBloomError | None] | None]) -> bool:
    return waiting[2] is None or waiting[2].done()


def _fetch(chunks: FetchedChunks) -> ParquetBloomError | None:
    try:
        chunks.fetch()
    except ParquetBloomError as error:
        return error
    return None
