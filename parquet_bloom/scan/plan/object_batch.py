"""Evaluate a predicate on objects of a listing in batches, as `local_batch` does with local files.

A listing gives the ETag of each object, and so its version. Footer and filters of that very version that are in the
cache are used without a request; the ends of the other objects are read first, many at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility, StatisticsKey
from ...predicate.pruning import PruningPredicate
from ...storage import Entry, Extents, FileIdentity, FilterAnswers, LocalFileBatch
from ...storage.objects.batch import ClosedObject, listed_objects, read_tails
from ...util.threads import in_order
from ..model.file_scan import FileScan
from .footer_batch import OpenedFile
from .local_batch import (
    Batch,
    FileResult,
    add_statistics,
    evaluate_batches,
    group_by_layout,
)
from .parquet import predicate_columns

_NO_IDENTITY = FileIdentity(0, 0, 0, 0, 0)

_TAILS_PER_READ = 128  # objects whose ends are read at a time, while those before are parsed


def evaluate_objects(
    files: Sequence[FileScan],
    predicate: PruningPredicate | Literal[True],
    cache: MetadataCache | None,
    ignore_case: bool,
    trust: ColumnCompatibility | None,
    fail_fast: bool,
    at_once: int | None = None,
) -> dict[int, FileResult]:
    """Evaluate a predicate on the objects whose footers and filters are cached, or come with their last bytes.

    Parameters
    ----------
    files : the objects, as listed. Those that cannot be read get their errors; those that need a closer look after
        their ends were read get entries that know these.
    predicate, cache, ignore_case, trust : as in `local_batch.evaluate_local`.
    fail_fast : whether a store that does not answer is an error for all objects; see `storage.read_tails`.
    at_once : objects whose ends are read at a time; None for as many as the store's client takes.

    Returns
    -------
    {position in `files`: result} of those that were evaluated.

    Raises
    ------
    StorageError
        If `fail_fast` and a store does not answer.
    """
    key = StatisticsKey(tuple(predicate_columns(predicate)), ignore_case, trust)
    objects = listed_objects([file.entry for file in files])
    cached = [_find_cached(closed, cache) for closed in objects]
    footers: dict[int, CachedFooter] = {}
    costs: dict[int, tuple[int, int]] = {}
    opened: dict[int, Entry] = {}

    def make_batches() -> list[Batch]:
        known = []
        for position, (closed, entry) in enumerate(zip(objects, cached, strict=True)):
            footer = footers.get(position) if entry is None else entry[1]
            if closed is not None and footer is not None:
                cost = costs.get(position, (0, 0))
                known.append(OpenedFile(position, closed.name, closed.identity, footer, b"", *cost))
        members = add_statistics(known, key)
        return [
            Batch(group, _CachedRanges([file.footer.extents for file in group])) for group in group_by_layout(members)
        ]

    unread = [position for position, entry in enumerate(cached) if entry is None and objects[position] is not None]
    for positions, failures in _read_tails_ahead(unread, objects, fail_fast, at_once):
        for position in positions:
            closed = objects[position]
            assert closed is not None
            costs[position] = closed.requests, closed.bytes_read
            if position in failures:
                files[position].error = failures[position]
                continue
            footer = _parse_footer(closed, cache)
            if footer is None or cache is None:
                opened[position] = closed.entry()
            if footer is not None:
                footers[position] = footer
            closed.take_end(b"")
    paths = [file.entry.path for file in files]
    evaluated = evaluate_batches(paths, cached, key, predicate, cache, 1, make_batches)
    for position, entry in opened.items():
        if position not in evaluated:
            files[position].entry = entry
    return evaluated


def read_footers(entries: Sequence[Entry], cache: MetadataCache) -> list[BloomFile | None]:
    """Read the footers of listed objects, and put those that the cache lacks into it; the files are not open.

    Returns
    -------
    The file of each entry; None for entries that are not Parquet objects of a listing, or need a closer look.

    Raises
    ------
    StorageError
        A store does not answer.
    """
    objects = listed_objects(entries)
    cached = [_find_cached(closed, cache) for closed in objects]
    footers = [None if entry is None else entry[1] for entry in cached]
    unread = [position for position, entry in enumerate(cached) if entry is None and objects[position] is not None]
    for positions, failures in _read_tails_ahead(unread, objects, fail_fast=True):
        for position in positions:
            closed = objects[position]
            assert closed is not None
            if position not in failures:
                footers[position] = _parse_footer(closed, cache)
                closed.take_end(b"")
    return [
        None if closed is None or footer is None else BloomFile(closed, cached=footer)
        for closed, footer in zip(objects, footers, strict=True)
    ]


def _find_cached(closed: ClosedObject | None, cache: MetadataCache | None) -> tuple[object, CachedFooter] | None:
    footer = None if closed is None or cache is None else cache.find(closed)
    return None if footer is None or closed is None else (closed.identity, footer)


def _read_tails_ahead(
    unread: Sequence[int], objects: Sequence[ClosedObject | None], fail_fast: bool, at_once: int | None = None
) -> Iterator[tuple[list[int], dict[int, ParquetBloomError]]]:
    """Read the ends of objects in groups, each while the caller handles the group before."""
    if not unread:
        return

    def read(positions: list[int]) -> tuple[list[int], dict[int, ParquetBloomError]]:
        closed = [one for position in positions if (one := objects[position]) is not None]
        failures = read_tails(closed, fail_fast)
        return positions, {positions[i]: error for i, error in failures.items()}

    length = min(_TAILS_PER_READ, at_once or _TAILS_PER_READ)
    groups = [[*unread[start : start + length]] for start in range(0, len(unread), length)]
    with in_order(read, groups, 1) as results:
        yield from results


def _parse_footer(closed: ClosedObject, cache: MetadataCache | None) -> CachedFooter | None:
    """Parse the footer of an object whose end was read, and the filters before it; None if more must be read."""
    try:
        file = BloomFile(closed, cache)
    except ParquetBloomError:
        return None  # its footer is longer, or it is not a Parquet file: a closer look tells
    if cache is None:
        file.cache_filters()
    return file.cached


class _CachedRanges:
    """Filters of many objects, as far as they are in memory."""

    in_memory = True

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
        return batch.probe(first, filters, which, sets, threads)
