"""Test tiers: the default run, CI, and everything.

`tests/conftest.py` chooses whole tests by these names; a test whose cases are many asks here for its part of them.

Attributes
----------
TIER : "default", "ci" or "all".
SHARE : (k, n): of the long campaigns this run has the k-th of n parts; (0, 1) is all of them.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

TIERS = ("default", "ci", "all")
SHARES = 60  # that CI divides the long campaigns into: one takes some three minutes
TIER_VARIABLE = "PARQUET_BLOOM_TIER"
SHARE_VARIABLE = "PARQUET_BLOOM_SHARE"


def parse_share(text: str) -> tuple[int, int]:
    """Parse "K/N", K from 0 to N - 1, as two numbers; raise ValueError for anything else."""
    part, _, parts = text.partition("/")
    k, n = int(part), int(parts)
    if not 0 <= k < n:
        raise ValueError(f"share {text!r}: K/N with 0 <= K < N is wanted")
    return k, n


TIER = os.environ.get(TIER_VARIABLE, "default")
SHARE = parse_share(os.environ.get(SHARE_VARIABLE, "0/1"))


def by_tier(default: T, ci: T, everything: T) -> T:
    """Choose a number (of examples, seeds, mutants) by the tier of this run."""
    return {"default": default, "ci": ci, "all": everything}[TIER]


def some(cases: Sequence[T], one_in: int) -> Sequence[T]:
    """Choose some of the cases: one in so many by default, three times as many in CI, others in each of its runs."""
    step = by_tier(one_in, max(one_in // 3, 1), 1)
    return cases[SHARE[0] % step :: step]


def share_of(cases: Sequence[T]) -> Sequence[T]:
    """Choose this run's share of a long campaign's cases; all of them where all is run."""
    if TIER == "all":
        return cases
    k, n = SHARE if SHARE[1] > 1 else (0, SHARES)
    return cases[k::n]


def in_share(name: str) -> bool:
    """Say whether a test of the long campaigns, given by its node id, belongs to this run's share."""
    k, n = SHARE
    return zlib.crc32(name.encode()) % n == k
