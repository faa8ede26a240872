"""Merge parts of postings by streaming their keys."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..part import PartInfo
from ..sorted_runs import sort_once
from .writer import LAST_HASH, MEMORY_LIMIT, write_sorted

if TYPE_CHECKING:
    from .reader import PostingsReader


def merge(
    parts: list[tuple[PostingsReader, NDArray[np.int64]]],
    path: str,
    filesystem: object | None,
    prefix_bits: int,
    num_units: int,
    memory_limit: int = MEMORY_LIMIT,
    scratch_folder: str | os.PathLike[str] | None = None,
) -> PartInfo:
    """Merge parts into one, which covers the hashes from the lowest to the highest that they cover.

    Parameters
    ----------
    parts : parts, each with the new numbers of its units, -1 for dropped ones.
    path, filesystem : the new part's file.
    prefix_bits : bits kept of a hash; at most the smallest of the parts'.
    num_units : number of units of the new part.
    memory_limit : bytes.
    scratch_folder : see `write_sorted`.

    Raises
    ------
    BrokenIndexError
        A part is damaged.
    """
    if not parts:
        return write_sorted(path, filesystem, [], prefix_bits, num_units)
    expected = 0
    for reader, remap in parts:
        if prefix_bits > reader.prefix_bits:
            raise ValueError(f"a part has {reader.prefix_bits} bits of each hash, not {prefix_bits}")
        if len(remap) != reader.num_units or (len(remap) and not -1 <= remap.min() <= remap.max() < num_units):
            raise ValueError("each unit of a part has one new number, or -1")
        kept = int((remap >= 0).sum()) / max(1, len(remap))
        expected += math.ceil(reader.info.num_entries * kept)
    chunk_bytes = max(1 << 14, memory_limit // (32 * len(parts)))
    streams = [_renumber(reader, remap, prefix_bits, chunk_bytes) for reader, remap in parts]
    first, last = min(reader.info.first for reader, _ in parts), max(reader.info.last for reader, _ in parts)
    return write_sorted(
        path,
        filesystem,
        _merge_streams(streams, prefix_bits),
        prefix_bits,
        num_units,
        first,
        last,
        expected,
        scratch_folder,
    )


def _renumber(
    reader: PostingsReader, remap: NDArray[np.int64], prefix_bits: int, chunk_bytes: int
) -> Iterator[NDArray[np.uint64]]:
    """Yield a part's keys with new units and prefixes, sorted by prefix only."""
    old = np.uint64(2 ** (64 - reader.prefix_bits) - 1)
    mask = np.uint64(2**64 - 2 ** (64 - prefix_bits))
    for keys in reader.keys(chunk_bytes):
        units = remap[(keys & old).astype(np.intp)]
        kept = units >= 0
        yield (keys[kept] & mask) | units[kept].astype(np.uint64)


def _merge_streams(streams: list[Iterator[NDArray[np.uint64]]], prefix_bits: int) -> Iterator[NDArray[np.uint64]]:
    """Merge streams of keys that are sorted by prefix; yield sorted keys without duplicates."""
    shift = 64 - prefix_bits
    waiting = [np.empty(0, np.uint64) for _ in streams]
    open_streams = set(range(len(streams)))
    short = set(open_streams)  # of which more is needed
    while open_streams or any(len(keys) for keys in waiting):
        for number in sorted(short):
            chunk = next(streams[number], None)
            if chunk is None:
                open_streams.discard(number)
            elif len(chunk):
                waiting[number] = np.concatenate([waiting[number], chunk])
        # All keys below the smallest last prefix of the open streams have been read.
        ends = {n: int(waiting[n][-1]) >> shift if len(waiting[n]) else 0 for n in open_streams}
        bound = min(ends.values()) << shift if ends else LAST_HASH + 1
        ready = []
        for number, keys in enumerate(waiting):
            cut = len(keys) if bound > LAST_HASH else int(np.searchsorted(keys, np.uint64(bound)))
            ready.append(keys[:cut])
            waiting[number] = keys[cut:]
        short = {number for number, end in ends.items() if end << shift == bound}
        keys = sort_once(np.concatenate(ready))
        if len(keys):
            yield keys
