"""Groups of objects in stores: versions are known from a listing, and the ends of many are read at a time.

A listing gives the ETag of each object, and so its version. Footer and filters of that very version that are in the
cache are used without a request; the ends of the other objects are read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...metadata.footer import Footer
from ...storage import Entry, Extents, FileIdentity, FilterAnswers, LocalFileBatch
from ...storage.objects.batch import ClosedObject, listed_objects, read_tails
from ...util.threads import in_order
from .statistics import OpenedFile, parse_ends

_NO_IDENTITY = FileIdentity(0, 0, 0, 0, 0)

_TAILS_PER_READ = 128  # objects whose ends are read at a time, while those before are parsed


class ListedObjects:
    """A `FileGroup` of listed objects, whose footers and filters are cached, or come with their last bytes.

    Parameters
    ----------
    entries : the objects, as listed.
    cache : cached footers, to which those read are added; None for none.
    fail_fast : whether a store that does not answer is an error for all objects, StorageError; see `read_tails`.
    at_once : objects whose ends are read at a time; None for as many as the store's client takes.

    Attributes
    ----------
    failures : {position: the error of an object whose end cannot be read}.
    read : {position: entry that knows the last bytes} of objects that may need a closer look after these were read.
    """

    def __init__(
        self, entries: Sequence[Entry], cache: MetadataCache | None, fail_fast: bool, at_once: int | None = None
    ):
        self.paths = [entry.path for entry in entries]
        self.cached: list[tuple[object, CachedFooter] | None] = []
        self.failures: dict[int, ParquetBloomError] = {}
        self.read: dict[int, Entry] = {}
        self._objects = listed_objects(entries)
        for closed in self._objects:
            footer = None if closed is None or cache is None else cache.find(closed.name, closed.identity)
            self.cached.append(None if footer is None or closed is None else (closed.identity, footer))
        self._cache = cache
        self._fail_fast = fail_fast
        self._length = min(_TAILS_PER_READ, at_once or _TAILS_PER_READ)

    def read_footers(self) -> Iterator[list[OpenedFile]]:
        """See `FileGroup.read_footers`: objects are read in groups, each while the one before is handled."""
        unread = [
            (position, closed)
            for position, (closed, entry) in enumerate(zip(self._objects, self.cached, strict=True))
            if entry is None and closed is not None
        ]
        if not unread:
            return
        groups = [unread[start : start + self._length] for start in range(0, len(unread), self._length)]
        with in_order(self._read_tails, groups, 1) as results:
            for members in results:
                opened = []
                parsed = parse_ends([(closed.size, closed.end) for _, closed in members])
                for (position, closed), (_, footer) in zip(members, parsed, strict=True):
                    cached = self._cache_footer(closed, footer)
                    if cached is None or self._cache is None:
                        self.read[position] = closed.entry()
                    if cached is not None:
                        cost = closed.requests, closed.bytes_read
                        opened.append(OpenedFile(position, closed.name, closed.identity, cached, b"", *cost))
                    closed.take_end(b"")
                yield opened

    def find_unchanged(self) -> Iterator[tuple[int, ClosedObject, CachedFooter]]:
        """See `FileGroup.find_unchanged`: the listing tells."""
        for position, (closed, entry) in enumerate(zip(self._objects, self.cached, strict=True)):
            if closed is not None and entry is not None:
                yield position, closed, entry[1]

    def make_reader(self, files: Sequence[OpenedFile]) -> _CachedRanges:
        """See `FileGroup.make_reader`."""
        return _CachedRanges([file.footer.extents for file in files])

    def _read_tails(self, group: list[tuple[int, ClosedObject]]) -> list[tuple[int, ClosedObject]]:
        """Read the ends of objects; return those that could be read."""
        failures = read_tails([closed for _, closed in group], self._fail_fast)
        self.failures |= {group[i][0]: error for i, error in failures.items()}
        return [one for i, one in enumerate(group) if i not in failures]

    def _cache_footer(self, closed: ClosedObject, footer: Footer | None) -> CachedFooter | None:
        """Cache the footer of an object whose end was read, and the filters before it; None if more must be read."""
        cache, cached = self._cache, None
        try:
            if footer is not None:
                cached = CachedFooter(footer)
                if cache is not None:
                    cached = cache.keep(closed.name, closed.identity, cached)
            file = BloomFile(closed, cache, cached)
        except ParquetBloomError:
            return None  # its footer is longer, or it is not a Parquet file: a closer look tells
        if cache is None:
            file.cache_filters()
        return file.cached


class _CachedRanges:
    """Filters of many objects, as far as they are in memory."""

    def __init__(self, extents: Sequence[Extents]):
        self._extents = extents

    def probe(
        self,
        first: NDArray[np.int64],
        filters: NDArray[np.int64],
        which: NDArray[np.int64],
        sets: Sequence[NDArray[np.uint64]],
        threads: int = 1,
    ) -> FilterAnswers:
        """See `storage.LocalFileBatch.probe`; an object with a filter that is not in memory counts as changed."""
        probed = np.flatnonzero(np.diff(first)).tolist()
        batch = LocalFileBatch(
            [None] * len(self._extents),
            [_NO_IDENTITY] * len(self._extents),
            {i: self._extents[i].items() for i in probed},
        )
        none = np.zeros(len(self._extents), np.int64)
        return batch.probe(first, filters, which, sets, threads)._replace(requests=none, num_bytes=none)
