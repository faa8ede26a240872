"""Estimates over the row groups of a lake: how far ranges leave them to be read, and how many hold the same value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...hashing.column_type import Domain
from .survey import BOUND_BYTES, SKETCH, Sample

_PARTS = 4  # of a range: where one ends and the next begins its values are thought to be
_LARGEST = 1e300  # of numbers that are reckoned with


def share_in_range(spans: Sequence[tuple[Domain, Domain]], unknown: int = 0) -> float:
    """The share of row groups that min and max leave to be read, for a value somewhere within some row group's range.

    Parameters
    ----------
    spans : (min, max) of row groups.
    unknown : number of row groups besides of which no range is known: they are always read.
    """
    total = len(spans) + unknown
    if not spans or not total:
        return 1.0
    lows, highs = _as_numbers(spans)
    # Multiplied instead of divided: whole numbers, however large, stay what they are.
    points = np.concatenate([lows * _PARTS + (highs - lows) * part for part in range(1, _PARTS)])
    begun = np.searchsorted(np.sort(lows) * _PARTS, points, "right")
    inside = begun - np.searchsorted(np.sort(highs) * _PARTS, points, "left")
    return float((np.maximum(inside, 1).mean() + unknown) / total)


def share_of_equal_bounds(spans: Sequence[tuple[Domain, Domain]]) -> tuple[float, float] | None:
    """Of pairs of row groups the share that have the same min, and the same max; None where that cannot be told.

    Row groups that draw their values from the same few agree on both. Where values are many, and each in few row
    groups, hardly any two agree: the smallest value of two row groups is in both as often as any other of theirs.
    """
    ends = [end for span in spans for end in span]
    if len(spans) < 2 or any(isinstance(end, bytes) and len(end) >= BOUND_BYTES for end in ends):
        return None  # a text that was cut says no more than how texts begin
    pairs = len(spans) * (len(spans) - 1)
    lows, highs = (Counter(ends).values() for ends in zip(*spans, strict=True))
    return sum(n * (n - 1) for n in lows) / pairs, sum(n * (n - 1) for n in highs) / pairs


def _as_numbers(spans: Sequence[tuple[Domain, Domain]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both ends of ranges as numbers in the same order.

    Texts are whole numbers of all their bytes: one text unlike the others, such as an empty one, would leave the first
    few bytes of these the same.
    """
    ends = [end for span in spans for end in span]
    values: NDArray[Any]
    if texts := [end for end in ends if isinstance(end, bytes)]:
        length = max(map(len, texts))
        values = np.array([int.from_bytes(text.ljust(length, b"\0"), "big") for text in texts], np.object_)
    else:
        values = np.array([float(end) for end in ends], np.float64)
        values = np.nan_to_num(values, posinf=_LARGEST, neginf=-_LARGEST).clip(-_LARGEST, _LARGEST)
    return values[0::2], values[1::2]


def share_in_common(files: Sequence[Sequence[Sample]], mates: float = 0.0) -> float | None:
    """The chance that a value of one row group is in another one, too; None where fewer than two were read.

    Row groups of one file may well have more in common than those of two, as where files are buckets of a key.

    Parameters
    ----------
    files : of each file the row groups that were read.
    mates : of all other row groups of the lake the share that are in the same file.
    """
    within = _share([pair for samples in files for pair in permutations(samples, 2)])
    across = _share([pair for one, other in permutations(files, 2) for pair in product(one, other)])
    if within is None or across is None:
        return across if within is None else within
    return within * mates + across * (1 - mates)


def _share(pairs: Sequence[tuple[Sample, Sample]]) -> float | None:
    """The chance that a value of a pair's first row group is in its second, too.

    Of each row group the smallest hashes are known. Up to the smaller of two row groups' largest known hash these are
    all that each has, and a fair choice of its values.
    """
    shares = []
    for one, other in pairs:
        if not one.ndv:
            continue
        limit = min((sample.sketch[-1] for sample in (one, other) if sample.ndv > SKETCH), default=None)
        mine = one.sketch if limit is None else one.sketch[one.sketch <= limit]
        if len(mine):
            shares.append(float(np.isin(mine, other.sketch, assume_unique=True).mean()))
    return sum(shares) / len(shares) if shares else None


def fpp_apart(fpp: float, together: int) -> float:
    """The false-positive probability that each of some filters may have, so that all of them together have `fpp`.

    Parameters
    ----------
    fpp : of a reader that takes all of their row groups, or none: it does when one filter of them says "maybe".
    together : number of the filters.
    """
    return fpp if together <= 1 else -math.expm1(math.log1p(-fpp) / together)


def fpp_together(fpp: float, together: int) -> float:
    """The other way round: how often one at least of some filters says "maybe", if each does so at `fpp`."""
    return fpp if together <= 1 or fpp >= 1 else -math.expm1(math.log1p(-fpp) * together)


def distinct_ratio(known: Iterable[tuple[int, int]]) -> float | None:
    """Distinct values a value, within a row group, of (distinct, values) of some; None where nothing is known."""
    distinct = values = 0
    for ndv, num_values in known:
        distinct += min(ndv, num_values)
        values += num_values
    return distinct / values if values else None
