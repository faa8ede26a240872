"""Merge parts of the layout "cuckoo"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....errors import BrokenIndexError
from ..part import PartInfo

if TYPE_CHECKING:
    from .reader import CuckooReader
from .writer import _PIECE_BYTES, MEMORY_LIMIT, write_part


def merge(
    parts: Sequence[tuple[CuckooReader, NDArray[np.int64]]],
    path: str,
    filesystem: object | None = None,
    *,
    num_units: int,
    memory_limit: int = MEMORY_LIMIT,
) -> PartInfo:
    """Merge parts into one, without removed units; this needs no hashes.

    Parameters
    ----------
    parts : parts, each with the new numbers of its units, -1 for removed ones. Units with the same new number are
        combined.
    path, filesystem : the new part's file.
    num_units : number of units of the new part.
    memory_limit : approximate bytes; four times one row of all parts has to fit in any case.

    Raises
    ------
    BrokenIndexError
        A part is damaged.
    ValueError
        There is no part, or they do not have the same number of buckets and the same fingerprints.
    """
    layouts = {(reader.layout.num_buckets, reader.layout.fingerprint_bits) for reader, _ in parts}
    if len(layouts) != 1:
        raise ValueError("parts of the same number of buckets and the same fingerprints can be merged")
    layout = parts[0][0].layout
    for reader, remap in parts:
        if len(remap) != reader.num_units or (len(remap) and int(np.max(remap)) >= num_units):
            raise ValueError(f"{reader.path}: its units need a new number each, below {num_units}")
    # Runs of slots that are neighbours in the old part and in the new one are copied as one.
    news = np.concatenate([remap for _, remap in parts])
    slots = np.concatenate([reader.slots for reader, _ in parts]).astype(np.int64)
    from_part = np.repeat(np.arange(len(parts)), [reader.num_units for reader, _ in parts])
    positions = np.concatenate([reader.first_slots[:-1] for reader, _ in parts]).astype(np.int64)
    used = (news >= 0) & (slots > 0)
    news, slots, from_part, positions = (array[used] for array in (news, slots, from_part, positions))
    order = np.argsort(news, kind="stable")
    news, slots, from_part, positions = (array[order] for array in (news, slots, from_part, positions))
    new_slots = np.bincount(news, slots, minlength=num_units).astype(np.int64)
    if new_slots.max(initial=0) >= 1 << 32:
        raise ValueError("a unit has too many slots")
    total = int(slots.sum())

    def rows() -> Iterator[NDArray[Any]]:
        widest = total + sum(int(reader.first_slots[-1]) for reader, _ in parts)
        step = max(1, min(_PIECE_BYTES, memory_limit // 4) // max(1, 2 * widest * layout.dtype.itemsize))
        # the position of each new slot in the concatenated slots of all parts
        bases = np.concatenate([[0], np.cumsum([int(reader.first_slots[-1]) for reader, _ in parts])])
        breaks = np.ones(len(news), np.bool_)
        starts = bases[from_part] + positions
        breaks[1:] = starts[1:] != starts[:-1] + slots[:-1]
        heads = np.flatnonzero(breaks)
        lengths = np.add.reduceat(slots, heads) if len(heads) else np.empty(0, np.int64)
        begins = starts[heads]
        piecewise = len(heads) * 64 < total
        chosen = (
            None
            if piecewise
            else np.repeat(begins - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(total)
        )
        for first in range(0, layout.num_buckets, step):
            count = min(step, layout.num_buckets - first)
            old = np.concatenate([_read_valid_rows(reader, first, count) for reader, _ in parts], axis=1)
            if chosen is not None:
                yield np.take(old, chosen, axis=1)
                continue
            new = np.empty((count, total), layout.dtype)
            position = 0
            for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
                new[:, position : position + length] = old[:, begin : begin + length]
                position += length
            yield new

    return write_part(path, filesystem, layout, new_slots.astype(np.uint32), rows(), num_entries=None)


def _read_valid_rows(reader: CuckooReader, first: int, count: int) -> NDArray[Any]:
    rows, damaged = reader.read_rows(first, count)
    if damaged.any():
        raise BrokenIndexError(f"row {first + int(damaged.argmax())} does not fit its checksum", path=reader.path)
    return rows
