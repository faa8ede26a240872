"""Objects of a listing judged together, as `known` does it with local files.

A listing tells the etag of each object, and so which version it is. What the cache has of that very version, footer and
filters, is believed without a request; of the others the ends are read first, many at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.cache.entry import CachedFooter
from ...file.cache.memory import MetadataCache
from ...file.reader import BloomFile
from ...file.statistics import ColumnCompatibility, cached_statistics
from ...predicate.pruning import PruningPredicate
from ...storage import ClosedObject, Entry, Extents, listed_objects, read_tails
from ...util.threads import in_order
from .local_batch import Batch, KnownFile, LocalResult, StatisticsKey, by_layout, facts_or_none, judge_together
from .parquet import columns_of

TOGETHER = 1024  # objects that are judged at a time

_TAILS = 128  # objects whose ends are read at a time, while those before are being parsed


class JudgedObjects(NamedTuple):
    """What became of objects, by their positions among those that were asked for.

    Attributes
    ----------
    judged : of those that were judged.
    errors : of those that could not be read.
    entries : of those whose ends were read, and that need a closer look all the same.
    """

    judged: dict[int, LocalResult]
    errors: dict[int, ParquetBloomError]
    entries: dict[int, Entry]


def judge_objects(
    entries: Sequence[Entry],
    decider: PruningPredicate | Literal[True],
    cache: MetadataCache | None,
    ignore_case: bool,
    trust: ColumnCompatibility | None,
    fail_fast: bool,
    at_once: int | None = None,
) -> JudgedObjects:
    """Judge those of some objects whose footers and filters are in memory, or come with their last bytes.

    Parameters
    ----------
    entries : as listed.
    decider, cache, ignore_case, trust : as in `known.judge_local`.
    fail_fast : whether a store that does not answer is an error of all; see `storage.read_tails`.
    at_once : objects whose ends are read at a time; None for as many as the store's client takes.

    Raises
    ------
    StorageError
        If `fail_fast` and a store does not answer.
    """
    asked = StatisticsKey(tuple(columns_of(decider)), ignore_case, trust)
    objects = listed_objects(entries)
    known = [_known(closed, cache) for closed in objects]
    errors: dict[int, ParquetBloomError] = {}
    found: dict[int, CachedFooter] = {}
    costs: dict[int, tuple[int, int]] = {}
    opened: dict[int, Entry] = {}

    def batches() -> list[Batch]:
        files: list[KnownFile] = []
        for position, (closed, of_cache) in enumerate(zip(objects, known, strict=True)):
            footer = found.get(position) if of_cache is None else of_cache[1]
            if closed is None or footer is None:
                continue
            facts = cached_statistics(footer, asked) or facts_or_none(BloomFile(closed, cached=footer), asked)
            if facts is not None:
                cost = costs.get(position, (0, 0))
                files.append(KnownFile(position, closed.name, closed.identity, footer, facts, None, *cost))
        return [Batch(some, _Remembered([file.known.extents for file in some])) for some in by_layout(files)]

    unread = [position for position, one in enumerate(known) if one is None and objects[position] is not None]
    for some, failures in _read_in_turn(unread, objects, fail_fast, at_once):
        for position in some:
            closed = objects[position]
            assert closed is not None
            costs[position] = closed.requests, closed.bytes_read
            if position in failures:
                errors[position] = failures[position]
                continue
            footer = _parsed(closed, cache)
            if footer is None or cache is None:
                opened[position] = closed.entry()
            if footer is not None:
                found[position] = footer
            closed.take_end(b"")
    paths = [entry.path for entry in entries]
    judged = judge_together(paths, known, asked, decider, cache, 1, batches)
    opened = {position: entry for position, entry in opened.items() if position not in judged}
    return JudgedObjects(judged, errors, opened)


def footers_of(entries: Sequence[Entry], cache: MetadataCache) -> list[BloomFile | None]:
    """The footers of listed objects, which are put into the cache where it lacks them; the files are not open.

    Returns
    -------
    For each entry its file; None for what is no Parquet object of a listing, or whose footer takes a closer look.

    Raises
    ------
    StorageError
        A store does not answer.
    """
    objects = listed_objects(entries)
    known = [_known(closed, cache) for closed in objects]
    footers = [None if one is None else one[1] for one in known]
    unread = [position for position, one in enumerate(known) if one is None and objects[position] is not None]
    for some, failures in _read_in_turn(unread, objects, fail_fast=True):
        for position in some:
            closed = objects[position]
            assert closed is not None
            if position not in failures:
                footers[position] = _parsed(closed, cache)
                closed.take_end(b"")
    return [
        None if closed is None or footer is None else BloomFile(closed, cached=footer)
        for closed, footer in zip(objects, footers, strict=True)
    ]


def _known(closed: ClosedObject | None, cache: MetadataCache | None) -> tuple[object, CachedFooter] | None:
    footer = None if closed is None or cache is None else cache.find(closed)
    return None if footer is None or closed is None else (closed.identity, footer)


def _read_in_turn(
    unread: Sequence[int], objects: Sequence[ClosedObject | None], fail_fast: bool, at_once: int | None = None
) -> Iterator[tuple[list[int], dict[int, ParquetBloomError]]]:
    """Read the ends of objects, some at a time, while the caller is at work on those before."""
    if not unread:
        return

    def read(some: list[int]) -> tuple[list[int], dict[int, ParquetBloomError]]:
        closed = [one for position in some if (one := objects[position]) is not None]
        failures = read_tails(closed, fail_fast)
        return some, {some[number]: error for number, error in failures.items()}

    length = min(_TAILS, at_once or _TAILS)
    runs = [[*unread[start : start + length]] for start in range(0, len(unread), length)]
    with in_order(read, runs, 1) as done:
        yield from done


def _parsed(closed: ClosedObject, cache: MetadataCache | None) -> CachedFooter | None:
    """The footer of an object whose end was read, with the filters that stand before it; None if it takes more."""
    try:
        file = BloomFile(closed, cache)
    except ParquetBloomError:
        return None  # its footer is longer, or it is no Parquet file: a closer look tells
    if cache is None:
        file.cache_filters()
    return file.cached


class _Remembered:
    """Filters of many objects, as far as they are in memory."""

    in_memory = True

    def __init__(self, extents: Sequence[Extents]):
        self._extents = extents

    def visit(
        self, start: int, stop: int, first: NDArray[np.int64], offsets: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """See `storage.KnownFiles.visit`; a file of which a range is not in memory counts as another one by now."""
        data = np.zeros((len(offsets), length), np.uint8)
        complete = np.ones(stop - start, np.bool_)
        inside = np.arange(length)
        bounds = first.tolist()
        for number, extents in enumerate(self._extents[start:stop]):
            begin, end = bounds[number], bounds[number + 1]
            if begin == end:
                continue
            wanted = offsets[begin:end]
            missing = np.ones(end - begin, np.bool_)
            for offset, extent in extents.items():
                here = missing & (wanted >= offset) & (wanted + length <= offset + len(extent))
                if here.any():
                    data[begin:end][here] = extent[(wanted[here] - offset)[:, np.newaxis] + inside]
                    missing &= ~here
            complete[number] = not missing.any()
        return data, complete
