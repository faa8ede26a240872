"""Two objects on the S3 server that are rewritten: a small one by one PUT, a large one by copies of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.storage import Rewrite
from parquet_bloom.storage.objects.location import ObjectStores
from parquet_bloom.storage.objects.object_source import ObjectSource
from parquet_bloom.storage.objects.object_state import PROBE
from parquet_bloom.storage.objects.s3_rewrite import PartSizes, rewrite_elsewhere, rewrite_in_place

KEY = "lake/a.parquet"
TAIL = b"filters and footer"
CUT = 100  # bytes at the end of the old object that the new one does not have
PART = 20_000  # in place of S3's 5 MiB
SIZES = PartSizes(smallest=PART, copied=PART)
OLD = {"small": np.random.default_rng(1).bytes(3000), "large": np.random.default_rng(2).bytes(2 * PART + 5000)}
NEW = {size: old[:-CUT] + TAIL for size, old in OLD.items()}


def opened(s3: Any, key: str = KEY) -> ObjectSource:
    """An object as embed opens it; the log then begins anew."""
    location = ObjectStores(s3.storage_options).locate(s3.url(key))
    assert location is not None
    source = ObjectSource(location)
    s3.clear_log()
    return source


def write(new: Rewrite | None, length: int) -> None:
    """All steps of a rewrite but the opening."""
    assert new is not None
    with new:
        new.copy_prefix(length)
        new.write(TAIL[:7])
        new.write(TAIL[7:])
        assert new.tell() == length + len(TAIL)
        new.commit()


def replace(
    s3: Any, size: str, harm: Callable[[], Any] = lambda: None, target: str = KEY
) -> ParquetBloomError | KeyboardInterrupt | None:
    """Rewrite the object, in place or to another key; `harm` is done when it has been opened. Returns the error."""
    caught: ParquetBloomError | KeyboardInterrupt | None = None
    with opened(s3) as source:
        harm()
        try:
            write(
                rewrite_in_place(source, SIZES)
                if target == KEY
                else rewrite_elsewhere(source, source.location.at(target), SIZES),
                len(OLD[size]) - CUT,
            )
        except (ParquetBloomError, KeyboardInterrupt) as error:
            caught = error
    assert "\n" not in str(caught)
    return caught


def is_of_object(request: Any) -> bool:
    """Return whether a request is for an object itself, and not for the one on which a bucket shows what it does."""
    return PROBE not in request.key


def operations(s3: Any, of_object: bool = True) -> list[str]:
    """Names of the operations so far on objects themselves, or on what a bucket shows what it does on."""
    return [request.operation for request in s3.log if is_of_object(request) == of_object]
