"""`detect_variant`: which variant the filters of a file are of, by what its columns hold."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.bloom.variants import Variant
from .drafts.trial import Trial
from .reader import BloomFile


def detect_variant(
    file: BloomFile, columns: Iterable[str] | None = None, row_groups: Iterable[int] | None = None
) -> Variant | None:
    """The one variant that all filters of a file (of some columns, some row groups) can be of.

    Each variant that the filters' headers allow is tried on values of their column chunks, the first 1,024 distinct
    ones of each. None if not exactly one is left under which no filter denies a value, or if chance can explain that it
    is left: the values are few, or nearly all bits are set.

    Parameters
    ----------
    file : an open file, under whichever variant.
    columns : dotted paths; None for all.
    row_groups : ordinals; None for all.

    Raises
    ------
    ParquetBloomError
        A filter or a column cannot be read.

    Examples
    --------
    >>> with parquet_bloom.open("old.parquet") as file:  # doctest: +SKIP
    ...     print(parquet_bloom.detect_variant(file))
    murmur3+mask+raw
    """
    trials = [
        chunk.trial() for chunk in file.with_variant("detect").chunks(row_groups, columns) if chunk.column_type.hashable
    ]
    together = Trial.together(trials) if trials else None
    return together.fitting[0] if together and not together.problem else None
