"""Random tests that a seed decides, for a few seeds in the suite and for as long as one likes outside of it.

`PARQUET_BLOOM_HUNT_SECONDS=600` goes on with new seeds for so long; `PARQUET_BLOOM_HUNT_SEED` is the first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

FIRST_SEED = int(os.environ.get("PARQUET_BLOOM_HUNT_SEED", "0"))
SECONDS = float(os.environ.get("PARQUET_BLOOM_HUNT_SECONDS", "0"))


def seeds(count: int) -> Iterator[int]:
    """So many seeds, and more until the time is over."""
    deadline = time.monotonic() + SECONDS
    seed = FIRST_SEED
    while seed < FIRST_SEED + count or time.monotonic() < deadline:
        yield seed
        seed += 1
