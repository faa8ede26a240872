"""Estimates over the row groups of a lake: the share that min and max cannot skip, and the share with a given value."""

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

_PARTS = 4  # of a range: values are assumed to lie between the parts
_LARGEST = 1e300  # larger numbers are clipped to it


def share_in_range(spans: Sequence[tuple[Domain, Domain]], unknown: int = 0) -> float:
    """Estimate the share of row groups that min and max cannot skip, for a value within some row group's range.

    Parameters
    ----------
    spans : (min, max) of row groups.
    unknown : number of other row groups, without a known range: these are always read.
    """
    total = len(spans) + unknown
    if not spans or not total:
        return 1.0
    lows, highs = _as_numbers(spans)
    # Multiplied instead of divided, so that integers of any size stay exact.
    points = np.concatenate([lows * _PARTS + (highs - lows) * part for part in range(1, _PARTS)])
    begun = np.searchsorted(np.sort(lows) * _PARTS, points, "right")
    inside = begun - np.searchsorted(np.sort(highs) * _PARTS, points, "left")
    return float((np.maximum(inside, 1).mean() + unknown) / total)


def share_of_equal_bounds(spans: Sequence[tuple[Domain, Domain]]) -> tuple[float, float] | None:
    """Return the shares of pairs of row groups with the same min, and with the same max; None if they are unknown.

    Row groups that draw their values from the same few agree on both. If there are many values, each in few row groups,
    hardly any two agree: the smallest value of two row groups is in both as often as any other of their values.
    """
    ends = [end for span in spans for end in span]
    if len(spans) < 2 or any(isinstance(end, bytes) and len(end) >= BOUND_BYTES for end in ends):
        return None  # a truncated text only shows how texts begin
    pairs = len(spans) * (len(spans) - 1)
    lows, highs = (Counter(ends).values() for ends in zip(*spans, strict=True))
    return sum(n * (n - 1) for n in lows) / pairs, sum(n * (n - 1) for n in highs) / pairs


def _as_numbers(spans: Sequence[tuple[Domain, Domain]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Convert both ends of ranges to numbers in the same order.

    Texts become integers of all their bytes: with only the first few bytes, a single different text, such as an empty
    one, would make all others equal.
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
    """Estimate the probability that a value of one row group is also in another; None if fewer than two were read.

    Row groups of one file may have more in common than those of two, for example if files are buckets of a key.

    Parameters
    ----------
    files : the row groups that were read, by file.
    mates : share of the lake's other row groups that are in the same file.
    """
    within = _share([pair for samples in files for pair in permutations(samples, 2)])
    across = _share([pair for one, other in permutations(files, 2) for pair in product(one, other)])
    if within is None or across is None:
        return across if within is None else within
    return within * mates + across * (1 - mates)


def _share(pairs: Sequence[tuple[Sample, Sample]]) -> float | None:
    """Estimate the probability that a value of a pair's first row group is also in its second.

    The smallest hashes of each row group are known. Up to the smaller of the two row groups' largest known hashes they
    are complete, and a fair sample of the values.
    """
    shares = []
    for one, other in pairs:
        if not one.ndv:
            continue
        limit = min((sample.sketch[-1] for sample in (one, other) if sample.ndv > SKETCH), default=None)
        sample = one.sketch if limit is None else one.sketch[one.sketch <= limit]
        if len(sample):
            shares.append(float(np.isin(sample, other.sketch, assume_unique=True).mean()))
    return sum(shares) / len(shares) if shares else None


def fpp_apart(fpp: float, together: int) -> float:
    """Return the false-positive probability that each of some filters may have so that all together have `fpp`.

    Parameters
    ----------
    fpp : target for a reader that reads all of their row groups as soon as one of the filters answers "maybe".
    together : number of filters.
    """
    return fpp if together <= 1 else -math.expm1(math.log1p(-fpp) / together)


def fpp_together(fpp: float, together: int) -> float:
    """Return the probability that at least one of some filters answers "maybe", if each does so at `fpp`."""
    return fpp if together <= 1 or fpp >= 1 else -math.expm1(math.log1p(-fpp) * together)


def distinct_ratio(counts: Iterable[tuple[int, int]]) -> float | None:
    """Return the ratio of distinct values to values, given (distinct, values) of row groups; None if there are none."""
    distinct = values = 0
    for ndv, num_values in counts:
        distinct += min(ndv, num_values)
        values += num_values
    return distinct / values if values else None
